"""Errors as one line: our own from a worker's trace, Spark's, Java's, the database's."""

from __future__ import annotations

import pymysql
import pytest

from spark_connector.errors import QueueError
from spark_connector.jobs.failures import JobError, one_line


class Java:
    """An exception of Java as Py4J shows it."""

    def __init__(self, text, cause=None):
        self._text, self._cause = text, cause

    def toString(self):
        return self._text

    def getCause(self):
        return self._cause


class Py4J(Exception):
    def __init__(self, java):
        super().__init__("An error occurred while calling o46.mkdirs.\n\tat java.base/x\n")
        self.java_exception = java


TRACE = """Job aborted due to stage failure: Task 0 failed 1 times: org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/x/client.py", line 9, in f
spark_connector.errors.QueueError: there is no queue 'x' in database 'main'

\tat org.apache.spark.api.python.BasePythonRunner"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (JobError("it is\nso"), "it is so"),
        (QueueError("there is none"), "there is none"),
        (Py4J(Java("org.apache.spark.SparkException: " + TRACE)), "there is no queue 'x' in database 'main'"),
        (
            Py4J(Java("java.io.IOException: failed", Java("java.io.FileNotFoundException: /x (Permission denied)"))),
            "FileNotFoundException: /x (Permission denied)",
        ),
        (
            Py4J(Java("org.apache.spark.sql.AnalysisException: [PATH_NOT_FOUND] No such path: /x. SQLSTATE: 42K03")),
            "[PATH_NOT_FOUND] No such path: /x.",
        ),
        (Py4J(Java("x", Java("java.lang.RuntimeException: file:/b.parquet is not a Parquet file. Expected"))),
         "file:/b.parquet is not a Parquet file, or is damaged"),
        (pymysql.OperationalError(1205, "Lock wait timeout"), "the database says: error 1205: Lock wait timeout"),
        (ValueError(), "ValueError"),
    ],
)  # fmt: skip
def test_one_line(error, line):
    assert one_line(error) == line


def test_a_line_is_bounded():
    assert len(one_line(JobError("x" * 5000))) == 500

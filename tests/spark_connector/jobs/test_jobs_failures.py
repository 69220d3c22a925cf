"""Errors as one line: our own from a worker's trace, Spark's, Java's, the database's."""

from __future__ import annotations

import pyarrow as pa
import pymysql
import pytest
from reading import described, options

from spark_connector.errors import ConnectorError, QueueError
from spark_connector.jobs.archive.intervals import Interval
from spark_connector.jobs.archive.slices import reader
from spark_connector.jobs.failures import JobError, one_line
from spark_connector.options import queue_address


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


PYTHON_TRACE = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the \
Python worker: Traceback (most recent call last):
  File "/x/rows.py", line 9, in f
    raise it
{first}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/worker.py", line 9, in main
    process()
{last}
 SQLSTATE: XXKST
\tat org.apache.spark.api.python.BasePythonRunner"""
MALFORMED = PYTHON_TRACE.format(first="KeyError: 3", last="pymysql.err.OperationalError: (2027, 'Malformed packet')")
STOPPED = PYTHON_TRACE.format(first="ValueError", last="TypeError: a number is needed: not 'x'")
ENDED = PYTHON_TRACE.format(first="ValueError", last="KeyboardInterrupt")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Py4J(Java(MALFORMED)), "the database says: error 2027: Malformed packet"),
        (Py4J(Java(STOPPED)), "a task failed: TypeError: a number is needed: not 'x'"),
        (Py4J(Java(ENDED)), "a task failed: KeyboardInterrupt"),
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


def test_a_task_of_the_archive_tells_what_the_database_says(gate, sql, queue):
    name = queue()
    sql(f"INSERT INTO {name} (payload) VALUES ('a')")
    sql(f"ACK {name} WHERE payload = 'a'")
    address = queue_address(options(gate, name)).address
    read = reader(address, described(gate, name), (), [Interval(0, 1 << 62)], Counter())
    numbers = [pa.record_batch({"id": [0]})]
    assert sum(batch.num_rows for batch in read(iter(numbers))) == 1
    sql(f"DROP QUEUE {name}")
    with pytest.raises(ConnectorError, match=r"error 1146") as caught:
        list(read(iter(numbers)))
    assert one_line(Py4J(Java(PYTHON_TRACE.format(first="KeyError", last=trace_of(caught.value))))).count("1146") == 1


class Counter:
    def add(self, count):
        pass


def trace_of(error):
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


def test_a_line_is_bounded():
    assert len(one_line(JobError("x" * 5000))) == 500

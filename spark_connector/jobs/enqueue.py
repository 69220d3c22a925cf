"""enqueue: the rows of any DataFrame, or of files, become messages; all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from spark_connector.jobs.console import SILENT, Console
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.publishing import Enqueued, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json", "orc")
_STRICT = ("csv", "json")  # Spark would read malformed values there as NULL


def read(spark: SparkSession, path: str, form: str, options: Mapping[str, str]) -> DataFrame:
    """The rows of files. A malformed line is an error, unless `options` contain a `mode`."""
    if form not in FORMATS:
        raise JobError(f"files are read as one of {', '.join(FORMATS)}, not {form!r}")
    strict = {"mode": "FAILFAST"} if form in _STRICT and "mode" not in {name.lower() for name in options} else {}
    return spark.read.format(form).options(**strict, **options).load(path)


def enqueue(
    spark: SparkSession,
    options: Mapping[str, str],
    rows: DataFrame,
    *,
    select: Sequence[str] = (),
    key_column: str | None = None,
    run: str | None = None,
    console: Console = SILENT,
) -> Enqueued:
    """Enqueues the rows, each as a message with the columns that have the queue's names.

    `select`: expressions of Spark's SQL with names, as in `total * 100 AS cents`. `key_column`: a unique key of the
    queue; rows whose key exists are skipped. `run`: a second run of that name adds nothing.
    """
    chosen = rows.selectExpr(*select) if select else rows
    return publish(spark, chosen, options, job="enqueue", run=run, key=key_column, console=console)

"""Runs a job from a parsed command line, and prints its result."""

from __future__ import annotations

import csv
import io
import json
import logging
import sys
import traceback
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING

from spark_connector import options
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe
from spark_connector.jobs.archive.job import Archived, archive
from spark_connector.jobs.arguments import connection, parse
from spark_connector.jobs.console import Console
from spark_connector.jobs.dead_letters import analysis
from spark_connector.jobs.dead_letters.job import dead_letters
from spark_connector.jobs.failures import JobError, one_line
from spark_connector.jobs.publishing import Enqueued
from spark_connector.jobs.replay import Chosen, OfTopic, Preview, preview, replay
from spark_connector.jobs.report import values
from spark_connector.jobs.report.job import report
from spark_connector.jobs.report.page import page
from spark_connector.jobs.report.text import moment, text
from spark_connector.jobs.report.values import Measure, Report, measures
from spark_connector.jobs.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from typing import TYPE_CHECKING

from spark_connector.jobs.console import SILENT
from spark_connector.jobs.publishing import publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE, FAILED, INTERRUPTED = 0, 1, 130
_Run = Callable[["SparkSession", Mapping[str, str], Namespace, Console], str]


def main(arguments: Sequence[str]) -> int:
    """Runs a job; its exit code. The result goes to stdout, progress and errors to stderr."""
    args = parse(arguments)
    console = Console(None if args.quiet else sys.stderr)
    try:
        output = _run(args, console)
    except KeyboardInterrupt:
        sys.stderr.write(f"{args.job}: interrupted; nothing is half done\n")
        return INTERRUPTED
    except Exception as error:
        if args.verbose:
            traceback.print_exc()
        sys.stderr.write(f"{args.job}: {one_line(error)}\n")
        return FAILED
    if output:
        sys.stdout.write(output + "\n")
    return DONE


def _run(args: Namespace, console: Console) -> str:
    to = connection(args)
    _check_connection(to, args.queue)
    if not args.verbose:
        warnings.simplefilter("ignore", FutureWarning)  # of pyspark about pandas
        logging.getLogger(
            "SQLQueryContextLogger"
        ).disabled = True  # pyspark's: Java traces of errors that are reported anyway
    with session(args.job, args.master, dict(args.conf), verbose=args.verbose) as spark:
        return _JOBS[args.job](spark, to, args, console)


def _check_connection(to: Mapping[str, str], queue: str | None) -> None:
    """Checks the connection and the queue's name before Spark starts."""
    at = options.queue_address(to if queue is not None else {**to, "queue": "-"})
    with Client(at.address) as client:
        if queue is not None:
            describe(client, queue)


def _archive(spark: SparkSession, to: Mapping[str, str], args: Namespace, console: Console) -> str:
    done = archive(
        spark, to, args.path, margin_seconds=args.margin, wait_seconds=args.wait, rows_per_file=args.rows_per_file,
        console=console,
    )  # fmt: skip
    return _archived(done)


def _archived(done: Archived) -> str:
    again = f"{len(done.recovered)} intervals of a run that was broken off count now; " if done.recovered else ""
    return (
        f"{again}{done.messages:,} messages of {done.queue} archived to {done.path}; "
        f"archived until {moment(done.until)} UTC ({done.until})"
    )


def _report(spark: SparkSession, to: Mapping[str, str], args: Namespace, console: Console) -> str:
    result = report(spark, to, archive=args.archive, only_archive=args.only_archive, per=args.per, console=console)
    if args.html is not None:
        _save(args.html, page(result).encode())
        console.write_line(f"page written to {args.html}")
    if args.format == "parquet":
        _parquet(args.output, result)
        return f"written to {args.output}"
    output = _FORMATS[args.format](result)
    if args.output is None:
        return output
    _save(args.output, f"{output}\n".encode())
    return f"written to {args.output}"


def _csv(result: Report) -> str:
    to = io.StringIO()
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow([field.name for field in fields(Measure)])
    writer.writerows(astuple(row) for row in measures(result))
    return to.getvalue().rstrip("\n")


def _json(result: Report) -> str:
    return json.dumps(values.as_data(result), indent=2, ensure_ascii=False)


_FORMATS: Mapping[str, Callable[[Report], str]] = {"table": text, "json": _json, "csv": _csv}


def _parquet(path: str, result: Report) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [("section", "string"), ("queue", "string"), ("name", "string"), ("at", "int64"), ("value", "float64")]
    )
    rows = [{field.name: getattr(row, field.name) for field in fields(Measure)} for row in measures(result)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    _save(path, sink.getvalue().to_pybytes())


def _save(path: str, content: bytes) -> None:
    """Writes a local file atomically."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.new")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    except OSError as error:
        raise JobError(f"cannot write {path}: {error.strerror}") from error


def _dead_letters(spark: SparkSession, to: Mapping[str, str], args: Namespace, console: Console) -> str:
    result = dead_letters(spark, to, export=args.export, console=console)
    if args.format == "json":
        return json.dumps(analysis.as_data(result), indent=2, ensure_ascii=False)
    return analysis.text(result)


def _replay(spark: SparkSession, to: Mapping[str, str], args: Namespace, console: Console) -> str:
    chosen = Chosen(args.from_day, args.to_day, args.where)
    source = args.archive if args.from_topic is None else OfTopic(args.from_topic)
    if args.dry_run:
        return _previewed(preview(spark, to, source, chosen, args.drop_missing))
    done = replay(
        spark, to, source, args.run, chosen=chosen, select=args.select, key_column=args.key_column,
        drop_missing=args.drop_missing, console=console,
    )  # fmt: skip
    return _enqueued(done)


def _previewed(result: Preview) -> str:
    days = [f"{day}  {count:,}" for day, count in result.days]
    return "\n".join(
        [*days, f"{result.messages:,} messages would be enqueued in {result.queue}, with {', '.join(result.columns)}"]
    )


def _enqueue(spark: SparkSession, to: Mapping[str, str], args: Namespace, console: Console) -> str:
    rows = read(spark, args.input, args.format, dict(args.option))
    done = enqueue(spark, to, rows, select=args.select, key_column=args.key_column, run=args.run, console=console)
    return _enqueued(done)


def _enqueued(done: Enqueued) -> str:
    if done.repeated:
        return f"nothing enqueued: run {done.run} has enqueued {done.messages:,} messages in {done.queue} before"
    return f"{done.messages:,} messages enqueued in {done.queue}"


_JOBS: Mapping[str, _Run] = {
    "archive": _archive,
    "report": _report,
    "dead-letters": _dead_letters,
    "replay": _replay,
    "enqueue": _enqueue,
}


# enqueue: the rows of any DataFrame, or of files, become messages; all of them or none.

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

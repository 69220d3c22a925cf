"""From a parsed command line to a job, and from its result to what is printed."""

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
from spark_connector.jobs.enqueue import enqueue, read
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

DONE, FAILED, INTERRUPTED = 0, 1, 130
_Run = Callable[["SparkSession", Mapping[str, str], Namespace, Console], str]


def main(arguments: Sequence[str]) -> int:
    """Runs a job; its exit code. What it found goes to stdout, progress and errors to stderr."""
    given = parse(arguments)
    console = Console(None if given.quiet else sys.stderr)
    try:
        said = _run(given, console)
    except KeyboardInterrupt:
        sys.stderr.write(f"{given.job}: interrupted; nothing is half done\n")
        return INTERRUPTED
    except Exception as error:
        if given.verbose:
            traceback.print_exc()
        sys.stderr.write(f"{given.job}: {one_line(error)}\n")
        return FAILED
    if said:
        sys.stdout.write(said + "\n")
    return DONE


def _run(given: Namespace, console: Console) -> str:
    to = connection(given)
    _look(to, given.queue)
    if not given.verbose:
        warnings.simplefilter("ignore", FutureWarning)  # of pyspark about pandas
        logging.getLogger("SQLQueryContextLogger").disabled = True  # pyspark's: Java traces of errors that we tell of
    with session(given.job, given.master, dict(given.conf), verbose=given.verbose) as spark:
        return _JOBS[given.job](spark, to, given, console)


def _look(to: Mapping[str, str], queue: str | None) -> None:
    """What is wrong with the connection or the queue's name is said before Spark has started."""
    at = options.place(to if queue is not None else {**to, "queue": "-"})
    with Client(at.address) as client:
        if queue is not None:
            describe(client, queue)


def _archive(spark: SparkSession, to: Mapping[str, str], given: Namespace, console: Console) -> str:
    done = archive(
        spark, to, given.path, margin_seconds=given.margin, wait_seconds=given.wait, rows_per_file=given.rows_per_file,
        console=console,
    )  # fmt: skip
    return _archived(done)


def _archived(done: Archived) -> str:
    again = f"{len(done.recovered)} intervals of a run that was broken off count now; " if done.recovered else ""
    return (
        f"{again}{done.messages:,} messages of {done.queue} archived to {done.path}; "
        f"archived until {moment(done.until)} UTC ({done.until})"
    )


def _report(spark: SparkSession, to: Mapping[str, str], given: Namespace, console: Console) -> str:
    found = report(spark, to, archive=given.archive, only_archive=given.only_archive, per=given.per, console=console)
    if given.html is not None:
        _save(given.html, page(found).encode())
        console.say(f"page written to {given.html}")
    if given.format == "parquet":
        _parquet(given.output, found)
        return f"written to {given.output}"
    said = _FORMATS[given.format](found)
    if given.output is None:
        return said
    _save(given.output, f"{said}\n".encode())
    return f"written to {given.output}"


def _csv(found: Report) -> str:
    to = io.StringIO()
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow([field.name for field in fields(Measure)])
    writer.writerows(astuple(row) for row in measures(found))
    return to.getvalue().rstrip("\n")


def _json(found: Report) -> str:
    return json.dumps(values.as_data(found), indent=2, ensure_ascii=False)


_FORMATS: Mapping[str, Callable[[Report], str]] = {"table": text, "json": _json, "csv": _csv}


def _parquet(path: str, found: Report) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [("section", "string"), ("queue", "string"), ("name", "string"), ("at", "int64"), ("value", "float64")]
    )
    rows = [{field.name: getattr(row, field.name) for field in fields(Measure)} for row in measures(found)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    _save(path, sink.getvalue().to_pybytes())


def _save(path: str, content: bytes) -> None:
    """A local file, there as a whole or as it was."""
    target = Path(path)
    made = target.with_name(f".{target.name}.new")
    try:
        made.write_bytes(content)
        made.replace(target)
    except OSError as error:
        raise JobError(f"cannot write {path}: {error.strerror}") from error


def _dead_letters(spark: SparkSession, to: Mapping[str, str], given: Namespace, console: Console) -> str:
    found = dead_letters(spark, to, export=given.export, console=console)
    if given.format == "json":
        return json.dumps(analysis.as_data(found), indent=2, ensure_ascii=False)
    return analysis.text(found)


def _replay(spark: SparkSession, to: Mapping[str, str], given: Namespace, console: Console) -> str:
    chosen = Chosen(given.from_day, given.to_day, given.where)
    source = given.archive if given.from_topic is None else OfTopic(given.from_topic)
    if given.dry_run:
        return _previewed(preview(spark, to, source, chosen, given.drop_missing))
    done = replay(
        spark, to, source, given.run, chosen=chosen, select=given.select, key_column=given.key_column,
        drop_missing=given.drop_missing, console=console,
    )  # fmt: skip
    return _enqueued(done)


def _previewed(found: Preview) -> str:
    days = [f"{day}  {count:,}" for day, count in found.days]
    return "\n".join(
        [*days, f"{found.messages:,} messages would be enqueued in {found.queue}, with {', '.join(found.columns)}"]
    )


def _enqueue(spark: SparkSession, to: Mapping[str, str], given: Namespace, console: Console) -> str:
    rows = read(spark, given.input, given.format, dict(given.option))
    done = enqueue(spark, to, rows, select=given.select, key_column=given.key_column, run=given.run, console=console)
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

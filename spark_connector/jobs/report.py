"""report: how a database's queues are, and one of them in detail, from its table, from its archive, or from both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_connector.client import Client
from spark_connector.jobs.archive_folder import ArchiveFolder
from spark_connector.jobs.console import SILENT, Console
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.report_frames import archived, live, reckon
from spark_connector.jobs.report_values import QueueLine, QueueReport, Report
from spark_connector.jobs.sessions import watched
from spark_connector.options import place
from spark_connector.queue import Queue, describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUEUES = """
SELECT queue, ready, in_flight, retrying, scheduled, acked, oldest_ready_age FROM queuegate.queues
WHERE db = DATABASE() ORDER BY ready + in_flight + retrying + scheduled DESC, queue"""
TOP = 20
_ANY = "-"  # where no queue is asked for: the options want one


def report(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    archive: str | None = None,
    only_archive: bool = False,
    per: str = "auto",
    console: Console = SILENT,
) -> Report:
    """The report on the database's queues, and in detail on the one that `options` name, if they do.

    `archive`: the folder of that queue's archive; `only_archive`: leave its table out. `per`: minute, hour, day or
    auto, what the rates are per. Raises ConnectorError.
    """
    named = any(name.lower() in ("queue", "path") for name in options)
    at = place(options if named else {**options, "queue": _ANY})
    with Client(at.address) as client:
        now = client.now_ns()
        queues = tuple(
            QueueLine(str(q), int(a), int(b), int(c), int(d), int(e), None if age is None else float(age))
            for q, a, b, c, d, e, age in client.rows(_QUEUES)[:TOP]
        )
        queue = describe(client, at.queue) if named else None
    if queue is None and archive is not None:
        raise JobError("an archive is one queue's: name the queue too")
    detail = _detail(spark, options, queue, archive, only_archive, now, per, console) if queue else None
    return Report(now, at.address.database, queues, detail)


def _detail(
    spark: SparkSession,
    options: Mapping[str, str],
    queue: Queue,
    archive: str | None,
    only_archive: bool,
    now: int,
    per: str,
    console: Console,
) -> QueueReport:
    folder = ArchiveFolder(spark, archive) if archive is not None else None
    if folder is not None:
        folder.insist()
    intervals = folder.published() if folder is not None else []
    sources = [] if only_archive else [live(spark, options, queue, intervals)]
    if folder is not None and intervals:
        sources.append(archived(folder, intervals))
    if not sources:
        raise JobError("there is nothing to report on: the archive is empty, or none was given")
    with console.phase("reckoning") as phase, watched(spark, phase):
        found = reckon(queue.name, sources, now, per)
        phase.count = sum(found.states.values())
    return found

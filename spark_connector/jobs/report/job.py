"""report: the state of a database's queues and groups, and details of a queue, from its table, its archive, or both, or
of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_connector.client.connection import Client, Row
from spark_connector.client.queue import PURGE_AFTER, Queue, describe
from spark_connector.jobs.archive.folder import ArchiveFolder
from spark_connector.jobs.archive.intervals import Interval
from spark_connector.jobs.console import SILENT, Console
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.report.frames import archived, compute, compute_topic, live
from spark_connector.jobs.report.values import NS, TOP, Coverage, GroupSummary, QueueReport, QueueSummary, Report
from spark_connector.jobs.sessions import watched
from spark_connector.options import queue_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUEUES = """
SELECT queue, ready, in_flight, retrying, scheduled, acked, dead, oldest_ready_age, counted FROM queuegate.queues
WHERE db = DATABASE() ORDER BY ready + in_flight + retrying + scheduled DESC, queue"""
_GROUPS = "SHOW GROUPS"
_ANY = "-"  # a placeholder if no queue is named: the options require one


def report(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    archive: str | None = None,
    only_archive: bool = False,
    per: str = "auto",
    console: Console = SILENT,
) -> Report:
    """The report on the database's queues and groups, and in detail on the queue or topic that `options` name, if any.

    `archive`: the folder of that queue's archive; `only_archive`: leave its table out. `per`: minute, hour, day or
    auto: the bucket of rates. Raises ConnectorError.
    """
    named = any(name.lower() in ("queue", "path", "topic", "subscribe") for name in options)
    at = queue_address(options if named else {**options, "queue": _ANY})
    with Client(at.address) as client:
        now = client.now_ns()
        queues = tuple(map(_queue_summary, client.rows(_QUEUES)))
        groups = tuple(
            _group_summary(row) for row in client.dict_rows(_GROUPS) if row["database"] == at.address.database
        )
        queue = describe(client, at.queue) if named else None
    if queue is None and archive is not None:
        raise JobError("an archive is one queue's: name the queue too")
    if queue is None:
        return Report(now, at.address.database, queues[:TOP], None, groups)
    if queue.is_topic:
        if archive is not None:
            raise JobError(f"topic {queue.name} has no archive: what is in a topic stays until it is deleted")
        with console.phase("reckoning") as phase, watched(spark, phase):
            topic = compute_topic(spark, options, queue.name, now, per)
            phase.count = topic.messages
        of_topic = tuple(group for group in groups if group.topic == queue.name)
        return Report(now, at.address.database, queues[:TOP], None, of_topic, topic)
    dead = next((each.dead for each in queues if each.queue == queue.name), 0)
    detail = _detail(spark, options, queue, archive, only_archive, dead, now, per, console)
    return Report(now, at.address.database, tuple(_consistent(each, detail) for each in queues[:TOP]), detail, groups)


def _queue_summary(row: Row) -> QueueSummary:
    queue, *counts, age, counted = row
    ready, in_flight, retrying, scheduled, acked, dead = map(int, counts)
    oldest = None if age is None else float(age)
    return QueueSummary(str(queue), ready, in_flight, retrying, scheduled, acked, dead, oldest, counted == "exact")


def _group_summary(row: Mapping[str, Any]) -> GroupSummary:
    numbers = ("offset", "unread", "lost", "ready", "waiting", "in_flight", "dead")
    offset, unread, lost, ready, waiting, in_flight, dead = (int(row[name] or 0) for name in numbers)
    names = (str(row["topic"]), str(row["group"]), str(row["queue"]))
    return GroupSummary(*names, offset, unread, lost, ready, waiting, in_flight, dead, row["counted"] == "exact")


def _consistent(summary: QueueSummary, detail: QueueReport) -> QueueSummary:
    """Replaces the summary of the detailed queue: counts of two moments would contradict each other."""
    if summary.queue != detail.queue or "acked" not in detail.states:
        return summary
    of = detail.states
    return replace(
        summary, ready=of["ready"], in_flight=of["in_flight"], retrying=of["retrying"], scheduled=of["scheduled"],
        acked=of["acked"], oldest_ready=detail.oldest_due, exact=True,
    )  # fmt: skip


def _detail(
    spark: SparkSession,
    options: Mapping[str, str],
    queue: Queue,
    archive: str | None,
    only_archive: bool,
    dead: int,
    now: int,
    per: str,
    console: Console,
) -> QueueReport:
    folder = ArchiveFolder(spark, archive) if archive is not None else None
    if folder is not None:
        folder.check_is_archive()
    intervals = folder.published() if folder is not None else []
    sources = [] if only_archive else [live(spark, options, queue, intervals)]
    if folder is not None and intervals:
        sources.append(archived(folder, intervals))
    if not sources:
        raise JobError("there is nothing to report on: the archive is empty, or none was given")
    with console.phase("reckoning") as phase, watched(spark, phase):
        coverage = _coverage(queue, intervals, now, only_archive=only_archive)
        result = compute(queue.name, sources, dead, now, coverage, per)
        phase.count = sum(result.states.values())
    return result


def _coverage(queue: Queue, intervals: Sequence[Interval], now: int, *, only_archive: bool) -> Coverage:
    """The covered time: messages acked before it may be purged; archived ones stay."""
    if intervals:
        return Coverage(intervals[0].after, intervals[-1].until if only_archive else now)
    purge_after = float(queue.options.get("vt_purge_after", PURGE_AFTER))
    return Coverage(now - int(purge_after * NS), now)

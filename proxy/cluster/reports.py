"""One worker's report of its numbers, and its form in messages between workers."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.model.queue import QueueName, QueueStatus
from proxy.cluster.questions import Item

_STATM = Path("/proc/self/statm")
_SELF, _QUEUE, _SCHEDULES = "self", "queue", "schedules"


@dataclass(slots=True)
class WorkerReport:
    """One worker process: its clients, its queues, and what it costs."""

    worker: int
    connections: int
    streams: int
    memory_bytes: int
    cpu_seconds: float
    queues: list[QueueStatus] = field(default_factory=list)
    schedules_overdue: dict[str, float] = field(default_factory=dict)
    """By database, for how many seconds the tick that waits longest is due; of the worker that sends."""


def own_report(
    worker: int, connections: int, streams: int, queues: Sequence[QueueStatus], overdue: Mapping[str, float]
) -> WorkerReport:
    """Of this process, now."""
    seconds = time.process_time()
    return WorkerReport(worker, connections, streams, _memory_bytes(), seconds, list(queues), dict(overdue))


def _memory_bytes() -> int:
    """Resident memory; where the kernel does not report it, the maximum so far."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """What one process has counted since it started, wherever it serves this database. `process`: a name of its own,
    which no other start of it has. `seconds`: how long ago it started."""

    process: str
    seconds: float
    queues: tuple[QueueStatus, ...]


def counts_items(counts: ProcessCounts) -> list[Item]:
    """As items of an answer. A queue that has counted nothing has none."""
    counted = (status for status in counts.queues if any(status.counters.values()) or any(status.delays))
    return [[counts.process, counts.seconds], *([counts.process, *status_item(status)] for status in counted)]


def counts_of(items: Iterable[Item]) -> list[ProcessCounts]:
    """Of all whose items these are. Items of another version in another form are left out."""
    seconds: dict[str, float] = {}
    queues: dict[str, list[QueueStatus]] = {}
    for item in items:
        try:
            process, *rest = item
            if len(rest) == 1:
                seconds[str(process)] = float(rest[0])
            else:
                queues.setdefault(str(process), []).append(status_of(rest))
        except (TypeError, ValueError):
            continue
    return [ProcessCounts(process, age, tuple(queues.get(process, ()))) for process, age in seconds.items()]


def report_items(report: WorkerReport) -> list[Item]:
    """A report as items of an answer, each small enough for a message of its own."""
    first = [_SELF, report.worker, report.connections, report.streams, report.memory_bytes, report.cpu_seconds]
    queues = ([_QUEUE, report.worker, *status_item(status)] for status in report.queues)
    schedules = ([_SCHEDULES, report.worker, *one] for one in report.schedules_overdue.items())
    return [first, *queues, *schedules]


def reports_of(items: Iterable[Item]) -> list[WorkerReport]:
    """The reports of all whose items these are."""
    reports: dict[int, WorkerReport] = {}
    for kind, worker, *rest in items:
        if kind == _SELF:
            reports[worker] = WorkerReport(worker, *rest)
        elif kind == _SCHEDULES:
            database, seconds = rest
            reports[worker].schedules_overdue[database] = seconds
        else:
            reports[worker].queues.append(status_of(rest))
    return list(reports.values())


def status_item(status: QueueStatus) -> Item:
    """A QueueStatus as an item."""
    return [
        status.name.database,
        status.name.table,
        status.subscribers,
        status.cached,
        status.in_flight,
        dict(status.counters),
        list(status.delays),
        status.delay_seconds,
        status.alarms,
        status.receivers,
        list(map(list, status.refused)),
        status.refuses_all,
        status.failing,
    ]


def status_of(item: Item) -> QueueStatus:
    """The inverse of `status_item`."""
    database, table, subscribers, cached, in_flight, counters, delays, seconds, alarms, *more = item
    counts = (subscribers, cached, in_flight)
    receivers = more[0] if more else subscribers  # a proxy of version 0.1.0 reports only open streams
    refused = tuple((str(id_), str(text)) for id_, text in more[1]) if len(more) > 1 else ()
    name = QueueName(database, table)
    refuses_all = len(more) > 2 and bool(more[2])
    failing = str(more[3]) if len(more) > 3 else ""
    trouble = (refused, refuses_all, failing)
    return QueueStatus(name, *counts, counters, tuple(delays), seconds, receivers, alarms, *trouble)


def summed(one: QueueStatus, other: QueueStatus) -> QueueStatus:
    """Two workers' statuses of one queue as one."""
    names = {*one.counters, *other.counters}
    alike = len(one.delays) == len(other.delays)  # another version may have other buckets
    return QueueStatus(
        one.name,
        one.subscribers + other.subscribers,
        one.cached + other.cached,
        one.in_flight + other.in_flight,
        {name: one.counters.get(name, 0) + other.counters.get(name, 0) for name in names},
        tuple(map(sum, zip(one.delays, other.delays, strict=True))) if alike else one.delays,
        one.delay_seconds + other.delay_seconds * alike,
        one.receivers + other.receivers,
        one.alarms + other.alarms,
        tuple({**dict(other.refused), **dict(one.refused)}.items()),
        one.refuses_all or other.refuses_all,
        one.failing or other.failing,
    )

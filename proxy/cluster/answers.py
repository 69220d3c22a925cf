"""Answers: what this process answers to the questions of the others, and how answers travel between processes."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from mysql_mimic.constants import KillKind

from engine.engine import Engine
from engine.history.writer import own_place
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import QueueName, ReceiverIdentity, SubscriptionStatus
from proxy import logs
from proxy.cluster.messages import id_of
from proxy.cluster.questions import Item
from proxy.cluster.registry import ConnectionRegistry, ProcessInfo
from proxy.cluster.reports import ProcessCounts, WorkerReport, counts_items, own_report, report_items, status_item
from proxy.cluster.traced import own_traced, state_item, traced_item

log = logging.getLogger(__name__)

T = TypeVar("T")

_TRACES_MAX = 10_000  # that one process answers with


class Question(StrEnum):
    """What one process asks all others."""

    STREAMS = "streams"
    STREAM = "stream"
    QUEUES = "queues"
    CATALOG = "catalog"
    SUBSCRIPTIONS = "subscriptions"
    HOLDERS = "holders"
    REPORT = "report"
    FITTING = "fitting"
    TRACE = "trace"
    TRACES = "traces"
    HISTORIES = "histories"
    RETENTION = "retention"
    LOG = "log"
    COUNTS = "counts"


class Answers:
    """See the module."""

    def __init__(self, registry: ConnectionRegistry, engine: Engine, worker: int) -> None:
        self._registry, self._engine, self._worker = registry, engine, worker
        self._process, self._started = secrets.token_hex(8), time.monotonic()

    def own_counts(self) -> ProcessCounts:
        """What this process has counted."""
        return ProcessCounts(self._process, time.monotonic() - self._started, tuple(self._engine.status()))

    def own_report(self) -> WorkerReport:
        """This worker's numbers."""
        streams = len(self._engine.subscriptions())
        overdue = self._engine.schedules.overdue()
        return own_report(self._worker, len(self._registry), streams, self._engine.status(), overdue)

    def on_remote_kill(self, connection_id: int, query_only: bool) -> None:
        """Another process was asked to end a connection, or its statement."""
        target = self._registry.get(connection_id)
        if target is not None:
            target.kill(KillKind.QUERY if query_only else KillKind.CONNECTION)

    async def answer(self, question: str, value: Any) -> Iterable[Item]:
        """The answer to a question. Raises whatever goes wrong."""
        if question == Question.STREAMS:
            return [_item(info) for info in self._registry.processes() if info.streaming or info.proxied]
        if question == Question.STREAM:
            target = self._registry.get(value)
            return [] if target is None else [_item(target.process_info())]
        if question == Question.QUEUES:
            return [status_item(status) for status in self._engine.status()]
        if question == Question.REPORT:
            return report_items(self.own_report())
        if question == Question.SUBSCRIPTIONS:
            return [_subscription_item(status) for status in self._engine.subscriptions()]
        if question == Question.HOLDERS:
            database, table, bodies = value
            ids = [id_of(body) for body in bodies]
            holders = self._engine.holders(QueueName(database, table), ids)
            return [[n, *_subscription_item(holders[id_])] for n, id_ in enumerate(ids) if id_ in holders]
        if question == Question.FITTING:
            database, table, bodies = value
            ids = [id_of(body) for body in bodies]
            fitting = await self._engine.fitting(QueueName(database, table), ids)
            return [[n] for n, id_ in enumerate(ids) if id_ in fitting]
        if question == Question.TRACE:
            database, table, body = value
            return map(traced_item, own_traced(self._engine.traces.of(QueueName(database, table), id_of(body))))
        if question == Question.TRACES:
            count, names = value
            queues = None if names is None else frozenset(QueueName(*name) for name in names)
            return map(traced_item, own_traced(self._engine.traces.newest(min(count, _TRACES_MAX), queues)))
        if question == Question.HISTORIES:
            return [state_item(*state) for state in self._engine.topics.history.states()]
        if question == Question.RETENTION:
            problems = {**self._engine.topics.retention.problems(), **self._engine.queues.problems()}
            return [[t.database, t.table, text] for t, text in problems.items()]
        if question == Question.COUNTS:
            return counts_items(self.own_counts())
        if question == Question.LOG:
            return map(record_item, own_records())
        if question == Question.CATALOG:
            await self._refresh(None if value is None else [QueueName(*name) for name in value])
        return []

    async def _refresh(self, named: Collection[QueueName] | None) -> None:
        try:
            await self._engine.refresh_catalog(named)
        except BackendError as error:
            if not isinstance(error, BackendUnavailable):
                log.warning("catalog not refreshed: %s", error)


def understood(read: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
    """What was answered, without what only another version of the proxy could read."""
    for item in items:
        try:
            yield read(item)
        except (TypeError, ValueError):
            continue


def problem_of(item: Item) -> tuple[QueueName, str]:
    """Why messages of a topic are not deleted. Raises TypeError or ValueError where it is something else."""
    database, table, text = map(str, item)
    return QueueName(database, table), text


def process_info_of(item: Item) -> ProcessInfo:
    return ProcessInfo(*item)


def holder_of(item: Item) -> tuple[int, SubscriptionStatus]:
    number, *rest = item
    return int(number), subscription_of(rest)


def _item(info: ProcessInfo) -> Item:
    return list(dataclasses.astuple(info))


def _subscription_item(status: SubscriptionStatus) -> Item:
    # In this order since the first release: processes of two versions may work side by side.
    (database, table), (connection_id, user, host, consumer, pid), *rest = dataclasses.astuple(status)
    return [database, table, connection_id, user, host, *rest[:9], consumer, pid, *rest[9:]]


def subscription_of(item: Item) -> SubscriptionStatus:
    database, table, connection_id, user, host, *rest = item
    receiver = ReceiverIdentity(connection_id, user, host, *rest[9:11])
    return SubscriptionStatus(QueueName(database, table), receiver, *rest[:9], *rest[11:])


# Recent warnings and errors of the processes (`proxy.logs`), and their form in messages.


class PlacedRecord(NamedTuple):
    """A record, and the process that has logged it: the machine's name and the number of the process."""

    place: str
    record: logs.StoredRecord


def own_records() -> list[PlacedRecord]:
    """Those of this process, the newest first."""
    place = own_place()
    return [PlacedRecord(place, record) for record in logs.recent.newest()]


def record_item(placed: PlacedRecord) -> Item:
    """A record as an item."""
    record = placed.record
    return [placed.place, record.at_ns, record.level, record.logger, record.message, record.details]


def record_of(item: Item) -> PlacedRecord:
    """The inverse of `record_item`. Raises TypeError or ValueError where it is none."""
    place, at_ns, *texts = item
    level, logger, message, details = map(str, texts)
    return PlacedRecord(str(place), logs.StoredRecord(int(at_ns), level, logger, message, details))

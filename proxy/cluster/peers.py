"""Peers: the common view of all processes that serve this database.

The other workers of this proxy are reached by the bus, other proxies by the mesh. A question goes to all processes that
are linked at that moment; one that does not answer in time is left out. Ids of connections mean the same at another
proxy only where the database gave them and both are connected to the same server: nothing else is sent about them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from mysql_mimic.constants import KillKind

from engine.engine import Engine
from engine.history.writer import HistoryState
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import MessageId, QueueName, QueueStatus, SubscriptionStatus
from engine.model.trace_event import TraceEvent, in_order
from engine.store.proxy_directory import ProxyDirectory
from proxy.cluster.bus import Bus, Handlers
from proxy.cluster.log_records import PlacedRecord, own_records, record_item, record_of
from proxy.cluster.mesh import Mesh, MeshAddress, PeerEvents
from proxy.cluster.messages import id_body, id_of
from proxy.cluster.questions import Item
from proxy.cluster.registry import FIRST_OWN_ID, ConnectionRegistry, ProcessInfo
from proxy.cluster.reports import (
    ProcessCounts,
    WorkerReport,
    counts_items,
    counts_of,
    own_report,
    report_items,
    reports_of,
    status_item,
    status_of,
    summed,
)
from proxy.cluster.traced import own_traced, state_item, state_of, together, traced_item, traced_of
from proxy.config_shown import Setting
from proxy.listen.admission import Admission
from proxy.listen.listener import WorkerSlot

log = logging.getLogger(__name__)

T = TypeVar("T")

# The questions.
_STREAMS, _STREAM, _QUEUES, _CATALOG = "streams", "stream", "queues", "catalog"
_SUBSCRIPTIONS, _HOLDERS, _REPORT, _FITTING = "subscriptions", "holders", "report", "fitting"
_TRACE, _TRACES, _HISTORIES, _LOG = "trace", "traces", "histories", "log"
_COUNTS = "counts"
_IDS_PER_REQUEST_MAX = 100  # in one message: a text id may have a thousand bytes
_QUEUES_PER_REQUEST_MAX = 100  # in one message: a name may have 600 bytes in JSON; those of more queues are chosen here
_TRACES_MAX = 10_000  # that one process answers with


class Peers:
    """See the module. It is the engine's Neighbours, too; `join` comes before the first client. `settings`: this
    proxy's configuration, as it is shown."""

    def __init__(self, registry: ConnectionRegistry, settings: Sequence[Setting] = ()) -> None:
        self.registry = registry
        self.settings = settings
        self._bus: Bus | None = None
        self._mesh: Mesh | None = None
        self._engine: Engine | None = None
        self._worker = 0
        self._process, self._started = secrets.token_hex(8), time.monotonic()

    async def join(self, place: WorkerSlot, engine: Engine, admission: Admission, stop: Callable[[], None]) -> None:
        """Join the other workers. `stop` is called when the supervisor is gone."""
        self._engine, self._worker = engine, place.worker
        if place.bus_socket is None:
            return

        def closed() -> None:
            log.error("the supervisor is gone; stopping")
            stop()

        handlers = Handlers(
            commits=engine.on_remote_commit,
            lost=engine.on_remote_commits_lost,
            login=admission.on_remote_login,
            kill=self._on_remote_kill,
            answer=self._answer,
            closed=closed,
        )
        self._bus = await Bus.connect(place.bus_socket, place.worker, handlers)
        await self._bus.wait_for_members()

    async def find_others(self, directory: ProxyDirectory, address: MeshAddress) -> None:
        """Link to the other proxies of this database, now and from now on. Raises OSError where we cannot listen."""
        assert self._engine is not None
        events = PeerEvents(
            self._engine.on_remote_commit, self._engine.on_remote_commits_lost, self._on_remote_kill, self._answer
        )
        self._mesh = Mesh(directory, address, events)
        await self._mesh.open()

    def ready(self) -> None:
        """This worker accepts clients."""
        if self._bus is not None:
            self._bus.ready()

    async def close(self) -> None:
        """Stop sending and receiving."""
        if self._mesh is not None:
            await self._mesh.close()
        if self._bus is not None:
            self._bus.close()

    # --- reports of the engine and the admission

    def committed(self, report: CommitReport) -> None:
        """See Neighbours."""
        if self._bus is not None:
            self._bus.committed(report)
        if self._mesh is not None:
            self._mesh.committed(report)

    @property
    def leads(self) -> bool:
        """See Neighbours."""
        return self._mesh is None or self._mesh.leads

    async def catalog_changed(self) -> None:
        """See Neighbours."""
        await self._request(_CATALOG)

    def login(self, source: str, good: bool) -> None:
        """A login from there failed, or succeeded where others had failed."""
        if self._bus is not None:
            self._bus.login(source, good)

    # --- for clients' statements

    async def processes(self) -> list[ProcessInfo]:
        """Every connection here; of the others the streams, and those that the database does not know."""
        return self.registry.processes() + await self._request_connections(_STREAMS)

    async def detached(self, connection_id: int) -> ProcessInfo | None:
        """A stream that the database no longer knows, wherever it is."""
        target = self.registry.get(connection_id)
        if target is not None:
            info = target.process_info()
            return info if info.detached else None
        infos = await self._request_connections(_STREAM, connection_id)
        return next((info for info in infos if info.detached), None)

    async def find(self, connection_id: int) -> ProcessInfo | None:
        """The connection of that id, its own or its connection's, wherever it is."""
        target = self.registry.get(connection_id)
        if target is not None:
            return target.process_info()
        return next(iter(await self._request_connections(_STREAM, connection_id)), None)

    async def kill(self, connection_id: int, kind: KillKind) -> None:
        """End a connection, or what it is doing, wherever it is. Unknown ids are ignored: it may just have ended."""
        await self.registry.kill(connection_id, kind)
        if self._bus is not None and self.registry.get(connection_id) is None:
            self._bus.kill(connection_id, kind is KillKind.QUERY)
        if self._mesh is not None and connection_id < FIRST_OWN_ID and self.registry.get(connection_id) is None:
            self._mesh.kill(connection_id, kind is KillKind.QUERY)

    async def queue_statuses(self) -> list[QueueStatus]:
        """Every queue served, in the order of their names, with the counts of all together."""
        assert self._engine is not None
        own = {status.name: status for status in self._engine.status()}
        for status in _understood(status_of, await self._request(_QUEUES)):
            if status.name in own:
                own[status.name] = summed(own[status.name], status)
        return list(own.values())

    async def subscriptions(self) -> list[SubscriptionStatus]:
        """Every open stream."""
        assert self._engine is not None
        return self._engine.subscriptions() + list(_understood(_subscription, await self._request(_SUBSCRIPTIONS)))

    async def holders(self, queue: QueueName, ids: Sequence[MessageId]) -> dict[MessageId, SubscriptionStatus]:
        """Which of these messages an open stream holds, and which stream."""
        assert self._engine is not None
        holders = self._engine.holders(queue, ids)
        if not ids or (self._bus is None and self._mesh is None):
            return holders
        for start in range(0, len(ids), _IDS_PER_REQUEST_MAX):
            wanted = [id_body(id_) for id_ in ids[start : start + _IDS_PER_REQUEST_MAX]]
            for number, stream in _understood(
                _holder, await self._request(_HOLDERS, [queue.database, queue.table, wanted])
            ):
                if 0 <= number < len(wanted):
                    holders[ids[start + number]] = stream
        return holders

    async def fitting(self, queue: QueueName, ids: Sequence[MessageId]) -> set[MessageId]:
        """Which of these messages fit the WHERE of an open stream, wherever it is."""
        assert self._engine is not None
        matches = await self._engine.fitting(queue, ids)
        for start in range(0, len(ids), _IDS_PER_REQUEST_MAX):
            wanted = [id_body(id_) for id_ in ids[start : start + _IDS_PER_REQUEST_MAX]]
            for number, *_ in await self._request(_FITTING, [queue.database, queue.table, wanted]):
                if isinstance(number, int) and 0 <= number < len(wanted):
                    matches.add(ids[start + number])
        return matches

    async def trace(self, queue: QueueName, id_: MessageId) -> list[TraceEvent]:
        """What happened to a message lately, or was stored of it, the earliest first."""
        assert self._engine is not None
        items = await self._request(_TRACE, [queue.database, queue.table, id_body(id_)])
        entries = own_traced(self._engine.traces.of(queue, id_)) + list(_understood(traced_of, items))
        return in_order(await self._engine.topics.history.of(queue, id_) + entries)

    async def newest_traces(self, count: int, queues: Sequence[QueueName]) -> list[TraceEvent]:
        """What happened last to messages of these queues and topics, the last thing first."""
        assert self._engine is not None
        names = [[queue.database, queue.table] for queue in queues]
        requested_names = names if len(names) <= _QUEUES_PER_REQUEST_MAX else None
        items = await self._request(_TRACES, [count, requested_names])
        requested = frozenset(queues)
        others = [traced for traced in _understood(traced_of, items) if traced.queue in requested]
        entries = await self._engine.topics.history.newest(count, requested)
        entries += own_traced(self._engine.traces.newest(count, requested)) + others
        return in_order(entries)[-count:][::-1]

    async def histories(self) -> Mapping[QueueName, HistoryState]:
        """How the histories of the topics that have one fare, wherever they are written."""
        assert self._engine is not None
        others = list(_understood(state_of, await self._request(_HISTORIES)))
        return together(self._engine.topics.history.states() + others)

    async def log(self) -> list[PlacedRecord]:
        """The last warnings and errors of every process."""
        return own_records() + list(_understood(record_of, await self._request(_LOG)))

    async def reports(self) -> tuple[list[WorkerReport], int]:
        """The report of every worker of this proxy, and how many did not answer in time."""
        reports = [self._own_report()]
        if self._bus is None:
            return reports, 0
        others = self._bus.others
        reports += reports_of(await self._bus.query(_REPORT))
        missing = (others & self._bus.others) - {report.worker for report in reports}
        return sorted(reports, key=lambda report: report.worker), len(missing)

    async def counts(self) -> tuple[list[ProcessCounts], int]:
        """What every process has counted, and of how many that is not known: they do not answer in time, or are not
        linked."""
        others = (0 if self._bus is None else len(self._bus.others)) + (0 if self._mesh is None else self._mesh.others)
        counts = [self._own_counts(), *counts_of(await self._request(_COUNTS))]
        return counts, max(others + 1 - len(counts), 0)

    def _own_counts(self) -> ProcessCounts:
        assert self._engine is not None
        return ProcessCounts(self._process, time.monotonic() - self._started, tuple(self._engine.status()))

    def _own_report(self) -> WorkerReport:
        assert self._engine is not None
        streams = len(self._engine.subscriptions())
        overdue = self._engine.schedules.overdue()
        return own_report(self._worker, len(self.registry), streams, self._engine.status(), overdue)

    async def _request(self, question: str, value: object = None) -> list[Item]:
        """What all others answer."""
        requests = [sides.query(question, value) for sides in (self._bus, self._mesh) if sides is not None]
        return [item for items in await asyncio.gather(*requests) for item in items]

    async def _request_connections(self, question: str, value: object = None) -> list[ProcessInfo]:
        """What they answer about connections, without those whose ids another proxy has given."""

        async def of_workers() -> list[Item]:
            return [] if self._bus is None else await self._bus.query(question, value)

        async def of_proxies() -> list[Item]:
            return [] if self._mesh is None else await self._mesh.query(question, value, same_server=True)

        workers, proxies = await asyncio.gather(of_workers(), of_proxies())
        remote = [info for info in _understood(_process_info, proxies) if info.connection_id < FIRST_OWN_ID]
        return [ProcessInfo(*item) for item in workers] + remote

    # --- questions of the others

    def _on_remote_kill(self, connection_id: int, query_only: bool) -> None:
        target = self.registry.get(connection_id)
        if target is not None:
            target.kill(KillKind.QUERY if query_only else KillKind.CONNECTION)

    async def _answer(self, question: str, value: Any) -> Iterable[Item]:
        assert self._engine is not None
        if question == _STREAMS:
            return [_item(info) for info in self.registry.processes() if info.streaming or info.proxied]
        if question == _STREAM:
            target = self.registry.get(value)
            return [] if target is None else [_item(target.process_info())]
        if question == _QUEUES:
            return [status_item(status) for status in self._engine.status()]
        if question == _REPORT:
            return report_items(self._own_report())
        if question == _SUBSCRIPTIONS:
            return [_subscription_item(status) for status in self._engine.subscriptions()]
        if question == _HOLDERS:
            database, table, bodies = value
            ids = [id_of(body) for body in bodies]
            holders = self._engine.holders(QueueName(database, table), ids)
            return [[n, *_subscription_item(holders[id_])] for n, id_ in enumerate(ids) if id_ in holders]
        if question == _FITTING:
            database, table, bodies = value
            ids = [id_of(body) for body in bodies]
            fitting = await self._engine.fitting(QueueName(database, table), ids)
            return [[n] for n, id_ in enumerate(ids) if id_ in fitting]
        if question == _TRACE:
            database, table, body = value
            return map(traced_item, own_traced(self._engine.traces.of(QueueName(database, table), id_of(body))))
        if question == _TRACES:
            count, names = value
            queues = None if names is None else frozenset(QueueName(*name) for name in names)
            return map(traced_item, own_traced(self._engine.traces.newest(min(count, _TRACES_MAX), queues)))
        if question == _HISTORIES:
            return [state_item(*state) for state in self._engine.topics.history.states()]
        if question == _COUNTS:
            return counts_items(self._own_counts())
        if question == _LOG:
            return map(record_item, own_records())
        if question == _CATALOG:
            await self._refresh(self._engine)
        return []

    async def _refresh(self, engine: Engine) -> None:
        try:
            await engine.refresh_catalog()
        except BackendError as error:
            if not isinstance(error, BackendUnavailable):
                log.warning("catalog not refreshed: %s", error)


def _understood(read: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
    """What was answered, without what only another version of the proxy could read."""
    for item in items:
        try:
            yield read(item)
        except (TypeError, ValueError):
            continue


def _process_info(item: Item) -> ProcessInfo:
    return ProcessInfo(*item)


def _holder(item: Item) -> tuple[int, SubscriptionStatus]:
    number, *rest = item
    return int(number), _subscription(rest)


def _item(info: ProcessInfo) -> Item:
    return list(dataclasses.astuple(info))


def _subscription_item(status: SubscriptionStatus) -> Item:
    (database, table), *rest = dataclasses.astuple(status)
    return [database, table, *rest]


def _subscription(item: Item) -> SubscriptionStatus:
    database, table, *rest = item
    return SubscriptionStatus(QueueName(database, table), *rest)

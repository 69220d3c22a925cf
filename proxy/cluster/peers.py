"""Peers: the common view of all processes that serve this database.

There are links to the other workers of this proxy, and to other proxies, with the same messages. A question goes to all
workers, and to the proxies that are linked at that moment; one that does not answer in time is left out. Ids of
connections mean the same at another proxy only where the database gave them and both are connected to the same server:
nothing else is sent about them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from mysql_mimic.constants import KillKind

from engine.engine import Engine, Neighbours
from engine.history.writer import HistoryState
from engine.model.assignment import Member
from engine.model.commit_report import CommitReport
from engine.model.queue import MessageId, QueueName, QueueStatus, SubscriptionStatus
from engine.model.trace_event import TraceEvent, in_order
from engine.store.proxy_directory import ProxyDirectory
from proxy.cluster.answers import (
    Answers,
    PlacedRecord,
    Question,
    holder_of,
    own_records,
    problem_of,
    process_info_of,
    record_of,
    subscription_of,
    understood,
)
from proxy.cluster.mesh import Mesh, MeshAddress
from proxy.cluster.messages import MessageKind, fits, id_body, portions
from proxy.cluster.peer_links import PeerEvents
from proxy.cluster.questions import Item
from proxy.cluster.registry import FIRST_OWN_ID, ConnectionRegistry, ProcessInfo
from proxy.cluster.reports import ProcessCounts, WorkerReport, counts_of, reports_of, status_of, summed
from proxy.cluster.traced import own_traced, state_of, together, traced_of
from proxy.cluster.worker_links import WorkerLinks
from proxy.config_shown import Setting
from proxy.listen.admission import Admission
from proxy.listen.listener import WorkerSlot

log = logging.getLogger(__name__)


class LinkedNeighbours(Neighbours):
    """The engine's Neighbours: all processes that are linked, on the sides that Peers adds."""

    def __init__(self) -> None:
        self.sides: list[WorkerLinks | Mesh] = []

    def committed(self, report: CommitReport) -> None:
        for side in self.sides:
            side.links.committed(report)

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        for side in self.sides:
            side.links.members_changed(queue, members)

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        names = None if named is None else [[name.database, name.table] for name in named]
        await _request(self.sides, Question.CATALOG, names if fits(names) else None)

    @property
    def leads(self) -> bool:
        return all(side.leads for side in self.sides if isinstance(side, Mesh))


async def _request(sides: Sequence[WorkerLinks | Mesh], question: Question, value: object = None) -> list[Item]:
    """What all at these sides answer."""
    answers = await asyncio.gather(*(side.query(question, value) for side in sides))
    return [item for items in answers for item in items]


def _id_requests(ids: Sequence[MessageId]) -> Iterator[tuple[int, list[object]]]:
    """The ids in parts, each of which fits into one message; and at which of them it starts."""
    start = 0
    for wanted in portions(map(id_body, ids)):
        if wanted:
            yield start, wanted
        start += len(wanted)


class Peers:
    """See the module. `join` comes before the first client. `neighbours`: those of the engine. `settings`: this proxy's
    configuration, as it is shown. `alone`: no other proxy can serve the database, which is embedded in this one."""

    def __init__(
        self,
        registry: ConnectionRegistry,
        engine: Engine,
        slot: WorkerSlot,
        neighbours: LinkedNeighbours,
        settings: Sequence[Setting] = (),
        *,
        alone: bool = False,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self._engine, self._slot, self._sides, self._alone = engine, slot, neighbours.sides, alone
        self._workers: WorkerLinks | None = None
        self._mesh: Mesh | None = None
        self._answers = Answers(registry, engine, slot.worker)
        self._events = PeerEvents(
            engine.on_remote_commit,
            engine.on_remote_commits_lost,
            self._answers.on_remote_kill,
            self._answers.answer,
            engine.queues.members,
        )

    async def join(self, admission: Admission, stop: Callable[[], None]) -> None:
        """Link to the other workers. `stop` is called when the supervisor is gone."""
        slot = self._slot
        if slot.supervisor is None:
            return
        loop, supervisor = asyncio.get_running_loop(), slot.supervisor

        def gone() -> None:
            loop.remove_reader(supervisor)
            log.error("the supervisor is gone; stopping")
            stop()

        supervisor.setblocking(False)
        loop.add_reader(supervisor, gone)
        if slot.links:
            self._workers = WorkerLinks(slot, dataclasses.replace(self._events, login=admission.on_remote_login))
            self._sides.append(self._workers)
            await self._workers.open()

    async def find_others(self, directory: ProxyDirectory, address: MeshAddress) -> None:
        """Link to the other proxies of this database, now and from now on. Raises OSError where we cannot listen."""
        self._mesh = Mesh(directory, address, self._events)
        self._sides.append(self._mesh)
        await self._mesh.open()

    def ready(self) -> None:
        """This worker accepts clients."""
        if self._slot.supervisor is not None:
            with contextlib.suppress(OSError):  # it is gone, and this process ends
                self._slot.supervisor.send(b"+")

    async def close(self) -> None:
        """Stop sending and receiving."""
        for side in reversed(self._sides):
            await side.close()
        if self._slot.supervisor is not None:
            asyncio.get_running_loop().remove_reader(self._slot.supervisor)

    def login(self, source: str, good: bool) -> None:
        """A login from there failed, or succeeded where others had failed."""
        if self._workers is not None:
            self._workers.links.broadcast(MessageKind.LOGIN, [source, good])

    # --- for clients' statements

    async def processes(self) -> list[ProcessInfo]:
        """Every connection here; of the others the streams, and those that the database does not know."""
        return self.registry.processes() + await self._request_connections(Question.STREAMS)

    async def detached(self, connection_id: int) -> ProcessInfo | None:
        """A stream that the database no longer knows, wherever it is."""
        target = self.registry.get(connection_id)
        if target is not None:
            info = target.process_info()
            return info if info.detached else None
        infos = await self._request_connections(Question.STREAM, connection_id)
        return next((info for info in infos if info.detached), None)

    async def find(self, connection_id: int) -> ProcessInfo | None:
        """The connection of that id, its own or its connection's, wherever it is."""
        target = self.registry.get(connection_id)
        if target is not None:
            return target.process_info()
        return next(iter(await self._request_connections(Question.STREAM, connection_id)), None)

    async def kill(self, connection_id: int, kind: KillKind) -> None:
        """End a connection, or what it is doing, wherever it is. Unknown ids are ignored: it may just have ended."""
        await self.registry.kill(connection_id, kind)
        for side in self._sides if self.registry.get(connection_id) is None else ():
            if side is self._workers or connection_id < FIRST_OWN_ID:
                side.links.kill(connection_id, kind is KillKind.QUERY)

    @property
    def finds_others(self) -> bool:
        """Whether it would know of another proxy of the same database."""
        return self._alone or (self._mesh is not None and self._mesh.is_registered)

    async def queue_statuses(self) -> list[QueueStatus]:
        """Every queue served, in the order of their names, with the counts of all together."""
        own = {status.name: status for status in self._engine.status()}
        for status in understood(status_of, await self._request(Question.QUEUES)):
            if status.name in own:
                own[status.name] = summed(own[status.name], status)
        return list(own.values())

    async def subscriptions(self) -> list[SubscriptionStatus]:
        """Every open stream."""
        return self._engine.subscriptions() + list(
            understood(subscription_of, await self._request(Question.SUBSCRIPTIONS))
        )

    async def holders(self, queue: QueueName, ids: Sequence[MessageId]) -> dict[MessageId, SubscriptionStatus]:
        """Which of these messages an open stream holds, and which stream."""
        holders = self._engine.holders(queue, ids)
        if not ids or not self._sides:
            return holders
        for start, wanted in _id_requests(ids):
            for number, stream in understood(
                holder_of, await self._request(Question.HOLDERS, [queue.database, queue.table, wanted])
            ):
                if 0 <= number < len(wanted):
                    holders[ids[start + number]] = stream
        return holders

    async def fitting(self, queue: QueueName, ids: Sequence[MessageId]) -> set[MessageId]:
        """Which of these messages fit the WHERE of an open stream, wherever it is."""
        matches = await self._engine.fitting(queue, ids)
        for start, wanted in _id_requests(ids):
            for number, *_ in await self._request(Question.FITTING, [queue.database, queue.table, wanted]):
                if isinstance(number, int) and 0 <= number < len(wanted):
                    matches.add(ids[start + number])
        return matches

    async def trace(self, queue: QueueName, id_: MessageId) -> list[TraceEvent]:
        """What happened to a message lately, or was stored of it, the earliest first."""
        items = await self._request(Question.TRACE, [queue.database, queue.table, id_body(id_)])
        entries = own_traced(self._engine.traces.of(queue, id_)) + list(understood(traced_of, items))
        return in_order(await self._engine.topics.history.of(queue, id_) + entries)

    async def newest_traces(self, count: int, queues: Sequence[QueueName]) -> list[TraceEvent]:
        """What happened last to messages of these queues and topics, the last thing first."""
        names = [[queue.database, queue.table] for queue in queues]
        items = await self._request(Question.TRACES, [count, names if fits(names) else None])
        requested = frozenset(queues)
        others = [traced for traced in understood(traced_of, items) if traced.queue in requested]
        entries = await self._engine.topics.history.newest(count, requested)
        entries += own_traced(self._engine.traces.newest(count, requested)) + others
        return in_order(entries)[-count:][::-1]

    async def histories(self) -> Mapping[QueueName, HistoryState]:
        """How the histories of the topics that have one fare, wherever they are written."""
        others = list(understood(state_of, await self._request(Question.HISTORIES)))
        return together(self._engine.topics.history.states() + others)

    async def retention_problems(self) -> Mapping[QueueName, str]:
        """Why messages of topics and queues are not deleted, as the process knows that deletes them."""
        others = dict(understood(problem_of, await self._request(Question.RETENTION)))
        return {**others, **self._engine.topics.retention.problems(), **self._engine.queues.problems()}

    async def log(self) -> list[PlacedRecord]:
        """The last warnings and errors of every process."""
        return own_records() + list(understood(record_of, await self._request(Question.LOG)))

    async def reports(self) -> tuple[list[WorkerReport], int]:
        """The report of every worker of this proxy, and how many did not answer in time, or are not there."""
        reports = [self._answers.own_report()]
        if self._workers is None:
            return reports, 0
        reports += reports_of(await self._workers.query(Question.REPORT))
        return sorted(reports, key=lambda report: report.worker), self._slot.tally.workers - len(reports)

    async def counts(self) -> tuple[list[ProcessCounts], int]:
        """What every process has counted, and of how many that is not known: they do not answer in time, or are not
        linked."""
        others = sum(len(side.others) for side in self._sides)
        counts = [self._answers.own_counts(), *counts_of(await self._request(Question.COUNTS))]
        return counts, max(others + 1 - len(counts), 0)

    async def _request(self, question: Question, value: object = None) -> list[Item]:
        """What all others answer."""
        return await _request(self._sides, question, value)

    async def _request_connections(self, question: Question, value: object = None) -> list[ProcessInfo]:
        """What they answer about connections, without those whose ids another proxy has given."""

        async def of_workers() -> list[Item]:
            return [] if self._workers is None else await self._workers.query(question, value)

        async def of_proxies() -> list[Item]:
            return [] if self._mesh is None else await self._mesh.query(question, value, same_server=True)

        workers, proxies = await asyncio.gather(of_workers(), of_proxies())
        remote = [info for info in understood(process_info_of, proxies) if info.connection_id < FIRST_OWN_ID]
        return [process_info_of(item) for item in workers] + remote

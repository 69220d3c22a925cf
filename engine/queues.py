"""Queues: the services of each queue of an engine, started, reconfigured and ended as the catalog says.

A queue has a MessageManager and a DeadLetterMover; a Purger, where this engine purges; and a GroupScan, where its
messages form groups and this engine purges.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.background.dead_letter_mover import DeadLetterMover, MakeTable
from engine.background.dead_letter_names import DeadLetterNames
from engine.background.group_scan import GroupScan
from engine.background.purger import Purger
from engine.context import EngineContext
from engine.delivery.births import OFFER_SECONDS, Birth
from engine.delivery.context import Changes, QueueContext
from engine.delivery.filter_shares import FilterShares
from engine.delivery.message_manager import MessageManager
from engine.model.commit_report import CommitReport
from engine.model.errors import EngineError, QueueNotFound
from engine.model.filter_limits import FilterLimits
from engine.model.groups import group_key
from engine.model.queue import (
    MessageId,
    QueueCatalog,
    QueueName,
    QueueSpec,
    QueueStatus,
    SubscriptionStatus,
)
from engine.model.trace_event import ENQUEUED
from engine.service import Service
from engine.sticky_members import StickyMembers
from engine.store.base import Placement


@dataclass(frozen=True, slots=True)
class QueueServices:
    """The services of one queue. No purger where a neighbour purges."""

    manager: MessageManager
    mover: DeadLetterMover
    purger: Purger | None
    added: CommitReport
    """What neighbours are sent when messages were added."""
    changes: Changes
    """Those that look after the queue do so more often after one."""

    @property
    def background(self) -> Sequence[Service]:
        """Those beside the manager."""
        return (self.mover,) if self.purger is None else (self.mover, self.purger)

    async def open(self) -> None:
        for service in (self.manager, *self.background):
            await service.open()

    async def end(self) -> None:
        """The queue was dropped: no lease of it can be released any more."""
        error = QueueNotFound(f"Table '{self.manager.queue.name}' doesn't exist")
        await self.manager.end(error, release=False)
        await self.mover.close(grace_seconds=1.0)
        if self.purger is not None:
            await self.purger.close()

    def reconfigure(self, queue: QueueSpec) -> None:
        self.manager.reconfigure(queue)
        self.mover.reconfigure(queue)
        if self.purger is not None:
            self.purger.queue = queue
        self.changes.count += 1


class Queues:
    """See the module. Each queue of the catalog has exactly one entry in `by_name`, from its first `apply` on until it
    is dropped or the engine closes."""

    def __init__(
        self,
        *,
        purges: bool,
        make_dead_letters: MakeTable,
        dead_letter_names: DeadLetterNames,
        limits: FilterLimits,
        shares: FilterShares,
        members: StickyMembers,
        placement: Placement,
    ) -> None:
        self.placement = placement
        """Where messages of queues over several shards are."""
        self._purges, self._limits, self._shares = purges, limits, shares
        self.members = members
        """The receivers with keys of their own."""
        members.on_change(self._members_changed)
        placement.on_refused = self._refused_at_shard
        self._make_dead_letters, self._dead_letter_names = make_dead_letters, dead_letter_names
        self.by_name: dict[QueueName, QueueServices] = {}
        self._closing = False
        self._offered: set[Birth] = set()
        self._offers_ended = asyncio.Event()
        self._group_scans: dict[QueueName, GroupScan] = {}

    def get(self, name: QueueName) -> QueueServices | None:
        return self.by_name.get(name)

    # --- INSERTs of messages that a receiver waits for (engine.delivery.births)

    def offer_birth(self, name: QueueName) -> Birth | None:
        """Leave to insert one message as leased, because a receiver waits for it here; None where it is to be inserted
        as any other. The caller reports what became of it: `born`, `unborn` or `lost`."""
        services = None if self._closing else self.by_name.get(name)
        birth = None if services is None else services.manager.receiver_sets.offer_birth()
        if birth is not None:
            self._offered.add(birth)
        return birth

    def born(self, birth: Birth, id_: int) -> None:
        """One statement, a transaction of its own, has added a message, leased as `birth` says."""
        self._offer_ended(birth)
        if (services := self.by_name.get(birth.queue)) is not None:
            services.changes.count += 1
            services.manager.metrics.count(ENQUEUED, 1)
            services.manager.receiver_sets.plain.births.born(birth, id_)

    def unborn(self, birth: Birth) -> None:
        """The statement has failed, or was not sent."""
        self._offer_ended(birth)
        if (services := self.by_name.get(birth.queue)) is not None:
            services.manager.receiver_sets.plain.births.withdraw(birth)

    def lost(self, birth: Birth) -> None:
        """It is not known whether the statement is committed, or which message it has added."""
        self._offer_ended(birth)
        if (services := self.by_name.get(birth.queue)) is not None:
            services.changes.count += 1
            services.manager.receiver_sets.plain.births.lost(birth)

    def _members_changed(self, name: QueueName) -> None:
        if (services := self.by_name.get(name)) is not None:
            services.manager.wake()

    def _refused_at_shard(self, name: QueueName) -> None:
        if (services := self.by_name.get(name)) is not None:
            services.manager.metrics.backend_errors += 1

    def _offer_ended(self, birth: Birth) -> None:
        self._offered.discard(birth)
        if self._closing and not self._offered:
            self._offers_ended.set()

    async def move_rejected(self, name: QueueName) -> None:
        """Move a queue's rejected messages to its dead letters now, as far as that is possible."""
        if (services := self.by_name.get(name)) is not None:
            with contextlib.suppress(EngineError):  # which the mover's own next pass logs
                await services.mover.run_once()

    @property
    def managers(self) -> list[MessageManager]:
        return [services.manager for services in self.by_name.values()]

    @property
    def background(self) -> list[Service]:
        """Their services beside the managers."""
        of_queues = [service for services in self.by_name.values() for service in services.background]
        return [*self._group_scans.values(), *of_queues]

    def problems(self) -> dict[QueueName, str]:
        """Why acked messages of queues are not deleted, where this process deletes them."""
        purgers = {name: services.purger for name, services in self.by_name.items()}
        return {name: one.problem for name, one in purgers.items() if one is not None and one.problem is not None}

    def status(self) -> list[QueueStatus]:
        """All queues, in the order of their names."""
        return [self.by_name[name].manager.status() for name in sorted(self.by_name)]

    def streams(self) -> list[SubscriptionStatus]:
        """All open streams, by queue and then in the order in which they were opened."""
        return [status for name in sorted(self.by_name) for status in self.by_name[name].manager.streams()]

    def holders(self, name: QueueName, ids: Iterable[MessageId]) -> dict[MessageId, SubscriptionStatus]:
        """See Engine.holders."""
        services = self.by_name.get(name)
        holders = {} if services is None else {id_: services.manager.leases.holder(id_) for id_ in ids}
        return {id_: holder for id_, holder in holders.items() if holder is not None}

    async def apply(self, catalog: QueueCatalog, context: EngineContext) -> None:
        """The catalog was read again: start new queues, reconfigure changed ones, end dropped ones."""
        for name in [name for name in self.by_name if name not in catalog.queues]:
            await self.by_name.pop(name).end()
        for queue in catalog:
            if not context.host.is_open:
                return  # closed while a dropped queue was being ended
            if (services := self.by_name.get(queue.name)) is None:
                await self._start(queue, context)
            elif services.manager.queue != queue:
                services.reconfigure(queue)
        await self._scan_groups(catalog, context)

    def retry_refused(self, names: Iterable[QueueName]) -> None:
        """A statement has named these queues, and perhaps changed nothing: the messages that the database refused to
        lease are tried again all the same."""
        for services in [self.by_name[name] for name in names if name in self.by_name]:
            if services.manager.leases.refusals.until:
                services.reconfigure(services.manager.queue)

    async def _start(self, queue: QueueSpec, engine: EngineContext) -> None:
        context = QueueContext.of(engine, queue.name, self._shares)
        mover = DeadLetterMover(queue, context, self._make_dead_letters, self._dead_letter_names)
        manager = MessageManager(queue, context, on_rejected=mover.notify, limits=self._limits)
        purger = Purger(queue, context) if self._purges else None
        added = CommitReport(touched=frozenset((queue.name,)))
        services = self.by_name[queue.name] = QueueServices(manager, mover, purger, added, context.changes)
        await services.open()

    async def _scan_groups(self, catalog: QueueCatalog, context: EngineContext) -> None:
        """Run a scan for every queue whose messages form groups."""
        grouped = {queue.name: key for queue in catalog if (key := group_key(queue, catalog)) is not None}
        for name in [name for name in self._group_scans if name not in grouped]:
            await self._group_scans.pop(name).close()
        for name, key in grouped.items() if self._purges and context.host.is_open else ():
            if (scan := self._group_scans.get(name)) is not None:
                scan.queue, scan.group = catalog.queues[name], key
                continue
            scan = self._group_scans[name] = GroupScan(catalog.queues[name], key, context)
            await scan.open()

    async def close(self, *, grace_seconds: float) -> None:
        """End all of them, once no INSERT is on its way whose message would be leased to nobody."""
        self._closing = True
        if self._offered:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._offers_ended.wait(), min(grace_seconds, OFFER_SECONDS))
        queues, self.by_name = self.by_name, {}
        scans, self._group_scans = self._group_scans, {}
        await asyncio.gather(*(scan.close(grace_seconds=grace_seconds) for scan in scans.values()))
        services = [service for each in queues.values() for service in (each.manager, *each.background)]
        await asyncio.gather(*(service.close(grace_seconds=grace_seconds) for service in services))

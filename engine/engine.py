"""Engine: all queues of one database, each with its MessageManager and Purger, synchronised with the catalog.

It knows no packets and no client SQL: the proxy reports what a committed transaction did (`committed`) and opens
subscriptions; the rest follows from the tables. The code that made the store closes it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from engine.background.alarm_watch import AlarmWatch
from engine.background.catalog_watcher import CatalogWatcher
from engine.background.dead_letter_mover import MakeTable
from engine.background.dead_letter_names import DeadLetterNames
from engine.background.surveyor import Surveyor
from engine.background.table_upgrader import TableUpgrader
from engine.background.watchdog import Watchdog
from engine.clock import Clock, Jitter
from engine.context import EngineContext
from engine.database_work import DatabaseWork
from engine.delivery.filter_shares import FilterShares
from engine.delivery.subscription import Subscription
from engine.model.assignment import Member
from engine.model.commit_report import ADDED_MAX, CommitReport, Settlement
from engine.model.errors import BackendError, BackendUnavailable, InvalidQueueTable, QueueNotFound, ShuttingDown
from engine.model.filter_limits import FilterLimits
from engine.model.queue import (
    MessageId,
    QueueCatalog,
    QueueName,
    QueueSpec,
    QueueStatus,
    SubscribeRequest,
    SubscriptionStatus,
)
from engine.queues import Queues
from engine.reports import CommitReports
from engine.schedules.schedules import Schedules
from engine.service import Service
from engine.sticky_members import StickyMembers
from engine.store.base import MessageStore
from engine.store.zones import Zone
from engine.topics.broadcast import BroadcastReader
from engine.topics.retention import PERIOD_SECONDS
from engine.topics.topics import Topics
from engine.traces import Traces

__all__ = ["Engine", "Neighbours", "OpenStream", "Subscription"]

OpenStream = Subscription | BroadcastReader
"""The stream that a receiver reads."""

_REFRESH_ON_MISS_SECONDS = 1.0  # a client that asks for a missing queue again and again must not load the database


class Neighbours:
    """Other engines on the same database, which are notified of what happens here. If a notification is lost, their
    safety scans find the change. Here there are none."""

    def committed(self, report: CommitReport) -> None:
        """A client's transaction is committed. Must be cheap: it is called with every commit on a queue."""

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        """Queues were created, altered or dropped: these, or any. Returns once the others know it, or cannot be reached
        in time."""

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        """These are this engine's receivers of that queue that have keys of their own. Must be cheap."""

    @property
    def leads(self) -> bool:
        """Whether this engine is the leader, which does what one of them has to do: purge. Two leaders do no harm."""
        return True


async def _cannot_make(queue: QueueSpec, name: QueueName) -> None:
    raise BackendError(f"table '{name}' cannot be made here", 1142, "42000")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of an engine."""

    database_work: int = 8
    """Tasks for the database at a time."""
    filters: FilterLimits = field(default_factory=FilterLimits)
    purges: bool = True
    """False where a neighbour purges for this one too."""
    make_dead_letters: MakeTable = _cannot_make
    dead_letter_names: DeadLetterNames = field(default_factory=DeadLetterNames)
    sole_account: Callable[[str], bool] = lambda user: True
    """Whether no client of another account than this is connected."""
    retention_seconds: float = PERIOD_SECONDS
    upgrade_after_seconds: float = 0.0
    """When tables of earlier versions are first upgraded: once the leader is known."""
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    """No other engine of the database has it."""


@dataclass(frozen=True, slots=True)
class _Running:
    """What an engine has from its first `open` on."""

    queues: Queues
    context: EngineContext
    surveyor: Surveyor
    topics: Topics
    schedules: Schedules
    reports: CommitReports
    watcher: CatalogWatcher
    alarm_watch: AlarmWatch
    watchdog: Watchdog
    upgrader: TableUpgrader

    @property
    def services(self) -> tuple[Service, ...]:
        """Those that run for all queues together, in the order in which they begin."""
        return (self.watcher, self.alarm_watch, self.watchdog, self.upgrader)

    @property
    def watched(self) -> Sequence[Service]:
        """Those that the watchdog starts again, besides the managers."""
        of_all = (self.watcher, *self.topics.services, *self.schedules.services, self.alarm_watch)
        return (*of_all, *self.queues.background)


class Engine:
    """See the module."""

    def __init__(
        self,
        store: MessageStore,
        *,
        clock: Clock,
        jitter: Jitter,
        options: EngineOptions | None = None,
        logger: logging.Logger | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._options = options = options or EngineOptions()
        self._store, self._clock, self._jitter = store, clock, jitter
        self.traces = Traces(clock)
        """Recent events of messages."""
        self._neighbours = neighbours or Neighbours()
        self._logger = logger or logging.getLogger("queuegate.engine")
        self.catalog = QueueCatalog()
        """The queues as last read; immutable."""
        self.dead_letter_names = options.dead_letter_names
        """Which dead-letter queues may be used."""
        self.is_open = False
        """Whether it delivers."""
        self.queues = Queues(
            purges=options.purges,
            make_dead_letters=options.make_dead_letters,
            dead_letter_names=options.dead_letter_names,
            limits=options.filters,
            shares=FilterShares(clock, options.sole_account),
            members=StickyMembers(options.name, self._neighbours),
            placement=store.placement,
        )
        store.placement.on_missing = self.request_refresh
        self._running: _Running | None = None
        self._refreshing = asyncio.Lock()
        self._refreshed_at = float("-inf")
        self._scheduled: frozenset[str] = frozenset()

    @property
    def leads(self) -> bool:
        """See EngineHost."""
        return self._options.purges and self._neighbours.leads

    async def open(self) -> None:
        """Read the catalog and start all its queues. Raises BackendUnavailable if the database cannot be reached."""
        if self.is_open:
            return
        work = DatabaseWork(self._options.database_work, self._clock, self._logger)
        clock, jitter, logger = self._clock, self._jitter, self._logger
        context = EngineContext(self._store, work, clock, jitter, logger, self.traces, self.queues.members, self)
        topics = Topics(context, self._options.retention_seconds)
        schedules = Schedules(context, sends=self._options.purges)
        running = _Running(
            self.queues,
            context,
            Surveyor(context),
            topics,
            schedules,
            CommitReports(self.queues, topics, schedules),
            CatalogWatcher(self, self._logger, schedules.reload, self._neighbours.catalog_changed),
            AlarmWatch(lambda: self.queues.managers, context),
            Watchdog(lambda: self.queues.managers, lambda: running.watched, context),
            TableUpgrader(context, self._options.upgrade_after_seconds),
        )
        self._running = running
        self.is_open = True
        try:
            await self.refresh_catalog()
        except BaseException:
            self.is_open = False
            raise
        await self.dead_letter_names.begin(self.catalog)
        await running.topics.open()
        await running.schedules.open()
        for service in running.services:
            await service.open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Deliver no more: streams end with ShuttingDown, unread messages are released uncounted. May be called
        twice."""
        running = self._running
        if not self.is_open or running is None:
            return
        self.is_open = False
        for service in (running.upgrader, running.watchdog, running.alarm_watch, running.watcher, running.schedules):
            await service.close(grace_seconds=grace_seconds)
        await running.surveyor.close()
        await running.topics.close(ShuttingDown("Server shutdown in progress"), grace_seconds=grace_seconds)
        await self.queues.close(grace_seconds=grace_seconds)
        await running.topics.history.close(grace_seconds=grace_seconds)

    async def refresh_catalog(self, named: Collection[QueueName] | None = None) -> None:
        """Read the catalog again: start new queues, reconfigure changed ones, end dropped ones. `named`: see
        MessageStore.load_catalog. Raises BackendError."""
        async with self._refreshing:
            running = self._running
            if not self.is_open or running is None:
                return
            catalog = await running.context.work.run(self._store.load_catalog(self.catalog, named))
            if named is None:
                self._refreshed_at = self._clock.monotonic()
            if self.is_open and (catalog is not self.catalog or self.queues.by_name.keys() != catalog.queues.keys()):
                self.catalog = catalog
                running.topics.apply(catalog)
                self.traces.configure(catalog)
                await self.queues.apply(catalog, running.context)
            if not self.is_open:
                return
            self.queues.retry_refused(named or ())
            if self._scheduled != self.catalog.schedules:
                self._scheduled = self.catalog.schedules
                running.schedules.reload()

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        """A client's statement may have created, altered or dropped queues, these or any: read the catalog, here and at
        the neighbours.

        Raises BackendError where it cannot be read here.
        """
        _, failed = await asyncio.gather(
            self._neighbours.catalog_changed(named), self.refresh_catalog(named), return_exceptions=True
        )
        if isinstance(failed, BaseException):
            raise failed

    def committed(self, report: CommitReport) -> None:
        """A client's transaction is committed: wake the queues it changed. Cheap; names of no queue are ignored."""
        self._apply(report, here=True)
        self.traces.settled(report.traced)
        for name, counter, rows in report.counted:
            if services := self.queues.get(name):
                services.manager.metrics.count(counter, rows)
        self._neighbours.committed(report)
        if self._running is not None and (sooner := self._running.reports.sooner(report)):
            self.committed(CommitReport(touched=sooner))

    def enqueued(self, name: QueueName, first_id: int, count: int) -> None:
        """As `committed`, for one statement that has added `count` messages to a queue or topic, and nothing else.
        `first_id`: the first that the database gave one of them; 0: not known."""
        services = self.queues.get(name)
        if services is None:
            report = CommitReport(touched=frozenset((name,)))
            self._apply(report, here=True)
        else:
            report, manager = services.added, services.manager
            services.changes.count += 1
            manager.metrics.enqueued += count
            manager.touched(range(first_id, first_id + count) if first_id and 0 < count <= ADDED_MAX else ())
        self._neighbours.committed(report)

    def settled(self, settlement: Settlement, count: int) -> None:
        """As `committed`, for one statement that has ended these messages of a queue, and nothing else. `count`: how
        many there were."""
        if services := self.queues.get(settlement.queue):
            services.changes.count += 1
            services.manager.commits.settled(settlement.ids)
            services.manager.metrics.count(settlement.what, count)
        if count:
            self.traces.settled((settlement,))
        self._neighbours.committed(CommitReport(settled={settlement.queue: settlement.ids}))

    def released(self, queue: QueueName) -> None:
        """See EngineHost."""
        queues = frozenset((queue,))
        self._neighbours.committed(CommitReport(touched=queues, overdue=queues))

    def on_remote_commit(self, report: CommitReport) -> None:
        """As `committed`, for a client of a neighbour."""
        self._apply(report, here=False)

    def on_remote_commits_lost(self) -> None:
        """Notifications of a neighbour were lost: anything may have been committed, or altered."""
        if self._running is not None:
            self._running.reports.lost()
        self.request_refresh()

    def _apply(self, report: CommitReport, *, here: bool) -> None:
        if self._running is not None:  # else there are no queues yet
            self._running.reports.apply(report, here=here)

    def request_refresh(self) -> None:
        """See EngineHost."""
        if self._running is not None:
            self._running.watcher.request_refresh()

    async def subscribe(self, request: SubscribeRequest) -> OpenStream:
        """Open a receiver. Raises QueueNotFound, InvalidQueueTable, UnknownColumn, InvalidOption or ShuttingDown."""
        if request.queue not in self.queues.by_name and request.start is None:
            await self.refresh_on_miss()
        if not self.is_open:
            raise ShuttingDown("Server shutdown in progress")
        if request.start is not None:
            return await self.topics.subscribe(request)
        services = self.queues.get(request.queue)
        if services is None:
            raise _not_found(self.catalog, request.queue)
        subscription = services.manager.subscribe(request)
        self.topics.add_group(services.manager.queue)
        subscription.since_ns = self._clock.now_ns()
        return subscription

    def status(self) -> list[QueueStatus]:
        """All queues, in the order of their names."""
        return self.queues.status()

    def subscriptions(self) -> list[SubscriptionStatus]:
        """All open streams, by queue and then in the order in which they were opened."""
        return self.queues.streams() + ([] if self._running is None else self._running.topics.streams())

    @property
    def schedules(self) -> Schedules:
        """The schedules, once the engine is open."""
        assert self._running is not None
        return self._running.schedules

    @property
    def topics(self) -> Topics:
        """The topics, once the engine is open."""
        assert self._running is not None
        return self._running.topics

    async def fitting(self, name: QueueName, ids: Sequence[MessageId]) -> set[MessageId]:
        """Which of these messages match the WHERE of a stream of this engine."""
        services = self.queues.get(name)
        if services is None or not ids:
            return set()
        return await self.surveyor.fitting(services.manager.queue, tuple(services.manager.receiver_sets.filtered), ids)

    def holders(self, name: QueueName, ids: Iterable[MessageId]) -> dict[MessageId, SubscriptionStatus]:
        """The receivers of those of these messages that were sent by this engine and are not settled: to an open
        stream, or as part of a result that has ended."""
        return self.queues.holders(name, ids)

    def zone(self, name: str) -> Zone:
        """The time zone of a session with that time_zone."""
        return self._store.zones.zone(name)

    @property
    def surveyor(self) -> Surveyor:
        """Counts of the queues' tables. Raises ShuttingDown where the engine is not open."""
        if self._running is None:
            raise ShuttingDown("Server shutdown in progress")
        return self._running.surveyor

    @property
    def is_watched(self) -> bool:
        """Whether the watchdog runs."""
        running = self._running
        return running is not None and running.watchdog.running and not running.watchdog.died

    async def refresh_on_miss(self, *, patient: bool = False) -> None:
        """Read the catalog again because an unknown queue is requested: perhaps another proxy has just created it.

        If it was read a moment ago, it is not read again; or only for `patient` callers, which wait until it may be.
        """
        began = self._clock.monotonic()
        wait = self._refreshed_at + _REFRESH_ON_MISS_SECONDS - began
        if wait > 0 and patient:
            await asyncio.sleep(wait)
        if not self.is_open or self._refreshed_at > began or (wait > 0 and not patient):
            return  # another caller may have read it meanwhile
        try:
            await self.refresh_catalog()
        except BackendError as error:
            if not isinstance(error, BackendUnavailable):
                self._logger.warning("reading the catalog failed: %s", error)


def _not_found(catalog: QueueCatalog, name: QueueName) -> InvalidQueueTable | QueueNotFound:
    if reason := catalog.rejected.get(name):
        return InvalidQueueTable(reason)
    return QueueNotFound(f"Table '{name}' doesn't exist")

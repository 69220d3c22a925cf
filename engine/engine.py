"""Engine: every queue of one database, each with its MessageManager and Purger, kept in step with the catalog.

It knows no packets and no client SQL: the proxy tells it what a committed transaction did (`committed`) and asks for
subscriptions; the rest follows from the tables. Closing the store is its maker's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

from engine.clock import Clock, Jitter
from engine.database_work import DatabaseWork
from engine.delivery.context import WorkContext
from engine.delivery.filter_shares import FilterShares
from engine.delivery.message_manager import MessageManager
from engine.delivery.metrics import QueueMetrics
from engine.delivery.subscription import Subscription
from engine.duties.alarm_watch import AlarmWatch
from engine.duties.catalog_watcher import CatalogWatcher
from engine.duties.dead_letter_mover import DeadLetterMover, MakeTable, Moves
from engine.duties.dead_letter_names import DeadLetterNames
from engine.duties.group_scan import GroupScan, GroupScanContext
from engine.duties.purger import Purger
from engine.duties.surveyor import Surveyor
from engine.duties.table_upgrader import TableUpgrader, Upgrades
from engine.duties.watchdog import Watchdog
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable, InvalidQueueTable, QueueNotFound, ShuttingDown
from engine.model.filter_limits import FilterLimits
from engine.model.groups import group_key
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import (
    MessageId,
    QueueCatalog,
    QueueName,
    QueueSpec,
    QueueStatus,
    SubscribeRequest,
    SubscriptionStatus,
)
from engine.schedules.scheduler import SchedulerContext
from engine.schedules.schedules import Schedules, SchedulesContext
from engine.service import Service
from engine.store.base import MessageStore
from engine.store.zones import Zone
from engine.topics.broadcast import BroadcastReader
from engine.topics.retention import PERIOD_SECONDS
from engine.topics.topics import Topics, TopicsContext
from engine.traces import QueueTrace, Traces

__all__ = ["Engine", "Neighbours", "OpenStream", "Subscription"]

OpenStream = Subscription | BroadcastReader
"""What a receiver reads."""

_REFRESH_SECONDS_MIN, _REFRESH_SECONDS_MAX = 5.0, 30.0
_REFRESH_ON_MISS_SECONDS = 1.0  # a client that asks for a missing queue again and again must not load the database


class Neighbours(Protocol):
    """Other engines on the same database that hear what happens here. A word that is lost is made good by their
    safety scans."""

    def committed(self, report: CommitReport) -> None:
        """A client's transaction is committed. Must be cheap: it is called with every commit on a queue."""
        ...

    async def catalog_changed(self) -> None:
        """Queues were made, changed or dropped. Returns once the others know, or cannot be reached in time."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this engine shall do what one of them has to do: purge. Two that both do it do no harm."""
        ...


async def _not_made(queue: QueueSpec, name: QueueName) -> None:
    raise BackendError(f"table '{name}' cannot be made here", 1142, "42000")


class _Nobody:
    def committed(self, report: CommitReport) -> None:
        pass

    async def catalog_changed(self) -> None:
        pass

    @property
    def leads(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Served:
    """What runs for one queue. No purger where a neighbour purges."""

    manager: MessageManager
    mover: DeadLetterMover
    purger: Purger | None

    @property
    def parts(self) -> list[Service]:
        """All that runs."""
        return [part for part in (getattr(self, one.name) for one in fields(self)) if part is not None]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine works, beyond its store and its clock."""

    database_work: int = 8
    """Tasks for the database at a time."""
    filters: FilterLimits = field(default_factory=FilterLimits)
    purges: bool = True
    """False where a neighbour purges for this one too."""
    make_dead_letters: MakeTable = _not_made
    dead_letter_names: DeadLetterNames = field(default_factory=DeadLetterNames)
    alone: Callable[[str], bool] = lambda user: True
    """Whether no client of another account than this is connected."""
    retention_seconds: float = PERIOD_SECONDS
    upgrade_after_seconds: float = 0.0
    """When tables of earlier versions are first looked for: once it is known who leads."""


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
        options = options or EngineOptions()
        self._store, self._clock, self._jitter = store, clock, jitter
        self._work_limit = options.database_work
        self._filter_limits = options.filters
        self.traces = Traces(clock)
        """What happened to messages lately."""
        self._shares = FilterShares(clock, options.alone)
        self._neighbours = neighbours or _Nobody()
        self._purges, self._retention_seconds = options.purges, options.retention_seconds
        self._moves = Moves(
            make=options.make_dead_letters,
            catalog=lambda: self._catalog,
            # Not the mover's own step: it may be closed by it, where its queue is gone.
            refresh=lambda: asyncio.shield(asyncio.ensure_future(self.catalog_changed())),
            moved=self.committed,
            leads=lambda: self._purges and self._neighbours.leads,
            names=options.dead_letter_names,
        )
        self._logger = logger or logging.getLogger("queuegate.engine")
        self._catalog = QueueCatalog()
        self._served: dict[QueueName, _Served] = {}
        self._scans: dict[QueueName, GroupScan] = {}
        self._watcher = CatalogWatcher(self, self._logger, lambda: self.schedules.look())
        self._watchdog = Watchdog(self._managers, self._other_services, clock, self._logger)
        self._work: DatabaseWork | None = None
        self._surveyor: Surveyor | None = None
        self._topics: Topics | None = None
        self._schedules: Schedules | None = None
        self._upgrader = TableUpgrader(
            Upgrades(
                lambda: self._catalog,
                lambda: self._purges and self._neighbours.leads,
                store.add_tokens,
                self.catalog_changed,
                options.upgrade_after_seconds,
            ),
            self._logger,
        )
        self._alarm_watch: AlarmWatch | None = None
        self._refreshing = asyncio.Lock()
        self._refreshed_at = float("-inf")
        self._scheduled: frozenset[str] = frozenset()
        self._open = False

    @property
    def catalog(self) -> QueueCatalog:
        """The queues as last read; immutable."""
        return self._catalog

    async def open(self) -> None:
        """Read the catalog and serve every queue found. Raises BackendUnavailable if the database cannot be reached."""
        if self._open:
            return
        self._work = DatabaseWork(self._work_limit, self._clock, self._logger)
        self._surveyor = Surveyor(self._store, self._work, self._clock)
        self._topics = Topics(
            TopicsContext(
                self._store,
                self._work,
                self._clock,
                self._jitter,
                self._logger,
                lambda: self._purges and self._neighbours.leads,
                self._retention_seconds,
                self.traces,
            )
        )
        self._schedules = self._made_schedules(self._work)
        self._open = True
        try:
            await self.refresh_catalog()
        except BaseException:
            self._open = False
            raise
        await self.dead_letter_names.begin(self._catalog)
        await self.topics.open()
        await self.schedules.open()
        self._alarm_watch = AlarmWatch(self._managers, self._store, self._work, self._clock, self._logger)
        for service in (self._watcher, self._alarm_watch, self._watchdog, self._upgrader):
            await service.open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Deliver no more: streams end with ShuttingDown, unacked messages go back uncounted. May be called twice."""
        if not self._open:
            return
        self._open = False
        for service in (self._upgrader, self._watchdog, self._alarm_watch, self._watcher, self.schedules):
            if service is not None:
                await service.close(grace_seconds=grace_seconds)
        if self._surveyor is not None:
            await self._surveyor.close()
        await self.topics.close(ShuttingDown("Server shutdown in progress"), grace_seconds=grace_seconds)
        served, self._served = self._served, {}
        services = [x for s in served.values() for x in (s.manager, s.mover, s.purger) if x is not None]
        scans, self._scans = self._scans, {}
        await asyncio.gather(*(scan.close(grace_seconds=grace_seconds) for scan in scans.values()))
        await asyncio.gather(*(service.close(grace_seconds=grace_seconds) for service in services))
        await self.topics.history.close(grace_seconds=grace_seconds)

    def _made_schedules(self, work: DatabaseWork) -> Schedules:
        scheduler = SchedulerContext(
            self._store.schedules,
            work,
            self._clock,
            self._logger,
            lambda: self._catalog,
            lambda: self._neighbours.leads,
            self.committed,
        )
        return Schedules(SchedulesContext(scheduler, self._purges, self.catalog_changed))

    async def refresh_catalog(self) -> None:
        """Read the tables again: serve new queues, retune changed ones, end what was dropped. Raises BackendError."""
        async with self._refreshing:
            if not self._open:
                return
            assert self._work is not None
            catalog = await self._work.run(self._store.load_catalog(self._catalog))
            self._refreshed_at = self._clock.monotonic()
            if self._open and (catalog is not self._catalog or self._served.keys() != catalog.queues.keys()):
                self._catalog = catalog
                self.topics.apply(catalog)
                self.traces.tune(catalog)
                await self._apply(catalog)
                await self._scan_groups(catalog)
            if not self._open:
                return
            if self._scheduled != self._catalog.schedules:
                self._scheduled = self._catalog.schedules
                self.schedules.look()

    async def _scan_groups(self, catalog: QueueCatalog) -> None:
        """Keep a scan for every queue whose messages form groups."""
        assert self._work is not None
        grouped = {queue.name: key for queue in catalog if (key := group_key(queue, catalog)) is not None}
        for name in [name for name in self._scans if name not in grouped]:
            await self._scans.pop(name).close()
        for name, key in grouped.items() if self._purges and self._open else ():
            if (scan := self._scans.get(name)) is not None:
                scan.queue, scan.group = catalog.queues[name], key
                continue
            context = GroupScanContext(
                self._store,
                self._work,
                self._jitter,
                self._logger,
                lambda one: self._catalog.get(one),
                lambda: self._neighbours.leads,
                self.committed,
            )
            scan = self._scans[name] = GroupScan(catalog.queues[name], key, context)
            await scan.open()

    async def _apply(self, catalog: QueueCatalog) -> None:
        for name in [name for name in self._served if name not in catalog.queues]:
            served = self._served.pop(name)
            error = QueueNotFound(f"Table '{name}' doesn't exist")
            await served.manager.end(error, release=False)
            await served.mover.close(grace_seconds=1.0)
            if served.purger is not None:
                await served.purger.close()
        for queue in catalog:
            if not self._open:
                return  # closed while a dropped queue was being ended
            if queue.name not in self._served:
                await self._serve(queue)
            elif self._served[queue.name].manager.queue != queue:
                served = self._served[queue.name]
                served.manager.retune(queue)
                served.mover.retune(queue)
                if served.purger is not None:
                    served.purger.queue = queue

    async def _serve(self, queue: QueueSpec) -> None:
        assert self._work is not None
        metrics = QueueMetrics()
        trace = QueueTrace(self.traces, queue.name)
        work = self._work.for_one()
        context = WorkContext(self._store, work, self._clock, self._jitter, metrics, self._logger, trace)
        report = CommitReport(touched=frozenset((queue.name,)))
        mover = DeadLetterMover(queue, context, self._moves)
        manager = MessageManager(
            queue,
            context,
            doubt=self._watcher.doubt,
            released=lambda: self._neighbours.committed(report),
            rejected=mover.want,
            limits=self._filter_limits,
            shares=self._shares,
        )
        purger = Purger(queue, context, lambda: self._neighbours.leads) if self._purges else None
        served = _Served(manager, mover, purger)
        self._served[queue.name] = served
        await served.manager.open()
        await served.mover.open()
        if served.purger is not None:
            await served.purger.open()

    async def catalog_changed(self) -> None:
        """A client's statement may have made, changed or dropped queues: read the tables, here and at the neighbours'.

        Raises BackendError, where they cannot be read here.
        """
        _, failed = await asyncio.gather(
            self._neighbours.catalog_changed(), self.refresh_catalog(), return_exceptions=True
        )
        if isinstance(failed, BaseException):
            raise failed

    def committed(self, report: CommitReport) -> None:
        """A client's transaction is committed: wake the queues it changed. Cheap; names of no queue are ignored."""
        self._take_in(report, here=True)
        self.traces.settled(report.traced)
        for name, counter, rows in report.counted:
            if served := self._served.get(name):
                served.manager.metrics.count(counter, rows)
        self._neighbours.committed(report)

    def heard(self, report: CommitReport) -> None:
        """As `committed`, of a neighbour's client."""
        self._take_in(report, here=False)

    def missed(self) -> None:
        """A neighbour's words were lost: anything may have been committed, or changed."""
        names = frozenset(self._served)
        self._take_in(CommitReport(touched=names, uncertain=names), here=False)
        self.topics.missed()
        self.schedules.look()
        self._watcher.doubt()

    def _take_in(self, report: CommitReport, *, here: bool) -> None:
        put_off: set[QueueName] = set()
        for name, ids in report.settled.items():
            if served := self._served.get(name):
                served.manager.settled(ids, here=here)
        for name, ids in report.changed.items():
            if served := self._served.get(name):
                if here and name in report.touched and served.manager.perhaps_spent(ids):
                    served.mover.want()
                if name in report.put_off and served.manager.put_off(ids, report.put_off[name]):
                    put_off.add(name)
                    continue
                # What gives leases up lets others be looked for; a renewal alone does not.
                served.manager.changed(ids, renewed=name not in report.touched, here=here)
        for name in report.uncertain:
            if served := self._served.get(name):
                served.manager.uncertain()
        for name in report.rejected if here else ():
            if served := self._served.get(name):
                served.mover.want()
        for name in report.touched - put_off:
            if served := self._served.get(name):
                served.manager.touched(report.added.get(name, ()))
            elif self._topics is not None and self._schedules is not None:
                self._schedules.touched(name)
                self._touched_topic(self._topics, name)

    def _touched_topic(self, topics: Topics, name: QueueName) -> None:
        """Messages were added to a topic: its groups may read on."""
        topics.touched(name)
        for group in topics.awake(name):
            served = self._served.get(group)
            if served is None or not (served.manager.touched() or served.manager.subscriptions):
                topics.sleeps(name, group)

    async def subscribe(self, request: SubscribeRequest) -> OpenStream:
        """Open a receiver. Raises QueueNotFound, InvalidQueueTable, UnknownColumn, InvalidOption or ShuttingDown."""
        if request.queue not in self._served and request.start is None:
            await self.refresh_on_miss()
        if not self._open:
            raise ShuttingDown("Server shutdown in progress")
        if request.start is not None:
            return await self.topics.subscribe(request)
        served = self._served.get(request.queue)
        if served is None:
            raise self._not_served(request.queue)
        subscription = served.manager.subscribe(request)
        self.topics.wakes(served.manager.queue)
        subscription.since_ns = self._clock.now_ns()
        return subscription

    def _not_served(self, name: QueueName) -> InvalidQueueTable | QueueNotFound:
        if reason := self._catalog.rejected.get(name):
            return InvalidQueueTable(reason)
        return QueueNotFound(f"Table '{name}' doesn't exist")

    def status(self) -> list[QueueStatus]:
        """Every queue served, in the order of their names."""
        return [self._served[name].manager.status() for name in sorted(self._served)]

    def subscriptions(self) -> list[SubscriptionStatus]:
        """Every open stream, by queue and then in the order in which they were opened."""
        streams = [status for name in sorted(self._served) for status in self._served[name].manager.streams()]
        return streams if self._topics is None else streams + self._topics.streams()

    @property
    def schedules(self) -> Schedules:
        """The schedules, once it is open."""
        assert self._schedules is not None
        return self._schedules

    @property
    def dead_letter_names(self) -> DeadLetterNames:
        """Whose dead letters may go where."""
        return self._moves.names

    @property
    def topics(self) -> Topics:
        """The topics, once it is open."""
        assert self._topics is not None
        return self._topics

    async def fitting(self, name: QueueName, ids: Sequence[MessageId]) -> set[MessageId]:
        """Which of these messages fit the WHERE of a stream of this engine."""
        served = self._served.get(name)
        if served is None or not ids:
            return set()
        return await self.surveyor.fitting(served.manager.queue, served.manager.conditions, ids)

    def holders(self, name: QueueName, ids: Iterable[MessageId]) -> dict[MessageId, SubscriptionStatus]:
        """Which of these messages were sent by this engine and are not settled, and to whom: to an open stream, or as
        part of a result that has ended."""
        served = self._served.get(name)
        found = {} if served is None else {id_: served.manager.holder(id_) for id_ in ids}
        return {id_: holder for id_, holder in found.items() if holder is not None}

    def zone(self, name: str) -> Zone:
        """The time zone of a session whose time_zone is called so."""
        return self._store.zones.zone(name)

    @property
    def surveyor(self) -> Surveyor:
        """What the tables say of their queues. Raises ShuttingDown where the engine is not open."""
        if self._surveyor is None:
            raise ShuttingDown("Server shutdown in progress")
        return self._surveyor

    def _managers(self) -> list[MessageManager]:
        return [served.manager for served in self._served.values()]

    def _other_services(self) -> list[Service]:
        of_queues = [part for served in self._served.values() for part in served.parts]
        return [
            self._watcher,
            *self.topics.services,
            *self.schedules.services,
            *([] if self._alarm_watch is None else [self._alarm_watch]),
            *self._scans.values(),
            *(part for part in of_queues if not isinstance(part, MessageManager)),
        ]

    @property
    def is_watched(self) -> bool:
        """Whether the watchdog lives."""
        return self._watchdog.running and not self._watchdog.died

    @property
    def is_open(self) -> bool:
        """Whether it delivers."""
        return self._open

    @property
    def refresh_period(self) -> float:
        """Seconds between periodic reads of the catalog: the shortest poll_interval, within bounds."""
        intervals = (queue.options.poll_interval_ns / NS_PER_SECOND for queue in self._catalog)
        return min(max(min(intervals, default=_REFRESH_SECONDS_MAX), _REFRESH_SECONDS_MIN), _REFRESH_SECONDS_MAX)

    async def refresh_on_miss(self, *, patient: bool = False) -> None:
        """Read the tables again because an unknown queue is asked for: perhaps another proxy has just created it.

        Where that was done a moment ago it helps no more, or only `patient` ones: they wait until it may be done again.
        """
        began = self._clock.monotonic()
        wait = self._refreshed_at + _REFRESH_ON_MISS_SECONDS - began
        if wait > 0 and patient:
            await asyncio.sleep(wait)
        if not self._open or self._refreshed_at > began or (wait > 0 and not patient):
            return  # others who waited may have done it meanwhile
        try:
            await self.refresh_catalog()
        except BackendError as error:
            if not isinstance(error, BackendUnavailable):
                self._logger.warning("reading the catalog failed: %s", error)

"""MemoryStore: a MessageStore over dictionaries, held to the same contract suite as the stores in SQL.

It can do what a database does to us: answer late, fail before or after it has done the work, keep rows locked. `calls`
counts what it was asked, for tests that say how much database work something may cause; a poll_and_claim counts as the
two that it is made of, and in `at_once`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from memory_schedules import MemorySchedules
from memory_topics import MemoryTopics
from memory_traces import MemoryTraces
from virtual_time import VirtualClock, pass_time

from engine.clock import Clock
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.identity import is_spent
from engine.model.key_range import SLOT_COLUMN, KeyRange
from engine.model.lease_token import LeaseTimes, next_token, voided
from engine.model.options import QueueOptions
from engine.model.queue import (
    ColumnMeta,
    Condition,
    Message,
    MessageId,
    MessageKey,
    QueueCatalog,
    QueueName,
    QueueSpec,
    ReceiverIdentity,
    TextValue,
    TopicSpec,
)
from engine.model.states import REJECTED_NS, due_again, goes_alone, is_alongside, is_lease_end, lease_end
from engine.store.base import (
    NOTHING_AHEAD,
    Claim,
    ForeseenLease,
    InOneShard,
    LeasedMessage,
    LeaseState,
    LeaseUnknown,
    LimitWait,
    Page,
    PartitionPurge,
    PollAndClaim,
    PollResult,
    Position,
    Release,
    ScanResult,
    Stuck,
    first_free,
    lease_is_current,
    release_of,
)
from engine.store.census import Census, RangeCount
from engine.store.last_receivers import LastReceivers
from engine.store.operations.limits import Rate
from engine.store.sharing import UNMARKED, Sharing
from engine.store.zones import Zones
from engine.traces import QueueTrace, Traces

T = TypeVar("T")

NAME = QueueName("main", "q")
COLUMNS = tuple(
    ColumnMeta(name=name, type=code, flags=flags)
    for name, code, flags in (
        ("id", 8, 0x200),
        ("priority", 1, 0),
        ("time_next", 8, 0),
        ("epoch", 8, 0),
        ("time_acked", 8, 0),
        ("payload", 253, 0),
        ("time_scheduled", 8, 0),
        ("lease_token", 8, 1),
    )
)


def make_spec(name: QueueName = NAME, **options: object) -> QueueSpec:
    """A queue as the catalog would have read it."""
    return QueueSpec(name, QueueOptions(**options), COLUMNS, ("id", "payload"))  # type: ignore[arg-type]


@dataclass
class Row:
    """A message in the table."""

    id: MessageId
    priority: int | None = 50
    time_next: int | None = 0
    epoch: int | None = 0
    time_acked: int | None = None
    payload: str | None = "x"
    time_scheduled: int | None = None
    lease_token: int = 0

    def __post_init__(self) -> None:
        if self.time_scheduled is None:
            self.time_scheduled = self.time_next

    @property
    def due_ns(self) -> int:
        return self.time_next or 0

    @property
    def slot(self) -> int:
        """Of a ring: message 1 is in 10-20, 9 in 90-a0."""
        return (int(self.id) & 0xF) << 12

    def values(self) -> tuple[TextValue, ...]:
        fields = (
            self.id,
            self.priority,
            self.time_next,
            self.epoch,
            self.time_acked,
            self.payload,
            self.time_scheduled,
            self.lease_token,
        )
        return tuple(None if value is None else str(value).encode() for value in fields)


_BETWEEN = re.compile(rf"{SLOT_COLUMN} BETWEEN (\d+) AND (\d+)")


def _fits(condition: Condition, row: Row) -> bool:
    fields = {"id": row.id, "priority": row.priority, "epoch": row.epoch, "payload": row.payload, "slot": row.slot}
    try:
        python = _BETWEEN.sub(r"\1 <= slot <= \2", condition.sql).replace(" AND ", " and ").replace(" OR ", " or ")
        python = python.replace(f"{SLOT_COLUMN} >> 8) IN (", "slot >> 8) in (-1, ").replace("1 = 0", "1 == 0")
        return bool(eval(python, {"__builtins__": {"len": len, "int": int}}, fields))
    except ValueError as error:
        raise BackendError(f"the condition failed: {error}", 3141, "22032") from None


def _place(row: Row) -> tuple[bool, int, bool, int, Any]:
    """In the order of a scan: without a priority first, in each level those without a due time first."""
    return _place_of(Position(row.priority, row.time_next, row.id))


def _place_of(at: Position) -> tuple[bool, int, bool, int, Any]:
    return (at.priority is not None, at.priority or 0, at.due_ns is not None, at.due_ns or 0, at.id or 0)


class MemoryBirths:
    """The reads of messages that were inserted as leased."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def read(self, queue: QueueSpec, leases: Sequence[Release]) -> Claim | None:
        store = self._store

        async def work() -> Claim | None:
            if store.replicates:
                return None
            now, born = store._now_ns(), []
            for lease in leases:
                for row in store._rows(queue, (lease.id,)):
                    if (row.epoch, row.lease_token) == (lease.epoch, lease.token):
                        due_ns, priority, values = row.time_scheduled or 0, row.priority or 0, row.values()
                        born.append(Message(row.id, 1, priority, due_ns, row.time_next or 0, values, lease.token))
            return Claim(now, tuple(born))

        return await store._call("born", work)

    async def find(self, queue: QueueSpec, until_ns: int, token: int) -> MessageId | None:
        store = self._store

        async def work() -> MessageId | None:
            rows = store._rows(queue, list(store._table(queue)))
            return next((row.id for row in rows if (row.time_next, row.lease_token) == (until_ns, token)), None)

        return await store._call("find_born", work)


class MemoryCounts:
    """Its messages have no slots: all are in the first stretch of a ring."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def census(self, queue: QueueSpec) -> Census:
        store = self._store

        async def work() -> Census:
            now, rows = store.clock.now_ns(), list(store._table(queue).values())
            waiting = [row for row in rows if row.time_acked is None]
            later = [row for row in waiting if row.time_next is not None and row.time_next > now]
            marked = [row for row in later if is_lease_end(row.due_ns) and row.due_ns < REJECTED_NS]
            parked = [row for row in later if row.due_ns >= REJECTED_NS]
            scheduled = [row for row in later if not row.epoch and row not in marked and row not in parked]
            return Census(
                ready=len(waiting) - len(later),
                scheduled=len(scheduled),
                retrying=len(later) - len(scheduled) - len(marked) - len(parked),
                in_flight=len(marked),
                parked=len(parked),
                acked=len(rows) - len(waiting),
            )

        return await store._call("census", work)

    async def leased_messages(self, queue: QueueSpec, limit: int) -> list[LeasedMessage]:
        store = self._store

        async def work() -> list[LeasedMessage]:
            now = store.clock.now_ns()
            rows = sorted((row.due_ns, row.id) for row in store._table(queue).values() if is_lease_end(row.due_ns))
            return [LeasedMessage(id_, 0, 1, until, (until - now) / 1e9) for until, id_ in rows if until > now][:limit]

        return await store._call("leased_messages", work)

    async def ranges(self, queue: QueueSpec, ranges: Sequence[KeyRange]) -> list[RangeCount]:
        census = await self.census(queue)
        later = census.scheduled + census.retrying + census.parked
        return [RangeCount(ranges[0], census.ready, later, census.in_flight), *map(RangeCount, ranges[1:])]


@dataclass
class MemoryStore:
    """See the module."""

    clock: Clock
    catalog: QueueCatalog = field(default_factory=QueueCatalog)
    times: LeaseTimes = field(default_factory=LeaseTimes)
    tables: dict[QueueName, dict[MessageId, Row]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    examined: int = 0
    latency: float = 0.0
    down: BackendError | None = None
    replicates: bool = False
    fail_after: BackendError | None = None
    locked: set[MessageId] = field(default_factory=set)
    refused: set[MessageId] = field(default_factory=set)
    """A claim or release of any of these fails as a whole, with that error."""
    refusal: BackendError = field(default_factory=lambda: BackendError("Truncated: '12abc'", 1292, "22007"))
    arrivals: dict[QueueName, int] = field(default_factory=dict)
    during: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    running: int = 0
    running_most: int = 0

    def __post_init__(self) -> None:
        self.births = MemoryBirths(self)
        self.placement = InOneShard()
        self.counts = MemoryCounts(self)
        self.topics = MemoryTopics(self.clock)
        self.traces = MemoryTraces(self.clock)
        self.last_receivers = LastReceivers()
        self.schedules = MemorySchedules(self.clock)
        self.zones = cast(Zones, None)  # its rows have no moments

    def serve(self, *queues: QueueSpec, topics: Sequence[TopicSpec] = ()) -> None:
        """Replace the tables that exist by these queues and topics; tables that stay keep their messages.

        Nothing is fed to the queues of consumer groups.
        """
        by_name = {queue.name: queue for queue in queues}
        self.catalog = QueueCatalog(self.catalog.version + 1, by_name, topics={topic.name: topic for topic in topics})
        self.topics.serve(*topics)
        self.tables = {queue.name: self.tables.get(queue.name, {}) for queue in queues}

    def add(self, *rows: Row, queue: QueueName = NAME) -> None:
        self.tables[queue].update((row.id, row) for row in rows)

    def fill(self, ids: range, queue: QueueName = NAME) -> None:
        """Messages due now, in the order of their ids."""
        self.add(*(Row(id_, time_next=id_) for id_ in ids), queue=queue)

    def ack(self, *ids: MessageId, queue: QueueName = NAME) -> None:
        for id_ in ids:
            row = self.tables[queue][id_]
            row.time_acked, row.time_next = self.clock.now_ns(), None

    # --- MessageStore

    async def load_catalog(self, previous: QueueCatalog, named: Collection[QueueName] | None = None) -> QueueCatalog:
        async def work() -> QueueCatalog:
            read = self.catalog
            same = (previous.queues, previous.rejected, previous.topics) == (read.queues, read.rejected, read.topics)
            return previous if same else replace(self.catalog, version=previous.version + 1)

        return await self._call("load_catalog", work)

    async def poll(self, queue: QueueSpec, limit: int, ahead: Mapping[str, PollResult] = NOTHING_AHEAD) -> PollResult:
        async def work() -> PollResult:
            now = self._now_ns()
            waiting = [row for row in self._table(queue).values() if row.time_acked is None]
            due = [row for row in waiting if row.time_next is None or row.time_next <= now]
            due = [row for row in due if self._may_go(queue, row, now)]
            keys = sorted(MessageKey(row.priority or 0, row.due_ns, row.id) for row in due)
            later = [
                row.time_next for row in waiting if row.time_next is not None and now < row.time_next < REJECTED_NS
            ]
            return PollResult(now, tuple(keys[:limit]), min(later, default=None), len(keys) > limit)

        return await self._call("poll", work)

    async def scan(self, queue: QueueSpec, condition: Condition, page: Page) -> ScanResult:
        """Conditions are Python here, over a row's fields."""

        async def work() -> ScanResult:
            now = self.clock.now_ns() - condition.age_ns
            waiting = [row for row in self._table(queue).values() if row.time_acked is None]
            later = [row.time_next for row in waiting if row.time_next is not None and row.time_next > now]
            due = [row for row in waiting if row.time_next is None or row.time_next <= now]
            rows = sorted(due, key=_place)
            if page.floor_ns is not None:
                rows = [row for row in rows if row.time_next is None or row.time_next > page.floor_ns]
            if page.after is not None:
                rows = [row for row in rows if _place(row) > _place_of(page.after)]
            keys: list[MessageKey] = []
            for examined, row in enumerate(rows, 1):
                self.examined += 1
                if _fits(condition, row):
                    keys.append(MessageKey(row.priority or 0, row.due_ns, row.id))
                if examined == page.span or len(keys) == page.limit:
                    position = Position(row.priority, row.time_next, row.id)
                    return ScanResult(PollResult(now, tuple(sorted(keys)), min(later, default=None), True), position)
            return ScanResult(PollResult(now, tuple(sorted(keys)), min(later, default=None), False), None)

        return await self._call("scan", work)

    async def slots(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        async def work() -> dict[MessageId, int]:
            return {row.id: row.slot for row in self._rows(queue, ids)}

        return await self._call("slots", work)

    async def fitting(self, queue: QueueSpec, condition: Condition, ids: Sequence[MessageId]) -> set[MessageId]:
        async def work() -> set[MessageId]:
            table = self._table(queue)
            return {id_ for id_ in ids if id_ in table and _fits(condition, table[id_])}

        return await self._call("fitting", work)

    async def claim(
        self,
        queue: QueueSpec,
        ids: Sequence[MessageId],
        delays_ns: Mapping[int, int],
        condition: Condition | None = None,
        sharing: Sharing = UNMARKED,
    ) -> Claim:
        messages: list[Message] = []

        async def work() -> Claim:
            self._check_refused(ids)
            now, last = self._now_ns(), max(delays_ns)
            rejected: list[MessageId] = []
            claimed: list[tuple[Row, int]] = []
            allowed, deferred = self._chosen(queue, ids, now)
            for row in self._rows(queue, allowed):
                if row.id in self.locked or (row.time_next is not None and row.time_next > now):
                    continue
                if condition is not None and not _fits(condition, row):
                    continue
                due_ns, epoch = row.due_ns, row.epoch or 0
                if sharing.marks and goes_alone(due_ns):
                    if not sharing.alone:
                        continue
                    name, last_had = row.lease_token or due_ns, self.last_receivers
                    known = is_lease_end(due_ns) and last_had.was_alongside(queue.name, row.id, epoch, name)
                    epoch -= epoch > 0 and (is_alongside(due_ns) or known)
                if 0 < queue.options.attempts_max <= epoch:
                    row.time_next = REJECTED_NS
                    rejected.append(row.id)
                    continue
                claimed.append((row, epoch))
            alone = sharing.leased_alone([row.id for row, _ in claimed])
            for row, epoch in claimed:
                due_ns = row.due_ns
                end = lease_end(now + delays_ns[min(epoch, last)], alongside=row.id not in alone)
                row.time_next, row.epoch = end, epoch + 1
                row.lease_token = next_token(row.lease_token, self.times.next(now))
                message = Message(row.id, row.epoch, row.priority or 0, due_ns, row.time_next, row.values())
                messages.append(message._replace(token=row.lease_token))
            self._charge(queue, len(messages), now)
            return Claim(
                now,
                tuple(messages),
                tuple(deferred),
                self._limit_wait(queue, now) if deferred else None,
                tuple(rejected),
            )

        try:
            return await self._call("claim", work)
        except BackendUnavailable as error:
            leases = [release_of(message) for message in messages]
            raise LeaseUnknown(error, leases) from error

    async def poll_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing = UNMARKED,
    ) -> PollAndClaim:
        self.at_once += 1
        poll = await self.poll(queue, limit)
        ids = first_free(poll, count, blocked, sharing)
        claim = await self.claim(queue, ids, delays_ns, sharing=sharing) if ids else None
        return PollAndClaim(poll, ids, claim)

    async def claim_added(self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease) -> Claim | None:
        leased: list[Message] = []

        async def work() -> Claim | None:
            now = self._now_ns()
            kept = self.locked.union(self.refused).intersection(ids)
            if not foreseen.earliest_ns <= now <= foreseen.latest_ns or kept:
                return None
            for row in self._rows(queue, ids):
                if row.epoch == 0 and row.due_ns <= now and row.time_next == row.time_scheduled:
                    due_ns, row.time_next, row.epoch = row.due_ns, foreseen.until_ns, 1
                    row.lease_token = next_token(row.lease_token, self.times.next(now))
                    message = Message(row.id, 1, row.priority or 0, due_ns, row.time_next, row.values())
                    leased.append(message._replace(token=row.lease_token))
            return Claim(now, tuple(leased)) if leased else None

        try:
            return await self._call("claim_added", work)
        except BackendUnavailable as error:
            leases = [Release(id_, foreseen.earliest_ns, foreseen.until_ns, 1) for id_ in ids]
            raise LeaseUnknown(error, leases) from error

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, LeaseState]:
        async def work() -> dict[MessageId, LeaseState]:
            rows = [row for row in self._rows(queue, ids) if row.due_ns < REJECTED_NS]
            return {row.id: LeaseState(row.epoch or 0, row.time_next, row.lease_token) for row in rows}

        return await self._call("unsettled", work)

    def _check_refused(self, ids: Sequence[MessageId]) -> None:
        if self.refused.intersection(ids):
            raise self.refusal

    async def release(
        self,
        queue: QueueSpec,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        gone: ReceiverIdentity | None = None,
    ) -> int:
        async def work() -> int:
            self._check_refused([lease.id for lease in leases])
            count = 0
            for lease in leases:
                for row in self._rows(queue, (lease.id,)):
                    held = lease_is_current(lease, LeaseState(row.epoch or 0, row.time_next, row.lease_token))
                    if held and row.id not in self.locked:
                        due_ns = (row.time_scheduled or 0) if lease.due_ns is None else lease.due_ns
                        apart = queue.options.tries_alone and (alone or goes_alone(due_ns))
                        spent = counted and is_spent(queue, lease.epoch)
                        row.time_next = REJECTED_NS if spent else due_again(due_ns, alone=apart)
                        row.epoch = lease.epoch - (not counted)
                        row.lease_token = voided(row.lease_token)
                        count += 1
            return count

        return await self._call("release", work)

    async def rejected(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        async def work() -> list[MessageId]:
            rows = self._rows(queue, list(self._table(queue)))
            return [row.id for row in rows if row.time_next == REJECTED_NS][:limit]

        return await self._call("rejected", work)

    async def move_to_dead_letters(self, queue: QueueSpec, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        async def work() -> int:
            target = self._table(dead)
            rows = [row for row in self._rows(queue, ids) if row.time_next == REJECTED_NS and row.id not in self.locked]
            if any(row.id in target and target[row.id].time_acked is None for row in rows):
                raise BackendError("Duplicate entry", 1062, "23000")
            for row in rows:
                del self.tables[queue.name][row.id]
                target[row.id] = replace(row, time_next=self._now_ns(), epoch=0, lease_token=0)
            return len(rows)

        return await self._call("move_to_dead_letters", work)

    async def purge_partitions(self, queue: QueueSpec) -> PartitionPurge | None:
        return None

    async def purge(
        self, queue: QueueSpec, limit: int, purged: PartitionPurge | None = None, stuck: Stuck | None = None
    ) -> int:
        async def work() -> int:
            before = self.clock.now_ns() - queue.options.purge_after_ns
            table = self._table(queue)
            old = sorted((row.time_acked, row.id) for row in table.values() if row.time_acked is not None)
            ids = [id_ for acked, id_ in old if acked < before and id_ not in self.locked][:limit]
            for id_ in ids:
                del table[id_]
            return len(ids)

        return await self._call("purge", work)

    async def add_tokens(self, queue: QueueSpec) -> None:
        self.calls["add_tokens"] += 1

    async def ping(self) -> None:
        async def work() -> None:
            pass

        await self._call("ping", work)

    # --- limits

    def _in_flight(self, queue: QueueSpec, now: int) -> list[Row]:
        rows = self._rows(queue, list(self._table(queue)))
        return [row for row in rows if row.due_ns > now and is_lease_end(row.due_ns) and (row.epoch or 0) > 0]

    def _may_go(self, queue: QueueSpec, row: Row, now: int) -> bool:
        """By its key, which is the payload or the whole queue."""
        options = queue.options
        if options.order_key is None or (options.order_key != "*" and row.payload is None):
            return True
        rows = self._rows(queue, list(self._table(queue)))
        same = [other for other in rows if options.order_key == "*" or other.payload == row.payload]
        if any(other in self._in_flight(queue, now) for other in same):
            return False
        before = [other for other in same if other.id < row.id]  # type: ignore[operator]
        if options.on_failure == "skip":
            before = [other for other in before if not other.epoch or other.due_ns <= now]
        return not before

    def _chosen(self, queue: QueueSpec, ids: Sequence[MessageId], now: int) -> tuple[list[MessageId], list[MessageId]]:
        due = {row.id: row for row in self._rows(queue, ids) if row.due_ns <= now}
        free = [id_ for id_ in ids if id_ not in due or self._may_go(queue, due[id_], now)]
        count = len(free)
        if queue.options.max_concurrency is not None:
            count = min(count, queue.options.max_concurrency - len(self._in_flight(queue, now)))
        if queue.options.max_rate is not None:
            rate = Rate.of(queue.options.max_rate)
            count = min(count, rate.allowed(now, self.arrivals.get(queue.name, 0)))
        return free[: max(count, 0)], free[max(count, 0) :]

    def _charge(self, queue: QueueSpec, count: int, now: int) -> None:
        if queue.options.max_rate is not None:
            rate = Rate.of(queue.options.max_rate)
            self.arrivals[queue.name] = rate.after(now, self.arrivals.get(queue.name, 0), count)

    def _limit_wait(self, queue: QueueSpec, now: int) -> LimitWait | None:
        leased, options = self._in_flight(queue, now), queue.options
        if options.max_concurrency is not None and len(leased) >= options.max_concurrency:
            return LimitWait(min(row.due_ns for row in leased) - now, for_concurrency=True)
        if options.max_rate is not None:
            rate, arrival = Rate.of(options.max_rate), self.arrivals.get(queue.name, 0)
            if not rate.allowed(now, arrival):
                return LimitWait(rate.wait_ns(now, arrival), for_concurrency=False)
        return None

    async def close(self) -> None:
        self.calls["close"] += 1

    def _now_ns(self) -> int:
        """In whole microseconds, as databases count."""
        return self.clock.now_ns() // 1000 * 1000

    def _table(self, queue: QueueSpec) -> dict[MessageId, Row]:
        if queue.name not in self.tables:
            raise BackendError(f"Table '{queue.name}' doesn't exist", 1146, "42S02")
        return self.tables[queue.name]

    def _rows(self, queue: QueueSpec, ids: Sequence[MessageId]) -> list[Row]:
        table = self._table(queue)
        return [table[id_] for id_ in ids if id_ in table and table[id_].time_acked is None]

    async def _call(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        self.calls[name] += 1
        self.running += 1
        self.running_most = max(self.running_most, self.running)
        try:
            if self.latency:
                await pass_time(self.latency)
            if self.down is not None:
                raise self.down
            result = await work()
            if name in self.during:
                await self.during.pop(name)()
            if self.fail_after is not None:
                error, self.fail_after = self.fail_after, None
                raise error
            return result
        finally:
            self.running -= 1


def untraced(clock: VirtualClock) -> QueueTrace:
    """A trace that nobody reads."""
    return QueueTrace(Traces(clock), NAME)

"""The claim of a queue with limits or an order_key, in SQL: one transaction; the claims of all proxies are serialised.

It locks the queue's row of queuegate_limits, counts and chooses by what is committed, and leases as any claim does. So
two proxies never use the same free slot. The counts come from the messages themselves: a crash at any point leaves
nothing to repair.

Where messages are ordered by the sharding key, all messages of a key are in one part of the ring. A claim for receivers
of some parts then locks the rows of these parts, and shares the row of the queue. So claims of other parts go on beside
it, and one for the whole ring waits for it, also one of a version that knows no parts. Not on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from engine.backend.base import Statement, StoreConnection
from engine.model.errors import BackendError, MissingTableAllowed
from engine.model.key_range import PARTS
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition, MessageId, QueueSpec
from engine.store.base import Claim, LimitWait
from engine.store.operations import due_messages, lease
from engine.store.operations.order import KeyOrder
from engine.store.statements.limits import LimitStatements
from engine.store.statements.order import OrderStatements
from engine.store.statements.queue import QueueStatements

# What a queue's limits allow, as pure arithmetic: its rate, as the generic cell rate algorithm (GCRA) counts it.
#
# The whole state of a rate is one time, the theoretical arrival time: when the next delivery would come if all came
# evenly spaced. It runs ahead of the clock by what was delivered at once, and never by more than the burst. So it
# needs no timer and no history, survives a restart, and is stored in a row that all proxies lock for a claim.

_BURST_SECONDS = Decimal("0.1")  # what may go out at once: a tenth of a second's deliveries, at least one
_SLACK_NS = 20_000_000  # how far a slow rate may run ahead, so that a timer that fires late costs it no delivery


@dataclass(frozen=True, slots=True)
class Rate:
    """Deliveries per second, of a whole queue. In any time t it lets pass at most rate * t + burst of them."""

    interval_ns: int
    tolerance_ns: int

    @classmethod
    def of(cls, per_second: Decimal) -> Rate:
        """The rate of the option `max_rate`."""
        interval_ns = max(1, int(NS_PER_SECOND / per_second))
        burst = max(Decimal(1), per_second * _BURST_SECONDS)
        tolerance_ns = max(int((burst - 1) * interval_ns), min(interval_ns, _SLACK_NS))
        return cls(interval_ns, tolerance_ns)

    def allowed(self, now_ns: int, arrival_ns: int) -> int:
        """How many deliveries may go now."""
        ahead_ns = self._start(now_ns, arrival_ns) - now_ns
        return max(0, (self.tolerance_ns - ahead_ns) // self.interval_ns + 1)

    def after(self, now_ns: int, arrival_ns: int, count: int) -> int:
        """The theoretical arrival time once that many went."""
        return self._start(now_ns, arrival_ns) + count * self.interval_ns

    def wait_ns(self, now_ns: int, arrival_ns: int) -> int:
        """From now until the next may go."""
        return max(0, self._start(now_ns, arrival_ns) - self.tolerance_ns - now_ns)

    def _start(self, now_ns: int, arrival_ns: int) -> int:
        """Where to count from.

        A time further ahead than this rate allows is from another rate, or from a clock that was set back: it counts as
        a used-up burst. It must not be waited for, nor be used as it is: it would move on with the clock.
        """
        if arrival_ns > now_ns + self.tolerance_ns + self.interval_ns:
            return now_ns + self.tolerance_ns
        return max(now_ns, arrival_ns)


_CHUNK_MIN = 50  # messages asked about at once, whether they may go by their keys


@dataclass(frozen=True, slots=True)
class LimitedStatements:
    """The texts for one queue with limits."""

    queue: QueueStatements
    limits: LimitStatements
    order: OrderStatements | None


_TIMES = (due_messages.INTEGER,)

PARTS_LOCKED_MAX = PARTS // 2
"""Parts that one claim locks by their rows; one for more locks the row of the queue."""


def parts_of(queue: QueueSpec, condition: Condition | None) -> Sequence[int]:
    """The parts of the ring to lock for a claim for receivers with that condition; none: the whole queue."""
    key_range = None if condition is None else condition.key_range
    if key_range is None or not _has_ordered_parts(queue):
        return ()
    parts = [part for span in key_range.spans for part in span.parts]
    return parts if len(parts) <= PARTS_LOCKED_MAX else ()


def _has_ordered_parts(queue: QueueSpec) -> bool:
    """Whether its one limit is the order by its sharding key, and equal keys are equal bytes: then all messages of one
    key are in one part. Texts that their collation takes for equal may be in different parts."""
    options, column = queue.options, queue.column(queue.options.sharding_key or "")
    if column is None or column.is_text or options.max_rate is not None or options.max_concurrency is not None:
        return False
    return (options.order_key or "").lower() == column.name.lower()


def prepare(connection: StoreConnection, statements: LimitStatements, queue: QueueSpec) -> None:
    """Create the queue's row, and its table, where they are missing. It does not matter who created the table."""
    with MissingTableAllowed():
        _add(connection, statements, queue)
        return
    connection.execute(statements.make)
    _add(connection, statements, queue)


def _add(connection: StoreConnection, statements: LimitStatements, queue: QueueSpec) -> None:
    connection.query(statements.proof)
    connection.execute(statements.add, (queue.name.table,))
    if statements.locks_parts and not connection.replicates and _has_ordered_parts(queue):
        connection.execute(statements.add_parts, statements.part_rows(range(PARTS)))


def claim(
    connection: StoreConnection,
    statements: LimitedStatements,
    queue: QueueSpec,
    ids: Sequence[MessageId],
    terms: lease.Terms,
    arrival_ns: int | None = None,
) -> Claim:
    """MessageStore.claim of a queue with limits. `arrival_ns`: what `lock` has returned in this transaction. Raises
    BackendError where `prepare` is needed."""
    if arrival_ns is None:
        arrival_ns = lock(connection, statements.limits, queue)
    return _Claiming(connection, statements, queue, arrival_ns).claim(ids, terms)


def lock(connection: StoreConnection, statements: LimitStatements, queue: QueueSpec, parts: Sequence[int] = ()) -> int:
    """Lock the queue's row until the transaction ends, or these parts of its ring; returns the state of its rate
    limit."""
    parts = () if connection.replicates else parts
    name = (queue.name.table,)
    if not parts:
        rows = connection.query(statements.lock, name)
        if not rows:
            raise BackendError(f"queue {queue.name} has no row in queuegate_limits")
        return int(rows[0][0])
    locking = Statement(statements.lock_parts(len(parts)), statements.part_rows(parts), _TIMES)
    shared, locked = connection.run((Statement(statements.share, name, _TIMES), locking))
    if not shared.rows or len(locked.rows) < len(parts):
        raise BackendError(f"queue {queue.name} or its parts have no rows in queuegate_limits")
    return 0  # such a queue has no rate


class _Claiming:
    """One claim, its row locked."""

    def __init__(
        self, connection: StoreConnection, statements: LimitedStatements, queue: QueueSpec, arrival_ns: int
    ) -> None:
        self._connection, self._statements, self._queue = connection, statements, queue
        # Not in the statement that locks: that one took the time before it waited.
        self._now_ns = int(connection.query(statements.queue.now)[0][0])
        self._arrival_ns = arrival_ns
        self._rate = None if queue.options.max_rate is None else Rate.of(queue.options.max_rate)
        self._slots = self._free_slots()

    def claim(self, ids: Sequence[MessageId], terms: lease.Terms) -> Claim:
        count = self._allowed(len(ids))
        chosen, deferred = self._choose(ids, count) if count else ([], list(ids))
        first_end_ns = self._first_end_ns() if deferred else None  # now: nothing may follow the commit
        claimed = Claim(self._now_ns, ())
        if chosen:
            statements, commits = self._statements.queue, self._rate is None
            claimed = lease.claim(self._connection, statements, self._queue, chosen, terms, commits=commits)
            self._charge(len(claimed.messages))
        if not deferred:
            return claimed
        ends = [message.lease_until_ns for message in claimed.messages]
        limit_wait = self._limit_wait(
            min((end for end in (*ends, first_end_ns) if end is not None), default=self._now_ns)
        )
        return replace(claimed, deferred=tuple(deferred), limit_wait=limit_wait)

    def _free_slots(self) -> int | None:
        most = self._queue.options.max_concurrency
        if most is None:
            return None
        return most - int(self._connection.query(self._statements.limits.in_flight, (most,))[0][0])

    def _allowed(self, wanted: int) -> int:
        if self._slots is not None:
            wanted = min(wanted, self._slots)
        if self._rate is not None:
            wanted = min(wanted, self._rate.allowed(self._now_ns, self._arrival_ns))
        return wanted

    def _choose(self, ids: Sequence[MessageId], count: int) -> tuple[list[MessageId], list[MessageId]]:
        """The first ids that may be claimed, and those beyond the limits. Messages that their key blocks are in
        neither."""
        if self._statements.order is None:
            return list(ids[:count]), list(ids[count:])
        order = KeyOrder(self._connection, self._statements.order, self._queue)
        chosen: list[MessageId] = []
        start, step = 0, max(count, _CHUNK_MIN)
        while start < len(ids) and len(chosen) < count:
            chunk = ids[start : start + step]
            free = {position.id for position in order.free(chunk)}
            chosen += [id_ for id_ in chunk if id_ in free]
            start += step
        return chosen[:count], [*chosen[count:], *ids[start:]]

    def _charge(self, count: int) -> None:
        if self._slots is not None:
            self._slots -= count
        if self._rate is not None:
            self._arrival_ns = self._rate.after(self._now_ns, self._arrival_ns, count)
            self._connection.execute(self._statements.limits.charge, (self._arrival_ns, self._queue.name.table))

    def _limit_wait(self, first_end_ns: int) -> LimitWait | None:
        """Why nothing more may be claimed now; None where something may."""
        if self._slots is not None and self._slots <= 0:
            return LimitWait(max(0, first_end_ns - self._now_ns), for_concurrency=True)
        if self._rate is not None and not self._rate.allowed(self._now_ns, self._arrival_ns):
            return LimitWait(self._rate.wait_ns(self._now_ns, self._arrival_ns), for_concurrency=False)
        return None

    def _first_end_ns(self) -> int | None:
        """When the first of the existing leases ends."""
        if self._slots is None:
            return None
        end = self._connection.query(self._statements.limits.first_end)[0][0]
        return None if end is None else int(end)

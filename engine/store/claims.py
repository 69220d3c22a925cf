"""Claims: every way in which messages of a queue are leased; and GroupFeed, which copies the messages of a topic into
the queue of a consumer group before its polls.

Invariant: what a method returns as leased is committed as leased. Where that is not known, it raises LeaseUnknown with
the leases that may have been made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from engine.backend.base import Answer, Statement, StoreConnection, StorePool
from engine.model.errors import LOCKED, ROLLED_BACK, BackendError, BackendUnavailable, CommitUnknown, is_refusal
from engine.model.lease_token import LeaseTimes
from engine.model.queue import Condition, Layout, MessageId, MessageKey, QueueName, QueueSpec
from engine.model.states import REJECTED_NS
from engine.model.topics import FeedResult
from engine.store.base import (
    Claim,
    ForeseenLease,
    LeaseUnknown,
    PollAndClaim,
    PollResult,
    first_free,
    release_of,
)
from engine.store.known_queues import CatalogReader, PreparedQueue, PreparedQueues
from engine.store.last_receivers import LastReceivers
from engine.store.operations import due_messages, feed, lease, scan
from engine.store.operations import limits as sql_limits
from engine.store.sharing import Sharing
from engine.store.statements.dialect import Dialect
from engine.store.statements.scan import ScanStatements
from engine.store.topic_log import TopicLog

T = TypeVar("T")

WITHOUT_THREAD_MAX = 10
"""Messages that the event loop itself waits for and reads: larger answers would hold it up."""


class GroupFeed:
    """See the module. Nothing is fed to a group whose topic was dropped."""

    def __init__(self, pool: StorePool, topics: TopicLog, catalog: CatalogReader, prepared: PreparedQueues) -> None:
        self._pool, self.topics, self._catalog, self._prepared = pool, topics, catalog, prepared

    async def feed(self, group: QueueSpec, limit: int, *, whatever_waits: bool = False) -> FeedResult:
        """Copy the messages that a group may read, until `limit` messages are due in its queue. With `whatever_waits`,
        due messages there do not count."""
        assert group.options.topic is not None
        topic = self._catalog.topic_of(group)
        if topic is None:
            return FeedResult(0, False)
        if group.options.order_key is not None:
            # Due messages may be blocked by their key, and must not keep out the messages of other keys.
            polled = await self._pool.read(self._prepared.of(group).polling(limit))
            limit, whatever_waits = limit - len(polled.keys), True
        if limit <= 0:
            return FeedResult(0, False)
        return await self.topics.feed(group, topic, limit, whatever_waits=whatever_waits)

    async def take(self, group: QueueSpec, count: int, terms: lease.Terms) -> PollAndClaim | None:
        """The result of a poll and a claim for a group that has nothing due and whose topic has messages for it; None
        where this is not known to be the case."""
        topic = self._catalog.topic_of(group)
        if topic is None:
            return None
        taken = await self.topics.take(group, topic, self._prepared.of(group).statements, count, terms)
        if taken is None:
            return None
        keys = tuple(MessageKey(message.priority, message.due_ns, message.id) for message in taken.messages)
        next_due_ns = taken.next_due_ns if taken.next_due_ns < REJECTED_NS else None
        poll = PollResult(taken.now_ns, keys, next_due_ns, taken.more)
        claim = Claim(taken.now_ns, taken.messages) if keys else None
        return PollAndClaim(poll, tuple(key.id for key in keys), claim)


class Claims:
    """See the module. The methods are those of MessageStore."""

    def __init__(
        self,
        pool: StorePool,
        dialect: Dialect,
        prepared: PreparedQueues,
        group_feed: GroupFeed,
        times: LeaseTimes,
        last_receivers: LastReceivers,
    ) -> None:
        self._pool, self._dialect, self._prepared, self._group_feed = pool, dialect, prepared, group_feed
        self._times, self._last_receivers = times, last_receivers
        self._has_row: set[QueueName] = set()  # queues whose row of queuegate_limits was seen

    async def claim(
        self,
        queue: QueueSpec,
        ids: Sequence[MessageId],
        delays_ns: Mapping[int, int],
        condition: Condition | None,
        sharing: Sharing,
    ) -> Claim:
        assert ids and delays_ns
        terms = self._terms(queue, delays_ns, sharing)
        work = self._claiming(queue, ids, terms)
        if condition is not None:
            work = self._claiming_fitting(queue, ids, terms, condition)
        return await self._with_limit_row(queue, lambda: self._pool.write(work))

    def _claiming_fitting(
        self, queue: QueueSpec, ids: Sequence[MessageId], terms: lease.Terms, condition: Condition
    ) -> Callable[[StoreConnection], Claim]:
        prepared, settings = self._prepared.of(queue), condition.settings
        limited = prepared.limited
        parts = sql_limits.parts_of(queue, condition) if limited is not None and limited.limits.locks_parts else ()
        sql = ScanStatements(self._dialect, queue, condition).claimable(len(ids))

        def work(connection: StoreConnection) -> Claim:
            arrival_ns = None
            if limited is not None:  # before any message is locked
                arrival_ns = sql_limits.lock(connection, limited.limits, queue, parts)
            fitting = scan.fitting(connection, sql, queue, settings, ids)
            if not fitting:
                return Claim(int(connection.query(prepared.statements.now)[0][0]), ())
            return self._claiming(queue, fitting, terms, arrival_ns)(connection)

        return work

    async def poll_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing,
    ) -> PollAndClaim:
        assert limit >= 1 and count >= 1 and delays_ns
        terms = self._terms(queue, delays_ns, sharing)

        def free(poll: PollResult) -> Sequence[MessageId]:
            return first_free(poll, count, blocked, sharing)

        def then(poll: PollResult) -> Callable[[StoreConnection], Claim] | None:
            return self._claiming(queue, ids, terms) if (ids := free(poll)) else None

        if queue.takes_directly and (taken := await self._group_feed.take(queue, count, terms)) is not None:
            return taken
        fed = None if queue.options.topic is None else await self._group_feed.feed(queue, limit)
        prepared = self._prepared.of(queue)
        if fed is None and (expected := self._expected(prepared, count)):
            poll, claim = await self._poll_and_lock(prepared, limit, free, terms, expected)
        else:
            polling = prepared.polling(limit)
            poll, claim = await self._with_limit_row(queue, lambda: self._pool.read_then_write(polling, then))
        requested = tuple(free(poll))
        prepared.next_ids.record(requested)
        return PollAndClaim(poll if fed is None else feed.with_feed(fed, poll), requested, claim)

    async def claim_added(self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease) -> Claim | None:
        assert ids
        prepared = self._prepared.of(queue)
        time_us = self._times.next((foreseen.earliest_ns + foreseen.latest_ns) // 2)
        answers: list[Answer] | None
        at_once = bool(self._pool.without_waiting) and len(ids) <= WITHOUT_THREAD_MAX and not self._pool.replicates

        def work(connection: StoreConnection) -> list[Answer] | None:
            return lease.claim_added(connection, prepared.statements, queue, ids, foreseen, time_us)

        try:
            if at_once:
                waits_not = self._pool.without_waiting
                batch = lease.leasing_added(prepared.statements, queue, ids, foreseen, time_us, waits_not)
                answers = await self._write_alone(batch, ids, foreseen)
            else:
                answers = await self._with_limit_row(queue, lambda: self._pool.write(work))
        except BackendError as error:
            made = isinstance(error, BackendUnavailable) or error.committed
            if not made and (error.errno in LOCKED or error.errno in ROLLED_BACK or is_refusal(error)):
                return None  # a claim after a poll finds which of them
            raise
        claim = None if answers is None else prepared.first_deliveries.leased(answers)
        if claim is not None:
            prepared.next_ids.record([message.id for message in claim.messages])
        return claim

    async def _write_alone(
        self, batch: Sequence[Statement], ids: Sequence[MessageId], foreseen: ForeseenLease
    ) -> list[Answer]:
        try:
            return await self._pool.write_alone(batch)
        except BackendError as error:
            lease.check_not_made(error, ids, foreseen)
            raise

    def _expected(self, prepared: PreparedQueue, count: int) -> Sequence[MessageId]:
        """What to lock during the poll, where the database supports it and it saves a round trip."""
        if not self._dialect.skip_locked or prepared.limited is not None or prepared.queue.layout is Layout.LEGACY:
            return ()
        return prepared.next_ids.expected(count)

    async def _poll_and_lock(
        self,
        prepared: PreparedQueue,
        limit: int,
        free: Callable[[PollResult], Sequence[MessageId]],
        terms: lease.Terms,
        expected: Sequence[MessageId],
    ) -> tuple[PollResult, Claim | None]:
        """Poll, and lock `expected` in the same round trip; if that locked all that is to be leased, lease it. The
        commit, a round trip later, releases the other locks."""
        queue, statements = prepared.queue, prepared.statements

        def polling(connection: StoreConnection) -> tuple[PollResult, lease.Locked]:
            lock = lease.locking(statements, queue, expected)
            poll, rows = due_messages.poll_and_run(connection, statements, queue, limit, prepared.guess, lock)
            return poll, lease.locked(queue, rows)

        def then(result: tuple[PollResult, lease.Locked]) -> Callable[[StoreConnection], Claim] | None:
            poll, locked = result
            if not (ids := free(poll)):
                return None
            claiming = self._claiming(queue, ids, terms)
            if not locked.ids >= frozenset(ids):
                return claiming
            wanted = replace(locked, rows=[row for row in locked.rows if row.id in ids])
            is_locked = True

            def claim_locked(connection: StoreConnection) -> Claim:
                nonlocal is_locked
                if not is_locked:  # tried again, in another transaction
                    return claiming(connection)
                is_locked = False
                return lease.claim_locked(connection, statements, queue, wanted, terms)

            return claim_locked

        work = self._pool.read_then_write
        (poll, _), claim = await self._with_limit_row(queue, lambda: work(polling, then, locking=True))
        return poll, claim

    def _claiming(
        self, queue: QueueSpec, ids: Sequence[MessageId], terms: lease.Terms, arrival_ns: int | None = None
    ) -> Callable[[StoreConnection], Claim]:
        prepared = self._prepared.of(queue)
        if (limited := prepared.limited) is not None:
            return lambda connection: sql_limits.claim(connection, limited, queue, ids, terms, arrival_ns)
        return lambda connection: lease.claim(connection, prepared.statements, queue, ids, terms)

    def _terms(self, queue: QueueSpec, delays_ns: Mapping[int, int], sharing: Sharing) -> lease.Terms:
        last, name, waits = self._last_receivers, queue.name, self._prepared.of(queue).lock_waits
        alongside = partial(last.was_alongside, name)
        return lease.Terms(delays_ns, self._times, partial(last.of, name), sharing, alongside, waits)

    async def _with_limit_row(self, queue: QueueSpec, work: Callable[[], Awaitable[T]]) -> T:
        """Claim; for a queue with limits, create first the row that its claims lock.

        After any failure the next claim creates that row again, for the table of limits may have been dropped. A claim
        whose COMMIT got no answer may have succeeded: LeaseUnknown has its leases.
        """
        limited = self._prepared.of(queue).limited
        if limited is not None and queue.name not in self._has_row:
            await self._pool.write(lambda connection: sql_limits.prepare(connection, limited.limits, queue))
            self._has_row.add(queue.name)
        try:
            return await work()
        except BackendError as error:
            self._has_row.discard(queue.name)
            if isinstance(error, CommitUnknown) and isinstance(error.result, Claim):
                raise LeaseUnknown(error, [release_of(message) for message in error.result.messages]) from error
            raise

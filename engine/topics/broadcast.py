"""BroadcastReader: one receiver of a topic that gets every message, as an async iterator of batches.

Rules
- It reads the log only while its consumer waits in `__anext__`: a reader that stops reading is one batch ahead, costs
  nothing, and delays nobody.
- Its position is in memory: nothing is leased, acked or written. Ids that are missing are looked for again, as for a
  consumer group (engine.model.topics).
- A message with a later time_scheduled is remembered by its id, and read again at its time. How many is bounded.
- How it ends: LIMIT reached, WAIT ran out, nothing there for NOWAIT: StopAsyncIteration. Anything else: an EngineError.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.clock import DatabaseTime
from engine.context import EngineContext
from engine.delivery.subscription import check_request, project
from engine.model.claim_size import ClaimSize
from engine.model.errors import STALE_CATALOG, AnswerTooLarge, BackendError, EngineError, is_transient
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import (
    Batch,
    Condition,
    SubscribeRequest,
    SubscriptionStatus,
    TextValue,
    TopicSpec,
    WaitMode,
)
from engine.model.topics import GroupPosition, to_check

PAGE = 1000
"""Messages read at once at most, and the most in a batch: fewer where they are large (engine.model.claim_size)."""

POSTPONED_MAX = 100_000
"""Messages that a reader remembers because they are scheduled for later: about 15 MB."""

_AWAY_SECONDS = 1.0  # until the next try while the database is away

POLL_SECONDS = 5.0
"""How often the log is polled without a reported commit: for messages written around the proxy, and for missing ids."""


class _LogCursor:
    """Reads a topic's log from a position on. `closed`: it is to read no more."""

    def __init__(
        self, topic: TopicSpec, position: GroupPosition, condition: Condition | None, context: EngineContext
    ) -> None:
        self._condition, self._context = condition, context
        self.position = position
        self.reconfigure(topic)
        self.closed = False
        self._postponed: list[tuple[int, int]] = []  # time_scheduled and id
        self._check_at = 0.0  # when the holes are compared with the open transactions again
        self._read_ns = 0  # the database's time as of the last page
        self._time = DatabaseTime(context.clock)
        self._size = ClaimSize()

    def reconfigure(self, topic: TopicSpec) -> None:
        """The topic's table or options changed. Not while it reads."""
        by_name = {column.name.lower(): index for index, column in enumerate(topic.columns)}
        self._topic, self._id_and_time = topic, (by_name["id"], by_name["time_scheduled"])

    def seconds_to_next(self) -> float:
        """Until the next postponed message is due; infinity without one."""
        now_ns = self._time.now_ns()
        return math.inf if now_ns is None or not self._postponed else (self._postponed[0][0] - now_ns) / NS_PER_SECOND

    async def read(self, room: int, *, complete: bool) -> list[tuple[TextValue, ...]]:
        """The next rows, at most `room`. `complete`: the result ends with what is visible now, and need not wait for
        what is missing, or scheduled for later. Raises EngineError, 1226 where too much is scheduled for later."""
        context = self._context
        if self._checks():
            self._check_at = context.clock.monotonic() + POLL_SECONDS
            holes = await context.work.run(context.store.topics.awaited(self._topic, self.position.holes))
            self.position = replace(self.position, holes=holes)
        while self._postponed and self._time.is_past(self._postponed[0][0]):
            if due := await self._read_due(room):
                return due
        condition = self._condition
        while not self.closed:
            if complete:
                self.position = replace(self.position, holes=())
            examined = min(room if condition is None else PAGE, self._size.limit)  # of a condition, few may fit
            reading = context.store.topics.read(self._topic, self.position, examined, condition)
            try:
                page = await context.work.run(reading)
            except AnswerTooLarge:
                if examined == 1:  # as on a Vitess, whose tablets send 16 MiB at most
                    raise
                self._size.failed(examined)
                continue
            self._size.page(page.rows)
            at_the_end, self.position = page.position == self.position, page.position
            self._read_ns = page.now_ns
            self._time.observe_time(page.now_ns)
            due = [row for row in page.rows if not self._postpone(row, page.now_ns, complete=complete)]
            if due or at_the_end:
                return due[:room]  # beyond the limit nothing is wanted of what was read
        return []

    def _checks(self) -> bool:
        """Whether the holes are to be compared with the open transactions: now and then, and at once where they are of
        an old part of the topic."""
        holes = self.position.holes
        late = self._context.clock.monotonic() >= self._check_at
        return bool(holes) and (late or to_check(holes, self._read_ns, self._read_ns))

    async def _read_due(self, room: int) -> list[tuple[TextValue, ...]]:
        """Postponed messages that are due; none where they were deleted, or are too many to be read at once."""
        now_ns = self._time.now_ns() or 0
        due = [entry for entry in heapq.nsmallest(min(room, self._size.limit), self._postponed) if entry[0] <= now_ns]
        ids = [id_ for _, id_ in due]
        try:
            rows = await self._context.work.run(self._context.store.topics.rows(self._topic, ids, self._condition))
        except AnswerTooLarge:
            if len(ids) == 1:
                raise
            self._size.failed(len(ids))
            return []
        self._size.page(rows)
        for _ in due:  # only now: what could not be read is read again
            heapq.heappop(self._postponed)
        return rows

    def _postpone(self, row: Sequence[TextValue], now_ns: int, *, complete: bool) -> bool:
        """Postpone a message, if it is scheduled for later."""
        id_, scheduled_ns = (int(row[at] or 0) for at in self._id_and_time)
        if scheduled_ns <= now_ns:
            return False
        if len(self._postponed) < POSTPONED_MAX:
            heapq.heappush(self._postponed, (scheduled_ns, id_))
        elif not complete:
            raise EngineError(
                f"more than {POSTPONED_MAX} messages of '{self._topic.name}' are scheduled for later, and a broadcast"
                " remembers no more of them; a consumer group has no such bound",
                1226,
            )
        return True


class BroadcastReader:
    """See the module. Made by Topics.subscribe. `on_closed` is called when it has ended."""

    def __init__(
        self,
        topic: TopicSpec,
        request: SubscribeRequest,
        position: GroupPosition,
        context: EngineContext,
        on_closed: Callable[[BroadcastReader], None],
    ) -> None:
        check_request(request)
        self._pick, self.columns = project(topic, request.columns)
        self.topic = topic
        self.request = request
        self.sent = 0
        self.since_ns = 0
        self._cursor = _LogCursor(topic, position, request.condition, context)
        self._context, self._on_closed = context, on_closed
        self._draining = request.wait_mode is WaitMode.NOWAIT
        self._until = context.clock.monotonic() + request.wait_seconds
        self._wakeup = asyncio.Event()
        self._waiting = False
        self._over = False
        self._error: EngineError | None = None

    def __repr__(self) -> str:
        state = "ended" if self._over else "waiting" if self._waiting else "reading"
        return f"<BroadcastReader {self.topic.name} {state} sent={self.sent} offset={self._cursor.position.offset}>"

    def __aiter__(self) -> BroadcastReader:
        return self

    async def __anext__(self) -> Batch:
        self._waiting = True
        try:
            while True:
                self._raise_if_over()
                self._wakeup.clear()
                rows = await self._rows()
                self._raise_if_over()
                if rows:
                    return self._batch(rows)
                if self._draining or self._late():
                    self.finish()
                else:
                    await self._wait()
        finally:
            self._waiting = False

    async def _rows(self) -> list[tuple[TextValue, ...]]:
        """The next rows; none, for now, while the database is unreachable, or after a transient error, as a lock, or a
        lagging node of a cluster. A result with WAIT or NOWAIT must not end then as if there were no messages.
        Nor where the topic was altered meanwhile."""
        while True:
            try:
                self._adopt()
                room = PAGE if self.request.limit is None else min(PAGE, self.request.limit - self.sent)
                return await self._cursor.read(room, complete=self._draining)
            except BackendError as error:
                if error.errno in STALE_CATALOG and await self._has_changed():
                    continue  # once for each change: it is adopted
                passes = is_transient(error) and not isinstance(error, AnswerTooLarge)
                if self.request.wait_mode is not WaitMode.ENDLESS or not passes:
                    raise
                await asyncio.sleep(_AWAY_SECONDS)
                self._wakeup.set()
                return []

    async def _has_changed(self) -> bool:
        """Whether the topic's table or options have changed since they were last adopted."""
        host, name = self._context.host, self.topic.name
        if host.catalog.topics.get(name, self.topic) == self.topic:
            await host.catalog_changed((name,))
        return host.catalog.topics.get(name, self.topic) != self.topic

    def _adopt(self) -> None:
        """Read by the topic's present definition; the stream continues with the columns that it announced. Raises
        EngineError where one of them is gone, or offsets mean something else."""
        known = self._context.host.catalog.topics.get(self.topic.name)
        if known is None or known is self.topic:
            return
        if known.sequenced != self.topic.sequenced:
            raise EngineError(
                f"the offsets of '{known.name}' mean something else since its option `sequence` was changed: open the"
                " broadcast again",
                1412,
            )
        self._pick, _ = project(known, tuple(column.name for column in self.columns))
        self._cursor.reconfigure(known)
        self.topic = known

    def _late(self) -> bool:
        """Whether WAIT's time is over."""
        return self.request.wait_mode is WaitMode.WAIT and self._context.clock.monotonic() >= self._until

    def _raise_if_over(self) -> None:
        if self._error is not None:
            raise self._error
        if self._over or self.request.limit == self.sent:
            self.finish()
            raise StopAsyncIteration

    async def _wait(self) -> None:
        seconds = POLL_SECONDS
        if self.request.wait_mode is WaitMode.WAIT:
            seconds = min(seconds, max(0.0, self._until - self._context.clock.monotonic()))
        seconds = min(seconds, max(self._cursor.seconds_to_next(), 0.001))
        try:
            await asyncio.wait_for(self._wakeup.wait(), seconds)
        except TimeoutError:
            pass

    def _batch(self, rows: Sequence[tuple[TextValue, ...]]) -> Batch:
        self.sent += len(rows)
        self._draining = self._draining or self.request.wait_mode is not WaitMode.ENDLESS
        return Batch((), tuple([self._pick(row) for row in rows]))

    def drop_expired(self, batch: Batch) -> Sequence[int]:
        """Nothing is leased, so no lease ends."""
        return ()

    def seconds_left(self, batch: Batch) -> float:
        """Nor ever does."""
        return math.inf

    # --- notifications

    def touched(self) -> None:
        """A commit may have added messages."""
        self._wakeup.set()

    def end(self, error: EngineError) -> None:
        """End it from outside; a waiting `__anext__` raises the error. Later calls change nothing."""
        if not self._over:
            self._error = error
            self._stop()

    def finish(self) -> None:
        """End it normally."""
        if not self._over:
            self._stop()

    async def close(self, *, release: bool) -> None:
        """The consumer is done. Nothing was leased, so nothing is released. May be called twice."""
        self.finish()

    def _stop(self) -> None:
        self._over = self._cursor.closed = True
        self._wakeup.set()
        self._on_closed(self)

    def status(self) -> SubscriptionStatus:
        """One row of SHOW SUBSCRIPTIONS."""
        request = self.request
        return SubscriptionStatus(
            queue=self.topic.name,
            receiver=request.receiver,
            filter="" if request.condition is None else request.condition.text,
            mode="broadcast",
            prefetch=PAGE,
            unacked=0,
            sent=self.sent,
            waiting=self._waiting,
            window_full=False,
            since_ns=self.since_ns,
        )

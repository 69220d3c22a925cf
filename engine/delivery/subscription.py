"""Subscription: one receiver's open result set, as an async iterator of batches.

Rules
- It takes messages only while its consumer waits in `__anext__`. A reader that stops reading is at most one batch
  ahead, and delays no other receiver.
- How it ends: LIMIT reached, WAIT ran out, nothing due for NOWAIT: StopAsyncIteration. Anything else: an EngineError.
- The code that opened it must `close` it, and decides there whether its unacked messages are released at once.
- Before rows of a batch go to the client, `drop_expired` checks them: while the batch waited for a slow reader, or this
  process was suspended, a lease may have run out, or a client may have settled the message or given it up.

Phases of a bounded result: NOWAIT drains from the start; WAIT waits for its first batch (or its time), then drains what
else is due, up to the limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Protocol

from engine.clock import Clock
from engine.delivery.next_batch import NextBatch
from engine.model.errors import EngineError, InvalidOption, LockWaitTimeout, UnknownColumn
from engine.model.key_range import KeyRange, Keys
from engine.model.options import QueueOptions
from engine.model.queue import (
    Batch,
    ColumnMeta,
    Condition,
    Message,
    MessageId,
    QueueSpec,
    SubscribeRequest,
    SubscriptionStatus,
    TextValue,
    TopicSpec,
    WaitMode,
)

_ACK_WAIT_MIN_NS = 10_000_000  # as for the queue's option: below a round trip a lease only makes duplicates
_LATE_SECONDS = (
    1.0  # beyond WAIT's time, for calls in progress; then a result ends although the database does not answer
)
_NOT_KNOWN = (
    "Lock wait timeout exceeded; the database has not told in time whether messages are due, perhaps because another"
    " session holds the table locked: ask again"
)
_WAIT_SECONDS_MAX = 86400.0 * 365  # a year; more is a typing error, and infinity is not a time
_EVERY_MESSAGE = Condition("TRUE")
_FILTER_SHOWN_MAX = 4096  # characters of a WHERE in SHOW SUBSCRIPTIONS
_PREFETCH_MAX = 1_000_000  # as for the queue's option


class Unread(Protocol):
    """Returns the messages of a stream that were taken for its client and certainly have not reached it."""

    def __call__(self, *, cut: bool) -> Collection[MessageId]:
        """`cut`: other receivers get them now, and the client must not read them any more."""
        ...


def _all_read(*, cut: bool) -> Collection[MessageId]:
    return ()


class SubscriptionHost(Protocol):
    """The queue's manager, as a subscription calls it."""

    def on_waiting(self, subscription: Subscription) -> None:
        """Its consumer waits for a batch."""
        ...

    def on_ended(self, subscription: Subscription) -> None:
        """It takes no more messages."""
        ...

    async def on_closed(self, subscription: Subscription, *, release: bool) -> None:
        """Its consumer does not come back."""
        ...

    def on_connection_ended(self, subscription: Subscription) -> None:
        """Its client does not come back."""
        ...


class SubscriptionLeases(Protocol):
    """The queue's leases, as a subscription asks about them."""

    def unacked(self, subscription: Subscription) -> int:
        """How many of its messages are in flight."""
        ...

    def has_isolated_message(self, subscription: Subscription) -> bool:
        """Whether its receiver has a message that it got alone."""
        ...

    def seconds_left(self, batch: Batch) -> float:
        """Until the first lease of a batch ends."""
        ...

    def drop_expired(self, holder: Subscription, batch: Batch) -> Sequence[int]:
        """The positions in a batch of this holder of messages whose leases are over. Those that ran out are
        released."""
        ...


def check_request(request: SubscribeRequest) -> None:
    """InvalidOption where a number makes no sense."""
    if request.limit is not None and request.limit < 0:
        raise InvalidOption(f"LIMIT {request.limit} is negative")
    if request.prefetch is not None and not 1 <= request.prefetch <= _PREFETCH_MAX:
        raise InvalidOption(f"prefetch: '{request.prefetch}' is not a whole number from 1 to {_PREFETCH_MAX}")
    if request.ack_wait_ns is not None and request.ack_wait_ns < _ACK_WAIT_MIN_NS:
        raise InvalidOption("ack_wait is too short; at least 10ms")
    if not 0 <= request.wait_seconds <= _WAIT_SECONDS_MAX:
        raise InvalidOption(f"WAIT {request.wait_seconds} is not a number of seconds from 0 to {_WAIT_SECONDS_MAX:.0f}")


Row = tuple[TextValue, ...]


def project(
    source: QueueSpec | TopicSpec, names: tuple[str, ...] | None
) -> tuple[Callable[[Row], Row], tuple[ColumnMeta, ...]]:
    """A function from a row with all columns of a queue or topic to a row of the stream; and the metadata of the
    columns that the stream names (None: `*`).

    A column has the name that it has in the statement, in that case, as in MySQL.
    """
    positions = {column.name.lower(): index for index, column in enumerate(source.columns)}
    chosen: list[int] = []
    columns: list[ColumnMeta] = []
    for name in source.message_columns if names is None else names:
        if name.lower() not in positions:
            raise UnknownColumn(f"Unknown column '{name}' in 'SELECT'")
        chosen.append(positions[name.lower()])
        column = source.columns[chosen[-1]]
        columns.append(column if column.name == name else replace(column, name=name))
    if len(chosen) == 1:
        (only,) = chosen
        return lambda row: (row[only],), tuple(columns)
    return itemgetter(*chosen), tuple(columns)


@dataclass(frozen=True, slots=True)
class ReceiverWindow:
    """How many unacked messages a stream may have, and how many more it can get. `size`: how many it may have;
    `batch_size`: how many it can get at once."""

    size: int
    batch_size: int
    counts_unacked: bool

    @classmethod
    def of(
        cls, options: QueueOptions, prefetch: int | None, *, bounded: bool, by_connection: bool = False
    ) -> ReceiverWindow:
        """Of a stream of a queue with these options. `prefetch` is the stream's own.

        The client of a bounded result cannot ack before the result ends, so prefetch would only cut it short; but it
        bounds how many messages a connection has of several results.
        """
        if bounded and not by_connection:
            return cls(options.batch_max, options.batch_max, False)
        return cls(prefetch or options.prefetch, options.batch_size, True)

    def free(self, unacked: int) -> int:
        """How many more messages fit, with so many unacked; 0 or less where it is full."""
        return self.size - unacked if self.counts_unacked else self.size

    def room(self, unacked: int) -> int:
        """How many messages the next batch may have, with so many unacked."""
        free = self.size - unacked if self.counts_unacked else self.size
        return max(0, min(self.batch_size, free))


class Subscription:
    """See the module. Made by Engine.subscribe."""

    def __init__(
        self, queue: QueueSpec, request: SubscribeRequest, host: SubscriptionHost, leases: SubscriptionLeases
    ) -> None:
        check_request(request)
        self._projection = project(queue, request.columns)
        self.receiver: Hashable = request.receiver.connection_id or self
        """The holder of its messages: its connection, where that is known."""
        self.queue = queue
        self.request = request
        self._window = self._window_of(queue)
        self.draining = request.wait_mode is WaitMode.NOWAIT
        self.needs_poll = self.draining  # NOWAIT is answered from a poll that begins after the request
        self.sent = 0
        self.since_ns = 0
        self.unread: Unread = _all_read
        """Set by the code that sends it to a client."""
        self._limit = queue.options.batch_max if self.bounded and request.limit is None else request.limit
        self._host, self._leases = host, leases
        self._next = NextBatch()
        self._closed = False

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "waiting" if self.waiting else "reading"
        limit = "" if self._limit is None else f" limit={self._limit}"
        mode = self.request.wait_mode.value
        return f"<Subscription {self.queue.name} {mode} {state} sent={self.sent} unacked={self.unacked}{limit}>"

    def status(self, own: KeyRange | None = None) -> SubscriptionStatus:
        """One row of SHOW SUBSCRIPTIONS. `own`: what it has of the ring now, where that is assigned."""
        condition = self.request.condition or _EVERY_MESSAGE
        return SubscriptionStatus(
            queue=self.queue.name,
            receiver=self.request.receiver,
            filter=condition.text[:_FILTER_SHOWN_MAX],
            mode=self.request.wait_mode.value,
            prefetch=self._window.size,
            unacked=self.unacked,
            sent=self.sent,
            waiting=self.capacity() > 0,
            window_full=self.window_full,
            since_ns=self.since_ns,
            key_range=_shown(condition.key_range if self.request.keys is Keys.SHARED else own),
            keys=self.request.keys.value,
        )

    # --- the consumer's side

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Batch:
        if (batch := self._next.take()) is not None:
            return batch
        if self.remaining == 0:
            self.finish()
        self._next.raise_if_ended()
        self._next.begin_wait()
        self._host.on_waiting(self)
        return await self._next.wait()

    def drop_expired(self, batch: Batch) -> Sequence[int]:
        """The positions in the batch, or in a part of it, of messages that must not be sent. If their leases ran out,
        they are released, as never sent; a result from which nothing is left ends with an error, because messages were
        due."""
        if dropped := self._leases.drop_expired(self, batch):
            self.sent -= len(dropped)
            self.needs_poll = self.bounded
            if self.has_ended and self._next.error is None and not self.sent:
                self._next.error = LockWaitTimeout("the leases ended before the messages could be sent; ask again")
        return dropped

    def seconds_left(self, batch: Batch) -> float:
        """Until the first lease of the batch ends."""
        return self._leases.seconds_left(batch)

    def end(self, error: EngineError) -> None:
        """End it from outside; a waiting `__anext__` raises the error. Later calls change nothing."""
        if not self.has_ended:
            self._stop(error)

    async def close(self, *, release: bool) -> None:
        """The consumer is done. May be called twice; the first call decides.

        `release`: unacked messages are due again at once, before others, counted as an attempt. Otherwise (a bounded
        result that ended normally) its leases last until they are acked or run out.
        """
        if self._closed:
            return
        self._closed = True
        self.finish()
        await self._host.on_closed(self, release=release)

    async def connection_ended(self) -> None:
        """The connection of this result has ended. Its unacked messages are released, where they were leased to the
        connection (`request.by_connection`)."""
        if self.request.by_connection:
            await self._host.on_closed(self, release=True)
        else:
            self._host.on_connection_ended(self)

    # --- the manager's side

    @property
    def columns(self) -> tuple[ColumnMeta, ...]:
        """The metadata of its columns, as announced to its client."""
        return self._projection[1]

    @property
    def bounded(self) -> bool:
        """Whether its result ends: by LIMIT, WAIT or NOWAIT."""
        return self.request.wait_mode is not WaitMode.ENDLESS

    @property
    def process(self) -> Hashable:
        """The receiver's process, where that is known."""
        receiver = self.request.receiver
        return (receiver.host.rsplit(":", 1)[0], receiver.pid) if receiver.pid else self.receiver

    @property
    def has_ended(self) -> bool:
        return self._next.has_ended

    @property
    def unacked(self) -> int:
        return self._leases.unacked(self)

    @property
    def waiting(self) -> bool:
        """A consumer waits in `__anext__`, and has no batch yet."""
        return self._next.awaited

    @property
    def remaining(self) -> int | None:
        """Messages until LIMIT; None when there is none."""
        return None if self._limit is None else self._limit - self.sent

    @property
    def window_full(self) -> bool:
        """It waits, but can have no more unacked messages."""
        if not self.waiting or self.has_ended:
            return False
        return self._window.free(self.unacked) <= 0 or self._leases.has_isolated_message(self)

    def capacity(self) -> int:
        """How many messages it can get now."""
        if not self._next.awaited or self._next.has_ended or self._leases.has_isolated_message(self):
            return 0
        room = self._window.room(self._leases.unacked(self) if self._window.counts_unacked else 0)
        return room if self._limit is None else max(0, min(room, self._limit - self.sent))

    def _window_of(self, queue: QueueSpec) -> ReceiverWindow:
        request = self.request
        return ReceiverWindow.of(
            queue.options, request.prefetch, bounded=self.bounded, by_connection=bool(request.by_connection)
        )

    def deliver(self, messages: Sequence[Message], ends: Sequence[float] = ()) -> None:
        """Hand over leased messages; `ends` as in a Batch. If the consumer does not wait any more, they are stored
        until it does."""
        assert messages and not self.has_ended
        pick, _ = self._projection
        batch = Batch(tuple(messages), tuple([pick(message.values) for message in messages]), tuple(ends))
        self.sent += len(messages)
        self.draining = self.bounded
        self._next.deliver(batch)
        if self.remaining == 0:
            self.finish()

    def take_undelivered(self) -> tuple[Message, ...]:
        """Messages that were handed over but never reached the consumer."""
        return self._next.take_undelivered()

    def finish(self) -> None:
        """End it normally. Messages that were handed over before are still delivered."""
        if not self.has_ended:
            self._stop(None)

    def reconfigure(self, queue: QueueSpec) -> None:
        """The queue's table or options changed; the stream goes on with the columns it announced."""
        names = tuple(column.name for column in self.columns)
        try:
            pick, _ = project(queue, names)
            self._projection = (pick, self.columns)
        except UnknownColumn as error:
            self.end(error)
        self.queue = queue
        self._window = self._window_of(queue)

    def _stop(self, error: EngineError | None) -> None:
        self._next.end(error)
        self._host.on_ended(self)


def _shown(key_range: KeyRange | None) -> str:
    return "" if key_range is None or key_range.is_whole else str(key_range)


class BoundedResults:
    """The bounded results of a receiver set, and when they end. `wake`: called when the time of one is over."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock, self._wake = clock, wake
        self._timers: dict[Subscription, asyncio.TimerHandle | None] = {}

    def __bool__(self) -> bool:
        return bool(self._timers)

    def until(self, subscription: Subscription) -> float | None:
        """When the time of a result is over; None: it has none."""
        timer = self._timers.get(subscription)
        return None if timer is None else timer.when()

    def join(self, subscription: Subscription, until: float | None = None) -> None:
        """A result has begun; one with WAIT drains when its time is over. `until`: that time, where it is known."""
        timer = None
        if subscription.request.wait_mode is WaitMode.WAIT:
            if until is None:
                until = self._clock.monotonic() + subscription.request.wait_seconds
            timer = asyncio.get_running_loop().call_at(until, self._wait_over, subscription)
        self._timers[subscription] = timer

    def leave(self, subscription: Subscription) -> None:
        """It has ended."""
        if timer := self._timers.pop(subscription, None):
            timer.cancel()

    def awaiting_poll(self) -> list[Subscription]:
        """Those that have to be answered from a poll that begins now, or later."""
        return [subscription for subscription in self._timers if subscription.needs_poll]

    def draining(self) -> list[Subscription]:
        """Those that wait, and are to end as soon as nothing is left for them."""
        return [subscription for subscription in self._timers if subscription.draining and subscription.waiting]

    def end_with(self, error: EngineError) -> None:
        """End results that cannot go on, in an outage or because of another session's lock. One without messages ends
        with the error, not as if nothing had been due."""
        for subscription in self.draining():
            if subscription.sent:
                subscription.finish()
            else:
                subscription.end(error)

    def _wait_over(self, subscription: Subscription) -> None:
        subscription.draining = True
        self._wake()
        late = asyncio.get_running_loop().call_later(_LATE_SECONDS, self._end_late, subscription)
        self._timers[subscription] = late

    def _end_late(self, subscription: Subscription) -> None:
        """Its time is over, and the database has not answered, for example because of another session's lock: so it is
        not known whether anything is due."""
        if subscription.waiting and subscription.sent:
            subscription.finish()
        elif subscription.waiting:
            subscription.end(LockWaitTimeout(_NOT_KNOWN))

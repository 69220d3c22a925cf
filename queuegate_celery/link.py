"""One connection of Kombu's: a line for statements, a source for each consumer, and what was delivered over them.

In a worker, Celery's event loop watches the sockets of the sources and calls `tick` before it waits: acks are sent, and
sources that have room are asked. Elsewhere `drain` does the same and waits by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from amqp.exceptions import AMQPError, ChannelError, NotFound, RecoverableConnectionError

from queuegate_celery.answers import Row
from queuegate_celery.exchanges import Exchanges
from queuegate_celery.held import OWED, Deliveries, Held, Holding, conditions
from queuegate_celery.line import Line
from queuegate_celery.messages import (
    REASON_CHARACTERS_MAX,
    Delivery,
    Incoming,
    Unreadable,
    delivered,
    delivery_of,
    incoming,
)
from queuegate_celery.queues import Queues
from queuegate_celery.renewal import Renewal
from queuegate_celery.routing import matches
from queuegate_celery.settings import Address, Settings
from queuegate_celery.sources import BroadcastSource, QueueSource, readable
from queuegate_celery.sql import placed, quoted

logger = logging.getLogger(__name__)

_OF_THE_MESSAGE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What Celery's event loop lets out where a header has another shape than it expects. It would end the worker."""

_TURN_SECONDS = 1.0  # the longest that `drain` waits at a time, as Celery's event loop does


@dataclass(eq=False)
class Consumer:
    """Who gets a queue's messages. `source` is None for a transient queue, which has sources of its own."""

    tag: str
    queue: str
    no_ack: bool
    callback: Callable[[Any], Any]
    channel: Any
    source: QueueSource | None = None
    cancelled: bool = False


@dataclass(eq=False)
class Transient:
    """A queue without a table: what its exchanges broadcast since it was bound."""

    bindings: list[tuple[str, str, str]] = field(default_factory=list)  # exchange, its type, routing key
    sources: dict[str, BroadcastSource] = field(default_factory=dict)  # by exchange
    waiting: deque[Incoming] = field(default_factory=deque)  # nobody consumes yet

    def takes(self, message: Incoming) -> bool:
        return any(
            exchange == message.exchange and matches(kind, key, message.routing_key)
            for exchange, kind, key in self.bindings
        )


_WAITING_MAX = 1000
"""Messages that a transient queue keeps for a consumer to come: replies, a few. The oldest go."""


class Link:
    """See the module. Raises AMQP's errors."""

    def __init__(self, address: Address, settings: Settings, client: Any = None) -> None:
        self.address, self.settings = address, settings
        self.client = client  # the kombu.Connection, which Kombu looks for here
        self.line = Line(address, settings)
        self.queues = Queues(self.line, settings)
        self.exchanges = Exchanges(self.line)
        self.holding = Holding()
        self.channels: list[Any] = []
        self.consumers: dict[str, Consumer] = {}
        self.transients: dict[str, Transient] = {}
        self.failure: Exception | None = None
        self.closed = False
        self._arrived: deque[tuple[Consumer, Any]] = deque()
        self._loop: Any = None
        self._renewal: Renewal | None = None
        self._settling = threading.RLock()  # a lease is not prolonged between a settlement's decision and its statement
        self.send_acks()  # what the connection before this one left

    @property
    def alive(self) -> bool:
        return not self.closed and self.failure is None and self.line.open

    def watch(self, loop: Any) -> None:
        """From now on that event loop reads and ticks."""
        self._loop = loop
        loop.on_tick.add(self.tick)
        for source in self._sources():
            loop.add_reader(source, self._on_readable, source)

    def unwatch(self) -> None:
        """Nobody reads any more but `drain`."""
        for source in self._sources():
            self._unregister(source)
        if self._loop is not None:
            self._loop.on_tick.discard(self.tick)
            self._loop = None

    def tick(self) -> None:
        """Sends acks, and asks where there is room. Raises what a thread has met."""
        if self.failure is not None:
            raise self.failure
        self.send_acks()
        for consumer in self.consumers.values():
            if consumer.source is not None:
                consumer.source.ask(consumer.channel.room(consumer))

    def drain(self, timeout: float | None) -> None:
        """Hands one message to its consumer. Raises TimeoutError (socket.timeout) where none comes in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self.tick()
            if self.deliver_one():
                return
            left = _TURN_SECONDS if deadline is None else min(deadline - time.monotonic(), _TURN_SECONDS)
            for source in readable(list(self._sources()), max(left, 0.0)):
                self._take(source)
            if not self._arrived and deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("no message came in time")

    def deliver_one(self) -> bool:
        """The next message that has come, to its consumer."""
        arrived = self._next()
        if arrived is None:
            return False
        consumer, message = arrived
        consumer.callback(message)
        return True

    def _next(self) -> tuple[Consumer, Any] | None:
        while self._arrived:
            consumer, message = self._arrived.popleft()
            if not consumer.cancelled:
                return consumer, message
        return None

    def add(self, consumer: Consumer) -> None:
        """Begins to consume."""
        transient = self.transients.get(consumer.queue)
        if transient is None:
            table = self.queues.table(consumer.queue)
            tokens = self.queues.has_tokens(table)
            consumer.source = QueueSource(self.line, self.address, self.settings, table, has_tokens=tokens)
            self._register(consumer.source)
            consumer.source.ask(consumer.channel.room(consumer))
        self.consumers[consumer.tag] = consumer
        if transient is not None:
            while transient.waiting:
                self._arrive(consumer, transient.waiting.popleft())
        self._look_after()

    def cancel(self, consumer: Consumer) -> None:
        """Delivers no more. What it has delivered stays held, until it is settled or the channel closes."""
        consumer.cancelled = True
        self.consumers.pop(consumer.tag, None)
        undelivered = [m.delivery_tag for c, m in self._arrived if c is consumer]
        self._arrived = deque((c, m) for c, m in self._arrived if c is not consumer)
        if consumer.source is None:
            return
        self._unregister(consumer.source)
        rows = consumer.source.stop(self.line)
        self.release(self.holding.settle(undelivered))
        self.release({consumer.source.table: [delivery_of(row) for row in rows]} if rows else {})
        self.send_acks()

    def transient(self, queue: str) -> Transient:
        """Declares a queue that lives with this connection."""
        if queue not in self.transients:
            self.exchanges.make_topic()
            self.transients[queue] = Transient()
        return self.transients[queue]

    def bind_transient(self, queue: str, exchange: str, kind: str, routing_key: str) -> None:
        """From now on it gets what is published there."""
        transient = self.transients[queue]
        if (exchange, kind, routing_key) in transient.bindings:
            return
        transient.bindings.append((exchange, kind, routing_key))
        if exchange not in transient.sources:
            source = BroadcastSource(self.line, self.address, self.settings, exchange)
            transient.sources[exchange] = source
            self._register(source)
            self.exchanges.listen(exchange)
            self._look_after()

    def drop_transient(self, queue: str) -> None:
        transient = self.transients.pop(queue, None)
        for source in transient.sources.values() if transient else ():
            self._unregister(source)
            source.close()

    def fetch(self, queue: str) -> Incoming | None:
        """One message, if there is one."""
        transient = self.transients.get(queue)
        if transient is not None:
            for source in transient.sources.values():
                self._take(source)
            return transient.waiting.popleft() if transient.waiting else None
        table = self.queues.table(queue)
        tokens = self.queues.has_tokens(table)
        while (row := QueueSource.fetch(self.line, self.settings, table, has_tokens=tokens)) is not None:
            if found := self._readable(table, [row]):
                return found[0]
        return None

    def ack(self, tags: Iterable[int]) -> None:
        """In the event loop's next turn where one reads; else now."""
        self.holding.ack(tags)
        if not self.alive:
            OWED.add(self.address, self.holding.acks())
        elif self._loop is not None and self.consumers and self._renewal is not None:
            self._renewal.acks_wait()
        else:
            self.send_acks()

    def send_acks(self) -> None:
        """What was acked here, and over connections of this process that have ended."""
        owed = OWED.take(self.address)
        if not owed and not self.holding.has_acks:
            return
        with self._settling:
            acks = self.holding.acks()
            for table, ids in owed.items():
                acks.setdefault(table, []).extend(ids)
            try:
                self._settle("ACK", acks)
            except Exception:
                OWED.add(self.address, acks)
                raise

    def release(self, ids: Deliveries) -> None:
        """Gives them back: due at once, and the delivery does not count."""
        with self._settling:
            self._settle("RELEASE", ids)

    def put_back(self, tags: Iterable[int]) -> None:
        """Requeues: a failed attempt, which comes again after the queue's backoff, so that a task that kills its worker
        each time neither loops at full speed nor for ever. As `release` where the options say so."""
        with self._settling:
            ids = self.holding.settle(tags)
            if self.settings.count_requeues:
                self._settle("NACK", ids, " REASON 'requeued by the consumer'")
            else:
                self._settle("RELEASE", ids)

    def reject(self, tags: Iterable[int], reason: str = "rejected by the consumer") -> None:
        """To the dead letters."""
        with self._settling:
            self._settle("REJECT", self.holding.settle(tags), self.line.mogrify(" REASON %s", (reason,)))

    def renew(self) -> None:
        """All that is held stays held for the lease's time from now."""
        with self._settling:
            self._settle("RENEW", self.holding.leased(), f" FOR '{self.settings.lease_seconds:d}s'")

    def listen(self) -> None:
        for exchange in {exchange for each in self.transients.values() for exchange in each.sources}:
            self.exchanges.listen(exchange)

    def idle_seconds(self) -> float:
        return time.monotonic() - self.line.used_at

    def ping(self) -> None:
        self.line.execute("DO 0")

    def fail(self, error: Exception) -> None:
        """Of no more use: the next tick raises it."""
        lost = isinstance(error, RecoverableConnectionError | OSError)
        self.failure = error if lost else RecoverableConnectionError(f"renewing leases failed: {error}")

    def close(self) -> None:
        """Gives back what is not acked, where the proxy still listens; else it does so by itself."""
        if self.closed:
            return
        for channel in list(self.channels):
            with suppress(AMQPError, OSError):
                channel.close()
        self.closed = True
        if self._renewal is not None:
            self._renewal.stop()
        self.unwatch()
        for queue in list(self.transients):
            self.drop_transient(queue)
        with suppress(AMQPError, OSError):
            if self.failure is None:
                self.send_acks()
        OWED.add(self.address, self.holding.acks())
        self.line.close() if self.failure is None else self.line.abandon()

    def _settle(self, verb: str, deliveries: Deliveries, tail: str = "") -> None:
        for table, each in deliveries.items():
            try:
                for condition in conditions(each):
                    self.line.execute(f"{verb} {quoted(table)} WHERE {condition}{tail}")
            except NotFound:
                pass  # the queue was dropped, and its messages with it

    def _look_after(self) -> None:
        if self._renewal is None:
            self._renewal = Renewal(self, self.settings.lease_seconds)

    def _sources(self) -> Iterable[QueueSource | BroadcastSource]:
        for consumer in self.consumers.values():
            if consumer.source is not None:
                yield consumer.source
        for transient in self.transients.values():
            yield from transient.sources.values()

    def _register(self, source: QueueSource | BroadcastSource) -> None:
        if self._loop is not None:
            self._loop.add_reader(source, self._on_readable, source)

    def _unregister(self, source: QueueSource | BroadcastSource) -> None:
        if self._loop is not None:
            with suppress(AMQPError, OSError):
                self._loop.remove(source.fileno())

    def _on_readable(self, source: QueueSource | BroadcastSource) -> None:
        self._take(source)
        while (arrived := self._next()) is not None:
            consumer, message = arrived
            try:
                consumer.callback(message)
            except _OF_THE_MESSAGE as error:
                logger.exception("message %s cannot be worked on, and is set aside", message.delivery_tag)
                self.reject([message.delivery_tag], f"the worker cannot work on it: {error!r}"[:REASON_CHARACTERS_MAX])

    def _readable(self, table: str, rows: Iterable[Row]) -> list[Incoming]:
        """The rows that are messages. The others go to the dead letters, each with the reason."""
        found: list[Incoming] = []
        for row in rows:
            try:
                found.append(incoming(row))
            except Unreadable as error:
                logger.error("message %d of %s is set aside: %s", error.id, table, error.reason)
                self._set_aside(table, delivery_of(row), error)
        return found

    def _set_aside(self, table: str, delivery: Delivery, error: Unreadable) -> None:
        with self._settling:
            try:
                for condition in conditions([delivery]):
                    self.line.execute(f"REJECT {placed(table)} WHERE {condition} REASON %s", (error.reason,))
            except NotFound:
                pass  # the queue was dropped
            except ChannelError as refused:  # a dead-letter queue has no dead letters
                logger.error("message %d of %s stays, and comes again: %s", error.id, table, refused)

    def _take(self, source: QueueSource | BroadcastSource) -> None:
        """What a source has, for its consumers. All of it is held before the first is worked on."""
        rows = source.read()
        if isinstance(source, QueueSource):
            consumer = next((c for c in self.consumers.values() if c.source is source), None)
            assert consumer is not None, "a source that is read has a consumer"
            self._queued(consumer, source.table, rows)
            return
        for message in _broadcasts(rows):
            for queue, transient in self.transients.items():
                if source in transient.sources.values() and transient.takes(message):
                    self._broadcast(queue, transient, message)

    def _queued(self, consumer: Consumer, table: str, rows: list[Row]) -> None:
        done, now_ns = list[Delivery](), time.time_ns()
        for message in self._readable(table, rows):
            if message.expired(now_ns):
                done.append(message.delivery)
                continue
            if consumer.no_ack:
                done.append(message.delivery)
            self._arrive(consumer, message)
        if done:
            with self._settling:
                self._settle("ACK", {table: done})

    def _broadcast(self, queue: str, transient: Transient, message: Incoming) -> None:
        if message.expired(time.time_ns()):
            return
        consumer = next((c for c in self.consumers.values() if c.queue == queue), None)
        if consumer is not None:
            self._arrive(consumer, message)
        else:
            transient.waiting.append(message)
            if len(transient.waiting) > _WAITING_MAX:
                transient.waiting.popleft()

    def _arrive(self, consumer: Consumer, message: Incoming) -> None:
        if consumer.source is None or consumer.no_ack:
            tag = self.holding.tag()
        else:
            tag = self.holding.add(Held(consumer.source.table, message.delivery, consumer.channel, consumer))
        self._arrived.append((consumer, delivered(message, consumer.channel, tag, consumer.tag)))


def _broadcasts(rows: Iterable[Row]) -> Iterator[Incoming]:
    """What can be read of a topic's messages: nobody settles them, so the others are passed over."""
    for row in rows:
        try:
            yield incoming(row)
        except Unreadable as error:
            logger.error("broadcast %d is passed over: %s", error.id, error.reason)

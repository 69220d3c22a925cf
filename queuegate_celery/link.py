"""One connection in Kombu's sense: a connection for statements, a source for each consumer, and their deliveries.

In a worker, Celery's event loop watches the sockets of the sources and calls `tick` before it waits: acks are sent, and
sources with free prefetch are polled. Without an event loop `drain` does the same and waits. While either runs a task,
the thread of renewal receives: the proxy leases messages to a pending poll whether its answer is read or not.
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

from amqp.exceptions import AMQPError, RecoverableConnectionError

from queuegate_celery.connection import SqlConnection
from queuegate_celery.exchanges import Exchanges, matches
from queuegate_celery.messages import (
    REASON_CHARACTERS_MAX,
    Delivery,
    Incoming,
    Unreadable,
    delivered,
    delivery_of,
    incoming,
)
from queuegate_celery.mysql_client.packets import Row
from queuegate_celery.queues import Queues
from queuegate_celery.renewal import Renewal
from queuegate_celery.settings import Address, Settings
from queuegate_celery.settlement import Settlement
from queuegate_celery.sources import BroadcastSource, QueueSource, readable
from queuegate_celery.unsettled import UNSENT_ACKS, UnsettledDelivery

logger = logging.getLogger(__name__)

_MESSAGE_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What Celery raises from its event loop if a header has an unexpected shape. It would end the worker."""

_TURN_SECONDS = 1.0  # the longest that `drain` waits at a time, as Celery's event loop does


@dataclass(eq=False)
class Consumer:
    """A consumer of a queue. `source` is None for a transient queue, which has its own sources."""

    tag: str
    queue: str
    no_ack: bool
    callback: Callable[[Any], Any]
    channel: Any
    source: QueueSource | None = None
    cancelled: bool = False


@dataclass(eq=False)
class Transient:
    """A queue without a table: it receives the broadcasts of its exchanges since it was bound."""

    auto_delete: bool = False  # it ends with its last consumer
    bindings: list[tuple[str, str, str]] = field(default_factory=list)  # exchange, its type, routing key
    sources: dict[str, BroadcastSource] = field(default_factory=dict)  # by exchange
    waiting: deque[Incoming] = field(default_factory=deque)  # not consumed yet

    def accepts(self, message: Incoming) -> bool:
        return any(
            exchange == message.exchange and matches(kind, key, message.routing_key)
            for exchange, kind, key in self.bindings
        )


class Transients(dict[str, Transient]):
    """The transient queues of a connection, by name."""

    def __init__(self, exchanges: Exchanges) -> None:
        super().__init__()
        self._exchanges = exchanges

    def declare(self, queue: str, auto_delete: bool) -> Transient:
        """A queue that exists as long as the connection, or until it has had consumers and they are cancelled."""
        if queue not in self:
            self._exchanges.make_topic()
            self[queue] = Transient(auto_delete)
        return self[queue]

    def is_unused(self, queue: str, consumers: Iterable[Consumer]) -> bool:
        """Whether it ends because it has no consumers any more."""
        transient = self.get(queue)
        return transient is not None and transient.auto_delete and not any(c.queue == queue for c in consumers)


_WAITING_MAX = 1000
"""Messages that a transient queue buffers until it has a consumer, such as replies. The oldest are dropped."""


class Arrivals:
    """Messages that were received and not passed to their consumers yet.

    `lock`: between the event loop and the thread of renewal, where one receives from a source or ends it.
    """

    def __init__(self, settlement: Settlement, consumers: dict[str, Consumer], transients: Transients) -> None:
        self._settlement, self._consumers, self._transients = settlement, consumers, transients
        self._messages: deque[tuple[Consumer, Any]] = deque()
        self.lock = threading.RLock()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def next(self) -> tuple[Consumer, Any] | None:
        while self._messages:
            consumer, message = self._messages.popleft()
            if not consumer.cancelled:
                return consumer, message
        return None

    def receive(self, source: QueueSource | BroadcastSource) -> None:
        """Reads a source for its consumers. All messages are registered before the first is handled."""
        with self.lock:
            rows = source.read()
            if isinstance(source, QueueSource):
                consumer = next((c for c in list(self._consumers.values()) if c.source is source), None)
                assert consumer is not None, "a source that is read has a consumer"
                self._queued(consumer, source.table, rows)
                return
            for message in _broadcasts(rows):
                for queue, transient in self._transients.items():
                    if source in transient.sources.values() and transient.accepts(message):
                        self._broadcast(queue, transient, message)

    def add(self, consumer: Consumer, message: Incoming) -> None:
        if consumer.source is None or consumer.no_ack:
            tag = self._settlement.unsettled.next_tag()
        else:
            tag = self._settlement.unsettled.add(
                UnsettledDelivery(consumer.source.table, message.delivery, consumer.channel, consumer)
            )
        self._messages.append((consumer, delivered(message, consumer.channel, tag, consumer.tag)))

    def discard(self, consumer: Consumer) -> list[int]:
        """The tags of what had arrived for this consumer."""
        tags = [m.delivery_tag for c, m in self._messages if c is consumer]
        self._messages = deque((c, m) for c, m in self._messages if c is not consumer)
        return tags

    def _queued(self, consumer: Consumer, table: str, rows: list[Row]) -> None:
        done, now_ns = list[Delivery](), time.time_ns()
        for message in self._settlement.readable(table, rows):
            if message.expired(now_ns):
                done.append(message.delivery)
                continue
            if consumer.no_ack:
                done.append(message.delivery)
            self.add(consumer, message)
        if done:
            self._settlement.ack_now({table: done})

    def _broadcast(self, queue: str, transient: Transient, message: Incoming) -> None:
        if message.expired(time.time_ns()):
            return
        consumer = next((c for c in self._consumers.values() if c.queue == queue), None)
        if consumer is not None:
            self.add(consumer, message)
        else:
            transient.waiting.append(message)
            if len(transient.waiting) > _WAITING_MAX:
                transient.waiting.popleft()


class Link:
    """See the module. Raises AMQP's errors."""

    def __init__(self, address: Address, settings: Settings, client: Any = None) -> None:
        self.address, self.settings = address, settings
        self.client = client  # the kombu.Connection; Kombu reads this attribute
        self.db = SqlConnection(address, settings)
        self.queues = Queues(self.db, settings)
        self.exchanges = Exchanges(self.db)
        self.settlement = Settlement(self.db, address, settings)
        self.channels: list[Any] = []
        self.consumers: dict[str, Consumer] = {}
        self.transients = Transients(self.exchanges)
        self.failure: Exception | None = None
        self.closed = False
        self._arrivals = Arrivals(self.settlement, self.consumers, self.transients)
        self._loop: Any = None
        self._renewal: Renewal | None = None
        self.settlement.send_acks()  # acks that the previous connection has not sent

    @property
    def alive(self) -> bool:
        return not self.closed and self.failure is None and self.db.open

    def watch(self, loop: Any) -> None:
        """From now on this event loop reads and calls `tick`."""
        self._loop = loop
        loop.on_tick.add(self.tick)
        for source in self._sources():
            loop.add_reader(source, self._on_readable, source)

    def unwatch(self) -> None:
        """From now on only `drain` reads."""
        for source in self._sources():
            self._unregister(source)
        if self._loop is not None:
            self._loop.on_tick.discard(self.tick)
            self._loop = None

    def tick(self) -> None:
        """Sends acks, polls sources with free prefetch, and in an event loop passes on what the renewal thread has
        received. Raises that thread's error."""
        if self.failure is not None:
            raise self.failure
        self.settlement.send_acks()
        self._close_settled()
        for consumer in self.consumers.values():
            if consumer.source is not None:
                consumer.source.poll(consumer.channel.capacity(consumer))
        if self._loop is not None:
            self._deliver()

    def receive_and_keep_awake(self, idle_seconds: float) -> None:
        """For the thread of renewal. What it receives waits for the event loop, and its leases are renewed."""
        self.db.keep_awake(idle_seconds)
        with self._arrivals.lock:
            for consumer in [consumer for channel in list(self.channels) for consumer in channel.consumers]:
                if (source := consumer.source) is not None:
                    source.read() if consumer.cancelled else self._arrivals.receive(source)
                    source.keep_awake(idle_seconds)
        if self._arrivals and (loop := self._loop) is not None:
            loop.call_soon(_nothing)  # wakes it

    def drain(self, timeout: float | None) -> None:
        """Passes one message to its consumer. Raises TimeoutError (socket.timeout) if none arrives in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self.tick()
            if self.deliver_one():
                return
            left = _TURN_SECONDS if deadline is None else min(deadline - time.monotonic(), _TURN_SECONDS)
            for source in readable(list(self._sources()), max(left, 0.0)):
                self._arrivals.receive(source)
            if not self._arrivals and deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("no message came in time")

    def deliver_one(self) -> bool:
        """Passes the next message that has arrived to its consumer."""
        arrived = self._arrivals.next()
        if arrived is None:
            return False
        consumer, message = arrived
        consumer.callback(message)
        return True

    def add(self, consumer: Consumer) -> None:
        """Starts consuming."""
        transient = self.transients.get(consumer.queue)
        if transient is not None:
            self.consumers[consumer.tag] = consumer
            while transient.waiting:
                self._arrivals.add(consumer, transient.waiting.popleft())
            return
        table = self.queues.table(consumer.queue)
        tokens = self.queues.has_tokens(table)
        source = QueueSource(self.db, self.address, self.settings, table, has_tokens=tokens)
        self._register(source)
        self.consumers[consumer.tag] = consumer  # first: the thread of renewal receives from a consumer's source
        consumer.source = source
        source.poll(consumer.channel.capacity(consumer))

    def cancel(self, consumer: Consumer) -> None:
        """Stops delivering. Its deliveries stay leased until they are settled or the channel is closed; so long its
        connection stays."""
        with self._arrivals.lock:
            consumer.cancelled = True
            self.consumers.pop(consumer.tag, None)
            undelivered = self._arrivals.discard(consumer)
            if consumer.source is None:
                if self.transients.is_unused(consumer.queue, self.consumers.values()):
                    self.drop_transient(consumer.queue)
                return
            self._unregister(consumer.source)
            rows = consumer.source.stop(self.db)
        self.settlement.release(self.settlement.unsettled.settle(undelivered))
        self.settlement.release({consumer.source.table: [delivery_of(row) for row in rows]} if rows else {})
        self.settlement.send_acks()
        self._close_settled()

    def bind_transient(self, queue: str, exchange: str, kind: str, routing_key: str) -> None:
        """From now on it receives what is published there."""
        transient = self.transients[queue]
        if (exchange, kind, routing_key) in transient.bindings:
            return
        transient.bindings.append((exchange, kind, routing_key))
        if exchange not in transient.sources:
            source = BroadcastSource(self.db, self.address, self.settings, exchange)
            transient.sources[exchange] = source
            self._register(source)
            self.exchanges.register_listener(exchange)

    def drop_transient(self, queue: str) -> None:
        transient = self.transients.pop(queue, None)
        for source in transient.sources.values() if transient else ():
            self._unregister(source)
            source.close()

    def fetch(self, queue: str) -> Incoming | None:
        """One message, or None."""
        transient = self.transients.get(queue)
        if transient is not None:
            for source in transient.sources.values():
                self._arrivals.receive(source)
            while transient.waiting:
                message = transient.waiting.popleft()
                if not message.expired(time.time_ns()):
                    return message
            return None
        table = self.queues.table(queue)
        tokens = self.queues.has_tokens(table)
        while (row := QueueSource.fetch(self.db, self.settings, table, has_tokens=tokens)) is not None:
            for message in self.settlement.readable(table, [row]):
                if not message.expired(time.time_ns()):
                    return message
                self.settlement.ack_now({table: [message.delivery]})
        return None

    def ack(self, tags: Iterable[int]) -> None:
        """In the event loop's next iteration if there is one, else now."""
        self.settlement.unsettled.ack(tags)
        if not self.alive:
            UNSENT_ACKS.add(self.address, self.settlement.unsettled.take_acks())
            return
        is_later = self._loop is not None and self.consumers
        if (is_later or not self.settlement.send_acks()) and self._renewal is not None:
            self._renewal.acks_wait()
        if not is_later:
            self._close_settled()

    def remove(self, channel: Any) -> None:
        """The channel is closed. The connections of its consumers own the leases of what they have delivered."""
        with self._arrivals.lock:
            if channel in self.channels:
                self.channels.remove(channel)
            for consumer in channel.consumers:
                if consumer.source is not None:
                    with suppress(AMQPError, OSError):
                        consumer.source.close()

    def listen(self) -> None:
        for exchange in {exchange for each in list(self.transients.values()) for exchange in list(each.sources)}:
            self.exchanges.register_listener(exchange)

    def fail(self, error: Exception) -> None:
        """Marks the connection as failed: the next `tick` raises the error."""
        is_recoverable = isinstance(error, RecoverableConnectionError | OSError)
        self.failure = error if is_recoverable else RecoverableConnectionError(f"renewing leases failed: {error}")

    def close(self) -> None:
        """Gives back unacked messages if the connection works; otherwise the proxy does so."""
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
                self.settlement.send_acks(pauses=False)
        UNSENT_ACKS.add(self.address, self.settlement.unsettled.take_acks())
        self.db.close() if self.failure is None else self.db.abort()

    def _sources(self) -> Iterable[QueueSource | BroadcastSource]:
        for consumer in self.consumers.values():
            if consumer.source is not None:
                yield consumer.source
        for transient in self.transients.values():
            yield from transient.sources.values()

    def renew_leases(self) -> None:
        """From now on: a message was received, or may be."""
        if self._renewal is None:
            silence = self.db.rows("SHOW SESSION VARIABLES LIKE 'wait_timeout'")
            seconds = min([float(self.settings.lease_seconds), *(float(value) for _, value in silence)])
            self._renewal = Renewal(self.settlement, self, seconds)

    def _register(self, source: QueueSource | BroadcastSource) -> None:
        """From now on it is read, and what it brings has leases to renew."""
        self.renew_leases()
        if self._loop is not None:
            self._loop.add_reader(source, self._on_readable, source)

    def _unregister(self, source: QueueSource | BroadcastSource) -> None:
        if self._loop is not None:
            with suppress(AMQPError, OSError):
                self._loop.remove(source.fileno())

    def _close_settled(self) -> None:
        if any(channel.retired for channel in self.channels):
            with self._arrivals.lock:
                for channel in self.channels:
                    channel.close_settled()

    def _on_readable(self, source: QueueSource | BroadcastSource) -> None:
        self._arrivals.receive(source)
        self._deliver()

    def _deliver(self) -> None:
        while (arrived := self._arrivals.next()) is not None:
            consumer, message = arrived
            try:
                consumer.callback(message)
            except _MESSAGE_ERRORS as error:
                logger.exception("message %s cannot be worked on, and is set aside", message.delivery_tag)
                self.settlement.reject(
                    [message.delivery_tag], f"the worker cannot work on it: {error!r}"[:REASON_CHARACTERS_MAX]
                )


def _nothing() -> None:
    """For a loop that is to go on."""


def _broadcasts(rows: Iterable[Row]) -> Iterator[Incoming]:
    """The readable messages of a topic. The others are skipped; messages of a topic need no ack."""
    for row in rows:
        try:
            yield incoming(row)
        except Unreadable as error:
            logger.error("broadcast %d is passed over: %s", error.id, error.reason)

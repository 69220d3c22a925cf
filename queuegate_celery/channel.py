"""A channel, as Kombu and Celery use one: declares, publishes, consumes and settles."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any
from uuid import uuid4

from amqp.exceptions import ChannelError, NotFound
from amqp.protocol import queue_declare_ok_t
from kombu.transport.base import StdChannel, to_rabbitmq_queue_arguments

from queuegate_celery.connection import Statement
from queuegate_celery.exchanges import Routes
from queuegate_celery.link import Consumer, Link
from queuegate_celery.messages import COLUMNS, Message, Outgoing, delivered, outgoing
from queuegate_celery.mysql_client.driver import escaped
from queuegate_celery.sources import BROADCASTS, POLL_LIMIT_MAX
from queuegate_celery.transactions import current_cursor
from queuegate_celery.unsettled import UnsettledDelivery

logger = logging.getLogger(__name__)

_channel_ids = count(1)
_NO_ROUTE = 312  # AMQP's code: no queue is bound for a mandatory message


class Declarations(StdChannel):
    """Exchanges, queues and bindings: what a channel declares and deletes. Raises AMQP's errors."""

    link: Link

    def exchange_declare(self, exchange: str = "", type: str = "direct", passive: bool = False, **_: Any) -> None:
        if exchange:
            self.link.exchanges.declare(exchange, type or "direct", passive)

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        self.link.exchanges.delete(exchange)

    def exchange_bind(self, *_: Any, **__: Any) -> None:
        raise ChannelError("bindings between exchanges are not supported: bind the queue to both")

    exchange_unbind = exchange_bind

    def queue_declare(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        nowait: bool = False,
    ) -> queue_declare_ok_t:
        """Exclusive and auto-delete queues exist in this connection only; any other queue is a table."""
        queue = queue or f"amq.gen-{uuid4()}"
        if queue in self.link.transients or (not passive and (exclusive or auto_delete)):
            waiting = len(self.link.transients.declare(queue, auto_delete).waiting)
            return queue_declare_ok_t(queue, waiting, self._consumer_count(queue))
        return queue_declare_ok_t(queue, self.link.queues.declare(queue, arguments or {}, passive), 0)

    def queue_bind(
        self, queue: str, exchange: str = "", routing_key: str = "", arguments: Any = None, **_: Any
    ) -> None:
        if not exchange:
            return  # the default exchange: every queue is bound to it by its name
        if queue in self.link.transients:
            kind = self.link.exchanges.kind(exchange)
            self.link.bind_transient(queue, exchange, kind, routing_key or "")
        else:
            self.link.exchanges.bind(exchange, routing_key or "", queue)

    def queue_unbind(
        self, queue: str, exchange: str = "", routing_key: str = "", arguments: Any = None, **_: Any
    ) -> None:
        transient = self.link.transients.get(queue)
        if transient is None:
            self.link.exchanges.unbind(exchange, routing_key or "", queue)
        else:
            transient.bindings[:] = [b for b in transient.bindings if (b[0], b[2]) != (exchange, routing_key or "")]

    def queue_purge(self, queue: str, **_: Any) -> int:
        transient = self.link.transients.get(queue)
        if transient is None:
            return self.link.queues.purge(queue)
        purged = len(transient.waiting)
        transient.waiting.clear()
        return purged

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any) -> None:
        if queue in self.link.transients:
            self.link.drop_transient(queue)
            return
        if if_empty and self.link.queues.count(queue):
            raise ChannelError(f"queue {queue!r} is not empty")
        if if_unused and self.link.queues.in_use(queue):
            raise ChannelError(f"queue {queue!r} is in use")
        self.link.queues.drop(queue)
        self.link.exchanges.forget_queue(queue)

    def list_bindings(self) -> Iterator[tuple[str, str, str]]:
        return iter(self.link.exchanges.bindings())

    def prepare_queue_arguments(self, arguments: Mapping[str, Any], **kwargs: Any) -> Mapping[str, Any]:
        return to_rabbitmq_queue_arguments(arguments, **kwargs)  # type: ignore[no-any-return]

    def _consumer_count(self, queue: str) -> int:
        return sum(1 for consumer in self.link.consumers.values() if consumer.queue == queue)


class Channel(Declarations):
    """Raises AMQP's errors."""

    Message = Message

    def __init__(self, link: Link) -> None:
        self.link = link
        self.channel_id = next(_channel_ids)  # for Kombu's reprs
        self.prefetch_count = 0
        self.closed = False
        self._consumers: dict[str, Consumer] = {}
        self.retired: list[Consumer] = []  # cancelled; their connections own the leases of what they have delivered
        link.channels.append(self)

    @property
    def connection(self) -> Link | None:
        """None when it is closed; Kombu checks that."""
        return None if self.closed else self.link

    def prepare_message(
        self,
        body: Any,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        properties = dict(properties or {})
        if priority is not None:
            properties["priority"] = priority
        return {
            "body": body,
            "content-type": content_type,
            "content-encoding": content_encoding,
            "headers": headers or {},
            "properties": properties,
        }

    def message_to_python(self, raw_message: Any) -> Any:
        return raw_message

    def basic_publish(
        self,
        message: Mapping[str, Any],
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        **_: Any,
    ) -> None:
        """Commits before it returns; within `publishing_on` the application commits."""
        exchange, routing_key = exchange or "", routing_key or ""
        routes = self._routes(exchange, routing_key)
        if routes.unroutable:
            if mandatory:
                raise NotFound(f"no queue is bound to exchange {exchange!r} for {routing_key!r}", reply_code=_NO_ROUTE)
            logger.debug("no queue takes what is published to exchange %r with %r", exchange, routing_key)
            return
        row, cursor = outgoing(message, exchange, routing_key, time.time_ns()), current_cursor()
        if cursor is None:
            self.link.db.execute_all(self._inserts(routes, row))
            return
        for sql, args in self._inserts(routes, row):
            cursor.execute(sql, args)

    def basic_consume(
        self, queue: str, no_ack: bool = False, callback: Any = None, consumer_tag: str | None = None, **_: Any
    ) -> str:
        tag = consumer_tag or str(uuid4())
        # Kombu numbers its tags for each Consumer from the start, so two channels of a connection may use the same tag.
        consumer = Consumer(f"{id(self)}.{tag}", queue, bool(no_ack), callback, self)
        self._consumers[tag] = consumer
        try:
            self.link.add(consumer)
        except BaseException:
            del self._consumers[tag]
            raise
        return tag

    def basic_cancel(self, consumer_tag: str, **_: Any) -> None:
        consumer = self._consumers.pop(consumer_tag, None)
        if consumer is not None:
            self.retired.append(consumer)
            self.link.cancel(consumer)

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Any:
        """A message, or None."""
        message = self.link.fetch(queue)
        if message is None:
            return None
        table = self.link.queues.table(queue)
        if queue in self.link.transients:
            tag = self.link.settlement.unsettled.next_tag()
        else:
            tag = self.link.settlement.unsettled.add(UnsettledDelivery(table, message.delivery, self, None))
            if no_ack:
                self.link.ack([tag])
            else:
                self.link.renew_leases()
        return delivered(message, self, tag, None)

    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        self.link.ack(self.link.settlement.unsettled.tags_of(self, delivery_tag) if multiple else [delivery_tag])

    def basic_reject(self, delivery_tag: int, requeue: bool = False) -> None:
        self._check_open()
        if requeue:
            self.link.settlement.requeue([delivery_tag])
        else:
            self.link.settlement.reject([delivery_tag])

    def reject_with_reason(self, delivery_tag: int, reason: str) -> None:
        """Moves it to the dead letters, with a reason."""
        self._check_open()
        self.link.settlement.reject([delivery_tag], reason)

    def basic_recover(self, requeue: bool = True) -> None:
        """Gives back all unsettled deliveries of this channel."""
        self.link.settlement.release(
            self.link.settlement.unsettled.settle(self.link.settlement.unsettled.tags_of(self))
        )

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        """How many unacked messages each consumer of this channel may have; 0: no limit."""
        self.prefetch_count = prefetch_count

    @property
    def consumers(self) -> list[Consumer]:
        """All of them; those that were cancelled have messages that are not settled yet."""
        return [*self.retired, *self._consumers.values()]

    def close_settled(self) -> None:
        """Closes the connections of cancelled consumers whose messages are all settled."""
        for consumer in [each for each in self.retired if self.link.settlement.is_settled(each)]:
            self.retired.remove(consumer)
            if consumer.source is not None:
                consumer.source.close()

    def capacity(self, consumer: Consumer) -> int:
        """How many more messages it may receive now."""
        if not self.prefetch_count or consumer.no_ack:
            return POLL_LIMIT_MAX
        return self.prefetch_count - self.link.settlement.unsettled.count(consumer)

    def flow(self, active: bool = True) -> None:
        raise ChannelError("flow is not supported: cancel the consumer, or ALTER QUEUE ... PAUSE")

    def close(self) -> None:
        """Ends its consumers, and gives back unsettled deliveries."""
        if self.closed:
            return
        self.closed = True
        try:
            for tag in list(self._consumers):
                self.basic_cancel(tag)
            if self.link.alive:
                self.link.settlement.send_acks(pauses=False)
                self.basic_recover()
        finally:
            self.link.remove(self)

    def _routes(self, exchange: str, routing_key: str) -> Routes:
        return self.link.exchanges.routes(exchange, routing_key) if exchange else Routes((routing_key,), False)

    def _inserts(self, routes: Routes, row: Outgoing) -> list[Statement]:
        names, marks = ", ".join(COLUMNS), ", ".join(["%s"] * len(COLUMNS))
        statements: list[Statement] = []
        scheduled = () if row.scheduled_ns is None else (row.scheduled_ns,)
        for queue in routes.queues:
            table = escaped(self.link.address.database, self.link.queues.table(queue))
            also, marked = (", time_scheduled", ", %s") if scheduled else ("", "")
            sql = f"INSERT INTO {table} ({names}, priority{also}) VALUES ({marks}, %s{marked})"
            statements.append((sql, (*row.values, row.priority, *scheduled)))
        if routes.broadcast:
            topic = escaped(self.link.address.database, BROADCASTS)
            statements.append((f"INSERT INTO {topic} ({names}) VALUES ({marks})", row.values))
        return statements

    def _check_open(self) -> None:
        if self.closed:
            raise ChannelError("the channel is closed; what it held was given back")

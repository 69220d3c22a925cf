"""A durable queue of RabbitMQ by pika: persistent messages, publisher confirms, a consumer that is pushed to.

Many messages in one commit are a transaction of AMQP: pika's blocking client waits for the confirm of each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.queues.base import PAYLOAD, WINDOW
from benchmarks.topics.logs import Lone

QUEUE = "rival"
_MESSAGE = PAYLOAD.encode()
_FILL = 1000
_NOTHING_CAME_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitQueue:
    """A queue of a server of our own."""

    name: str = "RabbitMQ, pika"
    port: int
    pid: int
    proxy_pid: None = None

    def _channel(self) -> Any:
        import pika

        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0)).channel()

    def fill(self, messages: int) -> None:
        channel = self._channel()
        channel.queue_delete(QUEUE)
        channel.queue_declare(QUEUE, durable=True)
        channel.tx_select()
        for _ in range(0, messages, _FILL):
            for _ in range(_FILL):
                _publish(channel)
            channel.tx_commit()
        channel.connection.close()

    def sender(self, messages: int) -> Callable[[], object]:
        channel = self._channel()
        if messages == 1:
            channel.confirm_delivery()
            return lambda: _publish(channel)
        channel.tx_select()

        def send() -> None:
            for _ in range(messages):
                _publish(channel)
            channel.tx_commit()

        return send

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        channel = self._channel()
        channel.basic_qos(prefetch_count=taken or WINDOW)
        yield 0
        unacked, last = 0, 0
        for method, _, _ in channel.consume(QUEUE, inactivity_timeout=_NOTHING_CAME_SECONDS):
            if method is not None:
                unacked, last = unacked + 1, method.delivery_tag
            if unacked == acked or (unacked and method is None):  # others have the rest of a backlog
                channel.basic_ack(last, multiple=True)
                yield unacked
                unacked = 0

    def lone(self, group: str) -> Lone:
        channel = self._channel()
        arriving = channel.consume(QUEUE)
        return Lone(
            lambda: None,
            self.sender(1),
            lambda: next(arriving)[0].delivery_tag,
            lambda tag: channel.basic_ack(tag),
        )

    def statements(self) -> int | None:
        return None


def _publish(channel: Any) -> None:
    import pika

    channel.basic_publish("", QUEUE, _MESSAGE, pika.BasicProperties(delivery_mode=2))

"""Redis Streams by redis-py: XADD, XREADGROUP and XACK, XRANGE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.topics.logs import FILL_BATCH, PAYLOAD, Lone

STREAM = "bench"
_FIELDS: Any = {"payload": PAYLOAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisStream:
    """A stream of a server of our own."""

    name: str = "Redis Streams, redis-py"
    port: int
    pid: int
    proxy_pid: None = None

    def _connect(self) -> Any:
        import redis

        return redis.Redis(port=self.port)

    def fill(self, messages: int) -> None:
        client = self._connect()
        client.delete(STREAM)
        for _ in range(0, messages, FILL_BATCH):
            pipe = client.pipeline(transaction=False)
            for _ in range(FILL_BATCH):
                pipe.xadd(STREAM, _FIELDS)
            pipe.execute()

    def join(self, group: str, messages: int) -> None:
        self._connect().xgroup_create(STREAM, group, "0", mkstream=True)

    def leave(self, group: str) -> None:
        self._connect().xgroup_destroy(STREAM, group)

    def sender(self) -> Callable[[], object]:
        client = self._connect()
        client.ping()
        return lambda: client.xadd(STREAM, _FIELDS)

    def reader(self, group: str, batch: int) -> Iterator[int]:
        client = self._connect()
        client.ping()
        yield 0
        while True:
            ((_, messages),) = _lists(client.xreadgroup(group, "reader", {STREAM: ">"}, count=batch, block=0))
            yield client.xack(STREAM, group, *(id_ for id_, _ in messages))

    def scanner(self) -> Iterator[int]:
        client = self._connect()
        client.ping()
        yield 0
        last = "-"
        while messages := client.xrange(STREAM, last, count=FILL_BATCH):
            yield len(messages)
            last = b"(" + messages[-1][0]

    def lone(self, group: str) -> Lone:
        producer, receiver = self._connect(), self._connect()
        receiver.ping()

        def receive() -> Any:
            ((_, ((id_, _),)),) = _lists(receiver.xreadgroup(group, "reader", {STREAM: ">"}, count=1, block=0))
            return id_

        def ack(id_: Any) -> None:
            receiver.xack(STREAM, group, id_)

        return Lone(lambda: None, lambda: producer.xadd(STREAM, _FIELDS), receive, ack)

    def statements(self) -> int | None:
        return int(self._connect().info("stats")["total_commands_processed"])


def _lists(answer: Any) -> Any:
    """The second version of the protocol answers with a list of streams, the third with a map."""
    return [(name, rows[0]) for name, rows in answer.items()] if isinstance(answer, dict) else answer

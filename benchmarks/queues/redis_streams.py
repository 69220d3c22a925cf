"""Redis Streams by redis-py, with an append-only file that is flushed at every command: XADD, XREADGROUP, XACK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.queues.base import BATCH, PAYLOAD
from benchmarks.topics.logs import Lone

STREAM, GROUP = "rival", "receivers"
_FIELDS: Any = {"payload": PAYLOAD}
_FILL = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisQueue:
    """A stream with one consumer group."""

    name: str = "Redis Streams, redis-py"
    port: int
    pid: int
    proxy_pid: None = None

    def _client(self) -> Any:
        import redis

        client = redis.Redis(port=self.port)
        client.ping()
        return client

    def fill(self, messages: int) -> None:
        client = self._client()
        client.delete(STREAM)
        client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
        for start in range(0, messages, _FILL):
            _add(client, min(_FILL, messages - start))

    def sender(self, messages: int) -> Callable[[], object]:
        client = self._client()
        return (lambda: client.xadd(STREAM, _FIELDS)) if messages == 1 else (lambda: _add(client, messages))

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        client = self._client()
        name = f"receiver-{client.client_id()}"
        yield 0
        while True:
            ids = _read(client, name, taken or BATCH)
            for start in range(0, len(ids), acked):
                yield client.xack(STREAM, GROUP, *ids[start : start + acked])

    def lone(self, group: str) -> Lone:
        client = self._client()
        return Lone(
            lambda: None,
            self.sender(1),
            lambda: _read(client, "receiver", 1),
            lambda ids: client.xack(STREAM, GROUP, *ids),
        )

    def statements(self) -> int | None:
        return int(self._client().info("stats")["total_commands_processed"])


def _add(client: Any, messages: int) -> None:
    pipe = client.pipeline(transaction=True)
    for _ in range(messages):
        pipe.xadd(STREAM, _FIELDS)
    pipe.execute()


def _read(client: Any, consumer: str, most: int) -> list[Any]:
    answer = client.xreadgroup(GROUP, consumer, {STREAM: ">"}, count=most, block=0)
    # The second version of the protocol answers with a list of streams, the third with a map.
    ((_, messages),) = [(name, rows[0]) for name, rows in answer.items()] if isinstance(answer, dict) else answer
    return [id_ for id_, _ in messages]

"""RabbitMQ streams by rstream: send_wait, a callback for each message, the place of a reader by store_offset.

rstream is asyncio's: each client here has a loop of its own, which runs while it is asked for something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.topics.logs import FILL_BATCH, PAYLOAD, Lone

STREAM = "bench"
_MESSAGE = PAYLOAD.encode()
_ACCOUNT = {"host": "127.0.0.1", "username": "guest", "password": "guest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitStream:
    """A stream of a server of our own."""

    name: str = "RabbitMQ streams, rstream"
    port: int
    pid: int
    proxy_pid: None = None

    def fill(self, messages: int) -> None:
        async def work() -> None:
            async with self._producer() as producer:
                await producer.delete_stream(STREAM, missing_ok=True)
                await producer.create_stream(STREAM)
                for _ in range(0, messages, FILL_BATCH):
                    await producer.send_batch(STREAM, [_MESSAGE] * FILL_BATCH)

        asyncio.run(work())

    def _producer(self) -> Any:
        import rstream

        return rstream.Producer(port=self.port, **_ACCOUNT)

    def join(self, group: str, messages: int) -> None:
        """A reader that has stored no offset begins where it says."""

    def leave(self, group: str) -> None:
        """A stored offset is a few bytes in the stream, which `fill` makes anew."""

    def sender(self) -> Callable[[], object]:
        run, producer = _loop(), self._producer()
        run(producer.start())
        run(producer.send_wait(STREAM, _MESSAGE))  # declares the publisher
        return lambda: run(producer.send_wait(STREAM, _MESSAGE))

    def reader(self, group: str, batch: int) -> Iterator[int]:
        run, reader = _loop(), _Reader(self.port, group)
        run(reader.start())
        yield 0
        run(reader.subscribe())
        while True:
            offset = run(reader.batch(batch))
            run(reader.store(offset))
            yield batch

    def scanner(self) -> Iterator[int]:
        run, reader = _loop(), _Reader(self.port, "scanner")
        run(reader.start())
        yield 0
        run(reader.subscribe())
        while True:
            run(reader.batch(FILL_BATCH))
            yield FILL_BATCH

    def lone(self, group: str) -> Lone:
        sending, producer, receiving, reader = _loop(), self._producer(), _loop(), _Reader(self.port, group)
        sending(producer.start())
        receiving(reader.start())
        receiving(reader.subscribe())
        return Lone(
            lambda: None,
            lambda: sending(producer.send_wait(STREAM, _MESSAGE)),
            lambda: receiving(reader.batch(1)),
            lambda offset: receiving(reader.store(offset)),
        )

    def statements(self) -> int | None:
        return None


class _Reader:
    """Collects what the callback is given, and waits for so many."""

    def __init__(self, port: int, group: str) -> None:
        import rstream

        self._consumer = rstream.Consumer(port=port, **_ACCOUNT)
        self._group = group
        self._offsets: asyncio.Queue[int] = asyncio.Queue()

    async def start(self) -> None:
        await self._consumer.start()

    async def subscribe(self) -> None:
        await self._consumer.subscribe(STREAM, self._take, subscriber_name=self._group)  # from the first message on

    async def _take(self, message: Any, context: Any) -> None:
        self._offsets.put_nowait(context.offset)

    async def batch(self, size: int) -> int:
        """The last offset of the next `size` messages."""
        for _ in range(size - 1):
            await self._offsets.get()
        return await self._offsets.get()

    async def store(self, offset: int) -> None:
        await self._consumer.store_offset(STREAM, self._group, offset)


def _loop() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    return asyncio.new_event_loop().run_until_complete

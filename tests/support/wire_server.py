"""A server of ClientSockets in a thread of its own, for tests: what becomes of a client is for its kinds to say."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Self

from wire_peers import LOOPS

from proxy.transport.client_socket import ClientSocket


class WireServer:
    """Start with `with`; `port` is where it listens. At the end only what `_serve` expects may have gone wrong."""

    def __init__(self, loop: str) -> None:
        self.port = 0
        self.faults: list[BaseException] = []
        self._loop = LOOPS[loop]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: list[ClientSocket] = []
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run)

    async def _serve(self, stream: ClientSocket) -> None:
        raise NotImplementedError

    async def _closed(self) -> None:
        """All clients are gone."""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()
        assert self.faults == []

    def call(self, work: Any) -> Any:
        """Run a coroutine on the server's loop, from the test's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        server = await self._loop.create_server(
            lambda: ClientSocket(self._accepted, max_packet_bytes=64 << 10), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams:
            stream.abort()
            await stream.wait_lost()
        await self._closed()

    def _accepted(self, stream: ClientSocket) -> None:
        self._streams.append(stream)
        task = self._loop.create_task(self._serve(stream))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.faults.append(error)

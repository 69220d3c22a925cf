"""An event loop that the fuzzer turns by hand, and the transports on it: no socket, no thread, no time but its own.

Everything that happens is decided by the input, so an input that fails will fail again. Work that production gives to
threads is done on a turn of the loop. Time stands still until `advance` lets it pass.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

KERNEL_BYTES = 64 * 1024  # what a socket takes that nobody reads, before its transport has to keep anything
TURNS_MAX = 100_000  # of one pump: more is a loop that feeds itself

_set_running: Callable[[asyncio.AbstractEventLoop | None], None] = asyncio._set_running_loop  # the documented one warns


class BusyLoop(AssertionError):
    """Turn after turn something is ready, and no time passes."""


class _NoSelector:
    """Nothing is ever selected: there are no files on this loop."""

    def register(self, *args: Any) -> None: ...

    def unregister(self, *args: Any) -> None: ...

    def get_map(self) -> dict[int, Any]:
        return {}

    def get_key(self, fileobj: Any) -> Any:
        raise KeyError(fileobj)

    def select(self, timeout: float | None = None) -> list[Any]:
        return []

    def close(self) -> None: ...


class FuzzLoop(asyncio.SelectorEventLoop):
    """See the module. `faults` are what reached the exception handler."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.faults: list[str] = []
        super().__init__(_NoSelector())  # type: ignore[arg-type]
        self.set_exception_handler(self._fault)

    def _fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.faults.append(f"{context.get('message')}: {error!r}")

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """On a turn of the loop, where production has threads."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(work)
        return future

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop, for code that asks which one is."""
        _set_running(self)
        try:
            yield
        finally:
            _set_running(None)

    def turns(self, count: int) -> None:
        """At most so many turns."""
        ready = self._ready  # type: ignore[attr-defined]
        while count and ready:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            count -= 1

    def pump(self) -> None:
        """Everything that needs no time to pass."""
        self.turns(TURNS_MAX)
        if self._ready:  # type: ignore[attr-defined]
            raise BusyLoop("a busy loop")

    def advance(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, timer by timer, until it is over or `until` holds."""
        end = self.now + seconds
        self.pump()
        while not until():
            timer = self._next_timer()
            if timer is None or timer > end:
                self.now = max(self.now, end)
                return
            self.now = max(self.now, timer)
            self._run_once()  # type: ignore[attr-defined]
            self.pump()

    def _next_timer(self) -> float | None:
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
        return scheduled[0]._when if scheduled else None

    def complete(self, work: Any) -> Any:
        """Run a coroutine to its end, time passing as it likes; for setting up and tearing down."""
        task = self.create_task(work)
        self.advance(3600, task.done)
        assert task.done(), "it never ends"
        return task.result()


class FuzzTransport(asyncio.Transport):
    """One end of a line: `deliver` is what the peer sends, `written` what it gets once it reads (`unread` before).

    It behaves as a loop's own: pausing at the high-water mark, calling back later, never twice.
    """

    _start_tls_compatible = True  # what asyncio asks before it puts TLS between a transport and its protocol

    def __init__(self, loop: FuzzLoop, protocol: asyncio.Protocol, high: int = 64 * 1024) -> None:
        super().__init__({"peername": ("192.0.2.1", 4000)})
        self.loop, self.protocol = loop, protocol
        self.output = bytearray()  # all that was ever written, whether the peer came to read it or not
        self.written = bytearray()
        self.unread = bytearray()
        self.peer_reads = True
        self.on_data: Callable[[], None] | None = None  # the peer, where it is a stand-in that answers
        self.on_write: Callable[[int], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.eof_written = False
        self.lost = False
        self._closing = False
        self._inbox: list[bytes | None] = []  # what the peer sent while reading was paused; None is its EOF
        self._reading = True
        self._high = high
        self._protocol_paused = False
        self._connected = False
        loop.call_soon(self._connect)

    def _connect(self) -> None:
        if not self.lost:
            self._connected = True
            self.protocol.connection_made(self)
            self._let_in()

    # --- the peer's side

    def deliver(self, data: bytes | None) -> None:
        """Bytes from the peer, as one read of the socket; None is its half close."""
        self._inbox.append(data)
        self._let_in()

    def _let_in(self) -> None:
        while self._inbox and self._reading and self._connected and not self._closing:
            data = self._inbox.pop(0)
            if data is None:
                if not self.protocol.eof_received():
                    self.close()
            elif isinstance(self.protocol, asyncio.BufferedProtocol):
                _into_buffer(self.protocol, data)
            else:
                self.protocol.data_received(data)

    def hang_up(self) -> None:
        """The peer is gone for good, as a loop tells it of a line that is reset."""
        self._force_close(ConnectionResetError("reset by the peer"))

    def read(self) -> None:
        """The peer takes what waits for it."""
        self.peer_reads = True
        self._pass_on()

    def stop_reading(self) -> None:
        self.peer_reads = False

    # --- the protocol's side

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol  # type: ignore[assignment]

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert isinstance(data, bytes | bytearray | memoryview)
        assert not self.eof_written, "written behind the end"
        if not self._closing and not self.lost:
            self.unread += data
            self.output += data
            if self.on_write is not None:
                self.on_write(len(data))
            self._pass_on()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def _pass_on(self) -> None:
        if self.peer_reads and self.unread:
            self.written += self.unread
            self.unread.clear()
            if self.on_data is not None:
                self.loop.call_soon(self.on_data)
        kept = len(self.unread) - KERNEL_BYTES
        if not self._protocol_paused and kept > self._high:
            self._protocol_paused = True
            self.protocol.pause_writing()
        elif self._protocol_paused and kept <= 0:
            self._protocol_paused = False
            self.protocol.resume_writing()
        if self._closing and not self.unread:
            self._lose(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = self._high if high is None else high

    def get_write_buffer_size(self) -> int:
        return max(0, len(self.unread) - KERNEL_BYTES)

    def is_closing(self) -> bool:
        return self._closing or self.lost

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self.eof_written:
            self.eof_written = True
            if self.on_end is not None:
                self.loop.call_soon(self.on_end)

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.loop.call_soon(self._let_in)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._inbox.clear()
            if not self.unread:
                self._lose(None)

    def abort(self) -> None:
        self._force_close(None)

    def _force_close(self, error: Exception | None) -> None:
        """As asyncio's transports; its TLS relies on it."""
        self._closing = True
        self._inbox.clear()
        self.unread.clear()
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = self._closing = True
            self.loop.call_soon(self.protocol.connection_lost, error)
            if self.on_end is not None:
                self.loop.call_soon(self.on_end)


def _into_buffer(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    while data:
        space = memoryview(protocol.get_buffer(len(data)))
        size = min(len(space), len(data))
        space[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]

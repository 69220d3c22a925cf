"""What the protocol suites talk to: a transport that only records, and a runner for both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar, cast

import uvloop
from slowness import scaled

from engine.model.assignment import Member
from engine.model.queue import QueueName

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
DEADLINE_SECONDS = 20.0


def run_on(loop_name: str, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a fresh loop of that kind, under a deadline."""

    async def bounded() -> T:
        async with asyncio.timeout(scaled(DEADLINE_SECONDS)):
            return await work

    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        return runner.run(bounded())


async def settle() -> None:
    """Let every callback that is ready run; enough turns for a chain of a few wake-ups."""
    for _ in range(5):
        await asyncio.sleep(0)


class Ear:
    """What one process hears of others, and what it answers them: by the question, or never before the event is set."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self.answers: dict[str, Any] = {}
        self.members = Members(self)

    async def _answer(self, question: str, value: Any) -> Iterable[list[Any]]:
        answer = self.answers[question]
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return []
        return answer

    async def next(self) -> tuple[Any, ...]:
        """The next thing heard."""
        return await asyncio.wait_for(self.received.get(), 5)


class Members:
    """The receivers with keys of their own that a process has, and what it hears of others'."""

    def __init__(self, ear: Ear) -> None:
        self._ear = ear
        self.here: dict[QueueName, tuple[Member, ...]] = {}

    def reported(self, neighbour: Any, members: Any, *, all_queues: bool) -> None:
        if members or self._ear.answers.get("members"):
            self._ear.received.put_nowait(("members", members, all_queues))

    def gone(self, neighbour: Any) -> None:
        if self._ear.answers.get("members"):
            self._ear.received.put_nowait(("members gone",))


class RecordingTransport(asyncio.Transport):
    """Keeps what is written and whether reading is paused; closing calls the protocol back as a loop would."""

    def __init__(self, protocol: asyncio.Protocol, *, tls: bool = False) -> None:
        super().__init__({"peername": ("192.0.2.1", 4000)})
        self.tls = tls
        self.written = bytearray()
        self.reading = True
        self.closing = False
        self.aborted = False
        self.eof_written = False
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0  # what is written is sent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def is_closing(self) -> bool:
        return self.closing

    def can_write_eof(self) -> bool:
        return not self.tls

    def write_eof(self) -> None:
        self.eof_written = True

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def take(self) -> bytes:
        """What was written since last asked."""
        data = bytes(self.written)
        self.written.clear()
        return data


def packet(payload: bytes, seq: int = 0) -> bytes:
    """One small physical packet, framed by the book and not by the code under test."""
    return len(payload).to_bytes(3, "little") + bytes((seq,)) + payload


def packets_of(data: bytes) -> list[tuple[int, bytes]]:
    """Physical packets as (sequence id, payload); fails on anything left over."""
    found = []
    while data:
        size = int.from_bytes(data[:3], "little")
        assert len(data) >= 4 + size, "half a packet"
        found.append((data[3], data[4 : 4 + size]))
        data = data[4 + size :]
    return found

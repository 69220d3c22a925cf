"""A queuegate process that watches itself: for how long its event loop, and its interpreter, were held.

`python -m benchmarks.probed_gate FILE serve --config ...` is `queuegate serve ...` with two clocks that tick every
millisecond: one on the event loop, one in a thread of its own. FILE holds what they saw, for another process to read
and to set back (`Holds`).

The longest silence of the thread's clock tells of a call that keeps the interpreter's lock. The loop's tells of a
callback that takes its time, and of threads that take the lock in turns.

On a busy machine both clocks are late although nothing is held. So each silence is counted twice: as it was, and at
most as the processor time that the process used meanwhile. The second is what a busy machine does not change.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICK_SECONDS = 0.001
_NUMBERS = struct.Struct("4d")
_LOOP, _INTERPRETER = 0, 16


@dataclass(frozen=True, slots=True)
class Held:
    """The longest silences since they were set back, in seconds: of the loop and of the interpreter, by the clock and
    at most as the processor time used in each."""

    loop_wall: float
    loop: float
    interpreter_wall: float
    interpreter: float


class Holds:
    """The file in which the process writes what it saw."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_NUMBERS.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _NUMBERS.size)

    def read(self) -> Held:
        return Held(*_NUMBERS.unpack(self._memory))

    def reset(self) -> None:
        self._memory[:] = bytes(_NUMBERS.size)

    def note(self, at: int, wall: float, used: float) -> None:
        """A silence has ended."""
        worst_wall, worst = struct.unpack_from("2d", self._memory, at)
        struct.pack_into("2d", self._memory, at, max(worst_wall, wall), max(worst, min(wall, used)))


class _Clock:
    def __init__(self, holds: Holds, at: int) -> None:
        self._holds, self._at = holds, at
        self._last = time.monotonic(), time.process_time()

    def tick(self) -> None:
        now, used = time.monotonic(), time.process_time()
        last_now, last_used = self._last
        self._last = now, used
        self._holds.note(self._at, now - last_now - TICK_SECONDS, used - last_used)


def _watch_interpreter(holds: Holds) -> None:
    clock = _Clock(holds, _INTERPRETER)
    while True:
        time.sleep(TICK_SECONDS)
        clock.tick()


def _watch_loop(holds: Holds) -> None:
    loop, clock = asyncio.get_running_loop(), _Clock(holds, _LOOP)

    def tick() -> None:
        clock.tick()
        loop.call_later(TICK_SECONDS, tick)

    tick()


def main() -> int:
    """See the module."""
    holds = Holds(Path(sys.argv.pop(1)))
    from queuegate import app, command_line

    serve: Callable[..., Awaitable[None]] = app.serve

    async def probed(*args: Any, **named: Any) -> None:
        _watch_loop(holds)
        await serve(*args, **named)

    app.serve = probed  # type: ignore[assignment]
    threading.Thread(target=_watch_interpreter, args=(holds,), daemon=True).start()
    return command_line.main()


if __name__ == "__main__":
    sys.exit(main())

"""An event loop whose time jumps: when nothing is left to do now, the next timer fires at once.

A test of half an hour takes milliseconds and comes out the same each time. Where nothing is scheduled at all the loop
would wait for ever; it raises instead, so a forgotten wake-up is an error and not a hang.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

TURNS_MAX = 200_000  # turns of the loop without time passing: more is a loop without a pause


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self._turns = 0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("nothing will ever happen: every task waits and no timer is set")
        self._turns = 0 if timeout > 0 else self._turns + 1
        assert self._turns < TURNS_MAX, "a busy loop: time does not pass"
        self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class VirtualClock:
    """The engine's clock on a virtual loop; the wall clock starts at a round number of the year 2026."""

    START_NS = 1_770_000_000 * 1_000_000_000

    def now_ns(self) -> int:
        return self.START_NS + round((self.monotonic() - 1000.0) * 1e9)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return self.monotonic()


async def pass_time(seconds: float) -> None:
    """Let that much virtual time go by."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.call_later(seconds, over.set)
    await over.wait()


async def settle(turns: int = 50) -> None:
    """Let everything happen that needs no time to pass."""
    for _ in range(turns):
        await asyncio.sleep(0)


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test on a virtual loop, and see that it leaves no task behind."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(asyncio.wait_for(test(*args, **kwargs), 1e7))
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            assert not left, f"tasks left behind: {left}"
        finally:
            loop.close()

    return run

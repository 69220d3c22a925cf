"""A statement whose client has disconnected is ended: no one waits for its answer, and it would run without a limit.

A server without a proxy in front of it notices that only when it writes. Here the socket is watched all the time, so
that a long statement is stopped as KILL QUERY would stop it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType

AFTER_SECONDS = 1.0  # most statements end before: these cost a timer and nothing else
_AGAIN_SECONDS = 0.05  # an interrupt between two steps of a statement is lost


@dataclass(eq=False, slots=True)
class ClientWatch:
    """A context around a statement. `gone` returns once the client has disconnected, `stop` ends the session's
    statement."""

    gone: Callable[[], Awaitable[None]]
    stop: Callable[[], None]
    _timer: asyncio.TimerHandle | None = None
    _task: asyncio.Task[None] | None = None

    def __enter__(self) -> ClientWatch:
        self._timer = asyncio.get_running_loop().call_later(AFTER_SECONDS, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await self.gone()
        while True:
            self.stop()
            await asyncio.sleep(_AGAIN_SECONDS)

"""Service: a background task. open and close may be repeated; close then open restarts it.

The unit of work is a pass that tests call directly; `_run` only repeats passes. A `_run` that fails by a defect is
logged and started again after a pause: a background task must never end without a log record.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod

_RESTART_PAUSE_SECONDS = 1.0  # a defect that repeats at once must not fill the log


class Service(ABC):
    """See the module."""

    def __init__(self, name: str, logger: logging.Logger) -> None:
        self._name = name
        self._logger = logger
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None

    async def open(self) -> None:
        """Start, unless it runs."""
        if self._task is None:
            self._stopping.clear()
            self._task = asyncio.create_task(self._supervised(), name=self._name)

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Let the current pass end; cancel it if that takes longer than the grace time. Does nothing if stopped."""
        task, self._task = self._task, None
        if task is None:
            return
        self._stopping.set()
        self._wake()
        _, late = await asyncio.wait((task,), timeout=grace_seconds)
        if late:
            self._logger.warning("%s: did not end within %.1f s, cancelled", self._name, grace_seconds)
            task.cancel()
            await asyncio.wait((task,), timeout=1.0)

    @property
    def died(self) -> bool:
        """Whether the task has ended although the service was not closed: it was cancelled by mistake."""
        return self._task is not None and self._task.done()

    async def restart_task(self) -> bool:
        """Cancel the task, whatever it does, and start another. False where it cannot be cancelled."""
        task = self._task
        if task is None or self._stopping.is_set():
            return True
        task.cancel()
        await asyncio.wait((task,), timeout=1.0)
        if task.done() and self._task is task and not self._stopping.is_set():
            self._task = asyncio.create_task(self._supervised(), name=self._name)
        return task.done()

    def _wake(self) -> None:  # noqa: B027 (not every service has another wait)
        """Interrupt a wait other than `_pause`."""

    @abstractmethod
    async def _run(self) -> None:
        """Repeat passes until `_stopping` is set."""

    async def _pause(self, seconds: float) -> None:
        """Wait for so long, or until the service stops."""
        await self._is_set_within(self._stopping, seconds)

    @staticmethod
    async def _is_set_within(event: asyncio.Event, seconds: float | None) -> bool:
        """Wait until the event is set, at most for so long; None: for ever. Whether it is set."""
        try:
            return await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return False

    async def _supervised(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._run()
            except Exception:
                self._logger.exception("%s: failed by a defect, starting again", self._name)
                await self._pause(_RESTART_PAUSE_SECONDS)

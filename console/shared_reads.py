"""Reads that open pages repeat, done once for all that show the same page with the same login.

A part of a page that refreshes itself is read at most once in SHARED_SECONDS for the same name and password and the
same parameters: ten screens in an office cost what two do. Nothing else is shared: a page that is opened, or
that follows an action, is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from console.visits import Page, Visit
from engine.shared_future import wait_shared

SHARED_SECONDS = 2.5
SHARED_READS_MAX = 1000

_Key = tuple[bytes, str, frozenset[tuple[str, str]]]


class SharedReads:
    """See the module. Times are those of `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reads: dict[_Key, tuple[float, asyncio.Task[Any]]] = {}

    async def read(self, page: Page, visit: Visit) -> Any:
        """What the page reads, or what it has read for another just now. Raises what it raises; errors are not stored
        for later readers."""
        key = (visit.session.database.login, page.path, frozenset(visit.params.items()))
        began, task = self._reads.get(key, (0.0, None))
        if task is None or self._clock() - began >= SHARED_SECONDS or _failed(task):
            self._forget()
            task = asyncio.ensure_future(page.read(visit))
            self._reads[key] = (self._clock(), task)
        return await wait_shared(task)  # it goes on for the others where one of them leaves

    def _forget(self) -> None:
        """What is too old goes, and where there are very many, everything."""
        before = self._clock() - SHARED_SECONDS
        self._reads = {key: read for key, read in self._reads.items() if read[0] > before}
        if len(self._reads) >= SHARED_READS_MAX:
            self._reads.clear()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

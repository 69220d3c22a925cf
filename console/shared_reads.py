"""What open pages ask for again and again, read once for all who look at the same thing with the same login.

A part of a page that refreshes itself is read at most once in SHARED_SECONDS for the same name and password and the
same parameters: ten screens in an office cost what two do. Nothing else is shared: a page that somebody opens, or that
follows an action, is read anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from console.visits import Page, Visit
from engine.shared_future import wait_shared

SHARED_SECONDS = 2.5
KEPT_MAX = 1000

_Key = tuple[bytes, str, frozenset[tuple[str, str]]]


class SharedReads:
    """See the module. Times are those of `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[_Key, tuple[float, asyncio.Task[Any]]] = {}

    async def read(self, page: Page, visit: Visit) -> Any:
        """What the page reads, or what it has read for another just now. Raises what it raises; errors are not kept
        for those who come later."""
        key = (visit.session.database.login, page.path, frozenset(visit.given.items()))
        began, task = self._kept.get(key, (0.0, None))
        if task is None or self._clock() - began >= SHARED_SECONDS or _failed(task):
            self._forget()
            task = asyncio.ensure_future(page.read(visit))
            self._kept[key] = (self._clock(), task)
        return await wait_shared(task)  # it goes on for the others where one of them leaves

    def _forget(self) -> None:
        """What is too old goes, and where there are very many, everything."""
        before = self._clock() - SHARED_SECONDS
        self._kept = {key: kept for key, kept in self._kept.items() if kept[0] > before}
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

"""Threads that read long statements, so that the event loop hears others meanwhile.

Two for the whole process: a client that sends many such statements delays only others that send them. The threads are
daemons: nothing can interrupt the reading of a statement, and it must not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 2

_Task = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


@dataclass(eq=False, slots=True)
class Readers:
    """See the module. The threads begin with the first statement that needs them."""

    _tasks: queue.SimpleQueue[_Task] = field(default_factory=queue.SimpleQueue)
    _threads: list[threading.Thread] = field(default_factory=list)

    async def run(self, work: Callable[[], T]) -> T:
        """Do `work` in one of the threads."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if len(self._threads) < THREADS:
            thread = threading.Thread(target=self._serve, name="statement-reader", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put((work, future, loop))
        return await future

    def _serve(self) -> None:
        while True:
            work, future, loop = self._tasks.get()
            if future.cancelled():
                continue
            try:
                outcome: tuple[Any, BaseException | None] = (work(), None)
            except BaseException as error:
                outcome = (None, error)
            try:
                loop.call_soon_threadsafe(_settle, future, *outcome)
            except RuntimeError:
                return  # the loop is closed: nobody is left to answer
            del work, future, outcome


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)

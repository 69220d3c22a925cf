"""Threads that parse long statements, so that the event loop handles other clients at the same time.

Two for each open database: a client that sends many such statements delays only others that send them. The threads end
when the database closes; they are daemons, because parsing a statement cannot be interrupted, and must not delay the
end of the process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from embedded.database.task_thread import Tasks, run_tasks
from engine.model.errors import BackendUnavailable

T = TypeVar("T")

THREADS = 2


@dataclass(eq=False, slots=True)
class ParserThreads:
    """See the module. The threads start with the first statement that needs them."""

    _tasks: Tasks = field(default_factory=queue.SimpleQueue)
    _threads: list[threading.Thread] = field(default_factory=list)
    _closed: bool = False

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in one of the threads.

        Raises:
            BackendUnavailable: the database is closed.
        """
        if self._closed:
            raise BackendUnavailable("the database is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if len(self._threads) < THREADS:
            thread = threading.Thread(target=run_tasks, args=(self._tasks, _call), name="statement-reader", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put((work, future, loop))
        return await future

    def close(self) -> None:
        """End the threads once their tasks are done, without waiting for that. May be called twice."""
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)


def _call(work: Callable[[], T]) -> T:
    return work()

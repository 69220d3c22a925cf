"""The loop of a thread that works for an event loop: it takes tasks from a queue, and returns the result of each."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any

Task = tuple[Callable[..., Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]
Tasks = queue.SimpleQueue[Task | None]
"""None ends the thread."""


def run_tasks(tasks: Tasks, call: Callable[[Callable[..., Any]], Any]) -> None:
    """Run one task after the other by `call`, until there is a None or the loop is closed. One for which no one waits
    any more is run all the same: a rollback must not be left out."""
    while (task := tasks.get()) is not None:
        work, future, loop = task
        try:
            outcome: tuple[Any, BaseException | None] = (call(work), None)
        except BaseException as error:
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(_settle, future, *outcome)
        except RuntimeError:
            return  # the loop is closed: no one is left to answer
        del task, work, future, outcome  # what they refer to must not live until the next task


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)

"""Time limits of tasks: a thread that ends attempts which run too long.

Python cannot end a thread. So the attempt's connection is ended, which rolls back what it has done, its message fails
with the reason, and the process is left: it receives nothing more, lets its other tasks end, and is replaced.

Code that holds the interpreter's lock stops this thread too. The next deadline is therefore also in shared memory,
where the parent process reads it, and ends a process that is long past it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from queuegate_worker.message import Message
from queuegate_worker.tasks.task import AnyTask
from queuegate_worker.transaction import Transaction

logger = logging.getLogger("queuegate_worker")


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """A task that runs, with the second of the clock at which its time is over."""

    task: AnyTask
    message: Message
    transaction: Transaction
    deadline: float


def over_limit(task: AnyTask) -> str:
    """The reason of such a failure."""
    return f"{task.name} ran over its time limit of {task.timeout:g} s"


class Overrun(Protocol):
    """Ends an attempt whose time is over. Called in the thread of the time limits."""

    def __call__(self, attempt: Attempt) -> None:
        """Raises nothing."""


class Limits(Protocol):
    """Watches attempts."""

    def watch(
        self, task: AnyTask, message: Message, transaction: Transaction, more: float
    ) -> AbstractContextManager[None]:
        """While the block runs its time limit holds, if the task has one; for so many seconds `more`."""


class TimeLimits:
    """`publish` is called with the next deadline, or None, whenever it changes. `clock`: seconds."""

    def __init__(self, overrun: Overrun, publish: Callable[[float | None], None], clock: Callable[[], float]) -> None:
        self._overrun, self._publish, self._clock = overrun, publish, clock
        self._running: set[Attempt] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._published: float | None = None

    @contextmanager
    def watch(self, task: AnyTask, message: Message, transaction: Transaction, more: float) -> Iterator[None]:
        """See Limits."""
        if task.timeout is None:
            yield
            return
        attempt = Attempt(task, message, transaction, self._clock() + task.timeout + more)
        self._add(attempt)
        try:
            yield
        finally:
            self._remove(attempt)

    def _add(self, attempt: Attempt) -> None:
        with self._changed:
            self._running.add(attempt)
            self._publish_next()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="queuegate-time-limits", daemon=True)
                self._thread.start()
            elif self._published == attempt.deadline:
                self._changed.notify()  # it is the next one

    def _remove(self, attempt: Attempt) -> None:
        with self._changed:
            self._running.discard(attempt)
            self._publish_next()

    def _publish_next(self) -> None:
        following = min((each.deadline for each in self._running), default=None)
        if following != self._published:
            self._published = following
            self._publish(following)

    def _run(self) -> None:
        while True:
            for attempt in self._over():
                message = attempt.message
                logger.error("message %r of %s: %s", message.id, message.queue, over_limit(attempt.task))
                self._overrun(attempt)

    def _over(self) -> list[Attempt]:
        """Those whose time is over, once there are any. They are no longer watched."""
        with self._changed:
            while True:
                now = self._clock()
                over = [each for each in self._running if each.deadline <= now]
                if over:
                    self._running.difference_update(over)
                    self._publish_next()
                    return over
                self._changed.wait(None if self._published is None else self._published - now)

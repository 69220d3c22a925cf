"""The single-writer gate: who may write to the SQLite file next. First come, first served, with a bounded wait.

Two kinds of holders: a transaction holds the gate alone until it ends; autocommit writes ("jobs") that stand next to
each other in the queue share one ticket, so one SQLite transaction and one flush to disk serves them all. A job never
passes a transaction that came before it. All of this runs on the event loop: no locks are needed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from embedded.database.connection import SqliteConnection
from engine.model.errors import BackendUnavailable, LockWaitTimeout

BATCH_JOBS = 256  # jobs sharing one commit; more would let one flush hold up hundreds of answers


@dataclass(eq=False, slots=True)
class Job:
    """One autocommit write: all or nothing, answered only after the commit that contains it is durable."""

    work: Callable[[SqliteConnection], Any]
    future: asyncio.Future[Any]
    started: bool = False
    cancelled: bool = False
    killed: bool = False
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False, slots=True)
class _Ticket:
    """A place in the queue. `jobs` None: one transaction that waits on `granted`."""

    granted: asyncio.Future[None] | None = None
    jobs: list[Job] | None = None


@dataclass(eq=False, slots=True)
class WriterGate:
    """See the module. `run_batch` carries out jobs and settles their futures; what it returns goes first in line."""

    run_batch: Callable[[list[Job]], Coroutine[Any, Any, list[Job]]]
    _queue: deque[_Ticket] = field(default_factory=deque)
    _held: bool = False
    _alone: bool = False  # what holds the gate is a transaction, not a batch that is over in a moment
    _closed: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def taken(self) -> bool:
        """Whether a transaction holds the gate or stands in line for it. Autocommit writes do not count."""
        return self._alone or any(ticket.granted is not None for ticket in self._queue)

    async def acquire(self, wait_seconds: float) -> None:
        """Hold the gate alone. Raises LockWaitTimeout when it was not free within `wait_seconds`."""
        self._refuse_when_closed()
        if not self._held:
            self._held = self._alone = True
            return
        ticket = _Ticket(granted=asyncio.get_running_loop().create_future())
        self._queue.append(ticket)
        await self._granted(ticket, wait_seconds)

    def release(self) -> None:
        """Let the next in line in. Only the holder calls this."""
        assert self._held
        self._held = self._alone = False
        self._next()

    async def submit(self, job: Job, wait_seconds: float) -> Any:
        """Have the job carried out as one autocommit write; returns its result once it is durable."""
        self._refuse_when_closed()
        self._enqueue(job)
        if not job.started:
            job.timer = asyncio.get_running_loop().call_later(wait_seconds, self._expire, job)
        try:
            return await job.future
        except asyncio.CancelledError:
            # Not started: it never will be. Started: its outcome stands, nobody hears of it.
            self._leave(job)
            raise
        finally:
            if job.timer is not None:
                job.timer.cancel()

    async def close(self) -> None:
        """Fail everybody in line and wait for what is running."""
        self._closed = True
        waiting, self._queue = self._queue, deque()
        for ticket in waiting:
            for future in [ticket.granted] if ticket.granted else [job.future for job in ticket.jobs or ()]:
                if not future.done():
                    future.set_exception(BackendUnavailable("the database is closed"))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def refuse(self, job: Job, error: Exception) -> None:
        """Take a job that has not started out of the queue, with this error as its outcome."""
        if not job.started and not job.future.done():
            self._leave(job)
            job.future.set_exception(error)

    def _leave(self, job: Job) -> None:
        """A job that will not run: its place, and what it holds, is given up at once."""
        job.cancelled = True
        for ticket in self._queue:
            if ticket.jobs is not None and job in ticket.jobs:
                ticket.jobs.remove(job)
                if not ticket.jobs:
                    self._queue.remove(ticket)
                return

    def _enqueue(self, job: Job) -> None:
        tail = self._queue[-1] if self._queue else None
        if tail is not None and tail.jobs is not None and len(tail.jobs) < BATCH_JOBS:
            tail.jobs.append(job)
            return
        self._queue.append(_Ticket(jobs=[job]))
        if not self._held:
            self._next()

    async def _granted(self, ticket: _Ticket, wait_seconds: float) -> None:
        assert ticket.granted is not None
        try:
            await asyncio.wait_for(asyncio.shield(ticket.granted), wait_seconds)
        except TimeoutError:
            if self._give_up(ticket):
                raise LockWaitTimeout() from None
        except asyncio.CancelledError:
            if not self._give_up(ticket):
                self.release()
            raise

    def _give_up(self, ticket: _Ticket) -> bool:
        """Leave the queue. False: the gate was granted at the same moment, so it is held."""
        assert ticket.granted is not None
        if ticket.granted.done() and not ticket.granted.cancelled() and ticket.granted.exception() is None:
            return False
        ticket.granted.cancel()
        if ticket in self._queue:
            self._queue.remove(ticket)
        return True

    def _expire(self, job: Job) -> None:
        self.refuse(job, LockWaitTimeout())

    def _next(self) -> None:
        while self._queue and not self._held:
            ticket = self._queue.popleft()
            if ticket.granted is not None:
                if not ticket.granted.done():
                    self._held = self._alone = True
                    ticket.granted.set_result(None)
                continue
            jobs = [job for job in ticket.jobs or () if not job.cancelled]
            if jobs:
                self._held = True
                self._start(jobs)

    def _start(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.started = True
            if job.timer is not None:
                job.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._serve(jobs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, jobs: list[Job]) -> None:
        try:
            left = await self.run_batch(jobs)
            if left:
                self._queue.appendleft(_Ticket(jobs=left))
        except BaseException as error:
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self.release()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise BackendUnavailable("the database is closed")

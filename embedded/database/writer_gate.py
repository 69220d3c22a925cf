"""The single-writer gate: who may write to the SQLite file next, in FIFO order and with a bounded wait.

Two kinds of holders: a transaction holds the gate exclusively until it ends; autocommit writes ("jobs") that are
adjacent in the queue share one ticket, so they share one SQLite transaction and one flush to disk. A job never
overtakes an earlier transaction. All of this runs on the event loop: no locks are needed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from embedded.database.connection import SqliteConnection
from engine.model.errors import BackendUnavailable, LockWaitTimeout

BATCH_JOBS = 256  # jobs in one commit; with more, one flush would delay hundreds of answers


@dataclass(eq=False, slots=True)
class Job:
    """One autocommit write: all or nothing, answered only after the commit that contains it is durable."""

    work: Callable[[SqliteConnection], Any]
    future: asyncio.Future[Any]
    started: bool = False
    cancelled: bool = False
    killed: bool = False
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What has come of a job, whose future does not know of it yet."""

    job: Job
    result: Any = None
    error: BaseException | None = None

    def resolve(self) -> None:
        """Resolve the job's future."""
        future = self.job.future
        if future.done():
            return
        if self.error is None:
            future.set_result(self.result)
        else:
            future.set_exception(self.error)


Batch = tuple[list[Settled], list[Job]]
"""What has come of the jobs of one commit, which is durable, and the jobs that there was no time for."""


@dataclass(eq=False, slots=True)
class _Ticket:
    """A place in the queue. `jobs` None: one transaction that waits on `granted`."""

    granted: asyncio.Future[None] | None = None
    jobs: list[Job] | None = None


@dataclass(eq=False, slots=True)
class WriterGate:
    """See the module. `begin_batch` has jobs run; those that there was no time for are put at the front of the
    queue."""

    begin_batch: Callable[[list[Job]], asyncio.Future[Batch]]
    _queue: deque[_Ticket] = field(default_factory=deque)
    _locked: bool = False
    _exclusive: bool = False  # a transaction holds the gate, not a short batch
    _closed: bool = False
    _batch: asyncio.Future[Batch] | None = None  # which is running

    @property
    def wanted_exclusively(self) -> bool:
        """Whether a transaction holds the gate or waits for it. Autocommit writes do not count."""
        return self._exclusive or any(ticket.granted is not None for ticket in self._queue)

    async def acquire(self, wait_seconds: float) -> None:
        """Take the gate exclusively. Raises LockWaitTimeout when it was not free within `wait_seconds`."""
        self._check_open()
        if not self._locked:
            self._locked = self._exclusive = True
            return
        ticket = _Ticket(granted=asyncio.get_running_loop().create_future())
        self._queue.append(ticket)
        await self._granted(ticket, wait_seconds)

    def release(self) -> None:
        """Grant the gate to the next in the queue. Only the holder calls this."""
        assert self._locked
        self._locked = self._exclusive = False
        self._next()

    async def submit(self, job: Job, wait_seconds: float) -> Any:
        """Run the job as one autocommit write; returns its result once it is durable."""
        self._check_open()
        self._enqueue(job)
        if not job.started:
            job.timer = asyncio.get_running_loop().call_later(wait_seconds, self._expire, job)
        try:
            return await job.future
        except asyncio.CancelledError:
            # Not started: it never will be. Started: its effect remains, without an answer.
            self._withdraw(job)
            raise
        finally:
            if job.timer is not None:
                job.timer.cancel()

    async def close(self) -> None:
        """Fail all waiting tickets and wait for running jobs."""
        self._closed = True
        waiting, self._queue = self._queue, deque()
        for ticket in waiting:
            for future in [ticket.granted] if ticket.granted else [job.future for job in ticket.jobs or ()]:
                if not future.done():
                    future.set_exception(BackendUnavailable("the database is closed"))
        while self._batch is not None:
            await asyncio.wait([self._batch])

    def refuse(self, job: Job, error: Exception) -> None:
        """Take a job that has not started out of the queue, with this error as its outcome."""
        if not job.started and not job.future.done():
            self._withdraw(job)
            job.future.set_exception(error)

    def _withdraw(self, job: Job) -> None:
        """Remove a job that will not run, with all that it refers to."""
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
        if not self._locked:
            self._next()

    async def _granted(self, ticket: _Ticket, wait_seconds: float) -> None:
        assert ticket.granted is not None
        try:
            await asyncio.wait_for(asyncio.shield(ticket.granted), wait_seconds)
        except TimeoutError:
            if self._cancel_ticket(ticket):
                raise LockWaitTimeout() from None
        except asyncio.CancelledError:
            if not self._cancel_ticket(ticket):
                self.release()
            raise

    def _cancel_ticket(self, ticket: _Ticket) -> bool:
        """Leave the queue. False: the gate was granted at the same moment, so the caller has it."""
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
        while self._queue and not self._locked:
            ticket = self._queue.popleft()
            if ticket.granted is not None:
                if not ticket.granted.done():
                    self._locked = self._exclusive = True
                    ticket.granted.set_result(None)
                continue
            jobs = [job for job in ticket.jobs or () if not job.cancelled]
            if jobs:
                self._locked = True
                self._start(jobs)

    def _start(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.started = True
            if job.timer is not None:
                job.timer.cancel()
        self._batch = batch = self._begun(jobs)
        batch.add_done_callback(partial(self._end, jobs))

    def _begun(self, jobs: list[Job]) -> asyncio.Future[Batch]:
        """The batch; one that cannot begin, as without a further thread, has failed."""
        try:
            return self.begin_batch(jobs)
        except Exception as error:
            failed: asyncio.Future[Batch] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    def _end(self, jobs: list[Job], batch: asyncio.Future[Batch]) -> None:
        self._batch = None
        error = batch.exception()
        if error is None:
            settled, left = batch.result()
            for one in settled:
                one.resolve()
            if left:
                self._queue.appendleft(_Ticket(jobs=left))
        else:
            for job in jobs:
                Settled(job, error=error).resolve()
        self.release()

    def _check_open(self) -> None:
        if self._closed:
            raise BackendUnavailable("the database is closed")

"""The thread that executes autocommit writes, many in one commit.

Each of several jobs runs in a savepoint of its own, so one that fails leaves the others untouched; no job is answered
before the COMMIT is on disk. When a fault rolls back the whole transaction (an interrupt, a full disk), the jobs before
it, not yet answered, are run again without the failed one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field

from embedded.database.connection import SqliteConnection, SqliteWorker
from embedded.database.errors import SqliteInterrupted
from embedded.database.writer_gate import Batch, Job, Settled

BATCH_SECONDS = 0.02  # jobs of a batch that are not begun by then wait for the next, so a slow one delays few answers
INTERRUPT_SECONDS = 0.05  # between tries to stop a killed job: long for a thread, short for who waits


@dataclass(eq=False, slots=True)
class BatchWriter:
    """See the module."""

    worker: SqliteWorker
    _running: Job | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, jobs: list[Job]) -> asyncio.Future[Batch]:
        """Have the thread carry out a batch, once the one before is over."""
        if self.worker.is_heavy:
            self.worker = self.worker.successor()
        return self.worker.submit(lambda connection: self._run(connection, jobs))

    def kill(self, job: Job) -> None:
        """Make the job fail with 1317 if it is running or has yet to run. To be called on the event loop."""
        if job.killed:
            return  # the timer that repeats the interrupt is there
        job.killed = True
        self._interrupt(job)

    def _interrupt(self, job: Job) -> None:
        with self._lock:
            if self._running is not job:
                return
            self.worker.interrupt()
        # It may be between two statements, where an interrupt is lost: repeat until it is over.
        asyncio.get_running_loop().call_later(INTERRUPT_SECONDS, self._interrupt, job)

    def _run(self, connection: SqliteConnection, jobs: list[Job]) -> Batch:
        deadline = time.monotonic() + BATCH_SECONDS
        failed: list[Settled] = []
        while jobs:
            done, left, lost = self._transaction(connection, jobs, deadline)
            if lost is None:
                return failed + done, left
            failed.append(lost)
            failed += [settled for settled in done if settled.error is not None]
            gone = {settled.job for settled in failed}
            jobs = [job for job in jobs if job not in gone]
        return failed, []

    def _transaction(
        self, connection: SqliteConnection, jobs: list[Job], deadline: float
    ) -> tuple[list[Settled], list[Job], Settled | None]:
        """One BEGIN ... COMMIT: what came of the jobs, jobs not begun, and the job that took the transaction with it,
        if any."""
        done: list[Settled] = []
        left: list[Job] = []
        connection.execute("BEGIN IMMEDIATE")
        try:
            for position, job in enumerate(jobs):
                if done and time.monotonic() > deadline:
                    left = jobs[position:]
                    break
                settled = self._one(connection, job, alone=len(jobs) == 1)
                if not connection.in_transaction:
                    return done, [], settled
                done.append(settled)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        return done, left, None

    def _one(self, connection: SqliteConnection, job: Job, *, alone: bool) -> Settled:
        """Run a job. `alone`: the transaction is its own, and ends with it where it fails."""
        if not alone:
            connection.execute("SAVEPOINT job")
        try:
            with self._lock:
                if job.killed:
                    raise SqliteInterrupted()
                self._running = job
            result = job.work(connection)
        except BaseException as error:
            self._finish()
            if alone:
                connection.rollback()
            elif connection.in_transaction:
                connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
            return Settled(job, error=error)
        self._finish()
        if not alone:
            connection.execute("RELEASE job")
        return Settled(job, result)

    def _finish(self) -> None:
        with self._lock:
            self._running = None

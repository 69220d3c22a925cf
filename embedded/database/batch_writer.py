"""The thread that executes autocommit writes, many in one commit.

Each job runs in a savepoint of its own, so one that fails leaves the others untouched; no job is answered before the
COMMIT is on disk. When a fault rolls back the whole transaction (an interrupt, a full disk), the jobs before it, not
yet answered, are run again without the failed one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from embedded.database.connection import SqliteConnection, SqliteWorker
from embedded.database.errors import SqliteInterrupted
from embedded.database.writer_gate import Job

BATCH_SECONDS = 0.02  # jobs of a batch that are not begun by then wait for the next, so a slow one delays few answers
INTERRUPT_SECONDS = 0.05  # between tries to stop a killed job: long for a thread, short for who waits


@dataclass(eq=False, slots=True)
class _Outcome:
    job: Job
    result: Any = None
    error: BaseException | None = None


@dataclass(eq=False, slots=True)
class BatchWriter:
    """See the module."""

    worker: SqliteWorker
    _running: Job | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def run(self, jobs: list[Job]) -> list[Job]:
        """Carry out a batch and settle its futures; returns the jobs that there was no time for."""
        outcomes, left = await self.worker.run(lambda connection: self._batch(connection, jobs))
        if self.worker.is_heavy:
            self.worker = self.worker.successor()
        for outcome in outcomes:
            _settle(outcome)
        return left

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

    def _batch(self, connection: SqliteConnection, jobs: list[Job]) -> tuple[list[_Outcome], list[Job]]:
        deadline = time.monotonic() + BATCH_SECONDS
        failed: list[_Outcome] = []
        while True:
            done, left, lost = self._transaction(connection, jobs, deadline)
            if lost is None:
                return failed + done, left
            failed.append(lost)
            failed += [outcome for outcome in done if outcome.error is not None]
            gone = {outcome.job for outcome in failed}
            jobs = [job for job in jobs if job not in gone]

    def _transaction(
        self, connection: SqliteConnection, jobs: list[Job], deadline: float
    ) -> tuple[list[_Outcome], list[Job], _Outcome | None]:
        """One BEGIN ... COMMIT: outcomes, jobs not begun, and the job that took the transaction with it, if any."""
        done: list[_Outcome] = []
        left: list[Job] = []
        connection.execute("BEGIN IMMEDIATE")
        try:
            for position, job in enumerate(jobs):
                if done and time.monotonic() > deadline:
                    left = jobs[position:]
                    break
                outcome = self._one(connection, job)
                if not connection.in_transaction:
                    return done, [], outcome
                done.append(outcome)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        return done, left, None

    def _one(self, connection: SqliteConnection, job: Job) -> _Outcome:
        connection.execute("SAVEPOINT job")
        try:
            with self._lock:
                if job.killed:
                    raise SqliteInterrupted()
                self._running = job
            result = job.work(connection)
        except BaseException as error:
            self._finish()
            if connection.in_transaction:
                connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
            return _Outcome(job, error=error)
        self._finish()
        connection.execute("RELEASE job")
        return _Outcome(job, result)

    def _finish(self) -> None:
        with self._lock:
            self._running = None


def _settle(outcome: _Outcome) -> None:
    future = outcome.job.future
    if future.done():
        return
    if outcome.error is None:
        future.set_result(outcome.result)
    else:
        future.set_exception(outcome.error)

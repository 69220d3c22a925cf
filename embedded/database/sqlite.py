"""The embedded database: one SQLite file, used by one process.

WAL and synchronous=FULL: readers never wait for the writer, and a commit that was answered is on disk. Every write
passes the single-writer gate, so SQLite itself never reports a busy database. All calls run in threads.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from embedded.database.batch_writer import BatchWriter
from embedded.database.connection import SqlFunctions, SqliteConnection, SqliteWorker, set_spill_folder
from embedded.database.writer_gate import Job, WriterGate
from engine.backend.base import Settings
from engine.model.errors import BackendUnavailable

T = TypeVar("T")

_IDLE_WORKERS = 16  # idle reader threads, for reuse; more are opened on demand, one per statement in progress

_DICTIONARY = (
    "CREATE TABLE IF NOT EXISTS queuegate_meta_tables("
    "name TEXT PRIMARY KEY, comment TEXT NOT NULL, kind TEXT NOT NULL, definition TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS queuegate_meta_columns("
    "table_name TEXT NOT NULL, ordinal INTEGER NOT NULL, name TEXT NOT NULL, type INTEGER NOT NULL,"
    " charset INTEGER NOT NULL, length INTEGER NOT NULL, flags INTEGER NOT NULL, decimals INTEGER NOT NULL,"
    " PRIMARY KEY (table_name, ordinal)) WITHOUT ROWID",
)


class SqliteDatabase:
    """See the module. Create with `open`."""

    def __init__(self, path: str, lock: int, lock_wait_seconds: float, temporary: bool) -> None:
        self.path = path
        self.lock_wait_seconds = lock_wait_seconds
        self.shared: dict[str, Any] = {}
        """State of the database as a whole that this module does not use itself (catalog, plans)."""
        self.at_close: list[Callable[[], None]] = []
        """Called for that state when the database closes."""
        self._lock = lock
        self._temporary = temporary
        self._functions = SqlFunctions()
        self.contexts: Callable[[Settings], Any] = lambda settings: None
        """Creates the context of our functions for a session with these settings."""
        self._idle: list[SqliteWorker] = []
        self._busy: set[SqliteWorker] = set()
        self._writer = BatchWriter(SqliteWorker(path, "sqlite-writer"))
        self.gate = WriterGate(self._writer.begin)
        self._closed = False

    @classmethod
    async def open(cls, path: str, *, lock_wait_seconds: float = 5.0) -> SqliteDatabase:
        """Open or create the file. ':memory:' becomes a temporary file, deleted on close.

        Raises:
            BackendUnavailable: the file cannot be opened, or another process has it open.
        """
        temporary = path == ":memory:"
        if temporary:
            path = str(Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="queuegate-")) / "memory.db")
        lock = await asyncio.to_thread(_lock_file, path)
        await asyncio.to_thread(_make_private, path)
        set_spill_folder(path)
        database = cls(path, lock, lock_wait_seconds, temporary)
        try:
            await database.write(_create_dictionary)
        except BaseException:
            await database.close()
            raise
        return database

    def install(self, functions: SqlFunctions, contexts: Callable[[Settings], Any] = lambda settings: None) -> None:
        """Make these functions known to every connection from its next use on; see `contexts`."""
        self._functions, self.contexts = functions, contexts

    async def read(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run `work` on some connection, outside any transaction: each statement sees the latest commit."""
        worker = self.acquire_worker()
        try:
            return await self.run(worker, work)
        finally:
            self.release_worker(worker)

    async def write(self, work: Callable[[SqliteConnection], T], wait_seconds: float | None = None) -> T:
        """Run `work` as one transaction of its own, in turn; returns once it is durable.

        `work` may run twice, when a neighbour in the same commit is interrupted. Raises LockWaitTimeout.
        """
        result: T = await self.submit(self.job(work), wait_seconds)
        return result

    def job(self, work: Callable[[SqliteConnection], T]) -> Job:
        """A write that `submit` runs and `kill` can stop."""

        def run(connection: SqliteConnection) -> T:
            connection.install(self._functions)
            return work(connection)

        return Job(run, asyncio.get_running_loop().create_future())

    async def submit(self, job: Job, wait_seconds: float | None = None) -> Any:
        return await self.gate.submit(job, self.lock_wait_seconds if wait_seconds is None else wait_seconds)

    def kill(self, job: Job, error: Exception) -> None:
        """Stop a submitted job: with `error` while it waits, with 1317 once it runs."""
        if job.started:
            self._writer.kill(job)
        else:
            self.gate.refuse(job, error)

    def acquire_worker(self) -> SqliteWorker:
        """A worker for one task alone; `release_worker` it without an open transaction, or `discard` it."""
        if self._closed:
            raise BackendUnavailable("the database is closed")
        worker = self._idle.pop() if self._idle else SqliteWorker(self.path, "sqlite-reader")
        self._busy.add(worker)
        return worker

    async def run(self, worker: SqliteWorker, work: Callable[[SqliteConnection], T]) -> T:
        """Run `work` on an acquired worker."""

        def run(connection: SqliteConnection) -> T:
            connection.install(self._functions)
            return work(connection)

        return await worker.run(run)

    def release_worker(self, worker: SqliteWorker) -> None:
        self._busy.discard(worker)
        if self._closed or worker.is_heavy or len(self._idle) >= _IDLE_WORKERS:
            worker.stop()
        else:
            self._idle.append(worker)

    def discard(self, worker: SqliteWorker) -> None:
        """Close an acquired worker whose connection has state (temporary tables, a transaction)."""
        self._busy.discard(worker)
        worker.stop()

    async def close(self) -> None:
        """Fail waiting jobs, finish running writes, close every connection. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for close in self.at_close:
            close()
        await self.gate.close()
        for worker in [*self._idle, *self._busy]:
            worker.interrupt()
            await worker.close()
        await self._writer.worker.close()
        self._idle.clear()
        self._busy.clear()
        await asyncio.to_thread(self._remove_lock)

    def _remove_lock(self) -> None:
        if self._temporary:
            folder = Path(self.path).parent
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        os.close(self._lock)


def _create_dictionary(connection: SqliteConnection) -> None:
    for statement in _DICTIONARY:
        connection.execute(statement).close()


def _make_private(path: str) -> None:
    """A new file is its owner's alone, and SQLite gives the files next to it (-wal, -shm) the same mode. An existing
    file keeps its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return  # it exists, or cannot be created, which SQLite reports


def _lock_file(path: str) -> int:
    """Lock the file for this process. The kernel releases the lock with the process, so a crash leaves no stale one.
    A file has one lock, also where it is opened by a link."""
    try:
        descriptor = os.open(f"{os.path.realpath(path)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BackendUnavailable(f"cannot open the database file '{path}': {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise BackendUnavailable(
            f"the database file '{path}' is in use by another process; stop it, or use another file"
        ) from None
    return descriptor

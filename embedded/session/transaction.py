"""A session's transaction: when it has a connection, when it has the writer gate, and its savepoints.

Reads outside a write see the latest commit. The first write of a transaction takes the gate and begins IMMEDIATE, so
SQLite never finds at the end that the file is busy; the gate is free again at COMMIT or ROLLBACK.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from embedded.compile.compilation import quote
from embedded.compile.errors import SqlError
from embedded.database.connection import SqliteConnection, SqliteWorker
from embedded.database.sqlite import SqliteDatabase

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Transaction:
    """See the module. `lock_wait` is how long a write waits for the gate; it changes with SET."""

    database: SqliteDatabase
    lock_wait: Callable[[], float]
    autocommit: bool = True
    active: bool = False
    read_only: bool = False
    writing: bool = False
    table_locks: bool = False
    worker: SqliteWorker | None = None
    owns_tables: bool = False
    snapshot: bool = False
    foreign_keys: bool = True
    isolation: str = "READ-COMMITTED"
    level: str = "READ-COMMITTED"
    session_read_only: bool = False
    next: dict[str, Any] = field(default_factory=dict)
    savepoints: list[str] = field(default_factory=list)
    committing: bool = False
    writer_since: float = 0.0
    _unchecked: bool = False

    @property
    def holds_writer(self) -> bool:
        """Whether no other session can write until this ends."""
        return self.writing or self.table_locks

    def touch(self) -> None:
        """A statement that uses tables begins a transaction when autocommit is off."""
        if not self.autocommit and not self.active:
            self._start(read_only=False)

    async def before_read(self) -> None:
        """What the isolation level requires before a transaction reads: nothing, one snapshot, or no other writer."""
        self.touch()
        if not self.active or self.writing or self.snapshot:
            return
        if self.level == "REPEATABLE-READ":
            await self._begin_snapshot()
        elif self.level == "SERIALIZABLE":
            await (self._begin_snapshot() if self.read_only else self._begin_exclusive())

    async def begin(self, *, read_only: bool, snapshot: bool) -> None:
        """START TRANSACTION; an open one is committed first."""
        await self.commit()
        self._start(read_only)
        if snapshot:
            await self._begin_snapshot()

    def _start(self, read_only: bool) -> None:
        self.active = True
        self.read_only = read_only or bool(self.next.get("transaction_read_only", self.session_read_only))
        self.level = self.next.get("transaction_isolation", self.isolation)
        self.next.clear()

    async def _begin_exclusive(self) -> None:
        await self.begin_write()

    async def begin_write(self, seconds: float | None = None) -> SqliteWorker:
        """Take the gate, if this transaction does not hold it yet; returns the connection to write on.

        `seconds`: how long it may wait, where that is not the session's setting.

        Raises:
            LockWaitTimeout: the gate was not free in time; the transaction goes on without it.
        """
        if self.read_only:
            raise SqlError(1792, "Cannot execute statement in a READ ONLY transaction.")
        if self.writing:
            assert self.worker is not None
            return self.worker
        has_gate = self.table_locks
        if not has_gate:
            await self.database.gate.acquire(self.lock_wait() if seconds is None else seconds)
        try:
            worker = self._pin()
            await self.database.run(worker, self._open_write)
        except BaseException:
            if not has_gate:
                self.database.gate.release()
            if not self.snapshot:
                self._unpin()
            raise
        self.writing = True
        self.writer_since = time.monotonic() if not has_gate else self.writer_since
        return worker

    async def follow_checks(self) -> None:
        """SET foreign_key_checks takes effect at once, also where this transaction has written."""
        if self.writing and self._unchecked == self.foreign_keys:
            assert self.worker is not None
            await self.database.run(self.worker, self._open_checks)

    async def commit(self) -> None:
        """Make everything durable and release the gate."""
        worker = self.worker
        if worker is not None and (self.writing or self.active):
            self.committing = True
            try:
                await self.database.run(worker, self._commit)
            except BaseException:
                await self._run_rollback(worker)
                self._ended()
                raise
            finally:
                self.committing = False
        self._ended()

    async def rollback(self) -> None:
        """Undo everything since the transaction began."""
        if self.worker is not None:
            await self._run_rollback(self.worker)
        self._ended()

    async def lost(self) -> None:
        """SQLite itself has rolled the transaction back (an interrupt, a full disk)."""
        if self._unchecked and self.worker is not None:
            await self.database.run(self.worker, self._check_again)
        self._ended()

    async def savepoint(self, name: str) -> None:
        """SAVEPOINT; one of the same name is replaced."""
        key = name.lower()
        self.touch()
        if not self.active:
            return
        if self.worker is not None and self._has_transaction():
            await self.database.run(self.worker, _executing(f"SAVEPOINT {quote(key)}"))
        self.savepoints.append(key)

    async def rollback_to(self, name: str) -> None:
        """ROLLBACK TO: later savepoints are gone, this one stays."""
        position = self._find(name)
        if self.worker is not None and self._has_transaction():
            await self.database.run(self.worker, _executing(f"ROLLBACK TO {quote(name.lower())}"))
        del self.savepoints[position + 1 :]

    async def release(self, name: str) -> None:
        """RELEASE SAVEPOINT: this one and later ones are gone."""
        position = self._find(name)
        if self.worker is not None and self._has_transaction():
            await self.database.run(self.worker, _executing(f"RELEASE {quote(name.lower())}"))
        del self.savepoints[position:]

    async def lock_tables(self, *, write: bool) -> None:
        """LOCK TABLES: for writing, no other session may write until UNLOCK TABLES."""
        await self.commit()
        await self.unlock_tables()
        if write:
            await self.database.gate.acquire(self.lock_wait())
            self.table_locks = True
            self.writer_since = time.monotonic()

    async def unlock_tables(self) -> None:
        if self.table_locks:
            await self.commit()
            self.table_locks = False
            self.database.gate.release()

    def pin_for_temporary_tables(self) -> SqliteWorker:
        """Keep the connection until the session ends: it has this session's temporary tables."""
        self.owns_tables = True
        return self._pin()

    async def close(self) -> None:
        """Roll back, release the gate and the connection."""
        try:
            if self.worker is not None and (self.writing or self.active):
                await self._run_rollback(self.worker)
        finally:
            owned, self.owns_tables = self.owns_tables, False
            if owned and self.worker is not None:
                worker, self.worker = self.worker, None
                self.database.discard(worker)
            self._ended()
            if self.table_locks:
                self.table_locks = False
                self.database.gate.release()

    async def _begin_snapshot(self) -> None:
        worker = self._pin()
        try:
            await self.database.run(worker, self._open_snapshot)
        except BaseException:
            self._ended()
            raise
        self.snapshot = True

    async def _run_rollback(self, worker: SqliteWorker) -> None:
        await self.database.run(worker, self._rollback)

    def _rollback(self, connection: SqliteConnection) -> None:
        connection.rollback()
        self._check_again(connection)

    def _commit(self, connection: SqliteConnection) -> None:
        if connection.in_transaction:
            connection.execute("COMMIT").close()
        self._check_again(connection)

    def _check_again(self, connection: SqliteConnection) -> None:
        if self._unchecked:
            connection.check_foreign_keys(True)
            self._unchecked = False

    def _has_transaction(self) -> bool:
        """Whether SQLite has a transaction open: a savepoint outside one would begin one that no one ends."""
        return self.writing or self.snapshot

    def _find(self, name: str) -> int:
        key = name.lower()
        for position in range(len(self.savepoints) - 1, -1, -1):
            if self.savepoints[position] == key:
                return position
        raise SqlError(1305, f"SAVEPOINT {name} does not exist")

    def _open_write(self, connection: SqliteConnection) -> None:
        if self.snapshot:
            # A snapshot becomes a writer only if no other session has committed since: SQLite reports that at the first
            # write.
            connection.execute("UPDATE queuegate_meta_tables SET comment = comment WHERE 0").close()
            self._open_checks(connection)
            return
        self._open_checks(connection)
        connection.execute("BEGIN IMMEDIATE").close()
        for name in self.savepoints:
            connection.execute(f"SAVEPOINT {quote(name)}").close()

    def _open_checks(self, connection: SqliteConnection) -> None:
        """Check foreign keys as the session is set; `_unchecked`: the checks have to be turned on again at the end."""
        if self._unchecked == self.foreign_keys:
            connection.check_foreign_keys(self.foreign_keys)
            self._unchecked = not self.foreign_keys

    def _open_snapshot(self, connection: SqliteConnection) -> None:
        connection.execute("BEGIN").close()
        # The snapshot is taken by the first read.
        connection.fetch_all("SELECT 1 FROM queuegate_meta_tables LIMIT 1")
        for name in self.savepoints:
            connection.execute(f"SAVEPOINT {quote(name)}").close()

    def _pin(self) -> SqliteWorker:
        if self.worker is None:
            self.worker = self.database.acquire_worker()
        return self.worker

    def _unpin(self) -> None:
        if self.worker is not None and not self.owns_tables:
            worker, self.worker = self.worker, None
            self.database.release_worker(worker)

    def _ended(self) -> None:
        wrote, self.writing = self.writing, False
        self.active = self.read_only = self.snapshot = False
        self.savepoints.clear()
        self._unpin()
        if wrote and not self.table_locks:
            self.database.gate.release()


def _executing(sql: str) -> Callable[[SqliteConnection], None]:
    def run(connection: SqliteConnection) -> None:
        connection.execute(sql).close()

    return run

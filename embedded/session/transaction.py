"""A session's transaction: when it has a connection, when it has the writer gate, and its savepoints.

Reads outside a write see the latest commit. The first write of a transaction takes the gate and begins IMMEDIATE, so
SQLite never finds at the end that the file is busy; the gate is free again at COMMIT or ROLLBACK.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from embedded.compile.compilation import quote
from embedded.compile.errors import SqlError
from embedded.database.connection import SqliteConnection, SqliteWorker
from embedded.database.sqlite import SqliteDatabase
from engine.model.errors import BackendError

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class ConnectionSteps:
    """The steps of a transaction on its SQLite connection, in the thread of that. `savepoints`: their names, each once,
    the oldest first. `foreign_keys`: as the session is set; `unchecked`: the checks have to be turned on again at the
    end. `lost`: SQLite itself has rolled it back (an interrupt, a full disk), and nothing but its end is left."""

    foreign_keys: bool = True
    savepoints: list[str] = field(default_factory=list)
    unchecked: bool = False
    lost: bool = False

    def open_write(self, connection: SqliteConnection, *, snapshot: bool) -> None:
        """Begin to write, or go on to in a `snapshot` that has read."""
        if snapshot:
            # A snapshot becomes a writer only if no other session has committed since: SQLite reports that at the first
            # write.
            connection.execute("UPDATE queuegate_meta_tables SET comment = comment WHERE 0").close()
            self.open_checks(connection)
            return
        self.open_checks(connection)
        connection.execute("BEGIN IMMEDIATE").close()
        for name in self.savepoints:
            connection.execute(f"SAVEPOINT {quote(name)}").close()

    def open_checks(self, connection: SqliteConnection) -> None:
        """Check foreign keys as the session is set; `unchecked`: the checks have to be turned on again at the end."""
        if self.unchecked == self.foreign_keys:
            connection.check_foreign_keys(self.foreign_keys)
            self.unchecked = not self.foreign_keys

    def open_snapshot(self, connection: SqliteConnection) -> None:
        """Begin to read one state of the database."""
        connection.execute("BEGIN").close()
        # The snapshot is taken by the first read.
        connection.fetch_all("SELECT 1 FROM queuegate_meta_tables LIMIT 1")
        for name in self.savepoints:
            connection.execute(f"SAVEPOINT {quote(name)}").close()

    def commit(self, connection: SqliteConnection) -> None:
        """Make it durable."""
        if connection.in_transaction:
            connection.execute("COMMIT").close()
        self.check_again(connection)

    def rollback(self, connection: SqliteConnection) -> None:
        """Undo all of it."""
        connection.rollback()
        self.check_again(connection)

    def check_again(self, connection: SqliteConnection) -> None:
        """Foreign keys are checked from now on."""
        if self.unchecked:
            connection.check_foreign_keys(True)
            self.unchecked = False

    def position(self, name: str) -> int:
        """Where the savepoint of that name is. Raises SqlError, 1305."""
        if name.lower() not in self.savepoints:
            raise SqlError(1305, f"SAVEPOINT {name} does not exist")
        return self.savepoints.index(name.lower())


@dataclass(eq=False, slots=True)
class Characteristics:
    """Of the transactions to come: as the session is set, and `next`, what SET TRANSACTION says of the next one."""

    isolation: str = "READ-COMMITTED"
    read_only: bool = False
    next: dict[str, Any] = field(default_factory=dict)


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
    level: str = "READ-COMMITTED"
    committing: bool = False
    writer_since: float = 0.0
    steps: ConnectionSteps = field(default_factory=ConnectionSteps)
    settings: Characteristics = field(default_factory=Characteristics)

    @property
    def holds_writer(self) -> bool:
        """Whether no other session can write until this ends."""
        return self.writing or self.table_locks

    async def touch(self) -> None:
        """A statement that uses tables begins a transaction when autocommit is off.

        Raises:
            BackendError: 1213, the open one is lost: alone, the statement would be committed.
        """
        await self._refuse_lost()
        if not self.autocommit and not self.active:
            self._start(read_only=False)

    async def before_read(self) -> None:
        """What the isolation level requires before a transaction reads: nothing, one snapshot, or no other writer."""
        await self.touch()
        if not self.active or self.writing or self.snapshot:
            return
        if self.level == "REPEATABLE-READ":
            await self._begin_snapshot()
        elif self.level == "SERIALIZABLE":
            await (self._begin_snapshot() if self.read_only else self.begin_write())

    async def begin(self, *, read_only: bool, snapshot: bool) -> None:
        """START TRANSACTION; an open one is committed first."""
        await self.commit()
        self._start(read_only)
        if snapshot:
            await self._begin_snapshot()

    def _start(self, read_only: bool) -> None:
        self.active = True
        self.read_only = read_only or bool(self.settings.next.get("transaction_read_only", self.settings.read_only))
        self.level = self.settings.next.get("transaction_isolation", self.settings.isolation)
        self.settings.next.clear()

    async def begin_write(self, seconds: float | None = None) -> SqliteWorker:
        """Take the gate, if this transaction does not hold it yet; returns the connection to write on.

        `seconds`: how long it may wait, where that is not the session's setting.

        Raises:
            LockWaitTimeout: the gate was not free in time; the transaction goes on without it.
        """
        await self._refuse_lost()
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
            await self.database.run(worker, partial(self.steps.open_write, snapshot=self.snapshot))
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
        if self.writing and self.steps.unchecked == self.steps.foreign_keys:
            assert self.worker is not None
            await self.database.run(self.worker, self.steps.open_checks)

    async def commit(self) -> None:
        """Make everything durable and release the gate."""
        try:
            await self._refuse_lost()
        except BackendError:
            self._ended()
            raise
        worker = self.worker
        if worker is not None and (self.writing or self.active):
            self.committing = True
            try:
                await self.database.run(worker, self.steps.commit)
            except BaseException:
                await self.database.run(worker, self.steps.rollback)
                self._ended()
                raise
            finally:
                self.committing = False
        self._ended()

    async def rollback(self) -> None:
        """Undo everything since the transaction began."""
        if self.worker is not None:
            await self.database.run(self.worker, self.steps.rollback)
        self._ended()

    async def lost(self) -> None:
        """SQLite itself has rolled the transaction back (an interrupt, a full disk). One that was begun stays open, so
        that what follows in it is not committed alone."""
        if self.steps.unchecked and self.worker is not None:
            await self.database.run(self.worker, self.steps.check_again)
        begun = self.active
        self._ended()
        self.active = self.steps.lost = begun

    async def _refuse_lost(self) -> None:
        if self._has_transaction() and self.worker is not None and not self.worker.in_transaction:
            await self.lost()
        if self.steps.lost:
            text = "The transaction was rolled back when a statement in it was stopped; ROLLBACK, and begin it again"
            raise BackendError(text, 1213, "40001")

    async def savepoint(self, name: str) -> None:
        """SAVEPOINT; one of the same name is replaced. SQLite cannot remove one below others: it stays there, and the
        new one, which is found first, hides it."""
        key = name.lower()
        await self.touch()
        if not self.active:
            return
        savepoints = self.steps.savepoints
        if self.worker is not None and self._has_transaction():
            if savepoints[-1:] == [key]:
                await self.database.run(self.worker, _executing(f"RELEASE {quote(key)}"))
            await self.database.run(self.worker, _executing(f"SAVEPOINT {quote(key)}"))
        savepoints[:] = [one for one in savepoints if one != key] + [key]

    async def rollback_to(self, name: str) -> None:
        """ROLLBACK TO: later savepoints are gone, this one stays."""
        position = self.steps.position(name)
        if self.worker is not None and self._has_transaction():
            await self.database.run(self.worker, _executing(f"ROLLBACK TO {quote(name.lower())}"))
        del self.steps.savepoints[position + 1 :]

    async def release(self, name: str) -> None:
        """RELEASE SAVEPOINT: this one and later ones are gone."""
        position = self.steps.position(name)
        if self.worker is not None and self._has_transaction():
            await self.database.run(self.worker, _executing(f"RELEASE {quote(name.lower())}"))
        del self.steps.savepoints[position:]

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
                await self.database.run(self.worker, self.steps.rollback)
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
            await self.database.run(worker, self.steps.open_snapshot)
        except BaseException:
            self._ended()
            raise
        self.snapshot = True

    def _has_transaction(self) -> bool:
        """Whether SQLite has a transaction open: a savepoint outside one would begin one that no one ends."""
        return self.writing or self.snapshot

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
        self.active = self.read_only = self.snapshot = self.steps.lost = False
        self.steps.savepoints.clear()
        self._unpin()
        if wrote and not self.table_locks:
            self.database.gate.release()


def _executing(sql: str) -> Callable[[SqliteConnection], None]:
    def run(connection: SqliteConnection) -> None:
        connection.execute(sql).close()

    return run

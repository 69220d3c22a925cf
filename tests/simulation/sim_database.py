"""The simulated database: a real SQLite in memory under virtual time, with locks as MySQL has them, or SQLite's gate.

Every statement of the engine's store runs for real, in one piece, at the moment at which it reaches the database. A
client's transaction is kept until its COMMIT: from a statement on its rows are locked, nobody sees what it did, and its
own time is what the statement writes. With `row_locks` the engine passes over what is locked, as SKIP LOCKED does;
without, a transaction that writes has the database to itself and everybody else who writes waits in line.

After everything that may have changed the queue the observer gets the rows as they were and as they are.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from sim_faults import Trouble
from sim_loop import START, Timeline
from sim_template import Definition

from embedded.compile.functions.scalar import SCALARS
from embedded.database.connection import SqliteConnection
from embedded.database.store_pool import SqliteStoreConnection
from engine.backend.base import Answer, Settings, SqlValue, Statement
from engine.model.errors import BackendError, BackendUnavailable, CommitUnknown
from engine.model.keyspaces import NO_KEYSPACES, Keyspaces
from engine.model.queue import ColumnMeta, StartAt, TextValue, default_dead_letter
from engine.model.states import REJECTED_NS
from engine.store.statements.dialect import Dialect
from engine.store.statements.sqlite import SQLITE

T = TypeVar("T")

EPOCH_NS = 1_770_000_000 * 1_000_000_000
_LOCK_MARK = "/* skip locked */"
_AT_ONCE_MARK = "/* at once */"
_WAITS_MARK = "/* waits */"
_TEXT = re.compile(r"_utf8mb4 (X'[0-9a-f]*')")
_TABLE = re.compile(r"FROM `main`\.`(\w+)`")
_CHANGED = re.compile(r"(?:UPDATE|DELETE FROM) (?:`main`\.)?`?(\w+)")


@dataclass(frozen=True, slots=True)
class Row:
    """A message as it is in the table."""

    id: int
    epoch: int
    time_next: int | None
    time_acked: int | None
    priority: int
    key: str | None
    number: int | None
    token: int = 0


Rows = Mapping[int, Row]


def is_alive(row: Row) -> bool:
    """Neither acked nor rejected."""
    return row.time_acked is None and row.time_next != REJECTED_NS


class InTheWay(Exception):
    """What a transaction would lock is locked by one that is silent."""


class StoreView:
    """The StoreConnection of the engine's account. What a statement says of locks is done here."""

    def __init__(self, database: SimDatabase) -> None:
        self._database = database
        self._store = SqliteStoreConnection(database.connection)

    @property
    def replicates(self) -> bool:
        return False

    @property
    def exact_names(self) -> bool:
        return False

    @property
    def keyspaces(self) -> Keyspaces:
        return NO_KEYSPACES

    @property
    def without_waiting(self) -> str:
        return ""

    def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        return self._store.query(self._locking(sql), params)

    def query_text(
        self, sql: str, params: Sequence[SqlValue], columns: Sequence[ColumnMeta]
    ) -> list[tuple[TextValue, ...]]:
        return self._store.query_text(self._locking(sql), params, columns)

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        return self._store.execute(self._locking(sql), params)

    def run(self, statements: Sequence[Statement], *, last: bool = False, alone: bool = False) -> list[Answer]:
        for statement in statements:
            self._lock_at_once(statement)
        answers = self._store.run([replace(s, sql=self._locking(s.sql)) for s in statements], last=last)
        if last:
            self._database.end_early()
        return answers

    def reading(self, settings: Settings) -> AbstractContextManager[None]:
        return contextlib.nullcontext()  # the filters that are simulated read the same in any session

    def describe(self, database: str, table: str, names: Sequence[str] = ()) -> tuple[ColumnMeta, ...]:
        return self._store.describe(database, table)

    def _lock_at_once(self, statement: Statement) -> None:
        found = _TABLE.search(statement.sql) if statement.sql.endswith(_AT_ONCE_MARK) else None
        if found is not None and any((found[1], id_) in self._database.locks for id_ in statement.params):
            raise BackendError("the simulated row is locked", 3572)

    def _locking(self, sql: str) -> str:
        if sql.endswith(_WAITS_MARK) and (found := _TABLE.search(sql)) is not None:
            self._database.locks_all_of(found[1])
        if not self._database.locks or not sql.endswith(_LOCK_MARK):
            return sql
        return _TABLE.sub(r"FROM (SELECT * FROM `main`.`\1` WHERE NOT sim_locked('\1', id))", sql)


def _in_sqlite(sql: str) -> str:
    """A client's statement, whose texts are written for MySQL."""
    return _TEXT.sub(r"CAST(\1 AS TEXT)", sql)


def _last_parts(text: str | None, separator: str, count: int) -> str | None:
    """MySQL's SUBSTRING_INDEX from the end."""
    assert count < 0, "only what follows a separator is asked for"
    return None if text is None else separator.join(text.split(separator)[count:])


def _utc_text(now_ns: int) -> str:
    """As MySQL shows UTC_TIMESTAMP(6)."""
    seconds, rest = divmod(now_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d}"


def _target(sql: str) -> str:
    """The table that a client's statement changes."""
    found = _CHANGED.match(sql)
    return "" if found is None else found[1]


@dataclass(eq=False, slots=True)
class _InLine:
    attempt: Callable[[], bool]
    expired: Callable[[], None]
    over: bool = False


class SimDatabase:
    """See the module."""

    view_type = StoreView

    def __init__(
        self, timeline: Timeline, template: bytes, comments: Mapping[str, str], *, row_locks: bool, tick_ns: int
    ) -> None:
        self._timeline, self._tick_ns = timeline, tick_ns
        self.row_locks = row_locks
        self.locks: dict[tuple[str, int], ClientTransaction] = {}
        self.gate: ClientTransaction | None = None
        self.silent: list[SilentTransaction] = []
        self._locking: set[str] | None = None
        self.observer: Callable[[str, str, Rows, Rows], None] = lambda table, actor, before, after: None
        self._line: list[_InLine] = []
        self._statement_ns: int | None = None
        self._trouble = Trouble.NONE
        self.committed = False
        self.next_id = 1
        raw = sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)
        raw.deserialize(template)
        raw.create_function("sim_now", 0, self._now_in_sql)
        raw.create_function("LEAST", 2, min, deterministic=True)
        raw.create_function("GREATEST", 2, max, deterministic=True)
        raw.create_function("IF", 3, lambda condition, yes, no: yes if condition else no, deterministic=True)
        raw.create_function("CONCAT", -1, lambda *parts: "".join(map(str, parts)), deterministic=True)
        raw.create_function("CHAR_LENGTH", 1, lambda text: None if text is None else len(text), deterministic=True)
        raw.create_function("SUBSTRING_INDEX", 3, _last_parts, deterministic=True)
        raw.create_function("UTC_TIMESTAMP", 1, lambda digits: _utc_text(self._now_in_sql()))
        raw.create_function("CRC32", 1, lambda text: zlib.crc32(text.encode()), deterministic=True)
        for name, arity in (("qg_md5", 1), ("qg_conv", 3)):
            raw.create_function(name, arity, partial(SCALARS[name].function, None), deterministic=True)
        raw.create_function("sim_locked", 2, lambda table, id_: (table, id_) in self.locks)
        self._raw = raw
        for table, comment in comments.items():
            self.set_comment(comment, table)
        self.connection = SqliteConnection(":memory:", raw)
        self._view = self.view_type(self)
        self._changes = raw.total_changes
        self.tables: dict[str, Rows] = {table: {} for table in comments}

    @property
    def dialect(self) -> Dialect:
        if not self.row_locks:
            return replace(SQLITE, now_ns="sim_now()")
        return replace(SQLITE, now_ns="sim_now()", skip_locked=_LOCK_MARK, lock=_WAITS_MARK, lock_at_once=_AT_ONCE_MARK)

    @property
    def rows(self) -> Rows:
        """Of the queue, where there is only one."""
        return self.tables["q"]

    def transaction(self, name: str) -> ClientTransaction:
        """Of a new connection of a client's."""
        return ClientTransaction(self, name)

    def now_ns(self) -> int:
        elapsed = int((self._timeline.now - START) * 1_000_000) * 1000
        return EPOCH_NS + elapsed - elapsed % self._tick_ns

    def _now_in_sql(self) -> int:
        return self.now_ns() if self._statement_ns is None else self._statement_ns

    def moves(self, table: str, start: StartAt) -> None:
        """The transaction that is under way moves a consumer group."""

    def close(self) -> None:
        self._raw.close()

    def set_comment(self, comment: str, table: str) -> None:
        """A queue's options change."""
        self._raw.execute("UPDATE queuegate_meta_tables SET comment = ? WHERE name = ?", (comment, table))

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return bool(self._raw.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall())

    def dead(self, table: str) -> set[int]:
        """The ids of all dead letters of a queue."""
        dead = default_dead_letter(table)
        return {row[0] for row in self._raw.execute(f"SELECT id FROM main.{dead}")} if self.has(dead) else set()

    def define(self, made: Definition) -> None:
        """A table is made, unless it is there."""
        for sql in made.statements:
            with contextlib.suppress(sqlite3.OperationalError):
                self._raw.execute(sql)
        for table, row in made.rows:
            self._raw.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    # --- the engine's account

    def read(self, work: Callable[[Any], T]) -> T:
        return work(self._view)

    def write(self, actor: str, work: Callable[[Any], T], trouble: Trouble = Trouble.NONE) -> T:
        """Run as one transaction. With trouble the connection is lost with the commit, which is done or not; where the
        commit travels with the last statements, these fail."""
        self._raw.execute("BEGIN")
        self._trouble, self.committed = trouble, False
        try:
            result = work(self._view)
            if trouble is Trouble.NONE:
                self._raw.execute("COMMIT")
                self.committed = True
            else:
                self._lose_commit(result)
        except BaseException:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
            raise
        finally:
            self._trouble = Trouble.NONE
            self.observe(actor)
        return result

    def fall_silent(self, work: Callable[[Any], object]) -> SilentTransaction:
        """Begin a transaction of the engine's account that is not gone on with: what it did is not seen, and what it
        has locked stays so until it is ended. Raises BackendError where it does not come so far."""
        self._raw.execute("BEGIN")
        self._locking = set()
        try:
            work(self._view)
            changed = {(table, id_) for table in self.tables for id_ in self._changed_in(table)}
            self.silent.append(SilentTransaction(self, ClientTransaction(self, "silent"), self._locking))
        finally:
            self._locking = None
            self._raw.execute("ROLLBACK")
            self._changes = self._raw.total_changes
        self.silent[-1].rows.hold(changed)
        return self.silent[-1]

    def _changed_in(self, table: str) -> list[int]:
        before, after = self.tables[table], self._rows_of(table)
        return [id_ for id_ in before.keys() | after.keys() if before.get(id_) != after.get(id_)]

    def locks_all_of(self, table: str) -> None:
        """A transaction of the engine's account locks what others of its kind lock there, too."""
        if self._locking is not None:
            self._locking.add(table)
        if any(table in one.tables for one in self.silent):
            raise InTheWay

    def _lose_commit(self, result: object) -> None:
        try:
            self.end_early()
        except BackendUnavailable as error:
            raise CommitUnknown(error, result) from error

    def end_early(self) -> None:
        """The transaction's commit, if that is where its connection is lost."""
        if self._trouble is not Trouble.NONE:
            self.committed = self._trouble is Trouble.FORGOTTEN
            self._raw.execute("COMMIT" if self.committed else "ROLLBACK")
            raise BackendUnavailable(f"the simulated connection is {self._trouble.value}")

    def observe(self, actor: str) -> None:
        """Tell the observer what has changed, if anything."""
        if self._raw.total_changes != self._changes:
            self._changes = self._raw.total_changes
            for table, before in self.tables.items():
                self._see(table, actor, before)

    def _see(self, table: str, actor: str, before: Rows) -> None:
        after = self.tables[table] = self._rows_of(table)
        if before != after:
            self.observer(table, actor, before, after)

    def _rows_of(self, table: str) -> Rows:
        sql = f"SELECT id, COALESCE(epoch, 0), time_next, time_acked, priority, k, n, lease_token FROM main.{table}"
        return {row[0]: Row(*row) for row in self._raw.execute(sql)}

    # --- waiting in line

    def when_free(self, attempt: Callable[[], bool], expired: Callable[[], None], wait_seconds: float) -> None:
        """Try now, and whenever locks are freed, until the attempt returns True or the time is over."""
        if attempt():
            return
        entry = _InLine(attempt, expired)
        self._line.append(entry)
        self._timeline.after(wait_seconds, lambda: self._expire(entry))

    def _expire(self, entry: _InLine) -> None:
        if not entry.over:
            entry.over = True
            self._line.remove(entry)
            entry.expired()

    def freed(self) -> None:
        """Locks were given back: whoever waits may try again, first come first."""
        for entry in list(self._line):
            if entry.over:
                continue
            entry.over = True  # its attempt may free locks in its turn
            if entry.attempt():
                self._line.remove(entry)
            else:
                entry.over = False

    def select(self, sql: str) -> list[tuple[Any, ...]]:
        return self._raw.execute(_in_sqlite(sql)).fetchall()

    def run_at(self, sql: str, now_ns: int) -> int:
        """A client's statement with the time at which it was made; returns the rows it changed."""
        self._statement_ns = now_ns
        try:
            return max(self._raw.execute(_in_sqlite(sql)).rowcount, 0)
        finally:
            self._statement_ns = None


@dataclass(eq=False)
class ClientTransaction:
    """What one client's connection has open. `targets` of a statement: the condition on the rows that it changes."""

    database: SimDatabase
    name: str
    open: bool = False
    closed: bool = False
    affected: int = 0
    """The rows that the last statement of its own changed, or the last commit."""
    _locked: set[tuple[str, int]] = field(default_factory=set)
    _done: list[tuple[str, int]] = field(default_factory=list)

    def try_statement(self, sql: str, targets: str | None, done: Callable[[BackendError | None], None]) -> bool:
        """Do it, in the open transaction or as one of its own, and say when it is `done`; False where it has to wait
        for somebody else's."""
        if not self._can(sql, targets):
            return False
        table = _target(sql)
        if targets is not None and self.database.row_locks:
            ids = ", ".join(str(id_) for name, id_ in sorted(self._locked) if name == table)
            sql = f"{sql} AND id IN ({ids or 'NULL'})"
        self._done.append((sql, self.database.now_ns()))
        if not self.open:
            self.affected = self.commit()
        done(None)
        return True

    def _can(self, sql: str, targets: str | None) -> bool:
        """Whether nobody is in the way, and if so from now on everybody else's way is barred."""
        database = self.database
        if not database.row_locks:
            if database.gate not in (None, self):
                return False
            database.gate = self
            return True
        return targets is None or self._lock(_target(sql), targets)

    def _lock(self, table: str, targets: str) -> bool:
        rows = {(table, row[0]) for row in self.database.select(f"SELECT id FROM main.{table} WHERE {targets}")}
        if any(self.database.locks.get(row, self) is not self for row in rows):
            return False
        self.database.locks.update(dict.fromkeys(rows, self))
        self._locked |= rows
        return True

    def hold(self, rows: set[tuple[str, int]]) -> None:
        """Lock those of these that nobody has locked."""
        self._locked |= rows - self.database.locks.keys()
        self.database.locks.update(dict.fromkeys(self._locked, self))

    def commit(self) -> int:
        """What was done is there for all, from now on; returns the rows changed."""
        database = self.database
        affected = 0
        database._raw.execute("BEGIN")
        for sql, now_ns in self._done:
            affected += database.run_at(sql, now_ns)
        database._raw.execute("COMMIT")
        database.observe(self.name)
        self.rollback()
        return affected

    def close(self) -> None:
        """Its connection is gone: nothing can be done on it any more, and nothing that was begun holds."""
        self.closed = True
        self.rollback()

    def rollback(self) -> None:
        """Forget what was done, and free what was locked."""
        self._done.clear()
        self.open = False
        for row in self._locked:
            del self.database.locks[row]
        self._locked.clear()
        if self.database.gate is self:
            self.database.gate = None
        self.database.freed()


@dataclass(eq=False, slots=True)
class SilentTransaction:
    """A transaction of the engine's account of which its server hears nothing more. `tables`: of which it holds the row
    that all of its kind lock."""

    database: SimDatabase
    rows: ClientTransaction
    tables: set[str]
    over: bool = False

    def end(self) -> None:
        """The server rolls it back."""
        if not self.over:
            self.over = True
            self.database.silent.remove(self)
            self.rows.rollback()

"""One sqlite3 connection and the thread it lives in. No other module calls sqlite3 to run SQL.

A worker is used by one task at a time. A task that is cancelled interrupts its statement and waits until the thread is
free, so a released worker is always idle.
"""

from __future__ import annotations

import _sqlite3
import asyncio
import contextlib
import ctypes
import os
import queue
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from embedded.database.errors import SqliteInterrupted, translate
from embedded.database.task_thread import Tasks, run_tasks
from engine.backend.base import SqlValue
from engine.model.errors import BackendError, BackendUnavailable

T = TypeVar("T")

_OLDEST = (3, 39, 0)  # the first with RIGHT JOIN, and HAVING without GROUP BY
_BUSY_MS = 5000  # only recovery and checkpoints can make us wait: writers queue before they reach SQLite
LIKE_MAX = 1024  # bytes of a LIKE pattern: SQLite compares each with each character, and cannot be interrupted in it
ROW_MAX = 128 << 20  # bytes of a value, and of a row as it is stored: two of the largest packet
_STATEMENT_CACHE = (
    128  # prepared statements cached per connection; SQLite takes about 20 bytes for each of their characters
)
_LONG_TEXT = 2000  # characters; the memory of statements of this length is counted, see `is_heavy`
_LONG_TEXTS_MAX = 100_000  # characters of all long statements that a connection has prepared: 2 MB
_PAGE_CACHE_KB = 2048  # per connection, of up to 17 idle ones; the kernel caches the file's pages, too
_JOURNAL_LIMIT = 64 * 1024 * 1024  # bytes the WAL file is cut back to after a checkpoint

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SqlFunctions:
    """Functions that statements may call. Each receives the connection's `context` first."""

    scalars: tuple[tuple[str, int, Callable[..., Any], bool], ...] = ()
    aggregates: tuple[tuple[str, int, Callable[[], Any]], ...] = ()


@dataclass(slots=True)
class SqliteConnection:
    """A connection in autocommit mode. `context` is what the installed functions need; set per statement."""

    path: str
    raw: sqlite3.Connection
    context: Any = None
    """The first argument of the functions of the running statement; `killed`: it has to end."""
    installed: SqlFunctions | None = None
    _fault: list[Exception] = field(default_factory=list)
    _long_texts: set[str] = field(default_factory=set)
    _long_characters: int = 0

    @classmethod
    def open(cls, path: str) -> SqliteConnection:
        if sqlite3.sqlite_version_info < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise BackendUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; this needs {oldest} or newer")
        try:
            raw = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENT_CACHE
            )
            raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, ROW_MAX)
            raw.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LIKE_MAX)
            for pragma in _PRAGMAS:
                raw.execute(f"PRAGMA {pragma}").close()
        except sqlite3.Error as error:
            raise BackendUnavailable(f"cannot open the database file '{path}': {error}") from error
        return cls(path, raw)

    @property
    def in_transaction(self) -> bool:
        return self.raw.in_transaction

    @property
    def is_heavy(self) -> bool:
        """Whether its prepared statements take much memory. sqlite3 limits only their number, and cannot drop one: such
        a connection is closed when it is released.
        """
        return self._long_characters > _LONG_TEXTS_MAX

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        """Run one statement; the cursor is for rows, rowcount and lastrowid only."""
        self._count(sql)
        try:
            return self.raw.execute(sql, params)
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise self._translated(error) from error

    def execute_many(self, sql: str, rows: Iterable[Sequence[SqlValue]]) -> sqlite3.Cursor:
        """Run one statement once per row; stops at the first row that fails."""
        self._count(sql)
        try:
            return self.raw.executemany(sql, rows)
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise self._translated(error) from error

    def rows(self, cursor: sqlite3.Cursor) -> Iterator[Row]:
        """The remaining rows, each computed when it is fetched."""
        try:
            # `yield from` would close the cursor of a caller that stops early.
            while (row := next(cursor, None)) is not None:
                yield row
        except (sqlite3.Error, OverflowError) as error:
            raise self._translated(error) from error

    def fetch_all(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        self._count(sql)
        try:
            return self.raw.execute(sql, params).fetchall()
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise self._translated(error) from error

    def interrupt(self) -> None:
        """Make the running statement fail with 1317; callable from any thread, without effect when idle."""
        stop = getattr(self.context, "kill", None)
        if stop is not None:
            stop()  # our long-running functions check it
        # ProgrammingError: the connection was closed since, so nothing runs.
        with contextlib.suppress(sqlite3.ProgrammingError):
            self.raw.interrupt()

    def rollback(self) -> None:
        """Roll back if a transaction is open."""
        if self.raw.in_transaction:
            self.execute("ROLLBACK")

    def check_foreign_keys(self, on: bool) -> None:
        """Obey foreign keys from the next statement on, or not, also inside a transaction."""
        if not switch_foreign_keys(self.raw, on):
            text = "foreign_key_checks cannot change in a transaction that has written, with this Python: SET it before"
            raise BackendError(text, 1235, "42000")

    def install(self, functions: SqlFunctions) -> None:
        """Make `functions` callable from SQL; an error they raise reaches the caller unchanged."""
        if self.context is not None and self.context.killed:
            self.context = None  # of a statement that is over
        if self.installed is functions:
            return
        for name, arity, call, deterministic in functions.scalars:
            self.raw.create_function(name, arity, self._guarded(call), deterministic=deterministic)
        for name, arity, make in functions.aggregates:
            if hasattr(make, "inverse"):
                window: Callable[[], Any] = partial(_WindowAggregate, make, self)
                self.raw.create_window_function(name, arity, window)
            else:
                self.raw.create_aggregate(name, arity, partial(_Aggregate, make, self))
        self.installed = functions

    def close(self) -> None:
        self.raw.close()

    def _count(self, sql: str) -> None:
        if len(sql) >= _LONG_TEXT and not self.is_heavy and sql not in self._long_texts:
            self._long_texts.add(sql)
            self._long_characters += len(sql)

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any) -> Any:
            context = self.context
            try:
                if context is not None and context.killed:
                    raise SqliteInterrupted()  # SQLite itself checks only between two rows
                return call(context, *args)
            except Exception as error:
                self._fault.append(error)
                raise

        return guarded

    def _translated(self, error: Exception) -> BackendError:
        faults = list(self._fault)
        self._fault.clear()  # the same list: aggregates have it
        if faults:
            return _function_error(faults[0])
        if isinstance(error, OverflowError):
            return BackendError("BIGINT value is out of range", 1690, "22003")
        return translate(error if isinstance(error, sqlite3.Error) else sqlite3.OperationalError(str(error)))


class _Aggregate:
    """One of our aggregates; what it raises reaches the caller unchanged. If it has a `context`, it is the
    statement's."""

    __slots__ = ("_aggregate", "_fault")

    def __init__(self, make: Callable[[], Any], connection: SqliteConnection) -> None:
        self._aggregate, self._fault = make(), connection._fault
        if hasattr(self._aggregate, "context"):
            self._aggregate.context = connection.context

    def step(self, *args: Any) -> None:
        self._call(self._aggregate.step, *args)

    def finalize(self) -> Any:
        return self._call(self._aggregate.finalize)

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            self._fault.append(error)
            raise


class _WindowAggregate(_Aggregate):
    """One from which rows can be removed again, as window functions need it."""

    __slots__ = ()

    def inverse(self, *args: Any) -> None:
        self._call(self._aggregate.inverse, *args)

    def value(self) -> Any:
        return self._call(self._aggregate.value)


def _function_error(error: Exception) -> BackendError:
    """The error that one of our functions raised, with its MySQL number and text, where it has them."""
    if isinstance(error, BackendError):
        return error
    errno, sqlstate = getattr(error, "errno", 1105), getattr(error, "sqlstate", "HY000")
    return BackendError(str(getattr(error, "message", error)), errno, sqlstate)


_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    f"busy_timeout={_BUSY_MS}",
    f"cache_size=-{_PAGE_CACHE_KB}",
    f"journal_size_limit={_JOURNAL_LIMIT}",
    "recursive_triggers=OFF",
    "temp_store=FILE",  # only what is too large for the page cache: a sort in memory has no bound
)


def set_spill_folder(path: str) -> None:
    """Sorts and temporary tables that do not fit into memory are written to files in the folder of the database file,
    which exists, is writable and as large as the data; SQLite's own choice, /var/tmp or /tmp, may not be. SQLite
    deletes a file as soon as it is open, so a crash leaves none. SQLITE_TMPDIR, where it is set, has precedence.

    The folder applies to the whole process and is set once, before it is used: SQLite does not lock it.
    """
    if "SQLITE_TMPDIR" in os.environ:
        return
    folder = str(Path(path).absolute().parent).replace("'", "''")
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(":memory:")) as raw:
        if raw.execute("PRAGMA temp_store_directory").fetchone() is None:
            raw.execute(f"PRAGMA temp_store_directory = '{folder}'")


class SqliteWorker:
    """A thread with one connection, which never leaves it."""

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._tasks: Tasks = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._connection: SqliteConnection | None = None
        self._thread.start()

    async def run(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run `work` in the thread. When cancelled, it interrupts the statement and waits for the thread."""
        future = self.submit(work)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                await self._abandon()
            raise

    def submit(self, work: Callable[[SqliteConnection], T]) -> asyncio.Future[T]:
        """As `run`, for whoever does not wait here: cancelling the future does not stop the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._tasks.put((work, future, loop))
        return future

    def interrupt(self) -> None:
        """Make the running statement fail with 1317."""
        if self._connection is not None:
            self._connection.interrupt()

    @property
    def is_heavy(self) -> bool:
        """Whether its connection uses much memory; see `SqliteConnection.is_heavy`."""
        return self._connection is not None and self._connection.is_heavy

    @property
    def in_transaction(self) -> bool:
        """Whether its connection, which rests, has a transaction open."""
        return self._connection is not None and self._connection.in_transaction

    def successor(self) -> SqliteWorker:
        """Another worker of the same file, in place of this one, which is stopped."""
        self.stop()
        return SqliteWorker(self._path, self._thread.name)

    async def close(self) -> None:
        """Close the connection (an open transaction is rolled back) and end the thread."""
        self._tasks.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def stop(self) -> None:
        """Like `close`, without waiting."""
        self._tasks.put(None)

    async def _abandon(self) -> None:
        """Stop the work that no one waits for any more, and wait until the thread has come to what follows it."""
        free = self.submit(_is_free)
        while not free.done():
            self.interrupt()
            # Work may be between two statements, where an interrupt is lost: repeat until the thread is free.
            await asyncio.wait([free], timeout=0.05)

    def _run(self) -> None:
        run_tasks(self._tasks, self._call)
        if self._connection is not None:
            self._connection.close()

    def _call(self, work: Callable[[SqliteConnection], T]) -> T:
        if self._connection is None:
            self._connection = SqliteConnection.open(self._path)
        return work(self._connection)


def _is_free(connection: SqliteConnection) -> bool:
    return not connection.in_transaction


# Turning SQLite's foreign keys on and off inside a transaction, where its PRAGMA has no effect.
#
# SQLite's C interface does it at any moment (`SQLITE_DBCONFIG_ENABLE_FKEY`). It is sound here, because all our
# foreign keys are immediate: nothing is counted from one statement to the next. Python offers that call from 3.12 on;
# on 3.11 it is reached through ctypes.

ENABLE_FKEY = 1002  # SQLITE_DBCONFIG_ENABLE_FKEY


def switch_foreign_keys(raw: sqlite3.Connection, on: bool) -> bool:
    """Enforce foreign keys, or not, from the next statement on. False: this Python cannot do it."""
    if sys.version_info >= (3, 12):
        raw.setconfig(ENABLE_FKEY, on)
    elif sys.implementation.name == "cpython" and sys.platform == "linux":
        _config(raw, on)
    (state,) = raw.execute("PRAGMA foreign_keys").fetchone()
    return bool(state) == on


def _config(raw: sqlite3.Connection, on: bool) -> None:
    """`sqlite3_db_config` of the very library that Python's module uses; nothing is done where that has none."""
    # In CPython 3.11 the handle is the first field of the connection object, after the object's own head.
    handle = ctypes.c_void_p.from_address(id(raw) + object.__basicsize__)
    # A module that is built in has no file: its library is in the process itself, or cannot be reached.
    with contextlib.suppress(AttributeError, OSError):
        call = ctypes.CDLL(getattr(_sqlite3, "__file__", None)).sqlite3_db_config
        call(handle, ctypes.c_int(ENABLE_FKEY), ctypes.c_int(on), ctypes.c_void_p(None))

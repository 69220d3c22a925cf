"""What all sessions of one embedded database share: its schema, the plans, the global variables."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import lru_cache
from typing import Any, TypeVar

from embedded.compile.functions.aggregates import AGGREGATES
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.dates import time_zone
from embedded.compile.functions.locks import NamedLocks
from embedded.compile.functions.registry import scalars
from embedded.compile.schema import Schema, Table, from_json
from embedded.compile.statement import PlanCache
from embedded.database.connection import SqlFunctions, SqliteConnection
from embedded.database.sqlite import SqliteDatabase
from embedded.database.task_thread import Tasks, run_tasks
from embedded.schema.alter_table import old_keys
from embedded.session.information_schema import ColumnTexts
from engine.backend.base import Settings
from engine.model.errors import BackendUnavailable

_KEY = "embedded"
_TABLES = "SELECT comment, definition FROM queuegate_meta_tables ORDER BY name"
FUNCTIONS = SqlFunctions(scalars(), AGGREGATES)


T = TypeVar("T")

PARSER_THREADS = 2


@dataclass(eq=False, slots=True)
class ParserThreads:
    """Threads that parse long statements, so that the event loop handles other clients at the same time.

    Two for each open database: a client that sends many such statements delays only others that send them. The
    threads end when the database closes; they are daemons, because parsing a statement cannot be interrupted, and
    must not delay the end of the process.

    The threads start with the first statement that needs them.
    """

    _tasks: Tasks = field(default_factory=queue.SimpleQueue)
    _threads: list[threading.Thread] = field(default_factory=list)
    _closed: bool = False

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in one of the threads; not where its caller has been cancelled before it begins.

        Raises:
            BackendUnavailable: the database is closed.
        """
        if self._closed:
            raise BackendUnavailable("the database is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if len(self._threads) < PARSER_THREADS:
            thread = threading.Thread(target=run_tasks, args=(self._tasks, _call), name="statement-reader", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put((lambda: None if future.cancelled() else work(), future, loop))
        return await future

    def close(self) -> None:
        """End the threads once their tasks are done, without waiting for that. May be called twice."""
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)


def _call(work: Callable[[], T]) -> T:
    return work()


@dataclass(eq=False, slots=True)
class Shared:
    """See the module. Get it with `of`; `schema` is empty until `load` has run once."""

    database: SqliteDatabase
    schema: Schema = field(default_factory=Schema)
    plans: PlanCache = field(default_factory=PlanCache)
    global_variables: dict[str, Any] = field(default_factory=dict)
    locks: NamedLocks = field(default_factory=NamedLocks)
    parsers: ParserThreads = field(default_factory=ParserThreads)
    column_texts: ColumnTexts = field(default_factory=ColumnTexts)
    loaded: bool = False
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, database: SqliteDatabase) -> Shared:
        """The database's one Shared; our functions are installed with it."""
        shared = database.shared.get(_KEY)
        if not isinstance(shared, Shared):
            database.install(FUNCTIONS, _context)
            shared = database.shared[_KEY] = cls(database)
            database.at_close.append(shared.parsers.close)
        return shared

    async def load(self) -> None:
        """Read the schema, once."""
        if not self.loaded:
            tables = await self.database.read(read_tables)
            statements = await self.database.read(lambda connection: old_keys(connection, tables.values()))
            if statements:
                await self.database.write(lambda connection: _run(connection, statements))
            if not self.loaded:
                self.adopt(tables)

    def adopt(self, tables: dict[str, Table]) -> None:
        """A new schema, read after a change to it."""
        self.schema = Schema(self.schema.version + 1, tables)
        self.loaded = True


def _run(connection: SqliteConnection, statements: list[str]) -> None:
    for sql in statements:
        connection.execute(sql).close()


def _context(settings: Settings) -> CallContext:
    """For a condition that the engine reads as a session would."""
    zone = time_zone(dict(settings).get("time_zone", "+00:00"))
    return CallContext(UTC if zone is None else zone)


def read_tables(connection: SqliteConnection) -> dict[str, Table]:
    """Every table in the data dictionary. The comment is stored next to the definition, where the engine reads it."""
    tables = (_table(comment, text) for comment, text in connection.fetch_all(_TABLES))
    return {table.name: table for table in tables}


@lru_cache(maxsize=10_000)
def _table(comment: str, text: str) -> Table:
    """Of one definition; a change to one table must not read all others again."""
    return replace(from_json(text), comment=comment)

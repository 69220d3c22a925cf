"""The engine's connections to the embedded database, and its pool.

Statements are SQLite's own dialect. Column metadata comes from the data dictionary that CREATE TABLE fills, so the
engine needs no knowledge of how MySQL types are declared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from embedded.database.connection import SqliteConnection
from embedded.database.sqlite import SqliteDatabase
from embedded.database.text_form import text_encoder
from engine.backend.base import Answer, Settings, SqlValue, Statement, StoreConnection
from engine.model.keyspaces import NO_KEYSPACES, Keyspaces
from engine.model.queue import ColumnMeta, TextValue

R = TypeVar("R")
T = TypeVar("T")

DATABASE = "main"
"""The embedded backend's only database."""

_DESCRIBE = (
    "SELECT name, type, charset, length, flags, decimals FROM queuegate_meta_columns"
    " WHERE table_name = ? ORDER BY ordinal"
)


@dataclass(frozen=True, slots=True)
class SqliteStoreConnection:
    """StoreConnection over sqlite3. `contexts` makes what functions in a condition know of their session."""

    connection: SqliteConnection
    contexts: Callable[[Settings], Any] = lambda settings: None

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
        return ""  # a writing transaction is alone

    def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        return self.connection.fetch_all(sql, params)

    def query_text(
        self, sql: str, params: Sequence[SqlValue], columns: Sequence[ColumnMeta]
    ) -> list[tuple[TextValue, ...]]:
        encoders = [text_encoder(column) for column in columns]
        rows = self.connection.fetch_all(sql, params)
        return [
            tuple(None if value is None else encode(value) for encode, value in zip(encoders, row, strict=True))
            for row in rows
        ]

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        cursor = self.connection.execute(sql, params)
        try:
            return max(cursor.rowcount, 0)
        finally:
            cursor.close()

    def run(self, statements: Sequence[Statement], *, last: bool = False, alone: bool = False) -> list[Answer]:
        # There are no round trips to save, and the writer commits many transactions at once.
        return [self._answer(statement) for statement in statements]

    @contextlib.contextmanager
    def reading(self, settings: Settings) -> Iterator[None]:
        self.connection.context = self.contexts(settings)
        yield

    def _answer(self, statement: Statement) -> Answer:
        if statement.columns:
            return Answer(self.query_text(statement.sql, statement.params, statement.columns), 0)
        return Answer([], self.execute(statement.sql, statement.params))

    def describe(self, database: str, table: str, names: Sequence[str] = ()) -> tuple[ColumnMeta, ...]:
        assert not names, "there are no others"
        if database != DATABASE:
            return ()
        rows = self.connection.fetch_all(_DESCRIBE, (table,))
        return tuple(
            ColumnMeta(name, code, charset, length, flags, decimals, name, table, table, DATABASE)
            for name, code, charset, length, flags, decimals in rows
        )


@dataclass(frozen=True, slots=True)
class SqliteStorePool:
    """StorePool over the database: reads side by side, writes through the single-writer gate in their turn."""

    database: SqliteDatabase

    @property
    def replicates(self) -> bool:
        return False

    @property
    def without_waiting(self) -> str:
        return ""

    async def write_alone(self, statements: Sequence[Statement]) -> list[Answer]:
        return await self.write(lambda connection: connection.run(statements, last=True, alone=True))

    async def ask(self, statements: Sequence[Statement]) -> list[Answer]:
        return await self.read(lambda connection: connection.run(statements))

    async def read(self, work: Callable[[StoreConnection], T]) -> T:
        return await self.database.read(lambda connection: work(self._connection(connection)))

    async def write(self, work: Callable[[StoreConnection], T]) -> T:
        return await self.database.write(lambda connection: work(self._connection(connection)))

    def _connection(self, connection: SqliteConnection) -> SqliteStoreConnection:
        return SqliteStoreConnection(connection, self.database.contexts)

    async def read_then_write(
        self,
        read: Callable[[StoreConnection], R],
        then: Callable[[R], Callable[[StoreConnection], T] | None],
        *,
        locking: bool = False,
    ) -> tuple[R, T | None]:
        assert not locking, "rows are not locked here"
        # Apart, so that a read never waits for its turn to write.
        rows = await self.read(read)
        work = then(rows)
        return rows, None if work is None else await self.write(work)

    async def close(self) -> None:
        """Nothing of its own to close: the connections are the database's."""

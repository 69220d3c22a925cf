"""The database seams: blocking connections for the engine's store, run in threads by a pool.

Work handed to a pool is an ordinary function on a StoreConnection, so a whole transaction costs one thread hop. SQL
is in each backend's own dialect with `?` placeholders; a backend that needs another style translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from engine.model import ColumnMeta, TextValue

T = TypeVar("T")

SqlValue = Any
"""What a driver binds: int, float, Decimal, str, bytes, date, datetime, timedelta or None."""


class StoreConnection(Protocol):
    """One blocking connection in a worker thread. Errors are engine.errors.BackendError and its kinds."""

    def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """Rows as Python values."""
        ...

    def query_text(
        self, sql: str, params: Sequence[SqlValue], columns: Sequence[ColumnMeta]
    ) -> list[tuple[TextValue, ...]]:
        """Rows in the text protocol's form; `columns` describe the select list, in order."""
        ...

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        """Run a statement without a result; returns the affected rows."""
        ...

    def describe(self, database: str, table: str) -> tuple[ColumnMeta, ...]:
        """The table's columns, in order, as MySQL result metadata."""
        ...


class StorePool(Protocol):
    """Bounded access to StoreConnections for the engine."""

    async def read(self, work: Callable[[StoreConnection], T]) -> T:
        """Run `work` in a thread, outside any transaction."""
        ...

    async def write(self, work: Callable[[StoreConnection], T]) -> T:
        """Run `work` in a thread as one transaction: committed when it returns, rolled back when it raises."""
        ...

    async def close(self) -> None:
        """Close every connection. May be called twice."""
        ...

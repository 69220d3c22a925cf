"""The database seams: blocking connections for the engine's store, run in threads by a pool.

Work handed to a pool is an ordinary function on a StoreConnection, so a whole transaction costs one thread hop. SQL
is in each backend's own dialect with `?` placeholders; a backend that needs another style translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from engine.model.keyspaces import Keyspaces
from engine.model.queue import ColumnMeta, TextValue
from mysql_client.answers import Answer as Answer  # part of this seam

R = TypeVar("R")
T = TypeVar("T")

Settings = tuple[tuple[str, str], ...]
"""Session settings by name."""

SqlValue = Any
"""What a driver binds: int, float, Decimal, str, bytes, date, datetime, timedelta or None."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One of several statements sent together. `columns` describe its select list; empty: it has no result set.

    `bytes_max`: of the last one, how much a server may answer to all of them; 0: any amount. Where it answers more, the
    connection is closed (AnswerTooLarge).
    """

    sql: str
    params: Sequence[SqlValue] = ()
    columns: Sequence[ColumnMeta] = ()
    bytes_max: int = 0


class StoreConnection(Protocol):
    """One blocking connection in a worker thread. Errors are engine.model.errors.BackendError and its kinds."""

    @property
    def replicates(self) -> bool:
        """Whether the server is a node of a Galera cluster: others give ids and commit, too, and it sees that late."""
        ...

    @property
    def exact_names(self) -> bool:
        """Whether two tables may have names that differ in case alone."""
        ...

    @property
    def keyspaces(self) -> Keyspaces:
        """Of a Vitess, as it has them now; none at any other server."""
        ...

    @property
    def without_waiting(self) -> str:
        """The prefix of a statement that must fail where it would wait for a row; empty where the server has no such
        syntax."""
        ...

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

    def run(self, statements: Sequence[Statement], *, last: bool = False, alone: bool = False) -> list[Answer]:
        """Run statements in order, in as few round trips as the driver can; ends at the first that fails.

        `last`: nothing follows in this transaction, so that its commit may travel along. `alone`: nothing came before
        either, and one statement at most writes, so that no transaction has to be around them.
        """
        ...

    def reading(self, settings: Settings) -> AbstractContextManager[None]:
        """Read the statements inside as a session with these settings would; text that is bound is not concerned."""
        ...

    def describe(self, database: str, table: str, names: Sequence[str] = ()) -> tuple[ColumnMeta, ...]:
        """The table's columns, in order, as MySQL result metadata; without `names`, those of `SELECT *`."""
        ...


class StorePool(Protocol):
    """Bounded access to StoreConnections for the engine."""

    @property
    def replicates(self) -> bool:
        """See StoreConnection; of the server that was connected to last."""
        ...

    @property
    def without_waiting(self) -> str:
        """See StoreConnection; of the server that was connected to last."""
        ...

    async def write_alone(self, statements: Sequence[Statement]) -> list[Answer]:
        """Run statements in one round trip, each a transaction of its own; without a thread where the driver allows it.
        Those before one that fails hold (BackendError.committed). BackendUnavailable: any may hold."""
        ...

    async def ask(self, statements: Sequence[Statement]) -> list[Answer]:
        """Run statements that change nothing, outside any transaction and in one round trip; without a thread where the
        driver allows it."""
        ...

    async def read(self, work: Callable[[StoreConnection], T]) -> T:
        """Run `work` in a thread, outside any transaction."""
        ...

    async def write(self, work: Callable[[StoreConnection], T]) -> T:
        """Run `work` in a thread as one transaction: committed when it returns, rolled back when it raises."""
        ...

    async def read_then_write(
        self,
        read: Callable[[StoreConnection], R],
        then: Callable[[R], Callable[[StoreConnection], T] | None],
        *,
        locking: bool = False,
    ) -> tuple[R, T | None]:
        """Run `read` outside any transaction, and what `then` makes of it, if anything, as one; in one go if possible.

        `locking`: `read` locks what the work changes, so it is the beginning of the same transaction. Where that is
        tried again, it begins with the work. `then` may be called in a thread. When its work fails, what was read is
        lost with it.
        """
        ...

    async def close(self) -> None:
        """Close every connection. May be called twice."""
        ...

"""What compiling a statement yields: frozen plans, free of values and of connection state, so they can be cached.

A plan's SQL has numbered placeholders; its binds say where each value comes from when the plan is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from embedded.compile.schema import Table
from embedded.compile.values.types import SqlType
from engine.model.queue import ColumnMeta


@dataclass(frozen=True, slots=True)
class Bind:
    """Where a placeholder's value comes from: a slot of the statement, or something the session knows by name.
    `uses`: how often the statement writes it."""

    slot: int = -1
    dynamic: str = ""
    arguments: tuple[Any, ...] = ()
    convert: Callable[[Any], Any] | None = None
    negative: bool = False
    uses: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A result column: what the protocol says of it, and the type that tells how its values are read."""

    meta: ColumnMeta
    type: SqlType


@dataclass(frozen=True, slots=True)
class RowLock:
    """FOR UPDATE and its kin: all take the single-writer gate inside a transaction.

    `seconds`: how long WAIT n waits for it, 0 for NOWAIT; without one, as long as every write.
    """

    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL for SQLite with its binds."""

    sql: str
    binds: tuple[Bind, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A statement with a result set. `temporary`: it reads temporary tables; `limited`: it has a LIMIT of its own;
    `reads`: it names tables at all. One that does not, `SELECT @@version`, begins no snapshot.

    `assigned`: user variables that get their values from the last row, where these follow its columns.
    """

    statement: Statement
    columns: tuple[ResultColumn, ...]
    lock: RowLock | None = None
    count_rows: Statement | None = None
    temporary: bool = False
    limited: bool = False
    reads: bool = True
    assigned: tuple[tuple[str, ResultColumn], ...] = ()


class InsertMode(Enum):
    """What happens to a row whose key exists."""

    FAIL = "fail"
    IGNORE = "ignore"
    REPLACE = "replace"
    UPDATE = "update"


GENERATED, COMPUTED = -1, -2  # an AUTO_INCREMENT column's value: the table's own, or one that functions tell of


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT or REPLACE: of one row of values (run once per row), or of what a SELECT yields.

    `places`: columns whose value is simply the bind at that position. `auto_bind`: the bind of the AUTO_INCREMENT
    column, GENERATED or COMPUTED. `clear`: for REPLACE, deletes the rows
    in the way. `missing`: a column that has no default and is given no value. `numbered`: the table has an
    AUTO_INCREMENT column.
    """

    table: Table
    statement: Statement
    mode: InsertMode
    rows: bool
    places: tuple[tuple[str, int], ...] = ()
    auto_bind: int = -1
    clear: tuple[Statement, ...] = ()
    missing: str = ""
    temporary: bool = False
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Modify:
    """UPDATE or DELETE; the statements run in order, in one transaction, between `before` and `after`.

    `counted`: changed rows are counted by a function in the statement (UPDATE), not by SQLite. `assigned`: the columns
    that an UPDATE sets. `each`: a query of the numbers of the rows, in the order in which an UPDATE changes them one
    by one; its statement takes such a number as its last parameter.
    """

    tables: tuple[Table, ...]
    statements: tuple[Statement, ...]
    counted: bool
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    assigned: tuple[str, ...] = ()
    temporary: bool = False
    each: Statement | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan with the slots whose values are built into it."""

    plan: Query | Insert | Modify
    pins: tuple[int, ...] = ()

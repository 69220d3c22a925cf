"""What compiling a statement yields: frozen plans, free of values and of connection state, so they can be cached.

A plan's SQL has numbered placeholders; its binds say where each value comes from when the plan is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from engine.model import ColumnMeta
from rewriter.sqlite.schema import Table
from rewriter.sqlite.types import SqlType


@dataclass(frozen=True, slots=True)
class Bind:
    """Where a placeholder's value comes from: a slot of the statement, or something the session knows by name."""

    slot: int = -1
    dynamic: str = ""
    arguments: tuple[Any, ...] = ()
    convert: Callable[[Any], Any] | None = None
    negative: bool = False


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A result column: what the protocol says of it, and the type that tells how its values are read."""

    meta: ColumnMeta
    type: SqlType


class RowLock(Enum):
    """FOR UPDATE and its kin: all take the single-writer gate inside a transaction."""

    WAIT = "wait"
    NOWAIT = "nowait"


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL for SQLite with its binds."""

    sql: str
    binds: tuple[Bind, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A statement with a result set. `temporary`: it reads temporary tables."""

    statement: Statement
    columns: tuple[ResultColumn, ...]
    lock: RowLock | None = None
    count_rows: Statement | None = None
    temporary: bool = False


class InsertMode(Enum):
    """What happens to a row whose key exists."""

    FAIL = "fail"
    IGNORE = "ignore"
    REPLACE = "replace"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT or REPLACE: of one row of values (run once per row), or of what a SELECT yields.

    `auto_bind`: the position among the binds of the AUTO_INCREMENT column's value; -1 when it is always generated, -2 when it
    cannot be told. `clear`: for REPLACE, deletes the rows in the way. `missing`: a column that has no default and no value.
    """

    table: Table
    statement: Statement
    mode: InsertMode
    rows: bool
    auto_bind: int = -1
    clear: tuple[Statement, ...] = ()
    missing: str = ""
    keys: tuple[tuple[str, tuple[int, ...]], ...] = ()
    foreign: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Modify:
    """UPDATE or DELETE of one or several tables; the statements run in order, in one transaction.

    `counted`: affected rows are counted by a function in the statement (UPDATE), not by SQLite.
    """

    tables: tuple[Table, ...]
    statements: tuple[Statement, ...]
    counted: bool
    prepare: tuple[Statement, ...] = ()
    assigned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan with the slots whose values are built into it."""

    plan: Query | Insert | Modify
    pins: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Modes:
    """What of the session changes the meaning of a statement; part of every plan's key."""

    ansi_quotes: bool = False
    no_backslash_escapes: bool = False
    pipes_as_concat: bool = False
    no_auto_value_on_zero: bool = False
    utc: bool = True
    found_rows: bool = False
    extra: tuple[str, ...] = field(default=())

"""Definition statements as values: what CREATE, ALTER, DROP and similar ones define, in MySQL's terms."""

from __future__ import annotations

from dataclasses import dataclass, field

from embedded.compile.schema import Check, Column, Default, ForeignKey, Index, Table


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE. `query`: the SELECT it is filled from, and `keys` those that the columns then get; `like`: the
    table whose definition it copies."""

    table: Table
    if_not_exists: bool = False
    like: str | None = None
    query: str | None = None
    keys: tuple[Index | Check | ForeignKey, ...] = ()


@dataclass(frozen=True, slots=True)
class DropRoutine:
    """DROP PROCEDURE and similar statements: with IF EXISTS there is never one, because there are none here."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class DropTables:
    names: tuple[str, ...]
    if_exists: bool = False
    temporary: bool = False
    views: bool = False


@dataclass(frozen=True, slots=True)
class RenameTables:
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TruncateTable:
    name: str


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    query: str
    columns: tuple[str, ...] = ()
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddColumn:
    """`after` None: at the end; empty: first. `keys` are what the column's own definition adds."""

    column: Column
    after: str | None = None
    keys: tuple[Index | Check | ForeignKey, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    old: str
    column: Column
    after: str | None = None
    keys: tuple[Index | Check | ForeignKey, ...] = ()


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    name: str
    default: Default | None


@dataclass(frozen=True, slots=True)
class AddKey:
    key: Index | Check | ForeignKey
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropKey:
    """`kind`: INDEX, FOREIGN KEY, CHECK, or CONSTRAINT for any of them."""

    name: str
    kind: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameKey:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    name: str


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Table options. `convert`: the columns get the collation, too."""

    comment: str | None = None
    auto_increment: int | None = None
    collation: str | None = None
    convert: bool = False


Change = (
    AddColumn
    | ChangeColumn
    | DropColumn
    | RenameColumn
    | SetDefault
    | AddKey
    | DropKey
    | RenameKey
    | RenameTo
    | SetOptions
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    name: str
    changes: tuple[Change, ...] = field(default=())


Definition = (
    CreateTable
    | DropTables
    | RenameTables
    | TruncateTable
    | CreateView
    | CreateDatabase
    | DropDatabase
    | AlterTable
    | DropRoutine
)

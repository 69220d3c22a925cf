"""The database's schema as frozen values: the CREATE TABLE statements, in MySQL's terms; stored as JSON.

Names are stored as written; tables are matched exactly (as MySQL on Linux does), columns and indexes
case-insensitively.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from embedded.compile.errors import SqlError
from embedded.compile.values.store import StoreAs
from embedded.compile.values.types import (
    AUTO_INCREMENT_FLAG,
    DEFAULT_COLLATION,
    MULTIPLE_FLAG,
    NO_DEFAULT_FLAG,
    NOT_NULL_FLAG,
    ON_UPDATE_FLAG,
    PRIMARY_FLAG,
    UNIQUE_FLAG,
    Kind,
    SqlType,
)

DATABASE = "main"
"""The embedded backend's only database."""

SIDE_TABLE_PREFIX = "queuegate_meta_"
"""Tables of this prefix are the backend's own and invisible."""


@dataclass(frozen=True, slots=True)
class Default:
    """A DEFAULT clause. `text` is the literal's text, or the expression in MySQL's words."""

    text: str | None
    expression: bool = False
    now: int | None = None  # CURRENT_TIMESTAMP with this many decimals


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: SqlType
    nullable: bool = True
    default: Default | None = None
    auto_increment: bool = False
    on_update_now: int | None = None
    generated: str | None = None
    stored: bool = False
    comment: str = ""

    @property
    def extra(self) -> str:
        """The Extra column of SHOW COLUMNS."""
        words = []
        if self.auto_increment:
            words.append("auto_increment")
        if self.default is not None and (self.default.expression or self.default.now is not None):
            words.append("DEFAULT_GENERATED")
        if self.on_update_now is not None:
            words.append(f"on update CURRENT_TIMESTAMP{decimals_suffix(self.on_update_now)}")
        if self.generated is not None:
            words.append("STORED GENERATED" if self.stored else "VIRTUAL GENERATED")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A key part: a column, perhaps its first characters only."""

    column: str
    length: int | None = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """A key. The primary key is named PRIMARY. `implied`: made for a foreign key that has no declared one."""

    name: str
    parts: tuple[IndexPart, ...]
    unique: bool = False
    comment: str = ""
    implied: bool = False

    @property
    def primary(self) -> bool:
        return self.name == "PRIMARY"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(part.column for part in self.parts)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key constraint."""

    name: str
    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]
    on_delete: str = "NO ACTION"
    on_update: str = "NO ACTION"


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint, its expression in MySQL's words."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Table:
    """A base table or view. A view has `view` (its SELECT in MySQL's words) and no keys."""

    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[Check, ...] = ()
    comment: str = ""
    collation: str = DEFAULT_COLLATION
    auto_increment: int | None = None
    temporary: bool = False
    created: str = ""
    view: str | None = None

    def column(self, name: str) -> Column | None:
        lowered = name.lower()
        return next((column for column in self.columns if column.name.lower() == lowered), None)

    def index(self, name: str) -> Index | None:
        lowered = name.lower()
        return next((index for index in self.indexes if index.name.lower() == lowered), None)

    @property
    def primary_key(self) -> Index | None:
        return next((index for index in self.indexes if index.primary), None)

    @property
    def auto_column(self) -> Column | None:
        return next((column for column in self.columns if column.auto_increment), None)

    def flags(self, column: Column) -> int:
        """The protocol's flags of a column that depend on its keys and constraints."""
        flags = 0
        if not column.nullable:
            flags |= NOT_NULL_FLAG
            if column.default is None and not column.auto_increment and column.generated is None:
                flags |= NO_DEFAULT_FLAG
        if column.auto_increment:
            flags |= AUTO_INCREMENT_FLAG
        if column.on_update_now is not None:
            flags |= ON_UPDATE_FLAG
        return flags | self._key_flags(column.name.lower())

    def key_of(self, column: Column) -> str:
        """The Key column of SHOW COLUMNS: PRI, UNI, MUL or nothing."""
        flags = self._key_flags(column.name.lower())
        if flags & PRIMARY_FLAG:
            return "PRI"
        return "UNI" if flags & UNIQUE_FLAG else "MUL" if flags & MULTIPLE_FLAG else ""

    def _key_flags(self, name: str) -> int:
        flags = 0
        for index in self.indexes:
            columns = [part.column.lower() for part in index.parts]
            if index.primary and name in columns:
                flags |= PRIMARY_FLAG
            elif columns[0] == name:
                flags |= UNIQUE_FLAG if index.unique and len(columns) == 1 else MULTIPLE_FLAG
        return flags


@dataclass(frozen=True, slots=True)
class Schema:
    """All tables at one moment. `version` grows with every change, so plans can be cached against it."""

    version: int = 0
    tables: Mapping[str, Table] = field(default_factory=dict)

    def table(self, name: str) -> Table | None:
        return self.tables.get(name)

    def namesake(self, name: str, *, temporary: bool = False) -> Table | None:
        """The table whose name differs from this one in case alone, so that SQLite could not have both."""
        folded = name.encode().lower()  # of A-Z alone, as SQLite does
        alike = (one for one in self.tables.values() if one.temporary == temporary and one.view is None)
        return next((one for one in alike if one.name != name and one.name.encode().lower() == folded), None)

    def unknown(self, name: str, database: str = DATABASE) -> SqlError:
        """1146 for a name that no table has."""
        near = self.namesake(name) if database == DATABASE else None
        hint = "" if near is None else f"; there is '{near.name}', and names of tables are compared with regard to case"
        return SqlError(1146, f"Table '{database}.{name}' doesn't exist{hint}")


def decimals_suffix(decimals: int) -> str:
    return f"({decimals})" if decimals else ""


def to_json(table: Table) -> str:
    """The table's definition as the dictionary stores it; `from_json` is the inverse."""
    document = asdict(table)
    for column in document["columns"]:
        column["type"]["kind"] = column["type"]["kind"].value
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Table:
    document = json.loads(text)
    return Table(
        **{
            **document,
            "columns": tuple(_column(column) for column in document["columns"]),
            "indexes": tuple(_index(index) for index in document["indexes"]),
            "foreign_keys": tuple(_foreign_key(key) for key in document["foreign_keys"]),
            "checks": tuple(Check(**check) for check in document["checks"]),
        }
    )


def _column(document: dict[str, Any]) -> Column:
    kind = document["type"]
    sql_type = SqlType(**{**kind, "kind": Kind(kind["kind"]), "values": tuple(kind["values"])})
    default = Default(**document["default"]) if document["default"] is not None else None
    return Column(**{**document, "type": sql_type, "default": default})


def _index(document: dict[str, Any]) -> Index:
    return Index(**{**document, "parts": tuple(IndexPart(**part) for part in document["parts"])})


def _foreign_key(document: dict[str, Any]) -> ForeignKey:
    columns, references = tuple(document["columns"]), tuple(document["references"])
    return ForeignKey(**{**document, "columns": columns, "references": references})


def stored_default(column: Column) -> Any:
    """What a literal DEFAULT stores. That of a BIT column is stored as the number that was written."""
    assert column.default is not None
    text = column.default.text
    number = column.type.kind is Kind.BIT and text is not None and text.isdecimal()
    return StoreAs(column.type, column.name, utc=True)(int(text or 0) if number else text)

"""SQLite's constraint errors as MySQL's, where schema and values show more than SQLite reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedded.compile.compilation import quote
from embedded.compile.definitions.generated import LENGTH, RANGE
from embedded.compile.schema import ForeignKey, Index, Schema, Table
from embedded.compile.values.numbers import to_text
from embedded.database.connection import SqliteConnection
from embedded.database.errors import SqliteFault
from engine.model.errors import BackendError

_UNIQUE = re.compile(r"UNIQUE constraint failed: (?:index '(?P<index>.+)'|(?P<columns>.+))")
_UNFIT = ((RANGE, 1264, "Out of range value"), (LENGTH, 1406, "Data too long"))
_NO_IDS = "Failed to read auto-increment value from storage engine"  # the ids are used up
_SHOWN = 64  # characters of a key's value that an error quotes


@dataclass(frozen=True, slots=True)
class FailedChange:
    """What was being done: the table, the row's values by column (lower case), whether parents could go."""

    table: Table
    values: Mapping[str, Any] = field(default_factory=dict)
    deletes: bool = False
    assigned: tuple[str, ...] = ()


def refine(error: BackendError, failed: FailedChange, schema: Schema, connection: SqliteConnection) -> BackendError:
    """The same error, with the key, the value or the constraint that it is about."""
    if not isinstance(error, SqliteFault):
        return error
    if error.errno == 1062:
        return _duplicate(error, failed)
    if error.errno == 1452:
        return _foreign_key(error, failed, schema, connection)
    if error.errno == 3819:
        return _check(error, failed)
    if error.code == "SQLITE_FULL" and failed.table.auto_column is not None and _used_up(failed.table, connection):
        return SqliteFault(error.code, error.detail, _NO_IDS, 1467)
    return error


def _used_up(table: Table, connection: SqliteConnection) -> bool:
    """Whether the table's last id is used up: SQLite then reports the same error as for a full disk."""
    sql = "SELECT 1 FROM sqlite_sequence WHERE name = ? AND seq = 9223372036854775807"
    return bool(connection.fetch_all(sql, [table.name]))


def _duplicate(error: SqliteFault, failed: FailedChange) -> SqliteFault:
    index = _index_of(error.detail, failed.table)
    if index is None:
        return error
    values = [failed.values.get(part.column.lower(), "?") for part in index.parts]
    entry = "-".join(_shown(value, part.length) for value, part in zip(values, index.parts, strict=True))
    text = f"Duplicate entry '{entry[:_SHOWN]}' for key '{failed.table.name}.{index.name}'"
    return SqliteFault(error.code, error.detail, text, 1062)


def _shown(value: Any, length: int | None) -> str:
    text = value.hex() if isinstance(value, bytes) else to_text(value)
    return text if length is None else text[:length]


def _index_of(detail: str, table: Table) -> Index | None:
    match = _UNIQUE.fullmatch(detail)
    if match is None:
        return None
    if match["index"] is not None:
        return table.index(match["index"].split(":", 1)[-1])
    columns = [name.split(".", 1)[-1].lower() for name in match["columns"].split(", ")]
    for index in table.indexes:
        if index.unique and [part.column.lower() for part in index.parts] == columns:
            return index
    return None


def _check(error: SqliteFault, failed: FailedChange) -> SqliteFault:
    name = error.detail.split(": ", 1)[-1]
    for prefix, errno, text in _UNFIT:
        if name.startswith(prefix):
            return SqliteFault(error.code, error.detail, f"{text} for column '{name.removeprefix(prefix)}'", errno)
    auto = failed.table.auto_column
    if auto is not None and not any(check.name == name for check in failed.table.checks):
        return SqliteFault(error.code, error.detail, _NO_IDS, 1467)
    return error


def _foreign_key(error: SqliteFault, failed: FailedChange, schema: Schema, connection: SqliteConnection) -> SqliteFault:
    """SQLite only reports that some foreign key failed: which one, and on which side, follows from the statement."""
    own = [key for key in failed.table.foreign_keys if _concerns(key.columns, failed.assigned)]
    children = [
        (table, key)
        for table in schema.tables.values()
        for key in table.foreign_keys
        if key.table == failed.table.name and _concerns(key.references, failed.assigned)
    ]
    broken = next((key for key in own if _is_broken(key, failed.values, connection)), None)
    if broken is None and children and (failed.deletes or failed.assigned or not own):
        table, key = children[0]
        head = "Cannot delete or update a parent row: a foreign key constraint fails"
        return SqliteFault(error.code, error.detail, f"{head} ({_described(table, key)})", 1451)
    broken = broken or (own[0] if own else None)
    if broken is None:
        return error
    head = "Cannot add or update a child row: a foreign key constraint fails"
    return SqliteFault(error.code, error.detail, f"{head} ({_described(failed.table, broken)})", 1452)


def _concerns(columns: Sequence[str], assigned: Sequence[str]) -> bool:
    return not assigned or bool({column.lower() for column in columns} & {column.lower() for column in assigned})


def _is_broken(key: ForeignKey, values: Mapping[str, Any], connection: SqliteConnection) -> bool:
    """Whether the row's values, as far as they are known, have no parent."""
    parent_key = [values.get(column.lower()) for column in key.columns]
    if any(value is None for value in parent_key):
        return False
    tests = " AND ".join(f"{quote(column)} = ?" for column in key.references)
    return not connection.fetch_all(f"SELECT 1 FROM main.{quote(key.table)} WHERE {tests} LIMIT 1", parent_key)


def _described(table: Table, key: ForeignKey) -> str:
    columns = ", ".join(quote(column) for column in key.columns)
    references = ", ".join(quote(column) for column in key.references)
    actions = f" ON DELETE {key.on_delete}" * (key.on_delete != "NO ACTION")
    return (
        f"`main`.{quote(table.name)}, CONSTRAINT {quote(key.name)} FOREIGN KEY ({columns})"
        f" REFERENCES {quote(key.table)} ({references}){actions}"
    )

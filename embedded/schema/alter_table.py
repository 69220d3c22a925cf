"""ALTER TABLE: from one definition of a table to the next, by the cheapest method that SQLite allows.

Comments and options are only in the dictionary; keys are created and dropped; for everything else a new table is
created, the rows are copied, each value converted as if it were inserted, and the new table is renamed to the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from embedded.compile.binding import bind, dynamic_values, moment_value, utc_now
from embedded.compile.changes.column_value import default_value, stored
from embedded.compile.changes.insert import implicit_default
from embedded.compile.compilation import Compilation, key_part, quote, sql_literal
from embedded.compile.definitions.emit import (
    REBUILT,
    create_index,
    create_table,
    drop_triggers,
    index_name,
    separate_indexes,
    triggers,
)
from embedded.compile.expressions.scope import Scope, local, table_source
from embedded.compile.functions.context import CallContext
from embedded.compile.plan import Statement
from embedded.compile.queries.query import Queries
from embedded.compile.queries.sources import table_name
from embedded.compile.schema import Column, Index, Schema, Table
from embedded.compile.text.modes import Modes
from embedded.database.connection import SqliteConnection
from embedded.database.errors import SqliteFault
from embedded.schema.constraint_errors import FailedChange, refine
from engine.model.errors import BackendError


@dataclass(frozen=True, slots=True)
class Rebuild:
    """One table's change, inside an open transaction with foreign keys off."""

    connection: SqliteConnection
    context: CallContext
    schema: Schema
    old: Table
    new: Table
    sources: Mapping[str, str]

    def run(self) -> None:
        self.connection.context = self.context
        if needs_rebuild(self.old, self.new, self.sources):
            self._copy()
        else:
            self._change_indexes()
        if self.new.auto_increment is not None:
            set_next_number(self.connection, self.new, self.new.auto_increment)

    def _change_indexes(self) -> None:
        old = {index.name.lower(): index for index in separate_indexes(self.old)}
        new = {index.name.lower(): index for index in separate_indexes(self.new)}
        for name, index in old.items():
            if _plain(new.get(name)) != _plain(index):
                self._execute(f"DROP INDEX {index_name(self.old, index)}")
        for name, index in new.items():
            if _plain(old.get(name)) != _plain(index):
                self._create_index(index)

    def _copy(self) -> None:
        sequence = next_number(self.connection, self.old)
        self._execute(create_table(self.new, REBUILT))
        statement = self._copy_statement()
        lookup = dynamic_values(
            statement.binds, lambda name, args: moment_value(name, args, utc_now(), self.context.zone)
        )
        try:
            self.connection.execute(statement.sql, bind(statement.binds, (), lookup)).close()
        except BackendError as error:
            raise self._refined(error) from error
        self._execute(f"DROP TABLE {table_name(self.old)}")
        schema = "temp" if self.new.temporary else "main"
        self._execute(f"ALTER TABLE {schema}.{quote(REBUILT)} RENAME TO {quote(self.new.name)}")
        for index in separate_indexes(self.new):
            self._create_index(index)
        for statement_text in triggers(self.new):
            self._execute(statement_text)
        if self.new.auto_column is not None and sequence is not None:
            set_next_number(self.connection, self.new, sequence)

    def _copy_statement(self) -> Statement:
        compilation = Compilation(self.schema, Modes(), [], [])
        expressions = Queries(compilation).expressions
        source = table_source(self.old, "old", utc=True)
        scope = Scope(sources=[source])
        targets, values = [], []
        for column in self.new.columns:
            if column.generated is not None:
                continue
            origin = self.sources.get(column.name)
            targets.append(quote(column.name))
            if origin is not None:
                value = scope.resolve(origin)
                value = value if value.type.kind is column.type.kind else local(value)
                values.append(stored(expressions, column, value))
            else:
                values.append(self._fresh(compilation, column))
        text = f"SELECT {', '.join(values)} FROM {table_name(self.old)} AS `old`"
        target = f"{'temp' if self.new.temporary else 'main'}.{quote(REBUILT)}"
        return compilation.finish(f"INSERT INTO {target} ({', '.join(targets)}) {text}")

    def _fresh(self, compilation: Compilation, column: Column) -> str:
        """What the rows that are there get in a new column."""
        if column.auto_increment:
            return "NULL"
        if column.default is None:
            return "NULL" if column.nullable else sql_literal(implicit_default(column))
        expressions = Queries(compilation).expressions
        return stored(expressions, column, default_value(expressions, self.new, column))

    def _create_index(self, index: Index) -> None:
        try:
            self._execute(create_index(self.new, index))
        except BackendError as error:
            raise self._duplicate(error, index) from error

    def _duplicate(self, error: BackendError, index: Index) -> BackendError:
        """The error with the value that a new unique key found twice."""
        if not isinstance(error, SqliteFault) or error.errno != 1062:
            return error
        columns = ", ".join(quote(part.column) for part in index.parts)
        sql = f"SELECT {columns} FROM {table_name(self.new)} GROUP BY {columns} HAVING COUNT(*) > 1 LIMIT 1"
        rows = self.connection.fetch_all(sql)
        values = dict(zip((part.column.lower() for part in index.parts), rows[0], strict=True)) if rows else {}
        names = ", ".join(f"{self.new.name}.{part.column}" for part in index.parts)
        fault = SqliteFault(error.code, f"UNIQUE constraint failed: {names}", error.message, 1062)
        return refine(fault, FailedChange(self.new, values), self.schema, self.connection)

    def _refined(self, error: BackendError) -> BackendError:
        if isinstance(error, SqliteFault) and error.errno == 1048:
            return SqliteFault(error.code, error.detail, "Invalid use of NULL value", 1138)
        if isinstance(error, SqliteFault):
            detail = error.detail.replace(f"{REBUILT}.", f"{self.new.name}.")
            fault = SqliteFault(error.code, detail, error.message, error.errno)
            return refine(fault, FailedChange(self.new), self.schema, self.connection)
        return error

    def _execute(self, sql: str) -> None:
        self.connection.execute(sql).close()


def _plain(index: Index | None) -> Index | None:
    """The part of an index that SQLite stores."""
    return None if index is None else replace(index, comment="")


def needs_rebuild(old: Table, new: Table, sources: Mapping[str, str]) -> bool:
    """Whether anything in the CREATE TABLE changes, or the rows have to fit types that SQLite does not know."""
    same_names = all(sources.get(column.name) == column.name for column in new.columns)
    if not same_names or len(old.columns) != len(new.columns):
        return True
    types = {column.name: column.type for column in old.columns}
    if any(column.type != types.get(column.name) for column in new.columns):
        return True
    return create_table(old) != create_table(replace(new, name=old.name)) or drop_triggers(old) != drop_triggers(new)


def old_keys(connection: SqliteConnection, tables: Iterable[Table]) -> list[str]:
    """The statements that mend keys of before on the first characters of a text, which compared by bytes. Where rows
    differ in case alone the key stays as it is."""
    statements = []
    for table in tables:
        for index in separate_indexes(table) if table.view is None else ():
            parts = [key_part(table, part, index.unique) for part in index.parts]
            if not any("COLLATE" in part for part in parts):
                continue
            name, columns = f"{table.name}:{index.name}", ", ".join(parts)
            known = connection.fetch_all("SELECT sql FROM sqlite_master WHERE name = ? AND type = 'index'", (name,))
            filled = " AND ".join(f"{part} IS NOT NULL" for part in parts)
            rows = f"SELECT 1 FROM {table_name(table)} WHERE {filled}"
            doubled = f"{rows} GROUP BY {columns} HAVING COUNT(*) > 1 LIMIT 1"
            if known and "COLLATE" not in known[0][0] and not connection.fetch_all(doubled):
                statements += [f"DROP INDEX {index_name(table, index)}", create_index(table, index)]
    return statements


def next_number(connection: SqliteConnection, table: Table) -> int | None:
    """The next AUTO_INCREMENT value; None where none was ever assigned."""
    if table.auto_column is None:
        return None
    schema = "temp" if table.temporary else "main"
    rows = connection.fetch_all(f"SELECT seq FROM {schema}.sqlite_sequence WHERE name = ?", (table.name,))
    return int(rows[0][0]) + 1 if rows else None


def set_next_number(connection: SqliteConnection, table: Table, number: int) -> None:
    """Let AUTO_INCREMENT go on from here, but never below what is in use."""
    auto = table.auto_column
    if auto is None:
        return
    schema = "temp" if table.temporary else "main"
    ((used,),) = connection.fetch_all(f"SELECT COALESCE(MAX({quote(auto.name)}), 0) FROM {table_name(table)}")
    connection.execute(f"DELETE FROM {schema}.sqlite_sequence WHERE name = ?", (table.name,)).close()
    connection.execute(
        f"INSERT INTO {schema}.sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, max(number - 1, used))
    ).close()

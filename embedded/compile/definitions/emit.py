"""A table's definition as SQLite statements.

What is stored in the file (defaults, generated columns, checks) uses only SQLite's own functions, so that the file can
be used, and the engine can write to it, without our functions. A default that needs more is written into each INSERT.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from embedded.compile.changes.update_delete import row_id
from embedded.compile.compilation import Compilation, key_part, quote, sql_literal
from embedded.compile.definitions.generated import converted, limit
from embedded.compile.errors import SqlError, unknown_column
from embedded.compile.expressions.scope import Scope, Source
from embedded.compile.expressions.typed import Typed, truth
from embedded.compile.queries.query import Queries
from embedded.compile.queries.sources import table_name
from embedded.compile.schema import Check, Column, Default, ForeignKey, Index, Schema, Table, stored_default
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.modes import Modes
from embedded.compile.text.parse import parse_expression
from embedded.compile.values.types import DEFAULT_COLLATION, TEXTUAL, Kind
from rewriter.errors import RewriteError

REBUILT = "queuegate_meta_rebuilt"
"""The name of a table's new version while ALTER TABLE copies the rows; never visible."""


def create_statements(table: Table) -> list[str]:
    """Everything that makes the table: itself, its indexes, its trigger."""
    return [create_table(table), *(create_index(table, index) for index in separate_indexes(table)), *triggers(table)]


def create_table(table: Table, name: str | None = None) -> str:
    """CREATE TABLE, under another name where it is being rebuilt."""
    auto = table.auto_column
    parts = [_column(table, column) for column in table.columns]
    primary = table.primary_key
    if primary is not None and not (auto is not None and _is_alone(primary, auto)) and auto is None:
        parts.append(f"PRIMARY KEY ({_names(primary.columns)})")
    for key in table.foreign_keys:
        parts.append(
            f"CONSTRAINT {quote(key.name)} FOREIGN KEY ({_names(key.columns)}) REFERENCES {quote(key.table)}"
            f" ({_names(key.references)}) ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
        )
    for check in table.checks:
        parts.append(f"CONSTRAINT {quote(check.name)} CHECK ({_check(table, check)})")
    target = table_name(replace(table, name=name or table.name))
    return f"CREATE TABLE {target} (\n  " + ",\n  ".join(parts) + "\n)"


def separate_indexes(table: Table) -> list[Index]:
    """The indexes that CREATE TABLE does not make: all but the primary key, or the key that is the row's number."""
    auto = table.auto_column
    if auto is None:
        return [index for index in table.indexes if not index.primary]
    return [index for index in table.indexes if not _is_alone(index, auto)]


def index_name(table: Table, index: Index) -> str:
    """The index's name in SQLite, where index names are unique in the whole file."""
    schema = "temp" if table.temporary else "main"
    return f"{schema}.{quote(f'{table.name}:{index.name}')}"


def create_index(table: Table, index: Index) -> str:
    parts = [key_part(table, part, index.unique) + " DESC" * part.descending for part in index.parts]
    unique = "UNIQUE " * index.unique
    return f"CREATE {unique}INDEX {index_name(table, index)} ON {quote(table.name)} ({', '.join(parts)})"


def triggers(table: Table) -> list[str]:
    """For DEFAULT (other column), which SQLite does not have: a NULL is filled in once the row is there."""
    values = []
    for column in table.columns:
        if column.default is not None and column.default.expression:
            names = _column_names(column.default)
            if names:
                values.append((column, _expression(table, str(column.default.text), "NEW").sql))
    if not values or table.temporary:
        return []
    tests = " OR ".join(f"NEW.{quote(column.name)} IS NULL" for column, _ in values)
    changes = ", ".join(f"{quote(column.name)} = COALESCE({quote(column.name)}, {sql})" for column, sql in values)
    name = quote(f"{table.name}:default")
    body = f"UPDATE {quote(table.name)} SET {changes} WHERE {_row_id(table)} = NEW.{_row_id(table)};"
    return [f"CREATE TRIGGER main.{name} AFTER INSERT ON {quote(table.name)} WHEN {tests} BEGIN {body} END"]


def drop_triggers(table: Table) -> list[str]:
    return [f"DROP TRIGGER IF EXISTS main.{quote(f'{table.name}:default')}"] if triggers(table) else []


def _row_id(table: Table) -> str:
    return row_id(table)


def _is_alone(index: Index, column: Column) -> bool:
    return index.unique and len(index.parts) == 1 and index.parts[0].column.lower() == column.name.lower()


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(quote(name) for name in names)


def _column(table: Table, column: Column) -> str:
    if column.auto_increment:
        low, high = column.type.integer_range
        limit = "" if high == (1 << 63) - 1 else f" CHECK ({quote(column.name)} BETWEEN {low} AND {high})"
        return f"{quote(column.name)} INTEGER PRIMARY KEY AUTOINCREMENT{limit}"
    text = f"{quote(column.name)} {column.type.affinity}"
    if column.type.kind in TEXTUAL and not column.type.case_sensitive:
        text += " COLLATE NOCASE"
    if column.generated is not None:
        text += _generated(table, column)
    if not column.nullable:
        text += " NOT NULL"
    return text + _default(table, column)


def _generated(table: Table, column: Column) -> str:
    assert column.generated is not None
    kind = "STORED" if column.stored else "VIRTUAL"
    value = _expression(table, column.generated, column=column)
    return f" GENERATED ALWAYS AS ({value.sql}) {kind}{limit(column, value)}"


def _default(table: Table, column: Column) -> str:
    default = column.default
    if default is None:
        return ""
    if default.now is not None:
        return f" DEFAULT {_now(default.now)}"
    if not default.expression:
        return f" DEFAULT {sql_literal(stored_default(column))}"
    if _column_names(default):
        return ""
    try:
        return f" DEFAULT ({_expression(table, str(default.text)).sql})"
    except RewriteError:
        # The expression needs one of our functions or one of the session: each of our INSERTs supplies the value.
        return ""


def _now(decimals: int) -> str:
    """The current time in UTC; SQLite knows three decimals."""
    if decimals == 0:
        return "CURRENT_TIMESTAMP"
    text = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    if decimals < 3:
        return f"(substr({text}, 1, {20 + decimals}))"
    return f"({text} || '{'0' * (decimals - 3)}')" if decimals > 3 else f"({text})"


def _check(table: Table, check: Check) -> str:
    return _expression(table, check.expression, condition=True).sql


def _column_names(default: Default) -> list[str]:
    """The columns that a default expression names."""
    lifted = lift(str(default.text))
    tree = parse_expression(lifted.shape, lifted.values)
    return [column.name for column in tree.find_all(exp.Column)]


def _expression(
    table: Table, text: str, qualifier: str = "", column: Column | None = None, *, condition: bool = False
) -> Typed:
    """An expression of the table's definition, in SQLite's own functions only. `column`: as that stores it."""
    lifted = lift(text)
    compilation = Compilation(Schema(), Modes(), list(lifted.kinds), list(lifted.values), inline=True)
    tree = parse_expression(lifted.shape, lifted.values)
    scope = Scope(sources=[_source(table, qualifier)])
    scope.clause = "generated column function"
    value = Queries(compilation).expressions.compile(tree, scope)
    sql = truth(compilation, value) if condition else value.sql
    sql = sql if column is None else converted(compilation, column, value)
    return replace(value, sql=compilation.finish(sql).sql)


def _source(table: Table, qualifier: str) -> Source:
    prefix = f"{qualifier}." if qualifier else ""
    columns = tuple(
        (column.name, Typed(f"{prefix}{quote(column.name)}", column.type, column.nullable, collated=not qualifier))
        for column in table.columns
    )
    return Source(table.name, columns, table.name)


def check_definition(table: Table, schema: Schema, *, parents: bool = True) -> None:
    """Refuse what SQLite could not store or what names objects that do not exist (`parents`: foreign keys too)."""
    for column in table.columns:
        if column.generated is not None:
            _generated(table, column)
        elif column.default is not None and column.default.expression:
            _check_default(table, column)
    for check in table.checks:
        _check(table, check)
    for key in table.foreign_keys if parents else ():
        parent = table if key.table == table.name else schema.table(key.table)
        if parent is None:
            raise SqlError(1824, f"Failed to open the referenced table '{key.table}'")
        check_parent(parent, key.name, key.references)


def check_key_types(table: Table, schema: Schema, keys: Iterable[ForeignKey]) -> None:
    """Refuse foreign keys of columns whose types are not alike."""
    for key in keys:
        parent = table if key.table == table.name else schema.table(key.table)
        if parent is None:
            continue
        for name, reference in zip(key.columns, key.references, strict=True):
            if _likeness(table.column(name)) != _likeness(parent.column(reference)):
                text = f"Referencing column '{name}' and referenced column '{reference}' in foreign key constraint"
                raise SqlError(3780, f"{text} '{key.name}' are incompatible.")


def _likeness(column: Column | None) -> tuple[object, ...]:
    """What the type of a column has in common with those that a foreign key may lead to."""
    if column is None:
        return ()
    kind = column.type.kind
    if kind is Kind.INT:
        return kind, column.type.name, column.type.unsigned
    if kind is Kind.DOUBLE:
        return kind, column.type.name
    if kind is Kind.STRING:
        return kind, column.type.collation or DEFAULT_COLLATION
    return ({Kind.EXACT: Kind.DECIMAL, Kind.TIMESTAMP: Kind.DATETIME}.get(kind, kind),)


def _check_default(table: Table, column: Column) -> None:
    assert column.default is not None
    for name in _column_names(column.default):
        other = table.column(name)
        if other is None:
            raise unknown_column(name, "DEFAULT")
        if other.default is not None and other.default.expression and column.name in _column_names(other.default):
            raise SqlError(
                3767, f"Default value expression of column '{column.name}' cannot refer to a column defined after it."
            )


def check_parent(parent: Table, name: str, references: tuple[str, ...]) -> None:
    """Refuse a foreign key to columns that the parent does not have, or that are no unique key of it."""
    referenced = [one.lower() for one in references]
    for one in references:
        if parent.column(one) is None:
            raise SqlError(
                3734,
                f"Failed to add the foreign key constraint. Missing column '{one}' for constraint '{name}' in "
                f"the referenced table '{parent.name}'",
            )
    keys = ([column.lower() for column in index.columns] for index in parent.indexes if index.unique)
    if not any(sorted(key) == sorted(referenced) for key in keys):
        raise SqlError(
            1822,
            f"Failed to add the foreign key constraint. Missing unique key for constraint '{name}' in the "
            f"referenced table '{parent.name}'",
        )

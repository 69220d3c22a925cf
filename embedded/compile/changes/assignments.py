"""SET a = x, b = y: from left to right, as MySQL evaluates them, with the rows that really changed counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from embedded.compile.changes.column_value import default_value, is_default, stored
from embedded.compile.compilation import quote
from embedded.compile.errors import SqlError, unknown_column, unsupported
from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.dates import moment
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.stored_operands import is_changing
from embedded.compile.expressions.typed import Typed
from embedded.compile.schema import Column, Table
from embedded.compile.values.types import TEXTUAL


@dataclass(eq=False, slots=True)
class Assignments:
    """Compiles the assignments to one table's columns."""

    x: Expressions
    table: Table
    scope: Scope
    alias: str = ""
    assigned: list[Column] = field(default_factory=list)
    _new: dict[str, str] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.alias = self.alias or self.table.name

    def compile(self, nodes: Sequence[exp.Expression]) -> str:
        """The text after SET; the first value passes the function that counts changes."""
        for node in nodes:
            self._assign(node)
        return self.text()

    def text(self) -> str:
        changed = " OR ".join(self._differs(column) for column in self.assigned)
        auto = self.table.auto_column
        number = f"{quote(self.alias)}.{quote(auto.name)}" if auto is not None else "NULL"
        parts = []
        for position, column in enumerate(self.assigned):
            value = self._new[column.name]
            if position == 0:
                value = self.x.compilation.function(f"qg_change({value}, {changed}, {number})")
            parts.append(f"{quote(column.name)} = {value}")
        return ", ".join([*parts, *self._on_update_columns(changed)])

    def _on_update_columns(self, changed: str) -> list[str]:
        """ON UPDATE CURRENT_TIMESTAMP columns move only with a row that changes."""
        parts = []
        for column in self.table.columns:
            if column.on_update_now is not None and column not in self.assigned:
                now = stored(self.x, column, moment(self.x, "now", column.on_update_now))
                old = f"{quote(self.alias)}.{quote(column.name)}"
                parts.append(f"{quote(column.name)} = CASE WHEN {changed} THEN {now} ELSE {old} END")
        return parts

    def _assign(self, node: exp.Expression) -> None:
        if not isinstance(node, exp.EQ) or not isinstance(node.this, exp.Column):
            raise unsupported("this assignment")
        column = self._target(node.this)
        value = node.args["expression"]
        if any(self.x.compilation.name(one.name).lower() in self._changing for one in value.find_all(exp.Column)):
            raise unsupported(
                "reading a column that the same statement sets to another value each time", "SET @v first"
            )
        sql = self.value(column, value)
        self.assign_stored(column, sql)
        self._update_scope(column, sql)
        if is_changing(sql):
            self._changing.add(column.name.lower())

    def assign_stored(self, column: Column, sql: str) -> None:
        """Set a column to a value that is in storage form already."""
        if column in self.assigned:
            self.assigned.remove(column)
        self.assigned.append(column)
        self._new[column.name] = sql

    def value(self, column: Column, node: exp.Expression) -> str:
        """The new value of a column in storage form."""
        if is_default(node):
            if column.generated is not None:
                raise unsupported("DEFAULT for a generated column in UPDATE")
            return stored(self.x, column, default_value(self.x, self.table, column))
        if column.generated is not None:
            text = (
                f"The value specified for generated column '{column.name}' in table '{self.table.name}' is not allowed."
            )
            raise SqlError(3105, text)
        return stored(self.x, column, self.x.compile(node, self.scope))

    def _target(self, node: exp.Column) -> Column:
        name = self.x.compilation.name(node.name)
        qualifier = node.args.get("table")
        column = self.table.column(name)
        if column is None or (qualifier is not None and qualifier.name != self.alias):
            raise unknown_column(f"{qualifier.name}.{name}" if qualifier is not None else name, "field list")
        return column

    def _update_scope(self, column: Column, sql: str) -> None:
        """Later assignments see the new value."""
        source = self.scope.sources[0]
        columns = tuple(
            (name, Typed(sql, value.type, value.nullable) if name == column.name else value)
            for name, value in source.columns
        )
        self.scope.sources[0] = replace(source, columns=columns)

    def _differs(self, column: Column) -> str:
        collation = " COLLATE BINARY" if column.type.kind in TEXTUAL else ""
        return f"{quote(self.alias)}.{quote(column.name)}{collation} IS NOT {self._new[column.name]}"

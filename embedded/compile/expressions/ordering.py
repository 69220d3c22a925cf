"""ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from embedded.compile.errors import SqlError, unknown_column, unsupported
from embedded.compile.expressions.comparison import sort_collation, sort_key
from embedded.compile.expressions.compiler import Expressions, refuse_parts
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.typed import Typed, shown
from embedded.compile.text.literal_lifting import slot_of
from embedded.compile.values.types import Kind


def order_by(
    x: Expressions,
    node: exp.Expression | None,
    scope: Scope,
    columns: Sequence[tuple[str, Typed]],
    only_columns: bool = False,
) -> str:
    """The ORDER BY clause. NULLs come first, in SQLite as in MySQL."""
    if node is None:
        return ""
    refuse_parts(node, frozenset(("expressions",)))
    scope.clause = "order clause"
    keys = [_key(x, item, scope, columns, only_columns) for item in node.expressions]
    scope.clause = "field list"
    return " ORDER BY " + ", ".join(keys)


def _key(
    x: Expressions, item: exp.Expression, scope: Scope, columns: Sequence[tuple[str, Typed]], only_columns: bool
) -> str:
    refuse_parts(item, frozenset(["this", "desc", "nulls_first"]))
    direction = " DESC" if item.args.get("desc") else ""
    position = _result_column(x, item.this, columns)
    if position is not None:
        value = columns[position][1]
        if value.type.kind in (Kind.ENUM, Kind.JSON) and not only_columns:
            return sort_key(x.compilation, value) + direction
        if value.type.kind in (Kind.ENUM, Kind.JSON):
            what = f"ORDER BY {value.type.name.upper()} columns after UNION"
            raise unsupported(what, "put the UNION into a derived table")
        # By its number a quotient would sort by digits that are not shown.
        hidden = shown(x.compilation, value) if not only_columns else value.sql
        key = str(position + 1) if hidden == value.sql else hidden
        return f"{key}{sort_collation(value)}{direction}"
    if only_columns:
        if isinstance(item.this, exp.Column):
            raise unknown_column(item.this.name, "order clause")
        raise unsupported("ORDER BY an expression after UNION", "order by a column of the result")
    inner = Scope(scope.parent, scope.sources, scope.merged, clause="order clause")
    inner.preferred = scope.aliases
    value = x.compile(item.this, inner)
    if value.slot is not None:
        return "NULL"  # ordering by a constant orders nothing; a bare number would name a column
    return f"{sort_key(x.compilation, value)}{sort_collation(value)}{direction}"


def _result_column(x: Expressions, node: exp.Expression, columns: Sequence[tuple[str, Typed]]) -> int | None:
    """The position of the result column that an ORDER BY item names, by number or by alias."""
    if isinstance(node, exp.Literal):
        slot = slot_of(node.name)
        if slot is not None and x.compilation.kinds[slot] == "i":
            return _numbered(x.compilation.pin(slot), columns)
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        name = x.compilation.name(node.name).lower()
        matches = [position for position, (column, _) in enumerate(columns) if column.lower() == name]
        if matches:
            return matches[0]
    return None


def _numbered(position: int, columns: Sequence[tuple[str, Typed]]) -> int:
    if not 1 <= position <= len(columns):
        raise SqlError(1054, f"Unknown column '{position}' in 'order clause'")
    return position - 1

"""The plan of a SELECT."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from embedded.compile.compilation import Compilation
from embedded.compile.expressions.typed import Typed
from embedded.compile.plan import Query, ResultColumn
from embedded.compile.queries.query import Queries
from embedded.compile.queries.user_variables import resolve
from embedded.compile.text.column_names import ItemText, select_items
from embedded.compile.values.types import BINARY_CHARSET, BINARY_FLAG, NOT_NULL_FLAG, meta


def compile_select(compilation: Compilation, tree: exp.Expression, shape: str) -> Query:
    """The plan of a query whose text is `shape`."""
    items = select_items(shape)
    assigned = resolve(tree, shape).names
    selected = Queries(compilation).query(tree, None, [*items, *(ItemText("", 0) for _ in assigned)])
    columns = tuple(result_column(name, value) for name, value in selected.columns)
    visible = len(columns) - len(assigned)
    count = None
    if selected.unlimited is not None:
        count = compilation.finish(f"SELECT COUNT(*) FROM ({selected.unlimited})")
    statement = compilation.finish(selected.sql)
    reads = tree.find(exp.Table) is not None
    return Query(
        statement, columns[:visible], selected.lock, count, compilation.temporary, _is_limited(tree), reads,
        tuple(zip(assigned, columns[visible:], strict=True)),
    )  # fmt: skip


def _is_limited(tree: exp.Expression) -> bool:
    """Whether the query as a whole has a LIMIT."""
    while isinstance(tree, exp.Subquery | exp.Paren) and tree.args.get("limit") is None:
        tree = tree.this
    return tree.args.get("limit") is not None


def result_column(name: str, value: Typed) -> ResultColumn:
    """What a client is sent of a column of the result."""
    origin = value.origin
    flags = origin.flags if origin is not None else 0 if value.nullable else NOT_NULL_FLAG
    described = meta(value.type, name, flags)
    if origin is None and described.charset == BINARY_CHARSET:  # a number is marked so where it is computed, not stored
        described = replace(described, flags=described.flags | BINARY_FLAG)
    elif origin is not None:
        described = replace(
            described,
            org_name=origin.column.name,
            table=origin.alias,
            org_table=origin.table,
            schema="main" if origin.table and not origin.table.isupper() else "",
        )
    return ResultColumn(described, value.type)

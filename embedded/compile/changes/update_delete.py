"""UPDATE and DELETE, of one table or through a join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from embedded.compile.changes.assignments import Assignments
from embedded.compile.compilation import Compilation, quote
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions.compiler import refuse_parts
from embedded.compile.expressions.ordering import order_by
from embedded.compile.expressions.scope import Scope
from embedded.compile.plan import Modify
from embedded.compile.queries.query import Queries
from embedded.compile.queries.sources import table_name
from embedded.compile.schema import Column, Table
from embedded.compile.text.keywords import keywords
from embedded.compile.text.parse import Parsed

_UPDATE_PARTS = keywords("this expressions where order limit with_")
_DELETE_PARTS = keywords("this tables using where order limit with_")


def compile_update(compilation: Compilation, parsed: Parsed) -> Modify:
    """The plan of an UPDATE."""
    tree = parsed.tree
    if not isinstance(tree, exp.Update) or parsed.ignore:
        raise unsupported("UPDATE IGNORE" if parsed.ignore else "this form of UPDATE")
    refuse_parts(tree, _UPDATE_PARTS)
    queries = Queries(compilation)
    target = tree.this
    if not isinstance(target, exp.Table):
        raise unsupported("this target of UPDATE")
    if target.args.get("joins"):
        return _joined_update(compilation, queries, tree)
    table, alias, scope = _single(compilation, queries, target)
    _refuse_own_subquery(tree, table)
    queries.sources.fixed = True
    assignments = Assignments(queries.expressions, table, Scope(sources=list(scope.sources)), alias)
    changes = assignments.compile(tree.expressions)
    update = f"UPDATE {table_name(table)} AS {quote(alias)} SET {changes}"
    assigned = tuple(column.name for column in assignments.assigned)
    each = None
    if tree.args.get("order") is not None and _is_key(table, assigned):
        if any(tree.find_all(exp.Select)):
            raise unsupported("a subquery in an UPDATE of a key with ORDER BY", "write its value")
        each = compilation.finish(_row_ids(queries, tree, table, alias, scope))
        statement = compilation.finish(f"{update} WHERE {quote(alias)}.{row_id(table)} = ")
        statement = replace(statement, sql=f"{statement.sql}?{len(statement.binds) + 1}")
    else:
        statement = compilation.finish(f"{update}{_where(queries, tree, table, alias, scope)}")
    return Modify((table,), (statement,), True, assigned=assigned, temporary=compilation.temporary, each=each)


def compile_delete(compilation: Compilation, parsed: Parsed) -> Modify:
    """The plan of a DELETE."""
    tree = parsed.tree
    if not isinstance(tree, exp.Delete) or parsed.ignore:
        raise unsupported("DELETE IGNORE" if parsed.ignore else "this form of DELETE")
    refuse_parts(tree, _DELETE_PARTS)
    queries = Queries(compilation)
    if tree.args.get("tables") or tree.args.get("using"):
        return _joined_delete(compilation, queries, tree)
    table, alias, scope = _single(compilation, queries, tree.this)
    _refuse_own_subquery(tree, table)
    queries.sources.fixed = True
    where = _where(queries, tree, table, alias, scope)
    statement = compilation.finish(f"DELETE FROM {table_name(table)} AS {quote(alias)}{where}")
    return Modify((table,), (statement,), False, temporary=compilation.temporary)


def row_id(table: Table) -> str:
    """SQLite's name for the row's number that no column of the table hides."""
    taken = {column.name.lower() for column in table.columns}
    free = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
    if free is None:
        raise unsupported("columns named rowid, _rowid_ and oid in one table", "rename one of them")
    return free


def _single(compilation: Compilation, queries: Queries, node: exp.Expression) -> tuple[Table, str, Scope]:
    refuse_parts(node, frozenset(["this", "db", "alias"]))
    scope = Scope()
    queries.sources.tables(node, scope)
    source = scope.sources[0]
    return _base(queries, source.table), source.alias, scope


def _base(queries: Queries, name: str) -> Table:
    table = queries.sources.find(name)
    if table.view is not None:
        raise unsupported("changing a view", "change its table")
    return table


def _where(queries: Queries, tree: exp.Expression, table: Table, alias: str, scope: Scope) -> str:
    if tree.args.get("limit") is None:
        return _condition(queries, tree, scope)
    return f" WHERE {quote(alias)}.{row_id(table)} IN ({_row_ids(queries, tree, table, alias, scope)})"


def _condition(queries: Queries, tree: exp.Expression, scope: Scope) -> str:
    where = tree.args.get("where")
    return "" if where is None else f" WHERE {queries.expressions.condition(where.this, scope, 'where clause')}"


def _row_ids(queries: Queries, tree: exp.Expression, table: Table, alias: str, scope: Scope) -> str:
    """The query of the rows that ORDER BY and LIMIT choose."""
    condition = _condition(queries, tree, scope)
    order = order_by(queries.expressions, tree.args.get("order"), scope, [])
    origin = f"{table_name(table)} AS {quote(alias)}"
    return f"SELECT {quote(alias)}.{row_id(table)} FROM {origin}{condition}{order}{queries.limit(tree)}"


def _is_key(table: Table, assigned: Sequence[str]) -> bool:
    """Whether the order shows in which rows change: `SET id = id + 1 ORDER BY id DESC` makes room row by row."""
    names = {name.lower() for name in assigned}
    return any(part.column.lower() in names for index in table.indexes if index.unique for part in index.parts)


def _refuse_own_subquery(tree: exp.Expression, table: Table) -> None:
    """SQLite would read rows that the statement has already changed; MySQL refuses."""
    for query in tree.find_all(exp.Select):
        derived = isinstance(query.parent, exp.Subquery) and isinstance(query.parent.parent, (exp.From, exp.Join))
        origin = query.args.get("from_")
        tables = [origin.this, *(join.this for join in query.args.get("joins") or ())] if origin is not None else []
        if not derived and any(isinstance(one, exp.Table) and one.name == table.name for one in tables):
            raise SqlError(1093, f"You can't specify target table '{table.name}' for update in FROM clause")


def _joined_update(compilation: Compilation, queries: Queries, tree: exp.Expression) -> Modify:
    if tree.args.get("order") or tree.args.get("limit"):
        raise SqlError(1221, "Incorrect usage of UPDATE and ORDER BY")
    scope = Scope()
    origin = queries.sources.tables(tree.this, scope)
    alias, table = _update_target(compilation, queries, tree.expressions, scope)
    condition = _condition(queries, tree, scope)
    assignments = Assignments(queries.expressions, table, scope, alias)
    values: list[tuple[Column, str]] = []
    for node in tree.expressions:
        name = compilation.name(node.this.name)
        column = table.column(name)
        if column is None:
            raise SqlError(1054, f"Unknown column '{alias}.{name}' in 'field list'")
        values.append((column, assignments.value(column, node.args["expression"])))
    key = row_id(table)
    outputs = ", ".join(f"{sql} AS v{position}" for position, (_, sql) in enumerate(values))
    inner = f"SELECT {quote(alias)}.{key} AS r, {outputs} FROM {origin}{condition} GROUP BY 1"
    for position, (column, _) in enumerate(values):
        assignments.assign_stored(column, f"qg_new.v{position}")
    text = f"UPDATE {table_name(table)} AS {quote(alias)} SET {assignments.text()} FROM ({inner}) AS qg_new"
    statement = compilation.finish(f"{text} WHERE {quote(alias)}.{key} = qg_new.r")
    assigned = tuple(column.name for column, _ in values)
    return Modify((table,), (statement,), True, assigned=assigned, temporary=compilation.temporary)


def _update_target(
    compilation: Compilation, queries: Queries, nodes: Sequence[exp.Expression], scope: Scope
) -> tuple[str, Table]:
    aliases = set()
    for node in nodes:
        if not isinstance(node, exp.EQ) or not isinstance(node.this, exp.Column):
            raise unsupported("this assignment")
        name, qualifier = compilation.name(node.this.name), node.this.args.get("table")
        if qualifier is not None:
            if scope.source(qualifier.name) is None:
                raise SqlError(1054, f"Unknown column '{qualifier.name}.{name}' in 'field list'")
            aliases.add(qualifier.name)
            continue
        value = scope.resolve(name)
        aliases.add(value.origin.alias if value.origin is not None else "")
    if len(aliases) != 1:
        raise unsupported("UPDATE of several tables at once", "use one UPDATE per table, in a transaction")
    alias = aliases.pop()
    source = scope.source(alias)
    if source is None or not source.table:
        raise SqlError(1288, f"The target table {alias} of the UPDATE is not updatable")
    return alias, _base(queries, source.table)


def _joined_delete(compilation: Compilation, queries: Queries, tree: exp.Expression) -> Modify:
    if tree.args.get("order") or tree.args.get("limit"):
        raise SqlError(1221, "Incorrect usage of DELETE and ORDER BY")
    using = tree.args.get("using")
    named = [tree.this] if using else tree.args["tables"]
    scope = Scope()
    origin = ", ".join(queries.sources.tables(node, scope) for node in using or [tree.this])
    targets = [_delete_target(compilation, queries, node, scope) for node in named]
    condition = _condition(queries, tree, scope)
    keys = [f"{quote(alias)}.{row_id(table)} AS r{i}" for i, (alias, table) in enumerate(targets)]
    matching_rows = f"SELECT {', '.join(keys)} FROM {origin}{condition}"
    tables = tuple(table for _, table in targets)
    if len(targets) == 1:
        text = f"DELETE FROM {table_name(tables[0])} WHERE {row_id(tables[0])} IN ({matching_rows})"
        return Modify(tables, (compilation.finish(text),), False, temporary=compilation.temporary)
    # The rows are found before any is deleted: the second DELETE would not find its partners in the first table.
    deletes = tuple(
        compilation.finish(
            f"DELETE FROM {table_name(table)} WHERE {row_id(table)} IN (SELECT r{i} FROM temp.qg_doomed)"
        )
        for i, table in enumerate(tables)
    )
    before = (compilation.finish(f"CREATE TEMP TABLE qg_doomed AS {matching_rows}"),)
    after = (compilation.finish("DROP TABLE temp.qg_doomed"),)
    return Modify(tables, deletes, False, before, after, temporary=compilation.temporary)


def _delete_target(compilation: Compilation, queries: Queries, node: exp.Expression, scope: Scope) -> tuple[str, Table]:
    alias = compilation.name(node.name)
    source = scope.source(alias)
    if source is None:
        raise SqlError(1109, f"Unknown table '{alias}' in MULTI DELETE")
    return alias, _base(queries, source.table)

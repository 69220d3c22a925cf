"""FROM: tables, views, subqueries, common table expressions, and how they are joined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlglot import exp

from embedded.compile.compilation import Compilation, quote
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions.comparison import Pair, comparable
from embedded.compile.expressions.compiler import Expressions, refuse_parts
from embedded.compile.expressions.scope import Scope, Source, derived_source, table_source
from embedded.compile.expressions.stored_operands import is_changing
from embedded.compile.expressions.subqueries import Subqueries
from embedded.compile.expressions.typed import Typed
from embedded.compile.queries.information_schema import INFORMATION_SCHEMA, grant_source, is_grant_table, virtual_source
from embedded.compile.schema import DATABASE, SIDE_TABLE_PREFIX, Table
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.parse import parse
from embedded.compile.values.types import NOT_NULL_FLAG

_TABLE_PARTS = keywords("this db alias hints joins")
_JOIN_PARTS = keywords("this on using side kind method")
_MAX_VIEW_DEPTH = 16  # views on views; deeper than anyone can read


@dataclass(eq=False, slots=True)
class Sources:
    """Compiles FROM clauses; knows the common table expressions in reach. `fixed`: in a change, whose subqueries read
    the rows of before."""

    compilation: Compilation
    expressions: Expressions
    queries: Subqueries
    fixed: bool = False
    _common: list[dict[str, list[tuple[str, Typed]]]] = field(default_factory=list)
    _views: list[str] = field(default_factory=list)
    _weights: dict[str, int] = field(default_factory=dict)  # of common table expressions, in characters

    @contextmanager
    def with_clause(self, node: exp.Expression | None, scope: Scope | None) -> Iterator[str]:
        """WITH ...: yields its text; the names hold inside the block."""
        if node is None:
            yield ""
            return
        refuse_parts(node, frozenset(("expressions", "recursive")))
        names: dict[str, list[tuple[str, Typed]]] = {}
        self._common.append(names)
        try:
            recursive = bool(node.args.get("recursive"))
            texts = [self._common_table(one, names, scope, recursive) for one in node.expressions]
            yield f"WITH {'RECURSIVE ' * recursive}{', '.join(texts)} "
        finally:
            self._common.pop()

    def from_clause(self, node: exp.Expression, scope: Scope) -> str:
        """FROM and its joins; the sources are added to the scope."""
        origin = node.args.get("from_")
        joins = node.args.get("joins") or []
        if origin is None:
            if joins:
                raise unsupported("a join without FROM")
            return ""
        if isinstance(origin.this, exp.Table) and origin.this.name.upper() == "DUAL" and not joins:
            return ""
        first = self.tables(origin.this, scope)
        if joins and not _is_composite(origin.this) and str(joins[0].args.get("side") or "").upper() == "RIGHT":
            # SQLite loses conditions next to a RIGHT JOIN in a UNION ALL; the same with the sides exchanged is right.
            joined = self._join(joins[0], scope, first)
            return f" FROM {joined}{self.joins(joins[1:], scope)}"
        return f" FROM {first}{self.joins(joins, scope)}"

    def tables(self, node: exp.Expression, scope: Scope) -> str:
        """One table reference with the joins that hang on it."""
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
            raise unsupported(f"{node.this.sql_name()} as a table", "read the document with JSON_EXTRACT")
        if isinstance(node, exp.Table):
            refuse_parts(node, _TABLE_PARTS)
            text, source = self._table(node)
            scope.add(source)
            return text + self.joins(node.args.get("joins") or [], scope)
        if isinstance(node, (exp.Subquery, exp.Paren)):
            return self._derived(node, scope)
        raise unsupported(f"{type(node).__name__.upper()} in FROM")

    def joins(self, joins: list[exp.Expression], scope: Scope) -> str:
        return "".join(self._join(join, scope) for join in joins)

    def _join(self, join: exp.Expression, scope: Scope, first: str = "") -> str:
        """A join, as it is written after the tables before it; a RIGHT JOIN to `first` as a LEFT JOIN that begins."""
        refuse_parts(join, _JOIN_PARTS)
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        natural = str(join.args.get("method") or "").upper() == "NATURAL"
        if side not in ("", "LEFT", "RIGHT") or kind not in ("", "INNER", "CROSS", "OUTER", "STRAIGHT_JOIN"):
            raise unsupported(f"{side} {kind} JOIN".strip())
        before = list(scope.sources)
        text = self.tables(join.this, scope)
        added = [source for source in scope.sources if source not in before]
        condition = self._join_condition(join, scope, before, added, natural)
        _widen(scope, before if side == "RIGHT" else added if side == "LEFT" else [])
        ordered = kind == "STRAIGHT_JOIN"  # SQLite reads the tables of a CROSS JOIN in the written order
        plain = " JOIN " if condition and not ordered else " CROSS JOIN " if kind else ", "
        word = f" {side} JOIN " if side else plain
        if side and not condition:
            raise SqlError(1064, f"{side} JOIN needs a condition")
        if first:
            if natural or join.args.get("using"):  # then '*' has the right side's columns first
                scope.sources[:] = [*scope.sources[len(before) :], *scope.sources[: len(before)]]
            return f"{text} LEFT JOIN {first}{condition}"
        return f"{word}{text}{condition}"

    def _join_condition(
        self, join: exp.Expression, scope: Scope, before: list[Source], added: list[Source], natural: bool
    ) -> str:
        if join.args.get("on") is not None:
            return " ON " + self.expressions.condition(join.args["on"], scope, "on clause")
        names = [self.compilation.name(one.name) for one in join.args.get("using") or ()]
        if natural:
            names = [name for source in added for name, _ in source.columns if any(one.find(name) for one in before)]
        if not names:
            return ""
        pairs = [self._named(name, before, added) for name in names]
        compared = [comparable(self.compilation, left, right) for left, right in pairs]
        if compared == [Pair(left.sql, right.sql) for left, right in pairs]:
            for name, (left, _) in zip(names, pairs, strict=True):
                scope.merged[name.lower()] = replace(left, sql=quote(name))
            return f" USING ({', '.join(quote(name) for name in names)})"
        if any(name.lower() in scope.merged for name in names):
            raise unsupported("USING of a column of different types after another USING", "write ON")
        outer_right = str(join.args.get("side") or "").upper() == "RIGHT"
        scope.merged.update((name.lower(), pair[outer_right]) for name, pair in zip(names, pairs, strict=True))
        return " ON " + " AND ".join(f"{one.left}{one.collation} = {one.right}" for one in compared)

    def _named(self, name: str, before: list[Source], added: list[Source]) -> tuple[Typed, Typed]:
        """The columns of that name on both sides of a join."""
        left = next((column for column in (source.find(name) for source in before) if column), None)
        right = next((column for column in (source.find(name) for source in added) if column), None)
        if left is None or right is None:
            raise SqlError(1054, f"Unknown column '{name}' in 'from clause'")
        return left, right

    def _table(self, node: exp.Expression) -> tuple[str, Source]:
        name = self.compilation.name(node.name)
        database = self.compilation.name(node.args["db"].name) if node.args.get("db") is not None else None
        alias_node = node.args.get("alias")
        if alias_node is not None and alias_node.args.get("columns"):
            raise unsupported("column names after a table alias")
        alias = self.compilation.name(alias_node.name) if alias_node is not None else name
        if database is None:
            for names in reversed(self._common):
                if name.lower() in names:
                    self.compilation.budget.add_copied(self._weights.get(name.lower(), 0))
                    return f"{quote(name)} AS {quote(alias)}", derived_source(alias, names[name.lower()])
        if is_grant_table(database, name):
            return grant_source(name, alias)
        if (database or self.compilation.modes.database or "").lower() == INFORMATION_SCHEMA:
            return virtual_source(self.compilation, name, alias)
        return self._base_table(self.find(name, database), alias)

    def find(self, name: str, database: str | None = None) -> Table:
        """A table of the schema.

        Raises:
            SqlError: 1146 no such table, 1046 no database chosen.
        """
        if database is None and self.compilation.modes.database is None:
            raise SqlError(1046, "No database selected")
        known = database or self.compilation.modes.database or DATABASE
        table = self.compilation.schema.table(name)
        if known != DATABASE or table is None or name.startswith(SIDE_TABLE_PREFIX):
            raise self.compilation.schema.unknown(name, known)
        if table.temporary:
            self.compilation.temporary = True
        return table

    def _base_table(self, table: Table, alias: str) -> tuple[str, Source]:
        if table.view is not None:
            return self._view(table, alias)
        return f"{table_name(table)} AS {quote(alias)}", table_source(table, alias, self.compilation.modes.utc)

    def _view(self, table: Table, alias: str) -> tuple[str, Source]:
        """A view is replaced by its SELECT, so that it follows its tables as MySQL's views do."""
        if len(self._views) >= _MAX_VIEW_DEPTH or table.name in self._views:
            raise SqlError(1462, f"`{DATABASE}`.`{table.name}` contains view recursion")
        assert table.view is not None
        lifted = lift(table.view)
        first = self.compilation.extend(lifted.kinds, lifted.values)
        tree = parse(lifted.shape, lifted.values, "SELECT", first).tree
        self._views.append(table.name)
        outer, self._common = self._common, []
        try:
            selected = self.queries.query(tree, None)
        finally:
            self._views.pop()
            self._common = outer
        names = tuple(column.name for column in table.columns)
        columns, places = selected.columns, list(range(len(selected.columns)))
        if has_star(tree):  # it shows the columns that there were when it was made
            places = [next((i for i in places if columns[i][0].lower() == name.lower()), -1) for name in names]
            if -1 in places:
                text = f"View '{DATABASE}.{table.name}' references invalid table(s) or column(s)"
                raise SqlError(1356, f"{text} or function(s) or definer/invoker of view lack rights to use them")
        source = derived_source(alias, [columns[place] for place in places], names)
        inner = self.compilation.alias()
        listed = ", ".join(f"c{place}" for place in range(len(columns)))
        shown = ", ".join(f"c{place} AS {quote(name)}" for place, name in zip(places, names, strict=True))
        text = f"(WITH {inner}({listed}) AS {self._once(selected.sql)} SELECT {shown} FROM {inner}) AS {quote(alias)}"
        return text, replace(source, table=table.name)

    def _derived(self, node: exp.Expression, scope: Scope) -> str:
        inner = node.this
        if isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and not node.args.get("alias")):
            text = self.tables(inner, scope)
            return f"({text}{self.joins(node.args.get('joins') or [], scope)})"
        refuse_parts(node, frozenset(["this", "alias", "joins"]))
        alias_node = node.args.get("alias")
        if alias_node is None or not alias_node.name:
            raise SqlError(1248, "Every derived table must have its own alias")
        alias = self.compilation.name(alias_node.name)
        selected = self.queries.query(inner, scope.parent)
        names = tuple(self.compilation.name(one.name) for one in alias_node.args.get("columns") or ())
        scope.add(derived_source(alias, selected.columns, names))
        body = once = self._once(selected.sql)
        if names or body.startswith("MATERIALIZED"):
            common = self.compilation.alias()
            listed = f"({', '.join(quote(name) for name in names)})" if names else ""
            body = f"(WITH {common}{listed} AS {once} SELECT * FROM {common})"
        return f"{body} AS {quote(alias)}{self.joins(node.args.get('joins') or [], scope)}"

    def _once(self, sql: str) -> str:
        """A query that is evaluated once, before the first row is changed; SQLite would put it where it is used."""
        return f"MATERIALIZED ({sql})" if self.fixed or is_changing(sql) else f"({sql})"

    def _common_table(
        self, node: exp.Expression, names: dict[str, list[tuple[str, Typed]]], scope: Scope | None, recursive: bool
    ) -> str:
        refuse_parts(node, frozenset(["this", "alias"]))
        name = self.compilation.name(node.alias)
        listed = [self.compilation.name(one.name) for one in node.args["alias"].args.get("columns") or ()]
        body = node.this
        if recursive and isinstance(body, exp.SetOperation):
            first = self.queries.query(body.this, scope)
            names[name.lower()] = _bare(listed, first.columns)
        outer, self.queries.recursive = self.queries.recursive, recursive
        before = self.compilation.budget.copied
        try:
            selected = self.queries.query(body, scope)
        finally:
            self.queries.recursive = outer
        names[name.lower()] = _bare(listed, selected.columns)
        self._weights[name.lower()] = len(selected.sql) + self.compilation.budget.copied - before
        columns = listed or [column for column, _ in selected.columns]
        return f"{quote(name)}({', '.join(quote(column) for column in columns)}) AS {self._once(selected.sql)}"


def has_star(tree: exp.Expression) -> bool:
    """Whether the columns of a query depend on those that its tables have."""
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    return any(isinstance(one.this if isinstance(one, exp.Column) else one, exp.Star) for one in tree.expressions)


def _is_composite(node: exp.Expression) -> bool:
    """Whether a table reference is more than one table or derived table."""
    plain = isinstance(node, exp.Table) or bool(node.args.get("alias"))
    return not plain or bool(node.args.get("joins"))


def _bare(names: list[str], columns: list[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
    if names and len(names) != len(columns):
        raise SqlError(1353, "The list of column names and the SELECT's column list have different column counts")
    return [(names[i] if names else name, value) for i, (name, value) in enumerate(columns)]


def _widen(scope: Scope, sources: list[Source]) -> None:
    """An outer join makes the columns of one side nullable."""
    for source in sources:
        columns = tuple((name, _nullable(value)) for name, value in source.columns)
        scope.sources[scope.sources.index(source)] = replace(source, columns=columns)


def _nullable(value: Typed) -> Typed:
    origin = value.origin
    if origin is not None:
        origin = replace(origin, flags=origin.flags & ~NOT_NULL_FLAG)
    return replace(value, nullable=True, origin=origin)


def table_name(table: Table) -> str:
    """The table in SQLite's words; temporary tables have a schema of their own."""
    return f"{'temp' if table.temporary else 'main'}.{quote(table.name)}"

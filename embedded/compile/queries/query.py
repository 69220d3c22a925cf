"""SELECT: lists, set operations, common table expressions, subqueries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from sqlglot import exp

from embedded.compile.compilation import Compilation, quote
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions import aggregates, calls, operators, predicates
from embedded.compile.expressions.comparison import group_key, sort_collation
from embedded.compile.expressions.compiler import Expressions, refuse_parts
from embedded.compile.expressions.functions_number import limit_value
from embedded.compile.expressions.ordering import order_by
from embedded.compile.expressions.scope import Scope, Source
from embedded.compile.expressions.stored_operands import is_changing
from embedded.compile.expressions.subqueries import Selected
from embedded.compile.expressions.typed import Typed, coerce, shown
from embedded.compile.plan import RowLock
from embedded.compile.queries.sources import Sources
from embedded.compile.text.column_names import ItemText
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import slot_of, syntax_error
from embedded.compile.text.parse import mysql_text
from embedded.compile.values.types import TEXTUAL, Kind, SqlType, text_width, unify

_HANDLERS = (aggregates, calls, operators, predicates)  # imported for the handlers they register
_SELECT_PARTS = keywords(
    "expressions from_ joins where group having order limit offset distinct with_ locks windows kind hint "
    "operation_modifiers"
)
_SET_PARTS = keywords("this expression distinct order limit offset with_ by_name locks")
_OPERATORS: dict[type[exp.Expression], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}
_UNION_MAX = 500  # queries of a chain: SQLite's own bound
_MODIFIERS = keywords(
    "SQL_CALC_FOUND_ROWS STRAIGHT_JOIN HIGH_PRIORITY SQL_NO_CACHE SQL_CACHE SQL_SMALL_RESULT SQL_BIG_RESULT "
    "SQL_BUFFER_RESULT"
)


@dataclass(eq=False, slots=True)
class Queries:
    """Compiles the queries of one statement. `virtual` returns the columns of information_schema's tables."""

    compilation: Compilation
    sources: Sources = field(init=False)
    expressions: Expressions = field(init=False)
    recursive: bool = False  # in a common table expression that names itself

    def __post_init__(self) -> None:
        self.expressions = Expressions(self.compilation, self)
        self.sources = Sources(self.compilation, self.expressions, self)

    def subquery(self, node: exp.Expression, scope: Scope | None) -> Selected:
        """A query inside another, which may refer to the outer one's columns."""
        while isinstance(node, (exp.Subquery, exp.Paren)) and not node.args.get("alias"):
            if node.args.get("order") or node.args.get("limit"):
                break
            node = node.this
        return self.query(node, scope)

    def query(self, node: exp.Expression, scope: Scope | None, items: Sequence[ItemText] = ()) -> Selected:
        """Any query expression. `items`: the texts of the outermost select list, for the columns' names."""
        with self.sources.with_clause(node.args.get("with_"), scope) as prefix:
            if isinstance(node, exp.Select):
                selected = self._select(node, scope, items)
            elif isinstance(node, exp.SetOperation):
                selected = self._set_operation(node, scope, items)
            elif isinstance(node, exp.Subquery):
                selected = self._parenthesised(node, scope, items)
            else:
                raise unsupported(f"{type(node).__name__.upper()} as a query")
        if not prefix:
            return selected
        unlimited = f"{prefix}{selected.unlimited}" if selected.unlimited else None
        return replace(selected, sql=f"{prefix}{selected.sql}", unlimited=unlimited)

    def scalar(self, node: exp.Expression, scope: Scope) -> Typed:
        """A subquery as one value; more than one row is error 1242."""
        selected = self.subquery(node, scope)
        if len(selected.columns) != 1:
            raise SqlError(1241, "Operand should contain 1 column(s)")
        value = selected.columns[0][1]
        unquoted = None
        if selected.single:
            return Typed(f"({selected.sql})", value.type, unquoted=unquoted)
        alias = self.compilation.alias()
        guard = self.compilation.function("qg_raise(1242)")
        sql = f"(SELECT CASE WHEN COUNT(*) > 1 THEN {guard} ELSE MAX({alias}.c) END FROM "
        return Typed(f"{sql}(SELECT * FROM ({_renamed(selected)})) AS {alias})", value.type, unquoted=unquoted)

    def _parenthesised(self, node: exp.Expression, scope: Scope | None, items: Sequence[ItemText]) -> Selected:
        refuse_parts(node, keywords("this order limit offset with_ alias"))
        inner = self.query(node.this, scope, items)
        if not (node.args.get("order") or node.args.get("limit")):
            return inner
        tail = self._tail(node, Scope(scope), inner.columns)
        return Selected(f"SELECT * FROM ({inner.sql}){tail}", inner.columns)

    def _select(
        self,
        node: exp.Expression,
        parent: Scope | None,
        items: Sequence[ItemText],
        target_types: Sequence[SqlType] = (),
    ) -> Selected:
        refuse_parts(node, _SELECT_PARTS)
        modifiers = {str(one.name).upper() for one in node.args.get("operation_modifiers") or ()}
        if modifiers - _MODIFIERS:
            raise unsupported(f"SELECT {' '.join(modifiers - _MODIFIERS)}")
        scope = Scope(parent)
        origin = self.sources.from_clause(node, scope)
        where = self._condition(node.args.get("where"), scope, " WHERE ", "where clause")
        columns = self._list(node, scope, items)
        if target_types:
            columns = [
                (name, coerce(self.compilation, value, target))
                for (name, value), target in zip(columns, target_types, strict=True)
            ]
        plain_having = node.args.get("group") is None and not _has_aggregate(node)
        distinct = self._distinct(node)
        cut = bool(distinct) or _is_stored(node)
        written = counted_items(self.compilation, columns)
        texts = [self._output(name, value, bool(distinct), cut) for name, value in written]
        scope.aliases = {name.lower(): value for name, value in columns}
        grouping = self._group(node.args.get("group"), scope, columns)
        having = self._having(node, scope)
        if having and plain_having:
            # Without groups MySQL filters the rows; for SQLite that has to be a WHERE.
            where, having = f"{where} AND {having}" if where else f" WHERE {having}", ""
        elif having:
            having = f" HAVING {having}"
        windows = self._windows(node, scope)
        head = f"SELECT {distinct}{', '.join(texts)}{origin}{where}{grouping}{having}{windows}"
        limit = self.limit(node)
        sql = f"{head}{order_by(self.expressions, node.args.get('order'), scope, columns)}{limit}"
        single = self._is_single(node, columns)
        unlimited = head if "SQL_CALC_FOUND_ROWS" in modifiers else None
        return Selected(sql, columns, single, self._lock(node), unlimited)

    def _condition(self, node: exp.Expression | None, scope: Scope, word: str, clause: str) -> str:
        return "" if node is None else word + self.expressions.condition(node.this, scope, clause)

    def _having(self, node: exp.Expression, scope: Scope) -> str:
        having, group = node.args.get("having"), node.args.get("group")
        if having is None:
            return ""
        keys = {
            key.name.lower() for key in (group.expressions if group is not None else ()) if isinstance(key, exp.Column)
        }
        inner = Scope(scope.parent, scope.sources, scope.merged)
        columns = {name.lower() for source in scope.sources for name, _ in source.columns}
        inner.preferred = {name: value for name, value in scope.aliases.items() if name not in keys & columns}
        changing = {name for name, value in inner.preferred.items() if is_changing(value.sql)}
        if changing and any(one.name.lower() in changing for one in having.find_all(exp.Column)):
            raise unsupported("HAVING of a column that is another each time", "put the query into a derived table")
        return self.expressions.condition(having.this, inner, "having clause")

    def _windows(self, node: exp.Expression, scope: Scope) -> str:
        named = node.args.get("windows") or []
        texts = (
            f"{self.compilation.name(one.this.name)} AS ({aggregates.window_text(self.expressions, one, scope)})"
            for one in named
        )
        return f" WINDOW {', '.join(texts)}" if named else ""

    def _list(self, node: exp.Expression, scope: Scope, items: Sequence[ItemText]) -> list[tuple[str, Typed]]:
        columns: list[tuple[str, Typed]] = []
        if not node.expressions:
            raise syntax_error("FROM")
        for position, item in enumerate(node.expressions):
            if isinstance(item, exp.Star):
                refuse_parts(item, frozenset())
                if not scope.sources:
                    raise SqlError(1096, "No tables used")
                columns += self._starred(scope.star())
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                columns += self._starred(self._table_star(item, scope))
            else:
                text = items[position] if len(items) == len(node.expressions) else None
                before = self.compilation.budget.copied
                name, value = self._item(item, scope, text)
                copied = self.compilation.budget.copied - before
                columns.append((name, replace(value, weight=len(value.sql) + copied)))
        return columns

    def _starred(self, columns: list[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
        for _, value in columns:
            self.compilation.budget.add_node()
            self.compilation.budget.add_copied(value.weight)
        return columns

    def _table_star(self, item: exp.Expression, scope: Scope) -> list[tuple[str, Typed]]:
        name = self.compilation.name(item.args["table"].name)
        source: Source | None = scope.source(name)
        if source is None:
            raise SqlError(1051, f"Unknown table '{name}'")
        return list(source.columns)

    def _item(self, item: exp.Expression, scope: Scope, text: ItemText | None) -> tuple[str, Typed]:
        plain = item.this if isinstance(item, exp.Alias) else item
        value = self.expressions.compile(plain, scope)
        if not value.aggregate and _aggregates(plain):
            value = replace(value, aggregate=True)  # an expression around one, by which no rows can be grouped
        if isinstance(item, exp.Alias):
            return self.compilation.name(item.alias), value
        if isinstance(item, exp.Column):
            return self.compilation.name(item.name), value
        if text is None:
            return self._generated_name(item), value
        for slot in text.literal_slots():
            self.compilation.pin(slot)
        return text.name(self.compilation.values), value

    def _generated_name(self, item: exp.Expression) -> str:
        slots = [slot_of(literal.name) for literal in item.find_all(exp.Literal)]
        for slot in slots:
            if slot is not None:
                self.compilation.pin(slot)
        return mysql_text(item, self.compilation.values)

    def _distinct(self, node: exp.Expression) -> str:
        distinct = node.args.get("distinct")
        if distinct is None:
            return ""
        refuse_parts(distinct, frozenset())
        return "DISTINCT "

    def _output(self, name: str, value: Typed, distinct: bool, cut: bool) -> str:
        collation = sort_collation(value) if distinct else ""
        sql = shown(self.compilation, value) if cut else value.sql
        return f"{sql}{collation} AS {quote(name)}"

    def _group(self, node: exp.Expression | None, scope: Scope, columns: Sequence[tuple[str, Typed]]) -> str:
        if node is None:
            return ""
        refuse_parts(node, frozenset(("expressions",)))
        scope.clause = "group statement"
        keys = []
        for key in node.expressions:
            slot = slot_of(key.name) if isinstance(key, exp.Literal) else None
            if slot is not None and self.compilation.kinds[slot] != "i":
                slot = None  # a constant, not a column's number
            if slot is None and _aggregates(key):
                raise SqlError(1111, "Invalid use of group function")
            value = self._position(slot, columns) if slot is not None else self.expressions.compile(key, scope)
            if value.aggregate:
                raise SqlError(1056, f"Can't group on '{key.name}'")
            if is_changing(value.sql):
                raise unsupported("GROUP BY of what is another each time", "put the query into a derived table")
            keys.append(f"{group_key(self.compilation, value)}{sort_collation(value)}")
        scope.clause = "field list"
        return " GROUP BY " + ", ".join(keys)

    def _position(self, slot: int, columns: Sequence[tuple[str, Typed]]) -> Typed:
        position = self.compilation.pin(slot)
        if not isinstance(position, int) or not 1 <= position <= len(columns):
            raise SqlError(1054, f"Unknown column '{position}' in 'group statement'")
        name, value = columns[position - 1]
        if value.aggregate:
            raise SqlError(1056, f"Can't group on '{name}'")
        return value

    def limit(self, node: exp.Expression) -> str:
        """LIMIT and OFFSET."""
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None:
            if offset is not None:
                raise syntax_error("OFFSET")
            return ""
        if not isinstance(limit, exp.Limit):
            raise unsupported("FETCH", "use LIMIT")
        refuse_parts(limit, frozenset(("expression", "offset")))
        empty = Scope()
        text = f" LIMIT {limit_value(self.expressions, self.expressions.compile(limit.args['expression'], empty))}"
        inner = limit.args.get("offset") or (offset.args["expression"] if offset is not None else None)
        if inner is not None:
            text += f" OFFSET {limit_value(self.expressions, self.expressions.compile(inner, empty))}"
        return text

    def _tail(self, node: exp.Expression, scope: Scope, columns: list[tuple[str, Typed]]) -> str:
        """ORDER BY and LIMIT of a set operation: only the result's columns can be named."""
        scope.aliases = {name.lower(): value for name, value in columns}
        order = order_by(self.expressions, node.args.get("order"), scope, columns, only_columns=True)
        return order + self.limit(node)

    def _set_operation(self, node: exp.Expression, scope: Scope | None, items: Sequence[ItemText]) -> Selected:
        """A chain of set operations: a column has one type in all of it, which all of them compare by."""
        members = _members(node)
        if len(members) > _UNION_MAX:
            raise unsupported(f"a UNION of more than {_UNION_MAX} queries", "split it")
        queries = [self.query(members[0], scope, items), *(self.query(one, scope) for one in members[1:])]
        if any(len(one.columns) != len(queries[0].columns) for one in queries):
            raise SqlError(1222, "The used SELECT statements have a different number of columns")
        columns = []
        for column in zip(*(one.columns for one in queries), strict=True):
            common_type = reduce(_common, (value.type for _, value in column))
            nullable = any(value.nullable for _, value in column)
            weight = sum(value.weight for _, value in column)
            columns.append(
                (column[0][0], Typed(quote(column[0][0]), common_type, nullable, collated=False, weight=weight))
            )
        parts = [self._branch(queries[0], columns, members[0], first=True)]
        for selected, member in zip(queries[1:], members[1:], strict=True):
            branch = self._branch(selected, columns, member)
            if self.recursive and isinstance(member, exp.Select) and branch != selected.sql:
                # SQLite finds a table that is being defined only in FROM itself, not in a table made of it.
                branch = self._select(member, scope, (), [value.type for _, value in columns]).sql
            parts += [_operator(member.parent), branch]
        return Selected(" ".join(parts) + self._tail(node, Scope(scope), columns), columns)

    def _branch(
        self, selected: Selected, columns: Sequence[tuple[str, Typed]], node: exp.Expression, first: bool = False
    ) -> str:
        """One side of a set operation, its values in the form of the common type.

        SQLite reads set operations from left to right and knows no parentheses around them. So a side that is not a
        plain SELECT becomes a table of its own, unless it is the first one: the left side is executed first.
        """
        same = all(
            one.type.kind is common.type.kind and one.type.scale == common.type.scale and one.carried is None
            for (_, one), (_, common) in zip(selected.columns, columns, strict=True)
        )
        same &= all(
            one.type.case_sensitive == common.type.case_sensitive
            for (_, one), (_, common) in zip(selected.columns, columns, strict=True)
            if common.type.kind in TEXTUAL
        )
        folded = any(
            sort_collation(common) and not one.collated
            for (_, one), (_, common) in zip(selected.columns, columns, strict=True)
        )
        if same and _is_plain(node) and not folded and (first or not _is_distinct(node)):
            return selected.sql
        alias = self.compilation.alias()
        outputs = []
        for position, ((_, value), (name, common)) in enumerate(zip(selected.columns, columns, strict=True)):
            inner = replace(value, sql=f"{alias}.c{position}", slot=None, unquoted=None)
            converted = coerce(self.compilation, inner, common.type)
            outputs.append(f"{converted.sql}{sort_collation(common)} AS {quote(name)}")
        names = ", ".join(f"c{position}" for position in range(len(columns)))
        source = f"(WITH {alias}({names}) AS ({selected.sql}) SELECT * FROM {alias}) AS {alias}"
        return f"SELECT {', '.join(outputs)} FROM {source}"

    def _lock(self, node: exp.Expression) -> RowLock | None:
        waits = [lock.args.get("wait") for lock in node.args.get("locks") or []]
        if not waits:
            return None
        if any(wait is True for wait in waits):
            return RowLock(0)
        slots = [slot_of(wait.name) for wait in waits if isinstance(wait, exp.Expression)]
        seconds = [self.compilation.pin(slot) for slot in slots if slot is not None]
        if any(type(one) is not int for one in seconds):
            raise syntax_error("WAIT")
        return RowLock(min(seconds)) if seconds else RowLock()

    def _is_single(self, node: exp.Expression, columns: Sequence[tuple[str, Typed]]) -> bool:
        if node.args.get("from_") is None:
            return True
        return node.args.get("group") is None and _has_aggregate(node)


def _is_plain(node: exp.Expression) -> bool:
    """A SELECT that may be part of a set operation unchanged, parentheses or not."""
    while isinstance(node, exp.Subquery) and not _own_tail(node):
        node = node.this
    return isinstance(node, exp.Select) and not _own_tail(node)


def _is_distinct(node: exp.Expression) -> bool:
    """SELECT DISTINCT: as the last of a chain, SQLite takes it for all of it where ORDER BY names a collation."""
    while isinstance(node, exp.Subquery):
        node = node.this
    return isinstance(node, exp.Select) and node.args.get("distinct") is not None


def _members(node: exp.Expression) -> list[exp.Expression]:
    """The queries of a chain from left to right: a left side without parentheses belongs to it."""
    members: list[exp.Expression] = []
    while isinstance(node, exp.SetOperation) and (not members or not _own_tail(node)):
        refuse_parts(node, _SET_PARTS)
        members.append(node.args["expression"])
        node = node.this
    return [node, *reversed(members)]


def _operator(node: object) -> str:
    assert isinstance(node, exp.SetOperation)
    word = _OPERATORS[type(node)] + ("" if node.args.get("distinct", True) else " ALL")
    if word in ("INTERSECT ALL", "EXCEPT ALL"):
        raise unsupported(word)
    return word


def _common(left: SqlType, right: SqlType) -> SqlType:
    """The type of a column of a set operation. An ENUM combined with NULL remains one, and sorts as one."""
    for one, other in ((left, right), (right, left)):
        if one.kind is Kind.NULL and other.kind is Kind.ENUM:
            return other
    return unify(left, right)


def _is_stored(node: exp.Expression) -> bool:
    """A derived table that MySQL writes into a temporary table, which stores only the digits that are shown."""
    if not isinstance(node.parent, (exp.CTE, exp.Subquery)):
        return False
    if isinstance(node.parent, exp.Subquery) and not isinstance(node.parent.parent, (exp.From, exp.Join)):
        return False
    return node.args.get("group") is not None or node.args.get("limit") is not None or _has_aggregate(node)


def _own_tail(node: exp.Expression) -> bool:
    return any(node.args.get(part) for part in ("with_", "order", "limit", "offset"))


def _renamed(selected: Selected) -> str:
    return f"WITH qg_value(c) AS ({selected.sql}) SELECT c FROM qg_value"


def _has_aggregate(node: exp.Expression) -> bool:
    """Whether a SELECT without GROUP BY is an aggregate of all its rows."""
    having = node.args.get("having")
    return any(_aggregates(item) for item in [*node.expressions, *([having] if having is not None else [])])


def _aggregates(item: exp.Expression) -> bool:
    """Whether an item of a SELECT has an aggregate that is its own, and no window function."""
    query = item.find_ancestor(exp.Select)
    calls: list[Any] = list(item.find_all(exp.AggFunc, exp.Anonymous))
    for call in calls:
        inside_window = call.find_ancestor(exp.Window) is not None
        plain = isinstance(call, exp.AggFunc) or aggregates.is_aggregate(call)
        if call.find_ancestor(exp.Select) is query and plain and not inside_window:
            return True
    return False


# A row that names large values again and again is as large as all of them, and no such large row was ever stored.
#
# A stored row has a limit of its own, so each of its columns may be selected once without being counted. What is
# selected beyond that counts toward the bytes that a statement's functions return.

FREE = 4  # items that repeat a value, or make one of others, before they are counted: a function call for each row
_SHORT = 65_535  # characters of an item that is not counted: what TEXT has


def counted_items(compilation: Compilation, columns: Sequence[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
    """The items of a select list as they are written; they are compared, sorted and grouped by as they were."""
    if compilation.inline or len(columns) <= FREE:
        return list(columns)
    seen: set[tuple[str, str]] = set()
    repeated = 0
    result: list[tuple[str, Typed]] = []
    for name, value in columns:
        if _is_large(value) and not _is_first(value, seen):
            repeated += 1
            if repeated > FREE:
                value = _counted(compilation, value)
        result.append((name, value))
    return result


def _is_large(value: Typed) -> bool:
    """A value that is bound is counted there, and our functions count what they return."""
    if value.slot is not None or value.sql.startswith("qg_"):
        return False
    return value.type.kind in TEXTUAL | {Kind.JSON, Kind.BINARY} and text_width(value.type) > _SHORT


def _is_first(value: Typed, seen: set[tuple[str, str]]) -> bool:
    if value.origin is None:
        return False
    column = (value.origin.table, value.origin.column.name)
    first = column not in seen
    seen.add(column)
    return first


def _counted(compilation: Compilation, value: Typed) -> Typed:
    collation = sort_collation(replace(value, collated=False))
    return replace(value, sql=f"{compilation.counted(value.sql)}{collation}", collated=True)

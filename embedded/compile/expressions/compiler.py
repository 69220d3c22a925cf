"""Expressions: from sqlglot's nodes to SQLite text with MySQL types. Handlers register themselves by node class.

The list is closed: a node without a handler, or with a part that its handler does not name, is refused with 1235.
So what sqlglot understands and we do not can never be answered wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from embedded.compile.budget import check_text
from embedded.compile.compilation import Compilation
from embedded.compile.errors import unsupported
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.subqueries import Subqueries
from embedded.compile.expressions.typed import NULL, Typed, slot_value, to_number, truth
from embedded.compile.text.literal_lifting import slot_of
from embedded.compile.values.types import BOOLEAN, DOUBLE, NUMERIC, Kind

Handler = Callable[["Expressions", exp.Expression, Scope], Typed]
H = TypeVar("H", bound=Handler)

_HANDLERS: dict[type[exp.Expression], tuple[Handler, frozenset[str]]] = {}
_IGNORED_PARTS = frozenset(("_type", "big_int", "coalesce", "safe", "nulls_first"))


def handles(*nodes: type[exp.Expression], parts: str = "") -> Callable[[H], H]:
    """Register a handler for these node classes; `parts` are the arguments that it understands."""

    def register(handler: H) -> H:
        for node in nodes:
            _HANDLERS[node] = (handler, frozenset(parts.split()) | _IGNORED_PARTS)
        return handler

    return register


class Expressions:
    """Compiles the expressions of one statement."""

    def __init__(self, compilation: Compilation, queries: Subqueries) -> None:
        self.compilation = compilation
        self.queries = queries

    def compile(self, node: exp.Expression, scope: Scope) -> Typed:
        """The expression in SQLite's words.

        Raises:
            SqlError: an unknown name, or a wrong use.
            UnsupportedSql: anything this dialect does not know.
        """
        handler, parts = _HANDLERS.get(type(node), (None, frozenset()))
        if handler is None:
            raise unsupported(f"{type(node).__name__} in an expression")
        refuse_parts(node, parts)
        self.compilation.budget.add_node()
        value = handler(self, node, scope)
        check_text(value.sql)
        return value

    def condition(self, node: exp.Expression, scope: Scope, clause: str) -> str:
        """A WHERE, ON or HAVING condition."""
        outer, scope.clause = scope.clause, clause
        try:
            return truth(self.compilation, self.compile(node, scope))
        finally:
            scope.clause = outer


def refuse_parts(node: exp.Expression, parts: frozenset[str]) -> None:
    """Refuse a node that has more to it than its handler knows."""
    for name, value in node.args.items():
        if value and name not in parts:
            raise unsupported(f"{name.strip('_').upper()} in {type(node).__name__.upper()}")


@handles(exp.Column, parts="this table db")
def _column(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    identifier, table = node.args["this"], node.args.get("table")
    if isinstance(identifier, exp.Star):
        raise unsupported("'*' inside an expression")
    name = x.compilation.name(identifier.name)
    value = scope.resolve(name, x.compilation.name(table.name) if table is not None else None)
    x.compilation.budget.add_copied(value.weight)
    return value


@handles(exp.Literal, parts="this is_string")
def _literal(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    slot = slot_of(node.name)
    if slot is None:
        raise unsupported(f"the literal {node.name}")
    return slot_value(x.compilation, slot)


@handles(exp.Paren, parts="this")
def _paren(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value = x.compile(node.this, scope)
    return value if value.slot is not None else replace(value, sql=f"({value.sql})")


@handles(exp.Neg, parts="this")
def _negative(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    inner = x.compile(node.this, scope)
    if inner.slot is not None and inner.type.kind in NUMERIC | {Kind.EXACT} and x.compilation.kinds[inner.slot] != "q":
        return slot_value(x.compilation, inner.slot, not inner.negative)
    if inner.type.kind is Kind.EXACT:
        negated = x.compilation.function(f"qg_exact_negate({inner.sql})")
        return Typed(negated, inner.type, inner.nullable, carried=inner.carried)
    number = to_number(x.compilation, inner)
    if number.type.kind is Kind.NULL:
        return replace(number, type=DOUBLE)
    return Typed(f"(- {number.sql})", replace(number.type, unsigned=False), number.nullable)


@handles(exp.Null)
def _null(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return NULL


@handles(exp.Boolean, parts="this")
def _boolean(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return Typed("1" if node.this else "0", BOOLEAN, nullable=False)


@handles(exp.PropertyEQ, parts="this expression")
def _assignment(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    raise unsupported("assigning variables inside a query", "use SET")


def call_name(node: exp.Expression) -> str:
    """The name of a function call."""
    return str(node.this).lower()

"""Predicates: comparisons, IN, BETWEEN, LIKE, REGEXP, IS, EXISTS, CASE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions.comparison import Pair, collation_of, comparable
from embedded.compile.expressions.compiler import Expressions, handles
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.stored_operands import with_stored_operands
from embedded.compile.expressions.typed import Typed, chosen, to_number, to_text, truth
from embedded.compile.text.literal_lifting import syntax_error
from embedded.compile.values.types import BOOLEAN, NULL_TYPE, NUMERIC, TEXTUAL, Kind, compared_by_bytes, unify

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS",
}


@handles(*_OPERATORS, parts="this expression")
def _comparison(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    left, right, operator = node.this, node.args["expression"], _OPERATORS[type(node)]
    if isinstance(right, (exp.Any, exp.All)):
        return _quantified(x, node, scope)
    if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
        return _rows(x, operator, _row(x, left, scope), _row(x, right, scope))
    return compare(x, operator, x.compile(left, scope), x.compile(right, scope))


def compare(x: Expressions, operator: str, left: Typed, right: Typed) -> Typed:
    """One comparison."""
    pair = comparable(x.compilation, left, right)
    nullable = operator != "IS" and (left.nullable or right.nullable)
    return Typed(f"({pair.left}{pair.collation} {operator} {pair.right})", BOOLEAN, nullable)


def _row(x: Expressions, node: exp.Expression, scope: Scope) -> list[Typed]:
    if isinstance(node, exp.Paren):
        return _row(x, node.this, scope)
    if not isinstance(node, exp.Tuple):
        raise SqlError(1241, "Operand should contain 1 column(s)")
    return [x.compile(part, scope) for part in node.expressions]


def _rows(x: Expressions, operator: str, left: Sequence[Typed], right: Sequence[Typed]) -> Typed:
    if len(left) != len(right):
        raise SqlError(1241, f"Operand should contain {len(left)} column(s)")
    equal = "IS" if operator == "IS" else "="
    if operator in ("=", "IS", "<>"):
        parts = [compare(x, equal, one, other).sql for one, other in zip(left, right, strict=True)]
        text = f"({' AND '.join(parts)})"
        return Typed(f"(NOT {text})" if operator == "<>" else text, BOOLEAN)
    return with_stored_operands(
        x, [*left, *right], lambda known: _ordered(x, operator, known[: len(left)], known[len(left) :])
    )


def _ordered(x: Expressions, operator: str, left: Sequence[Typed], right: Sequence[Typed]) -> Typed:
    """(a, b) < (c, d): by the first that differ."""
    strict = operator.rstrip("=")
    sql = compare(x, operator, left[-1], right[-1]).sql
    for one, other in list(zip(left, right, strict=True))[-2::-1]:
        sql = f"({compare(x, strict, one, other).sql} OR ({compare(x, '=', one, other).sql} AND {sql}))"
    return Typed(sql, BOOLEAN)


def _quantified(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    right = node.args["expression"]
    inside = isinstance(node, exp.EQ) and isinstance(right, exp.Any)
    outside = isinstance(node, exp.NEQ) and isinstance(right, exp.All)
    if not (inside or outside):
        return _compared_with_each(x, node, scope)
    member = _in_query(x, node.this, right.this, scope)
    return member if inside else Typed(f"(NOT {member.sql})", BOOLEAN)


def _compared_with_each(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    """value > ALL (query), value < ANY (query): true, false or unknown by all rows together."""
    right = node.args["expression"]
    value = x.compile(node.this, scope)
    sub = x.queries.subquery(right.this, scope)
    if len(sub.columns) != 1:
        raise SqlError(1241, "Operand should contain 1 column(s)")
    alias = x.compilation.alias()
    test = compare(x, _OPERATORS[type(node)], value, Typed(f"{alias}.c", sub.columns[0][1].type))
    rows = f"(WITH {alias}(c) AS ({sub.sql}) SELECT {test.sql} AS r FROM {alias})"
    aggregate, decided, otherwise = ("MIN", 0, 1) if isinstance(right, exp.All) else ("MAX", 1, 0)
    cases = (
        f"CASE WHEN {aggregate}(r) = {decided} THEN {decided} WHEN COUNT(*) > COUNT(r) THEN NULL ELSE {otherwise} END"
    )
    return Typed(f"(SELECT {cases} FROM {rows})", BOOLEAN)


@handles(exp.In, parts="this expressions query")
def _in(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    query = node.args.get("query")
    if query is not None:
        return _in_query(x, node.this, query, scope)
    if not node.expressions:
        raise syntax_error(")")
    if isinstance(node.this, exp.Tuple):
        left, rows = _row(x, node.this, scope), [_row(x, row, scope) for row in node.expressions]
        return with_stored_operands(x, left, lambda known: _row_in(x, known, rows))
    value = x.compile(node.this, scope)
    return is_one_of(x, value, [x.compile(item, scope) for item in node.expressions])


def _row_in(x: Expressions, left: Sequence[Typed], rows: Sequence[Sequence[Typed]]) -> Typed:
    return Typed(f"({' OR '.join(_rows(x, '=', left, row).sql for row in rows)})", BOOLEAN)


def is_one_of(x: Expressions, value: Typed, items: Sequence[Typed]) -> Typed:
    """value IN (items)."""
    return with_stored_operands(x, (value,), lambda known: _one_of(x, known[0], items))


def _one_of(x: Expressions, value: Typed, items: Sequence[Typed]) -> Typed:
    if all(one.type.kind in TEXTUAL for one in (value, *items)):
        value = _collated(value, *items)
    pairs = [comparable(x.compilation, value, item) for item in items]
    if not value.collated and all(one.type.kind in TEXTUAL for one in (value, *items)):
        # In a list SQLite uses only the collation of the left side, also where an item is a column.
        binary = compared_by_bytes(*(one.type for one in (value, *items)))
        pairs = [replace(pair, collation=f" COLLATE {'BINARY' if binary else 'NOCASE'}") for pair in pairs]
    nullable = value.nullable or any(item.nullable for item in items)
    if all(pair.left == pairs[0].left and pair.collation == pairs[0].collation for pair in pairs):
        members = ", ".join(pair.right for pair in pairs)
        return Typed(f"({pairs[0].left}{pairs[0].collation} IN ({members}))", BOOLEAN, nullable)
    tests = (f"{pair.left}{pair.collation} = {pair.right}" for pair in pairs)
    return Typed(f"({' OR '.join(tests)})", BOOLEAN, nullable)


def _in_query(x: Expressions, left: exp.Expression, query: exp.Expression, scope: Scope) -> Typed:
    values = _row(x, left, scope) if isinstance(left, exp.Tuple) else [x.compile(left, scope)]
    sub = x.queries.subquery(query, scope)
    if len(sub.columns) != len(values):
        raise SqlError(1241, f"Operand should contain {len(values)} column(s)")
    alias = x.compilation.alias()
    inner = [Typed(f"{alias}.c{i}", one.type, unquoted=None) for i, (_, one) in enumerate(sub.columns)]
    pairs = [comparable(x.compilation, one, other) for one, other in zip(values, inner, strict=True)]
    left_side = ", ".join(f"{pair.left}{pair.collation}" for pair in pairs)
    left_side = left_side if len(pairs) == 1 else f"({left_side})"
    if all(pair.right == one.sql for pair, one in zip(pairs, inner, strict=True)):
        return Typed(f"({left_side} IN ({sub.sql}))", BOOLEAN)
    names, outputs = (
        ", ".join(texts) for texts in ((f"c{i}" for i in range(len(inner))), (pair.right for pair in pairs))
    )
    return Typed(f"({left_side} IN (WITH {alias}({names}) AS ({sub.sql}) SELECT {outputs} FROM {alias}))", BOOLEAN)


@handles(exp.Between, parts="this low high")
def _between(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value = x.compile(node.this, scope)
    low, high = x.compile(node.args["low"], scope), x.compile(node.args["high"], scope)
    return with_stored_operands(x, (value,), lambda known: _within(x, known[0], low, high))


def _within(x: Expressions, value: Typed, low: Typed, high: Typed) -> Typed:
    kinds = {value.type.kind, low.type.kind, high.type.kind}
    if kinds & NUMERIC and kinds & TEXTUAL and kinds <= NUMERIC | TEXTUAL:
        value, low, high = (to_number(x.compilation, one) for one in (value, low, high))
    if kinds <= TEXTUAL:
        value = _collated(value, low, high)
    above, below = comparable(x.compilation, value, low), comparable(x.compilation, value, high)
    nullable = value.nullable or low.nullable or high.nullable
    if above.left == below.left and above.collation == below.collation:
        return Typed(f"({above.left}{above.collation} BETWEEN {above.right} AND {below.right})", BOOLEAN, nullable)
    return Typed(f"({_test(above, '>=')} AND {_test(below, '<=')})", BOOLEAN, nullable)


def _test(pair: Pair, operator: str) -> str:
    return f"{pair.left}{pair.collation} {operator} {pair.right}"


@handles(exp.Like, parts="this expression negate")
def _like(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    escape = "''" if x.compilation.modes.no_backslash_escapes else "'\\'"
    return _like_with(x, node, escape, scope)


@handles(exp.Escape, parts="this expression")
def _like_escape(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    like = node.this
    if not isinstance(like, exp.Like):
        raise unsupported("ESCAPE here")
    escape = x.compile(node.args["expression"], scope)
    return _like_with(x, like, escape.sql, scope)


def _like_with(x: Expressions, node: exp.Expression, escape: str, scope: Scope) -> Typed:
    value, pattern = x.compile(node.this, scope), x.compile(node.args["expression"], scope)
    left, right = to_text(x.compilation, value), to_text(x.compilation, pattern)
    if is_case_sensitive(value, pattern):
        sql = x.compilation.function(f"qg_like({left}, {right}, {escape}, 1)")
    elif escape != "'\\'":
        sql = x.compilation.function(f"qg_like({left}, {right}, {escape}, 0)")
    else:
        sql = f"({left} LIKE {right} ESCAPE '\\')"
    return Typed(f"(NOT {sql})" if node.args.get("negate") else sql, BOOLEAN, value.nullable or pattern.nullable)


def _collated(value: Typed, *others: Typed) -> Typed:
    """The value as it is compared with all others: byte by byte if one of them is."""
    binary = compared_by_bytes(*(one.type for one in (value, *others)))
    if not binary or (value.collated and value.type.case_sensitive):
        return value
    sql_type = replace(value.type, collation="utf8mb4_bin")
    return Typed(f"({value.sql} COLLATE BINARY)", sql_type, value.nullable, collated=True)


def is_case_sensitive(*values: Typed) -> bool:
    """Whether text functions on these must distinguish upper and lower case."""
    if any(value.type.kind in (Kind.BINARY, Kind.BIT) for value in values):
        return True
    return "BINARY" in collation_of(*(_uncollated(value) for value in values))


def _uncollated(value: Typed) -> Typed:
    return Typed(value.sql, value.type)


@handles(exp.RegexpLike, exp.RegexpILike, parts="this expression")
def _regexp(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value, pattern = x.compile(node.this, scope), x.compile(node.args["expression"], scope)
    flags = "'c'" if is_case_sensitive(value, pattern) else "'i'"
    left, right = to_text(x.compilation, value), to_text(x.compilation, pattern)
    return Typed(x.compilation.function(f"qg_regexp_like({left}, {right}, {flags})"), BOOLEAN)


@handles(exp.Is, parts="this expression")
def _is(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value, what = x.compile(node.this, scope), node.args["expression"]
    if isinstance(what, exp.Null):
        return Typed(f"({value.sql} IS NULL)", BOOLEAN, nullable=False)
    if isinstance(what, exp.Boolean):
        return Typed(f"({truth(x.compilation, value)} IS {'TRUE' if what.this else 'FALSE'})", BOOLEAN, nullable=False)
    raise unsupported("IS with this operand")


@handles(exp.Exists, parts="this")
def _exists(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return Typed(f"(EXISTS ({x.queries.subquery(node.this, scope).sql}))", BOOLEAN, nullable=False)


@handles(exp.Case, parts="this ifs default")
def _case(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    subject = x.compile(node.this, scope) if node.this is not None else None
    tests, results = [], []
    for branch in node.args["ifs"]:
        tests.append(x.compile(branch.this, scope))
        results.append(x.compile(branch.args["true"], scope))
    default = x.compile(node.args["default"], scope) if node.args.get("default") is not None else None
    if subject is None:
        return choose(x, [truth(x.compilation, test) for test in tests], results, default)

    def build(known: Sequence[Typed]) -> Typed:
        return choose(x, [compare(x, "=", known[0], test).sql for test in tests], results, default)

    return with_stored_operands(x, (subject,), build)


def choose(x: Expressions, conditions: Sequence[str], results: Sequence[Typed], default: Typed | None) -> Typed:
    """CASE WHEN, its branches brought to one type."""
    branches = [*results, *([default] if default is not None else [])]
    target = reduce(unify, (branch.type for branch in branches), NULL_TYPE)
    values, carried = chosen(x.compilation, branches, target)
    whens = "".join(f" WHEN {test} THEN {value.sql}" for test, value in zip(conditions, values, strict=False))
    last = f" ELSE {values[-1].sql}" if default is not None else ""
    nullable = default is None or any(value.nullable for value in values)
    return Typed(f"(CASE{whens}{last} END)", target, nullable, carried=carried)

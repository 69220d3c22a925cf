"""Aggregate and window functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from embedded.compile.errors import unsupported
from embedded.compile.expressions import decimals
from embedded.compile.expressions.comparison import group_key, sort_collation, sort_key
from embedded.compile.expressions.compiler import Expressions, call_name, handles, refuse_parts
from embedded.compile.expressions.functions import define
from embedded.compile.expressions.functions_json import json_value
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.stored_operands import SHORT, with_stored_operands
from embedded.compile.expressions.typed import OVER_MARK, Typed, chosen, shown, to_integer, to_number, to_text
from embedded.compile.functions.exact_numbers import quotient_decimals
from embedded.compile.text.keywords import keywords
from embedded.compile.values.types import (
    BIGINT,
    BITS,
    BLOB,
    DOUBLE,
    JSON,
    TEXT,
    TEXTUAL,
    Kind,
    decimal,
    digits,
    exact_type,
    joint_collation,
    text_type,
    text_width,
    unify,
)

_AVG_DECIMALS = 4  # that AVG has more than its column
_CRASHING = ("qg_exact_sum(", "qg_sum_and_count(")
_SUM_DIGITS = 22  # what MySQL adds to the precision of a summed column


def _distinct(node: exp.Expression) -> tuple[str, list[exp.Expression]]:
    argument = node.this
    if isinstance(argument, exp.Distinct):
        return "DISTINCT ", list(argument.expressions)
    return "", [argument, *node.expressions]


@handles(exp.Count, parts="this expressions")
def _count(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    distinct, arguments = _distinct(node)
    if isinstance(node.this, exp.Star) and not node.expressions:
        return Typed("COUNT(*)", BIGINT, nullable=False, aggregate=True)
    values = [x.compile(argument, scope) for argument in arguments]
    if len(values) == 1:
        collation = sort_collation(values[0]) if distinct else ""
        return Typed(
            f"COUNT({distinct}{shown(x.compilation, values[0])}{collation})", BIGINT, nullable=False, aggregate=True
        )
    if not distinct:
        raise unsupported("COUNT of several columns without DISTINCT")
    values = [replace(value, sql=_folded(x, value)) for value in values]
    sql = f"COUNT(DISTINCT {with_stored_operands(x, values, _together).sql} COLLATE BINARY)"
    return Typed(sql, BIGINT, nullable=False, aggregate=True)


def _folded(x: Expressions, value: Typed) -> str:
    """What is the same for values that compare as equal."""
    folds = value.type.kind in TEXTUAL and not value.type.case_sensitive
    return f"lower({value.sql})" if folds else shown(x.compilation, value)


def _together(values: Sequence[Typed]) -> Typed:
    """Values as one text, different for different ones; NULL where one of them is."""
    nulls = " OR ".join(f"{value.sql} IS NULL" for value in values)
    joined = " || ',' || ".join(f"quote({value.sql})" for value in values)
    return Typed(f"CASE WHEN {nulls} THEN NULL ELSE {joined} END", TEXT)


@handles(exp.Sum, parts="this expressions")
def _sum(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    distinct, arguments = _distinct(node)
    operand = decimals.operand(x, x.compile(arguments[0], scope))
    if operand.type.kind is Kind.EXACT:
        result = replace(operand.type, size=min(65, digits(operand.type) + _SUM_DIGITS))
        sql = x.compilation.function(f"qg_exact_sum({distinct}{operand.sql})")
        return Typed(sql, result, aggregate=True, windowed=f"{sql}{OVER_MARK}", carried=operand.carried)
    value = to_number(x.compilation, operand)
    if value.type.kind in (Kind.DOUBLE, Kind.UNKNOWN, Kind.NULL):
        return Typed(f"SUM({distinct}{value.sql})", DOUBLE, aggregate=True)
    scale = value.type.scale
    result = decimal(digits(value.type) + _SUM_DIGITS, scale)
    if scale == 0:
        # Whole numbers that overflowed are floating-point ones by now, which a CAST would hide.
        number = value.sql if value.type.kind is Kind.INT else f"CAST({value.sql} AS INTEGER)"
        return Typed(f"SUM({distinct}{number})", result, aggregate=True)
    # Summed as whole numbers, which is exact; SQLite reports an overflow instead of rounding.
    whole = f"SUM({distinct}CAST(ROUND({value.sql} * 1e{scale}) AS INTEGER))"
    if x.compilation.inline:
        return Typed(x.compilation.function(f"qg_scaled({whole}, {scale})"), result, aggregate=True)
    windowed = f"qg_exact_scaled({whole}{OVER_MARK}, {scale})"
    return Typed(
        f"qg_exact_scaled({whole}, {scale})",
        exact_type(result.size or 10, scale),
        aggregate=True,
        windowed=windowed,
    )


@handles(exp.Avg, parts="this")
def _avg(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return _average(x, node, scope, once=False)


def _average(x: Expressions, node: exp.Expression, scope: Scope, once: bool) -> Typed:
    """AVG. `once`: by one of our aggregates; else by SQLite's own sum and count, where its operand is short."""
    distinct, arguments = _distinct(node)
    value = decimals.operand(x, x.compile(arguments[0], scope))
    if value.type.kind in (Kind.DOUBLE, Kind.UNKNOWN, Kind.NULL):
        return Typed(f"AVG({distinct}{value.sql})", DOUBLE, aggregate=True)
    scale = 0 if value.type.kind is Kind.EXACT else value.type.scale
    rounded = f"ROUND({value.sql} * 1e{scale})" if scale else value.sql
    number = value.sql if value.type.kind is Kind.EXACT else f"CAST({rounded} AS INTEGER)"
    carried = quotient_decimals(decimals.decimals_of(value), 0, _AVG_DECIMALS)
    if once or len(number) > SHORT:
        windowed = f"qg_average_of(qg_sum_and_count({distinct}{number}){OVER_MARK}, {scale}, {carried})"
    else:
        total = f"{'qg_exact_sum' if value.type.kind is Kind.EXACT else 'SUM'}({distinct}{number}){OVER_MARK}"
        windowed = f"qg_exact_average({total}, {scale}, COUNT({distinct}{value.sql}){OVER_MARK}, {carried})"
    return Typed(
        x.compilation.function(windowed.replace(OVER_MARK, "")),
        exact_type(digits(value.type) + _AVG_DECIMALS, value.type.scale + _AVG_DECIMALS),
        aggregate=True,
        windowed=windowed,
        carried=carried,
    )


@handles(exp.Min, exp.Max, parts="this")
def _extreme(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    _, arguments = _distinct(node)
    value = x.compile(arguments[0], scope)
    name = "MIN" if isinstance(node, exp.Min) else "MAX"
    if value.type.kind is Kind.JSON:
        return Typed(x.compilation.function(f"qg_json_{name.lower()}({value.sql})"), JSON, aggregate=True)
    value = _as_text(value)
    sql = f"{name}({value.sql}{sort_collation(value)})"
    return Typed(sql, value.type, aggregate=True, unquoted=None, carried=value.carried)


@handles(exp.GroupConcat, parts="this separator")
def _group_concat(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    inner, separator = node.this, node.args.get("separator")
    order = None
    if isinstance(inner, exp.Order):
        order, inner = inner.expressions, inner.this
    distinct = isinstance(inner, exp.Distinct)
    parts = list(inner.expressions) if distinct else [inner]
    values = [x.compile(part, scope) for part in parts]
    binary = any(value.type.kind is Kind.BINARY for value in values)
    if binary and len(values) > 1:
        raise unsupported("GROUP_CONCAT of bytes beside others", "use CONCAT(), or HEX()")
    text = " || ".join(to_text(x.compilation, value) for value in values)
    between = to_text(x.compilation, x.compile(separator, scope)) if separator is not None else "','"
    folded = int(any(value.type.kind in TEXTUAL and not value.type.case_sensitive for value in values))
    arguments = [text, between, str(int(distinct)), str(folded)]
    for item in order or ():
        value = x.compile(item.this, scope)
        sign = -1 if item.args.get("desc") else 1
        arguments += [sort_key(x.compilation, value), str(sign * (2 if value.type.case_sensitive else 1))]
    result = BLOB if binary else replace(TEXT, collation=joint_collation(*(value.type for value in values)))
    return Typed(x.compilation.function(f"qg_group_concat({', '.join(arguments)})"), result, aggregate=True)


def _numbers(name: str, names: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        number = to_number(x.compilation, values[0]).sql
        return Typed(x.compilation.function(f"qg_{name}({number})"), DOUBLE, aggregate=True)

    define(names, 1, 1, build)


def _bit_aggregate(name: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        number = to_integer(x.compilation, values[0])
        sql = x.compilation.function(f"qg_{name}({number})")
        none = -1 if name == "bit_and" else 0  # all bits, or none of them, of no rows
        return Typed(f"COALESCE({sql}, {none})", BITS, nullable=False, aggregate=True)

    define(name, 1, 1, build)


def _json_array(x: Expressions, values: list[Typed]) -> Typed:
    item = f"json({json_value(x, values[0])})"
    if x.compilation.inline:
        return Typed(f"json_group_array({item})", JSON, aggregate=True)
    windowed = f"json_group_array({item}){OVER_MARK}"
    return Typed(x.compilation.function(f"qg_json_arrayagg({item})"), JSON, aggregate=True, windowed=windowed)


def _json_object(x: Expressions, values: list[Typed]) -> Typed:
    key = to_text(x.compilation, values[0])
    item = f"json({json_value(x, values[1])})"
    if x.compilation.inline:
        return Typed(f"json_group_object({key}, {item})", JSON, aggregate=True)
    windowed = f"json_group_object({key}, {item}){OVER_MARK}"
    return Typed(x.compilation.function(f"qg_json_objectagg({key}, {item})"), JSON, aggregate=True, windowed=windowed)


def _any_value(x: Expressions, values: list[Typed]) -> Typed:
    return replace(values[0], origin=None)


_WINDOW_ONLY = {
    "row_number": BIGINT,
    "rank": BIGINT,
    "dense_rank": BIGINT,
    "ntile": BIGINT,
    "percent_rank": DOUBLE,
    "cume_dist": DOUBLE,
}


def _as_text(value: Typed) -> Typed:
    """An ENUM that a function yields is a text, and sorts as one."""
    if value.type.kind is not Kind.ENUM:
        return value
    return replace(value, type=text_type(text_width(value.type), value.type.collation), collated=False)


def _window_function(name: str, fewest: int, most: int) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        if name in _WINDOW_ONLY:
            return Typed(f"{name}({', '.join(value.sql for value in values)})", _WINDOW_ONLY[name], aggregate=True)
        value, *others = values
        target, carried = _as_text(value).type, value.carried
        if len(values) > 2:  # LAG and LEAD with a default, of which either may be the result
            target = unify(target, values[2].type)
            (value, default), carried = chosen(x.compilation, [value, values[2]], target)
            others = [values[1], default]
        sql = f"{name}({', '.join(one.sql for one in (value, *others))})"
        return Typed(sql, target, aggregate=True, carried=carried)

    define(name, fewest, most, build)


@handles(exp.Window, parts="this partition_by order spec over alias first")
def _window(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    name = node.args.get("alias")
    over = x.compilation.name(name.name) if name is not None else f"({window_text(x, node, scope)})"
    if isinstance(node.this, exp.Avg):
        refuse_parts(node.this, frozenset(["this"]))
        value = _average(x, node.this, scope, once=len(over) > SHORT)
    else:
        value = x.compile(node.this, scope)
    if isinstance(node.this.this, exp.Distinct):
        raise unsupported("DISTINCT in a window function")
    if value.windowed is None and value.sql.startswith(("qg_", "COALESCE(qg_")):
        raise unsupported(f"{call_name(node.this).upper()} as a window function")
    if any(own in (value.windowed or "") for own in _CRASHING) and _may_be_empty(node):
        # Python's sqlite3 module crashes when it reads the value of a function that got no row.
        raise unsupported("this frame, which may have no row, for DECIMAL of more than 15 digits", "CAST to DOUBLE")
    if value.windowed is not None:
        return Typed(value.windowed.replace(OVER_MARK, f" OVER {over}"), value.type)
    return Typed(f"{value.sql} OVER {over}", value.type, carried=value.carried)


def _may_be_empty(node: exp.Expression) -> bool:
    """Whether the frame of a window function begins after its row, or ends before it."""
    specs = [node.args.get("spec")]
    query = node.find_ancestor(exp.Select)
    if node.args.get("alias") is not None and query is not None:
        specs += [window.args.get("spec") for window in query.args.get("windows") or ()]
    return any(
        spec is not None and (spec.args.get("end_side") == "PRECEDING" or spec.args.get("start_side") == "FOLLOWING")
        for spec in specs
    )


def window_text(x: Expressions, node: exp.Expression, scope: Scope) -> str:
    """The text in the parentheses of OVER (...) or WINDOW w AS (...)."""
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        keys = (x.compile(key, scope) for key in partition)
        parts.append(
            "PARTITION BY " + ", ".join(f"{group_key(x.compilation, key)}{sort_collation(key)}" for key in keys)
        )
    order = node.args.get("order")
    if order is not None:
        parts.append("ORDER BY " + ", ".join(_order_item(x, item, scope) for item in order.expressions))
    spec = node.args.get("spec")
    if spec is not None:
        parts.append(_frame(x, spec, scope))
    return " ".join(parts)


def _order_item(x: Expressions, item: exp.Expression, scope: Scope) -> str:
    key = x.compile(item.this, scope)
    return f"{sort_key(x.compilation, key)}{sort_collation(key)}{' DESC' if item.args.get('desc') else ''}"


def _frame(x: Expressions, spec: exp.Expression, scope: Scope) -> str:
    start = _bound(x, spec.args.get("start"), spec.args.get("start_side"), scope)
    end = _bound(x, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), scope)
    return f"{spec.args.get('kind')} BETWEEN {start} AND {end}"


def _bound(x: Expressions, bound: object, side: object, scope: Scope) -> str:
    text = x.compile(bound, scope).sql if isinstance(bound, exp.Expression) else str(bound)
    return f"{text} {side}" if side else text


_numbers("std", "std stddev stddev_pop")
_numbers("stddev_samp", "stddev_samp")
_numbers("var_pop", "variance var_pop")
_numbers("var_samp", "var_samp")
_bit_aggregate("bit_and")
_bit_aggregate("bit_or")
_bit_aggregate("bit_xor")
define("json_arrayagg", 1, 1, _json_array)
define("json_objectagg", 2, 2, _json_object)
define("any_value", 1, 1, _any_value)
for _name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"):
    _window_function(_name, 0, 0)
_window_function("ntile", 1, 1)
_window_function("lag", 1, 3)
_window_function("lead", 1, 3)
_window_function("first_value", 1, 1)
_window_function("last_value", 1, 1)
_window_function("nth_value", 2, 2)


_AGGREGATES = keywords(
    "std stddev stddev_pop stddev_samp variance var_pop var_samp bit_and bit_or bit_xor json_arrayagg json_objectagg"
)


def is_aggregate(node: exp.Expression) -> bool:
    """Whether a plain call is one of the aggregates above."""
    return call_name(node) in _AGGREGATES

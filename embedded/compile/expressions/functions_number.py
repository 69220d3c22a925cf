"""Numeric, choice and session functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions import decimals
from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.decimals import operand
from embedded.compile.expressions.functions import counted, define, simple
from embedded.compile.expressions.operators import remainder
from embedded.compile.expressions.predicates import choose, compare
from embedded.compile.expressions.stored_operands import with_stored_operands
from embedded.compile.expressions.typed import Typed, chosen, rebind, to_integer, truth
from embedded.compile.values.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    NULL_TYPE,
    NUMERIC,
    TEXTUAL,
    UNSIGNED_BIGINT,
    Kind,
    decimal,
    digits,
    unify,
    varbinary,
    varchar,
)

_DOUBLE_DIGITS = 15  # decimals that a floating-point number is shown with at most
_BIGINT_DIGITS = 19  # a DECIMAL with as many digits before the point stays one when it is rounded


def _round(function: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        value = operand(x, values[0])
        places = _constant_places(x, values[1]) if len(values) > 1 else 0
        exact = value.type.kind is not Kind.DOUBLE
        if value.type.kind in (Kind.INT, Kind.YEAR, Kind.BITS) and places is not None and places >= 0:
            return value
        shown = "NULL" if places is None else str(places)
        if places is None:
            shown = to_integer(x.compilation, values[1])
        if value.type.kind is Kind.EXACT:
            scale = value.type.scale if places is None else max(0, min(places, 30))
            return decimals.rounded(x, value, function, shown, scale)
        if x.compilation.inline and function == "round" and places is not None and places >= 0:
            sql = f"ROUND({value.sql}, {places})"
        else:
            sql = x.compilation.function(f"qg_{function}({value.sql}, {shown}, {int(exact)})")
        if not exact:
            return Typed(sql, replace(DOUBLE, scale=max(0, min(places or 0, _DOUBLE_DIGITS))))
        if value.type.kind is Kind.DECIMAL:
            scale = value.type.scale if places is None else max(0, min(places, 30))
            return Typed(sql, decimal(digits(value.type) - value.type.scale + scale + 1, scale))
        return Typed(sql, BIGINT)

    define(f"{function}", 1, 2, build)


def _constant_places(x: Expressions, value: Typed) -> int | None:
    """The number of decimals where it is a literal; it shapes the result's type."""
    if value.slot is None or value.type.kind is not Kind.INT:
        return None
    number = int(x.compilation.pin(value.slot))
    return -number if value.negative else number


def _whole(function: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        value = operand(x, values[0])
        if value.type.kind in (Kind.INT, Kind.YEAR, Kind.BITS):
            return value
        whole = digits(value.type) - value.type.scale
        if value.type.kind is Kind.EXACT:
            return decimals.whole(x, value, function, whole < _BIGINT_DIGITS)
        if value.type.kind is Kind.DECIMAL:
            result = BIGINT if whole < _BIGINT_DIGITS else decimal(whole, 0)
            return Typed(f"CAST({function}({value.sql}) AS INTEGER)", result)
        return Typed(f"{function}({value.sql})", DOUBLE)

    define("ceil ceiling" if function == "ceil" else function, 1, 1, build)


def _abs(x: Expressions, values: list[Typed]) -> Typed:
    value = operand(x, values[0])
    if value.type.kind is Kind.EXACT:
        sql = x.compilation.function(f"qg_exact_absolute({value.sql})")
        return Typed(sql, value.type, value.nullable, carried=value.carried)
    return Typed(f"abs({value.sql})", value.type, value.nullable)


def _mod(x: Expressions, values: list[Typed]) -> Typed:
    return remainder(x, values[0], values[1])


def _if(x: Expressions, values: list[Typed]) -> Typed:
    return choose(x, [truth(x.compilation, values[0])], [values[1]], values[2])


def _ifnull(x: Expressions, values: list[Typed]) -> Typed:
    target = reduce(unify, (value.type for value in values), NULL_TYPE)
    parts, carried = chosen(x.compilation, values, target)
    nullable = all(value.nullable for value in values)
    if len(parts) == 1:
        return replace(parts[0], origin=None)
    return Typed(f"COALESCE({', '.join(part.sql for part in parts)})", target, nullable, carried=carried)


def _nullif(x: Expressions, values: list[Typed]) -> Typed:
    def build(known: Sequence[Typed]) -> Typed:
        test = compare(x, "=", known[0], values[1])
        return Typed(f"(CASE WHEN {test.sql} THEN NULL ELSE {known[0].sql} END)", values[0].type)

    return replace(with_stored_operands(x, values[:1], build), carried=values[0].carried)


def _isnull(x: Expressions, values: list[Typed]) -> Typed:
    return Typed(f"({values[0].sql} IS NULL)", BOOLEAN, nullable=False)


def _extreme(operator: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        """SQLite's max() of several values compares texts by the first one's collation and returns NULL for a NULL."""
        target = reduce(unify, (value.type for value in values), NULL_TYPE)
        if target.kind not in NUMERIC | {Kind.EXACT} and any(value.type.kind in NUMERIC for value in values):
            target = DOUBLE
        parts, carried = chosen(x.compilation, values, target)
        binary = " COLLATE BINARY" if target.case_sensitive else " COLLATE NOCASE"
        collation = binary if target.kind in TEXTUAL else ""
        rest = ", ".join(part.sql for part in parts[1:])
        nullable = any(value.nullable for value in values)
        sql = f"{operator}({parts[0].sql}{collation}, {rest})"
        sql = counted(x, sql, values) if target.kind in TEXTUAL | {Kind.BINARY} else sql
        return Typed(sql, target, nullable, carried=carried)

    define("greatest" if operator == "max" else "least", 2, None, build)


def _last_insert_id(x: Expressions, values: list[Typed]) -> Typed:
    if not values:
        return Typed(x.compilation.dynamic("last_insert_id"), UNSIGNED_BIGINT, nullable=False)
    value = to_integer(x.compilation, values[0])
    return Typed(x.compilation.function(f"qg_set_last_insert_id({value})"), UNSIGNED_BIGINT)


def _session(names: str, sql_type: object) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        return Typed(x.compilation.dynamic(names.split()[0]), sql_type, nullable=False)  # type: ignore[arg-type]

    define(names, 0, 0, build)


def _rand(x: Expressions, values: list[Typed]) -> Typed:
    if values:
        raise unsupported("RAND(seed)", "use RAND()")
    return Typed(x.compilation.function("qg_rand()"), DOUBLE, nullable=False)


def _default(x: Expressions, values: list[Typed]) -> Typed:
    raise unsupported("DEFAULT(column)", "write the default's value")


def char(x: Expressions, values: list[Typed]) -> Typed:
    codes = ", ".join(to_integer(x.compilation, value) for value in values)
    return Typed(x.compilation.function(f"qg_char({codes})"), varbinary(4 * len(values)))


def limit_value(x: Expressions, value: Typed) -> str:
    """A LIMIT or OFFSET: a whole number that is not negative."""
    if value.slot is None:
        raise unsupported("an expression in LIMIT", "use a number or a parameter")
    return rebind(x.compilation, value, _limit)


def _limit(value: object) -> int:
    if isinstance(value, int) and value >= 0:
        return min(value, (1 << 63) - 1)
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    raise SqlError(1210, "Incorrect arguments to LIMIT")


_round("round")
_round("truncate")
_whole("floor")
_whole("ceil")
_extreme("max")
_extreme("min")
define("abs", 1, 1, _abs)
define("mod", 2, 2, _mod)
define("if", 3, 3, _if)
define("ifnull nvl", 2, 2, _ifnull)
define("coalesce", 1, None, _ifnull)
define("nullif", 2, 2, _nullif)
define("isnull", 1, 1, _isnull)
define("last_insert_id", 0, 1, _last_insert_id)
define("rand", 0, 1, _rand)
define("default", 1, 1, _default)
simple("sign", "n", BIGINT, "sign({0})")
simple("sqrt", "n", DOUBLE)
simple("pow power", "nn", DOUBLE)
simple("exp", "n", DOUBLE)
simple("ln", "n", DOUBLE)
simple("log", "nn", DOUBLE, optional=1)
simple("log2", "n", DOUBLE)
simple("log10", "n", DOUBLE)
simple("pi", "", DOUBLE, "3.141592653589793", nullable=False)
for _name in ("sin", "cos", "tan", "asin", "acos", "atan", "degrees", "radians"):
    simple(_name, "n", DOUBLE, f"{_name}({{0}})")
simple("atan2", "nn", DOUBLE, "atan2({0}, {1})")
simple("bit_count", "i", BIGINT)
simple("uuid", "", varchar(36), nullable=False)
simple("sleep", "n", BIGINT)
simple("get_lock", "tn", BIGINT)
simple("release_lock", "t", BIGINT)
simple("release_all_locks", "", BIGINT, nullable=False)
simple("is_free_lock", "t", BIGINT)
simple("is_used_lock", "t", BIGINT)
_session("connection_id", UNSIGNED_BIGINT)
_session("version", varchar(64))
_session("user session_user system_user", varchar(288))
_session("current_user", varchar(288))
_session("row_count", BIGINT)
_session("found_rows", BIGINT)
_session("current_role", varchar(64))


def _database(x: Expressions, values: list[Typed]) -> Typed:
    return Typed(x.compilation.dynamic("database"), varchar(64))


define("database schema", 0, 0, _database)

"""DECIMAL arithmetic whose results may have more digits than SQLite's 8-byte numbers can store: by functions of our
own."""

from __future__ import annotations

from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.typed import Typed, exact_of, rebind, to_number, to_text
from embedded.compile.functions.exact_numbers import quotient_decimals
from embedded.compile.values.types import (
    BIGINT,
    MAX_DECIMAL_DIGITS,
    TEMPORAL,
    TEXTUAL,
    Kind,
    SqlType,
    digits,
    exact_type,
)

_EXACT_KINDS = frozenset((Kind.INT, Kind.YEAR, Kind.BIT, Kind.DECIMAL, Kind.EXACT))
_DIVISION_SCALE = 4  # div_precision_increment
_FUNCTIONS = {"+": "add", "-": "subtract", "*": "multiply"}


def operand(x: Expressions, value: Typed) -> Typed:
    """A number for arithmetic: DECIMAL of any size stays exact, and so does a moment with its decimals of a second."""
    if value.type.kind in TEMPORAL and value.type.scale and value.slot is None and not x.compilation.inline:
        sql = x.compilation.function(f"qg_exact_moment({to_text(x.compilation, value)})")
        return Typed(sql, exact_type(14 + value.type.scale, value.type.scale), value.nullable)
    if value.type.kind is Kind.BITS and value.slot is not None:
        return Typed(rebind(x.compilation, value, exact_of), exact_type(20, 0), nullable=False)
    return value if value.type.kind is Kind.EXACT else to_number(x.compilation, value)


def is_exact(left: Typed, right: Typed, result: SqlType, inline: bool) -> bool:
    """Whether an operation on these needs more digits than SQLite's numbers have.

    A table's own definition cannot call our functions: there SQLite's numbers have to do, and a wide DECIMAL is
    refused.
    """
    kinds = {left.type.kind, right.type.kind}
    if not kinds <= _EXACT_KINDS:
        return False
    return Kind.EXACT in kinds or (not inline and (result.size or 0) > MAX_DECIMAL_DIGITS)


def decimals_of(value: Typed) -> int:
    """Decimals that the value really has, where that is more than it is shown with."""
    return value.carried if value.carried is not None else value.type.scale


def arithmetic(x: Expressions, operator: str, left: Typed, right: Typed, result: SqlType) -> Typed:
    """left + right, left - right or left * right."""
    sql = x.compilation.function(f"qg_exact_{_FUNCTIONS[operator]}({left.sql}, {right.sql})")
    one, other = decimals_of(left), decimals_of(right)
    carried = one + other if operator == "*" else max(one, other)
    return _decimal_result(sql, result.size or 10, result.scale, left.nullable or right.nullable, carried)


def quotient(x: Expressions, left: Typed, right: Typed) -> Typed:
    """left / right: shown with four decimals more than the left side has, and stored with more."""
    carried = quotient_decimals(decimals_of(left), decimals_of(right), _DIVISION_SCALE)
    sql = x.compilation.function(f"qg_exact_divide({left.sql}, {right.sql}, {carried})")
    size = digits(left.type) + _DIVISION_SCALE + right.type.scale
    return _decimal_result(sql, size, left.type.scale + _DIVISION_SCALE, True, carried)


def modulo(x: Expressions, left: Typed, right: Typed, result: SqlType) -> Typed:
    sql = x.compilation.function(f"qg_exact_modulo({left.sql}, {right.sql})")
    return _decimal_result(sql, result.size or 10, result.scale, True, max(decimals_of(left), decimals_of(right)))


def rounded(x: Expressions, value: Typed, how: str, places: str, scale: int) -> Typed:
    """ROUND and TRUNCATE."""
    sql = x.compilation.function(f"qg_exact_round({value.sql}, '{how}', {places})")
    return _decimal_result(sql, digits(value.type) - value.type.scale + scale + 1, scale, value.nullable, scale)


def whole(x: Expressions, value: Typed, how: str, bigint: bool) -> Typed:
    """FLOOR and CEIL."""
    if bigint:
        return Typed(x.compilation.function(f"qg_exact_whole({value.sql}, '{how}')"), BIGINT, value.nullable)
    return rounded(x, value, how, "0", 0)


def cast(x: Expressions, value: Typed, size: int, scale: int) -> Typed:
    """CAST(value AS DECIMAL(size, scale)), wide or from a wide one."""
    if value.type.kind in TEXTUAL:
        value = Typed(x.compilation.function(f"qg_exact_from_text({value.sql})"), exact_type(65, 30), value.nullable)
    sql = x.compilation.function(f"qg_exact_cast({operand(x, value).sql}, {size}, {scale})")
    return _decimal_result(sql, size, scale, value.nullable, scale)


def _decimal_result(sql: str, size: int, scale: int, nullable: bool, carried: int) -> Typed:
    result = exact_type(size, scale)
    return Typed(sql, result, nullable, carried=carried if carried > result.scale else None)

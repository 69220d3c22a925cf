"""Python values in the text protocol's form: what MySQL itself would print for a column of that type.

Floating point follows MySQL's own rule, which differs from Python's in where exponents begin. Nothing is rounded away
that the column's type would keep.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from mysql_mimic.types import ColumnType

from engine.model.queue import ColumnMeta, TextValue
from mysql_wire.errors import ProxyError

_DECIMALS = frozenset((ColumnType.DECIMAL, ColumnType.NEWDECIMAL))
_FLOATS = frozenset((ColumnType.FLOAT, ColumnType.DOUBLE))
_FIXED_MAX = 30  # `decimals` 31 of a FLOAT or DOUBLE means: as many digits as it takes
_DECIMAL_DIGITS = Context(prec=95)  # MySQL's 65 and its 30 decimals; a larger number is none of its own, shown as it is
_POINT_MAX = 15  # DBL_DIG: beyond it, in either direction, MySQL writes an exponent


def text_from_value(value: object, column: ColumnMeta, encoding: str = "utf-8") -> TextValue:
    """One value as the text protocol carries it; None is NULL.

    Raises:
        ProxyError: a number that MySQL cannot express (infinity), or a type without a form.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode(encoding, "replace")
    if isinstance(value, bytes):
        return value
    if isinstance(value, (int, float, Decimal)):
        return _number(value, column).encode("ascii")
    if isinstance(value, date):
        return _moment(value, column).encode("ascii")
    if isinstance(value, timedelta):
        return _duration(value, column).encode("ascii")
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise ProxyError(1105, f"a value of type {type(value).__name__} has no form in the MySQL protocol")


def _number(value: int | float | Decimal, column: ColumnMeta) -> str:
    if not isinstance(value, int) and not math.isfinite(value):
        raise ProxyError(1264, f"Out of range value for column '{column.name}'")
    if column.type in _DECIMALS:
        return format(_quantized(value, column.decimals), "f")
    if isinstance(value, float):
        return float_text(value, column)
    return str(int(value)) if isinstance(value, int) else format(value, "f")


def _quantized(value: int | float | Decimal, decimals: int) -> Decimal:
    exact = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else int(value))
    try:
        return exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP, context=_DECIMAL_DIGITS)
    except InvalidOperation:
        return exact


def float_text(value: float, column: ColumnMeta) -> str:
    """A float as MySQL prints it."""
    if column.type in _FLOATS and 0 < column.decimals <= _FIXED_MAX:
        return f"{value:.{column.decimals}f}"
    digits = f"{value:.6g}" if column.type == ColumnType.FLOAT else repr(value)
    if "e" not in digits and (abs(value) < 1e15 or value % 1):
        return digits.removesuffix(".0")
    return _shortest(Decimal(digits))


def _shortest(value: Decimal) -> str:
    sign, digits, exponent = value.normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent
    if -_POINT_MAX < point <= _POINT_MAX:
        return format(value.normalize(), "f")
    text = "".join(map(str, digits))
    mantissa = text if len(text) == 1 else f"{text[0]}.{text[1:]}"
    return f"{'-' if sign else ''}{mantissa}e{point - 1}"


def _fraction(microsecond: int, decimals: int) -> str:
    if 0 < decimals <= 6:
        return f".{microsecond:06d}"[: decimals + 1]
    return f".{microsecond:06d}" if microsecond else ""


def _moment(value: date, column: ColumnMeta) -> str:
    day = f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    if column.type == ColumnType.DATE:
        return day
    if not isinstance(value, datetime):
        return day if column.type not in (ColumnType.DATETIME, ColumnType.TIMESTAMP) else f"{day} 00:00:00"
    clock = f"{value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    return f"{day} {clock}{_fraction(value.microsecond, column.decimals)}"


def _duration(value: timedelta, column: ColumnMeta) -> str:
    sign, absolute = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(absolute.days * 86400 + absolute.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}{_fraction(absolute.microseconds, column.decimals)}"

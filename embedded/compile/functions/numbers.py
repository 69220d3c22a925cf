"""Numeric functions."""

from __future__ import annotations

import math
import operator
import random
import uuid as uuids
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from embedded.compile.errors import SqlError
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.numbers import check_number, full_number, numeric_prefix
from embedded.compile.values.wide_decimal import decode, encode
from embedded.database.text_form import float_text

Number = int | float
_WIDE = Context(prec=130, rounding=ROUND_HALF_UP)  # twice MySQL's 65 digits
_INT64 = 1 << 63
_MASK = 0xFFFFFFFFFFFFFFFF
_BEYOND = "BIGINT UNSIGNED value is out of range: the embedded backend counts up to 2^63-1"
_DIGITS = 25  # of a whole number; with so many it is beyond 64 bits, however many follow
_EXACT = 1 << 53  # whole numbers up to here are exact in SQLite's 8-byte numbers


@scalar("signed", "unsigned_prefix", splits=True)
def signed(context: CallContext, text: str) -> int:
    """CAST(text AS SIGNED), or UNSIGNED: the whole number it begins with, as 64 bits."""
    number = _whole_prefix(text)
    if context.strict:
        check_number(text, "INTEGER")
        if not -_INT64 <= number <= _MASK:
            raise SqlError(1292, f"Truncated incorrect INTEGER value: '{text}'")
    return _signed_bits(max(-_INT64, min(_MASK, number)) & _MASK)


@scalar(splits=True)
def number(context: CallContext, text: str) -> Number:
    """A text in numeric context in a strict change, where it has to be a number."""
    check_number(text, "DOUBLE")
    return float(numeric_prefix(text))


@scalar(splits=True)
def json_number(context: CallContext, value: Number | str) -> Number:
    """The same of what JSON holds."""
    if isinstance(value, str) and full_number(value) is None:
        raise SqlError(3156, "Invalid JSON value for CAST to DOUBLE")
    return float(value)


def _whole_prefix(text: str) -> int:
    text = text.strip()
    end = 1 if text[:1] in "+-" else 0
    while end < len(text) and text[end] in "0123456789":
        end += 1
    digits = text[:end].lstrip("+-").lstrip("0")[:_DIGITS]
    number = int(digits or "0")
    return -number if text[:1] == "-" else number


@scalar("round", splits=True)
def rounded(context: CallContext, value: Number, places: int, exact: int) -> Number:
    """ROUND: halves away from zero for exact numbers, to even for floating point, as MySQL does."""
    return _quantized(value, places, ROUND_HALF_UP) if exact else _scaled(float(value), places, round)


@scalar("truncate")
def truncated(context: CallContext, value: Number, places: int, exact: int) -> Number:
    """TRUNCATE."""
    return _quantized(value, places, ROUND_DOWN) if exact else _scaled(float(value), places, math.trunc)


def _scaled(value: float, places: int, whole: Callable[[float], int]) -> float:
    """A floating-point number cut to its places: as a multiple of a power of ten, as MySQL's own code does it."""
    power = 10.0 ** min(abs(places), 308)
    scaled = value * power if places >= 0 else value / power
    if not math.isfinite(scaled):
        return value
    return whole(scaled) / power if places >= 0 else whole(scaled) * power


def _quantized(value: Number, places: int, rounding: str) -> Number:
    try:
        number = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), rounding)
    except InvalidOperation:
        return value
    return int(number) if number == number.to_integral_value() and abs(number) < _INT64 else float(number)


@scalar(splits=True)
def cast_decimal(context: CallContext, value: Number, size: int, scale: int, exact: int) -> Number:
    """CAST(value AS DECIMAL(size, scale)): a value too large becomes the largest there is."""
    number = Decimal(repr(value))
    limit = (Decimal(10) ** size - 1).scaleb(-scale)
    if number.copy_abs() >= limit + Decimal(5).scaleb(-scale - 1):
        context.out_of_range()
    too_large = number.copy_abs() >= limit  # infinity, too, which cannot be rounded
    number = limit.copy_sign(number) if too_large else number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    if abs(number.scaleb(scale)) > _EXACT:
        raise SqlError(1264, "Out of range value: the embedded backend keeps 15 digits of a DECIMAL")
    return int(number) if scale == 0 else float(number)


@scalar(splits=True)
def scaled(context: CallContext, whole: int, scale: int) -> float:
    """An exact sum of whole numbers as the decimal it represents."""
    if abs(whole) > _EXACT:
        raise SqlError(1690, "DECIMAL value is out of range: the embedded backend keeps 15 digits")
    return float(whole / 10**scale)


@scalar(splits=True)
def decimal_text(context: CallContext, value: Number, scale: int) -> str:
    return fixed_text(Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP))


def fixed_text(number: Decimal) -> str:
    """A number with its decimals; there is no negative zero."""
    return f"{number if number else number.copy_abs():f}"


@scalar()
def exact(context: CallContext, value: Number) -> str:
    """A number in the sortable form of a wide DECIMAL."""
    return encode(Decimal(repr(value)))


@scalar(splits=True)
def exact_text(context: CallContext, value: str, scale: int) -> str:
    return fixed_text(_WIDE.quantize(decode(value), Decimal(1).scaleb(-scale)))


@scalar(splits=True)
def double_text(context: CallContext, value: Number, single: int, decimals: int) -> str:
    if decimals:
        return fixed_text(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP))
    return float_text(float(value), 6 if single else 17)


@scalar()
def bits_text(context: CallContext, value: int) -> str:
    return str(value & _MASK)


@scalar()
def bit_bytes(context: CallContext, value: int, size: int) -> bytes:
    """A BIT as the bytes that it is where it is no number."""
    return value.to_bytes(size, "big")


@scalar()
def unsigned(context: CallContext, value: int) -> int:
    """64 bits as the number without sign that they are."""
    if value < 0:
        raise SqlError(1690, _BEYOND)
    return value


@scalar(splits=True)
def whole(context: CallContext, sign: str, left: Number, right: Number, bits: int, text: str) -> Number | None:
    """left + right and so on, of whole numbers of which one has no sign: neither has the result.

    `bits` is the side (1 the left, 2 the right) whose value is 64 bits; then the result is, too. `text` shows the
    expression, with {0} and {1} for the values.
    """
    left = _without_sign(left) if bits & 1 else left
    right = _without_sign(right) if bits & 2 else right
    result = _OPERATORS[sign](left, right)
    if result is None:
        return None
    if not 0 <= result <= _MASK:
        raise SqlError(1690, f"BIGINT UNSIGNED value is out of range in '{text.format(left, right)}'")
    if isinstance(result, float):
        return result
    return _signed_bits(result) if bits else unsigned(context, _signed_bits(result))


@scalar()
def remainder(context: CallContext, left: Number, right: Number, bits: int) -> Number | None:
    """left % right, with the sign of the left side; `bits` as for `whole`."""
    left = _without_sign(left) if bits & 1 else left
    right = _without_sign(right) if bits & 2 else right
    if not right:
        return None
    rest = abs(left) % abs(right)
    if left < 0:
        return -rest
    return _signed_bits(rest) if isinstance(rest, int) else rest


def _quotient(left: Number, right: Number) -> Number | None:
    if not right:
        return None
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


_OPERATORS: dict[str, Callable[[Number, Number], Number | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "DIV": _quotient,
}


def _without_sign(value: Number) -> Number:
    return value & _MASK if isinstance(value, int) else value


@scalar()
def shift_right(context: CallContext, value: int, places: int) -> int:
    if not 0 <= places < 64:
        return 0
    return _signed_bits((value & _MASK) >> places)


def _signed_bits(value: int) -> int:
    return value - (1 << 64) if value >= _INT64 else value


@scalar()
def bit_count(context: CallContext, value: int) -> int:
    return (value & _MASK).bit_count()


@scalar("sqrt")
def square_root(context: CallContext, value: Number) -> float | None:
    return math.sqrt(value) if value >= 0 else None


@scalar("pow")
def power(context: CallContext, base: Number, exponent: Number) -> float:
    try:
        result: float | complex = float(base) ** float(exponent)
    except (OverflowError, ZeroDivisionError):
        raise SqlError(1690, "DOUBLE value is out of range in 'pow()'") from None
    if isinstance(result, complex):
        raise SqlError(1690, "DOUBLE value is out of range in 'pow()'")
    return result


@scalar("exp")
def exponential(context: CallContext, value: Number) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        raise SqlError(1690, "DOUBLE value is out of range in 'exp()'") from None


@scalar("ln", "log")
def logarithm(context: CallContext, first: Number, second: Number | None = None) -> float | None:
    """LOG(x) or LOG(base, x)."""
    if second is None:
        return math.log(first) if first > 0 else None
    return math.log(second) / math.log(first) if first > 0 and first != 1 and second > 0 else None


@scalar("log2")
def binary_logarithm(context: CallContext, value: Number) -> float | None:
    return math.log2(value) if value > 0 else None


@scalar("log10")
def decimal_logarithm(context: CallContext, value: Number) -> float | None:
    return math.log10(value) if value > 0 else None


@scalar("rand", deterministic=False)
def random_number(context: CallContext) -> float:
    return random.random()


@scalar(deterministic=False)
def uuid(context: CallContext) -> str:
    return str(uuids.uuid1())


@scalar(deterministic=False)
def sleep(context: CallContext, seconds: Number) -> int:
    """SLEEP, ended early by an interrupt."""
    if seconds < 0:
        raise SqlError(1210, "Incorrect arguments to sleep.")
    return int(context.sleep(float(seconds)))


@scalar(null_aware=True, deterministic=False)
def set_last_insert_id(context: CallContext, value: int) -> int:
    """LAST_INSERT_ID(expr)."""
    context.last_insert_id = value
    return value


@scalar(null_aware=True, deterministic=False)
def change(context: CallContext, value: Any, changed: int | None, number: int | None) -> Any:
    """Returns the new value of an updated row, and counts rows matched and rows changed."""
    context.matched += 1
    context.changed += bool(changed)
    context.touched_id = number
    return value


@scalar(null_aware=True, deterministic=False)
def numbered(context: CallContext, value: int | None, zero_is_value: int) -> int | None:
    """Returns a value for an AUTO_INCREMENT column: NULL and 0 request the next number."""
    number = value if value or zero_is_value else None
    context.numbers.assign(number)
    return number


@scalar("seen", null_aware=True, deterministic=False)
def count_row(context: CallContext, value: Any) -> Any:
    """Returns a value of INSERT ... SELECT, and counts the rows."""
    context.rows_read += 1
    return value


@scalar(null_aware=True)
def not_null(context: CallContext, value: Any, name: str) -> Any:
    """A value for a column that takes no NULL."""
    if value is None:
        raise SqlError(1048, f"Column '{name}' cannot be null")
    return value


@scalar("raise", deterministic=False)
def raise_error(context: CallContext, errno: int) -> None:
    """Errors that only show while the statement runs."""
    raise SqlError(errno, {1242: "Subquery returns more than 1 row"}.get(errno, "error"))


@scalar()
def hex_number(context: CallContext, value: int) -> str:
    return f"{value & _MASK:X}"


@scalar("bin")
def binary_digits(context: CallContext, value: int) -> str:
    return f"{value & _MASK:b}"


@scalar("oct")
def octal_digits(context: CallContext, value: int) -> str:
    return f"{value & _MASK:o}"


@scalar("conv", splits=True)
def convert_base(context: CallContext, text: str, source: int, target: int) -> str | None:
    """CONV."""
    if not (2 <= abs(source) <= 36 and 2 <= abs(target) <= 36):
        return None
    number, digits = 0, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    body = text.strip().upper()
    negative, body = body.startswith("-"), body.lstrip("+-")
    for letter in body:
        digit = digits.find(letter)
        if digit < 0 or digit >= abs(source):
            break
        number = number * abs(source) + digit
    number = -number if negative else number
    sign = "-" if target < 0 and number < 0 else ""
    number = abs(number) if target < 0 else number & 0xFFFFFFFFFFFFFFFF
    result = ""
    while number or not result:
        number, digit = divmod(number, abs(target))
        result = digits[digit] + result
    return sign + result

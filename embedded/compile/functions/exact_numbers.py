"""Exact arithmetic on DECIMAL, with MySQL's rules for the digits of a quotient.

Operands are whole numbers, SQLite's 8-byte numbers of at most 15 digits, or the sortable text of `exact`; results are
that text.
"""

from __future__ import annotations

from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    InvalidOperation,
)
from typing import Any

from embedded.compile.errors import SqlError
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.numbers import check_number, decimal_prefix
from embedded.compile.values.wide_decimal import decode, encode

Operand = int | float | str
_WIDE = Context(prec=200)  # two numbers of 65 digits multiplied, and room
_WORD = 9  # digits that MySQL keeps in a word; a quotient ends with a whole one
_LARGEST = Decimal(10) ** 65 - 1
_BEYOND = 90  # digits before the point, or zeros after it, beyond which a text is as a larger number, or as 0
_INT64 = 1 << 63
_MODES = {
    "round": ROUND_HALF_UP,
    "truncate": ROUND_DOWN,
    "floor": ROUND_FLOOR,
    "ceil": ROUND_CEILING,
    "even": ROUND_HALF_EVEN,
}


def number_of(value: Operand) -> Decimal:
    """An operand as the number that it is."""
    if type(value) is str:
        return decode(value)
    return Decimal(repr(value))


@scalar("exact_moment")
def of_moment(context: CallContext, text: str) -> str:
    """The number that a date and time or a TIME is, with its decimals of a second."""
    number = Decimal("".join(one for one in text if one.isdigit() or one == "."))
    return encode(number.copy_negate() if text.startswith("-") else number)


@scalar("exact_add")
def add(context: CallContext, left: Operand, right: Operand) -> str:
    return _result(_WIDE.add(number_of(left), number_of(right)))


@scalar("exact_subtract")
def subtract(context: CallContext, left: Operand, right: Operand) -> str:
    return _result(_WIDE.subtract(number_of(left), number_of(right)))


@scalar("exact_multiply")
def multiply(context: CallContext, left: Operand, right: Operand) -> str:
    return _result(_WIDE.multiply(number_of(left), number_of(right)))


@scalar("exact_divide")
def divide(context: CallContext, left: Operand, right: Operand, decimals: int) -> str | None:
    """The quotient, cut after so many decimals."""
    divisor = number_of(right)
    if not divisor:
        return None
    quotient = _WIDE.divide(number_of(left), divisor)
    return _result(quotient.quantize(Decimal(1).scaleb(-decimals), ROUND_DOWN, _WIDE))


@scalar("exact_quotient")
def whole_quotient(context: CallContext, left: Operand, right: Operand) -> int | None:
    """left DIV right."""
    divisor = number_of(right)
    if not divisor:
        return None
    return _int64(_WIDE.divide_int(number_of(left), divisor))


@scalar("exact_modulo")
def modulo(context: CallContext, left: Operand, right: Operand) -> str | None:
    """The remainder; its sign is the left side's."""
    divisor = number_of(right)
    return encode(_WIDE.remainder(number_of(left), divisor)) if divisor else None


@scalar("exact_negate")
def negate(context: CallContext, value: Operand) -> str:
    return encode(number_of(value).copy_negate())


@scalar("exact_absolute")
def absolute(context: CallContext, value: Operand) -> str:
    return encode(number_of(value).copy_abs())


@scalar("exact_round")
def rounded(context: CallContext, value: Operand, how: str, places: int) -> str:
    """ROUND, TRUNCATE, FLOOR and CEIL."""
    try:
        number = number_of(value).quantize(Decimal(1).scaleb(-places), _MODES[how], _WIDE)
    except InvalidOperation:  # more digits than there is room for: of decimals, or of a number that is refused
        return _result(number_of(value))
    return _result(number)


@scalar("exact_whole")
def whole(context: CallContext, value: Operand, how: str) -> int:
    """The same to a whole number, as BIGINT."""
    return _int64(number_of(value).to_integral_value(_MODES[how]))


@scalar("exact_cast", splits=True)
def cast(context: CallContext, value: Operand, size: int, scale: int) -> str:
    """CAST(value AS DECIMAL(size, scale)): a value too large becomes the largest there is."""
    number = number_of(value)
    limit = _WIDE.scaleb(Decimal("9" * size), -scale)
    if number.copy_abs() >= limit:  # first of all: infinity cannot be rounded, nor what has more digits than room
        if number.copy_abs() >= _WIDE.add(limit, Decimal(5).scaleb(-scale - 1)):
            context.out_of_range()
        return encode(limit.copy_sign(number))
    return encode(number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE))


@scalar("exact_scaled", splits=True)
def scaled(context: CallContext, total: int, scale: int) -> str:
    """An exact sum of whole numbers as the DECIMAL it represents."""
    return encode(Decimal(total).scaleb(-scale))


@scalar("exact_average")
def average(context: CallContext, total: Operand, scale: int, count: int, decimals: int) -> str | None:
    """A sum, in units of the last decimal, through the number of its values."""
    return divide(context, encode(_WIDE.scaleb(number_of(total), -scale)), count, decimals)


@scalar("average_of")
def average_of(context: CallContext, both: str, scale: int, decimals: int) -> str | None:
    """The same for the result of SumAndCount."""
    total, count = both.split(" ")
    return average(context, total, scale, int(count), decimals)


@scalar("exact_from_text", splits=True)
def from_text(context: CallContext, text: str) -> str:
    """Text as the DECIMAL that it begins with; one far beyond any DECIMAL as one that is beyond them, too."""
    if context.strict:
        check_number(text, "DECIMAL")
    number = decimal_prefix(text)
    if not number or number.adjusted() < -_BEYOND:
        return encode(Decimal())
    if number.adjusted() >= _BEYOND:
        return encode(Decimal(1).scaleb(_BEYOND).copy_sign(number))
    return encode(number)


@scalar("exact_floating")
def floating(context: CallContext, value: Operand) -> float:
    """The nearest floating-point number."""
    return float(number_of(value))


@scalar("exact_digits")
def digits(context: CallContext, value: Operand) -> str:
    """All digits, for a column that rounds them itself."""
    return f"{number_of(value):f}"


def _result(number: Decimal) -> str:
    if abs(number) > _LARGEST:
        raise SqlError(1690, "DECIMAL value is out of range")
    return encode(number)


@scalar("exact_signed")
def signed(context: CallContext, value: Operand, how: str) -> int:
    """CAST(number AS SIGNED): rounded; the nearest number of 64 bits where there is none."""
    return _rounded(value, how, -_INT64, _INT64 - 1)


@scalar("exact_unsigned")
def unsigned(context: CallContext, value: Operand, how: str) -> int:
    """CAST(number AS UNSIGNED): the same between 0 and 2^64 - 1, as 64 bits."""
    bits = _rounded(value, how, 0, 2 * _INT64 - 1)
    return bits if bits < _INT64 else bits - 2 * _INT64


def _rounded(value: Operand, how: str, least: int, most: int) -> int:
    number = number_of(value)
    if least < number < most:
        return int(number.to_integral_value(_MODES[how]))
    return least if number <= least else most


def _int64(number: Decimal) -> int:
    if not -_INT64 <= number < _INT64:
        raise SqlError(1690, "BIGINT value is out of range")
    return int(number)


def quotient_decimals(left: int, right: int, more: int) -> int:
    """Decimals that MySQL keeps of a quotient of numbers with so many: at least `more` more, to the end of a word."""
    one, other = -(-left // _WORD) * _WORD, -(-right // _WORD) * _WORD
    missing = max(0, more - (one - left) - (other - right))
    return -(-(one + other + missing) // _WORD) * _WORD


class ExactSum:
    """SUM, also as a window function."""

    def __init__(self) -> None:
        self.total = Decimal()
        self.count = 0

    def step(self, value: Any) -> None:
        if value is not None:
            self.total = _WIDE.add(self.total, number_of(value))
            self.count += 1

    def inverse(self, value: Any) -> None:
        """A row leaves the window's frame."""
        if value is not None:
            self.total = _WIDE.subtract(self.total, number_of(value))
            self.count -= 1

    def value(self) -> str | None:
        """The sum of the rows so far."""
        return _result(self.total) if self.count else None

    finalize = value


class SumAndCount(ExactSum):
    """What `average_of` takes: the sum and the number of values, as one text."""

    def value(self) -> str | None:
        return f"{encode(self.total)} {self.count}" if self.count else None

    finalize = value

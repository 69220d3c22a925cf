"""Values to be stored in a column: strict mode's rules, MySQL's errors, SQLite's storage form.

A value either fits exactly as MySQL would store it, or is refused: nothing is ever cut silently.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from math import isinf
from typing import Any

from embedded.compile.errors import SqlError, ValueRefused
from embedded.compile.values.numbers import SHOWN, full_number, numeric_prefix, round_half_away
from embedded.compile.values.temporal import (
    MAX_TIME,
    date_text,
    datetime_text,
    is_timestamp,
    moment_number,
    parse_datetime,
    parse_time,
    round_time,
)
from embedded.compile.values.types import Kind, SqlType
from embedded.compile.values.wide_decimal import encode
from embedded.database.text_form import float_text, time_text

# What Python's JSON reader takes and MySQL's does not.


class NumberTooBig(ValueError):
    """A JSON number that no DOUBLE is."""


def finite(number: str) -> float:
    """A number with a point or an exponent; MySQL refuses what it would have to store as infinity."""
    value = float(number)
    if isinf(value):
        raise NumberTooBig("Number too big to be stored in double.")
    return value


def no_constant(name: str) -> None:
    """NaN and Infinity, which Python takes and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


_WIDE = Context(prec=130)  # twice MySQL's 65 digits: nothing is lost in between
_FLOAT_MAX = (2 - 2**-23) * 2.0**127


@dataclass(frozen=True, slots=True)
class StoreAs:
    """Converts a value for one column. Called with the value; None stays None. `utc`: the session is in UTC, and so
    is a TIMESTAMP."""

    type: SqlType
    column: str
    utc: bool = False

    def __call__(self, value: Any) -> Any:
        return None if value is None else _STORE[self.type.kind](self, value)

    def refuse(self, errno: int, text: str) -> ValueRefused:
        return ValueRefused(errno, f"{text} for column '{self.column}'")

    def incorrect(self, what: str, value: Any) -> ValueRefused:
        return self.refuse(1366, f"Incorrect {what} value: '{shown(value)}'")


def shown(value: Any) -> str:
    """A value as errors quote it."""
    if isinstance(value, bytes):
        return "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02X}" for byte in value[:SHOWN])
    return plain_text(value)[:SHOWN]


def _number(target: StoreAs, value: Any, what: str) -> int | float | Decimal:
    match value:
        case int() | float() | Decimal():
            return value
        case date() | timedelta():
            return moment_number(value)
        case bytes():
            value = value.decode("utf-8", "replace")
    number = full_number(value)
    if number is not None:
        return number
    if numeric_prefix(value):
        raise ValueRefused(1265, f"Data truncated for column '{target.column}'")
    raise target.incorrect(what, value)


def _whole(target: StoreAs, value: Any) -> int:
    number = _number(target, value, "integer")
    if isinstance(number, int):
        return number
    if isinstance(number, float) and not math.isfinite(number):
        raise _out_of_range(target)
    return round(number) if isinstance(number, float) else round_half_away(number)


def _store_int(target: StoreAs, value: Any) -> int:
    number = value if type(value) is int else _whole(target, value)
    low, high = target.type.integer_range
    if not low <= number <= high:
        raise _out_of_range(target)
    return number


def _quantized(target: StoreAs, value: Any) -> Decimal:
    """The number rounded to the column's decimals, if it has no more digits than the column."""
    size, scale = target.type.size or 10, target.type.scale
    try:
        number = Decimal(str(_number(target, value, "decimal")))
        number = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    except InvalidOperation:
        raise _out_of_range(target) from None
    if len(str(abs(int(number.scaleb(scale))))) > size or (target.type.unsigned and number < 0):
        raise _out_of_range(target)
    return number


def _store_decimal(target: StoreAs, value: Any) -> int | float:
    number = _quantized(target, value)
    return float(number) if target.type.scale else int(number)


def _store_exact(target: StoreAs, value: Any) -> str:
    with localcontext(_WIDE):
        return encode(_quantized(target, value))


def _store_double(target: StoreAs, value: Any) -> float:
    single = target.type.name == "float"
    try:
        number = float(_number(target, value, "double"))
    except OverflowError:  # a whole number of more than 308 digits
        raise _out_of_range(target) from None
    if not abs(number) <= (_FLOAT_MAX if single else sys.float_info.max) or (target.type.unsigned and number < 0):
        raise _out_of_range(target)
    if target.type.size is not None:
        number = round(number, target.type.scale)
        if abs(number) >= 10 ** (target.type.size - target.type.scale):
            raise _out_of_range(target)
    return float(struct.unpack("<f", struct.pack("<f", number))[0]) if single else number


def _out_of_range(target: StoreAs) -> ValueRefused:
    return ValueRefused(1264, f"Out of range value for column '{target.column}'")


def plain_text(value: Any) -> str:
    """A value in the text protocol's form."""
    match value:
        case str():
            return value
        case bool() | int() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(int(value))
        case float():
            return float_text(value)
        case datetime():
            return datetime_text(value, 6 if value.microsecond else 0)
        case date():
            return date_text(value)
        case timedelta():
            return time_text(round(value / timedelta(microseconds=1)))
        case _:
            return str(value)


def _store_text(target: StoreAs, value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise target.incorrect("string", value[error.start :]) from None
    text = plain_text(value)
    if target.type.name == "char":
        text = text.rstrip(" ")
    limit = target.type.character_length or 0
    in_bytes = target.type.name.endswith("text")
    if len(text) * (4 if in_bytes else 1) <= limit:
        _refuse_broken(target, text)
        return text
    size = len(text.encode("utf-8", "surrogatepass")) if in_bytes else len(text)
    if size <= limit:
        return text
    if in_bytes or text[limit:].strip(" "):
        raise ValueRefused(1406, f"Data too long for column '{target.column}'")
    return text[:limit]


def _refuse_broken(target: StoreAs, text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise target.incorrect("string", text.encode("utf-8", "surrogateescape")) from None


def _store_binary(target: StoreAs, value: Any) -> bytes:
    data = value if isinstance(value, bytes) else plain_text(value).encode("utf-8", "surrogateescape")
    limit = target.type.character_length or 0
    if len(data) > limit:
        raise ValueRefused(1406, f"Data too long for column '{target.column}'")
    return data.ljust(limit, b"\0") if target.type.name == "binary" else data


def _store_enum(target: StoreAs, value: Any) -> str:
    """A number is that of a member; a text is a member, or else the number of one."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else plain_text(value)
    for member in target.type.values if isinstance(value, str | bytes) else ():
        if member == text or (not target.type.case_sensitive and member.casefold() == text.casefold()):
            return member
    index = int(text) if text.isdecimal() else 0
    if 1 <= index <= len(target.type.values):
        return target.type.values[index - 1]
    raise ValueRefused(1265, f"Data truncated for column '{target.column}'")


def _moment(target: StoreAs, value: Any, what: str) -> datetime:
    moment = parse_datetime(value, UTC if target.utc else None)
    if moment is None:
        raise ValueRefused(1292, f"Incorrect {what} value: '{shown(value)}' for column '{target.column}'")
    return moment


def _store_date(target: StoreAs, value: Any) -> str:
    return date_text(_moment(target, value, "date"))


def _store_datetime(target: StoreAs, value: Any) -> str:
    try:
        return datetime_text(_moment(target, value, "datetime"), target.type.scale)
    except OverflowError:
        raise SqlError(1441, "Datetime function: datetime field overflow") from None


def _store_timestamp(target: StoreAs, value: Any) -> str:
    """In the session's time zone, of which the range is checked when it is converted; or in UTC."""
    text = _store_datetime(target, value)
    if target.utc and not is_timestamp(text):
        raise no_timestamp(shown(value), target.column)
    return text


def no_timestamp(value: str, column: str) -> ValueRefused:
    """A date and time that a TIMESTAMP cannot be."""
    return ValueRefused(1292, f"Incorrect datetime value: '{value}' for column '{column}'")


def _store_time(target: StoreAs, value: Any) -> int:
    microseconds = parse_time(value)
    if microseconds is None or abs(microseconds) > MAX_TIME:
        raise ValueRefused(1292, f"Incorrect time value: '{shown(value)}' for column '{target.column}'")
    return round_time(microseconds, target.type.scale)


def _store_year(target: StoreAs, value: Any) -> int:
    year = _whole(target, value)
    if 0 < year < 100 or (year == 0 and isinstance(value, str) and len(value) < 4):
        year += 1900 if year >= 70 else 2000
    if year != 0 and not 1901 <= year <= 2155:
        raise _out_of_range(target)
    return year


def _store_json(target: StoreAs, value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else plain_text(value)
    try:
        json.loads(text, parse_float=finite, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueRefused(3140, f"Invalid JSON text: \"{error}\" in value for column '{target.column}'") from None
    return text


def _store_bit(target: StoreAs, value: Any) -> int:
    """Text is taken as its bytes, as MySQL does: '1' is 49."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        number = int.from_bytes(value, "big")
    else:
        number = int(value) if isinstance(value, float) and math.isfinite(value) else _whole(target, value)
    size = target.type.size or 1
    if not 0 <= number < 1 << size or number >= 1 << 63:
        raise ValueRefused(1406, f"Data too long for column '{target.column}'")
    return int(number)


_STORE: dict[Kind, Callable[[StoreAs, Any], Any]] = {
    Kind.INT: _store_int,
    Kind.BITS: _store_int,
    Kind.DECIMAL: _store_decimal,
    Kind.EXACT: _store_exact,
    Kind.DOUBLE: _store_double,
    Kind.STRING: _store_text,
    Kind.ENUM: _store_enum,
    Kind.BINARY: _store_binary,
    Kind.DATE: _store_date,
    Kind.DATETIME: _store_datetime,
    Kind.TIMESTAMP: _store_timestamp,
    Kind.TIME: _store_time,
    Kind.YEAR: _store_year,
    Kind.JSON: _store_json,
    Kind.BIT: _store_bit,
}


@dataclass(frozen=True, slots=True)
class HexStoreAs:
    """StoreAs for x'..' literals, which are numbers in a numeric column and bytes anywhere else."""

    target: StoreAs

    def __call__(self, value: Any) -> Any:
        if self.target.type.kind in (Kind.INT, Kind.DECIMAL, Kind.EXACT, Kind.DOUBLE):
            return self.target(int.from_bytes(value, "big"))
        return self.target(value)

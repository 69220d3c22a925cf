"""Stored values in the form the MySQL text protocol sends, by the column's declared type.

How values are stored: integers, YEAR, BIT as integers; TIME as signed microseconds; DECIMAL as a number (over 15 digits
as sortable text); DATE, DATETIME and TIMESTAMP (UTC) as ISO text; everything else as text or blob.

A TIMESTAMP is not shown but sent as seconds since the epoch (engine.model.queue.TIMESTAMP_TYPE).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from engine.model.queue import TIMESTAMP_TYPE, ColumnMeta

DECIMAL_TYPES = frozenset((0, 246))
FLOAT_TYPE = 4
DOUBLE_TYPE = 5
TIME_TYPE = 11
BIT_TYPE = 16

_MICROSECONDS = 1_000_000
_AFTER = 1 << 31  # seconds since the epoch, after the last TIMESTAMP
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


Encoder = Callable[[Any], bytes]


def text_encoder(column: ColumnMeta) -> Encoder:
    """The function that encodes a non-NULL stored value of this column.

    A value that is none of the column's type, as a column of SQLite may hold, is sent as it is: a message of which one
    value cannot be read would hold up all others.
    """
    encode = _encoder(column)

    def encoded(value: Any) -> bytes:
        try:
            return encode(value)
        except (TypeError, ValueError, ArithmeticError, LookupError):
            return plain_text(value)

    return plain_text if encode is plain_text else encoded


def _encoder(column: ColumnMeta) -> Encoder:
    if column.type in DECIMAL_TYPES:
        return lambda value: decimal_text(value, column.decimals).encode()
    if column.type in (FLOAT_TYPE, DOUBLE_TYPE):
        digits = 6 if column.type == FLOAT_TYPE else 17
        return lambda value: float_text(value, digits).encode()
    if column.type == TIME_TYPE:
        return lambda value: time_text(value, column.decimals).encode()
    if column.type == BIT_TYPE:
        size = max(1, (column.length + 7) // 8)
        return lambda value: int(value).to_bytes(size, "big")
    if column.type == TIMESTAMP_TYPE:
        return lambda value: moment_text(value, column.decimals)
    return plain_text


def moment_text(value: Any, decimals: int) -> bytes:
    """A TIMESTAMP; what is none, as a column of SQLite may hold, as it is. So is one that can be stored no more."""
    try:
        moment = datetime.fromisoformat(value).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return plain_text(value)
    seconds, microseconds = int(moment.replace(microsecond=0).timestamp()), moment.microsecond
    if not 0 < seconds < _AFTER:
        return plain_text(value)
    return f"{seconds}.{microseconds:06}"[: len(str(seconds)) + 1 + decimals].encode() if decimals else b"%d" % seconds


def decimal_text(value: Any, decimals: int) -> str:
    """A DECIMAL: a number, or for more than 15 digits the sortable text that it is stored as.

    That text is `p` or `n` for the sign, two digits of length, the digits, a point and decimals; for negative numbers
    each digit is its complement and `~` is at the end.
    """
    if not isinstance(value, str):
        return f"{value:.{decimals}f}"
    negative = value[0] == "n"
    body = value[1:-1].translate(_COMPLEMENT) if negative else value[1:]
    number = Decimal(f"0{body[2:]}0")
    return f"{number.copy_negate() if negative else number:.{decimals}f}"


def plain_text(value: Any) -> bytes:
    """Integers, text and blobs."""
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else str(value).encode()


def float_text(value: float, digits: int = 17) -> str:
    """A floating-point number as MySQL prints it: shortest form, exponent without plus or leading zeros."""
    number = float(value)
    text = repr(number) if digits > 15 else f"{number:.{digits}g}"
    if abs(number) < 1e15 and number.is_integer():
        return str(int(number))
    if number.is_integer() and "e" not in text:
        text = f"{Decimal(text).normalize():e}".replace("+", "")
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    power = int(exponent)
    if -15 <= power < 0:
        return f"{number:.{max(0, -power + len(mantissa.replace('-', '').replace('.', '')) - 1)}f}"
    return f"{mantissa.removesuffix('.0')}e{power}"


def time_text(microseconds: int, decimals: int | None = None) -> str:
    """A TIME as [-]HH:MM:SS[.ffffff]; without `decimals`, six where there is a fraction."""
    sign, rest = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    seconds, fraction = divmod(rest, _MICROSECONDS)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    text = f"{sign}{hours:02}:{minute:02}:{second:02}"
    if decimals is None:
        decimals = 6 if fraction else 0
    return f"{text}.{fraction:06}"[: len(text) + 1 + decimals] if decimals else text

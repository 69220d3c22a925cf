"""Values as SQL literals. Pure; the inverse of what a database reads.

A literal is either plain, as a client would write it, so that the grammar of our own statements knows it again; or
typed: among other values in an expression it compares as the value that was bound would.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal

from rewriter.errors import UnsupportedSql

_WHOLE_MAX = 1 << 53  # up to here a DOUBLE holds every whole number


def string_literal(text: str, *, backslash_escapes: bool = True) -> str:
    """In single quotes, which are never a name's; an inner one is doubled, so no mode ends the string elsewhere.

    `backslash_escapes` is false under NO_BACKSLASH_ESCAPES; all other modes read it alike.
    """
    return "'" + (text.replace("\\", "\\\\") if backslash_escapes else text).replace("'", "''") + "'"


def hex_literal(text: str) -> str:
    """Text as a literal that reads the same in every character set and mode."""
    return f"_utf8mb4 X'{text.encode('utf-8', 'surrogateescape').hex()}'"


def plain_literal(value: object, *, backslash_escapes: bool = True) -> str:
    """The value as SQL. A whole number that was sent as a DOUBLE, as some drivers send all, becomes one again.

    Raises:
        UnsupportedSql: it has no literal, as an infinite number.
    """
    match value:
        case None:
            return "NULL"
        case int():
            return str(int(value))
        case float() if math.isfinite(value):
            return str(int(value)) if value.is_integer() and abs(value) <= _WHOLE_MAX else repr(value)
        case Decimal() if value.is_finite():
            return f"{value:f}"
        case str():
            return string_literal(value, backslash_escapes=backslash_escapes)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime() | date() | timedelta():
            return f"'{_moment(value)}'"
        case _:
            raise UnsupportedSql("This value cannot be bound in a queue statement; bind text, bytes or a number")


def typed_literal(value: object) -> str:
    """The value in an expression, of its own type.

    Raises:
        UnsupportedSql: a text that holds what no SQL text can, or an infinite number.
    """
    match value:
        case int() if value < 0:
            return f"({int(value)})"
        case None | int():
            return plain_literal(value)
        case float() if math.isfinite(value):
            return f"({value:.17e})"
        case Decimal() if value.is_finite():
            text = f"{value:f}"
            return f"({text if '.' in text else text + '.'})"  # with a point it is not read as an integer
        case str() if not any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in value):
            return string_literal(value)
        case bytes():
            return f"CAST({plain_literal(value)} AS BINARY)"  # a bare x'...' would be a number among numbers
        case datetime():
            return f"TIMESTAMP{plain_literal(value)}"
        case date():
            return f"DATE{plain_literal(value)}"
        case timedelta():
            return f"TIME{plain_literal(value)}"
        case _:
            raise UnsupportedSql("This value cannot be bound in a stream's WHERE; bind text, bytes or a number")


def _moment(value: date | timedelta) -> str:
    """As MySQL prints it, with a fraction where there is one."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date) else _time(value)


def _time(value: timedelta) -> str:
    sign, span = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(span.days * 86400 + span.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{span.microseconds:06}" if span.microseconds else ""
    return f"{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"

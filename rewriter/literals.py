"""Values as SQL literals of their type, read alike whatever a session's sql_mode, but for NO_BACKSLASH_ESCAPES."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

from rewriter.errors import UnsupportedSql


def string_literal(text: str) -> str:
    """In single quotes, which are never a name's; an inner one is doubled, so no mode ends the string elsewhere."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def literal(value: object) -> str:
    """The literal of a bound parameter's value.

    Raises:
        UnsupportedSql: a text that holds what no SQL text can, or an infinite number.
    """
    match value:
        case None:
            return "NULL"
        case int():
            return f"({int(value)})" if value < 0 else str(int(value))
        case float() if value == value and abs(value) != float("inf"):
            return f"({value:.17e})"
        case Decimal() if value.is_finite():
            return _decimal(value)
        case str() if not any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in value):
            return string_literal(value)
        case bytes():
            # A bare x'...' would be a number among numbers.
            return f"CAST(X'{value.hex()}' AS BINARY)"
        case datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case timedelta():
            return f"TIME'{_time(value)}'"
        case _:
            raise UnsupportedSql("This value cannot be bound in a stream's WHERE; bind text, bytes or a number")


def _decimal(value: Decimal) -> str:
    """Its own digits; a point keeps it from being taken for an integer."""
    text = f"{value:f}"
    return f"({text if '.' in text else text + '.'})"


def _time(value: timedelta) -> str:
    sign, span = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(span.days * 86400 + span.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{span.microseconds:06}" if span.microseconds else ""
    return f"{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"

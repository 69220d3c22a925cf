"""Values of prepared parameters written as SQL literals. Pure; the inverse of what a database reads."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

from proxy.param_values import ParameterValue

_WHOLE_MAX = 1 << 53  # up to here a DOUBLE holds every whole number


def sql_literal(value: ParameterValue, *, backslash_escapes: bool = True) -> str:
    """The value as it stands in SQL. A whole number that came as a DOUBLE, as some drivers send all, is one again."""
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(int(value))
        case float():
            return str(int(value)) if value.is_integer() and abs(value) <= _WHOLE_MAX else repr(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"'{value.isoformat(sep=' ')}'"
        case date():
            return f"'{value.isoformat()}'"
        case timedelta():
            return f"'{_time(value)}'"
        case str():
            text = value.replace("\\", "\\\\") if backslash_escapes else value
            return "'" + text.replace("'", "''") + "'"


def _time(value: timedelta) -> str:
    micros = abs(value) // timedelta(microseconds=1)
    seconds, micros = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros:06d}"
    return f"-{text}" if value < timedelta(0) else text

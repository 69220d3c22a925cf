"""Numbers as MySQL reads and prints them, on plain Python values."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from embedded.compile.errors import SqlError
from embedded.database.text_form import float_text

_PREFIX = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_FULL = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
SHOWN = 64  # characters of a refused value that an error quotes
_POWER_DIGITS = 9  # of an exponent; Decimal refuses those of twenty


def full_number(text: str) -> int | Decimal | None:
    """The number that the whole text is; None if there is anything else in it."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return Decimal(text.strip()) if _FULL.fullmatch(text) else None


def numeric_prefix(text: str) -> int | float:
    """What text is in numeric context: the number it begins with, else 0."""
    match = _PREFIX.match(text)
    if match is None:
        return 0
    number = match[1]
    return int(number) if number.lstrip("+-").isdigit() and len(number) < 19 else float(number)


def check_number(text: str, kind: str) -> None:
    """Refuse a text that has more to it than a number, as a strict change does. `kind`: INTEGER takes whole numbers of
    64 bits, and of these alone an empty text is none.

    Raises:
        SqlError: 1292
    """
    fits = (_WHOLE if kind == "INTEGER" else _FULL).fullmatch(text)
    if not fits and (text.strip() or kind != "DOUBLE"):
        raise SqlError(1292, f"Truncated incorrect {kind} value: '{text[:SHOWN]}'")


def decimal_prefix(text: str) -> Decimal:
    """The exact number that a text begins with, else 0. Its exponent is at most one of nine digits."""
    match = _PREFIX.match(text)
    if match is None:
        return Decimal(0)
    mantissa, _, exponent = match[1].lower().partition("e")
    power = exponent.lstrip("+-0") or "0"
    if len(power) > _POWER_DIGITS:
        power = "9" * _POWER_DIGITS
    return Decimal(f"{mantissa}e{'-' * exponent.startswith('-')}{power}")


def to_text(value: Any) -> str:
    """A stored number or text as text."""
    return float_text(value) if isinstance(value, float) else str(value)


def round_half_away(value: Decimal) -> int:
    """To a whole number, halves away from zero, as MySQL rounds exact numbers."""
    return int(value.to_integral_value("ROUND_HALF_UP"))

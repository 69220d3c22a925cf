"""The types that a column may be read as besides its own: all that can represent each of its values, and text."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DIGITS: Mapping[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WHOLE = tuple(_DIGITS)  # from narrow to wide
# Whole numbers up to 2^24 are exact in a float, up to 2^53 in a double.
_FLOATS: Mapping[str, frozenset[str]] = {
    "float": frozenset({"tinyint", "smallint"}),
    "double": frozenset({"tinyint", "smallint", "int", "float"}),
}
_OTHERS = frozenset({("binary", "string"), ("string", "binary"), ("date", "timestamp_ntz")})
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def decimal(spark: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, None for any other."""
    match = _DECIMAL.fullmatch(spark)
    return (int(match[1]), int(match[2])) if match else None


def lossless(declared: str, own: str, requested: str) -> bool:
    """Whether a column, `declared` in the database and `own` in Spark, loses nothing when it is read as `requested`."""
    if requested in (own, "string") or (own, requested) in _OTHERS:
        return True
    if requested == "boolean":
        return declared.lower().startswith("tinyint(1)")  # MySQL's BOOLEAN; a value of 2 is refused when it is read
    if own == "boolean":
        return requested in _WHOLE
    if into := decimal(requested):
        return _fits(own, into)
    if requested in _FLOATS:
        return own in _FLOATS[requested]
    return own in _WHOLE and requested in _WHOLE and _WHOLE.index(own) < _WHOLE.index(requested)


def _fits(own: str, into: tuple[int, int]) -> bool:
    precision, scale = decimal(own) or (_DIGITS.get(own, 99), 0)
    return into[1] >= scale and into[0] - into[1] >= precision - scale

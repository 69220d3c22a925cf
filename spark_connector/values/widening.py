"""What a column may be read as besides its own type: whatever holds each of its values, and text."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DIGITS: Mapping[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WHOLE = tuple(_DIGITS)  # from the narrowest on
# Whole numbers up to 2^24 are exact in a float, up to 2^53 in a double.
_FLOATS: Mapping[str, frozenset[str]] = {
    "float": frozenset({"tinyint", "smallint"}),
    "double": frozenset({"tinyint", "smallint", "int", "float"}),
}
_OTHERS = frozenset({("binary", "string"), ("string", "binary"), ("date", "timestamp_ntz")})
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def decimal(spark: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, None of any other."""
    found = _DECIMAL.fullmatch(spark)
    return (int(found[1]), int(found[2])) if found else None


def lossless(declared: str, own: str, asked: str) -> bool:
    """Whether a column, `declared` in the database and `own` in Spark, loses nothing when it is read as `asked`."""
    if asked in (own, "string") or (own, asked) in _OTHERS:
        return True
    if asked == "boolean":
        return declared.lower().startswith("tinyint(1)")  # MySQL's BOOLEAN; a value of 2 is refused when it is met
    if own == "boolean":
        return asked in _WHOLE
    if into := decimal(asked):
        return _fits(own, into)
    if asked in _FLOATS:
        return own in _FLOATS[asked]
    return own in _WHOLE and asked in _WHOLE and _WHOLE.index(own) < _WHOLE.index(asked)


def _fits(own: str, into: tuple[int, int]) -> bool:
    precision, scale = decimal(own) or (_DIGITS.get(own, 99), 0)
    return into[1] >= scale and into[0] - into[1] >= precision - scale

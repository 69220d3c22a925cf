"""What Python's JSON reader takes and MySQL's does not."""

from __future__ import annotations

from math import isinf


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

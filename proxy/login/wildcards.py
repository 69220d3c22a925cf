"""Names compared with patterns of wildcards, in a time that grows with the product of their lengths at most."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class Wildcard(Enum):
    """What of a pattern is not a character."""

    ONE = "one character"
    MANY = "any characters, or none"


def fits(name: str, pattern: Sequence[str | Wildcard]) -> bool:
    """Whether the whole name fits. Only the last MANY is ever tried again: an earlier one could gain nothing."""
    position = part = 0
    many, tried = -1, 0  # the last MANY in the pattern, and how far of the name it takes
    while position < len(name):
        wanted = pattern[part] if part < len(pattern) else None
        if wanted is Wildcard.MANY:
            many, tried = part, position
            part += 1
        elif wanted is Wildcard.ONE or wanted == name[position]:
            position += 1
            part += 1
        elif many >= 0:
            tried += 1
            position, part = tried, many + 1
        else:
            return False
    return all(pattern[rest] is Wildcard.MANY for rest in range(part, len(pattern)))

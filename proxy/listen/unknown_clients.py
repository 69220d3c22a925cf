"""Crowd: connections of which nothing is known yet, bounded in all and for each address.

Whoever comes is let in; where that is one too many, another has to go: of the same address where it has more than its
share, else of the address that has the most. Of these it is the first in the order of the rank that the owner gives
(who has said least), and of one rank the oldest. So silent connections never keep out one that talks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

M = TypeVar("M", bound=Hashable)


class Crowd(Generic[M]):
    """See the module. `rank`: 0 for those who have said nothing; higher ranks go later."""

    def __init__(self, most: int, most_of_source: int, rank: Callable[[M], int] = lambda member: 0) -> None:
        self._most, self._most_of_source, self._rank = most, most_of_source, rank
        self._members: dict[M, str] = {}
        self._of: dict[str, dict[M, None]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[M]:
        return iter(tuple(self._members))

    def add(self, member: M, source: str) -> M | None:
        """It has come; returns who has to go, which may be the newcomer itself."""
        self._members[member] = source
        of_source = self._of.setdefault(source, {})
        of_source[member] = None
        if len(of_source) > self._most_of_source:
            return self._first(source)
        if len(self._members) > self._most:
            return self._first(max(self._of, key=lambda one: len(self._of[one])))
        return None

    def discard(self, member: M) -> None:
        """It is gone, or known by now. May be called twice."""
        source = self._members.pop(member, None)
        if source is not None:
            del self._of[source][member]
            if not self._of[source]:
                del self._of[source]

    def _first(self, source: str) -> M:
        """Who of that address goes first: of one rank the oldest, for they are in the order in which they came."""
        return min(self._of[source], key=self._rank)

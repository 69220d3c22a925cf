"""BoundedConnections: unauthenticated connections, bounded in all and for each address.

Every new connection is accepted; where that is one too many, another is evicted: of the same address where it has more
than its share, else of the address that has the most. Of these it is the one of the lowest rank, which the owner
defines, and of one rank the oldest. So silent connections never keep out an active one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

M = TypeVar("M", bound=Hashable)


class BoundedConnections(Generic[M]):
    """See the module. `rank`: 0 for those that have sent nothing; higher ranks are evicted later."""

    def __init__(self, most: int, most_of_source: int, rank: Callable[[M], int] = lambda member: 0) -> None:
        self._most, self._most_of_source, self._rank = most, most_of_source, rank
        self._members: dict[M, str] = {}
        self._of: dict[str, dict[M, None]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[M]:
        return iter(tuple(self._members))

    def add(self, member: M, source: str) -> M | None:
        """Add it; returns the connection to evict, which may be the new one itself."""
        self._members[member] = source
        of_source = self._of.setdefault(source, {})
        of_source[member] = None
        if len(of_source) > self._most_of_source:
            return self._first(source)
        if len(self._members) > self._most:
            return self._first(max(self._of, key=lambda one: len(self._of[one])))
        return None

    def discard(self, member: M) -> None:
        """It is closed, or authenticated. May be called twice."""
        source = self._members.pop(member, None)
        if source is not None:
            del self._of[source][member]
            if not self._of[source]:
                del self._of[source]

    def _first(self, source: str) -> M:
        """The one of that address to evict: of one rank the oldest, for they are in the order of arrival."""
        return min(self._of[source], key=self._rank)

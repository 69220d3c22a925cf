"""NextIds: which messages a look will probably find, so that it can lock them in the same round trip. Pure.

Ids that a database numbers follow one another. So a queue whose messages come a few at a time, and are claimed as they
come, mostly has the ids behind those of its last claim. A wrong guess costs the database a search by primary key; it
never changes what is claimed, for only what a look found is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.queue import MessageId

EXPECTED_MAX = 4
"""Ids that are expected at once: a few messages of one commit, or of commits that came together."""

MISSES_MAX = 8
"""Looks in a row that found other ids, or none, after which nothing is expected until one would have been foreseen."""


@dataclass(slots=True)
class NextIds:
    """Of one queue. Used by one thread at a time; a lost update is a wrong guess."""

    _next: int | None = None
    _misses: int = 0
    _useless: bool = False

    def expected(self, count: int) -> range:
        """The ids to lock before it is known what is due, at most `count`; empty where nothing is to be expected."""
        if self._next is None or self._misses >= MISSES_MAX or self._useless:
            return range(0)
        return range(self._next, self._next + min(count, EXPECTED_MAX))

    def found(self, ids: Sequence[MessageId]) -> None:
        """These were to be claimed after a look; none, where nothing was due."""
        numbers = [id_ for id_ in ids if isinstance(id_, int)]
        if self._next is not None:
            foreseen = numbers and all(self._next <= number < self._next + EXPECTED_MAX for number in numbers)
            self._misses = 0 if foreseen else min(self._misses + 1, MISSES_MAX)
        if numbers:
            self._next = max(numbers) + 1

    def give_up(self) -> None:
        """Nothing is to be expected from now on."""
        self._useless = True

"""NextIds: which messages a poll will probably return, so that it can lock them in the same round trip. Pure.

AUTO_INCREMENT ids are consecutive. So a queue whose messages come a few at a time, and are claimed as they come, mostly
has the ids after those of its last claim. A wrong guess costs the database a search by primary key; it never changes
what is claimed, because only what the poll returned is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.queue import MessageId

EXPECTED_MAX = 4
"""Ids that are expected at once: a few messages of one commit, or of commits that came together."""

MISSES_MAX = 8
"""Polls in a row with other ids, or none, after which nothing is expected until a guess would have been right."""


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

    def record(self, ids: Sequence[MessageId]) -> None:
        """Record the ids to be claimed after a poll; none, where nothing was due."""
        numbers = [id_ for id_ in ids if isinstance(id_, int)]
        if self._next is not None:
            foreseen = numbers and all(self._next <= number < self._next + EXPECTED_MAX for number in numbers)
            self._misses = 0 if foreseen else min(self._misses + 1, MISSES_MAX)
        if numbers:
            self._next = max(numbers) + 1

    def give_up(self) -> None:
        """Expect nothing from now on."""
        self._useless = True

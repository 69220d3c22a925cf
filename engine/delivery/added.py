"""AddedIds: ids of messages that commits have just added, which are claimed without a look. Pure.

Whoever carried a commit knows the first id that the database gave and how many rows there are. That is a hint: an
INSERT with ids of its own, with a delay or beside a trigger makes it wrong. A claim takes what is right of it, a look
follows at once where not all was, and one a second later in any case (`CONFIRM_SECONDS`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.model.queue import ADDED_MAX, MessageId

CONFIRM_SECONDS = 1.0
"""After a claim without a look, until the table is looked at for what the hint has left out."""

_MISSES_MAX = 4  # in a row; then only one hint in _SELDOM is followed, until one is right
_SELDOM = 32


class AddedIds:
    """See the module. Of one queue."""

    def __init__(self) -> None:
        self._ids: list[MessageId] = []
        self._misses = 0

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Sequence[MessageId]) -> bool:
        """Keep these; False where there would be too many, or hints have been wrong too often."""
        if len(self._ids) + len(ids) > ADDED_MAX:
            return False
        if self._misses >= _MISSES_MAX:
            self._misses += 1
            if self._misses % _SELDOM:
                return False
        self._ids += ids
        return True

    def discard(self, ids: Collection[MessageId]) -> None:
        """These are known by other means, or have ended."""
        if self._ids:
            self._ids = [id_ for id_ in self._ids if id_ not in ids]

    def take(self) -> Sequence[MessageId]:
        """All of them, which are forgotten here."""
        ids, self._ids = self._ids, []
        return ids

    def proved(self, *, right: bool) -> None:
        """What became of those that were taken."""
        self._misses = 0 if right else self._misses + 1

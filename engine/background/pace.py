"""How often a queue is looked after, and how fast its old rows are deleted.

Rows are never locked for long, other work comes first, and a queue where nothing happens costs next to nothing.
"""

from __future__ import annotations

from engine.delivery.context import Changes

PURGE_BATCH = 500  # Vitess's: short locks, and the cost per row no longer falls beyond it
_BATCH_MIN = 20  # even there a batch is mostly the cost of its commit
_BATCH_SECONDS = 0.2  # a batch that takes longer is too large for this database, at this hour
_REST, _REST_BEHIND = 2.0, 0.5  # seconds of rest for each of deleting; where the last pass did not come to its end
_REST_SECONDS_MAX = 5.0
SKIPPED_MAX = 15  # periods, between two passes of a queue where nothing happens


class IdlePace:
    """Which periods have a pass: each, and fewer and fewer where nothing changes: every second one, every fourth, and
    at last every sixteenth. `changes`: those that give the next period a pass."""

    def __init__(self, changes: Changes) -> None:
        self._changes, self._seen = changes, changes.count
        self._skipped = self._left = 0

    @property
    def changed(self) -> bool:
        """Whether something has changed since the last period."""
        return self._seen != self._changes.count

    def due(self) -> bool:
        """A period is over: whether to make a pass."""
        if self.changed:
            self._seen = self._changes.count
            self._skipped = self._left = 0
        if self._left == 0:
            return True
        self._left -= 1
        return False

    def passed(self, *, useful: bool, skipped_max: int = SKIPPED_MAX) -> None:
        """A pass was made. `useful`: it found something to do, or failed. `skipped_max`: most periods to be skipped."""
        self._left = self._skipped = 0 if useful else min(2 * self._skipped + 1, skipped_max)


class DeletingPace:
    """`batch`: rows to delete at once. `behind`: the last pass did not come to its end."""

    def __init__(self) -> None:
        self.batch = PURGE_BATCH
        self.behind = False

    def rest(self, seconds: float) -> float:
        """Seconds to rest after a full batch that took so long, waiting for its turn included."""
        slow = seconds > _BATCH_SECONDS
        self.batch = max(self.batch // 2, _BATCH_MIN) if slow else min(self.batch * 2, PURGE_BATCH)
        return min(seconds * (_REST_BEHIND if self.behind else _REST), _REST_SECONDS_MAX)

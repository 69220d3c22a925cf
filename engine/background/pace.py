"""How fast old rows are deleted: so that rows are never locked for long, and other work comes first."""

from __future__ import annotations

PURGE_BATCH = 500  # Vitess's: short locks, and the cost per row no longer falls beyond it
_BATCH_MIN = 20  # even there a batch is mostly the cost of its commit
_BATCH_SECONDS = 0.2  # a batch that takes longer is too large for this database, at this hour
_REST, _REST_BEHIND = 2.0, 0.5  # seconds of rest for each of deleting; where the last pass did not come to its end
_REST_SECONDS_MAX = 5.0


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

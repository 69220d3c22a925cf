"""Every statement that moves rejected messages into a dead-letter queue. Values are bound, never spliced.

Columns are matched by name: what only one of the two tables has is left out, or left to its default. The queue's own
columns are set as those of a new message; three more say where it comes from, unless the queue has such columns itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.model import QueueSpec, quoted
from engine.statements.dialect import Dialect
from engine.statements.queue import placeholders
from engine.states import REJECTED_NS


class DeadLetterStatements:
    """The texts for one queue. A level is a priority: each is found by the index on due messages."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        self._dialect, self._queue = dialect, queue
        self._table = queue.name.sql
        self._lock = f" {dialect.skip_locked}" if dialect.skip_locked else ""
        waiting = f"FROM {self._table} WHERE time_acked IS NULL"
        rejected = f"SELECT id {waiting} AND time_next = {REJECTED_NS}"
        self.first_level = f"SELECT MIN(priority) {waiting}"
        self.next_level = f"SELECT MIN(priority) {waiting} AND priority > ?"
        self.of_level = f"{rejected} AND priority = ? LIMIT ?"
        self.without_level = f"{rejected} AND priority IS NULL LIMIT ?"
        self.of_rest = f"{rejected} AND priority > ? LIMIT ?"
        self.of_all = f"{rejected} LIMIT ?"

    def lock(self, count: int) -> str:
        """Those of these ids that are rejected still, locked; what others hold is passed over."""
        return (
            f"SELECT id FROM {self._table} WHERE +time_acked IS NULL AND time_next = {REJECTED_NS}"
            f" AND id IN ({placeholders(count)}){self._lock}"
        )

    def forget_acked(self, dead: QueueSpec, count: int) -> str:
        """Dead letters of these ids that are done with: the ids have come back."""
        return f"DELETE FROM {dead.name.sql} WHERE +time_acked IS NOT NULL AND id IN ({placeholders(count)})"

    def copy(self, dead: QueueSpec, count: int) -> str:
        """These messages, as dead letters."""
        values = self._values(dead)
        columns = ", ".join(quoted(name) for name in values)
        return (
            f"INSERT INTO {dead.name.sql} ({columns}) SELECT {', '.join(values.values())}"
            f" FROM {self._table} WHERE id IN ({placeholders(count)})"
        )

    def delete(self, count: int) -> str:
        return f"DELETE FROM {self._table} WHERE id IN ({placeholders(count)})"

    def _values(self, dead: QueueSpec) -> Mapping[str, str]:
        """What goes into each column of the dead-letter queue."""
        now = self._dialect.now_ns
        fixed = {"time_next": now, "epoch": "0", "time_acked": "NULL"}
        source = self._queue.name.table.replace("'", "''")
        added = {"attempts": "COALESCE(epoch, 0)", "time_dead": now, "source": f"'{source}'"}
        values: dict[str, str] = {}
        for column in dead.columns:
            name = column.name.lower()
            if name in dead.generated:
                continue
            if name in fixed:
                values[column.name] = fixed[name]
            elif (own := self._queue.column(name)) is not None:
                values[column.name] = quoted(own.name)
            elif name in added:
                values[column.name] = added[name]
        return values

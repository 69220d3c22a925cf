"""The statements of a poll, for an index on (time_acked, priority, time_next [ASC or DESC]).

Each reads only the rows it returns, whatever else is in the table. Their parameters: level, limit; level, now, limit;
level if the next priority is asked for; level, now. MIN() over an index prefix is a single seek in MySQL, MariaDB and
SQLite, where ORDER BY ... LIMIT 1 may sort.
"""

from __future__ import annotations

from engine.store.gate import GatedTable


class PollStatements:
    """The texts for one queue."""

    def __init__(self, table: GatedTable, now_ns: str) -> None:
        self._table = table
        waiting = f"FROM {table} WHERE time_acked IS NULL"
        next_priority = f"(SELECT MIN(priority) {waiting} AND priority > ?)"
        self.start = (
            f"SELECT {now_ns}, (SELECT MIN(priority) {waiting}), EXISTS (SELECT 1 {waiting} AND priority IS NULL),"
            f" {next_priority}"
        )
        """The time, the first priority in use, whether there are messages without one, and the priority after `?`."""

        self.peek = f"SELECT id, priority, time_next {waiting} AND priority = ? ORDER BY time_next LIMIT ?"
        """The first messages of one priority, due or not: needs no time, and is a fifth of the work of the next."""

        self.priority = self._level("priority = ?", "priority", next_priority)
        """Of one priority: its due messages (kind 0), then (kind 1) the next priority in use and the next due time."""

        self.no_priority = self._level("priority IS NULL", "0", "NULL")
        """The same for messages whose priority is NULL, which counts as 0."""

        self.rest = self._level("priority >= ?", "priority", "NULL", order="priority, time_next")
        """The same for all priorities from one on: for tables that use priority as something else than a few levels."""

        self.legacy = self._level("1 = 1", "0", "NULL")
        """The same for a table without a priority column."""

    def _level(self, level: str, priority: str, next_priority: str, order: str = "time_next") -> str:
        # Two branches for what is due, because "NULL or past" in one is a walk over all that is postponed in SQLite.
        keys = f"SELECT 0 AS kind, id, {priority} AS priority, time_next FROM {self._table}"
        waiting = f"WHERE time_acked IS NULL AND {level} AND time_next"
        earliest = "MIN(time_next)" if "," in order else "time_next"
        first = "" if "," in order else " ORDER BY time_next LIMIT 1"
        next_due = f"(SELECT {earliest} FROM {self._table} {waiting} > ?{first})"
        return (
            f"SELECT * FROM ({keys} {waiting} IS NULL ORDER BY {order} LIMIT ?) AS unscheduled"
            f" UNION ALL SELECT * FROM ({keys} {waiting} <= ? ORDER BY {order} LIMIT ?) AS due"
            f" UNION ALL SELECT 1, NULL, {next_priority}, {next_due}"
        )

"""Every statement the store runs on a queue's table, by name, the same for all dialects except two keywords.

All that depends on the queue is the table's name and whether it has a priority column (Vitess's first layout has not:
then everything has priority 0). Values are bound, never spliced. The poll's statements are made for an index on
(time_acked, priority, time_next [ASC or DESC]): each reads only the rows it returns, whatever else is in the table.
Their parameters: level, limit; level, now, limit; level if the next priority is asked for; level, now.
MIN() over an index prefix is a single seek in MySQL, MariaDB and SQLite, where ORDER BY ... LIMIT 1 may sort.
"""

from __future__ import annotations

from engine.model.identity import highest_epoch, next_epoch_sql
from engine.model.lease_token import GROWN, TOKEN_COLUMN, VOID
from engine.model.queue import ATTEMPTS_COLUMN, Layout, QueueSpec
from engine.model.states import REJECTED_NS, due, not_set_aside
from engine.store.statements.dialect import Dialect
from engine.store.statements.partitions import archived_until


def placeholders(count: int) -> str:
    """`?` times count, for an IN list."""
    assert count > 0, "an empty IN list is not SQL"
    return ", ".join("?" * count)


class QueueStatements:
    """The texts for one queue."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        self.table = table = dialect.gate.of(queue)
        priority = "COALESCE(priority, 0)" if queue.layout is Layout.CURRENT else "0"
        self.skip_locked = dialect.skip_locked
        self._lock = f" {dialect.skip_locked}" if dialect.skip_locked else ""
        self._columns = dialect.selected(queue.columns)
        self._next_epoch = next_epoch_sql(highest_epoch(queue))
        # The plus stops SQLite from reading the whole index of unacked messages with an id list; MySQL ignores it.
        self._unacked = unacked = f"FROM {table} WHERE +time_acked IS NULL"
        self._token = token = TOKEN_COLUMN if queue.has_tokens else "0"
        self._new_token = f", {TOKEN_COLUMN} = {GROWN}" if queue.has_tokens else ""
        self._no_token = f", {TOKEN_COLUMN} = {VOID}" if queue.has_tokens else ""
        self._now = now_ns = dialect.now_ns
        waiting = f"FROM {table} WHERE time_acked IS NULL"
        self.now = f"SELECT {now_ns}"
        """The database's time."""

        next_priority = f"(SELECT MIN(priority) {waiting} AND priority > ?)"
        self.poll_start = (
            f"SELECT {now_ns}, (SELECT MIN(priority) {waiting}), EXISTS (SELECT 1 {waiting} AND priority IS NULL),"
            f" {next_priority}"
        )
        """The time, the first priority in use, whether there are messages without one, and the priority after `?`."""

        self.poll_peek = f"SELECT id, priority, time_next {waiting} AND priority = ? ORDER BY time_next LIMIT ?"
        """The first messages of one priority, due or not: needs no time, and is a fifth of the work of the next."""

        self.poll_priority = self._level("priority = ?", "priority", next_priority)
        """Of one priority: its due messages (kind 0), then (kind 1) the next priority in use and the next due time."""

        self.poll_no_priority = self._level("priority IS NULL", "0", "NULL")
        """The same for messages whose priority is NULL, which counts as 0."""

        self.poll_rest = self._level("priority >= ?", "priority", "NULL", order="priority, time_next")
        """The same for all priorities from one on: for tables that use priority as something else than a few levels."""

        self.poll_legacy = self._level("1 = 1", "0", "NULL")
        """The same for a table without a priority column."""

        self.purgeable = (
            f"SELECT id FROM {table} WHERE time_acked < {now_ns} - ? ORDER BY time_acked LIMIT ?{self._lock}"
        )
        """Messages acked long enough ago, oldest first."""

        archived = archived_until(dialect, queue.name.database)
        self.purgeable_archived = (
            f"SELECT id FROM {table} WHERE time_acked < {now_ns} - ? AND time_acked <= {archived}"
            f" ORDER BY time_acked LIMIT ?{self._lock}"
        )
        """Those of them that are archived; none where the archive does not know the queue."""

        added = f"{due(now_ns)} AND time_next = time_scheduled AND COALESCE(epoch, 0) = 0"
        self._added = f"+time_acked IS NULL AND {added} AND {now_ns} BETWEEN ? AND ? AND id IN"
        self._lock_at_once = f" {dialect.lock_at_once}" if dialect.lock_at_once else ""

        self._claimable = (
            f"SELECT {now_ns}, id, {priority}, COALESCE(epoch, 0), COALESCE(time_next, 0), {token}"
            f" {unacked} AND {due(now_ns)} AND id IN"
        )

    def _level(self, level: str, priority: str, next_priority: str, order: str = "time_next") -> str:
        # Two branches for what is due, because "NULL or past" in one is a walk over all that is postponed in SQLite.
        keys = f"SELECT 0 AS kind, id, {priority} AS priority, time_next FROM {self.table}"
        waiting = f"WHERE time_acked IS NULL AND {level} AND time_next"
        earliest = "MIN(time_next)" if "," in order else "time_next"
        first = "" if "," in order else " ORDER BY time_next LIMIT 1"
        next_due = f"(SELECT {earliest} FROM {self.table} {waiting} > ?{first})"
        return (
            f"SELECT * FROM ({keys} {waiting} IS NULL ORDER BY {order} LIMIT ?) AS unscheduled"
            f" UNION ALL SELECT * FROM ({keys} {waiting} <= ? ORDER BY {order} LIMIT ?) AS due"
            f" UNION ALL SELECT 1, NULL, {next_priority}, {next_due}"
        )

    def claimable(self, count: int) -> str:
        """Of these ids, those that can be leased: time, id, priority, epoch, due time and token. Locked if others write
        too."""
        return f"{self._claimable} ({placeholders(count)}){self._lock}"

    def lease(self, epochs: int, count: int, *, counted: bool = True) -> str:
        """Lease rows that this transaction has locked; their new time_next by the epoch they had. Not `counted`: the
        delivery before was none. Parameters: epochs and times, `token_times`, ids."""
        # time_next is first: MySQL evaluates SET from left to right, and the CASE needs the old epoch.
        cases = "WHEN ? THEN ? " * epochs
        epoch = self._next_epoch if counted else "COALESCE(epoch, 0)"
        return (
            f"UPDATE {self.table} SET time_next = CASE COALESCE(epoch, 0) {cases}END, epoch = {epoch}"
            f"{self._new_token} WHERE id IN ({placeholders(count)})"
        )

    def token_times(self, time_us: int) -> tuple[int, ...]:
        """The parameters of a lease for its token; none where the table has no tokens."""
        return (time_us,) * self._new_token.count("?")

    def lock_added(self, count: int) -> str:
        """Lock what `lease_added` would lease, with the same parameters but what it sets; fails where another has a
        row. Empty where a writing transaction is alone."""
        if not self._lock_at_once:
            return ""
        return f"SELECT id FROM {self.table} WHERE {self._added} ({placeholders(count)}){self._lock_at_once}"

    def lease_added(self, count: int) -> str:
        """Lease, until a time, those of these ids that are as an INSERT leaves them and due, if the database's time is
        between two others. Parameters: the first time, `token_times`, the others, ids."""
        changes = f"time_next = ?, epoch = 1{self._new_token}"
        return f"UPDATE {self.table} SET {changes} WHERE {self._added} ({placeholders(count)})"

    def leased_until(self, count: int) -> str:
        """The time, and whole rows, of those of these ids that have this time_next."""
        among = f"id IN ({placeholders(count)})"
        return f"SELECT {self._now}, {self._columns} FROM {self.table} WHERE {among} AND time_next = ?"

    def born(self, count: int) -> str:
        """The time, and whole rows, of those of these ids that are not acked."""
        among = f"id IN ({placeholders(count)})"
        return f"SELECT {self._now}, {self._columns} FROM {self.table} WHERE {among} AND time_acked IS NULL"

    @property
    def born_until(self) -> str:
        """The id of the message with this time_next and token that was never delivered again."""
        return (
            f"SELECT id FROM {self.table} WHERE time_acked IS NULL AND epoch = 1 AND time_next = ? AND lease_token = ?"
            " LIMIT 1"
        )

    def set_aside(self, count: int) -> str:
        """Reject rows that this transaction has locked."""
        return f"UPDATE {self.table} SET time_next = {REJECTED_NS} WHERE id IN ({placeholders(count)})"

    def rows(self, count: int) -> str:
        """Whole rows, as they are after the lease."""
        return f"SELECT {self._columns} FROM {self.table} WHERE id IN ({placeholders(count)})"

    def unsettled(self, count: int) -> str:
        """Which of these messages exist, are not acked and not set aside: with epoch, time_next and token."""
        return (
            f"SELECT id, COALESCE(epoch, 0), time_next, {self._token} {self._unacked} AND {not_set_aside()}"
            f" AND id IN ({placeholders(count)})"
        )

    def releasable(self, count: int) -> str:
        """Of these ids, the unacked ones with their lease; locked where others write too."""
        select = f"SELECT id, COALESCE(epoch, 0), time_next, {self._token}"
        return f"{select} {self._unacked} AND id IN ({placeholders(count)}){self._lock}"

    def release(self, count: int) -> str:
        """Make leased rows due again as before the lease, their tokens void; `?` is what to take off the epoch."""
        cases = "WHEN ? THEN ? " * count
        return (
            f"UPDATE {self.table} SET time_next = CASE id {cases}END, epoch = COALESCE(epoch, 0) - ?"
            f"{self._no_token} WHERE id IN ({placeholders(count)})"
        )

    def failed_attempts(self, count: int) -> str:
        """The stored failed attempts of these messages."""
        return f"SELECT id, {ATTEMPTS_COLUMN} FROM {self.table} WHERE id IN ({placeholders(count)})"

    def note_failed(self, count: int) -> str:
        """Store them for rows that this transaction has locked."""
        cases = "WHEN ? THEN ? " * count
        return f"UPDATE {self.table} SET {ATTEMPTS_COLUMN} = CASE id {cases}END WHERE id IN ({placeholders(count)})"

    def purge(self, count: int) -> str:
        """Delete messages, if acked long enough ago."""
        return self.table.delete(f"+time_acked IS NOT NULL AND id IN ({placeholders(count)})")

"""Every statement the store runs on a queue's table, by name, the same for all dialects except two keywords.

All that depends on the queue is the table's name and whether it has a priority column (Vitess's first layout has not:
then everything has priority 0). Values are bound, never spliced. What a poll runs is in `poll`, what leases messages
that an INSERT has just added is in `added`.
"""

from __future__ import annotations

from engine.model.identity import highest_epoch, next_epoch_sql
from engine.model.key_range import SLOT_COLUMN
from engine.model.lease_token import GROWN, TOKEN_COLUMN, VOID
from engine.model.queue import ATTEMPTS_COLUMN, Layout, QueueSpec
from engine.model.states import REJECTED_NS, due, not_set_aside
from engine.store.statements.added import AddedStatements
from engine.store.statements.dialect import Dialect, placeholders
from engine.store.statements.partitions import archived_until
from engine.store.statements.poll import PollStatements


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
        now_ns = dialect.now_ns
        self.now = f"SELECT {now_ns}"
        """The database's time."""

        self.poll = PollStatements(table, now_ns)
        self.added = AddedStatements(dialect, table, self._columns, self._new_token)

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

        self._claimable = (
            f"SELECT {now_ns}, id, {priority}, COALESCE(epoch, 0), COALESCE(time_next, 0), {token}"
            f" {unacked} AND {due(now_ns)} AND id IN"
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

    def set_aside(self, count: int) -> str:
        """Reject rows that this transaction has locked."""
        return f"UPDATE {self.table} SET time_next = {REJECTED_NS} WHERE id IN ({placeholders(count)})"

    def rows(self, count: int) -> str:
        """Whole rows, as they are after the lease."""
        return f"SELECT {self._columns} FROM {self.table} WHERE id IN ({placeholders(count)})"

    def slots(self, count: int) -> str:
        """Where on the ring these messages are."""
        return f"SELECT id, {SLOT_COLUMN} FROM {self.table} WHERE id IN ({placeholders(count)})"

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

    def release(self, count: int, *, as_scheduled: bool = False) -> str:
        """Make leased rows due again as before the lease, their tokens void; `?` is what to take off the epoch.
        `as_scheduled`: for some the time is NULL."""
        due = f"CASE id {'WHEN ? THEN ? ' * count}END"
        if as_scheduled:
            due = f"COALESCE({due}, time_scheduled)"
        return (
            f"UPDATE {self.table} SET time_next = {due}, epoch = COALESCE(epoch, 0) - ?"
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
        return self.table.delete(f"+time_acked IS NOT NULL AND id IN ({placeholders(count)})", index=self.table.key)

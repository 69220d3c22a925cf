"""The statements that lease messages which an INSERT has just added, or read what an INSERT has leased itself."""

from __future__ import annotations

from engine.model.states import due
from engine.store.gate import GatedTable
from engine.store.statements.dialect import Dialect, placeholders


class AddedStatements:
    """The texts for one queue. `columns`: of a whole row; `new_token`: what a lease sets beside its time and epoch."""

    def __init__(self, dialect: Dialect, table: GatedTable, columns: str, new_token: str) -> None:
        self._table, self._columns, self._new_token = str(table), columns, new_token
        self._now = now_ns = dialect.now_ns
        added = f"{due(now_ns)} AND time_next = time_scheduled AND COALESCE(epoch, 0) = 0"
        self._added = f"+time_acked IS NULL AND {added} AND {now_ns} BETWEEN ? AND ? AND id IN"
        self._lock_at_once = f" {dialect.lock_at_once}" if dialect.lock_at_once else ""

    def lock(self, count: int) -> str:
        """Lock what `lease` would lease, with the same parameters but what it sets; fails where another has a
        row. Empty where a writing transaction is alone."""
        if not self._lock_at_once:
            return ""
        return f"SELECT id FROM {self._table} WHERE {self._added} ({placeholders(count)}){self._lock_at_once}"

    def lease(self, count: int) -> str:
        """Lease, until a time, those of these ids that are as an INSERT leaves them and due, if the database's time is
        between two others. Parameters: the first time, `token_times`, the others, ids."""
        changes = f"time_next = ?, epoch = 1{self._new_token}"
        return f"UPDATE {self._table} SET {changes} WHERE {self._added} ({placeholders(count)})"

    def leased_until(self, count: int) -> str:
        """The time, and whole rows, of those of these ids that have this time_next."""
        among = f"id IN ({placeholders(count)})"
        return f"SELECT {self._now}, {self._columns} FROM {self._table} WHERE {among} AND time_next = ?"

    def born(self, count: int) -> str:
        """The time, and whole rows, of those of these ids that are not acked."""
        among = f"id IN ({placeholders(count)})"
        return f"SELECT {self._now}, {self._columns} FROM {self._table} WHERE {among} AND time_acked IS NULL"

    @property
    def born_until(self) -> str:
        """The id of the message with this time_next and token that was never delivered again."""
        return (
            f"SELECT id FROM {self._table} WHERE time_acked IS NULL AND epoch = 1 AND time_next = ? AND lease_token = ?"
            " LIMIT 1"
        )

"""Every statement the store runs for event groups; what the groups are is in engine.model.groups."""

from __future__ import annotations

from engine.model.groups import GROUPS_TABLE, GroupKey
from engine.model.queue import QueueName, QueueSpec, quoted
from engine.model.states import PARKED_NS
from engine.store.gate import GatedTable
from engine.store.statements.dialect import Dialect

_PLACE = "group_value, follow_database, follow_table, follow_id"


def table_of(database: str) -> str:
    """The database's table of groups, for clients' own connections."""
    return QueueName(database, GROUPS_TABLE).sql


def create_groups(database: str) -> str:
    """The definition of the table, in MySQL's syntax. Values compare without case and accents, so that all values that
    are equal by the column's own collation match; the column itself then decides."""
    exact = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
    return (
        f"CREATE TABLE IF NOT EXISTS {table_of(database)} ("
        f"follow_database VARCHAR(64) {exact}, follow_table VARCHAR(64) {exact}, follow_id VARCHAR(255) {exact}, "
        f"queue_name VARCHAR(64) {exact}, "
        "group_value VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL, "
        "PRIMARY KEY (follow_database, follow_table, follow_id), KEY by_group (queue_name, group_value)"
        ") ENGINE=InnoDB COMMENT='queuegate: messages that are held until a group of others is done'"
    )


class GroupStatements:
    """The texts for one queue."""

    def __init__(self, dialect: Dialect, group: GroupKey) -> None:
        self._dialect = dialect
        self._column = quoted(group.column)
        table = dialect.gate.own(group.queue.database, GROUPS_TABLE)
        waiting = f"FROM {table} WHERE queue_name = ?"

        self.exists = f"SELECT 1 FROM {table} LIMIT 0"
        """Fails if the table is not there."""

        places, order = f"SELECT {_PLACE} {waiting}", f"ORDER BY {_PLACE} LIMIT ?"
        self.first_parked = f"{places} {order}"
        """The parked messages, each with its group, page by page."""

        beyond = "(group_value > ? OR (follow_database, follow_table, follow_id) > (?, ?, ?))"
        self.next_parked = f"{places} AND group_value >= ? AND {beyond} {order}"

        self.parked = f"{places} AND group_value = ? {dialect.skip_locked}"
        """The messages that are parked for a group, or for one whose value this table takes for equal. Rows locked by a
        client are skipped: it is settling messages of the group, and will complete the group."""

        self.forget = table.delete("follow_database = ? AND follow_table = ? AND follow_id = ?")

        gate = dialect.gate
        self.open = self._open_of(gate.known_by(group.queue, group.indexes))
        """Whether a message of a group is unacked in the queue."""

        dead = gate.known_by(group.dead, group.dead_indexes)
        self.open_dead = self._open_of(dead)
        """The same of its dead-letter queue."""

        self.any_dead = f"SELECT 1 FROM {dead} WHERE time_acked IS NULL LIMIT 1"
        """Whether there is any dead letter, where they lack the column."""

    def _open_of(self, table: GatedTable) -> str:
        return f"SELECT 1 FROM {table} WHERE time_acked IS NULL AND {self._column} = ? LIMIT 1"

    def fire(self, follow: QueueSpec) -> str:
        """Make a parked message due, or scheduled by its time_scheduled."""
        table = self._dialect.gate.of(follow)
        due = due_sql(self._dialect.now_ns, follow)
        return f"UPDATE {table} SET time_next = {due} WHERE id = ? AND +time_acked IS NULL AND time_next = {PARKED_NS}"


def due_sql(now_sql: str, follow: QueueSpec) -> str:
    """When a message that was parked is to be sent."""
    if follow.column("time_scheduled") is None:
        return now_sql
    return f"CASE WHEN time_scheduled > {now_sql} THEN time_scheduled ELSE {now_sql} END"

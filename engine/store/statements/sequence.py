"""Every statement by which messages of a topic are given their sequence numbers. Values are bound, never spliced."""

from __future__ import annotations

from engine.model.queue import SEQUENCE_COLUMN, TopicSpec, quoted
from engine.store.statements.dialect import Dialect
from engine.store.statements.queue import placeholders
from engine.store.statements.topics import PositionStatements, numbers_of

_ON_UPDATE_NOW = 8192  # the protocol's flag of a column that an UPDATE sets to the time, unless it names it


class SequenceStatements:
    """The texts for one topic with numbers. The last number given stands in the table of positions, in a row of the
    topic's own: `key` is its name there. A group's row bears the name of the group's table, which is another one."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        self.table = dialect.gate.of(topic)
        self._skip_locked = dialect.skip_locked
        self.position = PositionStatements(dialect, topic.name.database)
        self.key = topic.name.table
        unnumbered = f"FROM {numbers_of(dialect, topic)} WHERE {SEQUENCE_COLUMN} IS NULL"
        self.unnumbered = f"SELECT id {unnumbered} LIMIT ?"
        """The first messages without a number: entries of the index on the numbers, in which they stand in the order of
        their ids. The order is not asked for, because MariaDB would sort all that have no number."""

        self.last_unnumbered = f"SELECT MAX(id) {unnumbered}"
        """The last message without a number; NULL where all have one."""

        self.last = f"SELECT COALESCE(MAX({SEQUENCE_COLUMN}), 0) FROM {self.table}"
        """The largest number in the table."""

        untouched = [quoted(column.name) for column in topic.columns if column.flags & _ON_UPDATE_NOW]
        self._untouched = "".join(f", {name} = {name}" for name in untouched)

    def free(self, count: int) -> str:
        """Those of so many messages that have no number and can be locked at once, locked."""
        found = f"SELECT id FROM {self.table} WHERE id IN ({placeholders(count)}) AND {SEQUENCE_COLUMN} IS NULL"
        return f"{found} {self._skip_locked}".rstrip()

    def number(self, count: int) -> str:
        """Give so many messages the next numbers. Parameters: the last number given, their ids in order, their ids."""
        ids = placeholders(count)
        return f"UPDATE {self.table} SET {SEQUENCE_COLUMN} = ? + FIELD(id, {ids}){self._untouched} WHERE id IN ({ids})"

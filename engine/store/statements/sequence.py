"""Every statement that assigns sequence numbers to messages of a topic. Values are bound, never spliced."""

from __future__ import annotations

from engine.model.queue import SEQUENCE_COLUMN, TopicSpec, quoted
from engine.store.statements.dialect import Dialect
from engine.store.statements.queue import placeholders
from engine.store.statements.topics import PositionStatements, numbers_of

_ON_UPDATE_NOW = 8192  # the protocol's flag of a column that an UPDATE sets to the time, unless it names it


class SequenceStatements:
    """The statements for one topic with numbers. The last assigned number is in the table of positions, in a row of the
    topic: `key` is its name there. A group's row has the name of the group's table, which differs."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        self.table = dialect.gate.of(topic)
        self._skip_locked = dialect.skip_locked
        self.position = PositionStatements(dialect, topic.name.database)
        self.key = topic.name.table
        unnumbered = f"FROM {numbers_of(dialect, topic)} WHERE {SEQUENCE_COLUMN} IS NULL"
        self.unnumbered = f"SELECT id {unnumbered} LIMIT ?"
        """The first messages without a number: entries of the index on the numbers, where they are in the order of
        their ids. There is no ORDER BY, because MariaDB would sort all messages without a number."""

        self.last_unnumbered = f"SELECT MAX(id) {unnumbered}"
        """The last message without a number; NULL where all have one."""

        self.last = f"SELECT COALESCE(MAX({SEQUENCE_COLUMN}), 0) FROM {self.table}"
        """The largest number in the table."""

        untouched = [quoted(column.name) for column in topic.columns if column.flags & _ON_UPDATE_NOW]
        self._untouched = "".join(f", {name} = {name}" for name in untouched)

    def free(self, count: int) -> str:
        """Those of so many messages that have no number and can be locked at once, locked."""
        select = f"SELECT id FROM {self.table} WHERE id IN ({placeholders(count)}) AND {SEQUENCE_COLUMN} IS NULL"
        return f"{select} {self._skip_locked}".rstrip()

    def number(self, count: int) -> str:
        """Assign the next numbers. Parameters: the last assigned number, the ids in order, the ids again."""
        ids = placeholders(count)
        return f"UPDATE {self.table} SET {SEQUENCE_COLUMN} = ? + FIELD(id, {ids}){self._untouched} WHERE id IN ({ids})"

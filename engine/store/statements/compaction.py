"""Every statement by which a topic is compacted. Values are bound, never spliced.

What is deleted is found by plain reads, which lock nothing, and then locked and deleted by its ids. Two
messages have equal values, as the column's collation has it, if the oldest message of their value is the same one.
"""

from __future__ import annotations

from engine.model.queue import TopicSpec, quoted
from engine.store.statements.dialect import Dialect
from engine.store.statements.queue import placeholders


class CompactionStatements:
    """The texts for one topic, which has a column to compact by and an index on it."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        index = topic.compact_index
        assert index is not None
        key, table = quoted(index.columns[0]), topic.name.sql
        forced = dialect.force_index.format(table=quoted(topic.name.table), index=quoted(index.name))
        young = f"SELECT id FROM {table} WHERE time_created > ? AND time_created <= ? ORDER BY time_created LIMIT 1000"
        self.first_young = f"SELECT MIN(id) FROM ({young}) AS young"
        """The first message that was written between two times. Ids and times may differ in order by some rows."""

        # One entry of the index. MySQL sees that it need not sort only where the order names the index's columns.
        oldest = f"SELECT o.id FROM {table} AS o {forced} WHERE o.{key} = w.{key} AND o.time_scheduled <= ?"
        oldest += f" ORDER BY o.{key}, o.id LIMIT 1"
        window = f"SELECT id, {key}, time_scheduled FROM {table} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        self.window = (
            f"SELECT w.id, CASE WHEN w.time_scheduled <= ? THEN ({oldest}) END FROM ({window}) AS w ORDER BY w.id"
        )
        """Of the messages beyond an id and up to another, in order, up to so many: the oldest that is due and has the
        same value; NULL where the message is not due, or has no value. Parameters: the time, twice, the ids, how many.
        """

        self._locked = f"SELECT id FROM {table} WHERE id IN"
        self._skip_locked = dialect.skip_locked

    def locked(self, count: int) -> str:
        """Those of so many messages that can be locked at once, locked."""
        return f"{self._locked} ({placeholders(count)}) {self._skip_locked}".rstrip()

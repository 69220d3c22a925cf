"""Every statement by which a topic is compacted. Values are bound, never spliced.

What is deleted is found by plain reads, which lock nothing, and then locked and deleted by its ids. Two
messages have equal values, as the column's collation has it, if the oldest message of their value is the same one.
"""

from __future__ import annotations

from engine.model.queue import TopicSpec, quoted
from engine.store.statements.dialect import Dialect
from engine.store.statements.queue import placeholders
from engine.store.statements.topics import offset_column


class CompactionStatements:
    """The texts for one topic, which has a column to compact by and an index on it."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        index = topic.compact_index
        assert index is not None
        key, table, offset = quoted(index.columns[0]), dialect.gate.of(topic), offset_column(topic)
        forced = dialect.force_index.format(table=quoted(topic.name.table), index=quoted(index.name))
        between = "time_created > ? AND time_created <= ?"
        young = f"SELECT {offset} FROM {table} WHERE {between} ORDER BY time_created LIMIT 1000"
        self.first_young = f"SELECT MIN({offset}) FROM ({young}) AS young"
        """The first message that was written between two times. Ids and times may differ in order by some rows."""

        # Numbers and times may differ in order by many: there each message is asked for its time, too.
        self._timed = topic.sequenced
        old = " AND {0}.time_created <= ?" if topic.sequenced else ""
        numbered = f" AND o.{offset} > 0" if topic.sequenced else ""
        # One entry of the index. MySQL sees that it need not sort only where the order names the index's columns.
        oldest = f"SELECT o.{offset} FROM {table.forced(forced, 'o')} WHERE o.{key} = w.{key} AND o.time_scheduled <= ?"
        oldest += f"{numbered}{old.format('o')} ORDER BY o.{key}, o.{offset} LIMIT 1"
        window = (
            f"SELECT {offset}, {key}, time_scheduled, time_created FROM {table} WHERE {offset} > ? AND {offset} <= ?"
            f" ORDER BY {offset} LIMIT ?"
        )
        self.window = (
            f"SELECT w.{offset}, CASE WHEN w.time_scheduled <= ?{old.format('w')} THEN ({oldest}) END"
            f" FROM ({window}) AS w ORDER BY w.{offset}"
        )
        """Of the messages beyond an offset and up to another, in order, up to so many: the oldest that is due and has
        the same value; NULL where the message is not due, or has no value."""

        self._locked = f"SELECT {offset} FROM {table} WHERE {offset} IN"
        self._skip_locked = dialect.skip_locked

    def in_window(self, now_ns: int, old_ns: int, place: int, end: int, limit: int) -> tuple[int, ...]:
        """The parameters of `window`. `old_ns`: what was written until then is looked at."""
        times = (now_ns, old_ns) if self._timed else (now_ns,)
        return (*times, *times, place, end, limit)

    def locked(self, count: int) -> str:
        """Those of so many messages that can be locked at once, locked."""
        return f"{self._locked} ({placeholders(count)}) {self._skip_locked}".rstrip()

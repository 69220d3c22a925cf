"""Compaction of a topic, in SQL: of messages with the same value of a column the newest stays. Blocking; in a thread.

It walks through the topic by offset. For each message it finds the oldest with the same value, by one entry of an
index; an older one is deleted, and so are the others of the same value in the window. So a message costs the same
whatever the size of the topic. The walk stops where offsets are not settled, so nothing can appear behind it; at the
first message that is too young; and at the first that must be retained for a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.backend.base import StoreConnection
from engine.model.options import UNTIL_CONSUMED
from engine.model.queue import QueueSpec, TopicSpec, quoted
from engine.model.topics import Settled
from engine.store.gate import check_mark
from engine.store.operations.retained_for_groups import NO_BOUND, first_retained, has_unknown_groups, positions_of
from engine.store.statements.dialect import Dialect
from engine.store.statements.topics import PositionStatements, RetentionStatements, TopicStatements, offset_column

# Every statement by which a topic is compacted. Values are bound, never spliced.
#
# What is deleted is found by plain reads, which lock nothing, and then locked and deleted by its ids. Two messages
# have equal values, as the column's collation has it, if the oldest message of their value is the same one.


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

    def in_window(self, now_ns: int, old_ns: int, place: int, end: int, limit: int) -> tuple[int, ...]:
        """The parameters of `window`. `old_ns`: what was written until then is looked at."""
        times = (now_ns, old_ns) if self._timed else (now_ns,)
        return (*times, *times, place, end, limit)


class Compacting:
    """The statements for one topic, and its groups for which it retains messages. `positions`: None without any."""

    def __init__(self, dialect: Dialect, topic: TopicSpec, groups: Sequence[QueueSpec]) -> None:
        self.lag_ns = topic.options.compact_lag_ns
        self.topic, self.known = topic.name, frozenset(group.name for group in groups)
        self.every_position = PositionStatements(dialect, topic.name.database)
        self.safe = [group for group in groups if group.options.retain == UNTIL_CONSUMED]
        self.positions = self.every_position if self.safe else None
        self.log = TopicStatements(dialect, topic)
        self.texts = CompactionStatements(dialect, topic)
        self.deleting = RetentionStatements(dialect, topic)


@dataclass(frozen=True, slots=True)
class SupersededPage:
    """`superseded`: older messages, each with the newest examined one of the same value. `place`: up to which id
    messages were examined. `more`: there are more."""

    superseded: Mapping[int, int]
    place: int
    more: bool


def find_superseded(
    connection: StoreConnection, statements: Compacting, settled: Settled, place: int, limit: int
) -> SupersededPage:
    """What the next messages beyond a place supersede. Outside any transaction: it locks nothing."""
    now_ns, last = map(int, connection.query(statements.log.now_and_last)[0])
    if place > last:  # the topic's end was deleted, or it is another topic of that name
        place = 0
    whole = last if statements.log.in_order else min(settled.offset, last)
    end = min(whole, _last_old(connection, statements, now_ns), _first_retained(connection, statements, lock=False) - 1)
    params = statements.texts.in_window(now_ns, now_ns - statements.lag_ns, place, end, limit)
    rows = connection.query(statements.texts.window, params) if end > place else []
    if len(rows) == limit:
        place = int(rows[-1][0])
        return SupersededPage(superseded(rows), place, place < end)
    return SupersededPage(superseded(rows), max(place, end), False)


def _last_old(connection: StoreConnection, statements: Compacting, now_ns: int) -> int:
    """The last id before the first message that is too young."""
    if not statements.lag_ns:
        return NO_BOUND
    (first,) = connection.query(statements.texts.first_young, (now_ns - statements.lag_ns, now_ns))[0]
    return NO_BOUND if first is None else int(first) - 1


def _first_retained(connection: StoreConnection, statements: Compacting, *, lock: bool) -> int:
    """The smallest id that must be retained for a group."""
    positions = statements.positions
    if positions is None:
        return NO_BOUND
    read = positions_of(connection, positions.lock if lock else positions.read, statements.safe)
    return first_retained(connection, statements.deleting, statements.safe, read)


def superseded(rows: Iterable[tuple[int, int | None]]) -> dict[int, int]:
    """From messages in order of id, each with the oldest of its value: the older ones, and the newest for each."""
    of_value: dict[int, list[int]] = {}
    for id_, oldest in rows:
        if oldest is not None:
            of_value.setdefault(int(oldest), [int(oldest)]).append(int(id_))
    return {id_: ids[-1] for ids in of_value.values() for id_ in ids if id_ < ids[-1]}


def compact(connection: StoreConnection, statements: Compacting, page: SupersededPage) -> list[int]:
    """Delete the superseded messages of a page, except those that are gone or locked, or whose newer message is;
    returns the ids. Nothing is deleted while the topic has a group that is not known here. Inside a transaction of its
    caller, which locks only these messages.

    A later walk finds what is left out.
    """
    first_retained_id = _first_retained(connection, statements, lock=True)
    if has_unknown_groups(connection, statements.every_position, statements.topic, statements.known):
        return []
    ids_involved = sorted({*page.superseded, *page.superseded.values()})
    there = {int(row[0]) for row in connection.query(statements.deleting.locked(len(ids_involved)), ids_involved)}
    ids = [old for old, new in sorted(page.superseded.items()) if {old, new} <= there and old < first_retained_id]
    if ids:
        check_mark(connection, statements.deleting.table)
        connection.execute(statements.deleting.delete(len(ids)), ids)
    return ids

"""Compaction of a topic, in SQL: of messages with the same value of a column the newest stays. Blocking; in a thread.

It walks through the topic by offset. For each message it finds the oldest of the same value, by one entry of an index;
an older one is deleted, and so are those of the same value beside it. So a message costs the same whatever the topic
has. It goes no further than to where all offsets are settled, so nothing appears in what it has passed; than to the
first message that is too young; and than to the first that a group is to be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.backend.base import StoreConnection
from engine.model.options import UNTIL_CONSUMED
from engine.model.queue import QueueSpec, TopicSpec
from engine.model.topics import Settled
from engine.store.gate import check_mark
from engine.store.operations.kept_for_groups import NO_BOUND, first_kept, has_strangers, positions_of
from engine.store.statements.compaction import CompactionStatements
from engine.store.statements.dialect import Dialect
from engine.store.statements.topics import PositionStatements, RetentionStatements, TopicStatements


class Compacting:
    """The texts for one topic, and its groups for which it keeps messages. `positions`: None where there are none."""

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
class Found:
    """`superseded`: older messages, each with the newest of the same value that was looked at. `place`: up to which id
    messages were looked at. `more`: there are more."""

    superseded: Mapping[int, int]
    place: int
    more: bool


def find_superseded(
    connection: StoreConnection, statements: Compacting, settled: Settled, place: int, limit: int
) -> Found:
    """What the next messages beyond a place supersede. Outside any transaction: it locks nothing."""
    now_ns, last = map(int, connection.query(statements.log.now_and_last)[0])
    if place > last:  # the topic's end was deleted, or it is another topic of that name
        place = 0
    whole = last if statements.log.in_order else min(settled.offset, last)
    end = min(whole, _last_old(connection, statements, now_ns), _first_kept(connection, statements, lock=False) - 1)
    asked = statements.texts.in_window(now_ns, now_ns - statements.lag_ns, place, end, limit)
    rows = connection.query(statements.texts.window, asked) if end > place else []
    if len(rows) == limit:
        place = int(rows[-1][0])
        return Found(superseded(rows), place, place < end)
    return Found(superseded(rows), max(place, end), False)


def _last_old(connection: StoreConnection, statements: Compacting, now_ns: int) -> int:
    """The last id before the first message that is too young."""
    if not statements.lag_ns:
        return NO_BOUND
    (first,) = connection.query(statements.texts.first_young, (now_ns - statements.lag_ns, now_ns))[0]
    return NO_BOUND if first is None else int(first) - 1


def _first_kept(connection: StoreConnection, statements: Compacting, *, lock: bool) -> int:
    """The smallest id that is to be kept for a group."""
    positions = statements.positions
    if positions is None:
        return NO_BOUND
    read = positions_of(connection, positions.lock if lock else positions.read, statements.safe)
    return first_kept(connection, statements.deleting, statements.safe, read)


def superseded(rows: Iterable[tuple[int, int | None]]) -> dict[int, int]:
    """Of messages in order of id, each with the oldest of its value: the older ones, and the newest for each."""
    of_value: dict[int, list[int]] = {}
    for id_, oldest in rows:
        if oldest is not None:
            of_value.setdefault(int(oldest), [int(oldest)]).append(int(id_))
    return {id_: ids[-1] for ids in of_value.values() for id_ in ids if id_ < ids[-1]}


def compact(connection: StoreConnection, statements: Compacting, found: Found) -> list[int]:
    """Delete what was found, but for what is not there any more, or is locked, or whose newer message is; returns the
    ids. Nothing, as long as there is a group that is not known here. Inside a transaction of its caller, which locks
    these messages alone.

    What is left out is found by a later walk.
    """
    kept = _first_kept(connection, statements, lock=True)
    if has_strangers(connection, statements.every_position, statements.topic, statements.known):
        return []
    asked = sorted({*found.superseded, *found.superseded.values()})
    there = {int(row[0]) for row in connection.query(statements.texts.locked(len(asked)), asked)}
    ids = [old for old, new in sorted(found.superseded.items()) if {old, new} <= there and old < kept]
    if ids:
        check_mark(connection, statements.deleting.table)
        connection.execute(statements.deleting.delete(len(ids)), ids)
    return ids

"""The statements that count a queue's messages, bounded, and those that read what is in flight."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.key_range import SLOT_COLUMN, KeyRange
from engine.model.queue import Layout, QueueSpec
from engine.model.states import REJECTED_NS, due, in_flight, leased
from engine.store.statements.dialect import Dialect

COUNTED_MAX = 1_000_000
"""Index entries counted: a quarter of a second in MariaDB."""

LOOKED_UP_MAX = 100_000
"""Rows looked up in addition to the index, which is ten times as much work for each."""

_NO_TIME_NS = 1_000_000_000_000_000
"""Below this (twelve days after the epoch) time_next is not a time, but means: now."""


class CensusStatements:
    """The texts for one queue."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        table = dialect.gate.of(queue)
        now = dialect.now_ns
        waits, marked = f"time_next > {now} AND time_next < {REJECTED_NS}", leased(dialect.mark)
        priority = "COALESCE(priority, 0)" if queue.layout is Layout.CURRENT else "0"
        oldest = f"MIN(CASE WHEN time_next > {_NO_TIME_NS} AND time_next <= {now} THEN time_next END)"
        self.unacked = (
            f"SELECT {now}, COUNT(*), SUM({due(now)}), SUM({waits} AND {marked}), SUM(time_next >= {REJECTED_NS}),"
            f" {oldest} FROM (SELECT time_next FROM {table} WHERE time_acked IS NULL LIMIT {COUNTED_MAX}) AS unacked"
        )
        """The time, all unacked, ready, in flight, parked, and since when the oldest is due."""

        self.later = (
            f"SELECT COUNT(*), SUM(epoch = 0) FROM (SELECT COALESCE(epoch, 0) AS epoch FROM {table}"
            f" WHERE time_acked IS NULL AND {waits} AND NOT ({marked}) LIMIT {LOOKED_UP_MAX}) AS later"
        )
        """Messages that wait for their time, and how many of them were never delivered."""

        self.acked = (
            f"SELECT COUNT(*) FROM (SELECT 1 AS one FROM {table} WHERE time_acked IS NOT NULL LIMIT {COUNTED_MAX})"
            " AS acked"
        )
        """Acked messages that are not purged yet."""

        self._counts = ("1", due(now), f"{waits} AND {marked}")
        self._oldest = f"time_next > {_NO_TIME_NS} AND time_next <= {now}"
        self._now, self._table = now, table

        self.in_flight = (
            f"SELECT {now}, id, {priority}, epoch, time_next FROM {table} WHERE {in_flight(now, dialect.mark)}"
            " ORDER BY time_next LIMIT ?"
        )
        """The time, and the leased messages: id, priority, epoch, until when; the first to expire first."""

    def ranges(self, ranges: Sequence[KeyRange]) -> str:
        """The time, and for each of these parts of a ring: all unacked, ready, in flight, since when the oldest is
        due."""
        values = [self._now]
        for inside in (key_range.sql for key_range in ranges):
            values += [f"SUM({inside} AND {count})" for count in self._counts]
            values.append(f"MIN(CASE WHEN {inside} AND {self._oldest} THEN time_next END)")
        rows = f"SELECT time_next, {SLOT_COLUMN} FROM {self._table} WHERE time_acked IS NULL LIMIT {COUNTED_MAX}"
        return f"SELECT {', '.join(values)} FROM ({rows}) AS unacked"

"""The due messages of a queue, in delivery order, found by the queue's index, independent of other rows in the table.

The index is (time_acked, priority, time_next), and databases do not do skip scans on it. So each priority in use is
queried separately: a poll is one statement with as many sub-queries, each of which reads one entry of the index,
however many messages are postponed or acked. It also queries for priorities between and beyond the known ones, so that
the same poll finds a new one. NULL in time_next is due; it is queried separately, because "NULL or past" in one
condition scans all postponed messages in SQLite.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from spark_connector.client.connection import NOW_US, Client, Row
from spark_connector.client.queue import Queue
from spark_connector.mysql_client.driver import quoted

PRIORITIES_MAX = 32  # priorities queried one by one; if a table uses more, the rest is found by an index scan
_LEAST = -(1 << 63)  # below any priority
_WAITING = "time_acked IS NULL"
_CREATED, _TOKEN = "time_created", "lease_token"


class DueMessage(NamedTuple):
    """A message's id, how often it was delivered, when it was made (ns), and the token of its last delivery; 0 if the
    queue has no such column."""

    id: Any
    epoch: int
    created_ns: int
    token: int


@dataclass(frozen=True)
class DueRange:
    """Waiting messages that are adjacent in delivery order, and the order within them."""

    waiting: str
    order: str | None  # None: for time_next IS NULL


@dataclass(frozen=True)
class DueSnapshot:
    """The result of a poll."""

    now: int  # ns, the database's clock
    until: int | None  # ns; only messages due then count
    ranges: tuple[DueRange, ...]  # those with due messages


class Due:
    """The due messages of one queue."""

    def __init__(self, queue: Queue) -> None:
        self._table = quoted(queue.name)
        # For a table that was just filled the database has no statistics: it might sort, and lock, all rows.
        self._from = f"{self._table} FORCE INDEX ({quoted(queue.due_key)})" if queue.due_key else self._table
        self._has_priority = queue.has("priority")
        self._nullable_priority = self._has_priority and queue.column("priority").nullable
        self._nullable_time_next = queue.column("time_next").nullable
        self._created, self._has_tokens = queue.has(_CREATED), queue.has(_TOKEN)
        own = [name for name in (_CREATED, _TOKEN) if queue.has(name)]
        self.columns = ", ".join(["id", "epoch", *own])  # the columns of a DueMessage
        self._priorities: tuple[int, ...] = ()  # known priorities, in order
        self._more = False  # there are more than PRIORITIES_MAX

    def poll(self, client: Client, until: int | None = None) -> DueSnapshot:
        """What is due now, or was at `until` (ns). One statement, and another one for each new priority."""
        now = f"{NOW_US} * 1000" if until is None else str(until)
        for _ in range(2 * PRIORITIES_MAX):
            ranges, gaps = self._ranges(), self._gaps()
            exists = [
                f"EXISTS(SELECT 1 FROM {self._from} WHERE {self._condition(each, now, until)})" for each in ranges
            ]
            new = [f"(SELECT MIN(priority) FROM {self._table} WHERE {_WAITING} AND {gap})" for gap in gaps]
            clock, *flags = client.rows(f"SELECT {', '.join([NOW_US, *exists, *new])}")[0]
            if not self._learn([int(each) for each in flags[len(exists) :] if each is not None]):
                break
        due = tuple(range_ for range_, is_due in zip(ranges, flags, strict=False) if is_due)
        return DueSnapshot(int(clock) * 1000, until, due)

    def to_message(self, row: Row) -> DueMessage:
        """Converts a row of `columns`."""
        id_, epoch, *own = row
        created_ns = int(own[0] or 0) if self._created else 0
        return DueMessage(id_, int(epoch or 0), created_ns, int(own[-1] or 0) if self._has_tokens else 0)

    def lock(self, client: Client, snapshot: DueSnapshot, most: int) -> list[DueMessage]:
        """Up to `most` of them, locked in the client's transaction; rows locked by others are skipped."""
        messages: list[DueMessage] = []
        for each in snapshot.ranges:
            where, order = self._of(snapshot, each)
            sql = f"SELECT {self.columns} FROM {self._from} WHERE {where}{order} LIMIT {most - len(messages)}"
            messages.extend(self.to_message(row) for row in client.rows(f"{sql} FOR UPDATE SKIP LOCKED"))
            if len(messages) >= most:
                break
        return messages

    def count(self, client: Client, most: int) -> int:
        """How many are due now; `most`: that many or more."""
        total, snapshot = 0, self.poll(client)
        for each in snapshot.ranges:
            where, _ = self._of(snapshot, each)
            sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {self._from} WHERE {where} LIMIT {most - total}) AS due"
            total += int(client.value(sql))
            if total >= most:
                break
        return total

    def _of(self, snapshot: DueSnapshot, range_: DueRange) -> tuple[str, str]:
        """The condition and the ORDER BY for a range."""
        now = snapshot.now if snapshot.until is None else snapshot.until
        order = f" ORDER BY {range_.order}" if range_.order else ""
        return self._condition(range_, str(now), snapshot.until), order

    def _condition(self, range_: DueRange, now: str, until: int | None) -> str:
        if range_.order is not None:
            return f"{range_.waiting} AND time_next <= {now}"
        created_before = f" AND time_created <= {until}" if until is not None and self._created else ""
        return f"{range_.waiting} AND time_next IS NULL{created_before}"

    def _ranges(self) -> list[DueRange]:
        """All ranges, with or without due messages. A priority of NULL counts as 0."""
        waiting = [(f"{_WAITING} AND priority = {level}", "time_next") for level in self._priorities]
        if self._nullable_priority:
            waiting.insert(bisect_left(self._priorities, 0), (f"{_WAITING} AND priority IS NULL", "time_next"))
        if self._more:
            waiting.append((f"{_WAITING} AND priority > {self._priorities[-1]}", "priority, time_next"))
        if not self._has_priority:
            waiting = [(_WAITING, "time_next")]
        orders = [
            (each, order) for each, of in waiting for order in ((None, of) if self._nullable_time_next else (of,))
        ]
        return [DueRange(each, order) for each, order in orders]

    def _gaps(self) -> list[str]:
        """Conditions for priorities that are not known yet."""
        if not self._has_priority:
            return []
        gaps = [f"priority > {low} AND priority < {high}" for low, high in pairwise((_LEAST, *self._priorities))]
        last = self._priorities[-1] if self._priorities else _LEAST
        return gaps if self._more else [*gaps, f"priority > {last}"]

    def _learn(self, priorities: Sequence[int]) -> bool:
        """Adds priorities; whether there is a new one. Only the lowest ones are queried one by one."""
        merged = sorted({*self._priorities, *priorities})
        if len(merged) == len(self._priorities):
            return False
        self._priorities, self._more = tuple(merged[:PRIORITIES_MAX]), self._more or len(merged) > PRIORITIES_MAX
        return True

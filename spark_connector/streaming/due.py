"""Which messages of a queue are due, in delivery order: found by the queue's index whatever else is in the table.

The index is (time_acked, priority, time_next), and no database skips within one by itself. So each priority in use is
asked for by itself: a look is one statement of as many sub-queries, each of which reads one entry of the index, however
many messages are postponed or acked. It also asks for priorities between and beyond those that are known, so that a new
one is learnt of by the look that meets it. NULL in time_next is due; it is asked for apart, because "NULL or past" in
one is a walk over all that is postponed in SQLite.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from spark_connector.client.connection import NOW_US, Client, Row, quoted
from spark_connector.client.queue import Queue

LEVELS_MAX = 32  # priorities asked for one by one; the rest of a table that uses more is read by a scan of its index
_LEAST = -(1 << 63)  # no priority is as small
_WAITING = "time_acked IS NULL"
_MADE, _TOKEN = "time_created", "lease_token"


class Found(NamedTuple):
    """A message's id, how often it was delivered, when it was made (ns), and the name of its last delivery; 0 where the
    queue keeps no such column."""

    id: Any
    epoch: int
    made: int
    token: int


@dataclass(frozen=True)
class Stretch:
    """Waiting messages that follow each other in delivery order, and the order among them."""

    waiting: str
    order: str | None  # None: those whose time_next is NULL


@dataclass(frozen=True)
class Sight:
    """What a look found."""

    now: int  # ns, the database's clock
    until: int | None  # ns; only what was due then counts
    stretches: tuple[Stretch, ...]  # those that have something due


class Due:
    """The due messages of one queue."""

    def __init__(self, queue: Queue) -> None:
        self._table = quoted(queue.name)
        # Of a table that was filled a moment ago the database knows nothing: it might sort, and lock, all there is.
        self._from = f"{self._table} FORCE INDEX ({quoted(queue.due_key)})" if queue.due_key else self._table
        self._levelled = queue.has("priority")
        self._unlevelled = self._levelled and queue.column("priority").nullable
        self._unscheduled = queue.column("time_next").nullable
        self._created, self._named = queue.has(_MADE), queue.has(_TOKEN)
        own = [name for name in (_MADE, _TOKEN) if queue.has(name)]
        self.found = ", ".join(["id", "epoch", *own])  # the columns of a Found
        self._levels: tuple[int, ...] = ()  # priorities that were met, in order
        self._more = False  # there are more than LEVELS_MAX

    def look(self, client: Client, until: int | None = None) -> Sight:
        """What is due now, or was at `until` (ns). One statement, and another for each priority that it learns of."""
        now = f"{NOW_US} * 1000" if until is None else str(until)
        for _ in range(2 * LEVELS_MAX):
            stretches, gaps = self._stretches(), self._gaps()
            there = [
                f"EXISTS(SELECT 1 FROM {self._from} WHERE {self._condition(each, now, until)})" for each in stretches
            ]
            new = [f"(SELECT MIN(priority) FROM {self._table} WHERE {_WAITING} AND {gap})" for gap in gaps]
            clock, *found = client.rows(f"SELECT {', '.join([NOW_US, *there, *new])}")[0]
            if not self._learn([int(each) for each in found[len(there) :] if each is not None]):
                break
        due = tuple(stretch for stretch, is_due in zip(stretches, found, strict=False) if is_due)
        return Sight(int(clock) * 1000, until, due)

    def as_found(self, row: Row) -> Found:
        """A row of `found`."""
        id_, epoch, *own = row
        made = int(own[0] or 0) if self._created else 0
        return Found(id_, int(epoch or 0), made, int(own[-1] or 0) if self._named else 0)

    def lock(self, client: Client, sight: Sight, most: int) -> list[Found]:
        """Up to `most` of them, locked in the client's transaction; what others have locked is passed over."""
        found: list[Found] = []
        for each in sight.stretches:
            where, order = self._of(sight, each)
            sql = f"SELECT {self.found} FROM {self._from} WHERE {where}{order} LIMIT {most - len(found)}"
            found.extend(self.as_found(row) for row in client.rows(f"{sql} FOR UPDATE SKIP LOCKED"))
            if len(found) >= most:
                break
        return found

    def count(self, client: Client, most: int) -> int:
        """How many are due now; `most` stands for so many or more."""
        total, sight = 0, self.look(client)
        for each in sight.stretches:
            where, _ = self._of(sight, each)
            sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {self._from} WHERE {where} LIMIT {most - total}) AS due"
            total += int(client.value(sql))
            if total >= most:
                break
        return total

    def _of(self, sight: Sight, stretch: Stretch) -> tuple[str, str]:
        """Which messages of a stretch count, and how they are sorted."""
        now = sight.now if sight.until is None else sight.until
        order = f" ORDER BY {stretch.order}" if stretch.order else ""
        return self._condition(stretch, str(now), sight.until), order

    def _condition(self, stretch: Stretch, now: str, until: int | None) -> str:
        if stretch.order is not None:
            return f"{stretch.waiting} AND time_next <= {now}"
        made = f" AND time_created <= {until}" if until is not None and self._created else ""
        return f"{stretch.waiting} AND time_next IS NULL{made}"

    def _stretches(self) -> list[Stretch]:
        """All there are, whether something is due or not. A priority of NULL counts as 0."""
        waiting = [(f"{_WAITING} AND priority = {level}", "time_next") for level in self._levels]
        if self._unlevelled:
            waiting.insert(bisect_left(self._levels, 0), (f"{_WAITING} AND priority IS NULL", "time_next"))
        if self._more:
            waiting.append((f"{_WAITING} AND priority > {self._levels[-1]}", "priority, time_next"))
        if not self._levelled:
            waiting = [(_WAITING, "time_next")]
        orders = [(each, order) for each, of in waiting for order in ((None, of) if self._unscheduled else (of,))]
        return [Stretch(each, order) for each, order in orders]

    def _gaps(self) -> list[str]:
        """Where priorities may come into use that are not known yet."""
        if not self._levelled:
            return []
        gaps = [f"priority > {low} AND priority < {high}" for low, high in pairwise((_LEAST, *self._levels))]
        last = self._levels[-1] if self._levels else _LEAST
        return gaps if self._more else [*gaps, f"priority > {last}"]

    def _learn(self, levels: Sequence[int]) -> bool:
        """Whether there is anything new. The lowest are asked for one by one."""
        known = sorted({*self._levels, *levels})
        if len(known) == len(self._levels):
            return False
        self._levels, self._more = tuple(known[:LEVELS_MAX]), self._more or len(known) > LEVELS_MAX
        return True

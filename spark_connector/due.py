"""Which messages of a queue are due, in delivery order: found by the queue's index whatever else is in the table.

The index is (time_acked, priority, time_next), and no database skips within one by itself. So each priority in use is
read by itself: a statement that reads only the rows it returns, however many are postponed or acked. NULL in time_next
is due; it is read apart, because "NULL or past" in one is a walk over all that is postponed in SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spark_connector.client import Client, Row, placed
from spark_connector.queue import Queue

LEVELS_MAX = 32  # priorities read one by one; the rest of a table that uses more is read by a scan of its index
_LEAST = -(1 << 63)  # no priority is as small
Found = tuple[Any, int, int]
"""A message's id, how often it was delivered, and when it was made (ns; 0 where that is not kept)."""


def as_found(row: Row) -> Found:
    """A row of `Due.found`."""
    id_, epoch, *made = row
    return id_, int(epoch or 0), int(made[0] or 0) if made else 0


@dataclass(frozen=True)
class Bounds:
    """Which messages count: due at `now`, and none that came after `since` where its time is not known (NULL)."""

    now: int  # ns
    created: int | None = None  # ns; with time_next NULL only those made by then


class Due:
    """The due messages of one queue."""

    def __init__(self, queue: Queue) -> None:
        self._table = placed(queue.name)
        # Of a table that was filled a moment ago the database knows nothing: it might sort, and lock, all there is.
        self._from = f"{self._table} FORCE INDEX ({placed(queue.due_key)})" if queue.due_key else self._table
        self._levelled = queue.has("priority")
        self._created = queue.has("time_created")
        self.found = "id, epoch, time_created" if self._created else "id, epoch"  # the columns of a Found

    def lock(self, client: Client, bounds: Bounds, most: int) -> list[Found]:
        """Up to `most` of them, locked in the client's transaction; what others have locked is passed over."""
        found: list[Found] = []
        for condition, args in self._stretches(client, bounds):
            sql = f"SELECT {self.found} FROM {self._from} WHERE {condition} LIMIT %s FOR UPDATE SKIP LOCKED"
            found.extend(as_found(row) for row in client.rows(sql, (*args, most - len(found))))
            if len(found) >= most:
                break
        return found

    def count(self, client: Client, bounds: Bounds, most: int) -> int:
        """How many there are; `most` stands for so many or more."""
        total = 0
        for condition, args in self._stretches(client, bounds):
            sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {self._from} WHERE {condition} LIMIT %s) AS due"
            total += int(client.value(sql, (*args, most - total)))
            if total >= most:
                break
        return total

    def _stretches(self, client: Client, bounds: Bounds) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Conditions and their values, one after the other in delivery order."""
        for level, args, order in self._levels(client):
            waiting = f"time_acked IS NULL{level}"
            if self._any(client, f"{waiting} AND time_next IS NULL", args):
                yield self._unscheduled(waiting, args, bounds)
            yield f"{waiting} AND time_next <= %s ORDER BY {order}", (*args, bounds.now)

    def _unscheduled(self, waiting: str, args: tuple[Any, ...], bounds: Bounds) -> tuple[str, tuple[Any, ...]]:
        if bounds.created is None or not self._created:
            return f"{waiting} AND time_next IS NULL", args
        return f"{waiting} AND time_next IS NULL AND time_created <= %s", (*args, bounds.created)

    def _any(self, client: Client, condition: str, args: tuple[Any, ...]) -> bool:
        return bool(client.rows(f"SELECT 1 FROM {self._from} WHERE {condition} LIMIT %s", (*args, 1)))

    def _levels(self, client: Client) -> Iterator[tuple[str, tuple[Any, ...], str]]:
        """A condition for each priority in use, its values, and the order within it. NULL counts as 0."""
        if not self._levelled:
            yield "", (), "time_next"
            return
        without = self._any(client, "time_acked IS NULL AND priority IS NULL", ())
        priority = self._next(client, _LEAST)
        for _ in range(LEVELS_MAX):
            if without and (priority is None or priority >= 0):
                without = False
                yield " AND priority IS NULL", (), "time_next"
            if priority is None:
                return
            yield " AND priority = %s", (priority,), "time_next"
            priority = self._next(client, priority)
        if without:
            yield " AND priority IS NULL", (), "time_next"
        if priority is not None:
            yield " AND priority >= %s", (priority,), "priority, time_next"

    def _next(self, client: Client, beyond: int) -> int | None:
        sql = f"SELECT MIN(priority) FROM {self._table} WHERE time_acked IS NULL AND priority > %s"
        found = client.value(sql, (beyond,))
        return None if found is None else int(found)

"""The statements of a scan: due messages examined page by page, for which a condition is true. Alike for all dialects.

A page is a stretch of one level of priority, in the order of the index (time_acked, priority, time_next): messages
without a due time by id, then those that fell due, by due time and id. The condition is evaluated for the rows of the
page only, so it is the page that bounds the cost. An index that goes on with id and the condition's columns is read
alone, without the rows.
"""

from __future__ import annotations

from engine.model.options import DUE_COLUMNS
from engine.model.queue import Condition, Layout, QueueSpec, quoted
from engine.store.statements.dialect import Dialect, placeholders

_BY_ID, _BY_TIME = "id", "time_next, id"


def is_true(condition: Condition) -> str:
    """As a value: 1 where WHERE would take the row."""
    return f"(({condition.sql}) IS TRUE)"


def _index(dialect: Dialect, queue: QueueSpec) -> str:
    """Which index to read, in the order of the pages; one that goes on with id may hold the condition's columns, too.

    By itself a server may prefer the equality on its first columns to a range of it, and walk over all pages before.
    """
    wanted = DUE_COLUMNS if queue.layout is Layout.CURRENT else ("time_acked", "time_next")
    fit = [
        x for x in queue.indexes if x.name and (x.columns == wanted or x.columns[: len(wanted) + 1] == (*wanted, "id"))
    ]
    if not fit:
        return ""
    longest = max(fit, key=lambda index: len(index.columns))
    return dialect.force_index.format(table=quoted(queue.name.table), index=quoted(longest.name))


class ScanStatements:
    """The texts for one queue and condition. Every page is two statements: what fits, and where the page ends if it is
    full. Parameters: those of the stretch, span, limit; those of the stretch, span - 1."""

    def __init__(self, dialect: Dialect, queue: QueueSpec, condition: Condition) -> None:
        self._table = table = dialect.gate.of(queue)
        self._levelled = levelled = queue.layout is Layout.CURRENT
        self._source = table.forced(_index(dialect, queue))
        self._fits, self.age_ns = is_true(condition), condition.age_ns
        self._lock = f" {dialect.skip_locked}" if dialect.skip_locked else ""
        waiting = f"FROM {table} WHERE time_acked IS NULL"
        first = f"(SELECT MIN(priority) {waiting})" if levelled else "NULL"
        unprioritised = f"EXISTS (SELECT 1 {waiting} AND priority IS NULL)" if levelled else "1"
        self.start = f"SELECT {dialect.now_ns}, {first}, {unprioritised}"
        """The time, the first priority in use, and whether there are messages without one."""

    def _level(self, priority: int | None) -> str:
        if priority is not None:
            return "priority = ?"
        return "priority IS NULL" if self._levelled else "1 = 1"

    def page(self, priority: int | None, stretch: str, order: str) -> tuple[str, str]:
        """What fits, and the end of the page."""
        where = (
            f"FROM {self._source} WHERE time_acked IS NULL AND {self._level(priority)} AND {stretch} ORDER BY {order}"
        )
        rows = f"SELECT id, time_next, {self._fits} AS fits {where} LIMIT ?"
        return (
            f"SELECT id, time_next FROM ({rows}) AS page WHERE fits ORDER BY {order} LIMIT ?",
            f"SELECT id, time_next {where} LIMIT 1 OFFSET ?",
        )

    def unscheduled(self, priority: int | None) -> tuple[str, str]:
        """Without a due time."""
        return self.page(priority, "time_next IS NULL", _BY_ID)

    def unscheduled_after(self, priority: int | None) -> tuple[str, str]:
        """Without a due time, from an id on."""
        return self.page(priority, "time_next IS NULL AND id > ?", _BY_ID)

    def of_time(self, priority: int | None) -> tuple[str, str]:
        """Due at one time, from an id on."""
        return self.page(priority, "time_next = ? AND id > ?", _BY_ID)

    def due(self, priority: int | None) -> tuple[str, str]:
        """Due after one time and not after another."""
        return self.page(priority, "time_next > ? AND time_next <= ?", _BY_TIME)

    def after_level(self, priority: int | None) -> str:
        """The next priority in use, and when the next message of this level falls due. Parameters: where the level has
        a priority, that twice; the time."""
        waiting = f"FROM {self._table} WHERE time_acked IS NULL"
        following = "NULL" if priority is None else f"(SELECT MIN(priority) {waiting} AND priority > ?)"
        due = f"(SELECT time_next {waiting} AND {self._level(priority)} AND time_next > ? ORDER BY time_next LIMIT 1)"
        return f"SELECT {following}, {due}"

    def fitting(self, count: int) -> str:
        """Of these ids, those that fit."""
        return f"SELECT id FROM {self._table} WHERE id IN ({placeholders(count)}) AND {self._fits}"

    def claimable(self, count: int) -> str:
        """The same, locked where others write too, so that they fit until the transaction ends."""
        return self.fitting(count) + self._lock

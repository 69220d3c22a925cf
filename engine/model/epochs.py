"""How a row counts deliveries: its epoch, one more with each lease, whatever a client has written there.

NULL and what is negative count as 0. An epoch that has come to the highest that the column holds stays there: the
message is delivered all the same, or is out of attempts where the queue bounds them. So no row keeps a lease from being
written. Pure; the conditions are SQL that every database we serve reads alike.
"""

from __future__ import annotations

from engine.model.queue import ColumnMeta, QueueSpec

_BITS = {1: 8, 2: 16, 9: 24, 3: 32, 8: 64}  # of TINY, SHORT, INT24, LONG, LONGLONG
_UNSIGNED = 0x20
_BIGINT_MAX = (1 << 63) - 1


def integer_bounds(column: ColumnMeta) -> tuple[int, int] | None:
    """The lowest and the highest value of an integer column; None for a column of another type."""
    bits = _BITS.get(column.type)
    if bits is None:
        return None
    return (0, (1 << bits) - 1) if column.flags & _UNSIGNED else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def highest_epoch(queue: QueueSpec) -> int:
    """Where the queue's epochs stay. No more than a BIGINT holds: SQLite has no wider integers."""
    column = queue.column("epoch")
    bounds = None if column is None else integer_bounds(column)
    return _BIGINT_MAX if bounds is None else min(bounds[1], _BIGINT_MAX)


def last_epoch(queue: QueueSpec, attempts_max: int) -> int:
    """From which epoch on a message is out of its attempts; 0: never."""
    return min(attempts_max, highest_epoch(queue)) if attempts_max else 0


def is_spent(queue: QueueSpec, epoch: int) -> bool:
    """Whether a message whose last delivery counted, and made its epoch this, is out of its attempts."""
    return 0 < last_epoch(queue, queue.options.attempts_max) <= epoch


def next_epoch(epoch: int, highest: int) -> int:
    """The epoch of a message that is leased."""
    return epoch + 1 if 0 <= epoch < highest else max(epoch, 1)


def next_epoch_sql(highest: int) -> str:
    """The same, of a row."""
    return f"CASE WHEN epoch > 0 AND epoch < {highest} THEN epoch + 1 WHEN epoch > 0 THEN epoch ELSE 1 END"

"""Message identity: what kind of value a queue's ids are, and ids from anywhere brought to that kind.

Ids reach the engine from two sides: from the table (always typed by the column) and from the text of a client's
statement (an integer key may be written 101, '101' or b'101'). Both must meet in one dictionary, so every id passes
through `normalise` first. Pure; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import assert_never

from engine.model.queue import TIMESTAMP_TYPE, ColumnMeta, MessageId, QueueSpec

_INTEGER_TYPES = frozenset((1, 2, 3, 8, 9, 13))  # TINY, SHORT, LONG, LONGLONG, INT24, YEAR
_STRING_TYPES = frozenset((15, 249, 250, 251, 252, 253, 254))  # VARCHAR, the BLOB family, VAR_STRING, STRING
_BINARY_CHARSET = 63
_NO_IDENTITY_TYPES = frozenset((4, 5, TIMESTAMP_TYPE, 11, 16, 245, 255))  # FLOAT, DOUBLE, TIME, BIT, JSON, GEOMETRY
_BIGINT_MAX = (1 << 63) - 1
_AUTO_INCREMENT = 0x200  # a flag of a column
_INTEGER_DIGITS_MAX = 20  # BIGINT UNSIGNED has 20; more is not an id and would cost quadratic time to read


class IdKind(Enum):
    """The Python type of a queue's ids. Dates and decimals count as text: their text form identifies them."""

    INTEGER = "integer"
    TEXT = "text"
    BINARY = "binary"


def id_kind(column: ColumnMeta) -> IdKind:
    """The kind of an id column."""
    if column.type in _INTEGER_TYPES:
        return IdKind.INTEGER
    if column.type in _STRING_TYPES and column.charset == _BINARY_CHARSET:
        return IdKind.BINARY
    return IdKind.TEXT


def is_integer(column: ColumnMeta) -> bool:
    """Whether the column holds whole numbers."""
    return column.type in _INTEGER_TYPES


def numbers_itself(queue: QueueSpec) -> bool:
    """Whether the database gives the queue's messages their ids where an INSERT gives none."""
    column = queue.column("id")
    return column is not None and is_integer(column) and bool(column.flags & _AUTO_INCREMENT)


def highest_explicit_id(queue: QueueSpec) -> int | None:
    """The highest id that may be given by hand, half of those that there are: the database goes on from there. None
    where it gives none itself."""
    column = queue.column("id")
    bounds = None if column is None or not numbers_itself(queue) else integer_bounds(column)
    return None if bounds is None else min(bounds[1], _BIGINT_MAX) // 2


def id_text(id_: MessageId) -> str:
    """An id to be read; bytes in hexadecimal, as `X'..'` takes them."""
    return id_.hex() if isinstance(id_, bytes) else str(id_)


def can_identify(column: ColumnMeta) -> bool:
    """Whether the text form of this type finds the same row again, in every backend."""
    return column.type not in _NO_IDENTITY_TYPES


def from_text(kind: IdKind, value: bytes) -> MessageId:
    """An id as the text protocol carries it (UTF-8)."""
    match kind:
        case IdKind.INTEGER:
            return int(value)
        case IdKind.TEXT:
            return value.decode("utf-8")
        case IdKind.BINARY:
            return value
        case _:
            assert_never(kind)


def normalise(kind: IdKind, value: MessageId) -> MessageId | None:
    """An id from a client's statement, as the table would spell it; None when that is unknown."""
    try:
        match kind:
            case IdKind.INTEGER:
                return _integer(value)
            case IdKind.TEXT:
                return value.decode("utf-8") if isinstance(value, bytes) else str(value)
            case IdKind.BINARY:
                return value if isinstance(value, bytes) else str(value).encode("utf-8")
            case _:
                assert_never(kind)
    except (ValueError, UnicodeError):
        return None


def all_normalised(kind: IdKind, values: Iterable[MessageId]) -> list[MessageId | None]:
    """The same of many: acks come with a thousand ids, which mostly are as the table spells them."""
    if kind is IdKind.INTEGER:
        return [value if type(value) is int else normalise(kind, value) for value in values]
    return [normalise(kind, value) for value in values]


def _integer(value: MessageId) -> int:
    if isinstance(value, int):
        return value
    if len(value) > _INTEGER_DIGITS_MAX + 1:
        raise ValueError("too long for an integer id")
    return int(value)


# How a row counts deliveries: its epoch, one more with each lease, whatever a client has written there.
#
# NULL and what is negative count as 0. An epoch that has come to the highest that the column holds stays there: the
# message is delivered all the same, or is out of attempts where the queue bounds them. So no row keeps a lease from
# being written. Pure; the conditions are SQL that every database we serve reads alike.

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

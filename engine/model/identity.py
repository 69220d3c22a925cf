"""Message identity: what kind of value a queue's ids are, and ids from anywhere brought to that kind.

Ids reach the engine from two sides: from the table (always typed by the column) and from the text of a client's
statement (an integer key may be written 101, '101' or b'101'). Both must meet in one dictionary, so every id passes
through `normalise` first. Pure; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import assert_never

from engine.model.epochs import integer_bounds
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

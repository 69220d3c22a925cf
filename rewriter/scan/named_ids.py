"""Which messages a statement certainly ends, as far as its text shows.

These are only `id = literal` and `id IN (literals)`, alone or with `AND time_acked IS NULL`; everything else is
uncertain, and the engine then reads the table. With `AND lease_token = number`, or epoch, which names one delivery,
they are certain if all of them are changed. A literal counts only if it equals the key exactly as the engine stores it:
digits for an integer key, a string without escapes for a text key.
"""

from __future__ import annotations

import re
from enum import Enum

from engine.model.queue import MessageId, QueueName, QueueSpec
from rewriter.plan import Effects
from rewriter.text.lexis import IDENTIFIER, SPACE

_INTEGER_TYPES = frozenset((1, 2, 3, 8, 9))  # TINY, SHORT, LONG, LONGLONG, INT24 of the protocol
_TEXT_TYPES = frozenset((15, 253, 254))  # VARCHAR, VAR_STRING, STRING
_BINARY_CHARSET = 63
_DIGITS_MAX = 20  # of 2^64, the largest BIGINT UNSIGNED


class KeyKind(Enum):
    """What a queue's ids are. OTHER: keys (decimals, dates, binary strings) whose literals have many spellings."""

    INTEGER = "integer"
    TEXT = "text"
    OTHER = "other"


def key_kind(spec: QueueSpec) -> KeyKind:
    column = spec.column("id")
    if column is None:
        return KeyKind.OTHER
    if column.type in _INTEGER_TYPES:
        return KeyKind.INTEGER
    if column.type in _TEXT_TYPES and column.charset != _BINARY_CHARSET:
        return KeyKind.TEXT
    return KeyKind.OTHER


_QUALIFIER = rb"(?>(?:" + IDENTIFIER + SPACE + rb"\." + SPACE + rb"){0,2})"
_LITERAL = rb"(?:\d++|'[^'\\]*+')(?![\w'])"


def _condition(value: bytes, also: bytes = b"") -> re.Pattern[bytes]:
    """`id = value` or `id IN (values)`, perhaps with `AND time_acked IS NULL`; its groups are the values. `also`: what
    may be between."""
    return re.compile(
        SPACE + _QUALIFIER + rb"`?id`?" + SPACE
        + rb"(?:=" + SPACE + rb"(" + value + rb")"
        + rb"|IN" + SPACE + rb"\(\s*+(" + value + rb"(?>(?:\s*+,\s*+" + value + rb")*))\s*+\))" + SPACE
        + also
        + rb"(?>(?:AND" + SPACE + _QUALIFIER + rb"`?time_acked`?" + SPACE + rb"IS" + SPACE + rb"NULL" + SPACE + rb")?)"
        + rb"(?>(?:;" + SPACE + rb")*)",
        re.IGNORECASE,
    )  # fmt: skip


def _of_delivery(number: bytes) -> bytes:
    column = rb"(?>`(?:lease_token|epoch)`|lease_token|epoch)"
    return rb"(?>AND" + SPACE + _QUALIFIER + column + SPACE + rb"=" + SPACE + number + SPACE + rb")"


_VALUE, _NUMBER = rb"(?:" + _LITERAL + rb"|\?)", rb"(?:\d++|\?)"
_PLAIN_CONDITION = _condition(_LITERAL)
_DELIVERY_CONDITION = _condition(_LITERAL, _of_delivery(rb"\d++"))
_ONE_DELIVERY = rb"(?>(?:" + _of_delivery(_NUMBER) + rb")?)"
_BY_IDS = _condition(_VALUE, _ONE_DELIVERY)
_LITERALS = re.compile(rb"\d++|'[^']*+'")


def settled_ids(condition: bytes, kind: KeyKind) -> tuple[MessageId, ...] | None:
    """The ids that a condition limits a statement to; None when it is unknown."""
    return _ids_in(_PLAIN_CONDITION, condition, kind)


def delivery_ids(condition: bytes, kind: KeyKind) -> tuple[MessageId, ...] | None:
    """The ids of a condition that names one delivery of each, by its token or epoch; None when it does not."""
    return _ids_in(_DELIVERY_CONDITION, condition, kind)


def _ids_in(pattern: re.Pattern[bytes], condition: bytes, kind: KeyKind) -> tuple[MessageId, ...] | None:
    match = pattern.fullmatch(condition) if kind is not KeyKind.OTHER and condition.isascii() else None
    if match is None:
        return None
    ids = [message_id(text.decode(), kind) for text in _LITERALS.findall(match[1] or match[2])]
    known = tuple(i for i in ids if i is not None)
    return known if len(known) == len(ids) else None


def names_ids(condition: str) -> bool:
    """Whether a condition limits a statement to certain ids, `?` among them, perhaps to one delivery of each."""
    return _BY_IDS.fullmatch(condition.encode("utf-8", "surrogatepass")) is not None


def message_id(literal: str, kind: KeyKind) -> MessageId | None:
    """The key of a literal, as written; None when it may be another."""
    quoted = literal[:1] == "'"
    text = literal[1:-1] if quoted else literal
    if kind is KeyKind.TEXT:
        return text if quoted and "\\" not in text and "'" not in text else None
    if kind is KeyKind.INTEGER and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        return int(text)
    return None


def ending(queue: QueueName, ids: tuple[MessageId, ...] | None) -> Effects:
    """The effects of a statement that ends messages of `queue`: those of `ids`, or some if None."""
    if ids is None:
        return Effects(uncertain=frozenset((queue,)))
    return Effects(settled=((queue, ids),))

"""Key ranges: the parts of the ring of a queue with a sharding key, and who receives which of them. Pure.

The ring is Vitess's: the MD5 of a key is its keyspace id (the vindex `binary_md5`), and a key range names keyspace ids
by their first hexadecimal digits, the begin included, the end excluded: `-40`, `40-80`, `c0-`, `-`. A slot is the first
two bytes of a keyspace id. The table has it in a generated column, so it is right however a row was written.
Source: https://vitess.io/docs/reference/features/sharding/#key-ranges-and-partitions
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.model.errors import InvalidOption

SLOT_COLUMN = "queuegate_slot"
"""The generated column that holds a message's slot. Hidden from `*`."""

VINDEX = "binary_md5"
"""The only vindex of Vitess that a database computes itself."""

SLOTS = 1 << 16

PARTS = 256
"""Of the ring, all of equal length. Keys are assigned to receivers by whole parts."""

_PART_SLOTS = SLOTS // PARTS
_PART_BITS = 8

SPANS_MAX = 64
"""Stretches of the ring in one key range: they are part of each poll's statement."""

_TESTS_MAX = 8  # of a slot, one for each stretch
_NOWHERE = "none"  # the text of a key range without a slot
_SPAN = re.compile(r"(?P<begin>(?:[0-9a-f]{2}){0,2})-(?P<end>(?:[0-9a-f]{2}){0,2})", re.ASCII | re.IGNORECASE)
_DIGITS = 4


class Keys(Enum):
    """How a receiver shares the keys of its queue with others, as the option `keys` has it.

    shared      it gets messages of all keys, or of its `key_range`
    sticky      it gets those of its parts of the ring, and those of others that wait for longer than `sticky_wait`
    exclusive   it gets those of its parts, and nobody else with sticky or exclusive keys does
    """

    SHARED = "shared"
    STICKY = "sticky"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of the ring: its first and its last slot, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        begin = "" if self.first == 0 else _shortened(self.first)
        end = "" if self.last == SLOTS - 1 else _shortened(self.last + 1)
        return f"{begin}-{end}"

    @property
    def is_of_parts(self) -> bool:
        """Whether it consists of whole parts."""
        return self.first % _PART_SLOTS == 0 and (self.last + 1) % _PART_SLOTS == 0

    @property
    def parts(self) -> range:
        """The parts of which it has a piece."""
        return range(self.first // _PART_SLOTS, self.last // _PART_SLOTS + 1)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Slots, as the fewest stretches that hold just these, in order. Its text is that of the option `key_range`."""

    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.spans)) or _NOWHERE

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole ring."""
        return self == WHOLE

    @property
    def sql(self) -> str:
        """The condition that a message is in it, true or false, as each database here reads it."""
        if len(self.spans) > _TESTS_MAX and all(span.is_of_parts for span in self.spans):
            # The server looks a constant up in a list; it makes the tests of BETWEEN one by one.
            parts = (str(part) for span in self.spans for part in span.parts)
            return f"(({SLOT_COLUMN} >> {_PART_BITS}) IN ({', '.join(parts)}))"
        tests = [f"{SLOT_COLUMN} BETWEEN {span.first} AND {span.last}" for span in self.spans]
        return f"({' OR '.join(tests) or '1 = 0'})"

    def covers(self, slot: int) -> bool:
        """Whether a slot is in it."""
        return any(span.first <= slot <= span.last for span in self.spans)


@dataclass(frozen=True, slots=True)
class ShardingColumn:
    """What a column of the user's is, as far as it decides whether it can be a sharding key. `padded`: a CHAR, which a
    session may read with its trailing blanks."""

    can_be_hashed: bool
    nullable: bool
    padded: bool


def unfit_sharding_key(name: str, column: ShardingColumn | None) -> str | None:
    """Why messages cannot be placed on a ring by the column of that name; None: they can."""
    if column is None:
        return f"sharding_key: '{name}' is not a column of yours in the queue"
    if not column.can_be_hashed:
        return (
            f"sharding_key: '{name}' must be an integer without ZEROFILL, a CHAR or VARCHAR, or a BINARY or VARBINARY"
        )
    if column.nullable:
        return f"sharding_key: '{name}' must be NOT NULL: a message without a key has no place on the ring"
    return None


def read_key_range(name: str, text: str) -> KeyRange:
    """The key range of a text: one stretch, or several with commas between, which may overlap.

    Raises:
        InvalidOption: it is none. The message begins with `name`.
    """
    pieces = text.split(",")
    if len(pieces) > SPANS_MAX:
        raise InvalidOption(f"{name}: {len(pieces)} ranges are given; at most {SPANS_MAX}")
    return _read(name, pieces)


def _read(name: str, pieces: Iterable[str]) -> KeyRange:
    return union(_read_span(name, piece.strip()) for piece in pieces)


def union(spans: Iterable[Span]) -> KeyRange:
    """All slots that are in one of these stretches."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.first <= joined[-1].last + 1:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return KeyRange(tuple(joined))


def of_parts(parts: Iterable[int]) -> KeyRange:
    """The slots of these parts of the ring."""
    return union(Span(part * _PART_SLOTS, (part + 1) * _PART_SLOTS - 1) for part in parts)


def shown_key_range(text: str) -> KeyRange:
    """The inverse of the text of a key range; empty: the whole ring."""
    if text == _NOWHERE:
        return KeyRange(())
    return _read("key_range", text.split(",")) if text else WHOLE


def partition(ranges: Iterable[KeyRange]) -> Sequence[Span]:
    """The whole ring, cut at each begin and end of these ranges: each stretch is in all of a range, or in none."""
    spans = [span for key_range in ranges for span in key_range.spans]
    begins = sorted({0, *(span.first for span in spans), *(span.last + 1 for span in spans)} - {SLOTS})
    return [Span(begin, end - 1) for begin, end in zip(begins, [*begins[1:], SLOTS], strict=True)]


def _read_span(name: str, text: str) -> Span:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise InvalidOption(
            f"{name}: '{text}' is no key range; give two or four hexadecimal digits before and after the hyphen,"
            " or none, as in '-40', '40-80', 'c0-'; several with commas between"
        )
    first = int(match["begin"].ljust(_DIGITS, "0"), 16)
    end = int(match["end"].ljust(_DIGITS, "0"), 16) if match["end"] else SLOTS
    if first >= end:
        raise InvalidOption(f"{name}: '{text}' is empty: its begin is not before its end")
    return Span(first, end - 1)


def _shortened(slot: int) -> str:
    """A slot as a prefix of keyspace ids."""
    return f"{slot:0{_DIGITS}x}".removesuffix("00")


WHOLE = KeyRange((Span(0, SLOTS - 1),))

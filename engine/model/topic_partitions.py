"""The partitions of a topic, by RANGE of its id: which to create, and what a dropped one means for a group. Pure.

The last partition is MAXVALUE, so that each id has a partition. It stays empty, because only an empty partition is
divided without a copy. Four partitions are created ahead, each for as many ids as the last interval took. After them
are wider ones, of 4 to 1,024 times as many. They are a reserve for a jump of the rate, and are divided while empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.model.queue import QueueName, quoted
from engine.model.topic_options import PARTITIONS_MAX
from engine.model.topics import GroupPosition

WIDTH_MIN = 10_000
"""Ids of a partition, at least: at a lower rate there is little to delete."""

COPIED_MAX = 10_000
"""Messages in the last partition up to which it is divided all the same, with a copy: a fraction of a second."""

_AHEAD = 4
_AHEAD_MIN = 2
_RESERVE = (4, 16, 64, 256, 1024)
_TOO_WIDE = 4  # times the width that is wanted now
_BOUND_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Grace:
    """How much longer messages stay than they have to before they are deleted row by row: their partition may go as a
    whole meanwhile."""

    nanoseconds: int = 0
    ids: int = 0


NO_GRACE = Grace()

_GRACE = 2  # intervals


def grace_of(interval_ns: int, width: int) -> Grace:
    """For a topic that loses whole partitions, each of so long an interval and about so many ids."""
    return Grace(_GRACE * interval_ns, _GRACE * width)


@dataclass(frozen=True, slots=True)
class Partition:
    """`bound`: all its ids are less; None: MAXVALUE."""

    name: str
    bound: int | None


def read_partitions(rows: Sequence[tuple[object, object]]) -> tuple[Partition, ...]:
    """From what information_schema has of them, in order."""
    return tuple(Partition(str(name), None if str(bound) == "MAXVALUE" else int(str(bound))) for name, bound in rows)


def partition_list(partitions: Sequence[Partition]) -> str:
    """Partitions as a definition names them."""
    named = (
        f"PARTITION {quoted(one.name)} VALUES LESS THAN ({'MAXVALUE' if one.bound is None else one.bound})"
        for one in partitions
    )
    return f"({', '.join(named)})"


def by_range(partitions: Sequence[Partition]) -> str:
    """The clause of a CREATE TABLE, or an ALTER TABLE, that partitions a topic so."""
    return f"PARTITION BY RANGE (id) {partition_list(partitions)}"


def by_hand(topic: QueueName, next_id: int) -> str:
    """The statement with which a user partitions a topic's table."""
    first = (Partition("p0", next_id - 1 + WIDTH_MIN), Partition("pmax", None))
    return f"ALTER TABLE {topic.sql} {by_range(first)}"


def new_bounds(start: int, width: int) -> list[int]:
    """Bounds of new partitions from the id `start` on, the reserve among them."""
    bounds = [start + width * number for number in range(1, _AHEAD + 1)]
    for factor in _RESERVE:
        bounds.append(bounds[-1] + width * factor)
    return [bound for bound in bounds if bound < _BOUND_MAX]


def first_partitions() -> tuple[Partition, ...]:
    """Those of a new topic."""
    return _named(new_bounds(0, WIDTH_MIN), Partition("pmax", None), ())


def wanted_width(taken: int, total: int) -> int:
    """Ids of a partition that is created now. `taken`: in the last interval; `total`: from the first to the last,
    so that there are not too many partitions, however the rate has changed."""
    return max(WIDTH_MIN, taken, total // PARTITIONS_MAX)


@dataclass(frozen=True, slots=True)
class Division:
    """Partitions `new` in place of the `old` ones; without these they are added behind the last."""

    old: tuple[str, ...]
    new: tuple[Partition, ...]


def current(partitions: Sequence[Partition], next_id: int) -> int | None:
    """The index of the partition that the next message comes into; None where there is none, and it is refused."""
    fit = (index for index, one in enumerate(partitions) if one.bound is None or next_id < one.bound)
    return next(fit, None)


def division(partitions: Sequence[Partition], next_id: int, width: int) -> Division | None:
    """How to divide the partitions ahead of a topic's next id; None where that is not needed, or the next message goes
    into the last partition, which is not empty then."""
    place = current(partitions, next_id)
    last = partitions[-1]
    if place is None:
        assert last.bound is not None
        start = max(next_id, last.bound)
        return Division((), _named(new_bounds(start, width), Partition("pmax", None), partitions))
    if (bound := partitions[place].bound) is None:
        return None
    ahead = partitions[place + 1 :]
    if last.bound is None and _fit(bound, ahead, width) >= _AHEAD_MIN:
        return None
    new = _named(new_bounds(bound, width), _open(last), partitions[: place + 1])
    return Division(tuple(one.name for one in ahead), new)


def division_of_last(partitions: Sequence[Partition], next_id: int, width: int) -> Division:
    """How the last partition is to be divided, into which the next message comes: the first of the new ones has what
    is in it."""
    return Division((partitions[-1].name,), _named(new_bounds(next_id, width), partitions[-1], partitions[:-1]))


def _open(last: Partition) -> Partition:
    return last if last.bound is None else Partition("pmax", None)


def _fit(start: int, ahead: Sequence[Partition], width: int) -> int:
    """How many of these partitions, the first of which begins there, are not too wide, up to the first that is."""
    bounds = [start, *(one.bound for one in ahead if one.bound is not None)]
    count = 0
    for before, bound in pairwise(bounds):
        if bound - before > width * _TOO_WIDE:
            break
        count += 1
    return count


def _named(bounds: Sequence[int], last: Partition, existing: Sequence[Partition]) -> tuple[Partition, ...]:
    """Partitions with these bounds, and the last one; no name is one of the `existing` ones."""
    taken = {one.name.lower() for one in existing}
    named: list[Partition] = []
    for partition in (*(Partition(f"p{bound}", bound) for bound in bounds), last):
        name = partition.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        named.append(replace(partition, name=name))
    return tuple(named)


# --- what is lost with a partition


@dataclass(frozen=True, slots=True)
class IdRange:
    """Ids from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CountedPage:
    """Messages that follow one another: the ids of the first and the last, and how many they are."""

    first: int
    last: int
    messages: int


@dataclass(frozen=True, slots=True)
class Unread:
    """The messages of a partition that a group has not read: `counted` in whole pages; and the ranges in which messages
    must still be counted: the rest of the page that its offset is in, and its holes."""

    counted: int
    ranges: tuple[IdRange, ...]


def unread(pages: Sequence[CountedPage], position: GroupPosition, bound: int) -> Unread:
    """What a group has not read in the partition below `bound` with these pages."""
    counted, ranges = 0, list[IdRange]()
    for page in pages:
        if page.first > position.offset:
            counted += page.messages
        elif page.last > position.offset:
            ranges.append(IdRange(position.offset + 1, page.last))
    for hole in position.holes:
        last = min(hole.last, position.offset, bound - 1)
        if hole.first <= last:
            ranges.append(IdRange(hole.first, last))
    return Unread(counted, tuple(ranges))


def moved_past(position: GroupPosition, bound: int) -> GroupPosition:
    """The position of a group once all ids below `bound` are deleted, and none can appear there."""
    holes = tuple(replace(hole, first=max(hole.first, bound)) for hole in position.holes if hole.last >= bound)
    offset = max(position.offset, bound - 1)
    return GroupPosition(offset, max(position.highest, offset), holes)

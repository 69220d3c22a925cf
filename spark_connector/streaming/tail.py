"""How far a tail may read, decided from what was seen. Pure; no SQL here.

Ids are given before transactions commit, so a smaller id may appear after a larger one. Whoever remembers "read up to
n" must not pass over an id that is still on its way. Two looks tell: first what is committed, then (READ UNCOMMITTED)
what is there at all. What the second has and the first had not is on its way, and the tail stops before it. Neither
look locks anything, so no producer, receiver or ack ever waits for a tail.

An id that is given and not written yet is seen by neither look, for the moments that the database needs from one to the
other. It leaves a gap; so after a gap nothing is read that is younger than GRACE_NS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

GRACE_NS = 500_000_000
"""From giving an id to writing its row is one step of one INSERT: microseconds, unless the machine stands still."""


@dataclass(frozen=True)
class Row:
    """What is read of a message to plan with. `created`: ns, None where the table does not tell."""

    id: int
    created: int | None


@dataclass(frozen=True)
class Readable:
    """How many of the rows may be read; if not all, the id that is waited for, or None where it is a young gap."""

    count: int
    blocked_by: int | None = None


def readable(since: int, committed: Sequence[Row], there: Sequence[int], now: int) -> Readable:
    """Of the rows beyond id `since`, those that no id still on its way precedes. `there`: the second look's ids."""
    ids = {row.id for row in committed}
    blocker = min((id_ for id_ in there if id_ not in ids), default=None)
    before = since
    for place, row in enumerate(committed):
        if blocker is not None and blocker < row.id:
            return Readable(place, blocker)
        if row.id != before + 1 and row.created is not None and now - GRACE_NS < row.created <= now:
            return Readable(place)
        before = row.id
    return Readable(len(committed))


@dataclass(frozen=True)
class Gap:
    """Ids that are not there, `first` to `last`."""

    first: int
    last: int


def gaps(since: int, since_ns: int, rows: Sequence[Row], purged_ns: int) -> Iterator[Gap]:
    """Missing ids that the purge may have taken: of messages that were made before `purged_ns`.

    A message was made after the one before it, and after `since_ns` where it is the first. An INSERT that was rolled
    back leaves the same gap: nothing in the table tells the two apart.
    """
    before, made = since, since_ns
    for row in rows:
        if row.id != before + 1 and made < purged_ns:
            yield Gap(before + 1, row.id - 1)
        before, made = row.id, made if row.created is None else max(made, row.created)


def bounds(since: int, ids: Sequence[int], parts: int, size: int) -> list[tuple[int, ...]]:
    """The ids as at most so many parts of equal size, each as bounds: what lies between two of them is one statement.

    A statement reads more than the one bound, up to the next, and at most `size` messages.
    """
    parts = min(parts, len(ids))
    cuts = [len(ids) * part // parts for part in range(parts + 1)] if parts else []
    places = [[*range(low, high, size), high] for low, high in pairwise(cuts)]
    return [tuple(since if place == 0 else ids[place - 1] for place in part) for part in places]

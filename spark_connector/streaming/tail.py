"""How far a tail may read by ids, decided from what was seen. Pure; no SQL here.

Where a topic's messages have numbers none of this is needed: ByNumber.

Ids are given before transactions commit, so a smaller id may appear after a larger one. Whoever remembers "read up to
n" must not pass over an id that is still on its way. Two looks tell: first what is committed, then (READ UNCOMMITTED)
what is there at all. What the second has and the first had not is on its way, and the tail stops before it. Neither
look locks anything, so no producer, receiver or ack ever waits for a tail.

An id that is given and not written yet is seen by neither look, for the moments that the database needs from one to the
other. It leaves a gap. Ids are given in order, so the ids of a gap were given before any larger one was seen: a gap is
passed once a larger id was seen GRACE_NS ago (`Horizon`). What a message says of its time does not count near the end,
for it is the time of its INSERT, or what the application made up; its commit may be of this moment.

Consumer groups have another rule (they pass a missing id, keep it as a hole, and ask InnoDB which transactions are
open). It is not used here: a micro-batch must be the same when it is repeated, and with this rule it is what lies
between two ids; messages come in the order of ids; and to look needs no privilege but SELECT. The price is that a
transaction which stays open holds the tail up, as one holds up a consumer of Kafka that reads what is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

GRACE_NS = 500_000_000
"""From giving an id to writing its row is one step of one INSERT: microseconds, unless the machine stands still."""

SETTLED_IDS = 1000
"""A message so many ids below the end is as old as it says: it cannot have been written just now."""


@dataclass(frozen=True)
class Row:
    """What is read of a message to plan with: its offset, and when it was made (ns), None where the table does not
    tell."""

    at: int
    created: int | None


@dataclass(frozen=True)
class Readable:
    """How many of the rows may be read; if not all, the id that is waited for, or None where it is a young gap."""

    count: int
    blocked_by: int | None = None


class Horizon:
    """The largest ids that were seen, and when: by one process, on its own clock (ns)."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, int]] = []  # when, and the largest id then; both only grow

    def see(self, largest: int, now: int) -> None:
        """Note that `largest` is the largest id now."""
        if not self._seen or largest > self._seen[-1][1]:
            self._seen.append((now, largest))
        old = [at for at, _ in self._seen if at <= now - GRACE_NS]
        del self._seen[: max(0, len(old) - 1)]  # of those that are old enough the last one tells most

    def settled(self, now: int) -> int:
        """An id that was there GRACE_NS ago; 0 where none is known. Ids up to it are written, or never will be."""
        return max((largest for at, largest in self._seen if at <= now - GRACE_NS), default=0)

    @property
    def largest(self) -> int:
        """The largest id that was seen; 0 at first."""
        return self._seen[-1][1] if self._seen else 0


@dataclass(frozen=True)
class Ripe:
    """Which gaps nobody will fill: those before ids up to `settled`; and far below the `largest` id those before
    messages that are older than GRACE_NS at `now`, by their own word (ns, the database's clock)."""

    settled: int
    largest: int
    now: int

    def gap_before(self, row: Row) -> bool:
        """Whether ids that are missing before that row may be passed."""
        if row.at <= self.settled:
            return True
        old = row.created is None or not self.now - GRACE_NS < row.created <= self.now
        return old and row.at < self.largest - SETTLED_IDS


def readable(since: int, committed: Sequence[Row], there: Sequence[int], ripe: Ripe) -> Readable:
    """Of the rows beyond id `since`, those that no id still on its way precedes. `there`: the second look's ids."""
    ids = {row.at for row in committed}
    blocker = min((id_ for id_ in there if id_ not in ids), default=None)
    before = since
    for place, row in enumerate(committed):
        if blocker is not None and blocker < row.at:
            return Readable(place, blocker)
        if row.at != before + 1 and not ripe.gap_before(row):
            return Readable(place)
        before = row.at
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
        if row.at != before + 1 and made < purged_ns:
            yield Gap(before + 1, row.at - 1)
        before, made = row.at, made if row.created is None else max(made, row.created)


def bounds(since: int, ids: Sequence[int], parts: int, size: int) -> list[tuple[int, ...]]:
    """The ids, or numbers, as at most so many parts of equal size, each as bounds: what lies between two of them is one
    statement.

    A statement reads more than the one bound, up to the next, and at most `size` messages.
    """
    parts = min(parts, len(ids))
    cuts = [len(ids) * part // parts for part in range(parts + 1)] if parts else []
    places = [[*range(low, high, size), high] for low, high in pairwise(cuts)]
    return [tuple(since if place == 0 else ids[place - 1] for place in part) for part in places]

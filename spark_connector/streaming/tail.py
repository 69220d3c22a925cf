"""How far a tail may read by ids, decided from observed ids. Pure; no SQL here.

If a topic's messages have numbers, none of this is needed: ByNumber.

Ids are assigned before transactions commit, so a smaller id may appear after a larger one. A reader that stores "read
up to n" must not skip an id that is not committed yet. Two queries detect it: first the committed ids, then (READ
UNCOMMITTED) all existing ids. An id only in the second result is uncommitted, and the tail stops before it. Neither
query locks anything, so no producer, receiver or ack ever waits for a tail.

An id that is assigned and not written yet is in neither result, for the short time that the database needs in between.
It leaves a gap. Ids are assigned in order, so the ids of a gap were assigned before any larger one was observed: a gap
is skipped once a larger id was observed GRACE_NS ago (`Horizon`). The time in a message is not used near the end,
because it is the time of its INSERT, or set by the application; its commit may be much later.

Consumer groups have another rule (they skip a missing id, record it as a hole, and query InnoDB for open transactions).
It is not used here: a micro-batch must be the same when it is repeated, and with this rule it is everything between two
ids; messages come in the order of ids; and only the privilege SELECT is needed. The price is that a transaction which
stays open blocks the tail, as it blocks a consumer of Kafka with read_committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

GRACE_NS = 500_000_000
"""Assigning an id and writing its row is one step of one INSERT: microseconds, unless the machine is suspended."""

SETTLED_IDS = 1000
"""So many ids below the end the time in a message is trusted: it cannot have been written just now."""


@dataclass(frozen=True)
class Row:
    """A message for planning: its offset, and when it was created (ns), or None if the table has no such column."""

    at: int
    created: int | None


@dataclass(frozen=True)
class Readable:
    """How many of the rows may be read; if not all, the uncommitted id that blocks, or None for a young gap."""

    count: int
    blocked_by: int | None = None


class Horizon:
    """The largest observed ids, and when: in one process, on its own clock (ns)."""

    def __init__(self) -> None:
        self._observed: list[tuple[int, int]] = []  # when, and the largest id then; both only grow

    def observe(self, largest: int, now: int) -> None:
        """Record that `largest` is the largest id now."""
        if not self._observed or largest > self._observed[-1][1]:
            self._observed.append((now, largest))
        old = [at for at, _ in self._observed if at <= now - GRACE_NS]
        del self._observed[: max(0, len(old) - 1)]  # of the old ones only the last one is needed

    def settled(self, now: int) -> int:
        """The largest id observed GRACE_NS ago or before; 0 if none. Ids up to it are written, or never will be."""
        return max((largest for at, largest in self._observed if at <= now - GRACE_NS), default=0)

    @property
    def largest(self) -> int:
        """The largest observed id; 0 at first."""
        return self._observed[-1][1] if self._observed else 0


@dataclass(frozen=True)
class ClosedGaps:
    """Decides which gaps will not be filled any more: those before ids up to `settled`; and far below the `largest` id
    those before messages older than GRACE_NS at `now`, by their time_created (ns, the database's clock)."""

    settled: int
    largest: int
    now: int

    def is_closed_before(self, row: Row) -> bool:
        """Whether missing ids before that row may be skipped."""
        if row.at <= self.settled:
            return True
        old = row.created is None or not self.now - GRACE_NS < row.created <= self.now
        return old and row.at < self.largest - SETTLED_IDS


def readable(since: int, committed: Sequence[Row], existing: Sequence[int], closed_gaps: ClosedGaps) -> Readable:
    """How many of the rows after id `since` have no uncommitted id before them. `existing`: the ids of the second
    query."""
    ids = {row.at for row in committed}
    blocker = min((id_ for id_ in existing if id_ not in ids), default=None)
    before = since
    for index, row in enumerate(committed):
        if blocker is not None and blocker < row.at:
            return Readable(index, blocker)
        if row.at != before + 1 and not closed_gaps.is_closed_before(row):
            return Readable(index)
        before = row.at
    return Readable(len(committed))


@dataclass(frozen=True)
class Gap:
    """Missing ids, `first` to `last`."""

    first: int
    last: int


def gaps(since: int, since_ns: int, rows: Sequence[Row], purged_ns: int) -> Iterator[Gap]:
    """Missing ids that may have been purged: of messages created before `purged_ns`.

    A message was created after the one before it; the first one after `since_ns`. An INSERT that was rolled back leaves
    the same gap: the table cannot distinguish the two.
    """
    before, created_ns = since, since_ns
    for row in rows:
        if row.at != before + 1 and created_ns < purged_ns:
            yield Gap(before + 1, row.at - 1)
        before, created_ns = row.at, created_ns if row.created is None else max(created_ns, row.created)


def bounds(since: int, ids: Sequence[int], parts: int, size: int) -> list[tuple[int, ...]]:
    """Divides the ids, or numbers, into at most `parts` parts of equal size. Each part is a list of bounds.

    One statement reads from one bound, exclusive, up to the next, inclusive, at most `size` messages.
    """
    parts = min(parts, len(ids))
    cuts = [len(ids) * part // parts for part in range(parts + 1)] if parts else []
    edges = [[*range(low, high, size), high] for low, high in pairwise(cuts)]
    return [tuple(since if index == 0 else ids[index - 1] for index in part) for part in edges]

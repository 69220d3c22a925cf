"""The ring of a queue with a sharding key: which parts of it open streams receive, and what waits in each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.model.key_range import KeyRange, Span, partition, shown_key_range, union
from engine.model.queue import SubscriptionStatus
from engine.store.census import RangeCount
from proxy.show.status_tables import Values

RANGES_SHOWN_MAX = 256
"""Rows of SHOW QUEUE q RANGES. Each costs the server four sums over the unacked messages."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """The key ranges of a queue's open streams, one for each stream: what it gets at once (`own`), and what it gets
    sooner or later (`all`)."""

    own: Sequence[KeyRange]
    all: Sequence[KeyRange]

    @classmethod
    def of(cls, streams: Sequence[SubscriptionStatus]) -> Receivers:
        """Those of these streams, which are of one queue."""
        return cls([shown_key_range(one.key_range) for one in streams], [one.slots for one in streams])

    @property
    def ranges(self) -> Sequence[KeyRange]:
        """The whole ring, in as few pieces as possible that each have the same receivers, in order."""
        spans: dict[tuple[bool, ...], list[Span]] = {}
        for span in partition([*self.own, *self.all]):
            spans.setdefault(self._receivers(span), []).append(span)
        return [union(of_receivers) for of_receivers in spans.values()]

    @property
    def uncovered(self) -> KeyRange:
        """What no stream receives."""
        return union(span for span in partition(self.all) if not any(each.covers(span.first) for each in self.all))

    def count(self, key_range: KeyRange) -> int:
        """How many streams receive the messages of one of the `ranges`: its owners, or those that get late messages of
        it."""
        return sum(self._receivers(key_range.spans[0]))

    def _receivers(self, span: Span) -> tuple[bool, ...]:
        owners = tuple(key_range.covers(span.first) for key_range in self.own)
        return owners if any(owners) else tuple(key_range.covers(span.first) for key_range in self.all)


def range_values(counts: Iterable[RangeCount], receivers: Receivers) -> list[Values]:
    """The rows of SHOW QUEUE q RANGES."""
    return [
        (
            str(count.key_range),
            receivers.count(count.key_range),
            count.ready,
            count.later,
            count.in_flight,
            count.oldest_ready_age,
            "at least" if count.bounded else "exact",
        )
        for count in counts
    ]

"""The ring of a queue with a sharding key: which stretches of it open streams receive, and what waits in each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.model.key_range import WHOLE, KeyRange, Span, partition, read_key_range
from engine.model.queue import SubscriptionStatus
from engine.store.census import SpanCount
from proxy.show.status_tables import Values

SPANS_SHOWN_MAX = 64
"""Stretches that are counted in one statement: each adds four sums to it."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """The key ranges of a queue's open streams, one for each stream."""

    ranges: Sequence[KeyRange]

    @classmethod
    def of(cls, streams: Iterable[SubscriptionStatus]) -> Receivers:
        """Those of these streams, which are of one queue."""
        return cls([read_key_range("key_range", one.key_range) if one.key_range else WHOLE for one in streams])

    @property
    def spans(self) -> Sequence[Span]:
        """The whole ring, in stretches that each have the same receivers."""
        return partition(self.ranges)

    def count(self, span: Span) -> int:
        """How many streams receive the messages of one of the `spans`."""
        return sum(key_range.covers(span.first) for key_range in self.ranges)


def range_values(counts: Iterable[SpanCount], receivers: Receivers) -> list[Values]:
    """The rows of SHOW QUEUE q RANGES."""
    return [
        (
            str(count.span),
            receivers.count(count.span),
            count.ready,
            count.later,
            count.in_flight,
            count.oldest_ready_age,
            "at least" if count.bounded else "exact",
        )
        for count in counts
    ]

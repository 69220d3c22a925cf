"""How long messages waited from falling due to their first lease, as a histogram. Both times are the database's.

It is what a producer waits for a receiver, from its INSERT (not its COMMIT) on: little where receivers wait, and the
age of the backlog where they do not. The way from the lease to the client's socket is not in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.model.options import NS_PER_SECOND
from engine.model.queue import Message

DELAY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the buckets, in seconds; one more holds what is above."""

_BOUNDS_NS = [int(bound * NS_PER_SECOND) for bound in DELAY_BOUNDS]
_NO_TIME_NS = 1_000_000_000_000_000  # below it time_next is no time but a way to say: now


@dataclass(slots=True)
class Delays:
    """See the module."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(DELAY_BOUNDS) + 1))
    total_ns: int = 0

    def leased(self, messages: Iterable[Message], now_ns: int) -> None:
        """These were leased at that time."""
        for message in messages:
            if message.epoch == 1 and message.due_ns > _NO_TIME_NS:
                delay = max(now_ns - message.due_ns, 0)
                self.counts[bisect_left(_BOUNDS_NS, delay)] += 1
                self.total_ns += delay

"""ReceiverWindow: how many unacked messages one receiver may have, and how many more it can get. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.options import QueueOptions


@dataclass(frozen=True, slots=True)
class ReceiverWindow:
    """Of one stream. `size`: how many messages it may have; `batch_size`: how many it can get at once."""

    size: int
    batch_size: int
    counts_unacked: bool

    @classmethod
    def of(
        cls, options: QueueOptions, prefetch: int | None, *, bounded: bool, by_connection: bool = False
    ) -> ReceiverWindow:
        """Of a stream of a queue with these options. `prefetch` is the stream's own.

        The client of a bounded result cannot ack before the result ends, so prefetch would only cut it short; but it
        bounds how many messages a connection has of several results.
        """
        if bounded and not by_connection:
            return cls(options.batch_size, options.batch_size, False)
        return cls(prefetch or options.prefetch, options.batch_size, True)

    def free(self, unacked: int) -> int:
        """How many more messages fit, with so many unacked; 0 or less where it is full."""
        return self.size - unacked if self.counts_unacked else self.size

    def room(self, unacked: int) -> int:
        """How many messages the next batch may have, with so many unacked."""
        return max(0, min(self.batch_size, self.free(unacked)))

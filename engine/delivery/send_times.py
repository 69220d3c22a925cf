"""SendTimes: whether what a receiver was given may still be sent to it, at the moment in which it is.

A batch may wait between its hand-out and the socket: for a reader that is slow, or because this process or its machine
stood still. A lease that ends meanwhile makes its message another's. No await here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from engine.delivery.context import QueueContext
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Batch, Message
from engine.store.base import Release


class SendTimes:
    """See the module. For one receiver."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.common.clock

    def seconds_left(self, batch: Batch) -> float:
        """Until the first lease of the batch ends, renewals aside."""
        return min(batch.ends) - self._clock.passed() if batch.ends else math.inf

    def take_over(self, holder: Hashable, batch: Batch) -> Sequence[int]:
        """Where in a batch of this holder messages stand whose leases have no time left. They are given back,
        uncounted, unless they are another's by now."""
        if not batch.ends or self._clock.passed() < min(batch.ends):
            return ()
        over = [at for at in range(len(batch.messages)) if self._is_over(holder, batch, at)]
        if over:
            messages, common = [batch.messages[at] for at in over], self._context.common
            self._context.orphaned(messages)
            self._context.wake()
            common.logger.info("%d messages were not sent, their leases were over", len(over))
        return over

    def _is_over(self, holder: Hashable, batch: Batch, at: int) -> bool:
        message, ends = batch.messages[at], batch.ends[at]
        lease = self._context.in_flight.lease(message.id)
        own = lease is not None and lease.holder is holder and _is_of(lease.release, message)
        if own and lease is not None:
            # Its receiver may have renewed it, by a WHERE, before it had it.
            ends += (lease.until_ns - message.lease_until_ns) / NS_PER_SECOND
        over = ends <= self._clock.passed()
        if over and own:
            self._context.in_flight.settle((message.id,))
        return over


def _is_of(lease: Release, message: Message) -> bool:
    """Whether a lease is the one that a message was handed out with. The next may have its epoch."""
    return (lease.epoch, lease.token) == (message.epoch, message.token)

"""SendTimes: whether the messages of a receiver may still be sent to it, checked right before they are sent.

A batch may wait between its hand-out and the socket: because the reader is slow, or because this process or its machine
was suspended. If a lease ends meanwhile, another receiver may get its message. No await here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from engine.delivery.context import DeliveryContext
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Batch, Message
from engine.store.base import Release


class SendTimes:
    """See the module. For one receiver."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context, self._clock = context, context.queue.engine.clock

    def seconds_left(self, batch: Batch) -> float:
        """Until the first lease of the batch ends, renewals aside."""
        return min(batch.ends) - self._clock.boottime() if batch.ends else math.inf

    def drop_expired(self, holder: Hashable, batch: Batch) -> Sequence[int]:
        """The positions in a batch of this holder of messages whose leases have no time left. They are released,
        uncounted, unless another receiver has them by now."""
        if not batch.ends or self._clock.boottime() < min(batch.ends):
            return ()
        expired = [at for at in range(len(batch.messages)) if self._is_expired(holder, batch, at)]
        if expired:
            logger = self._context.queue.engine.logger
            self._context.host.on_orphaned([batch.messages[at] for at in expired])
            self._context.host.wake()
            logger.info("%d messages were not sent, their leases were over", len(expired))
        return expired

    def _is_expired(self, holder: Hashable, batch: Batch, at: int) -> bool:
        message, ends = batch.messages[at], batch.ends[at]
        lease = self._context.in_flight.lease(message.id)
        own = lease is not None and lease.holder is holder and _is_of(lease.release, message)
        if own and lease is not None:
            # Its receiver may have renewed it, by a WHERE, before it received it.
            ends += (lease.until_ns - message.lease_until_ns) / NS_PER_SECOND
        expired = ends <= self._clock.boottime()
        if expired and own:
            self._context.in_flight.settle((message.id,))
        return expired


def _is_of(lease: Release, message: Message) -> bool:
    """Whether this is the lease with which the message was handed out. The next one may have the same epoch."""
    return (lease.epoch, lease.token) == (message.epoch, message.token)

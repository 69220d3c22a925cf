"""How long to wait: the retry delay of a lease and the doubling pauses after trouble.

Current layout: ack_wait + clamp(min_backoff * 2^epoch * jitter, min_backoff, max_backoff). Legacy layout:
ack_wait * 2^epoch. With the option backoff: ack_wait + its step of that epoch, the last for all above. All in whole
nanoseconds; nothing here overflows a BIGINT column, whatever the epoch. Pure.
"""

from __future__ import annotations

from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Layout, QueueSpec

DELAY_MAX_NS = 100 * 365 * 86400 * NS_PER_SECOND
"""A century: now + this stays under 2^63 until the year 2162, and nobody can tell it from for ever."""

_EPOCH_MAX = 62  # 1 ns doubled 62 times already exceeds the century; also keeps a hostile epoch from costing anything


def lease_delay_ns(queue: QueueSpec, epoch: int, jitter: float, ack_wait_ns: int | None = None) -> int:
    """From the lease to the next delivery, for a message delivered `epoch` times before.

    `ack_wait_ns` is the subscription's own wait; `min_backoff` goes on following the queue's.
    """
    options = queue.options
    wait_ns = options.ack_wait_ns if ack_wait_ns is None else ack_wait_ns
    if options.backoff:
        return min(wait_ns + options.backoff[min(max(epoch, 0), len(options.backoff) - 1)], DELAY_MAX_NS)
    doublings = min(max(epoch, 0), _EPOCH_MAX)
    if queue.layout is Layout.LEGACY:
        return min(wait_ns << doublings, DELAY_MAX_NS)
    minimum_ns = options.effective_min_backoff_ns
    backoff_ns = int((minimum_ns << doublings) * jitter)
    # The minimum wins where a table written for Vitess has the bounds crossed.
    return min(wait_ns + max(minimum_ns, min(backoff_ns, options.max_backoff_ns)), DELAY_MAX_NS)


def lease_delays_ns(queue: QueueSpec, jitter: float, ack_wait_ns: int | None = None) -> dict[int, int]:
    """Every distinct delay by epoch; the largest epoch stands for all above it."""
    if steps := len(queue.options.backoff):
        return {epoch: lease_delay_ns(queue, epoch, jitter, ack_wait_ns) for epoch in range(steps)}
    delays = {0: lease_delay_ns(queue, 0, jitter, ack_wait_ns)}
    last_ns = lease_delay_ns(queue, _EPOCH_MAX, jitter, ack_wait_ns)
    for epoch in range(1, _EPOCH_MAX + 1):
        if delays[epoch - 1] == last_ns:
            break
        delays[epoch] = lease_delay_ns(queue, epoch, jitter, ack_wait_ns)
    return delays


class DoublingDelay:
    """A pause that doubles from `first` to `most` seconds until it is reset."""

    def __init__(self, first: float, most: float) -> None:
        assert 0 < first <= most
        self._first, self._most, self._next = first, most, first

    def take(self) -> float:
        """The pause to make now."""
        pause, self._next = self._next, min(self._next * 2, self._most)
        return pause

    def reset(self) -> None:
        self._next = self._first

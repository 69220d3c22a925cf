"""How long to wait: the delay of a lease, that after a failure, and the doubling pauses after trouble.

Current layout: ack_wait + clamp(min_backoff * 2^epoch * jitter, min_backoff, max_backoff). Legacy layout:
ack_wait * 2^epoch. With the option backoff: ack_wait + its step of that epoch, the last for all above. A NACK that
names no delay has the same without ack_wait, for the delivery that has failed. All in whole nanoseconds; nothing here
overflows a BIGINT column, whatever the epoch. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Layout, QueueSpec

DELAY_MAX_NS = 100 * 365 * 86400 * NS_PER_SECOND
"""A century: now + this stays under 2^63 until the year 2162, and nobody can tell it from for ever."""

_NS_PER_US = 1000
# From 2/3 to 4/3, in parts of 1024. Ten years in microseconds, doubled past the bound, times this, are below 2^63.
_JITTER_LEAST, _JITTER_SPREAD, _JITTER_BITS = 683, 683, 10

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


def failure_delay_sql(queue: QueueSpec) -> str:
    """The delay of a NACK as SQL on the row's `id` and `epoch`, which is 1 at least: in ns, whole microseconds.

    The jitter comes from id and epoch, not from RAND(), whose statements are unsafe for replication by statement. Only
    functions that a limited account may use (proxy.rights.statements).
    """
    options = queue.options
    if options.backoff:
        delay = _step_sql([step_ns // _NS_PER_US for step_ns in options.backoff])
    elif queue.layout is Layout.LEGACY:
        delay = _doubled_sql(options.ack_wait_ns // _NS_PER_US, DELAY_MAX_NS // _NS_PER_US, jitter=False)
    else:
        least_us, most_us = options.effective_min_backoff_ns // _NS_PER_US, options.max_backoff_ns // _NS_PER_US
        delay = _doubled_sql(least_us, most_us, jitter=True)
    return f"{delay} * {_NS_PER_US}"


def failure_delay_least_ns(queue: QueueSpec, epoch: int) -> int:
    """What `failure_delay_sql` comes to at least, after the delivery that made the epoch this."""
    options = queue.options
    if options.backoff:
        delay_ns = options.backoff[min(max(epoch, 1), len(options.backoff)) - 1]
    elif queue.layout is Layout.LEGACY:
        delay_ns = min(options.ack_wait_ns, DELAY_MAX_NS)
    else:
        delay_ns = options.effective_min_backoff_ns
    return delay_ns - delay_ns % _NS_PER_US


def _step_sql(steps_us: Sequence[int]) -> str:
    *first, last = steps_us
    cases = "".join(f"IF(epoch = {epoch}, {step_us}, " for epoch, step_us in enumerate(first, 1))
    return f"{cases}{last}{')' * len(first)}"


def _doubled_sql(least_us: int, most_us: int, *, jitter: bool) -> str:
    """`least_us` doubled with each delivery after the first, in these bounds; the minimum wins if they are crossed."""
    if not 0 < least_us < most_us:
        return f"{least_us}"
    doublings = 0
    while (least_us << doublings) * _JITTER_LEAST < most_us << _JITTER_BITS:
        doublings += 1
    delay = f"({least_us} << LEAST(epoch - 1, {doublings}))"
    if jitter:
        spread = f"{_JITTER_LEAST} + MOD(CRC32(CONCAT(id, ':', epoch)), {_JITTER_SPREAD})"
        delay = f"({delay} * ({spread}) >> {_JITTER_BITS})"
    return f"GREATEST({least_us}, LEAST({most_us}, {delay}))"


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

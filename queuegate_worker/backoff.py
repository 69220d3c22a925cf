"""How long to wait before a connection is tried again. The random source is injected."""

from __future__ import annotations

import random
from collections.abc import Callable

_FIRST_SECONDS = 0.1
_MOST_SECONDS = 30.0  # as long as a load balancer or a failover takes; a proxy that is back is reached within it
_DRAIN_SECONDS = 30.0  # a job of cron comes again anyway


class Backoff:
    """Doubling pauses with full jitter: many workers that lost one proxy do not all reconnect at once. `drain`: of a
    worker that ends when nothing is due, and does not wait for ever for what does not answer."""

    def __init__(self, chance: Callable[[], float] = random.random, *, drain: bool = False) -> None:
        self._chance, self._drain = chance, drain
        self._failures, self._waited = 0, 0.0

    def next_seconds(self) -> float:
        """The pause after one more failure: between half of the step and all of it."""
        step = min(_MOST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self._failures, 30))
        self._failures += 1
        seconds = step * (0.5 + 0.5 * self._chance())
        self._waited += seconds
        return seconds

    @property
    def over(self) -> bool:
        """Whether the last pause is one too many."""
        return self._drain and self._waited > _DRAIN_SECONDS

    def succeeded(self) -> None:
        """The next failure counts as the first one again."""
        self._failures, self._waited = 0, 0.0

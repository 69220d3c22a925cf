"""ClaimPause: active while a queue's limits allow no claim, so that no useless claims are made. Pure but for the clock.

Begun because of max_rate, it ends when the next delivery is allowed. Begun because all slots of max_concurrency are
taken, it ends when one of them may be free: at once when a settlement is reported, else when the first lease ends, and
at the latest after a second, for settlements that were not reported. The table decides; a pause that ends too early
costs one claim.
"""

from __future__ import annotations

from engine.clock import Clock
from engine.model.option_values import NS_PER_SECOND
from engine.store.base import LimitWait

SLOTS_SECONDS = 1.0
"""How soon a slot is used that was freed around the proxy."""

COMMIT_SECONDS = 0.02
"""How soon a slot is used that a commit may have freed (NACK). Most commits only add messages, and free none."""


_SECONDS_MIN = 0.001  # a claim takes as long; rates above a thousand a second have bursts to make up for it


class ClaimPause:
    """See the module; one for each queue. Times are monotonic seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends_at: float | None = None
        self._began_at = 0.0
        self._for_concurrency = False

    def begin(self, limit_wait: LimitWait) -> None:
        """The limits deferred messages of a claim."""
        self._began_at = self._clock.monotonic()
        wait = max(limit_wait.wait_ns / NS_PER_SECOND, _SECONDS_MIN)
        self._for_concurrency = limit_wait.for_concurrency
        self._ends_at = self._began_at + (min(wait, SLOTS_SECONDS) if limit_wait.for_concurrency else wait)

    @property
    def ends_at(self) -> float | None:
        """When it ends; None: it is not active."""
        if self._ends_at is not None and self._ends_at <= self._clock.monotonic():
            self._ends_at = None
        return self._ends_at

    @property
    def rate_limited_seconds(self) -> float:
        """For how long the rate still allows no delivery."""
        ends_at = self.ends_at
        return 0.0 if ends_at is None or self._for_concurrency else ends_at - self._clock.monotonic()

    @property
    def active(self) -> bool:
        """Whether nothing may be claimed now."""
        return self.ends_at is not None

    def on_slot_freed(self) -> None:
        """A slot was freed: by an ack, or a released lease."""
        if self._for_concurrency:
            self._ends_at = None

    def maybe_slot_freed(self) -> None:
        """A commit changed messages, perhaps of those in flight."""
        if self._for_concurrency and self._ends_at is not None:
            self._ends_at = min(self._ends_at, self._began_at + COMMIT_SECONDS)

    def clear(self) -> None:
        """The limits changed."""
        self._ends_at = None

"""ClaimPause: on while a queue's limits let nothing be claimed, so that nobody asks in vain. Pure but for the clock.

Begun by a rate, it ends when the next delivery is allowed. Begun because all places are taken, it ends when one of them
may be free: at once when a settlement is heard of, else when the first lease ends, and at the latest after a second,
for settlements that nobody reported. The table decides; a pause that ends too early costs one claim.
"""

from __future__ import annotations

from engine.clock import Clock
from engine.model.option_values import NS_PER_SECOND
from engine.store.base import Hold

PLACES_SECONDS = 1.0
"""How soon a place that was freed around the proxy is used."""

COMMIT_SECONDS = 0.02
"""How soon one is used that a commit may have freed (NACK). Most commits only add messages, and free none."""


_SECONDS_MIN = 0.001  # a claim takes as long; rates above a thousand a second have bursts to make up for it


class ClaimPause:
    """See the module; one for each queue. Times are monotonic seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends_at: float | None = None
        self._began_at = 0.0
        self._for_places = False

    def begin(self, hold: Hold) -> None:
        """A claim was held back."""
        self._began_at = self._clock.monotonic()
        wait = max(hold.wait_ns / NS_PER_SECOND, _SECONDS_MIN)
        self._for_places = hold.for_places
        self._ends_at = self._began_at + (min(wait, PLACES_SECONDS) if hold.for_places else wait)

    @property
    def ends_at(self) -> float | None:
        """When it ends; None: nothing is paused."""
        if self._ends_at is not None and self._ends_at <= self._clock.monotonic():
            self._ends_at = None
        return self._ends_at

    @property
    def held_back_seconds(self) -> float:
        """For how long the rate still lets nothing go."""
        ends_at = self.ends_at
        return 0.0 if ends_at is None or self._for_places else ends_at - self._clock.monotonic()

    @property
    def active(self) -> bool:
        """Whether nothing may be claimed now."""
        return self.ends_at is not None

    def freed(self) -> None:
        """A place was freed: by an ack, or a lease given back."""
        if self._for_places:
            self._ends_at = None

    def perhaps_freed(self) -> None:
        """A commit changed messages, perhaps of those in flight."""
        if self._for_places and self._ends_at is not None:
            self._ends_at = min(self._ends_at, self._began_at + COMMIT_SECONDS)

    def clear(self) -> None:
        """The limits changed."""
        self._ends_at = None

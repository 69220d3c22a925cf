"""ClaimPause: on while a queue's limits let nothing be claimed, so that nobody asks in vain. Pure but for the clock.

Shut by a rate, it opens when the next delivery is allowed. Shut because all places are taken, it opens when one of them
may be free: at once when a settlement is heard of, else when the first lease ends, and at the latest after a second,
for settlements that nobody told us of. The table decides; a gate that opens too early costs one claim.
"""

from __future__ import annotations

from engine.clock import Clock
from engine.model.options import NS_PER_SECOND
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
        self._opens_at: float | None = None
        self._shut_at = 0.0
        self._for_places = False

    def shut(self, hold: Hold) -> None:
        """A claim was held back."""
        self._shut_at = self._clock.monotonic()
        wait = max(hold.wait_ns / NS_PER_SECOND, _SECONDS_MIN)
        self._for_places = hold.for_places
        self._opens_at = self._shut_at + (min(wait, PLACES_SECONDS) if hold.for_places else wait)

    @property
    def opens_at(self) -> float | None:
        """When it opens; None: it is open."""
        if self._opens_at is not None and self._opens_at <= self._clock.monotonic():
            self._opens_at = None
        return self._opens_at

    @property
    def held_back_seconds(self) -> float:
        """For how long the rate still lets nothing go."""
        opens_at = self.opens_at
        return 0.0 if opens_at is None or self._for_places else opens_at - self._clock.monotonic()

    @property
    def is_shut(self) -> bool:
        return self.opens_at is not None

    def freed(self) -> None:
        """A place was freed: by an ack, or a lease given back."""
        if self._for_places:
            self._opens_at = None

    def perhaps_freed(self) -> None:
        """A commit changed messages, perhaps of those in flight."""
        if self._for_places and self._opens_at is not None:
            self._opens_at = min(self._opens_at, self._shut_at + COMMIT_SECONDS)

    def clear(self) -> None:
        """The limits changed."""
        self._opens_at = None

"""What goes wrong between a process and the database, drawn from the seed: by rates that a scenario sets.

A call has three moments: the request is on its way, the database does it, the reply is on its way. So it may be late in
two places, fail before it was done, be done and never be answered, or be refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random

from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout

STUCK_SECONDS_MAX = 20.0  # a request or a reply that is stuck on its way
REFUSE_SECONDS = 0.002  # how soon a client hears that nobody listens


class Trouble(Enum):
    """What happens to a call. LOST: its request, or the connection before the commit. FORGOTTEN: its reply."""

    NONE = "none"
    LOST = "lost"
    BROKEN = "broken before its commit"
    FORGOTTEN = "forgotten"
    LOCKED = "lock wait timeout"
    DEADLOCK = "deadlock"
    READ_ONLY = "read only"


@dataclass(frozen=True, slots=True)
class Fate:
    """Of one call. Seconds until the database does it, and until the answer is there."""

    trouble: Trouble
    request: float
    reply: float

    @property
    def error(self) -> BackendError | None:
        """What the caller is told."""
        match self.trouble:
            case Trouble.NONE:
                return None
            case Trouble.LOCKED:
                return LockWaitTimeout()
            case Trouble.DEADLOCK:
                return BackendError("Deadlock found when trying to get lock; try restarting transaction", 1213, "40001")
            case Trouble.READ_ONLY:
                return BackendError("The server is running with the --read-only option", 1290, "HY000")
            case _:
                return BackendUnavailable(f"the simulated connection is {self.trouble.value}")


RATES = ("slow", "stuck", "lost", "broken", "forgotten", "locked", "deadlock", "read_only")
_TROUBLES = (
    ("lost", Trouble.LOST),
    ("broken", Trouble.BROKEN),
    ("forgotten", Trouble.FORGOTTEN),
    ("locked", Trouble.LOCKED),
    ("deadlock", Trouble.DEADLOCK),
    ("read_only", Trouble.READ_ONLY),
)


class Faults:
    """For the calls of one process. `rates` may be emptied at any time: then nothing goes wrong any more."""

    def __init__(self, random: Random, rates: Mapping[str, float], latency: float) -> None:
        self._random, self._latency = random, latency
        self.rates = rates

    def draw(self) -> Fate:
        """The fate of the next call."""
        random = self._random
        request, reply = random.random() * self._latency, random.random() * self._latency
        trouble = Trouble.NONE
        if self.rates:
            request += self._delay()
            reply += self._delay()
            trouble = self._trouble()
        return Fate(trouble, request, reply)

    def _delay(self) -> float:
        at = self._random.random()
        stuck = self.rates.get("stuck", 0.0)
        if at < stuck:
            return 2.0 + self._random.random() * (STUCK_SECONDS_MAX - 2.0)
        return self._random.random() if at < stuck + self.rates.get("slow", 0.0) else 0.0

    def _trouble(self) -> Trouble:
        at = self._random.random()
        for name, trouble in _TROUBLES:
            at -= self.rates.get(name, 0.0)
            if at < 0:
                return trouble
        return Trouble.NONE

"""Rechecker: asks the table which messages in flight are still unacked, when the engine cannot know it otherwise.

At once when messages were settled by WHERE and a receiver's window is full; else at most once a second, and only when
something may have been settled, or when a full window keeps messages waiting (acks may come around the proxy).
"""

from __future__ import annotations

from engine.clock import Clock
from engine.errors import BackendError
from engine.in_flight import InFlight
from engine.metrics import QueueMetrics
from engine.model import QueueSpec
from engine.store import MessageStore
from engine.subscription import Subscription
from engine.work import DatabaseWork

PERIOD_SECONDS = 1.0
"""How soon acks written around the proxy free a full window."""

_IDS_MAX = 10_000  # ids in one pass: ten questions of a thousand; the rest has its turn a second later
_CHUNK = 1000  # ids in one question, as in a claim


class Rechecker:
    """See the module."""

    def __init__(
        self,
        store: MessageStore,
        work: DatabaseWork,
        clock: Clock,
        in_flight: InFlight[Subscription],
        metrics: QueueMetrics,
    ) -> None:
        self._store, self._work, self._clock = store, work, clock
        self._in_flight, self._metrics = in_flight, metrics
        self._uncertain = False
        self._asked_at = float("-inf")

    def uncertain(self) -> None:
        """Some messages in flight may have been settled."""
        self._uncertain = bool(self._in_flight)

    def next_time(self, *, messages_wait: bool) -> float | None:
        """When to ask; None: not at all."""
        if not self._in_flight:
            return None
        full = (self._uncertain or messages_wait) and self._window_full()
        if self._uncertain and full:
            return self._clock.monotonic()
        return self._asked_at + PERIOD_SECONDS if self._uncertain or full else None

    async def run_once(self, queue: QueueSpec) -> int:
        """Ask; returns how many turn out to be settled. Raises BackendError."""
        self._uncertain = False
        self._asked_at = self._clock.monotonic()
        ids = self._in_flight.ids()[:_IDS_MAX]
        settled = 0
        try:
            for start in range(0, len(ids), _CHUNK):
                chunk = ids[start : start + _CHUNK]
                self._metrics.rechecks += 1
                left = await self._work.run(self._store.unsettled(queue, chunk))
                settled += self._in_flight.settle(set(chunk) - left)
        except BackendError:
            self._uncertain = True
            raise
        self._metrics.settled_seen += settled
        return settled

    def _window_full(self) -> bool:
        return any(holder.window_full for holder in self._in_flight.holders())

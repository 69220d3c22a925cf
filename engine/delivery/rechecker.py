"""Rechecker: reads the leases of messages in flight from the table, when the engine cannot know them otherwise.

Four reasons, each with its own delay:
- a commit perhaps gave up leases of certain messages (`request`): those at once, no others;
- a commit renewed leases of certain messages: those when the first lease in flight seems to run out, so that many
  renewals cost one query;
- messages were settled by WHERE: all at once if a receiver's window is full or a lease is about to run out that may
  have been renewed, else at most once a second;
- messages wait because a window is full: at most once a second (there may be acks around the proxy).

A commit that is known to have postponed certain messages needs no query (`postponed`), unless a lease may be one that
was made after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.delivery.context import QueueContext
from engine.delivery.in_flight import InFlight
from engine.delivery.poller import POLL_SECONDS_MAX
from engine.delivery.subscription import Subscription
from engine.model.backoff import failure_delay_least_ns
from engine.model.commit_report import Postponement
from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, QueueSpec
from engine.model.trace_event import ENDED, RETURNED
from engine.store.base import RENEWED, Release

PERIOD_SECONDS = 1.0
"""How soon acks written around the proxy free a full window."""

_IDS_MAX = 10_000  # ids in one pass: ten queries of a thousand; those beyond it have their turn a second later
_SETTLED_MAX = 1000  # messages that were renewed and settled since: stored until there are more
_CHUNK = 1000  # ids in one query, as in a claim


class Rechecker:
    """See the module."""

    def __init__(self, context: QueueContext, in_flight: InFlight[Subscription]) -> None:
        self._store, self._work, self._clock = context.engine.store, context.work, context.engine.clock
        self._in_flight, self._metrics, self._trace = in_flight, context.metrics, context.trace
        self._uncertain = False
        self._unchecked: list[MessageId] = []  # those that the pass before had no room for
        self._requested: dict[MessageId, bool] = {}  # whether its lease was only renewed
        self._immediate = False
        self._in_progress: Mapping[MessageId, bool] = {}
        self._checked_at = float("-inf")

    def uncertain(self) -> None:
        """Some messages in flight may have been settled."""
        self._uncertain = bool(self._in_flight)

    def request(self, ids: Iterable[MessageId], *, renewed: bool, at_once: bool) -> None:
        """The leases of these messages in flight were renewed, or else perhaps given up."""
        for id_ in ids:
            self._requested[id_] = renewed and self._requested.get(id_, True)
            self._immediate = self._immediate or at_once
        if len(self._requested) > 2 * len(self._in_flight) + _SETTLED_MAX:
            self._requested = {id_: only for id_, only in self._requested.items() if id_ in self._in_flight}

    def postponed(self, queue: QueueSpec, ids: Sequence[MessageId], reported: Postponement) -> float | None:
        """A commit postponed all these messages, which ended their leases; returns when the first of them falls due at
        the earliest, on the monotonic clock. None, and nothing is done, where that cannot be known."""
        leases = [self._in_flight.lease(id_) for id_ in ids]
        epochs = [lease.release.epoch for lease in leases if lease is not None and lease.since < reported.sent_at]
        if len(epochs) < len(ids):
            return None
        delay_ns = reported.delay_ns or min(failure_delay_least_ns(queue, epoch) for epoch in epochs)
        if not delay_ns:
            return None
        self._in_flight.settle(ids)
        for id_ in ids:
            self._requested.pop(id_, None)
        return min(self._clock.monotonic(), reported.sent_at + POLL_SECONDS_MAX) + delay_ns / NS_PER_SECOND

    def drop_holder(self, holder: Subscription) -> list[Release]:
        """Remove a receiver; returns its leases, to be released or left to run out. Of those that were renewed, and not
        yet checked, the end is not known."""
        reported = {**self._in_progress, **self._requested}
        renewed = {id_ for id_, only_renewed in reported.items() if only_renewed}
        leases = self._in_flight.drop_holder(holder)
        return [lease._replace(lease_until_ns=RENEWED) if lease.id in renewed else lease for lease in leases]

    def next_time(self, *, messages_wait: bool, alone: bool = False) -> float | None:
        """When to check; None: not at all. `alone`: messages wait for a receiver that has none."""
        if not self._in_flight:
            return None
        full = alone or ((self._uncertain or messages_wait) and self._window_full())
        if self._immediate or (self._uncertain and full):
            return self._clock.monotonic()
        uncertain = self._uncertain or bool(self._unchecked)
        patient = self._checked_at + PERIOD_SECONDS if uncertain or full else None
        running_out = self._in_flight.next_deadline() if uncertain or self._requested else None
        return min((time for time in (patient, running_out) if time is not None), default=None)

    async def run_once(self, queue: QueueSpec) -> int:
        """Check; returns how many messages are settled or wait again. Raises BackendError."""
        reported, self._requested = self._requested, {}
        if self._immediate or (reported and not self._uncertain and self._running_out()):
            ids = [id_ for id_ in reported if id_ in self._in_flight]
        else:
            ids = self._next_ids()
            later = set(self._unchecked)
            self._requested = {id_: only for id_, only in reported.items() if id_ in later}
        self._immediate = False
        self._in_progress = reported
        try:
            return await self._check(queue, ids, reported)
        except BackendError:
            self._uncertain, self._requested = True, {**reported, **self._requested}
            raise
        finally:
            self._in_progress = {}

    def _next_ids(self) -> list[MessageId]:
        """Which to check of all in flight, each in its turn: those first that have waited for it."""
        ids = [id_ for id_ in self._unchecked if id_ in self._in_flight]
        if self._uncertain or not ids:
            ids = list(dict.fromkeys([*ids, *self._in_flight.ids()]))
        self._uncertain, self._checked_at = False, self._clock.monotonic()
        self._unchecked = ids[_IDS_MAX:]
        return ids[:_IDS_MAX]

    async def _check(self, queue: QueueSpec, ids: Sequence[MessageId], reported: Mapping[MessageId, bool]) -> int:
        count = 0
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            self._metrics.rechecks += 1
            lease_states = await self._work.run(self._store.unsettled(queue, chunk))
            settled, returned = self._in_flight.compare(chunk, lease_states, reported)
            self._trace.note(ENDED, [id_ for id_ in settled if id_ not in reported])
            self._trace.note(RETURNED, [id_ for id_ in returned if id_ not in reported])
            self._metrics.settled_seen += len(settled)
            count += len(settled) + len(returned)
        return count

    def _running_out(self) -> bool:
        deadline = self._in_flight.next_deadline()
        return deadline is not None and deadline <= self._clock.monotonic()

    def _window_full(self) -> bool:
        return any(holder.window_full for holder in self._in_flight.holders())

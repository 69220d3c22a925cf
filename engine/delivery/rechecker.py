"""Rechecker: asks the table how messages in flight stand, when the engine cannot know it otherwise.

Four reasons, each with its own patience:
- a commit perhaps gave up leases of certain messages (`ask`): those at once, no others;
- a commit renewed leases of certain messages: those when the first lease in flight seems to run out, so that many
  renewals cost one question;
- messages were settled by WHERE: all at once if a receiver's window is full or a lease is about to run out that may
  have been renewed, else at most once a second;
- a full window keeps messages waiting: at most once a second (acks may come around the proxy).

A commit that is known to have put off certain messages needs no question (`put_off`), unless a lease may be one that
was made after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.delivery.context import WorkContext
from engine.delivery.in_flight import InFlight
from engine.delivery.poller import LOOK_SECONDS_MAX
from engine.delivery.subscription import Subscription
from engine.model.backoff import failure_delay_least_ns
from engine.model.commit_report import PutOff
from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, QueueSpec
from engine.model.traced import ENDED, RETURNED
from engine.store.base import RENEWED, Release

PERIOD_SECONDS = 1.0
"""How soon acks written around the proxy free a full window."""

_IDS_MAX = 10_000  # ids in one pass: ten questions of a thousand; the rest has its turn a second later
_SETTLED_MAX = 1000  # that have been renewed and settled since: kept until there are more
_CHUNK = 1000  # ids in one question, as in a claim


class Rechecker:
    """See the module."""

    def __init__(self, context: WorkContext, in_flight: InFlight[Subscription]) -> None:
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._in_flight, self._metrics, self._trace = in_flight, context.metrics, context.trace
        self._uncertain = False
        self._wanted: dict[MessageId, bool] = {}  # whether its lease was only renewed
        self._at_once = False
        self._being_asked: Mapping[MessageId, bool] = {}
        self._asked_at = float("-inf")

    def uncertain(self) -> None:
        """Some messages in flight may have been settled."""
        self._uncertain = bool(self._in_flight)

    def ask(self, ids: Iterable[MessageId], *, renewed: bool) -> None:
        """The leases of these messages in flight were renewed, or else perhaps given up."""
        for id_ in ids:
            self._wanted[id_] = renewed and self._wanted.get(id_, True)
            self._at_once = self._at_once or not renewed
        if len(self._wanted) > 2 * len(self._in_flight) + _SETTLED_MAX:
            self._wanted = {id_: alone for id_, alone in self._wanted.items() if id_ in self._in_flight}

    def put_off(self, queue: QueueSpec, ids: Sequence[MessageId], told: PutOff) -> float | None:
        """A commit put off all these messages, which ended their leases; returns when the first of them falls due at
        the earliest, on the monotonic clock. None, and nothing is done, where that cannot be told."""
        leases = [self._in_flight.lease(id_) for id_ in ids]
        epochs = [lease.release.epoch for lease in leases if lease is not None and lease.since < told.sent_at]
        if len(epochs) < len(ids):
            return None
        delay_ns = told.delay_ns or min(failure_delay_least_ns(queue, epoch) for epoch in epochs)
        if not delay_ns:
            return None
        self._in_flight.settle(ids)
        for id_ in ids:
            self._wanted.pop(id_, None)
        return min(self._clock.monotonic(), told.sent_at + LOOK_SECONDS_MAX) + delay_ns / NS_PER_SECOND

    def drop_holder(self, holder: Subscription) -> list[Release]:
        """Forget a receiver; its leases, to be given back or left to run out. Of those that were renewed, and are not
        told of yet, the end is not known."""
        told = {**self._being_asked, **self._wanted}
        renewed = {id_ for id_, alone in told.items() if alone}
        leases = self._in_flight.drop_holder(holder)
        return [lease._replace(lease_until_ns=RENEWED) if lease.id in renewed else lease for lease in leases]

    def next_time(self, *, messages_wait: bool, alone: bool = False) -> float | None:
        """When to ask; None: not at all. `alone`: messages wait for a receiver that holds nothing."""
        if not self._in_flight:
            return None
        full = alone or ((self._uncertain or messages_wait) and self._window_full())
        if self._at_once or (self._uncertain and full):
            return self._clock.monotonic()
        patient = self._asked_at + PERIOD_SECONDS if self._uncertain or full else None
        running_out = self._in_flight.next_deadline() if self._uncertain or self._wanted else None
        return min((time for time in (patient, running_out) if time is not None), default=None)

    async def run_once(self, queue: QueueSpec) -> int:
        """Ask; returns how many turn out to be settled or to wait again. Raises BackendError."""
        told, self._wanted = self._wanted, {}
        if self._at_once or (told and not self._uncertain and self._running_out()):
            wanted = [id_ for id_ in told if id_ in self._in_flight]
        else:
            self._uncertain = False
            self._asked_at = self._clock.monotonic()
            wanted = self._in_flight.ids()[:_IDS_MAX]
            if len(wanted) == _IDS_MAX:  # what is beyond it stays told of
                asked = set(wanted)
                self._wanted = {id_: alone for id_, alone in told.items() if id_ not in asked}
        self._at_once = False
        self._being_asked = told
        try:
            return await self._ask(queue, wanted, told)
        except BackendError:
            self._uncertain, self._wanted = True, {**told, **self._wanted}
            raise
        finally:
            self._being_asked = {}

    async def _ask(self, queue: QueueSpec, ids: Sequence[MessageId], told: Mapping[MessageId, bool]) -> int:
        count = 0
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            self._metrics.rechecks += 1
            found = await self._work.run(self._store.unsettled(queue, chunk))
            settled, returned = self._in_flight.compare(chunk, found, told)
            self._trace.note(ENDED, [id_ for id_ in settled if id_ not in told])
            self._trace.note(RETURNED, [id_ for id_ in returned if id_ not in told])
            self._metrics.settled_seen += len(settled)
            count += len(settled) + len(returned)
        return count

    def _running_out(self) -> bool:
        deadline = self._in_flight.next_deadline()
        return deadline is not None and deadline <= self._clock.monotonic()

    def _window_full(self) -> bool:
        return any(holder.window_full for holder in self._in_flight.holders())

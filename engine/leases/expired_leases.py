"""ExpiredLeases: leases of results that have ended, which belong to no open stream, until they are settled or run out.
No await.

Only the history, the record of failed attempts and the counter `expired` need them. That a lease has run out is
detected in one of two cases: the message is leased again here, and had fallen due by that lease's end; or, after its
end, the table is read (engine.background.alarm_watch). What a client of this proxy or of its neighbours acked, or gave
up, is removed at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from engine.clock import DatabaseTime
from engine.model.lease_token import NO_TOKEN
from engine.model.queue import Message, MessageId, QueueName, ReceiverIdentity, SubscribeRequest, SubscriptionStatus
from engine.model.states import is_lease_end
from engine.model.trace_event import LEASE_ENDED
from engine.store.base import UNKNOWN_STATE, LeaseState, Release, same_delivery
from engine.store.last_receivers import LastReceivers, may_match
from engine.traces import QueueTrace

WATCHED_MAX = 10_000
"""Messages of a queue that are watched; further ones are not. 3 MB."""

QUERIED_MAX = 1000
"""Messages in one query of the table, as in a claim."""


_WatchedLease = tuple[Release, SubscribeRequest]
"""A lease, and its receiver. A plain tuple: one is made for each message of a bounded result."""


class ExpiredLeases:
    """See the module. For one queue. A result is one entry of the heap, for it may have many messages. `count`: called
    for each lease that has run out."""

    def __init__(
        self, queue: QueueName, time: DatabaseTime, trace: QueueTrace, last: LastReceivers, count: Callable[[], None]
    ) -> None:
        self._queue, self._time, self._trace, self._last, self._count = queue, time, trace, last, count
        last.watch(queue, self._holder)
        self._watched: dict[MessageId, _WatchedLease] = {}
        self._ends: list[tuple[int, int, tuple[MessageId, ...]]] = []  # when the first of these may have run out
        self._order = 0  # ties in the heap must never compare ids of two types
        self._in_heap = 0  # ids in all entries, settled ones and repeated ones included

    def __len__(self) -> int:
        return len(self._watched)

    def close(self) -> None:
        """The manager of the queue has ended."""
        self._last.unwatch(self._queue, self._holder)

    def holder(self, id_: MessageId) -> SubscriptionStatus | None:
        """The receiver of that message, if it is watched."""
        watched = self._watched.get(id_)
        return None if watched is None else _closed_status(self._queue, watched[1])

    def _holder(self, id_: MessageId, epoch: int, token: int) -> ReceiverIdentity | None:
        """The receiver of that delivery of a message, if it is watched. Called in threads, too."""
        watched = self._watched.get(id_)
        if watched is None or not may_match(watched[0].epoch, watched[0].token, epoch, token):
            return None
        return watched[1].receiver

    def on_expired(self, lease: Release, receiver: ReceiverIdentity, *, alongside: bool = False) -> None:
        """The lease of an open stream has run out; `alongside`: its receiver had other messages at the same time."""
        self._trace.note(LEASE_ENDED, (lease.id,), receiver)
        name = lease.token or lease.lease_until_ns
        self._record(lease, receiver, alongside=name if alongside else None)

    def _record(self, lease: Release, receiver: ReceiverIdentity, alongside: int | None = None) -> None:
        self._count()
        self._last.record(self._queue, lease.id, lease.epoch, receiver, token=lease.token, alongside=alongside)

    def result_closed(self, leases: Iterable[Release], request: SubscribeRequest) -> None:
        """A result has ended, and these leases of it last on."""
        if self._trace.enabled:
            room = max(0, WATCHED_MAX - len(self._watched))
            self._add({lease.id: (lease, request) for lease in islice(leases, room)})

    def _add(self, some: Mapping[MessageId, _WatchedLease]) -> None:
        self._watched.update(some)
        self._push(tuple(some))
        if self._in_heap > 2 * WATCHED_MAX:
            entries, self._ends, self._in_heap = self._ends, [], 0
            still_watched = dict.fromkeys(id_ for _, _, ids in entries for id_ in ids if id_ in self._watched)
            self._push(tuple(still_watched))

    def _push(self, ids: tuple[MessageId, ...]) -> None:
        """These are watched. They are checked when the first of their leases has ended."""
        if ids:
            self._order += 1
            self._in_heap += len(ids)
            first = min([self._watched[id_][0].lease_until_ns for id_ in ids])
            heapq.heappush(self._ends, (first, self._order, ids))

    def forget(self, ids: Iterable[MessageId | None]) -> None:
        """These were settled, or their leases released."""
        if self._watched:
            for id_ in ids:
                if id_ is not None:
                    self._watched.pop(id_, None)

    def leased(self, messages: Iterable[Message]) -> None:
        """These are leased again. A lease had run out if the message fell due exactly at its end. The epoch does not
        show it, because it does not change after a delivery that did not count."""
        for message in messages if self._watched else ():
            watched = self._watched.pop(message.id, None)
            if watched is not None and message.due_ns == watched[0].lease_until_ns:
                self._expire(message.id, watched)

    def _expire(self, id_: MessageId, watched: _WatchedLease, *, sure: bool = True) -> None:
        lease, receiver = watched[0], watched[1].receiver
        self._trace.note(LEASE_ENDED, (id_,), receiver, sure=sure, at_ns=lease.lease_until_ns or None)
        self._record(lease, receiver)

    def due(self) -> list[MessageId]:
        """Those whose lease has ended: the table is to be queried about them."""
        due: list[MessageId] = []
        while self._ends and len(due) < QUERIED_MAX and self._time.is_past(self._ends[0][0]):
            _, _, ids = heapq.heappop(self._ends)
            self._in_heap -= len(ids)
            later: list[MessageId] = []
            for id_ in dict.fromkeys(ids):
                if (watched := self._watched.get(id_)) is None:
                    continue
                ended = len(due) < QUERIED_MAX and self._time.is_past(watched[0].lease_until_ns)
                (due if ended else later).append(id_)
            self._push(tuple(later))
        return due

    def apply(self, queried_ids: Iterable[MessageId], lease_states: Mapping[MessageId, LeaseState]) -> None:
        """Apply the leases as read from the table. Renewed ones go on. One whose message was leased again, to a
        receiver of which nothing was reported here, has perhaps run out."""
        unknown = {id_ for id_, state in lease_states.items() if state is UNKNOWN_STATE}
        self.requeue(unknown)
        for id_ in queried_ids:
            if id_ in unknown:
                continue
            watched, state = self._watched.pop(id_, None), lease_states.get(id_)
            if watched is None or state is None:
                continue
            (lease, request), until_ns = watched, state.time_next_ns
            if state.epoch > lease.epoch or _is_another_lease(lease, state):
                self._expire(id_, watched, sure=False)
            elif same_delivery(lease, state) and until_ns == lease.lease_until_ns:
                self._expire(id_, watched)
            elif same_delivery(lease, state) and until_ns is not None and is_lease_end(until_ns):
                self._add({id_: (lease._replace(lease_until_ns=until_ns), request)})

    def requeue(self, queried_ids: Iterable[MessageId]) -> None:
        """The query failed: query these again."""
        self._push(tuple(id_ for id_ in queried_ids if id_ in self._watched))


def _is_another_lease(lease: Release, state: LeaseState) -> bool:
    """Whether a row is leased by another token: that lease has ended, and did not count if the epoch is the same."""
    until_ns = state.time_next_ns
    return state.token > lease.token > NO_TOKEN and until_ns is not None and is_lease_end(until_ns)


def _closed_status(queue: QueueName, request: SubscribeRequest) -> SubscriptionStatus:
    """The receiver of a result that has ended, in the form of an open stream's status."""
    return SubscriptionStatus(
        queue,
        request.receiver,
        filter="",
        mode=request.wait_mode.value,
        prefetch=0,
        unacked=0,
        sent=0,
        waiting=False,
        window_full=False,
        since_ns=0,
    )

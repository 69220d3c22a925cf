"""Lapses: leases of results that have ended, which no open stream holds, until they are settled or run out. No await.

Nothing but the history, and what is kept of failed attempts, needs them. A lease is seen to have run out in one of two
ways: the message is leased again here, and had fallen due by that lease's end; or, its time over, the table is asked
(engine.duties.alarm_watch). What was acked, or given up, by a client of this proxy or of its neighbours is forgotten at
once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import islice

from engine.clock import DatabaseTime
from engine.model.lease_token import NO_TOKEN
from engine.model.queue import Message, MessageId, QueueName, SubscribeRequest, SubscriptionStatus
from engine.model.states import is_lease_end
from engine.model.traced import LEASE_ENDED
from engine.store.base import LeaseStanding, Release, same_delivery
from engine.store.last_receivers import LastReceivers, may_be
from engine.traces import QueueTrace

LAPSES_MAX = 10_000
"""Messages of a queue that are watched; what is left beyond that is not. 3 MB."""

ASKED_MAX = 1000
"""Messages that the table is asked about at once, as in a claim."""


_Left = tuple[Release, SubscribeRequest]
"""A lease, and who had it. A plain tuple: one is made for each message of a bounded result."""


class Lapses:
    """See the module. For one queue. A result is one entry of the heap, for it may have many messages."""

    def __init__(self, queue: QueueName, time: DatabaseTime, trace: QueueTrace, last: LastReceivers) -> None:
        self._queue, self._time, self._trace, self._last = queue, time, trace, last
        last.watch(queue, self._holder)
        self._left: dict[MessageId, _Left] = {}
        self._ends: list[tuple[int, int, tuple[MessageId, ...]]] = []  # when the first of these may have run out
        self._order = 0  # ties in the heap must never compare ids of two types
        self._in_heap = 0  # ids in all entries, settled ones and repeated ones included

    def __len__(self) -> int:
        return len(self._left)

    def close(self) -> None:
        """Nobody asks this one any more."""
        self._last.unwatch(self._queue, self._holder)

    def holder(self, id_: MessageId) -> SubscriptionStatus | None:
        """Who holds that message; of one that is watched."""
        left = self._left.get(id_)
        return None if left is None else _ended(self._queue, left[1])

    def _holder(self, id_: MessageId, epoch: int, token: int) -> SubscribeRequest | None:
        """Who has, or had, that delivery of a message. Called in threads, too."""
        left = self._left.get(id_)
        return left[1] if left is not None and may_be(left[0].epoch, left[0].token, epoch, token) else None

    def ran_out(self, lease: Release, receiver: SubscribeRequest, *, beside: bool = False) -> None:
        """The lease of an open stream has run out; `beside`: its receiver held other messages besides."""
        self._trace.note(LEASE_ENDED, (lease.id,), receiver)
        name = lease.token or lease.lease_until_ns
        self._had(lease, receiver, beside=name if beside else None)

    def _had(self, lease: Release, receiver: SubscribeRequest, beside: int | None = None) -> None:
        self._last.had(self._queue, lease.id, lease.epoch, receiver, token=lease.token, beside=beside)

    def left(self, leases: Iterable[Release], receiver: SubscribeRequest) -> None:
        """A result has ended, and these leases of it stand."""
        if self._trace.wanted:
            room = max(0, LAPSES_MAX - len(self._left))
            self._watch({lease.id: (lease, receiver) for lease in islice(leases, room)})

    def _watch(self, some: Mapping[MessageId, _Left]) -> None:
        self._left.update(some)
        self._push(tuple(some))
        if self._in_heap > 2 * LAPSES_MAX:
            entries, self._ends, self._in_heap = self._ends, [], 0
            standing = dict.fromkeys(id_ for _, _, ids in entries for id_ in ids if id_ in self._left)
            self._push(tuple(standing))

    def _push(self, ids: tuple[MessageId, ...]) -> None:
        """These are watched. They are looked at when the first of them is over."""
        if ids:
            self._order += 1
            self._in_heap += len(ids)
            first = min([self._left[id_][0].lease_until_ns for id_ in ids])
            heapq.heappush(self._ends, (first, self._order, ids))

    def forget(self, ids: Iterable[MessageId | None]) -> None:
        """These were settled, or their leases given up."""
        if self._left:
            for id_ in ids:
                if id_ is not None:
                    self._left.pop(id_, None)

    def leased(self, messages: Iterable[Message]) -> None:
        """These are leased again. Those whose time was over had run out: they fell due at their lease's very end. The
        epoch says nothing of it, for it stays where a delivery did not count."""
        for message in messages if self._left else ():
            left = self._left.pop(message.id, None)
            if left is not None and message.due_ns == left[0].lease_until_ns:
                self._ran_out(message.id, left)

    def _ran_out(self, id_: MessageId, left: _Left, *, sure: bool = True) -> None:
        self._trace.note(LEASE_ENDED, (id_,), left[1], sure=sure, at_ns=left[0].lease_until_ns or None)
        self._had(*left)

    def due(self) -> list[MessageId]:
        """Of which the time is over: the table is to be asked."""
        due: list[MessageId] = []
        while self._ends and len(due) < ASKED_MAX and self._time.is_past(self._ends[0][0]):
            _, _, ids = heapq.heappop(self._ends)
            self._in_heap -= len(ids)
            later: list[MessageId] = []
            for id_ in dict.fromkeys(ids):
                if (left := self._left.get(id_)) is None:
                    continue
                over = len(due) < ASKED_MAX and self._time.is_past(left[0].lease_until_ns)
                (due if over else later).append(id_)
            self._push(tuple(later))
        return due

    def told(self, asked: Iterable[MessageId], found: Mapping[MessageId, LeaseStanding]) -> None:
        """Take in how the table says that these stand. What was renewed goes on. What was leased again, to somebody
        who did not tell us, has perhaps run out."""
        for id_ in asked:
            left, standing = self._left.pop(id_, None), found.get(id_)
            if left is None or standing is None:
                continue
            (lease, receiver), until_ns = left, standing.time_next_ns
            if standing.epoch > lease.epoch or _is_another_lease(lease, standing):
                self._ran_out(id_, left, sure=False)
            elif same_delivery(lease, standing) and until_ns == lease.lease_until_ns:
                self._ran_out(id_, left)
            elif same_delivery(lease, standing) and until_ns is not None and is_lease_end(until_ns):
                self._watch({id_: (lease._replace(lease_until_ns=until_ns), receiver)})

    def again(self, asked: Iterable[MessageId]) -> None:
        """The table did not answer: ask of these again."""
        self._push(tuple(id_ for id_ in asked if id_ in self._left))


def _is_another_lease(lease: Release, standing: LeaseStanding) -> bool:
    """Whether a row is leased by another token: that lease has ended, and did not count if the epoch is the same."""
    until_ns = standing.time_next_ns
    return standing.token > lease.token > NO_TOKEN and until_ns is not None and is_lease_end(until_ns)


def _ended(queue: QueueName, request: SubscribeRequest) -> SubscriptionStatus:
    """The receiver of a result that has ended, as an open stream is told of."""
    return SubscriptionStatus(
        queue,
        request.connection_id,
        request.user,
        request.host,
        filter="",
        mode=request.wait_mode.value,
        prefetch=0,
        unacked=0,
        sent=0,
        waiting=False,
        window_full=False,
        since_ns=0,
        consumer=request.consumer,
        pid=request.pid,
    )

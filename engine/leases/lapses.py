"""Lapses: leases of results that have ended, which no open stream holds, until they are settled or run out. No await.

Nothing but the history needs them. A lease is seen to have run out in one of two ways: the message is leased again
here, and had fallen due by that lease's end; or, its time over, the table is asked (engine.duties.alarm_watch). What
was acked, or given up, by a client of this proxy or of its neighbours is forgotten at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.clock import DatabaseTime
from engine.model.queue import Message, MessageId, SubscribeRequest
from engine.model.states import is_lease_end
from engine.model.traced import LEASE_ENDED
from engine.store.base import LeaseStanding, Release
from engine.traces import QueueTrace

LAPSES_MAX = 10_000
"""Messages of a queue that are watched; what is left beyond that is not. 3 MB."""

ASKED_MAX = 1000
"""Messages that the table is asked about at once, as in a claim."""


class _Left(NamedTuple):
    epoch: int
    until_ns: int
    receiver: SubscribeRequest


class Lapses:
    """See the module. For one queue."""

    def __init__(self, time: DatabaseTime, trace: QueueTrace) -> None:
        self._time, self._trace = time, trace
        self._left: dict[MessageId, _Left] = {}
        self._ends: list[tuple[int, int, MessageId]] = []
        self._order = 0  # ties in the heap must never compare ids of two types

    def __len__(self) -> int:
        return len(self._left)

    def left(self, leases: Iterable[Release], receiver: SubscribeRequest) -> None:
        """A result has ended, and these leases of it stand."""
        for lease in leases if self._trace.wanted else ():
            self._left.pop(lease.id, None)
            if len(self._left) < LAPSES_MAX:
                self._watch(lease.id, _Left(lease.epoch, lease.lease_until_ns, receiver))

    def _watch(self, id_: MessageId, left: _Left) -> None:
        self._left[id_] = left
        self._order += 1
        heapq.heappush(self._ends, (left.until_ns, self._order, id_))
        if len(self._ends) > 2 * LAPSES_MAX:
            self._ends = [end for end in self._ends if self._stands(end)]
            heapq.heapify(self._ends)

    def _stands(self, end: tuple[int, int, MessageId]) -> bool:
        left = self._left.get(end[2])
        return left is not None and left.until_ns == end[0]

    def forget(self, ids: Iterable[MessageId | None]) -> None:
        """These were settled, or their leases given up."""
        if self._left:
            for id_ in ids:
                if id_ is not None:
                    self._left.pop(id_, None)

    def leased(self, messages: Iterable[Message]) -> None:
        """These are leased again. Those whose time was over had run out."""
        for message in messages if self._left else ():
            left = self._left.pop(message.id, None)
            if left is not None and (message.due_ns, message.epoch) == (left.until_ns, left.epoch + 1):
                self._ran_out(message.id, left)

    def _ran_out(self, id_: MessageId, left: _Left, *, sure: bool = True) -> None:
        self._trace.note(LEASE_ENDED, (id_,), left.receiver, sure=sure, at_ns=left.until_ns)

    def due(self) -> list[MessageId]:
        """Of which the time is over: the table is to be asked."""
        due: list[MessageId] = []
        while self._ends and len(due) < ASKED_MAX and (self._time.is_past(self._ends[0][0])):
            end = heapq.heappop(self._ends)
            if self._stands(end):
                due.append(end[2])
        return due

    def told(self, asked: Iterable[MessageId], found: Mapping[MessageId, LeaseStanding]) -> None:
        """Take in how the table says that these stand. What was renewed goes on. What was leased again, to somebody
        who did not tell us, has perhaps run out."""
        for id_ in asked:
            left, standing = self._left.pop(id_, None), found.get(id_)
            if left is None or standing is None:
                continue
            until_ns = standing.time_next_ns
            if standing.epoch > left.epoch:
                self._ran_out(id_, left, sure=False)
            elif standing.epoch == left.epoch and until_ns == left.until_ns:
                self._ran_out(id_, left)
            elif standing.epoch == left.epoch and until_ns is not None and is_lease_end(until_ns):
                self._watch(id_, left._replace(until_ns=until_ns))

    def again(self, asked: Iterable[MessageId]) -> None:
        """The table did not answer: ask of these again."""
        for id_ in asked:
            if (left := self._left.get(id_)) is not None:
                self._watch(id_, left)

"""InFlight: the leases handed to receivers and not yet settled, by message and by holder. Pure; no await here.

A lease leaves by being settled or given up, by running out, by being claimed anew (the table gave it to another
receiver), or with its holder; it may be renewed. It only bounds how much a receiver may hold and knows what to give
back; the table is the truth.

One receiver may be several holders, the results of one connection. What it holds of all of them together tells whether
it holds a message beside others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Message, MessageId
from engine.model.states import is_lease_end
from engine.store.base import LeaseStanding, Release, release_of, same_delivery

H = TypeVar("H", bound=Hashable)

_STALE_DEADLINES_MIN = 1000  # below this many the heap is not worth rebuilding


class Lease(NamedTuple, Generic[H]):
    """One delivery that waits for its ack. `deadline`, and `since`, when it was heard of, are on the monotonic clock;
    `until_ns`: as the table last said. `beside`: its receiver has held others beside it."""

    holder: H
    release: Release
    deadline: float
    until_ns: int
    since: float
    beside: bool


class InFlight(Generic[H]):
    """See the module. A holder is anything hashable; in the engine, a Subscription. `receiver_of`: whose it is."""

    def __init__(self, receiver_of: Callable[[H], Hashable] = lambda holder: holder) -> None:
        self._receiver_of = receiver_of
        self._leases: dict[MessageId, Lease[H]] = {}
        self._held: dict[H, set[MessageId]] = {}
        self._holders_of: dict[Hashable, set[H]] = {}  # of each receiver
        self._deadlines: list[tuple[float, int, list[MessageId]]] = []  # a heap; ids that end together are one entry
        self._order = 0  # ties in the heap must never compare ids of two types
        self._noted = 0  # ids in all entries, those that are settled included

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, id_: MessageId) -> bool:
        return id_ in self._leases

    def ids(self) -> list[MessageId]:
        return list(self._leases)

    def holders(self) -> list[H]:
        """Everybody who holds a lease."""
        return list(self._held)

    def holder(self, id_: MessageId) -> H | None:
        """Who holds that message."""
        lease = self._leases.get(id_)
        return None if lease is None else lease.holder

    def holders_of(self, ids: Iterable[MessageId]) -> set[H]:
        """Who holds any of these messages."""
        return {lease.holder for id_ in ids if (lease := self._leases.get(id_)) is not None}

    def count(self, holder: H) -> int:
        """How many unacked messages the holder has."""
        return len(self._held.get(holder, ()))

    @property
    def receivers(self) -> int:
        """How many receivers hold a lease."""
        return len(self._holders_of)

    def count_of(self, receiver: Hashable) -> int:
        """How many unacked messages a receiver has of all its results."""
        return sum([len(self._held[holder]) for holder in self._holders_of.get(receiver, ())])

    def deadlines(self, holder: H) -> dict[MessageId, float]:
        """When the leases of a holder end."""
        return {id_: self._leases[id_].deadline for id_ in self._held.get(holder, ())}

    def lease(self, id_: MessageId) -> Lease[H] | None:
        """That of a message."""
        return self._leases.get(id_)

    def add(self, holder: H, batch: Sequence[tuple[Message, float]], now: float) -> None:
        """Messages were leased for this holder, each until a deadline; older leases of them end here."""
        self.settle([message.id for message, _ in batch])
        beside = self._joined(holder, len(batch))
        held = self._held_by(holder)
        ends: dict[float, list[MessageId]] = {}
        for message, deadline in batch:
            id_, until_ns = message.id, message.lease_until_ns
            release = release_of(message)
            self._leases[id_] = Lease(holder, release, deadline, until_ns, now, beside)
            held.add(id_)
            ends.setdefault(deadline, []).append(id_)
        for deadline, ids in ends.items():
            self._push(deadline, ids)

    def _held_by(self, holder: H) -> set[MessageId]:
        held = self._held.get(holder)
        if held is None:
            held = self._held[holder] = set()
            self._holders_of.setdefault(self._receiver_of(holder), set()).add(holder)
        return held

    def _joined(self, holder: H, count: int) -> bool:
        """Whether so many more are held beside others; what was held alone until now is so, too."""
        holders = self._holders_of.get(self._receiver_of(holder), ())
        if not holders:
            return count > 1
        if len(holders) == 1 and len(ids := self._held[next(iter(holders))]) == 1:
            (id_,) = ids
            self._leases[id_] = self._leases[id_]._replace(beside=True)
        return True

    def _forget_holder(self, holder: H) -> None:
        del self._held[holder]
        receiver = self._receiver_of(holder)
        holders = self._holders_of[receiver]
        holders.discard(holder)
        if not holders:
            del self._holders_of[receiver]

    def settle(self, ids: Iterable[MessageId]) -> int:
        """These ended (acked, deleted, rejected); returns how many were in flight."""
        count = 0
        for id_ in ids if self._leases else ():
            lease = self._leases.pop(id_, None)
            if lease is not None:
                count += 1
                held = self._held[lease.holder]
                held.discard(id_)
                if not held:
                    self._forget_holder(lease.holder)
        return count

    def compare(
        self,
        asked: Iterable[MessageId],
        found: Mapping[MessageId, LeaseStanding],
        told: Mapping[MessageId, bool] | None = None,
    ) -> tuple[list[MessageId], list[MessageId]]:
        """Take in how the table says that these stand: a lease renewed there goes on as long as it says, one that is
        not there any more ends here. Returns the messages that are settled, and those that wait again.

        Without a token, a message that was released and leased again, to whomever, looks in the table as if it had been
        renewed. `told` says which were renewed and which given up. Of what nothing was told of, the lease found counts
        towards the window, and is not ours to give back.
        """
        settled: list[MessageId] = []
        returned: list[MessageId] = []
        for id_ in asked:
            lease, standing = self._leases.get(id_), found.get(id_)
            if lease is None or _is_as_known(lease, standing):
                continue
            renewed = None if told is None else told.get(id_)
            if lease.release.token:  # told or not: a lease that was given up has another token
                renewed = True
            if standing is not None and renewed is not False and _is_renewed(lease.release, standing):
                self._prolong(lease, standing.time_next_ns or 0, ours=bool(renewed))
                continue
            self._remove(id_)
            (settled if standing is None else returned).append(id_)
        return settled, returned

    def _prolong(self, lease: Lease[H], until_ns: int, *, ours: bool) -> None:
        deadline = lease.deadline + (until_ns - lease.until_ns) / NS_PER_SECOND
        release = lease.release._replace(lease_until_ns=until_ns) if ours else lease.release
        self._leases[release.id] = lease._replace(release=release, deadline=deadline, until_ns=until_ns)
        self._push(deadline, [release.id])

    def expire(self, now: float) -> list[Lease[H]]:
        """Drop the leases that have run out by `now`; returns them."""
        over: list[Lease[H]] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, _, ids = heapq.heappop(self._deadlines)
            self._noted -= len(ids)
            for id_ in ids:
                if self._live(deadline, id_) and (lease := self._remove(id_)) is not None:
                    over.append(lease)
        return over

    def next_deadline(self) -> float | None:
        """When the first lease runs out."""
        while self._deadlines:
            deadline, _, ids = self._deadlines[0]
            while ids:
                if self._live(deadline, ids[-1]):
                    return deadline
                ids.pop()
                self._noted -= 1
            heapq.heappop(self._deadlines)
        return None

    def drop_holder(self, holder: H) -> list[Release]:
        """Forget the holder; its leases, to be given back or left to run out."""
        if holder not in self._held:
            return []
        leases = [self._leases.pop(id_) for id_ in self._held[holder]]
        self._forget_holder(holder)
        return [lease.release for lease in leases]

    def _live(self, deadline: float, id_: MessageId) -> bool:
        """Whether that is when its lease runs out."""
        lease = self._leases.get(id_)
        return lease is not None and lease.deadline == deadline

    def _remove(self, id_: MessageId) -> Lease[H] | None:
        lease = self._leases.get(id_)
        self.settle((id_,))
        return lease

    def _push(self, deadline: float, ids: list[MessageId]) -> None:
        self._order += 1
        self._noted += len(ids)
        heapq.heappush(self._deadlines, (deadline, self._order, ids))
        self._shrink()

    def _shrink(self) -> None:
        """Settled messages leave their deadlines behind; rebuild before they outnumber the living."""
        if self._noted <= 2 * len(self._leases) + _STALE_DEADLINES_MIN:
            return
        entries, self._deadlines, self._noted = self._deadlines, [], 0
        for deadline, order, ids in entries:
            if live := [id_ for id_ in ids if self._live(deadline, id_)]:
                self._deadlines.append((deadline, order, live))
                self._noted += len(live)
        heapq.heapify(self._deadlines)


def _is_as_known(lease: Lease[H], standing: LeaseStanding | None) -> bool:
    return standing is not None and standing.time_next_ns == lease.until_ns and same_delivery(lease.release, standing)


def _is_renewed(release: Release, standing: LeaseStanding) -> bool:
    """The same delivery with another end. A NACK leaves no lease's end, a RELEASE no such epoch."""
    until_ns = standing.time_next_ns
    return same_delivery(release, standing) and until_ns is not None and is_lease_end(until_ns)

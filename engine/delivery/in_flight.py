"""InFlight: the leases of receivers that are not yet settled, by message and by holder. Pure; no await here.

A lease is removed when it is settled or given up, when it runs out, when its message is claimed again (for another
receiver), or with its holder; it may be renewed. It only bounds how many messages a receiver may have, and is used to
release them; the table is the truth.

One receiver may be several holders, the results of one connection. Whether it has a message alongside others follows
from all of them together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Message, MessageId
from engine.model.states import is_lease_end
from engine.store.base import UNKNOWN_STATE, LeaseState, Release, release_of, same_delivery

H = TypeVar("H", bound=Hashable)

_STALE_DEADLINES_MIN = 1000  # below this many the heap is not worth rebuilding


class Lease(NamedTuple, Generic[H]):
    """One delivery that waits for its ack. `deadline`, and `since`, when it was handed out, are on the monotonic clock;
    `until_ns`: as last read from the table. `alongside`: its receiver has had other messages at the same time."""

    holder: H
    release: Release
    deadline: float
    until_ns: int
    since: float
    alongside: bool


class InFlight(Generic[H]):
    """See the module. A holder is anything hashable; in the engine, a Subscription. `receiver_of`: its receiver."""

    def __init__(self, receiver_of: Callable[[H], Hashable] = lambda holder: holder) -> None:
        self._receiver_of = receiver_of
        self._leases: dict[MessageId, Lease[H]] = {}
        self._ids_by_holder: dict[H, set[MessageId]] = {}
        self._holders_by_receiver: dict[Hashable, set[H]] = {}
        self._deadlines: list[tuple[float, int, list[MessageId]]] = []  # a heap; ids that end together are one entry
        self._order = 0  # ties in the heap must never compare ids of two types
        self._deadline_count = 0  # ids in all entries, those that are settled included

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, id_: MessageId) -> bool:
        return id_ in self._leases

    def ids(self) -> list[MessageId]:
        return list(self._leases)

    def holders(self) -> list[H]:
        """All holders of leases."""
        return list(self._ids_by_holder)

    def holder(self, id_: MessageId) -> H | None:
        """The holder of that message's lease."""
        lease = self._leases.get(id_)
        return None if lease is None else lease.holder

    def holders_of(self, ids: Iterable[MessageId]) -> set[H]:
        """The holders of these messages' leases."""
        return {lease.holder for id_ in ids if (lease := self._leases.get(id_)) is not None}

    def count(self, holder: H) -> int:
        """How many unacked messages the holder has."""
        return len(self._ids_by_holder.get(holder, ()))

    @property
    def receivers(self) -> int:
        """How many receivers have a lease."""
        return len(self._holders_by_receiver)

    def count_of(self, receiver: Hashable) -> int:
        """How many unacked messages a receiver has of all its results."""
        return sum([len(self._ids_by_holder[holder]) for holder in self._holders_by_receiver.get(receiver, ())])

    def deadlines(self, holder: H) -> dict[MessageId, float]:
        """When the leases of a holder end."""
        return {id_: self._leases[id_].deadline for id_ in self._ids_by_holder.get(holder, ())}

    def lease(self, id_: MessageId) -> Lease[H] | None:
        """The lease of a message."""
        return self._leases.get(id_)

    def add(self, holder: H, batch: Sequence[tuple[Message, float]], now: float) -> None:
        """Messages were leased for this holder, each until a deadline; older leases of them end here."""
        self.settle([message.id for message, _ in batch])
        alongside = self._mark_alongside(holder, len(batch))
        leased = self._ids_of(holder)
        ends: dict[float, list[MessageId]] = {}
        for message, deadline in batch:
            id_, until_ns = message.id, message.lease_until_ns
            release = release_of(message)
            self._leases[id_] = Lease(holder, release, deadline, until_ns, now, alongside)
            leased.add(id_)
            ends.setdefault(deadline, []).append(id_)
        for deadline, ids in ends.items():
            self._push(deadline, ids)

    def _ids_of(self, holder: H) -> set[MessageId]:
        ids = self._ids_by_holder.get(holder)
        if ids is None:
            ids = self._ids_by_holder[holder] = set()
            self._holders_by_receiver.setdefault(self._receiver_of(holder), set()).add(holder)
        return ids

    def _mark_alongside(self, holder: H, count: int) -> bool:
        """Whether so many more messages have others alongside; one that was alone until now is marked so, too."""
        holders = self._holders_by_receiver.get(self._receiver_of(holder), ())
        if not holders:
            return count > 1
        if len(holders) == 1 and len(ids := self._ids_by_holder[next(iter(holders))]) == 1:
            (id_,) = ids
            self._leases[id_] = self._leases[id_]._replace(alongside=True)
        return True

    def _forget_holder(self, holder: H) -> None:
        del self._ids_by_holder[holder]
        receiver = self._receiver_of(holder)
        holders = self._holders_by_receiver[receiver]
        holders.discard(holder)
        if not holders:
            del self._holders_by_receiver[receiver]

    def settle(self, ids: Iterable[MessageId]) -> int:
        """These ended (acked, deleted, rejected); returns how many were in flight."""
        count = 0
        for id_ in ids if self._leases else ():
            lease = self._leases.pop(id_, None)
            if lease is not None:
                count += 1
                leased = self._ids_by_holder[lease.holder]
                leased.discard(id_)
                if not leased:
                    self._forget_holder(lease.holder)
        return count

    def compare(
        self,
        queried_ids: Iterable[MessageId],
        lease_states: Mapping[MessageId, LeaseState],
        reported: Mapping[MessageId, bool] | None = None,
    ) -> tuple[list[MessageId], list[MessageId]]:
        """Apply the leases as read from the table: one that was renewed goes on until its new end, one that is not
        there any more ends here. Returns the messages that are settled, and those that wait again.

        Without a token, a message that was released and leased again, to any receiver, looks in the table as if it had
        been renewed. `reported` contains which were renewed (True) and which were given up. Where it has no entry, the
        lease in the table counts towards the window, and is not released by this engine.
        """
        settled: list[MessageId] = []
        returned: list[MessageId] = []
        for id_ in queried_ids:
            lease, state = self._leases.get(id_), lease_states.get(id_)
            if lease is None or state is UNKNOWN_STATE or _is_unchanged(lease, state):
                continue
            renewed = None if reported is None else reported.get(id_)
            if lease.release.token:  # reported or not: a lease that was given up has another token
                renewed = True
            if state is not None and renewed is not False and _is_renewed(lease.release, state):
                until_ns = state.time_next_ns or 0
                release = lease.release._replace(lease_until_ns=until_ns) if renewed else lease.release
                self._leases[id_] = now = _ending(lease._replace(release=release), until_ns)
                self._push(now.deadline, [id_])
                continue
            self.settle((id_,))
            (settled if state is None else returned).append(id_)
        return settled, returned

    def shorten(self, ids: Iterable[MessageId], deadline: float) -> bool:
        """These were renewed; those that end sooner now do so at about that time. Whether there are any."""
        leases = [lease for id_ in ids if (lease := self._leases.get(id_)) is not None and deadline < lease.deadline]
        for lease in leases:
            until_ns = lease.until_ns - int((lease.deadline - deadline) * NS_PER_SECOND)
            self._leases[lease.release.id] = lease._replace(deadline=deadline, until_ns=until_ns)
        if leases:
            self._push(deadline, [lease.release.id for lease in leases])
        return bool(leases)

    def expire(self, now: float) -> list[Lease[H]]:
        """Drop the leases that have run out by `now`; returns them."""
        expired: list[Lease[H]] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, _, ids = heapq.heappop(self._deadlines)
            self._deadline_count -= len(ids)
            for id_ in ids:
                if self._is_current(deadline, id_):
                    expired.append(self._leases[id_])
                    self.settle((id_,))
        return expired

    def next_deadline(self) -> float | None:
        """When the first lease runs out."""
        while self._deadlines:
            deadline, _, ids = self._deadlines[0]
            while ids:
                if self._is_current(deadline, ids[-1]):
                    return deadline
                ids.pop()
                self._deadline_count -= 1
            heapq.heappop(self._deadlines)
        return None

    def drop_holder(self, holder: H) -> list[Release]:
        """Remove the holder; returns its leases, to be released or left to run out."""
        if holder not in self._ids_by_holder:
            return []
        leases = [self._leases.pop(id_) for id_ in self._ids_by_holder[holder]]
        self._forget_holder(holder)
        return [lease.release for lease in leases]

    def _is_current(self, deadline: float, id_: MessageId) -> bool:
        """Whether its lease runs out then."""
        lease = self._leases.get(id_)
        return lease is not None and lease.deadline == deadline

    def _push(self, deadline: float, ids: list[MessageId]) -> None:
        self._order += 1
        self._deadline_count += len(ids)
        heapq.heappush(self._deadlines, (deadline, self._order, ids))
        self._shrink()

    def _shrink(self) -> None:
        """Settled messages leave their deadlines in the heap; rebuild it before they outnumber the current ones."""
        if self._deadline_count <= 2 * len(self._leases) + _STALE_DEADLINES_MIN:
            return
        entries, self._deadlines, self._deadline_count = self._deadlines, [], 0
        for deadline, order, ids in entries:
            if current := [id_ for id_ in ids if self._is_current(deadline, id_)]:
                self._deadlines.append((deadline, order, current))
                self._deadline_count += len(current)
        heapq.heapify(self._deadlines)


def _ending(lease: Lease[H], until_ns: int) -> Lease[H]:
    return lease._replace(deadline=lease.deadline + (until_ns - lease.until_ns) / NS_PER_SECOND, until_ns=until_ns)


def _is_unchanged(lease: Lease[H], state: LeaseState | None) -> bool:
    return state is not None and state.time_next_ns == lease.until_ns and same_delivery(lease.release, state)


def _is_renewed(release: Release, state: LeaseState) -> bool:
    """The same delivery with another end. A NACK leaves no lease's end, a RELEASE no such epoch."""
    until_ns = state.time_next_ns
    return same_delivery(release, state) and until_ns is not None and is_lease_end(until_ns)

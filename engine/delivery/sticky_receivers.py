"""StickyReceivers: the receivers of one queue that have keys of their own, and which messages are whose.

A receiver is a connection. With an endless stream it is a member from the stream's begin to its end. One that polls is
a member between two polls as well: while it holds messages, and for RECENT_SECONDS after its last poll.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from engine.clock import Clock
from engine.delivery.subscription import Subscription
from engine.model.assignment import Assignment, Member
from engine.model.key_range import KeyRange, Keys
from engine.model.queue import Condition, QueueName, of_key_range
from engine.sticky_members import StickyMembers

RECENT_SECONDS = 60.0
"""For so long after its last result a connection counts as a receiver. An idle worker polls every 30 s."""


@dataclass(slots=True)
class _Membership:
    """`ended_at`: of its last result, where none is open."""

    member: Member
    user: str
    results: set[Subscription] = field(default_factory=set)
    ended_at: float = 0.0


class StickyReceivers:
    """See the module. `members`: those of all queues."""

    def __init__(self, queue: QueueName, members: StickyMembers, clock: Clock) -> None:
        self._queue, self._members, self._clock = queue, members, clock
        self._memberships: dict[Hashable, _Membership] = {}
        self._arranged: Assignment | None = None

    def __len__(self) -> int:
        return len(self._memberships)

    def count(self, user: str) -> int:
        """How many of them are of that account."""
        return sum(membership.user == user for membership in self._memberships.values())

    def has(self, subscription: Subscription) -> bool:
        """Whether its receiver is one of them."""
        return subscription.receiver in self._memberships

    # --- membership

    def join(self, subscription: Subscription) -> None:
        """A result of such a receiver begins."""
        receiver, exclusive = subscription.receiver, subscription.request.keys is Keys.EXCLUSIVE
        membership = self._memberships.get(receiver)
        if membership is not None and membership.member.exclusive != exclusive:
            self.gone(receiver)
            membership = self._memberships.get(receiver)
        if membership is None:
            member = self._members.join(self._queue, exclusive=exclusive)
            membership = self._memberships[receiver] = _Membership(member, subscription.request.receiver.user)
        membership.results.add(subscription)

    def ended(self, subscription: Subscription) -> None:
        """A result has ended. One with an end may be followed by the next."""
        membership = self._memberships.get(subscription.receiver)
        if membership is None:
            return
        membership.results.discard(subscription)
        membership.ended_at = self._clock.monotonic()
        if not subscription.bounded and subscription.request.limit is None:
            self.gone(subscription.receiver)

    def gone(self, receiver: Hashable) -> None:
        """The connection has ended, or is taken for ended. One that has another result open is a member still."""
        membership = self._memberships.get(receiver)
        if membership is not None and not membership.results:
            del self._memberships[receiver]
            self._members.leave(self._queue, membership.member)

    def close(self) -> None:
        """The queue is served no more, and all results have ended."""
        for receiver in tuple(self._memberships):
            self.gone(receiver)

    def expire(self, holders: Iterable[Subscription]) -> None:
        """Those that have not polled for long, and hold nothing, are none any more. `holders`: of leases."""
        now = self._clock.monotonic()
        idle = [receiver for receiver, one in self._memberships.items() if self._expires_at(one) <= now]
        holding = {holder.receiver for holder in holders} if idle else ()
        for receiver in idle:
            if receiver in holding:
                self._memberships[receiver].ended_at = now
            else:
                self.gone(receiver)

    def next_expiry(self) -> float | None:
        """When one of them may have ended."""
        if not self._memberships:
            return None
        at = min(map(self._expires_at, self._memberships.values()))
        return None if at == float("inf") else at

    def _expires_at(self, membership: _Membership) -> float:
        return float("inf") if membership.results else membership.ended_at + RECENT_SECONDS

    # --- what is whose

    def take_change(self) -> bool:
        """Whether the assignment is another one than at the last call."""
        assignment = self._members.assignment(self._queue)
        changed, self._arranged = assignment is not self._arranged, assignment
        return changed

    def condition(self, subscription: Subscription) -> Condition:
        """Which messages are its own."""
        member = self._memberships[subscription.receiver].member
        own = self._members.assignment(self._queue).slots.get(member.id, KeyRange(()))
        condition = of_key_range(own)
        assert condition is not None
        return condition

    def late(self, age_ns: int) -> Condition | None:
        """Which messages any sticky receiver may have, because they have been due for so long; None: of none."""
        lendable = self._members.assignment(self._queue).lendable
        return Condition(lendable.sql, key_range=lendable, age_ns=age_ns) if lendable.spans else None

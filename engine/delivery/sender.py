"""Sender: takes keys from the cache for the receivers that can take messages, leases them, hands each its batch.

Rules
- Lease before hand-out, always: a message that is not known to be leased is not handed out.
- One claim serves all receivers that wait (of equal ack_wait), so a hundred receivers cost one transaction.
- Receivers take turns: who has waited longest is served first, and scarce messages are spread evenly.
- What was settled while the claim ran is not handed out.
- Nor is what has no time left of its lease: the answer may have come late, as where this process stood still meanwhile.
  A lease is measured from before it was asked for, so it is believed to end too early, never too late.

Keys come from the cache (`run_once`) or, where it is empty and receivers wait, straight from a look that the claim
follows at once (`look_and_claim`, then `hand_out`). What a commit of this proxy has just added needs no look
(`claim_added`, then `hand_out`): that is the short way of a message from its commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, NamedTuple, TypeVar

from engine.delivery.cache import MessageCache, delivery_order
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import QueueContext
from engine.delivery.subscription import Subscription
from engine.model.backoff import lease_delay_ns, lease_delays_ns
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition, Message, MessageId, MessageKey, QueueSpec
from engine.model.states import lease_end
from engine.model.traced import REJECTED
from engine.store.base import Claim, ForeseenLease, LeaseUnknown, Look, release_of
from engine.store.sharing import UNMARKED, Sharing

T = TypeVar("T")

CLAIM_MAX = 1000
"""Ids in one claim: the cost per message no longer falls beyond it, and its locks are held for about 30 ms."""

CLAIM_BYTES_MAX = 16 * 1024 * 1024
"""What the rows of one claim should weigh: bodies are in memory only between the claim and the socket."""

_WEIGHED_MAX = 64  # messages of a claim whose size is looked at
_FIRST_CLAIM = 100  # messages, as long as nothing is known of their size; then the claims grow as it allows
_FORESEEN_SHARE, _FORESEEN_MAX_NS = 0.05, 100_000_000
"""By how much of its length a lease may be shorter or longer than it was to be, where its end is foreseen."""

_RECHECKS_MAX = 2  # settlements by WHERE may come without end; then at-least-once delivery has to do


@dataclass(frozen=True, slots=True)
class Grant:
    """Keys taken for one receiver, in delivery order."""

    subscription: Subscription
    keys: tuple[MessageKey, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """One pass: keys asked for, messages handed out, and messages leased whose receiver cannot take them any more."""

    asked: int = 0
    handed_out: int = 0
    orphans: tuple[Message, ...] = ()
    served: tuple[Subscription, ...] = ()

    def __add__(self, other: Sent) -> Sent:
        return Sent(
            self.asked + other.asked,
            self.handed_out + other.handed_out,
            self.orphans + other.orphans,
            self.served + other.served,
        )


Taker = tuple[Subscription, int]
"""A receiver, and how many messages it may be given."""


class Lent(NamedTuple):
    """A message to hand out. `deadline`: when its lease ends, by the loop's clock, as far as timers go. `ends`: when it
    ends at the earliest, by Clock.passed: from then on it is not sent."""

    message: Message
    deadline: float
    ends: float


Leased = Mapping[MessageId, Lent]
"""By id, messages to hand out."""


class _Dealt(NamedTuple):
    """What one receiver is to be given, in delivery order, with when the leases end; and how much was asked for."""

    subscription: Subscription
    batch: Sequence[Lent]
    asked: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a look brought, with what was claimed of it at once. `gone`: ids of it that no longer wait."""

    look: Look
    gone: Set[MessageId]
    leased: Leased


@dataclass(slots=True)
class _Claiming:
    """What is heard about the ids of a claim while it runs; `ids` None: not known yet, it may be any."""

    ids: frozenset[MessageId] | None
    settled: set[MessageId] = field(default_factory=set)
    uncertain: bool = False


def fair_shares(capacities: Sequence[int], available: int) -> list[int]:
    """How many messages each of several receivers gets: evenly, none above its capacity, earlier ones favoured."""
    shares = [0] * len(capacities)
    left = min(available, sum(capacities))
    while left > 0:
        open_ = [index for index, capacity in enumerate(capacities) if shares[index] < capacity]
        step = max(1, left // len(open_))
        for index in open_:
            given = min(step, capacities[index] - shares[index], left)
            shares[index] += given
            left -= given
    return shares


class Sender:
    """See the module. One pass claims and hands out at most CLAIM_MAX messages."""

    def __init__(
        self, queue: QueueContext, cache: MessageCache, conflicts: Conflicts, condition: Condition | None
    ) -> None:
        context = queue.common
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._jitter, self._metrics, self._trace = context.jitter, context.metrics, context.trace
        self._cache, self._conflicts, self._condition = cache, conflicts, condition
        self._in_flight, self._alarms, self._pause, self._time = queue.in_flight, queue.alarms, queue.pause, queue.time
        self._company = queue.company
        self._lapses = queue.lapses
        self._note_due, self._told_leased = queue.note_due, queue.leased
        self._unheard, self._told_rejected = queue.unheard, queue.rejected
        self._claiming: _Claiming | None = None
        self._gone: set[MessageId] | None = None  # what ended since the keys of a pass were taken, if one is under way
        self._row_bytes = CLAIM_BYTES_MAX / _FIRST_CLAIM

    def settled(self, ids: Collection[MessageId]) -> int:
        """These ended; returns how many of them are being claimed right now."""
        if self._gone is not None:
            self._gone.update(ids)
        if self._claiming is None:
            return 0
        if self._claiming.ids is None:
            self._claiming.settled.update(ids)
            return 0
        hits = self._claiming.ids.intersection(ids) - self._claiming.settled
        self._claiming.settled |= hits
        return len(hits)

    def uncertain(self) -> None:
        """Some messages may have ended."""
        if self._claiming is not None:
            self._claiming.uncertain = True

    async def run_once(
        self, queue: QueueSpec, subscriptions: Iterable[Subscription], alone: Sequence[Subscription] = ()
    ) -> Sent:
        """Serve the receivers, longest waiting first; those of `alone` get one message each of those that go out alone.
        Raises BackendError: then keys are lost, look again."""
        takers = list(islice(_with_room(subscriptions), min(self._cache.together, self._most())))
        grants = _grants(takers, self._cache.take(min(self._most(), sum(capacity for _, capacity in takers))))
        keys = self._cache.take_alone(len(alone))
        singles = [Grant(taker, (key,)) for taker, key in zip(alone, keys, strict=False)]
        self._gone = set()
        try:
            return await self._serve(queue, singles, alone=True) + await self._serve(queue, grants)
        finally:
            self._gone = None

    async def _serve(self, queue: QueueSpec, grants: Sequence[Grant], *, alone: bool = False) -> Sent:
        sent = Sent()
        for ack_wait_ns, group in _by_ack_wait(grants).items():
            group = _without(group, self._gone or ())
            if not group:
                continue
            leased, held_back = await self._claim(queue, ack_wait_ns, group, alone=alone)
            if held_back:  # few were to be had: dealt out anew, so that they go to all in turn
                group = _dealt_again(group, leased)
            sent += self._give(queue, group, leased, alone=alone)
        return sent

    def first_takers(self, subscriptions: Iterable[Subscription]) -> list[Taker]:
        """Of the receivers, longest waiting first, as many as can take together what one claim can give."""
        most, room = self._most(), 0
        takers: list[Taker] = []
        for taker in _with_room(subscriptions):
            takers.append(taker)
            room += taker[1]
            if room >= most:
                break
        return takers

    async def look_and_claim(self, queue: QueueSpec, takers: Sequence[Taker], limit: int) -> Found:
        """Look for up to `limit`, and lease at once what `takers`, of one ack_wait, can take.

        Raises:
            BackendError: then nothing is leased.
        """
        count = min(self._most(), sum(capacity for _, capacity in takers))
        delays_ns = lease_delays_ns(queue, self._jitter(), takers[0][0].request.ack_wait_ns)
        blocked = self._conflicts.blocked(self._clock.monotonic())
        self._claiming = claiming = _Claiming(None)
        try:
            sharing = self._sharing(queue, [taker for taker, _ in takers])
            call = self._store.look_and_claim(queue, limit, count, blocked, delays_ns, sharing)
            found, began = await self._hear(call, lambda found: found.claim)
            claiming.ids = frozenset(found.asked)
            if found.claim is None:
                return Found(found.look, claiming.settled, {})
            self._count(found.asked, found.claim)
            await self._recheck(queue, claiming)
        finally:
            self._claiming = None
        gone = (claiming.ids - frozenset(found.claim.held_back)) | claiming.settled
        return Found(found.look, gone, self._leased(found.claim, claiming, began))

    async def claim_added(
        self, queue: QueueSpec, takers: Sequence[Taker], ids: Sequence[MessageId]
    ) -> tuple[Leased, bool]:
        """Lease of `ids`, which commits have added, for `takers`, of one ack_wait, what can be leased without a look;
        and whether that is all of them.

        Raises:
            BackendError: then nothing is leased.
        """
        now_ns = self._time.now_ns()
        if now_ns is None:
            return {}, False
        delay_ns = lease_delay_ns(queue, 0, self._jitter(), takers[0][0].request.ack_wait_ns)
        tolerance_ns = min(int(delay_ns * _FORESEEN_SHARE), _FORESEEN_MAX_NS)
        beside = not self._sharing(queue, [taker for taker, _ in takers]).held_alone(ids)
        until_ns = lease_end(now_ns + delay_ns, beside=beside)
        foreseen = ForeseenLease(until_ns, now_ns - tolerance_ns, now_ns + tolerance_ns)
        self._claiming = claiming = _Claiming(frozenset(ids))
        try:
            claim, began = await self._hear(self._store.claim_added(queue, ids, foreseen), lambda claim: claim)
            if claim is None:
                return {}, False
            self._count([message.id for message in claim.messages], claim)
            await self._recheck(queue, claiming)
        finally:
            self._claiming = None
        return self._leased(claim, claiming, began), len(claim.messages) == len(ids)

    def hand_out(
        self, queue: QueueSpec, subscriptions: Iterable[Subscription], first: Sequence[Taker], leased: Leased
    ) -> Sent:
        """Give what `look_and_claim` leased for the `first` takers to those who wait now, spread over as many as there
        are messages; what they cannot take to the first, of which some may have turned away."""
        ordered = sorted(leased.values(), key=lambda lent: delivery_order(lent.message))
        ack_wait_ns = first[0][0].request.ack_wait_ns
        alike = (one for one in subscriptions if one.request.ack_wait_ns == ack_wait_ns)
        takers = list(islice(_with_room(alike), len(ordered)))
        if sum(capacity for _, capacity in takers) < len(ordered):
            known = {taker for taker, _ in takers}
            takers += [taker for taker in first if taker[0] not in known]
        sent = self._deliver(queue, [_Dealt(taker, part, len(part)) for taker, part in _dealt(takers, ordered)])
        left = ordered[sum(capacity for _, capacity in takers) :]
        return sent + Sent(orphans=tuple(lent.message for lent in left))

    def _most(self) -> int:
        """Messages in one claim."""
        return min(CLAIM_MAX, max(1, int(CLAIM_BYTES_MAX / self._row_bytes)))

    def _sharing(self, queue: QueueSpec, takers: Sequence[Subscription]) -> Sharing:
        """How `takers` will hold what is leased for all of them: if each holds nothing, and gets one at most, alone."""
        if not queue.options.tries_alone:
            return UNMARKED
        return Sharing(takers=len(takers) if all(map(self._company.empty, takers)) else 0)

    def _granted(self, queue: QueueSpec, grants: Sequence[Grant], *, alone: bool) -> Sharing:
        """The same where it is known who gets what. `alone`: each gets the one message, and nothing beside it."""
        if not queue.options.tries_alone:
            return UNMARKED
        single = [grant for grant in grants if len(grant.keys) == 1]
        lone = [grant.keys[0].id for grant in single if alone or self._company.empty(grant.subscription)]
        return Sharing(lone=frozenset(lone), alone=alone)

    async def _claim(
        self, queue: QueueSpec, ack_wait_ns: int | None, grants: Sequence[Grant], *, alone: bool
    ) -> tuple[Leased, bool]:
        """Lease the keys; those that the queue's limits hold back wait in the cache again, and it knows."""
        ids = [key.id for grant in grants for key in grant.keys]
        delays_ns = lease_delays_ns(queue, self._jitter(), ack_wait_ns)
        self._claiming = claiming = _Claiming(frozenset(ids))
        try:
            sharing = self._granted(queue, grants, alone=alone)
            call = self._store.claim(queue, ids, delays_ns, self._condition, sharing)
            claim, began = await self._hear(call, lambda claim: claim)
            self._count(ids, claim)
            await self._recheck(queue, claiming)
        finally:
            self._claiming = None
        back = set(claim.held_back) - claiming.settled
        self._cache.put_back(key for grant in grants for key in grant.keys if key.id in back)
        return self._leased(claim, claiming, began), bool(claim.held_back)

    async def _hear(self, call: Coroutine[Any, Any, T], claim_of: Callable[[T], Claim | None]) -> tuple[T, float]:
        """Await a claim, and tell when it began. It goes on when we are cancelled meanwhile: what it leases then,
        nobody has."""
        claiming = asyncio.ensure_future(self._work.timed(call))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda done: self._heard_late(done, claim_of))
            raise

    def _heard_late(self, done: asyncio.Future[tuple[T, float]], claim_of: Callable[[T], Claim | None]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, LeaseUnknown):
            self._unheard(error.leases)
        elif error is None and (claim := claim_of(done.result()[0])) is not None:
            self._unheard([release_of(message) for message in claim.messages])

    def _leased(self, claim: Claim, claiming: _Claiming, began: float) -> Leased:
        now, leased = self._clock.monotonic(), {}
        for message in claim.messages:
            if message.id not in claiming.settled:
                seconds = (message.lease_until_ns - claim.now_ns) / NS_PER_SECOND
                leased[message.id] = Lent(message, now + seconds, began + seconds)
        return leased

    def _count(self, ids: Sequence[MessageId], claim: Claim) -> None:
        claimed = {message.id for message in claim.messages}
        assert claimed <= set(ids), "the store leased what it was not asked for"
        assert all(message.lease_until_ns > claim.now_ns for message in claim.messages), "handing out without a lease"
        self._told_leased(claimed)
        self._time.heard(claim.now_ns)
        self._trace.heard(claim.now_ns)
        now = self._clock.monotonic()
        held_back = frozenset(claim.held_back)
        if claim.hold is not None:
            self._pause.begin(claim.hold)
        if claim.rejected:
            self._trace.note(REJECTED, tuple(claim.rejected), reason="delivered max_attempts times")
            self._told_rejected()
        self._conflicts.remove(claimed)
        self._conflicts.remove(claim.rejected)
        if len(claimed) < len(ids):
            had = claimed.union(claim.rejected, held_back)
            for id_ in ids:
                if id_ not in had:
                    self._conflicts.add(id_, now)
        self._weigh(claim.messages)
        self._metrics.claims += 1
        self._metrics.delays.leased(claim.messages, claim.now_ns)
        self._metrics.lease_conflicts += len(ids) - len(claimed) - len(held_back)

    def _weigh(self, messages: Sequence[Message]) -> None:
        """Expect rows as heavy as these; the expectation rises at once and falls slowly."""
        if messages:
            some = messages[:: -(-len(messages) // _WEIGHED_MAX)]
            mean = sum([len(value) for m in some for value in m.values if value is not None]) / len(some)
            self._row_bytes = max(mean, self._row_bytes / 2, 1.0)

    async def _recheck(self, queue: QueueSpec, claiming: _Claiming) -> None:
        """Something was settled by WHERE while the claim ran: ask the table whether it was one of these."""
        assert claiming.ids is not None
        for _ in range(_RECHECKS_MAX):
            if not claiming.uncertain:
                return
            claiming.uncertain = False
            self._metrics.rechecks += 1
            left = await self._work.run(self._store.unsettled(queue, sorted_ids(claiming.ids)))
            claiming.settled |= claiming.ids.difference(left)

    def _give(self, queue: QueueSpec, grants: Sequence[Grant], leased: Leased, *, alone: bool) -> Sent:
        dealt = [
            _Dealt(grant.subscription, [leased[key.id] for key in grant.keys if key.id in leased], len(grant.keys))
            for grant in grants
        ]
        return self._deliver(queue, dealt, alone=alone)

    def _deliver(self, queue: QueueSpec, dealt: Sequence[_Dealt], *, alone: bool = False) -> Sent:
        handed_out, passed = 0, self._clock.passed()
        orphans: list[Message] = []
        for subscription, batch, _ in dealt:
            shut = bool(batch) and self._company.closed(subscription)
            if subscription.over or shut or _changed(queue, subscription.queue):
                orphans += [lent.message for lent in batch]  # it ended, or the queue changed, while we claimed
            elif any(lent.ends <= passed for lent in batch):
                orphans += [lent.message for lent in batch if lent.ends <= passed]
                handed_out += self._hand_out(subscription, [lent for lent in batch if lent.ends > passed])
            else:
                if alone and batch:
                    self._company.handed_out_alone(subscription, batch[0].message.id)
                handed_out += self._hand_out(subscription, batch)
        asked = sum(each.asked for each in dealt)
        return Sent(asked, handed_out, tuple(orphans), tuple(each.subscription for each in dealt))

    def _hand_out(self, subscription: Subscription, batch: Sequence[Lent]) -> int:
        if not batch:
            return 0
        messages, now = [lent.message for lent in batch], self._clock.monotonic()
        self._in_flight.add(subscription, [(lent.message, lent.deadline) for lent in batch], now)
        self._note_due(min([lent.deadline for lent in batch]))
        if subscription.queue.options.alarm_after_ns:
            self._alarms.leased(messages, subscription.request, now)
        self._lapses.leased(messages)
        self._trace.sent(messages, subscription.request)
        self._metrics.sent += len(messages)
        self._metrics.redelivered += sum([message.epoch > 1 for message in messages])
        subscription.give(messages, [lent.ends for lent in batch])
        return len(messages)


def _with_room(subscriptions: Iterable[Subscription]) -> Iterator[Taker]:
    """Those that can take messages, asked one by one."""
    for subscription in subscriptions:
        if capacity := subscription.capacity():
            yield subscription, capacity


def _dealt_again(grants: Sequence[Grant], leased: Leased) -> list[Grant]:
    """What was leased, dealt out over the receivers of these grants, none getting more than it was granted."""
    keys = {key.id: key for grant in grants for key in grant.keys}
    left = sorted((keys[id_] for id_ in leased), key=delivery_order)
    dealt = {g.subscription: g for g in _grants([(grant.subscription, len(grant.keys)) for grant in grants], left)}
    return [dealt.get(grant.subscription, Grant(grant.subscription, ())) for grant in grants]


def _changed(claimed: QueueSpec, now: QueueSpec) -> bool:
    """Whether messages claimed for a queue as it was cannot be handed out to a receiver of it as it is."""
    return now.columns != claimed.columns or now.options.paused


def _grants(takers: Sequence[Taker], keys: Sequence[MessageKey]) -> list[Grant]:
    """Deal out keys in delivery order."""
    return [Grant(taker, tuple(part)) for taker, part in _dealt(takers, keys)]


def _dealt(takers: Sequence[Taker], ordered: Sequence[T]) -> Iterator[tuple[Subscription, Sequence[T]]]:
    """Deal out what is in delivery order: to each taker its share, if it has one, in that order."""
    shares = fair_shares([capacity for _, capacity in takers], len(ordered))
    for (taker, _), share, end in zip(takers, shares, accumulate(shares), strict=True):
        if share:
            yield taker, ordered[end - share : end]


def _without(grants: Iterable[Grant], gone: Collection[MessageId]) -> list[Grant]:
    """What is left of the grants."""
    left = (Grant(g.subscription, tuple(key for key in g.keys if key.id not in gone)) for g in grants)
    return [grant for grant in left if grant.keys]


def _by_ack_wait(grants: Iterable[Grant]) -> dict[int | None, list[Grant]]:
    groups: dict[int | None, list[Grant]] = {}
    for grant in grants:
        groups.setdefault(grant.subscription.request.ack_wait_ns, []).append(grant)
    return groups


def sorted_ids(ids: Iterable[MessageId]) -> list[MessageId]:
    """A list in an order of its own kind: rows are then visited, and locked, in one order by everybody."""
    return sorted(ids, key=lambda id_: (type(id_).__name__, id_))

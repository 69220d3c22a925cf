"""Sender: takes keys from the cache for the receivers that can take messages, leases them, hands each its batch.

Rules
- Lease before hand-out, always: a message that is not known to be leased is not handed out.
- One claim is for all receivers that wait (of equal ack_wait), so a hundred receivers cost one transaction.
- Receivers take turns: the one that has waited longest comes first, and scarce messages are spread evenly.
- A message that was settled while the claim ran is not handed out.
- What is leased and cannot be handed out is released at once, whatever fails after that.
- Nor is one whose lease has no time left: the answer may have come late, for example if this process was suspended.
  A lease is measured from before it was requested, so it is taken to end too early, never too late.

Keys come from the cache (`run_once`) or, where it is empty and receivers wait, from a poll that the claim follows at
once (`poll_and_claim`, then `hand_out`). Messages that a commit of this proxy has just added need no poll
(`claim_added`, then `hand_out`). Those that their INSERT has leased already are only read (`read_born`, then
`hand_out`): that is the shortest route of a message from its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Any, NamedTuple, TypeVar

from engine.database_work import Outcome
from engine.delivery.births import Birth
from engine.delivery.cache import MessageCache, delivery_order
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.subscription import Subscription
from engine.model.backoff import lease_delay_ns, lease_delays_ns
from engine.model.claim_size import ClaimSize
from engine.model.errors import BackendError, fails_as_whole
from engine.model.lease_token import LeaseTimes
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition, Message, MessageId, MessageKey, QueueSpec
from engine.model.states import lease_end
from engine.model.trace_event import REJECTED
from engine.store.base import Claim, ForeseenLease, LeaseUnknown, PollResult, release_of
from engine.store.sharing import UNMARKED, Sharing

T = TypeVar("T")

_TOLERANCE_SHARE, _TOLERANCE_MAX_NS = 0.05, 100_000_000
"""By how much of its length a lease may be shorter or longer than planned, where its end is computed here."""

_LEASE_SHARE = 4
"""Of its lease, a message that was inserted with one may have spent this part before it is handed out; and the lease
may be longer by as much, where the database's clock is behind what is thought."""

_ONE = (0,)
"""The id of one message that has none yet."""

_RECHECKS_MAX = 2  # settlements by WHERE may come without end; then at-least-once delivery has to do


@dataclass(frozen=True, slots=True)
class Allocation:
    """Keys taken for one receiver, in delivery order."""

    subscription: Subscription
    keys: tuple[MessageKey, ...]


@dataclass(frozen=True, slots=True)
class SendResult:
    """One pass: messages handed out, and the receivers of the pass."""

    handed_out: int = 0
    receivers: tuple[Subscription, ...] = ()

    def __add__(self, other: SendResult) -> SendResult:
        return SendResult(self.handed_out + other.handed_out, self.receivers + other.receivers)


ReceiverCapacity = tuple[Subscription, int]
"""A receiver, and how many messages it may get."""


class ClaimedMessage(NamedTuple):
    """A message to hand out. `deadline`: when its lease ends, by the loop's clock, for timers. `ends`: when it ends at
    the earliest, by Clock.boottime: from then on the message is not sent."""

    message: Message
    deadline: float
    ends: float


ClaimedMessages = Mapping[MessageId, ClaimedMessage]
"""Messages to hand out, by id."""


@dataclass(frozen=True, slots=True)
class ClaimedPoll:
    """The result of a poll, and what was claimed of it at once. `removed`: ids of it that no longer wait."""

    poll: PollResult
    removed: Set[MessageId]
    leased: ClaimedMessages


@dataclass(slots=True)
class _PendingClaim:
    """What commits report about the ids of a claim while it runs. `ids` None: not known yet, it may be any."""

    ids: frozenset[MessageId] | None
    settled: set[MessageId] = field(default_factory=set)
    uncertain: bool = False


def fair_shares(capacities: Sequence[int], available: int) -> list[int]:
    """How many messages each of several receivers gets: evenly, none above its capacity, earlier ones favoured."""
    shares = [0] * len(capacities)
    remaining = min(available, sum(capacities))
    while remaining > 0:
        below_capacity = [index for index, capacity in enumerate(capacities) if shares[index] < capacity]
        step = max(1, remaining // len(below_capacity))
        for index in below_capacity:
            share = min(step, capacities[index] - shares[index], remaining)
            shares[index] += share
            remaining -= share
    return shares


class Sender:
    """See the module. One pass claims and hands out what one claim may have (ClaimSize)."""

    def __init__(
        self,
        context: QueueContext,
        leases: QueueLeases,
        host: DeliveryHost,
        cache: MessageCache,
        conflicts: Conflicts,
        condition: Condition | None,
    ) -> None:
        engine = context.engine
        self._store, self._work, self._clock = engine.store, context.work, engine.clock
        self._jitter, self._metrics, self._trace = engine.jitter, context.metrics, context.trace
        self._cache, self._conflicts, self._condition = cache, conflicts, condition
        self._leases, self._host = leases, host
        self._pending_claim: _PendingClaim | None = None
        self._settled_in_pass: set[MessageId] | None = None  # since the keys of the pass were taken; None: no pass
        self.size = ClaimSize()
        self._failed: tuple[BackendError, Sequence[MessageId]] | None = None  # the last claim that failed

    def settled(self, ids: Collection[MessageId]) -> int:
        """These ended; returns how many of them are being claimed right now."""
        if self._settled_in_pass is not None:
            self._settled_in_pass.update(ids)
        if self._pending_claim is None:
            return 0
        if self._pending_claim.ids is None:
            self._pending_claim.settled.update(ids)
            return 0
        hits = self._pending_claim.ids.intersection(ids) - self._pending_claim.settled
        self._pending_claim.settled |= hits
        return len(hits)

    def uncertain(self) -> None:
        """Some messages may have ended."""
        if self._pending_claim is not None:
            self._pending_claim.uncertain = True

    async def run_once(
        self, queue: QueueSpec, subscriptions: Iterable[Subscription], alone: Sequence[Subscription] = ()
    ) -> SendResult:
        """Claim and hand out, to the longest waiting receivers first; those of `alone` get one message each of those
        that go out alone. Raises BackendError: then keys are lost, poll again."""
        limit = self.claim_limit
        receivers = list(islice(_with_capacity(subscriptions), min(self._cache.together, limit)))
        allocations = _allocate(receivers, self._cache.take(min(limit, _total(receivers))))
        keys = self._cache.take_alone(min(len(alone), limit))
        singles = [Allocation(receiver, (key,)) for receiver, key in zip(alone, keys, strict=False)]
        self._settled_in_pass = set()
        try:
            result = await self._claim_and_deliver(queue, singles, alone=True)
            return result + await self._claim_and_deliver(queue, allocations)
        finally:
            self._settled_in_pass = None

    async def _claim_and_deliver(
        self, queue: QueueSpec, allocations: Sequence[Allocation], *, alone: bool = False
    ) -> SendResult:
        result = SendResult()
        for ack_wait_ns, group in _by_ack_wait(allocations).items():
            group = _without_ids(group, self._settled_in_pass or ())
            if not group:
                continue
            leased, deferred = await self._claim(queue, ack_wait_ns, group, alone=alone)
            if deferred:  # the limits let few go: distribute them again, so that they go to all in turn
                group = _redistribute(group, leased)
            batches = [(one.subscription, [leased[key.id] for key in one.keys if key.id in leased]) for one in group]
            result += self._deliver(queue, batches, alone=alone)
        return result

    def first_receivers(self, subscriptions: Iterable[Subscription]) -> list[ReceiverCapacity]:
        """The longest waiting receivers, as many as are needed to take all messages of one claim."""
        limit, room = self.claim_limit, 0
        receivers: list[ReceiverCapacity] = []
        for receiver in _with_capacity(subscriptions):
            receivers.append(receiver)
            room += receiver[1]
            if room >= limit:
                break
        return receivers

    async def poll_and_claim(self, queue: QueueSpec, receivers: Sequence[ReceiverCapacity], limit: int) -> ClaimedPoll:
        """Poll for up to `limit` messages, and lease at once what `receivers`, all of one ack_wait, can take.

        Raises:
            BackendError: then nothing is leased.
        """
        count = min(self.claim_limit, _total(receivers))
        delays_ns = lease_delays_ns(queue, self._jitter(), receivers[0][0].request.ack_wait_ns)
        blocked = self._conflicts.blocked(self._clock.monotonic())
        self._pending_claim = pending = _PendingClaim(None)
        try:
            sharing = self._unallocated_sharing(queue, [receiver for receiver, _ in receivers])
            call = self._store.poll_and_claim(queue, limit, count, blocked, delays_ns, sharing)
            result, began = await self._await_claim(call, lambda result: result.claim)
            pending.ids = frozenset(result.requested)
            if result.claim is None:
                return ClaimedPoll(result.poll, pending.settled, {})
            await self._take_in(queue, result.requested, result.claim, pending)
        finally:
            self._pending_claim = None
        removed = (pending.ids - frozenset(result.claim.deferred)) | pending.settled
        return ClaimedPoll(result.poll, removed, self._leased(result.claim, pending, began))

    async def claim_added(
        self, queue: QueueSpec, receivers: Sequence[ReceiverCapacity], ids: Sequence[MessageId]
    ) -> tuple[ClaimedMessages, bool]:
        """Lease what can be leased without a poll of `ids`, which commits have added, for `receivers`, all of one
        ack_wait; and whether that is all of them.

        Raises:
            BackendError: then nothing is leased.
        """
        foreseen = self._foresee(queue, receivers, ids)
        if foreseen is None:
            return {}, False
        self._pending_claim = pending = _PendingClaim(frozenset(ids))
        try:
            call = self._store.claim_added(queue, ids, foreseen)
            claim, began = await self._await_claim(call, lambda claim: claim, ids)
            if claim is None:
                return {}, False
            await self._take_in(queue, [message.id for message in claim.messages], claim, pending)
        finally:
            self._pending_claim = None
        return self._leased(claim, pending, began), len(claim.messages) == len(ids)

    def _foresee(
        self, queue: QueueSpec, receivers: Sequence[ReceiverCapacity], ids: Collection[MessageId]
    ) -> ForeseenLease | None:
        """The lease of new messages for `receivers`; None as long as the database's time is not known."""
        now_ns = self._leases.time.now_ns()
        if now_ns is None:
            return None
        delay_ns = lease_delay_ns(queue, 0, self._jitter(), receivers[0][0].request.ack_wait_ns)
        tolerance_ns = min(int(delay_ns * _TOLERANCE_SHARE), _TOLERANCE_MAX_NS)
        alongside = not self._unallocated_sharing(queue, [receiver for receiver, _ in receivers]).leased_alone(ids)
        until_ns = lease_end(now_ns + delay_ns, alongside=alongside)
        return ForeseenLease(until_ns, now_ns - tolerance_ns, now_ns + tolerance_ns)

    def plan_birth(self, queue: QueueSpec, receivers: Sequence[ReceiverCapacity], times: LeaseTimes) -> Birth | None:
        """The lease that a message is to be inserted with, for `receivers`; None as long as the database's time is not
        known. `times`: the source of its token."""
        foreseen = self._foresee(queue, receivers, _ONE)
        if foreseen is None:
            return None
        now_ns = (foreseen.earliest_ns + foreseen.latest_ns) // 2
        token, spare_ns = times.next(now_ns), (foreseen.until_ns - now_ns) // _LEASE_SHARE
        return Birth(queue.name, foreseen.until_ns, token, now_ns - spare_ns, now_ns + spare_ns)

    async def read_born(
        self, queue: QueueSpec, born: Sequence[tuple[Birth, MessageId]]
    ) -> tuple[ClaimedMessages, bool | None]:
        """Those that are born and committed, as they are now; and whether that is all of them: None where the server
        may show them late. The leases of the others are released.

        Raises:
            BackendError: then all leases are released, or run out.
        """
        leases = {id_: birth.lease(id_) for birth, id_ in born}
        births = {id_: birth for birth, id_ in born}
        self._pending_claim = pending = _PendingClaim(frozenset(leases))
        handed: ClaimedMessages = {}
        try:
            claim, began = await self._work.run_timed(self._store.births.read(queue, list(leases.values())))
            if claim is None:
                return {}, None
            leases |= {message.id: births[message.id].release(message) for message in claim.messages}
            due = (message for message in claim.messages if births[message.id].delivers(message, claim.now_ns))
            claim = replace(claim, messages=tuple(due))
            self._record([message.id for message in claim.messages], claim, born=True)
            await self._recheck(queue, pending)
            handed = self._leased(claim, pending, began)
            return handed, len(claim.messages) == len(leases)
        finally:
            self._pending_claim = None
            lost = [lease for id_, lease in leases.items() if id_ not in handed and id_ not in pending.settled]
            if lost:
                self._leases.on_abandoned(lost)

    def hand_out(
        self,
        queue: QueueSpec,
        subscriptions: Iterable[Subscription],
        first: Sequence[ReceiverCapacity],
        leased: ClaimedMessages,
    ) -> SendResult:
        """Hand out what `poll_and_claim` leased for the `first` receivers to those that wait now, spread over as many
        as there are messages; what they cannot take goes to the first, some of which may not wait any more."""
        ordered = sorted(leased.values(), key=lambda claimed: delivery_order(claimed.message))
        ack_wait_ns = first[0][0].request.ack_wait_ns
        alike = (one for one in subscriptions if one.request.ack_wait_ns == ack_wait_ns)
        receivers = list(islice(_with_capacity(alike), len(ordered)))
        if _total(receivers) < len(ordered):
            known = {subscription for subscription, _ in receivers}
            receivers += [receiver for receiver in first if receiver[0] not in known]
        result = self._deliver(queue, list(_distribute(receivers, ordered)))
        if left := ordered[_total(receivers) :]:
            self._leases.on_orphaned([claimed.message for claimed in left])
        return result

    @property
    def claim_limit(self) -> int:
        """Messages in one claim."""
        return self.size.limit

    def _unallocated_sharing(self, queue: QueueSpec, receivers: Sequence[Subscription]) -> Sharing:
        """How `receivers` will share what is leased for all of them: each has its message alone if it has none now and
        gets one at most."""
        if not queue.options.tries_alone:
            return UNMARKED
        return Sharing(receivers=len(receivers) if all(map(self._leases.isolated_delivery.is_idle, receivers)) else 0)

    def _allocation_sharing(self, queue: QueueSpec, allocations: Sequence[Allocation], *, alone: bool) -> Sharing:
        """The same where it is known which receiver gets what. `alone`: each gets the one message, and no other."""
        if not queue.options.tries_alone:
            return UNMARKED
        is_idle = self._leases.isolated_delivery.is_idle
        single = [allocation for allocation in allocations if len(allocation.keys) == 1]
        lone = [allocation.keys[0].id for allocation in single if alone or is_idle(allocation.subscription)]
        return Sharing(lone=frozenset(lone), alone=alone)

    async def _claim(
        self, queue: QueueSpec, ack_wait_ns: int | None, allocations: Sequence[Allocation], *, alone: bool
    ) -> tuple[ClaimedMessages, bool]:
        """Lease the keys. Those that the queue's limits defer go back into the cache; whether there were such."""
        ids = [key.id for allocation in allocations for key in allocation.keys]
        delays_ns = lease_delays_ns(queue, self._jitter(), ack_wait_ns)
        self._pending_claim = pending = _PendingClaim(frozenset(ids))
        try:
            sharing = self._allocation_sharing(queue, allocations, alone=alone)
            call = self._store.claim(queue, ids, delays_ns, self._condition, sharing)
            claim, began = await self._await_claim(call, lambda claim: claim, ids)
            await self._take_in(queue, ids, claim, pending)
        finally:
            self._pending_claim = None
        back = set(claim.deferred) - pending.settled
        self._cache.put_back(key for allocation in allocations for key in allocation.keys if key.id in back)
        return self._leased(claim, pending, began), bool(claim.deferred)

    async def _await_claim(
        self, call: Coroutine[Any, Any, T], claim_of: Callable[[T], Claim | None], ids: Sequence[MessageId] = ()
    ) -> tuple[T, float]:
        """The result of a claim of these messages, where they are known, and when it began. The claim goes on when this
        is cancelled meanwhile: what it leases then is released."""
        try:
            return await self._work.run_timed(call, lambda outcome: self._release_abandoned(outcome, claim_of))
        except BackendError as error:
            self._failed = error, ids
            raise

    def _release_abandoned(self, outcome: Outcome, claim_of: Callable[[T], Claim | None]) -> None:
        if isinstance(outcome.error, LeaseUnknown):
            self._leases.on_abandoned(outcome.error.leases)
        elif outcome.error is None and (claim := claim_of(outcome.result)) is not None:
            self.size.observe(claim.messages)  # reading them may have taken too long
            self._leases.on_abandoned([release_of(message) for message in claim.messages])

    def claims_less(self, error: BackendError, ids: Sequence[MessageId] | None = None) -> bool:
        """A step has ended with this error, or a shard's part of a claim, of these: whether it is one of a claim of
        which a part may succeed, or that another one may follow. Then the next ones are smaller."""
        failed, self._failed = self._failed, None
        if ids is None and failed is not None and failed[0] is error:
            ids = failed[1]
        if ids is None or not fails_as_whole(error):
            return False
        if len(ids) == 1 and error.of_rows and not self._cache.together:
            return False  # it keeps no other
        if len(ids) == 1:
            refusals, skipped = self._leases.refusals, []
            others = refusals.refuse(ids[0], error)
            if not others:  # perhaps those behind are without a fault: half of what is cached is tried later
                skipped = [key.id for key in self._cache.take(self._cache.together // 2)]
                refusals.skip(skipped)
            self._conflicts.set_aside((*ids, *skipped))
            if not (others or self._cache.together):
                return False
        self.size.failed(len(ids) or self.claim_limit)
        return True

    def _leased(self, claim: Claim, pending: _PendingClaim, began: float) -> ClaimedMessages:
        now, leased = self._clock.monotonic(), {}
        for message in claim.messages:
            if message.id not in pending.settled:
                seconds = claim.ns_left(message) / NS_PER_SECOND
                leased[message.id] = ClaimedMessage(message, now + seconds, began + seconds)
        return leased

    async def _take_in(self, queue: QueueSpec, ids: Sequence[MessageId], claim: Claim, pending: _PendingClaim) -> None:
        """Take in the result of a claim of these ids, and which of them are settled by now. Where that fails, what it
        leased is released."""
        try:
            self._record(ids, claim)
            await self._recheck(queue, pending)
        except BaseException:
            leased = [release_of(message) for message in claim.messages if message.id not in pending.settled]
            self._leases.on_abandoned(leased)
            raise

    def _record(self, ids: Sequence[MessageId], claim: Claim, *, born: bool = False) -> None:
        """Take in the result of a claim of these ids. `born`: an INSERT has leased them, which no UPDATE refuses."""
        claimed = {message.id for message in claim.messages}
        assert claimed <= set(ids), "the store leased what it was not asked for"
        assert all(claim.ns_left(message) > 0 for message in claim.messages), "handing out without a lease"
        refusals = self._leases.refusals
        self._host.on_leased(claimed, retry_refused=not born and refusals.leased(claimed))
        self._leases.time.observe_time(claim.now_ns)
        self._trace.observe_time(claim.now_ns)
        now = self._clock.monotonic()
        deferred = frozenset(claim.deferred)
        if claim.limit_wait is not None:
            self._leases.pause.begin(claim.limit_wait)
        if claim.rejected:
            self._trace.note(REJECTED, tuple(claim.rejected), reason="delivered max_attempts times")
            self._host.on_rejected()
        self._conflicts.remove(claimed)
        self._conflicts.remove(claim.rejected)
        if refusals.until:
            refusals.end(claim.rejected)
        if len(claimed) < len(ids):
            answered = claimed.union(claim.rejected, deferred, *(some for _, some in claim.failed))
            self._conflicts.add([id_ for id_ in ids if id_ not in answered], now)
        self.size.leased(claim.messages)
        for error, some in claim.failed:
            if isinstance(error, LeaseUnknown):
                self._leases.on_abandoned(error.leases)
            if not self.claims_less(error, some):
                self._conflicts.add(some, now)
        self._metrics.claims += 1
        self._metrics.delays.leased(claim.messages, claim.now_ns)
        self._metrics.lease_conflicts += len(ids) - len(claimed) - len(deferred)

    async def _recheck(self, queue: QueueSpec, pending: _PendingClaim) -> None:
        """Messages were settled by WHERE while the claim ran: query the table whether these are among them."""
        assert pending.ids is not None
        for _ in range(_RECHECKS_MAX):
            if not pending.uncertain:
                return
            pending.uncertain = False
            self._metrics.rechecks += 1
            left = await self._work.run(self._store.unsettled(queue, sorted_ids(pending.ids)))
            pending.settled |= pending.ids.difference(left)

    def _deliver(
        self,
        queue: QueueSpec,
        batches: Sequence[tuple[Subscription, Sequence[ClaimedMessage]]],
        *,
        alone: bool = False,
    ) -> SendResult:
        handed_out, now = 0, self._clock.boottime()
        orphans: list[Message] = []
        for subscription, batch in batches:
            blocked = bool(batch) and self._leases.isolated_delivery.has_isolated_message(subscription)
            if subscription.has_ended or blocked or _changed(queue, subscription.queue):
                orphans += [claimed.message for claimed in batch]  # it ended, or the queue changed, during the claim
            elif any(claimed.ends <= now for claimed in batch):
                orphans += [claimed.message for claimed in batch if claimed.ends <= now]
                handed_out += self._hand_out(subscription, [claimed for claimed in batch if claimed.ends > now])
            else:
                if alone and batch:
                    self._leases.isolated_delivery.handed_out_alone(subscription, batch[0].message.id)
                handed_out += self._hand_out(subscription, batch)
        if orphans:
            self._leases.on_orphaned(orphans)
        return SendResult(handed_out, tuple(subscription for subscription, _ in batches))

    def _hand_out(self, subscription: Subscription, batch: Sequence[ClaimedMessage]) -> int:
        if not batch:
            return 0
        messages, now = [claimed.message for claimed in batch], self._clock.monotonic()
        self._leases.in_flight.add(subscription, [(claimed.message, claimed.deadline) for claimed in batch], now)
        self._host.note_due(min([claimed.deadline for claimed in batch]))
        if subscription.queue.options.alarm_after_ns:
            self._leases.alarms.leased(messages, subscription.request.receiver, now)
        self._leases.expired_leases.leased(messages)
        self._trace.sent(messages, subscription.request.receiver)
        self._metrics.sent += len(messages)
        self._metrics.redelivered += sum([message.is_repeated for message in messages])
        subscription.deliver(messages, [claimed.ends for claimed in batch])
        return len(messages)


def _with_capacity(subscriptions: Iterable[Subscription]) -> Iterator[ReceiverCapacity]:
    """Those that can take messages, checked one by one."""
    for subscription in subscriptions:
        if capacity := subscription.capacity():
            yield subscription, capacity


def _total(receivers: Iterable[ReceiverCapacity]) -> int:
    """How many messages they can take together."""
    return sum(capacity for _, capacity in receivers)


def _redistribute(allocations: Sequence[Allocation], leased: ClaimedMessages) -> list[Allocation]:
    """What was leased, distributed over the receivers of these allocations; none gets more than it had."""
    keys = {key.id: key for allocation in allocations for key in allocation.keys}
    left = sorted((keys[id_] for id_ in leased), key=delivery_order)
    receivers = [(allocation.subscription, len(allocation.keys)) for allocation in allocations]
    again = {allocation.subscription: allocation for allocation in _allocate(receivers, left)}
    return [again.get(subscription, Allocation(subscription, ())) for subscription, _ in receivers]


def _changed(claimed: QueueSpec, now: QueueSpec) -> bool:
    """Whether messages claimed for a queue as it was cannot be handed out to a receiver of it as it is."""
    return now.columns != claimed.columns or now.options.paused


def _allocate(receivers: Sequence[ReceiverCapacity], keys: Sequence[MessageKey]) -> list[Allocation]:
    """Distribute keys in delivery order."""
    return [Allocation(receiver, tuple(part)) for receiver, part in _distribute(receivers, keys)]


def _distribute(
    receivers: Sequence[ReceiverCapacity], ordered: Sequence[T]
) -> Iterator[tuple[Subscription, Sequence[T]]]:
    """Distribute what is in delivery order: to each receiver its share, if it has one, in that order."""
    shares = fair_shares([capacity for _, capacity in receivers], len(ordered))
    for (receiver, _), share, end in zip(receivers, shares, accumulate(shares), strict=True):
        if share:
            yield receiver, ordered[end - share : end]


def _without_ids(allocations: Iterable[Allocation], ids: Collection[MessageId]) -> list[Allocation]:
    """What is left of the allocations."""
    left = (Allocation(one.subscription, tuple(key for key in one.keys if key.id not in ids)) for one in allocations)
    return [allocation for allocation in left if allocation.keys]


def _by_ack_wait(allocations: Iterable[Allocation]) -> dict[int | None, list[Allocation]]:
    groups: dict[int | None, list[Allocation]] = {}
    for allocation in allocations:
        groups.setdefault(allocation.subscription.request.ack_wait_ns, []).append(allocation)
    return groups


def sorted_ids(ids: Iterable[MessageId]) -> list[MessageId]:
    """The ids in one order for all callers, so that all visit, and lock, rows in the same order."""
    return sorted(ids, key=lambda id_: (type(id_).__name__, id_))

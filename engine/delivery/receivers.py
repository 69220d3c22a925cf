"""ReceiverSet: the receivers of one queue with the same condition, and the messages that wait for them.

What is known of the table is in KnownMessages, the receivers are in WaitingReceivers; this brings the two together. A
step polls, and claims and hands out. Where receivers wait and there is no backlog, the poll and the claim are one call
to the store. Turns, the leases in flight and all that concerns the queue as a whole belong to the manager
(engine.delivery.message_manager).

Invariant: a result that ends is one for which nothing is left, as of a poll that began after its request, or whose time
is over. No locks: state changes between awaits only, and only the manager's owner task awaits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.delivery.born_messages import BornMessages
from engine.delivery.cache import CONFIRM_SECONDS
from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.known_messages import Event, KnownMessages, Mode
from engine.delivery.poller import Poller, PollOutcome
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.sender import Sender, SendResult
from engine.delivery.subscription import Subscription
from engine.delivery.waiting_receivers import WaitingReceivers
from engine.model.errors import BackendError
from engine.model.queue import Condition, MessageId, QueueSpec, WaitMode


@dataclass(slots=True)
class PassResult:
    """What one pass of the manager did, in whichever receiver sets."""

    released: int = 0
    rechecked: bool = False
    polled: bool = False
    claimed: bool = False
    sent: int = 0
    failed: bool = False

    @property
    def worked(self) -> bool:
        return bool(self.released or self.rechecked or self.polled or self.claimed)


class ReceiverSet:
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        context: QueueContext,
        leases: QueueLeases,
        host: DeliveryHost,
        condition: Condition | None = None,
    ) -> None:
        self.condition = condition
        self.key_range = None if condition is None else condition.only_range
        """Where it takes the messages of a key range, and all of them."""
        self.last_delivery = 0
        """When it last got messages, as a number that the manager counts up."""
        self._clock, self._leases, self._host = context.engine.clock, leases, host
        self.messages = known = KnownMessages(queue, context, leases, host, condition)
        self.receivers = WaitingReceivers(self._clock, leases, host, known.cache)
        self._sender = Sender(context, leases, host, known.cache, known.conflicts, condition)
        self.births = BornMessages(context, known, self.receivers, self._sender, leases, host)
        self._awaiting_poll: list[Subscription] = []  # results that the current poll answers

    @property
    def may_work(self) -> bool:
        """Whether a step, or the end of a pass, may do anything now; of one without a condition."""
        if self.receivers.bounded or self.births.due:  # those results may be at their end
            return True
        if not self.receivers:
            return False
        room = self.receivers.room()
        known, polled = self.messages, self.receivers.room_for_polled(room)
        more = bool(known.added or known.resumed)
        return self.receivers.can_send(room) or (bool(polled) and (more or known.poll_due(polled)))

    # --- receivers

    def join(self, subscription: Subscription, until: float | None = None) -> None:
        """A new receiver; it takes part from the moment it waits. `until`: when its WAIT is over, where that has begun
        in another set."""
        self.receivers.join(subscription)
        if (scanner := self.messages.scanner) is not None:
            scanner.share.join(subscription.request.receiver.user)
        known, count = self.messages, subscription.remaining
        was_idle = known.mode is Mode.IDLE
        known.on(Event.SUBSCRIBED)
        resumed = was_idle and count is not None and known.resume(count)
        if subscription.needs_poll and not resumed:
            known.request_poll()
        if subscription.bounded:
            self.receivers.bounded.join(subscription, until)

    def on_waiting(self, subscription: Subscription) -> None:
        """It waits for a batch."""
        self.receivers.on_waiting(subscription)
        self._host.wake()

    def leave(self, subscription: Subscription) -> None:
        """It takes no more messages."""
        self.receivers.leave(subscription)
        if (scanner := self.messages.scanner) is not None:
            scanner.share.leave(subscription.request.receiver.user)
        if not self.receivers:
            self.births.release()
            self.messages.on(Event.LAST_LEFT)
            self.messages.clear(keep=subscription.remaining is not None)  # its client may poll again

    # --- what happened to the queue

    def touched(self) -> bool:
        """A commit added or rescheduled messages; whether that concerns a receiver here."""
        return self.messages.touched()

    def expects(self, added: Sequence[int]) -> bool:
        """A commit added messages, probably just these; whether they will be claimed without a poll: if all messages
        that were due before are handed out, and receivers wait that can take them."""
        if not self.messages.takes_added:
            return False
        return self.receivers.room(len(added)) >= len(added) and self.messages.added.add(added)

    def settled(self, ids: Sequence[MessageId]) -> int:
        """These ended; returns how many of them waited here or were being claimed."""
        return self.messages.settled(ids) + self._sender.settled(ids)

    def uncertain(self) -> None:
        """Some messages may have ended."""
        self._sender.uncertain()
        self.messages.on_slot_freed()

    def reset(self) -> None:
        """Forget all that is known of the table and of waiting receivers, and poll."""
        self.receivers.reset()
        self.messages.reset(poll=bool(self.receivers))

    def failed(self, error: BackendError, *, here: bool = False) -> bool:
        """The database failed the queue's work; `here`: a step of this set. Returns whether it is enough that the set
        claims less from now on. Where it is not, and the error was here, `failed` comes once more for all sets."""
        if here and not self._sender.claims_less(error):
            return False
        self.messages.lose(poll=bool(self.receivers))
        return here

    # --- a step

    async def step(self, result: PassResult) -> None:
        """Poll if that is due, claim and hand out what can be. Raises BackendError."""
        known, receivers = self.messages, self.receivers
        if not receivers or known.queue.options.paused:
            self.births.release()
            return
        if self.births.due:
            result.claimed = True
            self._on_sent(result, await self.births.hand_out())
            return
        if known.conflicts.rests_until > self._clock.monotonic():
            return
        if known.added:
            room = receivers.room()
            fits = self._sender.claim_limit >= len(known.added) <= room and receivers.one_ack_wait
            if fits and known.all_handed_out and not known.poll_due(room):
                await self._claim_added(result)
                return
            if not room and not known.cache.alone:
                return
            known.poll_for_added()  # perhaps those that wait are only for messages that go out alone
        if known.resumed:
            await self._claim_resumed(result)
            return
        if self._leases.pause.active:
            if known.polls_ahead:
                await self._poll(result)
        elif self._poll_and_claim_due:
            await self._poll_and_send(result)
        else:
            await self._poll(result)
            await self._send(result)

    async def _claim_added(self, result: PassResult) -> None:
        known, waiting = self.messages, self.receivers
        queue, first = known.queue, self._sender.first_receivers(waiting.waiting)
        result.claimed = True
        try:
            with known.added.claiming() as ids:
                leased, complete = await self._sender.claim_added(queue, first, ids)
        except BaseException:
            known.on(Event.LOST)
            raise
        known.added.record_outcome(correct=complete)
        self._on_sent(result, self._sender.hand_out(queue, waiting.waiting, first, leased))
        if known.mode is Mode.IDLE:
            known.clear()  # the last receiver left meanwhile
        elif complete:
            known.note_due(self._clock.monotonic() + CONFIRM_SECONDS)
        else:
            known.poll_for_added()

    async def _claim_resumed(self, result: PassResult) -> bool:
        """Claim the keys that need no look, where the messages are as an INSERT has left them: one round trip. The rest
        goes back into the cache; whether there is none."""
        known, waiting = self.messages, self.receivers
        first = self._sender.first_receivers(waiting.waiting)
        room = waiting.room() if known.cache.alone else sum([capacity for _, capacity in first])
        if not room and not known.cache.alone:
            return False
        keys, known.resumed = known.resumed, ()
        if min(room, self._sender.claim_limit) < len(keys) or not waiting.one_ack_wait:
            known.cache.put_back(keys)
            return False
        queue, result.claimed = known.queue, True
        try:
            leased, complete = await self._sender.claim_added(queue, first, [key.id for key in keys])
        except BaseException:
            known.on(Event.LOST)
            raise
        known.at_once.record_outcome(correct=complete)
        if not complete and known.mode is not Mode.IDLE:
            known.cache.put_back(key for key in keys if key.id not in leased)
        self._on_sent(result, self._sender.hand_out(queue, waiting.waiting, first, leased))
        return complete

    async def _poll(self, result: PassResult) -> None:
        known, room = self.messages, self.receivers.room_for_polled(self.receivers.room())
        if not room or not known.poll_due(room):
            return
        if not known.scanning:
            self._awaiting_poll = self.receivers.bounded.awaiting_poll()
        result.polled = True
        outcome = await known.poller.run_once(known.queue, room, brief=self.receivers.all_end)
        self._on_polled(outcome, [] if known.scanning else self._awaiting_poll)

    @property
    def _poll_and_claim_due(self) -> bool:
        """Whether a poll is due that a claim for the receivers, all of one ack_wait, follows at once.

        Not where the cache has messages that come first, nor in a backlog: there a poll takes so long that further
        receivers begin to wait meanwhile, and one claim after it is for all of them. But the messages that are fed to a
        consumer group are leased without a poll.
        """
        known, room = self.messages, self.receivers.room()
        together = not known.poller.backlog or known.queue.takes_directly
        apart = self.condition is not None or self._sender.size.careful or not together
        if apart or known.cache or not room or not known.poll_due(room):
            return False
        return self.receivers.one_ack_wait

    async def _poll_and_send(self, result: PassResult) -> None:
        known, waiting = self.messages, self.receivers
        queue, awaiting_poll = known.queue, waiting.bounded.awaiting_poll()
        assert isinstance(known.poller, Poller)
        result.polled = True
        first = self._sender.first_receivers(waiting.waiting)
        limit = known.poller.start(queue, sum(capacity for _, capacity in first), brief=waiting.all_end)
        try:
            claimed = await self._sender.poll_and_claim(queue, first, limit)
        except BaseException:
            known.poller.failed()
            known.on(Event.LOST)
            raise
        result.claimed = result.claimed or bool(claimed.leased)
        added = known.added.discard({key.id for key in claimed.poll.keys})
        outcome = known.poller.finish(claimed.poll, claimed.removed)
        if added:
            known.note_due(self._clock.monotonic() + CONFIRM_SECONDS)
        self._on_sent(result, self._sender.hand_out(queue, waiting.waiting, first, claimed.leased))
        self._on_polled(outcome, awaiting_poll)

    def _on_polled(self, outcome: PollOutcome, awaiting_poll: Iterable[Subscription]) -> None:
        for subscription in awaiting_poll:
            subscription.needs_poll = False
        if outcome.idle_at_ns is not None:
            self._leases.time.observe_time(outcome.idle_at_ns)
        self.messages.on(Event.POLLED_ALL if outcome.complete else Event.POLLED_PART)
        if self.messages.mode is Mode.IDLE:
            self.messages.clear()  # the last receiver left meanwhile

    async def _send(self, result: PassResult) -> None:
        receivers, known = self.receivers, self.messages
        if not receivers.can_send(room := receivers.room()):
            return
        if receivers.one_ack_wait:
            known.resumed = known.at_once.take(known.cache, min(room, self._sender.claim_limit))
            if known.resumed and (await self._claim_resumed(result) or not receivers.can_send(receivers.room())):
                return
        result.claimed, split = True, receivers.split()
        try:
            sent = await self._sender.run_once(self.messages.queue, split.others(receivers.waiting), split.alone)
        except BaseException:
            self.messages.on(Event.LOST)
            raise
        self._on_sent(result, sent)

    def _on_sent(self, result: PassResult, sent: SendResult) -> None:
        result.sent += sent.handed_out
        self.receivers.handed_out(sent.receivers)

    # --- bounded results

    def end_drained(self) -> None:
        """End the bounded results for which nothing is left."""
        for subscription in [one for one in self.receivers.bounded.draining() if self._is_drained(one)]:
            subscription.finish()

    def _is_drained(self, subscription: Subscription) -> bool:
        known, split = self.messages, self.receivers.split()
        rests = known.conflicts.rests_until > self._clock.monotonic()
        paused = known.queue.options.paused or self._leases.pause.active or rests
        if paused or subscription.window_full or subscription in split.reserved:
            return True
        waits = known.cache.together > 0 or subscription in split.alone
        if self.condition is not None and subscription.request.wait_mode is WaitMode.WAIT:
            return not waits  # its time is over: a scan may go on for longer
        if subscription.needs_poll or waits or known.added or known.births or known.more_may_be_due:
            return False
        if self.condition is not None:
            return True  # all messages were examined since it began; with commits all the time that never ends
        return known.next_poll() > self._clock.monotonic()

    # --- time

    def next_time(self, now: float) -> float | None:
        """When there is something to do without being woken; None: nothing."""
        known = self.messages
        if (birth_at := self.births.next_time) is not None:
            return birth_at
        if not self.receivers:
            return None
        rests_until = known.rests_until(now)
        if rests_until > now:
            return rests_until
        room = self.receivers.room()
        polled = self.receivers.room_for_polled(room)
        if known.queue.options.paused or not (polled or self.receivers.can_send(room)):
            return None
        ends_at = self._leases.pause.ends_at
        if ends_at is not None and not known.polls_ahead:
            return ends_at
        if known.added or known.resumed or self.receivers.can_send(room):
            return 0.0  # the pause ended since the last step
        time = known.next_time(polled)
        if ends_at is not None:
            return min(time, ends_at)
        return None if time == float("inf") else time

    def starved(self, now: float) -> bool:
        """Whether receivers wait and there is something to do for them right now."""
        known = self.messages
        if self.receivers.overlooked:
            return not known.queue.options.paused
        at = self.next_time(now)
        if at is None or at <= now:
            return at is not None
        if self.condition is not None:
            return False  # between two pages it rests, whatever the last one returned
        return known.mode is Mode.PENDING and not known.cache.alone and at == known.next_poll()

    def describe(self, now: float) -> str:
        """Its state, for a log."""
        known, at = self.messages, self.messages.next_poll()
        return (
            f"{known.mode.value}: {len(self.receivers)} receivers, {len(self.receivers.waiting)} of them waiting with"
            f" room for {self.receivers.room()}, {len(known.cache)} messages cached, {len(known.conflicts)} not to be"
            f" had, next look {'at once' if at <= now else f'in {at - now:.1f} s'}"
        )

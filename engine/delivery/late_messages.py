"""LateMessages: the receiver set of messages that their owner has not taken for `sticky_wait`, because it is full, gone
or slow. They go to any sticky receiver that waits and has nothing of its own.

Rules
- Each of its receivers is in the set of its own part of the ring, too. Here they take part only while nothing waits for
  them there: so in a backlog each receiver keeps to its own keys.
- A commit does not lead to a look at once: what it has added is late after `sticky_wait` at the earliest.
- Looks rest for half of `sticky_wait` (engine.delivery.filtered_poller), whatever happens to the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.known_messages import Event, KnownMessages
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.receivers import PassResult, ReceiverSet
from engine.delivery.subscription import Subscription
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition, QueueSpec


class LateMessages(ReceiverSet):
    """See the module. `homes`: the receiver sets of all receivers of the queue, as they are at each moment."""

    def __init__(
        self,
        queue: QueueSpec,
        context: QueueContext,
        leases: QueueLeases,
        host: DeliveryHost,
        condition: Condition,
        homes: Mapping[Subscription, ReceiverSet],
    ) -> None:
        super().__init__(queue, context, leases, host, condition)
        self._homes, self._age_seconds = homes, condition.age_ns / NS_PER_SECOND
        self._members: set[Subscription] = set()

    def serve(self, subscriptions: Iterable[Subscription]) -> None:
        """These are its receivers now."""
        wanted = set(subscriptions)
        for subscription in self._members - wanted:
            self.leave(subscription)
        for subscription in wanted - self._members:
            self.join(subscription)

    def join(self, subscription: Subscription, until: float | None = None) -> None:
        self._members.add(subscription)
        self.receivers.join(subscription)
        if self.messages.scanner is not None:
            self.messages.scanner.share.join(subscription.request.receiver.user)
        self.messages.on(Event.SUBSCRIBED)

    def leave(self, subscription: Subscription) -> None:
        self._members.discard(subscription)
        super().leave(subscription)

    def touched(self) -> bool:
        self.messages.note_due(self._clock.monotonic() + self._age_seconds)
        return False

    def expects(self, added: Sequence[int]) -> bool:
        return False

    async def step(self, result: PassResult) -> None:
        self._find_idle()
        await super().step(result)

    def next_time(self, now: float) -> float | None:
        self._find_idle()
        return super().next_time(now)

    def starved(self, now: float) -> bool:
        return False  # whatever waits here has an owner, whose set is watched

    def _find_idle(self) -> None:
        """Those that wait, and for whom nothing waits in their own sets."""
        idle = (one for one in self._members if one.waiting and _is_exhausted(self._homes[one].messages))
        self.receivers.waiting = dict.fromkeys(idle)


def _is_exhausted(known: KnownMessages) -> bool:
    """Whether all that is due is handed out, as far as is known."""
    return known.all_handed_out and not known.added and not known.scanning

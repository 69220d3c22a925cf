"""BornMessages: offers receivers' places to INSERTs, and hands out what is born for them (engine.delivery.births).

Invariant: of what is born, each message is handed out here, or its lease is released. No locks: state changes between
awaits only, and only the manager's owner task awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from engine.delivery.births import Birth
from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.known_messages import KnownMessages, Mode
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.sender import Sender, SendResult
from engine.delivery.waiting_receivers import WaitingReceivers
from engine.model.backoff import DoublingDelay
from engine.model.errors import BackendError
from engine.model.queue import MessageId

_FIRST_PAUSE, _MAX_PAUSE, _SEARCHES_MAX = 0.1, 2.0, 8
"""Seconds between two searches for a message whose INSERT was not answered, and how often: for 11 s."""


class BornMessages:
    """See the module. Of one receiver set."""

    def __init__(
        self,
        context: QueueContext,
        known: KnownMessages,
        receivers: WaitingReceivers,
        sender: Sender,
        leases: QueueLeases,
        host: DeliveryHost,
    ) -> None:
        self._store, self._work = context.engine.store, context.work
        self._known, self._receivers, self._sender, self._leases, self._host = known, receivers, sender, leases, host
        self._clock = context.engine.clock
        self._searches: set[asyncio.Task[None]] = set()

    def offer(self) -> Birth | None:
        """Leave to insert a message as leased: where it could be claimed without a poll, a receiver waits, and nothing
        that was committed before is still to be claimed."""
        known, waiting, births = self._known, self._receivers, self._known.births
        if not (births.possible and known.takes_added and waiting.one_ack_wait) or self._leases.pause.active:
            return None
        room, added = births.expected + 1, known.added
        if added or not added.claimed or waiting.room(room) < room or not added.worth_a_claim():
            return None
        if known.poll_due(room) or self._leases.releases.next_attempt() is not None:
            return None
        first = self._sender.first_receivers(waiting.waiting)
        birth = self._sender.plan_birth(known.queue, first, births.times)
        if birth is not None:
            births.offer(birth)
        return birth

    def withdraw(self, birth: Birth) -> None:
        """Nothing was born of it, as far as is known."""
        self._known.births.withdraw(birth)

    def lost(self, birth: Birth) -> None:
        """The statement's answer is lost, or does not tell the id: perhaps a message is leased to nobody."""
        self.withdraw(birth)
        task = asyncio.get_running_loop().create_task(self._find(birth))
        self._searches.add(task)
        task.add_done_callback(self._searches.discard)

    async def _find(self, birth: Birth) -> None:
        """Release the lease as soon as it can be seen. The server may be at work on the statement for a while, and may
        not be reached for longer; once the lease has run out nothing is to be done."""
        pauses, searches = DoublingDelay(_FIRST_PAUSE, _MAX_PAUSE), 0
        while searches < _SEARCHES_MAX and not self._leases.time.is_past(birth.until_ns):
            await asyncio.sleep(pauses.take())
            try:
                call = self._store.births.find(self._known.queue, birth.until_ns, birth.token)
                id_ = await self._work.run(call)
            except BackendError:
                continue
            searches += 1
            if id_ is not None:
                self._abandon([(birth, id_)])
                return

    def close(self) -> None:
        """Search for none any more."""
        for task in self._searches:
            task.cancel()

    def born(self, birth: Birth, id_: MessageId) -> None:
        """A message was inserted so, and is committed."""
        if not self._known.births.born(birth, id_):
            self._abandon([(birth, id_)])
        elif not self._receivers or self._known.queue.options.paused:
            self.release()
        self._host.wake()

    def release(self) -> None:
        """There is no receiver for what is born, or it must not come before a message that goes the ordinary way. The
        same holds for what INSERTs that are on their way bear."""
        self._known.births.withdraw_all()
        if born := self._known.births.take():
            self._abandon(born)

    def _abandon(self, born: Sequence[tuple[Birth, MessageId]]) -> None:
        self._leases.on_abandoned([birth.lease(id_) for birth, id_ in born])

    @property
    def next_time(self) -> float | None:
        """When there is something to hand out, or to release: at once where a receiver waits."""
        if not self._known.births:
            return None
        waits = any(subscription.capacity() for subscription in self._receivers.waiting)
        return 0.0 if waits else self._known.births.hand_out_until

    @property
    def due(self) -> bool:
        """Whether that time has come."""
        at = self.next_time
        return at is not None and at <= self._clock.monotonic()

    async def hand_out(self) -> SendResult:
        """Read what is born, and hand it out to those that wait now. Raises BackendError."""
        known, waiting = self._known, self._receivers
        queue, first = known.queue, self._sender.first_receivers(waiting.waiting)
        if not first:
            self.release()
            return SendResult()
        with known.births.taking() as born:
            try:
                handed, complete = await self._sender.read_born(queue, born)
            except BaseException:
                self.release()
                raise
            if complete is None:
                known.births.possible = False
            known.added.record_outcome(correct=bool(complete))
            result = self._sender.hand_out(queue, waiting.waiting, first, handed)
        if not complete:
            self.release()
            if known.mode is not Mode.IDLE:
                known.poll_for_added()
        return result

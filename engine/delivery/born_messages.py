"""BornMessages: offers receivers' places to INSERTs, and hands out what is born for them (engine.delivery.births).

Invariant: of what is born, each message is handed out here, or its lease is released. No locks: state changes between
awaits only, and only the manager's owner task awaits.
"""

from __future__ import annotations

from engine.delivery.births import Birth
from engine.delivery.context import DeliveryHost
from engine.delivery.known_messages import KnownMessages, Mode
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.sender import Sender, SendResult
from engine.delivery.waiting_receivers import WaitingReceivers
from engine.model.queue import MessageId


class BornMessages:
    """See the module. Of one receiver set."""

    def __init__(
        self,
        known: KnownMessages,
        receivers: WaitingReceivers,
        sender: Sender,
        leases: QueueLeases,
        host: DeliveryHost,
    ) -> None:
        self._known, self._receivers, self._sender, self._leases, self._host = known, receivers, sender, leases, host

    def offer(self) -> Birth | None:
        """Leave to insert a message as leased: where it could be claimed without a poll, and a receiver waits."""
        known, waiting, births = self._known, self._receivers, self._known.births
        if not (births.possible and known.takes_added and waiting.one_ack_wait) or self._leases.pause.active:
            return None
        room = births.expected + len(known.added) + 1
        if waiting.room(room) < room or not known.added.worth_a_claim():
            return None
        first = self._sender.first_receivers(waiting.waiting)
        birth = self._sender.plan_birth(known.queue, first, births.times)
        if birth is not None:
            births.offer(birth)
        return birth

    def withdraw(self, birth: Birth) -> None:
        """Nothing was born of it, as far as is known."""
        self._known.births.withdraw(birth)

    def born(self, birth: Birth, id_: MessageId) -> None:
        """A message was inserted so, and is committed."""
        self._known.births.born(birth, id_)
        self._host.wake()
        if not self._receivers or self._known.queue.options.paused:
            self.release()

    def release(self) -> None:
        """There is no receiver for what is born."""
        if born := self._known.births.take():
            self._leases.on_abandoned([birth.lease(id_) for birth, id_ in born])

    async def hand_out(self) -> SendResult:
        """Read what is born, and hand it out to those that wait now. Raises BackendError."""
        known, waiting = self._known, self._receivers
        queue, first = known.queue, self._sender.first_receivers(waiting.waiting)
        if not first:
            self.release()
            return SendResult()
        handed, complete = await self._sender.read_born(queue, known.births.take())
        if complete is None:
            known.births.possible = False
        known.added.record_outcome(correct=bool(complete))
        result = self._sender.hand_out(queue, waiting.waiting, first, handed)
        if not complete and known.mode is not Mode.IDLE:
            known.poll_for_added()
        return result

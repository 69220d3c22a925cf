"""LastReceivers: the receiver of a message whose lease has expired, for the record of its failed attempts, and whether
it had other messages too.

Only deliveries of this process are known. The event loop writes, the threads that claim read: single operations of a
dict, so neither needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.model.lease_token import NO_TOKEN
from engine.model.queue import MessageId, QueueName, ReceiverIdentity

LAST_RECEIVERS_MAX = 20_000
"""Messages of all queues together; the oldest are dropped. 5 MB."""

Holder = Callable[[MessageId, int, int], ReceiverIdentity | None]
"""The receiver of a delivery, by the message's id, the epoch of the lease, and the lease's token."""


class _Delivery(NamedTuple):
    """A delivery, and its receiver."""

    epoch: int
    token: int
    receiver: ReceiverIdentity
    alongside: int | None


def may_match(epoch: int, token: int, other_epoch: int, other_token: int) -> bool:
    """Whether two deliveries of a message may be the same, as far as epoch and token are known. A delivery that did not
    count has the same epoch as the next."""
    return epoch == other_epoch and (token == other_token or NO_TOKEN in (token, other_token))


class LastReceivers:
    """See the module. For all queues of an engine."""

    def __init__(self, most: int = LAST_RECEIVERS_MAX) -> None:
        self._most = most
        self._deliveries: dict[tuple[QueueName, MessageId], _Delivery] = {}
        self._holders: dict[QueueName, Holder] = {}

    def watch(self, queue: QueueName, holder: Holder) -> None:
        """Ask `holder` too for this queue, until `unwatch`."""
        self._holders[queue] = holder

    def unwatch(self, queue: QueueName, holder: Holder) -> None:
        """Stop asking it. A `holder` that has replaced it stays."""
        if self._holders.get(queue) == holder:
            del self._holders[queue]

    def record(
        self,
        queue: QueueName,
        id_: MessageId,
        epoch: int,
        receiver: ReceiverIdentity,
        *,
        token: int = NO_TOKEN,
        alongside: int | None = None,
    ) -> None:
        """Record the receiver of an expired lease. `alongside`: if it had other messages too, the lease's token, or its
        end if it has none."""
        key = (queue, id_)
        self._deliveries.pop(key, None)
        while len(self._deliveries) >= self._most:
            del self._deliveries[next(iter(self._deliveries))]
        self._deliveries[key] = _Delivery(epoch, token, receiver, alongside)

    def was_alongside(self, queue: QueueName, id_: MessageId, epoch: int, name: int) -> bool:
        """Whether the receiver of that delivery is known to have had other messages too. `name`: the row's token, or
        the lease's end if it has none. The epoch is not enough: it stays the same until the next delivery, which may be
        another proxy's."""
        delivery = self._deliveries.get((queue, id_))
        return delivery is not None and delivery.epoch == epoch and delivery.alongside == name

    def of(self, queue: QueueName, id_: MessageId, epoch: int, token: int = NO_TOKEN) -> ReceiverIdentity | None:
        """The receiver of that delivery; None where it is not known. `token`: NO_TOKEN where there is none."""
        delivery = self._deliveries.get((queue, id_))
        if delivery is not None and may_match(epoch, token, delivery.epoch, delivery.token):
            return delivery.receiver
        holder = self._holders.get(queue)
        return None if holder is None else holder(id_, epoch, token)

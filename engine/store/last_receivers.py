"""LastReceivers: who had a message whose lease has run out, for the record of its failed attempts, and whether beside
others.

Known is what this process handed out. The event loop writes, the threads that claim read: single
operations of a dict, so neither needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.model.lease_token import NO_TOKEN
from engine.model.queue import MessageId, QueueName, SubscribeRequest

LAST_RECEIVERS_MAX = 20_000
"""Messages of all queues together; the oldest give way. 5 MB."""

Holder = Callable[[MessageId, int, int], SubscribeRequest | None]
"""Who had that delivery of a message: its id, the epoch that the lease gave it, and the lease's token."""


class _Had(NamedTuple):
    """A delivery, and who had it."""

    epoch: int
    token: int
    receiver: SubscribeRequest
    beside: int | None


def may_be(epoch: int, token: int, other_epoch: int, other_token: int) -> bool:
    """Whether two deliveries of a message are one, so far as their names are known. A delivery that did not count has
    the epoch of the next."""
    return epoch == other_epoch and (token == other_token or NO_TOKEN in (token, other_token))


class LastReceivers:
    """See the module. For all queues of an engine."""

    def __init__(self, most: int = LAST_RECEIVERS_MAX) -> None:
        self._most = most
        self._had: dict[tuple[QueueName, MessageId], _Had] = {}
        self._holders: dict[QueueName, Holder] = {}

    def watch(self, queue: QueueName, holder: Holder) -> None:
        """Ask `holder` as well, of this queue, until `unwatch`."""
        self._holders[queue] = holder

    def unwatch(self, queue: QueueName, holder: Holder) -> None:
        """Ask it no longer. Another, which has taken its place, is asked on."""
        if self._holders.get(queue) == holder:
            del self._holders[queue]

    def had(
        self,
        queue: QueueName,
        id_: MessageId,
        epoch: int,
        receiver: SubscribeRequest,
        *,
        token: int = NO_TOKEN,
        beside: int | None = None,
    ) -> None:
        """A lease has run out, which this receiver had; `beside`: where it held other messages besides, the lease's
        token, or its end if it has none."""
        key = (queue, id_)
        self._had.pop(key, None)
        while len(self._had) >= self._most:
            del self._had[next(iter(self._had))]
        self._had[key] = _Had(epoch, token, receiver, beside)

    def had_beside(self, queue: QueueName, id_: MessageId, epoch: int, name: int) -> bool:
        """Whether it is known that who had that delivery held other messages besides. `name`: the token that the row
        has, or the lease's end if it has none; the epoch alone stays from such a delivery to the next, whose lease may
        be another proxy's."""
        had = self._had.get((queue, id_))
        return had is not None and had.epoch == epoch and had.beside == name

    def of(self, queue: QueueName, id_: MessageId, epoch: int, token: int = NO_TOKEN) -> SubscribeRequest | None:
        """Who had that delivery of a message; None where that is not known. `token`: NO_TOKEN where there is none."""
        had = self._had.get((queue, id_))
        if had is not None and may_be(epoch, token, had.epoch, had.token):
            return had.receiver
        holder = self._holders.get(queue)
        return None if holder is None else holder(id_, epoch, token)

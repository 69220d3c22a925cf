"""Births: messages that their INSERT has already leased, for receivers that wait.

The Vitess Queues design says it: an event that is to be fired at once may be created as fired. Where a receiver waits
and nothing is due before it, the proxy writes the lease into the client's INSERT. After the commit the message is read
and handed out: one commit in place of two, and nothing is locked.

Only the row counts: what a trigger has changed is not handed out as leased, and a message whose INSERT was not answered
is searched for by its lease. No await here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.clock import Clock
from engine.model.identity import numbers_itself
from engine.model.lease_token import LeaseTimes
from engine.model.queue import Condition, Message, MessageId, QueueName, QueueSpec
from engine.store.base import Release, release_of

OFFER_SECONDS = 2.0
"""For so long a statement that may bear a message keeps a receiver's place for it."""

HAND_OUT_SECONDS = 0.1
"""For so long what is born waits for a receiver that is busy with the message before it."""


@dataclass(frozen=True, slots=True, eq=False)
class Birth:
    """Leave to insert one message of `queue` as leased: epoch 1, time_next `until_ns`, lease_token `token`.

    Before `earliest_ns` by the database's clock its lease would be too long, so that clock is not as was thought; after
    `latest_ns` it would be too short.
    """

    queue: QueueName
    until_ns: int
    token: int
    earliest_ns: int
    latest_ns: int

    def delivers(self, message: Message, now_ns: int) -> bool:
        """Whether it may be handed out at this time of the database's: it has its lease, and is due."""
        on_time = self.earliest_ns <= now_ns <= self.latest_ns
        return on_time and message.lease_until_ns == self.until_ns > now_ns and message.due_ns <= now_ns

    def lease(self, id_: MessageId) -> Release:
        """The lease of the message that was born so, and was not read: it may be scheduled for later."""
        return Release(id_, None, self.until_ns, 1, self.token)

    def release(self, message: Message) -> Release:
        """What takes its lease back, where it is not handed out. Where a trigger has postponed it, that stays, and is
        no attempt."""
        until_ns = message.lease_until_ns
        return release_of(message) if until_ns == self.until_ns else Release(message.id, until_ns, until_ns, 1)


class Births:
    """See the module. Of one receiver set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offered: dict[Birth, float] = {}
        self._born: list[tuple[Birth, MessageId]] = []
        self._born_at = 0.0  # the first of them
        self._read = 0  # how many of them are being handed out
        self.times = LeaseTimes()
        self.possible = False
        """Whether the queue may have such messages, and the server lets them be read at once."""

    def reconfigure(self, queue: QueueSpec, condition: Condition | None) -> None:
        """The queue's options or columns changed."""
        options = queue.options
        # An INSERT that waits longer than its lease would have used up the only attempt.
        takes = queue.takes_added and queue.has_tokens and not (options.paused or options.attempts_max == 1)
        self.possible = takes and numbers_itself(queue) and condition is None and not queue.lease_shows

    def __bool__(self) -> bool:
        """Whether messages are to be handed out."""
        return bool(self._born)

    @property
    def expected(self) -> int:
        """For how many messages receivers are to have room."""
        if self._offered:
            oldest = self._clock.monotonic() - OFFER_SECONDS
            for birth in [birth for birth, at in self._offered.items() if at < oldest]:
                del self._offered[birth]  # its statement waits for a lock, or its connection was lost
        return len(self._offered) + len(self._born) + self._read

    def offer(self, birth: Birth) -> None:
        """A statement with it goes to the database."""
        self._offered[birth] = self._clock.monotonic()

    def withdraw(self, birth: Birth) -> None:
        """Nothing was born of it."""
        self._offered.pop(birth, None)

    def born(self, birth: Birth, id_: MessageId) -> bool:
        """The message is committed. Returns whether it is to be handed out: not where it comes late, or after one that
        goes the ordinary way."""
        if self._offered.pop(birth, None) is None:
            return False
        if not self._born:
            self._born_at = self._clock.monotonic()
        self._born.append((birth, id_))
        return True

    def withdraw_all(self) -> None:
        """Whatever is born of them comes too late."""
        self._offered.clear()

    @property
    def hand_out_until(self) -> float:
        """Until when those that are to be handed out may wait for a receiver, by the monotonic clock."""
        return self._born_at + HAND_OUT_SECONDS

    def take(self) -> Sequence[tuple[Birth, MessageId]]:
        """Remove and return those that are to be handed out."""
        born, self._born = self._born, []
        return born

    @contextlib.contextmanager
    def taking(self) -> Iterator[Sequence[tuple[Birth, MessageId]]]:
        """`take` those that are handed out meanwhile."""
        born = self.take()
        self._read = len(born)
        try:
            yield born
        finally:
            self._read = 0

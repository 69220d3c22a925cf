"""ReceiverSets: those of one queue, and which of them have something to do.

While the accounts of all those with a condition are in debt (engine.delivery.filter_shares), passes and commits skip
them. One account may have many, and they would make each commit of all others more expensive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from engine.clock import Clock
from engine.delivery.claim_pause import ClaimPause
from engine.delivery.context import QueueContext
from engine.delivery.receivers import ReceiverSet
from engine.model.errors import BackendError, is_transient
from engine.model.queue import Condition

NO_SUCH_INDEX = 1176
"""The error where a scan names an index of the catalog that does not exist any more."""

_REST_CACHED_SECONDS = 0.1  # that all rest: other accounts may disconnect meanwhile, and then none has to rest


class ReceiverSets:
    """See the module. `plain`: that of the streams without a condition. `filtered`: the others that have receivers."""

    def __init__(self, plain: ReceiverSet, clock: Clock, pause: ClaimPause) -> None:
        self.plain = plain
        self.filtered: dict[Condition, ReceiverSet] = {}
        self._clock, self._pause = clock, pause
        self._rest_known_until = self._rest_ends_at = 0.0
        self._touched_in_rest = False

    def __iter__(self) -> Iterator[ReceiverSet]:
        yield self.plain
        yield from tuple(self.filtered.values())

    @property
    def cached(self) -> int:
        """Keys that wait in any of them."""
        return sum(len(receiver_set.messages.cache) for receiver_set in self)

    @property
    def may_work(self) -> bool:
        """Whether a pass may do anything now, besides what is due by its time."""
        return bool(self.filtered) or self.plain.may_work

    @property
    def waits_for_idle_receiver(self) -> bool:
        """Whether messages wait for a receiver that holds nothing."""
        return any(receiver_set.messages.cache.alone for receiver_set in self)

    def turns(self, now: float) -> Sequence[ReceiverSet]:
        """Those that do not rest; first the one whose last delivery is the oldest. Where the queue's limits let few
        messages go, the first takes them all, so it must not be the same one each time."""
        if not self.filtered or self._all_rest(now):
            return (self.plain,)
        turns = [receiver_set for receiver_set in self if receiver_set.messages.rests_until(now) <= now]
        if turns == [self.plain]:
            self._rest_ends_at = min(receiver_set.messages.rests_until(now) for receiver_set in self.filtered.values())
            self._rest_known_until = min(self._rest_ends_at, now + _REST_CACHED_SECONDS)
            self._touched_in_rest = False
        return sorted(turns, key=lambda receiver_set: receiver_set.last_delivery)

    @contextlib.contextmanager
    def in_turn(self, now: float) -> Iterator[Sequence[ReceiverSet]]:
        """`turns`, for one pass over them."""
        turns = self.turns(now)
        scanners = [scanner for receiver_set in turns if (scanner := receiver_set.messages.scanner) is not None]
        for scanner in scanners:
            scanner.share.begin_turn(scanner.in_progress)
        try:
            yield turns
        finally:
            for scanner in scanners:
                scanner.share.end_turn()

    def joined(self, receiver_set: ReceiverSet) -> None:
        """It has one more receiver, perhaps of another account: whether all rest is to be checked again."""
        if receiver_set.condition is not None:
            self.filtered[receiver_set.condition] = receiver_set
        self._rest_known_until = 0.0

    def left(self, receiver_set: ReceiverSet) -> None:
        """It has one receiver less. One with a condition is removed with its last receiver."""
        if receiver_set.condition is not None and not receiver_set.receivers:
            del self.filtered[receiver_set.condition]

    def touched(self, added: Sequence[int] = ()) -> bool:
        """A commit added or rescheduled messages, perhaps only these `added`; whether that concerns a receiver here."""
        if added and not self.filtered and self.plain.expects(added):
            return True
        if self._touched_in_rest and self._all_rest(self._clock.monotonic()):
            self.plain.touched()
            self._pause.maybe_slot_freed()
            return True  # those that rest have requested a poll already
        self._touched_in_rest = bool(self.filtered)
        concerned = [receiver_set.touched() for receiver_set in self]  # all of them, not only up to the first
        return any(concerned)

    def next_time(self, now: float) -> float | None:
        """When one of them has something to do without being woken; None: nothing."""
        times: list[float | None]
        if self.filtered and self._all_rest(now):
            times = [self._rest_ends_at, self.plain.next_time(now)]
        else:
            times = [receiver_set.next_time(now) for receiver_set in self]
        return min((time for time in times if time is not None), default=None)

    def _all_rest(self, now: float) -> bool:
        """Whether it is known that none with a condition may be polled for yet."""
        return now < self._rest_known_until


async def is_condition_error(error: BackendError, receiver_set: ReceiverSet, context: QueueContext) -> bool:
    """Whether the error of a receiver set's step is one of its condition: it occurs again, and a poll of the same queue
    without the condition succeeds. Raises BackendError where that fails, too.

    A server that refuses writes refuses only those polls that feed a consumer group.
    """
    known = receiver_set.messages
    if known.scanner is None or is_transient(error) or error.errno == NO_SUCH_INDEX:
        return False
    await context.work.run(context.engine.store.poll(known.queue, 1))
    try:
        await known.scanner.retry(known.queue)
    except BackendError as again:
        return again.errno == error.errno
    return False

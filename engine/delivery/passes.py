"""DeliveryPass: what a pass over a queue does with the database, in its order; and PassTimes, when passes are made.

Invariant: no pass repeats without pause while it achieves nothing. A pass that the database fails begins a pause of the
whole queue (Outage).
"""

from __future__ import annotations

import asyncio

from engine.clock import Clock
from engine.delivery.context import QueueContext
from engine.delivery.outage import Outage
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.receiver_sets import ReceiverSets, is_condition_error
from engine.delivery.receivers import PassResult, ReceiverSet
from engine.model.errors import STALE_CATALOG, BackendError
from engine.model.queue import QueueSpec
from engine.store.base import LeaseUnknown

_AVERAGED_PASSES = 16  # passes
_IN_VAIN_MAX, _IN_VAIN_SECONDS = 100, 0.1
"""How many passes in a row may be in vain, and what is between those after them: a defect that repeats passes must not
use a whole processor until the watchdog finds it."""


class PassTimes:
    """How long passes take, and what wakes the owner of a queue for the next one. `began`: of the pass in progress;
    `ended`: how many have ended, without those in vain: they did nothing, and the next one was due at once. `in_vain`:
    how many of these came last. `average_seconds`: how long a pass takes, on average over the last of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wakeup = asyncio.Event()
        self.began: float | None = None
        self.sleeps_until: float | None = None
        self.ended = self.in_vain = 0
        self.average_seconds = 0.0

    def begin(self) -> None:
        """A pass begins."""
        self.began = self._clock.monotonic()

    def end(self) -> None:
        """A pass has ended."""
        assert self.began is not None
        seconds, self.began = self._clock.monotonic() - self.began, None
        self.ended += 1
        self.average_seconds += (seconds - self.average_seconds) / _AVERAGED_PASSES

    def wake_before(self, due: float) -> None:
        """Something is due at that time: wake the owner if it sleeps for longer."""
        if self.sleeps_until is not None and due < self.sleeps_until:
            self.wakeup.set()

    async def sleep(self, until: float | None) -> None:
        """Until woken or that time, after a pass that did nothing."""
        now = self._clock.monotonic()
        if until is None or until > now:
            self.in_vain = 0
        else:
            self.in_vain += 1
            self.ended -= 1
            until = until if self.in_vain <= _IN_VAIN_MAX else now + _IN_VAIN_SECONDS
        self.sleeps_until = until
        timer = None if until is None else asyncio.get_running_loop().call_at(until, self.wakeup.set)
        try:
            await self.wakeup.wait()
        finally:
            self.sleeps_until = None
            if timer is not None:
                timer.cancel()


class DeliveryPass:
    """See the module. Of one queue."""

    def __init__(self, queue: QueueSpec, context: QueueContext, leases: QueueLeases, sets: ReceiverSets) -> None:
        self.queue = queue
        self._context, self._leases, self._sets = context, leases, sets
        self._clock, self._engine = context.engine.clock, context.engine.host
        self.outage = Outage(queue.name, self._clock, context.engine.logger)

    async def run_once(self) -> PassResult:
        """One pass; see engine.delivery.message_manager. Never raises a BackendError: it only makes a pause."""
        result = PassResult()
        if self.outage.pausing:
            self._end_drained_by_outage()
            return result
        try:
            await self._do(result)
        except BackendError as error:
            self._failed(error)
            return PassResult(failed=True)
        if result.worked:
            self.outage.worked(refuses=self._leases.refusals.trouble)
        for receiver_set in self._sets:
            receiver_set.end_drained()
        return result

    async def _do(self, result: PassResult) -> None:
        await self._return_leases(result)
        if self._sets.subscriptions or self._leases.connection_leases:
            await self._recheck(result)  # before leases run out here that were renewed
        now = self._clock.monotonic()
        self._leases.expire(now)
        self._sets.sticky.rearrange()
        if self._sets.subscriptions:
            if unplaced := self._sets.take_unplaced():
                call = self._context.engine.store.slots(self.queue, unplaced)
                self._sets.place(unplaced, await self._context.work.run(call))
            if not self._sets.filtered:
                await self._step(self._sets.plain, result)
                return
            with self._sets.in_turn(now) as turns:
                for receiver_set in turns:
                    await self._step(receiver_set, result)

    async def _step(self, receiver_set: ReceiverSet, result: PassResult) -> None:
        sent = result.sent
        try:
            await receiver_set.step(result)
        except BackendError as error:
            if receiver_set.failed(error, here=True):
                result.claimed = True
                if isinstance(error, LeaseUnknown):
                    self._leases.on_abandoned(error.leases)
                return
            if not await is_condition_error(error, receiver_set, self._context):
                raise
            self._context.engine.logger.warning("%s: streams ended, their WHERE failed: %s", self.queue.name, error)
            result.polled = True
            receiver_set.receivers.end(error)
            if error.errno in STALE_CATALOG:
                self._engine.request_refresh()
        if result.sent > sent:
            self._sets.delivered(receiver_set)

    async def _return_leases(self, result: PassResult) -> None:
        due = self._leases.releases.next_attempt()
        if due is not None and due <= self._clock.monotonic():
            result.released = await self._leases.releases.run_once(self.queue)
            if result.released:
                for receiver_set in self._sets:
                    receiver_set.messages.request_poll()

    async def _recheck(self, result: PassResult) -> None:
        due = self._next_recheck()
        if due is not None and due <= self._clock.monotonic():
            result.rechecked = True
            await self._leases.rechecker.run_once(self.queue)
            if (deadline := self._leases.in_flight.next_deadline()) is not None:  # perhaps sooner than before
                for receiver_set in self._sets:
                    receiver_set.messages.note_due(deadline)

    def _next_recheck(self) -> float | None:
        sets = self._sets
        if not self._leases.in_flight:
            return None
        return self._leases.rechecker.next_time(messages_wait=sets.may_wait, alone=sets.waits_for_idle_receiver)

    def next_time(self) -> float | None:
        """When there is something to do without being woken; None: nothing."""
        sets_next = self._sets.next_time(self._clock.monotonic())
        times = [self._leases.releases.next_attempt(), self._leases.in_flight.next_deadline(), sets_next]
        if self._sets.subscriptions or self._leases.connection_leases:
            times.append(self._next_recheck())
        if self._sets.may_wait and self.queue.options.tries_alone:
            times.append(self._leases.isolated_delivery.next_end())
        earliest = min((time for time in times if time is not None), default=None)
        return None if earliest is None else max(earliest, self.outage.retry_at)

    def _failed(self, error: BackendError) -> None:
        self._context.metrics.backend_errors += 1
        for receiver_set in self._sets:
            receiver_set.failed(error)
        if isinstance(error, LeaseUnknown):
            self._leases.on_abandoned(error.leases)
        self.outage.failed(error)
        self._end_drained_by_outage()
        if error.errno in STALE_CATALOG:
            self._engine.request_refresh()

    def _end_drained_by_outage(self) -> None:
        assert self.outage.error is not None
        for receiver_set in self._sets:
            receiver_set.receivers.bounded.end_with(self.outage.error)

"""AlarmWatch: messages that have been leased for longer than their queue's option alarm_after, each logged once; and
leases of results that have ended, for the history, when they run out.

One task for all queues, separate from the watchdog, which must not wait for the database. It queries a queue only when
a message is overdue, or a lease has ended. The process that handed a message out watches it, so only one reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from engine.context import EngineContext
from engine.delivery.message_manager import MessageManager
from engine.leases.lease_alarms import Delivery
from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND
from engine.service import Service

PERIOD_SECONDS = 1.0
_LISTED_MAX = 5  # messages of a queue that one record names


class AlarmWatch(Service):
    """See the module. `managers`: returns those to be watched, at each pass."""

    def __init__(self, managers: Callable[[], Iterable[MessageManager]], context: EngineContext) -> None:
        super().__init__("alarm watch", context.logger)
        self._managers = managers
        self._store, self._work, self._clock = context.store, context.work, context.clock

    async def run_once(self) -> int:
        """One pass over all queues; returns how many alarms are new."""
        new_alarms = 0
        for manager in list(self._managers()):
            if manager.queue.options.alarm_after_ns:
                new_alarms += await self._check(manager)
            else:
                manager.leases.alarms.clear()
            await self._record_expired(manager)
        return new_alarms

    async def _record_expired(self, manager: MessageManager) -> None:
        if not (queried_ids := manager.leases.expired_leases.due()):
            return
        try:
            states = await self._work.run(self._store.unsettled(manager.queue, queried_ids))
        except BackendError:
            manager.leases.expired_leases.requeue(queried_ids)
            return
        manager.leases.expired_leases.apply(queried_ids, states)

    async def _check(self, manager: MessageManager) -> int:
        after = manager.queue.options.alarm_after_ns / NS_PER_SECOND
        queried_ids = manager.leases.alarms.overdue(self._clock.monotonic() - after)
        if not queried_ids:
            return 0
        try:
            states = await self._work.run(self._store.unsettled(manager.queue, queried_ids))
        except BackendError:
            return 0  # tried again in the next pass; that the database cannot be reached is logged already
        new = manager.leases.alarms.apply(queried_ids, states)
        if new:
            self._report(manager, new, after)
        return len(new)

    def _report(self, manager: MessageManager, new: Sequence[Delivery], after: float) -> None:
        listed = ", ".join(_describe(delivery) for delivery in new[:_LISTED_MAX])
        more = f", and {len(new) - _LISTED_MAX} more" if len(new) > _LISTED_MAX else ""
        self._logger.warning(
            "%s: leased for longer than alarm_after (%g s): %s%s",
            manager.queue.name,
            after,
            listed,
            more,
        )

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self.run_once()
            await self._pause(PERIOD_SECONDS)


def _describe(delivery: Delivery) -> str:
    receiver = delivery.receiver
    name = f" {receiver.consumer!r}" if receiver.consumer else ""
    return f"{delivery.id!r} to connection {receiver.connection_id}{name}"

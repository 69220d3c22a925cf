"""AlarmWatch: messages that have been leased for longer than their queue's option alarm_after, each logged once; and
leases of results that have ended, for the history, when their time is over.

One task for all queues, apart from the watchdog, which must not wait for the database. It asks about a queue only when
a message is late, or a lease's time over. Whoever handed a message out watches it, so each is told by one process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from engine.clock import Clock
from engine.database_work import DatabaseWork
from engine.delivery.message_manager import MessageManager
from engine.leases.lease_alarms import Delivery
from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND
from engine.service import Service
from engine.store.base import MessageStore

LOOK_SECONDS = 1.0
_NAMED_MAX = 5  # messages of a queue that one record names


class AlarmWatch(Service):
    """See the module. `managers`: what is to be watched, as it is at each look."""

    def __init__(
        self,
        managers: Callable[[], Iterable[MessageManager]],
        store: MessageStore,
        work: DatabaseWork,
        clock: Clock,
        logger: logging.Logger,
    ) -> None:
        super().__init__("alarm watch", logger)
        self._managers, self._store, self._work, self._clock = managers, store, work, clock

    async def run_once(self) -> int:
        """One look at every queue; how many alarms are new."""
        found = 0
        for manager in list(self._managers()):
            if manager.queue.options.alarm_after_ns:
                found += await self._look(manager)
            else:
                manager.alarms.clear()
            await self._record_lapses(manager)
        return found

    async def _record_lapses(self, manager: MessageManager) -> None:
        if not (asked := manager.lapses.due()):
            return
        try:
            standings = await self._work.run(self._store.unsettled(manager.queue, asked))
        except BackendError:
            manager.lapses.again(asked)
            return
        manager.lapses.told(asked, standings)

    async def _look(self, manager: MessageManager) -> int:
        after = manager.queue.options.alarm_after_ns / NS_PER_SECOND
        asked = manager.alarms.doubtful(self._clock.monotonic() - after)
        if not asked:
            return 0
        try:
            standings = await self._work.run(self._store.unsettled(manager.queue, asked))
        except BackendError:
            return 0  # asked again at the next look; that the database is away is told already
        new = manager.alarms.told(asked, standings)
        if new:
            self._tell(manager, new, after)
        return len(new)

    def _tell(self, manager: MessageManager, new: Sequence[Delivery], after: float) -> None:
        named = ", ".join(_named(delivery) for delivery in new[:_NAMED_MAX])
        more = f", and {len(new) - _NAMED_MAX} more" if len(new) > _NAMED_MAX else ""
        self._logger.warning(
            "%s: leased for longer than alarm_after (%g s): %s%s",
            manager.queue.name,
            after,
            named,
            more,
        )

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self.run_once()
            await self._pause(LOOK_SECONDS)


def _named(delivery: Delivery) -> str:
    receiver = delivery.receiver
    called = f" {receiver.consumer!r}" if receiver.consumer else ""
    return f"{delivery.id!r} to connection {receiver.connection_id}{called}"

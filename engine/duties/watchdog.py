"""Watchdog: notices queues whose deliveries stand still though they should not, says so, and begins them anew.

A queue stands still when receivers wait, there is something to do for them (messages known or to be looked for), and
no pass of its manager has ended for STAND_SECONDS, or for three times as long as its passes take, if that is more. It
does not matter why: a task that was cancelled by mistake, a wake-up that got lost, a call that never returns.

What is done: the state is logged as an error, the manager forgets what it believes of the table and looks again, with a
new task; the old one is cancelled. What the database still does for it can do no harm: a claim that is committed after
all leases messages that nobody was sent, and they are given back when its answer, or its failure, arrives. A queue that
stands still again and again is begun anew ever more slowly. While the database is known to fail, a manager waits on
purpose, and longer; it also does where others are before it at the database. Services that have ended without being
closed are started again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.clock import Clock
from engine.delivery.message_manager import MessageManager
from engine.service import Service

LOOK_SECONDS = 1.0
STAND_SECONDS = 7.0  # longer than one call waits for a lock (5 s embedded) or for an answer (4.5 s from a server)
STAND_SECONDS_IN_TROUBLE = 60.0
STAND_SECONDS_MAX = 300.0
_TIMES_USUAL = 3.0


@dataclass(slots=True)
class _Watched:
    """What was last seen of a manager. `since`: when it began to stand; `stalls`: how often in a row it did."""

    passes: int
    since: float
    stalls: int = 0


class Watchdog(Service):
    """See the module. `managers` and `others`: what is to be watched, as it is at each look."""

    def __init__(
        self,
        managers: Callable[[], Iterable[MessageManager]],
        others: Callable[[], Iterable[Service]],
        clock: Clock,
        logger: logging.Logger,
    ) -> None:
        super().__init__("watchdog", logger)
        self._managers, self._others, self._clock = managers, others, clock
        self._watched: dict[MessageManager, _Watched] = {}

    async def run_once(self) -> int:
        """One look at everything; how many were begun anew."""
        begun = 0
        managers = list(self._managers())
        self._watched = {m: seen for m in managers if (seen := self._watched.get(m)) is not None}
        for manager in managers:
            if self._stalled(manager):
                begun += 1
                await self._begin_anew(manager)
        for service in self._others():
            if service.died:
                begun += 1
                self._logger.error("%r: its task has ended without being asked to; starting it again", service)
                await service.revive()
        return begun

    def _stalled(self, manager: MessageManager) -> bool:
        if manager.died:
            return True
        now = self._clock.monotonic()
        seen = self._watched.setdefault(manager, _Watched(manager.passes, now))
        if not manager.standing or manager.passes != seen.passes:
            stalls = seen.stalls if manager.standing and now - seen.since < STAND_SECONDS_MAX else 0
            self._watched[manager] = _Watched(manager.passes, now, stalls)
            return False
        return now - seen.since >= self._patience(manager, seen)

    def _patience(self, manager: MessageManager, seen: _Watched) -> float:
        least = STAND_SECONDS_IN_TROUBLE if manager.in_trouble else STAND_SECONDS
        doubled: float = least * 2**seen.stalls
        return max(min(doubled, STAND_SECONDS_MAX), _TIMES_USUAL * manager.usual_seconds)

    async def _begin_anew(self, manager: MessageManager) -> None:
        name, state = manager.queue.name, manager.describe()
        self._logger.error("%s: deliveries stand still; looking from scratch. %s", name, state)
        manager.metrics.stalls += 1
        stalls = min(self._watched[manager].stalls + 1, 10) if manager in self._watched else 0
        if not await manager.begin_anew():
            self._logger.error("%s: what its task is doing cannot be interrupted; trying again", name)
        self._watched[manager] = _Watched(manager.passes, self._clock.monotonic(), stalls)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self.run_once()
            await self._pause(LOOK_SECONDS)

"""Watchdog: detects queues whose deliveries are stalled, logs it, and restarts them.

A queue is stalled when receivers wait, there is something to do for them (messages known, or a poll due), and no pass
of its manager that did anything has ended for STALL_SECONDS, or for three times as long as its passes take, if that is
more. The cause does not matter: a task that was cancelled by mistake, a lost wake-up, a call that never returns, passes
that repeat and do nothing.

What is done: the state is logged as an error, the manager forgets what it knows of the table and polls again, with a
new task; the old one is cancelled. Its database calls that still run do no harm: a claim that is committed after all
leases messages that were not sent, and they are released when its answer, or its failure, arrives. A queue that stalls
again and again is restarted ever more slowly. While the database is known to fail, a manager waits on purpose, and
longer; it also waits while others have their turn at the database. Services that have ended without being closed are
started again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.context import EngineContext
from engine.delivery.message_manager import MessageManager
from engine.service import Service

PERIOD_SECONDS = 1.0
STALL_SECONDS = 7.0  # longer than one call waits for a lock (5 s embedded) or for an answer (4.5 s from a server)
STALL_SECONDS_DATABASE_FAILING = 60.0
STALL_SECONDS_MAX = 300.0
_TIMES_AVERAGE = 3.0


@dataclass(slots=True)
class _Observation:
    """The last check of a manager. `since`: since when no pass has ended; `stalls`: how often in a row it stalled;
    `sent`: how many messages it had handed out when it was restarted last."""

    passes: int
    since: float
    stalls: int = 0
    sent: int = 0


class Watchdog(Service):
    """See the module. `managers` and `others`: return those to be watched, at each pass."""

    def __init__(
        self,
        managers: Callable[[], Iterable[MessageManager]],
        others: Callable[[], Iterable[Service]],
        context: EngineContext,
    ) -> None:
        super().__init__("watchdog", context.logger)
        self._managers, self._others, self._clock = managers, others, context.clock
        self._observations: dict[MessageManager, _Observation] = {}

    async def run_once(self) -> int:
        """One check of everything; returns how many were restarted."""
        restarted = 0
        managers = list(self._managers())
        self._observations = {m: last for m in managers if (last := self._observations.get(m)) is not None}
        for manager in managers:
            if self._stalled(manager):
                restarted += 1
                await self._restart(manager)
        for service in self._others():
            if service.died:
                restarted += 1
                self._logger.error("%r: its task has ended without being asked to; starting it again", service)
                await service.restart_task()
        return restarted

    def _stalled(self, manager: MessageManager) -> bool:
        if manager.died:
            return True
        now = self._clock.monotonic()
        last = self._observations.setdefault(manager, _Observation(manager.times.ended, now))
        if not manager.has_pending_work or manager.times.ended != last.passes:
            # What it has to do may look done for a moment where it was only forgotten.
            lasts = manager.has_pending_work or manager.metrics.sent == last.sent
            stalls = last.stalls if lasts and now - last.since < STALL_SECONDS_MAX else 0
            self._observations[manager] = _Observation(manager.times.ended, now, stalls, last.sent)
            return False
        return now - last.since >= self._stall_seconds(manager, last)

    def _stall_seconds(self, manager: MessageManager, last: _Observation) -> float:
        shortest = STALL_SECONDS_DATABASE_FAILING if manager.database_failing else STALL_SECONDS
        doubled: float = shortest * 2**last.stalls
        return max(min(doubled, STALL_SECONDS_MAX), _TIMES_AVERAGE * manager.times.average_seconds)

    async def _restart(self, manager: MessageManager) -> None:
        name, state = manager.queue.name, manager.describe()
        self._logger.error("%s: deliveries are stalled; starting them again. %s", name, state)
        manager.metrics.stalls += 1
        stalls = min(self._observations[manager].stalls + 1, 10) if manager in self._observations else 0
        if not await manager.reset():
            self._logger.error("%s: what its task is doing cannot be interrupted; trying again", name)
        ended, now, sent = manager.times.ended, self._clock.monotonic(), manager.metrics.sent
        self._observations[manager] = _Observation(ended, now, stalls, sent)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self.run_once()
            await self._pause(PERIOD_SECONDS)

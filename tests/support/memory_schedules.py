"""Schedules in memory, for tests of the engine that have none."""

from __future__ import annotations

from collections.abc import Sequence

from engine.clock import Clock
from engine.model.queue import QueueName
from engine.model.schedules import Schedule, ScheduleName, Unreadable
from engine.store.schedule_store import DueSchedules, Step, WaitingSchedules


class MemorySchedules:
    """A ScheduleStore without schedules; `calls` counts what is asked of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.calls = 0

    async def exists(self, database: str) -> bool:
        self.calls += 1
        return False

    async def make(self, database: str) -> None:
        self.calls += 1

    async def waiting(self, database: str) -> WaitingSchedules:
        self.calls += 1
        return WaitingSchedules(self._clock.now_ns(), {})

    async def due(self, database: str, names: Sequence[str]) -> DueSchedules:
        self.calls += 1
        return DueSchedules(self._clock.now_ns(), ())

    async def step(self, database: str, steps: Sequence[Step]) -> set[str]:
        self.calls += 1
        return set()

    async def note(self, schedule: ScheduleName, problem: str) -> None:
        self.calls += 1

    async def listed(self, database: str) -> list[Schedule | Unreadable]:
        self.calls += 1
        return []

    async def forget(self, queue: QueueName) -> int:
        self.calls += 1
        return 0

"""A ScheduleStore in memory: rows by name, the guard, and failures on demand."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.clock import Clock
from engine.model.errors import BackendError
from engine.model.queue import QueueName
from engine.model.schedules import Insertion, Schedule, ScheduleName, Unreadable
from engine.store.schedule_store import DueSchedules, Step, WaitingSchedule, WaitingSchedules


@dataclass
class MemorySchedules:
    """`calls` counts what is asked; `sent` are the messages. `refused`: queues that take none, and the error; `locked`:
    schedules that a client holds; `down`: what every call raises; `seconds`: how long a refused one takes."""

    clock: Clock
    rows: dict[str, Schedule] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    sent: list[Insertion] = field(default_factory=list)
    refused: dict[str, BackendError] = field(default_factory=dict)
    locked: set[str] = field(default_factory=set)
    down: BackendError | None = None
    seconds: float = 0.0

    def _called(self, what: str) -> None:
        self.calls[what] += 1
        if self.down is not None:
            raise self.down

    async def exists(self, database: str) -> bool:
        self._called("exists")
        return bool(self.rows)

    async def make(self, database: str) -> None:
        self._called("make")

    async def waiting(self, database: str) -> WaitingSchedules:
        self._called("waiting")
        schedules = {
            name: WaitingSchedule(row.next_ns, bool(row.problem)) for name, row in self.rows.items() if not row.paused
        }
        return WaitingSchedules(self.clock.now_ns(), schedules)

    async def due(self, database: str, names: Sequence[str]) -> DueSchedules:
        self._called("due")
        now_ns = self.clock.now_ns()
        rows = [self.rows[name] for name in names if name in self.rows]
        return DueSchedules(now_ns, tuple(row for row in rows if not row.paused and row.next_ns <= now_ns))

    async def step(self, database: str, steps: Sequence[Step]) -> dict[str, int]:
        self._called("step")
        for step in steps:
            if step.messages is not None and (error := self.refused.get(step.messages.target.table)) is not None:
                await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=self.seconds)
                raise error
        advanced: dict[str, int] = {}
        for step in steps:
            before, name = step.schedule, step.schedule.name.name
            row = self.rows.get(name)
            same = row is not None and (row.next_ns, row.changed_ns) == (before.next_ns, before.changed_ns)
            if row is not None and same and not row.paused and name not in self.locked:
                last_ns = row.last_ns if step.last_ns is None else step.last_ns
                self.rows[name] = replace(row, next_ns=step.next_ns, last_ns=last_ns, problem="")
                advanced[name] = 0 if step.messages is None else len(step.messages.rows)
                self.sent += [] if step.messages is None else [step.messages]
        return advanced

    async def note(self, schedule: ScheduleName, problem: str) -> None:
        self._called("note")
        self.rows[schedule.name] = replace(self.rows[schedule.name], problem=problem)

    async def listed(self, database: str) -> list[Schedule | Unreadable]:
        self._called("listed")
        return list(self.rows.values())

    async def forget(self, queue: QueueName) -> int:
        self._called("forget")
        gone = [name for name, row in self.rows.items() if row.queue == queue]
        for name in gone:
            del self.rows[name]
        return len(gone)

"""ScheduleStore: the engine's operations on a database's schedules. Implemented by schedule_table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.model.schedules import Insertion, Schedule, ScheduleName, Unreadable


class WaitingSchedule(NamedTuple):
    """A schedule that is not paused. `troubled`: its last tick could not be sent."""

    next_ns: int
    troubled: bool


@dataclass(frozen=True, slots=True)
class WaitingSchedules:
    """What ticks next in a database, by name. `now_ns`: the database's time."""

    now_ns: int
    schedules: Mapping[str, WaitingSchedule]


@dataclass(frozen=True, slots=True)
class DueSchedules:
    """Schedules that are due, with their values. `now_ns`: the database's time."""

    now_ns: int
    schedules: tuple[Schedule | Unreadable, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A schedule that advances to its tick `next_ns`, and its messages for `target`, if there are any. `last_ns`: their
    last tick. `missed`: how many ticks, at least, were missed."""

    schedule: Schedule
    next_ns: int
    last_ns: int | None
    messages: Insertion | None
    target: QueueSpec | TopicSpec | None = None
    missed: int = 0


class ScheduleStore(Protocol):
    """Every method is one transaction or one read, and raises BackendError."""

    async def exists(self, database: str) -> bool:
        """Whether the database has a table of schedules."""
        ...

    async def make(self, database: str) -> None:
        """Create that table, unless it exists."""
        ...

    async def waiting(self, database: str) -> WaitingSchedules:
        """The schedules by next tick, up to a bound."""
        ...

    async def due(self, database: str, names: Sequence[str]) -> DueSchedules:
        """Those of these schedules that are due and not paused."""
        ...

    async def step(self, database: str, steps: Sequence[Step]) -> dict[str, int]:
        """Advance schedules and send their messages, all in one transaction. Which of them were advanced, with how many
        messages: not those that another has advanced or changed, nor those that a client has locked. A message whose
        unique key is taken is not sent; its tick is done. On BackendError none was, unless its outcome is unknown."""
        ...

    async def note(self, schedule: ScheduleName, problem: str) -> None:
        """Store why a schedule's ticks cannot be sent."""
        ...

    async def listed(self, database: str) -> list[Schedule | Unreadable]:
        """All schedules, without their values; none where there is no table."""
        ...

    async def forget(self, queue: QueueName) -> int:
        """Delete the schedules of a queue; returns how many there were."""
        ...

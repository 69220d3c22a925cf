"""MemoryTraces: a TraceStore over a list, which can be made to fail or to hang."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.clock import Clock
from engine.model.errors import BackendError
from engine.model.queue import MessageId, QueueName
from engine.model.trace_event import TraceEvent
from engine.store.base import CleanupResult


@dataclass
class MemoryTraces:
    """See the module. `fails`: what writing raises; `after`: it has been written all the same. `free`: unset, writing
    hangs. `calls`: of writing."""

    clock: Clock
    events: list[TraceEvent] = field(default_factory=list)
    fails: BackendError | None = None
    after: bool = False
    free: asyncio.Event | None = None
    calls: list[tuple[TraceEvent, ...]] = field(default_factory=list)
    cleaned: list[tuple[QueueName, int]] = field(default_factory=list)

    async def write(self, database: str, events: Sequence[TraceEvent]) -> None:
        self.calls.append(tuple(events))
        if self.free is not None:
            await self.free.wait()
        if self.fails is None or self.after:
            known = {(event.process, event.number) for event in self.events}
            self.events += [event for event in events if (event.process, event.number) not in known]
        if self.fails is not None:
            raise self.fails

    async def of(self, queue: QueueName, id_: MessageId, limit: int) -> list[TraceEvent]:
        return [event for event in self.events if (event.queue, event.id) == (queue, id_)][-limit:]

    async def newest(self, queue: QueueName, since_ns: int, limit: int) -> list[TraceEvent]:
        found = [event for event in self.events if event.queue == queue and event.at_ns >= since_ns]
        return sorted(found, key=lambda event: event.at_ns, reverse=True)[:limit]

    async def queues(self, database: str) -> list[QueueName]:
        return sorted({event.queue for event in self.events if event.queue.database == database})

    async def clean(self, queue: QueueName, older_ns: int, limit: int) -> CleanupResult:
        self.cleaned.append((queue, older_ns))
        end_ns = self.clock.now_ns() - older_ns
        old = [event for event in self.events if event.queue == queue and event.at_ns < end_ns][:limit]
        self.events = [event for event in self.events if event not in old]
        return CleanupResult(len(old), len(old) == limit)

    async def ids_follow(self) -> bool:
        return True

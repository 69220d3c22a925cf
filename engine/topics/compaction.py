"""Compaction: of a topic's messages with the same value of a column only the newest stays.

It walks through the topic and continues from its last place, so each new message is examined once. What it could not
delete then, because it was scheduled for later or locked, is found by another walk from the beginning: an hour after
the last one began, or later where that took long. The place is in memory: another engine, or this one after a restart,
begins with a walk from the beginning.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from engine.context import EngineContext
from engine.model.queue import QueueName, TopicSpec
from engine.model.topics import CompactionResult

WALK_AGAIN_SECONDS = 3600.0
_WALKING_SHARE = 0.1  # of the time, at most, goes to walks from the beginning
_STEP_SECONDS_MAX = 1.0  # what took longer than that waited for the database


@dataclass(frozen=True, slots=True)
class _Walk:
    """`worked`: seconds of work. `place`: up to which id. `again_at`: when another one begins; None: it has not come to
    the end."""

    column: str
    began: float
    worked: float = 0.0
    place: int = 0
    again_at: float | None = None


class Compaction:
    """See the module."""

    def __init__(self, context: EngineContext) -> None:
        self._store, self._work, self._clock = context.store.topics, context.work, context.clock
        self._engine = context.host
        self._walks: dict[QueueName, _Walk] = {}

    def forget(self, topics: Container[QueueName]) -> None:
        """Forget all topics but these."""
        self._walks = {name: walk for name, walk in self._walks.items() if name in topics}

    async def step(self, topic: TopicSpec, limit: int) -> CompactionResult:
        """Examine the next messages, up to `limit`, and delete what they supersede. Raises BackendError."""
        walk, began = self._walk(topic), self._clock.monotonic()
        groups = tuple(self._engine.catalog.groups_of(topic.name).values())
        done = await self._work.run(self._store.compact(topic, groups, walk.place, limit))
        worked = walk.worked + min(self._clock.monotonic() - began, _STEP_SECONDS_MAX)
        walk = replace(walk, place=done.place, worked=worked)
        if not done.more and walk.again_at is None:
            seconds = max(WALK_AGAIN_SECONDS, walk.worked / _WALKING_SHARE)
            walk = replace(walk, again_at=walk.began + seconds)
        self._walks[topic.name] = walk
        return done

    def _walk(self, topic: TopicSpec) -> _Walk:
        """The walk in progress, or a new one."""
        column, now = (topic.options.compact or "").lower(), self._clock.monotonic()
        known = self._walks.get(topic.name)
        if known is None or known.column != column or (known.again_at is not None and now >= known.again_at):
            return _Walk(column, now)
        return known

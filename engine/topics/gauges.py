"""TopicGauges: the values of all topics and groups for a monitor that polls them: bounded, one query after the other.

Nothing is counted that grows with a backlog: the ids beyond a group's offset count as its unread messages. Values
younger than FRESH_SECONDS are not queried again; concurrent callers wait for the same result. What the database has not
returned within SURVEY_SECONDS is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.background.surveyor import FRESH_SECONDS, SURVEY_SECONDS
from engine.context import EngineContext
from engine.model.errors import EngineError
from engine.model.queue import QueueCatalog, QueueName, QueueSpec
from engine.model.topics import GroupLag, TopicExtent


@dataclass(frozen=True, slots=True)
class Gauges:
    """The values of topics, and of groups by their queues."""

    extents: Mapping[QueueName, TopicExtent] = field(default_factory=dict)
    lags: Mapping[QueueName, GroupLag] = field(default_factory=dict)


class TopicGauges:
    """See the module."""

    def __init__(self, context: EngineContext) -> None:
        self._log, self._work, self._clock = context.store.topics, context.work, context.clock
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._read = Gauges()

    async def read(self, catalog: QueueCatalog) -> Gauges:
        """Of all topics and groups of the catalog."""
        async with self._lock:
            if self._clock.monotonic() - self._read_at >= FRESH_SECONDS:
                self._read = await self._query(catalog)
                self._read_at = self._clock.monotonic()
            return self._read

    async def _query(self, catalog: QueueCatalog) -> Gauges:
        extents: dict[QueueName, TopicExtent] = {}
        lags: dict[QueueName, GroupLag] = {}
        try:
            async with asyncio.timeout(SURVEY_SECONDS):
                for name in catalog.topics:
                    await self._query_topic(name, catalog, extents, lags)
        except TimeoutError:
            pass
        return Gauges(extents, lags)

    async def _query_topic(
        self,
        name: QueueName,
        catalog: QueueCatalog,
        extents: dict[QueueName, TopicExtent],
        lags: dict[QueueName, GroupLag],
    ) -> None:
        try:
            extents[name] = await self._work.run(self._log.extent(catalog.topics[name]))
            for group in catalog.groups_of(name).values():
                lags[group.name] = await self._lag(group, name, catalog)
        except EngineError:
            pass  # SHOW TOPICS and SHOW GROUPS report the problem

    async def _lag(self, group: QueueSpec, topic: QueueName, catalog: QueueCatalog) -> GroupLag:
        return await self._work.run(self._log.lag(group, catalog.topics[topic], counted=False))

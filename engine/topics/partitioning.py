"""Partitioning: divides topics with the option `partition` ahead of their ids, and drops whole partitions.

What cannot go with a partition is deleted row by row, by retention. Where partitions serve, this leaves it some time
first. While others use a table, or the right to its partitions is missing, tries become rarer: each makes who comes
meanwhile wait for up to a second.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from engine.clock import Clock
from engine.database_work import DatabaseWork
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.model.topic_partitions import NO_GRACE, Grace, grace_of
from engine.store.base import TopicStore

_RARER_MAX = 12
"""Periods between two tries, at most: a minute, by default."""

_TRIES_TOLD = 5
"""After so many tries in vain it is told; two minutes, by default."""

_IN_USE = (
    "partition: a long transaction uses the topic, or a backup forbids changes: its table cannot be locked for the"
    " moment in which partitions are made and dropped. What is out of retention for two intervals goes row by row"
)


@dataclass(slots=True)
class _Standing:
    """What is known of one topic. `tries`: in vain, one after another; `rest_until`: when the next one is due.
    `counting`: what is in its first partition is not counted to its end."""

    grace: Grace = NO_GRACE
    problem: str | None = None
    tries: int = 0
    counting: bool = False
    rest_until: float = 0.0


class Partitioning:
    """See the module."""

    def __init__(
        self,
        store: TopicStore,
        work: DatabaseWork,
        clock: Clock,
        logger: logging.Logger,
        period_seconds: float,
    ) -> None:
        self._store, self._work, self._clock, self._logger = store, work, clock, logger
        self._period = period_seconds
        self._standings: dict[QueueName, _Standing] = {}

    def forget(self, topics: Container[QueueName]) -> None:
        """Forget topics that are not among these."""
        self._standings = {name: standing for name, standing in self._standings.items() if name in topics}

    def problem(self, topic: QueueName) -> str | None:
        """Why partitions of a topic are not made, or not dropped; None where they are, or are not asked for."""
        standing = self._standings.get(topic)
        return None if standing is None else standing.problem

    def counts(self, topic: QueueName) -> bool:
        """Whether what is in a topic's first partition is being counted, so that nothing is to be deleted from it."""
        standing = self._standings.get(topic)
        return standing is not None and standing.counting

    def grace(self, topic: TopicSpec) -> Grace:
        """What row by row leaves to be dropped."""
        standing = self._standings.get(topic.name)
        return NO_GRACE if standing is None or topic.options.partition_ns is None else standing.grace

    async def run(
        self, topic: TopicSpec, groups: Sequence[QueueSpec], lost: Counter[QueueName], ends: Callable[[], bool]
    ) -> int:
        """Divide a topic, and drop its partitions until one stays or it `ends`. Returns how many messages were deleted;
        adds what groups had not read of them.

        Raises:
            BackendUnavailable.
        """
        if topic.options.partition_ns is None:
            self._standings.pop(topic.name, None)
            return 0
        standing = self._standings.setdefault(topic.name, _Standing())
        standing.counting = False
        if self._clock.monotonic() < standing.rest_until:
            return 0
        try:
            deleted, waits = await self._run(topic, topic.options.partition_ns, standing, groups, lost, ends)
        except BackendUnavailable:
            raise
        except BackendError as error:
            self._tell(topic, standing, f"partition: messages are deleted row by row: {error.message}")
            standing.grace = NO_GRACE
            self._rest(standing)
            return 0
        if waits:
            if standing.tries >= _TRIES_TOLD:
                self._tell(topic, standing, _IN_USE)
            self._rest(standing)
        else:
            standing.tries = 0
        return deleted

    async def _run(
        self,
        topic: TopicSpec,
        interval_ns: int,
        standing: _Standing,
        groups: Sequence[QueueSpec],
        lost: Counter[QueueName],
        ends: Callable[[], bool],
    ) -> tuple[int, bool]:
        divided = await self._work.run(self._store.partitions.divide(topic))
        waits, deleted = divided.waits, 0
        while divided.whole and not waits and not ends():
            dropped = await self._work.run(self._store.partitions.drop_first(topic, groups))
            waits, standing.counting = dropped.waits, dropped.more
            if dropped.partition is None:
                if dropped.more:
                    continue
                break
            deleted += dropped.messages
            lost.update(dropped.lost)
            self._logger.info(
                "dropped partition %s of topic %s: %d messages", dropped.partition, topic.name, dropped.messages
            )
        self._tell(topic, standing, divided.problem)
        standing.grace = grace_of(interval_ns, divided.width) if divided.whole else NO_GRACE
        return deleted, waits

    def _tell(self, topic: TopicSpec, standing: _Standing, problem: str | None) -> None:
        if problem is not None and standing.problem is None:
            self._logger.warning("topic %s: %s", topic.name, problem)
        standing.problem = problem

    def _rest(self, standing: _Standing) -> None:
        periods = min(1 << standing.tries, _RARER_MAX)
        standing.tries = min(standing.tries + 1, _RARER_MAX)
        standing.rest_until = self._clock.monotonic() + periods * self._period

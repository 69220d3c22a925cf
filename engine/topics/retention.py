"""Retention: deletes messages beyond the retention of the topics of a database, in small batches, at the purger's pace.

One pass deletes from each topic batch after batch until one is not full, at most for one period; then it compacts it in
the same way. For a topic with the option `partition`, whole partitions are dropped first. Before that, it assigns
numbers to the messages of a topic with the option `sequence`: the topic may have no reader, and messages without a
number are not deleted. Messages that a group had not read are counted for the group, and logged, so its loss is always
visible. Compacted messages are not lost: a newer message replaces them. While a group cannot be read, nothing is
deleted, for it may require that all be retained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from engine.background.pace import DeletingPace
from engine.context import EngineContext
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import QueueName, TopicSpec
from engine.model.topics import CompactionResult, RetentionResult, unread_groups
from engine.service import Service
from engine.topics.compaction import Compaction
from engine.topics.partitioning import Partitioning

PERIOD_SECONDS = 5.0
"""Between two passes, unless the last one did not finish; the default."""


class Retention(Service):
    """See the module."""

    def __init__(self, context: EngineContext, period_seconds: float = PERIOD_SECONDS) -> None:
        super().__init__("retention of topics", context.logger)
        self._context, self._period = context, period_seconds
        self._compaction = Compaction(context)
        self._partitioning = Partitioning(context, period_seconds)
        self._paces: dict[tuple[QueueName, str], DeletingPace] = {}
        self._problems: dict[QueueName, str] = {}

    def problem(self, topic: QueueName) -> str | None:
        """Why messages of a topic are not deleted, or not delivered whole; None where they are, or where another engine
        deletes them."""
        known = self._context.host.catalog.topics.get(topic)
        if known is None:
            return self._problems.get(topic)
        if known.options.deletes and (unreadable := self._unreadable_group(topic)):
            return unreadable
        problem = self._problems.get(topic) or self._partitioning.problem(topic)
        return known.unsequenced or problem or known.uncompacted or known.reserved

    def problems(self) -> dict[QueueName, str]:
        """The same of all topics."""
        known = self._context.host.catalog.topics
        return {topic: text for topic in known if (text := self.problem(topic)) is not None}

    async def run_once(self) -> int:
        """Delete messages beyond the retention. Returns how many were deleted."""
        known = self._context.host.catalog.topics
        topics = {name: topic for name, topic in known.items() if topic.options.deletes or topic.sequenced}
        self._paces = {key: pace for key, pace in self._paces.items() if key[0] in topics}
        self._compaction.forget(topics)
        self._partitioning.forget(topics)
        self._problems = {name: text for name, text in self._problems.items() if name in topics}
        return sum([await self._pass(topic) for topic in topics.values()])

    async def _pass(self, topic: TopicSpec) -> int:
        try:
            deleted = await self._delete(topic)
        except BackendError as error:
            if topic.name not in self._problems and not isinstance(error, BackendUnavailable):  # once per outage
                self._logger.warning("retention of topic %s failed: %s", topic.name, error)
            self._problems[topic.name] = f"retention failed: {self._unreadable_group(topic.name) or error.number_only}"
            for key, pace in self._paces.items():
                pace.behind = pace.behind and key[0] != topic.name
            return 0
        self._problems.pop(topic.name, None)
        return deleted

    async def _delete(self, topic: TopicSpec) -> int:
        if topic.sequenced:
            await self._repeat((topic.name, "number"), lambda _: self._number(topic))
        if unreadable := self._unreadable_group(topic.name):
            raise BackendError(unreadable)
        deleted, lost = 0, Counter[QueueName]()
        if topic.options.limited:
            try:
                deleted += await self._drop_partitions(topic, lost)
            finally:
                self._log_lost(topic, lost)
                lost.clear()
            if not self._partitioning.counts(topic.name):
                deleted += await self._repeat((topic.name, "retain"), partial(self._retain, topic, lost))
            self._log_lost(topic, lost)
        if topic.options.compact is not None and topic.uncompacted is None:
            deleted += await self._repeat((topic.name, "compact"), partial(self._compaction.step, topic))
        return deleted

    async def _repeat(
        self, key: tuple[QueueName, str], step: Callable[[int], Awaitable[RetentionResult | CompactionResult]]
    ) -> int:
        """Do a step until it leaves nothing, at most for one period. Returns how many messages were deleted."""
        clock, pace = self._context.clock, self._paces.setdefault(key, DeletingPace())
        deadline, deleted = clock.monotonic() + self._period, 0
        while True:
            began = clock.monotonic()
            done = await step(pace.batch)
            deleted += done.deleted
            pace.behind = done.more and clock.monotonic() >= deadline
            if not done.more or pace.behind or self._stopping.is_set():
                return deleted
            await self._pause(pace.rest(clock.monotonic() - began))

    async def _drop_partitions(self, topic: TopicSpec, lost: Counter[QueueName]) -> int:
        groups = tuple(self._context.host.catalog.groups_of(topic.name).values())
        deadline = self._context.clock.monotonic() + self._period

        def ends() -> bool:
            return self._stopping.is_set() or self._context.clock.monotonic() >= deadline

        return await self._partitioning.run(topic, groups, lost, ends)

    def _log_lost(self, topic: TopicSpec, lost: Counter[QueueName]) -> None:
        for group, count in lost.items():
            self._logger.warning(
                "the retention of topic %s deleted %d messages that the consumer group of %s had not read",
                topic.name,
                count,
                group,
            )

    def _unreadable_group(self, topic: QueueName) -> str | None:
        for name, reason in unread_groups(self._context.host.catalog, topic).items():
            return f"the consumer group of {name} cannot be read, and may need the messages: {reason}"
        return None

    async def _retain(self, topic: TopicSpec, lost: Counter[QueueName], limit: int) -> RetentionResult:
        context = self._context
        groups = tuple(context.host.catalog.groups_of(topic.name).values())
        grace = self._partitioning.grace(topic)
        step = await context.work.run(context.store.topics.retain(topic, groups, limit, grace))
        lost.update(step.lost)
        return step

    async def _number(self, topic: TopicSpec) -> RetentionResult:
        numbered = await self._context.work.run(self._context.store.topics.number(topic))
        return RetentionResult(0, numbered.more, {})

    async def _run(self) -> None:
        # The jitter is 2/3 to 4/3; stretched to 0 to 1 of the period, so that several engines do not begin together.
        await self._pause(self._period * (self._context.jitter() - 2 / 3) * 1.5)
        while not self._stopping.is_set():
            if self._context.host.leads:
                await self.run_once()
            else:  # what was in the way here may not be where the messages are deleted now
                self._problems.clear()
                self._partitioning.forget(())
            if not (self._context.host.leads and any(pace.behind for pace in self._paces.values())):
                await self._pause(self._period)

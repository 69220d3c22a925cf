"""Partitioning: divides topics with the option `partition` ahead of their ids, and drops whole partitions.

Messages that cannot be dropped with a partition are deleted row by row, by retention. Where partitions work, retention
gives them some time first. While other sessions use a table, or the privilege for its partitions is missing, tries
become rarer, because each makes other sessions wait for up to a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from engine.context import EngineContext
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.model.topic_partitions import NO_GRACE, Grace, grace_of

_RARER_MAX = 12
"""Periods between two tries, at most: a minute, by default."""

_TRIES_REPORTED = 5
"""After so many failed tries it is reported; two minutes, by default."""

_IN_USE = (
    "partition: a long transaction uses the topic, or a backup forbids changes: its table cannot be locked for the"
    " moment in which partitions are made and dropped. What is out of retention for two intervals goes row by row"
)


@dataclass(slots=True)
class _State:
    """The state of one topic. `tries`: failed in a row; `retry_at`: when the next one is due. `counting`: the messages
    of its first partition are not all counted yet."""

    grace: Grace = NO_GRACE
    problem: str | None = None
    tries: int = 0
    counting: bool = False
    retry_at: float = 0.0


class Partitioning:
    """See the module."""

    def __init__(self, context: EngineContext, period_seconds: float) -> None:
        self._store, self._work = context.store.topics, context.work
        self._clock, self._logger = context.clock, context.logger
        self._period = period_seconds
        self._states: dict[QueueName, _State] = {}

    def forget(self, topics: Container[QueueName]) -> None:
        """Forget topics that are not among these."""
        self._states = {name: state for name, state in self._states.items() if name in topics}

    def problem(self, topic: QueueName) -> str | None:
        """Why partitions of a topic are not created, or not dropped; None where they are, or are not configured."""
        state = self._states.get(topic)
        return None if state is None else state.problem

    def counts(self, topic: QueueName) -> bool:
        """Whether what is in a topic's first partition is being counted, so that nothing is to be deleted from it."""
        state = self._states.get(topic)
        return state is not None and state.counting

    def grace(self, topic: TopicSpec) -> Grace:
        """What deletion row by row leaves for partitions."""
        state = self._states.get(topic.name)
        return NO_GRACE if state is None or topic.options.partition_ns is None else state.grace

    async def run(
        self, topic: TopicSpec, groups: Sequence[QueueSpec], lost: Counter[QueueName], ends: Callable[[], bool]
    ) -> int:
        """Divide a topic, and drop its partitions until one stays or it `ends`. Returns how many messages were deleted;
        adds what groups had not read of them.

        Raises:
            BackendUnavailable.
        """
        if topic.options.partition_ns is None:
            self._states.pop(topic.name, None)
            return 0
        state = self._states.setdefault(topic.name, _State())
        state.counting = False
        if self._clock.monotonic() < state.retry_at:
            return 0
        try:
            deleted, waits = await self._run(topic, topic.options.partition_ns, state, groups, lost, ends)
        except BackendUnavailable:
            raise
        except BackendError as error:
            problem = f"partition: messages are deleted row by row: {error.number_only}"
            self._set_problem(topic, state, problem, error)
            state.grace = NO_GRACE
            self._postpone(state)
            return 0
        if waits:
            if state.tries >= _TRIES_REPORTED:
                self._set_problem(topic, state, _IN_USE)
            self._postpone(state)
        else:
            state.tries = 0
        return deleted

    async def _run(
        self,
        topic: TopicSpec,
        interval_ns: int,
        state: _State,
        groups: Sequence[QueueSpec],
        lost: Counter[QueueName],
        ends: Callable[[], bool],
    ) -> tuple[int, bool]:
        divided = await self._work.run(self._store.partitions.divide(topic))
        waits, deleted = divided.waits, 0
        while divided.whole and not waits and not ends():
            dropped = await self._work.run(self._store.partitions.drop_first(topic, groups))
            waits, state.counting = dropped.waits, dropped.more
            if dropped.partition is None:
                if dropped.more:
                    continue
                break
            deleted += dropped.messages
            lost.update(dropped.lost)
            self._logger.info(
                "dropped partition %s of topic %s: %d messages", dropped.partition, topic.name, dropped.messages
            )
        self._set_problem(topic, state, divided.problem)
        state.grace = grace_of(interval_ns, divided.width) if divided.whole else NO_GRACE
        return deleted, waits

    def _set_problem(
        self, topic: TopicSpec, state: _State, problem: str | None, error: BackendError | None = None
    ) -> None:
        """`error`: of the database, for the log alone."""
        if problem is not None and state.problem is None:
            self._logger.warning("topic %s: %s", topic.name, problem if error is None else f"{problem}: {error}")
        state.problem = problem

    def _postpone(self, state: _State) -> None:
        periods = min(1 << state.tries, _RARER_MAX)
        state.tries = min(state.tries + 1, _RARER_MAX)
        state.retry_at = self._clock.monotonic() + periods * self._period

"""When a topic's partitions are looked at, what rows are left to them, and what is told where they do not serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine_parts import Host, engine_context, of_topics
from memory_topics import TOPIC, make_topic
from virtual_time import VirtualClock, in_virtual_time, pass_time

from engine.model.errors import BackendError
from engine.model.queue import QueueCatalog, QueueSpec, TopicSpec
from engine.model.topic_options import parse_topic_options
from engine.model.topic_partitions import NO_GRACE, Grace, grace_of
from engine.model.topics import RetentionResult
from engine.store.base import DivideResult, DropResult
from engine.topics.retention import PERIOD_SECONDS, Retention

_OPTIONS = parse_topic_options({"retain": "7d", "partition": "1d"})
WHOLE = grace_of(_OPTIONS.partition_ns or 0, 10_000)


@dataclass
class Store:
    """Answers as it is told; `graces` are those with which rows were deleted."""

    divided: DivideResult | BackendError = field(default_factory=lambda: DivideResult(whole=True, width=10_000))
    dropped: list[DropResult] = field(default_factory=list)
    looks: int = 0
    graces: list[Grace] = field(default_factory=list)

    @property
    def partitions(self) -> Store:
        return self

    async def divide(self, topic: TopicSpec) -> DivideResult:
        self.looks += 1
        if isinstance(self.divided, BackendError):
            raise self.divided
        return self.divided

    async def drop_first(self, topic: TopicSpec, groups: Sequence[QueueSpec]) -> DropResult:
        await pass_time(1.0)
        return self.dropped.pop(0) if self.dropped else DropResult()

    async def retain(self, topic: TopicSpec, groups: Sequence[QueueSpec], limit: int, grace: Grace) -> RetentionResult:
        self.graces.append(grace)
        return RetentionResult(0, False, {})


def retention_of(store: Store) -> Retention:
    """Not open: its passes are made by the test."""
    topic = dataclasses.replace(make_topic(), options=_OPTIONS)
    host = Host(QueueCatalog(1, topics={TOPIC: topic}))
    return Retention(engine_context(of_topics(store), VirtualClock(), host))


async def passes(retention: Retention, count: int) -> None:
    for _ in range(count):
        await retention.run_once()
        await pass_time(PERIOD_SECONDS)


@in_virtual_time
async def test_partitions_go_first_and_rows_have_two_intervals_longer() -> None:
    store = Store(dropped=[DropResult("p1", 5), DropResult("p2", 7)])
    assert await retention_of(store).run_once() == 12
    assert store.graces == [WHOLE]


@in_virtual_time
async def test_no_rows_are_deleted_while_a_partition_is_counted() -> None:
    store = Store(dropped=[DropResult(more=True)] * 12 + [DropResult("p1", 5)])
    retention = retention_of(store)
    assert [await retention.run_once() for _ in range(3)] == [0, 0, 5]
    assert store.graces == [WHOLE]


@in_virtual_time
async def test_tries_become_rarer_while_others_use_the_table_and_that_is_told() -> None:
    store = Store(divided=DivideResult(whole=True, width=10_000, waits=True))
    retention = retention_of(store)
    await passes(retention, 16)
    assert store.looks == 5, "after 1, 2, 4 and 8 periods"
    assert retention.problem(TOPIC) is None
    await passes(retention, 13)
    assert store.looks == 6
    assert "a long transaction" in (retention.problem(TOPIC) or "")
    assert set(store.graces) == {WHOLE} and len(store.graces) == 29, "rows go all the while"
    store.divided = DivideResult(whole=True, width=10_000)
    await passes(retention, 13)
    assert retention.problem(TOPIC) is None
    looks = store.looks
    await passes(retention, 3)
    assert store.looks == looks + 3


@in_virtual_time
async def test_where_a_right_is_missing_all_goes_row_by_row() -> None:
    store = Store(divided=BackendError("ALTER command denied", 1142, "42000"))
    retention = retention_of(store)
    await passes(retention, 3)
    assert "error 1142" in (retention.problem(TOPIC) or "")
    assert store.graces == [NO_GRACE] * 3


@in_virtual_time
async def test_where_the_table_is_not_partitioned_all_goes_row_by_row() -> None:
    store = Store(divided=DivideResult(whole=False, width=0, problem="not partitioned"))
    retention = retention_of(store)
    await passes(retention, 1)
    assert (retention.problem(TOPIC), store.graces) == ("not partitioned", [NO_GRACE])

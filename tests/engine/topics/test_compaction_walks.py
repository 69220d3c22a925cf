"""When a topic is compacted and from where on, and what retention does once another engine is to do it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine_parts import Host, engine_context, of_topics
from memory_topics import TOPIC, make_topic
from virtual_time import VirtualClock, in_virtual_time, pass_time

from engine.model.errors import BackendError
from engine.model.queue import IndexInfo, QueueCatalog, QueueSpec, TopicSpec
from engine.model.topic_options import TopicOptions
from engine.model.topics import CompactionResult
from engine.topics.compaction import WALK_AGAIN_SECONDS
from engine.topics.retention import PERIOD_SECONDS, Retention

COMPACTED = dataclasses.replace(
    make_topic(), options=TopicOptions(compact="payload"), indexes=(IndexInfo(("payload",), False, "by_payload"),)
)


@dataclass
class Store:
    """A topic of which each step looks at one message; `last` is its end."""

    last: int = 0
    seconds: float = 0.0
    down: bool = False
    asked: list[int] = field(default_factory=list)

    async def compact(self, topic: TopicSpec, groups: Sequence[QueueSpec], place: int, limit: int) -> CompactionResult:
        await pass_time(self.seconds)
        self.asked.append(place)
        if self.down:
            raise BackendError("no right to it", 1142, "42000")
        place = min(place + 1, self.last)
        return CompactionResult(1, place, place < self.last)


class Made:
    """A retention of one topic, which is open while the test runs."""

    def __init__(self, store: Store, topic: TopicSpec = COMPACTED) -> None:
        self.store, self.topic = store, topic
        self.host = Host(of=self)
        self.retention = Retention(engine_context(of_topics(store), VirtualClock(), self.host))

    @property
    def catalog(self) -> QueueCatalog:
        return QueueCatalog(1, topics={TOPIC: self.topic})

    async def __aenter__(self) -> Made:
        await self.retention.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.retention.close(grace_seconds=30.0)


@in_virtual_time
async def test_it_goes_on_from_where_it_came_to_and_begins_again_after_an_hour() -> None:
    store = Store(last=3)
    async with Made(store):
        await pass_time(2 * PERIOD_SECONDS)
        assert store.asked[:4] == [0, 1, 2, 3]
        store.last = 5
        await pass_time(PERIOD_SECONDS)
        assert store.asked[-1] in (4, 5) and store.asked.count(0) == 1
        await pass_time(WALK_AGAIN_SECONDS - 3 * PERIOD_SECONDS)
        assert store.asked.count(0) == 1
        await pass_time(2 * PERIOD_SECONDS)
        assert store.asked.count(0) == 2


@in_virtual_time
async def test_a_walk_that_took_long_is_not_begun_again_so_soon() -> None:
    store = Store(last=1000, seconds=1.0)  # a thousand together, so another may begin after ten thousand
    async with Made(store):
        await pass_time(WALK_AGAIN_SECONDS + 2000.0)
        assert store.asked.count(0) == 1 and store.asked.count(999) == 1
        await pass_time(10_500.0 - WALK_AGAIN_SECONDS - 2000.0)
        assert store.asked.count(0) == 2


@in_virtual_time
async def test_waiting_for_the_database_does_not_put_off_the_next_walk() -> None:
    store = Store(last=2, seconds=1500.0)
    async with Made(store):
        await pass_time(3010.0)
        assert store.asked == [0, 1]
        store.seconds = 0.0
        await pass_time(WALK_AGAIN_SECONDS - 3010.0 + 1500.0 + 2 * PERIOD_SECONDS)
        assert store.asked.count(0) == 2


@in_virtual_time
async def test_another_column_begins_anew() -> None:
    store = Store(last=2)
    async with Made(store) as made:
        await pass_time(2 * PERIOD_SECONDS)
        made.topic = dataclasses.replace(
            COMPACTED,
            options=TopicOptions(compact="ID_"),
            columns=(*COMPACTED.columns[:-1], _renamed()),
            indexes=_BY_ID,
        )
        await pass_time(PERIOD_SECONDS)
        assert store.asked.count(0) == 2


_BY_ID = (IndexInfo(("id_",), False, "by_id_"),)


def _renamed() -> object:
    return dataclasses.replace(COMPACTED.columns[-1], name="id_")


@in_virtual_time
async def test_without_an_index_nothing_is_asked_of_the_database() -> None:
    store = Store(last=2)
    async with Made(store, dataclasses.replace(COMPACTED, indexes=())) as made:
        await pass_time(2 * PERIOD_SECONDS)
        assert store.asked == []
        assert "there is no index on (`payload`) alone" in (made.retention.problem(TOPIC) or "")


@in_virtual_time
async def test_a_failure_is_told_of_and_tried_again() -> None:
    store = Store(last=2, down=True)
    async with Made(store) as made:
        await pass_time(2 * PERIOD_SECONDS)
        assert made.retention.problem(TOPIC) == "retention failed: error 1142, which the log explains"
        store.down = False
        await pass_time(2 * PERIOD_SECONDS)
        assert made.retention.problem(TOPIC) is None and store.asked[-1] == 2


@in_virtual_time
async def test_who_no_longer_leads_waits_though_it_was_behind() -> None:
    store = Store(last=10_000)
    async with Made(store) as made:
        await pass_time(2 * PERIOD_SECONDS)
        made.host.leads = False
        await pass_time(2 * PERIOD_SECONDS)
        asked = len(store.asked)
        await pass_time(20 * PERIOD_SECONDS)  # which a loop without a pause would not let go by
        assert len(store.asked) == asked
        made.host.leads = True
        await pass_time(2 * PERIOD_SECONDS)
        assert len(store.asked) > asked

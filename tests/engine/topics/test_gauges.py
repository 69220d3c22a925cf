"""What a monitor asks of topics and groups: together, seldom, and without what the database does not tell in time."""

from __future__ import annotations

import asyncio

from engine_parts import engine_context, of_topics
from memory_store import COLUMNS
from memory_topics import TOPIC, LogRow, MemoryTopics, make_group, make_topic
from virtual_time import VirtualClock, in_virtual_time, pass_time

from engine.background.surveyor import FRESH_SECONDS, SURVEY_SECONDS
from engine.model.queue import QueueCatalog, QueueName
from engine.model.topics import GroupPosition
from engine.topics.gauges import TopicGauges

OTHER = QueueName("main", "others")
BILLING, AUDIT = (make_group(TOPIC, group, COLUMNS) for group in ("billing", "audit"))
CATALOG = QueueCatalog(
    1,
    {group.name: group for group in (BILLING, AUDIT)},
    topics={name: make_topic(name) for name in (TOPIC, OTHER)},
)


def made() -> tuple[MemoryTopics, TopicGauges]:
    """Ten messages, of which id 5 is missing; one group has read them."""
    clock = VirtualClock()
    log = MemoryTopics(clock)
    log.serve(*CATALOG.topics.values())
    log.add(*(LogRow(id_) for id_ in range(1, 11) if id_ != 5))
    log.positions = {BILLING.name: GroupPosition(10, 10), AUDIT.name: GroupPosition(2, 2)}
    return log, TopicGauges(engine_context(of_topics(log), clock, work=4))


@in_virtual_time
async def test_unread_messages_are_not_counted() -> None:
    log, gauges = made()
    await pass_time(30.0)
    told = await gauges.read(CATALOG)
    assert {name: lag.unread for name, lag in told.lags.items()} == {BILLING.name: 0, AUDIT.name: 8}
    assert told.lags[AUDIT.name].oldest_unread_age == 30.0
    assert told.lags[BILLING.name].oldest_unread_age is None
    assert (told.extents[TOPIC].last, told.extents[OTHER].last) == (10, None)
    assert log.calls == {"extent": 2, "lag": 2}


@in_virtual_time
async def test_who_asks_at_the_same_time_shares_the_answer() -> None:
    log, gauges = made()
    log.latency = 0.1
    first, second = await asyncio.gather(gauges.read(CATALOG), gauges.read(CATALOG))
    assert first is second and log.calls["lag"] == 2
    await pass_time(FRESH_SECONDS + 0.1)
    assert await gauges.read(CATALOG) is not first
    assert log.calls["lag"] == 4


@in_virtual_time
async def test_what_is_not_told_in_time_is_left_out() -> None:
    log, gauges = made()
    log.latency = SURVEY_SECONDS * 0.4
    told = await gauges.read(CATALOG)
    assert len(told.extents) + len(told.lags) == 2
    log.latency = 0.0
    await pass_time(FRESH_SECONDS + 0.1)
    assert len((await gauges.read(CATALOG)).lags) == 2


@in_virtual_time
async def test_a_topic_that_is_gone_hides_no_other() -> None:
    log, gauges = made()
    log.serve(make_topic(OTHER))
    told = await gauges.read(CATALOG)
    assert list(told.extents) == [OTHER] and not told.lags

"""What a look at a consumer group tells of what is still in its topic: so that it is looked at again when it should."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from store_benches import INDEX, SYSTEM, MySQLBench

from engine.model import topics
from engine.model.options import NS_PER_SECOND as SECOND
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import QueueCatalog, QueueName, QueueSpec
from engine.model.topics import HOLE_RETRY_NS, GroupPosition
from engine.store.operations import feed
from engine.store.statements import topics as statements

DELAYS = {0: 10 * SECOND}
OPTIONS = {"takes directly": {}, "is fed, then claimed": {"max_concurrency": 1000}}


@pytest.fixture
async def bench(fresh_url) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(fresh_url())
    times = "time_scheduled BIGINT NOT NULL DEFAULT 1, time_created BIGINT NOT NULL DEFAULT 1"
    await bench.run(f"CREATE TABLE log (id BIGINT AUTO_INCREMENT PRIMARY KEY, {times}) COMMENT='queuegate_topic'")
    yield bench
    await bench.close()


@pytest.fixture(params=OPTIONS)
async def group(bench, request) -> QueueSpec:
    """A group of the topic, by either way."""
    comment = to_comment(QueueOptions(topic="log", consumer_group="g", **OPTIONS[request.param]))
    columns = f"id BIGINT PRIMARY KEY, {SYSTEM}, queuegate_sought TINYINT NOT NULL DEFAULT 0, {INDEX}"
    await bench.run(f"CREATE TABLE log_group_g ({columns}) COMMENT='{comment}'")
    catalog = await bench.store.load_catalog(QueueCatalog())
    return catalog.queues[QueueName(bench.url.database, "log_group_g")]


async def add(bench, *ids) -> None:
    await bench.run(f"INSERT INTO log (id) VALUES {', '.join(f'({id_})' for id_ in ids)}")


async def claimed(bench, group, count):
    """The ids that a look and a claim lease, and the look."""
    found = await bench.store.poll_and_claim(group, count, count, (), DELAYS)
    return [message.id for message in found.claim.messages] if found.claim else [], found.poll


async def test_more_is_told_of_what_appeared_late_than_was_asked_for(bench, group):
    await add(bench, 10)
    assert (await claimed(bench, group, 2))[0] == [10]
    await add(bench, 1, 2, 3, 4, 5)  # as a transaction that began before and took long
    got = []
    for _ in range(3):
        ids, poll = await claimed(bench, group, 2)
        got += ids
        if not poll.more:
            break
    assert sorted(got) == [1, 2, 3, 4, 5]
    assert not poll.more


async def test_a_group_that_its_holes_hold_is_looked_at_again_but_not_at_once(bench, group, monkeypatch):
    monkeypatch.setattr(topics, "HOLES_MAX", 2)
    await add(bench, 2, 4, 6, 8)
    assert (await claimed(bench, group, 10))[0] == [2, 4]
    for _ in range(2):
        ids, poll = await claimed(bench, group, 10)
        assert (ids, poll.more) == ([], False), "more would be asked for again and again"
        assert poll.next_due_ns is not None and poll.next_due_ns <= poll.now_ns + HOLE_RETRY_NS
    await add(bench, 1)
    ids, poll = await claimed(bench, group, 10)
    assert (ids, poll.more) == ([1], True), "now there is room for one"
    assert (await claimed(bench, group, 10))[0] == [6]


async def test_what_appeared_late_comes_before_what_was_written_then_however_much_it_is(bench, group, monkeypatch):
    for module in (feed, statements):
        monkeypatch.setattr(module, "LATE_MAX", 2)
    await add(bench, 10)
    got = (await claimed(bench, group, 10))[0]
    await add(bench, 1, 2, 3, 4, 5)
    await add(bench, 11)
    more = True
    while more:
        ids, poll = await claimed(bench, group, 10)
        got, more = [*got, *ids], poll.more
    assert got == [10, 1, 2, 3, 4, 5, 11]


@pytest.mark.parametrize("before", [True, False], ids=["before_holes_are_looked_at", "after_it"])
async def test_a_broadcast_sends_nothing_before_what_was_committed_when_it_was_written(bench, monkeypatch, before):
    """Two commits while a page is read: the first fills a hole, the second lies beyond the offset."""
    await add(bench, 10)
    name = QueueName(bench.url.database, "log")
    topic = (await bench.store.load_catalog(QueueCatalog())).topics[name]
    first = await bench.store.topics.read(topic, GroupPosition(0, 0), 100)
    visible = feed.visible

    def slow(*arguments):
        if before:
            bench.connection.cursor().execute("INSERT INTO log (id) VALUES (1), (11)")
        found = visible(*arguments)
        if not before:
            bench.connection.cursor().execute("INSERT INTO log (id) VALUES (1), (11)")
        return found

    monkeypatch.setattr(feed, "visible", slow)
    second = await bench.store.topics.read(topic, first.position, 100)
    monkeypatch.undo()
    third = await bench.store.topics.read(topic, second.position, 100)
    assert [row[0] for row in (*second.rows, *third.rows)] == [b"1", b"11"]

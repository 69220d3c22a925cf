"""Compaction on a server: what it finds and deletes beside the transactions of others, what it costs, and how a group
reads a topic of which hardly anything is left."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable

import pytest
from slowness import scaled
from store_benches import INDEX, SYSTEM, MySQLBench

from engine.backend.base import StoreConnection
from engine.backend.mysql import MySQLPool
from engine.model import topics
from engine.model.errors import LockWaitTimeout
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, TopicSpec
from engine.model.topics import Settled
from engine.store.operations.compaction import Compacting, SupersededPage, compact, find_superseded
from engine.store.statements.mysql import MYSQL

DEADLINE = 60.0
_EVERYTHING = Settled(1 << 60, 1 << 62)


@pytest.fixture
async def bench(fresh_url, monkeypatch) -> AsyncIterator[MySQLBench]:
    monkeypatch.setattr(topics, "SETTLE_NS", 0)
    monkeypatch.setattr("engine.store.topic_state._SHARED_SECONDS", 0.0)
    bench = await MySQLBench.open(fresh_url())
    times = "time_scheduled BIGINT NOT NULL DEFAULT 1, time_created BIGINT NOT NULL DEFAULT 1"
    await bench.run(
        f"CREATE TABLE log (id BIGINT AUTO_INCREMENT PRIMARY KEY, {times}, k INT, KEY by_time (time_created),"
        " KEY by_key (k)) COMMENT='queuegate_topic,compact=k,compact_after=0s'"
    )
    comment = to_comment(QueueOptions(topic="log", consumer_group="g"))
    columns = f"id BIGINT PRIMARY KEY, {SYSTEM}, queuegate_sought TINYINT NOT NULL DEFAULT 0, {INDEX}"
    await bench.run(f"CREATE TABLE log_group_g ({columns}) COMMENT='{comment}'")
    yield bench
    await bench.close()


@pytest.fixture
async def pool(bench) -> AsyncIterator[MySQLPool]:
    pool = MySQLPool(bench.url, size=2)
    yield pool
    await pool.close()


async def catalog_of(bench: MySQLBench) -> QueueCatalog:
    return await bench.store.load_catalog(QueueCatalog())


async def topic_of(bench: MySQLBench) -> TopicSpec:
    return (await catalog_of(bench)).topics[QueueName(str(bench.url.database), "log")]


async def group_of(bench: MySQLBench, **options: str) -> QueueSpec:
    group = (await catalog_of(bench)).queues[QueueName(str(bench.url.database), "log_group_g")]
    return dataclasses.replace(group, options=dataclasses.replace(group.options, **options))


async def add(bench: MySQLBench, *keys: int) -> None:
    await bench.run(f"INSERT INTO log (k) VALUES {', '.join(f'({key})' for key in keys)}")


async def ids(bench: MySQLBench) -> list[int]:
    return [row[0] for row in await bench.run("SELECT id FROM log ORDER BY id")]


class Walk:
    """Compacts the topic step by step, as the engine does."""

    def __init__(self, bench: MySQLBench, topic: TopicSpec, *groups: QueueSpec, limit: int = 500) -> None:
        self.bench, self.topic, self.groups, self.limit = bench, topic, groups, limit
        self.place = 0

    async def step(self) -> None:
        done = await self.bench.store.topics.compact(self.topic, self.groups, self.place, self.limit)
        self.place = done.place

    async def until(self, place: int) -> None:
        deadline = time.monotonic() + scaled(DEADLINE)
        while self.place < place:
            assert time.monotonic() < deadline, f"it came to {self.place}"
            await self.step()


def finding(topic: TopicSpec, place: int = 0, limit: int = 500) -> Callable[[StoreConnection], SupersededPage]:
    """One look at what can be deleted, where all that is there is settled."""
    return lambda connection: find_superseded(connection, Compacting(MYSQL, topic, ()), _EVERYTHING, place, limit)


def deleting(topic: TopicSpec, found: SupersededPage) -> Callable[[StoreConnection], list[int]]:
    return lambda connection: compact(connection, Compacting(MYSQL, topic, ()), found)


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
async def test_a_walk_leaves_the_newest_of_each_value_whatever_its_batches(bench, limit):
    keys = [1, 2, 1, 1, 3, 2, 2, 4, 1, 3]
    await add(bench, *keys)
    walk = Walk(bench, await topic_of(bench), limit=limit)
    await walk.until(len(keys))
    assert await ids(bench) == [7, 8, 9, 10]
    await add(bench, 4, 4, 1)
    await walk.until(13)
    assert await ids(bench) == [7, 10, 12, 13]


async def test_nothing_is_walked_over_that_an_open_transaction_may_still_write(bench):
    walk = Walk(bench, await topic_of(bench))
    await add(bench, 1)
    with bench.holder.cursor() as cursor:
        cursor.execute("INSERT INTO log (k) VALUES (1)")  # 2
    await add(bench, 1, 2)  # 3, 4
    for _ in range(5):
        await walk.step()
    assert (walk.place, await ids(bench)) == (0, [1, 3, 4])
    bench.holder.commit()
    await walk.until(4)
    assert await ids(bench) == [3, 4]


async def test_what_is_locked_is_passed_over_and_not_waited_for(bench, pool):
    topic = await topic_of(bench)
    await add(bench, 1, 2, 1, 2, 3, 3)
    bench.table = "log"
    await bench.lock(1)
    await bench.lock(4)  # the newest of its value: what it stands for stays, too
    assert await pool.write(deleting(topic, await pool.read(finding(topic)))) == [5]
    bench.holder.rollback()
    assert await pool.write(deleting(topic, await pool.read(finding(topic)))) == [1, 2]
    assert await ids(bench) == [3, 4, 6]


async def test_retention_passes_over_what_is_locked_too(bench):
    """It has locked the positions of all groups, so none would be fed while it waits."""
    topic = await topic_of(bench)
    topic = dataclasses.replace(topic, options=dataclasses.replace(topic.options, compact=None, retain_rows=2))
    await add(bench, 1, 2, 3, 4, 5, 6)
    bench.table = "log"
    await bench.lock(2)
    async with asyncio.timeout(scaled(DEADLINE)):
        deleted = [await bench.store.topics.retain(topic, (await group_of(bench),), limit) for limit in (3, 10)]
        assert [(each.deleted, each.more, sum(each.lost.values())) for each in deleted] == [(2, True, 2), (1, False, 1)]
        with pytest.raises(LockWaitTimeout):
            await bench.store.topics.retain(topic, (), 1)
    assert await ids(bench) == [2, 5, 6]
    bench.holder.rollback()
    assert (await bench.store.topics.retain(topic, (), 10)).deleted == 1


async def test_a_message_whose_newer_one_is_gone_meanwhile_stays(bench, pool):
    topic = await topic_of(bench)
    await add(bench, 1, 1, 2, 2)
    found = await pool.read(finding(topic))
    assert found == SupersededPage({1: 2, 3: 4}, 4, False)
    await bench.run("DELETE FROM log WHERE id = 2")
    assert await pool.write(deleting(topic, found)) == [3]
    assert await ids(bench) == [1, 4]


async def test_a_batch_holds_up_no_insert(bench, pool):
    """Whatever is written while its locks are held: at the end, and with the values of what it deletes."""
    topic = await topic_of(bench)
    await add(bench, *[1, 2, 3] * 100)
    found = await pool.read(finding(topic))
    await bench.run("SET SESSION innodb_lock_wait_timeout = 1")

    def work(connection: StoreConnection) -> list[int]:
        deleted = compact(connection, Compacting(MYSQL, topic, ()), found)
        bench._run("INSERT INTO log (k) VALUES (0), (1), (2), (3), (4)", ())
        return deleted

    assert len(await pool.write(work)) == 297
    assert await ids(bench) == [298, 299, 300, 301, 302, 303, 304, 305]


async def test_a_look_costs_the_same_whatever_the_topic_has(bench, pool):
    """One value with 20,000 messages, most of them beyond the place, and 20,000 values."""
    await bench.run("INSERT INTO log (k) SELECT IF(seq % 2, 0, seq) FROM seq_1_to_40000")
    await bench.run("ANALYZE TABLE log")
    topic = await topic_of(bench)

    def work(connection: StoreConnection) -> int:
        def read() -> int:
            return sum(int(row[1]) for row in connection.query("SHOW SESSION STATUS LIKE 'Handler_read%'"))

        before = read()
        found = find_superseded(connection, Compacting(MYSQL, topic, ()), _EVERYTHING, 1000, 500)
        assert (len(found.superseded), found.place) == (250, 1500), "the first of all, and 249 beside the newest"
        return read() - before

    assert await pool.read(work) < 500 * 8


async def test_what_a_group_is_to_be_kept_is_asked_for_under_its_lock(bench, pool):
    """A seek back comes between the look and the deletion."""
    group = await group_of(bench, retain="until_consumed")
    topic = await topic_of(bench)
    store = bench.store.topics
    await add(bench, 1, 1, 1)
    assert (await store.feed(group, topic, 10)).messages == 3
    await bench.run("DELETE FROM log_group_g")  # all is done
    statements = Compacting(MYSQL, topic, (group,))
    unknown = Compacting(MYSQL, topic, ())
    found = await pool.read(lambda c: find_superseded(c, statements, _EVERYTHING, 0, 500))
    assert found.superseded == {1: 3, 2: 3}
    assert await pool.write(lambda c: compact(c, unknown, found)) == [], "another proxy has just made the group"
    await bench.run("UPDATE queuegate_positions SET position = 1")
    assert await pool.write(lambda c: compact(c, statements, found)) == [1]
    assert await ids(bench) == [2, 3]


async def test_a_late_group_reads_a_topic_full_of_gaps_at_once(bench, monkeypatch):
    monkeypatch.setattr(topics, "HOLES_MAX", 3)
    monkeypatch.setattr(topics, "SETTLED_IDS", 5)
    await bench.run("INSERT INTO log (id, k) SELECT seq * 2, seq FROM seq_1_to_300")
    await bench.run("DELETE FROM log WHERE id BETWEEN 100 AND 110")
    group, got, looks = await group_of(bench), list[int](), 0
    deadline = time.monotonic() + scaled(DEADLINE)
    while len(got) < 294:
        assert time.monotonic() < deadline, f"got {len(got)} by {looks} looks"
        found = await bench.store.poll_and_claim(group, 1000, 1000, (), {0: 60 * SECOND})
        messages = found.claim.messages if found.claim else ()
        got += [int(message.id) for message in messages]
        looks += bool(messages)
    assert got == await ids(bench)
    assert looks < 30, "with three gaps at a time it takes a hundred"

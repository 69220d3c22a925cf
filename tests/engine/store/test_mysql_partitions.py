"""Queues whose tables are partitioned by RANGE of their id: what is acked and old goes by whole partitions."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest
from store_benches import COMMENT, INDEX, SYSTEM, MySQLBench

from engine.backend.mysql import MySQLStoreConnection
from engine.backend.url import BackendUrl
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import QueueCatalog, QueueName, QueueSpec

PARTITIONS = "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_NAME = 'p' AND TABLE_SCHEMA = ?"


@pytest.fixture
async def bench(fresh_url) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(fresh_url())
    ranges = ", ".join(f"PARTITION p{n} VALUES LESS THAN ({n}0)" for n in range(1, 5))
    await bench.run(
        f"CREATE TABLE p (id BIGINT PRIMARY KEY, {SYSTEM}, payload TEXT, {INDEX}) COMMENT '{COMMENT}'"
        f" PARTITION BY RANGE (id) ({ranges}, PARTITION later VALUES LESS THAN MAXVALUE)"
    )
    await bench.run("INSERT INTO p (id, payload) VALUES " + ", ".join(f"({n}, 'x')" for n in range(1, 36)))
    yield bench
    await bench.close()


@pytest.fixture
async def spec(bench) -> QueueSpec:
    catalog = await bench.store.load_catalog(QueueCatalog())
    return catalog.queues[QueueName(bench.url.database, "p")]


async def ack(bench, where: str, days: float = 2) -> None:
    at_ns = await bench.now_ns() - int(days * 86400) * SECOND
    await bench.run(f"UPDATE p SET time_acked = {at_ns}, time_next = NULL WHERE {where}")


async def left(bench) -> list[str]:
    names = [row[0] for row in await bench.run(PARTITIONS, (bench.url.database,))]
    return sorted(names)


async def ids(bench) -> list[int]:
    return [row[0] for row in await bench.run("SELECT id FROM p ORDER BY id")]


async def test_what_is_acked_and_old_goes_by_whole_partitions(bench, spec):
    await ack(bench, "id < 25")
    found = await bench.store.purge_partitions(spec)
    assert found is not None and found.retained == ("p3",) and not found.refused
    assert await left(bench) == ["later", "p3", "p4"]
    assert await bench.store.purge(spec, 100, found) == 5, "what a message that is not acked holds back"
    assert await ids(bench) == list(range(25, 36))


async def test_the_partition_that_is_being_filled_stays_and_so_do_those_to_come(bench, spec):
    await ack(bench, "id < 100")
    found = await bench.store.purge_partitions(spec)
    assert found is not None and found.retained == ()
    assert await left(bench) == ["later", "p4"]
    assert await ids(bench) == list(range(30, 36))


async def test_what_was_acked_of_late_keeps_its_partition(bench, spec):
    await ack(bench, "id < 20")
    await ack(bench, "id = 5", days=0.5)
    found = await bench.store.purge_partitions(spec)
    assert found is not None and found.retained == ("p3",)
    assert await left(bench) == ["later", "p1", "p3", "p4"]


async def test_nothing_goes_that_is_not_archived(bench, spec):
    kept = dataclasses.replace(spec, options=dataclasses.replace(spec.options, archive=True))
    await ack(bench, "id < 20", days=3)
    for _ in range(2):  # the first makes the table
        found = await bench.store.purge_partitions(kept)
        assert found is not None and found.messages == 0
    until = (await bench.run("SELECT MAX(time_acked) FROM p WHERE id < 10"))[0][0]
    await bench.run(f"UPDATE p SET time_acked = time_acked + 1000 WHERE id BETWEEN 10 AND 19 AND {until}")
    await bench.run(f"INSERT INTO queuegate_archive VALUES ('p', {until})")
    await bench.store.purge_partitions(kept)
    assert await left(bench) == ["later", "p2", "p3", "p4"]


async def test_an_open_transaction_that_takes_an_ack_back_is_not_overtaken(bench, spec):
    await ack(bench, "id < 20")
    other = MySQLStoreConnection(BackendUrl.parse(str_url(bench)))
    other.begin()
    other.execute("UPDATE p SET time_acked = NULL, time_next = 0 WHERE id = 3")
    found = await asyncio.wait_for(bench.store.purge_partitions(spec), 10)
    assert found is not None and await left(bench) == ["later", "p1", "p2", "p3", "p4"], "a second is waited for it"
    other.commit()
    other.close()
    found = await bench.store.purge_partitions(spec)
    assert found is not None and found.retained == ("p1", "p3")
    assert await left(bench) == ["later", "p1", "p3", "p4"]
    assert await bench.store.purge(spec, 100, found) == 8
    assert (await ids(bench))[:2] == [3, 20]


async def test_who_may_not_drop_partitions_deletes_rows(bench, spec, engine_mariadb):
    with engine_mariadb.connect() as root, root.cursor() as cursor:
        cursor.execute("DROP USER IF EXISTS modest@'127.0.0.1'")
        cursor.execute("CREATE USER modest@'127.0.0.1'")
        cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {bench.url.database}.* TO modest@'127.0.0.1'")
    modest = MySQLBench(str_url(bench).replace("root@", "modest@"))
    await ack(bench, "id < 20")
    found = await modest.store.purge_partitions(spec)
    assert found is not None and found.retained == ("p1", "p2", "p3") and "denied" in found.refused
    assert await modest.store.purge(spec, 100, found) == 19
    await modest.close()


@pytest.mark.parametrize("layout", ["", "PARTITION BY HASH (id) PARTITIONS 3", "PARTITION BY KEY (id) PARTITIONS 3"])
async def test_other_layouts_go_row_by_row(bench, layout):
    columns = f"id BIGINT PRIMARY KEY, {SYSTEM}, payload TEXT, {INDEX}"
    await bench.run(f"CREATE TABLE r ({columns}) COMMENT '{COMMENT}' {layout}")
    catalog = await bench.store.load_catalog(QueueCatalog())
    spec = catalog.queues[QueueName(bench.url.database, "r")]
    await bench.run("INSERT INTO r (id, time_acked) VALUES (1, 5), (2, 5), (3, NULL)")
    assert await bench.store.purge_partitions(spec) is None
    assert await bench.store.purge(spec, 100) == 2


def str_url(bench: MySQLBench) -> str:
    return f"mysql://root@{bench.url.host}:{bench.url.port}/{bench.url.database}"

"""The table of proxies at a server: who is seen, and what is done about who is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pymysql
import pytest
from store_benches import MySQLBench

from engine.backend.mysql import MySQLPool
from engine.model.errors import BackendError, BackendUnavailable
from engine.store.proxy_directory import UNSEEN_SECONDS, ProxyDirectory, ProxyEntry
from engine.store.statements import proxies

UNSEEN_NS = int(UNSEEN_SECONDS * 1e9) + 1


@pytest.fixture
async def bench(fresh_url) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(fresh_url())
    yield bench
    await bench.close()


class Process:
    """What a process has: a pool, and its row."""

    def __init__(self, bench: MySQLBench, name: str) -> None:
        self.pool = MySQLPool(bench.url, size=1)
        self.directory = ProxyDirectory(self.pool, lambda: self.pool.sessions)
        self.entry = ProxyEntry(name, 0, f"{name}:1", name * 2)

    async def join(self) -> Process:
        self.entry = await self.directory.join(self.entry)
        await self.beat()
        return self

    async def beat(self) -> None:
        self.entry, _ = await self.directory.beat(self.entry)

    async def fence(self, *linked: int) -> list[str]:
        return await self.directory.fence(self.entry, linked)

    async def works(self) -> bool:
        """Whether its session is still there: a write is not made again on another."""
        try:
            await self.pool.write(lambda connection: connection.query("SELECT 1"))
        except BackendUnavailable:
            return False
        return True


@pytest.fixture
async def two(bench) -> AsyncIterator[tuple[Process, Process]]:
    one, other = await Process(bench, "a").join(), await Process(bench, "b").join()
    yield one, other
    await one.pool.close()
    await other.pool.close()


async def age(bench: MySQLBench, process: Process) -> None:
    """It was seen last long ago."""
    await bench.run(
        "UPDATE queuegate_proxies SET time_seen = time_seen - ? WHERE number = ?", (UNSEEN_NS, process.entry.number)
    )


async def test_the_sessions_of_a_proxy_that_is_not_seen_are_ended(bench, two):
    one, other = two
    assert await other.fence() == [] and await one.works(), "it has been seen"
    await age(bench, one)
    assert await other.fence(one.entry.number) == [] and await one.works(), "it is linked"
    assert await other.fence() == ["a:1"]
    assert not await one.works() and await other.works()
    assert await other.fence() == [], "once"
    await one.beat()  # it goes on, with another session
    assert (await bench.run("SELECT sessions FROM queuegate_proxies ORDER BY number"))[0][0] == one.pool.sessions[0]
    await age(bench, one)
    assert await other.fence() == ["a:1"]


async def test_who_wrote_the_row_ends_no_session_of_another_account(bench, two):
    _, other = two
    await bench.run("CREATE USER IF NOT EXISTS fenced@'%' IDENTIFIED BY 'secret'")
    url = bench.url
    stranger = pymysql.connect(host=url.host, port=url.port, user="fenced", password="secret")
    try:
        with stranger.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            (number,) = cursor.fetchone()
        ((host,),) = await bench.run("SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = ?", (number,))
        await bench.run(
            "INSERT INTO queuegate_proxies (proxy, worker, address, secret, server, time_seen, sessions)"
            " VALUES ('c', 0, 'c:1', 'cc', ?, 1, ?)",
            (other.entry.server, f"{number}@{host} 0@x nonsense 7 @ -1@y"),
        )
        assert await other.fence() == []
        stranger.ping(reconnect=False)
    finally:
        stranger.close()
        await bench.run("DROP USER fenced@'%'")


async def test_a_table_of_an_earlier_version_is_used_with_its_proxies_beside(bench):
    await bench.run(proxies.MAKE_TABLE.replace(", sessions VARCHAR(4000) NOT NULL DEFAULT ''", ""))
    one = await Process(bench, "a").join()
    other = await Process(bench, "b").join()
    await bench.run(proxies.JOIN, ("old", 0, "old:1", "old", one.entry.server))
    rows = await bench.run("SELECT proxy, sessions <> '' FROM queuegate_proxies ORDER BY number")
    assert rows == [("a", 1), ("b", 1), ("old", 0)]
    await age(bench, one)
    assert await other.fence() == ["a:1"]
    await one.pool.close()
    await other.pool.close()


async def test_without_a_place_for_sessions_everything_else_goes_on(bench, monkeypatch):
    await bench.run(proxies.MAKE_TABLE.replace(", sessions VARCHAR(4000) NOT NULL DEFAULT ''", ""))
    monkeypatch.setattr(proxies, "ADD_SESSIONS", "SELECT refused")  # as where the account may not
    one = await Process(bench, "a").join()
    await one.beat()
    assert await one.fence() == []
    await bench.run("RENAME TABLE queuegate_proxies TO away")
    await bench.run("CREATE VIEW queuegate_proxies AS SELECT * FROM away")
    with pytest.raises(BackendError):
        await one.beat()
    await one.pool.close()


@pytest.mark.parametrize("statement", ["DROP TABLE queuegate_proxies", "TRUNCATE TABLE queuegate_proxies"])
async def test_a_table_that_was_dropped_or_emptied_is_filled_again_and_no_two_have_a_number(bench, two, statement):
    one, other = two
    await bench.run(statement)
    third = await Process(bench, "c").join()
    assert third.entry.number == one.entry.number, "the database counts from the beginning"
    for _ in range(2):
        for process in (one, other, third):
            await process.beat()
    rows = await bench.run("SELECT proxy, number FROM queuegate_proxies ORDER BY proxy")
    assert rows == [(process.entry.proxy, process.entry.number) for process in (one, other, third)]
    assert len({number for _, number in rows}) == 3 and third.entry.number == 1
    await third.pool.close()


async def test_a_worker_of_the_same_proxy_that_is_late_keeps_its_sessions(bench, two):
    one, _ = two
    sibling = Process(bench, "a")
    sibling.entry = replace(sibling.entry, worker=1, address="a:2", secret="s")
    await sibling.join()
    await age(bench, sibling)
    assert await one.fence() == [] and await sibling.works()
    await sibling.pool.close()

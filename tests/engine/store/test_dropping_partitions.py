"""A topic's partition is dropped on a server: beside feedings and new groups, and with a crash at each statement."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from servers import wait_until
from store_benches import INDEX, SYSTEM, MySQLBench

from engine.backend.mysql import MySQLStoreConnection
from engine.backend.pool import ThreadPool
from engine.backend.url import BackendUrl
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, Start, StartAt, TopicSpec
from engine.store.base import DropResult
from engine.store.operations.dropping import Dropper
from engine.store.sql_store import SqlMessageStore
from engine.store.statements import topic_partitions

pytestmark = pytest.mark.long

DEADLINE = 60.0
_DAY = 86_400 * 10**9
_POSITIONS = "SELECT group_table, position, highest, holes, lost FROM queuegate_positions ORDER BY group_table"


class Log:
    """A topic of three partitions of ten ids, of which two are old, and its consumer groups."""

    def __init__(self, bench: MySQLBench) -> None:
        self.bench = bench

    async def make(self, *groups: str, missing: tuple[int, ...] = (2, 7)) -> None:
        """`missing`: ids that were rolled back. Groups begin before the first message."""
        run = self.bench.run
        for (table,) in await run("SHOW TABLES"):
            await run(f"DROP TABLE {table}")
        times = "time_scheduled BIGINT NOT NULL, time_created BIGINT NOT NULL, KEY by_time (time_created)"
        ranges = ", ".join(f"PARTITION p{n} VALUES LESS THAN ({n}0)" for n in (1, 2, 3))
        await run(
            f"CREATE TABLE log (id BIGINT AUTO_INCREMENT PRIMARY KEY, {times})"
            " COMMENT='queuegate_topic,retain=604800s,partition=86400s'"
            f" PARTITION BY RANGE (id) ({ranges}, PARTITION pmax VALUES LESS THAN MAXVALUE)"
        )
        for group in groups:
            await self.add_group(group)
        now_ns = await self.bench.now_ns()
        old = [id_ for id_ in range(1, 20) if id_ not in missing]
        rows = [(id_, now_ns - 8 * _DAY) for id_ in old] + [(id_, now_ns) for id_ in range(20, 26)]
        await run("INSERT INTO log VALUES " + ", ".join(f"({id_}, {at}, {at})" for id_, at in rows))

    async def add_group(self, group: str, **options: Any) -> None:
        comment = to_comment(QueueOptions(topic="log", consumer_group=group, **options))
        columns = f"id BIGINT PRIMARY KEY, {SYSTEM}, queuegate_sought TINYINT NOT NULL DEFAULT 0, {INDEX}"
        await self.bench.run(f"CREATE TABLE log_group_{group} ({columns}) COMMENT='{comment}'")

    async def specs(self) -> tuple[TopicSpec, tuple[QueueSpec, ...]]:
        catalog = await self.bench.store.load_catalog(QueueCatalog())
        topic = catalog.topics[QueueName(str(self.bench.url.database), "log")]
        return topic, tuple(catalog.groups_of(topic.name).values())

    async def drop(self, store: Any = None) -> DropResult:
        topic, groups = await self.specs()
        return await (store or self.bench.store).topics.partitions.drop_first(topic, groups)

    async def drop_all(self) -> list[str]:
        """The names of the partitions that went."""
        names = []
        while (dropped := await self.drop()).partition is not None or dropped.more:
            names += [dropped.partition] * (not dropped.more)
        return names

    async def place(self, group: str, position: int, holes: str) -> None:
        """Where a group is to be."""
        await self.bench.run(f"DELETE FROM queuegate_positions WHERE group_table = 'log_group_{group}'")
        values = f"('log_group_{group}', {position}, {position}, '{holes}', 0)"
        await self.bench.run(f"INSERT INTO queuegate_positions VALUES {values}")

    async def lost(self) -> dict[str, int]:
        return {row[0].removeprefix("log_group_"): row[4] for row in await self.bench.run(_POSITIONS)}

    async def ids(self) -> list[int]:
        return [row[0] for row in await self.bench.run("SELECT id FROM log ORDER BY id")]


@pytest.fixture
async def log(fresh_url) -> AsyncIterator[Log]:
    bench = await MySQLBench.open(fresh_url())
    yield Log(bench)
    await bench.close()


async def positions_made(log: Log) -> None:
    """The table of positions, and a row for each group."""
    topic, groups = await log.specs()
    for group in groups:
        await log.bench.store.topics.position(group, topic)


# --- the count


async def test_two_partitions_go_and_each_group_is_past_them(log):
    await log.make("all", "some", "done")
    await positions_made(log)
    await log.place("some", 12, "[[3,4,1,0],[7,7,1,0],[11,11,1,0]]")
    await log.place("done", 22, "[[7,7,1,0],[21,21,1,0]]")
    assert await log.drop_all() == ["p1", "p2"]
    assert await log.ids() == list(range(20, 26))
    # All of 17; and of 13 to 19, with the holes 3, 4 and 11, for 7 has never come.
    assert await log.lost() == {"all": 17, "some": 10, "done": 0}
    rows = {row[0]: row[1:4] for row in await log.bench.run(_POSITIONS)}
    assert rows["log_group_all"] == rows["log_group_some"] == (19, 19, "[]")
    assert rows["log_group_done"] == (22, 22, "[[21,21,1,0]]")


async def test_a_page_at_a_time(log, monkeypatch):
    """And a step at a time: what was counted is gone on with."""
    monkeypatch.setattr("engine.store.operations.dropping.PAGE", 2)
    monkeypatch.setattr("engine.store.operations.dropping._PAGES_AT_ONCE", 2)
    await log.make("all", "some")
    await positions_made(log)
    await log.place("some", 5, "[[3,3,1,0]]")
    assert await log.drop_all() == ["p1", "p2"]
    assert await log.lost() == {"all": 17, "some": 14}


async def test_what_another_engine_deletes_meanwhile_is_not_counted_twice(log, monkeypatch):
    await log.make("all")
    await positions_made(log)
    topic, groups = await log.specs()
    count = topic_partitions.TopicPartitionStatements.page
    loop = asyncio.get_running_loop()

    def counting(self: Any, partition: Any) -> str:
        """After the count, and before the positions are locked."""
        monkeypatch.undo()
        text = count(self, partition)
        asyncio.run_coroutine_threadsafe(alongside(), loop).result(DEADLINE)
        return text

    async def alongside() -> None:
        deleted = await log.bench.store.topics.retain(topic, groups, 4)
        assert deleted.deleted == 4

    monkeypatch.setattr(topic_partitions.TopicPartitionStatements, "page", counting)
    assert (await log.drop()).partition is None
    assert await log.lost() == {"all": 4}
    assert await log.drop_all() == ["p1", "p2"]
    assert await log.lost() == {"all": 17}


# --- beside others


async def test_retention_deletes_nothing_as_long_as_a_group_is_not_known(log):
    """Another proxy has just made it. A group that was dropped leaves its position, which is in nobody's way."""
    await log.make("all", "new")
    await positions_made(log)
    topic, groups = await log.specs()
    known = tuple(group for group in groups if group.name.table == "log_group_all")
    retain = log.bench.store.topics.retain
    assert (await retain(topic, known, 4)).deleted == (await retain(topic, (), 4)).deleted == 0
    assert (await retain(topic, groups, 4)).deleted == 4
    assert await log.lost() == {"all": 4, "new": 4}
    await log.bench.run("DROP TABLE log_group_new")
    assert (await retain(topic, known, 4)).deleted == 4
    assert await log.lost() == {"all": 8, "new": 4}


class Stopped:
    """Stops a method of one side when it is called, until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, side: type, method: str) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        before: Callable[..., Any] = getattr(side, method)

        def stopping(*arguments: Any) -> Any:
            self.reached.set()
            assert self.go.wait(DEADLINE)
            return before(*arguments)

        monkeypatch.setattr(side, method, stopping)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, DEADLINE)


async def test_a_feeding_waits_at_the_positions_and_does_not_hold_the_table(log, monkeypatch):
    """It begins when the positions are locked, and the table is not yet: if it held the table, neither would go on."""
    await log.make("all")
    await positions_made(log)
    topic, groups = await log.specs()
    located = Stopped(monkeypatch, Dropper, "_lock_and_drop")
    dropping = asyncio.ensure_future(log.bench.store.topics.partitions.drop_first(topic, groups))
    await located.wait()
    feeding = asyncio.ensure_future(log.bench.store.topics.feed(groups[0], topic, 5))
    await asyncio.to_thread(
        wait_until,
        lambda: runs(log, "SELECT position%queuegate_positions%FOR UPDATE%"),
        DEADLINE,
        "the feeding to wait",
    )
    located.go.set()
    assert (await dropping).partition == "p1"
    assert (await feeding).messages == 5
    fed = [row[0] for row in await log.bench.run("SELECT id FROM log_group_all ORDER BY id")]
    assert fed == [10, 11, 12, 13, 14], "nothing is passed over"
    assert await log.lost() == {"all": 7}


def runs(log: Log, statement: str) -> bool:
    """Whether such a statement runs, or waits. INNODB_TRX would not do: it is not renewed while it is asked often."""
    with log.bench.lock_connection, log.bench.connection.cursor() as cursor:
        asked = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE %s"
        cursor.execute(asked, (statement,))
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize("step", ["_lock_and_drop", "_losses"])
async def test_a_group_that_is_made_meanwhile_counts_what_it_loses(log, monkeypatch, step):
    """Once the positions are locked; and once the table is, too: then its beginning waits, and they are gone."""
    await log.make("all")
    await positions_made(log)
    topic, groups = await log.specs()
    await log.add_group("new", paused=True)
    name = QueueName(topic.name.database, "log_group_new")
    stopped = Stopped(monkeypatch, Dropper, step)
    dropping = asyncio.ensure_future(log.bench.store.topics.partitions.drop_first(topic, groups))
    await stopped.wait()
    beginning = asyncio.ensure_future(log.bench.store.topics.begin(name, topic, StartAt(Start.EARLIEST)))
    if step == "_lock_and_drop":
        await beginning
    stopped.go.set()
    dropped = await dropping
    await beginning
    assert dropped.partition == (None if step == "_lock_and_drop" else "p1")
    assert await log.drop_all() == (["p1", "p2"] if step == "_lock_and_drop" else ["p2"])
    assert await log.lost() == {"all": 17, "new": 17 if step == "_lock_and_drop" else 10}


async def test_a_position_of_a_group_that_is_gone_holds_nothing_up(log):
    await log.make("all", "gone")
    await positions_made(log)
    await log.bench.run("DROP TABLE log_group_gone")
    assert await log.drop_all() == ["p1", "p2"]
    assert await log.lost() == {"all": 17, "gone": 0}


@pytest.mark.parametrize("young", [False, True])
async def test_what_is_committed_while_the_table_is_waited_for_is_counted_or_keeps_its_partition(log, young):
    await log.make("all")
    await positions_made(log)
    at = await log.bench.now_ns() - (0 if young else 8 * _DAY)
    log.bench.holder.cursor().execute(f"INSERT INTO log VALUES (2, {at}, {at})")
    dropping = asyncio.ensure_future(log.drop())
    await asyncio.to_thread(wait_until, lambda: runs(log, "LOCK TABLES%"), DEADLINE, "the table to be asked for")
    log.bench.holder.commit()
    assert (await dropping).partition == (None if young else "p1")
    assert await log.lost() == {"all": 0 if young else 8}


async def test_a_table_that_is_in_use_is_let_go(log):
    await log.make("all")
    await positions_made(log)
    user = log.bench.holder
    user.cursor().execute("SELECT * FROM log LIMIT 1")
    dropped = await log.drop()
    assert (dropped.partition, dropped.waits) == (None, True)
    assert await log.lost() == {"all": 0}
    user.rollback()
    assert (await log.drop()).partition == "p1"


# --- a crash at each statement


class Fate:
    """After so many statements of all connections together the process is dead: it says no more to the server."""

    def __init__(self, statements: int) -> None:
        self.left, self.armed, self.dead = statements, False, False
        self.sent: list[str] = []
        self.threads: set[int] = set()
        self._lock, self._connections = threading.Lock(), list[MySQLStoreConnection]()

    def connect(self, url: BackendUrl) -> MySQLStoreConnection:
        if self.dead:
            raise BackendUnavailable("the process is dead")
        connection = Mortal(url)
        connection.fate = self
        self._connections.append(connection)
        self.threads.add(connection._connection.thread_id())
        return connection

    def sends(self, texts: list[str]) -> None:
        with self._lock:
            if not self.armed:
                return
            if self.left == 0:
                self.dead = True
                for connection in self._connections:
                    connection.end()
            if self.dead:
                raise BackendUnavailable("the process is dead")
            self.left -= 1
            self.sent.append("; ".join(texts))


class Mortal(MySQLStoreConnection):
    """A connection of that process."""

    fate: Fate | None = None

    def _send(self, texts: list[str], **options: bool) -> Any:
        if self.fate is not None:
            self.fate.sends(texts)
        return super()._send(texts, **options)

    def end(self) -> None:
        """Cut off, as by the end of the process: not even a good-bye."""
        with contextlib.suppress(OSError, AttributeError):
            self._connection._sock.shutdown(socket.SHUT_RDWR)


async def test_whatever_statement_a_crash_comes_before_nothing_is_lost_twice_or_not_at_all(log):
    crashes, statement = [], 0
    while True:
        await log.make("all", "some")
        await positions_made(log)
        await log.place("some", 5, "[[3,3,1,0]]")
        fate = Fate(statement)
        pool = ThreadPool(lambda fate=fate: fate.connect(log.bench.url), size=2)
        store = SqlMessageStore.for_mysql(pool)
        topic, groups = await log.specs()
        fate.armed = True
        try:
            assert (await store.topics.partitions.drop_first(topic, groups)).partition == "p1"
        except BackendError:
            crashes.append(fate.sent[-1] if fate.sent else "")
        await store.close()
        await asyncio.to_thread(
            wait_until, lambda fate=fate: ended(log, fate), DEADLINE, "the server to end what was cut off"
        )
        lost = await log.lost()
        assert lost in ({"all": 0, "some": 0}, {"all": 7, "some": 4}), (lost, fate.sent)
        await log.drop_all()
        assert await log.ids() == list(range(20, 26))
        assert await log.lost() == {"all": 17, "some": 14}, fate.sent
        if not fate.dead:
            break
        statement += 1
    assert any("LOCK TABLES" in text for text in crashes) and "COMMIT" in crashes[-3:][0] + crashes[-2] + crashes[-1]
    assert len(crashes) > 20


def ended(log: Log, fate: Fate) -> bool:
    """Whether the server has ended the connections of that process."""
    with log.bench.lock_connection, log.bench.connection.cursor() as cursor:
        cursor.execute("SELECT ID FROM information_schema.PROCESSLIST")
        return fate.threads.isdisjoint(row[0] for row in cursor.fetchall())

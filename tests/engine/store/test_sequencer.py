"""Who numbers a topic's messages, and when: several processes at once, steps that are in vain, what cannot be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from memory_topics import make_topic
from servers import SERVER
from store_benches import MySQLBench

from engine.backend.mysql import MySQLPool
from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.queue import SEQUENCE_COLUMN, QueueCatalog, QueueName, TopicSpec
from engine.model.sequence import NumberingResult, Sequencing
from engine.model.topic_options import TopicOptions
from engine.store.operations import sequence
from engine.store.operations.sequence import SequenceStatements
from engine.store.sequencer import Sequencer
from engine.store.sql_store import SqlMessageStore
from engine.store.statements.mysql import MYSQL

TOPIC = replace(make_topic(), options=TopicOptions(sequence=True))


@pytest.fixture
async def bench(fresh_url) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(fresh_url())
    times = "time_scheduled BIGINT NOT NULL DEFAULT 1, time_created BIGINT NOT NULL DEFAULT 1"
    numbers = f"{SEQUENCE_COLUMN} BIGINT NULL INVISIBLE, UNIQUE KEY {SEQUENCE_COLUMN} ({SEQUENCE_COLUMN})"
    await bench.run(
        f"CREATE TABLE log (id BIGINT AUTO_INCREMENT PRIMARY KEY, {times}, {numbers})"
        " COMMENT='queuegate_topic,sequence=on'"
    )
    yield bench
    await bench.close()


async def topic_of(store: SqlMessageStore, bench: MySQLBench) -> TopicSpec:
    return (await store.load_catalog(QueueCatalog())).topics[QueueName(bench.url.database, "log")]


async def test_processes_that_number_at_once_give_each_number_once(bench):
    stores = [SqlMessageStore.for_mysql(MySQLPool(bench.url, size=4)) for _ in range(3)]
    topic = await topic_of(stores[0], bench)
    over = asyncio.Event()

    async def number(store: SqlMessageStore) -> None:
        while not over.is_set():
            await store.topics.number(topic)

    async def write() -> None:
        for _ in range(60):
            await bench.run("INSERT INTO log () VALUES (), (), ()")
        over.set()

    await asyncio.gather(write(), *(number(store) for store in stores))
    await stores[0].topics.number_all(topic)
    found = await bench.run(f"SELECT id, {SEQUENCE_COLUMN} FROM log ORDER BY id")
    # Not in the order of the ids: a message whose locks are not let go of yet, as its commit ends, loses its turn.
    assert sorted(number for _, number in found) == list(range(1, 181))
    for store in stores:
        await store.close()


async def test_many_locked_messages_do_not_hold_the_others_up(bench, monkeypatch):
    monkeypatch.setattr(sequence, "STEP_MAX", 3)
    store = SqlMessageStore.for_mysql(MySQLPool(bench.url, size=2))
    topic = await topic_of(store, bench)
    await bench.run("INSERT INTO log () VALUES (), (), (), (), ()")
    holder = bench.connection.cursor()
    holder.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    holder.execute("BEGIN")
    holder.execute("SELECT id FROM log WHERE id <= 4 FOR UPDATE")
    assert await store.topics.number(topic) == NumberingResult(1, False, True)
    assert await store.topics.number(topic) == NumberingResult(0, False, True)
    holder.execute("ROLLBACK")
    await store.topics.number_all(topic)
    found = await bench.run(f"SELECT id FROM log ORDER BY {SEQUENCE_COLUMN}")
    assert [id_ for (id_,) in found] == [5, 1, 2, 3, 4]
    assert await store.topics.sequencing() is Sequencing.POSSIBLE or SERVER == "galera"
    await store.close()


async def test_what_has_no_number_is_found_in_the_index(bench):
    """Also by statistics of a time when nothing had a number; and nothing is sorted for it."""
    store = SqlMessageStore.for_mysql(MySQLPool(bench.url, size=2))
    statements = SequenceStatements(MYSQL, await topic_of(store, bench))
    await bench.run(f"INSERT INTO log (time_created) VALUES {', '.join(['(1)'] * 1000)}")
    await bench.run("ANALYZE TABLE log")
    for sql in (statements.unnumbered.replace("?", "1"), statements.unnumbered.replace("?", "500")):
        ((*plan, extra),) = await bench.run(f"EXPLAIN {sql}")
        assert SEQUENCE_COLUMN in plan and "PRIMARY" not in plan[4:] and "filesort" not in extra, (plan, extra)
    await store.close()


@dataclass
class Pool:
    """A pool whose transactions end with these errors, one after the other, and then give two messages numbers."""

    errors: list[Exception]
    waiting: int = 2
    tables: list[str] = field(default_factory=list)
    writes: int = 0

    async def read(self, work: object) -> list[tuple[int]]:
        return [(1,)] if self.waiting else []

    async def write(self, work: object) -> NumberingResult:
        self.writes += 1
        if self.errors:
            raise self.errors.pop(0)
        self.waiting = 0
        return NumberingResult(2)

    async def make(self, database: str) -> None:
        self.tables.append(database)

    def sequencer(self) -> Sequencer:
        return Sequencer(self, MYSQL, self.make, lambda: 0.0)  # type: ignore[arg-type]


def lost(errno: int) -> BackendError:
    return BackendError("lost", errno)


async def test_a_step_in_vain_is_made_again():
    pool = Pool([lost(1213), lost(1062)])
    assert await pool.sequencer().number(TOPIC) == NumberingResult(2)
    assert (pool.writes, pool.tables) == (3, [])


async def test_who_has_waited_for_another_step_for_long_waits_no_more():
    pool = Pool([LockWaitTimeout()] * 9)
    assert await pool.sequencer().number(TOPIC) == NumberingResult(waiting=True)
    assert pool.writes == 1


async def test_who_never_has_his_turn_says_that_messages_wait():
    pool = Pool([lost(1213)] * 100)
    assert await pool.sequencer().number(TOPIC) == NumberingResult(waiting=True)
    assert pool.writes < 10


async def test_where_another_was_faster_nothing_is_left_to_do():
    pool = Pool([lost(1213)])
    sequencer = pool.sequencer()
    assert await sequencer.number(TOPIC) == NumberingResult(2)
    pool.waiting, pool.errors = 1, [AssertionError("the others go first")]

    async def other() -> None:
        pool.waiting = 0

    assert (await asyncio.gather(sequencer.number(TOPIC), other()))[0] == NumberingResult()
    assert pool.writes == 2


async def test_the_table_of_positions_is_made():
    pool = Pool([lost(1146)])
    assert await pool.sequencer().number(TOPIC) == NumberingResult(2)
    assert pool.tables == [TOPIC.name.database]


@pytest.mark.parametrize("error", [BackendError("UPDATE command denied", 1142), BackendUnavailable("gone")])
async def test_other_errors_are_told(error):
    with pytest.raises(BackendError) as raised:
        await Pool([error]).sequencer().number(TOPIC)
    assert raised.value is error

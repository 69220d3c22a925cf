"""The whole engine on real databases and in real time: exactly once when acked at once, also with two engines on one
database; nothing lost when connections are cut."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pymysql
import pytest
from memory_store import Row
from store_benches import MySQLBench, SqliteBench

from engine.backend.mysql import MySQLPool
from engine.clock import SystemClock, system_jitter
from engine.engine import Engine
from engine.model.commit_report import CommitReport
from engine.model.errors import ShuttingDown
from engine.model.queue import SubscribeRequest
from engine.model.states import is_lease_end
from engine.store.sql_store import SqlMessageStore

MESSAGES = 2000
DEADLINE = 60


def make_engine(store):
    return Engine(store, clock=SystemClock(), jitter=system_jitter)


async def produce(bench, engine, ids):
    for start in range(0, len(ids), 10):
        values = ", ".join(f"({id_})" for id_ in ids[start : start + 10])
        await bench.run(f"INSERT INTO q (id) VALUES {values}")
        engine.committed(CommitReport(touched=frozenset((bench.spec.name,))))


async def consume(bench, engine, seen, done):
    subscription = await engine.subscribe(SubscribeRequest(bench.spec.name))
    try:
        async for batch in subscription:
            ids = [message.id for message in batch.messages]
            seen.update(ids)
            await bench.ack(*ids)
            engine.committed(CommitReport(settled={bench.spec.name: tuple(ids)}))
            if len(seen) == MESSAGES:
                done.set()
    except ShuttingDown:
        pass
    await subscription.close(release=True)


async def run(bench, engines):
    for engine in engines:
        await engine.open()
    seen, done = Counter(), asyncio.Event()
    receivers = [asyncio.create_task(consume(bench, engine, seen, done)) for engine in engines for _ in range(3)]
    shares = [range(1 + n, MESSAGES + 1, 4) for n in range(4)]
    await asyncio.gather(*(produce(bench, engines[n % len(engines)], share) for n, share in enumerate(shares)))
    await asyncio.wait_for(done.wait(), DEADLINE)
    for engine in engines:
        await engine.close()
    await asyncio.gather(*receivers)
    return seen


async def test_each_message_exactly_once(open_sql):
    bench = await open_sql("integer")
    try:
        seen = await run(bench, [make_engine(bench.store)])
        assert seen == Counter(range(1, MESSAGES + 1))
        assert await bench.run("SELECT COUNT(*), MAX(epoch) FROM q WHERE time_acked IS NOT NULL") == [(MESSAGES, 1)]
    finally:
        await bench.close()


async def test_each_message_exactly_once_with_two_engines_on_one_database(fresh_url):
    bench = await MySQLBench.open(fresh_url())
    other = SqlMessageStore.for_mysql(MySQLPool(bench.url, size=4))
    try:
        seen = await run(bench, [make_engine(bench.store), make_engine(other)])
        assert seen == Counter(range(1, MESSAGES + 1))
    finally:
        await other.close()
        await bench.close()


async def test_a_receiver_goes_on_after_all_connections_were_killed(fresh_url):
    bench = await MySQLBench.open(fresh_url())
    engine = make_engine(bench.store)
    await engine.open()
    subscription = await engine.subscribe(SubscribeRequest(bench.spec.name))
    try:
        await bench.add(Row(1))
        engine.committed(CommitReport(touched=frozenset((bench.spec.name,))))
        assert [m.id for m in (await asyncio.wait_for(anext(subscription), DEADLINE)).messages] == [1]
        own = [bench.connection.thread_id(), bench.holder.thread_id()]
        for (id_,) in await bench.run(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID NOT IN (?, ?)", own
        ):
            with suppress(pymysql.err.OperationalError):  # 1094: it has ended by itself meanwhile
                await bench.run(f"KILL {id_}")
        await bench.add(Row(2))
        engine.committed(CommitReport(touched=frozenset((bench.spec.name,))))
        assert [m.id for m in (await asyncio.wait_for(anext(subscription), DEADLINE)).messages] == [2]
    finally:
        await engine.close()
        await subscription.close(release=True)
        await bench.close()


@pytest.mark.parametrize("counted", [True, False])
async def test_what_is_unacked_is_ready_again_when_its_receiver_is_gone(tmp_path, counted):
    bench = await SqliteBench.open(str(tmp_path / "queue.db"))
    engine = make_engine(bench.store)
    await engine.open()
    try:
        await bench.add(Row(1, time_next=5))
        subscription = await engine.subscribe(SubscribeRequest(bench.spec.name))
        await asyncio.wait_for(anext(subscription), DEADLINE)
        await (subscription.close(release=True) if counted else engine.close())
        row = await bench.row(1)
        if counted:
            assert (row.time_next, row.epoch) == (5, 1)
        else:  # the receiver may have begun with it, and goes on
            assert is_lease_end(row.time_next) and row.epoch == 1
    finally:
        await engine.close()
        await bench.close()

"""What every MessageStore promises of queues with limits and order: on the fake, on SQLite and on MariaDB alike."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from decimal import Decimal

import pytest
from memory_store import Row, make_spec
from slowness import scaled
from store_benches import MemoryBench, MySQLBench, ShardedBench

from engine.backend.mysql import MySQLPool
from engine.model.key_range import read_key_range
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import ColumnMeta, Condition, of_key_range
from engine.model.states import PARKED_NS
from engine.store.base import Release
from engine.store.operations.limits import parts_of
from engine.store.sql_store import SqlMessageStore
from engine.store.statements.limits import part_row

DELAYS = {0: 10 * SECOND}
HOUR = 3600 * SECOND


@pytest.fixture(autouse=True)
def in_one_shard(request) -> None:
    if "bench" in request.fixturenames and isinstance(request.getfixturevalue("bench"), ShardedBench):
        pytest.skip("a queue over several shards has no limits")


def limited(bench, **options):
    """The bench's queue with these options."""
    return replace(bench.spec, options=replace(bench.spec.options, **options))


def ids_of(claim):
    return sorted(message.id for message in claim.messages)


async def due(bench, spec, limit=100):
    """What a look finds, in order."""
    return [key.id for key in (await bench.store.poll(spec, limit)).keys]


async def claim(bench, spec, *ids):
    return ids_of(await bench.store.claim(spec, list(ids), DELAYS))


# --- max_concurrency


async def test_no_more_are_in_flight_than_there_are_places(bench):
    spec = limited(bench, max_concurrency=3)
    await bench.add(*(Row(id_, time_next=id_) for id_ in range(1, 8)))
    first = await bench.store.claim(spec, [1, 2], DELAYS)
    assert (ids_of(first), first.deferred, first.limit_wait) == ([1, 2], (), None)
    second = await bench.store.claim(spec, [3, 4, 5], DELAYS)
    assert (ids_of(second), second.deferred) == ([3], (4, 5))
    assert second.limit_wait.for_concurrency and 9 * SECOND < second.limit_wait.wait_ns <= 10 * SECOND + 1000
    third = await bench.store.claim(spec, [4, 5], DELAYS)
    assert (third.messages, third.deferred, third.limit_wait.for_concurrency) == ((), (4, 5), True)
    await bench.ack(2)
    assert await claim(bench, spec, 4, 5) == [4]


async def test_only_leases_take_places(bench):
    """Not what is scheduled, waits for a retry, is parked, or was leased and is due again."""
    spec, now = limited(bench, max_concurrency=1), await bench.now_ns()
    lease = (now + HOUR) // 1000 * 1000 + 1
    await bench.add(
        Row(1, time_next=lease),
        Row(2, time_next=lease - 1, epoch=2),
        Row(3, time_next=PARKED_NS, epoch=1),
        Row(4, time_next=(now - SECOND) // 1000 * 1000 + 1, epoch=1),
        Row(5),
        Row(6),
    )
    assert await claim(bench, spec, 5, 6) == [5]
    assert await claim(bench, spec, 6) == []


async def test_a_released_lease_frees_its_place(bench):
    spec = limited(bench, max_concurrency=1)
    await bench.add(Row(1, time_next=1), Row(2, time_next=2))
    (message,) = (await bench.store.claim(spec, [1, 2], DELAYS)).messages
    await bench.store.release(spec, [Release(1, 1, message.lease_until_ns, 1)], counted=True)
    assert await claim(bench, spec, 2) == [2]


async def test_a_locked_message_takes_no_place(bench):
    if not bench.locks:
        pytest.skip("this database has one writer: its rows are never locked by another")
    spec = limited(bench, max_concurrency=1)
    await bench.add(Row(1), Row(2))
    await bench.lock(1)
    assert await claim(bench, spec, 1, 2) == []
    assert await claim(bench, spec, 2) == [2]


# --- max_rate


async def test_a_rate_lets_its_burst_pass_and_tells_when_the_next_may(bench):
    spec = limited(bench, max_rate=Decimal(30))
    await bench.add(*(Row(id_) for id_ in range(1, 9)))
    began = time.monotonic_ns()  # the answers' own times are read some time after the charge on a busy machine
    found = await bench.store.claim(spec, [1, 2, 3, 4, 5], DELAYS)
    assert (ids_of(found), found.deferred) == ([1, 2, 3], (4, 5))
    assert not found.limit_wait.for_concurrency and 0 < found.limit_wait.wait_ns <= SECOND // 30 + 1000
    again = found
    async with asyncio.timeout(scaled(20)):
        while not again.messages or again is found:  # a claim too early leases nothing and tells how long it is
            again = await bench.store.claim(spec, [4, 5], DELAYS)
            assert again.messages or 0 < again.limit_wait.wait_ns <= SECOND // 30 + 1000
    assert time.monotonic_ns() - began >= found.limit_wait.wait_ns - 2_000_000


async def test_a_rate_counts_what_was_leased_only(bench):
    spec = limited(bench, max_rate=Decimal(1))
    await bench.add(Row(1), Row(2))
    await bench.ack(1)
    assert await claim(bench, spec, 1) == []
    assert await claim(bench, spec, 2) == [2]


async def test_a_rate_and_places_together(bench):
    spec = limited(bench, max_rate=Decimal(1), max_concurrency=5)
    await bench.add(*(Row(id_) for id_ in range(1, 4)))
    assert await claim(bench, spec, 1, 2, 3) == [1]
    found = await bench.store.claim(spec, [2, 3], DELAYS)
    assert found.messages == () and not found.limit_wait.for_concurrency


# --- order_key


@pytest.mark.parametrize("key", ["payload", "*"])
async def test_one_of_a_key_at_a_time_in_id_order(bench, key):
    spec = limited(bench, order_key=key)
    await bench.add(*(Row(id_, payload="a", time_next=10 - id_) for id_ in range(1, 5)))
    for id_ in range(1, 5):
        assert await due(bench, spec) == [id_]
        assert await claim(bench, spec, *reversed(range(1, 5))) == [id_]
        assert await due(bench, spec) == []
        assert await claim(bench, spec, 1, 2, 3, 4) == []
        await bench.ack(id_)
    assert await due(bench, spec) == []


async def test_keys_do_not_wait_for_each_other_and_those_without_one_for_nobody(bench):
    spec = limited(bench, order_key="payload")
    rows = [Row(1, payload="a"), Row(2, payload="a"), Row(3, payload="b"), Row(4, payload=None), Row(5, payload=None)]
    await bench.add(*rows)
    assert sorted(await due(bench, spec)) == [1, 3, 4, 5]
    assert await claim(bench, spec, 1, 2, 3, 4, 5) == [1, 3, 4, 5]
    await bench.ack(3)
    assert await due(bench, spec) == []
    await bench.ack(1)
    assert await due(bench, spec) == [2]


async def test_block_waits_for_a_failed_message_and_skip_does_not(bench):
    block, now = limited(bench, order_key="payload"), await bench.now_ns()
    skip = limited(bench, order_key="payload", on_failure="skip")
    waits = (now + HOUR) // 1000 * 1000
    await bench.add(Row(1, epoch=1, time_next=waits), Row(2), Row(3))
    assert await due(bench, block) == [] and await claim(bench, block, 2, 3) == []
    assert await due(bench, skip) == [2]
    assert await claim(bench, skip, 1, 2, 3) == [2]
    assert await due(bench, skip) == [], "one of the key is in flight"
    await bench.ack(2)
    assert await due(bench, skip) == [3]


async def test_skip_tries_again_what_is_due_again_first(bench):
    skip = limited(bench, order_key="payload", on_failure="skip")
    await bench.add(Row(1, epoch=1, time_next=5), Row(2, time_next=1))
    assert await due(bench, skip) == [1]
    assert await claim(bench, skip, 1, 2) == [1]


async def test_scheduled_and_parked_messages_hold_their_key(bench):
    spec, later = limited(bench, order_key="payload"), (await bench.now_ns() + HOUR) // 1000 * 1000
    skip = limited(bench, order_key="payload", on_failure="skip")
    await bench.add(Row(1, time_next=later), Row(2), Row(3, payload="p", time_next=PARKED_NS), Row(4, payload="p"))
    assert await due(bench, spec) == await due(bench, skip) == []
    poll = await bench.store.poll(spec, 10)
    assert poll.next_due_ns == later and not poll.more


async def test_a_late_smaller_id_waits_for_what_is_out(bench):
    """A transaction may commit after a later one; order is that of the ids among what is committed."""
    spec = limited(bench, order_key="payload")
    await bench.add(Row(5))
    assert await claim(bench, spec, 5) == [5]
    await bench.add(Row(4))
    assert await due(bench, spec) == [] and await claim(bench, spec, 4) == []
    await bench.ack(5)
    assert await due(bench, spec) == [4]


async def test_many_behind_few_are_found_as_well(bench):
    """More due messages than a look reads, all but the heads behind others; and the memory of how they were found."""
    spec = limited(bench, order_key="payload")
    rows = [Row(id_, payload=f"k{id_ % 3}", time_next=id_) for id_ in range(1, 61)]
    await bench.add(*rows, Row(90, payload=None, time_next=80), Row(91, payload="z", time_next=70, priority=10))
    for _ in range(3):
        found = await due(bench, spec, 5)
        assert found[:4] == [91, 1, 2, 3] and set(found) <= {91, 1, 2, 3, 90}
    taken = []
    for _ in range(80):
        poll = await bench.store.poll(spec, 5)
        if not poll.keys:
            break
        leased = await claim(bench, spec, *[key.id for key in poll.keys])
        assert leased == sorted(key.id for key in poll.keys)
        taken += leased
        await bench.ack(*leased)
    assert sorted(taken) == [*range(1, 61), 90, 91]
    for n in range(3):
        assert [id_ for id_ in taken if id_ % 3 == n and id_ < 61] == [i for i in range(1, 61) if i % 3 == n]


async def test_a_look_and_claim_takes_heads_only(bench):
    spec = limited(bench, order_key="payload", max_concurrency=2)
    await bench.add(*(Row(id_, payload=f"k{id_ % 4}", time_next=id_) for id_ in range(1, 13)))
    found = await bench.store.poll_and_claim(spec, 100, 10, (), DELAYS)
    assert [key.id for key in found.poll.keys] == [1, 2, 3, 4]
    assert (ids_of(found.claim), found.claim.deferred) == ([1, 2], (3, 4))
    assert found.claim.limit_wait.for_concurrency


# --- several claim at once


async def test_two_stores_never_exceed_places_nor_keys(bench):
    """Eight claims at once, of two stores where the database has a server."""
    spec = limited(bench, max_concurrency=5, order_key="payload")
    await bench.add(*(Row(id_, payload=f"k{id_ % 7}", time_next=id_) for id_ in range(1, 71)))
    stores = [bench.store]
    if isinstance(bench, MySQLBench):
        stores.append(SqlMessageStore.for_mysql(MySQLPool(bench.url, size=4)))
    done: set[int] = set()
    while len(done) < 70:
        looks = await asyncio.gather(*(store.poll(spec, 100) for store in stores * 4))
        claims = await asyncio.gather(
            *(
                store.claim(spec, [key.id for key in poll.keys], DELAYS)
                for store, poll in zip(stores * 4, looks, strict=True)
                if poll.keys
            )
        )
        out = [message.id for found in claims for message in found.messages]
        assert len(out) == len(set(out)) <= 5
        assert len({id_ % 7 for id_ in out}) == len(out), "two of a key"
        assert all(id_ - 7 in done for id_ in out if id_ > 7), "out of order"
        done.update(out)
        await bench.ack(*out)
    for store in stores[1:]:
        await store.close()


async def test_a_table_of_limits_that_somebody_dropped_is_made_again(bench):
    if isinstance(bench, MemoryBench):
        pytest.skip("the fake has no tables")
    spec = limited(bench, max_concurrency=1)
    await bench.add(Row(1), Row(2))
    assert await claim(bench, spec, 1) == [1]
    await bench.run("DROP TABLE queuegate_limits")
    with pytest.raises(Exception, match="queuegate_limits"):
        await claim(bench, spec, 2)
    assert await claim(bench, spec, 2) == []
    await bench.ack(1)
    assert await claim(bench, spec, 2) == [2]


# --- parts of the ring that a claim locks


def ordered_by(column, **options):
    """A queue that is ordered by its sharding key, of that column."""
    spec = make_spec(sharding_key="k", order_key="K", **options)
    return replace(spec, columns=(*spec.columns, column))


INTEGER, BYTES, TEXT = ColumnMeta("k", 8), ColumnMeta("k", 253, charset=63), ColumnMeta("k", 253, charset=45)
QUARTER = of_key_range(read_key_range("", "40-80"))


def test_a_claim_for_parts_of_the_ring_locks_these():
    for column in (INTEGER, BYTES):
        assert parts_of(ordered_by(column), QUARTER) == list(range(64, 128))
    assert parts_of(ordered_by(INTEGER), of_key_range(read_key_range("", "4001-4002,ff-"))) == [64, 255]
    assert parts_of(ordered_by(INTEGER), Condition("n = 1").within(QUARTER.key_range)) == list(range(64, 128))


def test_a_claim_locks_the_whole_queue_where_parts_do_not_suffice():
    spec = ordered_by(INTEGER)
    assert parts_of(spec, None) == () == parts_of(spec, Condition("n = 1"))
    assert parts_of(spec, of_key_range(read_key_range("", "-8001"))) == ()
    assert parts_of(ordered_by(TEXT), QUARTER) == ()  # 'a' and 'A' may be equal
    assert parts_of(ordered_by(INTEGER, max_rate=Decimal(5)), QUARTER) == ()
    assert parts_of(ordered_by(INTEGER, max_concurrency=5), QUARTER) == ()
    for options in ({"order_key": "other"}, {"order_key": "*"}, {"order_key": None}, {"sharding_key": None}):
        other = replace(spec, options=replace(spec.options, **options))
        assert parts_of(other, QUARTER) == ()


def test_the_rows_of_parts_have_names_of_their_own():
    names = {part_row(table, part) for table in ("q", "r", "x" * 64, "x" * 63 + "y") for part in range(256)}
    assert len(names) == 4 * 256 and max(map(len, names)) <= 64

"""What every MessageStore promises, on the fake, on SQLite and on MariaDB alike."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from memory_store import Row
from slowness import scaled
from store_benches import MemoryBench, ShardedBench, SqliteBench

from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import MessageKey, QueueCatalog
from engine.model.states import PARKED_NS, REJECTED_NS, lease_end
from engine.store.base import RENEWED, ForeseenLease, Release, release_of
from engine.store.census import Census
from engine.store.statements.partitions import make_table

DELAYS = {0: 10 * SECOND, 1: 20 * SECOND, 2: 40 * SECOND}
CLOCK_SLACK = 5 * SECOND  # between the test's clock and the database's


async def claim_one(bench, id_=1):
    return (await bench.store.claim(bench.spec, [id_], DELAYS)).messages[0]


# --- the catalog


async def test_the_catalog_finds_the_queue_and_is_the_same_object_while_nothing_changes(bench):
    catalog = await bench.store.load_catalog(QueueCatalog())
    assert catalog.queues[bench.spec.name].message_columns == ("id", "payload")
    assert catalog.version == 1
    assert await bench.store.load_catalog(catalog) is catalog


# --- look


async def test_a_look_at_an_empty_queue(bench):
    poll = await bench.store.poll(bench.spec, 10)
    assert (poll.keys, poll.next_due_ns, poll.more) == ((), None, False)
    assert abs(poll.now_ns - await bench.now_ns()) < CLOCK_SLACK


async def test_a_look_finds_what_is_due_in_delivery_order(bench):
    await bench.add(
        Row(1, priority=50, time_next=300),
        Row(2, priority=50, time_next=200),
        Row(3, priority=10, time_next=900),
        Row(4, priority=90, time_next=100),
        Row(5, priority=-5, time_next=999),
    )
    poll = await bench.store.poll(bench.spec, 10)
    assert poll.keys == (
        MessageKey(-5, 999, 5),
        MessageKey(10, 900, 3),
        MessageKey(50, 200, 2),
        MessageKey(50, 300, 1),
        MessageKey(90, 100, 4),
    )
    assert (poll.next_due_ns, poll.more) == (None, False)


async def test_a_null_time_is_due_at_once_and_first(bench):
    await bench.add(Row(1, time_next=5), Row(2, time_next=None), Row(3, time_next=0))
    keys = (await bench.store.poll(bench.spec, 10)).keys
    assert [key.id for key in keys][2] == 1
    assert {key.id for key in keys[:2]} == {2, 3} and {key.due_ns for key in keys[:2]} == {0}


async def test_a_null_priority_counts_as_zero(bench):
    await bench.add(Row(1, priority=1), Row(2, priority=None), Row(3, priority=-1), Row(4, priority=0))
    keys = (await bench.store.poll(bench.spec, 10)).keys
    assert [key.priority for key in keys] == [-1, 0, 0, 1]
    assert [keys[0].id, keys[3].id] == [3, 1]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_negative_priorities_precede_null_under_a_limit(bench, limit):
    rows = [Row(id_, priority=priority, time_next=id_) for id_, priority in enumerate((None, None, -1, -2, 3), 1)]
    await bench.add(*rows)
    poll = await bench.store.poll(bench.spec, limit)
    assert [key.id for key in poll.keys] == [4, 3, 1][:limit]
    assert poll.more


async def test_a_look_passes_over_postponed_and_acked_messages(bench):
    now = await bench.now_ns()
    await bench.add(
        Row(1), Row(2, time_next=now + 3600 * SECOND), Row(3), Row(4, priority=1, time_next=now + 60 * SECOND)
    )
    await bench.ack(3)
    poll = await bench.store.poll(bench.spec, 10)
    assert [key.id for key in poll.keys] == [1]
    assert poll.next_due_ns == now + 60 * SECOND


async def test_the_next_due_time_is_told_when_nothing_is_due(bench):
    now = await bench.now_ns()
    await bench.add(Row(1, priority=60, time_next=now + 50 * SECOND), Row(2, priority=5, time_next=now + 90 * SECOND))
    poll = await bench.store.poll(bench.spec, 10)
    assert (poll.keys, poll.next_due_ns) == ((), now + 50 * SECOND)


@pytest.mark.parametrize(("limit", "more"), [(2, True), (3, False), (4, False)])
async def test_more_is_said_only_when_more_is_due(bench, limit, more):
    await bench.add(Row(1), Row(2), Row(3), Row(4, time_next=await bench.now_ns() + 60 * SECOND))
    poll = await bench.store.poll(bench.spec, limit)
    assert len(poll.keys) == min(limit, 3) and poll.more is more


async def test_more_is_said_when_the_rest_has_another_priority(bench):
    await bench.add(Row(1, priority=1), Row(2, priority=2), Row(3, priority=3))
    poll = await bench.store.poll(bench.spec, 2)
    assert [key.id for key in poll.keys] == [1, 2] and poll.more


async def test_a_table_may_use_every_priority(bench):
    now = await bench.now_ns()
    await bench.add(*(Row(id_, priority=id_ - 60, time_next=100) for id_ in range(1, 101)))
    await bench.add(Row(200, priority=120, time_next=now + 9 * SECOND), Row(201, priority=-100, time_next=7))
    poll = await bench.store.poll(bench.spec, 1000)
    assert [key.id for key in poll.keys] == [201, *range(1, 101)]
    assert (poll.next_due_ns, poll.more) == (now + 9 * SECOND, False)
    assert (await bench.store.poll(bench.spec, 50)).keys == poll.keys[:50]


# --- claim


async def test_a_claim_leases_and_returns_the_row_as_it_then_is(bench):
    await bench.add(Row(7, priority=3, time_next=123, payload="Grüße"))
    claim = await bench.store.claim(bench.spec, [7], DELAYS)
    message = claim.messages[0]
    assert (message.id, message.epoch, message.priority, message.due_ns) == (7, 1, 3, 123)
    assert message.lease_until_ns == lease_end(claim.now_ns + 10 * SECOND)
    row = await bench.row(7)
    assert (row.epoch, row.time_next) == (1, message.lease_until_ns)
    values = dict(zip([column.name for column in bench.spec.columns], message.values, strict=True))
    assert values == {
        "id": b"7",
        "priority": b"3",
        "epoch": b"1",
        "time_next": str(row.time_next).encode(),
        "time_acked": None,
        "payload": "Grüße".encode(),
        "time_scheduled": b"123",
        "lease_token": str(message.token).encode(),
    }


async def test_a_claim_delays_by_the_epoch_before_it(bench):
    await bench.add(*(Row(epoch + 1, epoch=epoch) for epoch in range(4)), Row(9, epoch=None))
    claim = await bench.store.claim(bench.spec, [1, 2, 3, 4, 9], DELAYS)
    delays = {m.id: (m.epoch, round((m.lease_until_ns - claim.now_ns) / SECOND)) for m in claim.messages}
    assert delays == {1: (1, 10), 2: (2, 20), 3: (3, 40), 4: (4, 40), 9: (1, 10)}
    for message in claim.messages:
        row = await bench.row(message.id)
        assert (row.epoch, row.time_next) == (message.epoch, message.lease_until_ns)


async def test_a_claim_leaves_out_what_is_not_to_be_had(bench):
    future = await bench.now_ns() + 60 * SECOND
    await bench.add(Row(1), Row(2), Row(3, time_next=future), Row(4), Row(5, time_next=None))
    await bench.ack(2)
    await bench.delete(4)
    claim = await bench.store.claim(bench.spec, [1, 2, 3, 4, 5, 99], DELAYS)
    assert {message.id for message in claim.messages} == {1, 5}
    assert (await bench.row(3)).time_next == future and (await bench.row(3)).epoch == 0


async def test_a_claim_of_nothing_that_is_left_tells_the_time(bench):
    claim = await bench.store.claim(bench.spec, [1], DELAYS)
    assert claim.messages == () and abs(claim.now_ns - await bench.now_ns()) < CLOCK_SLACK


async def test_what_is_leased_cannot_be_claimed_again(bench):
    await bench.add(Row(1))
    await claim_one(bench)
    assert (await bench.store.claim(bench.spec, [1], DELAYS)).messages == ()
    poll = await bench.store.poll(bench.spec, 10)
    assert poll.keys == () and poll.next_due_ns == (await bench.row(1)).time_next


async def test_a_locked_row_is_passed_over_at_once(bench):
    if not bench.locks:
        pytest.skip("this database has one writer: its rows are never locked by another")
    await bench.add(Row(1), Row(2))
    await bench.lock(1)
    claim = await bench.store.claim(bench.spec, [1, 2], DELAYS)
    assert [message.id for message in claim.messages] == [2]


async def test_a_thousand_at_once(bench):
    await bench.add(*(Row(id_, time_next=id_) for id_ in range(1, 1001)))
    keys = (await bench.store.poll(bench.spec, 1000)).keys
    claim = await bench.store.claim(bench.spec, [key.id for key in keys], DELAYS)
    assert {message.id for message in claim.messages} == set(range(1, 1001))


# --- what a commit has just added


@pytest.fixture
def takes_added(bench) -> None:
    if not bench.spec.takes_added:
        pytest.skip("of a queue over several shards it is not known where a message is that was just added")


def foreseen(now_ns, seconds=10):
    return ForeseenLease(lease_end(now_ns + seconds * SECOND), now_ns - CLOCK_SLACK, now_ns + CLOCK_SLACK)


@pytest.mark.usefixtures("takes_added")
async def test_what_was_added_is_leased_as_a_claim_leases_it(bench):
    await bench.add(Row(7, priority=3, time_next=123, payload="Grüße"), Row(8, time_next=5), Row(9))
    now = await bench.now_ns()
    claim = await bench.store.claim_added(bench.spec, [7, 8], foreseen(now))
    assert abs(claim.now_ns - now) < CLOCK_SLACK
    messages = {message.id: message for message in claim.messages}
    assert messages.keys() == {7, 8}
    assert (messages[7].epoch, messages[7].priority, messages[7].due_ns) == (1, 3, 123)
    assert messages[7].lease_until_ns == lease_end(now + 10 * SECOND)
    for message in claim.messages:
        row = await bench.row(message.id)
        assert (row.epoch, row.time_next) == (1, message.lease_until_ns)
        values = dict(zip([column.name for column in bench.spec.columns], message.values, strict=True))
        assert values["time_next"] == str(row.time_next).encode() and values["epoch"] == b"1"
        assert values["payload"] == row.payload.encode()
    assert (await bench.row(9)).epoch == 0
    assert [key.id for key in (await bench.store.poll(bench.spec, 10)).keys] == [9]


@pytest.mark.usefixtures("takes_added")
async def test_of_what_was_added_only_that_is_leased_which_is_as_an_insert_leaves_it(bench):
    now = await bench.now_ns()
    await bench.add(
        Row(1),
        Row(2, time_next=now + 60 * SECOND),
        Row(3, epoch=1),
        Row(4, time_next=5, time_scheduled=4),
        Row(5, time_next=None, time_scheduled=4),
        Row(6),
    )
    await bench.ack(6)
    claim = await bench.store.claim_added(bench.spec, [1, 2, 3, 4, 5, 6, 77], foreseen(now))
    assert [message.id for message in claim.messages] == [1]
    assert [(await bench.row(id_)).epoch for id_ in (2, 3, 4, 5, 6)] == [0, 1, 0, 0, 0]
    assert await bench.store.claim_added(bench.spec, [1, 2, 77], foreseen(now, seconds=20)) is None
    assert (await bench.row(1)).time_next == lease_end(now + 10 * SECOND), "a second claim changes no lease"


@pytest.mark.usefixtures("takes_added")
@pytest.mark.parametrize("wrong_seconds", [-3600, 3600])
async def test_a_lease_that_was_foreseen_by_another_clock_is_not_made(bench, wrong_seconds):
    await bench.add(Row(1))
    wrong = foreseen(await bench.now_ns() + wrong_seconds * SECOND)
    assert await bench.store.claim_added(bench.spec, [1], wrong) is None
    assert ((await bench.row(1)).epoch, (await bench.row(1)).time_next) == (0, 0)


@pytest.mark.usefixtures("takes_added")
async def test_what_was_added_and_is_locked_is_not_waited_for(bench):
    if not bench.locks:
        pytest.skip("this database has one writer: its rows are never locked by another")
    await bench.add(Row(1), Row(2))
    await bench.lock(1)
    now = await bench.now_ns()
    async with asyncio.timeout(scaled(2)):  # a lock is waited for three seconds
        assert await bench.store.claim_added(bench.spec, [1, 2], foreseen(now)) is None
    assert [message.id for message in (await bench.store.claim_added(bench.spec, [2], foreseen(now))).messages] == [2]


# --- look and claim at once


async def test_a_look_and_claim_leases_the_first_of_what_it_found(bench):
    now = await bench.now_ns()
    await bench.add(*(Row(id_, time_next=id_, payload=f"p{id_}") for id_ in range(1, 6)))
    await bench.add(Row(6, time_next=now + 60 * SECOND))
    found = await bench.store.poll_and_claim(bench.spec, 4, 2, frozenset((1,)), DELAYS)
    assert [key.id for key in found.poll.keys] == [1, 2, 3, 4] and found.poll.more
    assert found.requested == (2, 3)
    assert sorted(message.id for message in found.claim.messages) == [2, 3]
    for message in found.claim.messages:
        row = await bench.row(message.id)
        assert (row.epoch, row.time_next) == (1, message.lease_until_ns)
        foreseen_end = lease_end(found.claim.now_ns + 10 * SECOND)  # of the shard whose clock is ahead
        assert message.lease_until_ns <= foreseen_end < message.lease_until_ns + CLOCK_SLACK
        assert f"p{message.id}".encode() in message.values
    for id_ in (1, 4, 5):
        assert (await bench.row(id_)).epoch == 0
    rest = await bench.store.poll(bench.spec, 10)
    assert [key.id for key in rest.keys] == [1, 4, 5]


async def test_a_look_and_claim_of_nothing_due_writes_nothing(bench):
    assert (await bench.store.poll_and_claim(bench.spec, 10, 10, (), DELAYS)).claim is None
    future = await bench.now_ns() + 60 * SECOND
    await bench.add(Row(1, time_next=future), Row(2))
    found = await bench.store.poll_and_claim(bench.spec, 10, 10, frozenset((2,)), DELAYS)
    assert (found.claim, found.requested) == (None, ())
    assert [key.id for key in found.poll.keys] == [2] and found.poll.next_due_ns == future
    assert (await bench.row(1)).epoch == 0 and (await bench.row(2)).epoch == 0


async def test_a_look_and_claim_passes_over_locked_rows_and_names_them(bench):
    if not bench.locks:
        pytest.skip("this database has one writer: its rows are never locked by another")
    await bench.add(Row(1), Row(2))
    await bench.lock(1)
    found = await bench.store.poll_and_claim(bench.spec, 10, 10, (), DELAYS)
    assert sorted(found.requested) == [1, 2] and [message.id for message in found.claim.messages] == [2]


async def test_looks_again_and_again_see_what_is_there_whatever_was_there_before(bench):
    """A store may remember what it found last time; it must never answer from that."""

    async def seen():
        poll = await bench.store.poll(bench.spec, 100)
        return [key.id for key in poll.keys], poll.next_due_ns

    future = await bench.now_ns() + 60 * SECOND
    await bench.add(Row(1, priority=50))
    assert await seen() == ([1], None)
    await bench.add(Row(2, priority=50, time_next=future), Row(3, priority=70, time_next=5))
    assert await seen() == ([1, 3], future), "the level seen before, and one after it"
    await bench.add(Row(4, priority=10, time_next=future - 1), Row(5, priority=None))
    assert await seen() == ([5, 1, 3], future - 1), "levels before it"
    await bench.ack(4, 5, 1, 2)
    assert await seen() == ([3], None), "only a level after it is left"
    await bench.ack(3)
    assert await seen() == ([], None)
    await bench.add(
        *(Row(100 + n, priority=70, time_next=n) for n in range(60)), Row(99, priority=70, time_next=future)
    )
    assert await seen() == ([*range(100, 160)], future), "more than a glance at the level shows"
    await bench.ack(*range(104, 160))
    assert await seen() == ([100, 101, 102, 103], future)


# --- unsettled


async def test_unsettled_are_those_that_exist_and_are_not_acked_with_how_they_stand(bench):
    await bench.add(Row(1, time_next=7), Row(2), Row(3), Row(5, time_next=None, epoch=None))
    await bench.add(Row(6, time_next=PARKED_NS), Row(7, epoch=3, time_next=REJECTED_NS))
    await bench.ack(2)
    await bench.delete(3)
    assert await bench.store.unsettled(bench.spec, [1, 2, 3, 4, 5, 6, 7]) == {1: (0, 7, 0), 5: (0, None, 0)}
    assert await bench.store.unsettled(bench.spec, []) == {}


# --- release


@pytest.mark.parametrize(("counted", "epoch"), [(True, 1), (False, 0)])
async def test_a_release_makes_due_as_before(bench, counted, epoch):
    await bench.add(Row(1, time_next=500), Row(2, time_next=400), Row(3, time_next=450))
    claim = await bench.store.claim(bench.spec, [1, 2], DELAYS)
    leases = [release_of(m) for m in claim.messages]
    assert await bench.store.release(bench.spec, leases, counted=counted) == 2
    assert [key.id for key in (await bench.store.poll(bench.spec, 10)).keys] == [2, 3, 1]
    assert (await bench.row(1)).epoch == epoch and (await bench.row(1)).time_next == 500


async def test_a_release_without_a_time_makes_due_as_scheduled(bench):
    await bench.add(Row(1, time_next=500, time_scheduled=300), Row(2, time_next=400, time_scheduled=200))
    claim = await bench.store.claim(bench.spec, [1, 2], DELAYS)
    leases = {message.id: release_of(message) for message in claim.messages}
    assert await bench.store.release(bench.spec, [leases[1]._replace(due_ns=None), leases[2]], counted=False) == 2
    assert [(await bench.row(id_)).time_next for id_ in (1, 2)] == [300, 400]


async def test_only_this_very_lease_is_released(bench):
    await bench.add(*(Row(id_, time_next=100) for id_ in range(1, 6)))
    claim = await bench.store.claim(bench.spec, [1, 2, 3, 4, 5], DELAYS)
    leases = {m.id: release_of(m) for m in claim.messages}
    await bench.ack(1)
    await bench.delete(2)
    stale = Release(3, 100, leases[3].lease_until_ns - 1, 1)
    other = Release(4, 100, leases[4].lease_until_ns, 2)
    released = await bench.store.release(bench.spec, [leases[1], leases[2], stale, other, leases[5]], counted=True)
    assert released == 1
    assert (await bench.row(5)).time_next == 100
    assert (await bench.row(3)).time_next == leases[3].lease_until_ns
    assert (await bench.row(1)).time_next is None
    assert await bench.store.release(bench.spec, [leases[5]], counted=True) == 0, "a second release changes nothing"


async def test_a_release_passes_over_locked_rows(bench):
    if not bench.locks:
        pytest.skip("this database has one writer: its rows are never locked by another")
    await bench.add(Row(1))
    message = await claim_one(bench)
    await bench.lock(1)
    lease = release_of(message)
    assert await bench.store.release(bench.spec, [lease], counted=True) == 0


async def test_many_leases_are_released_in_one_call(bench):
    await bench.add(*(Row(id_, time_next=1000 * id_) for id_ in range(1, 502)))
    claim = await bench.store.claim(bench.spec, list(range(1, 502)), DELAYS)
    leases = [release_of(m) for m in claim.messages]
    assert await bench.store.release(bench.spec, leases, counted=False) == 501
    keys = (await bench.store.poll(bench.spec, 1000)).keys
    assert [(key.id, key.due_ns) for key in keys] == [(id_, 1000 * id_) for id_ in range(1, 502)]


# --- purge


async def test_purge_deletes_by_age_of_the_ack_in_batches(bench):
    now = await bench.now_ns()
    old, young = now - 2 * 86400 * SECOND, now - 3600 * SECOND
    await bench.add(*(Row(id_) for id_ in range(1, 8)))
    await bench.ack(1, 2, 3, 4, 5, at_ns=old)
    await bench.ack(6, at_ns=young)
    assert [await bench.store.purge(bench.spec, 3) for _ in range(3)] == [3, 2, 0]
    assert [id_ for id_ in range(1, 8) if await bench.row(id_)] == [6, 7]


async def test_purge_passes_over_locked_rows(bench):
    if not bench.locks:
        pytest.skip("this database has one writer: its rows are never locked by another")
    await bench.add(Row(1), Row(2))
    await bench.ack(1, 2, at_ns=1)
    await bench.lock(1)
    assert await bench.store.purge(bench.spec, 10) == 1
    assert await bench.row(2) is None


async def test_what_is_not_archived_is_not_purged(bench):
    if isinstance(bench, MemoryBench | ShardedBench):
        pytest.skip("the fake knows no archive, and a sharded queue has none")
    now = await bench.now_ns()
    kept = dataclasses.replace(bench.spec, options=dataclasses.replace(bench.spec.options, archive=True))
    times = {id_: now - (10 - id_) * 86400 * SECOND for id_ in range(1, 9)}
    await bench.add(*(Row(id_) for id_ in times))
    for id_, at_ns in times.items():
        await bench.ack(id_, at_ns=at_ns)
    if isinstance(bench, SqliteBench):  # the table is made by the sessions' side of the embedded backend
        with pytest.raises(BackendError):
            await bench.store.purge(kept, 100)
        definition = make_table(kept.name.database).removesuffix(" ENGINE=InnoDB")
        await bench.run(definition.replace("CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ""))
    assert await bench.store.purge(kept, 100) == 0, "no archive knows the queue"
    assert await bench.store.purge(kept, 100) == 0
    for until, left in ((times[3], [4, 5, 6, 7, 8]), (times[3] + 1, [4, 5, 6, 7, 8]), (now, [])):
        await bench.run(f"REPLACE INTO queuegate_archive VALUES ('{kept.name.table}', {until})")
        await bench.store.purge(kept, 100)
        assert [id_ for id_ in times if await bench.row(id_)] == left
    await bench.add(Row(9))
    await bench.ack(9, at_ns=now - 3600 * SECOND)
    assert await bench.store.purge(kept, 100) == 0, "archived, and not old enough"


async def test_close_twice(bench):
    await bench.store.close()
    await bench.store.close()


# --- looking


async def test_the_census_tells_the_states_apart(bench):
    now = await bench.now_ns()
    now -= now % 1000
    hour = 3600 * SECOND
    await bench.add(
        Row(1, time_next=now - 60 * SECOND),
        Row(2, time_next=None),
        Row(3, time_next=now + hour),
        Row(4, time_next=now + hour, epoch=2),
        Row(5, time_next=lease_end(now + hour), epoch=1),
        Row(6, time_next=lease_end(now + hour), epoch=7),
        Row(7, time_next=lease_end(now - hour), epoch=1),
        Row(8, time_next=REJECTED_NS, epoch=1),
        Row(9, time_next=PARKED_NS),
        Row(10, time_next=None, time_acked=now, epoch=1),
    )
    census = await bench.store.counts.census(bench.spec)
    assert (census.ready, census.scheduled, census.retrying) == (3, 1, 1)
    assert (census.in_flight, census.parked, census.acked) == (2, 2, 1)
    assert census.unacked == 9
    assert not census.bounded
    if census.oldest_ready_age is not None:  # the fake does not say
        assert hour <= census.oldest_ready_age * SECOND + CLOCK_SLACK
    held = await bench.store.counts.leased_messages(bench.spec, 10)
    assert sorted(message.id for message in held) == [5, 6]
    assert all(abs(message.seconds_left - 3600) < 10 for message in held)


async def test_the_census_of_an_empty_table(bench):
    assert await bench.store.counts.census(bench.spec) == Census()
    assert await bench.store.counts.leased_messages(bench.spec, 10) == []
    await bench.store.ping()


async def test_a_renewed_lease_is_released_whatever_its_end(bench):
    await bench.add(Row(1, time_next=1000), Row(2, time_next=2000))
    claim = await bench.store.claim(bench.spec, [1, 2], DELAYS)
    leases = [Release(m.id, m.due_ns, RENEWED, m.epoch) for m in claim.messages]
    other = [lease._replace(epoch=lease.epoch + 1) for lease in leases]
    assert await bench.store.release(bench.spec, other, counted=True) == 0
    assert await bench.store.release(bench.spec, leases[:1], counted=True) == 1
    assert await bench.store.release(bench.spec, leases[:1], counted=True) == 0  # it is leased no longer
    keys = (await bench.store.poll(bench.spec, 10)).keys
    assert [(key.id, key.due_ns) for key in keys] == [(1, 1000)]

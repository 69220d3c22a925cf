"""Delivery: order, turns, windows, timers, retries. The whole engine in virtual time over the in-memory store."""

from __future__ import annotations

import asyncio

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.delivery.conflicts import RETRIES_PER_SECOND
from engine.model.commit_report import CommitReport
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import QueueName
from engine.model.states import lease_end


@in_virtual_time
async def test_a_committed_message_arrives_at_once_and_is_leased():
    async with world() as w:
        receiver = await w.receive()
        await w.commit(Row(1, payload="hello"))
        assert receiver.ids == [1] and receiver.times == [1000.0]
        message = receiver.batches[0].messages[0]
        assert receiver.batches[0].rows == ((b"1", b"hello"),)
        row = w.store.tables[NAME][1]
        assert (row.epoch, row.time_next) == (1, message.lease_until_ns)
        assert message.lease_until_ns == lease_end(w.clock.now_ns() + 60 * SECOND)


@in_virtual_time
async def test_nothing_is_handed_out_that_is_not_leased_in_the_table():
    async with world(make_spec(batch_size=7)) as w:
        receivers = [await w.receive() for _ in range(3)]
        for first in range(1, 200, 20):
            await w.commit(*(Row(id_) for id_ in range(first, first + 20)))
        for batch in (batch for receiver in receivers for batch in receiver.batches):
            for message in batch.messages:
                row = w.store.tables[NAME][message.id]
                assert row.time_next == message.lease_until_ns and row.epoch == message.epoch == 1
        assert sorted(id_ for receiver in receivers for id_ in receiver.ids) == list(range(1, 200 + 1))


@in_virtual_time
async def test_messages_that_were_there_before_come_in_order():
    async with world() as w:
        w.store.add(Row(1, time_next=30), Row(2, time_next=20), Row(3, priority=1, time_next=90), Row(4, priority=60))
        receiver = await w.receive()
        assert receiver.ids == [3, 2, 1, 4]


@in_virtual_time
async def test_a_commit_of_higher_priority_overtakes_what_waits_in_memory():
    async with world(make_spec(batch_size=2)) as w:
        w.store.fill(range(1, 11))
        receiver = await w.receive(reading=False)
        before = len(receiver.ids)
        assert w.manager.status().cached > 0
        await w.commit(Row(99, priority=1))
        receiver.go_on_reading()
        await settle(500)
        ahead = 2  # the batch that was handed over before the commit
        assert 99 in receiver.ids[before : before + ahead + 1]
        assert len(receiver.ids) == 11


@in_virtual_time
async def test_receivers_take_turns():
    async with world() as w:
        receivers = [await w.receive() for _ in range(3)]
        for id_ in range(1, 10):
            await w.commit(Row(id_))
        assert [receiver.ids for receiver in receivers] == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]


@in_virtual_time
async def test_scarce_messages_are_spread_evenly_in_one_claim():
    async with world() as w:
        receivers = [await w.receive() for _ in range(3)]
        await w.commit(*(Row(id_, time_next=id_) for id_ in range(1, 8)))
        assert sorted(len(receiver.ids) for receiver in receivers) == [2, 2, 3]
        assert w.store.calls["claim"] == 1


@in_virtual_time
async def test_no_batch_is_larger_than_batch_size():
    async with world(make_spec(batch_size=10)) as w:
        w.store.fill(range(1, 36))
        receiver = await w.receive()
        await settle(500)
        assert [len(batch.messages) for batch in receiver.batches] == [10, 10, 10, 5]
        assert receiver.ids == list(range(1, 36))


@in_virtual_time
async def test_a_receiver_holds_no_more_than_prefetch_until_it_acks():
    async with world(make_spec(batch_size=10)) as w:
        w.store.fill(range(1, 101))
        receiver = await w.receive(prefetch=25)
        await settle(500)
        assert len(receiver.ids) == 25 and receiver.subscription.unacked == 25
        w.ack(*range(1, 6))
        await settle(500)
        assert len(receiver.ids) == 30
        assert repr(receiver.subscription) == "<Subscription main.q endless waiting sent=30 unacked=25>"


@in_virtual_time
async def test_a_full_window_notices_acks_around_the_proxy_within_a_second():
    async with world() as w:
        w.store.fill(range(1, 11))
        receiver = await w.receive(prefetch=2)
        assert len(receiver.ids) == 2
        w.ack(1, 2, heard=False)
        await pass_time(1.1)
        await settle()
        assert len(receiver.ids) == 4
        # Without acks the table is asked no more than once a second.
        asked = w.store.calls["unsettled"]
        await pass_time(10)
        assert w.store.calls["unsettled"] - asked <= 10


@pytest.mark.parametrize("told", [True, False], ids=["a commit by WHERE", "around the proxy"])
@in_virtual_time
async def test_a_full_window_notices_its_acks_however_many_messages_others_have(monkeypatch, told):
    """More are in flight than one pass examines: each has its turn, also while commits may have ended any."""
    monkeypatch.setattr("engine.delivery.rechecker._IDS_MAX", 10)
    async with world(make_spec(ack_wait_ns=3600 * SECOND)) as w:
        w.store.fill(range(1, 26))
        assert len((await w.receive(prefetch=25)).ids) == 25
        receiver = await w.receive(prefetch=2)
        await w.commit(Row(31), Row(32))
        assert receiver.ids == [31, 32]
        await w.commit(Row(33))
        w.ack(31, 32, heard=False)
        w.store.calls.clear()
        for _ in range(5):  # a round in progress, and the next
            if told:
                w.engine.committed(CommitReport(uncertain=frozenset((NAME,))))
            await pass_time(1.0)
        await settle()
        assert receiver.ids == [31, 32, 33]
        asked = w.store.calls["unsettled"]
        await pass_time(10.0)
        assert w.store.calls["unsettled"] - asked <= 3, "the rest of a round, and no more"


@in_virtual_time
async def test_a_full_window_on_an_empty_queue_asks_nothing():
    async with world(make_spec(poll_interval_ns=3600 * SECOND, ack_wait_ns=3000 * SECOND)) as w:
        w.store.fill(range(1, 3))
        receiver = await w.receive(prefetch=2)
        await pass_time(1)
        calls = sum(w.store.calls.values()) - w.store.calls["load_catalog"]
        await pass_time(900)
        assert sum(w.store.calls.values()) - w.store.calls["load_catalog"] <= calls + 1, "the purge at most"
        assert len(receiver.ids) == 2


@in_virtual_time
async def test_settled_by_where_frees_a_full_window_at_once():
    async with world() as w:
        w.store.fill(range(1, 11))
        receiver = await w.receive(prefetch=2)
        w.store.ack(1, 2)
        w.engine.committed(CommitReport(uncertain=frozenset((NAME,))))
        await settle()
        assert receiver.ids == [1, 2, 3, 4] and receiver.times[-1] == 1000.0


@in_virtual_time
async def test_a_reader_that_stops_reading_delays_nobody():
    async with world(make_spec(batch_size=5)) as w:
        stuck, quick = await w.receive(), await w.receive()
        stuck.stop_reading()
        await w.commit(*(Row(id_) for id_ in range(1, 101)))
        await settle(1000)
        assert len(stuck.ids) == 5
        assert len(quick.ids) == 95


@in_virtual_time
async def test_a_scheduled_message_comes_when_it_falls_due():
    async with world() as w:
        receiver = await w.receive()
        await w.commit(Row(1, time_next=w.clock.now_ns() + 2 * SECOND))
        await w.commit(Row(2, time_next=w.clock.now_ns() + 7200 * SECOND))
        assert receiver.ids == []
        await pass_time(1.9)
        assert receiver.ids == []
        await pass_time(0.2)
        assert receiver.ids == [1] and receiver.times[0] - 1000.0 == pytest.approx(2.0, abs=0.01)
        w.ack(1)
        await pass_time(7200)
        assert receiver.ids == [1, 2] and receiver.times[1] - 1000.0 == pytest.approx(7200.0, abs=0.01)


@in_virtual_time
async def test_an_unacked_message_comes_again_at_the_documented_spacing():
    """ack_wait 10 s, backoff 10 s doubling to 60 s, jitter 1: leases of 20, 30, 50, 70, 70 seconds."""
    spec = make_spec(ack_wait_ns=10 * SECOND, max_backoff_ns=60 * SECOND)
    async with world(spec) as w:
        receiver = await w.receive()
        await w.commit(Row(1))
        await pass_time(200)
        assert [round(time - 1000.0) for time in receiver.times] == [0, 20, 50, 100, 170]
        assert receiver.epochs == [1, 2, 3, 4, 5]
        assert w.counters()["redelivered"] == 4 and w.counters()["expired"] == 4
        w.ack(1)
        await pass_time(1000)
        assert len(receiver.ids) == 5


@in_virtual_time
async def test_a_subscription_may_have_its_own_ack_wait():
    async with world(make_spec(ack_wait_ns=10 * SECOND)) as w:
        patient, usual = await w.receive(ack_wait_ns=100 * SECOND), await w.receive()
        await w.commit(Row(1), Row(2))
        now = w.clock.now_ns()
        assert patient.batches[0].messages[0].lease_until_ns == lease_end(now + 110 * SECOND)
        assert usual.batches[0].messages[0].lease_until_ns == lease_end(now + 20 * SECOND)
        assert w.store.calls["claim"] == 2


@in_virtual_time
@pytest.mark.parametrize("how", ["ack", "delete", "text id", "bytes id"])
async def test_what_is_settled_while_it_waits_in_memory_is_not_sent(how):
    async with world(make_spec(batch_size=1)) as w:
        w.store.fill(range(1, 4))
        receiver = await w.receive(reading=False)
        if how == "delete":
            del w.store.tables[NAME][3]
            w.engine.committed(CommitReport(settled={NAME: (3,)}))
        else:
            given = {"ack": 3, "text id": "3", "bytes id": b"3"}[how]
            w.store.ack(3)
            w.engine.committed(CommitReport(settled={NAME: (given,)}))
        receiver.go_on_reading()
        await settle(500)
        assert receiver.ids == [1, 2]
        assert w.counters()["settled_seen"] == 1


@in_virtual_time
async def test_what_is_settled_around_the_proxy_is_not_sent_either():
    async with world(make_spec(batch_size=1)) as w:
        w.store.fill(range(1, 4))
        receiver = await w.receive(reading=False)
        w.ack(3, heard=False)
        receiver.go_on_reading()
        await settle(500)
        assert receiver.ids == [1, 2]


@in_virtual_time
@pytest.mark.parametrize("by_where", [False, True])
async def test_what_is_settled_between_the_lease_and_the_hand_out_is_not_sent(by_where):
    async with world() as w:
        receiver = await w.receive()

        async def ack_meanwhile():
            w.store.ack(1)
            report = {"uncertain": frozenset((NAME,))} if by_where else {"settled": {NAME: (1,)}}
            w.engine.committed(CommitReport(**report))

        w.store.during["claim"] = ack_meanwhile
        await w.commit(Row(1), Row(2))
        assert receiver.ids == [2]
        assert receiver.subscription.unacked == 1


@in_virtual_time
@pytest.mark.parametrize("heard", [False, True])
async def test_what_is_settled_between_the_look_and_the_lease_is_not_sent(heard):
    async with world() as w:
        receiver = await w.receive()

        async def ack_meanwhile():
            w.ack(1, heard=heard)

        w.store.during["poll"] = ack_meanwhile
        await w.commit(Row(1), Row(2))
        assert receiver.ids == [2]
        assert w.store.tables[NAME][1].time_next is None and w.store.tables[NAME][1].epoch == 0


@in_virtual_time
async def test_a_commit_costs_one_call_where_a_receiver_waits_and_nothing_else_does():
    async with world(make_spec(batch_size=2)) as w:
        receiver = await w.receive()
        before, at_once = w.store.calls.copy(), w.store.at_once
        await w.commit(Row(1))
        calls = w.store.calls - before
        assert receiver.ids == [1]
        assert (w.store.at_once - at_once, calls["poll"], calls["claim"]) == (1, 1, 1)
        await w.commit(*(Row(id_, time_next=id_) for id_ in range(2, 8)))
        calls = w.store.calls - before
        assert receiver.ids == [1, 2, 3, 4, 5, 6, 7]
        assert (w.store.at_once - at_once, calls["poll"]) == (2, 2)
        assert (calls["claim"], calls["claim_added"]) == (2, 2), "the rest is claimed from the cache, without a look"


@in_virtual_time
async def test_what_was_leased_for_a_receiver_that_left_meanwhile_goes_back_uncounted():
    async with world() as w:
        receiver, later = await w.receive(), []

        async def leave():
            receiver.task.cancel()
            later.append(asyncio.create_task(receiver.subscription.close(release=True)))
            await settle()

        w.store.during["claim"] = leave
        await w.commit(Row(1, time_next=5))
        await settle()
        assert later[0].done() and receiver.ids == []
        row = w.store.tables[NAME][1]
        assert (row.time_next, row.epoch) == (5, 0)
        assert (await w.receive()).epochs == [1]


@in_virtual_time
async def test_a_commit_during_a_look_and_claim_is_looked_for_again():
    async with world() as w:
        receiver = await w.receive()

        async def commit_more():
            w.store.add(Row(2))
            w.engine.committed(CommitReport(touched=frozenset((NAME,))))

        w.store.during["claim"] = commit_more
        await w.commit(Row(1))
        assert receiver.ids == [1, 2] and receiver.times == [1000.0, 1000.0]


@in_virtual_time
async def test_a_message_made_due_again_while_in_flight_goes_to_whoever_is_next():
    async with world() as w:
        first, second = await w.receive(), await w.receive()
        await w.commit(Row(1))
        assert first.ids == [1]
        w.store.tables[NAME][1].time_next = 0  # NACK
        w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        await settle()
        assert second.ids == [1] and second.epochs == [2]
        assert (first.subscription.unacked, second.subscription.unacked) == (0, 1)


@in_virtual_time
async def test_a_backlog_drains_through_a_small_cache_without_waiting():
    async with world(make_spec(cache_size=2, batch_size=100)) as w:
        w.store.fill(range(1, 1001))
        receiver = await w.receive()
        await settle(20_000)
        assert receiver.ids == list(range(1, 1001))
        assert receiver.times[-1] == 1000.0
        assert w.manager.status().cached <= 2


@in_virtual_time
async def test_claims_grow_as_the_size_of_the_messages_allows():
    async with world(make_spec(batch_size=1000, prefetch=10_000)) as w:
        w.store.fill(range(1, 2001))
        light = await w.receive()
        await settle(500)
        assert [len(batch.messages) for batch in light.batches] == [16, 64, 256, 1000, 664]
        await w.commit(*(Row(id_, payload="x" * 1_000_000, time_next=id_) for id_ in range(3001, 3041)))
        await settle(500)
        assert [len(batch.messages) for batch in light.batches[5:]] == [40], "nothing told of it"
        await w.commit(*(Row(id_, payload="x" * 1_000_000, time_next=id_) for id_ in range(4001, 4041)))
        await settle(500)
        assert [len(batch.messages) for batch in light.batches[6:]] == [12, 12, 12, 4]


@in_virtual_time
async def test_the_cache_stays_bounded_under_a_large_backlog():
    async with world(make_spec(cache_size=500, batch_size=10)) as w:
        w.store.fill(range(1, 20_001))
        await w.receive(reading=False)
        for id_ in range(30_000, 30_020):
            await w.commit(Row(id_, priority=1))
        assert w.manager.status().cached <= 500


@in_virtual_time
async def test_queues_do_not_disturb_each_other():
    names = [QueueName("main", f"q{n}") for n in range(20)]
    async with world(*(make_spec(name) for name in names), work_limit=2) as w:
        receivers = [await w.receive(name) for name in names]
        w.store.latency = 0.01
        for n, name in enumerate(names):
            await w.commit(Row(n), queue=name)
        await pass_time(5)
        assert [receiver.ids for receiver in receivers] == [[n] for n in range(20)]
        assert w.store.running_most <= 2


@in_virtual_time
async def test_locked_rows_wait_without_a_hot_loop_and_hold_nothing_up():
    async with world() as w:
        w.store.fill(range(1, 11))
        w.store.locked = {1, 2, 3}
        receiver = await w.receive()
        assert receiver.ids == list(range(4, 11))
        claims = w.store.calls["claim"]
        await pass_time(10)
        assert w.store.calls["claim"] - claims <= 16, "20 ms doubling to 1 s: 6 times in the first second, then 1 each"
        assert w.counters()["lease_conflicts"] >= 3 * 9, "each of the three, each time"
        w.store.locked = set()
        await pass_time(1.01)
        assert sorted(receiver.ids) == list(range(1, 11))


@in_virtual_time
async def test_a_locked_row_that_is_then_settled_is_forgotten():
    async with world(make_spec(poll_interval_ns=3600 * SECOND)) as w:
        w.store.fill(range(1, 2))
        w.store.locked = {1}
        await w.receive()
        await pass_time(5)
        w.store.locked = set()
        w.ack(1, heard=False)
        await pass_time(2)
        looks = w.store.calls["poll"]
        await pass_time(60)
        assert w.store.calls["poll"] == looks


@in_virtual_time
async def test_a_commit_ends_the_wait_for_locked_rows():
    async with world() as w:
        w.store.fill(range(1, 3))
        w.store.locked = {1, 2}
        receiver = await w.receive()
        await pass_time(5)
        w.store.locked = set()
        at = w.time
        await w.commit(Row(3, time_next=3))
        assert receiver.ids == [1, 2, 3] and w.time == at


@in_virtual_time
async def test_rows_locked_at_the_head_do_not_starve_the_rest():
    async with world(make_spec(cache_size=10)) as w:
        w.store.fill(range(1, 101))
        w.store.locked = set(range(1, 51))
        receiver = await w.receive()
        await pass_time(3)
        assert sorted(receiver.ids) == list(range(51, 101))


@pytest.mark.parametrize("commits", [False, True], ids=["at rest", "with commits"])
@in_virtual_time
async def test_many_locked_rows_are_tried_at_a_bounded_rate_and_what_is_behind_them_comes(commits):
    async with world(make_spec(batch_size=5)) as w:
        w.store.fill(range(1, 1001))
        w.store.locked = set(range(1, 1001))
        receiver = await w.receive()
        await pass_time(10)
        w.store.calls.clear()
        await w.commit(Row(2000))
        await pass_time(1)
        assert receiver.ids == [2000]
        for id_ in range(2001, 2091):
            if commits:
                await w.commit(Row(id_))
            await pass_time(0.1)
        assert receiver.ids == list(range(2000, 2091 if commits else 2001))
        assert w.store.calls["claim"] < 25 * RETRIES_PER_SECOND and w.store.calls["poll"] < 150
        w.store.locked = set()
        await pass_time(4)
        assert set(receiver.ids) >= set(range(1, 901))


@in_virtual_time
async def test_more_locked_rows_than_are_known_make_no_hot_loop(monkeypatch):
    monkeypatch.setattr("engine.delivery.conflicts.CONFLICTS_MAX", 100)
    async with world(make_spec(batch_size=10, cache_size=200)) as w:
        w.store.fill(range(1, 1001))
        w.store.locked = set(range(1, 1001))
        receiver = await w.receive()
        await pass_time(10)
        w.store.calls.clear()
        await pass_time(10)
        assert w.store.calls["claim"] < 500 and w.store.calls["poll"] < 100
        assert (await w.fetch(limit=1)).ids == []
        w.store.locked = set()
        await pass_time(5)
        assert len(receiver.ids) > 0


@in_virtual_time
async def test_a_slow_database_still_delivers_everything_once():
    async with world(make_spec(batch_size=10)) as w:
        w.store.latency = 0.05
        receivers = [await w.receive() for _ in range(3)]
        for id_ in range(1, 301):
            await w.commit(Row(id_))
        await pass_time(20)
        got = [id_ for receiver in receivers for id_ in receiver.ids]
        assert sorted(got) == list(range(1, 301))


@in_virtual_time
async def test_what_ends_while_another_group_is_claimed_is_not_claimed_any_more():
    """Receivers of unequal ack_wait are served by one claim each."""
    async with world(make_spec(batch_size=1)) as w:
        first, second = await w.receive(), await w.receive(ack_wait_ns=10**9)

        async def ack_meanwhile() -> None:
            w.ack(2)

        w.store.during["claim"] = ack_meanwhile
        await w.commit(Row(1, time_next=1), Row(2, time_next=2))
        assert (first.ids, second.ids) == ([1], [])
        assert (w.counters()["claims"], w.counters()["lease_conflicts"]) == (1, 0)

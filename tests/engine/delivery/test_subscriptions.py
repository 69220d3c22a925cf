"""Subscriptions: how they end (LIMIT, WAIT, NOWAIT, from outside), what goes back, what is refused."""

from __future__ import annotations

import asyncio

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import request_of, world

from engine.delivery.subscription import Subscription
from engine.model.commit_report import CommitReport
from engine.model.errors import (
    BackendUnavailable,
    InvalidOption,
    InvalidQueueTable,
    QueueNotFound,
    StreamKilled,
    UnknownColumn,
)
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import QueueCatalog, QueueName, SubscribeRequest, WaitMode
from engine.model.states import lease_end

# --- how a result ends by itself


@in_virtual_time
async def test_nowait_returns_what_is_due_and_ends():
    async with world() as w:
        w.store.fill(range(1, 4))
        w.store.add(Row(9, time_next=w.clock.now_ns() + SECOND))
        receiver = await w.fetch()
        assert receiver.ids == [1, 2, 3] and w.time == 0.0
        assert (await w.fetch()).ids == []


@in_virtual_time
async def test_nowait_sees_what_was_committed_around_the_proxy_before_it():
    async with world() as w:
        await w.receive(prefetch=1)  # keeps the manager from being idle
        await w.commit(Row(1))
        w.store.add(Row(2))
        assert (await w.fetch(limit=10)).ids == [2] and w.time == 0.0


@pytest.mark.parametrize("mode", [WaitMode.NOWAIT, WaitMode.WAIT, WaitMode.ENDLESS])
@in_virtual_time
async def test_results_that_share_a_poll_miss_nothing_that_falls_due_meanwhile(mode: WaitMode):
    async with world() as w:
        w.store.fill(range(1, 200))
        w.store.add(Row(999, priority=1, time_next=w.store.clock.now_ns() + SECOND // 2))
        assert (await w.fetch(limit=1, mode=mode)).ids == [1]
        await pass_time(0.2)
        polls = w.store.calls["poll"]
        assert (await w.fetch(limit=1, mode=mode)).ids == [2] and w.store.calls["poll"] == polls
        await pass_time(0.2)
        assert (await w.fetch(limit=1, mode=mode)).ids == [3] and w.store.calls["poll"] == polls
        await pass_time(0.2)
        assert (await w.fetch(limit=1, mode=mode)).ids == [999]


@in_virtual_time
@pytest.mark.parametrize(("limit", "count"), [(500, 500), (7, 7), (None, 100), (0, 0), (2000, 1200)])
async def test_nowait_returns_up_to_its_limit_whatever_batch_size_and_prefetch(limit, count):
    async with world(make_spec(batch_size=100, prefetch=100, cache_size=150)) as w:
        w.store.fill(range(1, 1201))
        receiver = await w.fetch(limit=limit)
        assert receiver.ids == list(range(1, count + 1))
        assert all(len(batch.messages) <= 100 for batch in receiver.batches)


@in_virtual_time
async def test_wait_ends_with_the_first_messages():
    async with world() as w:
        task = asyncio.create_task(w.fetch(limit=10, wait=5))
        await pass_time(2)
        await w.commit(Row(1), Row(2))
        receiver = await task
        assert receiver.ids == [1, 2] and w.time == 2.0


@in_virtual_time
async def test_a_look_for_a_receiver_that_is_gone_is_no_answer_to_the_next():
    """It began before what was committed while nobody received."""
    async with world() as w:
        gone = await w.receive()
        answered = asyncio.Event()
        w.store.during["poll"] = answered.wait
        await w.commit(Row(1, time_next=w.clock.now_ns() + 7200 * SECOND))
        await gone.close()
        await w.commit(Row(2))
        receiver = await w.receive(limit=1, wait_mode=WaitMode.WAIT, wait_seconds=10.0)
        answered.set()
        await receiver.ended.wait()
        assert receiver.ids == [2] and w.time == 0.0


@in_virtual_time
async def test_wait_ends_with_nothing_when_its_time_is_over():
    async with world() as w:
        receiver = await w.fetch(limit=10, wait=5)
        assert (receiver.ids, receiver.error, w.time) == ([], None, 5.0)


@in_virtual_time
async def test_wait_drains_what_is_due_up_to_its_limit():
    async with world(make_spec(batch_size=10)) as w:
        w.store.fill(range(1, 101))
        assert (await w.fetch(limit=35, wait=5)).ids == list(range(1, 36))
        assert (await w.fetch(wait=5)).ids == list(range(36, 46)), "without LIMIT: one batch"
        assert w.time == 0.0


@in_virtual_time
async def test_wait_gets_a_message_that_falls_due_meanwhile():
    async with world() as w:
        w.store.add(Row(1, time_next=w.clock.now_ns() + 3 * SECOND))
        receiver = await w.fetch(limit=1, wait=5)
        assert receiver.ids == [1] and w.time == pytest.approx(3.0, abs=0.01)


@in_virtual_time
async def test_a_wait_that_runs_out_during_a_claim_still_gets_its_messages():
    async with world() as w:
        task = asyncio.create_task(w.fetch(limit=1, wait=5))
        await pass_time(4.95)
        w.store.latency = 0.1
        await w.commit(Row(1))
        receiver = await task
        assert receiver.ids == [1] and w.store.tables[NAME][1].epoch == 1


@in_virtual_time
async def test_limit_ends_an_endless_stream_after_that_many():
    async with world() as w:
        receiver = await w.receive(limit=3)
        await w.commit(Row(1), Row(2))
        assert not receiver.ended.is_set()
        await w.commit(Row(3), Row(4))
        assert receiver.ended.is_set() and receiver.ids == [1, 2, 3]
        await receiver.subscription.close(release=False)
        await settle()
        leased = [row.id for row in w.store.tables[NAME].values() if row.epoch]
        assert sorted(leased) == sorted(receiver.ids), "leases of a result that ended normally stand"


@in_virtual_time
async def test_many_long_polls_share_what_comes():
    async with world() as w:
        tasks = [asyncio.create_task(w.fetch(limit=1, wait=10)) for _ in range(5)]
        await pass_time(1)
        await w.commit(*(Row(id_) for id_ in range(1, 4)))
        await pass_time(20)
        got = [(await task).ids for task in tasks]
        assert sorted(ids[0] for ids in got if ids) == [1, 2, 3] and got.count([]) == 2


@in_virtual_time
async def test_a_finished_wait_leaves_no_timer_behind():
    async with world() as w:
        for id_ in range(50):
            await w.commit(Row(id_))
            await w.fetch(limit=1, wait=100_000)
        cancelled = [h for h in asyncio.get_running_loop()._scheduled if "_wait_over" in repr(h) and not h.cancelled()]
        assert cancelled == []


# --- ended from outside


@in_virtual_time
async def test_end_wakes_a_waiting_consumer_with_the_error():
    async with world() as w:
        receiver = await w.receive()
        receiver.subscription.end(StreamKilled("Query execution was interrupted"))
        await receiver.ended.wait()
        assert isinstance(receiver.error, StreamKilled)
        receiver.subscription.end(StreamKilled("again"))
        await receiver.subscription.close(release=True)
        await receiver.subscription.close(release=True)
        assert repr(w.manager) == "<MessageManager main.q idle subscribers=0 cached=0 in_flight=0 sent=0>"


@in_virtual_time
async def test_end_reaches_a_consumer_that_reads_when_it_comes_back():
    async with world() as w:
        receiver = await w.receive(reading=False)
        await w.commit(Row(1))
        receiver.subscription.end(StreamKilled("killed"))
        receiver.go_on_reading()
        await receiver.ended.wait()
        assert receiver.ids == [1] and isinstance(receiver.error, StreamKilled)


@in_virtual_time
async def test_two_readers_of_one_subscription_are_a_defect():
    async with world() as w:
        receiver = await w.receive()
        with pytest.raises(RuntimeError):
            await anext(receiver.subscription)


@in_virtual_time
async def test_a_reader_that_gives_up_waiting_loses_nothing():
    async with world() as w:
        subscription = await w.engine.subscribe(SubscribeRequest(NAME))
        for id_ in range(1, 21):
            reading = asyncio.ensure_future(anext(subscription))
            await settle(3)
            w.store.add(Row(id_))
            w.engine.committed(_touched())
            await settle(id_ % 20)  # cancelled at every stage of the look and the claim
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            got = [] if reading.cancelled() else [m.id for m in reading.result().messages]
            if not got:
                got = [message.id for message in (await anext(subscription)).messages]
            assert got == [id_]
        await subscription.close(release=True)


@in_virtual_time
async def test_who_stops_waiting_goes_to_the_end_of_the_line():
    async with world() as w:
        first = await w.engine.subscribe(SubscribeRequest(NAME))
        reading = asyncio.ensure_future(anext(first))
        await settle()
        second = await w.receive()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        reading = asyncio.ensure_future(anext(first))
        await settle()
        await w.commit(Row(1))
        assert second.ids == [1] and not reading.done()
        await first.close(release=True)
        with pytest.raises(StopAsyncIteration):
            await reading


def _touched():
    from engine.model.commit_report import CommitReport

    return CommitReport(touched=frozenset((NAME,)))


# --- what goes back


@in_virtual_time
async def test_the_messages_of_a_receiver_that_is_gone_go_to_another_at_once_first_in_line():
    async with world(make_spec(batch_size=3)) as w:
        w.store.fill(range(1, 10))
        gone = await w.receive(reading=False)
        assert gone.ids == [1, 2, 3]
        await gone.close(release=True)
        other = await w.receive()
        assert other.ids == list(range(1, 10)) and other.times[0] == 1000.0
        assert other.epochs == [2, 2, 2, 1, 1, 1, 1, 1, 1], "counted as an attempt"
        assert w.counters()["released"] == 3


@in_virtual_time
async def test_only_what_is_unacked_goes_back():
    async with world() as w:
        w.store.fill(range(1, 5))
        gone = await w.receive()
        w.ack(2)
        w.ack(3, heard=False)
        await gone.close(release=True)
        assert (await w.fetch()).ids == [1, 4]


@in_virtual_time
async def test_what_never_reached_the_consumer_is_no_attempt():
    async with world() as w:
        subscription = await w.engine.subscribe(SubscribeRequest(NAME))
        reading = asyncio.ensure_future(anext(subscription))
        await settle()

        async def turn_away():
            reading.cancel()

        w.store.during["claim"] = turn_away
        await w.commit(Row(1))
        assert w.store.tables[NAME][1].epoch == 1
        await subscription.close(release=True)
        assert w.store.tables[NAME][1].epoch == 0
        assert (await w.fetch()).ids == [1]


@in_virtual_time
async def test_a_receiver_that_ends_during_the_claim_gets_nothing_and_loses_nothing():
    async with world() as w:
        receiver = await w.receive()

        async def kill():
            receiver.subscription.end(StreamKilled("killed"))

        w.store.during["claim"] = kill
        await w.commit(Row(1))
        assert receiver.ids == []
        fetched = await w.fetch()
        assert fetched.ids == [1] and fetched.epochs == [1]


@in_virtual_time
async def test_rows_still_locked_by_the_dead_clients_transaction_go_back_when_it_is_rolled_back():
    async with world() as w:
        w.store.fill(range(1, 4))
        gone, other = await w.receive(), await w.receive()
        assert gone.ids == [1, 2, 3]
        w.store.locked = {2}
        await gone.close(release=True)
        await settle()
        assert other.ids == [1, 3]
        await pass_time(0.5)
        w.store.locked = set()
        await pass_time(0.5)
        assert other.ids == [1, 3, 2]


@in_virtual_time
async def test_a_give_back_that_cannot_be_made_is_given_up_and_the_lease_runs_out(caplog):
    async with world(make_spec(ack_wait_ns=10 * SECOND)) as w:
        w.store.fill(range(1, 2))
        gone, other = await w.receive(), await w.receive()
        w.store.locked = {1}
        await gone.close(release=True)
        await pass_time(15)
        assert "could not give back 1 leases" in caplog.text and other.ids == []
        w.store.locked = set()
        await pass_time(6)
        assert other.ids == [1]


@in_virtual_time
async def test_close_does_not_wait_for_a_database_that_is_down():
    async with world() as w:
        w.store.fill(range(1, 3))
        gone = await w.receive()
        w.store.down = BackendUnavailable("gone")
        await gone.close(release=True)
        assert w.time < 1.5
        w.store.down = None
        await pass_time(6)
        assert (await w.fetch()).ids == [1, 2]


# --- what is refused


@in_virtual_time
async def test_columns_are_projected_in_the_order_asked_for():
    async with world() as w:
        receiver = await w.receive(columns=("epoch", "PAYLOAD", "id"))
        assert [column.name for column in receiver.subscription.columns] == ["epoch", "PAYLOAD", "id"]
        await w.commit(Row(1, payload="p"))
        assert receiver.batches[0].rows == ((b"1", b"p", b"1"),)


@in_virtual_time
async def test_requests_that_make_no_sense_are_refused():
    async with world() as w:
        refused = [
            (QueueNotFound, {"queue": QueueName("main", "nowhere")}),
            (UnknownColumn, {"columns": ("id", "nothing")}),
            (InvalidOption, {"limit": -1}),
            (InvalidOption, {"prefetch": 0}),
            (InvalidOption, {"ack_wait_ns": 1}),
            (InvalidOption, {"wait_mode": WaitMode.WAIT, "wait_seconds": -1.0}),
            (InvalidOption, {"wait_mode": WaitMode.WAIT, "wait_seconds": float("nan")}),
            (InvalidOption, {"wait_mode": WaitMode.WAIT, "wait_seconds": float("inf")}),
        ]
        for error, request in refused:
            with pytest.raises(error):
                await w.engine.subscribe(request_of(**{"queue": NAME, **request}))
        assert w.manager.status().subscribers == 0


@in_virtual_time
async def test_a_rejected_table_says_why():
    async with world() as w:
        bad = QueueName("main", "bad")
        w.store.catalog = QueueCatalog(9, w.store.catalog.queues, {bad: "epoch missing from message table: bad"})
        await w.engine.refresh_catalog()
        with pytest.raises(InvalidQueueTable, match="epoch missing"):
            await w.engine.subscribe(SubscribeRequest(bad))


# --- many receivers


@in_virtual_time
async def test_receivers_that_get_nothing_cost_nothing(monkeypatch):
    """However many wait, a message is dealt with by looking at a few of them."""
    asked = 0
    capacity = Subscription.capacity

    def counted(self) -> int:
        nonlocal asked
        asked += 1
        return capacity(self)

    async with world() as w:
        receivers = [await w.receive() for _ in range(500)]
        await settle()
        monkeypatch.setattr(Subscription, "capacity", counted)
        await w.commit(Row(1))
        assert sum(receiver.ids == [1] for receiver in receivers) == 1
        assert asked < 100


@in_virtual_time
async def test_what_comes_together_is_spread_over_all_who_wait():
    async with world() as w:
        receivers = [await w.receive() for _ in range(50)]
        await w.commit(*(Row(id_) for id_ in range(1, 41)))
        assert sorted(len(receiver.ids) for receiver in receivers) == [0] * 10 + [1] * 40
        await w.commit(*(Row(id_) for id_ in range(41, 51)))
        assert [len(receiver.ids) for receiver in receivers] == [1] * 50, "who has waited longest is first"


# --- results whose messages their connection holds


@in_virtual_time
async def test_a_lease_that_was_renewed_goes_back_when_its_connection_ends():
    async with world(make_spec(ack_wait_ns=60 * SECOND)) as w:
        w.store.fill([1])
        result = await w.fetch(1, by_connection=True, connection_id=5)
        assert result.ids == [1]
        await settle()
        row = w.store.tables[NAME][1]
        row.time_next = lease_end(w.store.clock.now_ns() + 7200 * SECOND)
        w.manager.commits.changed([1], renewed=True)
        await settle()
        await pass_time(600)
        assert (await w.fetch(1)).ids == [], "it is still held"
        await result.subscription.connection_ended()
        assert (await w.fetch(1)).ids == [1]
        assert row.epoch == 2


@in_virtual_time
async def test_a_connection_that_holds_nothing_is_forgotten():
    async with world() as w:
        w.store.fill(range(1, 100))
        for id_ in range(1, 20):
            result = await w.fetch(1, by_connection=True, connection_id=id_)
            w.ack(*result.ids)
            await settle()
            await result.subscription.connection_ended()
        assert not w.manager.leases.connection_leases


# --- a client that polls again and again


@in_virtual_time
async def test_polls_one_after_the_other_share_what_one_of_them_saw():
    async with world() as w:
        w.store.fill(range(1, 201))
        for number in range(1, 151):
            receiver = await w.fetch(limit=1, connection_id=7)
            assert receiver.ids == [number]
            w.ack(number)
        assert w.store.calls["poll"] <= 10
        assert (await w.fetch(limit=50, connection_id=7)).ids == list(range(151, 201))
        assert (await w.fetch(limit=1, connection_id=7)).ids == []


@in_virtual_time
@pytest.mark.parametrize("how", ["committed", "a second later", "given back", "altered"])
async def test_what_a_poll_saw_is_forgotten(how):
    """After a commit, which may have added what comes first; after a second; when messages come back."""
    async with world() as w:
        w.store.fill(range(10, 30))
        held = await w.fetch(limit=1)
        assert (await w.fetch(limit=1)).ids == [11]
        if how == "committed":
            await w.commit(Row(1, priority=-1))
        elif how == "given back":
            w.store.tables[NAME][10].time_next = 0
            w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        else:
            w.store.add(Row(1, priority=-1))
            if how == "altered":
                w.manager.reconfigure(make_spec(batch_size=7))
            else:
                await pass_time(1.1)
        assert held.ids == [10]
        assert (await w.fetch(limit=1)).ids == [10 if how == "given back" else 1]


@in_virtual_time
@pytest.mark.parametrize("told", [True, False])
async def test_what_others_have_taken_meanwhile_is_found_by_the_claim(told):
    async with world() as w:
        w.store.fill(range(1, 6))
        assert (await w.fetch(limit=1)).ids == [1]
        w.ack(2, 3, heard=told)
        assert (await w.fetch(limit=2)).ids == [4, 5]
        w.store.fill(range(6, 8))
        assert (await w.fetch(limit=1)).ids == [6]
        w.ack(7, heard=told)
        assert (await w.fetch(limit=1)).ids == [], "and it ends as of a poll that began after it"


@in_virtual_time
async def test_a_stream_after_a_poll_begins_with_a_poll_of_its_own():
    async with world() as w:
        w.store.fill(range(1, 4))
        assert (await w.fetch(limit=1)).ids == [1]
        w.store.add(Row(0, priority=-1))
        receiver = await w.receive(prefetch=1)
        assert receiver.ids == [0]


@in_virtual_time
async def test_polls_of_messages_that_were_delivered_before_are_claimed_with_a_look():
    """A claim without one takes only what is as an INSERT left it; after some in vain it is tried now and then."""
    async with world() as w:
        w.store.add(*(Row(id_, time_next=id_, time_scheduled=0, epoch=3) for id_ in range(1, 101)))
        for number in range(1, 61):
            assert (await w.fetch(limit=1)).ids == [number]
            w.ack(number)
        assert w.store.calls["claim_added"] <= 8 and w.store.calls["poll"] <= 10

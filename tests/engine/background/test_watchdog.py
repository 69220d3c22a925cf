"""The watchdog, with the faults planted that it is there for, and with what must not alarm it."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal

from memory_store import Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.background.watchdog import PERIOD_SECONDS, STALL_SECONDS, STALL_SECONDS_DATABASE_FAILING
from engine.model.errors import BackendError
from engine.model.queue import Condition

SOON = STALL_SECONDS + 3 * PERIOD_SECONDS


def stands(caplog):
    return [record.getMessage() for record in caplog.records if "deliveries are stalled" in record.getMessage()]


@in_virtual_time
async def _recovers(plant, heal=None, within=SOON):
    async with world() as w:
        receiver = await w.receive(ack_wait_ns=10**15)
        await w.commit(Row(1))
        assert receiver.ids == [1]
        await plant(w)
        await w.commit(Row(2))
        assert receiver.ids == [1], "the fault was not planted"
        await pass_time(within)
        await settle()
        if heal is not None:
            heal()
        assert receiver.ids == [1, 2]
        assert w.counters()["stalls"] == 1
        await w.commit(Row(3))
        await pass_time(60.0)
        assert receiver.ids == [1, 2, 3]
        assert w.counters()["stalls"] == 1
        assert w.engine.is_watched


def test_a_manager_whose_task_was_cancelled_is_started_again(caplog):
    async def plant(w):
        w.manager._task.cancel()
        await settle()
        assert w.manager.died

    with caplog.at_level(logging.ERROR):
        _recovers(plant)
    assert len(stands(caplog)) == 1
    assert "its task has ended without being asked to" in stands(caplog)[0]


def test_a_lost_wake_up_is_made_good(caplog):
    async def plant(w):
        wake_up = w.manager.times.wakeup
        heard = wake_up.set
        wake_up.set = lambda: None  # deaf, until it is begun anew
        reset = w.manager.reset

        async def healed():
            wake_up.set = heard
            return await reset()

        w.manager.reset = healed

    with caplog.at_level(logging.ERROR):
        _recovers(plant)
    (text,) = stands(caplog)
    assert "asleep" in text and "1 receivers, 1 of them waiting" in text and "next look at once" in text


def test_passes_that_repeat_in_vain_are_no_progress(caplog):
    passes = []

    async def plant(w):
        plain, step, reset = w.manager.receiver_sets.plain, w.manager.receiver_sets.plain.step, w.manager.reset

        async def nothing(result):
            passes.append(w.time)

        async def healed():
            plain.step = step
            return await reset()

        plain.step, w.manager.reset = nothing, healed

    with caplog.at_level(logging.ERROR):
        _recovers(plant)
    assert len(stands(caplog)) == 1
    assert len(passes) < 300, "a loop without pause"


def test_a_database_call_that_never_returns_is_left_behind(caplog):
    returned = asyncio.Event()

    async def plant(w):
        w.store.during["poll"] = returned.wait

    with caplog.at_level(logging.ERROR):
        _recovers(plant, heal=returned.set)
    (text,) = stands(caplog)
    assert "in a pass for 7" in text or "in a pass for 8" in text


def test_a_call_that_takes_ever_so_long_is_given_more_time_after_each_restart(caplog):
    """As the claim of a very large body: the pass is cancelled, but what it began goes on."""

    @in_virtual_time
    async def story():
        async with world() as w:
            receiver, restarts = await w.receive(ack_wait_ns=10**15), []
            poll, claim, reset = w.store.poll, w.store.claim, w.manager.reset

            async def slow_claim(*values, **named):
                claimed = await claim(*values, **named)
                await pass_time(3 * STALL_SECONDS)
                return claimed

            async def noted():
                restarts.append(w.time)
                return await reset()

            w.store.claim, w.manager.reset = slow_claim, noted
            await w.commit(Row(1))
            await pass_time(40 * STALL_SECONDS)
            assert receiver.ids == [1] and len(restarts) == 2
            w.store.poll, w.store.claim = poll, claim

    with caplog.at_level(logging.ERROR):
        story()


def test_a_claim_that_never_returns_costs_one_lease(caplog):
    @in_virtual_time
    async def story():
        returned = asyncio.Event()
        async with world() as w:
            receiver = await w.receive()
            w.store.during["claim"] = returned.wait  # committed, and its answer lost
            await w.commit(Row(1))
            await pass_time(SOON)
            assert receiver.ids == [] and w.counters()["stalls"] == 1
            await w.commit(Row(2))
            assert receiver.ids == [2]
            w.ack(2)
            await pass_time(70.0)  # the lease nobody knows of: 30 s and as much backoff
            assert receiver.ids == [2, 1] and receiver.epochs == [1, 2]
            returned.set()
            await settle()

    with caplog.at_level(logging.ERROR):
        story()
    assert len(stands(caplog)) == 1


def test_a_receiver_that_was_forgotten_is_found_again():
    @in_virtual_time
    async def story():
        async with world() as w:
            receiver = await w.receive()
            w.manager.receiver_sets.plain.receivers.waiting.clear()
            await w.commit(Row(1))
            assert receiver.ids == []
            await pass_time(SOON)
            assert receiver.ids == [1]

    story()


@in_virtual_time
async def test_a_purger_and_a_watcher_that_died_are_started_again():
    async with world() as w:
        served = next(iter(w.engine.queues.by_name.values()))
        tasks = [service._task for service in (served.purger, w.engine._running.watcher)]
        for task in tasks:
            task.cancel()
        await pass_time(2 * PERIOD_SECONDS)
        assert all(task.done() for task in tasks)
        assert not served.purger.died and not w.engine._running.watcher.died


def quiet(caplog, story):
    with caplog.at_level(logging.ERROR):
        in_virtual_time(story)()
    assert stands(caplog) == []


def test_nothing_to_do_is_no_stand(caplog):
    async def story():
        async with world() as w:
            await w.receive()
            await pass_time(600.0)
            assert w.counters()["stalls"] == 0

    quiet(caplog, story)


def test_full_windows_and_readers_that_do_not_read_are_no_stand(caplog):
    async def story():
        async with world() as w:
            full = await w.receive(prefetch=1, ack_wait_ns=10**15)
            idle = await w.receive(reading=False, ack_wait_ns=10**15)
            await w.commit(*(Row(n) for n in range(1, 300)))
            await pass_time(600.0)
            assert len(full.ids) == 1 and idle.ids

    quiet(caplog, story)


def test_rows_that_others_hold_are_no_stand(caplog):
    async def story():
        async with world() as w:
            receiver = await w.receive()
            w.store.locked.add(1)
            await w.commit(Row(1))
            await pass_time(120.0)
            assert receiver.ids == []
            w.store.locked.clear()
            await pass_time(60.0)
            assert receiver.ids == [1]

    quiet(caplog, story)


def test_a_slow_database_is_no_stand(caplog):
    async def story():
        async with world() as w:
            w.store.latency = STALL_SECONDS * 0.4  # a look and a claim
            receiver = await w.receive()
            for n in range(1, 20):
                await w.commit(Row(n))
                await pass_time(STALL_SECONDS)
            await pass_time(60.0)
            w.store.latency = 0.0
            await pass_time(60.0)
            assert sorted(set(receiver.ids)) == list(range(1, 20))

    quiet(caplog, story)


def test_an_outage_is_known_trouble(caplog):
    async def story():
        async with world() as w:
            receiver = await w.receive()
            w.store.down = BackendError("gone", 2013)
            await w.commit(Row(1))
            await pass_time(STALL_SECONDS_DATABASE_FAILING * 10)
            w.store.down = None
            await pass_time(60.0)
            assert receiver.ids == [1]

    quiet(caplog, story)


def test_a_paused_queue_is_no_stand(caplog):
    async def story():
        async with world(make_spec(paused=True)) as w:
            receiver = await w.receive()
            await w.commit(Row(1))
            await pass_time(600.0)
            assert receiver.ids == []

    quiet(caplog, story)


def test_messages_that_fit_no_stream_are_no_stand(caplog):
    async def story():
        async with world() as w:
            receiver = await w.receive(condition=Condition("payload == 'y'"))
            await w.commit(*(Row(n) for n in range(1, 3000)))
            for n in range(60):
                await w.commit(Row(10_000 + n, payload="y" if n % 7 == 0 else "x"))
                await pass_time(10.0)
            assert len(set(receiver.ids)) == 9

    quiet(caplog, story)


def test_limits_that_hold_messages_back_are_no_stand(caplog):
    async def story():
        async with world(make_spec(max_rate=Decimal("0.01"))) as slow:
            receiver = await slow.receive(ack_wait_ns=10**15)
            await slow.commit(*(Row(n) for n in range(1, 10)))
            await pass_time(450.0)
            assert len(receiver.ids) == 5
        async with world(make_spec(max_concurrency=1)) as narrow:
            receiver = await narrow.receive(ack_wait_ns=10**15)
            await narrow.commit(*(Row(n) for n in range(1, 10)))
            await pass_time(450.0)
            assert len(receiver.ids) == 1

    quiet(caplog, story)


def test_waiting_for_a_turn_at_the_database_is_no_stand(caplog):
    async def story():
        async with world(work_limit=1) as w:
            receiver = await w.receive(ack_wait_ns=10**15)
            await w.commit(Row(1))
            busy = asyncio.Event()
            other = asyncio.create_task(w.engine._running.context.work.run(busy.wait()))
            await settle()
            await w.commit(Row(2))
            await pass_time(600.0)
            assert receiver.ids == [1]
            busy.set()
            await other
            await settle()
            assert receiver.ids == [1, 2]

    quiet(caplog, story)

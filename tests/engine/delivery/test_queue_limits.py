"""Rates as arithmetic, the gate, and limits in the engine over a simulated database: order, places, turns."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import Row, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle
from world import world

from engine.delivery.claim_pause import COMMIT_SECONDS, SLOTS_SECONDS, ClaimPause
from engine.model.commit_report import CommitReport
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import Condition
from engine.store.base import LimitWait
from engine.store.operations.limits import Rate

NOW = VirtualClock.START_NS


# --- the rate


@given(
    st.decimals("0.01", "100000", places=2),
    st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 500)), min_size=1, max_size=60),
)
def test_no_stretch_of_time_has_more_than_the_rate_and_its_burst(per_second, asked):
    """Whenever, and for however many, it is asked."""
    rate, arrival, now, went = Rate.of(per_second), 0, NOW, []
    for pause, wanted in asked:
        now += pause
        count = min(wanted, rate.allowed(now, arrival))
        arrival = rate.after(now, arrival, count)
        went.append((now, count))
    burst = max(Decimal(1), per_second / 10) + per_second * Decimal("0.021") + 1
    for first in range(len(went)):
        for last in range(first, len(went)):
            seconds = Decimal(went[last][0] - went[first][0]) / SECOND
            assert sum(count for _, count in went[first : last + 1]) <= per_second * seconds * Decimal("1.001") + burst


@given(st.decimals("0.01", "100000", places=2), st.integers(0, 10**12))
def test_the_wait_ends_exactly_when_one_may_go(per_second, used):
    rate = Rate.of(per_second)
    arrival = NOW + used % (rate.tolerance_ns + rate.interval_ns + 1)
    wait = rate.wait_ns(NOW, arrival)
    assert (wait > 0) is (rate.allowed(NOW, arrival) == 0)
    assert rate.allowed(NOW + wait, arrival) >= 1
    assert wait == 0 or rate.allowed(NOW + wait - 1, arrival) == 0


@pytest.mark.parametrize("per_second", ["1", "15", "40", "1000"])
def test_who_comes_a_little_late_each_time_loses_nothing(per_second):
    rate, arrival, now, sent = Rate.of(Decimal(per_second)), 0, NOW, 0
    chance = random.Random(1)
    while now < NOW + 100 * SECOND:
        count = rate.allowed(now, arrival)
        arrival, sent = rate.after(now, arrival, count), sent + count
        now += rate.wait_ns(now, arrival) + chance.randrange(1_000_000, 5_000_000)
    assert sent >= 99 * int(per_second)


def test_a_time_of_a_slower_rate_or_of_a_clock_set_back_does_not_stop_the_queue():
    rate, arrival, sent = Rate.of(Decimal(10)), NOW + 3600 * SECOND, []
    for now in range(NOW, NOW + 2 * SECOND, SECOND // 100):
        count = rate.allowed(now, arrival)
        arrival = rate.after(now, arrival, count) if count else arrival
        sent.append(count)
    assert sent[0] == 1 and 19 <= sum(sent) <= 22


# --- the pause


@in_virtual_time
async def test_a_gate_opens_by_time_and_for_places_by_word():
    pause = ClaimPause(VirtualClock())
    pause.begin(LimitWait(5 * SECOND, for_concurrency=False))
    pause.on_slot_freed()
    assert pause.active, "a settlement changes no rate"
    await pass_time(5)
    assert not pause.active
    pause.begin(LimitWait(30 * SECOND, for_concurrency=True))
    assert pause.ends_at == pytest.approx(1005 + SLOTS_SECONDS)
    pause.maybe_slot_freed()
    assert pause.ends_at == pytest.approx(1005 + COMMIT_SECONDS)
    pause.on_slot_freed()
    assert not pause.active


# --- the engine


@in_virtual_time
async def test_a_full_queue_asks_seldom_and_goes_on_at_once_with_an_ack():
    async with world(make_spec(max_concurrency=2, poll_interval_ns=3600 * SECOND, ack_wait_ns=600 * SECOND)) as w:
        receiver = await w.receive()
        await w.commit(*(Row(id_, time_next=id_) for id_ in range(1, 10)))
        assert receiver.ids == [1, 2]
        before = sum(w.store.calls.values())
        await pass_time(10)
        assert sum(w.store.calls.values()) - before <= 25, "once a second, while all places are taken"
        w.ack(1)
        await settle()
        assert receiver.ids == [1, 2, 3]
        w.ack(2, heard=False)
        await pass_time(1.1)
        assert receiver.ids == [1, 2, 3, 4]


@in_virtual_time
async def test_inserts_do_not_make_a_full_queue_busy():
    async with world(make_spec(max_concurrency=1, ack_wait_ns=600 * SECOND)) as w:
        receiver = await w.receive()
        await w.commit(Row(1))
        before = w.store.calls["claim"]
        for id_ in range(2, 502):
            await w.commit(Row(id_, time_next=id_))
            await pass_time(0.001)
        assert receiver.ids == [1]
        assert w.store.calls["claim"] - before <= 0.5 / COMMIT_SECONDS + 5


@in_virtual_time
async def test_a_rate_is_timed_and_not_polled():
    async with world(make_spec(max_rate=Decimal(2))) as w:
        receiver = await w.receive()
        await w.commit(*(Row(id_, time_next=id_) for id_ in range(1, 11)))
        await pass_time(10)
        assert receiver.ids == list(range(1, 11))
        gaps = [later - earlier for earlier, later in zip(receiver.times[1:], receiver.times[2:], strict=False)]
        assert all(gap == pytest.approx(0.5, abs=0.01) for gap in gaps)
        assert w.store.calls["claim"] <= 12


@pytest.mark.parametrize("seed", range(30))
@in_virtual_time
async def test_order_places_and_turns_hold_whatever_happens(seed):
    """Producers, receivers that ack, fail, leave and come: every rule holds at every moment, all is acked at last."""
    chance = random.Random(seed)
    places = chance.choice((None, 1, 3, 8))
    spec = make_spec(
        order_key=chance.choice((None, "payload", "*")),
        on_failure=chance.choice(("block", "skip")),
        max_concurrency=places,
        max_rate=chance.choice((None, Decimal(50))),
        ack_wait_ns=2 * SECOND,
        min_backoff_ns=0,
        batch_size=5,
    )
    async with world(spec) as w:
        acked: set[int] = set()
        total = 60
        rows = [
            Row(id_, payload=chance.choice("abcd"), priority=chance.choice((10, 50))) for id_ in range(1, total + 1)
        ]
        for row in rows:
            row.time_next = w.store.clock.now_ns()
        for start in range(0, total, 20):
            await w.commit(*rows[start : start + 20])
        receivers = [await w.receive() for _ in range(3)]
        for _ in range(4000):
            await pass_time(0.05)
            held = w.store._in_flight(spec, w.store.clock.now_ns())
            assert places is None or len(held) <= places, f"seed {seed}"
            keys = ["*" if spec.options.order_key == "*" else row.payload for row in held]
            assert spec.options.order_key is None or len(keys) == len(set(keys)), f"seed {seed}"
            for row in held:
                fate = chance.random()
                if fate < 0.5:
                    w.ack(row.id)
                    acked.add(row.id)
                elif fate < 0.55:
                    row.time_next = w.store.clock.now_ns() // 1000 * 1000  # NACK
                    w.engine.committed(CommitReport(touched=frozenset((spec.name,))))
            if chance.random() < 0.02:
                gone = receivers.pop(chance.randrange(len(receivers)))
                await gone.close()
                receivers.append(await w.receive())
            if len(acked) == total:
                break
        assert len(acked) == total, f"seed {seed}: {total - len(acked)} starved"


@in_virtual_time
async def test_receivers_take_turns_at_few_places_and_none_starves():
    async with world(make_spec(max_concurrency=1)) as w:
        receivers = [await w.receive() for _ in range(5)]
        await w.commit(*(Row(id_, time_next=id_) for id_ in range(1, 51)))
        for id_ in range(1, 51):
            assert sum(len(receiver.ids) for receiver in receivers) == id_
            w.ack(id_)
            await settle()
        assert all(len(receiver.ids) == 10 for receiver in receivers)


@pytest.mark.parametrize(("on_failure", "epoch"), [("block", 2), ("dead_letter", 1)])
@in_virtual_time
async def test_a_receiver_that_leaves_is_no_failure_where_one_is_fatal(on_failure, epoch):
    async with world(make_spec(order_key="*", on_failure=on_failure)) as w:
        first = await w.receive()
        await w.commit(Row(1))
        second = await w.receive()
        await first.close()
        await settle()
        assert (second.ids, second.epochs) == ([1], [epoch])


@in_virtual_time
async def test_priorities_hold_between_keys():
    async with world(make_spec(order_key="payload", max_concurrency=1)) as w:
        await w.commit(
            *(Row(id_, payload=f"k{id_ % 3}", priority=(90, 50, 10)[id_ % 3], time_next=id_) for id_ in range(30))
        )
        receiver = await w.receive()
        for number in range(30):
            await settle()
            assert len(receiver.ids) == number + 1
            w.ack(receiver.ids[-1])
        priorities = [message.priority for batch in receiver.batches for message in batch.messages]
        assert priorities == sorted(priorities)


# --- streams with a WHERE

MANY, FEW = Condition("payload == 'many'"), Condition("payload == 'few'")


@pytest.mark.parametrize("limit", [{"max_concurrency": 1}, {"max_concurrency": 3}, {"max_rate": Decimal(20)}])
@in_virtual_time
async def test_streams_with_a_where_take_turns_at_few_places(limit):
    async with world(make_spec(ack_wait_ns=600 * SECOND, **limit)) as w:
        many, few = await w.receive(condition=MANY), await w.receive(condition=FEW)
        rows = [Row(id_, time_next=id_, payload="many") for id_ in range(1, 401)]
        rows += [Row(id_, time_next=id_, payload="few") for id_ in range(401, 421)]
        await w.commit(*rows)
        for _ in range(60):
            await pass_time(0.06)
            w.ack(*many.ids[-4:], *few.ids[-4:])
        assert len(few.ids) == 20
        assert len(many.ids) >= 20


@in_virtual_time
async def test_a_scan_goes_on_while_all_places_are_taken_and_ends_at_the_first_find():
    """Else it would come one page further with each place that is freed."""
    spec = make_spec(max_concurrency=1, ack_wait_ns=600 * SECOND, poll_interval_ns=3600 * SECOND)
    async with world(spec) as w:
        many = await w.receive(condition=MANY)
        rows = [Row(id_, time_next=id_, payload="many") for id_ in range(1, 20_001)]
        await w.commit(*rows, Row(20_001, time_next=20_001, payload="few"))
        assert many.ids == [1]
        few = await w.receive(condition=FEW)
        await pass_time(5.0)
        before = w.store.calls["scan"]
        await pass_time(5.0)
        assert w.store.calls["scan"] - before <= 1, "it has found what it looked for"
        w.ack(1)
        await settle()
        w.ack(2)
        await settle()
        assert few.ids == [20_001]
        assert many.ids == [1, 2]

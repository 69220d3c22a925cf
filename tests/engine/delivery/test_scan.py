"""Scans: what every store promises of them, and what the FilteredPoller makes of it.

Conditions here are both SQL and Python.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace

import pytest
from engine_parts import queue_context
from memory_store import NAME, MemoryStore, Row, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle
from world import world

from engine.delivery.cache import MessageCache
from engine.delivery.conflicts import Conflicts
from engine.delivery.filter_shares import FilterShares, ReceiverSetShare
from engine.delivery.filtered_poller import REST, SPAN_MAX, SPAN_MIN, FilteredPoller
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable, TooManyFilters
from engine.model.filter_limits import FilterLimits
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import Condition, WaitMode
from engine.store.base import Page

ODD, EVEN, NOTHING, ALL = Condition("id % 2"), Condition("id % 2 < 1"), Condition("id < 0"), Condition("1")
DELAYS = {0: 10 * SECOND}


# --- the stores


async def scan_all(bench, condition, limit, span, floor_ns=None):
    """Ids found, page by page, and how many pages it took."""
    ids, after, pages = [], None, 0
    while True:
        scanned = await bench.store.scan(bench.spec, condition, Page(limit, span, after, floor_ns))
        assert scanned.poll.more == (scanned.position is not None)
        assert len(scanned.poll.keys) <= limit
        ids += [key.id for key in scanned.poll.keys]
        pages += 1
        after = scanned.position
        if after is None:
            return ids, pages
        assert pages < 1000, "a scan that does not end"


@pytest.mark.parametrize("seed", range(6))
async def test_a_scan_finds_everything_that_fits_once_and_in_order(bench, seed):
    chance = random.Random(seed)
    now = await bench.now_ns()
    rows = [
        Row(
            id_,
            chance.choice((None, 3, 5, 50, 50, 50)),
            chance.choice((None, 0, 7, 7, 7, id_, now - id_ * SECOND, now + 3600 * SECOND)),
        )
        for id_ in chance.sample(range(1, 500), 120)
    ]
    await bench.add(*rows)
    await bench.ack(*(row.id for row in rows[:10]))
    due = [row for row in rows[10:] if row.time_next is None or row.time_next <= now]
    places = {row.id: (row.priority is not None, row.priority or 0, row.due_ns, row.id) for row in due}
    for condition, fits in ((ODD, lambda id_: id_ % 2), (ALL, lambda id_: True), (NOTHING, lambda id_: False)):
        expected = sorted(id_ for id_ in places if fits(id_))
        for limit, span in ((1000, 1000), (7, 1000), (1000, 9), (3, 5), (1, 1)):
            ids, _ = await scan_all(bench, condition, limit, span)
            assert sorted(ids) == expected, (limit, span)
            levels = [places[id_][:2] for id_ in ids]
            assert levels == sorted(levels)


async def test_a_scan_from_a_time_on(bench):
    await bench.add(Row(1, 50, 100), Row(3, 50, 200), Row(5, 10, 300), Row(7, 50, None), Row(8, 50, 300))
    ids, _ = await scan_all(bench, ODD, 10, 10, floor_ns=150)
    assert sorted(ids) == [3, 5, 7]


async def test_a_scan_tells_when_the_next_falls_due(bench):
    later = await bench.now_ns() + 3600 * SECOND
    await bench.add(Row(1, 50, 0), Row(2, 50, later))
    scanned = await bench.store.scan(bench.spec, NOTHING, Page(10, 10))
    assert (scanned.poll.keys, scanned.poll.next_due_ns) == ((), later)


async def test_a_scan_of_nothing(bench):
    scanned = await bench.store.scan(bench.spec, ALL, Page(10, 10))
    assert (scanned.poll.keys, scanned.position, scanned.poll.next_due_ns) == ((), None, None)


async def test_a_claim_leases_only_what_fits(bench):
    await bench.add(Row(1), Row(2), Row(3))
    claim = await bench.store.claim(bench.spec, [1, 2, 3], DELAYS, condition=ODD)
    assert sorted(message.id for message in claim.messages) == [1, 3]
    assert (await bench.row(2)).epoch == 0
    assert (await bench.store.claim(bench.spec, [2], DELAYS, condition=ODD)).messages == ()


async def test_which_messages_fit(bench):
    await bench.add(Row(1), Row(2), Row(3))
    assert await bench.store.fitting(bench.spec, ODD, [1, 2, 3, 4, 5]) == {1, 3}
    assert await bench.store.fitting(bench.spec, ODD, []) == set()


# --- receiver sets, in virtual time


@in_virtual_time
async def test_each_message_goes_to_whom_it_fits():
    async with world() as w:
        odd, even = await w.receive(condition=ODD), await w.receive(condition=EVEN)
        await w.commit(*(Row(id_) for id_ in range(1, 101)))
        assert sorted(odd.ids) == list(range(1, 101, 2))
        assert sorted(even.ids) == list(range(2, 101, 2))
        assert w.store.calls["poll"] == 0


@in_virtual_time
async def test_a_message_that_fits_nobody_waits_without_a_busy_loop():
    async with world(make_spec(poll_interval_ns=30 * SECOND)) as w:
        odd = await w.receive(condition=ODD)
        await w.commit(*(Row(id_ * 2) for id_ in range(1, 50)))
        await pass_time(1)
        before = w.store.calls["scan"]
        await pass_time(300)
        assert w.store.calls["scan"] - before <= 11
        assert odd.ids == [] and w.manager.status().cached == 0
        everything = await w.receive()
        assert len(everything.ids) == 49


@in_virtual_time
async def test_an_update_that_makes_a_message_fit_or_not():
    async with world() as w:
        first = await w.receive(condition=Condition("payload == 'a'"))
        await w.commit(Row(1, payload="b"), Row(2, payload="b"))
        w.store.tables[NAME][2].payload = "a"
        w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        await settle()
        assert first.ids == [2]


@in_virtual_time
async def test_what_no_longer_fits_when_it_is_claimed_is_not_sent():
    async with world() as w:

        async def change():
            w.store.tables[NAME][1].payload = "b"

        w.store.during["scan"] = change
        w.store.add(Row(1, payload="a"), Row(2, payload="a"))
        receiver = await w.receive(condition=Condition("payload == 'a'"))
        await pass_time(5)
        assert receiver.ids == [2]
        assert w.store.tables[NAME][1].epoch == 0
        assert (await w.receive()).ids == [1]


@in_virtual_time
async def test_unfiltered_and_filtered_receivers_take_turns():
    spec = make_spec(batch_size=10)
    async with world(spec) as w:
        w.store.fill(range(1, 2001))
        everything, odd = await w.receive(prefetch=2000), await w.receive(condition=ODD, prefetch=2000)
        await pass_time(5)
        assert len(everything.ids) + len(odd.ids) == 2000
        assert set(everything.ids).isdisjoint(odd.ids)
        assert len(odd.ids) > 300
        assert w.counters()["lease_conflicts"] == 0


@in_virtual_time
async def test_a_receiver_that_does_not_read_holds_up_no_other_condition():
    async with world(make_spec(batch_size=10)) as w:
        w.store.fill(range(1, 101))
        stuck = await w.receive(condition=ODD, reading=False)
        even = await w.receive(condition=EVEN)
        await pass_time(1)
        assert len(stuck.ids) == 10 and len(even.ids) == 50


@in_virtual_time
async def test_bounded_results():
    async with world() as w:
        w.store.fill(range(1, 11))
        assert (await w.fetch(limit=3, condition=ODD)).ids == [1, 3, 5]
        assert (await w.fetch(condition=ODD)).ids == [7, 9]
        assert (await w.fetch(condition=ODD)).ids == []
        began = w.time
        assert (await w.fetch(wait=5.0, condition=NOTHING)).ids == []
        assert 5.0 <= w.time - began < 5.1


@in_virtual_time
async def test_a_receiver_that_dies_gives_its_messages_to_one_with_another_condition():
    async with world() as w:
        w.store.fill(range(1, 6))
        odd = await w.receive(condition=ODD)
        assert odd.ids == [1, 3, 5]
        small = await w.receive(condition=Condition("id < 4"))
        assert small.ids == [2]
        await odd.close()
        await pass_time(1)
        assert sorted(small.ids) == [1, 2, 3]


@in_virtual_time
async def test_a_lease_that_runs_out_in_one_lane_is_offered_in_another():
    async with world(make_spec(ack_wait_ns=5 * SECOND, poll_interval_ns=600 * SECOND)) as w:
        stuck = await w.receive(condition=ODD, reading=False)
        await w.commit(Row(1))
        assert stuck.ids == [1]
        other = await w.receive(condition=Condition("id < 4"))
        await pass_time(30)
        assert other.ids[:1] == [1]


@in_virtual_time
async def test_a_condition_that_fails_ends_its_own_streams():
    async with world() as w:
        bad = await w.receive(condition=Condition("int(payload) > 3"))
        odd, large = await w.receive(condition=ODD), await w.receive(condition=Condition("id > 5"))
        await w.commit(Row(2, payload="no number"))
        assert bad.error is not None and bad.error.errno == 3141
        await w.commit(Row(1, payload="5"), Row(6))
        assert (odd.ids, large.ids) == ([1], [6])
        assert not odd.ended.is_set() and len(w.manager.receiver_sets.filtered) == 2


@in_virtual_time
async def test_a_database_that_is_down_ends_no_stream():
    async with world() as w:
        odd = await w.receive(condition=ODD)
        for error in (BackendUnavailable("down"), BackendError("no", 1213)):
            w.store.down = error
            await w.commit(Row(1))
            await pass_time(3)
            assert odd.error is None
        w.store.down = None
        await pass_time(10)
        assert odd.ids == [1]


@in_virtual_time
async def test_a_database_that_refuses_writes_ends_no_stream():
    """What is fed to a consumer group is written, in some looks and not in others."""

    class ReadOnly(MemoryStore):
        async def scan(self, queue, condition, page):
            if refused:
                raise BackendError("The server is running with the --read-only option", 1290)
            return await super().scan(queue, condition, page)

    refused = [True]
    async with world(store=ReadOnly(VirtualClock())) as w:
        odd = await w.receive(condition=ODD)
        await w.commit(Row(1))
        await pass_time(3)
        assert odd.error is None and odd.ids == []
        refused.clear()
        await pass_time(10)
        assert odd.ids == [1]


@in_virtual_time
async def test_as_many_conditions_as_are_allowed():
    async with world() as w:
        w.manager.receiver_sets.limits = FilterLimits(of_queue=2)
        first = await w.receive(condition=ODD)
        await w.receive(condition=EVEN)
        with pytest.raises(TooManyFilters):
            await w.receive(condition=ALL)
        await w.receive(condition=Condition(ODD.sql, text="the same"))
        await w.receive()
        assert len(w.manager.receiver_sets.filtered) == 2
        await first.close()
        await w.receivers[2].close()
        assert tuple(w.manager.receiver_sets.filtered) == (EVEN,)
        await w.receive(condition=ALL)


@in_virtual_time
async def test_which_messages_fit_a_stream_can_be_asked():
    async with world() as w:
        w.store.fill(range(1, 5))
        small = await w.receive(condition=Condition("id < 3"), reading=False)
        assert await w.engine.fitting(NAME, [1, 2, 3, 4]) == {1, 2}
        await w.receive(condition=ODD)
        assert await w.engine.fitting(NAME, [1, 2, 3, 4]) == {1, 2, 3}
        assert small.ids == [1, 2]


# --- the scanner over a large backlog


class Slow(MemoryStore):
    """Takes 10 us for each message that it examines."""

    async def scan(self, queue, condition, page):
        before = self.examined
        scanned = await super().scan(queue, condition, page)
        await pass_time(1e-5 * (self.examined - before))
        return scanned


def scanner_of(store, clock, cache):
    context = queue_context(store, clock, work=1)
    return FilteredPoller(ODD, context, cache, Conflicts(), ReceiverSetShare(FilterShares(clock), clock))


@in_virtual_time
async def test_a_scan_goes_on_where_a_page_failed():
    """One that began anew might never come to its end, where one call in a few fails."""
    clock = VirtualClock()
    spec, asked = make_spec(), []

    class Noting(MemoryStore):
        async def scan(self, queue, condition, page):
            asked.append(page.after)
            return await super().scan(queue, condition, page)

    store = Noting(clock)
    store.serve(spec)
    store.add(*(Row(id_, time_next=5) for id_ in range(2, 20_002, 2)))
    scanner = scanner_of(store, clock, MessageCache(1000))
    for fails in (True, False, True, False, False):
        store.down = BackendUnavailable("gone for a moment") if fails else None
        with pytest.raises(BackendUnavailable) if fails else contextlib.nullcontext():
            await scanner.run_once(spec, 10)
    first, again, second, second_again, third = asked
    assert first is again is None
    assert None is not second == second_again != third is not None


@in_virtual_time
async def test_what_became_due_during_a_scan_is_found_by_its_first_page():
    """With an order_key, the next message of a key may go after each ack."""
    clock, spec, asked = VirtualClock(), make_spec(), []

    class Noting(Slow):
        async def scan(self, queue, condition, page):
            asked.append(page.after and page.after.id)
            if freed:
                scanner.request_poll(full=True)
            return await super().scan(queue, condition, page)

    store, cache, freed = Noting(clock), MessageCache(1000), True
    store.serve(spec)
    store.add(*(Row(id_, time_next=5) for id_ in range(2, 40_002, 2)))
    scanner = scanner_of(store, clock, cache)
    await scanner.run_once(spec, 10)
    store.add(Row(1, time_next=5))
    await scanner.run_once(spec, 10)
    assert cache.take(1)[0].id == 1 and asked == [None, None]
    store.ack(1)
    while not (await scanner.run_once(spec, 10)).complete:
        pass
    assert None not in asked[2::2] == sorted(asked[2::2]) and set(asked[1::2]) == {None}
    assert scanner.next_poll(spec) <= clock.monotonic() + 0.05, "what is deeper is found by the next scan"
    freed = False
    asked.clear()
    while not (await scanner.run_once(spec, 10)).complete:
        pass
    assert asked.count(None) == 1 and scanner.next_poll(spec) > clock.monotonic() + 1


@in_virtual_time
async def test_after_a_scan_without_a_lost_shard_all_is_examined_again():
    clock, spec = VirtualClock(), make_spec()

    class LosesOne(Slow):
        async def scan(self, queue, condition, page):
            return replace(await super().scan(queue, condition, page), incomplete=lost)

    async def scan_for(seconds):
        until = clock.monotonic() + seconds
        while (at := scanner.next_time(spec, needs_more=True)) <= until:
            await pass_time(max(0.0, at - clock.monotonic()))
            await scanner.run_once(spec, 10)
        await pass_time(until - clock.monotonic())

    store, lost, cache = LosesOne(clock), True, MessageCache(1000)
    store.serve(spec)
    store.add(*(Row(id_, time_next=5) for id_ in range(2, 60_002, 2)))
    scanner = scanner_of(store, clock, cache)
    await scan_for(7)
    store.add(Row(7, time_next=6))  # that was there before
    lost = False
    await scan_for(REST)
    assert cache.together == 1
    examined = store.examined
    await scan_for(REST)
    assert store.examined == examined, "nothing is left to be examined again"


@pytest.mark.long
@in_virtual_time
async def test_a_million_in_front_are_examined_in_pages_with_rests():
    clock = VirtualClock()
    store, spec = Slow(clock), make_spec()
    store.serve(spec)
    store.add(*(Row(id_, time_next=5) for id_ in range(2, 200_002, 2)))
    store.add(Row(300_001, time_next=6))
    cache = MessageCache(1000)
    scanner = scanner_of(store, clock, cache)
    spans, began = [], clock.monotonic()
    while True:
        await pass_time(max(0.0, scanner.next_time(spec, needs_more=True) - clock.monotonic()))
        before = store.examined
        looked = await scanner.run_once(spec, 10)
        spans.append(store.examined - before)
        if looked.complete:
            break
    assert len(cache) == 1
    assert max(spans) <= SPAN_MAX and spans[0] == SPAN_MIN
    assert 1.0 <= clock.monotonic() - began <= 2.5, "a second of work, and rests as long"
    # From now on commits lead to looks at what is fresh, and to one at the whole after a rest.
    examined, looks = store.examined, 0
    cache.clear()
    until = clock.monotonic() + 0.9 * REST * 1.0
    while clock.monotonic() < until:
        store.add(Row(400_001 + looks, time_next=clock.now_ns()))
        scanner.request_poll()
        while not (await scanner.run_once(spec, 10)).complete:
            pass
        looks += 1
        cache.clear()
        await pass_time(0.5)
    assert store.examined - examined <= looks * 50
    await pass_time(REST)
    assert scanner.poll_due(spec, needs_more=False)


@pytest.mark.parametrize("seed", range(30))
@in_virtual_time
async def test_whatever_happens_every_message_that_fits_is_delivered_once_under_a_lease(seed):
    chance = random.Random(seed)
    spec = make_spec(
        batch_size=chance.choice((1, 7, 100)),
        cache_size=chance.choice((1, 20, 10_000)),
        poll_interval_ns=5 * SECOND,
        ack_wait_ns=600 * SECOND,
    )
    async with world(spec) as w:
        conditions = chance.sample(
            (None, ODD, EVEN, Condition("id % 3 < 1"), Condition("id > 50")), chance.randint(1, 4)
        )
        receivers = [
            await w.receive(condition=c, prefetch=1000) for c in conditions for _ in range(chance.randint(1, 2))
        ]
        for start in range(0, 200, 20):
            rows = [
                Row(id_, chance.choice((None, 10, 50)), chance.choice((None, 0, 9))) for id_ in range(start, start + 20)
            ]
            w.store.add(*rows)
            if chance.random() < 0.7:
                w.engine.committed(CommitReport(touched=frozenset((NAME,))))
            w.store.down = chance.choice((None, None, BackendUnavailable("down"), BackendError("no", 1213)))
            w.store.locked = set(chance.sample(range(start, start + 20), 5))
            if chance.random() < 0.3:
                victim = receivers.pop(chance.randrange(len(receivers)))
                await victim.close()
                receivers.append(await w.receive(condition=victim.subscription.request.condition, prefetch=1000))
            await pass_time(chance.uniform(0, 3))
        w.store.down, w.store.locked = None, set()
        await pass_time(60)
        for id_, row in w.store.tables[NAME].items():
            fits = [c for c in conditions if c is None or eval(c.sql, {}, {"id": id_})]
            assert ((row.epoch or 0) > 0) == bool(fits), (id_, row, fits)
        for receiver in w.receivers:
            condition = receiver.subscription.request.condition
            assert all(condition is None or eval(condition.sql, {}, {"id": id_}) for id_ in receiver.ids)
            assert receiver.error is None
        held = [id_ for receiver in receivers for id_ in receiver.ids]
        assert len(held) == len(set(held))


@in_virtual_time
async def test_nowait_ends_though_commits_come_all_the_time():
    async with world() as w:
        w.store.latency = 0.01
        w.store.fill(range(2, 5000, 2))
        other = await w.receive(condition=ODD)
        receiver = await w.receive(condition=NOTHING, wait_mode=WaitMode.NOWAIT)
        for _ in range(200):
            w.engine.committed(CommitReport(touched=frozenset((NAME,))))
            await pass_time(0.003)
        assert receiver.ended.is_set() and other.ids == []

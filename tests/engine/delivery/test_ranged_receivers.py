"""Streams of key ranges: what a commit has added goes to those of its range without a look; in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.delivery.cache import CONFIRM_SECONDS
from engine.model.errors import BackendUnavailable, TooManyFilters
from engine.model.filter_limits import RANGES_MAX, RANGES_PER_ACCOUNT_MAX, FilterLimits
from engine.model.key_range import SLOT_COLUMN, KeyRange, Span, read_key_range
from engine.model.queue import ColumnMeta, Condition, of_key_range

SMALLINT, UNSIGNED = 2, 0x20  # the protocol's
LOW, HIGH = 1, 9  # of each of the halves: see Row.slot


def ring(**options):
    spec = make_spec(sharding_key="payload", **options)
    slot = ColumnMeta(SLOT_COLUMN, SMALLINT, flags=UNSIGNED)
    return replace(spec, generated=frozenset((SLOT_COLUMN,)), columns=(*spec.columns, slot))


def within(key_range):
    return of_key_range(read_key_range("", key_range))


async def halves(w, **request):
    """Receivers of both halves, and the database's clock is known."""
    receivers = [await w.receive(condition=within(half), **request) for half in ("-80", "80-")]
    await w.commit(Row(LOW), Row(HIGH))
    assert [receiver.ids for receiver in receivers] == [[LOW], [HIGH]]
    w.store.calls.clear()
    return receivers


@in_virtual_time
async def test_what_is_added_is_claimed_for_its_range_without_a_look():
    async with world(ring()) as w:
        low, high = await halves(w)
        await w.commit(Row(17), told=[17])
        assert low.ids == [LOW, 17] and w.store.calls == {"slots": 1, "claim_added": 1}
        await w.commit(Row(25), Row(26), Row(27), told=[25, 26, 27])
        assert high.ids == [HIGH, 25, 26, 27] and w.store.calls == {"slots": 2, "claim_added": 2}
        await w.commit(Row(31), Row(32), told=[31, 32])
        assert (low.ids[-1], high.ids[-1]) == (32, 31) and w.store.calls == {"slots": 3, "claim_added": 4}


@in_virtual_time
async def test_a_range_that_nobody_has_costs_one_read():
    async with world(ring()) as w:
        receiver = await w.receive(condition=within("-80"))
        await w.commit(Row(LOW))
        w.store.calls.clear()
        await w.commit(Row(HIGH), told=[HIGH])
        assert receiver.ids == [LOW] and w.store.calls == {"slots": 1}
        later = await w.receive(condition=within("80-"))
        assert later.ids == [HIGH]


@in_virtual_time
async def test_a_hint_that_is_wrong_leads_to_a_look():
    async with world(ring()) as w:
        low, high = await halves(w)
        w.store.add(Row(41))
        await w.commit(told=[99])
        assert high.ids == [HIGH, 41] and w.store.calls["slots"] == 1 and w.store.calls["scan"] == 2
        assert low.ids == [LOW]


@in_virtual_time
async def test_what_the_hint_did_not_contain_comes_a_second_later():
    async with world(ring()) as w:
        low, _ = await halves(w)
        w.store.add(Row(18))
        await w.commit(Row(17), told=[17])
        assert low.ids == [LOW, 17]
        await pass_time(CONFIRM_SECONDS + 0.1)
        assert low.ids == [LOW, 17, 18]


@in_virtual_time
async def test_beside_receivers_of_everything_or_with_a_condition_they_look():
    for other in ({}, {"condition": Condition("payload == 'b'").within(read_key_range("", "80-"))}):
        async with world(ring()) as w:
            receivers = [*(await halves(w)), await w.receive(**other)]
            await settle()
            w.store.calls.clear()
            await w.commit(Row(17), told=[17])
            assert sum(17 in receiver.ids for receiver in receivers) == 1 and not w.store.calls["slots"]


@in_virtual_time
async def test_limits_hold_so_they_look():
    async with world(ring(max_concurrency=3)) as w:
        low, _ = await halves(w)
        await w.commit(Row(17), Row(18), told=[17, 18])
        assert low.ids == [LOW, 17] and not w.store.calls["slots"]
        w.ack(LOW)
        await settle()
        assert low.ids == [LOW, 17, 18]


@in_virtual_time
async def test_what_was_added_while_the_database_failed_is_found():
    async with world(ring()) as w:
        low, _ = await halves(w)

        async def fail():
            w.store.fail_after = BackendUnavailable("gone")

        w.store.during["slots"] = fail
        await w.commit(Row(17), told=[17])
        assert low.ids == [LOW]
        await pass_time(10)
        assert low.ids == [LOW, 17]


@in_virtual_time
async def test_a_receiver_without_room_gets_it_later():
    async with world(ring()) as w:
        low, high = await halves(w, prefetch=1)
        await w.commit(Row(17), Row(25), told=[17])
        assert low.ids == [LOW] and high.ids == [HIGH]
        w.ack(LOW, HIGH)
        await pass_time(CONFIRM_SECONDS + 0.1)
        assert (low.ids, high.ids) == ([LOW, 17], [HIGH, 25])


@in_virtual_time
async def test_an_account_in_debt_gets_what_is_added_at_once():
    async with world(ring(), sole_account=lambda user: False) as w:
        low, _ = await halves(w, user="busy")
        await w.receive(queue=NAME, condition=within("40-50"), user="other")
        w.manager.receiver_sets.subscriptions[low.subscription].messages.scanner.share.charge(False, 60.0)
        await w.commit(Row(17), told=[17])
        assert low.ids == [LOW, 17]


def test_key_ranges_are_bounded_and_count_apart_from_conditions():
    limits = FilterLimits(of_queue=1, of_account=1)
    limits.check_ranges(NAME, RANGES_MAX - 1, "ann", RANGES_PER_ACCOUNT_MAX - 1)
    for counts in ((RANGES_MAX, 0), (0, RANGES_PER_ACCOUNT_MAX)):
        with pytest.raises(TooManyFilters):
            limits.check_ranges(NAME, counts[0], "ann", counts[1])


@in_virtual_time
async def test_streams_of_ranges_take_no_place_of_a_condition():
    async with world(ring()) as w:
        w.manager.receiver_sets.limits = FilterLimits(of_queue=1, of_account=1)
        for number in range(5):
            await w.receive(condition=of_key_range(KeyRange((Span(number, number),))), user="ann")
        await w.receive(condition=Condition("payload == 'b'"), user="ann")
        with pytest.raises(TooManyFilters):
            await w.receive(condition=Condition("payload == 'c'"), user="bob")

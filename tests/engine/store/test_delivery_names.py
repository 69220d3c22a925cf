"""Deliveries and their names, in every store: what a lease writes, what makes it void, what a give-back compares."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from memory_store import Row

from engine.model.lease_token import TOKEN_MAX, LeaseTimes, next_token, voided
from engine.model.queue import ColumnMeta, can_store_tokens
from engine.model.states import lease_end
from engine.store.base import ForeseenLease, LeaseState, Release, lease_is_current, release_of

SECOND = 10**9
DELAYS = {0: 10 * SECOND}


async def claim_one(bench, id_=1):
    (message,) = (await bench.store.claim(bench.spec, [id_], DELAYS)).messages
    return message


async def due_again(bench, id_=1):
    row = await bench.row(id_)
    await bench.delete(id_)
    await bench.add(replace(row, time_next=100))


async def test_every_lease_of_a_message_has_a_greater_token(bench):
    await bench.add(Row(1, time_next=100))
    tokens = []
    for _ in range(5):
        message = await claim_one(bench)
        assert (await bench.row(1)).lease_token == message.token
        tokens.append(message.token)
        await due_again(bench)
    assert tokens == sorted(set(tokens)) and tokens[0] > 0


async def test_a_new_row_of_the_same_id_has_another(bench):
    tokens = set()
    for _ in range(5):
        await bench.add(Row(1, time_next=100))
        tokens.add((await claim_one(bench)).token)
        await bench.delete(1)
    assert len(tokens) == 5


async def test_what_a_commit_has_added_is_named_too(bench):
    now = await bench.now_ns()
    await bench.add(Row(1, time_next=now - SECOND), Row(2, time_next=now - SECOND, lease_token=now // 1000 + 10**12))
    foreseen = ForeseenLease(lease_end(now + 10 * SECOND), now - 30 * SECOND, now + 30 * SECOND)
    claim = await bench.store.claim_added(bench.spec, [1, 2], foreseen)
    tokens = {message.id: message.token for message in claim.messages}
    assert tokens == {1: (await bench.row(1)).lease_token, 2: now // 1000 + 10**12 + 1}
    assert tokens[1] >= now // 1000 - 30 * 10**6


@pytest.mark.parametrize("counted", [True, False])
async def test_a_release_makes_the_token_void(bench, counted):
    await bench.add(Row(1, time_next=100))
    first = await claim_one(bench)
    assert await bench.store.release(bench.spec, [release_of(first)], counted=counted) == 1
    void = (await bench.row(1)).lease_token
    assert void == first.token + 1
    assert (await claim_one(bench)).token > void


async def test_only_the_delivery_of_that_token_is_given_back(bench):
    """One of the same epoch, whose end is the same, is another's."""
    await bench.add(Row(1, time_next=100))
    first = await claim_one(bench)
    assert await bench.store.release(bench.spec, [release_of(first)], counted=False) == 1
    second = await claim_one(bench)
    assert second.epoch == first.epoch
    stale = release_of(second)._replace(token=first.token)
    assert await bench.store.release(bench.spec, [stale], counted=False) == 0
    renewed = release_of(second)._replace(lease_until_ns=second.lease_until_ns - 1000)
    assert await bench.store.release(bench.spec, [renewed], counted=False) == 1, "its token names it, whatever its end"


@pytest.mark.parametrize("written", [2**63 - 1, TOKEN_MAX + 1, TOKEN_MAX, TOKEN_MAX - 1, -1, -(2**63)])
async def test_what_a_client_has_written_is_no_trap(bench, written):
    await bench.add(Row(1, time_next=100, lease_token=written))
    first = await claim_one(bench)
    assert 0 < first.token <= TOKEN_MAX and first.token == (await bench.row(1)).lease_token
    assert await bench.store.release(bench.spec, [release_of(first)], counted=True) == 1
    assert (await bench.row(1)).lease_token == voided(first.token) != first.token
    assert 0 < (await claim_one(bench)).token <= TOKEN_MAX


# --- pure


def test_a_token_grows_or_is_the_time():
    assert next_token(0, 100) == 100
    assert next_token(99, 100) == 100
    assert next_token(100, 100) == 101
    assert next_token(TOKEN_MAX - 1, 100) == TOKEN_MAX
    assert next_token(TOKEN_MAX, 100) == 100
    assert voided(TOKEN_MAX) == TOKEN_MAX + 1 == voided(2**63 - 1)


def test_no_two_times_are_equal_though_the_clock_stands_or_goes_back():
    times = LeaseTimes()
    assert [times.next(ns) for ns in (5_000, 5_000, 4_000, 9_000)] == [5, 6, 7, 9]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(times.next, [10_000] * 1000))
    assert len(set(made)) == 1000


def test_a_lease_without_a_token_is_known_by_its_end():
    lease = Release(1, 0, 5001, 1)
    assert lease_is_current(lease, LeaseState(1, 5001, 7))
    assert not lease_is_current(lease, LeaseState(1, 6001, 7))
    assert not lease_is_current(lease, LeaseState(2, 5001, 7))


def test_a_lease_of_an_older_proxy_that_kept_the_token_is_another():
    lease = Release(1, 0, 5001, 1, 7)
    assert not lease_is_current(lease, LeaseState(2, 6001, 7))
    assert lease_is_current(lease, LeaseState(1, 6001, 7))
    assert not lease_is_current(lease, LeaseState(1, 6000, 7)), "no lease's end: it was put off"
    assert not lease_is_current(lease, LeaseState(1, None, 7))


@pytest.mark.parametrize(
    ("column", "fits"),
    [
        (ColumnMeta("lease_token", 8, 63, flags=0x1), True),
        (ColumnMeta("lease_token", 8, 63, flags=0x8001), True),
        (ColumnMeta("lease_token", 8, 63, flags=0x0), False),
        (ColumnMeta("lease_token", 8, 63, flags=0x21), False),
        (ColumnMeta("lease_token", 8, 63, flags=0x1001), False),
        (ColumnMeta("lease_token", 3, 63, flags=0x1), False),
        (ColumnMeta("lease_token", 253, 45, flags=0x1), False),
    ],
)
def test_which_column_can_be_it(column, fits):
    assert can_store_tokens(column) == fits

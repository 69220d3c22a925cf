"""The engine's parts without I/O: backoff, cache, leases in flight, conflicts, shares, identity. Properties where the
space is large, plain cases where one example says it all."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import make_spec

from engine.clock import system_jitter
from engine.delivery.cache import MessageCache, delivery_order
from engine.delivery.conflicts import (
    CONFLICTS_MAX,
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    RETRIES_PER_SECOND,
    Conflicts,
)
from engine.delivery.in_flight import InFlight
from engine.delivery.sender import fair_shares
from engine.model.backoff import (
    DELAY_MAX_NS,
    DoublingDelay,
    failure_delay_least_ns,
    failure_delay_sql,
    lease_delay_ns,
    lease_delays_ns,
)
from engine.model.identity import IdKind, can_identify, from_text, id_kind, normalise
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import ColumnMeta, Layout, Message, MessageKey
from engine.store.base import UNKNOWN_STATE, LeaseState

durations = st.integers(min_value=10_000_000, max_value=3650 * 86400 * SECOND)
jitters = st.floats(min_value=2 / 3, max_value=4 / 3, exclude_max=True)
epochs = st.one_of(st.integers(0, 100), st.integers(-5, 2**63))


# --- backoff


@given(wait=durations, low=st.none() | durations | st.just(0), high=durations, epoch=epochs, jitter=jitters)
def test_a_delay_lies_within_its_bounds(wait, low, high, epoch, jitter):
    spec = make_spec(ack_wait_ns=wait, min_backoff_ns=low, max_backoff_ns=high)
    minimum = wait if low is None else low
    delay = lease_delay_ns(spec, epoch, jitter)
    assert delay <= DELAY_MAX_NS
    assert wait + minimum <= delay <= wait + max(minimum, high)
    exact = minimum * 2 ** min(max(epoch, 0), 62) * jitter
    if minimum < exact < high:
        assert delay - wait == pytest.approx(exact, rel=1e-9, abs=1)


@given(wait=durations, epoch=epochs)
def test_a_legacy_delay_doubles_the_wait_and_knows_no_jitter(wait, epoch):
    spec = replace(make_spec(ack_wait_ns=wait), layout=Layout.LEGACY)
    delay = lease_delay_ns(spec, epoch, 1.3)
    assert delay == min(wait * 2 ** min(max(epoch, 0), 62), DELAY_MAX_NS)
    assert 1_770_000_000 * SECOND + delay < 2**63, "it must fit a BIGINT"


@given(wait=durations, low=st.none() | durations | st.just(0), high=durations, jitter=jitters, legacy=st.booleans())
def test_the_table_of_delays_is_that_of_every_epoch(wait, low, high, jitter, legacy):
    spec = make_spec(ack_wait_ns=wait, min_backoff_ns=low, max_backoff_ns=high)
    spec = replace(spec, layout=Layout.LEGACY if legacy else Layout.CURRENT)
    delays = lease_delays_ns(spec, jitter)
    last = max(delays)
    assert list(delays) == list(range(last + 1))
    for epoch in (*range(70), 2**40):
        assert delays[min(epoch, last)] == lease_delay_ns(spec, epoch, jitter)


@given(
    wait=durations, low=st.none() | durations | st.just(0), high=durations, epoch=st.integers(1, 2**62),
    legacy=st.booleans(), ladder=st.lists(durations, max_size=4), id_=st.integers(1, 2**63) | st.text(),
)  # fmt: skip
def test_the_delay_of_a_nack_is_that_of_a_lease_without_its_wait(wait, low, high, epoch, legacy, ladder, id_):
    spec = make_spec(ack_wait_ns=wait, min_backoff_ns=low, max_backoff_ns=high, backoff=tuple(ladder))
    spec = replace(spec, layout=Layout.LEGACY if legacy else Layout.CURRENT)
    delay = evaluated(failure_delay_sql(spec), id_, epoch)
    assert failure_delay_least_ns(spec, epoch) <= delay
    first = evaluated(failure_delay_sql(spec), id_, 1)
    assert failure_delay_least_ns(spec, 1) <= first <= failure_delay_least_ns(spec, 1) * 4 / 3 * (1 + 1e-9) + 1000
    # A legacy lease has no other wait, so its delay is the whole.
    waited = 0 if legacy and not ladder else wait
    least, most = (lease_delay_ns(spec, epoch - 1, jitter) - waited for jitter in (2 / 3, 4 / 3))
    assert least // 1000 * 1000 * (1 - 1e-9) - 1000 <= delay <= most * (1 + 1e-9) + 1000
    assert delay % 1000 == 0
    assert 1_770_000_000 * SECOND + delay < 2**63, "it must fit a BIGINT"


def evaluated(sql: str, id_: object, epoch: int) -> int:
    """What a database makes of it."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.create_function("GREATEST", 2, max)
        database.create_function("LEAST", 2, min)
        database.create_function("IF", 3, lambda condition, yes, no: yes if condition else no)
        database.create_function("CONCAT", -1, lambda *parts: "".join(map(str, parts)))
        database.create_function("CRC32", 1, lambda text: zlib.crc32(text.encode("utf-8", "surrogatepass")))
        (value,) = database.execute(
            f"SELECT {sql} FROM (SELECT ? AS id, ? AS epoch)",
            (str(id_).encode("utf-8", "replace").decode(), epoch),
        ).fetchone()
        assert isinstance(value, int)
        return value


def test_the_documented_spacing():
    """ack_wait = min_backoff = 30 s: 60, 90, 150, 270 ... seconds without jitter."""
    delays = lease_delays_ns(make_spec(max_backoff_ns=3600 * SECOND), 1.0)
    assert [delay // SECOND for delay in delays.values()] == [60, 90, 150, 270, 510, 990, 1950, 3630]


def test_a_ladder_of_delays_is_taken_step_by_step():
    spec = make_spec(backoff=(10 * SECOND, 60 * SECOND, 5 * SECOND))
    assert lease_delays_ns(spec, 1.3) == {0: 40 * SECOND, 1: 90 * SECOND, 2: 35 * SECOND}
    assert lease_delay_ns(spec, 1000, 0.7, 1 * SECOND) == 6 * SECOND


def test_a_subscriptions_own_wait_leaves_the_backoff_alone():
    assert lease_delay_ns(make_spec(), 0, 1.0, 100 * SECOND) == 130 * SECOND


def test_the_production_jitter_stays_in_its_range():
    values = [system_jitter() for _ in range(1000)]
    assert min(values) >= 2 / 3 and max(values) < 4 / 3 and max(values) - min(values) > 0.5


def test_doubling():
    pauses = DoublingDelay(0.1, 1.0)
    assert [pauses.take() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    pauses.reset()
    assert pauses.take() == 0.1


# --- cache

keys = st.builds(MessageKey, st.integers(-3, 3), st.integers(0, 5), st.integers(0, 30))
unique_keys = st.lists(keys, max_size=25, unique_by=lambda key: key.id)


def in_order(cache):
    return cache.take(len(cache))


@given(found=unique_keys, limit=st.integers(1, 30))
def test_a_complete_look_is_the_cache(found, limit):
    cache = MessageCache(limit)
    cache.merge([MessageKey(9, 9, 99)], more=False)
    fits = cache.merge(found, more=False)
    assert fits == (len(found) <= limit)
    assert in_order(cache) == sorted(found)[:limit]


@given(old=unique_keys, new=unique_keys, count=st.integers(1, 25), limit=st.integers(1, 30))
def test_a_partial_look_replaces_its_range_and_leaves_the_rest(old, new, count, limit):
    cache = MessageCache(limit)
    cache.merge(old, more=False)
    before = sorted(old)[:limit]
    poll = sorted(new)[:count]
    cache.merge(poll, more=True)
    ids = {key.id for key in poll}
    beyond = [key for key in before if key.id not in ids and key > poll[-1]] if poll else []
    assert in_order(cache) == (poll + beyond)[:limit]


@given(found=unique_keys, gone=st.sets(st.integers(0, 30)), count=st.integers(0, 30))
def test_what_is_discarded_is_not_taken(found, gone, count):
    cache = MessageCache(100)
    cache.merge(found, more=False)
    assert cache.discard(gone) == sum(key.id in gone for key in found)
    left = [key for key in sorted(found) if key.id not in gone]
    assert cache.take(count) == left[:count]
    assert len(cache) == max(0, len(left) - count)
    assert all(key.id in cache for key in left[count:])


def test_ids_of_two_types_are_ordered_somehow():
    cache = MessageCache(10)
    cache.merge([MessageKey(0, 0, "a"), MessageKey(0, 0, 1), MessageKey(0, 0, b"a")], more=False)
    assert {key.id for key in in_order(cache)} == {"a", 1, b"a"}


@given(st.lists(keys))
def test_delivery_order_is_the_order_of_the_fields(found):
    assert sorted(found, key=delivery_order) == sorted(found)


# --- in flight


def message(id_, epoch=1):
    return Message(id_, epoch, 50, 5, 100, ())


def test_leases_by_holder():
    leases = InFlight()
    for id_, holder in ((1, "a"), (2, "a"), (3, "b")):
        leases.add(holder, [(message(id_), 10.0 + id_)], 0.0)
    assert (len(leases), leases.count("a"), leases.count("b"), leases.count("c")) == (3, 2, 1, 0)
    assert leases.settle([2, 2, 9]) == 1
    assert leases.next_deadline() == 11.0
    leases.add("b", [(message(1, epoch=2), 20.0)], 0.0)  # the table gave it to another
    assert (leases.count("a"), leases.count("b")) == (0, 2)
    assert leases.next_deadline() == 13.0
    assert len(leases.expire(13.0)) == 1 and leases.ids() == [1]
    assert [release.epoch for release in leases.drop_holder("b")] == [2]
    assert leases.drop_holder("b") == [] and leases.next_deadline() is None and leases.holders() == []


def test_leases_compared_with_the_table():
    leases = InFlight()
    for id_ in range(1, 8):
        leases.add("a", [(message(id_), 10.0)], 0.0)
    until = 100 + 5 * 10**9
    found = {
        1: LeaseState(1, 100),  # as it was
        2: LeaseState(1, until - until % 1000 + 1),  # renewed
        3: LeaseState(1, until - until % 1000),  # nacked: no lease's end
        4: LeaseState(0, until - until % 1000 + 1),  # released, and leased again somewhere
        5: LeaseState(2, until - until % 1000 + 1),  # leased anew
        6: LeaseState(1, None),
    }
    assert tuple(map(len, leases.compare([1, 2, 3, 4, 5, 6, 7, 99], found, {2: True}))) == (1, 4)
    assert sorted(leases.ids()) == [1, 2]
    assert len(leases.expire(10.0)) == 1 and leases.ids() == [2]
    assert 14.9 < leases.next_deadline() < 15.1
    assert [release.lease_until_ns for release in leases.drop_holder("a")] == [found[2].time_next_ns]


def test_a_lease_that_cannot_be_read_now_stays():
    leases = InFlight()
    for id_ in (1, 2):
        leases.add("a", [(message(id_), 10.0)], 0.0)
    assert leases.compare([1, 2], {1: UNKNOWN_STATE}) == ([2], [])
    assert leases.ids() == [1] and len(leases.expire(10.0)) == 1


def test_a_lease_of_another_at_the_same_epoch_is_not_given_back():
    """RELEASE takes the epoch back, so the next lease has the same, and looks like a renewal."""
    leases, again = InFlight(), LeaseState(1, 5_000_000_001)
    leases.add("a", [(message(1), 10.0)], 0.0)
    leases.add("a", [(message(2), 10.0)], 0.0)
    assert tuple(map(len, leases.compare([1, 2], {1: again, 2: again}, {1: False}))) == (0, 1)
    assert leases.count("a") == 1
    assert tuple(map(len, leases.compare([2], {2: again}))) == (0, 0)
    (release,) = leases.drop_holder("a")
    assert (release.id, release.lease_until_ns) == (2, message(2).lease_until_ns)


operations = st.lists(
    st.tuples(st.sampled_from(["add", "settle", "expire", "drop"]), st.integers(0, 8), st.sampled_from("abc")),
    max_size=60,
)


@given(operations)
def test_leases_agree_with_a_plain_model(steps):
    leases, model, now = InFlight(), {}, 0.0
    for step, (name, id_, holder) in enumerate(steps):
        now += 1.0
        if name == "add":
            batch = {id_: now + id_, id_ + 1: now + id_, id_ + 3: now + 3}
            leases.add(holder, [(message(i), deadline) for i, deadline in batch.items()], 0.0)
            model.update((i, (holder, deadline)) for i, deadline in batch.items())
        elif name == "settle":
            assert leases.settle([id_]) == (model.pop(id_, None) is not None)
        elif name == "expire":
            over = [i for i, (_, deadline) in model.items() if deadline <= now]
            assert sorted(lease.release.id for lease in leases.expire(now)) == sorted(over)
            model = {i: lease for i, lease in model.items() if i not in over}
        else:
            mine = {i for i, (who, _) in model.items() if who == holder}
            assert {release.id for release in leases.drop_holder(holder)} == mine
            model = {i: lease for i, lease in model.items() if i not in mine}
        assert set(leases.ids()) == set(model), step
        assert leases.next_deadline() == min((deadline for _, deadline in model.values()), default=None)
        counts = Counter(who for who, _ in model.values())
        assert all(leases.count(who) == counts[who] for who in "abc")


def test_settled_deadlines_do_not_pile_up():
    leases = InFlight()
    for id_ in range(100_000):
        leases.add("a", [(message(id_), 1e9)], 0.0)
        leases.settle([id_])
    assert len(leases._deadlines) < 2000
    for start in range(0, 100_000, 100):
        leases.add("a", [(message(id_), 1e9) for id_ in range(start, start + 100)], 0.0)
        leases.settle(range(start, start + 99))
        leases.settle([start + 99] if start % 1000 else [])
    assert leases._deadline_count < 2000 and len(leases) == 100


# --- conflicts


def test_a_conflict_pauses_longer_each_time_and_is_forgotten_when_no_longer_offered():
    conflicts, now = Conflicts(), 0.0
    pauses = []
    for _ in range(8):
        conflicts.add([1], now)
        assert conflicts.blocks(1, now)
        pauses.append(round(conflicts.next_retry() - now, 3))
        now = conflicts.next_retry()
        conflicts.polled([1], now)
        assert not conflicts.blocks(1, now) and conflicts.next_retry() is None
    assert pauses == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    conflicts.polled([2], now)
    assert len(conflicts) == 0


def test_a_commit_ends_the_pauses_but_not_their_doubling():
    conflicts = Conflicts()
    conflicts.add([1], 0.0)
    conflicts.end_pauses(0.0)
    assert not conflicts.blocks(1, 0.0)
    conflicts.add([1], 0.0)
    assert conflicts.next_retry() == 0.04
    conflicts.remove([1])
    assert len(conflicts) == 0


def test_many_conflicts_are_tried_again_as_fast_as_claims_can_be_made():
    conflicts = Conflicts()
    for _ in range(2):
        for first in range(0, 5000, 50):
            conflicts.add(range(first, first + 50), 0.0)
    spread = 5000 / 50 / RETRIES_PER_SECOND
    assert conflicts.next_retry() == pytest.approx(spread * 1.25, rel=0.05)
    conflicts.end_pauses(0.5)
    assert not conflicts.blocks(1, 0.5) and conflicts.next_retry() is None
    conflicts.add(range(50), 0.5)
    conflicts.end_pauses(0.6)
    assert conflicts.blocks(1, 0.6), "commits come without end, and others wait behind these"
    conflicts.end_pauses(0.5 + spread)
    assert not conflicts.blocks(1, 0.6)


def test_the_first_retry_is_known_whatever_is_removed():
    conflicts = Conflicts()
    conflicts.add([1], 0.0)
    conflicts.add([2], 1.0)
    assert conflicts.next_retry() == FIRST_PAUSE_SECONDS
    conflicts.remove([1])
    assert conflicts.next_retry() == 1.0 + FIRST_PAUSE_SECONDS
    conflicts.add([2], 2.0)
    assert conflicts.next_retry() == 2.0 + 2 * FIRST_PAUSE_SECONDS
    conflicts.remove([2])
    assert conflicts.next_retry() is None


def test_conflicts_are_bounded():
    """Those that are stored keep their pauses; the rest is not tried at once."""
    conflicts = Conflicts()
    conflicts.add(range(CONFLICTS_MAX), 0.0)
    assert not conflicts.rests_until
    conflicts.add(range(CONFLICTS_MAX, CONFLICTS_MAX + 50), 0.0)
    assert len(conflicts) == CONFLICTS_MAX and conflicts.blocks(0, 0.0) and conflicts.rests_until == MAX_PAUSE_SECONDS
    conflicts.clear()
    assert not conflicts.rests_until


# --- shares


@given(st.lists(st.integers(1, 100), max_size=20), st.integers(0, 500))
def test_shares_are_fair(capacities, available):
    shares = fair_shares(capacities, available)
    assert sum(shares) == min(available, sum(capacities))
    assert all(0 <= share <= capacity for share, capacity in zip(shares, capacities, strict=True))
    # Nobody with room to spare got two fewer than another.
    needs_more = [share for share, capacity in zip(shares, capacities, strict=True) if share < capacity]
    assert not needs_more or max(shares) - min(needs_more) <= 1


# --- identity


@pytest.mark.parametrize(
    ("code", "charset", "kind"),
    [(8, 63, "INTEGER"), (1, 63, "INTEGER"), (13, 63, "INTEGER"), (253, 45, "TEXT"), (254, 63, "BINARY"),
     (252, 63, "BINARY"), (12, 63, "TEXT"), (246, 63, "TEXT"), (254, 45, "TEXT")],
)  # fmt: skip
def test_the_kind_of_an_id(code, charset, kind):
    assert id_kind(ColumnMeta("id", code, charset)) is IdKind[kind]


def test_types_that_cannot_identify():
    assert [code for code in range(256) if not can_identify(ColumnMeta("id", code))] == [4, 5, 7, 11, 16, 245, 255]


@pytest.mark.parametrize(
    ("kind", "given_id", "known"),
    [("INTEGER", 5, 5), ("INTEGER", "5", 5), ("INTEGER", b"5", 5), ("INTEGER", " 5 ", 5), ("INTEGER", "x", None),
     ("INTEGER", "1.5", None), ("INTEGER", "9" * 5000, None), ("TEXT", "a", "a"), ("TEXT", 5, "5"), ("TEXT", b"a", "a"),
     ("TEXT", b"\xff", None), ("BINARY", b"\xff", b"\xff"), ("BINARY", "a", b"a"), ("BINARY", 5, b"5")],
)  # fmt: skip
def test_ids_from_statements(kind, given_id, known):
    assert normalise(IdKind[kind], given_id) == known


@given(st.integers(-(2**63), 2**64))
def test_integers_survive_the_text_protocol(value):
    assert from_text(IdKind.INTEGER, str(value).encode()) == value == normalise(IdKind.INTEGER, str(value))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_text_survives_the_text_protocol(value):
    assert from_text(IdKind.TEXT, value.encode()) == value == normalise(IdKind.TEXT, value.encode())

"""A queue over several shards: what is put together of its parts, and a shard that does not answer.

That it does what any store does is the contract suite's (test_store_contract.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import pytest
import store_benches
from hypothesis import given
from hypothesis import strategies as st
from memory_store import Row
from servers import wait_until
from store_benches import SHARDS, ShardedBench

from engine.model.errors import BackendError, BackendUnavailable
from engine.model.keyspaces import at_shard
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import ColumnMeta, Condition, MessageKey, QueueCatalog, QueueName
from engine.store.base import (
    UNKNOWN_STATE,
    LeaseUnknown,
    Page,
    PollResult,
    Position,
    ScanResult,
    lease_is_current,
    release_of,
)
from engine.store.merged import merged_polls, merged_scans, read_ahead
from engine.store.placement import Place, Places, RoutingLiterals

DELAYS = {0: 30 * SECOND}


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[ShardedBench]:
    made = await ShardedBench.open(str(tmp_path / "queue.db"))
    yield made
    await made.close()


class Cut:
    """A shard whose store does not answer until `heal`; or only with an error."""

    def __init__(self, bench, shard, error=None) -> None:
        self._bench, self._name = bench, at_shard("main", shard)
        self._error = error or BackendUnavailable("lost", 2013)
        self._real, self.asked = bench.shards[self._name], 0
        bench.shards[self._name] = self
        bench.store._shards.clear()

    def __getattr__(self, name):
        async def lost(*_, **__):
            self.asked += 1
            raise self._error

        return getattr(self._real, name) if self._healed or name in ("retain", "close") else lost

    _healed = False

    def heal(self) -> None:
        self._healed = True


async def answers_again(bench) -> None:
    await asyncio.to_thread(wait_until, lambda: bench.store._shards[at_shard("main", "80-")]._lost is None)


def polled(keys, more=False, next_due=None, now=1000):
    return PollResult(now, tuple(MessageKey(*key) for key in keys), next_due, more)


def test_a_poll_is_put_together():
    both = merged_polls([polled([(50, 1, 2), (50, 3, 4)], now=9), polled([(10, 5, 1)], True, 70)], 2, incomplete=False)
    assert both == PollResult(1000, (MessageKey(10, 5, 1), MessageKey(50, 1, 2)), 70, True)
    part = merged_polls([polled([])], 2, incomplete=True)
    assert part.next_due_ns == 1000 + SECOND, "it is polled again soon"


def test_when_a_message_falls_due_is_by_the_clock_of_its_shard():
    slow, fast = polled([], next_due=530, now=500), polled([], next_due=1040)
    both = merged_polls([slow, fast], 2, incomplete=False)
    assert (both.now_ns, both.next_due_ns) == (500, 530), "in 30 ns, and not 470 ns ago"
    before = polled([(1, 1, 1)], next_due=1020, now=600)
    later = merged_polls([slow, fast], 2, incomplete=False, ahead=[before])
    assert (later.now_ns, later.next_due_ns) == (1000, 1020), "time has gone by since"


def some_of(keys, limit):
    """What a shard answers that has these keys."""
    return PollResult(1000, tuple(keys[:limit]), None, len(keys) > limit)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=60), st.integers(1, 7), st.randoms())
def test_what_was_read_ahead_changes_no_order(rows, limit, random):
    left = {shard: [] for shard in ("-40", "40-80", "80-")}
    keys = sorted(MessageKey(*row, id_) for id_, row in enumerate(rows))
    for key in keys:
        left[random.choice(sorted(left))].append(key)
    found, ahead, more = [], {}, True
    while more:
        polls = {shard: some_of(of, limit) for shard, of in left.items() if shard not in ahead}
        assert polls, "one shard at least is asked, for the database's time"
        merged = merged_polls(list(polls.values()), limit, incomplete=False, ahead=list(ahead.values()))
        assert len(merged.keys) <= limit and (merged.keys or not merged.more)
        ahead = read_ahead(polls, {key.id for key in merged.keys}, len(left))
        left = {shard: [key for key in of if key not in merged.keys] for shard, of in left.items()}
        found, more = found + list(merged.keys), merged.more
    assert found == keys


async def test_a_shard_is_not_asked_again_for_what_it_has_answered(bench):
    await bench.add(*(Row(number) for number in (1, 3, 5, 7, 2, 4, 6, 8)))
    await bench.run("UPDATE q SET priority = id % 2")  # one shard first, then the other
    first = await bench.store.poll(bench.spec, 2)
    assert [key.id for key in first.keys] == [2, 4] and set(first.ahead) == {"80-"}
    await bench.store.claim(bench.spec, [2, 4], DELAYS)
    await bench.run("UPDATE q SET priority = 9 WHERE id = 1")
    second = await bench.store.poll(bench.spec, 2, first.ahead)
    assert [key.id for key in second.keys] == [6, 8] and not second.ahead
    await bench.store.claim(bench.spec, [6, 8], DELAYS)
    assert [key.id for key in (await bench.store.poll(bench.spec, 2, first.ahead)).keys] == [1, 3], "it was not asked"
    assert [key.id for key in (await bench.store.poll(bench.spec, 2, second.ahead)).keys] == [3, 5]
    assert (await bench.store.claim(bench.spec, [1, 3], DELAYS)).messages, "it is known where they are"


async def test_with_a_lost_shard_what_was_read_ahead_of_the_others_serves(tmp_path, monkeypatch):
    monkeypatch.setattr(store_benches, "SHARDS", ("-40", "40-80", "80-"))
    bench = await ShardedBench.open(str(tmp_path / "queue.db"))
    await bench.add(*(Row(number, time_next=number) for number in range(1, 31)))
    Cut(bench, "80-")
    found, ahead = [], {}
    for _ in range(5):
        poll = await bench.store.poll(bench.spec, 4, ahead)
        assert len(poll.ahead) < 2, "one that answers is asked each time"
        found, ahead = found + [key.id for key in poll.keys], poll.ahead
        await bench.ack(*found)
    assert found == sorted(found) and len(set(found)) == len(found) >= 16
    lost = dict.fromkeys(("-40", "40-80"), poll)
    assert (await bench.store.poll(bench.spec, 2, lost)).keys, "one that was left out is lost by now"
    await bench.close()


ROWS = st.lists(
    st.tuples(st.integers(-1, 1), st.integers(0, 3), st.integers(1, 40)), max_size=40, unique_by=lambda row: row[2]
)


@given(ROWS, st.integers(1, 5), st.integers(1, 7), st.integers(1, 4))
def test_a_scan_over_shards_finds_each_once_and_in_order(rows, limit, span, shards):
    parts = [sorted(row for row in rows if row[2] % shards == part) for part in range(shards)]

    def step(rows, after):
        """One shard's step, as engine.store.operations.scan makes it: up to `span` rows, or `limit` matches."""
        rest = [row for row in rows if after is None or row > (after.priority, after.due_ns, after.id)]
        taken = rest[: min(limit, span)]
        end = Position(*taken[-1]) if taken and len(taken) < len(rest) else None
        return ScanResult(polled(taken, end is not None), end, {row[2]: Position(*row) for row in taken})

    found: list[MessageKey] = []
    position = None
    for _ in range(len(rows) + 1):
        scanned = merged_scans([step(part, position) for part in parts], limit, incomplete=False)
        assert len(scanned.poll.keys) <= limit and scanned.poll.more == (scanned.position is not None)
        found += scanned.poll.keys
        position = scanned.position
        if position is None:
            break
    assert position is None and found == [MessageKey(*row) for row in sorted(rows)]


def test_places_are_bounded_and_forgotten_with_a_shard(bench):
    places, queue = Places(3), bench.spec
    places.learn(queue.name, "-80", (1, 2))
    places.learn(queue.name, "80-", (3, 4))
    assert places.of(queue, (1, 2, 3, 4)) == {2: Place("-80"), 3: Place("80-"), 4: Place("80-")}
    assert places.of(dataclasses.replace(queue, shards=("-80", "80-c0", "c0-")), (2, 3)) == {2: Place("-80")}
    other = dataclasses.replace(queue, name=QueueName("main", "other"))
    places.learn(other.name, "-80", (9,))
    assert places.of(queue, (2, 3, 4)) == {3: Place("80-"), 4: Place("80-")}, "of the queue with the most"
    places.retain((other.name,))
    places.learn(other.name, "-80", (10, 11, 12))
    assert not places.of(queue, (3, 4)) and list(places.of(other, (9, 10, 11, 12))) == [10, 11, 12]


def key_of(name, type_, charset=63, flags=0):
    return ColumnMeta(name, type_, charset, flags=flags)


@pytest.mark.parametrize(
    ("value", "column", "shard", "literal"),
    [
        (b"6", key_of("k", 8), "-80", "6"),
        (b"1", key_of("k", 8), "80-", "1"),
        (b"-5", key_of("k", 8), "-", "-5"),
        (b"6", key_of("k", 8), "80-", None),  # it was placed by another spelling
        (b"customer-7", key_of("k", 253, 45), "-", None),  # stored in another encoding, perhaps
        (b"abc", key_of("k", 253), "-", None),
        (None, key_of("k", 8), "-", None),
        (b"6", key_of("k", 8), "-800000", None),
    ],
)
def test_a_key_is_named_only_where_vtgate_finds_the_message_by_it(value, column, shard, literal):
    assert RoutingLiterals(column, shard).of(value) == literal


async def test_routes_to_what_was_claimed(bench):
    options = dataclasses.replace(bench.spec.options, sharding_key="priority")
    queue = dataclasses.replace(bench.spec, options=options)
    low, high = (
        next(number for number in range(99) if RoutingLiterals(key_of("k", 8), shard).of(b"%d" % number))
        for shard in SHARDS
    )
    await bench.add(Row(1, priority=high), Row(3, priority=high), Row(2, priority=low), Row(4, priority=high))
    assert bench.store.placement.routes(queue, [1]) is None, "it was not claimed yet"
    await bench.store.claim(queue, [1, 2, 3, 4], DELAYS)
    assert bench.store.placement.routes(queue, [1, 3]) == {"80-": f"`priority` IN ({high})"}
    both = {"80-": f"`priority` IN ({high})", "-80": f"`priority` IN ({low})"}
    assert bench.store.placement.routes(queue, [1, 2]) == both
    assert bench.store.placement.routes(queue, [2, 4]) is None, "the key of one of them names another shard"
    assert bench.store.placement.routes(queue, [1, 99]) is None


async def test_places_are_asked_where_they_are_not_known(bench):
    await bench.add(Row(1), Row(2), Row(3))
    assert await bench.store.placement.places(bench.spec, [1, 2, 3, 99]) == {1: "80-", 2: "-80", 3: "80-"}


async def test_a_lost_shard_holds_up_no_other(bench):
    await bench.add(Row(1), Row(2), Row(3))
    cut = Cut(bench, "80-")
    poll = await bench.store.poll(bench.spec, 10)
    assert [key.id for key in poll.keys] == [2] and poll.next_due_ns == poll.now_ns + SECOND
    asked = cut.asked
    for _ in range(3):
        found = await bench.store.poll_and_claim(bench.spec, 10, 10, (), DELAYS)
    assert found.claim is None and cut.asked <= asked + 1, "only pings"
    assert (await bench.store.counts.census(bench.spec)).bounded
    with pytest.raises(BackendUnavailable):
        await bench.store.placement.places(bench.spec, [99])
    cut.heal()
    await answers_again(bench)
    assert [key.id for key in (await bench.store.poll(bench.spec, 10)).keys] == [1, 3]


async def test_what_any_shard_can_answer_is_asked_of_one_that_answers(bench):
    answering = bench.store.placement.answering
    assert answering(bench.spec) == "-80", "as far as is known"
    cut = Cut(bench, "-80")
    await bench.store.poll(bench.spec, 10)
    assert answering(bench.spec) == "80-"
    Cut(bench, "80-")
    with pytest.raises(BackendUnavailable):
        await bench.store.poll(bench.spec, 10)
    assert answering(bench.spec) == "-80" and cut.asked


async def test_the_shards_are_read_again_while_one_does_not_answer(bench):
    told = []
    bench.store.placement.on_missing = lambda: told.append(len(told))
    cut = Cut(bench, "80-")
    await bench.store.poll(bench.spec, 10)
    assert len(told) == 1
    await asyncio.to_thread(wait_until, lambda: len(told) >= 3, 20, "pings to be told of")
    cut.heal()
    await answers_again(bench)


@pytest.mark.parametrize("errno", [1054, 1290])
async def test_a_shard_that_refuses_what_others_do_is_told_of_once_and_counted(bench, errno, caplog):
    read_again, counted = [], []
    bench.store.placement.on_missing = lambda: read_again.append(len(read_again))
    bench.store.placement.on_refused = counted.append
    await bench.add(Row(1), Row(2))
    cut = Cut(bench, "80-", BackendError("refused, said the shard", errno))
    for _ in range(3):
        assert [key.id for key in (await bench.store.poll(bench.spec, 10)).keys] == [2]
    assert len(read_again) == len(counted) == cut.asked == 3 and counted[0] == bench.spec.name
    assert caplog.text.count("refused, said the shard") == 1 and "main:80- does no work on main.q" in caplog.text


@pytest.mark.parametrize("both", [False, True])
async def test_of_a_deadlock_at_one_shard_and_of_what_all_refuse_nothing_is_said(bench, both, caplog):
    Cut(bench, "80-", BackendError("refused", 1054 if both else 1213))
    if both:
        Cut(bench, "-80", BackendError("refused", 1054))
    with pytest.raises(BackendError) if both else contextlib.nullcontext():
        await bench.store.poll(bench.spec, 10)
    assert not caplog.text, "its caller tells of the latter"


async def test_work_that_is_due_at_a_lost_shard_and_can_never_be_done_keeps_it_from_nobody(bench, caplog):
    cut, done = Cut(bench, "80-"), []
    await bench.store.poll(bench.spec, 10)
    errors = [BackendError("deadlock", 1213), BackendError("Table 'main.q' doesn't exist", 1146)]

    async def release(store):
        done.append(len(done))
        if errors:
            raise errors.pop(0)

    for _ in range(2):
        bench.store._shards[at_shard("main", "80-")].before_use(release)
    cut.heal()
    await answers_again(bench)
    assert len(done) == 3 and caplog.text.count("leases run out") == 1


async def test_work_at_a_shard_that_is_closed_looks_for_it_no_more(bench):
    told = []
    Cut(bench, "80-")
    bench.store.placement.on_missing = lambda: told.append(len(told))
    shard = bench.store._shard("main", "80-")
    await shard.close()
    with pytest.raises(BackendUnavailable):
        await shard.run(lambda store: store.ping())
    assert not shard.is_lost and not told


async def test_a_shard_that_is_no_more_is_given_up(bench, monkeypatch):
    """By work that began before it was gone it is opened again; the next reading of the catalog ends that, too."""
    catalog = await bench.store.load_catalog(QueueCatalog())
    monkeypatch.setattr(store_benches, "SHARDS", SHARDS[:1])
    cut = Cut(bench, "80-")
    fewer = await bench.store.load_catalog(QueueCatalog())
    assert fewer.queues[bench.spec.name].shards == SHARDS[:1]
    await bench.store.poll(catalog.queues[bench.spec.name], 10)
    assert at_shard("main", "80-") in bench.store._shards and cut.asked
    assert await bench.store.load_catalog(fewer) is fewer
    assert at_shard("main", "80-") not in bench.store._shards


async def test_leases_in_a_lost_shard_are_neither_settled_nor_released(bench):
    await bench.add(Row(1), Row(2), Row(3))
    store, queue = bench.store, bench.spec
    claim = await store.claim(queue, [1, 2, 3], DELAYS)
    leases = {message.id: release_of(message) for message in claim.messages}
    cut = Cut(bench, "80-")
    states = await store.unsettled(queue, [1, 2, 3])
    assert states[1] is states[3] is UNKNOWN_STATE and states[2].epoch == 1
    assert lease_is_current(leases[1], states[1]), "as far as is known"
    assert await store.release(queue, [leases[1], leases[2]], counted=False) == 1
    assert await store.unsettled(queue, [77]) == {77: UNKNOWN_STATE}, "it may be in the one that is lost"
    assert (await bench.row(2)).epoch == 0 and (await bench.row(1)).epoch == 1
    cut.heal()
    await answers_again(bench)
    assert await store.release(queue, [leases[1], leases[3]], counted=False) == 2
    assert await store.unsettled(queue, [77]) == {}


async def test_where_no_shard_answers_it_fails(bench):
    for shard in SHARDS:
        Cut(bench, shard)
    for work in (
        bench.store.poll(bench.spec, 1),
        bench.store.purge(bench.spec, 1),
        bench.store.rejected(bench.spec, 1),
    ):
        with pytest.raises(BackendUnavailable):
            await work


@pytest.mark.parametrize("both", [False, True])
async def test_a_claim_of_unknown_outcome(bench, both):
    await bench.add(Row(1), Row(2))
    assert await bench.store.placement.places(bench.spec, [1, 2])

    def losing(store):
        async def claim(*arguments, **named):
            made = await real(*arguments, **named)
            raise LeaseUnknown(BackendUnavailable("lost", 2013), [release_of(message) for message in made.messages])

        real, store.claim = store.claim, claim
        return real

    lost = [bench.shards[at_shard("main", shard)] for shard in (SHARDS if both else SHARDS[1:])]
    reals = [losing(store) for store in lost]
    if both:
        with pytest.raises(LeaseUnknown) as raised:
            await bench.store.claim(bench.spec, [1, 2], DELAYS)
        assert sorted(lease.id for lease in raised.value.leases) == [1, 2]
        return
    claim = await bench.store.claim(bench.spec, [1, 2], DELAYS)
    assert [message.id for message in claim.messages] == [2], "what is known to be leased is delivered"
    assert (await bench.row(1)).epoch == 1
    for store, real in zip(lost, reals, strict=True):
        store.claim = real
    await answers_again(bench)
    assert (await bench.row(1)).epoch == 0, "the other was released before the shard was used again"
    assert [key.id for key in (await bench.store.poll(bench.spec, 10)).keys] == [1]


async def test_a_claim_of_unknown_outcome_where_another_shard_takes_longer_than_a_ping(bench):
    await bench.add(Row(1), Row(2))
    assert await bench.store.placement.places(bench.spec, [1, 2])
    slow, lossy = (bench.shards[at_shard("main", shard)] for shard in SHARDS)
    claim_slow, claim_lossy = slow.claim, lossy.claim

    async def late(*arguments, **named):
        await asyncio.to_thread(wait_until, lambda: bench.store._shards[at_shard("main", "80-")].is_lost)
        await answers_again(bench)
        return await claim_slow(*arguments, **named)

    async def unknown(*arguments, **named):
        made = await claim_lossy(*arguments, **named)
        raise LeaseUnknown(BackendUnavailable("lost", 2013), [release_of(message) for message in made.messages])

    slow.claim, lossy.claim = late, unknown
    claim = await bench.store.claim(bench.spec, [1, 2], DELAYS)
    assert [message.id for message in claim.messages] == [2] and (await bench.row(1)).epoch == 0


async def test_dead_letters_stay_in_their_shard(bench):
    other = dataclasses.replace(
        bench.spec, options=dataclasses.replace(bench.spec.options, sharding_key="payload"), shards=SHARDS
    )
    with pytest.raises(BackendError, match="another sharding key"):
        await bench.store.move_to_dead_letters(bench.spec, other, [1])


async def test_a_scan_with_a_condition(bench):
    await bench.add(*(Row(id_, time_next=id_, payload="ab"[id_ % 2]) for id_ in range(1, 30)))
    condition, position, found = Condition("payload = 'a'", (), "payload = 'a'"), None, []
    while True:
        scanned = await bench.store.scan(bench.spec, condition, Page(limit=3, span=4, after=position))
        found += [key.id for key in scanned.poll.keys]
        if (position := scanned.position) is None:
            break
    assert found == list(range(2, 30, 2))
    assert await bench.store.fitting(bench.spec, condition, [1, 2, 3, 4]) == {2, 4}

"""Receivers with keys of their own: who gets what, and what becomes of it when an owner is full, slow or gone; in
virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection

import pytest
from memory_store import NAME, Row
from test_ranged_receivers import ring
from virtual_time import in_virtual_time, pass_time, settle
from world import Receiver, World, world

from engine.delivery.sticky_receivers import RECENT_SECONDS
from engine.engine import Engine, EngineOptions
from engine.model import filter_limits
from engine.model.errors import BackendUnavailable, TooManyFilters
from engine.model.key_range import Keys, shown_key_range
from engine.model.queue import QueueName, WaitMode

IDS = range(1, 17)  # one on each sixteenth of the ring
HOUR = 3600 * 10**9


def sticky_ring(**options):
    return ring(**{"poll_interval_ns": HOUR, "ack_wait_ns": HOUR, "max_backoff_ns": HOUR, **options})


def own(receiver: Receiver, *worlds: World) -> set[int]:
    """Those of IDS that are in its part of the ring."""
    streams = [stream for one in worlds for stream in one.engine.subscriptions()]
    (stream,) = [one for one in streams if one.receiver.consumer == receiver.subscription.request.receiver.consumer]
    return {id_ for id_ in IDS if shown_key_range(stream.key_range).covers((id_ & 0xF) << 12)}


async def receivers(w: World, *names: str, keys: Keys = Keys.STICKY, **request) -> list[Receiver]:
    return [await w.receive(keys=keys, consumer=name, **request) for name in names]


@in_virtual_time
async def test_each_receiver_gets_the_messages_of_its_part():
    async with world(sticky_ring(), name="one") as w:
        a, b, c = await receivers(w, "a", "b", "c")
        await w.commit(*map(Row, IDS))
        for receiver in (a, b, c):
            assert set(receiver.ids) == own(receiver, w) and receiver.ids
        assert sorted(a.ids + b.ids + c.ids) == list(IDS)
        assert a.times == b.times == c.times == [1000.0]


@in_virtual_time
async def test_a_commit_costs_a_read_of_slots_and_claims_and_one_look_a_while_later():
    async with world(sticky_ring(), name="one") as w:
        a, b = await receivers(w, "a", "b")
        await w.commit(Row(33))
        await pass_time(10)
        w.store.calls.clear()
        await w.commit(Row(17), told=[17])
        assert w.store.calls == {"slots": 1, "claim_added": 1}
        await pass_time(1.1)
        assert w.store.calls == {"slots": 1, "claim_added": 1, "scan": 3}  # those of both confirm what the word said
        await pass_time(600)
        assert w.store.calls["scan"] == 3
        assert sorted(a.ids + b.ids) == [17, 33]


@in_virtual_time
async def test_one_more_takes_a_part_of_each_and_gives_it_back():
    async with world(sticky_ring(), name="one") as w:
        a, b = await receivers(w, "a", "b")
        before = own(a, w), own(b, w)
        (c,) = await receivers(w, "c")
        after = own(a, w), own(b, w), own(c, w)
        assert set(IDS) == after[0] | after[1] | after[2] and not after[0] & after[1] and after[2]
        await w.commit(*map(Row, IDS))
        assert set(c.ids) == after[2]
        await c.close(release=False)
        await pass_time(0.001)
        assert (own(a, w), own(b, w)) == before


@in_virtual_time
async def test_what_a_full_owner_leaves_goes_to_others_after_sticky_wait():
    async with world(sticky_ring(sticky_wait_ns=2 * 10**9), name="one") as w:
        (full,) = await receivers(w, "full", prefetch=1)
        (other,) = await receivers(w, "other")
        of_full = own(full, w)
        await w.commit(*map(Row, IDS))
        assert len(full.ids) == 1 and set(other.ids) == set(IDS) - of_full
        await pass_time(1.9)
        assert set(other.ids) == set(IDS) - of_full
        await pass_time(1.2)
        assert sorted(full.ids + other.ids) == list(IDS)
        w.ack(*full.ids, *other.ids)
        await settle()
        first = next(iter(of_full))
        await w.commit(Row(16 + first))
        assert full.ids[-1] == 16 + first  # it has room, so it is its own again


@in_virtual_time
async def test_one_that_waits_for_what_is_late_costs_no_looks_where_nothing_changes():
    async with world(sticky_ring(), name="one") as w:
        await receivers(w, "a", "b")
        await pass_time(5)
        w.store.calls.clear()
        await pass_time(3000)
        assert not w.store.calls.keys() & {"scan", "poll", "slots", "claim"}


@in_virtual_time
async def test_what_an_exclusive_owner_leaves_waits_for_it():
    async with world(sticky_ring(), name="one") as w:
        (owner,) = await receivers(w, "owner", keys=Keys.EXCLUSIVE, prefetch=1)
        (other,) = await receivers(w, "other")
        of_owner = own(owner, w)
        await w.commit(*map(Row, IDS))
        await pass_time(1000)
        assert len(owner.ids) == 1 and set(other.ids) == set(IDS) - of_owner
        await owner.close(release=False)
        await pass_time(3)
        assert set(owner.ids + other.ids) == set(IDS)


@in_virtual_time
async def test_an_exclusive_receiver_takes_nothing_of_others():
    async with world(sticky_ring(), name="one") as w:
        (full,) = await receivers(w, "full", prefetch=1)
        (exclusive,) = await receivers(w, "exclusive", keys=Keys.EXCLUSIVE)
        await w.commit(*map(Row, IDS))
        of_exclusive = own(exclusive, w)
        await pass_time(100)
        assert set(exclusive.ids) == of_exclusive and len(full.ids) == 1


@in_virtual_time
async def test_in_a_backlog_each_keeps_to_its_own_keys():
    async with world(sticky_ring(), name="one") as w:
        w.store.add(*map(Row, range(1, 1601)))
        await pass_time(60)  # all of them are late
        _slow, quick = await receivers(w, "slow", "quick", prefetch=10)
        for _ in range(20):
            w.ack(*quick.ids[-10:])
            await settle()
        mine = own(quick, w)
        wrong = [id_ for id_ in quick.ids[10:] if ((id_ - 1) % 16) + 1 not in mine]
        assert len(quick.ids) > 150 and wrong == []


@in_virtual_time
async def test_what_a_receiver_that_is_gone_had_goes_to_the_others():
    async with world(sticky_ring(), name="one") as w:
        gone, stays = await receivers(w, "gone", "stays")
        await w.commit(*map(Row, IDS))
        await gone.close()
        await pass_time(3)
        assert set(stays.ids) == set(IDS)


@in_virtual_time
async def test_one_that_polls_keeps_its_part_between_two_polls():
    async with world(sticky_ring(), name="one") as w:
        poll = {"keys": Keys.STICKY, "connection_id": 7, "consumer": "polls"}
        (stream,) = await receivers(w, "stream")
        first = await w.receive(limit=16, wait_mode=WaitMode.WAIT, wait_seconds=1.0, **poll)
        of_poll = own(first, w)
        await first.ended.wait()
        await first.subscription.close(release=False)
        assert 0 < len(of_poll) < 16
        await w.commit(*map(Row, IDS))
        assert set(stream.ids) == set(IDS) - of_poll
        fetched = await w.fetch(limit=16, **poll)
        assert set(fetched.ids) == of_poll


@in_virtual_time
@pytest.mark.parametrize("ended", [True, False])
async def test_one_that_polls_no_more_has_no_part(ended):
    async with world(sticky_ring(), name="one") as w:
        (stream,) = await receivers(w, "stream", keys=Keys.EXCLUSIVE)
        fetched = await w.fetch(limit=1, keys=Keys.EXCLUSIVE, connection_id=7, consumer="polls")
        assert own(stream, w) != set(IDS)
        if ended:
            await fetched.subscription.connection_ended()
            await settle()
        else:
            await pass_time(RECENT_SECONDS + 1)
        assert own(stream, w) == set(IDS)


@in_virtual_time
async def test_one_with_another_result_open_keeps_its_part():
    async with world(sticky_ring(), name="one") as w:
        (stream,) = await receivers(w, "stream", keys=Keys.EXCLUSIVE)
        both = {"keys": Keys.EXCLUSIVE, "connection_id": 7}
        open_still = await w.receive(consumer="first", **both)
        failed = await w.receive(consumer="second", limit=1, **both)
        await failed.close(release=True)
        await settle()
        assert own(stream, w) | own(open_still, w) == set(IDS) and own(open_still, w)
        await open_still.close()
        await settle()
        assert own(stream, w) == set(IDS)


@in_virtual_time
async def test_one_with_a_limit_and_no_time_polls():
    async with world(sticky_ring(), name="one") as w:
        (stream,) = await receivers(w, "stream")
        poll = {"limit": 1, "keys": Keys.STICKY, "connection_id": 7, "consumer": "polls"}
        first = await w.receive(**poll)
        of_poll = own(first, w)
        await w.commit(*map(Row, of_poll))
        await first.ended.wait()
        await first.subscription.close(release=False)
        assert own(stream, w) == set(IDS) - of_poll


@in_virtual_time
async def test_one_that_holds_messages_keeps_its_part():
    async with world(sticky_ring(), name="one") as w:
        (stream,) = await receivers(w, "stream", keys=Keys.EXCLUSIVE)
        w.store.add(*map(Row, IDS))
        poll = {"keys": Keys.EXCLUSIVE, "connection_id": 7, "consumer": "polls", "by_connection": True}
        fetched = await w.fetch(limit=1, **poll)
        assert len(fetched.ids) == 1
        await pass_time(3 * RECENT_SECONDS)
        assert own(stream, w) != set(IDS)
        w.ack(*fetched.ids)
        await pass_time(2 * RECENT_SECONDS)
        assert own(stream, w) == set(IDS)


@in_virtual_time
async def test_a_wait_that_is_given_another_part_ends_when_it_would_have():
    async with world(sticky_ring(), name="one") as w:
        waiting = await w.receive(
            limit=16, wait_mode=WaitMode.WAIT, wait_seconds=10.0, keys=Keys.STICKY, connection_id=7, consumer="waits"
        )
        await pass_time(6)
        await receivers(w, "a")
        await pass_time(3.9)
        assert not waiting.ended.is_set()
        await pass_time(0.3)
        assert waiting.ended.is_set() and waiting.error is None


@in_virtual_time
async def test_receivers_without_keys_of_their_own_get_everything_beside_them():
    async with world(sticky_ring(), name="one") as w:
        (sticky,) = await receivers(w, "sticky")
        plain = await w.receive()
        await w.commit(*map(Row, IDS))
        assert sorted(sticky.ids + plain.ids) == list(IDS) and plain.ids


@in_virtual_time
async def test_a_database_that_fails_for_a_while_loses_nothing():
    async with world(sticky_ring(), name="one") as w:
        a, b = await receivers(w, "a", "b", prefetch=3)

        async def fail():
            w.store.fail_after = BackendUnavailable("gone")

        w.store.during |= {"slots": fail, "scan": fail}
        await w.commit(*map(Row, IDS), told=[*IDS])
        for _ in range(40):
            await pass_time(1)
            w.ack(*a.ids, *b.ids)
        assert sorted({*a.ids, *b.ids}) == list(IDS)


@in_virtual_time
async def test_they_are_bounded_as_key_ranges_are(monkeypatch):
    monkeypatch.setattr(filter_limits, "RANGES_MAX", 3)
    monkeypatch.setattr(filter_limits, "RANGES_PER_ACCOUNT_MAX", 2)
    async with world(sticky_ring(), name="one") as w:
        await receivers(w, "a", "b", user="x")
        with pytest.raises(TooManyFilters):
            await receivers(w, "c", user="x")
        await receivers(w, "d", user="y")
        with pytest.raises(TooManyFilters):
            await receivers(w, "e", user="y")


class Link:
    """Carries the members of one engine to another."""

    leads = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.to: Engine | None = None
        self.cut = False

    def committed(self, report) -> None:
        if self.to is not None and not self.cut:
            self.to.on_remote_commit(report)

    def members_changed(self, queue, members) -> None:
        if self.to is not None and not self.cut:
            self.to.queues.members.reported(self.name, {queue: members}, all_queues=False)

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        pass


class Side(World):
    """One of two engines on one store."""

    def __init__(self, name: str, beside: World | None = None) -> None:
        super().__init__(sticky_ring())
        if beside is not None:
            self.clock, self.store = beside.clock, beside.store
        self.link = Link(name)
        options = EngineOptions(purges=beside is None, name=name)
        self.engine = Engine(self.store, clock=self.clock, jitter=lambda: 1.0, neighbours=self.link, options=options)


@contextlib.asynccontextmanager
async def two() -> AsyncIterator[tuple[Side, Side]]:
    one = Side("one")
    other = Side("other", beside=one)
    one.link.to, other.link.to = other.engine, one.engine
    sides = one, other
    for side in sides:
        await side.engine.open()
    try:
        yield sides
    finally:
        for side in sides:
            for receiver in side.receivers:
                await receiver.close()
        for side in sides:
            await side.engine.close()


@in_virtual_time
async def test_two_proxies_divide_the_ring_between_them():
    async with two() as (one, other):
        (a,) = await receivers(one, "a")
        b, c = await receivers(other, "b", "c")
        await settle()
        parts = [own(receiver, one, other) for receiver in (a, b, c)]
        assert sorted(id_ for part in parts for id_ in part) == list(IDS)
        await one.commit(*map(Row, IDS))
        await settle(500)
        assert [set(receiver.ids) for receiver in (a, b, c)] == parts
        await c.close(release=False)
        await settle()
        assert own(a, one, other) | own(b, one, other) == set(IDS)


@in_virtual_time
async def test_without_a_link_they_compete_and_lose_nothing():
    async with two() as (one, other):
        one.link.cut = other.link.cut = True
        (a,) = await receivers(one, "a")
        (b,) = await receivers(other, "b")
        assert own(a, one) == own(b, other) == set(IDS)
        await one.commit(*map(Row, IDS))
        await pass_time(1)
        assert sorted(a.ids + b.ids) == list(IDS)


@in_virtual_time
async def test_what_belongs_to_a_proxy_that_is_silent_is_late_and_when_its_link_ends_it_has_nothing():
    async with two() as (one, other):
        (a,) = await receivers(one, "a")
        (b,) = await receivers(other, "b", reading=False)
        await settle()
        of_b = own(b, one, other)
        other.link.cut = one.link.cut = True
        await one.commit(*map(Row, IDS))
        assert set(a.ids) == set(IDS) - of_b
        await pass_time(2)
        assert set(a.ids) == set(IDS)
        one.engine.queues.members.gone("other")
        await settle()
        assert own(a, one) == set(IDS)


@in_virtual_time
async def test_a_neighbour_that_reports_all_its_queues_has_no_others():
    async with two() as (one, other):
        (a,) = await receivers(one, "a")
        await receivers(other, "b")
        await settle()
        assert own(a, one) != set(IDS)
        one.engine.queues.members.reported("other", {}, all_queues=True)
        await settle()
        assert own(a, one) == set(IDS)
        one.engine.queues.members.reported("other", {}, all_queues=True)
        one.engine.queues.members.gone("nobody")
        assert NAME in one.engine.queues.members.here

"""Two engines on one store: what one is told the other hears, once, and what is lost is made good."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import World

from engine.engine import Engine, EngineOptions
from engine.model.assignment import Member
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, QueueNotFound
from engine.model.queue import QueueName
from engine.model.states import lease_end


class Wire:
    """Carries words to one engine; remembers them, or loses them."""

    def __init__(self) -> None:
        self.to: Engine | None = None
        self.said: list[CommitReport] = []
        self.refreshes = 0
        self.named: Collection[QueueName] | None = None
        self.cut = False
        self.leads = True

    def committed(self, report: CommitReport) -> None:
        self.said.append(report)
        if self.to is not None and not self.cut:
            self.to.on_remote_commit(report)

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        if self.to is not None and not self.cut:
            self.to.queues.members.reported("the other", {queue: members}, all_queues=False)

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        self.refreshes, self.named = self.refreshes + 1, named
        if self.to is not None and not self.cut:
            await self.to.refresh_catalog(named)


class Neighbour(World):
    """A second world on the first one's store."""

    def __init__(self, wire: Wire, beside: World | None = None, **options: bool) -> None:
        super().__init__(make_spec(poll_interval_ns=3600 * 10**9, purge_after_ns=10**9))
        if beside is not None:
            self.clock, self.store = beside.clock, beside.store
        self.engine = Engine(
            self.store, clock=self.clock, jitter=lambda: 1.0, neighbours=wire, options=EngineOptions(**options)
        )


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[tuple[Neighbour, Neighbour, Wire, Wire]]:
    to_other, to_one = Wire(), Wire()
    one = Neighbour(to_other)
    other = Neighbour(to_one, beside=one, purges=False)
    to_other.to, to_one.to = other.engine, one.engine
    await one.engine.open()
    await other.engine.open()
    try:
        yield one, other, to_other, to_one
    finally:
        for receiver in (*one.receivers, *other.receivers):
            await receiver.close()
        await one.engine.close()
        await other.engine.close()


@in_virtual_time
async def test_a_commit_here_is_delivered_there_at_once():
    async with pair() as (one, other, _, to_one):
        receiver = await other.receive()
        await one.commit(Row(1))
        await settle(500)
        assert receiver.ids == [1]
        assert receiver.times == [1000.0]
        assert to_one.said == []  # what is heard is not told again


@in_virtual_time
async def test_an_ack_here_makes_room_there():
    async with pair() as (one, other, _, _):
        receiver = await other.receive(prefetch=1)
        await one.commit(Row(1), Row(2))
        await settle(500)
        assert receiver.ids == [1]
        one.ack(1)
        await settle(500)
        assert receiver.ids == [1, 2]
        assert receiver.times == [1000.0, 1000.0]


@in_virtual_time
async def test_a_settlement_by_where_here_is_asked_of_the_table_there():
    async with pair() as (one, other, _, _):
        receiver = await other.receive(prefetch=1)
        await one.commit(Row(1), Row(2))
        await settle(500)
        one.store.ack(1)
        one.engine.committed(CommitReport(uncertain=frozenset((NAME,))))
        await settle(500)
        assert receiver.ids == [1, 2]


@in_virtual_time
async def test_ids_heard_that_are_not_known_here_do_not_ask_the_table():
    """They are another engine's messages; with text ids of its own this engine would have to ask for each."""
    async with pair() as (one, other, _, _):
        await other.receive(prefetch=1)
        await one.commit(Row("mine"), Row("more"))
        await settle(500)
        before = other.counters()["rechecks"]
        for number in range(50):
            other.engine.on_remote_commit(CommitReport(settled={NAME: (f"theirs{number}",)}))
        await settle(500)
        assert other.counters()["rechecks"] == before
        other.engine.committed(CommitReport(settled={NAME: ("unknown",)}))
        await settle(500)
        assert other.counters()["rechecks"] > before


@in_virtual_time
async def test_what_a_lost_receiver_had_here_goes_to_one_there_at_once():
    async with pair() as (one, other, _, _):
        lost = await one.receive()
        await one.commit(Row(1))
        assert lost.ids == [1]
        heir = await other.receive()
        assert heir.ids == []
        await lost.close()
        await settle(500)
        assert heir.ids == [1]
        assert heir.times == [1000.0]


@in_virtual_time
async def test_what_was_out_when_an_engine_ends_stays_until_its_receiver_settles_it():
    async with pair() as (one, other, _, _):
        ended = await one.receive()
        await one.commit(Row(1))
        heir = await other.receive()
        assert (ended.ids, heir.ids) == ([1], [])
        await one.engine.close()
        await settle(500)
        assert heir.ids == []
        other.ack(1)
        assert heir.ids == []


@in_virtual_time
async def test_words_that_were_lost_are_made_good_by_one_look():
    async with pair() as (one, other, to_other, _):
        receiver = await other.receive(prefetch=1)
        await one.commit(Row(1))
        await settle(500)
        to_other.cut = True
        one.ack(1)
        await one.commit(Row(2))
        await settle(500)
        assert receiver.ids == [1]
        other.engine.on_remote_commits_lost()
        await settle(500)
        assert receiver.ids == [1, 2]


@in_virtual_time
async def test_a_queue_made_here_is_served_there_before_the_maker_is_answered():
    async with pair() as (one, other, to_other, to_one):
        fresh = make_spec(name=QueueName("db", "fresh"))
        one.store.serve(make_spec(), fresh)
        await one.engine.catalog_changed()
        assert fresh.name in one.engine.catalog.queues
        assert fresh.name in other.engine.catalog.queues
        receiver = await other.receive(fresh.name)
        one.store.serve(make_spec())
        await one.engine.catalog_changed((fresh.name,))
        await receiver.ended.wait()
        assert isinstance(receiver.error, QueueNotFound)
        assert (to_other.refreshes, to_other.named, to_one.refreshes) == (2, (fresh.name,), 0)


@in_virtual_time
async def test_what_is_changed_around_both_is_found_by_the_leader_who_tells_the_other(monkeypatch):
    async with pair() as (one, other, to_other, to_one):
        reads = {one.engine: 0, other.engine: 0}
        for engine in reads:

            async def counted(named=None, engine=engine, refresh=engine.refresh_catalog) -> None:
                reads[engine] += 1
                await refresh(named)

            monkeypatch.setattr(engine, "refresh_catalog", counted)
        await pass_time(3600)  # 120 periods
        assert reads[one.engine] > 100 and reads[other.engine] < 15, reads.values()
        assert (to_other.refreshes, to_one.refreshes) == (0, 0)
        fresh = make_spec(name=QueueName("db", "fresh"))
        one.store.serve(make_spec(), fresh)
        await pass_time(31)
        assert fresh.name in one.engine.catalog.queues
        assert fresh.name in other.engine.catalog.queues
        assert (to_other.refreshes, to_one.refreshes) == (1, 0)


@in_virtual_time
async def test_who_is_not_told_finds_it_nevertheless():
    async with pair() as (one, other, to_other, _):
        to_other.cut = True
        await pass_time(3600)
        one.store.serve(make_spec(), make_spec(name=QueueName("db", "fresh")))
        await pass_time(16 * 31)
        assert other.engine.catalog == one.engine.catalog


@in_virtual_time
async def test_a_catalog_that_cannot_be_read_here_is_told_all_the_same(monkeypatch):
    async with pair() as (one, _, to_other, _):

        async def refuse(previous, named=None):
            raise BackendError("no")

        monkeypatch.setattr(one.store, "load_catalog", refuse)
        to_other.cut = True
        with pytest.raises(BackendError):
            await one.engine.catalog_changed()
        assert to_other.refreshes == 1


@in_virtual_time
async def test_only_one_of_them_purges():
    async with pair() as (one, other, _, _):
        await one.commit(Row(1))
        one.ack(1)
        await pass_time(2 * 3600)
        assert one.counters()["purged"] == 1
        assert other.counters()["purged"] == 0
        assert other.engine.queues.by_name[NAME].purger is None


@in_virtual_time
async def test_who_does_not_lead_leaves_purging_to_the_one_who_does():
    async with pair() as (one, _, to_other, _):
        to_other.leads = False
        one.store.add(Row(1))
        one.store.ack(1)
        await pass_time(2 * 3600)
        assert one.counters()["purged"] == 0
        to_other.leads = True
        await pass_time(2 * 3600)
        assert one.counters()["purged"] == 1


@in_virtual_time
async def test_a_lease_that_ends_sooner_lets_another_have_the_message():
    """Neither engine has its lease: that of a poll is nobody's."""
    async with pair() as (one, other, _, _):
        await one.commit(Row(1))
        poll = await one.fetch(limit=1)
        heir = await other.receive()
        await settle(500)
        assert (poll.ids, heir.ids) == ([1], [])
        one.store.tables[NAME][1].time_next = lease_end(one.clock.now_ns() + 10**9)
        one.engine.committed(CommitReport(uncertain=frozenset((NAME,)), renewed={NAME: 10**9}))
        await settle(500)
        await pass_time(1.5)
        assert heir.ids == [1]

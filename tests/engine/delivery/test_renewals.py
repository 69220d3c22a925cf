"""Renewed leases: when the table is asked how they stand. In virtual time over the in-memory store."""

from __future__ import annotations

from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.model.commit_report import CommitReport
from engine.model.errors import BackendUnavailable
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.states import lease_end


@in_virtual_time
async def test_renewals_are_asked_about_only_when_a_lease_runs_out():
    async with world() as w:
        receiver = await w.receive()
        await w.commit(Row(1), Row(2))
        w.store.calls.clear()
        for _ in range(5):  # a heartbeat every ten seconds; leases last a minute
            await pass_time(10.0)
            for id_ in (1, 2):
                w.store.tables[NAME][id_].time_next = lease_end(w.clock.now_ns() + 60 * SECOND)
            w.manager.commits.changed([1, 2], renewed=True)
            await settle()
        assert "unsettled" not in w.store.calls
        await pass_time(11.0)
        assert w.store.calls["unsettled"] == 1 and receiver.subscription.unacked == 2
        assert receiver.ids == [1, 2] and w.counters()["expired"] == 0
        await pass_time(60.0)
        assert receiver.ids == [1, 2, 1, 2], "not renewed again: the leases have run out"


@in_virtual_time
async def test_a_renewal_that_cannot_be_asked_about_ends_no_lease():
    async with world() as w:
        receiver = await w.receive()
        await w.commit(Row(1))
        w.store.tables[NAME][1].time_next = lease_end(w.clock.now_ns() + 180 * SECOND)
        w.manager.commits.changed([1], renewed=True)
        await pass_time(50.0)
        w.store.down = BackendUnavailable("gone")
        await pass_time(30.0)
        w.store.down = None
        await pass_time(30.0)
        assert receiver.subscription.unacked == 1 and w.counters()["expired"] == 0
        await receiver.subscription.close(release=True)
        await pass_time(5.0)
        assert (w.store.tables[NAME][1].time_next or 0) <= w.clock.now_ns(), "its renewed lease is given back"


@in_virtual_time
async def test_what_was_renewed_and_given_up_is_asked_about_at_once():
    async with world() as w:
        receiver, other = await w.receive(), None
        await w.commit(Row(1))
        w.manager.commits.changed([1], renewed=True)
        other = await w.receive()
        w.store.tables[NAME][1].time_next = 0
        w.manager.commits.changed([1], renewed=False)
        w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        await settle()
        assert sorted(receiver.ids + other.ids) == [1, 1]


@in_virtual_time
async def test_a_renewal_whose_end_is_not_known_is_asked_about_at_once():
    async with world() as w:
        receiver = await w.receive()
        await w.commit(Row(1))
        w.store.tables[NAME][1].time_next = lease_end(w.clock.now_ns() + SECOND)
        w.store.calls.clear()
        w.engine.on_remote_commit(CommitReport(changed={NAME: (1,)}))
        await settle()
        assert w.store.calls == {"unsettled": 1}
        await pass_time(2.0)
        assert receiver.ids == [1, 1], "it ended long before it would have"


@in_virtual_time
async def test_renewals_of_what_is_settled_are_forgotten():
    async with world(make_spec()) as w:
        await w.receive()
        for id_ in range(1, 1500):
            await w.commit(Row(id_))
            w.manager.commits.changed([id_], renewed=True)
            w.ack(id_)
        assert len(w.manager.leases.rechecker._requested) <= 1001

"""What was under way when the database went: leases of which nobody knows, and leases of receivers that are gone."""

from __future__ import annotations

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle
from world import World, world

from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.store.base import UNKNOWN_STATE

GONE = BackendUnavailable("gone")
READ_ONLY = BackendError("The server is running with --read-only", 1290)
HOUR = 3600 * SECOND
SPEC = make_spec(ack_wait_ns=3600 * SECOND, poll_interval_ns=3600 * SECOND)


@in_virtual_time
async def test_a_claim_that_was_never_made_is_made_again_and_nothing_is_said_of_it(caplog):
    async with world(SPEC) as w:
        receiver = await w.receive()
        w.store.down = GONE
        await w.commit(Row(1))
        w.store.down = None
        await pass_time(5.1)
        assert (receiver.ids, receiver.epochs) == ([1], [1])
        await pass_time(30)
        assert "could not give back" not in caplog.text
        assert len(w.manager.leases.releases) == 0


@in_virtual_time
async def test_an_ack_of_a_message_whose_lease_nobody_heard_of_holds():
    async with world(SPEC) as w:
        receiver = await w.receive()

        async def arm():
            async def commit_arrived_but_its_answer_did_not():
                raise GONE

            w.store.during["claim"] = commit_arrived_but_its_answer_did_not

        w.store.during["poll"] = arm
        await w.commit(Row(1))
        assert w.store.tables[NAME][1].epoch == 1
        w.ack(1)
        await pass_time(60)
        assert receiver.ids == [] and len(w.manager.leases.releases) == 0


async def lost(w: World) -> None:
    raise GONE


async def cancelled(w: World) -> None:
    assert w.manager._task is not None
    w.manager._task.cancel()
    await settle()


@pytest.mark.parametrize("ends", [lost, cancelled])
@pytest.mark.parametrize(
    ("name", "ack_waits"), [("claim", (HOUR,)), ("claim", (HOUR, HOUR // 2)), ("claim_added", (HOUR,))]
)
@in_virtual_time
async def test_leases_that_cannot_be_looked_at_are_given_back(name, ack_waits, ends):
    """Another client settles messages by WHERE while these are claimed."""
    async with world(SPEC) as w:
        receivers = [await w.receive(ack_wait_ns=ack_wait_ns) for ack_wait_ns in ack_waits]
        await w.commit(Row(1))
        w.ack(1)

        async def settled_by_where() -> None:
            w.engine.committed(CommitReport(uncertain=frozenset((NAME,))))

        w.store.during[name] = settled_by_where
        w.store.during["unsettled"] = lambda: ends(w)
        await w.commit(Row(2), told=(2,) if name == "claim_added" else ())
        await pass_time(20)
        assert sorted(id_ for one in receivers for id_ in one.ids) == [1, 2]
        assert {epoch for one in receivers for epoch in one.epochs} == {1}


@in_virtual_time
async def test_leases_of_a_receiver_that_left_are_given_back_though_the_next_claim_fails():
    async with world(SPEC) as w:
        first = await w.receive(ack_wait_ns=HOUR, prefetch=1)
        second = await w.receive(ack_wait_ns=HOUR // 2)
        w.store.fill(range(1, 3))

        async def gone() -> None:
            await first.close()
            w.store.down = LockWaitTimeout()

        w.store.during["claim"] = gone
        w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        await settle()
        assert second.ids == [] and w.store.tables[NAME][1].epoch == 1
        w.store.down = None
        await pass_time(10)
        assert sorted(second.ids) == [1, 2] and second.epochs == [1, 1]


class DatabaseClock(VirtualClock):
    """The clock of a database on another machine, so much ahead of ours."""

    def __init__(self, ahead_ns: int) -> None:
        self._ahead_ns = ahead_ns

    def now_ns(self) -> int:
        return super().now_ns() + self._ahead_ns


@pytest.mark.parametrize("ahead_ns", [-2 * HOUR, 0, 2 * HOUR])
@pytest.mark.parametrize("trouble", [GONE, READ_ONLY], ids=["gone", "read-only"])
def test_what_a_lost_receiver_held_is_given_back_however_long_the_database_was_away(trouble, ahead_ns):
    @in_virtual_time
    async def run():
        async with world(SPEC) as w:
            w.store.clock = DatabaseClock(ahead_ns)
            w.store.fill(range(1, 4))
            lost = await w.receive()
            heir = await w.receive()
            assert lost.ids == [1, 2, 3]
            w.store.down = trouble
            await lost.close()
            await pass_time(600)
            assert heir.ids == []
            w.store.down = None
            await pass_time(5.1)
            assert (heir.ids, heir.epochs) == ([1, 2, 3], [2, 2, 2])

    run()


@pytest.mark.parametrize("ahead_ns", [-2 * HOUR, 0, 2 * HOUR])
def test_leases_that_ran_out_meanwhile_are_forgotten(ahead_ns):
    @in_virtual_time
    async def run():
        async with world(make_spec(ack_wait_ns=10 * SECOND, max_backoff_ns=10 * SECOND)) as w:
            w.store.clock = DatabaseClock(ahead_ns)
            w.store.fill(range(1, 4))
            lost = await w.receive()
            assert lost.ids == [1, 2, 3]
            w.store.down = GONE
            await lost.close()
            await pass_time(8)
            assert len(w.manager.leases.releases) == 3
            await pass_time(52)
            assert len(w.manager.leases.releases) == 0

    run()


@pytest.mark.parametrize("runs_out", [False, True])
def test_what_a_lost_receiver_held_in_a_lost_shard_is_given_back_when_it_answers(runs_out, caplog):
    @in_virtual_time
    async def run():
        async with world(SPEC) as w:
            w.store.fill(range(1, 4))
            lost, heir = await w.receive(), await w.receive()
            assert lost.ids == [1, 2, 3]
            known = w.store.unsettled

            async def unsettled(queue, ids):
                return {**await known(queue, ids), **dict.fromkeys(w.store.locked, UNKNOWN_STATE)}

            w.store.locked, w.store.unsettled = {2, 3}, unsettled
            await lost.close()
            await pass_time(8000 if runs_out else 600)
            assert set(heir.ids) == {1} and bool(w.manager.leases.releases) != runs_out
            assert ("give back 2 leases, they run out: a shard does not answer" in caplog.text) == runs_out
            w.store.locked = set()
            await pass_time(5.1)
            assert runs_out or (heir.ids, heir.epochs) == ([1, 2, 3], [2, 2, 2])

    run()


@in_virtual_time
async def test_a_database_that_cannot_be_reached_is_told_of_once_and_its_return_once(caplog):
    caplog.set_level("INFO")
    async with world(make_spec(poll_interval_ns=5 * SECOND)) as w:
        await w.receive()
        caplog.clear()
        for row in (1, 2):
            w.store.down = GONE
            await w.commit(Row(row))
            await pass_time(60)
            w.store.down = None
            await pass_time(20)
        told = [(record.levelname, record.getMessage()) for record in caplog.records]
        assert [level for level, _ in told] == ["WARNING", "INFO"] * 2, told
        assert told[0][1] == "database trouble, trying again: gone"
        assert told[1][1].startswith("the database works again after 6")


@in_virtual_time
async def test_a_status_has_the_number_of_the_error_that_deliveries_fail_with():
    async with world() as w:
        await w.receive()
        w.store.down = BackendError("Truncated incorrect INTEGER value: 'SECRET'", 1146)
        await w.commit(Row(1))
        assert w.manager.status().failing == "error 1146, which the log explains"
        w.store.down = None
        await pass_time(10)
        assert not w.manager.status().failing

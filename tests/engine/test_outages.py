"""What was under way when the database went: leases of which nobody knows, and leases of receivers that are gone."""

from __future__ import annotations

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time
from world import world

from engine.clock import NS_PER_SECOND as SECOND
from engine.errors import BackendError, BackendUnavailable

GONE = BackendUnavailable("gone")
READ_ONLY = BackendError("The server is running with --read-only", 1290)
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
        assert len(w.manager._give_backs) == 0


@in_virtual_time
async def test_an_ack_of_a_message_whose_lease_nobody_heard_of_holds():
    async with world(SPEC) as w:
        receiver = await w.receive()

        async def arm():
            async def commit_arrived_but_its_answer_did_not():
                raise GONE

            w.store.during["claim"] = commit_arrived_but_its_answer_did_not

        w.store.during["look"] = arm
        await w.commit(Row(1))
        assert w.store.tables[NAME][1].epoch == 1
        w.ack(1)
        await pass_time(60)
        assert receiver.ids == [] and len(w.manager._give_backs) == 0


@pytest.mark.parametrize("trouble", [GONE, READ_ONLY], ids=["gone", "read-only"])
def test_what_a_lost_receiver_held_is_given_back_however_long_the_database_was_away(trouble):
    @in_virtual_time
    async def run():
        async with world(SPEC) as w:
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


@in_virtual_time
async def test_leases_that_ran_out_meanwhile_are_forgotten():
    async with world(make_spec(ack_wait_ns=10 * SECOND, max_backoff_ns=10 * SECOND)) as w:
        w.store.fill(range(1, 4))
        lost = await w.receive()
        w.store.down = GONE
        await lost.close()
        await pass_time(60)
        assert len(w.manager._give_backs) == 0

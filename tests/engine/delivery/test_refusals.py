"""Messages that the database refuses to lease: they are set aside, one by one, and all others are delivered."""

from __future__ import annotations

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.delivery.refusals import FIRST_PAUSE_SECONDS, IN_A_ROW_MAX, PROBE_SECONDS, REFUSED_MAX
from engine.model.errors import BackendError, is_refusal
from engine.model.queue import Condition

SPEC = make_spec(ack_wait_ns=10**15, prefetch=10_000, batch_size=1000)


def refused(w):
    return [id_ for id_, _ in w.manager.status().refused]


@pytest.mark.parametrize("bad", [(1,), (1, 2, 3), (40, 41, 117), (200,)])
@pytest.mark.parametrize("condition", [None, Condition("payload == 'x'")])
@in_virtual_time
async def test_the_others_are_delivered_at_once(bad, condition, caplog):
    async with world(SPEC) as w:
        w.store.add(*(Row(id_, payload="x") for id_ in range(1, 201)))
        w.store.refused.update(bad)
        receiver = await w.receive(condition=condition)
        await pass_time(0.5)
        assert sorted(receiver.ids) == [id_ for id_ in range(1, 201) if id_ not in bad]
        assert refused(w) == [str(id_) for id_ in bad]
        text = w.manager.status().refused[0][1]
        assert text == "Truncated: '...'"
        assert [r.levelname for r in caplog.records] == ["ERROR"] * len(bad)
        assert f"message {bad[0]} cannot be leased and is set aside" in caplog.text


@in_virtual_time
async def test_commits_do_not_end_its_pause_and_it_is_delivered_once_it_can_be():
    async with world(SPEC) as w:
        w.store.add(Row(1))
        w.store.refused.add(1)
        receiver = await w.receive()
        claims = w.store.calls["claim"]
        for id_ in range(2, 12):
            await w.commit(Row(id_))
        assert receiver.ids == list(range(2, 12))
        assert w.store.calls["claim"] - claims <= 10, "it is tried at each commit"
        await pass_time(FIRST_PAUSE_SECONDS + 1)
        assert refused(w) == ["1"], "it is refused again"
        w.store.refused.clear()
        await pass_time(2 * FIRST_PAUSE_SECONDS + 1)
        assert receiver.ids[-1] == 1 and refused(w) == []


@in_virtual_time
async def test_clients_that_poll_do_not_look_for_it_each_time():
    async with world(SPEC) as w:
        w.store.add(*(Row(id_) for id_ in range(1, 21)))
        w.store.refused.add(1)
        assert (await w.fetch(limit=100)).ids == list(range(2, 21))
        await w.commit(Row(30))
        claims = w.store.calls["claim"]
        assert (await w.fetch(limit=100)).ids == [30]
        assert w.store.calls["claim"] - claims <= 1


@in_virtual_time
async def test_an_acked_one_is_no_problem_any_more_and_a_changed_queue_is_tried_anew():
    async with world(SPEC) as w:
        w.store.add(Row(1), Row(2))
        w.store.refused.update((1, 2))
        await w.receive()
        await settle()
        assert refused(w) == ["1", "2"]
        w.ack(1)
        assert refused(w) == ["2"]
        w.manager.reconfigure(SPEC)
        assert refused(w) == []


@pytest.mark.parametrize("condition", [None, Condition("payload == 'x'")])
@in_virtual_time
async def test_a_statement_about_the_queue_tries_it_at_once(condition):
    """ALTER QUEUE, although it changes nothing that the catalog has."""
    async with world(SPEC) as w:
        w.store.add(Row(1, payload="x"), Row(2, payload="x"))
        w.store.refused.add(1)
        receiver = await w.receive(condition=condition)
        await pass_time(2000)
        assert receiver.ids == [2]
        w.store.refused.clear()
        await w.engine.refresh_catalog(("another",))
        await pass_time(1.0)
        assert receiver.ids == [2]
        await w.engine.catalog_changed((NAME,))
        await pass_time(1.0)
        assert receiver.ids == [2, 1]


@pytest.mark.parametrize("condition", [None, Condition("payload == 'x'")])
@pytest.mark.parametrize("minutes", [0.1, 20])
@in_virtual_time
async def test_after_trouble_that_ends_all_are_delivered_soon(minutes, condition):
    async with world(SPEC) as w:
        w.store.add(*(Row(id_, payload="x") for id_ in range(1, 21)))
        w.store.refused.update(range(1, 21))
        receiver = await w.receive(condition=condition)
        other = await w.receive()
        await pass_time(60 * minutes)
        w.store.refused.clear()
        await pass_time(PROBE_SECONDS + 1)
        assert sorted(receiver.ids + other.ids) == list(range(1, 21)) and refused(w) == []


@in_virtual_time
async def test_many_that_stay_refused_are_tried_again_once_after_a_lease_and_then_seldom():
    async with world(SPEC) as w:
        w.store.fill(range(1, 21))
        w.store.refused.update(range(1, 21))
        receiver = await w.receive()
        await settle()
        for id_ in range(21, 41):
            await w.commit(Row(id_))
        await pass_time(1.0)
        assert receiver.ids == list(range(21, 41))
        claims = w.store.calls["claim"]
        await pass_time(FIRST_PAUSE_SECONDS - 5)
        assert w.store.calls["claim"] - claims < FIRST_PAUSE_SECONDS / PROBE_SECONDS + 5
        assert len(w.manager.leases.refusals.until) == 20


@in_virtual_time
async def test_trouble_ends_in_the_log_once_a_message_is_leased(caplog):
    caplog.set_level("INFO")
    async with world(SPEC) as w:
        w.store.fill(range(1, 301))
        w.store.refused.update(range(1, 301))
        receiver = await w.receive()
        await pass_time(1800.0)
        assert w.manager.database_failing and "works again" not in caplog.text
        w.store.refused.clear()
        await pass_time(60.0)
        assert len(receiver.ids) == 300
        assert caplog.text.count("works again") == 1 and not w.manager.database_failing


@pytest.mark.parametrize("bad, condition", [(300, None), (300, Condition("payload == 'x'")), (1100, None)])
@in_virtual_time
async def test_those_behind_many_in_a_row_are_delivered_within_seconds(bad, condition):
    async with world(SPEC) as w:
        w.store.add(*(Row(id_, payload="x", time_next=id_) for id_ in range(1, bad + 51)))
        w.store.refused.update(range(1, bad + 1))
        receiver = await w.receive(condition=condition)
        await pass_time(30.0)
        assert sorted(receiver.ids) == list(range(bad + 1, bad + 51))
        for id_ in range(bad + 51, bad + 61):
            await w.commit(Row(id_, payload="x"))
            await pass_time(10.0)
            assert receiver.ids[-1] == id_
        claims = w.store.calls["claim"]
        await pass_time(60.0)
        assert w.store.calls["claim"] - claims < 60 * 20


@in_virtual_time
async def test_more_than_are_stored_stop_no_other():
    async with world(SPEC) as w:
        receiver = await w.receive()
        for start in range(1, REFUSED_MAX + 101, 50):
            bad = range(start, start + 50)
            w.store.refused.update(bad)
            w.store.fill(bad)
            await w.commit(Row(10_000 + start))
            await pass_time(2.0)
        good = REFUSED_MAX // 50 + 2
        assert len(receiver.ids) == good
        assert len(w.manager.leases.refusals.until) == REFUSED_MAX + 100
        for id_ in range(20_000, 20_020):
            await w.commit(Row(id_))
            await pass_time(5.0)
            assert receiver.ids[-1] == id_
        w.store.refused.clear()
        await pass_time(2 * FIRST_PAUSE_SECONDS + 600)
        assert len(receiver.ids) == good + 20 + REFUSED_MAX + 100


@in_virtual_time
async def test_a_problem_says_whether_deliveries_pause():
    async with world(SPEC) as w:
        w.store.fill(range(1, 301))
        w.store.refused.update(range(1, 11))
        receiver = await w.receive()
        await pass_time(0.5)
        assert len(receiver.ids) == 290 and w.manager.status().refused and not w.manager.status().refuses_all
    async with world(SPEC) as w:
        w.store.fill(range(1, 301))
        w.store.refused.update(range(1, 301))
        await w.receive()
        await pass_time(1.0)
        assert w.manager.status().refuses_all


@pytest.mark.parametrize("bad", [{7}, {1, 2, 50}, set(range(3, 61, 4)), set(range(1, 13)), set(range(1, 61))])
@in_virtual_time
async def test_the_others_are_released_and_the_queue_goes_on(bad):
    async with world(SPEC) as w:
        w.store.fill(range(1, 61))
        gone = await w.receive()
        assert len(gone.ids) == 60
        w.store.refused.update(bad)
        heir = await w.receive()
        await gone.close()
        await pass_time(1.0)
        assert sorted(heir.ids) == [id_ for id_ in range(1, 61) if id_ not in bad]
        assert not w.manager.database_failing and w.store.calls["release"] < 150
        await w.commit(Row(100))
        assert heir.ids[-1] == 100
        await pass_time(30.0)
        assert len(w.manager.leases.releases) == 0, "the leases of the others run out"


LOCK_WAIT = BackendError("Lock wait timeout exceeded; try restarting transaction", 1205)
LOCK_WAIT.of_rows = True  # as the store says of a change of rows that it has locked before


@pytest.mark.parametrize("locked", [(1,), (1, 2, 3), (40, 41, 117), range(1, 101)])
@in_virtual_time
async def test_what_a_trigger_waits_for_stops_no_other_and_is_tried_every_half_minute(locked):
    async with world(SPEC) as w:
        w.store.refusal = LOCK_WAIT
        w.store.fill(range(1, 201))
        w.store.refused.update(locked)
        receiver = await w.receive()
        await pass_time(15.0)
        assert sorted(receiver.ids) == [id_ for id_ in range(1, 201) if id_ not in locked]
        assert "Lock wait timeout" in w.manager.status().refused[0][1]
        await w.commit(Row(300))
        assert receiver.ids[-1] == 300
        w.store.refused.clear()
        await pass_time(31.0)
        assert len(receiver.ids) == 201 and not w.manager.status().refused


@in_virtual_time
async def test_what_a_trigger_waits_for_is_released_once_it_can_be():
    async with world(SPEC) as w:
        w.store.refusal = LOCK_WAIT
        w.store.fill(range(1, 5))
        gone = await w.receive()
        w.store.refused.add(1)
        heir = await w.receive()
        await gone.close()
        await pass_time(1.0)
        assert sorted(heir.ids) == [2, 3, 4] and not w.manager.database_failing
        await pass_time(120.0)
        w.store.refused.clear()
        await pass_time(31.0)
        assert sorted(heir.ids) == [1, 2, 3, 4]


@pytest.mark.parametrize("errno", [1, 3, 5, 1016, 1026, 1598, 1815, 1932])
def test_what_files_and_the_binary_log_are_to_blame_for_is_no_refusal(errno):
    assert not is_refusal(BackendError("no", errno))


@pytest.mark.parametrize("errno", [1021, 1044, 1049, 1054, 1064, 1114, 1142, 1143, 1146, 1227, 1370, 1412, 1792, 1874])
def test_what_the_server_or_the_statement_is_to_blame_for_is_no_refusal(errno):
    assert not is_refusal(BackendError("no", errno))


@pytest.mark.parametrize("errno, sqlstate", [(1644, "42000"), (1644, "45000"), (1172, "42000"), (1305, "42000")])
def test_triggers_refuse_with_any_sqlstate(errno, sqlstate):
    assert is_refusal(BackendError("no", errno, sqlstate))


@in_virtual_time
async def test_where_none_can_be_leased_the_queue_pauses(caplog):
    """The database is in trouble, not the messages: a trigger that refuses all, a full disk."""
    async with world(SPEC) as w:
        w.store.fill(range(1, 1001))
        w.store.refused.update(range(1, 1001))
        receiver = await w.receive()
        await pass_time(5.0)
        assert receiver.ids == [] and w.manager.database_failing
        assert w.store.calls["claim"] < IN_A_ROW_MAX + 30
        assert len(caplog.records) < 15
        w.store.refused.clear()
        await pass_time(12.0)
        assert len(receiver.ids) > 800 and not w.manager.database_failing
        await pass_time(2 * FIRST_PAUSE_SECONDS)
        assert len(receiver.ids) == 1000
        assert all(row.epoch == 1 for row in w.store.tables[NAME].values())

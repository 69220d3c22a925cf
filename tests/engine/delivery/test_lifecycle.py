"""The engine's life: idling, outages, shutdown, changes of the catalog, purging."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
from memory_store import COLUMNS, NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import World, world

from engine.delivery.known_messages import TRANSITIONS, Event, Mode
from engine.model.commit_report import CommitReport
from engine.model.errors import (
    BackendError,
    BackendUnavailable,
    LockWaitTimeout,
    QueueNotFound,
    ShuttingDown,
    UnknownColumn,
)
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import QueueName, SubscribeRequest
from engine.model.states import is_lease_end, lease_end

GONE = BackendUnavailable("server has gone away", 2006)


def database_work(w):
    """Calls that concern messages: all but the catalog's and the purger's periodic ones."""
    return sum(count for name, count in w.store.calls.items() if name not in ("load_catalog", "purge", "rejected"))


# --- idling


@in_virtual_time
async def test_an_idle_queue_with_a_hundred_receivers_causes_no_more_than_the_safety_scan():
    async with world(make_spec(poll_interval_ns=30 * SECOND)) as w:
        for _ in range(100):
            await w.receive()
        assert database_work(w) == 1
        await pass_time(3600)
        assert 119 <= database_work(w) <= 121
        assert w.store.calls["poll"] == database_work(w)


@in_virtual_time
async def test_a_queue_without_receivers_is_not_looked_at():
    async with world() as w:
        w.store.fill(range(1, 11))
        w.engine.committed(CommitReport(touched=frozenset((NAME,)), uncertain=frozenset((NAME,)), settled={NAME: (1,)}))
        await pass_time(3600)
        assert database_work(w) == 0
        assert repr(w.manager) == "<MessageManager main.q idle subscribers=0 cached=0 in_flight=0 sent=0>"


@in_virtual_time
async def test_the_safety_scan_finds_what_was_written_around_the_proxy():
    async with world(make_spec(poll_interval_ns=30 * SECOND)) as w:
        receiver = await w.receive()
        w.store.add(Row(1))
        await pass_time(29)
        assert receiver.ids == []
        await pass_time(2)
        assert receiver.ids == [1]


@in_virtual_time
async def test_a_steady_stream_of_acked_messages_costs_a_look_and_a_claim_each():
    async with world(make_spec(poll_interval_ns=3600 * SECOND)) as w:
        receiver = await w.receive()
        before = database_work(w)
        for id_ in range(1, 101):
            await w.commit(Row(id_))
            w.ack(id_)
            await pass_time(0.1)
        assert len(receiver.ids) == 100
        assert database_work(w) - before == 200
        await pass_time(3000)
        assert database_work(w) - before <= 201, "at most one look at a lease that had been settled"


def test_every_mode_and_event_has_its_place():
    """Only the last receiver's leaving cannot happen in idle."""
    missing = {(mode, event) for mode in Mode for event in Event} - set(TRANSITIONS)
    assert missing == {(Mode.IDLE, Event.LAST_LEFT)}


def test_the_documentation_draws_the_same_transitions():
    text = (Path(__file__).resolve().parents[3] / "docs" / "message_lifecycle.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `(\w+)` \|$", text, re.MULTILINE)
    assert rows == [(mode.value, event.value, after.value) for (mode, event), after in TRANSITIONS.items()]


@in_virtual_time
async def test_modes_as_they_come_and_go():
    async with world(make_spec(cache_size=2, batch_size=1)) as w:
        assert w.manager.receiver_sets.plain.messages.mode is Mode.IDLE
        receiver = await w.receive(prefetch=1)
        assert w.manager.receiver_sets.plain.messages.mode is Mode.STEADY
        await w.commit(*(Row(id_) for id_ in range(1, 7)))
        assert w.manager.receiver_sets.plain.messages.mode is Mode.PENDING
        assert repr(w.manager) == "<MessageManager main.q pending subscribers=1 cached=1 in_flight=1 sent=1>"
        await receiver.close()
        assert w.manager.receiver_sets.plain.messages.mode is Mode.IDLE and w.manager.status().cached == 0


@in_virtual_time
async def test_a_look_that_ends_after_the_last_receiver_left_leaves_nothing_behind():
    async with world() as w:
        receiver = await w.receive()

        async def leave():
            await receiver.close()

        w.store.during["poll"] = leave
        await w.commit(Row(1))
        assert repr(w.manager) == "<MessageManager main.q idle subscribers=0 cached=0 in_flight=0 sent=0>"


# --- outages


@in_virtual_time
async def test_streams_survive_an_outage_and_go_on_when_it_is_over(caplog):
    async with world() as w:
        receiver = await w.receive()
        w.store.down = GONE
        await w.commit(Row(1))
        tries = w.store.calls["poll"]
        await pass_time(60)
        assert w.store.calls["poll"] - tries <= 6 + 12, "0.1 s doubling to 5 s"
        w.store.down = None
        await pass_time(5.1)
        assert receiver.ids == [1] and not receiver.ended.is_set()
        assert caplog.text.count("database trouble") == 1, "once per outage"
        assert w.counters()["backend_errors"] > 5


@in_virtual_time
@pytest.mark.parametrize("error", [GONE, LockWaitTimeout(), BackendError("Deadlock found", 1213, "40001")])
async def test_a_claim_that_failed_is_made_again(error):
    async with world(make_spec(poll_interval_ns=3600 * SECOND)) as w:
        receiver = await w.receive()

        async def fail():
            raise error

        w.store.during["poll"] = _fail_next(w, "claim", error)
        await w.commit(Row(1))
        await pass_time(1)
        assert receiver.ids == [1]


def _fail_next(w, name, error):
    async def arm():
        async def fail():
            for row in w.store.tables[NAME].values():
                row.time_next, row.epoch = 0, 0  # it was rolled back
            raise error

        w.store.during[name] = fail

    return arm


@in_virtual_time
async def test_a_claim_of_unknown_outcome_is_undone_before_its_messages_go_to_anybody():
    async with world(make_spec(ack_wait_ns=3600 * SECOND)) as w:
        receiver = await w.receive()
        w.store.during["poll"] = _break_after_claim(w)
        await w.commit(Row(1))
        assert receiver.ids == [] and w.store.tables[NAME][1].epoch == 1
        await pass_time(1)
        assert receiver.ids == [1] and receiver.epochs == [1] and w.counters()["released"] == 1


def _break_after_claim(w):
    async def arm():
        async def commit_arrived_but_its_answer_did_not():
            raise GONE

        w.store.during["claim"] = commit_arrived_but_its_answer_did_not

    return arm


@in_virtual_time
async def test_a_commit_heard_of_ends_the_pause():
    async with world() as w:
        receiver = await w.receive()
        w.store.down = GONE
        await w.commit(Row(1))
        await pass_time(30)
        w.store.down = None
        at = w.time
        await w.commit(Row(2))
        assert sorted(receiver.ids) == [1, 2] and w.time == at


@in_virtual_time
async def test_nowait_says_that_the_database_is_down():
    async with world() as w:
        w.store.down = GONE
        receiver = await w.fetch()
        assert receiver.error is GONE and w.time == 0.0
        receiver = await w.fetch()
        assert receiver.error is GONE


@in_virtual_time
async def test_wait_does_not_end_as_if_nothing_had_been_due():
    async with world() as w:
        w.store.down = GONE
        receiver = await w.fetch(wait=3)
        assert receiver.error is GONE and w.time == pytest.approx(3.0)


@in_virtual_time
async def test_an_outage_shorter_than_the_wait_is_not_noticed():
    async with world() as w:
        w.store.down = GONE
        w.store.fill(range(1, 3))
        task = asyncio.create_task(w.fetch(wait=30))
        await pass_time(3)
        w.store.down = None
        assert (await task).ids == [1, 2]


@in_virtual_time
async def test_open_says_that_the_database_is_down():
    w = World()
    w.store.down = GONE
    with pytest.raises(BackendUnavailable):
        await w.engine.open()
    w.store.down = None
    await w.engine.open()
    assert (await w.fetch()).ids == []
    await w.engine.close()


# --- shutdown


@in_virtual_time
async def test_close_ends_streams_and_leaves_what_receivers_hold():
    async with world() as w:
        receiver, other = await w.receive(), await w.receive()
        await w.commit(*(Row(id_) for id_ in range(1, 5)))
        w.ack(receiver.ids[0])
        other.subscription.unread = lambda *, cut: other.ids[-1:] if cut else ()
        await w.engine.close()
        await settle()
        assert isinstance(receiver.error, ShuttingDown) and isinstance(other.error, ShuttingDown)
        rows = {row.id: row for row in w.store.tables[NAME].values() if row.time_acked is None}
        held, unread = [*receiver.ids[1:], *other.ids[:-1]], other.ids[-1:]
        assert len(held) == 2 and len(unread) == 1
        assert all(rows[id_].epoch == 1 and is_lease_end(rows[id_].due_ns) for id_ in held)
        assert [(rows[id_].epoch, rows[id_].time_next) for id_ in unread] == [(0, 0)]
        await w.engine.close()
        with pytest.raises(ShuttingDown):
            await w.engine.subscribe(SubscribeRequest(NAME))


@in_virtual_time
async def test_close_leaves_what_a_connection_holds_of_results_that_have_ended():
    """That its connection ends then is the proxy's doing, not the receiver's."""
    async with world() as w:
        await w.commit(Row(1), Row(2))
        polled = await w.fetch(limit=2, connection_id=7, by_connection=True)
        await w.engine.close()
        await polled.subscription.connection_ended()
        assert all(row.epoch == 1 and is_lease_end(row.due_ns) for row in w.store.tables[NAME].values())


@in_virtual_time
async def test_close_during_a_claim_gives_that_back_too():
    async with world() as w:
        receiver = await w.receive()
        w.store.latency = 0.5
        await w.commit(Row(1))
        await pass_time(0.7)
        assert w.store.running == 1
        await w.engine.close()
        assert receiver.ids == [] and w.store.tables[NAME][1].epoch == 0 and w.store.tables[NAME][1].time_next == 0


@in_virtual_time
async def test_close_keeps_to_the_grace_time():
    async with world() as w:
        await w.receive()
        await w.commit(Row(1))
        w.store.latency = 1000.0
        await w.commit(Row(2))
        at = w.time
        await w.engine.close(grace_seconds=2.0)
        assert w.time - at <= 4.5
        await pass_time(3000)


@in_virtual_time
async def test_open_and_close_in_any_order_again_and_again():
    w = World()
    for _ in range(3):
        await w.engine.open()
        await w.engine.open()
        await asyncio.gather(w.engine.close(), w.engine.close())
        await w.engine.close()
    w.store.fill(range(1, 3))
    await w.engine.open()
    assert (await w.fetch()).ids == [1, 2]
    await w.engine.close()


# --- the catalog


@in_virtual_time
async def test_a_dropped_queue_ends_its_streams():
    async with world() as w:
        receiver = await w.receive()
        await w.commit(Row(1))
        w.store.serve()
        await w.engine.refresh_catalog()
        await receiver.ended.wait()
        assert isinstance(receiver.error, QueueNotFound) and receiver.error.errno == 1146
        await receiver.subscription.close(release=True)
        with pytest.raises(QueueNotFound):
            await w.engine.subscribe(SubscribeRequest(NAME))


@in_virtual_time
async def test_a_queue_dropped_around_the_proxy_is_noticed_by_its_own_failure():
    async with world() as w:
        receiver = await w.receive()
        w.store.serve()
        w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        await pass_time(0.5)
        assert isinstance(receiver.error, QueueNotFound)


@in_virtual_time
async def test_changed_options_take_effect_and_streams_go_on():
    async with world(make_spec(ack_wait_ns=30 * SECOND)) as w:
        receiver = await w.receive()
        version = w.engine.catalog.version
        w.store.serve(make_spec(ack_wait_ns=5 * SECOND, batch_size=2, prefetch=3))
        await w.engine.refresh_catalog()
        assert w.engine.catalog.version == version + 1
        await w.commit(*(Row(id_) for id_ in range(1, 6)))
        assert [len(batch.messages) for batch in receiver.batches] == [2, 1]
        assert receiver.batches[0].messages[0].lease_until_ns == lease_end(w.clock.now_ns() + 10 * SECOND)


@in_virtual_time
async def test_a_column_added_in_front_does_not_shift_what_streams_send():
    async with world() as w:
        receiver = await w.receive()
        changed = replace(make_spec(), columns=(COLUMNS[5], *COLUMNS[:5]))
        w.store.serve(changed)
        row = Row(1, payload="p")
        row.values = lambda: (b"p", b"1", b"50", b"0", b"1", None)  # what the table then returns
        await w.engine.refresh_catalog()
        await w.commit(row)
        assert receiver.batches[0].rows == ((b"1", b"p"),)


@in_virtual_time
async def test_a_table_changed_while_a_claim_runs_costs_a_retry_and_no_wrong_row():
    async with world() as w:
        receiver = await w.receive()

        async def alter():
            w.store.serve(replace(make_spec(), columns=(COLUMNS[5], *COLUMNS[:5])))
            await w.engine.refresh_catalog()
            w.store.tables[NAME][1].values = lambda: (b"p", b"1", b"50", b"0", b"1", None)

        w.store.during["claim"] = alter
        await w.commit(Row(1, payload="p"))
        await pass_time(1)
        assert [batch.rows for batch in receiver.batches] == [((b"1", b"p"),)]
        assert receiver.epochs == [1]


@in_virtual_time
async def test_a_dropped_column_ends_the_streams_that_send_it():
    async with world() as w:
        receiver, other = await w.receive(), await w.receive(columns=("id",))
        w.store.serve(replace(make_spec(), columns=COLUMNS[:5], message_columns=("id",)))
        await w.engine.refresh_catalog()
        await receiver.ended.wait()
        assert isinstance(receiver.error, UnknownColumn) and not other.ended.is_set()


@in_virtual_time
async def test_tables_made_around_the_proxy_are_found_by_the_periodic_look():
    late = QueueName("main", "late")
    async with world() as w:
        w.store.serve(make_spec(), make_spec(late))
        await pass_time(31)
        assert late in w.engine.catalog.queues
        assert [status.name for status in w.engine.status()] == [late, NAME]


@in_virtual_time
async def test_a_queue_another_proxy_has_just_made_is_found_when_asked_for():
    late = QueueName("main", "late")
    async with world() as w:
        await pass_time(2)
        w.store.serve(make_spec(), make_spec(late))
        await w.receive(late)
        loads = w.store.calls["load_catalog"]
        for _ in range(50):
            with pytest.raises(QueueNotFound):
                await w.engine.subscribe(SubscribeRequest(QueueName("main", "nowhere")))
        assert w.store.calls["load_catalog"] - loads <= 1, (
            "a missing queue asked for in a loop must not load the database"
        )


# --- purging


@in_virtual_time
async def test_purge_in_chunks_with_and_without_receivers():
    async with world(make_spec(purge_after_ns=100 * SECOND, poll_interval_ns=30 * SECOND)) as w:
        w.store.fill(range(1, 1302))
        w.ack(*range(1, 1301))
        await pass_time(99)
        assert w.counters()["purged"] == 0
        purges = w.store.calls["purge"]
        await pass_time(32)
        assert w.counters()["purged"] == 1300 and list(w.store.tables[NAME]) == [1301]
        assert w.store.calls["purge"] - purges in (3, 4), "500, 500, 300"


@in_virtual_time
async def test_a_purge_pass_ends_after_one_poll_interval():
    async with world(make_spec(purge_after_ns=0, poll_interval_ns=2 * SECOND)) as w:
        w.store.fill(range(1, 10_001))
        w.ack(*range(1, 10_001))
        await pass_time(0.001)
        w.store.latency = 0.5
        purged = await w.engine.queues.by_name[NAME].purger.run_once()
        assert purged.more and purged.batches == 2 and purged.messages < 1000


@in_virtual_time
async def test_a_purge_rests_for_twice_the_time_it_takes_and_makes_small_batches_of_slow_ones():
    async with world(make_spec(purge_after_ns=0, poll_interval_ns=3600 * SECOND)) as w:
        w.store.fill(range(1, 1002))
        w.ack(*range(1, 1002))
        await pass_time(0.001)
        w.store.latency = 0.1
        began, purger = w.time, w.engine.queues.by_name[NAME].purger
        assert (await purger.run_once()).batches == 3
        assert w.time - began == pytest.approx(2 * 0.3 + 0.1), "500, 500, 1"
        w.store.fill(range(2000, 2751))
        w.ack(*range(2000, 2751))
        w.store.latency = 0.3
        assert (await purger.run_once()).batches == 3, "500, 250, 1"


@pytest.mark.parametrize("count, told", [(999, False), (1000, True)])
@in_virtual_time
async def test_the_problem_says_that_a_thousand_messages_that_stay_keep_others_from_being_purged(count, told):
    async with world(make_spec(purge_after_ns=0, poll_interval_ns=SECOND)) as w:

        async def purge(queue, limit, purged=None, stuck=None):
            stuck.update(dict.fromkeys(range(count), "a foreign key"))
            return 0

        w.store.purge = purge
        await pass_time(5.0)
        problem = w.engine.queues.problems()[NAME]
        assert problem.startswith(f"{count} acked messages cannot be deleted")
        assert ("no others are deleted" in problem) is told


@in_virtual_time
async def test_a_purge_that_falls_behind_rests_less_and_begins_again_at_once():
    async with world(make_spec(purge_after_ns=0, poll_interval_ns=10 * SECOND)) as w:
        w.store.fill(range(1, 100_001))
        w.ack(*range(1, 100_001))
        w.store.latency = 0.1
        await pass_time(30)
        slow = 10 / 0.3 * 500
        assert w.counters()["purged"] > 1.5 * slow
        await pass_time(60)
        assert w.counters()["purged"] == 100_000


@in_virtual_time
async def test_a_purge_that_fails_says_so_once_and_goes_on(caplog):
    async with world(make_spec(purge_after_ns=0, poll_interval_ns=10 * SECOND)) as w:
        w.store.fill(range(1, 6))
        w.ack(*range(1, 6))
        w.store.down = BackendError("no such right", 1142)
        await pass_time(60)
        assert caplog.text.count("purge of main.q failed") == 1
        w.store.down = None
        await pass_time(11)
        assert w.counters()["purged"] == 5


@in_virtual_time
async def test_a_defect_in_the_background_is_heard_of_and_survived(caplog):
    async with world() as w:
        receiver = await w.receive()

        async def defect():
            raise ZeroDivisionError

        w.store.during["poll"] = defect
        await w.commit(Row(1))
        await pass_time(3)
        assert receiver.ids == [1]
        assert "failed by a defect" in caplog.text

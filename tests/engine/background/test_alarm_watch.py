"""alarm_after: which messages count as leased for too long, and that each is told once."""

from __future__ import annotations

import logging

from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.background.alarm_watch import PERIOD_SECONDS
from engine.model.errors import BackendUnavailable
from engine.model.option_values import NS_PER_SECOND as SECOND

AFTER = 60.0
SOON = AFTER + 3 * PERIOD_SECONDS
HOUR_NS = 3600 * SECOND


def spec(seconds=AFTER, **options):
    waits = {"ack_wait_ns": HOUR_NS, "max_backoff_ns": 3 * HOUR_NS}
    return make_spec(**{"alarm_after_ns": int(seconds * SECOND), **waits, **options})


def told(caplog):
    return [record.getMessage() for record in caplog.records if "alarm_after" in record.getMessage()]


def alarms(w):
    return next(status for status in w.engine.status() if status.name == NAME).alarms


def test_a_message_held_too_long_is_an_alarm_until_it_is_acked(caplog):
    @in_virtual_time
    async def scenario():
        async with world(spec()) as w:
            receiver = await w.receive(connection_id=12, consumer="worker 7")
            await w.commit(Row(1), Row(2))
            assert receiver.ids == [1, 2]
            w.ack(2)
            await pass_time(AFTER - 2 * PERIOD_SECONDS)
            assert alarms(w) == 0
            await pass_time(SOON)
            assert alarms(w) == 1
            await pass_time(10 * AFTER)
            assert alarms(w) == 1
            w.ack(1)
            assert alarms(w) == 0

    with caplog.at_level(logging.WARNING):
        scenario()
    (line,) = told(caplog)
    assert line == "main.q: leased for longer than alarm_after (60 s): 1 to connection 12 'worker 7'"


@in_virtual_time
async def test_an_ack_around_the_proxy_ends_the_alarm():
    async with world(spec()) as w:
        await w.receive()
        await w.commit(Row(1))
        await pass_time(SOON)
        assert alarms(w) == 1
        w.ack(1, heard=False)
        await pass_time(3 * PERIOD_SECONDS)
        assert alarms(w) == 0


@in_virtual_time
async def test_a_result_that_has_ended_still_counts():
    async with world(spec()) as w:
        await w.commit(Row(1))
        result = await w.fetch(limit=1, wait=5.0)
        assert result.ids == [1]
        await pass_time(SOON)
        assert alarms(w) == 1


@in_virtual_time
async def test_what_went_back_or_ran_out_is_none():
    async with world(spec(ack_wait_ns=20 * SECOND, max_backoff_ns=40 * SECOND)) as w:
        receiver = await w.receive()
        await w.commit(Row(1))
        await receiver.close(release=False)
        await pass_time(SOON)
        assert alarms(w) == 0  # its lease has run out
        again = await w.receive()
        assert again.ids == [1]
        await again.close()
        await pass_time(SOON)
        assert alarms(w) == 0


@in_virtual_time
async def test_a_database_that_is_away_is_asked_again():
    async with world(spec()) as w:
        await w.receive()
        await w.commit(Row(1))
        w.store.down = BackendUnavailable("gone")
        await pass_time(SOON)
        assert alarms(w) == 0
        w.store.down = None
        await pass_time(10 * PERIOD_SECONDS)
        assert alarms(w) == 1


@in_virtual_time
async def test_the_option_may_be_taken_away_and_costs_nothing_without():
    async with world(spec()) as w:
        await w.receive()
        await w.commit(Row(1))
        await pass_time(SOON)
        assert alarms(w) == 1
        w.store.serve(spec(0))
        await w.engine.catalog_changed()
        await pass_time(3 * PERIOD_SECONDS)
        await settle()
        assert alarms(w) == 0
        asked = w.store.calls["unsettled"]
        await w.commit(Row(2))
        await pass_time(SOON)
        assert alarms(w) == 0 and w.store.calls["unsettled"] == asked

"""The surveyor: counts are shared while they are fresh, few at a time, and never waited for without end."""

from __future__ import annotations

import asyncio

import pytest
from memory_store import Row, make_spec
from virtual_time import in_virtual_time, pass_time
from world import world

from engine.background.surveyor import FRESH_SECONDS, FRESH_SECONDS_MAX, LARGE, SURVEY_SECONDS, SURVEYS_AT_ONCE
from engine.model.errors import BackendError
from engine.model.key_range import read_key_range
from engine.model.queue import QueueName, ReceiverIdentity


@in_virtual_time
async def test_a_fresh_census_is_not_taken_again():
    async with world() as w:
        w.store.fill(range(1, 4))
        queues = list(w.engine.catalog)
        first, second = await asyncio.gather(w.engine.surveyor.survey(queues), w.engine.surveyor.survey(queues))
        assert first == second
        assert [survey.census.ready for survey in first.values()] == [3]
        w.store.fill(range(4, 6))
        assert await w.engine.surveyor.survey(queues) == first
        assert w.store.calls["census"] == 1
        await pass_time(FRESH_SECONDS)
        assert [survey.census.ready for survey in (await w.engine.surveyor.survey(queues)).values()] == [5]


@in_virtual_time
async def test_a_count_that_takes_long_is_taken_more_seldom():
    async with world() as w:
        queues, w.store.latency = list(w.engine.catalog), 0.1
        await w.engine.surveyor.survey(queues)
        await pass_time(FRESH_SECONDS)
        w.store.fill(range(1, LARGE + 1))
        w.store.calls.clear()  # a small table is counted each second, however long that takes
        for seconds, counts in ((0.0, 1), (4.9, 1), (0.2, 2)):
            await pass_time(seconds)
            await w.engine.surveyor.survey(queues)
            assert w.store.calls["census"] == counts
        w.store.latency = 3.0
        await pass_time(5.1)
        await w.engine.surveyor.survey(queues)
        await pass_time(FRESH_SECONDS_MAX - 0.1)
        await w.engine.surveyor.survey(queues)
        assert w.store.calls["census"] == 3
        await pass_time(0.2)
        await w.engine.surveyor.survey(queues)
        assert w.store.calls["census"] == 4


@in_virtual_time
async def test_few_are_taken_at_once():
    specs = [make_spec(QueueName("main", f"q{n}")) for n in range(10)]
    async with world(*specs) as w:
        w.store.latency, w.store.running_most = 0.1, 0
        assert len(await w.engine.surveyor.survey(specs)) == 10
        assert w.store.running_most <= SURVEYS_AT_ONCE


@in_virtual_time
async def test_a_database_that_does_not_answer_makes_a_survey_that_says_so():
    async with world() as w:
        queues = list(w.engine.catalog)
        w.store.latency = SURVEY_SECONDS * 10
        (survey,) = (await w.engine.surveyor.survey(queues)).values()
        assert survey.census is None and "not counted within" in str(survey.problem)
        assert "did not answer" in str(await w.engine.surveyor.reachable(1.0))
        w.store.latency, w.store.down = 0.0, BackendError("gone fishing")
        await pass_time(SURVEY_SECONDS * 10)
        (survey,) = (await w.engine.surveyor.survey(queues)).values()
        assert survey.problem == await w.engine.surveyor.reachable(1.0) == "gone fishing"
        w.store.down = None
        assert await w.engine.surveyor.reachable(1.0) is None
        assert await w.engine.surveyor.leased_messages(queues[0], 5) == []


@in_virtual_time
async def test_many_queues_of_a_database_that_hangs_are_told_of_in_time():
    specs = [make_spec(QueueName("main", f"q{n}")) for n in range(50)]
    async with world(*specs) as w:
        w.store.latency, began = SURVEY_SECONDS * 0.4, w.time
        surveys = await w.engine.surveyor.survey(specs)
        assert w.time - began <= SURVEY_SECONDS
        counted = [survey for survey in surveys.values() if survey.census is not None]
        assert len(surveys) == 50 and 0 < len(counted) < 10
        w.store.latency = 0.0
        await pass_time(SURVEY_SECONDS)


@in_virtual_time
async def test_the_wait_for_a_turn_is_part_of_the_time():
    specs = [make_spec(QueueName("main", f"q{n}")) for n in range(50)]
    async with world(*specs) as w:
        w.store.latency, surveyor, queue = SURVEY_SECONDS * 10, w.engine.surveyor, specs[0]
        await surveyor.survey(specs)
        began = w.time
        with pytest.raises(BackendError, match="not counted within"):
            await surveyor.ranges(queue, [read_key_range("", "-80")])
        assert w.time - began <= SURVEY_SECONDS
        assert await surveyor.leased_messages(queue, 5) == await surveyor.ready(queue, 5) == []
        assert await surveyor.fitting(queue, [], [1]) == set()
        assert w.time - began <= SURVEY_SECONDS * 4
        w.store.latency = 0.0
        await pass_time(SURVEY_SECONDS * 30)


@in_virtual_time
async def test_subscriptions_and_holders_are_told():
    async with world() as w:
        await w.receive(connection_id=7, user="ann", host="10.0.0.1", prefetch=2)
        await w.commit(Row(1), Row(2), Row(3))
        (status,) = w.engine.subscriptions()
        assert (status.receiver, status.prefetch) == (ReceiverIdentity(7, "ann", "10.0.0.1"), 2)
        assert (status.sent, status.unacked, status.waiting, status.window_full) == (2, 2, False, True)
        assert status.since_ns > 0
        holders = w.engine.holders(status.queue, (1, 2, 3, 99))
        assert sorted(holders) == [1, 2] and holders[1].receiver.connection_id == 7
        assert w.engine.holders(QueueName("main", "nowhere"), (1,)) == {}

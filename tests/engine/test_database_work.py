"""The engine's share of the database."""

from __future__ import annotations

import asyncio
import gc
import traceback

import pytest
from virtual_time import settle

from engine.clock import boottime_seconds
from engine.database_work import DatabaseWork
from engine.model.errors import BackendError, BackendUnavailable


async def failing(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [BackendUnavailable("gone"), BackendError("refused", 1142)])
async def test_a_failure_is_passed_on_without_its_traceback_written_out(error, monkeypatch):
    written = []
    monkeypatch.setattr(traceback, "format_exc", lambda *args, **kwargs: written.append(args) or "")
    work = DatabaseWork(2)
    with pytest.raises(type(error)) as raised:
        await work.run(failing(error))
    assert raised.value is error
    assert written == []


async def test_a_defect_goes_through_and_its_place_is_free_again():
    work = DatabaseWork(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await work.run(failing(ZeroDivisionError()))


async def test_who_waits_for_a_place_is_known_and_may_turn_away():
    work = DatabaseWork(1)
    one, other = work.for_queue(), work.for_queue()
    free, begun = asyncio.Event(), []

    async def call(number):
        begun.append(number)
        await free.wait()
        return number

    first = asyncio.create_task(one.run_timed(call(1)))
    await settle()
    assert (one.waiting, other.waiting) == (0, 0)
    waiting = [asyncio.create_task(other.run(call(number))) for number in (2, 3)]
    await settle()
    assert (one.waiting, other.waiting, begun) == (0, 2, [1])
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    assert other.waiting == 1
    before = boottime_seconds()
    free.set()
    result, began = await first
    assert result == 1 and began <= before
    assert await waiting[1] == 3
    assert (other.waiting, begun) == (0, [1, 3])


@pytest.mark.parametrize("turns", range(8))
async def test_a_call_given_up_at_any_moment_is_made_whole_or_not_at_all(turns, recwarn):
    """`recwarn`: also of a coroutine that nobody ever awaited."""
    work, go_on, free = DatabaseWork(1), asyncio.Event(), asyncio.Event()
    steps = []

    async def call():
        steps.append("begun")
        await go_on.wait()
        steps.append("ended")

    holder = asyncio.create_task(work.run(free.wait()))
    await asyncio.sleep(0)
    task = asyncio.create_task(work.run(call()))
    await settle()
    free.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    go_on.set()
    await asyncio.gather(task, holder, return_exceptions=True)
    await settle()
    gc.collect()
    assert steps in ([], ["begun", "ended"])
    assert work.waiting == 0
    assert await work.run(free.wait())
    assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]

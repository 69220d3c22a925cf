"""The engine's share of the database."""

from __future__ import annotations

import traceback

import pytest

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

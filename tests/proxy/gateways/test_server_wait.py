"""Waiting for a database server that starts at the same time."""

from __future__ import annotations

import asyncio

import pytest

from engine.model.errors import BackendUnavailable
from proxy.gateways import server_wait
from proxy.gateways.server_wait import wait_for_server

REFUSED, DENIED = 2003, 1045


class Server:
    """Says these numbers, one at each try, and lets us in after that."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def try_once(self) -> None:
        if self.numbers:
            raise BackendUnavailable("no", self.numbers.pop(0))


@pytest.fixture(autouse=True)
def short_pause(monkeypatch):
    monkeypatch.setattr(server_wait, "_PAUSE_SECONDS", 0.001)


def test_it_goes_on_when_the_server_is_there(caplog):
    server = Server(REFUSED, 2005, 1040, 2013)
    assert asyncio.run(wait_for_server(server.try_once, 60, asyncio.Event()))
    (record,) = caplog.records
    assert "not there yet; waiting for it up to 60 s: no" in record.getMessage()


def test_what_waiting_does_not_mend_is_told_at_once():
    server = Server(REFUSED, DENIED, DENIED)
    with pytest.raises(BackendUnavailable) as refused:
        asyncio.run(wait_for_server(server.try_once, 60, asyncio.Event()))
    assert refused.value.errno == DENIED
    assert server.numbers == [DENIED]


def test_the_wait_is_bounded():
    server = Server(*[REFUSED] * 1_000_000)
    with pytest.raises(BackendUnavailable) as refused:
        asyncio.run(wait_for_server(server.try_once, 0.05, asyncio.Event()))
    assert refused.value.errno == REFUSED
    assert len(server.numbers) < 1_000_000 - 1


def test_who_stops_it_does_not_wait_for_its_end(monkeypatch):
    monkeypatch.setattr(server_wait, "_PAUSE_SECONDS", 3600)

    async def stopped() -> bool:
        stopping = asyncio.Event()
        waiting = asyncio.create_task(wait_for_server(Server(REFUSED).try_once, 3600, stopping))
        asyncio.get_running_loop().call_later(0.05, stopping.set)
        return await asyncio.wait_for(waiting, 30)

    assert asyncio.run(stopped()) is False

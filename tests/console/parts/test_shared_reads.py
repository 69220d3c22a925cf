"""Reads that are shared: by whom, for how long, and what becomes of errors and of those who leave."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from console.endpoints import SHARED_READS_MAX, SHARED_SECONDS, SharedReads
from console.rates import Rates
from console.visits import Page, Visit


class World:
    """A page that counts how often it is read."""

    def __init__(self) -> None:
        self.now, self.reads = 0.0, 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.shared = SharedReads(lambda: self.now)
        self.page = Page(self.read, "", path="/part", refresh=True)

    async def read(self, visit: Visit) -> int:
        self.reads += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.reads

    async def ask(self, login: bytes = b"a", **given: str) -> Any:
        session: Any = SimpleNamespace(database=SimpleNamespace(login=login))
        return await self.shared.read(self.page, Visit(session, given, Rates(), self.now, ""))


async def test_one_login_and_one_address_share_a_read_for_a_while():
    world = World()
    assert [await world.ask(name="q") for _ in range(3)] == [1, 1, 1]
    world.now = SHARED_SECONDS - 0.1
    assert await world.ask(name="q") == 1
    world.now = SHARED_SECONDS
    assert await world.ask(name="q") == 2


async def test_others_do_not():
    world = World()
    assert [await world.ask(), await world.ask(b"b"), await world.ask(name="q"), await world.ask()] == [1, 2, 3, 1]


async def test_those_who_ask_meanwhile_wait_for_it_and_may_leave():
    world = World()
    world.gate.clear()
    first, second = asyncio.create_task(world.ask()), asyncio.create_task(world.ask())
    await asyncio.sleep(0)
    first.cancel()
    world.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == 1 and world.reads == 1


async def test_an_error_is_for_those_who_wait_and_not_kept():
    world = World()
    world.error = ValueError("away")
    for _ in range(2):
        with pytest.raises(ValueError):
            await world.ask()
    world.error = None
    assert await world.ask() == 3


async def test_it_is_bounded():
    world = World()
    for n in range(SHARED_READS_MAX * 2):
        await world.ask(name=str(n))
    assert len(world.shared._reads) <= SHARED_READS_MAX

"""Background services: opening and closing in any order, grace, defects. One helper for every service there is."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest
from engine_parts import engine_context, queue_context
from memory_store import MemoryStore, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle

from engine.background.catalog_watcher import CatalogWatcher
from engine.background.purger import Purger
from engine.delivery.message_manager import MessageManager
from engine.engine import Engine
from engine.schedules.scheduler import Scheduler
from engine.service import Service

LOGGER = logging.getLogger("queuegate.test")


async def stress_open_close(service: Service, *, seed: int) -> None:
    """Open and close in a random order, also at the same time; in the end it is closed and has no task."""
    chance = random.Random(seed)
    for _ in range(50):
        calls = [service.open if chance.random() < 0.5 else service.close for _ in range(chance.randint(1, 3))]
        await asyncio.gather(*(call() for call in calls))
        await settle(chance.randint(0, 5))
    await service.close()
    assert not service.running
    await service.open()
    assert service.running
    await service.close()


def scheduler(store, clock):
    return Scheduler(engine_context(store, clock))


def services():
    clock = VirtualClock()
    store = MemoryStore(clock)
    store.serve(make_spec())
    context = queue_context(store, clock)
    engine = Engine(store, clock=clock, jitter=lambda: 1.0)
    return [
        MessageManager(make_spec(), context),
        Purger(make_spec(), context),
        CatalogWatcher(engine, LOGGER),
        scheduler(store, clock),
    ]


@pytest.mark.parametrize("index", range(4), ids=["manager", "purger", "watcher", "scheduler"])
@in_virtual_time
async def test_every_service_survives_any_order_of_open_and_close(index):
    for seed in range(5):
        await stress_open_close(services()[index], seed=seed)


class Stubborn(Service):
    """Does not end by itself."""

    def __init__(self) -> None:
        super().__init__("stubborn", LOGGER)
        self.cancelled = False

    async def _run(self) -> None:
        try:
            await pass_time(1e6)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@in_virtual_time
async def test_what_exceeds_the_grace_time_is_cancelled(caplog):
    service = Stubborn()
    await service.open()
    await settle()
    start = asyncio.get_running_loop().time()
    await service.close(grace_seconds=3.0)
    assert service.cancelled and asyncio.get_running_loop().time() - start == pytest.approx(3.0)
    assert "did not end within 3.0 s" in caplog.text


class Failing(Service):
    """Fails twice, then runs."""

    def __init__(self) -> None:
        super().__init__("failing", LOGGER)
        self.runs = 0

    async def _run(self) -> None:
        self.runs += 1
        if self.runs < 3:
            raise ZeroDivisionError
        await self._stopping.wait()


@in_virtual_time
async def test_a_defect_is_logged_and_the_service_starts_again(caplog):
    service = Failing()
    await service.open()
    await pass_time(5)
    assert service.runs == 3 and caplog.text.count("failed by a defect") == 2
    await service.close()

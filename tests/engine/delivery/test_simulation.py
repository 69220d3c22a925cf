"""A seeded simulation of the whole engine over the in-memory store: producers, receivers that ack, stall and die, a
database that is slow, locked and down. Whatever happens: every message is acked in the end, none is handed out after
its ack was committed, none to two receivers under one lease. A failure names its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import World, request_of

from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable, EngineError
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import WaitMode

MESSAGES = 300
DURATION = 120.0


class Simulation:
    """One run; `chance` decides everything."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        spec = make_spec(
            ack_wait_ns=self.chance.choice((1, 5)) * SECOND,
            batch_size=self.chance.choice((1, 5, 100)),
            prefetch=self.chance.choice((5, 1000)),
            cache_size=self.chance.choice((2, 50, 10_000)),
            max_backoff_ns=10 * SECOND,
            poll_interval_ns=5 * SECOND,
            purge_after_ns=20 * SECOND,
        )
        self.world = World(spec, work_limit=2)
        self.acked: set[int] = set()
        self.leases: set[tuple[int, int, int]] = set()
        self.delivered = 0
        self.stop = False

    async def run(self) -> None:
        await self.world.engine.open()
        receivers = [asyncio.create_task(self.receiver(number)) for number in range(4)]
        trouble = asyncio.create_task(self.trouble())
        await self.producer()
        await trouble
        while len(self.acked) < MESSAGES:
            await pass_time(1)
            assert self.world.time < 2000, self.describe()
        self.stop = True
        await asyncio.gather(*receivers)
        await self.world.engine.close()

    def describe(self) -> str:
        left = [row for row in self.world.store.tables[NAME].values() if row.time_acked is None]
        return f"{len(left)} never acked, first {left[:1]}; {self.world.manager!r}"

    async def producer(self) -> None:
        id_ = 0
        while id_ < MESSAGES:
            rows = []
            for _ in range(min(self.chance.randint(1, 20), MESSAGES - id_)):
                id_ += 1
                delay = self.chance.choice((0, 0, 0, 2, 15)) * SECOND
                rows.append(Row(id_, self.chance.choice((10, 50, None)), self.world.clock.now_ns() + delay))
            self.world.store.add(*rows)
            if self.chance.random() < 0.8:  # the rest was written around the proxy
                self.world.engine.committed(CommitReport(touched=frozenset((NAME,))))
            await pass_time(self.chance.uniform(0, 2 * DURATION * len(rows) / MESSAGES))

    async def trouble(self) -> None:
        store = self.world.store
        while self.world.time < DURATION:
            await pass_time(self.chance.uniform(0, 5))
            store.latency = self.chance.choice((0.0, 0.001, 0.2))
            store.locked = set(self.chance.sample(range(1, MESSAGES), self.chance.choice((0, 0, 30))))
            store.down = self.chance.choice((None, None, None, BackendUnavailable("down"), BackendError("no", 1213)))
            if self.chance.random() < 0.2:
                store.fail_after = BackendUnavailable("the answer was lost")
        store.latency, store.locked, store.down = 0.0, set(), None

    async def receiver(self, number: int) -> None:
        while not self.stop:
            mode = self.chance.choice((WaitMode.ENDLESS, WaitMode.ENDLESS, WaitMode.WAIT, WaitMode.NOWAIT))
            request = request_of(
                NAME, wait_mode=mode, wait_seconds=2.0, limit=self.chance.choice((None, 1, 20)), connection_id=number
            )
            subscription = await self.world.engine.subscribe(request)
            with contextlib.suppress(EngineError):
                normal = await self.consume(subscription)
                await subscription.close(release=not normal)
            await subscription.close(release=True)
            await pass_time(self.chance.uniform(0.1, 3))

    async def consume(self, subscription) -> bool:
        """True when the result ended by itself; False when the receiver died or gave up."""
        until = self.world.time + self.chance.uniform(1, 30)
        while not self.stop:
            try:
                batch = await asyncio.wait_for(anext(subscription), max(0.01, until - self.world.time))
            except StopAsyncIteration:
                return True
            except TimeoutError:
                return False
            self.check(batch)
            if self.chance.random() < 0.1:
                return False
            await pass_time(self.chance.choice((0, 0.01, 3)))
            self.ack(batch)
        return False

    def check(self, batch) -> None:
        for message in batch.messages:
            self.delivered += 1
            row = self.world.store.tables[NAME].get(message.id)
            assert row is not None and row.epoch is not None, "a purged message was handed out"
            assert row.epoch >= message.epoch
            assert message.id not in self.acked, f"{message.id} was handed out after its ack"
            lease = (message.id, message.epoch, message.lease_until_ns)
            assert lease not in self.leases, f"one lease of {message.id} was handed out twice"
            self.leases.add(lease)

    def ack(self, batch) -> None:
        ids = [message.id for message in batch.messages if self.chance.random() < 0.9]
        open_ids = [id_ for id_ in ids if id_ in self.world.store.tables[NAME] and id_ not in self.acked]
        self.world.store.ack(*open_ids)
        self.acked.update(open_ids)
        how = self.chance.random()
        if how < 0.5:
            self.world.engine.committed(CommitReport(settled={NAME: tuple(ids)}))
        elif how < 0.8:
            self.world.engine.committed(CommitReport(uncertain=frozenset((NAME,))))


@pytest.mark.parametrize("seed", range(20))
@in_virtual_time
async def test_simulation(seed):
    simulation = Simulation(seed)
    await simulation.run()
    assert simulation.delivered >= MESSAGES
    assert repr(simulation.world.engine.queues.by_name) == "{}"
    await settle()

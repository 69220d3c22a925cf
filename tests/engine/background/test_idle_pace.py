"""A queue where nothing changes is looked after more and more seldom, and as before once something has changed."""

from __future__ import annotations

import logging

from engine_parts import Host, queue_context
from memory_store import MemoryStore, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle

from engine.background.dead_letter_mover import DeadLetterMover
from engine.background.dead_letter_names import DeadLetterNames
from engine.background.pace import IdlePace
from engine.background.purger import Purger
from engine.delivery.context import Changes

PERIOD = 30
LOGGER = logging.getLogger("test")


def periods_with_a_pass(pace: IdlePace, periods: int) -> list[int]:
    passes = []
    for period in range(periods):
        if pace.due():
            passes.append(period)
            pace.passed(useful=False)
    return passes


def test_passes_that_find_nothing_become_rare_until_something_changes():
    changes = Changes()
    pace = IdlePace(changes)
    assert periods_with_a_pass(pace, 64) == [0, 2, 6, 14, 30, 46, 62]
    changes.count += 1
    assert periods_with_a_pass(pace, 5) == [0, 2]
    assert pace.due() is False
    pace.passed(useful=True)
    assert pace.due() is True


class Counted(MemoryStore):
    """Counts the looks of the two services, and knows one message that may be purged."""

    def __init__(self, clock) -> None:
        super().__init__(clock)
        self.looks, self.old = {"rejected": 0, "purge": 0}, 0

    async def rejected(self, queue, limit):
        self.looks["rejected"] += 1
        return await super().rejected(queue, limit)

    async def purge(self, queue, limit, purged=None, stuck=None):
        self.looks["purge"] += 1
        old, self.old = self.old, 0
        return old

    async def purge_partitions(self, queue):
        return None


def services(store, clock):
    queue = make_spec(poll_interval_ns=PERIOD * 10**9)
    store.serve(queue)
    context = queue_context(store, clock, Host(of=store, leads=True), work=8, logger=LOGGER)

    async def make(queue, name) -> None:
        raise AssertionError("nothing is moved")

    return DeadLetterMover(queue, context, make, DeadLetterNames()), Purger(queue, context), context.changes


@in_virtual_time
async def test_a_queue_where_nothing_changes_costs_little():
    clock = VirtualClock()
    store = Counted(clock)
    mover, purger, changes = services(store, clock)
    for service in (mover, purger):
        await service.open()
    await pass_time(3600)
    assert all(5 <= looks <= 12 for looks in store.looks.values()), store.looks  # 120 periods
    store.looks = dict.fromkeys(store.looks, 0)
    store.old = 1
    changes.count += 1
    await pass_time(PERIOD + 1)
    await settle()
    assert store.looks == {"rejected": 1, "purge": 1} and store.old == 0
    await pass_time(PERIOD)  # something was purged, so the next period has a pass; nothing was moved
    assert store.looks == {"rejected": 1, "purge": 2}
    for service in (mover, purger):
        await service.close()


@in_virtual_time
async def test_what_is_rejected_is_moved_at_once_however_long_nothing_happened():
    clock = VirtualClock()
    store = Counted(clock)
    mover, _, _ = services(store, clock)
    await mover.open()
    await pass_time(3600)
    before = store.looks["rejected"]
    mover.notify()
    await settle()
    assert store.looks["rejected"] == before + 1
    await mover.close()

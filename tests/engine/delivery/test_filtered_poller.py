"""The look of a receiver set with a condition: a cache too small for what it finds, and what a fresh scan misses."""

from __future__ import annotations

from decimal import Decimal

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time
from world import world

from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import Condition

EVEN = Condition("id % 2 == 0")
QUEUE = frozenset((NAME,))


@in_virtual_time
async def test_a_rate_holds_back_more_than_a_small_cache_can_keep():
    async with world(make_spec(cache_size=1, batch_size=10, max_rate=Decimal(5))) as w:
        receiver = await w.receive(condition=EVEN)
        await w.commit(*(Row(id_, time_next=id_) for id_ in range(1, 15)))
        await pass_time(3.0)
        assert sorted(receiver.ids) == [2, 4, 6, 8, 10, 12, 14]
        assert w.manager.status().cached <= 1


@in_virtual_time
async def test_what_is_fresh_is_found_though_the_cache_is_full():
    """A whole scan took so long that the next ones are of what is fresh; then one finds the cache full."""
    async with world(make_spec(cache_size=3, batch_size=1, prefetch=1)) as w:
        w.store.latency = 0.06  # longer than a page should take
        w.store.fill(range(2, 12, 2))
        receiver = await w.receive(condition=EVEN)
        await pass_time(2.0)
        assert receiver.ids == [2]
        for id_ in (100, 102, 104):
            await w.commit(Row(id_, priority=1))
            await pass_time(0.3)
        assert w.manager.status().cached <= 3
        for _ in range(8):
            w.ack(*receiver.ids[-1:])
            await pass_time(2.0)
        assert sorted(receiver.ids) == [2, 4, 6, 8, 10, 100, 102, 104]


LATE, NEXT = 30_000, 30_002  # behind ten pages of messages that do not match


def neighbour_released(w):
    w.engine.on_remote_commit(CommitReport(touched=QUEUE, overdue=QUEUE))


def released(w):
    w.engine.committed(CommitReport(touched=QUEUE, changed={NAME: (LATE,)}, overdue=QUEUE))


def altered(w):
    w.manager.reconfigure(make_spec(keep_attempts=5))


def failed(w):
    w.manager.receiver_sets.filtered[EVEN].failed(BackendError("lost"))
    w.manager.wake()


@pytest.mark.parametrize("cause", [neighbour_released, released, altered, failed])
@in_virtual_time
async def test_what_fell_due_long_ago_does_not_wait_for_a_full_scan_after_its_rest(cause):
    async with world(make_spec()) as w:
        w.store.latency = 0.06  # longer than a page should take
        w.store.fill(range(1, 20_000, 2))
        w.store.add(Row(LATE, epoch=1, time_next=w.store.clock.now_ns() + 3600 * SECOND))
        receiver = await w.receive(condition=EVEN)
        await pass_time(3.0)
        w.store.tables[NAME][LATE].time_next = LATE
        cause(w)
        await pass_time(2.5)
        assert receiver.ids == [LATE]


@in_virtual_time
async def test_the_next_of_a_key_does_not_wait_either_where_a_failed_message_is_skipped():
    async with world(make_spec(order_key="payload", on_failure="skip")) as w:
        w.store.latency = 0.06
        w.store.fill(range(1, 20_000, 2))
        w.store.add(Row(LATE, time_next=LATE, payload="a"), Row(NEXT, time_next=NEXT, payload="a"))
        receiver = await w.receive(condition=EVEN)
        await pass_time(3.0)
        assert receiver.ids == [LATE]
        w.store.tables[NAME][LATE].time_next = w.store.clock.now_ns() + 600 * SECOND
        w.engine.committed(CommitReport(touched=QUEUE, changed={NAME: (LATE,)}))
        await pass_time(2.5)
        assert receiver.ids == [LATE, NEXT]

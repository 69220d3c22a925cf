"""The look of a receiver set with a condition, where the cache is too small for what it finds."""

from __future__ import annotations

from decimal import Decimal

from memory_store import Row, make_spec
from virtual_time import in_virtual_time, pass_time
from world import world

from engine.model.queue import Condition

EVEN = Condition("id % 2 == 0")


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

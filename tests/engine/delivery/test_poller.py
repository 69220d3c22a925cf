"""When a look is made again, where it brings nothing that can be claimed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from unittest.mock import MagicMock

from engine_parts import queue_context
from hypothesis import given
from hypothesis import strategies as st
from memory_store import NAME, MemoryStore, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time

from engine.delivery.cache import MessageCache
from engine.delivery.conflicts import FIRST_PAUSE_SECONDS, Conflicts
from engine.delivery.poller import Poller
from engine.model.queue import MessageKey
from engine.store.base import PollResult
from engine.store.sharded_store import ShardedStore

THERE = {"-80": PollResult(1, (MessageKey(0, 0, 7),), None, more=True)}


@in_virtual_time
async def test_a_look_that_brings_only_locked_messages_is_not_repeated_before_their_pause_is_over():
    """An order_key lets a look bring fewer than it was asked for, with more behind them."""
    clock, conflicts, queue = VirtualClock(), Conflicts(), make_spec(cache_size=1)
    cache = MessageCache(1)
    poller = Poller(queue_context(MemoryStore(clock), clock, work=1), cache, conflicts)
    conflicts.add([1], clock.monotonic())
    poller.start(queue, 5)
    looked = poller.finish(PollResult(clock.now_ns(), (MessageKey(0, 0, 1),), None, more=True))
    assert not looked.complete
    assert not poller.poll_due(queue, needs_more=True)
    await pass_time(FIRST_PAUSE_SECONDS)
    assert poller.poll_due(queue, needs_more=True)
    poller.start(queue, 5)
    poller.finish(PollResult(clock.now_ns(), (MessageKey(0, 0, 1),), None, more=True))
    assert poller.poll_due(queue, needs_more=True), "what may be claimed is"


@in_virtual_time
async def test_what_shards_have_read_ahead_serves_only_to_get_more():
    clock, given, queue = VirtualClock(), [], make_spec(poll_interval_ns=10**9)
    store, cache = MemoryStore(clock), MessageCache(1000)
    poller = Poller(queue_context(store, clock, work=1), cache, Conflicts())

    async def poll(queue, limit, ahead):
        given.append(ahead)
        return PollResult(clock.now_ns(), (), None, True, THERE)

    store.poll = poll
    await poller.run_once(queue, 5)
    await poller.run_once(queue, 5)
    poller.request_poll()
    await poller.run_once(queue, 5)
    await pass_time(1)
    await poller.run_once(queue, 5)
    poller.reset()
    poller.start(queue, 5)
    assert given == [{}, THERE, {}, {}] and not poller.ahead


class Shards:
    """A queue over three shards, which have these keys."""

    def __init__(self, keys, random):
        self.keys = {shard: [] for shard in ("-40", "40-80", "80-")}
        for key in keys:
            self.keys[random.choice(sorted(self.keys))].append(key)
        self.store = ShardedStore(MagicMock(), lambda target: MagicMock(poll=self.polls_of(target)))
        self.queue = replace(make_spec(), shards=tuple(self.keys))

    def polls_of(self, target):
        async def poll(_, limit):
            keys = self.keys[target.removeprefix(f"{NAME.database}:")]
            return PollResult(1, tuple(keys[:limit]), None, len(keys) > limit)

        return poll

    def claim(self, keys):
        self.keys = {shard: [key for key in left if key not in keys] for shard, left in self.keys.items()}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=60), st.integers(1, 9), st.randoms())
def test_what_shards_have_read_ahead_hides_nothing_that_waits_in_the_cache(rows, limit, random):
    keys = sorted(MessageKey(*row, id_) for id_, row in enumerate(rows))

    async def takes_all():
        clock, shards, cache, taken = VirtualClock(), Shards(keys, random), MessageCache(limit), []
        poller = Poller(queue_context(shards.store, clock, work=1), cache, Conflicts())
        complete = False
        while cache or not complete:
            room = random.randint(1, limit)
            if not complete and cache.together < room:
                complete = (await poller.run_once(shards.queue, room)).complete
            some = cache.take(random.randint(1, room))
            shards.claim(some)
            taken += some
        return taken

    assert asyncio.run(takes_all()) == keys


@in_virtual_time
async def test_few_keys_are_requested_where_all_receivers_end_after_what_they_take():
    clock = VirtualClock()
    poller = Poller(queue_context(MemoryStore(clock), clock, work=1), MessageCache(1000), Conflicts())
    assert poller.start(make_spec(), 1) == 1000
    assert poller.start(make_spec(), 1, brief=True) == 10
    assert poller.start(make_spec(), 25, brief=True) == 25
    assert poller.start(make_spec(max_concurrency=3), 1, brief=True) == 1000, "a short list might contain only such"

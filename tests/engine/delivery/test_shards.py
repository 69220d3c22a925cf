"""A queue over two shards whose trouble differs: what one of them does not do holds up no other."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from memory_store import NAME, MemoryStore, Row, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle
from world import World

from engine.model.commit_report import CommitReport
from engine.model.errors import AnswerTooLarge, BackendError
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.store.base import LeaseUnknown, Release
from engine.store.sharded_store import ShardedStore

READ_ONLY = BackendError("The MySQL server is running with the --super-read-only option", 1290, "HY000")
ALTERED = BackendError("Unknown column 'lease_token' in 'field list'", 1054, "42S22")


class Part(MemoryStore):
    groups = None

    def retain(self, queues):
        pass

    async def close(self):
        pass


class Ahead(VirtualClock):
    """A clock that is 0.9 seconds ahead."""

    def now_ns(self):
        return super().now_ns() + 9 * SECOND // 10


class Shards:
    """Even ids are in `a`, odd ones in `b`."""

    def __init__(self, spec) -> None:
        clock = VirtualClock()
        whole, self.a, self.b = (Part(clock) for _ in range(3))
        for part in (whole, self.a, self.b):
            part.serve(spec)
        store = ShardedStore(whole, {"main:-80": self.a, "main:80-": self.b}.__getitem__)
        store.serve = whole.serve
        self.world = World(spec, store=store)

    async def commit(self, *ids: int) -> None:
        for id_ in ids:
            (self.b if id_ % 2 else self.a).add(Row(id_))
        self.world.engine.enqueued(NAME, 0, len(ids))
        await settle()

    async def traffic(self, first: int, seconds: float, every: float) -> None:
        """A message in `b` every so often."""
        for number in range(int(seconds / every)):
            await self.commit(first + 2 * number)
            await pass_time(every)


@asynccontextmanager
async def sharded(**options) -> AsyncIterator[Shards]:
    named = {"ack_wait_ns": 3600 * SECOND, "prefetch": 10_000, "batch_size": 100, **options}
    shards = Shards(dataclasses.replace(make_spec(**named), shards=("-80", "80-")))
    await shards.world.engine.open()
    try:
        yield shards
    finally:
        for receiver in shards.world.receivers:
            await receiver.close()
        await shards.world.engine.close()


def even(receiver):
    return sorted(id_ for id_ in receiver.ids if id_ % 2 == 0)


def refuse_answers_above(part, most):
    """Claims of more messages there fail as a connection does that gives up reading; returns their sizes."""
    sizes, claim = [], part.claim

    async def bounded(queue, ids, *more, **named):
        sizes.append(len(ids))
        if len(ids) > most:
            raise LeaseUnknown(AnswerTooLarge(1 << 20), [Release(id_, 0, 10**18, 1) for id_ in ids])
        return await claim(queue, ids, *more, **named)

    part.claim = bounded
    return sizes


def lease_nothing(part):
    """It answers polls, as a server that is read-only."""

    async def refused(*_, **__):
        raise READ_ONLY

    part.claim = part.claim_added = refused


def lease_again(part):
    del part.claim, part.claim_added


@pytest.mark.parametrize("every", [0.05, 0.5])
@in_virtual_time
async def test_large_rows_of_one_shard_are_delivered_beside_the_others_traffic(every, caplog):
    async with sharded() as shards:
        sizes = refuse_answers_above(shards.a, 1)
        shards.a.fill(range(2, 34, 2))
        receiver = await shards.world.receive()
        await shards.traffic(1001, 4, every)
        assert even(receiver) == list(range(2, 34, 2))
        assert len(receiver.ids) == len(set(receiver.ids)) == 16 + int(4 / every)
        assert max(sizes) > 1 and "does not answer" not in caplog.text


@in_virtual_time
async def test_a_claim_of_which_one_shard_fails_its_part():
    """The other part is delivered, and what has failed is claimed again at once, in smaller parts."""
    async with sharded() as shards:
        sizes = refuse_answers_above(shards.a, 1)
        shards.a.fill(range(2, 18, 2))
        shards.b.fill(range(1, 17, 2))
        receiver = await shards.world.receive()
        await pass_time(0.1)
        assert sorted(receiver.ids) == list(range(1, 17)) and max(sizes) > 1
        assert shards.world.manager.leases.releases.next_attempt() is None
        assert not shards.world.manager.database_failing


@in_virtual_time
async def test_a_message_that_one_shard_refuses_is_set_aside_beside_the_others_traffic():
    async with sharded() as shards:
        shards.a.fill(range(2, 42, 2))
        shards.a.refused.add(2)
        receiver = await shards.world.receive()
        await shards.traffic(1001, 2, 0.05)
        assert even(receiver) == list(range(4, 42, 2))
        assert [id_ for id_, _ in shards.world.manager.status().refused] == ["2"]


@in_virtual_time
async def test_one_message_that_is_too_large_for_an_answer_is_set_aside():
    async with sharded() as shards:
        sizes = refuse_answers_above(shards.a, 0)
        shards.a.fill(range(2, 4, 2))
        receiver = await shards.world.receive()
        await shards.traffic(1001, 2, 0.5)
        assert len(receiver.ids) == 4 and len(sizes) < 10
        assert [id_ for id_, _ in shards.world.manager.status().refused] == ["2"]


@pytest.mark.parametrize("error", [READ_ONLY, ALTERED], ids=["read-only", "altered"])
@in_virtual_time
async def test_leases_that_one_shard_does_not_release_hold_up_no_other(error):
    async with sharded() as shards:
        await shards.commit(2, 1)
        gone = await shards.world.receive()
        assert sorted(gone.ids) == [1, 2]
        receiver = await shards.world.receive()
        shards.a.down = error
        await gone.close()
        await pass_time(1.0)
        assert receiver.ids == [1], "what the other shard has released"
        await shards.traffic(1001, 60, 1.0)
        assert len(receiver.ids) == 61
        shards.a.down = None
        await pass_time(10.0)
        assert even(receiver) == ([2] if error is READ_ONLY else []), "it is tried until it is released"


@in_virtual_time
async def test_messages_whose_state_one_shard_does_not_tell_hold_up_no_other():
    async with sharded() as shards:
        await shards.commit(2, 1)
        receiver = await shards.world.receive()
        shards.a.down = ALTERED
        shards.world.engine.committed(CommitReport(uncertain=frozenset((NAME,))))
        await shards.traffic(1001, 60, 1.0)
        assert len(receiver.ids) == 62


@in_virtual_time
async def test_leases_that_are_shorter_than_the_clocks_of_shards_differ():
    async with sharded(ack_wait_ns=SECOND // 2, min_backoff_ns=0) as shards:
        shards.b.clock = Ahead()
        receiver = await shards.world.receive()
        shards.a.fill(range(2, 22, 2))
        shards.b.fill(range(1, 21, 2))
        await shards.commit()
        await pass_time(0.2)
        assert sorted(receiver.ids) == list(range(1, 21))


@in_virtual_time
async def test_a_shard_that_is_polled_and_leases_nothing_holds_up_no_other(caplog):
    async with sharded() as shards:
        lease_nothing(shards.a)
        shards.a.fill(range(2, 2002, 2))
        now_ns = shards.world.clock.now_ns()
        shards.b.add(*(Row(1 + 2 * number, time_next=now_ns + number * SECOND) for number in range(60)))
        receiver = await shards.world.receive()
        await pass_time(62)
        assert len(receiver.ids) == 60
        assert max(at - receiver.times[0] - number for number, at in enumerate(receiver.times)) < 1.1
        assert caplog.text.count("is left out") <= 2 and "trouble" not in caplog.text
        lease_again(shards.a)
        await pass_time(10.0)
        assert even(receiver) == list(range(2, 2002, 2))


@in_virtual_time
async def test_where_all_shards_are_read_only_the_queue_pauses(caplog):
    async with sharded() as shards:
        lease_nothing(shards.a)
        lease_nothing(shards.b)
        shards.a.fill(range(2, 102, 2))
        shards.b.fill(range(1, 101, 2))
        receiver = await shards.world.receive()
        await pass_time(60)
        assert shards.world.manager.database_failing and len(caplog.records) < 10
        lease_again(shards.a)
        lease_again(shards.b)
        await pass_time(12)
        assert len(receiver.ids) == 100


@in_virtual_time
async def test_a_message_that_a_shard_refuses_is_no_trouble_of_the_shard(caplog):
    async with sharded() as shards:
        shards.a.fill(range(2, 12, 2))
        shards.b.fill(range(1, 12, 2))
        shards.a.refused.add(2)
        receiver = await shards.world.receive()
        await pass_time(2)
        assert sorted(receiver.ids) == [id_ for id_ in range(1, 12) if id_ != 2]
        assert "does no work" not in caplog.text and "message 2 cannot be leased" in caplog.text


@in_virtual_time
async def test_a_shard_that_purges_nothing_is_told_of(caplog):
    async def denied(*_, **__):
        raise BackendError("DELETE command denied", 1142, "42000")

    async with sharded(purge_after_ns=0, poll_interval_ns=SECOND) as shards:
        shards.a.purge = denied
        for id_ in range(100, 140):
            part = shards.b if id_ % 2 else shards.a
            part.add(Row(id_))
            part.ack(id_)
            await pass_time(0.5)
        assert len(shards.a.tables[NAME]) == 20 and len(shards.b.tables[NAME]) < 5
        assert "1142" in str(shards.world.engine.queues.problems())
        assert "does no work" in caplog.text

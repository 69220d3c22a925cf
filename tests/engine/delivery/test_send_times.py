"""Nothing goes to a receiver whose lease has no time left: neither of a claim answered late, nor out of a buffer."""

from __future__ import annotations

import asyncio

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.model.commit_report import CommitReport
from engine.model.errors import LockWaitTimeout
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import SubscribeRequest, WaitMode

SPEC = make_spec(ack_wait_ns=2 * SECOND, min_backoff_ns=0, max_backoff_ns=1)


class StandingStill:
    """A process that stands still for some time as the answers of a call arrive."""

    def __init__(self, world, name, seconds, times=1):
        self.calls = 0
        real = getattr(world.store, name)

        async def late(*args, **options):
            answer = await real(*args, **options)
            self.calls += 1
            if self.calls <= times:
                await pass_time(seconds)
            return answer

        setattr(world.store, name, late)


@pytest.mark.parametrize(
    ("call", "told", "backlog"),
    [("poll_and_claim", (), 1), ("claim_added", (1,), 1), ("claim", (), 2000)],
    ids=["poll and claim", "what a commit told", "a backlog"],
)
@in_virtual_time
async def test_a_claim_that_is_answered_after_its_leases_is_not_handed_out(call, told, backlog):
    async with world(SPEC) as w:
        receiver = await w.receive()
        await pass_time(1.0)
        if told:
            await w.commit(Row(1000), told=(1000,))  # the database's clock is known from then on
            w.ack(1000)
        still = StandingStill(w, call, 3.0)
        before = len(receiver.ids)
        await w.commit(*(Row(n) for n in range(1, backlog + 1)), told=told)
        await pass_time(2.9)
        assert still.calls == 1, "the fault was not planted"
        assert len(receiver.ids) == before
        await pass_time(0.2)
        await settle()
        assert 1 in receiver.ids
        assert w.store.tables[NAME][1].epoch == 1, "what was not sent is no attempt"
        assert max(receiver.epochs) == 1


@in_virtual_time
async def test_a_claim_that_is_answered_late_is_measured_from_before_it_was_sent():
    """Answered after three quarters of its lease, it is handed out with what is left."""
    async with world(SPEC) as w:
        receiver = await w.receive()
        StandingStill(w, "poll_and_claim", 1.5)
        await w.commit(Row(1))
        await pass_time(1.6)
        (batch,) = receiver.batches
        assert receiver.subscription.seconds_left(batch) == pytest.approx(0.4, abs=0.01)
        assert not receiver.subscription.drop_expired(batch)
        await pass_time(0.5)
        assert list(receiver.subscription.drop_expired(batch)) == [0]


@in_virtual_time
async def test_waiting_for_a_turn_at_the_database_takes_nothing_off_a_lease():
    async with world(SPEC, work_limit=1) as w:
        receiver = await w.receive()
        busy = asyncio.Event()
        blocking = asyncio.create_task(w.engine._running.context.work.run(busy.wait()))
        await settle()
        await w.commit(Row(1))
        await pass_time(5.0)
        busy.set()
        await blocking
        await settle()
        (batch,) = receiver.batches
        assert receiver.subscription.seconds_left(batch) == pytest.approx(2.0, abs=0.01)


@in_virtual_time
async def test_what_waits_in_a_buffer_until_its_lease_is_over_goes_to_another():
    async with world(SPEC) as w:
        slow = await w.receive(reading=False)
        await w.commit(Row(1), Row(2))
        (batch,) = slow.batches
        assert batch.part(0, 1).rows + batch.part(1).rows == batch.rows
        heir = await w.receive()
        await pass_time(2.1)
        assert heir.ids == [1, 2]
        assert list(slow.subscription.drop_expired(batch.part(1))) == [0] and slow.subscription.sent == 1
        await pass_time(0.5)
        assert [w.store.tables[NAME][n].epoch for n in (1, 2)] == [2, 2], "the heir's leases stand"


@in_virtual_time
async def test_what_waits_in_a_buffer_and_was_not_leased_again_is_no_attempt():
    async with world(SPEC) as w:
        slow = await w.receive(reading=False)
        await w.commit(Row(1))
        await pass_time(2.1)
        (batch,) = slow.batches
        assert list(slow.subscription.drop_expired(batch)) == [0]
        await pass_time(0.5)
        assert w.store.tables[NAME][1].epoch == 0 and slow.subscription.sent == 0
        assert not slow.subscription.unacked


@in_virtual_time
async def test_a_lease_renewed_while_its_message_waits_in_a_buffer_goes_on():
    async with world(SPEC) as w:
        slow = await w.receive(reading=False)
        await w.commit(Row(1))
        (batch,) = slow.batches
        row = w.store.tables[NAME][1]
        row.time_next += 10 * SECOND
        w.engine.committed(CommitReport(changed={NAME: (1,)}))
        await pass_time(3.0)
        assert not slow.subscription.drop_expired(batch)
        await pass_time(10.0)
        assert list(slow.subscription.drop_expired(batch)) == [0]


@pytest.mark.parametrize("mode", [WaitMode.WAIT, WaitMode.NOWAIT])
@in_virtual_time
async def test_a_result_from_which_everything_is_dropped_does_not_end_as_if_nothing_had_been_due(mode):
    async with world(SPEC) as w:
        w.store.fill(range(1, 3))
        subscription = await w.engine.subscribe(SubscribeRequest(NAME, limit=1, wait_mode=mode, wait_seconds=5.0))
        batch = await anext(subscription)
        await pass_time(2.1)
        assert list(subscription.drop_expired(batch)) == [0]
        with pytest.raises(LockWaitTimeout) as ended:
            await anext(subscription)
        assert ended.value.errno == 1205
        await subscription.close(release=True)


@in_virtual_time
async def test_a_result_that_is_not_at_its_limit_is_given_others():
    async with world(SPEC) as w:
        w.store.fill(range(1, 3))
        subscription = await w.engine.subscribe(
            SubscribeRequest(NAME, limit=3, wait_mode=WaitMode.WAIT, wait_seconds=9)
        )
        batch = await anext(subscription)
        assert len(batch.rows) == 2
        await pass_time(2.1)
        assert list(subscription.drop_expired(batch)) == [0, 1]
        assert len((await anext(subscription)).rows) == 2
        await subscription.close(release=True)


@in_virtual_time
async def test_what_waits_in_a_buffer_and_is_settled_or_given_up_is_not_sent():
    async with world(make_spec(ack_wait_ns=3600 * SECOND)) as w:
        slow = await w.receive(reading=False)
        await w.commit(*(Row(n) for n in range(1, 7)))
        (batch,) = slow.batches
        w.ack(1)
        w.ack(2, heard=False)
        w.engine.committed(CommitReport(uncertain=frozenset((NAME,))))
        w.store.tables[NAME][4].time_next = 0
        w.store.tables[NAME][4].epoch = 0
        w.engine.committed(CommitReport(changed={NAME: (4,)}, touched=frozenset((NAME,))))
        await pass_time(1.1)
        assert list(slow.subscription.drop_expired(batch)) == [0, 1, 3]
        assert slow.subscription.sent == 3 and slow.subscription.unacked == 3
        releases = w.store.calls["release"]
        heir = await w.receive()
        await pass_time(0.5)
        assert heir.ids == [4] and list(slow.subscription.drop_expired(batch.part(3))) == [0]
        assert w.store.calls["release"] == releases == 0, "nobody's lease is given back"
        assert w.store.tables[NAME][4].epoch == 1


@pytest.mark.parametrize("mode", [WaitMode.WAIT, WaitMode.NOWAIT])
@in_virtual_time
async def test_a_result_at_its_limit_is_sent_although_it_has_ended(mode):
    async with world(make_spec(ack_wait_ns=3600 * SECOND)) as w:
        w.store.fill(range(1, 4))
        subscription = await w.engine.subscribe(SubscribeRequest(NAME, limit=3, wait_mode=mode, wait_seconds=5.0))
        batch = await anext(subscription)
        assert subscription.has_ended and not subscription.drop_expired(batch)
        w.ack(2)
        assert list(subscription.drop_expired(batch)) == [1] and subscription.sent == 2
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)
        await subscription.close(release=False)
        await settle()
        assert [w.store.tables[NAME][n].epoch for n in (1, 3)] == [1, 1]

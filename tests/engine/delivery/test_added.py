"""Messages that a commit has just added, claimed without a look; in virtual time over the in-memory store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.clock import Clock
from engine.delivery.cache import CONFIRM_SECONDS, AddedIds
from engine.model.commit_report import ADDED_MAX, CommitReport
from engine.model.errors import BackendUnavailable
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import Condition
from engine.model.states import lease_end


@dataclass
class Ahead:
    """A clock that differs from another one."""

    clock: Clock
    by_ns: int

    def now_ns(self) -> int:
        return self.clock.now_ns() + self.by_ns

    def monotonic(self) -> float:
        return self.clock.monotonic()


async def listening(w, **request):
    """A receiver of a queue whose database's clock is known, and nothing counted yet."""
    receiver = await w.receive(**request)
    await w.commit(Row(1))
    assert receiver.ids == [1]
    w.store.calls.clear()
    return receiver


@in_virtual_time
async def test_what_a_commit_has_added_is_claimed_without_a_look():
    async with world() as w:
        receiver = await listening(w)
        await w.commit(Row(2, time_next=7, payload="hello"), told=[2])
        assert receiver.ids == [1, 2] and receiver.times == [1000.0, 1000.0]
        assert w.store.calls == {"claim_added": 1}
        message, row = receiver.batches[-1].messages[0], w.store.tables[NAME][2]
        assert (row.epoch, row.time_next) == (1, message.lease_until_ns) and message.due_ns == 7
        assert message.lease_until_ns == lease_end(w.clock.now_ns() + 60 * SECOND)
        assert receiver.batches[-1].rows == ((b"2", b"hello"),)


@in_virtual_time
async def test_several_are_claimed_at_once_and_come_in_order():
    async with world() as w:
        receiver = await listening(w)
        await w.commit(Row(2, time_next=9), Row(3, priority=1, time_next=9), Row(4, time_next=8), told=[2, 3, 4])
        assert receiver.ids == [1, 3, 4, 2]
        assert w.store.calls == {"claim_added": 1}


@in_virtual_time
async def test_they_are_spread_over_the_receivers_that_wait():
    async with world() as w:
        receivers = [await w.receive() for _ in range(3)]
        await w.commit(Row(1))
        await w.commit(*(Row(id_) for id_ in range(2, 8)), told=range(2, 8))
        assert [len(receiver.ids) for receiver in receivers] in ([3, 2, 2], [2, 3, 2], [2, 2, 3])


@in_virtual_time
async def test_a_wrong_hint_is_followed_by_a_look_at_once():
    async with world() as w:
        receiver = await listening(w)
        await w.commit(Row(7), told=[2])
        assert receiver.ids == [1, 7] and receiver.times[-1] == 1000.0
        await w.commit(Row(10), Row(12), told=[10, 11])
        assert receiver.ids == [1, 7, 10, 12] and receiver.times[-1] == 1000.0


@in_virtual_time
async def test_what_a_hint_leaves_out_is_found_within_a_second():
    async with world() as w:
        receiver = await listening(w)
        await w.commit(Row(2), Row(3), told=[2])
        assert receiver.ids == [1, 2]
        await pass_time(CONFIRM_SECONDS + 0.01)
        assert receiver.ids == [1, 2, 3]


@in_virtual_time
async def test_a_message_that_is_not_due_comes_when_it_is():
    async with world() as w:
        receiver = await listening(w)
        await w.commit(Row(2, time_next=w.clock.now_ns() + 5 * SECOND), told=[2])
        assert receiver.ids == [1]
        await pass_time(5.01)
        assert receiver.ids == [1, 2]


@in_virtual_time
async def test_a_message_that_was_delivered_before_is_left_to_a_look():
    async with world() as w:
        receiver = await listening(w)
        await w.commit(Row(2, epoch=3), told=[2])
        assert receiver.ids == [1, 2] and receiver.epochs == [1, 4]
        assert w.store.calls["poll"] == 1


@in_virtual_time
async def test_a_locked_one_stops_no_other():
    async with world() as w:
        receiver = await listening(w)
        w.store.locked.add(2)
        await w.commit(Row(2), Row(3), told=[2, 3])
        assert receiver.ids == [1, 3]
        w.store.locked.clear()
        await pass_time(1.0)
        assert receiver.ids == [1, 3, 2]


@in_virtual_time
async def test_a_database_whose_clock_was_set_leases_by_its_own_time():
    async with world() as w:
        receiver = await listening(w)
        w.store.clock = Ahead(w.clock, 10 * SECOND)
        await w.commit(Row(2), told=[2])
        assert receiver.ids == [1, 2]
        assert receiver.batches[-1].messages[0].lease_until_ns == lease_end(w.clock.now_ns() + 70 * SECOND)
        w.store.calls.clear()
        await w.commit(Row(3), told=[3])
        assert receiver.ids == [1, 2, 3] and w.store.calls == {"claim_added": 1}


@in_virtual_time
async def test_what_was_acked_while_it_was_claimed_is_not_sent():
    async with world() as w:
        receiver = await listening(w)

        async def ack_two():
            w.ack(2)

        w.store.during["claim_added"] = ack_two
        await w.commit(Row(2), Row(3), told=[2, 3])
        assert receiver.ids == [1, 3]


@in_virtual_time
async def test_a_commit_while_they_are_claimed_is_served_next():
    async with world() as w:
        receiver = await listening(w)

        async def commit_more():
            w.store.add(Row(3))
            w.engine.committed(CommitReport(touched=frozenset((NAME,)), added={NAME: (3,)}))

        w.store.during["claim_added"] = commit_more
        await w.commit(Row(2), told=[2])
        assert receiver.ids == [1, 2, 3] and w.store.calls == {"claim_added": 2}


@in_virtual_time
async def test_a_commit_that_tells_nothing_beside_one_that_does_is_looked_for():
    async with world() as w:
        receiver = await listening(w)
        w.store.add(Row(2), Row(3, priority=1))
        w.engine.committed(CommitReport(touched=frozenset((NAME,)), added={NAME: (2,)}))
        w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        await settle()
        assert receiver.ids == [1, 3, 2]
        assert "claim_added" not in w.store.calls


@in_virtual_time
async def test_a_full_window_gets_them_by_a_look_once_it_has_room():
    async with world() as w:
        receiver = await w.receive(prefetch=1)
        await w.commit(Row(1))
        w.store.calls.clear()
        await w.commit(Row(2), told=[2])
        assert receiver.ids == [1] and "claim_added" not in w.store.calls
        w.ack(1)
        await settle()
        assert receiver.ids == [1, 2]


@in_virtual_time
async def test_with_receivers_under_a_condition_all_are_looked_for():
    async with world() as w:
        await listening(w)
        await w.receive(condition=Condition("payload == 'b'"))
        w.store.calls.clear()
        await w.commit(Row(2), told=[2])
        assert "claim_added" not in w.store.calls


@in_virtual_time
async def test_a_queue_with_limits_is_looked_at():
    async with world(make_spec(max_concurrency=5)) as w:
        receiver = await listening(w)
        await w.commit(Row(2), told=[2])
        assert receiver.ids == [1, 2] and "claim_added" not in w.store.calls


@in_virtual_time
async def test_a_receiver_that_leaves_meanwhile_gives_back_uncounted():
    async with world() as w:
        receiver, later = await listening(w), []

        async def leave():
            receiver.task.cancel()
            later.append(asyncio.create_task(receiver.subscription.close(release=True)))
            await settle()

        w.store.during["claim_added"] = leave
        await w.commit(Row(2, time_next=5), told=[2])
        await settle()
        row = w.store.tables[NAME][2]
        assert (row.time_next, row.epoch) == (5, 0)
        assert (await w.receive()).epochs[-1] == 1


@in_virtual_time
async def test_a_lease_whose_answer_was_lost_is_given_back():
    async with world() as w:
        receiver = await listening(w)

        async def lose_the_answer():
            w.store.fail_after = BackendUnavailable("gone")

        w.store.during["claim_added"] = lose_the_answer
        await w.commit(Row(2), told=[2])
        w.store.fail_after = None
        await pass_time(5.0)
        assert receiver.ids == [1, 2] and receiver.times[-1] < 1005.0, "not only when the lease has run out"


@in_virtual_time
async def test_hints_that_are_always_wrong_are_mostly_left():
    async with world() as w:
        receiver = await listening(w)
        for id_ in range(10, 110):
            await w.commit(Row(id_), told=[5])
        assert len(receiver.ids) == 101
        assert w.store.calls["claim_added"] < 10
        w.store.calls.clear()
        for id_ in range(110, 210):
            await w.commit(Row(id_), told=[id_])
        assert w.store.calls["claim_added"] > 60, "right ones are followed again"


@in_virtual_time
async def test_a_bounded_result_waits_for_what_it_was_told_of():
    async with world() as w:
        await listening(w)
        w.store.latency = 0.01
        w.store.add(Row(2))
        w.engine.committed(CommitReport(touched=frozenset((NAME,)), added={NAME: (2,)}))
        w.ack(1)
        fetched = await w.fetch(limit=5)
        others = [id_ for receiver in w.receivers for id_ in receiver.ids]
        assert sorted(others) == [1, 2] and not set(fetched.ids) & {1}


@in_virtual_time
async def test_a_wrong_hint_whose_id_ends_before_the_claim_is_followed_by_a_look():
    """The commit of message 7 is told as 1, and 1 is acked in the same moment: 7 is still to be found."""
    async with world() as w:
        receiver = await listening(w)
        w.store.add(Row(7))
        w.engine.committed(CommitReport(touched=frozenset((NAME,)), added={NAME: (1,)}))
        w.ack(1)
        await settle()
        assert receiver.ids == [1, 7] and receiver.times[-1] == 1000.0


@in_virtual_time
async def test_a_wrong_hint_whose_id_a_look_under_way_finds_is_followed_by_another():
    async with world() as w:
        receiver = await listening(w)
        await pass_time(2.0)
        w.store.latency = 0.01
        w.store.add(Row(2))  # around the proxy: found by the look after poll_interval
        poller = w.manager.receiver_sets.plain.messages.poller
        await pass_time(poller.next_poll(make_spec()) - w.clock.monotonic() + 0.012)
        w.store.add(Row(7))
        w.engine.committed(CommitReport(touched=frozenset((NAME,)), added={NAME: (2,)}))
        await pass_time(CONFIRM_SECONDS + 0.1)
        assert receiver.ids == [1, 2, 7]


def test_ids_are_kept_up_to_a_bound():
    added = AddedIds()
    assert added.add(range(ADDED_MAX)) and not added.add([ADDED_MAX])
    assert added.discard({0, 1}) and not added.discard({0, ADDED_MAX})
    assert len(added) == ADDED_MAX - 2
    assert list(added.take()) == list(range(2, ADDED_MAX)) and not added


@in_virtual_time
async def test_a_backlog_in_a_small_window_is_claimed_without_a_look_again_and_again():
    async with world() as w:
        w.store.fill(range(1, 31))
        receiver = await w.receive(prefetch=2)
        for id_ in range(1, 31):
            w.ack(id_)
            await settle()
        assert receiver.ids == [*range(1, 31)] and set(receiver.epochs) == {1}
        assert w.store.calls["claim"] == 1, "the first, which finds the database's time"
        assert w.store.calls["claim_added"] >= 14


@in_virtual_time
async def test_of_a_backlog_what_was_delivered_before_is_claimed_with_a_look_at_once():
    async with world() as w:
        w.store.fill(range(1, 9))
        w.store.add(Row(9, time_next=9, time_scheduled=0, epoch=3))
        receiver = await w.receive(prefetch=4)
        w.ack(1, 2, 3, 4)
        await settle()
        assert receiver.ids == [*range(1, 9)]
        w.ack(5, heard=False)
        w.ack(6, 7, 8)
        await settle()
        assert receiver.ids == [*range(1, 10)] and receiver.epochs[-1] == 4
        assert w.store.calls["claim"] == 2, "the first, and that of what was delivered before"


@in_virtual_time
async def test_a_row_that_another_session_has_locked_holds_up_no_other_of_a_backlog():
    async with world() as w:
        w.store.fill(range(1, 7))
        receiver = await w.receive(prefetch=2)
        w.store.locked.add(3)
        w.ack(1, 2)
        await settle()
        assert 4 in receiver.ids and 3 not in receiver.ids
        w.store.locked.clear()
        await pass_time(2.0)
        w.ack(*(id_ for id_ in receiver.ids if id_ > 2))
        await settle()
        assert sorted(receiver.ids)[:5] == [1, 2, 3, 4, 5] and set(receiver.epochs) == {1}


@in_virtual_time
async def test_a_queue_that_gets_limits_meanwhile_is_claimed_with_a_look():
    async with world() as w:
        w.store.fill(range(1, 7))
        receiver = await w.receive(prefetch=2)
        w.ack(1, 2)
        await settle()
        assert receiver.ids == [1, 2, 3, 4] and w.store.calls["claim_added"]
        w.store.serve(make_spec(max_concurrency=5))
        await w.engine.refresh_catalog()
        w.store.calls.clear()
        w.ack(3, 4)
        await settle()
        assert receiver.ids == [*range(1, 7)] and "claim_added" not in w.store.calls

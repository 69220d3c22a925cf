"""Attempts that are bounded: what a crash counts, and what is handed out alone after it (docs/message_lifecycle.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import Receiver, World, world

from engine.delivery.isolated_delivery import CLOSED_RESULT_LEASES_MAX, ClosedResultLeases
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import Condition, QueueSpec
from engine.model.states import REJECTED_NS, due_again, goes_alone, is_alongside, is_lease_end, lease_end

POISON = 3
HOUR = 3600 * SECOND


def bounded(attempts: int = 3, **options: object) -> QueueSpec:
    """A queue of which no lease runs out by itself."""
    waits = {"ack_wait_ns": HOUR, "min_backoff_ns": 0, "max_backoff_ns": 2 * HOUR, "poll_interval_ns": HOUR}
    return make_spec(max_attempts=attempts, **(waits | options))


def fill(w: World, ids: Iterable[int]) -> None:
    """Due messages, in the order of their ids."""
    w.store.add(*(Row(id_, time_next=id_ * 1000) for id_ in ids))


def dead(w: World) -> list[object]:
    return [row.id for row in w.store.tables[NAME].values() if row.time_next == REJECTED_NS]


def alone(w: World) -> list[object]:
    rows = w.store.tables[NAME].values()
    return [row.id for row in rows if row.time_acked is None and row.due_ns < REJECTED_NS and row.due_ns % 1000 == 2]


async def crashes(w: World, limit: int, **request: object) -> int:
    """A receiver after another acks what it gets, and dies of the poison, until nothing is left for the next one."""
    for crash in range(limit):
        receiver = await w.receive(connection_id=100 + crash, **request)
        taken = 0
        while taken < len(receiver.ids) and receiver.ids[taken] != POISON:
            w.ack(receiver.ids[taken])
            taken += 1
            await settle()
        if taken == len(receiver.ids):
            await receiver.close()
            return crash
        await receiver.close()
        await settle()
    return limit


@in_virtual_time
@pytest.mark.parametrize("prefetch", [1, 2, 50])
async def test_a_poison_message_costs_one_dead_letter_and_no_innocent(prefetch):
    async with world(bounded()) as w:
        fill(w, range(1, 51))
        assert await crashes(w, 9, prefetch=prefetch) in (3, 4)
        assert dead(w) == [POISON]
        assert all(row.time_acked is not None for row in w.store.tables[NAME].values() if row.id != POISON)
        assert w.store.tables[NAME][POISON].epoch == 3


@in_virtual_time
async def test_a_reader_that_dies_at_its_first_row_again_and_again_loses_nothing():
    """It reads one row of an endless stream and dies, whatever the row is."""
    async with world(bounded()) as w:
        fill(w, range(1, 51))
        for crash in range(3):
            receiver = await w.receive(connection_id=crash + 1)
            assert len(receiver.ids) == (50 if crash == 0 else 1)
            await receiver.close()
        assert dead(w) == []
        assert sorted(row.epoch for row in w.store.tables[NAME].values()) == [0] * 49 + [2]
        assert len(alone(w)) == 50


class Process:
    """A worker: one connection, which polls for as many messages as it has free slots; it dies of the poison."""

    def __init__(self, w: World, number: int, slots: int) -> None:
        self.w, self.number, self.slots = w, number, slots
        self.running: list[object] = []
        self.results: list[Receiver] = []
        self.most = 0

    async def poll(self) -> list[object]:
        free = self.slots - len(self.running)
        result = await self.w.fetch(limit=free, connection_id=self.number, by_connection=True, prefetch=1000)
        self.results.append(result)
        self.running += result.ids
        self.most = max(self.most, len(self.running))
        return result.ids

    async def work(self) -> bool:
        """Take and handle until nothing comes; False: it died."""
        while await self.poll() or self.running:
            if POISON in self.running:
                for result in self.results:
                    await result.subscription.connection_ended()
                await settle()
                return False
            self.w.ack(self.running.pop(0))
            await settle()
        return True


@in_virtual_time
@pytest.mark.parametrize("slots", [1, 4])
async def test_a_worker_whose_process_dies_of_one_message_loses_no_other(slots):
    async with world(bounded()) as w:
        fill(w, range(1, 21))
        died = 0
        while not await Process(w, 10 + died, slots).work():
            died += 1
            assert died < 9
        assert died <= 4 and dead(w) == [POISON]
        assert sum(row.time_acked is not None for row in w.store.tables[NAME].values()) == 19


@in_virtual_time
async def test_several_connections_of_one_process_are_not_handed_two_at_once():
    async with world(bounded()) as w:
        fill(w, range(1, 9))
        mine = [await w.receive(connection_id=n, prefetch=1, host=f"10.0.0.1:{n}", pid=1) for n in range(1, 5)]
        assert all(len(one.ids) == 1 for one in mine)
        for one in mine:  # the process dies: its connections end one after the other
            await one.close()
        assert len(alone(w)) == 4 and not any(row.epoch for row in w.store.tables[NAME].values())
        again = [await w.receive(connection_id=n, prefetch=1, host=f"10.0.0.1:{n}", pid=2) for n in range(11, 15)]
        assert [len(one.ids) for one in again] == [1] * 4
        held = [w.store.tables[NAME][one.ids[0]] for one in again]
        assert sum(row.id in (1, 2, 3, 4) for row in held) == 1
        other = await w.receive(connection_id=20, host="10.0.0.2:20", pid=2)
        assert other.ids and other.ids[0] in (1, 2, 3, 4)


@in_virtual_time
async def test_messages_alone_go_to_different_receivers_at_once():
    async with world(bounded()) as w:
        fill(w, range(1, 5))
        first = await w.receive(connection_id=1)
        assert first.ids == [1, 2, 3, 4]
        await first.close()
        receivers = [await w.receive(connection_id=n) for n in range(2, 6)]
        assert sorted(id_ for one in receivers for id_ in one.ids) == [1, 2, 3, 4]
        assert all(len(one.ids) == 1 for one in receivers)
        w.ack(receivers[0].ids[0])
        await w.commit(Row(9))
        assert receivers[0].ids[1:] == [9], "only who has ended the message gets more"


@in_virtual_time
async def test_a_receiver_that_is_always_busy_is_kept_free_for_it():
    """Two streams with messages to do all the time, of which neither ever held nothing."""
    async with world(bounded()) as w:
        fill(w, range(1, 101))
        busy = [await w.receive(connection_id=n, prefetch=5) for n in (1, 2)]
        lost = await w.receive(connection_id=3, prefetch=2)
        w.ack(*busy[0].ids[:2])
        await settle()
        ids = lost.ids
        assert len(ids) == 2 and all(w.store.tables[NAME][id_].time_acked is None for id_ in ids)
        await lost.close()
        got: set[object] = set()
        for _ in range(60):
            for one in busy:
                unacked = [id_ for id_ in one.ids if w.store.tables[NAME][id_].time_acked is None]
                assert len(set(unacked) & set(ids)) <= 1 and (not set(unacked) & set(ids) or len(unacked) == 1)
                got |= set(unacked) & set(ids)
                w.ack(*unacked[:1])
                await settle()
        assert got == set(ids)
        assert all(row.time_acked is not None for row in w.store.tables[NAME].values())


@in_virtual_time
async def test_others_go_on_while_one_is_kept_free():
    async with world(bounded()) as w:
        fill(w, range(1, 9))
        busy = [await w.receive(connection_id=n, prefetch=2) for n in (1, 2)]
        lost = await w.receive(connection_id=3, prefetch=2)
        assert all(len(one.ids) == 2 for one in (*busy, lost))
        await lost.close()
        w.ack(busy[0].ids[0], busy[1].ids[0])
        await settle()
        assert sorted(len(one.ids) for one in busy) == [2, 3], "one of them is kept free, the other goes on"
        assert len(alone(w)) == 2


@in_virtual_time
async def test_a_poll_of_who_holds_messages_ends_in_its_time():
    async with world(bounded()) as w:
        fill(w, (1, 2, 3))
        lost = await w.receive(connection_id=1, prefetch=2)
        await lost.close()
        busy = await w.fetch(limit=5, connection_id=2, by_connection=True)
        assert busy.ids == [1], "one alone, and nothing beside it"
        at = w.time
        for mode in ({}, {"wait": 2.0}):
            assert (await w.fetch(limit=5, connection_id=2, by_connection=True, **mode)).ids == []
        assert w.time - at <= 2.6
        w.ack(1)
        assert (await w.fetch(limit=5, connection_id=2, by_connection=True)).ids == [2]
        w.ack(2)
        assert (await w.fetch(limit=5, connection_id=2, by_connection=True)).ids == [3]


@in_virtual_time
async def test_what_only_time_holds_is_held_all_the_same():
    async with world(bounded()) as w:
        fill(w, (1, 2, 3))
        lost = await w.receive(connection_id=1, prefetch=2)
        await lost.close()
        assert (await w.fetch(limit=1, connection_id=2)).ids == [1]
        assert (await w.fetch(limit=1, connection_id=2)).ids == [], "it holds the first alone"
        assert (await w.fetch(limit=1, connection_id=3)).ids == [3], "others go on while one has a message alone"
        w.ack(1)
        assert (await w.fetch(limit=9, connection_id=2)).ids == [2]


@in_virtual_time
async def test_a_waiting_poll_gets_it_as_soon_as_its_receiver_is_free():
    async with world(bounded()) as w:
        fill(w, (1, 2, 3))
        lost = await w.receive(connection_id=1, prefetch=2)
        held = await w.fetch(limit=1, connection_id=2, by_connection=True)
        assert held.ids == [3]
        await lost.close()
        waiting = asyncio.create_task(w.fetch(limit=3, wait=30, connection_id=2, by_connection=True))
        await pass_time(5)
        assert not waiting.done()
        w.ack(3)
        assert (await waiting).ids == [1] and w.time <= 5.1


@in_virtual_time
async def test_a_waiting_poll_gets_it_as_soon_as_its_receivers_lease_has_run_out():
    async with world(bounded(ack_wait_ns=10 * SECOND)) as w:
        fill(w, (1, 2))
        assert (await w.fetch(limit=2, connection_id=1)).ids == [1, 2]
        await pass_time(20)
        assert (await w.fetch(limit=1, connection_id=1)).ids == [1]
        end = w.store.tables[NAME][1].time_next
        assert (await w.fetch(limit=1, wait=1000, connection_id=1)).ids == [2]
        assert w.clock.now_ns() <= end + SECOND


@in_virtual_time
async def test_a_nack_is_the_messages_own_failure():
    async with world(bounded()) as w:
        fill(w, (1, 2))
        lost = await w.receive(connection_id=1)
        await lost.close()
        row = w.store.tables[NAME][1]
        assert goes_alone(row.due_ns) and row.epoch == 0
        again = await w.receive(connection_id=2)
        assert again.ids == [1] and again.epochs == [1] and not is_alongside(row.due_ns)
        row.time_next = w.clock.now_ns()  # NACK
        row.time_next -= row.time_next % 1000
        w.engine.committed(w_changed(1))
        await settle()
        assert not goes_alone(row.due_ns - row.due_ns % 1000) and row.epoch >= 1


def w_changed(*ids: object):
    from engine.model.commit_report import CommitReport

    return CommitReport(touched=frozenset((NAME,)), changed={NAME: ids})


@in_virtual_time
@pytest.mark.parametrize(("held", "counts"), [(1, True), (2, False)])
async def test_after_a_kill_of_the_proxy_the_row_tells_whether_it_was_alone(held, counts):
    queue = bounded(2, ack_wait_ns=10 * SECOND)
    async with world(queue) as w:
        fill(w, range(1, held + 1))
        receiver = await w.receive(connection_id=1)
        assert len(receiver.ids) == held
        rows = [replace(row) for row in w.store.tables[NAME].values()]
    assert {is_alongside(row.due_ns) for row in rows} == {not counts} and all(is_lease_end(row.due_ns) for row in rows)
    async with world(queue) as w:
        w.store.add(*rows)
        await pass_time(11)
        again = await w.receive(connection_id=2)
        assert len(again.ids) == 1 and again.epochs == [2 if counts else 1]


@in_virtual_time
async def test_an_engine_that_lives_knows_that_others_came_beside_a_message():
    """The row of the first says that it was alone, for so it was when it was leased."""
    async with world(bounded(2, ack_wait_ns=10 * SECOND)) as w:
        receiver = await w.receive(connection_id=1)
        await w.commit(Row(1))
        await w.commit(Row(2))
        assert receiver.ids == [1, 2] and not is_alongside(w.store.tables[NAME][1].due_ns)
        await pass_time(11)
        assert receiver.ids[2:] == [1] and receiver.epochs[2:] == [1]


async def ran_out_beside(w: World) -> Row:
    """Message 1, whose lease has run out while its receiver held another. It reads no more."""
    fill(w, (1, 2))
    receiver = await w.receive(connection_id=1, reading=False)
    assert receiver.ids == [1, 2]
    w.ack(2)
    await pass_time(11)
    return w.store.tables[NAME][1]


@in_virtual_time
async def test_what_was_beside_others_once_counts_when_it_was_alone_at_another_proxy():
    """The epoch is the same, and this one remembers the delivery before."""
    async with world(bounded(ack_wait_ns=10 * SECOND)) as w:
        row = await ran_out_beside(w)
        row.time_next, row.lease_token = lease_end(w.clock.now_ns() + 10 * SECOND), row.lease_token + 1
        await pass_time(11)
        assert (await w.fetch(limit=1, connection_id=2)).epochs == [2]


@in_virtual_time
async def test_polls_that_let_it_run_out_end_it_though_nothing_is_recorded():
    """As in the consumer group of a topic whose `trace` is 0: nobody looks what became of a result that has ended."""
    async with world(bounded(ack_wait_ns=10 * SECOND)) as w:
        w.engine.traces._percent = {NAME: 0}
        await ran_out_beside(w)
        epochs: list[int] = []
        for number in range(2, 8):
            epochs += (await w.fetch(limit=1, connection_id=number)).epochs
            await pass_time(11)
        assert epochs == [1, 2, 3] and dead(w) == [1]


@in_virtual_time
async def test_without_max_attempts_nothing_is_marked():
    async with world() as w:
        fill(w, range(1, 6))
        lost = await w.receive(connection_id=1)
        assert not any(is_alongside(row.due_ns) for row in w.store.tables[NAME].values())
        await lost.close()
        assert not alone(w) and [row.epoch for row in w.store.tables[NAME].values()] == [1] * 5
        assert (await w.receive(connection_id=2)).ids == [1, 2, 3, 4, 5]


@in_virtual_time
async def test_more_messages_alone_than_are_remembered_go_out_all_the_same():
    async with world(bounded(cache_size=3)) as w:
        fill(w, range(1, 1301))
        lost = await w.receive(connection_id=1, prefetch=1300)
        await settle(6000)
        assert len(lost.ids) == 1300
        await lost.close()
        await w.commit(*(Row(id_, time_next=w.clock.now_ns()) for id_ in range(2001, 2011)))
        receivers = [await w.receive(connection_id=n) for n in (2, 3)]
        for _ in range(1400):
            for one in receivers:
                w.ack(*[id_ for id_ in one.ids if w.store.tables[NAME][id_].time_acked is None])
            await settle(20)
        assert all(row.time_acked is not None for row in w.store.tables[NAME].values())


def test_what_results_leave_behind_is_bounded_and_ends_by_its_time():
    left = ClosedResultLeases(limit=3)
    left.add("a", dict.fromkeys((1, 2), 10.0))
    left.add("b", dict.fromkeys((3, 4), 20.0))
    assert [left.count(one, 0.0) for one in "abc"] == [2, 1, 0] and not left.is_leased(4, 0.0)
    left.forget([1, 9])
    assert left.is_leased(2, 9.9) and not left.is_leased(2, 10.0), "its time is over, whoever asks first"
    assert left.count("a", 9.9) == 0 and left.is_leased(3, 10.0)
    left.clear()
    assert left.count("b", 0.0) == 0 and CLOSED_RESULT_LEASES_MAX >= 1000


@in_virtual_time
async def test_what_a_commit_adds_while_a_look_finds_one_to_go_alone_holds_up_neither():
    async with world(bounded()) as w:
        receiver = await w.receive(connection_id=1)
        await w.commit(Row(1))
        w.ack(1)
        ends_ns = due_again(w.clock.now_ns() + 5 * SECOND, alone=True)
        await w.commit(Row(2, epoch=1, time_next=ends_ns, lease_token=7))  # at another proxy

        async def committed() -> None:
            if w.clock.now_ns() // 1000 * 1000 < ends_ns:
                w.store.during["poll"] = committed  # at the next one, which finds it
            else:
                w.store.add(Row(3, priority=60))
                w.engine.enqueued(NAME, 3, 1)

        w.store.during["poll"] = committed
        await pass_time(6)
        assert receiver.ids == [1, 2]
        w.ack(2)
        await settle()
        assert receiver.ids == [1, 2, 3]


@pytest.mark.parametrize("priority", [1, 50])
@pytest.mark.parametrize(("receivers", "condition"), [(1, None), (4, None), (4, Condition("priority > 0"))])
@in_virtual_time
async def test_what_is_new_does_not_wait_for_all_that_go_out_alone(receivers, priority, condition):
    async with world(bounded()) as w:
        begin_ns = w.clock.now_ns() - 1000 * SECOND
        crashed = [due_again(begin_ns + id_ * 1_000_000, alone=True) for id_ in range(100)]
        w.store.add(*(Row(id_, epoch=1, time_next=due_ns) for id_, due_ns in enumerate(crashed)))
        request = {"prefetch": 10, "condition": condition}
        all_ = [await w.receive(connection_id=number, **request) for number in range(receivers)]
        await w.commit(Row(999, priority=priority, time_next=w.clock.now_ns() // 1000 * 1000))
        limit = 100 if (receivers, priority) == (1, 50) else 2 * receivers  # a single one gets those alone first
        handled: set[object] = set()
        while not any(999 in one.ids for one in all_):
            await pass_time(1)
            for id_ in {id_ for one in all_ for id_ in one.ids} - handled:
                handled.add(id_)
                w.ack(id_)
            await settle()
            assert len(handled) <= limit

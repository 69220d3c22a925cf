"""The mover of dead letters: when it looks, what it does with what cannot be moved; and its statements."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from engine_parts import Host, queue_context
from memory_store import NAME, MemoryStore, Row, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle

from engine.background.dead_letter_mover import DeadLetterMover
from engine.background.dead_letter_names import DeadLetterNames
from engine.model.errors import BackendError, BackendUnavailable, EngineError
from engine.model.options import QueueOptions
from engine.model.queue import QueueName
from engine.model.states import PARKED_NS, REJECTED_NS

DEAD = QueueName("main", "q_dead")
LOGGER = logging.getLogger("test")


class Bench:
    """A mover on the fake store."""

    def __init__(self, *, made: bool = True, leads: bool = True, **options) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.queue = make_spec(**options)
        self.dead = replace(make_spec(DEAD), options=QueueOptions(dead_letter_of="q"))
        self.store.serve(self.queue, *([self.dead] if made else []))
        self.made, self.fault = 0, None
        self.host = Host(of=self.store, leads=leads)
        self.host.catalog_changed = self.refresh
        self.told = self.host.reports
        context = queue_context(self.store, self.clock, self.host, work=8, logger=LOGGER)
        self.metrics, self.traces = context.metrics, context.engine.traces
        self.mover = DeadLetterMover(self.queue, context, self.make, DeadLetterNames())

    async def make(self, queue, name) -> None:
        assert (queue, name) == (self.queue, DEAD)
        if self.fault is not None:
            raise self.fault
        self.made += 1
        self.pending = True

    async def refresh(self, named) -> None:
        assert named == (DEAD,)
        if getattr(self, "pending", False):
            self.store.serve(self.queue, self.dead)

    def reject(self, *ids) -> None:
        self.store.add(*(Row(id_, epoch=2, time_next=REJECTED_NS) for id_ in ids))

    @property
    def buried(self):
        return sorted(self.store.tables.get(DEAD, {}))


@in_virtual_time
async def test_what_is_told_of_is_moved_at_once():
    bench = Bench(made=False)
    await bench.mover.open()
    await settle()
    bench.store.add(Row(9), Row(8, time_next=PARKED_NS))
    bench.reject(1, 2)
    bench.mover.notify()
    await settle()
    assert (bench.buried, bench.made, bench.metrics.dead_lettered) == ([1, 2], 1, 2)
    assert [report.touched for report in bench.told] == [frozenset((DEAD,))]
    assert sorted(bench.store.tables[NAME]) == [8, 9]
    assert [(traced.id, traced.what, traced.sure) for traced in bench.traces.newest(9)] == [
        (2, "dead-lettered", True),
        (1, "dead-lettered", True),
    ]
    await bench.mover.close()


@in_virtual_time
async def test_what_is_moved_is_logged_at_once_and_then_once_a_minute(caplog):
    bench = Bench(poll_interval_ns=3600 * 10**9)
    await bench.mover.open()
    await settle()

    async def rejected(*ids) -> None:
        bench.reject(*ids)
        bench.mover.notify()
        await settle()

    def lines():
        return [record.getMessage() for record in caplog.records if "dead-letter queue" in record.getMessage()]

    await rejected(1)
    assert lines() == ["main.q: moved a message to the dead-letter queue q_dead"]
    await rejected(2, 3)
    await pass_time(30)
    await rejected(4)
    assert len(lines()) == 1
    await pass_time(31)
    assert lines()[1:] == ["main.q: moved 3 messages to the dead-letter queue q_dead"]
    await pass_time(7200)
    assert len(lines()) == 2
    await rejected(5)
    assert len(lines()) == 3
    await bench.mover.close()


@in_virtual_time
async def test_words_that_are_lost_are_made_good_by_a_look_of_who_leads():
    bench = Bench(poll_interval_ns=5 * 10**9)
    await bench.mover.open()
    bench.reject(1)
    await pass_time(6)
    assert bench.buried == [1]
    bench.host.leads = False
    bench.reject(2)
    await pass_time(60)
    assert bench.buried == [1]
    await bench.mover.close()


@in_virtual_time
async def test_many_are_moved_in_several_transactions():
    bench = Bench()
    bench.reject(*range(1, 452))
    assert await bench.mover.run_once() == 451
    assert bench.store.calls["move_to_dead_letters"] == 3


@in_virtual_time
async def test_one_that_does_not_fit_holds_up_no_other_and_is_tried_again(caplog):
    bench = Bench()
    bench.store.add(Row(2, payload="older"), queue=DEAD)
    bench.reject(1, 2, 3)
    assert await bench.mover.run_once() == 2
    assert bench.buried == [1, 2, 3] and bench.store.tables[DEAD][2].payload == "older"
    assert sorted(bench.store.tables[NAME]) == [2]
    assert "message 2 cannot be moved" in caplog.text
    calls = bench.store.calls["move_to_dead_letters"]
    assert await bench.mover.run_once() == 0 and bench.store.calls["move_to_dead_letters"] == calls
    del bench.store.tables[DEAD][2]
    await pass_time(61)
    assert await bench.mover.run_once() == 1


@pytest.mark.parametrize("errno, calls_max, records_max", [(1114, 20, 20), (1142, 20, 20), (1406, 1100, 20)])
@in_virtual_time
async def test_trouble_of_the_server_is_no_message_s_and_many_are_logged_seldom(caplog, errno, calls_max, records_max):
    bench = Bench()
    bench.reject(*range(1, 501))
    calls = 0

    async def move(*_):
        nonlocal calls
        calls += 1
        raise BackendError("no", errno)

    bench.store.move_to_dead_letters = move
    await bench.mover.open()
    await pass_time(55)
    await bench.mover.close()
    assert 0 < calls < calls_max and 0 < len(caplog.records) < records_max


@in_virtual_time
async def test_a_locked_message_is_moved_later():
    bench = Bench()
    bench.reject(1, 2)
    bench.store.locked.add(1)
    assert await bench.mover.run_once() == 1
    bench.store.locked.clear()
    assert await bench.mover.run_once() == 1


@in_virtual_time
async def test_what_others_had_locked_is_tried_again_soon_and_ever_more_rarely():
    bench = Bench(poll_interval_ns=3600 * 10**9, leads=False)
    await bench.mover.open()
    bench.reject(*range(1, 301))
    bench.store.locked.update(range(1, 201))
    bench.mover.notify()
    await pass_time(10)
    assert bench.store.calls["move_to_dead_letters"] < 10, "it looks ever more rarely"
    bench.store.locked.clear()
    await pass_time(30)
    assert bench.buried == list(range(1, 301))
    calls = bench.store.calls["move_to_dead_letters"]
    await pass_time(60)
    assert bench.store.calls["move_to_dead_letters"] == calls
    bench.reject(301)
    bench.store.locked.add(301)
    bench.mover.notify()
    await settle()
    bench.store.locked.clear()
    await pass_time(1)
    assert bench.buried[-1] == 301
    await bench.mover.close()


@in_virtual_time
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (BackendError("CREATE command denied", 1142, "42000"), "CREATE command denied"),
        (BackendError("Table 'q_dead' already exists", 1050, "42S01"), "no queue"),
    ],
)
async def test_without_a_dead_letter_queue_all_stay_and_it_is_said_until_there_is_one(caplog, fault, told):
    bench = Bench(made=False)
    bench.fault = fault
    await bench.mover.open()
    bench.reject(1)
    bench.mover.notify()
    await pass_time(20)
    assert sorted(bench.store.tables[NAME]) == [1]
    assert told in caplog.text
    assert 3 <= len([r for r in caplog.records if r.levelno == logging.ERROR]) <= 6  # at growing pauses
    bench.fault = None
    await pass_time(40)
    assert bench.buried == [1]
    await bench.mover.close()


@in_virtual_time
async def test_one_that_another_proxy_has_just_made_will_do():
    bench = Bench(made=False)
    bench.fault, bench.pending = BackendError("exists", 1050, "42S01"), True
    bench.reject(1)
    assert await bench.mover.run_once() == 1


@in_virtual_time
async def test_the_dead_letter_queue_of_another_is_not_used():
    bench = Bench()
    bench.dead = replace(bench.dead, options=QueueOptions(dead_letter_of="other"))
    bench.store.serve(bench.queue, bench.dead)
    bench.reject(1)
    with pytest.raises(EngineError, match="'other'"):
        await bench.mover.run_once()
    assert sorted(bench.store.tables[NAME]) == [1]


@in_virtual_time
async def test_a_queue_that_names_itself_keeps_its_rejected_messages():
    bench = Bench(dead_letter="q")
    bench.reject(1)
    with pytest.raises(EngineError, match="its own"):
        await bench.mover.run_once()


@in_virtual_time
async def test_a_lost_answer_moves_nothing_twice():
    bench = Bench()
    bench.reject(1)
    bench.store.during["move_to_dead_letters"] = settle
    bench.store.fail_after = None
    await bench.mover.open()

    async def lose() -> None:
        bench.store.fail_after = BackendUnavailable("gone")

    bench.store.during["move_to_dead_letters"] = lose
    bench.mover.notify()
    await pass_time(5)
    assert bench.buried == [1] and bench.store.tables[NAME] == {}
    await bench.mover.close()


# --- the statements


async def test_a_claim_sets_aside_what_was_delivered_too_often(bench):
    queue = replace(bench.spec, options=QueueOptions(max_attempts=2))
    await bench.add(Row(1, epoch=1), Row(2, epoch=2), Row(3, epoch=5), Row(4, epoch=None), Row(5, epoch=2))
    await bench.ack(5)
    claim = await bench.store.claim(queue, [1, 2, 3, 4, 5], {0: 10**10})
    assert sorted(m.id for m in claim.messages) == [1, 4]
    assert sorted(claim.rejected) == [2, 3]
    row = await bench.row(2)
    assert (row.time_next, row.epoch) == (REJECTED_NS, 2)
    assert sorted(await bench.store.rejected(queue, 10)) == [2, 3]
    assert (await bench.store.claim(queue, [2, 3], {0: 10**10})).messages == ()
    only = await bench.store.claim(replace(queue, options=QueueOptions(max_attempts=1)), [1], {0: 10**10})
    assert only.messages == () and only.rejected == ()  # it is leased


async def test_rejected_messages_are_found_in_every_priority(bench):
    priorities = [None, -3, 0, *range(1, 60), 127]
    await bench.add(*(Row(n, priority=p, time_next=REJECTED_NS) for n, p in enumerate(priorities, 1)))
    await bench.add(Row(1000), Row(1001, time_next=PARKED_NS), Row(1002, time_next=REJECTED_NS))
    await bench.ack(1002)
    assert sorted(await bench.store.rejected(bench.spec, 100)) == list(range(1, len(priorities) + 1))
    assert len(await bench.store.rejected(bench.spec, 5)) == 5


async def test_a_burial_moves_what_is_rejected_still(bench):
    await bench.add(*(Row(n, epoch=3, time_next=REJECTED_NS, payload=f"p{n}") for n in (1, 2, 3)), Row(4))
    dead = await bench.sibling("q_dead")
    await bench.ack(3)
    assert await bench.store.move_to_dead_letters(bench.spec, dead, [1, 2, 3, 4, 99]) == 2
    assert await bench.row(1) is None and (await bench.row(4)).epoch == 0
    assert await bench.store.move_to_dead_letters(bench.spec, dead, [1, 2]) == 0
    assert await bench.store.rejected(bench.spec, 10) == []

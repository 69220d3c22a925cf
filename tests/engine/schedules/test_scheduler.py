"""The scheduler in virtual time: what it asks of the database and when, what fails, and who sends."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
from engine_parts import Host, engine_context
from memory_schedules import MemorySchedules
from memory_store import make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle

from engine.model.errors import BackendError, BackendUnavailable, CommitUnknown, LockWaitTimeout
from engine.model.queue import QueueCatalog, QueueName
from engine.model.schedules import Every, Missed, Number, Schedule, ScheduleName, SpecialValue
from engine.schedules import scheduler
from engine.schedules.scheduler import (
    BACKUP_SECONDS,
    MADE_UP_AT_ONCE,
    MADE_UP_PER_SECOND,
    TOGETHER_MAX,
    Scheduler,
)
from engine.schedules.ticks import due

NS = 1_000_000_000
HOUR = 3600 * NS
Q = QueueName("main", "q")


class World:
    """A scheduler over schedules in memory."""

    def __init__(self, *others, caplog=None):
        self.clock = VirtualClock()
        self.store = others[0].store if others else MemorySchedules(self.clock)
        self.host = Host(QueueCatalog(1, {Q: make_spec(Q)}))
        self.reports = self.host.reports
        logger = logging.getLogger("queuegate.test.scheduler")
        context = engine_context(SimpleNamespace(schedules=self.store), self.clock, self.host, work=4, logger=logger)
        self.work = context.work
        self.scheduler = Scheduler(context)

    def add(self, name, every_ns=HOUR, queue=Q, **other):
        now_ns = self.clock.now_ns()
        rule = Every(every_ns)
        first = (now_ns // every_ns + 1) * every_ns
        given = {"columns": ("payload",), "values": (SpecialValue.TICK,), "missed": Missed.ONCE} | other
        self.store.rows[name] = Schedule(
            ScheduleName("main", name),
            queue,
            rule,
            given.pop("missed"),
            False,
            first,
            None,
            "",
            "root@localhost",
            now_ns,
            now_ns,
            **given,
        )

    @property
    def ticks(self):
        return [int(row[0].text) for messages in self.store.sent for row in messages.rows]

    async def __aenter__(self):
        await self.scheduler.open()
        self.scheduler.changed("main")
        await settle()
        return self

    async def __aexit__(self, *_):
        await self.scheduler.close()


@in_virtual_time
async def test_nothing_is_asked_of_the_database_between_ticks():
    world = World()
    for number in range(20):
        world.add(f"s{number}")
    async with world:
        first = world.store.rows["s0"].next_ns
        assert world.store.calls == {"waiting": 1}
        await pass_time((first - world.clock.now_ns()) / NS - 1)
        assert world.store.calls == {"waiting": 1}
        await pass_time(2)
        assert world.store.calls == {"waiting": 1, "due": 1, "step": 1}  # all twenty in one transaction
        assert world.ticks == [first] * 20
        await pass_time(3590)
        assert world.store.calls == {"waiting": 1, "due": 1, "step": 1}
        await pass_time(3600)
        assert world.store.calls == {"waiting": 1, "due": 2, "step": 2}


@in_virtual_time
async def test_without_schedules_nothing_is_asked_at_all():
    world = World()
    async with world:
        world.store.calls.clear()
        await pass_time(100_000)
        assert not world.store.calls


@in_virtual_time
async def test_a_message_carries_its_tick_and_the_engine_is_told():
    world = World()
    world.add("s", 60 * NS, columns=("payload", "priority"), values=("x", Number("3")))
    async with world:
        first = world.store.rows["s"].next_ns
        await pass_time(61)
    (messages,) = world.store.sent
    assert messages.columns == ("payload", "priority", "time_scheduled", "time_next")
    assert messages.rows == (("x", Number("3"), Number(str(first)), Number(str(first))),)
    (report,) = world.reports
    assert report.touched == {Q} and report.counted == ((Q, "enqueued", 1),)


@in_virtual_time
async def test_who_does_not_lead_comes_later_and_finds_nothing_left():
    leader = World()
    backup = World(leader)
    backup.host.leads = False
    leader.add("s", 60 * NS)
    async with leader, backup:
        await pass_time(61)
        assert len(leader.ticks) == 1 and leader.store.calls["step"] == 1
        await pass_time(BACKUP_SECONDS)
        assert leader.store.calls["step"] == 1  # the backup has read the table, and tried nothing
        assert leader.store.calls["waiting"] == 3
        assert not backup.reports


@in_virtual_time
async def test_where_the_leader_is_gone_another_sends_a_little_later():
    world = World()
    world.host.leads = False
    world.add("s", 60 * NS)
    async with world:
        first = world.store.rows["s"].next_ns
        await pass_time((first - world.clock.now_ns()) / NS + BACKUP_SECONDS - 0.1)
        assert world.ticks == []
        await pass_time(0.3)
        assert world.ticks == [first]


@in_virtual_time
async def test_several_that_lead_at_once_send_each_tick_once():
    one = World()
    two, three = World(one), World(one)
    for number in range(30):
        one.add(f"s{number}", 60 * NS)
    async with one, two, three:
        await pass_time(600)
    assert len(one.ticks) == 30 * 10
    assert len(set(one.ticks)) == 10


@in_virtual_time
async def test_a_schedule_whose_message_is_refused_holds_up_no_other_and_is_told_of_once(caplog):
    world = World()
    bad = QueueName("main", "bad")
    world.host.catalog = QueueCatalog(1, {Q: make_spec(Q), bad: make_spec(bad)})
    world.store.refused["bad"] = BackendError("Unknown column 'x' in 'field list'", 1054, "42S22")
    for number in range(5):
        world.add(f"s{number}")
    world.add("bad", queue=bad, missed=Missed.ALL)
    async with world:
        first = world.store.rows["bad"].next_ns
        await pass_time((first - world.clock.now_ns()) / NS + 1)
        assert len(world.ticks) == 5
        assert world.store.rows["bad"].problem == "Unknown column 'x' in 'field list'"
        world.store.calls.clear()
        await pass_time(1800)
        assert world.store.calls["note"] == 0
        assert 30 <= world.store.calls["step"] <= 40  # tried again, at most once a minute in the end
        told = [record for record in caplog.records if "cannot be sent" in record.getMessage()]
        assert len(told) == 1
        world.store.refused.clear()
        await pass_time(61)
        assert world.store.rows["bad"].problem == ""
        assert world.ticks[5:] == [first]  # it was missed, and is made up for


@in_virtual_time
async def test_a_queue_that_is_gone_is_a_problem_until_it_is_back():
    world = World()
    world.add("s", 60 * NS)
    catalog, world.host.catalog = world.host.catalog, QueueCatalog()
    async with world:
        await pass_time(90)
        assert "does not exist" in world.store.rows["s"].problem and world.ticks == []
        world.host.catalog = catalog
        await pass_time(61)
        assert world.store.rows["s"].problem == "" and len(world.ticks) >= 1


@in_virtual_time
async def test_a_schedule_that_a_client_has_locked_waits_and_is_sent_then():
    world = World()
    world.add("s", 60 * NS)
    world.store.locked.add("s")
    async with world:
        first = world.store.rows["s"].next_ns
        await pass_time((first - world.clock.now_ns()) / NS + 10)
        assert world.ticks == [] and world.store.calls["step"] < 10
        world.store.locked.clear()
        await pass_time(10)
        assert world.ticks == [first]


@in_virtual_time
async def test_a_unique_key_that_an_open_transaction_holds_holds_up_no_other_schedule_for_long(caplog):
    """Also where many wait for such keys, and the server waits before it says so."""
    world = World()
    held = QueueName("main", "held")
    world.host.catalog = QueueCatalog(1, {Q: make_spec(Q), held: make_spec(held)})
    world.store.refused["held"], world.store.seconds = LockWaitTimeout(), 3.0
    for number in range(8):
        world.add(f"held{number}", 2 * NS, queue=held)
    world.add("b", 2 * NS)
    async with world:
        first = world.store.rows["b"].next_ns
        sent = []
        for _ in range(300):
            await pass_time(2)
            sent.append(len(world.ticks))
        jumps = [later - earlier for earlier, later in pairwise(sent)]
        assert max(jumps) < 30 and max(jumps[50:]) <= 7  # ticks in 14 seconds
        assert world.ticks == [first + n * 2 * NS for n in range(len(world.ticks))] and len(world.ticks) > 290
        assert all("Lock wait timeout" in row.problem for name, row in world.store.rows.items() if name != "b")
        world.store.refused.clear()
        await pass_time(61)
        assert not any(row.problem for row in world.store.rows.values())
    assert len([record for record in caplog.records if "cannot be sent, it" in record.getMessage()]) <= 20


@pytest.mark.parametrize("error", [LockWaitTimeout(), BackendError("Failed to read auto-increment value", 1467)])
@in_virtual_time
async def test_a_short_wait_for_a_lock_is_no_problem(error):
    world = World()
    world.add("s", 60 * NS)
    world.store.refused["q"] = error
    async with world:
        first = world.store.rows["s"].next_ns
        await pass_time((first - world.clock.now_ns()) / NS + 0.1)
        assert world.store.calls["step"] == 1 and not world.store.rows["s"].problem
        world.store.refused.clear()
        await pass_time(1)
        assert world.ticks == [first] and world.store.calls["note"] == 0


@pytest.mark.parametrize(
    "error",
    [
        BackendUnavailable("gone"),
        CommitUnknown(BackendUnavailable("gone"), None),
        BackendError("read only", 1290),
        BackendError("deadlock", 1213),
    ],
)
@in_virtual_time
async def test_while_the_database_is_away_ticks_wait_and_none_is_lost(error, caplog):
    world = World()
    world.add("s", 60 * NS, missed=Missed.ALL)
    async with world:
        first = world.store.rows["s"].next_ns
        world.store.down = error
        await pass_time(3600)
        assert sum(world.store.calls.values()) < 500
        world.store.down = None
        await pass_time(61)
    assert world.ticks == [first + n * 60 * NS for n in range(len(world.ticks))] and len(world.ticks) >= 60
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@in_virtual_time
async def test_a_table_that_cannot_be_read_is_told_of_once(caplog):
    world = World()
    world.store.down = BackendError("SELECT command denied to user", 1142, "42000")
    async with world:
        await pass_time(3600)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


@in_virtual_time
async def test_a_change_is_heard_of_at_once():
    world = World()
    world.add("s")
    async with world:
        world.store.rows["s"] = replace(world.store.rows["s"], next_ns=world.clock.now_ns() + 5 * NS)
        world.scheduler.changed("main")
        await pass_time(6)
        assert len(world.ticks) == 1
        del world.store.rows["s"]
        world.scheduler.reload(())
        await settle()
        world.store.calls.clear()
        await pass_time(10_000)
        assert sum(world.store.calls.values()) <= 3  # what it still had in mind is gone after a try


@in_virtual_time
async def test_a_database_whose_clock_goes_after_is_waited_for():
    world = World()
    world.add("s", 60 * NS)
    real = world.store.clock

    class Slower:
        def now_ns(self):
            return real.now_ns() - 20 * NS

        def monotonic(self):
            return real.monotonic()

    async with world:
        first = world.store.rows["s"].next_ns
        world.store.clock = Slower()  # the database's clock was put back
        await pass_time((first - real.now_ns()) / NS + 19)
        assert world.ticks == []
        await pass_time(10)
        assert world.ticks == [first]
        assert sum(world.store.calls.values()) < 60


@in_virtual_time
async def test_a_tick_that_cannot_be_sent_is_overdue_until_it_is():
    world = World()
    world.add("s")
    world.host.catalog = QueueCatalog(1, {})
    async with world:
        assert world.scheduler.overdue() == {"main": 0}
        await pass_time((world.store.rows["s"].next_ns - world.clock.now_ns()) / NS + 100)
        assert 95 < world.scheduler.overdue()["main"] < 105
        world.host.catalog = QueueCatalog(1, {Q: make_spec(Q)})
        await pass_time(61)  # the longest pause between two tries
        assert world.scheduler.overdue() == {"main": 0}


@in_virtual_time
async def test_who_does_not_lead_has_nothing_overdue_that_it_leaves_to_the_leader():
    """It does not read the table again when the leader has sent that."""
    leader = World()
    backup = World(leader)
    backup.host.leads = False
    leader.add("s")
    catalog, leader.host.catalog = leader.host.catalog, QueueCatalog(1, {})
    async with leader, backup:
        await pass_time((leader.store.rows["s"].next_ns - leader.clock.now_ns()) / NS + 30)
        assert leader.scheduler.overdue()["main"] > 25
        leader.host.catalog = catalog
        await pass_time(100)
        assert len(leader.ticks) == 1
        assert leader.scheduler.overdue() == backup.scheduler.overdue() == {"main": 0}


@in_virtual_time
async def test_rows_by_hand_make_no_flood(caplog):
    """2,000 schedules that have missed all their ticks since 1970, and 500 that cannot be read: what is in time is sent
    in time, what is missed at a bounded rate and each in its turn, and the log has a few lines."""
    caplog.set_level(logging.INFO)
    world = World()
    world.add("real", 60 * NS, values=("real",))
    for number in range(2000):
        world.add(f"forged{number}", NS if number % 2 else 3600 * NS, values=("forged",), missed=Missed.ALL)
        world.store.rows[f"forged{number}"] = replace(world.store.rows[f"forged{number}"], next_ns=1)
    gone = QueueName("main", "gone")
    for number in range(500):
        world.add(f"bad{number}", NS, queue=gone)
        world.store.rows[f"bad{number}"] = replace(world.store.rows[f"bad{number}"], next_ns=1)
    async with world:
        await pass_time(30)
        forged = [row for messages in world.store.sent for row in messages.rows if row[0] == "forged"]
        assert 1000 <= len(forged) <= MADE_UP_AT_ONCE + 31 * MADE_UP_PER_SECOND
        assert sum(row.last_ns is not None for row in world.store.rows.values()) >= 10  # in turn
        await pass_time(280)
        real = [messages for messages in world.store.sent if messages.rows[0][0] == "real"]
        assert len(real) == 5 and all(len(messages.rows) == 1 for messages in real)
        assert len(caplog.records) <= 5 * 2 + 2 * 5
        assert world.store.calls["due"] <= 300 * 3 + 500
    assert all(row.problem for name, row in world.store.rows.items() if name.startswith("bad"))


@in_virtual_time
async def test_while_missed_ticks_are_computed_others_have_their_turn(monkeypatch):
    """Also where computing takes so long that a few more messages are free after each schedule."""
    world, computed, turn = World(), [], count()

    def slow(rule, *rest):
        loop = asyncio.get_running_loop()
        loop._jumping.now += 0.03
        computed.append(next(turn))
        loop.call_soon(next, turn)  # what else is ready
        return due(rule, *rest)

    monkeypatch.setattr(scheduler, "due", slow)
    for number in range(40):
        world.add(f"s{number}", NS, missed=Missed.ALL)
        world.store.rows[f"s{number}"] = replace(world.store.rows[f"s{number}"], next_ns=1)
    async with world:
        await pass_time(10)
    assert all(later - sooner > 1 for sooner, later in pairwise(computed))
    assert 15 <= len(computed) <= 13 + 10 * 3


@in_virtual_time
async def test_a_database_that_has_schedules_again_begins_with_what_it_has_left():
    """Else dropping the table and making it again would be a way round the rate."""
    world = World()
    for number in range(20):
        world.add(f"forged{number}", NS, missed=Missed.ALL)
        world.store.rows[f"forged{number}"] = replace(world.store.rows[f"forged{number}"], next_ns=1)
    async with world:
        await pass_time(1)
        for _ in range(20):
            world.scheduler.reload(())
            world.scheduler.reload(("main",))
            await pass_time(1)
        assert MADE_UP_AT_ONCE <= len(world.ticks) <= MADE_UP_AT_ONCE + 22 * MADE_UP_PER_SECOND
        world.store.rows.clear()
        world.scheduler.reload(())
        await pass_time(MADE_UP_AT_ONCE / MADE_UP_PER_SECOND)
        world.scheduler.reload(())
        assert world.scheduler._buckets == {}


@in_virtual_time
async def test_proxies_that_do_not_lead_add_nothing_to_the_rate_of_missed_ticks():
    leader = World()
    backup = World(leader)
    backup.host.leads = False
    for number in range(30):
        leader.add(f"forged{number}", NS, missed=Missed.ALL)
        leader.store.rows[f"forged{number}"] = replace(leader.store.rows[f"forged{number}"], next_ns=1)
    async with leader, backup:
        await pass_time(5)
        assert MADE_UP_AT_ONCE <= len(leader.ticks) <= MADE_UP_AT_ONCE + 6 * MADE_UP_PER_SECOND
        assert not backup.reports
    leader.host.leads, backup.host.leads = False, True  # and who leads afterwards goes on
    sent = len(leader.ticks)
    async with backup:
        await pass_time(1)
        assert len(leader.ticks) > sent


@in_virtual_time
async def test_all_that_was_missed_is_made_up_for_in_the_end():
    world = World()
    for number in range(5):
        world.add(f"s{number}", NS, missed=Missed.ALL)
        row = world.store.rows[f"s{number}"]
        world.store.rows[row.name.name] = replace(row, next_ns=row.next_ns - 900 * NS)
    first = world.store.rows["s0"].next_ns
    async with world:
        await pass_time(120)
    ticks = sorted(world.ticks)
    assert ticks == sorted([first + n * NS for n in range(len(ticks) // 5)] * 5) and len(ticks) >= 5 * 1000


@in_virtual_time
async def test_a_table_that_is_dropped_and_made_again_between_two_parts(caplog):
    """The first part finds no table, and the second one a new table, without the schedules of before."""
    world = World()
    for number in range(TOGETHER_MAX + 5):
        world.add(f"s{number}")
    read = world.store.due

    async def due(database, names):
        if world.store.calls["due"] == 0:
            world.store.calls["due"] += 1
            world.store.rows.clear()
            raise BackendError("Table 'main.queuegate_schedules' doesn't exist", 1146, "42S02")
        return await read(database, names)

    world.store.due = due
    async with world:
        await pass_time(3601)
        assert world.store.calls["due"] == 1 and "failed by a defect" not in caplog.text

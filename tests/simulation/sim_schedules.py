"""Schedules under virtual time: several real engines on one simulated database, killed and begun again, for an hour.

Words between the engines are late and get lost, calls to the database too; for some minutes every engine believes that
it leads. What must hold is read off the queue at the end: each tick of each schedule once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sim_database import EPOCH_NS, SimDatabase, _in_sqlite
from sim_faults import Faults
from sim_loop import START, ProcessLoop, Timeline
from sim_pool import SimPool
from sim_template import definition, template

from engine.engine import Engine, EngineOptions
from engine.model.assignment import Member
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError
from engine.model.queue import QueueName
from engine.model.schedules import Cron, Every, Insertion, Missed, Rule, Schedule, ScheduleName, SpecialValue
from engine.schedules.ticks import next_tick
from engine.store.sql_store import SqlMessageStore
from engine.store.statements.schedules import create_schedules
from rewriter.plans.schedules import create_sql, insertion_sql

SHAPE = "\n".join(
    (
        "CREATE QUEUE q (k VARCHAR(64), n BIGINT) WITH (poll_interval = '30s')",
        " ".join(create_schedules("main").split()),
    )
)
Q = QueueName("main", "q")
NS = 1_000_000_000
RULES: Sequence[Rule] = (
    Every(60 * NS),
    Every(300 * NS),
    Every(420 * NS),
    Every(900 * NS),
    Every(3600 * NS),
    Cron("*/10 * * * *", "Europe/Berlin"),
    Cron("30 * * * *", "America/New_York"),
    Cron("15 2 * * *", "UTC"),
)
RATES = {"slow": 0.02, "lost": 0.003, "broken": 0.003, "forgotten": 0.003, "locked": 0.002, "deadlock": 0.002}
_WORD_LOST = 0.05


async def _insert(messages: Insertion, waits: bool) -> Callable[[Any], object]:
    text = _in_sqlite(insertion_sql(messages))
    return lambda connection: connection.execute(text)


@dataclass(eq=False)
class Process:
    """One life of one proxy. It is the engine's Neighbours, too."""

    world: ScheduleWorld
    number: int
    loop: ProcessLoop = field(init=False)
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        world = self.world
        self.loop = ProcessLoop(world.timeline, world.faults_heard.append)
        faults = Faults(Random(f"{world.seed}/{self.number}/{world.lives}"), world.rates, 0.004)
        pool = SimPool(f"p{self.number}", self.loop, world.timeline, world.database, faults, lambda: True, world.called)

        async def define(sql: str) -> list[tuple[Any, ...]]:
            world.database.define(definition(SHAPE, sql))
            return []

        logger = logging.Logger(f"p{self.number}", logging.CRITICAL)
        store = SqlMessageStore(pool, world.database.dialect, define, logger=logger, insert=_insert)
        options = EngineOptions(purges=True)
        random = Random(f"{world.seed}/{self.number}/jitter")
        self.engine = Engine(
            store,
            clock=self,
            jitter=lambda: random.uniform(2 / 3, 4 / 3),
            options=options,
            logger=logger,
            neighbours=self,
        )
        self.loop.create_task(self._open())

    async def _open(self) -> None:
        while True:
            try:
                await self.engine.open()
            except BackendError:  # it is started again
                continue
            return

    def now_ns(self) -> int:
        return EPOCH_NS + int((self.world.timeline.now - START) * NS)

    def monotonic(self) -> float:
        return self.world.timeline.now

    def boottime(self) -> float:
        return self.world.timeline.now

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        pass  # schedules have no receivers

    def committed(self, report: CommitReport) -> None:
        self.world.tell(self, report)

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        pass

    @property
    def leads(self) -> bool:
        return self.world.split or self.number == min(one.number for one in self.world.alive)


@dataclass(eq=False)
class ScheduleWorld:
    """See the module. `kills`: how many processes are killed in all."""

    seed: int
    count: int
    row_locks: bool
    kills: int = 60
    processes: int = 3
    alive: list[Process] = field(default_factory=list)
    split: bool = False
    calls: int = 0
    lives: int = 0
    rates: dict[str, float] = field(default_factory=lambda: dict(RATES))
    faults_heard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.timeline = Timeline(Random(f"{self.seed}/time"))
        data = template(SHAPE)
        self.database = SimDatabase(self.timeline, data, {}, row_locks=self.row_locks, tick_ns=1000)
        self.rules = {f"s{number:04}": self.random.choice(RULES) for number in range(self.count)}
        for name, rule in self.rules.items():
            schedule = Schedule(
                ScheduleName("main", name),
                Q,
                rule,
                self.random.choice(list(Missed)),  # no tick is missed, so it does not matter
                False,
                next_tick(rule, EPOCH_NS),
                None,
                "",
                "sim",
                EPOCH_NS,
                EPOCH_NS,
                ("k", "n"),
                (name, SpecialValue.TICK),
            )
            self.database.run_at(create_sql(schedule), EPOCH_NS)

    def called(self) -> None:
        self.calls += 1

    def start(self, number: int) -> None:
        self.lives += 1
        self.alive.append(Process(self, number))

    def kill(self) -> None:
        """kill -9 of one of them; it is started again some seconds later."""
        process = self.random.choice(self.alive)
        self.alive.remove(process)
        process.loop.kill()
        process.loop.dispose()
        self.timeline.after(self.random.uniform(0.5, 20.0), lambda: self.start(process.number))
        if not self.alive:
            self.start(process.number + self.processes)

    def tell(self, sender: Process, report: CommitReport) -> None:
        for other in self.alive:
            if other is not sender and self.random.random() > _WORD_LOST:
                self.timeline.after(self.random.random() * 0.01, lambda one=other: self._hear(one, report))  # type: ignore[misc]

    def _hear(self, process: Process, report: CommitReport) -> None:
        if process in self.alive:
            process.loop.call_soon(process.engine.on_remote_commit, report)

    def run(self, seconds: float) -> None:
        """Let so much time pass, with kills and minutes in which all of them believe that they lead."""
        for number in range(self.processes):
            self.start(number)
        for _ in range(self.kills):
            self.timeline.at(START + self.random.uniform(5.0, seconds - 90.0), self.kill)
        for _ in range(5):
            begin = self.random.uniform(0.0, seconds - 90.0)
            self.timeline.at(START + begin, lambda: setattr(self, "split", True))
            self.timeline.at(START + begin + 120.0, lambda: setattr(self, "split", False))
        self.timeline.at(START + seconds - 60.0, self.rates.clear)
        self.timeline.run(START + seconds)

    def sent(self) -> dict[str, Counter[int]]:
        """Of each schedule, its ticks in the queue, and how often each is there."""
        found: dict[str, Counter[int]] = {name: Counter() for name in self.rules}
        for name, tick in self.database.select("SELECT k, n FROM main.q"):
            found[name][tick] += 1
        return found

    def wanted(self, seconds: float) -> dict[str, Counter[int]]:
        """Each tick in that time, once."""
        end, wanted = EPOCH_NS + int(seconds * NS), {}
        for name, rule in self.rules.items():
            tick, ticks = EPOCH_NS, Counter[int]()
            while (tick := next_tick(rule, tick)) <= end:
                ticks[tick] += 1
            wanted[name] = ticks
        return wanted

    def close(self) -> None:
        """Nothing runs any more."""
        for process in self.alive:
            process.loop.kill()
            process.loop.dispose()
        self.database.close()

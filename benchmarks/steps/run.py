"""`python -m benchmarks steps`: what a lone message costs, each of its steps apart, and messages in batches.

Single statements come at the pace of the lone messages, for a program that works without pause costs less for each:
what is compared by a difference has had the same pauses.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import Outcome, Series, Tell, turned
from benchmarks.measure import latencies, load, machine, of_the_run
from benchmarks.places import PLACES, Place
from benchmarks.report import Report
from benchmarks.steps.counters import (
    DATABASE_CPU,
    PROXY_CPU,
    ROUND_TRIPS,
    STATEMENTS,
    THREAD_CPU,
    Counters,
    Meter,
    by_thread,
    costs,
)
from benchmarks.steps.loads import (
    BATCH,
    INSERT_ROW,
    TABLE,
    TABLE_COLUMNS,
    UPDATE_ROW,
    WARM_UP,
    SqliteFile,
    StepQueue,
    Way,
    again,
    inserts,
    settle_each,
    wait,
)
from benchmarks.topics import crew
from benchmarks.topics.reading import converse, drain
from tests.servers import DATABASE

RATE = 200  # messages a second
PACE_SECONDS = 1 / RATE
LONE, INSERT, ACK = "lone message: INSERT, delivered, ACK", "INSERT into a queue", "ACK of one id"
DELIVERY = "delivery: the lone message less INSERT and ACK"
_COSTS = (PROXY_CPU, DATABASE_CPU, STATEMENTS, ROUND_TRIPS)
Columns = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything. `batched` and `acked_each` are multiples of the batch."""

    lone: int = 600
    batched: int = 20_000
    acked_each: int = 5_000
    repeats: int = 5


QUICK = Amounts(lone=200, batched=2_000, acked_each=500, repeats=1)


def queue_at(place: Place, meter: Meter) -> StepQueue:
    """The queue, through the proxy of that place."""
    pid, port = meter.proxy_pid, 0 if place.server is None else place.server.port
    return StepQueue(port=place.gate.port, proxy_pid=pid, pid=meter.database_pid or pid, database_port=port)


@dataclass(frozen=True, slots=True)
class Stage:
    """A backend, what is counted there, and how much of everything. `threads` are of the lone messages."""

    place: Place
    meter: Meter
    amounts: Amounts
    threads: dict[str, Series] = field(default_factory=dict)

    @property
    def queue(self) -> StepQueue:
        return queue_at(self.place, self.meter)

    def run(self, way: Way, work: crew.Work, job: Sequence[Any]) -> tuple[Any, Counters, Counters]:
        """One client; what it returned, and the counters before and after."""
        with crew.clients(way, work, [job]) as client:
            before = self.meter.begin()
            client.begin()
            (result,) = client.results()
            return result, before, self.meter.end()

    def lone(self) -> Columns:
        self.queue.fill(0)
        took, before, after = self.run(self.queue, converse, ("", self.amounts.lone, PACE_SECONDS, WARM_UP))
        for name, values in by_thread(before, after, self.meter.proxy_pid, self.amounts.lone).items():
            self.threads.setdefault(name, Series(name)).add(values)
        return {**costs(before, after, self.amounts.lone), **latencies(took)}

    def idle(self) -> Columns:
        self.queue.fill(0)
        _, before, after = self.run(self.queue, wait, (self.amounts.lone * PACE_SECONDS,))
        return costs(before, after, self.amounts.lone)

    def insert(self) -> Columns:
        self.queue.fill(0)
        return self._again(self.queue, inserts(self.queue.table, 1))

    def insert_row(self) -> Columns:
        self._new_table(self.queue)
        return self._again(self.queue, INSERT_ROW)

    def insert_row_directly(self) -> Columns:
        self._new_table(self._direct)
        return self._again(self._direct, INSERT_ROW)

    def ack(self) -> Columns:
        return self._settle("ACK {table} {{}}")

    def nack(self) -> Columns:
        """Late enough that the message does not come back while others are measured."""
        return self._settle("NACK {table} {{}} DELAY '10m'")

    def renew(self) -> Columns:
        return self._settle("RENEW {table} {{}} FOR '10m'")

    def _settle(self, sql: str) -> Columns:
        self.queue.fill(self.amounts.lone + WARM_UP)
        job = (sql.format(table=self.queue.table), self.amounts.lone, PACE_SECONDS)
        timed, before, after = self.run(self.queue, settle_each, job)
        return {**costs(before, after, self.amounts.lone), **latencies(timed.seconds)}

    def update(self) -> Columns:
        self._new_table(self.queue, filled=True)
        return self._again(self.queue, UPDATE_ROW)

    def update_directly(self) -> Columns:
        self._new_table(self._direct, filled=True)
        return self._again(self._direct, UPDATE_ROW)

    def insert_batches(self) -> Columns:
        self.queue.fill(0)
        sql, times = inserts(self.queue.table, BATCH), self.amounts.batched // BATCH
        _, before, after = self.run(self.queue, again, (sql, times, 0.0))
        return costs(before, after, self.amounts.batched)

    def drain_batches(self) -> Columns:
        return self._drain(BATCH, self.amounts.batched)

    def drain_each(self) -> Columns:
        return self._drain(1, self.amounts.acked_each)

    def _drain(self, acked: int, messages: int) -> Columns:
        self.queue.fill(messages)
        _, before, after = self.run(self.queue, drain, ("", acked, messages))
        return costs(before, after, messages)

    @property
    def _direct(self) -> Way:
        server = self.place.server
        if server is None:
            return SqliteFile(self.place.directory / "direct.db")
        return StepQueue(port=server.port, pid=self.meter.proxy_pid, database_port=server.port)

    def _new_table(self, way: Way, *, filled: bool = False) -> None:
        execute = way.executor()
        key = "INTEGER PRIMARY KEY" if isinstance(way, SqliteFile) else "BIGINT AUTO_INCREMENT PRIMARY KEY"
        execute(f"DROP TABLE IF EXISTS {TABLE}")
        execute(f"CREATE TABLE {TABLE} (id {key}, {TABLE_COLUMNS})")
        if filled:
            execute(inserts(TABLE, self.amounts.lone + WARM_UP))

    def _again(self, way: Way, sql: str) -> Columns:
        """Where no proxy is on the way it has no costs; SQLite's are the client's own."""
        timed, before, after = self.run(way, again, (sql, self.amounts.lone, PACE_SECONDS))
        found = {**costs(before, after, self.amounts.lone), **latencies(timed.seconds)}
        if isinstance(way, SqliteFile):
            found[DATABASE_CPU] = timed.client_cpu / self.amounts.lone * 1e6
        through = isinstance(way, StepQueue) and way.proxy_pid is not None
        return found if through else {k: v for k, v in found.items() if k not in (PROXY_CPU, ROUND_TRIPS)}


CASES: Mapping[str, Callable[[Stage], Columns]] = {
    LONE: Stage.lone,
    INSERT: Stage.insert,
    ACK: Stage.ack,
    "NACK of one id": Stage.nack,
    "RENEW of one id": Stage.renew,
    "INSERT into a table, through queuegate": Stage.insert_row,
    "INSERT into a table, directly": Stage.insert_row_directly,
    "UPDATE of one row, through queuegate": Stage.update,
    "UPDATE of one row, directly": Stage.update_directly,
    "no message, a receiver waits": Stage.idle,
    f"INSERT of {BATCH} rows a commit": Stage.insert_batches,
    f"drain, acks of {BATCH}": Stage.drain_batches,
    "drain, an ack each": Stage.drain_each,
}


def delivery(lone: Columns, insert: Columns, ack: Columns) -> dict[str, float]:
    """What is left of the lone message. A column that one of them lacks is left out."""
    common = [column for column in _COSTS if all(column in columns for columns in (lone, insert, ack))]
    return {column: lone[column] - insert[column] - ack[column] for column in common}


def outcomes(stage: Stage, name: str, tell: Tell) -> list[Outcome]:
    """Every case in each repeat, and each repeat begun with another."""
    found = {case: Series(case) for case in CASES}
    left = Series(DELIVERY)
    for repeat in range(stage.amounts.repeats):
        turn: dict[str, Columns] = {}
        for case in turned(list(CASES), repeat):
            tell(f"{stage.place.backend}, {repeat + 1} of {stage.amounts.repeats}: {case}")
            turn[case] = CASES[case](stage)
            found[case].add(turn[case])
        left.add(delivery(turn[LONE], turn[INSERT], turn[ACK]))
    first, *others = found.values()
    title = (
        f"{stage.place.backend} ({stage.place.durability}): what a message costs; single statements and messages at"
        f" {RATE}/s; ms: a statement, or from the INSERT's call to the row at the receiver"
    )
    threads = f"{stage.place.backend}: CPU of the proxy's threads for a lone message, and how often they went to sleep"
    return [
        Outcome(f"steps-{name}", title, PROXY_CPU, [first, left, *others], ()),
        Outcome(f"steps-{name}-threads", threads, THREAD_CPU, list(stage.threads.values()), ()),
    ]


def measure(backends: Sequence[str], amounts: Amounts, tell: Tell) -> Report:
    """On each of these backends, one after the other."""
    started, load_before = time.monotonic(), load()
    found, versions, left_out = [], {}, []
    for backend in backends:
        tell(f"{backend}: starting")
        with PLACES[backend]() as place, contextlib.closing(Meter(place)) as meter:
            found += outcomes(Stage(place, meter, amounts), backend, tell)
            versions[backend] = _version(place)
            if place.server is not None and meter.begin().writes is None:
                left_out.append("round trips: this kernel does not tell of TCP connections (sock_diag)")
    facts = {**machine(), **versions, **of_the_run(started, load_before, amounts.repeats)}
    return Report(facts, left_out, found)


def _version(place: Place) -> str:
    with place.gate.connect(database=DATABASE) as link, link.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
    return str(version)

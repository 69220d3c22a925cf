"""`python -m benchmarks rivals`: every rival in every case, in turn, and a report with the targets beside it."""

from __future__ import annotations

import contextlib
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Outcome, Series, Tell, turned
from benchmarks.measure import MEDIAN, latencies, load, machine, of_the_run
from benchmarks.others import DURABLE_REDIS, POSTGRESQL, RABBITMQ, Kind, Server, others
from benchmarks.places import embedded
from benchmarks.queues.base import BATCH, Rival
from benchmarks.queues.by_hand import TableByHand
from benchmarks.queues.postgresql import PostgresQueue
from benchmarks.queues.queuegate import GateQueue
from benchmarks.queues.rabbitmq import RabbitQueue
from benchmarks.queues.redis_streams import RedisQueue
from benchmarks.queues.targets import BY_HAND, EMBEDDED, MARIADB
from benchmarks.report import Report
from benchmarks.rivals import DIRECT, QUEUEGATE, Arena, arena
from benchmarks.topics import crew
from benchmarks.topics.reading import converse

INSTALL = Path(__file__).resolve().parent.parent / "install_rivals.sh"
PRODUCERS, PROCESSES, RECEIVERS = 20, 4, 4
FLEET, FLEET_TAKES = 32, 10
RATE = 200  # lone messages a second
WARM_UP = 20
QUIET_SECONDS = 30.0  # without an ack, until a drain has failed
LEFT = "messages are left"
MESSAGES = "messages/s"
_LOOK_SECONDS = 0.002
_open: list[Any] = []  # a receiver that is closed would read its endless result to its end
_OTHERS: Mapping[Kind, Callable[[Server], Rival]] = {
    RABBITMQ: lambda server: RabbitQueue(port=server.port, pid=server.pid),
    DURABLE_REDIS: lambda server: RedisQueue(port=server.port, pid=server.pid),
    POSTGRESQL: lambda server: PostgresQueue(port=server.port, pid=server.pid),
}


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything. `drained` and `acked_each` are multiples of 1,000."""

    drained: int = 100_000
    acked_each: int = 10_000
    lone: int = 600
    seconds: float = 4.0
    repeats: int = 5


QUICK = Amounts(drained=10_000, acked_each=2_000, lone=200, seconds=1.0, repeats=1)


# --- what clients do (crew.Work)


def enqueue(rival: Rival, threads: int, messages: int, seconds: float) -> Generator[None, None, int]:
    """So many producers, for so long; how many messages they have sent, `messages` in a commit."""
    senders = [rival.sender(messages) for _ in range(threads)]
    yield
    sent = [0] * threads
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        while time.monotonic() < end:
            senders[number]()
            sent[number] += messages

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(sent)


def drain(
    rival: Rival, acked: int, left: Any, receivers: int = 1, taken: int | None = None
) -> Generator[None, None, None]:
    """A process with receivers, until those of all processes together have acked what was there."""
    connected = [rival.receiver(acked, taken) for _ in range(receivers)]
    _open.extend(connected)
    for receiver in connected:
        next(receiver)
    yield

    def work(receiver: Iterator[int]) -> None:
        for count in receiver:
            with left.get_lock():
                left.value -= count

    for receiver in connected:
        threading.Thread(target=work, args=(receiver,), daemon=True).start()
    seen, at = left.value, time.monotonic()
    while left.value > 0:  # a receiver that has nothing waits for good
        if left.value != seen:
            seen, at = left.value, time.monotonic()
        assert time.monotonic() - at < QUIET_SECONDS, f"{rival.name}: {seen} {LEFT}"
        time.sleep(_LOOK_SECONDS)
    assert left.value == 0, f"{-left.value} messages were acked twice"


# --- cases


@dataclass(frozen=True, slots=True)
class Stage:
    """Who takes part, and how much of everything."""

    rivals: Sequence[Rival]
    amounts: Amounts
    tell: Tell
    base: str = BY_HAND

    def enqueued(self, rival: Rival, messages: int) -> Mapping[str, float]:
        rival.fill(0)
        job = (PRODUCERS // PROCESSES, messages, self.amounts.seconds)
        done = crew.run(rival, enqueue, [job] * PROCESSES)
        return done.columns(sum(done.results))

    def drained(self, rival: Rival, acked: int, messages: int) -> Mapping[str, float]:
        rival.fill(messages)
        left = multiprocessing.get_context("spawn").Value("l", messages)
        return crew.run(rival, drain, [(acked, left)] * RECEIVERS).columns(messages)

    def fleet(self, rival: Rival, messages: int) -> Mapping[str, float]:
        rival.fill(messages)
        left = multiprocessing.get_context("spawn").Value("l", messages)
        job = (1, left, FLEET // PROCESSES, FLEET_TAKES)
        return crew.run(rival, drain, [job] * PROCESSES).columns(messages)

    def lone(self, rival: Rival) -> Mapping[str, float]:
        rival.fill(0)
        done = crew.run(rival, converse, [("", self.amounts.lone, 1 / RATE, WARM_UP)])
        (took,) = done.results
        columns = done.columns(self.amounts.lone)
        del columns[MESSAGES]  # at a pace
        return {**latencies(took), **columns}

    def outcome(self, name: str, title: str, main: str, run: Callable[[Rival], Mapping[str, float]]) -> Outcome:
        """Each rival once in each repeat, and each repeat begun with another."""
        found = {rival.name: Series(rival.name) for rival in self.rivals}
        for repeat in range(self.amounts.repeats):
            self.tell(f"{title}: {repeat + 1} of {self.amounts.repeats}")
            for rival in turned(self.rivals, repeat):
                columns = dict(run(rival))
                if rival.pid == rival.proxy_pid:  # the database is a part of the proxy
                    del columns["server CPU us/message"]
                found[rival.name].add(columns)
        return Outcome(name, title, main, list(found.values()), (self.base,))


def outcomes(stage: Stage) -> list[Outcome]:
    """All cases."""
    amounts = stage.amounts
    producers = f"{PRODUCERS} producers in {PROCESSES} processes"
    receivers = f"{RECEIVERS} receivers"
    return [
        stage.outcome(
            "rivals-enqueue-1", f"{producers}, one message a commit", MESSAGES, lambda r: stage.enqueued(r, 1)
        ),
        stage.outcome(
            f"rivals-enqueue-{BATCH}", f"{producers}, {BATCH} messages a commit", MESSAGES,
            lambda r: stage.enqueued(r, BATCH),
        ),
        stage.outcome(
            f"rivals-drain-{BATCH}", f"{receivers}, a backlog of {amounts.drained:,}, acks of {BATCH}", MESSAGES,
            lambda r: stage.drained(r, BATCH, amounts.drained),
        ),
        stage.outcome(
            "rivals-drain-1", f"{receivers}, a backlog of {amounts.acked_each:,}, an ack each", MESSAGES,
            lambda r: stage.drained(r, 1, amounts.acked_each),
        ),
        stage.outcome(
            "rivals-fleet",
            f"{FLEET} receivers in {PROCESSES} processes, {FLEET_TAKES} messages at a time, an ack each",
            MESSAGES, lambda r: stage.fleet(r, amounts.acked_each),
        ),
        stage.outcome(
            "rivals-lone", f"A lone message at {RATE}/s: from the call of the INSERT to the receiver; then its ack",
            MEDIAN, stage.lone,
        ),
    ]  # fmt: skip


def measure(amounts: Amounts, tell: Tell) -> Report:
    """All that this machine has; who is missing is named in the report."""
    started, load_before = time.monotonic(), load()
    subprocess.run([INSTALL, "topics", sys.executable], check=False)
    with arena((DIRECT, QUEUEGATE)) as place, embedded() as inside, others(_OTHERS) as rest:
        rivals = [*ours(place), _embedded(inside.gate), *rest.found]
        found = outcomes(Stage(rivals, amounts, tell))
        facts = {**machine(), **place.versions, "embedded": inside.durability, **rest.versions}
    return Report({**facts, **of_the_run(started, load_before, amounts.repeats)}, rest.absent, found)


def ours(place: Arena, name: str = MARIADB, by_hand: str = BY_HAND) -> list[Rival]:
    """The queue, and the same by hand on the same server."""
    gate, port = place.named(QUEUEGATE)[0], place.server.port
    queue = GateQueue(name=name, port=gate.port, proxy_pid=gate.pid, pid=place.database_pid, database_port=port)
    return [queue, TableByHand(name=by_hand, port=port, pid=place.database_pid)]


def _embedded(gate: Any) -> Rival:
    with contextlib.closing(gate.connect()):
        pid = gate.process.pid
    return GateQueue(name=EMBEDDED, port=gate.port, proxy_pid=pid, pid=pid, database_port=0)

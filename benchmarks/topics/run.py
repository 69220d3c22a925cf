"""`python -m benchmarks topics`: everything about topics in one run, and a report with the targets beside it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Outcome, Tell
from benchmarks.measure import load, machine, of_the_run
from benchmarks.others import POSTGRESQL, RABBITMQ_STREAMS, REDIS, Kind, Others, Server, others
from benchmarks.report import Report
from benchmarks.rivals import DIRECT, QUEUEGATE, Arena, arena
from benchmarks.topics import groups, reading
from benchmarks.topics.gate import Queue, Topic
from benchmarks.topics.logs import Log
from benchmarks.topics.postgresql import PostgresTable
from benchmarks.topics.rabbitmq_streams import RabbitStream
from benchmarks.topics.redis_streams import RedisStream
from benchmarks.topics.targets import TOPIC
from tests.servers import find_binary

INSTALL = Path(__file__).resolve().parent.parent / "install_rivals.sh"


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything. `messages` is a multiple of the largest batch."""

    messages: int = 200_000
    lone_messages: int = 500
    seconds: float = 5.0
    repeats: int = 3
    behind: int = 1_000_000


QUICK = Amounts(messages=10_000, lone_messages=100, seconds=1.0, repeats=1, behind=100_000)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run's places and amounts."""

    arena: Arena
    stage: reading.Stage
    amounts: Amounts
    tell: Tell

    def producers(self) -> Iterator[Outcome]:
        yield reading.producers(self.stage)

    def producers_in_c(self) -> Iterator[Outcome]:
        self.stage.topic.fill(0)
        self.stage.queue.fill(0)
        yield groups.producers(self.arena, self.stage.topic, self.amounts.seconds, self.amounts.repeats, self.tell)

    def groups(self) -> Iterator[Outcome]:
        yield from reading.groups(self.stage)

    def lone(self) -> Iterator[Outcome]:
        yield reading.lone(self.stage)

    def replay(self) -> Iterator[Outcome]:
        yield reading.replay(self.stage)

    def sleepers(self) -> Iterator[Outcome]:
        yield groups.sleepers(self.arena, self.stage.topic, self.amounts.seconds, self.amounts.repeats, self.tell)

    def seeks(self) -> Iterator[Outcome]:
        yield groups.seeks(self.arena, self.stage.topic, self.amounts.behind, self.amounts.repeats, self.tell)


PARTS: dict[str, Callable[[_Run], Iterator[Outcome]]] = {
    "topic-producers": _Run.producers,
    "topic-producers-sysbench": _Run.producers_in_c,
    "topic-groups": _Run.groups,
    "topic-lone": _Run.lone,
    "topic-replay": _Run.replay,
    "topic-sleepers": _Run.sleepers,
    "topic-seek": _Run.seeks,
}
_OTHERS: Mapping[Kind, Callable[[Server], Log]] = {
    REDIS: lambda server: RedisStream(port=server.port, pid=server.pid),
    RABBITMQ_STREAMS: lambda server: RabbitStream(port=server.port, pid=server.pid),
    POSTGRESQL: lambda server: PostgresTable(port=server.port, pid=server.pid),
}
_NEED_SYSBENCH = ("topic-producers-sysbench", "topic-sleepers")


def measure(parts: Sequence[str], amounts: Amounts, tell: Tell) -> Report:
    """The parts of these names, or all; who or what is missing is named in the report."""
    started, load_before = time.monotonic(), load()
    subprocess.run([INSTALL, "topics", sys.executable], check=False)
    wanted = [name for name in PARTS if name in parts or not parts]
    left_out = [name for name in wanted if name in _NEED_SYSBENCH and find_binary("sysbench") is None]
    with arena((DIRECT, QUEUEGATE)) as place, others(_OTHERS) as rest:
        run = _Run(place, _stage(place, rest, amounts, tell), amounts, tell)
        outcomes = [outcome for name in wanted if name not in left_out for outcome in PARTS[name](run)]
        facts = {**machine(), **place.versions, **rest.versions}
    facts |= of_the_run(started, load_before, amounts.repeats)
    return Report(facts, [*(f"{name}, for sysbench is not installed" for name in left_out), *rest.absent], outcomes)


def _stage(place: Arena, rest: Others[Log], amounts: Amounts, tell: Tell) -> reading.Stage:
    gate = place.named(QUEUEGATE)[0]
    way = {
        "port": gate.port, "proxy_pid": gate.pid, "pid": place.database_pid, "database_port": place.server.port,
    }  # fmt: skip
    return reading.Stage(
        topic=Topic(name=TOPIC, **way),
        queue=Queue(name="queuegate, queue", **way),
        others=rest.found,
        messages=amounts.messages,
        lone_messages=amounts.lone_messages,
        seconds=amounts.seconds,
        repeats=amounts.repeats,
        tell=tell,
    )

"""Each log in the same manner: producers, one group and three, lone messages, the whole log read through."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from benchmarks.harness import Outcome, Series, Tell, turned
from benchmarks.measure import percentile
from benchmarks.topics import crew
from benchmarks.topics.gate import BROADCAST, REPLAY, SELECT, CommandLine, Queue, Topic
from benchmarks.topics.logs import Log

PRODUCERS, PROCESSES = 20, 4
BATCHES = (1000, 100)
GROUPS = (1, 3)
LONE_SECONDS = 30.0  # for one message, at the most

_names = count(1)
_open: list[Any] = []  # a reader that is closed would read its endless result to its end


@dataclass(frozen=True, slots=True)
class Stage:
    """Who takes part, and how much of everything."""

    topic: Topic
    queue: Queue
    others: Sequence[Log]
    messages: int
    lone_messages: int
    seconds: float
    repeats: int
    tell: Tell

    def in_turn(self, title: str, logs: Sequence[Log]) -> Iterator[Log]:
        """Each log once in each repeat, and each repeat begun with another."""
        for repeat in range(self.repeats):
            self.tell(f"{title}: {repeat + 1} of {self.repeats}")
            yield from turned(logs, repeat)

    def outcome(self, name: str, title: str, main: str, found: dict[str, Series], base: str) -> Outcome:
        return Outcome(name, title, main, list(found.values()), (base,))


# --- what clients do (crew.Work)


def produce(log: Log, threads: int, seconds: float) -> Generator[None, None, list[float]]:
    """So many producers, for so long; how long each message took."""
    senders = [log.sender() for _ in range(threads)]
    yield
    took: list[float] = []
    end = time.monotonic() + seconds

    def work(send: Any) -> None:
        while (started := time.monotonic()) < end:
            send()
            took.append(time.monotonic() - started)

    workers = [threading.Thread(target=work, args=(send,)) for send in senders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return took


def drain(log: Log, group: str, batch: int, messages: int) -> Generator[None, None, int]:
    """One reader, until the group has had so many."""
    reader = log.reader(group, batch)
    _open.append(reader)
    next(reader)
    yield
    return _added(reader, messages)


def scan(log: Log, messages: int) -> Generator[None, None, int]:
    """The log from its first message on."""
    reader = log.scanner()
    _open.append(reader)
    next(reader)
    yield
    return _added(reader, messages)


def _added(reader: Iterator[int], messages: int) -> int:
    done = 0
    while done < messages:
        done += next(reader)
    return done


def converse(
    log: Log, group: str, messages: int, pace_seconds: float = 0.0, warm_up: int = 0
) -> Generator[None, None, list[float]]:
    """One message after the other: written, committed, received, acked. From the call of the commit to the receipt.

    None is sent sooner than `pace_seconds` after the one before. The first `warm_up` go before the beginning.
    """
    lone = log.lone(group)
    _open.append(lone)
    arrived: list[float] = []
    acked = threading.Event()

    def receive() -> None:
        while True:
            place = lone.receive()
            arrived.append(time.monotonic())
            lone.ack(place)
            acked.set()

    def send() -> float:
        acked.clear()
        lone.write()
        started = time.monotonic()
        lone.commit()
        if not acked.wait(LONE_SECONDS):
            raise TimeoutError(f"message {len(arrived) + 1} was not received and acked in {LONE_SECONDS:.0f} s")
        return arrived[-1] - started

    threading.Thread(target=receive, daemon=True).start()
    for _ in range(warm_up):
        send()
    yield
    return [send() for _ in paced(messages, pace_seconds)]


def paced(times: int, pace_seconds: float) -> Iterator[int]:
    """Numbers, of which none comes sooner than that after the one before."""
    due = time.monotonic()
    for number in range(times):
        if (early := due - time.monotonic()) > 0:
            time.sleep(early)
        due = time.monotonic() + pace_seconds
        yield number


# --- parts


def producers(stage: Stage) -> Outcome:
    """Messages a second of twenty producers, each waiting for its own message to be accepted."""
    title = f"{PRODUCERS} producers of single messages, Python clients in {PROCESSES} processes"
    logs = [stage.topic, stage.queue, *stage.others]
    for log in logs:
        log.fill(0)
    found = {log.name: Series(log.name) for log in logs}
    for log in stage.in_turn(title, logs):
        done = crew.run(log, produce, [(PRODUCERS // PROCESSES, stage.seconds)] * PROCESSES)
        took = [sample for samples in done.results for sample in samples]
        found[log.name].add({**done.columns(len(took)), **_spread(took)})
    return stage.outcome("topic-producers", title, "messages/s", found, stage.queue.name)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {"median ms": percentile(seconds, 50) * 1000, "p99 ms": percentile(seconds, 99) * 1000}


def groups(stage: Stage) -> Iterator[Outcome]:
    """A group, and three together, each read by one client; a queue is one group's at most."""
    logs = [stage.topic, *stage.others]
    for log in logs:
        log.fill(stage.messages)
    for number in GROUPS:
        for batch in BATCHES:
            yield _group(stage, logs if number > 1 else [stage.topic, stage.queue, *stage.others], number, batch)


def _group(stage: Stage, logs: Sequence[Log], number: int, batch: int) -> Outcome:
    who = "One group" if number == 1 else f"{number} groups together"
    title = f"{who}, {stage.messages:,} messages for each, read and acked in batches of {batch:,}"
    found = {log.name: Series(log.name) for log in logs}
    for log in stage.in_turn(title, logs):
        names = [f"g{next(_names)}" for _ in range(number)]
        for name in names:
            log.join(name, stage.messages)
        done = crew.run(log, drain, [(name, batch, stage.messages) for name in names])
        for name in names:
            log.leave(name)
        found[log.name].add(done.columns(sum(done.results)))
    base = stage.queue.name if number == 1 else stage.topic.name
    return stage.outcome(f"topic-groups-{number}-{batch}", title, "messages/s", found, base)


def lone(stage: Stage) -> Outcome:
    """From the call of COMMIT to the row at the group's member, and all that a message costs, its ACK included."""
    title = f"A lone message, {stage.lone_messages:,} one after the other: BEGIN, INSERT, COMMIT, received, ACK"
    logs = [stage.topic, stage.queue, *stage.others]
    found = {log.name: Series(log.name) for log in logs}
    for log in stage.in_turn(title, logs):
        log.fill(0)
        group = f"g{next(_names)}"
        log.join(group, 0)
        done = crew.run(log, converse, [(group, stage.lone_messages)])
        log.leave(group)
        columns = done.columns(stage.lone_messages)
        del columns["messages/s"]  # the next one waits for the one before
        (took,) = done.results
        found[log.name].add({**_spread(took), **columns})
    return stage.outcome("topic-lone", title, "median ms", found, stage.queue.name)


def replay(stage: Stage) -> Outcome:
    """The whole log by replay and by broadcast, and as an ordinary SELECT without the proxy."""
    title = f"The whole log read through: {stage.messages:,} messages"
    scanners = _scanners(stage)
    logs = [*scanners, *stage.others]
    for log in (stage.topic, *stage.others):
        log.fill(stage.messages)
    found = {log.name: Series(log.name) for log in logs}
    for log in stage.in_turn(title, logs):
        done = crew.run(log, scan, [(stage.messages,)])
        found[log.name].add(done.columns(sum(done.results), "row"))
    return stage.outcome("topic-replay", title, "rows/s", found, scanners[-1].name)


def _scanners(stage: Stage) -> list[Topic]:
    topic, cli = replace(stage.topic, messages=stage.messages), "mariadb --quick"
    inside = {"port": topic.database_port, "proxy_pid": None}
    found = []
    for client, kind in (("PyMySQL", Topic), (cli, CommandLine)):
        for what, sql, changed in (
            ("queuegate, replay", REPLAY, {}),
            ("queuegate, broadcast", BROADCAST, {}),
            ("MariaDB itself, SELECT", SELECT, inside),
        ):
            values = {name: getattr(topic, name) for name in topic.__dataclass_fields__}
            found.append(kind(**{**values, **changed, "name": f"{what}, {client}", "scan": sql}))
    return found

"""Producers in C beside topics with and without groups; and how soon a group delivers again after a seek."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pymysql.cursors import DictCursor

from benchmarks import sysbench
from benchmarks.harness import Outcome, Sample, Series, Tell, turned
from benchmarks.rivals import DIRECT, QUEUEGATE, Arena, Rival
from benchmarks.topics.gate import QUEUE, TOPIC, Topic
from benchmarks.topics.logs import PAYLOAD
from benchmarks.topics.reading import PRODUCERS
from tests.servers import DATABASE, NS, Sql, Stream, wait_until

BATCH = 100  # of the group that reads
SLEEPERS = 99
NONE, ASLEEP = "no group", f"{SLEEPERS} groups that sleep"
READ, MANY = "1 group that reads", f"{SLEEPERS + 1} groups, of which 1 reads"
CASES: Mapping[str, tuple[int, bool]] = {  # how many sleep, and whether one reads
    NONE: (0, False),
    ASLEEP: (SLEEPERS, False),
    READ: (0, True),
    MANY: (SLEEPERS, True),
}
TURNS = 4  # for each repeat: a difference of some per cent is told by many short turns
CAUGHT_UP_SECONDS = 300.0
MILLION = 1_000_000
SEEK_SECONDS = 120.0
HELD = 1000  # messages that a member may hold
DELIVERY, STATEMENT = "first delivery ms", "ALTER GROUP ms"
LATEST = "LATEST, and a message then"
_INSERT = str(sysbench.LUA / "insert.lua")


# --- producers


def producers(arena: Arena, topic: Topic, seconds: float, repeats: int, tell: Tell) -> Outcome:
    """The same producers as sysbench's threads, so that the clients' own cost hides little."""
    title = f"{PRODUCERS} producers of single messages, sysbench"
    direct, gate = arena.named(DIRECT)[0], arena.named(QUEUEGATE)[0]
    ways = {
        topic.name: (gate, TOPIC),
        "queuegate, queue": (gate, QUEUE),
        "MariaDB itself, the topic's table": (direct, TOPIC),
    }
    found = {name: Series(name) for name in ways}
    for repeat in range(repeats):
        tell(f"{title}: {repeat + 1} of {repeats}")
        for name in turned(list(ways), repeat):
            found[name].add(_columns(_produce(arena, *ways[name], seconds)))
    return Outcome("topic-producers-sysbench", title, "messages/s", list(found.values()), ("queuegate, queue",))


def _produce(arena: Arena, rival: Rival, table: str, seconds: float) -> Sample:
    return sysbench.run(arena, rival, _INSERT, PRODUCERS, max(1.0, seconds), f"--table={table}")


def _columns(sample: Sample) -> dict[str, float]:
    columns = {"messages/s": sample.values["queries/s"], **{k: v for k, v in sample.values.items() if k != "queries/s"}}
    for name, used in (("proxy", sample.proxy_cpu), ("server", sample.database_cpu)):
        assert used is not None
        columns[f"{name} CPU us/message"] = used / sample.operations * 1e6
    return columns


def sleepers(arena: Arena, topic: Topic, seconds: float, repeats: int, tell: Tell) -> Outcome:
    """Enqueueing into topics that differ by their groups, in many turns; a turn begins when the reading groups rest."""
    title = f"{PRODUCERS} producers of single messages into a topic with groups, sysbench"
    gate = arena.named(QUEUEGATE)[0]
    topics = {name: replace(topic, table=f"sleep_{number}") for number, name in enumerate(CASES)}
    found = {name: Series(name) for name in CASES}
    with contextlib.ExitStack() as stack:
        for name, (asleep, reads) in CASES.items():
            tell(f"{title}: {name}")
            topics[name].fill(0)
            topics[name].run(*(f"CREATE GROUP asleep{n} ON {topics[name].table}" for n in range(asleep)))
            if reads:
                stack.enter_context(_reader(topics[name]))
        for turn in range(repeats * TURNS):
            tell(f"{title}: {turn + 1} of {repeats * TURNS}")
            for name in turned(list(CASES), turn):
                found[name].add(_columns(_produce(arena, gate, topics[name].table, min(seconds, 2.0))))
                if CASES[name][1]:
                    _caught_up(topics[name])
    return Outcome("topic-sleepers", title, "messages/s", list(found.values()), (NONE, READ))


@contextlib.contextmanager
def _reader(topic: Topic) -> Iterator[None]:
    """A group `awake` with one member, in a process of its own."""
    topic.run(f"CREATE GROUP awake ON {topic.table} WITH (ack_wait = '10m')")
    process = multiprocessing.get_context("spawn").Process(target=_read, args=(topic,), daemon=True)
    process.start()
    try:
        wait_until(lambda: group_row(topic, "awake")["Members"], CAUGHT_UP_SECONDS, "the group's member")
        yield
        assert process.is_alive(), "the group's member failed"
    finally:
        process.terminate()
        process.join()


def _read(topic: Topic) -> None:
    for _ in topic.reader("awake", BATCH):
        pass


def _caught_up(topic: Topic) -> None:
    """What is left is less than a batch, which the member waits for."""

    def resting() -> bool:
        at = group_row(topic, "awake")
        return not at["Unread"] and not at["Ready"] and bool(at["In_flight"] < BATCH)

    wait_until(resting, CAUGHT_UP_SECONDS, "the group to have everything")


def group_row(topic: Topic, group: str) -> dict[str, Any]:
    """The group's line of SHOW GROUPS."""
    with topic.connect(cursorclass=DictCursor) as link, link.cursor() as cursor:
        cursor.execute(f"SHOW GROUPS ON {topic.table} LIKE '{group}'")
        (row,) = cursor.fetchall()
        return dict(row)


# --- seeks


def seeks(arena: Arena, topic: Topic, messages: int, repeats: int, tell: Tell) -> Outcome:
    """From the call of ALTER GROUP ... SEEK, with a member that waits, to the member's first message."""
    title = f"A seek in a topic of {messages:,} messages, with a member that waits"
    gate, long = arena.named(QUEUEGATE)[0], replace(topic, table="long_topic")
    middle = _fill(arena, long, messages, tell)
    client = Sql(gate.connect())
    client("SET time_zone = '+00:00'")
    client(f"CREATE GROUP g ON {long.table}")
    targets = {
        "EARLIEST": ("EARLIEST", 1),
        "OFFSET, the middle": (f"OFFSET {messages // 2}", messages // 2),
        "TIMESTAMP, the middle": (f"TIMESTAMP '{middle}'", messages // 2),
        "OFFSET, the last": (f"OFFSET {messages}", messages),
    }
    found = {name: Series(name) for name in (*targets, LATEST)}
    for repeat in range(repeats):
        tell(f"{title}: {repeat + 1} of {repeats}")
        for name in turned(list(found), repeat):
            measured = (
                _seek_to_latest(gate, client, long) if name == LATEST else _seek(gate, client, long, *targets[name])
            )
            found[name].add(measured)
    client.close()
    return Outcome("topic-seek", title, DELIVERY, list(found.values()), ())


def _fill(arena: Arena, topic: Topic, messages: int, tell: Tell) -> str:
    """Messages of a second each, the last one now. Returns the time of the one in the middle."""
    topic.fill(0)
    last = int(time.time())
    with arena.server.connect(database=DATABASE) as link, link.cursor() as cursor:
        for start in range(0, messages, MILLION):
            tell(f"{topic.table}: {start:,} of {messages:,} messages")
            rows = min(MILLION, messages - start)
            # With ids: those that the server gives to INSERT ... SELECT have gaps between the statements.
            cursor.execute(
                f"INSERT INTO {topic.table} (id, payload, time_scheduled, time_created)"
                f" SELECT id, '{PAYLOAD}', at, at FROM (SELECT {start} + seq AS id,"
                f" ({last - messages + start} + seq) * {NS} AS at FROM seq_1_to_{rows}) AS rows_of_it"
            )
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(last - messages + messages // 2))


def _seek(gate: Rival, client: Sql, topic: Topic, to: str, expected: int) -> dict[str, float]:
    """One seek back from the end."""
    client(f"ALTER GROUP g ON {topic.table} SEEK TO LATEST")
    with _member(gate, topic) as stream:
        started = time.time()
        client(f"ALTER GROUP g ON {topic.table} SEEK TO {to}")
        done = time.time()
        (first, *_), *_ = stream.wait(1, SEEK_SECONDS)
        assert first == expected, f"SEEK TO {to}: message {first} came first, not {expected}"
        return {DELIVERY: (stream.times[0] - started) * 1000, STATEMENT: (done - started) * 1000}


def _seek_to_latest(gate: Rival, client: Sql, topic: Topic) -> dict[str, float]:
    """One seek from the beginning to the end, with a member that holds as many messages as it may."""
    client(f"ALTER GROUP g ON {topic.table} SEEK TO EARLIEST")
    with _member(gate, topic) as stream:
        held = len(stream.wait(HELD, SEEK_SECONDS))
        started = time.time()
        client(f"ALTER GROUP g ON {topic.table} SEEK TO LATEST")
        done = time.time()
        written = client.insert_id(f"INSERT INTO {topic.table} (payload) VALUES (%s)", PAYLOAD)
        (next_, *_) = stream.wait(held + 1, SEEK_SECONDS)[held]
        assert next_ == written, f"SEEK TO LATEST: message {next_} came next, not {written}"
        return {DELIVERY: (stream.times[held] - started) * 1000, STATEMENT: (done - started) * 1000}


@contextlib.contextmanager
def _member(gate: Rival, topic: Topic) -> Iterator[Stream]:
    """A member of the group `g`, as soon as the proxy has it."""
    stream = Stream(gate, f"SELECT id FROM STREAM {topic.table} WITH (group = 'g', prefetch = {HELD})")
    try:
        wait_until(lambda: group_row(topic, "g")["Members"], SEEK_SECONDS, "the member")
        yield stream
    finally:
        stream.close()

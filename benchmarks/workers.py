"""`python -m benchmarks workers`: what users run: workers, polls of one message, and the loop that they write by hand.

By hand is what one writes without queuegate: a transaction for each message, which selects one row FOR UPDATE SKIP
LOCKED, handles it, marks it as done and commits. SQLite has no row locks: there it is BEGIN IMMEDIATE. Each case drains
the same backlog; the cases of a repeat follow one another, and ratios are taken within a repeat.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from benchmarks.harness import Outcome, Series, Tell, turned
from benchmarks.measure import load, machine, of_the_run
from benchmarks.places import PLACES, Place
from benchmarks.report import Report
from benchmarks.steps.counters import Meter, costs
from queuegate_worker import Worker
from tests.servers import DATABASE

PAYLOAD = "x" * 100
QUEUE, TABLE, LEDGER = "worked", "worked_by_hand", "worked_ledger"
RATE = "messages/s"
FILL = 500  # rows of one INSERT
BY_HAND = "by hand, x{}"
CONCURRENCY = (1, 4, 16, 32)
PARTS = ("poll", "stream", "worker")
_CONNECT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many messages each case drains, and how often."""

    messages: int = 3000
    repeats: int = 5


QUICK = Amounts(messages=600, repeats=1)


@dataclass(frozen=True, slots=True)
class Case:
    """A way to work on the backlog: `work` runs in `processes` processes, each with its arguments."""

    name: str
    work: Callable[..., None]
    arguments: tuple[Any, ...]
    processes: int = 1
    queue: bool = True


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a process connects to: the proxy, and the database itself or its file."""

    proxy: int
    server: int | None
    file: str


# --- what runs in the processes: connects, waits for the others, works until nothing is left


def by_hand(ports: Ports, ready: Barrier) -> None:
    """SELECT ... FOR UPDATE SKIP LOCKED, UPDATE, COMMIT."""
    assert ports.server is not None
    link = pymysql.connect(host="127.0.0.1", port=ports.server, user="root", database=DATABASE, ssl_disabled=True)
    with link, link.cursor() as cursor:
        ready.wait()
        while True:
            cursor.execute(f"SELECT id, payload FROM {TABLE} WHERE done = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
            row = cursor.fetchone()
            if row is None:
                link.commit()
                return
            cursor.execute(f"UPDATE {TABLE} SET done = 1 WHERE id = %s", (row[0],))
            link.commit()


def by_hand_on_sqlite(ports: Ports, ready: Barrier) -> None:
    """BEGIN IMMEDIATE, SELECT, UPDATE, COMMIT."""
    with contextlib.closing(sqlite3.connect(ports.file, isolation_level=None, timeout=60)) as link:
        link.execute("PRAGMA synchronous = FULL")
        ready.wait()
        while True:
            link.execute("BEGIN IMMEDIATE")
            row = link.execute(f"SELECT id, payload FROM {TABLE} WHERE done = 0 ORDER BY id LIMIT 1").fetchone()
            if row is None:
                link.execute("COMMIT")
                return
            link.execute(f"UPDATE {TABLE} SET done = 1 WHERE id = ?", (row[0],))
            link.execute("COMMIT")


def poll(ports: Ports, ready: Barrier) -> None:
    """SELECT ... LIMIT 1 NOWAIT, ACK."""
    with _client(ports) as link, link.cursor() as cursor:
        ready.wait()
        empty = 0
        while empty < 3:
            cursor.execute(f"SELECT id, payload FROM STREAM {QUEUE} LIMIT 1 NOWAIT")
            row = cursor.fetchone()
            if row is None:
                empty += 1
                continue
            empty = 0
            cursor.execute(f"ACK {QUEUE} %s", (row[0],))


def stream(ports: Ports, ready: Barrier, prefetch: int, messages: int) -> None:
    """An endless stream, and an ACK each on another connection."""
    with _client(ports) as acking, _client(ports) as link, acking.cursor() as ack:
        cursor = link.cursor(SSCursor)
        ready.wait()
        cursor.execute(f"SELECT id, payload FROM STREAM {QUEUE} WITH (prefetch = {prefetch})")
        for _ in range(messages):
            row = cursor.fetchone()
            assert row is not None
            ack.execute(f"ACK {QUEUE} %s", (row[0],))
        ack.execute(f"KILL QUERY {link.thread_id()}")  # type: ignore[no-untyped-call]
        with contextlib.suppress(pymysql.MySQLError):
            cursor.fetchone()


def worker(ports: Ports, ready: Barrier, concurrency: int, handler: str, messages: int) -> None:
    """The Python worker until all messages are handled."""
    left, lock, done = messages, threading.Lock(), threading.Event()

    def handled() -> None:
        nonlocal left
        with lock:
            left -= 1
            if left == 0:
                done.set()

    def with_sql(message: Any, transaction: Any) -> None:
        transaction.execute(f"INSERT INTO {LEDGER} VALUES (%s)", (message.id,))
        handled()

    def without(message: Any) -> None:
        if handler != "nothing":
            time.sleep(float(handler) / 1000)
        handled()

    url = f"mysql://root@127.0.0.1:{ports.proxy}/{DATABASE if ports.server else 'main'}"
    ready.wait()
    with Worker(url, QUEUE, concurrency=concurrency).running(with_sql if handler == "sql" else without):
        done.wait()


def _client(ports: Ports) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host="127.0.0.1", port=ports.proxy, user="root", database=DATABASE if ports.server else "main",
        autocommit=True, ssl_disabled=True,
    )  # fmt: skip


# --- measuring


def cases(place: Place, amounts: Amounts) -> Iterator[Case]:
    """All cases of a backend, the loop by hand first."""
    hand = by_hand_on_sqlite if place.server is None else by_hand
    for processes in (1, 4):
        yield Case(BY_HAND.format(processes), hand, (), processes, queue=False)
    for processes in (1, 4):
        yield Case(f"poll of one and ACK, x{processes}", poll, (), processes)
    yield Case("stream, prefetch = 10, an ACK each", stream, (10, amounts.messages))
    for concurrency in CONCURRENCY:
        yield Case(f"worker, concurrency {concurrency}", worker, (concurrency, "nothing", amounts.messages))
    for concurrency in (1, 4):
        name = f"worker, concurrency {concurrency}, an INSERT in its transaction"
        yield Case(name, worker, (concurrency, "sql", amounts.messages))
    yield Case("worker, concurrency 16, handler of 1 ms", worker, (16, "1", amounts.messages))


def measure(backends: Sequence[str], amounts: Amounts, parts: Sequence[str], tell: Tell) -> Report:
    """On each of these backends. `parts`: cases whose names begin so, and the loops by hand; none: all."""
    started, load_before = time.monotonic(), load()
    outcomes = []
    for backend in backends:
        with PLACES[backend]() as place, contextlib.closing(Meter(place)) as meter:
            chosen = [case for case in cases(place, amounts) if _is_wanted(case, parts)]
            series = [Series(case.name) for case in chosen]
            for repeat in range(amounts.repeats):
                for case, found in turned(list(zip(chosen, series, strict=True)), repeat):
                    tell(f"{backend}: {case.name}, {repeat + 1} of {amounts.repeats}")
                    found.add(_drained(place, meter, case, amounts.messages))
            title = (
                f"{backend}: a backlog of {amounts.messages:,} messages, one at a time; a worker's start is part of it"
            )
            outcomes.append(Outcome(backend, title, RATE, series, tuple(BY_HAND.format(n) for n in (1, 4))))
    return Report({**machine(), **of_the_run(started, load_before, amounts.repeats)}, [], outcomes)


def _is_wanted(case: Case, parts: Sequence[str]) -> bool:
    return not case.queue or not parts or case.name.startswith(tuple(parts))


def _drained(place: Place, meter: Meter, case: Case, messages: int) -> dict[str, float]:
    """One turn: fill, start the processes, and count from when all have connected until the last has ended."""
    _fill(place, case, messages)
    assert place.gate.port is not None
    ports = Ports(place.gate.port, place.server and place.server.port, str(place.directory / "by_hand.db"))
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(case.processes + 1)
    target = partial(case.work, ports, ready, *case.arguments)
    processes = [context.Process(target=target, daemon=True) for _ in range(case.processes)]
    for process in processes:
        process.start()
    ready.wait(_CONNECT_SECONDS)
    before = meter.begin()
    for process in processes:
        process.join()
        assert process.exitcode == 0, f"{case.name} failed"
    after = meter.end()
    _check(place, case, messages)
    return {RATE: messages / (after.at - before.at), **costs(before, after, messages)}


def _fill(place: Place, case: Case, messages: int) -> None:
    target = QUEUE if case.queue else TABLE
    if place.server is None and not case.queue:
        with contextlib.closing(sqlite3.connect(place.directory / "by_hand.db")) as link:
            link.execute("PRAGMA journal_mode = WAL")
            link.execute(f"DROP TABLE IF EXISTS {TABLE}")
            link.execute(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, payload TEXT, done INT NOT NULL DEFAULT 0)")
            link.execute(f"CREATE INDEX waiting ON {TABLE} (done, id)")
            link.executemany(f"INSERT INTO {TABLE} (payload) VALUES (?)", [(PAYLOAD,)] * messages)
            link.commit()
        return
    with place.gate.connect() as link, link.cursor() as cursor:
        if case.queue:
            cursor.execute(f"DROP QUEUE IF EXISTS {QUEUE}")
            cursor.execute(f"CREATE QUEUE {QUEUE} (payload VARCHAR(300))")
            cursor.execute(f"DROP TABLE IF EXISTS {LEDGER}")
            cursor.execute(f"CREATE TABLE {LEDGER} (id BIGINT PRIMARY KEY)")
        else:
            cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
            cursor.execute(
                f"CREATE TABLE {TABLE} (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(300),"
                " done INT NOT NULL DEFAULT 0, KEY waiting (done, id))"
            )
        for start in range(0, messages, FILL):
            rows = ", ".join([f"('{PAYLOAD}')"] * min(FILL, messages - start))
            cursor.execute(f"INSERT INTO {target} (payload) VALUES {rows}")


def _check(place: Place, case: Case, messages: int) -> None:
    """Nothing is left, and nothing was done twice: a rate of work that was not done is no rate."""
    if not case.queue:
        return
    with place.gate.connect() as link, link.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {QUEUE} WHERE time_acked IS NULL")
        ((left,),) = cursor.fetchall()
        assert left == 0, f"{case.name}: {left} of {messages} messages are left"

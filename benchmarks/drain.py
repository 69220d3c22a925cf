"""Four receivers empty a queue of 200,000 waiting messages; beside them, four hand-written consumers and a plain table.

By hand, on the database directly, in batches of a hundred, it is done in two ways:

- in one transaction: SELECT ... FOR UPDATE SKIP LOCKED, mark the rows as done, commit. Whoever dies gives his rows back
  by rolling back; whoever works long holds a transaction open and rows locked for as long;
- with a lease, as queuegate does it and job queues that are in earnest: claim (FOR UPDATE SKIP LOCKED, mark as taken
  until then, commit), work, mark as done (commit).

A receiver of queuegate reads an endless stream and acks, on a second connection, what has come, up to a hundred
messages at a time. Every consumer is a process of its own, so that Python's lock is none of the matter.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from benchmarks.measure import Measurement
from benchmarks.places import Place
from tests.servers import DATABASE, Sql

CONSUMERS = 4
BATCH = 100
REPEATS = 3
POSTPONED = 100_000
TIMEOUT_SECONDS = 600
_DONE = 2  # a row of the plain table: 0 waiting, 1 taken, 2 done
HAND_WRITTEN = "hand-written SKIP LOCKED with a lease"
ONE_TRANSACTION = "hand-written SKIP LOCKED, one transaction"
STREAMS = "queuegate, 4 receivers"
STREAMS_POSTPONED = f"queuegate, 4 receivers, {POSTPONED:,} postponed"

Login = dict[str, Any]
Consumer = Callable[[Login, Any, int, Event], None]


def measure(place: Place, messages: int) -> list[Measurement]:
    """Every rival in each of several turns; medians. Only on a server: the embedded one has no row locks to skip."""
    assert place.server is not None
    direct, gate = _login(place.server.port), _login(place.gate.port)
    rivals: dict[str, Callable[[], float]] = {
        HAND_WRITTEN: lambda: _turn(place, _table(place, messages), _lease_rows, direct, messages),
        ONE_TRANSACTION: lambda: _turn(place, _table(place, messages), _take_rows, direct, messages),
        STREAMS: lambda: _turn(place, _queue(place, messages, 0), _receive, gate, messages),
        STREAMS_POSTPONED: lambda: _turn(place, _queue(place, messages, POSTPONED), _receive, gate, messages),
    }
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(REPEATS):
        names = list(rivals)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds[name].append(rivals[name]())
    return [_line(place, name, messages, found, seconds[HAND_WRITTEN]) for name, found in seconds.items()]


def seconds_to_drain(place: Place, messages: int) -> float:
    """Of queuegate alone, with four receivers, on either backend."""
    return _turn(place, _queue(place, messages, 0), _receive, _login(place.gate.port), messages)


def _login(port: int) -> Login:
    return {"host": "127.0.0.1", "port": port, "user": "root", "database": DATABASE}


def _line(place: Place, name: str, messages: int, found: list[float], rival: list[float]) -> Measurement:
    ratio = median(theirs / ours for ours, theirs in zip(found, rival, strict=True))
    values = {"messages/s": round(messages / median(found)), "/ hand-written": round(ratio, 2)}
    return Measurement(name, place.backend, place.durability, BATCH, messages, values)


def _turn(place: Place, check: Callable[[], int], consumer: Consumer, login: Login, messages: int) -> float:
    """Seconds from the start of all consumers, connected, until everything is done with."""
    context = multiprocessing.get_context("spawn")
    done, begin = context.Value("l", 0), context.Event()
    workers = [
        context.Process(target=consumer, args=(login, done, messages, begin), daemon=True) for _ in range(CONSUMERS)
    ]
    seconds = seconds_until_done(workers, begin, done, messages)
    assert check() == messages, "the table does not say that all is done"
    return seconds


def seconds_until_done(consumers: Sequence[BaseProcess], begin: Event, done: Any, messages: int) -> float:
    """Start these processes, and measure from the event until they have counted so many messages; then end them."""
    for consumer in consumers:
        consumer.start()
    time.sleep(3)  # everybody has connected; what is measured begins with the event
    started = time.monotonic()
    begin.set()
    while done.value < messages and time.monotonic() < started + TIMEOUT_SECONDS:
        time.sleep(0.01)
    seconds = time.monotonic() - started
    for consumer in consumers:
        consumer.terminate()
        consumer.join()
    assert done.value == messages, f"{done.value} of {messages} done"
    return seconds


# --- by hand


def _table(place: Place, messages: int) -> Callable[[], int]:
    assert place.server is not None
    with place.server.connect(database=DATABASE) as link, link.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS drained")
        cursor.execute(
            "CREATE TABLE drained (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(300),"
            " taken INT NOT NULL DEFAULT 0, until DATETIME, KEY waiting (taken, id))"
        )
        cursor.execute(f"INSERT INTO drained (payload) SELECT REPEAT('x', 200) FROM seq_1_to_{messages}")
    return lambda: _count(place, f"SELECT COUNT(*) FROM drained WHERE taken = {_DONE}")


def _count(place: Place, sql: str) -> int:
    assert place.server is not None
    with place.server.connect(database=DATABASE) as link, link.cursor() as cursor:
        cursor.execute(sql)
        ((count,),) = cursor.fetchall()
        return int(count)


def _take_rows(login: Login, done: Any, messages: int, begin: Event) -> None:
    with pymysql.connect(**login, autocommit=True) as link, link.cursor() as cursor:
        begin.wait()
        while done.value < messages:
            ids = _claimed(cursor, "taken = 0", f"taken = {_DONE}")
            with done.get_lock():
                done.value += len(ids)


def _lease_rows(login: Login, done: Any, messages: int, begin: Event) -> None:
    with pymysql.connect(**login, autocommit=True) as link, link.cursor() as cursor:
        begin.wait()
        while done.value < messages:
            ids = _claimed(cursor, "taken = 0", "taken = 1, until = NOW() + INTERVAL 10 MINUTE")
            acked = cursor.execute(f"UPDATE drained SET taken = {_DONE} WHERE id IN ({_list(ids)})") if ids else 0
            with done.get_lock():
                done.value += acked


def _claimed(cursor: Any, waiting: str, marked: str) -> list[int]:
    """One transaction that finds a batch, passing over what others have locked, and marks it."""
    cursor.execute("BEGIN")
    cursor.execute(f"SELECT id, payload FROM drained WHERE {waiting} ORDER BY id LIMIT {BATCH} FOR UPDATE SKIP LOCKED")
    ids = [row[0] for row in cursor.fetchall()]
    if ids:
        cursor.execute(f"UPDATE drained SET {marked} WHERE id IN ({_list(ids)})")
    cursor.execute("COMMIT")
    return ids


def _list(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


# --- by queuegate


def _queue(place: Place, messages: int, postponed: int) -> Callable[[], int]:
    client = Sql(place.gate.connect())
    client("DROP QUEUE IF EXISTS bench")
    client("CREATE QUEUE bench (payload VARCHAR(300)) WITH (ack_wait = '10m')")
    client(f"INSERT INTO bench (payload) SELECT REPEAT('x', 200) FROM {_numbers(place, messages)}")
    if postponed:
        later = "UNIX_TIMESTAMP(NOW() + INTERVAL 1 DAY) * 1000000000"
        client(
            f"INSERT INTO bench (payload, time_scheduled, time_next) SELECT REPEAT('x', 200), {later}, {later}"
            f" FROM seq_1_to_{postponed}"
        )
    client.close()
    return lambda: _acked(place)


def _numbers(place: Place, count: int) -> str:
    """A table of so many rows, in the database's own way."""
    if place.server is not None:
        return f"seq_1_to_{count}"
    return f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n) AS n"


def _acked(place: Place) -> int:
    client = Sql(place.gate.connect())
    count = int(client.value("SELECT COUNT(*) FROM bench WHERE time_acked IS NOT NULL"))
    client.close()
    return count


def _receive(login: Login, done: Any, messages: int, begin: Event) -> None:
    stream, acks = (pymysql.connect(**login, autocommit=True) for _ in range(2))
    received: SimpleQueue[int] = SimpleQueue()
    begin.wait()
    threading.Thread(target=_read, args=(stream, received), daemon=True).start()
    with acks.cursor() as cursor:
        while True:
            ids = _taken(received)
            acked = cursor.execute(f"ACK bench {_list(ids)}")
            with done.get_lock():
                done.value += acked


def _read(stream: pymysql.Connection[Any], received: SimpleQueue[int]) -> None:
    with stream.cursor(SSCursor) as cursor:
        cursor.execute("SELECT id, payload FROM STREAM bench")
        while row := cursor.fetchone():
            received.put(row[0])


def _taken(received: SimpleQueue[int]) -> list[int]:
    """What has come, at least one and at most a batch."""
    ids = [received.get()]
    with contextlib.suppress(Empty):
        while len(ids) < BATCH:
            ids.append(received.get_nowait())
    return ids

"""What the clients do, each in a process of its own: a statement again and again, acks, lone messages, drains.

All are generator functions as benchmarks/topics/crew.py runs them: what comes before the `yield` is not measured. Each
begins with a few of what is measured, so that connections are known and plans are made.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from pymysql.cursors import SSCursor

from benchmarks.topics.gate import Queue
from benchmarks.topics.logs import PAYLOAD, Lone
from benchmarks.topics.reading import paced

BATCH = 100
WARM_UP = 20
WINDOW = 500  # prefetch of a drain, whatever the size of its acks
_FILL_ROWS = 500
_SETTINGS = "ack_wait = '10m', poll_interval = '30s'"
TABLE = "step_table"
TABLE_COLUMNS = "payload VARCHAR(300), done BIGINT"
INSERT_ROW = f"INSERT INTO {TABLE} (payload) VALUES ('{PAYLOAD}')"
UPDATE_ROW = f"UPDATE {TABLE} SET done = 1764000000000000000 WHERE id = {{}}"

Execute = Callable[[str], object]
_open: list[Any] = []
"""What stays open until the process is ended. A stream that is closed would be read to its end, which it has not; and
closing a connection would cost the proxy something before its counters are read."""


def inserts(table: str, rows: int, payload: str = PAYLOAD) -> str:
    """One statement."""
    return f"INSERT INTO {table} (payload) VALUES " + ", ".join([f"('{payload}')"] * rows)


class Way(Protocol):
    """How a client reaches the database."""

    def executor(self) -> Execute:
        """Connect; each call runs one statement, with its commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQueue(Queue):
    """The queue whose messages are measured, and tables by the same port. No scan disturbs: poll_interval 30 s."""

    name: str = "queue"
    table: str = "step_queue"

    def executor(self) -> Execute:
        return self.connect().cursor().execute

    def fill(self, messages: int) -> None:
        self.run(
            f"DROP QUEUE IF EXISTS {self.table}", f"CREATE QUEUE {self.table} (payload VARCHAR(300)) WITH ({_SETTINGS})"
        )
        starts = range(0, messages, _FILL_ROWS)
        self.run(*(inserts(self.table, min(_FILL_ROWS, messages - start)) for start in starts))

    def reader(self, group: str, batch: int) -> Iterator[int]:
        return self.received(f"{self._stream} WITH (prefetch = {WINDOW})", f"ACK {self.table} {{}}", batch)

    def held(self, messages: int) -> list[int]:
        """Ids of so many messages that a stream has received, and holds."""
        rows = self.connect(cursorclass=SSCursor).cursor()
        _open.append(rows)
        rows.execute(f"{self._stream} WITH (prefetch = {messages})")
        return [row[0] for row in rows.fetchmany(messages)]

    def lone(self, group: str) -> Lone:
        rows, acks, insert = self.connect(cursorclass=SSCursor).cursor(), self.executor(), self.executor()
        rows.execute(self._stream)
        return Lone(
            lambda: None,
            lambda: insert(inserts(self.table, 1)),
            lambda: rows.fetchone()[0],
            lambda id_: acks(f"ACK {self.table} {id_}"),
        )

    @property
    def _stream(self) -> str:
        return f"SELECT id, payload FROM STREAM {self.table}"


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """SQLite called by the client itself, as durable as the embedded backend."""

    path: Path

    def executor(self) -> Execute:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return lambda sql: connection.execute(sql).close()


@dataclass(frozen=True, slots=True)
class Timed:
    """How long each statement took, and the client's own CPU seconds in all of them."""

    seconds: list[float]
    client_cpu: float


def again(way: Way, sql: str, times: int, pace_seconds: float) -> Generator[None, None, Timed]:
    """A statement again and again, not sooner than at that pace; `{}` in it is a number that counts from 1."""
    execute = _kept(way)
    for number in range(WARM_UP):
        execute(sql.format(number + 1))
    yield
    return _timed(execute, (sql.format(number) for number in count(WARM_UP + 1)), times, pace_seconds)


def settle_each(queue: StepQueue, sql: str, times: int, pace_seconds: float) -> Generator[None, None, Timed]:
    """A statement for each of the messages that a stream of a queue full enough holds; `{}` in it is the id."""
    execute, ids = _kept(queue), queue.held(times + WARM_UP)
    statements = [sql.format(id_) for id_ in ids]
    for statement in statements[:WARM_UP]:
        execute(statement)
    yield
    return _timed(execute, statements[WARM_UP:], times, pace_seconds)


def polls(queue: StepQueue, messages: int) -> Generator[None, None, int]:
    """One message after the other: polled for, and acked, by one connection."""
    cursor = queue.connect().cursor()
    _open.append(cursor)

    def one() -> None:
        cursor.execute(f"SELECT id, payload FROM STREAM {queue.table} LIMIT 1 NOWAIT")
        cursor.execute(f"ACK {queue.table} {cursor.fetchone()[0]}")

    for _ in range(WARM_UP):
        one()
    yield
    for _ in range(messages):
        one()
    return messages


def wait(queue: StepQueue, seconds: float) -> Generator[None, None, None]:
    """A stream that gets nothing."""
    _open.append(queue.lone(""))
    yield
    time.sleep(seconds)


def _kept(way: Way) -> Execute:
    _open.append(execute := way.executor())
    return execute


def _timed(execute: Execute, statements: Iterable[str], times: int, pace_seconds: float) -> Timed:
    wall, processor = time.perf_counter, time.thread_time
    seconds, used = [], 0.0
    for _, sql in zip(paced(times, pace_seconds), statements, strict=False):
        started, before = wall(), processor()
        execute(sql)
        used += processor() - before
        seconds.append(wall() - started)
    return Timed(seconds, used)

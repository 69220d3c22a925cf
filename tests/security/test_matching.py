"""Whose time it is: no pattern, no text and no name of one client keeps the others waiting (embedded backend)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from servers import NS, Gate, Sql, wait_until
from slowness import scaled

DELAY_MAX = 1.0  # seconds that another client may wait while hostile statements run; 0.05 on a machine at rest
LONG = 40_000  # characters of a text made to be read badly
USERS = [
    {"name": "root", "password": ""},
    {"name": "few", "password": "", "queues": {"q": ["enqueue", "receive", "settle"]}},
]

PATTERNS = [
    "SELECT CONCAT(REPEAT('a', 60), '!') REGEXP '^(a+)+$'",
    "SELECT CONCAT(REPEAT('a', 100000), '!') REGEXP '(a|aa)+$'",
    "SELECT REGEXP_REPLACE(REPEAT('a', 5000), 'a.*b|c', 'x')",
    "SELECT CONCAT(REPEAT('a', 200), '!') LIKE '%a%a%a%a%a%a%a%a%b' ESCAPE '!'",
    "SELECT CONCAT(REPEAT('a', 200), '!') LIKE '%a%a%a%a%a%a%a%a%b'",
    "SELECT CONCAT(REPEAT('a', 200), '!') LIKE BINARY '%a%a%a%a%a%a%a%a%b'",
    "SHOW QUEUES LIKE '" + "%a" * 60 + "%b'",
    "SHOW TABLES LIKE '" + "%a" * 60 + "%b'",
    "SELECT STR_TO_DATE(CONCAT(REPEAT('a', 60), '!'), '" + "%a" * 40 + "x')",
]
TEXTS = [
    "INSERT INTO t (" + "a" * LONG + "! VALUES (1), (2)",
    "INSERT INTO t (" + "a " * (LONG // 2) + "! VALUES (1), (2)",
    "SELECT " + "a" * LONG,
    "SELECT " + "a." * (LONG // 2) + "->'$'",
    "SELECT " + "abs(" * (LONG // 4),
    "SELECT " + "mod(1,2)," * (LONG // 9) + "1",
    "SELECT " + "1" * LONG + "a",
    "SELECT " + "_a " * (LONG // 3) + "'x'",
    "SELECT `" + "``" * (LONG // 2),
    "SELECT '" + "\\'" * (LONG // 2),
    "SELECT " + "(" * (LONG // 2) + "1" + ")" * (LONG // 2),
    "SELECT 1" + "+1" * (LONG // 2),
    "SELECT 1 IN (" + "1," * (LONG // 2) + "1)",
    "SET " + "@a = 1, " * (LONG // 8) + "@a = 1",
    "CREATE TABLE wide (" + "a INT, " * (LONG // 7) + "b INT)",
]


def queued_seconds(pid: int) -> float:
    """How long the threads of a process have waited for a processor, which on a busy machine is most of any delay."""
    waited = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            waited += int(file.read_text().split()[1])
    return waited / NS


class Watch:
    """Another client, which asks for nothing and notes how long it waits for that: less the time for which the proxy,
    or it itself, only waited for a processor."""

    def __init__(self, gate: Gate) -> None:
        self._client = gate.connect()
        assert gate.process is not None
        self._processes = (gate.process.pid, os.getpid())
        self._over = threading.Event()
        self.worst = 0.0
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._over.wait(0.005):
            queued, began = self._queued(), time.monotonic()
            self._client.ping(reconnect=False)
            took = time.monotonic() - began
            if took > self.worst:
                self.worst = max(self.worst, took - (self._queued() - queued))

    def _queued(self) -> float:
        return sum(map(queued_seconds, self._processes))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join(60)
            self._client.close()


@pytest.fixture
def place() -> str:
    return "embedded"


def attempt(client: pymysql.Connection[Any], statement: str) -> None:
    """Run it; that it is refused is as good."""
    with contextlib.suppress(pymysql.err.MySQLError):
        client.cursor().execute(statement)


@pytest.mark.parametrize("statements", [PATTERNS, TEXTS], ids=["patterns", "texts"])
def test_a_hostile_statement_delays_nobody(new_gate: Callable[..., Gate], statements: list[str]) -> None:
    gate = new_gate().start()
    watch = Watch(gate)
    with gate.connect() as client, watch.watching():
        Sql(client)("CREATE QUEUE q (body VARCHAR(100))")
        for statement in statements:
            began = time.monotonic()
            attempt(client, statement)
            assert time.monotonic() - began < scaled(30), statement[:80]
    assert watch.worst < DELAY_MAX


def test_a_streams_condition_and_an_acks_delay_nobody(new_gate: Callable[..., Gate]) -> None:
    """As an account that may only use this queue."""
    gate = new_gate(users=USERS).start()
    owner = Sql(gate.connect())
    owner("CREATE QUEUE q (body VARCHAR(200))")
    owner("INSERT INTO q (id, body) VALUES (1, %s), (2, 'plain')", "a" * 150 + "!")
    owner.close()
    watch = Watch(gate)
    with gate.connect(user="few") as few, watch.watching():
        client = Sql(few)
        began = time.monotonic()
        assert not client.rows("SELECT * FROM STREAM q WHERE body REGEXP '^(a+)+$' LIMIT 1 WAIT 1")
        assert client("ACK q WHERE body LIKE '%a%a%a%a%a%a%b' ESCAPE '!'") == 0
        assert client.column("SELECT id FROM STREAM q WHERE body REGEXP '^pl' LIMIT 1 WAIT 5") == [2]
        assert time.monotonic() - began < scaled(30)
    assert watch.worst < DELAY_MAX


@pytest.mark.parametrize(
    "hostile",
    [
        "SELECT REGEXP_REPLACE(REPEAT('a', 2000000), 'a.*b|a', 'x')",
        "SELECT CONCAT(REPEAT('a', 30000000), 'c') LIKE CONCAT('%', REPEAT('a', 1000), 'b')",  # inside SQLite
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t",
    ],
    ids=["function", "sqlite", "rows"],
)
def test_sigterm_ends_the_process_while_a_statement_runs(new_gate: Callable[..., Gate], hostile: str) -> None:
    gate = new_gate(shutdown_grace="1s").start()
    client = gate.connect()
    watcher = Sql(gate.connect())
    thread = threading.Thread(target=attempt, args=(client, hostile))
    thread.start()
    wait_until(lambda: any(hostile[:30] in str(row) for row in watcher.rows("SHOW PROCESSLIST")), what="the statement")
    watcher.close()
    assert gate.terminate(15) == 0
    thread.join(10)
    assert not thread.is_alive()

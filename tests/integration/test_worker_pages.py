"""The workers of docs/worker-node.md, -go, -java and -php, word for word: what the page shows is what runs here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cutter import Cutter
from page_programs import Build, Ready, go, java, node, php
from pymysql.cursors import DictCursor
from servers import ROOT, Gate, Sql, wait_until
from sessions import first
from slowness import scaled

# The first test of a language fetches its driver and compiles.
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

on_server = pytest.mark.parametrize("place", ["mariadb"], indirect=True)
"""What a program does when its connection fails is the same on both."""

LINES_MAX = 90  # what a team can own, without blank lines and imports

QUICK = {"WAIT 5": "WAIT 1", "30000": "3000", "'30'": "'3'", "30*time.Second": "3*time.Second"}
"""Where a test waits until an answer counts as lost."""

PAGES: dict[str, tuple[str, Build]] = {
    "node": ("js", node),
    "go": ("go", go),
    "java": ("java", java),
    "php": ("php", php),
}


def page(name: str) -> Path:
    return ROOT / "docs" / f"worker-{name}.md"


class Running:
    """The program of a page, and what it says."""

    def __init__(self, ready: Ready, folder: Path) -> None:
        self.ready, self.log = ready, folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ready.command, cwd=folder, env={**os.environ, **ready.environment}, stdout=log, stderr=log
            )

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(scaled(20)) == self.ready.ended, self.log.read_text()


@pytest.fixture
def gate(new_gate: Callable[..., Gate], request: pytest.FixtureRequest) -> Gate:
    return new_gate(limits=getattr(request, "param", {})).start()


@pytest.fixture(params=list(PAGES))
def program(request: pytest.FixtureRequest, gate: Gate, tmp_path: Path):
    """Starts the program of a page; its queue and its table are those of the page, with a short backoff."""
    language, build = PAGES[request.param]
    client = Sql(gate.connect())
    for statement in first(page(request.param), "sql").split(";"):
        if statement.strip():
            client(statement.replace("max_attempts = 5", "max_attempts = 2, min_backoff = '100ms', max_backoff = '1h'"))
    client.close()
    folder = tmp_path / "program"
    folder.mkdir()
    started: list[Running] = []

    def start(port: int = gate.port, changes: Mapping[str, str] | None = None) -> Running:
        """`port`: where it finds queuegate. `changes`: what is not as in the page."""
        text = first(page(request.param), language)
        for old, new in (changes or {}).items():
            text = text.replace(old, new)
        ready = build(text, folder, gate)
        reached = {name: value.replace(str(gate.port), str(port)) for name, value in ready.environment.items()}
        started.append(Running(replace(ready, environment=reached), folder))
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(scaled(30))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_one_program_that_a_team_can_own(name):
    text = first(page(name), PAGES[name][0])
    text = re.sub(r"^import \(.*?^\)$|^import .*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip()]
    assert 30 <= len(lines) <= LINES_MAX, len(lines)
    assert re.findall(r"^```(\w+)$", page(name).read_text(), re.MULTILINE) == ["sql", PAGES[name][0]]


def test_the_worker_of_the_page(program, gate):
    """Rows and acks together, retries, dead letters, a restart of the proxy, a stop while a poll waits."""
    running = program()
    client = Sql(gate.connect())
    client("INSERT INTO orders (customer, amount) VALUES (1, 10), (2, -5), (3, 30), (4, NULL)")
    wait_until(lambda: client.value("SELECT COUNT(*) FROM invoices") == 2, 60, "both invoices")
    wait_until(lambda: client.rows("SHOW TABLES LIKE 'orders_dead'"), 30, "the dead letter queue")
    wait_until(lambda: client.value("SELECT COUNT(*) FROM orders_dead") == 2, 30, "the dead letters")
    dead = client.rows("SELECT id, attempts, last_error FROM orders_dead ORDER BY id")
    assert [row[:2] for row in dead] == [(2, 2), (4, 2)]
    assert "amount -5" in dead[0][2] and "amount" in dead[1][2]
    client.connection._force_close()
    gate.terminate()
    gate.start()
    client = Sql(gate.connect())
    client("INSERT INTO orders (customer, amount) VALUES (5, 50)")
    wait_until(lambda: client.value("SELECT COUNT(*) FROM invoices") == 3, 60, "an invoice after the restart")
    assert sorted(client.rows("SELECT order_id, amount FROM invoices")) == [(1, 10), (3, 30), (5, 50)]
    wait_until(lambda: client.rows("SHOW SUBSCRIPTIONS"), what="the next poll")
    running.terminate()
    client("INSERT INTO orders (customer, amount) VALUES (6, 60)")
    assert client.rows("SELECT id, epoch FROM STREAM orders LIMIT 1 WAIT 10") == [(6, 1)]
    client.close()


def polls(client: Sql) -> None:
    wait_until(lambda: client.rows("SHOW SUBSCRIPTIONS"), 60, "a poll")


def is_handled_at_once(client: Sql, customer: int) -> None:
    client("INSERT INTO orders (customer, amount) VALUES (%s, 10)", customer)
    wait_until(lambda: client.rows("SELECT * FROM invoices"), 60, "the invoice")
    assert client.rows("SELECT epoch FROM orders") == [(1,)], "no attempt was lost"


@on_server
@pytest.mark.parametrize("gate", [{"idle_timeout": "8s"}], indirect=True)
def test_a_connection_is_not_idle_between_messages(program, gate):
    program()
    client = Sql(gate.connect())
    polls(client)
    idle = gate.connect()
    wait_until(lambda: idle.thread_id() not in client.column("SHOW PROCESSLIST"), 60, "the idle client to be ended")
    idle._force_close()
    polls(client)
    is_handled_at_once(client, 1)
    client.close()


@on_server
def test_a_peer_that_falls_silent_is_left(program, gate):
    """Nothing comes, and nothing is closed: as from a machine without power."""
    between = Cutter(gate.port)
    program(between.port, QUICK)
    client = Sql(gate.connect())
    polls(client)
    between.stall()
    client("INSERT INTO orders (customer, amount) VALUES (1, 10)")
    wait_until(lambda: client.rows("SELECT * FROM invoices"), 60, "the invoice, over a new connection")
    between.close()
    client.close()


@on_server
@pytest.mark.parametrize("gate", [{"max_user_connections": 3}], indirect=True)
def test_it_needs_two_connections_and_no_third(program, gate):
    """Neither one that was opened in vain nor one of before an error takes the place of another."""
    client, other = Sql(gate.connect()), gate.connect()
    running = program()
    wait_until(lambda: running.log.read_text().count("max_user_connections") >= 2, 60, "the second to be refused")
    other.close()
    polls(client)

    def interrupted() -> bool:
        with client.connection.cursor(DictCursor) as cursor:
            cursor.execute("SHOW SUBSCRIPTIONS")
            for row in cursor.fetchall():
                client(f"KILL QUERY {row['Connection_id']}")
        return "interrupted" in running.log.read_text()

    wait_until(interrupted, what="an error with open connections")
    polls(client)
    is_handled_at_once(client, 1)
    client.close()


@on_server
def test_what_waiting_does_not_mend_ends_it(program, gate):
    client = Sql(gate.connect())
    client("DROP QUEUE orders")
    running = program()
    assert running.process.wait(scaled(60)) not in (0, running.ready.ended), running.log.read_text()
    assert "orders" in running.log.read_text()
    client.close()


def test_a_lease_that_was_lost_undoes_the_invoice(program, gate):
    """Another takes the message while the handler waits for a lock. Two of them never write the same invoice."""
    client, other = Sql(gate.connect()), Sql(gate.connect())
    if gate.embedded:
        pytest.skip("one transaction writes at a time: nobody can take the message meanwhile")
    other("BEGIN")
    other("INSERT INTO invoices (order_id, amount) VALUES (1, 0)")  # the handler's INSERT waits for this one
    client("INSERT INTO orders (customer, amount) VALUES (1, 10)")
    running = program()
    wait_until(lambda: client.value("SELECT epoch FROM orders") == 1, 60, "the delivery")
    client("UPDATE orders SET time_next = 0")
    assert client.rows("SELECT epoch FROM STREAM orders LIMIT 1 WAIT 10 WITH (ack_wait = '1h')") == [(2,)]
    other("ROLLBACK")
    wait_until(lambda: "lease was lost" in running.log.read_text(), 30, "the worker to notice")
    assert client.rows("SELECT * FROM invoices") == []
    assert client.rows("SELECT epoch, time_acked FROM orders") == [(2, None)]
    for each in (client, other):
        each.close()

"""The workers of docs/worker-node.md, -go, -java and -php, word for word: what the page shows is what runs here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from page_programs import Build, Ready, go, java, node, php
from servers import ROOT, Gate, Sql, wait_until
from sessions import first
from slowness import scaled

# The first test of a language fetches its driver and compiles.
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

LINES_MAX = 60  # what a team can own, without blank lines and imports


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
def gate(new_gate: Callable[..., Gate]) -> Gate:
    return new_gate().start()


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
    ready = build(first(page(request.param), language), folder, gate)
    started: list[Running] = []

    def start() -> Running:
        started.append(Running(ready, folder))
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
    """Rows and acks together, retries, dead letters, a restart of the proxy, a stop that ends a waiting poll."""
    running = program()
    client = Sql(gate.connect())
    client("INSERT INTO orders (customer, amount) VALUES (1, 10), (2, -5), (3, 30)")
    wait_until(lambda: client.value("SELECT COUNT(*) FROM invoices") == 2, 60, "both invoices")
    wait_until(lambda: client.rows("SHOW TABLES LIKE 'orders_dead'"), 30, "the dead letter queue")
    wait_until(lambda: client.rows("SELECT id FROM orders_dead"), 30, "the dead letter")
    (dead,) = client.rows("SELECT id, attempts, last_error FROM orders_dead")
    assert dead[:2] == (2, 2) and "amount -5" in dead[2]
    client.connection._force_close()
    gate.terminate()
    gate.start()
    client = Sql(gate.connect())
    client("INSERT INTO orders (customer, amount) VALUES (4, 40)")
    wait_until(lambda: client.value("SELECT COUNT(*) FROM invoices") == 3, 60, "an invoice after the restart")
    assert sorted(client.rows("SELECT order_id, amount FROM invoices")) == [(1, 10), (3, 30), (4, 40)]
    wait_until(lambda: client.rows("SHOW SUBSCRIPTIONS"), what="the next poll")
    running.terminate()
    client("INSERT INTO orders (customer, amount) VALUES (5, 50)")
    assert client.rows("SELECT id, epoch FROM STREAM orders LIMIT 1 WAIT 10") == [(5, 1)]
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

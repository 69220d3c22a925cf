"""The README's worker, word for word, in Python and in Node, on both backends: a retry, a dead letter, a schedule."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
import toolchains
from servers import ROOT, wait_until
from sessions import PORT, first, sessions
from slowness import scaled

README, NODE_PAGE = ROOT / "README.md", ROOT / "docs" / "worker-node.md"

pytestmark = pytest.mark.timeout(600)  # the first test in Node fetches its driver


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


def python(folder, gate):
    text = next(session.text for session in sessions(README) if "queuegate_worker" in session.text)
    assert str(PORT) in text
    (folder / "worker.py").write_text(text.replace(f"{PORT}/main", f"{gate.port}/{gate.database}"))
    path = os.pathsep.join([str(ROOT), *sys.path])
    return [sys.executable, str(folder / "worker.py")], {"PYTHONPATH": path}


def node(folder, gate):
    text = first(NODE_PAGE, "js").replace("orders", "payments")  # its page has a queue and a table of its own
    (folder / "worker.js").write_text(text.replace("invoices", "booked").replace("order_id", "payment_id"))
    made = toolchains.node(folder)
    url = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
    return [made.command[0], str(folder / "worker.js")], {**made.environment, "QUEUEGATE_URL": url}


def statements(text):
    lines = [line.partition(" -- ")[0] for line in text.splitlines()]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


@pytest.mark.parametrize("program", [python, node])
def test_the_worker_of_the_readme(gate, sql, tmp_path, program):
    before, after = (session.text for session in sessions(README) if "SCHEDULE each_night" in session.text)
    for statement in statements(before):
        sql(statement)
    (next_tick,) = sql.column(
        "SELECT next_tick FROM queuegate.schedules WHERE schedule = 'each_night' AND db = DATABASE()"
    )
    assert next_tick
    command, environment = program(tmp_path, gate)
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        try:
            insert, run, booked, counts = statements(after)
            for statement in (insert, run, booked, counts):  # at once, as it is pasted: nothing has failed by then
                sql(statement)
            wait_until(lambda: [amount for _, amount in sql.rows(booked)] == [100], 60, "the payment of the night")
            wait_until(lambda: sql.rows(counts) == [(0, 1)], 60, "the dead letter")
            (dead,) = re.findall(r"`(SELECT [^`]* FROM payments_dead)`", README.read_text())
            ((_, attempts, failed),) = sql.rows(dead)
            assert attempts == 3
            told = [(each["attempt"], each["outcome"], "amount -5" in each["error"]) for each in json.loads(failed)]
            assert told == [(1, "nacked", True), (2, "nacked", True), (3, "nacked", True)]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(scaled(60)) == 0, (tmp_path / "log").read_text()
        finally:
            worker.kill()
            worker.wait(scaled(60))

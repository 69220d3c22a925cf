"""The alerts of docs/monitoring.md, evaluated on the metrics of a running proxy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from servers import Sql, wait_until
from test_admin import get, metrics, value

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = yaml.safe_load(re.findall(r"```yaml\n(groups:.*?)```", (ROOT / "docs" / "monitoring.md").read_text(), re.S)[0])
ALERTS = {rule["alert"]: rule["expr"] for rule in RULES["groups"][0]["rules"]}
NAME = re.compile(r"queuegate_\w+")


@pytest.fixture
def watched(new_gate):
    gate = new_gate(admin={"listen": "127.0.0.1:0"})
    gate.start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE jobs (n INT)")
    sql("CREATE TOPIC orders (n INT)")
    sql("CREATE GROUP billing ON orders")
    yield gate, sql
    sql.close()


def test_every_metric_of_an_alert_is_on_the_page(watched):
    gate, _ = watched
    names = {name for name, _ in metrics(gate)}
    used = {name for expression in ALERTS.values() for name in NAME.findall(expression)}
    assert used and used <= names


def test_a_dead_letter_queue_is_not_a_queue_that_nobody_serves(watched):
    """Its messages are due and nobody takes them, for ever; the alert DeadLetters is about them."""
    gate, sql = watched
    sql("INSERT INTO jobs (n) VALUES (1)")
    sql("REJECT jobs 1")
    wait_until(lambda: "jobs_dead" in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.value("SELECT COUNT(*) FROM jobs_dead") == 1, what="the dead letter")
    assert get(gate, "/healthz")[0] == 200
    samples = metrics(gate)
    for queue, expected in (("jobs", 0), ("jobs_dead", 1)):
        labels = {"database": gate.database, "queue": queue}
        assert value(samples, "queuegate_queue_is_dead_letter_queue", **labels) == expected
    excluded = re.findall(r"unless max by \(database, queue\) \((\w+)\) == 1", ALERTS["QueueNotServed"])
    assert "queuegate_queue_is_dead_letter_queue" in excluded

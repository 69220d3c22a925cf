"""The alerts of packaging/prometheus, and the metrics of a running proxy, on both backends. See tests/monitoring."""

from __future__ import annotations

import re

import pytest
from certificates import Authority
from prometheus_server import rules
from servers import Sql, Stream, wait_until
from test_admin import get, metrics, value

ALERTS = {rule["alert"]: rule["expr"] for rule in rules("alerts.yml")}
NAME = re.compile(r"queuegate_\w+")


@pytest.fixture
def watched(new_gate, tmp_path):
    certificate, key = Authority(tmp_path).issue("proxy", "127.0.0.1")
    gate = new_gate(
        admin={"listen": "127.0.0.1:0"},
        tls={"certificate": str(certificate), "key": str(key)},
    )
    gate.start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE jobs (n INT)")
    sql("CREATE TOPIC orders (n INT)")
    sql("CREATE GROUP billing ON orders")
    yield gate, sql
    sql.close()


def test_every_metric_of_an_alert_is_on_the_page(watched):
    gate, sql = watched
    sql("ALTER TOPIC orders SET (trace_keep = '1d')")
    sql("CREATE SCHEDULE daily ON jobs EVERY '1d' (n) VALUES (1)")
    sql("CREATE QUEUE halved (n INT NOT NULL) SHARDING KEY (n)")
    half = Stream(gate, "SELECT id FROM STREAM halved WITH (key_range = '-80')")
    used = {name for expression in ALERTS.values() for name in NAME.findall(expression)}
    assert len(used) > 15
    wait_until(lambda: used <= {name for name, _ in metrics(gate)}, what=f"all of {used}")
    sql("INSERT INTO halved (n) VALUES (10), (10), (11)")  # slots d3d9 and 6512
    half.wait(1)
    labels = {"database": gate.database, "queue": "halved"}
    assert value(metrics(gate), "queuegate_queue_uncovered", **labels) == 2
    other = Stream(gate, "SELECT id FROM STREAM halved WITH (key_range = '80-')")
    other.wait(2)
    assert value(metrics(gate), "queuegate_queue_uncovered", **labels) == 0
    half.close()
    other.close()


def test_a_dead_letter_queue_is_not_a_queue_that_nobody_serves(watched):
    """Its messages are due and nobody takes them, for ever; the alert DeadLettersGrow was about them."""
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
    excluded = re.findall(r"unless max by \(job, database, queue\) \((\w+)\) == 1", ALERTS["QueueNotServed"])
    assert "queuegate_queue_is_dead_letter_queue" in excluded

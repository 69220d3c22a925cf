"""The admin port: what it tells, on both backends and of several workers, and that its clients are bounded."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from servers import Sql, Stream, wait_until

from proxy.admin.http import CONNECTIONS_MAX, HEAD_MAX_BYTES

pytestmark = pytest.mark.long


@pytest.fixture
def admin_gate(new_gate):
    def start(**config):
        gate = new_gate(admin={"listen": "127.0.0.1:0"}, **config)
        gate.start()
        return gate

    return start


def admin_port(gate):
    found = re.findall(r"metrics and health on http://127\.0\.0\.1:(\d+)", gate.log)
    assert found, gate.log
    return int(found[-1])


def get(gate, path, method="GET"):
    """Status and body."""
    request = urllib.request.Request(f"http://127.0.0.1:{admin_port(gate)}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(gate):
    """Every sample: name and labels to value; a worker's number is left out, its values are added up."""
    status, body = get(gate, "/metrics")
    assert status == 200, body
    samples = {}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            labels = frozenset((k, v) for k, v in sample.labels.items() if k != "worker")
            samples[sample.name, labels] = samples.get((sample.name, labels), 0) + sample.value
    return samples


def value(samples, name, **labels):
    wanted = set(labels.items())
    found = [number for (sample, has), number in samples.items() if sample == name and wanted <= has]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def test_there_is_none_unless_it_is_asked_for(new_gate):
    gate = new_gate()
    gate.start()
    assert "metrics and health" not in gate.log


def test_metrics_tell_of_queues_and_processes(admin_gate):
    gate = admin_gate()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE jobs (n INT) WITH (ack_wait = '1h', max_backoff = '2h')")
    sql("INSERT INTO jobs (n) VALUES (1), (2), (3)")
    with Stream(gate, "SELECT id FROM STREAM jobs WITH (prefetch = 2)") as stream:
        first, _ = (row[0] for row in stream.wait(2))
        sql(f"ACK jobs {first}")
        stream.wait(3)
        wait_until(
            lambda: value(metrics(gate), "queuegate_queue_messages", database=gate.database, state="in_flight") == 2,
            what="the count",
        )
        samples = metrics(gate)
        assert value(samples, "queuegate_queue_messages", database=gate.database, queue="jobs", state="acked") == 1
        assert value(samples, "queuegate_queue_messages", database=gate.database, queue="jobs", state="ready") == 0
        assert value(samples, "queuegate_queue_enqueued_total", database=gate.database, queue="jobs") == 3
        assert value(samples, "queuegate_queue_acked_total", database=gate.database, queue="jobs") == 1
        assert value(samples, "queuegate_queue_sent_total", database=gate.database, queue="jobs") == 3
        assert value(samples, "queuegate_queue_delivery_delay_seconds_count", database=gate.database, queue="jobs") == 3
        assert value(samples, "queuegate_queue_counted", database=gate.database, queue="jobs") == 1
        assert value(samples, "queuegate_streams") == 1
        assert value(samples, "queuegate_connections") == 2
        assert value(samples, "queuegate_resident_memory_bytes") > 1 << 20
        assert value(samples, "queuegate_queue_stalls_total", database=gate.database, queue="jobs") == 0
    sql("ALTER QUEUE jobs PAUSE")
    assert value(metrics(gate), "queuegate_queue_paused", database=gate.database, queue="jobs") == 1
    sql.close()


def test_metrics_tell_of_topics_and_groups(admin_gate):
    gate = admin_gate()
    sql = Sql(gate.connect())
    sql("CREATE TOPIC orders (n INT) WITH (trace_keep = '1d')")
    for group in ("billing", "audit"):
        sql(f"CREATE GROUP {group} ON orders START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')")
    sql("INSERT INTO orders (n, time_created) VALUES (1, (UNIX_TIMESTAMP() - 7200) * 1000000000), (2, DEFAULT)")
    sql("INSERT INTO orders (n) VALUES (3)")
    topic = {"database": gate.database, "topic": "orders"}

    def told(name, group, samples=None):
        return value(samples or metrics(gate), f"queuegate_group_{name}", **topic, group=group)

    with Stream(gate, "SELECT id FROM STREAM orders WITH (group = 'billing', prefetch = 2)") as member:
        member.wait(2)
        wait_until(lambda: told("in_flight", "billing") == 2, what="the count")
        wait_until(lambda: told("unread", "audit") == 3, what="the backlog of the other")
        samples = metrics(gate)
        assert told("members", "billing", samples) == 1 and told("members", "audit", samples) == 0
        assert told("unread", "billing", samples) + told("ready", "billing", samples) == 1
        assert told("holes", "billing", samples) == told("in_flight", "audit", samples) == 0
        assert 7190 < told("oldest_unread_age_seconds", "audit", samples) < 9000
        assert told("oldest_unread_age_seconds", "billing", samples) < 7000
        assert value(samples, "queuegate_topic_last_offset", **topic) == 3
        assert value(samples, "queuegate_topic_messages", **topic) == 3
        for name in ("dropped", "failing"):
            assert value(samples, f"queuegate_topic_history_{name}", **topic) == 0
    sql.close()


def test_metrics_tell_of_alarms(admin_gate):
    gate = admin_gate()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE jobs (n INT) WITH (ack_wait = '1h', max_backoff = '2h', alarm_after = '1s')")
    sql("INSERT INTO jobs (n) VALUES (1)")
    with Stream(gate, "SELECT id FROM STREAM jobs") as stream:
        stream.wait(1)
        wait_until(
            lambda: value(metrics(gate), "queuegate_queue_alarms", database=gate.database, queue="jobs") == 1,
            what="the alarm",
        )
    sql.close()


def test_health_readiness_and_what_is_not_there(admin_gate):
    gate = admin_gate()
    assert get(gate, "/healthz") == (200, "ok\n")
    assert get(gate, "/readyz") == (200, "ready\n")
    assert get(gate, "/healthz?verbose=1")[0] == 200
    assert get(gate, "/")[0] == 404
    assert get(gate, "/healthz", "POST")[0] == 405
    assert get(gate, "/healthz", "HEAD") == (200, "")


def test_not_ready_without_its_database(own_mariadb, tmp_path):
    from servers import Gate

    gate = Gate(own_mariadb.url(), tmp_path, admin={"listen": "127.0.0.1:0"})
    gate.start()
    try:
        assert get(gate, "/readyz")[0] == 200
        own_mariadb.stop()
        status, reason = get(gate, "/readyz")
        assert status == 503 and "the database cannot be reached" in reason
        assert get(gate, "/healthz")[0] == 200
        own_mariadb.start()
        wait_until(lambda: get(gate, "/readyz")[0] == 200, what="readiness to return")
    finally:
        gate.stop()


def test_not_ready_while_it_ends(admin_gate):
    gate = admin_gate(shutdown_grace="20s")
    client = Sql(gate.connect())
    client("CREATE TABLE t (n INT)")
    slow = threading.Thread(target=lambda: client.rows("SELECT SLEEP(2)"))
    slow.start()
    other = Sql(gate.connect())
    wait_until(lambda: any("SLEEP" in str(row[7]) for row in other.rows("SHOW FULL PROCESSLIST")), what="the statement")
    assert gate.process is not None
    gate.process.send_signal(signal.SIGTERM)
    assert wait_until(lambda: get(gate, "/readyz")[0] == 503 and get(gate, "/readyz"), what="not to be ready") == (
        503,
        "shutting down\n",
    )
    slow.join(20)
    assert gate.terminate() == 0


def test_workers_are_added_up_and_missed(mariadb, tmp_path):
    from servers import Gate

    gate = Gate(
        mariadb.fresh_database("admin_workers"),
        tmp_path,
        database="admin_workers",
        workers=2,
        admin={"listen": "127.0.0.1:0"},
    )
    gate.start()
    try:
        clients = [Sql(gate.connect()) for _ in range(6)]
        clients[0]("CREATE QUEUE jobs (n INT)")
        for n, client in enumerate(clients):
            assert client("INSERT INTO jobs (n) VALUES (%s)", n) == 1
        samples = metrics(gate)
        assert value(samples, "queuegate_workers") == 2
        assert value(samples, "queuegate_workers_missing") == 0
        assert value(samples, "queuegate_connections") == 6
        assert value(samples, "queuegate_queue_enqueued_total", database="admin_workers") == 6
        assert get(gate, "/healthz") == (200, "ok\n")
        assert gate.process is not None
        pid = gate.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        stopped = int(children[0])
        os.kill(stopped, signal.SIGSTOP)
        try:
            status, body = wait_until(lambda: _answered(gate), what="an answer of the other worker")
            assert (status, body) == (503, "1 of 2 workers do not answer\n")
        finally:
            os.kill(stopped, signal.SIGCONT)
        wait_until(lambda: get(gate, "/healthz")[0] == 200, what="the worker to be back")
        os.kill(stopped, signal.SIGKILL)
        wait_until(lambda: _restarts(gate) == 1, what="the death to be counted")
        wait_until(lambda: value(metrics(gate), "queuegate_workers") == 2, what="another worker")
        assert _restarts(gate) == 1
        for client in clients:
            client.close()
    finally:
        gate.stop()


def _restarts(gate):
    """None where the connection was to the worker that died."""
    try:
        return value(metrics(gate), "queuegate_worker_restarts_total")
    except OSError:
        return None


def _answered(gate):
    """What is answered, or None where the connection went to the worker that hangs."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port(gate)}/healthz", timeout=4):
            return None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (TimeoutError, OSError):
        return None


def test_clients_that_misbehave_cost_little(admin_gate):
    gate = admin_gate()
    port = admin_port(gate)
    silent = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(CONNECTIONS_MAX + 20)]
    for one in silent:
        one.settimeout(20)
    assert get(gate, "/healthz")[0] == 200, "while they are still there"
    # Those beyond the bound are hung up on at once, and all others within seconds.
    endings = [_ending(one) for one in silent]
    assert set(endings) <= {b"", None}
    assert get(gate, "/healthz")[0] == 200
    with socket.create_connection(("127.0.0.1", port), timeout=20) as large:
        large.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * (HEAD_MAX_BYTES + 1024))
        assert b" 431 " in (_ending(large) or b" 431 ")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as garbled:
        garbled.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
        assert b" 400 " in (_ending(garbled) or b"")
    assert get(gate, "/healthz")[0] == 200
    sql = Sql(gate.connect())
    assert sql.value("SELECT 1") == 1
    sql.close()


def _ending(sock):
    """All that comes before the end; None where it is a reset."""
    data = b""
    try:
        while chunk := sock.recv(4096):
            data += chunk
    except ConnectionResetError:
        return data or None
    finally:
        sock.close()
    return data

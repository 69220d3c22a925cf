"""The worker under faults: kill -9, SIGTERM, restarts of proxy and database; each message handled exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from servers import ROOT, Gate, Sql, wait_until
from slowness import scaled

pytestmark = pytest.mark.long

HERE = Path(__file__).parent


class Workers:
    """Workers as processes, of the queue q."""

    def __init__(self, gate, folder):
        self.gate, self.folder, self.started = gate, folder, []

    def start(self, handler, *options):
        log = self.folder / f"worker{len(self.started)}"
        url = f"mysql://root@127.0.0.1:{self.gate.port}/{self.gate.database}"
        command = [sys.executable, "-m", "queuegate_worker", f"worker_tasks:{handler}", "--queue", "q", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "QUEUEGATE_URL": url}
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=HERE, env=environment, stdout=output, stderr=output)
        process.log = log
        self.started.append(process)
        return process

    def stop(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(scaled(30))


@pytest.fixture
def gate(new_gate):
    return new_gate().start()


@pytest.fixture
def workers(gate, tmp_path):
    made = Workers(gate, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def client(gate):
    client = Sql(gate.connect())
    client("CREATE TABLE ledger (n INT, pid INT, attempt INT)")
    yield client
    client.connection._force_close()


def made(client, count, seconds=0.0, **options):
    given = {"min_backoff": "'100ms'", "max_backoff": "'60s'", **options}
    client(f"CREATE QUEUE q (n INT, seconds DOUBLE) WITH ({', '.join(f'{k} = {v}' for k, v in given.items())})")
    fill(client, count, seconds)


def fill(client, count, seconds=0.0):
    for start in range(1, count + 1, 1000):
        rows = ", ".join(f"({n}, {seconds})" for n in range(start, min(start + 1000, count + 1)))
        client(f"INSERT INTO q (n, seconds) VALUES {rows}")


def said(process, text):
    wait_until(lambda: text in process.log.read_text() or process.poll() is not None, 30, f"{text!r} in {process.log}")
    assert text in process.log.read_text(), process.log.read_text()


def test_ten_thousand_messages_are_handled_exactly_once(client, workers, place):
    """Three workers, failures, and a kill -9 while all are busy. The embedded backend is slower, and has fewer."""
    count = 3000 if place == "embedded" else 10_000
    made(client, 0)
    running = [workers.start("count", "--batch", "50", "--concurrency", "2") for _ in range(3)]
    wait_until(lambda: len(client.rows("SHOW SUBSCRIPTIONS")) == 3, 60, "three workers that wait")
    fill(client, count)
    wait_until(
        lambda: client.row("SELECT COUNT(*) > 1000, COUNT(DISTINCT pid) FROM ledger") == (1, 3), 60, "all at work"
    )
    running[0].kill()
    wait_until(lambda: client.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL") == 0, 100, "the last message")
    for process in running[1:]:
        process.terminate()
    assert [process.wait(scaled(30)) for process in running[1:]] == [0, 0]
    assert client.row("SELECT COUNT(*), COUNT(DISTINCT n), MIN(n), MAX(n) FROM ledger") == (count, count, 1, count)
    assert client.value("SELECT COUNT(DISTINCT pid) FROM ledger") == 3
    assert client.value("SELECT COUNT(*) FROM ledger WHERE attempt > 1") > count / 100


def test_after_a_kill_9_another_goes_on_at_once(client, workers):
    made(client, 1, seconds=300, ack_wait="'1h'", max_backoff="'2h'")
    first = workers.start("slow")
    said(first, "inside 1")
    first.kill()
    second = workers.start("slow")
    said(second, "inside 1")  # long before the lease of an hour ends
    assert client.value("SELECT epoch FROM q") == 2
    assert client.rows("SELECT * FROM ledger") == []


def test_sigterm_lets_handlers_end_and_takes_no_more(client, workers):
    made(client, 3, seconds=1.5)
    process = workers.start("slow")
    said(process, "inside 1")
    process.terminate()
    assert process.wait(scaled(20)) == 0, process.log.read_text()
    assert client.column("SELECT n FROM ledger") == [1]
    assert client.rows("SELECT n, epoch FROM q WHERE time_acked IS NULL ORDER BY n") == [(2, 0), (3, 0)]


def test_sigterm_with_nothing_to_do_ends_at_once(client, workers):
    made(client, 0)
    process = workers.start("plain", "--concurrency", "3")
    wait_until(lambda: client.rows("SHOW SUBSCRIPTIONS"), what="the poll")
    began = time.monotonic()
    process.terminate()
    assert process.wait(scaled(20)) == 0
    assert time.monotonic() - began < scaled(5)  # its poll waits 30 s


def test_a_second_signal_ends_it_now(client, workers):
    made(client, 1, seconds=300)
    process = workers.start("slow")
    said(process, "inside 1")
    process.terminate()
    wait_until(lambda: not client.rows("SHOW SUBSCRIPTIONS"), what="the first signal to be seen")
    time.sleep(0.5)
    process.terminate()
    assert process.wait(scaled(20)) == -signal.SIGTERM


def test_a_handler_that_does_not_end_in_the_grace_time_is_left_to_others(client, workers):
    made(client, 1, seconds=300, ack_wait="'1h'", max_backoff="'2h'")
    process = workers.start("slow", "--grace", "0.5")
    said(process, "inside 1")
    process.terminate()
    assert process.wait(scaled(20)) == 1
    assert "the grace time is over: 1 messages" in process.log.read_text()
    assert client.rows("SELECT n, epoch FROM STREAM q LIMIT 1 WAIT 20") == [(1, 2)]
    assert client.rows("SELECT * FROM ledger") == []


@pytest.mark.parametrize("seconds", [0, 300])
def test_the_grace_time_begins_with_the_signal_also_before_a_proxy_that_is_silent(client, workers, gate, seconds):
    made(client, 1, seconds=seconds)
    process = workers.start("slow", "--grace", "3", "--concurrency", "2")
    said(process, "inside 1")
    wait_until(lambda: client.rows("SHOW SUBSCRIPTIONS"))
    if not seconds:
        wait_until(lambda: client.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL") == 0)
    os.kill(gate.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        process.terminate()
        assert process.wait(scaled(40)) == (1 if seconds else 0)
        assert time.monotonic() - began < 15  # and not 20 s, in which an answer counts as lost, and the grace time
    finally:
        os.kill(gate.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_restart_of_the_proxy(client, workers, gate, how):
    """A waiting worker, and one in the middle of a transaction: both go on, and nothing is done twice."""
    made(client, 1, seconds=2)
    busy = workers.start("slow", "--concurrency", "2")
    said(busy, "inside 1")
    getattr(gate, how)()
    client.connection._force_close()
    gate.start()
    client.connection = gate.connect()
    client("INSERT INTO q (n, seconds) VALUES (2, 0)")
    wait_until(lambda: client.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL") == 0, 60, "both messages")
    assert sorted(client.column("SELECT n FROM ledger")) == [1, 2]
    busy.terminate()
    assert busy.wait(30) == 0
    assert "receiving again" in busy.log.read_text()


def test_a_restart_of_the_database(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.fresh_database("restarted"), tmp_path, database="restarted").start()
    client, workers = Sql(gate.connect()), Workers(gate, tmp_path)
    try:
        client("CREATE TABLE ledger (n INT, pid INT, attempt INT)")
        made(client, 400, ack_wait="'5s'")
        running = workers.start("count", "--batch", "5", "--concurrency", "2")
        wait_until(lambda: client.value("SELECT COUNT(*) FROM ledger") > 50, 60, "work under way")
        own_mariadb.kill()
        client.connection._force_close()
        own_mariadb.start()
        client = Sql(own_mariadb.connect(database="restarted"))
        wait_until(lambda: client.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL") == 0, 90, "the last message")
        assert client.row("SELECT COUNT(*), COUNT(DISTINCT n) FROM ledger") == (400, 400)
        running.terminate()
        assert running.wait(30) == 0
        client.close()
    finally:
        workers.stop()
        gate.stop()


def test_it_starts_before_the_proxy_does(client, workers, gate):
    made(client, 1)
    client.connection._force_close()
    gate.terminate()
    process = workers.start("plain")
    said(process, "cannot connect")
    gate.start()
    said(process, "done 1")
    process.terminate()
    assert process.wait(scaled(20)) == 0


def test_no_password_in_what_it_says(client, workers, gate):
    made(client, 0)
    process = workers.start("plain", "--url", f"mysql://root:s3cret@127.0.0.1:{gate.port}/{gate.database}")
    wait_until(lambda: process.poll() is not None, 30, "the refusal")
    assert process.returncode == 1
    assert "ERROR 1045" in process.log.read_text() and "s3cret" not in process.log.read_text()

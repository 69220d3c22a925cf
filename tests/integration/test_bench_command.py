"""`queuegate bench` and `queuegate top --json` as a user runs them, on both backends; what is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import ROOT, Gate, Sql, wait_until
from slowness import scaled

from queuegate.cli.bench.clients import Consumer, Producer
from queuegate.cli.bench.figures import DeliveryErrors, Load, delivery_errors
from queuegate.cli.connecting import Link, Target
from queuegate.cli.names import QueueRef

pytestmark = pytest.mark.long

QUICK = ("--seconds", "0.7", "--producers", "2", "--consumers", "2")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One in which nobody's option file is read."""
    kept = {key: value for key, value in os.environ.items() if key not in ("MYSQL_PWD", "COLUMNS", "LINES")}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command against a gate, with what the command leaves in pipes."""
    started: list[subprocess.Popen[str]] = []

    def make(gate: Gate, name: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "queuegate", name, f"-P{gate.port}", "-D", gate.database, *arguments],
            env={**environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield make
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def run(start) -> Callable[..., subprocess.CompletedProcess[str]]:
    def call(gate: Gate, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        process = start(gate, *arguments, **more)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    return call


def queues(gate: Gate) -> list[str]:
    """The queues of benchmarks that are there."""
    with gate.connect() as connection:
        return [str(row[0]) for row in Sql(connection).rows("SHOW TABLES LIKE 'queuegate\\_bench\\_%'")]


def refusal(done: subprocess.CompletedProcess[str], status: int = 1) -> str:
    assert (done.returncode, done.stdout) == (status, ""), done
    assert done.stderr.startswith("queuegate: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_bench_measures_loses_nothing_and_leaves_nothing(new_gate, run):
    gate = new_gate().start()
    done = run(gate, "bench", *QUICK, "--batch", "20", "--size", "1000", "--rate", "40", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done
    found = json.loads(done.stdout)
    assert found["options"] == {
        "seconds": 0.7, "producers": 2, "consumers": 2, "batch": 20, "size_bytes": 1000, "rate": 40,
    }  # fmt: skip
    assert (found["lost"], found["twice"], found["database"]) == (0, 0, gate.database)
    inserts, receives, latency = (found[key] for key in ("inserts", "receives", "latency"))
    assert inserts["messages"] > 0 and inserts["messages"] % 20 == 0
    assert inserts["messages"] == receives["messages"] + receives["left"]
    assert inserts["per_second"] > 0 < receives["per_second"]
    assert 0 < latency["messages"] < 200
    for name in ("commit_to_delivery_ms", "send_to_delivery_ms"):
        spread = latency[name]
        assert 0 <= spread["p50"] <= spread["p95"] <= spread["p99"] <= spread["max"]
    assert queues(gate) == []


def test_bench_says_it_to_people(new_gate, run):
    gate = new_gate().start()
    done = run(gate, "bench", *QUICK, "--size", "1000")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith(f"127.0.0.1:{gate.port}, database {gate.database}: 2 producers, 2 consumers")
    inserted, received = map(int, re.findall(r"\((\d+) in ", done.stdout))
    left = sum(map(int, re.findall(r", (\d+) not received before the end", done.stdout)))
    assert inserted == received + left > 0, done.stdout
    assert re.search(
        r"^commit to delivery +p50 [\d.]+ ms  p95 [\d.]+ ms  p99 [\d.]+ ms  max ", done.stdout, re.MULTILINE
    )
    assert re.search(r"^lost +0\ncame twice +0$", done.stdout, re.MULTILINE)
    assert queues(gate) == []


def test_consumers_of_a_bench_end_when_the_queue_is_empty(new_gate):
    """Clients in this process, with time enough: all that is committed comes once, and what is taken out is missed."""
    gate = new_gate().start()
    target = Target(port=gate.port, database=gate.database)
    name, load = QueueRef("jobs", gate.database), Load(0.2, 1, 1, 5, 100, 50.0)
    with Link(target, "bench", 60) as link:
        link.change("CREATE QUEUE jobs (n BIGINT, body MEDIUMTEXT)")
        produced = Producer(name, load, 3).run(link)
        consumed = Consumer(name, load, 120).run(link)
        assert len(produced.numbers) > 0 and consumed.waited_in_vain
        assert delivery_errors([produced], [consumed], 0) == DeliveryErrors(0, 0)
        produced = Producer(name, load, 0).run(link)
        link.change("DELETE FROM jobs WHERE n = 0")
        assert delivery_errors([produced], [Consumer(name, load, 120).run(link)], 0) == DeliveryErrors(1, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bench_drops_its_queue_when_it_is_ended(new_gate, start, number):
    gate = new_gate().start()
    process = start(gate, "bench", "--seconds", "60")
    wait_until(lambda: queues(gate), what="the queue of the benchmark")
    (name,) = queues(gate)

    def filled() -> Any:
        with gate.connect() as connection:
            return Sql(connection).value(f"SELECT COUNT(*) FROM {name}")

    wait_until(filled, what="its messages")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "")
    assert queues(gate) == []


def test_bench_says_what_ended_it_and_which_queue_is_left(new_gate, start):
    gate = new_gate().start()
    process = start(gate, "bench", "--seconds", "60")
    wait_until(lambda: queues(gate), what="the queue of the benchmark")
    (name,) = queues(gate)
    gate.terminate()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    assert name in err and "drop it by hand" in err and "Traceback" not in err
    gate.start()
    assert queues(gate) == [name]
    with gate.connect() as connection:
        Sql(connection)(f"DROP QUEUE {name}")


def test_bench_needs_an_account_that_may_make_a_queue(new_gate, run):
    users = [{"name": "root", "password": ""}, {"name": "ann", "password": "p", "queues": {"mine": ["settle"]}}]
    gate = new_gate(auth="proxy", users=users).start()
    said = refusal(run(gate, "bench", *QUICK, "-uann", MYSQL_PWD="p"))
    assert "ERROR 1142 (42000)" in said and "user 'ann' may not" in said and "-D" in said
    assert "ERROR 1049" in refusal(run(gate, "bench", "-D", "nowhere")) or gate.database == "main"
    assert "too much for one INSERT" in refusal(run(gate, "bench", "--batch", "1000", "--size", "100000"), 2)
    assert queues(gate) == []


def test_top_as_json_is_an_object_for_each_look(new_gate, run):
    gate = new_gate().start()
    with gate.connect() as connection:
        sql = Sql(connection)
        sql("CREATE QUEUE jobs (n INT)")
        sql("INSERT INTO jobs (n) VALUES (1), (2)")
        sql("CREATE QUEUE more (n INT)")
    done = run(gate, "top", "--json", "--count", "3", "--interval", "0.2", "--sort", "name")
    assert (done.returncode, done.stderr) == (0, ""), done
    looks = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(looks) == 3
    for look in looks:
        assert [queue["queue"] for queue in look["queues"]] == ["jobs", "more"]
        assert (look["lost"], look["interval_seconds"]) == (None, 0.2)
        assert look["queues"][0]["enqueued_per_second"] == 0
    wait_until(lambda: json.loads(run(gate, "top", "jobs", "--json", "--once").stdout)["queues"][0]["ready"] == 2)
    frames = run(gate, "top", "--count", "2", "--interval", "0.2")
    assert frames.returncode == 0 and frames.stdout.count("queuegate 127.0.0.1:") == 2


def test_top_as_json_outlives_its_proxy(new_gate, start):
    gate = new_gate().start()
    process = start(gate, "top", "--json", "--interval", "0.2")
    looks: list[dict[str, Any]] = []

    def read_until(lost: bool) -> None:
        while True:
            looks.append(json.loads(process.stdout.readline()))
            if (looks[-1]["lost"] is not None) is lost:
                return

    read_until(lost=False)
    gate.terminate()
    read_until(lost=True)
    assert "ERROR" in looks[-1]["lost"] and looks[-1]["queues"] == []
    gate.start()
    read_until(lost=False)
    process.send_signal(signal.SIGINT)
    assert process.wait(scaled(30)) == 130

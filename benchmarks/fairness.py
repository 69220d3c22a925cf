"""What an attacker with one account and one address costs a client that behaves: with each kind of attack, and without.

The attacks are those of tests/faults. Within each round the client works alone and then beside the attack, so that both
see the same machine; medians over the rounds. `cpu us` is the proxy's processor time for each statement of the client,
what the attack itself takes included. `ratio` is the median of the rounds' ratios.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import Measurement, percentile
from benchmarks.places import Place
from benchmarks.processes import cpu_seconds
from tests.servers import Gate, Sql

ATTACKS = ("silent", "storm", "guesses", "filters", "subscriptions", "unread", "giants")
SETTLE_SECONDS = 2.0
"""How long the client works beside an attack before it is measured. Without commits the attacker's shares would fill up
meanwhile, and what is measured would be how they are spent."""
ATTACKER = Path(__file__).resolve().parent.parent / "tests" / "faults" / "attacks.py"


def measure(place: Place, rounds: int, seconds: float, attacks: Sequence[str]) -> list[Measurement]:
    """One line for each attack."""
    with _gate(place) as gate:
        client = Sql(gate.connect())
        client("CREATE QUEUE victim (n INT)")
        client("CREATE QUEUE other (n INT)")
        client("CREATE TABLE fillers (filler LONGTEXT)")
        for _ in range(20):
            client("INSERT INTO fillers VALUES (REPEAT('x', 1000000))")
        _work(gate, client, seconds)
        found = [_beside(attack, gate, client, place, rounds, seconds) for attack in attacks]
        client.close()
        return found


def _beside(attack: str, gate: Gate, client: Sql, place: Place, rounds: int, seconds: float) -> Measurement:
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(_work(gate, client, seconds))
        with _under(attack, gate):
            _work(gate, client, SETTLE_SECONDS)
            beside.append(_work(gate, client, seconds))
    values = {}
    for name, runs in (("alone", alone), ("beside", beside)):
        for column in ("p50 us", "p99 us", "cpu us"):
            values[f"{name} {column}"] = round(statistics.median(run[column] for run in runs), 1)
    for column in ("p50 us", "cpu us"):
        ratio = statistics.median(two[column] / one[column] for one, two in zip(alone, beside, strict=True))
        values[f"{column.split()[0]} ratio"] = round(ratio, 2)
    taken = [(two["cpu us"] - one["cpu us"]) * two["statements"] / 1e4 for one, two in zip(alone, beside, strict=True)]
    values["attack takes % of a CPU"] = round(statistics.median(taken) / seconds, 1)
    return Measurement(attack, place.backend, place.durability, 1, rounds, values)


def _work(gate: Gate, client: Sql, seconds: float) -> dict[str, float]:
    """Enqueue, receive, ack, and a statement that concerns no queue."""
    assert gate.process is not None
    clock, took = time.perf_counter, []
    used, until = cpu_seconds(gate.process.pid), clock() + seconds
    while (before := clock()) < until:
        client("INSERT INTO victim (n) VALUES (1)")
        ids = client.column("SELECT id FROM STREAM victim LIMIT 100 NOWAIT")
        if ids:
            client(f"ACK victim ({', '.join(map(str, ids))})")
        client("SELECT 1")
        took.append((clock() - before) / 4)
    used = (cpu_seconds(gate.process.pid) - used) / len(took) / 4
    times = {"p50 us": percentile(took, 50) * 1e6, "p99 us": percentile(took, 99) * 1e6}
    return {**times, "cpu us": used * 1e6, "statements": 4 * len(took)}


@contextlib.contextmanager
def _under(attack: str, gate: Gate) -> Iterator[None]:
    command = [sys.executable, str(ATTACKER), attack, str(gate.port), gate.database]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.stdin.close()
        process.kill()
        process.wait(20)
        process.stdout.close()


@contextlib.contextmanager
def _gate(place: Place) -> Iterator[Gate]:
    """A gate that knows the attacker, who may only receive and read."""
    limits = {"max_connections": 500, "login_timeout": "60s"}
    with tempfile.TemporaryDirectory(prefix="queuegate-fair-") as name:
        directory = Path(name)
        if place.server is None:
            users = [{"name": "root", "password": ""}, {"name": "attacker", "password": "known"}]
            gate = Gate(f"sqlite:///{directory}/queue.db", directory, limits=limits, users=users)
        else:
            url = place.server.fresh_database("fairness")
            with place.server.connect() as connection, connection.cursor() as cursor:
                cursor.execute("CREATE OR REPLACE USER attacker@'127.0.0.1' IDENTIFIED BY 'known'")
                cursor.execute("GRANT SELECT, UPDATE ON fairness.* TO attacker@'127.0.0.1'")
            gate = Gate(url, directory, database="fairness", limits=limits)
        gate.start()
        try:
            yield gate
        finally:
            gate.stop()

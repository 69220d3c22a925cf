"""A real Prometheus scrapes two real proxies, of which one has two workers, while things go wrong.

Its alerts are ours with times thirty times shorter, or less where the machine is busy: a proxy that answers late would
be one that does not answer. Exactly the right ones fire; and every panel of the dashboard and every recording rule has
data.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from certificates import Authority
from prometheus_server import Prometheus, program, rules, running
from servers import ROOT, Gate, MariaDb, Sql, Stream, free_port, wait_until
from slowness import scaled, slowness

pytestmark = pytest.mark.long

FACTOR = 30  # `for: 10m` is 20 s
SCRAPE_SECONDS = 2.0
SLOWEST = 5.0  # by so much all these times are stretched at most
DASHBOARD = json.loads((ROOT / "packaging/grafana/dashboards/queuegate.json").read_text())
EXPRESSIONS = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


@dataclass
class World:
    """Two proxies on a database of their own, and the Prometheus that scrapes them."""

    server: MariaDb
    first: Gate
    second: Gate
    prometheus: Prometheus
    slow: float
    """By how much its times are stretched."""

    def instance(self, gate: Gate) -> str:
        return str(gate.config["admin"]["listen"])


@pytest.fixture
def world(own_mariadb: MariaDb, tmp_path: Path) -> Iterator[World]:
    program("prometheus")
    certificate, key = Authority(tmp_path).issue("proxy", "127.0.0.1")
    with contextlib.ExitStack() as ends:
        gates = []
        for number, workers in enumerate((2, 1)):
            folder = tmp_path / f"gate{number}"
            folder.mkdir()
            gates.append(
                Gate(
                    own_mariadb.url(),
                    folder,
                    workers=workers,
                    admin={"listen": f"127.0.0.1:{free_port()}"},
                    tls={"certificate": str(certificate), "key": str(key)},
                    queue_defaults={"poll_interval": "1s"},
                )
            )
            ends.callback(gates[-1].stop)
            gates[-1].start()
        targets = [gate.config["admin"]["listen"] for gate in gates]
        slow = min(slowness(), SLOWEST)
        prometheus = running(tmp_path, targets, FACTOR / slow, SCRAPE_SECONDS * slow)
        yield World(own_mariadb, *gates, ends.enter_context(prometheus), slow)


class Traffic:
    """Messages that are acked, messages that nobody takes, messages whose handler always fails, and a topic."""

    def __init__(self, gate: Gate) -> None:
        self._sql, self._ask = Sql(gate.connect()), Sql(gate.connect())
        self._stop = threading.Event()
        self.errors: list[BaseException] = []
        for statement in (
            "CREATE QUEUE healthy (n INT)",
            "CREATE QUEUE unserved (n INT)",
            "CREATE QUEUE resting (n INT)",
            "CREATE QUEUE failing (n INT) WITH (max_attempts = 3)",
            "CREATE QUEUE halved (n INT NOT NULL) SHARDING KEY (n)",
            "CREATE TOPIC log (n INT)",
            "CREATE GROUP g ON log",
            "INSERT INTO unserved (n) VALUES (1), (2), (3)",
            "INSERT INTO resting (n) VALUES (1)",
            "INSERT INTO halved (n) VALUES (10), (11)",  # slots d3d9 and 6512
            "ALTER QUEUE resting PAUSE",
            "CREATE SCHEDULE later ON healthy EVERY '1d' (n) VALUES (0)",
        ):
            self._sql(statement)
        self._streams = {
            "ACK healthy {}": Stream(gate, "SELECT id FROM STREAM healthy"),
            "NACK failing {} DELAY 0": Stream(gate, "SELECT id FROM STREAM failing"),
            "ACK log GROUP g {}": Stream(gate, "SELECT id FROM STREAM log WITH (group = 'g')"),
        }
        self._half = Stream(gate, "SELECT id FROM STREAM halved WITH (key_range = '-80', ack_wait = '12h')")
        self._threads = [threading.Thread(target=self._produce, daemon=True)]
        for statement, stream in self._streams.items():
            self._threads.append(threading.Thread(target=self._handle, args=(gate, stream, statement), daemon=True))
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        with self._noted():
            while not self._stop.wait(0.1):
                for queue in ("healthy", "failing", "log"):
                    self._sql(f"INSERT INTO {queue} (n) VALUES (1)")

    def _handle(self, gate: Gate, stream: Stream, statement: str) -> None:
        with self._noted():
            sql, taken = Sql(gate.connect()), 0
            while rows := stream.more(taken):
                taken += len(rows)
                for row in rows:
                    sql(statement.format(row[0]))
            sql.close()

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.errors.append(error)

    def queues(self) -> list[str]:
        return self._ask.column("SHOW QUEUES")

    def end(self) -> None:
        """No more messages; the receivers go on until there is nothing left, and are then closed."""
        self._stop.set()
        self._threads[0].join(scaled(20))
        self._sql("ALTER QUEUE halved PAUSE")
        for queue in ("healthy", "failing"):
            wait_until(
                lambda queue=queue: self._ask.value(f"SELECT COUNT(*) FROM {queue} WHERE time_acked IS NULL") == 0,
                what=f"{queue} to be empty",
            )
        for stream in (*self._streams.values(), self._half):
            stream.close()
        for thread in self._threads:
            thread.join(scaled(20))
        self._sql.close()
        self._ask.close()
        assert self.errors == []


@pytest.mark.timeout(1200)
def test_exactly_the_right_alerts_fire_and_every_panel_has_data(world):
    """One test, as what costs the time is the same: proxies and a Prometheus that have run for a while."""
    prometheus, traffic = world.prometheus, Traffic(world.first)
    first, second = world.instance(world.first), world.instance(world.second)
    expected = {
        ("QueueNotServed", "unserved"),
        ("KeyRangeNotServed", "halved"),
        ("DeadLettersGrow", "failing"),
        ("MessagesFailAgainAndAgain", "failing"),
    }

    every_panel_has_data(world)
    reached(prometheus, expected, 90 * world.slow)
    assert "failing_dead" in traffic.queues()  # nobody serves it, and that is well
    traffic.end()

    world.server.kill()
    cut = {("DatabaseUnreachable", first), ("DatabaseUnreachable", second)}
    wait_until(lambda: cut <= prometheus.firing(), 60 * world.slow, "the alerts on the database")
    world.server.start()
    wait_until(lambda: not cut & prometheus.firing(), 60 * world.slow, "the alerts on the database to end")

    assert world.first.process is not None
    worker = workers(world.first)[0]
    os.kill(worker, signal.SIGKILL)
    world.second.kill()
    died = {("ProxyDown", second), ("WorkerRestarts", first)}
    wait_until(lambda: died <= prometheus.firing(), 60 * world.slow, "the alerts on processes that died")

    assert prometheus.firing(ever=True) == expected | cut | died


def every_panel_has_data(world: World) -> None:
    """Also every recording rule. Asked with Grafana's variables replaced as it does."""
    missing = {(title, resolved(expression, world.slow)) for title, expression in EXPRESSIONS}
    missing |= {("recording.yml", rule["record"]) for rule in rules("recording.yml")}
    assert len(missing) > 50

    def all_there() -> bool:
        missing.difference_update([one for one in missing if world.prometheus.query(one[1])])
        return not missing

    try:
        wait_until(all_there, 60 * world.slow, "data of every panel")
    except AssertionError as error:
        raise AssertionError(f"no data: {sorted(missing)}") from error


def resolved(expression: str, slow: float) -> str:
    """As Grafana asks it, where all is chosen: its interval of rates is that of four scrapes."""
    text = expression.replace("$__rate_interval", f"{4 * SCRAPE_SECONDS * slow * 1000:.0f}ms")
    text = re.sub(r"\$(job|instance|database|queue)\b", ".*", text)
    assert "$" not in text, f"an unknown variable: {text}"
    return text


def reached(prometheus: Prometheus, expected: set[tuple[str, str]], seconds: float) -> None:
    try:
        wait_until(lambda: expected <= prometheus.firing(), seconds, "the alerts on queues")
    except AssertionError as error:
        raise AssertionError(f"fire: {prometheus.firing()}; expected: {expected}") from error


def workers(gate: Gate) -> list[int]:
    assert gate.process is not None
    pid = gate.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

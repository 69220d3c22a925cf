"""Proxies restarted one after the other under load: deliveries go on, and no message is with two receivers at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rolling_clients import Clients, at_work
from servers import ROOT, Gate, Sql, Stream, wait_until
from slowness import scaled

pytestmark = pytest.mark.long

PAUSE_SECONDS = 15.0  # most between two deliveries, on a busy machine; a lease is an hour
HELD = 20
ROUNDS = int(os.environ.get("QUEUEGATE_ROLLING_ROUNDS", "1"))
SEED = os.environ.get("QUEUEGATE_ROLLING_SEED", "5")
PER_ROUND = 24  # messages that workers handle


def test_two_proxies_restarted_in_turn(mariadb, tmp_path):
    url = mariadb.fresh_database("rolling")
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gates.append(Gate(url, tmp_path / name, database="rolling").start())
    setup = Sql(gates[0].connect())
    setup("CREATE QUEUE q (n INT) WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '1h')")
    wait_until(lambda: all("linked to another proxy" in gate.log for gate in gates), what="the proxies to be linked")
    setup.connection._force_close()
    clients = Clients(gates)
    with contextlib.closing(Sql(mariadb.connect(database="rolling"))) as check:
        began = time.monotonic()
        with at_work(clients):
            restart_in_turn(clients)
            clients.stop.wait(0.5)
            ended = time.monotonic()
            unacked = "SELECT COUNT(*) FROM q WHERE time_acked IS NULL AND n < %s"
            wait_until(
                lambda: not check.value(unacked, next(clients.numbers) - 50),
                30,
                "everything but the latest to be acked",
            )
        in_table = set(check.column("SELECT n FROM q"))  # an INSERT was under way until its thread had ended
    assert clients.inserted <= in_table
    times = [began, *sorted(t for t in clients.times if t < ended), ended]
    assert max(after - before for before, after in itertools.pairwise(times)) < PAUSE_SECONDS


def restart_in_turn(clients: Clients) -> None:
    for gate in clients.gates:
        progress(clients)
        holder = Stream(gate, f"SELECT n FROM STREAM q WITH (prefetch = {HELD})")  # which never acks anything
        held = {row[0] for row in holder.wait(HELD)}
        assert held.isdisjoint(clients.delivered)
        assert gate.terminate() == 0
        progress(clients)
        assert held.isdisjoint(clients.delivered), "they stay with who has them"
        settled = time.monotonic()
        give_up(clients, held)
        wait_until(
            lambda held=held: clients.delivered.keys() >= held, 30, "its messages at the other proxy's receivers"
        )
        assert max(clients.delivered[n] for n in held) - settled < PAUSE_SECONDS
        holder.close()
        progress(clients)
        links = gate.log.count("linked to another proxy")
        gate.start()
        wait_until(
            lambda gate=gate, links=links: gate.log.count("linked to another") > links, what="the newcomer's link"
        )
    progress(clients)


def give_up(clients: Clients, held: set[int]) -> None:
    """The receiver of these has come back through another proxy, and gives them to others."""
    found = clients.connect(0)
    assert found is not None
    with contextlib.closing(found[1]) as client:
        assert client(f"RELEASE q WHERE n IN ({', '.join(map(str, held))})") == len(held)


class Balancer:
    """One address for several proxies: each connection goes to the first of them that takes it."""

    def __init__(self, gates: list[Gate]) -> None:
        self.gates = gates
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.threads: list[threading.Thread] = []
        self.start(self.accept)

    def start(self, work: Callable[..., None], *given: socket.socket) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self.threads.append(thread)
        thread.start()

    def accept(self) -> None:
        for turn in itertools.count():
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            self.join(client, turn)

    def join(self, client: socket.socket, turn: int) -> None:
        for gate in (self.gates[turn % 2], self.gates[1 - turn % 2]):
            try:
                proxy = socket.create_connection(("127.0.0.1", gate.port), 2)
            except OSError:
                continue
            proxy.settimeout(None)
            for pair in ((client, proxy), (proxy, client)):
                self.start(pump, *pair)
            return
        client.close()

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for thread in self.threads:
            thread.join(scaled(20))


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    source.close()


def test_no_message_is_handled_by_two_workers_at_once(mariadb, tmp_path):
    """Handlers take longer than a proxy takes to restart; the workers come back through the other one."""
    chance, total = random.Random(SEED), ROUNDS * PER_ROUND
    url = mariadb.fresh_database("handled")
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gates.append(Gate(url, tmp_path / name, database="handled").start())
    balancer = Balancer(gates)
    check = Sql(mariadb.connect(database="handled"))
    setup = Sql(gates[0].connect())
    setup("CREATE QUEUE q (n INT, seconds DOUBLE) WITH (ack_wait = '20s', min_backoff = '100ms', max_attempts = 9)")
    seconds = [3 + n % 3 if n < PER_ROUND else round(chance.uniform(0.2, 6), 1) for n in range(total)]
    setup("INSERT INTO q (n, seconds) VALUES " + ", ".join(map(str, enumerate(seconds))))
    setup.connection._force_close()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "QUEUEGATE_URL": f"mysql://root@127.0.0.1:{balancer.port}/handled",
    }
    command = [sys.executable, "-m", "queuegate_worker", "worker_tasks:timed", "--queue", "q", "--concurrency", "4"]
    logs = [tmp_path / f"worker{number}" for number in range(2)]
    workers = []
    try:
        for log in logs:
            with log.open("wb") as output:
                folder = Path(__file__).parent
                workers.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output))
        wait_until(lambda: all("begin" in log.read_text() for log in logs), 60, "both workers at work")
        for gate, work in restarts(gates, chance):
            assert gate.terminate() == 0
            gate.start()
            known = sum(log.read_text().count("end ") for log in logs)
            wait_until(
                lambda known=known, work=work: sum(log.read_text().count("end ") for log in logs) >= known + work,
                60,
                "work",
            )
        unacked = "SELECT COUNT(*) FROM q WHERE time_acked IS NULL"
        wait_until(lambda: not check.value(unacked), 120 * ROUNDS, "the last message")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait(scaled(20))
        for gate in gates:
            gate.stop()
        balancer.close()
        check.close()
    handled = sorted(interval for log in logs for interval in intervals(log.read_text()))
    assert {n for n, _, _ in handled} == set(range(total))
    for (n, _, ended), (other, began, _) in itertools.pairwise(handled):
        assert n != other or began >= ended, f"message {n} was handled by two at once: {handled}"


def restarts(gates: list[Gate], chance: random.Random) -> Iterator[tuple[Gate, int]]:
    """Which proxy is restarted next, and how many messages are handled before another is."""
    yield from ((gate, 4) for gate in gates)
    for _ in range(ROUNDS - 1):
        yield from ((gate, chance.randrange(8)) for gate in chance.sample(gates, len(gates)))


def intervals(log: str) -> list[tuple[int, float, float]]:
    """Which message was handled from when to when, by the clock that all processes share."""
    begun: dict[int, float] = {}
    found = []
    for word, n, at in re.findall(r"^(begin|end) (\d+) ([\d.]+)$", log, re.MULTILINE):
        if word == "begin":
            begun[int(n)] = float(at)
        else:
            found.append((int(n), begun.pop(int(n)), float(at)))
    return [*found, *((n, at, at) for n, at in begun.items())]


def progress(clients: Clients) -> None:
    reached = len(clients.delivered) + 100
    wait_until(lambda: len(clients.delivered) >= reached, 30, "a hundred more deliveries")

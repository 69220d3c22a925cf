"""Proxies restarted one after the other under load: deliveries go on all the time, and no message waits for a lease."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

import pymysql
from servers import Gate, Sql, Stream, wait_until

LOST = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError, AttributeError, AssertionError)
PAUSE_SECONDS = 15.0  # most between two deliveries, on a busy machine; a lease is an hour
HELD = 20


class Clients:
    """Producers and receivers that use whichever proxy takes them, their own first, as behind a load balancer."""

    def __init__(self, gates: list[Gate]) -> None:
        self.gates = gates
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.inserted: set[int] = set()
        self.doubtful: set[int] = set()
        self.delivered: dict[int, float] = {}
        self.times: list[float] = []
        self.numbers = itertools.count()

    def connect(self, first: int) -> tuple[Gate, Sql] | None:
        while not self.stop.is_set():
            for gate in (self.gates[first], self.gates[1 - first]):
                try:
                    return gate, Sql(gate.connect(connect_timeout=2, read_timeout=10))
                except LOST:
                    continue
            self.stop.wait(0.02)
        return None

    def produce(self, first: int) -> None:
        while (found := self.connect(first)) is not None:
            _, client = found
            try:
                while not self.stop.is_set():
                    n = next(self.numbers)
                    with self.lock:
                        self.doubtful.add(n)
                    client("INSERT INTO q (n) VALUES (%s)", n)
                    with self.lock:
                        self.inserted.add(n)
                    self.stop.wait(0.01)
            except LOST:
                pass
            client.connection._force_close()

    def receive(self, first: int) -> None:
        while (found := self.connect(first)) is not None:
            gate, acks = found
            try:
                with Stream(gate, "SELECT id, n FROM STREAM q WITH (prefetch = 50)") as stream:
                    for taken in itertools.count():
                        rows = stream.more(taken)
                        if not rows or self.stop.is_set():
                            break
                        id_, n = rows[0]
                        with self.lock:
                            self.delivered.setdefault(n, time.monotonic())
                            self.times.append(time.monotonic())
                        acks("ACK q %s", id_)
            except LOST:
                pass
            acks.connection._force_close()


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


@contextlib.contextmanager
def at_work(clients: Clients) -> Iterator[None]:
    """Producers and receivers run meanwhile. They end also when the test fails: a thread that is left connects to
    whatever gate of another test has the port next."""
    threads = [threading.Thread(target=clients.produce, args=(k,), daemon=True) for k in range(2)]
    threads += [threading.Thread(target=clients.receive, args=(k % 2,), daemon=True) for k in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        clients.stop.set()
        for gate in clients.gates:
            gate.stop()
        for thread in threads:
            thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def restart_in_turn(clients: Clients) -> None:
    for gate in clients.gates:
        progress(clients)
        holder = Stream(gate, f"SELECT n FROM STREAM q WITH (prefetch = {HELD})")  # which never acks anything
        held = {row[0] for row in holder.wait(HELD)}
        assert held.isdisjoint(clients.delivered)
        ended = time.monotonic()
        assert gate.terminate() == 0
        wait_until(
            lambda held=held: clients.delivered.keys() >= held, 30, "its messages at the other proxy's receivers"
        )
        assert max(clients.delivered[n] for n in held) - ended < PAUSE_SECONDS
        holder.close()
        progress(clients)
        links = gate.log.count("linked to another proxy")
        gate.start()
        wait_until(
            lambda gate=gate, links=links: gate.log.count("linked to another") > links, what="the newcomer's link"
        )
    progress(clients)


def progress(clients: Clients) -> None:
    reached = len(clients.delivered) + 100
    wait_until(lambda: len(clients.delivered) >= reached, 30, "a hundred more deliveries")

"""Producers and receivers of a queue `q` at two proxies of which each is away at times."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

import pymysql
from servers import Gate, Sql, Stream
from slowness import scaled

LOST = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError, AttributeError, AssertionError)


class Clients:
    """Producers and receivers that use whichever proxy takes them, their own first, as behind a load balancer."""

    prefetch = 50

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
            gate, client = found
            select = f"SELECT id, n FROM STREAM q WITH (prefetch = {self.prefetch})"
            with contextlib.suppress(*LOST), Stream(gate, select) as stream:
                for taken in itertools.count():
                    rows = stream.more(taken)
                    if not rows or self.stop.is_set():
                        break
                    self.handle(client, *rows[0], received=stream.times[taken])
            client.connection._force_close()

    def handle(self, client: Sql, id_: int, n: int, *, received: float) -> None:
        """What a receiver does with a message; `received`: when, in seconds since 1970."""
        with self.lock:
            self.delivered.setdefault(n, time.monotonic())
            self.times.append(time.monotonic())
        client("ACK q %s", id_)


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
            thread.join(scaled(20))
    assert not any(thread.is_alive() for thread in threads)

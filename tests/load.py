"""A load that remembers what it was promised: producers and acking receivers that go on through every crash."""

from __future__ import annotations

import threading
import time

import pymysql
from pymysql.cursors import SSCursor
from servers import Gate, Sql, hang_up, wait_until
from slowness import scaled

LOST = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError, AttributeError)


class Load:
    """Producers and acking receivers that go on through every crash, and remember what they were promised."""

    def __init__(self, gate: Gate, q: str) -> None:
        self.gate = gate
        self.q = q
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.inserted: set[str] = set()
        self.acked_at: dict[str, float] = {}
        self.received: list[tuple[str, float, int]] = []
        self.broken: list[str] = []
        self.threads = [threading.Thread(target=self._keep, args=(self._produce, n), daemon=True) for n in range(4)]
        self.threads += [threading.Thread(target=self._keep, args=(self._receive, n), daemon=True) for n in range(2)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(scaled(60))
            assert not thread.is_alive()
        assert not self.broken, self.broken[:3]

    def _keep(self, work, number: int) -> None:
        """Connect, work until the proxy dies, again."""
        while not self.stop.is_set():
            try:
                work(number)
            except LOST:
                self.stop.wait(0.02)  # the proxy is down: as a client would, try again in a moment
            except Exception as error:
                self.broken.append(repr(error))
                return

    def _produce(self, number: int) -> None:
        with self.gate.connect(connect_timeout=2) as connection, connection.cursor() as cursor:
            n = 0
            while not self.stop.is_set():
                n += 1
                names = [f"{number}-{time.time_ns()}-{n}-{k}" for k in range(3)]
                cursor.execute(f"INSERT INTO {self.q} (name) VALUES (%s), (%s), (%s)", names)
                with self.lock:
                    self.inserted.update(names)

    def _receive(self, number: int) -> None:
        with self.gate.connect(connect_timeout=2) as acks, acks.cursor() as ack:
            connection = self.gate.connect(cursorclass=SSCursor, connect_timeout=2, read_timeout=1)
            cursor = connection.cursor()
            try:
                cursor.execute(f"SELECT id, name, epoch FROM STREAM {self.q} WITH (prefetch = 50)")
                while not self.stop.is_set() and (row := cursor.fetchone()) is not None:
                    with self.lock:
                        self.received.append((row[1], time.time(), row[2]))
                    if ack.execute(f"ACK {self.q} %s", (row[0],)) == 1:
                        with self.lock:
                            self.acked_at[row[1]] = time.time()
            finally:
                hang_up(connection)
                if cursor._result is not None:
                    cursor._result.unbuffered_active = False
                connection._force_close()

    def await_progress(self, what: str) -> None:
        """Wait until 150 more messages have been acked."""
        reached = len(self.acked_at) + 150
        wait_until(lambda: len(self.acked_at) >= reached or self.broken, 30, what)

    def check(self) -> None:
        """Nothing is produced any more: one more receiver takes what is left, with no ack on record; then compare."""
        rest = Sql(self.gate.connect())
        deadline = time.monotonic() + scaled(60)
        while rest.value(f"SELECT COUNT(*) FROM {self.q} WHERE time_acked IS NULL"):
            assert time.monotonic() < deadline, "messages are left that do not come"
            left = rest.rows(f"SELECT id, name, epoch FROM STREAM {self.q} LIMIT 1000 WAIT 2")
            if not left:
                continue
            self.received += [(name, time.time(), epoch) for _, name, epoch in left]
            rest(f"ACK {self.q} " + ", ".join(str(row[0]) for row in left))

        delivered = {name for name, _, _ in self.received}
        assert self.inserted - delivered == set(), "an INSERT returned and its message never came"
        acked = self.acked_at
        resent = [(name, at - acked[name]) for name, at, _ in self.received if at > acked.get(name, at)]
        assert resent == [], "an ACK returned and its message came again"
        in_table = set(rest.column(f"SELECT name FROM {self.q}"))
        assert self.inserted <= in_table
        rest.close()

"""kill -9 of the proxy under load: what INSERT promised is delivered, what ACK promised stays acked."""

from __future__ import annotations

import threading
import time

import pymysql
from pymysql.cursors import SSCursor
from servers import Gate, Sql, Stream, hang_up, wait_until

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
            thread.join(60)
            assert not thread.is_alive()
        assert not self.broken, self.broken[:3]

    def _keep(self, work, number: int) -> None:
        """Connect, work until the proxy dies, again."""
        while not self.stop.is_set():
            try:
                work(number)
            except LOST:
                time.sleep(0.02)  # the proxy is down: as a client would, try again in a moment
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


def test_kill_9_under_load_several_times(new_gate):
    gate = new_gate()
    gate.start()
    setup = Sql(gate.connect())
    # Long enough for a receiver to read what is in its socket before the lease is over, else an old copy in there
    # would look like a message sent after its ack.
    setup("CREATE QUEUE q (name VARCHAR(100)) WITH (ack_wait = '4s', min_backoff = '10ms', max_backoff = '4s')")
    setup.close()
    load = Load(gate, "q")
    load.start()
    for _ in range(4):
        reached = len(load.acked_at) + 150
        wait_until(lambda at_least=reached: len(load.acked_at) >= at_least or load.broken, 30, "progress under load")
        gate.kill()
        gate.start()
    reached = len(load.acked_at) + 150
    wait_until(lambda: len(load.acked_at) >= reached or load.broken, 30, "progress after the last crash")
    load.join()

    # Nothing is produced any more: one more receiver takes what is left, with no ack on record.
    rest = Sql(gate.connect())
    deadline = time.monotonic() + 60
    while rest.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL"):
        assert time.monotonic() < deadline, "messages are left that do not come"
        left = rest.rows("SELECT id, name, epoch FROM STREAM q LIMIT 1000 WAIT 2")
        if not left:
            continue
        load.received += [(name, time.time(), epoch) for _, name, epoch in left]
        rest("ACK q " + ", ".join(str(row[0]) for row in left))

    delivered = {name for name, _, _ in load.received}
    assert load.inserted - delivered == set(), "an INSERT returned and its message never came"
    resent = [(name, at - load.acked_at[name]) for name, at, _ in load.received if at > load.acked_at.get(name, at)]
    assert resent == [], "an ACK returned and its message came again"
    in_table = set(rest.column("SELECT name FROM q"))
    assert load.inserted <= in_table
    rest.close()


def test_delivered_but_not_acked_comes_again_after_a_crash(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (ack_wait = '300ms', min_backoff = '10ms', max_backoff = '300ms')")
    client("INSERT INTO q (payload) VALUES ('kept'), ('acked')")
    assert client.column("SELECT id FROM STREAM q LIMIT 2") == [1, 2]
    assert client("ACK q 2") == 1
    gate.kill()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.rows("SELECT id, payload, epoch FROM STREAM q LIMIT 1 WAIT 10") == [(1, "kept", 2)]
    assert client("ACK q 1") == 1
    assert client.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL") == 0
    client.close()


def test_an_uncommitted_transaction_is_gone_after_a_crash(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT)")
    client("CREATE TABLE business (n INT)")
    client("BEGIN")
    client("INSERT INTO business (n) VALUES (1)")
    client("INSERT INTO q (payload) VALUES ('never')")
    gate.kill()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    wait_until(lambda: client.rows("SELECT n FROM business") == [], what="the roll back")
    assert client.rows("SELECT payload FROM STREAM q LIMIT 1 NOWAIT") == []
    client.close()


def test_schedules_and_queues_survive_a_crash(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (ack_wait = '45s', batch_size = 7)")
    text = client.row("SHOW CREATE QUEUE q")
    due = time.time_ns() + 2_000_000_000
    client("INSERT INTO q (payload, time_scheduled) VALUES ('later', %s)", due)
    gate.kill()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.row("SHOW CREATE QUEUE q") == text
    assert client.rows("SELECT payload FROM STREAM q LIMIT 1 WAIT 20") == [("later",)]
    assert time.time_ns() >= due - 2_000_000
    client.close()


def test_sigterm_exits_0_and_gives_messages_back_uncounted(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (ack_wait = '1h', max_backoff = '2h')")
    receiver = Stream(gate, "SELECT id, epoch FROM STREAM q")
    client("INSERT INTO q (payload) VALUES ('a'), ('b')")
    assert receiver.wait(2) == [(1, 1), (2, 1)]
    started = time.monotonic()
    assert gate.terminate() == 0
    assert time.monotonic() - started < 15
    error = receiver.wait_end()
    assert error is not None
    assert error.args[0] in (1053, 2013)
    receiver.close()
    client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.rows("SELECT id, epoch FROM STREAM q LIMIT 2 WAIT 5") == [(1, 1), (2, 1)]
    client.close()


def test_sigterm_with_an_idle_and_a_busy_client(new_gate):
    gate = new_gate(shutdown_grace="3s")
    gate.start()
    idle, busy = Sql(gate.connect()), Sql(gate.connect())
    busy("CREATE QUEUE q (payload TEXT)")
    busy("BEGIN")
    busy("INSERT INTO q (payload) VALUES ('uncommitted')")
    assert gate.terminate(20) == 0
    for client in (idle, busy):
        client.connection._force_close()
    gate.start()
    client = Sql(gate.connect())
    assert client.rows("SELECT * FROM q") == []
    client.close()

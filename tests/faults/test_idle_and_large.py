"""What a queue costs when nothing happens, and what a backlog costs in memory."""

from __future__ import annotations

import time

import pytest
from servers import Gate, Sql, Stream, wait_until
from slowness import scaled


@pytest.fixture
def quiet_gate(own_mariadb, tmp_path):
    """A gate on a server that hears from nobody else."""
    gate = Gate(own_mariadb.url(), tmp_path)
    gate.start()
    yield gate
    gate.stop()


def test_an_idle_queue_with_a_hundred_receivers_asks_the_database_nothing(own_mariadb, quiet_gate):
    """The database's own counter of statements, over five seconds in which only a safety scan could be due."""
    gate = quiet_gate
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (poll_interval = '1h')")
    receivers = [Stream(gate, "SELECT id, payload FROM STREAM q") for _ in range(100)]
    client("INSERT INTO q (payload) VALUES ('warm')")
    wait_until(lambda: sum(len(r.rows) for r in receivers) == 1, what="the first message")
    watcher = Sql(own_mariadb.connect())
    count = lambda: int(watcher.row("SHOW GLOBAL STATUS LIKE 'Questions'")[1])  # noqa: E731
    settled = wait_until(lambda: steady(count), 30, "the database to come to rest")
    time.sleep(5)
    asked = count() - settled - 1  # our own SHOW
    assert asked <= 10, f"{asked} statements in 5 s of idleness"
    for receiver in receivers:
        receiver.close()
    watcher.close()
    client.close()


def steady(count) -> int | None:
    """The counter, once only our own statements move it for half a second."""
    first = count()
    time.sleep(0.5)
    second = count()
    return second if second == first + 1 else None


def test_a_backlog_does_not_grow_memory(new_gate):
    """100,000 messages of 2 kB, 200 MB in all, waiting behind a receiver with a full window."""
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload VARCHAR(2100)) WITH (cache_size = 1000, ack_wait = '1h', max_backoff = '2h')")
    receiver = Stream(gate, "SELECT id FROM STREAM q WITH (prefetch = 10)")
    payload = "x" * 2000
    insert = "INSERT INTO q (payload) VALUES " + ", ".join(["(%s)"] * 500)
    for _ in range(20):  # the process has seen such statements, and its allocator such buffers
        client(insert, *[payload] * 500)
    receiver.wait(10)
    before = gate.rss_bytes()
    for _ in range(180):
        client(insert, *[payload] * 500)
    assert client.value("SELECT COUNT(*) FROM q") == 100_000
    grown = gate.rss_bytes() - before
    assert grown < 60 << 20, f"grew by {grown >> 20} MiB"
    assert client("ACK q " + ", ".join(str(n) for n in range(1, 11))) == 10
    receiver.wait(20)
    assert receiver.ids() == list(range(1, 21))
    receiver.close()
    client.close()


def test_a_restart_on_a_backlog_is_quick_and_small(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT) WITH (cache_size = 1000)")
    for start in range(0, 50_000, 2000):
        client("INSERT INTO q (n) VALUES " + ", ".join(f"({n})" for n in range(start, start + 2000)))
    client.close()
    assert gate.terminate() == 0
    started = time.monotonic()
    gate.start()
    client = Sql(gate.connect())
    assert client.rows("SELECT n FROM STREAM q LIMIT 3") == [(0,), (1,), (2,)]
    assert time.monotonic() - started < scaled(15)
    assert gate.rss_bytes() < 200 << 20
    client.close()

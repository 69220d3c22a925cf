"""Several proxies in front of one database: nothing is handed out twice, and each takes over from the other."""

from __future__ import annotations

import time
from contextlib import closing

import mysql.connector
import pytest
from servers import Gate, Sql, Stream, in_threads, wait_until


@pytest.fixture
def pair(mariadb, tmp_path):
    """Two gates on one database with one queue, which a short safety scan keeps in step."""
    url = mariadb.fresh_database("shared")
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gate = Gate(url, tmp_path / name, database="shared").start()
        if not gates:
            client = Sql(gate.connect())
            client("CREATE QUEUE q (n INT) WITH (poll_interval = '200ms', ack_wait = '1h', max_backoff = '2h')")
            client.close()
        gates.append(gate)
    yield gates
    for gate in gates:
        gate.stop()


def test_each_message_goes_to_one_receiver_of_all_proxies(pair):
    total = 3000
    streams = [Stream(gate, "SELECT id, n FROM STREAM q WITH (prefetch = 5000)") for gate in pair for _ in range(2)]

    def produce(gate: Gate, first: int) -> None:
        client = Sql(gate.connect())
        for n in range(first, total, 40):
            client("INSERT INTO q (n) VALUES " + ", ".join(f"({k})" for k in range(n, min(n + 20, total))))
        client.close()

    in_threads(produce, [(pair[0], 0), (pair[1], 20)])
    wait_until(lambda: sum(len(stream.rows) for stream in streams) >= total, 60, "all messages")
    got = [row[1] for stream in streams for row in stream.rows]
    assert sorted(got) == list(range(total))
    check = Sql(pair[0].connect())
    assert check.rows("SELECT epoch, COUNT(*) FROM q GROUP BY epoch") == [(1, total)]
    check.close()
    for stream in streams:
        stream.close()


def test_an_ack_through_the_other_proxy_counts(pair):
    one, other = (Sql(gate.connect()) for gate in pair)
    one("INSERT INTO q (n) VALUES (1)")
    assert one.column("SELECT id FROM STREAM q LIMIT 1 WAIT 5") == [1]
    assert other("ACK q 1") == 1
    assert one("ACK q 1") == 0
    one.close()
    other.close()


def test_messages_of_a_stopped_proxy_go_out_through_the_other(pair):
    first, second = pair
    receiver = Stream(first, "SELECT n FROM STREAM q")
    client = Sql(second.connect())
    client("INSERT INTO q (n) VALUES (1), (2)")
    receiver.wait(2)
    assert first.terminate() == 0
    receiver.close()
    heir = Stream(second, "SELECT n FROM STREAM q")
    started = time.monotonic()
    assert sorted(heir.wait(2)) == [(1,), (2,)]
    assert time.monotonic() - started < 10  # not the hour of their leases
    heir.close()
    client.close()


@pytest.mark.parametrize("prepared", [False, True])
def test_a_queue_made_through_one_proxy_is_known_to_the_other(pair, prepared):
    one, other = Sql(pair[0].connect()), connector(pair[1])
    with closing(other), other.cursor(prepared=prepared) as cursor:
        one("CREATE QUEUE fresh (n INT)")
        one("INSERT INTO fresh (n) VALUES (5)")
        cursor.execute("SELECT n FROM STREAM fresh LIMIT 1 WAIT 5")
        assert cursor.fetchall() == [(5,)]
        cursor.execute("SELECT 1")
        cursor.fetchall()
    one.close()


def connector(gate: Gate):
    return mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )

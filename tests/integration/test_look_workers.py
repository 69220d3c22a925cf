"""What SHOW SUBSCRIPTIONS, SHOW CONSUMERS, EXPLAIN DELIVERY and the system tables tell is of all workers."""

from __future__ import annotations

import pytest
from servers import Gate, Sql, Stream, wait_until

pytestmark = pytest.mark.long

TOTALS = "SELECT enqueued_total, sent_total, subscribers FROM queuegate.queues WHERE db = DATABASE()"


@pytest.fixture
def two_workers(mariadb, tmp_path):
    gate = Gate(mariadb.fresh_database("look_workers"), tmp_path, database="look_workers", workers=2)
    gate.start()
    yield gate
    gate.stop()


def test_streams_holders_and_counters_of_every_worker(two_workers):
    gate = two_workers
    clients = [Sql(gate.connect()) for _ in range(4)]  # spread over both
    clients[0]("CREATE QUEUE jobs (n INT) WITH (ack_wait = '1h', max_backoff = '3h')")
    streams = [Stream(gate, "SELECT id FROM STREAM jobs WITH (prefetch = 1)") for _ in range(4)]
    try:
        for n, client in enumerate(clients):
            client("INSERT INTO jobs (n) VALUES (%s)", n)
        held = {}
        for stream in streams:
            held[stream.id] = stream.wait(1)[0][0]
        for client in clients:
            rows = client.rows("SHOW SUBSCRIPTIONS")
            assert {row[2] for row in rows} == set(held)
            in_flight = client.rows("SELECT connection_id, id FROM queuegate.in_flight WHERE db = DATABASE()")
            assert {str(c): id_ for c, id_ in in_flight} == {str(c): str(id_) for c, id_ in held.items()}
            for connection, id_ in held.items():
                ((_, state, text),) = client.rows(f"EXPLAIN DELIVERY FOR jobs WHERE id = {id_}")
                assert state == "in_flight" and f"held by connection {connection} " in text
            wait_until(
                lambda client=client: client.row(TOTALS) == (4, 4, 4),
                what="the counters of both workers",
            )
        clients[0]("INSERT INTO jobs (n) VALUES (9)")
        assert {c.row("EXPLAIN DELIVERY FOR jobs WHERE n = 9")[1] for c in clients} == {"windows_full"}
        streams.append(Stream(gate, "SELECT id FROM STREAM jobs WHERE n > 100"))
        for stream in streams[:4]:
            stream.close()
        clients[0]("UPDATE jobs SET time_next = 0 WHERE n < 9")
        wait_until(
            lambda: {c.row("EXPLAIN DELIVERY FOR jobs WHERE n = 9")[1] for c in clients} == {"filtered"},
            what="the filter of one worker to be known to both",
        )
    finally:
        for stream in streams:
            stream.close()
        for client in clients:
            client.close()


def test_consumers_of_every_worker(two_workers):
    gate = two_workers
    clients = [Sql(gate.connect()) for _ in range(4)]  # spread over both
    clients[0]("CREATE TOPIC orders (n INT)")
    clients[0]("CREATE GROUP billing ON orders START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '3h')")
    clients[0]("INSERT INTO orders (n) VALUES (1), (2), (3), (4)")
    members = [
        Stream(gate, f"SELECT id FROM STREAM orders WITH (group = 'billing', prefetch = 1, consumer = 'm{n}')")
        for n in range(4)
    ]
    reader = Stream(gate, "SELECT id FROM STREAM orders WITH (mode = 'broadcast', consumer = 'r')")
    try:
        held = {f"m{n}": member.wait(1)[0][0] for n, member in enumerate(members)}
        names = {**{stream.id: f"m{n}" for n, stream in enumerate(members)}, reader.id: "r"}
        for client in clients:
            rows = client.rows("SELECT connection_id, consumer FROM queuegate.consumers WHERE db = DATABASE()")
            assert dict(rows) == names
            assert [row[5] for row in client.rows("SHOW GROUPS ON orders")] == [4]
            out = client.rows("SELECT consumer, id FROM queuegate.group_in_flight WHERE db = DATABASE()")
            assert dict(out) == held
            # What one worker has recorded each of them tells.
            table = "SELECT consumer, id FROM queuegate.traces WHERE db = DATABASE() AND event = 'sent'"
            assert {consumer: int(id_) for consumer, id_ in client.rows(table)} == held
            (traced,) = client.rows(f"TRACE MESSAGE {held['m2']} ON orders")
            assert " sent to m2, connection " in traced[-1]
        places = "SELECT DISTINCT proxy FROM queuegate.traces WHERE db = DATABASE()"
        assert len({place for client in clients for place in client.column(places)}) == 2
    finally:
        for stream in (*members, reader):
            stream.close()
        for client in clients:
            client.close()


def test_a_kept_history_is_told_by_the_proxies_that_are_left(mariadb, tmp_path):
    """Two proxies with two workers each; the one at which most happened is killed."""
    url, gates = mariadb.fresh_database("kept_by_two"), []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        gates.append(Gate(url, tmp_path / name, database="kept_by_two", workers=2).start())
    first, second = gates
    sql, other = Sql(first.connect()), Sql(second.connect())
    sql("CREATE TOPIC orders (n INT) WITH (trace_keep = '1d')")
    sql("CREATE GROUP g ON orders START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '3h')")
    sql("INSERT INTO orders (n) VALUES (1), (2)")
    assert sql.column("SELECT id FROM STREAM orders WITH (group = 'g') LIMIT 2 WAIT 20") == [1, 2]
    other("NACK orders 1 GROUP g DELAY '1h' REASON 'late'")

    def told(client: Sql) -> list[str]:
        ((*_, history),) = client.rows("TRACE MESSAGE 1 ON orders")
        return history.split("; ")

    whats = [[piece.split(" ")[2].rstrip(":,") for piece in told(client)] for client in (sql, other)]
    assert whats == [["enqueued", "sent", "nacked"]] * 2
    before = told(other)
    written = "SELECT COUNT(*) FROM queuegate_traces"
    wait_until(
        lambda: "queuegate_traces" in other.column("SHOW TABLES") and other.value(written) == 5, what="all of it"
    )
    assert told(sql) == told(other) == before
    first.kill()
    wait_until(lambda: told(other) == before, what="what was kept to be told by the other")
    assert other.value("SELECT COUNT(*) FROM queuegate.traces WHERE db = DATABASE()") == 5
    sql.connection._force_close()
    other.close()
    second.stop()

"""ACK in all spellings, what it counts, and that an acked message is never sent again."""

from __future__ import annotations

import time

import pytest
from servers import NS, wait_until
from slowness import scaled

pytestmark = pytest.mark.on_mysql


@pytest.fixture
def received(sql, queue):
    """A queue of five messages that have all been received, and would come again in 100-200 ms."""
    q = queue("n INT", ack_wait="'100ms'", min_backoff="'10ms'", max_backoff="'100ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4), (5)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 5") == [1, 2, 3, 4, 5]
    return q


ENDINGS = [
    "ACK {q} 1, 2",
    "ACK {q} WHERE id IN (1, 2)",
    "ACK {q} WHERE id <= 2",
    "UPDATE {q} SET time_acked = {now}, time_next = NULL WHERE id IN (1, 2) AND time_acked IS NULL",
    "UPDATE {q} SET state = 'acked' WHERE id IN (1, 2)",
    "DELETE FROM {q} WHERE id IN (1, 2)",
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_way_to_end_a_message_counts_once_and_holds(sql, received, ending):
    q = received
    statement = ending.format(q=q, now=time.time_ns())
    assert sql(statement) == 2
    assert sql(statement) == 0
    again: set[int] = set()
    while again != {3, 4, 5}:  # all the others come again, so the two would have come too
        again |= set(sql.column(f"SELECT id FROM STREAM {q} LIMIT 10 WAIT 5"))
        assert not again & {1, 2}
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE id IN (1, 2) AND state <> 'acked'") == 0


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_message_that_waits_in_memory_is_not_sent(sql, queue, stream, ending):
    """A receiver with a full window keeps the rest waiting in the cache; then two of them are ended."""
    q = queue("n INT")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 1)")
    sql(f"INSERT INTO {q} (id, n) VALUES (10, 0)")
    assert receiver.wait(1) == [(10,)]
    sql(f"INSERT INTO {q} (id, n) VALUES (1, 0), (2, 0), (20, 0)")
    assert sql(ending.format(q=q, now=time.time_ns())) == 2
    assert sql(f"ACK {q} 10") == 1
    assert receiver.wait(2) == [(10,), (20,)]
    assert sql(f"ACK {q} 20") == 1
    sql(f"INSERT INTO {q} (id, n) VALUES (30, 0)")
    assert receiver.wait(3) == [(10,), (20,), (30,)]


@pytest.mark.parametrize(
    "ending", ["ACK {q} 4", "ACK {q} WHERE id > 3", "DELETE FROM {q} WHERE id = 4", "RELEASE {q} 4"]
)
def test_a_message_that_waits_for_a_slow_reader_is_not_sent(sql, stuck, ending):
    """It is leased for him, and more waits before it than sockets hold. Released, it goes to
    another alone."""
    q = stuck.queue
    assert sql(ending.format(q=q)) == 1
    if ending.startswith("RELEASE"):
        assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [4]
    wait_until(lambda: stuck.unacked(sql) == 3, what="the proxy to know")
    sql(f"INSERT INTO {q} (body) VALUES ('last')")
    assert [stuck.cursor.fetchone()[0] for _ in range(4)] == [1, 2, 3, 5]


def test_ack_stamps_the_row(sql, received):
    assert sql(f"ACK {received} 1") == 1
    time_acked, time_next, state, epoch = sql.row(
        f"SELECT time_acked, time_next, state, epoch FROM {received} WHERE id = 1"
    )
    assert abs(time_acked - time.time_ns()) < scaled(5) * NS
    assert (time_next, state, epoch) == (None, "acked", 1)


def test_ack_counts_only_what_changed(sql, received):
    assert sql(f"ACK {received} 4") == 1
    assert sql(f"ACK {received} 1, 4") == 1
    assert sql(f"ACK {received} 999") == 0
    assert sql(f"ACK {received} 999, 1, 2, 2") == 1


def test_ack_counts_the_same_for_a_client_that_asks_for_found_rows(connect, received):
    from pymysql.constants import CLIENT

    found = connect(client_flag=CLIENT.FOUND_ROWS)
    assert found(f"ACK {received} 1") == 1
    assert found(f"ACK {received} 1") == 0


def test_ack_of_a_message_never_sent(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    assert sql(f"ACK {q} 1") == 1
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 2 NOWAIT") == [2]


def test_ack_from_the_same_connection_and_another(sql, connect, received):
    assert sql(f"ACK {received} 1") == 1
    assert connect()(f"ACK {received} 1") == 0
    assert connect()(f"ACK {received} 2") == 1


def test_ack_where_takes_parameters_and_conditions(sql, received):
    assert sql(f"ACK {received} WHERE n BETWEEN %s AND %s AND epoch = 1", 2, 3) == 2
    assert sql.column(f"SELECT n FROM {received} WHERE state = 'acked' ORDER BY n") == [2, 3]


def test_ack_where_unknown_column_is_1054(sql, received):
    assert sql.error(f"ACK {received} WHERE nope = 1")[0] == 1054


def test_ack_many_at_once(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(2000)))
    assert sql(f"ACK {q} " + ", ".join(str(n) for n in range(1, 2001))) == 2000
    assert sql.column(f"SELECT id FROM STREAM {q} NOWAIT") == []


def test_reschedule_by_update_is_offered_at_once(sql, queue, stream):
    q = queue()
    receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
    far = time.time_ns() + 3600 * NS
    sql(f"INSERT INTO {q} (payload, time_next) VALUES ('later', %s)", far)
    assert receiver.rows == []
    assert sql(f"UPDATE {q} SET time_next = 0 WHERE id = 1") == 1
    assert receiver.wait(1, 5) == [(1, 1)]


def test_postpone_by_update_holds_a_waiting_message_back(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    sql(f"UPDATE {q} SET time_next = %s WHERE id = 1", time.time_ns() + 3600 * NS)
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 5 NOWAIT") == [2]


def test_acked_messages_are_purged_by_the_age_of_the_ack(sql, queue):
    q = queue(purge_after="'5s'", poll_interval="'200ms'")
    sql(f"INSERT INTO {q} (payload) VALUES ('old'), ('fresh'), ('open')")
    sql(f"UPDATE {q} SET time_acked = 123, time_next = NULL WHERE id = 1")
    started = time.time()
    sql(f"ACK {q} 2")
    wait_until(lambda: sql.column(f"SELECT id FROM {q} ORDER BY id") == [2, 3], what="the purge of the old ack")
    wait_until(lambda: sql.column(f"SELECT id FROM {q} ORDER BY id") == [3], what="the purge of the fresh ack")
    assert time.time() - started >= 5
    assert sql.value(f"SELECT state FROM {q} WHERE id = 3") == "to_be_fired"


def test_a_large_purge(sql, queue):
    q = queue("n INT", purge_after="'1s'", poll_interval="'200ms'")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(1700)))
    sql(f"UPDATE {q} SET time_acked = 1, time_next = NULL WHERE time_acked IS NULL")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}") == 0, what="the purge of 1700 messages")


def test_an_ack_of_another_delivery_changes_nothing(sql, queue):
    q = queue("n INT", ack_wait="'300ms'", min_backoff="'100ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 2 WAIT 10") == [1, 2]
    assert sql(f"ACK {q} WHERE id = 1 AND epoch = 7") == 0
    assert sql(f"ACK {q} WHERE id IN (1, 2) AND epoch = 1 AND time_acked IS NULL") == 2
    sql(f"INSERT INTO {q} (n) VALUES (3)")
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10") == [3]
    assert sql(f"ACK {q} WHERE id IN (3, 4) AND epoch = 2") == 0  # its delivery is 1
    assert sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 1 WAIT 10") == [(3, 2)]
    assert sql(f"ACK {q} WHERE id = 3 AND epoch = 2") == 1
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 1") == []

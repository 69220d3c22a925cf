"""`WITH (lease = 'connection')`: what a bounded result leaves unacked goes back when its connection ends."""

from __future__ import annotations

import mysql.connector
import pymysql
import pytest
from servers import wait_until

HELD = "LIMIT 2 WAIT 10 WITH (lease = 'connection')"


@pytest.fixture
def q(sql, queue):
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    return q


def test_they_go_to_another_when_the_connection_ends(sql, q, connect):
    poller = connect()
    assert poller.column(f"SELECT n FROM STREAM {q} {HELD}") == [1, 2]
    poller(f"ACK {q} 1")
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 9 NOWAIT") == [3]
    poller.close()
    assert sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 9 WAIT 10") == [(2, 2)]


def test_by_default_they_are_held_by_time(sql, q, connect):
    for lease in ("", "WITH (lease = 'time')"):
        poller = connect()
        assert len(poller.column(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10 {lease}")) == 1
        poller.close()
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 9 NOWAIT") == [3]
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next % 1000 = 1") == 3


def test_prefetch_bounds_what_a_connection_holds_of_several_results(sql, q, connect):
    poller = connect()
    held = "WITH (lease = 'connection', prefetch = 2)"
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 1 NOWAIT {held}") == [1]
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 5 NOWAIT {held}") == [2]
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 5 NOWAIT {held}") == []
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 5 WAIT 0.2 {held}") == []
    poller(f"ACK {q} 1")
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 5 NOWAIT {held}") == [3]
    assert connect().column(f"SELECT n FROM STREAM {q} LIMIT 5 NOWAIT {held}") == []


def test_it_is_known_who_holds_them(sql, q, connect):
    poller = connect()
    poller.rows(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10 WITH (lease = 'connection', consumer = 'mailer-3')")
    holder = poller.connection.thread_id()
    found = sql.rows(f"SELECT id, connection_id, consumer FROM queuegate.in_flight WHERE queue = '{q}'")
    assert [(int(id_), int(connection), consumer) for id_, connection, consumer in found] == [(1, holder, "mailer-3")]
    poller(f"ACK {q} 1")
    assert sql.rows(f"SELECT id FROM queuegate.in_flight WHERE queue = '{q}'") == []


def test_it_is_known_who_holds_what_is_held_by_time(sql, q, connect):
    poller = connect()
    poller.rows(f"SELECT n FROM STREAM {q} LIMIT 2 WAIT 10 WITH (consumer = 'mailer-4')")
    holder = poller.connection.thread_id()
    found = sql.rows(f"SELECT id, connection_id, consumer FROM queuegate.in_flight WHERE queue = '{q}' ORDER BY id")
    assert [(int(id_), int(connection), who) for id_, connection, who in found] == [
        (1, holder, "mailer-4"),
        (2, holder, "mailer-4"),
    ]
    ((_, state, said),) = sql.rows(f"EXPLAIN DELIVERY FOR {q} WHERE id = 1")
    assert state == "in_flight"
    assert f"held by connection {holder} (" in said
    poller(f"ACK {q} 1")
    assert sql.column(f"SELECT id FROM queuegate.in_flight WHERE queue = '{q}'") == ["2"]


def test_a_variable_says_so_for_the_session(sql, q, connect):
    poller = connect()
    poller("SET @QueueGate_Lease = 'connection'")
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10") == [1]
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10 WITH (lease = 'time')") == [2]
    poller.close()
    got = []
    wait_until(lambda: got.extend(sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 9 NOWAIT")) or len(got) >= 2)
    assert sorted(got) == [(1, 2), (3, 1)]


def test_the_variable_is_judged_when_a_message_is_asked_for(sql, q, connect):
    poller = connect()
    poller("SET @queuegate_lease = 'for ever'")
    with pytest.raises(pymysql.err.OperationalError, match="lease: 'for ever' is neither 'time' nor 'connection'"):
        poller.column(f"SELECT n FROM STREAM {q} LIMIT 1 NOWAIT")
    poller("SET @queuegate_lease = NULL")
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10") == [1]


def test_what_was_nacked_is_not_given_back(sql, q, connect):
    poller = connect()
    assert poller.column(f"SELECT n FROM STREAM {q} {HELD}") == [1, 2]
    poller(f"NACK {q} 2 DELAY '1h'")
    poller.close()
    got = []
    wait_until(lambda: got.extend(sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 9 NOWAIT")) or len(got) >= 2)
    assert sorted(got) == [(1, 2), (3, 1)]
    assert sql.value(f"SELECT time_next % 1000 FROM {q} WHERE n = 2") == 0


@pytest.mark.parametrize("which", ["1", "WHERE id = 1 AND epoch = 1"])
def test_what_was_renewed_goes_back_too(sql, q, connect, which):
    poller = connect()
    assert poller.column(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10 WITH (lease = 'connection')") == [1]
    assert poller(f"RENEW {q} {which} FOR '2h'") == 1
    poller.close()
    assert sql.rows(f"SELECT n, epoch FROM STREAM {q} WHERE n = 1 LIMIT 1 WAIT 10") == [(1, 2)]


def test_a_reset_of_the_connection_gives_them_back(gate, sql, q):
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    cursor = link.cursor()
    cursor.execute(f"SELECT n FROM STREAM {q} {HELD}")
    assert cursor.fetchall() == [(1,), (2,)]
    link.cmd_reset_connection()
    got = []
    wait_until(lambda: got.extend(sql.column(f"SELECT n FROM STREAM {q} LIMIT 9 NOWAIT")) or sorted(got) == [1, 2, 3])
    link.close()


def test_acks_that_were_not_committed_do_not_count(sql, q, connect):
    poller = connect()
    assert poller.column(f"SELECT n FROM STREAM {q} {HELD}") == [1, 2]
    poller("BEGIN")
    poller(f"ACK {q} 1, 2")
    poller.close()
    got = []
    wait_until(lambda: got.extend(sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 9 NOWAIT")) or len(got) >= 3)
    assert sorted(got) == [(1, 2), (2, 2), (3, 1)]


def test_many_results_of_one_connection(sql, queue, connect):
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(60)))
    poller = connect()
    for _ in range(50):
        (id_,) = poller.row(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10 WITH (lease = 'connection')")
        if id_ % 2:
            poller(f"ACK {q} {id_}")
    poller.close()
    back = []
    # The proxy gives them back when it sees the end of the connection, perhaps after others were received.
    wait_until(lambda: back.extend(sql.column(f"SELECT id FROM STREAM {q} LIMIT 25 WAIT 1")) or len(back) == 35)
    assert all(id_ % 2 == 0 or id_ > 50 for id_ in back)


@pytest.mark.parametrize("value", ["'session'", "1", "''"])
def test_other_values_are_refused(sql, q, value):
    errno, told = sql.error(f"SELECT n FROM STREAM {q} LIMIT 1 NOWAIT WITH (lease = {value})")
    assert errno == 1231 and "neither 'time' nor 'connection'" in told

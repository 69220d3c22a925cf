"""Every verb works in a transaction that has read before: a message that was leased since is acked as it is now.

MariaDB refuses by default, from 11.6.2 on, to change a row that changed after a transaction's snapshot (1020). What a
client itself writes as UPDATE or DELETE keeps that.
"""

from __future__ import annotations

import contextlib
from typing import Any

import mysql.connector
import pytest
from servers import Gate, wait_until

_VERBS = {
    "ack": "ACK {q} {id}",
    "ack_where": "ACK {q} WHERE id = {id} AND epoch = 1",
    "ack_as_update": "UPDATE {q} SET state = 'acked' WHERE id = {id}",
    "nack": "NACK {q} {id}",
    "nack_delay": "NACK {q} {id} DELAY '1h'",
    "nack_reason": "NACK {q} {id} REASON 'no'",
    "release": "RELEASE {q} {id}",
    "renew": "RENEW {q} {id} FOR '1m'",
    "reject": "REJECT {q} {id}",
    "reject_reason": "REJECT {q} {id} REASON 'no'",
}


class Prepared:
    """A connection whose statements are prepared at the server, with their ids as parameters."""

    def __init__(self, gate: Gate) -> None:
        self._link = mysql.connector.connect(
            host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True
        )

    def run(self, text: str, *values: object) -> int:
        """How many rows it changed, or read."""
        with contextlib.closing(self._link.cursor(prepared=bool(values))) as cursor:
            cursor.execute(text, values)
            return len(cursor.fetchall()) if cursor.with_rows else int(cursor.rowcount)

    def close(self) -> None:
        self._link.close()


def _read(sql: Any, queue: str) -> None:
    sql("BEGIN")
    sql.rows(f"SELECT COUNT(*) FROM {queue}")


@pytest.mark.parametrize("verb", _VERBS.values(), ids=_VERBS)
def test_verbs_change_a_message_that_was_leased_after_the_snapshot(place, connect, queue, stream, verb):
    if place == "embedded":
        pytest.skip("a transaction that has read an older state cannot write there, whatever it writes (1213)")
    sql, q = connect(), queue()
    enqueued = connect().insert_id(f"INSERT INTO {q} (payload) VALUES ('a')")
    sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    _read(sql, q)
    assert stream(f"SELECT id FROM STREAM {q}").wait(1) == [(enqueued,)]
    assert sql(verb.format(q=q, id=enqueued)) == 1
    sql("COMMIT")


def test_prepared_verbs(gate, connect, queue, stream):
    q = queue()
    ids = [connect().insert_id(f"INSERT INTO {q} (payload) VALUES ('a')") for _ in range(3)]
    with contextlib.closing(Prepared(gate)) as link:
        link.run("START TRANSACTION")
        link.run(f"SELECT COUNT(*) FROM {q}")
        stream(f"SELECT id FROM STREAM {q}").wait(3)
        assert link.run(f"ACK {q} ?", ids[0]) == 1
        assert link.run(f"NACK {q} ? DELAY '1h'", ids[1]) == 1
        assert link.run(f"ACK {q} WHERE id = ? AND epoch = ?", ids[2], 1) == 1
        link.run("COMMIT")


def test_what_is_received_in_the_transaction_itself_is_acked(connect, queue):
    sql, q = connect(), queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    _read(sql, q)
    received = sql.column(f"SELECT id FROM STREAM {q} LIMIT 2 WAIT 10")
    assert len(received) == 2
    assert sql(f"ACK {q} {received[0]}, {received[1]}") == 2
    sql("COMMIT")
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE state = 'acked'") == 2


def test_after_a_rollback_the_message_is_still_leased(connect, queue):
    sql, q = connect(), queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    _read(sql, q)
    ((received,),) = sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10")
    assert sql(f"ACK {q} {received}") == 1
    sql("ROLLBACK")
    assert sql.value(f"SELECT state FROM {q}") == "fired"


def test_a_group_is_done_in_a_transaction_with_a_snapshot(connect, queue, stream):
    sql, parts, done = connect(), queue("order_id INT", group_key="'order_id'"), queue("order_id INT")
    other = connect()
    other(f"INSERT INTO {parts} (order_id) VALUES (42), (42)")
    other(f"INSERT INTO {done} (order_id) VALUES (42) AFTER GROUP 42 OF {parts}")
    _read(sql, parts)
    received = stream(f"SELECT id FROM STREAM {parts}").wait(2)
    for (id_,) in received:
        assert sql(f"ACK {parts} {id_}") == 1
    sql("COMMIT")
    assert stream(f"SELECT order_id FROM STREAM {done}").wait(1) == [(42,)]


def test_a_follow_up_is_enqueued_in_a_transaction_with_a_snapshot(connect, queue, stream):
    sql, parts, done = connect(), queue("order_id INT", group_key="'order_id'"), queue("order_id INT")
    connect()(f"INSERT INTO {parts} (order_id) VALUES (42)")
    _read(sql, parts)
    ((received,),) = stream(f"SELECT id FROM STREAM {parts}").wait(1)
    sql(f"INSERT INTO {done} (order_id) VALUES (42) AFTER GROUP 42 OF {parts}")
    assert sql(f"ACK {parts} {received}") == 1
    sql("COMMIT")
    assert stream(f"SELECT order_id FROM STREAM {done}").wait(1) == [(42,)]


def test_a_consumer_group_acks_in_a_transaction_with_a_snapshot(connect, topic, stream):
    t = topic(billing="START AT EARLIEST")
    sql = connect()
    _read(sql, t)
    connect()(f"INSERT INTO {t} (user_id, body) VALUES (1, 'a')")
    opened = stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing')")
    ((received,),) = opened.wait(1)
    assert sql(f"ACK {t} {received} GROUP billing") == 1
    sql("COMMIT")


def test_dead_letters_are_redriven_in_a_transaction_with_a_snapshot(connect, queue):
    sql, q = connect(), queue()
    dead = f"{q}_dead"
    sql(f"ALTER QUEUE {q} SET (dead_letter = '{dead}')")
    other = connect()
    first = other.insert_id(f"INSERT INTO {q} (payload) VALUES ('a')")
    other(f"REJECT {q} {first}")
    wait_until(lambda: (dead,) in other.rows("SHOW TABLES"), what="the dead-letter queue")
    wait_until(lambda: other.value(f"SELECT COUNT(*) FROM {dead}") == 1, what="the dead letter")
    _read(sql, dead)
    other(f"UPDATE {dead} SET priority = 7")
    assert sql(f"REDRIVE {dead}") == 1
    sql("COMMIT")
    assert sql.column(f"SELECT id FROM {q}") == [first]
    sql(f"DROP QUEUE {dead}")

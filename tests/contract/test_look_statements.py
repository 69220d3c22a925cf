"""Statements that look at queues and tables, in all their words, and what they need (docs/sql.md, Look)."""

from __future__ import annotations

import pytest


def test_short_words_for_looking(sql, queue):
    q = queue("n INT")
    assert sql.rows(f"DESC {q}") == sql.rows(f"DESCRIBE {q}") == sql.rows(f"EXPLAIN {q}")
    assert "n" in sql.column(f"DESC {q}")
    assert sql.rows("DESC queuegate.queues") == sql.rows("DESCRIBE queuegate.queues")


@pytest.mark.parametrize("word", ["EXPLAIN", "EXPLAIN EXTENDED", "DESCRIBE", "DESC", "ANALYZE"])
def test_a_stream_cannot_be_explained(sql, queue, word):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert sql.error(f"{word} SELECT * FROM STREAM {q} LIMIT 1")[0] == 1235
    assert sql.value(f"SELECT epoch FROM {q}") == 0


def test_table_is_no_way_to_a_stream(sql, queue, on_mysql):
    """MySQL's TABLE t; MariaDB and the embedded database do not know it."""
    q = queue("n INT")
    assert sql.error(f"TABLE {q} UNION SELECT * FROM STREAM {q}")[0] == 1235
    if on_mysql:
        assert sql.rows(f"TABLE {q}") == []
    else:
        assert sql.error(f"TABLE {q}")[0] in (1064, 1235)


def test_use_of_the_database_that_there_is(gate, connect, queue):
    q = queue("n INT")
    client = connect(database=None)
    client(f"USE {gate.database}")
    assert client(f"INSERT INTO {q} (n) VALUES (1)") == 1
    assert client.rows(f"SELECT n FROM STREAM {q} LIMIT 1") == [(1,)]
    assert client.error("USE no_such_database")[0] in (1044, 1049)
    assert client(f"ACK {q} 1") == 1


def test_without_a_database_a_queue_must_be_qualified(gate, connect, queue):
    q = queue("n INT")
    client = connect(database=None)
    if gate.embedded:
        assert client.value("SELECT DATABASE()") == gate.database  # there is but one
    else:
        for text in ("ACK {q} 1", "SELECT * FROM STREAM {q} NOWAIT", "CREATE QUEUE {q}_2 (n INT)", "NACK {q} 1"):
            assert client.error(text.format(q=q))[0] == 1046, text
    assert client(f"INSERT INTO {gate.database}.{q} (n) VALUES (1)") == 1
    assert client.rows(f"SELECT n FROM STREAM {gate.database}.{q} LIMIT 1") == [(1,)]
    assert client(f"ACK {gate.database}.{q} 1") == 1


def test_a_queue_is_read_by_state(sql, queue):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n, epoch) VALUES (1, 0), (2, 5), (3, 2), (4, 0)")
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 3") == [1, 2, 3]
    sql(f"ACK {q} 3")
    assert sql.rows(f"SELECT n, epoch FROM {q} WHERE state = 'fired' ORDER BY epoch DESC") == [(2, 6), (1, 1)]
    assert sql.rows(f"SELECT state, COUNT(*) FROM {q} GROUP BY state ORDER BY COUNT(*) DESC, state") == [
        ("fired", 2),
        ("acked", 1),
        ("to_be_fired", 1),
    ]


def test_too_many_rows_of_a_system_table_are_1104(sql, queue, place):
    most = 200 if place == "embedded" else 2000
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(2001)))
    assert len(sql.rows(f"SELECT id FROM STREAM {q} WITH (prefetch = 5000) LIMIT {most - 100}")) == most - 100
    assert sql.value(f"SELECT COUNT(*) FROM queuegate.in_flight WHERE queue = '{q}'") == most - 100
    assert len(sql.rows(f"SELECT id FROM STREAM {q} WITH (prefetch = 5000) LIMIT 101")) == 101
    errno, told = sql.error("SELECT COUNT(*) FROM queuegate.in_flight")
    assert errno == 1104 and f"takes {most} of them" in told and "SHOW" in told, told

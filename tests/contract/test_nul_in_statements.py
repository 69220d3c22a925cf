"""A NUL in a statement: what a server makes of it, in ordinary SQL and in the statements about queues."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM STREAM {q}\0 LIMIT 1 NOWAIT",
        "ACK {q}\0 1",
        "NACK {q} 1\0 DELAY 5",
        "TRUNCATE QUEUE\0 {q}",
        "DROP QUEUE\0 {q}",
        "SHOW QUEUE\0 STATUS",
        "INSERT INTO {q}\0 (body) VALUES ('x')",
        "INSERT INTO {q} (body) VALUES ('x')\0 DELAY 5",
        "SELECT\0 1",
        "SELECT 1\0 + 1",
    ],
)
def test_nothing_may_come_after_it(sql, queue, text):
    q = queue("body TEXT")
    sql(f"INSERT INTO {q} (body) VALUES ('kept')")
    assert sql.error(text.format(q=q))[0] == 1064
    assert sql.rows(f"SELECT body, epoch FROM {q}") == [("kept", 0)]


def test_at_the_end_it_is_nothing(sql, queue):
    q = queue("body TEXT")
    sql(f"INSERT INTO {q} (body) VALUES ('a\0b')\0")
    assert sql.rows(f"SELECT id, body FROM STREAM {q} LIMIT 1 WAIT 10\0") == [(1, "a\0b")]
    assert sql(f"ACK {q} 1\0") == 1
    assert sql.value("SELECT 1\0") == 1

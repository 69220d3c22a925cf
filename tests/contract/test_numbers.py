"""Numbers in every notation that a server takes: drivers write floats as 30.0e0 (PyMySQL) or 2.5e-7 (JavaScript)."""

from __future__ import annotations

import contextlib
import time

import mysql.connector
import pytest
from servers import NS

pytestmark = pytest.mark.no_proxy_accounts

NOTATIONS = ["30", "30.0", "30.", "30.0e0", "3.0E+1", "300e-1", "'3e1s'", "'.5m'"]


@pytest.fixture
def held(sql, queue):
    """A queue of one message, delivered a moment ago and leased for an hour."""
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1") == [1]
    return q


def in_seconds(sql, q: str) -> float:
    """When the message is due next, in seconds from now by the database's clock."""
    return (sql.value(f"SELECT time_next FROM {q}") - time.time_ns()) / NS


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize(
    "statement", ["NACK {q} 1 DELAY {n}", "RENEW {q} 1 FOR {n}", "SELECT queue_nack('{q}', 1, {n})"]
)
def test_a_duration_is_a_number_in_any_notation(sql, held, statement, notation):
    sql(statement.format(q=held, n=notation))
    assert 20 < in_seconds(sql, held) < 31


def test_a_float_of_a_driver_is_a_duration(gate, sql, held):
    assert sql(f"NACK {held} %s DELAY %s", 1, 30.0) == 1
    assert 20 < in_seconds(sql, held) < 31
    assert sql(f"NACK {held} 1 DELAY %s", 2.5e-7) == 1
    assert sql.column(f"SELECT id FROM STREAM {held} LIMIT 1 WAIT %s", 30.0) == [1]
    assert sql(f"RENEW {held} 1 FOR %s", 1e2) == 1
    assert 80 < in_seconds(sql, held) < 101
    options = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "autocommit": True}
    with (
        contextlib.closing(mysql.connector.connect(**options, use_pure=True)) as link,
        contextlib.closing(link.cursor(prepared=True)) as cursor,
    ):
        cursor.execute(f"NACK {held} ? DELAY ?", (1, 30.0))
        assert 20 < in_seconds(sql, held) < 31
        cursor.execute(f"SELECT id FROM STREAM {held} LIMIT ? WAIT ?", (1, 0.001))
        assert cursor.fetchall() == []


def test_options_take_floats(sql, name):
    sql(
        f"CREATE QUEUE {name} (n INT) WITH (ack_wait = %s, max_backoff = 1e3, batch_size = %s, max_rate = %s)",
        30.0,
        50.0,
        2.5,
    )
    sql(f"ALTER QUEUE {name} SET (ack_wait = %s, prefetch = 2e2, max_rate = .5)", 45.5)
    text = sql.row(f"SHOW CREATE QUEUE {name}")[1]
    for piece in (
        "ack_wait = '45.5s'",
        "max_backoff = '1000s'",
        "batch_size = 50",
        "prefetch = 200",
        "max_rate = '0.5'",
    ):
        assert piece.replace("'", "") in text.replace("'", ""), (piece, text)
    sql(f"DROP QUEUE {name}")


@pytest.mark.parametrize("value", ["1e21", "1e9999", "'1e999h'", "2e99999"])
def test_a_duration_beyond_ten_years_is_refused_at_once(sql, held, value):
    code, text = sql.error(f"NACK {held} 1 DELAY {value}")
    assert code == 1231 and ("ten years" in text or "not a duration" in text)
    assert sql.value(f"SELECT epoch FROM {held}") == 1


@pytest.mark.parametrize("value", ["1.5", "1e-1", "0.5e0", "1e30"])
def test_a_count_is_a_whole_number_in_any_notation(sql, name, value):
    code, text = sql.error(f"CREATE QUEUE {name} (n INT) WITH (batch_size = {value})")
    assert code == 1231 and "batch_size" in text and "whole number" in text


def test_an_id_that_is_a_float_is_refused_and_nothing_is_acked(sql, held):
    """A float cannot hold every id, so it might name another message."""
    code, text = sql.error(f"ACK {held} %s", 1.0)
    assert code == 1235 and "1.0e0" in text and "whole number" in text
    assert sql.value(f"SELECT time_acked FROM {held}") is None

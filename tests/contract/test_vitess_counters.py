"""Vitess's metrics of a message table, in SHOW QUEUE STATUS: sent, delayed (sent again), acked, purged."""

from __future__ import annotations

import pymysql.cursors
import pytest
from servers import wait_until

pytestmark = pytest.mark.no_proxy_accounts


def status(sql, queue):
    with sql.connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(f"SHOW QUEUE STATUS LIKE '{queue}'")
        return cursor.fetchone()


def test_one_resend_is_one_delay(sql, queue):
    q = queue(ack_wait="'100ms'", min_backoff="'10ms'", max_backoff="'100ms'")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 2") == [1, 2]
    assert sql(f"ACK {q} 2") == 1
    assert (status(sql, q)["Sent_total"], status(sql, q)["Redelivered_total"]) == (2, 0)
    assert sql.rows(f"SELECT id, epoch FROM STREAM {q} LIMIT 1 WAIT 10") == [(1, 2)]
    assert sql(f"ACK {q} 1") == 1
    assert (status(sql, q)["Sent_total"], status(sql, q)["Redelivered_total"]) == (3, 1)


def test_acked_and_purged(sql, queue):
    q = queue(purge_after="'500ms'", poll_interval="'200ms'")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    assert sql(f"ACK {q} 1") == 1
    assert status(sql, q)["Acked_total"] == 1
    wait_until(lambda: status(sql, q)["Purged_total"] == 1, what="the purge to be counted")
    assert sql.column(f"SELECT id FROM {q}") == [2]


def test_rejected_and_dead_lettered(sql, queue):
    q = queue(max_attempts=1, ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b'), ('c')")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1") == [1]
    assert sql(f"REJECT {q} 2 REASON 'no'") == 1
    assert status(sql, q)["Rejected_total"] == 1
    wait_until(lambda: status(sql, q)["Dead_lettered_total"] == 1, what="the rejected one to be counted")
    assert sql(f"NACK {q} 1") == 1  # it has had its only attempt
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 5 NOWAIT") == [3]
    wait_until(lambda: status(sql, q)["Dead_lettered_total"] == 2, what="the exhausted one to be counted")
    wait_until(lambda: status(sql, q)["Dead"] == 2, what="both to be in the dead-letter queue")
    assert (status(sql, q)["Nacked_total"], status(sql, q)["Acked_total"]) == (1, 0)
    sql(f"DROP QUEUE {q}_dead")

"""What Vitess Messaging promises of its message tables and the other suites do not show, as a client sees it here."""

from __future__ import annotations

import pymysql.cursors
import pytest
from servers import wait_until

pytestmark = pytest.mark.no_proxy_accounts


def status(sql, queue, name):
    """One value of SHOW QUEUE STATUS."""
    with sql.connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(f"SHOW QUEUE STATUS LIKE '{queue}'")
        return cursor.fetchone()[name]


@pytest.mark.parametrize("columns", ["a INT, id VARCHAR(36) PRIMARY KEY, b INT", "b INT, PRIMARY KEY (id), id INT"])
def test_the_id_is_streamed_first_wherever_it_was_declared(sql, queue, stream, columns):
    q = queue(columns)
    users = [name for name in ("a", "b") if f"{name} INT" in columns]
    receiver = stream(f"SELECT * FROM STREAM {q}")
    assert receiver.columns == ["id", *users]
    sql(f"INSERT INTO {q} (id, b) VALUES ('7', 3)")
    (row,) = receiver.wait(1)
    assert (str(row[0]), row[-1]) == ("7", 3)


def test_what_is_not_acked_is_never_purged(sql, queue):
    """However old it is, delivered or not, postponed or parked: two passes of the purge leave it alone."""
    q = queue("n INT", purge_after=0, poll_interval="'100ms'", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n, time_scheduled, time_created) VALUES (1, 0, 1), (2, 0, 1)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1") == [1]
    sql(f"INSERT INTO {q} (n, time_scheduled, time_next, time_created) VALUES (3, 0, 9223372036854775807, 1)")
    for n in (10, 11):
        acked = sql.insert_id(f"INSERT INTO {q} (n) VALUES ({n})")
        assert sql(f"UPDATE {q} SET time_acked = 1, time_next = NULL WHERE id = {acked}") == 1
        wait_until(lambda n=n: sql.value(f"SELECT COUNT(*) FROM {q} WHERE n = {n}") == 0, what="a pass of the purge")
    assert sql.rows(f"SELECT id, n FROM {q} ORDER BY id") == [(1, 1), (2, 2), (3, 3)]


def test_no_receiver_is_handed_more_than_a_batch_at_a_time(sql, queue, stream):
    """What is leased together has one moment and one jitter, so one end. The jitter tells two batches of one
    millisecond apart; a first delivery may have none, since `min_backoff` bounds it."""
    q = queue("n INT", batch_size=2, ack_wait="'1h'", max_backoff="'9h'")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(7)))
    assert len(sql.column(f"SELECT id FROM STREAM {q} LIMIT 7")) == 7
    assert sql(f"NACK {q} WHERE epoch = 1") == 7
    stream(f"SELECT id FROM STREAM {q}").wait(7)
    batches = sql.column(f"SELECT COUNT(*) FROM {q} GROUP BY time_next ORDER BY MIN(id)")
    assert sum(batches) == 7
    assert max(batches) == 2, batches


def test_the_number_of_receivers_is_told(sql, queue, stream):
    q = queue()

    def told(count):
        wait_until(lambda: status(sql, q, "Subscribers") == count, 5, f"{count} receivers to be told")

    told(0)
    first = stream(f"SELECT id FROM STREAM {q}")
    told(1)
    second = stream(f"SELECT id FROM STREAM {q}")
    told(2)
    first.close()
    told(1)
    second.close()
    told(0)


def test_receivers_that_fail_every_time_use_up_attempts(sql, queue, stream):
    """Who has read a message and dies has had it: the next one sees that it is not the first."""
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    for epoch in range(1, 5):
        receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
        assert receiver.wait(1, 10) == [(1, epoch)]
        receiver.close()


def test_what_a_receiver_had_that_is_gone_is_first_in_line(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4)")
    gone = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 2)")
    assert gone.wait(2) == [(1,), (2,)]
    gone.close()
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next % 1000 = 1") == 0, 5, "the give-back")
    assert sql.rows(f"SELECT id, epoch FROM STREAM {q} LIMIT 4") == [(1, 2), (2, 2), (3, 1), (4, 1)]


def test_a_message_that_somebody_holds_locked_comes_when_it_is_free(gate, sql, connect, queue, stream):
    q = queue("n INT", poll_interval="'60s'", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    holder = connect(autocommit=False)
    assert holder.rows(f"SELECT id FROM {q} WHERE id = 1 FOR UPDATE") == [(1,)]
    receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
    wait_until(lambda: status(sql, q, "Subscribers") == 1, what="the receiver")
    if not gate.embedded:  # there a writer keeps all others out
        assert receiver.wait(1) == [(2, 1)]
    assert not receiver.ended.wait(0.3)  # time enough for what would be sent without a lease
    assert sql.value(f"SELECT epoch FROM {q} WHERE id = 1") == 0
    assert 1 not in receiver.ids()
    holder("ROLLBACK")
    assert sorted(receiver.wait(2, 15)) == [(1, 1), (2, 1)]
    assert sql.rows(f"SELECT epoch, COUNT(*) FROM {q} GROUP BY epoch") == [(1, 2)]

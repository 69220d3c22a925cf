"""What answers when a queue's table is locked by another session, and a session that is silent while it receives.

A result that ends by itself ends in its time; that it is empty means that nothing was due.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pymysql.constants import CLIENT
from servers import Sql, wait_until

pytestmark = pytest.mark.on_mysql

LOCK_WAIT = 1205


def scaled(seconds: float) -> float:
    """A deadline on a machine that has other work, too."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _waiting(around: Sql) -> bool:
    """Whether a session waits for a lock on a table."""
    return any("Waiting for" in str(row[6]) for row in around.rows("SHOW PROCESSLIST"))


def _ids(sql: Sql, q: str) -> list[int]:
    return [row[0] for row in sql.rows(f"SELECT id FROM {q} ORDER BY id")]


def _uptime(sql: Sql) -> int:
    """Seconds on the clock that the server's time limits go by."""
    return int(sql.rows("SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1])


@pytest.fixture
def around(gate, place, request):
    """A session beside the proxy."""
    if place == "embedded":
        pytest.skip("has no locks on tables of its own")
    sql = Sql(request.getfixturevalue("server_here").connect(database=gate.database))
    yield sql
    sql.close()


@pytest.mark.parametrize("lock", ["LOCK TABLES {q} READ", "LOCK TABLES {q} WRITE", "FLUSH TABLES WITH READ LOCK"])
@pytest.mark.parametrize("how", ["NOWAIT", "WAIT 2", "WHERE n > 0 WAIT 2", "polled before"])
def test_a_result_that_meets_a_locked_table_is_no_empty_one(sql, queue, around, lock, how):
    q = queue("n INT")
    if how == "polled before":  # the rights are remembered, so the engine meets the lock
        how = "NOWAIT"
        assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 NOWAIT") == []
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    around(lock.format(q=q))
    began = time.monotonic()
    errno, text = sql.error(f"SELECT n FROM STREAM {q} LIMIT 1 {how}")
    taken = time.monotonic() - began
    around("UNLOCK TABLES")
    assert errno == LOCK_WAIT, text
    assert taken < scaled(12)
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 20") == [(1,)]


def test_a_wait_goes_on_when_the_lock_ends_in_its_time(sql, queue, around, connect):
    q, receiver = queue("n INT"), connect()
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    around(f"LOCK TABLES {q} READ")
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(receiver.rows, f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 60")
        wait_until(lambda: _waiting(around), what="the question about rights to wait")
        around("UNLOCK TABLES")
        assert taken.result(scaled(20)) == [(1,)]


@pytest.mark.parametrize("how", ["", "WHERE n > 0", "WHERE name = 'it''s \\\\ größe' OR `größe` > 0"])
@pytest.mark.parametrize("begun", ["SET autocommit = 0", "BEGIN", "BEGIN; INSERT INTO {q} (n) VALUES (1)"])
def test_a_stream_in_a_transaction_leaves_the_table_to_others(sql, queue, around, connect, stream, begun, how):
    """The transaction lasts as long as the stream. A lock that it had on the table would hold up an ALTER, and all
    others behind that."""
    q, other = queue("n INT, name VARCHAR(20), `größe` INT"), queue("n INT")
    begin = {"client_flag": CLIENT.MULTI_STATEMENTS, "init_command": begun.format(q=other)}
    autocommit = {"autocommit": None} if "BEGIN" not in begun else {}
    sql("SET lock_wait_timeout = 5")
    receiver = connect(**begin, **autocommit)
    assert receiver.rows(f"SELECT n FROM STREAM {q} {how} LIMIT 1 NOWAIT") == []
    sql(f"ALTER QUEUE {q} SET (ack_wait = '1m')")
    opened = stream(f"SELECT n FROM STREAM {q} {how}", **begin, **autocommit)
    sql(f"ALTER QUEUE {q} SET (ack_wait = '2m')")
    sql(f"INSERT INTO {q} (n, name, `größe`) VALUES (7, 'a', 1)")
    assert opened.wait(1) == [(7,)]


@pytest.mark.parametrize("how", ["", "WHERE n > 0"])
def test_a_result_in_a_transaction_does_not_wait_behind_an_alter(sql, queue, around, connect, how):
    """The ALTER waits for a transaction that has read the table, and everything else waits for the ALTER."""
    q, receiver = queue("n INT"), connect()
    around("BEGIN")
    around.rows(f"SELECT n FROM {q}")
    receiver("BEGIN")
    before = receiver.value("SELECT @@lock_wait_timeout")
    with ThreadPoolExecutor(1) as pool:
        altered = pool.submit(sql, f"ALTER TABLE {q} ADD COLUMN m INT")
        try:
            wait_until(lambda: _waiting(around), what="the ALTER to wait")
            began = time.monotonic()
            assert receiver.error(f"SELECT n FROM STREAM {q} {how} LIMIT 1 NOWAIT")[0] == LOCK_WAIT
            assert time.monotonic() - began < scaled(12)
        finally:
            around("COMMIT")
        altered.result(scaled(20))
    assert receiver.value("SELECT @@lock_wait_timeout") == before
    assert receiver.rows(f"SELECT n FROM STREAM {q} {how} LIMIT 1 NOWAIT") == []


def test_an_empty_result_beside_a_lock_that_does_not_matter(sql, queue, connect):
    """A row that another has locked is passed over, and nothing else is due."""
    q = queue("n INT")
    holder = connect(autocommit=False)
    holder(f"INSERT INTO {q} (n) VALUES (1)")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 NOWAIT") == []
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 1") == []
    holder.connection.rollback()


@pytest.mark.parametrize("how", ["LIMIT 1 WAIT 60", "LIMIT 1"])
def test_a_session_is_not_silent_for_its_server_while_it_receives(sql, queue, connect, how):
    """The message comes long after wait_timeout; its ACK needs the same connection, with all that belongs to it."""
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    receiver = connect()
    receiver("CREATE TEMPORARY TABLE kept (n INT)")
    receiver("SET SESSION wait_timeout = 1")
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(receiver.rows, f"SELECT id, n FROM STREAM {q} {how}")
        later = _uptime(sql) + 4
        wait_until(lambda: _uptime(sql) >= later, what="more seconds than wait_timeout has")
        sql(f"INSERT INTO {q} (n) VALUES (7)")
        ((id_, n),) = taken.result(scaled(20))
        assert (n, receiver(f"ACK {q} {id_}")) == (7, 1)
        assert receiver.rows("SELECT n FROM kept") == []
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL") == 0


def test_a_message_whose_trigger_waits_for_a_lock_keeps_no_other(sql, queue, around, stream):
    """Neither from being leased nor from being given back."""
    q = queue("n INT", ack_wait="'1h'")
    around(f"CREATE TABLE {q}_counts (n INT PRIMARY KEY, updates INT NOT NULL)")
    around(f"INSERT INTO {q}_counts VALUES (7, 0), (8, 0)")
    counts = f"UPDATE {q}_counts SET updates = updates + 1 WHERE n = NEW.n"
    around(f"CREATE TRIGGER {q}_counts AFTER UPDATE ON {q} FOR EACH ROW {counts}")
    around("BEGIN")
    around(f"UPDATE {q}_counts SET updates = 0 WHERE n = 7")
    try:
        sql(f"INSERT INTO {q} (n) VALUES (7), (8), (8)")
        receiver = stream(f"SELECT id, n FROM STREAM {q}")
        assert sorted(receiver.wait(2, scaled(30))) == [(2, 8), (3, 8)]
        around("ROLLBACK")
        receiver.wait(3, scaled(50))
        around("BEGIN")
        around(f"UPDATE {q}_counts SET updates = 0 WHERE n = 7")
        heir = stream(f"SELECT id, n FROM STREAM {q}")
        receiver.close()
        assert sorted(heir.wait(2, scaled(40))) == [(2, 8), (3, 8)]
        around("ROLLBACK")
        heir.wait(3, scaled(40))
    finally:
        around("ROLLBACK")
        sql(f"DROP QUEUE {q}")
        around(f"DROP TABLE {q}_counts")


def test_dead_letters_go_beside_a_message_that_a_transaction_has_locked(sql, queue, around):
    """Of a small table a server reads all rows to delete two, unless it is told the index, and waits for the third."""
    q = queue("n INT", dead_letter=f"'{queue('n INT')}'")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join([f"({n})" for n in range(1, 9)]))
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 8 NOWAIT")) == 8
    around("BEGIN")
    around(f"UPDATE {q} SET n = 50 WHERE id = 5")
    try:
        assert sql(f"REJECT {q} 4, 7") == 2
        wait_until(lambda: _ids(sql, q) == [1, 2, 3, 5, 6, 8], what="the two dead letters to be gone")
    finally:
        around("ROLLBACK")


def test_acked_messages_go_beside_one_that_a_transaction_has_locked(sql, queue, around):
    q = queue("n INT", purge_after="'1s'", poll_interval="'1s'")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join([f"({n})" for n in range(1, 9)]))
    around("BEGIN")
    around(f"UPDATE {q} SET n = 50 WHERE id = 5")
    try:
        assert sql(f"ACK {q} 4, 7") == 2
        wait_until(lambda: _ids(sql, q) == [1, 2, 3, 5, 6, 8], 40, "the two acked messages to be gone")
    finally:
        around("ROLLBACK")

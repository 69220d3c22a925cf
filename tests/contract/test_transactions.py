"""Nothing before COMMIT, nothing after ROLLBACK; messages, acks and business rows hold or vanish together."""

from __future__ import annotations

import mysql.connector
import pymysql
import pytest
from pymysql.constants import CLIENT

pytestmark = pytest.mark.on_mysql


def due(sql, q):
    """What is due now, without waiting: proof of absence that needs no pause."""
    return [row[0] for row in sql.rows(f"SELECT payload FROM STREAM {q} LIMIT 1000 NOWAIT")]


@pytest.fixture
def other(connect):
    """A second client, which sees what is committed."""
    return connect()


@pytest.mark.parametrize("begin", ["BEGIN", "START TRANSACTION", "SET autocommit = 0"])
def test_invisible_until_commit(sql, other, queue, stream, begin):
    q = queue()
    receiver = stream(f"SELECT payload FROM STREAM {q}")
    sql(begin)
    sql(f"INSERT INTO {q} (payload) VALUES ('held')")
    assert due(other, q) == []
    assert receiver.rows == []
    sql("COMMIT")
    assert receiver.wait(1) == [("held",)]
    sql("SET autocommit = 1")


def test_rollback_delivers_nothing(sql, other, queue, stream):
    q = queue()
    receiver = stream(f"SELECT payload FROM STREAM {q}")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (payload) VALUES ('gone')")
    sql("ROLLBACK")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    sql(f"INSERT INTO {q} (payload) VALUES ('after')")
    assert receiver.wait(1) == [("after",)]


def test_rollback_to_savepoint(sql, queue, stream):
    q = queue()
    receiver = stream(f"SELECT payload FROM STREAM {q}")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (payload) VALUES ('kept 1')")
    sql("SAVEPOINT s")
    sql(f"INSERT INTO {q} (payload) VALUES ('undone')")
    sql("ROLLBACK TO SAVEPOINT s")
    sql(f"INSERT INTO {q} (payload) VALUES ('kept 2')")
    sql("RELEASE SAVEPOINT s")
    sql("COMMIT")
    assert sorted(receiver.wait(2)) == [("kept 1",), ("kept 2",)]
    assert sorted(sql.column(f"SELECT payload FROM {q}")) == ["kept 1", "kept 2"]


def test_all_undone_by_a_savepoint(sql, other, queue):
    q = queue()
    sql("BEGIN")
    sql("SAVEPOINT s")
    sql(f"INSERT INTO {q} (payload) VALUES ('undone')")
    sql("ROLLBACK TO s")
    sql("COMMIT")
    assert due(other, q) == []


def test_several_queues_in_one_transaction(sql, queue, stream):
    one, two = queue(), queue()
    first, second = stream(f"SELECT payload FROM STREAM {one}"), stream(f"SELECT payload FROM STREAM {two}")
    sql("BEGIN")
    sql(f"INSERT INTO {one} (payload) VALUES ('1')")
    sql(f"INSERT INTO {two} (payload) VALUES ('2')")
    sql("COMMIT")
    assert first.wait(1) == [("1",)]
    assert second.wait(1) == [("2",)]


@pytest.mark.parametrize(("end", "kept"), [("COMMIT", 1), ("ROLLBACK", 0)])
def test_business_row_and_message_together(sql, other, queue, name, end, kept):
    q = queue()
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, balance INT)")
    sql(f"INSERT INTO {name} (id, balance) VALUES (1, 100)")
    sql("BEGIN")
    sql(f"UPDATE {name} SET balance = balance - 10 WHERE id = 1")
    sql(f"INSERT INTO {q} (payload) VALUES ('paid')")
    sql(end)
    assert other.value(f"SELECT balance FROM {name}") == 100 - 10 * kept
    assert due(other, q) == ["paid"] * kept
    sql(f"DROP TABLE {name}")


def test_a_failed_statement_leaves_the_rest_of_the_transaction(sql, queue):
    q = queue("id INT NOT NULL PRIMARY KEY, payload VARCHAR(20)")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (id, payload) VALUES (1, 'a')")
    assert sql.error(f"INSERT INTO {q} (id, payload) VALUES (2, 'b'), (1, 'c')")[0] == 1062
    sql(f"INSERT INTO {q} (id, payload) VALUES (3, 'd')")
    sql("COMMIT")
    assert due(sql, q) == ["a", "d"]


def test_a_client_that_vanishes_rolls_back(connect, sql, queue):
    q = queue()
    dying = connect()
    dying("BEGIN")
    dying(f"INSERT INTO {q} (payload) VALUES ('half')")
    dying.connection._force_close()
    sql(f"INSERT INTO {q} (payload) VALUES ('whole')")
    assert due(sql, q) == ["whole"]
    assert sql.column(f"SELECT payload FROM {q}") == ["whole"]


def test_a_new_begin_commits_the_old_transaction(sql, other, queue):
    q = queue()
    sql("BEGIN")
    sql(f"INSERT INTO {q} (payload) VALUES ('first')")
    sql("BEGIN")
    assert due(other, q) == ["first"]
    sql("ROLLBACK")


def test_turning_autocommit_on_commits(sql, other, queue):
    q = queue()
    sql("SET autocommit = 0")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert due(other, q) == []
    sql("SET autocommit = 1")
    assert due(other, q) == ["a"]


def test_turning_autocommit_on_where_it_is_on_ends_nothing(sql, queue, stream):
    q = queue(poll_interval="'60s'", ack_wait="'1h'", max_backoff="'2h'")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    sql("SET autocommit = 1")
    assert not receiver.rows
    sql("COMMIT")
    ((id_,),) = receiver.wait(1)
    sql("BEGIN")
    sql(f"ACK {q} {id_}")
    sql("SET autocommit = 1")
    sql("ROLLBACK")
    assert sql.value("SELECT acked_total FROM queuegate.queues WHERE queue = %s", q) == 0
    assert sql.value("SELECT unacked FROM queuegate.subscriptions WHERE queue = %s", q) == 1


def test_ddl_commits_what_was_open(sql, other, queue, name):
    q = queue()
    sql("BEGIN")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    sql(f"CREATE TABLE {name} (a INT)")
    assert due(other, q) == ["a"]
    sql("ROLLBACK")
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(("end", "again"), [("COMMIT", []), ("ROLLBACK", ["a"])])
def test_ack_in_a_transaction(sql, other, queue, end, again):
    q = queue(ack_wait="'100ms'", min_backoff="'10ms'", max_backoff="'100ms'")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert due(sql, q) == ["a"]
    sql("BEGIN")
    assert sql(f"ACK {q} 1") == 1
    sql(end)
    rows = sql.rows(f"SELECT payload FROM STREAM {q} LIMIT 1 WAIT 1.5")
    assert [row[0] for row in rows] == again


def test_ack_undone_by_a_savepoint_comes_again(sql, queue):
    q = queue(ack_wait="'100ms'", min_backoff="'10ms'", max_backoff="'100ms'")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert due(sql, q) == ["a"]
    sql("BEGIN")
    sql("SAVEPOINT s")
    assert sql(f"ACK {q} 1") == 1
    sql("ROLLBACK TO SAVEPOINT s")
    sql("COMMIT")
    assert sql.rows(f"SELECT payload FROM STREAM {q} LIMIT 1 WAIT 5") == [("a",)]


@pytest.mark.parametrize(("end", "kept"), [("COMMIT", True), ("ROLLBACK", False)])
def test_ack_and_follow_up_message_are_atomic(sql, other, queue, end, kept):
    source, target = queue(), queue()
    sql(f"INSERT INTO {source} (payload) VALUES ('in')")
    assert due(sql, source) == ["in"]
    sql("BEGIN")
    assert sql(f"ACK {source} 1") == 1
    sql(f"INSERT INTO {target} (payload) VALUES ('out')")
    sql(end)
    assert other.value(f"SELECT state FROM {source}") == ("acked" if kept else "fired")
    assert due(other, target) == (["out"] if kept else [])


def test_a_large_transaction_arrives_whole(sql, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q} WITH (prefetch = 10000)")
    sql("BEGIN")
    for start in range(0, 5000, 500):
        sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(start, start + 500)))
    sql("COMMIT")
    assert sorted(row[0] for row in receiver.wait(5000)) == list(range(5000))


@pytest.mark.parametrize("hidden", ["ROLLBACK", "ROLLBACK TO SAVEPOINT s"])
def test_a_rollback_in_a_prepared_text_undoes_acks_also_in_memory(sql, other, queue, stream, hidden, on_mysql):
    if on_mysql and "SAVEPOINT" in hidden:
        pytest.skip("MySQL prepares no such statement")
    q = queue(poll_interval="'60s'", ack_wait="'60s'")
    receiver = stream(f"SELECT payload FROM STREAM {q} WITH (prefetch = 1)")
    sql(f"INSERT INTO {q} (payload) VALUES ('first'), ('second')")
    receiver.wait(1)
    other("BEGIN")
    other("SAVEPOINT s")
    assert other(f"ACK {q} 2") == 1  # waits in memory, behind the full window
    other(f"PREPARE p FROM '{hidden}'")
    other("EXECUTE p")
    other("COMMIT")
    sql(f"ACK {q} 1")
    assert receiver.wait(2) == [("first",), ("second",)]


def test_a_definition_that_fails_has_committed_all_the_same(sql, other, queue, stream, name):
    q = queue(poll_interval="'60s'")
    receiver = stream(f"SELECT payload FROM STREAM {q}")
    other(f"CREATE TABLE {name} (a INT)")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert sql.error(f"CREATE TABLE {name} (a INT)")[0] == 1050
    assert receiver.wait(1) == [("a",)]
    other(f"DROP TABLE {name}")


def test_of_several_statements_those_before_the_failed_one_are_delivered(connect, queue, stream):
    q = queue(poll_interval="'60s'")
    receiver = stream(f"SELECT payload FROM STREAM {q}")
    several = connect(client_flag=CLIENT.MULTI_STATEMENTS)
    with several.connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {q} (payload) VALUES ('in'); SELECT * FROM missing_table")
        with pytest.raises(pymysql.err.ProgrammingError):
            cursor.nextset()
    assert receiver.wait(1) == [("in",)]


@pytest.mark.parametrize(
    "verb",
    [
        "NACK {} {} DELAY '1h'",
        "REJECT {} {}",
        "RENEW {} {} FOR '1h'",
        "RELEASE {} {}",
        "NACK {} WHERE id IN ({})",
        "ACK {} WHERE id IN ({}) AND time_acked IS NULL",
        "UPDATE {} SET state = 'acked' WHERE id IN ({})",
    ],
)
def test_a_verb_in_an_open_transaction_holds_up_no_new_message(sql, connect, queue, place, verb):
    if place == "embedded":
        pytest.skip("one transaction writes at a time")
    q = queue("n INT")
    other = connect(autocommit=False)
    sql("SET SESSION innodb_lock_wait_timeout = 1")
    for count in (1, 2, 5):
        sql(f"INSERT INTO {q} (n) VALUES {', '.join(['(1)'] * count)}")
        found = sql.column(f"SELECT id FROM STREAM {q} LIMIT {count} NOWAIT")
        assert other(verb.format(q, ", ".join(map(str, found)))) == count
        assert sql(f"INSERT INTO {q} (n) VALUES (2)") == 1
        other("ROLLBACK")
        sql(f"DELETE FROM {q}")


def test_a_prepared_ack_in_an_open_transaction_holds_up_no_new_message(sql, gate, queue, place):
    if place == "embedded":
        pytest.skip("one transaction writes at a time")
    q = queue("n INT")
    sql("SET SESSION innodb_lock_wait_timeout = 1")
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=False
    )
    prepared = link.cursor(prepared=True)
    for condition in ("id = ?", "id IN (?)"):
        sql(f"INSERT INTO {q} (n) VALUES (1)")
        found = sql.value(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT")
        prepared.execute(f"UPDATE {q} SET state = 'acked' WHERE {condition}", (found,))
        assert prepared.rowcount == 1
        assert sql(f"INSERT INTO {q} (n) VALUES (2)") == 1
        link.rollback()
        sql(f"DELETE FROM {q}")
    link.close()


def test_an_ack_to_a_group_in_an_open_transaction_holds_up_no_other_group(sql, connect, queue, place):
    if place == "embedded":
        pytest.skip("one transaction writes at a time")
    q = queue("n INT", group_key="'n'")
    other = connect(autocommit=False)
    sql("SET SESSION innodb_lock_wait_timeout = 1")
    sql(f"INSERT INTO {q} (n) VALUES (5), (5), (5)")
    found = sql.column(f"SELECT id FROM STREAM {q} LIMIT 3 NOWAIT")
    assert other(f"ACK {q} {', '.join(map(str, found))}") == 3
    assert sql(f"INSERT INTO {q} (n) VALUES (1), (9)") == 2
    other("ROLLBACK")


def test_an_ack_in_an_open_transaction_holds_up_no_new_message(sql, connect, queue, place):
    """In a table of few rows a server would rather read all that is unacked, and lock the gap after it."""
    if place == "embedded":
        pytest.skip("one transaction writes at a time")
    q = queue("n INT")
    other = connect(autocommit=False)
    for count in (1, 2, 5, 50):
        sql(f"INSERT INTO {q} (n) VALUES {', '.join(['(1)'] * count)}")
        found = sql.column(f"SELECT id FROM STREAM {q} LIMIT {count} NOWAIT")
        assert other(f"ACK {q} {', '.join(map(str, found))}") == count
        sql("SET SESSION innodb_lock_wait_timeout = 1")
        sql(f"INSERT INTO {q} (n) VALUES (2)")
        assert sql.rows(f"SELECT n FROM STREAM {q} NOWAIT") == [(2,)]
        other("COMMIT")
        sql(f"ACK {q} WHERE n = 2")

"""Messages that a receiver waits for: their INSERT writes the lease (docs/message_lifecycle.md)."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from servers import SERVER, wait_until
from slowness import scaled


@pytest.fixture
def waiting(sql, queue, stream):
    """A queue, and a receiver that waits for more than the message that it has got and acked."""

    def make(columns="payload TEXT", first="(payload) VALUES ('first')", **options):
        q = queue(columns, **options)
        receiver = stream(f"SELECT id, epoch, lease_token FROM STREAM {q}")
        sql(f"INSERT INTO {q} {first}")
        receiver.wait(1, scaled(10))
        sql(f"ACK {q} {receiver.rows[0][0]}")
        return q, receiver

    return make


@pytest.fixture
def written(sql, place, gate):
    """What an INSERT has written of the queue's own columns, by a trigger, whatever was done to the row since."""

    def watch(q):
        sql(f"CREATE TABLE {q}_written (id BIGINT, epoch INT, time_next BIGINT, lease_token BIGINT)")
        insert = f"INSERT INTO {q}_written VALUES (NEW.id, NEW.epoch, NEW.time_next, NEW.lease_token)"
        if place == "embedded":  # which has no triggers for clients; its file has
            with contextlib.closing(sqlite3.connect(gate.backend.removeprefix("sqlite://"))) as file:
                file.execute(f"CREATE TRIGGER {q}_watch AFTER INSERT ON {q} BEGIN {insert}; END")
        else:
            sql(f"CREATE TRIGGER {q}_watch AFTER INSERT ON {q} FOR EACH ROW {insert}")
        return lambda: sql.rows(f"SELECT * FROM {q}_written ORDER BY id")

    return watch


def test_the_insert_writes_the_lease(sql, waiting, written):
    if SERVER == "galera":
        pytest.skip("a node may show a message late: none is leased so")
    q, receiver = waiting()
    rows = written(q)
    sql(f"INSERT INTO {q} (payload) VALUES ('it''s born')")
    receiver.wait(2, scaled(10))
    ((id_, epoch, until, token),) = rows()
    assert (id_, epoch, token) == receiver.rows[1] and until % 1000 in (1, 3)
    assert sql.rows(f"SELECT time_next, state FROM {q} WHERE id = {id_}") == [(until, "fired")]
    assert sql(f"ACK {q} {id_}") == 1


@pytest.mark.parametrize(
    "insert",
    [
        "(payload) VALUES ('a'), ('b')",
        "(payload) VALUES (UPPER('a'))",
        "(id, payload) VALUES (4711, 'a')",
        "(payload, time_next) VALUES ('a', 0)",
        "SET payload = 'a'",
        "(payload) SELECT 'a'",
        "(payload) VALUES ('a') ON DUPLICATE KEY UPDATE payload = 'b'",
    ],
)
def test_other_inserts_go_as_they_are(sql, waiting, written, insert):
    q, receiver = waiting()
    rows = written(q)
    added = sql(f"INSERT INTO {q} {insert}")
    receiver.wait(1 + added, scaled(10))
    assert {row[1] for row in rows()} == {0} and len(rows()) == added


def test_in_a_transaction_nothing_is_leased_before_the_commit(sql, waiting, written):
    q, receiver = waiting()
    rows = written(q)
    sql("BEGIN")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    sql("ROLLBACK")
    sql("SET autocommit = 0")
    sql(f"INSERT INTO {q} (payload) VALUES ('b')")
    assert sql.rows(f"SELECT epoch, payload FROM {q} WHERE time_acked IS NULL") == [(0, "b")]
    sql("COMMIT")
    sql("SET autocommit = 1")
    receiver.wait(2, scaled(10))
    assert [row[1] for row in rows()] == [0]


def test_the_answer_is_that_of_the_insert(sql, waiting):
    q, receiver = waiting("payload TEXT, n TINYINT")
    with sql.connection.cursor() as cursor:
        assert cursor.execute(f"INSERT INTO {q} (payload, n) VALUES ('a', 7)") == 1
        id_ = cursor.lastrowid
        cursor.execute("SELECT LAST_INSERT_ID()")
        assert cursor.fetchall() == ((id_,),)
    receiver.wait(2, scaled(10))
    assert receiver.rows[1][0] == id_
    assert sql.error(f"INSERT INTO {q} (payload, n) VALUES ('a', 1000)")[0] == 1264
    assert sql.error(f"INSERT INTO {q} (payload, nope) VALUES ('a', 1)")[0] == 1054
    assert sql.error(f"INSERT INTO {q} (payload, n) VALUES ('a')")[0] == 1136
    sql(f"INSERT INTO {q} (payload, n) VALUES ('b', 8)")
    receiver.wait(3, scaled(10))


def test_a_trigger_that_postpones_it_counts(sql, waiting, place):
    if place == "embedded":
        pytest.skip("the embedded database has no triggers")
    q, receiver = waiting()
    later = "(SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000000 AS SIGNED) + 1000000000)"
    values = f"SET NEW.epoch = 0, NEW.time_scheduled = {later}, NEW.time_next = NEW.time_scheduled"
    sql(f"CREATE TRIGGER {q}_later BEFORE INSERT ON {q} FOR EACH ROW {values}")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert sql.rows(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL AND epoch = 0") == [(1,)]
    receiver.wait(2, scaled(10))


def test_a_full_receiver_leaves_the_message_to_another(sql, queue, stream):
    q = queue("payload TEXT")
    full = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 1)")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    full.wait(1, scaled(10))
    sql(f"INSERT INTO {q} (payload) VALUES ('b')")
    other = stream(f"SELECT payload, epoch FROM STREAM {q}")
    other.wait(1, scaled(10))
    assert other.rows == [("b", 1)]


@pytest.mark.parametrize("what", ["INSERT (payload)", "INSERT"])
def test_an_account_that_may_not_write_the_lease_sends_as_before(sql, connect, waiting, place, what):
    if place != "mariadb":
        pytest.skip("accounts are the server's own there")
    q, receiver = waiting()
    for statement in (
        "CREATE USER births_producer@'127.0.0.1' IDENTIFIED BY 'secret'",
        f"GRANT {what} ON {q} TO births_producer@'127.0.0.1'",
    ):
        sql(statement)
    try:
        producer = connect(user="births_producer", password="secret")
        for n in range(4):
            assert producer(f"INSERT INTO {q} (payload) VALUES ('{n}')") == 1
            receiver.wait(n + 2, scaled(10))
        assert producer.error(f"INSERT INTO {q} (id, payload, nope) VALUES (1, 2, 3)")[0] in (1054, 1143)
    finally:
        sql("DROP USER births_producer@'127.0.0.1'")


def test_a_generated_column_that_does_not_depend_on_the_lease_changes_nothing(sql, waiting, written):
    """The pattern of unique messages, and the queues of tasks."""
    if SERVER == "galera":
        pytest.skip("a node may show a message late: none is leased so")
    q, receiver = waiting(
        "k INT, open_k INT GENERATED ALWAYS AS (IF(time_acked IS NULL, k, NULL)), UNIQUE KEY once (open_k)",
        first="(k) VALUES (1)",
    )
    rows = written(q)
    sql(f"INSERT INTO {q} (k) VALUES (7)")
    receiver.wait(2, scaled(10))
    assert [row[1] for row in rows()] == [1]
    assert sql.error(f"INSERT INTO {q} (k) VALUES (7)")[0] == 1062
    assert sql(f"ACK {q} {receiver.rows[1][0]}") == 1
    sql(f"INSERT INTO {q} (k) VALUES (7)")
    receiver.wait(3, scaled(10))


def test_a_unique_key_that_depends_on_the_lease_holds(sql, waiting):
    """Once while it has not been begun: a message of that key waits for later."""
    q, receiver = waiting(
        "k INT, open_k INT GENERATED ALWAYS AS (IF(epoch = 0, k, NULL)), UNIQUE KEY once (open_k)",
        first="(k) VALUES (1)",
    )
    sql(f"INSERT INTO {q} (k) VALUES (7) DELAY '1h'")
    assert sql.error(f"INSERT INTO {q} (k) VALUES (7)")[0] == 1062
    sql(f"INSERT INTO {q} (k) VALUES (8)")
    receiver.wait(2, scaled(10))


@pytest.mark.parametrize("columns", ["k, lease_token", "k, epoch", "k, state"])
def test_a_unique_key_over_a_column_of_the_lease_holds(sql, waiting, place, columns):
    if place == "embedded" and "state" in columns:
        pytest.skip("no key over a virtual column there")
    q, receiver = waiting(f"k INT, UNIQUE KEY once ({columns})", first="(k) VALUES (1)")
    sql(f"INSERT INTO {q} (k) VALUES (7) DELAY '1h'")
    assert sql.error(f"INSERT INTO {q} (k) VALUES (7)")[0] == 1062
    sql(f"INSERT INTO {q} (k) VALUES (8)")
    receiver.wait(2, scaled(10))


_NOW = "UNIX_TIMESTAMP() * 1000000000"


@pytest.mark.parametrize(
    "columns",
    [
        f"wait_s INT NOT NULL DEFAULT 0, time_scheduled BIGINT NOT NULL DEFAULT ({_NOW} + wait_s * 1000000000)",
        "wait_s INT NOT NULL DEFAULT 0, time_next BIGINT NULL DEFAULT (time_scheduled + wait_s * 1000000000)",
    ],
)
def test_a_default_that_schedules_a_message_counts(sql, waiting, columns):
    q, receiver = waiting(columns, first="(wait_s) VALUES (0)")
    sql(f"INSERT INTO {q} (wait_s) VALUES (3600)")
    sql(f"INSERT INTO {q} (wait_s) VALUES (0)")
    receiver.wait(2, scaled(10))
    ((id_, epoch, state),) = sql.rows(f"SELECT id, epoch, state FROM {q} WHERE wait_s = 3600")
    assert (epoch, state) == (0, "to_be_fired") and id_ not in [row[0] for row in receiver.rows]


def test_a_session_whose_clock_is_ahead_schedules_its_messages(sql, connect, waiting, place):
    if place == "embedded" or SERVER == "vitess":
        pytest.skip("no clock of a session there")
    q, receiver = waiting()
    ahead = connect()
    ahead("SET timestamp = UNIX_TIMESTAMP() + 3600")
    for _ in range(3):
        ahead(f"INSERT INTO {q} (payload) VALUES ('later')")
    sql(f"INSERT INTO {q} (payload) VALUES ('now')")
    receiver.wait(2, scaled(10))
    later = f"SELECT epoch, state FROM {q} WHERE payload = 'later' AND time_next = time_scheduled"
    wait_until(lambda: sql.rows(later) == [(0, "to_be_fired")] * 3, scaled(10), "what was given back")
    assert len(receiver.rows) == 2


def test_a_default_that_names_the_lease_has_its_value_of_before(sql, waiting):
    q, receiver = waiting("k INT, first_try BOOL DEFAULT (epoch = 0)", first="(k) VALUES (1)")
    sql(f"INSERT INTO {q} (k) VALUES (2)")
    receiver.wait(2, scaled(10))
    assert sql.rows(f"SELECT first_try FROM {q}") == [(1,), (1,)]


def test_a_check_that_names_the_lease_holds(sql, waiting):
    q, receiver = waiting("payload TEXT, CHECK (epoch > 0 OR payload <> 'bad')")
    for _ in range(2):
        assert sql.error(f"INSERT INTO {q} (payload) VALUES ('bad')")[0] in (3819, 4025)
    sql(f"INSERT INTO {q} (payload) VALUES ('good')")
    receiver.wait(2, scaled(10))


def test_a_trigger_that_refuses_the_lease_changes_nothing(sql, waiting, place):
    if place == "embedded":
        pytest.skip("the embedded database has no triggers")
    q, receiver = waiting()
    refusal = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not by a client'"
    sql(f"CREATE TRIGGER {q}_own BEFORE INSERT ON {q} FOR EACH ROW IF NEW.epoch <> 0 THEN {refusal}; END IF")
    for n in range(2, 5):
        sql(f"INSERT INTO {q} (payload) VALUES ('a')")
        receiver.wait(n, scaled(10))
    assert [row[1] for row in receiver.rows] == [1] * 4


def test_a_trigger_that_sets_time_next_alone_costs_no_attempt(sql, waiting, place):
    if place == "embedded":
        pytest.skip("the embedded database has no triggers")
    q, receiver = waiting(max_attempts=2)
    later = "SET NEW.time_next = NEW.time_scheduled + 1000000000"
    sql(f"CREATE TRIGGER {q}_later BEFORE INSERT ON {q} FOR EACH ROW {later}")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    receiver.wait(2, scaled(10))
    assert receiver.rows[1][1] == 1


def test_a_temporary_table_of_the_name_is_the_sessions_own(sql, connect, waiting):
    q, receiver = waiting()
    own = connect()
    own(f"CREATE TEMPORARY TABLE {q} (id INT AUTO_INCREMENT PRIMARY KEY, payload TEXT)")
    for _ in range(3):
        assert own(f"INSERT INTO {q} (payload) VALUES ('mine')") == 1
    assert own.rows(f"SELECT id FROM {q}") == [(1,), (2,), (3,)]
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    receiver.wait(2, scaled(10))


def test_a_temporary_copy_of_the_table_gets_no_leases(sql, connect, waiting):
    q, _ = waiting()
    own = connect()
    id_ = "id BIGINT AUTO_INCREMENT PRIMARY KEY"
    own(f"CREATE TEMPORARY TABLE {q} ({id_}, payload TEXT, epoch INT DEFAULT 0, time_next BIGINT, lease_token BIGINT)")
    for _ in range(3):
        own(f"INSERT INTO {q} (payload) VALUES ('mine')")
    assert own.rows(f"SELECT epoch, time_next FROM {q}") == [(0, None)] * 3


def test_rights_that_are_taken_away_in_a_session_count(sql, connect, waiting, place):
    if place not in ("mariadb", "mysql"):
        pytest.skip("accounts are the server's own there")
    q, receiver = waiting()
    account = "births_reduced@'127.0.0.1'"
    sql(f"CREATE USER {account} IDENTIFIED BY 'secret'")
    try:
        sql(f"GRANT INSERT ON {q} TO {account}")
        producer = connect(user="births_reduced", password="secret")
        for n in range(2, 6):
            producer(f"INSERT INTO {q} (payload) VALUES ('a')")
            receiver.wait(n, scaled(10))
            if n == 3:
                sql(f"REVOKE INSERT ON {q} FROM {account}")
                sql(f"GRANT INSERT (payload) ON {q} TO {account}")
        sql(f"REVOKE INSERT (payload) ON {q} FROM {account}")
        assert producer.error(f"INSERT INTO {q} (payload) VALUES ('a')")[0] in (1142, 1143)
    finally:
        sql(f"DROP USER {account}")

"""Dead letters: by REJECT and by max_attempts, what is kept of them, and REDRIVE (docs/dead-letters.md)."""

from __future__ import annotations

import time

import mysql.connector
import pytest
from servers import NS, wait_until

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

QUICK = {"ack_wait": "'50ms'", "min_backoff": "'10ms'", "max_backoff": "'50ms'"}


@pytest.fixture
def queue(queue, gate):
    """As `queue`, and its dead-letter queue is dropped with it."""
    from servers import Sql

    made = []

    def make(*columns, **options):
        made.append(queue(*columns, **options))
        return made[-1]

    yield make
    client = Sql(gate.connect())
    for name in made:
        client(f"DROP QUEUE IF EXISTS {name}_dead")
    client.close()


def moved(sql, q, count):
    """Wait until so many are in the dead-letter queue."""

    def there():
        return q + "_dead" in sql.column("SHOW QUEUES") and sql.value(f"SELECT COUNT(*) FROM {q}_dead") == count

    wait_until(there, what=f"{count} dead letters of {q}")


def test_a_rejected_message_moves_with_all_it_has(sql, queue):
    q = queue(
        "user_id BIGINT(10) NOT NULL, payload VARCHAR(256) UNIQUE, price DECIMAL(10,3), twice INT AS (user_id * 2)"
    )
    sql(f"INSERT INTO {q} (user_id, payload, price, priority) VALUES (7, 'größe', 1.250, 3), (8, 'kept', 2, 4)")
    before = sql.row(
        f"SELECT id, user_id, payload, price, twice, priority, time_created, time_scheduled FROM {q} LIMIT 1"
    )
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1") == [(1,)]
    assert sql(f"NACK {q} 1 DELAY 0 REASON 'first'") == 1
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [(1,)]
    sql_time = time.time_ns()
    assert sql(f"REJECT {q} 1 REASON 'bad JSON'") == 1
    moved(sql, q, 1)
    columns = "id, user_id, payload, price, twice, priority, time_created, time_scheduled"
    assert sql.row(f"SELECT {columns} FROM {q}_dead") == before
    row = sql.row(f"SELECT attempts, first_error, last_error, source, state, epoch, time_acked FROM {q}_dead")
    assert row == (2, "first", "bad JSON", q, "dead", 0, None)
    assert abs(sql.value(f"SELECT time_dead FROM {q}_dead") - sql_time) < 10 * NS
    assert sql.column(f"SELECT id FROM {q}") == [2]


def test_max_attempts_bounds_the_deliveries(sql, queue, stream):
    q = queue("n INT", max_attempts=3, **QUICK)
    receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    moved(sql, q, 1)
    assert receiver.rows == [(1, 1), (1, 2), (1, 3)]
    assert sql.row(f"SELECT id, attempts, last_error, state FROM {q}_dead") == (1, 3, None, "dead")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    assert receiver.wait(4)[3] == (2, 1)
    assert sql(f"ACK {q} 2") == 1


def test_acked_in_its_last_delivery_is_no_dead_letter(sql, queue):
    q = queue("n INT", max_attempts=1, ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 2") == [1, 2]
    assert sql(f"NACK {q} 2") == 1
    assert sql(f"ACK {q} 1") == 1
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == []
    moved(sql, q, 1)
    assert sql.column(f"SELECT id FROM {q}_dead") == [2]
    assert sql.column(f"SELECT id FROM {q}") == [1]


@pytest.mark.parametrize(
    "statement",
    [
        "NACK {q} 1",
        "NACK {q} 1 DELAY '1h' REASON 'no'",
        "NACK {q} WHERE n = 1",
        "NACK {q} WHERE id = 1 AND lease_token = {token}",
        "BEGIN; NACK {q} 1, 3; COMMIT",
        "SELECT queue_nack('{q}', 1, 0, 'no')",
    ],
)
def test_the_last_failure_needs_no_other_receiver(sql, queue, statement):
    """Nobody asks any more, and the safety scan is far away."""
    q = queue("n INT", max_attempts=1, ack_wait="'1h'", max_backoff="'2h'", poll_interval="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 2") == [1, 2]
    token = sql.value(f"SELECT lease_token FROM {q} WHERE id = 1")
    for each in statement.format(q=q, token=token).split("; "):
        sql(each)
    moved(sql, q, 1)
    assert sql.column(f"SELECT id FROM {q}_dead") == [1]
    assert sql.rows(f"SELECT id, epoch FROM {q} ORDER BY id") == [(2, 1), (3, 0)]


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_failure_that_is_not_the_last_waits(sql, queue, epoch):
    q = queue("n INT", max_attempts=3, ack_wait="'1h'", min_backoff="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n, epoch) VALUES (1, {epoch})")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1") == [1]
    assert sql(f"NACK {q} 1") == 1
    assert sql.row(f"SELECT n FROM {q} WHERE time_next < 9223372036854775000 AND epoch = {epoch + 1}") == (1,)


def test_a_receiver_that_is_gone_with_the_last_attempt_needs_no_other(sql, queue, connect):
    q = queue("n INT", max_attempts=1, ack_wait="'1h'", max_backoff="'2h'", poll_interval="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    receiver = connect()
    assert receiver.column(f"SELECT id FROM STREAM {q} LIMIT 1 WITH (lease = 'connection')") == [1]
    receiver.close()
    moved(sql, q, 1)
    assert sql.column(f"SELECT id FROM {q}_dead") == [1]


def test_a_released_delivery_does_not_count(sql, queue):
    q = queue("n INT", max_attempts=1, ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    for _ in range(3):
        assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [1]
        assert sql(f"RELEASE {q} 1") == 1
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 1


def test_the_dead_letter_queue_is_a_queue(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert sql(f"REJECT {q} WHERE n <= 2") == 2
    moved(sql, q, 2)
    receiver = stream(f"SELECT * FROM STREAM {q}_dead")
    assert receiver.columns == ["id", "n", "attempts", "time_dead", "source", "source_id"]
    assert sorted(row[:3] for row in receiver.wait(2)) == [(1, 1, 0), (2, 2, 0)]
    assert sql(f"NACK {q}_dead 2 REASON 'still'") == 1
    assert receiver.wait(3)[2][0] == 2
    assert sql(f"ACK {q}_dead 1") == 1
    assert sql.column(f"SELECT state FROM {q}_dead ORDER BY id") == ["acked", "dead"]
    assert sql(f"REJECT {q} 3") == 1
    assert receiver.wait(4)[3][0] == 3
    errno, told = sql.error(f"REJECT {q}_dead 3")
    assert errno == 1235 and "REDRIVE" in told
    assert "dead_letter_of" in sql.row(f"SHOW CREATE QUEUE {q}_dead")[1]


def test_the_option_names_another_queue_made_by_hand(sql, queue, name):
    q = queue("n INT, more VARCHAR(20)", dead_letter=f"'{name}'")
    sql(f"CREATE QUEUE {name} (n INT, note VARCHAR(20) DEFAULT 'x', attempts INT)")
    sql(f"INSERT INTO {q} (n, more) VALUES (5, 'y')")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1") == [1]
    assert sql(f"REJECT {q} 1 REASON 'no'") == 1
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {name}"), what="the dead letter")
    assert sql.row(f"SELECT id, n, note, attempts, last_error FROM {name}") == (1, 5, "x", 1, "no")
    assert sql(f"REDRIVE {name}") == 1
    assert sql.row(f"SELECT id, n, more, epoch, last_error FROM {q}") == (1, 5, None, 0, "no")
    sql(f"DROP QUEUE {name}")


@pytest.mark.parametrize("id_type", ["VARCHAR(40)", "VARBINARY(16)"])
def test_ids_of_other_kinds_keep_their_value(sql, queue, id_type):
    q = queue(f"id {id_type} PRIMARY KEY, n INT")
    sql(f"INSERT INTO {q} (id, n) VALUES ('a', 1), ('b', 2)")
    assert sql(f"REJECT {q} WHERE n = 2") == 1
    moved(sql, q, 1)
    assert sql.value(f"SELECT n FROM {q}_dead WHERE id = 'b'") == 2
    assert sql(f"REDRIVE {q}_dead") == 1
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL") == 2


def test_an_ordered_key_goes_on_behind_its_dead_letter(sql, queue, stream):
    q = queue("k INT, n INT", order_key="'k'", on_failure="'dead_letter'", **QUICK)
    sql(f"INSERT INTO {q} (k, n) VALUES (1, 1), (1, 2), (1, 3)")
    receiver = stream(f"SELECT n, epoch FROM STREAM {q}")
    moved(sql, q, 3)  # each lease ran out once
    assert receiver.rows == [(1, 1), (2, 1), (3, 1)]
    assert sql.column(f"SELECT attempts FROM {q}_dead") == [1, 1, 1]


def test_where_the_first_failure_is_fatal_a_receiver_that_leaves_fails_nothing(sql, queue, stream):
    q = queue("k INT", order_key="'k'", on_failure="'dead_letter'", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (k) VALUES (1), (1)")
    for _ in range(3):
        receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
        assert receiver.wait(1, 10) == [(1, 1)]
        receiver.close()
    last = stream(f"SELECT id FROM STREAM {q}")
    assert last.wait(1) == [(1,)]
    assert sql(f"NACK {q} 1 REASON 'no'") == 1
    assert last.wait(2) == [(1,), (2,)]
    moved(sql, q, 1)
    assert sql.rows(f"SELECT id, attempts, last_error FROM {q}_dead") == [(1, 1, "no")]


# --- transactions


def test_a_rejection_is_of_its_transaction(sql, queue, connect):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    other = connect(autocommit=False)
    other("BEGIN")
    assert other(f"REJECT {q} 1") == 1
    other("ROLLBACK")
    other("BEGIN")
    assert other(f"REJECT {q} 2") == 1
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 2
    other("COMMIT")
    moved(sql, q, 1)
    assert sql.column(f"SELECT id FROM {q}") == [1]


# --- REDRIVE


@pytest.fixture
def dead(sql, queue):
    """A queue with one message left and five dead letters."""
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4), (5), (6)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 5") == [1, 2, 3, 4, 5]
    assert sql(f"REJECT {q} 1, 2, 3, 4, 5 REASON 'bad'") == 5
    moved(sql, q, 5)
    return q


def test_redrive_puts_dead_letters_back(sql, dead, stream):
    q = dead
    receiver = stream(f"SELECT id, n, epoch FROM STREAM {q}")
    assert receiver.wait(1) == [(6, 6, 1)]
    assert sql(f"REDRIVE {q}_dead WHERE n IN (2, 3)") == 2
    assert sorted(receiver.wait(3)[1:]) == [(2, 2, 1), (3, 3, 1)]
    assert sql.column(f"SELECT id FROM {q}_dead ORDER BY id") == [1, 4, 5]
    assert sql.row(f"SELECT first_error, last_error FROM {q} WHERE id = 2") == ("bad", "bad")
    assert sql(f"REDRIVE {q}_dead LIMIT 2") == 2
    assert len(receiver.wait(5)) == 5
    assert sql(f"REDRIVE {q}_dead") == 1
    assert sql(f"REDRIVE {q}_dead") == 0
    assert len(receiver.wait(6)) == 6


def test_redrive_belongs_to_the_clients_transaction(sql, dead, connect, stream):
    q = dead
    other = connect(autocommit=False)
    other("BEGIN")
    assert other(f"REDRIVE {q}_dead") == 5
    assert other.value(f"SELECT COUNT(*) FROM {q}") == 6
    other("ROLLBACK")
    assert sql.value(f"SELECT COUNT(*) FROM {q}_dead WHERE state = 'dead'") == 5
    other("BEGIN")
    assert other(f"REDRIVE {q}_dead LIMIT 1") == 1
    other("COMMIT")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 2


def test_a_redriven_message_may_die_again(sql, dead):
    q = dead
    assert sql(f"REDRIVE {q}_dead WHERE n = 1") == 1
    assert sql(f"REJECT {q} 1 REASON 'again'") == 1
    moved(sql, q, 5)
    assert sql.row(f"SELECT attempts, first_error, last_error FROM {q}_dead WHERE id = 1") == (0, "bad", "again")


def test_redrive_changes_nothing_where_a_value_is_taken(sql, dead):
    q = dead
    sql(f"ALTER TABLE {q} ADD UNIQUE KEY (n)")
    sql(f"INSERT INTO {q} (id, n) VALUES (33, 3)")
    assert sql.error(f"REDRIVE {q}_dead")[0] == 1062
    assert sql.value(f"SELECT COUNT(*) FROM {q}_dead WHERE state = 'dead' AND time_next < 9000000000000000000") == 5
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 2
    assert sql(f"REDRIVE {q}_dead WHERE n <> 3") == 4


def test_redrive_prepared(gate, sql, dead):
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    cursor = link.cursor(prepared=True)
    cursor.execute(f"REDRIVE {dead}_dead WHERE n > ? LIMIT ?", (2, 2))
    assert cursor.rowcount == 2
    link.close()
    assert sql.value(f"SELECT COUNT(*) FROM {dead}_dead") == 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("REDRIVE {q}", 1235),  # no dead-letter queue
        ("REDRIVE nowhere_at_all", 1146),
        ("REDRIVE {q}_dead LIMIT x", 1064),
        ("REDRIVE {q}_dead ORDER BY n", 1235),
        ("REDRIVE {q}_dead WHERE nonsense = 1", 1054),
    ],
)
def test_redrive_says_what_is_wrong(sql, dead, text, number):
    assert sql.error(text.format(q=dead))[0] == number


# --- what cannot be moved


def test_a_name_that_is_taken_holds_up_the_rejected_only(sql, queue, stream):
    q = queue("n INT")
    sql(f"CREATE TABLE {q}_dead (a INT)")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    receiver.wait(2)
    assert sql(f"REJECT {q} 1") == 1
    sql(f"INSERT INTO {q} (n) VALUES (3)")
    assert receiver.wait(3)[2] == (3,)
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE id = 1 AND time_acked IS NULL") == 1
    sql(f"DROP TABLE {q}_dead")
    moved(sql, q, 1)
    assert receiver.rows == [(1,), (2,), (3,)]


def test_an_id_that_is_there_already_holds_up_no_message(sql, dead):
    q = dead
    sql(f"INSERT INTO {q} (id, n) VALUES (1, 11), (7, 7)")
    assert sql(f"REJECT {q} 1, 7") == 2
    moved(sql, q, 7)
    assert sql.column(f"SELECT id FROM {q} ORDER BY id") == [6]
    assert sql.rows(f"SELECT id, n, source_id FROM {q}_dead WHERE n IN (1, 11) ORDER BY n") == [
        (1, 1, None),
        (-1, 11, "1"),
    ]


@pytest.mark.parametrize(("wide", "narrow"), [("VARBINARY(100)", "VARBINARY(20)"), ("VARCHAR(100)", "VARCHAR(20)")])
def test_a_value_that_the_dead_letter_queue_can_hold_is_moved(sql, queue, wide, narrow):
    """A length is bytes where the column is binary, and characters where it is text."""
    name = queue(f"v {wide}", dead_letter="'held_apart'")
    sql("DROP QUEUE IF EXISTS held_apart")
    sql(f"CREATE QUEUE held_apart (v {narrow})")
    sql(f"INSERT INTO {name} (v) VALUES (%s), (%s)", "x" * 21, "y" * 20)
    sql(f"REJECT {name} (1, 2)")
    assert wait_until(lambda: sql.column("SELECT LENGTH(v) FROM held_apart"), what="the one that fits") == [20]
    assert sql.column(f"SELECT id FROM {name}") == [1]
    sql("DROP QUEUE held_apart")


def test_an_acked_dead_letter_gives_way_to_another_of_its_id(sql, dead):
    q = dead
    assert sql(f"ACK {q}_dead 1") == 1
    sql(f"INSERT INTO {q} (id, n) VALUES (1, 11)")
    assert sql(f"REJECT {q} 1") == 1
    wait_until(lambda: sql.rows(f"SELECT n, state FROM {q}_dead WHERE id = 1") == [(11, "dead")])


def test_a_queue_cannot_be_its_own_dead_letter_queue(sql, name):
    errno, text = sql.error(f"CREATE QUEUE {name} (n INT) WITH (dead_letter = '{name}')")
    assert errno == 1231 and "dead_letter" in text


# --- the id of a dead letter may be taken


def test_ids_that_began_anew_keep_no_message_from_moving(sql, queue):
    q = queue("body TEXT")
    for body in ("first", "second", "third"):
        sql(f"INSERT INTO {q} (body) VALUES ('{body}')")
        assert sql(f"REJECT {q} 1 REASON '{body}'") == 1
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), what="the move")
        sql(f"DROP QUEUE {q}")
        sql(f"CREATE QUEUE {q} (body TEXT)")
    letters = sql.rows(f"SELECT id, source_id, body, last_error FROM {q}_dead ORDER BY id DESC")
    assert letters == [(1, None, "first", "first"), (-1, "1", "second", "second"), (-2, "1", "third", "third")]
    assert sql.row(f"EXPLAIN DELIVERY FOR {q} WHERE id = 1")[1] == "dead"
    assert sql(f"ACK {q}_dead 1") == 1
    assert sql.row(f"EXPLAIN DELIVERY FOR {q} WHERE id = 1")[1] == "dead"
    assert sql.named(f"TRACE MESSAGE 1 ON {q}")[0]["state"] == "dead"
    sql(f"INSERT INTO {q} (body) VALUES ('fourth')")
    assert sql(f"REDRIVE {q}_dead WHERE source_id = '1'") == 2
    assert sorted(sql.column(f"SELECT body FROM {q}")) == ["fourth", "second", "third"]
    assert sorted(sql.column(f"SELECT id FROM {q}")) == [1, 2, 3]


def test_a_dead_letter_whose_id_is_taken_in_the_queue_comes_back_under_another(sql, queue):
    q = queue("body TEXT")
    sql(f"INSERT INTO {q} (body) VALUES ('one'), ('two')")
    assert sql(f"REJECT {q} 1, 2") == 2
    moved(sql, q, 2)
    sql(f"DROP QUEUE {q}")
    sql(f"CREATE QUEUE {q} (body TEXT)")
    sql(f"INSERT INTO {q} (body) VALUES ('new one')")
    assert sql(f"REDRIVE {q}_dead") == 2
    assert sorted(sql.column(f"SELECT body FROM {q}")) == ["new one", "one", "two"]
    assert sql.value(f"SELECT id FROM {q} WHERE body = 'new one'") == 1
    assert sql.value(f"SELECT id FROM {q} WHERE body = 'two'") == 2
    assert sql.value(f"SELECT COUNT(*) FROM {q}_dead") == 0


def test_truncate_keeps_no_message_from_moving(sql, queue):
    q = queue("body TEXT")
    sql(f"INSERT INTO {q} (id, body) VALUES (7, 'first')")
    assert sql(f"REJECT {q} 7") == 1
    moved(sql, q, 1)
    sql(f"TRUNCATE QUEUE {q}")
    sql(f"INSERT INTO {q} (id, body) VALUES (7, 'second')")
    assert sql(f"REJECT {q} 7") == 1
    moved(sql, q, 2)
    assert sql.column(f"SELECT body FROM {q}_dead ORDER BY id DESC") == ["first", "second"]


@pytest.mark.parametrize(
    ("kind", "id_"),
    [
        ("VARCHAR(36)", "'a'"),
        ("CHAR(5)", "'a'"),
        ("VARBINARY(16)", "X'ff00'"),
        ("INT UNSIGNED AUTO_INCREMENT", "2147483647"),
        ("BIGINT", "-9223372036854775808"),
        ("BIGINT", "9223372036854775807"),
    ],
)
def test_keys_of_any_type_have_another_value(sql, queue, kind, id_):
    q = queue(f"id {kind}, body TEXT")
    for body in ("first", "second", "third"):
        sql(f"INSERT INTO {q} (id, body) VALUES ({id_}, '{body}')")
        assert sql(f"REJECT {q} WHERE id = {id_}") == 1
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), what="the move")
    assert sorted(sql.column(f"SELECT body FROM {q}_dead")) == ["first", "second", "third"]
    assert sql.value(f"SELECT body FROM {q}_dead WHERE id = {id_}") == "first"


def test_queues_may_share_a_dead_letter_queue(sql, queue, name):
    first, second = queue("body TEXT", dead_letter=f"'{name}_dead'"), queue("body TEXT", dead_letter=f"'{name}_dead'")
    sql(f"CREATE QUEUE {name}_dead (body TEXT, source VARCHAR(64), source_id VARCHAR(255), attempts INT)")
    for q in (first, second):
        sql(f"INSERT INTO {q} (body) VALUES ('of {q}')")
        assert sql(f"REJECT {q} 1") == 1
        wait_until(lambda q=q: not sql.value(f"SELECT COUNT(*) FROM {q}"), what="the move")
    letters = sql.rows(f"SELECT id, source, source_id FROM {name}_dead ORDER BY id DESC")
    assert letters == [(1, first, None), (-1, second, "1")]
    sql(f"DROP QUEUE {name}_dead")


def test_a_message_that_is_there_already_makes_no_second_dead_letter(sql, queue):
    q = queue("body TEXT")
    sql(f"INSERT INTO {q} (body) VALUES ('once')")
    assert sql(f"REJECT {q} 1") == 1
    moved(sql, q, 1)
    # As if a table that takes nothing back had kept the copy of a move that was undone.
    sql(f"INSERT INTO {q} (id, body, time_created) SELECT id, body, time_created FROM {q}_dead")
    assert sql(f"REJECT {q} 1") == 1
    wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), what="the move")
    assert sql.rows(f"SELECT id, source_id, body FROM {q}_dead") == [(1, None, "once")]


@pytest.mark.parametrize("columns", ["source_id BIGINT", "source VARCHAR(20)", "source VARCHAR(20), source_id BIGINT"])
def test_columns_of_the_queue_that_have_the_names_of_those_of_dead_letters(sql, queue, columns):
    """They are the user's. The message keeps its id, and its place in its key's order."""
    q = queue(f"customer INT, {columns}", order_key="'customer'")
    names = [column.split()[0] for column in columns.split(", ")]
    values = ["'web'" if name == "source" else "777" for name in names]
    row = f"(7, {', '.join(values)})"
    sql(f"INSERT INTO {q} (customer, {', '.join(names)}) VALUES {row}, {row}, {row}")
    assert sql(f"REJECT {q} 1") == 1
    moved(sql, q, 1)
    assert sql.row(f"EXPLAIN DELIVERY FOR {q} WHERE id = 1")[1] == "dead"
    assert sql.row(f"EXPLAIN DELIVERY FOR {q} WHERE id = 777")[1] == "unknown"
    assert sql.named(f"TRACE MESSAGE 1 ON {q}")[0]["state"] == "dead"
    assert sql(f"REDRIVE {q}_dead") == 1
    taken = sql.rows(f"SELECT id, {', '.join(names)} FROM STREAM {q} LIMIT 1 WAIT 10")
    assert taken == [(1, *("web" if name == "source" else 777 for name in names))]


def test_show_create_queue_makes_a_dead_letter_queue_with_its_states(sql, queue):
    q = queue("body TEXT")
    sql(f"INSERT INTO {q} (body) VALUES ('a'), ('b')")
    assert sql(f"REJECT {q} 1") == 1
    moved(sql, q, 1)
    shown = sql.row(f"SHOW CREATE QUEUE {q}_dead")[1]
    sql(f"DROP QUEUE {q}_dead")
    sql(shown)
    assert sql.row(f"SHOW CREATE QUEUE {q}_dead")[1] == shown
    assert sql(f"REJECT {q} 2") == 1
    moved(sql, q, 1)
    assert sql.rows(f"SELECT id, source FROM {q}_dead WHERE state = 'dead'") == [(2, q)]


def test_a_message_that_a_foreign_key_holds_stays_alone(sql, queue, name):
    q = queue("n INT", purge_after="'1s'", poll_interval="'1s'")
    sql(f"CREATE TABLE {name} (message BIGINT, FOREIGN KEY (message) REFERENCES {q} (id))")
    try:
        sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(30)))
        held = sql.value(f"SELECT id FROM {q} WHERE n = 7")
        sql(f"INSERT INTO {name} VALUES ({held})")
        sql(f"ACK {q} WHERE n >= 0")
        wait_until(lambda: sql.column(f"SELECT id FROM {q}") == [held], what="the others to be purged")
        wait_until(lambda: _problem(sql, q), what="the problem to be told")
        assert "1 acked messages cannot be deleted" in _problem(sql, q)
    finally:
        sql(f"DROP TABLE {name}")


def _problem(sql, q):
    return next(row["problem"] for row in sql.named("SHOW QUEUES") if row["queue"] == q)


def test_dead_letters_of_which_one_takes_another_with_it(sql, queue, name):
    sql(
        f"CREATE QUEUE {name} (parent BIGINT, n INT, FOREIGN KEY (parent) REFERENCES {name} (id) ON DELETE CASCADE)"
        " WITH (poll_interval = '1s')"
    )
    try:
        sql(f"INSERT INTO {name} (n) VALUES (1)")
        root = sql.value(f"SELECT id FROM {name}")
        sql(f"INSERT INTO {name} (parent, n) VALUES ({root}, 2), (NULL, 3)")
        sql(f"REJECT {name} WHERE n > 0")
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {name}") == 0, what="all to be moved")
        assert sorted(sql.column(f"SELECT n FROM {name}_dead")) == [1, 2, 3]
    finally:
        sql(f"DROP QUEUE IF EXISTS {name}")
        sql(f"DROP QUEUE IF EXISTS {name}_dead")

"""Event groups: one message that is enqueued when all messages of a group are done, once and with the last ack."""

from __future__ import annotations

import threading
import time
from random import Random

import mysql.connector
import pymysql
import pytest
from servers import NS, Sql, wait_until
from slowness import scaled

pytestmark = pytest.mark.no_proxy_accounts

PARKED = (1 << 63) - 1


@pytest.fixture
def parts(queue):
    """A queue of parts of orders."""
    return queue("order_id BIGINT, payload VARCHAR(50)", group_key="'order_id'")


@pytest.fixture
def done(queue):
    """A queue that is told of orders whose parts are all done."""
    return queue("order_id BIGINT, note VARCHAR(50) DEFAULT 'done'")


@pytest.fixture
def order(sql, parts, done):
    """Order 42, of three parts with the ids 1 to 3; what follows has the id 1 too."""
    sql("BEGIN")
    assert sql(f"INSERT INTO {parts} (order_id, payload) VALUES (42, 'a'), (42, 'b'), (42, 'c')") == 3
    assert sql(f"INSERT INTO {done} (order_id) VALUES (42) AFTER GROUP 42 OF {parts}") == 1
    sql("COMMIT")
    return parts, done


def sent(sql, done):
    """What has been enqueued."""
    return sql.column(f"SELECT order_id FROM {done} WHERE time_next < {PARKED} ORDER BY id")


ENDINGS = [
    "ACK {q} {id}",
    "ACK {q} WHERE id = {id}",
    "UPDATE {q} SET state = 'acked' WHERE id = {id}",
    "UPDATE {q} SET time_acked = 1700000000000000000, time_next = NULL WHERE id IN ({id}) AND time_acked IS NULL",
    "UPDATE {q} AS p SET p.time_acked = 5, p.time_next = NULL WHERE p.id = {id} ORDER BY p.id LIMIT 1",
    "DELETE FROM {q} WHERE id = {id}",
    "DELETE FROM {q} WHERE id >= {id} ORDER BY id LIMIT 1",
]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_last_message_to_end_sends_what_follows(sql, connect, order, stream, ending, in_transaction):
    parts, done = order
    receiver = stream(f"SELECT order_id, note, epoch FROM STREAM {done}")
    other = connect(autocommit=not in_transaction)
    for number in (1, 2, 3):
        assert sent(sql, done) == []
        assert other(ending.format(q=parts, id=number)) == 1
        if in_transaction:
            assert sent(sql, done) == []  # others do not see it before the ack holds
            other("COMMIT")
    assert sent(sql, done) == [42]
    assert receiver.wait(1) == [(42, "done", 1)]
    assert other(ending.format(q=parts, id=3)) == 0
    other("COMMIT")
    assert sql("ACK " + done + " 1") == 1
    assert sql.value(f"SELECT COUNT(*) FROM queuegate_groups WHERE queue_name = '{parts}'") == 0


def test_nothing_is_sent_before_and_the_message_can_be_seen(sql, order):
    parts, done = order
    assert sql.rows(f"SELECT id, order_id, state, time_next FROM {done}") == [(1, 42, "to_be_fired", PARKED)]
    assert sql.rows(f"SELECT id FROM STREAM {done} LIMIT 1 WAIT 1") == []
    assert sql.rows(f"SELECT id FROM STREAM {parts} LIMIT 3") == [(1,), (2,), (3,)]  # delivered is not done


def test_a_rolled_back_ack_sends_nothing(sql, connect, order):
    parts, done = order
    client = connect(autocommit=False)
    assert client(f"ACK {parts} 1, 2, 3") == 3
    assert sent(client, done) == [42]
    client("ROLLBACK")
    assert sent(sql, done) == []
    assert client(f"ACK {parts} 1, 2") == 2
    client("SAVEPOINT before_the_last")
    assert client(f"ACK {parts} 3") == 1
    client("ROLLBACK TO SAVEPOINT before_the_last")
    client("COMMIT")
    assert sent(sql, done) == []
    assert sql(f"ACK {parts} 3") == 1
    assert sent(sql, done) == [42]


def test_a_registration_that_is_rolled_back_never_was(sql, connect, order):
    parts, done = order
    client = connect(autocommit=False)
    client(f"INSERT INTO {done} (order_id) VALUES (43) AFTER GROUP 42 OF {parts}")
    client("ROLLBACK")
    assert sql(f"ACK {parts} 1, 2, 3") == 3
    assert sent(sql, done) == [42]


def test_a_group_that_is_done_already_sends_at_once(sql, parts, done, stream):
    receiver = stream(f"SELECT order_id FROM STREAM {done}")
    sql(f"INSERT INTO {parts} (order_id) VALUES (1)")
    sql(f"ACK {parts} 1")
    assert sql.insert_id(f"INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 1 OF {parts}") == 1
    sql(f"INSERT INTO {done} (order_id) VALUES (2) AFTER GROUP 2 OF {parts}")  # a group that nobody has heard of
    assert receiver.wait(2) == [(1,), (2,)]


def test_messages_added_later_count(sql, order):
    parts, done = order
    sql(f"ACK {parts} 1, 2")
    sql(f"INSERT INTO {parts} (order_id) VALUES (42)")
    sql(f"ACK {parts} 3")
    assert sent(sql, done) == []
    sql(f"ACK {parts} 4")
    assert sent(sql, done) == [42]


def test_several_messages_may_wait_and_other_groups_do_not_matter(sql, order, queue):
    parts, done = order
    other = queue("n INT")
    sql(f"INSERT INTO {parts} (order_id) VALUES (43), (NULL)")
    sql(f"INSERT INTO {done} (order_id) VALUES (43) AFTER GROUP 43 OF {parts}")
    sql(f"INSERT INTO {other} SET n = 7 AFTER GROUP '42' OF {parts};")
    assert sql(f"ACK {parts} WHERE order_id = 42") == 3
    assert sent(sql, done) == [42]
    assert sql.rows(f"SELECT n FROM STREAM {other} LIMIT 1 WAIT 10") == [(7,)]
    assert sql(f"ACK {parts} WHERE id > 0") == 2
    assert sent(sql, done) == [42, 43]


def test_what_follows_may_follow_in_the_same_queue_and_be_a_group_again(sql, parts):
    sql(f"INSERT INTO {parts} (order_id) VALUES (1), (1)")
    sql(f"INSERT INTO {parts} (order_id, payload) VALUES (2, 'then') AFTER GROUP 1 OF {parts}")
    sql(f"INSERT INTO {parts} (order_id, payload) VALUES (3, 'last') AFTER GROUP 2 OF {parts}")
    assert sql.rows(f"SELECT id FROM STREAM {parts} LIMIT 5 NOWAIT") == [(1,), (2,)]
    sql(f"ACK {parts} 1, 2")
    assert sql.rows(f"SELECT payload FROM STREAM {parts} LIMIT 5 NOWAIT") == [("then",)]
    sql(f"ACK {parts} 3")
    assert sql.rows(f"SELECT payload FROM STREAM {parts} LIMIT 5 NOWAIT") == [("last",)]
    assert sql(f"INSERT INTO {parts} (order_id) VALUES (9)") == 1
    errno, text = sql.error(f"INSERT INTO {parts} (order_id) VALUES (9) AFTER GROUP 9 OF {parts}")
    assert (errno, "wait for itself" in text) == (1235, True)
    assert sql.value(f"SELECT COUNT(*) FROM {parts} WHERE order_id = 9") == 1


def test_a_time_of_its_own_holds_after_the_group_is_done(sql, order):
    parts, done = order
    later = time.time_ns() // 1000 * 1000 + 3600 * NS
    sql(f"INSERT INTO {done} (order_id, time_scheduled) VALUES (7, {later}) AFTER GROUP 42 OF {parts}")
    sql(f"ACK {parts} 1, 2, 3")
    assert sql.value(f"SELECT time_next FROM {done} WHERE order_id = 7") == later
    assert sql.column(f"SELECT order_id FROM STREAM {done} LIMIT 2 NOWAIT") == [42]


def test_groups_by_text(sql, queue, done):
    parts = queue("job VARCHAR(40)", group_key="'job'")
    sql(f"INSERT INTO {parts} (job) VALUES ('Größe ''1'''), ('größe ''1''')")
    sql(f"INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 'Größe ''1''' OF {parts}")
    sql(f"ACK {parts} 1")
    first = sql.value(f"SELECT COUNT(*) FROM {parts} WHERE job = 'Größe ''1''' AND time_acked IS NULL")
    assert sent(sql, done) == ([] if first else [1])
    sql(f"ACK {parts} 2")
    assert sent(sql, done) == [1]


def test_a_time_that_the_table_cannot_keep_is_refused(sql, parts, name):
    """A message that waits for its group is parked by `time_next`, so its own time needs another column."""
    sql(
        f"CREATE TABLE {name}_v (id BIGINT NOT NULL, priority TINYINT NOT NULL DEFAULT 50, epoch BIGINT NOT NULL"
        " DEFAULT 0, time_next BIGINT DEFAULT 0, time_acked BIGINT, body VARCHAR(20), PRIMARY KEY (id),"
        " KEY a (time_acked, priority, time_next)) COMMENT='vitess_message,vt_ack_wait=30,vt_purge_after=86400,"
        "vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30'"
    )
    errno, text = sql.error(f"INSERT INTO {name}_v (id, body) VALUES (1, 'x') AFTER GROUP 1 OF {parts} DELAY 5")
    assert (errno, "needs time_scheduled" in text) == (1235, True), text
    assert sql(f"INSERT INTO {name}_v (id, body) VALUES (1, 'x') AFTER GROUP 1 OF {parts}") == 1
    sql(f"DROP QUEUE {name}_v")


def test_groups_by_members(sql, queue, done):
    parts = queue("job ENUM('b', 'a')", group_key="'job'")
    sql(f"INSERT INTO {parts} (job) VALUES ('a'), ('b'), ('a')")
    sql(f"INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 'a' OF {parts}")
    sql(f"ACK {parts} 1, 2")
    assert sent(sql, done) == []
    sql(f"ACK {parts} 3")
    assert sent(sql, done) == [1]


def test_ids_of_ones_own(sql, parts, queue):
    done = queue("id VARCHAR(36) PRIMARY KEY, n INT")
    sql(f"INSERT INTO {parts} (order_id) VALUES (1)")
    assert sql(f"INSERT INTO {done} (id, n) VALUES ('a''b', 1) AFTER GROUP 1 OF {parts}") == 1
    assert sql.error(f"INSERT INTO {done} (n) VALUES (1) AFTER GROUP 1 OF {parts}")[0] == 1235
    assert sql.error(f"INSERT INTO {done} (id, n) VALUES (UUID(), 1) AFTER GROUP 1 OF {parts}")[0] == 1235
    sql(f"ACK {parts} 1")
    assert sql.rows(f"SELECT id FROM STREAM {done} LIMIT 1 WAIT 10") == [("a'b",)]


REFUSED = [
    ("INSERT INTO {done} (order_id) VALUES (1), (2) AFTER GROUP 42 OF {parts}", 1235, "one"),
    ("INSERT INTO {done} (order_id) SELECT 1 AFTER GROUP 42 OF {parts}", 1235, "not INSERT ... SELECT"),
    ("INSERT INTO {done} (order_id, time_next) VALUES (1, 0) AFTER GROUP 42 OF {parts}", 1235, "time_scheduled"),
    ("INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 42 OF {done}", 1235, "group_key"),
    ("INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 42 OF nope", 1146, "nope"),
    ("INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 'x' OF {parts}", 1366, "integer"),
    ("INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 1 + 1 OF {parts}", 1064, "near"),
    ("INSERT INTO {done} (nope) VALUES (1) AFTER GROUP 42 OF {parts}", 1054, "nope"),
    ("INSERT INTO {done} (id, order_id) VALUES (1, 1) AFTER GROUP 42 OF {parts}", 1062, ""),
    ("INSERT INTO {done} (order_id) VALUES (?) AFTER GROUP 42 OF {parts}", 1064, ""),
    ("REPLACE INTO {done} (order_id) VALUES (1) AFTER GROUP 42 OF {parts}", 1235, "REPLACE"),
]


@pytest.mark.parametrize(("statement", "errno", "hint"), REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(sql, order, statement, errno, hint):
    parts, done = order
    number, text = sql.error(statement.format(parts=parts, done=done))
    assert number == errno, text
    assert hint in text
    assert sql.value(f"SELECT COUNT(*) FROM {done}") == 1
    assert sql.value(f"SELECT COUNT(*) FROM queuegate_groups WHERE queue_name = '{parts}'") == 1


def test_a_part_that_fails_takes_the_ack_back(sql, connect, order):
    """The message that waits cannot be made due: somebody has made it a duplicate by a unique key on time_next."""
    parts, done = order
    sql(f"ALTER TABLE {done} ADD COLUMN due_once TINYINT AS (time_next < {PARKED}) STORED, ADD UNIQUE (due_once)")
    sql(f"INSERT INTO {done} (order_id) VALUES (1)")
    client = connect(autocommit=False)
    client(f"INSERT INTO {parts} (order_id) VALUES (50)")
    assert client.error(f"ACK {parts} 1, 2, 3")[0] == 1062
    client("COMMIT")  # of what was before
    assert sql.value(f"SELECT COUNT(*) FROM {parts} WHERE time_acked IS NULL") == 4
    assert sql.error(f"ACK {parts} 1, 2, 3")[0] == 1062
    assert sql.value(f"SELECT COUNT(*) FROM {parts} WHERE time_acked IS NULL") == 4
    sql(f"DELETE FROM {done} WHERE order_id = 1")
    assert sql(f"ACK {parts} 1, 2, 3") == 3
    assert sent(sql, done) == [42]


def test_answers_are_those_of_the_clients_own_statement(sql, order):
    parts, done = order
    assert sql.insert_id(f"INSERT INTO {done} (order_id) VALUES (8) AFTER GROUP 42 OF {parts}") == 2
    assert sql.value("SELECT LAST_INSERT_ID()") == 2
    assert sql(f"ACK {parts} 3, 999") == 1
    assert sql(f"UPDATE {parts} SET state = 'acked', payload = 'x' WHERE id <= 2 ORDER BY id DESC LIMIT 1") == 1
    assert sql.column(f"SELECT id FROM {parts} WHERE time_acked IS NULL") == [1]
    assert sql(f"INSERT IGNORE INTO {done} (id, order_id) VALUES (1, 9) AFTER GROUP 42 OF {parts}") == 0
    assert [row[1] for row in sql.rows("SHOW WARNINGS")] == [1062]
    assert sql(f"DELETE FROM {parts}") == 3
    assert sent(sql, done) == [42, 8]


def test_the_database_with_autocommit_off_keeps_the_transaction_open(connect, sql, order):
    parts, _ = order
    client = connect(autocommit=False)
    client(f"ACK {parts} 1, 2, 3")  # opens it
    client("ROLLBACK")
    assert sql.value(f"SELECT COUNT(*) FROM {parts} WHERE time_acked IS NULL") == 3


def test_what_follows_in_a_queue_that_was_renamed_is_kept(sql, order):
    parts, done = order
    sql(f"RENAME TABLE {done} TO {done}_away")
    assert sql(f"ACK {parts} 1, 2, 3") == 3
    assert sql.value(f"SELECT COUNT(*) FROM queuegate_groups WHERE queue_name = '{parts}'") == 1
    sql(f"RENAME TABLE {done}_away TO {done}")
    sql(f"ALTER QUEUE {parts} SET (poll_interval = '1s')")
    sql(f"INSERT INTO {parts} (order_id) VALUES (42)")
    assert sql(f"ACK {parts} 4") == 1  # the next that is done sends it; so would the scan
    assert sql.rows(f"SELECT order_id FROM STREAM {done} LIMIT 1 WAIT 10") == [(42,)]


PREPARED = [
    "ACK {q} %s",
    "UPDATE {q} SET state = 'acked' WHERE id = %s",
    "UPDATE {q} SET time_acked = 5, time_next = NULL WHERE id IN (%s) AND time_acked IS NULL",
    "DELETE FROM {q} WHERE id = %s",
    "CALL queue_ack('{q}', %s)",
]


@pytest.mark.parametrize("ending", PREPARED)
def test_prepared_statements(gate, sql, parts, queue, ending):
    done = queue("order_id BIGINT, note VARCHAR(100), data VARBINARY(20)")
    options = {"host": "127.0.0.1", "port": gate.port, "user": "root", "password": "", "database": gate.database}
    note = "Gr\u00fc\u00dfe \\ 'quoted' ? "
    with mysql.connector.connect(**options, use_pure=True, autocommit=True) as connection:
        register, end = (connection.cursor(prepared=True) for _ in range(2))
        for order in (1, 2):
            sql(f"INSERT INTO {parts} (order_id) VALUES ({order}), ({order})")
            statement = f"INSERT INTO {done} (order_id, note, data) VALUES (%s, %s, %s) AFTER GROUP %s OF {parts}"
            register.execute(statement, (order, note, b"\x00\xff'", order))
            assert (register.rowcount, register.lastrowid) == (1, order)
        for number in (1, 2, 3, 4):
            assert sent(sql, done) == [1] * (number > 2)
            end.execute(ending.format(q=parts), (number,))
            assert end.rowcount in (1, -1)  # the driver does not say it of CALL
    assert sql.rows(f"SELECT order_id, note, data FROM STREAM {done} LIMIT 3 NOWAIT") == [
        (1, note, b"\x00\xff'"),
        (2, note, b"\x00\xff'"),
    ]


def test_a_bound_id_and_a_bound_text(gate, sql, queue):
    parts = queue("job VARCHAR(40)", group_key="'job'")
    done = queue("id VARCHAR(36) PRIMARY KEY, n INT")
    sql(f"INSERT INTO {parts} (job) VALUES ('a\\'b')")
    options = {"host": "127.0.0.1", "port": gate.port, "user": "root", "password": "", "database": gate.database}
    with mysql.connector.connect(**options, use_pure=True, autocommit=True) as connection:
        cursor = connection.cursor(prepared=True)
        cursor.execute(f"INSERT INTO {done} (id, n) VALUES (%s, 1) AFTER GROUP %s OF {parts}", ("it's", "a'b"))
        cursor.execute(f"ACK {parts} %s, %s", (7, 1))
        assert cursor.rowcount == 1
    assert sql.rows(f"SELECT id, n FROM STREAM {done} LIMIT 3 NOWAIT") == [("it's", 1)]


def test_a_placeholder_beside_a_word(gate, sql, order):
    parts, done = order
    options = {"host": "127.0.0.1", "port": gate.port, "user": "root", "password": "", "database": gate.database}
    with mysql.connector.connect(**options, use_pure=True, autocommit=True) as connection:
        cursor = connection.cursor(prepared=True)
        cursor.execute(f"ACK {parts} WHERE id=%sOR id=%sOR(id=%s)", (1, 2, 3))
        assert cursor.rowcount == 3
    assert sent(sql, done) == [42]


def test_functions_end_messages_of_groups_too(sql, order):
    parts, done = order
    assert sql.value(f"SELECT queue_ack('{parts}', 1, 2, 99)") == 2
    assert sent(sql, done) == []
    assert sql(f"CALL queue_ack('{parts}', 3)") == 1
    assert sent(sql, done) == [42]


def test_what_is_rejected_or_given_back_is_not_done(sql, order):
    parts, done = order
    assert sql(f"ACK {parts} 1, 2") == 2
    assert sql(f"REJECT {parts} 3 REASON 'never'") == 1
    assert sent(sql, done) == []
    sql(f"INSERT INTO {parts} (order_id) VALUES (42)")
    assert sql(f"ACK {parts} 4") == 1
    assert sent(sql, done) == []


def test_a_dead_letter_is_not_done_until_it_is_acked(sql, queue, done):
    parts = queue("order_id BIGINT, payload VARCHAR(50)", group_key="'order_id'", poll_interval="'1s'")
    sql(f"INSERT INTO {parts} (order_id) VALUES (42), (42), (42)")
    sql(f"INSERT INTO {done} (order_id) VALUES (42) AFTER GROUP 42 OF {parts}")
    sql(f"CREATE QUEUE {parts}_dead (order_id BIGINT, payload VARCHAR(50))")
    sql("BEGIN")
    sql(f"INSERT INTO {parts}_dead (order_id) SELECT order_id FROM {parts} WHERE id = 1")
    sql(f"DELETE FROM {parts} WHERE id = 1")
    sql("COMMIT")
    assert sql(f"ACK {parts} 2, 3") == 2
    assert sent(sql, done) == []
    assert sql.rows(f"SELECT order_id FROM STREAM {done} LIMIT 1 WAIT 2") == []  # the scan has been
    assert sql(f"ACK {parts}_dead 1") == 1
    assert sql.rows(f"SELECT order_id FROM STREAM {done} LIMIT 1 WAIT 15") == [(42,)]
    sql(f"DROP QUEUE {parts}_dead")


def test_dead_letters_without_the_groups_column_hold_every_group(sql, queue, done):
    dead, other = queue("payload VARCHAR(50)"), queue("payload VARCHAR(50)")
    parts = queue("order_id BIGINT", group_key="'order_id'", poll_interval="'1s'")
    for statement in (
        f"ALTER QUEUE {parts} SET (dead_letter = '{dead}')",
        f"CREATE QUEUE {parts}_2 (n INT) WITH (group_key = 'n', dead_letter = '{dead}')",
    ):
        number, text = sql.error(statement)
        assert (number, f"the dead-letter queue '{dead}' has no column" in text) == (1231, True)
    sql(f"ALTER TABLE {dead} ADD COLUMN order_id BIGINT")
    sql(f"ALTER QUEUE {parts} SET (dead_letter = '{dead}')")
    sql(f"ALTER TABLE {dead} DROP COLUMN order_id")
    sql(f"INSERT INTO {parts} (order_id) VALUES (1), (1), (-5)")
    for group in (1, -5):
        sql(f"INSERT INTO {done} (order_id) VALUES ({group}) AFTER GROUP {group} OF {parts}")
    assert sql(f"REJECT {parts} 1") == 1
    wait_until(lambda: sql.column(f"SELECT id FROM {dead}") == [1], what="the dead letter to be moved")
    assert sql(f"ACK {parts} 2, 3") == 2
    assert sql.rows(f"SELECT order_id FROM STREAM {done} LIMIT 1 WAIT 2") == []  # the scan has been
    assert sql(f"ACK {dead} 1") == 1
    wait_until(lambda: sent(sql, done) == [1, -5], what="the scan")
    assert sql(f"ALTER QUEUE {parts} SET (dead_letter = '{other}', group_key = DEFAULT)") == 0


def test_a_message_that_came_back_from_the_dead_completes_its_group(sql, order):
    parts, done = order
    assert sql(f"REJECT {parts} 1 REASON 'for now'") == 1
    wait_until(lambda: sql.column(f"SELECT id FROM {parts} ORDER BY id") == [2, 3], what="the dead letter to be moved")
    assert sql(f"ACK {parts} 2, 3") == 2
    assert sent(sql, done) == []
    assert sql(f"REDRIVE {parts}_dead") == 1
    assert sent(sql, done) == []
    assert sql(f"ACK {parts} 1") == 1
    assert sent(sql, done) == [42]
    sql(f"DROP QUEUE {parts}_dead")


def race(gate, count, work):
    """Run `work(client, number)` in that many threads at the same moment, each on its own connection."""
    barrier, failures = threading.Barrier(count), []

    def run(number):
        client = Sql(gate.connect())
        try:
            barrier.wait(20)
            work(client, number)
        except BaseException as error:
            failures.append(error)
        finally:
            client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(scaled(60))
    assert not failures, failures


def retried(client, *statements):
    """Run a transaction again while it is the victim of a deadlock, as every client of a database must."""
    for _ in range(50):
        try:
            for statement in statements:
                client(statement)
            return
        except pymysql.err.OperationalError as error:
            if error.args[0] not in (1213, 1205):
                raise
            client("ROLLBACK")
    raise AssertionError("fifty deadlocks in a row")


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("explicit", [False, True])
def test_the_last_acks_at_the_same_moment_send_it_once(gate, sql, parts, done, level, explicit):
    orders, size = 12, 4
    for number in range(orders):
        sql("BEGIN")
        sql(f"INSERT INTO {parts} (order_id) VALUES " + ", ".join([f"({number})"] * size))
        sql(f"INSERT INTO {done} (order_id) VALUES ({number}) AFTER GROUP {number} OF {parts}")
        sql("COMMIT")

    def ack(client, place):
        client(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        for number in range(orders):
            statement = f"ACK {parts} {number * size + place + 1}"
            retried(client, *(("BEGIN", statement, "COMMIT") if explicit else (statement,)))

    race(gate, size, ack)
    assert sql.value(f"SELECT COUNT(*) FROM {parts} WHERE time_acked IS NULL") == 0
    assert sorted(sent(sql, done)) == list(range(orders))
    assert sorted(sql.column(f"SELECT order_id FROM STREAM {done} LIMIT {orders + 1} NOWAIT")) == list(range(orders))


def test_a_registration_and_the_last_ack_at_the_same_moment(gate, sql, parts, done):
    orders = 20
    sql(f"INSERT INTO {parts} (order_id) VALUES " + ", ".join(f"({number})" for number in range(orders)))

    def work(client, place):
        for number in range(orders):
            if place:
                retried(client, f"ACK {parts} {number + 1}")
            else:
                retried(client, f"INSERT INTO {done} (order_id) VALUES ({number}) AFTER GROUP {number} OF {parts}")

    race(gate, 2, work)
    assert sent(sql, done) == list(range(orders))


def test_acks_around_the_proxy_are_found_by_the_scan(gate, sql, queue, done, place, request):
    parts = queue("order_id BIGINT", group_key="'order_id'", poll_interval="'1s'")
    sql(f"INSERT INTO {parts} (order_id) VALUES (1), (2)")
    for number in (1, 2):
        sql(f"INSERT INTO {done} (order_id) VALUES ({number}) AFTER GROUP {number} OF {parts}")
    statement = f"UPDATE {parts} SET time_acked = 5, time_next = NULL WHERE order_id = 1"
    if place == "embedded":
        sql(f"PREPARE unseen FROM '{statement}'")
        sql("EXECUTE unseen")
    else:
        with request.getfixturevalue("server_here").connect(database=gate.database) as connection:
            connection.cursor().execute(statement)
    assert sql.rows(f"SELECT order_id FROM STREAM {done} LIMIT 1 WAIT 15") == [(1,)]
    assert sql.value(f"SELECT time_next FROM {done} WHERE order_id = 2") == PARKED


def test_the_scan_sends_nothing_of_a_group_that_is_open(sql, queue):
    """Though the table of groups takes its value for that of another, which is done."""
    parts = queue("job VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", group_key="'job'", poll_interval="'1s'")
    done = queue("job VARCHAR(9)")
    sql(f"INSERT INTO {parts} (job) VALUES ('A'), ('a'), ('')")
    for value in ("A", "a", ""):
        sql(f"INSERT INTO {done} (job) VALUES ('{value}') AFTER GROUP '{value}' OF {parts}")
    sql(f"UPDATE {parts} SET job = 'b' WHERE id <> 2")
    parked = f"SELECT id FROM {done} WHERE time_next = {PARKED}"
    wait_until(lambda: sql.column(parked) == [2], what="the scan")
    sql(f"ACK {parts} 2")
    assert sql.column(parked) == []


def test_a_queue_without_groups_knows_nothing_of_them(sql, queue, done):
    plain = queue("order_id BIGINT")
    sql(f"INSERT INTO {plain} (order_id) VALUES (1)")
    errno, text = sql.error(f"INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 1 OF {plain}")
    assert (errno, "ALTER QUEUE" in text) == (1235, True)
    sql(f"ALTER QUEUE {plain} SET (group_key = 'order_id')")
    assert sql(f"INSERT INTO {done} (order_id) VALUES (1) AFTER GROUP 1 OF {plain}") == 1
    assert sent(sql, done) == []
    sql(f"ACK {plain} 1")
    assert sent(sql, done) == [1]


def random_work(parts, done, rounds, seed):
    """A client that enqueues, registers, ends and rolls back at random, within a few groups."""

    def work(client, place):
        random = Random(f"{seed} {place}")
        client("SET SESSION TRANSACTION ISOLATION LEVEL " + ("READ COMMITTED", "REPEATABLE READ")[place % 2])
        for _ in range(rounds):
            statements = [step(client, random) for _ in range(random.randrange(1, 4))]
            ends = "ROLLBACK" if random.random() < 0.2 else "COMMIT"
            try:
                for statement in ("BEGIN", *statements, ends) if len(statements) > 1 else statements:
                    client(statement)
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1213, 1205):
                    raise
                client("ROLLBACK")

    def step(client, random):
        group, what = random.randrange(10), random.random()
        if what < 0.3:
            return f"INSERT INTO {parts} (order_id) VALUES " + ", ".join([f"({group})"] * random.randrange(1, 4))
        if what < 0.45:
            return f"INSERT INTO {done} (order_id) VALUES ({group}) AFTER GROUP {group} OF {parts}"
        if what < 0.6:
            return f"ACK {parts} WHERE order_id = {group}"
        ids = client.column(f"SELECT id FROM {parts} WHERE time_acked IS NULL") or [0]
        chosen = ", ".join(str(random.choice(ids)) for _ in range(2))
        return random.choice((f"ACK {parts} {chosen}", f"DELETE FROM {parts} WHERE id IN ({chosen})"))

    return work


@pytest.mark.parametrize("seed", [1, 4])
def test_random_transactions_leave_nothing_behind(gate, sql, queue, seed):
    """Whatever happens at the same moment: nothing waits for a group that is done, and what waits is registered."""
    parts = queue("order_id BIGINT", group_key="'order_id'", poll_interval="'1h'")
    done = queue("order_id BIGINT", poll_interval="'1h'")
    race(gate, 4, random_work(parts, done, 40, seed))
    held = sql.column(f"SELECT order_id FROM {done} WHERE time_next = {PARKED} ORDER BY order_id")
    assert set(held) <= set(sql.column(f"SELECT order_id FROM {parts} WHERE time_acked IS NULL"))
    waiting = f"SELECT group_value FROM queuegate_groups WHERE queue_name = '{parts}' ORDER BY group_value"
    assert [int(value) for value in sql.column(waiting)] == held
    sql(f"ACK {parts} WHERE id > 0")
    assert sql.column(waiting) == []
    assert sql.value(f"SELECT COUNT(*) FROM {done} WHERE time_next = {PARKED}") == 0

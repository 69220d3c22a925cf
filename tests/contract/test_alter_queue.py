"""ALTER QUEUE, and what else changes a queue's table under open streams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest
from servers import Sql, wait_until
from slowness import scaled

pytestmark = pytest.mark.no_proxy_accounts


def problem(sql, q):
    """The last column of SHOW QUEUES."""
    return sql.row(f"SHOW QUEUES LIKE '{q}'")[-1]


def test_an_option_holds_at_once_and_streams_go_on(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    receiver.wait(1)
    sql(f"ALTER QUEUE {q} SET (ack_wait = '100ms', min_backoff = 0)")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    rows = receiver.wait(3)  # the second comes again by its short lease, the first waits for its hour
    assert rows[:3] == [(1,), (2,), (2,)]
    assert "ack_wait = '0.1s'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]


def test_options_keep_what_is_not_named(sql, queue):
    q = queue("n INT", batch_size=7, max_rate=50)
    sql(f"ALTER QUEUE {q} SET (prefetch = 500)")
    text = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    assert "batch_size = 7" in text and "prefetch = 500" in text and "max_rate = '50'" in text
    sql(f"ALTER QUEUE {q} SET (batch_size = DEFAULT, max_rate = NULL)")
    text = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    assert "batch_size = 100" in text and "prefetch = 500" in text and "max_rate" not in text


def test_the_bound_of_the_backoff_is_never_moved_unasked(sql, queue):
    q = queue("n INT", ack_wait="'1s'", min_backoff="'ack_wait'", max_backoff="'10s'")
    for change in ("ack_wait = '20s'", "min_backoff = '11s'", "max_backoff = '500ms'"):
        with pytest.raises(pymysql.MySQLError, match="max_backoff is shorter") as error:
            sql(f"ALTER QUEUE {q} SET ({change})")
        assert error.value.args[0] == 1231
    assert "ack_wait = '1s', min_backoff = 'ack_wait', max_backoff = '10s'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]
    sql(f"ALTER QUEUE {q} SET (ack_wait = '2h', max_backoff = DEFAULT)")  # which gives way, as in CREATE QUEUE
    assert "max_backoff = '7200s'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]


def test_shown_options_make_the_same_queue_under_other_defaults(new_gate, sql, queue):
    q = queue("n INT", prefetch=500)
    shown = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    other = new_gate(queue_defaults={"ack_wait": "1s", "min_backoff": "2s", "batch_size": 3, "max_attempts": 4}).start()
    client = Sql(other.connect())
    client(shown)
    assert client.row(f"SHOW CREATE QUEUE {q}")[1] == shown
    client.close()


@pytest.mark.parametrize(
    ("change", "number", "told"),
    [
        ("SET (colour = 'red')", 1231, "ack_wait"),
        ("SET (max_backoff = '0.5s')", 1231, "max_backoff"),
        ("SET (order_key = 'nope')", 1231, "nope"),
        ("SET (order_key = 'body')", 1231, "VARCHAR"),
        ("SET (message_cols = 'id|nope')", 1231, "nope"),
        ("SET (max_rate = 0)", 1231, "max_rate"),
        ("SET ack_wait = 3", 1064, "SET (option"),
        ("STOP", 1064, "PAUSE"),
    ],
)
def test_what_is_refused_changes_nothing(sql, queue, change, number, told):
    q = queue("n INT, body TEXT", ack_wait="'10s'")
    before = sql.row(f"SHOW CREATE TABLE {q}")
    errno, text = sql.error(f"ALTER QUEUE {q} {change}")
    assert (errno, told in text) == (number, True), text
    assert sql.row(f"SHOW CREATE TABLE {q}") == before


def test_what_is_no_queue_is_not_altered(sql, name):
    assert sql.error(f"ALTER QUEUE {name} PAUSE")[0] == 1146
    sql(f"CREATE TABLE {name} (a INT)")
    assert sql.error(f"ALTER QUEUE {name} PAUSE")[0] == 1347
    sql(f"DROP TABLE {name}")


def test_a_paused_queue_delivers_nothing_and_resumes(sql, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    receiver.wait(1)
    sql(f"ALTER QUEUE {q} PAUSE")
    assert "paused" in problem(sql, q)
    sql(f"INSERT INTO {q} (n) VALUES (2), (3)")
    assert sql(f"ACK {q} 1, 2") == 2
    assert sql.rows(f"SELECT n FROM STREAM {q} NOWAIT") == []
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 5 WAIT 0.3") == []
    assert not receiver.ended.is_set() and receiver.rows == [(1,)]
    sql(f"ALTER QUEUE {q} RESUME")
    assert receiver.wait(2) == [(1,), (3,)]
    assert problem(sql, q) is None


def test_a_queue_may_be_made_paused(sql, queue, stream):
    q = queue("n INT", paused=1)
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    assert sql.rows(f"SELECT n FROM STREAM {q} NOWAIT") == []
    sql(f"ALTER QUEUE {q} SET (paused = 0)")
    receiver.wait(1)


def test_a_waiting_result_is_answered_when_the_queue_resumes(sql, queue, connect):
    q = queue("n INT", paused=1)
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    client = connect()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.rows, f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 30")
        wait_until(lambda: sql.row(f"SHOW QUEUES LIKE '{q}'")[2] == 1, what="the receiver")
        sql(f"ALTER QUEUE {q} RESUME")
        assert waiting.result(scaled(20)) == [(1,)]


def test_indexes_come_and_go_with_the_options_that_need_them(sql, queue):
    def keys():
        return {row[2] for row in sql.rows(f"SHOW INDEX FROM {q}")} - {"PRIMARY", "queuegate_due"}

    q = queue("tenant VARCHAR(50), other INT", order_key="'tenant'")
    assert keys() == {"queuegate_order", "queuegate_order_held"}
    sql(f"ALTER QUEUE {q} SET (order_key = 'other', max_concurrency = 3)")
    assert keys() == {"queuegate_order", "queuegate_order_held", "queuegate_held"}
    columns = [row[4] for row in sql.rows(f"SHOW INDEX FROM {q}") if row[2] == "queuegate_order"]
    assert columns == ["time_acked", "other", "id"]
    sql(f"ALTER QUEUE {q} SET (order_key = DEFAULT, max_concurrency = DEFAULT)")
    assert keys() == set()


def test_a_column_may_be_added_under_an_open_stream(sql, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT * FROM STREAM {q}")
    sql(f"ALTER TABLE {q} ADD COLUMN extra VARCHAR(10) DEFAULT 'x' FIRST")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert receiver.wait(1) == [(1, 1)]
    assert sql.rows(f"SELECT extra, n FROM STREAM {q} NOWAIT") == []
    sql(f"INSERT INTO {q} (n, extra) VALUES (2, 'y')")
    assert receiver.wait(2) == [(1, 1), (2, 2)]


def test_a_column_that_a_stream_needs_ends_it_when_dropped(sql, queue, stream):
    q = queue("n INT, m INT")
    needs, needs_not = stream(f"SELECT m FROM STREAM {q}"), stream(f"SELECT n FROM STREAM {q}")
    sql(f"ALTER TABLE {q} DROP COLUMN m")
    error = needs.wait_end()
    assert isinstance(error, pymysql.err.MySQLError) and error.args[0] == 1054
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert needs_not.wait(1) == [(1,)]


@pytest.mark.parametrize(
    "change", ["DROP TABLE {q}", "DROP QUEUE {q}", "RENAME TABLE {q} TO {q}_r", "ALTER TABLE {q} RENAME {q}_r"]
)
def test_a_table_that_goes_ends_its_streams(sql, queue, stream, change):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    sql("SET @queuegate_allow_drop_table = 1")
    sql(change.format(q=q))
    error = receiver.wait_end()
    assert isinstance(error, pymysql.err.MySQLError) and error.args[0] == 1146
    if "RENAME" in change:
        sql(f"INSERT INTO {q}_r (n) VALUES (1)")
        assert sql.rows(f"SELECT n FROM STREAM {q}_r LIMIT 1 WAIT 5") == [(1,)]
        sql(f"DROP QUEUE {q}_r")


def test_an_ordered_queue_without_its_column_is_not_served(sql, queue, stream):
    """Better not delivered than delivered in any order."""
    q = queue("n INT, m INT", order_key="'m'")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    sql(f"ALTER TABLE {q} DROP COLUMN m")
    assert receiver.wait_end() is not None
    assert "order_key" in problem(sql, q)
    assert sql.error(f"SELECT n FROM STREAM {q} NOWAIT")[0] == 1347


_COLUMN_OPTIONS = [("order_key", "{}"), ("group_key", "{}"), ("message_cols", "id|{}")]


@pytest.mark.parametrize(("option", "value"), _COLUMN_OPTIONS)
@pytest.mark.parametrize("change", ["RENAME COLUMN customer TO client", "DROP COLUMN customer"])
def test_a_column_that_an_option_names_is_gone(sql, queue, option, value, change):
    """Nothing is delivered, what is delivered can be settled, and ALTER QUEUE mends it."""
    q = queue("customer INT NOT NULL, client_id INT", **{option: f"'{value.format('customer')}'"})
    sql(f"INSERT INTO {q} (customer) VALUES (1), (2), (3), (4)")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 3 WAIT 10")) == 3
    sql(f"ALTER TABLE {q} {change}")
    new = "client" if "RENAME" in change else "client_id"
    assert [sql(f"{verb} {q} {id_}") for id_, verb in ((1, "ACK"), (2, "NACK"), (3, "RELEASE"))] == [1, 1, 1]
    for statement in (f"SELECT id FROM STREAM {q} NOWAIT", f"EXPLAIN DELIVERY FOR {q}"):
        number, text = sql.error(statement)
        assert (number, f"ALTER QUEUE {q} SET ({option} = " in text) == (1347, True), text
    assert f"{option} = '{value.format('customer')}'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]
    assert sql.error(f"ALTER QUEUE {q} SET (max_attempts = 2)")[0] == 1231
    sql(f"ALTER QUEUE {q} SET ({option} = '{value.format(new)}')")
    assert problem(sql, q) is None or problem(sql, q) == ""
    assert sorted(sql.column(f"SELECT id FROM STREAM {q} LIMIT 2 WAIT 10")) == [3, 4]


@pytest.mark.parametrize(("option", "value"), _COLUMN_OPTIONS)
def test_such_a_queue_can_be_reset_emptied_and_dropped(sql, queue, option, value):
    q = queue("customer INT NOT NULL", **{option: f"'{value.format('customer')}'"})
    sql(f"INSERT INTO {q} (customer) VALUES (1), (2)")
    sql(f"ALTER TABLE {q} RENAME COLUMN customer TO client")
    assert sql.error(f"DROP TABLE {q}")[0] == 1347
    assert sql(f"TRUNCATE QUEUE {q}") == 2
    sql(f"ALTER QUEUE {q} SET ({option} = DEFAULT)")
    assert sql.rows(f"SELECT id FROM STREAM {q} NOWAIT") == []
    sql(f"ALTER QUEUE {q} SET ({option} = '{value.format('client')}')")
    sql(f"ALTER TABLE {q} RENAME COLUMN client TO customer")
    sql(f"DROP QUEUE {q}")
    assert q not in sql.column("SHOW QUEUES")

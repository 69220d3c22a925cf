"""Sentences of the SQL reference that the other suites do not show, each as a client sees it (docs/sql.md)."""

from __future__ import annotations

import time

import pytest
from servers import NS, wait_until


def test_columns_have_keys_checks_and_defaults_of_their_own(sql, queue):
    q = queue(
        "kind VARCHAR(10) DEFAULT 'mail', code INT NOT NULL, UNIQUE KEY once (code), KEY (kind), CHECK (code > 0)"
    )
    assert sql(f"INSERT INTO {q} (code) VALUES (1)") == 1
    assert sql.error(f"INSERT INTO {q} (code) VALUES (1)")[0] == 1062
    assert sql.error(f"INSERT INTO {q} (code) VALUES (-1)")[0] in (4025, 3819)
    assert sql.error(f"INSERT INTO {q} (kind) VALUES ('x')")[0] == 1364
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 5 NOWAIT") == [(1, "mail", 1)]
    assert {"once", "kind"} <= {row[2] for row in sql.rows(f"SHOW INDEX FROM {q}")}


def comment(sql, q):
    """What the table itself says of the queue."""
    pairs = sql.value(
        f"SELECT table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{q}'"
    ).split(",")
    assert pairs[0] == "vitess_message"
    return dict(pair.split("=") for pair in pairs[1:])


def test_defaults_are_in_the_comment_under_vitess_keys(sql, queue):
    q = queue()
    assert comment(sql, q) == {
        "vt_ack_wait": "30",
        "vt_min_backoff": "1",
        "vt_max_backoff": "3600",
        "vt_purge_after": "86400",
        "vt_batch_size": "100",
        "prefetch": "1000",
        "vt_cache_size": "10000",
        "vt_poller_interval": "30",
        "queuegate_table": q,
    }


@pytest.mark.parametrize(
    ("written", "seconds"), [("90", "90"), ("1.5", "1.5"), ("'500ms'", "0.5"), ("'45s'", "45"), ("'5m'", "300"),
                             ("'2h'", "7200"), ("'1d'", "86400")],
)  # fmt: skip
def test_durations_are_numbers_of_seconds_or_have_a_unit(sql, queue, written, seconds):
    q = queue("n INT", ack_wait=written, min_backoff=written, max_backoff=written)
    kept = comment(sql, q)
    assert (kept["vt_ack_wait"], kept["vt_min_backoff"], kept["vt_max_backoff"]) == (seconds, seconds, seconds)


def test_a_stream_with_everything(gate, sql, queue):
    q = queue("user_id BIGINT, payload VARCHAR(20)", ack_wait="'1h'", max_backoff="'2h'", min_backoff="'10s'")
    sql(f"INSERT INTO {q} (user_id, payload) VALUES (7, 'a'), (700, 'b'), (8, 'c')")
    text = f"SELECT id, user_id, payload, epoch FROM STREAM {gate.database}.{q} WHERE user_id < 100"
    assert sql.rows(f"{text} WITH (prefetch = 10, ack_wait = '2m') LIMIT 5 NOWAIT") == [(1, 7, "a", 1), (3, 8, "c", 1)]


def test_a_streams_own_ack_wait(sql, queue):
    q = queue("n INT", ack_wait="'1h'", min_backoff="'10s'", max_backoff="'10s'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    sql.rows(f"SELECT id FROM STREAM {q} WITH (ack_wait = '2m') LIMIT 1")
    sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1")
    now = time.time_ns()
    short, long = sql.column(f"SELECT time_next FROM {q} ORDER BY id")
    assert 100 * NS < short - now < 135 * NS
    assert 3580 * NS < long - now < 3615 * NS


def test_priority_and_epoch_of_waiting_messages_may_be_changed(sql, queue, stream):
    """The window is full, so the others wait in memory; what an UPDATE says of them holds all the same."""
    q = queue("n INT", poll_interval="'60s'", ack_wait="'1h'", max_backoff="'9h'")
    receiver = stream(f"SELECT n, epoch FROM STREAM {q} WITH (prefetch = 1)")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4)")
    assert receiver.wait(1) == [(1, 1)]
    assert sql(f"UPDATE {q} SET priority = 1 WHERE n = 4") == 1
    assert sql(f"UPDATE {q} SET epoch = 5 WHERE n = 2") == 1
    for number in range(1, 5):
        n = receiver.wait(number)[-1][0]
        assert sql(f"ACK {q} WHERE n = {n}") == 1
    assert receiver.rows == [(1, 1), (4, 1), (2, 6), (3, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM STREAM {q} JOIN {q} b ON 1 = 1",
        "SELECT * FROM STREAM {q} LEFT JOIN {q} b USING (id)",
        "SELECT * FROM STREAM {q}, {q} b",
        "SELECT * FROM STREAM {q} GROUP BY id",
        "SELECT * FROM STREAM {q} ORDER BY id",
        "SELECT * FROM STREAM {q} WHERE id IN (SELECT 1)",
        "SELECT * FROM STREAM {q} UNION SELECT 1",
        "SELECT * FROM STREAM {q} FOR UPDATE",
        "SELECT * FROM STREAM {q} LOCK IN SHARE MODE",
        "SELECT * FROM STREAM {q} LIMIT 5, 5",
        "SELECT * FROM STREAM {q} LIMIT 5 OFFSET 5",
        "SELECT COUNT(*) FROM STREAM {q}",
        "SELECT MAX(id) FROM STREAM {q}",
        "SELECT n + 1 FROM STREAM {q}",
        "SELECT DISTINCT n FROM STREAM {q}",
        "SELECT n AS number FROM STREAM {q}",
        "SELECT (SELECT 1) FROM STREAM {q}",
        "SELECT * FROM (SELECT * FROM STREAM {q}) t",
        "SELECT 1 WHERE EXISTS (SELECT * FROM STREAM {q})",
        "WITH t AS (SELECT * FROM STREAM {q}) SELECT * FROM t",
    ],
)
def test_what_a_stream_is_not_made_for_is_1235_and_says_so(sql, queue, text):
    q = queue("n INT")
    errno, told = sql.error(text.format(q=q))
    assert errno == 1235, (errno, told)
    assert len(told) > 20
    assert sql.value("SELECT 41 + 1") == 42


@pytest.mark.parametrize(
    "text", ["INSERT INTO {q} (n) SELECT n FROM STREAM {q}", "CREATE TABLE t AS SELECT * FROM STREAM {q}"]
)
def test_a_stream_fills_no_table(sql, queue, text):
    """There the database looks for a table called stream."""
    q = queue("n INT")
    sql("DROP TABLE IF EXISTS stream")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert sql.error(text.format(q=q))[0] == 1146
    assert sql.rows(f"SELECT id, epoch FROM {q}") == [(1, 0)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [("ACK {q} one", "one"), ("SELECT * FROM STREAM {q} LIMIT x", "x"), ("CREATE QUEUE {q}_2 n INT)", "n INT)"),
     ("ALTER QUEUE {q}\n STOP", "STOP")],
)  # fmt: skip
def test_a_syntax_error_tells_where(sql, queue, text, fault):
    q = queue("n INT")
    errno, told = sql.error(text.format(q=q))
    assert errno == 1064
    assert f"'{fault}" in told and f"line {text.count(chr(10)) + 1}" in told, told


def test_an_ack_of_a_row_that_is_locked_is_1205(sql, connect, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    holder, waiting = connect(autocommit=False), connect()
    assert holder(f"UPDATE {q} SET n = 2 WHERE id = 1") == 1
    waiting("SET innodb_lock_wait_timeout = 1")
    assert waiting.error(f"ACK {q} 1")[0] == 1205
    holder("COMMIT")
    assert waiting(f"ACK {q} 1") == 1


def test_an_enqueue_tells_what_the_backend_tells(sql, queue):
    """Affected rows, LAST_INSERT_ID and warnings are those of an ordinary table."""
    q = queue("n TINYINT, UNIQUE (n)")
    assert sql.insert_id(f"INSERT INTO {q} (n) VALUES (1), (2)") == 1
    assert sql(f"INSERT IGNORE INTO {q} (n) VALUES (2), (3)") == 1
    assert [row[1] for row in sql.rows("SHOW WARNINGS")] == [1062]
    assert sql.value("SELECT LAST_INSERT_ID()") > 2
    assert sql.error(f"INSERT INTO {q} (n) VALUES (1000)")[0] == 1264


def test_receivers_that_wait_are_told_at_the_moment_of_the_commit(sql, connect, queue, stream):
    """Not of the INSERT, and not of the next scan, which comes in an hour."""
    q = queue("n INT", poll_interval="'1h'")
    receiver, writer = stream(f"SELECT n FROM STREAM {q}"), connect(autocommit=False)
    for n in range(5):
        writer(f"INSERT INTO {q} (n) VALUES ({n})")
        assert sql.rows(f"SELECT n FROM STREAM {q} NOWAIT") == []
        assert len(receiver.rows) == n
        writer("COMMIT")
        receiver.wait(n + 1, 5)


def test_a_stream_that_is_shut_down_with_the_proxy_is_1053(new_gate):
    from servers import Sql, Stream

    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT)")
    receiver = Stream(gate, "SELECT n FROM STREAM q")
    wait_until(lambda: receiver.id in client.column("SHOW PROCESSLIST"), what="the stream")
    assert gate.terminate() == 0
    error = receiver.wait_end()
    assert error is not None and error.args[0] == 1053, error
    receiver.close()
    client.connection._force_close()

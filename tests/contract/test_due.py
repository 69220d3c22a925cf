"""INSERT ... DELAY and AT: times as people write them (docs/sql.md, Enqueue)."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime, timedelta

import mysql.connector
import pytest
from servers import NS

pytestmark = pytest.mark.no_proxy_accounts

MS = 1_000_000


def times(sql, q):
    return sql.rows(f"SELECT time_scheduled, time_next FROM {q} ORDER BY id")


@pytest.mark.parametrize(
    ("clause", "seconds"),
    [
        ("DELAY '20s'", 20),
        ("DELAY 20", 20),
        ("delay 0.5;", 0.5),
        ("DELAY '2h' ;\n", 7200),
        ("DELAY 0", 0),
        ("DELAY 2.0e1", 20),
        ("DELAY 2E+1", 20),
        ("DELAY 5.0e-1 ;", 0.5),
        ("DELAY NULL", 0),
        ("DELAY 20.", 20),
        ("DELAY .5", 0.5),
    ],
)
@pytest.mark.parametrize(("rows", "count"), [("(n) VALUES (1)", 1), ("(n) VALUES (1), (2)", 2), ("SET n = 1", 1)])
def test_a_delay_counts_from_the_insert(sql, queue, clause, seconds, rows, count):
    q = queue("n INT")
    before = time.time_ns()
    assert sql(f"INSERT INTO {q} {rows} {clause}") == count
    after = time.time_ns()
    found = times(sql, q)
    assert len(found) == count
    for scheduled, next_ in found:
        assert scheduled == next_ and scheduled % 1000 == 0
        assert before + seconds * NS - 2 * MS <= scheduled <= after + seconds * NS + 2 * MS


def test_it_comes_when_it_is_due_and_others_before_it(sql, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    began = time.time()
    sql(f"INSERT INTO {q} (n) VALUES (1) DELAY '700ms'")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    assert receiver.wait(2, timeout=20) == [(2,), (1,)]
    assert receiver.times[1] - began >= 0.7 - 0.002


@pytest.mark.parametrize("zone", ["+00:00", "-08:00", "+05:30"])
def test_a_moment_is_one_of_the_sessions_time_zone(sql, queue, zone):
    q = queue("n INT")
    sql(f"SET time_zone = '{zone}'")
    sql(f"INSERT INTO {q} (n) VALUES (1) AT '2030-12-24 18:00:00.25'")
    sql(f"INSERT INTO {q} (n) VALUES (2) AT '2030-12-24T18:00'")
    sql(f"INSERT INTO {q} SET n = 3 AT '2030-12-24'")
    hours = -8 if zone[0] == "-" else 5.5 if "5" in zone else 0
    day = int(datetime.fromisoformat("2030-12-24T00:00:00+00:00").timestamp() - hours * 3600) * NS
    evening = day + 18 * 3600 * NS
    assert times(sql, q) == [(time_, time_) for time_ in (evening + NS // 4, evening, day)]
    sql("SET time_zone = DEFAULT")


def test_a_moment_of_the_past_is_now(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1) AT '2001-01-01 00:00:00'")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10") == [(1,)]


def test_values_may_be_bound(gate, sql, queue):
    q = queue("n INT, body VARCHAR(40)")
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    evening = datetime(2030, 12, 24, 18, 0, 0, 250000)
    with contextlib.closing(link), contextlib.closing(link.cursor(prepared=True)) as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for delay in ("20s", 20, 20.0):
            cursor.execute(f"INSERT INTO {q} (n, body) VALUES (?, ?), (?, ?) DELAY ?", (1, "it's ?", 2, "ü\\", delay))
            assert cursor.rowcount == 2
        for moment in (evening, evening.isoformat(" ")):
            cursor.execute(f"INSERT INTO {q} (n) VALUES (?) AT ?", (3, moment))
            assert cursor.rowcount == 1
        last = cursor.lastrowid
        for wrong in ("soon", "1 day", -1, -0.5):
            with pytest.raises(mysql.connector.Error) as refused:
                cursor.execute(f"INSERT INTO {q} (n) VALUES (?) DELAY ?", (1, wrong))
            assert refused.value.errno == 1231
        for clause, wrong in (("AT", None), ("AT", 1.5), ("AT", 5), ("AT", b"soon"), ("DELAY", b"soon")):
            with pytest.raises(mysql.connector.Error) as refused:
                cursor.execute(f"INSERT INTO {q} (n) VALUES (?) {clause} ?", (1, wrong))
            assert (refused.value.errno, clause) == (1231, clause), refused.value
        cursor.execute(f"INSERT INTO {q} (n) VALUES (?) DELAY ?", (4, b"20s"))
        cursor.execute(f"INSERT INTO {q} (n) VALUES (?) DELAY ?", (4, None))
        sql(f"DELETE FROM {q} WHERE n = 4")
    rows = sql.rows(f"SELECT n, body, time_scheduled FROM {q} ORDER BY id")
    assert [row[:2] for row in rows[:6]] == [(1, "it's ?"), (2, "ü\\")] * 3
    assert all(15 * NS < row[2] - time.time_ns() <= 20 * NS for row in rows[:6])
    due = int((evening - datetime(1970, 1, 1)) / timedelta(microseconds=1)) * 1000
    assert [row[2] for row in rows[6:]] == [due, due]
    assert last == sql.value(f"SELECT MAX(id) FROM {q}")


def test_it_ends_a_statement_of_any_kind(sql, queue):
    q = queue("n INT UNIQUE")
    sql(f"INSERT INTO {q} (n) VALUES (1) ON DUPLICATE KEY UPDATE n = n + 1 DELAY '1h'")
    sql(f"INSERT IGNORE INTO {q} (n) VALUES (1), (2) DELAY '1h'")
    sql(f"REPLACE INTO {q} (n) VALUES (2) DELAY '1h' /*traceparent='00-5bd6'*/;")
    assert all(3590 * NS < row[1] - time.time_ns() <= 3600 * NS for row in times(sql, q))
    assert sql.column(f"SELECT n FROM {q} ORDER BY n") == [1, 2]


def test_it_belongs_to_its_transaction(sql, queue):
    q = queue("n INT")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (n) VALUES (1) DELAY '1h'")
    sql("ROLLBACK")
    assert times(sql, q) == []


def test_a_later_message_of_a_topic(sql, topic):
    t = topic(g="WITH (poll_interval = '1s')")
    sql(f"INSERT INTO {t} (user_id) VALUES (1) DELAY '700ms'")
    sql(f"INSERT INTO {t} (user_id) VALUES (2)")
    got = []
    while len(got) < 2:
        got += sql.column(f"SELECT user_id FROM STREAM {t} LIMIT 1 WAIT 20 WITH (group = 'g')")
    assert got == [2, 1]


def test_after_a_group_and_later(sql, queue):
    parts, done = queue("k INT", group_key="'k'"), queue("k INT")
    sql(f"INSERT INTO {parts} (k) VALUES (7)")
    sql(f"INSERT INTO {done} (k) VALUES (7) AFTER GROUP 7 OF {parts} DELAY '1h'")
    sql(f"ACK {parts} 1")
    (scheduled, next_) = times(sql, done)[0]
    assert 3590 * NS < scheduled - time.time_ns() <= 3600 * NS
    assert next_ == scheduled


@pytest.mark.parametrize("layout", ["first", "current"])
def test_tables_of_vitess(sql, name, layout):
    times_ = "time_scheduled BIGINT NOT NULL," if layout == "first" else "priority TINYINT NOT NULL DEFAULT 50,"
    created = "time_created BIGINT NOT NULL," if layout == "first" else ""
    keys = "vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30"
    index = "time_next, epoch" if layout == "first" else "time_acked, priority, time_next"
    nullable = "" if layout == "first" else " NOT NULL DEFAULT 0"
    sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL AUTO_INCREMENT, {times_} time_next BIGINT, epoch BIGINT{nullable},"
        f" {created} time_acked BIGINT, n INT, PRIMARY KEY (id), KEY ({index})) COMMENT 'vitess_message,{keys}'"
    )
    sql(f"INSERT INTO {name} (n) VALUES (1), (2) DELAY '1h'")
    for due in sql.column(f"SELECT time_next FROM {name}"):
        assert 3590 * NS < due - time.time_ns() <= 3600 * NS
    sql(f"DROP QUEUE {name}")


@pytest.mark.parametrize(
    ("statement", "number", "told"),
    [
        ("INSERT INTO {q} (n) VALUES (1) DELAY 'soon'", 1231, "is not a duration"),
        ("INSERT INTO {q} (n) VALUES (1) DELAY '99999d'", 1231, "ten years"),
        ("INSERT INTO {q} (n) VALUES (1) AT '24.12.2026'", 1231, "2026-12-24 18:00:00"),
        ("INSERT INTO {q} (n) VALUES (1) AT '2026-02-30'", 1231, "is not a date"),
        ("INSERT INTO {q} (n) VALUES (1) AT '2026-12-24 18:00:00Z'", 1231, "session's time zone"),
        ("INSERT INTO {q} (n) VALUES (1) AT '1970-01-01'", 1231, "2001"),
        ("INSERT INTO {q} (n) VALUES (1) AT '2000-01-01'", 1231, "2001"),  # in some time zones it is 1999
        ("INSERT INTO {q} (n) VALUES (1) AT '2099-01-01'", 1231, "2037"),
        ("INSERT INTO {q} (n, time_scheduled) VALUES (1, 5) DELAY 5", 1235, "time_scheduled"),
        ("INSERT INTO {q} VALUES (1) DELAY 5", 1235, "columns"),
        ("INSERT INTO {q} (n) SELECT 1 DELAY 5", 1235, "SELECT"),
    ],
)
def test_what_is_no_time_is_refused(sql, queue, statement, number, told):
    q = queue("n INT")
    errno, message = sql.error(statement.format(q=q))
    assert (errno, told in message) == (number, True), message
    assert times(sql, q) == []


def test_columns_and_values_of_these_names_are_what_they_were(sql, queue, name):
    q = queue("delay INT, at VARCHAR(20)")
    sql(f"INSERT INTO {q} (delay, at) VALUES (5, 'at ''5'''), (6, 'delay 5')")
    sql(f"INSERT INTO {q} SET at = 'x', delay = 7")
    assert sql.rows(f"SELECT delay, at FROM {q} ORDER BY id") == [(5, "at '5'"), (6, "delay 5"), (7, "x")]
    sql(f"CREATE TABLE {name} (n INT)")
    assert sql.error(f"INSERT INTO {name} (n) VALUES (1) DELAY 5")[0] == 1064  # it is no queue
    sql(f"DROP TABLE {name}")

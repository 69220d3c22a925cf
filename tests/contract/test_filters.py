"""SELECT ... FROM STREAM q WHERE: a message goes where the database says that it fits (docs/filters.md)."""

from __future__ import annotations

import os
import time
from datetime import date, datetime, timedelta
from decimal import Decimal

import pymysql
import pytest
from servers import wait_until
from slowness import scaled

pytestmark = pytest.mark.no_proxy_accounts

COLUMNS = (
    "n INT, big DECIMAL(20,5), real_n DOUBLE, name VARCHAR(40), code VARCHAR(40) COLLATE utf8mb4_bin,"
    " body VARBINARY(40), born DATE, at DATETIME(3), doc JSON, `select` INT, wait INT"
)
ROWS = (
    (1, "1.00001", 0.5, "Ann", "Ann", b"a", "2020-02-29", "2020-02-29 10:00:00.123", '{"a": 1, "b": "x"}', 1, 5),
    (
        2,
        "99999999999.5",
        1e20,
        "ann ",
        "ann",
        b"A",
        "2021-12-31",
        "1999-12-31 23:59:59",
        '{"a": "2", "c": [1, 2]}',
        2,
        6,
    ),
    (-3, "-7", -0.25, "Ünal%", "Ünal", b"\x00\xff", None, None, "[]", None, 7),
    (None, None, None, None, None, None, None, None, None, None, None),
    (2147483647, "0", 0.0, "", "", b"", "1970-01-01", "1970-01-01", "null", 0, 0),
    (10, "10", 10.0, "10", "10 apples", b"10", "2000-01-01", "2000-01-01 00:00:01", '{"a": null}', 3, 8),
    (7, "7", 7.7, "O'Neil\\s", "a_b", b"'", "2024-05-05", "2024-05-05 05:05:05", '{"a": 1.0}', 4, 9),
)

CONDITIONS = (
    "n < 3",
    "n >= 2 AND NOT n = 10",
    "n = 1 OR n = 2 XOR n > 0",
    "n IS NULL",
    "n IS NOT NULL AND n <=> 7",
    "NOT n",
    "n",
    "n IN (1, 2, NULL)",
    "n NOT IN (1, 2)",
    "n NOT IN (1, NULL)",
    "n BETWEEN -3 AND 2",
    "n NOT BETWEEN 1 AND 7",
    "n + 1 = 3 OR n * 2 = 14 OR n DIV 3 = 3 OR n % 2 = 1",
    "n / 3 > 2.3",
    "-n = 3",
    "n & 2",
    "ABS(n) << 1 > 3 OR ABS(n) >> 2 = 1",
    "n > 1 #> 5 OR n < 0\n",
    "big > 1",
    "big >= 1.00001 AND big <> 10.0 AND NOT big <=> 7.0",
    "big = 99999999999.5",
    "real_n > 0.4e0",
    "name = 'ANN'",
    "name = 'ann'",
    "name = code",
    "code = 'ann'",
    "code < 'b'",
    "name COLLATE utf8mb4_bin = 'Ann'",
    "name LIKE 'a%'",
    "name LIKE '%\\%'",
    "name LIKE 'a|%' ESCAPE '|' OR code LIKE 'a\\_b'",
    "name NOT LIKE '%n%'",
    "name = 'unal%'",
    "name = 'O''Neil\\\\s'",
    'name = "Ann"',
    "name = 10",
    "name = ''",
    "name IS TRUE",
    "n IS NOT TRUE",
    "(n > 1) IS UNKNOWN",
    "name REGEXP '^a'",
    "body = 'a'",
    "body = x'00FF'",
    "LENGTH(body) = 0",
    "born = '2020-02-29'",
    "born > '2000-06-01' AND born < DATE '2022-01-01'",
    "at > '2000-01-01' - INTERVAL 1 DAY",
    "at BETWEEN '2020-01-01' AND '2020-12-31 23:59:59'",
    "YEAR(born) = 2021 OR MONTH(at) = 12",
    "DATE_ADD(born, INTERVAL 1 DAY) = '2020-03-01'",
    "EXTRACT(DAY FROM born) = 31",
    "TIMESTAMPDIFF(YEAR, born, '2024-01-01') > 3",
    "DATE_FORMAT(born, '%Y-%m') = '2000-01'",
    "JSON_EXTRACT(doc, '$.a') = 1",
    "JSON_UNQUOTE(JSON_EXTRACT(doc, '$.b')) = 'x'",
    "JSON_LENGTH(doc) > 1",
    "COALESCE(n, 0) = 0",
    "IF(n > 5, 'big', 'small') = 'big'",
    "IFNULL(name, 'none') = 'none'",
    "NULLIF(n, 2) IS NULL",
    "CASE WHEN n > 5 THEN name = '10' ELSE n = 2 END",
    "CASE n WHEN 1 THEN TRUE WHEN 2 THEN FALSE END",
    "UPPER(name) = 'ANN' AND CHAR_LENGTH(name) < 4",
    "CONCAT(name, '-', n) = 'Ann-1'",
    "SUBSTRING(code, 1, 2) = 'an' OR LEFT(code, 1) = 'a'",
    "TRIM(name) = 'ann'",
    "CAST(code AS SIGNED) = 10",
    "CAST(n AS CHAR) = '10'",
    "ABS(n) = 3 OR ROUND(real_n) = 8",
    "`select` = 2",
    "wait > 6",
    "n = 1 AND wait = 5",
    "priority = 50 AND epoch = 0 AND n = 1",
    "id IN (1, 3, 5)",
    "state = 'to_be_fired' AND n > 5",
    "TRUE",
    "1 = 1",
)


def fill(sql, q):
    names = "n, big, real_n, name, code, body, born, at, doc, `select`, wait"
    for row in ROWS:
        sql(f"INSERT INTO {q} ({names}) VALUES ({', '.join(['%s'] * len(row))})", *row)


@pytest.fixture
def filled(sql, queue):
    q = queue(COLUMNS)
    fill(sql, q)
    return q


def received(sql, q, condition, *params):
    """Ids that a stream gets, without using them up."""
    ids = sql.column(f"SELECT id FROM STREAM {q} WHERE {condition} NOWAIT", *params)
    if ids:
        sql(f"UPDATE {q} SET time_next = 0, epoch = 0 WHERE id IN ({', '.join(map(str, ids))})")
    return sorted(ids)


def test_a_stream_gets_exactly_what_select_finds(sql, filled):
    wrong = []
    for condition in CONDITIONS:
        found = sorted(sql.column(f"SELECT id FROM {filled} WHERE {condition}"))
        got = received(sql, filled, condition)
        if got != found:
            wrong.append((condition, found, got))
    assert not wrong


@pytest.mark.parametrize(
    ("condition", "params", "expected"),
    [
        ("n < %s", (2,), [1, 3]),
        ("code = %s", ("ann",), [2]),
        ("name = %s", ("O'Neil\\s",), [7]),
        ("name LIKE %s AND n < %s", ("a%", 2), [1]),
        ("{q}.n = 2 OR main.{q}.n = 7", (), [2, 7]),
    ],
)
def test_values_and_qualified_names(sql, filled, gate, condition, params, expected):
    q = filled.split(".")[-1]
    condition = condition.replace("main.", f"{gate.database}.").replace("{q}", q)
    assert received(sql, filled, condition, *params) == expected


def test_each_message_goes_where_it_fits(sql, queue, stream):
    q = queue("n INT")
    low, high = stream(f"SELECT n FROM STREAM {q} WHERE n < 5"), stream(f"STREAM n FROM {q} WHERE n >= 5")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(10)))
    assert sorted(low.wait(5)) == [(n,) for n in range(5)]
    assert sorted(high.wait(5)) == [(n,) for n in range(5, 10)]


def test_a_message_that_fits_nobody_waits_and_is_found_by_whom_it_fits(sql, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q} WHERE n = 1")
    sql(f"INSERT INTO {q} (n) VALUES (2), (1)")
    assert receiver.wait(1) == [(1,)]
    assert sql.rows(f"SELECT n, epoch FROM {q} ORDER BY n") == [(1, 1), (2, 0)]
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 5 NOWAIT") == [(2,)]


def test_an_update_makes_a_message_fit(sql, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT id, n FROM STREAM {q} WHERE n = 1")
    sql(f"INSERT INTO {q} (n) VALUES (2), (3)")
    sql(f"UPDATE {q} SET n = 1 WHERE n = 3")
    assert receiver.wait(1) == [(2, 1)]


def test_limit_wait_and_nowait(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4)")
    assert sql.column(f"SELECT n FROM STREAM {q} WHERE n > 1 LIMIT 2") == [2, 3]
    assert sql.column(f"SELECT n FROM STREAM {q} WHERE n = 9 LIMIT 2 NOWAIT") == []
    started = time.monotonic()
    assert sql.column(f"SELECT n FROM STREAM {q} WHERE n = 9 WAIT 1") == []
    assert 0.9 < time.monotonic() - started < scaled(20)
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 5 WAIT 5 WHERE n < 9") == [1, 4]


def test_order_holds_among_those_that_fit(sql, queue):
    q, long_ago = queue("n INT"), 10**18
    sql(
        f"INSERT INTO {q} (n, priority, time_scheduled)"
        f" VALUES (1, 50, {long_ago + 30}), (2, 50, {long_ago + 20}), (3, 1, {long_ago + 40}),"
        f" (4, 1, {long_ago + 10}), (6, 50, {long_ago + 1})"
    )
    assert sql.column(f"SELECT n FROM STREAM {q} WHERE n < 6 NOWAIT") == [4, 3, 2, 1]


def test_many_that_do_not_fit_in_front(sql, queue, stream):
    """More than a page, all due at the same time; what fits stands behind them, and comes later."""
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(["(0)"] * 6000))
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    receiver = stream(f"SELECT n FROM STREAM {q} WHERE n > 0")
    assert receiver.wait(1) == [(1,)]
    for n in range(2, 12):
        sql(f"INSERT INTO {q} (n) VALUES ({n})")
        receiver.wait(n, 5)
    assert [row[0] for row in receiver.rows] == list(range(1, 12))
    assert sql.column(f"SELECT n FROM STREAM {q} WHERE n > 0 NOWAIT") == []
    sql(f"UPDATE {q} SET n = 100 WHERE id = 3")
    assert receiver.wait(12, 20)[-1] == (100,)


def test_unfiltered_and_filtered_receivers_share(sql, queue, stream):
    q = queue("n INT", batch_size=10)
    everything, odd = stream(f"SELECT n FROM STREAM {q}"), stream(f"SELECT n FROM STREAM {q} WHERE n % 2 = 1")
    for start in range(0, 200, 20):
        sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(start, start + 20)))
    wait_until(lambda: len(everything.rows) + len(odd.rows) >= 200, what="all messages")
    assert sorted(everything.rows + odd.rows) == [(n,) for n in range(200)]
    assert all(n % 2 for (n,) in odd.rows)


def test_what_a_receiver_had_goes_to_another_whom_it_fits(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'")
    first = stream(f"SELECT n FROM STREAM {q} WHERE n > 0")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    first.wait(1)
    second, other = stream(f"SELECT n FROM STREAM {q} WHERE n = 1"), stream(f"SELECT n FROM STREAM {q} WHERE n = 2")
    first.close()
    assert second.wait(1, 10) == [(1,)]
    assert other.rows == []


@pytest.mark.parametrize(
    ("condition", "errno"),
    [
        ("n = (SELECT 1)", 1235),
        ("EXISTS (SELECT 1)", 1235),
        ("n > NOW()", 1235),
        ("n > CURRENT_TIMESTAMP", 1235),
        ("n > UNIX_TIMESTAMP()", 1235),
        ("RAND() < 0.5", 1235),
        ("COUNT(*) > 1", 1235),
        ("n = @x", 1235),
        ("n = @@sql_mode", 1235),
        ("my_function(n)", 1235),
        ("SLEEP(10)", 1235),
        ("LOAD_FILE('/etc/passwd') IS NULL", 1235),
        ("GET_LOCK('a', 1)", 1235),
        ("nope = 1", 1054),
        ("other.n = 1", 1054),
        ("n = ", 1064),
        ("n = 1 ORDER BY n", 1235),
        ("n = 1 GROUP BY n", 1235),
        ("n = ?", 1064),
    ],
)
def test_what_a_condition_cannot_be(sql, queue, condition, errno):
    q = queue("n INT")
    number, text = sql.error(f"SELECT * FROM STREAM {q} WHERE {condition}")
    assert number == errno and "LIMIT 0" not in text
    assert sql.value("SELECT 41 + 1") == 42


def test_a_condition_that_fails_later_ends_its_own_streams_only(sql, queue, stream):
    q = queue("n INT, m INT")
    receiver, other = stream(f"SELECT n FROM STREAM {q} WHERE m = 1"), stream(f"SELECT n FROM STREAM {q} WHERE n = 2")
    sql(f"ALTER TABLE {q} DROP COLUMN m")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    error = receiver.wait_end()
    assert error is not None
    assert error.args[0] == 1054, error
    assert other.wait(1) == [(2,)]


def test_too_many_conditions(sql, queue, stream):
    q = queue("n INT")
    for n in range(24):
        stream(f"SELECT n FROM STREAM {q} WHERE n = {n}")
    errno, message = sql.error(f"SELECT n FROM STREAM {q} WHERE n = 99")[:2]
    assert errno == 1226 and "limits.filters_per_account" in message
    again = stream(f"SELECT n FROM STREAM {q} WHERE n = 5")
    everything = stream(f"SELECT n FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (99)")
    assert everything.wait(1) == [(99,)]
    assert not again.ended.is_set()


def test_show_subscriptions_tells_the_condition(sql, queue, stream):
    q = queue("n INT")
    stream(f"SELECT n FROM STREAM {q} WHERE n IN (1, 2)")
    wait_until(lambda: "n IN (1, 2)" in str(sql.rows(f"SHOW SUBSCRIPTIONS LIKE '{q}'")), what="the stream")


SETTINGS = (
    ("SET sql_mode = 'PIPES_AS_CONCAT'", "name || code = 'AnnAnn' OR n = 7"),
    ("SET sql_mode = ''", "name || code = 'AnnAnn' OR n = 7"),
    ("SET sql_mode = 'HIGH_NOT_PRECEDENCE'", "NOT n BETWEEN -5 AND 5"),
    ("SET sql_mode = ''", "NOT n BETWEEN -5 AND 5"),
    ("SET sql_mode = 'ANSI_QUOTES'", "\"name\" = 'ann'"),
    ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "code LIKE 'a_b' AND n > 1"),
    ("SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'", "CAST(1 AS UNSIGNED) - 2 < n"),
    ("SET sql_mode = 'IGNORE_SPACE'", "UPPER (name) = 'ANN'"),
    ("SET time_zone = '+05:00'", "FROM_UNIXTIME(86399) < born OR UNIX_TIMESTAMP(at) = 946684801 - 5 * 3600"),
    ("SET time_zone = '-03:00'", "stamp > '2020-06-01 20:30:00'"),
    ("SET time_zone = '+00:00'", "stamp > '2020-06-01 20:30:00'"),
    ("SET collation_connection = 'utf8mb4_bin'", "CAST(n AS CHAR) = '7' OR CONCAT(n, 'x') = '10X'"),
    ("SET collation_connection = 'utf8mb4_general_ci'", "CONCAT(n, 'x') = '10X'"),
    ("SET NAMES latin1", "name = '\u00dcnal%' OR CONCAT(n, '\u00dc') = '10\u00fc'"),
    ("SET NAMES latin1 COLLATE latin1_bin", "CONCAT(n, 'x') = '10X' OR name LIKE '\u00dc%'"),
    ("SET div_precision_increment = 0", "n / 3 = 2"),
    ("SET lc_time_names = 'de_DE'", "DAYNAME(born) = 'Samstag'"),
    ("SET default_week_format = 3", "WEEK(born) = 52"),
    ("SET sql_auto_is_null = 1", "n IS NULL"),
)


@pytest.mark.parametrize(("setting", "condition"), SETTINGS)
def test_a_condition_means_what_it_means_to_the_session(place, connect, sql, queue, setting, condition, on_mysql):
    if on_mysql and "de_DE" in setting:
        pytest.skip("the MySQL of these tests has no other language than English")
    q = queue(COLUMNS + ", stamp TIMESTAMP NULL")
    fill(sql, q)
    sql(f"UPDATE {q} SET stamp = '2020-06-01 22:00:00' WHERE n > 5")
    client = connect(charset="latin1") if "latin1" in setting else connect()
    try:
        client(setting)
        found = sorted(client.column(f"SELECT id FROM {q} WHERE {condition}"))
    except pymysql.err.MySQLError as error:
        assert place == "embedded", error
        pytest.skip(f"the embedded backend has no such setting: {error}")
    assert received(client, q, condition) == found
    # Whoever has other settings is not disturbed, and the engine goes on reading as before.
    assert received(sql, q, "name = 'ann'") == sorted(sql.column(f"SELECT id FROM {q} WHERE name = 'ann'"))
    assert sql(f"INSERT INTO {q} (n) VALUES (77)") == 1
    assert len(sql.column(f"SELECT id FROM STREAM {q} LIMIT 100 NOWAIT")) == len(ROWS) + 1


def test_text_ids_survive_a_session_whose_charset_cannot_hold_them(place, connect, sql, queue):
    q = queue("id VARCHAR(40) COLLATE utf8mb4_bin PRIMARY KEY, n INT")
    for id_ in ("\u2603 snow", "a\\b'c", "\u00dc", "?"):
        sql(f"INSERT INTO {q} (id, n) VALUES (%s, 1)", id_)
    client = connect(charset="latin1")
    assert len(client.column(f"SELECT id FROM STREAM {q} WHERE n = 1 LIMIT 10 NOWAIT")) == 4
    assert sql.value(f"SELECT SUM(epoch) FROM {q}") == 4


@pytest.fixture
def prepare(gate):
    """Executes a prepared statement with values, and gives its rows."""
    connector = pytest.importorskip("mysql.connector")
    client = connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )

    def execute(statement, *values):
        cursor = client.cursor(prepared=True)
        cursor.execute(statement, values)
        rows = cursor.fetchall()
        cursor.close()
        return rows

    yield execute
    client.close()


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("n = ?", (1,)),
        ("n > ?", (-4,)),
        ("n IN (?, ?)", (1, 2)),
        ("n <=> ?", (None,)),
        ("name = ?", ("ann",)),
        ("name = ?", ("O'Neil\\s",)),
        ("name LIKE CONCAT(?, '%')", ("\u00dc",)),
        ("name = ?", ("\u2603",)),
        ("real_n > ?", (0.45,)),
        ("big = ?", (Decimal("1.00001"),)),
        ("big > ?", (Decimal("7"),)),
        ("born = ?", (date(2020, 2, 29),)),
        ("at > ?", (datetime(2020, 2, 29, 10, 0, 0, 122000),)),
        ("TIME(at) = ?", (timedelta(hours=5, minutes=5, seconds=5),)),
        ("JSON_UNQUOTE(JSON_EXTRACT(doc, ?)) = ?", ("$.b", "x")),
        ("n < ? AND name LIKE ?", (3, "a%")),
    ],
)
def test_bound_values(prepare, filled, sql, condition, values):
    found = sorted(prepare(f"SELECT id FROM {filled} WHERE {condition}", *values))
    got = prepare(f"SELECT id FROM STREAM {filled} WHERE {condition} LIMIT ? NOWAIT", *values, 50)
    assert sorted(got) == found


def test_bound_bytes(prepare, filled):
    for value in (b"A", b"\x00\xff", b"'", b""):
        found = prepare(f"SELECT id FROM {filled} WHERE body = ?", value)
        assert sorted(prepare(f"SELECT id FROM STREAM {filled} WHERE body = ? NOWAIT", value)) == sorted(found)


def test_a_condition_reads_no_column_that_its_account_may_not(place, gate, connect, sql, queue):
    if place not in ("mariadb", "mysql"):
        pytest.skip("accounts are not the database's here")
    q = queue("n INT, secret VARCHAR(20)")
    sql(f"INSERT INTO {q} (n, secret) VALUES (1, 'sesame')")
    user = f"reader_{os.urandom(4).hex()}"
    sql(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    try:
        allowed = "id, n, priority, epoch, time_next, time_acked, state"
        sql(f"GRANT SELECT ({allowed}), UPDATE ON {gate.database}.{q} TO '{user}'@'%'")
        client = connect(user=user, password="pw")
        for begin in ("BEGIN", "COMMIT"):  # within a transaction, and without one
            client(begin)
            assert client.error(f"SELECT id FROM STREAM {q} WHERE secret LIKE 's%' NOWAIT")[0] == 1143
            assert client.error(f"SELECT id FROM STREAM {q} WHERE n = 1 AND secret IS NOT NULL NOWAIT")[0] == 1143
            assert client.error(f"SELECT secret FROM STREAM {q} NOWAIT")[0] == 1143
            assert client.error(f"SELECT * FROM STREAM {q} WHERE n = 1 NOWAIT")[0] == 1143
        assert sql.value(f"SELECT epoch FROM {q}") == 0
        assert client.rows(f"SELECT id, n FROM STREAM {q} WHERE n = 1 NOWAIT") == [(1, 1)]
    finally:
        sql(f"DROP USER '{user}'@'%'")


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"])
def test_a_backslash_is_what_the_session_says(sql, queue, mode):
    q = queue("body VARCHAR(20)")
    sql(f"SET sql_mode = '{mode}'")
    sql(f"INSERT INTO {q} (body) VALUES (CONCAT('a', CHAR(92), 'b')), (CONCAT(CHAR(92), CHAR(92))), ('a%'), ('ab')")
    for condition in ("body = 'a\\b'", "body = '\\\\'", "body LIKE 'a\\%'", "body LIKE '%\\\\%'", "body = 'it''s\\\\'"):
        in_table = sql.column(f"SELECT body FROM {q} WHERE {condition} ORDER BY id")
        rows = sql.rows(f"SELECT body, id FROM STREAM {q} WHERE {condition} LIMIT 10 NOWAIT")
        assert [body for body, _ in rows] == in_table, condition
        for _, id_ in rows:
            sql(f"RELEASE {q} {id_}")

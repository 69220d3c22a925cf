"""Small things in which the embedded backend differed from MariaDB."""

from __future__ import annotations

from functools import partial

import pytest

WITH = ["character_set_client", "collation_connection", "Database Collation"]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (
            "SHOW TRIGGERS",
            ["Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer", *WITH],
        ),
        (
            "SHOW EVENTS",
            [
                *("Db", "Name", "Definer", "Time zone", "Type", "Execute at", "Interval value", "Interval field"),
                *("Starts", "Ends", "Status", "Originator", *WITH),
            ],
        ),
        (
            "SHOW PROCEDURE STATUS",
            ["Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment", *WITH],
        ),
    ],
)
async def test_the_columns_of_what_there_is_none_of(client, sql, columns):
    result = await client.result(sql)
    assert [column.name for column in result.columns] == columns


@pytest.mark.parametrize("text", ["'" + "y" * 300 + "'", "CONCAT('" + "x" * 300 + "')"])
async def test_a_column_named_by_its_expression_has_255_characters_at_most(client, text):
    (column,) = (await client.result(f"SELECT {text}")).columns
    assert column.name == text.removeprefix("'")[:255].removesuffix("'")
    assert await client.value(f"SELECT LENGTH({text})") == 300


@pytest.mark.parametrize(
    ("local", "moment", "back"),
    [
        ("2026-03-29 01:59:59", 1774745999, "2026-03-29 01:59:59"),
        ("2026-03-29 02:00:00", 1774746000, "2026-03-29 03:00:00"),
        ("2026-03-29 02:30:00", 1774746000, "2026-03-29 03:00:00"),
        ("2026-03-29 02:59:59", 1774746000, "2026-03-29 03:00:00"),
        ("2026-03-29 03:00:00", 1774746000, "2026-03-29 03:00:00"),
        ("2026-07-01 12:00:00", 1782900000, "2026-07-01 12:00:00"),
    ],
)
async def test_a_time_in_the_gap_of_summer_time_is_its_end(client, local, moment, back):
    await client("SET time_zone = 'Europe/Berlin'")
    await client("CREATE TABLE moments (t TIMESTAMP NULL)")
    await client(f"INSERT INTO moments VALUES ('{local}')")
    assert await client.value(f"SELECT UNIX_TIMESTAMP('{local}')") == moment
    assert await client.rows("SELECT CAST(t AS CHAR), UNIX_TIMESTAMP(t) FROM moments") == [(back, moment)]
    await client("SET time_zone = '+00:00'")
    assert await client.value("SELECT UNIX_TIMESTAMP(t) FROM moments") == moment


@pytest.mark.parametrize(
    "sql", ["CHECKSUM TABLE t", "SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) AS t"]
)
async def test_what_there_is_not_is_told_as_such(client, sql):
    errno, text = await client.error(sql)
    assert errno == 1235 and "embedded backend does not support" in text


@pytest.mark.parametrize("sql", ["INSERT INTO ends VALUES ('{0}')", "INSERT INTO ends SELECT '{0}'"])
async def test_a_moment_that_would_be_rounded_to_the_year_10000_is_refused(client, sql):
    await client("CREATE TABLE ends (d DATETIME(3))")
    assert await client.errno(sql.format("9999-12-31 23:59:59.9999")) == 1441
    assert await client.value("SELECT CAST('9999-12-31 23:59:59.9999' AS DATETIME(3))") is None


def _insert_old(row, connection):
    connection.execute("INSERT INTO old VALUES (?, ?)", row).close()


async def test_what_a_timestamp_held_before_it_had_a_range_is_readable(client, database):
    await client("CREATE TABLE old (id INT PRIMARY KEY, t TIMESTAMP NULL)")
    await client("INSERT INTO old VALUES (1, '2024-01-01 00:00:00')")
    for number, moment in enumerate(("9999-12-31 23:59:59", "0001-01-01 00:00:00", "2050-01-01 00:00:00"), 2):
        await database.write(partial(_insert_old, (number, moment)))
    shown = "SELECT CAST(t AS CHAR) FROM old ORDER BY id"
    await client("SET time_zone = '+05:00'")
    assert [row[0] for row in await client.rows(shown)] == [
        "2024-01-01 05:00:00", "9999-12-31 23:59:59", "0001-01-01 05:00:00", "2050-01-01 05:00:00"
    ]  # fmt: skip
    await client("SET time_zone = '-05:00'")
    assert (await client.rows(shown))[2] == ("0001-01-01 00:00:00",)
    assert await client.errno("UPDATE old SET t = t + INTERVAL 1 SECOND WHERE id = 4") == 1292
    await client("UPDATE old SET t = NULL WHERE id > 1")


@pytest.mark.parametrize(
    ("sql", "errno"),
    [
        ("DELETE FROM t WHERE s = 99", 1292),
        ("DELETE FROM t WHERE n = 'abc'", 1292),
        ("DELETE t FROM t JOIN t AS o ON o.s = t.n", 1292),
        ("INSERT INTO t (id, n) SELECT id + 100, s + 0 FROM t", 1292),
        ("UPDATE t SET s = ADDTIME('9999-12-31 23:59:59', '00:00:01')", 1441),
        ("UPDATE t SET n = CAST(123456 AS DECIMAL(4,2))", 1264),
        ("UPDATE t SET n = j->'$.a' + 1", 3156),
    ],
)
async def test_a_change_is_strict_where_mysql_is_and_mariadb_is_not(client, sql, errno):
    await client("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), n INT, j JSON)")
    await client("""INSERT INTO t VALUES (1, 'abc', 1, '{"a": "abc", "b": "5"}')""")
    before = await client.rows("SELECT * FROM t")
    assert await client.errno(sql) == errno
    assert await client.rows("SELECT * FROM t") == before
    await client("UPDATE t SET n = j->'$.b' + 1, s = ''")
    await client("UPDATE t SET n = s + 1")
    assert await client.rows("SELECT n FROM t WHERE s = 0") == [(1,)]
    await client("SET sql_mode = ''")
    await client(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE n SET a = UUID(), b = a",
        "INSERT INTO n VALUES (1, 'x', 'y') ON DUPLICATE KEY UPDATE a = RAND(), b = CONCAT(a, '!')",
        "SELECT RAND() AS r FROM n HAVING r > 0.5",
        "SELECT FLOOR(RAND() * 3) AS g, COUNT(*) FROM n GROUP BY g",
        "UPDATE n SET i = (SELECT COUNT(*) FROM (SELECT i FROM n) d) + n.i ORDER BY i DESC",
    ],
)
async def test_what_would_be_evaluated_again_with_another_value_is_refused(client, sql):
    await client("CREATE TABLE n (i INT PRIMARY KEY, a VARCHAR(40), b VARCHAR(40))")
    await client("INSERT INTO n VALUES (1, '', '')")
    assert await client.errno(sql) == 1235

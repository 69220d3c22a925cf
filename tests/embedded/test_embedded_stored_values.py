"""What columns take, in changes and in ALTER TABLE, and that whatever they hold can be read."""

from __future__ import annotations

import math

import pytest

from embedded.database.sqlite import SqliteDatabase
from embedded.database.store_pool import SqliteStoreConnection
from embedded.session.shared_database import Shared
from engine.model.queue import ColumnMeta

TOO_LARGE = ["1e39", "'1e39'", "-3.5e38", "3.40282356e38"]


@pytest.mark.parametrize("number", TOO_LARGE)
async def test_a_float_beyond_its_range_is_refused(client, number):
    await client("CREATE TABLE t (id INT PRIMARY KEY, f FLOAT, d DOUBLE)")
    await client("INSERT INTO t VALUES (1, 3.4028234e38, 1e308)")
    refused = 1264, "Out of range value for column 'f' at row 1"
    assert await client.error(f"INSERT INTO t (id, f) VALUES (2, {number})") == refused
    assert await client.error("INSERT INTO t (id, f) VALUES (2, ?)", float(number.strip("'"))) == refused
    assert await client.error(f"UPDATE t SET f = {number}") == refused
    assert await client.error("UPDATE t SET f = d") == refused
    assert await client.errno("ALTER TABLE t MODIFY d FLOAT") == 1264
    assert await client.rows("SELECT id, f, d FROM t") == [(1, 3.4028235e38, 1e308)]


async def test_numbers_beyond_all_types_are_refused(client):
    await client("CREATE TABLE t (id INT, d DOUBLE, y YEAR, m TIME, moment DATETIME)")
    await client("INSERT INTO t (id, d) VALUES (1, 1e308)")
    for column, errno in (("d", 1264), ("y", 1264), ("m", 1292), ("moment", 1292)):
        assert await client.errno(f"INSERT INTO t (id, {column}) VALUES (2, CONCAT('1', REPEAT('0', 400)))") == errno
        assert await client.errno(f"UPDATE t SET {column} = d * 10") == errno


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        (4, math.inf, b"inf"),
        (5, -math.inf, b"-inf"),
        (5, "none", b"none"),
        (7, "none", b"none"),
        (11, "none", b"none"),
        (16, "none", b"none"),
        (246, "", b""),
        (246, "text", b"text"),
    ],
)
async def test_what_is_none_of_its_columns_type_is_read_as_it_is(database, code, value, text):
    """SQLite's columns hold anything. What cannot be read would hold up all messages of its queue."""

    columns = (ColumnMeta("id", 8), ColumnMeta("c", code, decimals=3))

    def read(connection):
        return SqliteStoreConnection(connection).query_text("SELECT 1, ?", (value,), columns)

    assert await database.read(read) == [(b"1", text)]


@pytest.mark.parametrize(
    ("before", "value", "after", "errno"),
    [
        ("INT", "-1", "INT UNSIGNED", 1264),
        ("INT UNSIGNED", "4000000000", "INT", 1264),
        ("INT", "300", "TINYINT", 1264),
        ("DECIMAL(5,2)", "-1", "DECIMAL(5,2) UNSIGNED", 1264),
        ("DECIMAL(30,2)", "-1", "DECIMAL(30,2) UNSIGNED", 1264),
        ("DECIMAL(20,2)", "123.45", "DECIMAL(16,15)", 1264),
        ("DOUBLE", "-1", "DOUBLE UNSIGNED", 1264),
        ("FLOAT", "-1", "FLOAT UNSIGNED", 1264),
        ("DOUBLE", "1234.567", "DOUBLE(5,2)", 1264),
        ("ENUM('a','b','c')", "'c'", "ENUM('a','b')", 1265),
        ("ENUM('x','y')", "'y'", "ENUM('2','1')", 1265),
    ],
)
async def test_rows_have_to_fit_the_type_that_a_column_is_given(client, before, value, after, errno):
    await client(f"CREATE TABLE t (v {before})")
    await client(f"INSERT INTO t VALUES ({value})")
    stored = await client.rows("SELECT v FROM t")
    assert await client.errno(f"ALTER TABLE t MODIFY v {after}") == errno
    assert await client.rows("SELECT v FROM t") == stored
    await client("DELETE FROM t")
    await client(f"ALTER TABLE t MODIFY v {after}")
    assert await client.errno(f"INSERT INTO t VALUES ({value})") == errno


@pytest.mark.parametrize(
    ("before", "value", "after", "converted"),
    [
        ("ENUM('1','2')", "'2'", "ENUM('x','y')", "y"),
        ("ENUM('1','2','3')", "'2'", "ENUM('2','1')", "2"),
        ("ENUM('a','b','c')", "'c'", "INT", 3),
        ("ENUM('a','b','c')", "'c'", "VARCHAR(5)", "c"),
        ("TINYINT", "2", "ENUM('a','b')", "b"),
        ("DOUBLE", "1.55", "DOUBLE(3,1)", 1.6),
        ("DOUBLE", "0.1", "FLOAT", 0.1),
    ],
)
async def test_rows_are_converted_to_the_type_that_a_column_is_given(client, before, value, after, converted):
    await client(f"CREATE TABLE t (v {before})")
    await client(f"INSERT INTO t VALUES ({value}), (NULL)")
    await client(f"ALTER TABLE t MODIFY v {after}")
    assert await client.rows("SELECT v FROM t WHERE v IS NOT NULL") == [(converted,)]
    assert await client.value("SELECT COUNT(*) FROM t") == 2


@pytest.mark.parametrize(
    ("value", "whole", "thousandths"),
    [
        ("t6", "00:00:01", "00:00:00.901"),
        ("CAST('-10:11:12.6789' AS TIME(6))", "-10:11:13", "-10:11:12.679"),
        ("CAST('10:11:12' AS TIME)", "10:11:12", "10:11:12.000"),
        ("SEC_TO_TIME(1.5)", "00:00:02", "00:00:01.500"),
        ("TIMEDIFF('10:00:00', '09:00:00.5')", "01:00:00", "00:59:59.500"),
        ("IFNULL(NULL, CAST('10:59:59.9999' AS TIME(4)))", "11:00:00", "11:00:00.000"),
        ("TIME(CAST('2024-01-01 10:11:12.75' AS DATETIME(2)))", "10:11:13", "10:11:12.750"),
        ("STR_TO_DATE('10:11:12.75', '%H:%i:%s.%f')", "10:11:13", "10:11:12.750"),
    ],
)
async def test_a_time_is_rounded_to_the_decimals_of_its_column(client, value, whole, thousandths):
    """As in MySQL. MariaDB cuts."""
    await client("CREATE TABLE t (id INT, t0 TIME, t3 TIME(3), t6 TIME(6))")
    await client("INSERT INTO t (id, t6) VALUES (1, '00:00:00.901112')")
    await client(f"UPDATE t SET t0 = {value}, t3 = {value}")
    await client(f"INSERT INTO t (id, t0, t3) SELECT 2, {value}, {value} FROM t")
    stored = "SELECT CAST(t0 AS CHAR), CAST(t3 AS CHAR) FROM t"
    assert await client.rows(stored) == [(whole, thousandths)] * 2
    await client("ALTER TABLE t MODIFY t3 TIME")
    assert await client.rows(stored) == [(whole, whole)] * 2


async def test_a_time_in_a_column_of_whole_numbers_is_rounded_to_seconds_first(client):
    await client("CREATE TABLE t (i INT, b BIGINT)")
    await client("INSERT INTO t VALUES (CAST('10:59:59.9' AS TIME(1)), TIMESTAMP '2024-02-29 23:59:59.9')")
    assert await client.rows("SELECT i, b FROM t") == [(110000, 20240301000000)]


@pytest.mark.parametrize("time", ["838:59:59.4", "-838:59:59.000001", "839:00:00"])
async def test_a_time_beyond_its_range_is_refused(client, time):
    await client("CREATE TABLE t (t0 TIME, t6 TIME(6))")
    for column in ("t0", "t6"):
        assert await client.errno(f"INSERT INTO t ({column}) VALUES ('{time}')") == 1292


async def test_a_key_of_before_compares_text_as_its_column_from_the_next_start_on(client, database):
    for name in ("good", "bad"):
        await client(f"CREATE TABLE {name} (id INT, e TEXT, UNIQUE KEY by_e (e(5)))")

    def as_before(connection):
        for name in ("good", "bad"):
            connection.execute(f"DROP INDEX `{name}:by_e`").close()
            connection.execute(f"CREATE UNIQUE INDEX `{name}:by_e` ON {name} (substr(`e`, 1, 5))").close()
        connection.execute("INSERT INTO bad VALUES (1, 'Bobby'), (2, 'bobby')").close()
        connection.execute("INSERT INTO good VALUES (1, 'Bobby'), (2, NULL), (3, NULL)").close()

    await database.write(as_before)
    path = database.path
    await client.session.close()
    await database.close()
    again = await SqliteDatabase.open(path)
    await Shared.of(again).load()
    keys = await again.read(
        lambda connection: connection.fetch_all("SELECT sql FROM sqlite_master WHERE name LIKE '%:by_e'")
    )
    assert sorted("NOCASE" in sql for (sql,) in keys) == [False, True]
    await again.close()

"""Small things in which the embedded backend differed from MariaDB."""

from __future__ import annotations

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

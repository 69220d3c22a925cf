"""Hostile names and values through every statement on schedules, and what sends their messages: nothing else is
executed, and names and values come back as they were."""

from __future__ import annotations

import json

import pymysql
import pytest
from servers import Sql, wait_until

HARM = "'; DROP TABLE canary; -- "
NAMES = (
    "it's",
    'say "x"',
    "a`b",
    "a``b`",
    "a\\",
    "a\\'b",
    "a;b",
    "-- a",
    "/* a */",
    "%s",
    "a?b",
    "{x}",
    "größe漢",
    HARM.rstrip(),
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture
def canary(sql):
    sql("CREATE TABLE IF NOT EXISTS canary (body VARCHAR(20))")
    sql("INSERT INTO canary VALUES ('unread')")
    yield
    assert sql.column("SELECT body FROM canary") == ["unread"]
    sql("DROP TABLE canary")


READ_BY_MODE = [
    (name, mode) for name in NAMES for mode in ("ANSI_QUOTES", "NO_BACKSLASH_ESCAPES") if set(name) & set("'\"`\\")
]
"""What is read otherwise in another mode has quotes or backslashes; a statement with these is refused in the second."""


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "") for name in NAMES),
        *(each for each in READ_BY_MODE if not ("\\" in each[0] and each[1] == "NO_BACKSLASH_ESCAPES")),
    ],
)
def test_names_and_values(sql, gate, canary, name, mode):
    table, column = f"h{name}", f"c{name}"
    sql(f"CREATE QUEUE {quoted(table)} ({quoted(column)} VARCHAR(100))")
    client = Sql(gate.connect(charset="utf8mb4"))
    client(f"SET SESSION sql_mode = '{mode}'")
    value = pymysql.converters.escape_string(name)
    if mode == "NO_BACKSLASH_ESCAPES":
        value = name.replace("'", "''")
    try:
        made = f"{quoted(name)} ON {quoted(table)} EVERY '1d' ({quoted(column)}) VALUES ('{value}')"
        client(f"CREATE SCHEDULE {made}")
        sql(f"UPDATE queuegate_schedules SET next_tick = time_created WHERE queue_name = '{sql_text(table)}'")
        client(f"ALTER SCHEDULE {quoted(name)} SET (missed = 'once')")
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {quoted(table)}"), what="the message")
        client(f"RUN SCHEDULE {quoted(name)}")
        assert sql.column(f"SELECT {quoted(column)} FROM {quoted(table)}") == [name, name]
        (row,) = [row for row in client.rows("SHOW SCHEDULES") if row[0] == name]
        assert row[2] == table and row[9] is None
        _, text = client.row(f"SHOW CREATE SCHEDULE {quoted(name)}")
        client(f"DROP SCHEDULE {quoted(name)}")
        client(text)
        client(f"RUN SCHEDULE {quoted(name)}")
        assert sql.column(f"SELECT {quoted(column)} FROM {quoted(table)}") == [name] * 3
        client(f"ALTER SCHEDULE {quoted(name)} PAUSE")
        client(f"ALTER SCHEDULE {quoted(name)} RESUME")
    finally:
        sql(f"DROP QUEUE {quoted(table)}")
        client.close()
    assert name not in [row[0] for row in sql.rows("SHOW SCHEDULES")]


def sql_text(text: str) -> str:
    return pymysql.converters.escape_string(text)


@pytest.mark.parametrize("value", [HARM, "x' OR '1'='1", "\\", "\\'", "a\x00b", "'" * 50, "\U0001f600"])
def test_a_row_that_was_written_by_hand_runs_nothing(sql, queue, canary, value):
    """Whoever may write to the table can have messages sent to queues of that database, and nothing else."""
    q = queue("body VARCHAR(100) CHARACTER SET utf8mb4")
    sql(f"CREATE SCHEDULE forged ON {q} EVERY '1d' (body) VALUES ('x')")
    try:
        values = json.dumps([{"s": value}])
        sql("UPDATE queuegate_schedules SET row_values = %s WHERE name = 'forged'", values)
        sql("UPDATE queuegate_schedules SET next_tick = time_created WHERE name = 'forged'")
        sql("ALTER SCHEDULE forged SET (missed = 'once')")
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}"), what="the message")
        assert sql.column(f"SELECT body FROM {q}") == [value]
        for column, forged in (
            ("row_values", '[{"w": "SLEEP(5)"}]'),
            ("row_values", '[{"n": "1); DROP TABLE canary; -- "}]'),
            ("column_names", '["body) SELECT 1; DROP TABLE canary; -- "]'),
            ("queue_name", "canary"),
        ):
            before = sql.value(f"SELECT {column} FROM queuegate_schedules WHERE name = 'forged'")
            sql(f"UPDATE queuegate_schedules SET {column} = %s, problem = NULL WHERE name = 'forged'", forged)
            sql("UPDATE queuegate_schedules SET next_tick = 5 WHERE name = 'forged'")
            sql("CREATE SCHEDULE IF NOT EXISTS another ON " + q + " EVERY '1d' (body) VALUES ('x')")
            wait_until(
                lambda: sql.value("SELECT problem FROM queuegate_schedules WHERE name = 'forged'"), what="the problem"
            )
            sql(f"UPDATE queuegate_schedules SET {column} = %s WHERE name = 'forged'", before)
            sql("DROP SCHEDULE another")
        assert sql.value(f"SELECT COUNT(*) FROM {q}") >= 1
    finally:
        sql("DROP SCHEDULE IF EXISTS forged")

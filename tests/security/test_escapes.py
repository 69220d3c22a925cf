"""What clients escape by: the status flags of sql_mode, from the first packet of a login on."""

from __future__ import annotations

from collections.abc import Callable

import pymysql
import pytest
from servers import Gate, Sql

NO_BACKSLASH_ESCAPES, ANSI_QUOTES = 0x200, 0x8000
HOSTILE = ["x' OR 1=1 -- ", "x\\' OR 1=1 -- ", "\\", "'", "''", '"', '\\"', "x\\", "\\'; DROP TABLE t; -- "]


def flags(connection: pymysql.Connection) -> int:
    return int(connection.server_status) & (NO_BACKSLASH_ESCAPES | ANSI_QUOTES)


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ("NO_BACKSLASH_ESCAPES", NO_BACKSLASH_ESCAPES),
        ("ANSI_QUOTES", ANSI_QUOTES),
        ("NO_BACKSLASH_ESCAPES,ANSI_QUOTES", NO_BACKSLASH_ESCAPES | ANSI_QUOTES),
        ("STRICT_TRANS_TABLES", 0),
    ],
)
def test_every_answer_tells_how_strings_are_written(sql: Sql, modes: str, expected: int) -> None:
    cursor = sql.connection.cursor()
    cursor.execute(f"SET sql_mode = '{modes}'")
    assert flags(sql.connection) == expected
    cursor.execute("SELECT 1")
    assert flags(sql.connection) == expected
    cursor.execute("DO 1")
    assert flags(sql.connection) == expected
    with pytest.raises(pymysql.Error):
        cursor.execute("SELECT * FROM this_is_no_table")
    sql.connection.ping(reconnect=False)
    assert flags(sql.connection) == expected
    cursor.execute("SET sql_mode = ''")
    assert flags(sql.connection) == 0


@pytest.mark.parametrize("modes", ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"])
def test_a_driver_that_escapes_by_the_flags_lets_nothing_in(sql: Sql, modes: str) -> None:
    cursor = sql.connection.cursor()
    cursor.execute(f"SET sql_mode = '{modes}'")
    for value in HOSTILE:
        cursor.execute("SELECT %s AS a, 'secret' <> 'secret' AND 'x' = %s AS b", (value, value))
        assert cursor.fetchall() == ((value, 0),), (modes, value)


def test_no_session_begins_in_another_mode_than_its_greeting_tells(place: str, new_gate: Callable[..., Gate]) -> None:
    """Clients escape by the greeting's flags before any answer; it is sent before the account is known."""
    if place != "embedded":
        pytest.skip("a server's global sql_mode is the server's, and its greeting is relayed")
    gate = new_gate().start()
    with gate.connect() as early, gate.connect() as admin:
        for modes in ("NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES"):
            with pytest.raises(pymysql.Error) as refused:
                admin.cursor().execute(f"SET GLOBAL sql_mode = '{modes}'")
            assert refused.value.args[0] == 1235
        early.cursor().execute("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
        with gate.connect() as late:
            assert flags(late) == 0
            cursor = late.cursor()
            cursor.execute("SELECT %s, @@sql_mode", (HOSTILE[1],))
            assert cursor.fetchall()[0][0] == HOSTILE[1]
        admin.cursor().execute("SET GLOBAL sql_mode = 'NO_ZERO_DATE'")
        cursor = early.cursor()
        cursor.execute("SELECT @@sql_mode")  # a session keeps what held when it began
        assert cursor.fetchall() == (("NO_BACKSLASH_ESCAPES",),)

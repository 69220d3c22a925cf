"""Variables have the types, the ranges and the errors of MariaDB's, compared with a MariaDB where there is one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pymysql
import pytest
from servers import SERVER

from embedded.session.variable_values import IDLE_MAX
from embedded.session.variables import NAMES

FLAG_UNSIGNED = 32
VALUES = ["-1", "0", "1", "7", "1.5", "1e0", "'abc'", "''", "NULL", "99999999999999999999", "'7'", "ON"]
REFUSED = {1231, 1232, 1115, 1273, 1286, 1298, 1649}
OTHERWISE = {
    # Settings that act in a server only are refused with 1235, and these take what a server takes in another way.
    "sql_mode": "numbers are sets of bits in a server",
    "optimizer_switch": "taken, and without effect",
    "session_track_system_variables": "taken, and without effect",
    "character_set_results": "NULL, which MariaDB refuses and MySQL takes",
    "default_tmp_storage_engine": "NULL, which MariaDB takes for the other one",
    "innodb_lock_wait_timeout": "an hour is the longest wait",
    "tmp_table_size": "whole pages in a server",
}


async def value(client, sql: str) -> tuple[Any, Any]:
    result = await client.result(sql)
    rows = [row async for batch in result.batches for row in batch]
    return rows[0][-1], result.columns[-1]


async def errno(client, sql: str) -> int:
    """The number of the error that a statement without rows ends in, 0 where there is none."""
    try:
        await client(sql)
    except Exception as error:
        return int(getattr(error, "errno", 0)) or pytest.fail(repr(error))
    return 0


@pytest.fixture(scope="module")
def server(mariadb):
    """A client of the MariaDB of this session of tests, for comparison."""
    if SERVER != "mariadb":
        pytest.skip("MariaDB is what the embedded backend's variables are compared with")
    connection = mariadb.connect(charset="utf8mb4")
    yield connection
    connection.close()


def of_server(server, name: str) -> tuple[int, bool, str] | None:
    """Type code, whether UNSIGNED, and what SHOW VARIABLES has; None where MariaDB lacks the variable."""
    with server.cursor() as cursor:
        try:
            cursor.execute(f"SELECT @@{name}")
        except pymysql.Error as error:
            assert error.args[0] == 1193
            return None
        field = cursor._result.fields[0]
        cursor.execute(f"SHOW VARIABLES LIKE '{name}'")
        return field.type_code, bool(field.flags & FLAG_UNSIGNED), cursor.fetchone()[1]


def form_of(text: str) -> str:
    """How a value reads: a switch, a whole number, a number with six decimals, or a word."""
    if text in ("ON", "OFF"):
        return "switch"
    if text.isdecimal():
        return "whole"
    return "six decimals" if text.replace(".", "").isdecimal() and len(text.partition(".")[2]) == 6 else "word"


async def test_each_has_the_type_that_it_has_in_a_server(client, server):
    compared, wrong = 0, []
    for name in NAMES:
        theirs = of_server(server, name)
        if theirs is None:
            continue
        compared += 1
        _, meta = await value(client, f"SELECT @@{name}")
        shown, _ = await value(client, f"SHOW VARIABLES LIKE '{name}'")
        ours = (meta.type, bool(meta.flags & FLAG_UNSIGNED), form_of(shown))
        if ours != (*theirs[:2], form_of(theirs[2])):
            wrong.append((name, ours, theirs))
    assert wrong == [], "\n".join(map(str, wrong))
    assert compared > 80


async def test_each_takes_what_it_takes_in_a_server(client, server):
    """What MariaDB refuses is refused with its number; what it brings into a range comes into the same one."""
    wrong = []
    for name in NAMES:
        if of_server(server, name) is None or name in OTHERWISE:
            continue
        for text in VALUES:
            with server.cursor() as cursor:
                try:
                    cursor.execute(f"SET SESSION {name} = {text}")
                    cursor.execute(f"SELECT @@{name} FROM (SELECT 1) AS t LIMIT 1")
                    theirs: Any = cursor.fetchone()[0]
                    cursor.execute(f"SET SESSION {name} = DEFAULT")
                except pymysql.Error as error:
                    theirs = error
            if isinstance(theirs, pymysql.Error) and theirs.args[0] not in REFUSED:
                continue  # a variable of the server as a whole, or one that only reads
            number = await errno(client, f"SET SESSION {name} = {text}")
            if number in (1235, 1238):
                continue
            if isinstance(theirs, str) and number and text.isdecimal():
                continue  # words that a server counts
            if isinstance(theirs, int) and theirs > 1 << 62:
                continue  # an overflow, of which each server makes something else
            if isinstance(theirs, pymysql.Error) or number:
                if not isinstance(theirs, pymysql.Error) or number not in REFUSED:
                    wrong.append((name, text, number, theirs))
            else:
                ours, _ = await value(client, f"SELECT @@{name} LIMIT 1")
                await client(f"SET SESSION {name} = DEFAULT")
                if type(ours) is not type(theirs) or (isinstance(ours, int) and ours != theirs):
                    wrong.append((name, text, ours, theirs))
    assert wrong == [], "\n".join(map(str, wrong))


async def test_settings_become_whole_seconds(client):
    """`limits.lock_wait_timeout` is 0.3 s here; a server counts whole seconds (r2dbc-mysql reads nothing else)."""
    read, meta = await value(client, "SELECT @@innodb_lock_wait_timeout")
    assert (read, meta.type, bool(meta.flags & FLAG_UNSIGNED)) == (1, 8, True)
    assert (await value(client, "SHOW VARIABLES LIKE 'innodb_lock_wait_timeout'"))[0] == "1"


@pytest.mark.parametrize(
    ("text", "kept"), [("0", 1), ("-5", 1), ("99999999999999999999", IDLE_MAX), ("31536001", IDLE_MAX), ("60", 60)]
)
async def test_what_is_out_of_range_is_brought_into_it_with_a_warning(client, text, kept):
    result = await client(f"SET net_read_timeout = {text}")
    assert (await value(client, "SELECT @@net_read_timeout"))[0] == kept
    assert result.warnings == (0 if str(kept) == text else 1)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT @@max_allowed_packet + 1 = 67108865",
        "SELECT @@max_allowed_packet - 1 = 67108863",
        "SELECT @@max_allowed_packet / 2 = 33554432",
        "SELECT @@max_allowed_packet > 5",
        "SELECT @@max_allowed_packet IN (1, 67108864)",
        "SELECT CONCAT(@@wait_timeout, 's') = '28800s'",
        "SELECT IFNULL(@@wait_timeout, 3) = 28800",
        "SELECT CASE WHEN @@wait_timeout > 1 THEN @@wait_timeout ELSE 0 END = 28800",
        "SELECT @@wait_timeout & 255 = 128",
        "SELECT ROUND(@@max_allowed_packet / 1024 / 1024) = 64",
        "SELECT MAX(@@wait_timeout) = 28800",
        "SELECT CAST(@@wait_timeout AS CHAR) = '28800'",
        "SELECT @@wait_timeout = '28800' AND @@wait_timeout BETWEEN 1 AND 30000",
        "SELECT 1 FROM (SELECT @@wait_timeout AS w UNION SELECT 1) AS t WHERE w = 28800 LIMIT 1",
        "SELECT @@timestamp BETWEEN UNIX_TIMESTAMP() - 5 AND UNIX_TIMESTAMP() + 5",
        "SELECT @@autocommit = 1",
    ],
)
async def test_they_are_numbers_in_expressions(client, sql):
    assert (await value(client, sql))[0] in (1, Decimal(1))


async def test_a_user_variable_takes_a_plain_number(client):
    await client("SET @w = @@wait_timeout, @m = @@max_statement_time")
    assert (await value(client, "SELECT @w - 28801"))[0] == -1
    assert (await value(client, "SELECT @m"))[0] == 0


async def test_unsigned_as_in_a_server(client):
    assert await client.errno("SELECT @@wait_timeout - 28801") == 1690


async def test_of_several_settings_none_is_in_force_where_one_is_refused(client):
    modes = (await value(client, "SELECT @@sql_mode"))[0]
    assert await client.errno("SET SESSION sql_mode = 'ANSI_QUOTES', GLOBAL sql_mode = 'ANSI_QUOTES'") == 1235
    assert await client.errno("SET SESSION sql_mode = 'ANSI_QUOTES', wait_timeout = 'x'") == 1232
    assert (await value(client, "SELECT @@sql_mode"))[0] == modes
    assert (await value(client, 'SELECT "text"'))[0] == "text"

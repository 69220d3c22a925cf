"""Texts that are not valid in the client's charset: an answer or a clear error, and the connection lives on."""

from __future__ import annotations

import pytest
from pymysql.constants import COMMAND
from pymysql.err import MySQLError

pytestmark = pytest.mark.no_proxy_accounts

STATEMENTS = [
    b"ACK {q} \xff\xfe",
    b"ACK {q} '\xff\xfe'",
    b"CREATE QUEUE \xff (a INT)",
    b"CREATE QUEUE {q}x (a INT) WITH (dead_letter = '\xff')",
    b"ALTER QUEUE {q} SET (order_key = '\xff')",
    b"CREATE TOPIC {q}x (a INT) WITH (compact = '\\xff')",
    b"SELECT * FROM STREAM `\\xff`",
    b"SELECT \xff FROM STREAM {q}",
    b"INSERT INTO {q} (payload) VALUES ('\xff')",
    b"SELECT HEX('\xff') AS x",
    b"SELECT 1 AS `\xff`",
    b"SELECT \xff",
    b"SET @x = \xff",
    b"SHOW TABLES LIKE '\xff'",
    b"CREATE TABLE `\xff` (a INT)",
    b"KILL \xff",
    b"\xff",
    b"\x00",
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=repr)
def test_bytes_that_are_no_characters(sql, queue, statement):
    q = queue()
    connection = sql.connection
    try:
        connection._execute_command(COMMAND.COM_QUERY, statement.replace(b"{q}", q.encode()))
        connection._read_query_result()
    except MySQLError as error:
        assert error.args[0] not in (2006, 2013, 1105), error
        sql.rows("SHOW WARNINGS")
    assert sql.value("SELECT 1") == 1


@pytest.mark.parametrize("filter_", [b"a = '\xff'", b"\xff = 1", b"a = \xff"], ids=repr)
def test_filters_of_bytes_that_are_no_characters(sql, topic, filter_):
    t, group = topic("a VARCHAR(20)"), b"'" + filter_.replace(b"'", b"''") + b"'"
    connection = sql.connection
    with pytest.raises(MySQLError) as refused:
        statement = b"CREATE GROUP g ON %s WITH (filter = %s)" % (t.encode(), group)
        connection._execute_command(COMMAND.COM_QUERY, statement)
        connection._read_query_result()
    assert refused.value.args[0] not in (2006, 2013, 1105), refused.value
    assert sql.value("SELECT 1") == 1

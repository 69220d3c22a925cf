"""sql_mode: what it changes in the reading of a statement, and what is refused under it."""

from __future__ import annotations

import pytest


async def test_ansi_is_what_it_stands_for(client):
    await client("SET sql_mode = 'ansi'")
    modes = "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY,ANSI"
    assert await client.value("SELECT @@sql_mode") == modes
    await client('CREATE TABLE "t" ("a" INT, b VARCHAR(9))')
    await client("INSERT INTO t VALUES (1, 'x' || 'y')")
    assert await client.rows('SELECT "a" || \'-\' || b FROM "t"') == [("1-xy",)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'a' || 'b'", "ab"),
        ("'a' || NULL", None),
        ("1 || 2 + 3", 15),
        ("3 + 1 || 2", 15),
        ("1 || 2 * 3", 36),
        ("-1 || 2", "-12"),
        ("'ab' || 'c' LIKE 'a%c'", 1),
        ("'a' || 'b' = 'ab' OR 0", 1),
        ("'|' || '||'", "|||"),
        ("CONCAT('a' || 'b', 'c')", "abc"),
    ],
)
async def test_pipes_join_and_bind_tightly(client, mariadb, expression, value):
    await client("SET sql_mode = 'PIPES_AS_CONCAT'")
    assert await client.value(f"SELECT {expression}") == value
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'PIPES_AS_CONCAT'")
        cursor.execute(f"SELECT {expression}")
        ((answer,),) = cursor.fetchall()
        assert answer == value


async def test_pipes_are_or_without_the_mode(client):
    await client("SET sql_mode = ''")
    assert await client.rows("SELECT 'a' || 'b', 0 || 2") == [(0, 1)]
    await client("SET sql_mode = 'PIPES_AS_CONCAT'")
    assert await client.rows("SELECT 'a' || 'b', 0 || 2") == [("ab", "02")]


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("SELECT 2 * 1 || 2", 1235),
        ("CREATE VIEW v AS SELECT 'a' || 'b' AS x", 1235),
        ("CREATE TABLE u (a VARCHAR(9) AS ('x' || 'y'))", 1235),
        ("CREATE TABLE u (a REAL)", 1235),
        ("SELECT 1 <-> 2", 1064),
    ],
)
async def test_what_would_be_read_otherwise_is_refused(client, sql, number):
    await client("SET sql_mode = 'ANSI'")
    assert await client.errno(sql) == number
    assert await client.value("SELECT `||`.a FROM (SELECT 1 AS a) AS `||`") == 1

"""What drivers and tools set and expect without being asked: limits, marks of columns, values in dumps."""

from __future__ import annotations


async def test_select_limit_holds_for_selects_without_a_limit(client):
    """Java's setMaxRows sets it."""
    await client("CREATE TABLE t (a INT)")
    await client("INSERT INTO t VALUES " + ", ".join(f"({n})" for n in range(3000)))
    for limit in (0, 1, 256, 1500, 5000):
        await client(f"SET sql_select_limit = {limit}")
        rows = await client.rows("SELECT a FROM t ORDER BY a")
        assert rows == [(n,) for n in range(min(limit, 3000))]
        assert len(await client.rows("(SELECT a FROM t LIMIT 7)")) == 7
        assert len(await client.rows("SELECT a FROM t LIMIT 2000")) == 2000
        assert len(await client.rows("SELECT a FROM t WHERE a < 3 UNION ALL SELECT a FROM t WHERE a < 3")) == min(
            limit, 6
        )
        assert len(await client.rows("SHOW COLUMNS FROM t")) == 1
        await client("SET @x = 1 + 1")
        await client("PREPARE s FROM 'SELECT a FROM t WHERE a < 5'")
        assert len(await client.rows("EXECUTE s")) == min(limit, 5)
    await client("SET sql_select_limit = 2")
    await client("CREATE TABLE copy AS SELECT a FROM t")
    assert await client.rows("SELECT COUNT(*), (SELECT MAX(a) FROM t), @x FROM copy") == [(3000, 2999, 2)]
    assert await client.rows("SELECT a FROM t") == [(0,), (1,)]
    assert await client.value("SELECT FOUND_ROWS()") == 2
    await client("SET sql_select_limit = DEFAULT")
    assert len(await client.rows("SELECT a FROM t")) == 3000


async def test_values_for_generated_columns_are_ignored_without_strict_mode(client):
    """MariaDB's dumps have them."""
    await client("CREATE TABLE t (a INT, twice INT AS (a * 2) STORED, b INT)")
    await client("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
    await client("INSERT INTO t VALUES (1, 77, 3), (4, 78, 6)")
    await client("INSERT INTO t (twice, b, a) SELECT 79, 9, 7")
    await client("REPLACE INTO t VALUES (?, ?, ?)", 10, 80, 12)
    assert await client.rows("SELECT a, twice, b FROM t") == [(1, 2, 3), (4, 8, 6), (7, 14, 9), (10, 20, 12)]
    await client("SET sql_mode = DEFAULT")
    assert await client.errno("INSERT INTO t VALUES (1, 77, 3)") == 3105


async def test_numbers_are_marked_binary_where_they_are_computed_only(client):
    """As MySQL does; Connector/J takes a stored BOOLEAN with that mark for bytes."""
    await client("CREATE TABLE t (a BOOLEAN, b DECIMAL(5,2), c DOUBLE, d DATE)")
    result = await client.result("SELECT a, b, c, d, a + 1, COUNT(*) FROM t")
    assert [bool(column.flags & 128) for column in result.columns] == [False, False, False, True, True, True]
    assert [row async for batch in result.batches for row in batch]

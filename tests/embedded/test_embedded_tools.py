"""What schema tools send to the embedded backend: Flyway, JDBC metadata, Adminer, Doctrine."""

from __future__ import annotations

import re

import pytest

FLYWAY = (
    "CREATE TABLE `main`.`history` (`rank` INT NOT NULL, `version` VARCHAR(50), `script` VARCHAR(100) NOT NULL,"
    " `success` BOOL NOT NULL, `at` TIMESTAMP DEFAULT CURRENT_TIMESTAMP, CONSTRAINT `history_pk` PRIMARY KEY (`rank`))"
    " ENGINE=InnoDB AS SELECT 1 as `rank`, '1' as version, '<< Baseline >>' as script, TRUE as `success`"
)


async def test_create_select_with_columns_and_keys(client, mariadb):
    await client(FLYWAY)
    columns = [row[0] for row in await client.rows("SHOW COLUMNS FROM history")]
    assert columns == ["at", "rank", "version", "script", "success"]
    assert [row[2] for row in await client.rows("SHOW KEYS FROM history")] == ["PRIMARY"]
    assert await client.rows("SELECT `rank`, version, script, success FROM history") == [(1, "1", "<< Baseline >>", 1)]
    assert await client.value("SELECT at IS NOT NULL FROM history") == 1
    assert await client.errno("CREATE TABLE twice (a INT PRIMARY KEY) SELECT 1 AS a UNION ALL SELECT 1") == 1062
    assert await client.errno("SELECT * FROM twice") == 1146
    assert await client.errno("CREATE TABLE bad (a INT, KEY (nope)) SELECT 1 AS a") == 1072
    with mariadb.connect(database="main") as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS history")
        cursor.execute(FLYWAY)
        cursor.execute("SHOW COLUMNS FROM history")
        assert [row[0] for row in cursor.fetchall()] == columns
        cursor.execute("DROP TABLE history")


async def test_what_jdbc_and_adminer_ask_for(client):
    assert await client.rows("SELECT DTD_IDENTIFIER, ROUTINE_BODY FROM information_schema.ROUTINES") == []
    assert await client.rows("SELECT DTD_IDENTIFIER FROM information_schema.PARAMETERS") == []
    assert await client.rows("SELECT host, db, grantor, table_priv FROM mysql.tables_priv") == []
    assert await client.rows("SELECT User FROM mysql.columns_priv WHERE Host = 'x'") == []
    assert await client.errno("SELECT * FROM mysql.user") == 1146
    assert await client.errno("SELECT * FROM information_schema.tables_priv") == 1109
    assert await client.errno("SHOW BINLOG EVENTS") == 1235


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT @r := @r + 1 FROM t",  # the row before
        "SELECT IF(id > 1, @h := 1, 0) FROM t",
        "SELECT CASE WHEN id > 1 THEN @h := 1 END FROM t",
        "SELECT id > 1 AND (@h := 1) FROM t",
        "SELECT COALESCE(id, @h := 1) FROM t",
        "SELECT CASE WHEN (@h := id) THEN 1 ELSE 2 END FROM t",
        "SELECT @u := UUID()",  # told once and kept once, so it must not be worked out twice
        "SELECT @g := id FROM t GROUP BY id",
        "SELECT DISTINCT @g := id FROM t",
        "SELECT @g := id FROM t WHERE @g > 0",
        "SELECT @g := id FROM t ORDER BY @g",
        "SELECT (SELECT @c := 4)",
        "SELECT @c := 1, (SELECT MAX(id) FROM t WHERE id > @c)",
        "SELECT * FROM (SELECT @c := 4 AS c) d",
        "SELECT @e := 1 UNION SELECT 2",
        "INSERT INTO t VALUES (@i := 9)",
        "UPDATE t SET id = (@i := 9)",
        "CREATE TABLE u AS SELECT @f := 1 AS a",
        "CREATE VIEW u AS SELECT @f := 1 AS a",
    ],
)
async def test_variables_assigned_where_it_cannot_be_faithful(client, sql):
    """What can be done is in statements/user_variables.sql. A refused query leaves every variable as it was."""
    await client("CREATE TABLE t (id INT PRIMARY KEY)")
    await client("INSERT INTO t VALUES (1), (2)")
    assert await client.errno(sql) == 1235
    assert await client.rows("SELECT @r, @h, @u, @g, @c, @e, @i, @f") == [(None,) * 8]
    assert await client.value("SELECT COUNT(*) FROM t WHERE id = 9") == 0


async def test_a_variable_has_the_value_of_the_last_row_sent(client):
    await client("CREATE TABLE t (id INT PRIMARY KEY)")
    await client("INSERT INTO t VALUES (1), (2), (3)")
    assert await client.rows("SELECT @a := id, @a * ? FROM t ORDER BY id DESC LIMIT 2", 10) == [(3, 30), (2, 20)]
    assert await client.value("SELECT @a") == 2
    await client("SET sql_select_limit = 1")
    assert await client.rows("SELECT @a := id FROM t ORDER BY id DESC") == [(3,)]
    assert await client.value("SELECT @a") == 3


async def test_temporary_tables_are_described_by_name_and_in_no_list(client):
    await client("CREATE TEMPORARY TABLE tt (id INT PRIMARY KEY, v VARCHAR(9))")
    for sql in ("DESCRIBE `main`.`tt`", "SHOW COLUMNS FROM tt", "SHOW FULL COLUMNS FROM tt FROM main"):
        assert [row[0] for row in await client.rows(sql)] == ["id", "v"]
    assert [row[2] for row in await client.rows("SHOW INDEX FROM tt")] == ["PRIMARY"]
    assert await client.rows("SHOW TABLES") == []
    assert await client.rows("SELECT * FROM information_schema.COLUMNS WHERE TABLE_NAME = 'tt'") == []
    await client("DROP TABLE tt")
    assert await client.errno("DESCRIBE tt") == 1146


FOREIGN_KEYS = (
    "CREATE TABLE parents (id INT PRIMARY KEY)",
    "CREATE TABLE children (a INT, b INT, c INT, CONSTRAINT zz FOREIGN KEY (a) REFERENCES parents (id),"
    " FOREIGN KEY (b) REFERENCES parents (id), CONSTRAINT Aa FOREIGN KEY (c) REFERENCES parents (id))",
)


async def test_foreign_keys_are_told_by_name_as_innodb_does(client, mariadb):
    """SQLAlchemy's and other tools' comparisons of schemas go by the order."""
    asked = "SELECT CONSTRAINT_NAME FROM information_schema.{} WHERE TABLE_NAME = 'children'"
    tables = ("KEY_COLUMN_USAGE", "REFERENTIAL_CONSTRAINTS", "TABLE_CONSTRAINTS")
    for sql in FOREIGN_KEYS:
        await client(sql)
    text = (await client.rows("SHOW CREATE TABLE children"))[0][1]
    names = re.findall(r"CONSTRAINT `(\w+)`", text)
    assert names == ["Aa", "children_ibfk_1", "zz"]
    assert [await client.rows(asked.format(table)) for table in tables] == [[(name,) for name in names]] * 3
    with mariadb.connect(database="main") as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS children, parents")
        for sql in FOREIGN_KEYS:
            cursor.execute(sql)
        cursor.execute("SHOW CREATE TABLE children")
        assert re.findall(r"CONSTRAINT `(\w+)`", cursor.fetchone()[1]) == names
        cursor.execute("DROP TABLE children, parents")


@pytest.mark.parametrize("kind", ["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"])
async def test_what_is_not_there_is_dropped_with_a_note(client, kind):
    await client(f"DROP {kind} IF EXISTS `main`.nothing")
    assert [row[:2] for row in await client.rows("SHOW WARNINGS")] == [("Note", 1305)]
    assert await client.errno(f"DROP {kind} nothing") == 1235


async def test_utf8_is_told_by_its_name(client):
    await client("CREATE TABLE t (a VARCHAR(9) CHARACTER SET utf8 COLLATE utf8_unicode_ci) COLLATE utf8_bin")
    assert "COLLATE=utf8mb3_bin" in (await client.rows("SHOW CREATE TABLE t"))[0][1]
    collation = "SELECT COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_NAME = 't'"
    assert await client.rows(collation) == [("utf8mb3_unicode_ci", "utf8mb3")]


@pytest.mark.parametrize("declared", ["in the table", "later"])
async def test_a_declared_key_takes_the_place_of_the_implied_one(client, declared):
    await client("CREATE TABLE parent (id INT PRIMARY KEY)")
    key = ", KEY wide (p, n)" if declared == "in the table" else ""
    await client(
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, n INT,"
        f" CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id){key})"
    )
    if declared == "later":
        assert [row[2] for row in await client.rows("SHOW KEYS FROM child")] == ["PRIMARY", "fk"]
        await client("CREATE INDEX wide ON child (p, n)")
    assert [row[2] for row in await client.rows("SHOW KEYS FROM child")] == ["PRIMARY", "wide", "wide"]
    await client("CREATE INDEX other ON child (p)")
    names = [row[2] for row in await client.rows("SHOW KEYS FROM child")]
    assert names == ["PRIMARY", "wide", "wide", "other"]  # one that was declared stays

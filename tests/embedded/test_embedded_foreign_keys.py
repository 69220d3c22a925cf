"""Foreign keys: which side failed, and checks that are turned off and on."""

from __future__ import annotations

import pytest


async def test_foreign_keys_tell_which_side_failed(client):
    await client("CREATE TABLE parent (id INT PRIMARY KEY, other INT UNIQUE)")
    await client(
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, o INT,"
        " CONSTRAINT to_parent FOREIGN KEY (p) REFERENCES parent (id),"
        " CONSTRAINT to_other FOREIGN KEY (o) REFERENCES parent (other))"
    )
    await client("INSERT INTO parent VALUES (1, 10)")
    await client("INSERT INTO child VALUES (1, 1, 10)")
    number, text = await client.error("INSERT INTO child VALUES (2, 1, 99)")
    assert number == 1452
    assert "`to_other`" in text
    assert "(`main`.`child`" in text
    number, text = await client.error("DELETE FROM parent")
    assert number == 1451
    assert "`main`.`child`" in text
    assert await client.errno("UPDATE child SET p = 5") == 1452
    assert await client.errno("UPDATE parent SET id = 5") == 1451
    assert await client.errno("REPLACE INTO parent VALUES (1, 11)") == 1451
    assert await client.errno("DROP TABLE parent") == 3730
    assert await client.errno("TRUNCATE parent") == 1701
    await client("DROP TABLE child, parent")


async def test_foreign_keys_can_be_left_unchecked(client, connect):
    other = connect()
    await client("SET foreign_key_checks = 0")
    await client("CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))")
    await client("INSERT INTO child VALUES (1, 7)")
    await client("CREATE TABLE parent (id INT PRIMARY KEY)")
    assert await other.errno("INSERT INTO child VALUES (2, 8)") == 1452
    await client("BEGIN")
    await client("INSERT INTO child VALUES (3, 9)")
    await client("SET foreign_key_checks = 1")
    assert await client.errno("INSERT INTO child VALUES (4, 9)") == 1452
    await client("COMMIT")
    await client("SET foreign_key_checks = 0")
    await client("TRUNCATE parent")
    await client("SET foreign_key_checks = 1")
    assert await client.errno("INSERT INTO child VALUES (4, 9)") == 1452
    assert await client.rows("SELECT id FROM child ORDER BY id") == [(1,), (3,)]
    await client("INSERT INTO parent VALUES (7), (9)")
    assert await client.errno("DELETE FROM parent") == 1451


@pytest.mark.parametrize("begin", ["BEGIN", "SET autocommit = 0", "START TRANSACTION WITH CONSISTENT SNAPSHOT"])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_foreign_key_checks_change_inside_a_transaction(client, connect, begin, end):
    other = connect()
    await client("CREATE TABLE parent (id INT PRIMARY KEY)")
    await client("CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))")
    await client("INSERT INTO parent VALUES (1)")
    await client("INSERT INTO child VALUES (1, 1)")
    await client(begin)
    await client("INSERT INTO parent VALUES (2)")
    assert await client.errno("INSERT INTO child VALUES (2, 9)") == 1452
    await client("SAVEPOINT s")
    await client("SET foreign_key_checks = 0")
    await client("DELETE FROM parent")
    await client("INSERT INTO child VALUES (3, 9)")
    await client("SET foreign_key_checks = 1")
    assert await client.errno("INSERT INTO child VALUES (4, 9)") == 1452
    await client("INSERT INTO parent VALUES (1)")
    assert await client.errno("DELETE FROM parent") == 1451
    await client("SET foreign_key_checks = 0")
    await client("ROLLBACK TO s")
    await client("INSERT INTO child VALUES (5, 9)")
    await client(end)
    assert await client.rows("SELECT id FROM child ORDER BY id") == ([(1,), (5,)] if end == "COMMIT" else [(1,)])
    assert await other.errno("INSERT INTO child VALUES (6, 9)") == 1452  # the connection was given back with its checks


@pytest.mark.parametrize(
    ("parent", "child", "fits"),
    [
        ("INT", "INT", True),
        ("INT", "VARCHAR(10)", False),
        ("INT", "BIGINT", False),
        ("INT", "INT UNSIGNED", False),
        ("YEAR", "INT", False),
        ("VARCHAR(10)", "CHAR(20)", True),
        ("VARCHAR(10)", "VARCHAR(10) COLLATE utf8mb4_bin", False),
        ("VARBINARY(10)", "BINARY(10)", True),
        ("VARBINARY(10)", "VARCHAR(10)", False),
        ("DECIMAL(10,2)", "DECIMAL(20,3)", True),
        ("DOUBLE", "FLOAT", False),
        ("DATETIME", "DATETIME(3)", True),
        ("DATETIME", "DATE", False),
        ("ENUM('a','b')", "ENUM('a')", True),
        ("VARCHAR(10)", "ENUM('a')", False),
    ],
)
async def test_a_foreign_key_needs_types_that_are_alike(client, parent, child, fits):
    await client(f"CREATE TABLE parent (id {parent} PRIMARY KEY)")
    key = "FOREIGN KEY (p) REFERENCES parent (id)"
    await client(f"CREATE TABLE later (p {child})")
    if fits:
        await client(f"CREATE TABLE child (p {child}, {key})")
        await client(f"ALTER TABLE later ADD {key}")
        return
    assert await client.errno(f"CREATE TABLE child (p {child}, {key})") == 3780
    assert await client.errno(f"ALTER TABLE later ADD {key}") == 3780
    await client(f"CREATE TABLE child (p {parent}, {key})")
    assert await client.errno(f"ALTER TABLE child MODIFY p {child}") == 3780
    assert await client.errno(f"ALTER TABLE parent MODIFY id {child}") == 3780
    await client("SET foreign_key_checks = 0")
    assert await client.errno(f"CREATE TABLE child2 (p {child}, {key})") == 3780


async def test_a_foreign_key_shows_the_new_name_of_its_column(client):
    await client("CREATE TABLE parent (id INT PRIMARY KEY)")
    await client("CREATE TABLE child (p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id))")
    await client("ALTER TABLE parent RENAME COLUMN id TO uid")
    ((_, shown),) = await client.rows("SHOW CREATE TABLE child")
    assert "REFERENCES `parent` (`uid`)" in shown


@pytest.fixture
async def orphan(client):
    """A child of no parent, which was written without checks."""
    await client("CREATE TABLE parent (id INT PRIMARY KEY, other INT)")
    await client("CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id))")
    await client("SET foreign_key_checks = 0")
    await client("INSERT INTO child VALUES (1, 99)")
    await client("SET foreign_key_checks = 1")


async def test_rows_that_were_never_checked_hinder_no_other_definition(client, connect, orphan):
    for sql in (
        "CREATE TABLE unrelated (a INT)",
        "CREATE TEMPORARY TABLE passing (a INT)",
        "CREATE INDEX by_other ON parent (other)",
        "ALTER TABLE parent ADD x INT, COMMENT 'changed'",
        "ALTER TABLE child ADD y INT, RENAME COLUMN p TO q",
        "ALTER TABLE parent RENAME COLUMN id TO uid",
        "ALTER TABLE child RENAME TO kid",
    ):
        await connect()(sql)
    assert await client.errno("INSERT INTO kid (id, q) VALUES (2, 98)") == 1452
    await client("SET foreign_key_checks = 0")
    await client("DROP TABLE parent")
    await client("SET foreign_key_checks = 1")
    await client("CREATE TABLE later (a INT)")
    await client("CREATE TABLE parent (uid INT PRIMARY KEY)")


async def test_a_key_that_a_definition_adds_or_changes_is_checked(client, orphan):
    added = "FOREIGN KEY (p) REFERENCES parent (id)"
    assert await client.errno(f"ALTER TABLE child ADD CONSTRAINT again {added}") == 1452
    assert await client.errno(f"CREATE TABLE copied (p INT, {added}) AS SELECT p FROM child") == 1452
    await client("SET foreign_key_checks = 0")
    await client("CREATE TABLE tree (id INT PRIMARY KEY, up INT)")
    await client("INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 9)")
    await client("SET foreign_key_checks = 1")
    to_itself = "ALTER TABLE tree ADD FOREIGN KEY (up) REFERENCES tree (id)"
    assert await client.errno(to_itself) == 1452
    await client("UPDATE tree SET up = 2 WHERE up = 9")
    await client(to_itself)


async def test_what_a_foreign_key_leads_to_cannot_be_dropped(client, orphan):
    assert await client.errno("ALTER TABLE parent DROP COLUMN id") == 1829
    assert await client.errno("ALTER TABLE parent DROP PRIMARY KEY") == 1553

"""SHOW, DESCRIBE, EXPLAIN, information_schema and what clients ask for when they connect."""

from __future__ import annotations

import pytest


@pytest.fixture
async def shop(client):
    await client(
        "CREATE TABLE customer (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(100) NOT NULL,"
        " name VARCHAR(50) COLLATE utf8mb4_bin DEFAULT 'nobody' COMMENT 'as they say', UNIQUE KEY by_email (email))"
        " COMMENT='people; who buy'"
    )
    await client(
        "CREATE TABLE purchase (id INT NOT NULL, line INT NOT NULL, who BIGINT UNSIGNED,"
        " price DECIMAL(10,2) DEFAULT 1.5,"
        " at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), kind ENUM('a','b') DEFAULT 'a',"
        " note TEXT, total DECIMAL(12,2) AS (price * 2) STORED, raw VARBINARY(16), PRIMARY KEY (id, line),"
        " KEY by_who (who, at DESC),"
        " KEY by_note (note(20)), CONSTRAINT buyer FOREIGN KEY (who) REFERENCES customer (id) ON DELETE CASCADE,"
        " CONSTRAINT dear CHECK (price > 0))"
    )
    await client("CREATE VIEW cheap AS SELECT id, price FROM purchase WHERE price < 5")


async def test_show_create_table_reads_back_to_the_same(client, shop):
    for table in ("customer", "purchase"):
        ((name, text),) = await client.rows(f"SHOW CREATE TABLE {table}")
        assert name == table
        copy = text.replace(f"`{table}`", f"`{table}_2`", 1)
        await client(copy.replace("`buyer`", "`buyer_2`").replace("`dear`", "`dear_2`"))
        ((_, again),) = await client.rows(f"SHOW CREATE TABLE {table}_2")
        again = again.replace("`buyer_2`", "`buyer`").replace("`dear_2`", "`dear`")
        assert again == text.replace(f"`{table}`", f"`{table}_2`", 1)


async def test_show_create_table_is_mysqls_text(client, shop):
    ((_, text),) = await client.rows("SHOW CREATE TABLE customer")
    assert text == (
        "CREATE TABLE `customer` (\n"
        "  `id` bigint unsigned NOT NULL AUTO_INCREMENT,\n"
        "  `email` varchar(100) NOT NULL,\n"
        "  `name` varchar(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'nobody' COMMENT 'as they say',\n"
        "  PRIMARY KEY (`id`),\n"
        "  UNIQUE KEY `by_email` (`email`)\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='people; who buy'"
    )


async def test_describe(client, shop):
    assert await client.rows("DESCRIBE purchase") == [
        ("id", "int", "NO", "PRI", None, ""),
        ("line", "int", "NO", "PRI", None, ""),
        ("who", "bigint unsigned", "YES", "MUL", None, ""),
        ("price", "decimal(10,2)", "YES", "", "1.5", ""),
        ("at", "datetime(3)", "YES", "", "CURRENT_TIMESTAMP(3)", "DEFAULT_GENERATED on update CURRENT_TIMESTAMP(3)"),
        ("kind", "enum('a','b')", "YES", "", "a", ""),
        ("note", "text", "YES", "MUL", None, ""),
        ("total", "decimal(12,2)", "YES", "", None, "STORED GENERATED"),
        ("raw", "varbinary(16)", "YES", "", None, ""),
    ]
    assert await client.rows("DESC customer 'na%'") == [("name", "varchar(50)", "YES", "", "nobody", "")]
    assert [row[0] for row in await client.rows("EXPLAIN cheap")] == ["id", "price"]
    assert await client.errno("DESCRIBE nope") == 1146


async def test_show_columns_full_like_where(client, shop):
    ((_, _, collation, *_, comment),) = await client.rows("SHOW FULL COLUMNS FROM customer LIKE 'name'")
    assert (collation, comment) == ("utf8mb4_bin", "as they say")
    rows = await client.rows("SHOW COLUMNS FROM purchase IN main WHERE `Key` = 'PRI' AND Field <> 'line'")
    assert [row[0] for row in rows] == ["id"]
    assert await client.errno("SHOW COLUMNS FROM nope") == 1146


async def test_show_tables_and_databases(client, shop):
    assert await client.rows("SHOW TABLES") == [("cheap",), ("customer",), ("purchase",)]
    assert await client.rows("SHOW FULL TABLES FROM main WHERE Table_type = 'VIEW'") == [("cheap", "VIEW")]
    assert await client.rows("SHOW TABLES LIKE 'p%'") == [("purchase",)]
    assert await client.rows("SHOW DATABASES LIKE 'm%'") == [("main",)]
    assert await client.errno("SHOW TABLES FROM nope") == 1049
    ((name, engine, *_, comment),) = await client.rows("SHOW TABLE STATUS LIKE 'customer'")
    assert (name, engine, comment) == ("customer", "InnoDB", "people; who buy")


async def test_show_index(client, shop):
    rows = await client.rows("SHOW INDEX FROM purchase")
    assert [(row[1], row[2], row[3], row[4], row[5], row[7], row[9]) for row in rows] == [
        (0, "PRIMARY", 1, "id", "A", None, ""),
        (0, "PRIMARY", 2, "line", "A", None, ""),
        (1, "by_who", 1, "who", "A", None, "YES"),
        (1, "by_who", 2, "at", "D", None, "YES"),
        (1, "by_note", 1, "note", "A", 20, "YES"),
    ]


async def test_information_schema(client, shop):
    columns = "column_name, data_type, column_type, is_nullable, numeric_precision, numeric_scale, datetime_precision"
    where = (
        "WHERE table_schema = 'main' AND table_name = 'purchase' AND column_name IN ('price', 'at', 'who') ORDER BY 1"
    )
    assert await client.rows(f"SELECT {columns} FROM information_schema.columns {where}") == [
        ("at", "datetime", "datetime(3)", "YES", None, None, 3),
        ("price", "decimal", "decimal(10,2)", "YES", 10, 2, None),
        ("who", "bigint", "bigint unsigned", "YES", 20, 0, None),
    ]
    assert await client.rows(
        "SELECT constraint_name, column_name, referenced_table_name, referenced_column_name"
        " FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE WHERE referenced_table_name IS NOT NULL"
    ) == [("buyer", "who", "customer", "id")]
    assert await client.rows(
        "SELECT constraint_name, update_rule, delete_rule FROM information_schema.referential_constraints"
    ) == [("buyer", "NO ACTION", "CASCADE")]
    assert await client.rows("SELECT check_clause FROM information_schema.check_constraints") == [("(price > 0)",)]
    assert (
        await client.value("SELECT auto_increment FROM information_schema.tables WHERE table_name = 'customer'") is None
    )
    await client("INSERT INTO customer (email) VALUES ('a'), ('b')")
    assert await client.value("SELECT auto_increment FROM information_schema.tables WHERE table_name = 'customer'") == 3
    joined = (
        "SELECT t.table_name, COUNT(*) FROM information_schema.tables t JOIN information_schema.columns c"
        " USING (table_schema, table_name) WHERE t.table_schema = DATABASE() GROUP BY 1 ORDER BY 1"
    )
    assert await client.rows(joined) == [("cheap", 2), ("customer", 3), ("purchase", 9)]
    assert await client.rows("SELECT view_definition FROM information_schema.views") == [
        ("SELECT id, price FROM purchase WHERE price < 5",)
    ]
    for empty in ("routines", "triggers", "events", "partitions", "parameters"):
        assert await client.value(f"SELECT COUNT(*) FROM information_schema.{empty}") == 0
    await client("USE information_schema")
    assert await client.value("SELECT COUNT(*) FROM schemata") == 2
    assert await client.value("SELECT DATABASE()") == "information_schema"


async def test_tables_made_and_dropped_show_at_once(client, connect, shop):
    other = connect()
    count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'main'"
    assert await other.value(count) == 3
    await client("CREATE TABLE another (a INT)")
    assert await other.value(count) == 4
    await client("DROP TABLE another")
    assert await other.value(count) == 3


async def test_explain_tells_sqlites_plan(client, shop):
    ((*_, key, _, _, _, _, extra),) = await client.rows("EXPLAIN SELECT * FROM purchase WHERE who = 5")
    assert key == "by_who"
    assert extra.startswith("SEARCH")
    ((_, kind, table, *_),) = await client.rows("EXPLAIN DELETE FROM purchase")
    assert (kind, table) == ("DELETE", "purchase")


@pytest.mark.parametrize(
    "sql",
    [
        # the command-line client
        "select @@version_comment limit 1",
        "select DATABASE(), USER() limit 1",
        "select @@character_set_client, @@character_set_connection, @@character_set_server limit 1",
        "show databases",
        "show tables",
        # PyMySQL and mysql-connector
        "SET AUTOCOMMIT = 0",
        "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'",
        "SET @@session.autocommit = OFF",
        "SET character_set_results = NULL",
        # JDBC
        "/* mysql-connector-j-8.4.0 */SELECT @@session.auto_increment_increment AS auto_increment_increment,"
        " @@character_set_client AS character_set_client, @@collation_server AS collation_server,"
        " @@init_connect AS init_connect, @@interactive_timeout AS interactive_timeout, @@license AS license,"
        " @@lower_case_table_names AS lower_case_table_names, @@max_allowed_packet AS max_allowed_packet,"
        " @@net_write_timeout AS net_write_timeout, @@performance_schema AS performance_schema,"
        " @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone, @@time_zone AS time_zone,"
        " @@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout",
        "SET sql_mode='STRICT_TRANS_TABLES'",
        "SELECT @@session.transaction_read_only",
        # SQLAlchemy
        "SELECT VERSION()",
        "SELECT CAST('test plain returns' AS CHAR(60)) AS anon_1",
        "SELECT CAST('test collated returns' AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin AS anon_1",
        "SELECT @@transaction_isolation",
        "SELECT @@sql_mode",
        "SELECT @@lower_case_table_names",
        "SHOW VARIABLES LIKE 'sql_mode'",
        "SHOW CHARACTER SET",
        "SHOW COLLATION WHERE Charset = 'utf8mb4' AND `Default` = 'Yes'",
        # Django
        "SELECT VERSION(), @@sql_mode, @@default_storage_engine, @@sql_auto_is_null, @@lower_case_table_names,"
        " CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT NULL",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SQL_AUTO_IS_NULL = 0",
        "SHOW FULL TABLES",
        # dumps
        "/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */",
        "/*!40103 SET TIME_ZONE='+00:00' */",
        "/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */",
        "/*!40101 SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */",
        "/*!40000 ALTER TABLE `customer` DISABLE KEYS */",
        "SET SQL_LOG_BIN = 0",
        # look around
        "SHOW ENGINES",
        "SHOW PLUGINS",
        "SHOW STATUS LIKE 'Threads%'",
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'port')",
        "SHOW GRANTS",
        "SHOW GRANTS FOR CURRENT_USER()",
        "SHOW PROCEDURE STATUS WHERE Db = 'main'",
        "SHOW TRIGGERS",
        "SHOW EVENTS FROM main",
        "SHOW CREATE DATABASE main",
        "FLUSH TABLES",
        "DO 1",
    ],
)
async def test_what_clients_send_is_answered(client, shop, sql):
    await client.session.execute(sql)


async def test_the_session_describes_itself(client):
    assert await client.rows("SELECT USER(), CURRENT_USER(), CONNECTION_ID(), DATABASE(), VERSION()") == [
        ("root@127.0.0.1", "root@127.0.0.1", 1, "main", "8.0.40-test")
    ]
    assert await client.value("SELECT @@version") == "8.0.40-test"
    assert await client.rows("SHOW VARIABLES LIKE 'autocommit'") == [("autocommit", "ON")]
    assert (await client.rows("SHOW GRANTS"))[0][0] == "GRANT ALL PRIVILEGES ON *.* TO `root`@`127.0.0.1`"


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE PP (a INT)",
        "CREATE TABLE IF NOT EXISTS PP (a INT)",
        "CREATE TABLE PP LIKE other",
        "CREATE TABLE PP SELECT 1 AS a",
        "RENAME TABLE other TO PP",
        "ALTER TABLE other RENAME TO PP",
    ],
)
async def test_names_of_tables_differ_in_more_than_case(client, sql):
    """SQLite takes them for one."""
    await client("CREATE TABLE pp (a INT)")
    await client("CREATE TABLE other (a INT)")
    errno, text = await client.error(sql)
    assert (errno, text.partition(":")[0]) == (1050, "Table 'PP' already exists as 'pp'")
    assert await client.rows("SHOW TABLES") == [("other",), ("pp",)]
    for statement in ("SELECT * FROM PP", "INSERT INTO PP VALUES (1)", "ALTER TABLE PP ADD b INT", "DESCRIBE PP"):
        errno, text = await client.error(statement)
        assert errno == 1146 and "there is 'pp'" in text
    assert (await client.error("SELECT * FROM nope"))[1] == "Table 'main.nope' doesn't exist"


async def test_a_table_is_renamed_to_other_case(client):
    await client("CREATE TABLE pp (id INT AUTO_INCREMENT PRIMARY KEY, a INT UNIQUE)")
    await client("CREATE TABLE child (p INT, FOREIGN KEY (p) REFERENCES pp (id))")
    await client("INSERT INTO pp (a) VALUES (1)")
    await client("RENAME TABLE pp TO PP")
    await client("INSERT INTO PP (a) VALUES (2)")
    await client("INSERT INTO child VALUES (2)")
    assert await client.errno("INSERT INTO child VALUES (3)") == 1452
    assert await client.errno("INSERT INTO PP (a) VALUES (2)") == 1062
    assert await client.errno("SELECT * FROM pp") == 1146
    await client("CREATE TEMPORARY TABLE pp (a INT)")
    assert await client.rows("SELECT * FROM pp") == []
    assert await client.rows("SELECT * FROM PP") == [(1, 1), (2, 2)]

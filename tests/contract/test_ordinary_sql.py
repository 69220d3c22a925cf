"""SQL that has nothing to do with queues: the same answers on both backends, with MySQL's types and error numbers."""

from __future__ import annotations

import datetime
import threading
import time
from decimal import Decimal

import pytest
from pymysql.constants import FIELD_TYPE
from servers import wait_until
from slowness import scaled

EXPRESSIONS = [
    ("1 + 1", 2),
    ("7 / 2", Decimal("3.5000")),
    ("7 DIV 2", 3),
    ("-7 % 3", -1),
    ("1 / 0", None),
    ("'3 apples' + 4", 7.0),
    ("CONCAT('a', 1, NULL)", None),
    ("CONCAT('a', 1, 'b')", "a1b"),
    ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
    ("UPPER('grön')", "GRÖN"),
    ("LENGTH('größe')", 7),
    ("CHAR_LENGTH('größe')", 5),
    ("SUBSTRING('queuegate', 6)", "gate"),
    ("SUBSTRING('queuegate', -4, 2)", "ga"),
    ("LEFT('abc', 2)", "ab"),
    ("LEFT(X'ff00fe', 2)", b"\xff\x00"),
    ("HEX(RIGHT(X'ff00fe', 2))", "00FE"),
    ("LEFT(X'ff00', 0)", b""),
    ("RIGHT('grön', 2)", "ön"),
    ("LEFT('abc', -1)", ""),
    ("REPLACE('aXbX', 'X', '-')", "a-b-"),
    ("TRIM('  a ')", "a"),
    ("LPAD('7', 3, '0')", "007"),
    ("IF(1 > 2, 'y', 'n')", "n"),
    ("IFNULL(NULL, 5)", 5),
    ("NULLIF(1, 1)", None),
    ("COALESCE(NULL, NULL, 'x')", "x"),
    ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
    ("'a' = 'A'", 1),
    ("BINARY 'a' = 'A'", 0),
    ("'abc' LIKE 'A%%'", 1),
    ("'abc' REGEXP '^a.c$'", 1),
    ("NULL <=> NULL", 1),
    ("5 BETWEEN 1 AND 5", 1),
    ("2 IN (1, 2, 3)", 1),
    ("TRUE AND NOT FALSE", 1),
    ("1 XOR 1", 0),
    ("6 & 3", 2),
    ("6 | 3", 7),
    ("1 << 4", 16),
    ("ROUND(2.5)", Decimal("3")),
    ("ROUND(-1.255, 2)", Decimal("-1.26")),
    ("FLOOR(-1.5)", -2),
    ("CEIL(1.2)", 2),
    ("ABS(-3)", 3),
    ("MOD(10, 4)", 2),
    ("GREATEST(1, 5, 3)", 5),
    ("LEAST(4, 2)", 2),
    ("DATE('2026-02-03 04:05:06')", datetime.date(2026, 2, 3)),
    ("YEAR('2026-02-03')", 2026),
    ("MONTH('2026-02-03')", 2),
    ("DAYOFWEEK('2026-02-01')", 1),
    ("DATEDIFF('2026-03-01', '2026-02-01')", 28),
    ("DATE_FORMAT('2026-02-03 14:05:06', '%%Y/%%m/%%d %%H:%%i:%%s')", "2026/02/03 14:05:06"),
    ("DATE_ADD('2026-01-31', INTERVAL 1 MONTH)", "2026-02-28"),
    ("TIMESTAMPDIFF(HOUR, '2026-01-01 00:00:00', '2026-01-02 01:30:00')", 25),
    ("FROM_UNIXTIME(1) = FROM_UNIXTIME(1)", 1),  # of 0 MariaDB 11.8 makes NULL
    ("CAST('12' AS SIGNED)", 12),
    ("CAST(3.7 AS CHAR)", "3.7"),
    ("CAST('1.25' AS DECIMAL(5,1))", Decimal("1.3")),
    ("HEX('abc')", "616263"),
    ("0x41", b"A"),
    ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("JSON_EXTRACT('{\"a\": [1, 2]}', '$.a[1]')", "2"),
    ("JSON_UNQUOTE(JSON_EXTRACT('{\"a\": \"x\"}', '$.a'))", "x"),
    ("FIND_IN_SET('b', 'a,b,c')", 2),
    ("INSTR('abc', 'C')", 3),
    ("REVERSE('abc')", "cba"),
    ("REPEAT('ab', 2)", "abab"),
    ("ASCII('A')", 65),
    ("STRCMP('a', 'b')", -1),
]


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS, ids=[e for e, _ in EXPRESSIONS])
def test_expressions(sql, expression, expected):
    with sql.connection.cursor() as cursor:
        cursor.execute("SELECT " + expression, () if "%%" in expression else None)
        (value,) = cursor.fetchone()
    assert value == expected
    assert type(value) is type(expected)


def test_comparison_of_text_follows_the_columns_collation(sql, name):
    sql(f"CREATE TABLE {name} (a VARCHAR(20), b VARCHAR(20) COLLATE utf8mb4_bin)")
    sql(f"INSERT INTO {name} (a, b) VALUES ('Ann', 'Ann'), ('ann', 'ann'), ('ANN', 'ANN')")
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE a = 'ann'") == 3
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE b = 'ann'") == 1
    assert sql.value(f"SELECT COUNT(DISTINCT a) FROM {name}") == 1
    sql(f"DROP TABLE {name}")


def test_crud_counts(sql, name):
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, n INT, s VARCHAR(20))")
    assert sql.insert_id(f"INSERT INTO {name} (n, s) VALUES (1, 'a'), (2, 'b'), (3, 'c')") == 1
    assert sql(f"UPDATE {name} SET s = 'z' WHERE n >= 2") == 2
    assert sql(f"UPDATE {name} SET s = 'z' WHERE n >= 2") == 0  # nothing changed
    assert sql(f"DELETE FROM {name} WHERE n = 1") == 1
    assert sql(f"DELETE FROM {name} WHERE n = 1") == 0
    assert sql(f"UPDATE {name} SET n = n + 1 ORDER BY n DESC LIMIT 1") == 1
    assert sql.rows(f"SELECT n, s FROM {name} ORDER BY n") == [(2, "z"), (4, "z")]
    assert sql(f"TRUNCATE TABLE {name}") == 0
    assert sql.insert_id(f"INSERT INTO {name} (n) VALUES (9)") == 1
    sql(f"DROP TABLE {name}")


def test_joins_groups_and_subqueries(sql, name):
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, parent INT, amount DECIMAL(10,2))")
    sql(f"INSERT INTO {name} VALUES (1, NULL, 1.10), (2, 1, 2.20), (3, 1, 3.30), (4, 2, 4.40)")
    assert sql.rows(
        f"SELECT p.id, COUNT(*), SUM(c.amount) FROM {name} p JOIN {name} c ON c.parent = p.id"
        " GROUP BY p.id HAVING COUNT(*) > 0 ORDER BY p.id"
    ) == [(1, 2, Decimal("5.50")), (2, 1, Decimal("4.40"))]
    assert sql.column(f"SELECT id FROM {name} WHERE amount > (SELECT AVG(amount) FROM {name}) ORDER BY id") == [3, 4]
    assert sql.column(f"SELECT c.id FROM {name} p LEFT JOIN {name} c ON c.parent = p.id WHERE p.id = 4") == [None]
    assert sql.value(f"SELECT AVG(amount) FROM {name}") == Decimal("2.750000")
    assert sql.value(f"SELECT GROUP_CONCAT(id ORDER BY id DESC SEPARATOR '|') FROM {name}") == "4|3|2|1"
    assert sql.column(f"SELECT id FROM {name} UNION SELECT 9 ORDER BY id LIMIT 2, 2") == [3, 4]
    assert sql.rows(
        f"WITH RECURSIVE up AS (SELECT id, parent FROM {name} WHERE id = 4 UNION ALL"
        f" SELECT t.id, t.parent FROM {name} t JOIN up ON t.id = up.parent) SELECT id FROM up ORDER BY id"
    ) == [(1,), (2,), (4,)]
    assert sql.rows(f"SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) FROM {name} ORDER BY id LIMIT 1") == [(1, 4)]
    assert sql.value(f"SELECT EXISTS (SELECT 1 FROM {name} WHERE id = 3)") == 1
    sql(f"DROP TABLE {name}")


TYPES = {
    "TINYINT": (FIELD_TYPE.TINY, 1, 1),
    "SMALLINT": (FIELD_TYPE.SHORT, -3, -3),
    "INT": (FIELD_TYPE.LONG, 5, 5),
    "BIGINT": (FIELD_TYPE.LONGLONG, 2**40, 2**40),
    "BIGINT UNSIGNED": (FIELD_TYPE.LONGLONG, 2**63 - 1, 2**63 - 1),
    "FLOAT": (FIELD_TYPE.FLOAT, 1.5, 1.5),
    "DOUBLE": (FIELD_TYPE.DOUBLE, 0.1, 0.1),
    "DECIMAL(10,2)": (FIELD_TYPE.NEWDECIMAL, "1.5", Decimal("1.50")),
    "VARCHAR(20)": (FIELD_TYPE.VAR_STRING, "ä", "ä"),
    "CHAR(5)": (FIELD_TYPE.STRING, "ab", "ab"),
    "TEXT": (FIELD_TYPE.BLOB, "text", "text"),
    "BLOB": (FIELD_TYPE.BLOB, b"\x00\x01", b"\x00\x01"),
    "VARBINARY(10)": (FIELD_TYPE.VAR_STRING, b"\xff", b"\xff"),
    "DATE": (FIELD_TYPE.DATE, "2026-01-02", datetime.date(2026, 1, 2)),
    "DATETIME": (FIELD_TYPE.DATETIME, "2026-01-02 03:04:05", datetime.datetime(2026, 1, 2, 3, 4, 5)),
    "DATETIME(3)": (FIELD_TYPE.DATETIME, "2026-01-02 03:04:05.1239", datetime.datetime(2026, 1, 2, 3, 4, 5, 123000)),
    "TIMESTAMP NULL": (FIELD_TYPE.TIMESTAMP, "2026-01-02 03:04:05", datetime.datetime(2026, 1, 2, 3, 4, 5)),
    "TIME": (FIELD_TYPE.TIME, "-11:22:33", -datetime.timedelta(hours=11, minutes=22, seconds=33)),
    "YEAR": (FIELD_TYPE.YEAR, 2026, 2026),
}


@pytest.mark.parametrize("kind", TYPES)
def test_types_and_their_metadata(sql, name, kind):
    code, given, expected = TYPES[kind]
    sql(f"CREATE TABLE {name} (v {kind})")
    sql(f"INSERT INTO {name} (v) VALUES (%s), (NULL)", given)
    with sql.connection.cursor() as cursor:
        cursor.execute(f"SELECT v FROM {name} ORDER BY v DESC")
        assert cursor.description[0][:2] == ("v", code)
        values = [row[0] for row in cursor.fetchall()]
    if kind == "DATETIME(3)":  # MySQL rounds, MariaDB cuts; both are right
        assert values[0] in (expected, expected.replace(microsecond=124000))
    else:
        assert values[0] == expected
    assert values[1] is None
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("BIGINT UNSIGNED", 2**64 - 1), ("DECIMAL(40,10)", Decimal("123456789012345678901234567890.0123456789"))],
)
def test_what_a_backend_cannot_hold_is_refused_never_rounded(sql, name, kind, value):
    sql(f"CREATE TABLE {name} (v {kind})")
    try:
        sql(f"INSERT INTO {name} (v) VALUES (%s)", value)
    except Exception as error:
        assert error.args[0] == 1264, error
        assert sql.rows(f"SELECT v FROM {name}") == []
    else:
        assert sql.rows(f"SELECT v FROM {name}") == [(value,)]
    sql(f"DROP TABLE {name}")


def test_values_out_of_range_are_refused(sql, name):
    sql(f"CREATE TABLE {name} (t TINYINT, u INT UNSIGNED, s VARCHAR(3), d DATE, n INT NOT NULL, k DECIMAL(4,1))")
    for column, value, number in (
        ("t", "128", 1264), ("u", "-1", 1264), ("s", "'abcd'", 1406), ("d", "'2026-02-30'", 1292), ("n", "NULL", 1048),
        ("t", "'x'", 1366), ("k", "12345", 1264),
    ):  # fmt: skip
        found = sql.error(f"INSERT INTO {name} ({column}{'' if column == 'n' else ', n'})"
                          f" VALUES ({value}{'' if column == 'n' else ', 1'})")  # fmt: skip
        assert found[0] == number, (column, value, found)
    assert sql.error(f"INSERT INTO {name} (t) VALUES (1)")[0] == 1364
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("CAST(1 AS UNSIGNED) - 2", "cast(1 as unsigned) - 2"),
        ("1 - CAST(2 AS UNSIGNED)", "1 - cast(2 as unsigned)"),
        ("CAST(1 AS UNSIGNED) + -2", "cast(1 as unsigned) + -2"),
        ("-7 DIV CAST(2 AS UNSIGNED)", "-7 DIV cast(2 as unsigned)"),
        ("u - 2", "{u} - 2"),
        ("t.u - (2)", "{u} - 2"),
        ("s + u", "{s} + {u}"),
        ("u * s", "{u} * {s}"),
        ("s DIV u", "{s} DIV {u}"),
        ("CAST(s AS UNSIGNED) + 99", "cast({s} as unsigned) + 99"),
        ("18446744073709551615 + 1", "18446744073709551615 + 1"),
    ],
)
def test_numbers_without_sign_do_not_become_negative(sql, name, expression, shown, on_mysql):
    sql(f"CREATE TABLE {name} (u INT UNSIGNED, s INT)")
    sql(f"INSERT INTO {name} VALUES (1, -5)")
    shown = shown.format(**{column: f"`{sql.value('SELECT DATABASE()')}`.`t`.`{column}`" for column in "us"})
    if on_mysql:
        shown = f"({shown.replace('+ -2', '+ -(2)').replace('-7 ', '-(7) ')})"  # it shows expressions in its own way
    refused = (1690, f"BIGINT UNSIGNED value is out of range in '{shown}'")
    assert sql.error(f"SELECT {expression} FROM {name} AS t") == refused
    assert sql.error(f"SELECT 1 FROM {name} AS t WHERE {expression} < 5") == refused
    assert sql.error(f"UPDATE {name} AS t SET s = {expression}") == refused
    assert sql.rows(f"SELECT u, s FROM {name}") == [(1, -5)]
    sql(f"DROP TABLE {name}")


def test_numbers_without_sign_among_others(sql, name):
    sql(f"CREATE TABLE {name} (u INT UNSIGNED, s INT, y YEAR)")
    sql(f"INSERT INTO {name} VALUES (1, -5, 2026)")
    for expression, value in (
        ("CAST(3 AS UNSIGNED) + -2", 1),
        ("CAST(1 AS UNSIGNED) - 2.5", Decimal("-1.5")),
        ("CAST(1 AS UNSIGNED) - 2e0", -1.0),
        ("CAST(-1 AS UNSIGNED) - 1", 2**64 - 2),
        ("~0 - 1", 2**64 - 2),
        ("18446744073709551615 - 18446744073709551614", 1),
        ("CAST(CAST(1 AS UNSIGNED) AS SIGNED) - 2", -1),
        ("-7 % CAST(2 AS UNSIGNED)", -1),
        ("MOD(-7, CAST(2 AS UNSIGNED))", -1),
        ("18446744073709551615 % 10", 5),
        ("5 % 18446744073709551615", 5),
        ("u % CAST(-1 AS UNSIGNED)", 1),
        ("18446744073709551615 % 0", None),
        ("CAST('18446744073709551615' AS UNSIGNED)", 2**64 - 1),
        ("u - s", 6),
        ("-u", -1),
        ("u DIV 0", None),
        ("u - 1.5", Decimal("-0.5")),
        ("YEAR('2026-01-01') - 3000", -974),
    ):
        assert sql.value(f"SELECT {expression} FROM {name}") == value, expression
    assert sql.error(f"SELECT y - 3000 FROM {name}")[0] == 1690
    assert sql.error(f"UPDATE {name} SET u = u - %s", 2)[0] == 1690
    assert sql.rows(f"SELECT u FROM {name} WHERE u + %s > 0", 0) == [(1,)]
    sql(f"DROP TABLE {name}")


def test_error_numbers(sql, name, on_mysql):
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, u INT UNIQUE)")
    sql(f"INSERT INTO {name} VALUES (1, 1)")
    for statement, number in (
        (f"CREATE TABLE {name} (a INT)", 1050),
        (f"SELECT nope FROM {name}", 1054),
        (f"SELECT * FROM {name}_missing", 1146),
        (f"INSERT INTO {name} VALUES (1, 2)", 1062),
        (f"INSERT INTO {name} VALUES (2, 1)", 1062),
        (f"INSERT INTO {name} (id, id) VALUES (1, 1)", 1110),
        (f"INSERT INTO {name} VALUES (1)", 1136),
        ("SELEC 1", 1064),
        ("SELECT * FROM no_such_db.t", 1049 if on_mysql else 1146),
        (f"DROP TABLE {name}_missing", 1051),
        ("USE no_such_db", 1049),
        ("SELECT no_such_function(1)", 1305),
        ("ROLLBACK TO SAVEPOINT nope", 1305),
        (f"SELECT id FROM {name} a JOIN {name} b ON a.id = b.id", 1052),
        (f"ALTER TABLE {name} ADD COLUMN id INT", 1060),
    ):
        assert sql.error(statement)[0] == number, statement
    assert "Duplicate entry '1' for key" in sql.error(f"INSERT INTO {name} VALUES (1, 2)")[1]
    sql(f"DROP TABLE {name}")


def test_foreign_keys(sql, name):
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    sql(
        f"CREATE TABLE {name}_c (id INT PRIMARY KEY, p INT,"
        f" CONSTRAINT c_{name} FOREIGN KEY (p) REFERENCES {name} (id) ON DELETE RESTRICT)"
    )
    sql(f"INSERT INTO {name} VALUES (1)")
    assert sql.error(f"INSERT INTO {name}_c VALUES (1, 2)")[0] == 1452
    sql(f"INSERT INTO {name}_c VALUES (1, 1)")
    assert sql.error(f"DELETE FROM {name} WHERE id = 1")[0] == 1451
    sql(f"DROP TABLE {name}_c")
    sql(f"DROP TABLE {name}")


def test_alter_table(sql, name):
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    sql(f"INSERT INTO {name} VALUES (1)")
    sql(f"ALTER TABLE {name} ADD COLUMN s VARCHAR(10) NOT NULL DEFAULT 'x'")
    assert sql.rows(f"SELECT * FROM {name}") == [(1, "x")]
    sql(f"CREATE INDEX by_s ON {name} (s)")
    assert "by_s" in [row[2] for row in sql.rows(f"SHOW INDEX FROM {name}")]
    sql(f"ALTER TABLE {name} RENAME TO {name}_r")
    assert sql.rows(f"SELECT * FROM {name}_r") == [(1, "x")]
    sql(f"DROP TABLE {name}_r")


def test_show_and_describe(sql, name, gate):
    sql(f"CREATE TABLE {name} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, s VARCHAR(10) DEFAULT 'x', KEY by_s (s))")
    described = {row[0]: row for row in sql.rows(f"DESCRIBE {name}")}
    assert described["id"][1].startswith("bigint")
    assert described["id"][2:4] == ("NO", "PRI")
    assert described["id"][5] == "auto_increment"
    assert described["s"][1:5] == ("varchar(10)", "YES", "MUL", "x")
    assert sql.rows(f"SHOW COLUMNS FROM {name} LIKE 's'")[0][0] == "s"
    assert sql.rows(f"SHOW TABLES LIKE '{name}'") == [(name,)]
    assert gate.database in sql.column("SHOW DATABASES")
    table, text = sql.row(f"SHOW CREATE TABLE {name}")
    assert table == name
    assert text.startswith(f"CREATE TABLE `{name}` (")
    assert "KEY `by_s` (`s`)" in text
    assert {row[4] for row in sql.rows(f"SHOW INDEX FROM {name}")} == {"id", "s"}
    assert sql.rows("SHOW VARIABLES LIKE 'autocommit'") == [("autocommit", "ON")]
    assert len(sql.rows("SHOW STATUS LIKE 'Uptime'")) == 1
    assert sql.rows("SHOW WARNINGS") == []
    assert len(sql.rows(f"SHOW TABLE STATUS LIKE '{name}'")) == 1
    sql(f"DROP TABLE {name}")


def test_information_schema(sql, name, gate):
    sql(f"CREATE TABLE {name} (id INT NOT NULL PRIMARY KEY, s VARCHAR(10), UNIQUE KEY one (s))")
    here = f"table_schema = '{gate.database}' AND table_name = '{name}'"
    assert sql.rows(f"SELECT table_type FROM information_schema.tables WHERE {here}") == [("BASE TABLE",)]
    assert sql.rows(
        f"SELECT column_name, data_type, is_nullable, character_maximum_length FROM information_schema.columns"
        f" WHERE {here} ORDER BY ordinal_position"
    ) == [("id", "int", "NO", None), ("s", "varchar", "YES", 10)]
    assert sql.rows(
        f"SELECT index_name, column_name, non_unique FROM information_schema.statistics WHERE {here}"
        " ORDER BY index_name"
    ) == [("one", "s", 0), ("PRIMARY", "id", 0)]
    assert sql.rows(
        f"SELECT constraint_name, column_name FROM information_schema.key_column_usage WHERE {here}"
        " ORDER BY constraint_name"
    ) == [("one", "s"), ("PRIMARY", "id")]
    assert sql.rows(f"SELECT schema_name FROM information_schema.schemata WHERE schema_name = '{gate.database}'")
    sql(f"DROP TABLE {name}")


def test_session_variables(sql):
    sql("SET @a = 5, @b := 'x'")
    assert sql.row("SELECT @a, @b, @unset") == (5, "x", None)
    assert sql.row("SELECT @@autocommit, @@session.autocommit") == (1, 1)
    sql("SET SESSION sql_mode = 'STRICT_TRANS_TABLES'")
    assert sql.value("SELECT @@sql_mode") == "STRICT_TRANS_TABLES"
    sql("SET NAMES utf8mb4")
    sql("SET time_zone = '+00:00'")
    assert sql.value("SELECT @@max_allowed_packet") >= 1 << 20
    assert sql.value("SELECT @@version") == sql.value("SELECT VERSION()")
    assert sql.error("SET no_such_variable = 1")[0] == 1193
    assert sql.error("SELECT @@no_such_variable")[0] == 1193
    sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


def test_time_functions_agree_with_the_clock(sql):
    now, stamp, utc = sql.row("SELECT NOW(6), UNIX_TIMESTAMP(), UTC_TIMESTAMP(6)")
    assert isinstance(now, datetime.datetime)
    assert abs(int(stamp) - time.time()) < scaled(5)
    assert abs(utc - datetime.datetime.now(datetime.UTC).replace(tzinfo=None)) < datetime.timedelta(seconds=5)
    assert sql.value("SELECT UNIX_TIMESTAMP(NOW() + INTERVAL 2 HOUR) - UNIX_TIMESTAMP(NOW())") == 7200
    assert sql.value("SELECT CURDATE()") == sql.value("SELECT DATE(NOW())")


def test_locking_reads_and_lock_waits(sql, connect, name, gate):
    """Two writers of one row: the second waits for the first, or is told 1205; it never reads half a change."""
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
    sql(f"INSERT INTO {name} VALUES (1, 0)")
    first, second = connect(), connect()
    first("BEGIN")
    assert first.value(f"SELECT n FROM {name} WHERE id = 1 FOR UPDATE") == 0
    first(f"UPDATE {name} SET n = 1 WHERE id = 1")
    assert sql.value(f"SELECT n FROM {name}") == 0
    done = threading.Event()

    def wait_and_write() -> None:
        second(f"UPDATE {name} SET n = n + 10 WHERE id = 1")
        done.set()

    writer = threading.Thread(target=wait_and_write, daemon=True)
    writer.start()
    assert not done.wait(0.2)
    first("COMMIT")
    assert done.wait(10)
    writer.join()
    assert sql.value(f"SELECT n FROM {name}") == 11
    sql(f"DROP TABLE {name}")


def test_a_transaction_sees_its_own_writes_and_others_do_not(sql, connect, name):
    sql(f"CREATE TABLE {name} (n INT)")
    other = connect()
    sql("BEGIN")
    sql(f"INSERT INTO {name} VALUES (1)")
    assert sql.column(f"SELECT n FROM {name}") == [1]
    assert other.column(f"SELECT n FROM {name}") == []
    sql("COMMIT")
    wait_until(lambda: other.column(f"SELECT n FROM {name}") == [1], 5, "the committed row")
    sql(f"DROP TABLE {name}")


def test_insert_with_expression_defaults_and_generated_columns(sql, name):
    sql(
        f"CREATE TABLE {name} (a INT NOT NULL DEFAULT 3, b INT GENERATED ALWAYS AS (a * 2) VIRTUAL,"
        " at DATETIME DEFAULT CURRENT_TIMESTAMP, e ENUM('x', 'y') DEFAULT 'y')"
    )
    sql(f"INSERT INTO {name} () VALUES ()")
    row = sql.row(f"SELECT a, b, at, e FROM {name}")
    assert row[:2] == (3, 6)
    assert isinstance(row[2], datetime.datetime)
    assert row[3] == "y"
    sql(f"DROP TABLE {name}")


def test_a_view_or_a_clear_refusal(sql, name):
    sql(f"CREATE TABLE {name} (n INT)")
    sql(f"INSERT INTO {name} VALUES (1), (2)")
    try:
        sql(f"CREATE VIEW {name}_v AS SELECT n FROM {name} WHERE n > 1")
    except Exception as error:
        assert error.args[0] == 1235, error
    else:
        assert sql.column(f"SELECT n FROM {name}_v") == [2]
        sql(f"DROP VIEW {name}_v")
    sql(f"DROP TABLE {name}")


def test_hexadecimal_text_compares_as_text(sql, name):
    sql(f"CREATE TABLE {name} (a VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci)")
    sql(f"INSERT INTO {name} (a) VALUES (_utf8mb4 X'476F'), ('go')")
    assert sql.column(f"SELECT a FROM {name} WHERE a = _utf8mb4 X'474F' ORDER BY BINARY a") == ["Go", "go"]
    assert sql.value("SELECT _utf8mb4 X'C3B6'") == "ö"
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_savepoint_before_the_first_read(sql, connect, name, level):
    sql(f"CREATE TABLE {name} (a INT)")
    client = connect()
    client(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    client("BEGIN")
    client("SAVEPOINT one")
    assert client.value(f"SELECT COUNT(*) FROM {name}") == 0
    client("SAVEPOINT two")
    client(f"INSERT INTO {name} VALUES (1)")
    client("ROLLBACK TO SAVEPOINT two")
    client("RELEASE SAVEPOINT one")
    client(f"INSERT INTO {name} VALUES (2)")
    client("COMMIT")
    assert sql.column(f"SELECT a FROM {name}") == [2]
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("table", ["user", "log", "date", "format"])
def test_a_table_may_be_called_as_a_function_is(sql, table):
    sql(f"CREATE TABLE {table} (body VARCHAR(40))")
    try:
        sql(f"INSERT INTO {table} (body) VALUES (UPPER('a'))")
        sql(f"REPLACE INTO {table}(body) SELECT CONCAT(body, LOWER(body)) FROM {table}")
        assert sorted(sql.column(f"SELECT body FROM {table}")) == ["A", "Aa"]
    finally:
        sql(f"DROP TABLE {table}")


@pytest.fixture
def alike(sql, queue, place):
    """A queue, and an ordinary table whose name differs from the queue's in case alone."""
    if place == "embedded":
        pytest.skip("names that differ in case alone are one there")
    q = queue("payload VARCHAR(20)")
    table = q.capitalize()
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, payload VARCHAR(20), state VARCHAR(20))")
    yield q, table
    sql(f"DROP TABLE IF EXISTS {table}")


def test_a_queue_is_listed_beside_a_table_of_nearly_its_name(sql, alike):
    q, _ = alike
    assert q in sql.column("SELECT queue FROM queuegate.queues")
    assert q in [row[0] for row in sql.rows("SHOW QUEUE STATUS")]


def test_an_ordinary_table_of_nearly_a_queues_name_is_ordinary(sql, alike):
    q, table = alike
    sql(f"INSERT INTO {q} (payload) VALUES ('message')")
    assert sql(f"INSERT INTO {table} VALUES (1, 'row', 'new'), (2, 'row', 'new')") == 2
    for state in ("shipped", "acked"):
        assert sql(f"UPDATE {table} SET state = '{state}' WHERE id = 1") == 1
    assert sql(f"DELETE FROM {table} WHERE id = 1") == 1
    assert sql.rows(f"SELECT id, state FROM {table}") == [(2, "new")]
    sql(f"TRUNCATE TABLE {table}")
    sql(f"DROP TABLE {table}")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 1
    assert sql.row("SELECT enqueued_total, acked_total FROM queuegate.queues WHERE queue = %s", q) == (1, 0)
    assert sql.rows(f"SELECT payload FROM STREAM {table} LIMIT 1 WAIT 10") == [("message",)]

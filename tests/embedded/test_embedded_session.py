"""What a session answers: counts, metadata, prepared values, errors, definitions, temporary tables."""

from __future__ import annotations

import asyncio
import datetime
import time
from decimal import Decimal

import pytest

from embedded.database.store_pool import SqliteStorePool
from engine.model.errors import BackendUnavailable
from engine.model.queue import ColumnMeta

QUEUE = """CREATE TABLE `main`.`q` (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50,
 time_scheduled BIGINT NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))*1000),
 time_next BIGINT NULL DEFAULT (time_scheduled), epoch BIGINT NOT NULL DEFAULT 0,
 time_created BIGINT NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))*1000),
 time_acked BIGINT NULL, state VARCHAR(11) GENERATED ALWAYS AS
 (CASE WHEN time_acked IS NOT NULL THEN 'acked' WHEN epoch > 0 THEN 'fired' ELSE 'to_be_fired' END) VIRTUAL,
 user_id BIGINT(10), payload VARCHAR(256), KEY queuegate_due (time_acked, priority, time_next))
 COMMENT='vitess_message,vt_ack_wait=30'"""
NOW = "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))*1000"


async def test_a_queue_table_keeps_its_promises(client, database):
    await client(QUEUE)
    before = await client.value(NOW)
    done = await client("INSERT INTO q (payload) VALUES ('a'), ('b')")
    assert (done.affected_rows, done.last_insert_id) == (2, 1)
    after = await client.value(NOW)
    for scheduled, due, created, state in await client.rows(
        "SELECT time_scheduled, time_next, time_created, state FROM q"
    ):
        assert before <= scheduled == due <= after
        assert before <= created <= after
        assert state == "to_be_fired"
    await client("INSERT INTO q (payload, time_scheduled) VALUES ('later', 1700000000000000077)")
    assert await client.rows("SELECT time_scheduled, time_next FROM q WHERE payload = 'later'") == [
        (1700000000000000077, 1700000000000000077)
    ]
    await client(
        "INSERT INTO q (payload, time_scheduled, time_next) VALUES ('null means now', 1700000000000000078, NULL)"
    )
    assert await client.value("SELECT time_next FROM q WHERE payload LIKE 'null%'") == 1700000000000000078
    await client("UPDATE q SET time_acked = 5, time_next = NULL WHERE id = 1")
    assert await client.rows("SELECT state, time_next FROM q WHERE id = 1") == [("acked", None)]


async def test_the_engine_writes_and_reads_the_same_table(client, database):
    await client(QUEUE)
    pool = SqliteStorePool(database)
    await pool.write(lambda c: c.execute("INSERT INTO q (payload) VALUES (?)", ("from the engine",)))
    assert await client.rows("SELECT priority, epoch, state, time_next > 0 FROM q") == [(50, 0, "to_be_fired", 1)]
    comment = await pool.read(lambda c: c.query("SELECT comment FROM queuegate_meta_tables WHERE name = 'q'"))
    assert comment == [("vitess_message,vt_ack_wait=30",)]
    columns = await pool.read(lambda c: c.describe("main", "q"))
    assert columns[0] == ColumnMeta("id", 8, 63, 20, 512 | 2 | 1, 0, "id", "q", "q", "main")
    assert [column.name for column in columns][-2:] == ["user_id", "payload"]
    assert await pool.read(lambda c: c.describe("main", "nope")) == ()


async def test_the_store_reads_text_as_the_protocol_sends_it(client, database):
    await client(
        "CREATE TABLE v (a INT, b DECIMAL(8,3), c DECIMAL(30,10), d DOUBLE, e FLOAT, f VARCHAR(9), g BLOB, h DATE,"
        " i DATETIME(6), j TIME(3), k BIT(12), l JSON, m YEAR)"
    )
    await client(
        "INSERT INTO v VALUES (-5, 1.5, -12345678901234567890.0123456789, 1e20, 0.1, 'ä', x'00ff', '2024-01-02',"
        " '2024-01-02 03:04:05.678901', '-100:01:02.5', 4095, '{\"a\": 1}', 2024), (1, 0, 0, 0.1, 1e-7, '', '', NULL,"
        " NULL, '00:00:00', 0, NULL, NULL)"
    )
    pool = SqliteStorePool(database)
    columns = await pool.read(lambda c: c.describe("main", "v"))
    rows = await pool.read(lambda c: c.query_text("SELECT * FROM v ORDER BY a", (), columns))
    assert rows[0] == (
        b"-5", b"1.500", b"-12345678901234567890.0123456789", b"1e20", b"0.1", "ä".encode(), b"\x00\xff",
        b"2024-01-02", b"2024-01-02 03:04:05.678901", b"-100:01:02.500", b"\x0f\xff", b'{"a": 1}', b"2024",
    )  # fmt: skip
    assert rows[1][:7] == (b"1", b"0.000", b"0.0000000000", b"0.1", b"0.0000001", b"", b"")


async def test_parameters_are_bound_whatever_is_in_them(client):
    await client(
        "CREATE TABLE p (a BIGINT, b DOUBLE, c DECIMAL(10,4), d TEXT, e BLOB, f DATE, g DATETIME(6), h TIME(6), i INT)"
    )
    nasty = "x' OR 1=1 -- \\ \" % ? :a @b 🎉 \0 /* */"
    values = (
        -(2**63), 0.1, Decimal("1.2345"), nasty, b"\x00\xff'\\", datetime.date(2024, 1, 2),
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6), datetime.timedelta(hours=-30, microseconds=-5), None,
    )  # fmt: skip
    marks = ", ".join("?" * len(values))
    for _ in range(2):
        await client(f"INSERT INTO p VALUES ({marks})", *values)
    assert (
        await client.rows(
            "SELECT * FROM p WHERE d = ? AND e = ? AND g = ? AND i <=> ?",
            nasty,
            values[4],
            values[6],
            None,
        )
        == [values] * 2
    )
    assert await client.rows("SELECT ?, ?, ?", 1, "a", None) == [(1, "a", None)]
    assert await client.value("SELECT a FROM p WHERE h = ? LIMIT ?", values[7], 1) == -(2**63)
    assert await client.errno("SELECT a FROM p LIMIT ?", -1) == 1210
    assert await client.errno("SELECT ?", 1, 2) == 1064


async def test_many_rows_are_one_statement(client):
    await client("CREATE TABLE m (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(10))")
    rows = ", ".join(f"({n}, 'row {n}')" for n in range(1000))
    done = await client(f"INSERT INTO m (a, b) VALUES {rows}")
    assert (done.affected_rows, done.last_insert_id) == (1000, 1)
    assert done.info == "Records: 1000  Duplicates: 0  Warnings: 0"
    mixed = await client("INSERT INTO m (a, b) VALUES (1, 'x'), (NULL, 'y'), (1 + 1, CONCAT('z', 1)), (-4, DEFAULT)")
    assert mixed.affected_rows == 4
    assert await client.rows("SELECT a, b FROM m WHERE id > 1000 ORDER BY id") == [
        (1, "x"),
        (None, "y"),
        (2, "z1"),
        (-4, None),
    ]
    assert await client.error("INSERT INTO m (a, b) VALUES (1, 'ok'), (2, 'far too long')") == (
        1406, "Data too long for column 'b' at row 2",
    )  # fmt: skip
    assert await client.error("INSERT INTO m (a, b) VALUES (1, 'ok'), (2, 'b', 3)") == (
        1136, "Column count doesn't match value count at row 2",
    )  # fmt: skip
    assert await client.value("SELECT COUNT(*) FROM m") == 1004


async def test_statements_of_one_shape_share_a_plan(client, database):
    await client("CREATE TABLE t (a INT, b VARCHAR(20))")
    plans = database.shared["embedded"].plans
    for n in range(50):
        await client(f"INSERT INTO t VALUES ({n}, 'value {n}')")
        await client.rows(f"SELECT b FROM t WHERE a = {n} AND b <> 'x{n}' LIMIT {n + 1}")
    assert plans.misses <= 4
    assert plans.hits >= 98


async def test_counts_of_update_and_its_info(client, connect):
    await client("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    await client("INSERT INTO t VALUES (1, 1), (2, 2), (3, 2)")
    done = await client("UPDATE t SET b = 2")
    assert (done.affected_rows, done.info) == (1, "Rows matched: 3  Changed: 1  Warnings: 0")
    found = connect(found_rows=True)
    assert (await found("UPDATE t SET b = 2")).affected_rows == 3
    assert (await found("INSERT INTO t VALUES (1, 9) ON DUPLICATE KEY UPDATE b = 2")).affected_rows == 1
    assert (await client("INSERT INTO t VALUES (1, 9) ON DUPLICATE KEY UPDATE b = 2")).affected_rows == 0


async def test_assignments_see_those_before_them(client):
    await client("CREATE TABLE t (a INT, b INT)")
    await client("INSERT INTO t VALUES (1, 100)")
    await client("UPDATE t SET a = a + 1, b = a")
    assert await client.rows("SELECT a, b FROM t") == [(2, 2)]


async def test_generated_columns_and_on_update(client):
    await client(
        "CREATE TABLE t (a INT, twice INT AS (a * 2) STORED, at DATETIME(6) NULL ON UPDATE CURRENT_TIMESTAMP(6))"
    )
    await client("INSERT INTO t (a) VALUES (1)")
    await client("UPDATE t SET a = 1")
    assert await client.rows("SELECT twice, at FROM t") == [(2, None)]
    await client("UPDATE t SET a = 4")
    ((twice, at),) = await client.rows("SELECT twice, at FROM t")
    assert twice == 8
    assert isinstance(at, datetime.datetime)
    assert (await client.error("INSERT INTO t (twice) VALUES (1)"))[0] == 3105
    assert (await client.error("INSERT INTO t (a, twice) SELECT 1, 2"))[0] == 3105


@pytest.mark.parametrize(
    ("sql", "number", "text"),
    [
        ("SELECT * FROM nope", 1146, "Table 'main.nope' doesn't exist"),
        ("SELECT nope FROM t", 1054, "Unknown column 'nope' in 'field list'"),
        ("SELECT a FROM t WHERE nope = 1", 1054, "Unknown column 'nope' in 'where clause'"),
        ("SELECT a FROM t ORDER BY nope", 1054, "Unknown column 'nope' in 'order clause'"),
        ("INSERT INTO t (a) VALUES (1)", 1062, "Duplicate entry '1' for key 't.PRIMARY'"),
        ("INSERT INTO t (a, b) VALUES (5, 'X')", 1062, "Duplicate entry 'X' for key 't.by_b'"),
        ("INSERT INTO t (a) VALUES (NULL)", 1048, "Column 'a' cannot be null"),
        ("INSERT INTO t (b) VALUES ('y')", 1364, "Field 'a' doesn't have a default value"),
        ("INSERT INTO t (a) VALUES (0)", 3819, "Check constraint 'positive' is violated."),
        ("INSERT INTO t (a) VALUES ('x')", 1366, "Incorrect integer value: 'x' for column 'a' at row 1"),
        ("INSERT INTO t (a) VALUES (3000000000)", 1264, "Out of range value for column 'a' at row 1"),
        ("INSERT INTO t (a, b) VALUES (9, '12345678901')", 1406, "Data too long for column 'b' at row 1"),
        ("CREATE TABLE t (a INT)", 1050, "Table 't' already exists"),
        ("DROP TABLE nope", 1051, "Unknown table 'main.nope'"),
        ("USE nope", 1049, "Unknown database 'nope'"),
        ("SELECT @@nope", 1193, "Unknown system variable 'nope'"),
        ("SELECT nope(1)", 1305, "FUNCTION main.nope does not exist"),
        ("CALL nope()", 1305, "PROCEDURE main.nope does not exist"),
        ("SELECT IF(1, 2)", 1582, "Incorrect parameter count in the call to native function 'if'"),
        ("SELECT a FROM t, t", 1066, "Not unique table/alias: 't'"),
        ("SELECT a FROM t x JOIN t y", 1052, "Column 'a' in field list is ambiguous"),
        ("SELECT (SELECT 1 UNION SELECT 2)", 1242, "Subquery returns more than 1 row"),
        ("SELECT (SELECT 1, 2)", 1241, "Operand should contain 1 column(s)"),
        ("SELECT 1 UNION SELECT 1, 2", 1222, "The used SELECT statements have a different number of columns"),
        (
            "UPDATE t SET a = (SELECT MAX(a) FROM t)",
            1093,
            "You can't specify target table 't' for update in FROM clause",
        ),
        ("SET autocommit = 'maybe'", 1231, "Variable 'autocommit' can't be set to the value of 'maybe'"),
        ("SET version = '9'", 1238, "Variable 'version' is a read only variable"),
        ("ROLLBACK TO nowhere", 1305, "SAVEPOINT nowhere does not exist"),
        ("", 1065, "Query was empty"),
    ],
)
async def test_errors_have_mysqls_numbers_and_texts(client, sql, number, text):
    await client(
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10), UNIQUE KEY by_b (b), CONSTRAINT positive CHECK (a > 0))"
    )
    await client("INSERT INTO t VALUES (1, 'x')")
    assert await client.error(sql) == (number, text)


@pytest.mark.parametrize(
    ("sql", "near"),
    [
        ("SELEC 1", "SELEC 1"),
        ("SELECT 1 FROM WHERE a = 'it''s'", "WHERE a = 'it''s'"),
        ("SELECT * FROM t WHERE (a = 1", ""),
        ("INSERT INTO t VALUES (1", ""),
        ("INSERT INTO t VALUES (1) DELAY", "DELAY"),
        ("INSERT INTO t SET a = 1 AT", "AT"),
        ("CREATE TABLE u (a NOPE)", "NOPE)"),
        ("CREATE TABLE u (a INT,, b INT)", ", b INT)"),
        ("SELECT 'unclosed", "'unclosed"),
        ("SET x", ""),
        ("SHOW NONSENSE", "NONSENSE"),
    ],
)
async def test_syntax_errors_quote_what_stands_at_the_fault(client, sql, near):
    await client("CREATE TABLE t (a INT)")
    number, text = await client.error(sql)
    assert number == 1064
    assert text.startswith("You have an error in your SQL syntax")
    assert f"near '{near}" in text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a INTO OUTFILE '/tmp/x' FROM t",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "XA START 'x'",
        "HANDLER t OPEN",
        "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
        "CREATE PROCEDURE p() SELECT 1",
        "CREATE FUNCTION f() RETURNS INT RETURN 1",
        "CREATE DATABASE other",
        "CREATE TABLE u (a SET('x', 'y'))",
        "CREATE TABLE u (a GEOMETRY)",
        "CREATE TABLE u (a TEXT, FULLTEXT KEY (a))",
        "CREATE TABLE u (a INT) PARTITION BY HASH (a)",
        "CREATE TABLE u (a INT AUTO_INCREMENT, b INT, KEY (a))",
        "CREATE TABLE u (a INT, b VARCHAR(9) AS (CONCAT_WS('-', a, a)))",
        "CREATE TABLE u (a INT, b INT, KEY ((a + b)))",
        "UPDATE IGNORE t SET a = 1",
        "DELETE IGNORE FROM t",
        "UPDATE t x JOIN t y ON x.a = y.a SET x.b = 1, y.b = 2",
        "SELECT a, COUNT(*) FROM t GROUP BY a WITH ROLLUP",
        "SELECT MATCH (b) AGAINST ('x') FROM t",
        "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "SET sql_safe_updates = 1",
        "GRANT ALL ON *.* TO x",
        "CREATE USER x",
        "SELECT RAND(5)",
        "VALUES ROW(1, 2)",
        "TABLE t",
    ],
)
async def test_what_cannot_be_done_is_refused(client, sql):
    await client("CREATE TABLE t (a INT, b VARCHAR(10))")
    number, text = await client.error(sql)
    assert number == 1235
    assert "embedded backend does not support" in text


async def test_decimals_are_exact_or_refused(client):
    await client("CREATE TABLE d (a DECIMAL(15,2), b DECIMAL(40,20))")
    wide = Decimal("12345678901234567890.01234567890123456789")
    await client(
        "INSERT INTO d VALUES (9999999999999.99, ?), (0.01, ?), (-0.01, ?)", wide, wide.copy_negate(), Decimal(0)
    )
    assert await client.rows("SELECT SUM(a), SUM(b) FROM d") == [(Decimal("9999999999999.99"), Decimal("0E-20"))]
    assert await client.rows("SELECT b FROM d ORDER BY b") == [(wide.copy_negate(),), (Decimal("0E-20"),), (wide,)]
    assert await client.rows("SELECT a FROM d WHERE b = ? AND b > 0", wide) == [(Decimal("9999999999999.99"),)]
    assert await client.value("SELECT COUNT(*) FROM d WHERE a + 0.02 = 0.03") == 1
    assert await client.rows("SELECT b + 1 FROM d WHERE b > 0") == [
        (Decimal("12345678901234567891.01234567890123456789"),)
    ]
    assert await client.value("SELECT a * a FROM d WHERE a > 1") == Decimal("99999999999999800000000000.0001")
    assert await client.errno("SELECT 9223372036854775807 + 1") == 1690
    assert await client.value("SELECT 18446744073709551615") == 2**64 - 1
    assert await client.errno("SELECT ~0 > 5") == 1690


async def test_a_bound_number_may_be_negative_where_the_plan_was_made_with_another(client):
    await client("CREATE TABLE d (u INT UNSIGNED)")
    await client("INSERT INTO d VALUES (1)")
    assert await client.rows("SELECT u FROM d WHERE u + ? < 5", 2) == [(1,)]
    refused = (1690, "BIGINT UNSIGNED value is out of range in '`main`.`d`.`u` + -2'")
    assert await client.error("SELECT u FROM d WHERE u + ? < 5", -2) == refused
    assert await client.errno("SELECT CAST(? AS UNSIGNED) - 2", 1) == 1690


async def test_sixty_four_bits_without_sign(client):
    """What the result of the arithmetic is; where SQLite's numbers cannot tell it from a negative one, an error."""
    await client("CREATE TABLE d (b BIGINT UNSIGNED, g INT GENERATED ALWAYS AS (u + 1), u INT UNSIGNED)")
    await client("INSERT INTO d (b, u) VALUES (9223372036854775807, 1)")
    assert await client.rows("SELECT g FROM d") == [(2,)]
    counts = "BIGINT UNSIGNED value is out of range: the embedded backend counts up to 2^63-1"
    for sql in ("SELECT b - -1 FROM d", "SELECT b * 2 FROM d", "SELECT CAST(-1 AS UNSIGNED) > 5", "SELECT ~0 / 2"):
        number, text = await client.error(sql)
        assert (number, text[: len(counts)]) == (1690, counts), sql
    assert await client.value("SELECT CAST(-1 AS UNSIGNED) - 0xFF") == 2**64 - 256
    assert await client.errno("SELECT 0x01 - 2") == 1690
    assert await client.errno("SELECT 0xFFFFFFFFFFFFFFFF + 0") == 1690


async def test_time_zones(client):
    await client("CREATE TABLE z (t TIMESTAMP NULL, d DATETIME)")
    await client("SET time_zone = '+02:00'")
    await client("INSERT INTO z VALUES ('2024-06-01 12:00:00', '2024-06-01 12:00:00')")
    assert await client.value("SELECT UNIX_TIMESTAMP(t) FROM z") == 1717236000
    await client("SET time_zone = '+00:00'")
    assert await client.rows("SELECT t, d FROM z") == [
        (datetime.datetime(2024, 6, 1, 10), datetime.datetime(2024, 6, 1, 12)),
    ]
    await client("SET time_zone = 'America/New_York'")
    assert await client.value("SELECT t FROM z WHERE t = '2024-06-01 06:00:00'") == datetime.datetime(2024, 6, 1, 6)
    assert await client.value("SELECT TIMESTAMPDIFF(HOUR, NOW(), UTC_TIMESTAMP())") in (4, 5)
    assert await client.errno("SET time_zone = 'Nowhere/Land'") == 1298


@pytest.fixture
def winter_in_london(monkeypatch):
    """The machine's zone is UTC today, and not in summer."""
    monkeypatch.setattr("embedded.session.state.utc_now", lambda: datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC))
    monkeypatch.setenv("TZ", "Europe/London")
    time.tzset()
    yield
    monkeypatch.delenv("TZ")
    time.tzset()


async def test_a_timestamp_of_summer_that_is_stored_in_winter(winter_in_london, client, connect):
    await client("CREATE TABLE z (t TIMESTAMP NULL)")
    await client("INSERT INTO z VALUES ('2024-07-01 12:00:00')")
    other = connect()
    await other("SET time_zone = '+00:00'")
    for session, hour in ((client, 12), (other, 11)):
        assert await session.rows("SELECT t, UNIX_TIMESTAMP(t) FROM z") == [
            (datetime.datetime(2024, 7, 1, hour), 1719831600)
        ]


async def test_a_text_with_an_offset(client):
    await client("CREATE TABLE z (t TIMESTAMP NULL, d DATETIME)")
    text = "'2024-01-01 10:00:00+03:00'"
    await client(f"INSERT INTO z VALUES ({text}, {text})")
    assert await client.value(f"SELECT COUNT(*) FROM z WHERE d = {text} AND t = '2024-01-01 07:00:00'") == 1
    await client("SET time_zone = '+02:00'")
    for value in (text, "'2024-01-01T10:00:00Z'"):
        assert await client.errno(f"INSERT INTO z (t) VALUES ({value})") == 1292
        assert await client.errno(f"INSERT INTO z (d) SELECT {value}") == 1292
        assert await client.errno(f"SELECT 1 FROM z WHERE d = {value}") == 1525
    await client("INSERT INTO z (t) VALUES (CAST('2024-01-01 10:00:00+03:00' AS DATETIME))")
    assert await client.value("SELECT COUNT(*) FROM z WHERE t = '2024-01-01 09:00:00'") == 2
    await client("SET time_zone = '+00:00'")
    assert await client.errno("INSERT INTO z (t) VALUES ('2024-01-01T10:00:00Z')") == 1292


async def test_session_variables_and_their_scopes(client, connect):
    await client("SET @a = 5, @b := 'x', @c = 1 + 1")
    assert await client.rows("SELECT @a, @b, @c, @nothing") == [(5, "x", 2, None)]
    await client("SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ANSI_QUOTES'")
    assert await client.value('SELECT "quoted" FROM (SELECT 1 AS quoted) AS "t"') == 1
    assert await connect().value('SELECT "text"') == "text"
    await client("SET GLOBAL max_connections = 70")
    assert await connect().value("SELECT @@max_connections") == 70
    await client("SET NAMES utf8mb4 COLLATE utf8mb4_bin")
    assert await client.value("SELECT @@collation_connection") == "utf8mb4_bin"
    assert await client.errno("SET NAMES klingon") == 1115
    assert await client.rows("SELECT @@max_allowed_packet > 0, @@wait_timeout > 0, @@socket") == [(1, 1, "")]
    await client("SET autocommit = 1, NAMES latin1, @a = 6")
    charsets = "SELECT @@character_set_client, @@character_set_results, @@collation_connection, @a"
    assert await client.rows(charsets) == [("latin1", "latin1", "latin1_swedish_ci", 6)]
    assert await client.errno('SET @a = 7, NAMES utf8mb4 COLLATE "utf8mb4_\' or 1_bin"') == 1273
    assert await client.value("SELECT @a") == 6


async def test_reset_makes_a_new_session_of_it(client):
    await client("CREATE TABLE t (a INT)")
    await client("CREATE TEMPORARY TABLE tmp (a INT)")
    await client("SET @a = 1, autocommit = 0")
    await client("PREPARE s FROM 'SELECT 1'")
    await client("INSERT INTO t VALUES (1)")
    await client.session.reset()
    assert client.session.autocommit and not client.session.in_transaction
    assert await client.rows("SELECT COUNT(*), @a FROM t") == [(0, None)]
    assert await client.errno("SELECT * FROM tmp") == 1146
    assert await client.errno("EXECUTE s") == 1243


async def test_temporary_tables_are_the_sessions_own(client, connect):
    other = connect()
    await client("CREATE TABLE t (a INT)")
    await client("INSERT INTO t VALUES (1)")
    await client("CREATE TEMPORARY TABLE t (b VARCHAR(5))")
    await client("INSERT INTO t VALUES ('temp')")
    assert await client.rows("SELECT * FROM t") == [("temp",)]
    assert await other.rows("SELECT * FROM t") == [(1,)]
    await client("BEGIN")
    await client("INSERT INTO t VALUES ('gone')")
    await client("ROLLBACK")
    assert await client.rows("SELECT * FROM t") == [("temp",)]
    await client("DROP TEMPORARY TABLE t")
    assert await client.rows("SELECT * FROM t") == [(1,)]
    await client("CREATE TEMPORARY TABLE src AS SELECT 2 AS a")
    await client("INSERT INTO t SELECT a FROM src")
    assert await other.rows("SELECT * FROM t") == [(1,), (2,)]


async def test_alter_keeps_rows_keys_and_numbers(client):
    await client("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(10), UNIQUE KEY by_a (a))")
    await client("INSERT INTO t (a) VALUES ('1'), ('2'), ('3')")
    await client("DELETE FROM t WHERE id = 3")
    await client(
        "ALTER TABLE t ADD COLUMN b INT NOT NULL DEFAULT 7 AFTER id, MODIFY a BIGINT, ADD KEY by_b (b), COMMENT = 'x'"
    )
    assert await client.rows("SELECT * FROM t") == [(1, 7, 1), (2, 7, 2)]
    done = await client("INSERT INTO t (a) VALUES (9)")
    assert done.last_insert_id == 4
    assert await client.errno("INSERT INTO t (a) VALUES (9)") == 1062
    await client("ALTER TABLE t RENAME COLUMN b TO c, RENAME KEY by_b TO by_c, RENAME TO u")
    text = (await client.rows("SHOW CREATE TABLE u"))[0][1]
    assert "KEY `by_c` (`c`)" in text
    assert "COMMENT='x'" in text
    await client("INSERT INTO u (a, c) VALUES (100, 1)")
    assert await client.errno("ALTER TABLE u ADD UNIQUE KEY (c)") == 1062
    await client("ALTER TABLE u DROP COLUMN c")
    assert [row[0] for row in await client.rows("DESCRIBE u")] == ["id", "a"]


async def test_a_failed_definition_changes_nothing(client):
    await client("CREATE TABLE t (a VARCHAR(10), b INT)")
    await client("INSERT INTO t VALUES ('text', 1), ('text', 2)")
    assert await client.errno("ALTER TABLE t ADD COLUMN c INT, MODIFY a INT") == 1366
    assert await client.errno("ALTER TABLE t ADD COLUMN c INT, ADD UNIQUE KEY (a)") == 1062
    assert await client.errno("ALTER TABLE t ADD COLUMN c INT, ADD CHECK (b > 1)") == 3819
    assert [row[0] for row in await client.rows("DESCRIBE t")] == ["a", "b"]
    assert await client.rows("SELECT * FROM t") == [("text", 1), ("text", 2)]


async def test_plans_follow_definitions(client, connect):
    other = connect()
    await client("CREATE TABLE t (a INT)")
    await client("INSERT INTO t VALUES (1)")
    assert await other.rows("SELECT * FROM t") == [(1,)]
    await client("ALTER TABLE t ADD COLUMN b INT DEFAULT 2")
    assert await other.rows("SELECT * FROM t") == [(1, 2)]
    await client("DROP TABLE t")
    assert await other.errno("SELECT * FROM t") == 1146
    await client("CREATE TABLE t (b VARCHAR(5))")
    await other("INSERT INTO t VALUES ('x')")


async def test_views_follow_their_tables(client):
    await client("CREATE TABLE t (a INT, b VARCHAR(5))")
    await client("CREATE VIEW v AS SELECT a, CONCAT(b, '!') AS loud FROM t WHERE a > 1")
    await client("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    assert await client.rows("SELECT * FROM v") == [(2, "y!")]
    assert await client.rows("SELECT loud, @@autocommit FROM v WHERE loud = 'Y!'") == [("y!", 1)]
    assert await client.errno("INSERT INTO v VALUES (1, 'z')") == 1235
    await client("CREATE OR REPLACE VIEW v AS SELECT a FROM t")
    assert await client.value("SELECT SUM(a) FROM v") == 3
    assert (await client.rows("SHOW FULL TABLES LIKE 'v'")) == [("v", "VIEW")]
    await client("DROP VIEW v")


async def test_prepare_tells_parameters_and_columns(client):
    await client("CREATE TABLE t (a INT, b VARCHAR(5))")
    info = await client.session.prepare("SELECT a, b AS c FROM t WHERE a = ? AND b = ?")
    assert info.parameter_count == 2
    assert [(column.name, column.type) for column in info.columns] == [("a", 3), ("c", 253)]
    assert (await client.session.prepare("INSERT INTO t VALUES (?, ?), (?, ?)")).parameter_count == 4
    assert (await client.session.prepare("SHOW TABLES")).columns[0].name == "Tables_in_main"
    with pytest.raises(Exception, match="doesn't exist"):
        await client.session.prepare("SELECT * FROM nope WHERE a = ?")


async def test_warnings_are_kept_until_the_next_statement(client):
    await client("CREATE TABLE t (a INT PRIMARY KEY)")
    await client("INSERT INTO t VALUES (1)")
    done = await client("INSERT IGNORE INTO t VALUES (1), (2)")
    assert (done.affected_rows, done.warnings, client.session.warning_count) == (1, 1, 1)
    assert await client.rows("SHOW WARNINGS") == [("Warning", 1062, "Duplicate entry '1' for key 't.PRIMARY'")]
    assert await client.rows("SHOW COUNT(*) WARNINGS") == [(1,)]
    await client("DROP TABLE IF EXISTS nope")
    assert await client.rows("SHOW WARNINGS") == [("Note", 1051, "Unknown table 'main.nope'")]
    await client.rows("SELECT 1")
    assert await client.rows("SHOW WARNINGS") == []
    await client.error("SELECT nope")
    assert (await client.rows("SHOW ERRORS"))[0][1] == 1054


async def test_the_backends_own_tables_are_invisible(client):
    await client("CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)")
    assert await client.rows("SHOW TABLES") == [("t",)]
    assert await client.value("SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE 'queuegate%'") == 0
    assert await client.errno("SELECT * FROM queuegate_meta_tables") == 1146
    assert await client.errno("SELECT * FROM sqlite_master") == 1146
    assert await client.errno("CREATE TABLE queuegate_meta_x (a INT)") == 1103
    assert await client.errno("DROP TABLE queuegate_meta_tables") == 1103
    assert await client.errno("DELETE FROM queuegate_meta_tables") == 1146


async def test_everything_is_there_after_reopening(tmp_path, client, database, connect):
    from embedded.database.sqlite import SqliteDatabase
    from embedded.session.session import EmbeddedSession
    from embedded.session.state import Identity

    await client(QUEUE)
    await client("INSERT INTO q (payload) VALUES ('kept')")
    before = (await client.rows("SHOW CREATE TABLE q"))[0]
    await client.session.close()
    await database.close()
    again = await SqliteDatabase.open(database.path)
    session = EmbeddedSession(again, Identity(1, "u", "h", "8"), list)
    result = await session.execute("SELECT payload FROM q")
    assert [row async for batch in result.batches for row in batch] == [("kept",)]
    result = await session.execute("SHOW CREATE TABLE q")
    assert [row async for batch in result.batches for row in batch] == [before]
    await session.close()
    await again.close()


async def test_named_locks_are_held_by_sessions(client, connect):
    other = connect()
    assert await client.rows("SELECT GET_LOCK('a', 0), GET_LOCK('A', 0), IS_USED_LOCK('a')") == [(1, 1, 1)]
    assert await other.rows("SELECT GET_LOCK('a', 0), RELEASE_LOCK('a'), IS_FREE_LOCK('b')") == [(0, 0, 1)]
    waiting = asyncio.create_task(other.value("SELECT GET_LOCK('a', 30)"))
    assert await client.value("SELECT RELEASE_LOCK('a')") == 1
    assert not waiting.done()
    await client.session.close()
    assert await asyncio.wait_for(waiting, 5) == 1
    assert await other.rows("SELECT RELEASE_ALL_LOCKS(), RELEASE_LOCK('a')") == [(1, None)]


async def test_json_functions_beyond_what_the_comparison_covers(client):
    assert await client.rows(
        "SELECT JSON_ARRAY_APPEND('{\"a\": [1]}', '$.a', 2), JSON_MERGE_PRESERVE('{\"a\": 1}', '{\"a\": 2, \"b\": 3}'),"
        " JSON_OVERLAPS('[1, 2]', '[2, 3]'), JSON_MERGE_PATCH('{\"a\": 1, \"b\": 2}', '{\"a\": null}')"
    ) == [('{"a": [1, 2]}', '{"a": [1, 2], "b": 3}', 1, '{"b": 2}')]
    await client("CREATE TABLE j (id INT, d JSON)")
    await client('INSERT INTO j VALUES (1, \'{"name": "Ann", "n": 5, "list": [1, 2]}\'), (2, NULL)')
    assert await client.rows("SELECT id FROM j WHERE d->'$.name' = 'Ann' AND d->'$.n' > 4 AND d->>'$.list[1]' = 2") == [
        (1,)
    ]
    await client("UPDATE j SET d = JSON_SET(d, '$.n', n.x) WHERE id = 1".replace("n.x", "d->'$.n' + 1"))
    assert await client.value("SELECT d->'$.n' FROM j WHERE id = 1") == "6.0"
    assert await client.value("SELECT JSON_ARRAYAGG(id) FROM j") == "[1,2]"
    assert await client.errno("INSERT INTO j VALUES (3, '{broken')") == 3140
    assert await client.errno("SELECT JSON_EXTRACT('{}', 'no path')") == 3143


async def test_a_generated_value_beyond_its_column_is_refused_with_the_number_of_a_stored_one(client):
    await client(
        "CREATE TABLE g (id INT AUTO_INCREMENT PRIMARY KEY, a INT, t TINYINT AS (a * 2),"
        " s VARCHAR(3) AS (CONCAT(a, '')) STORED)"
    )
    assert await client.error("INSERT INTO g (a) VALUES (64)") == (1264, "Out of range value for column 't'")
    assert await client.error("INSERT INTO g (a) VALUES (-1000)") in [
        (1264, "Out of range value for column 't'"),
        (1406, "Data too long for column 's'"),
    ]
    for column in ("FLOAT AS (a * 2)", "DECIMAL(20,2) AS (a * 2)", "TIME AS (a)", "ENUM('1') AS (a)"):
        assert await client.errno(f"ALTER TABLE g ADD c {column}") == 1235


async def test_generated_columns_of_json_and_dates_can_be_indexed(client):
    await client(
        "CREATE TABLE g (doc JSON, at DATETIME, a DECIMAL(8,3),"
        " name VARCHAR(20) AS (doc->>'$.name') STORED, flag VARCHAR(5) AS (JSON_UNQUOTE(JSON_EXTRACT(doc, '$.flag'))),"
        " month INT AS (YEAR(at) * 100 + MONTH(at)), half DECIMAL(8,1) AS (ROUND(a / 2, 1)), KEY (name), KEY (month))"
    )
    await client('INSERT INTO g (doc, at, a) VALUES (\'{"name": "Ann", "flag": true}\', \'2024-03-05 01:02:03\', 1.5)')
    await client("INSERT INTO g (doc) VALUES (NULL)")
    assert await client.rows("SELECT name, flag, month, half FROM g WHERE name = 'ann'") == [
        ("Ann", "true", 202403, Decimal("0.8"))
    ]
    assert await client.rows("SELECT name, month FROM g WHERE doc IS NULL") == [(None, None)]
    assert (await client.rows("EXPLAIN SELECT * FROM g WHERE month = 202403"))[0][6] == "month"


async def test_signed_and_unsigned_numbers_together_are_bigint(client):
    await client("CREATE TABLE n (i INT, u INT UNSIGNED)")
    await client("INSERT INTO n VALUES (-1, 4294967295)")
    for query in ("SELECT IF(1, u, i) x FROM n", "SELECT u x FROM n UNION SELECT i FROM n ORDER BY 1 DESC LIMIT 1"):
        result = await client.result(query)
        assert (result.columns[0].type, result.columns[0].flags & 32) == (8, 0), query
        assert [row async for batch in result.batches for row in batch] == [(4294967295,)]


async def test_zero_has_no_sign_and_enum_beside_null_sorts_by_its_members(client):
    await client("CREATE TABLE z (f DOUBLE, n INT, e ENUM('red', 'green', 'blue'))")
    await client("INSERT INTO z VALUES (5, 3, 'red'), (-5, 3, 'blue')")
    assert {str(value) for (value,) in await client.rows("SELECT (-f) * MOD(ABS(n), 1.5) FROM z")} == {"0.0"}
    union = "SELECT e FROM z UNION SELECT NULL"
    assert await client.rows(f"SELECT * FROM ({union}) u ORDER BY e DESC") == [("blue",), ("red",), (None,)]
    assert (await client.error(f"{union} ORDER BY e"))[0] == 1235


async def test_threads_that_read_long_statements_end_with_the_database(client, database):
    parsers = client.session._state.shared.parsers
    assert await client.value(f"SELECT LENGTH('{'x' * 100_000}')") == 100_000
    assert await client.value(f"SELECT LENGTH('{'x' * 100_000}')") == 100_000
    threads = list(parsers._threads)
    assert len(threads) == 2
    await client.session.close()
    await database.close()
    for thread in threads:
        await asyncio.to_thread(thread.join, 30)
    assert not any(thread.is_alive() for thread in threads)
    with pytest.raises(BackendUnavailable):
        await parsers.run(int)

"""Statements whose effect can be told from their text: what is read, and above all what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import make_spec
from over import over

from engine.model.queue import QueueCatalog
from proxy.rights.kinds import (
    Act,
    QueueStatement,
    SensitiveOutput,
    SessionQuery,
    SessionSettings,
    Setting,
    Step,
    TransactionStep,
    Use,
)
from proxy.rights.statements import read
from proxy.rights.variables import changes_parsing, switch_value, without_parsing_modes
from rewriter.plan import Execute, PlanContext
from rewriter.planner import Planner
from rewriter.text.tokens import Name

Q = Name(None, "q")

ENQUEUES = [
    "INSERT INTO q (a, b) VALUES (10, 'x'), (-1.5e3, NULL)",
    "insert q values (1)",
    "INSERT INTO `q` () VALUES ()",
    "INSERT IGNORE INTO q VALUE (?, ?, DEFAULT, TRUE);",
    "/* from the shop */ INSERT INTO q VALUES (1) -- the end",
    "# it's a comment\r\n--\tso is this\nINSERT INTO q VALUES (1) /**/ # \"the end",
    "INSERT INTO q (payload, time_scheduled) VALUES ('later', UNIX_TIMESTAMP(NOW() + INTERVAL 2 HOUR) * 1000000000)",
    "INSERT INTO q VALUES (_binary'\\x00\\'', x'00ff', 0xFF, b'01', _utf8mb4 \"a\"\"b\", N'n')",
    "INSERT INTO q SET a = 1, b = CONCAT('x', ?), c = DEFAULT",
    "INSERT INTO q (a) VALUES (1) RETURNING id, a",
    "INSERT INTO q VALUES ('a' 'b', 'it''s', 'a\\\\'), (JSON_OBJECT('k', 'SELECT'), 'SELECT * FROM secret')",
    "INSERT INTO q VALUES ('\x00 \xff', 1)",
]  # fmt: skip


@pytest.mark.parametrize("sql", ENQUEUES)
def test_inserts_of_values(sql: str) -> None:
    assert read(sql.encode("latin-1")) == QueueStatement(Act.ENQUEUE, Q)


SETTLES = {
    "UPDATE q SET time_acked = 5, time_next = NULL WHERE id IN (101, ?) AND time_acked IS NULL": {"id", "time_acked"},
    "UPDATE q SET state = 'acked' WHERE q.id = 1 ORDER BY id DESC LIMIT 5": {"id"},
    "UPDATE q SET time_next = time_next + 300000000000 WHERE `id` = 'x'": {"time_next", "id"},
    "UPDATE q SET time_next = 0": set(),
    "DELETE FROM q WHERE NOT (a LIKE 'x%' OR b BETWEEN 1 AND 2) AND c <> LOWER(d);": {"a", "b", "c", "d"},
    "DELETE FROM q": set(),
    "DELETE FROM q LIMIT 10": set(),
    "UPDATE q FORCE INDEX (PRIMARY) SET time_acked = 5, time_next = NULL WHERE id = 1": {"id"},
    "DELETE q FROM q FORCE INDEX (PRIMARY) WHERE (id IN (1, 2)) AND time_acked IS NULL": {"id", "time_acked"},
}


@pytest.mark.parametrize("sql", SETTLES)
def test_settling(sql: str) -> None:
    used = frozenset(SETTLES[sql])
    assert read(sql.encode()) == QueueStatement(Act.SETTLE, Q, used, used - {"id", "time_acked", "time_next"})


TELLS = {
    "UPDATE q SET last_error = body WHERE id = 1": {"body"},
    "UPDATE q SET last_error = CONCAT('x', q.Body), time_next = n": None,
    "UPDATE q SET last_error = IF(LOWER(`Body`) = 'x', 'a', first_error) WHERE id = 1": {"body", "first_error"},
    "UPDATE q SET time_next = LENGTH(last_error)": {"last_error"},
    "UPDATE q SET last_error = 'x', first_error = COALESCE(first_error, 'x')": set(),
    "UPDATE q SET first_error = COALESCE(first_error, 'x') + 0": {"first_error"},
    "UPDATE q SET first_error = COALESCE(first_error, LENGTH(first_error))": {"first_error"},
    "UPDATE q SET last_error = COALESCE(last_error, 'x')": {"last_error"},
    "UPDATE q SET last_error = COALESCE(first_error, 'x')": {"first_error"},
    "UPDATE q SET failed_attempts = first_error, epoch = 1": {"first_error"},
    "UPDATE q SET last_error = last_error + 0": {"last_error"},
    "UPDATE q SET last_error = DATE_ADD(last_error, INTERVAL 1 DAY)": {"last_error"},
    "UPDATE q SET last_error = IF(LOCATE('a', last_error) = 1, CONCAT(last_error, ' '), last_error)": {"last_error"},
    "UPDATE q SET failed_attempts = CONCAT('[', failed_attempts, ']')": {"failed_attempts"},
    "UPDATE q SET time_next = epoch + priority WHERE time_created > 1 AND state = 'acked'": set(),
    "UPDATE q SET epoch = 0 WHERE last_error LIKE 'a%'": {"last_error"},
    "DELETE FROM q ORDER BY body LIMIT 1": {"body"},
    "DELETE q FROM q FORCE INDEX (PRIMARY) WHERE id = 1 AND body > 'm'": {"body"},
}


@pytest.mark.parametrize("sql", TELLS)
def test_what_settling_tells_of_a_message(sql: str) -> None:
    """By the rows that it finds, and by what it leaves where others may look."""
    statement = read(sql.encode())
    wanted = TELLS[sql]
    if wanted is None:
        assert statement is None
    else:
        assert isinstance(statement, QueueStatement) and statement.reveals == frozenset(wanted)


@pytest.mark.parametrize(
    "options",
    [{}, {"min_backoff_ns": 0}, {"backoff": (10**9,)}, {"backoff": (10**9, 10**10, 10**11)}, {"max_attempts": 7}],
)
def test_a_nack_that_waits_by_the_queues_backoff_is_readable(options: dict[str, object]) -> None:
    """It is judged by what it is made into."""
    spec = make_spec(**options)
    plan = Planner(QueueCatalog(1, {spec.name: spec})).plan(
        f"NACK {spec.name.table} 1", PlanContext(spec.name.database)
    )
    assert isinstance(plan, Execute)
    statement = read(plan.sql.encode())
    assert isinstance(statement, QueueStatement)
    assert statement.act is Act.SETTLE and statement.columns <= {
        "id",
        "epoch",
        "time_acked",
        "time_next",
        "lease_token",
    }


def test_names_are_taken_as_they_are_written() -> None:
    for sql in (b"DELETE FROM `Sh``op` . Orders", b"INSERT INTO `Sh``op`.Orders VALUES (1)"):
        statement = read(sql)
        assert isinstance(statement, QueueStatement)
        assert statement.name == Name("Sh`op", "Orders")


def test_settings() -> None:
    assert read(b"SET NAMES 'utf8mb4' COLLATE utf8mb4_bin, autocommit := OFF") == SessionSettings(
        (Setting("names", "utf8mb4", collation="utf8mb4_bin"), Setting("autocommit", "off"))
    )
    assert read(b"set @@session.sql_mode = concat(@@sql_mode, ',STRICT_TRANS_TABLES')") == SessionSettings(
        (Setting("sql_mode", ",STRICT_TRANS_TABLES", appended=True),)
    )
    assert read(b"SET @@session.autocommit = ON") == SessionSettings((Setting("autocommit", "on"),))
    assert read(b"SET character_set_results = NULL") == SessionSettings((Setting("character_set_results", None),))
    assert read(b"SET SESSION sql_mode = DEFAULT") == SessionSettings((Setting("sql_mode", "default", default=True),))
    assert read(b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY") == SessionSettings(
        transaction=True
    )
    assert read(b"SET TRANSACTION READ ONLY") == TransactionStep(Step.NEXT)


TRACKED = frozenset(("session_track_system_variables",))


def test_settings_that_are_computed() -> None:
    """As MariaDB Connector/J says it."""
    tracked = (
        b"CONCAT('autocommit,time_zone', IF(LOCATE('*', @@session_track_system_variables) > 0"
        b" OR FIND_IN_SET('x', LOWER(REPLACE(@@session_track_system_variables, ' ', ''))) > 0, ',x', ''))"
    )
    sql = b"set sql_mode=CONCAT(@@sql_mode,',X'), session_track_system_variables=" + tracked + b", NAMES utf8mb4"
    assert read(sql) == SessionSettings(
        (
            Setting("sql_mode", ",X", appended=True),
            Setting("session_track_system_variables", None, computed=True, reads=TRACKED),
            Setting("names", "utf8mb4"),
        )
    )
    for value, reads in ((b"?", ()), (b"1 + 1", ()), (b"@@global.datadir", ("datadir",)), (b"'a' 'b'", ()),
                         (b"CONCAT(@@version, 'x', @@socket)", ("version", "socket"))):  # fmt: skip
        setting = Setting("sql_mode", None, computed=True, reads=frozenset(reads))
        assert read(b"SET sql_mode = " + value) == SessionSettings((setting,)), value


def test_questions() -> None:
    sql = b"SELECT @@session.autocommit AS a, @@version_comment b, DATABASE(), NOW(6), 1 + 1 'x' LIMIT 1"
    assert read(sql) == SessionQuery(frozenset(("autocommit", "version_comment")))
    assert read(b"SELECT CONNECTION_ID()") == SessionQuery(connection_id=True)
    for function in ("USER", "current_user", "SESSION_USER", "SYSTEM_USER"):
        assert read(f"SELECT 1, {function}()".encode()) == SessionQuery(account=True)
    for show, shows in {
        "VARIABLES LIKE 'a%'": SensitiveOutput.VARIABLES,
        "SESSION VARIABLES WHERE Variable_name IN ('a')": SensitiveOutput.VARIABLES,
        "WARNINGS LIMIT 5": SensitiveOutput.WARNINGS,
        "COUNT(*) ERRORS": None,
        "CHARACTER SET": None,
        "COLLATION": None,
        "ENGINES": None,
    }.items():
        assert read(f"SHOW {show}".encode()) == SessionQuery(sensitive_output=shows)


def test_transactions() -> None:
    for sql, step in {
        "BEGIN WORK": TransactionStep(Step.BEGIN),
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY": TransactionStep(Step.BEGIN),
        "COMMIT": TransactionStep(Step.COMMIT, plain=True),
        "rollback work and no chain no release;": TransactionStep(Step.ROLLBACK, plain=True),
        "COMMIT AND CHAIN": TransactionStep(Step.COMMIT),
        "SAVEPOINT a": TransactionStep(Step.SAVEPOINT),
        "ROLLBACK TO a": TransactionStep(Step.SAVEPOINT),
        "RELEASE SAVEPOINT `a`": TransactionStep(Step.SAVEPOINT),
    }.items():
        assert read(sql.encode()) == step, sql
    assert read(b"USE `a b`") == Use("a b")


NOT_READ = [
    "",
    ";",
    "-- nothing",
    # more than values
    "INSERT INTO q SELECT 1",
    "INSERT INTO q (a) SELECT secret FROM t",
    "INSERT INTO q VALUES ((SELECT secret FROM t))",
    "INSERT INTO q TABLE t",
    "INSERT INTO q (SELECT 1)",
    "INSERT INTO q VALUES ROW(1)",
    "INSERT INTO q VALUES (a)",
    "INSERT INTO q VALUES (@a), (@@version)",
    "INSERT INTO q VALUES (@a := 1)",
    "INSERT INTO q VALUES (LOAD_FILE('/etc/passwd'))",
    "INSERT INTO q VALUES (SLEEP(10))",
    "INSERT INTO q VALUES (NOW ())",
    "INSERT INTO q VALUES (`NOW`())",
    "INSERT INTO q VALUES (db.f(1))",
    "INSERT INTO q VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
    "INSERT INTO q VALUES (1) AS n ON DUPLICATE KEY UPDATE a = 1",
    "INSERT INTO q SET a = (SELECT 1)",
    "INSERT INTO q SET a = 1 ON DUPLICATE KEY UPDATE a = 2",
    "INSERT INTO q PARTITION (p) VALUES (1)",
    "INSERT INTO q VALUES (1) RETURNING (SELECT 1)",
    "INSERT INTO q VALUES (1) RETURNING SLEEP(1)",
    "INSERT INTO a.b.c VALUES (1)",
    "INSERT INTO q VALUES (1); DROP TABLE t",
    "INSERT INTO q VALUES (1);; ; SELECT 1",
    "REPLACE INTO q VALUES (1)",
    "LOAD DATA INFILE 'x' INTO TABLE q",
    # executable comments, hints, and comments that others may read otherwise
    "INSERT INTO q VALUES (1 /*! , (SELECT 1) */)",
    "INSERT INTO q VALUES (1 /*!50000 , 2 */)",
    "INSERT INTO q VALUES (1 /*M! , 2 */)",
    "INSERT INTO q VALUES (1 /*m!100000 , 2 */)",
    "INSERT /*+ SET_VAR(sql_mode='ANSI_QUOTES') */ INTO q VALUES (1)",
    "SELECT /*+ MAX_EXECUTION_TIME(1) */ 1",
    "INSERT INTO q VALUES (1 --1\n)",
    "INSERT INTO q VALUES (1 /* never ends )",
    "INSERT INTO q VALUES (1 /* /* nested */)",
    "SELECT 1 -- a\rFROM secret",
    "SELECT 1 # a\rFROM secret",
    "SELECT 1 --\x03 a",
    "SELECT\x0b1",
    "SELECT\x0c1",
    "INSERT INTO q VALUES (1 */*)",
    "INSERT INTO q VALUES ('never ends)",
    "INSERT INTO q VALUES ('a\\')",
    "INSERT INTO `q VALUES (1)",
    "INSERT INTO q VALUES (_gbk'a')",
    "INSERT INTO q VALUES (1abc)",
    "INSERT INTO q VALUES (1.2.3)",
    "INSERT INTO q VALUES (1)\x00",
    # conditions with more than columns
    "UPDATE q SET payload = 'x'",
    "UPDATE q SET id = 5",
    "UPDATE q SET time_acked = 1, payload = 2",
    "UPDATE q SET time_acked = (SELECT 1)",
    "UPDATE q SET time_acked = @x := 1",
    "UPDATE q SET time_acked = SLEEP(1)",
    "UPDATE q, t SET time_acked = 1",
    "UPDATE q JOIN t SET time_acked = 1",
    "UPDATE q AS x SET time_acked = 1",
    "UPDATE q SET time_acked = 1 WHERE id IN (SELECT id FROM t)",
    "UPDATE q SET time_acked = 1 WHERE EXISTS (TABLE t)",
    "UPDATE q SET time_acked = 1 WHERE id = ANY (VALUES ROW(1))",
    "UPDATE q SET time_acked = 1 WHERE t.id = 1",
    "UPDATE q SET time_acked = 1 WHERE x.q.id = 1",
    "UPDATE q SET time_acked = 1 WHERE q.f(1)",
    "UPDATE q SET time_acked = 1 WHERE BENCHMARK(1, 1)",
    "UPDATE q SET time_acked = 1 WHERE f (1)",
    "UPDATE q SET time_acked = 1 WHERE @@version LIKE '1%'",
    "UPDATE q SET time_acked = 1 WHERE",
    "UPDATE q SET time_acked = 1 ORDER BY (SELECT 1)",
    "UPDATE q SET time_acked = 1 LIMIT 1 INTO OUTFILE 'x'",
    "WITH x AS (SELECT 1) UPDATE q SET time_acked = 1",
    "DELETE FROM q WHERE id = 1 RETURNING payload",
    "DELETE q FROM q JOIN t",
    "UPDATE q FORCE INDEX (a) SET time_acked = 1 WHERE id = 1",
    "UPDATE q FORCE INDEX (PRIMARY), t SET time_acked = 1",
    "DELETE q FROM t FORCE INDEX (PRIMARY) WHERE id = 1",
    "DELETE q FROM q FORCE INDEX (PRIMARY)",
    "DELETE q FROM q FORCE INDEX (queuegate_due) WHERE id = 1",
    "DELETE q FROM q FORCE INDEX (PRIMARY) WHERE id = 1 LIMIT 1",
    "DELETE q FROM q FORCE INDEX (PRIMARY), t WHERE id = 1",
    "DELETE q FROM q FORCE INDEX (PRIMARY) JOIN t WHERE id = 1",
    "DELETE q, t FROM q FORCE INDEX (PRIMARY) WHERE id = 1",
    "DELETE FROM q USING q JOIN t",
    "DELETE FROM q, t",
    "DELETE FROM q WHERE id = 1 UNION SELECT 1",
    # questions that ask more
    "SELECT 1 FROM t",
    "SELECT * FROM q",
    "SELECT 1 x FROM`secret`",
    "SELECT (SELECT 1)",
    "SELECT 1 UNION SELECT 2",
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    "SELECT 1 INTO @a",
    "SELECT @a",
    "SELECT @a := 1",
    "SELECT SLEEP(5)",
    "SELECT GET_LOCK('a', 1)",
    "SELECT LAST_INSERT_ID(5)",
    "SELECT LOAD_FILE('x')",
    "SELECT f()",
    "SELECT NEXTVAL(s)",
    "SELECT NEXT VALUE FOR s",
    "SELECT 1 PROCEDURE ANALYSE()",
    "SELECT 1 FOR UPDATE",
    "SELECT 1; COMMIT",
    "SELECT 1; 2",
    # functions without parentheses, in whatever place a name may stand
    "SELECT CURRENT_USER",
    "SELECT 1 AS current_user",
    "SELECT CURRENT_ROLE",
    "SELECT CURRENT_ROLE()",
    "SELECT SESSION_USER",
    "SELECT USER ()",
    "SET time_zone = CURRENT_USER",
    "SET time_zone = CURRENT_ROLE, autocommit = 1",
    "UPDATE q SET time_acked = CURRENT_USER",
    "UPDATE q SET time_acked = 1 WHERE CURRENT_USER = 'x'",
    "DELETE FROM q ORDER BY CURRENT_ROLE",
    "INSERT INTO q (a) VALUES (1) RETURNING CURRENT_USER",
    "SHOW VARIABLES WHERE Variable_name = CURRENT_USER",
    "SELECT",
    "(SELECT 1)",
    "TABLE t",
    "VALUES ROW(1)",
    "SHOW TABLES",
    "SHOW DATABASES",
    "SHOW GRANTS",
    "SHOW CREATE TABLE t",
    "SHOW VARIABLES WHERE (SELECT 1)",
    "SHOW VARIABLES WHERE SLEEP(1)",
    "SHOW WARNINGS; DROP TABLE t",
    # settings that are none
    "SET GLOBAL sql_mode = ''",
    "SET @@global.sql_mode = ''",
    "SET PERSIST sql_mode = ''",
    "SET autocommit = 1, GLOBAL sql_mode = ''",
    "SET autocommit = 1, @a = 1",
    "SET @a = 1",
    "SET PASSWORD = 'x'",
    "SET PASSWORD FOR root = 'x'",
    "SET ROLE admin",
    "SET DEFAULT ROLE admin TO root",
    "SET sql_mode = (SELECT 1)",
    "SET sql_mode = CONCAT(@@sql_mode, (SELECT 1))",
    "SET sql_mode = CONCAT(@@version, @a)",
    "SET sql_mode = IF(1, (SELECT 1), 2)",
    "SET sql_mode = IF(1, SLEEP(1), 2)",
    "SET autocommit = (1",
    "SET sql_mode = f()",
    "SET STATEMENT max_statement_time = 1 FOR DELETE FROM t",
    "SET GLOBAL TRANSACTION READ ONLY",
    "SET NAMES utf8mb4; DROP TABLE t",
    # transactions with more
    "BEGIN NOT ATOMIC DELETE FROM t; END",
    "COMMIT RELEASE",
    "ROLLBACK AND NO CHAIN RELEASE",
    "START SLAVE",
    "XA START 'a'",
    "SAVEPOINT a; DROP TABLE t",
    # everything else
    "CALL p()", "DO SLEEP(1)", "PREPARE s FROM 'DROP TABLE t'", "EXECUTE s", "EXECUTE IMMEDIATE 'DROP TABLE t'",
    "HANDLER q OPEN", "LOCK TABLES q WRITE", "TRUNCATE q", "DROP TABLE q", "ALTER TABLE q ADD x INT",
    "CREATE TABLE t (a INT)", "GRANT ALL ON *.* TO x", "FLUSH TABLES", "KILL 5", "EXPLAIN SELECT 1", "ANALYZE TABLE q",
    "DESCRIBE q", "HELP 'x'", "SHUTDOWN", "INSTALL PLUGIN x SONAME 'x'", "BINLOG 'x'", "IF 1 THEN DROP TABLE t; END IF",
    "\xa0SELECT 1", "SELECT\xa01", "SELECT 1 x\xc2\xa0FROM `secret`", "INSERT INTO q\xa0VALUES (1)",
]  # fmt: skip


@over(NOT_READ)
def test_everything_else_is_not_read(sql: str) -> None:
    assert read(sql.encode("latin-1")) is None


def test_a_backslash_is_what_the_server_takes_it_for() -> None:
    ends_early = rb"INSERT INTO q VALUES ('\'), (SLEEP(1), \'')"
    assert read(ends_early, backslash_escapes=True) is not None  # one string
    assert read(ends_early, backslash_escapes=False) is None
    assert read(rb"INSERT INTO q VALUES ('\')", backslash_escapes=False) is not None


def test_long_lists_are_read_to_their_end() -> None:
    rows = b",".join(b"(%d, 'text', NULL)" % number for number in range(20_000))
    assert read(b"INSERT INTO q (a, b, c) VALUES " + rows) == QueueStatement(Act.ENQUEUE, Q)
    assert read(b"INSERT INTO q (a, b, c) VALUES " + rows + b", (1, 2, (SELECT 3))") is None


_PIECES = st.sampled_from(
    [
        "INSERT",
        "INTO",
        "q",
        "VALUES",
        "(",
        ")",
        ",",
        "1",
        "'a'",
        "NULL",
        "SELECT",
        "FROM",
        "t",
        "UPDATE",
        "SET",
        "time_acked",
        "=",
        "DELETE",
        "WHERE",
        "id",
        ";",
        "/*",
        "*/",
        "/*!",
        "--",
        "#",
        "'",
        '"',
        "`",
        "\\",
        "@a",
        "@@version",
        "SLEEP(",
        "NOW()",
        ".",
        "*",
        "-",
        "/",
        "+",
        "?",
        "RETURNING",
        "SHOW",
        "VARIABLES",
        "LIKE",
        "LIMIT",
        "USE",
        "BEGIN",
        "COMMIT",
        "\n",
        "\x00",
        "ÿ",
    ]
)


@given(st.lists(_PIECES, max_size=14), st.sampled_from(["", " "]), st.booleans())
def test_whatever_is_read_holds_no_query_and_no_second_statement(pieces: list[str], gap: str, escapes: bool) -> None:
    """Against an independent, coarse reading: with strings and comments blanked, dangerous words must not be there."""
    sql = gap.join(pieces)
    found = read(sql.encode("latin-1"), backslash_escapes=escapes)
    if found is None:
        return
    bare = _blanked(sql, escapes)
    words = bare.upper().replace("(", " ").replace(")", " ").replace(",", " ").replace(";", " ").split()
    assert ";" not in bare.rstrip("; \n")
    assert "/*!" not in bare and "@a" not in bare and "SLEEP" not in words
    # A bare SELECT begins the statement, or is not there.
    assert "SELECT" not in words[1:]
    if words and words[0] in ("SELECT", "INSERT", "UPDATE"):
        assert "FROM" not in words


def _blanked(sql: str, escapes: bool) -> str:
    out, place = [], 0
    while place < len(sql):
        start = sql[place]
        if start in "'\"`":
            place += 1
            while place < len(sql):
                if sql[place] == "\\" and escapes and start != "`":
                    place += 2
                elif sql[place] == start:
                    place += 1
                    break
                else:
                    place += 1
            out.append(" ")
        elif sql.startswith("/*", place) and not sql.startswith("/*!", place):
            end = sql.find("*/", place + 2)
            place = len(sql) if end < 0 else end + 2
            out.append(" ")
        elif start == "#" or (sql.startswith("--", place) and (sql[place + 2 : place + 3] or " ") <= " "):
            end = sql.find("\n", place)
            place = len(sql) if end < 0 else end
            out.append(" ")
        else:
            out.append(start)
            place += 1
    return "".join(out)


def test_modes_by_which_sql_is_read_otherwise() -> None:
    assert changes_parsing("STRICT_TRANS_TABLES,ansi_quotes")
    assert not changes_parsing("STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION")
    assert without_parsing_modes("REAL_AS_FLOAT,ANSI_QUOTES,ANSI,NO_BACKSLASH_ESCAPES") == "REAL_AS_FLOAT"
    assert without_parsing_modes("ANSI, STRICT_TRANS_TABLES,'; DROP TABLE t,STRICT�") == "STRICT_TRANS_TABLES"
    assert [switch_value(v) for v in ("ON", "0", "true", "maybe", None)] == [True, False, True, None, None]


def test_an_insert_may_use_the_time_that_it_schedules():
    """So the proxy writes those of Vitess's first layout."""
    for sql in (
        b"INSERT INTO m (id, time_scheduled, time_next) VALUES (1, 5, time_scheduled)",
        b"INSERT INTO m SET id = 1, time_scheduled = 5, time_next = time_scheduled",
    ):
        found = read(sql)
        assert isinstance(found, QueueStatement)
        assert found.act is Act.ENQUEUE
    assert read(b"INSERT INTO m (id, time_next) VALUES (1, time_acked)") is None

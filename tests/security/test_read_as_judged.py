"""An account that is limited to its queues: the database runs what was judged, and reads it as it was judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE
from servers import SERVER, Gate, MariaDb, Sql
from wire_client import BULK_EXECUTE, EXECUTE, INIT_DB, NO_SCHEMA, PREPARE, WireClient, bulk

SECRET = "salary of ann"
USERS: list[dict[str, Any]] = [
    {"name": "root", "password": ""},
    {"name": "shop", "password": "pw", "queues": {"orders": ["enqueue", "settle"]}},
    {
        "name": "two",
        "password": "pw",
        "queues": {"judged.orders": ["enqueue", "settle"], "elsewhere.other": ["enqueue"]},
        "topics": {"judged.events": ["read"]},
    },
    {
        "name": "letters",
        "password": "pw",
        "queues": {"stück": ["enqueue", "receive", "settle"], "größe.q": ["settle"]},
        "topics": {"tür": ["read"]},
    },
]
ALL_CAPABILITIES = (1 << 28) - 2 & ~0x4000820  # without TLS, what packs the connection, and LONG_PASSWORD


@pytest.fixture(scope="module", params=["embedded", "mariadb", "mysql"] if SERVER == "mariadb" else ["mariadb"])
def judging(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gate before each kind of server, with a queue that the account has no right to, and a table."""
    folder: Path = tmp_path_factory.mktemp("judged")
    if request.param == "embedded":
        url, database = f"sqlite:///{folder}/queue.db", "main"
    else:
        server: MariaDb = request.getfixturevalue(request.param)
        url, database = server.fresh_database("judged"), "judged"
    gate = Gate(url, folder, database=database, auth="proxy", users=USERS).start()
    root = Sql(gate.connect())
    for name in ("orders", "payroll"):
        root(f"CREATE QUEUE {name} (payload VARCHAR(100))")
    root(f"INSERT INTO payroll (payload) VALUES ('{SECRET}')")
    root("CREATE TABLE secret (n INT)")
    root("INSERT INTO secret VALUES (987654321)")
    root.close()
    yield gate
    gate.stop()


PINS = (
    "lock_wait_timeout = 1", "sql_safe_updates = 0", "innodb_snapshot_isolation = 0, sql_safe_updates = 0",
    "sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1",
)  # fmt: skip
HINTS = (
    "SET_VAR(lock_wait_timeout = 1)", "SET_VAR(sql_safe_updates = 0)",
    "SET_VAR(sql_safe_updates = 0) SET_VAR(sql_select_limit = 18446744073709551615) SET_VAR(sql_big_selects = 1)",
)  # fmt: skip
REACHING = (
    "SELECT payload FROM payroll", "SELECT n FROM secret", "DELETE FROM secret", "UPDATE secret SET n = 1",
    "DROP TABLE secret", "CREATE USER evil@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO shop@'%'",
    "INSERT INTO orders (payload) SELECT payload FROM payroll", "SET GLOBAL max_connections = 1999",
)  # fmt: skip
HARMLESS = ("SELECT 1", "UPDATE orders SET time_next = 0 WHERE id = 1", "SET autocommit = 1")
AS_THE_PROXYS_OWN = [
    *(
        f"SET STATEMENT {pins}{gap}FOR{gap}{sql} -- {form} FOR {harmless}"
        for pins in PINS
        for gap in ("\t", "\n", " ", "/**/")
        for form in ("", pins)
        for sql in REACHING[:2]
        for harmless in HARMLESS[:2]
    ),
    *(f"SET STATEMENT {PINS[0]}\tFOR\t{sql} -- FOR SELECT 1" for sql in REACHING),
    *(f"SET STATEMENT {pins} FOR {sql}" for pins in PINS for sql in REACHING),
    *(f"SET STATEMENT {PINS[0]} FOR SET STATEMENT {PINS[0]} FOR {sql}" for sql in REACHING[:2]),
    *(
        sql.replace(" ", f" /*+ {hint}{end} ", 1) + f" -- {rest}"
        for hint in HINTS
        for end in ("*/", " */", "\n*/")
        for sql in REACHING
        for rest in ("*/ 1", f" /*+ {hint} */ 1", "*/ FROM orders")
    ),
    *(f"INSERT/* /*+ {hint} */ INTO orders (payload) SELECT payload FROM payroll -- */ INTO orders (payload)"
      " VALUES (1)" for hint in HINTS),
    *(f"SELECT/* /*+ {hint} */ payload FROM payroll -- */ 1" for hint in HINTS),
    *(f"SELECT' /*+ {hint} */ ', n FROM secret -- '" for hint in HINTS),
    *(f"# /*+ {hint} */ \nSELECT n FROM secret" for hint in HINTS),
    "SET /*+ SET_VAR(lock_wait_timeout = */GLOBAL max_connections = 1999 -- ) */ autocommit = 1",
    "DELETE /*+ SET_VAR(lock_wait_timeout = 1)*/ FROM secret -- */ FROM orders",
]  # fmt: skip


def heard(client: Sql, sql: str) -> str:
    """All rows, or the error."""
    try:
        return str(client.rows(sql))
    except pymysql.err.MySQLError as error:
        return str(error.args)


def heard_prepared(gate: Gate, sql: str) -> str:
    with WireClient(gate.port, user="shop", password="pw", database=gate.database) as wire:
        prepared = wire.command(PREPARE, sql.encode())
        if not prepared.ok:
            return str(prepared.error)
        executed = wire.command(EXECUTE, prepared.statement.to_bytes(4, "little") + b"\0\1\0\0\0")
        return str(executed.payloads)


def check_untouched(gate: Gate) -> None:
    root = Sql(gate.connect())
    assert root.column("SELECT n FROM secret") == [987654321]
    assert root.column("SELECT payload FROM payroll") == [SECRET]
    assert SECRET not in root.column("SELECT payload FROM orders")
    if not gate.embedded:
        assert root.value("SELECT COUNT(*) FROM mysql.user WHERE user IN ('evil', 'shop')") == 0
        assert root.value("SELECT @@global.max_connections") != 1999
    root.close()


def test_what_looks_like_the_proxys_own_settings_is_judged_as_it_is(judging: Gate) -> None:
    client = Sql(judging.connect(user="shop", password="pw"))
    for number, sql in enumerate(AS_THE_PROXYS_OWN):
        answers = [heard(client, sql), *([heard_prepared(judging, sql)] if number % 7 == 0 else [])]
        for answer in answers:
            assert SECRET not in answer and "987654321" not in answer, (sql, answer)
            assert "1142" in answer or "1064" in answer or "1235" in answer or "denied" in answer, (sql, answer)
    assert client.value("SELECT 'of use'") == "of use"
    client.close()
    check_untouched(judging)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO orders (payload) VALUES ((SELECT payload FROM payroll LIMIT 1)) DELAY ?",
        "INSERT INTO orders (payload) SELECT payload FROM payroll DELAY ?",
        "NACK orders WHERE id IN (SELECT n FROM secret) DELAY ?",
        "REJECT orders WHERE id IN (SELECT n FROM secret WHERE n > ?)",
        "RELEASE orders WHERE id IN (SELECT n FROM secret WHERE n > ?)",
        "ACK orders WHERE id IN (SELECT n FROM secret WHERE n > ?)",
    ],
)
def test_what_the_proxy_carries_out_itself_is_judged(judging: Gate, sql: str) -> None:
    """Prepared, by one execution and in bulk."""
    with WireClient(judging.port, user="shop", password="pw", database=judging.database) as wire:
        prepared = wire.command(PREPARE, sql.encode())
        if prepared.ok:
            kind, zero = FIELD_TYPE.LONGLONG, bytes(8)
            one = prepared.statement.to_bytes(4, "little") + b"\0\1\0\0\0" + b"\0\1" + bytes((kind, 0)) + zero
            several = bulk(prepared.statement, [kind], [[zero]] * 2)
            answers = [wire.command(EXECUTE, one), wire.command(BULK_EXECUTE, several)]
        else:
            answers = [prepared]
        assert {answer.errno for answer in answers} <= {1047, 1064, 1142, 1235}, [answer.error for answer in answers]
    check_untouched(judging)


def test_a_verb_has_the_proxys_own_settings(judging: Gate) -> None:
    """sql_safe_updates refuses a condition without a key where the verb's own setting does not come first."""
    client = Sql(judging.connect(user="shop", password="pw"))
    careful = f"SET sql_safe_updates = {int(not judging.embedded)}"  # the embedded backend has no such refusal
    client(careful)
    client("INSERT INTO orders (payload) VALUES ('mine')")
    assert client("ACK orders WHERE time_created > 0") == 1
    with WireClient(judging.port, user="shop", password="pw", database=judging.database) as wire:
        wire.run(careful, "INSERT INTO orders (payload) VALUES ('mine')")
        ack = wire.prepare("ACK orders WHERE time_created > 0")
        assert wire.execute(ack).affected_rows == 1
    client.close()


def hexed(text: str) -> str:
    return text.encode().hex()


def bits(text: str) -> str:
    return "".join(f"{byte:08b}" for byte in text.encode())


def spellings(mode: str) -> list[str]:
    """Values that are this mode, or may be, wherever they are accepted."""
    half = len(mode) // 2
    return [
        f"'{mode}'", f'"{mode}"', f"`{mode}`", mode, mode.lower(), f"'{mode.lower()}'", f"' {mode} '", f"',{mode}'",
        f"'STRICT_TRANS_TABLES, {mode}'", f"x'{hexed(mode)}'", f"X'{hexed(mode)}'", f"0x{hexed(mode)}",
        f"b'{bits(mode)}'", f"0b{bits(mode)}", f"N'{mode}'", f"n'{mode}'", f"_utf8mb4'{mode}'", f"_latin1 '{mode}'",
        f"_binary'{mode}'", f"_utf8mb4 x'{hexed(mode)}'", f"'{mode[:half]}' '{mode[half:]}'",
        f"'{mode[:half]}'\n'{mode[half:]}'", f"'\\{mode}'", f"'{mode[:3]}\\{mode[3:]}'", f"('{mode}')", f"(({mode}))",
        f"CONCAT('{mode}')", f"CONCAT('{mode[:half]}', '{mode[half:]}')", f"CONCAT(@@sql_mode, ',{mode}')",
        f"CONCAT(@@session.sql_mode, ',{mode}')", f"CONCAT(@@sql_mode, '{mode}')",
        f"CONCAT(@@sql_mode, ',', '{mode}')", f"UPPER('{mode}')", f"UNHEX('{hexed(mode)}')",
        f"REPLACE('a', 'a', '{mode}')",
        f"IF(1, '{mode}', '')", f"COALESCE(NULL, '{mode}')", f"(SELECT '{mode}')", "@a", "@@sql_mode",
        "@@global.sql_mode", "DEFAULT", "NULL", "4", "4.0", ".4e1", "4e0", "1048576", "1048580",
        "-1", "0x4", "x'04'", "b'100'", "1 + 3",
        "0 | 4", "TRUE + 3", "'4'", "' 4'", "'4,1048576'", "?",
    ]  # fmt: skip


FORMS = (
    "SET sql_mode = {}", "SET SESSION sql_mode = {}", "SET LOCAL sql_mode := {}", "SET @@sql_mode = {}",
    "SET @@session.sql_mode = {}", "SET @@local.sql_mode := {}", "SET `sql_mode` = {}", "SET SQL_MODE={}",
    "set @@SESSION.sql_MODE = {}", "SET autocommit = 1, sql_mode = {}", "SET NAMES utf8mb4, sql_mode = {}",
    "SET sql_mode = '', @@session.sql_mode = {}", "SET sql_mode = {}, autocommit = 1", "SET/**/sql_mode/**/=/**/{}",
)  # fmt: skip
NO_SETTINGS = (
    "SELECT 'ANSI_QUOTES' INTO @a", "SET @a = 'ANSI_QUOTES'", "SELECT @a := 'ANSI_QUOTES'",
    "SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT 1", "SET PASSWORD = 'x'",
    "SET PASSWORD FOR root = PASSWORD('x')",
    "SET PASSWORD = PASSWORD('x')", "SET `PASSWORD` = 'x'", "SET autocommit = 1, PASSWORD = 'x'", "SET ROLE root",
    "SET DEFAULT ROLE root", "SET GLOBAL sql_mode = ''", "SET @@global.sql_mode = ''", "SET PERSIST sql_mode = ''",
    "SET @@persist.sql_mode = ''", "SET autocommit = 1, GLOBAL sql_mode = ''", "SET SESSION AUTHORIZATION root",
    "SET GLOBAL TRANSACTION READ ONLY", "SET character_set_client = gbk",
    "SET character_set_client = x'67626b'", "SET character_set_client = 28", "SET character_set_client = 'g' 'bk'",
    "SET character_set_client = DEFAULT", "SET character_set_client = CONCAT(@@character_set_client, 'utf8')",
    "SET character_set_client = ?", "SET NAMES gbk", "SET NAMES 'gbk'", "SET NAMES x'67626b'", "SET NAMES DEFAULT",
    "SET CHARACTER SET sjis", "SET CHARSET 'cp932'", "SET CHARACTER SET DEFAULT", "SET character_set_connection = big5",
    "SET collation_connection = gbk_chinese_ci", "SET collation_connection = 28",
    "SET collation_connection = DEFAULT", "SET collation_connection = x'67626b5f62696e'",
    "SET collation_connection = ?", "SET character_set_results = utf16", "SET character_set_results = ucs2",
    "SET character_set_results = x'7574663136'",
    "SET character_set_results = 54", "SET character_set_results = DEFAULT", "SET character_set_results = ?",
    "SET character_set_results = CONCAT('utf', '16')",
    "SET character_set_results = CONCAT(@@character_set_results, '')",
    "SET character_set_filesystem = gbk", "SET character_set_server = gbk", "SET character_set_database = gbk",
    "SET old_mode = ''", "SET init_connect = ''",
)  # fmt: skip


@pytest.mark.parametrize("mode", ["NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "ANSI", "ORACLE"])
def test_a_mode_by_which_sql_is_read_otherwise_is_set_in_no_form(judging: Gate, mode: str) -> None:
    client = Sql(judging.connect(user="shop", password="pw"))
    before = client.value("SELECT @@sql_mode")
    values = spellings(mode)
    each_form = [(form, value) for form in FORMS[:1] for value in values]
    each_form += [
        (form, value) for form in FORMS[1:] for value in (values[0], f"x'{hexed(mode)}'", f"b'{bits(mode)}'", mode)
    ]
    for form, value in each_form:
        sql = form.format(value)
        errno = client.error(sql)[0]
        assert errno in (1142, 1064, 1231, 1235, 1193), (sql, errno)
        assert client.value("SELECT @@sql_mode") == before, sql
        assert client.value("SELECT 'a\\'b'") == "a'b", sql
        assert client.value('SELECT "text"') == "text", sql
    for value in (f"'{mode}'", f"x'{hexed(mode)}'", f"b'{bits(mode)}'", "?"):
        answer = heard_prepared(judging, f"SET sql_mode = {value}")
        assert "denied" in answer, (value, answer)
    for sql in (
        r"SELECT '\', payload FROM payroll -- '",
        r'SELECT 1 "\", n FROM secret -- "',
        r"INSERT INTO orders (payload) VALUES ('\'), ((SELECT payload FROM payroll LIMIT 1)) -- ')",
    ):
        answer = heard(client, sql)
        assert SECRET not in answer and "987654321" not in answer, (sql, answer)
    client.close()
    check_untouched(judging)


@pytest.mark.parametrize("sql", NO_SETTINGS)
def test_settings_that_are_not_the_accounts(judging: Gate, sql: str) -> None:
    client = Sql(judging.connect(user="shop", password="pw"))
    assert client.error(sql)[0] == 1142
    assert "denied" in heard_prepared(judging, sql)
    client.close()


def test_what_drivers_set_is_set(judging: Gate) -> None:
    client = Sql(judging.connect(user="shop", password="pw"))
    for sql in (
        "SET sql_mode = ''",
        "SET sql_mode = 'STRICT_TRANS_TABLES'",
        "set session sql_mode='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
        "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
        "set sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES')",
        "SET SESSION sql_mode = TRADITIONAL",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "SET CHARACTER SET latin1",
        "SET character_set_results = NULL",
        "SET character_set_client = 'UTF8MB4', character_set_results = utf8mb4",
        "SET collation_connection = utf8mb4_general_ci",
        "SET autocommit = 0",
        "SET autocommit = ON, time_zone = '+00:00'",
    ):
        client(sql)
    client.close()


def test_a_name_with_a_database_is_of_that_database(judging: Gate) -> None:
    """A client that asks for CLIENT_NO_SCHEMA has servers leave out the database of `database.table`."""
    if judging.embedded:
        with WireClient(judging.port, user="shop", password="pw", database="main", add=NO_SCHEMA) as wire:
            assert wire.query("INSERT INTO judged.orders (payload) VALUES ('x')").errno == 1142
        return
    root = Sql(judging.connect())
    root("CREATE DATABASE IF NOT EXISTS elsewhere")
    root("CREATE QUEUE elsewhere.orders (payload VARCHAR(50))")
    for database in ("judged", "elsewhere"):
        root(f"CREATE TOPIC {database}.events (body VARCHAR(50))")
    root("INSERT INTO elsewhere.orders (payload) VALUES ('invoice')")
    root(f"INSERT INTO elsewhere.events (body) VALUES ('{SECRET}')")
    for add in (NO_SCHEMA, ALL_CAPABILITIES):
        with WireClient(judging.port, user="two", password="pw", database="elsewhere", add=add) as wire:
            wire.flags &= wire.offered  # as the server takes them
            wire.run("INSERT INTO judged.orders (payload) VALUES ('mine')", "DELETE FROM judged.orders WHERE id = 1")
            prepared = wire.prepare("INSERT INTO judged.orders (payload) VALUES ('mine')")
            assert wire.execute(prepared).affected_rows == 1
            assert SECRET.encode() not in b"".join(wire.query("SELECT body FROM judged.events").payloads)
            assert not wire.offered & NO_SCHEMA
    assert root.column("SELECT payload FROM elsewhere.orders") == ["invoice"]
    assert "mine" in root.column("SELECT payload FROM judged.orders")
    root("DROP DATABASE elsewhere")
    root("DROP TOPIC events")
    root.close()


@pytest.fixture
def twins(judging: Gate) -> Iterator[Sql]:
    """Names in UTF-8 that are other names in latin1; and the tables of these."""
    root = Sql(judging.connect(charset="utf8mb4"))
    if "MariaDB" not in str(root.value("SELECT VERSION()")) or SERVER != "mariadb":
        pytest.skip("MariaDB alone")
    root("CREATE QUEUE `stück` (body VARCHAR(10), `größe` INT)")
    root("CREATE QUEUE `stÃ¼ck` (body VARCHAR(10))")
    root("CREATE TOPIC `tür` (body VARCHAR(10), `größe` INT)")
    root("CREATE TABLE `tÃ¼r` (id INT, body VARCHAR(10))")
    root("INSERT INTO `stück` (body) VALUES ('mine')")
    root("INSERT INTO `stÃ¼ck` (body) VALUES ('others')")
    root("INSERT INTO `tür` (body) VALUES ('mine')")
    root("INSERT INTO `tÃ¼r` VALUES (1, 'secret')")
    yield root
    root("DROP TABLE `tÃ¼r`")
    root("DROP TOPIC `tür`")
    for name in ("stück", "stÃ¼ck"):
        root(f"DROP QUEUE `{name}`")
    root.close()


BY_SET = ["", "SET NAMES latin1", "SET @@character_set_client = latin1", "SET NAMES latin1, time_zone = '+00:00'"]


@pytest.mark.parametrize("change", BY_SET)
def test_names_are_read_in_the_character_set_of_the_client(judging: Gate, twins: Sql, change: str) -> None:
    login = "utf8mb4" if change else "latin1"
    client = judging.connect(user="letters", password="pw", charset=login)
    wire = client.cursor()
    if change:
        wire.execute(change)
        wire.execute("SET character_set_results = utf8mb4")
    statements = [
        "INSERT INTO `stück` (body) VALUES ('x')",
        "DELETE FROM `stück` WHERE id = 1",
        "UPDATE `stück` SET time_next = 0 WHERE `größe` = 1",
        "SELECT body FROM `tür` WHERE `größe` IS NULL",
    ]
    for text in statements:
        with pytest.raises(pymysql.err.MySQLError) as refused:
            wire.execute(text.encode())  # type: ignore[arg-type]
        assert refused.value.args[0] in (1054, 1142), text
    assert twins.column("SELECT body FROM `stÃ¼ck`") == ["others"]
    assert [wire.execute(text.encode("latin1")) for text in statements] == [1, 1, 0, 1]  # type: ignore[arg-type]
    assert twins.column("SELECT body FROM `stück`") == ["x"]
    client.close()


@pytest.mark.parametrize("change", BY_SET)
def test_names_in_prepared_statements_are_read_so_too(judging: Gate, twins: Sql, change: str) -> None:
    if not change:
        pytest.skip("it logs in with UTF-8")
    with WireClient(judging.port, user="letters", password="pw", database="judged") as client:
        client.run(change)
        assert client.command(PREPARE, "INSERT INTO `stück` (body) VALUES (?)".encode()).errno == 1142
        assert client.command(PREPARE, "INSERT INTO `stück` (body) VALUES (?)".encode("latin1")).ok


@pytest.mark.parametrize("change", BY_SET)
def test_a_database_is_named_in_the_character_set_of_the_client(judging: Gate, twins: Sql, change: str) -> None:
    login = "utf8mb4" if change else "latin1"
    client = judging.connect(user="letters", password="pw", charset=login)
    if change:
        client.query(change)
    for encoding, errno in (("utf-8", 1142), ("latin1", 1049)):  # no right, and no such database
        with pytest.raises(pymysql.err.MySQLError) as refused:
            client._execute_command(INIT_DB, "größe".encode(encoding))
            client._read_ok_packet()
        assert refused.value.args[0] == errno
    client.close()

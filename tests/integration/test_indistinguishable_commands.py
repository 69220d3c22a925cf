"""Every command of the protocol, and what it leaves in the session: the same directly and through the proxy."""

from __future__ import annotations

import struct

import pytest
from same import KINDS, Play, Seen, asked, number, parameters, prepared, scenario
from servers import SERVER, MariaDb, Sql, numbers
from wire_client import (
    CHANGE_USER,
    CLOSE,
    EXECUTE,
    FETCH,
    FIELD_LIST,
    INIT_DB,
    LOCAL_FILES,
    LONG_DATA,
    MULTI_STATEMENTS,
    PING,
    PREPARE,
    QUERY,
    RESET,
    RESET_CONNECTION,
    SET_OPTION,
    STATISTICS,
    Answer,
    WireClient,
    frame,
    native,
    string,
)

DEBUG, REFRESH, PROCESS_INFO, PROCESS_KILL, SLEEP = 0x0D, 0x07, 0x0A, 0x0C, 0x00
LONGLONG, DOUBLE, NEWDECIMAL, BLOB, VAR_STRING, DATETIME, TIME, NULL = 8, 5, 246, 252, 253, 12, 11, 6


# --- prepared statements


@KINDS
def test_parameters_of_every_type(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        one, first = prepared(client, "SELECT ?, ?, ?, ?, ?, ?, ?, ?, HEX(?)")
        bound = parameters(
            (LONGLONG, number(-5)),
            (DOUBLE, struct.pack("<d", 1.5)),
            (NEWDECIMAL, string(b"1234567890.12345")),
            (VAR_STRING, string("äöü€😀".encode())),
            (DATETIME, b"\x0b" + struct.pack("<HBBBBBI", 2024, 2, 29, 23, 59, 59, 999999)),
            (TIME, b"\x0c" + struct.pack("<BIBBBI", 1, 30, 1, 2, 3, 4)),
            (NULL, None),
            (BLOB, b"\xfc" + struct.pack("<H", 300) + b"\x00\xff" * 150),
            (BLOB, string(b"\x00'\\\"")),
        )
        again = b"\x40\x00" + b"\x00" + bound[2 + 1 + 18 :]  # the types of before
        seen = [first, ("types", client.execute(one, bound)), ("again", client.execute(one, again))]
        seen += [("too short", client.execute(one, bound[:-30])), ("none", client.execute(one))]
        return [*seen, ("no such", client.execute(4711))]

    play(scenario(work), drop=drop)


@pytest.mark.skipif(SERVER == "mysql", reason="this suite's client reads the cursors of MariaDB only")
@KINDS
def test_cursors(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        one, first = prepared(client, f"SELECT seq, REPEAT('x', seq) FROM {numbers(5)} WHERE seq >= ?")
        bound = parameters((LONGLONG, number(2)))
        seen = [first]
        for flags in (1, 2, 4):
            seen.append((f"open {flags}", client.execute(one, bound, flags=flags)))
            seen += [(f"fetch {at}", client.command(FETCH, struct.pack("<II", one, 3))) for at in range(3)]
        seen += [("open", client.execute(one, bound, flags=1)), *asked(client, "SELECT 'in between'")]
        seen += [("reset", client.command(RESET, struct.pack("<I", one)))]
        seen += [("fetch", client.command(FETCH, struct.pack("<II", one, 3)))]
        seen += [("open", client.execute(one, bound, flags=1)), ("executed", client.execute(one, bound))]
        seen += [
            ("open", client.execute(one, bound, flags=1)),
            ("closed", client.command(CLOSE, struct.pack("<I", one))),
        ]
        seen += [("fetch", client.command(FETCH, struct.pack("<II", one, 3)))]
        failing, prepared_it = prepared(
            client, "SELECT (SELECT seq FROM seq_1_to_2 WHERE seq <= t.seq) FROM seq_1_to_3 t"
        )
        seen += [prepared_it, ("failing", client.execute(failing, flags=1))]
        seen += [("fetch failing", client.command(FETCH, struct.pack("<II", failing, 1)))]
        insert, prepared_it = prepared(client, "SET @x = 1")
        return [*seen, prepared_it, ("no rows", client.execute(insert, flags=1))]

    play(scenario(work), drop=drop)


@KINDS
def test_long_data(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        one, first = prepared(client, "SELECT LENGTH(?), ?")
        for _ in range(3):
            client.command(LONG_DATA, struct.pack("<IH", one, 0) + b"x" * 100_000)
        client.command(LONG_DATA, struct.pack("<IH", one, 1) + b"short")
        bound = b"\x00\x01" + struct.pack("<BBBB", BLOB, 0, BLOB, 0)
        seen = [first, ("executed", client.execute(one, bound))]
        client.command(LONG_DATA, struct.pack("<IH", one, 9) + b"no such parameter")
        seen.append(("error comes later", client.execute(one, bound)))
        client.command(LONG_DATA, struct.pack("<IH", 4711, 0) + b"no such statement")
        client.command(LONG_DATA, struct.pack("<IH", one, 0) + b"forgotten")
        seen.append(("reset", client.command(RESET, struct.pack("<I", one))))
        return [*seen, ("executed", client.execute(one, parameters((BLOB, string(b"1")), (BLOB, string(b"2")))))]

    play(scenario(work), drop=drop)


# --- several results


PROCEDURES = (
    "CREATE PROCEDURE several(IN a INT, INOUT b INT, OUT c VARCHAR(9)) BEGIN SELECT a; SET b = b + 1, c = 'out'; "
    "SELECT 1 FROM DUAL WHERE a = 0; INSERT INTO t VALUES (a); SELECT * FROM t; END",
    "CREATE PROCEDURE failing() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no', MYSQL_ERRNO = 5000; "
    "END",
    "CREATE PROCEDURE warning() BEGIN SELECT CAST('x' AS SIGNED); END",
)


@pytest.mark.skipif(SERVER == "mysql", reason="this suite's client reads the cursors of MariaDB only")
@KINDS
def test_procedures(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT)", *PROCEDURES)
        seen = asked(
            client, "SET @b = 1", "CALL several(5, @b, @c)", "SELECT @b, @c", "CALL failing()", "CALL warning()"
        )
        seen += asked(client, "SHOW WARNINGS", "CALL several(1)")
        call, first = prepared(client, "CALL several(?, ?, ?)")
        bound = parameters((LONGLONG, number(1)), (LONGLONG, number(2)), (VAR_STRING, None))
        seen += [
            first,
            ("out parameters", client.execute(call, bound)),
            ("cursor", client.execute(call, bound, flags=1)),
        ]
        for name in ("failing", "warning"):
            call, first = prepared(client, f"CALL {name}()")
            seen += [first, (name, client.execute(call))]
        return seen

    play(scenario(work), drop=drop)


@KINDS
def test_several_statements(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT PRIMARY KEY)", *PROCEDURES[1:])
        return asked(
            client,
            "SELECT 1; SELECT 2, 3; INSERT INTO t VALUES (1), (2); UPDATE t SET a = a + 10; DO 1; SELECT * FROM t",
            "SELECT 1; SELECT * FROM nowhere; SELECT 3",
            "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); SELECT 3",
            "SELECT 1;",
            "SELECT 1;;",
            "SELECT 1; ",
            "SELECT 1; -- end",
            ";SELECT 1",
            "; ;",
            "SELECT ';'; SELECT \";\"; SELECT 1 AS `;`",
            "SELECT 1 /* ; */; SELECT 2 -- ;\n; SELECT 3 # ;",
            "CALL failing(); SELECT 1",
            "CALL warning(); SELECT 1; SHOW WARNINGS",
            "BEGIN; INSERT INTO t VALUES (5); ROLLBACK; SELECT COUNT(*) FROM t",
            "SET autocommit = 0; SELECT 1; COMMIT; SET autocommit = 1",
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END; SELECT 3",
            "CALL p()",
            "DROP PROCEDURE p; CREATE PROCEDURE p() SELECT 1; CALL p()",
            "SELECT SLEEP(0); " * 50,
            "SELECT 1; USE information_schema; SELECT DATABASE(); USE same; SELECT DATABASE()",
            "SELECT '\\'; SELECT 2'; SELECT 3",
            "SELECT 'a\\\\'; SELECT 4",
            "SELECT /*!99999 1; */ 2; SELECT /*! 3 */",
            "/*! SELECT 1; SELECT 2 */",
        )

    play(scenario(work), drop=drop)
    play(scenario(work), drop=drop | MULTI_STATEMENTS)


def test_multi_statements_switched_on_and_off(play: Play) -> None:
    def work(client: WireClient) -> list[Seen]:
        seen = []
        for option in (1, 0, 1, 2):
            seen.append((f"option {option}", client.command(SET_OPTION, struct.pack("<H", option))))
            seen += asked(client, "SELECT 1; SELECT 2")
        return seen

    play(scenario(work))
    play(scenario(work), drop=MULTI_STATEMENTS)


# --- LOAD DATA LOCAL


def loaded(client: WireClient, sql: str, *pieces: bytes) -> list[Seen]:
    """Answers each request for a file with these pieces."""
    client.send(bytes((QUERY,)) + client.attributes + sql.encode())
    seen = []
    while True:
        answer = client.answer(QUERY)
        seen.append((sql, answer))
        if answer.last[:1] != b"\xfb":
            return seen
        seq = answer.packets[-1][0]
        data = b"".join(frame(piece, seq + at) for at, piece in enumerate([*pieces, b""], 1))
        client.socket.sendall(data)


LOAD = "LOAD DATA LOCAL INFILE 'of no importance' INTO TABLE {} FIELDS TERMINATED BY ','"


@KINDS
def test_load_data_local(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(5))")
        load = LOAD.format("t")
        rows = b"".join(b"%d,x\n" % n for n in range(20_000))
        seen = loaded(client, load, rows, b"99999,y\n")
        seen += loaded(client, load)  # the client has no such file
        seen += loaded(client, load, b"1,again\n")  # 1062
        seen += loaded(client, load, b"100000,much too long\nnot a number,z\n") + asked(client, "SHOW WARNINGS")
        seen += loaded(client, LOAD.format("nowhere"), b"1,x\n")
        seen += loaded(client, load + " IGNORE 1 LINES", b"head\n200000,x\n")
        seen += loaded(client, "SELECT 1; " + load + "; SELECT 2", b"300000,x\n")
        seen += loaded(client, load + ";" + load + "; SELECT 3", b"400000,x\n")
        seen += loaded(client, "SELECT 1; " + load + "; SELECT COUNT(*) FROM t")
        return [*seen, *asked(client, "SELECT COUNT(*), MAX(a), SUM(LENGTH(b)) FROM t")]

    seen = play(scenario(work), drop=drop)
    assert any(b"20001" in payload for _, answer in seen for payload in answer.payloads)


def test_load_data_local_that_is_not_allowed(play: Play, mariadb: MariaDb) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT)")
        return loaded(client, LOAD.format("t"), b"1\n") + loaded(client, "SELECT 1; " + LOAD.format("t"), b"1\n")

    play(scenario(work), drop=LOCAL_FILES)
    with mariadb.connect() as connection:
        sql = Sql(connection)
        sql("SET GLOBAL local_infile = OFF")
        try:
            play(scenario(work))
        finally:
            sql("SET GLOBAL local_infile = ON")


# --- the session


TRACKED = (
    "SET session_track_system_variables = '*', session_track_schema = ON, session_track_state_change = ON, "
    "session_track_transaction_info = 'CHARACTERISTICS'"
)


@KINDS
def test_session_tracking(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT) ENGINE=InnoDB", "CREATE DATABASE IF NOT EXISTS same2")
        return [
            *asked(
                client,
                TRACKED,
                "SET NAMES latin1",
                "SET NAMES utf8mb4",
                "SET sql_mode = 'ANSI_QUOTES'",
                "SET sql_mode = DEFAULT",
                "USE same2",
                "USE same",
                "SET @x = 1",
                "CREATE TEMPORARY TABLE tt (a INT)",
                "DROP TEMPORARY TABLE tt",
                "START TRANSACTION READ ONLY",
                "SELECT * FROM t",
                "COMMIT",
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                "BEGIN",
                "INSERT INTO t VALUES (1)",
                "SAVEPOINT s",
                "ROLLBACK TO s",
                "ROLLBACK",
                "PREPARE p FROM 'SELECT 1'",
                "DEALLOCATE PREPARE p",
                "SET autocommit = 0",
                "SET autocommit = 1",
                "SET time_zone = '+01:00'; SET @y = 2; USE same2; SELECT DATABASE(); USE same",
                "SET character_set_results = NULL",
                "SET NAMES utf8mb4",
                "SET timestamp = 1, @z = 3, sql_mode = '', time_zone = DEFAULT",
                "SET @long = REPEAT('x', 1000), sql_mode = 'ANSI_QUOTES,IGNORE_SPACE,NO_ZERO_DATE'",
            ),
            ("init", client.command(INIT_DB, b"same2")),
            ("reset", client.command(RESET_CONNECTION)),
            *asked(client, "DO 1"),
        ]

    play(scenario(work), drop=drop)


LEFT_BEHIND = (
    "SET @x = 5, sql_mode = 'ANSI', time_zone = '+05:00', NAMES latin1",
    "SET @x = 5, sql_mode = 'ANSI', time_zone = '+05:00'",
    "SET NAMES latin1",
    "CREATE TEMPORARY TABLE tt (a INT)",
    "SELECT GET_LOCK('same lock', 0)",
    "PREPARE p FROM 'SELECT 1'",
    "CREATE TABLE t (a INT) ENGINE=InnoDB",
    "BEGIN",
    "INSERT INTO t VALUES (1)",
    "LOCK TABLES t WRITE",
)
LOOKED = (
    "SELECT @x, @@sql_mode, @@time_zone, @@character_set_client, @@autocommit, DATABASE()",
    "SELECT * FROM tt",
    "SELECT IS_FREE_LOCK('same lock')",
    "EXECUTE p",
    "SELECT COUNT(*) FROM t",
    "SHOW WARNINGS",
    "SELECT LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS()",
)


def left_behind(client: WireClient) -> tuple[int, list[Seen]]:
    number, first = prepared(client, "SELECT 'prepared'")
    return number, [*asked(client, *LEFT_BEHIND), first, ("set option", client.command(SET_OPTION, b"\x01\x00"))]


@KINDS
def test_reset_connection(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        number, seen = left_behind(client)
        client.query("USE information_schema")
        seen += [("reset", client.command(RESET_CONNECTION)), ("old statement", client.execute(number))]
        return [*seen, *asked(client, *LOOKED, "SELECT 1; SELECT 2")]

    play(scenario(work), drop=drop)


def change_user(client: WireClient, user: bytes, password: bytes, database: bytes) -> Answer:
    """The answers to both steps: the server asks again, with a fresh nonce."""
    body = (
        user
        + b"\x00"
        + string(native(password, client.nonce))
        + database
        + b"\x00"
        + b"\x2d\x00mysql_native_password\x00"
    )
    client.send(bytes((CHANGE_USER,)) + body)
    seq, payload = client.packet()
    if payload[:1] == b"\xfe":
        nonce = payload.split(b"\x00", 1)[1][:20]
        client.socket.sendall(frame(native(password, nonce), seq + 1))
        return Answer([(seq, payload[:22]), client.packet()])
    return Answer([(seq, payload)])


@KINDS
def test_change_user(play: Play, mariadb: MariaDb, drop: int) -> None:
    with mariadb.connect() as connection:
        sql = Sql(connection)
        sql("DROP USER IF EXISTS same_user@'127.0.0.1'")
        plugin = "WITH mysql_native_password " if SERVER == "mysql" else ""  # MariaDB's own, unless told
        sql(f"CREATE USER same_user@'127.0.0.1' IDENTIFIED {plugin}BY 'secret'")
        sql("GRANT ALL ON same.* TO same_user@'127.0.0.1'")

    def work(client: WireClient) -> list[Seen]:
        number, seen = left_behind(client)
        seen.append(("changed", change_user(client, b"same_user", b"secret", b"same")))
        seen += [("old statement", client.execute(number)), *asked(client, *LOOKED, "SELECT CURRENT_USER()")]
        seen.append(("back", change_user(client, b"root", b"", b"information_schema")))
        return [*seen, *asked(client, "SELECT CURRENT_USER(), DATABASE()")]

    play(scenario(work), drop=drop)
    with mariadb.connect() as connection:
        Sql(connection)("DROP USER same_user@'127.0.0.1'")


def test_default_database(play: Play) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("DROP DATABASE IF EXISTS same2", "CREATE DATABASE same2")
        seen = [("init", client.command(INIT_DB, b"same2")), *asked(client, "SELECT DATABASE()")]
        seen += [("init", client.command(INIT_DB, b"nowhere")), *asked(client, "SELECT DATABASE()")]
        seen += asked(
            client, "USE `same`", "SELECT DATABASE()", "use SAME2 ", "/*!50000 USE same2 */", "SELECT DATABASE()"
        )
        seen += asked(
            client, "EXECUTE IMMEDIATE 'USE same'", "SELECT DATABASE()", "PREPARE p FROM 'USE same2'", "EXECUTE p"
        )
        seen += asked(client, "SELECT DATABASE()", "USE same", "DROP DATABASE same2", "SELECT DATABASE()")
        seen += asked(
            client, "DROP DATABASE same", "SELECT DATABASE()", "CREATE TABLE t (a INT)", "CREATE DATABASE same"
        )
        return [*seen, ("empty", client.command(INIT_DB, b""))]

    play(scenario(work))


# --- character sets, modes, time


CHARSETS = {
    "latin1": "äöü",
    "utf8mb4": "äöü€😀",
    "utf8mb3": "äöü€",
    "gbk": "縗表",
    "sjis": "ソ能表",
    "big5": "功許",
    "cp932": "ソ",
    "binary": "äöü",
}


@pytest.mark.parametrize("charset", CHARSETS)
def test_character_sets(play: Play, charset: str) -> None:
    """In gbk, sjis and the like the second byte of a character may be a backslash's."""
    codec = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "binary": "utf-8", "sjis": "shift_jis"}.get(charset, charset)

    def work(client: WireClient) -> list[Seen]:
        client.run(f"SET NAMES {charset}", "CREATE TABLE t (a VARCHAR(20)) CHARACTER SET utf8mb4")
        text = CHARSETS[charset].encode(codec)
        seen = asked(client, b"SELECT '" + text + b"', HEX('" + text + b"'), @@character_set_client")
        seen += asked(client, b"INSERT INTO t VALUES ('" + text + b"')", "SELECT a, HEX(a) FROM t")
        seen += asked(client, b"SELECT '" + text + b"'; SELECT 2", b"SELECT '" + text + b"' AS `" + text + b"`")
        seen += asked(client, b"SELECT * FROM `" + text + b"`", b"SELECT '" + text[:1] + b"'")
        one = client.command(PREPARE, b"SELECT ?, '" + text + b"'")
        seen += [("bound", client.execute(one.statement, parameters((VAR_STRING, string(text)))))] if one.ok else []
        return seen

    play(scenario(work))


def test_character_set_of_the_login(play: Play) -> None:
    for collation in (8, 33, 28, 13, 1, 63, 45, 224, 192):

        def work(client: WireClient) -> list[Seen]:
            return asked(
                client, "SELECT @@character_set_client, @@collation_connection, '\xe4'", "SELECT 'x' AS `\xe4`"
            )

        play(scenario(work), charset=collation)


_MODES_OF_MARIADB = [] if SERVER == "mysql" else ["ORACLE", "MSSQL"]


@pytest.mark.parametrize(
    "mode",
    ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "ANSI", "HIGH_NOT_PRECEDENCE", *_MODES_OF_MARIADB],
)
def test_sql_modes(play: Play, mode: str) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run(f"SET sql_mode = '{mode}'", "CREATE TABLE t (a VARCHAR(20))")
        return asked(
            client,
            'SELECT "a" FROM t',
            "SELECT 'x' || 'y', '\\n', LENGTH('\\\\')",
            "SELECT '\\'; SELECT 2; -- '",
            "SELECT 'a\\\\'; SELECT 3",
            'INSERT INTO "t" ("a") VALUES (\'x\')',
            "INSERT INTO t VALUES ('y')",
            "SELECT * FROM t",
            "SELECT NOT 1 BETWEEN -5 AND 5",
            "BEGIN SELECT 1; END",
            "CREATE PROCEDURE p AS BEGIN SELECT 1; SELECT 2; END",
            "CALL p",
            "SET sql_mode = DEFAULT",
            "SELECT '\\'; SELECT 2'",
        )

    play(scenario(work))


# --- transactions


def test_transactions_and_savepoints(play: Play) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT PRIMARY KEY) ENGINE=InnoDB", "CREATE TABLE my (a INT) ENGINE=MyISAM")
        return asked(
            client,
            "BEGIN",
            "INSERT INTO t VALUES (1)",
            "SAVEPOINT a",
            "INSERT INTO t VALUES (2)",
            "SAVEPOINT b",
            "ROLLBACK TO a",
            "SELECT * FROM t",
            "RELEASE SAVEPOINT b",
            "INSERT INTO my VALUES (1)",
            "ROLLBACK",
            "SHOW WARNINGS",
            "SET autocommit = 0",
            "INSERT INTO t VALUES (3)",
            "CREATE TABLE t2 (a INT)",
            "ROLLBACK",
            "SELECT * FROM t",
            "COMMIT AND CHAIN",
            "INSERT INTO t VALUES (3)",
            "COMMIT AND RELEASE",
        )

    def work_of(client: WireClient) -> list[Seen]:
        return work(client)

    play(work_of)


def test_xa(play: Play) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT) ENGINE=InnoDB")
        return asked(
            client,
            "XA START 'same x'",
            "INSERT INTO t VALUES (1)",
            "COMMIT",
            "SELECT * FROM t",
            "XA END 'same x'",
            "INSERT INTO t VALUES (2)",
            "XA PREPARE 'same x'",
            "SELECT 1 FROM t",
            "XA RECOVER",
            "XA COMMIT 'same x'",
            "SELECT * FROM t",
            "XA START 'same y'",
            "INSERT INTO t VALUES (3)",
            "XA END 'same y'",
            "XA COMMIT 'same y' ONE PHASE",
            "XA BEGIN 'same z'",
            "INSERT INTO t VALUES (4)",
            "XA END 'same z'",
            "XA ROLLBACK 'same z'",
            "SELECT * FROM t",
            "XA COMMIT 'nothing'",
        )

    play(scenario(work))


# --- the other commands


@KINDS
def test_other_commands(play: Play, drop: int) -> None:
    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT DEFAULT 5, b VARCHAR(20) DEFAULT 'x', c TEXT)")
        seen = [
            ("ping", client.command(PING)),
            ("debug", client.command(DEBUG)),
            ("refresh", client.command(REFRESH, b"\x02")),
        ]
        seen += [
            (repr(body), client.command(FIELD_LIST, body))
            for body in (b"t\x00", b"t\x00%", b"t\x00b%", b"nowhere\x00", b"t\x00z")
        ]
        statistics = client.command(STATISTICS)
        assert statistics.payloads[0].startswith(b"Uptime: ")
        seen += [
            ("ping with a body", client.command(PING, b"body")),
            ("set option", client.command(SET_OPTION, b"\x07\x00")),
        ]
        return [*seen, ("kill", client.command(PROCESS_KILL, struct.pack("<I", 4711471)))]

    play(scenario(work), drop=drop)


def test_commands_sent_ahead(play: Play) -> None:
    """All at once, answered in order; small ones and large ones, with and without an answer."""

    def work(client: WireClient) -> list[Seen]:
        client.run("CREATE TABLE t (a INT)")
        one = client.prepare("SELECT ?")
        commands = [
            bytes((QUERY,)) + client.attributes + b"INSERT INTO t VALUES (1)",
            bytes((LONG_DATA,)) + struct.pack("<IH", one, 0) + b"y" * 70_000,
            bytes((EXECUTE,)) + struct.pack("<IBI", one, 0, 1) + b"\x00\x01" + struct.pack("<BB", BLOB, 0),
            bytes((PING,)),
            bytes((QUERY,)) + client.attributes + b"SELECT '" + b"x" * 100_000 + b"'",
            bytes((QUERY,)) + client.attributes + b"SELECT * FROM nowhere",
            bytes((CLOSE,)) + struct.pack("<I", one),
            bytes((QUERY,)) + client.attributes + b"SELECT 1; SELECT 2",
            bytes((INIT_DB,)) + b"information_schema",
            bytes((QUERY,)) + client.attributes + b"SELECT DATABASE(), SLEEP(0.05)",
        ] * 3
        client.socket.sendall(b"".join(map(frame, commands)))
        return [(f"{at} {command[0]:#04x}", client.answer(command[0])) for at, command in enumerate(commands)]

    play(scenario(work))

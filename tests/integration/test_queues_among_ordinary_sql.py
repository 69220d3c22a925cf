"""Queue statements in sessions that use what ordinary SQL offers: character sets, modes, XA, KILL, another default
database, a session made new. MariaDB only."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial

import pymysql
import pytest
from same import number, parameters
from servers import SERVER, Gate, MariaDb, Sql, Stream, wait_until
from wire_client import (
    CURSOR_EXISTS,
    DEPRECATE_EOF,
    EXECUTE,
    INIT_DB,
    PREPARE,
    QUERY,
    RESET_CONNECTION,
    Hangup,
    WireClient,
)

Connect = Callable[..., WireClient]
ON_MYSQL = SERVER == "mysql"


@pytest.fixture
def connect(mariadb_gate: Gate) -> Iterator[Connect]:
    clients: list[WireClient] = []

    def make(**options: object) -> WireClient:
        clients.append(WireClient(mariadb_gate.port, **{"database": "main", **options}))  # type: ignore[arg-type]
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def q(mariadb_gate: Gate) -> Iterator[str]:
    client = Sql(mariadb_gate.connect())
    client("DROP QUEUE IF EXISTS among")
    client("CREATE QUEUE among (n BIGINT, t VARCHAR(40) CHARACTER SET utf8mb4)")
    yield "among"
    client("DROP QUEUE IF EXISTS among")
    client.close()


# --- character sets and modes


TEXTS = {"latin1": "äöü", "utf8mb4": "äöü€😀", "gbk": "縗表", "sjis": "ソ能表", "cp1251": "привет", "koi8r": "привет"}
CODECS = {"utf8mb4": "utf-8", "sjis": "shift_jis", "koi8r": "koi8-r", "latin1": "cp1252"}


@pytest.mark.parametrize("charset", TEXTS)
def test_text_of_every_character_set(connect: Connect, q: str, charset: str) -> None:
    client = connect()
    text = TEXTS[charset].encode(CODECS.get(charset, charset))
    for change in (f"SET NAMES {charset}", f"SET @x = 1, NAMES {charset}", f"SET character_set_client = {charset}"):
        client.run("SET NAMES utf8mb4", change, f"SET character_set_results = {charset}")
        client.run(f"SET character_set_connection = {charset}")
        assert client.query(b"INSERT INTO among (n, t) VALUES (1, '" + text + b"'), (2, 'x')").affected_rows == 2
        streamed = client.query("SELECT n, t FROM STREAM among LIMIT 1")
        assert streamed.ok, streamed.error
        assert streamed.payloads[-2] == b"\x011" + bytes((len(text),)) + text
        assert client.query(b"ACK among WHERE t = '" + text + b"'").affected_rows == 1
        assert client.value("SELECT COUNT(*) FROM among WHERE state = 'acked'") == b"1"
        client.run(f"DELETE FROM {q}")


def test_a_character_that_only_the_server_has_is_refused(connect: Connect, q: str) -> None:
    """Its second byte is that of a backslash: what is before the end of the string to one would be behind it to the
    other."""
    client = connect()
    client.run("SET NAMES gbk", "INSERT INTO among (n) VALUES (1)")
    assert client.query(b"SELECT '\xa2\x5c'").ok
    for reason in (b"'\xa2\x5c'", b"'\xa2\x5c\x5c' DELAY 40000 -- '"):
        refused = client.query(b"NACK among 1 REASON " + reason)
        assert refused.errno == 1300, refused.error
    client.run(f"DELETE FROM {q}")


@pytest.mark.parametrize(
    "change",
    [
        "SET NAMES latin1",
        "SET character_set_results = latin1",
        "SET @x = 1, character_set_results = latin1",
        "SET CHARACTER SET latin1",
        "SET STATEMENT max_statement_time = 5 FOR SET NAMES latin1",
        "EXECUTE IMMEDIATE 'SET NAMES latin1'",
        "PREPARE p FROM 'SET NAMES latin1'; EXECUTE p",
        "CALL among_latin1()",
        "SELECT 1; SET NAMES latin1; SELECT 2",
    ],
)
def test_a_character_set_that_changes_between_polls(connect: Connect, q: str, change: str) -> None:
    """It is remembered from one poll to the next, until a statement may have changed it."""
    if ON_MYSQL and ("STATEMENT" in change or "IMMEDIATE" in change):
        pytest.skip("only MariaDB has that")
    client = connect()
    client.run("SET NAMES utf8mb4", "DROP PROCEDURE IF EXISTS among_latin1")
    client.run("CREATE PROCEDURE among_latin1() SET NAMES latin1")
    client.run("INSERT INTO among (t) VALUES (X'C3A4'), (X'C3A4'), (X'C3A4')")
    received = [client.query("SELECT t FROM STREAM among LIMIT 1 NOWAIT").payloads[-2] for _ in range(2)]
    client.run(*([change] if change.startswith("SELECT") else change.split("; ")))
    received.append(client.query("SELECT t FROM STREAM among LIMIT 1 NOWAIT").payloads[-2])
    assert received == [b"\x02\xc3\xa4", b"\x02\xc3\xa4", b"\x01\xe4"]


def test_a_role_that_is_given_up_between_polls(mariadb: MariaDb, mariadb_gate: Gate, q: str) -> None:
    root = Sql(mariadb.connect(database=mariadb_gate.database))
    for sql in (
        "DROP ROLE IF EXISTS among_receivers",
        "DROP USER IF EXISTS among@'127.0.0.1'",
        "CREATE ROLE among_receivers",
        "CREATE USER among@'127.0.0.1' IDENTIFIED BY 'pw'",
        f"GRANT SELECT, UPDATE ON {mariadb_gate.database}.among TO among_receivers",
        "GRANT among_receivers TO among@'127.0.0.1'",
    ):
        root(sql)
    client = Sql(mariadb_gate.connect(user="among", password="pw", database=None))
    poll = f"SELECT id FROM STREAM {mariadb_gate.database}.among LIMIT 1 NOWAIT"
    assert client.error(poll)[0] in (1044, 1142)
    client("SET ROLE among_receivers")
    assert client.rows(poll) == client.rows(poll) == []
    client("SET ROLE NONE")
    assert client.error(poll)[0] in (1044, 1142)
    client.close()
    root("DROP USER among@'127.0.0.1'")
    root("DROP ROLE among_receivers")
    root.close()


def test_character_set_that_was_set_in_one_breath(connect: Connect, q: str) -> None:
    client = connect()
    assert client.query(
        b"SET NAMES latin1; INSERT INTO among (t) VALUES ('\xe4'); SELECT t FROM STREAM among LIMIT 1"
    ).ok
    assert client.value("SELECT HEX(t) FROM among") == b"C3A4"


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "ANSI", *([] if ON_MYSQL else ["ORACLE"])])
def test_names_in_double_quotes(connect: Connect, q: str, mode: str) -> None:
    client = connect()
    client.run(f"SET sql_mode = '{mode}'")
    assert client.query('INSERT INTO "among" ("n", "t") VALUES (1, \'one\'), (2, \'two\')').affected_rows == 2
    streamed = client.query('SELECT "n" FROM STREAM "among" LIMIT 1')
    assert streamed.ok, streamed.error
    assert streamed.payloads[-2] == b"\x011"
    assert client.query('ACK "among" 2').affected_rows == 1
    assert client.query('UPDATE "among" SET "state" = \'acked\' WHERE "id" = 1').affected_rows == 1
    client.run("SET sql_mode = DEFAULT")
    assert client.query('ACK "among" 2').errno == 1064


def test_backslashes_that_escape_nothing(connect: Connect, q: str) -> None:
    client = connect()
    client.run("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
    answer = client.query("SELECT '\\'; INSERT INTO among (n) VALUES (1); SELECT n FROM STREAM among LIMIT 1")
    assert answer.ok, answer.error
    assert answer.payloads[-2] == b"\x011"


# --- the default database


def test_default_database_however_it_was_changed(mariadb: MariaDb, connect: Connect, q: str) -> None:
    client = connect()
    client.run("CREATE DATABASE IF NOT EXISTS elsewhere")
    changes = {
        "text": lambda: client.query("USE elsewhere").ok,
        "command": lambda: client.command(INIT_DB, b"elsewhere").ok,
        "several": lambda: client.query("SELECT 1; USE elsewhere; SELECT 2").ok,
        "in a comment": lambda: client.query("/*!50000 USE elsewhere */").ok,
    }
    if not ON_MYSQL:  # which prepares no USE
        changes |= prepared_changes(client)
    for name, change in changes.items():
        assert client.query("USE main").ok
        assert client.query("ACK among 1").ok, name
        assert change(), name
        assert client.query("ACK among 1").errno == 1146, name
        assert client.query("ACK main.among 1").ok, name
        assert client.value("SELECT DATABASE()") == b"elsewhere"
    client.run("DROP DATABASE elsewhere")


def prepared_changes(client: WireClient) -> dict[str, Callable[[], bool]]:
    one, blocked = client.prepare("USE elsewhere"), client.prepare("BEGIN NOT ATOMIC EXECUTE IMMEDIATE @e; END")
    client.run("SET @e = 'USE elsewhere'", "CREATE OR REPLACE PROCEDURE main.goes() BEGIN EXECUTE IMMEDIATE @e; END")
    blocks = {
        "a block": "BEGIN NOT ATOMIC EXECUTE IMMEDIATE 'USE elsewhere'; END",
        "among several": "SELECT 1; IF 1 THEN EXECUTE IMMEDIATE 'USE elsewhere'; END IF",
        "with settings": "SET STATEMENT max_statement_time = 9 FOR IF 1 THEN EXECUTE IMMEDIATE @e; END IF",
        "CASE": "CASE 1 WHEN 1 THEN EXECUTE IMMEDIATE @e; END CASE",
        "WHILE": "WHILE DATABASE() = 'main' DO EXECUTE IMMEDIATE @e; END WHILE",
        "REPEAT": "REPEAT EXECUTE IMMEDIATE @e; UNTIL 1 END REPEAT",
        "FOR": "FOR i IN 1..1 DO EXECUTE IMMEDIATE @e; END FOR",
        "a procedure": "CALL main.goes()",
        "two strings": "EXECUTE IMMEDIATE 'US' 'E elsewhere'",
        "an escape": "EXECUTE IMMEDIATE 'U\\SE elsewhere'",
        "a block in a string": "EXECUTE IMMEDIATE 'BEGIN NOT ATOMIC EXECUTE IMMEDIATE @e; END'",
    }
    return {
        **{name: partial(lambda text: client.query(text).ok, text) for name, text in blocks.items()},
        "prepared block": lambda: client.execute(blocked).ok,
        "a block that fails": lambda: (
            client.query("BEGIN NOT ATOMIC EXECUTE IMMEDIATE @e; SIGNAL SQLSTATE '45000'; END").errno == 1644
        ),
        "prepared": lambda: client.execute(one).ok,
        "immediate": lambda: client.query("EXECUTE IMMEDIATE 'USE elsewhere'").ok,
        "from text": lambda: client.query("PREPARE p FROM 'USE elsewhere'").ok and client.query("EXECUTE p").ok,
        "from a variable": lambda: (
            client.query("SET @u = 'USE elsewhere'").ok
            and client.query("PREPARE p FROM @u").ok
            and client.query("EXECUTE p").ok
        ),
    }


@pytest.mark.skipif(ON_MYSQL, reason="MariaDB's own statement")
def test_enqueue_after_a_use_that_nobody_saw(mariadb_gate: Gate, connect: Connect, q: str) -> None:
    client = connect(database="information_schema")
    with Stream(mariadb_gate, f"SELECT n FROM STREAM {q}") as stream:
        client.run("EXECUTE IMMEDIATE 'USE main'", f"INSERT INTO {q} (n) VALUES (1)")
        assert stream.wait(1, 10) == [(1,)]


# --- a session made new


def test_session_made_new_forgets_ours(mariadb_gate: Gate, connect: Connect, q: str) -> None:
    client = connect()
    ours = client.prepare(f"SELECT n FROM STREAM {q} LIMIT 1 NOWAIT")
    theirs = client.prepare(f"INSERT INTO {q} (n) VALUES (1)")
    client.run("SET NAMES latin1", "SET sql_mode = 'ANSI_QUOTES'")
    client.run(f"CREATE QUEUE IF NOT EXISTS {q} (n BIGINT)")  # leaves a note
    client.run("BEGIN")
    assert client.execute(theirs).ok
    assert client.command(RESET_CONNECTION).ok
    assert len(client.query("SHOW WARNINGS").payloads) == 5, "three columns, no rows"
    assert client.execute(ours).errno == 1243 and client.execute(theirs).errno == 1243
    assert client.value(f"SELECT COUNT(*) FROM {q}") == b"0", "rolled back"
    assert client.query(f'ACK "{q}" 1').errno == 1064
    with Stream(mariadb_gate, f"SELECT n FROM STREAM {q}") as stream:
        client.run(f"INSERT INTO {q} (n) VALUES (2)")
        assert stream.wait(1, 10) == [(2,)]


# --- XA


def test_xa_messages_are_delivered_when_they_are_committed(mariadb_gate: Gate, connect: Connect, q: str) -> None:
    one, other = connect(), connect()
    with Stream(mariadb_gate, f"SELECT n FROM STREAM {q}") as stream:
        one.run("XA START 'a'", f"INSERT INTO {q} (n) VALUES (1)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'")
        assert stream.wait(1, 10) == [(1,)]
        one.run("XA START 'b'", f"INSERT INTO {q} (n) VALUES (2)", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
        assert len(stream.wait(2, 10)) == 2
        # Prepared by a session that is gone, committed by another one.
        one.run("XA START 'c'", f"INSERT INTO {q} (n) VALUES (3)", "XA END 'c'", "XA PREPARE 'c'")
        one.close()
        wait_until(lambda: other.query("XA COMMIT 'c'").ok, what="the session to be gone")
        assert len(stream.wait(3, 10)) == 3
        other.run("XA START 'd'", f"INSERT INTO {q} (n) VALUES (4)", "XA END 'd'", "XA PREPARE 'd'", "XA ROLLBACK 'd'")
        other.run(f"INSERT INTO {q} (n) VALUES (5)")
        assert stream.wait(4, 10)[3] == (5,)


def test_xa_acks_hold_when_they_are_committed(mariadb_gate: Gate, connect: Connect, q: str) -> None:
    client = connect()
    client.run(
        f"DROP QUEUE {q}", f"CREATE QUEUE {q} (n BIGINT) WITH (ack_wait = '2s')", f"INSERT INTO {q} (n) VALUES (1), (2)"
    )
    with Stream(mariadb_gate, f"SELECT id, n, epoch FROM STREAM {q}") as stream:
        (first, *_), (second, *_) = stream.wait(2, 10)
        client.run("XA START 'e'", f"ACK {q} {first}", "XA END 'e'", "XA PREPARE 'e'", "XA COMMIT 'e'")
        client.run("XA START 'f'", f"ACK {q} {second}", "XA END 'f'", "XA PREPARE 'f'", "XA ROLLBACK 'f'")
        again = stream.wait(3, 15)[2]
        assert (again[0], again[2]) == (second, 2), "the ack that was rolled back; the other one holds"


# --- KILL


@pytest.mark.parametrize("how", ["this proxy"])
@pytest.mark.parametrize("statement", ["KILL {}", "KILL CONNECTION {}" if ON_MYSQL else "KILL HARD CONNECTION {}"])
def test_kill_ends_a_stream(
    mariadb: MariaDb, mariadb_gate: Gate, new_gate_on: Callable[..., Gate], q: str, how: str, statement: str
) -> None:
    """MariaDB says so to the line of the stream, which is at rest."""
    port = {"directly": mariadb.port, "this proxy": mariadb_gate.port}.get(how, 0)
    port = port or new_gate_on(mariadb, database="main").port
    with Stream(mariadb_gate, f"SELECT n FROM STREAM {q}") as stream, WireClient(port) as killer:
        killer.run(f"INSERT INTO main.{q} (n) VALUES (1)")
        stream.wait(1, 40 if how == "directly" else 10)
        killer.run(statement.format(stream.id))
        error = stream.wait_end(20)
        assert isinstance(error, pymysql.err.OperationalError) and error.args[0] in (1317, 2013), error
    with Stream(mariadb_gate, f"SELECT n, epoch FROM STREAM {q}") as other:
        assert other.wait(1, 10) == [(1, 2)], "given back at once, not after ack_wait"


def test_kill_of_a_client_at_rest_and_of_a_statement(mariadb: MariaDb, connect: Connect) -> None:
    resting, busy, other = connect(), connect(), connect()
    busy.send(bytes((QUERY,)) + busy.attributes + b"SELECT SLEEP(30)")
    other.run(f"KILL {resting.connection_id}")
    running = (
        f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {busy.connection_id} AND info LIKE '%SLEEP%'"
    )
    wait_until(lambda: other.value(running) == b"1", what="the statement to run")
    other.run(f"KILL QUERY {busy.connection_id}")
    ended = busy.answer(QUERY)
    assert (ended.ok and ended.payloads[-2] == b"\x011") if ON_MYSQL else ended.errno == 1317  # SLEEP returns 1 there
    assert busy.value("SELECT 'in step'") == b"in step"
    with pytest.raises(Hangup):
        resting.packet()
    assert other.query(f"KILL {other.connection_id}").errno == (1317 if ON_MYSQL else 1927)


def test_kill_that_was_prepared(mariadb_gate: Gate, connect: Connect, q: str) -> None:
    client = connect()
    with Stream(mariadb_gate, f"SELECT n FROM STREAM {q}") as stream:
        one = client.prepare(f"KILL QUERY {stream.id}")
        assert client.execute(one).ok
        error = stream.wait_end(10)
        assert isinstance(error, pymysql.err.OperationalError) and error.args[0] == 1317


def test_process_list_names_our_clients(mariadb_gate: Gate, mariadb: MariaDb, connect: Connect, q: str) -> None:
    client = connect()
    with Stream(mariadb_gate, f"SELECT n FROM STREAM {q}") as stream:
        for how in (
            lambda: client.query("SHOW PROCESSLIST"),
            lambda: client.execute(client.prepare("SHOW PROCESSLIST")),
        ):
            rows = b"".join(how().payloads)
            assert b"Streaming messages of main.among" in rows
            assert b"127.0.0.1:%d" % client.socket.getsockname()[1] in rows
        reader = Sql(mariadb_gate.connect())
        [listed] = [row for row in reader.rows("SHOW PROCESSLIST") if row[0] == stream.id]
        assert listed[1] == "root" and listed[3] == "main"
        reader.close()


# --- prepared statements of ours


def test_prepared_stream_describes_itself_like_any_statement(connect: Connect, q: str) -> None:
    client = connect()
    prepared = client.command(PREPARE, f"SELECT n, t FROM STREAM {q} LIMIT ? WAIT ?".encode())
    assert prepared.ok
    assert struct.unpack("<HH", prepared.payloads[0][5:9]) == (2, 2)
    client.run(f"INSERT INTO {q} (n, t) VALUES (1, 'x')")
    given = parameters((8, number(1)), (8, number(5)))
    executed = client.command(EXECUTE, struct.pack("<IBI", prepared.statement, 0, 1) + given)
    assert executed.payloads[-2] == b"\x00\x00" + number(1) + b"\x01x"


def test_a_cursor_of_the_database_is_not_announced_by_our_answers(connect: Connect, q: str) -> None:
    """Whose last answer opened a cursor reads the next one's rows all the same, by packets of either form."""
    for dropped in (0, DEPRECATE_EOF):
        client = connect(drop=dropped)
        client.run(f"INSERT INTO {q} (n) VALUES (1)")
        prepared = client.prepare(f"SELECT n FROM STREAM {q} LIMIT 1")
        opened = client.execute(client.prepare("SELECT 7 UNION SELECT 8"), flags=1)
        assert opened.ok and client._status(opened.last) & CURSOR_EXISTS
        streamed = client.execute(prepared)
        assert streamed.payloads[-2] == b"\x00\x00" + number(1)
        assert not client._status(streamed.last) & CURSOR_EXISTS

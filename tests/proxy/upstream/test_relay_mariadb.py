"""The relay between real clients and a real MariaDB: what a client sees directly it must see through us.

The database is that of QUEUEGATE_TEST_MARIADB (mysql://root@host:port/), or a private one. Every test runs on both
event loops, and over the fast path as well as through tasks.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mysql.connector
import pymysql
import pytest
from login_clients import RawClient
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor
from relay_server import RelayServer
from servers import find_binary, wait_until
from wire_peers import LOOPS

from mysql_wire.flags import DEPRECATE_EOF, LONG_PASSWORD

DATABASE = "wire"
BIG_BYTES = 20 << 20  # more than one physical packet can carry; twice that in PyMySQL's hexadecimal literals
PORT_VARIABLE = "QUEUEGATE_TEST_MARIADB"


@pytest.fixture(scope="module")
def backend_port(request: pytest.FixtureRequest) -> Iterator[int]:
    url = os.environ.get(PORT_VARIABLE)
    port = urlsplit(url).port if url else request.getfixturevalue("mariadb").port
    assert port is not None
    with pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT @@global.max_allowed_packet")
        [[packet_bytes]] = cursor.fetchall()
        cursor.execute("SET GLOBAL max_allowed_packet = %s", (max(packet_bytes, 3 * BIG_BYTES),))
        cursor.execute(f"CREATE OR REPLACE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        for name in ("wire_a", "wire_b"):
            cursor.execute(f"CREATE OR REPLACE USER {name}@'127.0.0.1' IDENTIFIED BY %s", (f"secret of {name}",))
            cursor.execute(f"GRANT ALL ON {DATABASE}.* TO {name}@'127.0.0.1'")
        yield port
        cursor.execute(f"DROP DATABASE {DATABASE}")
        cursor.execute("DROP USER wire_a@'127.0.0.1', wire_b@'127.0.0.1'")
        cursor.execute("SET GLOBAL max_allowed_packet = %s", (packet_bytes,))


@pytest.fixture(scope="module", params=[(loop, fast) for loop in LOOPS for fast in (True, False)], ids=str)
def relay(backend_port: int, request: pytest.FixtureRequest) -> Iterator[RelayServer]:
    loop, fast = request.param
    with RelayServer(backend_port, loop=loop, fast=fast) as running:
        yield running


def connect(port: int, **options: Any) -> Any:
    given = {"host": "127.0.0.1", "port": port, "user": "root", "database": DATABASE, "autocommit": True, **options}
    return pymysql.connect(**given)


@pytest.fixture
def client(relay: RelayServer) -> Iterator[Any]:
    with connect(relay.port) as connection:
        yield connection


@pytest.fixture
def table(backend_port: int) -> Iterator[str]:
    with connect(backend_port) as direct:
        direct.cursor().execute("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)")
        yield "t"
        direct.cursor().execute("DROP TABLE t")


# --- text


QUERIES = [
    "SELECT 1, 'ä€', NULL, 1.5, NOW(6) > 0, CAST('2024-02-29' AS DATE), x'00ff'",
    "SELECT * FROM (SELECT 1 AS a) t WHERE a = 2",
    "SHOW VARIABLES LIKE 'character%'",
    "SHOW TABLES FROM mysql",
    "SELECT REPEAT('x', 251), REPEAT('y', 65536), REPEAT('z', 70000)",
    "SELECT seq, REPEAT('x', seq) FROM seq_1_to_600",
    "SELECT 'x' FROM seq_1_to_1000",
    "SET @x = 5",
    "DO SLEEP(0)",
]


def answers(connection: Any, sql: str) -> Any:
    cursor = connection.cursor()
    affected = cursor.execute(sql)
    return affected, cursor.description, cursor.fetchall(), cursor.lastrowid


@pytest.mark.parametrize("sql", QUERIES)
def test_query_as_if_direct(relay: RelayServer, client: Any, backend_port: int, sql: str) -> None:
    with connect(backend_port) as direct:
        assert answers(client, sql) == answers(direct, sql)


def test_errors_as_if_direct(client: Any, backend_port: int) -> None:
    with connect(backend_port) as direct:
        for sql in (
            "SELEC 1",
            "SELECT * FROM nowhere",
            "SELECT IF(seq = 4, (SELECT 1 UNION SELECT 2), seq) FROM seq_1_to_5",
        ):
            seen = []
            for connection in (direct, client):
                with pytest.raises(pymysql.Error) as caught:
                    answers(connection, sql)
                seen.append(caught.value.args)
            assert seen[0] == seen[1]
    assert answers(client, "SELECT 1")[2] == ((1,),)


def test_affected_rows_and_insert_id(client: Any, table: str) -> None:
    cursor = client.cursor()
    assert cursor.execute("INSERT INTO t (v) VALUES ('a'), ('b'), ('c')") == 3
    assert cursor.lastrowid == 1
    assert cursor.execute("UPDATE t SET v = 'x' WHERE id > 1") == 2
    assert cursor.execute("DELETE FROM t") == 3


def test_status_follows_transactions(relay: RelayServer, client: Any, table: str) -> None:
    upstream = relay.upstreams[-1]
    client.query("BEGIN")
    wait_until(lambda: upstream.status & 1, what="in transaction")
    client.query("INSERT INTO t (v) VALUES ('x')")
    client.query("ROLLBACK")
    wait_until(lambda: not upstream.status & 1, what="no transaction")
    client.query("SET autocommit = 0")
    wait_until(lambda: not upstream.status & 2, what="autocommit off")


def test_unbuffered_cursor(relay: RelayServer) -> None:
    with connect(relay.port, cursorclass=SSCursor) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT seq, REPEAT('x', 200) FROM seq_1_to_20000")
        assert sum(row[0] for row in cursor) == 20_000 * 20_001 // 2


def test_multi_statement(relay: RelayServer) -> None:
    with connect(relay.port, client_flag=CLIENT.MULTI_STATEMENTS) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1; SELECT seq FROM seq_1_to_3; SET @a = 1; SELECT 'x', 'y'")
        results = [cursor.fetchall()]
        while cursor.nextset():
            results.append(cursor.fetchall())
        assert [list(rows) for rows in results] == [[(1,)], [(1,), (2,), (3,)], [], [("x", "y")]]
        cursor.execute("SELECT 1; SELEC 2; SELECT 3")
        with pytest.raises(pymysql.ProgrammingError):
            cursor.nextset()
        assert answers(connection, "SELECT 4")[2] == ((4,),)


def test_procedure_with_two_results(relay: RelayServer, client: Any) -> None:
    cursor = client.cursor()
    cursor.execute("CREATE OR REPLACE PROCEDURE two() BEGIN SELECT 1, 2; SELECT seq FROM seq_1_to_300; END")
    cursor.callproc("two")
    assert cursor.fetchall() == ((1, 2),)
    assert cursor.nextset() and len(cursor.fetchall()) == 300
    assert cursor.nextset() and not cursor.nextset()  # the procedure's own OK


def test_statements_sent_one_by_one_look_like_one_command(relay: RelayServer) -> None:
    with connect(relay.port, client_flag=CLIENT.MULTI_STATEMENTS) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1 /*next*/ SET @a = 1 /*next*/ SELECT seq FROM seq_1_to_700 /*next*/ SELECT 'end'")
        results = [cursor.fetchall()]
        while cursor.nextset():
            results.append(cursor.fetchall())
        assert [len(rows) for rows in results] == [1, 0, 700, 1]
        assert answers(connection, "SELECT 5")[2] == ((5,),)


def test_held_and_collected_answers(client: Any, backend_port: int) -> None:
    with connect(backend_port) as direct:
        for sql in QUERIES[:7]:
            assert answers(client, f"/*hold*/ {sql}")[2] == answers(direct, sql)[2]
            assert answers(client, f"/*collect*/ {sql}")[2] == answers(direct, sql)[2]
    with pytest.raises(pymysql.ProgrammingError):
        answers(client, "/*collect*/ SELEC")


# --- prepared statements


TYPES = """CREATE OR REPLACE TABLE types (i8 TINYINT, u8 TINYINT UNSIGNED, i16 SMALLINT, i24 MEDIUMINT, i32 INT,
  u32 INT UNSIGNED, i64 BIGINT, u64 BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,5), s VARCHAR(300), b BLOB,
  dt DATETIME(6), da DATE, t TIME(6), y YEAR, bi BIT(12), e ENUM('a','b'), se SET('x','y'), j JSON)"""
ROW = (
    -5, 255, -30000, -8_000_000, -(2**31), 2**32 - 1, -(2**63), 2**64 - 1, 0.5, 0.25, Decimal("123456.78901"),
    "ä€" * 60, b"\x00\xff" * 100, datetime(2024, 2, 29, 1, 2, 3, 4), date(1999, 12, 31),
    timedelta(hours=25, microseconds=5), 2024, 2001, "b", "x,y", '{"k": 1}',
)  # fmt: skip


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_prepared_statements_of_every_type(relay: RelayServer, client: Any, backend_port: int, pure: bool) -> None:
    client.cursor().execute(TYPES)
    values = ROW if pure else (*ROW[:7], 2**63 - 1, *ROW[8:])  # the C client cannot bind more
    with closing(connector(relay.port, use_pure=pure)) as connection:
        cursor = connection.cursor(prepared=True)
        marks = ", ".join(["%s"] * len(ROW))
        cursor.execute(f"INSERT INTO types VALUES ({marks})", values)
        cursor.execute(f"INSERT INTO types VALUES ({marks})", (None,) * len(ROW))
        assert cursor.rowcount == 1
        # Not YEAR, which the pure client misreads on a direct connection as well.
        names = "i8, u8, i16, i24, i32, u32, i64, u64, f, d, n, s, b, dt, da, t"
        cursor.execute(f"SELECT {names} FROM types WHERE i8 = %s", (-5,))
        rows = cursor.fetchall()
        with closing(connector(backend_port, use_pure=pure)) as direct:
            same = direct.cursor(prepared=True)
            same.execute(f"SELECT {names} FROM types WHERE i8 = %s", (-5,))
            assert rows == same.fetchall()
        if pure:  # the C client sends a TIME of more than a day as none
            assert [normal(value) for value in rows[0]] == list(values[:16])
        cursor.execute("SELECT * FROM types WHERE i8 IS NULL AND %s", (1,))
        assert cursor.fetchall() == [(None,) * len(ROW)]


def normal(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def connector(port: int, **options: Any) -> Any:
    given = {"host": "127.0.0.1", "port": port, "user": "wire_a", "password": "secret of wire_a", "database": DATABASE}
    return mysql.connector.connect(**{**given, "ssl_disabled": True, "autocommit": True, **options})


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_prepared_statement_again_and_again(relay: RelayServer, pure: bool) -> None:
    with closing(connector(relay.port, use_pure=pure)) as connection:
        cursor = connection.cursor(prepared=True)
        for number in range(50):
            cursor.execute("SELECT %s + 1, seq FROM seq_1_to_3", (number,))
            assert [row[0] for row in cursor.fetchall()] == [number + 1] * 3
        with pytest.raises(mysql.connector.Error) as caught:
            cursor.execute("SELECT * FROM nowhere WHERE x = %s", (1,))
        assert caught.value.errno == 1146


class Packets:
    """Commands by hand over a PyMySQL connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def command(self, command: int, body: bytes) -> bytes:
        self._connection._execute_command(command, body)
        return self.next()

    def next(self) -> bytes:
        return bytes(self._connection._read_packet()._data)

    def until_eof(self) -> list[bytes]:
        found = []
        while not (packet := self.next()).startswith(b"\xfe"):
            found.append(packet)
        return [*found, packet]


def test_server_side_cursor(client: Any) -> None:
    packets = Packets(client)
    prepared = packets.command(0x16, b"SELECT seq FROM seq_1_to_5")
    statement = prepared[1:5]
    packets.until_eof()
    assert packets.command(0x17, statement + b"\x01\x01\x00\x00\x00") == b"\x01"
    status = struct.unpack("<H", packets.until_eof()[-1][3:5])[0]
    assert status & 0x40, "a cursor is open, and no rows came"
    numbers: list[int] = []
    for _ in range(3):
        client._execute_command(0x1C, statement + struct.pack("<I", 2))
        *rows, end = packets.until_eof()
        numbers += [row[2] for row in rows]
    assert numbers == [1, 2, 3, 4, 5]
    assert struct.unpack("<H", end[3:5])[0] & 0x80, "last row sent"
    client._execute_command(0x19, statement)  # close: no answer
    client._next_seq_id = 0
    assert answers(client, "SELECT 1")[2] == ((1,),)


def test_long_data(client: Any) -> None:
    packets = Packets(client)
    statement = packets.command(0x16, b"SELECT LENGTH(?)")[1:5]
    packets.until_eof()
    packets.until_eof()
    for _ in range(3):
        client._execute_command(0x18, statement + b"\x00\x00" + b"x" * 100_000)
    assert packets.command(0x17, statement + b"\x00\x01\x00\x00\x00\x00\x01\xfc\x00") == b"\x01"
    packets.until_eof()
    row, _ = packets.until_eof()
    assert int.from_bytes(row[2:6], "little") == 300_000


# --- other commands


def test_other_commands(relay: RelayServer, client: Any) -> None:
    packets = Packets(client)
    client.ping(reconnect=False)
    client.select_db("mysql")
    assert answers(client, "SELECT DATABASE()")[2] == (("mysql",),)
    assert b"Uptime" in packets.command(0x09, b"")
    assert packets.command(0x1B, b"\x00\x00").startswith(b"\xfe")
    client._execute_command(0x04, b"user\x00%")
    assert len(packets.until_eof()) > 40
    client.query("SET @kept = 1")
    assert packets.command(0x1F, b"").startswith(b"\x00")  # reset connection, which mysql-mimic only pretends to do
    assert answers(client, "SELECT @kept")[2] == ((None,),)
    assert packets.command(0x0D, b"")[:1] in (b"\x00", b"\xfe")  # debug
    assert answers(client, "SELECT 1")[2] == ((1,),)


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_change_user(relay: RelayServer, pure: bool) -> None:
    connection = connector(relay.port, use_pure=pure)
    connection.cmd_change_user("wire_b", "secret of wire_b", "information_schema")
    cursor = connection.cursor()
    cursor.execute("SELECT CURRENT_USER(), DATABASE()")
    assert cursor.fetchall() == [("wire_b@127.0.0.1", "information_schema")]
    assert (relay.logins[-1].user, relay.logins[-1].database) == ("wire_b", "information_schema")
    with pytest.raises(mysql.connector.Error) as caught:
        connection.cmd_change_user("wire_a", "wrong")
    assert caught.value.errno == 1045
    with pytest.raises(mysql.connector.Error):
        connection.cmd_query("SELECT 1")
    connection.close()


def test_kill_through_the_proxy(relay: RelayServer, client: Any) -> None:
    with connect(relay.port) as victim:
        number = victim.thread_id()
        assert answers(victim, "SELECT CONNECTION_ID()")[2] == ((number,),)
        client.kill(number)
        with pytest.raises(pymysql.Error):
            victim.query("SELECT 1")
            victim.query("SELECT 1")
        victim._force_close()


def test_kill_query_in_mid_answer(relay: RelayServer, client: Any) -> None:
    with connect(relay.port) as victim:
        killer = threading.Timer(0.2, lambda: client.query(f"KILL QUERY {victim.thread_id()}"))
        killer.start()
        with pytest.raises(pymysql.OperationalError) as caught:
            victim.query("SELECT seq, SLEEP(0.05) FROM seq_1_to_400")
        assert caught.value.args[0] == 1317
        killer.join(10)
        assert answers(victim, "SELECT 1")[2] == ((1,),)


# --- size


def test_big_packets_both_ways(relay: RelayServer, table: str) -> None:
    value = bytes(range(256)) * (BIG_BYTES // 256)
    with connect(relay.port) as connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO t (v) VALUES (_binary %s)", (value,))
        cursor.execute("SELECT v, id FROM t")
        assert cursor.fetchall() == ((value, 1),)
        cursor.execute("SELECT v FROM t UNION ALL SELECT v FROM t /*next*/ SELECT 1")
        assert [len(row[0]) for row in cursor.fetchall()] == [BIG_BYTES] * 2
        assert cursor.nextset() and cursor.fetchall() == ((1,),)
    with closing(connector(relay.port, use_pure=False)) as connection:
        cursor = connection.cursor(prepared=True)
        cursor.execute("INSERT INTO t (v) VALUES (%s)", (value,))
        cursor.execute("SELECT LENGTH(v), v FROM t WHERE id = %s", (2,))
        [(size, stored)] = cursor.fetchall()
        assert size == BIG_BYTES and bytes(stored) == value


def test_reader_that_does_not_read_holds_little(relay: RelayServer, backend_port: int) -> None:
    """A result of 400 MB, and a client that reads none of it and goes: the rest stays with the server, and ends."""
    with connect(relay.port) as connection:
        upstream = relay.upstreams[-1]
        connection._execute_command(3, b"SELECT REPEAT('x', 100000) FROM seq_1_to_4000")
        wait_until(lambda: upstream._backend._reading_paused, what="the server's side to be paused")
        transport = upstream._client.transport
        assert transport is not None and transport.get_write_buffer_size() < 2 << 20
        with connect(relay.port) as other:
            assert answers(other, "SELECT 1")[2] == ((1,),)
        number = connection.thread_id()
        connection._force_close()
    with connect(backend_port) as direct:
        gone = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number}"
        wait_until(lambda: answers(direct, gone)[2] == ((0,),), what="the server to give the statement up")


# --- LOAD DATA LOCAL


def test_load_data_local(relay: RelayServer, table: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{n},line {n}\n" for n in range(1, 50_001)))
    load = f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t FIELDS TERMINATED BY ','"
    with connect(relay.port, local_infile=True) as connection:
        assert connection.cursor().execute(load) == 50_000
        assert answers(connection, "SELECT COUNT(*), MAX(id) FROM t")[2] == ((50_000, 50_000),)
        assert connection.cursor().execute("DELETE FROM t") == 50_000
        (tmp_path / "empty").write_text("")
        assert connection.cursor().execute(load.replace("rows.csv", "empty")) == 0
        with pytest.raises(pymysql.Error):
            connection.cursor().execute(load.replace("rows.csv", "missing"))
        assert answers(connection, "SELECT COUNT(*) FROM t")[2] == ((0,),)


def test_load_data_local_of_a_client_that_dies_inserts_nothing(
    relay: RelayServer, table: str, backend_port: int
) -> None:
    with connect(relay.port, local_infile=True) as connection:
        number = connection.thread_id()
        connection._execute_command(3, b"LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ','")
        assert connection._read_packet()._data.startswith(b"\xfb")
        connection.write_packet(b"1,half\n2,ha")
        connection._force_close()
    with connect(backend_port) as direct:
        gone = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number}"
        wait_until(lambda: answers(direct, gone)[2] == ((0,),), what="the server to give the line up")
        assert answers(direct, "SELECT COUNT(*) FROM t")[2] == ((0,),)


# --- logging in


def test_login_tells_who_and_what(relay: RelayServer, backend_port: int) -> None:
    options = {"user": "wire_a", "password": "secret of wire_a", "program_name": "wire test"}
    with connect(relay.port, **options) as connection:
        login = relay.logins[-1]
        assert (login.user, login.database, login.encoding) == ("wire_a", DATABASE, "utf-8")
        assert login.connection_id == connection.thread_id()
        assert login.connect_attrs["program_name"] == "wire test"
        assert "MariaDB" in login.server_version and login.server_version == connection.get_server_info()
        assert not connection.server_capabilities & CLIENT.SSL
        # PyMySQL always sets it; to MariaDB, which does not, it says that its extended capabilities are not known.
        assert login.capabilities & ~connection.server_capabilities == LONG_PASSWORD


def test_wrong_password_is_the_servers_own_error(relay: RelayServer, backend_port: int) -> None:
    seen = []
    for port in (backend_port, relay.port):
        for user in ("wire_a", "wire_nobody"):
            with pytest.raises(pymysql.OperationalError) as caught:
                connect(port, user=user, password="wrong")
            seen.append(caught.value.args)
    assert seen[:2] == seen[2:] and seen[0][0] == 1045


def test_unknown_database_is_the_servers_own_error(relay: RelayServer) -> None:
    with pytest.raises(pymysql.OperationalError) as caught:
        connect(relay.port, database="nowhere")
    assert caught.value.args[0] == 1049


def test_client_that_goes_on_after_a_failed_login_executes_nothing(
    relay: RelayServer, table: str, backend_port: int
) -> None:
    before = len(relay.task_answers) + len(relay.fast_answers)
    connection = connect(relay.port, defer_connect=True, user="wire_a", password="wrong")
    kept: list[socket.socket] = []
    connection._force_close = lambda: kept.append(connection._sock.dup())
    with pytest.raises(pymysql.OperationalError):
        connection.connect()
    [line] = kept
    payload = b"\x03INSERT INTO wire.t (v) VALUES ('x')"
    try:
        for seq in (0, 3, 4):
            line.sendall(len(payload).to_bytes(3, "little") + bytes((seq,)) + payload)
        line.settimeout(10)
        assert line.recv(100) == b""
    except OSError:
        pass  # reset: as closed as can be
    line.close()
    connection._sock.close()
    connection._rfile.close()
    with connect(backend_port) as direct:
        assert answers(direct, "SELECT COUNT(*) FROM t")[2] == ((0,),)
    assert len(relay.task_answers) + len(relay.fast_answers) == before


def uninstall(backend_port: int) -> None:
    with connect(backend_port) as direct:
        direct.cursor().execute("UNINSTALL SONAME 'auth_ed25519'")


def test_ed25519_of_the_server(relay: RelayServer, backend_port: int, request: pytest.FixtureRequest) -> None:
    """A plugin that the proxy has never heard of: a switch, then 64 bytes."""
    program = find_binary("mariadb")
    with connect(backend_port) as direct:
        cursor = direct.cursor()
        try:
            cursor.execute("INSTALL SONAME 'auth_ed25519'")
            request.addfinalizer(lambda: uninstall(backend_port))
        except pymysql.Error as error:
            if error.args[0] != 1968:  # installed already
                pytest.skip("the server lacks the plugin")
        cursor.execute("CREATE OR REPLACE USER wire_ed@'127.0.0.1' IDENTIFIED VIA ed25519 USING PASSWORD('geheim')")
        if program is None:
            pytest.skip("the mariadb client is not installed")
        command = [
            program,
            "--no-defaults",
            "-h127.0.0.1",
            f"-P{relay.port}",
            "-uwire_ed",
            "-N",
            "-eSELECT CURRENT_USER()",
        ]
        done = subprocess.run([*command, "-pgeheim"], capture_output=True, text=True, timeout=20, check=False)
        assert done.stdout == "wire_ed@127.0.0.1\n", done.stderr
        done = subprocess.run([*command, "-pwrong"], capture_output=True, text=True, timeout=20, check=False)
        assert "ERROR 1045 (28000)" in done.stderr
        cursor.execute("DROP USER wire_ed@'127.0.0.1'")


def test_cli_session(relay: RelayServer) -> None:
    program = find_binary("mariadb")
    if program is None:
        pytest.skip("the mariadb client is not installed")
    script = """CREATE OR REPLACE TABLE c (a INT); INSERT INTO c SELECT seq FROM seq_1_to_20000;
        ALTER TABLE c ADD b INT, ALGORITHM=COPY; SELECT COUNT(*) FROM c; \\s\nSELECT 'ä'; DROP TABLE c;"""
    command = [program, "--no-defaults", "-h127.0.0.1", f"-P{relay.port}", "-uroot", "-N", DATABASE]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    assert "20000" in done.stdout and "ä" in done.stdout and "Uptime" in done.stdout


def test_server_side_cursor_of_a_client_without_eof_packets(relay: RelayServer) -> None:
    """With DEPRECATE_EOF the header of a cursor ends with an OK packet that looks like the end of rows."""
    raw = RawClient(relay.port)
    assert raw.login("root", b"", "mysql_native_password").startswith(b"\x00")

    def command(payload: bytes, answers: int) -> list[bytes]:
        raw.send(payload, 0)
        return [raw.receive() for _ in range(answers)]

    assert command(b"\x02" + DATABASE.encode(), 1)[0].startswith(b"\x00")
    statement = command(b"\x16SELECT seq FROM seq_1_to_3", 2)[0][1:5]
    assert relay.logins[-1].capabilities & DEPRECATE_EOF
    count, _, end = command(b"\x17" + statement + b"\x01\x01\x00\x00\x00", 3)
    assert count == b"\x01" and end[0] == 0xFE and end[3] & 0x40
    for expected, last in (([1, 2], False), ([3], True)):
        *rows, end = command(b"\x1c" + statement + b"\x02\x00\x00\x00", len(expected) + 1)
        assert [row[2] for row in rows] == expected
        assert end[0] == 0xFE and bool(end[3] & 0x80) is last
    assert command(b"\x0e", 1)[0].startswith(b"\x00")
    raw.close()

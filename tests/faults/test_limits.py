"""Limits on clients, over real sockets on both backends: how many, how many of one user, failed logins, rest."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import time
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from servers import Gate, Sql, Stream, login_errno, read_available, wait_until
from slowness import scaled

from queuegate_worker import Worker

WRONG = {"user": "app", "password": "wrong"}
RIGHT = {"user": "app", "password": "secret"}
TOO_MANY = b"\x17\x00\x00\x00\xff\x10\x04Too many connections"  # as MariaDB sends it: before a greeting, no SQLSTATE


@pytest.fixture
def new_app_gate(new_gate, request):
    """Makes a gate with an account `app` that has a password."""

    def make(**config) -> Gate:
        gate = new_gate(**config)
        if gate.embedded:
            gate.config["users"] = [{"name": "root", "password": ""}, {"name": "app", "password": "secret"}]
        else:
            with request.getfixturevalue("server_here").connect() as connection, connection.cursor() as cursor:
                cursor.execute("DROP USER IF EXISTS app@'127.0.0.1'")
                cursor.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
                cursor.execute("GRANT ALL ON *.* TO app@'127.0.0.1'")
        return gate.start()

    return make


# --- how many


def test_one_too_many_is_told_as_a_server_tells_it(new_gate):
    gate = new_gate(limits={"max_connections": 2, "unauthenticated_connections": 2}).start()
    clients = [gate.connect(), gate.connect()]
    for _ in range(3):
        with gate.raw() as sock:
            assert read_available(sock) == TOO_MANY
    assert gate.log.count("limits.max_connections") == 1
    clients.pop().close()
    clients.append(wait_until(lambda: entered(gate), what="the place of who went"))
    for client in clients:
        client.close()


def entered(gate: Gate) -> pymysql.Connection | None:
    try:
        return gate.connect()
    except pymysql.err.MySQLError:
        return None


def test_one_too_many_is_told_so_though_the_database_does_not_answer(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.url(), tmp_path, limits={"max_connections": 2, "unauthenticated_connections": 2}).start()
    clients = [Sql(gate.connect()), Sql(gate.connect())]
    assert own_mariadb._process is not None
    os.kill(own_mariadb._process.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        with gate.raw() as sock:
            assert read_available(sock) == TOO_MANY
        assert time.monotonic() - started < scaled(3)
    finally:
        os.kill(own_mariadb._process.pid, signal.SIGCONT)
    for client in clients:
        assert client.value("SELECT 1") == 1
        client.close()
    gate.stop()


def test_the_databases_own_limit_is_told_as_it_tells_it(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.url(), tmp_path, limits={"database_work": 1}).start()
    with closing(Sql(own_mariadb.connect())) as around:
        around("SET GLOBAL max_connections = 10")
    clients = []
    with pytest.raises(pymysql.err.OperationalError) as refused:
        for _ in range(15):
            clients.append(gate.connect())
    assert refused.value.args == (1040, "Too many connections")
    with gate.raw() as sock:
        assert read_available(sock) == TOO_MANY
    for client in clients:
        client.close()
    gate.stop()


def test_a_user_has_so_many_connections_and_no_more(new_app_gate):
    gate = new_app_gate(limits={"max_user_connections": 2})
    clients = [gate.connect(**RIGHT), gate.connect(**RIGHT)]
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect(**RIGHT)
    assert refused.value.args == (1203, "User app already has more than 'max_user_connections' active connections")
    assert login_errno(gate) == 0  # root is another user
    assert login_errno(gate, **WRONG) == 1045  # who does not know the password learns nothing of how many there are
    clients.pop().close()
    wait_until(lambda: login_errno(gate, **RIGHT) == 0, what="the place of who went")
    clients[0].close()


def test_a_change_of_user_counts(new_app_gate):
    import mysql.connector

    gate = new_app_gate(limits={"max_user_connections": 1})

    def connect(**account):
        return mysql.connector.connect(
            host="127.0.0.1", port=gate.port, database=gate.database, use_pure=True, **{"user": "root", **account}
        )

    one = connect()
    one.cmd_change_user("app", "secret", gate.database)
    other = connect()  # root's place is free again
    with pytest.raises(mysql.connector.Error) as refused:
        other.cmd_change_user("app", "secret", gate.database)
    assert refused.value.errno == 1203
    one.close()
    other.close()


USERS = [{"name": "root", "password": "r"}, {"name": "app", "password": "secret"}]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_proxys_own_accounts_before_a_server_are_limited_too(mariadb, tmp_path, workers):
    limits = {"max_user_connections": 2, "login_failures": 5, "idle_timeout": "2s"}
    gate = Gate(mariadb.url(), tmp_path, auth="proxy", users=USERS, limits=limits, workers=workers).start()
    clients = [gate.connect(**RIGHT), gate.connect(**RIGHT)]
    assert login_errno(gate, **RIGHT) == 1203
    assert login_errno(gate, user="root", password="r") == 0
    said = read_available(clients[0]._sock, 6)
    assert struct.unpack("<H", said[5:7]) == (4031,)
    clients.pop(0)._force_close()
    wait_until(lambda: login_errno(gate, **RIGHT) == 0, what="the place of who was disconnected")
    assert [login_errno(gate, **WRONG) for _ in range(5)] == [1045] * 5
    # A worker hears from the other one in its own time, also of the last right login, which sets the count back. Which
    # of them a connection is for is chance: eight refused ones were not all for the same.
    wait_until(lambda: all(login_errno(gate, **WRONG) == 1129 for _ in range(8)), what="the address to be blocked")
    assert login_errno(gate, **RIGHT) == 1129
    for client in clients:
        client._force_close()
    gate.stop()


# --- failed logins


def test_too_many_failed_logins_block_the_address_and_no_other(new_app_gate):
    gate = new_app_gate(limits={"login_failures": 15})
    assert [login_errno(gate, **WRONG) for _ in range(16)] == [1045] * 15 + [1129]
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect(**RIGHT)
    assert refused.value.args[0] == 1129
    assert "127.0.0.1" in refused.value.args[1]
    assert "login_failures" in refused.value.args[1]
    assert login_errno(gate, bind_address="127.0.0.2", **RIGHT) == 0
    wait_until(lambda: login_errno(gate, **RIGHT) == 0, 30, "the block to end: fifteen a minute are one in 4 s")
    assert login_errno(gate, **WRONG) == 1045
    assert gate.log.count("limits.login_failures") == 1


def test_driver_suites_do_not_notice_the_default(new_app_gate):
    gate = new_app_gate()
    assert {login_errno(gate, **WRONG) for _ in range(60)} == {1045}
    assert login_errno(gate, **RIGHT) == 0
    assert {login_errno(gate, **WRONG) for _ in range(60)} == {1045}


def test_failed_changes_of_user_count(new_app_gate):
    import mysql.connector

    gate = new_app_gate(limits={"login_failures": 1})
    connection = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, use_pure=True
    )
    with pytest.raises(mysql.connector.Error) as refused:
        connection.cmd_change_user("app", "wrong", gate.database)
    assert refused.value.errno == 1045
    assert login_errno(gate) == 1129
    connection.close()


# --- rest


def test_a_client_at_rest_is_told_and_disconnected(new_gate):
    gate = new_gate(limits={"idle_timeout": "2s"}).start()
    busy = Sql(gate.connect())
    busy("CREATE QUEUE q (n INT)")
    receiver = Stream(gate, "SELECT n FROM STREAM q")
    started = time.monotonic()
    client = gate.connect()
    said: bytes | None = None
    while time.monotonic() - started < (6 if said else scaled(30)):
        assert busy.value("SELECT 1") == 1
        if said is None and (heard := read_available(client._sock, 0.2)):
            said, told = heard, time.monotonic() - started
    assert said is not None, "it was not disconnected"
    assert struct.unpack("<BBBBBH", said[:7]) == (len(said) - 4, 0, 0, 0, 0xFF, 4031)
    assert said[7:13] == b"#HY000"
    assert b"because of inactivity" in said
    assert told > 1.9
    busy("INSERT INTO q (n) VALUES (1)")
    assert receiver.wait(1) == [(1,)]
    receiver.close()
    busy.close()
    client._force_close()


def test_a_client_in_the_middle_of_a_statement_is_not_at_rest(new_gate):
    gate = new_gate(limits={"idle_timeout": "1s"}).start()
    client = Sql(gate.connect())
    if gate.embedded:
        holder = Sql(gate.connect())
        client("CREATE QUEUE q (n INT)")
        holder.close()
        assert client.rows("SELECT n FROM STREAM q LIMIT 1 WAIT 3") == []
    else:
        assert client.value("SELECT SLEEP(3)") == 0
    assert client.value("SELECT 2") == 2
    client.close()


def test_a_worker_with_a_long_handler_is_not_at_rest(new_gate):
    """Its connection owns the lease of what is being handled, and polls no more as no slot is free."""
    gate = new_gate(limits={"idle_timeout": "1s"}).start()
    if not gate.embedded:
        pytest.skip("the session's wait_timeout is the server's there, which says nothing of the proxy's limit")
    client, begun = Sql(gate.connect()), []
    client("CREATE QUEUE q (n INT)")
    client("INSERT INTO q (n) VALUES (1)")

    def handle(message):
        begun.append(message.epoch)
        until = time.monotonic() + 4
        wait_until(lambda: time.monotonic() > until)

    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    with Worker(address, "q").running(handle):
        wait_until(lambda: client.value("SELECT state FROM q") == "acked")
    assert begun == [1]
    client.close()


def test_never_means_never(new_gate):
    gate = new_gate(limits={"idle_timeout": 0}).start()
    client = Sql(gate.connect())
    time.sleep(3)
    assert client.value("SELECT 1") == 1
    client.close()


def test_the_sessions_wait_timeout_holds_as_on_a_server(gate, mariadb):
    """On MariaDB it is the server's own doing, and what the client sees is the same with the proxy as without."""
    seen = []
    for connect in (gate.connect, mariadb.connect):
        with closing(connect(database=gate.database)) as connection:
            Sql(connection)("SET SESSION wait_timeout = 1")
            assert Sql(connection).value("SELECT @@wait_timeout") == 1
            started = time.monotonic()
            seen.append(read_available(connection._sock, 8))
            assert time.monotonic() - started < scaled(5)
            connection._force_close()
    if gate.embedded:
        assert b"because of inactivity" in seen[0]
    else:
        assert seen[0] == seen[1]


def test_an_interactive_client_has_its_own_timeout(new_gate):
    gate = new_gate(limits={"idle_timeout": "1h"}).start()
    setter = Sql(gate.connect())
    hour = 3600 if gate.embedded else 28800
    assert setter.value("SELECT @@wait_timeout") == hour
    setter("SET SESSION wait_timeout = 50")
    assert Sql(gate.connect()).value("SELECT @@wait_timeout") == hour
    if gate.embedded:
        setter("SET GLOBAL interactive_timeout = 77")
        assert Sql(gate.connect(client_flag=1024)).value("SELECT @@wait_timeout") == 77
        assert Sql(gate.connect()).value("SELECT @@wait_timeout") == 3600
        setter("SET wait_timeout = 0")
        assert setter.value("SELECT @@wait_timeout") == 1
    setter.close()


# --- peers that say nothing


def test_both_lines_are_kept_alive_by_the_kernel(gate):
    """The kernel's own list of sockets: each of ours has its keepalive timer running, with our 15 s to go at most."""
    with closing(gate.connect()) as client:
        assert client._sock is not None
        port = client._sock.getsockname()[1]
        wait_until(lambda: kept_alive(gate, port) == 1, what="the keepalive timer of the client's line")
        if not gate.embedded:
            found = re.search(r":(\d+)/", gate.backend)
            assert found is not None
            # The engine's own connection has the driver's settings, which leave the time to the system.
            wait_until(lambda: kept_alive(gate, int(found[1])) == 1, what="that of the line to the server")


def kept_alive(gate: Gate, port: int) -> int:
    """How many of the gate's sockets with that port at the other end wait for a keepalive within 15 s."""
    ours = inodes(gate)
    rows = [row for row in tcp_sockets() if row["remote"] == port and row["inode"] in ours]
    return sum(row["timer"] == 2 and row["jiffies"] <= 1500 for row in rows)


def tcp_sockets() -> list[dict[str, int]]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [
        {
            "remote": int(row[2].split(":")[1], 16),
            "timer": int(row[5].split(":")[0], 16),
            "jiffies": int(row[5].split(":")[1], 16),
            "inode": int(row[9]),
        }
        for row in rows
    ]


def inodes(gate: Gate) -> set[int]:
    """The sockets that the process has."""
    assert gate.process is not None
    names = []
    for entry in Path(f"/proc/{gate.process.pid}/fd").iterdir():
        try:
            names.append(os.readlink(entry))
        except OSError:
            continue  # closed meanwhile
    return {int(name[8:-1]) for name in names if name.startswith("socket:")}


def test_a_receiver_that_talks_ahead_and_hangs_up_is_noticed(new_gate):
    """It sent more than is read while it receives, so the end of what it sends is not seen by reading."""
    gate = new_gate().start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT) WITH (ack_wait = '1h', max_backoff = '2h')")
    client("INSERT INTO q (n) VALUES (1)")
    receiver = gate.connect()
    receiver._execute_command(3, "SELECT n FROM STREAM q")
    assert receiver._sock is not None
    wait_until(lambda: client.value("SELECT epoch FROM q") == 1, what="the delivery")
    read_available(receiver._sock, 0.5)
    receiver._sock.sendall(b"\x01\x00\x00\x00\x0e" * 80_000)  # 400 kB; at 256 KiB it is not read any more
    receiver._force_close()
    heir = Stream(gate, "SELECT n, epoch FROM STREAM q")
    assert heir.wait(1, 10) == [(1, 2)]
    heir.close()
    client.close()


def test_a_reader_that_is_stuck_does_not_hold_up_the_end(new_gate):
    gate = new_gate(shutdown_grace="30s").start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (body LONGTEXT) WITH (ack_wait = '1h', max_backoff = '2h')")
    client("CREATE TABLE t (body LONGTEXT)")
    for _ in range(40):
        client("INSERT INTO q (body) VALUES (%s)", "x" * 500_000)
        client("INSERT INTO t (body) VALUES (%s)", "x" * 500_000)
    stuck = [stuck_reader(gate, sql) for sql in ("SELECT body FROM STREAM q", "SELECT body FROM t")]
    wait_until(lambda: client.value("SELECT COUNT(*) FROM q WHERE epoch = 1"), what="deliveries to a stuck receiver")
    time.sleep(1)  # until every buffer on the way is full
    client.close()
    started = time.monotonic()
    assert gate.terminate() == 0
    assert time.monotonic() - started < scaled(10)
    for sock in stuck:
        sock.close()
    gate.start()
    client = Sql(gate.connect())
    # What never left the machine went back, uncounted. What lay in the client's own buffers it may have read.
    held = client.value("SELECT COUNT(*) FROM q WHERE epoch > 0")
    assert held < 40 and held == client.value("SELECT COUNT(*) FROM q WHERE time_next % 1000 IN (1, 3)")
    client.close()


def stuck_reader(gate: Gate, sql: str) -> socket.socket:
    """A client that asks and then reads nothing."""
    connection = gate.connect()
    connection._execute_command(3, sql)
    sock = connection._sock
    connection._sock = None
    assert sock is not None
    return sock


def test_a_slow_reader_is_not_taken_for_a_stuck_one(new_gate):
    """It reads on while we end: it gets its whole result within the grace time."""
    gate = new_gate(shutdown_grace="30s").start()
    client = Sql(gate.connect())
    client("CREATE TABLE t (body LONGTEXT)")
    for _ in range(16):
        client("INSERT INTO t (body) VALUES (%s)", "x" * 1_000_000)
    client.close()
    sock = stuck_reader(gate, "SELECT body FROM t")
    sock.settimeout(20)
    time.sleep(0.5)
    assert gate.process is not None
    gate.process.send_signal(signal.SIGTERM)
    received = 0
    while chunk := sock.recv(1 << 20):
        received += len(chunk)
        time.sleep(0.1)
    assert received > 16_000_000
    assert gate.process.wait(scaled(20)) == 0
    gate.process = None
    sock.close()

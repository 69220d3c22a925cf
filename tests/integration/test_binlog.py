"""The server's binary log through the proxy: mysqlbinlog, and what replicas and change-data-capture tools say."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest
from servers import Gate, MariaDb, Sql, find_binary, private, wait_until
from slowness import scaled
from wire_client import QUIT, Hangup, WireClient, string

pytestmark = pytest.mark.long

REGISTER_SLAVE, BINLOG_DUMP, BINLOG_DUMP_GTID, TABLE_DUMP, SHUTDOWN = 0x15, 0x12, 0x1E, 0x13, 0x08
NON_BLOCKING, SEND_ANNOTATIONS = 1, 2


@pytest.fixture(scope="module")
def source(mariadb: MariaDb) -> Iterator[MariaDb]:
    """A server that keeps a binary log."""
    server = MariaDb(
        ["--log-bin=binlog", "--server-id=1", "--binlog-format=ROW", "--rpl-semi-sync-master-timeout=30000"]
    )
    try:
        server.install()
        server.start()
        server.prepare()
        with server.connect(database="main") as connection:
            sql = Sql(connection)
            sql("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
            sql("INSERT INTO t (b) VALUES (REPEAT('x', 100)), (REPEAT('y', 20 << 20)), ('z')")  # one event above 16 MiB
            sql("FLUSH BINARY LOGS")
            sql("INSERT INTO t (b) VALUES ('in the second file')")
            sql("FLUSH BINARY LOGS")  # proxies go on writing to the last file
        yield server
    finally:
        server.remove()


@pytest.fixture
def proxied(source: MariaDb, new_gate_on: Callable[..., Gate]) -> Gate:
    return new_gate_on(source, database="main")


def files(port: int) -> list[str]:
    with WireClient(port) as client:
        answer = client.query("SHOW BINARY LOGS")
        return [
            payload[1 : 1 + payload[0]].decode() for payload in answer.payloads if payload[1:].startswith(b"binlog")
        ]


def mysqlbinlog(port: int, *arguments: str) -> str:
    program = find_binary("mysqlbinlog") or find_binary("mariadb-binlog")
    assert program is not None
    command = [program, "--no-defaults", "--read-from-remote-server", "-h127.0.0.1", f"-P{port}", "-uroot", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return re.sub(rb"thread_id=\d+|pseudo_thread_id=\d+", b"", done.stdout).decode("latin1")


def unended(printed: str) -> str:
    """Without the lines that end every print: the last file may be longer the next time."""
    return printed.rpartition("DELIMITER ;")[0]


def test_mysqlbinlog_prints_the_same(source: MariaDb, proxied: Gate) -> None:
    first, second, *_ = files(source.port)
    assert files(proxied.port)[:2] == [first, second]
    for arguments in ([first], [first, second], ["--start-position=256", first]):
        direct = mysqlbinlog(source.port, *arguments)
        assert mysqlbinlog(proxied.port, *arguments) == direct
        assert len(direct) > 20 << 20
    earlier, through, later = (
        mysqlbinlog(port, "--to-last-log", first) for port in (source.port, proxied.port, source.port)
    )
    assert through.startswith(unended(earlier)) and later.startswith(unended(through))
    assert len(earlier) > 20 << 20
    with pytest.raises(AssertionError, match="Could not find"):
        mysqlbinlog(proxied.port, "nowhere.000001")


def dump(client: WireClient, file: str, position: int = 4, *, flags: int = NON_BLOCKING) -> None:
    client.send(bytes((BINLOG_DUMP,)) + struct.pack("<IHI", position, flags, 77) + file.encode())


def prepare_to_dump(client: WireClient) -> None:
    client.run("SET @master_binlog_checksum = @@global.binlog_checksum", "SET @mariadb_slave_capability = 4")


def events(client: WireClient) -> list[tuple[int, bytes]]:
    """Up to the one that is none."""
    found = [client.packet()]
    while found[-1][1][:1] == b"\x00":
        found.append(client.packet())
    return found


def test_events_as_if_direct(source: MariaDb, proxied: Gate) -> None:
    """To the byte the same. MariaDB hangs up behind the last one; so does the proxy."""
    seen = []
    body = struct.pack("<I", 77) + string(b"here") + string(b"root") + string(b"") + struct.pack("<HII", 1, 0, 0)
    for port in (source.port, proxied.port):
        for file in (*files(source.port)[:2], "nowhere.000001"):
            with WireClient(port) as client:
                prepare_to_dump(client)
                registered = client.command(REGISTER_SLAVE, body)
                dump(client, file)
                seen.append((registered.packets, events(client)))
                with pytest.raises(Hangup):
                    client.packet()
    assert seen[:3] == seen[3:]
    assert max(len(payload) for _, payload in seen[3][1]) > 20 << 20
    assert seen[5][1][0][1][:3] == b"\xff" + struct.pack("<H", 1236)


def open_files(gate: Gate) -> int:
    assert gate.process is not None
    return len(list(Path(f"/proc/{gate.process.pid}/fd").iterdir()))


@pytest.mark.parametrize("goodbye", [True, False], ids=["quit", "hung up"])
def test_endless_dump(source: MariaDb, proxied: Gate, goodbye: bool) -> None:
    """Events come as they happen, and a replica that goes is noticed although nothing more happens: the server itself
    would not notice before the next event."""
    with WireClient(proxied.port) as client:
        prepare_to_dump(client)
        before = open_files(proxied)  # the client's two lines among them
        dump(client, files(source.port)[1], flags=0)
        with source.connect(database="main") as connection:
            Sql(connection)(f"INSERT INTO t (b) VALUES ('news of {goodbye}')")
        while f"news of {goodbye}".encode() not in client.packet()[1]:
            pass
        if goodbye:
            client.send(bytes((QUIT,)))
            with pytest.raises(Hangup):
                while client.packet():
                    pass
    wait_until(lambda: open_files(proxied) <= before - 2, what="the dump to end")


def test_shutdown_does_not_wait_for_the_end_of_a_dump(source: MariaDb, new_gate_on: Callable[..., Gate]) -> None:
    gate = new_gate_on(source, database="main", shutdown_grace="30s")
    with WireClient(gate.port) as client:
        prepare_to_dump(client)
        dump(client, files(source.port)[1], flags=0)
        client.packet()
        assert gate.terminate(timeout=15) == 0


def test_acknowledgements_of_a_semi_synchronous_replica(source: MariaDb, proxied: Gate) -> None:
    """A commit waits for them: without, it would take the 30 s of the server's patience."""
    with source.connect(database="main") as connection, WireClient(proxied.port) as client:
        sql = Sql(connection)
        sql("SET GLOBAL rpl_semi_sync_master_enabled = ON")
        try:
            prepare_to_dump(client)
            client.run("SET @rpl_semi_sync_slave = 1")
            [file, position] = sql.row("SHOW MASTER STATUS")[:2]
            dump(client, file, position, flags=0)
            wait_until(lambda: sql.row("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")[1] == "1", what="the replica")
            acknowledging = threading.Thread(target=acknowledge, args=(client, file), daemon=True)
            acknowledging.start()
            for thread in [connection_in_thread(source, n) for n in range(3)]:
                thread.join(scaled(20))
                assert not thread.is_alive()
            acknowledged = int(sql.row("SHOW STATUS LIKE 'Rpl_semi_sync_master_yes_tx'")[1])
            assert acknowledged >= 3  # the proxy may have written rows of its own
            assert sql.row("SHOW STATUS LIKE 'Rpl_semi_sync_master_no_tx'")[1] == "0"
            client.socket.shutdown(socket.SHUT_RDWR)
            acknowledging.join(20)
        finally:
            sql("SET GLOBAL rpl_semi_sync_master_enabled = OFF")


def acknowledge(client: WireClient, file: str) -> None:
    """Acknowledge each event that asks for it, until the connection ends."""
    with suppress(OSError, Hangup):
        while True:
            _, event = client.packet()
            if event[:2] == b"\x00\xef" and event[2] & 1:
                end = int.from_bytes(event[3 + 13 : 3 + 17], "little")
                client.send(b"\xef" + struct.pack("<Q", end) + file.encode())


def connection_in_thread(source: MariaDb, number: int) -> threading.Thread:
    def insert() -> None:
        with source.connect(database="main") as connection:
            Sql(connection)("INSERT INTO t (b) VALUES (%s)", str(number))

    thread = threading.Thread(target=insert, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("command", "errno"), [(TABLE_DUMP, 1235), (SHUTDOWN, 1235), (0x20, 1047), (0x21, 1047), (0xFB, 1047), (0xFE, 1047)]
)
def test_other_commands_are_refused_clearly(proxied: Gate, command: int, errno: int) -> None:
    with WireClient(proxied.port) as client:
        assert client.command(command, b"whatever").errno == errno
        assert client.value("SELECT 'still here'") == b"still here"


def test_a_replica(source: MariaDb, proxied: Gate) -> None:
    """A MariaDB that has the proxy for its primary."""
    with (
        private(MariaDb()) as server,
        source.connect(database="main") as connection,
        server.connect() as replica,
    ):
        primary, behind = Sql(connection), Sql(replica)
        primary("DROP USER IF EXISTS replica@'127.0.0.1'")
        primary("CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'secret'")
        primary("GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'")
        file, position = primary.row("SHOW MASTER STATUS")[:2]
        behind("SET GLOBAL server_id = 2")
        behind(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {proxied.port}, MASTER_USER = 'replica', "
            f"MASTER_PASSWORD = 'secret', MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {position}"
        )
        behind("START SLAVE")
        primary("CREATE TABLE copied (a INT)")
        primary("INSERT INTO copied VALUES (1), (2)")

        def arrived() -> bool:
            try:
                return behind.column("SELECT a FROM main.copied") == [1, 2]
            except pymysql.err.ProgrammingError:
                return False  # the table has not

        wait_until(arrived, what="the rows to be copied")
        behind("STOP SLAVE")
        primary("DROP TABLE copied")

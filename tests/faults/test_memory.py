"""What clients can make the proxy hold: readers that stop in the middle of a large result, statements that the database
does not take, connections that do nothing.

Against MariaDB, whose sequence tables make a gigabyte without storing one. Memory is the process's resident memory as
the kernel counts it, its peak included; what a part of the kernel's socket buffers is, is not in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import preloaded
import pymysql
import pytest
from certificates import Authority
from servers import Gate, MariaDb, Sql, numbers, wait_until

from benchmarks.idle import allow_files
from benchmarks.processes import peak_bytes, reset_peak, resident_bytes, settled, stopped
from benchmarks.wire import BareClient, query

pytestmark = pytest.mark.long

MB = 1_000_000
EOF_PACKET_BYTES = 9
STALLED_MAX = 100 * MB  # the whole process, while it carries a gigabyte to somebody who does not read
STATEMENT_MAX = 20 * MB  # for a statement of any size under way to the database; its pieces leave gaps in the heap
EACH_READER_MAX = 1 * MB  # what a write buffer's high water and one read of a socket come to, and as much again
IDLE_MAX = 60_000  # a connection that does nothing
IDLE_TLS_MAX = 50_000  # 37 KB where the TLS buffers are kept apart (proxy/os_process.py), 58 KB in the heap


@pytest.fixture
def gate(mariadb: MariaDb, tmp_path: Path) -> Iterator[Gate]:
    with fresh_gate(mariadb, tmp_path) as gate:
        yield gate


@contextlib.contextmanager
def fresh_gate(server: MariaDb, directory: Path, **config: Any) -> Iterator[Gate]:
    """A process of this test alone: what others have left in its memory does not count."""
    gate = Gate(server.url(), directory, **config)
    gate.launch = preloaded.start  # as users start it, so that nothing else is in its memory
    gate.start()
    try:
        open_client(gate).close()
        yield gate
    finally:
        gate.stop()


def open_client(gate: Gate, **options: Any) -> pymysql.Connection[Any]:
    """A client that does not load the system's certificates for a line without TLS."""
    return gate.connect(**{"ssl_disabled": True, **options})


def process(gate: Gate) -> int:
    assert gate.process is not None
    return gate.process.pid


def database(server: MariaDb) -> int:
    return int((server.directory / "pid").read_text())


def row_bytes(number: int, size: int) -> int:
    """A row of `number` and a string of that size, in the text protocol with its packet headers."""
    length = 3 if size < 1 << 16 else 4 if size < 1 << 24 else 9
    payload = 1 + len(str(number)) + length + size
    return payload + 4 * (payload // 0xFFFFFF + 1)


@contextlib.contextmanager
def stalled(gate: Gate, server: MariaDb, sql: str, readers: int) -> Iterator[list[BareClient]]:
    """Clients that have read the column definitions and then nothing, at the moment when all has come to rest."""
    clients = [BareClient(open_client(gate)) for _ in range(readers)]
    try:
        for client in clients:
            client.send(sql)
            assert client.read_packet() == b"\x02"
            for _ in range(3):
                client.read_packet()
        assert settled([process(gate), database(server)]), "gate and database never come to rest"
        yield clients
    finally:
        for client in clients:
            client.abandon()


@pytest.mark.parametrize(("rows", "size"), [(1_000_000, 1000), (50, 20_000_000)], ids=["1 kB rows", "20 MB rows"])
def test_a_gigabyte_for_a_reader_that_stops(gate: Gate, mariadb: MariaDb, rows: int, size: int) -> None:
    """It is not held while the reader stands still, nor while it reads on; and all of it arrives."""
    reset_peak(process(gate))
    sql = f"SELECT seq, REPEAT('x', {size}) FROM {numbers(rows)}"
    with stalled(gate, mariadb, sql, 1) as (client,):
        assert peak_bytes(process(gate)) < STALLED_MAX
        with Sql(open_client(gate)).connection as other:
            assert Sql(other).value("SELECT 1") == 1  # nobody else waits
        client.read_exactly(sum(row_bytes(number, size) for number in range(1, rows + 1)))
        assert client.read_packet()[0] == 0xFE
        client.send("SELECT 'afterwards'")
        assert client.read_packet() == b"\x01"
    assert peak_bytes(process(gate)) < STALLED_MAX


def test_many_readers_that_stop(gate: Gate, mariadb: MariaDb) -> None:
    """Twenty, 100 MB each: what is held for one is bounded, so for all of them."""
    before = resident_bytes(process(gate))
    reset_peak(process(gate))
    with stalled(gate, mariadb, f"SELECT seq, REPEAT('x', 1000) FROM {numbers(100_000)}", 20):
        assert peak_bytes(process(gate)) - before < 20 * EACH_READER_MAX
    with Sql(open_client(gate)).connection as other:
        # A reader that hangs up ends its statement, in the database too.
        listed = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT seq, REPEAT%'"
        wait_until(lambda: Sql(other).value(listed) == 0, 30, "the statements to end")


def test_a_statement_that_the_database_does_not_take(own_mariadb: MariaDb, tmp_path: Path) -> None:
    """It passes through bit by bit: as long as the database reads nothing, the client has to wait with the rest."""
    size = 60 * MB
    with fresh_gate(own_mariadb, tmp_path) as gate:
        client = BareClient(open_client(gate, read_timeout=60))
        before = resident_bytes(process(gate))
        reset_peak(process(gate))
        with stopped(database(own_mariadb)):
            statement = query("SELECT LENGTH('" + "x" * size + "')")
            rest = client.send_until_stuck(statement, lambda: settled([process(gate)]))
            assert rest, "all was taken, so somebody holds it"
            assert peak_bytes(process(gate)) - before < STATEMENT_MAX
        client.sock.settimeout(60)
        client.sock.sendall(rest)
        assert client.read_packet() == b"\x01"
        client.read_packet()
        assert client.read_packet()[0] == 0xFE
        assert client.read_packet() == b"\x08%d" % size
        assert peak_bytes(process(gate)) - before < STATEMENT_MAX
        client.abandon()


def growth(gate: Gate, open_one: Callable[[], object], few: int = 100, many: int = 400) -> float:
    """Bytes that each connection beyond the first adds; those fill what was left over from the start."""
    opened = [open_one() for _ in range(few)]
    before = resident_bytes(process(gate))
    opened += [open_one() for _ in range(many - few)]
    grown = resident_bytes(process(gate)) - before
    for one in opened:
        assert isinstance(one, pymysql.Connection)
        one._force_close()
    return grown / (many - few)


def test_idle_connections(gate: Gate) -> None:
    allow_files()

    def open_one() -> pymysql.Connection[Any]:
        connection = open_client(gate)
        connection.query("SELECT 1")
        return connection

    assert growth(gate, open_one) < IDLE_MAX


def test_idle_connections_with_tls(mariadb: MariaDb, tmp_path: Path) -> None:
    allow_files()
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "127.0.0.1")
    with fresh_gate(mariadb, tmp_path, tls={"certificate": str(certificate), "key": str(key)}) as gate:

        def open_one() -> pymysql.Connection[Any]:
            connection = gate.connect(ssl_ca=str(authority.ca))
            connection.query("SELECT 1")
            return connection

        assert growth(gate, open_one) < IDLE_TLS_MAX


def test_idle_receivers(gate: Gate) -> None:
    """Each holds a connection and an open stream; the queue is empty."""
    allow_files()
    with open_client(gate) as connection:
        Sql(connection)("CREATE QUEUE IF NOT EXISTS idle_receivers (payload VARCHAR(300))")

        def open_one() -> pymysql.Connection[Any]:
            client = open_client(gate)
            client._sock.sendall(query("SELECT id, payload FROM STREAM idle_receivers"))
            assert client._sock.recv(4096)
            return client

        assert growth(gate, open_one, 50, 250) < IDLE_MAX
        Sql(connection)("DROP QUEUE idle_receivers")

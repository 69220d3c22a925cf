"""Commands above 16 MiB: passed on while they come, bounded by the database alone, and nothing of them held."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable

import pytest
from servers import SERVER, Gate, MariaDb, Sql, Stream, wait_until
from wire_client import (
    BULK_EXECUTE,
    DEPRECATE_EOF,
    EXECUTE,
    FULL,
    LONG_DATA,
    MULTI_STATEMENTS,
    QUERY,
    Hangup,
    WireClient,
    bulk,
    frame,
)

pytestmark = pytest.mark.long

Pair = Callable[..., tuple[WireClient, WireClient]]
FORMS = pytest.mark.parametrize("drop", [0, DEPRECATE_EOF | MULTI_STATEMENTS], ids=["several", "single"])
BIG = 40 << 20
LONG_BLOB = 0xFB
MEMORY_BYTES = 24 << 20  # what a command twice as large may add to the process: buffers of sockets, and the allocator


@pytest.fixture
def blobs(mariadb: MariaDb, mariadb_gate: Gate) -> str:
    client = Sql(mariadb.connect(database=mariadb_gate.database))
    client("DROP TABLE IF EXISTS blobs")
    client("CREATE TABLE blobs (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
    client.close()
    return "blobs"


@pytest.fixture
def mails(mariadb_gate: Gate) -> str:
    client = Sql(mariadb_gate.connect())
    client("DROP QUEUE IF EXISTS large_mails")
    client("CREATE QUEUE large_mails (n BIGINT, t VARCHAR(20))")
    client.close()
    return "large_mails"


def blob(size: int) -> bytes:
    """All bytes, so that quotes, backslashes and semicolons are among them."""
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def quoted(data: bytes) -> bytes:
    return b"'" + data.replace(b"\\", b"\\\\").replace(b"'", b"''").replace(b"\x00", b"\\0") + b"'"


def execute(statement: int, value: bytes) -> bytes:
    """One parameter, a blob."""
    body = struct.pack("<IBI", statement, 0, 1) + b"\x00\x01" + bytes((LONG_BLOB, 0))
    return bytes((EXECUTE,)) + body + b"\xfe" + struct.pack("<Q", len(value)) + value


@FORMS
def test_blob_there_and_back(mariadb_gate: Gate, pair: Pair, blobs: str, drop: int) -> None:
    _, client = pair(drop=drop)
    value = blob(BIG)
    insert = f"INSERT INTO {blobs} (b) VALUES (".encode() + quoted(value) + b")"
    before = mariadb_gate.rss_bytes()
    assert client.query(insert).affected_rows == 1
    statement = client.prepare(f"INSERT INTO {blobs} (b) VALUES (?)")
    client.send(execute(statement, value))
    assert client.answer(EXECUTE).affected_rows == 1
    client.command(LONG_DATA, struct.pack("<IH", statement, 0) + value)
    assert client.execute(statement, b"\x00\x01" + bytes((LONG_BLOB, 0))).affected_rows == 1
    grown = mariadb_gate.rss_bytes() - before
    assert grown < MEMORY_BYTES, f"{grown >> 20} MiB more for commands of {BIG >> 20}"
    for number in (1, 2, 3):
        assert client.value(f"SELECT b FROM {blobs} WHERE id = {number}") == value
    assert mariadb_gate.rss_bytes() - before < MEMORY_BYTES


@FORMS
@pytest.mark.parametrize("size", [FULL - 1, FULL, FULL + 1, 2 * FULL - 1, 2 * FULL, 2 * FULL + 1])
def test_sizes_at_the_seams_of_packets(pair: Pair, drop: int, size: int) -> None:
    answers = []
    for client in pair(drop=drop):
        head = b"\x03" + client.attributes + b"SELECT LENGTH('"
        text = head + b"x" * (size - len(head) - 2) + b"')"
        assert len(text) == size
        client.send(text)
        answers.append((client.answer(QUERY).packets, client.query("SELECT 1").packets))
    assert answers[0] == answers[1]


@pytest.mark.skipif(SERVER == "mysql", reason="MariaDB's own command")
def test_bulk_execution(pair: Pair, blobs: str) -> None:
    answers = []
    for client in pair():
        statement = client.prepare(f"INSERT INTO {blobs} (b) VALUES (?)")
        value = b"\xfd" + struct.pack("<I", 100_000)[:3] + blob(100_000)
        rows = [[value]] * 250
        answers.append(client.command(BULK_EXECUTE, bulk(statement, [LONG_BLOB], rows)).packets)
        assert client.value(f"SELECT COUNT(*) FROM {blobs} WHERE LENGTH(b) = 100000") == b"250"
        client.run(f"TRUNCATE TABLE {blobs}")
    assert answers[0] == answers[1]


# --- what the database does not take


def refused(client: WireClient, payload: bytes) -> tuple[int, str, int]:
    """The database's error, in the sequence where the client expects it; and then the line is closed."""
    sending = threading.Thread(target=send, args=(client, payload))
    sending.start()
    seq, packet = client.packet()
    sending.join(20)
    with pytest.raises(Hangup):
        client.packet()
    return int.from_bytes(packet[1:3], "little"), packet[3:].decode(), seq


def send(client: WireClient, payload: bytes) -> None:
    try:
        client.send(payload)
    except OSError:
        pass  # the server did not wait for the end


@FORMS
def test_the_databases_own_bound(own_mariadb: MariaDb, new_gate_on: Callable[..., Gate], drop: int) -> None:
    gate = new_gate_on(own_mariadb)
    with own_mariadb.connect() as connection:
        connection.cursor().execute("SET GLOBAL max_allowed_packet = 18 << 20")
    for size in (19 << 20, 60 << 20):
        seen = []
        for port in (own_mariadb.port, gate.port):
            with WireClient(port, drop=drop) as client:
                payload = b"\x03" + client.attributes + b"SELECT LENGTH('" + b"x" * size + b"')"
                *error, seq = refused(client, payload)
            seen.append(error)
        assert seen[0] == seen[1] == [1153, "#08S01Got a packet bigger than 'max_allowed_packet' bytes"]
        # Directly it comes while the client sends, numbered by what the server had read; that would be no use to
        # clients, which look for it behind what they have sent.
        assert seq == (size // FULL + 1) & 0xFF
    with WireClient(gate.port, drop=drop) as client:
        assert client.query(b"SELECT LENGTH('" + b"x" * (17 << 20) + b"')").ok


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "kill -9"])
def test_line_lost_in_mid_command(own_mariadb: MariaDb, new_gate_on: Callable[..., Gate], kill: bool) -> None:
    gate = new_gate_on(own_mariadb)
    with WireClient(gate.port) as client:
        begun = frame(b"\x03" + client.attributes + b"SELECT LENGTH('" + b"x" * BIG + b"')")
        client.socket.sendall(begun[:-5_000_000])
        if kill:
            with own_mariadb.connect() as connection:
                connection.kill(client.connection_id)
        else:
            own_mariadb.kill()
        client.socket.sendall(begun[-5_000_000:])
        with pytest.raises(Hangup):  # as at the server itself; an error of the proxy's own would have no number for it
            client.packet()


def test_client_that_breaks_off_has_sent_nothing(mariadb: MariaDb, pair: Pair, blobs: str) -> None:
    _, client = pair()
    insert = frame(b"\x03" + client.attributes + f"INSERT INTO {blobs} (b) VALUES ('".encode() + b"x" * BIG + b"')")
    # All of the statement but the packet that would end it.
    client.socket.sendall(insert[: 2 * (FULL + 4)])
    client.socket.close()
    client.file.close()
    watcher = Sql(mariadb.connect(database="main"))
    gone = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {client.connection_id}"
    wait_until(lambda: watcher.value(gone) == 0, what="the line to be cut")
    assert watcher.value(f"SELECT COUNT(*) FROM {blobs}") == 0
    watcher.close()


def test_packets_out_of_order_in_mid_command(pair: Pair, blobs: str) -> None:
    _, client = pair()
    head = b"\x03" + client.attributes + b"SELECT '"
    full = struct.pack("<I", FULL) + head + b"x" * (FULL - len(head))
    client.socket.sendall(full + frame(b"y')", 5))
    assert client.answer(QUERY).errno == 1156
    with pytest.raises(Hangup):
        client.packet()


def test_database_that_takes_its_time_holds_the_client_back(mariadb_gate: Gate, pair: Pair, blobs: str) -> None:
    """A lock keeps the server from reading; the proxy must not read ahead of it."""
    _, client = pair()
    before = mariadb_gate.rss_bytes()
    text = frame(b"\x03" + client.attributes + b"SELECT SLEEP(1)") + frame(
        b"\x03" + client.attributes + b"SELECT LENGTH('" + b"x" * BIG + b"')"
    )
    client.socket.sendall(text)
    assert client.answer(QUERY).ok
    assert client.answer(QUERY).payloads[-2] == b"\x08" + str(BIG).encode()
    assert mariadb_gate.rss_bytes() - before < MEMORY_BYTES


# --- queues


def test_large_enqueue_is_delivered_at_once(mariadb_gate: Gate, pair: Pair, mails: str) -> None:
    _, client = pair()
    insert = f"INSERT INTO {mails} (n, t) VALUES (%d, LEFT('".encode() + b"y" * BIG + b"', 3))"
    with Stream(mariadb_gate, f"SELECT n, t FROM STREAM {mails}") as stream:
        assert client.query(insert % 1).ok
        assert stream.wait(1, 10) == [(1, "yyy")]
        client.run("BEGIN")
        assert client.query(insert % 2).ok
        client.run("ROLLBACK", "BEGIN")
        assert client.query(insert % 3).ok
        client.run("COMMIT")
        assert stream.wait(2, 10)[1] == (3, "yyy")
        statement = client.prepare(f"INSERT INTO {mails} (n, t) VALUES (4, LEFT(?, 3))")
        client.send(execute(statement, b"z" * BIG))
        assert client.answer(EXECUTE).ok
        assert stream.wait(3, 10)[2] == (4, "zzz")


def test_queue_statements_behind_a_large_one(mariadb_gate: Gate, pair: Pair, mails: str, blobs: str) -> None:
    """The database gets what is its own, the proxy runs the rest, and the client sees one answer."""
    _, client = pair()
    insert = f"INSERT INTO {blobs} (b) VALUES (".encode() + quoted(blob(BIG)) + b")"
    ours = f"INSERT INTO {mails} (n) VALUES (7); SELECT n FROM STREAM {mails} LIMIT 1; SELECT 'done'".encode()
    for before in (b"", b"SELECT 'first';"):
        answer = client.query(before + insert + b"; SELECT 'second'; " + ours)
        assert answer.ok
        first = answer.packets[0][0]
        assert [seq for seq, _ in answer.packets] == [first + n & 0xFF for n in range(len(answer.packets))]
        payloads = answer.payloads
        assert b"\x06second" in payloads and b"\x017" in payloads and payloads[-2] == b"\x04done"
        assert client.value("SELECT 'in step'") == b"in step"
    assert client.value(f"SELECT COUNT(*) FROM {blobs} WHERE LENGTH(b) = {BIG}") == b"2"
    failing = client.query(insert + b"; SELECT * FROM nowhere; " + ours)
    assert failing.errno == 1146
    assert client.value(f"SELECT COUNT(*) FROM {mails}") == b"2", "nothing behind an error is run"


def test_rest_that_is_too_large_to_be_kept(mariadb: MariaDb, new_gate_on: Callable[..., Gate], mails: str) -> None:
    gate = new_gate_on(mariadb, database="main", limits={"max_packet_size": "8MiB"})
    with WireClient(gate.port, database="main") as client:
        first = b"SELECT LENGTH('" + b"x" * BIG + b"')"
        rest = f"; SELECT n FROM STREAM {mails} NOWAIT; SELECT '".encode() + b"y" * BIG + b"'"
        answer = client.query(first + rest)
        assert answer.errno == 1153 and b"\x08" + str(BIG).encode() in answer.payloads
        assert client.query(first + b"; SELECT 2").ok
        assert client.value("SELECT 'in step'") == b"in step"
        too_large = client.query(f"SELECT n FROM STREAM {mails} WHERE n = '".encode() + b"y" * BIG + b"'")
        assert too_large.errno == 1153

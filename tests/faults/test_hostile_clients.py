"""What must not be trusted: junk, half packets, endless handshakes, giants, and talk after a failed login.

After every attack another client finds the proxy as before: `unharmed` holds that.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest
from servers import Gate, Sql, Stream, in_threads, read_available, wait_until
from slowness import scaled
from wire_client import BULK_EXECUTE, WireClient


@pytest.fixture
def unharmed(gate, sql, queue):
    """A receiver and a client that were there before the attack still work after it; memory stays bounded."""
    q = queue()
    receiver = Stream(gate, f"SELECT payload FROM STREAM {q}")
    before = gate.rss_bytes()
    yield
    sql(f"INSERT INTO {q} (payload) VALUES ('still here')")
    assert receiver.wait(1, 10) == [("still here",)]
    receiver.close()
    assert gate.rss_bytes() - before < 150 << 20
    newcomer = Sql(gate.connect())
    assert newcomer.value("SELECT 1") == 1
    newcomer.close()


def read_packet(sock: socket.socket) -> tuple[int, bytes]:
    header = recv_exactly(sock, 4)
    return header[3], recv_exactly(sock, int.from_bytes(header[:3], "little"))


def recv_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise ConnectionError(f"closed after {len(data)} of {count} bytes")
        data += chunk
    return data


def frame(payload: bytes, seq: int) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([seq]) + payload


def login_packet(user: bytes = b"root", response: bytes = b"", database: bytes = b"main", seq: int = 1) -> bytes:
    """HandshakeResponse41 with mysql_native_password."""
    flags = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000  # long password, with db, 4.1, transactions, secure, plugin
    payload = struct.pack("<IIB23x", flags, 1 << 24, 45) + user + b"\0" + bytes([len(response)]) + response
    return frame(payload + database + b"\0mysql_native_password\0", seq)


def log_in(gate: Gate, sock: socket.socket) -> None:
    """Log in as root with an empty password, whatever plugin the server asks for in between."""
    read_packet(sock)
    sock.sendall(login_packet(database=gate.database.encode()))
    for _ in range(4):
        seq, packet = read_packet(sock)
        if packet[0] == 0x00:
            return
        if packet[0] == 0xFE:  # switch: with an empty password the answer is empty under every plugin
            sock.sendall(frame(b"", seq + 1))
        elif packet[0] == 0xFF:
            raise AssertionError(packet)
    raise AssertionError("no OK after the login")


JUNK = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    bytes(4096),
    b"\xff" * 4096,
    b"\x00\x00\x00\x01",
    b"\x05\x00\x00\x09abcde",
    b"\n",
]


@pytest.mark.parametrize("junk", JUNK, ids=[str(n) for n in range(len(JUNK))])
def test_junk_on_the_port(gate, unharmed, junk):
    with gate.raw() as sock:
        read_packet(sock)
        sock.sendall(junk)
        sock.shutdown(socket.SHUT_WR)
        answer = read_available(sock)
        assert len(answer) < 1000
        assert answer == b"" or b"\xff" in answer


def test_random_junk_after_login(gate, unharmed):
    for seed in range(30):
        with gate.raw() as sock:
            log_in(gate, sock)
            sock.sendall(frame(bytes([seed]) + random.Random(seed).randbytes(seed * 7), 0))
            sock.shutdown(socket.SHUT_WR)
            read_available(sock)


@pytest.mark.parametrize(
    "sent", [b"", b"\x01", b"\x01\x00\x00", b"\x50\x00\x00\x01", b"\x50\x00\x00\x01half a payload"]
)
def test_half_a_packet_and_then_a_hang_up(gate, unharmed, sent):
    with gate.raw() as sock:
        read_packet(sock)
        sock.sendall(sent)
    with gate.raw() as sock:
        log_in(gate, sock)
        sock.sendall(sent)


def test_packets_split_at_every_byte(gate, unharmed):
    with gate.raw() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        read_packet(sock)
        for byte in login_packet(database=gate.database.encode()):
            sock.send(bytes([byte]))
        while (answer := read_packet(sock))[1][0] != 0x00:
            assert answer[1][0] == 0xFE, answer
            sock.sendall(frame(b"", answer[0] + 1))
        for byte in frame(b"\x03SELECT 4711", 0):
            sock.send(bytes([byte]))
            time.sleep(0.001)  # so that the kernel does not join them
        assert b"4711" in read_available(sock, 1)


def test_two_commands_in_one_segment(gate, unharmed):
    with gate.raw() as sock:
        log_in(gate, sock)
        sock.sendall(frame(b"\x03SELECT 4711", 0) + frame(b"\x03SELECT 4712", 0))
        answer = read_available(sock, 1)
        assert b"4711" in answer
        assert b"4712" in answer


FLOODS = {
    "closing statements": (frame(b"\x19\x01\0\0\0", 0), 40_000),
    "pings": (frame(b"\x0e", 0), 80_000),
    "statistics": (frame(b"\x09", 0), 40_000),
}
"""A command, and how many of it the embedded backend answers in more than half a second. A server is asked each time,
and others have their turn while the proxy waits."""


def flooded(gate, client, flood):
    """The longest time in which another client had its answer, while all of this was answered."""
    ends = b"the flood has ended"
    with gate.connect() as connection, ThreadPoolExecutor(2) as threads:

        def drained():
            data = b""
            while ends not in data:
                chunk = client.recv(1 << 16)
                assert chunk, data
                data = data[-100:] + chunk

        draining = threads.submit(drained)
        sending = threads.submit(client.sendall, flood + frame(b"\x03SELECT '" + ends + b"'", 0))
        longest = 0.0
        while not draining.done():
            began = time.monotonic()
            connection.ping(reconnect=False)
            longest = max(longest, time.monotonic() - began)
        draining.result()
        sending.result()
    return longest


@pytest.mark.parametrize("kind", FLOODS)
def test_commands_that_are_sent_ahead_keep_nobody_else_waiting(gate, unharmed, place, kind):
    command, count = FLOODS[kind]
    with gate.raw() as sock:
        log_in(gate, sock)
        assert flooded(gate, sock, command * (count if place == "embedded" else count // 10)) < scaled(0.5)


def test_a_bulk_execution_on_the_embedded_backend_is_no_command(gate, unharmed, place, queue):
    """Of a statement that the proxy takes apart itself, too."""
    if place != "embedded":
        pytest.skip("MariaDB has it")
    q = queue()
    with WireClient(gate.port, database=gate.database) as client:
        for sql in (f"INSERT INTO {q} (payload) VALUES (?) DELAY ?", f"INSERT INTO {q} (payload) VALUES (?)"):
            head = struct.pack("<IH", client.prepare(sql), 128) + bytes((0xFD, 0, 0x03, 0))
            assert client.command(BULK_EXECUTE, head + b"\x01" * 8_000_000).errno == 1047
        assert client.value("SELECT 'still here'") == b"still here"


def test_many_pieces_of_many_values_keep_nobody_else_waiting(gate, unharmed, queue):
    q, values = queue(), 20_000
    with WireClient(gate.port, database=gate.database) as client:
        statement = client.prepare(f"INSERT INTO {q} (payload) VALUES {', '.join(['(?)'] * values)} DELAY ?")
        pieces = (frame(b"\x18" + struct.pack("<IH", statement, at % values), 0) for at in range(2 * values))
        assert flooded(gate, client.socket, b"".join(pieces)) < scaled(0.5)


def test_a_hundred_idle_handshakes_leave_room_for_others(new_gate):
    gate = new_gate(limits={"login_timeout": "2s", "unauthenticated_connections": 120})
    gate.start()
    idle = [gate.raw() for _ in range(100)]
    started = time.monotonic()
    client = Sql(gate.connect())
    assert client.value("SELECT 1") == 1
    assert time.monotonic() - started < scaled(5)
    for sock in idle:
        read_packet(sock)
        sock.settimeout(15)
        assert sock.recv(1000) is not None  # closed, perhaps after an error, once the login timeout is over
        sock.close()
    assert client.value("SELECT 1") == 1
    client.close()


def test_behind_idle_handshakes_a_client_waits_and_is_told_so_when_it_was_too_long(new_gate):
    gate = new_gate(limits={"login_timeout": "3s", "unauthenticated_connections": 5})
    gate.start()
    idle = [gate.raw() for _ in range(5)]
    for sock in idle:
        read_packet(sock)
    with gate.raw() as sock:
        sock.settimeout(20)
        sequence, packet = read_packet(sock)  # greeted when the idle ones are thrown out, if that is soon enough
        assert sequence == 0
        assert packet[0] == 0x0A or struct.unpack("<H", packet[1:3])[0] == 1040
    Sql(wait_until(lambda: attempt(gate), 15, "the idle handshakes to time out")).close()
    for sock in idle:
        sock.close()


def test_as_many_may_connect_at_once_as_there_is_room_for(new_gate):
    gate = new_gate(limits={"max_connections": 60, "unauthenticated_connections": 2})
    gate.start()
    with ThreadPoolExecutor(40) as pool:
        clients = [Sql(connection) for connection in pool.map(lambda _: gate.connect(), range(40))]
    for client in clients:
        assert client.value("SELECT 1") == 1
        client.close()


def attempt(gate: Gate):
    try:
        return gate.connect()
    except pymysql.err.MySQLError:
        return None


def test_more_clients_than_allowed_are_told_so(new_gate):
    gate = new_gate(limits={"max_connections": 5, "unauthenticated_connections": 5})
    gate.start()
    clients = [Sql(gate.connect()) for _ in range(5)]
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect()
    assert refused.value.args[0] == 1040
    clients.pop().close()
    Sql(wait_until(lambda: attempt(gate), 10, "a place to become free")).close()
    for client in clients:
        assert client.value("SELECT 1") == 1
        client.close()


def test_an_oversized_login_is_refused_at_its_header(gate, unharmed):
    with gate.raw() as sock:
        read_packet(sock)
        sock.sendall(b"\xff\xff\xff\x01" + bytes(1000))
        answer = read_available(sock)
        assert answer == b"" or answer[4] == 0xFF


def test_an_oversized_statement_is_1153_and_not_held_in_memory(new_gate):
    gate = new_gate(limits={"max_packet_size": "1MiB"})
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload LONGTEXT)")
    client("INSERT INTO q (payload) VALUES (%s)", "x" * 900_000)
    before = gate.rss_bytes()
    with pytest.raises(pymysql.err.MySQLError) as refused:
        client("SELECT * FROM STREAM q WHERE payload = %s NOWAIT", "x" * 30_000_000)
    assert refused.value.args[0] in (1153, 2006, 2013)
    assert gate.rss_bytes() - before < 20 << 20
    client = Sql(gate.connect())
    assert client.value("SELECT COUNT(*) FROM q") == 1
    client.close()


def test_many_giants_at_once_that_never_finish(gate, unharmed):
    """Headers that promise 16 MiB each, followed by little: no memory is set aside for promises."""
    socks = []
    before = gate.rss_bytes()
    for _ in range(50):
        sock = gate.raw()
        log_in(gate, sock)
        sock.sendall(b"\xff\xff\xff\x00\x03SELECT '" + b"x" * 1000)
        socks.append(sock)
    assert gate.rss_bytes() - before < 100 << 20
    for sock in socks:
        sock.close()


@pytest.fixture
def guarded(shared_gate, place, request):
    """A gate whose only account has a password, and the connection options of that account."""
    gate = shared_gate(**({"users": [{"name": "app", "password": "secret"}]} if place == "embedded" else {}))
    if not gate.embedded:
        with request.getfixturevalue("server_here").connect() as connection, connection.cursor() as cursor:
            cursor.execute("DROP USER IF EXISTS app@'127.0.0.1'")
            cursor.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
            cursor.execute("GRANT ALL ON *.* TO app@'127.0.0.1'")
    return gate, {"user": "app", "password": "secret"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "app", "password": "wrong"},
        {"user": "app", "password": ""},
        {"user": "nobody", "password": ""},
        {"user": "app' OR '1'='1", "password": "x"},
    ],
)
def test_a_wrong_login_is_1045(guarded, wrong):
    gate, _ = guarded
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect(**wrong)
    assert refused.value.args[0] == 1045


def test_talking_on_after_a_failed_login_executes_nothing(guarded):
    gate, right = guarded
    owner = Sql(gate.connect(**right))
    owner("CREATE TABLE precious (n INT)")
    owner("INSERT INTO precious (n) VALUES (1)")
    owner("CREATE QUEUE q (payload TEXT)")
    attacks = [b"\x03DROP TABLE precious", b"\x03DELETE FROM precious", b"\x03INSERT INTO q (payload) VALUES ('evil')",
               b"\x16DELETE FROM precious", b"\x0e", b"\x03COMMIT", b"\x1f", b"\x11app\0\0main\0"]  # fmt: skip
    for response in (b"", b"\x01" * 20):
        for attack in attacks:
            with gate.raw() as sock:
                read_packet(sock)
                database = gate.database.encode()
                # The whole conversation in one segment, so that it is there before the refusal is sent.
                sock.sendall(login_packet(b"app", response, database) + frame(attack, 0) + frame(attack, 3))
                answer = read_available(sock, 2)
                assert b"Access denied" in answer or answer[4:5] in (b"\xfe", b"\xff"), answer
            with gate.raw() as sock:
                read_packet(sock)
                sock.sendall(login_packet(b"app", response, database))
                refused = read_packet(sock)
                if refused[1][0] == 0xFE:
                    sock.sendall(frame(b"\x02" * 20, refused[0] + 1))
                    refused = read_packet(sock)
                assert refused[1][0] == 0xFF, refused
                try:
                    for seq in (0, 3, 5):
                        sock.sendall(frame(attack, seq))
                except OSError:
                    pass  # hung up on already, as it should be
                assert read_available(sock, 2) == b""
    assert owner.rows("SELECT n FROM precious") == [(1,)]
    assert owner.rows("SELECT * FROM q") == []
    owner.close()


def test_commands_before_the_login_execute_nothing(gate, unharmed, sql, name):
    with gate.raw() as sock:
        read_packet(sock)
        sock.sendall(frame(b"\x03CREATE TABLE " + name.encode() + b" (a INT)", 1) + frame(b"\x03SELECT 4711", 0))
        sock.shutdown(socket.SHUT_WR)
        assert b"4711" not in read_available(sock, 2)
    assert sql.error(f"SELECT * FROM {name}")[0] == 1146


def test_a_failed_change_of_user_ends_the_session(guarded):
    gate, right = guarded
    owner = Sql(gate.connect(**right))
    owner("CREATE TABLE valued (n INT)")
    with gate.raw() as sock:
        _, greeting = read_packet(sock)
        sock.sendall(login_packet(b"app", native_scramble(b"secret", nonce(greeting)), gate.database.encode()))
        seq, packet = read_packet(sock)
        if packet[0] == 0xFE:
            plugin, _, salt = packet[1:].partition(b"\0")
            if plugin != b"mysql_native_password":
                pytest.skip("the server prefers a plugin that this bare client does not speak")
            sock.sendall(frame(native_scramble(b"secret", salt.rstrip(b"\0")), seq + 1))
            seq, packet = read_packet(sock)
        assert packet[0] == 0x00, packet
        sock.sendall(frame(b"\x11root\0" + b"\x14" + b"\x05" * 20 + b"\0" + b"\x2d\x00mysql_native_password\0", 0))
        sock.sendall(frame(b"\x03DROP TABLE valued", 0))
        read_available(sock, 2)
    assert owner.rows("SELECT * FROM valued") == []
    owner.close()


def nonce(greeting: bytes) -> bytes:
    after_version = greeting[1:].partition(b"\0")[2]
    return after_version[4:12] + after_version[4 + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 10 :][:12]


def native_scramble(password: bytes, salt: bytes) -> bytes:
    from hashlib import sha1

    first = sha1(password).digest()
    mask = sha1(salt[:20] + sha1(first).digest()).digest()
    return bytes(a ^ b for a, b in zip(first, mask, strict=True))


def test_connections_that_come_and_go_leave_nothing(gate, unharmed, sql):
    def visit(number: int) -> None:
        for _ in range(25):
            client = Sql(gate.connect())
            client("SELECT 1")
            if number % 2:
                client.connection._force_close()
            else:
                client.close()

    in_threads(visit, [(n,) for n in range(8)])
    own = sql.connection.thread_id()
    wait_until(lambda: len(set(sql.column("SHOW PROCESSLIST")) - {own}) < 20, what="the visitors to be forgotten")


def test_a_client_that_never_reads_its_results(gate, unharmed, sql, name):
    sql(f"CREATE TABLE {name} (filler LONGTEXT)")
    sql(f"INSERT INTO {name} (filler) VALUES (%s)", "x" * 1_000_000)
    for _ in range(5):
        sql(f"INSERT INTO {name} (filler) SELECT filler FROM {name}")
    before = gate.rss_bytes()
    with gate.raw() as sock:
        log_in(gate, sock)
        for _ in range(20):
            sock.sendall(frame(b"\x03SELECT filler FROM " + name.encode(), 0))
        assert sql.value("SELECT 1") == 1
        time.sleep(0.5)  # until every buffer on the way is full and nothing moves any more
        assert gate.rss_bytes() - before < 120 << 20
    running = lambda: [row for row in sql.rows("SHOW FULL PROCESSLIST") if f"SELECT filler FROM {name}" in str(row[7])]  # noqa: E731
    wait_until(lambda: not running(), 10, "the end of its statement, and of the locks that it holds")
    sql(f"DROP TABLE {name}")

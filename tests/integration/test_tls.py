"""Real clients over TLS on both backends: who is let in, what they see, and that nothing is held that is not read."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import ssl
import struct
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
from certificates import Authority
from pymysql.cursors import SSCursor
from servers import Gate, Sql, Stream, find_binary, hang_up, wait_until

REQUIRED = (3159, "Connections using insecure transport are prohibited while --require_secure_transport=ON.")
REQUEST = struct.pack("<IIB23x", 0x000FAA05 | 0x800, 1 << 24, 45)  # a request for TLS, as libmysqlclient makes it


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> dict[str, str]:
    """The section of the configuration."""
    certificate, key = authority.issue("server", "127.0.0.1", "queue.example")
    return {"certificate": str(certificate), "key": str(key)}


@pytest.fixture
def offering(shared_gate: Callable[..., Gate], tls: dict[str, str]) -> Gate:
    return shared_gate(tls=tls)


@pytest.fixture
def requiring(shared_gate: Callable[..., Gate], tls: dict[str, str]) -> Gate:
    return shared_gate(tls={**tls, "mode": "required"})


def verified(authority: Authority) -> dict[str, Any]:
    """PyMySQL's options for a line that is encrypted to whom it should be."""
    return {"ssl_ca": str(authority.ca), "ssl_verify_cert": True, "ssl_verify_identity": True}


def encrypted(connection: pymysql.Connection[Any]) -> bool:
    return isinstance(connection._sock, ssl.SSLSocket)


# --- who is let in


def test_pymysql(offering: Gate, authority: Authority, tmp_path: Path) -> None:
    with offering.connect(**verified(authority)) as connection:
        assert encrypted(connection)
        assert connection._sock.version() in ("TLSv1.2", "TLSv1.3")
        assert Sql(connection).value("SELECT 1 + 1") == 2
    with offering.connect(ssl_disabled=True) as connection:
        assert not encrypted(connection)
        assert Sql(connection).value("SELECT 1 + 1") == 2
    logged = len(offering.log)
    with pytest.raises(pymysql.OperationalError, match="certificate verify failed"):
        offering.connect(**verified(Authority(tmp_path, "another authority")))
    with pytest.raises(pymysql.OperationalError, match="certificate"):
        offering.connect(**verified(authority), host="localhost")  # a name that the certificate does not bear
    wait_until(lambda: "no TLS with a client" in offering.log[logged:], what="the line in the log")


def test_the_end_after_an_error_of_the_protocol(offering: Gate, authority: Authority) -> None:
    """The client reads the error and then an orderly end; it is not cut off after a while."""
    connection = offering.connect(**verified(authority))
    line: ssl.SSLSocket = connection._sock
    line.suppress_ragged_eofs = False  # else a cut line looks like an end
    line.sendall(b"\x01\x00\x00\x07\x0e")  # the eighth packet of a command that has had none
    told = b""
    while part := line.recv(1000):
        told += part
    assert told[4:7] == b"\xff" + struct.pack("<H", 1156)
    line.close()


def test_required(requiring: Gate, authority: Authority) -> None:
    with pytest.raises(pymysql.OperationalError) as caught:
        requiring.connect(ssl_disabled=True)
    assert caught.value.args == REQUIRED
    with requiring.connect(**verified(authority)) as connection:
        assert Sql(connection).value("SELECT 1 + 1") == 2


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_connector(requiring: Gate, authority: Authority, pure: bool) -> None:
    options: dict[str, Any] = {
        "host": "127.0.0.1", "port": requiring.port, "user": "root", "password": "", "use_pure": pure,
        "database": requiring.database,
    }  # fmt: skip
    connection = mysql.connector.connect(**options, ssl_ca=str(authority.ca), ssl_verify_cert=True)
    cursor = connection.cursor()
    cursor.execute("SELECT 1 + 1")
    assert cursor.fetchall() == [(2,)]
    connection.close()
    with pytest.raises(mysql.connector.Error) as refused:
        mysql.connector.connect(**options, ssl_disabled=True)
    assert refused.value.errno == 3159


def test_command_line(requiring: Gate, authority: Authority) -> None:
    program = find_binary("mariadb") or find_binary("mysql")
    assert program is not None

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "--no-defaults", "-h127.0.0.1", f"-P{requiring.port}", "-uroot", *options, "-e", "STATUS"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip

    done = run("--ssl", f"--ssl-ca={authority.ca}", "--ssl-verify-server-cert")
    assert re.search(r"SSL:\s+Cipher in use is \S+", done.stdout), (done.stdout, done.stderr)
    assert "3159" in run("--skip-ssl").stderr


def test_a_gate_without_certificate_offers_nothing(new_gate: Callable[..., Gate], authority: Authority) -> None:
    gate = new_gate().start()
    with gate.connect() as connection:  # takes TLS where it is offered
        assert not encrypted(connection)
    with pytest.raises(pymysql.OperationalError):
        gate.connect(**verified(authority))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(requiring: Gate, authority: Authority, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(authority.ca))
    if version is ssl.TLSVersion.TLSv1_1:
        context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():  # of Python's, about the first of these
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    if version is ssl.TLSVersion.TLSv1_1:
        with pytest.raises(pymysql.OperationalError):
            requiring.connect(ssl=context)
        return
    with requiring.connect(ssl=context) as connection:
        assert connection._sock.version() == version.name.replace("_", ".")


# --- what is sent in clear text never counts


def asked(gate: Gate) -> socket.socket:
    """A raw client that has been greeted."""
    raw = gate.raw()
    size = int.from_bytes(raw.recv(4, socket.MSG_WAITALL)[:3], "little")
    raw.recv(size, socket.MSG_WAITALL)
    return raw


def packet(payload: bytes, seq: int) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes((seq,)) + payload


@pytest.mark.parametrize("together", [True, False])
def test_words_behind_the_request_for_tls_break_it(offering: Gate, authority: Authority, together: bool) -> None:
    response = struct.pack("<IIB23x", 0x000FA205, 1 << 24, 45) + b"root\x00\x00mysql_native_password\x00"
    injected = packet(response, 2) + packet(b"\x03CREATE TABLE injected (n INT)", 0)
    raw = asked(offering)
    raw.sendall(packet(REQUEST, 1) + (injected if together else b""))
    if not together:
        raw.sendall(injected)
    assert b"\x00\x00\x00\x02\x00" not in drained(raw)
    raw.close()
    with offering.connect(**verified(authority)) as connection:
        assert Sql(connection).rows("SHOW TABLES LIKE 'injected'") == []


def test_a_request_that_says_more_is_refused(offering: Gate) -> None:
    raw = asked(offering)
    raw.sendall(packet(REQUEST + b"root\x00\x00", 1))
    assert b"Bad handshake" in drained(raw)
    raw.close()


def drained(raw: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while chunk := raw.recv(65536):
            data += chunk
    return data


def test_a_client_that_falls_silent_in_the_handshake(new_gate: Callable[..., Gate], tls: dict[str, str]) -> None:
    gate = new_gate(tls=tls, limits={"login_timeout": 0.5}).start()
    raw = asked(gate)
    raw.sendall(packet(REQUEST, 1))
    assert drained(raw) == b""
    raw.close()


def test_clients_that_go_in_mid_handshake(offering: Gate, authority: Authority) -> None:
    for sent in (packet(REQUEST, 1), packet(REQUEST, 1) + b"\x16\x03\x01\x02\x00\x01", packet(REQUEST, 1)[:20]):
        raw = asked(offering)
        raw.sendall(sent)
        raw.close()
    with offering.connect(**verified(authority)) as connection:
        assert Sql(connection).value("SELECT 1 + 1") == 2


def test_an_error_that_ends_the_connection_is_read(requiring: Gate, authority: Authority) -> None:
    """Also inside TLS, also by a client that went on sending."""
    connection = requiring.connect(**verified(authority))
    connection._sock.sendall(packet(b"\x03SELECT 1", 7) + bytes(200_000))
    with pytest.raises(pymysql.OperationalError) as caught:
        connection._read_packet()
    assert caught.value.args[0] in (1156, 2013) or "out of order" in str(caught.value)
    connection._force_close()


# --- certificates are renewed


def test_sighup_renews_for_logins_to_come(new_gate: Callable[..., Gate], authority: Authority, backend: str) -> None:
    certificate, key = authority.issue("renewed", "127.0.0.1")
    workers = 1 if backend.startswith("sqlite") else 2
    if workers > 1 and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        pytest.skip("under nohup a proxy of several workers ignores SIGHUP, as it is asked to")
    gate = new_gate(tls={"certificate": str(certificate), "key": str(key)}, workers=workers).start()

    def serials() -> set[int]:
        """Of as many logins as it takes to meet every worker."""
        connections = [gate.connect(**verified(authority)) for _ in range(4 * workers)]
        found = {int(connection._sock.getpeercert()["serialNumber"], 16) for connection in connections}
        for connection in connections:
            connection.close()
        return found

    def reload(words: str) -> None:
        before = gate.log.count(words)
        assert gate.process is not None
        gate.process.send_signal(signal.SIGHUP)
        wait_until(lambda: gate.log.count(words) == before + workers, what=words)

    old = Sql(gate.connect(**verified(authority)))
    first = serials()
    authority.issue("renewed", "127.0.0.1")
    reload("TLS certificate loaded")
    second = serials()
    assert len(first) == len(second) == 1 and first != second
    assert old.value("SELECT 1 + 1") == 2  # goes on as it began
    certificate.write_text("rubbish")
    reload("was not renewed")
    assert serials() == second
    assert old.value("SELECT 1 + 1") == 2
    old.close()


# --- streams, large results, stuck readers


def test_stream(requiring: Gate, authority: Authority) -> None:
    sql = Sql(requiring.connect(**verified(authority)))
    sql("CREATE QUEUE q (payload VARCHAR(100))")
    with Stream(requiring, "SELECT payload FROM STREAM q", **verified(authority)) as stream:
        for number in range(3):
            sql("INSERT INTO q (payload) VALUES (%s)", f"message {number}")
            assert stream.wait(number + 1)[number] == (f"message {number}",)
    # Who hangs up gives its messages back at once, as on an open line.
    with Stream(requiring, "SELECT payload FROM STREAM q", **verified(authority)) as stream:
        assert sorted(stream.wait(3)) == [(f"message {number}",) for number in range(3)]
    sql.close()


def test_statements_and_results_of_many_megabytes(requiring: Gate, authority: Authority) -> None:
    with requiring.connect(**verified(authority)) as connection:
        sql = Sql(connection)
        sql("CREATE TABLE large (n INT PRIMARY KEY, body LONGTEXT)")
        body = "0123456789abcdef" * (1 << 18)  # 4 MiB
        for number in range(5):
            sql("INSERT INTO large VALUES (%s, %s)", number, body)
        for _, text in sql.rows("SELECT * FROM large ORDER BY n"):
            assert text == body


def test_a_reader_that_stops_holds_up_nothing_but_itself(requiring: Gate, authority: Authority) -> None:
    """Its result stays with the database; what it did not read is not kept here. Then it goes, in mid-result."""
    sql = Sql(requiring.connect(**verified(authority)))
    sql("CREATE TABLE big (n INT PRIMARY KEY, body TEXT)")
    sql("INSERT INTO big VALUES (0, REPEAT('x', 60000))")
    for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):  # 1024 rows, 60 MB
        sql(f"INSERT INTO big SELECT n + {step}, body FROM big")
    before = requiring.rss_bytes()
    stuck = [requiring.connect(**verified(authority)).cursor(SSCursor) for _ in range(5)]
    for cursor in stuck:
        cursor.execute("SELECT body FROM big")
        assert cursor.fetchone() == ("x" * 60000,)
    # Others are served while the five stand still; by then whatever would be taken from the server has been.
    for _ in range(100):
        assert sql.value("SELECT COUNT(*) FROM big") == 1024
    grown = requiring.rss_bytes() - before
    assert grown < 80 << 20, f"{grown >> 20} MiB for five readers that stopped"
    for cursor in stuck:
        connection, cursor.connection = cursor.connection, None
        hang_up(connection)
        cursor._result.unbuffered_active = False  # or it would be read to its end
        connection._force_close()
    wait_until(lambda: not any(row[4] == "Query" and "body" in str(row[7]) for row in sql.rows("SHOW PROCESSLIST")))
    assert sql.value("SELECT COUNT(*) FROM big") == 1024
    sql.close()


def test_commands_sent_together_are_answered_in_turn(requiring: Gate, authority: Authority) -> None:
    with requiring.connect(**verified(authority)) as connection:
        connection._sock.sendall(b"".join(packet(b"\x03SELECT %d + 0" % n, 0) for n in range(100)))
        for number in range(100):
            connection._next_seq_id = 1
            assert connection._read_query_result() == 1
            assert connection._result.rows == ((number,),)

"""Real clients of a caching_sha2_password server, through the relay: each line with TLS or without, on both loops."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
from certificates import Authority
from login_clients import accounts
from login_server import LoginServer
from relay_server import RelayServer
from wire_peers import LOOPS, packet

from mysql_wire.login import Credentials, encode_response, parse_greeting
from proxy.login.carried_login import BackendTls
from proxy.login.client_tls import OfferedTls, load_certificate

DENIED = (1045, "Access denied for user 'salted'@'127.0.0.1' (using password: YES)")
PROBE = b"SHOW CREATE USER CURRENT_USER()"


class Lines:
    """A server and a relay; `options` are a client's."""

    def __init__(self, directory: Path, loop: str, *, client: bool, server: bool) -> None:
        authority = Authority(directory)
        context = load_certificate(*map(str, authority.issue("server", "127.0.0.1")))[0]
        trusting = BackendTls(ssl.create_default_context(cafile=str(authority.ca)), "127.0.0.1")
        self.client = client
        self.server = LoginServer(*accounts(), loop=loop, tls=context if server else None)
        self.server.__enter__()
        self.relay = RelayServer(
            self.server.port,
            loop=loop,
            tls=trusting if server else None,
            client_tls=OfferedTls(context, required=True) if client else None,
        )
        self.relay.__enter__()
        self.ca = str(authority.ca)

    def close(self) -> None:
        self.relay.__exit__()
        self.server.__exit__()

    def pymysql(self, user: str, password: str) -> Any:
        tls: dict[str, Any] = {"ssl_disabled": True}
        if self.client:
            tls = {"ssl_ca": self.ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
        return pymysql.connect(host="127.0.0.1", port=self.relay.port, user=user, password=password, **tls)

    def connector(self, user: str, password: str, *, pure: bool) -> Any:
        tls: dict[str, Any] = {"ssl_ca": self.ca, "ssl_verify_cert": True} if self.client else {"ssl_disabled": True}
        return mysql.connector.connect(
            host="127.0.0.1", port=self.relay.port, user=user, password=password, use_pure=pure, **tls
        )


@pytest.fixture(params=[(loop, client, server) for loop in LOOPS for client in (0, 1) for server in (0, 1)])
def lines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lines]:
    loop, client, server = request.param
    opened = Lines(tmp_path, loop, client=bool(client), server=bool(server))
    yield opened
    opened.close()


def test_pymysql(lines: Lines) -> None:
    with pytest.raises(pymysql.OperationalError) as caught:
        lines.pymysql("salted", "wrong")
    assert caught.value.args == DENIED
    for password in ("foobar", "foobar"):  # in full, then fast
        with lines.pymysql("salted", password) as connection:
            connection.ping(reconnect=False)
    with pytest.raises(pymysql.OperationalError) as caught:
        lines.pymysql("salted", "wrong")
    assert caught.value.args == DENIED
    for user in ("plain", "native"):
        lines.pymysql(user, "geheim").close()
    lines.pymysql("open", "").close()
    assert [login.user for login in lines.server.logins] == ["salted", "salted", "plain", "native", "open"]


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_connector(lines: Lines, pure: bool) -> None:
    with pytest.raises(mysql.connector.Error) as caught:
        lines.connector("plain", "wrong", pure=pure)
    assert caught.value.errno == 1045
    for user in ("plain", "native"):
        lines.connector(user, "geheim", pure=pure).close()
    if lines.client:  # without TLS it would have to be told to ask for a key, which it cannot
        for password in ("foobar", "foobar"):
            lines.connector("salted", password, pure=pure).close()
    assert [login.user for login in lines.server.logins[:2]] == ["plain", "native"]


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_change_user(lines: Lines, pure: bool) -> None:
    connection = lines.connector("plain", "geheim", pure=pure)
    connection.cmd_change_user("native", "geheim", "main")
    connection.cmd_change_user("plain", "geheim", "main")
    if lines.client:
        connection.cmd_change_user("salted", "foobar", "main")
        assert lines.server.logins[-1].user == lines.relay.logins[-1].user == "salted"
    with pytest.raises(mysql.connector.Error) as caught:
        connection.cmd_change_user("plain", "wrong", "main")
    assert caught.value.errno == 1045
    with pytest.raises(mysql.connector.Error):  # this server hangs up, as MySQL does
        connection.cmd_query("SELECT 1")
    assert b"\x03SELECT 1" not in lines.server.commands
    connection.close()


def test_only_over_an_open_line_is_the_account_asked_for(lines: Lines) -> None:
    """Where the server's line is encrypted and the client's is not; it costs a round trip."""
    lines.pymysql("plain", "geheim").close()
    asked = [command for command in lines.server.commands if command.endswith(PROBE)]
    assert len(asked) == (1 if not lines.client and lines.relay._tls is not None else 0)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("together", [True, False])
def test_words_in_clear_behind_the_request_never_count(loop: str, together: bool, tmp_path: Path) -> None:
    """Whoever can write into the line could otherwise log in as somebody in the client's name."""
    lines = Lines(tmp_path, loop, client=True, server=False)
    try:
        for _ in range(20):
            raw = socket.create_connection(("127.0.0.1", lines.relay.port), timeout=10)
            size = int.from_bytes(raw.recv(4, socket.MSG_WAITALL)[:3], "little")
            greeting = parse_greeting(raw.recv(size, socket.MSG_WAITALL))
            flags = greeting.capabilities & ~8
            response = encode_response(Credentials(b"open", b"", None, b"caching_sha2_password", flags, 45), tls=True)
            injected = packet(response, 2) + packet(b"\x03DROP TABLE t", 0)
            if together:
                raw.sendall(packet(response[:32], 1) + injected)
            else:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                raw.sendall(packet(response[:32], 1))
                raw.sendall(injected)
            received = b""
            try:
                while chunk := raw.recv(65536):
                    received += chunk
            except ConnectionError:
                pass
            raw.close()
            assert b"\x00\x00\x00\x02\x00" not in received
        assert lines.server.logins == [] and lines.server.commands == []
        lines.pymysql("plain", "geheim").close()
    finally:
        lines.close()

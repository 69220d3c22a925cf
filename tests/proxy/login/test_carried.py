"""Logins carried to a server: packets and flags, odd servers and odd clients, and a caching_sha2 server over TLS."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st
from login_clients import FOOBAR, RawClient, accounts, certificate
from login_exchange import OFFERED, Exchange, greeting
from login_server import LoginServer
from mysql_mimic.types import Capabilities
from relay_server import RelayServer
from slowness import scaled
from wire_peers import LOOPS, RecordingTransport, packet, packets_of, settle

from engine.backend.url import BackendUrl
from mysql_wire.errors import MalformedPacket
from mysql_wire.flags import CACHE_METADATA, CARRIED, LONG_PASSWORD, PROGRESS, PROTOCOL_41, SSL, python_encoding
from mysql_wire.login import (
    Credentials,
    encode_change_user,
    encode_response,
    encode_tls_request,
    masked_greeting,
    parse_change_user,
    parse_greeting,
    parse_response,
)
from proxy.errors import BackendLost, LoginFailed, StreamClosed
from proxy.login.accounts import CACHING_SHA2, Account
from proxy.login.backend_tls import backend_tls
from proxy.login.carried_login import BackendTls, carry_authentication
from proxy.login.exchange import AUTH_PACKETS_MAX
from proxy.transport.backend_socket import connect_backend
from proxy.transport.client_socket import ClientSocket

# --- packets


def test_greeting_is_shown_without_what_cannot_be_relayed() -> None:
    original = greeting()
    shown, seen = masked_greeting(original, CARRIED)
    assert (seen.server_version, seen.connection_id, seen.charset, seen.status) == ("11.4-MariaDB", 4711, 45, 2)
    assert seen.nonce == b"abcdefghijklmnopqrst"
    assert parse_greeting(shown) == seen and seen.capabilities == CARRIED & ~LONG_PASSWORD
    for gone in (
        Capabilities.CLIENT_SSL,
        Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM,
    ):
        assert not seen.capabilities & gone
    for kept in (
        Capabilities.CLIENT_DEPRECATE_EOF,
        Capabilities.CLIENT_SESSION_TRACK,
        Capabilities.CLIENT_QUERY_ATTRIBUTES,
        Capabilities.CLIENT_LOCAL_FILES,
        Capabilities.CLIENT_MULTI_STATEMENTS,
        Capabilities.CLIENT_PLUGIN_AUTH,
    ):
        assert seen.capabilities & kept
    assert len(shown) == len(original)
    # Of the reserved bytes the last four hold what is carried of the extended ones; nonce and plugin are intact.
    assert shown[-45:] == bytes(6) + b"\x3d\x00\x00\x00" + original[-35:]


def test_extended_capabilities_are_only_those_of_a_mariadb() -> None:
    """The same bytes mean nothing in a server, or a client, that sets LONG_PASSWORD."""
    shown, seen = masked_greeting(greeting(0xFFFFFFFF), CARRIED)
    assert seen.capabilities == CARRIED & 0xFFFFFFFF and shown[-45:-35] == bytes(10)
    extended = Credentials(b"u", b"", None, None, PROTOCOL_41 | CACHE_METADATA | PROGRESS, 45)
    assert parse_response(encode_response(extended), CARRIED) == extended
    assert encode_response(extended)[28:32] == b"\x11\x00\x00\x00" == encode_tls_request(extended)[28:32]
    for offered in (CARRIED & ~CACHE_METADATA, CARRIED & ~CACHE_METADATA & ~LONG_PASSWORD):
        assert parse_response(encode_response(extended), offered).capabilities == PROTOCOL_41 | PROGRESS
    classic = bytearray(encode_response(extended))
    classic[0] |= LONG_PASSWORD
    assert parse_response(bytes(classic), CARRIED & ~LONG_PASSWORD).capabilities == PROTOCOL_41 | LONG_PASSWORD


@pytest.mark.parametrize("cut", range(0, 45, 4))
def test_greeting_that_is_none_is_refused(cut: int) -> None:
    with pytest.raises(MalformedPacket):
        parse_greeting(greeting()[:cut])


_TEXT = st.binary(max_size=40).map(lambda b: b.replace(b"\x00", b"."))
_CREDENTIALS = st.builds(
    Credentials,
    user=_TEXT,
    auth=st.binary(max_size=250).map(lambda b: b.replace(b"\x00", b".")),
    database=st.none() | _TEXT,
    plugin=_TEXT,
    capabilities=st.integers(0, OFFERED),
    charset=st.integers(0, 255),
    max_packet_bytes=st.integers(0, 1 << 24),
    attributes=st.dictionaries(_TEXT, _TEXT, max_size=4),
)


def consistent(credentials: Credentials) -> Credentials:
    """What the flags say and what is there agree."""
    flags = credentials.capabilities & OFFERED | PROTOCOL_41
    flags = flags | 8 if credentials.database is not None else flags & ~8
    plugin = credentials.plugin if flags & Capabilities.CLIENT_PLUGIN_AUTH else None
    attributes = credentials.attributes if flags & Capabilities.CLIENT_CONNECT_ATTRS and plugin is not None else None
    if plugin is None:
        flags &= ~int(Capabilities.CLIENT_CONNECT_ATTRS)
    return Credentials(
        credentials.user, credentials.auth, credentials.database, plugin, flags, credentials.charset,
        credentials.max_packet_bytes, attributes,
    )  # fmt: skip


@given(_CREDENTIALS)
def test_response_is_written_as_it_was_understood(credentials: Credentials) -> None:
    credentials = consistent(credentials)
    assert parse_response(encode_response(credentials), OFFERED) == credentials


@given(_CREDENTIALS)
def test_flags_that_were_not_offered_do_not_count(credentials: Credentials) -> None:
    credentials = consistent(credentials)
    raw = bytearray(encode_response(credentials))
    raw[:4] = struct.pack("<I", credentials.capabilities | 0xE4000820)
    assert parse_response(bytes(raw), OFFERED) == credentials


@given(_CREDENTIALS, st.integers(0, 65535))
def test_change_user_is_written_as_it_was_understood(credentials: Credentials, charset: int) -> None:
    given = consistent(credentials)
    credentials = Credentials(
        given.user, given.auth, given.database or b"", given.plugin, given.capabilities, charset,
        attributes=given.attributes,
    )  # fmt: skip
    payload = encode_change_user(credentials)
    assert payload[0] == 0x11
    assert parse_change_user(payload[1:], credentials.capabilities, 8) == credentials


@given(st.binary(max_size=200), st.integers(0, OFFERED))
def test_junk_raises_only_malformed_packet(junk: bytes, capabilities: int) -> None:
    for parse in (
        lambda: parse_greeting(junk),
        lambda: parse_response(junk, capabilities),
        lambda: parse_response(struct.pack("<IIB23x", capabilities, 0, 45) + junk, OFFERED),
        lambda: parse_change_user(junk, capabilities, 45),
    ):
        try:
            parse()
        except MalformedPacket:
            pass


@pytest.mark.parametrize(
    ("collation", "encoding"),
    [(45, "utf-8"), (255, "utf-8"), (33, "utf-8"), (8, "cp1252"), (28, "gbk"), (63, "utf-8"), (65535, "utf-8")],
)
def test_codec_of_a_collation(collation: int, encoding: str) -> None:
    assert python_encoding(collation) == encoding


# --- the exchange, by hand


OK = b"\x00\x00\x00\x02\x00\x00\x00"


async def test_packets_of_any_plugin_are_carried_in_any_order() -> None:
    exchange = Exchange()
    await exchange.begun()
    for payload, seq in ((b"\xfeany_plugin\x00what?", 2), (b"\x01more", 4), (b"\x01and more", 5)):
        assert packets_of(await exchange.from_server(payload, seq)) == [(seq, payload)]
        if seq != 4:
            assert packets_of(await exchange.from_client(b"answer", seq + 1)) == [(seq + 1, b"answer")]
    assert packets_of(await exchange.from_server(OK, 7)) == [(7, OK)]
    login = await exchange.task
    assert (login.user, login.connection_id, login.status, login.encoding) == ("root", 4711, 2, "utf-8")
    assert exchange.stream.seq == 0 and not exchange.stream.closed
    assert (await exchange.from_client(b"\x0e", 0)) == b""  # not ours any more: it waits for its reader
    assert await exchange.stream.read_command() == b"\x0e"


async def test_error_of_the_server_reaches_the_client_as_it_is() -> None:
    exchange = Exchange()
    await exchange.begun()
    error = b"\xff\x15\x04#28000Access denied, says the server"
    assert packets_of(await exchange.from_server(error, 2)) == [(2, error)]
    failure = await exchange.failed()
    assert (failure.errno, failure.sqlstate, failure.message) == (1045, "28000", "Access denied, says the server")
    assert await exchange.from_client(b"\x03DROP TABLE t", 0) == b""
    with pytest.raises(StreamClosed):
        await exchange.stream.read_command()


async def test_server_that_refuses_instead_of_greeting() -> None:
    exchange = Exchange()
    error = b"\xff\x10\x04Too many connections"
    assert packets_of(await exchange.from_server(error, 0)) == [(0, error)]
    assert (await exchange.failed()).errno == 1040


@pytest.mark.parametrize("junk", [b"", b"\x09old", b"\x0a8.0", greeting()[:30]])
async def test_server_that_is_none(junk: bytes) -> None:
    exchange = Exchange()
    assert (await exchange.from_server(junk, 0))[4:7] in (b"\xff\x13\x04", b"\xff\x51\x04")
    await exchange.failed()


async def test_server_that_hangs_up_during_the_login() -> None:
    exchange = Exchange()
    await exchange.begun()
    exchange.link.connection_lost(None)
    with pytest.raises(LoginFailed) as caught:
        await exchange.task
    assert (caught.value.errno, caught.value.sqlstate) == (1105, "08S01")
    [(seq, payload)] = packets_of(exchange.client.take())
    assert seq == 2 and b"backend connection lost" in payload and exchange.stream.closed


async def test_client_that_hangs_up_during_the_login() -> None:
    exchange = Exchange()
    await exchange.begun()
    exchange.stream.eof_received()
    with pytest.raises(StreamClosed):
        await exchange.task
    assert exchange.server.aborted


async def test_command_sent_ahead_of_the_verdict_ends_the_login() -> None:
    exchange = Exchange()
    await exchange.begun()
    assert await exchange.from_client(b"\x03DROP TABLE t", 0) == b""
    assert (await exchange.failed()).errno == 1156


async def test_packet_sent_ahead_with_the_right_number_never_becomes_a_command() -> None:
    exchange = Exchange()
    await exchange.begun()
    exchange.stream.data_received(packet(b"\x03DROP TABLE t", 2))
    exchange.link.data_received(packet(OK, 2))
    assert (await exchange.failed()).errno == 1156
    with pytest.raises(StreamClosed):
        await exchange.stream.read_command()


async def test_login_without_end_is_ended() -> None:
    exchange = Exchange()
    await exchange.begun()
    seq = 2
    while not exchange.task.done():
        await exchange.from_server(b"\x01again", seq)
        await exchange.from_client(b"and again", seq + 1)
        seq += 2
        assert seq < 30
    assert (await exchange.failed()).errno == 1043


@pytest.mark.parametrize("begun", [False, True])
async def test_silence_is_ended(begun: bool) -> None:
    exchange = Exchange(login_timeout=1.0 if begun else 0.05)
    if begun:
        await exchange.begun()  # within the time
    assert (await exchange.failed()).errno == 1159


async def test_response_larger_than_any_login_is_refused_at_its_header() -> None:
    exchange = Exchange()
    await exchange.from_server(greeting(), 0)
    exchange.stream.data_received((1 << 20).to_bytes(3, "little") + b"\x01")
    assert (await exchange.failed()).errno == 1153


@pytest.mark.parametrize("flags", [OFFERED | SSL, OFFERED & ~PROTOCOL_41])
async def test_client_that_cannot_be_served_is_refused(flags: int) -> None:
    exchange = Exchange()
    await exchange.from_server(greeting(), 0)
    response = struct.pack("<IIB23x", flags & ~8, 0, 45) + b"root\x00\x00\x00\x00"
    assert await exchange.from_client(response, 1) == b""
    assert (await exchange.failed()).errno == 1043


async def test_server_without_tls_where_tls_is_required() -> None:
    exchange = Exchange(tls=BackendTls(ssl.create_default_context()))
    await exchange.from_server(greeting(0xFFFFFFFF & ~SSL), 0)
    failure = await exchange.failed()
    assert failure.errno == 1105 and "TLS" in failure.message


@pytest.mark.parametrize("tls", [None, BackendTls(ssl.create_default_context())])
async def test_server_that_refuses_behind_its_greeting(tls: BackendTls | None) -> None:
    """As MariaDB does once the PROXY protocol has told it whose connection it is; it was to be encrypted next."""
    exchange = Exchange(tls=tls)
    error = b"\xff\x6a\x04#HY000Host '192.0.2.1' is not allowed to connect"
    exchange.link.data_received(packet(greeting(), 0) + packet(error, 1))
    await settle()
    exchange.client.take()
    response = encode_response(Credentials(b"root", b"x" * 20, None, b"mysql_native_password", OFFERED & ~8, 45))
    assert await exchange.from_client(response, 1) == b""
    assert packets_of(exchange.client.take()) == [(2, error)]
    assert (await exchange.failed()).errno == 1130


@pytest.mark.parametrize(("announced", "errno"), [(True, 1130), (False, 1105)])
async def test_a_refusal_that_comes_in_place_of_the_handshake(announced: bool, errno: int) -> None:
    """The same, of a server that is slow to read the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(packet(greeting(0xFFFFFFFF), 0))
        await reader.readexactly(4 + 32)  # the wish for TLS
        writer.write(packet(b"\xff\x6a\x04#HY000Host '192.0.2.1' is not allowed to connect", 1))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    backend = await connect_backend("127.0.0.1", server.sockets[0].getsockname()[1])
    stream = ClientSocket(lambda stream: None, max_packet_bytes=1000)
    client = RecordingTransport(stream)
    stream.connection_made(client)
    tls = BackendTls(ssl.create_default_context())
    login = asyncio.create_task(carry_authentication(stream, backend, tls=tls, announced=announced))
    async with asyncio.timeout(scaled(10)):
        while not client.written:
            await asyncio.sleep(0)
    credentials = Credentials(b"root", b"x" * 20, None, b"mysql_native_password", OFFERED & ~8, 45)
    stream.data_received(packet(encode_response(credentials), 1))
    with pytest.raises(LoginFailed) as caught:
        await login
    assert caught.value.errno == errno
    server.close()


async def test_nobody_at_the_other_end() -> None:
    with pytest.raises(BackendLost, match="Can't connect to MySQL server on"):
        await connect_backend("127.0.0.1", 1)
    with pytest.raises(BackendLost, match="Can't connect to MySQL server on"):
        await connect_backend("", 0, unix_socket="/nonexistent")


# --- a server with caching_sha2_password


@pytest.fixture(params=LOOPS)
def sha2(request: pytest.FixtureRequest) -> Iterator[tuple[LoginServer, RelayServer]]:
    with LoginServer(*accounts(), loop=request.param) as server, RelayServer(server.port, loop=request.param) as relay:
        yield server, relay


def test_caching_sha2_is_carried(sha2: tuple[LoginServer, RelayServer]) -> None:
    """Also in full, with the server's key: the password is never seen by the proxy."""
    server, relay = sha2
    options: Any = {"host": "127.0.0.1", "port": relay.port}
    for _ in range(2):
        pymysql.connect(**options, user="salted", password="foobar").close()
    mysql.connector.connect(**options, user="plain", password="geheim", ssl_disabled=True, use_pure=False).close()
    mysql.connector.connect(**options, user="native", password="geheim", ssl_disabled=True, use_pure=True).close()
    assert [login.user for login in server.logins] == ["salted", "salted", "plain", "native"]
    with pytest.raises(pymysql.OperationalError) as caught:
        pymysql.connect(**options, user="plain", password="wrong")
    assert caught.value.args == (1045, "Access denied for user 'plain'@'127.0.0.1' (using password: YES)")


def test_client_that_goes_on_after_a_failed_login(sha2: tuple[LoginServer, RelayServer]) -> None:
    server, relay = sha2
    raw = RawClient(relay.port)
    assert raw.login("plain", b"x" * 32).startswith(b"\xff\x15\x04")
    try:
        for _ in range(20):
            raw.send(b"\x03DROP TABLE t", 0)
    except OSError:
        pass
    assert raw.receive() == b""
    assert server.commands == [] and relay.fast_answers == [] and relay.task_answers == []
    raw.close()


@pytest.mark.parametrize("loop", LOOPS)
def test_line_to_the_server_is_encrypted(loop: str, tmp_path: Path) -> None:
    path = str(certificate(tmp_path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    trusting = ssl.create_default_context(cafile=path)
    trusting.check_hostname = False
    distrusting = ssl.create_default_context()
    with LoginServer(*accounts(), loop=loop, tls=context) as server:
        options: Any = {"host": "127.0.0.1", "user": "plain", "password": "geheim"}
        with RelayServer(server.port, loop=loop, tls=BackendTls(trusting)) as relay:
            with pymysql.connect(**options, port=relay.port) as connection:
                connection.ping(reconnect=False)
            with pytest.raises(pymysql.OperationalError) as caught:
                pymysql.connect(**{**options, "password": "wrong"}, port=relay.port)
            assert caught.value.args[0] == 1045
        with RelayServer(server.port, loop=loop, tls=BackendTls(distrusting, "127.0.0.1")) as relay:
            with pytest.raises(pymysql.OperationalError) as caught:
                pymysql.connect(**options, port=relay.port)
            assert caught.value.args[0] == 1105 and "certificate" in caught.value.args[1]


@pytest.mark.parametrize("loop", LOOPS)
def test_password_in_full_goes_on_inside_tls(loop: str, tmp_path: Path) -> None:
    """The client has an open line and sends it under a key; the server has TLS and expects it as it is."""
    path = str(certificate(tmp_path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    trusting = ssl.create_default_context(cafile=path)
    trusting.check_hostname = False
    with (
        LoginServer(*accounts(), loop=loop, tls=context) as server,
        RelayServer(server.port, loop=loop, tls=BackendTls(trusting)) as relay,
    ):
        options: Any = {"host": "127.0.0.1", "port": relay.port, "user": "salted"}
        with pytest.raises(pymysql.OperationalError) as caught:
            pymysql.connect(**options, password="wrong")
        assert caught.value.args == (1045, "Access denied for user 'salted'@'127.0.0.1' (using password: YES)")
        for password in ("foobar", "foobar"):  # in full, then fast
            with pymysql.connect(**options, password=password) as connection:
                connection.ping(reconnect=False)
        assert [login.user for login in server.logins] == ["salted", "salted"]


@pytest.mark.parametrize(
    ("url", "expected"),  # required, verifies the certificate, and the name in it
    [
        ("mysql://u@db.example/x", (False, False, False)),
        ("mysql://u@127.0.0.1/x", None),
        ("mysql://u@localhost/x", None),
        ("mysql://u@db.example/x?ssl=disabled", None),
        ("mysql://u@localhost/x?socket=/run/db.sock&ssl=required", None),
        ("mysql://u@127.0.0.1/x?ssl=required", (True, False, False)),
        ("mysql://u@db.example/x?ssl=verify_ca&ssl_ca={ca}", (True, True, False)),
        ("mysql://u@db.example/x?ssl=verify_identity&ssl_ca={ca}", (True, True, True)),
    ],
)
def test_ssl_of_the_backend_url(url: str, expected: tuple[bool, bool, bool] | None, tmp_path: Path) -> None:
    tls = backend_tls(BackendUrl.parse(url.format(ca=certificate(tmp_path))))
    if expected is None:
        assert tls is None
        return
    assert tls is not None
    context = tls.context
    assert (tls.required, context.verify_mode is ssl.CERT_REQUIRED, context.check_hostname) == expected
    assert tls.server_hostname in url  # told in every mode, verified or not
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_change_user_is_carried(sha2: tuple[LoginServer, RelayServer]) -> None:
    server, relay = sha2
    connection: Any = mysql.connector.connect(
        host="127.0.0.1", port=relay.port, user="plain", password="geheim", use_pure=True, ssl_disabled=True
    )
    connection.cmd_change_user("native", "geheim", "main")
    assert (server.logins[-1].user, relay.logins[-1].user, relay.logins[-1].database) == ("native", "native", "main")
    with pytest.raises(mysql.connector.Error):
        connection.cmd_change_user("plain", "wrong")
    with pytest.raises(mysql.connector.Error):
        connection.cmd_query("SELECT 1")
    connection.close()


def test_constants_cover_the_longest_login() -> None:
    assert AUTH_PACKETS_MAX >= 3 * 6
    assert Account.with_hash("x", FOOBAR).plugins == (CACHING_SHA2,)

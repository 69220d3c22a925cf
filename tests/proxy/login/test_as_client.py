"""The proxy as a client of the server: every plugin it speaks, on lines that are private and on such that are not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha1, sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from login_clients import accounts, certificate
from login_server import LoginServer
from servers import MariaDb, Sql

from engine.backend.url import BackendUrl
from mysql_wire.flags import CONNECT_ATTRS, DEPRECATE_EOF, EXTENDED_METADATA, PLUGIN_AUTH, PROTOCOL_41
from mysql_wire.login import Credentials, Greeting, encode_greeting, greeting_plugin, parse_greeting, parse_response
from mysql_wire.packets import frame
from proxy.errors import BackendLost, BackendRefused
from proxy.login.as_client import LoginOptions, ServerLogin, log_in
from proxy.login.backend_tls import BackendTls
from proxy.transport.backend_socket import connect_backend

WISH = LoginOptions(DEPRECATE_EOF, 45)
OK = b"\x00\x00\x00\x02\x00\x00\x00"
NONCE = bytes(range(1, 21))


def url(port: int, user: str, password: str) -> BackendUrl:
    return BackendUrl(embedded=False, host="127.0.0.1", port=port, user=user, password=password)


async def login(where: BackendUrl, tls: BackendTls | None = None, login_options: LoginOptions = WISH) -> ServerLogin:
    """Log in and say goodbye."""
    link = await connect_backend(where.host, where.port)
    try:
        return await log_in(link, where, tls, login_options)
    finally:
        link.write(frame(b"\x01"))
        link.close()
        await link.wait_lost()


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with LoginServer(*accounts()) as running:
        yield running


@pytest.mark.parametrize(
    ("user", "password"), [("plain", "geheim"), ("native", "geheim"), ("salted", "foobar"), ("open", "")]
)
async def test_native_and_caching_sha2(server: LoginServer, user: str, password: str) -> None:
    """The salted one in full under the server's key at first, then fast."""
    for _ in range(2):
        done = await login(url(server.port, user, password))
        assert (done.greeting.server_version, done.status & 2) == ("8.0.40-test", 2)
    assert [found.user for found in server.logins] == [user, user]


@pytest.mark.parametrize("user", ["plain", "native", "salted", "nobody"])
async def test_a_wrong_password_is_the_servers_error(server: LoginServer, user: str) -> None:
    with pytest.raises(BackendRefused) as refused:
        await login(url(server.port, user, "wrong"))
    assert (refused.value.errno, refused.value.sqlstate) == (1045, "28000")


async def test_in_full_inside_tls(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname, ours.verify_mode = False, ssl.CERT_NONE
    with LoginServer(*accounts(), tls=context) as running:
        for _ in range(2):
            await login(url(running.port, "salted", "foobar"), BackendTls(ours))
        await login(url(running.port, "plain", "geheim"), BackendTls(ours))
        assert len(running.logins) == 3


async def test_required_tls_that_is_not_offered(server: LoginServer) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(BackendLost, match="offers no TLS"):
        await login(url(server.port, "plain", "geheim"), BackendTls(context))
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    await login(url(server.port, "plain", "geheim"), BackendTls(context, required=False))


async def test_attributes_database_and_what_shapes_answers(server: LoginServer) -> None:
    login_options = LoginOptions(DEPRECATE_EOF, 33, "main", {"program_name": "größe", "_queuegate_user": "app"})
    done = await login(url(server.port, "plain", "geheim"), login_options=login_options)
    (seen,) = server.logins
    assert (seen.database, seen.charset) == ("main", 33)
    assert dict(seen.connect_attrs) == {"program_name": "größe", "_queuegate_user": "app"}
    assert seen.capabilities & DEPRECATE_EOF == done.capabilities & DEPRECATE_EOF == DEPRECATE_EOF


async def test_what_a_client_was_promised_must_still_be_there(server: LoginServer) -> None:
    with pytest.raises(BackendLost, match="no longer offers"):
        await login(url(server.port, "plain", "geheim"), login_options=LoginOptions(EXTENDED_METADATA, 45))


# --- servers that are not to be had here, and such that lie

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class FakeServer:
    """Greets, reads the response, then does as the test says."""

    def __init__(self, talk: Conversation, greeting: bytes) -> None:
        self.talk = talk
        self.greeting = greeting
        self.response: Credentials | None = None
        self.seq = 0
        self.fault: BaseException | None = None

    async def __aenter__(self) -> FakeServer:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.server.wait_closed()
        if self.fault is not None:
            raise self.fault

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.send(writer, self.greeting)
            if self.greeting[:1] == b"\x0a":
                self.response = parse_response(await self.read(reader), parse_greeting(self.greeting).capabilities)
            await self.talk(reader, writer)
            await writer.drain()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception as error:
            self.fault = error
        finally:
            writer.close()

    def send(self, writer: asyncio.StreamWriter, payload: bytes) -> None:
        writer.write(frame(payload, self.seq))
        self.seq = self.seq + 1 & 0xFF

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        header = await reader.readexactly(4)
        self.seq = header[3] + 1 & 0xFF
        return await reader.readexactly(int.from_bytes(header[:3], "little"))


def greeting(plugin: str, flags: int = PROTOCOL_41 | 0x8000 | PLUGIN_AUTH | CONNECT_ATTRS | DEPRECATE_EOF | 1) -> bytes:
    return encode_greeting(Greeting("8.0.0", 5, flags, 45, 2, NONCE), plugin)


KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def opened(data: bytes, nonce: bytes) -> bytes:
    oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
    masked = KEY.decrypt(data, oaep)
    return bytes(a ^ b for a, b in zip(masked, nonce * 10, strict=False))


@pytest.mark.parametrize("switched", [False, True])
async def test_sha256_on_an_open_line_asks_for_the_key(switched: bool) -> None:
    nonce = NONCE[::-1] if switched else NONCE
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert fake.response is not None
        request = fake.response.auth
        if switched:
            fake.send(writer, b"\xfesha256_password\x00" + nonce + b"\x00")
            request = await fake.read(reader)
        seen.append(request)
        fake.send(writer, b"\x01" + PEM)
        seen.append(opened(await fake.read(reader), nonce))
        fake.send(writer, OK)

    async with FakeServer(talk, greeting("mysql_native_password" if switched else "sha256_password")) as fake:
        await login(url(fake.port, "app", "geheim"))
    assert seen == [b"\x01", b"geheim\x00"]


async def test_a_switch_to_each_proof() -> None:
    nonce = NONCE[::-1]
    seen: dict[str, bytes] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for plugin in ("mysql_native_password", "caching_sha2_password"):
            fake.send(writer, b"\xfe" + plugin.encode() + b"\x00" + nonce + b"\x00")
            seen[plugin] = await fake.read(reader)
        fake.send(writer, b"\x01\x03")
        fake.send(writer, OK)

    async with FakeServer(talk, greeting("no_such_plugin")) as fake:
        await login(url(fake.port, "app", "geheim"))
        assert fake.response is not None
        assert fake.response.plugin == b"mysql_native_password"
    once = sha1(b"geheim").digest()
    mask = sha1(nonce + sha1(once).digest()).digest()
    assert seen["mysql_native_password"] == bytes(a ^ b for a, b in zip(once, mask, strict=True))
    first = sha256(b"geheim").digest()
    mask = sha256(sha256(first).digest() + nonce).digest()
    assert seen["caching_sha2_password"] == bytes(a ^ b for a, b in zip(first, mask, strict=True))


LIES: dict[str, tuple[bytes, list[bytes]]] = {
    "plugin 'mysql_clear_password'": (greeting("mysql_native_password"), [b"\xfemysql_clear_password\x00"]),
    "plugin 'dialog'": (greeting("mysql_native_password"), [b"\xfedialog\x00\x04Password: "]),
    "plugin 'mysql_old_password'": (greeting("mysql_native_password"), [b"\xfe"]),
    "asks for more": (greeting("mysql_native_password"), [b"\x01\x04"]),
    "asks for more than caching": (greeting("caching_sha2_password"), [b"\x01\x09"]),
    "no login has": (greeting("mysql_native_password"), [b"\x42"]),
    "did not end the login": (greeting("caching_sha2_password"), [b"\x01\x03"] * 20),
    "public key": (greeting("caching_sha2_password"), [b"\x01\x04", b"\x01-----BEGIN NONSENSE"]),
    "is not protocol 10": (b"\x09old", []),
}


@pytest.mark.parametrize("told", LIES)
async def test_a_server_that_wants_what_it_must_not_get(told: str) -> None:
    """And never does the password itself go over an open line."""
    first, packets = LIES[told]
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for payload in packets:
            fake.send(writer, payload)
        heard.append(await reader.read())

    async with FakeServer(talk, first) as fake:
        with pytest.raises(Exception, match=told) as refused:
            await login(url(fake.port, "app", "geheim"))
        assert isinstance(refused.value, BackendLost) or told == "is not protocol 10"
        assert "geheim" not in str(refused.value)
    assert b"geheim" not in b"".join(heard)


async def test_a_server_that_is_full_says_so_in_place_of_a_greeting() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async with FakeServer(talk, b"\xff\x10\x04Too many connections") as fake:
        with pytest.raises(BackendRefused, match="Too many connections") as refused:
            await login(url(fake.port, "app", "geheim"))
        assert refused.value.errno == 1040


async def test_a_server_that_hangs_up() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with FakeServer(talk, greeting("caching_sha2_password")) as fake:
        with pytest.raises(BackendLost):
            await login(url(fake.port, "app", "geheim"))


def test_greetings_of_our_own_are_read_as_they_are_meant() -> None:
    for flags in (PROTOCOL_41 | PLUGIN_AUTH | 1, PROTOCOL_41 | PLUGIN_AUTH | EXTENDED_METADATA):
        made = Greeting("11.4.0-MariaDB", 1 << 30, flags, 255, 2, NONCE)
        payload = encode_greeting(made, "caching_sha2_password")
        assert parse_greeting(payload) == made
        assert greeting_plugin(payload) == "caching_sha2_password"
        assert greeting_plugin(payload[:-1]) == "caching_sha2_password"
    assert greeting_plugin(encode_greeting(Greeting("5", 1, PROTOCOL_41, 8, 2, NONCE), "x")) == ""


@pytest.fixture(scope="module")
def plugins(mariadb: MariaDb) -> Iterator[MariaDb]:
    """Accounts of MariaDB's own plugins."""
    client = Sql(mariadb.connect())
    client("INSTALL SONAME 'auth_ed25519'")
    client("CREATE OR REPLACE USER edward@'127.0.0.1' IDENTIFIED VIA ed25519 USING PASSWORD('geheim')")
    client("CREATE OR REPLACE USER nathan@'127.0.0.1' IDENTIFIED BY 'pässword'")
    either = "ed25519 USING PASSWORD('a') OR mysql_native_password USING PASSWORD('b')"
    client(f"CREATE OR REPLACE USER twice@'127.0.0.1' IDENTIFIED VIA {either}")
    yield mariadb
    for user in ("edward", "nathan", "twice"):
        client(f"DROP USER {user}@'127.0.0.1'")
    client("UNINSTALL SONAME 'auth_ed25519'")
    client.close()


@pytest.mark.parametrize(
    ("user", "password"), [("edward", "geheim"), ("nathan", "pässword"), ("twice", "a"), ("twice", "b"), ("root", "")]
)
async def test_mariadbs_own_accounts(plugins: MariaDb, user: str, password: str) -> None:
    done = await login(url(plugins.port, user, password))
    assert "MariaDB" in done.greeting.server_version
    with pytest.raises(BackendRefused) as refused:
        await login(url(plugins.port, user, "wrong"))
    assert refused.value.errno == 1045


def test_an_unknown_database_is_the_servers_error(plugins: MariaDb) -> None:
    async def tried() -> Any:
        return await login(url(plugins.port, "root", ""), login_options=LoginOptions(0, 45, "nowhere"))

    with pytest.raises(BackendRefused) as refused:
        asyncio.run(tried())
    assert refused.value.errno == 1049

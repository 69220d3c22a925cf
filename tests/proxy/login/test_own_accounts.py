"""Logging in at the embedded backend: real clients, hashes that MySQL printed, and clients that lie."""

from __future__ import annotations

import asyncio
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from hypothesis import given
from hypothesis import strategies as st
from login_clients import FOOBAR, RawClient, accounts, certificate
from login_server import LoginServer
from mysql_mimic.auth import Forbidden, Success
from servers import find_binary
from wire_peers import LOOPS, RecordingTransport, packet

from mysql_wire.login import Credentials, encode_change_user, encode_response, encode_tls_request, parse_greeting
from proxy.errors import LoginFailed
from proxy.login.accounts import CACHING_SHA2, NATIVE, Account, Accounts, InvalidPasswordHash
from proxy.login.own_accounts import LoginRules, OwnIdentities, ShownServer, log_in_with_own_account
from proxy.login.plugins import CachingSha2PasswordAuthPlugin, EmbeddedUser, LoginInfo, proves
from proxy.login.sha256_crypt import sha256_crypt
from proxy.transport.client_socket import ClientSocket

Login = Callable[..., None]


def by_pymysql(port: int, user: str, password: str) -> None:
    pymysql.connect(host="127.0.0.1", port=port, user=user, password=password).close()


def by_connector(port: int, user: str, password: str) -> None:
    options = {"host": "127.0.0.1", "port": port, "user": user, "password": password, "ssl_disabled": True}
    mysql.connector.connect(use_pure=True, **options).close()


def by_connector_c(port: int, user: str, password: str) -> None:
    options = {"host": "127.0.0.1", "port": port, "user": user, "password": password, "ssl_disabled": True}
    mysql.connector.connect(use_pure=False, **options).close()


def by_cli(port: int, user: str, password: str, *options: str) -> None:
    program = find_binary("mariadb")
    if program is None:
        pytest.skip("the mariadb client is not installed")
    secret = f"-p{password}" if password else "--skip-password"
    command = [program, "--no-defaults", *options, "-h127.0.0.1", f"-P{port}", f"-u{user}", secret, "-eSELECT 1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        raise pymysql.OperationalError(int(done.stderr.split("ERROR ")[1].split()[0]), done.stderr)


def by_cli_without_plugins(port: int, user: str, password: str) -> None:
    """A client that knows only what is compiled in: mysql_native_password."""
    by_cli(port, user, password, "--plugin-dir=/nonexistent")


CLIENTS: list[Login] = [by_pymysql, by_connector, by_connector_c, by_cli]


@pytest.fixture(scope="module", params=LOOPS)
def server(request: pytest.FixtureRequest) -> Iterator[LoginServer]:
    with LoginServer(*accounts(), loop=request.param) as running:
        by_pymysql(running.port, "salted", "foobar")  # in full; the C client needs an option for that
        yield running


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("user", "password"), [("plain", "geheim"), ("native", "geheim"), ("open", "")])
def test_right_password_lets_in(server: LoginServer, client: Login, user: str, password: str) -> None:
    client(server.port, user, password)
    assert server.logins[-1].user == user


@pytest.mark.parametrize("client", [by_pymysql, by_connector_c, by_cli, by_connector])
def test_salted_hash_lets_in(server: LoginServer, client: Login) -> None:
    """The first time in full under the RSA key (see the fixture), then fast."""
    client(server.port, "salted", "foobar")
    assert server.logins[-1].user == "salted"


@pytest.mark.parametrize(("user", "password"), [("plain", "geheim"), ("native", "geheim"), ("open", "")])
def test_client_that_knows_only_the_older_plugin(server: LoginServer, user: str, password: str) -> None:
    by_cli_without_plugins(server.port, user, password)
    assert server.logins[-1].user == user


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("user", ["plain", "native", "salted", "open", "nobody", "nobody else"])
def test_wrong_password_and_unknown_name_are_the_same_error(server: LoginServer, client: Login, user: str) -> None:
    with pytest.raises((pymysql.Error, mysql.connector.Error)) as caught:
        client(server.port, user, "wrong")
    if client is by_connector_c and caught.value.args[0] == 2061:
        return  # it sends no password on an open line: it gives up where a name of that kind is asked for one
    assert caught.value.args[0] == 1045
    assert f"Access denied for user '{user}'@'127.0.0.1' (using password: YES)" in str(caught.value)


@pytest.mark.parametrize("client", [by_pymysql, by_connector, by_connector_c, by_cli])
def test_no_password_where_one_is_needed(server: LoginServer, client: Login) -> None:
    for user in ("plain", "native", "salted", "nobody"):
        with pytest.raises((pymysql.Error, mysql.connector.Error)) as caught:
            client(server.port, user, "")
        assert caught.value.args[0] == 1045
        assert "(using password: NO)" in str(caught.value)


def test_an_unknown_database_is_told_only_to_those_who_may_log_in(server: LoginServer) -> None:
    commands = len(server.commands)
    for password, errno in (("geheim", 1049), ("wrong", 1045)):
        with pytest.raises(pymysql.Error) as caught:
            pymysql.connect(host="127.0.0.1", port=server.port, user="plain", password=password, database="elsewhere")
        assert caught.value.args[0] == errno
    assert len(server.commands) == commands


def test_change_user(server: LoginServer) -> None:
    for pure in (True, False):
        connection: Any = mysql.connector.connect(
            host="127.0.0.1", port=server.port, user="plain", password="geheim", use_pure=pure, ssl_disabled=True
        )
        connection.cmd_change_user("native", "geheim", "main")
        assert (server.logins[-1].user, server.logins[-1].database) == ("native", "main")
        with pytest.raises(mysql.connector.Error) as caught:
            connection.cmd_change_user("plain", "wrong")
        assert caught.value.errno == 1045
        with pytest.raises(mysql.connector.Error):
            connection.cmd_query("SELECT 1")
        connection.close()


@pytest.fixture(params=LOOPS)
def encrypted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoginServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    with LoginServer(*accounts(), loop=request.param, tls=context) as running:
        yield running


def test_tls(encrypted: LoginServer, tmp_path: Path) -> None:
    """Inside it the password itself may travel, as a salted hash needs at first."""
    path = str(tmp_path / "server.pem")
    options: Any = {"host": "127.0.0.1", "port": encrypted.port, "user": "salted", "password": "foobar"}
    with pymysql.connect(**options, ssl={"ca": path, "check_hostname": False}) as connection:
        connection.ping(reconnect=False)
    for pure in (True, False):
        connection = mysql.connector.connect(**options, ssl_ca=path, use_pure=pure)
        connection.cmd_query("SELECT 1")
        connection.close()
    by_pymysql(encrypted.port, "plain", "geheim")  # offered, not required


# --- clients that do as they like


def test_tls_that_begins_in_the_same_segment_as_its_request(encrypted: LoginServer) -> None:
    raw = RawClient(encrypted.port)
    capabilities = parse_greeting(raw.greeting).capabilities & ~8
    credentials = Credentials(b"open", b"\x00", None, CACHING_SHA2.encode(), capabilities, 45)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)

    def exchange(step: Callable[[], Any], first: bytes = b"") -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                raw.socket.sendall(first + outgoing.read())
                first = b""
                incoming.write(raw.socket.recv(65536))

    exchange(tls.do_handshake, packet(encode_tls_request(credentials), 1))
    tls.write(packet(encode_response(credentials, tls=True), 2))
    assert exchange(lambda: tls.read(4096))[4:5] == b"\x00"
    raw.close()


def test_clear_text_behind_a_request_for_tls_is_not_believed(encrypted: LoginServer) -> None:
    raw = RawClient(encrypted.port)
    capabilities = parse_greeting(raw.greeting).capabilities & ~8
    credentials = Credentials(b"open", b"\x00", None, CACHING_SHA2.encode(), capabilities, 45)
    injected = packet(encode_response(credentials, tls=True), 2) + packet(b"\x03DROP TABLE t", 0)
    raw.socket.sendall(packet(encode_tls_request(credentials), 1) + injected)
    while raw.file.read(1):
        pass
    assert encrypted.logins == [] and encrypted.commands == []
    raw.close()


@pytest.fixture
def raw(server: LoginServer) -> Iterator[RawClient]:
    client = RawClient(server.port)
    yield client
    client.close()


@pytest.mark.parametrize("plugin", [CACHING_SHA2, NATIVE])
def test_an_empty_response_is_judged_at_once_where_there_is_no_password(raw: RawClient, plugin: str) -> None:
    """Vert.x sends it, and takes a request to switch for a failure."""
    assert raw.login("open", b"", plugin).startswith(b"\x00")


@pytest.mark.parametrize("user", ["plain", "native", "nobody"])
def test_an_empty_response_where_there_is_a_password_begins_a_switch(raw: RawClient, user: str) -> None:
    assert raw.login(user, b"").startswith(b"\xfe")


def test_client_that_goes_on_after_a_failed_login_is_not_served(server: LoginServer, raw: RawClient) -> None:
    """mysql-mimic sent the error and then served the client all the same."""
    before = len(server.commands)
    assert raw.login("plain", b"x" * 32).startswith(b"\xff\x15\x04#28000")
    try:
        for _ in range(50):
            raw.send(b"\x03DROP TABLE t", 0)
    except OSError:
        pass
    assert raw.receive() == b""
    assert len(server.commands) == before


def test_command_sent_ahead_of_a_failed_login_is_not_executed(server: LoginServer, raw: RawClient) -> None:
    before = len(server.commands)
    capabilities = parse_greeting(raw.greeting).capabilities & ~8
    response = encode_response(Credentials(b"plain", b"x" * 32, None, CACHING_SHA2.encode(), capabilities, 45))
    raw.socket.sendall(packet(response, 1) + packet(b"\x03DROP TABLE t", 0))
    assert raw.receive().startswith(b"\xff\x15\x04")
    assert raw.receive() == b""
    assert len(server.commands) == before


def test_a_first_login_by_a_client_that_asks_for_no_key() -> None:
    """It sends its password in clear text, over a connection that does not leave the machine."""
    with LoginServer(Account.with_hash("salted", FOOBAR)) as fresh:
        for password in ("foobar", "foobar"):  # in full, then fast
            by_connector(fresh.port, "salted", password)
        assert [login.user for login in fresh.logins] == ["salted", "salted"]


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\x00",
        b"\xff" * 40,
        struct.pack("<IIB23x", 0x000FA68D, 0, 45),
        struct.pack("<IIB23x", 0x000FA68D, 0, 45) + b"root",
        struct.pack("<IIB23x", 0x002FA68D, 0, 45) + b"root\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
        struct.pack("<IIB23x", 0x000FAE8D, 0, 45),  # asks for TLS, which was not offered
        struct.pack("<IIB23x", 0x0000000D, 0, 45) + b"root\x00\x00",  # not the 4.1 protocol
    ],
)
def test_junk_instead_of_a_response_is_bad_handshake(server: LoginServer, raw: RawClient, junk: bytes) -> None:
    raw.send(junk)
    assert raw.receive().startswith(b"\xff\x13\x04#08S01Bad handshake")
    assert raw.receive() == b""


def test_name_of_60_000_bytes_is_just_a_wrong_name(server: LoginServer, raw: RawClient) -> None:
    answer = raw.login("x" * 60_000, b"y" * 32)
    while not answer.startswith(b"\xff"):  # some unknown names are made to switch, or to log in in full
        raw.send(b"y" * (20 if answer.startswith(b"\xfe") else 256))
        answer = raw.receive()
    assert answer.startswith(b"\xff") and len(answer) <= 9 + 512


def test_replayed_change_user_proof_is_not_accepted(server: LoginServer) -> None:
    """A fresh nonce each time: what was overheard once is worth nothing."""
    client = RawClient(server.port)
    nonce = client.greeting[client.greeting.index(b"\x00") + 5 :][:8]
    end = client.greeting.rindex(CACHING_SHA2.encode())
    nonce += client.greeting[end - 13 : end - 1]
    digest = sha256(b"geheim").digest()
    mask = sha256(sha256(digest).digest() + nonce).digest()
    proof = bytes(a ^ b for a, b in zip(digest, mask, strict=True))
    assert client.login("plain", proof) == b"\x01\x03"
    assert client.receive().startswith(b"\x00")
    capabilities = parse_greeting(client.greeting).capabilities
    again = Credentials(b"plain", proof, None, CACHING_SHA2.encode(), capabilities, 45)
    client.send(encode_change_user(again), 0)
    switch = client.receive()
    assert switch.startswith(b"\xfecaching_sha2_password\x00") and nonce not in switch
    client.send(proof)
    assert client.receive().startswith(b"\xff\x15\x04")
    assert client.receive() == b""
    client.close()


# --- the parts


@pytest.mark.parametrize(
    ("size", "digest"),  # printed by the C library's crypt(3)
    [
        (0, b"Ya3WQXzARhhkO.IfbpzLWVfednsbGLkXtYGHvzV9br5"),
        (1, b"6LQPqaTBg2fPgguyaI5GHBW2EyAmFmYGuScb9NeyphB"),
        (31, b"S9ENPQtM3cVKEmnczOL5KY.l1TUXqbjJTE5PA/QQ3jA"),
        (32, b"dFwjjw7JJlJJJxuawfFcJv02EV6R0Bb8SnBPzBjuZq4"),
        (33, b"CnWR/ezJk1bMlYNtwxgr8MsXUcF2PI.adIccMZAdoz5"),
        (64, b"GIfZq.y8jWEaowiY2WjQg8/a7486w8qnOCawyX7dtu4"),
        (100, b"yFCkSrKesLyPzMQOOdTX1HWuvUSDUm6rTYbFPoj/P89"),
    ],
)
def test_sha256_crypt_is_the_c_librarys(size: int, digest: bytes) -> None:
    assert sha256_crypt(b"a" * size, b"saltstring12345", 5000) == digest


def test_sha256_crypt_makes_what_mysql_stored() -> None:
    assert sha256_crypt(b"foobar", FOOBAR[7:27], 5000) == FOOBAR[27:]


@pytest.mark.parametrize("text", ["", "geheim", "*" + "g" * 40, "*" + "A" * 39, "$A$005$short", "$A$FFF$" + "a" * 63])
def test_text_that_is_no_hash_is_refused(text: str) -> None:
    with pytest.raises(InvalidPasswordHash):
        Account.with_hash("x", text)


def test_secrets_are_not_shown() -> None:
    for account in accounts():
        shown = repr(account)
        assert "geheim" not in shown and "native=" not in shown and "sha2=" not in shown
        assert FOOBAR[27:].decode() not in shown


def test_unknown_name_always_gets_the_same_kind_of_account() -> None:
    known = Accounts(accounts())
    kinds = {name: known.find(name) for name in map(str, range(60))}
    for name, account in kinds.items():
        assert not account.exists and not account.passwordless
        assert known.find(name) == account
    assert len({account.plugins for account in kinds.values()}) > 1
    assert Accounts(()).find("x").plugins == (CACHING_SHA2, NATIVE)


@given(st.binary(max_size=64))
def test_junk_proves_nothing(proof: bytes) -> None:
    assert not proves(proof, sha256(sha256(b"geheim").digest()).digest(), b"n" * 20)


async def test_full_authentication_by_key_and_then_fast() -> None:
    plugin = CachingSha2PasswordAuthPlugin()
    user = EmbeddedUser(name="salted", account=Account.with_hash("salted", FOOBAR))

    def info(data: bytes) -> LoginInfo:
        return LoginInfo("salted", data, user, {}, CACHING_SHA2, None, CACHING_SHA2)

    challenge, state = await plugin.start()
    nonce = challenge[:20]
    assert await state.asend(info(b"p" * 32)) == b"\x04"
    pem = await state.asend(info(b"\x02"))
    key = serialization.load_pem_public_key(pem)
    assert isinstance(key, rsa.RSAPublicKey)
    masked = bytes(a ^ b for a, b in zip(b"foobar\x00", nonce, strict=False))
    oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
    decision = await state.asend(info(key.encrypt(masked, oaep)))
    assert decision.authenticated_as == "salted"
    challenge, state = await plugin.start()
    digest = sha256(b"foobar").digest()
    mask = sha256(sha256(digest).digest() + challenge[:20]).digest()
    assert await state.asend(info(bytes(a ^ b for a, b in zip(digest, mask, strict=True)))) == b"\x03"


@pytest.mark.parametrize("confined", [True, False])
async def test_a_password_in_clear_is_taken_within_this_machine(confined: bool) -> None:
    """MySQL's Connector/Python sends it so, and asks for no key."""
    plugin = CachingSha2PasswordAuthPlugin()
    user = EmbeddedUser(name="salted", account=Account.with_hash("salted", FOOBAR))

    async def answered(data: bytes) -> object:
        first = LoginInfo("salted", b"p" * 32, user, {}, CACHING_SHA2, None, CACHING_SHA2, confined=confined)
        _, state = await plugin.start()
        assert await state.asend(first) == b"\x04"
        return await state.asend(first.copy(data))

    wrong, right = await answered(b"wrong\x00"), await answered(b"foobar\x00")
    if confined:
        assert wrong == Forbidden() and right == Success("salted")
    else:
        assert wrong == right and isinstance(right, Forbidden) and "clear text" in (right.msg or "")


async def test_idle_client_is_given_up() -> None:
    """Silence after the greeting costs a place for the login timeout and no longer."""
    stream = ClientSocket(lambda s: None, max_packet_bytes=1000)
    transport = RecordingTransport(stream)
    stream.connection_made(transport)
    identities = OwnIdentities(Accounts(accounts()[:1]))
    with pytest.raises(LoginFailed) as caught:
        await log_in_with_own_account(stream, identities, 1, ShownServer("8"), LoginRules(timeout=0.01))
    assert caught.value.errno == 1159
    assert stream.closed and b"#08S01" in transport.take()
    await asyncio.sleep(0)


def test_the_kind_of_an_unknown_name_is_the_same_at_every_worker_and_after_a_restart() -> None:
    """A real name has one kind for ever: one whose kind changes would be known to be none."""
    one, other = Accounts(accounts()), Accounts(reversed(accounts()))
    assert [one.find(str(n)) for n in range(60)] == [other.find(str(n)) for n in range(60)]
    changed = Accounts([*accounts()[:-1], Account.with_password("another", "new")])
    assert [one.find(str(n)) for n in range(60)] != [changed.find(str(n)) for n in range(60)], "it cannot be foretold"


def test_no_packet_tells_a_name_with_a_salted_hash_from_an_unknown_one() -> None:
    """Before its first login as after it, and with a wrong password as with none."""

    def answer(name: str, auth: bytes) -> bytes:
        client = RawClient(server.port)
        try:
            return client.login(name, auth)[:9]
        finally:
            client.close()

    with LoginServer(Account.with_hash("salted", FOOBAR)) as server:
        for _ in range(2):
            for auth in (b"y" * 32, b"", b"\x00"):
                answers = {answer(name, auth) for name in ("salted", *(f"nobody {n}" for n in range(20)))}
                assert len(answers) == 1, answers
            by_pymysql(server.port, "salted", "foobar")  # the first login; then it is fast
            by_pymysql(server.port, "salted", "foobar")

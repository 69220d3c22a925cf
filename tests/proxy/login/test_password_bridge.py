"""Passwords between lines of which only one is private: every plugin, all four combinations, and the rule above all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from login_exchange import OFFERED, Exchange, greeting
from slowness import scaled
from wire_peers import packet, packets_of, run_on

from mysql_wire.errors import ProxyError
from mysql_wire.login import Credentials, encode_change_user, encode_response, parse_change_user, parse_response
from proxy.errors import LoginFailed
from proxy.login import password_bridge
from proxy.login.carried_login import carry_change_user
from proxy.login.password_bridge import PasswordBridge, Privacy, Step
from proxy.login.password_key import PasswordKey, UnusableKey, encrypt_password, password_key

NONCE = b"abcdefghijklmnopqrst"
FRESH = b"ABCDEFGHIJKLMNOPQRST"
PASSWORD = "gehéim".encode() + b"\x00"
OK = b"\x00\x00\x00\x02\x00\x00\x00"
REQUESTS = {"caching_sha2_password": b"\x02", "sha256_password": b"\x01"}


class Login(Exchange):
    """An exchange whose lines are as private as is said, and whose server has an RSA key."""

    def __init__(self, *, client: bool, server: bool, **options: Any) -> None:
        super().__init__(**options)
        self.stream.encrypted, self.link.encrypted = client, server
        self.key = PasswordKey()

    async def says(self, payload: bytes) -> list[bytes]:
        """The server says this; returns what the client is told."""
        self.link.data_received(packet(payload, self.link.seq))
        return await self.told(self.client)

    async def answers(self, payload: bytes) -> list[bytes]:
        """The client says this; returns what the server is told, or else what the client is."""
        self.stream.data_received(packet(payload, self.stream.seq))
        return await self.told(self.server, self.client)

    async def told(self, *transports: Any) -> list[bytes]:
        """Keys are made in threads: wait for whatever comes first."""
        async with asyncio.timeout(scaled(10)):
            while not (self.task.done() or any(transport.written for transport in transports)):
                await asyncio.sleep(0)
        return [payload for transport in transports for _, payload in packets_of(transport.take())]

    async def respond(self, plugin: str, auth: bytes) -> list[bytes]:
        """Greeting and response."""
        self.link.data_received(packet(greeting(), 0))
        await self.told(self.client)
        credentials = Credentials(b"root", auth, None, plugin.encode(), OFFERED & ~8, 45)
        return await self.answers(encode_response(credentials))

    async def done(self) -> None:
        assert await self.says(OK) == [OK]
        await self.task


def auth_of(payload: bytes) -> bytes:
    return parse_response(payload, OFFERED).auth


async def full_exchange(login: Login, plugin: str, nonce: bytes) -> bytes:
    """The client is asked for its password and sends it as its line demands; returns what the server is told."""
    if login.stream.private:
        [told] = await login.answers(PASSWORD)
        return told
    [told] = await login.answers(REQUESTS[plugin])
    if login.link.private:
        key = told  # ours: the server was not asked
    else:
        assert told == REQUESTS[plugin]
        [key] = await login.says(b"\x01" + login.key.pem)
    assert key.startswith(b"\x01-----BEGIN PUBLIC KEY-----")
    [told] = await login.answers(encrypt_password(PASSWORD, nonce, key[1:]))
    return told


async def received(login: Login, plugin: str, nonce: bytes, told: bytes) -> bytes:
    """The password as the server gets to know it, by the way that its own line demands."""
    if login.link.private:
        return told
    if login.stream.private:
        assert told == REQUESTS[plugin]
        assert await to_server(login, b"\x01" + login.key.pem) is True
        [(_, told)] = packets_of(login.server.take())
    assert PASSWORD[:-1] not in told
    return login.key.decrypt(told, nonce)


async def to_server(login: Login, payload: bytes) -> bool:
    """The server says this, and is answered without the client being told."""
    login.link.data_received(packet(payload, login.link.seq))
    async with asyncio.timeout(scaled(10)):
        while not login.server.written:
            await asyncio.sleep(0)
    return login.client.take() == b""


COMBINATIONS = [(client, server) for client in (False, True) for server in (False, True)]


@pytest.mark.parametrize(("client", "server"), COMBINATIONS)
async def test_caching_sha2_in_full(client: bool, server: bool) -> None:
    login = Login(client=client, server=server)
    [told] = await login.respond("caching_sha2_password", b"x" * 32)
    assert auth_of(told) == b"x" * 32
    assert await login.says(b"\x01\x04") == [b"\x01\x04"]
    told = await full_exchange(login, "caching_sha2_password", NONCE)
    assert await received(login, "caching_sha2_password", NONCE, told) == PASSWORD
    await checked(login)


@pytest.mark.parametrize(("client", "server"), COMBINATIONS)
async def test_caching_sha2_fast(client: bool, server: bool) -> None:
    login = Login(client=client, server=server)
    await login.respond("mysql_native_password", b"x" * 20)
    switch = b"\xfecaching_sha2_password\x00" + FRESH + b"\x00"
    assert await login.says(switch) == [switch]
    assert await login.answers(b"y" * 32) == [b"y" * 32]
    assert await login.says(b"\x01\x03") == [b"\x01\x03"]
    await checked(login)


@pytest.mark.parametrize("plugin", list(REQUESTS))
@pytest.mark.parametrize(("client", "server"), COMBINATIONS)
async def test_after_a_switch(plugin: str, client: bool, server: bool) -> None:
    login = Login(client=client, server=server)
    await login.respond("mysql_native_password", b"x" * 20)
    switch = b"\xfe" + plugin.encode() + b"\x00" + FRESH + b"\x00"
    assert await login.says(switch) == [switch]
    if plugin == "caching_sha2_password":
        assert await login.answers(b"y" * 32) == [b"y" * 32]
        assert await login.says(b"\x01\x04") == [b"\x01\x04"]
    told = await full_exchange(login, plugin, FRESH)
    assert await received(login, plugin, FRESH, told) == PASSWORD
    await checked(login)


@pytest.mark.parametrize(("client", "server"), COMBINATIONS)
async def test_sha256_begun_by_the_client(client: bool, server: bool) -> None:
    """Where it is the server's default plugin, the password, or the request for a key, comes with the name."""
    login = Login(client=client, server=server)
    [told] = await login.respond("sha256_password", PASSWORD if client else b"\x01")
    if not client and server:
        assert told.startswith(b"\x01-----BEGIN PUBLIC KEY-----")
        [told] = await login.answers(encrypt_password(PASSWORD, NONCE, told[1:]))
    told = auth_of(told)
    if not client and not server:
        assert told == b"\x01"
        [key] = await login.says(b"\x01" + login.key.pem)
        [told] = await login.answers(encrypt_password(PASSWORD, NONCE, key[1:]))
    assert await received(login, "sha256_password", NONCE, told) == PASSWORD
    await checked(login)


@pytest.mark.parametrize(("client", "server"), COMBINATIONS)
@pytest.mark.parametrize("plugin", list(REQUESTS))
async def test_no_password_is_none_on_every_line(plugin: str, client: bool, server: bool) -> None:
    login = Login(client=client, server=server)
    [told] = await login.respond(plugin, b"\x00")
    assert auth_of(told) == b"\x00"
    await checked(login)


@pytest.mark.parametrize(("client", "server"), [(True, False), (False, True)])
async def test_a_proof_that_is_none_is_not_sent_on(client: bool, server: bool) -> None:
    login = Login(client=client, server=server)
    [error] = await login.respond("caching_sha2_password", PASSWORD)
    assert error.startswith(b"\xff\x13\x04")
    assert await failed(login) == 1043


async def test_a_second_factor_has_a_password_and_a_nonce_of_its_own() -> None:
    login = Login(client=True, server=False)
    await login.respond("mysql_native_password", b"x" * 20)
    factor = b"\x02sha256_password\x00" + FRESH + b"\x00"
    assert await login.says(factor) == [factor]
    [told] = await login.answers(PASSWORD)
    assert await received(login, "sha256_password", FRESH, told) == PASSWORD
    await login.done()


async def test_a_password_that_is_not_under_our_key_is_left_to_the_server() -> None:
    login = Login(client=False, server=True)
    await login.respond("caching_sha2_password", b"x" * 32)
    await login.says(b"\x01\x04")
    assert await login.answers(b"z" * 256) == [b"\x00"]


OPEN, LOCAL, TLS = Privacy(False, False), Privacy(False, True), Privacy(True, True)


def in_full(client: Privacy, server: Privacy) -> PasswordBridge:
    """A login for which the server has just asked for the password itself."""
    bridge = PasswordBridge(client, server, b"caching_sha2_password", NONCE)
    assert bridge.begins(b"x" * 32) is Step.CARRY and bridge.from_server(b"\x01\x04") is Step.CARRY
    return bridge


@pytest.mark.parametrize("server", [OPEN, LOCAL, TLS])
def test_a_password_in_clear_is_taken_from_a_client_of_this_machine(server: Privacy) -> None:
    """MySQL's Connector/Python sends it so."""
    bridge = in_full(LOCAL, server)
    assert bridge.from_client(PASSWORD) is (Step.CARRY if server is TLS else Step.REQUEST_KEY)
    if server is not TLS:
        assert bridge.from_server(b"\x01-----BEGIN PUBLIC KEY-----") is Step.ENCRYPT
    assert not bridge.sent_in_clear


@pytest.mark.parametrize("server", [OPEN, LOCAL, TLS])
def test_a_password_in_clear_is_not_taken_over_a_network(server: Privacy) -> None:
    bridge = in_full(OPEN, server)
    assert bridge.from_client(PASSWORD) is (Step.DECRYPT if server is TLS else Step.CARRY)
    assert bridge.sent_in_clear


@pytest.mark.parametrize("client", [OPEN, LOCAL])
def test_what_is_under_a_key_is_no_password_in_clear(client: Privacy) -> None:
    bridge = in_full(client, TLS)
    assert bridge.from_client(b"\x02") is Step.SEND_KEY
    assert bridge.from_client(b"z" * 255 + b"\x00") is Step.DECRYPT and not bridge.sent_in_clear


async def test_the_client_is_told_that_its_password_came_in_clear() -> None:
    login = Login(client=False, server=True)
    await login.respond("caching_sha2_password", b"x" * 32)
    await login.says(b"\x01\x04")
    assert await login.answers(PASSWORD) == [b"\x00"]
    [error] = await login.says(b"\xff\x15\x04#28000Access denied for user 'root'@'192.0.2.1' (using password: YES)")
    assert b"(using password: YES); the client sent the password in clear text" in error and b"tls.certificate" in error


@pytest.mark.parametrize("key", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
async def test_a_server_without_a_key_gets_no_password(key: bytes) -> None:
    login = Login(client=True, server=False)
    await login.respond("caching_sha2_password", b"x" * 32)
    await login.says(b"\x01\x04")
    assert await login.answers(PASSWORD) == [b"\x02"]
    [error] = await login.says(b"\x01" + key)
    assert error.startswith(b"\xff\x51\x04#08S01") and b"key" in error
    assert await failed(login) == 1105
    assert PASSWORD[:-1] not in bytes(login.server.written)


def test_keys_that_are_not_used() -> None:
    elliptic = b"""-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEbTDpFOh1zAaVYS3DfoQI1bTKq1R7
2iDbDWJ8DW4EAIoB0NR9N/zlBgoH9gwTgBh2F1yM9fX9aTj4Y2Vf4e6LZg==
-----END PUBLIC KEY-----
"""
    pem = password_key().pem
    with pytest.raises(UnusableKey):
        encrypt_password(PASSWORD, NONCE, elliptic)
    with pytest.raises(UnusableKey, match="more than 213 bytes"):
        encrypt_password(b"x" * 214 + b"\x00", NONCE, pem)
    assert password_key().decrypt(encrypt_password(b"x" * 213 + b"\x00", NONCE, pem), NONCE) == b"x" * 213 + b"\x00"


@pytest.mark.parametrize(("size", "usable"), [(1024, True), (4096, True)])
def test_keys_of_other_lengths(size: int, usable: bool) -> None:
    key = rsa.generate_private_key(65537, size)
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert len(encrypt_password(PASSWORD, NONCE, pem)) == size // 8


# --- plugins that send passwords as they are


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog"])
@pytest.mark.parametrize(("client", "server"), COMBINATIONS)
async def test_passwords_in_clear_need_both_lines_private(plugin: str, client: bool, server: bool) -> None:
    login = Login(client=client, server=server)
    await login.respond("mysql_native_password", b"x" * 20)
    switch = b"\xfe" + plugin.encode() + b"\x00Password: "
    told = await login.says(switch)
    if client and server:
        assert told == [switch]
        assert await login.answers(PASSWORD) == [PASSWORD]
        await checked(login)
        return
    [error] = told  # the client was not even asked
    assert error.startswith(b"\xff\x57\x0c#HY000Connections using insecure transport are prohibited")
    assert (b"from the client" in error) is (not client)
    assert await failed(login) == 3159


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog", "something_new"])
async def test_a_password_that_comes_unasked_goes_nowhere(plugin: str) -> None:
    login = Login(client=True, server=False)
    [error] = await login.respond(plugin, PASSWORD)
    assert error.startswith(b"\xff\x57\x0c")
    assert await failed(login) == 3159
    assert login.server.written == b""


async def test_an_unknown_plugin_is_carried_where_nothing_is_lost_by_it() -> None:
    for client, server in ((False, False), (False, True), (True, True)):
        login = Login(client=client, server=server)
        await login.respond("mysql_native_password", b"x" * 20)
        assert await login.says(b"\xfesomething_new\x00data") == [b"\xfesomething_new\x00data"]
        assert await login.answers(b"answer") == [b"answer"]
        await checked(login)
    login = Login(client=True, server=False)
    await login.respond("mysql_native_password", b"x" * 20)
    await login.says(b"\xfesomething_new\x00data")
    assert await failed(login) == 3159


@pytest.mark.parametrize("plugin", [b"unix_socket", b"auth_socket"])
async def test_a_switch_to_the_systems_users_is_refused(plugin: bytes) -> None:
    login = Login(client=False, server=False)
    await login.respond("mysql_native_password", b"x" * 20)
    [error] = await login.says(b"\xfe" + plugin + b"\x00")
    assert error.startswith(b"\xff\xa2\x06#28000Access denied") and b"unix_socket" in error
    assert await failed(login) == 1698


async def test_the_servers_word_on_such_accounts_gets_a_hint() -> None:
    login = Login(client=False, server=False)
    await login.respond("mysql_native_password", b"x" * 20)
    [error] = await login.says(b"\xff\xa2\x06#28000Access denied for user 'root'@'localhost'")
    assert error.startswith(b"\xff\xa2\x06#28000Access denied for user 'root'@'localhost'; through the proxy nobody")


async def test_who_speaks_out_of_turn_with_a_password_is_cut_off() -> None:
    """It would be taken for something else, and sent on as it is."""
    login = Login(client=True, server=False)
    await login.respond("caching_sha2_password", b"x" * 32)
    [error] = await login.answers(PASSWORD)
    assert error.startswith(b"\xff\x84\x04")
    assert await failed(login) == 1156
    assert PASSWORD[:-1] not in bytes(login.server.written)


# --- COM_CHANGE_USER


@pytest.mark.parametrize(("client", "server"), COMBINATIONS)
async def test_change_user_with_a_proof_of_the_old_nonce(client: bool, server: bool) -> None:
    """A server may take it so; then that nonce counts for what comes after, too."""
    login = Login(client=client, server=server)
    await login.respond("caching_sha2_password", b"x" * 32)
    await checked(login)
    result = login.task.result()
    assert result.nonce == NONCE
    wanted = Credentials(b"other", b"y" * 32, b"", b"caching_sha2_password", result.capabilities, 45)
    payload = encode_change_user(wanted)
    login.stream.seq = 1
    login.task = asyncio.create_task(carry_change_user(login.stream, login.link, payload, result))
    [told] = await login.told(login.server)
    assert parse_change_user(told[1:], result.capabilities, 45).auth == b"y" * 32
    login.link.seq = 1
    assert await login.says(b"\x01\x04") == [b"\x01\x04"]
    told = await full_exchange(login, "caching_sha2_password", NONCE)
    assert await received(login, "caching_sha2_password", NONCE, told) == PASSWORD
    await checked(login)
    assert login.task.result().user == "other"


async def checked(login: Login) -> None:
    """The server's OK; over an open client line its account is asked for first, and nothing is known of it here."""
    if login.link.encrypted and not login.stream.encrypted:
        login.link.data_received(packet(OK, login.link.seq))
        [question] = await login.told(login.server)
        assert question.endswith(b"SHOW CREATE USER CURRENT_USER()")
        assert login.client.take() == b""
        login.link.data_received(packet(b"\xff\x1c\x07#HY000You must SET PASSWORD", 1))
        assert await login.told(login.client) == [OK]
        await login.task
        return
    await login.done()


async def failed(login: Login) -> int:
    with pytest.raises(LoginFailed) as caught:
        await login.task
    assert login.server.aborted and login.stream.closed
    return int(caught.value.errno)


# --- the rule above all, for any conversation

_PLUGINS = st.sampled_from(
    [b"caching_sha2_password", b"sha256_password", b"mysql_clear_password", b"dialog", b"mysql_native_password", b"new"]
)
_SERVER = st.one_of(
    st.just(b"\x01\x04"),
    st.just(b"\x01\x03"),
    st.just(b"\x01key"),
    st.builds(
        lambda plugin, first: first + plugin + b"\x00" + FRESH + b"\x00", _PLUGINS, st.sampled_from([b"\xfe", b"\x02"])
    ),
)


@given(_PLUGINS, st.booleans(), st.lists(st.none() | _SERVER, max_size=8))
def test_a_password_as_it_is_never_goes_from_a_private_line_to_an_open_one(
    plugin: bytes, begins_with_it: bool, script: list[bytes | None]
) -> None:
    """The client (None) sends its password whenever its plugin would, inside TLS; the server's line is open."""
    bridge = PasswordBridge(Privacy(True, True), Privacy(False, False), plugin, NONCE)
    in_force = plugin
    sends_it = {b"sha256_password", b"mysql_clear_password", b"dialog", b"new"}
    try:
        if begins_with_it and plugin in sends_it:
            assert bridge.begins(PASSWORD) is not Step.CARRY
        else:
            bridge.begins(b"x" * 32)
        for said in script:
            if said is None:
                step = bridge.from_client(PASSWORD)
                assert step is Step.REQUEST_KEY or in_force == b"mysql_native_password"
                continue
            bridge.from_server(said)
            if said[:1] in (b"\xfe", b"\x02"):
                in_force = said[1:].partition(b"\x00")[0]
    except ProxyError as error:
        assert error.errno in (1156, 1835, 3159)


def test_every_plugin_is_judged_once() -> None:
    kinds = [password_bridge._PROOFS, password_bridge._IN_CLEAR, set(password_bridge._KEY_REQUESTS)]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_nonce_too_short_for_a_key(loop: str) -> None:
    async def run() -> None:
        bridge = PasswordBridge(Privacy(True, True), Privacy(False, False), b"caching_sha2_password", b"short")
        bridge.begins(b"x" * 32)
        bridge.from_server(b"\x01\x04")
        with pytest.raises(ProxyError, match="no nonce"):
            bridge.from_client(PASSWORD)

    run_on(loop, run())

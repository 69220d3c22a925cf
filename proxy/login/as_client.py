"""Logging in at the MySQL server as a client of it, on a BackendSocket: with the account of the backend's URL.

The counterpart of `handshake`, which carries what the client itself sends: here the password is known. Supported are
mysql_native_password, caching_sha2_password (fast; in full on a private connection, or under the server's RSA key),
sha256_password and client_ed25519, each also after a switch. Nothing is answered that would give the password away: as
it is it goes over private connections only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engine.backend import password_proofs
from engine.backend.password_proofs import CACHING_SHA2, ED25519, KNOWN, NATIVE, SHA256
from engine.backend.url import BackendUrl
from mysql_client.packets import MalformedAnswer
from mysql_wire import answer_walker
from mysql_wire.flags import (
    COMPRESS,
    CONNECT_ATTRS,
    CONNECT_WITH_DB,
    LENENC_AUTH,
    LONG_PASSWORD,
    PLUGIN_AUTH,
    PROTOCOL_41,
    SECURE_CONNECTION,
    SSL,
)
from mysql_wire.login import (
    Credentials,
    Greeting,
    encode_response,
    encode_tls_request,
    greeting_plugin,
    parse_greeting,
)
from proxy.errors import BackendLost, BackendRefused
from proxy.login.backend_tls import BackendTls
from proxy.login.password_key import UnusableKey, encrypt_password
from proxy.transport.backend_socket import BackendSocket

PACKETS_MAX = 10  # the longest of these logins (a switch, a request for a key, the password) takes half of it

OF_THE_LOGIN = (
    PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | LENENC_AUTH | CONNECT_ATTRS | CONNECT_WITH_DB | SSL | COMPRESS
)
"""Capabilities that shape the login, or the connection below the packets, so that they may differ between a client and
its connection to the database."""

_OK, _ERR, _SWITCH, _MORE = 0x00, 0xFF, 0xFE, 0x01
_FAST, _IN_FULL = b"\x03", b"\x04"
_KEY_REQUESTS = {CACHING_SHA2: b"\x02", SHA256: b"\x01"}
_MAX_PACKET_BYTES = 1 << 30  # the size that we announce: rows are passed on, never buffered
_PROOFS: Mapping[str, Callable[[bytes, bytes], bytes]] = {
    NATIVE: password_proofs.native,
    CACHING_SHA2: password_proofs.caching_sha2,
    ED25519: password_proofs.ed25519,
}


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """What a connection is to be: `capabilities` those that shape answers, `charset` a collation's id."""

    capabilities: int
    charset: int
    database: str | None = None
    attributes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """A connection that is logged in: the server's greeting, its status flags, and the capabilities in
    force."""

    greeting: Greeting
    status: int
    capabilities: int


async def log_in(
    backend: BackendSocket, url: BackendUrl, tls: BackendTls | None, login_options: LoginOptions
) -> ServerLogin:
    """Log in with the URL's account.

    Raises:
        BackendRefused: the server refused; with its number, SQLSTATE and text.
        BackendLost: the connection broke, or the login needs a plugin that is not supported.
    """
    payload = await backend.read_packet()
    if payload[:1] == bytes((_ERR,)):
        raise _refusal(payload)
    greeting = parse_greeting(payload)
    if missing := login_options.capabilities & ~(OF_THE_LOGIN | LONG_PASSWORD) & ~greeting.capabilities:
        raise BackendLost(f"the server no longer offers what this client was promised (capabilities {missing:#x})")
    credentials = _credentials(url, greeting, login_options)
    if tls is not None and (greeting.capabilities & SSL or tls.required):
        if not greeting.capabilities & SSL:
            raise BackendLost("the database offers no TLS, which the configuration requires")
        backend.write_packet(encode_tls_request(credentials))
        await backend.start_tls(tls.context, tls.server_hostname)
    exchange = _Exchange(backend, url.password.encode(), greeting_plugin(payload), greeting.nonce)
    status = await exchange.run(credentials, encrypted=backend.encrypted)
    return ServerLogin(greeting, status, credentials.capabilities)


def _credentials(url: BackendUrl, greeting: Greeting, login_options: LoginOptions) -> Credentials:
    flags = login_options.capabilities & ~OF_THE_LOGIN | PROTOCOL_41 | SECURE_CONNECTION
    flags |= greeting.capabilities & (PLUGIN_AUTH | LENENC_AUTH)
    attributes = None
    if login_options.attributes and greeting.capabilities & CONNECT_ATTRS:
        flags |= CONNECT_ATTRS
        attributes = {name.encode(): value.encode() for name, value in login_options.attributes.items()}
    if login_options.database:
        flags |= CONNECT_WITH_DB
    return Credentials(
        user=url.user.encode(),
        auth=b"",
        database=login_options.database.encode() if login_options.database else None,
        plugin=b"" if flags & PLUGIN_AUTH else None,
        capabilities=flags,
        charset=login_options.charset,
        max_packet_bytes=_MAX_PACKET_BYTES,
        attributes=attributes,
    )


class _Exchange:
    """The packets from our response to the server's verdict."""

    def __init__(self, backend: BackendSocket, password: bytes, plugin: str, nonce: bytes) -> None:
        self._backend = backend
        self._password = password
        # Of others, not supported or with a challenge longer than a greeting holds, the server asks for a switch.
        self._plugin = plugin if plugin in (NATIVE, CACHING_SHA2, SHA256) else NATIVE
        self._nonce = nonce

    async def run(self, credentials: Credentials, *, encrypted: bool) -> int:
        """Returns the status flags of the server's OK."""
        backend = self._backend
        plugin = credentials.plugin if credentials.plugin is None else self._plugin.encode()
        first = replace(credentials, auth=self._proof(), plugin=plugin)
        backend.write_packet(encode_response(first, tls=encrypted))
        for _ in range(PACKETS_MAX):
            payload = await backend.read_packet()
            if payload[:1] == bytes((_OK,)):
                return _status(payload)
            reply = await self._answered(payload)
            if reply is not None:
                backend.write_packet(reply)
                await backend.drain()
        raise BackendLost(f"the server did not end the login within {PACKETS_MAX} packets")

    async def _answered(self, payload: bytes) -> bytes | None:
        kind = payload[0] if payload else -1
        if kind == _ERR:
            raise _refusal(payload)
        if kind == _SWITCH:
            return self._switched(payload[1:])
        if kind != _MORE:
            raise BackendLost(f"the server sent a packet that no login has ({kind:#04x})")
        data = payload[1:]
        if self._plugin == CACHING_SHA2 and data == _FAST:
            return None
        if self._plugin == CACHING_SHA2 and data == _IN_FULL:
            return self._in_clear if self._backend.private else _KEY_REQUESTS[CACHING_SHA2]
        if self._plugin in _KEY_REQUESTS and data.startswith(b"-----BEGIN"):
            return await self._under_key(data)
        raise BackendLost(f"the server asks for more than {self._plugin} says")

    def _switched(self, request: bytes) -> bytes:
        name, _, challenge = request.partition(b"\x00")
        plugin = name.decode("ascii", "replace")
        if plugin not in KNOWN:
            raise BackendLost(
                f"the account of the backend's URL logs in with the plugin '{plugin or 'mysql_old_password'}', which"
                f" is not spoken here; give it one of {', '.join(KNOWN)}"
            )
        self._plugin = plugin
        self._nonce = challenge[:-1] if challenge.endswith(b"\x00") and plugin != ED25519 else challenge
        return self._proof()

    def _proof(self) -> bytes:
        """What is sent first for the plugin in force."""
        if not self._password:
            return b""
        if self._plugin == SHA256:
            return self._in_clear if self._backend.private else _KEY_REQUESTS[SHA256]
        try:
            return _PROOFS[self._plugin](self._password, self._nonce)
        except RuntimeError as error:  # PyMySQL misses the library that it computes ed25519 with
            raise BackendLost(str(error)) from error

    @property
    def _in_clear(self) -> bytes:
        return self._password + b"\x00"

    async def _under_key(self, pem: bytes) -> bytes:
        try:
            return await asyncio.to_thread(encrypt_password, self._in_clear, self._nonce, pem)
        except UnusableKey as error:
            raise BackendLost(f"the password cannot be put under the server's key: {error}") from error


def _status(payload: bytes) -> int:
    try:
        return answer_walker.end_of(payload, 0, len(payload))[0]
    except MalformedAnswer as error:
        raise BackendLost(f"the server ended the login with {error}") from error


def _refusal(payload: bytes) -> BackendRefused:
    outcome = answer_walker.parse_err(payload)
    return BackendRefused(outcome.errno, outcome.message, outcome.sqlstate)

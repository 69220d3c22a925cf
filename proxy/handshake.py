"""Authentication carried between a client and the MySQL server behind the proxy, whatever the plugin.

Rules: the server greets, the server judges; the proxy carries the packets of both and only takes away capabilities that
it cannot relay. Until the server has said OK nothing of the client reaches it but login packets. After ERR the client
is shown it, and its connection is closed: a client whose login failed can execute nothing, whatever it sends next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from ssl import SSLContext

from proxy import wire
from proxy.auth_exchange import AuthExchange, pass_refusal
from proxy.capabilities import CARRIED, PROTOCOL_41, SSL, python_encoding
from proxy.errors import BackendLost, LoginFailed, MalformedPacket, ProxyError, ReadTimeout
from proxy.link import BackendLink
from proxy.login_packets import (
    Credentials,
    Greeting,
    encode_change_user,
    encode_response,
    encode_tls_request,
    masked_greeting,
    parse_change_user,
    parse_greeting,
    parse_response,
    wants_tls,
)
from proxy.stream import PacketStream

LOGIN_SECONDS = 10.0  # MySQL's connect_timeout
LOGIN_PACKET_MAX_BYTES = 64 * 1024  # a response is some hundred bytes; connection attributes may add to it


@dataclass(frozen=True, slots=True)
class LoginResult:
    """A successful login. `capabilities` are those in force, `charset` the client's collation id."""

    user: str
    database: str | None
    capabilities: int
    charset: int
    connection_id: int
    server_version: str
    connect_attrs: Mapping[str, str] = field(default_factory=dict)
    status: int = 0

    @property
    def encoding(self) -> str:
        """The Python codec of what the client sends."""
        return python_encoding(self.charset)


@dataclass(frozen=True, slots=True)
class BackendTls:
    """How to encrypt the line to the server. Not `required`: only if the server offers it."""

    context: SSLContext
    server_hostname: str | None = None
    required: bool = True


async def carry_authentication(
    stream: PacketStream, link: BackendLink, *, tls: BackendTls | None = None, login_timeout: float = LOGIN_SECONDS
) -> LoginResult:
    """Log a client in at the server.

    Raises:
        LoginFailed: the client has been told why; both lines are closed.
        StreamClosed: the client went away.
    """
    stream.set_limits(LOGIN_PACKET_MAX_BYTES)
    with closing_unless_logged_in(stream, link):
        async with asyncio.timeout(login_timeout):
            return await _log_in(stream, link, tls)


async def carry_change_user(
    stream: PacketStream, link: BackendLink, payload: bytes, login: LoginResult, *, login_timeout: float = LOGIN_SECONDS
) -> LoginResult:
    """Carry a COM_CHANGE_USER, whose payload has been read. As in MySQL, a failure ends the connection.

    Raises:
        LoginFailed: the client has been told why; both lines are closed.
        StreamClosed: the client went away.
    """
    sink, link.sink = link.sink, None
    with closing_unless_logged_in(stream, link):
        async with asyncio.timeout(login_timeout):
            result = await _change_user(stream, link, payload, login)
    if sink is not None:
        link.deliver_to(sink)
    return result


@contextlib.contextmanager
def closing_unless_logged_in(stream: PacketStream, link: BackendLink | None = None) -> Iterator[None]:
    """Whatever goes wrong: tell the client if it has not been told, and close both lines."""
    try:
        yield
    except BaseException as error:
        if link is not None:
            link.abort()
        failure = _failure(error)
        if failure is None:
            stream.close(linger=True)
            raise
        refuse(stream, failure)
        raise LoginFailed(failure.errno, failure.message, failure.sqlstate) from error


def _failure(error: BaseException) -> ProxyError | None:
    """What to tell the client; None if it has been told, or is gone."""
    if isinstance(error, TimeoutError):
        return ReadTimeout()
    if isinstance(error, MalformedPacket):
        return ProxyError(1043, f"Bad handshake ({error.message})")
    if isinstance(error, ProxyError) and not isinstance(error, LoginFailed):
        return error
    return None


def refuse(stream: PacketStream, error: ProxyError) -> None:
    """Tell the client why it may not come in, and close."""
    stream.write_many([wire.err_packet(PROTOCOL_41, error.errno, error.sqlstate, error.message)])
    stream.close(linger=True)


async def _log_in(stream: PacketStream, link: BackendLink, tls: BackendTls | None) -> LoginResult:
    payload = await link.read_packet()
    if payload.startswith(b"\xff"):
        await pass_refusal(stream, payload)
    shown, greeting = masked_greeting(payload, CARRIED)
    encrypt = _encrypts(parse_greeting(payload), tls)
    await stream.write(shown)
    credentials = read_credentials(await stream.read(), greeting.capabilities)
    if encrypt is not None:
        link.write_packet(encode_tls_request(credentials))
        await link.start_tls(encrypt.context, encrypt.server_hostname)
    link.write_packet(encode_response(credentials, tls=encrypt is not None))
    exchange = AuthExchange(stream, link, credentials.plugin or b"", greeting.nonce, encrypted=encrypt is not None)
    status = await exchange.run()
    stream.reset_seq()
    return login_result(credentials, greeting, status)


def _encrypts(greeting: Greeting, tls: BackendTls | None) -> BackendTls | None:
    if tls is None or greeting.capabilities & SSL:
        return tls
    if tls.required:
        raise BackendLost("the database offers no TLS, which the configuration requires")
    return None


def read_credentials(response: bytes, offered: int, *, encrypted: bool = False) -> Credentials:
    """A client's response to the greeting, checked.

    Raises:
        MalformedPacket: it is none, or of a client that cannot be served.
    """
    if wants_tls(response) and not encrypted:
        raise MalformedPacket("the client asks for TLS, which was not offered")
    credentials = parse_response(response, offered)
    if not credentials.capabilities & PROTOCOL_41:
        raise MalformedPacket("the client does not speak the 4.1 protocol")
    return credentials


def login_result(credentials: Credentials, greeting: Greeting, status: int) -> LoginResult:
    """What is known after the OK."""
    encoding = python_encoding(credentials.charset)
    attributes = credentials.attributes or {}
    return LoginResult(
        user=credentials.user.decode(encoding, "replace"),
        database=credentials.database.decode(encoding, "replace") if credentials.database else None,
        capabilities=credentials.capabilities,
        charset=credentials.charset,
        connection_id=greeting.connection_id,
        server_version=greeting.server_version,
        connect_attrs={k.decode(encoding, "replace"): v.decode(encoding, "replace") for k, v in attributes.items()},
        status=status,
    )


async def _change_user(stream: PacketStream, link: BackendLink, payload: bytes, login: LoginResult) -> LoginResult:
    credentials = parse_change_user(payload[1:], login.capabilities, login.charset)
    link.seq = 0
    link.write_packet(encode_change_user(credentials))
    # The server answers with a switch and a fresh nonce, or takes a proof made with the old one.
    exchange = AuthExchange(stream, link, credentials.plugin or b"", b"", encrypted=link.encrypted)
    status = await exchange.run()
    stream.reset_seq()
    greeting = Greeting(login.server_version, login.connection_id, login.capabilities, login.charset, status)
    result = login_result(credentials, greeting, status)
    return result if result.connect_attrs else replace(result, connect_attrs=login.connect_attrs)

"""Authentication carried between a client and the MySQL server behind the proxy, whatever the plugin.

Rules: the server greets, the server judges; the proxy carries the packets of both and only takes away capabilities that
it cannot relay. Until the server has answered OK only login packets of the client reach it. An ERR is sent to the
client, and its connection is closed: a client whose login failed can execute nothing, whatever it sends next.
Each of the two connections is encrypted separately: the client's by `tls` in the configuration, the server's by
its URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ssl import SSLCertVerificationError, SSLContext

from engine.model.errors import BackendUnavailable
from mysql_wire import replies
from mysql_wire.errors import MalformedPacket, ProxyError, ReadTimeout
from mysql_wire.flags import CARRIED, COMPRESS, PROTOCOL_41, SSL, python_encoding
from mysql_wire.login import (
    LOGIN_PACKET_MAX_BYTES,
    TLS_REQUEST_BYTES,
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
from proxy.errors import BackendLost, LoginFailed, RefusedByServer, StreamClosed
from proxy.login.backend_tls import BackendTls  # part of what this module offers
from proxy.login.client_tls import OfferedTls
from proxy.login.exchange import AuthExchange, pass_refusal
from proxy.login.system_database import SUBSTITUTE_DATABASE, is_system
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.transport.layers import start_compression, start_tls

log = logging.getLogger(__name__)

Admit = Callable[[str], None]
"""Called with a user's name once the password was right, before the client has its answer. Raises ProxyError to
refuse it."""

LOGIN_SECONDS = 10.0  # MySQL's connect_timeout


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
    nonce: bytes = b""
    substituted: bool = False
    """Whether its database is that of the system tables, which the server does not have."""

    @property
    def encoding(self) -> str:
        """The Python codec of what the client sends."""
        return python_encoding(self.charset)


def admit_all(user: str) -> None:
    """The Admit that refuses no client."""


async def carry_authentication(
    client: ClientSocket,
    backend: BackendSocket,
    *,
    tls: BackendTls | None = None,
    client_tls: OfferedTls | None = None,
    announced: bool = False,
    login_timeout: float = LOGIN_SECONDS,
    admit: Admit = admit_all,
) -> LoginResult:
    """Log a client in at the server. `tls` is for the connection to it, `client_tls` is offered to the client.
    `announced`: the server has received the client's address (PROXY protocol), and may refuse it at any time.

    Raises:
        LoginFailed: the client has been sent the error; both connections are closed.
        StreamClosed: the client went away.
    """
    client.commands.max_packet_bytes = LOGIN_PACKET_MAX_BYTES
    with closing_unless_logged_in(client, backend):
        async with asyncio.timeout(login_timeout):
            return await _log_in(client, backend, tls, client_tls, admit, announced=announced)


async def carry_change_user(
    client: ClientSocket,
    backend: BackendSocket,
    payload: bytes,
    login: LoginResult,
    *,
    login_timeout: float = LOGIN_SECONDS,
    admit: Admit = admit_all,
) -> LoginResult:
    """Carry a COM_CHANGE_USER, whose payload has been read.

    Raises:
        RefusedByServer: the client has been sent the error. Now MySQL hangs up, and MariaDB goes on serving the user
            from before.
        LoginFailed: any other failure; the client has been sent the error, and both connections are closed.
        StreamClosed: the client went away.
    """
    refusal: RefusedByServer | None = None
    sink = backend.sink
    backend.redirect(None)
    on_lost, backend.on_lost = backend.on_lost, None  # a server that hangs up after its refusal must not outrun it
    with closing_unless_logged_in(client, backend):
        async with asyncio.timeout(login_timeout):
            try:
                login = await _change_user(client, backend, payload, login, admit)
            except RefusedByServer as error:
                refusal = error
    backend.on_lost = on_lost
    if sink is not None:
        backend.deliver_to(sink)
    if backend.closed and on_lost is not None:
        on_lost(backend.reason)
    if refusal is not None:
        raise refusal
    return login


@contextlib.contextmanager
def closing_unless_logged_in(client: ClientSocket, backend: BackendSocket | None = None) -> Iterator[None]:
    """After any failure: send the client an error if it has none yet, and close both connections."""
    try:
        yield
    except BaseException as error:
        if backend is not None:
            backend.abort()
        failure = _failure(error)
        if failure is None:
            client.close(linger=True)
            raise
        refuse(client, failure)
        raise LoginFailed(failure.errno, failure.message, failure.sqlstate) from error


def _failure(error: BaseException) -> ProxyError | None:
    """The error for the client; None if it has one, or is gone."""
    if isinstance(error, TimeoutError):
        return ReadTimeout()
    if isinstance(error, MalformedPacket):
        return ProxyError(1043, f"Bad handshake ({error.message})")
    if isinstance(error, ProxyError) and not isinstance(error, LoginFailed):
        return error
    return None


def refuse(client: ClientSocket, error: ProxyError) -> None:
    """Send the client the error, and close."""
    client.write_many([refusal(client, error)])
    client.close(linger=True)


def refusal(client: ClientSocket, error: ProxyError | BackendUnavailable) -> bytes:
    """The ERR packet for a client that is logging in."""
    if client.seq == 0:
        return replies.early_err_packet(error.errno, error.message)
    return replies.err_packet(PROTOCOL_41, error.errno, error.sqlstate, error.message)


async def _log_in(
    client: ClientSocket,
    backend: BackendSocket,
    tls: BackendTls | None,
    client_tls: OfferedTls | None,
    admit: Admit,
    *,
    announced: bool,
) -> LoginResult:
    payload = await backend.read_packet()
    if payload.startswith(b"\xff"):
        await pass_refusal(client, payload)
    shown, greeting = masked_greeting(payload, CARRIED, offers_tls=client_tls is not None)
    encrypt = None if tls is None else _encrypts(parse_greeting(payload), tls)
    await client.write(shown)
    credentials = await receive_credentials(client, greeting.capabilities, client_tls)
    if backend.unread:  # with the client's address (PROXY protocol), a server may refuse it after its own greeting
        await pass_refusal(client, await backend.read_packet())
    if encrypt is not None:
        backend.write_packet(encode_tls_request(credentials))
        await _encrypt(client, backend, encrypt, announced=announced)
    exchange = _exchange(client, backend, credentials, greeting.nonce, admit)
    credentials = _with_auth(credentials, await exchange.first(credentials.auth))
    backend.write_packet(encode_response(at_server(credentials), tls=encrypt is not None))
    status = await exchange.run()
    client.reset_seq()
    result = login_result(credentials, greeting, status, nonce=exchange.nonce, substituted=exchange.substituted)
    if credentials.capabilities & COMPRESS:
        start_compression(client, result.capabilities)  # the server's connection is already: see AuthExchange
    return result


async def _encrypt(client: ClientSocket, backend: BackendSocket, tls: BackendTls, *, announced: bool) -> None:
    """Begin TLS with the server. Where it received the client's address, its refusal may come now, in clear text and
    in place of its part of the handshake: then it cannot be read any more."""
    try:
        await backend.start_tls(tls.context, tls.server_hostname)
    except BackendLost as error:
        if not announced or isinstance(error.__cause__, SSLCertVerificationError):
            raise
        host = client.peername[0] if client.peername else "localhost"
        message = f"Host '{host}' seems not to be allowed to connect: {error.message}"
        raise ProxyError(1130, message) from error


def _exchange(
    client: ClientSocket, backend: BackendSocket, credentials: Credentials, nonce: bytes, admit: Admit
) -> AuthExchange:
    return AuthExchange(
        client,
        backend,
        credentials.plugin or b"",
        nonce,
        capabilities=credentials.capabilities,
        admit=lambda: admit(user_of(credentials)),
        wants_system_database=_wants_system_database(credentials),
    )


def _wants_system_database(credentials: Credentials) -> bool:
    return is_system((credentials.database or b"").decode("latin-1"))


def _with_auth(credentials: Credentials, auth: bytes) -> Credentials:
    return credentials if auth is credentials.auth else replace(credentials, auth=auth)


def at_server(credentials: Credentials) -> Credentials:
    """As the server is sent them: it may not have the database of the system tables."""
    return (
        replace(credentials, database=SUBSTITUTE_DATABASE.encode())
        if _wants_system_database(credentials)
        else credentials
    )


def _encrypts(greeting: Greeting, tls: BackendTls) -> BackendTls | None:
    if greeting.capabilities & SSL:
        return tls
    if tls.required:
        raise BackendLost("the database offers no TLS, which the configuration requires")
    return None


async def receive_credentials(client: ClientSocket, offered: int, tls: OfferedTls | None) -> Credentials:
    """A client's response to the greeting, checked; its connection is encrypted first if it wishes so and may.

    Raises:
        MalformedPacket: it is none, or of a client that cannot be served.
        ProxyError: 3159, it goes on in clear text where it must not.
        StreamClosed: it is gone, or cannot agree with us on TLS.
    """
    response = await client.read()
    if wants_tls(response):
        if tls is None:
            raise MalformedPacket("the client asks for TLS, which was not offered")
        if len(response) != TLS_REQUEST_BYTES:
            raise MalformedPacket("the client says more than that it wants TLS")
        response = await _read_encrypted(client, tls.context)
    elif tls is not None and tls.required and not client.private:
        raise ProxyError(
            3159, "Connections using insecure transport are prohibited while --require_secure_transport=ON."
        )
    credentials = parse_response(response, offered)
    if not credentials.capabilities & PROTOCOL_41:
        raise MalformedPacket("the client does not speak the 4.1 protocol")
    return credentials


async def _read_encrypted(client: ClientSocket, context: SSLContext) -> bytes:
    try:
        await start_tls(client, context)
    except StreamClosed as error:
        log.info("no TLS with a client", extra={"peer": client.peername, "reason": error})
        raise
    return await client.read()


def user_of(credentials: Credentials) -> str:
    """The name that a client logs in with."""
    return credentials.user.decode(python_encoding(credentials.charset), "replace")


def login_result(
    credentials: Credentials, greeting: Greeting, status: int, *, nonce: bytes | None = None, substituted: bool = False
) -> LoginResult:
    """What is known after the OK. `nonce`: the one in force, where it may be another than the greeting's."""
    encoding = python_encoding(credentials.charset)
    attributes = credentials.attributes or {}
    return LoginResult(
        user=user_of(credentials),
        database=credentials.database.decode(encoding, "replace") if credentials.database else None,
        capabilities=credentials.capabilities,
        charset=credentials.charset,
        connection_id=greeting.connection_id,
        server_version=greeting.server_version,
        connect_attrs={k.decode(encoding, "replace"): v.decode(encoding, "replace") for k, v in attributes.items()},
        status=status,
        nonce=greeting.nonce if nonce is None else nonce,
        substituted=substituted,
    )


async def _change_user(
    client: ClientSocket, backend: BackendSocket, payload: bytes, login: LoginResult, admit: Admit
) -> LoginResult:
    credentials = parse_change_user(payload[1:], login.capabilities, login.charset)
    # The server answers with a switch and a fresh nonce, or takes a proof made with the old one.
    exchange = _exchange(client, backend, credentials, login.nonce, admit)
    credentials = _with_auth(credentials, await exchange.first(credentials.auth))
    backend.seq = 0
    backend.write_packet(encode_change_user(at_server(credentials)))
    status = await exchange.run()
    client.reset_seq()
    greeting = Greeting(
        login.server_version, login.connection_id, login.capabilities, login.charset, status, exchange.nonce
    )
    result = login_result(credentials, greeting, status, substituted=exchange.substituted)
    return result if result.connect_attrs else replace(result, connect_attrs=login.connect_attrs)

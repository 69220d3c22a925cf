"""How a client gets from an accepted socket to a session: one gateway for each kind of backend.

A gateway logs the client in and opens its connection to the database. Its result can change the user
later. A login that fails ends the connection: nothing the client sends afterwards is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from engine.backend.environment import StatementPins
from engine.backend.url import BackendUrl
from engine.clock import Clock
from engine.model.option_values import NAME_CHARACTERS
from proxy.commands.connection import ClientConnection
from proxy.login.backend_tls import RenewedBackendTls
from proxy.login.carried_login import Admit, LoginResult, carry_authentication
from proxy.login.client_tls import ClientTls
from proxy.session.session import BackendConnection, BackendTraits, ClientSession, Identity
from proxy.statements.stream_condition import server_condition
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.backend_socket import connect_backend
from proxy.transport.client_socket import ClientSocket
from proxy.transport.proxy_header import proxy_header
from proxy.upstream.relay import RelayUpstream

_PID_DIGITS_MAX = 18  # below 2^63


@dataclass(frozen=True, slots=True)
class Opened:
    """A logged-in client.

    `change_user` carries out a COM_CHANGE_USER, or raises LoginFailed once the client has been sent the error. `attach`
    is called with the connection that will serve the session. `interrupt` stops a running statement, where that is
    the proxy's task. `idle_seconds`: how long the client may be idle, where the session has its own limit.
    `idle_message`: the error when that was exceeded, where it is not the default.
    """

    session: ClientSession
    change_user: Callable[[bytes], Awaitable[None]]
    attach: Callable[[ClientConnection], None]
    interrupt: Callable[[], None] | None = None
    idle_seconds: Callable[[], float] | None = None
    idle_message: Callable[[], str | None] | None = None


class Gateway(Protocol):
    """See the module."""

    traits: BackendTraits

    async def login(self, client: ClientSocket, admit: Admit) -> Opened:
        """Log a client in, if `admit` agrees. Raises LoginFailed once the client has been sent the reason."""
        ...


def identity_of(login: LoginResult, client: ClientSocket) -> Identity:
    """The identity that logged in, as the session stores it."""
    host = ":".join(map(str, client.peername[:2])) or "localhost"
    attributes = login.connect_attrs
    pid = attributes.get("_pid", "")
    return Identity(
        login.connection_id,
        login.user,
        host,
        login.capabilities,
        login.encoding,
        attributes.get("program_name", "")[:NAME_CHARACTERS],
        int(pid) if pid.isascii() and pid.isdecimal() and len(pid) <= _PID_DIGITS_MAX else None,
    )


class RelayGateway:
    """Clients of a MySQL server: it checks their passwords, and each has a connection of its own to it."""

    traits = BackendTraits(accounts=True, condition=server_condition)

    def __init__(
        self,
        url: BackendUrl,
        clock: Clock,
        login_timeout: float,
        client_tls: ClientTls,
        pins: Callable[[], StatementPins],
    ) -> None:
        self._url = url
        self._pins = pins
        self._tls = RenewedBackendTls(url)
        self._client_tls = client_tls
        self._clock = clock
        self._login_timeout = login_timeout

    async def login(self, client: ClientSocket, admit: Admit) -> Opened:
        url, timeout = self._url, self._login_timeout
        backend = await connect_backend(url.host, url.port, unix_socket=url.socket, timeout=timeout)
        if url.proxy_protocol:
            backend.write(proxy_header(client.peername, client.sockname))
        try:
            login = await carry_authentication(
                client,
                backend,
                tls=self._tls.current(),
                client_tls=self._client_tls.offered,
                announced=url.proxy_protocol,
                login_timeout=timeout,
                admit=admit,
            )
            upstream = RelayUpstream(
                backend, client, capabilities=login.capabilities, status=login.status, encoding=login.encoding
            )
        except BaseException:
            backend.abort()
            raise
        writer = AnswerWriter(client, login.capabilities)
        session = ClientSession(
            identity_of(login, client), upstream, writer, self._clock, login.database, BackendConnection(self._pins)
        )
        _begin(session, login)

        async def change_user(payload: bytes) -> None:
            nonlocal login
            login = await upstream.change_user(payload, login, admit)
            session.change_identity(identity_of(login, client), login.database)
            _begin(session, login)

        def attach(connection: ClientConnection) -> None:
            upstream.attach(connection)
            client.fast_path = upstream.try_fast

        return Opened(session, change_user, attach)


def _begin(session: ClientSession, login: LoginResult) -> None:
    session.admin = login.user == "root"
    if login.substituted:
        session.enter_substituted()

"""How a client gets from an accepted socket to a session: one gateway for each kind of backend.

A gateway logs the client in and opens its line to the database. What it returns knows how to change the user later. A
login that fails ends the connection: nothing the client sends afterwards is looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from engine.backend.url import BackendUrl
from engine.clock import Clock
from proxy.answers import AnswerWriter
from proxy.backend_tls import backend_tls
from proxy.connection import ClientConnection
from proxy.executor import BackendTraits
from proxy.handshake import LoginResult, carry_authentication
from proxy.relay import BackendLink, RelayUpstream
from proxy.session import ClientSession, Identity
from proxy.stream import PacketStream


@dataclass(frozen=True, slots=True)
class Opened:
    """A logged-in client.

    `change_user` carries out a COM_CHANGE_USER, or raises LoginFailed once the client has been told. `attach` is called
    with the connection that will serve the session. `interrupt` stops a running statement, where that is ours to do.
    """

    session: ClientSession
    change_user: Callable[[bytes], Awaitable[None]]
    attach: Callable[[ClientConnection], None]
    interrupt: Callable[[], None] | None = None


class Gateway(Protocol):
    """See the module."""

    traits: BackendTraits

    async def login(self, stream: PacketStream) -> Opened:
        """Log a client in. Raises LoginFailed once the client has been told why not."""
        ...


def identity_of(login: LoginResult, stream: PacketStream) -> Identity:
    """Who logged in, as the session keeps it."""
    host = ":".join(map(str, stream.peername[:2])) or "localhost"
    return Identity(login.connection_id, login.user, host, login.capabilities, login.encoding)


class RelayGateway:
    """Clients of a MySQL server: it checks their passwords, and each has a line of its own to it."""

    traits = BackendTraits(accounts=True)

    def __init__(self, url: BackendUrl, clock: Clock, login_timeout: float) -> None:
        self._url = url
        self._tls = backend_tls(url)
        self._clock = clock
        self._login_timeout = login_timeout

    async def login(self, stream: PacketStream) -> Opened:
        """See Gateway."""
        url, timeout = self._url, self._login_timeout
        link = await BackendLink.connect(url.host, url.port, unix_socket=url.socket, timeout=timeout)
        try:
            login = await carry_authentication(stream, link, tls=self._tls, login_timeout=timeout)
            upstream = await RelayUpstream.open(
                link, stream, capabilities=login.capabilities, status=login.status, encoding=login.encoding
            )
        except BaseException:
            link.abort()
            raise
        writer = AnswerWriter(stream, login.capabilities)
        session = ClientSession(identity_of(login, stream), upstream, writer, self._clock, login.database)

        async def change_user(payload: bytes) -> None:
            nonlocal login
            login = await upstream.change_user(payload, login)
            session.became(identity_of(login, stream), login.database)

        def attach(connection: ClientConnection) -> None:
            upstream.decide, upstream.on_answer = connection.may_relay, connection.relayed
            upstream.on_lost = connection.lost
            stream.fast_path = upstream.try_fast

        return Opened(session, change_user, attach)

"""Connections to the MySQL server that the proxy opens for clients that it has logged in itself, with the URL's
account.

`UpstreamServer` is shared: how to reach the server, and its profile. An `UpstreamOpener` belongs to one
session and makes each new connection what the session is: capabilities, character set, database, settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mysql_mimic.types import Commands

from engine.backend.base import StorePool
from engine.backend.environment import StatementPins
from engine.backend.url import BackendUrl
from engine.model.errors import BackendError, BackendUnavailable
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from mysql_wire.packets import frame
from mysql_wire.replies import MULTI_STATEMENTS
from mysql_wire.status_flags import AUTOCOMMIT
from proxy.cluster.registry import ConnectionRegistry
from proxy.errors import LOST, BackendLost, BackendRefused, BackendUnreachable
from proxy.login.as_client import LoginOptions, ServerLogin, log_in
from proxy.login.backend_tls import RenewedBackendTls
from proxy.transport.backend_socket import BackendSocket, connect_backend
from proxy.transport.client_socket import ClientSocket
from proxy.transport.proxy_header import proxy_header
from proxy.upstream.base import read_plainly
from proxy.upstream.redaction import redacted_packet
from proxy.upstream.relay import RelayUpstream
from proxy.upstream.server_profile import BackendProfile, Collation
from proxy.upstream.session_memory import SessionMemory

CONNECT_SECONDS = 5.0  # as for the engine's own: a database that takes longer is as good as down
OPENING_MAX = 64  # at a time: below the backlog of a server's socket, which thousands of clients would overflow
LOST_STATE_NOTE = (
    "; the transaction, temporary tables, variables and prepared statements of this session are gone, and it goes on"
    " with a new connection to the database"
)
"""The end of a client's error, after the reason, once its session has lost a connection with state on it."""
_LOSS_HINT = "; whether the statement took effect is unknown" + LOST_STATE_NOTE

_CLIENTS_OWN_MISTAKES = frozenset((1044, 1049))  # the database it named
_COLLATIONS = (
    "SELECT id, collation_name, character_set_name FROM information_schema.collations"
    " WHERE id IS NOT NULL AND character_set_name IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class OpenUpstream:
    """A session's connection. `connection_id` is the server's; `fast` whether the fast path may be used on it. `forget`
    takes its id out of the registry."""

    upstream: RelayUpstream
    connection_id: int
    fast: bool
    forget: Callable[[], None]


@dataclass(frozen=True, slots=True)
class UpstreamOwner:
    """What is the same for all connections of a client. `limited`: it may only run what the proxy has read."""

    connection_id: int
    user: str
    host: str
    capabilities: int
    charset: int
    encoding: str
    attributes: Mapping[str, str]
    limited: bool


class UpstreamServer:
    """See the module. `pool` is the engine's. `pins`: how statements of the proxy's own are written there."""

    def __init__(self, url: BackendUrl, pool: StorePool, pins: Callable[[], StatementPins] = StatementPins) -> None:
        self._url = url
        self._pool = pool
        self.pins = pins
        self._tls = RenewedBackendTls(url, own=True)
        self._opening = asyncio.Semaphore(OPENING_MAX)
        self._profile: BackendProfile | None = None

    @property
    def profile(self) -> BackendProfile:
        """The server's profile when a connection was last opened."""
        assert self._profile is not None, "learn() comes first"
        return self._profile

    async def learn(self) -> None:
        """Ask the server for the profile that clients are shown.

        Raises:
            BackendError: it cannot be reached, or does not let the URL's account in.
        """
        rows = await self._pool.read(lambda connection: connection.query(_COLLATIONS))
        collations = {int(row[0]): Collation(str(row[1]).lower(), str(row[2]).lower()) for row in rows}
        try:
            backend, login = await self.connect(None, LoginOptions(0, 45, self._url.database))
        except ProxyError as error:
            raise BackendUnavailable(f"cannot log in to {self._url}: {error.message}", error.errno) from error
        backend.write(frame(bytes((Commands.COM_QUIT,))))
        backend.close()
        self._profile = BackendProfile.of(login, collations)

    async def connect(
        self, client: ClientSocket | None, login_options: LoginOptions
    ) -> tuple[BackendSocket, ServerLogin]:
        """A new connection, logged in, for the client of that stream.

        Raises:
            BackendUnreachable, BackendRefused
        """
        async with self._opening:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._connect(client, login_options)
            except TimeoutError:
                raise BackendUnreachable(f"no answer within {CONNECT_SECONDS:g} s") from None
            except BackendRefused as error:
                if error.errno in _CLIENTS_OWN_MISTAKES:
                    raise
                message = f"the database refused a connection of the proxy's own account: {error.message}"
                raise BackendRefused(error.errno, message, error.sqlstate) from error
            except BackendLost as error:
                raise BackendUnreachable(error.reason) from error

    async def _connect(
        self, client: ClientSocket | None, login_options: LoginOptions
    ) -> tuple[BackendSocket, ServerLogin]:
        url = self._url
        backend = await connect_backend(url.host, url.port, unix_socket=url.socket, timeout=CONNECT_SECONDS)
        try:
            if url.proxy_protocol:
                backend.write(proxy_header(*((client.peername, client.sockname) if client is not None else ((), ()))))
            login = await log_in(backend, url, self._tls.current(), login_options)
        except BaseException:
            backend.abort()
            raise
        if self._profile is not None:
            self._profile.learn(login)
        return backend, login

    async def kill_query(self, backend_id: int) -> None:
        """Stop what runs on a connection. It may just have ended: then there is nothing to stop."""
        try:
            await self._pool.read(lambda connection: connection.execute(f"KILL QUERY {backend_id}"))
        except BackendError:
            pass

    async def has_database(self, name: str) -> bool:
        """Whether there is a database of that name. True where the server cannot be asked: a later statement fails
        then."""
        sql = "SELECT 1 FROM information_schema.schemata WHERE schema_name = ?"
        try:
            return bool(await self._pool.read(lambda connection: connection.query(sql, (name,))))
        except BackendError:
            return True


class UpstreamOpener:
    """See the module. `database` returns the session's current one."""

    def __init__(
        self,
        server: UpstreamServer,
        owner: UpstreamOwner,
        registry: ConnectionRegistry,
        database: Callable[[], str | None],
    ) -> None:
        self._server = server
        self._registry = registry
        self._database = database
        self.owner = owner

    @property
    def database(self) -> str | None:
        return self._database()

    async def open(self, client: ClientSocket, memory: SessionMemory) -> OpenUpstream:
        """A connection on which everything is as the session has it.

        Raises:
            ProxyError: there is none to be had, or the server refuses one of the session's settings.
        """
        owner = self.owner
        attributes = {**owner.attributes, "_queuegate_user": owner.user, "_queuegate_client": owner.host}
        attributes.setdefault("program_name", "queuegate")
        # What an account may run is judged one statement at a time: then the server shall not find two in one text.
        capabilities = owner.capabilities & ~MULTI_STATEMENTS if owner.limited else owner.capabilities
        login_options = LoginOptions(capabilities, owner.charset, self._database(), attributes)
        backend, login = await self._server.connect(client, login_options)
        upstream = RelayUpstream(
            backend,
            client,
            capabilities=login.capabilities,
            status=login.status,
            encoding=owner.encoding,
            loss_hint=_LOSS_HINT,
        )
        if owner.limited:
            upstream.output.edit_error = redacted_packet
        try:
            await self._make_same(upstream, memory)
        except BaseException:
            backend.abort()
            raise
        backend_id = login.greeting.connection_id
        forget = self._registry.add_backend_id(backend_id, owner.connection_id)
        return OpenUpstream(upstream, backend_id, not owner.limited, forget)

    async def _make_same(self, upstream: RelayUpstream, memory: SessionMemory) -> None:
        if self.owner.limited:
            await read_plainly(upstream)
        for text in memory.repeated:
            await self._run(upstream, text.decode("ascii"))
        if (upstream.status ^ memory.status) & AUTOCOMMIT:
            await self._run(upstream, f"SET autocommit = {int(memory.autocommit)}")

    async def _run(self, upstream: RelayUpstream, sql: str) -> None:
        result = await upstream.collect(sql)
        if isinstance(result, Outcome) and not result.ok:
            if not upstream.alive:
                raise BackendUnreachable(result.message.removeprefix(LOST))
            message = f"a new connection to the database refused a setting of this session: {result.message}"
            raise BackendRefused(result.errno, message, result.sqlstate)

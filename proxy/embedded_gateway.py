"""The embedded backend's side of the composition: database, store and gateway; clients log in with our own accounts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from engine.backend.sqlite import SqliteDatabase
from engine.clock import Clock
from engine.sql_store import SqlMessageStore
from proxy.accounts import Account, Accounts
from proxy.answers import AnswerWriter
from proxy.auth import EmbeddedIdentities, authenticate_embedded, change_user_embedded
from proxy.capabilities import FOUND_ROWS
from proxy.config import Config, User
from proxy.connection import ClientConnection
from proxy.embedded.session import EmbeddedSession
from proxy.embedded_upstream import EmbeddedUpstream
from proxy.executor import BackendTraits
from proxy.gateway import Gateway, Opened, identity_of
from proxy.handshake import LoginResult
from proxy.registry import ConnectionRegistry
from proxy.session import ClientSession
from proxy.stream import PacketStream

EMBEDDED_VERSION = "8.0.40-queuegate"
"""What the embedded backend calls itself: the MySQL version whose dialect and answers it follows."""

EMBEDDED_DATABASE = "main"
"""The one database there is, and the current one of a client that names none."""


@contextlib.asynccontextmanager
async def embedded_backend(
    config: Config, clock: Clock, registry: ConnectionRegistry
) -> AsyncIterator[tuple[SqlMessageStore, Gateway]]:
    """Open the database file, and close it after everything else.

    Raises:
        EngineError: it cannot be opened, or another process has it open.
        OSError: its folder cannot be made.
    """
    # One folder at most: a longer path that is not there is likelier a typing error than a wish.
    await asyncio.to_thread(Path(config.backend.path).parent.mkdir, exist_ok=True)
    database = await SqliteDatabase.open(config.backend.path, lock_wait_seconds=config.limits.lock_wait_timeout)
    try:
        # Hashing passwords as MySQL does takes its time, by design: not on the event loop.
        accounts = await asyncio.to_thread(lambda: Accounts([_account(user) for user in config.accounts]))
        store = SqlMessageStore.for_sqlite(database.store_pool())
        try:
            yield store, EmbeddedGateway(database, EmbeddedIdentities(accounts), clock, registry, config)
        finally:
            await store.close()
    finally:
        await database.close()


def _account(user: User) -> Account:
    if user.password_hash is not None:
        return Account.with_hash(user.name, user.password_hash.get_secret_value())
    return Account.with_password(user.name, user.password.get_secret_value() if user.password is not None else "")


class EmbeddedGateway:
    """Clients of the embedded backend."""

    traits = BackendTraits(accounts=False)

    def __init__(
        self,
        database: SqliteDatabase,
        identities: EmbeddedIdentities,
        clock: Clock,
        registry: ConnectionRegistry,
        config: Config,
    ) -> None:
        self._database = database
        self._identities = identities
        self._clock = clock
        self._registry = registry
        self._login_timeout = config.limits.login_timeout

    async def login(self, stream: PacketStream) -> Opened:
        """See Gateway."""
        login = await authenticate_embedded(
            stream,
            self._identities,
            connection_id=self._registry.new_id(),
            server_version=EMBEDDED_VERSION,
            database=EMBEDDED_DATABASE,
            login_timeout=self._login_timeout,
        )
        return self._open(stream, login)

    def _open(self, stream: PacketStream, login: LoginResult) -> Opened:
        writer = AnswerWriter(stream, login.capabilities)
        embedded = self._session(login, stream)
        upstream = EmbeddedUpstream(embedded, writer, codec=login.encoding)
        session = ClientSession(identity_of(login, stream), upstream, writer, self._clock, EMBEDDED_DATABASE)

        async def change_user(payload: bytes) -> None:
            nonlocal login
            login = await change_user_embedded(
                stream, self._identities, payload, login, database=EMBEDDED_DATABASE, login_timeout=self._login_timeout
            )
            await upstream.replace_session(self._session(login, stream), codec=login.encoding)
            session.became(identity_of(login, stream), EMBEDDED_DATABASE)

        def attach(connection: ClientConnection) -> None:
            """Nothing to do: every command is answered in the connection's own task."""

        return Opened(session, change_user, attach, upstream.interrupt)

    def _session(self, login: LoginResult, stream: PacketStream) -> EmbeddedSession:
        return EmbeddedSession(
            self._database,
            connection_id=login.connection_id,
            user=login.user,
            host=identity_of(login, stream).host,
            found_rows=bool(login.capabilities & FOUND_ROWS),
            server_version=EMBEDDED_VERSION,
            process_list=self._registry.processes,
        )

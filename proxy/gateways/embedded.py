"""The embedded backend's side of the composition: database, store and gateway; clients log in with our own accounts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from embedded.database.sqlite import SqliteDatabase
from embedded.database.store_pool import SqliteStoreConnection, SqliteStorePool
from embedded.session.client_text import charset_of
from embedded.session.results import OkResult
from embedded.session.session import EmbeddedSession
from embedded.session.shared_database import Shared
from embedded.session.state import Identity
from embedded.session.statement_limits import UNBOUNDED, Bounds
from embedded.session.variable_values import IDLE_MAX
from engine.clock import Clock
from engine.engine import Engine
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import Condition, QueueName, TopicSpec
from engine.model.schedules import Insertion, MakeInsert
from engine.store.sql_store import SqlMessageStore
from engine.store.topic_log import Conditions
from engine.store.topic_state import Define
from mysql_wire.flags import FOUND_ROWS, INTERACTIVE
from mysql_wire.login import Credentials
from mysql_wire.outcome import Outcome
from proxy.cluster.registry import ConnectionRegistry
from proxy.commands.connection import ClientConnection
from proxy.config import Config
from proxy.gateways.configured import configured_accounts, configured_rights
from proxy.gateways.database_accounts import Gateway, Opened, identity_of
from proxy.login.carried_login import Admit, LoginResult, user_of
from proxy.login.client_tls import ClientTls
from proxy.login.own_accounts import (
    LoginRules,
    OwnIdentities,
    ShownServer,
    change_own_user,
    database_of,
    log_in_with_own_account,
    only_database,
)
from proxy.login.system_database import SUBSTITUTE_DATABASE, is_system
from proxy.session.guard import GuardedUpstream, check_charset, limit
from proxy.session.session import BackendConnection, BackendTraits, ClientSession
from proxy.statements.stream_condition import check_sql, filter_sql, group_sql, of_condition
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.base import read_plainly
from proxy.upstream.embedded import EmbeddedUpstream
from rewriter.errors import RewriteError
from rewriter.plan import StreamFilter
from rewriter.plans.schedules import insertion_sql

EMBEDDED_VERSION = "8.4.6-queuegate"
"""What the embedded backend calls itself: the MySQL version whose dialect and answers it follows. Django 6.1 refuses
any before 8.4."""

_SWITCH_SECONDS = 0.001

EMBEDDED_DATABASE = "main"
"""The one database there is, and the current one of a client that names none."""


@contextlib.asynccontextmanager
async def embedded_backend(
    config: Config, clock: Clock, registry: ConnectionRegistry, client_tls: ClientTls
) -> AsyncIterator[tuple[SqlMessageStore, Gateway]]:
    """Open the database file, and close it after everything else.

    Raises:
        EngineError: it cannot be opened, another process has it open, or its folder is not there.
        OSError: the folder `data` of a new working directory cannot be made.
    """
    # Statements' threads give way to the event loop so often. Python's own 5 ms would be waited for at every turn.
    sys.setswitchinterval(_SWITCH_SECONDS)
    await asyncio.to_thread(_have_folder, Path(config.backend.path).parent)
    database = await SqliteDatabase.open(config.backend.path, lock_wait_seconds=config.limits.lock_wait_timeout)
    try:
        identities = OwnIdentities(await configured_accounts(config))
        store = SqlMessageStore.for_sqlite(
            SqliteStorePool(database), _definer(database), _conditions(database), _inserts(database)
        )
        try:
            yield store, EmbeddedGateway(database, identities, clock, registry, config, client_tls)
        finally:
            await store.close()
    finally:
        await database.close()


def _have_folder(folder: Path) -> None:
    """One folder is made, in the working directory, as the URL that is set at first needs it. Any other that is not
    there is likelier a typing error than intended: messages would be looked for elsewhere. Raises BackendUnavailable.
    """
    if not folder.is_absolute() and len(folder.parts) <= 1:
        folder.mkdir(exist_ok=True)
    elif not folder.is_dir():
        raise BackendUnavailable(f"the folder '{folder}' of the database file is not there; make it, or mend `backend`")


def _definer(database: SqliteDatabase) -> Define:
    """Runs the engine's own definitions, as a client's: so that clients can use what is made."""

    async def define(sql: str) -> Sequence[tuple[Any, ...]]:
        session = EmbeddedSession(database, Identity(0, "", "", EMBEDDED_VERSION), lambda: ())
        try:
            result = await session.execute(sql)
            if isinstance(result, OkResult):
                return ()
            return [row async for batch in result.batches for row in batch]
        except RewriteError as error:
            raise BackendError(error.message, error.errno, error.sqlstate) from error
        finally:
            await session.close()

    return define


def _conditions(database: SqliteDatabase) -> Conditions:
    """Reads the filters of consumer groups as a session would that has set nothing."""

    async def condition(topic: TopicSpec, text: str) -> Condition:
        sql = group_sql(topic, text)
        session = EmbeddedSession(database, Identity(0, "", "", EMBEDDED_VERSION), lambda: ())
        try:
            compiled, _ = await session.condition(topic.name.table, sql)
            return Condition(compiled, (("time_zone", "+00:00"),), text)
        except RewriteError as error:
            raise BackendError(f"filter: {error.message}", error.errno, error.sqlstate) from error
        finally:
            await session.close()

    return condition


def _inserts(database: SqliteDatabase) -> MakeInsert:
    """Makes messages as a client's session would; they wait for no row, as one transaction writes at a time."""

    async def insert(messages: Insertion, waits: bool) -> Callable[[SqliteStoreConnection], object]:
        session = EmbeddedSession(database, Identity(0, "", "", EMBEDDED_VERSION), lambda: ())
        try:
            work = await session.insertion(insertion_sql(messages))
        except RewriteError as error:
            raise BackendError(error.message, error.errno, error.sqlstate) from error
        finally:
            await session.close()

        def run(connection: SqliteStoreConnection) -> None:
            try:
                work(connection.connection)
            except RewriteError as error:
                raise BackendError(error.message, error.errno, error.sqlstate) from error

        return run

    return insert


async def _enter(session: ClientSession, embedded: EmbeddedSession, login: LoginResult) -> None:
    """A client may begin in the database of the system tables."""
    if is_system(login.database):
        await embedded.use(SUBSTITUTE_DATABASE)
        session.enter_substituted()


async def embedded_condition(
    session: ClientSession, queue: QueueName, chosen: StreamFilter, values: Sequence[object], _: int | None = None
) -> Condition:
    """See proxy.session.session.MakeCondition."""
    upstream = _upstream(session)
    checked = await upstream.collect(check_sql(queue, chosen, values))
    if isinstance(checked, Outcome):
        raise of_condition(BackendError(checked.message or "no result", checked.errno or 1105, checked.sqlstate))
    compiled, zone = await upstream.session.condition(queue.table, filter_sql(chosen.parts, values))
    return Condition(compiled, (("time_zone", zone),), chosen.text)


def check_stream(session: ClientSession) -> None:
    """Raises SqlError where the client's own transaction would block the writing of its deliveries."""
    _upstream(session).session.check_stream()


def holds_writer(session: ClientSession) -> bool:
    """See BackendTraits."""
    return _upstream(session).session.holds_writer


def _upstream(session: ClientSession) -> EmbeddedUpstream:
    upstream = session.upstream
    if isinstance(upstream, GuardedUpstream):
        upstream = upstream.behind
    assert isinstance(upstream, EmbeddedUpstream)
    return upstream


class EmbeddedGateway:
    """Clients of the embedded backend."""

    traits = BackendTraits(
        accounts=False,
        condition=embedded_condition,
        check_stream=check_stream,
        partitions=False,
        holds_writer=holds_writer,
    )

    def __init__(
        self,
        database: SqliteDatabase,
        identities: OwnIdentities,
        clock: Clock,
        registry: ConnectionRegistry,
        config: Config,
        client_tls: ClientTls,
    ) -> None:
        self._database = database
        self._identities = identities
        self._clock = clock
        self._registry = registry
        self._rights = configured_rights(config)
        self._login_timeout = config.limits.login_timeout
        self._client_tls = client_tls
        self._bounds = Bounds(config.limits.statement_time, config.limits.idle_transaction)
        # A year is the maximum of the variables, as good as no limit.
        idle = max(int(config.limits.idle_timeout), 1) if config.limits.idle_timeout else IDLE_MAX
        Shared.of(database).global_variables.update(wait_timeout=idle, interactive_timeout=idle)

    async def login(self, client: ClientSocket, admit: Admit) -> Opened:
        login = await log_in_with_own_account(
            client,
            self._identities,
            self._registry.new_id(),
            ShownServer(EMBEDDED_VERSION),
            self._rules(admit),
        )
        return await self._open(client, login, admit)

    def _rules(self, admit: Admit) -> LoginRules:
        return LoginRules(self._check, self._client_tls.offered, self._login_timeout, admit)

    async def _check(self, credentials: Credentials) -> None:
        """What a client asks for besides: the one database, and a character set in which its SQL can be judged."""
        limited = self._rights[user_of(credentials)].queues is not None
        if limited or not is_system(database_of(credentials)):
            await only_database(EMBEDDED_DATABASE)(credentials)
        if limited:
            check_charset(charset_of(credentials.charset))

    async def _open(self, client: ClientSocket, login: LoginResult, admit: Admit) -> Opened:
        writer = AnswerWriter(client, login.capabilities)
        embedded = self._session(login, client)
        upstream = EmbeddedUpstream(embedded, writer)
        own = BackendConnection()
        session = ClientSession(identity_of(login, client), upstream, writer, self._clock, EMBEDDED_DATABASE, own)
        await _enter(session, embedded, login)
        await self._prepare(session, upstream)
        engine: Engine | None = None

        async def change_user(payload: bytes) -> None:
            nonlocal login
            login = await change_own_user(client, self._identities, payload, login, self._rules(admit))
            new_session = self._session(login, client)
            await upstream.replace_session(new_session)
            session.change_identity(identity_of(login, client), EMBEDDED_DATABASE)
            await _enter(session, new_session, login)
            await self._prepare(session, upstream)
            if engine is not None:
                limit(session, upstream, self._rights[login.user], engine, resets_modes=True)

        def attach(connection: ClientConnection) -> None:
            nonlocal engine
            engine = connection.executor.engine
            limit(session, upstream, self._rights[login.user], engine, resets_modes=True)

        return Opened(
            session,
            change_user,
            attach,
            upstream.interrupt,
            lambda: upstream.session.idle_seconds,
            lambda: upstream.session.idle_message,
        )

    async def _prepare(self, session: ClientSession, upstream: EmbeddedUpstream) -> None:
        """The global sql_mode may be one in which SQL reads otherwise than it is judged."""
        if self._rights[session.identity.user].queues is not None:
            await read_plainly(upstream)

    def _session(self, login: LoginResult, client: ClientSocket) -> EmbeddedSession:
        rights = self._rights[login.user]
        owner = Identity(
            login.connection_id,
            login.user,
            identity_of(login, client).host,
            EMBEDDED_VERSION,
            charset_of(login.charset),
            client.sockname[1] if len(client.sockname) > 1 else 0,
        )
        return EmbeddedSession(
            self._database,
            owner,
            self._registry.processes,
            found_rows=bool(login.capabilities & FOUND_ROWS),
            interactive=bool(login.capabilities & INTERACTIVE),
            bounds=UNBOUNDED if rights.queues is None or rights.admin else self._bounds,
        )

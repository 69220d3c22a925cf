"""`auth: proxy` before a MySQL server: the proxy checks accounts of its own, and all connections are the URL's
account's.

A client is greeted with the server's profile, logged in whether or not the server is up, and gets a
connection at first need (`lazy_upstream`). Accounts with `queues` are limited to them (`guard`); all others may do
whatever the URL's account may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from mysql_mimic.charset import CharacterSet

from engine.backend.mysql import MySQLPool
from engine.clock import Clock
from engine.engine import Engine
from mysql_wire.errors import ProxyError
from mysql_wire.login import Credentials
from proxy.cluster.registry import ConnectionRegistry
from proxy.commands.connection import ClientConnection
from proxy.config import Config
from proxy.gateways.configured import configured_accounts, configured_rights
from proxy.gateways.database_accounts import Opened, identity_of
from proxy.login.accounts import NATIVE, Accounts
from proxy.login.carried_login import Admit, LoginResult, user_of
from proxy.login.client_tls import ClientTls
from proxy.login.own_accounts import (
    LoginRules,
    OwnIdentities,
    ShownServer,
    change_own_user,
    database_of,
    log_in_with_own_account,
)
from proxy.login.system_database import is_system
from proxy.rights.account_rights import AccountRights
from proxy.session.guard import check_charset, limit
from proxy.session.session import BackendConnection, BackendTraits, ClientSession
from proxy.statements.stream_condition import server_condition
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.lazy import LazyUpstream
from proxy.upstream.opener import UpstreamOpener, UpstreamOwner, UpstreamServer
from proxy.upstream.session_memory import SessionMemory
from rewriter.text.queue_names import UNKNOWN_DATABASE

_UTF8MB4 = int(CharacterSet.utf8mb4)
_CALLED_OLD = "5.5.5-"
"""Before its version MariaDB (up to 10.11) puts an old one of MySQL. MySQL Connector/J believes it, and then cannot
read the packets of caching_sha2_password; so there the older plugin is offered first, as MariaDB does."""


class _Check:
    """What one login asks for besides, judged. `substituted` is the result, once there is one."""

    def __init__(self, judge: Callable[[Credentials], Awaitable[bool]]) -> None:
        self._judge = judge
        self.substituted = False

    async def __call__(self, credentials: Credentials) -> None:
        self.substituted = await self._judge(credentials)


class ProxyAccountsGateway:
    """See the module."""

    traits = BackendTraits(accounts=False, one_account=True, condition=server_condition)

    def __init__(
        self,
        server: UpstreamServer,
        accounts: Accounts,
        rights: Mapping[str, AccountRights],
        config: Config,
        clock: Clock,
        registry: ConnectionRegistry,
        client_tls: ClientTls,
    ) -> None:
        self._server = server
        self._identities = OwnIdentities(accounts)
        self._rights = rights
        self._existing_databases = {config.backend.database}
        self._clock = clock
        self._registry = registry
        self._login_timeout = config.limits.login_timeout
        self._client_tls = client_tls
        self._killing: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls, config: Config, pool: MySQLPool, clock: Clock, registry: ConnectionRegistry, client_tls: ClientTls
    ) -> ProxyAccountsGateway:
        """Read the server's profile.

        Raises:
            BackendError: it cannot be reached.
        """
        server = UpstreamServer(config.backend, pool, pool.statement_pins)
        await server.learn()
        rights = configured_rights(config)
        return cls(server, await configured_accounts(config), rights, config, clock, registry, client_tls)

    async def login(self, client: ClientSocket, admit: Admit) -> Opened:
        profile, check = self._server.profile, _Check(self._judge)
        login = await log_in_with_own_account(
            client,
            self._identities,
            self._registry.new_id(),
            ShownServer(
                profile.server_version,
                profile.offered,
                profile.charset,
                profile.greeting_status,
                NATIVE if profile.server_version.startswith(_CALLED_OLD) else None,
            ),
            self._rules(check, admit),
        )
        return self._open(client, login, admit, substituted=check.substituted)

    def _rules(self, check: _Check, admit: Admit) -> LoginRules:
        return LoginRules(check, self._client_tls.offered, self._login_timeout, admit)

    async def _judge(self, credentials: Credentials) -> bool:
        """What a client asks for besides: its database, and a character set in which its statements can be judged.
        Returns whether that database is the one of the system tables, and the server has none of that name."""
        user, database = user_of(credentials), database_of(credentials)
        queues = self._rights[user].queues
        if queues is not None:
            check_charset(self._server.profile.charset_of(credentials.charset))
            if database is not None and not queues.can_enter(database):
                raise ProxyError(1044, f"Access denied for user '{user}' to database '{database}'")
        if database is None or database in self._existing_databases or await self._server.has_database(database):
            return False
        if is_system(database) and queues is None:
            return True
        raise ProxyError(1049, f"Unknown database '{database}'")

    def _open(self, client: ClientSocket, login: LoginResult, admit: Admit, *, substituted: bool) -> Opened:
        writer = AnswerWriter(client, login.capabilities)
        account = self._rights[login.user]
        session: ClientSession

        def opener(login: LoginResult, account: AccountRights) -> UpstreamOpener:
            owner = self._owner(login, identity_of(login, client).host, account)
            return UpstreamOpener(self._server, owner, self._registry, lambda: _current_database(session))

        lazy = LazyUpstream(client, writer, opener(login, account), self._memory(login, account))
        backend = BackendConnection(self._server.pins, lambda: lazy.backend_id)
        session = ClientSession(identity_of(login, client), lazy, writer, self._clock, login.database, backend)
        if substituted:
            session.enter_substituted()
        engine: Engine | None = None

        async def change_user(payload: bytes) -> None:
            nonlocal login
            assert engine is not None
            check = _Check(self._judge)
            login = await change_own_user(
                client,
                self._identities,
                payload,
                login,
                self._rules(check, admit),
                self._server.profile.greeting_status,
            )
            account = self._rights[login.user]
            lazy.restart(opener(login, account), self._memory(login, account))
            session.change_identity(identity_of(login, client), login.database)
            if check.substituted:
                session.enter_substituted()
            limit(session, lazy, account, engine)

        def attach(connection: ClientConnection) -> None:
            nonlocal engine
            engine = connection.executor.engine
            limit(session, lazy, account, engine)
            lazy.attach(connection)

        def interrupt() -> None:
            if (backend_id := lazy.answering) is not None:
                task = asyncio.get_running_loop().create_task(self._server.kill_query(backend_id))
                self._killing.add(task)
                task.add_done_callback(self._killing.discard)

        return Opened(session, change_user, attach, interrupt)

    def _memory(self, login: LoginResult, account: AccountRights) -> SessionMemory:
        limited = account.queues is not None
        return SessionMemory(self._server.profile, self._charset(login, account), plain=limited)

    def _owner(self, login: LoginResult, host: str, account: AccountRights) -> UpstreamOwner:
        return UpstreamOwner(
            connection_id=login.connection_id,
            user=login.user,
            host=host,
            capabilities=login.capabilities,
            charset=self._charset(login, account),
            encoding=login.encoding,
            attributes=login.connect_attrs,
            limited=account.queues is not None,
        )

    def _charset(self, login: LoginResult, account: AccountRights) -> int:
        """The collation to log in with. For one that the server does not know it would take one of its own choice, in
        which a limited account's statements might read otherwise than they were judged."""
        if account.queues is not None and self._server.profile.charset_of(login.charset) is None:
            return _UTF8MB4
        return login.charset


def _current_database(session: ClientSession) -> str | None:
    """The current database of a new connection. A change that was not seen ended with the connection on which it was
    made."""
    return None if session.database == UNKNOWN_DATABASE else session.database_at_server

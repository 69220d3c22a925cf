"""Logging clients in with accounts of the proxy's own: the embedded backend, and `auth: proxy` before a server.

Rules: an unknown name and a wrong password give the same error after the same packets and the same work. A login that
failed ends the connection. Nonces are never used twice: COM_CHANGE_USER always gets a fresh one. The plugin is the one
the client comes with if the account can use it, else the client is asked to switch.

mysql-mimic's pieces do the work (greeting and switch packets, plugins, IdentityProvider); its own login flow is not
used: it goes on serving a client whose login failed, and mistakes a plugin's first packet for an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from mysql_mimic import packets
from mysql_mimic.auth import AuthPlugin, AuthState, Forbidden, IdentityProvider, Success
from mysql_mimic.charset import CharacterSet
from mysql_mimic.utils import nonce as new_nonce

from mysql_wire import replies
from mysql_wire.errors import ProxyError
from mysql_wire.flags import COMPRESS, EMBEDDED, PLUGIN_AUTH, SSL, python_encoding
from mysql_wire.login import (
    LOGIN_PACKET_MAX_BYTES,
    NONCE_BYTES,
    Credentials,
    Greeting,
    encode_greeting,
    parse_change_user,
)
from mysql_wire.status_flags import AUTOCOMMIT
from proxy.login.accounts import NATIVE, Accounts
from proxy.login.carried_login import (
    LOGIN_SECONDS,
    Admit,
    LoginResult,
    admit_all,
    closing_unless_logged_in,
    login_result,
    receive_credentials,
    user_of,
)
from proxy.login.client_tls import OfferedTls
from proxy.login.plugins import (
    FAST_SUCCESS,
    CachingSha2PasswordAuthPlugin,
    EmbeddedUser,
    LoginInfo,
    NativePlugin,
    plausible,
)
from proxy.transport.client_socket import ClientSocket
from proxy.transport.layers import start_compression

CheckLogin = Callable[[Credentials], Awaitable[None]]
"""Called once the password was right: raises ProxyError if what else the client asks for cannot be."""

_UTF8MB4 = int(CharacterSet.utf8mb4)


def only_database(name: str) -> CheckLogin:
    """The check where there is but one database."""

    async def check(credentials: Credentials) -> None:
        requested = database_of(credentials)
        if requested is not None and requested.lower() != name:
            raise ProxyError(1049, f"Unknown database '{requested}'; the embedded backend has one, '{name}'")

    return check


_only_main = only_database("main")


class OwnIdentities(IdentityProvider):  # type: ignore[misc]  # mysql-mimic ships no type information
    """The configured accounts, as mysql-mimic asks for them."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._plugins = (CachingSha2PasswordAuthPlugin(), NativePlugin())

    def get_plugins(self) -> Sequence[AuthPlugin]:
        """The better one first: it is what the greeting offers."""
        return self._plugins

    async def get_user(self, username: str) -> EmbeddedUser:
        """Never None: see Accounts."""
        account = self._accounts.find(username)
        return EmbeddedUser(name=username, auth_plugin=account.plugins[0], account=account)


@dataclass(frozen=True, slots=True)
class ShownServer:
    """The server that a client is shown. `plugin`: the one that is offered; None: the better one."""

    version: str
    capabilities: int = EMBEDDED
    charset: int = _UTF8MB4
    status: int = AUTOCOMMIT
    plugin: str | None = None


@dataclass(frozen=True, slots=True)
class LoginRules:
    """Settings of logins besides the password. With `tls` a client may encrypt its connection."""

    check: CheckLogin = _only_main
    tls: OfferedTls | None = None
    timeout: float = LOGIN_SECONDS
    admit: Admit = admit_all


async def log_in_with_own_account(
    client: ClientSocket, identities: OwnIdentities, connection_id: int, server: ShownServer, rules: LoginRules
) -> LoginResult:
    """Log a client in.

    Raises:
        LoginFailed: the client has been sent the error; its connection is closed.
        StreamClosed: the client went away.
    """
    client.commands.max_packet_bytes = LOGIN_PACKET_MAX_BYTES
    nonce = new_nonce(NONCE_BYTES)
    greeting = Greeting(server.version, connection_id, server.capabilities & ~SSL, server.charset, server.status, nonce)
    with closing_unless_logged_in(client):
        async with asyncio.timeout(rules.timeout):
            plugin = server.plugin or identities.get_default_plugin().name
            credentials = await _greet(client, greeting, plugin, rules.tls)
            await _verify(client, identities, credentials, nonce)
            await _admitted(client, credentials, rules, server.status)
    client.reset_seq()
    result = login_result(credentials, greeting, server.status)
    if credentials.capabilities & COMPRESS:
        start_compression(client, result.capabilities)
    return result


async def _admitted(client: ClientSocket, credentials: Credentials, rules: LoginRules, status: int) -> None:
    """After the password, for a client that may not log in learns nothing of what exists. Raises ProxyError."""
    await rules.check(credentials)
    rules.admit(user_of(credentials))
    await client.write(replies.ok_packet(credentials.capabilities, status=status))


async def change_own_user(
    client: ClientSocket,
    identities: OwnIdentities,
    payload: bytes,
    login: LoginResult,
    rules: LoginRules,
    status: int = AUTOCOMMIT,
) -> LoginResult:
    """Answer a COM_CHANGE_USER, whose payload has been read. As in MySQL, a failure ends the connection.

    Raises:
        LoginFailed: the client has been sent the error; its connection is closed.
        StreamClosed: the client went away.
    """
    with closing_unless_logged_in(client):
        async with asyncio.timeout(rules.timeout):
            credentials = parse_change_user(payload[1:], login.capabilities, login.charset)
            await _verify(client, identities, credentials, None)
            await _admitted(client, credentials, rules, status)
    client.reset_seq()
    greeting = Greeting(login.server_version, login.connection_id, login.capabilities, login.charset, status)
    return login_result(credentials, greeting, status)


def database_of(credentials: Credentials) -> str | None:
    """The database that a client asks for when it logs in, if any."""
    return (credentials.database or b"").decode(python_encoding(credentials.charset), "replace") or None


async def _greet(client: ClientSocket, greeting: Greeting, plugin: str, tls: OfferedTls | None) -> Credentials:
    """Send the greeting and read the client's response, encrypted if the client wishes so and may."""
    offered = replace(greeting, capabilities=greeting.capabilities | (SSL if tls is not None else 0))
    await client.write(encode_greeting(offered, plugin))
    return await receive_credentials(client, greeting.capabilities, tls)


async def _verify(
    client: ClientSocket, identities: OwnIdentities, credentials: Credentials, nonce: bytes | None
) -> None:
    """Check the client's user name and password. `nonce` is the greeting's; None: it has been used.

    Raises:
        ProxyError: 1045, or 1251 for a client too old to switch plugins.
    """
    name = credentials.user.decode(python_encoding(credentials.charset), "replace")
    user = await identities.get_user(name)
    plugin = _plugin_for(identities, user, credentials)
    info = LoginInfo(
        username=name,
        data=credentials.auth,
        user=user,
        connect_attrs={},
        client_plugin_name=plugin.name,
        handshake_auth_data=nonce,
        handshake_plugin_name=plugin.name,
        private=client.private,
        confined=client.confined,
    )
    if nonce is not None and _answers_greeting(plugin, user, credentials):
        decision, state = await plugin.start(info)
    else:
        challenge, state = await plugin.start()
        info = info.copy(await _switch(client, plugin, challenge, credentials))
        decision = await state.asend(info)
    decision = await _converse(client, state, decision, info)
    if isinstance(decision, Forbidden):
        host = client.peername[0] if client.peername else "localhost"
        using = "NO" if info.data in (b"", b"\x00") else "YES"
        hint = decision.msg or ""
        raise ProxyError(1045, f"Access denied for user '{name}'@'{host}' (using password: {using}){hint}")


def _plugin_for(identities: OwnIdentities, user: EmbeddedUser, credentials: Credentials) -> AuthPlugin:
    """The plugin the client comes with, if the account can use it; else the account's best.

    An empty response can also mean that the client could not load the plugin of the greeting: then it knows the older.
    Of an account without a password it is the whole proof, as at a server.
    """
    assert user.account is not None
    named = (credentials.plugin or b"").decode("ascii", "replace")
    whole = credentials.auth or (user.account.passwordless and named in user.account.plugins)
    requested_plugin = named if named and whole else NATIVE
    name = requested_plugin if requested_plugin in user.account.plugins else user.account.plugins[0]
    plugin = identities.get_plugin(name)
    assert plugin is not None
    return plugin


def _answers_greeting(plugin: AuthPlugin, user: EmbeddedUser, credentials: Credentials) -> bool:
    """Whether the client's first response can be judged by that plugin without a switch."""
    if credentials.plugin is None:
        return bool(plugin.name == NATIVE)  # such a client knows no other, and no switch
    assert user.account is not None
    empty = user.account.passwordless and not credentials.auth  # Vert.x awaits the verdict, and knows no switch to it
    meant = credentials.plugin.decode("ascii", "replace") == plugin.name
    return meant and (empty or plausible(plugin.name, credentials.auth))


async def _switch(client: ClientSocket, plugin: AuthPlugin, challenge: bytes, credentials: Credentials) -> bytes:
    if not credentials.capabilities & PLUGIN_AUTH:
        raise ProxyError(
            1251, "Client does not support authentication protocol requested by server; consider upgrading the client"
        )
    request = packets.make_auth_switch_request(
        server_charset=CharacterSet.utf8mb4, plugin_name=plugin.name, plugin_provided_data=challenge
    )
    await client.write(request)
    return await client.read()


async def _converse(
    client: ClientSocket, state: AuthState, decision: Success | Forbidden | bytes, info: LoginInfo
) -> Success | Forbidden:
    """Carry the plugin's words and the client's answers until it decides."""
    while not isinstance(decision, (Success, Forbidden)):
        await client.write(packets.make_auth_more_data(decision))
        if decision != FAST_SUCCESS:
            info = info.copy(await client.read())
        decision = await state.asend(info)
    await state.aclose()
    return decision

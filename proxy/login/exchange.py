"""The part of a login between the client's response and the server's verdict: packets carried, whatever the plugin.

Passwords that cannot be carried as they are go through a PasswordBridge, which decides the step; the I/O is done here.
A password is stored no longer than that takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from mysql_client.packets import MalformedAnswer
from mysql_wire import answer_walker
from mysql_wire.errors import FatalProtocolError
from mysql_wire.flags import COMPRESS
from proxy.errors import BackendLost, RefusedByServer
from proxy.login.account_check import check_account
from proxy.login.password_bridge import PasswordBridge, Privacy, Step
from proxy.login.password_key import SENT_IN_CLEAR, UnusableKey, encrypt_password, password_key
from proxy.login.system_database import enter_at_login
from proxy.transport.backend_socket import BackendSocket, ReadInterrupted
from proxy.transport.client_socket import ClientSocket

AUTH_PACKETS_MAX = 20  # the longest known login (three factors, each with a switch and a key exchange) takes fewer

_OK, _ERR, _MORE = b"\x00", b"\xff", b"\x01"
_ACCESS_DENIED_ERRNO = 1045
_NO_PASSWORD_ERRNO = 1698  # ER_ACCESS_DENIED_NO_PASSWORD_ERROR: MariaDB's error for unix_socket accounts
_NO_SYSTEM_USERS = b"; through the proxy nobody can log in by the operating system's user (unix_socket, auth_socket)"


class AuthExchange:
    """See the module. `plugin` and `nonce` are those of the client's first response, `capabilities` those in force.

    `wants_system_database`: the client asks for the database of the system tables; `substituted`: the server has no
    such one. `admit` is called after the server's OK and before the client has its answer; it raises ProxyError to
    refuse the client.
    """

    def __init__(
        self,
        client: ClientSocket,
        backend: BackendSocket,
        plugin: bytes,
        nonce: bytes,
        *,
        capabilities: int,
        admit: Callable[[], None],
        wants_system_database: bool = False,
    ) -> None:
        self._client = client
        self._backend = backend
        self._capabilities = capabilities
        self._admitted = admit
        self._wants_system_database = wants_system_database
        self.substituted = False
        self._bridge = PasswordBridge(_privacy(client), _privacy(backend), plugin, nonce)
        self._password = b""  # a password, until the server has sent its key

    @property
    def nonce(self) -> bytes:
        """The one in force: a client that changes its user may prove the password with it."""
        return self._bridge.nonce

    async def first(self, auth: bytes) -> bytes:
        """What the server is to be sent in place of what the client sent with its name."""
        step = self._bridge.begins(auth)
        while (sent := await self._converted(step, auth)) is None:
            auth = await self._client.read()
            step = self._bridge.from_client(auth)
        return sent

    async def run(self) -> int:
        """Carry packets until the server's OK, whose status flags are returned.

        A client that has sent its packet waits for an answer: an unexpected packet would reach the server as something
        else than a part of its login. Most logins are over with the server's first packet.

        Raises:
            RefusedByServer: the server refused, and the client has been sent its error.
            ProxyError: one of them does not keep to the protocol, the server is lost, or the account may not be served.
            StreamClosed: the client is gone.
        """
        payload = await self._verdict()
        if payload.startswith(_OK):
            return await self._admit(payload)
        await self._from_server(payload)
        return await self._dialog()

    async def _verdict(self) -> bytes:
        """The server's answer to the client's response, while the client is silent."""
        client = self._client
        client.on_input = self._backend.interrupt
        try:
            if not client.input_ready:
                return await self._backend.read_packet()
        except ReadInterrupted:
            pass
        finally:
            client.on_input = None
        await client.read()  # it raises what there is to raise of one that is gone, or sends what is no packet
        raise _unexpected_packet()

    async def _dialog(self) -> int:
        """The server has asked for more. Which side sends next depends on the plugin, so both are read."""
        server = asyncio.ensure_future(self._backend.read_packet())
        client = asyncio.ensure_future(self._client.read())
        client_turn, refusal = True, b""
        try:
            for _ in range(AUTH_PACKETS_MAX):
                await asyncio.wait((server, client), return_when=asyncio.FIRST_COMPLETED)
                if server.done():
                    payload = server.result()
                    if payload.startswith(_OK):
                        return await self._admit(payload, client)
                    if payload.startswith(_ERR):
                        refusal = payload
                        break
                    await self._from_server(payload)
                    client_turn = True
                    server = asyncio.ensure_future(self._backend.read_packet())
                else:
                    payload = client.result()
                    if not client_turn:
                        raise _unexpected_packet()
                    client_turn = await self._from_client(payload)
                    client = asyncio.ensure_future(self._client.read())
            else:
                raise FatalProtocolError(1043, f"Bad handshake (more than {AUTH_PACKETS_MAX} packets)")
        finally:
            server.cancel()
            client.cancel()
            await asyncio.gather(server, client, return_exceptions=True)
        # Last of all: a client that has its answer may be back before anything that is waited for after this.
        return await self._refuse(refusal)

    async def _refuse(self, payload: bytes) -> NoReturn:
        if self._bridge.sent_in_clear and answer_walker.parse_err(payload).errno == _ACCESS_DENIED_ERRNO:
            payload += SENT_IN_CLEAR.encode()
        await pass_refusal(self._client, payload)

    async def _from_server(self, payload: bytes) -> None:
        if payload.startswith(_ERR):
            await self._refuse(payload)
        if self._bridge.from_server(payload) is Step.ENCRYPT:
            password, self._password = self._password, b""
            try:
                sent = await asyncio.to_thread(encrypt_password, password, self._bridge.nonce, payload[1:])
            except UnusableKey as error:
                raise BackendLost(f"the password cannot be put under the server's key: {error}") from error
            self._backend.write_packet(sent)
            await self._backend.drain()
            return
        await self._client.write(payload)

    async def _from_client(self, payload: bytes) -> bool:
        """Whether it is still the client's turn: its packet was for us, and has been answered."""
        sent = await self._converted(self._bridge.from_client(payload), payload)
        if sent is not None:
            self._backend.write_packet(sent)
            await self._backend.drain()
        return sent is None

    async def _converted(self, step: Step, payload: bytes) -> bytes | None:
        """What goes to the server; None: nothing, the client has been answered."""
        if step is Step.SEND_KEY:
            key = await asyncio.to_thread(password_key)
            await self._client.write(_MORE + key.pem)
            return None
        if step is Step.REQUEST_KEY:
            self._password = payload
            return self._bridge.key_request
        if step is Step.DECRYPT:
            nonce = self._bridge.nonce
            # Not under our key: then it is of no use to the server, which will refuse it.
            return await asyncio.to_thread(lambda: password_key().decrypt(payload, nonce)) or b"\x00"
        return payload

    async def _admit(self, payload: bytes, client: asyncio.Future[bytes] | None = None) -> int:
        try:
            status, _ = answer_walker.end_of(payload, 0, len(payload))
        except MalformedAnswer as error:
            raise BackendLost(f"the server ended the login with {error}") from error
        if self._capabilities & COMPRESS:
            self._backend.start_compression()  # the server has; it is queried before the client gets its OK
        await check_account(self._client, self._backend, self._capabilities)
        if self._wants_system_database:
            self.substituted = not await enter_at_login(self._backend)
        if self._client.input_ready if client is None else client.done():
            await (self._client.read() if client is None else client)
            raise _unexpected_packet()
        self._admitted()
        await self._client.write(payload)
        return status


def _privacy(connection: ClientSocket | BackendSocket) -> Privacy:
    private = connection.private
    return Privacy(private, private or connection.confined)


def _unexpected_packet() -> FatalProtocolError:
    return FatalProtocolError(1156, "Got packets out of order (the client spoke when the server was to decide)")


async def pass_refusal(client: ClientSocket, payload: bytes) -> NoReturn:
    """Hand the server's ERR to the client as it is; where a hint is due, with that.

    Raises:
        RefusedByServer: that is done.
        BackendLost: it is no ERR.
    """
    if not payload.startswith(_ERR):
        raise BackendLost("the server spoke out of turn")
    if answer_walker.parse_err(payload).errno == _NO_PASSWORD_ERRNO:
        payload += _NO_SYSTEM_USERS
    outcome = answer_walker.parse_err(payload)
    await client.write(payload)
    raise RefusedByServer(outcome.errno, outcome.message, outcome.sqlstate)

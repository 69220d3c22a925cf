"""The part of a login between the client's response and the server's verdict: packets carried, whatever the plugin.

One thing cannot be carried: where the line to the server is encrypted and the client's is not, caching_sha2_password
wants the password itself from the server's point of view, and under an RSA key from the client's. Then the client is
given our key, and its password goes on inside TLS. It is kept no longer than that takes.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from proxy import answer
from proxy.accounts import CACHING_SHA2
from proxy.errors import BackendLost, FatalProtocolError, LoginFailed
from proxy.link import BackendLink
from proxy.login_packets import NONCE_BYTES
from proxy.password_key import KEY_REQUEST, password_key
from proxy.stream import PacketStream

AUTH_PACKETS_MAX = 20  # the longest known login (three factors, each with a switch and a key exchange) takes fewer

_OK, _ERR, _SWITCH, _MORE = b"\x00", b"\xff", b"\xfe", b"\x01"
_FULL_AUTHENTICATION = b"\x01\x04"


class AuthExchange:
    """See the module. `plugin` and `nonce` are those of the client's first response; `encrypted` the server's line."""

    def __init__(
        self, stream: PacketStream, link: BackendLink, plugin: bytes, nonce: bytes, *, encrypted: bool
    ) -> None:
        self._stream = stream
        self._link = link
        self._plugin = plugin
        self._nonce = nonce
        self._unequal = encrypted and not stream.private
        self._password_wanted = False

    async def run(self) -> int:
        """Carry packets until the server's OK, whose status flags are returned.

        Who speaks next depends on the plugin, so both are listened to.

        Raises:
            LoginFailed: the server said no, and the client has been told.
            ProxyError: one of them does not keep to the protocol, or the server is lost.
            StreamClosed: the client is gone.
        """
        server = asyncio.ensure_future(self._link.read_packet())
        client = asyncio.ensure_future(self._stream.read())
        try:
            for _ in range(AUTH_PACKETS_MAX):
                await asyncio.wait((server, client), return_when=asyncio.FIRST_COMPLETED)
                if server.done():
                    payload = server.result()
                    if payload.startswith(_OK):
                        return await self._admit(payload, client)
                    await self._from_server(payload)
                    server = asyncio.ensure_future(self._link.read_packet())
                else:
                    await self._from_client(client.result())
                    client = asyncio.ensure_future(self._stream.read())
            raise FatalProtocolError(1043, f"Bad handshake (more than {AUTH_PACKETS_MAX} packets)")
        finally:
            server.cancel()
            client.cancel()
            await asyncio.gather(server, client, return_exceptions=True)

    async def _from_server(self, payload: bytes) -> None:
        if payload.startswith(_ERR):
            await pass_refusal(self._stream, payload)
        if payload.startswith(_SWITCH):
            self._plugin, _, challenge = payload[1:].partition(b"\x00")
            self._nonce = challenge[:NONCE_BYTES]
        sha2 = self._plugin == CACHING_SHA2.encode()
        self._password_wanted = self._unequal and sha2 and payload == _FULL_AUTHENTICATION and bool(self._nonce)
        await self._stream.write(payload)

    async def _from_client(self, payload: bytes) -> None:
        if self._password_wanted and payload == KEY_REQUEST:
            key = await asyncio.to_thread(password_key)
            await self._stream.write(_MORE + key.pem)
            return
        if self._password_wanted:
            self._password_wanted = False
            nonce = self._nonce
            # Not under our key: then it is of no use to the server, which shall say so.
            payload = await asyncio.to_thread(lambda: password_key().decrypt(payload, nonce)) or b"\x00"
        self._link.write_packet(payload)
        await self._link.drain()

    async def _admit(self, payload: bytes, client: asyncio.Future[bytes]) -> int:
        try:
            status, _ = answer.end_of(payload, 0, len(payload))
        except answer.AnswerError as error:
            raise BackendLost(f"the server ended the login with {error}") from error
        if client.done():
            client.result()
            raise FatalProtocolError(1156, "Got packets out of order (the client spoke when the server was to decide)")
        await self._stream.write(payload)
        return status


async def pass_refusal(stream: PacketStream, payload: bytes) -> NoReturn:
    """Hand the server's ERR to the client as it is."""
    outcome = answer.parse_err(payload)
    await stream.write(payload)
    raise LoginFailed(outcome.errno, outcome.message, outcome.sqlstate)

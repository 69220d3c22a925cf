"""PeerHandshake: the first bytes on a TCP connection between two proxies, until both have proved who they are. Then a
PeerLink takes the connection over.

Before the other end is authenticated it is sent only a nonce and our proof, has `HANDSHAKE_SECONDS`, and can make us
buffer no more than a packet of fixed size.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from engine.store.proxy_directory import ProxyEntry
from proxy.cluster.peer_link import Owner, PeerLink, Records
from proxy.cluster.peer_login import (
    HELLO_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    REPLY_BYTES,
    Hello,
    Keys,
    PeerError,
    Seal,
    Unseal,
    check,
    nonce_of,
    reply,
)
from proxy.transport.tcp import tune

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 5.0  # three packets across any network that is of use here


async def _unknown(number: int) -> ProxyEntry | None:
    return None


class PeerHandshake(asyncio.Protocol):
    """See the module. `peer` is given where we dial; else `find` returns a proxy's row, read again if it is not known.
    `done` has the link, which is `owner`'s, or None."""

    def __init__(
        self,
        owner: Owner,
        me: ProxyEntry,
        shared: str,
        peer: ProxyEntry | None = None,
        find: Callable[[int], Awaitable[ProxyEntry | None]] = _unknown,
    ) -> None:
        self._owner, self._me, self._shared, self._peer, self._find = owner, me, shared, peer, find
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._step: tuple[int, Callable[[bytes], None]] = (HELLO_BYTES, self._read_hello)
        self._looking_up: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.on_connected: Callable[[PeerHandshake, str], None] = lambda handshake, host: None
        self.claims: int | None = None
        """The number that the other end gave itself, before it has proved anything."""
        self.done: asyncio.Future[PeerLink | None] = self._loop.create_future()

    def __repr__(self) -> str:
        return f"<PeerHandshake with {self._where()}>"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tune(transport)
        self._timer = self._loop.call_later(HANDSHAKE_SECONDS, self._fail, "it did not prove itself in time")
        if self._peer is not None:
            hello = Hello.make(self._me.number, self._peer.number)
            self._step = REPLY_BYTES, partial(self._read_reply, hello, self._peer)
            self._transport.write(hello.data())
        self.on_connected(self, self._host() or "")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            while self._looking_up is None and not self.done.done() and len(self._buffer) >= self._step[0]:
                size, read = self._step
                packet = bytes(self._buffer[:size])
                del self._buffer[:size]
                read(packet)
            if self._looking_up is not None and len(self._buffer) > PROOF_BYTES:
                raise PeerError("it sends more before it has an answer")
        except PeerError as error:
            self._fail(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(None)

    def _finish(self, link: PeerLink | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._looking_up is not None:
            self._looking_up.cancel()
        if not self.done.done():
            self.done.set_result(link)

    def _fail(self, reason: str) -> None:
        # Strangers may knock as often as they like: they must not fill the log.
        level = logging.DEBUG if self._peer is None else logging.WARNING
        log.log(level, "link to %s ended: %s", self._owner.one, reason, extra={"peer": self._where()})
        self.abort()

    def abort(self) -> None:
        """End it at once, and the link that came of it."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close it when everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def _where(self) -> str:
        return self._peer.address if self._peer is not None else self._host() or "?"

    def _host(self) -> str | None:
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if name else None

    # --- the packets

    def _read_hello(self, packet: bytes) -> None:
        hello = Hello.read(packet)
        if hello.listener != self._me.number:
            raise PeerError("it expects another process")
        self.claims = hello.dialer
        self._looking_up = self._loop.create_task(self._look_up(hello))

    async def _look_up(self, hello: Hello) -> None:
        entry = await self._find(hello.dialer)
        self._looking_up = None
        if entry is None:
            self._fail("it is not in queuegate_proxies")
            return
        self._peer = entry
        nonce = secrets.token_bytes(NONCE_BYTES)
        keys = Keys.derive(hello, nonce, entry.secret, self._me.secret, self._shared)
        self._step = PROOF_BYTES, partial(self._read_proof, keys, entry)
        if self._transport is not None:
            self._transport.write(reply(nonce, keys))

    def _read_proof(self, keys: Keys, peer: ProxyEntry, packet: bytes) -> None:
        check(packet, keys.dialer_proof)
        self._hand_over(PeerLink(self._owner, peer, Records(Seal(keys.to_dialer), Unseal(keys.to_listener))))

    def _read_reply(self, hello: Hello, peer: ProxyEntry, packet: bytes) -> None:
        assert self._transport is not None
        keys = Keys.derive(hello, nonce_of(packet), self._me.secret, peer.secret, self._shared)
        check(packet[-PROOF_BYTES:], keys.listener_proof)
        self._transport.write(keys.dialer_proof)
        self._hand_over(PeerLink(self._owner, peer, Records(Seal(keys.to_listener), Unseal(keys.to_dialer))))

    def _hand_over(self, link: PeerLink) -> None:
        """Both ends are authenticated: from here on the connection is the link's."""
        assert self._transport is not None
        self._finish(link)
        self._transport.set_protocol(link)
        link.connection_made(self._transport)
        if self._buffer:
            link.data_received(bytes(self._buffer))

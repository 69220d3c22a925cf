"""PeerLink: one TCP connection between two proxies, from the first byte: authentication, then messages in sealed
records.

Rules
- Before the other end is authenticated it is sent only a nonce and our proof, has `LOGIN_SECONDS`, and can make us
  buffer no more than a packet of fixed size.
- What the other end does not take is dropped; LOST follows in its place (proxy.cluster.frame_writer).
- Each end sends something every `PING_SECONDS`; an end that sends nothing for `SILENCE_SECONDS` is taken for dead.
- An invalid message ends the link: only a defect or an attacker sends one. The tables have all that was lost.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Protocol, cast

from engine.store.proxy_directory import ProxyEntry
from proxy.cluster.frame_writer import FrameWriter
from proxy.cluster.messages import BROADCAST, Frame, FrameError, Framer, MessageKind
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

LOGIN_SECONDS = 5.0  # three packets across any network that is of use here
PING_SECONDS, SILENCE_SECONDS = 2.0, 7.0  # three pings may be late before a proxy is taken for dead


class Owner(Protocol):
    """The owner of a link: answers its questions, and receives its events."""

    async def entry_of(self, number: int) -> ProxyEntry | None:
        """That proxy's row, read again if it is not known."""
        ...

    def linked(self, link: PeerLink) -> bool:
        """The other end is authenticated. False: the link is not wanted."""
        ...

    def on_frame(self, link: PeerLink, frame: Frame) -> None:
        """A frame was received. Raises ValueError, KeyError or TypeError for an invalid one."""
        ...

    def unlinked(self, link: PeerLink) -> None:
        """The link has ended, after `linked`."""
        ...


class PeerLink(asyncio.Protocol):
    """See the module. `peer` is given where we dial."""

    def __init__(self, owner: Owner, me: ProxyEntry, shared: str, peer: ProxyEntry | None = None) -> None:
        self._owner, self._me, self._shared, self.peer = owner, me, shared, peer
        self.dialed = peer is not None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._step: Callable[[bytes], None] = self._read_reply if peer is not None else self._read_hello
        self._wanted_bytes = REPLY_BYTES if peer is not None else HELLO_BYTES
        self._hello = Hello.make(me.number, 0 if peer is None else peer.number)
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._keys: Keys | None = None
        self._frame_writer: FrameWriter | None = None
        self._unseal: Unseal | None = None
        self._framer = Framer()
        self._looking_up: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_received_at = self._loop.time()
        self.on_connected: Callable[[PeerLink, str], None] = lambda link, host: None
        self.claims: int | None = None
        """The number that the other end gave itself, before it has proved anything."""
        self.ended: asyncio.Future[None] = self._loop.create_future()

    @property
    def was_linked(self) -> bool:
        """The other end has proved itself, whatever became of the link since."""
        return self._unseal is not None

    def __repr__(self) -> str:
        state = "linked" if self.was_linked else "logging in"
        return f"<PeerLink {state} {'to' if self.dialed else 'from'} {self.peer and self.peer.address}>"

    # --- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tune(transport)
        self._timer = self._loop.call_later(LOGIN_SECONDS, self._fail, "it did not prove itself in time")
        if self.dialed:
            self._transport.write(self._hello.data())
        self.on_connected(self, self._host() or "")

    def data_received(self, data: bytes) -> None:
        try:
            if self._unseal is not None:
                self._take(self._unseal, data)
            else:
                self._log_in(data)
        except (PeerError, FrameError) as error:
            self._fail(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._looking_up is not None:
            self._looking_up.cancel()
        if not self.ended.done():
            self.ended.set_result(None)
        if self._unseal is not None:
            self._owner.unlinked(self)

    def _fail(self, reason: str) -> None:
        # Strangers may knock as often as they like: they must not fill the log.
        level = logging.DEBUG if self.peer is None else logging.WARNING
        log.log(level, "link to another proxy ended: %s", reason, extra={"peer": self._where()})
        self.abort()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close it when everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def _where(self) -> str:
        if self.peer is not None:
            return self.peer.address
        return self._host() or "?"

    def _host(self) -> str | None:
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if name else None

    # --- authentication

    def _log_in(self, data: bytes) -> None:
        self._buffer += data
        if self._looking_up is not None:
            if len(self._buffer) > PROOF_BYTES:
                raise PeerError("it speaks before it is asked")
            return
        if len(self._buffer) >= self._wanted_bytes:
            packet, rest = bytes(self._buffer[: self._wanted_bytes]), bytes(self._buffer[self._wanted_bytes :])
            self._buffer.clear()
            self._step(packet)
            if rest:
                self.data_received(rest)

    def _read_hello(self, packet: bytes) -> None:
        hello = Hello.read(packet)
        if hello.listener != self._me.number:
            raise PeerError("it means somebody else")
        self._hello, self.claims = hello, hello.dialer
        self._looking_up = self._loop.create_task(self._look_up(hello))

    async def _look_up(self, hello: Hello) -> None:
        entry = await self._owner.entry_of(hello.dialer)
        self._looking_up = None
        if entry is None:
            self._fail("it is not in queuegate_proxies")
            return
        self.peer = entry
        self._keys = Keys.derive(hello, self._nonce, entry.secret, self._me.secret, self._shared)
        self._step, self._wanted_bytes = self._read_proof, PROOF_BYTES
        if self._transport is not None:
            self._transport.write(reply(self._nonce, self._keys))

    def _read_reply(self, packet: bytes) -> None:
        assert self.peer is not None and self._transport is not None
        keys = Keys.derive(self._hello, nonce_of(packet), self._me.secret, self.peer.secret, self._shared)
        check(packet[-PROOF_BYTES:], keys.listener_proof)
        self._transport.write(keys.dialer_proof)
        self._linked(Seal(keys.to_listener), Unseal(keys.to_dialer))

    def _read_proof(self, packet: bytes) -> None:
        assert self._keys is not None
        check(packet, self._keys.dialer_proof)
        self._linked(Seal(self._keys.to_dialer), Unseal(self._keys.to_listener))

    def _linked(self, seal: Seal, unseal: Unseal) -> None:
        assert self._timer is not None and self._transport is not None
        self._timer.cancel()
        if not self._owner.linked(self):
            self.abort()
            return
        self._frame_writer, self._unseal = FrameWriter(self._transport, 0, seal.close), unseal
        self._last_received_at = self._loop.time()
        self._ping()

    # --- messages

    def send(self, kind: MessageKind, body: object = None) -> None:
        """Send a message, or drop it and report that later. Raises ValueError where it is too large."""
        if self._frame_writer is not None:
            self._frame_writer.send(kind, BROADCAST, body)

    def _take(self, unseal: Unseal, data: bytes) -> None:
        self._last_received_at = self._loop.time()
        for record in unseal.feed(data):
            for frame in self._framer.feed(record):
                try:
                    self._owner.on_frame(self, frame)
                except (ValueError, KeyError, TypeError) as error:
                    raise PeerError(f"a word that is none, of kind {frame.kind}") from error

    def _ping(self) -> None:
        if self._loop.time() - self._last_received_at > SILENCE_SECONDS:
            self._fail(f"nothing heard for {SILENCE_SECONDS:.0f} s")
            return
        self.send(MessageKind.PING)
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

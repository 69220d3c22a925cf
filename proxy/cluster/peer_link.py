"""PeerLink: one connection to another process of this database, a worker of this proxy or another proxy: messages in
frames, in both directions.

Rules
- A link never waits for the other end. Above `UNSENT_MAX_BYTES` of unsent bytes messages are dropped, and LOST is sent
  in their place as soon as there is room: a process that hangs must not fill the memory of others.
- Over TCP, frames are in sealed records, each end sends something every `PING_SECONDS`, and an end that sends nothing
  for `SILENCE_SECONDS` is taken for dead. On one machine the kernel reports a death, and whoever hangs stays linked.
- An invalid message ends the link: only a defect or an attacker sends one. The tables have all that was lost.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol, cast

from engine.store.proxy_directory import ProxyEntry
from proxy.cluster.messages import Frame, FrameError, Framer, MessageKind, encode
from proxy.cluster.peer_login import PeerError, Seal, Unseal

log = logging.getLogger(__name__)

PING_SECONDS, SILENCE_SECONDS = 2.0, 7.0  # three pings may be late before a proxy is taken for dead
UNSENT_MAX_BYTES = 1 << 20  # thousands of messages


class Owner(Protocol):
    """The owner of a link receives its events."""

    one: str
    """What a peer is called in the log."""

    def linked(self, link: PeerLink) -> None:
        """The link can be used."""
        ...

    def on_frame(self, link: PeerLink, frame: Frame) -> None:
        """A frame was received. Raises ValueError, KeyError or TypeError for an invalid one."""
        ...

    def dropped_some(self, link: PeerLink) -> None:
        """Messages to that peer were dropped, and it has been notified: repeat what it has to know."""
        ...

    def unlinked(self, link: PeerLink) -> None:
        """The link has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """The sealed records of a link over TCP."""

    seal: Seal
    unseal: Unseal


class PeerLink(asyncio.Protocol):
    """See the module. The other end is known: it has proved itself, or the kernel names it. Without `records` frames
    are sent as they are."""

    def __init__(self, owner: Owner, peer: ProxyEntry, records: Records | None = None) -> None:
        self.peer = peer
        self._owner, self._records = owner, records
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._framer = Framer()
        self._timer: asyncio.TimerHandle | None = None
        self._last_received_at = self._loop.time()
        self.dropped = False
        """Whether messages were dropped, and LOST is not sent yet."""
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def __repr__(self) -> str:
        return f"<PeerLink to {self.peer.address}>"

    def send(self, kind: MessageKind, body: object = None) -> None:
        """Send a message, or drop it and report that later. Raises ValueError where it is too large."""
        self.send_frame(encode(kind, body))

    def send_frame(self, frame: bytes) -> None:
        """`send`, of a message that is encoded once for several links."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > UNSENT_MAX_BYTES:
            self.dropped = True
            return
        self._report_dropped()
        self._write(frame)

    def _report_dropped(self) -> None:
        if self.dropped:
            self.dropped = False
            self._write(encode(MessageKind.LOST))
            self._owner.dropped_some(self)

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame if self._records is None else self._records.seal.close(frame))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._records is not None:
            self._ping()
        self._owner.linked(self)

    def data_received(self, data: bytes) -> None:
        self._last_received_at = self._loop.time()
        try:
            for part in (data,) if self._records is None else self._records.unseal.feed(data):
                for frame in self._framer.feed(part):
                    self._take(frame)
        except (PeerError, FrameError) as error:
            self._fail(str(error))

    def _take(self, frame: Frame) -> None:
        try:
            self._owner.on_frame(self, frame)
        except (ValueError, KeyError, TypeError) as error:
            raise PeerError(f"an invalid message of kind {frame.kind}") from error

    def resume_writing(self) -> None:
        """The other end reads again."""
        self._report_dropped()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.ended.done():
            self.ended.set_result(None)
        self._owner.unlinked(self)

    def _ping(self) -> None:
        if self._loop.time() - self._last_received_at > SILENCE_SECONDS:
            self._fail(f"nothing received for {SILENCE_SECONDS:.0f} s")
            return
        self.send(MessageKind.PING)
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

    def _fail(self, reason: str) -> None:
        log.warning("link to %s ended: %s", self._owner.one, reason, extra={"peer": self.peer.address})
        self.abort()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close it when everything is sent."""
        if self._transport is not None:
            self._transport.close()

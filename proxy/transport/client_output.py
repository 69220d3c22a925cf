"""ClientOutput: the writing half of a client's connection, and the observable state of that connection.

Rules: writing gathers until `drain` (or 64 KiB). `write_framed` bytes never overtake what was written before. Once the
connection is lost or closed, writing does nothing and `drain` raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, cast

from mysql_wire.packets import frame_into
from proxy.errors import StreamClosed
from proxy.transport import kernel, tcp

WRITE_HIGH_BYTES = 256 * 1024  # above this a writer waits: it bounds what a slow reader costs us
FLUSH_BYTES = 64 * 1024  # written in one go: large enough that the system call costs little per row


class ConnectionState(Enum):
    """What a client's connection is at. It only goes on, from above to below."""

    OPEN = "open"
    FAILED = "failed"
    """The client broke the protocol: it is sent the error, and what it still sends is thrown away."""
    LINGERING = "lingering"
    """Closed, once the client has had time to read what was sent."""
    CLOSING = "closing"
    """Closed, once what was written has left."""
    LOST = "lost"


ENDED = (ConnectionState.LINGERING, ConnectionState.CLOSING, ConnectionState.LOST)
"""Nothing more is written."""


class Source(Protocol):
    """Where the bytes for a client come from."""

    def pause_reading(self) -> None:
        """Take no more: the client does not read what came."""
        ...

    def resume_reading(self) -> None:
        """Go on. Also when the client's connection is lost: what still comes must be seen to end it."""
        ...


class ClientOutput(asyncio.Protocol):
    """See the module. `seq` is the next sequence id; `closed` is true once the client hung up or the connection
    broke."""

    def __init__(self) -> None:
        self.seq = 0
        self.closed = False
        self.encrypted = False
        self.local = False
        """Whether it is a unix socket."""
        self.peername: tuple[Any, ...] = ()
        self.source: Source | None = None
        self.writer: Callable[[bytes | bytearray], None] | None = None
        """The transport's `write` while the connection may be used, for bytes that are packets already. While a command
        is awaited nothing written before can still be in our buffer, so on the fast path there is nothing to
        overtake."""
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self._out = bytearray()
        self._writing_paused = False
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._stuck_waiters: list[asyncio.Future[None]] = []
        self._state = ConnectionState.OPEN
        self._never_sent = 0  # when it was lost

    async def write(self, data: bytes, drain: bool = True) -> None:
        """Frame one packet; send it now, or with `drain` false when enough has gathered."""
        self.seq = frame_into(self._out, data, self.seq)
        if drain or len(self._out) >= FLUSH_BYTES:
            await self.drain()

    def write_many(self, packets: Sequence[bytes]) -> None:
        """Frame several packets without waiting; call `drain` between portions."""
        out, seq = self._out, self.seq
        for data in packets:
            seq = frame_into(out, data, seq)
        self.seq = seq
        if len(out) >= FLUSH_BYTES:
            self.push()

    def write_framed(self, data: bytes) -> None:
        """Bytes that are packets already, past the framing; the caller maintains `seq`."""
        if self._out:
            self.push()
        if self.writer is not None:
            self.writer(data)

    async def drain(self) -> None:
        """Send what was written and wait until the socket has room again.

        Raises:
            StreamClosed: the connection is gone, or was closed by us.
        """
        self.push()
        while self.stuck:
            await wait_in(self._drain_waiters, self._loop)
        if self._state in ENDED or self.transport is None:
            raise StreamClosed("the connection is closed")

    def set_unbuffered(self, unbuffered: bool) -> None:
        """From now on `stuck` is true as soon as the socket has not taken all that was written. Without TLS it always
        is."""
        if self.encrypted and self.transport is not None and not self.lost:
            # TLS's own pauses where there is as much as this: with 0 it would not go on again.
            self.transport.set_write_buffer_limits(high=1 if unbuffered else WRITE_HIGH_BYTES)

    def reset_seq(self) -> None:
        """The next packet begins a new command."""
        self.seq = 0

    def push(self) -> None:
        """Give what was written to the socket, without waiting."""
        if self._out:
            out, self._out = self._out, bytearray()
            if self.writer is not None:
                self.writer(out)

    async def wait_lost(self) -> None:
        """Return once the socket is gone for good: after `close`, when the last bytes have left."""
        while not self.lost:
            await wait_in(self._drain_waiters, self._loop)

    async def wait_stuck(self) -> None:
        """Return once the client leaves untaken what is written to it, which may never be."""
        while not self.stuck:
            await wait_in(self._stuck_waiters, self._loop)

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connected = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peername = tuple(peer) if isinstance(peer, (tuple, list)) else ()
        self.local = tcp.is_local(transport)
        self.use(connected, connected.write)
        tcp.tune_accepted(transport)
        connected.set_write_buffer_limits(high=tcp.UNBUFFERED)

    def use(
        self, transport: asyncio.Transport, write: Callable[[bytes | bytearray], None], *, encrypted: bool = False
    ) -> None:
        """Write to this transport from now on."""
        self.transport, self.writer, self.encrypted = transport, write, encrypted

    def _mark_closed(self) -> None:
        self.closed = True

    def _end(self, state: ConnectionState) -> None:
        """Nothing more is written."""
        if state is ConnectionState.LOST:
            self._never_sent = self.never_sent
        self._state = state
        self.writer = None

    def pause_writing(self) -> None:
        self._writing_paused = True
        wake_all(self._stuck_waiters)
        if self.source is not None:
            self.source.pause_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        wake_all(self._drain_waiters)
        if self.source is not None:
            self.source.resume_reading()

    # --- observable state

    @property
    def private(self) -> bool:
        """Whether no one can listen in: TLS, or a socket that does not leave the machine."""
        return self.encrypted or self.local

    @property
    def confined(self) -> bool:
        """Private, or within this machine."""
        return self.private or tcp.is_loopback(self.transport)

    @property
    def sockname(self) -> tuple[Any, ...]:
        """Where the client has connected to."""
        name = None if self.transport is None else self.transport.get_extra_info("sockname")
        return tuple(name) if isinstance(name, (tuple, list)) else ()

    @property
    def lost(self) -> bool:
        """Whether nothing can be sent any more. A client that has only closed its sending side may still be reading."""
        return self._state is ConnectionState.LOST

    @property
    def stuck(self) -> bool:
        """Whether the client has not taken what was written to it: a writer would wait now."""
        return self._writing_paused and self._state is not ConnectionState.LOST

    @property
    def socket(self) -> Any:
        """The socket, for inspection; None where there is none (any more)."""
        return None if self.transport is None or self.lost else self.transport.get_extra_info("socket")

    @property
    def unsent(self) -> int:
        """Bytes written that the client's machine has not taken."""
        if self.transport is None or self.lost:
            return 0
        return len(self._out) + self.transport.get_write_buffer_size() + kernel.unacknowledged(self.socket)

    @property
    def never_sent(self) -> int:
        """Bytes written that have surely not reached the client's machine; of a lost connection as it was then."""
        if self.transport is None or self.lost:
            return self._never_sent
        if self.encrypted:
            return len(self._out)  # how many plain bytes the encrypted ones are is not known
        return len(self._out) + self.transport.get_write_buffer_size() + kernel.never_sent(self.socket)


async def wait_in(waiters: list[asyncio.Future[None]], loop: asyncio.AbstractEventLoop) -> None:
    waiter = loop.create_future()
    waiters.append(waiter)
    try:
        await waiter
    finally:
        if waiter in waiters:
            waiters.remove(waiter)


def wake_all(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()

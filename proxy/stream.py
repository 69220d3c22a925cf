"""PacketStream: the client's socket as packets. Frames, checks and bounds; knows nothing of what packets mean.

Rules:
- One reader. Bytes are kept until somebody reads them, at most `PENDING_BYTES_MAX` of them while nobody does; then the
  socket itself is not read any further, and the client waits.
- A reader is woken when the packet it waits for is whole, never by half headers. A payload above the limit is refused
  at its header.
- The fast path: while a reader is parked in `read_command` and nothing else is pending, `fast_path` sees raw bytes
  first. If it takes them, bytes that follow are kept until `fast_done`, and the reader stays asleep.
- After a protocol error nothing more is read; what still comes is thrown away for a moment, because closing a socket
  with unread bytes would take the error message away from the client.
- Writing buffers until `drain` (or 64 KiB); `write_framed` bytes never overtake what was written before.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Any, cast

from proxy import sockets
from proxy.errors import FatalProtocolError, PacketsOutOfOrder, PacketTooLarge, ReadTimeout, StreamClosed
from proxy.framing import HEADER_BYTES, PAYLOAD_MAX, frame_into

PENDING_BYTES_MAX = 256 * 1024  # unread bytes held for a client that talks ahead; MySQL's own net buffer grows likewise
FLUSH_BYTES = 64 * 1024  # written in one go: large enough that the system call costs little per row
WRITE_HIGH_BYTES = 256 * 1024  # above this a writer waits: it bounds what a slow reader costs us
FAST_BYTES_MAX = 16 * 1024  # a fragment is only joined and offered again below this: joining copies
STALL_SECONDS = 30.0  # MySQL's net_read_timeout: how long a begun packet may make no progress
LINGER_SECONDS = 2.0  # time for an error message to arrive before the socket is torn down
CLOSE_SECONDS = 10.0  # time for the last bytes to leave; a client that reads nothing must not hold a socket for ever

FastPath = Callable[[bytes], bool]


class PacketStream(asyncio.Protocol):
    """See the module. `seq` is the next sequence id; `closed` is true once the client hung up or the line broke."""

    def __init__(self, on_connected: Callable[[PacketStream], None], *, max_packet_bytes: int) -> None:
        self.seq = 0
        self.closed = False
        self.fast_path: FastPath | None = None
        self.on_pause: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None
        self.on_lost: Callable[[], None] | None = None
        self.peername: tuple[Any, ...] = ()
        self._on_connected = on_connected
        self._max_packet_bytes = max_packet_bytes
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._parts: list[bytes] = []  # payloads of continued packets, up to the last
        self._parts_bytes = 0
        self._needed = HEADER_BYTES  # bytes in the buffer below which the next packet cannot be whole
        self._fault: FatalProtocolError | None = None
        self._command_reader: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        self._fast = False
        self._reading_paused = False
        self._stall_timer: asyncio.TimerHandle | None = None
        self._received = 0  # counts chunks, to tell progress from a stall
        self._out = bytearray()
        self._writing_paused = False
        self._drainers: list[asyncio.Future[None]] = []
        self._lost = False
        self._closing = False
        self._lingering = False
        self._close_timer: asyncio.TimerHandle | None = None
        self._close_waiters: list[asyncio.Future[None]] = []
        self._goodbye_waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        state = "lost" if self._lost else "closed" if self.closed else "fast" if self._fast else "open"
        return f"<PacketStream {state} seq={self.seq} unread={len(self._buffer)} unsent={len(self._out)}>"

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peername = tuple(peer) if isinstance(peer, (tuple, list)) else ()
        sockets.tune(transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self._on_connected(self)

    def data_received(self, data: bytes) -> None:
        parked = self._command_reader
        if parked is not None and not self._buffer and not self._fast and not parked.done() and self._offer(data):
            return
        self._received += 1
        if self._fault is not None or self._closing:
            return
        self._buffer += data
        self._advance()

    def eof_received(self) -> bool:
        """The client will send no more. The socket stays open for the answers to what it did send."""
        self._mark_closed()
        # A command reader that sleeps through the fast path is woken by `fast_done`: its last answer is still to come.
        for reader in (self._reader, None if self._fast else self._command_reader):
            if reader is not None and not reader.done():
                reader.set_result(None)
        if self._lingering and self._transport is not None:
            self._transport.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._mark_closed()
        self._cancel_stall()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._wake_reader()
        _wake_all(self._drainers)
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        self._writing_paused = True
        if self.on_pause is not None:
            self.on_pause()

    def resume_writing(self) -> None:
        self._writing_paused = False
        _wake_all(self._drainers)
        if self.on_resume is not None:
            self.on_resume()

    @property
    def private(self) -> bool:
        """Whether nobody can listen in: TLS, or a socket that does not leave the machine."""
        if self._transport is None:
            return False
        sock = self._transport.get_extra_info("socket")
        local = sock is not None and sock.family not in (socket.AF_INET, socket.AF_INET6)
        return local or self._transport.get_extra_info("sslcontext") is not None

    @property
    def lost(self) -> bool:
        """Whether nothing can be sent any more. A client that only said it will send no more may still be reading."""
        return self._lost

    @property
    def stuck(self) -> bool:
        """Whether the client has not taken what was written to it: a writer would wait now."""
        return self._writing_paused and not self._lost

    # --- reading

    async def read(self) -> bytes:
        """The next packet's payload, continuations joined.

        Raises:
            StreamClosed: the client hung up before another whole packet.
            FatalProtocolError: wrong sequence id, too large, or stalled; answer it and close.
        """
        while (payload := self._take()) is None:
            self._check_readable()
            self._reader = self._loop.create_future()
            self._resume_reading()
            try:
                await self._reader
            finally:
                self._reader = None
        return payload

    async def read_command(self) -> bytes:
        """Begin a new command: sequence 0, then as `read`. The one place where the fast path may step in."""
        self.seq = 0
        while (payload := self._take()) is None:
            self._check_readable()
            self._command_reader = self._loop.create_future()
            self._resume_reading()
            try:
                await self._command_reader
            finally:
                self._command_reader = None
        return payload

    def fast_done(self) -> None:
        """The answer to what `fast_path` took has been written: back to ordinary reading."""
        self._fast = False
        self.seq = 0
        if self._buffer:
            self._advance()
        elif self.closed:
            self._wake_reader()
        self._resume_reading()

    def pending_quit(self) -> bool:
        """Whether a whole COM_QUIT waits unread: the client said goodbye while something else was going on."""
        return self._buffer.startswith(b"\x01\x00\x00\x00\x01")

    def set_limits(self, max_packet_bytes: int) -> None:
        """Change the largest payload accepted: small before login, larger after."""
        self._max_packet_bytes = max_packet_bytes

    async def wait_closed(self) -> None:
        """Return once the client has hung up, the line broke or was closed; the client may still be owed bytes."""
        if not self.closed:
            await _wait_in(self._close_waiters, self._loop)

    async def wait_lost(self) -> None:
        """Return once the socket is gone for good: after `close`, when the last bytes have left."""
        while not self._lost:
            await _wait_in(self._drainers, self._loop)

    async def wait_gone(self) -> None:
        """As `wait_closed`, and also when the client said COM_QUIT without hanging up."""
        if not self.closed and not self.pending_quit():
            await _wait_in(self._goodbye_waiters, self._loop)

    def _offer(self, data: bytes) -> bool:
        if self.fast_path is None or self._fault is not None:
            return False
        self._fast = True
        if self.fast_path(data):
            return True
        self._fast = False
        return False

    def _advance(self) -> None:
        """After bytes came, or the fast path ended: give them to whoever waits."""
        size = len(self._buffer)
        parked = self._command_reader
        if parked is not None and not self._fast and not parked.done():
            # A command cut by the network, or sent ahead of the last answer, may still be fast.
            if self.fast_path is not None and size <= FAST_BYTES_MAX and self._whole():
                data = bytes(self._buffer)
                self._buffer.clear()
                if self._offer(data):
                    self._needed = HEADER_BYTES
                    self._cancel_stall()
                    return
                self._buffer += data
            self._wake_if_whole(parked)
        elif self._reader is not None:
            self._wake_if_whole(self._reader)
        else:
            if self._goodbye_waiters and self.pending_quit():
                _wake_all(self._goodbye_waiters)
            if size > PENDING_BYTES_MAX:
                self._pause_reading()

    def _wake_if_whole(self, reader: asyncio.Future[None]) -> None:
        if not self._whole() and not self.closed:
            self._watch_progress()
        elif not reader.done():
            reader.set_result(None)

    def _whole(self) -> bool:
        """Whether a packet can be taken, or refused. Looks at the header once it is there."""
        buffer = self._buffer
        if self._needed == HEADER_BYTES and len(buffer) >= HEADER_BYTES:
            size = buffer[0] | buffer[1] << 8 | buffer[2] << 16
            if self._parts_bytes + size <= self._max_packet_bytes and buffer[3] == self.seq:
                self._needed = HEADER_BYTES + size
        return len(buffer) >= self._needed

    def _wake_reader(self) -> None:
        for reader in (self._reader, self._command_reader):
            if reader is not None and not reader.done():
                reader.set_result(None)

    def _check_readable(self) -> None:
        if self._fault is not None and not self._lost and not self._closing:
            raise self._fault
        if self.closed:
            raise StreamClosed("the client closed the connection")

    def _take(self) -> bytes | None:
        """One whole payload out of the buffer, or None and `_needed` says how much it takes to look again."""
        buffer = self._buffer
        while self._fault is None and len(buffer) >= HEADER_BYTES:
            size = buffer[0] | buffer[1] << 8 | buffer[2] << 16
            if self._parts_bytes + size > self._max_packet_bytes:
                self._fail(PacketTooLarge(self._max_packet_bytes))
            if buffer[3] != self.seq:
                self._fail(PacketsOutOfOrder(self.seq, buffer[3]))
            if len(buffer) < HEADER_BYTES + size:
                self._needed = HEADER_BYTES + size
                break
            self._needed = HEADER_BYTES
            self.seq = self.seq + 1 & 0xFF
            with memoryview(buffer) as view:
                payload = bytes(view[HEADER_BYTES : HEADER_BYTES + size])
            del buffer[: HEADER_BYTES + size]
            if size == PAYLOAD_MAX:
                self._parts.append(payload)
                self._parts_bytes += size
                continue
            self._cancel_stall()
            return self._join(payload)
        if buffer or self._parts:
            self._watch_progress()
        return None

    def _join(self, last: bytes) -> bytes:
        if not self._parts:
            return last
        payload = b"".join((*self._parts, last))
        self._parts, self._parts_bytes = [], 0
        return payload

    def _fail(self, fault: FatalProtocolError) -> None:
        """Raise, and from now on throw away whatever comes."""
        self._give_up(fault)
        raise fault

    def _give_up(self, fault: FatalProtocolError) -> None:
        self._fault = fault
        self._forget_unread()
        self._resume_reading()

    def _forget_unread(self) -> None:
        self._buffer.clear()
        self._parts, self._parts_bytes = [], 0
        self._cancel_stall()

    # --- bounds of reading

    def _watch_progress(self) -> None:
        if self._stall_timer is None:
            self._stall_timer = self._loop.call_later(STALL_SECONDS, self._check_progress, self._received)

    def _check_progress(self, received: int) -> None:
        self._stall_timer = None
        if self._received != received:
            self._watch_progress()
            return
        self._give_up(ReadTimeout())
        self._wake_reader()

    def _cancel_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    # --- writing

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
            self._flush()

    def write_framed(self, data: bytes) -> None:
        """Bytes that are packets already, past the framing; `seq` is the caller's to keep."""
        if self._out:
            self._flush()
        if self._transport is not None and not self._lost and not self._closing:
            self._transport.write(data)

    async def drain(self) -> None:
        """Send what was written and wait until the socket has room again.

        Raises:
            StreamClosed: the line is gone, or was closed by us.
        """
        self._flush()
        while self._writing_paused and not self._lost:
            await _wait_in(self._drainers, self._loop)
        if self._lost or self._closing or self._transport is None:
            raise StreamClosed("the connection is closed")

    def reset_seq(self) -> None:
        """The next packet begins a new command."""
        self.seq = 0

    def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, bytearray()
            if self._transport is not None and not self._lost and not self._closing:
                self._transport.write(out)

    # --- the line itself

    async def start_tls(self, ctx: SSLContext) -> None:
        """Continue encrypted, as the server's side.

        A client begins TLS right behind its request, so its first bytes may have been read already: they go to TLS,
        never to us. Clear text sent ahead in someone's name thus breaks the handshake instead of being believed.

        Raises:
            StreamClosed: the handshake failed or the line is gone.
        """
        if self._transport is None or self.closed:
            raise StreamClosed("the client closed the connection")
        early = bytes(self._buffer)
        self._forget_unread()
        handshake = self._loop.create_task(self._loop.start_tls(self._transport, self, ctx, server_side=True))
        for _ in range(2):
            await asyncio.sleep(0)  # the TLS protocol has taken our place, then is connected; it reads nothing before
        if early and not handshake.done():
            _feed(self._transport.get_protocol(), early)
        try:
            transport = await handshake
        except OSError as error:
            self.abort()
            raise StreamClosed("the TLS handshake failed") from error
        assert transport is not None
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def close(self, *, linger: bool = False) -> None:
        """Send what was written, then close; nothing is read any more, not even what has come already.

        `linger`: let the client read our last words although it goes on talking. May be called twice.
        """
        transport = self._transport
        if transport is None or self._lost or self._closing or transport.is_closing():
            return
        self._flush()
        self._lingering = (linger or self._fault is not None) and not self.closed and transport.can_write_eof()
        self._closing = True
        self._forget_unread()
        self._mark_closed()
        if self._lingering:
            transport.write_eof()
            self._resume_reading()
        else:
            transport.close()
        patience = LINGER_SECONDS if self._lingering else CLOSE_SECONDS
        self._close_timer = self._loop.call_later(patience, transport.abort)
        self._wake_reader()

    def abort(self) -> None:
        """Close at once; nothing more is sent or read."""
        self._closing = True
        self._forget_unread()
        if self._transport is not None:
            self._transport.abort()

    def _mark_closed(self) -> None:
        self.closed = True
        _wake_all(self._close_waiters)
        _wake_all(self._goodbye_waiters)


async def _wait_in(waiters: list[asyncio.Future[None]], loop: asyncio.AbstractEventLoop) -> None:
    waiter = loop.create_future()
    waiters.append(waiter)
    try:
        await waiter
    finally:
        if waiter in waiters:
            waiters.remove(waiter)


def _wake_all(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()


def _feed(protocol: Any, data: bytes) -> None:
    """Give bytes to a BufferedProtocol as its transport would."""
    view = memoryview(data)
    while view:
        space = protocol.get_buffer(len(view))
        size = min(len(space), len(view))
        space[:size] = view[:size]
        protocol.buffer_updated(size)
        view = view[size:]

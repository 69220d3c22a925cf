"""ClientSocket: the client's socket as packets. Frames, checks and bounds; knows nothing of what packets mean.

The writing half is ClientOutput. Rules:
- One reader. Bytes are kept until somebody reads them, at most `PENDING_BYTES_MAX` of them while nobody does; then the
  socket itself is not read any further, and the client waits.
- A reader is woken when its packet is whole, never by half headers. A payload above the limit is refused at its header.
- Of a command of `large_from` bytes or more `read_command` gives the beginning, and `read_piece` the rest as it comes.
- The fast path: while a reader is parked in `read_command` and nothing else is pending, `fast_path` sees raw bytes
  first. If it takes them, bytes that follow are kept until `fast_done`, and the reader stays asleep.
- After a protocol error nothing more is read; what still comes is thrown away for a moment, because closing a socket
  with unread bytes would take the error message away from the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from ssl import SSLContext
from typing import NoReturn, cast

from proxy.errors import FatalProtocolError, PacketsOutOfOrder, PacketTooLarge, ReadTimeout, StreamClosed
from proxy.transport import tcp
from proxy.transport.client_output import WRITE_HIGH_BYTES, ClientOutput, wait_in, wake_all
from proxy.transport.compressed import CompressedTransport
from proxy.wire.command_pieces import HEAD_BYTES, NEVER_LARGE, Pieces, head_needed
from proxy.wire.packets import HEADER_BYTES, PAYLOAD_MAX, PIECE_BYTES, Continued

PENDING_BYTES_MAX = 256 * 1024  # unread bytes held for a client that talks ahead; MySQL's own net buffer grows likewise
FAST_BYTES_MAX = 16 * 1024  # a fragment is only joined and offered again below this: joining copies
STALL_SECONDS = 30.0  # MySQL's net_read_timeout: how long a begun packet may make no progress
LINGER_SECONDS = 2.0  # time for an error message to arrive before the socket is torn down
QUIET_SECONDS = 0.1  # silence by which a client on TLS has read it; half a TLS connection cannot be closed
CLOSE_SECONDS = 10.0  # time for the last bytes to leave; a client that reads nothing must not hold a socket for ever

Relay = Callable[[bytes], bool]  # takes a whole command, or says that it does not


class ClientSocket(ClientOutput):
    """See the module."""

    def __init__(self, on_connected: Callable[[ClientSocket], None], *, max_packet_bytes: int) -> None:
        super().__init__()
        self.goodbye = False  # the client has said COM_QUIT, as those do that end in order
        self.fast_path: Relay | None = None
        self.large_from = NEVER_LARGE
        self.pieces: Pieces | None = None  # of a command whose beginning was given, until its end has been read
        self.on_lost: Callable[[], None] | None = None
        self.on_talk: Callable[[], None] | None = None
        """Called when the client speaks, or goes, while nobody reads: `talking` has become true."""
        self._on_connected = on_connected
        self.max_packet_bytes = max_packet_bytes
        self._buffer = bytearray()
        self._continued = Continued()
        self._needed = HEADER_BYTES  # bytes in the buffer below which the next packet cannot be whole
        self._fault: FatalProtocolError | None = None
        self._command_reader: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        self._armed: Relay | None = None  # `fast_path` while a reader is parked and nothing else is pending
        self._fast = False
        self.waiting_since: float | None = None
        """Since when `read` waits for a packet, or `start_tls` for the client; None: neither does."""
        self.encrypting = False
        """Whether TLS is being begun: nothing may be written meanwhile."""
        self._reading_paused = False
        self._stall_timer: asyncio.TimerHandle | None = None
        self._received = 0  # counts chunks, to tell progress from a stall
        self._lingering = False
        self._close_timer: asyncio.TimerHandle | None = None
        self._quiet_timer: asyncio.TimerHandle | None = None
        self._goodbye_waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        state = "lost" if self._lost else "closed" if self.closed else "fast" if self._fast else "open"
        return f"<ClientSocket {state} seq={self.seq} unread={len(self._buffer)} unsent={len(self._out)}>"

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peername = tuple(peer) if isinstance(peer, (tuple, list)) else ()
        self.writer, self.local = self._transport.write, tcp.is_local(transport)
        tcp.tune_accepted(transport)
        self._transport.set_write_buffer_limits(high=tcp.UNBUFFERED)
        self._on_connected(self)

    def data_received(self, data: bytes) -> None:
        armed = self._armed
        if armed is not None:
            self._armed = None
            self._fast = True
            if armed(data):
                return
            self._fast = False
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
            tcp.close_once(self._transport)
        if self.encrypted:
            self.writer = self._armed = None  # asyncio keeps no half of a TLS connection, and complains of writes
        return not self.encrypted

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost:
            return
        self._never_sent = self.never_sent
        self._lost = True
        self.writer = self._armed = None
        self._mark_closed()
        if self._reader is None:
            self._forget_unread()  # commands sent ahead: nobody is left to be answered, and a reset had lost them
        self._cancel_stall()
        for timer in (self._close_timer, self._quiet_timer):
            if timer is not None:
                timer.cancel()
        self._wake_reader()
        wake_all(self._drainers)
        if self.on_lost is not None:
            self.on_lost()

    # --- what is seen from outside

    @property
    def resting(self) -> bool:
        """Whether the client has been answered, nothing of a next command has come, and it may send one."""
        parked = self._command_reader
        return parked is not None and not parked.done() and not self._fast and not self._buffer and not self._closing

    @property
    def talking(self) -> bool:
        """Whether `read` would not have to wait: for a packet, for a fault, or because the client is gone."""
        return self.closed or self._fault is not None or self._whole()

    @property
    def relaying(self) -> bool:
        """Whether a statement that took the fast path is being answered."""
        return self._fast

    @property
    def reading_paused(self) -> bool:
        """Whether the socket is not read at present, so that nobody would notice that the client hung up."""
        return self._reading_paused and not self._lost

    # --- reading

    async def read(self) -> bytes:
        """The next packet's payload, continuations joined.

        Raises:
            StreamClosed: the client hung up before another whole packet.
            FatalProtocolError: wrong sequence id, too large, or stalled; answer it and close.
        """
        if (payload := self._take()) is not None:
            return payload
        self.waiting_since = self._loop.time()
        try:
            while (payload := self._take()) is None:
                await self._more()
        finally:
            self.waiting_since = None
        return payload

    async def read_command(self) -> bytes:
        """Begin a new command: sequence 0, then as `read`. The one place where the fast path may step in."""
        self.seq = 0
        while (payload := self._take_command()) is None:
            self._check_readable()
            self._command_reader = self._loop.create_future()
            self._resume_reading()
            self._arm()
            try:
                await self._command_reader
            finally:
                self._armed = None
                self._command_reader = None
        return payload

    async def read_piece(self) -> bytes:
        """More of the payload that `read_command` began, as much as has come; nothing at its end. Raises as `read`."""
        while (piece := self._take_piece()) is None:
            await self._more()
        return piece

    async def _more(self) -> None:
        self._check_readable()
        self._reader = self._loop.create_future()
        self._resume_reading()
        try:
            await self._reader
        finally:
            self._reader = None

    def fast_done(self) -> None:
        """The answer to what `fast_path` took has been written: back to ordinary reading. `seq` must be 0 again."""
        self._fast = False
        if not (self._buffer or self.closed or self._reading_paused):
            self._armed = self.fast_path
            return
        if self._buffer:
            self._advance()
        elif self.closed:
            self._wake_reader()
        else:
            self._armed = self.fast_path
        self._resume_reading()

    def _arm(self) -> None:
        """From now on the fast path sees bytes first: a reader is parked, and nothing came before them."""
        if not self._buffer and not self._continued and self._fault is None:
            self._flush()
            self._armed = self.fast_path

    def pending_quit(self) -> bool:
        """Whether a whole COM_QUIT waits unread: the client said goodbye while something else was going on."""
        return self._buffer.startswith(b"\x01\x00\x00\x00\x01")

    def set_limits(self, max_packet_bytes: int) -> None:
        """Change the largest payload accepted: small before login, larger after."""
        self.max_packet_bytes = max_packet_bytes

    async def wait_gone(self) -> None:
        """Return once the client has hung up or said COM_QUIT, or the connection is lost or closed. Bytes may still be
        on their way to it."""
        if not self.closed and not self.pending_quit():
            await wait_in(self._goodbye_waiters, self._loop)

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
                wake_all(self._goodbye_waiters)
            if self.on_talk is not None and self.talking:
                self.on_talk()
            if size > PENDING_BYTES_MAX:
                self._pause_reading()

    def _wake_if_whole(self, reader: asyncio.Future[None]) -> None:
        whole = self._whole() if self.pieces is None else len(self._buffer) >= self.pieces.needed
        if not whole and not self.closed:
            self._watch_progress()
        elif not reader.done():
            reader.set_result(None)

    def _whole(self) -> bool:
        """Whether a packet can be taken, or refused. Looks at the header once it is there."""
        buffer = self._buffer
        if self._needed == HEADER_BYTES and len(buffer) >= HEADER_BYTES:
            size = buffer[0] | buffer[1] << 8 | buffer[2] << 16
            if self._command_reader is not None and (large := head_needed(buffer, self.large_from)) is not None:
                self._needed = large
            elif self._continued.size + size <= self.max_packet_bytes and buffer[3] == self.seq:
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
            if self._continued.size + size > self.max_packet_bytes:
                self.fail(PacketTooLarge(self.max_packet_bytes))
            if buffer[3] != self.seq:
                self.fail(PacketsOutOfOrder(self.seq, buffer[3]))
            if len(buffer) < HEADER_BYTES + size:
                self._needed = HEADER_BYTES + size
                break
            self._needed = HEADER_BYTES
            self.seq = self.seq + 1 & 0xFF
            with memoryview(buffer) as view:
                payload = bytes(view[HEADER_BYTES : HEADER_BYTES + size])
            del buffer[: HEADER_BYTES + size]
            if size == PAYLOAD_MAX or self._continued:
                self._continued.keep(payload)
                if size == PAYLOAD_MAX:
                    continue
                payload = self._continued.take()
            self._cancel_stall()
            return payload
        if buffer or self._continued:
            self._watch_progress()
        return None

    def _take_command(self) -> bytes | None:
        needed = head_needed(self._buffer, self.large_from)
        if needed is None or self._fault is not None:
            return self._take()
        if len(self._buffer) < needed:
            self._needed = needed
            self._watch_progress()
            return None
        self.pieces, self._needed = Pieces(self._buffer), HEADER_BYTES
        return self._take_piece(HEAD_BYTES)

    def _take_piece(self, most: int = PIECE_BYTES) -> bytes | None:
        if self.pieces is None or self._fault is not None:
            return None if self._fault is not None or self.closed else b""
        try:
            piece = self.pieces.take(most)
        except PacketsOutOfOrder as fault:
            self.fail(fault)
        self.seq = self.pieces.seq
        if piece is None:
            self._watch_progress()
            return None
        self._cancel_stall()
        self.pieces = self.pieces if piece else None
        return piece

    def fail(self, fault: FatalProtocolError) -> NoReturn:
        """Raise, and from now on throw away whatever comes."""
        self._give_up(fault)
        raise fault

    def _give_up(self, fault: FatalProtocolError) -> None:
        self._fault = fault
        self._forget_unread()
        self._resume_reading()
        self._wake_reader()

    def _forget_unread(self) -> None:
        self._buffer.clear()
        self._continued.clear()
        self.pieces = None
        self._cancel_stall()

    # --- bounds of reading

    def _watch_progress(self) -> None:
        if self._stall_timer is None and not self._lost:
            self._stall_timer = self._loop.call_later(STALL_SECONDS, self._check_progress, self._received)

    def _check_progress(self, received: int) -> None:
        self._stall_timer = None
        self._watch_progress() if self._received != received else self._give_up(ReadTimeout())

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

    # --- the connection itself

    async def start_tls(self, ctx: SSLContext) -> None:
        """Continue encrypted, as the server's side.

        A client begins TLS right after its request, so its first bytes may have been read already: they go to TLS,
        never to us. Clear text sent ahead in someone's name thus breaks the handshake instead of being believed.

        Raises:
            StreamClosed: the handshake failed or the connection is gone.
        """
        plain = self._transport
        if plain is None or self.closed or plain.is_closing():
            raise StreamClosed("the client closed the connection")
        plain.pause_reading()  # from here on nothing may reach `data_received` but what was encrypted
        self._reading_paused = False  # which the loop's own start_tls sees to
        early = bytes(self._buffer)
        self._forget_unread()
        self.waiting_since, self.encrypting = self._loop.time(), True
        handshake = self._loop.create_task(self._loop.start_tls(plain, self, ctx, server_side=True))
        try:
            for _ in range(2):
                await asyncio.sleep(0)  # the TLS protocol has taken our place, then is connected; it reads only then
            if early and not handshake.done():
                tcp.feed(plain.get_protocol(), early)
            transport = await handshake
            if transport is None:  # asyncio's way to say that the connection was lost without an error
                raise ConnectionResetError("the line was lost")
        except BaseException as error:
            handshake.cancel()
            with contextlib.suppress(OSError, RuntimeError):
                self.abort()
            self.connection_lost(None)  # in mid-handshake the TLS protocol keeps it to itself
            if isinstance(error, (OSError, RuntimeError)):
                raise StreamClosed(f"the TLS handshake failed: {error}") from error
            raise
        finally:
            self.waiting_since, self.encrypting = None, False
        self._transport, self.writer, self.encrypted = transport, tcp.by_records(transport.write), True
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def start_compression(self, capabilities: int) -> None:
        """The client has its OK: from now on packets are inside compressed ones. `capabilities`: what it and we have
        agreed on."""
        if self._transport is None or self._transport.is_closing():
            return
        self._flush()
        early = bytes(self._buffer)
        self._forget_unread()
        line = CompressedTransport(
            self._transport, self, serving=True, capabilities=capabilities, on_fault=self._give_up
        )
        self._transport, self.writer = line, line.write
        line.data_received(early)

    def close(self, *, linger: bool = False) -> None:
        """Send what was written, then close; nothing is read any more, not even what has come already.

        `linger`: let the client read our last words although it goes on talking. May be called twice.
        """
        transport = self._transport
        if transport is None or self._lost or self._closing or transport.is_closing():
            return
        self._flush()
        self._lingering = (linger or self._fault is not None) and not self.closed
        self._closing = True
        self.writer = self._armed = None
        self._forget_unread()
        self._mark_closed()
        if self._lingering:
            if transport.can_write_eof():
                transport.write_eof()
            else:
                self._await_quiet(transport)
            self._resume_reading()
        else:
            transport.close()
        patience = LINGER_SECONDS if self._lingering else CLOSE_SECONDS
        self._close_timer = self._loop.call_later(patience, transport.abort)
        self._wake_reader()

    def _await_quiet(self, transport: asyncio.Transport) -> None:
        received = self._received

        def look() -> None:
            if self._received != received:
                self._await_quiet(transport)
            else:
                tcp.close_once(transport)

        self._quiet_timer = self._loop.call_later(QUIET_SECONDS, look)

    def cut(self) -> None:
        """Close at once, and have the kernel throw away what it has not sent: nobody shall read it any more."""
        sock = self.socket
        if sock is not None and sock.fileno() >= 0:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def abort(self) -> None:
        """Close at once; nothing more is sent or read."""
        self._closing = True
        self.writer = self._armed = None
        self._forget_unread()
        if self._transport is not None and not self._lost:
            self._transport.abort()

    def _mark_closed(self) -> None:
        self.closed = True
        wake_all(self._goodbye_waiters)
        if self.on_talk is not None:
            self.on_talk()

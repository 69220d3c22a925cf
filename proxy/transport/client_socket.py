"""ClientSocket: the socket of one client. CommandReader reads commands out of its bytes, ClientOutput writes to it.

Rules:
- One reader. Bytes are buffered until they are read, at most `PENDING_BYTES_MAX` of them without a reader; then the
  socket itself is not read any further, and the client waits.
- A reader is woken when its packet is whole, never by half headers.
- Of a command of `commands.large_from` bytes or more `read_command` gives the beginning, `read_piece` the rest.
- The fast path: while a reader is parked in `read_command` and nothing else is pending, `fast_path` sees raw bytes
  first. If it takes them, bytes that follow are buffered until `fast_done`, and the reader stays asleep.
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

from proxy.errors import FatalProtocolError, ReadTimeout, StreamClosed
from proxy.transport import tcp
from proxy.transport.client_output import ENDED, WRITE_HIGH_BYTES, ClientOutput, ConnectionState, wait_in, wake_all
from proxy.transport.compressed import CompressedTransport
from proxy.wire.command_reader import CommandReader

PENDING_BYTES_MAX = 256 * 1024
"""Unread bytes buffered for a client that sends ahead; MySQL's own net buffer grows likewise."""
FAST_BYTES_MAX = 16 * 1024  # a fragment is only joined and offered again below this: joining copies
STALL_SECONDS = 30.0  # MySQL's net_read_timeout: how long a begun packet may make no progress
LINGER_SECONDS = 2.0  # time for an error message to arrive before the socket is torn down
QUIET_SECONDS = 0.1  # silence by which a client on TLS has read it; half a TLS connection cannot be closed
CLOSE_SECONDS = 10.0  # time for the last bytes to leave; a client that reads nothing must not occupy a socket for ever

Relay = Callable[[bytes], bool]  # takes a whole command, or returns False


class ClientSocket(ClientOutput):
    """See the module."""

    def __init__(self, on_connected: Callable[[ClientSocket], None], *, max_packet_bytes: int) -> None:
        super().__init__()
        self.commands = CommandReader(max_packet_bytes)
        self.quit_received = False  # the client has sent COM_QUIT, as in an orderly end
        self.fast_path: Relay | None = None
        self.relaying = False
        """Whether a statement that took the fast path is being answered."""
        self.on_input: Callable[[], None] | None = None
        """Called when the client sends something, or disconnects, without a reader: `input_ready` has become true."""
        self._on_connected = on_connected
        self._fault: FatalProtocolError | None = None  # why the state is FAILED
        self._command_waiter: asyncio.Future[None] | None = None
        self._packet_waiter: asyncio.Future[None] | None = None
        self._active_fast_path: Relay | None = None  # `fast_path` while a reader is parked and nothing else is pending
        self.waiting_since: float | None = None
        """Since when `read` waits for a packet, or `start_tls` for the client; None: neither does."""
        self.encrypting = False
        """Whether TLS is being begun: nothing may be written meanwhile."""
        self._reading_paused = False
        self._received = 0  # counts chunks, to distinguish progress from a stall
        self._stall_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._quiet_timer: asyncio.TimerHandle | None = None
        self._quit_waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return (
            f"<ClientSocket {self._state.value} seq={self.seq} unread={self.commands.unread} unsent={len(self._out)}>"
        )

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
        fast_path = self._active_fast_path
        if fast_path is not None:
            self._active_fast_path = None
            self.relaying = True
            if fast_path(data):
                return
            self.relaying = False
        self._received += 1
        if self._state is ConnectionState.OPEN:
            self.commands.feed(data)
            self._advance()

    def eof_received(self) -> bool:
        """The client will send no more. The socket stays open for the answers to what it did send."""
        self._mark_closed()
        # A command reader that sleeps through the fast path is woken by `fast_done`: its last answer is still to come.
        for waiter in (self._packet_waiter, None if self.relaying else self._command_waiter):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        if self._state is ConnectionState.LINGERING and self._transport is not None:
            tcp.close_once(self._transport)
        if self.encrypted:  # asyncio keeps no half of a TLS connection, and complains of writes
            self.writer = self._active_fast_path = None
        return not self.encrypted

    def connection_lost(self, exc: Exception | None) -> None:
        if self.lost:
            return
        self._never_sent = self.never_sent
        self._state = ConnectionState.LOST
        self.writer = self._active_fast_path = None
        self._mark_closed()
        if self._packet_waiter is None:
            self._forget_unread()  # commands sent ahead: no one is left to be answered, and a reset had lost them
        self._cancel_stall()
        for timer in (self._close_timer, self._quiet_timer):
            if timer is not None:
                timer.cancel()
        self._wake_reader()
        wake_all(self._drain_waiters)
        if self.source is not None:
            self.source.resume_reading()

    # --- observable state

    @property
    def idle(self) -> bool:
        """Whether the client has been answered, nothing of a next command has come, and it may send one."""
        parked = self._command_waiter
        waits = parked is not None and not parked.done() and not self.relaying
        return waits and not self.commands.unread and self._state not in ENDED

    @property
    def input_ready(self) -> bool:
        """Whether `read` would not have to wait: for a packet, for a fault, or because the client is gone."""
        return self.closed or self._fault is not None or self._whole()

    @property
    def reading_paused(self) -> bool:
        """Whether the socket is not read at present, so that no one would notice that the client hung up."""
        return self._reading_paused and not self.lost

    # --- reading

    async def read(self) -> bytes:
        """The next packet's payload, continuations joined.

        Raises:
            StreamClosed: the client hung up before another whole packet.
            FatalProtocolError: wrong sequence id, too large, or stalled; answer it and close.
        """
        if (payload := self._take(self.commands.next_packet)) is not None:
            return payload
        self.waiting_since = self._loop.time()
        try:
            while (payload := self._take(self.commands.next_packet)) is None:
                await self._wait_for_data()
        finally:
            self.waiting_since = None
        return payload

    async def read_command(self) -> bytes:
        """Begin a new command: sequence 0, then as `read`. The one place where the fast path may step in."""
        self.seq = 0
        while (payload := self._take(self.commands.next_command)) is None:
            self._check_readable()
            self._command_waiter = self._loop.create_future()
            self._resume_reading()
            self._activate_fast_path()
            try:
                await self._command_waiter
            finally:
                self._active_fast_path = None
                self._command_waiter = None
        return payload

    async def read_piece(self) -> bytes:
        """More of the payload that `read_command` began, as much as has come; nothing at its end. Raises as `read`."""
        if self.commands.pieces is None:
            self._check_readable()  # what was begun may be lost with the connection: that is no end
        while (piece := self._take(self.commands.next_piece)) is None:
            await self._wait_for_data()
        return piece

    async def _wait_for_data(self) -> None:
        self._check_readable()
        self._packet_waiter = self._loop.create_future()
        self._resume_reading()
        try:
            await self._packet_waiter
        finally:
            self._packet_waiter = None

    def _take(self, read: Callable[[], bytes | None]) -> bytes | None:
        """What the reader of commands has now; None: to be waited for. Both directions count sequence ids together."""
        if self._fault is not None:
            return None
        commands = self.commands
        commands.seq = self.seq
        try:
            taken = read()
        except FatalProtocolError as fault:
            self.seq = commands.seq
            self.fail(fault)
        self.seq = commands.seq
        if taken is not None:
            self._cancel_stall()
        elif commands.begun:
            self._watch_progress()
        return taken

    def fast_done(self) -> None:
        """The answer to what `fast_path` took has been written: back to ordinary reading. `seq` must be 0 again."""
        self.relaying = False
        if not (self.commands.unread or self.closed or self._reading_paused):
            self._active_fast_path = self.fast_path
            return
        if self.commands.unread:
            self._advance()
        elif self.closed:
            self._wake_reader()
        else:
            self._active_fast_path = self.fast_path
        self._resume_reading()

    def _activate_fast_path(self) -> None:
        """From now on the fast path sees bytes first: a reader is parked, and nothing came before them."""
        if not self.commands.begun and self._fault is None:
            self._flush()
            self._active_fast_path = self.fast_path

    async def wait_disconnected(self) -> None:
        """Return once the client has hung up or sent COM_QUIT, or the connection is lost or closed. Bytes may still be
        on their way to it."""
        if not self.closed and not self.commands.quits:
            await wait_in(self._quit_waiters, self._loop)

    def _advance(self) -> None:
        """After bytes came, or the fast path ended: give them to the waiting reader."""
        parked = self._command_waiter
        if parked is not None and not self.relaying and not parked.done():
            # A command cut by the network, or sent ahead of the last answer, may still be fast.
            if self.commands.unread > FAST_BYTES_MAX or not self._whole() or not self._try_fast_path():
                self._wake_if_whole(parked)
        elif self._packet_waiter is not None:
            self._wake_if_whole(self._packet_waiter)
        else:
            if self._quit_waiters and self.commands.quits:
                wake_all(self._quit_waiters)
            if self.on_input is not None and self.input_ready:
                self.on_input()
            if self.commands.unread > PENDING_BYTES_MAX:
                self._pause_reading()

    def _try_fast_path(self) -> bool:
        """Offer all that is unread to the fast path; whether it has taken it."""
        if self.fast_path is None or self.commands.continues:
            return False
        data = self.commands.take_all()
        self.relaying = True
        if self.fast_path(data):
            self._cancel_stall()
            return True
        self.relaying = False
        self.commands.feed(data)
        return False

    def _wake_if_whole(self, waiter: asyncio.Future[None]) -> None:
        if not self._whole() and not self.closed:
            self._watch_progress()
        elif not waiter.done():
            waiter.set_result(None)

    def _whole(self) -> bool:
        """Whether a packet can be taken, or refused."""
        self.commands.seq = self.seq
        return self.commands.ready(command=self._command_waiter is not None)

    def _wake_reader(self) -> None:
        for waiter in (self._packet_waiter, self._command_waiter):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _check_readable(self) -> None:
        if self._fault is not None and self._state is ConnectionState.FAILED:
            raise self._fault
        if self.closed:
            raise StreamClosed("the client closed the connection")

    def fail(self, fault: FatalProtocolError) -> NoReturn:
        """Raise, and from now on throw away whatever comes."""
        self._fail_with(fault)
        raise fault

    def _fail_with(self, fault: FatalProtocolError) -> None:
        self._fault = fault
        if self._state is ConnectionState.OPEN:
            self._state = ConnectionState.FAILED
        self._forget_unread()
        self._resume_reading()
        self._wake_reader()

    def _forget_unread(self) -> None:
        self.commands.clear()
        self._cancel_stall()

    # --- bounds of reading

    def _watch_progress(self) -> None:
        if self._stall_timer is None and not self.lost:
            self._stall_timer = self._loop.call_later(STALL_SECONDS, self._check_progress, self._received)

    def _check_progress(self, received: int) -> None:
        self._stall_timer = None
        self._watch_progress() if self._received != received else self._fail_with(ReadTimeout())

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
        early = self.commands.take_all()
        self._cancel_stall()
        self.waiting_since, self.encrypting = self._loop.time(), True
        handshake = self._loop.create_task(self._loop.start_tls(plain, self, ctx, server_side=True))
        try:
            for _ in range(2):
                await asyncio.sleep(0)  # the TLS protocol has taken our place, then is connected; it reads only then
            if early and not handshake.done():
                tcp.feed(plain.get_protocol(), early)
            transport = await handshake
            if transport is None:  # how asyncio reports that the connection was lost without an error
                raise ConnectionResetError("the connection was lost")
        except BaseException as error:
            handshake.cancel()
            with contextlib.suppress(OSError, RuntimeError):
                self.abort()
            self.connection_lost(None)  # in mid-handshake the TLS protocol does not report it
            if isinstance(error, (OSError, RuntimeError)):
                raise StreamClosed(f"the TLS handshake failed: {error}") from error
            raise
        finally:
            self.waiting_since, self.encrypting = None, False
        self._transport, self.writer, self.encrypted = transport, tcp.by_records(transport.write), True
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def start_compression(self, capabilities: int) -> None:
        """The client has received its OK: from now on packets are inside compressed ones. `capabilities`: what it and
        we have agreed on."""
        if self._transport is None or self._transport.is_closing():
            return
        self._flush()
        early = self.commands.take_all()
        self._cancel_stall()
        compressed = CompressedTransport(
            self._transport, self, serving=True, capabilities=capabilities, on_fault=self._fail_with
        )
        self._transport, self.writer = compressed, compressed.write
        compressed.data_received(early)

    def close(self, *, linger: bool = False) -> None:
        """Send what was written, then close; nothing is read any more, not even what has come already.

        `linger`: let the client read our error although it still sends. May be called twice.
        """
        transport = self._transport
        if transport is None or self._state in ENDED or transport.is_closing():
            return
        self._flush()
        lingers = (linger or self._fault is not None) and not self.closed
        self._state = ConnectionState.LINGERING if lingers else ConnectionState.CLOSING
        self.writer = self._active_fast_path = None
        self._forget_unread()
        self._mark_closed()
        if lingers:
            if transport.can_write_eof():
                transport.write_eof()
            else:
                self._await_quiet(transport)
            self._resume_reading()
        else:
            transport.close()
        patience = LINGER_SECONDS if lingers else CLOSE_SECONDS
        self._close_timer = self._loop.call_later(patience, transport.abort)
        self._wake_reader()

    def _await_quiet(self, transport: asyncio.Transport) -> None:
        received = self._received

        def check() -> None:
            if self._received != received:
                self._await_quiet(transport)
            else:
                tcp.close_once(transport)

        self._quiet_timer = self._loop.call_later(QUIET_SECONDS, check)

    def cut(self) -> None:
        """Close at once, and have the kernel throw away what it has not sent: no one shall read it any more."""
        sock = self.socket
        if sock is not None and sock.fileno() >= 0:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def abort(self) -> None:
        """Close at once; nothing more is sent or read."""
        self.writer = self._active_fast_path = None
        self._forget_unread()
        if not self.lost:
            self._state = ConnectionState.CLOSING
            if self._transport is not None:
                self._transport.abort()

    def _mark_closed(self) -> None:
        self.closed = True
        wake_all(self._quit_waiters)
        if self.on_input is not None:
            self.on_input()

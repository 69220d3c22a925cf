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
from collections.abc import Callable

from mysql_wire.command_reader import CommandReader
from mysql_wire.errors import FatalProtocolError
from proxy.errors import StreamClosed
from proxy.transport import tcp
from proxy.transport.client_output import ENDED, ClientOutput, ConnectionState, wake_all
from proxy.transport.client_timers import ClientTimers

PENDING_BYTES_MAX = 256 * 1024
"""Unread bytes buffered for a client that sends ahead; MySQL's own net buffer grows likewise."""
FAST_BYTES_MAX = 16 * 1024  # a fragment is only joined and offered again below this: joining copies

Relay = Callable[[bytes], bool]  # takes a whole command, or returns False


class ReadFlow:
    """Whether bytes are taken from the socket: its transport is paused exactly while `paused`."""

    __slots__ = ("paused",)

    def __init__(self) -> None:
        self.paused = False

    def pause(self, transport: asyncio.Transport | None) -> None:
        """Take no more."""
        if not self.paused and transport is not None and not transport.is_closing():
            self.paused = True
            transport.pause_reading()

    def resume(self, transport: asyncio.Transport | None) -> None:
        """Go on taking."""
        if self.paused and transport is not None and not transport.is_closing():
            self.paused = False
            transport.resume_reading()


class ReaderWaiters:
    """Who waits for the client's bytes: at most one reader, parked for a `command` or in want of a `packet`, and those
    that wait for the client's end."""

    __slots__ = ("command", "ends", "packet")

    def __init__(self) -> None:
        self.command: asyncio.Future[None] | None = None
        self.packet: asyncio.Future[None] | None = None
        self.ends: list[asyncio.Future[None]] = []

    def expect_end(self, end: asyncio.Future[None]) -> None:
        """It is done at the end; one that was cancelled is forgotten."""
        self.ends = [other for other in self.ends if not other.done()]
        self.ends.append(end)

    def wake(self, *, command: bool = True) -> None:
        """The reader shall see what has happened; the parked one only with `command`."""
        for waiter in (self.packet, self.command if command else None):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


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
        self._reader = ReaderWaiters()
        self._active_fast_path: Relay | None = None  # `fast_path` while a reader is parked and nothing else is pending
        self.waiting_since: float | None = None
        """Since when `read` waits for a packet, or `start_tls` for the client; None: neither does."""
        self.encrypting = False
        """Whether TLS is being begun: nothing may be written meanwhile."""
        self.flow = ReadFlow()
        self._timers = ClientTimers(self._loop)

    def __repr__(self) -> str:
        return (
            f"<ClientSocket {self._state.value} seq={self.seq} unread={self.commands.unread} unsent={len(self._out)}>"
        )

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._on_connected(self)

    def data_received(self, data: bytes) -> None:
        fast_path = self._active_fast_path
        if fast_path is not None:
            self._active_fast_path = None
            self.relaying = True
            if fast_path(data):
                return
            self.relaying = False
        self._timers.received += 1
        if self._state is ConnectionState.OPEN:
            self.commands.feed(data)
            self._advance(fast=fast_path is None)

    def eof_received(self) -> bool:
        """The client will send no more. The socket stays open for the answers to what it did send."""
        self._mark_closed()
        # A command reader that sleeps through the fast path is woken by `fast_done`: its last answer is still to come.
        self._reader.wake(command=not self.relaying)
        if self._state is ConnectionState.LINGERING and self.transport is not None:
            tcp.close_once(self.transport)
        if self.encrypted:  # asyncio keeps no half of a TLS connection, and complains of writes
            self._active_fast_path = None
            self._end(self._state)
        return not self.encrypted

    def connection_lost(self, exc: Exception | None) -> None:
        if self.lost:
            return
        self._active_fast_path = None
        self._end(ConnectionState.LOST)
        self._mark_closed()
        if self._reader.packet is None:
            self.commands.clear()  # sent ahead: no one is left to be answered, and a reset had lost them
        self._timers.cancel()
        self._reader.wake()
        wake_all(self._drain_waiters)
        if self.source is not None:
            self.source.resume_reading()

    # --- observable state

    @property
    def idle(self) -> bool:
        """Whether the client has been answered, nothing of a next command has come, and it may send one."""
        parked = self._reader.command
        waits = parked is not None and not parked.done() and not self.relaying
        return waits and not self.commands.unread and self._state not in ENDED

    @property
    def input_ready(self) -> bool:
        """Whether `read` would not have to wait: for a packet, for a fault, or because the client is gone."""
        return self.closed or self._fault is not None or self._whole()

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
        reader = self._reader
        while (payload := self._take(self.commands.next_command)) is None:
            self._check_readable()
            reader.command = self._loop.create_future()
            self.flow.resume(self.transport)
            if not self.commands.begun and self._fault is None:
                # From now on the fast path sees bytes first: nothing came before them.
                self.push()
                self._active_fast_path = self.fast_path
            try:
                await reader.command
            finally:
                self._active_fast_path = None
                reader.command = None
        return payload

    async def read_piece(self) -> bytes:
        """More of the payload that `read_command` began, as much as has come; nothing at its end. Raises as `read`."""
        if self.commands.pieces is None:
            self._check_readable()  # what was begun may be lost with the connection: that is no end
        while (piece := self._take(self.commands.next_piece)) is None:
            await self._wait_for_data()
        return piece

    async def _wait_for_data(self) -> None:
        reader = self._reader
        self._check_readable()
        reader.packet = self._loop.create_future()
        self.flow.resume(self.transport)
        try:
            await reader.packet
        finally:
            reader.packet = None

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
            raise
        self.seq = commands.seq
        if taken is not None:
            self._timers.cancel_stall()
        elif commands.begun and not self.lost:
            self._timers.watch_progress(self.fail)
        return taken

    def fast_done(self) -> None:
        """The answer to what `fast_path` took has been written: back to ordinary reading. `seq` must be 0 again."""
        self.relaying = False
        if not (self.commands.unread or self.closed or self.flow.paused):
            self._active_fast_path = self.fast_path
            return
        if self.commands.unread:
            self._advance()
        elif self.closed:
            self._reader.wake()
        else:
            self._active_fast_path = self.fast_path
        self.flow.resume(self.transport)

    def disconnected(self) -> asyncio.Future[None]:
        """Done once the client has hung up or sent COM_QUIT, or the connection is lost or closed. Bytes may still be on
        their way to it. Who does not wait for it any more cancels it."""
        disconnected = self._loop.create_future()
        if self.closed or self.commands.quits:
            disconnected.set_result(None)
        else:
            self._reader.expect_end(disconnected)
        return disconnected

    def _advance(self, *, fast: bool = True) -> None:
        """After bytes came, or the fast path ended: give them to the waiting reader. Not `fast`: the fast path has just
        refused all of them."""
        parked = self._reader.command
        if parked is not None and not self.relaying and not parked.done():
            # A command cut by the network, or sent ahead of the last answer, may still be fast.
            fast = fast and self.commands.unread <= FAST_BYTES_MAX and self._whole()
            if not fast or not self._try_fast_path():
                self._wake_if_whole(parked)
        elif self._reader.packet is not None:
            self._wake_if_whole(self._reader.packet)
        else:
            if self._reader.ends and self.commands.quits:
                wake_all(self._reader.ends)
            if self.on_input is not None and self.input_ready:
                self.on_input()
            if self.commands.unread > PENDING_BYTES_MAX:
                self.flow.pause(self.transport)

    def _try_fast_path(self) -> bool:
        """Offer all that is unread to the fast path; whether it has taken it."""
        if self.fast_path is None or self.commands.continues:
            return False
        data = self.commands.take_all()
        self.relaying = True
        if self.fast_path(data):
            self._timers.cancel_stall()
            return True
        self.relaying = False
        self.commands.feed(data)
        return False

    def _wake_if_whole(self, waiter: asyncio.Future[None]) -> None:
        if not self._whole() and not self.closed:
            self._timers.watch_progress(self.fail)
        elif not waiter.done():
            waiter.set_result(None)

    def _whole(self) -> bool:
        """Whether a packet can be taken, or refused."""
        self.commands.seq = self.seq
        return self.commands.ready(command=self._reader.command is not None)

    def _check_readable(self) -> None:
        if self._fault is not None and self._state is ConnectionState.FAILED:
            raise self._fault
        if self.closed:
            raise StreamClosed("the client closed the connection")

    def fail(self, fault: FatalProtocolError) -> FatalProtocolError:
        """From now on throw away whatever comes; the reader gets the fault."""
        self._fault = fault
        if self._state is ConnectionState.OPEN:
            self._state = ConnectionState.FAILED
        self.forget_unread()
        self.flow.resume(self.transport)
        self._reader.wake()
        return fault

    def forget_unread(self) -> None:
        """No reader gets what was not read."""
        self.commands.clear()
        self._timers.cancel_stall()

    # --- the connection itself

    def close(self, *, linger: bool = False) -> None:
        """Send what was written, then close; nothing is read any more, not even what has come already.

        `linger`: let the client read our error although it still sends. May be called twice.
        """
        transport = self.transport
        if transport is None or self._state in ENDED or transport.is_closing():
            return
        self.push()
        lingers = (linger or self._fault is not None) and not self.closed
        self._active_fast_path = None
        self._end(ConnectionState.LINGERING if lingers else ConnectionState.CLOSING)
        self.forget_unread()
        self._mark_closed()
        self._timers.begin_end(transport, lingers=lingers)
        if lingers:
            self.flow.resume(transport)
        self._reader.wake()

    def abort(self) -> None:
        """Close at once; nothing more is sent or read."""
        self._active_fast_path = None
        self.forget_unread()
        if not self.lost:
            self._end(ConnectionState.CLOSING)
            if self.transport is not None:
                self.transport.abort()

    def _mark_closed(self) -> None:
        super()._mark_closed()
        wake_all(self._reader.ends)
        if self.on_input is not None:
            self.on_input()

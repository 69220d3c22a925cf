"""BackendSocket: one socket to the MySQL server. Packets while logging in, raw bytes afterwards.

Rules: as long as `sink` is unset, bytes gather and `read_packet` hands them out; once it is set, every chunk goes to it
as it comes. Nothing is sent after the connection is lost; waiting callers get an error, and `on_lost` is called once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from ssl import SSLContext
from typing import cast

from proxy.errors import BackendLost, CannotConnect, FatalProtocolError
from proxy.transport import tcp
from proxy.transport.addresses import Addresses
from proxy.transport.compressed import CompressedTransport
from proxy.wire.login import LOGIN_PACKET_MAX_BYTES
from proxy.wire.packets import HEADER_BYTES, PAYLOAD_MAX, SIZE_MASK, frame, read_header

CONNECT_SECONDS = 10.0  # MySQL clients' own default connect_timeout
WRITE_HIGH_BYTES = 256 * 1024  # above this a sender waits until the database has taken some


_addresses = Addresses()  # of all connections of this process


class ReadInterrupted(Exception):
    """Nothing was received, and the reader is needed elsewhere."""


class _ToSink(asyncio.Protocol):
    """The protocol of a transport whose bytes go to a sink. All else is the socket's."""

    def __init__(self, owner: BackendSocket, sink: Callable[[bytes], None]) -> None:
        self._owner = owner
        self.data_received = sink  # type: ignore[assignment, method-assign]  # one call less for every answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()


class BackendSocket(asyncio.Protocol):
    """See the module. `seq` is the next sequence id while packets are read and written one by one.

    `encrypted`: by TLS. `local`: a unix socket, where the server sees which user of the system we are.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.encrypted = False
        self.local = False
        self.compressed = False
        self._sink: Callable[[bytes], None] | None = None
        self.on_lost: Callable[[str], None] | None = None
        self.closed = False
        self.reason = "the server closed the connection"
        self.was_reset = False  # it did so without the usual end, as MariaDB does with clients idle for too long
        self._loop = asyncio.get_running_loop()
        self.writer: Callable[[bytes], None] | None = None
        """The transport's `write` while the connection may be used: for callers where one more call matters."""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._reading_paused = False
        self._closing_error_socket: socket.socket | None = None  # a duplicate of the socket
        self._lost_future: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def connect(
        cls, host: str, port: int, *, unix_socket: str | None = None, timeout: float = CONNECT_SECONDS
    ) -> BackendSocket:
        """Open a connection to the server.

        Raises:
            CannotConnect: no one answers there, or not in time.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                if unix_socket is not None:
                    _, backend = await loop.create_unix_connection(cls, unix_socket)
                else:
                    backend = await cls._open(host, port)
        except TimeoutError as error:
            raise CannotConnect(unix_socket or f"{host}:{port}", f"no answer within {timeout:g} s") from error
        except OSError as error:
            raise CannotConnect(unix_socket or f"{host}:{port}", error.strerror or str(error)) from error
        return backend

    @classmethod
    async def _open(cls, host: str, port: int) -> BackendSocket:
        """A connection to the first of the name's addresses that answers."""
        loop = asyncio.get_running_loop()
        failures: list[OSError] = []
        for address in await _addresses.of(host, port):
            try:
                return (await loop.create_connection(cls, address, port))[1]
            except OSError as error:
                failures.append(error)
        _addresses.forget(host, port)
        raise failures[0] if failures else OSError(f"{host} has no address")

    @property
    def private(self) -> bool:
        """Whether the server takes the connection for private: it then expects passwords as they are."""
        return self.encrypted or self.local

    @property
    def confined(self) -> bool:
        """Private, or within this machine."""
        return self.private or tcp.is_loopback(self._transport)

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.local = tcp.is_local(transport)
        self.writer = self._transport.write
        self._transport.set_write_buffer_limits(high=tcp.UNBUFFERED)
        tcp.tune_to_server(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of a login. Once there is a sink, the transport gives them to that."""
        if self._sink is not None:
            self._sink(data)
            return
        self._buffer += data
        if len(self._buffer) > LOGIN_PACKET_MAX_BYTES:
            self.pause_reading()
        self._wake_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._closing_error_socket is not None:
            self._read_closing_error(self._closing_error_socket)
        self.closed = True
        self.writer = None
        if exc is not None:
            self.reason = f"{exc}" or type(exc).__name__
            self.was_reset = isinstance(exc, ConnectionResetError)
        self._wake_reader()
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)
        if not self._lost_future.done():
            self._lost_future.set_result(None)
        if self.on_lost is not None:
            self.on_lost(self.reason)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- packets, while logging in

    @property
    def unread(self) -> bool:
        """Whether the server has sent something that is not read yet."""
        return bool(self._buffer)

    async def read_packet(self) -> bytes:
        """The next packet's payload; `seq` follows it.

        Raises:
            BackendLost: the connection broke, or what came is no packet of a login.
            ReadInterrupted: `interrupt` was called.
        """
        buffer = self._buffer
        while True:
            if len(buffer) >= HEADER_BYTES:
                size = read_header(buffer)[0] & SIZE_MASK
                if size > LOGIN_PACKET_MAX_BYTES:
                    raise BackendLost("the server sent a packet that no login has")
                if len(buffer) >= HEADER_BYTES + size:
                    return self._take(size)
            if self.closed:
                raise BackendLost(self.reason)
            self._reader = self._loop.create_future()
            self.resume_reading()
            try:
                await self._reader
            finally:
                self._reader = None

    def interrupt(self) -> None:
        """A caller that waits in `read_packet` gets a ReadInterrupted."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_exception(ReadInterrupted())

    def _take(self, size: int) -> bytes:
        self.seq = self._buffer[3] + 1 & 0xFF
        payload = bytes(self._buffer[HEADER_BYTES : HEADER_BYTES + size])
        del self._buffer[: HEADER_BYTES + size]
        return payload

    def write_packet(self, payload: bytes) -> None:
        """Send one packet with the next sequence id."""
        self.write(frame(payload, self.seq))
        self.seq = self.seq + len(payload) // PAYLOAD_MAX + 1 & 0xFF

    async def start_tls(self, context: SSLContext, server_hostname: str | None) -> None:
        """Continue encrypted.

        Raises:
            BackendLost: the handshake failed; the message has the reason.
        """
        if self._transport is None or self.closed or self._buffer:
            raise BackendLost("the server spoke in clear text when TLS was to begin")
        try:
            transport = await self._loop.start_tls(
                self._transport, self, context, server_hostname=server_hostname or None
            )
        except OSError as error:
            self.abort()
            raise BackendLost(f"TLS to the database failed: {error}") from error
        assert transport is not None
        self._transport, self.writer = transport, transport.write
        self.encrypted = True
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def start_compression(self) -> None:
        """The server has answered OK: from now on packets are inside compressed ones."""
        if self._transport is None or self.closed or self.compressed:
            return
        self.compressed = True
        early = bytes(self._buffer)
        self._buffer.clear()
        transport = CompressedTransport(self._transport, self, serving=False, capabilities=0, on_fault=self._garbled)
        self._transport, self.writer = transport, transport.write
        transport.data_received(early)

    def _garbled(self, fault: FatalProtocolError) -> None:
        self.abort("the server sent what cannot be uncompressed")

    # --- bytes

    def deliver_to(self, sink: Callable[[bytes], None]) -> None:
        """The login is over: from now on every chunk goes to `sink`, first of all what has come already."""
        self.sink = sink
        if self._buffer:
            rest = bytes(self._buffer)
            self._buffer.clear()
            sink(rest)

    @property
    def sink(self) -> Callable[[bytes], None] | None:
        """The receiver of the bytes; None: they are buffered for `read_packet`."""
        return self._sink

    @sink.setter
    def sink(self, sink: Callable[[bytes], None] | None) -> None:
        self._sink = sink
        if self._transport is not None and not self.closed:
            self._transport.set_protocol(self if sink is None else _ToSink(self, sink))

    def write(self, data: bytes) -> None:
        """Send bytes that are packets already."""
        if self.writer is not None:
            self.writer(data)

    async def drain(self) -> None:
        """Wait until the socket has room. A lost connection returns at once: its loss is reported elsewhere."""
        while self._paused and not self.closed:
            waiter = self._loop.create_future()
            self._drain_waiters.append(waiter)
            try:
                await waiter
            finally:
                self._drain_waiters.remove(waiter)

    @contextlib.contextmanager
    def preserving_closing_error(self, large: bool) -> Iterator[None]:
        """While something `large` is sent. A server that refuses it sends an error and closes; then writing fails, and
        the error would be lost with the socket: it is read from a duplicate. With TLS it is lost, for it is
        encrypted."""
        sock = None if self.encrypted or self._transport is None else self._transport.get_extra_info("socket")
        self._closing_error_socket = (
            None if sock is None or self.closed or not large else socket.socket(fileno=os.dup(sock.fileno()))
        )
        try:
            yield
        finally:
            duplicate, self._closing_error_socket = self._closing_error_socket, None
            if duplicate is not None:
                duplicate.close()

    def _read_closing_error(self, duplicate: socket.socket) -> None:
        duplicate.setblocking(False)
        receive = (
            self._transport.data_received if isinstance(self._transport, CompressedTransport) else self.data_received
        )
        try:
            while data := duplicate.recv(LOGIN_PACKET_MAX_BYTES):
                receive(data)
        except OSError:
            pass  # that was all

    def pause_reading(self) -> None:
        """Take no more from the server: the client does not read what came."""
        if not self._reading_paused and not self.closed and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on taking."""
        if self._reading_paused and not self.closed and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    async def wait_lost(self) -> None:
        """Return once the connection is gone."""
        await asyncio.shield(self._lost_future)

    def hang_up(self) -> None:
        """Send no more, and learn when the server has ended the session."""
        if self._transport is not None and not self.closed:
            self.writer = None
            if self._transport.can_write_eof():  # TLS has no such thing
                self._transport.write_eof()
            else:
                self.close()

    def close(self) -> None:
        """Send what was written, then close. May be called twice."""
        if self._transport is not None and not self.closed:
            self.closed = True
            self.writer = None
            self._transport.close()

    def abort(self, reason: str | None = None) -> None:
        """Close at once. The server rolls back whatever was in progress."""
        if self._transport is not None and not self._lost_future.done():
            self.closed = True
            self.writer = None
            self.reason = reason or self.reason
            self._transport.abort()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

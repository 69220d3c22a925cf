"""BackendSocket: one socket to the MySQL server. Packets while logging in, raw bytes afterwards.

Rules: as long as `sink` is unset, bytes gather and `read_packet` hands them out; once it is set, every chunk goes to it
as it comes. Nothing is sent after the connection is lost; waiting callers get an error, and `on_lost` is called once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from ssl import SSLContext
from typing import cast

from mysql_wire.login import LOGIN_PACKET_MAX_BYTES
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, SIZE_MASK, frame, read_header
from proxy.errors import BackendLost, CannotConnect
from proxy.transport import tcp
from proxy.transport.addresses import Addresses
from proxy.transport.client_output import wait_in, wake_all
from proxy.transport.compressed import CompressedTransport

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0  # MySQL clients' own default connect_timeout
WRITE_HIGH_BYTES = 256 * 1024  # above this a sender waits until the database has taken some
TLS_LOG_SECONDS = 60.0  # between two lines about handshakes that fail: each login of a client may be one

_addresses = Addresses()  # of all connections of this process


class TlsFailureLog:
    """Handshakes with the database that fail, logged at most once in TLS_LOG_SECONDS."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")

    def add(self, error: OSError) -> None:
        """One has failed."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= TLS_LOG_SECONDS:
            self._logged_at = now
            log.error("TLS to the database failed for a client's connection", extra={"reason": error})


_tls_failures = TlsFailureLog()  # of all connections of this process


class ReadInterrupted(Exception):
    """Nothing was received, and the reader is needed elsewhere."""


class _Packets:
    """Bytes of a login, read packet by packet."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._reader: asyncio.Future[None] | None = None

    def next(self) -> tuple[bytes, int] | None:
        """The next packet's payload and sequence id, once it is here. Raises BackendLost: no login has it."""
        buffer = self.buffer
        if len(buffer) < HEADER_BYTES:
            return None
        size = read_header(buffer)[0] & SIZE_MASK
        if size > LOGIN_PACKET_MAX_BYTES:
            raise BackendLost("the server sent a packet that no login has")
        if len(buffer) < HEADER_BYTES + size:
            return None
        payload, sequence = bytes(buffer[HEADER_BYTES : HEADER_BYTES + size]), buffer[3]
        del buffer[: HEADER_BYTES + size]
        return payload, sequence

    def take_all(self) -> bytes:
        """All that has come and was not read."""
        unread = bytes(self.buffer)
        self.buffer.clear()
        return unread

    async def wait(self) -> None:
        """Until `wake`. Raises ReadInterrupted."""
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def wake(self, error: Exception | None = None) -> None:
        """End `wait`, with an error if one is given."""
        if self._reader is None or self._reader.done():
            return
        if error is None:
            self._reader.set_result(None)
        else:
            self._reader.set_exception(error)


class _WriteFlow:
    """Whether the socket has room for what is written, and those who wait for it."""

    def __init__(self) -> None:
        self._paused = False
        self._waiters: list[asyncio.Future[None]] = []

    def pause(self) -> None:
        """It is full."""
        self._paused = True

    def resume(self) -> None:
        """It has room again, or nothing is sent any more."""
        self._paused = False
        wake_all(self._waiters)

    async def drain(self) -> None:
        """Wait until it has room."""
        while self._paused:
            await wait_in(self._waiters, asyncio.get_running_loop())


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
        self.sink: Callable[[bytes], None] | None = None
        self.on_lost: Callable[[str], None] | None = None
        self.closed = False
        self.reason = "the server closed the connection"
        self.was_reset = False  # it did so without the usual end, as MariaDB does with clients idle for too long
        self.writer: Callable[[bytes], None] | None = None
        """The transport's `write` while the connection may be used: for callers where one more call matters."""
        self._transport: asyncio.Transport | None = None
        self._packets = _Packets()
        self._flow = _WriteFlow()
        self._reading_paused = False
        self._closing_error_socket: socket.socket | None = None  # a duplicate of the socket
        self._lost_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

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
        if self.sink is not None:
            self.sink(data)
            return
        self._packets.buffer += data
        if len(self._packets.buffer) > LOGIN_PACKET_MAX_BYTES:
            self.pause_reading()
        self._packets.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._closing_error_socket is not None:
            transport = self._transport
            receive = transport.data_received if isinstance(transport, CompressedTransport) else self.data_received
            _read_rest(self._closing_error_socket, receive)
        self.closed = True
        self.writer = None
        if exc is not None:
            self.reason = f"{exc}" or type(exc).__name__
            self.was_reset = isinstance(exc, ConnectionResetError)
        self._packets.wake()
        self._flow.resume()
        if not self._lost_future.done():
            self._lost_future.set_result(None)
        if self.on_lost is not None:
            self.on_lost(self.reason)

    def pause_writing(self) -> None:
        self._flow.pause()

    def resume_writing(self) -> None:
        self._flow.resume()

    # --- packets, while logging in

    @property
    def unread(self) -> bool:
        """Whether the server has sent something that is not read yet."""
        return bool(self._packets.buffer)

    async def read_packet(self) -> bytes:
        """The next packet's payload; `seq` follows it.

        Raises:
            BackendLost: the connection broke, or what came is no packet of a login.
            ReadInterrupted: `interrupt` was called.
        """
        while (packet := self._packets.next()) is None:
            if self.closed:
                raise BackendLost(self.reason)
            self.resume_reading()
            await self._packets.wait()
        payload, sequence = packet
        self.seq = sequence + 1 & 0xFF
        return payload

    def interrupt(self) -> None:
        """A caller that waits in `read_packet` gets a ReadInterrupted."""
        self._packets.wake(ReadInterrupted())

    def write_packet(self, payload: bytes) -> None:
        """Send one packet with the next sequence id."""
        self.write(frame(payload, self.seq))
        self.seq = self.seq + len(payload) // PAYLOAD_MAX + 1 & 0xFF

    async def start_tls(self, context: SSLContext, server_hostname: str | None) -> None:
        """Continue encrypted.

        Raises:
            BackendLost: the handshake failed; the message has the reason.
        """
        if self._transport is None or self.closed or self.unread:
            raise BackendLost("the server spoke in clear text when TLS was to begin")
        try:
            transport = await asyncio.get_running_loop().start_tls(
                self._transport, self, context, server_hostname=server_hostname or None
            )
        except OSError as error:
            self.abort()
            _tls_failures.add(error)
            raise BackendLost(f"TLS to the database failed: {error}") from error
        assert transport is not None
        self._transport, self.writer = transport, transport.write
        self.encrypted = True
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def start_compression(self) -> None:
        """The server has answered OK: from now on packets are inside compressed ones."""
        if self._transport is None or self.closed or isinstance(self._transport, CompressedTransport):
            return
        early = self._packets.take_all()
        transport = CompressedTransport(
            self._transport,
            self,
            serving=False,
            capabilities=0,
            on_fault=lambda fault: self.abort("the server sent what cannot be uncompressed"),
        )
        self._transport, self.writer = transport, transport.write
        transport.data_received(early)

    # --- bytes

    def deliver_to(self, sink: Callable[[bytes], None]) -> None:
        """The login is over: from now on every chunk goes to `sink`, first of all what has come already."""
        self.redirect(sink)
        if rest := self._packets.take_all():
            sink(rest)

    def redirect(self, sink: Callable[[bytes], None] | None) -> None:
        """Give all bytes to another receiver; None: buffer them for `read_packet`."""
        self.sink = sink
        if self._transport is not None and not self.closed:
            self._transport.set_protocol(self if sink is None else _ToSink(self, sink))

    def write(self, data: bytes) -> None:
        """Send bytes that are packets already."""
        if self.writer is not None:
            self.writer(data)

    async def drain(self) -> None:
        """Wait until the socket has room. A lost connection returns at once: its loss is reported elsewhere."""
        if not self.closed:
            await self._flow.drain()

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


async def connect_backend(
    host: str, port: int, *, unix_socket: str | None = None, timeout: float = CONNECT_SECONDS
) -> BackendSocket:
    """Open a connection to the server.

    Raises:
        CannotConnect: no one answers there, or not in time.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            if unix_socket is not None:
                _, backend = await loop.create_unix_connection(BackendSocket, unix_socket)
            else:
                backend = await _open(host, port)
    except TimeoutError as error:
        raise CannotConnect(unix_socket or f"{host}:{port}", f"no answer within {timeout:g} s") from error
    except OSError as error:
        raise CannotConnect(unix_socket or f"{host}:{port}", error.strerror or str(error)) from error
    return backend


async def _open(host: str, port: int) -> BackendSocket:
    """A connection to the first of the name's addresses that answers."""
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    for address in await _addresses.of(host, port):
        try:
            return (await loop.create_connection(BackendSocket, address, port))[1]
        except OSError as error:
            failures.append(error)
    _addresses.forget(host, port)
    raise failures[0] if failures else OSError(f"{host} has no address")


def _read_rest(duplicate: socket.socket, receive: Callable[[bytes], None]) -> None:
    """Read what the server has sent before it closed."""
    duplicate.setblocking(False)
    try:
        while data := duplicate.recv(LOGIN_PACKET_MAX_BYTES):
            receive(data)
    except OSError:
        pass  # that was all

"""BackendLink: one socket to the MySQL server. Packets while logging in, raw bytes afterwards.

Rules: as long as `sink` is unset, bytes gather and `read_packet` hands them out; once it is set, every chunk goes to it
as it comes. Nothing is sent after the line is lost; whoever waits is told, and `on_lost` is called once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ssl import SSLContext
from typing import cast

from proxy import sockets
from proxy.errors import BackendLost
from proxy.framing import HEADER_BYTES, PAYLOAD_MAX, frame

CONNECT_SECONDS = 10.0  # MySQL clients' own default connect_timeout
LOGIN_PACKET_MAX_BYTES = 64 * 1024  # the largest packet of a login is a public key; nothing comes near this
WRITE_HIGH_BYTES = 256 * 1024  # above this a sender waits until the database has taken some


class BackendLink(asyncio.Protocol):
    """See the module. `seq` is the next sequence id while packets are read and written one by one."""

    def __init__(self) -> None:
        self.seq = 0
        self.encrypted = False
        self.sink: Callable[[bytes], None] | None = None
        self.on_lost: Callable[[str], None] | None = None
        self.closed = False
        self.reason = "the server closed the connection"
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._drainers: list[asyncio.Future[None]] = []
        self._reading_paused = False
        self._gone: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def connect(
        cls, host: str, port: int, *, unix_socket: str | None = None, timeout: float = CONNECT_SECONDS
    ) -> BackendLink:
        """Open a line to the server.

        Raises:
            BackendLost: nobody answers there, or not in time.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                if unix_socket is not None:
                    _, link = await loop.create_unix_connection(cls, unix_socket)
                else:
                    _, link = await loop.create_connection(cls, host, port)
        except TimeoutError as error:
            raise BackendLost(f"no answer from {unix_socket or f'{host}:{port}'} within {timeout:g} s") from error
        except OSError as error:
            raise BackendLost(
                f"cannot connect to {unix_socket or f'{host}:{port}'}: {error.strerror or error}"
            ) from error
        return link

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        sockets.tune(transport)

    def data_received(self, data: bytes) -> None:
        if self.sink is not None:
            self.sink(data)
            return
        self._buffer += data
        if len(self._buffer) > LOGIN_PACKET_MAX_BYTES:
            self.pause_reading()
        self._wake_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if exc is not None:
            self.reason = f"{exc}" or type(exc).__name__
        self._wake_reader()
        for waiter in self._drainers:
            if not waiter.done():
                waiter.set_result(None)
        if not self._gone.done():
            self._gone.set_result(None)
        if self.on_lost is not None:
            self.on_lost(self.reason)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        for waiter in self._drainers:
            if not waiter.done():
                waiter.set_result(None)

    # --- packets, while logging in

    async def read_packet(self) -> bytes:
        """The next packet's payload; `seq` follows it.

        Raises:
            BackendLost: the line broke, or what came is no packet of a login.
        """
        buffer = self._buffer
        while True:
            if len(buffer) >= HEADER_BYTES:
                size = buffer[0] | buffer[1] << 8 | buffer[2] << 16
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
            BackendLost: the handshake failed; the message says why.
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
        self._transport = transport
        self.encrypted = True
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    # --- bytes

    def deliver_to(self, sink: Callable[[bytes], None]) -> None:
        """The login is over: from now on every chunk goes to `sink`, first of all what has come already."""
        self.sink = sink
        if self._buffer:
            rest = bytes(self._buffer)
            self._buffer.clear()
            sink(rest)

    def write(self, data: bytes) -> None:
        """Send bytes that are packets already."""
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the socket has room. A lost line returns at once: its loss is told elsewhere."""
        while self._paused and not self.closed:
            waiter = self._loop.create_future()
            self._drainers.append(waiter)
            try:
                await waiter
            finally:
                self._drainers.remove(waiter)

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
        """Return once the line is gone."""
        await asyncio.shield(self._gone)

    def close(self) -> None:
        """Send what was written, then close. May be called twice."""
        if self._transport is not None and not self.closed:
            self.closed = True
            self._transport.close()

    def abort(self, reason: str | None = None) -> None:
        """Close at once. The server rolls back whatever was under way."""
        if self._transport is not None and not self._gone.done():
            self.closed = True
            self.reason = reason or self.reason
            self._transport.abort()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

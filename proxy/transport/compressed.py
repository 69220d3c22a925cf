"""CompressedTransport: a layer between a socket and the packets on it, for a connection on which compression was
agreed.

To the reader of packets (ClientSocket, BackendSocket) it is the transport, to the transport below it is the protocol.
So everything above goes on seeing plain packets, and the fast path stays what it is. While the reader above has paused,
nothing is unpacked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mysql_wire.compression import NotCompressed, Numbers, Packer, PacketHeads, Unpacker
from mysql_wire.errors import FatalProtocolError, NotUncompressed
from mysql_wire.packets import HEADER_BYTES


class CompressedTransport(asyncio.Transport, asyncio.Protocol):
    """See the module.

    Args:
        below: the socket's transport, or TLS's.
        above: the reader and writer of plain packets.
        serving: whether we are the server's end of this connection.
        capabilities: what both ends have agreed on.
        on_fault: called once if something else than compressed packets comes. Nothing is handed on after it.
    """

    def __init__(
        self,
        below: asyncio.Transport,
        above: asyncio.Protocol,
        *,
        serving: bool,
        capabilities: int,
        on_fault: Callable[[FatalProtocolError], object],
    ) -> None:
        super().__init__()
        self._below = below
        self._above = above
        self._on_fault = on_fault
        self._numbers = Numbers(serving=serving)
        self._unpacker = Unpacker(self._numbers.on_outer_received)
        self._heads = PacketHeads()
        self._packer = Packer(self._numbers, capabilities)
        self._paused = self._faulty = False
        self._loop = asyncio.get_running_loop()
        below.set_protocol(self)

    # --- called by the transport below

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        self._deliver()

    def _deliver(self) -> None:
        """Hand on what can be unpacked, as long as the reader takes it."""
        while not (self._paused or self._faulty or self._below.is_closing()):
            try:
                piece = self._unpacker.portion()
            except NotCompressed:
                self._faulty = True
                self._on_fault(NotUncompressed())
                return
            if not piece:
                return
            piece = self._renumbered(piece)
            if piece:
                self._above.data_received(piece)

    def _renumbered(self, piece: bytes) -> bytes:
        data = self._heads.joined(piece)
        for at in self._heads.offsets(data):
            first = data[at + HEADER_BYTES] if at + HEADER_BYTES < len(data) else None
            data[at + 3] = self._numbers.on_inner_received(data[at + 3], first)
        return self._heads.whole(data)

    def eof_received(self) -> bool | None:
        return self._above.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()

    # --- called by the reader above

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for packet in self._packer.pack(data):
            self._below.write(packet)

    def pause_reading(self) -> None:
        self._paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """What came before the pause goes first; a transport hands nothing on from within `resume_reading`."""
        self._deliver()
        if not self._paused and not self._below.is_closing():
            self._below.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._above = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._above

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def is_reading(self) -> bool:
        return not self._paused

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def close(self) -> None:
        self._below.close()

    def abort(self) -> None:
        self._below.abort()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def write_eof(self) -> None:
        self._below.write_eof()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

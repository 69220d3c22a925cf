"""PayloadReader: a cursor over one packet's payload that never reads past its end.

Every length in a packet is the client's claim: a claim that the payload does not bear out is a MalformedPacket.
"""

from __future__ import annotations

import struct

from mysql_client.packets import LENGTH_BYTES, NULL
from mysql_wire.errors import MalformedPacket

_U16 = struct.Struct("<H").unpack_from
_U32 = struct.Struct("<I").unpack_from


class PayloadReader:
    """Reads the protocol's basic types in order. `what` names the packet in errors."""

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._what = what

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._position

    def _advance(self, size: int) -> int:
        start = self._position
        if start + size > len(self._data):
            raise MalformedPacket(f"{self._what} ends too early")
        self._position = start + size
        return start

    def take(self, size: int) -> bytes:
        """Exactly that many bytes."""
        start = self._advance(size)
        return self._data[start : start + size]

    def u8(self) -> int:
        """One byte."""
        return self._data[self._advance(1)]

    def u16(self) -> int:
        """Two bytes, little-endian, unsigned."""
        value: int = _U16(self._data, self._advance(2))[0]
        return value

    def u32(self) -> int:
        """Four bytes, little-endian, unsigned."""
        value: int = _U32(self._data, self._advance(4))[0]
        return value

    def lenenc(self) -> int:
        """A length-encoded integer; the NULL and error marks are none."""
        first = self.u8()
        if first < NULL:
            return first
        size = LENGTH_BYTES.get(first)
        if size is None:
            raise MalformedPacket(f"{self._what} has no length where one must be")
        return int.from_bytes(self.take(size), "little")

    def lenenc_bytes(self) -> bytes:
        """A string preceded by its length."""
        return self.take(self.lenenc())

    def null_bytes(self) -> bytes:
        """A string ended by a zero byte."""
        end = self._data.find(b"\x00", self._position)
        if end < 0:
            raise MalformedPacket(f"{self._what} has a string without an end")
        start, self._position = self._position, end + 1
        return self._data[start:end]

    def rest(self) -> bytes:
        """Everything that is left."""
        start, self._position = self._position, len(self._data)
        return self._data[start:]

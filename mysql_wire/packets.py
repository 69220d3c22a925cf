"""Physical packets: a three-byte length, a sequence id, and at most 16 MiB - 1 of payload.

A payload of that length or more is cut into several, the last of which is shorter and may be empty. Pure, no I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO

from mysql_client.packets import HEADER_BYTES as HEADER_BYTES
from mysql_client.packets import PAYLOAD_MAX as PAYLOAD_MAX
from mysql_client.packets import SIZE_MASK as SIZE_MASK
from mysql_client.packets import read_header as read_header

PIECE_BYTES = 256 * 1024  # what is copied and written at a time of a large payload; as much as a sender may have unsent

_pack_header = struct.Struct("<I").pack


def header(size: int, seq: int) -> bytes:
    """The header of a physical packet of that payload."""
    return _pack_header(size | seq << 24)


def frame(payload: bytes, seq: int = 0) -> bytes:
    """One payload as physical packets, the first with sequence id `seq`."""
    size = len(payload)
    if size < PAYLOAD_MAX:
        return _pack_header(size | seq << 24) + payload
    out = bytearray()
    frame_into(out, payload, seq)
    return bytes(out)


def pieces(payload: bytes, seq: int = 0) -> Iterator[bytes]:
    """As `frame`, but a large payload bit by bit, for a writer that waits between them: it is not copied as a whole."""
    size = len(payload)
    if size <= PIECE_BYTES:
        yield frame(payload, seq)
        return
    view = memoryview(payload)
    for start in range(0, size + 1, PAYLOAD_MAX):
        packet = view[start : start + PAYLOAD_MAX]
        yield _pack_header(len(packet) | seq << 24)
        for begin in range(0, len(packet), PIECE_BYTES):
            yield bytes(packet[begin : begin + PIECE_BYTES])
        seq = seq + 1 & 0xFF


def frame_into(out: bytearray, payload: bytes, seq: int) -> int:
    """Append one payload's physical packets; returns the sequence id that follows."""
    size = len(payload)
    if size < PAYLOAD_MAX:
        out += _pack_header(size | seq << 24)
        out += payload
        return seq + 1 & 0xFF
    view = memoryview(payload)
    # One more packet than full ones: a payload that fills its last packet is ended by an empty one.
    for start in range(0, size + 1, PAYLOAD_MAX):
        piece = view[start : start + PAYLOAD_MAX]
        out += _pack_header(len(piece) | seq << 24)
        out += piece
        seq = seq + 1 & 0xFF
    return seq


class Continued:
    """What has come of a payload of more than 16 MiB - 1, which comes in several packets. It grows without copies."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: BytesIO | None = None
        self.size = 0

    def __bool__(self) -> bool:
        """Whether a payload has begun."""
        return self._parts is not None

    def append(self, part: bytes) -> None:
        """The payload of one packet."""
        if self._parts is None:
            self._parts = BytesIO()
        self._parts.write(part)
        self.size += len(part)

    def take(self) -> bytes:
        """The whole payload; the next one begins again."""
        assert self._parts is not None
        payload = self._parts.getvalue()  # what was written, not a copy of it
        self.clear()
        return payload

    def clear(self) -> None:
        """Forget what has come."""
        self._parts, self.size = None, 0

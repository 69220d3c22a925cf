"""Pieces: a command too large to be buffered, cut out of a client's bytes as they come. Pure, no I/O."""

from __future__ import annotations

from mysql_wire.errors import PacketsOutOfOrder
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, PIECE_BYTES, SIZE_MASK, read_header

LARGE_BYTES = 1 << 20  # below it a command costs less buffered than passed on in pieces
NEVER_LARGE = PAYLOAD_MAX + 1  # no packet is
HEAD_BYTES = 128 * 1024  # the beginning of a large command: enough to decide by, and few reads of the socket


def head_needed(buffer: bytearray, large_from: int) -> int | None:
    """How many bytes it takes to begin a large command; None where the buffer begins with none such."""
    if len(buffer) < HEADER_BYTES or buffer[3]:
        return None
    size = read_header(buffer)[0] & SIZE_MASK
    return HEADER_BYTES + min(size, HEAD_BYTES) if size >= large_from else None


class Pieces:
    """The payload of one command. `buffer` begins with its first header, and what is taken is removed from it.

    `needed` is how many bytes it takes to go on, `seq` the sequence id of the packet that comes next, and `announced`
    the payload sizes of the packets whose headers have come; the caller that passes the command on removes them.
    """

    def __init__(self, buffer: bytearray) -> None:
        self.needed = HEADER_BYTES
        self.seq = 0
        self.announced: list[int] = []
        self._buffer = buffer
        self._left = 0
        self._continued = True

    def take(self, most: int = PIECE_BYTES) -> bytes | None:
        """What has come; None if that is nothing, empty bytes at the end of the command.

        Raises:
            PacketsOutOfOrder: the next packet is not the one that follows.
        """
        buffer = self._buffer
        if not self._left and self._continued:
            self.needed = HEADER_BYTES
            if len(buffer) < HEADER_BYTES:
                return None
            self._open_packet()
        size = min(self._left, len(buffer), most)
        if not size:
            return None if self._left else self.take(most) if self._continued else b""
        self._left -= size
        with memoryview(buffer) as view:
            piece = bytes(view[:size])
        del buffer[:size]
        return piece

    def _open_packet(self) -> None:
        buffer = self._buffer
        if buffer[3] != self.seq:
            raise PacketsOutOfOrder(self.seq, buffer[3])
        self._left = read_header(buffer)[0] & SIZE_MASK
        self._continued = self._left == PAYLOAD_MAX
        self.seq = self.seq + 1 & 0xFF
        self.needed = 1
        self.announced.append(self._left)
        del buffer[:HEADER_BYTES]

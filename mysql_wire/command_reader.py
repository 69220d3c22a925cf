"""CommandReader: a client's bytes in, its commands out. Pure, no I/O.

A packet is a header (three bytes of size, one of the sequence id) and a payload; a payload of PAYLOAD_MAX bytes goes on
in the next packet (MySQL's documentation, "MySQL Packets"). The same bytes give the same commands however the network
cuts them.

- `feed` takes bytes. `next_command`, `next_packet` and `next_piece` return what is whole; None: more bytes are needed.
- A payload above the limit is refused at its header, before its bytes have come. So is a wrong sequence id.
- Of a command of `large_from` bytes or more `next_command` returns the beginning, and `next_piece` the rest.
- After an error nothing more is to be read: the caller closes the connection.
"""

from __future__ import annotations

from mysql_wire.command_pieces import HEAD_BYTES, NEVER_LARGE, Pieces, head_needed
from mysql_wire.errors import PacketsOutOfOrder, PacketTooLarge
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, PIECE_BYTES, SIZE_MASK, Continued, read_header

_QUIT = b"\x01\x00\x00\x00\x01"  # COM_QUIT, which has no arguments, as a packet


class CommandReader:
    """See the module. `seq` is the sequence id of the packet that comes next; who answers the client sets it."""

    __slots__ = ("_buffer", "_continued", "_needed", "large_from", "max_packet_bytes", "pieces", "seq")

    def __init__(self, max_packet_bytes: int) -> None:
        self.max_packet_bytes = max_packet_bytes
        self.large_from = NEVER_LARGE
        self.seq = 0
        self.pieces: Pieces | None = None
        """Of a command whose beginning was returned, until its end has been read."""
        self._buffer = bytearray()
        self._continued = Continued()
        self._needed = HEADER_BYTES  # bytes in the buffer below which the next packet cannot be whole

    def __repr__(self) -> str:
        return f"<CommandReader seq={self.seq} unread={len(self._buffer)}>"

    @property
    def unread(self) -> int:
        """Bytes that have not been read."""
        return len(self._buffer)

    @property
    def begun(self) -> bool:
        """Whether there is a part of a command."""
        return bool(self._buffer) or self.continues

    @property
    def continues(self) -> bool:
        """Whether a part of a command has been taken out of the bytes."""
        return bool(self._continued) or self.pieces is not None

    def feed(self, data: bytes) -> None:
        """Bytes have come."""
        self._buffer += data

    def take_all(self) -> bytes:
        """All that has not been read; nothing is left."""
        data = bytes(self._buffer)
        self.clear()
        return data

    def clear(self) -> None:
        """Forget what has not been read."""
        self._buffer.clear()
        self._continued.clear()
        self._needed = HEADER_BYTES
        self.pieces = None

    @property
    def quits(self) -> bool:
        """Whether the next bytes are a whole COM_QUIT."""
        return self._buffer.startswith(_QUIT)

    def ready(self, *, command: bool) -> bool:
        """Whether the next read returns something, or fails. `command`: it is `next_command`."""
        if self.pieces is not None:
            return len(self._buffer) >= self.pieces.needed
        buffer = self._buffer
        if self._needed == HEADER_BYTES and len(buffer) >= HEADER_BYTES:
            size = read_header(buffer)[0] & SIZE_MASK
            if command and (needed := head_needed(buffer, self.large_from)) is not None:
                self._needed = needed
            elif self._continued.size + size <= self.max_packet_bytes and buffer[3] == self.seq:
                self._needed = HEADER_BYTES + size
        return len(buffer) >= self._needed

    def next_command(self) -> bytes | None:
        """A whole command, or the beginning of a large one. Raises as `next_packet`."""
        needed = head_needed(self._buffer, self.large_from)
        if needed is None:
            return self.next_packet()
        if len(self._buffer) < needed:
            self._needed = needed
            return None
        self.pieces, self._needed = Pieces(self._buffer), HEADER_BYTES
        return self.next_piece(HEAD_BYTES)

    def next_packet(self) -> bytes | None:
        """A whole payload, continuations joined.

        Raises:
            PacketTooLarge: its header announces more than `max_packet_bytes`.
            PacketsOutOfOrder: its sequence id is not `seq`.
        """
        buffer = self._buffer
        while len(buffer) >= HEADER_BYTES:
            size = read_header(buffer)[0] & SIZE_MASK
            if self._continued.size + size > self.max_packet_bytes:
                raise PacketTooLarge(self.max_packet_bytes)
            if buffer[3] != self.seq:
                raise PacketsOutOfOrder(self.seq, buffer[3])
            if len(buffer) < HEADER_BYTES + size:
                self._needed = HEADER_BYTES + size
                return None
            self._needed = HEADER_BYTES
            self.seq = self.seq + 1 & 0xFF
            with memoryview(buffer) as view:
                payload = bytes(view[HEADER_BYTES : HEADER_BYTES + size])
            del buffer[: HEADER_BYTES + size]
            if size < PAYLOAD_MAX and not self._continued:
                return payload
            self._continued.append(payload)
            if size < PAYLOAD_MAX:
                return self._continued.take()
        return None

    def next_piece(self, most: int = PIECE_BYTES) -> bytes | None:
        """More of the payload that `next_command` began; empty at its end. Raises PacketsOutOfOrder."""
        if self.pieces is None:
            return b""
        piece = self.pieces.take(most)
        self.seq = self.pieces.seq
        if piece == b"":
            self.pieces = None
        return piece

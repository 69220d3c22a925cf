"""The compressed protocol: packets inside compressed packets, taken apart and made. Pure, no I/O.

Rules:
- Nothing is trusted: a packet that does not yield exactly the bytes it announced is no compressed packet.
- What is unpacked comes in portions: a few bytes that unpack to many cost no more memory than as many plain ones.
- Compressed packets count sequence ids of their own. Servers and most clients check these, and no longer those of the
  packets inside: some do not even count the latter on, and a server's jump where it flushes. So these are counted
  again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

from mysql_wire.packets import HEADER_BYTES
from mysql_wire.result_ends import ResultEnds

PACKET_HEADER_BYTES = 7  # compressed length, sequence id, length before compression (0: not compressed)
PORTION_BYTES = 64 * 1024  # unpacked or packed at once: less than a millisecond of the loop's time
SMALL_BYTES = 50  # below this compression only costs; MySQL's MIN_COMPRESS_LENGTH
PLAIN_MAX = (1 << 24) - (
    64 << 10
)  # so that the length of what zlib makes of it, at worst a little more, fits in 3 bytes
LEVEL = 1  # the loop waits meanwhile: a third of the time of the usual 6 for little more bytes


class NotCompressed(Exception):
    """Bytes that are no compressed packet."""


class Unpacker:
    """Compressed packets in, plain bytes out, in portions. `begun` is called with each compressed packet's sequence
    id."""

    def __init__(self, begun: Callable[[int], None]) -> None:
        self._raw = bytearray()
        self._left = 0  # bytes of the current packet that have not been unpacked
        self._remaining = 0  # plain bytes that it still has to yield
        self._inflate: Any = None
        self._last = b""  # of the packet at hand, whose end has yet to come
        self._begun = begun

    def feed(self, data: bytes) -> None:
        """What the socket brought."""
        self._raw += data

    def portion(self) -> bytes:
        """The next plain bytes; none: more has to come first.

        Raises:
            NotCompressed: something else was sent.
        """
        while True:
            if self._inflate is not None:
                piece = self._inflated()
            elif self._left:
                piece = self._stored()
            elif len(self._raw) >= PACKET_HEADER_BYTES:
                self._begin()
                continue
            else:
                return b""
            if piece or not self._raw:
                return piece

    def _begin(self) -> None:
        raw = self._raw
        self._left = int.from_bytes(raw[0:3], "little")
        sequence, plain = raw[3], int.from_bytes(raw[4:7], "little")
        del raw[:PACKET_HEADER_BYTES]
        self._remaining = plain or self._left
        self._inflate = zlib.decompressobj() if plain else None
        self._begun(sequence)

    def _stored(self) -> bytes:
        piece = bytes(self._raw[: min(self._left, PORTION_BYTES)])
        del self._raw[: len(piece)]
        self._left -= len(piece)
        return piece

    def _inflated(self) -> bytes:
        inflate = self._inflate
        taken = bytes(self._raw[: min(self._left, PORTION_BYTES)])
        try:
            piece: bytes = inflate.decompress(taken, min(PORTION_BYTES, self._remaining + 1))
        except zlib.error as error:
            raise NotCompressed(str(error)) from None
        used = len(taken) - len(inflate.unconsumed_tail)
        del self._raw[:used]
        self._left -= used
        self._remaining -= len(piece)
        ended_early = inflate.eof and self._remaining > 0  # whatever comes after it cannot make up for it
        cut = not self._left and not (piece if self._remaining else inflate.eof)
        if self._remaining < 0 or inflate.unused_data or ended_early or cut:
            raise NotCompressed("a packet does not yield as many bytes as it announced")
        if self._remaining:
            return piece
        # The last of it counts only once the checksum after it was found right, as where packets are unpacked whole.
        self._last += piece
        if not inflate.eof:
            return b""
        if self._left:
            raise NotCompressed("a packet goes on after its end")
        last, self._last, self._inflate = self._last, b"", None
        return last


class PacketHeads:
    """Where packets begin in a stream of plain bytes that is seen in pieces."""

    def __init__(self) -> None:
        self._skip = 0  # bytes of the next piece that belong to a packet begun before
        self._cut = b""  # a header of which the rest is still to come

    def joined(self, data: bytes) -> bytearray:
        """The piece after the buffered rest of the last one."""
        joined, self._cut = bytearray(self._cut + data), b""
        return joined

    def offsets(self, data: bytearray) -> Iterator[int]:
        """The positions of headers in a joined piece. One that is cut is buffered: go through all, then ask `whole`."""
        at, size = self._skip, len(data)
        while at + HEADER_BYTES <= size:
            yield at
            at += HEADER_BYTES + _length(data, at)
        self._skip = max(0, at - size)
        self._cut = bytes(data[at:])

    def whole(self, data: bytearray) -> bytes:
        """What of a piece can go on."""
        return bytes(data[: len(data) - len(self._cut)])


def _length(data: bytes | bytearray, at: int) -> int:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16


class Numbers:
    """The sequence ids of one connection, of packets and of the compressed packets around them, in both directions.

    Towards the layer above, packets count as on connections without compression. Towards a client they count on as
    well, however many compressed packets they are in: mysql2 and go-sql-driver complain of anything else. Only the
    first packet after a result has the number of its compressed packet, if it begins one: a server sees to it where it
    flushes, and clients that check it (mysql_common) expect it there.

    Args:
        serving: we are the server's end: commands come in, counting from 0, and answers go out, counting on from there.
    """

    def __init__(self, *, serving: bool) -> None:
        self._serving = serving
        self.command: int | None = None
        """The command that came last, None where that is not known."""
        self._outer_in = self._outer_out = -1
        self._inner_in = self._inner_out = -1
        self._restarting = False  # the next packet to come begins a command, or an answer if those are what comes
        self._own_in = -1  # the number that the last packet had of its own
        self._wrapped = False  # the next packet to come is the first in a compressed one that is 0 for it follows 255
        self._received = False  # something came since what is sent at present was begun
        self._sent_since_received = False  # something was sent since the last packet came

    def on_outer_received(self, sequence: int) -> None:
        """A compressed packet has come. One with 0 begins a command, unless it is the one after 255."""
        goes_on = sequence == self._outer_in + 1 & 0xFF
        if not goes_on or (self._sent_since_received and sequence == 0):
            self._restarting = not self._serving or sequence == 0
        self._wrapped = goes_on and sequence == 0 and not self._restarting
        self._outer_in = sequence
        self._received = True

    def on_inner_received(self, sequence: int, first: int | None = None) -> int:
        """A packet has come, and its payload begins so; returns the number that it must have. Its own only counts where
        a command begins: with a compressed packet, or after a command that has no answer in the same one (libmariadb's
        COM_STMT_CLOSE)."""
        if self._serving and sequence == 0 and self._own_in != 0xFF and not self._wrapped:
            self._restarting = True
        self._own_in, self._wrapped = sequence, False
        if self._restarting:
            self.command = first
        if not (self._restarting and self._serving):
            sequence = (self._inner_out if self._sent_since_received or self._restarting else self._inner_in) + 1 & 0xFF
        self._restarting = self._sent_since_received = False
        self._inner_in = sequence
        return sequence

    def begins(self, sequence: int) -> bool:
        """Whether a packet that is to be sent begins an answer (or a command), instead of going on with one."""
        goes_on = sequence == self._inner_out + 1 & 0xFF
        first = self._inner_in + 1 & 0xFF if self._serving else 0
        self._inner_out = sequence
        return not goes_on or (self._received and sequence == first)

    def begin(self, sequence: int) -> None:
        """From now on what is sent belongs to a new answer, or to a new command if we send those."""
        self._outer_out = -1 if not self._serving and sequence == 0 else self._outer_in
        self._received = False

    def aligned(self, sequence: int) -> int:
        """The number of a packet that will be the first in the next compressed one."""
        return self._outer_out + 1 & 0xFF if self._serving else sequence

    def outer_next(self) -> int:
        """The number of the next compressed packet to be sent."""
        self._sent_since_received = True
        self._outer_out = self._outer_out + 1 & 0xFF
        return self._outer_out


class Packer:
    """Plain packets in, compressed packets out.

    A compressed packet contains whole packets, and a packet is in two of them at most: mysql-connector-python reads no
    others. So a large packet is buffered, compressed, until its end has come.

    Args:
        capabilities: what client and server have agreed on.
    """

    def __init__(self, numbers: Numbers, capabilities: int = 0) -> None:
        self._numbers = numbers
        self._ends = ResultEnds(capabilities)
        self._incomplete = b""  # the beginning of a packet that is not large
        self._large: _LargePacket | None = None
        self._next = 0  # the number of the next packet

    def pack(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """The compressed packets that can be sent now. Go through all of them."""
        data, self._incomplete = bytearray(self._incomplete + data), b""
        start = at = (yield from self._more_of_large(self._large, data)) if self._large is not None else 0
        while at + HEADER_BYTES <= len(data):
            end = at + HEADER_BYTES + _length(data, at)
            large = end - at > PORTION_BYTES
            if end > len(data) and not large:
                break
            sequence = data[at + 3]
            fresh = self._numbers.begins(sequence)
            if at > start and (fresh or large or end - start > PORTION_BYTES):
                yield self._packed(data[start:at])
                start = at
            if fresh:
                self._numbers.begin(sequence)
                self._ends.begin(self._numbers.command)
            if fresh or (at == start and self._ends.flushed):
                self._next = self._numbers.aligned(sequence)
            data[at + 3], self._next = self._next, self._next + 1 & 0xFF
            self._ends.passed(data, at + HEADER_BYTES, end - at - HEADER_BYTES)
            if large:
                self._large = _LargePacket(end - at)
                start = at = at + (yield from self._more_of_large(self._large, data[at:end]))
            else:
                at = end
        if at > start:
            yield self._packed(data[start:at])
        self._incomplete = bytes(data[at:])

    def _packed(self, plain: bytearray) -> bytes:
        body = zlib.compress(plain, LEVEL) if len(plain) >= SMALL_BYTES else plain
        if len(body) < len(plain):
            return _compressed_packet(self._numbers.outer_next(), body, len(plain))
        return _compressed_packet(self._numbers.outer_next(), plain, 0)

    def _more_of_large(self, large: _LargePacket, data: bytearray) -> Generator[bytes, None, int]:
        """Returns how much of `data` belonged to it."""
        taken = 0
        while taken < len(data) and large.left:
            taken += large.take(data[taken : taken + PORTION_BYTES])
            if large.full:
                body, size = large.finished()
                yield _compressed_packet(self._numbers.outer_next(), body, size)
        if not large.left:
            self._large = None
        return taken


class _LargePacket:
    """A packet that comes in pieces and is compressed as it comes. `left`: bytes of it still to come."""

    def __init__(self, size: int) -> None:
        self.left = size
        self._deflate = zlib.compressobj(LEVEL)
        self._body: list[bytes] = []
        self._size = 0

    def take(self, data: bytes | bytearray) -> int:
        """Returns how much of `data` was taken: not what follows the packet, nor what does not fit into a compressed
        one."""
        count = min(len(data), self.left, PLAIN_MAX - self._size)
        self._body.append(self._deflate.compress(data[:count]))
        self.left -= count
        self._size += count
        return count

    @property
    def full(self) -> bool:
        return not self.left or self._size == PLAIN_MAX

    def finished(self) -> tuple[bytes, int]:
        """The body of a compressed packet and its length before compression; another one begins."""
        body, size = b"".join((*self._body, self._deflate.flush())), self._size
        self._deflate, self._body, self._size = zlib.compressobj(LEVEL), [], 0
        return body, size


def _compressed_packet(sequence: int, body: bytes | bytearray, size: int) -> bytes:
    return b"".join((len(body).to_bytes(3, "little"), bytes((sequence,)), size.to_bytes(3, "little"), body))

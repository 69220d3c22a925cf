"""The common case of an answer: one chunk that is exactly one whole OK, or one whole result set. Pure, no I/O.

The fast path asks here first and walks the answer step by step (mysql_wire/answer_walker.py) only where this does not
recognise it. Only one thing is stored between answers: how the last result set began, definitions included. A
client that repeats a statement gets the same definitions each time, and comparing some hundred bytes costs less than
walking them.
"""

from __future__ import annotations

import struct

from mysql_client.packets import EOF, OK, MalformedAnswer
from mysql_wire.answer_walker import end_of, ok_outcome, with_insert_id_of
from mysql_wire.flags import CACHE_METADATA, DEPRECATE_EOF, OPTIONAL_METADATA
from mysql_wire.outcome import Outcome
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, SIZE_MASK
from mysql_wire.status_flags import MORE_RESULTS

_COLUMNS_MAX = 250  # above it the count takes more than a byte
_REMEMBERED_MAX_BYTES = 4096  # of definitions; wider results are rare among statements that microseconds matter to
_PACKET_MIN_BYTES = HEADER_BYTES + 1
_IMPOSSIBLE = bytes(HEADER_BYTES)  # no answer begins with an empty packet

_unpack_packet = struct.Struct("<IB").unpack_from


def with_insert_id(outcome: Outcome, answer: bytes) -> Outcome:
    """The outcome of an answer that was recognised, with the first id that the database gave, where it gave one."""
    if outcome.affected_rows < 0xFB and not answer[HEADER_BYTES + 2]:  # both numbers take a byte, and the second is 0
        return outcome
    return with_insert_id_of(outcome, answer, HEADER_BYTES, len(answer) - HEADER_BYTES)


class WholeAnswers:
    """See the module. One for each connection."""

    __slots__ = ("_beginning", "_count_bytes", "_deprecate_eof", "_rows_at")

    def __init__(self, capabilities: int) -> None:
        self._deprecate_eof = bool(capabilities & DEPRECATE_EOF)
        # With these a flag after the count shows whether definitions follow.
        self._count_bytes = 2 if capabilities & (CACHE_METADATA | OPTIONAL_METADATA) else 1
        self._beginning = _IMPOSSIBLE
        self._rows_at = 0

    def recognise(self, chunk: bytes) -> Outcome | None:
        """The outcome at the end of the answer; None: it may be a whole answer nevertheless, and has to be walked."""
        size = len(chunk)
        known = chunk.startswith(self._beginning)
        if known:
            rows_at = position = self._rows_at
        elif size < HEADER_BYTES + 5:
            return None
        elif chunk[HEADER_BYTES] == OK:
            return self._end(chunk, HEADER_BYTES, _unpack_packet(chunk)[0] & SIZE_MASK)
        else:
            rows_at = position = self._definitions(chunk, size)
        last = size - _PACKET_MIN_BYTES
        while position <= last:
            header, first = _unpack_packet(chunk, position)
            length = header & SIZE_MASK
            position += HEADER_BYTES
            if first >= EOF:
                if not known and rows_at <= _REMEMBERED_MAX_BYTES:
                    self._beginning, self._rows_at = chunk[:rows_at], rows_at
                if first != EOF:
                    return None
                if position + length == size and (
                    length == 5 or (length == 7 and not chunk[position + 1] | chunk[position + 2])
                ):
                    status = chunk[position + 3] | chunk[position + 4] << 8
                    return None if status & MORE_RESULTS else ok_outcome(status, 0)  # rows affect none
                return self._end(chunk, position, length)
            if not 0 < length < PAYLOAD_MAX:
                return None
            position += length
        return None

    def _definitions(self, chunk: bytes, size: int) -> int:
        """Where the rows begin; the chunk's end, or beyond it, if they are not there, or if this is something else."""
        header, count = _unpack_packet(chunk)
        length = header & SIZE_MASK
        if length != self._count_bytes or count > _COLUMNS_MAX:
            return size
        described = length == 1 or chunk[_PACKET_MIN_BYTES]
        packets = (count if described else 0) + (not self._deprecate_eof)
        position = HEADER_BYTES + length
        last = size - _PACKET_MIN_BYTES
        while packets and position <= last:
            position += HEADER_BYTES + (_unpack_packet(chunk, position)[0] & SIZE_MASK)
            packets -= 1
        return size if packets else position

    def _end(self, chunk: bytes, position: int, length: int) -> Outcome | None:
        """The last packet, if it is one: an OK, or an EOF of five bytes."""
        if position + length != len(chunk):
            return None
        if chunk[position] == EOF and (length >= PAYLOAD_MAX if self._deprecate_eof else length >= 9):
            return None  # a row
        if length == 5 or (length >= 7 and chunk[position + 1] < 0xFB and chunk[position + 2] < 0xFB):
            affected_rows = chunk[position + 1] if length >= 7 else 0
            status = chunk[position + 3] | chunk[position + 4] << 8
        else:
            try:
                status, affected_rows = end_of(chunk, position, length)
            except MalformedAnswer:
                return None  # the walker will report it
        return None if status & MORE_RESULTS else ok_outcome(status, affected_rows)

"""Reframer: makes a server's answer fit into the middle of a longer one.

The second statement of a multi-statement is sent to the server as a command of its own, whose answer counts packets
from 1; the client counts on. And all answers but the last must announce that more results follow: at their end, and in
the EOF packet after the definitions, where there is one. Pure, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.model.sqlstates import sqlstate_of
from mysql_client.packets import EOF
from mysql_wire.answer_walker import status_position
from mysql_wire.errors import server_number
from mysql_wire.flags import DEPRECATE_EOF
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, SIZE_MASK, frame, read_header
from mysql_wire.result_ends import ResultEnds
from mysql_wire.status_flags import MORE_RESULTS

_SQLSTATE_BYTES = 5


class Reframer:
    """Renumbers packets from `seq` on; with `more`, marks a successful answer. `capabilities`: the client's."""

    def __init__(self, seq: int, *, more: bool, capabilities: int) -> None:
        self.seq = seq
        self._more = more
        self._ends = ResultEnds(capabilities) if more and not capabilities & DEPRECATE_EOF else None
        if self._ends is not None:
            self._ends.begin(None)
        self._continued = False
        self._incomplete = (
            bytearray()
        )  # an incomplete packet, so at most 16 MiB: the last one must be whole to be marked

    def feed(self, chunk: bytes, *, ended: bool) -> bytes:
        """Whole packets, renumbered. `ended`: the answer succeeded and this chunk is the last of it."""
        data = self._incomplete
        data += chunk
        position = last = 0
        size = len(data)
        while position + HEADER_BYTES <= size:
            end = position + HEADER_BYTES + (read_header(data, position)[0] & SIZE_MASK)
            if end > size:
                break
            data[position + 3] = self.seq
            self.seq = self.seq + 1 & 0xFF
            if self._ends is not None:
                self._mark_definitions(self._ends, data, position, end)
            last, position = position, end
        if ended and self._more and position:
            mark_more(data, last)
        self._incomplete = data[position:]
        del data[position:]
        return bytes(data)

    def _mark_definitions(self, ends: ResultEnds, data: bytearray, position: int, end: int) -> None:
        start = position + HEADER_BYTES
        continued, self._continued = self._continued, end - start == PAYLOAD_MAX
        if continued or start == end:
            return
        if ends.at_definitions_end and data[start] == EOF:
            mark_more(data, position)
        ends.passed(data, start, end - start)


_ERROR_MARK = b"\xff%s#"  # an ERR packet, its number, what comes before its SQLSTATE


def renumbered(packets: bytes, errno: int) -> bytes:
    """An answer that ends with an ERR packet of that number, as the client gets it: a vtgate sends numbers that are
    client libraries' own (2006), where its database has gone."""
    number = server_number(errno)
    start = -1 if number == errno else packets.rfind(_ERROR_MARK % errno.to_bytes(2, "little"))
    if start < 0:
        return packets
    rest = packets[start + 4 + _SQLSTATE_BYTES :]
    return packets[: start + 1] + number.to_bytes(2, "little") + b"#" + sqlstate_of(number).encode() + rest


def with_edited_error(packets: bytes, edit_error: Callable[[bytes], bytes]) -> bytes:
    """Whole packets, of which the last, an ERR, is another one. It keeps its number."""
    position = last = 0
    while position + HEADER_BYTES <= len(packets):
        last = position
        position += HEADER_BYTES + (read_header(packets, position)[0] & SIZE_MASK)
    return packets[:last] + frame(edit_error(packets[last + HEADER_BYTES : position]), packets[last + 3])


def mark_more(data: bytearray, position: int) -> None:
    """Set the MORE_RESULTS flag in the OK or EOF packet that begins there."""
    start = position + HEADER_BYTES
    length = read_header(data, position)[0] & SIZE_MASK
    data[status_position(data, start, length)] |= MORE_RESULTS

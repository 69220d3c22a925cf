"""Reframer: makes a server's answer fit into the middle of a longer one.

The second statement of a multi-statement is sent to the server as a command of its own, whose answer counts packets
from 1; the client counts on. And all answers but the last must say that more results follow. Pure, no I/O.
"""

from __future__ import annotations

from proxy.answer import MORE_RESULTS, status_position
from proxy.framing import HEADER_BYTES


class Reframer:
    """Renumbers packets from `seq` on; with `more`, marks the last packet of a successful answer."""

    def __init__(self, seq: int, *, more: bool) -> None:
        self.seq = seq
        self._more = more
        self._held = bytearray()  # an incomplete packet, so at most 16 MiB: the last one must be whole to be marked

    def feed(self, chunk: bytes, *, ended: bool) -> bytes:
        """Whole packets, renumbered. `ended`: the answer succeeded and this chunk is the last of it."""
        data = self._held
        data += chunk
        position = last = 0
        size = len(data)
        while position + HEADER_BYTES <= size:
            end = position + HEADER_BYTES + (data[position] | data[position + 1] << 8 | data[position + 2] << 16)
            if end > size:
                break
            data[position + 3] = self.seq
            self.seq = self.seq + 1 & 0xFF
            last, position = position, end
        if ended and self._more and position:
            mark_more(data, last)
        self._held = data[position:]
        del data[position:]
        return bytes(data)


def mark_more(data: bytearray, position: int) -> None:
    """Set the MORE_RESULTS flag in the OK or EOF packet that begins there."""
    start = position + HEADER_BYTES
    length = data[position] | data[position + 1] << 8 | data[position + 2] << 16
    data[status_position(data, start, length)] |= MORE_RESULTS

"""A parser for the answer to a SELECT, fed with the bytes of a socket as they arrive. Pure.

PyMySQL waits for each packet. A worker's event loop cannot wait, so the available bytes are fed in here, in pieces of
any size. Protocol: COM_QUERY Response with a Text Resultset, without DEPRECATE_EOF, which PyMySQL does not negotiate.
"""

from __future__ import annotations

from enum import Enum

Row = list[bytes | None]

_HEADER_BYTES, _FULL_PACKET = 4, 0xFFFFFF  # a packet of that length is continued in the next one
_OK, _NULL, _EOF, _ERROR = 0x00, 0xFB, 0xFE, 0xFF
_WIDTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_EOF_BYTES_MAX = 9  # a row whose first value is 16 MiB or more begins with 0xfe too, and is longer
_STATE_BYTES = 6  # `#` and the SQLSTATE before the text of an error


class Malformed(Exception):
    """The bytes are not an answer to a SELECT."""


class _Part(Enum):
    HEAD = "the number of columns"
    COLUMNS = "the columns"
    ROWS = "rows"


class Answer:
    """One answer. Feed it until it is `done`, and take the rows in between."""

    def __init__(self) -> None:
        self.done = False
        self.error: tuple[int, str] | None = None
        self.has_columns = False  # the column definitions were received: the statement runs
        self._part = _Part.HEAD
        self._buffer = bytearray()
        self._partial = bytearray()  # of a packet that is continued in the next one
        self._rows: list[Row] = []

    def feed(self, data: bytes) -> None:
        """Raises Malformed."""
        self._buffer += data
        at, size = 0, len(self._buffer)
        while size - at >= _HEADER_BYTES and not self.done:
            length = int.from_bytes(self._buffer[at : at + 3], "little")
            end = at + _HEADER_BYTES + length
            if end > size:
                break
            self._partial += self._buffer[at + _HEADER_BYTES : end]
            at = end
            if length < _FULL_PACKET:
                payload, self._partial = bytes(self._partial), bytearray()
                self._packet(payload)
        del self._buffer[:at]

    def take(self) -> list[Row]:
        """The rows received since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def _packet(self, payload: bytes) -> None:
        if not payload:
            raise Malformed("an empty packet")
        first = payload[0]
        if first == _ERROR:
            self.done, self.error = True, _error(payload)
            return
        ends = first == _EOF and len(payload) < _EOF_BYTES_MAX
        match self._part:
            case _Part.HEAD:
                if first == _OK:
                    raise Malformed("an OK where a result was asked for")
                self._part = _Part.COLUMNS
            case _Part.COLUMNS:
                if ends:
                    self._part, self.has_columns = _Part.ROWS, True
            case _Part.ROWS:
                if ends:
                    self.done = True
                else:
                    self._rows.append(_row(payload))


def _error(payload: bytes) -> tuple[int, str]:
    message = payload[3:]
    if message[:1] == b"#":
        message = message[_STATE_BYTES:]
    return int.from_bytes(payload[1:3], "little"), message.decode("utf-8", "replace")


def _row(payload: bytes) -> Row:
    """A sequence of length-encoded strings."""
    values, at, size = Row(), 0, len(payload)
    while at < size:
        length = payload[at]
        at += 1
        if length == _NULL:
            values.append(None)
            continue
        if (width := _WIDTHS.get(length)) is not None:
            length = int.from_bytes(payload[at : at + width], "little")
            at += width
        if at + length > size:
            raise Malformed("a value longer than its row")
        values.append(payload[at : at + length])
        at += length
    return values

"""AnswerReader: the answers to a text command as the bytes that came, cut out of what the socket brings. Pure.

PyMySQL makes objects of every packet, and several calls for each; a statement of ours that changes one row then costs
more here than on its way to the server. The engine wants of an answer its rows, as bytes, and how many rows changed.
Protocol: COM_QUERY Response, Text Resultset, OK_Packet, EOF_Packet; without CLIENT_DEPRECATE_EOF.
"""

from __future__ import annotations

from engine.backend.base import Answer
from engine.model.queue import TextValue

_HEADER_BYTES = 4
_FULL_PACKET = 0xFFFFFF  # a packet of this length goes on in the next one
_OK, _NULL, _TWO_BYTES, _EIGHT_BYTES, _ERROR = 0x00, 0xFB, 0xFC, 0xFE, 0xFF
_EOF = 0xFE
_EOF_BYTES_MAX = 9  # a row whose first value is 16 MiB or more begins with 0xfe too, and is longer
_MORE_RESULTS = 0x0008  # SERVER_MORE_RESULTS_EXISTS

Row = tuple[TextValue, ...]


class MalformedAnswer(Exception):
    """What came is no answer."""


class AnswerReader:
    """For one command; `feed` it until it is `done`. `collect_columns`: column definitions are needed, too."""

    def __init__(self, *, collect_columns: bool = False) -> None:
        self.answers: list[Answer] = []
        self.error: bytes | None = None
        """The ERR packet that ended them, where one did."""
        self.done = False
        self.status = 0
        """The server's status flags after the last answer."""
        self.columns: list[bytes] = []
        """The column definitions of the last result set, where they are collected."""
        self._collect_columns = collect_columns
        self._sequence = 1  # of the next packet
        self._parts: list[bytes] = []
        self._missing = _HEADER_BYTES  # bytes until something can be done
        self._long: list[bytes] = []  # the parts of a payload that goes on in the next packet
        self._count = 0  # columns of the result set that is being read; 0: none is
        self._definitions = 0  # packets to pass over before the rows: its columns, and the EOF packet after them
        self._rows: list[Row] = []

    def feed(self, data: bytes) -> None:
        """Take what came next. Raises MalformedAnswer."""
        if len(data) < self._missing or self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts = []
        collect = self._collect_columns
        at, end = 0, len(data)
        while end - at >= _HEADER_BYTES:
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            start = at + _HEADER_BYTES
            if end - start < size:
                break
            if data[at + 3] != self._sequence:
                raise MalformedAnswer("packets out of order")
            self._sequence = (self._sequence + 1) & 0xFF
            at = start + size
            if self._definitions > 1 and 0 < size < _FULL_PACKET and not collect and data[start] != _ERROR:
                self._definitions -= 1
                continue
            self._take(data[start:at])
            if self.done:
                if at != end:
                    raise MalformedAnswer("more than the answer came")
                return
        if at == end:
            self._missing = _HEADER_BYTES
            return
        self._parts = [data[at:]]
        self._missing = _HEADER_BYTES - (end - at)
        if self._missing <= 0:
            self._missing = _HEADER_BYTES + (data[at] | data[at + 1] << 8 | data[at + 2] << 16) - (end - at)

    def _take(self, payload: bytes) -> None:
        """Take a packet's payload."""
        if len(payload) == _FULL_PACKET:
            self._long.append(payload)
            return
        if self._long:
            payload = b"".join((*self._long, payload))
            self._long = []
        first = payload[0] if payload else _ERROR
        if first == _ERROR:  # a row cannot begin so: a length has at most eight bytes
            if not payload:
                raise MalformedAnswer("an empty packet")
            self.error, self.done = payload, True
        elif self._definitions:
            self._take_definition(payload)
        elif self._count:
            if first == _EOF and len(payload) < _EOF_BYTES_MAX:
                self._end(Answer(self._rows, len(self._rows)), int.from_bytes(payload[3:5], "little"))
            else:
                self._rows.append(parse_row(payload, self._count))
        elif first == _OK:
            affected, at = _number(payload, 1)
            _, at = _number(payload, at)  # the insert id
            self._end(Answer([], affected), int.from_bytes(payload[at : at + 2], "little"))
        else:
            self._count, at = _number(payload, 0)
            if at != len(payload) or not self._count:
                raise MalformedAnswer("neither an OK packet nor a number of columns")
            self._definitions, self._rows = self._count + 1, []
            self.columns = []

    def _take_definition(self, payload: bytes) -> None:
        self._definitions -= 1
        if self._definitions:
            self.columns.append(payload)
        elif not (payload[0] == _EOF and len(payload) < _EOF_BYTES_MAX):
            raise MalformedAnswer("no end of the columns")

    def _end(self, answer: Answer, status: int) -> None:
        self.answers.append(answer)
        self.status = status
        self._count = 0
        self.done = not status & _MORE_RESULTS


def parse_row(payload: bytes, columns: int) -> Row:
    """The values of a text row. Raises MalformedAnswer where it is not one of so many columns."""
    values: list[TextValue] = []
    at = 0
    try:
        for _ in range(columns):
            size = payload[at]
            at += 1
            if size == _NULL:
                values.append(None)
                continue
            if size > _NULL:
                width = 8 if size == _EIGHT_BYTES else size - _TWO_BYTES + 2
                size = int.from_bytes(payload[at : at + width], "little")
                at += width
            values.append(payload[at : at + size])
            at += size
    except IndexError:
        at = -1
    if at != len(payload):
        raise MalformedAnswer("not a row of the result")
    return tuple(values)


def _number(payload: bytes, at: int) -> tuple[int, int]:
    """The length-encoded integer at `at`, and where it ends. Raises MalformedAnswer."""
    first = payload[at] if at < len(payload) else _ERROR
    if first < _NULL:
        return first, at + 1
    if first in (_NULL, _ERROR):  # 0xfb asks for a file that none of our statements names
        raise MalformedAnswer("no number where one is due")
    width = 8 if first == _EIGHT_BYTES else first - _TWO_BYTES + 2
    return int.from_bytes(payload[at + 1 : at + 1 + width], "little"), at + 1 + width

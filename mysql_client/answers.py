"""AnswerReader: the answers to a text command as the bytes that came, cut out of what the socket brings. Pure.

PyMySQL makes objects of every packet, and several calls for each; a statement of ours that changes one row then costs
more here than on its way to the server. The engine wants of an answer its rows, as bytes, and how many rows changed.
And PyMySQL waits for each packet; the event loop of a Celery worker cannot wait, and takes the rows as they come.
Protocol: COM_QUERY Response, Text Resultset, OK_Packet, EOF_Packet; without CLIENT_DEPRECATE_EOF, which PyMySQL does
not negotiate.
"""

from __future__ import annotations

from dataclasses import dataclass

from .packets import (
    EOF,
    EOF_BELOW_BYTES,
    ERROR,
    HEADER_BYTES,
    OK,
    PAYLOAD_MAX,
    SIZE_MASK,
    MalformedAnswer,
    Row,
    parse_number,
    parse_row,
    read_header,
)

_MORE_RESULTS = 0x0008  # SERVER_MORE_RESULTS_EXISTS


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a statement: rows in the text protocol's form, or how many rows it changed."""

    rows: list[Row]
    affected: int


class AnswerReader:
    """For one command; `feed` it until it is `done`, and take the rows in between or find them in the answers.

    `collect_columns`: column definitions are needed, too. `rows_only`: an answer without rows is malformed.
    """

    def __init__(self, *, collect_columns: bool = False, rows_only: bool = False) -> None:
        self.answers: list[Answer] = []
        self.error: bytes | None = None
        """The ERR packet that ended them, where one did."""
        self.done = False
        self.status = 0
        """The server's status flags after the last answer."""
        self.columns: list[bytes] = []
        """The column definitions of the last result set, where they are collected."""
        self._collect_columns, self._rows_only = collect_columns, rows_only
        self._sequence = 1  # of the next packet
        self._parts: list[bytes] = []
        self._missing = HEADER_BYTES  # bytes until something can be done
        self._long: list[bytes] = []  # the parts of a payload that goes on in the next packet
        self._count = 0  # columns of the result set that is being read; 0: none is
        self._definitions = 0  # packets to pass over before the rows: its columns, and the EOF packet after them
        self._rows: list[Row] = []

    @property
    def has_columns(self) -> bool:
        """Whether the definitions of a result have come: the statement runs, or has run."""
        return bool(self.answers) or (self._count > 0 and not self._definitions)

    def take_rows(self) -> list[Row]:
        """The rows that have come since the last call; they are in no answer."""
        rows, self._rows = self._rows, []
        return rows

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
        while end - at >= HEADER_BYTES:
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16  # compiled, faster than read_header
            start = at + HEADER_BYTES
            if end - start < size:
                break
            if data[at + 3] != self._sequence:
                raise MalformedAnswer("packets out of order")
            self._sequence = (self._sequence + 1) & 0xFF
            at = start + size
            if self._definitions > 1 and 0 < size < PAYLOAD_MAX and not collect and data[start] != ERROR:
                self._definitions -= 1
                continue
            self._take(data[start:at])
            if self.done:
                if at != end:
                    raise MalformedAnswer("more than the answer came")
                return
        if at == end:
            self._missing = HEADER_BYTES
            return
        self._parts = [data[at:]]
        self._missing = HEADER_BYTES - (end - at)
        if self._missing <= 0:
            self._missing = HEADER_BYTES + (read_header(data, at)[0] & SIZE_MASK) - (end - at)

    def _take(self, payload: bytes) -> None:
        """Take a packet's payload."""
        if len(payload) == PAYLOAD_MAX:
            self._long.append(payload)
            return
        if self._long:
            payload = b"".join((*self._long, payload))
            self._long = []
        first = payload[0] if payload else ERROR
        if first == ERROR:  # a row cannot begin so: a length has at most eight bytes
            if not payload:
                raise MalformedAnswer("an empty packet")
            self.error, self.done = payload, True
        elif self._definitions:
            self._take_definition(payload)
        elif self._count:
            if first == EOF and len(payload) < EOF_BELOW_BYTES:
                self._end(Answer(self._rows, len(self._rows)), int.from_bytes(payload[3:5], "little"))
            else:
                self._rows.append(parse_row(payload, self._count))
        elif first == OK:
            if self._rows_only:
                raise MalformedAnswer("an OK where a result was asked for")
            affected, at = parse_number(payload, 1, len(payload))
            _, at = parse_number(payload, at, len(payload))  # the insert id
            self._end(Answer([], affected), int.from_bytes(payload[at : at + 2], "little"))
        else:
            self._count, at = parse_number(payload, 0, len(payload))
            if at != len(payload) or not self._count:
                raise MalformedAnswer("neither an OK packet nor a number of columns")
            self._definitions, self._rows = self._count + 1, []
            self.columns = []

    def _take_definition(self, payload: bytes) -> None:
        self._definitions -= 1
        if self._definitions:
            self.columns.append(payload)
        elif not (payload[0] == EOF and len(payload) < EOF_BELOW_BYTES):
            raise MalformedAnswer("no end of the columns")

    def _end(self, answer: Answer, status: int) -> None:
        self.answers.append(answer)
        self.status = status
        self._count = 0
        self.done = not status & _MORE_RESULTS

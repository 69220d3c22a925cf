"""AnswerWalker: finds the end of a MySQL server's answer in a stream of bytes, and its outcome. Pure, no I/O.

Rules: it reads packet headers, at the first byte of rows, and at the few packets that steer (OK, ERR, EOF, counts);
rows and definitions are stepped over, never copied. Any chunking of the bytes gives the same result.

An answer is one of a few shapes, by command. The most common, a result:

    FIRST --OK, ERR-------------------------------------------> end (OK with MORE_RESULTS: FIRST again)
    FIRST --0xFB (LOAD DATA LOCAL)--> the client's data ------> FIRST
    FIRST --count--> DEFINITIONS --> [EOF; with a cursor: end] --> ROWS --EOF, OK, ERR--> end (or FIRST again)

With OPTIONAL_METADATA or CACHE_METADATA a second byte after the count shows whether definitions follow. With PROGRESS
an ERR numbered 0xFFFF is a report, and nothing else about the answer changes.

The first byte of a row may be 0xFE (a first column of 16 MiB or more), never 0xFF; a packet that continues the one
before (16 MiB rule) may begin with anything. With DEPRECATE_EOF rows end with an OK packet that begins with 0xFE.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from mysql_mimic.types import Commands

from mysql_client.packets import (
    EOF,
    EOF_BELOW_BYTES,
    ERROR,
    OK,
    MalformedAnswer,
    parse_error,
    parse_number,
    read_header,
)
from mysql_wire.flags import CACHE_METADATA, DEPRECATE_EOF, OPTIONAL_METADATA, PROGRESS
from mysql_wire.outcome import Outcome
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, SIZE_MASK
from mysql_wire.status_flags import CURSOR_EXISTS, MORE_RESULTS

_CURSOR_OR_MORE = CURSOR_EXISTS | MORE_RESULTS
_STEERING_MAX_BYTES = 1 << 20  # of an OK, ERR or count packet: session tracking can make an OK of some kilobytes

BULK_EXECUTE = 0xFA
"""MariaDB's COM_STMT_BULK_EXECUTE: one prepared statement, many sets of parameters."""
UNANSWERED = frozenset((int(Commands.COM_STMT_CLOSE), int(Commands.COM_STMT_SEND_LONG_DATA)))
"""Commands that no server answers, not even with an error."""
PROGRESS_REPORT = b"\xff\xff\xff"
"""How a progress report begins: an ERR packet of a number that no error has."""

_LOCAL_INFILE = 0xFB
# Phases; plain integers, compared for every packet.
_FIRST, _DEFINITIONS, _DEFINITIONS_END, _ROWS, _PREPARED, _PREPARED_DEFINITIONS, _TEXT, _SILENT = range(8)


class Shape(Enum):
    """The form of the answer to a command."""

    NOTHING = "no answer"
    RESULT = "OK, ERR or result sets"
    ROWS = "rows without a header"
    PREPARED = "a prepared statement's description"
    TEXT = "one packet of text"


SHAPES: Mapping[int, Shape] = {
    Commands.COM_QUIT: Shape.NOTHING,
    Commands.COM_STMT_CLOSE: Shape.NOTHING,
    Commands.COM_STMT_SEND_LONG_DATA: Shape.NOTHING,
    Commands.COM_INIT_DB: Shape.RESULT,
    Commands.COM_QUERY: Shape.RESULT,
    Commands.COM_REFRESH: Shape.RESULT,
    Commands.COM_PROCESS_INFO: Shape.RESULT,
    Commands.COM_PROCESS_KILL: Shape.RESULT,
    Commands.COM_DEBUG: Shape.RESULT,
    Commands.COM_PING: Shape.RESULT,
    Commands.COM_STMT_EXECUTE: Shape.RESULT,
    BULK_EXECUTE: Shape.RESULT,
    Commands.COM_STMT_RESET: Shape.RESULT,
    Commands.COM_SET_OPTION: Shape.RESULT,
    Commands.COM_RESET_CONNECTION: Shape.RESULT,
    Commands.COM_REGISTER_SLAVE: Shape.RESULT,
    Commands.COM_FIELD_LIST: Shape.ROWS,
    Commands.COM_STMT_FETCH: Shape.ROWS,
    Commands.COM_BINLOG_DUMP: Shape.ROWS,  # of events, each after a zero byte; perhaps without an end
    Commands.COM_BINLOG_DUMP_GTID: Shape.ROWS,
    Commands.COM_STMT_PREPARE: Shape.PREPARED,
    Commands.COM_STATISTICS: Shape.TEXT,
}
"""Every command whose answer can be walked; the others cannot be relayed."""

_START = {
    Shape.NOTHING: _SILENT,
    Shape.RESULT: _FIRST,
    Shape.ROWS: _ROWS,
    Shape.PREPARED: _PREPARED,
    Shape.TEXT: _TEXT,
}
_STARTS = {command: _START[shape] for command, shape in SHAPES.items()}
_UNKNOWN = Outcome()

_unpack_row = struct.Struct("<IB").unpack_from


class AnswerWalker:
    """See the module. `outcome` is complete once `done`; `wants_client_data` asks for LOCAL INFILE's lines first."""

    __slots__ = (
        "_command",
        "_continued",
        "_deprecate_eof",
        "_incomplete",
        "_left",
        "_metadata_flag",
        "_optional_metadata",
        "_phase",
        "_progress",
        "_row_end_below",
        "_skip",
        "done",
        "last_sequence",
        "outcome",
        "wants_client_data",
    )

    def __init__(self, capabilities: int) -> None:
        self._deprecate_eof = bool(capabilities & DEPRECATE_EOF)
        self._metadata_flag = bool(capabilities & (OPTIONAL_METADATA | CACHE_METADATA))
        self._optional_metadata = bool(capabilities & OPTIONAL_METADATA)
        self._progress = bool(capabilities & PROGRESS)
        self._row_end_below = PAYLOAD_MAX if self._deprecate_eof else EOF_BELOW_BYTES
        self._command = 0
        self._phase = _FIRST
        self._left = 0  # definitions still to come
        self._skip = 0  # payload bytes still to be stepped over
        self._continued = False
        self._incomplete = bytearray()  # the beginning of a packet that cannot be judged yet
        self.done = True
        self.outcome = Outcome()
        self.wants_client_data = False
        self.last_sequence = 0
        """The sequence id of the last packet that steered, so of the answer's last one once done."""

    def begin(self, command: int) -> None:
        """A command was sent; its answer comes next.

        Raises:
            KeyError: a command that is not in SHAPES.
        """
        self._phase = phase = _STARTS[command]
        self._command = command
        self._continued = False
        self.wants_client_data = False
        self.outcome = _UNKNOWN
        self.done = phase == _SILENT

    def client_data_sent(self) -> None:
        """The client's lines have been sent up to the empty packet; the answer goes on."""
        self.wants_client_data = False

    def feed(self, chunk: bytes) -> int:
        """Walk on; returns how many of these bytes belong to the answer. Fewer than all only when it is at an end, or
        when the client's data is wanted.

        Raises:
            MalformedAnswer: the bytes make no sense.
        """
        if self._skip or self._incomplete:
            return self._feed_rest(chunk)
        return self._walk(chunk, 0)

    def _feed_rest(self, chunk: bytes) -> int:
        """Begin inside a packet that an earlier chunk began."""
        size = len(chunk)
        if self._skip >= size:
            self._skip -= size
            return size
        position, self._skip = self._skip, 0
        incomplete = self._incomplete
        while incomplete and position < size and not self.done:
            piece = chunk[position : position + self._judged_at(incomplete) - len(incomplete)]
            incomplete += piece
            position += len(piece)
            if len(incomplete) >= self._judged_at(incomplete):
                packet = bytes(incomplete)
                incomplete.clear()
                self._walk(packet, 0)  # leaves nothing behind: it ends with this packet, or inside it
                position += self._skip_within(size - position)
        if incomplete or self.done or self.wants_client_data or position >= size:
            return position
        return self._walk(chunk, position)

    def _skip_within(self, available: int) -> int:
        step = min(self._skip, available)
        self._skip -= step
        return step

    def _judged_at(self, incomplete: bytearray) -> int:
        """How many bytes of a packet it takes to judge it."""
        if len(incomplete) < HEADER_BYTES:
            return HEADER_BYTES
        length = read_header(incomplete)[0] & SIZE_MASK
        if self._continued or length == 0 or self._phase == _DEFINITIONS:
            return HEADER_BYTES
        if len(incomplete) == HEADER_BYTES:
            return HEADER_BYTES + 1
        return HEADER_BYTES + length if self._steers(length, incomplete[HEADER_BYTES]) else HEADER_BYTES + 1

    def _steers(self, length: int, first: int) -> bool:
        """Whether a packet must be seen whole."""
        phase = self._phase
        if phase == _ROWS:
            return first == ERROR or (first == EOF and length < self._row_end_below)
        return phase != _DEFINITIONS and (phase != _PREPARED_DEFINITIONS or self._left == 1)

    def _walk(self, chunk: bytes, position: int) -> int:
        size = len(chunk)
        while position + HEADER_BYTES <= size:
            phase = self._phase
            if phase == _ROWS and not self._continued:
                position = over_rows(chunk, position, size)
                if position + HEADER_BYTES > size:
                    break
            length: int = read_header(chunk, position)[0] & SIZE_MASK
            start = position + HEADER_BYTES
            end = start + length
            if phase == _DEFINITIONS:
                self._left -= 1
                if not self._left:
                    self._phase = self._after_definitions()
            elif self._continued:
                self._continued = length == PAYLOAD_MAX
            elif start >= size and length:
                break
            elif not length:
                raise MalformedAnswer("an empty packet where none can be")
            elif not self._steers(length, chunk[start]):
                self._continued = length == PAYLOAD_MAX
                if phase == _PREPARED_DEFINITIONS:
                    self._left -= 1
            elif end > size:
                break
            else:
                self.last_sequence = chunk[position + 3]
                self._steer(chunk, start, length)
                if self.done or self.wants_client_data:
                    return end
            position = end
        return self._buffer_incomplete(chunk, position, size)

    def _buffer_incomplete(self, chunk: bytes, position: int, size: int) -> int:
        """The chunk ends inside a packet, or just after one."""
        if position >= size:
            self._skip = position - size
        elif size - position > _STEERING_MAX_BYTES:
            raise MalformedAnswer("an OK or ERR packet of absurd size")
        else:
            self._incomplete += chunk[position:]
        return size

    def _steer(self, chunk: bytes, start: int, length: int) -> None:
        first = chunk[start]
        phase = self._phase
        if first == ERROR and phase != _PREPARED_DEFINITIONS:
            self._error(chunk[start : start + length])
        elif phase == _FIRST:
            self._first(chunk, start, length, first)
        elif phase == _ROWS:
            self._finish(chunk, start, length)
        elif phase == _DEFINITIONS_END:
            self._definitions_end(chunk, start, length)
        elif phase == _PREPARED:
            self._prepared(chunk[start : start + length])
        else:
            self.done = True  # the last definition, or a packet of text

    def _first(self, chunk: bytes, start: int, length: int, first: int) -> None:
        if first == OK or (first == EOF and length < PAYLOAD_MAX):
            self._finish(chunk, start, length)
        elif first == _LOCAL_INFILE:
            self.wants_client_data = True
        else:
            self._left, position = parse_number(chunk, start, start + length)
            if not 0 < self._left <= 0xFFFF:
                raise MalformedAnswer(f"a result of {self._left} columns")
            if self._metadata_flag and position < start + length and not chunk[position]:
                self._left = 0
            self._phase = _DEFINITIONS if self._left else self._after_definitions()

    def _after_definitions(self) -> int:
        return _ROWS if self._deprecate_eof else _DEFINITIONS_END

    def _definitions_end(self, chunk: bytes, start: int, length: int) -> None:
        """The EOF packet after the definitions; with a cursor nothing follows until the client fetches.

        MariaDB leaves CURSOR_EXISTS set after a cursor that a procedure itself has opened. The results of a procedure
        have MORE_RESULTS as well, for its OK comes after them; the answer that opens a client's cursor never has.
        """
        status, _ = end_of(chunk, start, length)
        self._phase = _ROWS
        if status & _CURSOR_OR_MORE == CURSOR_EXISTS and self._command == Commands.COM_STMT_EXECUTE:
            self.outcome = ok_outcome(status, 0)
            self.done = True

    def _finish(self, chunk: bytes, start: int, length: int) -> None:
        """One result is complete."""
        status, affected_rows = end_of(chunk, start, length)
        self.outcome = with_insert_id_of(ok_outcome(status, affected_rows), chunk, start, length)
        self._phase = _FIRST
        # The answers that are rows alone have no further results, despite the flag.
        self.done = not status & MORE_RESULTS or _STARTS[self._command] != _FIRST

    def _error(self, payload: bytes) -> None:
        if len(payload) < 3:
            raise MalformedAnswer("an ERR packet without a number")
        if self._progress and payload.startswith(PROGRESS_REPORT):
            return
        self.outcome = parse_err(payload)
        self.done = True

    def _prepared(self, payload: bytes) -> None:
        if len(payload) < 9 or payload[0] != OK:
            raise MalformedAnswer("a malformed answer to COM_STMT_PREPARE")
        columns, parameters = int.from_bytes(payload[5:7], "little"), int.from_bytes(payload[7:9], "little")
        ends = 0 if self._deprecate_eof else bool(columns) + bool(parameters)
        self.outcome = Outcome(statement_id=int.from_bytes(payload[1:5], "little"))
        if self._optional_metadata and payload[12:13] == b"\x00":
            columns = parameters = 0  # counted, not described
        self._left = columns + parameters + ends
        self._phase = _PREPARED_DEFINITIONS
        self.done = not self._left


def over_rows(chunk: bytes, position: int, size: int) -> int:
    """Step over the rows that are whole and plainly rows. The one loop that runs for every row relayed, so the end of
    the chunk is not checked for but raises an error; a row of 16 MiB - 1, which is continued, always does that."""
    before = position
    unpack, eof, mask = _unpack_row, EOF, SIZE_MASK
    try:
        while True:
            length, first = unpack(chunk, position)
            length &= mask
            if first >= eof or not length:
                return position
            before = position
            position += length + 4  # HEADER_BYTES
    except struct.error:
        return position if position <= size else before


@lru_cache(maxsize=256)
def ok_outcome(status: int, affected_rows: int) -> Outcome:
    """Shared, because making one costs more than walking a small answer."""
    return Outcome(status=status, affected_rows=affected_rows)


def parse_err(payload: bytes) -> Outcome:
    """An ERR packet; without a SQLSTATE (before login) it is HY000."""
    return Outcome(*parse_error(payload))


def status_position(chunk: bytes | bytearray, start: int, length: int) -> int:
    """The position of the status flags of an OK or EOF packet; `start` is its first payload byte."""
    if chunk[start] == EOF and length < 7:
        return start + 3
    _, position = parse_number(chunk, start + 1, start + length)
    _, position = parse_number(chunk, position, start + length)
    return position


def end_of(chunk: bytes | bytearray, start: int, length: int) -> tuple[int, int]:
    """Status flags and affected rows of an OK or EOF packet.

    Raises:
        MalformedAnswer: it is cut short.
    """
    end = start + length
    affected_rows = 0
    if length == 7 and chunk[start + 1] < 0xFB and chunk[start + 2] < 0xFB:
        affected_rows, position = chunk[start + 1], start + 3
    else:
        position = status_position(chunk, start, length)
        if not (chunk[start] == EOF and length < 7):
            affected_rows, _ = parse_number(chunk, start + 1, end)
    if position + 2 > end:
        raise MalformedAnswer("an OK or EOF packet without status flags")
    return chunk[position] | chunk[position + 1] << 8, affected_rows


def with_insert_id_of(outcome: Outcome, chunk: bytes, start: int, length: int) -> Outcome:
    """The outcome of an OK or EOF packet, with the first id that the database gave to a row, where it gave one.

    Raises:
        MalformedAnswer: the packet is cut short.
    """
    if not outcome.affected_rows or chunk[start] != OK:
        return outcome
    _, position = parse_number(chunk, start + 1, start + length)
    insert_id, _ = parse_number(chunk, position, start + length)
    if not insert_id:
        return outcome
    return Outcome(status=outcome.status, affected_rows=outcome.affected_rows, last_insert_id=insert_id)

"""Where a server flushes in the middle of an answer, after each result that another follows, and where definitions
end. Pure, no I/O.

A light sibling of the AnswerWalker, for packets that are whole and come one by one: it need not find the end of an
answer, and has to cost next to nothing for a row. For an answer of unknown shape it has no result.
"""

from __future__ import annotations

from mysql_client.packets import EOF, EOF_BELOW_BYTES, OK, MalformedAnswer
from mysql_wire.answer_walker import SHAPES, Shape, end_of
from mysql_wire.flags import CACHE_METADATA, DEPRECATE_EOF, OPTIONAL_METADATA
from mysql_wire.packets import PAYLOAD_MAX
from mysql_wire.status_flags import MORE_RESULTS

_FIRST, _DEFINITIONS, _DEFINITIONS_END, _ROWS, _UNKNOWN = range(5)


class ResultEnds:
    """See the module. `flushed`: the packet that passed last ended a result, and another result follows.

    Args:
        capabilities: what client and server have agreed on.
    """

    __slots__ = ("_deprecate_eof", "_left", "_metadata_flag", "_phase", "_row_end_below", "flushed")

    def __init__(self, capabilities: int) -> None:
        self._deprecate_eof = bool(capabilities & DEPRECATE_EOF)
        self._metadata_flag = bool(capabilities & (OPTIONAL_METADATA | CACHE_METADATA))
        self._row_end_below = PAYLOAD_MAX if self._deprecate_eof else EOF_BELOW_BYTES
        self._phase = _UNKNOWN
        self._left = 0  # definitions still to come
        self.flushed = False

    def begin(self, command: int | None) -> None:
        """What passes next is the answer to that command; None: one that is not known."""
        known = command is None or SHAPES.get(command) is Shape.RESULT
        self._phase = _FIRST if known else _UNKNOWN
        self.flushed = False

    @property
    def at_definitions_end(self) -> bool:
        """Whether what passes next is the EOF packet after definitions."""
        return self._phase == _DEFINITIONS_END

    def passed(self, data: bytearray, start: int, length: int) -> None:
        """A packet's payload, whole or, if it is a large one, its beginning."""
        self.flushed = False
        phase = self._phase
        if start >= len(data):
            return  # the header of a large packet: a row
        if phase == _ROWS:
            if length and data[start] >= EOF and length < self._row_end_below:
                self._end(data, start, length)
        elif phase == _DEFINITIONS:
            self._left -= 1
            if not self._left:
                self._phase = _ROWS if self._deprecate_eof else _DEFINITIONS_END
        elif phase == _DEFINITIONS_END:
            self._phase = _ROWS
        elif phase == _FIRST:
            self._first(data, start, length)

    def _first(self, data: bytearray, start: int, length: int) -> None:
        first = data[start] if length else EOF
        if first in (OK, EOF):
            self._end(data, start, length)
        elif first < 0xFB or (first == 0xFC and length >= 3):
            self._left = first if first < 0xFB else data[start + 1] | data[start + 2] << 8
            size = 1 if first < 0xFB else 3
            described = not (self._metadata_flag and length > size and not data[start + size])
            after = _ROWS if self._deprecate_eof else _DEFINITIONS_END
            self._phase = _DEFINITIONS if described and self._left else after
        # Else an error, after which nothing comes, a report of progress, or a file that is asked for.

    def _end(self, data: bytearray, start: int, length: int) -> None:
        try:
            more = length and data[start] in (OK, EOF) and end_of(data, start, length)[0] & MORE_RESULTS
        except (MalformedAnswer, IndexError):
            more = False
        self.flushed = bool(more)
        self._phase = _FIRST if more else _UNKNOWN

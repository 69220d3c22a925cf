"""Rows of a result as raw bytes in blocks of many rows, split into columns by C code.

PyMySQL creates an object for every packet and every value, about 20 us for a message's row: too slow for a batch read.
Here PyMySQL sends the statement and reads the column definitions; the rows after them are read in large pieces, with
one loop iteration for each row. Protocol: Text Resultset Row, a sequence of length-encoded strings.

No maintained library does it better: 200,000 rows of four columns take 0.6 to 0.9 us a row here, 5.0 with PyMySQL and
1.0 with mysqlclient, which is under the GPL, is compiled on every executor, and creates an object for every value as
well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR
from pymysql.err import raise_mysql_exception

from spark_connector.mysql_client.driver import UnreadRows, lost_connection, malformed_packet
from spark_connector.mysql_client.packets import (
    EOF,
    EOF_BELOW_BYTES,
    ERROR,
    HEADER_BYTES,
    LENGTH_BYTES,
    NULL,
    PAYLOAD_MAX,
    SIZE_MASK,
    read_header,
)

BLOCK_BYTES = 4 << 20  # size of a block, unless a single row is larger
_NO_ROW = "not a row of the result"
_BLOCK_BYTES_MAX = 2**31 - 1  # what Arrow can address in one array; MySQL's packets end at 1 GiB

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Block:
    """Rows in one piece of memory, each with its packet's header before it."""

    data: bytearray
    starts: list[int]  # of each row's payload
    ends: list[int]

    def columns(self, count: int) -> list[pa.BinaryArray]:
        """The values of each column, copied. Raises OperationalError if a row has fewer."""
        data, pos = np.frombuffer(self.data, np.uint8), np.array(self.starts, np.int64)
        values = []
        try:
            for _ in range(count):
                column, pos = _column(data, pos)
                values.append(column)
        except IndexError:
            raise malformed_packet(_NO_ROW) from None
        if not np.array_equal(pos, self.ends):
            raise malformed_packet(_NO_ROW)
        return values


def blocks(connection: Connection[Any], sql: str, size: int) -> Iterator[Block]:
    """Runs a SELECT; its rows, at most `size` to a block. A block is valid until the next one is requested.

    Raises pymysql's errors. If the iterator is closed before the end, it closes the connection: the rest of the answer
    cannot be skipped.
    """
    rows = UnreadRows(connection, sql)
    reader = _Reader(rows.file, size)
    try:
        yield from reader.blocks()
    finally:
        rows.release()
        if not reader.done:
            connection.close()


class _Reader:
    """Finds the packets of rows in the bytes of the socket."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file  # PyMySQL's; its buffered bytes are read first, then its socket
        self._file_buffered = True
        self._size = size
        self._buffer = bytearray(BLOCK_BYTES)
        self._filled = 0
        self.done = False  # the answer has been read to its end

    def blocks(self) -> Iterator[Block]:
        while not self.done:
            starts, ends = list[int](), list[int]()
            pos = self._fill(starts, ends)
            if starts:
                yield Block(self._buffer, starts, ends)
            self._drop(pos)

    def _fill(self, starts: list[int], ends: list[int]) -> int:
        """Reads complete rows up to the block's limits; returns the end of the last one."""
        pos = 0
        while True:
            pos = self._scan(pos, starts, ends)
            if self.done or len(starts) == self._size or (starts and self._filled == len(self._buffer)):
                return pos
            self._more()

    def _scan(self, pos: int, starts: list[int], ends: list[int]) -> int:
        """Records the complete rows from `pos` on; returns the end of the last one."""
        buffer, filled, length_at = self._buffer, self._filled, read_header
        for _ in range(self._size - len(starts)):
            start = pos + HEADER_BYTES
            if start >= filled:
                break
            length: int = length_at(buffer, pos)[0] & SIZE_MASK
            if length == PAYLOAD_MAX:
                length, filled = self._spliced(pos), self._filled
            end = start + length
            if end > filled:
                break
            if buffer[start] >= EOF and self._ended(start, end):
                return end
            starts.append(start)
            ends.append(end)
            pos = end
        return pos

    def _spliced(self, pos: int) -> int:
        """Removes the inner headers of a row in several packets; its payload length. Larger than the buffer:
        incomplete."""
        headers, end, length = list[int](), pos, int(PAYLOAD_MAX)
        while length == PAYLOAD_MAX:
            if end + HEADER_BYTES > self._filled:
                return len(self._buffer)
            length = read_header(self._buffer, end)[0] & SIZE_MASK
            headers.append(end)
            end += HEADER_BYTES + length
        if end > self._filled:
            return len(self._buffer)
        for header in reversed(headers[1:]):
            self._buffer[header : self._filled - HEADER_BYTES] = self._buffer[header + HEADER_BYTES : self._filled]
            self._filled -= HEADER_BYTES
        return int(end - pos - HEADER_BYTES * len(headers))

    def _ended(self, start: int, end: int) -> bool:
        """Whether a packet ends the answer. Raises if it is an error packet."""
        first = self._buffer[start]
        self.done = first == ERROR or end - start < EOF_BELOW_BYTES
        if first == ERROR:
            raise_mysql_exception(bytes(self._buffer[start:end]))
        return self.done

    def _more(self) -> None:
        if self._filled == _BLOCK_BYTES_MAX:
            raise pymysql.err.OperationalError(CR.CR_NET_PACKET_TOO_LARGE, "A row is larger than 2 GiB")
        if self._filled == len(self._buffer):
            self._resize(min(2 * self._filled, _BLOCK_BYTES_MAX))
        try:
            count = self._read(memoryview(self._buffer)[self._filled :])
        except OSError as error:
            raise lost_connection(f" ({error})") from error
        if not count:
            raise lost_connection()
        self._filled += count

    def _read(self, target: memoryview) -> int:
        if not self._file_buffered:
            return int(self._file.raw.readinto(target))
        self._file_buffered = False
        return int(self._file.readinto(target[: len(self._file.peek())]))

    def _drop(self, pos: int) -> None:
        """Discards the rows that were read; a buffer enlarged for a large row is replaced."""
        rest = self._buffer[pos : self._filled]
        if len(self._buffer) > BLOCK_BYTES >= len(rest):
            self._buffer = bytearray(BLOCK_BYTES)
        self._buffer[: len(rest)] = rest
        self._filled = len(rest)

    def _resize(self, size: int) -> None:
        larger = bytearray(size)
        larger[: self._filled] = self._buffer
        self._buffer = larger


def _column(data: Array, pos: Array) -> tuple[pa.BinaryArray, Array]:
    """One column's values, which start at `pos`, and the start of the next column."""
    size, start, null = data[pos].astype(np.int64), pos + 1, None
    if size.size and size.max() >= NULL:
        if size.max() == ERROR:
            raise malformed_packet(_NO_ROW)
        null = size == NULL
        start, size = _long(data, start, np.where(null, 0, size))
    end = start + size
    if size.size and (size.min() < 0 or end.max() > data.size):
        raise malformed_packet(_NO_ROW)
    offsets = np.stack((start, end), axis=1).astype(np.int32)
    # The bytes between two values count as a value, too; every second one is taken.
    every = pa.BinaryArray.from_buffers(
        pa.binary(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return every.take(pa.array(np.arange(0, offsets.size, 2, dtype=np.int32), mask=null)), end


def _long(data: Array, start: Array, size: Array) -> tuple[Array, Array]:
    """The lengths of values whose length does not fit in one byte: it is in the bytes after it."""
    first, start, size = size, start.copy(), size.copy()
    for mark, width in LENGTH_BYTES.items():
        # Not `size`: a length that has just been read may itself be 0xfd or 0xfe.
        indexes = np.flatnonzero(first == mark)
        if indexes.size:
            size[indexes] = sum(data[start[indexes] + n].astype(np.int64) << (8 * n) for n in range(width))
            start[indexes] += width
    return start, size

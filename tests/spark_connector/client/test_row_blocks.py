"""Rows cut out of an answer's bytes: however they arrive, whatever their size, and whatever else comes instead."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connector.client import row_blocks
from spark_connector.client.row_blocks import BLOCK_BYTES, Block, blocks

EOF = b"\xfe\0\0\x02\0"
ERROR = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"


def lenenc(value: bytes | None) -> bytes:
    return b"\xfb" if value is None else prefix(len(value)) + value


def prefix(size: int) -> bytes:
    """A length as the protocol writes it."""
    if size < 0xFB:
        return bytes([size])
    if size < 1 << 16:
        return b"\xfc" + struct.pack("<H", size)
    return b"\xfd" + struct.pack("<I", size)[:3] if size < 1 << 24 else b"\xfe" + struct.pack("<Q", size)


def packets(payload: bytes) -> bytes:
    """A payload in as many packets as it needs; their numbers play no part."""
    parts = [payload[at : at + 0xFFFFFF] for at in range(0, len(payload) + 1, 0xFFFFFF)]
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def answer(*table: Sequence[bytes | None], end: bytes = EOF) -> bytes:
    return b"".join(packets(b"".join(map(lenenc, row))) for row in table) + packets(end)


class Raw(io.RawIOBase):
    """A socket's file that gives pieces of these sizes, and fails when it is read beyond what there is."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data, self._piece, self._at = data, piece, 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        size = min(len(room), self._piece, len(self._data) - self._at)
        assert size, "read beyond the answer: on a socket this waits for ever"
        room[:size] = self._data[self._at : self._at + size]
        self._at += size
        return size


class Line:
    """What rows.py uses of a PyMySQL connection, after the columns of an answer were read."""

    def __init__(self, data: bytes, piece: int = 1 << 20, held: int = 0) -> None:
        self._rfile = io.BufferedReader(Raw(data, piece), 8192)
        if held:
            self._rfile.peek(held)
        self._result = SimpleNamespace(unbuffered_active=True, connection=self)
        self.closed = False

    def query(self, sql: str, unbuffered: bool) -> None:
        assert unbuffered

    def close(self) -> None:
        self.closed = True


def read(line: Any, columns: int, size: int = 100) -> list[tuple[bytes | None, ...]]:
    found: list[tuple[bytes | None, ...]] = []
    for block in blocks(line, "SELECT", size):
        found += zip(*(column.to_pylist() for column in block.columns(columns)), strict=True)
    return found


TABLE: list[tuple[bytes | None, ...]] = [
    (b"1", None, b"x" * 250),
    (b"2", b"", b"y" * 251),
    (b"3", None, b"z" * 65535),
    (None, None, None),
    (b"4", b"\xff\xfe\xfb\xfc", b"a" * 65536),
]


@pytest.mark.parametrize("piece", [1, 3, 4096, 1 << 20])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_rows_in_any_pieces(piece, size):
    assert read(Line(answer(*TABLE), piece), 3, size) == TABLE


@pytest.mark.parametrize("first", range(0, 70_000, 10_000))
def test_a_value_of_any_length(first):
    """Values of all these lengths, whose bytes look like lengths: each value lies over the prefixes that follow it."""
    sizes = range(first, first + 10_000 + (first == 60_000))
    prefixes = [prefix(size) for size in sizes]
    data = bytearray(b"".join(prefixes) + b"\xfa\0\0\xfb\xfc\xfd\xfe\xff" * (sizes[-1] // 8 + 1))
    at = [0, *accumulate(map(len, prefixes))]
    view = memoryview(data)
    for low in range(0, len(sizes), 500):
        some = slice(low, min(low + 500, len(sizes)))
        starts = at[some]
        values = [start + len(own) for start, own in zip(starts, prefixes[some], strict=True)]
        ends = [value + size for value, size in zip(values, sizes[some], strict=True)]
        (column,) = Block(data, starts, ends).columns(1)
        for value, begin, end in zip(column, values, ends, strict=True):
            assert memoryview(value.as_buffer()).cast("B") == view[begin:end], f"{end - begin} bytes"


@pytest.mark.parametrize("start", [b"\xfa\0\0", b"\xfd\xfe\xfc\xfb", b"\xff" * 9, b"\0" * 9])
@pytest.mark.parametrize("sizes", [range(600), range(65_400, 65_700)], ids=["one byte", "two bytes"])
def test_neighbours_of_a_value_of_any_length(start, sizes):
    """Whatever the bytes are that come after a length, in a row with others, as packets."""
    texts = [(start * (size // len(start) + 1))[:size] for size in sizes]
    table = [(b"1", text, None, text[:300], b"2") for text in texts]
    assert read(Line(answer(*table)), 5, 64) == table


@pytest.mark.parametrize("size", range((1 << 24) - 6, (1 << 24) + 4))
def test_lengths_around_that_of_a_packet(size):
    text = b"\xfa\0\0\xfd\xfe" + b"x" * (size - 5)
    table = [(b"before", text, b"\xfe"), (None, b"after", b"")]
    assert read(Line(answer(*table)), 3) == table


@given(st.lists(st.tuples(*[st.none() | st.integers(0, 70_000)] * 3), max_size=12), st.binary(min_size=1, max_size=9))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_rows_of_any_lengths(sizes, of):
    table = [tuple(None if n is None else (of * (n // len(of) + 1))[:n] for n in row) for row in sizes]
    assert read(Line(answer(*table)), 3, 5) == table


def test_what_pymysql_holds_already_is_taken_first():
    few = TABLE[:1]
    assert read(Line(answer(*few), held=1), 3) == few
    assert read(Line(answer(*few), piece=7, held=7), 3) == few


def test_no_rows():
    assert read(Line(answer()), 3) == []


def test_a_block_ends_at_its_rows_and_at_its_bytes():
    assert [len(b.starts) for b in blocks(Line(answer(*[(b"1",)] * 7)), "", 3)] == [3, 3, 1]
    large = [(b"x" * (1 << 20),)] * 9
    assert max(len(b.starts) for b in blocks(Line(answer(*large)), "", 100)) <= BLOCK_BYTES >> 20


@pytest.mark.parametrize("size", [0xFFFFFF - 5, 0xFFFFFF - 4, 0xFFFFFF, 2 * 0xFFFFFF + 10])
def test_rows_in_several_packets(size):
    table = [(b"before", b"1"), (b"x" * size, b"2"), (b"after", b"3"), (b"a", b"y" * size)]
    assert read(Line(answer(*table), piece=1_000_003), 2) == table


def test_a_buffer_that_a_large_row_needed_is_given_back():
    table = [(b"x" * 3 * BLOCK_BYTES,), *[(b"y",)] * 3]
    assert [len(block.data) for block in blocks(Line(answer(*table)), "", 1)][1:] == [BLOCK_BYTES] * 3


def test_an_error_among_the_rows():
    line = Line(answer(*TABLE, end=ERROR))
    with pytest.raises(pymysql.OperationalError, match="interrupted") as caught:
        read(line, 3)
    assert caught.value.args[0] == 1317
    assert not line._result.unbuffered_active


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_another_number_of_columns(columns):
    with pytest.raises(pymysql.OperationalError, match="Malformed"):
        read(Line(answer(*TABLE[:2])), columns)


@pytest.mark.parametrize("payload", [b"\x05abc", b"\xfd\xff\xff\x7fab", b"\xfc", b"\x01a\xff", b"\xfe" + b"\xff" * 12])
def test_lengths_that_lead_astray(payload):
    with pytest.raises(pymysql.OperationalError, match="Malformed"):
        read(Line(packets(payload) + packets(EOF)), 2)


def test_whoever_stops_early_has_a_closed_connection():
    line = Line(answer(*TABLE))
    reading = blocks(line, "", 1)
    next(reading)
    reading.close()
    assert line.closed and not line._result.unbuffered_active
    whole = Line(answer(*TABLE))
    read(whole, 3)
    assert not whole.closed


def test_a_line_that_ends():
    line = Line(b"")
    line._rfile = io.BufferedReader(io.BytesIO(answer(*TABLE)[:-20]))
    with pytest.raises(pymysql.OperationalError, match="Lost connection"):
        read(line, 3)


def test_more_than_an_array_can_address(monkeypatch):
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES_MAX", 2 * BLOCK_BYTES)
    with pytest.raises(pymysql.OperationalError, match="larger"):
        read(Line(answer((b"x" * 3 * BLOCK_BYTES,))), 1)

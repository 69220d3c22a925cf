"""Rows cut out of an answer's bytes: however they arrive, whatever their size, and whatever else comes instead."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from spark_connector import rows
from spark_connector.rows import BLOCK_BYTES, blocks

EOF = b"\xfe\0\0\x02\0"
ERROR = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"


def lenenc(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 0xFB:
        return bytes([size]) + value
    if size < 1 << 16:
        return b"\xfc" + struct.pack("<H", size) + value
    return (b"\xfd" + struct.pack("<I", size)[:3] if size < 1 << 24 else b"\xfe" + struct.pack("<Q", size)) + value


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
    monkeypatch.setattr(rows, "_BLOCK_BYTES_MAX", 2 * BLOCK_BYTES)
    with pytest.raises(pymysql.OperationalError, match="larger"):
        read(Line(answer((b"x" * 3 * BLOCK_BYTES,))), 1)

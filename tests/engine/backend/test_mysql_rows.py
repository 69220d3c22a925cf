"""Rows cut out of the bytes of a server: whatever a row may be, and whatever a broken server may say."""

from __future__ import annotations

import io
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.mysql_rows import _pass_over_columns, _read_rows, parse_row

EOF = b"\xfe\x00\x00\x02\x00"


class _Line:
    """What reading a result needs of a PyMySQL connection."""

    encoding = "utf8"

    def __init__(self, data: bytes, sequence: int = 3) -> None:
        self._rfile, self._next_seq_id, self.closed = io.BytesIO(data), sequence, False

    def _read_bytes(self, count: int) -> bytes:
        data = self._rfile.read(count)
        if len(data) < count:
            raise pymysql.err.OperationalError(2013, "lost")
        return data

    def _force_close(self) -> None:
        self.closed = True


def text(value: bytes | None) -> bytes:
    """A value as a length-encoded string."""
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes((size,)) + value
    width, mark = next((w, m) for w, m in ((2, 0xFC), (3, 0xFD), (8, 0xFE)) if size < 1 << (8 * w))
    return bytes((mark,)) + size.to_bytes(width, "little") + value


def packets(payloads: list[bytes], sequence: int = 3) -> bytes:
    """Framed as a server does, packets of 16 MiB and more in pieces."""
    data = b""
    for payload in payloads:
        pieces = [payload[at : at + 0xFFFFFF] for at in range(0, len(payload) + 1, 0xFFFFFF)]
        for piece in pieces:
            data += len(piece).to_bytes(3, "little") + bytes((sequence & 0xFF,)) + piece
            sequence += 1
    return data


VALUES = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"x" * 250, b"x" * 251, b"y" * 70_000]))


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=300))
def test_rows_are_what_was_sent(rows: list[tuple[bytes | None, ...]]) -> None:
    line: Any = _Line(packets([b"".join(map(text, row)) for row in rows] + [EOF]))
    found, last = _read_rows(line, 3)
    assert found == rows
    assert last.is_eof_packet()
    assert line._next_seq_id == (3 + len(rows) + 1) % 256


@pytest.mark.parametrize("size", [0xFFFFFF - 9, 0xFFFFFF - 5, 0xFFFFFF, 0xFFFFFF + 1, 2 * 0xFFFFFF])
def test_rows_of_16_mib_and_more(size: int) -> None:
    row = (b"z" * size, b"1")
    line: Any = _Line(packets([b"".join(map(text, row)), EOF]))
    assert _read_rows(line, 2)[0] == [row]


def test_an_error_in_the_middle_is_raised() -> None:
    line: Any = _Line(packets([text(b"1"), b"\xff\x25\x05#70100Query execution was interrupted"]))
    with pytest.raises(pymysql.err.Error) as raised:
        _read_rows(line, 1)
    assert raised.value.args[0] == 1317


def test_columns_are_passed_over_up_to_the_rows() -> None:
    column = b"\x03def" + b"\x00" * 20
    line: Any = _Line(packets([column, column, EOF, text(b"1") + text(b"2"), EOF]))
    _pass_over_columns(line, 2)
    assert _read_rows(line, 2)[0] == [(b"1", b"2")]


@pytest.mark.parametrize(
    ("payloads", "errno"),
    [
        ([b"\xff\x25\x05#70100Query execution was interrupted"], 1317),
        ([b"\x03def", b"\x03def", b"\xff\x25\x05#70100Query execution was interrupted"], 1317),
        ([b"\x03def", b"\x03def", b"\x03def"], 2027),
        ([b"\x03def"], 2013),
    ],
)
def test_columns_that_end_otherwise(payloads: list[bytes], errno: int) -> None:
    line: Any = _Line(packets(payloads))
    with pytest.raises(pymysql.err.Error) as raised:
        _pass_over_columns(line, 2)
    assert raised.value.args[0] == errno


def test_a_line_that_is_lost() -> None:
    line: Any = _Line(packets([text(b"12345")])[:-2])
    with pytest.raises(pymysql.err.OperationalError) as raised:
        _read_rows(line, 1)
    assert raised.value.args[0] == 2013


def test_packets_out_of_order_close_the_line() -> None:
    line: Any = _Line(packets([text(b"1")], sequence=9))
    with pytest.raises(pymysql.err.OperationalError):
        _read_rows(line, 1)
    assert line.closed


@given(st.binary(max_size=30), st.integers(0, 4))
def test_what_is_no_row_is_refused(payload: bytes, columns: int) -> None:
    """Never taken for another row: what is accepted is written the same again (or in more bytes than needed)."""
    try:
        row = parse_row(payload, columns)
    except pymysql.err.OperationalError:
        return
    assert len(row) == columns
    assert sum(len(value) for value in row if value is not None) <= len(payload)

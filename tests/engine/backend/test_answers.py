"""Answers cut out of the bytes of a server: whatever they may be, however they come, whatever a broken server says."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.mysql_connection import AnswerConnection
from mysql_client.answers import Answer, AnswerReader
from mysql_client.packets import MalformedAnswer, parse_row

MORE, LAST = b"\x0a\x00", b"\x02\x00"  # status flags: with and without SERVER_MORE_RESULTS_EXISTS
INTERRUPTED = b"\xff\x25\x05#70100Query execution was interrupted"
COLUMN = b"\x03def" + b"\x00" * 20
Rows = Sequence[tuple[bytes | None, ...]]


def eof(status: bytes = LAST) -> bytes:
    return b"\xfe\x00\x00" + status


def ok(affected: int, status: bytes = LAST) -> bytes:
    return b"\x00" + number(affected) + number(7) + status + b"\x00\x00"


def number(value: int) -> bytes:
    """A length-encoded integer."""
    if value < 251:
        return bytes((value,))
    width, mark = next((w, m) for w, m in ((2, 0xFC), (3, 0xFD), (8, 0xFE)) if value < 1 << (8 * w))
    return bytes((mark,)) + value.to_bytes(width, "little")


def text(value: bytes | None) -> bytes:
    """A value as a length-encoded string."""
    return b"\xfb" if value is None else number(len(value)) + value


def result(rows: Rows, columns: int, status: bytes = LAST) -> list[bytes]:
    """The payloads of a result set."""
    return [number(columns), *[COLUMN] * columns, eof(status), *(b"".join(map(text, row)) for row in rows), eof(status)]


def packets(payloads: Sequence[bytes], sequence: int = 1) -> bytes:
    """Framed as a server does, packets of 16 MiB and more in pieces."""
    framed = []
    for payload in payloads:
        for piece in (payload[at : at + 0xFFFFFF] for at in range(0, len(payload) + 1, 0xFFFFFF)):
            framed.append(len(piece).to_bytes(3, "little") + bytes((sequence & 0xFF,)) + piece)
            sequence += 1
    return b"".join(framed)


def read(data: bytes, sizes: Sequence[int] = (), **options: bool) -> AnswerReader:
    """Fed in pieces of these sizes, the rest at once."""
    reader, at = AnswerReader(**options), 0
    for size in sizes:
        if data[at : at + size]:
            assert not reader.done
            reader.feed(data[at : at + size])
        at += size
    if data[at:]:
        reader.feed(data[at:])
    return reader


VALUES = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"x" * 250, b"x" * 251, b"y" * 70_000]))
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=60)
ANSWERS = st.lists(st.one_of(ROWS, st.integers(0, 1 << 40)), min_size=1, max_size=5)


@given(ANSWERS, st.lists(st.integers(1, 400), max_size=60))
def test_answers_are_what_was_sent_however_they_are_cut(said: list[Any], sizes: list[int]) -> None:
    payloads: list[bytes] = []
    for at, answer in enumerate(said):
        status = MORE if at < len(said) - 1 else LAST
        payloads += [ok(answer, status)] if isinstance(answer, int) else result(answer, 3, status)
    reader = read(packets(payloads), sizes)
    assert reader.done and reader.error is None and reader.status == 2
    assert reader.answers == [Answer([], x) if isinstance(x, int) else Answer(x, len(x)) for x in said]


def test_byte_by_byte() -> None:
    data = packets([*result([(b"1", None)], 2, MORE), ok(300)])
    assert read(data, [1] * len(data)).answers == [Answer([(b"1", None)], 1), Answer([], 300)]


@pytest.mark.parametrize("size", [0xFFFFFF - 9, 0xFFFFFF - 5, 0xFFFFFF, 0xFFFFFF + 1, 2 * 0xFFFFFF])
def test_rows_of_16_mib_and_more(size: int) -> None:
    row = (b"z" * size, b"1")
    data = packets(result([row], 2))
    reader = read(data, [64 * 1024] * (len(data) // (64 * 1024)))
    assert reader.done and reader.answers == [Answer([row], 1)]


def test_columns_are_kept_where_they_are_wanted() -> None:
    data = packets([*result([], 1, MORE), number(2), b"\x03def1", b"\x03def2", eof(), eof()])
    assert read(data, collect_columns=True).columns == [b"\x03def1", b"\x03def2"]


@pytest.mark.parametrize("before", range(7))
def test_an_error_ends_the_answers_wherever_it_comes(before: int) -> None:
    payloads = [ok(1, MORE), *result([(b"1",)], 1, MORE)][:before]
    reader = read(packets([*payloads, INTERRUPTED]))
    assert reader.done and reader.error == INTERRUPTED
    assert len(reader.answers) == (before > 0) + (before > 5)


@pytest.mark.parametrize(
    "data",
    [
        packets([ok(1)], sequence=2),
        packets([b""]),
        packets([b"\xfb/etc/passwd"]),
        packets([number(2) + b"x"]),
        packets([number(1), COLUMN, COLUMN]),
        packets([*result([(b"1", b"2")], 1)]),
        packets([ok(1), ok(2)]),
        packets([b"\x00\xfb"]),
    ],
    ids=["out of order", "empty", "a file is asked for", "no number", "no end of columns", "row", "more", "no count"],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read(data)


@given(st.lists(st.binary(max_size=12), max_size=6), st.booleans())
def test_nonsense_is_refused_or_waited_for(payloads: list[bytes], keeps: bool) -> None:
    with contextlib.suppress(MalformedAnswer):
        read(packets(payloads), collect_columns=keeps)


@given(st.binary(max_size=30), st.integers(0, 4))
def test_what_is_no_row_is_refused(payload: bytes, columns: int) -> None:
    """Never taken for another row: what is accepted is written the same again (or in more bytes than needed)."""
    try:
        row = parse_row(payload, columns)
    except MalformedAnswer:
        return
    assert len(row) == columns
    assert sum(len(value) for value in row if value is not None) <= len(payload)


@pytest.fixture
def line() -> Iterator[tuple[Any, socket.socket]]:
    """A connection that has logged in, and the server's end of it."""
    ours, theirs = socket.socketpair()
    connection: Any = AnswerConnection(defer_connect=True, read_timeout=0.2)
    connection._sock, connection._rfile, connection.encoding = ours, ours.makefile("rb"), "utf8"
    connection._current_timeout = None
    yield connection, theirs
    connection._force_close()
    theirs.close()


def test_a_command_and_its_answers(line: tuple[Any, socket.socket]) -> None:
    connection, server = line
    server.sendall(packets([ok(3, MORE), *result([(b"1",)], 1)]))
    assert connection.run("UPDATE t;SELECT 1") == [Answer([], 3), Answer([(b"1",)], 1)]
    assert server.recv(100) == b"\x12\x00\x00\x00\x03UPDATE t;SELECT 1"
    assert connection.open


def test_an_error_leaves_the_connection_open(line: tuple[Any, socket.socket]) -> None:
    connection, server = line
    server.sendall(packets([INTERRUPTED]))
    with pytest.raises(pymysql.err.Error) as raised:
        connection.run("SELECT 1")
    assert raised.value.args == (1317, "Query execution was interrupted") and connection.open


@pytest.mark.parametrize(
    ("said", "ends", "errno"),
    [
        (packets([ok(1)], sequence=9), False, 2027),
        (packets([ok(1)])[:-2], True, 2013),
        (b"", True, 2013),
        (packets([ok(1)])[:-2], False, 2013),
    ],
    ids=["malformed", "cut", "closed", "too late"],
)
def test_a_line_that_is_lost_is_closed(line: tuple[Any, socket.socket], said: bytes, ends: bool, errno: int) -> None:
    connection, server = line
    server.sendall(said)
    if ends:
        server.shutdown(socket.SHUT_WR)
    with pytest.raises(pymysql.err.OperationalError) as raised:
        connection.run("SELECT 1")
    assert raised.value.args[0] == errno and not connection.open
    assert isinstance(raised.value.__context__, TimeoutError) == (not ends and errno == 2013)


def test_an_answer_of_many_megabytes_comes_while_it_is_read(line: tuple[Any, socket.socket]) -> None:
    connection, server = line
    rows = [(b"%d" % n, b"x" * 100_000) for n in range(200)]
    sender = threading.Thread(target=server.sendall, args=(packets(result(rows, 2)),))
    sender.start()
    assert connection.run("SELECT 1") == [Answer(rows, 200)]
    sender.join()

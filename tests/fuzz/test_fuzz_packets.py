"""Properties of everything that reads or writes packets, each beside the fuzzer's own reading of the protocol."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random

import fuzz_paths  # noqa: F401
import fuzz_wire as w
import pytest
from fuzz_corpus import load_all
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from wire_peers import RecordingTransport

from engine.model.queue import ColumnMeta
from mysql_wire import requests
from mysql_wire.binary_values import binary_row_from_values
from mysql_wire.collected_answer import decode_column, decode_result, decode_row, payloads
from mysql_wire.errors import FatalProtocolError, MalformedPacket, ProxyError
from mysql_wire.login import (
    encode_change_user,
    encode_response,
    masked_greeting,
    parse_change_user,
    parse_greeting,
    parse_response,
    wants_tls,
)
from mysql_wire.packet_reader import PayloadReader
from mysql_wire.packets import PAYLOAD_MAX, frame, frame_into, pieces
from mysql_wire.requests import parse_execute, parse_fetch, parse_field_list, parse_long_data, parse_query
from proxy.transport.client_socket import ClientSocket

FLAGS = st.integers(0, (1 << 38) - 1)
RESPONSES = [one.turns()[0][0][0].payload for one in load_all() if one.turns()]
GREETINGS = [one.greeting for one in load_all()]
CHANGES = [
    packet.payload
    for one in load_all()
    for sent, _ in one.turns()
    for packet in sent
    if packet.seq == 0 and packet.payload[:1] == b"\x11"
]


@st.composite
def damaged(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """A packet as a client sent it, or with some of its bytes changed, or cut."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(0, 4))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


# --- numbers and strings


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=5))
def test_a_length_is_read_as_it_was_written(number: int, behind: bytes) -> None:
    reader = PayloadReader(w.lenenc(number) + behind, "it")
    assert reader.lenenc() == number and reader.rest() == behind


@given(
    st.binary(max_size=20),
    st.lists(st.sampled_from(["u8", "u16", "u32", "lenenc", "lenenc_bytes", "null_bytes"])),
)
def test_a_reader_never_reads_past_the_end(data: bytes, reads: list[str]) -> None:
    reader, cursor = PayloadReader(data, "it"), w.Cursor(data)
    for read in reads:
        try:
            found = getattr(reader, read)()
        except MalformedPacket:
            break
        match read:
            case "u8" | "u16" | "u32":
                assert found == cursor.number(int(read[1:]) // 8)
            case "lenenc":
                assert found == cursor.lenenc()
            case "lenenc_bytes":
                assert found == cursor.text()
            case "null_bytes":
                assert found == cursor.zero_ended()
        assert reader.remaining == cursor.left


# --- logins


@given(damaged(GREETINGS), FLAGS)
def test_a_greeting_is_read_or_refused(payload: bytes, mask: int) -> None:
    try:
        greeting = parse_greeting(payload)
    except MalformedPacket:
        return
    shown, masked = masked_greeting(payload, mask)
    assert len(shown) == len(payload) and masked.capabilities == greeting.capabilities & mask
    assert parse_greeting(shown) == masked
    try:
        nonce = w.nonce_of(payload)
    except w.WireError:
        return  # cut; there are servers that leave out the end
    assert greeting.nonce == nonce


@given(damaged(RESPONSES), FLAGS)
@settings(max_examples=200)
def test_a_response_is_read_as_by_the_book_or_refused(payload: bytes, offered: int) -> None:
    try:
        found = parse_response(payload, offered)
    except MalformedPacket:
        return
    expected = w.read_response(payload, offered)
    assert (found.user, found.auth, found.plugin or b"") == (expected.user, expected.auth, expected.plugin)
    assert found.capabilities == expected.capabilities
    assert parse_response(encode_response(found), offered) == found
    assert wants_tls(payload) == bool(int.from_bytes(payload[:4], "little") & w.SSL)


@given(damaged(CHANGES), FLAGS, st.integers(0, 255))
@settings(max_examples=200)
def test_a_change_of_user_is_read_as_by_the_book_or_refused(payload: bytes, flags: int, charset: int) -> None:
    try:
        found = parse_change_user(payload[1:], flags, charset)
    except MalformedPacket:
        return
    expected = w.read_change_user(payload[1:], flags)
    assert (found.user, found.auth, found.plugin or b"") == (expected.user, expected.auth, expected.plugin)
    if found.plugin is None:
        found = replace(found, attributes=None)  # which are only sent on behind a plugin's name
    assert parse_change_user(encode_change_user(found)[1:], flags, charset) == found


# --- parameters

VALUES = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda v: (0x08, v, struct.pack("<q", v))),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda v: (0x03, v, struct.pack("<i", v))),
    st.integers(-(1 << 15), (1 << 15) - 1).map(lambda v: (0x02, v, struct.pack("<h", v))),
    st.integers(-128, 127).map(lambda v: (0x01, v, struct.pack("<b", v))),
    st.floats(allow_nan=False).map(lambda v: (0x05, v, struct.pack("<d", v))),
    st.text(max_size=300).map(lambda v: (0xFD, v, w.text(v.encode("utf-8", "replace")))),
    st.binary(max_size=300).map(lambda v: (0xFC, v, w.text(v))),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda v: (0xF6, v, w.text(f"{v:f}".encode()))),
    st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)).map(
        lambda v: (0x0C, v, b"\x0b" + struct.pack("<HBBBBBI", *v.timetuple()[:6], v.microsecond))
    ),
    st.dates(date(1000, 1, 1)).map(lambda v: (0x0A, v, b"\x04" + struct.pack("<HBB", v.year, v.month, v.day))),
    st.timedeltas(timedelta(hours=-800), timedelta(hours=800)).map(lambda v: (0x0B, v, time_bytes(v))),
)  # fmt: skip


def time_bytes(value: timedelta) -> bytes:
    size = abs(value)
    minutes, seconds = divmod(size.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return b"\x0c" + struct.pack("<BIBBBI", value < timedelta(0), size.days, hours, minutes, seconds, size.microseconds)


@st.composite
def executions(draw: st.DrawFn) -> tuple[bytes, list[object]]:
    """A COM_STMT_EXECUTE behind its command byte, and the values in it."""
    drawn = draw(st.lists(VALUES, min_size=1, max_size=20))
    nulls = sum(1 << n for n, value in enumerate(drawn) if value is None)
    types = b"".join(b"\x06\0" if value is None else bytes((value[0], 0)) for value in drawn)
    body = b"".join(value[2] for value in drawn if value is not None)
    head = b"\1\0\0\0\0\1\0\0\0" + nulls.to_bytes((len(drawn) + 7) // 8, "little") + b"\1"
    return head + types + body, [None if value is None else value[1] for value in drawn]


@given(executions())
@settings(max_examples=150)
def test_parameters_are_read_as_they_were_sent(execution: tuple[bytes, list[object]]) -> None:
    body, values = execution
    found = parse_execute(body, len(values), None, {}, 0)
    for value, sent in zip(found.values, values, strict=True):
        if isinstance(sent, str) and not sent.isprintable():
            continue  # surrogates, which UTF-8 has no bytes for
        assert value == sent and type(value) is type(sent)
    at = 9 + (len(values) + 7) // 8
    without_types = body[:at] + b"\0" + body[at + 1 + 2 * len(values) :]
    assert parse_execute(without_types, len(values), found.types, {}, 0).values == found.values


@given(executions(), st.data(), FLAGS, st.integers(0, 30))
@settings(max_examples=200)
def test_parameters_are_read_or_refused(
    execution: tuple[bytes, list[object]], data: st.DataObject, flags: int, count: int
) -> None:
    body = data.draw(damaged([execution[0]]))
    try:
        request = parse_execute(body, count, None, {}, flags)
    except ProxyError as error:
        assert error.errno in (1835, 1210, 1292, 1366, 1264)
        return
    assert len(request.values) == count or not count


@given(st.binary(max_size=60), FLAGS)
def test_other_commands_are_read_or_refused(body: bytes, flags: int) -> None:
    for read in (parse_fetch, parse_long_data, parse_field_list, lambda data: parse_query(data, flags)):
        try:
            read(body)
        except ProxyError as error:
            assert error.errno in (1835, 1210, 1292, 1366)


@given(st.binary(max_size=200), FLAGS)
def test_a_query_is_packed_as_it_is_read(text: bytes, flags: int) -> None:
    payload = requests.query_payload(text, flags)
    assert parse_query(payload[1:], flags) == text == requests.query_text(payload[1:], flags)


# --- rows


@given(st.lists(VALUES, min_size=1, max_size=12))
@settings(max_examples=150)
def test_binary_rows_are_what_was_put_in(drawn: list[tuple[int, object, bytes] | None]) -> None:
    columns = [ColumnMeta("c", 0x06 if value is None else value[0], decimals=6) for value in drawn]
    values = [None if value is None else value[1] for value in drawn]
    if any(isinstance(value, float) and math.isinf(value) for value in values):
        with pytest.raises(ProxyError):
            binary_row_from_values(values, columns)
        return
    row = binary_row_from_values(values, columns)
    nulls = (len(values) + 9) // 8
    body = w.Cursor(row[1 + nulls :])
    for value, column in zip(drawn, columns, strict=True):
        if value is not None:
            assert _same(column.type, value, body), (column, value)
    assert body.left == 0 and row[:1] == b"\0"


def _same(kind: int, value: tuple[int, object, bytes], body: w.Cursor) -> bool:
    """Takes one value, which may be written shorter than by a client that always writes all of it."""
    if kind in (0x0A, 0x0B, 0x0C):
        size = body.number(1)
        return value[2][1:].startswith(body.take(size)) and not any(value[2][1 + size :])
    if kind == 0xF6:
        return Decimal(body.text().decode()) == value[1]
    if isinstance(value[1], str):
        return body.text() == value[1].encode("utf-8", "replace")
    return body.take(len(value[2])) == value[2]


# --- results that are decoded


@given(
    st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=300)), min_size=2, max_size=2), max_size=6), st.booleans()
)
def test_results_are_decoded_as_they_were_sent(rows: list[list[bytes | None]], deprecate_eof: bool) -> None:
    flags = w.DEPRECATE_EOF if deprecate_eof else 0
    definition = b"".join(map(w.text, (b"def", b"d", b"t", b"t", b"n", b"o"))) + b"\x0c\x2d\0\4\0\0\0\xfd\1\0\0\0\0"
    packets = [b"\2", definition, definition, *([] if deprecate_eof else [b"\xfe\0\0\2\0"])]
    encoded = [b"".join(b"\xfb" if value is None else w.text(value) for value in row) for row in rows]
    assume(not any(row[:1] in (b"\xfe", b"\xff") for row in encoded))
    end = b"\xfe\0\0\2\0\0\0" if deprecate_eof else b"\xfe\0\0\2\0"
    answer = b"".join(w.framed(packet, n + 1 & 255) for n, packet in enumerate([*packets, *encoded, end]))
    found = decode_result(answer, flags, encoding="utf-8")
    assert found is not None and [list(row) for row in found.rows] == rows
    assert [column.name for column in found.columns] == ["n", "n"]


@given(st.lists(st.binary(max_size=40), max_size=8), FLAGS, st.binary(max_size=10))
def test_a_result_that_is_none_is_refused(packets: list[bytes], flags: int, behind: bytes) -> None:
    answer = b"".join(w.framed(packet, n & 255) for n, packet in enumerate(packets)) + behind
    try:
        decode_result(answer, flags, encoding="utf-8")
    except MalformedPacket:
        pass
    for packet in payloads(answer):
        for decode in (lambda data: decode_row(data, 3), lambda data: decode_column(data, "utf-8")):
            try:
                decode(packet)
            except MalformedPacket:
                pass


# --- frames


EDGES = [0, 1, PAYLOAD_MAX - 1, PAYLOAD_MAX, PAYLOAD_MAX + 1]


@pytest.mark.parametrize("size", EDGES)
def test_frames_follow_the_16_mib_rule(size: int) -> None:
    payload = bytes(size)
    framed = w.framed(payload, 7)
    out = bytearray()
    assert frame(payload, 7) == b"".join(pieces(payload, 7)) == framed
    assert frame_into(out, payload, 7) == (7 + len(w.packets_of(framed)[0])) & 0xFF and bytes(out) == framed


async def read_in_pieces(data: bytes, limit: int, random: Random, count: int) -> list[bytes]:
    """What a ClientSocket makes of bytes that come in pieces."""
    stream = ClientSocket(lambda _: None, max_packet_bytes=limit)
    stream.connection_made(RecordingTransport(stream))
    largest = random.choice((3, 60, 70_000, 1 << 20))
    at = 0
    found = []
    while at < len(data):
        size = random.randint(1, max(largest, len(data) // 200))
        stream.data_received(data[at : at + size])
        at += size
    for _ in range(count):
        found.append(await stream.read_command())
    stream.abort()
    return found


@pytest.mark.parametrize("size", EDGES[1:])
async def test_packets_over_16_mib_are_read_whole(size: int) -> None:
    payload = bytes((1, 2, 3)) * (size // 3) + b"x" * (size % 3)
    data = w.framed(payload) + w.framed(b"\x0e")
    assert await read_in_pieces(data, 2 * PAYLOAD_MAX, Random(size), 2) == [payload, b"\x0e"]


async def test_a_packet_above_the_limit_is_refused_at_its_header() -> None:
    stream = ClientSocket(lambda _: None, max_packet_bytes=PAYLOAD_MAX)
    stream.connection_made(RecordingTransport(stream))
    stream.data_received(b"\xff\xff\xff\0" + bytes(PAYLOAD_MAX) + b"\1\0\0\1")
    with pytest.raises(FatalProtocolError) as refused:
        await stream.read_command()
    assert refused.value.errno == 1153
    stream.abort()


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8), st.integers(0, 1 << 30))
@settings(max_examples=150, deadline=None)
async def test_any_pieces_make_the_same_packets(sent: list[bytes], seed: int) -> None:
    data = b"".join(map(w.framed, sent))
    assert await read_in_pieces(data, 1 << 16, Random(seed), len(sent)) == sent

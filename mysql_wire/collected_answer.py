"""Decoding a whole buffered answer: text results for statements the proxy runs for itself. Pure, no I/O."""

from __future__ import annotations

from dataclasses import replace

from engine.model.queue import ColumnMeta, TextValue
from mysql_client.packets import MalformedAnswer, parse_column, parse_row
from mysql_wire.answer_walker import PROGRESS_REPORT
from mysql_wire.errors import MalformedPacket
from mysql_wire.flags import CACHE_METADATA, DEPRECATE_EOF, EXTENDED_METADATA, OPTIONAL_METADATA
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.packet_reader import PayloadReader
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, SIZE_MASK, read_header

_UNDESCRIBED = ColumnMeta("", 0xFD)


def payloads(answer: bytes) -> list[bytes]:
    """The payloads of an answer's packets, continuations joined."""
    packets: list[bytes] = []
    position, parts = 0, b""
    while position + HEADER_BYTES <= len(answer):
        start = position + HEADER_BYTES
        position = start + (read_header(answer, position)[0] & SIZE_MASK)
        parts += answer[start:position]
        if position - start < PAYLOAD_MAX:
            packets.append(parts)
            parts = b""
    return packets


def decode_result(answer: bytes, capabilities: int, *, encoding: str) -> Collected | None:
    """The first result set of an answer; None if it has none.

    Raises:
        MalformedPacket: the server's bytes make no sense.
    """
    packets = [packet for packet in payloads(answer) if not packet.startswith(PROGRESS_REPORT)]
    if not packets or packets[0][:1] in (b"\x00", b"\xff", b"\xfb", b""):
        return None
    deprecate_eof = bool(capabilities & DEPRECATE_EOF)
    count, described = _column_count(packets[0], capabilities)
    first_row = 1 + (count if described else 0) + (0 if deprecate_eof else 1)
    if len(packets) < first_row:
        raise MalformedPacket("a result that ends within its definitions")
    extended = bool(capabilities & EXTENDED_METADATA)
    columns = (_UNDESCRIBED,) * count
    if described:
        columns = tuple(decode_column(packet, encoding, extended=extended) for packet in packets[1 : 1 + count])
    rows = []
    for packet in packets[first_row:]:
        if packet.startswith(b"\xff") or (packet.startswith(b"\xfe") and _ends_rows(packet, deprecate_eof)):
            break
        rows.append(decode_row(packet, count))
    return Collected(columns, tuple(rows))


def decode_answer(answer: bytes, outcome: Outcome, capabilities: int, *, encoding: str) -> Collected | Outcome:
    """The first result set of an answer; where it has none, the outcome with all values of its OK packet.

    Raises:
        MalformedPacket: the server's bytes make no sense.
    """
    result = decode_result(answer, capabilities, encoding=encoding)
    return decode_ok(answer, outcome) if result is None else result


def decode_ok(answer: bytes, outcome: Outcome) -> Outcome:
    """The outcome with all values of the OK packet at the end of an answer without rows.

    Raises:
        MalformedPacket: the server's bytes make no sense.
    """
    reader = PayloadReader((payloads(answer) or [b""])[-1], "an OK packet")
    reader.u8()
    affected, insert_id, status, warnings = reader.lenenc(), reader.lenenc(), reader.u16(), reader.u16()
    info = reader.lenenc_bytes() if reader.remaining else b""
    return replace(
        outcome,
        status=status,
        affected_rows=affected,
        last_insert_id=insert_id,
        warnings=warnings,
        info=info.decode("utf-8", "replace"),
    )


def _column_count(packet: bytes, capabilities: int) -> tuple[int, bool]:
    """How many columns, and whether they are described: a session may switch definitions off."""
    reader = PayloadReader(packet, "a column count")
    count = reader.lenenc()
    flag = capabilities & (CACHE_METADATA | OPTIONAL_METADATA) and reader.remaining
    return count, not flag or bool(reader.u8())


def _ends_rows(packet: bytes, deprecate_eof: bool) -> bool:
    return len(packet) < (PAYLOAD_MAX if deprecate_eof else 9)


def decode_column(packet: bytes, encoding: str, *, extended: bool = False) -> ColumnMeta:
    """A Column Definition 41; `extended`: with MariaDB's extended type information, which is dropped."""
    try:
        return ColumnMeta(*parse_column(packet, encoding, extended=extended))
    except MalformedAnswer as error:
        raise MalformedPacket("a column definition ends too early") from error


def decode_row(packet: bytes, count: int) -> tuple[TextValue, ...]:
    """A text row."""
    try:
        return parse_row(packet, count)
    except MalformedAnswer as error:
        raise MalformedPacket("a row ends too early") from error

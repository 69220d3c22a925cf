"""Decoding a whole buffered answer: text results for statements the proxy runs for itself. Pure, no I/O.

Text comes in the client's character_set_results, or, where that is NULL, in each column's own: the definitions say
which. All is UTF-8 afterwards, the columns' charsets too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.model.queue import ColumnMeta, TextValue
from mysql_client.packets import MalformedAnswer, parse_column, parse_row
from mysql_wire.answer_walker import PROGRESS_REPORT
from mysql_wire.errors import MalformedPacket
from mysql_wire.flags import (
    CACHE_METADATA,
    DEPRECATE_EOF,
    EXTENDED_METADATA,
    OPTIONAL_METADATA,
    WIDE,
    python_encoding,
)
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.packet_reader import PayloadReader
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX, SIZE_MASK, read_header

_UNDESCRIBED = ColumnMeta("", 0xFD)
_UTF8MB4 = _UNDESCRIBED.charset
_UTF8 = "utf-8"
_WIDE_CATALOGS = {"def".encode(codec): codec for codec in WIDE.values()}
"""How a definition begins where results are in one of these: then MariaDB writes numbers and times in it, too."""
_WIDE_DIGITS = "digits in any of these"
_DIGITS = frozenset((*range(15), 246))  # the types of numbers and times


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
    """The first result set of an answer; None if it has none. `encoding`: of the definitions, and of values without
    any.

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
    columns, codecs = (_UNDESCRIBED,) * count, (encoding,) * count
    if described:
        columns, codecs = _described(packets[1 : 1 + count], encoding, extended=extended)
    rows = []
    for packet in packets[first_row:]:
        if packet.startswith(b"\xff") or (packet.startswith(b"\xfe") and _ends_rows(packet, deprecate_eof)):
            break
        rows.append(decode_row(packet, count))
    if any(codec != _UTF8 for codec in codecs):
        rows = [tuple(map(_in_utf8, row, codecs)) for row in rows]
    return Collected(columns, tuple(rows))


def _described(
    packets: Sequence[bytes], encoding: str, *, extended: bool
) -> tuple[tuple[ColumnMeta, ...], tuple[str, ...]]:
    """The columns, and in what the values of each come."""
    wide = _WIDE_CATALOGS.get(packets[0][1 : 1 + packets[0][0]]) if packets else None
    columns = [decode_column(packet, wide or encoding, extended=extended) for packet in packets]
    codecs = tuple(_codec(column, wide) for column in columns)
    return tuple(
        replace(column, charset=_UTF8MB4) if column.is_text and codec != _UTF8 else column
        for column, codec in zip(columns, codecs, strict=True)
    ), codecs


def _codec(column: ColumnMeta, wide: str | None) -> str:
    if column.is_text:
        return python_encoding(column.charset, of_result=True)
    return _WIDE_DIGITS if wide and column.type in _DIGITS else _UTF8


def _in_utf8(value: TextValue, codec: str) -> TextValue:
    if value is None or codec == _UTF8:
        return value
    if codec == _WIDE_DIGITS:
        return value.replace(b"\0", b"")  # which leaves ASCII as it is: MySQL writes them so
    return value.decode(codec, "replace").encode()


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

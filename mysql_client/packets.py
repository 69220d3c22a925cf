"""Packets and their parts, parsed: headers, length-encoded numbers and strings, errors, definitions, text rows. Pure.

A physical packet is a header (three bytes of size and one of the sequence id) and a payload of at most 16 MiB - 1. A
payload of that length or more goes on in the next packet; the last part is shorter and may be empty. Source: MySQL's
documentation, "MySQL Packets", "Protocol Basics", "Text Resultset", "ERR_Packet".
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

TextValue = bytes | None
"""A value in the text protocol's form; None is NULL."""
Row = tuple[TextValue, ...]

HEADER_BYTES: Final = 4
PAYLOAD_MAX: Final = 0xFFFFFF
"""A physical packet of exactly this payload is continued by the next one."""
EOF_BELOW_BYTES: Final = 9
"""An EOF packet is shorter; a row whose first value is 16 MiB or more begins with 0xFE too, and is longer."""

OK: Final = 0x00
NULL: Final = 0xFB  # in place of a count of columns it asks for a file of the client
EOF: Final = 0xFE
ERROR: Final = 0xFF
_TWO_BYTES: Final = 0xFC
_EIGHT_BYTES: Final = 0xFE
LENGTH_BYTES: Mapping[int, int] = {0xFC: 2, 0xFD: 3, 0xFE: 8}
"""How many bytes of a number follow its first byte, where that is none itself."""

ColumnDefinition = tuple[str, int, int, int, int, int, str, str, str, str]
"""Name, type, character set, length, flags, decimals; original name, table, original table, schema."""

read_header = Struct("<I").unpack_from
"""One number from a header: `& SIZE_MASK` is the payload's size, `>> 24` the sequence id."""
SIZE_MASK: Final = 0xFFFFFF

_FIXED = Struct("<HIBHB")  # what follows the texts of a column definition
_STATE_BYTES = 6  # `#` and the SQLSTATE before the text of an error


class MalformedAnswer(Exception):
    """The server's bytes are no answer that the protocol knows; the connection cannot be used any further."""


def parse_number(data: bytes | bytearray, at: int, end: int) -> tuple[int, int]:
    """The length-encoded integer at `at`, in a packet until `end`, and where it ends. Raises MalformedAnswer."""
    if at >= end:
        raise MalformedAnswer("a packet that ends too early")
    first = data[at]
    if first < NULL:
        return first, at + 1
    after = at + 1 + LENGTH_BYTES.get(first, PAYLOAD_MAX)
    if after > end:
        raise MalformedAnswer("a packet whose number is cut or none")
    return int.from_bytes(data[at + 1 : after], "little"), after


def parse_column(payload: bytes, encoding: str, *, extended: bool = False) -> ColumnDefinition:
    """A Column Definition 41; `extended`: with MariaDB's extended type information, which is dropped.

    Raises MalformedAnswer.
    """
    texts, at, end = [], 0, len(payload)
    for _ in range(7 if extended else 6):
        size, start = parse_number(payload, at, end)
        at = start + size
        texts.append(payload[start:at])
    _, at = parse_number(payload, at, end)  # of bytes after it
    if at + _FIXED.size > end:
        raise MalformedAnswer("a column definition that ends too early")
    charset, length, kind, flags, decimals = _FIXED.unpack_from(payload, at)
    schema, table, org_table, name, org_name = (text.decode(encoding, "replace") for text in texts[1:6])
    return name, kind, charset, length, flags, decimals, org_name, table, org_table, schema


def parse_row(payload: bytes, columns: int) -> Row:
    """The values of a text row. Raises MalformedAnswer where it is not one of so many columns."""
    values: list[TextValue] = []
    at = 0
    try:
        for _ in range(columns):
            size = payload[at]
            at += 1
            if size == NULL:
                values.append(None)
                continue
            if size > NULL:
                width = 8 if size == _EIGHT_BYTES else size - _TWO_BYTES + 2
                size = int.from_bytes(payload[at : at + width], "little")
                at += width
            values.append(payload[at : at + size])
            at += size
    except IndexError:
        at = -1
    if at != len(payload):
        raise MalformedAnswer("not a row of the result")
    return tuple(values)


def parse_error(payload: bytes) -> tuple[int, str, str]:
    """An ERR packet's number, text and SQLSTATE; without one, as before login, it is HY000."""
    number = int.from_bytes(payload[1:3], "little")
    text = payload[3:]
    if text[:1] == b"#" and len(text) >= _STATE_BYTES:
        return number, text[_STATE_BYTES:].decode("utf-8", "replace"), text[1:_STATE_BYTES].decode("ascii", "replace")
    return number, text.decode("utf-8", "replace"), "HY000"

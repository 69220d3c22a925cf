"""The proxy's own answers as packet payloads: OK, EOF, ERR, column definitions, rows. Pure; framing is the stream's.

Only the 4.1 protocol is supported, which every client since 2004 has. The values inside rows are made in `text_values`
and `binary_values`, whose functions are part of this module's interface.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from mysql_mimic.types import Capabilities, str_len, uint_len

from engine.model.queue import ColumnMeta, TextValue
from mysql_wire.binary_values import binary_row_from_text, binary_row_from_values
from mysql_wire.errors import server_number
from mysql_wire.flags import CACHE_METADATA, EXTENDED_METADATA, OPTIONAL_METADATA
from mysql_wire.status_flags import SESSION_STATE_CHANGED
from mysql_wire.text_values import text_from_value

__all__ = (
    "DEPRECATE_EOF",
    "MULTI_STATEMENTS",
    "PARAMETER",
    "PROTOCOL_41",
    "SESSION_TRACK",
    "binary_row_from_text",
    "binary_row_from_values",
    "column_count",
    "column_definition",
    "deprecates_eof",
    "early_err_packet",
    "end_packet",
    "eof_packet",
    "err_packet",
    "ok_packet",
    "prepare_ok",
    "text_from_value",
    "text_row",
)

# Plain integers: IntFlag arithmetic costs a microsecond an operation.
PROTOCOL_41 = int(Capabilities.CLIENT_PROTOCOL_41)
DEPRECATE_EOF = int(Capabilities.CLIENT_DEPRECATE_EOF)
SESSION_TRACK = int(Capabilities.CLIENT_SESSION_TRACK)
MULTI_STATEMENTS = int(Capabilities.CLIENT_MULTI_STATEMENTS)
_MESSAGE_MAX_BYTES = 512  # MYSQL_ERRMSG_SIZE: clients keep error texts in buffers of this size

PARAMETER = ColumnMeta("?", 0xFD, charset=63, length=0, flags=0x80)
"""How MySQL describes a parameter of a prepared statement: its type is not known yet."""

_LENGTHS = tuple(bytes((n,)) for n in range(251))
_NULL = b"\xfb"


def deprecates_eof(capabilities: int) -> bool:
    """Whether this client is sent no EOF packets, but an OK packet at the end of rows."""
    return bool(capabilities & DEPRECATE_EOF)


def ok_packet(
    capabilities: int,
    *,
    affected_rows: int = 0,
    last_insert_id: int = 0,
    status: int = 0,
    warnings: int = 0,
    info: str = "",
    header: bytes = b"\x00",
) -> bytes:
    """An OK packet. Session state is never sent, so the flag that announces it is cleared.

    The text has a length before it whatever the capabilities are: the protocol's documentation differs for
    clients without session tracking, but servers send it so, and clients read it so.
    """
    numbers = struct.pack("<HH", status & ~SESSION_STATE_CHANGED & 0xFFFF, min(warnings, 0xFFFF))
    text = str_len(info.encode()) if info else b""
    insert_id = uint_len(last_insert_id & 0xFFFF_FFFF_FFFF_FFFF)  # a negative one goes out as it is stored, as in MySQL
    return b"".join((header, uint_len(affected_rows), insert_id, numbers, text))


def eof_packet(*, status: int = 0, warnings: int = 0) -> bytes:
    """An EOF packet of the older form."""
    return struct.pack("<BHH", 0xFE, min(warnings, 0xFFFF), status & ~SESSION_STATE_CHANGED & 0xFFFF)


def end_packet(capabilities: int, *, status: int = 0, warnings: int = 0) -> bytes:
    """The end of rows or of definitions, in the form this client expects."""
    if capabilities & DEPRECATE_EOF:
        return ok_packet(capabilities, status=status, warnings=warnings, header=b"\xfe")
    return eof_packet(status=status, warnings=warnings)


def err_packet(capabilities: int, errno: int, sqlstate: str, message: str) -> bytes:
    """An ERR packet. The text is cut at what clients can hold, between characters."""
    text = message.encode(errors="replace")[:_MESSAGE_MAX_BYTES].decode(errors="ignore").encode()
    return (
        struct.pack("<BH", 0xFF, server_number(errno))
        + b"#"
        + sqlstate.encode("ascii", "replace")[:5].ljust(5, b"0")
        + text
    )


def early_err_packet(errno: int, message: str) -> bytes:
    """An ERR packet in place of the greeting: nothing is agreed upon yet, and such an error has no SQLSTATE."""
    return struct.pack("<BH", 0xFF, server_number(errno)) + message.encode(errors="replace")[:_MESSAGE_MAX_BYTES]


def column_count(count: int, capabilities: int) -> bytes:
    """The packet that opens a result set. Definitions always follow, which some clients insist on."""
    follow = b"\x01" if capabilities & (CACHE_METADATA | OPTIONAL_METADATA) else b""
    return bytes(uint_len(count)) + follow


@lru_cache(maxsize=1024)  # of the columns that are sent again and again, as those of a poll
def column_definition(column: ColumnMeta, capabilities: int, encoding: str = "utf-8") -> bytes:
    """A Column Definition 41; for COM_FIELD_LIST the default value is appended by the caller."""
    names = (column.schema, column.table, column.org_table, column.name, column.org_name)
    fixed = struct.pack(
        "<BHIBHBH", 12, column.charset, column.length, column.type, column.flags & 0xFFFF, column.decimals, 0
    )
    extended = b"\x00" if capabilities & EXTENDED_METADATA else b""  # no extended type information
    return b"".join((b"\x03def", *(str_len(name.encode(encoding, "replace")) for name in names), extended, fixed))


def text_row(values: Sequence[TextValue]) -> bytes:
    """A row of the text protocol."""
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
            continue
        size = len(value)
        parts.append(_LENGTHS[size] if size < 251 else uint_len(size))
        parts.append(value)
    return b"".join(parts)


def prepare_ok(statement_id: int, capabilities: int, *, columns: int, parameters: int, warnings: int = 0) -> bytes:
    """The first packet of the answer to COM_STMT_PREPARE. Definitions always follow."""
    follow = b"\x01" if capabilities & OPTIONAL_METADATA else b""
    return struct.pack("<BIHHBH", 0, statement_id, columns, parameters, 0, min(warnings, 0xFFFF)) + follow

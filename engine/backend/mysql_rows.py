"""Rows from MySQL as the bytes that came, read several times faster than PyMySQL reads them for everybody.

The engine reads every message it delivers, and PyMySQL spends 10 us on a row: an object for each packet, three calls
for each value. Here a result's rows are cut out of the buffered socket in one loop. All else, and every packet that is
not a row, stays PyMySQL's business. Protocol: Text Resultset Row, a sequence of length-encoded strings.
"""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR
from pymysql.protocol import MysqlPacket

from engine.model.queue import TextValue

_HEADER_BYTES = 4
_FULL_PACKET = 0xFFFFFF  # a packet of this length goes on in the next one
_NULL, _TWO_BYTES, _EIGHT_BYTES = 0xFB, 0xFC, 0xFE
_EOF_BYTES_MAX = 9  # a row whose first value is 16 MiB or more begins with 0xfe too, and is longer
_ERROR = 0xFF
_ERROR_BYTE, _EOF_BYTE = b"\xff", b"\xfe"
_BUFFER_BYTES = 64 * 1024  # a claim's rows come in a few reads instead of one for every 8 KiB

Row = tuple[TextValue, ...]


class RowConnection(Connection):
    """A PyMySQL connection whose results are read here while it hands out bytes (`use_unicode` off)."""

    def connect(self, sock: Any = None) -> None:
        super().connect(sock)
        connection: Any = self
        connection._rfile.close()  # every answer of the login has been read: it holds nothing any more
        connection._rfile = connection._sock.makefile("rb", _BUFFER_BYTES)

    def _read_query_result(self, unbuffered: bool = False) -> int:
        assert not unbuffered
        connection: Any = self
        connection._result = None
        result: Any = _RowResult(self)
        result.read()
        connection._result = result
        if result.server_status is not None:
            connection.server_status = result.server_status
        return int(result.affected_rows)


class _RowResult(MySQLResult):
    def _get_descriptions(self) -> None:
        result: Any = self
        if result.connection.use_unicode:
            super()._get_descriptions()  # type: ignore[misc]
            return
        _pass_over_columns(result.connection, result.field_count)

    def _read_rowdata_packet(self) -> None:
        result: Any = self
        if result.connection.use_unicode:
            super()._read_rowdata_packet()  # type: ignore[misc]  # the stubs leave out what begins with a line
            return
        rows, last = _read_rows(result.connection, result.field_count)
        result._check_packet_is_eof(last)
        result.connection = None
        result.affected_rows, result.rows = len(rows), rows


def _pass_over_columns(connection: Any, count: int) -> None:
    """The descriptions of a result's columns, up to the EOF packet after them: whoever asked knows what they are, and
    PyMySQL takes 10 us for each. Raises as `_read_rows`."""
    for _ in range(count):
        payload = _read_payload(connection)
        if payload[:1] == _ERROR_BYTE:  # nothing comes after it
            MysqlPacket(payload, connection.encoding).check_error()
    end = _read_payload(connection)
    if not (end[:1] == _EOF_BYTE and len(end) < _EOF_BYTES_MAX):
        MysqlPacket(end, connection.encoding).check_error()
        raise pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, "Malformed packet: no end of the columns")


def _read_rows(connection: Any, columns: int) -> tuple[list[Row], MysqlPacket]:
    """All rows up to the EOF packet, and that packet. Raises what PyMySQL raises for an error packet or a lost line."""
    rows: list[Row] = []
    while True:
        payload = _read_payload(connection)
        first = payload[0] if payload else _ERROR
        if first >= _EIGHT_BYTES and (first == _ERROR or len(payload) < _EOF_BYTES_MAX):
            packet = MysqlPacket(payload, connection.encoding)
            packet.check_error()
            return rows, packet
        rows.append(parse_row(payload, columns))


def _read_payload(connection: Any) -> bytes:
    part = _read_packet(connection)
    if len(part) < _FULL_PACKET:
        return part
    parts = [part]
    while len(parts[-1]) == _FULL_PACKET:
        parts.append(_read_packet(connection))
    return b"".join(parts)


def _read_packet(connection: Any) -> bytes:
    header = connection._read_bytes(_HEADER_BYTES)
    if header[3] != connection._next_seq_id:
        connection._force_close()
        raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server: packets out of order")
    connection._next_seq_id = (header[3] + 1) & 0xFF
    body: bytes = connection._read_bytes(header[0] | header[1] << 8 | header[2] << 16)
    return body


def parse_row(payload: bytes, columns: int) -> Row:
    """The values of a text row. Raises OperationalError where it is not one of so many columns."""
    values: list[TextValue] = []
    at = 0
    try:
        for _ in range(columns):
            size = payload[at]
            at += 1
            if size == _NULL:
                values.append(None)
                continue
            if size > _NULL:
                width = 8 if size == _EIGHT_BYTES else size - _TWO_BYTES + 2
                size = int.from_bytes(payload[at : at + width], "little")
                at += width
            values.append(payload[at : at + size])
            at += size
    except IndexError:
        at = -1
    if at != len(payload):
        raise pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, "Malformed packet: not a row of the result")
    return tuple(values)

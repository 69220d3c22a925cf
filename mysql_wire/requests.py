"""Commands with contents, parsed: COM_QUERY, COM_STMT_EXECUTE, COM_STMT_FETCH, long data, COM_FIELD_LIST.

Every function takes the payload after the command byte. Parameters become typed values, never text to be spliced into
SQL. A packet that ends too early or whose lengths lie is error 1835, arguments that do not fit the statement 1210;
nothing else is ever raised. Query attributes are read over and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mysql_mimic.types import Capabilities, Commands, ComStmtExecuteFlags

from mysql_wire.errors import MalformedPacket, ProxyError
from mysql_wire.packet_reader import PayloadReader
from mysql_wire.parameters import ParameterType, ParameterValue, from_string, is_known_type, read_value

QUERY_ATTRIBUTES = int(Capabilities.CLIENT_QUERY_ATTRIBUTES)
PARAMETERS_MAX = 65535
"""The protocol counts a statement's parameters in 16 bits."""

_READ_ONLY = int(ComStmtExecuteFlags.CURSOR_TYPE_READ_ONLY)
_COUNT_AVAILABLE = int(ComStmtExecuteFlags.PARAMETER_COUNT_AVAILABLE)
_NO_ATTRIBUTES = b"\x00\x01"  # no attributes, in one set

_BULK_TYPES, _BULK_UNIT_RESULTS = 128, 64  # of COM_STMT_BULK_EXECUTE: types come with it; a result for each set
_VALUE_FOLLOWS, _IS_NULL = 0, 1  # the meanings of an indicator

SETS_MAX = 65536
"""Sets of parameters of one bulk execution that the proxy takes apart."""

FIRST_LOCAL_ID = 1 << 31
"""The proxy's own prepared statements count from here, so that they never meet the database's."""

LAST_PREPARED = 0xFFFFFFFF
"""In MariaDB this id means the statement prepared last: clients execute before they know its own."""


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """A COM_STMT_EXECUTE. `types` are to be given back at the next execution, which may leave them out."""

    statement_id: int
    flags: int
    values: tuple[ParameterValue, ...]
    types: tuple[ParameterType, ...]

    @property
    def cursor(self) -> bool:
        """Whether the client asks for a cursor: no rows until it fetches. Every kind is served as a read-only one."""
        return bool(self.flags & ~_COUNT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """A COM_STMT_BULK_EXECUTE: `sets` of parameters. `unit_results`: the client asks what each of them came to. `types`
    as in ExecuteRequest."""

    statement_id: int
    sets: tuple[tuple[ParameterValue, ...], ...]
    unit_results: bool
    types: tuple[ParameterType, ...]


def query_text(body: bytes, capabilities: int) -> bytes | None:
    """The SQL of a COM_QUERY at the least cost; None when it has query attributes and takes `parse_query`."""
    if not capabilities & QUERY_ATTRIBUTES:
        return body
    return body[2:] if body.startswith(_NO_ATTRIBUTES) else None


def query_payload(text: bytes, capabilities: int) -> bytes:
    """A COM_QUERY of our own, in the form that goes with these capabilities. The command byte is part of it."""
    command = bytes((Commands.COM_QUERY,))
    return command + _NO_ATTRIBUTES + text if capabilities & QUERY_ATTRIBUTES else command + text


def parse_query(body: bytes, capabilities: int) -> bytes:
    """The SQL of a COM_QUERY."""
    if not capabilities & QUERY_ATTRIBUTES:
        return body
    reader = PayloadReader(body, "COM_QUERY")
    count = _count(reader)
    if reader.lenenc() != 1:
        raise MalformedPacket("COM_QUERY has more than one set of attributes")
    if count:
        nulls = reader.take((count + 7) // 8)
        if reader.u8() != 1:
            raise MalformedPacket("COM_QUERY attributes without types")
        types = _types(reader, count, named=True)
        _values(reader, nulls, types, {}, "utf-8")
    return reader.rest()


def parse_execute(
    body: bytes,
    parameter_count: int,
    remembered_types: Sequence[ParameterType] | None,
    long_data: Mapping[int, bytes],
    capabilities: int,
    encoding: str = "utf-8",
) -> ExecuteRequest:
    """A COM_STMT_EXECUTE of a statement with that many parameters; `long_data` was sent ahead, by parameter number.

    Raises:
        ProxyError: 1835 a malformed packet, 1210 parameters that do not fit, 1292 and 1366 impossible values.
    """
    reader = PayloadReader(body, "COM_STMT_EXECUTE")
    statement_id, flags, _iterations = reader.u32(), reader.u8(), reader.u32()
    if flags & ~0x0F or flags & 0x07 not in (0, 1, 2, 4):
        raise ProxyError(1210, f"Incorrect arguments to mysqld_stmt_execute: cursor flags {flags:#04x}")
    attributes = bool(capabilities & QUERY_ATTRIBUTES)
    count = parameter_count
    if attributes and (parameter_count or flags & _COUNT_AVAILABLE):
        count = _count(reader)
    if count < parameter_count:
        raise ProxyError(1210, f"Incorrect arguments to mysqld_stmt_execute: {count} of {parameter_count} parameters")
    if not count:
        return ExecuteRequest(statement_id, flags, (), ())
    nulls = reader.take((count + 7) // 8)
    types = _bound_types(reader, count, remembered_types, named=attributes)
    if types is None and (long_data or not _all_null(nulls, count)):
        raise ProxyError(1210, "Incorrect arguments to mysqld_stmt_execute: parameter types were never sent")
    values = (None,) * count if types is None else _values(reader, nulls, types, long_data, encoding)
    if reader.remaining:
        raise MalformedPacket(f"COM_STMT_EXECUTE goes on for {reader.remaining} bytes after its last parameter")
    return ExecuteRequest(statement_id, flags, values[:parameter_count], (types or ())[:parameter_count])


def parse_bulk(
    body: bytes, parameter_count: int, remembered_types: Sequence[ParameterType] | None, encoding: str = "utf-8"
) -> BulkRequest:
    """A COM_STMT_BULK_EXECUTE of a statement with that many parameters (MariaDB's protocol, "COM_STMT_BULK_EXECUTE").

    Each value has an indicator before it: a value follows, NULL, DEFAULT, or "leave the column as it is".

    Raises:
        ProxyError: as `parse_execute`; 1210 also for an indicator that means neither a value nor NULL, and for more
            than SETS_MAX sets.
    """
    reader = PayloadReader(body, "COM_STMT_BULK_EXECUTE")
    statement_id, flags = reader.u32(), reader.u16()
    if flags & ~(_BULK_TYPES | _BULK_UNIT_RESULTS):
        raise ProxyError(1210, f"Incorrect arguments to mysqld_stmt_bulk_execute: flags {flags:#06x}")
    if not parameter_count:
        raise ProxyError(1210, "Incorrect arguments to mysqld_stmt_bulk_execute: the statement has no parameters")
    if flags & _BULK_TYPES:
        types = _types(reader, parameter_count, named=False)
    elif remembered_types is None:
        raise ProxyError(1210, "Incorrect arguments to mysqld_stmt_bulk_execute: parameter types were never sent")
    else:
        types = tuple(remembered_types)
    sets: list[tuple[ParameterValue, ...]] = []
    while reader.remaining:
        if len(sets) == SETS_MAX:
            raise ProxyError(
                1210, f"Incorrect arguments to mysqld_stmt_bulk_execute: more than {SETS_MAX} sets of parameters"
            )
        sets.append(tuple([_indicated(reader, kind, encoding) for kind in types]))
    return BulkRequest(statement_id, tuple(sets), bool(flags & _BULK_UNIT_RESULTS), types)


def _indicated(reader: PayloadReader, kind: ParameterType, encoding: str) -> ParameterValue:
    indicator = reader.u8()
    if indicator == _VALUE_FOLLOWS:
        return read_value(reader, kind, encoding)
    if indicator == _IS_NULL:
        return None
    raise ProxyError(
        1210, "Incorrect arguments to mysqld_stmt_bulk_execute: DEFAULT and IGNORE are no values of a queue statement"
    )


def _count(reader: PayloadReader) -> int:
    count = reader.lenenc()
    if count > PARAMETERS_MAX:
        raise MalformedPacket(f"{count} parameters")
    return count


def _bound_types(
    reader: PayloadReader, count: int, remembered: Sequence[ParameterType] | None, *, named: bool
) -> tuple[ParameterType, ...] | None:
    """The types that come with this execution, or came with an earlier one; None where none ever did."""
    if reader.u8():
        return _types(reader, count, named=named)
    return None if remembered is None or len(remembered) != count else tuple(remembered)


def _all_null(nulls: bytes, count: int) -> bool:
    """NULL needs no type: MySQL Connector/J sends none where its first row is of NULLs alone, and servers take that."""
    return all(nulls[number >> 3] & 1 << (number & 7) for number in range(count))


def _types(reader: PayloadReader, count: int, *, named: bool) -> tuple[ParameterType, ...]:
    types: list[ParameterType] = []
    for number in range(count):
        kind, flag = reader.u8(), reader.u8()
        if not is_known_type(kind):
            raise ProxyError(
                1210, f"Incorrect arguments to mysqld_stmt_execute: parameter {number} of type {kind:#04x}"
            )
        if named:
            reader.lenenc_bytes()
        types.append((kind, bool(flag & 0x80)))
    return tuple(types)


def _values(
    reader: PayloadReader,
    nulls: bytes,
    types: Sequence[ParameterType],
    long_data: Mapping[int, bytes],
    encoding: str,
) -> tuple[ParameterValue, ...]:
    values: list[ParameterValue] = []
    for number, kind in enumerate(types):
        if number in long_data:
            values.append(from_string(long_data[number], kind, encoding))
        elif nulls[number >> 3] & 1 << (number & 7):
            values.append(None)
        else:
            values.append(read_value(reader, kind, encoding))
    return tuple(values)


def parse_fetch(body: bytes) -> tuple[int, int]:
    """A COM_STMT_FETCH: statement id and number of rows."""
    reader = PayloadReader(body, "COM_STMT_FETCH")
    return reader.u32(), reader.u32()


def parse_long_data(body: bytes) -> tuple[int, int, bytes]:
    """A COM_STMT_SEND_LONG_DATA: statement id, parameter number and a piece of its value."""
    reader = PayloadReader(body, "COM_STMT_SEND_LONG_DATA")
    return reader.u32(), reader.u16(), reader.rest()


def parse_field_list(body: bytes) -> tuple[bytes, bytes]:
    """A COM_FIELD_LIST: table and wildcard. Old clients leave out the end of the table's name."""
    if b"\x00" not in body:
        return body, b""
    reader = PayloadReader(body, "COM_FIELD_LIST")
    return reader.null_bytes(), reader.rest()

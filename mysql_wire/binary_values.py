"""Rows of the binary protocol, which prepared statements use: from text-protocol values and from Python values.

What a column's type cannot hold is an error with MySQL's number, never a changed value: SQLite columns may hold
anything.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

from mysql_mimic.types import ColumnType, uint_len

from engine.model.queue import ColumnMeta, TextValue
from mysql_wire.errors import ProxyError
from mysql_wire.text_values import text_from_value

UNSIGNED = 0x20
"""The flag of a column definition for that."""

_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,5})?", re.ASCII)
_DATETIME = re.compile(rb"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)
_TIME = re.compile(rb"(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)

_INTEGERS: Mapping[int, tuple[struct.Struct, struct.Struct]] = {
    ColumnType.TINY: (struct.Struct("<b"), struct.Struct("<B")),
    ColumnType.BOOL: (struct.Struct("<b"), struct.Struct("<B")),
    ColumnType.SHORT: (struct.Struct("<h"), struct.Struct("<H")),
    ColumnType.YEAR: (struct.Struct("<H"), struct.Struct("<H")),
    ColumnType.INT24: (struct.Struct("<i"), struct.Struct("<I")),
    ColumnType.LONG: (struct.Struct("<i"), struct.Struct("<I")),
    ColumnType.LONGLONG: (struct.Struct("<q"), struct.Struct("<Q")),
}
_FLOATS: Mapping[int, struct.Struct] = {
    ColumnType.FLOAT: struct.Struct("<f"),
    ColumnType.DOUBLE: struct.Struct("<d"),
}
_DATES = frozenset((ColumnType.DATE, ColumnType.DATETIME, ColumnType.TIMESTAMP, ColumnType.NEWDATE))

_DIGITS_MAX = 25  # of an integer: more than BIGINT UNSIGNED has, so that nothing absurd is ever computed
_ANY = ColumnMeta("", ColumnType.VAR_STRING)

Encoder = Callable[[object, ColumnMeta, str], bytes]


def binary_row_from_text(values: Sequence[TextValue], columns: Sequence[ColumnMeta]) -> bytes:
    """A binary row out of text-protocol values.

    Raises:
        ProxyError: a value that the column's type cannot hold.
    """
    return binary_row_from_values(values, columns)


def binary_row_from_values(values: Sequence[object], columns: Sequence[ColumnMeta], encoding: str = "utf-8") -> bytes:
    """A binary row out of Python values; text and bytes are read as the column's type.

    Raises:
        ProxyError: a value that the column's type cannot hold.
    """
    nulls = bytearray((len(columns) + 9) // 8)  # the first two bits are unused
    parts = [b"\x00", b""]
    for index, (value, column) in enumerate(zip(values, columns, strict=True), 2):
        if value is None:
            nulls[index >> 3] |= 1 << (index & 7)
        else:
            parts.append(_ENCODERS.get(column.type, _string)(value, column, encoding))
    parts[1] = bytes(nulls)
    return b"".join(parts)


def _string(value: object, column: ColumnMeta, encoding: str) -> bytes:
    text = value if isinstance(value, bytes) else text_from_value(value, column, encoding)
    assert text is not None
    return bytes(uint_len(len(text))) + text


def _integer(value: object, column: ColumnMeta, encoding: str) -> bytes:
    packer = _INTEGERS[column.type][bool(column.flags & UNSIGNED)]
    try:
        return packer.pack(value if isinstance(value, int) else _whole(value, column, encoding))
    except struct.error as error:
        raise ProxyError(1264, f"Out of range value for column '{column.name}'") from error


def _whole(value: object, column: ColumnMeta, encoding: str) -> int:
    text = value if isinstance(value, bytes) else text_from_value(value, column, encoding)
    assert text is not None
    if text.isdigit():
        return int(text[:_DIGITS_MAX])
    if _NUMBER.fullmatch(text):
        number = Decimal(text.decode("ascii"))
        if number.adjusted() < _DIGITS_MAX and number == number.to_integral_value():
            return int(number)
    raise _wrong("integer", text, column)


def _float(value: object, column: ColumnMeta, encoding: str) -> bytes:
    number = value if isinstance(value, float) else _parsed(text_from_value(value, _ANY, encoding) or b"", column)
    try:
        if math.isfinite(number):
            return _FLOATS[column.type].pack(number)
    except OverflowError:
        pass  # a double beyond FLOAT's range
    raise ProxyError(1264, f"Out of range value for column '{column.name}'")


def _parsed(text: bytes, column: ColumnMeta) -> float:
    if not _NUMBER.fullmatch(text):
        raise _wrong("double", text, column)
    return float(text)


def _wrong(kind: str, text: bytes, column: ColumnMeta) -> ProxyError:
    shown = text[:64].decode(errors="replace")
    return ProxyError(1366, f"Incorrect {kind} value: '{shown}' for column '{column.name}'")


def _datetime(value: object, column: ColumnMeta, encoding: str) -> bytes:
    if isinstance(value, datetime) and column.type != ColumnType.DATE:
        clock = (value.hour, value.minute, value.second, value.microsecond)
        return _pack_datetime((value.year, value.month, value.day), clock)
    if isinstance(value, date):
        return _pack_datetime((value.year, value.month, value.day), (0, 0, 0, 0))
    text = text_from_value(value, column, encoding) or b""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise _wrong("datetime", text, column)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    return _pack_datetime((year, month, day), (hour, minute, second, _microseconds(match[7])))


def _microseconds(fraction: bytes | None) -> int:
    return int(fraction.ljust(6, b"0")) if fraction else 0


def _pack_datetime(day: tuple[int, int, int], clock: tuple[int, int, int, int]) -> bytes:
    """The shortest of the four forms: nothing, day, with time, with microseconds."""
    if clock[3]:
        return struct.pack("<BHBBBBBI", 11, *day, *clock)
    if any(clock):
        return struct.pack("<BHBBBBB", 7, *day, *clock[:3])
    return struct.pack("<BHBB", 4, *day) if any(day) else b"\x00"


def _time(value: object, column: ColumnMeta, encoding: str) -> bytes:
    text = text_from_value(value, column, encoding) or b""
    if isinstance(value, timedelta):
        text = text_from_value(value, ColumnMeta(column.name, column.type, decimals=6)) or b""
    match = _TIME.fullmatch(text)
    if match is None:
        raise _wrong("time", text, column)
    days, hours = divmod(int(match[2]), 24)
    clock = (1 if match[1] else 0, days, hours, int(match[3]), int(match[4]))
    micros = _microseconds(match[5])
    if micros:
        return struct.pack("<BBIBBBI", 12, *clock, micros)
    return struct.pack("<BBIBBB", 8, *clock) if any(clock[1:]) else b"\x00"


def _null(value: object, column: ColumnMeta, encoding: str) -> bytes:
    raise ProxyError(1366, f"column '{column.name}' is described as NULL and has a value")


_ENCODERS: Mapping[int, Encoder] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(_FLOATS, _float),
    **dict.fromkeys(_DATES, _datetime),
    ColumnType.TIME: _time,
    ColumnType.NULL: _null,
}

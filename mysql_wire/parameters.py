"""Values of prepared-statement parameters as Python values, from the binary protocol.

Text stays text and bytes stay bytes. What Python's types cannot hold (MySQL's zero dates) is passed on as the text that
MySQL would print. What MySQL itself would refuse is an error with its number.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal

from mysql_mimic.types import ColumnType

from mysql_wire.errors import MalformedPacket, ProxyError
from mysql_wire.packet_reader import PayloadReader

ParameterValue = int | float | Decimal | str | bytes | date | datetime | timedelta | None
ParameterType = tuple[int, bool]
"""The protocol's type code, and whether it is unsigned."""

_DECIMAL = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_TIME_MAX = timedelta(hours=838, minutes=59, seconds=59, microseconds=999_999)  # MySQL's TIME ends here

_FIXED: Mapping[int, tuple[struct.Struct, struct.Struct]] = {
    ColumnType.TINY: (struct.Struct("<b"), struct.Struct("<B")),
    ColumnType.BOOL: (struct.Struct("<b"), struct.Struct("<B")),
    ColumnType.SHORT: (struct.Struct("<h"), struct.Struct("<H")),
    ColumnType.YEAR: (struct.Struct("<h"), struct.Struct("<H")),
    ColumnType.LONG: (struct.Struct("<i"), struct.Struct("<I")),
    ColumnType.INT24: (struct.Struct("<i"), struct.Struct("<I")),
    ColumnType.LONGLONG: (struct.Struct("<q"), struct.Struct("<Q")),
    ColumnType.FLOAT: (struct.Struct("<f"), struct.Struct("<f")),
    ColumnType.DOUBLE: (struct.Struct("<d"), struct.Struct("<d")),
}
TEXT_TYPES = frozenset(
    (
        ColumnType.VARCHAR,
        ColumnType.VAR_STRING,
        ColumnType.STRING,
        ColumnType.ENUM,
        ColumnType.SET,
        ColumnType.JSON,
    )
)
_BYTES = frozenset(
    (
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB,
        ColumnType.BIT,
        ColumnType.GEOMETRY,
    )
)


def is_known_type(kind: int) -> bool:
    """Whether parameters of this type can be read."""
    return kind in _READERS or kind in _FIXED or kind in TEXT_TYPES or kind in _BYTES or kind == ColumnType.NULL


def read_value(reader: PayloadReader, kind: ParameterType, encoding: str) -> ParameterValue:
    """The next value of that type, which must be a known one."""
    code, unsigned = kind
    fixed = _FIXED.get(code)
    if fixed is not None:
        packer = fixed[unsigned]
        number: int | float = packer.unpack(reader.take(packer.size))[0]
        return number
    if code == ColumnType.NULL:
        return None
    special = _READERS.get(code)
    if special is not None:
        return special(reader)
    return from_string(reader.lenenc_bytes(), kind, encoding)


def from_string(data: bytes, kind: ParameterType, encoding: str) -> str | bytes:
    """A string parameter, also one sent ahead as long data: text where its type is one and the bytes agree."""
    if kind[0] not in TEXT_TYPES:
        return data
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        # Drivers without a type for bytes send them as text.
        return data


def _decimal(reader: PayloadReader) -> Decimal:
    text = reader.lenenc_bytes()
    if not _DECIMAL.fullmatch(text):
        raise ProxyError(1366, f"Incorrect DECIMAL value: '{text[:64].decode(errors='replace')}'")
    return Decimal(text.decode("ascii"))


def _day(year: int, month: int, day: int) -> date | str:
    if month == 0 or day == 0 or year == 0:
        # Zero dates are valid in MySQL and not in Python.
        if month <= 12 and day <= 31 and year <= 9999:
            return f"{year:04d}-{month:02d}-{day:02d}"
    else:
        try:
            return date(year, month, day)
        except ValueError:
            pass
    raise ProxyError(1292, f"Incorrect datetime value: '{year:04d}-{month:02d}-{day:02d}'")


def _date(reader: PayloadReader) -> date | str:
    moment = _datetime(reader)
    return moment[:10] if isinstance(moment, str) else moment.date()


def _datetime(reader: PayloadReader) -> datetime | str:
    size = reader.u8()
    if size not in (0, 4, 7, 11):
        raise MalformedPacket("a date and time parameter of unknown length")
    fields = struct.unpack("<HBBBBBI", reader.take(size).ljust(11, b"\x00"))
    year, month, day, hour, minute, second, micros = fields
    if hour > 23 or minute > 59 or second > 59 or micros > 999_999:
        raise ProxyError(1292, f"Incorrect datetime value: time {hour:02d}:{minute:02d}:{second:02d}.{micros:06d}")
    whole = _day(year, month, day)
    if isinstance(whole, str):
        clock = f"{hour:02d}:{minute:02d}:{second:02d}"
        return f"{whole} {clock}.{micros:06d}" if micros else f"{whole} {clock}"
    return datetime(year, month, day, hour, minute, second, micros)


def _time(reader: PayloadReader) -> timedelta:
    size = reader.u8()
    if size not in (0, 8, 12):
        raise MalformedPacket("a time parameter of unknown length")
    negative, days, hours, minutes, seconds, micros = struct.unpack("<BIBBBI", reader.take(size).ljust(12, b"\x00"))
    if days <= 34 and minutes <= 59 and seconds <= 59 and micros <= 999_999:
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
        if span <= _TIME_MAX:
            return -span if negative else span
    raise ProxyError(1292, f"Incorrect time value: {days} days {hours:02d}:{minutes:02d}:{seconds:02d}.{micros:06d}")


_READERS: Mapping[int, Callable[[PayloadReader], ParameterValue]] = {
    ColumnType.DECIMAL: _decimal,
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.DATE: _date,
    ColumnType.NEWDATE: _date,
    ColumnType.DATETIME: _datetime,
    ColumnType.TIMESTAMP: _datetime,
    ColumnType.TIME: _time,
}

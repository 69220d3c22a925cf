"""Arrow columns as SQL literals, one text for each value; values that a column would not store exactly are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pymysql.converters import escape_string

from spark_connector.errors import WriteError
from spark_connector.values.fitting import Conversion, Target

NULL = "NULL"
_NS = 1000  # nanoseconds of a microsecond
_INDEX = re.compile(r"\s*[+-]?\d+\s*")  # of a member, as MySQL parses text that is no member
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_TIME = re.compile(r"-?\d{1,3}:[0-5]\d:[0-5]\d(?:\.(\d{1,6}))?")
_NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")
_TEXT_BYTES = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1}


def literals(values: pa.Array, target: Target) -> list[str]:
    """The values as SQL literals. Raises WriteError, which names the column."""
    if values.null_count:
        _check_nulls(target)
    try:
        return _WRITERS[target.conversion](values, target)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _misfit(target, f"holds a value that is no {target.conversion}: {error}") from error


def _check_nulls(target: Target) -> None:
    if target.key:
        raise _misfit(target, "is NULL in a row: a key that tells one message from another cannot be")
    if not target.column.nullable and not target.column.auto:
        raise _misfit(target, "is NULL in a row, and the queue's column may not be")


def _whole(values: pa.Array, target: Target) -> list[str]:
    _check_whole(values, target)
    return _texts(values)


def _check_whole(values: pa.Array, target: Target) -> None:
    base = target.column.base
    if base == "bit" and _any(pc.less(values, 0)):
        raise _misfit(target, "is negative in a row, which bits cannot be")
    if base == "year" and _any(pc.and_(pc.greater(values, 0), pc.less(values, 100))):
        raise _misfit(target, "is a year of two digits in a row, which MySQL would put into another century")


def _flag(values: pa.Array, target: Target) -> list[str]:
    return _texts(values.cast(pa.int8()))


def _float(values: pa.Array, target: Target) -> list[str]:
    if _any(pc.invert(pc.is_finite(values))):
        raise _misfit(target, "is NaN or infinite in a row, which MySQL has no number for")
    # With an exponent it is a double; without one MySQL parses a decimal. A FLOAT is also written with a double's
    # digits: the largest FLOAT, rounded to its own digits, is out of range for the column.
    return [NULL if v is None else v if "e" in v else v + "e0" for v in map(_repr, values.to_pylist())]


def _repr(value: float | None) -> str | None:
    return None if value is None else repr(value)


def _decimal(values: pa.Array, target: Target) -> list[str]:
    _check_whole(values, target)
    return [NULL if v is None else format(v, "f") for v in values.to_pylist()]


def _digits(values: pa.Array, target: Target) -> list[str]:
    """MySQL would round a number with more digits after the point."""
    texts, scale = values.to_pylist(), int(target.column.args.partition(",")[2] or 0)
    for text in texts:
        match = None if text is None else _NUMBER.fullmatch(text)
        if text is not None and (match is None or len((match[1] or "").rstrip("0")) > scale):
            raise _misfit(target, f"is {text!r} in a row, which is no number of {scale} digits after the point")
    return [NULL if v is None else f"'{v}'" for v in texts]


def _text(values: pa.Array, target: Target) -> list[str]:
    column = target.column
    if column.base in ("char", "varchar") and _any(pc.greater(pc.utf8_length(values), int(column.args))):
        raise _misfit(target, "is too long in a row")
    texts = values.to_pylist()
    if check := _CHECKS.get(column.base):
        check(texts, target)
    return [NULL if v is None else "'" + escape_string(v) + "'" for v in texts]


def _check_members(texts: list[str | None], target: Target) -> None:
    """MySQL would use a number as the index of a member, and store a member as it is declared: `a` for `A`."""
    members = {member.replace("''", "'") for member in _MEMBER.findall(target.column.type)}
    # The catalog has `?` for what is not in its character set, and escapes: there the server refuses what is no member.
    spelled = not any("?" in member or "\\" in member for member in members)
    for text in (text for text in texts if text is not None):
        parts = [text] if target.column.base == "enum" else text.split(",") if text else []
        if not members.issuperset(parts) and (spelled or _INDEX.fullmatch(text)):
            raise _misfit(target, f"is {text!r} in a row, which is none of its members")
        if len(set(parts)) < len(parts):
            raise _misfit(target, f"is {text!r} in a row, which has a member twice")


def _check_time(texts: list[str | None], target: Target) -> None:
    digits = int(target.column.args or 0)
    for text in texts:
        match = None if text is None else _TIME.fullmatch(text)
        if text is not None and (match is None or len((match[1] or "").rstrip("0")) > digits):
            raise _misfit(target, f"is {text!r} in a row, which is no time of {digits} fractional digits")


def _check_padding(texts: list[str | None], target: Target) -> None:
    """A CHAR does not keep them."""
    if any(text is not None and text.endswith(" ") for text in texts):
        raise _misfit(target, "ends with a space in a row, which such a column does not keep: make it a VARCHAR")


def _check_end(texts: list[str | None], target: Target) -> None:
    """MySQL silently truncates trailing spaces."""
    most = _TEXT_BYTES[target.column.base]
    if any(text is not None and text.endswith(" ") and len(text.encode()) > most for text in texts):
        raise _misfit(target, "is too long in a row")


_CHECKS: Mapping[str, Callable[[list[str | None], Target], None]] = {
    "char": _check_padding,
    "enum": _check_members,
    "set": _check_members,
    "time": _check_time,
    **dict.fromkeys(_TEXT_BYTES, _check_end),
}


def _bytes(values: pa.Array, target: Target) -> list[str]:
    column = target.column
    lengths = pc.binary_length(values)
    if column.base == "varbinary" and _any(pc.greater(lengths, int(column.args))):
        raise _misfit(target, "is too long in a row")
    if column.base == "binary" and _any(pc.not_equal(lengths, int(column.args or 1))):
        raise _misfit(target, f"does not have exactly {column.args or 1} bytes in a row")
    return [NULL if v is None else "X'" + v.hex() + "'" for v in values.to_pylist()]


def _date(values: pa.Array, target: Target) -> list[str]:
    return [NULL if v is None else "'" + v + "'" for v in values.cast(pa.string()).to_pylist()]


def _time(values: pa.Array, target: Target) -> list[str]:
    """For moments and local times; a moment is written in UTC, the session's time zone."""
    micros = values.cast(pa.int64())
    coarse = 10 ** (6 - int(target.column.args or 0))
    if coarse > 1 and _any(pc.not_equal(pc.multiply(pc.divide(micros, coarse), coarse), micros)):
        raise _misfit(target, "has a finer time in a row than the queue's column keeps: use date_trunc")
    return [NULL if v is None else "'" + v + "'" for v in micros.cast(pa.timestamp("us")).cast(pa.string()).to_pylist()]


def _nanoseconds(values: pa.Array, target: Target) -> list[str]:
    return _texts(pc.multiply_checked(values.cast(pa.int64()), _NS))


_WRITERS: Mapping[Conversion, Callable[[pa.Array, Target], list[str]]] = {
    Conversion.WHOLE: _whole,
    Conversion.FLAG: _flag,
    Conversion.FLOAT: _float,
    Conversion.DECIMAL: _decimal,
    Conversion.DIGITS: _digits,
    Conversion.TEXT: _text,
    Conversion.BYTES: _bytes,
    Conversion.DATE: _date,
    Conversion.MOMENT: _time,
    Conversion.LOCAL: _time,
    Conversion.NANOSECONDS: _nanoseconds,
}


def _texts(values: pa.Array) -> list[str]:
    """Numbers as text, by Arrow."""
    texts: list[str] = pc.fill_null(values.cast(pa.string()), NULL).to_pylist()
    return texts


def _any(condition: Any) -> bool:
    return bool(pc.any(condition).as_py())


def _misfit(target: Target, what: str) -> WriteError:
    return WriteError(f"column {target.column.name} ({target.column.type}) {what}")

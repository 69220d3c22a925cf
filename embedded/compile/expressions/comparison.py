"""Comparisons between values of any two types, as MySQL makes them: which side is converted, and by which collation."""

from __future__ import annotations

from dataclasses import dataclass

from embedded.compile.compilation import Compilation
from embedded.compile.errors import unsupported
from embedded.compile.expressions.typed import (
    DateTimeOf,
    Typed,
    YearOf,
    dated,
    enum_index,
    microseconds_of,
    pad_moment,
    rebind,
    shown,
    to_bytes,
    to_exact,
    to_number,
    to_text,
)
from embedded.compile.values.types import BOOLEAN, CALENDAR, NUMERIC, TEXTUAL, Kind, compared_by_bytes, datetime_type


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides that SQLite may compare directly. `collation` is to be written after the left side."""

    left: str
    right: str
    collation: str = ""


def comparable(compilation: Compilation, left: Typed, right: Typed) -> Pair:
    """Both sides brought to one form, with the collation that MySQL would use."""
    if compilation.inline:
        left, right = _scalar(left, right), _scalar(right, left)
    kinds = {left.type.kind, right.type.kind}
    if kinds & {Kind.NULL, Kind.UNKNOWN}:
        return _with_unknown(left, right)
    if Kind.JSON in kinds and not compilation.inline:
        return Pair(_json_key(compilation, left), _json_key(compilation, right))
    if Kind.EXACT in kinds and kinds <= NUMERIC | {Kind.EXACT} and Kind.DOUBLE not in kinds:
        return Pair(to_exact(compilation, left), to_exact(compilation, right))
    if Kind.YEAR in kinds:
        left, right = _as_year(compilation, left, right), _as_year(compilation, right, left)
    if kinds <= NUMERIC:
        return Pair(to_number(compilation, left).sql, to_number(compilation, right).sql)
    if kinds <= TEXTUAL | {Kind.JSON}:
        return Pair(left.sql, right.sql, collation_of(left, right))
    if Kind.TIME in kinds:
        return _times(compilation, left, right)
    if kinds & CALENDAR:
        return _moments(compilation, left, right)
    if Kind.BINARY in kinds and not kinds & NUMERIC:
        return Pair(to_bytes(compilation, left), to_bytes(compilation, right))
    return Pair(to_number(compilation, left).sql, to_number(compilation, right).sql)


def _as_year(compilation: Compilation, value: Typed, other: Typed) -> Typed:
    """A literal of two digits is a year beside a column of YEAR, as where it is stored."""
    year = other.type.kind is Kind.YEAR and other.origin is not None
    if not year or value.slot is None or value.type.kind not in (Kind.INT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING):
        return value
    return Typed(rebind(compilation, value, YearOf(compilation.strict)), other.type)


def collation_of(*values: Typed) -> str:
    """COLLATE to write on the left side: nothing where SQLite's own rule already finds the right one."""
    binary = compared_by_bytes(*(value.type for value in values))
    first = next((value for value in values if value.collated), None)
    if first is not None and first.type.case_sensitive == binary:
        return ""
    return " COLLATE BINARY" if binary else " COLLATE NOCASE"


def sort_collation(value: Typed) -> str:
    """COLLATE for ORDER BY, GROUP BY and DISTINCT of an expression."""
    if value.type.kind is not Kind.STRING or value.collated:
        return ""
    return " COLLATE BINARY" if value.type.case_sensitive else " COLLATE NOCASE"


def sort_key(compilation: Compilation, value: Typed) -> str:
    """What a value sorts by: an ENUM by its members' order, JSON by its type and value."""
    return enum_index(value) if value.type.kind is Kind.ENUM else group_key(compilation, value)


def group_key(compilation: Compilation, value: Typed) -> str:
    """What is the same for equal values: equal JSON values may have different texts."""
    if value.type.kind is Kind.JSON and not compilation.inline:
        return compilation.function(f"qg_json_key({value.sql})")
    return shown(compilation, value)


def _scalar(value: Typed, other: Typed) -> Typed:
    """In a table's own definition JSON compared with something else counts as the scalar it holds."""
    if value.type.kind is not Kind.JSON or other.type.kind is Kind.JSON or value.unquoted is None:
        return value
    return Typed(value.unquoted, other.type)


def _json_key(compilation: Compilation, value: Typed) -> str:
    """A side of a comparison with JSON: an SQL value is the JSON value that it would be."""
    kind = value.type.kind
    if kind is Kind.JSON:
        return compilation.function(f"qg_json_key({value.sql})")
    if value.type == BOOLEAN:
        return compilation.function(f"qg_json_truth_key({value.sql})")
    if kind is Kind.EXACT or kind in NUMERIC:
        sql = value.sql if kind is Kind.EXACT else to_number(compilation, value).sql
        return compilation.function(f"qg_json_number_key({sql})")
    if kind in TEXTUAL:
        return compilation.function(f"qg_json_text_key({value.sql})")
    raise unsupported(f"comparing JSON with {value.type.name}", "add a CAST, or use JSON_VALUE()")


def _with_unknown(left: Typed, right: Typed) -> Pair:
    textual = [value for value in (left, right) if value.type.kind in TEXTUAL]
    return Pair(left.sql, right.sql, collation_of(*textual) if textual else "")


def _moments(compilation: Compilation, left: Typed, right: Typed) -> Pair:
    if left.slot is not None and right.slot is None:
        swapped = _moments(compilation, right, left)
        return Pair(swapped.right, swapped.left)
    if left.type.kind not in CALENDAR:
        if right.slot is None:
            swapped = _moments(compilation, right, left)
            return Pair(swapped.right, swapped.left)
        left = _parsed(compilation, left)
    if right.slot is not None:
        convert = DateTimeOf(left.type.scale, compilation.modes.utc, left.type.kind is Kind.DATE)
        return Pair(left.sql, rebind(compilation, right, convert))
    right = right if right.type.kind in CALENDAR else _parsed(compilation, right)
    if left.type.kind is right.type.kind and left.type.scale == right.type.scale:
        return Pair(left.sql, right.sql)
    decimals = max(left.type.scale, right.type.scale)
    return Pair(pad_moment(left, decimals), pad_moment(right, decimals))


def _parsed(compilation: Compilation, value: Typed) -> Typed:
    if value.type.kind in NUMERIC or value.type.kind in TEXTUAL:
        if value.slot is not None:
            return Typed(rebind(compilation, value, DateTimeOf(6, compilation.modes.utc)), datetime_type(6))
        return Typed(compilation.function(f"qg_moment({to_text(compilation, value)})"), datetime_type(6))
    raise unsupported(f"comparing {value.type.name} with a date", "add a CAST")


def _times(compilation: Compilation, left: Typed, right: Typed) -> Pair:
    if {left.type.kind, right.type.kind} & CALENDAR:
        return _moments(compilation, dated(compilation, left), dated(compilation, right))
    return Pair(_microseconds(compilation, left), _microseconds(compilation, right))


def _microseconds(compilation: Compilation, value: Typed) -> str:
    if value.slot is not None:
        return rebind(compilation, value, microseconds_of)
    if value.type.kind is Kind.TIME:
        return value.sql
    if value.type.kind in TEXTUAL:
        return compilation.function(f"qg_span({value.sql})")
    raise unsupported(f"comparing {value.type.name} with TIME", "add a CAST")

"""Expressions with their MySQL types, and the conversions between families that MySQL makes on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from embedded.compile.compilation import Compilation
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.schema import Column
from embedded.compile.values.numbers import check_number, numeric_prefix, round_half_away
from embedded.compile.values.store import plain_text
from embedded.compile.values.temporal import date_text, datetime_text, moment_number, parse_datetime, parse_time
from embedded.compile.values.types import (
    BITS,
    BLOB,
    CALENDAR,
    DATE,
    DOUBLE,
    MAX_DECIMAL_DIGITS,
    NULL_TYPE,
    NUMERIC,
    TEMPORAL,
    TEXTUAL,
    UNKNOWN_TYPE,
    UNSIGNED_BIGINT,
    Kind,
    SqlType,
    datetime_type,
    decimal,
    time_type,
    varchar,
)
from embedded.compile.values.wide_decimal import encode


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a column of a result comes from."""

    alias: str
    table: str
    column: Column
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression in SQLite's SQL with its MySQL type.

    `slot`: it is nothing but this slot's value, so a conversion can be made when the value is bound. `unquoted`: for
    JSON, the expression that yields the scalar instead of its JSON text. `collated`: SQLite itself determines the
    collation (a column), so comparisons need not name it. `windowed`: for an aggregate that is more than one call, its
    text as a window function, with OVER_MARK where the OVER clause goes. `checked`: in its type's storage form already.
    `carried`: decimals that a quotient really has, where they are more than it is shown with. `weight`: characters of
    the expression that a column of a derived table refers to; 0: it is no such column. `current`: the current time.
    """

    sql: str
    type: SqlType
    nullable: bool = True
    slot: int | None = None
    negative: bool = False
    origin: Origin | None = None
    unquoted: str | None = None
    collated: bool = False
    aggregate: bool = False
    windowed: str | None = None
    checked: bool = False
    carried: int | None = None
    weight: int = 0
    current: bool = False


OVER_MARK = "\x03"
NULL = Typed("NULL", NULL_TYPE)

_SLOT_TYPES = {
    "i": SqlType(Kind.INT, "bigint"),
    "u": BITS,
    "e": DOUBLE,
    "s": varchar(255),
    "x": BLOB,
    "b": BLOB,
    "n": NULL_TYPE,
    "D": DATE,
    "T": datetime_type(6),
    "t": time_type(6),
    "q": UNKNOWN_TYPE,
}


def plain_value(value: Any) -> Any:
    """A slot's value as SQLite holds values of its type."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() and abs(value) < 1 << 63 else float(value)
        case datetime():
            return datetime_text(value, 6)
        case date():
            return date_text(value)
        case timedelta():
            return round(value / timedelta(microseconds=1))
        case int() if not -(1 << 63) <= value < 1 << 63:
            return float(value)
        case str():
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def slot_value(compilation: Compilation, slot: int, negative: bool = False) -> Typed:
    """A literal or parameter."""
    kind = compilation.kinds[slot]
    if kind == "n":
        return NULL
    sql_type = _slot_type(kind, negative)
    convert = exact_of if kind[0] == "w" else bits_of if sql_type.kind is Kind.BITS else plain_value
    sql = compilation.slot(slot, convert, negative)
    return Typed(sql, sql_type, nullable=kind == "q", slot=slot, negative=negative)


def _slot_type(kind: str, negative: bool) -> SqlType:
    if kind[0] == "d":
        return decimal(MAX_DECIMAL_DIGITS, int(kind[1:]))
    if kind[0] == "w":
        size, scale = divmod(int(kind[1:]), 100)
        return SqlType(Kind.EXACT, "decimal", size, scale)
    if kind == "u" and negative:
        return _SLOT_TYPES["i"]
    return _SLOT_TYPES[kind]


def bits_of(value: Any) -> Any:
    """A number beyond SQLite's signed integers as the same 64 bits."""
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


def rebind(compilation: Compilation, value: Typed, convert: Any) -> str:
    """The value of a slot expression, converted when it is bound."""
    assert value.slot is not None
    return compilation.slot(value.slot, convert, value.negative)


def text_of(value: Any) -> Any:
    """Convert a slot's value to text."""
    match value:
        case None | bytes():
            return value
        case str():
            return plain_value(value)
        case _:
            return plain_text(value)


def number_of(value: Any) -> Any:
    """Convert a slot's value to the number it is in numeric context."""
    match value:
        case str():
            return numeric_prefix(value)
        case bytes():
            return numeric_prefix(value.decode("utf-8", "replace"))
        case date() | timedelta():
            return moment_number(value)
    return plain_value(value)


def strict_number_of(value: Any) -> Any:
    """The same in a strict change, where a text has to be a number."""
    if isinstance(value, str | bytes):
        check_number(value.decode("utf-8", "replace") if isinstance(value, bytes) else value, "DOUBLE")
    return number_of(value)


@dataclass(frozen=True, slots=True)
class YearOf:
    """Convert a slot's value to the year that it is where it is compared with a column of YEAR."""

    strict: bool

    def __call__(self, value: Any) -> Any:
        year = strict_number_of(value) if self.strict else number_of(value)
        return year + (1900 if year >= 70 else 2000) if year is not None and 0 < year < 100 else year


def hex_number_of(value: Any) -> Any:
    """Convert the bytes of a 0x... to the number that they are."""
    number = int.from_bytes(value[-8:], "big") if isinstance(value, bytes) else value
    if isinstance(number, int) and number >= 1 << 63:
        raise SqlError(1690, "BIGINT UNSIGNED value is out of range: the embedded backend counts up to 2^63-1")
    return number


def exact_of(value: Any) -> Any:
    """A slot's value in the sortable form of a wide DECIMAL."""
    if value is None:
        return None
    return encode(Decimal(value) if isinstance(value, (int, Decimal)) else Decimal(str(number_of(value))))


def strict_integer_of(value: Any) -> Any:
    return integer_of(value if isinstance(value, Decimal) else strict_number_of(value))


def integer_of(value: Any) -> Any:
    number = value if isinstance(value, Decimal) else number_of(value)
    if isinstance(number, float):
        return round(number)
    return round_half_away(number) if isinstance(number, Decimal) else number


def bytes_of(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class DateTimeOf:
    """Convert a slot's value to a date and time as text that compares rightly with a column of `decimals` decimals.

    A part that is zero is left out where the column has no place for it, so the shorter text is equal, not less.
    `utc`: the session is in UTC, to which a text with an offset is converted.
    """

    decimals: int
    utc: bool
    date_only: bool = False

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        moment = parse_datetime(value, UTC if self.utc else None)
        if moment is None:
            kind = "DATE" if self.date_only else "DATETIME"
            raise SqlError(1525, f"Incorrect {kind} value: '{text_of(value)}'")
        if self.date_only and moment == moment.replace(hour=0, minute=0, second=0, microsecond=0):
            return date_text(moment)
        fits = moment.microsecond % 10 ** (6 - self.decimals) == 0
        return datetime_text(moment, self.decimals if fits else 6)


def microseconds_of(value: Any) -> Any:
    if value is None:
        return None
    microseconds = parse_time(value)
    if microseconds is None:
        raise SqlError(1525, f"Incorrect TIME value: '{text_of(value)}'")
    return microseconds


def to_text(compilation: Compilation, value: Typed) -> str:
    """The expression as text (blobs stay blobs, as in MySQL, and BIT is one)."""
    if value.slot is not None:
        return rebind(compilation, value, text_of)
    match value.type.kind:
        case Kind.STRING | Kind.ENUM | Kind.JSON | Kind.BINARY | Kind.NULL | Kind.DATE | Kind.DATETIME | Kind.TIMESTAMP:
            return value.sql
        case Kind.INT | Kind.YEAR:
            return f"CAST({value.sql} AS TEXT)"
        case Kind.BIT:
            return compilation.function(f"qg_bit_bytes({value.sql}, {((value.type.size or 1) + 7) // 8})")
        case Kind.BITS:
            return compilation.function(f"qg_bits_text({value.sql})")
        case Kind.DECIMAL if value.type.scale == 0:
            return f"CAST(CAST({value.sql} AS INTEGER) AS TEXT)"
        case Kind.DECIMAL:
            return compilation.function(f"qg_decimal_text({value.sql}, {value.type.scale})")
        case Kind.EXACT:
            return compilation.function(f"qg_exact_text({value.sql}, {value.type.scale})")
        case Kind.DOUBLE:
            single = int(value.type.name == "float")
            return compilation.function(f"qg_double_text({value.sql}, {single}, {value.type.scale})")
        case Kind.TIME:
            return compilation.function(f"qg_time_text({value.sql}, {value.type.scale})")
        case _:
            return value.sql


def to_number(compilation: Compilation, value: Typed) -> Typed:
    """The expression as a number: text counts for the number it begins with."""
    kind = value.type.kind
    if kind is Kind.BITS and value.slot is not None:
        return Typed(rebind(compilation, value, plain_value), DOUBLE)
    if kind is Kind.BITS:
        return Typed(compilation.function(f"qg_unsigned({value.sql})"), UNSIGNED_BIGINT, value.nullable)
    if kind in NUMERIC or kind in (Kind.NULL, Kind.UNKNOWN):
        return value
    if value.slot is not None and compilation.kinds[value.slot] == "x":
        return Typed(rebind(compilation, value, hex_number_of), UNSIGNED_BIGINT)
    if value.slot is not None and kind is not Kind.EXACT:
        sql_type = DOUBLE if kind not in TEMPORAL else _moment_number(value.type)
        return Typed(rebind(compilation, value, strict_number_of if compilation.strict else number_of), sql_type)
    if kind is Kind.TIME:
        scale = value.type.scale
        result = decimal(7 + scale, scale) if scale else _moment_number(value.type)
        return Typed(compilation.function(f"qg_time_number({value.sql}, {scale})"), result)
    if kind in TEMPORAL:
        return Typed(compilation.function(f"qg_datetime_number({value.sql})"), _moment_number(value.type))
    if kind is Kind.EXACT:
        return Typed(compilation.function(f"qg_exact_floating({value.sql})"), DOUBLE, value.nullable)
    if kind is Kind.ENUM:
        return Typed(enum_index(value), SqlType(Kind.INT, "int"), value.nullable)
    if kind is Kind.JSON and value.unquoted is not None:
        if compilation.strict:
            return Typed(compilation.function(f"qg_json_number({value.unquoted})"), DOUBLE)
        return Typed(f"CAST({value.unquoted} AS REAL)", DOUBLE)
    inner = f"CAST({value.sql} AS TEXT)" if kind is Kind.BINARY else value.sql
    if compilation.strict and kind in (Kind.STRING, Kind.BINARY):
        return Typed(compilation.function(f"qg_number({inner})"), DOUBLE, value.nullable)
    return Typed(f"CAST({inner} AS REAL)", DOUBLE, value.nullable)


def _moment_number(sql_type: SqlType) -> SqlType:
    return SqlType(Kind.INT, "bigint") if sql_type.scale == 0 else decimal(20, 0)


def truth(compilation: Compilation, value: Typed) -> str:
    """A value as a condition: text counts for the number it begins with, which SQLite does alike."""
    kind = value.type.kind
    if kind is Kind.JSON and value.unquoted is not None:
        if not compilation.inline:
            return f"({value.unquoted} <> 0)"
        return f"CASE {value.unquoted} WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE {value.unquoted} <> 0 END"
    if kind is Kind.ENUM or (compilation.strict and kind in (Kind.STRING, Kind.BINARY)):
        return to_number(compilation, value).sql
    return f"({value.sql} <> '{encode(Decimal())}')" if kind is Kind.EXACT else value.sql


def to_integer(compilation: Compilation, value: Typed) -> str:
    """The expression as a whole number, rounded."""
    if value.slot is not None:
        convert = strict_integer_of if compilation.strict else integer_of
        return rebind(compilation, value, hex_number_of if compilation.kinds[value.slot] == "x" else convert)
    if value.type.kind in (Kind.INT, Kind.YEAR, Kind.BIT, Kind.NULL):
        return value.sql
    if value.type.kind is Kind.BITS:
        return to_number(compilation, value).sql
    if value.type.kind is Kind.TIME:
        return compilation.function(f"qg_time_number({value.sql}, 0)")
    if value.type.kind is Kind.EXACT:
        return compilation.function(f"qg_exact_whole({value.sql}, 'round')")
    return f"CAST(ROUND({to_number(compilation, value).sql}) AS INTEGER)"


def shown(compilation: Compilation, value: Typed) -> str:
    """The value as a result has it, rounded to its decimals: what comparisons, DISTINCT and set operations see."""
    if value.type.kind is not Kind.EXACT or value.carried is None or value.carried <= value.type.scale:
        return value.sql
    return compilation.function(f"qg_exact_round({value.sql}, 'round', {value.type.scale})")


def to_exact(compilation: Compilation, value: Typed) -> str:
    """A number in the sortable form of a wide DECIMAL."""
    if value.type.kind is Kind.EXACT:
        return shown(compilation, value)
    if value.slot is not None:
        return rebind(compilation, value, exact_of)
    return compilation.function(f"qg_exact({to_number(compilation, value).sql})")


def to_bytes(compilation: Compilation, value: Typed) -> str:
    if value.type.kind is Kind.BINARY:
        return value.sql
    if value.slot is not None and value.type.kind in TEXTUAL:
        return rebind(compilation, value, bytes_of)
    return f"CAST({to_text(compilation, value)} AS BLOB)"


def dated(compilation: Compilation, value: Typed) -> Typed:
    """A TIME as the date and time that it is of today, where a date is wanted; anything else as it is."""
    if value.type.kind is not Kind.TIME:
        return value
    scale = value.type.scale
    sql = compilation.function(f"qg_dated({compilation.dynamic('today')}, {value.sql}, {scale})")
    return Typed(sql, datetime_type(scale), value.nullable)


def pad_moment(value: Typed, decimals: int) -> str:
    """A date or date and time as text with `decimals` decimals (at least as many as it has)."""
    if value.type.kind is Kind.DATE:
        return f"({value.sql} || ' 00:00:00{'.' + '0' * decimals if decimals else ''}')"
    missing = decimals - value.type.scale
    if missing <= 0:
        return value.sql
    point = "." if value.type.scale == 0 else ""
    return f"({value.sql} || '{point}{'0' * missing}')"


def chosen(compilation: Compilation, values: Sequence[Typed], target: SqlType) -> tuple[list[Typed], int | None]:
    """The branches of an expression that is one of them, and the decimals that it carries.

    A quotient keeps all its digits, so that `IFNULL(a / b, 0) * 100` has them.
    """
    carried = max((value.carried or value.type.scale for value in values), default=0)
    parts = [coerce(compilation, value, target, cut=False) for value in values]
    return parts, carried if target.kind is Kind.EXACT and carried > target.scale else None


def coerce(compilation: Compilation, value: Typed, target: SqlType, cut: bool = True) -> Typed:
    """The expression in the storage form of `target`, the type unified from several branches.

    `cut`: to the decimals that are shown.
    """
    kind, target_kind = value.type.kind, target.kind
    if kind is Kind.NULL or (value.type == target and kind is not Kind.EXACT):
        return value
    if target_kind in NUMERIC:
        return replace(to_number(compilation, value), type=target)
    if target_kind in CALENDAR and kind in TEMPORAL:
        value = dated(compilation, value)
        sql = value.sql if target_kind is kind is Kind.DATE else pad_moment(value, target.scale)
        return Typed(sql, target, value.nullable)
    if target_kind is Kind.BINARY:
        return Typed(to_bytes(compilation, value), target, value.nullable)
    if target_kind in TEXTUAL:
        sql = f"CAST({value.sql} AS TEXT)" if kind is Kind.BINARY else to_text(compilation, value)
        return replace(value, sql=sql, type=target, slot=None, unquoted=None)
    if cut and target_kind is kind is Kind.EXACT and value.carried is not None and value.carried > target.scale:
        rounded = compilation.function(f"qg_exact_round({value.sql}, 'round', {target.scale})")
        return Typed(rounded, target, value.nullable)
    if target_kind is kind is Kind.EXACT:
        return replace(value, type=target)
    if target_kind is Kind.EXACT and kind in NUMERIC:
        return Typed(to_exact(compilation, value), target, value.nullable)
    if target_kind in (Kind.TIME, Kind.JSON) and kind is target_kind:
        return replace(value, type=target)
    if kind is Kind.UNKNOWN:
        return replace(value, type=target)
    raise unsupported(f"mixing {value.type.name} and {target.name} in one column", "add a CAST")


def enum_index(value: Typed) -> str:
    """An ENUM as the number of its member, which is what it sorts by."""
    members = "".join(
        f" WHEN '{member.replace(chr(39), chr(39) * 2)}' THEN {position}"
        for position, member in enumerate(value.type.values, start=1)
    )
    return f"(CASE {value.sql}{members} END)"

"""MySQL types: as declared, as the protocol describes them, and which family decides how values behave.

How a value of each family is stored in SQLite: whole numbers, YEAR and BIT as INTEGER; DECIMAL as a number of at most
15 digits; DATE, DATETIME and TIMESTAMP (in UTC) as ISO text with a fixed number of decimals; TIME as microseconds;
text as TEXT; BLOB and BINARY as blobs; JSON as its text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from engine.model.queue import ColumnMeta

DEFAULT_COLLATION = "utf8mb4_general_ci"
COLLATION_IDS = {
    "utf8mb4_general_ci": 45,
    "utf8mb4_bin": 46,
    "utf8mb4_unicode_ci": 224,
    "utf8mb4_0900_ai_ci": 255,
    "utf8mb4_0900_as_cs": 278,
    "utf8mb4_0900_bin": 309,
    "utf8mb3_general_ci": 33,
    "utf8mb3_bin": 83,
    "latin1_swedish_ci": 8,
    "latin1_bin": 47,
    "ascii_general_ci": 11,
    "ascii_bin": 65,
    "binary": 63,
}
BINARY_CHARSET = 63  # of numbers, times and bytes
MAX_DECIMAL_DIGITS = 15  # what SQLite's 8-byte numbers store exactly

NOT_NULL_FLAG, PRIMARY_FLAG, UNIQUE_FLAG, MULTIPLE_FLAG, BLOB_FLAG = 1, 2, 4, 8, 16
UNSIGNED_FLAG, ZEROFILL_FLAG, BINARY_FLAG, ENUM_FLAG, AUTO_INCREMENT_FLAG = 32, 64, 128, 256, 512
TIMESTAMP_FLAG, NO_DEFAULT_FLAG, ON_UPDATE_FLAG = 1024, 4096, 8192


class Kind(Enum):
    """The family of a type."""

    NULL = "null"
    INT = "int"
    DECIMAL = "decimal"
    EXACT = "exact"  # DECIMAL of more digits than an 8-byte number can store: sortable text, see `exact`
    DOUBLE = "double"
    STRING = "string"
    ENUM = "enum"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    YEAR = "year"
    JSON = "json"
    BIT = "bit"
    BITS = "bits"  # result of a bit operation: 64 bits without sign, stored as SQLite's signed integer
    UNKNOWN = "unknown"  # a parameter whose value is not known yet


NUMERIC = frozenset((Kind.INT, Kind.DECIMAL, Kind.DOUBLE, Kind.YEAR, Kind.BIT, Kind.BITS))
TEXTUAL = frozenset((Kind.STRING, Kind.ENUM))
TEMPORAL = frozenset((Kind.DATE, Kind.TIME, Kind.DATETIME, Kind.TIMESTAMP))
CALENDAR = frozenset((Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP))

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_INTEGERS = {  # name: protocol type, display length signed, unsigned
    "tinyint": (1, 4, 3),
    "smallint": (2, 6, 5),
    "mediumint": (9, 9, 8),
    "int": (3, 11, 10),
    "bigint": (8, 20, 20),
}
_LENGTH_MAX = 0xFFFF_FFFF  # of a column: the protocol has four bytes for it
_TEXT_BYTES = {"tiny": 255, "": 65535, "medium": 16777215, "long": _LENGTH_MAX}


_COERCIBLE = "coercible "
COERCIBLE_BIN = _COERCIBLE + "utf8mb4_bin"
"""The collation of text that functions take out of JSON: by bytes when compared with a literal; a column's own has
precedence."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """One type. `name` is MySQL's lower-case base name; `size` the number in parentheses, where there was one."""

    kind: Kind
    name: str
    size: int | None = None
    scale: int = 0
    unsigned: bool = False
    zerofill: bool = False
    collation: str | None = None
    values: tuple[str, ...] = ()

    @property
    def declared(self) -> str:
        """As SHOW COLUMNS prints it."""
        return self.name + self._arguments() + (" unsigned" if self.unsigned else "") + " zerofill" * self.zerofill

    @property
    def affinity(self) -> str:
        """SQLite's column type: the declared name first, then a suffix so that SQLite does not convert stored
        values."""
        upper = self.name.upper()
        match self.kind:
            case Kind.INT | Kind.YEAR | Kind.BIT | Kind.BITS | Kind.TIME:
                return upper + " INTEGER" * (self.kind is not Kind.INT) + self._plain_size()
            case Kind.DECIMAL:
                return f"DECIMAL({self.size},{self.scale})"
            case Kind.EXACT:
                return "DECIMAL TEXT"
            case Kind.DOUBLE:
                return "DOUBLE"
            case Kind.BINARY:
                return upper + " BLOB" * ("BLOB" not in upper) + self._plain_size()
            case Kind.STRING:
                return upper + self._plain_size()
            case _:
                return upper + " TEXT" + self._plain_size()

    @property
    def case_sensitive(self) -> bool:
        """Whether text of this type is compared byte by byte."""
        return is_binary_collation(self.collation or DEFAULT_COLLATION)

    @property
    def character_length(self) -> int | None:
        """Most characters (bytes for binary) a value may have."""
        if self.kind is Kind.ENUM:
            return max((len(value) for value in self.values), default=0)
        if self.kind not in (Kind.STRING, Kind.BINARY):
            return None
        for suffix in ("text", "blob"):
            if self.name.endswith(suffix):
                return _TEXT_BYTES[self.name.removesuffix(suffix)]
        return 1 if self.size is None else self.size

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest value that can be stored. BIGINT UNSIGNED ends where SQLite's integers end."""
        bits = INTEGER_BITS.get(self.name, 64)
        if self.unsigned:
            return 0, min((1 << bits) - 1, (1 << 63) - 1)
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def _arguments(self) -> str:
        if self.kind is Kind.ENUM:
            return "(" + ",".join("'" + value.replace("'", "''") + "'" for value in self.values) + ")"
        if self.kind in (Kind.DECIMAL, Kind.EXACT):
            return f"({self.size},{self.scale})"
        if self.kind in TEMPORAL and self.kind is not Kind.DATE:
            return f"({self.scale})" if self.scale else ""
        if self.kind is Kind.DOUBLE and self.size is not None:
            return f"({self.size},{self.scale})"
        return "" if self.size is None else f"({self.size})"

    def _plain_size(self) -> str:
        size = self.scale if self.kind in TEMPORAL else self.size
        return f"({size})" if size else ""


def is_binary_collation(name: str) -> bool:
    return name.endswith(("_bin", "_cs")) or name == "binary"


def joint_collation(*types: SqlType) -> str | None:
    """The collation of a text made of these: byte by byte if one of them is. A coercible one yields to the others."""
    named = [one.collation for one in types if one.collation is not None]
    names = [name for name in named if name != COERCIBLE_BIN] or named
    return next(filter(is_binary_collation, names), names[0] if names else None)


def compared_by_bytes(*types: SqlType) -> bool:
    """Whether texts of these types are compared byte by byte with each other."""
    collation = joint_collation(*types)
    return collation is not None and is_binary_collation(collation)


def collation_name(collation: str | None) -> str:
    """As clients see it."""
    return (collation or DEFAULT_COLLATION).removeprefix(_COERCIBLE)


NULL_TYPE = SqlType(Kind.NULL, "null")
UNKNOWN_TYPE = SqlType(Kind.UNKNOWN, "unknown")
BIGINT = SqlType(Kind.INT, "bigint")
BOOLEAN = SqlType(Kind.INT, "int", size=1)
UNSIGNED_BIGINT = SqlType(Kind.INT, "bigint", unsigned=True)
BITS = SqlType(Kind.BITS, "bigint", unsigned=True)
DOUBLE = SqlType(Kind.DOUBLE, "double")
DATE = SqlType(Kind.DATE, "date")
JSON = SqlType(Kind.JSON, "json")
YEAR = SqlType(Kind.YEAR, "year")
TEXT = SqlType(Kind.STRING, "longtext")
BLOB = SqlType(Kind.BINARY, "longblob")


def varchar(size: int, collation: str | None = None) -> SqlType:
    return SqlType(Kind.STRING, "varchar", size, collation=collation)


def varbinary(size: int) -> SqlType:
    return SqlType(Kind.BINARY, "varbinary", size)


def decimal(size: int, scale: int) -> SqlType:
    return SqlType(Kind.DECIMAL, "decimal", max(1, min(size, 65)), min(scale, 30))


def exact_type(size: int, scale: int) -> SqlType:
    """DECIMAL in its sortable form, whatever its size."""
    return replace(decimal(size, scale), kind=Kind.EXACT)


def datetime_type(scale: int = 0) -> SqlType:
    return SqlType(Kind.DATETIME, "datetime", scale=scale)


def time_type(scale: int = 0) -> SqlType:
    return SqlType(Kind.TIME, "time", scale=scale)


def collation_id(name: str | None) -> int:
    return COLLATION_IDS.get(collation_name(name), COLLATION_IDS[DEFAULT_COLLATION])


def meta(sql_type: SqlType, name: str, flags: int = 0) -> ColumnMeta:
    """The protocol's description of a result column of this type."""
    code, length, decimals, extra, charset = _protocol(sql_type)
    if sql_type.unsigned:
        extra |= UNSIGNED_FLAG
    if sql_type.zerofill:
        extra |= ZEROFILL_FLAG
    return ColumnMeta(name, code, charset, length, flags | extra, decimals)


def _protocol(sql_type: SqlType) -> tuple[int, int, int, int, int]:
    """Type code, display length, decimals, flags, collation id."""
    scale = sql_type.scale
    point = scale + 1 if scale else 0
    match sql_type.kind:
        case Kind.INT | Kind.BITS:
            code, signed, unsigned = _INTEGERS[sql_type.name]
            return code, sql_type.size or (unsigned if sql_type.unsigned else signed), 0, 0, BINARY_CHARSET
        case Kind.DECIMAL | Kind.EXACT:
            return 246, (sql_type.size or 10) + (scale > 0) + (not sql_type.unsigned), scale, 0, BINARY_CHARSET
        case Kind.DOUBLE:
            single = sql_type.name == "float"
            return (4 if single else 5), (12 if single else 22), scale or 31, 0, BINARY_CHARSET
        case Kind.DATE:
            return 10, 10, 0, BINARY_FLAG, BINARY_CHARSET
        case Kind.TIME:
            return 11, 10 + point, scale, BINARY_FLAG, BINARY_CHARSET
        case Kind.DATETIME:
            return 12, 19 + point, scale, BINARY_FLAG, BINARY_CHARSET
        case Kind.TIMESTAMP:
            return 7, 19 + point, scale, BINARY_FLAG | TIMESTAMP_FLAG, BINARY_CHARSET
        case Kind.YEAR:
            return 13, 4, 0, UNSIGNED_FLAG | ZEROFILL_FLAG, BINARY_CHARSET
        case Kind.BIT:
            return 16, sql_type.size or 1, 0, UNSIGNED_FLAG, BINARY_CHARSET
        case Kind.JSON:
            return 245, _LENGTH_MAX, 0, BLOB_FLAG | BINARY_FLAG, BINARY_CHARSET
        case Kind.NULL | Kind.UNKNOWN:
            return 6, 0, 0, BINARY_FLAG, BINARY_CHARSET
        case _:
            return _character_protocol(sql_type)


def _character_protocol(sql_type: SqlType) -> tuple[int, int, int, int, int]:
    characters = min(sql_type.character_length or 0, _LENGTH_MAX)
    if sql_type.kind is Kind.BINARY:
        code = {"binary": 254, "varbinary": 253}.get(sql_type.name, 252)
        return code, characters, 0, BINARY_FLAG | (BLOB_FLAG if code == 252 else 0), BINARY_CHARSET
    charset = collation_id(sql_type.collation)
    length = min(characters * 4, _LENGTH_MAX)
    flags = BINARY_FLAG if sql_type.case_sensitive else 0
    if sql_type.kind is Kind.ENUM:
        return 254, length, 0, ENUM_FLAG | flags, charset
    if sql_type.name == "char":
        return 254, length, 0, flags, charset
    if sql_type.name == "varchar":
        return 253, length, 0, flags, charset
    return 252, length, 0, BLOB_FLAG | flags, charset


def unify(left: SqlType, right: SqlType) -> SqlType:
    """The type of a column that takes its values from both (UNION, CASE, IFNULL, COALESCE)."""
    for one, other in ((left, right), (right, left)):
        if one.kind in (Kind.NULL, Kind.UNKNOWN) and other.kind is not Kind.ENUM:
            return other
    if left == right and left.kind is not Kind.ENUM:
        return left
    if left.kind in NUMERIC and right.kind in NUMERIC:
        return _unify_numbers(left, right)
    if Kind.EXACT in (left.kind, right.kind) and {left.kind, right.kind} <= NUMERIC | {Kind.EXACT}:
        if Kind.DOUBLE in (left.kind, right.kind):
            return DOUBLE
        scale = max(left.scale, right.scale)
        return exact_type(max(digits(left) - left.scale, digits(right) - right.scale) + scale, scale)
    if left.kind in CALENDAR and right.kind in CALENDAR:
        return DATE if left.kind is right.kind is Kind.DATE else datetime_type(max(left.scale, right.scale))
    if left.kind in TEMPORAL and right.kind in TEMPORAL:
        both = left.kind is right.kind is Kind.TIME
        return (time_type if both else datetime_type)(max(left.scale, right.scale))
    if Kind.BINARY in (left.kind, right.kind):
        return varbinary(max(text_width(one) * (4 if one.kind in TEXTUAL else 1) for one in (left, right)))
    if left.kind is right.kind is Kind.JSON:
        return JSON
    return text_type(max(text_width(left), text_width(right)), joint_collation(left, right))


def _unify_numbers(left: SqlType, right: SqlType) -> SqlType:
    if Kind.DOUBLE in (left.kind, right.kind):
        return DOUBLE
    if Kind.DECIMAL in (left.kind, right.kind):
        scale = max(left.scale, right.scale)
        return decimal(max(digits(left) - left.scale, digits(right) - right.scale) + scale, scale)
    widest = max((left, right), key=lambda one: INTEGER_BITS.get(one.name, 64))
    name = widest.name if widest.kind is Kind.INT else "bigint"
    if left.unsigned is not right.unsigned:
        name = "bigint"  # the narrower type would not hold the largest values of the unsigned one
    return SqlType(Kind.INT, name, unsigned=left.unsigned and right.unsigned)


def digits(sql_type: SqlType) -> int:
    """Decimal digits that a number of this type may have."""
    if sql_type.kind in (Kind.DECIMAL, Kind.EXACT):
        return sql_type.size or 10
    return {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10}.get(sql_type.name, 20)


def text_width(sql_type: SqlType) -> int:
    """Characters needed to print any value of this type."""
    if sql_type.kind in TEXTUAL or sql_type.kind is Kind.BINARY:
        return sql_type.character_length or 0
    if sql_type.kind is Kind.JSON:
        return _TEXT_BYTES["long"]
    return meta(sql_type, "").length


def text_type(width: int, collation: str | None = None) -> SqlType:
    """VARCHAR where it fits, else LONGTEXT."""
    if width <= 16383:
        return varchar(width, collation)
    return replace(TEXT, collation=collation)

"""Column types as they are declared."""

from __future__ import annotations

from dataclasses import replace

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.text.keywords import keywords
from embedded.compile.text.tokens import Tokens
from embedded.compile.values.types import COLLATION_IDS, MAX_DECIMAL_DIGITS, TEXTUAL, Kind, SqlType

_INTEGERS = {
    "TINYINT": "tinyint",
    "INT1": "tinyint",
    "SMALLINT": "smallint",
    "INT2": "smallint",
    "MEDIUMINT": "mediumint",
    "INT3": "mediumint",
    "INT": "int",
    "INTEGER": "int",
    "INT4": "int",
    "BIGINT": "bigint",
    "INT8": "bigint",
}
_DECIMALS = frozenset(("DECIMAL", "NUMERIC", "DEC", "FIXED"))
_DOUBLES = {"DOUBLE": "double", "REAL": "double", "FLOAT": "float", "FLOAT8": "double", "FLOAT4": "float"}
_TEXTS = frozenset(("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"))
_BLOBS = frozenset(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"))
_TEMPORAL = {"DATETIME": Kind.DATETIME, "TIMESTAMP": Kind.TIMESTAMP, "TIME": Kind.TIME}
_REFUSED = keywords(
    "UUID INET4 INET6 SET VECTOR GEOMETRY POINT LINESTRING POLYGON MULTIPOINT MULTILINESTRING MULTIPOLYGON "
    "GEOMETRYCOLLECTION"
)
_ATTRIBUTES = ("UNSIGNED", "SIGNED", "ZEROFILL", "BINARY", "BYTE", "ASCII", "UNICODE", "COLLATE", "CHARSET")
_MAX_DECIMALS = 6
_MAX_VARCHAR = 16383  # utf8mb4 characters in a row of 65535 bytes, MySQL's own limit
_DEFAULT_COLLATIONS = {
    "utf8mb4": "utf8mb4_general_ci",
    "utf8": "utf8mb3_general_ci",
    "utf8mb3": "utf8mb3_general_ci",
    "latin1": "latin1_swedish_ci",
    "ascii": "ascii_general_ci",
    "binary": "binary",
}


def read_type(tokens: Tokens, collation: str) -> SqlType:
    """A column's type with its attributes; text gets `collation` unless it names its own."""
    word = tokens.next().upper
    if word in ("NATIONAL", "NCHAR", "NVARCHAR", "CHARACTER", "LONG"):
        word = _long_name(tokens, word)
    sql_type = _base(tokens, word)
    return _attributes(tokens, sql_type, collation)


def _long_name(tokens: Tokens, word: str) -> str:
    if word == "LONG":
        following = tokens.accept_one("VARCHAR", "VARBINARY")
        return "MEDIUMBLOB" if following == "VARBINARY" else "MEDIUMTEXT"
    if word == "NATIONAL":
        word = tokens.next().upper
    varying = tokens.accept("VARYING") or word in ("NVARCHAR", "VARCHAR")
    return "VARCHAR" if varying else "CHAR"


def _base(tokens: Tokens, word: str) -> SqlType:
    if word in _INTEGERS:
        return SqlType(Kind.INT, _INTEGERS[word], _size(tokens))
    if word in ("BOOL", "BOOLEAN"):
        return SqlType(Kind.INT, "tinyint", 1)
    if word == "SERIAL":
        return SqlType(Kind.INT, "bigint", unsigned=True)
    if word in _DECIMALS:
        return _decimal(tokens)
    if word in _DOUBLES:
        return _double(tokens, word)
    if word in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return _characters(tokens, word)
    if word in _TEXTS | _BLOBS:
        _size(tokens)
        return SqlType(Kind.STRING if word in _TEXTS else Kind.BINARY, word.lower())
    return _other(tokens, word)


def _other(tokens: Tokens, word: str) -> SqlType:
    match word:
        case "DATE":
            return SqlType(Kind.DATE, "date")
        case "DATETIME" | "TIMESTAMP" | "TIME":
            decimals = _size(tokens) or 0
            if decimals > _MAX_DECIMALS:
                raise SqlError(1426, f"Too-big precision {decimals} specified for a column. Maximum is 6.")
            return SqlType(_TEMPORAL[word], word.lower(), scale=decimals)
        case "YEAR":
            _size(tokens)
            return SqlType(Kind.YEAR, "year")
        case "JSON":
            return SqlType(Kind.JSON, "json")
        case "BIT":
            size = _size(tokens) or 1
            if size > 63:
                raise unsupported("BIT of more than 63 bits", "use BINARY(8)")
            return SqlType(Kind.BIT, "bit", size)
        case "ENUM":
            return SqlType(Kind.ENUM, "enum", values=_members(tokens))
        case _ if word in _REFUSED:
            raise unsupported(f"the type {word}", "use a text or binary column")
    tokens.position -= 1
    raise tokens.error()


def _size(tokens: Tokens) -> int | None:
    if not tokens.accept("("):
        return None
    size = tokens.integer()
    tokens.expect(")")
    return size


def _decimal(tokens: Tokens) -> SqlType:
    size, scale = 10, 0
    if tokens.accept("("):
        size = tokens.integer()
        scale = tokens.integer() if tokens.accept(",") else 0
        tokens.expect(")")
    if not 1 <= size <= 65:
        raise SqlError(1426, f"Too-big precision {size} specified for a column. Maximum is 65.")
    if scale > min(size, 30):
        raise SqlError(1427, "For float(M,D), double(M,D) or decimal(M,D), M must be >= D.")
    return SqlType(Kind.DECIMAL if size <= MAX_DECIMAL_DIGITS else Kind.EXACT, "decimal", size, scale)


def _double(tokens: Tokens, word: str) -> SqlType:
    if word == "DOUBLE":
        tokens.accept("PRECISION")
    name, size, scale = _DOUBLES[word], None, 0
    if tokens.accept("("):
        size = tokens.integer()
        if tokens.accept(","):
            scale = tokens.integer()
        else:
            name, size = ("double" if size > 24 else "float"), None
        tokens.expect(")")
    return SqlType(Kind.DOUBLE, name, size, scale)


def _characters(tokens: Tokens, word: str) -> SqlType:
    if word == "CHAR" and tokens.accept("VARYING"):
        word = "VARCHAR"
    size = _size(tokens)
    if size is None and word.startswith("VAR"):
        raise tokens.error()
    if size is not None and size > (_MAX_VARCHAR if word == "VARCHAR" else 65535 if word == "VARBINARY" else 255):
        raise SqlError(1074, f"Column length too big for column (max = {_MAX_VARCHAR}); use BLOB or TEXT instead")
    kind = Kind.STRING if word.endswith("CHAR") else Kind.BINARY
    return SqlType(kind, word.lower(), 1 if size is None else size)


def _members(tokens: Tokens) -> tuple[str, ...]:
    tokens.expect("(")
    members = [tokens.string().rstrip(" ")]
    while tokens.accept(","):
        members.append(tokens.string().rstrip(" "))
    tokens.expect(")")
    if len({member.casefold() for member in members}) != len(members):
        raise SqlError(1291, "Column has duplicated value in ENUM")
    return tuple(members)


def _attributes(tokens: Tokens, sql_type: SqlType, collation: str) -> SqlType:
    textual = sql_type.kind in TEXTUAL
    while True:
        word = tokens.accept_one(*_ATTRIBUTES)
        if not word and tokens.accept("CHARACTER", "SET"):
            word = "CHARSET"
        match word:
            case "":
                inherits = sql_type.kind in TEXTUAL and sql_type.collation is None
                return with_collation(sql_type, collation) if inherits else sql_type
            case "UNSIGNED":
                sql_type = replace(sql_type, unsigned=True)
            case "ZEROFILL":
                sql_type = replace(sql_type, unsigned=True, zerofill=True)
            case "BINARY" if textual:
                sql_type = replace(sql_type, collation="utf8mb4_bin")
            case "BYTE" if textual:
                sql_type, textual = _with_charset(sql_type, "binary"), False
            case "COLLATE" if textual:
                sql_type = replace(sql_type, collation=check_collation(tokens.name_or_string()))
            case "CHARSET" if textual:
                sql_type = _with_charset(sql_type, tokens.name_or_string())


def _with_charset(sql_type: SqlType, charset: str) -> SqlType:
    return with_collation(sql_type, charset_collation(charset))


def with_collation(sql_type: SqlType, collation: str) -> SqlType:
    """A type of text with its character set's or table's collation; text of the set `binary` is bytes."""
    if collation != "binary" or sql_type.kind is not Kind.STRING:
        return replace(sql_type, collation=collation)
    name = {"char": "binary", "varchar": "varbinary"}.get(sql_type.name, sql_type.name.replace("text", "blob"))
    return replace(sql_type, kind=Kind.BINARY, name=name, collation=None)


def charset_collation(charset: str) -> str:
    """The default collation of a character set."""
    collation = _DEFAULT_COLLATIONS.get(charset.lower())
    if collation is None:
        raise SqlError(1115, f"Unknown character set: '{charset}'")
    return collation


def check_collation(name: str) -> str:
    """A collation's name, refused when it is not one that MySQL clients know."""
    lowered = name.lower()
    if lowered.startswith("utf8_"):  # the character set's old name
        lowered = lowered.replace("utf8_", "utf8mb3_", 1)
    known = lowered in COLLATION_IDS or any(lowered.startswith(f"{charset}_") for charset in _DEFAULT_COLLATIONS)
    if not known or not lowered.isidentifier() or not lowered.endswith(("_ci", "_cs", "_bin", "binary")):
        raise SqlError(1273, f"Unknown collation: '{name}'")
    return lowered

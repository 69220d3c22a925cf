"""Text functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from embedded.compile.compilation import sql_literal
from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.functions import (
    counted,
    define,
    has_bytes,
    is_plain,
    joined_text,
    like_text,
    long_text,
    simple,
)
from embedded.compile.expressions.predicates import compare, is_case_sensitive
from embedded.compile.expressions.stored_operands import with_stored_operands
from embedded.compile.expressions.typed import Typed, to_bytes, to_integer, to_number, to_text
from embedded.compile.values.types import (
    BIGINT,
    BLOB,
    NUMERIC,
    TEXT,
    TEXTUAL,
    UNSIGNED_BIGINT,
    Kind,
    SqlType,
    collation_name,
    varbinary,
    varchar,
)

_JOINED_MAX = 4  # operands of SQLite's own operator: each in a chain has a copy of all before it
_ARGUMENTS = 100  # of one call of one of our functions, after the first; SQLite allows 127


def _lower(x: Expressions, values: list[Typed]) -> Typed:
    return Typed(x.compilation.function(f"qg_lower({to_text(x.compilation, values[0])})"), like_text(values))


def _upper(x: Expressions, values: list[Typed]) -> Typed:
    return Typed(x.compilation.function(f"qg_upper({to_text(x.compilation, values[0])})"), like_text(values))


def _concat(x: Expressions, values: list[Typed]) -> Typed:
    nullable = any(value.nullable for value in values)
    if has_bytes(values):
        arguments = ", ".join(to_bytes(x.compilation, value) for value in values)
        return Typed(x.compilation.function(f"qg_concat_bytes({arguments})"), BLOB, nullable)
    texts = [to_text(x.compilation, value) for value in values]
    if x.compilation.inline or (len(values) <= _JOINED_MAX and all(map(is_plain, values))):
        parts = " || ".join(texts)
        return Typed(f"({parts})" if len(values) > 1 else f"({parts} || '')", joined_text(values), nullable)
    sql = texts[0]
    for start in range(1, len(texts), _ARGUMENTS):
        sql = x.compilation.function(f"qg_concat({', '.join([sql, *texts[start : start + _ARGUMENTS]])})")
    return Typed(sql if len(texts) > 1 else x.compilation.function(f"qg_concat({sql})"), joined_text(values), nullable)


def _replace(x: Expressions, values: list[Typed]) -> Typed:
    arguments = ", ".join(to_text(x.compilation, value) for value in values)
    sql = f"replace({arguments})" if x.compilation.inline else x.compilation.function(f"qg_replace({arguments})")
    return Typed(sql, long_text(values), any(value.nullable for value in values))


def _trimmed(side: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        sql = f"{side}({to_text(x.compilation, values[0])}, ' ')"
        return Typed(counted(x, sql, values), like_text(values), values[0].nullable)

    define(side, 1, 1, build)


def _length(x: Expressions, values: list[Typed]) -> Typed:
    return Typed(f"length({to_bytes(x.compilation, values[0])})", BIGINT, values[0].nullable)


def _bit_length(x: Expressions, values: list[Typed]) -> Typed:
    return Typed(f"(length({to_bytes(x.compilation, values[0])}) * 8)", BIGINT, values[0].nullable)


def substring(x: Expressions, values: list[Typed]) -> Typed:
    """SUBSTRING(text, start[, length]); start 0 yields nothing, negative counts from the end."""
    return _part("substring", x, values)


def _part(name: str, x: Expressions, values: list[Typed]) -> Typed:
    """A part of a text, or of bytes, which stay bytes."""
    text = to_text(x.compilation, values[0])
    numbers = [to_integer(x.compilation, value) for value in values[1:]]
    result = like_text(values) if values[0].type.kind is not Kind.BINARY else values[0].type
    return Typed(x.compilation.function(f"qg_{name}({', '.join([text, *numbers])})"), result)


def _left(x: Expressions, values: list[Typed]) -> Typed:
    """In a table definition by SQLite's own function: whoever writes the row, no size is counted there."""
    if not x.compilation.inline:
        return _part("left", x, values)
    text, count = to_text(x.compilation, values[0]), to_integer(x.compilation, values[1])
    result = like_text(values) if values[0].type.kind is not Kind.BINARY else values[0].type
    return Typed(f"substr({text}, 1, max({count}, 0))", result)


def _locate(x: Expressions, values: list[Typed]) -> Typed:
    exact = int(is_case_sensitive(values[0], values[1]))
    part, text = to_text(x.compilation, values[0]), to_text(x.compilation, values[1])
    start = to_integer(x.compilation, values[2]) if len(values) > 2 else "1"
    return Typed(x.compilation.function(f"qg_locate({part}, {text}, {start}, {exact})"), BIGINT)


def _instr(x: Expressions, values: list[Typed]) -> Typed:
    return _locate(x, [values[1], values[0]])


def _strcmp(x: Expressions, values: list[Typed]) -> Typed:
    exact = int(is_case_sensitive(*values))
    left, right = to_text(x.compilation, values[0]), to_text(x.compilation, values[1])
    return Typed(x.compilation.function(f"qg_strcmp({left}, {right}, {exact})"), BIGINT)


def _find_in_set(x: Expressions, values: list[Typed]) -> Typed:
    exact = int(is_case_sensitive(*values))
    left, right = to_text(x.compilation, values[0]), to_text(x.compilation, values[1])
    return Typed(x.compilation.function(f"qg_find_in_set({left}, {right}, {exact})"), BIGINT)


def _field(x: Expressions, values: list[Typed]) -> Typed:
    def build(known: Sequence[Typed]) -> Typed:
        tests = (
            f" WHEN {compare(x, '=', known[0], value).sql} THEN {position}"
            for position, value in enumerate(values[1:], start=1)
        )
        return Typed(f"(CASE{''.join(tests)} ELSE 0 END)", BIGINT, nullable=False)

    return with_stored_operands(x, values[:1], build)


def _hex(x: Expressions, values: list[Typed]) -> Typed:
    value = values[0]
    if value.type.kind in NUMERIC | {Kind.EXACT}:
        sql = f"qg_hex_number({to_integer(x.compilation, value)})"
        return Typed(x.compilation.function(sql), varchar(16))
    if not x.compilation.inline:
        return Typed(x.compilation.function(f"qg_hex({to_bytes(x.compilation, value)})"), TEXT, value.nullable)
    return Typed(f"(CASE WHEN {value.sql} IS NULL THEN NULL ELSE hex({to_bytes(x.compilation, value)}) END)", TEXT)


def _format(x: Expressions, values: list[Typed]) -> Typed:
    def formatted(operands: Sequence[Typed]) -> Typed:
        number, places = to_number(x.compilation, operands[0]).sql, to_integer(x.compilation, operands[1])
        if operands[0].type.kind in (Kind.DOUBLE, Kind.STRING):
            number = x.compilation.function(f"qg_round({number}, max({places}, 0), 0)")
        return Typed(x.compilation.function(f"qg_format({number}, {places})"), varchar(64))

    return with_stored_operands(x, values, formatted)


def _unhex(x: Expressions, values: list[Typed]) -> Typed:
    return Typed(x.compilation.function(f"qg_unhex({to_text(x.compilation, values[0])})"), BLOB)


def _regexp(name: str, result: SqlType) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        fixed = 2 if name != "regexp_replace" else 3
        flags = "'c'" if is_case_sensitive(values[0], values[1]) else "'i'"
        arguments = [to_text(x.compilation, value) for value in values[:fixed]]
        if len(values) > fixed:
            flags = to_text(x.compilation, values[fixed])
        return Typed(x.compilation.function(f"qg_{name}({', '.join([*arguments, flags])})"), result)

    # Position and occurrence are left out: their meaning differs between servers.
    define(
        name,
        2 if name != "regexp_replace" else 3,
        3 if name == "regexp_like" else 2 + (name == "regexp_replace"),
        build,
    )


define("lower lcase", 1, 1, _lower)
define("upper ucase", 1, 1, _upper)
define("concat", 1, None, _concat)
simple("concat_ws", "tt*", joined_text)
define("length octet_length", 1, 1, _length)
define("bit_length", 1, 1, _bit_length)
simple("char_length character_length", "t", BIGINT, "length({0})")
define("mid", 2, 3, substring)
define("locate", 2, 3, _locate)
define("instr", 2, 2, _instr)
define("strcmp", 2, 2, _strcmp)
define("find_in_set", 2, 2, _find_in_set)
define("field", 2, None, _field)
define("left", 2, 2, _left)
define("right", 2, 2, partial(_part, "right"))
simple("substring_index", "tti", like_text)
simple("lpad", "tit", long_text)
simple("rpad", "tit", long_text)
simple("repeat", "ti", long_text)
simple("space", "i", TEXT)
define("replace", 3, 3, _replace)
simple("insert", "tiit", long_text)
simple("reverse", "t", like_text)
_trimmed("ltrim")
_trimmed("rtrim")
simple("ascii", "t", BIGINT)
simple("ord", "t", BIGINT)
simple("quote", "t", long_text, nullable=False)
simple("elt", "it*", joined_text)
simple("to_base64", "b", TEXT)
simple("from_base64", "t", BLOB)
simple("md5", "b", varchar(32))
simple("sha1 sha", "b", varchar(40))
simple("sha2", "bi", varchar(128))
simple("random_bytes", "i", varbinary(1024))
simple("crc32", "b", UNSIGNED_BIGINT)
simple("soundex", "t", long_text)
define("format", 2, 2, _format)
simple("uuid_to_bin", "t", varbinary(16))
simple("bin_to_uuid", "b", varchar(36))
simple("is_uuid", "t", BIGINT)
simple("inet_aton", "t", UNSIGNED_BIGINT)
simple("inet_ntoa", "i", varchar(15))
simple("bin", "i", varchar(64))
simple("oct", "i", varchar(64))
simple("conv", "tii", varchar(64))
define("hex", 1, 1, _hex)
define("unhex", 1, 1, _unhex)
_regexp("regexp_like", BIGINT)
_regexp("regexp_substr", TEXT)
_regexp("regexp_instr", BIGINT)
_regexp("regexp_replace", TEXT)


def _charset(x: Expressions, values: list[Typed]) -> Typed:
    kind = values[0].type.kind
    return Typed("'utf8mb4'" if kind in TEXTUAL or kind is Kind.JSON else "'binary'", varchar(64), nullable=False)


def _collation(x: Expressions, values: list[Typed]) -> Typed:
    sql_type = values[0].type
    textual = sql_type.kind in TEXTUAL
    name = collation_name(sql_type.collation) if textual or sql_type.kind is Kind.JSON else "binary"
    return Typed(sql_literal(name), varchar(64), nullable=False)


define("charset", 1, 1, _charset)
define("collation", 1, 1, _collation)

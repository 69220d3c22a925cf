"""JSON functions, on SQLite's own where both agree. JSON is stored as its text."""

from __future__ import annotations

from dataclasses import replace

from embedded.compile.errors import unsupported
from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.functions import define, simple
from embedded.compile.expressions.typed import Typed, to_text
from embedded.compile.values.types import BIGINT, BOOLEAN, COERCIBLE_BIN, JSON, TEXT, Kind, varchar

TEXT_OF_JSON = replace(TEXT, collation=COERCIBLE_BIN)
"""The result of JSON_UNQUOTE() and ->>."""

_TEXT_BY_BYTES = replace(TEXT, collation="utf8mb4_bin")


def _extract(x: Expressions, values: list[Typed]) -> Typed:
    document = to_text(x.compilation, values[0])
    if x.compilation.inline and len(values) == 2:
        path = to_text(x.compilation, values[1])
        return Typed(f"({document} -> {path})", JSON, unquoted=_own_unquoted(document, path))
    paths = ", ".join(to_text(x.compilation, value) for value in values[1:])
    sql = x.compilation.function(f"qg_json_extract({document}, {paths})")
    return Typed(sql, JSON, unquoted=f"qg_json_scalar({sql})")


def _own_unquoted(document: str, path: str) -> str:
    """JSON_UNQUOTE(JSON_EXTRACT()) in SQLite's own functions, for generated columns."""
    words = (
        f"CASE json_type({document}, {path}) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' WHEN 'null' THEN 'null'"
    )
    return f"({words} ELSE {document} ->> {path} END)"


def _unquote(x: Expressions, values: list[Typed]) -> Typed:
    if x.compilation.inline and values[0].unquoted is not None:
        return Typed(values[0].unquoted, TEXT_OF_JSON)
    return Typed(x.compilation.function(f"qg_json_unquote({to_text(x.compilation, values[0])})"), TEXT_OF_JSON)


def _unquoted_extract(x: Expressions, values: list[Typed]) -> Typed:
    if x.compilation.inline:
        document, path = (to_text(x.compilation, value) for value in values)
        return Typed(_own_unquoted(document, path), TEXT_OF_JSON)
    return _unquote(x, [_extract(x, values)])


def _scalar_value(x: Expressions, values: list[Typed]) -> Typed:
    """JSON_VALUE: NULL for JSON's null, and for what is no scalar. Its collation is the document's."""
    result = _TEXT_BY_BYTES if values[0].type.kind is Kind.JSON else replace(TEXT, collation=values[0].type.collation)
    document, path = (to_text(x.compilation, value) for value in values)
    if x.compilation.inline:
        words = f"CASE json_type({document}, {path}) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false'"
        return Typed(f"({words} WHEN 'array' THEN NULL WHEN 'object' THEN NULL ELSE {document} ->> {path} END)", result)
    return Typed(x.compilation.function(f"qg_json_value({document}, {path})"), result)


def json_value(x: Expressions, value: Typed) -> str:
    """A value as a piece of JSON text. Comparisons, TRUE and FALSE are true and false there; a column is a number."""
    if value.type == BOOLEAN and value.origin is None:
        return f"(CASE {value.sql} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END)"
    match value.type.kind:
        case Kind.NULL:
            return "'null'"
        case Kind.JSON:
            return f"COALESCE({value.sql}, 'null')"
        case Kind.DOUBLE:
            return f"COALESCE({x.compilation.function(f'qg_json_double({value.sql})')}, 'null')"
        case Kind.INT | Kind.YEAR | Kind.DECIMAL | Kind.EXACT:
            return f"COALESCE({to_text(x.compilation, value)}, 'null')"
        case Kind.BIT:
            encoded = x.compilation.function(f"qg_to_base64({to_text(x.compilation, value)})")
            return f"COALESCE('\"base64:type16:' || {encoded} || '\"', 'null')"
        case _:
            return x.compilation.function(f"qg_json_quote_value({to_text(x.compilation, value)})")


def _array(x: Expressions, values: list[Typed]) -> Typed:
    items = ", ".join(json_value(x, value) for value in values)
    return Typed(x.compilation.function(f"qg_json_array({items})"), JSON, nullable=False)


def _object(x: Expressions, values: list[Typed]) -> Typed:
    if len(values) % 2:
        raise unsupported("JSON_OBJECT with an odd number of arguments")
    items = [
        to_text(x.compilation, value) if position % 2 == 0 else json_value(x, value)
        for position, value in enumerate(values)
    ]
    return Typed(x.compilation.function(f"qg_json_object({', '.join(items)})"), JSON, nullable=False)


def _edit(name: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        items = [to_text(x.compilation, values[0])]
        for position, value in enumerate(values[1:]):
            items.append(to_text(x.compilation, value) if position % 2 == 0 else json_value(x, value))
        return Typed(x.compilation.function(f"qg_{name}({', '.join(items)})"), JSON)

    define(name, 3, None, build)


def _contains(x: Expressions, values: list[Typed]) -> Typed:
    arguments = ", ".join(to_text(x.compilation, value) for value in values)
    return Typed(x.compilation.function(f"qg_json_contains({arguments})"), BIGINT)


define("json_extract json_arrow", 2, None, _extract)
define("json_unquote_arrow", 2, 2, _unquoted_extract)
define("json_value", 2, 2, _scalar_value)
define("json_unquote", 1, 1, _unquote)
define("json_array", 0, None, _array)
define("json_object", 0, None, _object)
define("json_contains", 2, 3, _contains)
_edit("json_set")
_edit("json_insert")
_edit("json_replace")
_edit("json_array_append")
simple("json_remove", "tt*", JSON)
simple("json_valid", "t", BIGINT)
simple("json_length", "tt", BIGINT, optional=1)
simple("json_type", "t", varchar(20))
simple("json_keys", "tt", JSON, optional=1)
simple("json_quote", "t", TEXT_OF_JSON)
simple("json_contains_path", "ttt*", BIGINT)
simple("json_merge_patch", "tt*", JSON)
simple("json_merge_preserve json_merge", "tt*", JSON)
simple("json_pretty", "t", TEXT_OF_JSON)
simple("json_overlaps", "tt", BIGINT)
simple("json_depth", "t", BIGINT)

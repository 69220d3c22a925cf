"""A generated column's expression as its column stores it, in SQLite's own functions.

SQLite stores what the expression yields, whatever the column's type is. Here it is converted as MySQL does; what cannot
be converted without our functions is refused. A value that does not fit fails a check: see `limit`.
"""

from __future__ import annotations

from embedded.compile.compilation import Compilation, quote, sql_literal
from embedded.compile.errors import unsupported
from embedded.compile.expressions.typed import Typed, pad_moment, to_bytes, to_number, to_text
from embedded.compile.schema import Column
from embedded.compile.values.types import CALENDAR, NUMERIC, TEXTUAL, Kind, SqlType, text_width

RANGE, LENGTH = "queuegate_meta_range:", "queuegate_meta_length:"
"""What the names of the checks begin with; the column's name follows."""

_NOISE = 6  # decimals beyond those of the column; what a binary number has behind them is no part of a DECIMAL
_TEXTS = TEXTUAL | {Kind.JSON}


def converted(compilation: Compilation, column: Column, value: Typed) -> str:
    """The value in the column's storage form.

    Raises:
        UnsupportedSql: 1235, SQLite's own functions cannot convert it.
    """
    target, kind = column.type, value.type.kind
    same = kind is target.kind and value.type.scale <= target.scale
    sql = None
    match target.kind:
        case _ if kind is Kind.NULL:
            return value.sql
        case Kind.INT | Kind.YEAR | Kind.BIT if kind in (Kind.INT, Kind.YEAR, Kind.BIT):
            return value.sql
        case Kind.INT if kind in NUMERIC | _TEXTS:
            sql = _whole(compilation, value)
        case Kind.DECIMAL if kind in NUMERIC | _TEXTS:
            sql = _rounded(compilation, value, target)
        case Kind.DOUBLE if target.name != "float" and kind in NUMERIC | _TEXTS:
            plain = f"CAST({to_number(compilation, value).sql} AS REAL)"
            sql = plain if target.size is None else _rounded(compilation, value, target)
        case Kind.STRING:
            text = f"CAST({value.sql} AS TEXT)" if kind is Kind.BINARY else to_text(compilation, value)
            sql = f"rtrim({text}, ' ')" if target.name == "char" else text
        case Kind.BINARY if target.name != "binary":
            sql = to_bytes(compilation, value)
        case Kind.ENUM if kind in TEXTUAL:
            members = "".join(f" WHEN {sql_literal(one)} THEN {sql_literal(one)}" for one in target.values)
            folded = "" if target.case_sensitive else " COLLATE NOCASE"
            sql = f"CASE {value.sql}{folded}{members} ELSE {value.sql} END"
        case Kind.JSON if kind in _TEXTS:
            sql = value.sql
        case Kind.DATE if kind in CALENDAR:
            sql = value.sql if kind is Kind.DATE else f"substr({value.sql}, 1, 10)"
        case Kind.DATE if kind in _TEXTS:
            sql = f"date({value.unquoted or value.sql})"
        case Kind.DATETIME if kind in CALENDAR and value.type.scale <= target.scale:
            sql = pad_moment(value, target.scale)
        case Kind.DATETIME if kind in _TEXTS and not target.scale:
            sql = f"datetime({value.unquoted or value.sql})"
        case _ if value.type == target or (same and target.kind in (Kind.TIME, Kind.TIMESTAMP)):
            sql = value.sql
    if sql is None:
        what = f"a generated column {target.declared} of {value.type.name}"
        raise unsupported(what, "give it the type of its expression, or compute it in the INSERT")
    return sql


def _whole(compilation: Compilation, value: Typed) -> str:
    if value.type.kind not in _TEXTS:
        return f"CAST(ROUND({_exact(compilation, value, 0)}) AS INTEGER)"
    number = f"CAST({value.unquoted or value.sql} AS NUMERIC)"  # whole numbers have all their digits so
    return f"CASE typeof({number}) WHEN 'real' THEN CAST(ROUND({number}) AS INTEGER) ELSE {number} END"


def _rounded(compilation: Compilation, value: Typed, target: SqlType) -> str:
    if value.type.kind is not Kind.DOUBLE and value.type.kind in NUMERIC and value.type.scale == 0:
        return value.sql
    whole = f"ROUND({_exact(compilation, value, target.scale)})"
    return f"({whole} / 1e{target.scale})" if target.scale else whole


def _exact(compilation: Compilation, value: Typed, scale: int) -> str:
    """The number times a power of ten, of which halves are halves again."""
    number = to_number(compilation, value).sql
    return f"ROUND({number} * 1e{scale}, {_NOISE})" if scale else f"ROUND({number}, {_NOISE})"


def limit(column: Column, value: Typed) -> str:
    """The constraint that refuses values beyond the column's type; empty where there are none."""
    target, name, test, kind = column.type, quote(column.name), "", RANGE
    match target.kind:
        case Kind.INT | Kind.YEAR | Kind.BIT:
            low, high = (0, (1 << (target.size or 1)) - 1) if target.kind is Kind.BIT else target.integer_range
            low, high = (1901, 2155) if target.kind is Kind.YEAR else (low, high)
            known = value.type.kind is Kind.INT and value.origin is not None and _within(value.type, target)
            whole = target.name == "bigint" and not target.unsigned and value.type.kind is Kind.INT
            test = "" if known or whole else f"{name} BETWEEN {low} AND {high}"
            test = f"{test} OR {name} = 0" if target.kind is Kind.YEAR else test
        case Kind.DECIMAL:
            test = f"abs({name}) < 1e{(target.size or 10) - target.scale}" + f" AND {name} >= 0" * target.unsigned
        case Kind.DOUBLE if target.unsigned:
            test = f"{name} >= 0"
        case Kind.STRING | Kind.BINARY if text_width(value.type) > (target.character_length or 0):
            size = f"CAST({name} AS BLOB)" if target.name.endswith("text") else name
            test, kind = f"length({size}) <= {target.character_length or 0}", LENGTH
        case Kind.ENUM:
            test, kind = f"{name} IN ({', '.join(map(sql_literal, target.values))})", LENGTH
        case Kind.JSON if value.type.kind is not Kind.JSON:
            test = f"json_valid({name})"
    return f" CONSTRAINT {quote(kind + column.name)} CHECK ({test})" if test else ""


def _within(source: SqlType, target: SqlType) -> bool:
    (low, high), (lowest, highest) = source.integer_range, target.integer_range
    return lowest <= low and high <= highest

"""Calls: functions by name, CAST, and the few functions that have a syntax of their own."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions import dates, decimals, functions_json, functions_number, functions_text
from embedded.compile.expressions.compiler import Expressions, call_name, handles
from embedded.compile.expressions.functions import FUNCTIONS, call, counted, like_text
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.typed import (
    Typed,
    bits_of,
    dated,
    enum_index,
    rebind,
    to_bytes,
    to_exact,
    to_integer,
    to_number,
    to_text,
)
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.numbers import signed
from embedded.compile.text.dialect import WITHOUT_PARENTHESES
from embedded.compile.text.literal_lifting import slot_of
from embedded.compile.values.types import (
    BIGINT,
    BITS,
    CALENDAR,
    DOUBLE,
    JSON,
    MAX_DECIMAL_DIGITS,
    NUMERIC,
    TEXTUAL,
    UNSIGNED_BIGINT,
    YEAR,
    Kind,
    SqlType,
    datetime_type,
    decimal,
    is_binary_collation,
    text_type,
    text_width,
    time_type,
    varbinary,
    varchar,
)

_MODULES = (dates, functions_json, functions_number, functions_text)  # imported for the functions they define
_WITH_UNIT = {"timestampdiff": dates.timestamp_difference, "timestampadd": dates.timestamp_add}


@handles(exp.Anonymous, parts="this expressions")
def _anonymous(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    name, arguments = call_name(node), list(node.expressions)
    if name in ("date_add", "date_sub"):
        return _shift(x, name, arguments, scope)
    if name in _WITH_UNIT:
        if len(arguments) != 3:
            raise SqlError(1582, f"Incorrect parameter count in the call to native function '{name}'")
        return _WITH_UNIT[name](x, arguments[0].name, arguments[1:], scope)
    if name == "values":
        return _inserted(x, arguments, scope)
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        raise unsupported(f"DISTINCT in {name.upper()}()")
    if name not in FUNCTIONS:
        raise SqlError(1305, f"FUNCTION main.{node.name} does not exist")
    if name in ("adddate", "subdate") and len(arguments) == 2 and isinstance(arguments[1], exp.Interval):
        return _shift(x, "date_add" if name == "adddate" else "date_sub", arguments, scope)
    return call(x, name, [x.compile(argument, scope) for argument in arguments])


def _shift(x: Expressions, name: str, arguments: list[exp.Expression], scope: Scope) -> Typed:
    if len(arguments) != 2 or not isinstance(arguments[1], exp.Interval):
        raise SqlError(1064, f"{name.upper()} needs a moment and an INTERVAL")
    value = x.compile(arguments[0], scope)
    return dates.add_interval(x, value, arguments[1], scope, subtract=name == "date_sub")


def _inserted(x: Expressions, arguments: list[exp.Expression], scope: Scope) -> Typed:
    """VALUES(column) in ON DUPLICATE KEY UPDATE: the value that was to be inserted."""
    new = scope.source("excluded")
    value = new.find(x.compilation.name(arguments[0].name)) if new is not None and len(arguments) == 1 else None
    if value is None:
        raise SqlError(1054, f"Unknown column '{arguments[0].name if arguments else ''}' in 'field list'")
    return value


@handles(*WITHOUT_PARENTHESES.values())
def _without_parentheses(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    assert isinstance(node, exp.Func)
    return call(x, node.sql_name().lower(), [])


@handles(exp.Cast, parts="this to")
def _cast(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value = x.compile(node.this, scope)
    return cast(x, value, node.args["to"])


def cast(x: Expressions, value: Typed, to: exp.Expression) -> Typed:
    """CAST(value AS to)."""
    if value.type.kind is Kind.NULL:
        value = Typed("NULL", varchar(0))
    name = str(to.this.value) if hasattr(to.this, "value") else str(to.this)
    sizes = [_size(x, parameter) for parameter in to.expressions]
    build = _CASTS.get(name)
    if build is None:
        raise unsupported(f"CAST to {name}")
    return build(x, value, sizes)


_FRACTIONAL = frozenset((Kind.DECIMAL, Kind.EXACT, Kind.DOUBLE))


def _size(x: Expressions, node: exp.Expression) -> int:
    slot = slot_of(node.name)
    if slot is None:
        raise unsupported("a type with this argument")
    return int(x.compilation.pin(slot))


def _signed(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    if value.type.kind is Kind.ENUM:
        return Typed(enum_index(value), BIGINT, value.nullable)
    if value.type.kind in (Kind.INT, Kind.BITS) and value.slot is not None:
        return Typed(rebind(x.compilation, value, bits_of), BIGINT)
    if value.type.kind in (Kind.INT, Kind.BITS):
        return replace(value, type=BIGINT, origin=None)
    if value.type.kind in TEXTUAL and value.slot is None:
        return Typed(x.compilation.function(f"qg_signed({value.sql})"), BIGINT)
    if value.type.kind in TEXTUAL:
        return Typed(_bound_prefix(x, value), BIGINT)
    if value.type.kind in _FRACTIONAL:
        return Typed(x.compilation.function(f"qg_exact_signed({_operand(x, value)})"), BIGINT)
    return Typed(to_integer(x.compilation, value), BIGINT)


def _operand(x: Expressions, value: Typed) -> str:
    """The number, and how it is rounded: halves of exact numbers go away from zero, others to the even number."""
    if value.type.kind is Kind.EXACT:
        return f"{to_exact(x.compilation, value)}, 'round'"
    number = to_number(x.compilation, value).sql
    return f"{number}, 'even'" if value.type.kind is Kind.DOUBLE else f"{number}, 'round'"


def _bound_prefix(x: Expressions, value: Typed) -> str:
    return rebind(x.compilation, value, _strict_prefix if x.compilation.strict else _whole_prefix)


def _whole_prefix(value: object) -> int:
    return signed(CallContext(), str(value))


def _strict_prefix(value: object) -> int:
    return signed(CallContext(strict=True), str(value))


def _unsigned(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    if value.type.kind is Kind.ENUM:
        return Typed(enum_index(value), BITS, value.nullable)
    if value.type.kind in TEXTUAL and value.slot is not None:
        return Typed(_bound_prefix(x, value), BITS)
    if value.type.kind in TEXTUAL:
        return Typed(x.compilation.function(f"qg_unsigned_prefix({value.sql})"), BITS)
    if value.type.kind in _FRACTIONAL:
        return Typed(x.compilation.function(f"qg_exact_unsigned({_operand(x, value)})"), BITS)
    number = _signed(x, value, sizes)
    stays = value.type.unsigned and value.type.kind is not Kind.BITS
    return replace(number, type=UNSIGNED_BIGINT if stays else BITS)


def _char(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    text = f"CAST({value.sql} AS TEXT)" if value.type.kind is Kind.BINARY else to_text(x.compilation, value)
    if not sizes:
        return Typed(text, text_type(text_width(value.type), value.type.collation), value.nullable)
    return Typed(counted(x, f"substr({text}, 1, {sizes[0]})", [value]), varchar(sizes[0]), value.nullable)


def _binary(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    data = to_bytes(x.compilation, value)
    if not sizes:
        return Typed(data, varbinary(text_width(value.type) * 4), value.nullable)
    return Typed(x.compilation.function(f"qg_binary({data}, {sizes[0]})"), varbinary(sizes[0]), value.nullable)


def _decimal(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    size, scale = (sizes + [10, 0][len(sizes) :])[:2]
    if size > MAX_DECIMAL_DIGITS or value.type.kind is Kind.EXACT or value.type.kind in CALENDAR:
        return decimals.cast(x, value, size, scale)
    number = to_number(x.compilation, value)
    exact = int(number.type.kind is not Kind.DOUBLE)
    sql = x.compilation.function(f"qg_cast_decimal({number.sql}, {size}, {scale}, {exact})")
    return Typed(sql, decimal(size, scale))


def _date(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    return call(x, "date", [value])


def _datetime(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    decimals = sizes[0] if sizes else 0
    if value.type.kind is Kind.DATETIME and value.type.scale == decimals and value.slot is None:
        return value
    text = to_text(x.compilation, dated(x.compilation, value))
    return Typed(x.compilation.function(f"qg_datetime({text}, {decimals})"), datetime_type(decimals))


def _literal_datetime(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    """TIMESTAMP '...'."""
    return _datetime(x, value, sizes or [dates.literal_decimals(x, value)])


def _time(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    decimals = sizes[0] if sizes else 0
    if value.type.kind is Kind.TIME and value.type.scale == decimals:
        return value
    return Typed(x.compilation.function(f"qg_time({to_text(x.compilation, value)}, {decimals})"), time_type(decimals))


def _double(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    if value.type.kind is Kind.EXACT:
        return Typed(f"CAST({to_text(x.compilation, value)} AS REAL)", DOUBLE, value.nullable)
    return Typed(f"CAST({to_number(x.compilation, value).sql} AS REAL)", DOUBLE, value.nullable)


def _json(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    if value.type.kind is Kind.JSON:
        return value
    if value.type.kind in NUMERIC | {Kind.EXACT}:
        return Typed(to_text(x.compilation, value), JSON)
    sql = x.compilation.function(f"qg_json({to_text(x.compilation, value)})")
    return Typed(sql, JSON, unquoted=f"qg_json_scalar({sql})")


def _year(x: Expressions, value: Typed, sizes: list[int]) -> Typed:
    return Typed(to_integer(x.compilation, value), YEAR)


_CASTS = {
    "BIGINT": _signed,
    "UBIGINT": _unsigned,
    "CHAR": _char,
    "NCHAR": _char,
    "VARCHAR": _char,
    "CHARACTER_SET": lambda x, value, sizes: _char(x, value, []),
    "CHARACTER SET": lambda x, value, sizes: _char(x, value, []),
    "BINARY": _binary,
    "VARBINARY": _binary,
    "DECIMAL": _decimal,
    "DATE": _date,
    "DATETIME": _datetime,
    "TIMESTAMP": _literal_datetime,
    "TIMESTAMPTZ": _literal_datetime,
    "TIME": _time,
    "DOUBLE": _double,
    "FLOAT": _double,
    "JSON": _json,
    "YEAR": _year,
}


@handles(exp.Collate, parts="this expression")
def _collate(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value = x.compile(node.this, scope)
    name = x.compilation.name(node.args["expression"].name).lower()
    text = to_text(x.compilation, value)
    sql_type: SqlType = replace(
        value.type if value.type.kind is Kind.STRING else text_type(text_width(value.type)), collation=name
    )
    word = "BINARY" if is_binary_collation(name) else "NOCASE"
    return Typed(f"({text} COLLATE {word})", sql_type, value.nullable, collated=True)


@handles(exp.Extract, parts="this expression")
def _extract(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return dates.extract(x, node.this.name, x.compile(node.args["expression"], scope))


@handles(exp.Trim, parts="this position expression collation")
def _trim(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value = x.compile(node.this, scope)
    removed = node.args.get("expression")
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    text, result = to_text(x.compilation, value), like_text([value])
    if removed is None:
        return Typed(counted(x, f"{side}({text}, ' ')", [value]), result, value.nullable)
    part = to_text(x.compilation, x.compile(removed, scope))
    return Typed(x.compilation.function(f"qg_trim('{side}', {text}, {part})"), result)


@handles(exp.Substring, parts="this start length")
def _substring(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return functions_text.substring(x, [x.compile(part, scope) for part in parts if part is not None])


@handles(exp.StrPosition, parts="this substr")
def _position(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return call(x, "locate", [x.compile(node.args["substr"], scope), x.compile(node.this, scope)])


@handles(exp.Chr, parts="expressions charset this")
def _chr(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    nodes = node.expressions or [node.this]
    value = functions_number.char(x, [x.compile(part, scope) for part in nodes])
    return value if not node.args.get("charset") else Typed(f"CAST({value.sql} AS TEXT)", varchar(255))


@handles(exp.DPipe, parts="this expression")
def _joined(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    """|| with PIPES_AS_CONCAT: see the dialect."""
    sides = (node.this, node.args["expression"])
    if any(isinstance(side, (exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.BitwiseXor)) for side in sides):
        raise unsupported("|| after * or / with PIPES_AS_CONCAT", "put it in parentheses")
    return call(x, "concat", [x.compile(side, scope) for side in sides])


@handles(exp.Concat, parts="expressions coalesce safe")
def _adjacent(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    """Literals side by side are one literal."""
    return call(x, "concat", [x.compile(part, scope) for part in node.expressions])


@handles(exp.Subquery, parts="this")
def _scalar(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return x.queries.scalar(node.this, scope)


@handles(exp.Select, exp.Union, parts="*")
def _bare_query(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return x.queries.scalar(node, scope)


@handles(exp.Introducer, parts="this expression")
def _introducer(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    """_binary ? and _utf8mb4 ?: a parameter with its character set. _utf8mb4 X'..' is the text of these bytes."""
    value = x.compile(node.args["expression"], scope)
    introducer = str(node.this).lower()
    if introducer in ("_utf8mb4", "_utf8") and value.type.kind is Kind.BINARY:
        return Typed(f"CAST({value.sql} AS TEXT)", varchar(text_width(value.type)), value.nullable)
    if introducer == "_binary":
        return Typed(to_bytes(x.compilation, value), varbinary(text_width(value.type) * 4), value.nullable)
    return value


@handles(exp.Tuple, parts="expressions")
def _tuple(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    raise SqlError(1241, "Operand should contain 1 column(s)")

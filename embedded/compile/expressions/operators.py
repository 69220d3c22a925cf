"""Arithmetic, bits and logic with MySQL's result types: '/' is never integer division, exact stays exact."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from embedded.compile.compilation import quote, sql_literal
from embedded.compile.expressions import decimals
from embedded.compile.expressions.compiler import Expressions, handles
from embedded.compile.expressions.dates import add_interval
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.stored_operands import with_stored_operands
from embedded.compile.expressions.typed import NULL, Typed, to_integer, to_number, truth
from embedded.compile.schema import DATABASE
from embedded.compile.values.types import BIGINT, BITS, BOOLEAN, DOUBLE, UNSIGNED_BIGINT, Kind, SqlType, decimal, digits

_FLAT_CHAIN = 100  # operands side by side; longer chains are halved
_DIVISION_SCALE = 4  # div_precision_increment
_WHOLE = frozenset((Kind.INT, Kind.YEAR, Kind.BIT, Kind.BITS))


def _sides(x: Expressions, node: exp.Expression, scope: Scope) -> tuple[Typed, Typed]:
    """Both operands as numbers, except for unsigned 64 bits, which SQLite has no number type for."""
    left, right = (x.compile(side, scope) for side in (node.this, node.args["expression"]))
    return _side(x, left), _side(x, right)


def _side(x: Expressions, value: Typed) -> Typed:
    return value if value.type.kind is Kind.BITS else decimals.operand(x, value)


def _plain(x: Expressions, value: Typed) -> Typed:
    """A whole number that is not 64 bits, a DECIMAL, or a floating-point number."""
    return decimals.operand(x, value) if value.type.kind is Kind.BITS else value


def _arithmetic_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """The type where one of them is no whole number."""
    if {left.kind, right.kind} & {Kind.DOUBLE, Kind.UNKNOWN, Kind.NULL}:
        return DOUBLE
    scale = left.scale + right.scale if operator == "*" else max(left.scale, right.scale)
    whole = max(digits(left) - left.scale, digits(right) - right.scale) + 1
    if operator == "*":
        return decimal(digits(left) + digits(right), scale)
    return decimal(whole + scale, scale)


def _arithmetic(x: Expressions, operator: str, node: exp.Expression, scope: Scope) -> Typed:
    """left + right, left - right or left * right."""
    left, right = _sides(x, node, scope)
    if {left.type.kind, right.type.kind} <= _WHOLE:
        return _whole(x, operator, left, right, node, scope)
    left, right = _plain(x, left), _plain(x, right)
    sql_type = _arithmetic_type(operator, left.type, right.type)
    if decimals.is_exact(left, right, sql_type, x.compilation.inline):
        return decimals.arithmetic(x, operator, left, right, sql_type)
    left, right = to_number(x.compilation, left), to_number(x.compilation, right)
    sql = f"({left.sql} {operator} {right.sql})"
    if sql_type.kind is Kind.DECIMAL:
        sql = f"ROUND({sql}, {sql_type.scale})"
    return Typed(sql, sql_type, left.nullable or right.nullable)


# --- whole numbers without sign


def _whole(x: Expressions, operator: str, left: Typed, right: Typed, node: exp.Expression, scope: Scope) -> Typed:
    """Whole numbers: where one has no sign, so has the result, and a negative one is an error."""
    nullable = left.nullable or right.nullable or operator == "DIV"
    plain = f"({left.sql} {'/' if operator == 'DIV' else operator} {right.sql})"
    if not (_unsigned(left) or _unsigned(right)):
        return Typed(plain, BIGINT, nullable)
    bits = (left.type.kind is Kind.BITS) + 2 * (right.type.kind is Kind.BITS)
    if not bits and operator != "-" and _never_negative(x, left) and _never_negative(x, right):
        return Typed(plain, UNSIGNED_BIGINT, nullable)
    text = f"{_shown(x, node.this, left, 0, scope)} {operator} {_shown(x, node.args['expression'], right, 1, scope)}"
    call = f"qg_whole('{operator}', {left.sql}, {right.sql}, {bits}, {sql_literal(text)})"
    return Typed(x.compilation.function(call), BITS if bits else UNSIGNED_BIGINT, nullable)


def _unsigned(value: Typed) -> bool:
    """A column of YEAR has no sign; the function YEAR() has one."""
    kind = value.type.kind
    return value.type.unsigned or kind is Kind.BIT or (kind is Kind.YEAR and value.origin is not None)


def _never_negative(x: Expressions, value: Typed) -> bool:
    """A slot of a statement may be bound to any number; what is built into a definition is as it is written."""
    return _unsigned(value) or (x.compilation.inline and value.slot is not None and not value.negative)


def _shown(x: Expressions, node: exp.Expression, value: Typed, place: int, scope: Scope) -> str:
    """An operand as an error shows it: a column, a cast, or else the value it had."""
    if value.origin is not None:
        return _escaped(".".join(map(quote, (DATABASE, value.origin.alias, value.origin.column.name))))
    written = node.unnest()
    if isinstance(written, exp.Cast) and value.type.unsigned:
        inner = x.compile(written.this, scope) if isinstance(written.this, exp.Column) else value
        return f"cast({_shown(x, written.this, inner, place, scope)} as unsigned)"
    return f"{{{place}}}"


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@handles(exp.Add, exp.Sub, parts="this expression")
def _sum(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    left, right = node.this, node.args["expression"]
    if isinstance(right, exp.Interval) and right.args.get("unit") is not None:
        return add_interval(x, x.compile(left, scope), right, scope, subtract=isinstance(node, exp.Sub))
    if isinstance(left, exp.Interval):
        return add_interval(x, x.compile(right, scope), left, scope, subtract=False)
    return _arithmetic(x, "+" if isinstance(node, exp.Add) else "-", node, scope)


@handles(exp.Mul, parts="this expression")
def _product(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return _arithmetic(x, "*", node, scope)


@handles(exp.Div, parts="this expression typed")
def _quotient(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    left, right = (_plain(x, side) for side in _sides(x, node, scope))
    if Kind.NULL in (left.type.kind, right.type.kind):
        return NULL
    floating = {left.type.kind, right.type.kind} & {Kind.DOUBLE, Kind.UNKNOWN}
    if not floating and not x.compilation.inline:
        return decimals.quotient(x, left, right)
    left, right = to_number(x.compilation, left), to_number(x.compilation, right)
    sql = f"(CAST({left.sql} AS REAL) / {right.sql})"
    if floating:
        return Typed(sql, DOUBLE)
    scale = left.type.scale + _DIVISION_SCALE
    # Not rounded here: MySQL carries more digits until the value is shown or stored.
    return Typed(sql, decimal(digits(left.type) + _DIVISION_SCALE + right.type.scale, scale))


@handles(exp.IntDiv, parts="this expression")
def _whole_quotient(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    left, right = _sides(x, node, scope)
    if {left.type.kind, right.type.kind} <= _WHOLE:
        return _whole(x, "DIV", left, right, node, scope)
    unsigned, certain = _unsigned(left) or _unsigned(right), _never_negative(x, left) and _never_negative(x, right)
    left, right = _plain(x, left), _plain(x, right)
    if {left.type.kind, right.type.kind} & {Kind.DOUBLE, Kind.UNKNOWN, Kind.NULL} or x.compilation.inline:
        left, right = to_number(x.compilation, left), to_number(x.compilation, right)
        sql = f"CAST(CAST({left.sql} AS REAL) / {right.sql} AS INTEGER)"
    else:
        sql = x.compilation.function(f"qg_exact_quotient({left.sql}, {right.sql})")
    checked = x.compilation.function(f"qg_unsigned({sql})") if unsigned and not certain else sql
    return Typed(checked, UNSIGNED_BIGINT if unsigned else BIGINT)


@handles(exp.Mod, parts="this expression")
def _remainder(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return remainder(x, *(x.compile(side, scope) for side in (node.this, node.args["expression"])))


def remainder(x: Expressions, left: Typed, right: Typed) -> Typed:
    """left % right; the sign is that of the left side."""
    kinds = {left.type.kind, right.type.kind}
    if Kind.BITS in kinds and kinds <= _WHOLE:
        bits = (left.type.kind is Kind.BITS) + 2 * (right.type.kind is Kind.BITS)
        sql = x.compilation.function(f"qg_remainder({left.sql}, {right.sql}, {bits})")
        return Typed(sql, BITS if bits & 1 else UNSIGNED_BIGINT if _unsigned(left) else BIGINT)
    left, right = (_plain(x, _side(x, side)) for side in (left, right))
    if {left.type.kind, right.type.kind} <= _WHOLE:
        return Typed(f"({left.sql} % {right.sql})", UNSIGNED_BIGINT if _unsigned(left) else BIGINT)
    sql_type = _arithmetic_type("-", left.type, right.type)
    if sql_type.kind is Kind.DECIMAL:
        return decimals.modulo(x, left, right, sql_type)
    left, right = to_number(x.compilation, left), to_number(x.compilation, right)
    return Typed(f"mod({left.sql}, {right.sql})", sql_type)


_BITS: dict[type[exp.Expression], str] = {
    exp.BitwiseAnd: "({0} & {1})",
    exp.BitwiseOr: "({0} | {1})",
    exp.BitwiseXor: "(({0} | {1}) - ({0} & {1}))",
    exp.BitwiseLeftShift: "({0} << {1})",
}


@handles(*_BITS, exp.BitwiseRightShift, parts="this expression")
def _bits(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    left = _bit_operand(x, x.compile(node.this, scope))
    right = _bit_operand(x, x.compile(node.args["expression"], scope))
    if isinstance(node, exp.BitwiseRightShift):
        # SQLite shifts in copies of the sign bit; MySQL's numbers have none here.
        return Typed(x.compilation.function(f"qg_shift_right({left}, {right})"), BITS)
    sides = (Typed(left, BITS), Typed(right, BITS))
    return with_stored_operands(
        x, sides if isinstance(node, exp.BitwiseXor) else (), lambda known: _written(node, known or sides)
    )


def _written(node: exp.Expression, sides: Sequence[Typed]) -> Typed:
    return Typed(_BITS[type(node)].format(*(side.sql for side in sides)), BITS)


@handles(exp.BitwiseNot, parts="this")
def _inverted(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    return Typed(f"(~ {_bit_operand(x, x.compile(node.this, scope))})", BITS)


def _bit_operand(x: Expressions, value: Typed) -> str:
    """64 bits, as SQLite's signed integer holds them."""
    return value.sql if value.type.kind is Kind.BITS else to_integer(x.compilation, value)


@handles(exp.And, exp.Or, parts="this expression")
def _junction(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    word = " AND " if isinstance(node, exp.And) else " OR "
    operands = (part for part in node.flatten(unnest=False) if isinstance(part, exp.Expression))
    parts = [x.compile(part, scope) for part in operands]
    return Typed(
        _balanced(word, [truth(x.compilation, part) for part in parts]), BOOLEAN, any(part.nullable for part in parts)
    )


def _balanced(word: str, parts: list[str]) -> str:
    """A long chain as a shallow tree: SQLite allows 1000 levels."""
    if len(parts) <= _FLAT_CHAIN:
        return f"({word.join(parts)})"
    middle = len(parts) // 2
    return f"({_balanced(word, parts[:middle])}{word}{_balanced(word, parts[middle:])})"


@handles(exp.Not, parts="this")
def _not(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    value = x.compile(node.this, scope)
    return Typed(f"(NOT {truth(x.compilation, value)})", BOOLEAN, value.nullable)


@handles(exp.Xor, parts="this expression expressions")
def _xor(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    left, right = x.compile(node.this, scope), x.compile(node.args["expression"], scope)
    return Typed(
        f"((NOT {truth(x.compilation, left)}) <> (NOT {truth(x.compilation, right)}))",
        BOOLEAN,
        left.nullable or right.nullable,
    )

"""Values to be stored in columns: literals are converted when they are bound, others by a function."""

from __future__ import annotations

import json
from dataclasses import asdict

from sqlglot import exp

from embedded.compile.compilation import sql_literal
from embedded.compile.errors import SqlError
from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.dates import moment
from embedded.compile.expressions.decimals import operand
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.typed import Typed, dated, pad_moment, rebind, to_number, to_text
from embedded.compile.schema import Column, Table, stored_default
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.parse import parse_expression
from embedded.compile.values.store import HexStoreAs, StoreAs
from embedded.compile.values.types import CALENDAR, INTEGER_BITS, TEMPORAL, Kind, SqlType, datetime_type, time_type

_NUMBERS = (Kind.INT, Kind.DECIMAL, Kind.EXACT, Kind.DOUBLE)
_AS_TEXT = (Kind.TIME, Kind.DECIMAL, Kind.BITS)


def stored(x: Expressions, column: Column, value: Typed) -> str:
    """The value in the column's storage form; refused when it does not fit, as in strict mode."""
    utc = x.compilation.modes.utc
    sql = _converted(x, column, value, StoreAs(column.type, column.name, utc))
    if column.type.kind is not Kind.TIMESTAMP or (utc and _is_timestamp(value)):
        return sql
    return x.compilation.function(f"qg_to_utc({sql}, {sql_literal(column.name)})")


def _is_timestamp(value: Typed) -> bool:
    """Whether its range need not be checked: it was stored as one, is the current time, or is checked when bound."""
    return value.slot is not None or value.type.kind in (Kind.TIMESTAMP, Kind.NULL) or value.current


def _converted(x: Expressions, column: Column, value: Typed, convert: StoreAs) -> str:
    if value.type.kind is Kind.NULL:
        return "NULL"
    if column.type.kind in CALENDAR:
        value = dated(x.compilation, value)
    if value.slot is not None:
        hexadecimal = x.compilation.kinds[value.slot] == "x"
        return rebind(x.compilation, value, HexStoreAs(convert) if hexadecimal else convert)
    if fits(value, column.type):
        return value.sql
    if value.type.kind in TEMPORAL and column.type.kind in _NUMBERS:
        value = _number(x, value, whole=column.type.kind is Kind.INT)
    moments = value.type.kind in CALENDAR and column.type.kind in (Kind.DATETIME, Kind.TIMESTAMP)
    if moments and (value.type.kind is Kind.DATE or value.type.scale <= column.type.scale):
        return pad_moment(value, column.type.scale)
    return x.compilation.function(f"qg_store({_plain(x, value, column)}, {type_argument(column)})")


def _number(x: Expressions, value: Typed, *, whole: bool) -> Typed:
    """A moment as a number; as a whole one rounded to seconds first: a second after 59 begins a minute."""
    if whole and value.type.scale:
        time = value.type.kind is Kind.TIME
        sql = x.compilation.function(f"qg_{'time' if time else 'datetime'}({to_text(x.compilation, value)}, 0)")
        value = Typed(sql, time_type() if time else datetime_type(), value.nullable)
    return operand(x, value)


def _plain(x: Expressions, value: Typed, column: Column) -> str:
    """TIME is stored as microseconds, DECIMAL as a binary number: as text their meaning is unambiguous. For BIT, text
    is bytes. An ENUM is the number of its member in a column of numbers."""
    if value.type.kind is Kind.ENUM and column.type.kind in (*_NUMBERS, Kind.BIT, Kind.YEAR):
        return to_number(x.compilation, value).sql
    if column.type.kind is Kind.BIT and value.type.kind in (Kind.DECIMAL, Kind.BITS, Kind.EXACT):
        number = value.sql
        if value.type.kind is Kind.EXACT:
            number = x.compilation.function(f"CAST(qg_exact_digits({value.sql}) AS REAL)")
        return number if value.type.kind is Kind.BITS else f"round({number})"
    if value.type.kind is Kind.EXACT:
        return x.compilation.function(f"qg_exact_digits({value.sql})")
    if value.type.kind in (Kind.DECIMAL, Kind.BITS) and column.type.kind is value.type.kind:
        return value.sql
    return to_text(x.compilation, value) if value.type.kind in _AS_TEXT else value.sql


def type_argument(column: Column) -> str:
    """The column as an argument of qg_store."""
    document = asdict(column.type)
    document["kind"] = column.type.kind.value
    return sql_literal(json.dumps([document, column.name], separators=(",", ":")))


def fits(value: Typed, target: SqlType) -> bool:
    """Whether every value of this expression can be stored as it is."""
    source = value.type
    if value.checked and source == target:
        return True
    if source.kind is not target.kind:
        return False
    match target.kind:
        case Kind.INT:
            known = value.origin is not None or value.sql == "1" or value.sql == "0"
            return known and _range_within(source, target)
        case Kind.STRING:
            known = value.origin is not None and not target.name.startswith("char")
            return known and (source.character_length or 0) <= (target.character_length or 0)
        case Kind.DECIMAL:
            return value.origin is not None and source == target
        case Kind.TIME:
            return source.scale <= target.scale
        case Kind.DATETIME | Kind.TIMESTAMP:
            return source.scale == target.scale
        case Kind.DATE | Kind.JSON:
            return True
        case _:
            return value.origin is not None and source == target


def _range_within(source: SqlType, target: SqlType) -> bool:
    if source.name not in INTEGER_BITS:
        return False
    (low, high), (lowest, highest) = source.integer_range, target.integer_range
    return lowest <= low and high <= highest


def default_value(x: Expressions, table: Table, column: Column, assigned: dict[str, Typed] | None = None) -> Typed:
    """The value of a column that is not named, or is set to DEFAULT.

    Raises:
        SqlError: 1364 when it has no default.
    """
    default = column.default
    if default is None:
        if column.nullable or column.auto_increment or column.generated is not None:
            return Typed("NULL", SqlType(Kind.NULL, "null"))
        raise SqlError(1364, f"Field '{column.name}' doesn't have a default value")
    if default.now is not None:
        return moment(x, "now", default.now)
    if not default.expression:
        return Typed(sql_literal(stored_default(column)), column.type)
    assert default.text is not None
    return _written(x, default.text, DefaultScope(x, table, column, assigned))


def generated_value(x: Expressions, table: Table, column: Column, assigned: dict[str, Typed]) -> Typed:
    """The value that a generated column will have in a row of these values."""
    assert column.generated is not None
    return _written(x, column.generated, DefaultScope(x, table, column, assigned))


def _written(x: Expressions, text: str, scope: Scope) -> Typed:
    """An expression of a table's definition, inside of a statement."""
    lifted = lift(text)
    first = x.compilation.extend(lifted.kinds, lifted.values)
    return x.compile(parse_expression(lifted.shape, lifted.values, first), scope)


class DefaultScope(Scope):
    """The names in a DEFAULT expression: the table's other columns, as their defaults or assigned values."""

    def __init__(self, x: Expressions, table: Table, column: Column, assigned: dict[str, Typed] | None = None) -> None:
        super().__init__()
        self.x, self.table, self.column = x, table, column
        self.assigned = assigned or {}

    def find(self, name: str, table: str | None) -> Typed | None:
        known = self.assigned.get(name.lower())
        if known is not None:
            return known
        column = self.table.column(name)
        if column is None or column is self.column:
            return None
        if column.generated is not None:
            return generated_value(self.x, self.table, column, self.assigned)
        return default_value(self.x, self.table, column, self.assigned)


def is_default(node: exp.Expression) -> bool:
    """Whether a value is the word DEFAULT."""
    if isinstance(node, exp.Var):
        return node.name.upper() == "DEFAULT"
    plain = isinstance(node, exp.Column) and node.args.get("table") is None
    return plain and node.name.upper() == "DEFAULT" and not node.this.args.get("quoted")

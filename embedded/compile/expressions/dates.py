"""Dates and times: intervals, the current time, and the functions that take a date apart or put one together.

The current time is a value the session binds, the same throughout a statement. Our functions take and return ISO text
with the number of decimals of the expression's type; -1 decimals means as many as the value needs.
"""

from __future__ import annotations

import re

from sqlglot import exp

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions.compiler import Expressions, call_name
from embedded.compile.expressions.functions import define, simple
from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.typed import NULL, Typed, dated, slot_value, to_integer, to_number, to_text
from embedded.compile.text.keywords import INTERVAL_UNITS
from embedded.compile.text.literal_lifting import slot_of
from embedded.compile.values.types import (
    BIGINT,
    CALENDAR,
    DATE,
    YEAR,
    Kind,
    SqlType,
    datetime_type,
    decimal,
    time_type,
    varchar,
)

EPOCH_MICROSECONDS = "(CAST((julianday('now')-2440587.5)*86400000 AS INTEGER)*1000)"
"""TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) as SQLite alone computes it."""

_MOMENTS = frozenset((Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME))
_DAY_UNITS = frozenset(("DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "YEAR_MONTH"))
_EPOCH = re.compile(r"1970-0?1-0?1(?:[ T]0?0:0?0(?::0?0(?:\.0*)?)?)?")


def unit_name(text: str) -> str:
    """A unit's name in capitals."""
    unit = text.upper()
    if unit not in INTERVAL_UNITS:
        raise SqlError(1064, f"You have an error in your SQL syntax near '{text}'")
    return unit


def add_interval(x: Expressions, value: Typed, node: exp.Expression, scope: Scope, *, subtract: bool) -> Typed:
    """value + INTERVAL amount unit."""
    unit_node = node.args.get("unit")
    if unit_node is None:
        raise unsupported("INTERVAL without a unit")
    unit = unit_name(unit_node.sql(dialect="mysql").replace(" ", "_"))
    return _shifted(x, value, _amount(x, node.this, scope), unit, subtract)


def _amount(x: Expressions, node: exp.Expression, scope: Scope) -> Typed:
    if isinstance(node, exp.Literal):
        negative = node.name.startswith("-")
        slot = slot_of(node.name.removeprefix("-"))
        if slot is not None:
            return slot_value(x.compilation, slot, negative)
    return x.compile(node, scope)


def _shifted(x: Expressions, value: Typed, amount: Typed, unit: str, subtract: bool) -> Typed:
    if Kind.NULL in (value.type.kind, amount.type.kind):
        return NULL
    if unit in _DAY_UNITS or unit.startswith("DAY_"):
        value = dated(x.compilation, value)
    quantity = to_text(x.compilation, amount) if "_" in unit else to_number(x.compilation, amount).sql
    result, decimals = _shifted_type(value, unit, amount)
    base = (
        value.sql
        if value.type.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
        else to_text(x.compilation, value)
    )
    function = "qg_time_add" if value.type.kind is Kind.TIME else "qg_date_add"
    sign = -1 if subtract else 1
    return Typed(x.compilation.function(f"{function}({base}, {quantity}, '{unit}', {sign}, {decimals})"), result)


def _shifted_type(value: Typed, unit: str, amount: Typed) -> tuple[SqlType, int]:
    fraction = "MICROSECOND" in unit or (unit == "SECOND" and amount.type.kind not in (Kind.INT,))
    match value.type.kind:
        case Kind.DATE if unit in _DAY_UNITS:
            return DATE, -2
        case Kind.DATE | Kind.DATETIME | Kind.TIMESTAMP:
            decimals = 6 if fraction else value.type.scale
            return datetime_type(decimals), decimals
        case Kind.TIME:
            decimals = 6 if fraction else value.type.scale
            return time_type(decimals), decimals
        case _:
            return varchar(29), -1


def _date_add(subtract: bool) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        return _shifted(x, values[0], values[1], "DAY", subtract)

    define("adddate" if not subtract else "subdate", 2, 2, build)


def moment(x: Expressions, name: str, decimals: int) -> Typed:
    """The current time, of the session or in UTC."""
    return Typed(x.compilation.dynamic(name, decimals), datetime_type(decimals), nullable=False, current=True)


def _checked(decimals: object) -> int:
    if not isinstance(decimals, int):
        raise SqlError(1064, "the number of decimals must be a number")
    if not 0 <= decimals <= 6:
        raise SqlError(1426, f"Too-big precision {decimals} specified for 'now'. Maximum is 6.")
    return decimals


def _now(names: str, source: str) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        decimals = 0
        if values:
            decimals = _checked(x.compilation.pin(values[0].slot) if values[0].slot is not None else None)
        if source in ("time", "utc_time"):
            return Typed(x.compilation.dynamic(source, decimals), time_type(decimals), nullable=False)
        return moment(x, source, decimals)

    define(names, 0, 1, build)


def _today(names: str, source: str) -> None:
    define(names, 0, 0, lambda x, values: Typed(x.compilation.dynamic(source), DATE, nullable=False))


def timestamp_difference(x: Expressions, unit: str, nodes: list[exp.Expression], scope: Scope) -> Typed:
    """TIMESTAMPDIFF(unit, from, to). Microseconds since the epoch can be computed by SQLite itself, see the
    constant."""
    unit = unit_name(unit)
    if unit == "MICROSECOND" and _is_epoch(x, nodes[0]) and _is_utc_now(nodes[1]):
        return Typed(EPOCH_MICROSECONDS, BIGINT, nullable=False)
    start, end = (_moment_text(x, dated(x.compilation, x.compile(node, scope))) for node in nodes)
    return Typed(x.compilation.function(f"qg_timestampdiff('{unit}', {start}, {end})"), BIGINT)


def _is_epoch(x: Expressions, node: exp.Expression) -> bool:
    slot = slot_of(node.name) if isinstance(node, exp.Literal) else None
    if slot is None or x.compilation.kinds[slot] != "s":
        return False
    return _EPOCH.fullmatch(x.compilation.pin(slot)) is not None


def _is_utc_now(node: exp.Expression) -> bool:
    return isinstance(node, exp.UtcTimestamp) or (
        isinstance(node, exp.Anonymous) and call_name(node) == "utc_timestamp"
    )


def timestamp_add(x: Expressions, unit: str, nodes: list[exp.Expression], scope: Scope) -> Typed:
    """TIMESTAMPADD(unit, amount, moment)."""
    return _shifted(x, x.compile(nodes[1], scope), x.compile(nodes[0], scope), unit_name(unit), False)


def extract(x: Expressions, unit: str, value: Typed) -> Typed:
    """EXTRACT(unit FROM moment)."""
    unit = unit_name(unit)
    if value.type.kind not in CALENDAR and "_" not in unit and unit not in _DAY_UNITS:
        unit = f"{unit}_{unit}"  # with its sign, as several parts
    return Typed(_extracted(x, unit, value), BIGINT)


# The position of a part in the text of a date and time.
_PLACES = {"YEAR": (1, 4), "MONTH": (6, 2), "DAY": (9, 2), "HOUR": (12, 2), "MINUTE": (15, 2), "SECOND": (18, 2)}


def _extracted(x: Expressions, unit: str, value: Typed) -> str:
    """A part of a moment; of a date or date and time in its own form it is a piece of the text."""
    if unit in _DAY_UNITS:
        value = dated(x.compilation, value)
    whole = value.type.kind in (Kind.DATETIME, Kind.TIMESTAMP) or (value.type.kind is Kind.DATE and unit in _DAY_UNITS)
    if value.slot is None and whole and unit in _PLACES:
        start, length = _PLACES[unit]
        return f"CAST(substr({value.sql}, {start}, {length}) AS INTEGER)"
    return x.compilation.function(f"qg_extract('{unit}', {_moment_text(x, value)})")


def _moment_text(x: Expressions, value: Typed) -> str:
    return to_text(x.compilation, value)


def _part(names: str, unit: str, result: SqlType = BIGINT) -> None:
    def build(x: Expressions, values: list[Typed]) -> Typed:
        return Typed(_extracted(x, unit, values[0]), result)

    define(names, 1, 1, build)


def _to_date(x: Expressions, values: list[Typed]) -> Typed:
    value = dated(x.compilation, values[0])
    if value.type.kind is Kind.DATE:
        return value
    if value.type.kind is Kind.DATETIME and value.slot is None:
        return Typed(f"substr({value.sql}, 1, 10)", DATE, value.nullable)
    return Typed(x.compilation.function(f"qg_date({_moment_text(x, value)})"), DATE)


def _to_time(x: Expressions, values: list[Typed]) -> Typed:
    if values[0].type.kind is Kind.TIME:
        return values[0]
    decimals = values[0].type.scale if values[0].type.kind in (Kind.DATETIME, Kind.TIMESTAMP) else 0
    decimals = 6 if values[0].type.kind is Kind.STRING else decimals
    return Typed(x.compilation.function(f"qg_time({_moment_text(x, values[0])}, {decimals})"), time_type(decimals))


def _to_timestamp(x: Expressions, values: list[Typed]) -> Typed:
    if len(values) > 1:
        return _moved_by_time(x, "addtime", [_to_timestamp(x, values[:1]), values[1]])
    value = dated(x.compilation, values[0])
    decimals = value.type.scale if value.type.kind in CALENDAR else 6
    return Typed(x.compilation.function(f"qg_datetime({_moment_text(x, value)}, {decimals})"), datetime_type(decimals))


def _unix_timestamp(x: Expressions, values: list[Typed]) -> Typed:
    if not values:
        if x.compilation.inline:
            return Typed("CAST(strftime('%s','now') AS INTEGER)", BIGINT, nullable=False)
        return Typed(x.compilation.dynamic("unix"), BIGINT, nullable=False)
    value = dated(x.compilation, values[0])
    scale = value.type.scale if value.type.kind in CALENDAR else 0
    if value.type.kind is Kind.STRING:
        scale = literal_decimals(x, value)
    sql = x.compilation.function(f"qg_unix_timestamp({_moment_text(x, value)}, {scale})")
    return Typed(sql, decimal(10 + scale, scale) if scale else BIGINT)


def literal_decimals(x: Expressions, value: Typed) -> int:
    """How many decimals of a second a text may have: what is written where it is a literal."""
    if value.slot is None:
        return 6
    _, _, fraction = str(x.compilation.pin(value.slot)).partition(".")
    return min(6, len(fraction))


def _from_unixtime(x: Expressions, values: list[Typed]) -> Typed:
    number = to_number(x.compilation, values[0])
    decimals = (
        0 if number.type.kind is Kind.INT else min(6, number.type.scale if number.type.kind is Kind.DECIMAL else 6)
    )
    sql = x.compilation.function(f"qg_from_unixtime({number.sql}, {decimals})")
    result = Typed(sql, datetime_type(decimals))
    if len(values) == 1:
        return result
    return Typed(x.compilation.function(f"qg_date_format({sql}, {to_text(x.compilation, values[1])})"), varchar(255))


def _sec_to_time(x: Expressions, values: list[Typed]) -> Typed:
    number = to_number(x.compilation, values[0])
    decimals = _decimals_of_seconds(number)
    return Typed(x.compilation.function(f"qg_sec_to_time({number.sql}, {decimals})"), time_type(decimals))


def _maketime(x: Expressions, values: list[Typed]) -> Typed:
    """MAKETIME: with the decimals of its seconds."""
    hour, minute = (to_integer(x.compilation, value) for value in values[:2])
    second = to_number(x.compilation, values[2])
    decimals = _decimals_of_seconds(second)
    sql = x.compilation.function(f"qg_maketime({hour}, {minute}, {second.sql}, {decimals})")
    return Typed(sql, time_type(decimals))


def _decimals_of_seconds(number: Typed) -> int:
    return {Kind.DECIMAL: min(6, number.type.scale), Kind.DOUBLE: 6}.get(number.type.kind, 0)


def _timediff(x: Expressions, values: list[Typed]) -> Typed:
    """TIMEDIFF: as many decimals as the finer side has. There is none between a TIME and a date."""
    kinds = {value.type.kind for value in values}
    if Kind.TIME in kinds and kinds & CALENDAR:
        return Typed("NULL", time_type(0))
    decimals = max(value.type.scale if value.type.kind in _MOMENTS else literal_decimals(x, value) for value in values)
    one, other = (to_text(x.compilation, value) for value in values)
    return Typed(x.compilation.function(f"qg_timediff({one}, {other})"), time_type(decimals))


def _add_time(name: str) -> None:
    """ADDTIME and SUBTIME: of a moment a moment, of a text a text."""

    def build(x: Expressions, values: list[Typed]) -> Typed:
        return _moved_by_time(x, name, values)

    define(name, 2, 2, build)


def _moved_by_time(x: Expressions, name: str, values: list[Typed]) -> Typed:
    value, other = values
    sql = x.compilation.function(f"qg_{name}({to_text(x.compilation, value)}, {to_text(x.compilation, other)})")
    if value.type.kind not in _MOMENTS:
        return Typed(sql, varchar(29))
    decimals = max(value.type.scale, other.type.scale if other.type.kind in _MOMENTS else literal_decimals(x, other))
    if value.type.kind is Kind.TIME:
        return Typed(x.compilation.function(f"qg_time({sql}, {decimals})"), time_type(decimals))
    return Typed(x.compilation.function(f"qg_datetime({sql}, {decimals})"), datetime_type(decimals))


def _convert_tz(x: Expressions, values: list[Typed]) -> Typed:
    """CONVERT_TZ: with the decimals of its moment."""
    value = dated(x.compilation, values[0])
    decimals = value.type.scale if value.type.kind in _MOMENTS else literal_decimals(x, value)
    arguments = ", ".join(to_text(x.compilation, one) for one in (value, *values[1:]))
    return Typed(x.compilation.function(f"qg_convert_tz({arguments}, {decimals})"), datetime_type(decimals))


def _str_to_date(x: Expressions, values: list[Typed]) -> Typed:
    """The type follows the format, which therefore is part of the plan where it is a literal."""
    text, layout = to_text(x.compilation, values[0]), to_text(x.compilation, values[1])
    pattern = _plain_text(x.compilation.pin(values[1].slot)) if values[1].slot is not None else "%Y %f"
    has_time = re.search(r"%[HhIiklSsTrf]", pattern) is not None
    has_date = re.search(r"%[YymMcbjUuVvXxaWw]", pattern) is not None
    if has_time and not has_date:
        result = time_type(6 if "%f" in pattern else 0)
        return Typed(x.compilation.function(f"qg_str_to_date({text}, {layout}, -3)"), result)
    decimals = (6 if "%f" in pattern else 0) if has_time else -2
    result = datetime_type(decimals) if has_time else DATE
    return Typed(x.compilation.function(f"qg_str_to_date({text}, {layout}, {decimals})"), result)


def _plain_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


_now("now current_timestamp localtime localtimestamp sysdate", "now")
_now("utc_timestamp", "utc")
_now("curtime current_time", "time")
_now("utc_time", "utc_time")
_today("curdate current_date", "today")
_today("utc_date", "utc_today")
_date_add(subtract=False)
_date_add(subtract=True)
_part("year", "YEAR", YEAR)
_part("month", "MONTH")
_part("day dayofmonth", "DAY")
_part("hour", "HOUR")
_part("minute", "MINUTE")
_part("second", "SECOND")
_part("microsecond", "MICROSECOND")
_part("quarter", "QUARTER")
define("date", 1, 1, _to_date)
define("time", 1, 1, _to_time)
define("timestamp", 1, 2, _to_timestamp)
define("unix_timestamp", 0, 1, _unix_timestamp)
define("from_unixtime", 1, 2, _from_unixtime)
define("str_to_date", 2, 2, _str_to_date)
simple("date_format", "dt", varchar(255))
simple("time_format", "tt", varchar(255))
simple("datediff", "dd", BIGINT)
simple("dayofweek", "d", BIGINT)
simple("weekday", "d", BIGINT)
simple("dayofyear", "d", BIGINT)
simple("week", "di", BIGINT, optional=1)
simple("weekofyear", "d", BIGINT)
simple("yearweek", "di", BIGINT, optional=1)
simple("dayname", "d", varchar(9))
simple("monthname", "d", varchar(9))
simple("last_day", "d", DATE)
simple("to_days", "d", BIGINT)
simple("from_days", "i", DATE)
simple("makedate", "ii", DATE)
simple("to_seconds", "d", BIGINT)
simple("time_to_sec", "t", BIGINT)
define("sec_to_time", 1, 1, _sec_to_time)
define("maketime", 3, 3, _maketime)
define("timediff", 2, 2, _timediff)
_add_time("addtime")
_add_time("subtime")
define("convert_tz", 3, 3, _convert_tz)
simple("period_add", "ii", BIGINT)
simple("period_diff", "ii", BIGINT)

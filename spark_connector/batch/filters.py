"""Filters of Spark as conditions in SQL that are true for exactly the same rows; what cannot be is left to Spark.

Text is compared by its bytes in UTF-8, as Spark does: a collation's 'Hello' = 'hello ' plays no part. NULLs are as in
Spark, for both follow SQL. Filters are recognised by their classes' names, so that nothing here imports Spark.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_connector.client.columns import Column, Field, spark_type
from spark_connector.client.connection import placed
from spark_connector.client.queue import Queue

_IN_MAX = 1000  # values of an IN; a longer list makes a statement that takes longer than what it spares
_COMPARISONS: Mapping[str, str] = {
    "EqualTo": "=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<=",
}  # fmt: skip
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBERED = frozenset({"bit", "year"})  # of which a comparison with a number is not always one of numbers
# A TIMESTAMP outside of these is none on some servers: a comparison with it is left to Spark.
_TIMESTAMPS = (dt.datetime(1970, 1, 2), dt.datetime(2038, 1, 18))
_FIRST_DATE = dt.date(1000, 1, 1)


@dataclass(frozen=True)
class Condition:
    """SQL that is true, false or NULL as the filter is; values for its placeholders."""

    sql: str
    args: tuple[Any, ...] = ()


def split(filters: Sequence[Any], queue: Queue, fields: Sequence[Field]) -> tuple[list[Condition], Iterator[Any]]:
    """What the database is to evaluate, and the filters that are left to Spark."""
    pairs = [(each, condition(each, queue, fields)) for each in filters]
    return [found for _, found in pairs if found], (each for each, found in pairs if found is None)


def condition(each: Any, queue: Queue, fields: Sequence[Field]) -> Condition | None:
    """A filter as SQL; None: leave it to Spark."""
    kind = type(each).__name__
    if kind == "Not":
        child = condition(each.child, queue, fields)
        return child and Condition(f"NOT ({child.sql})", child.args)
    column = _column(each.attribute, queue, fields)
    if column is None:
        return None
    if kind in ("IsNull", "IsNotNull"):
        return Condition(f"{placed(column.name)} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL")
    side = _side(column, _type_of(each.attribute, fields))
    return side.condition(kind, each.value) if side else None


def _column(path: Sequence[str], queue: Queue, fields: Sequence[Field]) -> Column | None:
    known = len(path) == 1 and any(field.name == path[0] for field in fields) and queue.has(path[0])
    return queue.column(path[0]) if known else None


def _type_of(path: Sequence[str], fields: Sequence[Field]) -> str:
    return next(field.type for field in fields if field.name == path[0])


@dataclass(frozen=True)
class _Side:
    """A column as one side of comparisons, and how values become the other."""

    sql: str
    value: Callable[[Any], Condition | None]  # None: there is no such value in SQL, or it compares otherwise
    column: str
    text: bool = False
    sets: bool = True  # IN is as exact as =

    def condition(self, kind: str, value: Any) -> Condition | None:
        if kind in _COMPARISONS:
            return self._compared(_COMPARISONS[kind], value)
        if kind == "EqualNullSafe":
            return self._null_safe(value)
        if kind == "In":
            return self._among(value) if self.sets else None
        return self._part(kind, value) if self.text else None

    def _compared(self, operator: str, value: Any) -> Condition | None:
        other = self.value(value)
        if other is None:
            return None
        exact = Condition(f"{self.sql} {operator} {other.sql}", other.args)
        return self._findable(exact, "= %s", (value,)) if operator == "=" else exact

    def _findable(self, exact: Condition, plain: str, values: Sequence[Any]) -> Condition:
        """What is equal by its bytes is equal by any collation: said besides, for an index to be of use."""
        if not self.text:
            return exact
        return Condition(f"({self.column} {plain} AND {exact.sql})", (*values, *exact.args))

    def _null_safe(self, value: Any) -> Condition | None:
        if value is None:
            return Condition(f"{self.column} IS NULL")
        equal = self._compared("=", value)
        return equal and Condition(f"({self.column} IS NOT NULL AND {equal.sql})", equal.args)

    def _among(self, values: Sequence[Any]) -> Condition | None:
        others = [Condition("NULL") if value is None else self.value(value) for value in values]
        if not 0 < len(others) <= _IN_MAX or None in others:
            return None
        known = [other for other in others if other is not None]
        listed = ", ".join(other.sql for other in known)
        exact = Condition(f"{self.sql} IN ({listed})", tuple(arg for other in known for arg in other.args))
        return self._findable(exact, f"IN ({', '.join(['%s'] * len(values))})", values)

    def _part(self, kind: str, value: Any) -> Condition | None:
        part = value.encode() if isinstance(value, str) else None
        if part is None:
            return None
        if kind == "StringContains":
            return Condition(f"LOCATE(%s, {self.sql}) > 0", (part,))
        end = {"StringStartsWith": "LEFT", "StringEndsWith": "RIGHT"}.get(kind)
        if end is None:
            return None
        return Condition(f"{end}({self.sql}, {len(part)}) = %s", (part,))


def _side(column: Column, asked: str) -> _Side | None:
    """None: columns of this type, read as that one, are compared by Spark alone."""
    name, own = placed(column.name), spark_type(column)
    if (own in _WHOLE and asked in _WHOLE) or (own.startswith("decimal") and asked == own):
        return _Side(f"{name} + 0" if column.base in _NUMBERED else name, _number, name)
    if asked != own:
        return None
    if own == "string":
        by_bytes = f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
        return _Side(by_bytes, _bytes_of_text, name, text=True) if column.base in _TEXT else None
    if own == "binary":
        return _Side(name, _bytes, name) if column.base in _BYTES else None
    return _OTHERS[own](name)


def _number(value: Any) -> Condition | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    finite = isinstance(value, int) or value.is_finite()
    return Condition(f"{value:d}" if isinstance(value, int) else f"{value:f}") if finite else None


def _truth(value: Any) -> Condition | None:
    return Condition(str(int(value))) if isinstance(value, bool) else None


def _float(value: Any) -> Condition | None:
    return Condition("%s", (value,)) if isinstance(value, float) and math.isfinite(value) else None


def _bytes_of_text(value: Any) -> Condition | None:
    return Condition("%s", (value.encode(),)) if isinstance(value, str) else None


def _bytes(value: Any) -> Condition | None:
    return Condition("%s", (bytes(value),)) if isinstance(value, bytes | bytearray) else None


def _date(value: Any) -> Condition | None:
    whole = isinstance(value, dt.date) and not isinstance(value, dt.datetime) and value >= _FIRST_DATE
    return Condition("CAST(%s AS DATE)", (value.isoformat(),)) if whole else None


def _moment(value: Any) -> Condition | None:
    known = isinstance(value, dt.datetime) and value.tzinfo is None and value.date() >= _FIRST_DATE
    return Condition("CAST(%s AS DATETIME(6))", (f"{value:%Y-%m-%d %H:%M:%S.%f}",)) if known else None


def _instant(value: Any) -> Condition | None:
    """Sessions are in UTC."""
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return None
    in_utc = value.astimezone(dt.UTC).replace(tzinfo=None)
    return _moment(in_utc) if _TIMESTAMPS[0] < in_utc < _TIMESTAMPS[1] else None


_OTHERS: Mapping[str, Callable[[str], _Side]] = {
    "boolean": lambda name: _Side(f"{name} + 0", _truth, name),
    "float": lambda name: _Side(f"{name} * 1E0", _float, name, sets=False),
    "double": lambda name: _Side(name, _float, name, sets=False),
    "date": lambda name: _Side(name, _date, name),
    "timestamp_ntz": lambda name: _Side(name, _moment, name),
    "timestamp": lambda name: _Side(name, _instant, name),
}

"""A search in a queue's messages: a column, a test and a value, as the form has them and as SQL. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pymysql.constants import FIELD_TYPE

from console.database import Column, name_sql
from console.pages.keyset import Key
from console.pages.messages.message_rows import id_value, is_bytes
from console.pages.messages.message_verbs import Statement
from console.visits import NAME_MAX, BadInput, Parameter, Visit
from engine.model.queue import SYSTEM_COLUMNS

TESTS = {
    "is": "is",
    "is_not": "is not",
    "contains": "contains",
    "begins": "begins with",
    "at_least": "is at least",
    "at_most": "is at most",
    "null": "is NULL",
    "not_null": "is not NULL",
}
"""The tests, and each in words."""

VALUE_MAX = 1000

_SYSTEM = ("id", "priority", "epoch", "last_error")
_NOT_SEARCHED = frozenset((FIELD_TYPE.GEOMETRY, FIELD_TYPE.BIT, 242))  # 242: VECTOR
_NUMBERS = frozenset((
    FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.INT24, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.YEAR,
    FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL, FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE,
))  # fmt: skip
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_COMPARED = {"is": "=", "at_least": ">=", "at_most": "<="}

PARAMETERS = (
    Parameter("column", "search: only messages in which this column"),
    Parameter("test", f"is what, one of {', '.join(TESTS)}"),
    Parameter("value", "compared with this"),
)


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched for. `column`: empty where nothing is."""

    column: str = ""
    test: str = "is"
    value: str = ""
    tests: ClassVar[Mapping[str, str]] = TESTS


def requested_search(visit: Visit) -> Search:
    """As the parameters say. Raises BadInput."""
    column = visit.text("column", most=NAME_MAX)
    if not column:
        return Search()
    return Search(column, visit.choice("test", tuple(TESTS), "is"), visit.text("value", most=VALUE_MAX))


def searchable(columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns that can be searched: the user's own, and some of every queue."""
    return tuple(
        column.name
        for column in columns
        if (column.name in _SYSTEM or column.name not in SYSTEM_COLUMNS) and column.type not in _NOT_SEARCHED
    )


def search_sql(search: Search, columns: Sequence[Column]) -> Statement:
    """The condition, empty where nothing is searched for. Raises BadInput."""
    if not search.column:
        return Statement("", ())
    column = next((each for each in columns if each.name == search.column), None)
    if column is None or column.name not in searchable(columns):
        raise BadInput(f"column: this queue has no column {search.column} that can be searched")
    name = name_sql(column.name)
    if search.test in ("null", "not_null"):
        return Statement(f"{name} IS {'NOT ' if search.test == 'not_null' else ''}NULL", ())
    if search.test in ("contains", "begins"):
        return _part(search, column)
    value = _value(search.value, column, columns)
    if column.type == FIELD_TYPE.JSON:
        name = f"CAST({name} AS CHAR)"
    if search.test == "is_not":
        return Statement(f"({name} <> %s OR {name} IS NULL)", (value,))
    return Statement(f"{name} {_COMPARED[search.test]} %s", (value,))


def _part(search: Search, column: Column) -> Statement:
    if not search.value:
        raise BadInput("value: give a part of the value")
    # LOCATE has no characters that mean something else, as LIKE has, and works with text, bytes and numbers.
    place = f"LOCATE(%s, {name_sql(column.name)})"
    value = _bytes(search.value) if is_bytes(column) else search.value
    return Statement(f"{place} > 0" if search.test == "contains" else f"{place} = 1", (value,))


def _value(text: str, column: Column, columns: Sequence[Column]) -> Key:
    if column.name == "id":
        return id_value(text, columns)
    if column.type in _NUMBERS:
        # A server takes a text that is no number for 0.
        number = text.strip()
        if not _NUMBER.fullmatch(number):
            raise BadInput(f"value: the column {column.name} has numbers, and {text[:40]!r} is none")
        return int(number) if re.fullmatch(r"-?[0-9]{1,18}", number) else number
    return _bytes(text) if is_bytes(column) else text


def _bytes(text: str) -> bytes:
    """0x and hexadecimal digits, or the text itself in UTF-8."""
    if re.fullmatch(r"0x(?:[0-9a-fA-F]{2})+", text):
        return bytes.fromhex(text[2:])
    return text.encode()

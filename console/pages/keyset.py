"""Pages of rows by key: what comes after a row in an order, as SQL, and the row as a text for an address. Pure.

OFFSET would read all rows before the page each time. NULL comes first in ascending order and last in descending, as
MySQL, MariaDB and SQLite have it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from console.database import name_sql
from console.visits import BadInput
from rewriter.text.literals import plain_literal

Key = int | str | bytes | Decimal | None
"""A value of a key. Of a date it is the text, which the server compares as the column."""

_TEXT_MAX = 4000
_DECIMAL = re.compile(r"-?[0-9]{1,65}(?:\.[0-9]{1,38})?")


class Ordered(NamedTuple):
    """A column of the order, and its direction."""

    column: str
    descending: bool = False


def order_sql(order: Sequence[Ordered]) -> str:
    """What stands after ORDER BY."""
    return ", ".join(f"{name_sql(each.column)}{' DESC' if each.descending else ''}" for each in order)


def after_sql(order: Sequence[Ordered], row: Sequence[Key]) -> tuple[str, list[Key]]:
    """The condition that is true for what comes after the row, and its values."""
    choices: list[str] = []
    values: list[Key] = []
    for place, (each, value) in enumerate(zip(order, row, strict=True)):
        later = _later(each, value)
        if later is None:
            continue
        equal = [_equal(before, prefix_value) for before, prefix_value in zip(order[:place], row[:place], strict=True)]
        choices.append(" AND ".join([*(sql for sql, _ in equal), later[0]]))
        values += [*(prefix_value for _, prefix_values in equal for prefix_value in prefix_values), *later[1]]
    return f"({' OR '.join(f'({choice})' for choice in choices)})" if choices else "(1 = 0)", values


def _later(each: Ordered, value: Key) -> tuple[str, list[Key]] | None:
    """What comes later by this column alone; None: nothing does."""
    name = name_sql(each.column)
    if value is None:
        return None if each.descending else (f"{name} IS NOT NULL", [])
    return (f"({name} < %s OR {name} IS NULL)" if each.descending else f"{name} > %s"), [value]


def _equal(each: Ordered, value: Key) -> tuple[str, list[Key]]:
    name = name_sql(each.column)
    return (f"{name} IS NULL", []) if value is None else (f"{name} = %s", [value])


def as_text(row: Sequence[Any]) -> str:
    """A row's key, for an address."""
    plain = [_member(key_of(value)) for value in row]
    return base64.urlsafe_b64encode(json.dumps(plain, ensure_ascii=False).encode()).decode()


def _member(value: Key) -> object:
    match value:
        case bytes():
            return {"x": value.hex()}
        case Decimal():
            return {"d": str(value)}
        case _:
            return value


def _value(member: Any) -> Key:
    """The inverse. Raises ValueError, KeyError, TypeError."""
    if not isinstance(member, dict):
        return member  # type: ignore[no-any-return]
    return bytes.fromhex(member["x"]) if "x" in member else decimal_of(member["d"])


def decimal_of(text: str) -> Decimal:
    """A value of a DECIMAL column. A server compares it with a text as floating-point numbers, which may be equal where
    these differ. Raises ValueError, TypeError."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    return Decimal(text)


def key_of(value: Any) -> Key:
    """A value of a row as a key."""
    match value:
        case None | int() | str() | bytes() | Decimal():
            return value
        case date() | timedelta():
            return plain_literal(value).strip("'")
        case _:
            return str(value)


def from_text(text: str, length: int) -> list[Key]:
    """The inverse. Raises BadInput."""
    try:
        members = json.loads(base64.b64decode(text.encode("ascii")[:_TEXT_MAX], altchars=b"-_", validate=True))
        row = list(map(_value, members))
        "".join(value for value in row if isinstance(value, str)).encode()  # which refuses surrogates
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise BadInput("after: is not a key of a page of this console") from None
    plain = all(
        value is None or (isinstance(value, int | str | bytes | Decimal) and value is not True) for value in row
    )
    if len(row) != length or not plain:
        raise BadInput("after: is not a key of this page")
    return row

"""Pages of rows by key: what comes after a row in an order, as SQL, and the row as a text for an address. Pure.

OFFSET would read all rows before the page each time. NULL comes first in ascending order and last in descending, as
MySQL, MariaDB and SQLite have it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import NamedTuple

from console.database import name_sql
from console.visits import BadInput

Key = int | str | bytes | None
_TEXT_MAX = 4000


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


def as_text(row: Sequence[Key]) -> str:
    """A row's key, for an address."""
    plain = [{"x": value.hex()} if isinstance(value, bytes) else value for value in row]
    return base64.urlsafe_b64encode(json.dumps(plain, ensure_ascii=False).encode("utf-8", "surrogatepass")).decode()


def from_text(text: str, length: int) -> list[Key]:
    """The inverse. Raises BadInput."""
    try:
        members = json.loads(base64.b64decode(text.encode("ascii")[:_TEXT_MAX], altchars=b"-_", validate=True))
        row = [bytes.fromhex(value["x"]) if isinstance(value, dict) else value for value in members]
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise BadInput("after: is not a key of a page of this console") from None
    plain = all(value is None or (isinstance(value, int | str | bytes) and value is not True) for value in row)
    if len(row) != length or not plain:
        raise BadInput("after: is not a key of this page")
    return row

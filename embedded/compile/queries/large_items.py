"""A row that names large values again and again is as large as all of them, and no such large row was ever stored.

A stored row has a limit of its own, so each of its columns may be selected once without being counted. What is selected
beyond that counts toward the bytes that a statement's functions return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from embedded.compile.compilation import Compilation
from embedded.compile.expressions.comparison import sort_collation
from embedded.compile.expressions.typed import Typed
from embedded.compile.values.types import TEXTUAL, Kind, text_width

FREE = 4  # items that repeat a value, or make one of others, before they are counted: a function call for each row
_SHORT = 65_535  # characters of an item that is not counted: what TEXT has


def counted_items(compilation: Compilation, columns: Sequence[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
    """The items of a select list as they are written; they are compared, sorted and grouped by as they were."""
    if compilation.inline or len(columns) <= FREE:
        return list(columns)
    seen: set[tuple[str, str]] = set()
    repeated = 0
    result: list[tuple[str, Typed]] = []
    for name, value in columns:
        if _is_large(value) and not _is_first(value, seen):
            repeated += 1
            if repeated > FREE:
                value = _counted(compilation, value)
        result.append((name, value))
    return result


def _is_large(value: Typed) -> bool:
    """A value that is bound is counted there, and our functions count what they return."""
    if value.slot is not None or value.sql.startswith("qg_"):
        return False
    return value.type.kind in TEXTUAL | {Kind.JSON, Kind.BINARY} and text_width(value.type) > _SHORT


def _is_first(value: Typed, seen: set[tuple[str, str]]) -> bool:
    if value.origin is None:
        return False
    column = (value.origin.table, value.origin.column.name)
    first = column not in seen
    seen.add(column)
    return first


def _counted(compilation: Compilation, value: Typed) -> Typed:
    collation = sort_collation(replace(value, collated=False))
    return replace(value, sql=f"{compilation.counted(value.sql)}{collation}", collated=True)

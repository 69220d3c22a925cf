"""INSERT ... VALUES with many rows: cut into rows, so that the plan is that of one row and the rest are only values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from embedded.compile.text.literal_lifting import MARK

_NAME = r"(?>`(?:[^`]|``)*`|[\w$]++)"
_HEAD = re.compile(
    r"(?:INSERT|REPLACE)(?>(?:\s++(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|INTO)(?![\w$]))*)\s*+"
    rf"{_NAME}(?>(?:\s*+\.\s*+{_NAME})?)\s*+(?>(?:\((?>(?:{_NAME}|[\s,.])*)\))?)\s*+VALUES?\s*(?=\()",
    re.I,
)
_PLAIN_ROW = re.compile(r"\([^()`]*\)")
_PIECE = re.compile(r"`(?:[^`]|``)*`|[()]")
_COMMA = re.compile(r"\s*,\s*(?=\()")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the statement's shape with this row alone, and which of the statement's slots it uses."""

    shape: str
    slots: tuple[range, ...]


def split_rows(shape: str) -> list[Row] | None:
    """The rows of an INSERT ... VALUES; None for any other statement, or where there is but one row."""
    head = _HEAD.match(shape)
    if head is None:
        return None
    spans, end = _row_spans(shape, head.end())
    if len(spans) < 2:
        return None
    before, after = shape[: head.end()], shape[end:]
    slot = before.count(MARK)
    leading = range(slot)
    counts = [shape.count(MARK, start, stop) for start, stop in spans]
    tail = range(slot + sum(counts), slot + sum(counts) + after.count(MARK))
    rows = []
    for (start, stop), count in zip(spans, counts, strict=True):
        rows.append(Row(f"{before}{shape[start:stop]}{after}", (leading, range(slot, slot + count), tail)))
        slot += count
    return rows


def _row_spans(shape: str, position: int) -> tuple[list[tuple[int, int]], int]:
    spans: list[tuple[int, int]] = []
    while position < len(shape) and shape[position] == "(":
        plain = _PLAIN_ROW.match(shape, position)
        end = plain.end() if plain is not None else _closing(shape, position)
        if end < 0:
            return [], position
        spans.append((position, end))
        comma = _COMMA.match(shape, end)
        if comma is None:
            return spans, end
        position = comma.end()
    return spans, position


def _closing(shape: str, position: int) -> int:
    depth = 0
    for match in _PIECE.finditer(shape, position):
        if match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1

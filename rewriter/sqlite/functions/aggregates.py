"""Aggregate functions that SQLite lacks."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cmp_to_key, reduce
from operator import and_, or_, xor
from typing import Any

from rewriter.sqlite.errors import unsupported
from rewriter.sqlite.functions.exact_numbers import ExactSum
from rewriter.sqlite.functions.json_keys import JsonMax, JsonMin

CONCAT_MAX = 16 << 20
"""Characters of one GROUP_CONCAT. To join more holds the interpreter for longer than others may wait."""

_MASK = 0xFFFFFFFFFFFFFFFF


class GroupConcat:
    """GROUP_CONCAT(text, separator, distinct, folded, [key, direction]...).

    A direction is 1 or -1, and twice that where the letters' case counts.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[str, tuple[Any, ...]]] = []
        self.seen: set[str] = set()
        self.separator = ","
        self.size = 0
        self.directions: tuple[int, ...] = ()

    def step(self, text: Any, separator: str, distinct: int, folded: int, *order: Any) -> None:
        self.separator = separator
        self.directions = order[1::2]
        if text is None:
            return
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        if distinct:
            key = text.lower() if folded else text
            if key in self.seen:
                return
            self.seen.add(key)
        self.size += len(text) + len(separator)
        if self.size > CONCAT_MAX:
            raise unsupported(f"a GROUP_CONCAT of more than {CONCAT_MAX} characters", "read the rows")
        self.rows.append((text, order[::2]))

    def finalize(self) -> str | None:
        if not self.rows:
            return None
        rows = self.rows
        if self.directions:
            rows = sorted(rows, key=cmp_to_key(self._compare))
        return self.separator.join(text for text, _ in rows)

    def _compare(self, one: tuple[str, tuple[Any, ...]], other: tuple[str, tuple[Any, ...]]) -> int:
        for left, right, direction in zip(one[1], other[1], self.directions, strict=True):
            result = _order(left, right, abs(direction) == 1)
            if result:
                return result * direction
        return 0


def _order(left: Any, right: Any, folded: bool) -> int:
    """NULL first, then as SQLite orders values."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, str) and isinstance(right, str):
        left, right = (left.lower(), right.lower()) if folded else (left, right)
    elif isinstance(left, (str, bytes)) != isinstance(right, (str, bytes)):
        return 1 if isinstance(left, (str, bytes)) else -1
    return int(left > right) - int(left < right)


def _statistic(function: Callable[[list[float]], float], fewest: int) -> Callable[[], Any]:
    class Statistic:
        def __init__(self) -> None:
            self.values: list[float] = []

        def step(self, value: Any) -> None:
            if value is not None:
                self.values.append(float(value))

        def finalize(self) -> float | None:
            return float(function(self.values)) if len(self.values) >= fewest else None

    return Statistic


def _bits(start: int, operator: Callable[[int, int], int]) -> Callable[[], Any]:
    class Bits:
        def __init__(self) -> None:
            self.values: list[int] = []

        def step(self, value: Any) -> None:
            if value is not None:
                self.values.append(int(value) & _MASK)

        def finalize(self) -> int:
            result = reduce(operator, self.values, start)
            return result - (1 << 64) if result >= 1 << 63 else result

    return Bits


AGGREGATES: tuple[tuple[str, int, Callable[[], Any]], ...] = (
    ("qg_group_concat", -1, GroupConcat),
    ("qg_exact_sum", 1, ExactSum),
    ("qg_json_max", 1, JsonMax),
    ("qg_json_min", 1, JsonMin),
    ("qg_std", 1, _statistic(statistics.pstdev, 1)),
    ("qg_stddev_samp", 1, _statistic(statistics.stdev, 2)),
    ("qg_var_pop", 1, _statistic(statistics.pvariance, 1)),
    ("qg_var_samp", 1, _statistic(statistics.variance, 2)),
    ("qg_bit_and", 1, _bits(_MASK, and_)),
    ("qg_bit_or", 1, _bits(0, or_)),
    ("qg_bit_xor", 1, _bits(0, xor)),
)

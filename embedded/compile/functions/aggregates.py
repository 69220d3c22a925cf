"""Aggregate functions that SQLite lacks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cmp_to_key
from operator import and_, or_, xor
from sys import getsizeof
from typing import Any

from embedded.compile.errors import unsupported
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.exact_numbers import ExactSum, SumAndCount
from embedded.compile.functions.json_keys import JsonMax, JsonMin

CONCAT_MAX = 16 << 20
"""Characters of one GROUP_CONCAT. To join more holds the interpreter for longer than others may wait."""

_COPIES = 2  # of what is joined: the parts, and the whole
_MASK = 0xFFFFFFFFFFFFFFFF


class GroupConcat:
    """GROUP_CONCAT(text, separator, distinct, folded, [key, direction]...).

    A direction is 1 or -1, and twice that where the letters' case counts.
    """

    def __init__(self) -> None:
        self.context: CallContext | None = None
        self.rows: list[tuple[str | bytes, tuple[Any, ...]]] = []
        self.seen: set[str | bytes] = set()
        self.separator = ","
        self.size = self.allocated = 0
        self.directions: tuple[int, ...] = ()

    def step(self, text: Any, separator: str, distinct: int, folded: int, *order: Any) -> None:
        self.separator = separator
        self.directions = order[1::2]
        if text is None:
            return
        text = text if isinstance(text, bytes) else str(text)
        if distinct:
            key = text.lower() if folded else text
            if key in self.seen:
                return
            self.seen.add(key)
        self.size += len(text) + len(separator)
        if self.size > CONCAT_MAX:
            raise unsupported(f"a GROUP_CONCAT of more than {CONCAT_MAX} characters", "read the rows")
        self.allocated += _COPIES * getsizeof(text) + sum(map(getsizeof, order[::2]))
        if self.context is not None:
            self.context.allocate(id(self), self.allocated)
        self.rows.append((text, order[::2]))

    def finalize(self) -> str | bytes | None:
        if self.context is not None:
            self.context.allocate(id(self), 0)
        if not self.rows:
            return None
        rows = self.rows
        if self.directions:
            rows = sorted(rows, key=cmp_to_key(self._compare))
        if isinstance(rows[0][0], bytes):
            return self.separator.encode().join(text for text, _ in rows if isinstance(text, bytes))
        return self.separator.join(text for text, _ in rows if isinstance(text, str))

    def _compare(self, one: tuple[Any, tuple[Any, ...]], other: tuple[Any, tuple[Any, ...]]) -> int:
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


class _JsonItems:
    """What JSON_ARRAYAGG and JSON_OBJECTAGG have in common: their members as JSON texts."""

    def __init__(self, brackets: str) -> None:
        self.context: CallContext | None = None
        self.brackets = brackets
        self.items: list[str] = []
        self.size = 0

    def add(self, item: str) -> None:
        self.items.append(item)
        self.size += getsizeof(item)
        if self.context is not None:
            self.context.allocate(id(self), _COPIES * self.size)

    def finalize(self) -> str:
        text = f"{self.brackets[0]}{','.join(self.items)}{self.brackets[1]}"
        if self.context is not None:
            self.context.allocate(id(self), 0)
        return text


class JsonArray(_JsonItems):
    """JSON_ARRAYAGG."""

    def __init__(self) -> None:
        super().__init__("[]")

    def step(self, item: str) -> None:
        self.add(item)


class JsonObject(_JsonItems):
    """JSON_OBJECTAGG."""

    def __init__(self) -> None:
        super().__init__("{}")

    def step(self, key: Any, item: str) -> None:
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
        self.add(f"{json.dumps(name, ensure_ascii=False)}:{item}")


def _statistic(fewest: int, root: bool) -> Callable[[], Any]:
    class Statistic:
        """The mean square of the distances from the mean, value by value (Welford)."""

        def __init__(self) -> None:
            self.count, self.mean, self.squares = 0, 0.0, 0.0

        def step(self, value: Any) -> None:
            if value is not None:
                self.count += 1
                distance = float(value) - self.mean
                self.mean += distance / self.count
                self.squares += distance * (float(value) - self.mean)

        def finalize(self) -> float | None:
            if self.count < fewest:
                return None
            variance = self.squares / (self.count - (fewest - 1))
            return math.sqrt(variance) if root else variance

    return Statistic


def _bits(start: int, operator: Callable[[int, int], int]) -> Callable[[], Any]:
    class Bits:
        def __init__(self) -> None:
            self.result = start

        def step(self, value: Any) -> None:
            if value is not None:
                self.result = operator(self.result, int(value) & _MASK)

        def finalize(self) -> int:
            return self.result - (1 << 64) if self.result >= 1 << 63 else self.result

    return Bits


AGGREGATES: tuple[tuple[str, int, Callable[[], Any]], ...] = (
    ("qg_group_concat", -1, GroupConcat),
    ("qg_exact_sum", 1, ExactSum),
    ("qg_sum_and_count", 1, SumAndCount),
    ("qg_json_arrayagg", 1, JsonArray),
    ("qg_json_objectagg", 2, JsonObject),
    ("qg_json_max", 1, JsonMax),
    ("qg_json_min", 1, JsonMin),
    ("qg_std", 1, _statistic(1, root=True)),
    ("qg_stddev_samp", 1, _statistic(2, root=True)),
    ("qg_var_pop", 1, _statistic(1, root=False)),
    ("qg_var_samp", 1, _statistic(2, root=False)),
    ("qg_bit_and", 1, _bits(_MASK, and_)),
    ("qg_bit_or", 1, _bits(0, or_)),
    ("qg_bit_xor", 1, _bits(0, xor)),
)

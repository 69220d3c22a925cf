"""Counts: what of a queue's table is counted and listed for those who watch it. Reads alone, outside any transaction.

Each is bounded (engine.store.statements.census), so that the largest table costs about half a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from engine.backend.base import StoreConnection, StorePool
from engine.model.key_range import KeyRange
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueSpec
from engine.store.base import LeasedMessage
from engine.store.census import Census, RangeCount, take_census
from engine.store.operations import due_messages
from engine.store.statements.census import COUNTED_MAX, CensusStatements
from engine.store.statements.dialect import Dialect

RANGES_AT_ONCE_MAX = 64
"""Key ranges counted in one statement: each adds four sums to it."""


class Counts:
    """See the module. The methods are those of CountStore."""

    def __init__(self, pool: StorePool, dialect: Dialect) -> None:
        self._pool, self._dialect = pool, dialect

    async def census(self, queue: QueueSpec) -> Census:
        statements = CensusStatements(self._dialect, queue)
        return await self._pool.read(lambda connection: take_census(connection, statements))

    async def leased_messages(self, queue: QueueSpec, limit: int) -> list[LeasedMessage]:
        statements = CensusStatements(self._dialect, queue)
        return await self._pool.read(
            lambda connection: due_messages.leased_messages(connection, statements, queue, limit)
        )

    async def ranges(self, queue: QueueSpec, ranges: Sequence[KeyRange]) -> list[RangeCount]:
        statements = CensusStatements(self._dialect, queue)
        counts: list[RangeCount] = []
        for start in range(0, len(ranges), RANGES_AT_ONCE_MAX):
            some = ranges[start : start + RANGES_AT_ONCE_MAX]
            sql = statements.ranges(some)
            counts += await self._pool.read(partial(_range_counts, sql=sql, ranges=some))
        bounded = sum(count.ready + count.later + count.in_flight for count in counts) >= COUNTED_MAX
        return [replace(count, bounded=bounded) for count in counts]


def _range_counts(connection: StoreConnection, sql: str, ranges: Sequence[KeyRange]) -> list[RangeCount]:
    row = connection.query(sql)[0]
    now_ns, each = int(row[0]), [row[start : start + 4] for start in range(1, len(row), 4)]
    counts = []
    for key_range, (*numbers, oldest) in zip(ranges, each, strict=True):
        unacked, ready, in_flight = (int(number or 0) for number in numbers)
        age = None if oldest is None else max(0, now_ns - int(oldest)) / NS_PER_SECOND
        counts.append(RangeCount(key_range, ready, unacked - ready - in_flight, in_flight, age))
    return counts

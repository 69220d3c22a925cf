"""The census of a queue's table: how many messages are in which state. Blocking; runs in a thread.

Counted by the database over the index of waiting messages, at most COUNTED_MAX entries of it and as many of acked ones,
so that the largest table costs about half a second and none costs more. Where that was not enough, the numbers are what
was counted (`bounded`): there are at least so many.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backend.base import StoreConnection
from engine.model.key_range import KeyRange
from engine.model.option_values import NS_PER_SECOND
from engine.store.statements.census import COUNTED_MAX, LOOKED_UP_MAX, CensusStatements


@dataclass(frozen=True, slots=True)
class Census:
    """Messages by state (engine.model.states). `parked`: rejected and not yet moved, or set aside by hand.

    `oldest_ready_age`: seconds since the oldest ready message became due; None when none is ready, or only messages
    that were made due without a time (time_next NULL or 0). `bounded`: see the module.
    """

    ready: int = 0
    scheduled: int = 0
    retrying: int = 0
    in_flight: int = 0
    parked: int = 0
    acked: int = 0
    oldest_ready_age: float | None = None
    bounded: bool = False

    @property
    def unacked(self) -> int:
        """All that are not acked."""
        return self.ready + self.scheduled + self.retrying + self.in_flight + self.parked


@dataclass(frozen=True, slots=True)
class RangeCount:
    """Unacked messages of a part of a queue's ring. `later`: neither ready nor in flight. `oldest_ready_age`: as
    that of a Census. `bounded`: there are at least so many."""

    key_range: KeyRange
    ready: int = 0
    later: int = 0
    in_flight: int = 0
    oldest_ready_age: float | None = None
    bounded: bool = False


def take_census(connection: StoreConnection, statements: CensusStatements) -> Census:
    """Count one queue's messages."""
    row = connection.query(statements.unacked)[0]
    now_ns, unacked, ready, in_flight, parked = (int(value or 0) for value in row[:5])
    later, scheduled = _later(connection, statements, unacked - ready - in_flight - parked)
    acked = int(connection.query(statements.acked)[0][0])
    return Census(
        ready=ready,
        scheduled=scheduled,
        retrying=later - scheduled,
        in_flight=in_flight,
        parked=parked,
        acked=acked,
        oldest_ready_age=None if row[5] is None else max(0, now_ns - int(row[5])) / NS_PER_SECOND,
        bounded=unacked >= COUNTED_MAX or acked >= COUNTED_MAX or later >= LOOKED_UP_MAX,
    )


def _later(connection: StoreConnection, statements: CensusStatements, expected: int) -> tuple[int, int]:
    """Messages that wait for their time, and how many of them were never delivered. The index has no epochs."""
    if expected <= 0:
        return 0, 0
    count, scheduled = connection.query(statements.later)[0]
    return int(count), int(scheduled or 0)

"""Actions on many messages in pieces: how large a piece is, and how many messages are left to do."""

from __future__ import annotations

from typing import NamedTuple

from console.database import queue_sql
from console.pages.messages.message_verbs import Statement
from console.visits import Visit
from engine.model.queue import QueueName

PIECE = 500
COUNTED_MAX = 100_000
DONE_MAX = 999_999_999


class Count(NamedTuple):
    """How many messages fit a condition; at least so many where it is not `exact`."""

    messages: int
    exact: bool


async def count_of(visit: Visit, queue: QueueName, where: Statement) -> Count:
    """Counted up to COUNTED_MAX. Raises DatabaseError."""
    rows = f"SELECT 1 AS one FROM {queue_sql(queue)} WHERE {where.sql} LIMIT {COUNTED_MAX + 1}"
    answer = await visit.session.database.read(f"SELECT COUNT(*) AS n FROM ({rows}) AS counted", *where.values)
    counted = int(answer.rows[0]["n"])
    return Count(min(counted, COUNTED_MAX), counted <= COUNTED_MAX)

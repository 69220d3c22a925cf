"""Rejected messages in SQL: found, and moved into the dead-letter queue. Blocking; runs in a thread.

A move is one transaction: the rows are locked, copied, and deleted, and what is locked by others is passed over. A
crash leaves all of it or nothing, and two proxies never move the same message twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.base import StoreConnection
from engine.model.errors import BackendError
from engine.model.identity import from_text, id_kind
from engine.model.queue import Layout, MessageId, QueueSpec
from engine.store.operations.due_messages import PRIORITY_LEVELS_MAX, id_column, not_null
from engine.store.statements.dead_letters import DeadLetterStatements


def rejected(
    connection: StoreConnection, statements: DeadLetterStatements, queue: QueueSpec, limit: int
) -> list[MessageId]:
    """MessageStore.rejected."""
    finding = _Finding(connection, queue, limit)
    if queue.layout is Layout.LEGACY:
        finding.add(statements.of_all)
        return finding.ids
    finding.add(statements.without_level)
    level = connection.query(statements.first_level)[0][0]
    for _ in range(PRIORITY_LEVELS_MAX):
        if level is None or len(finding.ids) >= limit:
            return finding.ids
        finding.add(statements.of_level, level)
        previous, level = level, connection.query(statements.next_level, (level,))[0][0]
    if level is not None:
        finding.add(statements.of_rest, previous)
    return finding.ids


class _Finding:
    """Ids found so far, up to a limit."""

    def __init__(self, connection: StoreConnection, queue: QueueSpec, limit: int) -> None:
        self._connection, self._limit = connection, limit
        self._id = id_column(queue)
        self.ids: list[MessageId] = []

    def add(self, sql: str, *params: object) -> None:
        left = self._limit - len(self.ids)
        if left > 0:
            rows = self._connection.query_text(sql, (*params, left), (self._id,))
            self.ids += [from_text(id_kind(self._id), not_null(row[0])) for row in rows]


def bury(
    connection: StoreConnection,
    statements: DeadLetterStatements,
    queue: QueueSpec,
    dead: QueueSpec,
    ids: Sequence[MessageId],
) -> int:
    """MessageStore.bury."""
    id_ = id_column(queue)
    rows = connection.query_text(statements.lock(len(ids)), ids, (id_,))
    locked = [from_text(id_kind(id_), not_null(row[0])) for row in rows]
    if not locked:
        return 0
    unfit = statements.unfit(dead, len(locked))
    if unfit is not None and connection.query(unfit, locked):
        raise BackendError("a column of the dead-letter queue cannot hold the message's value", 1366)
    connection.execute(statements.forget_acked(dead, len(locked)), locked)
    copy, bound = statements.copy(dead, len(locked))
    copied = connection.execute(copy, (*bound, *locked))
    deleted = connection.execute(statements.delete(len(locked)), locked)
    assert copied == deleted == len(locked), f"copied {copied} and deleted {deleted} of {len(locked)} messages"
    return len(locked)

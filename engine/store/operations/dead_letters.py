"""Rejected messages in SQL: found, and moved into the dead-letter queue. Blocking; runs in a thread.

A move is one transaction: the rows are locked, copied, and deleted, and rows that others have locked are skipped. It is
atomic, and two proxies never move the same message twice.

Ids may start again (DROP, TRUNCATE), and several queues may share one dead-letter queue. So a message whose id another
dead letter has gets a new id there, and its own id is stored in another column. Where that dead letter is the message
itself, it is not copied again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from engine.backend.base import StoreConnection
from engine.model.errors import BackendError
from engine.model.identity import IdKind, from_text, id_kind, id_text, integer_bounds
from engine.model.queue import ColumnMeta, Layout, MessageId, QueueSpec
from engine.store.gate import check_mark
from engine.store.operations.due_messages import INTEGER, PRIORITY_LEVELS_MAX, id_column, not_null, number
from engine.store.statements.dead_letters import DeadLetterStatements

_TRIES = 100
_TEXT_TYPES = frozenset((15, 249, 250, 251, 252, 253, 254))


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
    """The ids so far, up to a limit."""

    def __init__(self, connection: StoreConnection, queue: QueueSpec, limit: int) -> None:
        self._connection, self._limit = connection, limit
        self._id = id_column(queue)
        self.ids: list[MessageId] = []

    def add(self, sql: str, *params: object) -> None:
        left = self._limit - len(self.ids)
        if left > 0:
            rows = self._connection.query_text(sql, (*params, left), (self._id,))
            self.ids += [from_text(id_kind(self._id), not_null(row[0])) for row in rows]


def move_to_dead_letters(
    connection: StoreConnection,
    statements: DeadLetterStatements,
    queue: QueueSpec,
    dead: QueueSpec,
    ids: Sequence[MessageId],
) -> int:
    """MessageStore.move_to_dead_letters."""
    id_ = id_column(queue)
    rows = connection.query_text(statements.lock(len(ids)), ids, (id_,))
    locked = [from_text(id_kind(id_), not_null(row[0])) for row in rows]
    if not locked:
        return 0
    unfit = statements.unfit(dead, len(locked))
    if unfit is not None and connection.query(unfit, locked):
        raise BackendError("a column of the dead-letter queue cannot hold the message's value", 1366)
    if dead.options.dead_letter_of == queue.name.table:
        connection.execute(*statements.forget_acked(dead, locked))
    else:  # other queues use it too, so nothing in it is changed
        connection.query(statements.tables(dead)[1].proof)
    check_mark(connection, *statements.tables(dead))
    taken = _taken(connection, statements, dead, id_, locked)
    copied = sum(taken.values())
    if alike := [one for one in locked if one not in taken]:
        copy, bound = statements.copy(dead, len(alike))
        copied += connection.execute(copy, (*bound, *alike))
    for one in (one for one, same in taken.items() if not same):
        copy, bound = statements.copy_as(dead, _another(connection, statements, dead, one), id_text(one))
        copied += connection.execute(copy, (*bound, one))
    deleted = connection.execute(statements.delete(len(locked)), locked)
    if not copied == deleted == len(locked):  # as where one takes others with it (ON DELETE CASCADE)
        raise BackendError(f"copied {copied} and deleted {deleted} of {len(locked)} messages")
    return len(locked)


def _taken(
    connection: StoreConnection,
    statements: DeadLetterStatements,
    dead: QueueSpec,
    id_: ColumnMeta,
    ids: Sequence[MessageId],
) -> dict[MessageId, bool]:
    """Those of these ids that dead letters have, and whether it is the same message."""
    sql, bound = statements.taken(dead, len(ids))
    rows = connection.query_text(sql, (*bound, *ids), (id_, INTEGER))
    return {from_text(id_kind(id_), not_null(row[0])): row[1] == b"1" for row in rows}


def _another(
    connection: StoreConnection, statements: DeadLetterStatements, dead: QueueSpec, id_: MessageId
) -> MessageId:
    """An id that no dead letter has, in place of this one. Raises BackendError where none is possible."""
    column = id_column(dead)
    kind, has = id_kind(column), statements.has(dead)
    candidates: Iterator[MessageId]
    if kind is IdKind.INTEGER:
        ((lowest, highest),) = connection.query_text(statements.ends_of_ids(dead), (), (INTEGER, INTEGER))
        candidates = _numbers(column, number(lowest) or 0, number(highest) or 0)
    else:
        candidates = _texts(column, id_)
    for candidate in candidates:
        if not connection.query(has, (candidate,)):
            return candidate
    raise BackendError(f"no dead letter can have another id than {id_text(id_)}, which is taken", 1062, "23000")


def _numbers(column: ColumnMeta, lowest: int, highest: int) -> Iterator[int]:
    """Below 0, which nobody else gives; where the column has no such, above all others; else whatever is free."""
    bounds = integer_bounds(column)
    if bounds is None:
        return  # a YEAR
    if (below := min(lowest, 0) - 1) >= bounds[0]:
        yield below
    elif highest < bounds[1]:
        yield highest + 1
    else:
        yield from (bounds[1] // part for part in range(2, _TRIES))


def _texts(column: ColumnMeta, id_: MessageId) -> Iterator[MessageId]:
    """Digests of the id, as long as the column takes them."""
    whole = id_ if isinstance(id_, bytes) else id_text(id_).encode()
    binary = id_kind(column) is IdKind.BINARY
    if column.type not in _TEXT_TYPES:
        return  # a date, or a decimal
    for attempt in range(_TRIES):
        digest = hashlib.sha256(b"%d:%b" % (attempt, whole)).hexdigest()
        cut = digest[: column.length // (1 if binary else 4)]
        yield cut.encode() if binary else cut

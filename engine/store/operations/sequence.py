"""The step that assigns sequence numbers to committed messages of a topic (ADR 13). Blocking; runs in a thread, inside
a transaction of its caller at READ COMMITTED.

Every step changes the topic's row in the table of positions. So of two concurrent steps one fails, on one server as on
a cluster, and numbers are assigned once, without gaps, and become visible in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.backend.base import Statement, StoreConnection
from engine.backend.servers import has_invisible_columns
from engine.model.sequence import NumberingResult, Sequencing
from engine.store.gate import check_mark
from engine.store.statements.dialect import Dialect
from engine.store.statements.sequence import SequenceStatements

STEP_MAX = 500
"""Messages of a step: 34 ms, during which a client that changes one of them on another node gets error 1213."""

EXAMINED_MAX = 50_000
"""Messages among which a step searches for unlocked ones, where the first STEP_MAX are all locked."""


def sequencing(connection: StoreConnection, dialect: Dialect) -> Sequencing:
    """Whether topics can have numbers in this database, or must have them."""
    if connection.replicates:
        return Sequencing.NEEDED
    if not dialect.lock:
        return Sequencing.ONE_WRITER
    version = str(connection.query("SELECT VERSION()")[0][0])
    return Sequencing.POSSIBLE if has_invisible_columns(version) else Sequencing.TOO_OLD


def step(connection: StoreConnection, statements: SequenceStatements) -> NumberingResult:
    """Assign numbers to the next messages.

    Raises:
        BackendError: no number was assigned: 1213 or 1062 where another step was faster, 1146 without the table of
            positions, 1205 where another step locks the topic's row for long.
    """
    row = connection.query(statements.position.lock, (statements.key,))
    ids, most, examined, free = list[int](), 0, 0, list[int]()
    for most in (STEP_MAX, EXAMINED_MAX):
        # A plain read, by one statement: its rows are of one moment. A locking read could return a message and miss one
        # that was committed before that message was inserted.
        ids = sorted(_ids(connection.query(statements.unnumbered, (most,))))
        examined, free = _free(connection, statements, ids)
        if free or len(ids) < most:
            break
    if not free:
        return NumberingResult(0, False, bool(ids))
    # The table may have larger numbers than the row: it was restored without the row.
    check_mark(connection, statements.table)
    assigned = int(row[0][0]) if row else 0
    last = max(assigned, int(connection.query(statements.last)[0][0]))
    end = last + len(free)
    values = (end, end, "[]", statements.key)
    count = Statement(statements.position.write if row else statements.position.insert, values)
    connection.run([Statement(statements.number(len(free)), (last, *free, *free)), count], last=True)
    return NumberingResult(len(free), examined < len(ids) or len(ids) == most, len(free) < examined)


def _free(connection: StoreConnection, statements: SequenceStatements, ids: Sequence[int]) -> tuple[int, list[int]]:
    """The first unlocked ones of these messages, in order, up to STEP_MAX; and how many were examined."""
    for start in range(0, len(ids), STEP_MAX):
        chunk = ids[start : start + STEP_MAX]
        free = set(_ids(connection.query(statements.free(len(chunk)), chunk)))
        # A commit makes its rows visible a moment before it releases their locks. They must not lose their turn.
        if left := [id_ for id_ in chunk if id_ not in free]:
            free.update(_ids(connection.query(statements.free(len(left)), left)))
        if free:
            return start + len(chunk), sorted(free)
    return len(ids), []


def _ids(rows: Iterable[Sequence[object]]) -> list[int]:
    return [int(str(row[0])) for row in rows]

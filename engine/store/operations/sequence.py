"""The step by which committed messages of a topic are given their sequence numbers (ADR 13). Blocking; runs in a
thread, inside a transaction of its caller at READ COMMITTED.

Every step changes the topic's row in the table of positions. So of two steps that did not see each other one ends with
an error, on one server as on a cluster, and numbers are given once, without gaps, and become visible in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.backend.base import Statement, StoreConnection
from engine.backend.servers import has_invisible_columns
from engine.model.sequence import Numbered, Sequencing
from engine.store.gate import check_mark
from engine.store.statements.dialect import Dialect
from engine.store.statements.sequence import SequenceStatements

STEP_MAX = 500
"""Messages of a step: 34 ms, in which a client that changes one of them on another node gets error 1213."""

LOOKED_THROUGH_MAX = 50_000
"""Messages among which a step looks for some that nobody has locked, where the first STEP_MAX are all locked."""


def sequencing(connection: StoreConnection, dialect: Dialect) -> Sequencing:
    """Whether topics can have numbers in this database, or have to."""
    if connection.replicates:
        return Sequencing.NEEDED
    if not dialect.lock:
        return Sequencing.ONE_WRITER
    version = str(connection.query("SELECT VERSION()")[0][0])
    return Sequencing.POSSIBLE if has_invisible_columns(version) else Sequencing.TOO_OLD


def step(connection: StoreConnection, statements: SequenceStatements) -> Numbered:
    """Give the next messages their numbers.

    Raises:
        BackendError: no number was given: 1213 or 1062 where another step was faster, 1146 without the table of
            positions, 1205 where another step holds the topic's row for long.
    """
    row = connection.query(statements.position.lock, (statements.key,))
    found, most, looked, free = list[int](), 0, 0, list[int]()
    for most in (STEP_MAX, LOOKED_THROUGH_MAX):
        # Read plainly, by one statement: what it finds is as of one moment. Were the rows locked while they are looked
        # for, a message could be found and one that was committed when it was inserted be missed.
        found = sorted(_ids(connection.query(statements.unnumbered, (most,))))
        looked, free = _free(connection, statements, found)
        if free or len(found) < most:
            break
    if not free:
        return Numbered(0, False, bool(found))
    # The table may have larger numbers than the row says: it was restored without it.
    check_mark(connection, statements.table)
    given = int(row[0][0]) if row else 0
    last = max(given, int(connection.query(statements.last)[0][0]))
    end = last + len(free)
    values = (end, end, "[]", statements.key)
    count = Statement(statements.position.write if row else statements.position.insert, values)
    connection.run([Statement(statements.number(len(free)), (last, *free, *free)), count], last=True)
    return Numbered(len(free), looked < len(found) or len(found) == most, len(free) < looked)


def _free(connection: StoreConnection, statements: SequenceStatements, ids: Sequence[int]) -> tuple[int, list[int]]:
    """The first of these messages, in order, that nobody has locked, up to STEP_MAX; and how many were looked at."""
    for start in range(0, len(ids), STEP_MAX):
        asked = ids[start : start + STEP_MAX]
        free = set(_ids(connection.query(statements.free(len(asked)), asked)))
        # A commit shows its rows a moment before it lets go of their locks. They are not to lose their turn for that.
        if left := [id_ for id_ in asked if id_ not in free]:
            free.update(_ids(connection.query(statements.free(len(left)), left)))
        if free:
            return start + len(asked), sorted(free)
    return len(ids), []


def _ids(rows: Iterable[Sequence[object]]) -> list[int]:
    return [int(str(row[0])) for row in rows]

"""The step that assigns sequence numbers to committed messages of a topic (ADR 13). Blocking; runs in a thread, inside
a transaction of its caller at READ COMMITTED.

Every step changes the topic's row in the table of positions. So of two concurrent steps one fails, on one server as on
a cluster, and numbers are assigned once, without gaps, and become visible in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.backend.base import Statement, StoreConnection
from engine.backend.servers import has_invisible_columns
from engine.model.queue import SEQUENCE_COLUMN, TopicSpec, quoted
from engine.model.sequence import NumberingResult, Sequencing
from engine.store.gate import check_mark
from engine.store.statements.dialect import Dialect, placeholders
from engine.store.statements.topics import PositionStatements, numbers_of

# Every statement that assigns sequence numbers to messages of a topic. Values are bound, never spliced.

_ON_UPDATE_NOW = 8192  # the protocol's flag of a column that an UPDATE sets to the time, unless it names it


class SequenceStatements:
    """The statements for one topic with numbers. The last assigned number is in the table of positions, in a row of the
    topic: `key` is its name there. A group's row has the name of the group's table, which differs."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        self.table = dialect.gate.of(topic)
        self._skip_locked = dialect.skip_locked
        self.position = PositionStatements(dialect, topic.name.database)
        self.key = topic.name.table
        unnumbered = f"FROM {numbers_of(dialect, topic)} WHERE {SEQUENCE_COLUMN} IS NULL"
        self.unnumbered = f"SELECT id {unnumbered} LIMIT ?"
        """The first messages without a number: entries of the index on the numbers, where they are in the order of
        their ids. There is no ORDER BY, because MariaDB would sort all messages without a number."""

        self.last_unnumbered = f"SELECT MAX(id) {unnumbered}"
        """The last message without a number; NULL where all have one."""

        self.last = f"SELECT COALESCE(MAX({SEQUENCE_COLUMN}), 0) FROM {self.table}"
        """The largest number in the table."""

        untouched = [quoted(column.name) for column in topic.columns if column.flags & _ON_UPDATE_NOW]
        self._untouched = "".join(f", {name} = {name}" for name in untouched)

    def free(self, count: int) -> str:
        """Those of so many messages that have no number and can be locked at once, locked."""
        select = f"SELECT id FROM {self.table} WHERE id IN ({placeholders(count)}) AND {SEQUENCE_COLUMN} IS NULL"
        return f"{select} {self._skip_locked}".rstrip()

    def number(self, count: int) -> str:
        """Assign the next numbers. Parameters: the last assigned number, the ids in order, the ids again."""
        ids = placeholders(count)
        return f"UPDATE {self.table} SET {SEQUENCE_COLUMN} = ? + FIELD(id, {ids}){self._untouched} WHERE id IN ({ids})"


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

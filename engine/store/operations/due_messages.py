"""The poll in SQL: what is due, in delivery order, and when the next message becomes due. Blocking; runs in a thread.

It reads level by level of priority, because no supported database does a skip scan: on (time_acked, priority,
time_next) each level is one statement that reads only the rows it returns, however many are postponed or acked. It
stops when it has enough; then `next_due_ns` covers the levels read, and messages of later levels come after them
anyway. The first level is mostly the same as last time, and few messages are due. So the first rows of that level are
read in the same round trip that asks which level is first. It is only read like the others if those rows are not
sufficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backend.base import Statement, StoreConnection
from engine.model.identity import from_text, id_kind
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import ColumnMeta, Layout, MessageKey, QueueSpec, TextValue
from engine.model.states import REJECTED_NS
from engine.store.base import LeasedMessage, PollResult
from engine.store.statements.census import CensusStatements
from engine.store.statements.queue import QueueStatements

PRIORITY_LEVELS_MAX = 32
"""Levels read one by one, about 0.2 ms each; the levels after these are read together, by a scan of the index."""

PEEK_ROWS = 16
"""Rows read of the guessed level: enough for a few commits at a time, and cheap where the guess is wrong."""

_LONGLONG, _BINARY = 8, 63
Row = tuple[TextValue, ...]
INTEGER = ColumnMeta(name="n", type=_LONGLONG, charset=_BINARY)
"""The metadata of a computed integer."""


def id_column(queue: QueueSpec) -> ColumnMeta:
    """The metadata of the queue's id."""
    column = queue.column("id")
    assert column is not None, "a table without an id is rejected by the catalog"
    return column


def not_null(value: TextValue) -> bytes:
    """A value that cannot be NULL."""
    assert value is not None, "NULL where the statement yields none"
    return value


@dataclass(slots=True)
class LevelGuess:
    """The first level of a queue's last poll, None where that had more rows than a peek returns.

    A wrong guess costs a round trip, a useless peek (a backlog) a tenth of a poll; neither changes the result.
    """

    priority: int | None = None


def poll(
    connection: StoreConnection, statements: QueueStatements, queue: QueueSpec, limit: int, guess: LevelGuess
) -> PollResult:
    """See the module."""
    reading = _Reading(connection, statements, queue, limit)
    if queue.layout is Layout.LEGACY:
        reading.read_unlevelled()
    else:
        reading.read_levels(guess)
    return reading.result()


def poll_and_run(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    limit: int,
    guess: LevelGuess,
    also: Statement,
) -> tuple[PollResult, Sequence[Row]]:
    """The same for a queue with levels, and the rows of one more statement, which runs in the first round trip."""
    reading = _Reading(connection, statements, queue, limit, also)
    reading.read_levels(guess)
    return reading.result(), reading.rows_of_also


@dataclass(frozen=True, slots=True)
class _Peeked:
    """The first rows (id, priority, time_next) of the guessed level, and the level after it."""

    rows: Sequence[Row]
    next_priority: int | None


class _Reading:
    """One poll in progress."""

    def __init__(
        self,
        connection: StoreConnection,
        statements: QueueStatements,
        queue: QueueSpec,
        limit: int,
        also: Statement | None = None,
    ) -> None:
        self._connection, self._statements = connection, statements
        self._also = () if also is None else (also,)
        self.rows_of_also: Sequence[Row] = ()
        self._limit = limit
        id_ = id_column(queue)
        self._kind = id_kind(id_)
        self._columns = (INTEGER, id_, INTEGER, INTEGER)
        self._now_ns = 0
        self._keys: list[MessageKey] = []
        self._next_due_ns: int | None = None

    def result(self) -> PollResult:
        self._keys.sort(key=lambda key: (key.priority, key.due_ns))
        more = len(self._keys) > self._limit
        return PollResult(self._now_ns, tuple(self._keys[: self._limit]), self._next_due_ns, more)

    def read_unlevelled(self) -> None:
        self._now_ns = int(self._connection.query(self._statements.now)[0][0])
        self._read(self._statements.poll.legacy, ())

    def read_levels(self, guess: LevelGuess) -> None:
        first = self._read_levels(guess.priority)
        if len(self._keys) >= PEEK_ROWS:
            guess.priority = None
        elif first is not None:
            guess.priority = first

    def _read_levels(self, guess: int | None) -> int | None:
        """Returns the first level, where there is one."""
        first, unprioritised, peeked = self._start(guess)
        if unprioritised:
            self._read(self._statements.poll.no_priority, ())
        # NULL counts as 0, and negative levels precede it: so it does not count towards having enough.
        enough = len(self._keys) + self._limit
        priority = first
        if first is not None and first == guess and self._take_peeked(peeked.rows):
            priority = peeked.next_priority
        for _ in range(PRIORITY_LEVELS_MAX):
            if priority is None or len(self._keys) > enough:
                return first
            priority = self._read(self._statements.poll.priority, (priority,), next_level=(priority,))
        if priority is not None and len(self._keys) <= enough:
            self._read(self._statements.poll.rest, (priority,))
        return first

    def _start(self, guess: int | None) -> tuple[int | None, bool, _Peeked]:
        """The first level, whether there are messages without one, and the first rows of the guessed level."""
        statements = [Statement(self._statements.poll.start, (guess,), (INTEGER,) * 4)]
        if guess is not None:
            statements.append(Statement(self._statements.poll.peek, (guess, PEEK_ROWS), self._columns[1:]))
        (start,), *peeked = [answer.rows for answer in self._connection.run([*statements, *self._also])]
        if self._also:
            self.rows_of_also = peeked.pop()
        now_ns, first, unprioritised, following = start
        self._now_ns = int(not_null(now_ns))
        seen = _Peeked(peeked[0] if peeked else (), number(following))
        return number(first), unprioritised != b"0", seen

    def _take_peeked(self, rows: Sequence[Row]) -> bool:
        """Add the first rows of a level, if they are all that is due in it."""
        later = [time_next for _, _, time_next in rows if time_next is not None and int(time_next) > self._now_ns]
        if not later and len(rows) == PEEK_ROWS:
            return False
        for id_, priority, time_next in rows[: len(rows) - len(later)]:
            self._add(id_, priority, time_next)
        if later:
            self._note_due(later[0])
        return True

    def _read(self, sql: str, level: tuple[int, ...], next_level: tuple[int, ...] = ()) -> int | None:
        """Add one statement's keys; returns the next level, where the statement yields it."""
        now, limit = self._now_ns, self._limit + 1  # one more shows whether more is due
        params = (*level, limit, *level, now, limit, *next_level, *level, now)
        following: int | None = None
        for kind, id_, priority, time_next in self._connection.query_text(sql, params, self._columns):
            if kind == b"0":
                self._add(id_, priority, time_next)
            else:
                following = number(priority)
                self._note_due(time_next)
        return following

    def _add(self, id_: TextValue, priority: TextValue, time_next: TextValue) -> None:
        id_value = from_text(self._kind, not_null(id_))
        self._keys.append(MessageKey(int(not_null(priority)), int(time_next or 0), id_value))

    def _note_due(self, time_next: TextValue) -> None:
        due_ns = None if time_next is None else int(time_next)
        if due_ns is not None and due_ns < REJECTED_NS:  # what is set aside never falls due
            self._next_due_ns = due_ns if self._next_due_ns is None else min(self._next_due_ns, due_ns)


def number(value: TextValue) -> int | None:
    """An integer that may be NULL."""
    return None if value is None else int(value)


def leased_messages(
    connection: StoreConnection, statements: CensusStatements, queue: QueueSpec, limit: int
) -> list[LeasedMessage]:
    """MessageStore.leased_messages."""
    id_ = id_column(queue)
    rows = connection.query_text(statements.in_flight, (limit,), (INTEGER, id_, INTEGER, INTEGER, INTEGER))
    messages = []
    for row in rows:
        now_ns, priority, epoch, until_ns = (int(not_null(row[index])) for index in (0, 2, 3, 4))
        left = (until_ns - now_ns) / NS_PER_SECOND
        messages.append(LeasedMessage(from_text(id_kind(id_), not_null(row[1])), priority, epoch, until_ns, left))
    return messages

"""A step of a scan in SQL: due messages for which a condition is true. Blocking; runs in a thread.

With an age, the table is read as if it were so long ago: what fell due since then is not due, and the result has that
time.

Level by level of priority as in the poll (engine.store.operations.due_messages), and within a level range by range
(engine.store.statements.scan), each read up to `span` messages. It stops at the end of a full page, or after some
levels, and returns where to continue.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.base import Settings, Statement, StoreConnection
from engine.model.identity import from_text, id_kind
from engine.model.queue import MessageId, MessageKey, QueueSpec, TextValue
from engine.model.states import REJECTED_NS
from engine.store.base import Page, PollResult, Position, ScanResult
from engine.store.operations.due_messages import INTEGER, id_column, not_null
from engine.store.statements.scan import ScanStatements

LEVELS_MAX = 8
"""Levels in one step: each is a round trip, and may examine a page of its own."""

_EVER_NS = -(1 << 63)

_Range = tuple[tuple[str, str], tuple[object, ...]]


def scan(connection: StoreConnection, statements: ScanStatements, queue: QueueSpec, page: Page) -> ScanResult:
    """MessageStore.scan; the connection already has the condition's settings."""
    step = _Step(connection, statements, queue, page)
    position = step.run()
    keys = tuple(sorted(step.keys, key=lambda key: (key.priority, key.due_ns)))
    return ScanResult(PollResult(step.now_ns, keys, step.next_due_ns, position is not None), position, step.places)


def fitting(
    connection: StoreConnection, sql: str, queue: QueueSpec, settings: Settings, ids: Sequence[MessageId]
) -> list[MessageId]:
    """Those of `ids`, in their order, that the statement yields under these settings."""
    id_ = id_column(queue)
    with connection.reading(settings):
        rows = connection.query_text(sql, ids, (id_,))
    matching = {from_text(id_kind(id_), not_null(row[0])) for row in rows}
    return [one for one in ids if one in matching]


class _Step:
    """One step in progress."""

    def __init__(self, connection: StoreConnection, statements: ScanStatements, queue: QueueSpec, page: Page) -> None:
        self._connection, self._statements, self._page = connection, statements, page
        self._id = id_column(queue)
        self._kind = id_kind(self._id)
        self.now_ns = 0
        self.keys: list[MessageKey] = []
        self.places: dict[MessageId, Position] = {}
        self.next_due_ns: int | None = None

    def run(self) -> Position | None:
        """Returns where to continue."""
        ((now_ns, first, unprioritised),) = self._connection.query_text(self._statements.start, (), (INTEGER,) * 3)
        self.now_ns = int(not_null(now_ns)) - self._statements.age_ns
        first_level = _number(first)
        at = self._page.after
        if at is None:
            at = Position(None if unprioritised != b"0" else first_level)
            if at.priority is None and unprioritised == b"0":
                return None  # nothing waits
        for _ in range(LEVELS_MAX):
            end, following = self._level(at)
            if end is not None:
                return end
            following = first_level if at.priority is None else following
            if following is None:
                return None
            at = Position(following)
        return at

    def _level(self, at: Position) -> tuple[Position | None, int | None]:
        """Read a level from a position on: the end of a full page, if one was; and the next level."""
        ranges = self._ranges(at)
        page = self._page
        batch = []
        for (fits, end), params in ranges:
            batch.append(Statement(fits, (*params, page.span, page.limit), (self._id, INTEGER)))
            batch.append(Statement(end, (*params, page.span - 1), (self._id, INTEGER)))
        level = () if at.priority is None else (at.priority,)
        batch.append(
            Statement(self._statements.after_level(at.priority), (*level, *level, self.now_ns), (INTEGER,) * 2)
        )
        *answers, last = [answer.rows for answer in self._connection.run(batch)]
        ((following, next_due),) = last
        self._note_due(next_due)
        for fitting, ends in zip(answers[::2], answers[1::2], strict=True):
            if (place := self._take(at.priority, fitting, ends)) is not None:
                return place, None
        return None, _number(following)

    def _ranges(self, at: Position) -> list[_Range]:
        texts, priority, now = self._statements, at.priority, self.now_ns
        level: tuple[object, ...] = () if priority is None else (priority,)
        since = _EVER_NS if self._page.floor_ns is None else self._page.floor_ns
        due = (texts.due(priority), (*level, since, now))
        if at.id is None:
            return [(texts.unscheduled(priority), level), due]
        if at.due_ns is None:
            return [(texts.unscheduled_after(priority), (*level, at.id)), due]
        return [
            (texts.of_time(priority), (*level, at.due_ns, at.id)),
            (texts.due(priority), (*level, max(at.due_ns, since), now)),
        ]

    def _take(
        self, priority: int | None, fitting: Sequence[tuple[TextValue, ...]], ends: Sequence[tuple[TextValue, ...]]
    ) -> Position | None:
        """Add the matches; returns where the page ends, if before the end of the range."""
        room = self._page.limit - len(self.keys)
        for row in fitting[:room]:
            place = self._position(priority, row)
            assert place.id is not None
            self.keys.append(MessageKey(priority or 0, place.due_ns or 0, place.id))
            self.places[place.id] = place
        if len(fitting) >= room:
            return self._position(priority, fitting[room - 1])
        return self._position(priority, ends[0]) if ends else None

    def _position(self, priority: int | None, row: tuple[TextValue, ...]) -> Position:
        return Position(priority, _number(row[1]), self._id_of(row[0]))

    def _id_of(self, value: TextValue) -> MessageId:
        return from_text(self._kind, not_null(value))

    def _note_due(self, time_next: TextValue) -> None:
        due_ns = _number(time_next)
        if due_ns is not None and due_ns < REJECTED_NS:
            self.next_due_ns = due_ns if self.next_due_ns is None else min(self.next_due_ns, due_ns)


def _number(value: TextValue) -> int | None:
    return None if value is None else int(value)

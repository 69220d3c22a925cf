"""Feeding a consumer group, and moving it, in SQL. Blocking; runs in a thread, inside a transaction of its caller.

A feeding locks the group's position, copies the next messages of the topic into the group's queue, and writes the new
position. It holds as a whole or not at all, so no message is fed twice or left out, whatever dies in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.backend.base import StoreConnection
from engine.model.errors import BackendError, BackendUnavailable, InvalidOption
from engine.model.queue import QueueName, QueueSpec, Start, StartAt
from engine.model.topics import (
    SETTLE_NS,
    Entry,
    Fed,
    GroupLag,
    GroupPosition,
    Hole,
    OpenTransactions,
    Sought,
    entries,
    read_holes,
    still_awaited,
    unsettled,
)
from engine.store.statements.topics import (
    LATE_MAX,
    OPEN_TRANSACTIONS,
    UNREAD_COUNTED_MAX,
    FeedStatements,
    PositionStatements,
    TopicStatements,
)

_NEWEST = 1000  # ids before a start at the end that are looked through for holes
_RANGES_AT_ONCE = 100


def read_position(connection: StoreConnection, statements: PositionStatements, group: QueueName) -> GroupPosition:
    """How far a group has read. Raises BackendError, 1146 without the table; LookupError without the group's row."""
    return _position(connection.query(statements.read, (group.table,)))


def _position(rows: Sequence[tuple[object, ...]]) -> GroupPosition:
    if not rows:
        raise LookupError("the group has no position")
    offset, highest, holes = rows[0]
    return GroupPosition(int(str(offset)), int(str(highest)), read_holes(str(holes)))


def waits(connection: StoreConnection, statements: FeedStatements, group: QueueSpec) -> bool:
    """Whether there may be something to feed. Outside any transaction: it locks nothing."""
    position = read_position(connection, statements.position, group.name)
    return bool(position.holes or connection.query(statements.topic.beyond, (position.offset, 1)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much to feed: up to `limit` messages, less so many as are due in the group's queue, which are counted up to
    `due_max` (None: they do not count). `checked_ns`: see Fed."""

    limit: int
    due_max: int | None
    checked_ns: int = 0


def feed(connection: StoreConnection, statements: FeedStatements, group: QueueSpec, wanted: Wanted) -> Fed:
    """Feed a group, and give up those of its holes that nobody will fill."""
    topic = statements.topic
    position = _position(connection.query(statements.position.lock, (group.name.table,)))
    due = 0 if wanted.due_max is None else int(connection.query(statements.due, (wanted.due_max,))[0][0])
    page = log_page(connection, topic, position, wanted.limit + 1)
    fresh = page.fresh[: max(0, wanted.limit - due)]
    fresh = fresh[: position.room(fresh)]
    ids = [*page.late, *(entry.id for entry in fresh)]
    fed, checked_ns = position.fed(fresh, page.late, in_order=topic.in_order), wanted.checked_ns
    if fed.holes and (unsettled(fed.holes, page.now_ns) or page.now_ns - checked_ns >= SETTLE_NS):
        fed, checked_ns = replace(fed, holes=awaited(connection, topic, fed.holes)), page.now_ns
    if ids:
        connection.execute(statements.copy(len(ids)), (position.highest, *ids))
    if fed != position:
        write(connection, statements.position, group.name, fed)
    more = len(page.fresh) > len(fresh) or len(page.late) >= LATE_MAX
    return Fed(len(ids), more, checked_ns)


@dataclass(frozen=True, slots=True)
class LogIds:
    """`late`: ids in a reader's holes that are visible. `fresh`: the next messages beyond its offset."""

    late: list[int]
    fresh: list[Entry]
    now_ns: int


def log_page(connection: StoreConnection, statements: TopicStatements, position: GroupPosition, limit: int) -> LogIds:
    """What a reader that has read up to there has before it."""
    late = visible(connection, statements, position.holes)
    rows = [(int(id_), int(created)) for id_, created in connection.query(statements.beyond, (position.offset, limit))]
    now_ns, last = connection.query(statements.now_and_last)[0]
    return LogIds(late, entries(rows, int(last), int(now_ns)), int(now_ns))


def write(
    connection: StoreConnection, statements: PositionStatements, group: QueueName, position: GroupPosition
) -> None:
    """Write the position of a group that has a row."""
    values = (position.offset, position.highest, position.holes_text, group.table)
    connection.execute(statements.write, values)


def _ids(rows: Iterable[Sequence[object]]) -> list[int]:
    return [int(str(row[0])) for row in rows]


def visible(connection: StoreConnection, statements: TopicStatements, holes: Sequence[Hole]) -> list[int]:
    """The ids in these holes that are visible, in order."""
    ids: list[int] = []
    for start in range(0, len(holes), _RANGES_AT_ONCE):
        if len(ids) >= LATE_MAX:
            break
        asked = holes[start : start + _RANGES_AT_ONCE]
        bounds = [bound for hole in asked for bound in (hole.first, hole.last)]
        ids += _ids(connection.query(statements.within(len(asked)), bounds))
    return sorted(ids)


# --- holes that nobody will fill


def awaited(connection: StoreConnection, statements: TopicStatements, holes: Sequence[Hole]) -> tuple[Hole, ...]:
    """The holes that are to be kept: somebody may fill them yet, or has just done so."""
    if not holes:
        return ()
    now_ns = int(connection.query(statements.now)[0][0])
    left = still_awaited(holes, now_ns, _open_transactions(connection))
    # After the list was read: who had ended by then has made visible what it wrote.
    return tuple(holes) if len(left) < len(holes) and visible(connection, statements, holes) else left


def _open_transactions(connection: StoreConnection) -> OpenTransactions | None:
    """None: they are not shown to us."""
    try:
        ((first, last),) = connection.query(OPEN_TRANSACTIONS)
    except BackendUnavailable:
        raise
    except BackendError:
        return None
    return OpenTransactions() if first is None else OpenTransactions(int(first), int(last))


# --- beginnings and seeks


def offset_of(connection: StoreConnection, statements: TopicStatements, start: StartAt) -> int:
    """The offset up to which a reader that begins there counts as having read.

    Raises:
        InvalidOption: an offset beyond the end.
    """
    last = int(connection.query(statements.now_and_last)[0][1])
    match start.start:
        case Start.EARLIEST:
            return 0
        case Start.LATEST:
            return last
        case Start.OFFSET:
            if not 0 <= start.value <= last + 1:
                raise InvalidOption(f"OFFSET {start.value} is beyond the topic's end: its last message is {last}")
            return max(0, start.value - 1)
        case Start.TIMESTAMP:
            (first,) = connection.query(statements.first_since, (start.value,))[0]
            return last if first is None else int(first) - 1


def position_at(
    connection: StoreConnection, statements: TopicStatements, start: StartAt, highest: int = 0
) -> GroupPosition:
    """The position of a group that begins there. At the end, messages of transactions that are open count as new: the
    ids that are missing shortly before it are holes."""
    offset = offset_of(connection, statements, start)
    position = GroupPosition(offset, max(offset, highest))
    if start.start is not Start.LATEST:
        return position
    ids = sorted(_ids(connection.query(statements.newest, (_NEWEST,))))
    if not ids:
        return position
    now_ns = int(connection.query(statements.now)[0][0])
    before = GroupPosition(ids[0] - 1 if len(ids) == _NEWEST else 0, max(offset, highest))
    return before.fed([Entry(id_, now_ns) for id_ in ids], (), in_order=statements.in_order)


def begin(
    connection: StoreConnection,
    statements: PositionStatements,
    topic: TopicStatements,
    group: QueueName,
    start: StartAt,
) -> None:
    """Write the position of a new group, over that of an older one of its name."""
    position = position_at(connection, topic, start)
    connection.execute(statements.delete, (group.table,))
    connection.execute(statements.insert, (position.offset, position.highest, position.holes_text, group.table))


def seek(connection: StoreConnection, statements: FeedStatements, group: QueueSpec, start: StartAt) -> Sought:
    """Move a group: what it has in its queue is dropped, and it reads on from there."""
    before = _position(connection.query(statements.position.lock, (group.name.table,)))
    position = position_at(connection, statements.topic, start, before.highest)
    dropped = connection.execute(statements.empty)
    write(connection, statements.position, group.name, position)
    return Sought(position.offset, dropped)


def lag(connection: StoreConnection, statements: FeedStatements, group: QueueSpec) -> GroupLag:
    """How far a group is behind."""
    position = read_position(connection, statements.position, group.name)
    unread = int(connection.query(statements.topic.unread, (position.offset,))[0][0])
    return GroupLag(position.offset, unread, unread < UNREAD_COUNTED_MAX, len(position.holes))

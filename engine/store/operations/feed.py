"""Feeding a consumer group, and moving it, in SQL. Blocking; runs in a thread, inside a transaction of its caller.

A feed locks the group's position, copies the next messages of the topic into the group's queue, and writes the new
position. It is atomic, so no message is fed twice or left out, whatever fails in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.backend.base import Statement, StoreConnection
from engine.model.errors import BackendError, BackendUnavailable, InvalidOption, MissingTableAllowed
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import ColumnMeta, QueueName, QueueSpec, Start, StartAt
from engine.model.topics import (
    HOLE_RETRY_NS,
    IN_ORDER,
    Entry,
    FeedResult,
    GroupLag,
    GroupPosition,
    Hole,
    OpenTransactions,
    SeekResult,
    Settled,
    entries,
    read_holes,
    still_awaited,
    to_check,
)
from engine.store.base import PollResult
from engine.store.gate import check_mark
from engine.store.operations.due_messages import INTEGER, not_null
from engine.store.statements.topic_partitions import next_id
from engine.store.statements.topics import (
    LATE_MAX,
    OPEN_TRANSACTIONS,
    UNNUMBERED_COUNTED_MAX,
    UNREAD_COUNTED_MAX,
    FeedStatements,
    PositionStatements,
    TopicStatements,
)

TEXT = ColumnMeta("t", type=252)
"""The metadata of any text: BLOB, in the protocol's numbers."""

_EXAMINED_MIN = 1000  # messages, where a filter passes over some of them
_NEWEST = 1000  # ids before a start at the end that are looked through for holes
_RANGES_AT_ONCE = 100
_AHEAD_NS = 60 * NS_PER_SECOND  # by which a client's clock may be ahead where it begins now

ON_A_CLUSTER = (
    "this topic cannot be read in order on a Galera cluster: a message with a smaller id, which another node committed,"
    " may come at any time. ALTER TOPIC ... SET (sequence = 'on') numbers its messages, while it has no groups"
)


def require_order(connection: StoreConnection, topic: TopicStatements) -> None:
    """Require that a topic's offsets have an order here: its messages are numbered, or one server assigns the ids, so
    that a hole can be judged. Raises BackendError, 1235."""
    if (refused := unordered(connection, topic)) is not None:
        raise BackendError(refused, 1235, "42000")


def unordered(connection: StoreConnection, topic: TopicStatements) -> str | None:
    """Why a topic's offsets have no order here; None where they have."""
    return ON_A_CLUSTER if connection.replicates and not topic.sequenced else None


def read_position(connection: StoreConnection, statements: PositionStatements, group: QueueName) -> GroupPosition:
    """How far a group has read. Raises BackendError, 1146 without the table; LookupError without the group's row."""
    return position_of(connection.query(statements.read, (group.table,)))


def position_of(rows: Sequence[tuple[object, ...]]) -> GroupPosition:
    """The position in a group's row. Raises LookupError where there is none."""
    if not rows:
        raise LookupError("the group has no position")
    offset, highest, holes = rows[0]
    return GroupPosition(int(str(offset)), int(str(highest)), read_holes(str(holes)))


def waits(connection: StoreConnection, statements: FeedStatements, group: QueueSpec) -> bool:
    """Whether there may be something to feed. Outside any transaction: it locks nothing."""
    require_order(connection, statements.topic)
    rows = connection.query(statements.waits, (group.name.table,))
    if not rows:
        raise LookupError("the group has no position")
    return bool(int(rows[0][0]))


@dataclass(frozen=True, slots=True)
class TopicState:
    """What is known of a topic before it is read. `shown`: whether the engine may see the open transactions, so that
    holes in an old part of the topic need no waiting. `settled`: its settled ids. `checked_ns`: when the holes of the
    reading group were last compared with the open transactions."""

    shown: bool
    settled: Settled
    checked_ns: int = 0


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """How much to feed: up to `limit` messages, minus those due in the group's queue, which are counted up to `due_max`
    (None: they are not subtracted)."""

    limit: int
    due_max: int | None
    known: TopicState


def feed(connection: StoreConnection, statements: FeedStatements, group: QueueSpec, wanted: FeedRequest) -> FeedResult:
    """Feed a group."""
    require_order(connection, statements.topic)
    position, due, page = _before(connection, statements, group, wanted)
    wanted_more = max(0, wanted.limit - due)
    fresh = page.fresh[: _examined(statements, wanted_more) if wanted_more and may_read_beyond(page.late) else 0]
    room = position.room(fresh, complete=page.complete)
    blocked, fresh = room < len(fresh) and not page.late, fresh[:room]
    ids = _fitting(connection, statements, [*page.late, *(entry.id for entry in fresh)])
    fed = position.fed(fresh, page.late, complete=page.complete)
    changes = [Statement(statements.copy(len(ids)), (position.highest, *ids))] if ids else []
    if fed != position:
        changes.append(Statement(statements.position.write, position_values(group.name, fed)))
    if changes:
        connection.run(changes, last=True)
    more = (len(page.fresh) > len(fresh) and not blocked) or not may_read_beyond(page.late)
    return FeedResult(len(ids), more, to_check(fed.holes, wanted.known.checked_ns, page.now_ns), blocked)


def _examined(statements: FeedStatements, limit: int) -> int:
    """How many messages to read in order to feed `limit`: few of them may match the group's filter."""
    return limit if statements.condition is None else max(limit, _EXAMINED_MIN)


def _fitting(connection: StoreConnection, statements: FeedStatements, ids: list[int]) -> list[int]:
    """Those of the messages for which the group's filter is true."""
    condition = statements.condition
    if condition is None or not ids:
        return ids
    with connection.reading(condition.settings):
        fit = set(_ids(connection.query(statements.fitting(condition, len(ids)), ids)))
    return [id_ for id_ in ids if id_ in fit]


def _before(
    connection: StoreConnection, statements: FeedStatements, group: QueueSpec, wanted: FeedRequest
) -> tuple[GroupPosition, int, LogIds]:
    """The group's position, locked; how many messages are due in its queue; and what it reads next."""
    key, topic = group.name.table, statements.topic
    batch = [
        Statement(statements.position.lock, (key,), (INTEGER, INTEGER, TEXT)),
        Statement(statements.beyond, (key, _examined(statements, wanted.limit) + 1), (INTEGER, INTEGER)),
        Statement(topic.now_and_last, (), (INTEGER, INTEGER)),
    ]
    if wanted.due_max is not None:
        batch.append(Statement(statements.due, (wanted.due_max,), (INTEGER,)))
    locked, beyond, ((now_ns, last),), *counted = [answer.rows for answer in connection.run(batch)]
    position = position_of([tuple(not_null(value).decode() for value in row) for row in locked])
    rows = [(int(not_null(id_)), int(not_null(created))) for id_, created in beyond]
    late = visible(connection, topic, position.holes)
    page = page_of(topic, late, rows, int(not_null(last)), int(not_null(now_ns)), wanted.known)
    return position, int(not_null(counted[0][0][0])) if counted else 0, page


@dataclass(frozen=True, slots=True)
class LogIds:
    """`late`: ids in a reader's holes that are visible. `fresh`: the next messages beyond its offset. `complete`: see
    GroupPosition.fed."""

    late: list[int]
    fresh: list[Entry]
    now_ns: int
    complete: int


def page_of(
    statements: TopicStatements, late: list[int], rows: list[tuple[int, int]], last: int, now_ns: int, known: TopicState
) -> LogIds:
    """From `late` ids, and the messages beyond an offset by id and time of creation; the topic ends at `last`."""
    fresh = entries(rows, last if known.shown else 0, now_ns)
    return LogIds(late, fresh, now_ns, _complete_below(statements, known.settled, rows, last))


def _complete_below(statements: TopicStatements, settled: Settled, rows: Iterable[tuple[int, int]], last: int) -> int:
    """From messages by their ids and times of creation: the id below which no missing id can appear any more."""
    return IN_ORDER if statements.in_order else settled.complete(rows, last)


def may_read_beyond(late: Sequence[int]) -> bool:
    """Whether messages beyond the offset may be read. Not with LATE_MAX late ids: then there may be more, and a message
    must not be delivered before one that was committed when it was written."""
    return len(late) < LATE_MAX


def log_page(
    connection: StoreConnection, statements: TopicStatements, position: GroupPosition, limit: int, known: TopicState
) -> LogIds:
    """What a reader at that position reads next: up to `limit` messages beyond it, and the late ones."""
    require_order(connection, statements)
    beyond = connection.query(statements.beyond, (position.offset, limit))
    rows = [(int(id_), int(created)) for id_, created in beyond]
    # After these: each may have been written after one in a hole was committed, and must then be delivered after it.
    late = visible(connection, statements, position.holes)
    now_ns, last = map(int, connection.query(statements.now_and_last)[0])
    return page_of(statements, late, rows, last, now_ns, known)


def write(
    connection: StoreConnection, statements: PositionStatements, group: QueueName, position: GroupPosition
) -> None:
    """Write the position of a group that has a row."""
    connection.execute(statements.write, position_values(group, position))


def position_values(group: QueueName, position: GroupPosition) -> tuple[int, int, str, str]:
    """The parameters of PositionStatements.write."""
    return position.offset, position.highest, position.holes_text, group.table


def _ids(rows: Iterable[Sequence[object]]) -> list[int]:
    return [int(str(row[0])) for row in rows]


def visible(connection: StoreConnection, statements: TopicStatements, holes: Sequence[Hole]) -> list[int]:
    """The ids in these holes that are visible, in order."""
    ids: list[int] = []
    for start in range(0, len(holes), _RANGES_AT_ONCE):
        if len(ids) >= LATE_MAX:
            break
        chunk = holes[start : start + _RANGES_AT_ONCE]
        bounds = [bound for hole in chunk for bound in (hole.first, hole.last)]
        ids += _ids(connection.query(statements.within(len(chunk)), bounds))
    return sorted(ids)


# --- holes that will not be filled


@dataclass(frozen=True, slots=True)
class Transactions:
    """A list of the open transactions, and the database's time before it was read. `open` None: the engine may not see
    them, and `hidden` is the reason. `old`: the list is outdated and not usable."""

    now_ns: int
    open: OpenTransactions | None
    old: bool = False
    hidden: str = ""


def transactions(connection: StoreConnection, statements: PositionStatements, now: str, number: int) -> Transactions:
    """The open transactions, including this one: it writes a row, and deletes it. `number`: a new one each time."""
    witness = f" {number}"  # no table's name
    now_ns = int(connection.query(now)[0][0])
    connection.execute(statements.insert, (0, 0, "[]", witness))
    try:
        ((first, last, own),) = connection.query(OPEN_TRANSACTIONS, (number,))
    except BackendUnavailable:
        raise
    except BackendError as error:
        return Transactions(now_ns, None, hidden=str(error))
    finally:
        connection.execute(statements.delete, (witness,))
    if not own:
        return Transactions(now_ns, None, old=True)
    if first == last:  # only this one
        return Transactions(now_ns, OpenTransactions())
    return Transactions(now_ns, OpenTransactions(int(first), int(last)))


def close_holes(connection: StoreConnection, statements: FeedStatements, group: QueueSpec, known: Transactions) -> None:
    """Drop those holes of a group that no transaction can fill any more."""
    position = position_of(connection.query(statements.position.lock, (group.name.table,)))
    left = awaited(connection, statements.topic, position.holes, known)
    if left != position.holes:
        write(connection, statements.position, group.name, replace(position, holes=left))


def awaited(
    connection: StoreConnection, statements: TopicStatements, holes: Sequence[Hole], known: Transactions
) -> tuple[Hole, ...]:
    """The holes that stay: an open transaction may still fill them, or has just done so."""
    left = tuple(holes) if known.old else still_awaited(holes, known.now_ns, known.open)
    # After the list was read: a transaction that had ended by then has made its rows visible.
    return tuple(holes) if len(left) < len(holes) and visible(connection, statements, holes) else left


# --- beginnings and seeks


def offset_of(connection: StoreConnection, statements: TopicStatements, start: StartAt) -> int:
    """The offset of the last message before `start`.

    Raises:
        InvalidOption: an offset beyond the end, or a time in the future.
    """
    now_ns, last = map(int, connection.query(statements.now_and_last)[0])
    match start.start:
        case Start.EARLIEST:
            return 0
        case Start.LATEST:
            return last
        case Start.OFFSET:
            if start.value > last + 1:
                last = max(last, _last_assigned(connection, statements))
            if not 0 <= start.value <= last + 1:
                raise InvalidOption(f"OFFSET {start.value} is beyond the topic's end: its last message was {last}")
            return max(0, start.value - 1)
        case Start.TIMESTAMP:
            if start.value > now_ns + _AHEAD_NS:
                raise InvalidOption("TIMESTAMP is in the future: messages that come before it would be delivered, too")
            first = first_since(connection, statements, start.value)
            return last if first is None else first - 1


def _last_assigned(connection: StoreConnection, statements: TopicStatements) -> int:
    """The largest offset that a message of the topic has had, also if it is deleted."""
    if not statements.in_order:
        return next_id(str(connection.query(statements.definition)[0][1])) - 1
    with MissingTableAllowed():
        rows = connection.query(statements.last_assigned, (statements.table.name.table,))
        return int(rows[0][0]) if rows else 0
    return 0


def first_since(connection: StoreConnection, statements: TopicStatements, time_ns: int) -> int | None:
    """The first offset of a message that was enqueued at a time or after it; None where there is none."""
    (first,) = connection.query(statements.first_since, (time_ns,))[0]
    if first is None:
        return None
    # Those with the first times may be of a long statement or transaction, and have offsets after many younger ones.
    (earlier,) = connection.query(statements.first_around, (first, time_ns))[0]
    return int(first if earlier is None else earlier)


def position_at(
    connection: StoreConnection, statements: TopicStatements, start: StartAt, settled: Settled, highest: int = 0
) -> GroupPosition:
    """The position of a group that begins at `start`. At the end and at a time, messages of open transactions count as
    new: the ids that are missing shortly before it are holes."""
    require_order(connection, statements)
    offset = offset_of(connection, statements, start)
    position = GroupPosition(offset, max(offset, highest))
    if statements.in_order or start.start not in (Start.LATEST, Start.TIMESTAMP):
        return position
    rows = sorted((int(id_), int(created)) for id_, created in connection.query(statements.newest, (_NEWEST,)))
    now_ns = int(connection.query(statements.now_and_last)[0][0])
    before = GroupPosition(rows[0][0] - 1 if len(rows) == _NEWEST else 0, 0)
    complete = _complete_below(statements, settled, rows, rows[-1][0] if rows else 0)
    ids = [id_ for id_, _ in rows if id_ <= offset + 1]  # the first that is to come bounds a hole, too
    passed = [Entry(id_, now_ns) for id_ in ids]
    return replace(position, holes=before.fed(passed, (), complete=complete).holes)


def begin(
    connection: StoreConnection,
    statements: PositionStatements,
    topic: TopicStatements,
    group: QueueName,
    start: StartAt,
    settled: Settled,
) -> None:
    """Write the position of a new group, over that of an older one of its name."""
    position = position_at(connection, topic, start, settled)
    connection.execute(statements.delete, (group.table,))
    connection.execute(statements.insert, position_values(group, position))


def begin_missing(connection: StoreConnection, statements: PositionStatements, group: QueueName) -> None:
    """Write the position of a group that has none, before the topic's first message."""
    if not connection.query(statements.read, (group.table,)):
        connection.execute(statements.insert, position_values(group, GroupPosition(0, 0)))


def seek(
    connection: StoreConnection, statements: FeedStatements, group: QueueSpec, start: StartAt, settled: Settled
) -> SeekResult:
    """Move a group: what it has in its queue is dropped, but for what is rejected; and it reads on from there."""
    before = position_of(connection.query(statements.position.lock, (group.name.table,)))
    position = position_at(connection, statements.topic, start, settled, before.highest)
    check_mark(connection, statements.group_table, statements.topic_table)
    dropped = connection.execute(statements.empty)
    write(connection, statements.position, group.name, position)
    return SeekResult(position.offset, dropped)


def lag(connection: StoreConnection, statements: FeedStatements, group: QueueSpec, *, counted: bool) -> GroupLag:
    """How far a group is behind. Not `counted`: its unread messages are the ids beyond its offset."""
    position = read_position(connection, statements.position, group.name)
    first = connection.query(statements.topic.beyond, (position.offset, 1))
    now_ns, last = map(int, connection.query(statements.topic.now_and_last)[0])
    age = max(0, now_ns - int(first[0][1])) / NS_PER_SECOND if first else None
    unread = max(0, last - position.offset)
    if counted:
        unread = int(connection.query(statements.topic.unread, (position.offset,))[0][0])
    exact = counted and unread < UNREAD_COUNTED_MAX
    if statements.topic.sequenced:  # what has no number yet will have one beyond all that have
        ((unnumbered, created),) = connection.query(statements.topic.unnumbered)
        unread, exact = unread + int(unnumbered), exact and int(unnumbered) < UNNUMBERED_COUNTED_MAX
        age = max(0, now_ns - int(created)) / NS_PER_SECOND if age is None and created is not None else age
    # The message at the end may be deleted, and only an older one left: for one that is scheduled is kept for longer.
    beyond = 0 < last < position.offset and _last_assigned(connection, statements.topic) < position.offset
    lost = int(connection.query(statements.position.lost, (group.name.table,))[0][0])
    unfiltered = _unfiltered(connection, statements, position) if counted else None
    refused = unordered(connection, statements.topic)
    return GroupLag(position.offset, unread, exact, len(position.holes), beyond, lost, age, unfiltered, refused)


def _unfiltered(connection: StoreConnection, statements: FeedStatements, position: GroupPosition) -> str | None:
    """Why the group's filter cannot be told of the messages that the next feeding reads; None where it can."""
    if statements.condition is None:
        return None
    fresh = _ids(connection.query(statements.topic.beyond, (position.offset, _EXAMINED_MIN)))
    try:
        _fitting(connection, statements, [*visible(connection, statements.topic, position.holes), *fresh])
    except BackendUnavailable:
        raise
    except BackendError as error:
        return str(error)  # without values: who may see the group may not read the topic
    return None


def with_feed(fed: FeedResult, poll: PollResult) -> PollResult:
    """The result of polling a group's queue; `more` includes messages of the topic that are not fed yet."""
    return replace(with_hole_retry(fed, poll), more=poll.more or fed.more)


def with_hole_retry(fed: FeedResult, poll: PollResult) -> PollResult:
    """The result of polling a group's queue; where the group's holes block it, the next poll is soon."""
    if not fed.blocked:
        return poll
    again_ns = poll.now_ns + HOLE_RETRY_NS
    return replace(poll, next_due_ns=again_ns if poll.next_due_ns is None else min(poll.next_due_ns, again_ns))

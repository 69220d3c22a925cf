"""Feeding a consumer group and leasing what is fed, in one transaction of two round trips.

For groups without limits and without a filter that have nothing due in their queue: then the next messages of the topic
are what a poll would return. They are inserted as leased, so they need no poll, no row locks and no second write.
Blocking; runs in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.backend.base import Statement, StoreConnection
from engine.model.errors import BackendUnavailable
from engine.model.lease_token import NO_TOKEN, LeaseTimes
from engine.model.queue import Message, QueueSpec, TextValue
from engine.model.states import REJECTED_NS, lease_end
from engine.model.topics import FED_PRIORITY, HOLE_RETRY_NS, GroupPosition, to_check
from engine.store.base import LeaseUnknown, Release, release_of
from engine.store.operations.due_messages import INTEGER, not_null, number
from engine.store.operations.feed import (
    TEXT,
    TopicState,
    may_read_beyond,
    page_of,
    position_of,
    position_values,
    require_order,
    visible,
)
from engine.store.operations.lease import answer_max
from engine.store.sharing import UNMARKED, Sharing
from engine.store.statements.queue import QueueStatements
from engine.store.statements.topics import FeedStatements


@dataclass(frozen=True, slots=True)
class TakeRequest:
    """What to take: up to `count` messages, leased for `delay_ns`. `times`: the source of their tokens; `sharing`: how
    the receivers will share them."""

    count: int
    delay_ns: int
    known: TopicState
    times: LeaseTimes
    sharing: Sharing = UNMARKED


@dataclass(frozen=True, slots=True)
class TakeResult:
    """What was fed and leased. `more`: the topic has more that may be read now. `next_due_ns`: when the next message in
    the group's queue becomes due, or the topic is to be read again; never, from REJECTED_NS on. `check`: the holes must
    be compared with the open transactions."""

    now_ns: int
    messages: tuple[Message, ...]
    more: bool
    next_due_ns: int
    check: bool

    @property
    def leases(self) -> list[Release]:
        """The releases of its leases."""
        return [release_of(message) for message in self.messages]


@dataclass(frozen=True, slots=True)
class _Next:
    """What a group reads next: the ids, its position now, and its position once they are fed."""

    ids: Sequence[int]
    position: GroupPosition
    reached: GroupPosition


class Taking:
    """One transaction. `rows` has the statements of the group's queue."""

    def __init__(
        self, connection: StoreConnection, statements: FeedStatements, rows: QueueStatements, group: QueueSpec
    ) -> None:
        self._connection, self._statements, self._rows, self._group = connection, statements, rows, group

    def take(self, request: TakeRequest) -> TakeResult | None:
        """Feed the group, and lease what was fed. None, and nothing is changed, where its queue has due messages, or
        may already have messages that would be fed.

        Raises:
            LookupError: the group has no position.
            LeaseUnknown: perhaps the leases were made.
            BackendError: 1235 on a Galera cluster.
        """
        require_order(self._connection, self._statements.topic)
        statements, key = self._statements, self._group.name.table
        batch = [
            Statement(statements.position.lock, (key,), (INTEGER, INTEGER, TEXT)),
            Statement(statements.beyond, (key, request.count + 1), (INTEGER, INTEGER)),
            Statement(statements.topic.now_and_last, (), (INTEGER, INTEGER)),
            Statement(statements.queue_state, (), (INTEGER,) * 4),
        ]
        locked, beyond, ((now, last),), (queue_state,) = (answer.rows for answer in self._connection.run(batch))
        position = position_of([tuple(not_null(value).decode() for value in row) for row in locked])
        now_ns, first_due = int(not_null(now)), _first_due(queue_state, position)
        if first_due is None or first_due <= now_ns:
            return None
        appeared = visible(self._connection, statements.topic, position.holes)
        rows = [(int(not_null(id_)), int(not_null(created))) for id_, created in beyond]
        page = page_of(statements.topic, appeared, rows, int(not_null(last)), now_ns, request.known)
        late = page.late[: request.count]
        fresh = page.fresh[: request.count - len(late) if may_read_beyond(page.late) else 0]
        room = position.room(fresh, complete=page.complete)
        blocked, fresh = room < len(fresh) and not late, fresh[:room]
        reached = position.fed(fresh, late, complete=page.complete)
        check = to_check(reached.holes, request.known.checked_ns, now_ns)
        more = (
            (len(page.fresh) > len(fresh) and not blocked)
            or len(page.late) > len(late)
            or not may_read_beyond(page.late)
        )
        taken = TakeResult(now_ns, (), more, min(first_due, now_ns + HOLE_RETRY_NS) if blocked else first_due, check)
        following = _Next([*late, *(entry.id for entry in fresh)], position, reached)
        return self._feed(following, taken, request) if following.ids else taken

    def _feed(self, following: _Next, taken: TakeResult, request: TakeRequest) -> TakeResult:
        ids, now_ns = following.ids, taken.now_ns
        until_ns = lease_end(now_ns + request.delay_ns, alongside=not request.sharing.leased_alone(ids))
        insert = self._statements.copy_leased(len(ids))
        token = request.times.next(now_ns) if self._group.has_tokens else NO_TOKEN
        numbered = (now_ns, token) if self._group.has_tokens else ()
        changes = [
            Statement(insert, (now_ns, until_ns, now_ns, *numbered, following.position.highest, *ids)),
            Statement(self._statements.position.write, position_values(self._group.name, following.reached)),
            Statement(self._rows.rows(len(ids)), ids, self._group.columns, answer_max(ids)),
        ]
        try:
            rows = self._connection.run(changes, last=True)[-1].rows
        except BackendUnavailable as error:
            raise LeaseUnknown(error, [Release(id_, now_ns, until_ns, 1, token) for id_ in ids]) from error
        id_, epoch, time_next = (_index(self._group, name) for name in ("id", "epoch", "time_next"))
        lease = str(until_ns).encode()
        leased = [row for row in rows if row[epoch] == b"1" and row[time_next] == lease]
        later = [int(not_null(row[time_next])) for row in rows if row[epoch] == b"0"]
        messages = [Message(int(not_null(row[id_])), 1, FED_PRIORITY, now_ns, until_ns, row, token) for row in leased]
        next_due_ns = min(taken.next_due_ns, until_ns, *later)
        return replace(taken, messages=tuple(messages), next_due_ns=next_due_ns)


def _first_due(queue_state: Sequence[TextValue], position: GroupPosition) -> int | None:
    """When the first message in the group's queue becomes due, or REJECTED_NS; None where the queue must be polled."""
    lowest, highest, first, last_id = map(number, queue_state)
    if lowest is None or last_id is None:
        return REJECTED_NS
    if not lowest == highest == FED_PRIORITY or last_id > position.offset:
        return None
    return first or 0


def _index(queue: QueueSpec, name: str) -> int:
    return next(index for index, column in enumerate(queue.columns) if column.name.lower() == name)

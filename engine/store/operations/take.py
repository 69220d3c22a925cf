"""Feeding a consumer group and leasing what is fed, in one transaction of two round trips.

For groups whose claims nothing restricts, and which have nothing due in their queue: then the next messages of the
topic are what a look would find. They are inserted as leased, so they need no look, no locks of rows and no second
write. Blocking; runs in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.backend.base import Statement, StoreConnection
from engine.model.errors import BackendUnavailable
from engine.model.lease_token import NO_TOKEN, LeaseTimes
from engine.model.queue import Message, QueueSpec, TextValue
from engine.model.states import REJECTED_NS, lease_end
from engine.model.topics import FED_PRIORITY, HELD_NS, GroupPosition, to_check
from engine.store.base import LeaseUnknown, Release, release_of
from engine.store.operations.due_messages import INTEGER, not_null, number
from engine.store.operations.feed import (
    TEXT,
    Known,
    insist_on_order,
    page_of,
    passes,
    position_of,
    position_values,
    visible,
)
from engine.store.sharing import UNMARKED, Sharing
from engine.store.statements.queue import QueueStatements
from engine.store.statements.topics import FeedStatements


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be taken: up to `count` messages, leased for `delay_ns`. `times`: what their tokens are made of;
    `sharing`: how they will be held."""

    count: int
    delay_ns: int
    known: Known
    times: LeaseTimes
    sharing: Sharing = UNMARKED


@dataclass(frozen=True, slots=True)
class Taken:
    """What was fed and leased. `more`: the topic has more that may be read now. `next_due_ns`: when the next message in
    the group's queue falls due, or the topic is to be asked again; never, from REJECTED_NS on. `check`: the holes are
    to be compared with the open transactions."""

    now_ns: int
    messages: tuple[Message, ...]
    more: bool
    next_due_ns: int
    check: bool

    @property
    def leases(self) -> list[Release]:
        """What undoes it."""
        return [release_of(message) for message in self.messages]


@dataclass(frozen=True, slots=True)
class _Next:
    """What a group has before it: the next ids, its position now and once they are fed."""

    ids: Sequence[int]
    position: GroupPosition
    reached: GroupPosition


class Taking:
    """One transaction. `rows` are the texts of the group's queue."""

    def __init__(
        self, connection: StoreConnection, statements: FeedStatements, rows: QueueStatements, group: QueueSpec
    ) -> None:
        self._connection, self._statements, self._rows, self._group = connection, statements, rows, group

    def take(self, wish: Wish) -> Taken | None:
        """Feed the group, and lease what is due of it. None, and nothing is changed, where messages are due in its
        queue, or may be there that would be fed.

        Raises:
            LookupError: the group has no position.
            LeaseUnknown: perhaps the leases were made.
            BackendError: 1235 on a Galera cluster.
        """
        insist_on_order(self._connection, self._statements.topic)
        statements, key = self._statements, self._group.name.table
        asked = [
            Statement(statements.position.lock, (key,), (INTEGER, INTEGER, TEXT)),
            Statement(statements.beyond, (key, wish.count + 1), (INTEGER, INTEGER)),
            Statement(statements.topic.now_and_last, (), (INTEGER, INTEGER)),
            Statement(statements.standing, (), (INTEGER,) * 4),
        ]
        locked, beyond, ((now, last),), (standing,) = (answer.rows for answer in self._connection.run(asked))
        position = position_of([tuple(not_null(value).decode() for value in row) for row in locked])
        now_ns, first_due = int(not_null(now)), _first_due(standing, position)
        if first_due is None or first_due <= now_ns:
            return None
        appeared = visible(self._connection, statements.topic, position.holes)
        rows = [(int(not_null(id_)), int(not_null(created))) for id_, created in beyond]
        page = page_of(statements.topic, appeared, rows, int(not_null(last)), now_ns, wish.known)
        late = page.late[: wish.count]
        fresh = page.fresh[: wish.count - len(late) if passes(page.late) else 0]
        room = position.room(fresh, complete=page.complete)
        held, fresh = room < len(fresh) and not late, fresh[:room]
        reached = position.fed(fresh, late, complete=page.complete)
        check = to_check(reached.holes, wish.known.checked_ns, now_ns)
        more = (len(page.fresh) > len(fresh) and not held) or len(page.late) > len(late) or not passes(page.late)
        taken = Taken(now_ns, (), more, min(first_due, now_ns + HELD_NS) if held else first_due, check)
        following = _Next([*late, *(entry.id for entry in fresh)], position, reached)
        return self._feed(following, taken, wish) if following.ids else taken

    def _feed(self, following: _Next, taken: Taken, wish: Wish) -> Taken:
        ids, now_ns = following.ids, taken.now_ns
        until_ns = lease_end(now_ns + wish.delay_ns, beside=not wish.sharing.held_alone(ids))
        insert = self._statements.copy_leased(len(ids))
        token = wish.times.next(now_ns) if self._group.has_tokens else NO_TOKEN
        numbered = (now_ns, token) if self._group.has_tokens else ()
        changes = [
            Statement(insert, (now_ns, until_ns, now_ns, *numbered, following.position.highest, *ids)),
            Statement(self._statements.position.write, position_values(self._group.name, following.reached)),
            Statement(self._rows.rows(len(ids)), ids, self._group.columns),
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


def _first_due(standing: Sequence[TextValue], position: GroupPosition) -> int | None:
    """When the first message in the group's queue falls due, or REJECTED_NS; None where one has to look at it."""
    lowest, highest, first, last_id = map(number, standing)
    if lowest is None or last_id is None:
        return REJECTED_NS
    if not lowest == highest == FED_PRIORITY or last_id > position.offset:
        return None
    return first or 0


def _index(queue: QueueSpec, name: str) -> int:
    return next(index for index, column in enumerate(queue.columns) if column.name.lower() == name)

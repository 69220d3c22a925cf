"""Topics and their consumer groups: names, where a group begins, and how far it has read.

A topic is a log table; its messages are rows that stay. A consumer group is a queue of its own, fed from the topic on
demand: messages that its members can take are copied from the topic into the group's queue, in the order of the
offsets, and the group's position records how far. After that a message is like any other message of a queue; its ack
deletes it.

Offsets are AUTO_INCREMENT ids, which become visible out of order: a transaction that took a smaller id may commit
later. So the position passes a missing id, but stores it as a hole, and each feed checks it again. A hole is dropped
once no transaction can be open that began before the hole was seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from engine.model.errors import InvalidQueueTable
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, default_dead_letter, derived_name

POSITIONS_TABLE = "queuegate_positions"
"""How far each consumer group of a database has read."""

HOLES_MAX = 1000
"""Ranges of missing ids that a group stores; with one more it reads no further until one is closed."""

HOLE_RETRY_NS = NS_PER_SECOND
"""After which a group that is blocked by its holes is polled again. There is no event for a hole that can be closed."""

FED_PRIORITY = 50
"""The priority of messages that are fed into a group's queue: a log has no priorities."""

_GROUP_NAME_MAX = 20


@dataclass(frozen=True, slots=True)
class GroupName:
    """A consumer group, by its topic and its own name."""

    topic: QueueName
    group: str


def group_table(topic: QueueName, group: str) -> QueueName:
    """The queue of a consumer group."""
    return QueueName(topic.database, derived_name(topic.table, f"_group_{group}"))


def may_be_group_of(topic: QueueName, table: QueueName) -> bool:
    """Whether a table has the name of a queue of one of the topic's consumer groups."""
    pieces = table.table.split("_group_")
    return any(group_table(topic, "_group_".join(pieces[first:])) == table for first in range(1, len(pieces)))


def unread_groups(catalog: QueueCatalog, topic: QueueName) -> dict[QueueName, str]:
    """The queues of a topic's consumer groups that cannot be read, or may be such, each with the reason."""
    rejected = ((name, reason) for name, reason in catalog.rejected.items() if name not in catalog.unread_topics)
    return {name: reason for name, reason in rejected if may_be_group_of(topic, name)}


def known_groups(catalog: QueueCatalog, topic: QueueName, group: str | None = None) -> dict[str, QueueSpec]:
    """The queues of a topic's consumer groups by the group's name, also those that are `unfit`.

    Raises:
        InvalidQueueTable: the queue of that group cannot be read, or that of any group where none is named. It is a
            group all the same: it may have messages, and need the topic's.
    """
    for queue, reason in unread_groups(catalog, topic).items():
        named = group is None or queue.table.lower() == group_table(topic, group).table.lower()
        if named and queue not in catalog.unfit:
            raise InvalidQueueTable(
                f"'{queue.table}', the queue of a consumer group of '{topic.table}', cannot be read: {reason}; mend it"
                " by ALTER TABLE, or drop it by DROP TABLE after SET @queuegate_allow_drop_table = 1"
            )
    return catalog.groups_of(topic, unfit=True)


def unfit_group_table(table: QueueName, queues: Iterable[QueueSpec]) -> str | None:
    """Why a new consumer group cannot have that queue: one of these is its dead-letter queue, or has it for its own."""
    dead = default_dead_letter(table.table)
    for queue in (queue for queue in queues if queue.name.database == table.database):
        if queue.dead_letter == table or (queue.name.table == dead and queue.options.topic is not None):
            both = f"the queue '{table.table}' of the group, and '{queue.name.table}'"
            return f"{both}: one has the name of the other's dead-letter queue; choose another name"
    return None


def is_group_name(name: str) -> bool:
    """Whether it is a valid name of a consumer group: 1 to 20 of a-z, A-Z, 0-9 and _."""
    return 1 <= len(name) <= _GROUP_NAME_MAX and name.isascii() and name.replace("_", "a").isalnum()


@dataclass(frozen=True, slots=True)
class Hole:
    """Ids from `first` to `last` that were taken before `seen_ns`, by the database's clock, and were not visible.

    `newest`: the number of the newest transaction that was open some seconds later; 0: not read yet. A transaction that
    took one of the ids has that number or a smaller one.
    """

    first: int
    last: int
    seen_ns: int
    newest: int = 0


NO_OFFSET = (1 << 63) - 1
"""The offset of a message that has no number yet: beyond all others."""


class Entry(NamedTuple):
    """A message of a topic. `seen_ns`: before that time the ids below its own were taken."""

    id: int
    seen_ns: int


class Place(Enum):
    """A message relative to the position of a group: beyond it, in one of its holes, or read."""

    UNREAD = "unread"
    AWAITED = "awaited"
    READ = "read"


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """How far a group has read: all up to `offset` except the `holes`.

    `highest`: the largest offset it ever had; what is fed again up to there has been `sought`.
    """

    offset: int
    highest: int
    holes: tuple[Hole, ...] = ()

    def fed(self, fresh: Sequence[Entry], late: Iterable[int], *, complete: int = 0) -> GroupPosition:
        """After feeding these: `fresh` messages beyond the offset in order, `late` ids out of its holes.

        `complete`: ids below it that are missing do not come.
        """
        holes = _without(self.holes, set(late))
        before = self.offset
        for entry in fresh:
            if entry.id > max(before + 1, complete):
                holes.append(Hole(before + 1, entry.id - 1, entry.seen_ns))
            before = entry.id
        return GroupPosition(before, max(before, self.highest), tuple(holes))

    def place_of(self, id_: int) -> Place:
        """A message relative to this position."""
        if id_ > self.offset:
            return Place.UNREAD
        return Place.AWAITED if any(hole.first <= id_ <= hole.last for hole in self.holes) else Place.READ

    def room(self, fresh: Sequence[Entry], *, complete: int = 0) -> int:
        """How many of these messages may be fed without exceeding HOLES_MAX. `complete`: see fed."""
        left, before = HOLES_MAX - len(self.holes), self.offset
        for count, entry in enumerate(fresh):
            left -= entry.id > max(before + 1, complete)
            if left < 0:
                return count
            before = entry.id
        return len(fresh)

    def unread(self, ids: Iterable[int]) -> int:
        """How many of these messages a group that has read so far has not read."""
        return sum(id_ > self.offset or any(hole.first <= id_ <= hole.last for hole in self.holes) for id_ in ids)

    @property
    def first_unread(self) -> int:
        """The smallest id that it may still read."""
        return min((self.offset + 1, *(hole.first for hole in self.holes)))

    @property
    def holes_text(self) -> str:
        """The holes as POSITIONS_TABLE stores them."""
        return json.dumps(
            [[hole.first, hole.last, hole.seen_ns, hole.newest] for hole in self.holes], separators=(",", ":")
        )


def read_holes(text: str) -> tuple[Hole, ...]:
    """The inverse of `GroupPosition.holes_text`."""
    return tuple(Hole(*map(int, hole)) for hole in json.loads(text or "[]"))


SETTLED_IDS = 1000
"""A message that many ids below the topic's end is as old as its time: it cannot have been written just now."""

SETTLE_NS = 5 * NS_PER_SECOND
"""How old a hole is when the open transactions are first read for it. A transaction takes an id and its own number
within one statement, so by then a transaction that has taken the id has its number."""

GAP_WAIT_NS = 3600 * NS_PER_SECOND
"""How long a hole is checked where the engine may not see the server's transactions."""


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The open transactions that have written something. `first` and `last`: the smallest and the largest of their
    numbers, which are assigned in order; None where there are no such transactions."""

    first: int | None = None
    last: int | None = None


def entries(rows: Sequence[tuple[int, int]], last: int, now_ns: int) -> list[Entry]:
    """Messages from their ids and times of creation. Those near the `last` id of the topic get the current time, for
    the application may set the time of creation."""
    return [Entry(id_, min(created, now_ns) if last - id_ > SETTLED_IDS else now_ns) for id_, created in rows]


def to_check(holes: Sequence[Hole], checked_ns: int, now_ns: int) -> bool:
    """Whether to compare the holes with the open transactions: some seconds after that was done, or at once where one
    is old enough for the first time."""
    if not holes:
        return False
    new = any(hole.newest == 0 and hole.seen_ns <= now_ns - SETTLE_NS for hole in holes)
    return new or now_ns - checked_ns >= SETTLE_NS


def still_awaited(holes: Iterable[Hole], now_ns: int, transactions: OpenTransactions | None) -> tuple[Hole, ...]:
    """The holes that may still be filled.

    A hole that is old enough is marked with the number of the newest transaction then open. Its ids were taken by that
    one or by older ones; when none of those is open any more, it will not be filled. A mark beyond the newest open
    number is another server's, which this one has replaced: the hole is marked again.

    Args:
        holes: what is missing.
        now_ns: the database's time.
        transactions: those that are open. None: the engine may not see them, and a hole is dropped only by its age.
    """
    if transactions is None:
        return tuple(hole for hole in holes if hole.seen_ns > now_ns - GAP_WAIT_NS)
    first, last = transactions.first, transactions.last
    left: list[Hole] = []
    for hole in holes:
        if hole.seen_ns > now_ns - SETTLE_NS:
            left.append(hole)  # also where it is marked: then this list is older than the one that marked it
        elif first is not None and last is not None and (hole.newest == 0 or first <= hole.newest):
            left.append(replace(hole, newest=hole.newest if 0 < hole.newest <= last else last))
    return tuple(left)


@dataclass(frozen=True, slots=True)
class Settled:
    """Ids of a topic up to `offset` were taken before `seen_ns`, and the missing ones among them cannot appear any
    more. `candidates`: the ids from there to the topic's end, which are being checked.

    Knowledge of a whole range of ids saves each reader its holes: a topic with many messages deleted in the middle has
    more of them than a reader may store.
    """

    offset: int = 0
    seen_ns: int = 0
    candidates: Hole | None = None
    compared_ns: int = 0

    def to_compare(self, last: int, now_ns: int) -> bool:
        """Whether more may be settled, once the candidates are compared with the open transactions."""
        return (
            self.candidates is not None
            and last >= self.offset
            and to_check((self.candidates,), self.compared_ns, now_ns)
        )

    def further(self, last: int, now_ns: int, compared_ns: int, transactions: OpenTransactions | None) -> Settled:
        """Once the open transactions, as of `compared_ns`, and then the `last` id, as of `now_ns`, were read."""
        if last < self.offset or (self.candidates is not None and last < self.candidates.last):
            return NOTHING_SETTLED  # it is another topic with that name, or its end was deleted
        settled = self
        if self.candidates is not None:
            left = still_awaited((self.candidates,), compared_ns, transactions)
            if left:
                return replace(self, candidates=left[0], compared_ns=compared_ns)
            settled = Settled(self.candidates.last, self.candidates.seen_ns)
        if last == settled.offset:
            return settled
        return replace(settled, candidates=Hole(settled.offset + 1, last, now_ns))

    def complete(self, rows: Iterable[tuple[int, int]], last: int) -> int:
        """From messages by their ids and times of creation: the id below which no missing id can appear any more.

        It is the largest id whose message is as old as the settled ids. So nothing counts as settled in a topic that
        was dropped and created again.
        """
        old = (id_ for id_, created in rows if created <= self.seen_ns and last - id_ > SETTLED_IDS)
        return max((id_ for id_ in old if id_ <= self.offset + 1), default=0)


NOTHING_SETTLED = Settled()

IN_ORDER = (1 << 63) - 1
"""For GroupPosition.fed's `complete`: ids become visible in order, so a missing id cannot appear."""


def _without(holes: Iterable[Hole], ids: set[int]) -> list[Hole]:
    """The holes without these ids."""
    if not ids:
        return list(holes)
    left: list[Hole] = []
    for hole in holes:
        first = hole.first
        for id_ in sorted(id_ for id_ in ids if hole.first <= id_ <= hole.last):
            if id_ > first:
                left.append(replace(hole, first=first, last=id_ - 1))
            first = id_ + 1
        if first <= hole.last:
            left.append(replace(hole, first=first))
    return left


@dataclass(frozen=True, slots=True)
class FeedResult:
    """The result of a feed. `more`: the topic has more messages, which the group has not read and may read now.
    `check`: the group's holes must be compared with the open transactions. `blocked`: it has as many holes as it may
    store, and none of them has been filled."""

    messages: int
    more: bool
    check: bool = False
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """The result of a retention step. `more`: there is more to delete. `lost`: by group queue, how many of the messages
    the group had not read."""

    deleted: int
    more: bool
    lost: Mapping[QueueName, int]


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction step. `place`: up to which id the messages are examined. `more`: there are more."""

    deleted: int
    place: int
    more: bool


@dataclass(frozen=True, slots=True)
class SeekResult:
    """The result of a seek. `position` is the offset up to which the group now counts as having read; `dropped`: how
    many messages were deleted from its queue."""

    position: int
    dropped: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is behind its topic. `unread`: messages beyond its offset, counted up to a bound, or, where they
    are not counted, the ids beyond it; `exact` whether that is all of them, and no more. `holes`: ranges of ids that it
    waits for. `beyond_end`: the last offset that the topic has given is smaller: it is another topic with that name.
    `lost`: messages that the topic's retention deleted before the group had read them. `oldest_unread_age`: seconds
    since the first message beyond the offset was written; None where there is none. `unfiltered`: why the group's
    filter cannot be evaluated for what it reads next, so that it reads no further. `refused`: why groups cannot be read
    at this server."""

    offset: int
    unread: int
    exact: bool
    holes: int = 0
    beyond_end: bool = False
    lost: int = 0
    oldest_unread_age: float | None = None
    unfiltered: str | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """The extent of a topic. `first` and `last` offset: None where it is empty. `messages`: counted up to a bound;
    beyond it the number of ids from first to last, which may be more. `size`: in bytes, where the database reports it.
    `last_minute`: the number of ids assigned in the last minute."""

    first: int | None
    last: int | None
    messages: int
    size: int | None
    last_minute: int

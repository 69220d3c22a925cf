"""Dropping a topic's first partition, in SQL. Blocking; runs in threads, on two connections.

DROP PARTITION commits by itself, so what groups lose is counted in another transaction, before it. With the count each
group moves past the partition. So it is never counted twice, and a drop that does not come to it is made later. For the
count to be right, nothing may come into the partition, and no group may be fed. The steps:

1. `settle` locks the table, and unlocks it. The lock waits for each transaction that has touched the table, and who
   took an id in the partition held the table until COMMIT. So no more messages come into it.
2. `count` counts what is in it, page by page. Nothing is locked.
3. `Mover.move` locks the positions of the topic's groups, on a connection that does not touch the topic.
4. `Dropper.drop` locks the table, on another one, and counts what each group had not read.
5. `Mover.move` moves the groups, adds what they lose, and its transaction is committed.
6. `Dropper.drop` drops the partition, and unlocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.backend.base import StoreConnection
from engine.model.errors import BackendError, LockWaitTimeout
from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.model.topic_partitions import (
    CountedPage,
    IdRange,
    Partition,
    Unread,
    moved_past,
    unread,
)
from engine.model.topics import GroupPosition
from engine.store.base import Dropped
from engine.store.gate import check_mark
from engine.store.operations.dividing import locked, partitions_of
from engine.store.operations.feed import position_of, write
from engine.store.operations.kept_for_groups import first_kept, has_strangers, positions_of
from engine.store.operations.retention import last_excess
from engine.store.statements.topic_partitions import (
    NO_SUCH_PARTITION,
    PAGE,
    TopicPartitionStatements,
)
from engine.store.statements.topics import PositionStatements, RetentionStatements, TopicStatements

_PAGES_AT_ONCE = 100  # about a second
_RANGES_AT_ONCE = 100

# How long one side waits for the other, in seconds. Each is longer than what the other waits for in the database.
_FOR_POSITIONS, _FOR_LOSSES, _FOR_COMMIT = 60.0, 60.0, 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statements:
    """The texts for one topic, and all of its consumer groups."""

    topic: TopicSpec
    groups: tuple[QueueSpec, ...]
    positions: PositionStatements
    log: TopicStatements
    retention: RetentionStatements
    partitions: TopicPartitionStatements


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition that may be dropped, as far as is known without a look at each message. `cutoff_ns`: what is as new
    is to be kept; None: it may go whatever is in it."""

    partition: Partition
    bound: int
    cutoff_ns: int | None


@dataclass(slots=True)
class Counting:
    """What is counted in a partition into which no more messages come. `lost`: what each group had lost before. `kept`:
    a time as new as the cutoff, of a message in it. `done`: all is counted."""

    candidate: Candidate
    lost: Mapping[QueueName, int]
    pages: list[CountedPage] = field(default_factory=list)
    kept: int | None = None
    done: bool = False

    @property
    def messages(self) -> int:
        return sum(page.messages for page in self.pages)

    def serves(self, candidate: Candidate, groups: Sequence[QueueSpec]) -> bool:
        """Whether it may be gone on with, for what is known now."""
        mine, own = self.candidate, {group.name for group in groups}
        stricter = mine.cutoff_ns is not None or candidate.cutoff_ns is None
        return (
            (mine.partition, mine.bound) == (candidate.partition, candidate.bound) and stricter and own == {*self.lost}
        )


# --- what may go


def find(connection: StoreConnection, statements: Statements) -> Candidate | None:
    """The topic's first partition, if it may perhaps be dropped: messages exist beyond it, no group asks for it, and it
    is more than is kept, or old."""
    partitions = partitions_of(connection, statements.topic.name)
    now_ns, last = map(int, connection.query(statements.log.now_and_last)[0])
    if not partitions or (bound := partitions[0].bound) is None or last < bound:
        return None
    read = positions_of(connection, statements.positions.read, statements.groups)
    if first_kept(connection, statements.retention, statements.groups, read) < bound:
        return None
    if last_excess(connection, statements.retention, statements.topic.options, last) >= bound - 1:
        return Candidate(partitions[0], bound, None)
    if statements.topic.options.retain_ns is None:
        return None
    cutoff_ns = now_ns - statements.topic.options.retain_ns
    young = connection.query(statements.partitions.young(partitions[0]), (cutoff_ns,))
    return None if young else Candidate(partitions[0], bound, cutoff_ns)


def settle(connection: StoreConnection, statements: Statements, candidate: Candidate) -> Counting:
    """Wait until no more messages come into a partition.

    Raises:
        LockWaitTimeout: others use the table for too long.
        BackendError: no right to drop it.
    """
    _insist_on_rights(connection, statements.partitions)
    with locked(connection, statements.partitions):
        pass
    lost = {group.name: _lost(connection, statements.positions, group.name) for group in statements.groups}
    return Counting(candidate, lost)


def count(connection: StoreConnection, statements: TopicPartitionStatements, counting: Counting) -> Counting:
    """Go on with counting, for about a second."""
    text, cutoff_ns = statements.page(counting.candidate.partition), counting.candidate.cutoff_ns
    for _ in range(_PAGES_AT_ONCE):
        after = counting.pages[-1].last if counting.pages else 0
        messages, first, last, newest = connection.query(text, (after, PAGE))[0]
        if not int(messages):
            counting.done = True
            break
        if cutoff_ns is not None and int(newest) >= cutoff_ns:
            counting.kept = int(newest)
            break
        counting.pages.append(CountedPage(int(first), int(last), int(messages)))
    return counting


def _lost(connection: StoreConnection, positions: PositionStatements, group: QueueName) -> int:
    rows = connection.query(positions.lost, (group.table,))
    return int(rows[0][0]) if rows else 0


# --- the two sides


@dataclass(frozen=True, slots=True)
class Losses:
    """What goes with a partition: how many messages, and of these how many each group had not read."""

    messages: int
    lost: Mapping[QueueName, int]


@dataclass(frozen=True, slots=True)
class Handover:
    """What the two sides tell each other. `positions`: where the groups are, once they are locked; None: it is not to
    be. `losses`: what is lost, once the table is locked; None: it is not to be. `moved`: whether the groups have been,
    and that is committed."""

    positions: Future[Mapping[QueueName, GroupPosition] | None] = field(default_factory=Future)
    losses: Future[Losses | None] = field(default_factory=Future)
    moved: Future[bool] = field(default_factory=Future)

    def give_up(self) -> None:
        """Let neither side wait any longer."""
        tell(self.positions, None)
        tell(self.losses, None)
        tell(self.moved, False)


def tell(told: Future[T], value: T) -> None:
    """Tell the other side, unless it was told before."""
    with contextlib.suppress(InvalidStateError):
        told.set_result(value)


def _heard(told: Future[T], seconds: float) -> T | None:
    try:
        return told.result(seconds)
    except TimeoutError:
        return None


class Mover:
    """The side that has the positions, in a transaction of its caller."""

    def __init__(self, statements: Statements, counting: Counting, handover: Handover) -> None:
        self._statements, self._counting, self._handover = statements, counting, handover

    def move(self, connection: StoreConnection) -> Losses | None:
        """Move the groups past the partition, and add what they lose; None where nothing was changed.

        Raises:
            BackendError: nothing was changed.
        """
        handover = self._handover
        if handover.positions.done():  # the transaction was rolled back for another, and is made again
            raise LockWaitTimeout
        read = self._locked(connection)
        tell(handover.positions, read)
        losses = None if read is None else _heard(handover.losses, _FOR_LOSSES)
        if (
            read is None
            or losses is None
            or has_strangers(connection, self._statements.positions, self._statements.topic.name, read)
        ):
            return None
        positions, bound = self._statements.positions, self._counting.candidate.bound
        for group, position in read.items():
            if (moved := moved_past(position, bound)) != position:
                write(connection, positions, group, moved)
            if count := losses.lost[group]:
                connection.execute(positions.lose, (count, group.table))
        return losses

    def _locked(self, connection: StoreConnection) -> dict[QueueName, GroupPosition] | None:
        """Where the groups are; None where the partition is to stay, or what is in it is to be counted anew."""
        positions, counting = self._statements.positions, self._counting
        read: dict[QueueName, GroupPosition] = {}
        for group in sorted(self._statements.groups, key=lambda group: group.name):
            rows = connection.query(positions.lock, (group.name.table,))
            # Who deletes rows meanwhile, as another engine may, has counted them where a group had not read them.
            if not rows or _lost(connection, positions, group.name) != counting.lost[group.name]:
                return None
            read[group.name] = position_of(rows)
        kept = first_kept(connection, self._statements.retention, self._statements.groups, read)
        return read if kept >= counting.candidate.bound else None


class Dropper:
    """The side that has the table, outside any transaction."""

    def __init__(self, statements: Statements, counting: Counting, handover: Handover) -> None:
        self._statements, self._counting, self._handover = statements, counting, handover

    def drop(self, connection: StoreConnection) -> Dropped:
        """Drop the partition, once the groups are past it.

        Raises:
            BackendError: no right to it, or the database failed. Perhaps the groups are past it, and what they lost is
                counted.
        """
        handover = self._handover
        if handover.losses.done():  # an idle connection was cut, and this is made again
            raise LockWaitTimeout
        try:
            read = _heard(handover.positions, _FOR_POSITIONS)
            return Dropped() if read is None else self._lock_and_drop(connection, read)
        except LockWaitTimeout:
            return Dropped(waits=True)
        finally:
            tell(handover.losses, None)

    def _lock_and_drop(self, connection: StoreConnection, read: Mapping[QueueName, GroupPosition]) -> Dropped:
        """Once the positions are locked."""
        with locked(connection, self._statements.partitions):
            check_mark(connection, self._statements.partitions.table)
            losses = self._losses(connection, read)
            tell(self._handover.losses, losses)
            if losses is None or not _heard(self._handover.moved, _FOR_COMMIT):
                return Dropped()
            connection.execute(self._statements.partitions.drop(self._counting.candidate.partition))
            return Dropped(self._counting.candidate.partition.name, losses.messages, losses.lost)

    def _losses(self, connection: StoreConnection, read: Mapping[QueueName, GroupPosition]) -> Losses | None:
        """What is lost; None where the partition is no more the first."""
        pages, candidate = self._counting.pages, self._counting.candidate
        if partitions_of(connection, self._statements.topic.name)[:1] != (candidate.partition,):
            return None
        lost = {
            group: self._unread(connection, unread(pages, position, candidate.bound))
            for group, position in read.items()
        }
        return Losses(self._counting.messages, lost)

    def _unread(self, connection: StoreConnection, found: Unread) -> int:
        counts = _ranged(connection, self._statements.partitions.count, found.ranges)
        return found.counted + sum(int(number) for (number,) in counts)


def _ranged(
    connection: StoreConnection, text: Callable[[int], str], ranges: Sequence[IdRange]
) -> list[tuple[Any, ...]]:
    """The rows of a statement that asks for ranges of ids, for all of these."""
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(ranges), _RANGES_AT_ONCE):
        asked = ranges[start : start + _RANGES_AT_ONCE]
        rows += connection.query(text(len(asked)), [bound for one in asked for bound in (one.first, one.last)])
    return rows


def _insist_on_rights(connection: StoreConnection, statements: TopicPartitionStatements) -> None:
    """That partitions may be dropped: else groups would be moved past messages that stay. Raises BackendError."""
    try:
        connection.execute(statements.may_drop)
    except BackendError as error:
        if error.errno != NO_SUCH_PARTITION:
            raise

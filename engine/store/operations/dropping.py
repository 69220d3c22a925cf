"""Dropping a topic's first partition, in SQL. Blocking; runs in threads, on two connections.

DROP PARTITION commits by itself, so what groups lose is counted in another transaction, before it. With the count each
group moves past the partition. So it is never counted twice, and a drop that does not come to it is made later. For the
count to be right, nothing may come into the partition, and no group may be fed. The steps:

1. `settle` locks the table, and unlocks it. The lock waits for each transaction that has touched the table, and a
   transaction that took an id in the partition uses the table until COMMIT. So no more messages come into it.
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
from engine.store.base import DropResult
from engine.store.gate import check_mark
from engine.store.operations.dividing import locked, partitions_of
from engine.store.operations.feed import position_of, write
from engine.store.operations.retained_for_groups import first_retained, has_unknown_groups, positions_of
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
    """A partition that may be dropped, as far as is known without reading each message. `cutoff_ns`: messages of that
    time or later must stay; None: it may be dropped whatever it contains."""

    partition: Partition
    bound: int
    cutoff_ns: int | None


@dataclass(slots=True)
class Counting:
    """The count of a partition into which no more messages come. `lost`: what each group had lost before.
    `retained_ns`: the time of a message in it that must stay. `done`: all is counted."""

    candidate: Candidate
    lost: Mapping[QueueName, int]
    pages: list[CountedPage] = field(default_factory=list)
    retained_ns: int | None = None
    done: bool = False

    @property
    def messages(self) -> int:
        return sum(page.messages for page in self.pages)

    def can_continue(self, candidate: Candidate, groups: Sequence[QueueSpec]) -> bool:
        """Whether counting may continue with this candidate and these groups."""
        mine, own = self.candidate, {group.name for group in groups}
        stricter = mine.cutoff_ns is not None or candidate.cutoff_ns is None
        return (
            (mine.partition, mine.bound) == (candidate.partition, candidate.bound) and stricter and own == {*self.lost}
        )


# --- what may go


def find(connection: StoreConnection, statements: Statements) -> Candidate | None:
    """The topic's first partition, if it may perhaps be dropped: messages exist beyond it, no group needs it, and it is
    beyond the retention by size or by age."""
    partitions = partitions_of(connection, statements.topic.name)
    now_ns, last = map(int, connection.query(statements.log.now_and_last)[0])
    if not partitions or (bound := partitions[0].bound) is None or last < bound:
        return None
    read = positions_of(connection, statements.positions.read, statements.groups)
    if first_retained(connection, statements.retention, statements.groups, read) < bound:
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
        LockWaitTimeout: other sessions use the table for too long.
        BackendError: the privilege to drop it is missing.
    """
    _require_rights(connection, statements.partitions)
    with locked(connection, statements.partitions):
        pass
    lost = {group.name: _lost(connection, statements.positions, group.name) for group in statements.groups}
    return Counting(candidate, lost)


def count(connection: StoreConnection, statements: TopicPartitionStatements, counting: Counting) -> Counting:
    """Continue counting, for about a second."""
    text, cutoff_ns = statements.page(counting.candidate.partition), counting.candidate.cutoff_ns
    for _ in range(_PAGES_AT_ONCE):
        after = counting.pages[-1].last if counting.pages else 0
        messages, first, last, newest = connection.query(text, (after, PAGE))[0]
        if not int(messages):
            counting.done = True
            break
        if cutoff_ns is not None and int(newest) >= cutoff_ns:
            counting.retained_ns = int(newest)
            break
        counting.pages.append(CountedPage(int(first), int(last), int(messages)))
    return counting


def _lost(connection: StoreConnection, positions: PositionStatements, group: QueueName) -> int:
    rows = connection.query(positions.lost, (group.table,))
    return int(rows[0][0]) if rows else 0


# --- the two sides


@dataclass(frozen=True, slots=True)
class Losses:
    """What is deleted with a partition: how many messages, and how many of these each group had not read."""

    messages: int
    lost: Mapping[QueueName, int]


@dataclass(frozen=True, slots=True)
class Handover:
    """The results that the two sides exchange. `positions`: of the groups, once they are locked; None: abort. `losses`:
    what is lost, once the table is locked; None: abort. `moved`: whether the groups were moved and committed."""

    positions: Future[Mapping[QueueName, GroupPosition] | None] = field(default_factory=Future)
    losses: Future[Losses | None] = field(default_factory=Future)
    moved: Future[bool] = field(default_factory=Future)

    def give_up(self) -> None:
        """End the wait of both sides."""
        resolve(self.positions, None)
        resolve(self.losses, None)
        resolve(self.moved, False)


def resolve(future: Future[T], value: T) -> None:
    """Set the result, unless it is set already."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(value)


def _result_of(future: Future[T], seconds: float) -> T | None:
    try:
        return future.result(seconds)
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
        resolve(handover.positions, read)
        losses = None if read is None else _result_of(handover.losses, _FOR_LOSSES)
        if (
            read is None
            or losses is None
            or has_unknown_groups(connection, self._statements.positions, self._statements.topic.name, read)
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
        """The groups' positions; None where the partition must stay, or must be counted again."""
        positions, counting = self._statements.positions, self._counting
        read: dict[QueueName, GroupPosition] = {}
        for group in sorted(self._statements.groups, key=lambda group: group.name):
            rows = connection.query(positions.lock, (group.name.table,))
            # Another engine that deletes rows meanwhile counts those that a group had not read.
            if not rows or _lost(connection, positions, group.name) != counting.lost[group.name]:
                return None
            read[group.name] = position_of(rows)
        first = first_retained(connection, self._statements.retention, self._statements.groups, read)
        return read if first >= counting.candidate.bound else None


class Dropper:
    """The side that has the table, outside any transaction."""

    def __init__(self, statements: Statements, counting: Counting, handover: Handover) -> None:
        self._statements, self._counting, self._handover = statements, counting, handover

    def drop(self, connection: StoreConnection) -> DropResult:
        """Drop the partition, once the groups are past it.

        Raises:
            BackendError: the privilege is missing, or the database failed. The groups may be past it, with their losses
                counted.
        """
        handover = self._handover
        if handover.losses.done():  # an idle connection was cut, and this is made again
            raise LockWaitTimeout
        try:
            read = _result_of(handover.positions, _FOR_POSITIONS)
            return DropResult() if read is None else self._lock_and_drop(connection, read)
        except LockWaitTimeout:
            return DropResult(waits=True)
        finally:
            resolve(handover.losses, None)

    def _lock_and_drop(self, connection: StoreConnection, read: Mapping[QueueName, GroupPosition]) -> DropResult:
        """Once the positions are locked."""
        with locked(connection, self._statements.partitions):
            check_mark(connection, self._statements.partitions.table)
            losses = self._losses(connection, read)
            resolve(self._handover.losses, losses)
            if losses is None or not _result_of(self._handover.moved, _FOR_COMMIT):
                return DropResult()
            connection.execute(self._statements.partitions.drop(self._counting.candidate.partition))
            return DropResult(self._counting.candidate.partition.name, losses.messages, losses.lost)

    def _losses(self, connection: StoreConnection, read: Mapping[QueueName, GroupPosition]) -> Losses | None:
        """What is lost; None where the partition is no longer the first."""
        pages, candidate = self._counting.pages, self._counting.candidate
        if partitions_of(connection, self._statements.topic.name)[:1] != (candidate.partition,):
            return None
        lost = {
            group: self._unread(connection, unread(pages, position, candidate.bound))
            for group, position in read.items()
        }
        return Losses(self._counting.messages, lost)

    def _unread(self, connection: StoreConnection, backlog: Unread) -> int:
        counts = _ranged(connection, self._statements.partitions.count, backlog.ranges)
        return backlog.counted + sum(int(number) for (number,) in counts)


def _ranged(
    connection: StoreConnection, text: Callable[[int], str], ranges: Sequence[IdRange]
) -> list[tuple[Any, ...]]:
    """The rows of a statement that selects ranges of ids, for all of these."""
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(ranges), _RANGES_AT_ONCE):
        chunk = ranges[start : start + _RANGES_AT_ONCE]
        rows += connection.query(text(len(chunk)), [bound for one in chunk for bound in (one.first, one.last)])
    return rows


def _require_rights(connection: StoreConnection, statements: TopicPartitionStatements) -> None:
    """Require that partitions may be dropped: else groups would be moved past messages that stay. Raises
    BackendError."""
    try:
        connection.execute(statements.may_drop)
    except BackendError as error:
        if error.errno != NO_SUCH_PARTITION:
            raise

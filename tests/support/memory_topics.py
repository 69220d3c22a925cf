"""MemoryTopics: a TopicStore over dictionaries: topics, and the positions of their consumer groups.

Messages may be there and not be seen, as those of an open transaction are: their ids are taken, and are holes to
whoever reads beyond them. What it is asked it looks up at once, and answers after its `latency`; `calls` counts that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from virtual_time import pass_time

from engine.clock import Clock
from engine.model.errors import BackendError, InvalidOption
from engine.model.option_values import NS_PER_SECOND
from engine.model.options import QueueOptions
from engine.model.queue import (
    SOUGHT_COLUMN,
    ColumnMeta,
    Condition,
    QueueName,
    QueueSpec,
    Start,
    StartAt,
    TextValue,
    TopicSpec,
)
from engine.model.sequence import NumberingResult, Sequencing
from engine.model.topics import (
    IN_ORDER,
    GroupLag,
    GroupPosition,
    Hole,
    OpenTransactions,
    SeekResult,
    TopicExtent,
    entries,
    group_table,
    still_awaited,
)
from engine.store.base import LogPage

T = TypeVar("T")

TOPIC = QueueName("main", "events")
COLUMNS = tuple(
    ColumnMeta(name=name, type=code)
    for name, code in (("id", 8), ("time_scheduled", 8), ("time_created", 8), ("payload", 253))
)


def make_topic(name: QueueName = TOPIC) -> TopicSpec:
    """A topic as the catalog would have read it."""
    return TopicSpec(name, COLUMNS, "queuegate_topic")


def make_group(topic: QueueName, group: str, columns: tuple[ColumnMeta, ...], **options: object) -> QueueSpec:
    """The queue of a consumer group; its columns are those of other queues, and one more."""
    own = QueueOptions(topic=topic.table, consumer_group=group, **options)  # type: ignore[arg-type]
    return QueueSpec(group_table(topic, group), own, (*columns, ColumnMeta(SOUGHT_COLUMN, 1)), ("id", "payload"))


@dataclass
class LogRow:
    """A message of a topic. `visible`: its transaction is committed."""

    id: int
    time_scheduled: int = 0
    time_created: int = 0
    payload: str = "x"
    visible: bool = True

    def values(self) -> tuple[TextValue, ...]:
        return tuple(str(value).encode() for value in (self.id, self.time_scheduled, self.time_created, self.payload))


@dataclass
class MemoryTopics:
    """See the module. `transactions`: those that are open; None: they are not shown to us."""

    clock: Clock
    logs: dict[QueueName, dict[int, LogRow]] = field(default_factory=dict)
    positions: dict[QueueName, GroupPosition] = field(default_factory=dict)
    transactions: OpenTransactions | None = field(default_factory=OpenTransactions)
    in_order: bool = False
    calls: Counter[str] = field(default_factory=Counter)
    latency: float = 0.0
    down: BackendError | None = None

    def serve(self, *topics: TopicSpec) -> None:
        """Replace the topics that exist by these; those that stay keep their messages."""
        self.logs = {topic.name: self.logs.get(topic.name, {}) for topic in topics}

    def add(self, *rows: LogRow, topic: QueueName = TOPIC) -> None:
        self.logs[topic].update((row.id, replace(row, time_created=self.clock.now_ns())) for row in rows)

    def fill(self, ids: range, topic: QueueName = TOPIC) -> None:
        """Messages due now."""
        self.add(*map(LogRow, ids), topic=topic)

    def commit(self, *ids: int, topic: QueueName = TOPIC) -> None:
        """Let messages be seen that were there."""
        for id_ in ids:
            self.logs[topic][id_].visible = True

    # --- TopicStore

    async def sequencing(self) -> Sequencing:
        return Sequencing.POSSIBLE

    async def number(self, topic: TopicSpec) -> NumberingResult:
        assert not topic.sequenced, "the fake gives no numbers"
        return NumberingResult()

    async def number_all(self, topic: TopicSpec) -> None:
        await self.number(topic)

    async def begin(self, group: QueueName, topic: TopicSpec, start: StartAt) -> None:
        def work() -> None:
            self.positions[group] = self._position_at(topic.name, start)

        await self._call("begin", work)

    async def position_at(self, topic: TopicSpec, start: StartAt) -> GroupPosition:
        return await self._call("position_at", lambda: self._position_at(topic.name, start))

    async def rows(
        self, topic: TopicSpec, ids: Sequence[int], condition: Condition | None = None
    ) -> list[tuple[TextValue, ...]]:
        _refuse(condition)
        return await self._call("rows", lambda: self._rows(topic.name, ids))

    async def seek(self, group: QueueSpec, topic: TopicSpec, start: StartAt) -> SeekResult:
        def work() -> SeekResult:
            position = self.positions[group.name] = self._position_at(topic.name, start)
            return SeekResult(position.offset, 0)

        return await self._call("seek", work)

    async def position(self, group: QueueSpec, topic: TopicSpec) -> GroupPosition:
        return await self._call("position", lambda: self.positions.get(group.name, GroupPosition(0, 0)))

    async def extent(self, topic: TopicSpec) -> TopicExtent:
        def work() -> TopicExtent:
            ids, since = self._visible(topic.name), self.clock.now_ns() - 60 * NS_PER_SECOND
            recent = sum(self.logs[topic.name][id_].time_created >= since for id_ in ids)
            return TopicExtent(ids[0] if ids else None, ids[-1] if ids else None, len(ids), None, recent)

        return await self._call("extent", work)

    async def lag(self, group: QueueSpec, topic: TopicSpec, *, counted: bool = True) -> GroupLag:
        def work() -> GroupLag:
            position = self.positions.get(group.name, GroupPosition(0, 0))
            unread = [id_ for id_ in self._visible(topic.name) if id_ > position.offset]
            created = [self.logs[topic.name][id_].time_created for id_ in unread[:1]]
            age = (self.clock.now_ns() - created[0]) / NS_PER_SECOND if created else None
            holes = len(position.holes)
            count = len(unread) if counted else max([*unread, position.offset]) - position.offset
            return GroupLag(position.offset, count, exact=counted, holes=holes, oldest_unread_age=age)

        return await self._call("lag", work)

    async def read(
        self, topic: TopicSpec, position: GroupPosition, limit: int, condition: Condition | None = None
    ) -> LogPage:
        _refuse(condition)

        def work() -> LogPage:
            ids, now_ns = self._visible(topic.name), self.clock.now_ns()
            late = [id_ for id_ in ids if any(hole.first <= id_ <= hole.last for hole in position.holes)][:limit]
            beyond = [id_ for id_ in ids if id_ > position.offset][:limit]
            made = [(id_, self.logs[topic.name][id_].time_created) for id_ in beyond]
            fresh = entries(made, 0 if self.transactions is None else max(ids, default=0), now_ns)
            fresh = fresh[: position.room(fresh)][: limit - len(late)]
            if not late and not fresh:
                return LogPage((), position, now_ns)
            rows = self._rows(topic.name, [*late, *(entry.id for entry in fresh)])
            return LogPage(tuple(rows), position.fed(fresh, late, complete=IN_ORDER if self.in_order else 0), now_ns)

        return await self._call("read", work)

    async def awaited(self, topic: TopicSpec, holes: Sequence[Hole]) -> tuple[Hole, ...]:
        return await self._call("awaited", lambda: self._awaited(topic.name, holes))

    # ---

    def _position_at(self, topic: QueueName, start: StartAt) -> GroupPosition:
        ids = self._visible(topic)
        last = max(ids, default=0)
        match start.start:
            case Start.EARLIEST:
                offset = 0
            case Start.LATEST:
                offset = last
            case Start.OFFSET:
                if not 0 <= start.value <= last + 1:
                    raise InvalidOption(f"OFFSET {start.value} is beyond the topic's end: its last message was {last}")
                offset = max(0, start.value - 1)
            case Start.TIMESTAMP:
                offset = min((i for i in ids if self.logs[topic][i].time_created >= start.value), default=last + 1) - 1
        return GroupPosition(offset, offset)

    def _awaited(self, topic: QueueName, holes: Sequence[Hole]) -> tuple[Hole, ...]:
        left = still_awaited(holes, self.clock.now_ns(), self.transactions)
        come = any(hole.first <= id_ <= hole.last for id_ in self._visible(topic) for hole in holes)
        return tuple(holes) if come and len(left) < len(holes) else left

    def _visible(self, topic: QueueName) -> list[int]:
        if topic not in self.logs:
            raise BackendError(f"Table '{topic}' doesn't exist", 1146, "42S02")
        return sorted(row.id for row in self.logs[topic].values() if row.visible)

    def _rows(self, topic: QueueName, ids: Sequence[int]) -> list[tuple[TextValue, ...]]:
        wanted = set(ids)
        return [self.logs[topic][id_].values() for id_ in self._visible(topic) if id_ in wanted]

    async def _call(self, name: str, work: Callable[[], T]) -> T:
        self.calls[name] += 1
        if self.down is not None:
            raise self.down
        result = work()
        if self.latency:
            await pass_time(self.latency)
        return result


def _refuse(condition: Condition | None) -> None:
    """This store evaluates no SQL: a condition fails as one that a database cannot read."""
    if condition is not None:
        raise BackendError("the store in memory evaluates no condition", 1064, "42000")

"""SHOW TOPICS and SHOW GROUPS: topics, their consumer groups, and how far these have read.

What a group has in its queue is counted as for any queue; what it has not read yet is counted in the topic, up to a
bound. Streams are those of all workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.duties.surveyor import Survey
from engine.engine import Engine
from engine.model.errors import EngineError
from engine.model.queue import ColumnMeta, QueueName, QueueSpec, SubscriptionStatus
from engine.model.topics import GroupLag
from proxy.cluster.peers import Peers
from proxy.show.columns import Row, like_pattern, number_column, text_column
from proxy.show.status_tables import dead_letter_queue
from rewriter.plan import ShowGroups, ShowTopics

TOPICS_COLUMNS = (
    text_column("Topic", 64),
    text_column("Database", 64),
    number_column("First_offset"),
    number_column("Last_offset"),
    number_column("Groups"),
    number_column("Readers"),
    text_column("Problem"),
)

GROUPS_COLUMNS = (
    text_column("Topic", 64),
    text_column("Database", 64),
    text_column("Group", 64),
    text_column("Queue", 64),
    number_column("Paused"),
    number_column("Members"),
    number_column("Offset"),
    number_column("Unread"),
    number_column("Holes"),
    number_column("Ready"),
    number_column("Waiting"),
    number_column("In_flight"),
    number_column("Dead"),
    text_column("Counted", 32),
    text_column("Problem"),
)

Sees = Callable[[QueueName], bool]


class TopicViews:
    """See the module. `sees`: which tables the session may know of."""

    def __init__(self, engine: Engine, peers: Peers, sees: Sees) -> None:
        self._engine = engine
        self._peers = peers
        self._sees = sees

    async def answer(self, plan: ShowTopics | ShowGroups) -> tuple[tuple[ColumnMeta, ...], list[Row]]:
        """Columns and rows."""
        if isinstance(plan, ShowTopics):
            return TOPICS_COLUMNS, [_row(values) for values in await self._topics(plan)]
        return GROUPS_COLUMNS, [_row(values) for values in await self._groups(plan)]

    def _wanted(self, database: str | None, like: str | None) -> list[QueueName]:
        pattern = like_pattern("%" if like is None else like)
        names = sorted(self._engine.catalog.topics)
        return [n for n in names if database in (None, n.database) and pattern(n.table) and self._sees(n)]

    async def _topics(self, plan: ShowTopics) -> list[Sequence[object]]:
        streams = await self._peers.subscriptions()
        rows: list[Sequence[object]] = []
        for name in self._wanted(plan.database, plan.like):
            readers = sum(stream.queue == name for stream in streams)
            bounds: tuple[int | None, int | None] = (None, None)
            problem = None
            try:
                bounds = await self._engine.topics.bounds(name)
            except EngineError as error:
                problem = error.message
            groups = len(self._engine.catalog.groups_of(name))
            rows.append((name.table, name.database, *bounds, groups, readers, problem))
        return rows

    async def _groups(self, plan: ShowGroups) -> list[Sequence[object]]:
        catalog = self._engine.catalog
        topics = [n for n in self._wanted(plan.database, None) if plan.topic in (None, n.table)]
        named = like_pattern("%" if plan.like is None else plan.like)
        groups = [(t, name, g) for t in topics for name, g in sorted(catalog.groups_of(t).items()) if named(name)]
        groups = [one for one in groups if self._sees(one[2].name)]
        dead = [target for _, _, group in groups if (target := dead_letter_queue(group, catalog)) is not None]
        surveys = await self._engine.surveyor.survey({q.name: q for q in (*(g for _, _, g in groups), *dead)}.values())
        streams = await self._peers.subscriptions()
        return [await self._group(topic, name, group, surveys, streams) for topic, name, group in groups]

    async def _group(
        self,
        topic: QueueName,
        name: str,
        group: QueueSpec,
        surveys: dict[QueueName, Survey],
        streams: Sequence[SubscriptionStatus],
    ) -> Sequence[object]:
        survey = surveys.get(group.name, Survey(None, "not counted"))
        problem, lag, census = survey.problem, None, survey.census
        try:
            lag = await self._engine.topics.lag(group)
        except EngineError as error:
            problem = error.message
        members = sum(stream.queue == group.name for stream in streams)
        first = (topic.table, topic.database, name, group.name.table, int(group.options.paused), members)
        counts: tuple[object, ...] = (None, None, None)
        if census is not None:
            counts = (census.ready, census.scheduled + census.retrying, census.in_flight)
        buried = self._buried(group, surveys)
        exact = census is not None and not census.bounded and lag is not None and lag.exact
        return (*first, *_lag(lag), *counts, buried, "exact" if exact else "at least", problem)

    def _buried(self, group: QueueSpec, surveys: dict[QueueName, Survey]) -> int | None:
        target = dead_letter_queue(group, self._engine.catalog)
        if target is None:
            return 0
        census = surveys.get(target.name, Survey(None)).census
        return None if census is None else census.unacked


def _lag(lag: GroupLag | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if lag is None else (lag.offset, lag.unread, lag.holes)


def _row(values: Sequence[object]) -> Row:
    return tuple(None if value is None else str(value).encode("utf-8", "replace") for value in values)

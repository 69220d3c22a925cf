"""Topics, their consumer groups, and how far these have read: the rows of status_tables.TOPICS and GROUPS.

What a group has in its queue is counted as for any queue; what it has not read yet is counted in the topic, up to a
bound. Streams are those of all workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.background.surveyor import Survey
from engine.engine import Engine
from engine.history.writer import HistoryState
from engine.model.errors import EngineError
from engine.model.queue import (
    UNFED_COLUMNS,
    QueueName,
    QueueSpec,
    QueueStatus,
    SubscriptionStatus,
    TopicSpec,
)
from engine.model.topics import GroupLag
from proxy.cluster.peers import Peers
from proxy.show.columns import like_pattern
from proxy.show.status_tables import Values, dead_letter_queue, delivery_problem
from proxy.show.trace_rows import history_problem
from rewriter.plan import Show

_NO_DEFAULT = 4096  # the protocol's flag of a column that an INSERT has to name

CanSee = Callable[[QueueName], bool]


class TopicViews:
    """See the module. `can_see`: which tables the session may know of. `redact`: makes a problem's text fit for it."""

    def __init__(self, engine: Engine, peers: Peers, can_see: CanSee, redact: Callable[[str], str]) -> None:
        self._engine = engine
        self._peers = peers
        self._can_see, self._redact = can_see, redact

    def _selects(self, database: str | None, like: str | None) -> list[QueueName]:
        pattern = like_pattern("%" if like is None else like)
        catalog = self._engine.catalog
        names = sorted(catalog.topics.keys() | catalog.unread_topics)
        return [n for n in names if database in (None, n.database) and pattern(n.table) and self._can_see(n)]

    async def topics(self, plan: Show) -> list[Values]:
        """The rows of TOPICS."""
        streams, histories = await self._peers.subscriptions(), await self._peers.histories()
        problems = await self._peers.retention_problems()
        names = self._selects(plan.database, plan.like)
        return [await self._topic(name, streams, histories.get(name), problems.get(name)) for name in names]

    async def _topic(
        self,
        name: QueueName,
        streams: Sequence[SubscriptionStatus],
        history: HistoryState | None,
        problem: str | None,
    ) -> Values:
        bounds: Values = (None, None)
        contents: Values = (None, None, None)
        unread = self._engine.catalog.rejected.get(name)
        problem = unread or problem
        try:
            if unread is None:
                extent = await self._engine.topics.extent(name)
                bounds = (extent.first, extent.last)
                contents = (extent.messages, extent.size, extent.last_minute)
        except EngineError as error:
            problem = error.message
        if history is not None:
            problem = "; ".join(filter(None, (problem, history_problem(history)))) or None
        problem = problem and self._redact(problem)
        members = self._engine.catalog.groups_of(name, unfit=True).values()
        groups = sum(self._can_see(group.name) for group in members)
        readers = sum(stream.queue == name for stream in streams)
        return (name.table, name.database, *bounds, groups, readers, *contents, self._options(name), problem)

    def _options(self, name: QueueName) -> str:
        topic = self._engine.catalog.topics.get(name)
        return "" if topic is None else ", ".join(f"{key} = {text}" for key, text in topic.options.items.items())

    async def groups(self, plan: Show) -> list[Values]:
        """The rows of GROUPS."""
        catalog, named = self._engine.catalog, like_pattern("%" if plan.like is None else plan.like)
        groups = [
            queue
            for queue in sorted((*catalog, *catalog.unfit.values()), key=lambda queue: queue.name)
            if queue.options.topic is not None
            and plan.name in (None, queue.options.topic)
            and plan.database in (None, queue.name.database)
            and named(queue.options.consumer_group or "")
            and self._can_see(queue.name)
        ]
        dead = [target for group in groups if (target := dead_letter_queue(group, catalog)) is not None]
        surveys = await self._engine.surveyor.survey({queue.name: queue for queue in (*groups, *dead)}.values())
        statuses = {status.name: status for status in await self._peers.queue_statuses()}
        return [await self._group(group, surveys, statuses.get(group.name)) for group in groups]

    async def _group(
        self,
        group: QueueSpec,
        surveys: dict[QueueName, Survey],
        status: QueueStatus | None,
    ) -> Values:
        survey = surveys.get(group.name, Survey(None, "not counted"))
        problem, lag, census = self._engine.catalog.rejected.get(group.name) or survey.problem, None, survey.census
        topic = QueueName(group.name.database, group.options.topic or "")
        try:
            lag = await self._engine.topics.lag(group)
            problem = problem or _problem(self._engine.catalog.topics[topic], group, lag)
            problem = problem or (status is not None and delivery_problem(status)) or None
        except EngineError as error:
            problem = error.message
        problem = problem and self._redact(problem)
        members, alarms = (0, 0) if status is None else (status.subscribers, status.alarms)
        name = group.options.consumer_group
        first = (topic.table, topic.database, name, group.name.table, int(group.options.paused), members)
        counts: Values = (None, None, None)
        if census is not None:
            counts = (census.ready, census.scheduled + census.retrying, census.in_flight)
        dead_letters = self._dead_letters(group, surveys)
        exact = census is not None and not census.bounded and lag is not None and lag.exact
        return (*first, *_lag(lag), *counts, dead_letters, alarms, "exact" if exact else "at least", problem)

    def _dead_letters(self, group: QueueSpec, surveys: dict[QueueName, Survey]) -> int | None:
        target = dead_letter_queue(group, self._engine.catalog)
        if target is None:
            return 0
        census = surveys.get(target.name, Survey(None)).census
        return None if census is None else census.unacked


def _problem(topic: TopicSpec, group: QueueSpec, lag: GroupLag) -> str | None:
    """What prevents a group from getting messages, or from getting them whole."""
    if lag.refused is not None:  # before what a seek would mend: that is refused, too
        return lag.refused
    if lag.beyond_end:
        return f"has read up to offset {lag.offset}, which its topic no longer has; if that is new, SEEK TO EARLIEST"
    if lag.unfiltered is not None:
        return f"its filter cannot be told of a message after offset {lag.offset}: {lag.unfiltered}"
    columns_by_name = {column.name.lower() for column in topic.columns}
    needed = [c.name for c in group.columns if c.flags & _NO_DEFAULT and c.name.lower() not in columns_by_name]
    if needed:
        return f"columns without a default that its topic does not have: {', '.join(needed)}; give them one"
    own = {column.name.lower(): column for column in group.columns}
    other = [
        column.name
        for column in topic.columns
        if column.name.lower() not in UNFED_COLUMNS
        and (
            (source := own.get(column.name.lower())) is None
            or (source.type, source.length) != (column.type, column.length)
        )
    ]
    if not other:
        return None
    return f"columns differ from those of its topic: {', '.join(other)}; ALTER TABLE {group.name.table} likewise"


def _lag(lag: GroupLag | None) -> Values:
    return (None,) * 5 if lag is None else (lag.offset, lag.unread, lag.oldest_unread_age, lag.holes, lag.lost)

"""QueueViews: what a client is shown of the queues, the streams and the messages, as far as its account may see them.

Counts are the tables', by the engine's own account; what an account may see is decided by the database where accounts
are its own, and else by the proxy's rights. Streams are those of all workers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from engine.engine import Engine
from engine.model.errors import BackendError
from engine.model.explanation import moment
from engine.model.identity import id_text
from engine.model.options import QueueOptions
from engine.model.queue import (
    ColumnMeta,
    QueueName,
    QueueSpec,
    QueueStatus,
)
from engine.model.schedules import ScheduleName
from mysql_wire.errors import ProxyError
from proxy.cluster.answers import PlacedRecord
from proxy.cluster.peers import Peers
from proxy.session.guard import denied
from proxy.session.session import BackendTraits, ClientSession
from proxy.show.columns import Row, like_pattern, text_column
from proxy.show.delivery_views import DeliveryViews
from proxy.show.key_ranges import RANGES_SHOWN_MAX, Receivers, range_values
from proxy.show.process_list import process_list
from proxy.show.queue_definition import create_queue_values, option_values
from proxy.show.schedule_status import create_schedule_values, fair_share, schedule_values
from proxy.show.status_tables import (
    EXPLANATIONS,
    FIELDS,
    TRACE,
    InFlight,
    Values,
    columns,
    consumer_values,
    dead_letter_queue,
    delivery_problem,
    queue_summaries,
    queue_values,
    shown,
    subscription_values,
)
from proxy.show.system_information import columns_of, derived_table, with_system_tables
from proxy.show.system_shows import system_show
from proxy.show.topic_status import TopicViews
from proxy.show.visibility import CanSee, Visibility
from rewriter.grammar.system_tables import DATABASE
from rewriter.plan import (
    ExplainDelivery,
    InformationTable,
    Piece,
    Show,
    ShowSystem,
    SystemShow,
    Trace,
    TraceInQueue,
)
from rewriter.views import Access, View

log = logging.getLogger(__name__)

UNMATCHED_MAX = 500
"""Ready messages of a queue that are checked whether they match a stream."""

ROWS_MAX = 2000
"""Rows of a system table in one statement: 130 KB of text, which a server reads in 25 ms."""

ROWS_MAX_EMBEDDED = 200
"""The same for the embedded backend, whose compiler takes 60 ms for them."""

_REAL = f"SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '{DATABASE}'"


class QueueViews:
    """See the module. For one session. `defaults`: the options of a new queue."""

    def __init__(
        self, session: ClientSession, engine: Engine, peers: Peers, traits: BackendTraits, defaults: QueueOptions
    ) -> None:
        self._session = session
        self._engine = engine
        self._peers = peers
        self._traits = traits
        self._defaults = defaults
        self._visibility = Visibility(session, engine, traits)
        self._deliveries = DeliveryViews(session, self._visibility, engine, peers)

    async def answer(
        self, plan: Show | ExplainDelivery | Trace | TraceInQueue | ShowSystem, text: str = ""
    ) -> tuple[tuple[ColumnMeta, ...], list[Row]]:
        """Columns and rows of a read-only statement. `text`: as the client wrote it, if it did: so the process list
        shows it."""
        match plan:
            case Show(View.PROCESSLIST | View.FULL_PROCESSLIST as view):
                sql = text or f"SHOW {view.words}"
                return await process_list(self._session, self._peers, self._visibility, sql)
            case Show(view):
                return columns(FIELDS[view]), shown(await _ROWS[view](self, plan))
            case Trace():
                return columns(TRACE), shown(await self._deliveries.trace(plan))
            case TraceInQueue():
                return columns(TRACE), shown([await self._deliveries.trace_in_queue(plan)])
            case ExplainDelivery():
                return columns(EXPLANATIONS), shown(await self._deliveries.explanations(plan))
            case ShowSystem():
                fields, rows = system_show(plan)
                if plan.what is SystemShow.DATABASES:
                    wanted = like_pattern("%" if plan.like is None else plan.like)
                    names = [name for (name,) in (await self._visibility.collect("SHOW DATABASES")).each(1)]
                    rows = sorted([*((name,) for name in names if wanted(self._visibility.text(name))), *rows])
                return tuple(text_column(field.name, field.length) for field in fields), rows

    async def queue_status(self, plan: Show) -> list[Values]:
        """The rows of SHOW QUEUE STATUS."""
        catalog = self._engine.catalog
        selects = await self._visibility.selects(plan.database, plan.like)
        queues = [queue for queue in catalog if selects(queue.name)]
        dead = [target for queue in queues if (target := dead_letter_queue(queue, catalog)) is not None]
        surveys = await self._engine.surveyor.survey({queue.name: queue for queue in (*queues, *dead)}.values())
        statuses = [status for status in await self._peers.queue_statuses() if selects(status.name)]
        rejected = {
            name: self._visibility.redacted(reason) for name, reason in catalog.rejected.items() if selects(name)
        }
        groups = any(queue.options.topic is not None for queue in queues)
        lags = (await self._engine.topics.gauges()).lags if groups else {}
        unmatched, problems = await self._unmatched(queues), await self.problems(statuses)
        return queue_values(statuses, surveys, catalog, rejected, unmatched, lags, problems)

    async def problems(self, statuses: Iterable[QueueStatus]) -> dict[QueueName, str]:
        """Problems of queues that are served nevertheless, redacted for the session."""
        problems = {status.name: text for status in statuses if (text := delivery_problem(status))}
        try:
            named = await self._engine.dead_letter_names.problems(self._engine.catalog)
        except BackendError as error:
            log.warning("the names of dead-letter queues cannot be read: %s", error)
            named = {}
        others = await self._peers.retention_problems()
        for name, text in (*named.items(), *others.items()):
            problems[name] = f"{problems[name]}; {text}" if name in problems else text
        return {name: self._visibility.redacted(problem) for name, problem in problems.items()}

    async def _unmatched(self, queues: Sequence[QueueSpec]) -> dict[QueueName, int]:
        """Of the queues whose streams all have a WHERE or a key range: how many of the first ready messages fit none of
        them."""
        streams: dict[QueueName, list[bool]] = {}
        for stream in await self._peers.subscriptions():
            streams.setdefault(stream.queue, []).append(stream.selects)
        counts = {}
        for queue in queues:
            if all(streams.get(queue.name, (False,))):
                ids = await self._engine.surveyor.ready(queue, UNMATCHED_MAX)
                counts[queue.name] = len(ids) - len(await self._peers.fitting(queue.name, ids))
        return counts

    async def subscriptions(self, plan: Show) -> list[Values]:
        """The rows of SHOW SUBSCRIPTIONS."""
        selects = await self._visibility.selects(plan.database, plan.like)
        streams = [stream for stream in await self._peers.subscriptions() if selects(stream.queue)]
        return subscription_values(await self._visibility.streams(streams))

    async def consumers(self, plan: Show) -> list[Values]:
        """The rows of SHOW CONSUMERS."""
        named, can_see = like_pattern("%" if plan.like is None else plan.like), await self._visibility.reads()
        streams = [
            stream
            for stream in await self._peers.subscriptions()
            if can_see(stream.queue) and named(stream.receiver.consumer)
        ]
        rows = consumer_values(await self._visibility.streams(streams), self._engine.catalog)
        return [row for row in rows if plan.name in (None, row[0]) and plan.database in (None, row[1])]

    async def schedules(self, plan: Show) -> list[Values]:
        """The rows of SHOW SCHEDULES."""
        return schedule_values(
            await self._engine.schedules.listed(), plan, await self._visibility.reads(), self._visibility.redacted
        )

    async def _leased(self, *, of_groups: bool) -> list[InFlight]:
        """The leased messages of every queue, or of every consumer group; somewhat more than ROWS_MAX where there is
        more than that."""
        can_see = await self._visibility.selects(None, None)
        rows: list[InFlight] = []
        for queue in self._engine.catalog:
            included = queue.options.topic is not None or not of_groups
            if included and can_see(queue.name) and len(rows) <= ROWS_MAX:
                leased = await self._engine.surveyor.leased_messages(queue, ROWS_MAX + 1)
                holders = await self._peers.holders(queue.name, [message.id for message in leased])
                visible = await self._visibility.streams(list(holders.values()))
                visible_holders = {id_text(id_): holder for id_, holder in holders.items() if holder in visible}
                rows += [InFlight(queue, message, visible_holders.get(id_text(message.id))) for message in leased]
        return rows

    async def _topics(self) -> TopicViews:
        """Topics and consumer groups, as far as the session may know of them."""
        can_see, rights, unread = (
            await self._visibility.reads(),
            self._session.rights,
            self._engine.catalog.unread_topics,
        )

        def can_see_topic(name: QueueName) -> bool:
            """Of a topic that cannot be read, rights on topics let an account know that, and nothing else."""
            return can_see(name) or (rights is not None and name in unread and rights.granted.can_see_topic(name))

        return TopicViews(self._engine, self._peers, can_see_topic, self._visibility.redacted)

    async def rendered(self, pieces: Sequence[Piece]) -> str:
        """The statement with the values of the moment in it, or with the names where the database has such a
        database itself.

        Raises:
            ProxyError: a table has more rows than fit into a statement.
        """
        real = await self.real_database()
        texts = {piece: await self._rendered_table(piece, real=real) for piece in set(pieces)}
        return "".join(map(texts.__getitem__, pieces))

    async def _rendered_table(self, piece: Piece, *, real: bool) -> str:
        match piece:
            case View() if real:
                return f"`{DATABASE}`.`{piece.table}`"
            case View():
                utf8 = self._session.identity.codec == "utf-8"
                return derived_table(piece, await self._values(piece), utf8=utf8)
            case InformationTable() if real:
                return f"information_schema.`{piece.value}`"
            case InformationTable():
                listed = await self._visibility.collect(columns_of(piece))
                columns = [
                    (self._visibility.text(name), self._visibility.text(sql_type)) for name, sql_type in listed.each(2)
                ]
                return with_system_tables(piece, columns)
            case str():
                return piece

    async def real_database(self) -> bool:
        """Whether the database has one of the same name: then that is meant, and the proxy does not answer."""
        traits = self._traits
        if not (traits.accounts or traits.one_account):
            return False
        if keyspaces := self._engine.catalog.keyspaces:
            return DATABASE in keyspaces
        return bool((await self._visibility.collect(_REAL)).rows)

    async def can_see(self) -> CanSee:
        """See Visibility."""
        return await self._visibility.can_see()

    async def _traces(self, _: Show) -> list[Values]:
        return await self._deliveries.traces(self._rows_max)

    @property
    def _rows_max(self) -> int:
        traits = self._traits
        return ROWS_MAX if traits.accounts or traits.one_account else ROWS_MAX_EMBEDDED

    async def _values(self, view: View) -> list[Values]:
        """The rows of a view as a table. Raises ProxyError: it is not for this account, or has too many."""
        if view.access is Access.PROCESS and not await self._visibility.all_connections():
            raise denied(self._session, "SELECT", f"{DATABASE}.{view.table} needs the privilege PROCESS")
        rows, most = await _ROWS[view](self, Show(view)), self._rows_max
        if view is View.SCHEDULES:
            rows = fair_share(rows, most)
        if len(rows) > most:
            raise ProxyError(
                1104,
                f"{DATABASE}.{view.table} has {len(rows)} rows and more, and a statement takes {most} of them; "
                "SHOW QUEUE STATUS and SHOW SUBSCRIPTIONS have no such limit",
            )
        return rows


async def _queues(views: QueueViews, plan: Show) -> list[Values]:
    """The rows of SHOW QUEUES."""
    statuses, can_see = await views._peers.queue_statuses(), await views._visibility.can_see()
    problems = await views.problems(statuses)
    catalog = views._engine.catalog
    return queue_summaries(statuses, catalog, plan.database, plan.like, can_see, views._visibility.redacted, problems)


async def _queue_options(views: QueueViews, plan: Show) -> list[Values]:
    """The rows of SHOW QUEUE OPTIONS. Raises ProxyError: the account may not know of the queue."""
    return option_values((await _visible_queue(views, plan)).options, views._defaults)


async def _visible_queue(views: QueueViews, plan: Show) -> QueueSpec:
    """The queue that a statement names. Raises ProxyError: the account may not know of it."""
    if not (await views._visibility.can_see())(plan.queue):
        identity = views._session.identity
        raise ProxyError(
            1142, f"SHOW command denied to user '{identity.user}'@'{identity.host}' for table '{plan.queue.table}'"
        )
    return views._visibility.queue(plan.queue)


async def _queue_ranges(views: QueueViews, plan: Show) -> list[Values]:
    """The rows of SHOW QUEUE RANGES. Raises ProxyError, BackendError."""
    queue = await _visible_queue(views, plan)
    if not queue.has_ring:
        raise ProxyError(1235, f"Queue '{queue.name.table}' has no ring: ALTER QUEUE ... ADD SHARDING KEY (column)")
    streams = [stream for stream in await views._peers.subscriptions() if stream.queue == queue.name]
    receivers = Receivers.of(streams)
    ranges = receivers.ranges
    if len(ranges) > RANGES_SHOWN_MAX:
        text = f"The open streams of queue '{queue.name.table}' cut its ring into more than {RANGES_SHOWN_MAX} parts"
        raise ProxyError(1104, text)
    return range_values(await views._engine.surveyor.ranges(queue, ranges), receivers)


async def _create_queue(views: QueueViews, plan: Show) -> list[Values]:
    """The row of SHOW CREATE QUEUE."""
    return [await create_queue_values(views._session, views._engine, plan.queue)]


async def _create_schedule(views: QueueViews, plan: Show) -> list[Values]:
    """The row of SHOW CREATE SCHEDULE."""
    return [await create_schedule_values(views._session, ScheduleName(plan.queue.database, plan.queue.table))]


async def _in_flight(views: QueueViews, _: Show) -> list[Values]:
    """The rows of IN_FLIGHT."""
    return [message.values for message in await views._leased(of_groups=False)]


async def _group_in_flight(views: QueueViews, _: Show) -> list[Values]:
    """The rows of GROUP_IN_FLIGHT."""
    return [message.group_values for message in await views._leased(of_groups=True)]


async def _topics(views: QueueViews, plan: Show) -> list[Values]:
    """The rows of SHOW TOPICS."""
    return await (await views._topics()).topics(plan)


async def _groups(views: QueueViews, plan: Show) -> list[Values]:
    """The rows of SHOW GROUPS."""
    return await (await views._topics()).groups(plan)


async def _log(views: QueueViews, _: Show) -> list[Values]:
    """The rows of LOG."""
    return log_values(await views._peers.log(), views._rows_max)


async def _settings(views: QueueViews, _: Show) -> list[Values]:
    """The rows of SETTINGS."""
    return [*views._peers.settings]


_ROWS: Mapping[View, Callable[[QueueViews, Show], Awaitable[list[Values]]]] = {
    View.QUEUES: _queues,
    View.QUEUE_OPTIONS: _queue_options,
    View.QUEUE_RANGES: _queue_ranges,
    View.QUEUE_STATUS: QueueViews.queue_status,
    View.SUBSCRIPTIONS: QueueViews.subscriptions,
    View.IN_FLIGHT: _in_flight,
    View.TOPICS: _topics,
    View.GROUPS: _groups,
    View.CONSUMERS: QueueViews.consumers,
    View.GROUP_IN_FLIGHT: _group_in_flight,
    View.TRACES: QueueViews._traces,
    View.SCHEDULES: QueueViews.schedules,
    View.LOG: _log,
    View.SETTINGS: _settings,
    View.CREATE_QUEUE: _create_queue,
    View.CREATE_SCHEDULE: _create_schedule,
}
"""How the rows of each view are made, for a SHOW and for its table; those of a process list are the server's."""


# The rows of LOG: the last warnings and errors of every process that serves this database. Pure.

LOG_ROWS_MAX = 500
"""Each may have 2 KB, and all of them are in one statement."""


def log_values(records: Iterable[PlacedRecord], most: int) -> list[Values]:
    """The newest first, `most` of them and LOG_ROWS_MAX."""
    newest = sorted(records, key=lambda each: -each.record.at_ns)[: min(most, LOG_ROWS_MAX)]
    return [
        (moment(record.at_ns), record.level, record.logger, record.message, record.details, place)
        for place, record in newest
    ]

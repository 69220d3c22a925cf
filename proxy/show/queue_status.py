"""QueueViews: what a client is shown of the queues, the streams and the messages, as far as its account may see them.

Counts are the tables', by the engine's own account; what an account may see is decided by the database where accounts
are its own, and else by the proxy's rights. Streams are those of all workers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from engine.engine import Engine
from engine.model.errors import BackendError, EngineError, QueueNotFound
from engine.model.explanation import Explanation, MessageRow, QueueFacts, explain, moment, unknown
from engine.model.identity import IdKind, id_kind, id_text
from engine.model.options import QueueOptions
from engine.model.queue import (
    QUEUE_MARK,
    ColumnMeta,
    MessageId,
    QueueName,
    QueueSpec,
    SubscriptionStatus,
    TextValue,
)
from engine.model.schedules import SCHEDULES_MARK, ScheduleName
from engine.model.topic_options import TOPIC_MARK
from engine.model.topics import NO_OFFSET
from engine.model.trace_event import in_order
from proxy.cluster.peers import Peers
from proxy.errors import ProxyError
from proxy.login.rights import Right
from proxy.session.guard import denied
from proxy.session.session import BackendTraits, ClientSession
from proxy.show.columns import Row, like_pattern, text_column
from proxy.show.log_rows import log_values
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
    queue_summaries,
    queue_values,
    shown,
    subscription_values,
)
from proxy.show.system_information import columns_of, with_system_tables
from proxy.show.system_shows import system_show
from proxy.show.system_tables import derived_table
from proxy.show.topic_status import TopicViews
from proxy.show.trace_rows import CanSeeUser, history, in_queue, not_in_queue, not_there, trace_values, unknown_group
from proxy.upstream.base import collected
from proxy.upstream.redaction import redacted_problem
from proxy.wire.outcome import Collected, number
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
from rewriter.plans.explain_delivery import DELIVERY_COLUMNS, ids_sql
from rewriter.text.literals import plain_literal
from rewriter.views import Access, View

log = logging.getLogger(__name__)

UNMATCHED_MAX = 500
"""Ready messages of a queue that are checked whether they match a stream."""

ROWS_MAX = 2000
"""Rows of a system table in one statement: 130 KB of text, which a server reads in 25 ms."""

ROWS_MAX_EMBEDDED = 200
"""The same for the embedded backend, whose compiler takes 60 ms for them."""

_REAL = f"SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '{DATABASE}'"
_VISIBLE = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
    f" WHERE TABLE_TYPE = 'BASE TABLE' AND (TABLE_COMMENT LIKE '%{QUEUE_MARK}%' OR TABLE_COMMENT LIKE '{TOPIC_MARK}%'"
    f" OR TABLE_COMMENT LIKE '{SCHEDULES_MARK}%')"
)
_READABLE = (
    "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS"
    " WHERE (ORDINAL_POSITION = 1 OR COLUMN_NAME = 'id') AND FIND_IN_SET('select', PRIVILEGES)"
)
_PROCESSES = "SELECT ID FROM information_schema.PROCESSLIST"
_CAN_SEE_PROCESSES = (
    "SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'PROCESS'"
    " AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')"
)

CanSee = Callable[[QueueName], bool]


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

    async def answer(
        self, plan: Show | ExplainDelivery | Trace | TraceInQueue | ShowSystem, text: str = ""
    ) -> tuple[tuple[ColumnMeta, ...], list[Row]]:
        """Columns and rows of a read-only statement. `text`: as the client wrote it, if it did: so the process list
        shows it."""
        match plan:
            case Show(View.PROCESSLIST | View.FULL_PROCESSLIST as view):
                return await process_list(self._session, self._peers, text or f"SHOW {view.words}")
            case Show(view):
                return columns(FIELDS[view]), shown(await _ROWS[view](self, plan))
            case Trace():
                return columns(TRACE), shown(await self.trace(plan))
            case TraceInQueue():
                return columns(TRACE), shown([await self.trace_in_queue(plan)])
            case ExplainDelivery():
                return columns(EXPLANATIONS), shown(await self.explanations(plan))
            case ShowSystem():
                fields, rows = system_show(plan)
                if plan.what is SystemShow.DATABASES:
                    wanted = like_pattern("%" if plan.like is None else plan.like)
                    names = [name for (name,) in (await self._collect("SHOW DATABASES")).each(1)]
                    rows = sorted([*((name,) for name in names if wanted(self._text(name))), *rows])
                return tuple(text_column(field.name, field.length) for field in fields), rows

    async def queue_status(self, plan: Show) -> list[Values]:
        """The rows of SHOW QUEUE STATUS."""
        catalog = self._engine.catalog
        selects = await self._selects(plan.database, plan.like)
        queues = [queue for queue in catalog if selects(queue.name)]
        dead = [target for queue in queues if (target := dead_letter_queue(queue, catalog)) is not None]
        surveys = await self._engine.surveyor.survey({queue.name: queue for queue in (*queues, *dead)}.values())
        statuses = [status for status in await self._peers.queue_statuses() if selects(status.name)]
        rejected = {name: self.redacted(reason) for name, reason in catalog.rejected.items() if selects(name)}
        groups = any(queue.options.topic is not None for queue in queues)
        lags = (await self._engine.topics.gauges()).lags if groups else {}
        unmatched, problems = await self._unmatched(queues), await self.problems()
        return queue_values(statuses, surveys, catalog, rejected, unmatched, lags, problems)

    async def problems(self) -> dict[QueueName, str]:
        """Problems of queues that are served nevertheless, redacted for the session."""
        try:
            problems = await self._engine.dead_letter_names.problems(self._engine.catalog)
        except BackendError as error:
            log.warning("the names of dead-letter queues cannot be read: %s", error)
            return {}
        return {name: self.redacted(problem) for name, problem in problems.items()}

    async def _unmatched(self, queues: Sequence[QueueSpec]) -> dict[QueueName, int]:
        """Of the queues whose streams all have a WHERE: how many of the first ready messages fit none of them."""
        streams: dict[QueueName, list[bool]] = {}
        for stream in await self._peers.subscriptions():
            streams.setdefault(stream.queue, []).append(bool(stream.filter))
        counts = {}
        for queue in queues:
            if all(streams.get(queue.name, (False,))):
                ids = await self._engine.surveyor.ready(queue, UNMATCHED_MAX)
                counts[queue.name] = len(ids) - len(await self._peers.fitting(queue.name, ids))
        return counts

    async def subscriptions(self, plan: Show) -> list[Values]:
        """The rows of SHOW SUBSCRIPTIONS."""
        selects = await self._selects(plan.database, plan.like)
        streams = [stream for stream in await self._peers.subscriptions() if selects(stream.queue)]
        return subscription_values(await self._visible_streams(streams))

    async def consumers(self, plan: Show) -> list[Values]:
        """The rows of SHOW CONSUMERS."""
        named, can_see = like_pattern("%" if plan.like is None else plan.like), await self.reads()
        streams = [
            stream for stream in await self._peers.subscriptions() if can_see(stream.queue) and named(stream.consumer)
        ]
        rows = consumer_values(await self._visible_streams(streams), self._engine.catalog)
        return [row for row in rows if plan.name in (None, row[0]) and plan.database in (None, row[1])]

    async def schedules(self, plan: Show) -> list[Values]:
        """The rows of SHOW SCHEDULES."""
        return schedule_values(await self._engine.schedules.listed(), plan, await self.reads(), self.redacted)

    async def _leased(self, *, of_groups: bool) -> list[InFlight]:
        """The leased messages of every queue, or of every consumer group; somewhat more than ROWS_MAX where there is
        more than that."""
        can_see = await self._selects(None, None)
        rows: list[InFlight] = []
        for queue in self._engine.catalog:
            included = queue.options.topic is not None or not of_groups
            if included and can_see(queue.name) and len(rows) <= ROWS_MAX:
                leased = await self._engine.surveyor.leased_messages(queue, ROWS_MAX + 1)
                holders = await self._peers.holders(queue.name, [message.id for message in leased])
                visible = await self._visible_streams(list(holders.values()))
                visible_holders = {id_text(id_): holder for id_, holder in holders.items() if holder in visible}
                rows += [InFlight(queue, message, visible_holders.get(id_text(message.id))) for message in leased]
        return rows

    async def _topics(self) -> TopicViews:
        """Topics and consumer groups, as far as the session may know of them."""
        can_see, rights, unread = await self.reads(), self._session.rights, self._engine.catalog.unread_topics

        def can_see_topic(name: QueueName) -> bool:
            """Of a topic that cannot be read, rights on topics let an account know that, and nothing else."""
            return can_see(name) or (rights is not None and name in unread and rights.granted.can_see_topic(name))

        return TopicViews(self._engine, self._peers, can_see_topic, self.redacted)

    def redacted(self, problem: str) -> str:
        """A problem, redacted for the session: a database's own accounts and files are not for
        accounts with limits."""
        return problem if self._session.rights is None else redacted_problem(problem)

    async def trace(self, plan: Trace) -> list[Values]:
        """The rows of TRACE MESSAGE: of the groups that the account may know of."""
        can_see = await self.can_see()
        records = (await self._collect(plan.sql)).each(2)
        enqueued, offset = None, plan.id
        if records:
            enqueued = moment(number(records[0][0]))
            offset = NO_OFFSET if records[0][1] is None else number(records[0][1])
        visible_groups = [(group, question) for group, question in plan.groups if can_see(question.queue)]
        users = await self._can_see_users()
        of_topic = await self._peers.trace(plan.topic, plan.id) if visible_groups else []
        rows = []
        for group, question in visible_groups:
            visible, row = await self._traced(group, question, (plan.id, offset), enqueued)
            recorded = in_order(of_topic + await self._peers.trace(question.queue, plan.id)) if visible else []
            rows.append((*row, history(recorded, users, reasons=self._may_read_notes(question.queue))))
        return rows

    async def trace_in_queue(self, plan: TraceInQueue) -> Values:
        """The row of TRACE MESSAGE on a queue."""
        question = plan.delivery
        queue = self._queue(question.queue)
        ids, rows, facts = await self._question_rows(question, queue)
        answer = await self._session.upstream.collect(plan.sql) if plan.sql and rows else None
        enqueued = moment(number(answer.row(1)[0])) if isinstance(answer, Collected) and answer.rows else None
        id_ = next(iter((*ids, *question.ids)), None)
        recorded = [] if id_ is None else await self._peers.trace(queue.name, id_)
        reasons, group = self._may_read_notes(queue.name), queue.options.consumer_group
        events = history(recorded, await self._can_see_users(), reasons=reasons)
        if rows:
            holder = facts.holders.get(rows[0].id)
            return (*in_queue(group, enqueued, rows[0], explain(rows[0], facts), holder), events)
        dead = await self._dead(queue, question.ids)
        text = "" if id_ is None else id_text(id_)
        explained = unknown(text, facts, dead=None if dead is None else text in dead)
        return (*not_there(group, explained), events)

    def _queue(self, name: QueueName) -> QueueSpec:
        queue = self._engine.catalog.get(name)
        if queue is None:
            raise QueueNotFound(f"Table '{name}' doesn't exist or is not a queue")
        return queue

    async def _traced(
        self, group: str, question: ExplainDelivery, message: tuple[int, int], enqueued: str | None
    ) -> tuple[bool, Values]:
        """Whether the account may know of the message, an id and an offset, in that group, and the row but for its last
        column."""
        id_, offset = message
        try:
            queue = self._queue(question.queue)
            # Before its queue is read: what is fed in between is found there.
            place = (await self._engine.topics.position(queue)).place_of(offset)
            _, rows, facts = await self._question_rows(question, queue)
            if rows:
                holder = facts.holders.get(rows[0].id)
                return True, in_queue(group, enqueued, rows[0], explain(rows[0], facts), holder)
            dead = await self._dead(queue, [id_])
        except EngineError as error:
            return False, unknown_group(group, enqueued, error.message)
        return True, not_in_queue(group, enqueued, place, None if dead is None else id_text(id_) in dead)

    async def traces(self, _: Show) -> list[Values]:
        """What happened last to messages of the queues that the account may know of."""
        can_see, users = await self.reads(), await self._can_see_users()
        queues = {queue.name: queue for queue in self._engine.catalog if can_see(queue.name)}
        topics = [name for name in self._engine.catalog.topics if can_see(name)]
        entries = await self._peers.newest_traces(self._rows_max, [*queues, *topics])
        read = {name: await self._may_read(name) for name in {traced.queue for traced in entries if traced.reason}}
        return [
            trace_values(traced, queues.get(traced.queue), users, reasons=read.get(traced.queue, False))
            for traced in entries
        ]

    async def _may_read(self, queue: QueueName) -> bool:
        """Whether the account may read of what messages of a queue failed."""
        return isinstance(
            await self._session.upstream.collect(f"SELECT last_error FROM {queue.sql} LIMIT 0"), Collected
        )

    async def _can_see_users(self) -> CanSeeUser:
        """Of whose connections the session may know, also of those that have ended."""
        all_, own = await self._can_see_all(), self._session.identity.user
        return lambda user: all_ or user == own

    async def _can_see_all(self) -> bool:
        """Whether the session may know of all connections."""
        session = self._session
        if session.rights is not None:
            return session.admin
        return not self._traits.accounts or bool((await self._collect(_CAN_SEE_PROCESSES)).rows)

    async def _question_rows(
        self, plan: ExplainDelivery, queue: QueueSpec
    ) -> tuple[list[MessageId], list[MessageRow], QueueFacts]:
        """The messages of a question, their rows, and the facts of their queue."""
        records = (await self._collect(plan.sql)).each(len(DELIVERY_COLUMNS))
        ids = [self._id(queue, row[1]) for row in records]
        rows = [self._message(id_, row) for id_, row in zip(ids, records, strict=True)]
        if not self._may_read_notes(queue.name):
            rows = [replace(row, last_error=None, failed_attempts=None) for row in rows]
        return ids, rows, await self._facts(queue, ids)

    def _may_read_notes(self, queue: QueueName) -> bool:
        """Whether the account may know what receivers have noted of messages, which may be as secret as these. Where
        accounts are the database's, the database itself is asked."""
        rights = self._session.rights
        return rights is None or rights.missing(queue, Right.RECEIVE) is None

    async def explanations(self, plan: ExplainDelivery) -> list[Values]:
        """The rows of EXPLAIN DELIVERY."""
        if self._session.rights is not None and not plan.ids:
            raise denied(
                self._session, "EXPLAIN DELIVERY", "its account may ask for ids alone: WHERE id = 42, or id IN (...)"
            )
        queue = self._queue(plan.queue)
        _, rows, facts = await self._question_rows(plan, queue)
        results = [explain(row, facts) for row in rows]
        missing = [id_ for id_ in plan.ids if id_text(id_) not in {row.id for row in rows}]
        dead = await self._dead(queue, missing)
        results += [
            unknown(id_text(id_), facts, dead=None if dead is None else id_text(id_) in dead) for id_ in missing
        ]
        return [_explained(explanation) for explanation in results]

    # --- system tables

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
                return derived_table(piece, await self._values(piece))
            case InformationTable() if real:
                return f"information_schema.`{piece.value}`"
            case InformationTable():
                listed = await self._collect(columns_of(piece))
                columns = [(self._text(name), self._text(sql_type)) for name, sql_type in listed.each(2)]
                return with_system_tables(piece, columns)
            case str():
                return piece

    async def real_database(self) -> bool:
        """Whether the database has one of the same name: then that is meant, and the proxy does not answer."""
        traits = self._traits
        return (traits.accounts or traits.one_account) and bool((await self._collect(_REAL)).rows)

    @property
    def _rows_max(self) -> int:
        traits = self._traits
        return ROWS_MAX if traits.accounts or traits.one_account else ROWS_MAX_EMBEDDED

    async def _values(self, view: View) -> list[Values]:
        """The rows of a view as a table. Raises ProxyError: it is not for this account, or has too many."""
        if view.access is Access.PROCESS and not await self._can_see_all():
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

    # --- what may be seen

    async def _selects(self, database: str | None, like: str | None) -> CanSee:
        pattern = like_pattern("%" if like is None else like)
        can_see = await self.reads()
        return lambda name: database in (None, name.database) and pattern(name.table) and can_see(name)

    async def can_see(self) -> CanSee:
        """Which queues the session may know of: any right on one will do."""
        return await self._names(_VISIBLE)

    async def reads(self) -> CanSee:
        """Of which queues, and tables of schedules, the session may know what is in them and who reads them: where
        accounts are the database's, those on which it has SELECT."""
        return await self._names(_READABLE)

    async def _names(self, tables: str) -> CanSee:
        """What the session may know of; `tables`: from the database, where accounts are its own."""
        if self._session.rights is not None:
            return self._session.rights.can_see
        if not self._traits.accounts:
            return lambda name: True
        if keyspaces := self._engine.catalog.keyspaces:
            return (await self._in_keyspaces(tables, keyspaces)).__contains__
        rows = (await self._collect(tables)).each(2)
        names = {QueueName(self._text(database), self._text(table)) for database, table in rows}
        return names.__contains__

    async def _in_keyspaces(self, tables: str, keyspaces: Sequence[str]) -> set[QueueName]:
        """Of a Vitess, whose tables are listed by keyspace, under another name (engine.backend.vitess)."""
        names = set()
        for keyspace in keyspaces:
            rows = (await self._collect(f"{tables} AND TABLE_SCHEMA = {plain_literal(keyspace)}")).each(2)
            names |= {QueueName(keyspace, self._text(table)) for _, table in rows}
        return names

    async def _visible_streams(self, streams: Sequence[SubscriptionStatus]) -> list[SubscriptionStatus]:
        """Its own; others' as far as the process list shows them to this account."""
        session = self._session
        if session.rights is None and not self._traits.accounts:
            return list(streams)
        own = [stream for stream in streams if stream.user == session.identity.user]
        if session.rights is not None:
            return list(streams) if session.admin else own
        if len(own) == len(streams):
            return own
        process_ids = {number(id_) for (id_,) in (await self._collect(_PROCESSES)).each(1)}
        return [stream for stream in streams if stream in own or stream.connection_id in process_ids]

    # --- why a message is not out

    def _id(self, queue: QueueSpec, value: TextValue) -> MessageId:
        column = queue.column("id")
        kind = IdKind.TEXT if column is None else id_kind(column)
        if kind is IdKind.INTEGER:
            return number(value)
        return self._text(value) if kind is IdKind.TEXT else value or b""

    def _message(self, id_: MessageId, row: Sequence[TextValue]) -> MessageRow:
        now, _, epoch, time_next, time_acked, *texts = row
        return MessageRow(
            id_text(id_),
            number(now),
            number(epoch),
            None if time_next is None else number(time_next),
            None if time_acked is None else number(time_acked),
            *(None if value is None else self._text(value) for value in texts),
        )

    async def _facts(self, queue: QueueSpec, ids: Sequence[MessageId]) -> QueueFacts:
        streams = [stream for stream in await self._peers.subscriptions() if stream.queue == queue.name]
        holders_by_id = await self._peers.holders(queue.name, ids)
        visible = await self._visible_streams(list(holders_by_id.values()))
        holders = {id_text(id_): holder if holder in visible else None for id_, holder in holders_by_id.items()}
        in_flight = None
        if queue.options.max_concurrency is not None:
            census = (await self._engine.surveyor.survey([queue]))[queue.name].census
            in_flight = None if census is None else census.in_flight
        fitting = None
        if streams and all(stream.filter for stream in streams):
            fitting = frozenset(map(id_text, await self._peers.fitting(queue.name, ids)))
        target = dead_letter_queue(queue, self._engine.catalog)
        return QueueFacts(queue, streams, holders, in_flight, fitting, None if target is None else str(target.name))

    async def _dead(self, queue: QueueSpec, ids: Sequence[int | str | bytes]) -> set[str] | None:
        """Which of these ids are in the dead-letter queue. None: there is one that the account may not read."""
        target = dead_letter_queue(queue, self._engine.catalog)
        if target is None or not ids:
            return set()
        if not (await self.can_see())(target.name):
            return None
        rows = await self._session.upstream.collect(ids_sql(target, tuple(ids), queue.name))
        return {self._text(id_) for (id_,) in rows.each(1)} if isinstance(rows, Collected) else None

    # --- the client's connection

    async def _collect(self, sql: str) -> Collected:
        return await collected(self._session.upstream, sql)

    def _text(self, value: TextValue) -> str:
        return (value or b"").decode(self._session.identity.codec, "replace")


def _explained(explanation: Explanation) -> Values:
    return (explanation.id, explanation.state, explanation.text)


async def _queues(views: QueueViews, plan: Show) -> list[Values]:
    """The rows of SHOW QUEUES."""
    statuses, can_see, problems = await views._peers.queue_statuses(), await views.can_see(), await views.problems()
    catalog = views._engine.catalog
    return queue_summaries(statuses, catalog, plan.database, plan.like, can_see, views.redacted, problems)


async def _queue_options(views: QueueViews, plan: Show) -> list[Values]:
    """The rows of SHOW QUEUE OPTIONS. Raises ProxyError: the account may not know of the queue."""
    if not (await views.can_see())(plan.queue):
        identity = views._session.identity
        raise ProxyError(
            1142, f"SHOW command denied to user '{identity.user}'@'{identity.host}' for table '{plan.queue.table}'"
        )
    return option_values(views._queue(plan.queue).options, views._defaults)


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
    View.QUEUE_STATUS: QueueViews.queue_status,
    View.SUBSCRIPTIONS: QueueViews.subscriptions,
    View.IN_FLIGHT: _in_flight,
    View.TOPICS: _topics,
    View.GROUPS: _groups,
    View.CONSUMERS: QueueViews.consumers,
    View.GROUP_IN_FLIGHT: _group_in_flight,
    View.TRACES: QueueViews.traces,
    View.SCHEDULES: QueueViews.schedules,
    View.LOG: _log,
    View.SETTINGS: _settings,
    View.CREATE_QUEUE: _create_queue,
    View.CREATE_SCHEDULE: _create_schedule,
}
"""How the rows of each view are made, for a SHOW and for its table; those of a process list are the server's."""

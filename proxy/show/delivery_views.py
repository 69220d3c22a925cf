"""DeliveryViews: why a message is not delivered, and what has happened to it: EXPLAIN DELIVERY and TRACE MESSAGE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from engine.engine import Engine
from engine.model.errors import EngineError
from engine.model.explanation import MessageRow, QueueFacts, explain, moment, unknown
from engine.model.identity import IdKind, id_kind, id_text, normalise
from engine.model.queue import SOURCE_ID_COLUMN, MessageId, QueueSpec, TextValue, records
from engine.model.topics import NO_OFFSET
from engine.model.trace_event import in_order
from mysql_wire.outcome import Collected, number
from proxy.cluster.peers import Peers
from proxy.session.guard import denied
from proxy.session.session import ClientSession
from proxy.show.status_tables import Values, dead_letter_queue
from proxy.show.trace_rows import history, in_queue, not_in_queue, not_there, trace_values, unknown_group
from proxy.show.visibility import Visibility
from rewriter.plan import ExplainDelivery, Trace, TraceInQueue
from rewriter.plans.explain_delivery import DELIVERY_COLUMNS
from rewriter.text.literals import hex_literal, plain_literal

_NOT_SHOWN = "an error that may quote the message, which this account may not read"


class DeliveryViews:
    """See the module. For one session."""

    def __init__(self, session: ClientSession, visibility: Visibility, engine: Engine, peers: Peers) -> None:
        self._session, self._visibility = session, visibility
        self._engine, self._peers = engine, peers

    async def trace(self, plan: Trace) -> list[Values]:
        """The rows of TRACE MESSAGE: of the groups that the account may know of."""
        can_see = await self._visibility.can_see()
        records = (await self._visibility.collect(plan.sql)).each(2)
        await self._visibility.check_own_table(plan.topic)
        enqueued, offset = None, plan.id
        if records:
            enqueued = _time(records[0][0])
            offset = NO_OFFSET if records[0][1] is None else number(records[0][1])
        visible_groups = [(group, question) for group, question in plan.groups if can_see(question.queue)]
        users = await self._visibility.can_see_user()
        of_topic = await self._peers.trace(plan.topic, plan.id) if visible_groups else []
        rows = []
        for group, question in visible_groups:
            visible, row = await self._traced(group, question, (plan.id, offset), enqueued)
            recorded = in_order(of_topic + await self._peers.trace(question.queue, plan.id)) if visible else []
            rows.append((*row, history(recorded, users, reasons=self._visibility.may_read_notes(question.queue))))
        return rows

    async def trace_in_queue(self, plan: TraceInQueue) -> Values:
        """The row of TRACE MESSAGE on a queue."""
        question = plan.delivery
        queue = self._visibility.queue(question.queue)
        ids, rows, facts = await self._question_rows(question, queue)
        answer = await self._session.upstream.collect(plan.sql) if plan.sql and rows else None
        enqueued = _time(answer.row(1)[0]) if isinstance(answer, Collected) and answer.rows else None
        id_ = next(iter((*ids, *(_stored(queue, each) for each in question.ids))), None)
        recorded = [] if id_ is None else await self._peers.trace(queue.name, id_)
        reasons, group = self._visibility.may_read_notes(queue.name), queue.options.consumer_group
        events = history(recorded, await self._visibility.can_see_user(), reasons=reasons)
        if rows:
            holder = facts.holders.get(rows[0].id)
            return (*in_queue(group, enqueued, rows[0], explain(rows[0], facts), holder), events)
        dead = await self._dead(queue, question.ids)
        text = "" if id_ is None else id_text(id_)
        explained = unknown(text, facts, dead=None if dead is None else bool(dead))
        return (*not_there(group, explained), events)

    async def _traced(
        self, group: str, question: ExplainDelivery, message: tuple[int, int], enqueued: str | None
    ) -> tuple[bool, Values]:
        """Whether the account may know of the message, an id and an offset, in that group, and the row but for its last
        column."""
        id_, offset = message
        try:
            queue = self._visibility.queue(question.queue)
            # Before its queue is read: what is fed in between is found there.
            place = (await self._engine.topics.position(queue)).place_of(offset)
            _, rows, facts = await self._question_rows(question, queue)
            if rows:
                holder = facts.holders.get(rows[0].id)
                return True, in_queue(group, enqueued, rows[0], explain(rows[0], facts), holder)
            dead = await self._dead(queue, [id_])
        except EngineError as error:
            return False, unknown_group(group, enqueued, error.message)
        return True, not_in_queue(group, enqueued, place, None if dead is None else bool(dead))

    async def traces(self, most: int) -> list[Values]:
        """What happened last to messages of the queues that the account may know of: `most` rows."""
        can_see, users = await self._visibility.reads(), await self._visibility.can_see_user()
        queues = {queue.name: queue for queue in self._engine.catalog if can_see(queue.name)}
        topics = [name for name in self._engine.catalog.topics if can_see(name)]
        entries = await self._peers.newest_traces(most, [*queues, *topics])
        read = {
            name: await self._visibility.may_read(name)
            for name in {traced.queue for traced in entries if traced.reason}
        }
        return [
            trace_values(traced, queues.get(traced.queue), users, reasons=read.get(traced.queue, False))
            for traced in entries
        ]

    async def explanations(self, plan: ExplainDelivery) -> list[Values]:
        """The rows of EXPLAIN DELIVERY."""
        if self._session.rights is not None and not plan.ids:
            raise denied(
                self._session, "EXPLAIN DELIVERY", "its account may ask for ids alone: WHERE id = 42, or id IN (...)"
            )
        queue = self._visibility.queue(plan.queue)
        _, rows, facts = await self._question_rows(plan, queue)
        results = [explain(row, facts) for row in rows]
        shown, room = {row.id for row in rows}, plan.limit - len(rows)
        others = [id_ for id_ in plan.ids if id_text(id_) not in shown] if room > 0 else []
        there = await self._present(partial(_of_queue, queue), others) or set()
        missing = [id_ for id_ in others if id_ not in there][:room]
        dead = await self._dead(queue, missing)
        results += [unknown(id_text(id_), facts, dead=None if dead is None else id_ in dead) for id_ in missing]
        return [(explanation.id, explanation.state, explanation.text) for explanation in results]

    async def _question_rows(
        self, plan: ExplainDelivery, queue: QueueSpec
    ) -> tuple[list[MessageId], list[MessageRow], QueueFacts]:
        """The messages of a question, their rows, and the facts of their queue."""
        records = (await self._visibility.collect(plan.sql)).each(len(DELIVERY_COLUMNS))
        await self._visibility.check_own_table(queue.name)
        ids = [self._id(queue, row[1]) for row in records]
        rows = [self._message(id_, row) for id_, row in zip(ids, records, strict=True)]
        if not self._visibility.may_read_notes(queue.name):
            rows = [replace(row, last_error=None, failed_attempts=None) for row in rows]
        return ids, rows, await self._facts(queue, ids)

    def _id(self, queue: QueueSpec, value: TextValue) -> MessageId:
        column = queue.column("id")
        kind = IdKind.TEXT if column is None else id_kind(column)
        if kind is IdKind.INTEGER:
            return number(value)
        return self._visibility.text(value) if kind is IdKind.TEXT else value or b""

    def _message(self, id_: MessageId, row: Sequence[TextValue]) -> MessageRow:
        now, _, epoch, time_next, time_acked, slot, *texts = row
        return MessageRow(
            id_text(id_),
            number(now),
            number(epoch),
            None if time_next is None else number(time_next),
            None if time_acked is None else number(time_acked),
            None if slot is None else number(slot),
            *(None if value is None else self._visibility.text(value) for value in texts),
        )

    async def _facts(self, queue: QueueSpec, ids: Sequence[MessageId]) -> QueueFacts:
        streams = [stream for stream in await self._peers.subscriptions() if stream.queue == queue.name]
        holders_by_id = await self._peers.holders(queue.name, ids)
        visible = await self._visibility.streams(list(holders_by_id.values()))
        holders = {id_text(id_): holder if holder in visible else None for id_, holder in holders_by_id.items()}
        in_flight = None
        if queue.options.max_concurrency is not None:
            census = (await self._engine.surveyor.survey([queue]))[queue.name].census
            in_flight = None if census is None else census.in_flight
        fitting = None
        if streams and all(stream.selects for stream in streams):
            fitting = frozenset(map(id_text, await self._peers.fitting(queue.name, ids)))
        target = dead_letter_queue(queue, self._engine.catalog)
        dead = None if target is None else str(target.name)
        return QueueFacts(queue, streams, holders, in_flight, fitting, dead, await self._refused(queue))

    async def _refused(self, queue: QueueSpec) -> dict[str, str]:
        """The errors may quote a message, or name tables behind the queue's: they are for accounts that may read it."""
        statuses = [status for status in await self._peers.queue_statuses() if status.name == queue.name]
        refused = {id_: text for status in statuses for id_, text in status.refused}
        notes = bool(refused) and self._visibility.may_read_notes(queue.name)
        readable = notes and await self._visibility.may_read(queue.name)
        return {id_: self._visibility.redacted(text) if readable else _NOT_SHOWN for id_, text in refused.items()}

    async def _dead(self, queue: QueueSpec, ids: Sequence[MessageId]) -> set[MessageId] | None:
        """Which of these ids are in the dead-letter queue. None: there is one that the account may not read."""
        target = dead_letter_queue(queue, self._engine.catalog)
        if target is None or not ids:
            return set()
        if not (await self._visibility.can_see())(target.name):
            return None
        return await self._present(partial(_of_dead_letters, target, queue), ids)

    async def _present(
        self, select: Callable[[Sequence[MessageId]], str], ids: Sequence[MessageId]
    ) -> set[MessageId] | None:
        """Which of these ids a table has; None: the account may not read them. `select` makes the SELECT of their
        places in a list, one for each row. As 'a' and 'A' may be one id, it is run again for the others."""
        remaining, present = list(ids), set[MessageId]()
        while remaining:
            answer = await self._session.upstream.collect(select(remaining))
            if not isinstance(answer, Collected):
                return None
            if not answer.rows:
                break
            present |= {remaining[number(place)] for (place,) in answer.each(1)}
            remaining = [id_ for id_ in remaining if id_ not in present]
        return present


def _time(value: TextValue) -> str | None:
    """A time of a row as it is shown; a column that somebody declared may be NULL."""
    return None if value is None else moment(number(value))


def _stored(queue: QueueSpec, id_: MessageId) -> MessageId:
    """An id of a statement as the queue's table has it."""
    column = queue.column("id")
    value = None if column is None else normalise(id_kind(column), id_)
    return id_ if value is None else value


def _places(column: str, literals: Sequence[str]) -> str:
    return f"CASE {column} {' '.join(f'WHEN {literal} THEN {i}' for i, literal in enumerate(literals))} END"


def _literal(id_: MessageId) -> str:
    return hex_literal(id_) if isinstance(id_, str) else plain_literal(id_)


def _of_queue(queue: QueueSpec, ids: Sequence[MessageId]) -> str:
    """The places of those of these ids that messages of a queue have."""
    literals = [_literal(id_) for id_ in ids]
    return f"SELECT {_places('id', literals)} FROM {queue.name.sql} WHERE id IN ({', '.join(literals)})"


def _of_dead_letters(dead: QueueSpec, queue: QueueSpec, ids: Sequence[MessageId]) -> str:
    """The same of a queue's dead letters, where they may have another id."""
    literals = [_literal(id_) for id_ in ids]
    place, condition = _places("id", literals), f"id IN ({', '.join(literals)})"
    if records(dead, queue, SOURCE_ID_COLUMN):
        texts = [hex_literal(id_text(_stored(queue, id_))) for id_ in ids]
        place = f"CASE WHEN {SOURCE_ID_COLUMN} IS NULL THEN {place} ELSE {_places(SOURCE_ID_COLUMN, texts)} END"
        condition = f"({SOURCE_ID_COLUMN} IS NULL AND {condition}) OR {SOURCE_ID_COLUMN} IN ({', '.join(texts)})"
    if records(dead, queue, "source"):
        condition = f"({condition}) AND (source IS NULL OR source = {hex_literal(queue.name.table)})"
    return f"SELECT {place} FROM {dead.name.sql} WHERE time_acked IS NULL AND ({condition})"

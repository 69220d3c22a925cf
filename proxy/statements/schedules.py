"""CREATE, ALTER, DROP and RUN SCHEDULE, carried out on the client's own connection, in its transaction.

The table of schedules is made before, by the proxy's own account on a connection of its own, for DDL would commit the
client's transaction. A new schedule's message is inserted once and undone at once, so that one that could never be sent
is refused when it is made: a missing column, a value that does not fit, an account without the right to INSERT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from engine.backend.base import StoreConnection
from engine.engine import Engine
from engine.model.errors import NO_SUCH_TABLE, BackendError, InvalidOption, QueueNotFound
from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.model.schedules import (
    Cron,
    Every,
    Insertion,
    Rule,
    Schedule,
    ScheduleName,
)
from engine.schedules.ticks import check_columns, check_rule, insertion, next_tick, own_columns
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome, number
from proxy.session.session import BackendTraits, ClientSession
from proxy.show.schedule_status import UNKNOWN_SCHEDULE, stored_schedule, unknown_schedule
from proxy.statements.unit_of_work import UnitOfWork
from proxy.upstream.base import check_own_table, collected
from rewriter.plan import (
    AlterSchedule,
    CreateSchedule,
    DropSchedule,
    Effects,
    PlanContext,
    RunSchedule,
    SchedulePlan,
)
from rewriter.plans import schedules as sql

_NOW = PlanContext().now_sql
_DUPLICATE = 1062
_STRICT_ERRORS = frozenset((1048, 1263, 1264, 1265, 1292, 1364, 1366, 1406))
"""What strict mode refuses of an INSERT of literals, and a session without it only warns of."""
_EXISTS = 1537  # MySQL's number for events
_CREATOR = 300  # characters of its column

Notes = tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a statement, its effects on queues, and its warnings."""

    outcome: Outcome
    effects: Effects
    notes: Notes = ()


async def server_insert(messages: Insertion, waits: bool) -> Callable[[StoreConnection], object]:
    """See MakeInsert: on a server, which reads what a client would write, and waits for locks where it must."""
    text = sql.insertion_sql(messages)
    return lambda connection: connection.execute(text if waits else connection.without_waiting + text)


class ScheduleStatements(UnitOfWork):
    """See the module. For one session."""

    def __init__(self, session: ClientSession, engine: Engine, traits: BackendTraits) -> None:
        super().__init__(session)
        self._client, self._engine, self._traits = session, engine, traits

    async def run(self, plan: SchedulePlan) -> Done:
        """Carry one out.

        Raises:
            InvalidOption, EngineError: no such times, no such time zone.
            ProxyError: there is such a schedule already, or none.
            BackendError: the database refused a part of it; then nothing of it is applied.
        """
        touched = Effects(touched=frozenset((plan.name.table,)))
        match plan:
            case CreateSchedule():
                return await self._create(plan, touched)
            case AlterSchedule():
                async with self.unit():
                    outcome = await self._change(plan)
                return Done(self.now(outcome), touched)
            case DropSchedule(name, if_exists):
                return await self._drop(name, touched, if_exists=if_exists)
            case RunSchedule(name):
                return await self._send(name)
        assert_never(plan)

    # --- CREATE

    async def _create(self, plan: CreateSchedule, touched: Effects) -> Done:
        check_rule(plan.rule)
        target = self._target(plan.queue)
        columns = own_columns(target) if plan.columns is None else plan.columns
        check_columns(columns, plan.values)
        await self._make_table(plan.name.database)
        async with self.unit():
            now_ns = await self._now_ns()
            schedule = Schedule(
                plan.name,
                plan.queue,
                plan.rule,
                plan.missed,
                False,
                next_tick(plan.rule, now_ns),
                None,
                "",
                f"{self._client.identity.user}@{self._client.identity.host}"[:_CREATOR],
                now_ns,
                now_ns,
                columns,
                plan.values,
            )
            try:
                outcome = await self.do(sql.create_sql(schedule))
            except BackendError as error:
                if error.errno != _DUPLICATE:
                    raise
                if not plan.if_not_exists:
                    raise ProxyError(_EXISTS, f"Schedule '{plan.name}' already exists") from error
                return Done(self.now(Outcome()), touched, _note(_EXISTS, f"Schedule '{plan.name}' already exists"))
            notes = await self._try(insertion(schedule, target, (now_ns,), now_ns))
            if self._traits.accounts:
                await check_own_table(self._client.upstream, plan.queue)
        return Done(self.now(replace(outcome, affected_rows=0, last_insert_id=0)), touched, notes)

    def _target(self, name: QueueName) -> QueueSpec | TopicSpec:
        catalog = self._engine.catalog
        target = catalog.get(name) or catalog.topics.get(name)
        if target is None:
            raise QueueNotFound(f"Table '{name}' doesn't exist or is no queue and no topic")
        return target

    async def _make_table(self, database: str) -> None:
        schedules = self._engine.schedules
        if await schedules.has_table(database):
            return
        if self._traits.holds_writer is not None and self._traits.holds_writer(self._client):
            raise ProxyError(
                1179,
                "The first schedule cannot be made in a transaction that has written: the embedded database has one "
                "writer, and the table of schedules needs it. COMMIT first.",
            )
        try:
            await schedules.make_table(database)
        except BackendError as error:
            raise BackendError(
                f"there is no table of schedules in '{database}', and the proxy's own account could not make it "
                f"(docs/schedules.md): {error.message}",
                error.errno,
                error.sqlstate,
            ) from error

    async def _try(self, messages: Insertion) -> Notes:
        """Insert a message and undo it; what the database warns of. A unique key that is taken now is free later."""
        await self.do("SAVEPOINT queuegate_trial")
        notes: Notes = ()
        try:
            outcome = await self.do(sql.insertion_sql(messages))
        except BackendError as error:
            if error.errno != _DUPLICATE:
                raise
        else:
            if outcome.warnings:
                rows = await self.rows("SHOW WARNINGS", 3)
                notes = tuple((_text(level), number(code), _text(text)) for level, code, text in rows)
            _check_strict(notes)
            if len(notes) < outcome.warnings:
                raise ProxyError(
                    1231, "max_error_count: the database warns of the message, and does not show all of it"
                )
        await self.do("ROLLBACK TO SAVEPOINT queuegate_trial")
        await self.do("RELEASE SAVEPOINT queuegate_trial")
        return notes

    # --- ALTER, DROP and RUN

    async def _change(self, plan: AlterSchedule) -> Outcome:
        name = plan.name
        schedule = await stored_schedule(self._client, name, lock=True)
        now_ns = await self._now_ns()
        if plan.paused:
            return await self.do(sql.pause_sql(name, now_ns))
        if plan.paused is not None:
            return await self.do(sql.resume_sql(name, now_ns, next_tick(schedule.rule, now_ns)))
        rule = _changed(schedule, plan, now_ns)
        next_ns = None if rule is None else next_tick(rule, now_ns)
        return await self.do(sql.change_sql(name, now_ns, next_ns, rule, plan.missed))

    async def _drop(self, name: ScheduleName, touched: Effects, *, if_exists: bool) -> Done:
        try:
            outcome = await self.do(sql.drop_sql(name))
        except BackendError as error:
            if error.errno != NO_SUCH_TABLE:
                raise
            outcome = Outcome(status=self._client.upstream.status)
        if outcome.affected_rows:
            return Done(replace(outcome, affected_rows=0), touched)
        if not if_exists:
            raise unknown_schedule(name)
        return Done(outcome, touched, _note(UNKNOWN_SCHEDULE, f"Unknown schedule '{name}'"))

    async def _send(self, name: ScheduleName) -> Done:
        schedule = await stored_schedule(self._client, name)
        now_ns = await self._now_ns()
        outcome = await self.do(sql.insertion_sql(insertion(schedule, self._target(schedule.queue), (now_ns,), now_ns)))
        queue = schedule.queue
        return Done(outcome, Effects(touched=frozenset((queue,)), tally=(queue, "enqueued")))

    async def _now_ns(self) -> int:
        (now,) = (await collected(self._client.upstream, f"SELECT {_NOW}")).row(1)
        return number(now)


def _changed(schedule: Schedule, plan: AlterSchedule, now_ns: int) -> Rule | None:
    """The new rule; None where it stays, so that a tick that waits is sent. It begins anew where that tick is none of
    the next two: the database's clock was ahead once. Raises InvalidOption."""
    new = _altered(schedule.rule, plan)
    if new != schedule.rule:
        return new
    if plan.every is None and plan.cron is None and plan.zone is None:
        return None
    return new if schedule.next_ns > next_tick(new, next_tick(new, now_ns)) else None


def _altered(rule: Rule, plan: AlterSchedule) -> Rule:
    if plan.every is not None:
        return plan.every
    if plan.cron is None and plan.zone is None:
        return rule
    if plan.cron is not None:
        zone = rule.zone if isinstance(rule, Cron) else "UTC"
        return Cron(plan.cron, plan.zone or zone)
    if isinstance(rule, Every):
        raise InvalidOption("time_zone: a schedule with every has none; give cron, too")
    return Cron(rule.text, plan.zone or rule.zone)


def _check_strict(notes: Notes) -> None:
    """Ticks are sent in strict mode, whatever the session's is. Raises BackendError."""
    for level, errno, text in notes:
        if level == "Warning" and errno in _STRICT_ERRORS:
            raise BackendError(text, errno)


def _note(errno: int, text: str) -> Notes:
    return (("Note", errno, text),)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")

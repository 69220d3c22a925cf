"""The executor: the only place where a plan, the engine and the client's connection to the database meet.

One statement in, its whole answer at the client, and a report to the engine of what was committed. Errors of planning
and of the engine become ERR packets here; only a broken client connection is raised. What one kind of plan alone needs
lives in a module of its own (receive, kill, proxy.show.queue_status).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, assert_never

from engine.engine import Engine
from engine.model.errors import NO_SUCH_TABLE, BackendError, EngineError
from engine.model.queue import ColumnMeta, TextValue
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from proxy.cluster.peers import Peers
from proxy.errors import BackendLost, BackendRefused, BackendUnreachable
from proxy.login.system_database import SUBSTITUTE_DATABASE, is_system
from proxy.session.guard import judge_own, judged_as_plan
from proxy.session.open_transactions import OpenTransactions
from proxy.session.session import BackendTraits, ClientSession
from proxy.show.columns import WARNINGS_COLUMNS, number_column
from proxy.show.queue_status import QueueViews
from proxy.statements.births import SessionBirths
from proxy.statements.database_commands import DatabaseCommands
from proxy.statements.dead_letters import RedriveStatement
from proxy.statements.event_groups import Done, GroupedStatements
from proxy.statements.kill import KillStatement
from proxy.statements.planning import Planning
from proxy.statements.reader import DENIED, StatementReader
from proxy.statements.receive import StreamStatement
from proxy.statements.schedules import ScheduleStatements
from proxy.statements.shards import ShardedStatements, at_tablets, forget_table, prepare_table, run_on
from proxy.statements.topics import TopicStatements, check_partitions
from proxy.upstream.base import charset_of, check_own_table, collected
from proxy.upstream.redaction import redacted_text, redacted_warning
from proxy.upstream.repeats import repeated
from rewriter.errors import RewriteError, SqlSyntaxError
from rewriter.plan import (
    AlterSchedule,
    CreateConsumerGroup,
    CreateSchedule,
    DropSchedule,
    EndInGroup,
    Execute,
    ExecuteCounting,
    ExplainDelivery,
    InsertAfterGroup,
    Kill,
    NoOperation,
    Passthrough,
    Plan,
    ReadSystem,
    Rebind,
    Redrive,
    RunSchedule,
    SchedulePlan,
    SeekConsumerGroup,
    Show,
    ShowSystem,
    Subscribe,
    Trace,
    TraceInQueue,
    UseDatabase,
)
from rewriter.text.lexis import SPACE, WORD_END

log = logging.getLogger(__name__)

_NOTE_ERRNO = 1105  # ER_UNKNOWN_ERROR, MySQL's number for what has none
_HAS_THAT_COLUMN = 1060  # ER_DUP_FIELDNAME
_STORED_ONLY = 1235  # ER_NOT_SUPPORTED_YET
_LIMIT = (
    rb"(?>(?:LIMIT"
    + WORD_END
    + SPACE
    + rb"(?>(?:(\d{1,18})"
    + SPACE
    + rb","
    + SPACE
    + rb")?)(\d{1,18})"
    + SPACE
    + rb")?)"
)
_SHOW_WARNINGS = re.compile(
    SPACE + rb"SHOW" + WORD_END + SPACE + rb"(?:WARNINGS|(ERRORS))" + WORD_END + SPACE + _LIMIT + rb";?" + SPACE,
    re.IGNORECASE,
)
_OF_THE_DATABASE = (BackendError, BackendLost, BackendRefused, BackendUnreachable)
T = TypeVar("T")
ClientFault = (EngineError, RewriteError, ProxyError)


class Executor:
    """Runs plans for one session."""

    def __init__(
        self,
        session: ClientSession,
        engine: Engine,
        planning: Planning,
        peers: Peers,
        traits: BackendTraits,
        *,
        allow_drop_table: bool = False,
        transactions: OpenTransactions | None = None,
    ) -> None:
        self.database = DatabaseCommands(session, engine, transactions)
        self.session = session
        self.engine = engine
        self.peers = peers
        self.traits = traits
        self._views = QueueViews(session, engine, peers, traits, planning.defaults)
        self.reader = StatementReader(session, engine, planning, self._views, traits, allow_drop_table=allow_drop_table)
        self.births = SessionBirths(session, engine, planning, self.reader, self.database)

    @property
    def streams(self) -> StreamStatement:
        """What opens and sends streams for this session."""
        return StreamStatement(self.session, self.engine, self.traits, self.database)

    @property
    def _shards(self) -> ShardedStatements:
        return ShardedStatements(self.session, self.engine, self.database)

    @property
    def kills(self) -> KillStatement:
        """What carries out KILL for this session."""
        return KillStatement(self.session, self.peers, self.traits, self.database)

    # --- statements

    async def run(self, text: bytes, *, more: bool = False) -> bool:
        """Plan and run one statement of a text command; False once an error has ended the command."""
        self.session.writer.more = more
        try:
            return (await self._run_plan(await self.reader.planned(text), text, more)).ok
        except ClientFault as error:
            await self.fail(error)
            return False
        finally:
            self.session.writer.more = False

    async def _run_plan(self, plan: Plan, text: bytes, more: bool) -> Outcome:
        database = self.database
        match plan:
            case Passthrough(effects):
                outcome = await database.forward(database.query(text), effects, effects.transaction, more=more)
                self.reader.learn(text, ok=outcome.ok)
                return outcome
            case Execute():
                return await self.execute(plan, more=more)
            case EndInGroup() | InsertAfterGroup():
                return await self.run_grouped(plan)
            case Redrive():
                return await self.redrive(plan)
            case CreateConsumerGroup() | SeekConsumerGroup():
                return await self.on_topic(plan)
            case CreateSchedule() | AlterSchedule() | DropSchedule() | RunSchedule():
                return await self.on_schedule(plan)
            case ExecuteCounting():
                outcome, row = await self.counted(plan)
                await self.session.writer.result((number_column(plan.column),), [row])
                return outcome
            case Rebind():
                raise SqlSyntaxError("You have an error in your SQL syntax: a ? has a value only where it is prepared")
            case UseDatabase(name):
                return await self._use(text, name, more)
            case Kill():
                return await self.kills.run(plan, text, more=more)
            case Subscribe():
                return await self.streams.run(plan)
            case ReadSystem(pieces):
                query = database.query(self.reader.encode(await self._views.rendered(pieces)))
                async with database.at_tablet():
                    return await database.forward(query, more=more)
            case ShowSystem() if await self._views.real_database():
                return await database.forward(database.query(text), more=more)
            case NoOperation() | Show() | ShowSystem() | ExplainDelivery() | Trace() | TraceInQueue():
                columns, rows = await self.local_result(plan, text)
                if columns:
                    await self.send(columns, rows)
                else:
                    await self.session.writer.ok(warnings=len(self.session.notes))
                return Outcome()
        assert_never(plan)

    async def execute(self, plan: Execute, *, more: bool = False) -> Outcome:
        """Run a queue statement and answer it."""
        await self._accepted(plan)
        if plan.warnings or at_tablets(plan, self.engine.catalog) or judged_as_plan(self.session, plan):
            return await self._execute_with_warnings(plan)
        sql = self.session.pinned(plan.sql, plan.pins)
        query = self.database.query(self.reader.encode(sql))
        plain = query if sql is plan.sql else self.database.query(self.reader.encode(plan.sql))
        outcome = await self.database.forward(query, plan.effects, more=more, repeatable=True, plain=plain)
        if outcome.ok and plan.vschema is not None and plan.vschema.drops:
            await forget_table(plan.vschema, partial(run_on, self.session))
        return outcome

    async def carry_out(self, plan: Plan) -> Outcome:
        """Run a statement that changes messages, and answer nothing: it is one of several that the client sent as one.

        Raises:
            ProxyError: 1295, it is no such statement.
            BackendError: it failed.
        """
        if isinstance(plan, EndInGroup | InsertAfterGroup):
            return (await self._grouped(plan)).outcome
        if not isinstance(plan, Execute):
            raise ProxyError(1295, "This command cannot be executed in bulk; one by one")
        await self._accepted(plan)
        return await self._carried_out(plan)

    async def _accepted(self, plan: Execute) -> None:
        """Have the database do what comes before a statement. Raises BackendError."""
        # A table that is still to be made: a client without a right on it has had another error.
        for sql, as_good in ((plan.check, NO_SUCH_TABLE), (plan.adds, _HAS_THAT_COLUMN)):
            if not sql:
                continue
            outcome = await self.session.upstream.collect(sql)
            if isinstance(outcome, Outcome) and not outcome.ok and outcome.errno != as_good:
                raise outcome.failure()
        of_filter = (plan.manages.topic,) if plan.manages is not None and plan.check else ()
        for table in (plan.effects.names or of_filter) if self.traits.accounts else ():
            await check_own_table(self.session.upstream, table)
        if plan.vschema is not None and not plan.vschema.drops:
            await prepare_table(plan.vschema, partial(run_on, self.session))
        if plan.partitions is not None:
            await check_partitions(self.session, self.traits, plan.partitions)

    async def counted(self, plan: ExecuteCounting) -> tuple[Outcome, tuple[bytes]]:
        """Run a verb that was written as a function; its one row, in the text protocol's form."""
        counts = plan.counts
        if isinstance(counts, EndInGroup):
            outcome = (await self._grouped(counts)).outcome
        else:
            outcome = await self._carried_out(counts)
        return outcome, (b"%d" % outcome.affected_rows,)

    async def _execute_with_warnings(self, plan: Execute) -> Outcome:
        """A statement that the database supports only in part: it executes it, the proxy answers."""
        outcome = await self._carried_out(plan)
        if plan.effects.names is not None:
            await self.engine.dead_letter_names.add(*plan.effects.names)
        if plan.effects.catalog:
            await self.database.refresh_catalog(plan.effects.catalog)
        self.session.notes = tuple(("Warning", _STORED_ONLY, text) for text in plan.warnings)
        await self.session.writer.ok(affected_rows=outcome.affected_rows, warnings=len(plan.warnings))
        return outcome

    async def _carried_out(self, plan: Execute) -> Outcome:
        """Have the database run what we answer. Raises BackendError."""
        if at_tablets(plan, self.engine.catalog):
            return await self._shards.run(plan)
        if not judged_as_plan(self.session, plan):
            await judge_own(self.session, plan.sql)
        return await self._repeated(lambda: self._collected(plan))

    async def _repeated(self, run: Callable[[], Awaitable[T]]) -> T:
        return await repeated(self.session.upstream.status, run)

    async def _collected(self, plan: Execute) -> Outcome:
        await self.database.limit(plan.effects)
        result = await self.session.upstream.collect(self.session.pinned(plan.sql, plan.pins))
        outcome = result if isinstance(result, Outcome) else Outcome(status=self.session.upstream.status)
        self.database.note(outcome, plan.effects)
        if not outcome.ok:
            raise outcome.failure()
        return outcome

    async def redrive(self, plan: Redrive) -> Outcome:
        """Put dead letters back, and answer."""

        async def run() -> Outcome:
            return await self._repeated(lambda: RedriveStatement(self.session).run(plan))

        try:
            outcome = await (run() if plan.at_shards is None else self._shards.each(plan.at_shards, run, plan.effects))
        except BackendError as error:
            self.database.note(Outcome.of(error), plan.effects)
            raise
        self.database.note(outcome, plan.effects)
        await self.session.writer.ok(affected_rows=outcome.affected_rows)
        return outcome

    async def on_topic(self, plan: CreateConsumerGroup | SeekConsumerGroup) -> Outcome:
        """Make or move a consumer group, and answer."""
        topics = TopicStatements(self.session, self.engine)
        try:
            if isinstance(plan, CreateConsumerGroup):
                outcome = await topics.create(plan)
            else:
                outcome, note = await self._repeated(lambda: topics.seek(plan))
                self.session.notes = (("Note", _NOTE_ERRNO, note),)
        except BackendError as error:
            self.database.note(Outcome.of(error))
            raise
        self.database.note(outcome)
        await self.session.writer.ok(affected_rows=outcome.affected_rows, warnings=len(self.session.notes))
        return outcome

    async def on_schedule(self, plan: SchedulePlan) -> Outcome:
        """Change or run a schedule, and answer."""
        try:
            schedules = ScheduleStatements(self.session, self.engine, self.traits)
            done = await self._repeated(lambda: schedules.run(plan))
        except BackendError as error:
            self.database.note(Outcome.of(error))
            raise
        except ClientFault:
            self.database.note(Outcome(status=self.session.upstream.status))
            raise
        self.database.note(done.outcome, done.effects)
        self.session.notes = done.notes
        await self.session.writer.ok(
            affected_rows=done.outcome.affected_rows,
            last_insert_id=done.outcome.last_insert_id,
            warnings=len(done.notes),
        )
        return done.outcome

    async def run_grouped(self, plan: EndInGroup | InsertAfterGroup) -> Outcome:
        """Run a statement on messages that form groups, and answer it."""
        done = await self._grouped(plan)
        self.session.notes = done.notes
        outcome = done.outcome
        await self.session.writer.ok(
            affected_rows=outcome.affected_rows,
            last_insert_id=outcome.last_insert_id,
            warnings=outcome.warnings,
            info=outcome.info,
        )
        return outcome

    async def _grouped(self, plan: EndInGroup | InsertAfterGroup) -> Done:
        session, grouped = self.session, GroupedStatements(self.session, self.engine.catalog.get)
        await judge_own(session, plan.sql if isinstance(plan, EndInGroup) else plan.plain)
        try:
            done = await self._repeated(
                lambda: grouped.end(plan) if isinstance(plan, EndInGroup) else grouped.insert(plan)
            )
        except BackendError as error:
            if error.errno in DENIED and not (await self._views.can_see())(plan.group.queue):
                await self.reader.check_denied(plan.group.queue)
            self.database.note(Outcome.of(error), plan.effects)
            raise
        self.database.note(done.outcome, replace(plan.effects, touched=plan.effects.touched | done.sent))
        return done

    # --- the proxy's own answers

    async def local_result(
        self, plan: Plan, text: bytes = b""
    ) -> tuple[tuple[ColumnMeta, ...], Sequence[tuple[bytes | None, ...]]]:
        """Columns and rows of a statement that the proxy answers; no columns means OK.

        Args:
            plan: what to answer.
            text: the statement as the client wrote it, if it did: so the process list will show it.
        """
        match plan:
            case NoOperation(errno, note):
                self.session.notes = (("Note", errno, note),)
                return (), ()
            case Show() | ShowSystem() | ExplainDelivery() | Trace() | TraceInQueue():
                return await self._views.answer(plan, self.reader.decode(text))
            case ReadSystem(pieces):
                sql = await self._views.rendered(pieces)
                async with self.database.at_tablet():
                    listed = await collected(self.session.upstream, sql)
                return listed.columns, listed.rows
            case _:
                raise ProxyError(1295, "This command is not supported in the prepared statement protocol yet")

    async def _use(self, text: bytes, database: str, more: bool) -> Outcome:
        if is_system(database) and (set_database := await self.enter_system_database()) is not None:
            return set_database
        outcome = await self.database.forward(self.database.query(text), more=more)
        if outcome.ok:
            self.session.set_database(database)
        return outcome

    async def enter_system_database(self) -> Outcome | None:
        """USE queuegate, answered. None: the server has such a database, or the account is limited to queues."""
        session = self.session
        if session.rights is not None or await self._views.real_database():
            return None
        outcome = await session.upstream.collect(f"USE {SUBSTITUTE_DATABASE}")
        assert isinstance(outcome, Outcome)
        if not outcome.ok:
            raise outcome.failure()
        self.database.note(outcome)
        session.enter_substituted()
        await session.writer.ok()
        return outcome

    async def answer_show_warnings(self, text: bytes) -> bool:
        """Answer SHOW WARNINGS and SHOW ERRORS after a statement of our own, or one that failed here; any other
        statement forgets its notes."""
        notes, self.session.notes = self.session.notes, ()
        if not notes or (match := _SHOW_WARNINGS.fullmatch(text)) is None:
            return False
        self.session.notes = notes
        rows = [
            (level.encode(), b"%d" % errno, text.encode("utf-8", "replace"))
            for level, errno, text in notes
            if not match[1] or level == "Error"
        ]
        first, most = int(match[2] or 0), int(match[3] or len(rows))
        rows = rows[first : first + most]
        shown = rows if self.session.rights is None else [redacted_warning(row) for row in rows]
        await self.send(WARNINGS_COLUMNS, shown)
        return True

    async def send(
        self, columns: Sequence[ColumnMeta], rows: Sequence[Sequence[TextValue]], *, binary: bool = False
    ) -> None:
        """Answer with these rows, which are in UTF-8."""
        charset = await charset_of(self.session.upstream, rows)
        await self.session.writer.result(columns, rows, charset, binary=binary)

    # --- errors

    async def fail(self, error: EngineError | RewriteError | ProxyError) -> None:
        """Send the client the error."""
        self.session.writer.status = self.session.upstream.status
        message = error.message
        if self.session.rights is not None and isinstance(error, _OF_THE_DATABASE):
            message = redacted_text(error.errno, message)
        self.session.notes = (("Error", error.errno, message),)
        await self.session.writer.error(error.errno, error.sqlstate, message)

"""The executor: the only place where a plan, the engine and the client's line to the database meet.

One statement in, its whole answer at the client, and the engine told what was committed. Errors of planning and of the
engine become ERR packets here; only a broken client connection is raised. What one kind of plan alone needs lives in a
module of its own (receive, kill, proxy.show.views).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import assert_never

from engine.engine import Engine
from engine.model.errors import BackendError, EngineError, NotAQueue
from engine.model.queue import ColumnMeta, QueueName
from proxy.cluster.peers import Peers
from proxy.errors import BackendLost, BackendRefused, BackendUnreachable, ProxyError
from proxy.login.system_database import STANDS_IN, is_system
from proxy.session.guard import check_plan, check_sees, judge_grouped
from proxy.session.open_transactions import OpenTransactions, SessionTransactions
from proxy.session.session import ClientSession
from proxy.session.traits import BackendTraits
from proxy.show.columns import QUEUES_COLUMNS, WARNINGS_COLUMNS, number_column, queue_rows
from proxy.show.create_queue import show_create
from proxy.show.process_list import process_list
from proxy.show.views import QueueViews
from proxy.statements.dead_letters import RedriveStatement
from proxy.statements.drop_table import check_removal
from proxy.statements.event_groups import Done, GroupedStatements
from proxy.statements.kill import KillStatement
from proxy.statements.planning import Planning
from proxy.statements.receive import StreamStatement
from proxy.upstream.base import collected, encoded
from proxy.upstream.concealing import concealed_text, concealed_warning
from proxy.upstream.large_command import LargeCommand
from proxy.wire import replies, requests
from proxy.wire.flags import BACKSLASH_IN_CHARACTERS, encoding_named
from proxy.wire.outcome import Collected, Outcome
from rewriter.errors import RewriteError, SqlSyntaxError, UnknownQueue
from rewriter.plan import (
    NO_EFFECTS,
    Effects,
    EndInGroup,
    Execute,
    ExecuteCounting,
    ExplainDelivery,
    InsertAfterGroup,
    Kill,
    NoOperation,
    Passthrough,
    Plan,
    PlanContext,
    ReadSystem,
    Rebind,
    Redrive,
    ShowCreateQueue,
    ShowProcessList,
    ShowQueues,
    ShowQueueStatus,
    ShowSubscriptions,
    ShowSystem,
    Subscribe,
    TransactionVerb,
    UseDatabase,
)
from rewriter.scan.scanner import split_statements
from rewriter.text.lexis import defines_queue, leading_verb
from rewriter.text.long_text import LONG_TEXT
from rewriter.text.queue_names import UNKNOWN_DATABASE

log = logging.getLogger(__name__)

_KEPT_ONLY = 1235  # ER_NOT_SUPPORTED_YET
_SET_NAMES = re.compile(rb"\s*set\s+names\s+['\"]?(\w+)['\"]?(?:\s+collate\s+['\"]?\w+['\"]?)?\s*;?\s*", re.IGNORECASE)
_DENIED = frozenset((1044, 1142, 1143))
_UNSETTLING = (b"SET", b"PREPARE", b"EXECUTE")
_SHOW_WARNINGS = re.compile(rb"\s*show\s+warnings\s*;?\s*", re.IGNORECASE)
_OF_THE_DATABASE = (BackendError, BackendLost, BackendRefused, BackendUnreachable)
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
        self.transactions = SessionTransactions(transactions or OpenTransactions(0))
        self.excess: ProxyError | None = None
        """Why the session must end: it has begun one transaction too many."""
        self.session = session
        self.engine = engine
        self.planning = planning
        self.peers = peers
        self.traits = traits
        self.allow_drop_table = allow_drop_table
        self._views = QueueViews(session, engine, peers, traits)

    @property
    def streams(self) -> StreamStatement:
        """What opens and sends streams for this session."""
        return StreamStatement(self.session, self.engine, self.traits)

    @property
    def kills(self) -> KillStatement:
        """What carries out KILL for this session."""
        return KillStatement(self.session, self.peers, self.traits, self._forward_text)

    # --- statements

    async def plan(self, text: bytes) -> Plan:
        """The plan for one statement; raises ClientFault kinds. A long one is planned in a thread, so that others have
        their turn meanwhile."""
        planner = self.planning.planner_for(self.session.rights)  # here: a thread must not build one
        context = PlanContext(self.session.database, sql_modes=self.session.reading_modes())
        if len(text) <= LONG_TEXT:
            return planner.plan(self.decode(text), context)
        return await asyncio.to_thread(planner.plan, self.decode(text), context)

    async def planned(self, text: bytes) -> Plan:
        """As `plan`, but what the catalog does not know is asked of the database: a table called `stream` that got an
        alias, a queue that another proxy has just made, or a table that is no queue. And only what the session may."""
        plan = await self._found(text)
        if self.session.rights is not None:
            check_plan(self.session, plan)
            if isinstance(plan, Execute):
                return replace(plan, warnings=())  # those make it a statement of ours, which is not judged
        elif isinstance(plan, Passthrough) and plan.effects.removes and not self.allow_drop_table:
            await self.engine.refresh_catalog()  # what was a queue may be an ordinary table by now
            plan = await self.plan(text)
            await check_removal(self.session, plan)
        return plan

    async def _found(self, text: bytes) -> Plan:
        if leading_verb(text)[0] not in _UNSETTLING:
            await self.settle(text)
        if defines_queue(text):
            await (
                self.engine.refresh_catalog()
            )  # another proxy, or somebody around it, may have changed it a moment ago
        try:
            return await self._judged(text)
        except UnknownQueue as error:
            if error.queue is not None:
                check_sees(self.session, error.queue)
            if error.perhaps_alias and await self._table_exists("`stream`"):
                return Passthrough()
            queue = error.queue
            if queue is None or not await self._table_exists(queue.sql):
                raise
        await self.engine.refresh_on_miss(patient=True)
        try:
            return await self.plan(text)
        except UnknownQueue:
            raise NotAQueue(f"'{queue.table}' is not a queue") from None

    async def _judged(self, text: bytes) -> Plan:
        """The plan. What is wrong with a statement on a queue is told to none who may not know of that queue: to them
        it is a queue that does not exist, or whatever the database says of a table that they have no right to."""
        try:
            return await self.plan(text)
        except UnknownQueue as error:
            if self.session.rights is None and self.traits.accounts:
                await self._check_denied(error.queue)
            raise
        except (EngineError, RewriteError):
            if self.session.rights is not None or not self.traits.accounts:
                raise
            if not self.planning.scanner.names_queue(text):
                raise
            sees = await self._views.sees()
            try:
                context = PlanContext(self.session.database, sql_modes=self.session.reading_modes())
                return self.planning.planner_of(sees).plan(self.decode(text), context)
            except UnknownQueue as error:
                await self._check_denied(error.queue)
                raise

    async def _check_denied(self, queue: QueueName | None) -> None:
        """Raises what the database says of a table to which the client has no right, be it there or not."""
        if queue is None:
            return
        probe = await self.session.upstream.collect(f"UPDATE {queue.sql} SET time_next = 0 WHERE 1 = 0")
        if isinstance(probe, Outcome) and probe.errno in _DENIED:
            raise probe.failure()

    @property
    def several(self) -> bool:
        """Whether the client may send several statements at once."""
        return bool(self.session.writer.capabilities & replies.MULTI_STATEMENTS)

    @property
    def splittable(self) -> bool:
        """Whether the bytes of a text tell where its statements end."""
        return self.session.identity.codec not in BACKSLASH_IN_CHARACTERS

    async def split(self, text: bytes) -> list[bytes]:
        """The statements of a text, where the client may send several; a text that cannot be split safely is one. A
        long text is split in a thread."""
        if not self.several or not self.splittable:
            return [text]
        escapes = not self.session.no_backslash_escapes
        if len(text) <= LONG_TEXT:
            return split_statements(text, backslash_escapes=escapes) or [text]
        return await asyncio.to_thread(split_statements, text, backslash_escapes=escapes) or [text]

    def decode(self, text: bytes) -> str:
        """A client's text. Bytes that are not valid in its charset are carried through: the database judges them."""
        return text.decode(self.session.identity.codec, "surrogateescape")

    def encode(self, sql: str) -> bytes:
        """The inverse of `decode`. Raises BackendError: a name has no form in the client's character set."""
        return encoded(sql, self.session.identity.codec)

    async def run(self, text: bytes, *, more: bool = False) -> bool:
        """Plan and run one statement of a text command; False once an error has ended the command."""
        self.session.writer.more = more
        try:
            return (await self._run_plan(await self.planned(text), text, more)).ok
        except ClientFault as error:
            await self.fail(error)
            return False
        finally:
            self.session.writer.more = False

    async def _run_plan(self, plan: Plan, text: bytes, more: bool) -> Outcome:
        match plan:
            case Passthrough(effects):
                outcome = await self.forward(self.query(text), effects, effects.transaction, more=more)
                if outcome.ok:
                    self.learn(text)
                return outcome
            case Execute():
                return await self.execute(plan, more=more)
            case EndInGroup() | InsertAfterGroup():
                return await self.run_grouped(plan)
            case Redrive():
                return await self.redrive(plan)
            case ExecuteCounting():
                outcome, row = await self.counted(plan)
                await self.session.writer.result((number_column(plan.column),), [row])
                return outcome
            case Rebind():
                raise SqlSyntaxError("You have an error in your SQL syntax: a ? has a value only where it is prepared")
            case UseDatabase(database):
                return await self._use(text, database, more)
            case Kill():
                return await self.kills.run(plan, text, more=more)
            case Subscribe():
                return await self.streams.run(plan)
            case ReadSystem(pieces):
                return await self.forward(self.query(self.encode(await self._views.rendered(pieces))), more=more)
            case ShowSystem() if await self._views.real_database():
                return await self.forward(self.query(text), more=more)
            case (
                NoOperation()
                | ShowSystem()
                | ShowQueues()
                | ShowQueueStatus()
                | ShowSubscriptions()
                | ExplainDelivery()
                | ShowCreateQueue()
                | ShowProcessList()
            ):
                columns, rows = await self.local_result(plan, text)
                if columns:
                    await self.session.writer.result(columns, rows)
                else:
                    await self.session.writer.ok(warnings=len(self.session.notes))
                return Outcome()
        assert_never(plan)

    def query(self, text: bytes) -> bytes:
        """COM_QUERY with this text, in the form that was agreed with the database."""
        return requests.query_payload(text, self.session.identity.capabilities)

    async def forward(
        self, payload: bytes, effects: Effects = NO_EFFECTS, verb: TransactionVerb | None = None, *, more: bool = False
    ) -> Outcome:
        """Have the database answer a command, and take note of what it did."""
        answering = self.session.upstream.command(payload, more=more, hold=effects.catalog)
        outcome = await self._answered(answering, effects)
        self.note(outcome, effects, verb)
        return outcome

    async def pass_on(self, large: LargeCommand, effects: Effects = NO_EFFECTS) -> Outcome:
        """As `forward`, for a command that the client is still sending. To take note is the caller's: what it did may
        be known only now."""
        return await self._answered(self.session.upstream.pass_on(large, hold=effects.catalog), effects)

    async def _answered(self, answering: Awaitable[Outcome], effects: Effects) -> Outcome:
        outcome = await answering
        if effects.catalog and (outcome.ok or effects.several):
            await self._refresh_catalog()
        if effects.catalog:
            await self.session.upstream.deliver()
        return outcome

    async def execute(self, plan: Execute, *, more: bool = False) -> Outcome:
        """Run a queue statement and answer it."""
        if plan.warnings:
            return await self._execute_with_warnings(plan)
        return await self.forward(self.query(self.encode(plan.sql)), plan.effects, more=more)

    async def counted(self, plan: ExecuteCounting) -> tuple[Outcome, tuple[bytes]]:
        """Run a verb that was written as a function; its one row, in the text protocol's form."""
        counts = plan.counts
        if isinstance(counts, EndInGroup):
            outcome = (await self._grouped(counts)).outcome
        else:
            outcome = await self._carried_out(counts)
        return outcome, (b"%d" % outcome.affected_rows,)

    async def _execute_with_warnings(self, plan: Execute) -> Outcome:
        """A statement that the database knows only half of: it carries it out, we answer."""
        outcome = await self._carried_out(plan)
        if plan.effects.catalog:
            await self._refresh_catalog()
        self.session.notes = tuple(("Warning", _KEPT_ONLY, text) for text in plan.warnings)
        await self.session.writer.ok(affected_rows=outcome.affected_rows, warnings=len(plan.warnings))
        return outcome

    async def _carried_out(self, plan: Execute) -> Outcome:
        """Have the database run what we answer. Raises BackendError."""
        result = await self.session.upstream.collect(plan.sql)
        outcome = result if isinstance(result, Outcome) else Outcome(status=self.session.upstream.status)
        self.note(outcome, plan.effects)
        if not outcome.ok:
            raise outcome.failure()
        return outcome

    async def redrive(self, plan: Redrive) -> Outcome:
        """Put dead letters back, and answer."""
        try:
            outcome = await RedriveStatement(self.session).run(plan)
        except BackendError as error:
            self.note(Outcome.of(error), plan.effects)
            raise
        self.note(outcome, plan.effects)
        await self.session.writer.ok(affected_rows=outcome.affected_rows)
        return outcome

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
        await judge_grouped(session, plan)
        try:
            done = await (grouped.end(plan) if isinstance(plan, EndInGroup) else grouped.insert(plan))
        except BackendError as error:
            if error.errno in _DENIED and not (await self._views.sees())(plan.group.queue):
                await self._check_denied(plan.group.queue)
            self.note(Outcome.of(error), plan.effects)
            raise
        self.note(done.outcome, replace(plan.effects, touched=plan.effects.touched | done.sent))
        return done

    def note(self, outcome: Outcome, effects: Effects = NO_EFFECTS, verb: TransactionVerb | None = None) -> None:
        """After an answer: keep the status flags and tell the engine of a transaction that has ended."""
        session = self.session
        session.writer.status = session.upstream.status
        in_transaction, user = session.in_transaction, session.identity.user
        self.excess = self.transactions.follow(user, in_transaction, free=session.admin) or self.excess
        report = session.scope.record(
            effects, verb, ok=outcome.ok, in_transaction=in_transaction, affected=outcome.affected_rows
        )
        if report:
            self.engine.committed(report)

    async def _refresh_catalog(self) -> None:
        try:
            await self.engine.catalog_changed()
        except BackendError as error:
            # The statement itself succeeded; the periodic look will find the change.
            log.warning("catalog not refreshed after DDL: %s", error)

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
            case ShowQueues(database, like):
                statuses, sees = await self.peers.queue_statuses(), await self._views.sees()
                return QUEUES_COLUMNS, queue_rows(statuses, self.engine.catalog, database, like, sees)
            case ShowQueueStatus() | ShowSubscriptions() | ExplainDelivery() | ShowSystem():
                return await self._views.answer(plan)
            case ReadSystem(pieces):
                listed = await self._collect(await self._views.rendered(pieces))
                return listed.columns, listed.rows
            case ShowCreateQueue(queue):
                return await show_create(self.session, self.engine, queue)
            case ShowProcessList(full):
                sql = self.decode(text) or ("SHOW FULL PROCESSLIST" if full else "SHOW PROCESSLIST")
                return await process_list(self.session, self.peers, sql)
            case _:
                raise ProxyError(1295, "This command is not supported in the prepared statement protocol yet")

    async def _collect(self, sql: str) -> Collected:
        return await collected(self.session.upstream, sql)

    async def _forward_text(self, text: bytes, more: bool) -> Outcome:
        return await self.forward(self.query(text), more=more)

    async def _use(self, text: bytes, database: str, more: bool) -> Outcome:
        if is_system(database) and (entered := await self.enter_system_database()) is not None:
            return entered
        outcome = await self._forward_text(text, more)
        if outcome.ok:
            self.session.entered(database)
        return outcome

    async def enter_system_database(self) -> Outcome | None:
        """USE queuegate, answered. None: the server has such a database, or the account is limited to queues."""
        session = self.session
        if session.rights is not None or await self._views.real_database():
            return None
        outcome = await session.upstream.collect(f"USE {STANDS_IN}")
        assert isinstance(outcome, Outcome)
        if not outcome.ok:
            raise outcome.failure()
        self.note(outcome)
        session.stand_in()
        await session.writer.ok()
        return outcome

    def learn(self, text: bytes) -> None:
        """After a statement that may have changed how those to come are to be read. MariaDB runs USE from a string."""
        session = self.session
        verb, _ = leading_verb(text)
        if verb == b"PREPARE":
            session.may_use = True
        elif verb == b"EXECUTE" and (session.may_use or b"immediate" in text[:64].lower()):
            session.database, session.unsettled = UNKNOWN_DATABASE, True
        elif verb == b"SET" and (named := _SET_NAMES.fullmatch(text)) is not None:
            self._recode(named[1].decode().lower())
        elif verb == b"USE":
            session.entered(UNKNOWN_DATABASE)  # in a form that only the server reads
            session.unsettled = True
        elif verb == b"SET":
            session.unsettled = True

    def _recode(self, charset: str) -> None:
        codec = encoding_named(charset)
        if codec != self.session.identity.codec:
            self.session.identity = replace(self.session.identity, codec=codec)
            self.session.upstream.recode(codec)

    async def settle(self, text: bytes) -> None:
        """Ask for what may have changed unseen, if the reading of this text depends on it. Not at once when it may have
        changed: that would take warnings and counts from the client."""
        session = self.session
        plain = text.isascii() and b'"' not in text and b"\\" not in text
        if not session.unsettled or (plain and session.database != UNKNOWN_DATABASE):
            return
        listed = await self._collect("SELECT @@character_set_client, @@sql_mode, DATABASE()")
        charset, modes, database = ("" if value is None else self.decode(value) for value in listed.row(3))
        self._recode(charset)
        session.sql_modes = frozenset(modes.split(","))
        session.entered_as_told(database)
        session.unsettled = False

    async def told_notes(self, text: bytes) -> bool:
        """Answer SHOW WARNINGS after a statement of our own; any other statement forgets its notes."""
        notes, self.session.notes = self.session.notes, ()
        if not notes or _SHOW_WARNINGS.fullmatch(text) is None:
            return False
        self.session.notes = notes
        rows = [(level.encode(), b"%d" % errno, text.encode()) for level, errno, text in notes]
        shown = rows if self.session.rights is None else [concealed_warning(row) for row in rows]
        await self.session.writer.result(WARNINGS_COLUMNS, shown)
        return True

    # --- errors

    async def _table_exists(self, name: str) -> bool:
        return isinstance(await self.session.upstream.collect(f"SELECT 1 FROM {name} LIMIT 0"), Collected)

    async def fail(self, error: EngineError | RewriteError | ProxyError) -> None:
        """Tell the client what was wrong."""
        self.session.writer.status = self.session.upstream.status
        message = error.message
        if self.session.rights is not None and isinstance(error, _OF_THE_DATABASE):
            message = concealed_text(error.errno, message)
        await self.session.writer.error(error.errno, error.sqlstate, message)

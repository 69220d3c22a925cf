"""The executor: the only place where a plan, the engine and the client's line to the database meet.

One statement in, its whole answer at the client, and the engine told what was committed. Errors of planning and of the
engine become ERR packets here; only a broken client connection is raised.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import assert_never

from mysql_mimic.constants import KillKind

from engine.engine import Engine, Subscription
from engine.errors import BackendError, EngineError, NotAQueue, QueueNotFound, StreamKilled
from engine.model import ColumnMeta, QueueName, SubscribeRequest, WaitMode
from proxy import params, wire
from proxy.errors import ProxyError
from proxy.planning import Planning
from proxy.registry import ConnectionRegistry, RegisteredConnection
from proxy.rows import RowForm, is_text
from proxy.session import ClientSession
from proxy.show import QUEUES_COLUMNS, WARNINGS_COLUMNS, processes_with_streams, queue_rows, text_column
from proxy.streaming import stream_rows
from proxy.upstream import Collected, Outcome
from rewriter.errors import RewriteError, UnknownQueue
from rewriter.plan import (
    NO_EFFECTS,
    Effects,
    Execute,
    Kill,
    NoOperation,
    Passthrough,
    Plan,
    PlanContext,
    ShowCreateQueue,
    ShowProcessList,
    ShowQueues,
    Subscribe,
    TransactionVerb,
    UseDatabase,
)
from rewriter.scanner import split_statements
from rewriter.schema_ddl import show_create_queue

log = logging.getLogger(__name__)

# In these charsets the byte of a backslash may be half a character, so bytes alone do not tell where a string ends.
_BACKSLASH_IN_CHARACTERS = frozenset(("gbk", "gb18030", "big5", "sjis", "shift_jis", "cp932"))
_KEPT_ONLY = 1235  # ER_NOT_SUPPORTED_YET
LIMIT_MAX = (1 << 63) - 1
_SHOW_WARNINGS = re.compile(rb"\s*show\s+warnings\s*;?\s*", re.IGNORECASE)
ClientFault = (EngineError, RewriteError, ProxyError)


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """What differs between backends for the executor. `accounts`: the database knows the client and its rights."""

    accounts: bool


class Executor:
    """Runs plans for one session."""

    def __init__(
        self,
        session: ClientSession,
        engine: Engine,
        planning: Planning,
        registry: ConnectionRegistry,
        traits: BackendTraits,
    ) -> None:
        self.session = session
        self.engine = engine
        self.planning = planning
        self.registry = registry
        self.traits = traits

    # --- statements

    def plan(self, text: bytes) -> Plan:
        """The plan for one statement; raises ClientFault kinds."""
        sql = self.decode(text)
        return self.planning.planner.plan(sql, PlanContext(self.session.database, sql_modes=self._sql_modes()))

    async def planned(self, text: bytes) -> Plan:
        """As `plan`, but what the catalog does not know is asked of the database: a table called `stream` that got an
        alias, a queue that another proxy has just made, or a table that is no queue."""
        try:
            return self.plan(text)
        except UnknownQueue as error:
            if error.perhaps_alias and await self._table_exists("`stream`"):
                return Passthrough()
            queue = error.queue
            if queue is None or not await self._table_exists(_quoted(queue)):
                raise
        await self.engine.refresh_on_miss(patient=True)
        try:
            return self.plan(text)
        except UnknownQueue:
            raise NotAQueue(f"'{queue.table}' is not a queue") from None

    def _sql_modes(self) -> frozenset[str]:
        return frozenset(("NO_BACKSLASH_ESCAPES",)) if self.session.no_backslash_escapes else frozenset()

    def split(self, text: bytes) -> list[bytes]:
        """The statements of a text, where the client may send several; a text that cannot be split safely is one."""
        identity = self.session.identity
        if not self.session.writer.capabilities & wire.MULTI_STATEMENTS or identity.codec in _BACKSLASH_IN_CHARACTERS:
            return [text]
        return split_statements(text, backslash_escapes=not self.session.no_backslash_escapes) or [text]

    def decode(self, text: bytes) -> str:
        """A client's text. Bytes that are not valid in its charset are carried through: the database judges them."""
        return text.decode(self.session.identity.codec, "surrogateescape")

    def encode(self, sql: str) -> bytes:
        """The inverse of `decode`."""
        return sql.encode(self.session.identity.codec, "surrogateescape")

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
                return await self.forward(self._query(text), effects, effects.transaction, more=more)
            case Execute(sql, effects, ()):
                return await self.forward(self._query(self.encode(sql)), effects, more=more)
            case Execute():
                return await self._execute_with_warnings(plan)
            case UseDatabase(database):
                return await self._use(text, database, more)
            case Kill():
                return await self._kill(plan, text, more)
            case Subscribe():
                await self._stream(plan.request)
                return Outcome()
            case NoOperation() | ShowQueues() | ShowCreateQueue() | ShowProcessList():
                columns, rows = await self.local_result(plan)
                if columns:
                    await self.session.writer.result(columns, rows)
                else:
                    await self.session.writer.ok(warnings=len(self.session.notes))
                return Outcome()
        assert_never(plan)

    def _query(self, text: bytes) -> bytes:
        """COM_QUERY with this text, in the form that was agreed with the database."""
        return params.query_payload(text, self.session.identity.capabilities)

    async def forward(
        self, payload: bytes, effects: Effects = NO_EFFECTS, verb: TransactionVerb | None = None, *, more: bool = False
    ) -> Outcome:
        """Have the database answer a command, and take note of what it did."""
        upstream = self.session.upstream
        outcome = await upstream.command(payload, more=more, hold=effects.catalog)
        if effects.catalog and (outcome.ok or effects.several):
            await self._refresh_catalog()
        if effects.catalog:
            await upstream.deliver()
        self.note(outcome, effects, verb)
        return outcome

    async def _execute_with_warnings(self, plan: Execute) -> Outcome:
        """A statement that the database knows only half of: it carries it out, we answer."""
        result = await self.session.upstream.collect(plan.sql)
        outcome = result if isinstance(result, Outcome) else Outcome(status=self.session.upstream.status)
        if not outcome.ok:
            raise BackendError(outcome.message, outcome.errno, outcome.sqlstate)
        if plan.effects.catalog:
            await self._refresh_catalog()
        self.session.notes = tuple(("Warning", _KEPT_ONLY, text) for text in plan.warnings)
        self.note(outcome, plan.effects)
        await self.session.writer.ok(warnings=len(plan.warnings))
        return outcome

    def note(self, outcome: Outcome, effects: Effects = NO_EFFECTS, verb: TransactionVerb | None = None) -> None:
        """After an answer: keep the status flags and tell the engine of a transaction that has ended."""
        session = self.session
        session.writer.status = session.upstream.status
        report = session.scope.record(effects, verb, ok=outcome.ok, in_transaction=session.in_transaction)
        if report:
            self.engine.committed(report)

    async def _refresh_catalog(self) -> None:
        try:
            await self.engine.refresh_catalog()
        except BackendError as error:
            # The statement itself succeeded; the periodic look will find the change.
            log.warning("catalog not refreshed after DDL: %s", error.message)

    # --- streams

    async def subscribe(self, request: SubscribeRequest) -> Subscription:
        """Open a subscription for this client, if its account may receive."""
        identity = self.session.identity
        request = replace(request, connection_id=identity.connection_id, user=identity.user, host=identity.host)
        if self.traits.accounts:
            await self._check_rights(request.queue)
        return await self.engine.subscribe(request)

    async def _check_rights(self, queue: QueueName) -> None:
        """Receiving changes rows, so it needs SELECT and UPDATE on the table; the database itself is asked."""
        outcome = await self.session.upstream.collect(f"UPDATE {_quoted(queue)} SET epoch = epoch WHERE 1 = 0")
        if isinstance(outcome, Outcome) and not outcome.ok:
            raise BackendError(outcome.message, outcome.errno, outcome.sqlstate)

    async def _stream(self, request: SubscribeRequest) -> None:
        subscription = await self.subscribe(request)
        await self.send_stream(subscription, binary=False)

    async def send_stream(self, subscription: Subscription, *, binary: bool) -> None:
        """Send a subscription to its end as a text or binary result set."""
        session = self.session
        session.subscription = subscription
        try:
            charset = await self.results_charset(subscription.columns)
            await stream_rows(subscription, session.writer, RowForm(subscription.columns, charset, binary=binary))
        finally:
            session.subscription = None
            await subscription.close(give_back=True)  # nothing is left to close where the stream came to its own end

    async def results_charset(self, columns: Sequence[ColumnMeta]) -> str | None:
        """What the client wants text in; None where nothing needs converting. Only the database knows (SET NAMES)."""
        if not any(is_text(column) for column in columns):
            return None
        listed = await self._collect("SELECT @@character_set_results")
        name = listed.rows[0][0]
        return None if name is None else name.decode("ascii", "replace")

    @staticmethod
    def bound(plan: Subscribe, values: Sequence[object]) -> SubscribeRequest:
        """The request with the values of its `?` put in."""
        request = plan.request
        for name, value in zip(plan.parameters, values, strict=True):
            if not isinstance(value, int | float | Decimal) or not 0 <= value <= LIMIT_MAX:
                raise ProxyError(1210, f"Incorrect arguments to {name.upper()}: a number, 0 or more, is needed")
            if name == "limit":
                if not isinstance(value, int):
                    raise ProxyError(1210, "Incorrect arguments to LIMIT: a whole number is needed")
                request = replace(request, limit=value)
            else:
                request = replace(request, wait_mode=WaitMode.WAIT, wait_seconds=float(value))
        return request

    # --- the proxy's own answers

    async def local_result(self, plan: Plan) -> tuple[tuple[ColumnMeta, ...], Sequence[tuple[bytes | None, ...]]]:
        """Columns and rows of a statement that the proxy answers; no columns means OK."""
        match plan:
            case NoOperation(errno, note):
                self.session.notes = (("Note", errno, note),)
                return (), ()
            case ShowQueues(database, like):
                return QUEUES_COLUMNS, queue_rows(self.engine.status(), self.engine.catalog, database, like)
            case ShowCreateQueue(queue):
                return await self._show_create(queue)
            case ShowProcessList(full):
                listed = await self._collect("SHOW FULL PROCESSLIST" if full else "SHOW PROCESSLIST")
                ours = self.registry.processes()
                return listed.columns, processes_with_streams(listed, ours)
            case _:
                raise ProxyError(1295, "This command is not supported in the prepared statement protocol yet")

    async def _show_create(self, queue: QueueName) -> tuple[tuple[ColumnMeta, ...], list[tuple[bytes | None, ...]]]:
        spec = self.engine.catalog.get(queue)
        if spec is None:
            raise QueueNotFound(f"Table '{queue}' doesn't exist or is not a queue")
        listed = await self._collect(f"SHOW CREATE TABLE {_quoted(queue)}")
        text = show_create_queue((listed.rows[0][1] or b"").decode("utf-8", "replace"), spec)
        return (text_column("Queue"), text_column("Create Queue", 16_384)), [(queue.table.encode(), text.encode())]

    async def _collect(self, sql: str) -> Collected:
        result = await self.session.upstream.collect(sql)
        if isinstance(result, Outcome):
            raise BackendError(result.message or "no result", result.errno or 1105, result.sqlstate)
        return result

    async def _use(self, text: bytes, database: str, more: bool) -> Outcome:
        outcome = await self.forward(self._query(text), more=more)
        if outcome.ok:
            self.session.database = database
        return outcome

    async def _kill(self, plan: Kill, text: bytes, more: bool) -> Outcome:
        """Where accounts are the database's it decides who may kill; the stream here follows its verdict."""
        kind = KillKind.QUERY if plan.query_only else KillKind.CONNECTION
        target = self.registry.get(plan.connection_id)
        if self.traits.accounts and (target is None or not target.process_info().detached):
            outcome = await self.forward(self._query(text), more=more)
            if outcome.ok:
                await self.registry.kill(plan.connection_id, kind)
            return outcome
        self._may_kill(plan.connection_id, target)
        await self.registry.kill(plan.connection_id, kind)
        if plan.connection_id == self.session.identity.connection_id:
            raise StreamKilled("Query execution was interrupted")
        await self.session.writer.ok()
        return Outcome()

    def _may_kill(self, connection_id: int, target: RegisteredConnection | None) -> None:
        if target is None:
            raise ProxyError(1094, f"Unknown thread id: {connection_id}")
        user = self.session.identity.user
        if user not in (target.process_info().user, "root"):
            raise ProxyError(1095, f"You are not owner of thread {connection_id}")

    async def told_notes(self, text: bytes) -> bool:
        """Answer SHOW WARNINGS after a statement of our own; any other statement forgets its notes."""
        notes, self.session.notes = self.session.notes, ()
        if not notes or _SHOW_WARNINGS.fullmatch(text) is None:
            return False
        self.session.notes = notes
        await self.session.writer.result(
            WARNINGS_COLUMNS, [(level.encode(), b"%d" % errno, text.encode()) for level, errno, text in notes]
        )
        return True

    # --- errors

    async def _table_exists(self, name: str) -> bool:
        return isinstance(await self.session.upstream.collect(f"SELECT 1 FROM {name} LIMIT 0"), Collected)

    async def fail(self, error: EngineError | RewriteError | ProxyError) -> None:
        """Tell the client what was wrong."""
        self.session.writer.status = self.session.upstream.status
        await self.session.writer.error(error.errno, error.sqlstate, error.message)


def _quoted(queue: QueueName) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in (queue.database, queue.table))

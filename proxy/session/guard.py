"""Filters what goes to the database where an account is limited to its queues: what it cannot read is refused.

Rules:
- Everything that is not named here is refused: a command, a statement, a variable, a function.
- It comes after the planner, so it reads what the database is sent, also where that is not what the client sent
  (ACK). Statements of the proxy's own (`collect`) are not the client's, and pass. Settings of its own before a
  statement come on the way beside the text without them (`plain`); in a text they are the client's.
- The database is sent one statement at a time, without the capability of several in one text, and with an sql_mode in
  which quotes and backslashes mean what they mean here. Executable comments and hints are not read, so none passes.
- Names are compared exactly: where a server distinguishes `Orders` and `orders`, so must the proxy.
- What the client asks of itself and of the server is changed on its way, so that it sees its own account, and of the
  variables those that it may ask for; the texts of warnings and errors are sent without accounts and files.
- A prepared statement is judged when it is prepared, and again by name at each execution.

What the proxy answers itself is judged as a plan (`check_plan`), and by the executor, which knows the queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from mysql_mimic.types import Commands

from engine.engine import Engine
from engine.model.errors import QueueNotFound, UnknownColumn
from engine.model.queue import SEQUENCE_COLUMN, QueueName, QueueSpec, TopicSpec
from engine.model.topics import GroupName
from mysql_wire import requests
from mysql_wire.answer_walker import BULK_EXECUTE
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.prepared_parameters import PreparedParameters
from mysql_wire.requests import LAST_PREPARED
from proxy.rights.account_rights import AccountRights, RequiredRight, Right, SessionRights
from proxy.rights.kinds import (
    Act,
    LimitedStatement,
    QueueStatement,
    SensitiveOutput,
    SessionQuery,
    SessionSettings,
    Setting,
    TransactionStep,
    Use,
)
from proxy.rights.lookups import read_lookup
from proxy.rights.session_queries import with_client_account, with_readable_variables
from proxy.rights.statements import read
from proxy.rights.variables import HARMLESS, HIDDEN, READABLE, changes_parsing
from proxy.session.session import ClientSession
from proxy.upstream.base import Upstream, charset_of, collected, read_plainly
from proxy.upstream.large_command import LargeCommand
from proxy.upstream.redaction import redacted_warning
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
    SeekConsumerGroup,
    Show,
    ShowSystem,
    Subscribe,
    Trace,
    TraceInQueue,
    UseDatabase,
)
from rewriter.plans.explicit_ids import ExplicitIds, check_explicit_id, check_explicit_ids, explicit_ids
from rewriter.plans.sequenced_topics import explicit_number_error
from rewriter.plans.topics import explicit_id_error
from rewriter.text.strict_reader import SAFE_CHARSETS, Unreadable
from rewriter.text.tokens import word_set
from rewriter.views import Access, View

READ_HERE_MAX_BYTES = 64 * 1024  # read in a millisecond; longer texts are read in a thread
_LONG_IDS_MAX_BYTES = 65_536  # of ids that are sent in pieces
STATEMENTS_MAX = 1024  # prepared ones of a session; MySQL's default for all sessions together is 16,382

FindQueue = Callable[[QueueName], Awaitable[QueueSpec | TopicSpec | None]]

_HARMLESS_COMMANDS = frozenset(
    (
        Commands.COM_PING,
        Commands.COM_RESET_CONNECTION,
        Commands.COM_STMT_FETCH,
    )
)
_EXECUTIONS = (Commands.COM_STMT_EXECUTE, BULK_EXECUTE)
_CHARSET_VARIABLES = word_set(
    "names character_set_client character_set_connection character_set_results collation_connection"
) | {"character set"}
_RIGHTS = {Act.ENQUEUE: Right.ENQUEUE, Act.SETTLE: Right.SETTLE, Act.READ: Right.RECEIVE}
_MAY = (
    "this account is limited to its queues and topics: INSERT of values, SELECT ... FROM STREAM, ACK, NACK and the"
    " like, UPDATE and DELETE that settle, simple SELECTs of a topic, SHOW QUEUES and the like, transactions, and what"
    " drivers ask and set"
)


def denied(session: ClientSession, what: str, why: str) -> ProxyError:
    """Error 1142."""
    identity = session.identity
    return ProxyError(1142, f"{what} denied to user '{identity.user}'@'{identity.host}': {why}")


def check_right(session: ClientSession, queue: QueueName, right: Right) -> None:
    """Raises ProxyError unless the session's account has that right there."""
    if session.rights is not None:
        _check_needed(session, session.rights.missing(queue, right))


def _check_needed(session: ClientSession, needed: RequiredRight | None) -> None:
    if needed is not None:
        what = needed.permission.partition(":")[0].upper()
        raise denied(session, what, f"its account has not the right '{needed.permission}' on {needed.on}")


def judged_as_plan(session: ClientSession, plan: Execute) -> bool:
    """Whether a statement was judged as a plan alone: the text alone is not enough for statements that manage a
    consumer group, and the database must not be sent them as the client's."""
    return session.rights is not None and plan.manages is not None


def _check_manages(session: ClientSession, group: GroupName) -> None:
    if session.rights is not None:
        _check_needed(session, session.rights.missing_to_manage(group))


def check_can_see(session: ClientSession, queue: QueueName) -> None:
    """Raises ProxyError where the session's account may not even know whether there is such a queue."""
    if session.rights is not None and not session.rights.can_see(queue):
        raise denied(session, "Access", f"its account has no right on a queue or topic '{queue}'")


def check_plan(session: ClientSession, plan: Plan) -> None:
    """Judge what the proxy itself would answer. What goes to the database is judged on its way there."""
    match plan:
        case Subscribe(request):
            check_right(session, request.queue, Right.RECEIVE)
        case Show(View(access=Access.QUEUE)):
            check_can_see(session, plan.queue)
        case Show(View(access=Access.UNLIMITED)):
            raise denied(session, "SELECT", _MAY)
        case CreateConsumerGroup(topic, _, options):
            _check_manages(session, GroupName(topic, options.consumer_group or ""))
        case (
            SeekConsumerGroup(manages=group)
            | NoOperation(manages=GroupName() as group)
            | Execute(manages=GroupName() as group)
        ):
            _check_manages(session, group)
        case NoOperation() | Redrive() | CreateSchedule() | AlterSchedule() | DropSchedule() | RunSchedule():
            raise denied(session, "Statement", _MAY)
        case ReadSystem() | ShowSystem():
            raise denied(session, "SELECT", _MAY)
        case Trace(topic):
            check_can_see(session, topic)
        case TraceInQueue(ExplainDelivery(queue)):
            check_can_see(session, queue)
        case ExplainDelivery(queue):
            check_can_see(session, queue)
        case EndInGroup(_, _, group):
            check_right(session, group.queue, Right.SETTLE)
        case InsertAfterGroup(_, _, _, group, _, follow):
            check_right(session, follow, Right.ENQUEUE)
            check_right(session, group.queue, Right.ENQUEUE)
        case ExecuteCounting(queue):
            check_right(session, queue, Right.SETTLE)
        case Execute(_, effects):
            if effects.catalog:
                raise denied(session, "Statement", _MAY)
        case Rebind() | Passthrough() | UseDatabase() | Kill() | Show():
            pass  # a view's rows are what the account may see
        case _:
            assert_never(plan)


async def judge_own(session: ClientSession, sql: str) -> None:
    """Judge what the proxy will have the database do in a client's name, as a statement of its own."""
    if isinstance(session.upstream, GuardedUpstream):
        await session.upstream.judge(sql.encode("utf-8", "surrogateescape"))


def check_charset(name: str | None) -> None:
    """Raises ProxyError for a character set in which SQL cannot be judged. None: one that is unknown, and not
    used."""
    if name is not None and name not in SAFE_CHARSETS:
        raise ProxyError(
            1115, f"Character set '{name}' cannot be used by an account that is limited to its queues; use utf8mb4"
        )


def limit(
    session: ClientSession, upstream: Upstream, account: AccountRights, engine: Engine, *, resets_modes: bool = False
) -> None:
    """Give a session the rights of its account, and the guard before its upstream if they are limited.

    `resets_modes`: the upstream has the server's own sql_mode again after COM_RESET_CONNECTION.
    """

    async def find(queue: QueueName) -> QueueSpec | TopicSpec | None:
        if engine.catalog.get(queue) is None and queue not in engine.catalog.topics:
            await engine.refresh_on_miss(patient=True)  # another proxy may have made it just now
        catalog = engine.catalog
        return catalog.get(queue) or catalog.topics.get(queue) or catalog.unfit.get(queue)

    session.rights, session.admin = None, account.admin
    session.upstream = upstream
    if account.queues is not None:
        session.rights = rights = SessionRights(account.queues, lambda: engine.catalog)
        session.upstream = GuardedUpstream(upstream, session, rights, find, resets_modes=resets_modes)


def _is_safe_charset(setting: Setting) -> bool:
    """Whether a setting of a character set, or of a collation, is one in which SQL can be judged, and answers read."""
    if setting.variable == "character_set_results" and setting.value is None:
        return not setting.computed
    name = (setting.value or "").lower()
    if setting.variable == "collation_connection":
        name = name.partition("_")[0]
    return name in SAFE_CHARSETS and not setting.appended


def _read(text: bytes) -> LimitedStatement | None:
    return read(text) or read_lookup(text)


def _in_utf8(text: bytes, codec: str) -> bytes:
    """A text as it is judged: the server reads its names in the session's character set. What that has not stays."""
    if codec == "utf-8" or text.isascii():
        return text
    return text.decode(codec, "surrogateescape").encode("utf-8", "surrogateescape")


def _checked_ids(text: bytes, spec: QueueSpec | TopicSpec) -> ExplicitIds:
    """The ids in an INSERT that are to be checked at its execution. Raises IncorrectId for one that a queue does not
    take, and InsertOfDump for any id or number of a topic: readers would be at the end of its offsets."""
    if isinstance(spec, QueueSpec):
        return check_explicit_ids(text, spec, strict=True)
    columns = [column.name.lower() for column in spec.columns]
    for name, refusal in (("id", explicit_id_error), (SEQUENCE_COLUMN, explicit_number_error)):
        try:
            ids = explicit_ids(text, columns, name)
        except Unreadable:
            raise refusal(spec.name) from None
        if ids.numbers or ids.parameters or ids.other:
            raise refusal(spec.name)
    return ExplicitIds()


@dataclass(frozen=True, slots=True)
class _Again:
    """A statement on a queue that was prepared. `ids`: which of its parameters are ids, which are checked when they
    arrive."""

    statement: QueueStatement
    ids: tuple[int, ...] = ()
    parameters: PreparedParameters | None = None


@dataclass(frozen=True, slots=True)
class _Judged:
    """What goes to the database; of a statement on a queue, what is judged again when it is executed; whether it is
    SHOW WARNINGS or SHOW ERRORS, which is answered here."""

    text: bytes
    again: _Again | None = None
    warnings: bool = False


class GuardedUpstream:
    """See the module. A filtering Upstream before another; `find` looks a queue up."""

    def __init__(
        self, behind: Upstream, session: ClientSession, rights: SessionRights, find: FindQueue, *, resets_modes: bool
    ) -> None:
        self._behind = behind
        self._session = session
        self._rights = rights
        self._find = find
        self._resets_modes = resets_modes
        self._prepared: dict[int, _Again | None] = {}
        self._last_prepared = 0

    @property
    def behind(self) -> Upstream:
        """The upstream that is guarded, for the proxy's own statements."""
        return self._behind

    @property
    def status(self) -> int:
        return self._behind.status

    @property
    def alive(self) -> bool:
        return self._behind.alive

    @property
    def connection_required(self) -> bool:
        return self._behind.connection_required

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        """See Upstream. Nothing is passed on before all of it has been judged."""
        return await self.command(await large.whole(), buffered=buffered)

    async def command(
        self,
        payload: bytes,
        *,
        more: bool = False,
        buffered: bool = False,
        repeatable: bool = False,
        plain: bytes | None = None,
    ) -> Outcome:
        """See Upstream.

        Raises:
            ProxyError: 1142, or what is behind raises.
        """
        command = payload[0]
        if command == Commands.COM_STMT_PREPARE:
            return await self._prepare(payload, more=more, buffered=buffered, plain=plain)
        if command == Commands.COM_QUERY:
            capabilities = self._session.identity.capabilities
            text = requests.query_text((plain or payload)[1:], capabilities)
            judged = await self._judge(b"" if text is None else text, self._session.identity.codec)
            if judged.warnings:
                return await self._redact_warnings(judged.text)
            if judged.text is not text:
                payload = requests.query_payload(judged.text, capabilities)
        elif command in _EXECUTIONS:
            await self._judge_again(payload)
        elif command == Commands.COM_STMT_CLOSE:
            self._prepared.pop(self._number(payload), None)
        elif command == Commands.COM_INIT_DB:
            self._check_database(payload[1:].decode(self._session.identity.codec, "replace"))
        elif command == Commands.COM_STMT_SEND_LONG_DATA:
            self._add_long_data(payload)
        elif command == Commands.COM_STMT_RESET:
            if (again := self._prepared.get(self._number(payload))) is not None and again.parameters is not None:
                again.parameters.forget()
        elif command not in _HARMLESS_COMMANDS:
            raise denied(self._session, f"Command {command:#04x}", _MAY)
        outcome = await self._behind.command(payload, more=more, buffered=buffered, repeatable=repeatable, plain=plain)
        if command == Commands.COM_RESET_CONNECTION and outcome.ok:
            self._prepared.clear()
            if self._resets_modes:
                await read_plainly(self._behind)
        return outcome

    def recode(self, encoding: str) -> None:
        self._behind.recode(encoding)

    async def deliver(self) -> None:
        await self._behind.deliver()

    async def collect(self, sql: str) -> Collected | Outcome:
        """See Upstream. The proxy's own statements."""
        return await self._behind.collect(sql)

    async def close(self) -> None:
        await self._behind.close()

    # --- prepared statements

    async def _prepare(self, payload: bytes, *, more: bool, buffered: bool, plain: bytes | None) -> Outcome:
        if len(self._prepared) >= STATEMENTS_MAX:
            raise ProxyError(1461, f"Can't create more than max_prepared_stmt_count statements ({STATEMENTS_MAX})")
        text = (plain or payload)[1:]
        judged = await self._judge(text, self._session.identity.codec)
        if judged.warnings:
            raise ProxyError(1295, "SHOW WARNINGS and SHOW ERRORS are not prepared for this account; send the text")
        if judged.text is not text:
            payload = payload[:1] + judged.text
        outcome = await self._behind.command(payload, more=more, buffered=buffered, plain=plain)
        if outcome.ok:
            self._last_prepared = outcome.statement_id
            self._prepared[outcome.statement_id] = judged.again
        return outcome

    def _number(self, payload: bytes) -> int:
        number = int.from_bytes(payload[1:5], "little")
        return self._last_prepared if number == LAST_PREPARED else number

    async def _judge_again(self, payload: bytes) -> None:
        number = self._number(payload)
        if number not in self._prepared:
            raise ProxyError(1243, f"Unknown prepared statement handler ({number}) given to EXECUTE")
        again = self._prepared[number]
        if again is None:
            return
        spec = await self._check_queue(again.statement)
        if again.parameters is None:
            return
        if isinstance(spec, TopicSpec):  # it was a queue when the statement was prepared
            raise explicit_id_error(spec.name)
        if payload[0] == BULK_EXECUTE:
            raise ProxyError(1295, "Rows whose ids are parameters are not sent in bulk; execute them one by one")
        identity = self._session.identity
        request = again.parameters.read(payload[1:], identity.capabilities, identity.codec)
        for place in again.ids:
            check_explicit_id(request.values[place], spec)
        # Not before: a refused execution does not reach the database, which still has what was sent for it.
        again.parameters.executed(request)

    def _add_long_data(self, payload: bytes) -> None:
        """Pieces of a value: those of ids are stored, of others only that there are some."""
        _, parameter, data = requests.parse_long_data(payload[1:])
        again = self._prepared.get(self._number(payload))
        if again is not None and again.parameters is not None:
            again.parameters.add(parameter, data if parameter in again.ids else b"")

    # --- statements

    async def judge(self, text: bytes) -> None:
        """Raises ProxyError unless the account may have the database run this text, which is in UTF-8."""
        await self._judge(text, "utf-8")

    async def _judge(self, text: bytes, codec: str) -> _Judged:
        """What the database may have in place of a statement; raises where the account may not run it."""
        read_as = _in_utf8(text, codec)
        statement = _read(read_as) if len(text) <= READ_HERE_MAX_BYTES else await asyncio.to_thread(_read, read_as)
        self._check(statement)
        if isinstance(statement, QueueStatement):
            spec = await self._check_queue(statement)
            if statement.act is not Act.ENQUEUE:
                return _Judged(text, _Again(statement))
            checking = partial(_checked_ids, read_as, spec)
            checked = checking() if len(text) <= READ_HERE_MAX_BYTES else await asyncio.to_thread(checking)
            parameters = (
                PreparedParameters(checked.parameter_count, _LONG_IDS_MAX_BYTES) if checked.parameters else None
            )
            return _Judged(text, _Again(statement, checked.parameters, parameters))
        if not isinstance(statement, SessionQuery):
            return _Judged(text)
        changed: bytes | None = text
        if statement.sensitive_output is SensitiveOutput.VARIABLES:
            changed = with_readable_variables(text)
        elif statement.account or not statement.variables.isdisjoint(HIDDEN):
            changed = with_client_account(text, self._session.identity.account)
        if changed is None:
            raise denied(self._session, "Statement", _MAY)
        return _Judged(changed, warnings=statement.sensitive_output is SensitiveOutput.WARNINGS)

    async def _redact_warnings(self, text: bytes) -> Outcome:
        """Answer SHOW WARNINGS or SHOW ERRORS."""
        listed = await collected(self._behind, text.decode(self._session.identity.codec, "surrogateescape"))
        writer = self._session.writer
        writer.status = self._behind.status
        rows = [redacted_warning(row) for row in listed.rows]
        await writer.result(listed.columns, rows, await charset_of(self._behind, rows))
        return Outcome(status=self._behind.status)

    def _check(self, statement: LimitedStatement | None) -> None:
        match statement:
            case SessionSettings(settings):
                for setting in settings:
                    self._check_setting(setting)
            case SessionQuery(variables):
                for variable in variables - READABLE:
                    raise denied(self._session, f"SELECT of @@{variable}", _MAY)
            case Use(database):
                self._check_database(database)
            case TransactionStep() | QueueStatement():
                pass
            case None:
                raise denied(self._session, "Statement", _MAY)

    def _check_setting(self, setting: Setting) -> None:
        variable, value = setting.variable, setting.value
        if variable not in HARMLESS:
            raise denied(self._session, f"SET of {variable}", _MAY)
        for read_one in sorted(setting.reads - (READABLE - HIDDEN)):
            raise denied(self._session, f"SET by @@{read_one}", _MAY)
        if variable == "sql_mode" and (
            # What is put after the modes that there are must not be the rest of a name.
            setting.default or value is None or changes_parsing(value) or (setting.appended and value[:1] != ",")
        ):
            why = "modes are given by their names, and not such that change how SQL is read"
            raise denied(self._session, "SET of sql_mode", why)
        if variable == "completion_type" and (value or "").upper() not in ("NO_CHAIN", "0"):
            raise denied(self._session, "SET of completion_type", "for this account it is NO_CHAIN")
        if variable in _CHARSET_VARIABLES and not _is_safe_charset(setting):
            raise denied(self._session, "SET of that character set", "SQL in it cannot be judged; use utf8mb4")

    def _check_database(self, database: str) -> None:
        if not self._rights.can_enter(database):
            raise denied(self._session, "USE", f"its account has no right on anything in a database '{database}'")

    async def _check_queue(self, statement: QueueStatement) -> QueueSpec | TopicSpec:
        """The queue or topic. Raises ProxyError, EngineError where the account may not do that there."""
        database = statement.name.database or self._session.database
        if database is None:
            raise ProxyError(1046, "No database selected")
        queue = QueueName(database, statement.name.table)
        # First its kind, which decides the needed right; an account that may not know of it learns nothing.
        spec = await self._find(queue) if self._rights.can_see(queue) else None
        if isinstance(spec, TopicSpec) and statement.act is Act.SETTLE:
            raise denied(self._session, "Statement", "the messages of a topic are a log: ACK those of a group")
        if isinstance(spec, QueueSpec) and statement.act is Act.READ:
            raise denied(self._session, "SELECT", _MAY)
        check_right(self._session, queue, _RIGHTS[statement.act])
        if statement.reveals and (needed := self._rights.missing(queue, Right.RECEIVE)):
            why = (
                f"its account has not the right '{needed.permission}' on {needed.on};"
                " without it ids and times may be named"
            )
            raise denied(self._session, f"SELECT of column {', '.join(sorted(statement.reveals))}", why)
        if spec is None:
            raise QueueNotFound(f"Table '{queue}' doesn't exist or is not a queue")
        for column in statement.columns:
            if spec.column(column) is None:
                raise UnknownColumn(f"Unknown column '{column}' in queue '{queue.table}'")
        return spec

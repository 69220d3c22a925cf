"""EmbeddedSession: one client's session on the embedded database. Statements in, results or MySQL errors out.

Here: what kind of statement it is, and what executes it. The statements of one session run one after the other; only
`interrupt` may be called while one runs.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from embedded.compile.budget import CompileBudget
from embedded.compile.commands.session_commands import read_command
from embedded.compile.commands.show import ShowQuery, read_show
from embedded.compile.definitions.read import read_definition
from embedded.compile.definitions.statements import CreateDatabase, DropDatabase, DropRoutine
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.plan import Insert, Modify, Query
from embedded.compile.queries.stream_condition import compile_condition
from embedded.compile.schema import DATABASE
from embedded.compile.statement import first_word, is_planned, query_columns
from embedded.compile.text.literal_lifting import LexicalModes, Lifted, lift, slot_kinds, syntax_error
from embedded.compile.text.modes import check_modes
from embedded.compile.text.rows import split_rows
from embedded.compile.text.tokens import Tokens
from embedded.database.connection import SqliteConnection
from embedded.database.errors import SqliteInterrupted
from embedded.database.sqlite import SqliteDatabase
from embedded.session.administration import Administration
from embedded.session.changes import RowPlan
from embedded.session.client_text import ClientText
from embedded.session.plan_runner import PlanRunner, StalePlan
from embedded.session.results import OkResult, PreparedInfo, RowsResult
from embedded.session.state import Identity, State
from embedded.session.statement_limits import UNBOUNDED, Bounds, TimeLimit
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import ColumnMeta
from rewriter.errors import RewriteError

__all__ = ["EmbeddedSession", "OkResult", "PreparedInfo", "RowsResult"]

T = TypeVar("T")
SqlValue = Any
_LEADING = re.compile(r"(?:\s+|/\*(?!M?!).*?\*/|--(?=\s)[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|/\*M?!\d*|\()*", re.S)
_EXECUTED = re.compile(r"\s*EXECUTE\s+`?([^\s`;]+)", re.I)
_DEFINITIONS = frozenset(("CREATE", "ALTER", "RENAME", "TRUNCATE", "DROP"))
_SHOWS = frozenset(("SHOW", "DESC", "DESCRIBE", "EXPLAIN"))
_KEEPS_DIAGNOSTICS = re.compile(r"SHOW\s+(?:WARNINGS|ERRORS|COUNT)\b", re.I)
_LONG_STATEMENT = 4000  # characters; parsing so many takes some milliseconds, in which no other client is handled
_SHAPE_MAX = 250_000  # characters of a statement without its literals; reading so many takes ten seconds
_WRITER_TIMES = 10  # a transaction that is never idle may hold the writer so much longer than one that is
_AT_ONCE = 0.001  # seconds of rest
_ATTEMPTS = 3  # plans that may be stale when they run; after these, one is made while the schema cannot change


class EmbeddedSession:
    """See the module. Its only database is `main`, which is current from the start."""

    def __init__(
        self,
        database: SqliteDatabase,
        identity: Identity,
        process_list: Callable[[], Sequence[Any]],
        *,
        found_rows: bool = False,
        interactive: bool = False,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self._state = State.create(database, identity, found_rows, process_list)
        self._state.interactive = interactive
        self._bounds = bounds
        self._state.begin()
        self._runner = PlanRunner(self._state)
        self._administration = Administration(self._state, self._nested, self._run_internal)
        self._is_client_statement = True  # whether the statement is the client's; sql_select_limit is for those alone
        self._task: asyncio.Task[Any] | None = None
        self._killed = False
        self._budget = CompileBudget()  # of compiling the current statement
        self._closed = False

    @property
    def in_transaction(self) -> bool:
        return self._state.transaction.active

    @property
    def autocommit(self) -> bool:
        return self._state.transaction.autocommit

    @property
    def lexical(self) -> LexicalModes:
        """How strings and names are written, which clients escape by."""
        return self._state.variables.lexical

    @property
    def idle_seconds(self) -> float:
        """How long the client may be idle: wait_timeout, and less in a transaction that blocks all other writers."""
        idle, transaction = float(self._state.variables.get("wait_timeout")), self._state.transaction
        allowed = self._bounds.idle_transaction
        if not allowed or not transaction.holds_writer:
            return idle
        held = time.monotonic() - transaction.writer_since
        return min(idle, allowed) if held < allowed * _WRITER_TIMES else _AT_ONCE

    @property
    def idle_message(self) -> str | None:
        """Why the client was disconnected while idle, where that is not wait_timeout."""
        if not self._bounds.idle_transaction or not self._state.transaction.holds_writer:
            return None
        return (
            "The transaction was rolled back and the client disconnected: it rested while nobody else could write."
            f" Commit sooner, or see limits.idle_transaction ({self._bounds.idle_transaction:g} s)."
        )

    def check_stream(self) -> None:
        """Raises SqlError where this session's own transaction would block the write of a delivery."""
        if self._state.transaction.holds_writer:
            raise SqlError(
                1179,
                "A stream cannot be read in a transaction that has written: the embedded database has one writer,"
                " and a delivery needs it. COMMIT first.",
            )

    @property
    def holds_writer(self) -> bool:
        """Whether this session's own transaction blocks all other writers."""
        return self._state.transaction.holds_writer

    async def insertion(self, sql: str) -> Callable[[SqliteConnection], object]:
        """The work that runs an INSERT of rows in a transaction that another session has begun.

        Raises:
            RewriteError: it is wrong, or not supported.
        """
        state = self._state
        await state.shared.load()
        lifted = await self._offload(len(sql), lambda: _bound(self._lift(sql, None), None))
        rows = await self._offload(len(lifted.shape), lambda: self._insert_rows(lifted))
        if rows is None:
            plan = await self._offload(len(lifted.shape), lambda: self._plan(lifted.shape, lifted.values))
            assert isinstance(plan, Insert)
            rows = [(plan, lifted.values)]
        return await self._runner.insertion(rows)

    @property
    def database(self) -> str | None:
        return self._state.current

    @property
    def text(self) -> ClientText:
        """The encodings of the client's text."""
        return self._state.text

    @property
    def warning_count(self) -> int:
        return self._state.diagnostics.warning_count

    async def execute(self, sql: str, params: Sequence[SqlValue] | None = None) -> RowsResult | OkResult:
        """Run one statement. `params` are the values of its `?`, bound and never spliced.

        Raises:
            BackendError: SQLite or the transaction refused it.
            RewriteError: it is wrong, or not supported.
        """
        if not _KEEPS_DIAGNOSTICS.match(sql.lstrip()):
            self._state.diagnostics.clear()
        limit = self._time_limit(sql)
        try:
            with limit:
                return limit.over_rows(await self._guarded(self._execute(sql, params)))
        except (BackendError, RewriteError) as error:
            self._state.diagnostics.add("Error", error.errno, error.message)
            self._state.diagnostics.row_count = -1
            raise

    async def prepare(self, sql: str) -> PreparedInfo:
        """What is known of a statement before its parameters are known."""
        with self._time_limit(sql):
            return await self._guarded(self._prepare(sql))

    async def _prepare(self, sql: str) -> PreparedInfo:
        await self._state.shared.load()
        word = _first_word(sql)
        return await self._offload(len(sql), lambda: self._prepared(word, sql))

    def _prepared(self, word: str, sql: str) -> PreparedInfo:
        state = self._state
        if not is_planned(word):
            lifted = lift(sql, None, state.variables.lexical)
            return PreparedInfo(lifted.parameters, self._show_columns(word, lifted))
        whole = self._lift(sql, None)
        lifted = self._first_row(whole)
        if len(lifted.shape) > _SHAPE_MAX:
            raise unsupported(f"a statement of more than {_SHAPE_MAX} characters besides its literals", "split it")
        columns = query_columns(lifted, state.schema, state.modes, self._budget)
        return PreparedInfo(whole.parameters, tuple(column.meta for column in columns))

    async def condition(self, table: str, sql: str) -> tuple[str, str]:
        """The condition of a stream on that table for the engine, and the time zone in which it is to be read.

        Raises:
            RewriteError: it is wrong, or not supported.
        """
        state = self._state
        await state.shared.load()
        schema, modes = state.shared.schema, state.modes
        text = await self._offload(len(sql), lambda: compile_condition(sql, table, schema, modes))
        return text, str(state.variables.get("time_zone"))

    async def use(self, database: str) -> None:
        """COM_INIT_DB."""
        self._state.use(database)

    async def reset(self) -> None:
        """COM_RESET_CONNECTION: roll back, forget variables, temporary tables and prepared statements."""
        await self._runner.close()
        self._administration.prepared.clear()
        await self._state.reset()

    async def close(self) -> None:
        """Roll back the open transaction and release the writer. May be called twice."""
        if not self._closed:
            self._closed = True
            await self._runner.close()
            self._state.shared.locks.release_all(self._state.identity.connection_id)
            await self._state.transaction.close()

    def statistics(self) -> str:
        """COM_STATISTICS: names and numbers, two spaces between the pairs, at which clients split it."""
        return f"Uptime: {self._state.uptime}  Threads: {len(self._state.processes())}"

    def interrupt(self) -> None:
        """KILL QUERY: what runs fails with 1317. Without effect between statements, and on a commit."""
        if self._state.transaction.committing:
            return
        again, self._killed = self._killed, True
        self._budget.stop()
        if not self._runner.kill(SqliteInterrupted()) and self._task is not None and not again:
            self._task.cancel()

    def _time_limit(self, sql: str) -> TimeLimit:
        variables = self._state.variables
        leading = _LEADING.match(sql)
        executed = _EXECUTED.match(sql, leading.end() if leading else 0)
        if executed is not None:  # a SELECT that was prepared has the bounds of one
            sql = self._administration.prepared.get(executed[1].lower(), sql)
        return TimeLimit.of(
            sql,
            select=is_select(_first_word(sql)),
            milliseconds=int(variables.get("max_execution_time")),
            seconds=float(variables.get("max_statement_time")),
            bounds=self._bounds,
            stop=self.interrupt,
        )

    async def _guarded(self, statement: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._killed, self._budget = task, False, CompileBudget()
        try:
            return await statement
        except asyncio.CancelledError:
            if self._killed and task.uncancel() == 0:
                raise SqliteInterrupted() from None
            raise
        finally:
            self._task = None

    async def _execute(self, sql: str, params: Sequence[SqlValue] | None) -> RowsResult | OkResult:
        if self._closed:
            raise BackendUnavailable("the session is closed")
        await self._state.shared.load()
        return await self._nested(sql, params)

    async def _nested(self, sql: str, params: Sequence[SqlValue] | None = None) -> RowsResult | OkResult:
        word = _first_word(sql)
        if is_planned(word):
            return await self._planned(_bound(await self._offload(len(sql), lambda: self._lift(sql, params)), params))
        tokens = await self._offload(len(sql), lambda: self._tokens(sql, params))
        if tokens.at_end:
            if not sql.strip(" \t\r\n;"):
                raise SqlError(1065, "Query was empty")
            return OkResult()  # nothing but comments
        word = tokens.peek().upper
        if word in _SHOWS:
            account = self._state.identity.account.partition("@")
            name = f"`{account[0]}`@`{account[2]}`"
            show = await self._offload(len(sql), lambda: read_show(tokens, self._state.current, name))
            return await self._administration.show(show)
        if word in _DEFINITIONS and tokens.peek(1).upper != "PREPARE":
            check_modes(tokens.shape, self._state.modes)
            return await self._define(tokens)
        return await self._administration.command(await self._offload(len(sql), lambda: read_command(tokens)))

    def _tokens(self, sql: str, params: Sequence[SqlValue] | None) -> Tokens:
        lifted = _bound(lift(sql, params, self._state.variables.lexical), params)
        return Tokens(lifted.shape, lifted.values)

    async def _run_internal(self, sql: str) -> RowsResult | OkResult:
        """One of our own statements, inside one of the client's."""
        self._is_client_statement = False
        try:
            return await self._nested(sql)
        finally:
            self._is_client_statement = True

    async def offload(self, size: int, work: Callable[[], T]) -> T:
        """Run `work` on a statement of so many bytes where it blocks no other client."""
        return await self._offload(size, work)

    async def _offload(self, size: int, work: Callable[[], T]) -> T:
        """Run `work` at once, or in a thread where the statement is so long that it would block all other clients."""
        return work() if size < _LONG_STATEMENT else await self._state.shared.parsers.run(work)

    def _lift(self, sql: str, params: Sequence[SqlValue] | None) -> Lifted:
        return lift(sql, params, self._state.variables.lexical, self._state.look_up)

    async def _planned(self, lifted: Lifted) -> RowsResult | OkResult:
        """A query or change, planned again when the schema changes under it."""
        for attempt in range(1, _ATTEMPTS + 1):
            version = self._state.shared.schema.version
            try:
                return await self._run_plan(lifted)
            except StalePlan:
                if attempt == _ATTEMPTS:
                    return await self._planned_exclusively(lifted)
            except BackendError as error:
                moved = version != self._state.shared.schema.version
                if not moved or error.errno not in (1054, 1146) or attempt == _ATTEMPTS:
                    raise
        raise AssertionError

    async def _planned_exclusively(self, lifted: Lifted) -> RowsResult | OkResult:
        """Plan and run while no other session writes: while definitions follow each other, any other plan is stale."""
        transaction = self._state.transaction
        alone = not transaction.active
        await transaction.begin_write()
        try:
            return await self._run_plan(lifted)
        finally:
            if alone and transaction.writing:  # it was not executed, or changed only temporary tables
                await transaction.rollback()

    async def _run_plan(self, lifted: Lifted) -> RowsResult | OkResult:
        rows = await self._offload(len(lifted.shape), lambda: self._insert_rows(lifted))
        if rows is not None:
            return await self._runner.change(rows, None, ())
        if len(lifted.shape) > _SHAPE_MAX:
            raise unsupported(f"a statement of more than {_SHAPE_MAX} characters besides its literals", "split it")
        plan = await self._offload(len(lifted.shape), lambda: self._plan(lifted.shape, lifted.values))
        match plan:
            case Query():
                limit = None if plan.limited or not self._is_client_statement else self._state.variables.select_limit
                return await self._runner.query(plan, lifted.values, limit)
            case Insert():
                return await self._runner.change([(plan, lifted.values)], None, ())
            case Modify():
                return await self._runner.change(None, plan, lifted.values)
        raise AssertionError

    def _plan(self, shape: str, values: Sequence[Any]) -> Query | Insert | Modify:
        state = self._state
        return state.shared.plans.plan(shape, values, state.schema, state.modes, self._budget)

    def _insert_rows(self, lifted: Lifted) -> list[RowPlan] | None:
        """The rows of an INSERT with many, each with its plan."""
        rows = split_rows(lifted.shape)
        if rows is None:
            return None
        result: list[RowPlan] = []
        for number, row in enumerate(rows, 1):
            values = tuple(lifted.values[slot] for slots in row.slots for slot in slots)
            self._budget.reset()
            try:
                plan = self._plan(row.shape, values)
            except SqlError as error:
                if error.errno == 1136:
                    raise SqlError(1136, f"Column count doesn't match value count at row {number}") from None
                raise
            assert isinstance(plan, Insert)
            result.append((plan, values))
        return result

    def _first_row(self, lifted: Lifted) -> Lifted:
        rows = split_rows(lifted.shape)
        if rows is None:
            return lifted
        values = tuple(lifted.values[slot] for slots in rows[0].slots for slot in slots)
        return Lifted(rows[0].shape, values, len(slot_kinds(rows[0].shape)))

    async def _define(self, tokens: Tokens) -> OkResult:
        definition = await self._offload(len(tokens.shape), lambda: read_definition(tokens))
        match definition:
            case CreateDatabase():
                return self._create_database(definition)
            case DropDatabase():
                if definition.if_exists and definition.name != DATABASE:
                    self._state.diagnostics.add(
                        "Note", 1008, f"Can't drop database '{definition.name}'; database doesn't exist"
                    )
                    return OkResult(warnings=1)
                if definition.name != DATABASE:
                    raise SqlError(1008, f"Can't drop database '{definition.name}'; database doesn't exist")
                raise unsupported("DROP DATABASE", "drop its tables, or delete the file")
            case DropRoutine():
                text = f"{definition.kind} {DATABASE}.{definition.name} does not exist"
                self._state.diagnostics.add("Note", 1305, text)
                await self._state.transaction.commit()
                return OkResult(warnings=1)
        return await self._runner.define(definition)

    def _create_database(self, definition: CreateDatabase) -> OkResult:
        if definition.name != DATABASE:
            raise unsupported(f"a second database ('{definition.name}')", f"the only one is '{DATABASE}'")
        if not definition.if_not_exists:
            raise SqlError(1007, f"Can't create database '{DATABASE}'; database exists")
        self._state.diagnostics.add("Note", 1007, f"Can't create database '{DATABASE}'; database exists")
        return OkResult(1, warnings=1)

    def _show_columns(self, word: str, lifted: Lifted) -> tuple[ColumnMeta, ...]:
        if word not in _SHOWS or lifted.parameters:
            return ()
        tokens = Tokens(lifted.shape, lifted.values)
        show = read_show(tokens, self._state.current, "")
        if not isinstance(show, ShowQuery):
            return ()
        inner = lift(show.sql)
        return tuple(column.meta for column in query_columns(inner, self._state.schema, self._state.modes))


def _bound(lifted: Lifted, params: Sequence[SqlValue] | None) -> Lifted:
    """The same; a `?` means something only in a statement that is prepared."""
    if params is None and lifted.parameters:
        raise syntax_error("?")
    return lifted


def is_select(word: str) -> bool:
    """Whether max_execution_time holds for statements that begin so."""
    return word in ("SELECT", "WITH")


def _first_word(sql: str) -> str:
    """The statement's first word, comments and parentheses before it passed over."""
    match = _LEADING.match(sql)
    return first_word(sql[match.end() :] if match else sql)

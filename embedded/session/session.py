"""EmbeddedSession: one client's session on the embedded database. Statements in, results or MySQL errors out.

The statements of one session run one after the other; only
`interrupt` may be called while one runs.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from embedded.compile.budget import CompileBudget
from embedded.compile.errors import SqlError
from embedded.compile.plan import Insert
from embedded.compile.queries.stream_condition import compile_condition
from embedded.compile.text.literal_lifting import LexicalModes
from embedded.database.connection import SqliteConnection
from embedded.database.errors import SqliteInterrupted
from embedded.database.sqlite import SqliteDatabase
from embedded.session.client_text import ClientText
from embedded.session.dispatch import StatementDispatch, begin_of, bound, word_of
from embedded.session.results import OkResult, PreparedInfo, RowsResult
from embedded.session.state import Identity, State
from embedded.session.statement_limits import UNBOUNDED, Bounds, TimeLimit
from engine.model.errors import BackendError, BackendUnavailable
from rewriter.errors import RewriteError

__all__ = ["EmbeddedSession", "OkResult", "PreparedInfo", "RowsResult"]

T = TypeVar("T")
SqlValue = Any
_EXECUTED = re.compile(r"\s*EXECUTE\s+`?([^\s`;]+)", re.I)
_KEEPS_DIAGNOSTICS = re.compile(r"SHOW\s+(?:WARNINGS|ERRORS|COUNT)\b", re.I)
_WRITER_TIMES = 10  # a transaction that is never idle may hold the writer so much longer than one that is
_AT_ONCE = 0.001  # seconds of rest


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
        self._dispatch = StatementDispatch(self._state)
        self._task: asyncio.Task[Any] | None = None
        self._killed = False
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
        return self._state.lexical

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
        lifted = await self._dispatch.offload(len(sql), lambda: bound(self._dispatch.lift(sql, None), None))
        rows = await self._dispatch.offload(len(lifted.shape), lambda: self._dispatch.insert_rows(lifted))
        if rows is None:
            plan = await self._dispatch.offload(
                len(lifted.shape), lambda: self._dispatch.plan(lifted.shape, lifted.values)
            )
            assert isinstance(plan, Insert)
            rows = [(plan, lifted.values)]
        return await self._dispatch.runner.insertion(rows)

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
        begins = begin_of(sql)
        if not _KEEPS_DIAGNOSTICS.match(sql, begins):
            self._state.diagnostics.clear()
        limit = self._time_limit(sql, begins)
        try:
            with limit:
                return limit.over_rows(await self._guarded(self._execute(sql, params)))
        except (BackendError, RewriteError) as error:
            self._state.diagnostics.add("Error", error.errno, error.message)
            self._state.diagnostics.row_count = -1
            raise

    async def prepare(self, sql: str) -> PreparedInfo:
        """What is known of a statement before its parameters are known."""
        with self._time_limit(sql, begin_of(sql)):
            return await self._guarded(self._prepare(sql))

    async def _prepare(self, sql: str) -> PreparedInfo:
        await self._state.shared.load()
        word = word_of(sql)
        return await self._dispatch.offload(len(sql), lambda: self._dispatch.prepared(word, sql))

    async def condition(self, table: str, sql: str) -> tuple[str, str]:
        """The condition of a stream on that table for the engine, and the time zone in which it is to be read.

        Raises:
            RewriteError: it is wrong, or not supported.
        """
        state = self._state
        await state.shared.load()
        schema, modes = state.shared.schema, state.modes
        text = await self._dispatch.offload(len(sql), lambda: compile_condition(sql, table, schema, modes))
        return text, str(state.variables.get("time_zone"))

    async def use(self, database: str) -> None:
        """COM_INIT_DB."""
        self._state.use(database)

    async def reset(self) -> None:
        """COM_RESET_CONNECTION: roll back, forget variables, temporary tables and prepared statements."""
        await self._dispatch.runner.close()
        self._dispatch.administration.prepared.clear()
        await self._state.reset()

    async def close(self) -> None:
        """Roll back the open transaction and release the writer. May be called twice."""
        if not self._closed:
            self._closed = True
            await self._dispatch.runner.close()
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
        self._dispatch.budget.stop()
        if not self._dispatch.runner.kill(SqliteInterrupted()) and self._task is not None and not again:
            self._task.cancel()

    def _time_limit(self, sql: str, begins: int) -> TimeLimit:
        """Of a statement whose first word is at `begins`."""
        variables = self._state.variables
        executed = _EXECUTED.match(sql, begins)
        if executed is not None:  # a SELECT that was prepared has the bounds of one
            sql = self._dispatch.administration.prepared.get(executed[1].lower(), sql)
        return TimeLimit.of(
            sql,
            select=is_select(word_of(sql)),
            milliseconds=int(variables.get("max_execution_time")),
            seconds=float(variables.get("max_statement_time")),
            bounds=self._bounds,
            stop=self.interrupt,
        )

    async def _guarded(self, statement: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._killed, self._dispatch.budget = task, False, CompileBudget()
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
        return await self._dispatch.run(sql, params)

    async def offload(self, size: int, work: Callable[[], T]) -> T:
        """See StatementDispatch."""
        return await self._dispatch.offload(size, work)


def is_select(word: str) -> bool:
    """Whether max_execution_time holds for statements that begin so."""
    return word in ("SELECT", "WITH")

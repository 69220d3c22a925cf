"""StatementDispatch: what kind of statement it is, and what executes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from embedded.compile.budget import CompileBudget
from embedded.compile.commands.session_commands import read_command
from embedded.compile.commands.show import ShowQuery, read_show
from embedded.compile.definitions.read import read_definition
from embedded.compile.definitions.statements import CreateDatabase, DropDatabase, DropRoutine
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.plan import Insert, Modify, Query
from embedded.compile.schema import DATABASE
from embedded.compile.statement import first_word, is_planned, query_columns
from embedded.compile.text.literal_lifting import Lifted, lift, slot_kinds, syntax_error
from embedded.compile.text.modes import check_modes
from embedded.compile.text.rows import split_rows
from embedded.compile.text.tokens import Tokens
from embedded.session.administration import Administration
from embedded.session.changes import RowPlan
from embedded.session.plan_runner import PlanRunner, StalePlan
from embedded.session.results import OkResult, PreparedInfo, RowsResult
from embedded.session.state import State
from engine.model.errors import BackendError
from engine.model.queue import ColumnMeta

T = TypeVar("T")
SqlValue = Any
_LEADING = re.compile(r"(?:\s+|/\*(?!M?!).*?\*/|--(?=\s)[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|/\*M?!\d*|\()*", re.S)
_DEFINITIONS = frozenset(("CREATE", "ALTER", "RENAME", "TRUNCATE", "DROP"))
_SHOWS = frozenset(("SHOW", "DESC", "DESCRIBE", "EXPLAIN"))
_LONG_STATEMENT = 4000  # characters; parsing so many takes some milliseconds, in which no other client is handled
_SHAPE_MAX = 250_000  # characters of a statement without its literals; reading so many takes ten seconds
_ATTEMPTS = 3  # plans that may be stale when they run; after these, one is made while the schema cannot change


class StatementDispatch:
    """See the module. For one session. `budget`: of compiling the current statement."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.runner = PlanRunner(state)
        self.administration = Administration(state, self.run, self.run_internal)
        self.budget = CompileBudget()
        self._is_client_statement = True  # whether the statement is the client's; sql_select_limit is for those alone

    async def run(self, sql: str, params: Sequence[SqlValue] | None = None) -> RowsResult | OkResult:
        """Run one statement, also inside another one."""
        word = word_of(sql)
        if is_planned(word):
            return await self._planned(bound(await self.offload(len(sql), lambda: self.lift(sql, params)), params))
        tokens = await self.offload(len(sql), lambda: self._tokens(sql, params))
        if tokens.at_end:
            if not sql.strip(" \t\r\n;"):
                raise SqlError(1065, "Query was empty")
            return OkResult()  # nothing but comments
        word = tokens.peek().upper
        if word in _SHOWS:
            account = self._state.identity.account.partition("@")
            name = f"`{account[0]}`@`{account[2]}`"
            show = await self.offload(len(sql), lambda: read_show(tokens, self._state.current, name))
            return await self.administration.show(show)
        if word in _DEFINITIONS and tokens.peek(1).upper != "PREPARE":
            check_modes(tokens.shape, self._state.modes)
            return await self._define(tokens)
        return await self.administration.command(await self.offload(len(sql), lambda: read_command(tokens)))

    async def run_internal(self, sql: str) -> RowsResult | OkResult:
        """One of our own statements, inside one of the client's."""
        self._is_client_statement = False
        try:
            return await self.run(sql)
        finally:
            self._is_client_statement = True

    def _tokens(self, sql: str, params: Sequence[SqlValue] | None) -> Tokens:
        lifted = bound(lift(sql, params, self._state.lexical), params)
        return Tokens(lifted.shape, lifted.values)

    async def offload(self, size: int, work: Callable[[], T]) -> T:
        """Run `work` at once, or in a thread where the statement is so long that it would block all other clients."""
        return work() if size < _LONG_STATEMENT else await self._state.shared.parsers.run(work)

    def lift(self, sql: str, params: Sequence[SqlValue] | None) -> Lifted:
        """The statement without its literals; `params` are the values of its `?`."""
        return lift(sql, params, self._state.lexical, self._state.look_up)

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
        rows = await self.offload(len(lifted.shape), lambda: self.insert_rows(lifted))
        if rows is not None:
            return await self.runner.change(rows, None, ())
        if len(lifted.shape) > _SHAPE_MAX:
            raise unsupported(f"a statement of more than {_SHAPE_MAX} characters besides its literals", "split it")
        plan = await self.offload(len(lifted.shape), lambda: self.plan(lifted.shape, lifted.values))
        match plan:
            case Query():
                limit = None if plan.limited or not self._is_client_statement else self._state.variables.select_limit
                return await self.runner.query(plan, lifted.values, limit)
            case Insert():
                return await self.runner.change([(plan, lifted.values)], None, ())
            case Modify():
                return await self.runner.change(None, plan, lifted.values)
        raise AssertionError

    def plan(self, shape: str, values: Sequence[Any]) -> Query | Insert | Modify:
        """The plan of a statement without its literals, perhaps one that was made before."""
        state = self._state
        return state.shared.plans.plan(shape, values, state.schema, state.modes, self.budget)

    def insert_rows(self, lifted: Lifted) -> list[RowPlan] | None:
        """The rows of an INSERT with many, each with its plan."""
        rows = split_rows(lifted.shape)
        if rows is None:
            return None
        result: list[RowPlan] = []
        for number, row in enumerate(rows, 1):
            values = tuple(lifted.values[slot] for slots in row.slots for slot in slots)
            self.budget.reset()
            try:
                plan = self.plan(row.shape, values)
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
        definition = await self.offload(len(tokens.shape), lambda: read_definition(tokens))
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
        return await self.runner.define(definition)

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

    def prepared(self, word: str, sql: str) -> PreparedInfo:
        """What is known of a statement before its parameters are. `word`: its first."""
        state = self._state
        if not is_planned(word):
            lifted = lift(sql, None, state.lexical)
            return PreparedInfo(lifted.parameters, self._show_columns(word, lifted))
        whole = self.lift(sql, None)
        lifted = self._first_row(whole)
        if len(lifted.shape) > _SHAPE_MAX:
            raise unsupported(f"a statement of more than {_SHAPE_MAX} characters besides its literals", "split it")
        columns = query_columns(lifted, state.schema, state.modes, self.budget)
        return PreparedInfo(whole.parameters, tuple(column.meta for column in columns))


def bound(lifted: Lifted, params: Sequence[SqlValue] | None) -> Lifted:
    """The same; a `?` means something only in a statement that is prepared."""
    if params is None and lifted.parameters:
        raise syntax_error("?")
    return lifted


def begin_of(sql: str) -> int:
    """Where the statement's first word is, comments and parentheses before it passed over."""
    match = _LEADING.match(sql)
    return 0 if match is None else match.end()


def word_of(sql: str) -> str:
    """That word."""
    return first_word(sql[begin_of(sql) :])

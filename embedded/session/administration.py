"""Statements about the session itself: transactions, SET, SHOW, PREPARE, LOCK TABLES."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from embedded.compile.commands import session_commands
from embedded.compile.commands.show import Explain, Show, ShowCreate, ShowQuery, ShowWarnings
from embedded.compile.definitions.show_create import create_table_text
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.plan import ResultColumn
from embedded.compile.schema import DATABASE
from embedded.compile.text.literal_lifting import DEFAULT_MODES, lift
from embedded.compile.values.types import SqlType, meta, text_type, varchar
from embedded.database.connection import SqliteConnection
from embedded.schema.alter_table import next_number
from embedded.session.explain import explain
from embedded.session.results import OkResult, RowsResult, fixed_rows
from embedded.session.state import WARNING_COLUMNS, State, count_column
from embedded.session.variables import lexical_modes

Result = OkResult | RowsResult
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_CONSTANTS = {"NULL": None, "TRUE": 1, "FALSE": 0}
PREPARED_MAX = 1000  # text statements prepared by one session; each is stored as its text


@dataclass(eq=False, slots=True)
class Administration:
    """See the module. `execute` runs a statement of the client, `run_internal` one of ours, for statements that are
    rewritten to others."""

    state: State
    execute: Callable[..., Awaitable[Result]]
    run_internal: Callable[[str], Awaitable[Result]]
    prepared: dict[str, str] = field(default_factory=dict)

    async def command(self, command: session_commands.Command) -> Result:
        """Carry out one command."""
        transaction = self.state.transaction
        match command:
            case session_commands.Begin():
                await transaction.begin(read_only=command.read_only, snapshot=command.snapshot)
            case session_commands.End():
                await self._end(command)
            case session_commands.Savepoint():
                await transaction.savepoint(command.name)
            case session_commands.RollbackTo():
                await transaction.rollback_to(command.name)
            case session_commands.ReleaseSavepoint():
                await transaction.release(command.name)
            case session_commands.Use():
                self.state.use(command.database)
            case session_commands.SetVariables():
                await self._set(command)
            case session_commands.LockTables():
                await transaction.lock_tables(write=command.write)
            case session_commands.UnlockTables():
                await transaction.unlock_tables()
            case session_commands.PrepareText():
                await self._prepare(command)
            case session_commands.ExecuteText():
                return await self._execute(command)
            case session_commands.Deallocate():
                if self.prepared.pop(command.name, None) is None:
                    raise _unknown_statement(command.name, "DEALLOCATE PREPARE")
            case session_commands.Evaluate():
                await self._values(command.text)
            case session_commands.Maintain():
                return await self._maintain(command)
            case session_commands.NoOperation():
                pass
        return OkResult(warnings=self.state.diagnostics.warning_count)

    async def show(self, show: Show) -> Result:
        """Answer a SHOW, DESCRIBE or EXPLAIN."""
        match show:
            case ShowQuery():
                if show.table is not None and self.state.schema.table(show.table) is None:
                    raise self.state.schema.unknown(show.table)
                self.state.named_table = show.table
                try:
                    return await self.run_internal(show.sql)
                finally:
                    self.state.named_table = None
            case ShowCreate():
                return await self._show_create(show)
            case ShowWarnings():
                return self._show_warnings(show)
            case Explain():
                return await explain(self.state, show.sql)

    async def _end(self, command: session_commands.End) -> None:
        transaction = self.state.transaction
        try:
            await (transaction.commit() if command.commit else transaction.rollback())
        finally:
            await self._refresh_temporary()
        if command.chain:
            await transaction.begin(read_only=False, snapshot=False)

    async def _refresh_temporary(self) -> None:
        """Temporary tables created inside a transaction that was rolled back are gone with it."""
        state = self.state
        if not state.temporary or state.transaction.worker is None:
            return

        def names(connection: SqliteConnection) -> set[str]:
            return {name for (name,) in connection.fetch_all("SELECT name FROM temp.sqlite_master")}

        existing = await state.database.run(state.transaction.worker, names)
        state.temporary = {name: table for name, table in state.temporary.items() if name in existing}

    async def _set(self, command: session_commands.SetVariables) -> None:
        variables = self.state.variables
        checked: list[tuple[session_commands.Assignment, Any]] = []
        users: dict[str, Any] = {}
        for one in command.assignments:
            value = await self._value(one.text)
            if one.scope == "user":
                users[one.name] = value
                variables.check_size(users)
            stored = value if one.scope == "user" else variables.check(one.name, value)
            if one.scope != "user" and isinstance(value, int | Decimal) and stored != value:
                self.state.diagnostics.add("Warning", 1292, f"Truncated incorrect {one.name} value: '{value}'")
            if one.scope == "global" and one.name == "sql_mode" and lexical_modes(stored) != DEFAULT_MODES:
                # Clients escape their first statement as the greeting defines it, which is sent before the account is
                # known.
                raise unsupported("SET GLOBAL sql_mode with NO_BACKSLASH_ESCAPES or ANSI_QUOTES", "SET SESSION it")
            checked.append((one, stored))
        try:
            await self._assign(checked)
            variables.store_user(users)
        finally:
            self.state.changed()  # also by what was assigned before an error
        await self.state.transaction.follow_checks()

    async def _assign(self, checked: list[tuple[session_commands.Assignment, Any]]) -> None:
        variables = self.state.variables
        for one, value in checked:
            if one.scope == "user":
                continue
            if one.scope == "next":
                self._set_next(one.name, value)
            else:
                variables.assign(one.scope, one.name, value)
            if one.name == "autocommit" and one.scope == "session":
                await self._set_autocommit(bool(value))

    def _set_next(self, name: str, value: Any) -> None:
        """SET TRANSACTION: for the next transaction alone."""
        if self.state.transaction.active:
            raise SqlError(1568, "Transaction characteristics can't be changed while a transaction is in progress")
        self.state.transaction.settings.next[name] = value

    async def _set_autocommit(self, on: bool) -> None:
        transaction = self.state.transaction
        try:
            if on and not transaction.autocommit:
                await transaction.commit()
        finally:
            transaction.autocommit = on

    async def _value(self, text: str) -> Any:
        """The value of a SET expression; a bare word is its own value."""
        if _WORD.fullmatch(text):
            return _CONSTANTS.get(text.upper(), text) if text.upper() in _CONSTANTS else text
        lifted = lift(text, None, self.state.lexical, self.state.look_up)
        if len(lifted.values) == 1 and lifted.shape.startswith("\x01") and lifted.shape.endswith("\x02"):
            return lifted.values[0]
        return (await self._values(text))[0]

    async def _values(self, text: str) -> tuple[Any, ...]:
        result = await self.run_internal(f"SELECT {text}")
        assert isinstance(result, RowsResult)
        rows = [row async for batch in result.batches for row in batch]
        return rows[0] if rows else (None,)

    async def _prepare(self, command: session_commands.PrepareText) -> None:
        if len(self.prepared) >= PREPARED_MAX:
            raise SqlError(1461, f"Can't create more than max_prepared_stmt_count statements ({PREPARED_MAX})")
        text = await self._value(command.text)
        if not isinstance(text, str):
            raise SqlError(1064, "PREPARE needs the statement as text")
        self.prepared[command.name] = text

    async def _execute(self, command: session_commands.ExecuteText) -> Result:
        text = self.prepared.get(command.name)
        if text is None:
            raise _unknown_statement(command.name, "EXECUTE")
        values = [self.state.look_up(name) for name in command.variables]
        if lift(text, None, self.state.lexical).parameters != len(values):
            raise SqlError(1210, "Incorrect arguments to EXECUTE")
        return await self.execute(text, values)

    async def _show_create(self, show: ShowCreate) -> RowsResult:
        if show.kind == "DATABASE":
            if show.name != DATABASE:
                raise SqlError(1049, f"Unknown database '{show.name}'")
            text = f"CREATE DATABASE `{DATABASE}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */"
            return _text_rows([("Database", varchar(64)), ("Create Database", varchar(1024))], [(DATABASE, text)])
        table = self.state.schema.table(show.name)
        if table is None:
            raise self.state.schema.unknown(show.name)
        if table.view is not None:
            columns = [("View", 64), ("Create View", 1024), ("character_set_client", 32), ("collation_connection", 32)]
            row = (table.name, create_table_text(table), "utf8mb4", "utf8mb4_general_ci")
            return _text_rows([(name, text_type(size)) for name, size in columns], [row])
        if show.kind == "VIEW":
            raise SqlError(1347, f"'{DATABASE}.{show.name}' is not VIEW")
        number = None
        if table.auto_column is not None:
            number = await self._read(lambda connection: next_number(connection, table))
        row_values = (table.name, create_table_text(table, number))
        return _text_rows([("Table", varchar(64)), ("Create Table", varchar(1024))], [row_values])

    async def _read(self, work: Callable[[SqliteConnection], Any]) -> Any:
        """Read on the transaction's connection where there is one: its tables may exist nowhere else."""
        worker = self.state.transaction.worker
        if worker is not None:
            return await self.state.database.run(worker, work)
        return await self.state.database.read(work)

    def _show_warnings(self, show: ShowWarnings) -> RowsResult:
        diagnostics = self.state.diagnostics
        if show.count:
            return fixed_rows([count_column(show.errors)], [(diagnostics.count(errors=show.errors),)])
        rows = diagnostics.shown(errors=show.errors, offset=show.offset, limit=show.limit)
        return fixed_rows(WARNING_COLUMNS, list(rows))

    async def _maintain(self, command: session_commands.Maintain) -> RowsResult:
        rows = []
        for name in command.tables:
            known = self.state.schema.table(name)
            if known is None:
                rows.append(
                    (f"{DATABASE}.{name}", command.operation, "Error", f"Table '{DATABASE}.{name}' doesn't exist")
                )
                rows.append((f"{DATABASE}.{name}", command.operation, "status", "Operation failed"))
                continue
            if command.operation == "repair":
                raise unsupported("REPAIR TABLE", "restore a backup")
            rows.append((f"{DATABASE}.{name}", command.operation, "status", await self._maintained(command.operation)))
        columns = [(title, varchar(512)) for title in ("Table", "Op", "Msg_type", "Msg_text")]
        return _text_rows(columns, rows)

    async def _maintained(self, operation: str) -> str:
        if operation != "check":
            return "OK"
        rows = await self.state.database.read(lambda connection: connection.fetch_all("PRAGMA quick_check(1)"))
        return "OK" if rows == [("ok",)] else str(rows[0][0])


def _text_rows(columns: list[tuple[str, SqlType]], rows: list[tuple[Any, ...]]) -> RowsResult:
    return fixed_rows([ResultColumn(meta(sql_type, name), sql_type) for name, sql_type in columns], rows)


def _unknown_statement(name: str, where: str) -> SqlError:
    return SqlError(1243, f"Unknown prepared statement handler ({name}) given to {where}")

"""Running plans: on which connection, in which transaction, and what is stored afterwards.

A query outside a transaction borrows a connection for as long as its rows are read. A change outside a transaction
joins the shared commit. Inside one, both use the transaction's own connection once it writes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from embedded.compile.binding import bind
from embedded.compile.definitions.statements import CreateTable, Definition, DropTables
from embedded.compile.functions.context import CallContext
from embedded.compile.plan import Bind, Insert, InsertMode, Modify, Query, RowLock
from embedded.compile.schema import Schema, Table
from embedded.database.connection import SqliteConnection, SqliteWorker
from embedded.database.writer_gate import Job
from embedded.schema.definitions import Defined, Definer
from embedded.session.changes import Report, RowPlan, Runner, atomically
from embedded.session.result_reader import Stream
from embedded.session.results import ClosingRows, OkResult, Row, RowsResult, row_decoder
from embedded.session.shared_database import read_tables
from embedded.session.state import State
from engine.model.errors import BackendError, LockWaitTimeout

T = TypeVar("T")

_CHANGED = 1213  # a transaction that was rolled back because of another one
_BATCH_WAIT = 1.0  # seconds that NOWAIT waits for autocommit writes, which are no locks and soon over


class StalePlan(Exception):
    """The schema has changed since the plan was made: make another."""


@dataclass(eq=False, slots=True)
class PlanRunner:
    """Runs the plans of a session, and knows what is in progress, so that it can be stopped."""

    state: State
    job: Job | None = None
    stream: Stream | None = None
    context: CallContext | None = None

    async def query(self, plan: Query, values: Sequence[Any], limit: int | None = None) -> RowsResult:
        """A query: its first rows are there when this returns. `limit`: no more rows than these."""
        state = self.state
        if plan.reads:
            await state.transaction.before_read()
        if plan.lock is not None:
            await self._lock_rows(plan.lock)
        await self.buffer_stream()
        worker, release = self._reader(plan.temporary)
        context = self.context = state.context()
        stream = Stream(
            state.database,
            worker,
            row_decoder((*plan.columns, *(column for _, column in plan.assigned))),
            release,
            context,
        )
        try:
            dynamics = await state.dynamics(plan.statement.binds)
            params = bind(plan.statement.binds, values, dynamics)
        except BaseException:
            await stream.close()
            raise
        await stream.open(plan.statement.sql, params)
        self.stream = stream
        state.diagnostics.row_count = -1
        if context.last_insert_id is not None:
            state.diagnostics.last_insert_id = context.last_insert_id
        await self._set_found_rows(plan, values, stream)
        columns = tuple(column.meta for column in plan.columns)
        rows = ClosingRows(self._read(stream, plan, limit), stream.close)
        return RowsResult(columns, rows, state.diagnostics.warning_count, stream.kill)

    async def change(self, rows: Sequence[RowPlan] | None, plan: Modify | None, values: Sequence[Any]) -> OkResult:
        """An INSERT of these rows, or an UPDATE or DELETE."""
        state = self.state
        binds = (
            [one for row_plan in {id(row): row for row, _ in rows}.values() for one in _binds(row_plan)]
            if rows
            else _modify_binds(plan)
        )
        dynamics = await state.dynamics(binds)
        context = self.context = state.context(strict=not rows or rows[0][0].mode is not InsertMode.IGNORE)
        schema = state.schema

        def work(connection: SqliteConnection) -> Report:
            if schema.version >= 0 and schema.version != state.shared.schema.version:
                raise StalePlan
            runner = Runner(connection, context, schema, dynamics, state.found_rows)
            if plan is not None:
                return runner.run(lambda: runner.modify(plan, values))
            assert rows is not None
            return runner.run(lambda: runner.insert(rows))

        targets = plan.tables if plan is not None else (rows[0][0].table,) if rows else ()
        reads_temporary = plan.temporary if plan is not None else bool(rows and rows[0][0].temporary)
        report = await self._changed(work, targets, reads_temporary)
        return self._remember(report, context)

    async def insertion(self, rows: Sequence[RowPlan]) -> Callable[[SqliteConnection], object]:
        """The work that inserts these rows in a transaction that another session has begun. It raises BackendError
        where the schema has changed since: the caller may then try again."""
        state = self.state
        binds = [one for row_plan in {id(row): row for row, _ in rows}.values() for one in _binds(row_plan)]
        dynamics, context, schema = await state.dynamics(binds), state.context(strict=True), state.schema

        def work(connection: SqliteConnection) -> Report:
            if schema.version >= 0 and schema.version != state.shared.schema.version:
                raise BackendError("Table definition has changed, please retry transaction", _CHANGED, "40001")
            runner = Runner(connection, context, schema, dynamics, state.found_rows)
            return runner.run(lambda: runner.insert(rows))

        return work

    async def define(self, definition: Definition) -> OkResult:
        """A definition: commits the open transaction, unless it concerns temporary tables alone."""
        state = self.state
        await self.buffer_stream()
        if _is_temporary(definition, state.temporary):
            defined = await self._define_temporary(definition)
        else:
            defined = await self._define_shared(definition)
        for errno, text in defined.notes:
            state.diagnostics.add("Note", errno, text)
        state.diagnostics.row_count = defined.affected
        info = f"Records: {defined.affected}  Duplicates: 0  Warnings: 0" if defined.affected else ""
        return OkResult(defined.affected, 0, state.diagnostics.warning_count, info)

    def kill(self, error: BackendError) -> bool:
        """Stop what runs; False when that is left to cancelling the task."""
        if self.context is not None:
            self.context.kill()
        if self.stream is not None:
            self.stream.kill()
        if self.job is None:
            return False
        self.state.database.kill(self.job, error)
        return True

    async def buffer_stream(self) -> None:
        """Buffer a result that is still being read from the transaction's connection, because the connection is
        needed."""
        stream = self.stream
        if stream is not None and stream.release is None and not stream.finished:
            await stream.buffer()

    async def close(self) -> None:
        if self.stream is not None:
            await self.stream.close()

    def _reader(self, temporary: bool) -> tuple[SqliteWorker, Callable[[SqliteWorker], None] | None]:
        transaction, database = self.state.transaction, self.state.database
        pinned = transaction.worker
        if pinned is not None and (transaction.writing or transaction.snapshot or temporary):
            return pinned, None
        return database.acquire_worker(), database.release_worker

    async def _lock_rows(self, lock: RowLock) -> None:
        """FOR UPDATE and similar clauses: in a transaction all of them take the writer. Outside, nothing would stay
        locked."""
        transaction = self.state.transaction
        if lock.seconds != 0 or transaction.holds_writer:
            if transaction.active:
                await transaction.begin_write(lock.seconds)
            return
        if self.state.database.gate.wanted_exclusively:
            raise _not_locked()
        if transaction.active:
            try:
                await transaction.begin_write(_BATCH_WAIT)
            except LockWaitTimeout:
                raise _not_locked() from None

    async def _set_found_rows(self, plan: Query, values: Sequence[Any], stream: Stream) -> None:
        diagnostics = self.state.diagnostics
        if plan.count_rows is not None:
            await stream.buffer()
            worker, release = self._reader(plan.temporary)
            dynamics = await self.state.dynamics(plan.count_rows.binds)
            params = bind(plan.count_rows.binds, values, dynamics)
            sql = plan.count_rows.sql
            try:
                rows = await self.state.database.run(worker, lambda connection: connection.fetch_all(sql, params))
            finally:
                if release is not None:
                    release(worker)
            diagnostics.found_rows = rows[0][0]
        elif stream.finished:
            diagnostics.found_rows = stream.total

    async def _read(self, stream: Stream, plan: Query, limit: int | None) -> AsyncGenerator[list[Row], None]:
        batches = stream.batches()
        sent = 0
        try:
            async for batch in batches:
                rows = batch if limit is None else batch[: limit - sent]
                sent += len(rows)
                yield self._assigning(plan, rows) if plan.assigned else rows
                if sent == limit:
                    break
            if plan.count_rows is None:
                self.state.diagnostics.found_rows = sent
        finally:
            await batches.aclose()
            if self.stream is stream:
                self.stream = None

    def _assigning(self, plan: Query, rows: list[Row]) -> list[Row]:
        """The rows without the values of user variables; those of the last row are stored."""
        width = len(plan.columns)
        values = zip(plan.assigned, rows[-1][width:] if rows else (), strict=False)
        self.state.variables.store_user({name: value for (name, _), value in values})
        return [row[:width] for row in rows]

    async def _changed(
        self, work: Callable[[SqliteConnection], Report], targets: Sequence[Table], reads_temporary: bool
    ) -> Report:
        transaction = self.state.transaction
        await self.buffer_stream()
        await transaction.touch()
        if all(table.temporary for table in targets) and not transaction.active:
            return await self.state.database.run(transaction.pin_for_temporary_tables(), _in_own_transaction(work))
        if transaction.active or transaction.holds_writer or reads_temporary or not transaction.steps.foreign_keys:
            return await self._in_transaction(work)
        return await self._shared_commit(work)

    async def _shared_commit(self, work: Callable[[SqliteConnection], Report]) -> Report:
        database = self.state.database
        job = self.job = database.job(work)
        try:
            report: Report = await database.submit(job, self.state.transaction.lock_wait())
            return report
        finally:
            self.job = None

    async def _in_transaction(self, work: Callable[[SqliteConnection], T]) -> T:
        transaction = self.state.transaction
        autocommit = not transaction.active
        worker = await transaction.begin_write()
        try:
            result = await self.state.database.run(worker, lambda connection: atomically(connection, work))
        except BaseException:
            if not worker.in_transaction:
                await transaction.lost()
            elif autocommit:
                await transaction.rollback()
            raise
        if autocommit:
            await transaction.commit()
        return result

    def _remember(self, report: Report, context: CallContext) -> OkResult:
        diagnostics = self.state.diagnostics
        for level, errno, text in report.warnings:
            diagnostics.add(level, errno, text)
        diagnostics.warning_count = max(diagnostics.warning_count, report.warning_count)
        diagnostics.row_count = report.affected
        insert_id = report.insert_id
        if report.generated_id is not None:
            diagnostics.last_insert_id = report.generated_id
        if context.last_insert_id is not None:
            diagnostics.last_insert_id = insert_id = context.last_insert_id
        return OkResult(report.affected, insert_id, diagnostics.warning_count, report.info)

    def _definer(self, connection: SqliteConnection, schema: Schema) -> Definer:
        state = self.state
        lookups = state.lookups

        def look_up(name: str, arguments: tuple[object, ...]) -> object:
            return lookups((Bind(dynamic=name, arguments=arguments),), {})[(name, arguments)]

        foreign_keys = state.transaction.steps.foreign_keys
        return Definer(connection, state.context(strict=True), schema, state.modes, look_up, foreign_keys)

    async def _define_shared(self, definition: Definition) -> Defined:
        state = self.state
        await state.transaction.commit()
        locked = state.transaction.table_locks
        if not locked:
            await state.database.gate.acquire(state.transaction.lock_wait())
        try:
            worker = state.database.acquire_worker()
            tables: dict[str, Table] | None = None

            def work(connection: SqliteConnection) -> Defined:
                nonlocal tables
                defined = self._definer(connection, state.shared.schema).run(definition)
                tables = read_tables(connection)
                return defined

            try:
                return await state.database.run(worker, work)
            finally:
                state.database.release_worker(worker)
                if tables is not None:  # also where the client has disconnected: it is done
                    state.shared.adopt(tables)
        finally:
            if not locked:
                state.database.gate.release()

    async def _define_temporary(self, definition: Definition) -> Defined:
        state = self.state
        worker = state.transaction.pin_for_temporary_tables()

        def work(connection: SqliteConnection) -> Defined:
            definer = self._definer(connection, state.schema)
            defined = definer.run(definition, temporary=True)
            state.temporary = {name: one for name, one in definer.schema.tables.items() if one.temporary}
            return defined

        return await state.database.run(worker, work)


def _not_locked() -> BackendError:
    text = "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set."
    return BackendError(text, 3572, "HY000")


def _binds(plan: Insert) -> list[Bind]:
    return [*plan.statement.binds, *(bind for statement in plan.clear for bind in statement.binds)]


def _modify_binds(plan: Modify | None) -> list[Bind]:
    assert plan is not None
    statements = (*plan.before, *plan.statements, *((plan.each,) if plan.each is not None else ()))
    return [bind for statement in statements for bind in statement.binds]


def _in_own_transaction(work: Callable[[SqliteConnection], T]) -> Callable[[SqliteConnection], T]:
    """A change to temporary tables alone: a transaction of its own that blocks no other session."""

    def run(connection: SqliteConnection) -> T:
        connection.execute("BEGIN").close()
        try:
            result = work(connection)
            connection.execute("COMMIT").close()
        except BaseException:
            connection.rollback()
            raise
        return result

    return run


def _is_temporary(definition: Definition, temporary: dict[str, Table]) -> bool:
    match definition:
        case CreateTable():
            return definition.table.temporary
        case DropTables():
            return definition.temporary or (bool(temporary) and all(name in temporary for name in definition.names))
        case _:
            return getattr(definition, "name", None) in temporary

"""Executes INSERT, UPDATE and DELETE on a connection, in a worker thread, and counts as MySQL does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from embedded.compile.binding import Dynamics, bind
from embedded.compile.errors import SqlError, ValueRefused
from embedded.compile.functions.context import CallContext, RowNumbers
from embedded.compile.plan import COMPUTED, GENERATED, Insert, InsertMode, Modify, Statement
from embedded.compile.queries.sources import table_name
from embedded.compile.schema import Schema
from embedded.database.connection import SqliteConnection
from embedded.schema.constraint_errors import FailedChange, refine
from engine.model.errors import BackendError

T = TypeVar("T")
_IGNORED = frozenset((1062, 1452, 3819))
_WARNINGS_MAX = 64  # stored for SHOW WARNINGS: the old max_error_count; the count goes on

RowPlan = tuple[Insert, Sequence[Any]]


@dataclass(slots=True)
class Report:
    """What a change did."""

    affected: int = 0
    insert_id: int = 0
    generated_id: int | None = None
    info: str = ""
    warnings: list[tuple[str, int, str]] = field(default_factory=list)
    warning_count: int = 0

    def warn(self, errno: int, text: str) -> None:
        self.warning_count += 1
        if len(self.warnings) < _WARNINGS_MAX:
            self.warnings.append(("Warning", errno, text))


def atomically(connection: SqliteConnection, work: Callable[[SqliteConnection], T]) -> T:
    """All of `work`, or nothing of it, inside the transaction that is open."""
    connection.execute("SAVEPOINT statement").close()
    try:
        result = work(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO statement").close()
            connection.execute("RELEASE statement").close()
        raise
    connection.execute("RELEASE statement").close()
    return result


@dataclass(slots=True)
class Runner:
    """Runs one changing statement, inside a savepoint or transaction that is undone when it fails."""

    connection: SqliteConnection
    context: CallContext
    schema: Schema
    dynamics: Dynamics
    found_rows: bool
    report: Report = field(default_factory=Report)

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` with this statement's context; it may run again when another job of the same commit fails."""
        self.connection.context = self.context
        self.context.restart()
        self.report = Report()
        return work()

    def insert(self, rows: Sequence[RowPlan]) -> Report:
        """INSERT or REPLACE of these rows; all have the same plan but for their shape."""
        plan = rows[0][0]
        if plan.missing:
            raise SqlError(1364, f"Field '{plan.missing}' doesn't have a default value")
        if not plan.rows:
            self._insert_query(plan, rows[0][1])
        elif plan.mode is InsertMode.FAIL:
            self._insert_plain(rows)
        else:
            self._insert_each(rows)
        if len(rows) > 1 or not plan.rows:
            records = self.context.rows_read if not plan.rows else len(rows)
            duplicates = self._duplicates(plan, records)
            self.report.info = f"Records: {records}  Duplicates: {duplicates}  Warnings: {self.report.warning_count}"
        return self.report

    def modify(self, plan: Modify, values: Sequence[Any]) -> Report:
        """UPDATE or DELETE."""
        total = 0
        for statement in plan.before:
            self.connection.execute(statement.sql, bind(statement.binds, values, self.dynamics)).close()
        for table, statement in zip(plan.tables, plan.statements, strict=True):
            failed = FailedChange(table, deletes=not plan.counted, assigned=plan.assigned)
            if plan.each is None:
                total += self._count(statement.sql, bind(statement.binds, values, self.dynamics), failed)
            else:
                self._one_by_one(plan.each, statement, values, failed)
        for statement in plan.after:
            self.connection.execute(statement.sql).close()
        if plan.counted:
            changed, matched = self.context.changed, self.context.matched
            total = matched if self.found_rows else changed
            self.report.info = f"Rows matched: {matched}  Changed: {changed}  Warnings: 0"
        self.report.affected = total
        return self.report

    def _one_by_one(self, each: Statement, statement: Statement, values: Sequence[Any], failed: FailedChange) -> None:
        """UPDATE in the order of its ORDER BY."""
        rows = self.connection.fetch_all(each.sql, bind(each.binds, values, self.dynamics))
        params = bind(statement.binds, values, self.dynamics)
        for (row,) in rows:
            self._count(statement.sql, [*params, row], failed)

    def _duplicates(self, plan: Insert, records: int) -> int:
        if plan.mode is InsertMode.IGNORE:
            return records - self.report.affected
        return max(0, self.report.affected - records) if plan.mode is not InsertMode.FAIL else 0

    def _count(self, sql: str, params: Sequence[Any], failed: FailedChange) -> int:
        """Run a statement; the number of rows that SQLite changed."""
        try:
            cursor = self.connection.execute(sql, params)
        except BackendError as error:
            raise refine(error, failed, self.schema, self.connection) from error
        count = max(cursor.rowcount, 0)
        cursor.close()
        return count

    def _converted(self, rows: Sequence[RowPlan]) -> list[list[Any]]:
        result = []
        for number, (plan, values) in enumerate(rows, 1):
            try:
                result.append(bind(plan.statement.binds, values, self.dynamics))
            except ValueRefused as error:
                raise error.at_row(number) from None
        return result

    def _insert_plain(self, rows: Sequence[RowPlan]) -> None:
        """Rows that must all go in. Rows of one shape run as one prepared statement."""
        params = self._converted(rows)
        position = 0
        for plan, group in groupby(rows, key=lambda row: row[0]):
            count = sum(1 for _ in group)
            self._insert_group(plan, params[position : position + count])
            position += count
        self.report.affected = len(rows)

    def _insert_group(self, plan: Insert, params: list[list[Any]]) -> None:
        if plan.auto_bind == COMPUTED:
            for row in params:
                self._one(plan, row)
            return
        if self.report.generated_id is None:
            first = next((i for i, row in enumerate(params) if _is_generated(plan, row)), None)
            if first is not None:
                self._many(plan, params[:first])
                self._one(plan, params[first])
                params = params[first + 1 :]
        self._many(plan, params)

    def _one(self, plan: Insert, params: list[Any]) -> None:
        self.context.numbers = RowNumbers()
        cursor = self._execute_row(plan, params)
        self._note_id(plan, params, int(cursor.lastrowid or 0))
        cursor.close()

    def _execute_row(self, plan: Insert, params: list[Any]) -> Any:
        try:
            return self.connection.execute(plan.statement.sql, params)
        except BackendError as error:
            raise refine(error, _failed_change(plan, params), self.schema, self.connection) from error

    def _many(self, plan: Insert, params: list[list[Any]]) -> None:
        if not params:
            return None
        if len(params) == 1:
            return self._one(plan, params[0])
        position = -1

        def each() -> Iterator[list[Any]]:
            nonlocal position
            for position, row in enumerate(params):  # noqa: B007
                yield row

        try:
            self.connection.execute_many(plan.statement.sql, each()).close()
        except BackendError as error:
            raise refine(error, _failed_change(plan, params[position]), self.schema, self.connection) from error
        self._note_id(plan, params[-1], 0)
        return None

    def _note_id(self, plan: Insert, params: list[Any], row_id: int) -> None:
        """The first generated number is what LAST_INSERT_ID() returns; without one, the answer has the last explicit
        one."""
        if not plan.numbered:
            return
        if plan.auto_bind == COMPUTED and not self.context.numbers.requested:
            if self.report.generated_id is None:
                self.report.insert_id = self.context.numbers.explicit or 0
        elif _is_generated(plan, params):
            if self.report.generated_id is None:
                self.report.generated_id = self.report.insert_id = row_id
        elif plan.auto_bind >= 0 and self.report.generated_id is None:
            self.report.insert_id = int(params[plan.auto_bind])

    def _insert_each(self, rows: Sequence[RowPlan]) -> None:
        """Row by row: IGNORE, REPLACE, ON DUPLICATE KEY UPDATE."""
        for (plan, values), params in zip(rows, self._converted(rows), strict=True):
            match plan.mode:
                case InsertMode.IGNORE:
                    self._ignore(plan, params)
                case InsertMode.REPLACE:
                    self._replace(plan, values, params)
                case _:
                    self._upsert(plan, params)

    def _ignore(self, plan: Insert, params: list[Any]) -> None:
        try:
            self._one(plan, params)
        except BackendError as error:
            if error.errno not in _IGNORED:
                raise
            self.report.warn(error.errno, error.message)
        else:
            self.report.affected += 1

    def _replace(self, plan: Insert, values: Sequence[Any], params: list[Any]) -> None:
        for statement in plan.clear:
            failed = FailedChange(plan.table, deletes=True)
            self.report.affected += self._count(statement.sql, bind(statement.binds, values, self.dynamics), failed)
        self._one(plan, params)
        self.report.affected += 1

    def _upsert(self, plan: Insert, params: list[Any]) -> None:
        self.context.restart()
        cursor = self._execute_row(plan, params)
        row_id = int(cursor.lastrowid or 0)
        cursor.close()
        if not self.context.matched:
            self.report.affected += 1
            self._note_id(plan, params, row_id)
            return
        self.report.affected += 2 if self.context.changed else int(self.found_rows)
        if self.context.changed and self.context.touched_id is not None:
            self.report.insert_id = self.context.touched_id

    def _insert_query(self, plan: Insert, values: Sequence[Any]) -> None:
        params = bind(plan.statement.binds, values, self.dynamics)
        before = self._row_count(plan) if plan.mode is InsertMode.REPLACE else 0
        if plan.auto_bind == COMPUTED:
            self.context.numbers = RowNumbers(self._highest(plan))
        try:
            cursor = self.connection.execute(plan.statement.sql, params)
        except BackendError as error:
            raise refine(error, FailedChange(plan.table), self.schema, self.connection) from error
        count, last = max(cursor.rowcount, 0), int(cursor.lastrowid or 0)
        cursor.close()
        self.report.affected = count
        if plan.mode is InsertMode.REPLACE:
            self.report.affected += before + count - self._row_count(plan)
        elif plan.mode is InsertMode.UPDATE:
            updated, changed = self.context.matched, self.context.changed
            unchanged = updated - changed if self.found_rows else 0
            self.report.affected = count - updated + 2 * changed + unchanged
        elif plan.mode is InsertMode.IGNORE:
            self.report.warning_count = self.context.rows_read - count
        inserted = count - self.context.matched
        if plan.numbered and inserted:
            self._note_numbers(plan, inserted, last)

    def _note_numbers(self, plan: Insert, inserted: int, last: int) -> None:
        """The numbers of the rows of a SELECT."""
        numbers = self.context.numbers
        if plan.auto_bind == COMPUTED and not numbers.requested:
            self.report.insert_id = 0 if plan.mode is InsertMode.UPDATE else last
        elif plan.auto_bind == GENERATED or numbers.explicit is None:
            self.report.generated_id = self.report.insert_id = last - inserted + 1
        else:
            self.report.generated_id = self.report.insert_id = numbers.generated or 0

    def _highest(self, plan: Insert) -> int:
        schema = "temp" if plan.table.temporary else "main"
        rows = self.connection.fetch_all(f"SELECT seq FROM {schema}.sqlite_sequence WHERE name = ?", (plan.table.name,))
        return int(rows[0][0]) if rows else 0

    def _row_count(self, plan: Insert) -> int:
        ((count,),) = self.connection.fetch_all(f"SELECT COUNT(*) FROM {table_name(plan.table)}")
        return int(count)


def _is_generated(plan: Insert, params: list[Any]) -> bool:
    if not plan.numbered:
        return False
    return plan.auto_bind < 0 or (plan.auto_bind >= 0 and params[plan.auto_bind] is None)


def _failed_change(plan: Insert, params: list[Any]) -> FailedChange:
    values = {name.lower(): params[position] for name, position in plan.places}
    return FailedChange(plan.table, values, deletes=plan.mode is InsertMode.REPLACE)

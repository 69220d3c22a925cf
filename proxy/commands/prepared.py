"""Prepared statements that the proxy answers itself: streams, and its SHOW statements. In the binary protocol.

Their ids come from the upper half of the 32-bit space: servers count from 1, so the two never collide.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mysql_mimic.types import Commands

from engine.model.errors import EngineError
from engine.model.queue import ColumnMeta
from mysql_wire import replies, requests
from mysql_wire.answer_walker import BULK_EXECUTE
from mysql_wire.errors import MalformedPacket, ProxyError
from mysql_wire.flags import BULK_OPERATIONS, BULK_UNIT_RESULTS
from mysql_wire.prepared_parameters import PreparedParameters
from mysql_wire.requests import FIRST_LOCAL_ID
from mysql_wire.status_flags import CURSOR_EXISTS, LAST_ROW_SENT
from proxy.commands.bulk import UNIT_COLUMNS, BulkExecution, rebound, units
from proxy.show.columns import number_column
from proxy.statements.executor import Executor
from proxy.statements.streaming import SubscriptionCursor
from rewriter.plan import (
    CreateConsumerGroup,
    EndInGroup,
    Execute,
    ExecuteCounting,
    InsertAfterGroup,
    Kill,
    Plan,
    ReadSystem,
    Rebind,
    Redrive,
    SchedulePlan,
    SeekConsumerGroup,
    Show,
    Subscribe,
)
from rewriter.text.binding import parameter_places
from rewriter.views import View

LONG_DATA_MAX_BYTES = 1024 * 1024  # of a statement; a reason is stored with a thousand characters
_PARSED_HERE_MAX_BYTES = 8192  # of a bulk execution: some milliseconds, of NULLs, of which each is a byte
STATEMENTS_MAX = 1024  # per session; a leak in a client should hit a wall long before our memory does


@dataclass(slots=True)
class LocalStatement:
    """One prepared plan of this session."""

    plan: Plan
    parameters: PreparedParameters
    cursor: SubscriptionCursor | None = None


def _parameters(plan: Plan) -> int:
    if isinstance(plan, Rebind):
        return plan.parameters
    return len(plan.parameters) if isinstance(plan, Subscribe) else 0


class LocalStatements:
    """The prepared statements of one session that are answered here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._ids = itertools.count(FIRST_LOCAL_ID)
        self._statements: dict[int, LocalStatement] = {}

    async def prepare(self, plan: Plan) -> int:
        """Store a plan and answer COM_STMT_PREPARE; returns the statement's id."""
        if len(self._statements) >= STATEMENTS_MAX:
            raise ProxyError(1461, f"Can't create more than max_prepared_stmt_count statements ({STATEMENTS_MAX})")
        parameters = _parameters(plan)
        number = next(self._ids)
        columns = await self._columns(plan)
        self._statements[number] = LocalStatement(plan, PreparedParameters(parameters, LONG_DATA_MAX_BYTES))
        await self._executor.session.writer.prepared(number, parameters, columns)
        return number

    async def _columns(self, plan: Plan) -> tuple[ColumnMeta, ...]:
        """The columns there will be, so that clients can bind before executing; some statements have them at
        execution."""
        if isinstance(plan, ReadSystem) or (isinstance(plan, Show) and plan.view is not View.CREATE_SCHEDULE):
            # Its columns are those of its answer, which is made once more for them.
            return tuple((await self._executor.local_result(plan))[0])
        if isinstance(plan, Rebind | ExecuteCounting):
            return () if plan.column is None else (number_column(plan.column),)
        if not isinstance(plan, Subscribe):
            return ()
        catalog, name = self._executor.engine.catalog, plan.request.queue
        spec = catalog.get(name) or catalog.topics.get(name)
        if spec is None:
            return ()
        names = plan.request.columns or spec.message_columns
        return tuple(column for name in names if (column := spec.column(name)) is not None)

    async def command(self, payload: bytes, number: int) -> None:
        """COM_STMT_EXECUTE, FETCH, RESET, CLOSE, SEND_LONG_DATA or bulk execution of the statement with that number."""
        command = payload[0]
        if command == Commands.COM_STMT_CLOSE:
            statement = self._statements.pop(number, None)
            if statement is not None:
                await self._close_cursor(statement)
            return
        if command == Commands.COM_STMT_SEND_LONG_DATA:
            self._add_long_data(payload[1:])
            return
        statement = self._statements.get(number)
        if statement is None:
            raise ProxyError(1243, f"Unknown prepared statement handler ({number}) given to mysqld_stmt_execute")
        if command == Commands.COM_STMT_EXECUTE:
            await self._execute(statement, payload[1:])
        elif command == BULK_EXECUTE:
            await self._execute_bulk(statement, payload[1:])
        elif command == Commands.COM_STMT_FETCH:
            await self._fetch(statement, payload[1:])
        else:
            statement.parameters.forget()
            await self._close_cursor(statement)
            await self._executor.session.writer.ok()

    def _add_long_data(self, body: bytes) -> None:
        """A piece of a parameter, sent ahead; there is no answer, whatever is wrong."""
        try:
            number, parameter, data = requests.parse_long_data(body)
        except MalformedPacket:
            return
        statement = self._statements.get(number)
        if statement is not None:
            statement.parameters.add(parameter, data)

    async def _execute_bulk(self, statement: LocalStatement, body: bytes) -> None:
        session = self._executor.session
        if not session.identity.capabilities & BULK_OPERATIONS:
            raise ProxyError(1047, f"Unknown command {BULK_EXECUTE:#04x}")
        await self._close_cursor(statement)
        parse = partial(statement.parameters.bulk_execution, body, session.identity.codec)
        request = parse() if len(body) <= _PARSED_HERE_MAX_BYTES else await asyncio.to_thread(parse)
        if isinstance(statement.plan, Subscribe) and len(request.sets) == 1:
            streams = self._executor.streams
            await streams.send(await streams.subscribe(statement.plan, request.sets[0]), binary=True)
            return
        outcomes = await BulkExecution(self._executor).run(statement.plan, request.sets)
        if request.unit_results and session.identity.capabilities & BULK_UNIT_RESULTS:
            session.writer.header(UNIT_COLUMNS)
            session.writer.rows([replies.binary_row_from_text(row, UNIT_COLUMNS) for row in units(outcomes)])
            await session.writer.end_of_rows()
            return
        await session.writer.ok(
            affected_rows=sum(outcome.affected_rows for outcome in outcomes),
            last_insert_id=outcomes[0].last_insert_id if outcomes else 0,
        )

    async def _execute(self, statement: LocalStatement, body: bytes) -> None:
        session = self._executor.session
        await self._close_cursor(statement)
        request = statement.parameters.execution(body, session.identity.capabilities, session.identity.codec)
        plan = statement.plan
        if isinstance(plan, Rebind):
            plan = await rebound(self._executor, plan, request.values)
            if isinstance(plan, EndInGroup | InsertAfterGroup):
                await self._executor.run_grouped(plan)
                return
        if not isinstance(plan, Subscribe):
            await self._send_local(plan)
            return
        streams = self._executor.streams
        if not request.cursor:
            await streams.send(await streams.subscribe(plan, request.values), binary=True)
            return
        cursor = statement.cursor = await streams.cursor(plan, request.values)
        session.writer.header(cursor.columns, flags=CURSOR_EXISTS)
        await session.writer.flush()

    async def _send_local(self, plan: Plan) -> None:
        if isinstance(plan, Kill):
            await self._executor.kills.run_prepared(plan)
            return
        if isinstance(plan, Execute):
            await self._executor.execute(plan)
            return
        if isinstance(plan, CreateConsumerGroup | SeekConsumerGroup):
            await self._executor.on_topic(plan)
            return
        if isinstance(plan, SchedulePlan):
            await self._executor.on_schedule(plan)
            return
        if isinstance(plan, Redrive):
            await self._executor.redrive(plan)
            return
        writer = self._executor.session.writer
        columns: Sequence[ColumnMeta]
        rows: Sequence[Sequence[bytes | None]]
        if isinstance(plan, ExecuteCounting):
            columns, rows = (number_column(plan.column),), [(await self._executor.counted(plan))[1]]
        else:
            columns, rows = await self._executor.local_result(plan)
        if not columns:
            await writer.ok()
            return
        await self._executor.send(columns, rows, binary=True)

    async def _fetch(self, statement: LocalStatement, body: bytes) -> None:
        number, count = requests.parse_fetch(body)
        cursor = statement.cursor
        if cursor is None:
            raise ProxyError(1421, f"The statement ({number}) has no open cursor")
        session = self._executor.session
        try:
            rows, last = await self._executor.streams.fetch(cursor, count)
        except EngineError:
            await self._close_cursor(statement)
            raise
        session.writer.rows(rows)
        await session.writer.end_of_rows(flags=LAST_ROW_SENT if last else CURSOR_EXISTS)
        if last:
            await self._close_cursor(statement)

    async def _close_cursor(self, statement: LocalStatement) -> None:
        cursor, statement.cursor = statement.cursor, None
        if cursor is not None:
            await cursor.close()

    async def close(self) -> None:
        """Forget all statements; open streams end and release what was not acked."""
        statements = list(self._statements.values())
        self._statements.clear()
        for statement in statements:
            await self._close_cursor(statement)


def rebind(executor: Executor, text: bytes) -> Rebind:
    """What is stored of a statement that becomes several: they are made when its values are known."""
    sql = executor.reader.decode(text)
    return Rebind(sql, len(parameter_places(sql, executor.session.reading_modes())), None)

"""Bulk execution of what the proxy plans itself: MariaDB's COM_STMT_BULK_EXECUTE, taken apart.

A server carries out such a command as one statement: all of its sets of parameters are applied, or none. So are these,
in a transaction of their own where none is open. In an open one, or without autocommit, each set is a statement, as if
the client had sent it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from decimal import Decimal

from engine.model.errors import BackendError
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from mysql_wire.parameters import ParameterValue
from proxy.errors import StreamClosed
from proxy.show.columns import number_column
from proxy.statements.executor import Executor
from proxy.statements.unit_of_work import UnitOfWork
from proxy.upstream.repeats import repeated, stands_alone
from rewriter.grammar.due import has_due as ends_with_due
from rewriter.plan import Plan, Rebind, Subscribe, TransactionVerb
from rewriter.text.binding import bound_text
from rewriter.text.literals import plain_literal

_DUE_CLAUSE = re.compile(r"\b(AT|DELAY)\s*\?", re.IGNORECASE)
UNIT_COLUMNS = (number_column("Id"), number_column("Affected_rows"))
"""Columns of the answer to a client that requests the result of each set."""


class BulkExecution:
    """See the module. For one session."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def run(self, plan: Plan, sets: Sequence[Sequence[ParameterValue]]) -> list[Outcome]:
        """The outcome of each set of parameters.

        Raises:
            ProxyError: 1295, the statement is none that can be executed in bulk.
            ClientFault, BackendError: a set failed; outside of a transaction nothing of the others is applied either.
        """
        if not isinstance(plan, Rebind) or plan.column is not None:
            what = "A stream" if isinstance(plan, Subscribe) else "This statement"
            raise ProxyError(1295, f"{what} cannot be executed in bulk with several sets of parameters; one by one")
        status = self._executor.session.upstream.status
        return await repeated(status, lambda: self._run(plan, sets, alone=stands_alone(status)))

    async def _run(self, plan: Rebind, sets: Sequence[Sequence[ParameterValue]], *, alone: bool) -> list[Outcome]:
        session = self._executor.session
        unit = UnitOfWork(session)
        try:
            async with AsyncExitStack() as stack:
                if alone:
                    await stack.enter_async_context(unit.unit())
                outcomes = [await self._carried_out(plan, each) for each in sets]
        except Exception as error:
            failed = Outcome.of(error) if isinstance(error, BackendError) else Outcome(status=session.upstream.status)
            self._executor.database.note(failed, verb=TransactionVerb.ROLLBACK if alone else None)
            raise
        if alone:
            self._executor.database.note(unit.now(Outcome()), verb=TransactionVerb.COMMIT)
        return outcomes

    async def _carried_out(self, plan: Rebind, values: Sequence[ParameterValue]) -> Outcome:
        """One set. Without its client none follows: the transaction would hold up others for nobody."""
        if self._executor.session.writer.client.closed:
            raise StreamClosed("the client went before its bulk execution had ended")
        return await self._executor.carry_out(await rebound(self._executor, plan, values))


def units(outcomes: Sequence[Outcome]) -> list[tuple[bytes, bytes]]:
    """The rows of UNIT_COLUMNS."""
    return [(b"%d" % outcome.last_insert_id, b"%d" % outcome.affected_rows) for outcome in outcomes]


def _due(value: ParameterValue, *, at: bool) -> ParameterValue:
    """The value of DELAY, or AT, as a literal that can be there, if only to be refused. Behind DELAY a sign would make
    an expression of a column of that name."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if at and value is None:
        return "NULL"
    return str(value) if isinstance(value, int | float | Decimal) and (at or value < 0) else value


async def rebound(executor: Executor, plan: Rebind, values: Sequence[ParameterValue]) -> Plan:
    """The plan of the statement with these values. Raises as Executor.planned."""
    escapes = not executor.session.no_backslash_escapes
    bound_values = [*values]
    if bound_values and (clauses := _DUE_CLAUSE.findall(plan.sql)) and ends_with_due(plan.sql):
        bound_values[-1] = _due(bound_values[-1], at=clauses[-1].upper() == "AT")
    literals = [plain_literal(value, backslash_escapes=escapes) for value in bound_values]
    return await executor.reader.planned(
        executor.reader.encode(bound_text(plan.sql, literals, executor.session.reading_modes()))
    )

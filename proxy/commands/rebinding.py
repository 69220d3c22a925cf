"""Prepared statements that can be planned only when the values of their `?` are known.

They are kept as text, and planned anew at each execution with the values written into it.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.statements.executor import Executor
from proxy.wire.parameters import ParameterValue
from rewriter.plan import Plan, Rebind
from rewriter.text.binding import bound_text, parameter_places
from rewriter.text.literals import plain_literal


def rebind(executor: Executor, text: bytes) -> Rebind:
    """What is kept of a statement that becomes several: they are made when its values are known."""
    sql = executor.decode(text)
    return Rebind(sql, len(parameter_places(sql, executor.session.reading_modes())), None)


async def rebound(executor: Executor, plan: Rebind, values: Sequence[ParameterValue]) -> Plan:
    """The plan of the statement with these values. Raises as Executor.planned."""
    escapes = not executor.session.no_backslash_escapes
    literals = [plain_literal(value, backslash_escapes=escapes) for value in values]
    return await executor.planned(executor.encode(bound_text(plan.sql, literals, executor.session.reading_modes())))

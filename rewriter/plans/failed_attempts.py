"""NACK and REJECT record the failed attempt in the column failed_attempts (engine.model.attempts).

The array is shortened and lengthened as text, with functions that every database has and a limited account may use. The
client that reports the failure is not part of the plan: the plan has the position where it is inserted, so that all
clients share one plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.model.attempts import NACKED, REJECTED, SEPARATOR, member
from engine.model.queue import ATTEMPTS_COLUMN, ERROR_CHARACTERS, QueueSpec
from rewriter.grammar.statements import Settle, Verb
from rewriter.plan import Execute, ExecuteCounting, Plan
from rewriter.text.literals import hex_literal

_COLUMN = ATTEMPTS_COLUMN
_OUTCOMES = {Verb.NACK: NACKED, Verb.REJECT: REJECTED}


@dataclass(frozen=True, slots=True)
class FailureAssignment:
    """An assignment in two parts; `add_reporter` inserts between them the client that reported the failure."""

    before: str
    after: str


def failure_assignment(statement: Settle, spec: QueueSpec) -> FailureAssignment | None:
    """The assignment; None where the statement reports no failure, or the queue stores none."""
    outcome, most = _OUTCOMES.get(statement.verb), spec.attempts_stored
    if outcome is None or most == 0:
        return None
    readable = (statement.reason or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    error = member("error", readable[:ERROR_CHARACTERS])
    head = '\'{"attempt": \', epoch, \', "at": "\', UTC_TIMESTAMP(6)'
    tail = hex_literal(chr(34) + member("outcome", outcome))
    before = f"{_COLUMN} = CONCAT('[', {_last_objects(most - 1)}{head}, {tail}, "
    return FailureAssignment(before, f"{hex_literal(error + '}]')})")


def _last_objects(most: int) -> str:
    """Of the array as it is, the last objects, with what separates them from the next one. For CONCAT."""
    if most == 0:
        return ""
    separator = hex_literal(SEPARATOR)
    objects = f"SUBSTRING({_COLUMN}, 2, CHAR_LENGTH({_COLUMN}) - 2)"
    last = f"CONCAT(SUBSTRING_INDEX({objects}, {separator}, -{most}), {separator})"
    return f"IF(SUBSTRING({_COLUMN}, 1, 2) = '[{{', {last}, ''), "


def add_reporter(plan: Plan, who: Callable[[], str]) -> Plan:
    """The plan with the client that reports a failure (engine.model.attempts.who), if it reports one."""
    match plan:
        case Execute():
            return add_reporter_to(plan, who)
        case ExecuteCounting(counts=Execute() as counts) if counts.reporter_offset:
            return replace(plan, counts=add_reporter_to(counts, who))
    return plan


def add_reporter_to(plan: Execute, who: Callable[[], str]) -> Execute:
    """The same for one statement."""
    at, sql = plan.reporter_offset, plan.sql
    return replace(plan, sql=f"{sql[:at]}{hex_literal(who())}, {sql[at:]}", reporter_offset=0) if at else plan

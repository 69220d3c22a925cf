"""NACK and REJECT note the attempt that has failed in the column failed_attempts (engine.model.attempts).

The array is shortened and lengthened as text, with functions that every database has and a limited account may use.
Who reports the failure is the client's, not the plan's: the plan says where that belongs, so that one plan serves all.
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
class Noted:
    """An assignment in two parts; what `signed` puts between them says who has reported the failure."""

    before: str
    after: str


def noted(statement: Settle, spec: QueueSpec) -> Noted | None:
    """The assignment; None where the statement reports no failure, or the queue keeps none."""
    outcome, most = _OUTCOMES.get(statement.verb), spec.attempts_kept
    if outcome is None or most == 0:
        return None
    readable = (statement.reason or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    error = member("error", readable[:ERROR_CHARACTERS])
    head = '\'{"attempt": \', epoch, \', "at": "\', UTC_TIMESTAMP(6)'
    before = f"{_COLUMN} = CONCAT('[', {_kept(most - 1)}{head}, {hex_literal(chr(34) + member('outcome', outcome))}, "
    return Noted(before, f"{hex_literal(error + '}]')})")


def _kept(most: int) -> str:
    """Of the array as it is, the last objects, with what separates them from the next one. For CONCAT."""
    if most == 0:
        return ""
    separator = hex_literal(SEPARATOR)
    objects = f"SUBSTRING({_COLUMN}, 2, CHAR_LENGTH({_COLUMN}) - 2)"
    last = f"CONCAT(SUBSTRING_INDEX({objects}, {separator}, -{most}), {separator})"
    return f"IF(SUBSTRING({_COLUMN}, 1, 2) = '[{{', {last}, ''), "


def signed(plan: Plan, who: Callable[[], str]) -> Plan:
    """The plan with what says who reports a failure (engine.model.attempts.who), if it reports one."""
    match plan:
        case Execute():
            return signed_statement(plan, who)
        case ExecuteCounting(counts=Execute() as counts) if counts.sign_at:
            return replace(plan, counts=signed_statement(counts, who))
    return plan


def signed_statement(plan: Execute, who: Callable[[], str]) -> Execute:
    """The same for one statement."""
    at, sql = plan.sign_at, plan.sql
    return replace(plan, sql=f"{sql[:at]}{hex_literal(who())}, {sql[at:]}", sign_at=0) if at else plan

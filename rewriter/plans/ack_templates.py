"""ACK of whole numbers, what receivers send most: its SQL is made once for each queue, and the numbers are put in.

The plan is the one that Passes makes of such a statement. What the grammar reads at a glance (quick_ack) comes here;
whatever else there is goes the ordinary way.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.errors import EngineError
from engine.model.queue import QueueName
from rewriter.errors import RewriteError
from rewriter.grammar.quick_ack import quick_ack
from rewriter.grammar.statements import Ack
from rewriter.plan import Effects, Execute, PlanContext
from rewriter.plans.plan_statement import Passes
from rewriter.text.tokens import Name

_TEMPLATES_MAX = 1024  # a name may be written in many ways
_SAMPLE = "1"
_PLACE = f"id IN ({_SAMPLE})"


@dataclass(frozen=True, slots=True)
class _Template:
    """The statement around its ids."""

    before: str
    after: str
    queue: QueueName
    tally: tuple[QueueName, str] | None

    def filled(self, numbers: str) -> Execute:
        """The statement with these ids, which commas separate."""
        ids = tuple(map(int, numbers.split(",")))
        return Execute(f"{self.before}{numbers}{self.after}", Effects(settled=((self.queue, ids),), tally=self.tally))


class AckTemplates:
    """For one catalog."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._templates: dict[tuple[Name, PlanContext], _Template] = {}

    def plan(self, sql: str, context: PlanContext) -> Execute | None:
        """The plan of an ACK in its plainest form, of a queue whose plan is a text around the ids; else None."""
        statement = quick_ack(sql)
        if statement is None:
            return None
        key = (statement.name, context)
        template = self._templates.get(key)
        if template is None:
            template = self._made(statement.name, context)
            if template is None:
                return None
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            self._templates[key] = template
        return template.filled(statement.numbers)

    def _made(self, name: Name, context: PlanContext) -> _Template | None:
        try:
            plan = self._passes.plan(Ack(name, (), "", _SAMPLE), context)
        except (RewriteError, EngineError):
            return None  # the ordinary way says what is wrong
        if not isinstance(plan, Execute) or plan != Execute(plan.sql, plan.effects) or len(plan.effects.settled) != 1:
            return None
        ((queue, ids),) = plan.effects.settled
        # Whatever else such a plan may come to hold one day is not left out here.
        if ids != (int(_SAMPLE),) or plan.effects != Effects(settled=plan.effects.settled):
            return None
        before, found, after = plan.sql.partition(_PLACE)
        open_, close = _PLACE.split(_SAMPLE)
        return _Template(before + open_, close + after, queue, plan.effects.tally) if found else None

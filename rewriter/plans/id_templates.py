"""ACK, NACK, RELEASE, RENEW and REJECT of whole numbers: the SQL is made once for each queue, the numbers are put in.

The plan is the one that PlanBuilder makes for such a statement. Only what quick_ids recognises comes here;
every other statement takes the ordinary route.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.errors import EngineError
from engine.model.pins import Pins
from engine.model.queue import QueueName
from rewriter.errors import RewriteError
from rewriter.grammar.parse import parse
from rewriter.grammar.quick_forms import QuickIds, quick_ids
from rewriter.plan import Effects, Execute, Plan, PlanContext
from rewriter.plans.plan_statement import PlanBuilder

_TEMPLATES_MAX = 1024  # a name may be written in many ways, and a duration
_SAMPLE = 1
_OPEN, _CLOSE = "id IN (", ")"
_PLACE = f"{_OPEN}{_SAMPLE}{_CLOSE}"


@dataclass(frozen=True, slots=True)
class _Template:
    """The text around the ids. `effects` are of the sample; its ids are those `settled`, or those `changed`."""

    before: str
    after: str
    queue: QueueName
    effects: Effects
    reporter_offset: int
    pins: Pins
    at_shards: QueueName | None

    def filled(self, numbers: str) -> Execute:
        """The statement with these ids, which commas separate."""
        effects, named = self.effects, ((self.queue, tuple(map(int, numbers.split(",")))),)
        filled = Effects(
            touched=effects.touched,
            settled=named if effects.settled else (),
            changed=named if effects.changed else (),
            rejected=effects.rejected,
            delay_ns=effects.delay_ns,
            tally=effects.tally,
        )
        return Execute(
            f"{self.before}{numbers}{self.after}",
            filled,
            reporter_offset=self.reporter_offset,
            pins=self.pins,
            at_shards=self.at_shards,
        )


class IdTemplates:
    """For one catalog."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        self._templates: dict[tuple[str, str, PlanContext], _Template] = {}

    def plan(self, sql: str, context: PlanContext) -> Execute | None:
        """The plan of a statement in its plainest form, of a queue whose plan is a text around the ids; else None."""
        quick = quick_ids(sql)
        if quick is None:
            return None
        key = (quick.before, quick.after, context)
        template = self._templates.get(key)
        if template is None:
            template = self._build(quick, context)
            if template is None:
                return None
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            self._templates[key] = template
        return template.filled(quick.numbers)

    def _build(self, quick: QuickIds, context: PlanContext) -> _Template | None:
        try:
            statement = parse(f"{quick.before}({_SAMPLE}){quick.after}", context.sql_modes, context.database)
            plan = None if statement is None else self._builder.plan(statement, context)
        except (RewriteError, EngineError):
            return None  # the ordinary route reports what is wrong
        return _around(plan)


def _around(plan: Plan | None) -> _Template | None:
    """What is around the sample's id; None where the plan is more than a text and what happens to that message."""
    if not isinstance(plan, Execute) or plan.sql.count(_PLACE) != 1:
        return None
    effects = plan.effects
    named = effects.settled + effects.changed
    if len(named) != 1 or effects.reason or effects.numbered:
        return None
    before, _, after = plan.sql.partition(_PLACE)
    template = _Template(
        before + _OPEN, _CLOSE + after, named[0][0], effects, plan.reporter_offset, plan.pins, plan.at_shards
    )
    # If such a plan gets more fields one day, they are not left out here.
    return template if template.filled(str(_SAMPLE)) == plan else None

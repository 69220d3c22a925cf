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
_SAMPLE = "1"


@dataclass(frozen=True, slots=True)
class _Template:
    """The text around the ids, with what is `between` them and the number of their delivery, where one is named.
    `effects` are of the sample; its ids are those `settled`, or those `changed`."""

    before: str
    between: str
    after: str
    queue: QueueName
    effects: Effects
    reporter_offset: int
    pins: Pins
    at_shards: QueueName | None

    def filled(self, numbers: str, delivery: str) -> Execute:
        """The statement with these ids, which commas separate."""
        ids = tuple(map(int, numbers.split(",")))
        effects, named = self.effects, ((self.queue, ids),)
        filled = Effects(
            touched=effects.touched,
            settled=named if effects.settled else (),
            changed=named if effects.changed else (),
            rejected=effects.rejected,
            delay_ns=effects.delay_ns,
            tally=effects.tally,
            if_all=len(set(ids)) if effects.if_all else 0,
        )
        return Execute(
            f"{self.before}{numbers}{self.between}{delivery}{self.after}",
            filled,
            reporter_offset=self.reporter_offset,
            pins=self.pins,
            at_shards=self.at_shards,
        )


class IdTemplates:
    """For one catalog."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        self._templates: dict[tuple[str, str, str, str, PlanContext], _Template | None] = {}

    def plan(self, sql: str, context: PlanContext) -> Execute | None:
        """The plan of a statement in its plainest form, of a queue whose plan is a text around the ids; else None."""
        quick = quick_ids(sql)
        if quick is None:
            return None
        key = (quick.before, quick.column, quick.between, quick.after, context)
        if key not in self._templates:
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            self._templates[key] = self._build(quick, context)
        template = self._templates[key]
        return None if template is None else template.filled(quick.numbers, quick.delivery)

    def _build(self, quick: QuickIds, context: PlanContext) -> _Template | None:
        delivery = quick.delivery and _SAMPLE
        sample = f"{_SAMPLE}{quick.between}{delivery}"
        opened, closed = (quick.column, "") if quick.column else ("(", ")")
        try:
            statement = parse(
                f"{quick.before}{opened}{sample}{closed}{quick.after}", context.sql_modes, context.database
            )
            plan = None if statement is None else self._builder.plan(statement, context)
        except (RewriteError, EngineError):
            return None  # the ordinary route reports what is wrong
        return _around(plan, quick.column or "id IN (", quick.between, delivery, closed)


def _around(plan: Plan | None, opened: str, between: str, delivery: str, closed: str) -> _Template | None:
    """What is around the sample's id; None where the plan is more than a text and what happens to that message."""
    sample = f"{opened}{_SAMPLE}{between}{delivery}{closed}"
    if not isinstance(plan, Execute) or plan.sql.count(sample) != 1:
        return None
    effects = plan.effects
    named = effects.settled + effects.changed
    if len(named) != 1 or effects.reason or effects.numbered:
        return None
    before, _, after = plan.sql.partition(sample)
    of_plan = named[0][0], effects, plan.reporter_offset, plan.pins, plan.at_shards
    template = _Template(before + opened, between, closed + after, *of_plan)
    # If such a plan gets more fields one day, they are not left out here.
    return template if template.filled(_SAMPLE, delivery) == plan else None

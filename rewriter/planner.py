"""The planner: one statement's text and a catalog in, a plan out. No I/O, no state but the plans it remembers.

The scanner decides whether a statement can be ours at all; only then it is tokenised. What the grammar finds to be
ordinary SQL is passed through with the effects that the scanner saw.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from engine.model.options import NEW_QUEUE, QueueOptions
from engine.model.queue import QueueCatalog
from rewriter.grammar.parse import parse
from rewriter.grammar.quick_ids import VERBS
from rewriter.plan import EndInGroup, Execute, ExecuteCounting, InsertAfterGroup, Passthrough, Plan, PlanContext
from rewriter.plans.id_templates import IdTemplates
from rewriter.plans.plan_statement import Passes
from rewriter.scan.scanner import Concern, Glance, StatementScanner
from rewriter.scan.socket_variable import without_socket
from rewriter.text.lexis import leading_verb
from rewriter.text.queue_names import QueueNames
from rewriter.text.transaction_verbs import transaction_verb

_INSERTING = (b"INSERT", b"REPLACE")


class Planner:
    """Plans statements for one catalog; a new catalog needs a new planner, so no plan outlives its catalog."""

    def __init__(self, catalog: QueueCatalog, defaults: QueueOptions | None = None) -> None:
        self._scanner = StatementScanner(catalog)
        self._passes = Passes(catalog, QueueNames(catalog), defaults or NEW_QUEUE)
        self._by_ids = IdTemplates(self._passes)
        self._cache = PlanCache()

    def plan(self, sql: str, context: PlanContext, glance: Glance | None = None) -> Plan:
        """What is to be done with one statement.

        Args:
            sql: the statement.
            context: how its session reads it.
            glance: what a scanner for the same catalog has said of this text in this database, where it has.

        Raises:
            RewriteError: syntax, names, or something that is not supported.
            EngineError: an option or a column that the queue does not have.
        """
        if sql.startswith(VERBS) and (quick := self.quick(sql, context)) is not None:
            return quick
        plan = self._cache.get(sql, context)
        if plan is None:
            plan = self._plan(sql, context, glance)
            if _comes_again(plan):
                self._cache.put(sql, context, plan)
        return plan

    def quick(self, sql: str, context: PlanContext) -> Execute | None:
        """The plan of a statement that receivers send all the time, in its plainest form, as `plan` would make it;
        None: `plan` has to. Never raises."""
        return self._by_ids.plan(sql, context)

    def _plan(self, sql: str, context: PlanContext, glance: Glance | None) -> Plan:
        encoded = sql.encode("utf-8", "surrogatepass")
        if glance is None:
            glance = self._scanner.glance(encoded, context.database)
        if glance.concern in (Concern.NONE, Concern.TOUCHES) or glance.effects.removes:
            return Passthrough(replace(glance.effects, transaction=transaction_verb(encoded)))
        if (asked := without_socket(sql)) is not None:
            return Execute(asked, glance.effects)
        # Programs send settings of the session in executable comments when they begin.
        settings = glance.concern is Concern.USE and (b"/*!" in encoded or b"/*M!" in encoded)
        statement = None if settings else parse(sql, context.sql_modes, context.database)
        if statement is None:
            if leading_verb(encoded)[0] in _INSERTING:
                self._passes.check_unread_insert(sql, glance.effects.touched)
            return Passthrough(replace(glance.effects, transaction=transaction_verb(encoded)))
        return self._passes.plan(statement, context)


def _comes_again(plan: Plan) -> bool:
    """A statement that names the messages it settles is run once; remembering it would push out the others."""
    if isinstance(plan, ExecuteCounting | EndInGroup | InsertAfterGroup):
        return False
    return not (isinstance(plan, (Execute, Passthrough)) and (plan.effects.settled or plan.effects.changed))


_TEXT_MAX = 4096  # longer texts hold literals and seldom come twice; with 1024 plans the cache stays below 10 MB


class PlanCache:
    """Plans by text and context, for one catalog."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._plans: OrderedDict[tuple[str, PlanContext], Plan] = OrderedDict()

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, sql: str, context: PlanContext) -> Plan | None:
        key = (sql, context)
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
        return plan

    def put(self, sql: str, context: PlanContext, plan: Plan) -> None:
        if len(sql) > _TEXT_MAX:
            return
        self._plans[(sql, context)] = plan
        if len(self._plans) > self._capacity:
            self._plans.popitem(last=False)

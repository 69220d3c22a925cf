"""The planner: one statement's text and a catalog in, a plan out. No I/O, no state but the cached plans.

The scanner decides whether a statement may be a queue statement; only then it is tokenised. A statement that is
ordinary SQL for the grammar is passed through with the effects that the scanner reported.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from engine.model.options import NEW_QUEUE, QueueOptions
from engine.model.queue import QueueCatalog
from rewriter.grammar.parse import parse
from rewriter.grammar.quick_forms import VERBS
from rewriter.plan import EndInGroup, Execute, ExecuteCounting, InsertAfterGroup, Passthrough, Plan, PlanContext
from rewriter.plans.id_templates import IdTemplates
from rewriter.plans.plan_statement import PlanBuilder
from rewriter.scan.scanner import Classification, StatementClass, StatementScanner
from rewriter.scan.socket_variable import without_socket
from rewriter.text.lexis import leading_verb
from rewriter.text.queue_names import QueueNames
from rewriter.text.transaction_verbs import transaction_verb


class Planner:
    """Plans statements for one catalog; a new catalog needs a new planner, so no plan outlives its catalog."""

    def __init__(self, catalog: QueueCatalog, defaults: QueueOptions | None = None) -> None:
        self._scanner = StatementScanner(catalog)
        self._builder = PlanBuilder(catalog, QueueNames(catalog), defaults or NEW_QUEUE)
        self._by_ids = IdTemplates(self._builder)
        self._cache = PlanCache()

    def plan(self, sql: str, context: PlanContext, classification: Classification | None = None) -> Plan:
        """What is to be done with one statement.

        Args:
            sql: the statement.
            context: how its session reads it.
            classification: the result of a scanner for the same catalog for this text in this database, where there is
                one.

        Raises:
            RewriteError: syntax, names, or something that is not supported.
            EngineError: an option or a column that the queue does not have.
        """
        if sql.startswith(VERBS) and (quick := self.quick(sql, context)) is not None:
            return quick
        plan = self._cache.get(sql, context)
        if plan is None:
            plan = self._plan(sql, context, classification)
            if _is_cacheable(plan):
                self._cache.put(sql, context, plan)
        return plan

    def quick(self, sql: str, context: PlanContext) -> Execute | None:
        """The plan of a statement that receivers send all the time, in its plainest form, as `plan` would make it;
        None: `plan` has to. Never raises."""
        return self._by_ids.plan(sql, context)

    def _plan(self, sql: str, context: PlanContext, classification: Classification | None) -> Plan:
        encoded = sql.encode("utf-8", "surrogatepass")
        escapes = "NO_BACKSLASH_ESCAPES" not in context.sql_modes
        if classification is None:
            classification = self._scanner.classify(encoded, context.database, backslash_escapes=escapes)
        if classification.kind in (StatementClass.USE, StatementClass.PLAN) and not classification.effects.removes:
            if (rewritten := without_socket(sql)) is not None:
                return Execute(rewritten, classification.effects)
            # Programs send settings of the session in executable comments when they begin.
            settings = classification.kind is StatementClass.USE and (b"/*!" in encoded or b"/*M!" in encoded)
            if not settings and (statement := parse(sql, context.sql_modes, context.database)) is not None:
                return self._builder.plan(statement, context)
            if leading_verb(encoded)[0] in (b"INSERT", b"REPLACE"):
                self._builder.check_unread_insert(sql, classification.effects.touched)
        verb = transaction_verb(encoded, backslash_escapes=escapes)
        return Passthrough(replace(classification.effects, transaction=verb))


def _is_cacheable(plan: Plan) -> bool:
    """A statement that names the messages it settles is run once; caching it would evict the others."""
    if isinstance(plan, ExecuteCounting | EndInGroup | InsertAfterGroup):
        return False
    return not (isinstance(plan, (Execute, Passthrough)) and (plan.effects.settled or plan.effects.changed))


_TEXT_MAX = 4096  # longer texts contain literals and seldom come twice; with 1024 plans the cache stays below 10 MB


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

"""A bounded memory of plans: the least recently used goes first."""

from __future__ import annotations

from collections import OrderedDict

from rewriter.plan import Plan, PlanContext

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

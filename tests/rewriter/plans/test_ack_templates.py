"""ACKs of plain numbers: the plan that is made from a template is the one that is made by reading the statement."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rewriter_catalog import CATALOG, grouped

from engine.model.errors import EngineError
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog
from rewriter.errors import RewriteError
from rewriter.plan import PlanContext
from rewriter.planner import Planner
from rewriter.plans import ack_templates

PLANNER = Planner(CATALOG)
SHOP = PlanContext("shop")
TABLES = sorted({queue.table for queue in CATALOG.queues} | {topic.table for topic in CATALOG.topics} | {"none"})
NAMES = st.sampled_from([*TABLES, *(f"`{table}`" for table in TABLES), *(f"shop.{table}" for table in TABLES)])
NUMBERS = st.lists(st.integers(0, 10**18), min_size=1, max_size=4)
GROUPS = st.sampled_from(["", " GROUP billing", " GROUP `g`", " GROUP BY x"])
ENDS = st.sampled_from(["", ";", " ; ", " WHERE id = 1", ", 'a'", ", ?", " -- said", ", 1.5"])


def read(sql: str, context: PlanContext) -> object:
    """What is made of it by reading it."""
    try:
        return PLANNER._plan(sql, context, None)
    except (RewriteError, EngineError) as error:
        return type(error)


@given(NAMES, NUMBERS, st.sampled_from([", ", ",", " ,\n"]), GROUPS, ENDS, st.sampled_from([None, "shop", "other"]))
def test_it_is_the_same_plan(name, numbers, comma, group, end, database):
    context = PlanContext(database)
    for sql in (f"ACK {name} {comma.join(map(str, numbers))}{group}{end}", f"ack {name} ({numbers[0]}){end}"):
        quick = PLANNER.quick(sql, context)
        if quick is not None:
            ordinary = read(sql, context)
            assert quick == ordinary
            assert quick.effects.tally == ordinary.effects.tally


def test_the_usual_ones_have_a_template():
    found = [table for table in TABLES if PLANNER.quick(f"ACK {table} 101, 102", SHOP) is not None]
    assert "q" in found and "none" not in found
    assert PLANNER.plan("ACK q 101", SHOP) == PLANNER.quick("ACK q 101", SHOP)


def test_messages_of_groups_have_none_and_another_catalog_has_its_own():
    """An ack of one of a group's messages is a statement of several steps."""
    spec = grouped("orders_of_groups")
    catalog = QueueCatalog(CATALOG.version + 1, {spec.name: spec})
    assert Planner(catalog).quick("ACK orders_of_groups 101", SHOP) is None
    alone = QueueCatalog(1, {spec.name: replace(spec, options=QueueOptions())})
    assert Planner(alone).quick("ACK orders_of_groups 101", SHOP) is not None


def test_templates_are_bounded(monkeypatch):
    monkeypatch.setattr(ack_templates, "_TEMPLATES_MAX", 2)
    planner = Planner(CATALOG)
    for name in ("q", "`q`", "shop.q", "`shop`.q"):
        assert planner.quick(f"ACK {name} 1", SHOP) is not None
    assert len(planner._acks._templates) <= 2

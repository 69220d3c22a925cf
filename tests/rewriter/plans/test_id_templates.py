"""Statements of plain numbers: the plan made from a template is the one that is made by reading the statement."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriter_catalog import CATALOG, grouped

from engine.model.errors import EngineError
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName
from rewriter.errors import RewriteError
from rewriter.plan import Execute, PlanContext
from rewriter.planner import Planner
from rewriter.plans import id_templates

PLANNER = Planner(CATALOG)
SHOP = PlanContext("shop")
TABLES = sorted({queue.table for queue in CATALOG.queues} | {topic.table for topic in CATALOG.topics} | {"none"})
NAMES = st.sampled_from([*TABLES, *(f"`{table}`" for table in TABLES), *(f"shop.{table}" for table in TABLES)])
VERBS = st.sampled_from(["ACK", "ack", "NACK", "nack", "RELEASE", "RENEW", "renew", "REJECT", "RETRY"])
NUMBERS = st.lists(st.integers(0, 10**18), min_size=1, max_size=4)
CLAUSES = st.lists(
    st.sampled_from(
        [" GROUP billing", " GROUP `g`", " GROUP BY x", " FOR '5m'", " FOR 5", " FOR 'x'", " DELAY '2s'", " DELAY 0",
         " delay 12345678901", " DELAY '-1s'", " REASON 'why'", " DELAY 7d"]
    ),
    max_size=3,
).map("".join)  # fmt: skip
ENDS = st.sampled_from(["", ";", " ; ", " WHERE id = 1", ", 'a'", ", ?", " -- said", ", 1.5"])


def read(sql: str, context: PlanContext) -> object:
    """What is made of it by reading it."""
    try:
        return PLANNER._plan(sql, context, None)
    except (RewriteError, EngineError) as error:
        return type(error)


def plain(plan: Execute) -> Execute:
    """Ids are separated as the client has them, or in one way."""
    return replace(plan, sql=re.sub(r"\s*,\s*", ", ", plan.sql))


@given(
    VERBS, NAMES, NUMBERS, st.sampled_from([", ", ",", " ,\n"]), CLAUSES, ENDS, st.sampled_from([None, "shop", "other"])
)
def test_it_is_the_same_plan(verb, name, numbers, comma, clauses, end, database):
    context, ids = PlanContext(database), comma.join(map(str, numbers))
    for sql in (f"{verb} {name} {ids}{clauses}{end}", f"{verb} {name} ({ids}){clauses}{end}"):
        check_same(sql, context)


@given(
    VERBS,
    NAMES,
    NUMBERS,
    st.sampled_from(["", " ", " AND lease_token = ", " and `epoch`=", "\nAND epoch = ", " AND time_acked = "]),
    st.integers(0, 10**18).map(str) | st.just(""),
    CLAUSES,
    ENDS,
    st.sampled_from([None, "shop"]),
)
def test_it_is_the_same_plan_where_the_delivery_is_named(verb, name, ids, between, number, clauses, end, database):
    context, rest = PlanContext(database), f"{between}{number}{clauses}{end}"
    check_same(f"{verb} {name} WHERE id = {ids[0]}{rest}", context)
    check_same(f"{verb} {name} WHERE id IN ({', '.join(map(str, ids))}){rest}", context)


def check_same(sql: str, context: PlanContext) -> None:
    quick = PLANNER.quick(sql, context)
    if quick is not None:
        ordinary = read(sql, context)
        assert isinstance(ordinary, Execute)
        assert plain(quick) == plain(ordinary)
        assert quick.effects.tally == ordinary.effects.tally
        assert quick.effects.reason == ordinary.effects.reason


@pytest.mark.parametrize(
    "statement",
    ["ACK {} 101, 102", "NACK {} 101", "nack {} (101, 102) DELAY '20s'", "RELEASE {} 101;", "RENEW {} 101 FOR '5m'",
     "REJECT {} 101", "ACK {} WHERE id = 101 AND lease_token = 7", "NACK {} WHERE id IN (101, 102) AND epoch = 1",
     "RENEW {} WHERE id = 101 AND lease_token = 7 FOR '5m'", "REJECT {} WHERE id = 101 AND lease_token = 7",
     "ACK {} WHERE id = 101", "NACK {} WHERE `id` IN (101) DELAY 5", "RENEW {} WHERE id=101 FOR '5m';"],
)  # fmt: skip
def test_the_usual_ones_have_a_template(statement):
    assert PLANNER.quick(statement.format("none"), SHOP) is None
    quick = PLANNER.quick(statement.format("q"), SHOP)
    assert quick is not None
    assert quick.sql.count("101") == 1
    assert PLANNER.plan(statement.format("q"), SHOP) == quick


@pytest.mark.parametrize(
    "sql",
    ["RENEW q 101", "NACK q 101 FOR '5m'", "NACK q 101 DELAY 'never'", "NACK q 101 REASON 'why'", "RELEASE SAVEPOINT 5",
     "RELEASE q 1 DELAY 5", "ACK q 1 DELAY 5", "NACK q 1 DELAY 5 DELAY 6", "RETRY q NOW", "NACK q WHERE id < 1",
     "ACK q WHERE id IN (1)7", "ACK q WHERE id = 1 AND lease_token = ", "ACK q WHERE id = 1, 2"],
)  # fmt: skip
def test_others_are_read(sql):
    assert PLANNER.quick(sql, SHOP) is None


def test_messages_of_groups_have_none_and_another_catalog_has_its_own():
    """An ack of one of a group's messages is a statement of several steps."""
    spec = grouped("orders_of_groups")
    catalog = QueueCatalog(CATALOG.version + 1, {spec.name: spec})
    assert Planner(catalog).quick("ACK orders_of_groups 101", SHOP) is None
    alone = QueueCatalog(1, {spec.name: replace(spec, options=QueueOptions())})
    assert Planner(alone).quick("ACK orders_of_groups 101", SHOP) is not None


def test_a_name_that_looks_like_the_place_of_the_ids_has_none():
    spec = grouped("orders_of_groups")
    name = QueueName("shop", "id IN (1)")
    planner = Planner(QueueCatalog(1, {name: replace(spec, name=name, options=QueueOptions())}))
    assert planner.quick("ACK `id IN (1)` 101", SHOP) is None
    plan = planner.plan("ACK `id IN (1)` 101", SHOP)
    assert isinstance(plan, Execute)
    assert "id IN (101)" in plan.sql
    assert "`id IN (1)`" in plan.sql
    for condition in ("id IN (1)", "id = 1"):
        named = QueueName("shop", condition)
        of_name = Planner(QueueCatalog(1, {named: replace(spec, name=named, options=QueueOptions())}))
        assert of_name.quick(f"ACK `{condition}` WHERE {condition}", SHOP) is None


def test_templates_are_bounded(monkeypatch):
    monkeypatch.setattr(id_templates, "_TEMPLATES_MAX", 2)
    planner = Planner(CATALOG)
    for name in ("q", "`q`", "shop.q", "`shop`.q"):
        assert planner.quick(f"ACK {name} 1", SHOP) is not None
    assert len(planner._by_ids._templates) <= 2

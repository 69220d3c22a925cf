"""Plans of statements on the messages of a queue over several shards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rewriter_catalog import CATALOG

from engine.model.keyspaces import Keyspaces
from engine.model.queue import QueueName
from rewriter.errors import UnsupportedSql
from rewriter.plan import Execute, ExecuteCounting, Passthrough, PlanContext, Redrive
from rewriter.planner import Planner

NAME = QueueName("shop", "orders (WHERE (")
KEYSPACES = Keyspaces({"shop": ("-80", "80-"), "main": ("0",)}, "main")
PLAIN = next(queue for queue in CATALOG if queue.options.topic is None and queue.options.group_key is None)
SPEC = replace(
    PLAIN, name=NAME, shards=("-80", "80-"), options=replace(PLAIN.options, sharding_key="user_id", dead_letter_of=None)
)
PLANNER = Planner(replace(CATALOG, queues={**CATALOG.queues, NAME: SPEC}, keyspaces=KEYSPACES))
CONTEXT = PlanContext("shop")
Q = "`orders (WHERE (`"

VERBS = [
    f"ACK {Q} 7",
    f"ACK {Q} WHERE id = 7 AND lease_token = 9",
    f"NACK {Q} 7, 8 DELAY 5 REASON ' WHERE ('",
    f"RELEASE {Q} 7",
    f"RENEW {Q} 7 FOR '5m'",
    f"REJECT {Q} 7 REASON 'x'",
]


@pytest.mark.parametrize("sql", VERBS)
def test_verbs_go_to_the_shards_and_take_a_condition(sql):
    plan = PLANNER.plan(sql, CONTEXT)
    assert isinstance(plan, Execute) and plan.at_shards == NAME and plan.has_prerequisites and plan.named
    before, _, after = plan.routed("`user_id` IN (5)").partition("`user_id` IN (5) AND ")
    assert before + after == plan.sql, "nothing else has changed"
    assert before.endswith(" WHERE ") and after.startswith("(id")


@pytest.mark.parametrize("sql", [f"ACK {Q} WHERE body = 'a'", f"RETRY {Q} NOW", f"TRUNCATE QUEUE {Q}"])
def test_what_names_no_ids_goes_to_all(sql):
    plan = PLANNER.plan(sql, CONTEXT)
    assert isinstance(plan, Execute) and plan.at_shards == NAME and plan.named is None


def test_others_know_no_shards():
    assert PLANNER.plan(f"ACK {PLAIN.name.table} 7", CONTEXT).at_shards is None
    counting = PLANNER.plan("SELECT queue_ack('orders (WHERE (', 7)", CONTEXT)
    assert isinstance(counting, ExecuteCounting) and counting.counts.at_shards == NAME
    assert isinstance(PLANNER.plan(f"INSERT INTO {Q} (user_id) VALUES (1)", CONTEXT), Execute | Passthrough)


def test_create_and_drop():
    plan = PLANNER.plan("CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k)", CONTEXT)
    assert "AUTO_INCREMENT" not in plan.sql and plan.has_prerequisites
    assert (plan.vschema.key, plan.vschema.sequence) == ("k", QueueName("main", "shop_wide_seq"))
    assert PLANNER.plan("CREATE QUEUE main.narrow (k INT NOT NULL) SHARDING KEY (k)", CONTEXT).vschema is None
    dropped = PLANNER.plan(f"DROP QUEUE {Q}", CONTEXT)
    assert dropped.vschema.drops and dropped.vschema.name == NAME
    without = Planner(replace(CATALOG, keyspaces=replace(KEYSPACES, own=None)))
    with pytest.raises(UnsupportedSql, match="backend URL"):
        without.plan("CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k)", CONTEXT)


def test_redrive():
    dead = replace(SPEC, name=QueueName("shop", "wide_dead"), options=replace(SPEC.options, dead_letter_of="wide"))
    source = replace(SPEC, name=QueueName("shop", "wide"))
    planner = Planner(replace(CATALOG, queues={each.name: each for each in (dead, source)}, keyspaces=KEYSPACES))
    plan = planner.plan("REDRIVE wide_dead", CONTEXT)
    assert isinstance(plan, Redrive) and plan.at_shards == dead.name
    with pytest.raises(UnsupportedSql, match="LIMIT"):
        planner.plan("REDRIVE wide_dead LIMIT 5", CONTEXT)

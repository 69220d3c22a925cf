"""Plans of statements on the messages of a queue over several shards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rewriter_catalog import CATALOG

from engine.model.errors import InvalidOption
from engine.model.key_range import unfit_sharding_key
from engine.model.keyspaces import Keyspaces
from engine.model.queue import QueueName, sharding_column
from rewriter.errors import UnsupportedSql
from rewriter.plan import Execute, ExecuteCounting, Passthrough, PlanContext, Redrive
from rewriter.planner import Planner
from rewriter.scan.scanner import StatementClass, StatementScanner

NAME = QueueName("shop", "orders (WHERE (")
KEYSPACES = Keyspaces({"shop": ("-80", "80-"), "main": ("0",)}, "main")
PLAIN = next(queue for queue in CATALOG if queue.options.topic is None and queue.options.group_key is None)
SPEC = replace(
    PLAIN, name=NAME, shards=("-80", "80-"), options=replace(PLAIN.options, sharding_key="user_id", dead_letter_of=None)
)
CATALOG_WITH = replace(CATALOG, queues={**CATALOG.queues, NAME: SPEC}, keyspaces=KEYSPACES)
PLANNER = Planner(CATALOG_WITH)
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
    with pytest.raises(UnsupportedSql, match="subquery"):
        planner.plan("REDRIVE wide_dead WHERE id IN (SELECT 7)", CONTEXT)


@pytest.mark.parametrize(
    "sql",
    [
        f"UPDATE {Q} SET state = 'acked' LIMIT 1",
        f"UPDATE {Q} SET state = 'acked' WHERE body = 'x' ORDER BY id limit 2",
        f"ACK {Q} WHERE id = (SELECT MIN(id) FROM other)",
        f"NACK {Q} WHERE id IN (select id FROM other)",
        f"RETRY {Q} NOW WHERE id IN (SELECT 7)",
    ],
)
def test_what_each_shard_would_decide_by_itself_is_refused(sql):
    with pytest.raises(UnsupportedSql, match="2 shards"):
        PLANNER.plan(sql, CONTEXT)
    plain = sql.replace(Q, PLAIN.name.sql)
    assert isinstance(PLANNER.plan(plain, CONTEXT), Execute), "elsewhere it is one statement"


def test_words_in_texts_and_names_are_none():
    for condition in ("body = 'LIMIT 1'", "`select` = 1", "body = 'it''s a SELECT'"):
        assert PLANNER.plan(f"ACK {Q} WHERE {condition}", CONTEXT).at_shards == NAME


SCANNER = StatementScanner(CATALOG_WITH)
OF_CHOICE = [
    "INSERT INTO {q} (id, user_id) VALUES (5, 1)",
    "INSERT INTO {q} (user_id, `ID`) VALUES (1, '5'), (2, NULL)",
    "INSERT INTO {q} (id, user_id) VALUES (?, ?)",
    "INSERT INTO {q} (id, user_id) VALUES (1 + 1, 1)",
    "INSERT INTO {q} SET user_id = 1, id = 5",
    "REPLACE INTO {q} (id, user_id) VALUES (5, 1)",
    "INSERT INTO {q} (id, user_id) SELECT id, user_id FROM other",
]
NOT_OF_CHOICE = [
    "INSERT INTO {q} (user_id) VALUES (1)",
    "INSERT INTO {q} (id, user_id) VALUES (NULL, 1), (DEFAULT, 2)",
    "INSERT INTO {q} (user_id) SELECT user_id FROM other",
]


def _insert_plan(sql):
    """Its plan, as of a client's statement; None where the scanner passes it on."""
    classified = SCANNER.classify(sql.encode(), "shop")
    return PLANNER.plan(sql, CONTEXT) if classified.kind is StatementClass.PLAN else None


@pytest.mark.parametrize("sql", OF_CHOICE)
def test_an_id_of_choice_is_refused(sql):
    with pytest.raises(UnsupportedSql, match="leave id out"):
        _insert_plan(sql.format(q=Q))
    assert _insert_plan(sql.format(q=PLAIN.name.sql)) is None or "SET" in sql


@pytest.mark.parametrize("sql", NOT_OF_CHOICE)
def test_ids_of_the_sequence_pass(sql):
    plan = _insert_plan(sql.format(q=Q))
    assert plan is None or isinstance(plan, Execute | Passthrough)


def test_dead_letters_of_another_are_refused():
    own = replace(SPEC, name=QueueName("shop", "wide_dead"))
    planner = Planner(replace(CATALOG, queues={own.name: own}, keyspaces=KEYSPACES))
    for ending in ("", " WITH (dead_letter = 'nodead')", " WITH (dead_letter = 'wide_dead')"):
        with pytest.raises(UnsupportedSql, match=r"dead_letter|sequence of its own"):
            planner.plan(f"CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k){ending}", CONTEXT)
    with pytest.raises(UnsupportedSql, match="dead_letter"):
        PLANNER.plan(f"ALTER QUEUE {Q} SET (dead_letter = 'nodead')", CONTEXT)


def test_a_number_with_zeros_before_it_is_no_sharding_key():
    with pytest.raises(InvalidOption, match="ZEROFILL"):
        PLANNER.plan("CREATE QUEUE wide (k INT(8) ZEROFILL NOT NULL) SHARDING KEY (k)", CONTEXT)
    column = next(column for column in SPEC.columns if column.name == "user_id")
    filled = replace(column, flags=column.flags | 0x40 | 0x1)
    assert unfit_sharding_key("user_id", sharding_column(filled)) is not None
    assert unfit_sharding_key("user_id", sharding_column(replace(column, flags=0x1))) is None

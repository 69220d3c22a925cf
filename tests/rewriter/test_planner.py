"""The planner as a whole: its cache, its defaults, and agreement with the scanner."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriter_catalog import CATALOG, ORDERS, group

from engine.model.errors import EngineError
from engine.model.keyspaces import Keyspaces
from engine.model.options import QueueOptions
from engine.model.queue import IndexInfo, QueueCatalog, QueueName
from proxy.show.status_tables import dead_letter_queue
from rewriter.errors import RewriteError, UnknownQueue, UnsupportedSql
from rewriter.plan import Execute, NoOperation, Passthrough, PlanContext, Subscribe
from rewriter.planner import PlanCache, Planner
from rewriter.scan.scanner import StatementClass, StatementScanner

SHOP = PlanContext("shop")


def test_plans_are_remembered(planner: Planner) -> None:
    first = planner.plan("SELECT * FROM STREAM q", SHOP)
    assert planner.plan("SELECT * FROM STREAM q", SHOP) is first
    assert planner.plan("SELECT * FROM STREAM shop.q", SHOP) is not first


def test_plans_depend_on_the_database(planner: Planner) -> None:
    plan = planner.plan("INSERT INTO q2 (payload) VALUES (1)", SHOP)
    other = planner.plan("INSERT INTO q2 (payload) VALUES (1)", PlanContext("other"))
    assert isinstance(plan, Passthrough) and plan.effects.empty
    assert isinstance(other, Passthrough) and other.effects.touched


def test_the_cache_is_bounded() -> None:
    cache = PlanCache(capacity=3)
    for number in range(5):
        cache.put(f"SELECT {number}", SHOP, Passthrough())
        cache.get("SELECT 0", SHOP)
    assert len(cache) == 3
    assert cache.get("SELECT 0", SHOP) is not None
    assert cache.get("SELECT 1", SHOP) is None
    cache.put("x" * 5000, SHOP, Passthrough())
    assert len(cache) == 3


def test_acks_of_ids_do_not_fill_the_cache(planner: Planner) -> None:
    planner.plan("ACK q 1", SHOP)
    planner.plan("DELETE FROM q WHERE id = 1", SHOP)
    assert len(planner._cache) == 0
    planner.plan("ACK q ?", SHOP)
    assert len(planner._cache) == 1


@pytest.mark.parametrize(
    ("sql", "by_key"),
    [
        ("ACK bins X'00ff'", True),
        ("ACK bins ?", True),
        ("ACK bins WHERE id IN ('a', ?)", True),
        ("NACK bins X'00ff', 'b'", True),
        ("UPDATE bins SET state = 'acked' WHERE id = 'a'", True),
        ("ACK bins WHERE user_id = 1", False),
        ("NACK bins WHERE id > 'a'", False),
    ],
)
def test_messages_that_are_named_by_ids_are_found_by_their_key(sql: str, by_key: bool) -> None:
    name = QueueName("shop", "bins")
    queue = CATALOG.get(name)
    assert queue is not None
    keyed = replace(queue, indexes=(IndexInfo(("id",), True, "PRIMARY"),))
    for spec, hint in ((keyed, by_key), (queue, False)):
        plan = Planner(QueueCatalog(1, {name: spec})).plan(sql, SHOP)
        assert isinstance(plan, Execute)
        assert ("FORCE INDEX (PRIMARY)" in plan.sql) is hint


def test_configured_defaults_reach_new_queues() -> None:
    planner = Planner(CATALOG, QueueOptions(batch_size=7))
    plan = planner.plan("CREATE QUEUE n (a INT) WITH (prefetch = 70)", SHOP)
    assert isinstance(plan, Execute)
    assert "vt_batch_size=7,prefetch=70," in plan.sql


def test_an_unknown_queue_is_named_for_the_database_to_look_at(planner: Planner) -> None:
    with pytest.raises(UnknownQueue) as caught:
        planner.plan("SELECT * FROM STREAM account", SHOP)
    assert caught.value.queue == QueueName("shop", "account")
    assert caught.value.perhaps_alias


def test_what_the_tokenizer_cannot_read_is_ordinary_if_it_may_be(planner: Planner) -> None:
    assert planner.plan("SELECT 1 FROM stream s WHERE a = 'open", SHOP) == Passthrough()
    with pytest.raises(RewriteError):
        planner.plan("ACK q 'open", SHOP)


def test_deep_parentheses(planner: Planner) -> None:
    deep = "(" * 5000 + "1" + ")" * 5000
    plan = planner.plan(f"ACK q WHERE {deep}", SHOP)
    assert isinstance(plan, Execute)
    assert deep in plan.sql


def test_many_ids(planner: Planner) -> None:
    plan = planner.plan(f"ACK q {', '.join(map(str, range(5000)))}", SHOP)
    assert isinstance(plan, Execute)
    assert plan.effects.settled[0][1] == tuple(range(5000))


def test_every_id_column_is_found_without_case(planner: Planner) -> None:
    plan = planner.plan("SELECT ID, EPOCH FROM STREAM q", SHOP)
    assert isinstance(plan, Subscribe)
    assert plan.request.columns == ("ID", "EPOCH")


VOCABULARY = (
    "ACK NACK SELECT STREAM FROM * q shop . orders , ( ) WHERE id = 1 'a' ? ; LIMIT WAIT NOWAIT WITH ack_wait CREATE "
    "QUEUE IF NOT EXISTS BIGINT UPDATE SET state 'acked' time_acked DELETE INSERT INTO DROP SHOW QUEUES LIKE KILL USE "
    "TRUNCATE /* */ -- `q` \" ' \\ COMMENT PRIMARY KEY AS JOIN ORDER BY UNION EXPLAIN CALL queue_ack"
)
WORDS = st.sampled_from(VOCABULARY.split())


@given(st.lists(WORDS, max_size=12))
def test_any_statement_is_planned_or_refused(words: list[str]) -> None:
    """No other exception, and the planner never makes a queue statement of what the scanner lets pass."""
    sql = " ".join(words)
    classification = StatementScanner(CATALOG).classify(sql.encode(), "shop")
    try:
        plan = Planner(CATALOG).plan(sql, SHOP)
    except (RewriteError, EngineError) as error:
        assert error.errno and len(error.sqlstate) == 5 and error.message
        assert classification.kind in (StatementClass.PLAN, StatementClass.USE)
        return
    if classification.kind in (StatementClass.NONE, StatementClass.TOUCHES):
        assert isinstance(plan, Passthrough)


@given(st.text(max_size=60))
def test_any_text_is_planned_or_refused(text: str) -> None:
    for prefix in (
        "",
        "ACK q ",
        "SELECT * FROM STREAM q ",
        "CREATE QUEUE n (",
        "UPDATE q SET state = ",
        "SHOW QUEUES ",
    ):
        try:
            Planner(CATALOG).plan(prefix + text, SHOP)
        except (RewriteError, EngineError) as error:
            assert error.message


def test_a_setting_in_an_executable_comment_is_the_servers(planner: Planner) -> None:
    for sql in (
        "/*!40101 set @@character_set_database=binary */;",
        "/*M!100100 SET NAMES utf8 */",
        "/*!50001 USE `a` */",
    ):
        assert isinstance(planner.plan(sql, SHOP), Passthrough)


@pytest.mark.parametrize(
    "statement", ["CREATE QUEUE new (a INT) WITH (archive = 1)", "ALTER QUEUE q SET (archive = 1)"]
)
def test_nothing_is_archived_where_tablets_purge(statement: str) -> None:
    on_vitess = Planner(replace(CATALOG, keyspaces=Keyspaces({"shop": ("0",)})))
    with pytest.raises(UnsupportedSql, match="the tablets of Vitess purge tables of messages"):
        on_vitess.plan(statement, SHOP)
    for allowed in (statement.replace("1)", "0)"), statement.replace("archive = 1", "purge_after = '1d'")):
        assert isinstance(on_vitess.plan(allowed, SHOP), Execute)
    assert isinstance(Planner(CATALOG).plan(statement, SHOP), Execute)


def test_a_groups_queue_is_nobodys_dead_letter_queue() -> None:
    """Of two groups that an earlier version has made beside each other."""
    both = (group(ORDERS, "x"), group(ORDERS, "x_dead"))
    catalog = replace(CATALOG, queues={**CATALOG.queues, **{each.name: each for each in both}})
    planner = Planner(catalog)
    assert isinstance(planner.plan("REDRIVE orders GROUP x", SHOP), NoOperation)
    with pytest.raises(UnsupportedSql, match="it is the queue of a consumer group"):
        planner.plan("REDRIVE orders_group_x_dead", SHOP)
    assert dead_letter_queue(both[0], catalog) is None

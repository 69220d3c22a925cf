"""What CREATE QUEUE writes is legal on a real server, works as a queue, and comes back from SHOW CREATE QUEUE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pymysql
import pytest
from golden_format import Case, read_cases
from rewriter_catalog import CATALOG, spec
from test_golden import GOLDEN

from engine.model.errors import EngineError
from engine.model.options import from_comment
from engine.model.queue import QueueCatalog, QueueName
from rewriter.errors import RewriteError
from rewriter.plan import Execute, PlanContext
from rewriter.planner import Planner
from rewriter.plans.queue_table import show_create_queue

DATABASE = "rewriter"


def created(case: Case, planner: Planner) -> str | None:
    """The table that the case makes, in the test's database; None if it is refused."""
    try:
        plan = planner.plan(case.sql.replace("other.", ""), PlanContext(DATABASE, sql_modes=case.modes))
    except (RewriteError, EngineError):
        return None
    return plan.sql if isinstance(plan, Execute) else None


PLANNER = Planner(QueueCatalog())
CASES = [case for case in read_cases(GOLDEN / "create_queue.sql") if created(case, PLANNER)]


@pytest.fixture(scope="module")
def connection(mariadb: Any) -> Iterator[pymysql.Connection[Any]]:
    mariadb.fresh_database(DATABASE)
    with mariadb.connect(database=DATABASE) as connection:
        run(connection, "CREATE TABLE account (id BIGINT PRIMARY KEY)")
        yield connection


def run(connection: pymysql.Connection[Any], sql: str) -> tuple[tuple[Any, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(cursor.fetchall())


def show_create_table(connection: pymysql.Connection[Any], table: str) -> str:
    return str(run(connection, f"SHOW CREATE TABLE `{table}`")[0][1])


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_created_and_shown(connection: pymysql.Connection[Any], case: Case) -> None:
    sql = created(case, PLANNER)
    assert sql is not None
    table = re.match(r"CREATE TABLE (?:IF NOT EXISTS )?`rewriter`\.`([^`]+)`", sql)[1]  # type: ignore[index]
    run(connection, f"DROP TABLE IF EXISTS `{table}`")
    run(connection, f"SET sql_mode = '{','.join(['STRICT_TRANS_TABLES', *case.modes])}'")
    run(connection, sql)
    run(connection, "SET sql_mode = 'STRICT_TRANS_TABLES'")
    before = show_create_table(connection, table)
    comment = re.search(r"COMMENT='(vitess_message[^']*)'$", before)
    assert comment
    queue = replace(spec(DATABASE, table), options=from_comment(comment[1], table))
    shown = show_create_queue(before, queue)
    run(connection, f"DROP TABLE `{table}`")
    again = Planner(CATALOG).plan(shown, PlanContext(DATABASE))
    assert isinstance(again, Execute)
    run(connection, again.sql)
    assert columns_and_keys(show_create_table(connection, table)) == columns_and_keys(before)
    run(connection, f"DROP TABLE `{table}`")


def columns_and_keys(sql: str) -> list[str]:
    """Lines of SHOW CREATE TABLE, in any order: a column that the user spells as we do moves to the front."""
    return sorted(line.rstrip(",") for line in sql.split("\n")[1:])


def test_a_message_from_birth_to_ack(connection: pymysql.Connection[Any]) -> None:
    sql = PLANNER.plan("CREATE QUEUE life (payload VARCHAR(20))", PlanContext(DATABASE))
    assert isinstance(sql, Execute)
    run(connection, sql.sql)
    life = Planner(QueueCatalog(1, {QueueName(DATABASE, "life"): spec(DATABASE, "life")}))
    run(connection, "INSERT INTO life (payload) VALUES ('now')")
    run(connection, "INSERT INTO life (payload, time_scheduled) VALUES ('later', 4000000000000000000)")
    rows = run(connection, "SELECT id, state, time_next = time_scheduled, priority, epoch, time_acked FROM life")
    assert rows == ((1, "to_be_fired", 1, 50, 0, None), (2, "to_be_fired", 1, 50, 0, None))
    assert run(connection, "SELECT COUNT(*) FROM life WHERE time_next <= UNIX_TIMESTAMP() * 1000000000 + 1000000000")
    for text, affected in (
        ("ACK life 1, 7", 1),
        ("ACK life 1", 0),
        ("ACK life WHERE payload = 'later' AND (id > 0 OR id < 0) -- and no more", 1),
        ("UPDATE life SET state = 'acked'", 0),
    ):
        plan = life.plan(text, PlanContext(DATABASE))
        assert isinstance(plan, Execute)
        with connection.cursor() as cursor:
            assert cursor.execute(plan.sql) == affected, text
    assert run(connection, "SELECT DISTINCT state, time_next FROM life") == (("acked", None),)
    acked = run(connection, "SELECT ABS(MAX(time_acked) / 1000000000 - UNIX_TIMESTAMP()) < 60 FROM life")
    assert acked == ((1,),)
    run(connection, "DROP TABLE life")

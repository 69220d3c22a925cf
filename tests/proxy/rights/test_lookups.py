"""SELECTs of one table: what is read as one, and above all what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_topics import make_topic
from over import over

from engine.model.queue import QueueCatalog, QueueName
from engine.model.topic_options import TopicOptions
from proxy.rights.kinds import Act, QueueStatement
from proxy.rights.lookups import read_lookup
from rewriter.plan import Execute, PlanContext
from rewriter.planner import Planner
from rewriter.text.tokens import Name

T = Name(None, "t")
_TIME = "CAST(UNIX_TIMESTAMP('2026-05-01 12:00') * 1000000000 AS SIGNED)"
_REPLAY = (
    f"SELECT `id`, `n` FROM `d`.`t` WHERE time_scheduled <= {PlanContext().now_sql} AND time_created >= {_TIME} AND"
    f" id >= (SELECT MIN(id) FROM (SELECT id FROM `d`.`t` WHERE time_created >= {_TIME} ORDER BY time_created LIMIT"
    " 1000) AS qg_since) - 100000 AND (n = 5) ORDER BY id LIMIT 3"
)

LOOKUPS = {
    "SELECT * FROM t": set(),
    "select id, n from t where N = 7 and body like 'a%' order by id desc limit 10, 5;": {"id", "n", "body"},
    "SELECT COUNT(*), MIN(id), max(time_created) FROM t WHERE t.n IN (1, ?)": {"id", "time_created", "n"},
    "SELECT n FROM t ORDER BY n LIMIT 10 OFFSET 20": {"n"},
    "SELECT `select` FROM t WHERE time_created > UNIX_TIMESTAMP(NOW()) * 1000": {"select", "time_created"},
}


@pytest.mark.parametrize("sql", LOOKUPS)
def test_lookups(sql: str) -> None:
    assert read_lookup(sql.encode()) == QueueStatement(Act.READ, T, frozenset(LOOKUPS[sql]))


def test_a_replay_from_a_time() -> None:
    columns = frozenset(("id", "n", "time_scheduled", "time_created"))
    assert read_lookup(_REPLAY.encode()) == QueueStatement(Act.READ, Name("d", "t"), columns)


def test_a_replay_from_a_time_by_numbers() -> None:
    """The text is the one of rewriter.plans.topics."""
    topic = replace(make_topic(QueueName("d", "t")), options=TopicOptions(sequence=True))
    sql = "SELECT * FROM STREAM t SINCE TIMESTAMP '2026-05-01 12:00' UNTIL OFFSET 9"
    plan = Planner(QueueCatalog(1, topics={topic.name: topic})).plan(sql, PlanContext("d"))
    assert isinstance(plan, Execute) and plan.numbers == topic.name
    columns = frozenset(("id", "payload", "queuegate_seq", "time_scheduled", "time_created"))
    assert read_lookup(plan.sql.encode()) == QueueStatement(Act.READ, Name("d", "t"), columns)


NOT_READ = [
    "SELECT 1",
    "SELECT 1 FROM t",
    "SELECT n, 1 FROM t",
    "SELECT n AS m FROM t",
    "SELECT DISTINCT n FROM t",
    "SELECT SLEEP(1) FROM t",
    "SELECT COUNT(DISTINCT n) FROM t",
    "SELECT CURRENT_USER FROM t",
    "SELECT n + 1 FROM t",
    "SELECT @@datadir FROM t",
    "SELECT * FROM t, u",
    "SELECT * FROM t u",
    "SELECT * FROM t AS u",
    "SELECT * FROM t JOIN u",
    "SELECT * FROM t PARTITION (p)",
    "SELECT * FROM (SELECT * FROM u) AS t",
    "SELECT * FROM t WHERE",
    "SELECT * FROM t WHERE SLEEP(1)",
    "SELECT * FROM t WHERE f(n)",
    "SELECT * FROM t WHERE u.n = 1",
    "SELECT * FROM t WHERE n = @a",
    "SELECT * FROM t WHERE n = CURRENT_USER",
    "SELECT * FROM t WHERE n IN (SELECT n FROM u)",
    "SELECT * FROM t WHERE EXISTS (SELECT MIN(id) FROM t)",
    "SELECT * FROM t GROUP BY n",
    "SELECT * FROM t FOR UPDATE",
    "SELECT * FROM t LOCK IN SHARE MODE",
    "SELECT * FROM t INTO OUTFILE '/tmp/x'",
    "SELECT * FROM t LIMIT 1 INTO @a",
    "SELECT * FROM t LIMIT 1 OFFSET (SELECT 1)",
    "SELECT * FROM t ORDER BY (SELECT 1)",
    "SELECT * FROM t UNION SELECT * FROM u",
    "SELECT * FROM t; SELECT 1",
    "SELECT * FROM t /*! , u */",
    "SELECT /*+ SET_VAR(sql_mode = 'ANSI_QUOTES') */ * FROM t",
    "WITH t AS (SELECT * FROM u) SELECT * FROM t",
    "TABLE t",
    "INSERT INTO t VALUES (1)",
    _REPLAY.replace("FROM (SELECT id FROM `d`.`t`", "FROM (SELECT id FROM `d`.`u`"),
    _REPLAY.replace("SELECT MIN(id)", "SELECT MIN(n)"),
    _REPLAY.replace("SELECT MIN(id)", "SELECT SLEEP(id)"),
    _REPLAY.replace("ORDER BY time_created", "ORDER BY n"),
    _REPLAY.replace("AS qg_since", "AS qg_since, u"),
    _REPLAY.replace("`d`.`t` WHERE time_created", "`d`.`t` WHERE n = 1 AND time_created"),
    _REPLAY.replace(" ORDER BY time_created", ") n, id ORDER BY time_created"),
]  # fmt: skip


@over(NOT_READ)
def test_everything_else_is_not_read(sql: str) -> None:
    assert read_lookup(sql.encode()) is None


_PIECES = st.sampled_from(
    ["SELECT", "*", "n", "COUNT(*)", "MIN(", "(", ")", ",", "FROM", "t", "u", "WHERE", "=", "1", "'a'", "AND", "IN",
     "ORDER", "BY", "LIMIT", "UNION", "JOIN", "AS", "SIGNED", "CAST(", "SLEEP(", ";", "/*!", "*/", "@a", ".", "`", "'"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=14), st.sampled_from(["", " "]))
def test_whatever_is_read_is_of_one_table(pieces: list[str], gap: str) -> None:
    found = read_lookup(gap.join(["SELECT ", *pieces]).encode())
    if found is not None:
        bare = gap.join(pieces).replace("'a'", "")
        assert found.act is Act.READ
        assert bare.count("FROM") == 1 and "UNION" not in bare and "SLEEP" not in bare and "/*!" not in bare
        after = bare.partition("FROM")[2].split("WHERE")[0].split("ORDER")[0].split("LIMIT")[0]
        assert "," not in after and "JOIN" not in after

"""A stream inside another statement, or behind a condition that looks at no message: refused, and nothing handed out.

Spark JDBC and BI tools take whatever is named to them for a table: they probe it with WHERE 1=0, wrap it in a subquery,
read it again. Of a stream, each of these would take messages.
"""

from __future__ import annotations

import pytest

PROBES = (
    "SELECT * FROM (SELECT * FROM STREAM {q}) SPARK_GEN_SUBQ_0 WHERE 1=0",
    "SELECT * FROM (SELECT * FROM STREAM {q}) SPARK_GEN_SUBQ_0",
    "SELECT `id`,`payload` FROM (SELECT * FROM STREAM {q} LIMIT 10 NOWAIT) t  WHERE (`id` < 5)",
    "SELECT 1 FROM (SELECT * FROM STREAM {q} NOWAIT) t",
    "SELECT * FROM STREAM {q} WHERE 1=0",
    "SELECT 1 FROM STREAM {q} WHERE 1=0 NOWAIT",
    "SELECT * FROM STREAM {db}.{q} WHERE 0 = 1 NOWAIT",
    "SELECT * FROM STREAM {q} WHERE (1 = 2) NOWAIT",
    "SELECT * FROM STREAM {q} WHERE FALSE NOWAIT",
    "SELECT * FROM STREAM {q} WHERE NULL NOWAIT",
    "SELECT * FROM STREAM {q} WHERE 'a' = 'b' NOWAIT",
    "STREAM * FROM {q} WHERE 1=0",
    "(SELECT * FROM STREAM {q} NOWAIT)",
    "WITH t AS (SELECT * FROM STREAM {q} NOWAIT) SELECT * FROM t",
    "SELECT EXISTS (SELECT 1 FROM STREAM {q} NOWAIT)",
)


@pytest.fixture
def filled(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    return q


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_is_refused_with_what_to_use_instead_and_takes_no_message(sql, gate, filled, probe):
    errno, text = sql.error(probe.format(q=filled, db=gate.database))
    assert errno == 1235
    if "SELECT 1 FROM STREAM" not in probe or probe.startswith("SELECT EXISTS"):
        assert "subquery" in text and "JDBC table" in text
        assert "'queuegate'" in text and "docs/spark.md" in text
    assert sql.rows(f"SELECT state, epoch FROM {filled}") == [("to_be_fired", 0)] * 2


def test_explain_of_a_stream_names_what_explains_it_and_takes_no_message(sql, filled):
    errno, text = sql.error(f"EXPLAIN SELECT * FROM STREAM {filled}")
    assert errno == 1235 and "EXPLAIN DELIVERY FOR" in text
    assert sql.rows(f"SELECT state, epoch FROM {filled}") == [("to_be_fired", 0)] * 2


@pytest.mark.parametrize("probe", [PROBES[0], PROBES[4]])
def test_prepared_it_is_refused_as_well(gate, sql, filled, probe):
    from mysql.connector import connect, errors

    with connect(host="127.0.0.1", port=gate.port, user="root", database=gate.database, use_pure=True) as client:
        with pytest.raises(errors.Error) as caught:
            client.cursor(prepared=True).execute(probe.format(q=filled))
        assert caught.value.errno == 1235 and "docs/spark.md" in str(caught.value)
    assert sql.column(f"SELECT epoch FROM {filled}") == [0, 0]


@pytest.mark.parametrize("condition", ["1 = 1", "TRUE", "(1 = 1)", "1"])
def test_what_is_plainly_true_is_no_probe(sql, filled, condition):
    assert len(sql.rows(f"SELECT id FROM STREAM {filled} WHERE {condition} NOWAIT")) == 2


def test_values_alone_are_a_probe_too(gate, sql, filled):
    from mysql.connector import connect, errors

    with connect(host="127.0.0.1", port=gate.port, user="root", database=gate.database, use_pure=True) as client:
        with pytest.raises(errors.Error) as caught:
            client.cursor(prepared=True).execute(f"SELECT * FROM STREAM {filled} WHERE ? = ? NOWAIT", (1, 1))
        assert caught.value.errno == 1235


def test_a_limit_of_nothing_tells_the_columns_and_takes_nothing(sql, filled):
    with sql.connection.cursor() as cursor:
        assert cursor.execute(f"SELECT * FROM STREAM {filled} LIMIT 0") == 0
        assert [column[0] for column in cursor.description] == ["id", "payload"]
    assert sql.column(f"SELECT epoch FROM {filled}") == [0, 0]


def test_a_table_called_stream_may_be_probed(sql, name):
    sql("CREATE TABLE IF NOT EXISTS stream (a INT)")
    try:
        assert sql.rows("SELECT * FROM (SELECT * FROM stream s) t WHERE 1=0") == []
        assert sql.rows("SELECT * FROM stream s WHERE 1=0") == []
    finally:
        sql("DROP TABLE stream")


def test_a_time_limit_before_the_statement_is_no_way_around(sql, gate, filled):
    """MariaDB Connector/J puts it there for a query timeout; the embedded backend has no such statement."""
    errno, text = sql.error(f"SET STATEMENT max_statement_time = 5 FOR SELECT * FROM STREAM {filled} WHERE 1=0")
    assert errno == 1235 and ("JDBC table" in text or gate.embedded)
    errno, _ = sql.error(f"SET STATEMENT max_statement_time = 5 FOR TRUNCATE TABLE {filled}")
    assert errno == 1347
    for statement in (
        "ACK {} 1",
        "NACK {} 1 DELAY 5",
        "RELEASE {} 1",
        "RENEW {} 1 FOR 5",
        "REJECT {} 1",
        "RETRY {} NOW",
    ):
        errno, _ = sql.error(f"SET STATEMENT max_statement_time = 5 FOR {statement.format(filled)}")
        assert errno == 1235 or gate.embedded, statement
    for statement in (
        "SELECT * FROM STREAM {}",
        "CALL queue_ack('{}', 1)",
        "SELECT queue_nack('{}', 1, 5)",
        "DROP QUEUE {}",
        "ALTER QUEUE {} SET (ack_wait = '5s')",
        "CREATE QUEUE {}_2 (payload TEXT)",
    ):
        errno, text = sql.error(f"SET STATEMENT max_statement_time = 5 FOR {statement.format(filled)}")
        assert gate.embedded or (errno == 1235 and "SET STATEMENT ... FOR" in text), statement
    assert sql.column(f"SELECT epoch FROM {filled}") == [0, 0]


def test_what_shows_queues_is_answered_with_a_time_limit(sql, gate, filled, on_mysql, connect):
    if gate.embedded or on_mysql:
        pytest.skip("MariaDB's own statement")
    limit = "SET STATEMENT max_statement_time = 5 FOR"
    assert filled in sql.column(f"{limit} SHOW QUEUES")
    assert filled in sql.column(f"{limit} SELECT `queue` FROM queuegate.queues")
    assert sql.rows(f"{limit} SHOW CREATE QUEUE {filled}") == sql.rows(f"SHOW CREATE QUEUE {filled}")
    assert sql.rows(f"{limit} EXPLAIN DELIVERY FOR {filled}")
    assert len(sql.rows(f"{limit} SELECT * FROM {filled}")) == 2
    other = connect()
    sql(f"{limit} KILL {other.connection.thread_id()}")
    assert other.error("SELECT 1")[0] in (2006, 2013)


def test_what_is_enqueued_with_a_time_limit_is_offered_at_once(sql, stream, gate, queue, on_mysql):
    if gate.embedded or on_mysql:
        pytest.skip("MariaDB's own statement")
    q = queue(poll_interval="3600")
    receiver = stream(f"SELECT id, payload FROM STREAM {q}")
    sql(f"SET STATEMENT max_statement_time = 5 FOR INSERT INTO {q} (payload) VALUES ('in time')")
    assert receiver.wait(1) == [(1, "in time")]


@pytest.mark.parametrize(
    "following",
    [
        "WHERE id = 3 LIMIT 1 WAIT 1",
        "WHERE id = 3 NOWAIT",
        "LIMIT 1 WAIT 1",
        "WHERE id IN (1, 2) WITH (prefetch = 2)",
        "",
    ],
)
def test_a_stream_of_no_queue_says_so_whatever_follows(sql, following):
    errno, text = sql.error(f"SELECT id FROM STREAM typo {following}")
    assert errno == 1146 and "typo" in text and "'STREAM'" not in text

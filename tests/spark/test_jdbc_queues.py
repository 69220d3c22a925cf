"""Queues and Spark JDBC: an append enqueues, an overwrite is refused unless allowed, a stream is no table."""

from __future__ import annotations

import pytest
from jdbc_sources import Jdbc, cause

ALLOWED = "sessionVariables=@queuegate_allow_drop_table=1"
LATE = "3600"  # seconds between safety scans: what is delivered was not found by one


@pytest.fixture
def emails(queue):
    return queue("recipient VARCHAR(200), body TEXT", poll_interval=LATE)


@pytest.fixture
def three(jdbc, emails):
    jdbc.sql(f"INSERT INTO {emails} (recipient, body) VALUES ('a', '1'), ('b', '2'), ('c', '3')")
    return emails


def messages(jdbc: Jdbc, count: int, partitions: int = 2):
    frame = jdbc.spark.range(0, count, 1, partitions)
    return frame.selectExpr("concat('user', id, '@example.com') AS recipient", "concat('it''s ', id) AS body")


def expected(count: int):
    return {(f"user{i}@example.com", f"it's {i}") for i in range(count)}


@pytest.mark.parametrize(
    "parameters",
    [(), ("rewriteBatchedStatements=true",), ("useServerPrepStmts=true",), ("useBulkStmts=true",)],
    ids=["one_by_one", "rewritten", "prepared", "bulk"],
)
def test_append_enqueues_and_waiting_receivers_are_told_at_once(jdbc, emails, stream, parameters):
    receiver = stream(f"SELECT recipient, body FROM STREAM {emails} WITH (prefetch = 100000)")
    jdbc.append(messages(jdbc, 300), emails, *parameters, batchsize=100)
    assert set(receiver.wait(300)) == expected(300)
    assert len(receiver.rows) == 300


def test_with_a_query_timeout_too(jdbc, emails, stream):
    """MariaDB Connector/J puts SET STATEMENT max_statement_time=60 FOR before each statement."""
    receiver = stream(f"SELECT recipient, body FROM STREAM {emails}")
    jdbc.append(messages(jdbc, 10), emails, queryTimeout=60)
    assert set(receiver.wait(10)) == expected(10)


def test_columns_of_the_queue_may_be_written_as_well(jdbc, emails, stream):
    receiver = stream(f"SELECT recipient, priority FROM STREAM {emails}")
    later, now = jdbc.spark.range(1), jdbc.spark.range(1)
    jdbc.append(later.selectExpr("'later' AS recipient", f"{2 * 10**18} AS time_scheduled"), emails)
    jdbc.append(now.selectExpr("'now' AS recipient", "cast(3 AS tinyint) AS priority"), emails)
    assert receiver.wait(1) == [("now", 3)]
    assert jdbc.sql.value(f"SELECT state FROM {emails} WHERE recipient = 'later'") == "to_be_fired"


def test_nothing_of_a_partition_that_fails_is_delivered(jdbc, queue, stream):
    """Each partition is a transaction of its own: run again, the job sends the others twice. The third begins when one
    of the first two has ended; what of these still runs when it fails is cut off."""
    q = queue("n BIGINT, UNIQUE (n)", poll_interval=LATE)
    jdbc.sql(f"INSERT INTO {q} (n) VALUES (299)")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    assert "Duplicate entry '299'" in cause(lambda: jdbc.append(jdbc.spark.range(0, 300, 1, 3).toDF("n"), q))
    kept = jdbc.sql.column(f"SELECT n FROM {q}")
    assert len(kept) in (101, 201) and not set(kept) & set(range(200, 299))
    assert sorted(n for (n,) in receiver.wait(len(kept))) == sorted(kept)


def test_the_catalogs_insert_names_every_column(jdbc, gate, emails, stream):
    receiver = stream(f"SELECT recipient, body, priority FROM STREAM {emails}")
    table = f"{jdbc.catalog()}.{gate.database}.{emails}"
    jdbc.spark.sql(f"INSERT INTO {table} (recipient, body) VALUES ('ann', 'Hello'), ('bob', NULL)")
    assert set(receiver.wait(2)) == {("ann", "Hello", 50), ("bob", None, 50)}
    jdbc.spark.sql(f"INSERT INTO {table} (recipient, time_scheduled) VALUES ('carl', {2 * 10**18})")
    assert jdbc.sql.value(f"SELECT time_next FROM {emails} WHERE recipient = 'carl'") == 2 * 10**18


@pytest.mark.parametrize("truncate", ["false", "true"])
def test_overwrite_is_refused_and_the_messages_are_kept(jdbc, three, truncate):
    said = cause(lambda: jdbc.overwrite(messages(jdbc, 2), three, truncate=truncate))
    assert f"DROP QUEUE {three} or TRUNCATE QUEUE {three}" in said
    assert "SET @queuegate_allow_drop_table = 1" in said
    assert jdbc.sql.column(f"SELECT body FROM {three} ORDER BY id") == ["1", "2", "3"]


def test_overwrite_with_a_query_timeout_is_refused_too(jdbc, three):
    assert "DROP QUEUE" in cause(lambda: jdbc.overwrite(messages(jdbc, 2), three, queryTimeout=60))
    assert jdbc.sql.value(f"SELECT COUNT(*) FROM {three}") == 3


def test_overwrite_with_truncate_may_be_allowed_in_the_url(jdbc, three, stream):
    jdbc.overwrite(messages(jdbc, 2), three, ALLOWED, truncate="true")
    receiver = stream(f"SELECT recipient, body FROM STREAM {three}")
    assert set(receiver.wait(2)) == expected(2)
    assert jdbc.sql.value(f"SELECT COUNT(*) FROM {three}") == 2


def test_overwrite_without_truncate_leaves_an_ordinary_table(jdbc, three):
    """Spark drops the table and makes one of its own: even if that is allowed, it is no queue afterwards."""
    jdbc.overwrite(messages(jdbc, 2), three, ALLOWED)
    assert jdbc.sql.error(f"SELECT * FROM STREAM {three} NOWAIT")[0] == 1347
    jdbc.sql(f"DROP TABLE {three}")


def test_the_catalogs_drop_leaves_the_queue(jdbc, gate, three):
    table = f"{jdbc.catalog()}.{gate.database}.{three}"
    with pytest.raises(Exception, match=r"FAILED_JDBC\.DROP_TABLE"):  # what the database said is among its causes
        jdbc.spark.sql(f"DROP TABLE {table}")
    assert jdbc.sql.value(f"SELECT COUNT(*) FROM {three}") == 3


STREAMS = {
    "table": {"dbtable": "STREAM {q}"},
    "query": {"query": "SELECT * FROM STREAM {q}"},
    "bounded_query": {"query": "SELECT * FROM STREAM {q} LIMIT 10 NOWAIT"},
    "table_of_a_query": {"dbtable": "(SELECT id, body FROM STREAM {q} LIMIT 10 NOWAIT) t"},
    "with_a_timeout": {"dbtable": "STREAM {q}", "queryTimeout": "60"},
}


@pytest.mark.parametrize(
    ("way", "parameters"),
    [*((way, ()) for way in STREAMS), ("table", ("useServerPrepStmts=true",)), ("query", ("useServerPrepStmts=true",))],
    ids=[*STREAMS, "prepared_table", "prepared_query"],
)
def test_a_stream_is_refused_and_the_connector_is_named(jdbc, three, way, parameters):
    options = {key: text.format(q=three) for key, text in STREAMS[way].items()}
    said = cause(lambda: jdbc.read(*parameters, **options))
    assert "a subquery or as a JDBC table" in said and "'queuegate' (docs/spark.md)" in said
    assert jdbc.sql.column(f"SELECT epoch FROM {three}") == [0, 0, 0]

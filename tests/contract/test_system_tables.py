"""queuegate.queues, .subscriptions and .in_flight as tables, in whatever SELECT the backend can do."""

from __future__ import annotations

from decimal import Decimal

import pytest
from servers import Sql, wait_until

TABLES = [
    "consumers",
    "group_in_flight",
    "groups",
    "in_flight",
    "log",
    "queues",
    "schedules",
    "settings",
    "subscriptions",
    "topics",
    "traces",
]


def test_queues_with_any_condition_and_order(sql, queue):
    one, two = sorted((queue(), queue()))
    sql(f"INSERT INTO {two} (payload) VALUES ('a'), ('b')")
    ours = f"queue IN ('{one}', '{two}')"
    wait_until(
        lambda: (
            sql.rows(f"SELECT queue, ready FROM queuegate.queues WHERE {ours} ORDER BY ready DESC")
            == [(two, 2), (one, 0)]
        ),
        what="the counts",
    )
    assert sql.column(f"SELECT queue FROM queuegate.queues WHERE {ours} AND ready > 0") == [two]
    assert sql.row(f"SELECT COUNT(*), SUM(ready), MAX(queue) FROM queuegate.queues WHERE {ours}") == (2, 2, two)
    assert sql.rows(f"SELECT ready, COUNT(*) FROM queuegate.queues q WHERE {ours} GROUP BY ready ORDER BY ready") == [
        (0, 1),
        (2, 1),
    ]
    assert sql.value(f"SELECT queuegate.queues.ready FROM queuegate.queues WHERE queue = '{two}'") == 2


def test_values_and_types(sql, queue):
    q = queue()
    row = sql.row(
        f"SELECT queue, db, paused, ready, oldest_ready_age, problem FROM queuegate.queues WHERE queue = '{q}'"
    )
    assert row == (q, sql.value("SELECT DATABASE()"), 0, 0, None, None)
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    age = wait_until(
        lambda: sql.value(f"SELECT oldest_ready_age FROM queuegate.queues WHERE queue = '{q}'"), what="an age"
    )
    assert isinstance(age, Decimal | float) and 0 <= age < 60


@pytest.mark.parametrize("names", ["utf8mb4 COLLATE utf8mb4_unicode_ci", "utf8mb4 COLLATE utf8mb4_bin"])
def test_values_with_quotes_whatever_the_collation_of_the_client(gate, queue, stream, name, names):
    check_values_with_quotes(gate, queue(), stream, name, names)


def test_values_with_quotes_in_another_character_set(gate, queue, stream, name):
    check_values_with_quotes(gate, queue(), stream, name, "latin1")


def check_values_with_quotes(gate, q, stream, name, names):
    stream(f"SELECT * FROM STREAM {q} WITH (consumer = 'it''s an old \u30c4')")
    charset, *_ = names.split()
    link = Sql(gate.connect(charset=charset))
    link(f"SET NAMES {names}")
    consumer = link.value(f"SELECT consumer FROM queuegate.subscriptions WHERE queue = '{q}'")
    assert consumer in ("it's an old \u30c4", "it's an old ?")
    link(f"CREATE TABLE {name} (label VARCHAR(64) CHARACTER SET utf8mb4)")
    link(f"INSERT INTO {name} VALUES ('{q}')")
    assert (
        link.value(f"SELECT ready FROM queuegate.queues s JOIN {name} t ON s.queue = t.label COLLATE utf8mb4_bin") == 0
    )
    link(f"DROP TABLE {name}")


def test_joins_with_other_tables_and_with_each_other(sql, queue, stream, name):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"CREATE TABLE {name} (label VARCHAR(64), owner VARCHAR(20))")
    try:
        sql(f"INSERT INTO {name} VALUES ('{q}', 'team a'), ('{q}_of_nobody', 'team b')")
        sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
        receiver = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 2)")
        ids = [row[0] for row in receiver.wait(2)]
        found = sql.rows(f"SELECT t.owner, q.subscribers FROM {name} t JOIN queuegate.queues q ON q.queue = t.label")
        assert found == [("team a", 1)]
        rows = sql.rows(
            "SELECT s.connection_id, s.unacked, f.id, f.epoch FROM queuegate.subscriptions s"
            f" JOIN queuegate.in_flight AS f ON f.connection_id = s.connection_id WHERE s.queue = '{q}' ORDER BY f.id"
        )
        assert rows == [(receiver.id, 2, str(id_), 1) for id_ in sorted(ids)]
        left = sql.column(f"SELECT seconds_left FROM queuegate.in_flight WHERE queue = '{q}'")
        assert all(3500 < value < 10_000 for value in left)
    finally:
        sql(f"DROP TABLE {name}")


def test_a_held_message_whose_result_has_ended_is_held_by_its_receiver(sql, queue):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 5")) == 1
    assert sql.rows(f"SELECT epoch, connection_id FROM queuegate.in_flight WHERE queue = '{q}'") == [
        (1, sql.connection.thread_id())
    ]


def test_empty_tables_have_their_columns(sql):
    with sql.connection.cursor() as cursor:
        cursor.execute("SELECT * FROM queuegate.subscriptions WHERE queue = 'no such queue'")
        assert cursor.fetchall() == ()
        assert [column[0] for column in cursor.description][:3] == ["queue", "db", "connection_id"]


def test_common_tables_subqueries_and_unions(sql, queue):
    q = queue()
    assert sql.rows(f"WITH x AS (SELECT queue FROM queuegate.queues) SELECT * FROM x WHERE queue = '{q}'") == [(q,)]
    inner = "SELECT queue FROM queuegate.queues"
    assert sql.value(f"SELECT COUNT(*) FROM ({inner}) a WHERE a.queue IN ({inner}) AND a.queue = '{q}'") == 1
    union = f"SELECT queue FROM queuegate.queues WHERE queue = '{q}' UNION ALL SELECT 'x' AS queue"
    assert sorted(sql.column(union)) == sorted([q, "x"])


def test_they_are_described_and_listed(sql):
    described = {row[0]: row[1] for row in sql.rows("DESCRIBE queuegate.queues")}
    assert (described["queue"], described["ready"]) == ("varchar(64)", "bigint(20)")
    assert described["oldest_ready_age"] == "decimal(20,3)"
    assert sql.rows("SHOW COLUMNS FROM queuegate.queues") == sql.rows("SHOW FIELDS IN queues IN queuegate")
    assert sql.column("SHOW TABLES FROM queuegate") == TABLES
    assert sql.column("SHOW TABLES FROM queuegate LIKE 'q%%'") == ["queues"]
    assert sql.rows("SHOW FULL TABLES FROM queuegate LIKE 'queues'") == [("queues", "BASE TABLE")]
    with sql.connection.cursor() as cursor:
        cursor.execute("SELECT * FROM queuegate.queues LIMIT 0")
        assert [column[0] for column in cursor.description] == list(described)


def test_prepared_without_parameters(gate, queue):
    connector = pytest.importorskip("mysql.connector")
    q = queue()
    client = connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    cursor = client.cursor(prepared=True)
    for _ in range(2):
        cursor.execute(f"SELECT queue, ready FROM queuegate.queues WHERE queue = '{q}'")
        assert [tuple(row) for row in cursor.fetchall()] == [(q, 0)]
    with pytest.raises(connector.Error) as caught:
        cursor.execute("SELECT queue FROM queuegate.queues WHERE queue = %s", (q,))
    assert caught.value.errno == 1235
    client.close()


def test_what_is_refused(sql):
    assert sql.error("SELECT * FROM queuegate.no_such_table")[0] in (1049, 1146)
    assert sql.error("DELETE FROM queuegate.queues")[0] in (1049, 1146)
    assert sql.error("SELECT no_such_column FROM queuegate.queues")[0] == 1054


def test_names_of_any_characters(sql):
    name = "o'clock \\ größe"
    sql(f"CREATE QUEUE `{name}` (n INT)")
    try:
        assert name in sql.column("SELECT queue FROM queuegate.queues")
    finally:
        sql(f"DROP QUEUE `{name}`")


def test_a_real_database_of_that_name_wins(gate, sql, connect):
    if gate.embedded:
        assert "queuegate" not in sql.column("SHOW DATABASES")
        return
    before = Sql(gate.connect())
    before("CREATE DATABASE queuegate")
    try:
        before("CREATE TABLE queuegate.queues (n INT)")
        before("INSERT INTO queuegate.queues VALUES (7)")
        other = connect()
        assert other.rows("SELECT * FROM queuegate.queues") == [(7,)]
        assert other.column("SHOW TABLES FROM queuegate") == ["queues"]
        assert [row[0] for row in other.rows("DESCRIBE queuegate.queues")] == ["n"]
    finally:
        before("DROP DATABASE queuegate")
        before.close()
    assert "in_flight" in sql.column("SHOW TABLES FROM queuegate")


def test_a_column_keeps_its_type_whatever_other_rows_hold(sql, queue):
    """The rows go to the database in groups of 20; those of one group may all lack a value."""
    messages = queue()
    sql(f"INSERT INTO {messages} (payload) VALUES ('x')")
    for _ in range(41):
        queue()
    ages = sql.column(f"SELECT oldest_ready_age FROM queuegate.queues WHERE queue = '{messages}'")
    assert [type(age) for age in ages] == [Decimal]

"""The option trace_keep of a topic: a history that is in the database, and outlives the proxy (docs/topics.md)."""

from __future__ import annotations

import mysql.connector
import pytest
from servers import NS, Sql, topic_options, wait_until

pytestmark = pytest.mark.no_proxy_accounts

KEPT = "WITH (trace_keep = '1d')"
ONCE = "START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')"


@pytest.fixture
def gate(shared_gate):
    """Cleans what is kept every 1.2 seconds."""
    return shared_gate(retention_period="100ms")


def history(sql, t, id_, group="g"):
    """What TRACE MESSAGE says that happened, without the times."""
    (row,) = [row for row in sql.named(f"TRACE MESSAGE {id_} ON {t}") if row["group"] == group]
    return [] if row["history"] is None else [piece.split(" ", 2)[2] for piece in row["history"].split("; ")]


def whats(sql, t, id_, group="g"):
    return [piece.split(" by ")[0].split(" to ")[0].split(":")[0] for piece in history(sql, t, id_, group)]


def kept(sql, t):
    """The events in the table, of a topic and its groups; empty where the table is not there yet."""
    pattern = t.replace("_", "\\_")
    if not sql.rows("SHOW TABLES LIKE 'queuegate\\_traces'"):
        return []
    return sql.rows(
        "SELECT message_id, event FROM queuegate_traces WHERE queue_name = %s OR queue_name LIKE %s"
        " ORDER BY time_at, number",
        t,
        f"{pattern}\\_group\\_%",
    )


def problem(sql, t):
    return sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["problem"]


def test_a_history_that_outlives_the_proxy(new_gate):
    gate = new_gate().start()
    sql = Sql(gate.connect(program_name="shop 3"))
    sql("CREATE TOPIC orders (body VARCHAR(100)) WITH (trace_keep = '1d')")
    sql(f"CREATE GROUP g ON orders {ONCE}")
    sql("BEGIN")
    sql("INSERT INTO orders (body) VALUES ('a'), ('b')")
    sql("COMMIT")
    assert sql.column("SELECT id FROM STREAM orders WITH (group = 'g', consumer = 'worker 7') LIMIT 2 WAIT 20") == [
        1,
        2,
    ]
    sql("NACK orders 1 GROUP g DELAY '1h' REASON 'it''s late'")
    sql("ACK orders 2 GROUP g")
    before, writer = [history(sql, "orders", id_) for id_ in (1, 2)], sql.connection.thread_id()
    assert [[piece.split(" ", 1)[0] for piece in told] for told in before] == [
        ["enqueued", "sent", "nacked:"],
        ["enqueued", "sent", "acked"],
    ]
    assert before[0][0].startswith(f"enqueued by shop 3, connection {writer} (root@127.0.0.1")
    asked = "SELECT queue, id, at, event, connection_id, consumer, reason, proxy FROM queuegate.traces WHERE db = %s"
    rows = sql.rows(asked, gate.database)
    assert len(rows) == 6
    sql.connection._force_close()
    gate.terminate()  # what waits is written
    gate.start()
    sql = Sql(gate.connect())
    assert [history(sql, "orders", id_) for id_ in (1, 2)] == before
    assert sorted(map(str, sql.rows(asked, gate.database))) == sorted(map(str, rows))
    assert sql("ACK orders 1 GROUP g") == 1
    assert history(sql, "orders", 1) == [*before[0], "acked"]
    wait_until(lambda: len(kept(sql, "orders")) == 7, what="the ack to be written")
    assert history(sql, "orders", 1) == [*before[0], "acked"]  # it is in memory and in the table, and told once
    gate.kill()
    gate.start()
    assert history(Sql(gate.connect()), "orders", 1) == [*before[0], "acked"]


def test_nothing_is_kept_unless_the_topic_says_so(sql, topic):
    t, u = topic(g=ONCE), topic(options="WITH (trace_keep = '2h')", g=ONCE)
    assert [row[9] for row in sql.rows(f"SHOW TOPICS LIKE '{u}'")] == [topic_options("trace_keep = 7200s")]
    for one in (t, u):
        sql(f"INSERT INTO {one} (body) VALUES ('a')")
        assert sql.column(f"SELECT id FROM STREAM {one} WITH (group = 'g') LIMIT 1 WAIT 20") == [1]
    wait_until(lambda: kept(sql, u) == [(1, "enqueued"), (1, "sent")], what="what happened to be written")
    assert kept(sql, t) == []
    assert whats(sql, t, 1) == ["sent"]
    sql(f"ALTER TOPIC {u} SET (trace_keep = 'off')")
    wait_until(lambda: kept(sql, u) == [], what="what was kept to be deleted")
    sql(f"ALTER TOPIC {t} SET (trace_keep = '1h', trace = 'off')")
    assert [row[9] for row in sql.rows(f"SHOW TOPICS LIKE '{t}'")] == [topic_options("trace = off, trace_keep = 3600s")]
    sql(f"INSERT INTO {t} (body) VALUES ('not chosen')")
    sql(f"ALTER TOPIC {t} SET (trace = DEFAULT)")
    sql(f"INSERT INTO {t} (body) VALUES ('b')")
    wait_until(lambda: kept(sql, t) == [(3, "enqueued")], what="what is chosen to be written")
    for wrong in ("'-1d'", "'0s'", "''", "'for ever'"):
        assert sql.error(f"ALTER TOPIC {t} SET (trace_keep = {wrong})")[0] == 1231


def test_what_is_older_than_its_topic_keeps_it_is_deleted(sql, topic):
    t = topic(options=KEPT, g=ONCE, gone=ONCE)
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    for group in ("g", "gone"):
        assert len(sql.rows(f"SELECT id FROM STREAM {t} WITH (group = '{group}') LIMIT 2 WAIT 20")) == 2
    wait_until(lambda: len(kept(sql, t)) == 6, what="what happened to be written")
    day = 86400 * NS
    sql(f"UPDATE queuegate_traces SET time_at = time_at - {day} WHERE queue_name = '{t}_group_g' AND message_id = 1")
    wait_until(lambda: len(kept(sql, t)) == 5, what="what is a day old to be deleted")
    assert [whats(sql, t, id_) for id_ in (1, 2)] == [["enqueued", "sent"], ["enqueued", "sent"]]  # from memory
    sql(f"DROP GROUP gone ON {t}")
    sql(f"UPDATE queuegate_traces SET time_at = time_at - {60 * NS} WHERE queue_name = '{t}_group_gone'")
    wait_until(lambda: len(kept(sql, t)) == 3, what="what is of a dropped group to be deleted")


def test_who_enqueued_is_told_where_the_answer_tells_it(sql, connect, topic):
    t, plain = topic(options=KEPT), topic()
    sql(f"INSERT INTO {plain} (body) VALUES ('9')")
    writer = connect(autocommit=False)
    writer(f"INSERT INTO {t} (body) VALUES ('rolled back')")
    writer("ROLLBACK")
    writer(f"INSERT INTO {t} (body) VALUES ('1'), ('2'), ('3')")
    writer("SAVEPOINT s")
    writer("COMMIT")
    last = sql.value(f"SELECT MAX(id) FROM {t}")
    wait_until(lambda: len(kept(sql, t)) == 3, what="the commit to be written")
    assert [id_ for id_, _ in kept(sql, t)] == [last - 2, last - 1, last]
    sql(f"INSERT INTO {t} SET body = 'set'")
    for untold in (
        f"INSERT INTO {t} (body) SELECT body FROM {plain}",
        f"INSERT IGNORE INTO {t} (body) VALUES ('ignored')",
        f"INSERT INTO {t} (body) VALUES ('x') ON DUPLICATE KEY UPDATE body = 'y'",
        f"REPLACE INTO {t} (body) VALUES ('replaced')",
    ):
        sql(untold)
    sql(f"INSERT INTO {t} (body) VALUES ('last')")
    end = sql.value(f"SELECT MAX(id) FROM {t}")
    wait_until(lambda: kept(sql, t)[-1] == (end, "enqueued"), what="the last one to be written")
    assert [id_ for id_, _ in kept(sql, t)] == [last - 2, last - 1, last, last + 1, end]
    assert end == last + 6


def test_who_enqueued_by_a_prepared_statement_or_a_long_one(gate, sql, topic):
    t = topic("body LONGTEXT", options=KEPT)
    connection = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", password="", database=gate.database, use_pure=True,
        autocommit=True,
    )  # fmt: skip
    cursor = connection.cursor(prepared=True)
    for body in ("a", "b"):
        cursor.execute(f"INSERT INTO {t} (body) VALUES (%s), (%s)", (body, body))
    connection.close()
    sql(f"INSERT INTO {t} (body) VALUES (%s)", "c" * 200_000)
    wait_until(lambda: [id_ for id_, _ in kept(sql, t)] == [1, 2, 3, 4, 5], what="what was enqueued to be written")


def test_a_topic_with_a_hostile_name(sql, topic):
    name = """it's "a" `b`; --"""
    quoted = "`" + name.replace("`", "``") + "`"
    t = topic(name=quoted, options=KEPT, g=ONCE)
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    assert sql.column(f"SELECT id FROM STREAM {t} WITH (group = 'g', consumer = 'o''x\\\\') LIMIT 1 WAIT 20") == [1]
    sql(f"NACK {t} 1 GROUP g REASON '\\' OR 1 = 1 -- \U0001f600'")
    written = "SELECT COUNT(*) FROM queuegate_traces WHERE queue_name IN (%s, %s)"
    wait_until(lambda: sql.rows("SHOW TABLES LIKE 'queuegate_traces'"), what="the table of histories")
    wait_until(lambda: sql.value(written, name, f"{name}_group_g") == 3, what="it to be written")
    assert history(sql, t, 1)[-1] == "nacked: ' OR 1 = 1 -- \U0001f600"
    assert sql.column("SELECT event FROM queuegate.traces WHERE topic = %s ORDER BY at, event", name)[:2] == [
        "enqueued",
        "sent",
    ]
    sql(f"DROP GROUP g ON {t}")
    sql(f"DROP TOPIC {t}")


def test_a_table_that_cannot_be_written_costs_the_history_alone(new_gate):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE TABLE queuegate_traces (another INT)")
    sql(f"CREATE TOPIC orders (body VARCHAR(100)) {KEPT}")
    sql(f"CREATE GROUP g ON orders {ONCE}")
    sql("INSERT INTO orders (body) VALUES ('a'), ('b')")
    assert sql.column("SELECT id FROM STREAM orders WITH (group = 'g') LIMIT 2 WAIT 20") == [1, 2]
    told = wait_until(lambda: problem(sql, "orders"), what="the problem to be told")
    assert "the history is not written: " in told and "dropped since the start: " in told
    assert sql("ACK orders 1 GROUP g") == 1
    assert whats(sql, "orders", 1) == ["enqueued", "sent", "acked"]  # from memory
    assert gate.log.count("is not written, deliveries go on") == 1
    sql("DROP TABLE queuegate_traces")
    sql("ACK orders 2 GROUP g")
    wait_until(lambda: (2, "acked") in kept(sql, "orders"), what="it to be written again", timeout=60)
    assert "not written" not in problem(sql, "orders")
    assert gate.log.count("is not written, deliveries go on") == gate.log.count("is written again") == 1
    sql.close()


def test_workers_tell_one_another_how_the_history_fares(new_gate, place):
    if place == "embedded":  # one process
        return
    gate = new_gate(workers=2).start()
    sql = Sql(gate.connect())
    sql("CREATE TABLE queuegate_traces (another INT)")
    sql(f"CREATE TOPIC orders (body VARCHAR(100)) {KEPT}")
    clients = [Sql(gate.connect()) for _ in range(8)]
    for number, client in enumerate(clients):
        client("INSERT INTO orders (body) VALUES (%s)", str(number))
    told = "events of its history that were dropped since the start: 8"
    wait_until(lambda: told in (problem(sql, "orders") or ""), what="what both have dropped", timeout=60)
    for client in (sql, *clients):
        client.close()

"""Schedules and what they send to: queues that go and change, topics, tables of Vitess; and who may."""

from __future__ import annotations

import mysql.connector
import pytest
from servers import NS, Sql, wait_until

pytestmark = pytest.mark.no_proxy_accounts


@pytest.fixture
def schedule(sql, name):
    """The name of a schedule that is gone after the test."""
    yield f"{name}_s"
    sql(f"DROP SCHEDULE IF EXISTS {name}_s")


def shown(sql, schedule):
    (row,) = sql.named(f"SHOW SCHEDULES LIKE '{schedule}'")
    return row


def problem(sql, schedule):
    return shown(sql, schedule)["problem"]


def due_now(sql, schedule):
    """Its next tick is now, and the proxy hears of it."""
    sql(f"UPDATE queuegate_schedules SET next_tick = time_created WHERE name = '{schedule}'")
    sql(f"ALTER SCHEDULE {schedule} SET (missed = 'once')")


def test_a_queues_schedules_go_with_it(sql, queue, schedule):
    q, other = queue("n INT"), queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1s' (n) VALUES (1)")
    sql(f"CREATE SCHEDULE {schedule}_other ON {other} EVERY '1d' (n) VALUES (1)")
    sql(f"DROP QUEUE {q}")
    assert [row[0] for row in sql.rows(f"SHOW SCHEDULES LIKE '{schedule}%'")] == [f"{schedule}_other"]
    sql(f"CREATE QUEUE {q} (n INT)")
    assert sql.rows(f"SHOW SCHEDULES LIKE '{schedule}'") == []
    sql(f"DROP SCHEDULE {schedule}_other")


def test_a_queue_that_is_dropped_otherwise_is_a_problem_until_it_is_back(sql, queue, schedule, gate):
    q = queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1s' (n) VALUES (1)")
    sql("SET @queuegate_allow_drop_table = 1")
    sql(f"DROP TABLE {q}")
    told = wait_until(lambda: problem(sql, schedule), what="the problem to be shown")
    # What the server says where the proxy still knows the table, what the proxy says otherwise.
    assert q in told and ("does not exist" in told or "doesn't exist" in told)
    sql(f"CREATE QUEUE {q} (n INT)")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}") >= 2, what="messages to come again")
    assert problem(sql, schedule) is None
    assert gate.log.count(f"{schedule}: its message cannot be sent") <= 1  # 0: another proxy of the database sends


def test_a_column_that_goes_is_a_problem_and_holds_up_no_other(sql, queue, schedule):
    q = queue("n INT, m INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1s' (n, m) VALUES (1, 2)")
    sql(f"CREATE SCHEDULE {schedule}_other ON {q} EVERY '1s' (n) VALUES (7)")
    sql(f"ALTER TABLE {q} DROP COLUMN m")
    told = wait_until(lambda: problem(sql, schedule), what="the problem to be shown")
    assert "Unknown column 'm'" in told
    count = sql.value(f"SELECT COUNT(*) FROM {q} WHERE n = 7")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q} WHERE n = 7") > count, what="the other to go on")
    assert problem(sql, f"{schedule}_other") is None
    sql(f"DROP SCHEDULE {schedule}_other")


def test_a_thousand_that_cannot_be_sent_hold_up_no_late_one(sql, queue, schedule):
    good, columns = queue("n INT"), "queue_name, column_names, row_values, missed, created_by, time_created"
    sql(f"CREATE SCHEDULE {schedule} ON {good} EVERY '1d' (n) VALUES (1)")
    sql("BEGIN")
    digits = "(SELECT 0 AS n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ")"
    sql(
        f"INSERT INTO queuegate_schedules (name, next_tick, every_ns, problem, time_changed, {columns}) "
        f"SELECT CONCAT('{schedule}_', a.n, b.n, c.n), 1, 1000000000, 'gone', 0, {columns} "
        f"FROM queuegate_schedules, {digits} AS a, {digits} AS b, {digits} AS c WHERE name = '{schedule}'"
    )
    like = f"name LIKE '{schedule}\\_%'"
    sql(f"UPDATE queuegate_schedules SET queue_name = 'nowhere' WHERE {like}")
    try:
        due_now(sql, schedule)
        sql(f"UPDATE queuegate_schedules SET next_tick = 2 WHERE name = '{schedule}'")
        sql("COMMIT")
        wait_until(lambda: shown(sql, schedule)["last_tick"], what="the late tick to be sent")
        assert sql.value(f"SELECT COUNT(*) FROM queuegate_schedules WHERE {like} AND problem IS NOT NULL") == 1000
    finally:
        sql(f"DELETE FROM queuegate_schedules WHERE {like}")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("row_values", "'{}'"),
        ("row_values", """'[{"s": 1}]'"""),
        ("row_values", """'[{"n": "SLEEP(1)"}]'"""),
        ("row_values", "'[]'"),
        ("column_names", "'nonsense'"),
        ("column_names", """'["time_acked"]'"""),
        ("queue_name", "'nowhere'"),
        ("cron", "'a b c d e'"),
        ("missed", "'never'"),
    ],
)
def test_a_row_that_somebody_wrote_wrongly_is_a_problem(sql, queue, schedule, column, value):
    q = queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (1)")
    sql(f"UPDATE queuegate_schedules SET {column} = {value} WHERE name = '{schedule}'")
    sql(f"UPDATE queuegate_schedules SET next_tick = time_created WHERE name = '{schedule}'")
    sql(f"CREATE SCHEDULE {schedule}_new ON {q} EVERY '1d' (n) VALUES (2)")  # the proxy reads all of them
    wait_until(lambda: problem(sql, schedule), what="the problem to be shown")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    sql(f"DROP SCHEDULE {schedule}_new")


def test_a_topic_gets_messages_too(sql, topic, schedule, stream):
    t = topic("body VARCHAR(20)", g="START AT EARLIEST")
    receiver = stream(f"SELECT body FROM STREAM {t} WITH (group = 'g')")
    sql(f"CREATE SCHEDULE {schedule} ON {t} EVERY '1s' VALUES ('tick')")
    assert receiver.wait(2)[:2] == [("tick",), ("tick",)]
    assert sql.error(f"CREATE SCHEDULE {schedule}_g ON {t}_group_g EVERY '1s' VALUES ('x')")[0] == 1235
    sql(f"DROP GROUP g ON {t}")
    sql(f"DROP TOPIC {t}")
    assert sql.rows(f"SHOW SCHEDULES LIKE '{schedule}'") == []


def test_vitess_first_layout(sql, name, schedule):
    sql(
        f"CREATE TABLE {name} (time_scheduled BIGINT NOT NULL, id BIGINT NOT NULL AUTO_INCREMENT, time_next BIGINT,"
        " epoch BIGINT, time_created BIGINT, time_acked BIGINT, message VARCHAR(128),"
        " PRIMARY KEY (time_scheduled, id), UNIQUE KEY (id)) COMMENT='vitess_message,vt_ack_wait=30,"
        "vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30'"
    )
    sql(f"CREATE SCHEDULE {schedule} ON {name} EVERY '1d' (message) VALUES ('a')")
    due_now(sql, schedule)
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {name}"), what="its message")
    assert sql.row(f"SELECT message, epoch, time_acked, time_next = time_scheduled FROM {name}") == ("a", 0, None, 1)
    sql(f"DROP QUEUE {name}")


def test_prepared(gate, sql, queue, schedule):
    q = queue("n INT, body VARCHAR(20)")
    client = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    cursor = client.cursor(prepared=True)
    made = f"CREATE SCHEDULE {schedule} ON {q} EVERY ? (n, body) VALUES (?, ?)"
    cursor.execute(made, ("1d", 3, "it's \\ é"))
    cursor.execute(f"RUN SCHEDULE {schedule}")
    client.close()
    assert sql.rows(f"SELECT n, body FROM {q}") == [(3, "it's \\ é")]


def test_every_kind_of_value(sql, queue, schedule):
    q = queue(
        "a INT DEFAULT 9, b VARBINARY(20), c DECIMAL(10,3), d DOUBLE, e DATETIME, f JSON, g BOOLEAN, h TEXT, i BIGINT"
    )
    sql(
        f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (a, b, c, d, e, f, g, h, i, priority) VALUES (DEFAULT,"
        " X'00ff27', -1.5, 1e3, '2026-01-02 03:04:05', '{\"k\": [1]}', TRUE, NULL, TICK, 3)"
    )
    due_now(sql, schedule)
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}"), what="its message")
    a, b, c, d, e, f, g, h, priority = sql.row(f"SELECT a, b, c, d, e, f, g, h, priority FROM {q}")
    assert (a, b, str(c), d, str(e)) == (9, b"\x00\xff'", "-1.500", 1000.0, "2026-01-02 03:04:05")
    assert (f.replace(" ", ""), g, h, priority) == ('{"k":[1]}', 1, None, 3)
    assert sql.value(f"SELECT i = time_scheduled FROM {q}") == 1
    sql(f"RUN SCHEDULE {schedule}")
    assert sql.value(f"SELECT COUNT(DISTINCT b, c, d, e) FROM {q}") == 1


def test_a_change_around_the_proxy_is_found(sql, queue, schedule):
    q = queue("n INT", poll_interval="'1s'")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (1)")
    sql(f"UPDATE queuegate_schedules SET next_tick = time_created WHERE name = '{schedule}'")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}") == 1, timeout=30, what="the periodic look to find it")


def test_after_a_restart_each_tick_once(new_gate):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (n INT, at_ns BIGINT)")
    sql("CREATE SCHEDULE s ON q EVERY '1s' (n, at_ns) VALUES (1, TICK)")
    for _ in range(3):
        count = sql.value("SELECT COUNT(*) FROM q")
        wait_until(lambda sql=sql, count=count: sql.value("SELECT COUNT(*) FROM q") >= count + 2, what="ticks")
        sql.connection._force_close()
        gate.kill()
        gate.start()
        sql = Sql(gate.connect())
    ticks = sql.column("SELECT at_ns FROM q ORDER BY at_ns")
    assert ticks == [ticks[0] + n * NS for n in range(len(ticks))]  # killed for less than a minute: none is missing
    sql.close()


def test_the_first_schedule_in_a_transaction_that_has_written(new_gate, place):
    """On the embedded backend the table of schedules has to be made first, and has to wait for the only writer."""
    sql = Sql(new_gate().start().connect())
    sql("CREATE QUEUE q (n INT)")
    sql("BEGIN")
    sql("INSERT INTO q (n) VALUES (1)")
    if place == "embedded":
        errno, text = sql.error("CREATE SCHEDULE s ON q EVERY '1d' (n) VALUES (1)")
        assert errno == 1179 and "COMMIT first" in text
        sql("COMMIT")
        sql("BEGIN")
    sql("CREATE SCHEDULE s ON q EVERY '1d' (n) VALUES (1)")
    sql("ROLLBACK")
    assert sql.rows("SHOW SCHEDULES") == []
    sql("CREATE SCHEDULE s ON q EVERY '1d' (n) VALUES (1)")
    assert len(sql.rows("SHOW SCHEDULES")) == 1
    sql.close()

"""Schedules: messages that recur (docs/schedules.md)."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from servers import NS, Sql, wait_until

YEAR = 365 * 86400


@pytest.fixture
def schedule(sql, name):
    """The name of a schedule that is gone after the test."""
    yield f"{name}_s"
    sql(f"DROP SCHEDULE IF EXISTS {name}_s")


def shown(sql, schedule):
    (row,) = sql.named(f"SHOW SCHEDULES LIKE '{schedule}'")
    return row


def back(sql, schedule, seconds):
    """As if nobody had sent ticks for so long: the next tick is so far back."""
    sql(f"UPDATE queuegate_schedules SET next_tick = next_tick - {int(seconds * NS)} WHERE name = '{schedule}'")


def wake(sql, schedule, missed):
    """Have the proxy read the table at once, in place of its periodic look."""
    sql(f"ALTER SCHEDULE {schedule} SET (missed = '{missed}')")


def test_a_schedule_sends_its_message_at_each_tick(sql, queue, stream, schedule):
    q = queue("body VARCHAR(50), n INT, at_ns BIGINT")
    receiver = stream(f"SELECT id, body, n, at_ns, time_scheduled FROM STREAM {q}")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1s' (body, n, at_ns) VALUES ('it''s é', -7, TICK)")
    rows = receiver.wait(3)
    sql(f"DROP SCHEDULE {schedule}")
    assert {row[1:3] for row in rows} == {("it's é", -7)}
    ticks = [row[3] for row in rows]
    assert ticks == [row[4] for row in rows]
    assert all(tick % NS == 0 for tick in ticks)
    assert [tick - ticks[0] for tick in ticks[:3]] == [0, NS, 2 * NS]
    count = sql.value(f"SELECT COUNT(*) FROM {q}")
    assert sql.value(f"SELECT COUNT(DISTINCT at_ns) FROM {q}") == count


def test_a_schedule_is_a_part_of_its_transaction(sql, queue, schedule, connect):
    q = queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (0)")  # the table is there from here on
    sql(f"DROP SCHEDULE {schedule}")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (1)")
    assert connect().rows(f"SHOW SCHEDULES LIKE '{schedule}'") == []
    sql("ROLLBACK")
    assert sql.rows(f"SHOW SCHEDULES LIKE '{schedule}'") == []
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    sql("BEGIN")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (1)")
    sql("COMMIT")
    assert shown(sql, schedule)["queue"] == q
    assert sql.column(f"SELECT n FROM {q}") == [1]


def test_what_is_shown(sql, queue, schedule, gate):
    q = queue("n INT, body VARCHAR(20)")
    sql(
        f"CREATE SCHEDULE {schedule} ON {q} CRON '0 2 * * MON-FRI' TIME ZONE 'Europe/Berlin' (n, body)"
        r" VALUES (1.5, 'a\'b\\') WITH (missed = 'all')"
    )
    row = shown(sql, schedule)
    assert list(row) == [
        *("schedule", "database", "queue", "rule", "time_zone", "missed", "paused", "last_tick", "next_tick"),
        *("problem", "created_by", "created"),
    ]
    assert row["rule"] == "CRON '0 2 * * MON-FRI'" and row["time_zone"] == "Europe/Berlin"
    assert (row["missed"], row["paused"], row["last_tick"], row["problem"]) == ("all", 0, None, None)
    assert row["next_tick"][11:] in ("00:00:00.000", "01:00:00.000")  # UTC
    _, text = sql.row(f"SHOW CREATE SCHEDULE {schedule}")
    sql(f"DROP SCHEDULE {schedule}")
    sql(text)
    assert sql.row(f"SHOW CREATE SCHEDULE {schedule}")[1] == text
    assert r"1.5, 'a''b\\'" in text
    (found,) = sql.rows(f"SELECT queue, rule, missed FROM queuegate.schedules WHERE schedule = '{schedule}'")
    assert found == (q, "CRON '0 2 * * MON-FRI'", "all")


def test_pause_and_resume(sql, queue, schedule):
    q = queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1s' (n) VALUES (1)")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}") >= 1, what="the first message")
    sql(f"ALTER SCHEDULE {schedule} PAUSE")
    row = shown(sql, schedule)
    assert (row["paused"], row["next_tick"]) == (1, None)
    count = sql.value(f"SELECT COUNT(*) FROM {q}")
    back(sql, schedule, 3600)
    sql(f"ALTER SCHEDULE {schedule} RESUME")  # what would have ticked meanwhile is no tick that was missed
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}") > count, what="messages to go on")
    sql(f"DROP SCHEDULE {schedule}")
    times = sql.column(f"SELECT time_scheduled FROM {q} ORDER BY id")
    assert min(times) > time.time_ns() - 60 * NS and len(set(times)) == len(times)


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("once", 1), ("all", 3)])
def test_missed_ticks(sql, queue, schedule, missed, count):
    q = queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (1)")
    first = sql.value(f"SELECT next_tick FROM queuegate_schedules WHERE name = '{schedule}'")
    wake(sql, schedule, missed)  # first: another proxy of the server may see the time of the tick at once
    back(sql, schedule, 3 * 86400)
    wake(sql, schedule, missed)
    wait_until(
        lambda: sql.value(f"SELECT next_tick FROM queuegate_schedules WHERE name = '{schedule}'") >= first,
        what="the schedule to go on",
    )
    late = NS * 86400
    wanted = [first - n * late for n in range(3, 0, -1)][3 - count :]
    assert sql.column(f"SELECT time_scheduled FROM {q} ORDER BY id") == wanted


UNIQUE = "n INT, open_n INT GENERATED ALWAYS AS (IF(time_acked IS NULL, n, NULL)), UNIQUE KEY once (open_n)"


@pytest.mark.parametrize("waits", [True, False])
def test_a_tick_whose_unique_key_is_taken_is_done(sql, queue, schedule, waits):
    """By a message that waits, or by another one of the same ticks; a schedule beside it is sent all the same."""
    q, other = queue(UNIQUE), queue("n INT")
    for name, target in ((schedule, q), (f"{schedule}_other", other)):
        sql(f"CREATE SCHEDULE {name} ON {target} EVERY '1d' (n) VALUES (1) WITH (missed = 'all')")
    if waits:
        sql(f"RUN SCHEDULE {schedule}")
    sql("BEGIN")
    back(sql, f"{schedule}_other", 3 * 86400)
    back(sql, schedule, 3 * 86400)
    wake(sql, schedule, "all")
    sql("COMMIT")
    wait_until(lambda: shown(sql, schedule)["last_tick"], what="the ticks to be done")
    wait_until(lambda: shown(sql, f"{schedule}_other")["last_tick"], what="the ticks of the other to be sent")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 1
    assert sql.value(f"SELECT COUNT(*) FROM {other}") == 3
    assert shown(sql, schedule)["problem"] is None
    assert sql.value(f"SELECT next_tick > time_created FROM queuegate_schedules WHERE name = '{schedule}'") == 1
    sql(f"ACK {q} WHERE n = 1")
    sql(f"DROP SCHEDULE {schedule}_other")
    sql(f"RUN SCHEDULE {schedule}")


def test_a_key_that_an_open_transaction_holds_stops_its_own_schedule_alone(sql, queue, schedule, connect, place):
    if place == "embedded":
        pytest.skip("one transaction writes at a time")
    q, other = queue(UNIQUE), queue("n INT")
    client = connect()
    client("BEGIN")
    client(f"INSERT INTO {q} (n) VALUES (1)")
    try:
        sql("BEGIN")
        for name, target in ((f"{schedule}_other", other), (schedule, q)):
            sql(f"CREATE SCHEDULE {name} ON {target} EVERY '2s' (n) VALUES (2)")
        # A CREATE with the key itself would wait, too.
        sql(f"UPDATE queuegate_schedules SET row_values = REPLACE(row_values, '2', '1') WHERE name = '{schedule}'")
        sql("COMMIT")
        wait_until(lambda: shown(sql, schedule)["problem"], what="the problem to be shown")
        assert "ock wait" in shown(sql, schedule)["problem"]
        count = sql.value(f"SELECT COUNT(*) FROM {other}")
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {other}") >= count + 3, timeout=30, what="more ticks")
        delays = sql.column(f"SELECT time_created - time_scheduled FROM {other}")
        assert max(delays) < 20 * NS
    finally:
        client("ROLLBACK")
        sql(f"DROP SCHEDULE {schedule}_other")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}"), timeout=70, what="the tick to be sent")
    wait_until(lambda: not shown(sql, schedule)["problem"], what="the problem to end")


def test_short_locks_that_follow_each_other_delay_ticks_and_stop_none(sql, queue, schedule, connect, place):
    """At no moment are the queue's rows free: a tick waits for its turn, as any INSERT does."""
    if place == "embedded":
        pytest.skip("one transaction writes at a time")
    q, enough = queue("n INT"), Event()
    sql(f"INSERT INTO {q} (n) VALUES (1)")

    def hold(client):
        while not enough.is_set():
            for statement in ("BEGIN", f"SELECT n FROM {q} WHERE n > 0 FOR UPDATE", "SELECT SLEEP(0.2)", "COMMIT"):
                client(statement)

    with ThreadPoolExecutor(2) as threads:
        clients = [threads.submit(hold, connect()) for _ in range(2)]
        try:
            sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1s' (n) VALUES (-1)")
            wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q} WHERE n < 0") >= 6, timeout=20, what="ticks")
            assert shown(sql, schedule)["problem"] is None
        finally:
            enough.set()
    assert [client.result() for client in clients] == [None, None]


def test_run_now(sql, queue, schedule, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (5)")
    sql(f"ALTER SCHEDULE {schedule} PAUSE")
    assert sql(f"RUN SCHEDULE {schedule}") == 1
    assert receiver.wait(1) == [(5,)]
    sql("BEGIN")
    sql(f"RUN SCHEDULE {schedule}")
    sql("ROLLBACK")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 1


def test_alter(sql, queue, schedule):
    q = queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (5)")
    sql(f"ALTER SCHEDULE {schedule} SET (cron = '30 4 1 1 *', time_zone = 'Australia/Lord_Howe', missed = 'skip')")
    row = shown(sql, schedule)
    assert (row["rule"], row["time_zone"], row["missed"]) == ("CRON '30 4 1 1 *'", "Australia/Lord_Howe", "skip")
    sql(f"ALTER SCHEDULE {schedule} SET (time_zone = DEFAULT)")
    assert shown(sql, schedule)["next_tick"].endswith("-01-01 04:30:00.000")
    sql(f"ALTER SCHEDULE {schedule} SET (every = '90m', missed = NULL)")
    row = shown(sql, schedule)
    assert (row["rule"], row["time_zone"], row["missed"]) == ("EVERY '90m'", None, "once")
    assert sql.error(f"ALTER SCHEDULE {schedule} SET (time_zone = 'UTC')")[0] == 1231


def test_what_is_there_already_and_what_is_not(sql, queue, schedule):
    q = queue("n INT")
    made = f"SCHEDULE IF NOT EXISTS {schedule} ON {q} EVERY '1d' (n) VALUES (5)"
    sql(f"CREATE {made}")
    sql(f"CREATE {made}")
    assert sql.rows("SHOW WARNINGS")[0][1] == 1537
    assert sql.error(f"CREATE {made.replace('IF NOT EXISTS', '')}")[0] == 1537
    sql(f"DROP SCHEDULE {schedule}")
    sql(f"DROP SCHEDULE IF EXISTS {schedule}")
    assert sql.rows("SHOW WARNINGS")[0][1] == 1539
    for statement in ("DROP SCHEDULE {}", "ALTER SCHEDULE {} PAUSE", "RUN SCHEDULE {}", "SHOW CREATE SCHEDULE {}"):
        assert sql.error(statement.format(schedule))[0] == 1539


@pytest.mark.parametrize(
    ("rest", "errno"),
    [
        ("EVERY '0.5s' (n) VALUES (1)", 1231),
        ("EVERY 'now and then' (n) VALUES (1)", 1231),
        ("EVERY '1d' TIME ZONE 'UTC' (n) VALUES (1)", 1235),
        ("CRON '0 2 * *' (n) VALUES (1)", 1231),
        ("CRON '0 0 2 * * *' (n) VALUES (1)", 1231),
        ("CRON '61 2 * * *' (n) VALUES (1)", 1231),
        ("CRON '0 0 31 2 *' (n) VALUES (1)", 1231),
        ("CRON '0 2 * * *' TIME ZONE 'Europe/Atlantis' (n) VALUES (1)", 1298),
        ("CRON '0 2 * * *' TIME ZONE '../../etc/passwd' (n) VALUES (1)", 1298),
        ("EVERY '1d' (n) VALUES (1) WITH (missed = 'perhaps')", 1231),
        ("EVERY '1d' (n) VALUES (1) WITH (retries = 3)", 1231),
        ("EVERY '1d' (n) VALUES (SLEEP(1))", 1235),
        ("EVERY '1d' (n) VALUES ((SELECT 1))", 1235),
        ("EVERY '1d' (n) VALUES (1 + 1)", 1235),
        ("EVERY '1d' (n) VALUES (@x)", 1235),
        ("EVERY '1d' (n) VALUES (1), (2)", 1235),
        ("EVERY '1d' (n, m) VALUES (1)", 1136),
        ("EVERY '1d' (m) VALUES (1)", 1054),
        ("EVERY '1d' (id, n) VALUES (1, 1)", 1235),
        ("EVERY '1d' (time_next, n) VALUES (1, 1)", 1235),
        ("EVERY '1d' (n) VALUES ('no number')", 1366),
        ("EVERY '1d' (n)", 1064),
        ("(n) VALUES (1)", 1064),
    ],
)
def test_a_schedule_that_could_never_be_sent_is_refused(sql, queue, schedule, rest, errno):
    q = queue("n INT")
    assert sql.error(f"CREATE SCHEDULE {schedule} ON {q} {rest}")[0] == errno
    assert sql.rows(f"SHOW SCHEDULES LIKE '{schedule}'") == []
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0


def test_a_schedule_is_made_while_a_message_of_its_unique_key_waits(sql, queue, schedule):
    q = queue(UNIQUE)
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (1)")  # the table is there from here on
    sql(f"DROP SCHEDULE {schedule}")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    sql("BEGIN")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (n) VALUES (1)")
    sql("COMMIT")
    assert shown(sql, schedule)["problem"] is None
    assert sql.column(f"SELECT n FROM {q} ORDER BY n") == [1, 2]
    assert sql.error(f"RUN SCHEDULE {schedule}")[0] == 1062


@pytest.mark.parametrize("values", ["'abcdef', 1, 1", "'abc', 300, 1", "'abc', 'no number', 1", "'abc', 1, DEFAULT"])
def test_what_no_tick_could_send_is_refused_in_a_session_that_would_take_it(sql, queue, schedule, values):
    """Ticks are sent in strict mode."""
    q = queue("code VARCHAR(3), n TINYINT, must INT NOT NULL")
    strict = sql.error(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (code, n, must) VALUES ({values})")[0]
    sql("SET sql_mode = ''")
    try:
        lax = sql.error(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (code, n, must) VALUES ({values})")[0]
        assert lax == strict or (lax, strict) == (1265, 1406)  # what was cut off, and what does not fit
        sql("SET max_error_count = 0")
        hidden = sql.error(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (code, n, must) VALUES ({values})")
        assert hidden[0] == lax or (hidden[0] == 1231 and "max_error_count" in hidden[1])
        sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (code, n, must) VALUES ('abc', 1, 1)")
    finally:
        sql("SET sql_mode = DEFAULT, max_error_count = DEFAULT")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0


@pytest.mark.parametrize("mended", ["SET (every = '24h')", "SET (every = '2d')", "RESUME"])
def test_a_tick_that_waits_is_sent_after_the_schedule_was_given_the_rule_that_it_has(sql, queue, schedule, mended):
    """Another rule, or RESUME, begins anew: then there is no problem either."""
    q = queue("n INT, m INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} EVERY '1d' (m) VALUES (1)")
    sql(f"ALTER TABLE {q} DROP COLUMN m")
    sql("BEGIN")
    back(sql, schedule, 86400)
    wake(sql, schedule, "once")
    sql("COMMIT")
    wait_until(lambda: shown(sql, schedule)["problem"], what="the problem to be shown")
    if mended == "RESUME":
        sql(f"ALTER SCHEDULE {schedule} PAUSE")
    sql(f"ALTER SCHEDULE {schedule} {mended}")
    sql(f"ALTER TABLE {q} ADD COLUMN m INT")
    wait_until(lambda: not shown(sql, schedule)["problem"], timeout=70, what="the problem to end")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == (mended == "SET (every = '24h')")


@pytest.mark.parametrize("rule", ["EVERY '1d'", "CRON '0 2 * * *' TIME ZONE 'UTC'"])
def test_the_rule_that_it_has_mends_a_schedule_that_waits_for_a_clock_that_was_ahead(sql, queue, schedule, rule):
    q = queue("n INT")
    sql(f"CREATE SCHEDULE {schedule} ON {q} {rule} (n) VALUES (1)")
    option = "every = '1d'" if rule.startswith("EVERY") else "cron = '0 2 * * *'"

    def next_tick():
        return sql.value(f"SELECT next_tick FROM queuegate_schedules WHERE name = '{schedule}'")

    first = next_tick()
    for days, after in ((1, 1), (365, 0)):  # the tick after the next may be so: a clock was set back a little
        sql(f"UPDATE queuegate_schedules SET next_tick = {first + days * 86400 * NS} WHERE name = '{schedule}'")
        sql(f"ALTER SCHEDULE {schedule} SET (missed = 'skip')")
        assert next_tick() == first + days * 86400 * NS
        sql(f"ALTER SCHEDULE {schedule} SET ({option})")
        assert next_tick() in (first + after * 86400 * NS, first + 86400 * NS)  # midnight may have passed


def test_the_document(new_gate):
    """Every statement of docs/schedules.md, word for word; its GRANTs are in tests/integration/test_page_rights.py."""
    text = (Path(__file__).parents[2] / "docs/schedules.md").read_text()
    statements = ";".join(re.sub(r"--[^\n]*", "", block) for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL))
    sql = Sql(new_gate().start().connect())
    sql("CREATE QUEUE q (user_id BIGINT, payload VARCHAR(100))")
    runnable = [
        each for each in map(str.strip, statements.split(";")) if each and each.split()[0] not in ("GRANT", "REVOKE")
    ]
    ran = [sql.rows(statement) for statement in runnable]
    assert len(ran) > 10
    assert sql.rows("SELECT user_id, payload FROM q") == [(7, "report")]
    assert sql.column("SHOW SCHEDULES") == ["cleanup", "each_night"]
    sql.close()

"""Retention: what a topic keeps, and what becomes of groups that have not read it (docs/topics.md)."""

from __future__ import annotations

import contextlib
import threading

import pytest
from servers import NS, Sql, topic_options, wait_until

pytestmark = pytest.mark.no_proxy_accounts

_OLD = 10 * 86400 * NS  # ten days


@pytest.fixture
def gate(shared_gate):
    """Looks at its topics ten times as often as by default, for most of these tests wait for it to have done so."""
    return shared_gate(retention_period="500ms")


@pytest.fixture
def topic(topic):
    """Makes topics with options, and groups."""
    return lambda options, **groups: topic("body VARCHAR(2000)", options=options, **groups)


def refused(sql, statement, errno=1231):
    """Why a statement is refused."""
    number, text = sql.error(statement)
    assert number == errno, text
    return text


def ids(sql, t):
    return sql.column(f"SELECT id FROM {t} ORDER BY id")


def now_ns(sql):
    return sql.value("SELECT CAST(UNIX_TIMESTAMP() * 1000000000 AS SIGNED)")


def test_messages_older_than_retain_are_deleted(sql, topic):
    t = topic("WITH (retain = '7d')")
    old = now_ns(sql) - _OLD
    sql(f"INSERT INTO {t} (body, time_created, time_scheduled) VALUES ('old', {old}, {old}), ('old', {old}, {old})")
    sql(f"INSERT INTO {t} (body) VALUES ('new')")
    sql(f"INSERT INTO {t} (body, time_created) VALUES ('scheduled', {old})")  # due now: it has just come
    wait_until(lambda: ids(sql, t) == [3, 4])
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == topic_options("retain = 604800s")


def test_a_problem_says_that_a_client_has_locked_the_oldest_messages(sql, topic, connect, place):
    """As many as one batch has; fewer are passed over."""
    if place == "embedded":
        pytest.skip("it has no locks of rows")
    t, client = topic("WITH (retain_rows = 600)"), connect()
    sql(f"INSERT INTO {t} (body) VALUES {', '.join(['(1)'] * 600)}")
    client("BEGIN")
    client.rows(f"SELECT id FROM {t} WHERE id <= 550 FOR UPDATE")
    sql(f"INSERT INTO {t} (body) VALUES {', '.join(['(2)'] * 600)}")
    wait_until(lambda: "1205" in (sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["problem"] or ""), 40)
    client("ROLLBACK")
    wait_until(lambda: len(ids(sql, t)) <= 600 and not sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["problem"], 40)


def test_nothing_is_deleted_as_long_as_a_group_cannot_be_read(sql, topic):
    t = topic("", safe="START AT EARLIEST WITH (retain = 'until_consumed')")
    queue = f"{t}_group_safe"
    comment = sql.value(f"SELECT table_comment FROM information_schema.tables WHERE table_name = '{queue}'")

    def problem():
        return sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["problem"] or ""

    sql(f"INSERT INTO {t} (body) VALUES (1), (2), (3)")
    sql(f"ALTER TABLE {queue} COMMENT = %s", comment.replace("ack_wait=30", "ack_wait=abc"))
    sql(f"ALTER TOPIC {t} SET (retain_rows = 1)")
    assert f"{queue} cannot be read" in problem()
    beside = topic("WITH (retain_rows = 1)")
    for last in (3, 6):  # when that has been done twice, all topics have been looked at
        sql(f"INSERT INTO {beside} (body) VALUES (1), (2), (3)")
        wait_until(lambda last=last: ids(sql, beside) == [last], 40)
    sql(f"ALTER TABLE {queue} COMMENT = %s", comment)
    wait_until(lambda: not problem(), 40)
    assert ids(sql, t) == [1, 2, 3]


def test_no_more_rows_are_kept_than_retain_rows(sql, topic):
    t = topic("WITH (retain_rows = 100)")
    for _ in range(3):
        sql(f"INSERT INTO {t} (body) VALUES {', '.join(['(1)'] * 700)}")
    wait_until(lambda: ids(sql, t) == list(range(2001, 2101)))


def test_no_more_bytes_are_kept_than_retain_bytes(sql, topic):
    t = topic("WITH (retain_bytes = '10k')")
    row = "('" + "x" * 1000 + "')"
    sql(f"INSERT INTO {t} (body) VALUES {', '.join([row] * 100)}")
    # A message has 1,000 bytes, and the digits of its id and its two times.
    wait_until(lambda: ids(sql, t) == list(range(92, 101)))


def test_what_a_group_had_not_read_is_counted_as_lost(sql, topic):
    t = topic("WITH (retain_rows = 10)", slow="START AT EARLIEST", quick="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES {', '.join(['(1)'] * 10)}")
    assert len(sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'quick') NOWAIT")) == 10
    sql(f"INSERT INTO {t} (body) VALUES {', '.join(['(1)'] * 15)}")
    wait_until(lambda: ids(sql, t) == list(range(16, 26)))
    lost = {group["group"]: group["lost"] for group in sql.named(f"SHOW GROUPS ON {t}")}
    assert lost == {"slow": 15, "quick": 5}
    assert [row[0] for row in sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'slow') NOWAIT")] == list(
        range(16, 26)
    )
    sql(f"ACK {t} WHERE id < 10 GROUP quick")  # what it had read it still has, and may end
    quick = [row[0] for row in sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'quick') NOWAIT")]
    assert quick == list(range(16, 26))


def test_a_topic_keeps_what_a_group_has_not_done(sql, topic):
    t = topic("WITH (retain_rows = 1)", safe="START AT EARLIEST WITH (retain = 'until_consumed')", other="")
    sql(f"INSERT INTO {t} (body) VALUES (1), (2), (3), (4), (5)")
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'safe') LIMIT 3") == [(1,), (2,), (3,)]
    sql(f"ACK {t} 1 GROUP safe")
    wait_until(lambda: ids(sql, t) == [2, 3, 4, 5])
    sql(f"ACK {t} 3 GROUP safe")
    sql(f"ALTER GROUP safe ON {t} SET (max_attempts = 16)")  # which leaves the other option as it is
    sql(f"ACK {t} 2 GROUP safe")
    sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'safe') NOWAIT")
    sql(f"ACK {t} 4, 5 GROUP safe")
    wait_until(lambda: ids(sql, t) == [5])
    assert [group["lost"] for group in sql.named(f"SHOW GROUPS ON {t} LIKE 'safe'")] == [0]
    sql(f"INSERT INTO {t} (body) VALUES (6), (7)")
    sql(f"ALTER GROUP safe ON {t} SET (retain = 'topic')")
    wait_until(lambda: ids(sql, t) == [7])
    assert [group["lost"] for group in sql.named(f"SHOW GROUPS ON {t} LIKE 'safe'")] == [1]


def test_a_topic_whose_name_begins_as_a_groups_does_is_another(sql, topic):
    """The queue of group g of t_group has the name of one of group `group_g` of t."""
    t = topic("WITH (retain_rows = 2)")
    sql(f"CREATE TOPIC {t}_group (body TEXT)")
    sql(f"CREATE TOPIC {t}_group_x (body TEXT)")
    sql(f"CREATE GROUP g ON {t}_group")
    sql(f"CREATE GROUP g ON {t}_group_x")
    sql(f"INSERT INTO {t} (body) VALUES ('1'), ('2'), ('3'), ('4')")
    wait_until(lambda: ids(sql, t) == [3, 4], what="the retention of the topic")
    for other in (f"{t}_group", f"{t}_group_x"):
        sql(f"DROP GROUP g ON {other}")
        sql(f"DROP TOPIC {other}")


def test_retention_is_changed_and_ended(sql, topic):
    t = topic("")
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == topic_options("")
    sql(f"INSERT INTO {t} (body) VALUES (1), (2), (3)")
    sql(f"ALTER TOPIC {t} SET (retain_rows = 2, retain = '30d')")
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == topic_options("retain = 2592000s, retain_rows = 2")
    wait_until(lambda: ids(sql, t) == [2, 3])
    sql(f"ALTER TOPIC {t} SET (retain_rows = DEFAULT)")
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == topic_options("retain = 2592000s")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("retain = '7 weeks'", "is not a duration"),
        ("retain = '10ms'", "at least 1s"),
        ("retain = 0", "at least 1s"),
        ("retain = '3651d'", "longer than ten years"),
        ("retain_rows = 0", "is not a whole number from 1"),
        ("retain_rows = 1.5", "is not a whole number from 1"),
        ("retain_bytes = 'much'", "is not a size"),
        ("retain_bytes = '-1g'", "is not a size"),
        ("retainn = '7d'", "did you mean retain?"),
        ("ack_wait = '7d'", "allowed: compact, compact_after, partition, retain, retain_bytes, retain_rows"),
    ],
)
def test_bad_options_are_refused(sql, topic, options, hint):
    assert hint in refused(sql, f"CREATE TOPIC refused (body INT) WITH ({options})")
    t = topic("WITH (retain = '7d')")
    assert hint in refused(sql, f"ALTER TOPIC {t} SET ({options})")
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == topic_options("retain = 604800s")


def test_options_are_where_they_belong(sql, topic):
    t = topic("", billing="")
    assert "is one of consumer groups" in refused(sql, "CREATE QUEUE refused (body INT) WITH (retain = 'topic')")
    assert "is none of topic, until_consumed" in refused(sql, f"ALTER GROUP billing ON {t} SET (retain = '7d')")
    refused(sql, "ALTER TOPIC nothing_such SET (retain = '7d')", 1146)
    assert "ALTER TOPIC t takes SET" in refused(sql, f"ALTER TOPIC {t} RETAIN 7", 1064)


def test_a_group_that_is_being_made_counts_what_it_loses(gate, sql, topic, server_here, place):
    """Retention deletes between the moment at which the group has its place and the end of CREATE GROUP."""
    if place == "embedded":  # no lock can be held from outside that makes that time long
        return
    topic("WITH (retain = '7d')", other="")  # so that the table of positions is there
    t = topic("WITH (retain_rows = 1)")
    with contextlib.ExitStack() as open_:
        locks, reader = (open_.enter_context(server_here.connect(database=gate.database)).cursor() for _ in range(2))
        locks.execute("LOCK TABLES queuegate_positions WRITE")
        maker = Sql(gate.connect())
        making = threading.Thread(target=maker, args=(f"CREATE GROUP g ON {t} START AT EARLIEST",))
        making.start()
        wait_until(lambda: reader.execute(f"SHOW TABLES LIKE '{t}_group_g'"), what="the group's table")
        reader.execute("BEGIN")
        reader.execute(f"SELECT * FROM {t}_group_g")  # from now on its definition cannot be changed
        locks.execute("UNLOCK TABLES")
        placed = f"SELECT position FROM queuegate_positions WHERE group_table = '{t}_group_g'"
        wait_until(lambda: sql.rows(placed), what="the group's place")
        sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b'), ('c')")
        wait_until(lambda: ids(sql, t) == [3], what="the topic to be cut")
        assert making.is_alive()
        reader.execute("COMMIT")
        making.join(30)
    maker.close()
    (lost,) = [row["lost"] for row in sql.named(f"SHOW GROUPS ON {t}")]
    assert lost == 2

"""queuegate.topics, .groups and .group_in_flight: what SHOW TOPICS and SHOW GROUPS tell, as tables."""

from __future__ import annotations

import pymysql
import pytest
from servers import wait_until

pytestmark = pytest.mark.no_proxy_accounts


def one(sql, select):
    """The one row of a SELECT, by the names of its columns."""
    with sql.connection.cursor() as cursor:
        cursor.execute(select)
        (row,) = cursor.fetchall()
        return dict(zip([column[0] for column in cursor.description], row, strict=True))


def test_topics_are_read_with_plain_sql(sql, gate, topic):
    empty, full = topic(), topic(a="", b="")
    sql(f"INSERT INTO {full} (body) VALUES ('a'), ('b'), ('c')")
    sql(f"INSERT INTO {full} (body, time_created) VALUES ('old', 1)")
    sql.rows("SHOW TOPICS")  # on a cluster it numbers the messages
    sql(f"DELETE FROM {full} WHERE id = 1")
    ours = f"topic IN ('{empty}', '{full}')"
    order = "ORDER BY messages DESC, topic"
    select = "topic, db, first_offset, last_offset, group_count, readers, messages, problem"
    assert sql.rows(f"SELECT {select} FROM queuegate.topics WHERE {ours} {order}") == [
        (full, gate.database, 2, 4, 2, 0, 3, None),
        (empty, gate.database, None, None, 0, 0, 0, None),
    ]
    told = one(sql, f"SELECT * FROM queuegate.topics WHERE topic = '{full}'")
    assert told["last_minute"] == 3  # the ids from the first message of the last minute on
    assert told["bytes"] is None if gate.embedded else told["bytes"] > 0


def test_readers_of_a_topic_are_counted(sql, topic, stream):
    t = topic()
    stream(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast')")
    counted = f"SELECT readers FROM queuegate.topics WHERE topic = '{t}'"
    wait_until(lambda: sql.value(counted) == 1, what="the reader")


def test_groups_are_read_with_plain_sql(sql, gate, topic, stream):
    t = topic(billing="START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')", audit="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b'), ('c')")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing', prefetch = 2)")
    member.wait(2)
    told = one(sql, f"SELECT * FROM queuegate.`groups` WHERE topic = '{t}' AND group_name = 'billing'")
    assert (told["db"], told["queue"], told["paused"], told["members"]) == (gate.database, f"{t}_group_billing", 0, 1)
    assert told["in_flight"] == 2 and told["unread"] + told["ready"] == 1
    assert (told["holes"], told["dead"], told["counted"], told["problem"]) == (0, 0, "exact", None)
    lag = f"SELECT group_name, unread FROM queuegate.groups WHERE topic = '{t}' AND unread > 1 ORDER BY unread DESC"
    assert sql.rows(lag) == [("audit", 3)]
    joined = (
        "SELECT t.topic, g.group_name, t.last_offset - g.read_offset FROM queuegate.topics t"
        " JOIN queuegate.groups AS g ON g.topic = t.topic AND g.db = t.db"
        f" WHERE t.topic = '{t}' AND g.group_name = 'audit'"
    )
    assert sql.rows(joined) == [(t, "audit", 3)]


def test_the_age_of_the_oldest_unread_message(sql, topic):
    t = topic(g="START AT EARLIEST")
    age = f"SELECT oldest_unread_age FROM queuegate.groups WHERE topic = '{t}'"
    assert sql.value(age) is None
    sql(f"INSERT INTO {t} (body, time_created) VALUES ('a', (UNIX_TIMESTAMP() - 7200) * 1000000000), ('b', DEFAULT)")
    assert 7190 < sql.value(age) < 9000
    assert len(sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') NOWAIT")) == 2
    assert sql.value(age) is None


def test_what_a_group_has_out(sql, topic, stream):
    t = topic(g="START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')", other="")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    member.wait(2)
    rows = sql.rows(
        "SELECT group_name, id, epoch, connection_id FROM queuegate.group_in_flight"
        f" WHERE topic = '{t}' AND seconds_left > 60 ORDER BY id"
    )
    assert rows == [("g", 1, 1, member.id), ("g", 2, 1, member.id)]
    sql(f"ACK {t} 1 GROUP g")
    assert sql.column(f"SELECT id FROM queuegate.group_in_flight WHERE topic = '{t}'") == [2]


@pytest.mark.parametrize("table", ["topics", "groups", "group_in_flight"])
def test_they_are_known_as_the_others_are(sql, connect, table):
    described = [row[0] for row in sql.rows(f"DESCRIBE queuegate.{table}")]
    listed = f"information_schema.columns WHERE table_schema = 'queuegate' AND table_name = '{table}'"
    assert sql.column(f"SELECT column_name FROM {listed} ORDER BY ordinal_position") == described
    inside = connect(database="queuegate")
    with inside.connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} WHERE topic = 'no such topic'")
        assert [column[0] for column in cursor.description] == described
    # No name is a word that SQL would have to have quoted.
    assert sql.rows(f"SELECT {', '.join(described)} FROM queuegate.{table} WHERE topic = 'no such topic'") == []


@pytest.mark.parametrize(
    "column",
    [
        "priority SMALLINT",
        "epoch INT DEFAULT 7",
        "time_acked BIGINT DEFAULT 5",
        "time_next BIGINT DEFAULT 9000000000000000000",
        "last_error VARCHAR(5) DEFAULT 'x'",
        "queuegate_sought TINYINT DEFAULT 1",
    ],
)
def test_a_column_that_is_named_like_a_queues_own(sql, topic, column):
    """CREATE TOPIC refuses it, and ALTER TABLE is the user's: the state of a group's messages is never the topic's."""
    t, name = topic(g="START AT EARLIEST"), column.split()[0]
    sql(f"ALTER TABLE {t} ADD COLUMN {column}")
    sql(f"CREATE GROUP h ON {t} START AT EARLIEST")  # whose queue is made from the topic's definition
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    for group in "gh":
        received = f"SELECT id, body FROM STREAM {t} LIMIT 2 WAIT 30 WITH (group = '{group}')"
        assert sql.rows(received) == [(1, "a"), (2, "b")]
    assert f"do not get: {name}" in sql.value(f"SELECT problem FROM queuegate.topics WHERE topic = '{t}'")
    assert sql.column(f"SELECT problem FROM queuegate.groups WHERE topic = '{t}'") == [None, None]


def test_a_group_whose_order_key_is_gone_is_a_group(sql, topic):
    t = topic(g="START AT EARLIEST WITH (order_key = 'user_id', retain = 'until_consumed')")
    sql(f"ALTER TABLE {t}_group_g DROP COLUMN user_id")
    shown = one(sql, f"SELECT * FROM queuegate.`groups` WHERE topic = '{t}'")
    assert shown["group_name"] == "g" and "order_key: 'user_id' is not a column" in shown["problem"]
    with pytest.raises(pymysql.err.MySQLError, match=r"has consumer groups, .* first: g"):
        sql(f"DROP TOPIC {t}")
    for refused in (f"SELECT id FROM STREAM {t} NOWAIT WITH (group = 'g')", f"ALTER GROUP g ON {t} SEEK TO EARLIEST"):
        with pytest.raises(pymysql.err.MySQLError, match=rf"'{t}_group_g' is not a queue: order_key"):
            sql.rows(refused)
    sql(f"CREATE GROUP IF NOT EXISTS g ON {t}")
    assert sql(f"ACK {t} 1 GROUP g") == 0
    sql(f"ALTER GROUP g ON {t} SET (order_key = DEFAULT)")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    assert sql.rows(f"SELECT id, body FROM STREAM {t} LIMIT 1 WAIT 30 WITH (group = 'g')") == [(1, "a")]


def test_a_group_whose_order_key_is_gone_can_be_dropped(sql, topic):
    t = topic(g="WITH (order_key = 'user_id')")
    sql(f"ALTER TABLE {t}_group_g DROP COLUMN user_id")
    sql(f"DROP GROUP IF EXISTS g ON {t}")
    assert sql.column(f"SHOW TABLES LIKE '{t}%'") == [t]


def test_a_group_that_cannot_be_read_is_a_group(sql, topic):
    t = topic(g="", h="")
    sql(f"ALTER TABLE {t}_group_g COMMENT = 'vitess_message,vt_ack_wait=x,topic={t},consumer_group=g'")
    for refused in (
        f"DROP TOPIC {t}",
        f"DROP GROUP IF EXISTS g ON {t}",
        f"CREATE GROUP IF NOT EXISTS g ON {t}",
        f"ALTER GROUP g ON {t} PAUSE",
        f"ACK {t} 1",  # which of the two is not said
        f"SELECT id FROM STREAM {t} NOWAIT WITH (group = 'g')",
    ):
        with pytest.raises(
            pymysql.err.MySQLError, match=rf"'{t}_group_g', the queue of a .* cannot be read: .* DROP TABLE"
        ):
            sql.rows(refused)
    assert sql(f"ACK {t} 1 GROUP h") == 0
    sql(f"ALTER TOPIC {t} SET (retain = '1d')")
    sql("SET @queuegate_allow_drop_table = 1")
    sql(f"DROP TABLE {t}_group_g")
    sql(f"DROP GROUP h ON {t}")
    sql(f"DROP TOPIC {t}")
    assert sql.column(f"SHOW TABLES LIKE '{t}%'") == []


def test_a_time_within_a_long_statement(sql, topic):
    """Its rows have the time at which it began, and ids after those of messages that were written meanwhile."""
    t = topic()
    began = "UNIX_TIMESTAMP('2026-03-01 12:00:00') * 1000000000"
    sql(f"INSERT INTO {t} (body, time_created) VALUES ('a', {began} + 5), ('b', {began} + 5)")
    rows = ", ".join([f"('c', {began})"] * 1001)
    sql(f"INSERT INTO {t} (body, time_created) VALUES {rows}")
    at = "TIMESTAMP '2026-03-01 12:00:00'"
    assert sql.column(f"SELECT id FROM STREAM {t} SINCE {at} LIMIT 3") == [1, 2, 3]
    sql(f"CREATE GROUP g ON {t} START AT {at}")
    assert sql.value(f"SELECT read_offset FROM queuegate.groups WHERE topic = '{t}' AND group_name = 'g'") == 0
    broadcast = f"SELECT id FROM STREAM {t} LIMIT 3 NOWAIT WITH (mode = 'broadcast', start = '2026-03-01 12:00:00')"
    assert sql.column(broadcast) == [1, 2, 3]


def test_a_time_in_the_future(sql, topic):
    t = topic(g="")
    for begins in (
        f"CREATE GROUP h ON {t} START AT TIMESTAMP '2036-01-01'",
        f"ALTER GROUP g ON {t} SEEK TO TIMESTAMP '2036-01-01'",
        f"SELECT id FROM STREAM {t} NOWAIT WITH (mode = 'broadcast', start = '2036-01-01 00:00:00')",
    ):
        with pytest.raises(pymysql.err.MySQLError, match=r"1231, .TIMESTAMP is in the future"):
            sql.rows(begins)
    assert sql.column(f"SELECT group_name FROM queuegate.groups WHERE topic = '{t}'") == ["g"]

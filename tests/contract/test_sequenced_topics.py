"""Topics whose messages are numbered once they are committed (docs/topics.md#sequence): on one server here, and on a
cluster of three in tests/galera. What holds for any topic is in test_topics, which a cluster runs with numbers."""

from __future__ import annotations

import mysql.connector
import pymysql
import pytest
from servers import NUMBERED, wait_until

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]


@pytest.fixture
def gate(shared_gate):
    return shared_gate(retention_period="500ms")


@pytest.fixture
def topic(topic, place):
    """Makes topics with numbers; where there are none, the test is not for that place."""
    if place == "embedded":
        pytest.skip("ids are in order there; test_the_embedded_backend_has_no_use_for_it")

    def make(options="", columns="user_id BIGINT, body VARCHAR(100)", **groups):
        given = ", ".join(["sequence = 'on'", *([options] if options else [])])
        return topic(columns, options=f"WITH ({given})", **groups)

    return make


def numbers(sql, t):
    """The number of each message by its id, also of those that nobody has read."""
    return dict(sql.rows(f"SELECT id, queuegate_seq FROM {t}"))


def drained(sql, t, group="g"):
    return [row[0] for row in sql.rows(f"SELECT id FROM STREAM {t} WITH (group = '{group}') NOWAIT")]


def shown(sql, t):
    return sql.named(f"SHOW GROUPS ON {t}")[0]


def test_the_embedded_backend_has_no_use_for_it(sql, name, place):
    if place != "embedded":
        pytest.skip("it is of use there")
    for statement in (
        f"CREATE TOPIC {name} (n INT) WITH (sequence = 'on')",
        f"ALTER TOPIC {name} SET (sequence = 'on')",
    ):
        errno, text = sql.error(statement)
        assert (errno, "in the order of the commits" in text) == (1235, True), text
        sql(f"CREATE TOPIC IF NOT EXISTS {name} (n INT) WITH (sequence = 'off')")
    sql(f"DROP TOPIC {name}")


def test_a_broadcast_ends_where_offsets_change_their_meaning(sql, topic, stream):
    t = topic()
    reader = stream(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast')")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    reader.wait(1)
    sql(f"ALTER TOPIC {t} SET (sequence = 'off')")
    sql(f"INSERT INTO {t} (body) VALUES ('b')")
    assert reader.wait_end().args[0] == 1412


def test_a_message_is_numbered_when_it_is_committed(sql, connect, topic, stream):
    t = topic(g="", late="")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    everybody = stream(f"SELECT id, queuegate_seq FROM STREAM {t} WITH (mode = 'broadcast')")
    slow, gone = connect(autocommit=False), connect(autocommit=False)
    slow(f"INSERT INTO {t} (body) VALUES ('slow'), ('slow')")
    gone(f"INSERT INTO {t} (body) VALUES ('gone')")
    first = sql.insert_id(f"INSERT INTO {t} (body) VALUES ('quick')")
    assert member.wait(1) == [(first,)]
    gone("ROLLBACK")
    slow("COMMIT")
    late = sql.column(f"SELECT id FROM {t} WHERE body = 'slow' ORDER BY id")
    ids = [first, *late]
    assert sorted(row[0] for row in member.wait(3)) == sorted(ids)
    assert everybody.wait(3) == [(id_, number) for number, id_ in enumerate(ids, 1)]
    assert sorted(drained(sql, t, "late")) == sorted(ids)
    assert numbers(sql, t) == {id_: number for number, id_ in enumerate(ids, 1)}
    assert len(sql.rows(f"SELECT * FROM {t}")[0]) == 5  # it is not one of the columns that one asks for unnamed
    found = sql.named(f"SHOW GROUPS ON {t} LIKE 'g'")[0]
    assert (found["offset"], found["unread"], found["holes"], found["problem"]) == (3, 0, 0, None)
    extent = sql.named(f"SHOW TOPICS LIKE '{t}'")[0]
    assert (extent["first_offset"], extent["last_offset"], extent["messages"]) == (1, 3, 3)
    assert (extent["options"], extent["problem"]) == ("sequence = on", None)


def test_offsets_are_numbers(sql, connect, topic):
    t = topic(g="START AT EARLIEST")
    slow = connect(autocommit=False)
    slow(f"INSERT INTO {t} (user_id) VALUES (0)")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3)")
    assert len(drained(sql, t)) == 3
    slow("COMMIT")
    ids = [*sql.column(f"SELECT id FROM {t} WHERE user_id > 0 ORDER BY id"), sql.value(f"SELECT MIN(id) FROM {t}")]
    sql(f"CREATE GROUP late ON {t} START AT OFFSET 3")
    assert drained(sql, t, "late") == sorted(ids[2:])
    assert drained(sql, t) == ids[3:]  # the one with the smallest id
    assert sql(f"ACK {t} {ids[0]}, {ids[3]} GROUP g") == 2
    assert sql(f"ALTER GROUP g ON {t} SEEK TO OFFSET 2") == 2
    assert sql(f"ACK {t} {ids[1]} GROUP g") == 0  # of before the seek
    assert sorted(drained(sql, t)) == sorted(ids[1:])
    assert sql.column(f"SELECT id FROM STREAM {t} SINCE OFFSET 2 UNTIL OFFSET 3") == ids[1:3]
    assert sql.column(f"SELECT id FROM STREAM {t} SINCE EARLIEST") == ids
    broadcast = f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast', start = 4) NOWAIT"
    assert sql.column(broadcast) == ids[3:]
    assert sql.error(f"ALTER GROUP g ON {t} SEEK TO OFFSET 6")[0] == 1231
    traced = sql.rows(f"TRACE MESSAGE {ids[3]} ON {t}")
    assert {row[0]: row[1] for row in traced} == {"g": "in_flight", "late": "in_flight"}
    sql(f"CREATE GROUP new ON {t}")
    sql(f"INSERT INTO {t} (user_id) VALUES (4)")
    states = {row[0]: row[1] for row in sql.rows(f"TRACE MESSAGE {max(ids) + (3 if NUMBERED else 1)} ON {t}")}
    assert NUMBERED or states == dict.fromkeys(("g", "late", "new"), "unread")
    assert {row[0]: row[1] for row in sql.rows(f"TRACE MESSAGE {ids[3]} ON {t}")}["new"] == "done"


def test_a_replay_has_what_is_committed_when_it_is_asked_for(gate, sql, topic):
    t = topic()
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    assert sql.column(f"SELECT user_id FROM STREAM {t} SINCE EARLIEST WHERE user_id < 2") == [1]
    sql("BEGIN")
    sql(f"INSERT INTO {t} (user_id) VALUES (3)")
    assert sql.column(f"SELECT user_id FROM STREAM {t} SINCE OFFSET 2") == [2]  # its own has no number yet
    sql("COMMIT")
    with mysql.connector.connect(host="127.0.0.1", port=gate.port, user="root", database=gate.database) as client:
        cursor = client.cursor(prepared=True)
        cursor.execute(f"SELECT user_id FROM STREAM {t} SINCE OFFSET 2")
        assert cursor.fetchall() == [(2,), (3,)]


def test_a_beginning_at_a_time_comes_before_a_long_transactions_messages(sql, connect, topic):
    """They have the first times and the last numbers. Of as many as are looked at by their times."""
    t = topic()
    slow = connect(autocommit=False)
    slow(f"INSERT INTO {t} (user_id) VALUES {', '.join(['(0)'] * 1000)}")
    moment = sql.value("SELECT NOW(6)")
    sql(f"INSERT INTO {t} (user_id) VALUES (1)")
    assert sql.column(f"SELECT user_id FROM STREAM {t} SINCE EARLIEST") == [1]
    slow("COMMIT")
    sql(f"CREATE GROUP g ON {t} START AT TIMESTAMP '2020-01-01 00:00:00'")
    sql(f"CREATE GROUP h ON {t} START AT TIMESTAMP '{moment}'")
    assert shown(sql, t)["unread"] == 1001
    assert sql.named(f"SHOW GROUPS ON {t} LIKE 'h'")[0]["unread"] == 1001
    assert len(sql.column(f"SELECT id FROM STREAM {t} SINCE TIMESTAMP '{moment}'")) == 1


def test_nobody_else_numbers_a_message(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"CREATE TABLE IF NOT EXISTS {t}_from (n BIGINT)")
    for statement in (
        f"INSERT INTO {t} (body, queuegate_seq) VALUES ('a', 5)",
        f"INSERT INTO {t} SET body = 'a', `Queuegate_Seq` = 5",
        f"INSERT INTO {t} (queuegate_seq) SELECT n FROM {t}_from",
        f"INSERT INTO {t} (body) VALUES ('a') ON DUPLICATE KEY UPDATE queuegate_seq = 5",
        f"REPLACE INTO {t} (body, queuegate_seq) VALUES ('a', 5)",
        f"UPDATE {t} SET body = 'a', queuegate_seq = 5",
        f"UPDATE {t} AS x SET x.queuegate_seq = NULL WHERE id = 1",
    ):
        errno, text = sql.error(statement)
        assert (errno, "leave queuegate_seq out" in text) == (1235, True), (statement, text)
    sql(f"INSERT INTO {t} (body) VALUES ('queuegate_seq = 5')")
    assert len(drained(sql, t)) == 1
    assert sql(f"UPDATE {t} SET body = 'queuegate_seq' WHERE queuegate_seq = 1") == 1
    sql(f"DROP TABLE {t}_from")
    assert "leave it out" in sql.error("CREATE TOPIC refused (queuegate_seq INT)")[1]


def test_a_number_changes_nothing_else_of_a_message(sql, topic):
    t = topic(columns="n INT, at TIMESTAMP(6) NULL ON UPDATE CURRENT_TIMESTAMP(6), twice INT AS (n * 2) STORED", g="")
    sql(f"INSERT INTO {t} (n, at) VALUES (1, '2020-01-01')")
    assert len(drained(sql, t)) == 1
    assert sql.value(f"SELECT COUNT(*) FROM {t} WHERE at = '2020-01-01' AND twice = 2 AND queuegate_seq = 1") == 1


def test_a_locked_message_loses_its_turn(sql, connect, topic):
    if NUMBERED:
        pytest.skip("locks are a node's own; the step wins")
    t = topic(g="START AT EARLIEST")
    holder = connect(autocommit=False)

    def locked() -> int:
        """A message that is locked before it has a number; where it has one already, the next."""
        last = sql.value(f"SELECT COALESCE(MAX(id), 0) FROM {t}")
        sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
        holder(f"UPDATE {t} SET body = 'c' WHERE id = {last + 1}")
        if sql.value(f"SELECT queuegate_seq FROM {t} WHERE id = {last + 1}") is None:
            return int(last + 1)
        holder("COMMIT")
        assert drained(sql, t) == [last + 1, last + 2]
        return 0

    first = wait_until(locked, what="a message without a number to be locked")
    assert drained(sql, t) == [first + 1]
    assert shown(sql, t)["unread"] == 1  # it waits
    holder("COMMIT")
    wait_until(lambda: drained(sql, t) == [first], what="the message")
    assert numbers(sql, t)[first] == numbers(sql, t)[first + 1] + 1


def test_numbers_go_on_where_the_end_of_the_topic_was_deleted(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b'), ('c')")
    assert len(drained(sql, t)) == 3
    sql(f"DELETE FROM {t}")
    sql(f"ALTER GROUP g ON {t} SEEK TO OFFSET 4")
    assert sql.error(f"ALTER GROUP g ON {t} SEEK TO OFFSET 5")[0] == 1231
    sql(f"INSERT INTO {t} (body) VALUES ('d')")
    assert len(drained(sql, t)) == 1
    assert list(numbers(sql, t).values()) == [4]
    sql(f"DELETE FROM queuegate_positions WHERE group_table = '{t}'")  # as where it was not restored
    sql(f"INSERT INTO {t} (body) VALUES ('e')")
    assert len(drained(sql, t)) == 1
    assert sorted(numbers(sql, t).values()) == [4, 5]


def test_retention_goes_by_numbers(sql, connect, topic):
    t = topic("retain_rows = 2", slow="START AT EARLIEST", safe="START AT EARLIEST WITH (retain = 'until_consumed')")
    open_ = connect(autocommit=False)
    open_(f"INSERT INTO {t} (user_id) VALUES (0)")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3), (4)")
    assert len(drained(sql, t, "safe")) == 4
    sql(f"ACK {t} WHERE user_id IN (1, 3) GROUP safe")
    users = f"SELECT user_id FROM {t} ORDER BY queuegate_seq"
    wait_until(lambda: sql.column(users) == [2, 3, 4])
    open_("COMMIT")  # its id is the smallest, its number the largest
    assert len(drained(sql, t, "safe")) == 1
    sql(f"ACK {t} WHERE user_id > 0 GROUP safe")
    wait_until(lambda: sql.column(users) == [4, 0])
    assert {row["group"]: row["lost"] for row in sql.named(f"SHOW GROUPS ON {t}")} == {"slow": 3, "safe": 0}
    assert len(drained(sql, t, "slow")) == 2


def test_what_nobody_reads_is_numbered_and_deleted_too(sql, topic):
    t = topic("retain = '1s'")
    sql(f"INSERT INTO {t} (user_id) VALUES (1)")
    wait_until(lambda: not sql.column(f"SELECT user_id FROM {t}"))


def test_the_option_is_given_and_taken(sql, topic, stream):
    t = topic()
    sql(f"ALTER TOPIC {t} SET (sequence = 'off')")
    assert sql.error(f"SELECT queuegate_seq FROM {t}")[0] == 1054
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3)")
    sql(f"ALTER TOPIC {t} SET (sequence = 'on', retain = '30d')")
    sql(f"CREATE GROUP g ON {t} START AT OFFSET 2")
    assert len(drained(sql, t)) == 2
    for value in ("'off'", "DEFAULT"):
        errno, text = sql.error(f"ALTER TOPIC {t} SET (sequence = {value})")
        assert (errno, "DROP GROUP them first: g" in text) == (1235, True), text
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == "retain = 2592000s, sequence = on"
    assert "is unique" in sql.error(f"ALTER TOPIC {t} SET (partition = '1d')")[1]
    assert "neither 'on' nor 'off'" in sql.error(f"ALTER TOPIC {t} SET (sequence = 1)")[1]
    sql(f"DROP GROUP g ON {t}")
    sql(f"ALTER TOPIC {t} SET (sequence = DEFAULT)")
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == "retain = 2592000s"


def test_the_newest_of_a_value_has_the_largest_number(sql, connect, topic):
    t = topic("compact = 'user_id', compact_after = 0", g="START AT EARLIEST")
    slow = connect(autocommit=False)
    slow(f"INSERT INTO {t} (user_id, body) VALUES (1, 'late')")
    sql(f"INSERT INTO {t} (user_id, body) VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'd'), (NULL, 'e')")
    bodies = f"SELECT body FROM {t} ORDER BY queuegate_seq"
    wait_until(lambda: sql.column(bodies) == ["a", "c", "d", "e"])
    slow("COMMIT")  # a smaller id, and a larger number
    wait_until(lambda: sql.column(bodies) == ["c", "d", "e", "late"])
    assert len(drained(sql, t)) == 4
    assert shown(sql, t)["lost"] == 0
    sql(f"DROP GROUP g ON {t}")
    sql(f"ALTER TOPIC {t} SET (sequence = 'off')")  # the index follows
    sql(f"INSERT INTO {t} (user_id, body) VALUES (2, 'f')")
    wait_until(lambda: "c" not in sql.column(f"SELECT body FROM {t}"))
    sql(f"ALTER TOPIC {t} SET (sequence = 'on')")
    sql(f"INSERT INTO {t} (user_id, body) VALUES (2, 'g')")
    wait_until(lambda: "f" not in sql.column(f"SELECT body FROM {t}"))
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["problem"] is None


def test_a_topic_without_its_column_says_so(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (user_id) VALUES (1)")
    assert len(drained(sql, t)) == 1
    sql(f"ALTER TABLE {t} DROP COLUMN queuegate_seq")
    mend = f"ALTER TOPIC {t} SET (sequence = 'on')"
    for statement in (
        f"SELECT id FROM STREAM {t} WITH (group = 'g') NOWAIT",
        f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast', start = 'earliest') NOWAIT",
        f"SELECT id FROM STREAM {t} SINCE EARLIEST",
        f"ALTER GROUP g ON {t} SEEK TO EARLIEST",
    ):
        errno, text = sql.error(statement)
        assert (errno, mend in text) == (1235, True), (statement, text)
    assert mend in shown(sql, t)["problem"]
    assert mend in sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["problem"]
    sql(mend)
    sql(f"INSERT INTO {t} (user_id) VALUES (2)")

    def reads_again():
        try:
            return drained(sql, t)
        except pymysql.err.NotSupportedError:  # the group was in trouble, and is tried again by and by
            return []

    wait_until(reads_again, what="the messages, of which those that it had read have new numbers")

"""Topics: one message for many readers, by consumer groups, by broadcast and by replay (docs/topics.md)."""

from __future__ import annotations

import threading
import time
from random import Random

import mysql.connector
import pytest
from servers import NS, NUMBERED, topic_options, wait_until

pytestmark = pytest.mark.no_proxy_accounts


def groups(sql, t):
    """SHOW GROUPS, by the group's name."""
    return {row["group"]: row for row in sql.named(f"SHOW GROUPS ON {t}")}


def drained(sql, t, group):
    """What is due for a group, at once."""
    return sql.rows(f"SELECT * FROM STREAM {t} WITH (group = '{group}') NOWAIT")


def test_every_group_gets_every_message_once(sql, topic):
    t = topic(billing="START AT EARLIEST", audit="START AT EARLIEST")
    assert sql(f"INSERT INTO {t} (user_id, body) VALUES (7, 'a'), (8, 'b')") == 2
    assert sql.rows(f"SELECT * FROM {t} WHERE user_id = 8")[0][0] == 2  # looking up is plain SQL
    assert drained(sql, t, "billing") == [(1, 7, "a"), (2, 8, "b")]
    assert drained(sql, t, "billing") == []  # leased
    assert drained(sql, t, "audit") == [(1, 7, "a"), (2, 8, "b")]
    assert sql(f"ACK {t} 1, 2 GROUP billing") == 2
    assert sql(f"ACK {t} 1, 2 GROUP billing") == 0
    assert sql(f"ACK {t} 1 GROUP audit") == 1
    found = groups(sql, t)
    assert (found["billing"]["offset"], found["billing"]["unread"]) == (2, 0)
    assert sql.value(f"SELECT COUNT(*) FROM {t}") == 2  # a log keeps its messages


def test_the_lag_of_a_group_is_in_show_queue_status(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    group = groups(sql, t)["g"]["queue"]
    wait_until(
        lambda: [row["unread"] for row in sql.named(f"SHOW QUEUE STATUS LIKE '{group}'")] == [2], what="the lag of two"
    )


def test_a_group_costs_nothing_until_it_is_read(sql, topic):
    t = topic(sleeping="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b'), ('c')")
    found = groups(sql, t)["sleeping"]
    assert (found["offset"], found["unread"], found["counted"]) == (0, 3, "exact")
    assert sql.value(f"SELECT COUNT(*) FROM {found['queue']}") == 0


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [("", []), ("START AT LATEST", []), ("START AT EARLIEST", [1, 2, 3]), ("START AT OFFSET 2", [2, 3])],
)
def test_where_a_group_begins(sql, topic, beginning, expected):
    t = topic()
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b'), ('c')")
    sql(f"CREATE GROUP g ON {t} {beginning}")
    sql(f"INSERT INTO {t} (body) VALUES ('d')")
    assert [row[0] for row in drained(sql, t, "g")] == [*expected, 4]


def test_a_group_that_begins_at_a_time(sql, topic):
    t = topic()
    sql("SET time_zone = '+05:00'")
    for moment in ("2026-03-01 11:00:00", "2026-03-01 12:00:00", "2026-03-01 13:00:00"):
        sql(f"INSERT INTO {t} (body, time_created) VALUES ('{moment}', UNIX_TIMESTAMP('{moment}') * 1000000000)")
    sql(f"CREATE GROUP g ON {t} START AT TIMESTAMP '2026-03-01 12:00'")
    assert [row[0] for row in drained(sql, t, "g")] == [2, 3]
    assert sql.column(f"SELECT id FROM STREAM {t} SINCE TIMESTAMP '2026-03-01 12:00:00'") == [2, 3]
    assert sql.column(f"SELECT id FROM STREAM {t} SINCE EARLIEST UNTIL TIMESTAMP '2026-03-01 12:00:00'") == [1, 2]
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast', start = '2026-03-01 13:00') NOWAIT") == [(3,)]
    assert sql.error(f"CREATE GROUP h ON {t} START AT TIMESTAMP '2026-13-45'")[0] == 1231


def test_messages_are_pushed_to_the_members_of_each_group(sql, topic, stream):
    t = topic(billing="", audit="")
    members = [stream(f"SELECT * FROM STREAM {t} WITH (group = 'billing')") for _ in range(2)]
    audit = stream(f"SELECT id FROM STREAM {t} WITH (group = 'audit')")
    for body in "abcdef":
        sql(f"INSERT INTO {t} (body) VALUES (%s)", body)
    assert [row[0] for row in audit.wait(6)] == [1, 2, 3, 4, 5, 6]
    wait_until(lambda: sum(len(m.rows) for m in members) >= 6, what="the members to have all of them")
    assert sorted(row[0] for member in members for row in member.rows) == [1, 2, 3, 4, 5, 6]
    assert groups(sql, t)["billing"]["members"] == 2


def test_a_group_that_slept_is_pushed_to_again(sql, topic, stream):
    """poll_interval is 30 s: within the deadline only the commit can have told it."""
    t = topic(g="")
    first = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    assert first.wait(1) == [(1,)]
    first.close()
    wait_until(lambda: groups(sql, t)["g"]["members"] == 0, what="the member to be gone")
    sql(f"INSERT INTO {t} (body) VALUES ('b')")
    second = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    assert sorted(second.wait(2)) == [(1,), (2,)]
    sql(f"INSERT INTO {t} (body) VALUES ('c')")
    assert second.wait(3)[2] == (3,)


def test_a_rolled_back_message_is_nobodys(sql, connect, topic, stream):
    t = topic(g="")
    member = stream(f"SELECT id, body FROM STREAM {t} WITH (group = 'g')")
    everybody = stream(f"SELECT body FROM STREAM {t} WITH (mode = 'broadcast')")
    client = connect(autocommit=False)
    client(f"INSERT INTO {t} (body) VALUES ('gone')")
    client("ROLLBACK")
    client(f"INSERT INTO {t} (body) VALUES ('kept')")
    client("COMMIT")
    assert [row[1] for row in member.wait(1)] == ["kept"]
    assert everybody.wait(1) == [("kept",)]


def test_an_ack_is_part_of_the_applications_transaction(sql, connect, topic):
    t = topic(g="")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    assert len(drained(sql, t, "g")) == 1
    client = connect(autocommit=False)
    assert client(f"ACK {t} 1 GROUP g") == 1
    client("ROLLBACK")
    assert sql.value(f"SELECT COUNT(*) FROM {groups(sql, t)['g']['queue']}") == 1
    assert client(f"ACK {t} 1 GROUP g") == 1
    client("COMMIT")
    assert sql.value(f"SELECT COUNT(*) FROM {groups(sql, t)['g']['queue']}") == 0


def test_an_ack_in_an_open_transaction_holds_up_nothing_new(sql, connect, topic, place):
    t = topic(g="")
    client = connect(autocommit=False)
    acked = 0
    for count in (1, 2, 5):
        sql(f"INSERT INTO {t} (body) VALUES {', '.join(['(1)'] * count)}")
        found = [row[0] for row in drained(sql, t, "g")]  # and not an error: it waits for no lock
        assert len(found) == count
        acked += client(f"ACK {t} {', '.join(map(str, found))} GROUP g")
        if place == "embedded":  # where one transaction writes at a time
            client("COMMIT")
    client("COMMIT")
    assert acked == 8
    assert sql.value(f"SELECT COUNT(*) FROM {t}_group_g") == 0


def test_ids_that_become_visible_late_are_not_passed_over(sql, connect, topic, stream, place):
    if place == "embedded":
        pytest.skip("one writer at a time: ids become visible in their order")
    t = topic(g="", late="START AT LATEST")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    everybody = stream(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast')")
    slow, slower = connect(autocommit=False), connect(autocommit=False)
    slow(f"INSERT INTO {t} (body) VALUES ('1'), ('2')")
    slower(f"INSERT INTO {t} (body) VALUES ('3')")
    sql(f"INSERT INTO {t} (body) VALUES ('4')")
    assert member.wait(1) == [(4,)]
    assert everybody.wait(1) == [(4,)]
    sql(f"CREATE GROUP new ON {t}")  # what is not committed yet is new to it
    assert groups(sql, t)["g"]["holes"] == (0 if NUMBERED else 1)
    slower("COMMIT")
    assert member.wait(2) == [(4,), (3,)]
    slow("COMMIT")
    assert sorted(member.wait(4)) == [(1,), (2,), (3,), (4,)]
    assert sorted(everybody.wait(4)) == [(1,), (2,), (3,), (4,)]
    assert sorted(row[0] for row in drained(sql, t, "late")) == [1, 2, 3, 4]
    assert sorted(row[0] for row in drained(sql, t, "new")) == [1, 2, 3]
    assert groups(sql, t)["g"]["holes"] == 0


def test_a_beginning_at_a_time_counts_transactions_that_are_open(sql, connect, topic, place):
    if place == "embedded":
        pytest.skip("one writer at a time: ids become visible in their order")
    t = topic()
    slow = connect(autocommit=False)
    slow(f"INSERT INTO {t} (body) VALUES ('slow')")
    sql(f"INSERT INTO {t} (body) VALUES ('quick')")
    sql(f"CREATE GROUP g ON {t} START AT TIMESTAMP '2020-01-01 00:00:00'")
    assert [row[2] for row in drained(sql, t, "g")] == ["quick"]
    slow("COMMIT")
    assert [row[2] for row in drained(sql, t, "g")] == ["slow"]


def test_holes_of_rolled_back_transactions_are_given_up(sql, connect, topic, stream, place):
    t = topic(g="WITH (poll_interval = '500ms')")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    client = connect(autocommit=False)
    for _ in range(3):
        client(f"INSERT INTO {t} (body) VALUES ('gone')")
        client("ROLLBACK")
        sql(f"INSERT INTO {t} (body) VALUES ('kept')")
    assert len(member.wait(3)) == 3
    assert groups(sql, t)["g"]["holes"] == (0 if place == "embedded" or NUMBERED else 3)
    wait_until(lambda: groups(sql, t)["g"]["holes"] == 0, 60, "the holes to be given up")


def test_many_writers_and_many_readers_lose_nothing(sql, connect, topic, stream, place):
    """Transactions of random length, of which some are rolled back; each group gets exactly what was committed."""
    t = topic(one="", two="WITH (max_concurrency = 20)", three="WITH (order_key = 'user_id')")
    readers = {g: [stream(f"SELECT id FROM STREAM {t} WITH (group = '{g}')") for _ in range(2)] for g in ("one", "two")}
    readers["three"] = [stream(f"SELECT id FROM STREAM {t} WITH (group = 'three')")]
    everybody = stream(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast')")
    never = threading.Event()

    def settle(group, reader):
        client, taken = connect(), 0
        while rows := reader.more(taken):
            taken += len(rows)
            for start in range(0, len(rows), 5):
                ids = [row[0] for row in rows[start : start + 5]]
                client(f"ACK {t} {', '.join(map(str, ids))} GROUP {group}")

    committed: set[int] = set()

    def write(seed):
        random, client = Random(seed), connect(autocommit=False)
        for _ in range(12):
            ids = [client.insert_id(f"INSERT INTO {t} (user_id) VALUES ({random.randint(1, 5)})") for _ in range(3)]
            if place != "embedded":
                never.wait(random.random() / 50)
            if random.random() < 0.25:
                client("ROLLBACK")
            else:
                client("COMMIT")
                committed.update(ids)

    settlers = [threading.Thread(target=settle, args=(g, r)) for g, each in readers.items() for r in each]
    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for thread in (*settlers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    for group, each in readers.items():
        wait_until(lambda each=each: {i for r in each for i in r.ids()} == committed, 60, f"all messages for {group}")
    wait_until(lambda: set(everybody.ids()) == committed, 60, "all messages for the broadcast")

    def unfinished():
        found = groups(sql, t).values()
        return [each for each in found if each["unread"] or sql.value(f"SELECT COUNT(*) FROM {each['queue']}")]

    wait_until(lambda: not unfinished(), 60, "all acks")
    for reader in (reader for each in readers.values() for reader in each):
        reader.close()
    for thread in settlers:
        thread.join()
    assert len(everybody.ids()) == len(committed)


def test_what_fails_is_retried_and_goes_to_the_groups_own_dead_letters(sql, topic):
    t = topic(g="WITH (max_attempts = 2, ack_wait = '10s', min_backoff = '10ms', max_backoff = '20ms')", other="")
    sql(f"INSERT INTO {t} (user_id, body) VALUES (1, 'a'), (2, 'b')")
    assert len(drained(sql, t, "g")) == 2
    assert sql(f"NACK {t} 1 GROUP g REASON 'no'") == 1
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1 WAIT 10") == [(1,)]
    assert sql(f"REDRIVE {t} GROUP g") == 0  # nothing is dead, and there is no queue of dead letters yet
    assert [row[1:] for row in sql.rows("SHOW WARNINGS")] == [(1146, "Consumer group 'g' has no dead letters")]
    assert sql(f"NACK {t} 1 GROUP g DELAY '10ms' REASON 'no again'") == 1
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1 WAIT 1") == []
    assert sql(f"REJECT {t} 2 GROUP g REASON 'bad'") == 1
    dead = f"{groups(sql, t)['g']['queue']}_dead"
    wait_until(lambda: dead in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {dead}") == 2, what="the dead letters")
    assert sql.column(f"SELECT last_error FROM {dead} ORDER BY id") == ["no again", "bad"]
    assert len(drained(sql, t, "other")) == 2  # of the other group nothing has failed
    assert sql(f"REDRIVE {t} GROUP g WHERE id = 2") == 1
    assert drained(sql, t, "g") == [(2, 2, "b")]
    assert drained(sql, t, "other") == []


def test_the_other_verbs(sql, topic):
    t = topic(g="WITH (ack_wait = '1h', max_backoff = '2h')")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3)")
    assert len(drained(sql, t, "g")) == 3
    assert sql(f"RENEW {t} 1 GROUP g FOR '2h'") == 1
    assert sql(f"RELEASE {t} 2 GROUP g") == 1
    assert [row[0] for row in drained(sql, t, "g")] == [2]
    assert sql(f"NACK {t} WHERE user_id = 3 GROUP g DELAY '1h'") == 1
    (state,) = {row[1] for row in sql.rows(f"EXPLAIN DELIVERY FOR {t} GROUP g WHERE id = 3")}
    assert state == "retrying"
    assert sql(f"RETRY {t} GROUP g NOW") == 1
    assert [row[0] for row in drained(sql, t, "g")] == [3]
    assert sql(f"ACK {t} WHERE user_id > 1 GROUP g") == 2
    assert sql(f"ACK {t} (1)") == 1  # the only group need not be named


@pytest.mark.parametrize("clauses", ["", "WITH (order_key = 'user_id')"])
def test_a_seek_back_brings_everything_once_more(sql, topic, clauses):
    t = topic(g=clauses)
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3), (4)")
    assert len(drained(sql, t, "g")) == 4
    assert sql(f"ACK {t} 1, 2, 3 GROUP g") == 3
    assert sql(f"ALTER GROUP g ON {t} SEEK TO OFFSET 2") == 1
    assert "reads on from offset 2" in sql.rows("SHOW WARNINGS")[0][2]
    assert sql(f"ACK {t} 4 GROUP g") == 0
    sql(f"INSERT INTO {t} (user_id) VALUES (5)")
    assert [row[0] for row in drained(sql, t, "g")] == [2, 3, 4, 5]
    assert sql(f"ACK {t} 2, 3, 4, 5 GROUP g") == 4
    assert drained(sql, t, "g") == []


def test_an_ack_of_before_a_seek_ends_nothing(sql, topic, stream):
    t = topic(g="WITH (ack_wait = '1h', max_backoff = '2h')")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g', prefetch = 1)")
    assert member.wait(1) == [(1,)]
    sql(f"ALTER GROUP g ON {t} PAUSE")
    sql(f"ALTER GROUP g ON {t} SEEK TO EARLIEST")
    assert sql(f"ACK {t} 1 GROUP g") == 0
    sql(f"ALTER GROUP g ON {t} RESUME")
    assert member.wait(2)[1] == (1,)
    assert sql(f"ACK {t} 1 GROUP g") == 1
    assert member.wait(3)[2] == (2,)


def test_after_a_seek_an_id_alone_is_the_new_delivery(sql, connect, topic):
    """As in any queue: so a member of before the seek must name what it was sent by lease_token, or be stopped."""
    t = topic(g="START AT EARLIEST WITH (ack_wait = '1h')")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3)")
    received = f"SELECT id, lease_token FROM STREAM {t} LIMIT 3 NOWAIT WITH (group = 'g')"
    before = dict(sql.rows(received))
    sql(f"ALTER GROUP g ON {t} SEEK TO EARLIEST")
    other = connect()
    after = dict(other.rows(received))
    assert before.keys() == after.keys() == {1, 2, 3}
    late = f"WHERE id = 1 AND lease_token = {before[1]} GROUP g"
    assert [sql(f"{verb} {t} {late}") for verb in ("ACK", "NACK", "REJECT", "RELEASE")] == [0, 0, 0, 0]
    assert [sql(f"{verb} {t} {id_} GROUP g") for id_, verb in enumerate(("ACK", "REJECT"), 1)] == [1, 1]
    token = "WHERE id = {} AND lease_token = {} GROUP g"
    assert [other(f"ACK {t} {token.format(*delivery)}") for delivery in sorted(after.items())] == [0, 0, 1]


def test_a_seek_forward_skips(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3)")
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1") == [(1,)]
    sql(f"ALTER GROUP g ON {t} SEEK TO LATEST")
    sql(f"INSERT INTO {t} (user_id) VALUES (4)")
    assert [row[0] for row in drained(sql, t, "g")] == [4]
    number, text = sql.error(f"ALTER GROUP g ON {t} SEEK TO OFFSET 100")
    assert (number, "its last message was 4" in text) == (1231, True)


@pytest.mark.on_mysql
def test_a_topic_whose_newest_messages_are_deleted_goes_on_at_the_offset_after_them(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2), (3)")
    assert len(drained(sql, t, "g")) == 3
    for rest in ("id > 2", "TRUE"):
        sql(f"DELETE FROM {t} WHERE {rest}")
        assert sql.rows(f"SELECT id FROM STREAM {t} NOWAIT WITH (mode = 'broadcast', start = 4)") == []
        sql(f"ALTER GROUP g ON {t} SEEK TO OFFSET 4")
        sql(f"CREATE GROUP h ON {t} START AT OFFSET 4")
        assert {row["offset"] for row in groups(sql, t).values()} == {3}
        for beginning in (f"ALTER GROUP g ON {t} SEEK TO OFFSET 5", f"CREATE GROUP i ON {t} START AT OFFSET 5"):
            number, text = sql.error(beginning)
            assert (number, "its last message was 3" in text) == (1231, True)
        sql(f"DROP GROUP h ON {t}")
    sql(f"INSERT INTO {t} (user_id) VALUES (4)")
    assert [row[0] for row in drained(sql, t, "g")] == [4]


def test_a_paused_group_is_sent_nothing(sql, topic, stream):
    t = topic(g="")
    sql(f"ALTER GROUP g ON {t} PAUSE")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    sql(f"INSERT INTO {t} (user_id) VALUES (1)")
    assert drained(sql, t, "g") == []
    assert groups(sql, t)["g"]["paused"] == 1
    sql(f"ALTER GROUP g ON {t} RESUME")
    assert member.wait(1) == [(1,)]


def test_a_scheduled_message_comes_at_its_time_to_all(sql, topic, stream):
    t = topic(g="")
    member = stream(f"SELECT id, body FROM STREAM {t} WITH (group = 'g')")
    everybody = stream(f"SELECT id, body FROM STREAM {t} WITH (mode = 'broadcast')")
    due = time.time_ns() + 2 * NS
    sql(f"INSERT INTO {t} (body, time_scheduled) VALUES ('later', {due}), ('now', 0)")
    assert member.wait(2) == [(2, "now"), (1, "later")]
    assert everybody.wait(2) == [(2, "now"), (1, "later")]
    assert member.times[1] * NS >= due and everybody.times[1] * NS >= due


def test_a_broadcast_gives_every_message_to_everybody(sql, topic, stream):
    t = topic()
    sql(f"INSERT INTO {t} (body) VALUES ('old')")
    readers = [stream(f"SELECT id, body FROM STREAM {t} WITH (mode = 'broadcast')") for _ in range(3)]
    from_start = stream(f"SELECT body FROM STREAM {t} WITH (mode = 'broadcast', start = 'earliest') LIMIT 2")
    sql(f"INSERT INTO {t} (body) VALUES ('new')")
    for reader in readers:
        assert reader.wait(1) == [(2, "new")]
    assert from_start.wait(2) == [("old",), ("new",)]
    assert from_start.wait_end() is None
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast', start = 2) NOWAIT") == [(2,)]
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast') LIMIT 1 WAIT '100ms'") == []
    (row,) = sql.rows(f"SHOW TOPICS LIKE '{t}'")
    assert (*row[2:6], *row[-2:]) == (1, 2, 0, 3, topic_options(""), None)


def test_a_replay_ends_by_itself_and_moves_no_group(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (user_id, body) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    assert sql.rows(f"SELECT * FROM STREAM {t} SINCE OFFSET 2 UNTIL OFFSET 3") == [(2, 2, "b"), (3, 3, "c")]
    assert sql.rows(f"SELECT body FROM STREAM {t} WHERE user_id <> 2 SINCE EARLIEST LIMIT 2") == [("a",), ("c",)]
    assert sql.column(f"SELECT id FROM STREAM {t} UNTIL OFFSET 1") == [1]
    assert groups(sql, t)["g"]["unread"] == 4


def test_a_stream_of_a_group_with_a_condition(sql, topic, stream):
    t = topic(g="")
    evens = stream(f"SELECT id FROM STREAM {t} WHERE user_id % 2 = 0 WITH (group = 'g')")
    sql(f"INSERT INTO {t} (user_id) VALUES {', '.join(f'({n})' for n in range(1, 301))}")
    assert sorted(evens.wait(150)) == [(n,) for n in range(2, 301, 2)]
    assert len(sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 150 WAIT 10")) == 150


def test_a_key_keeps_its_order_in_each_group(sql, topic):
    t = topic(g="WITH (order_key = 'user_id')")
    sql(f"INSERT INTO {t} (user_id, body) VALUES (1, 'a'), (1, 'b'), (2, 'c'), (NULL, 'd')")
    assert sorted(drained(sql, t, "g")) == [(1, 1, "a"), (3, 2, "c"), (4, None, "d")]
    assert drained(sql, t, "g") == []
    assert sql(f"ACK {t} 1 GROUP g") == 1
    assert drained(sql, t, "g") == [(2, 1, "b")]


def test_values_of_every_type_arrive_unchanged(sql, topic):
    t = topic(
        "a INT NOT NULL, b DECIMAL(20,4), c DATETIME(3), d VARCHAR(50) CHARACTER SET utf8mb4 NOT NULL, e BLOB, f JSON,"
        " g INT AS (a * 2), `group` VARCHAR(10), `order` DOUBLE, UNIQUE KEY (d)",
        g="",
    )
    sql(
        f"INSERT INTO {t} (a, b, c, d, e, f, `group`, `order`) VALUES"
        " (1, 12345.6789, '2026-02-03 04:05:06.789', 'größe 😀', X'00FF27', '{\"k\": [1, null]}', NULL, 1.5)"
    )
    columns = "id, a, b, c, d, e, f, g, `group`, `order`"
    row = sql.row(f"SELECT {columns} FROM {t}")
    assert sql.rows(f"SELECT {columns} FROM STREAM {t} WITH (group = 'g') NOWAIT") == [row]
    assert sql.rows(f"SELECT * FROM STREAM {t} WITH (mode = 'broadcast', start = 'earliest') NOWAIT") == [row]


def test_prepared_statements(sql, gate, topic):
    t = topic(g="")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    client = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True
    )
    cursor = client.cursor(prepared=True)
    cursor.execute(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT ? NOWAIT", (1,))
    assert cursor.fetchall() == [(1,)]
    cursor.execute(f"ACK {t} ? GROUP g", (1,))
    assert cursor.rowcount == 1
    cursor.execute(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast', start = 'earliest') LIMIT ?", (2,))
    assert cursor.fetchall() == [(1,), (2,)]
    cursor.execute(f"SHOW GROUPS ON {t}")
    assert len(cursor.fetchall()) == 1
    client.close()


REFUSED = [
    ("CREATE TOPIC x (priority INT)", 1235, "no priorities"),
    ("CREATE TOPIC x (time_next BIGINT)", 1235, "leave it out"),
    ("CREATE TOPIC x (a INT PRIMARY KEY)", 1235, "numbers its messages"),
    ("CREATE TOPIC x (a INT, PRIMARY KEY (a))", 1235, "leave PRIMARY KEY out"),
    ("CREATE TOPIC x", 1064, "needs columns"),
    ("CREATE GROUP h ON nowhere", 1146, "nowhere"),
    ("CREATE GROUP `a-b` ON {t}", 1231, "not the name of a group"),
    ("CREATE GROUP h ON {t} WITH (topic = 'x')", 1231, "no option 'topic'"),
    ("CREATE GROUP h ON {t} WITH (order_key = 'nope')", 1231, "not a column"),
    ("CREATE GROUP h ON {t} START AT OFFSET 1000", 1231, "beyond the topic's end"),
    ("CREATE GROUP h ON {t} START AT YESTERDAY", 1064, "EARLIEST, LATEST"),
    ("CREATE GROUP g ON {t}", 1050, "exists"),
    ("CREATE QUEUE x (a INT) WITH (consumer_group = 'g')", 1231, "CREATE GROUP"),
    ("INSERT INTO {t} (id, user_id) VALUES (5, 1)", 1235, "leave id out"),
    ("INSERT INTO {t} SET user_id = 1, id = 5", 1235, "leave id out"),
    ("INSERT INTO {t} (id, user_id) SELECT 5, 1", 1235, "leave id out"),
    ("REPLACE INTO {t} (id, user_id) VALUES (5, 1)", 1235, "leave id out"),
    ("REPLACE INTO {t} SET `id` = 5", 1235, "leave id out"),
    ("INSERT INTO {t} (/*(*/id, user_id) VALUES (5, 1)", 1235, "leave id out"),
    ("INSERT INTO {t} (user_id, -- )\n `id`) VALUES (1, 5)", 1235, "leave id out"),
    ("INSERT INTO {t} SET body = 'a;b', id = 5", 1235, "leave id out"),
    ("INSERT INTO {t}_group_g (user_id) VALUES (5)", 1235, "fed from its topic"),
    ("CREATE GROUP G ON {t}", 1050, "already exists"),
    ("CREATE GROUP h ON {t} WITH (dead_letter = 'x')", 1231, "no option 'dead_letter'"),
    ("ALTER QUEUE {t}_group_g SET (topic = 'x')", 1231, "no option 'topic'"),
    ("ALTER QUEUE {t}_group_g SET (archive = 1)", 1231, "no option 'archive'"),
    ("UPDATE {t}_group_g SET state = 'acked' WHERE id = 1", 1235, "ACK {t}"),
    ("SELECT * FROM STREAM {t} SINCE TIMESTAMP '2026-02-30'", 1231, "not a date"),
    ("SELECT * FROM STREAM {t} UNTIL TIMESTAMP '9999-12-31'", 1231, "not a date"),
    ("SELECT * FROM STREAM {t} SINCE OFFSET 1 WAIT 5", 1235, "ends by itself"),
    ("SELECT * FROM STREAM {t}_group_g WITH (mode = 'broadcast')", 1231, "name the topic"),
    ("SELECT * FROM STREAM {t}_group_g WITH (group = 'h')", 1231, "name the topic"),
    ("SHOW GROUPS ON nowhere", 1146, "nowhere"),
    ("SHOW GROUPS FROM {t}", 1235, "say ON"),
    ("SHOW CONSUMERS FROM {t}", 1235, "say ON"),
    ("SELECT * FROM STREAM {t} WITH (group = 'nobody')", 1231, "there are g"),
    ("SELECT nope FROM STREAM {t} WITH (group = 'g')", 1054, "nope"),
    ("SELECT nope FROM STREAM {t} WITH (mode = 'broadcast')", 1054, "nope"),
    ("SELECT * FROM STREAM {t} WITH (mode = 'unicast')", 1231, "neither 'group' nor 'broadcast'"),
    ("SELECT * FROM STREAM {t} WITH (mode = 'broadcast', start = 'whenever')", 1231, "'earliest'"),
    ("SELECT * FROM STREAM {t} WITH (mode = 'broadcast', start = 900)", 1231, "beyond the topic's end"),
    ("SELECT * FROM STREAM {t} SINCE LATEST", 1235, "mode = 'broadcast'"),
    ("ACK {t} 1 GROUP nobody", 1231, "there are g"),
    ("ALTER GROUP g ON {t} SEEK TO NOWHERE", 1064, "EARLIEST"),
    ("ALTER GROUP g ON {t} SET (consumer_group = 'h')", 1231, "no option"),
    ("DROP TOPIC {t}", 1235, "DROP GROUP"),
    ("DROP TABLE {t}", 1347, "DROP TOPIC"),
    ("TRUNCATE TABLE {t}", 1347, "offsets anew"),
    ("DROP QUEUE {t}", 1347, "but a topic"),
    ("SELECT * FROM STREAM {t} GROUP g", 1235, "WITH (group = 'name')"),
]


@pytest.mark.parametrize(("statement", "number", "text"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_what_cannot_be_is_refused_with_a_reason(sql, topic, statement, number, text):
    t = topic(g="")
    found, message = sql.error(statement.format(t=t))
    assert (found, text.format(t=t) in message) == (number, True), message
    sql(f"INSERT INTO {t} (user_id) VALUES (1)")
    assert len(drained(sql, t, "g")) == 1


def test_several_groups_have_to_be_named(sql, topic):
    t = topic()
    assert "CREATE GROUP" in sql.error(f"ACK {t} 1")[1]
    sql(f"CREATE GROUP a ON {t}")
    sql(f"CREATE GROUP IF NOT EXISTS a ON {t}")
    sql(f"CREATE GROUP b ON {t}")
    assert sql.error(f"ACK {t} 1")[1].endswith("by GROUP g: a, b")
    sql(f"DROP GROUP b ON {t}")
    sql(f"DROP GROUP IF EXISTS b ON {t}")
    assert sql(f"ACK {t} 1") == 0
    assert sql.error(f"DROP GROUP b ON {t}")[0] == 1231


def test_a_group_made_again_begins_anew(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    assert len(drained(sql, t, "g")) == 2
    sql(f"DROP GROUP g ON {t}")
    sql(f"CREATE GROUP g ON {t} START AT EARLIEST")
    assert len(drained(sql, t, "g")) == 2
    sql(f"DROP GROUP g ON {t}")
    sql(f"CREATE GROUP g ON {t} START AT LATEST")
    assert drained(sql, t, "g") == []


def test_a_group_whose_position_is_gone_begins_with_the_first_message(sql, topic):
    """As after a dump was restored without the table of positions: messages come again, and none is lost."""
    t = topic(g="")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    assert len(drained(sql, t, "g")) == 2
    assert sql(f"ACK {t} 1") == 1
    sql(f"DELETE FROM queuegate_positions WHERE group_table = '{t}_group_g'")
    sql(f"INSERT INTO {t} (user_id) VALUES (3)")
    assert sorted(row[0] for row in drained(sql, t, "g")) == [1, 3]  # 2 is leased still


def test_dead_letters_of_before_a_seek_give_way(sql, topic):
    t = topic(g="START AT EARLIEST")
    dead = f"{t}_group_g_dead"
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    for reason in ("before", "after"):
        assert len(drained(sql, t, "g")) == 2
        sql(f"REJECT {t} 1, 2 GROUP g REASON '{reason}'")
        wait_until(lambda: dead in sql.column("SHOW QUEUES"), what="the dead-letter queue")
        ended = f"SELECT COUNT(*) FROM {dead} WHERE last_error = '{reason}'"
        wait_until(lambda ended=ended: sql.value(ended) == 2, what="the dead letters")
        sql(f"ALTER GROUP g ON {t} SEEK TO EARLIEST")
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1") == [(1,)]
    assert sql(f"REDRIVE {t} GROUP g") == 2  # both are in the group's queue already
    assert sql.value(f"SELECT COUNT(*) FROM {dead}") == 0
    assert sql(f"ACK {t} 1 GROUP g") == 1
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1") == [(2,)]
    sql(f"REJECT {t} 2 GROUP g")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {dead}") == 1, what="the dead letter")
    sql(f"DROP GROUP g ON {t}")
    assert dead not in sql.column("SHOW QUEUES")


@pytest.mark.parametrize("offset", ["LATEST", "EARLIEST"])
def test_a_seek_drops_no_dead_letter(sql, topic, offset):
    """Not even the group's first, for which the dead-letter queue has to be made."""
    t = topic(g="START AT EARLIEST")
    dead = f"{t}_group_g_dead"
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    assert len(drained(sql, t, "g")) == 2
    assert sql(f"REJECT {t} 1 GROUP g REASON 'bad'") == 1
    assert sql(f"ALTER GROUP g ON {t} SEEK TO {offset}") == 1
    wait_until(lambda: dead in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.rows(f"SELECT id, last_error FROM {dead}") == [(1, "bad")], what="the dead letter")
    assert [row[0] for row in drained(sql, t, "g")] == ([1, 2] if offset == "EARLIEST" else [])


def test_a_seek_keeps_what_cannot_be_moved_to_the_dead_letters(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"CREATE TABLE {t}_group_g_dead (id INT)")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    assert len(drained(sql, t, "g")) == 2
    assert sql(f"REJECT {t} 1 GROUP g REASON 'bad'") == 1
    assert sql(f"ALTER GROUP g ON {t} SEEK TO EARLIEST") == 1
    assert [row[0] for row in drained(sql, t, "g")] == [2]
    sql(f"DROP TABLE {t}_group_g_dead")
    wait_until(lambda: f"{t}_group_g_dead" in sql.column("SHOW QUEUES"), what="the dead-letter queue", timeout=60)
    wait_until(lambda: sql.column(f"SELECT id FROM {t}_group_g_dead") == [1], what="the dead letter")


def test_dead_letters_of_an_older_topic_of_that_name_stay(sql, topic):
    t = topic(g="START AT EARLIEST")
    dead, last = f"{t}_group_g_dead", f"SELECT last_error FROM {t}_group_g_dead ORDER BY time_dead"

    def die(reason):
        sql(f"INSERT INTO {t} (user_id) VALUES (1)")
        assert sql.rows(f"SELECT id FROM STREAM {t} LIMIT 1 WAIT 5 WITH (group = 'g')") == [(1,)]
        assert sql(f"REJECT {t} 1 GROUP g REASON '{reason}'") == 1
        wait_until(lambda: dead in sql.column("SHOW QUEUES"), what="the dead-letter queue")
        wait_until(lambda: reason in sql.column(last), what="the dead letter")

    def begin_anew(name):
        sql(f"RENAME TABLE {t} TO {name}")
        sql(f"CREATE TOPIC {t} (user_id BIGINT, body VARCHAR(100))")
        sql(f"ALTER GROUP g ON {t} SEEK TO EARLIEST")

    die("of the first")
    begin_anew(f"{t}_1")
    die("of the second")
    assert sql.column(last) == ["of the first", "of the second"]
    begin_anew(f"{t}_2")
    sql(f"INSERT INTO {t} (user_id) VALUES (1)")
    assert sql.rows(f"SELECT id FROM STREAM {t} LIMIT 1 WAIT 5 WITH (group = 'g')") == [(1,)]
    assert sql(f"REDRIVE {t} WHERE id = 1 GROUP g") == 0  # the group's message 1 is another
    assert sql.column(last) == ["of the first", "of the second"]
    assert sql(f"ACK {t} 1 GROUP g") == 1
    assert sql(f"REDRIVE {t} WHERE id = 1 GROUP g") == 1
    assert sql.column(last) == ["of the second"]
    sql(f"DROP TOPIC {t}_1")
    sql(f"DROP TOPIC {t}_2")


@pytest.mark.parametrize(("first", "second"), [("x", "x_dead"), ("x_dead", "x")])
def test_no_groups_queue_is_anothers_dead_letter_queue(sql, topic, first, second):
    t = topic(**{first: ""})
    number, text = sql.error(f"CREATE GROUP {second} ON {t}")
    assert (number, "one has the name of the other's dead-letter queue" in text) == (1231, True)
    assert list(groups(sql, t)) == [first]
    assert sql("CREATE GROUP IF NOT EXISTS " + first + f" ON {t}") == 0


def test_a_group_tells_what_is_wrong_with_it(sql, topic):
    t = topic("user_id BIGINT, body VARCHAR(10)", g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (user_id) VALUES (1), (2)")
    assert len(drained(sql, t, "g")) == 2
    assert groups(sql, t)["g"]["problem"] is None
    sql(f"ALTER TABLE {t} ADD COLUMN more INT")
    assert "columns differ from those of its topic: more" in groups(sql, t)["g"]["problem"]
    sql(f"ALTER TABLE {t} DROP COLUMN more")
    sql(f"DELETE FROM {t} WHERE id = 2")
    assert groups(sql, t)["g"]["problem"] is None  # as retention leaves one that is scheduled
    sql(f"RENAME TABLE {t} TO {t}_old")
    sql(f"CREATE TOPIC {t} (user_id BIGINT, body VARCHAR(10))")
    sql(f"INSERT INTO {t} (user_id) VALUES (1)")
    assert "up to offset 2, which its topic no longer has" in groups(sql, t)["g"]["problem"]
    sql(f"DROP TOPIC {t}_old")


def test_a_broadcast_continues_when_its_topic_is_altered(sql, topic, stream):
    t = topic("n INT, body VARCHAR(9), more INT", options="WITH (compact = 'n')")
    reader = stream(f"SELECT id, n FROM STREAM {t} WITH (mode = 'broadcast')")
    by_body = stream(f"SELECT body FROM STREAM {t} WITH (mode = 'broadcast')")
    insert = f"INSERT INTO {t} (n) VALUES ({{}})"
    sql(insert.format(1))
    assert reader.wait(1) == [(1, 1)] and by_body.wait(1) == [(None,)]
    for number, change in enumerate(
        (
            f"ALTER TOPIC {t} SET (compact = DEFAULT)",
            f"ALTER TABLE {t} DROP COLUMN more",
            f"ALTER TABLE {t} ADD COLUMN first_of_all INT FIRST",
            f"ALTER TABLE {t} DROP COLUMN body",
        ),
        2,
    ):
        sql(change)
        sql(insert.format(number))
        assert reader.wait(number)[-1] == (number, number)
    assert by_body.wait_end().args[0] == 1054


def test_readers_of_a_topic_that_is_dropped_end(sql, topic, stream):
    t = topic()
    reader = stream(f"SELECT * FROM STREAM {t} WITH (mode = 'broadcast')")
    sql(f"DROP TOPIC {t}")
    assert reader.wait_end().args[0] == 1146
    assert sql.error(f"SELECT * FROM STREAM {t} WITH (mode = 'broadcast')")[0] == 1146

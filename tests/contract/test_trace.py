"""TRACE MESSAGE: where one message of a topic is, for each of its groups."""

from __future__ import annotations

import pytest
from servers import NUMBERED, topic_options, wait_until

pytestmark = pytest.mark.no_proxy_accounts

HELD_LONG = "START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')"


def traced(sql, t, id_):
    """TRACE MESSAGE, by the group's name."""
    return {row["group"]: row for row in sql.named(f"TRACE MESSAGE {id_} ON {t}")}


def states(sql, t, id_):
    return {group: row["state"] for group, row in traced(sql, t, id_).items()}


def test_a_message_in_each_place_it_can_be(sql, topic, stream):
    t = topic(held=HELD_LONG, acked="START AT EARLIEST", sleeping="START AT EARLIEST", late="", failing=HELD_LONG)
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    assert states(sql, t, 1) == dict.fromkeys(("held", "acked", "sleeping", "late", "failing"), "unread")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'held', consumer = 'worker 7')")
    member.wait(2)
    for group in ("acked", "failing"):
        assert len(sql.rows(f"SELECT id FROM STREAM {t} WITH (group = '{group}') NOWAIT")) == 2
    sql(f"ACK {t} 1 GROUP acked")
    sql(f"NACK {t} 1 GROUP failing DELAY '1h' REASON 'card declined'")
    sql(f"ALTER GROUP late ON {t} SEEK TO OFFSET 3")
    found = traced(sql, t, 1)
    assert {group: row["state"] for group, row in found.items()} == {
        "held": "in_flight",
        "acked": "done",
        "sleeping": "unread",
        "late": "done",
        "failing": "retrying",
    }
    held, failing = found["held"], found["failing"]
    assert (held["attempts"], held["connection_id"], held["consumer"]) == (1, member.id, "worker 7")
    assert held["leased_until"] > held["enqueued"]
    assert (failing["attempts"], failing["leased_until"], failing["last_error"]) == (1, None, "card declined")
    assert all(row["explanation"] for row in found.values())
    assert found["acked"]["attempts"] is None


def test_a_message_without_the_time_of_its_insert(sql, name):
    """A column that somebody declared himself."""
    sql(f"CREATE QUEUE {name} (time_created BIGINT NULL, n INT)")
    sql(f"INSERT INTO {name} (n, time_created) VALUES (1, NULL)")
    (row,) = sql.named(f"TRACE MESSAGE 1 ON {name}")
    assert (row["state"], row["enqueued"]) == ("no_subscriber", None)
    sql(f"DROP QUEUE {name}")


def test_a_dead_letter_and_what_is_nowhere(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    assert len(sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') NOWAIT")) == 2
    sql(f"REJECT {t} 1 GROUP g")
    wait_until(lambda: states(sql, t, 1) == {"g": "dead"}, what="the dead letter")
    assert states(sql, t, 99) == {"g": "unknown"}
    sql(f"ACK {t} 2 GROUP g")
    sql(f"DELETE FROM {t} WHERE id = 2")
    assert states(sql, t, 2) == {"g": "unknown"}
    assert traced(sql, t, 2)["g"]["enqueued"] is None


def test_a_message_that_is_not_visible_is_awaited(sql, connect, topic, place):
    t = topic(g="START AT EARLIEST")
    if place == "embedded":  # one writer at a time: no id becomes visible late
        sql(f"INSERT INTO {t} (body) VALUES ('a')")
        assert states(sql, t, 1) == {"g": "unread"}
        return
    writer = connect(autocommit=False)
    writer(f"INSERT INTO {t} (body) VALUES ('late')")
    sql(f"INSERT INTO {t} (body) VALUES ('b')")
    assert sql.column(f"SELECT id FROM STREAM {t} WITH (group = 'g') NOWAIT") == [2]
    assert states(sql, t, 1) == {"g": "unknown" if NUMBERED else "awaited"}
    writer("COMMIT")
    wait_until(
        lambda: sql.column(f"SELECT id FROM STREAM {t} WITH (group = 'g') NOWAIT") == [1], what="the late message"
    )
    assert states(sql, t, 1) == {"g": "in_flight"}


def test_what_cannot_be_traced(sql, topic, queue):
    t, q = topic(), queue()
    assert sql.rows(f"TRACE MESSAGE 1 ON {t}") == []  # no groups
    assert sql.error("TRACE MESSAGE 1 ON nothing")[0] == 1146
    for name in (t, q):
        assert sql.error(f"TRACE MESSAGE 'a' ON {name}")[0] == 1366
        assert sql.error(f"TRACE MESSAGE 1, 2 ON {name}")[0] == 1064
        assert sql.error(f"TRACE MESSAGE 1 + 1 ON {name}")[0] == 1235
        assert sql.error(f"TRACE MESSAGE (SELECT 1) ON {name}")[0] == 1235
    assert sql.error(f"TRACE MESSAGE 1 OR 1 = 1 ON {q}")[0] == 1064
    assert sql.error(f"TRACE MESSAGE {10**30} ON {t}")[0] == sql.error(f"TRACE MESSAGE {10**30} ON {q}")[0] == 1366


def in_queue(sql, q, id_):
    """TRACE MESSAGE on a queue."""
    (row,) = sql.named(f"TRACE MESSAGE {id_} ON {q}")
    pieces = [] if row["history"] is None else [piece.split(" ", 2)[2] for piece in row["history"].split("; ")]
    return row | {"history": [piece.split(" to ")[0].split(":")[0] for piece in pieces]}


def test_a_message_of_a_queue(sql, queue, stream):
    q = queue(ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (payload, time_scheduled) VALUES ('a', 0), ('b', 0), ('later', 9000000000000000000)")
    first, second, later = sql.column(f"SELECT id FROM {q} ORDER BY id")
    assert in_queue(sql, q, first)["state"] == "no_subscriber"
    member = stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'worker 7')")
    member.wait(2)
    held = in_queue(sql, q, first)
    assert (held["group"], held["state"], held["attempts"], held["history"]) == (None, "in_flight", 1, ["sent"])
    assert (held["connection_id"], held["consumer"]) == (member.id, "worker 7")
    assert held["leased_until"] > held["enqueued"]
    assert in_queue(sql, q, later)["state"] == "scheduled"
    sql(f"NACK {q} {first} DELAY '1h' REASON 'card declined'")
    nacked = in_queue(sql, q, first)
    assert (nacked["state"], nacked["last_error"], nacked["history"]) == (
        "retrying",
        "card declined",
        ["sent", "nacked"],
    )
    sql(f"ACK {q} {second}")
    assert in_queue(sql, q, second)["state"] == "acked"
    assert in_queue(sql, q, second)["history"] == ["sent", "acked"]
    sql(f"REJECT {q} {first}")
    wait_until(lambda: in_queue(sql, q, first)["state"] == "dead", what="the dead letter")
    assert in_queue(sql, q, first)["history"] == ["sent", "nacked", "rejected", "dead-lettered"]
    gone = in_queue(sql, q, 99)
    assert (gone["state"], gone["history"], gone["enqueued"], gone["attempts"]) == ("unknown", [], None, None)
    assert "never committed" in gone["explanation"]


def test_messages_of_queues_with_other_ids(sql, queue):
    q = queue("id VARCHAR(40) PRIMARY KEY, payload TEXT")
    texts = {"plain": "'plain'", "it's": "'it''s'", "5": "5", "Ä-1": "'Ä-1'"}
    for id_ in texts:
        sql(f"INSERT INTO {q} (id, payload) VALUES (%s, 'x')", id_)
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 4 WAIT 20")) == 4
    for literal in texts.values():
        assert in_queue(sql, q, literal)["history"] == ["sent"]
    assert in_queue(sql, q, "'none'")["state"] == "unknown"
    b = queue("id VARBINARY(16) PRIMARY KEY, payload TEXT")
    sql(f"INSERT INTO {b} (id, payload) VALUES (X'00ff27', 'x')")
    assert len(sql.rows(f"SELECT id FROM STREAM {b} LIMIT 1 WAIT 20")) == 1
    assert in_queue(sql, b, "X'00ff27'")["history"] == ["sent"]
    assert in_queue(sql, b, "X'aa'")["state"] == "unknown"


def test_the_queue_of_a_group_is_a_queue(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    assert sql.column(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1 WAIT 20") == [1]
    row = in_queue(sql, f"{t}_group_g", 1)
    assert (row["group"], row["state"], row["history"]) == ("g", "in_flight", ["sent"])


def history(sql, t, id_, group="g"):
    """What was recorded of a message, without the times."""
    told = traced(sql, t, id_)[group]["history"]
    return [] if told is None else [piece.split(" ", 2)[2] for piece in told.split("; ")]


def whats(sql, t, id_):
    return [piece.split(" by ")[0].split(" to ")[0].split(":")[0] for piece in history(sql, t, id_)]


def test_the_history_of_a_message(sql, topic, stream):
    t = topic(g=HELD_LONG)
    assert history(sql, t, 1) == []
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g', consumer = 'worker 7')")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    member.wait(1)
    sql(f"NACK {t} 1 GROUP g REASON 'card declined'")
    member.wait(2)
    sql("BEGIN")
    sql(f"ACK {t} 1 GROUP g")
    assert len(history(sql, t, 1)) == 3  # not yet
    sql("ROLLBACK")
    assert len(history(sql, t, 1)) == 3
    sql(f"ACK {t} 1 GROUP g")
    first, nacked, second, acked = history(sql, t, 1)
    assert first.startswith(f"sent to worker 7, connection {member.id} (root@127.0.0.1")
    assert first.endswith(", delivery 1") and second.endswith(", delivery 2")
    assert nacked == "nacked: card declined"
    assert acked == "acked"
    assert sql(f"ACK {t} 1 GROUP g") == 0
    assert len(history(sql, t, 1)) == 4  # what changed nothing is not recorded


def test_how_else_a_delivery_ends(sql, topic, stream):
    t = topic(g="START AT EARLIEST WITH (ack_wait = '1s', min_backoff = '0s', max_backoff = '1s', max_attempts = 5)")
    sql(f"INSERT INTO {t} (body) VALUES ('expires'), ('rejected'), ('by condition'), ('left'), ('released')")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g', ack_wait = '1m')")
    member.wait(5)
    sql(f"REJECT {t} 2 GROUP g REASON 'bad'")
    sql(f"RENEW {t} 5 GROUP g FOR '5m'")
    sql(f"RELEASE {t} 5 GROUP g")
    wait_until(lambda: whats(sql, t, 5)[:4] == ["sent", "renewed", "released", "sent"], what="it to come again")
    wait_until(lambda: whats(sql, t, 2) == ["sent", "rejected", "dead-lettered"], what="the dead letter")
    sql(f"ACK {t} WHERE body LIKE 'by%' GROUP g")
    wait_until(lambda: whats(sql, t, 3) == ["sent", "ended"], what="the ack by a condition to be found")
    member.close()
    wait_until(lambda: "given back" in whats(sql, t, 4), what="the messages to be given back")
    stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')").wait(3)
    wait_until(lambda: "lease ended" in whats(sql, t, 1), what="the lease to end")


def test_the_lease_of_a_result_that_has_ended_ends(sql, queue):
    """Nobody holds it, and no receiver comes to whom the message would go."""
    q = queue(ack_wait="'1s'", min_backoff="'0s'", max_backoff="'1s'")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('acked')")
    first, acked = sql.column(f"SELECT id FROM STREAM {q} LIMIT 2 WAIT 20 WITH (consumer = 'batch 7')")
    sql(f"ACK {q} {acked}")
    wait_until(lambda: len(in_queue(sql, q, first)["history"]) == 2, what="the end of the lease")
    assert in_queue(sql, q, first)["history"][1].startswith("lease ended by batch 7, connection ")
    assert in_queue(sql, q, acked)["history"] == ["sent", "acked"]


def test_records_are_a_table(sql, topic, stream):
    t, u = topic(g=HELD_LONG), topic(g=HELD_LONG)
    for one in (t, u):
        sql(f"INSERT INTO {one} (body) VALUES ('a'), ('b')")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g', consumer = 'worker 7')")
    member.wait(2)
    sql(f"NACK {t} 2 GROUP g DELAY '1h' REASON 'it''s late'")
    columns = "queue, group_name, id, event, certain, attempt, connection_id, user, consumer, reason"
    rows = sql.rows(f"SELECT {columns} FROM queuegate.traces WHERE topic = '{t}' ORDER BY at, event DESC, id")
    queue, to = f"{t}_group_g", (member.id, "root", "worker 7", None)
    assert rows == [
        (queue, "g", "1", "sent", 1, 1, *to),
        (queue, "g", "2", "sent", 1, 1, *to),
        (queue, "g", "2", "nacked", 1, None, None, None, None, "it's late"),
    ]
    assert sql.value(f"SELECT COUNT(DISTINCT proxy) FROM queuegate.traces WHERE topic = '{t}'") == 1
    assert sql.rows(f"SELECT * FROM queuegate.traces WHERE topic = '{u}'") == []


def test_plain_queues_are_in_it(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    ((id_,),) = sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 20")
    sql(f"DELETE FROM {q} WHERE id = {id_}")
    rows = sql.rows(
        f"SELECT topic, group_name, event FROM queuegate.traces WHERE queue = '{q}' ORDER BY at, event DESC"
    )
    assert rows == [(None, None, "sent"), (None, None, "deleted")]


def test_a_topic_is_traced_as_it_says(sql, topic):
    t = topic(g="START AT EARLIEST")
    sql(f"ALTER TOPIC {t} SET (trace = 'off')")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    assert len(sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1 WAIT 20")) == 1
    sql(f"ACK {t} 1 GROUP g")
    assert history(sql, t, 1) == []
    assert [row[9] for row in sql.rows(f"SHOW TOPICS LIKE '{t}'")] == [topic_options("trace = off")]
    sql(f"ALTER TOPIC {t} SET (trace = DEFAULT)")
    sql(f"INSERT INTO {t} (body) VALUES ('b')")
    assert sql.rows(f"SELECT id FROM STREAM {t} WITH (group = 'g') LIMIT 1 WAIT 20") == [(2,)]
    assert whats(sql, t, 2) == ["sent"]
    for wrong in ("'maybe'", "'0%'", "'101%'", "5", "''"):
        assert sql.error(f"ALTER TOPIC {t} SET (trace = {wrong})")[0] == 1231


@pytest.mark.parametrize(
    ("type_", "id_"),
    [
        ("BINARY(16)", "X'00112233445566778899aabbccddeeff'"),
        ("VARBINARY(8)", "0x0a0b"),
        ("DECIMAL(15, 0)", "123456789012345"),
        ("DATE", "'2026-01-02'"),
    ],
)
def test_a_dead_letter_of_any_key_is_traced(sql, queue, type_, id_):
    q = queue(f"id {type_} PRIMARY KEY, n INT")
    sql(f"INSERT INTO {q} (id, n) VALUES ({id_}, 1)")
    sql(f"REJECT {q} {id_} REASON 'no such card'")
    wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), what="the move")
    (row,) = sql.named(f"TRACE MESSAGE {id_} ON {q}")
    assert row["state"] == "dead" and "dead-lettered" in row["history"], row

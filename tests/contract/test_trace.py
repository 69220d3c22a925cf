"""TRACE MESSAGE: where one message of a topic is, for each of its groups."""

from __future__ import annotations

from servers import wait_until

HELD_LONG = "START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')"


def traced(sql, t, id_):
    """TRACE MESSAGE, by the group's name."""
    with sql.connection.cursor() as cursor:
        cursor.execute(f"TRACE MESSAGE {id_} ON {t}")
        names = [column[0].lower() for column in cursor.description]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}


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
    assert states(sql, t, 1) == {"g": "awaited"}
    writer("COMMIT")
    wait_until(
        lambda: sql.column(f"SELECT id FROM STREAM {t} WITH (group = 'g') NOWAIT") == [1], what="the late message"
    )
    assert states(sql, t, 1) == {"g": "in_flight"}


def test_what_cannot_be_traced(sql, topic, queue):
    t, q = topic(), queue()
    assert sql.rows(f"TRACE MESSAGE 1 ON {t}") == []  # no groups
    assert sql.error(f"TRACE MESSAGE 1 ON {q}")[0] == 1235
    assert sql.error("TRACE MESSAGE 1 ON nothing")[0] == 1146
    assert sql.error(f"TRACE MESSAGE 'a' ON {t}")[0] == 1064

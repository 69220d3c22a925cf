"""SHOW CONSUMERS and queuegate.consumers: who reads topics, what each holds, and what it waits for."""

from __future__ import annotations

import os

from servers import wait_until

HELD_LONG = "START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')"


def consumers(sql, t):
    """SHOW CONSUMERS of a topic, by connection."""
    return {row["connection_id"]: row for row in sql.named(f"SHOW CONSUMERS ON {t}")}


def test_members_and_readers_with_their_names(sql, gate, topic, stream):
    t = topic(billing=HELD_LONG, audit="")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    named = stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing', consumer = 'worker 7')")
    second = stream(f"SELECT id FROM STREAM {t} WITH (group = 'audit', consumer = 'worker 8')", program_name="reports")
    by_program = stream(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast')", program_name="screen")
    silent = stream(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast', start = 'earliest')")
    for receiver in (named, second, silent):
        receiver.wait(2)
    wait_until(
        lambda: {row["waits_for"] for row in consumers(sql, t).values()} == {"messages"}, what="all of them to wait"
    )
    found = consumers(sql, t)
    assert found.keys() == {named.id, second.id, by_program.id, silent.id}
    told = [(r["group"], r["consumer"], r["in_flight"], r["sent"]) for r in (found[s.id] for s in (named, second))]
    assert told == [("billing", "worker 7", 2, 2), ("audit", "worker 8", 2, 2)]
    told = [(r["group"], r["consumer"], r["in_flight"], r["sent"]) for r in (found[s.id] for s in (by_program, silent))]
    assert told == [(None, "screen", 0, 0), (None, None, 0, 2)]
    for row in found.values():
        assert (row["topic"], row["database"], row["user"], row["pid"]) == (t, gate.database, "root", os.getpid())
        assert row["host"].startswith("127.0.0.1:") and len(row["since"]) > 10


def test_what_a_member_waits_for(sql, topic, stream):
    t = topic(g=HELD_LONG)
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b')")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g', prefetch = 1)")
    member.wait(1)

    def waits_for(what):
        asked = f"SELECT waits_for FROM queuegate.consumers WHERE topic = '{t}' AND connection_id = {member.id}"
        wait_until(lambda: sql.column(asked) == [what], what=f"it to wait for {what}")

    waits_for("acks")
    sql(f"ACK {t} {member.wait(1)[0][0]} GROUP g")
    sql(f"ACK {t} {member.wait(2)[1][0]} GROUP g")
    waits_for("messages")
    sql(f"ALTER GROUP g ON {t} PAUSE")
    waits_for("resume")
    sql(f"ALTER GROUP g ON {t} RESUME")
    waits_for("messages")


def test_a_member_that_waits_for_the_rate(sql, topic, stream):
    t = topic(g="START AT EARLIEST WITH (max_rate = '0.01')")
    sql(f"INSERT INTO {t} (body) VALUES ('a'), ('b'), ('c')")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'g')")
    member.wait(1)
    asked = f"SELECT waits_for FROM queuegate.consumers WHERE topic = '{t}'"
    wait_until(lambda: sql.column(asked) == ["rate"], what="it to wait for the rate")


def test_which_are_shown(sql, queue, topic, stream):
    one, other, q = topic(g=""), topic(g=""), queue()
    for name in ("alpha", "beta"):
        stream(f"SELECT id FROM STREAM {one} WITH (consumer = '{name}')")
    stream(f"SELECT id FROM STREAM {other} WITH (mode = 'broadcast', consumer = 'gamma')")
    stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'of a queue')")
    assert sorted(row[6] for row in sql.rows("SHOW CONSUMERS")) == ["alpha", "beta", "gamma"]
    assert sorted(row[6] for row in sql.rows("SHOW CONSUMERS LIKE '%%a%%'")) == ["alpha", "beta", "gamma"]
    assert [row[6] for row in sql.rows(f"SHOW CONSUMERS ON {one} LIKE 'b%%'")] == ["beta"]
    assert [row[6] for row in sql.rows(f"SHOW CONSUMERS ON {other}")] == ["gamma"]
    assert sql.rows("SHOW CONSUMERS FROM nowhere") == []
    assert sql.error(f"SHOW CONSUMERS ON {q}")[0] == 1235
    assert sql.error("SHOW CONSUMERS ON nothing")[0] == 1146
    counted = "SELECT COUNT(*) FROM queuegate.consumers WHERE topic = '{}' GROUP BY topic, group_name"
    assert sql.value(counted.format(one)) == 2


def test_a_receiver_of_a_queue_has_a_name_too(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'größe')").wait(1)
    told = f"FROM queuegate.subscriptions WHERE queue = '{q}'"
    assert sql.rows(f"SELECT consumer, pid {told}") == [("größe", os.getpid())]
    assert sql.column(f"SELECT consumer FROM queuegate.in_flight WHERE queue = '{q}'") == ["größe"]
    for bad in ("''", "'" + "x" * 65 + "'"):
        assert sql.error(f"SELECT id FROM STREAM {q} WITH (consumer = {bad}) NOWAIT")[0] == 1231

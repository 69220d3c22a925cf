"""Sticky and exclusive keys: each receiver has a part of the ring that the proxies assign (docs/key-ranges.md)."""

from __future__ import annotations

import pytest
from servers import wait_until
from test_key_ranges import enqueue, slot_of

from engine.model.key_range import WHOLE, shown_key_range, union

pytestmark = pytest.mark.no_proxy_accounts

USERS = range(60)


@pytest.fixture
def sharded(queue):
    def make(**options):
        return queue("user_id BIGINT NOT NULL, body TEXT", sharding_key="'user_id'", **options)

    return make


def parts(sql, q):
    """The key range of each receiver, by its name in SHOW SUBSCRIPTIONS."""
    rows = sql.rows(f"SHOW SUBSCRIPTIONS LIKE '{q}'")
    return {row[13]: shown_key_range(row[-2] or "") for row in rows}


def parted(sql, q, *names):
    """The same once these have the whole ring between them, and nothing twice."""

    def done():
        seen = parts(sql, q)
        spans = [span for key_range in seen.values() for span in key_range.spans]
        length = sum(span.last - span.first + 1 for span in spans)
        return seen.keys() == set(names) and union(spans) == WHOLE and length == 1 << 16

    wait_until(done, what="the ring to be divided")
    return parts(sql, q)


def of(key_range, users=USERS):
    return [user for user in users if key_range.covers(slot_of(user))]


def test_receivers_divide_the_ring_and_divide_it_again(sql, sharded, stream):
    q = sharded()
    read = f"SELECT user_id FROM STREAM {q} WITH (keys = 'sticky', consumer = '%s')"
    streams = {name: stream(read % name) for name in ("a", "b")}
    two = parted(sql, q, "a", "b")
    enqueue(sql, q, "user_id", *((user,) for user in USERS))
    for name, receiver in streams.items():
        receiver.wait(len(of(two[name])))
        assert receiver.ids() == of(two[name]) != []
    streams["c"] = stream(read % "c")
    three = parted(sql, q, "a", "b", "c")
    (lone,) = [user for user in range(100, 1000) if three["c"].covers(slot_of(user))][:1]
    sql(f"INSERT INTO {q} (user_id) VALUES (%s)", lone)
    assert streams["c"].wait(1) == [(lone,)]
    streams["b"].close()
    parted(sql, q, "a", "c")
    assert {row[-1] for row in sql.rows(f"SHOW SUBSCRIPTIONS LIKE '{q}'")} == {"sticky"}
    rows = sql.rows(f"SHOW QUEUE {q} RANGES")
    assert [row[1] for row in rows] == [1, 1] and sum(row[2] + row[3] + row[4] for row in rows) == len(USERS) + 1


def test_what_a_full_owner_does_not_take_goes_to_another(sql, sharded, stream):
    q = sharded(sticky_wait="'100ms'")
    full = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'sticky', consumer = 'full', prefetch = 1)")
    other = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'sticky', consumer = 'other')")
    parted(sql, q, "full", "other")
    enqueue(sql, q, "user_id", *((user,) for user in USERS))
    other.wait(len(USERS) - 1)
    assert sorted(full.ids() + other.ids()) == list(USERS) and len(full.ids()) == 1


def test_what_an_exclusive_owner_does_not_take_waits_for_it(sql, sharded, stream):
    q = sharded(sticky_wait="'50ms'")
    read = f"SELECT user_id, id FROM STREAM {q} WITH (keys = '%s', consumer = '%s', prefetch = %d)"
    owner = stream(read % ("exclusive", "owner", 1))
    other = stream(read % ("sticky", "other", 1000))
    seen = parted(sql, q, "owner", "other")
    enqueue(sql, q, "user_id", *((user,) for user in USERS))
    other.wait(len(of(seen["other"])))
    waits = of(seen["owner"])[1]
    owner.wait(1)
    explained = f"EXPLAIN DELIVERY FOR {q} WHERE user_id = {waits}"
    wait_until(lambda: sql.row(explained)[1] == "windows_full", what="the owner to be full")
    for taken in range(1, len(of(seen["owner"])) + 1):
        sql(f"ACK {q} {owner.wait(taken)[-1][1]}")
    assert owner.ids() == of(seen["owner"]) and other.ids() == of(seen["other"])


def test_the_messages_of_one_that_is_gone_go_to_the_others(sql, sharded, stream):
    q = sharded(ack_wait="'1h'", max_backoff="'2h'", min_backoff="'1s'")
    gone = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'exclusive', consumer = 'gone')")
    stays = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'sticky', consumer = 'stays')")
    seen = parted(sql, q, "gone", "stays")
    enqueue(sql, q, "user_id", *((user,) for user in USERS))
    gone.wait(len(of(seen["gone"])))
    gone.close()
    stays.wait(len(USERS))
    assert sorted(stays.ids()) == list(USERS)


def test_one_that_polls_has_its_part_until_its_connection_ends(sql, sharded, stream, gate):
    q = sharded(sticky_wait="'1h'")
    other = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'sticky', consumer = 'other')")
    with gate.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT user_id FROM STREAM {q} LIMIT 100 NOWAIT WITH (keys = 'sticky')")
        wait_until(lambda: parts(sql, q)["other"] != WHOLE, what="a member that polls")
        own = parts(sql, q)["other"]
        enqueue(sql, q, "user_id", *((user,) for user in USERS))
        assert [user for (user,) in other.wait(len(of(own)))] == of(own)
        cursor.execute(f"SELECT user_id FROM STREAM {q} LIMIT 100 WAIT 10 WITH (keys = 'sticky')")
        assert sorted([user for (user,) in cursor.fetchall()] + other.ids()) == list(USERS)
    wait_until(lambda: parts(sql, q)["other"] == WHOLE, what="the end of a member that polls")


def test_a_queue_that_is_made_again_has_no_receivers_of_before(sql, sharded, stream, gate):
    q = sharded()
    made = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    with gate.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT user_id FROM STREAM {q} LIMIT 100 NOWAIT WITH (keys = 'exclusive')")
        sql(f"DROP QUEUE {q}")
        sql(made)
        receiver = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'exclusive', consumer = 'new')")
        parted(sql, q, "new")
        enqueue(sql, q, "user_id", *((user,) for user in USERS))
        assert sorted(user for (user,) in receiver.wait(len(USERS))) == list(USERS)


def test_order_holds_with_sticky_receivers(sql, sharded, stream):
    q = sharded(order_key="'user_id'")
    read = f"SELECT user_id, id, body FROM STREAM {q} WITH (keys = 'sticky', consumer = '%s')"
    receivers = [stream(read % name) for name in ("a", "b")]
    parted(sql, q, "a", "b")
    enqueue(sql, q, "user_id, body", *((user, str(n)) for n in range(3) for user in range(10)))
    for turn in range(3):
        wait_until(lambda turn=turn: sum(len(each.rows) for each in receivers) == 10 * (turn + 1), what="a turn")
        latest = [row for each in receivers for row in each.rows if row[2] == str(turn)]
        assert sorted(row[0] for row in latest) == list(range(10))
        sql(f"ACK {q} {', '.join(str(row[1]) for row in latest)}")


REFUSED = {
    "WITH (keys = 'mine')": "neither 'shared' nor 'sticky' nor 'exclusive'",
    "WITH (keys = '')": "neither 'shared' nor 'sticky' nor 'exclusive'",
    "WITH (keys = 1)": "neither 'shared' nor 'sticky' nor 'exclusive'",
    "WITH (keys = 'sticky', key_range = '-80')": "leave key_range out",
    "WHERE user_id > 3 WITH (keys = 'sticky')": "has no WHERE",
    "WHERE user_id > 3 NOWAIT WITH (keys = 'EXCLUSIVE')": "has no WHERE",
}


@pytest.mark.parametrize("clauses", REFUSED)
def test_what_is_refused(sql, sharded, clauses):
    errno, message = sql.error(f"SELECT id FROM STREAM {sharded()} {clauses}")
    assert errno == 1231 and REFUSED[clauses] in message


def test_a_queue_without_a_ring_has_shared_keys_only(sql, queue, topic):
    q = queue("user_id INT")
    errno, message = sql.error(f"SELECT id FROM STREAM {q} WITH (keys = 'sticky')")
    assert errno == 1231 and "ADD SHARDING KEY" in message
    assert sql.rows(f"SELECT id FROM STREAM {q} NOWAIT WITH (keys = 'shared')") == []
    t = topic(billing="START AT EARLIEST")
    errno, message = sql.error(f"SELECT id FROM STREAM {t} NOWAIT WITH (group = 'billing', keys = 'sticky')")
    assert errno == 1231 and "its topic has none" in message


def test_a_stream_ends_with_its_ring(sql, sharded, stream):
    q = sharded()
    receivers = [stream(f"SELECT id FROM STREAM {q} WITH (keys = '{keys}')") for keys in ("sticky", "exclusive")]
    sql(f"ALTER QUEUE {q} DROP SHARDING KEY")
    sql(f"INSERT INTO {q} (user_id) VALUES (1)")
    for receiver in receivers:
        assert "queuegate_slot" in str(receiver.wait_end())


def test_sticky_wait_is_an_option_of_the_queue(sql, sharded, stream):
    q = sharded(sticky_wait="'1h'")
    assert "sticky_wait = '3600s'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]
    full = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'sticky', consumer = 'full', prefetch = 1)")
    other = stream(f"SELECT user_id FROM STREAM {q} WITH (keys = 'sticky', consumer = 'other')")
    seen = parted(sql, q, "full", "other")
    enqueue(sql, q, "user_id", *((user,) for user in USERS))
    other.wait(len(of(seen["other"])))
    sql(f"ALTER QUEUE {q} SET (sticky_wait = '20ms')")
    other.wait(len(USERS) - 1)
    assert len(full.ids()) == 1
    assert sql.error(f"ALTER QUEUE {q} SET (sticky_wait = '1ms')")[0] == 1231

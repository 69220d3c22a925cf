"""max_concurrency, max_rate, order_key and on_failure: what receivers see of them."""

from __future__ import annotations

import time

import pymysql
import pytest
from servers import in_threads, wait_until
from slowness import scaled

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]


def fill(sql, q, count, values="{n}"):
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({values.format(n=n)})" for n in range(1, count + 1)))


# --- max_concurrency


def test_no_more_unacked_than_max_concurrency(sql, queue, stream):
    q = queue("n INT", max_concurrency=3)
    receivers = [stream(f"SELECT id FROM STREAM {q}") for _ in range(2)]
    fill(sql, q, 20)
    acked: set[int] = set()
    while len(acked) < 20:
        wanted = min(3, 20 - len(acked))
        out = wait_until(lambda wanted=wanted: enough(receivers, acked, wanted), what="as many as there are places")
        assert len(out) == wanted
        assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL AND epoch > 0") == wanted
        acked.add(min(out))
        sql(f"ACK {q} {min(out)}")
    assert acked == set(range(1, 21))


def enough(receivers, acked, wanted):
    """What is out and not acked, once that many are."""
    out = {id_ for receiver in receivers for id_ in receiver.ids()} - acked
    return out if len(out) >= wanted else None


def test_a_freed_place_is_used_at_once(sql, queue, stream):
    q = queue("n INT", max_concurrency=1, poll_interval="'10m'")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    fill(sql, q, 50)
    started = time.monotonic()
    for id_ in range(1, 51):
        receiver.wait(id_)
        assert sql(f"ACK {q} {id_}") == 1
    assert time.monotonic() - started < scaled(20)  # a look every second would take 50


def test_a_place_freed_by_a_rollback_of_nothing_stays_taken(sql, queue, stream, connect):
    """An ack that is rolled back frees nothing."""
    q = queue("n INT", max_concurrency=1)
    receiver = stream(f"SELECT id FROM STREAM {q}")
    fill(sql, q, 2)
    receiver.wait(1)
    client = connect()
    client("BEGIN")
    client(f"ACK {q} 1")
    client("ROLLBACK")
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 0.3") == []
    sql(f"ACK {q} 1")
    receiver.wait(2)


def test_a_full_queue_answers_nowait_with_nothing_and_a_place_with_a_message(sql, queue):
    q = queue("n INT", max_concurrency=2)
    fill(sql, q, 5)
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 5 NOWAIT")) == 2
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 5 NOWAIT") == []
    sql(f"ACK {q} 1")
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 5 NOWAIT") == [(3,)]


def test_a_receiver_that_leaves_frees_its_places(sql, queue, stream):
    q = queue("n INT", max_concurrency=2, ack_wait="'1h'", max_backoff="'2h'")
    first = stream(f"SELECT id FROM STREAM {q}")
    fill(sql, q, 3)
    first.wait(2)
    second = stream(f"SELECT id FROM STREAM {q}")
    first.close()
    assert sorted(second.wait(2)) == [(1,), (2,)]


def test_a_lease_that_runs_out_frees_its_place(sql, queue, stream):
    q = queue("n INT", max_concurrency=1, ack_wait="'300ms'", min_backoff=0)
    receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
    fill(sql, q, 1)
    rows = receiver.wait(3)
    assert [row[0] for row in rows[:3]] == [1, 1, 1]
    assert receiver.times[2] - receiver.times[0] >= 0.5


def test_places_change_while_streams_are_open(sql, queue, stream):
    q = queue("n INT", max_concurrency=1)
    receiver = stream(f"SELECT id FROM STREAM {q}")
    fill(sql, q, 6)
    receiver.wait(1)
    sql(f"ALTER QUEUE {q} SET (max_concurrency = 4)")
    receiver.wait(4)
    sql(f"ALTER QUEUE {q} SET (max_concurrency = DEFAULT)")
    receiver.wait(6)


def test_scarce_places_go_to_receivers_in_turn(sql, queue, stream):
    q = queue("n INT", max_concurrency=2)
    receivers = [stream(f"SELECT id FROM STREAM {q}") for _ in range(4)]
    fill(sql, q, 40)
    got = lambda: [id_ for receiver in receivers for id_ in receiver.ids()]  # noqa: E731
    for id_ in range(1, 41):
        wait_until(lambda id_=id_: id_ in got(), what=f"message {id_}")
        sql(f"ACK {q} {id_}")
    assert all(len(receiver.rows) >= 5 for receiver in receivers), [len(receiver.rows) for receiver in receivers]


def test_priorities_hold_under_a_limit(sql, queue, stream):
    q = queue("n INT", max_concurrency=1)
    sql(f"INSERT INTO {q} (n, priority) VALUES " + ", ".join(f"({n}, {50 - n % 3 * 10})" for n in range(12)))
    receiver = stream(f"SELECT id, priority FROM STREAM {q}")
    for number in range(1, 13):
        row = receiver.wait(number)[number - 1]
        sql(f"ACK {q} {row[0]}")
    priorities = [row[1] for row in receiver.rows]
    assert priorities == sorted(priorities)


# --- max_rate


def test_a_rate_is_kept_and_reached(sql, queue, stream):
    q = queue("n INT", max_rate=50)
    receivers = [stream(f"SELECT id FROM STREAM {q}") for _ in range(2)]
    fill(sql, q, 60)
    wait_until(lambda: sum(len(receiver.rows) for receiver in receivers) >= 60, what="all messages")
    times = sorted(moment for receiver in receivers for moment in receiver.times)
    # 5 at once, then one every 20 ms: 1.1 s for 60. A slow machine may take longer, never less.
    assert times[-1] - times[0] >= 55 / 50 - 0.1
    assert times[-1] - times[0] < scaled(10)
    for start in range(60 - 30):
        assert times[start + 30] - times[start] >= 25 / 50 - 0.1


def test_a_rate_survives_a_restart_without_a_burst(new_gate):
    gate = new_gate().start()
    with gate.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE QUEUE q (n INT) WITH (max_rate = '0.01')")
        cursor.execute("INSERT INTO q (n) VALUES (1), (2), (3)")
        cursor.execute("SELECT id FROM STREAM q LIMIT 3 NOWAIT")
        assert len(cursor.fetchall()) == 1
    gate.stop()
    gate.start()
    with gate.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM STREAM q LIMIT 3 NOWAIT")
        assert cursor.fetchall() == ()
        cursor.execute("ALTER QUEUE q SET (max_rate = 1000)")
        cursor.execute("SELECT id FROM STREAM q LIMIT 3 WAIT 30")
        assert cursor.fetchall()[0] == (2,)


def test_a_waiting_result_takes_what_the_rate_lets_pass(sql, queue):
    q = queue("n INT", max_rate=2)
    fill(sql, q, 3)
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 3 WAIT 5") == [(1,)]
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 3 WAIT 5") == [(2,)]
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 3 NOWAIT") == []


# --- order_key


@pytest.mark.parametrize("key", ["k", "*"])
def test_one_of_a_key_at_a_time_in_id_order(sql, queue, stream, key):
    q = queue("k VARCHAR(20), n INT", order_key=f"'{key}'", poll_interval="'10m'")
    sql(f"INSERT INTO {q} (k, n) VALUES " + ", ".join(f"('{'abc'[n % 3]}', {n})" for n in range(60)))
    receivers = [stream(f"SELECT id, k FROM STREAM {q}") for _ in range(2)]
    rows = lambda: [row for receiver in receivers for row in receiver.rows]  # noqa: E731
    acked: set[int] = set()
    while len(acked) < 60:
        out = wait_until(lambda: [row for row in rows() if row[0] not in acked], what="the next of a key")
        keys = [row[1] if key == "k" else "" for row in out]
        assert len(keys) == len(set(keys)), out
        acked.add(out[0][0])
        sql(f"ACK {q} {out[0][0]}")
    for receiver in receivers:
        for name in "abc":
            mine = [row[0] for row in receiver.rows if row[1] == name]
            assert mine == sorted(mine)
    assert sorted(row[0] for row in rows()) == list(range(1, 61))


def test_keys_whose_numbers_have_another_order_than_their_names(sql, queue):
    q = queue("k ENUM('z', 'm', 'a')", order_key="'k'")
    sql(f"INSERT INTO {q} (k) VALUES " + ", ".join(["('z')"] * 40 + ["('m')"] * 5 + ["('a')"] * 5))
    for _ in range(5):
        rows = sql.rows(f"SELECT id, k FROM STREAM {q} LIMIT 10 NOWAIT")
        assert sorted(key for _, key in rows) == ["a", "m", "z"]
        sql(f"ACK {q} " + ", ".join(str(id_) for id_, _ in rows))


def test_equal_keys_are_those_that_the_collation_calls_equal(sql, queue):
    q = queue("k VARCHAR(20), n INT", order_key="'k'")
    sql(f"INSERT INTO {q} (k) VALUES ('a'), ('A'), ('b'), (NULL), (NULL)")
    equal = sql.value("SELECT 'a' = 'A'")
    got = sorted(row[0] for row in sql.rows(f"SELECT id FROM STREAM {q} LIMIT 9 NOWAIT"))
    assert got == ([1, 3, 4, 5] if equal else [1, 2, 3, 4, 5])


def test_a_failing_message_holds_its_key(sql, queue, stream):
    q = queue("k INT", order_key="'k'", ack_wait="'200ms'", min_backoff=0)
    receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
    sql(f"INSERT INTO {q} (k) VALUES (1), (1)")
    receiver.wait(3)
    assert {row[0] for row in receiver.rows} == {1}
    sql(f"ACK {q} 1")
    wait_until(lambda: 2 in receiver.ids(), what="the next of the key")


def test_skip_lets_the_next_go_past_a_failed_one(sql, queue, stream):
    q = queue("k INT", order_key="'k'", on_failure="'skip'", ack_wait="'200ms'", min_backoff="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (k) VALUES (1), (1), (1)")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (ack_wait = '1h')")
    receiver.wait(1)
    now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000"
    assert sql.rows(f"SELECT id FROM STREAM {q} NOWAIT") == []
    sql(f"UPDATE {q} SET time_next = {now} + 3000000000 WHERE id = 1")  # it failed: again in three seconds
    assert receiver.wait(2) == [(1,), (2,)]
    sql(f"ACK {q} 2")
    assert receiver.wait(3) == [(1,), (2,), (3,)]
    sql(f"ACK {q} 3")
    assert receiver.wait(4)[3] == (1,)


def test_the_next_of_a_key_comes_when_another_client_acks(sql, queue, stream, connect):
    q = queue("k INT", order_key="'k'", poll_interval="'10m'")
    receivers = [stream(f"SELECT id FROM STREAM {q}") for _ in range(3)]
    got = lambda: [id_ for receiver in receivers for id_ in receiver.ids()]  # noqa: E731
    client = connect()
    client("BEGIN")
    client(f"INSERT INTO {q} (k) VALUES " + ", ".join("(1)" for _ in range(30)))
    client("COMMIT")
    started = time.monotonic()
    for id_ in range(1, 31):
        wait_until(lambda id_=id_: id_ in got(), what=f"message {id_}")
        client(f"ACK {q} {id_}")
    assert time.monotonic() - started < scaled(20)


def test_streams_go_on_when_a_queue_becomes_ordered(sql, queue, stream):
    q = queue("k INT")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    sql(f"ALTER QUEUE {q} SET (order_key = 'k')")
    sql(f"INSERT INTO {q} (k) VALUES (1), (1), (2)")
    assert sorted(receiver.wait(2)) == [(1,), (3,)]
    sql(f"ACK {q} 1")
    receiver.wait(3)


def test_limits_hold_while_many_work_at_once(gate, sql, queue, connect):
    """Four workers on a queue with order, places and a rate: everything once, nothing beyond."""
    q = queue("k INT, n INT", order_key="'k'", max_concurrency=4, max_rate=2000)
    sql(f"INSERT INTO {q} (k, n) VALUES " + ", ".join(f"({n % 11}, {n})" for n in range(300)))
    seen: list[tuple[int, int]] = []
    out: set[int] = set()
    faults: list[str] = []

    def work(number: int) -> None:
        client = connect()
        while len(seen) < 300:
            for id_, k in client.rows(f"SELECT id, k FROM STREAM {q} LIMIT 2 WAIT 0.2"):
                out.add(id_)
                if len(out) > 4:
                    faults.append(f"{len(out)} in flight")
                seen.append((id_, k))
                out.discard(id_)
                client(f"ACK {q} {id_}")

    in_threads(work, [(number,) for number in range(4)], 60)
    assert not faults
    assert sorted(seen) == sorted((n + 1, n % 11) for n in range(300))
    for k in range(11):
        mine = [id_ for id_, key in seen if key == k]
        assert mine == sorted(mine)


# --- on_failure = 'dead_letter'


def test_a_failed_message_goes_to_the_dead_letter_queue_and_the_next_of_its_key_follows(sql, queue, stream):
    q = queue("k INT", order_key="'k'", on_failure="'dead_letter'", poll_interval="'10m'")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (ack_wait = '1h')")
    sql(f"INSERT INTO {q} (k) VALUES (1), (1), (1)")
    receiver.wait(1)
    sql(f"NACK {q} 1 DELAY 3600 REASON 'no good'")
    assert receiver.wait(2) == [(1,), (2,)]
    wait_until(lambda: sql.column(f"SELECT id FROM {q} ORDER BY id") == [2, 3], what="the move")
    assert sql.rows(f"SELECT id, k, last_error, attempts FROM {q}_dead") == [(1, 1, "no good", 1)]
    sql(f"ACK {q} 2")
    receiver.wait(3)
    sql(f"DROP QUEUE {q}_dead")


def test_a_lease_that_runs_out_is_a_failure_too(sql, queue, stream):
    q = queue("k INT", order_key="'*'", on_failure="'dead_letter'", ack_wait="'300ms'", min_backoff=0)
    receiver = stream(f"SELECT id FROM STREAM {q}")
    sql(f"INSERT INTO {q} (k) VALUES (1), (2)")
    receiver.wait(1)
    assert receiver.wait(2) == [(1,), (2,)]
    wait_until(lambda: dead_ids(sql, q) == [1, 2], what="both to be dead")
    assert sql.column(f"SELECT id FROM {q}") == []
    sql(f"DROP QUEUE {q}_dead")


def dead_ids(sql, q):
    """What lies in the dead-letter queue, once it is there."""
    try:
        return sorted(sql.column(f"SELECT id FROM {q}_dead"))
    except pymysql.err.ProgrammingError:
        return None

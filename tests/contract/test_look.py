"""SHOW QUEUE STATUS, SHOW SUBSCRIPTIONS and EXPLAIN DELIVERY, over real sockets."""

from __future__ import annotations

import time

import pytest
from servers import NS, wait_until


def status(sql, q):
    """One queue's row of SHOW QUEUE STATUS, by column."""
    with sql.connection.cursor() as cursor:
        cursor.execute(f"SHOW QUEUE STATUS LIKE '{q}'")
        names = [column[0] for column in cursor.description]
        (row,) = cursor.fetchall()
        return dict(zip(names, row, strict=True))


def eventually(sql, q, **wanted):
    """The row, once it has these values: a count may be a second old."""

    def there():
        row = status(sql, q)
        return row if all(row[name] == value for name, value in wanted.items()) else None

    return wait_until(there, what=f"{wanted} in SHOW QUEUE STATUS of {q}")


def explained(sql, q, condition):
    return sql.rows(f"EXPLAIN DELIVERY FOR {q} WHERE {condition}")


def test_an_empty_queue(sql, queue):
    q = queue()
    row = status(sql, q)
    assert row["Queue"] == q
    states = ("Paused", "Ready", "Scheduled", "Retrying", "In_flight", "Parked", "Unmatched", "Acked", "Dead")
    assert [row[name] for name in states] == [0] * len(states)
    assert (row["Oldest_ready_age"], row["Counted"], row["Problem"]) == (None, "exact", None)
    assert all(value == 0 for name, value in row.items() if name.endswith("_total"))


def test_a_worker_between_two_polls_is_a_receiver(sql, queue, connect):
    q = queue("n INT")
    assert status(sql, q)["Receivers"] == 0
    worker = connect()
    assert worker.rows(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == []
    assert eventually(sql, q, Receivers=1)["Subscribers"] == 0, "it has asked a moment ago"
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    other = connect()
    assert len(other.rows(f"SELECT id FROM STREAM {q} LIMIT 2 WAIT 10 WITH (lease = 'connection')")) == 2
    assert eventually(sql, q, Receivers=2, In_flight=2)["Subscribers"] == 0
    other.close()
    eventually(sql, q, Receivers=1, In_flight=0)
    assert sql.rows(f"SHOW QUEUES LIKE '{q}'")[0][2] == 0, "open streams"


def test_every_state_is_counted(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    later = (time.time_ns() // 1000 + 3_600_000_000) * 1000
    sql(f"INSERT INTO {q} (n, time_scheduled) VALUES (1, {later}), (2, {later})")
    sql(f"INSERT INTO {q} (n) VALUES (3), (4), (5)")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 2)")
    first, second = (row[0] for row in receiver.wait(2))
    sql(f"ACK {q} {first}")
    receiver.wait(3)
    sql(f"UPDATE {q} SET time_next = {later} WHERE id = {second}")
    sql(f"INSERT INTO {q} (n, time_next) VALUES (6, 9223372036854775807)")
    receiver.close()
    sql(f"INSERT INTO {q} (n) VALUES (7)")
    row = eventually(sql, q, Acked=1, Scheduled=2, Parked=1, Retrying=1, Ready=2, In_flight=0, Subscribers=0)
    assert row["Oldest_ready_age"] is not None and 0 <= row["Oldest_ready_age"] < 60
    assert (row["Enqueued_total"], row["Acked_total"], row["Sent_total"]) == (7, 1, 3)


def test_what_is_in_flight_is_told_from_what_waits(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 2)").wait(2)
    row = eventually(sql, q, In_flight=2, Ready=1)
    assert (row["Subscribers"], row["Retrying"], row["Scheduled"]) == (1, 0, 0)


def test_counters_count_what_was_committed(sql, queue, connect):
    q = queue("n INT")
    other = connect(autocommit=False)
    other(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert status(sql, q)["Enqueued_total"] == 0
    other("ROLLBACK")
    other(f"INSERT INTO {q} (n) VALUES (3), (4), (5)")
    other("COMMIT")
    with sql.connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {q} (n) VALUES (%s)", [(n,) for n in range(10)])
    assert status(sql, q)["Enqueued_total"] == 13
    ids = sql.column(f"SELECT id FROM {q} ORDER BY id")
    assert sql(f"ACK {q} {ids[0]}, {ids[1]}") == 2
    assert sql(f"ACK {q} {ids[0]}") == 0
    assert sql(f"UPDATE {q} SET state = 'acked' WHERE id = {ids[2]}") == 1
    assert sql(f"DELETE FROM {q} WHERE id = {ids[3]}") == 1
    row = status(sql, q)
    assert (row["Acked_total"], row["Deleted_total"]) == (3, 1)


def test_what_a_receiver_held_alongside_others_is_counted_as_redelivered(sql, queue, connect):
    """That delivery is no attempt, so the epoch does not show it."""
    q = queue("n INT", max_attempts=5, ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    dying = connect()
    assert len(dying.rows(f"SELECT id FROM STREAM {q} LIMIT 2 WAIT 10 WITH (lease = 'connection')")) == 2
    dying.close()
    eventually(sql, q, In_flight=0)
    for _ in range(3):
        ((id_, epoch),) = connect().rows(f"SELECT id, epoch FROM STREAM {q} LIMIT 1 WAIT 10")
        assert epoch == 1
        sql(f"ACK {q} {id_}")
    assert status(sql, q)["Redelivered_total"] == 2


@pytest.mark.parametrize("options", [{}, {"max_attempts": 5}], ids=["unbounded", "bounded"])
def test_a_lease_of_a_result_that_has_ended_is_counted_when_it_runs_out(sql, queue, options):
    q = queue("n INT", ack_wait="'1s'", max_backoff="'1s'", **options)
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    first, second, third = sql.column(f"SELECT id FROM STREAM {q} LIMIT 3 WAIT 10")
    sql(f"ACK {q} {first}")
    eventually(sql, q, Expired_total=2)
    assert set(sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10")) < {second, third}
    assert status(sql, q)["Redelivered_total"] == 1


def test_prepared_inserts_are_counted(gate, sql, queue):
    connector = pytest.importorskip("mysql.connector")
    q = queue("n INT")
    client = connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    cursor = client.cursor(prepared=True)
    for n in range(3):
        cursor.execute(f"INSERT INTO {q} (n) VALUES (%s)", (n,))
    client.close()
    assert status(sql, q)["Enqueued_total"] == 3


def test_which_queues_are_shown(sql, queue):
    one, two = queue(), queue()
    named = sql.column("SHOW QUEUE STATUS")
    assert one in named and two in named
    assert sql.column("SHOW QUEUE STATUS LIKE 'no such%%'") == []
    assert sql.column("SHOW QUEUE STATUS FROM nowhere") == []
    assert sql.error("SHOW QUEUE STATUS WHERE ready > 0")[0] == 1235


def test_a_table_that_cannot_be_a_queue_says_why(sql, name):
    sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY) COMMENT 'vitess_message'")
    try:
        row = status(sql, name)
        assert row["Ready"] is None and "missing" in row["Problem"]
    finally:
        sql(f"DROP TABLE {name}")


def test_subscriptions(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    narrow = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 3)")
    narrow.wait(3)
    wide = stream(f"SELECT id FROM STREAM {q}")

    def rows():
        with sql.connection.cursor() as cursor:
            cursor.execute(f"SHOW SUBSCRIPTIONS LIKE '{q}'")
            names = [column[0] for column in cursor.description]
            listed = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return {row["Connection_id"]: row for row in listed}

    wait_until(lambda: len(rows()) == 2 and rows()[narrow.id]["Window_full"], what="both streams to be listed")
    full, idle = rows()[narrow.id], rows()[wide.id]
    assert (full["Queue"], full["User"], full["Mode"], full["Prefetch"]) == (q, "root", "endless", 3)
    assert (full["Unacked"], full["Sent"], full["Waiting"]) == (3, 3, 0)
    assert (idle["Unacked"], idle["Sent"], idle["Waiting"], idle["Window_full"]) == (0, 0, 1, 0)
    assert full["Since"].startswith("20") and full["Filter"] == ""
    narrow.close()
    wait_until(lambda: narrow.id not in rows(), what="the closed stream to be gone")
    assert sql.rows("SHOW SUBSCRIPTIONS LIKE 'no such%%'") == []


def test_explain_delivery_of_messages_that_wait_for_their_time(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    later = (time.time_ns() // 1000 + 3_600_000_000) * 1000
    sql(f"INSERT INTO {q} (n, time_scheduled) VALUES (1, {later})")
    ((_, state, text),) = explained(sql, q, "n = 1")
    assert state == "scheduled" and "not due before 20" in text and "(in " in text
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    ((id_,),) = receiver.wait(1)
    ((shown, state, text),) = explained(sql, q, f"id = {id_}")
    assert (shown, state) == (str(id_), "in_flight")
    assert "leased until" in text and "delivery 1" in text and f"held by connection {receiver.id} (root@" in text
    sql(f"UPDATE {q} SET time_next = {later}, last_error = 'HTTP 429' WHERE id = {id_}")
    ((_, state, text),) = explained(sql, q, f"id = {id_}")
    assert state == "retrying" and "after 1 delivery" in text and text.endswith("last error: HTTP 429")
    sql(f"UPDATE {q} SET time_next = 9223372036854775807 WHERE id = {id_}")
    assert explained(sql, q, f"id = {id_}")[0][1] == "parked"
    sql(f"ACK {q} {id_}")
    ((_, state, text),) = explained(sql, q, f"id = {id_}")
    assert state == "acked" and text.startswith("acked at 20")


def test_explain_delivery_of_due_messages(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert {row[1] for row in explained(sql, q, "n > 0")} == {"no_subscriber"}
    receiver = stream(f"SELECT n FROM STREAM {q} WITH (prefetch = 2)")
    receiver.wait(2)
    wait_until(lambda: explained(sql, q, "n = 3")[0][1] == "windows_full", what="the window to be known as full")
    assert "prefetch" in explained(sql, q, "n = 3")[0][2]


def test_explain_delivery_of_unknown_ids_and_of_many(sql, queue):
    q = queue("n INT")
    ((id_, state, text),) = explained(sql, q, "id = 4711")
    assert (id_, state) == ("4711", "unknown") and "no such message" in text
    assert explained(sql, q, "n = 4711") == []
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(30)))
    assert len(sql.rows(f"EXPLAIN DELIVERY FOR {q}")) == 20
    assert len(sql.rows(f"EXPLAIN DELIVERY FOR {q} LIMIT 25")) == 25
    rows = explained(sql, q, "id IN (1, 2, 99)")
    assert [(row[0], row[1]) for row in rows] == [("1", "no_subscriber"), ("2", "no_subscriber"), ("99", "unknown")]


def test_explain_delivery_refuses_in_words(sql, queue):
    q = queue("n INT")
    assert sql.error(f"EXPLAIN DELIVERY FOR {q} WHERE nothing = 1")[0] == 1054
    assert sql.error("EXPLAIN DELIVERY FOR no_such_queue WHERE id = 1")[0] == 1146
    assert sql.error(f"EXPLAIN DELIVERY FOR {q} WHERE id = ?")[0] == 1235
    assert sql.error(f"EXPLAIN DELIVERY FOR {q} LIMIT 0")[0] == 1064


def test_a_text_key_is_explained_as_well(sql, queue, stream):
    q = queue("id VARCHAR(36), n INT")
    sql(f"INSERT INTO {q} (id, n) VALUES ('a-1', 1)")
    rows = explained(sql, q, "id IN ('a-1', 'b-2')")
    assert [(row[0], row[1]) for row in rows] == [("a-1", "no_subscriber"), ("b-2", "unknown")]
    sql(f"INSERT INTO {q} (id, n) VALUES ('42', 2)")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    receiver.wait(2)
    for id_ in ("a-1", "42"):
        assert f"held by connection {receiver.id} " in explained(sql, q, f"id = '{id_}'")[0][2]


def test_a_binary_key_is_shown_in_hexadecimal(sql, queue, stream):
    q = queue("id VARBINARY(16), n INT")
    sql(f"INSERT INTO {q} (id, n) VALUES (X'00FF27', 1)")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    receiver.wait(1)
    ((id_, state, text),) = explained(sql, q, "n = 1")
    assert (id_, state) == ("00ff27", "in_flight") and f"held by connection {receiver.id} " in text
    held = sql.rows(f"SELECT id, connection_id FROM queuegate.in_flight WHERE queue = '{q}'")
    assert held == [("00ff27", receiver.id)]


def test_times_are_the_databases(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n, time_next) VALUES (1, {(time.time_ns() - 100 * NS) // 1000 * 1000})")
    row = eventually(sql, q, Ready=1)
    assert 95 <= row["Oldest_ready_age"] <= 200


def state_of(sql, q, condition, wanted):
    """The explanation of the one message, once it has that state."""

    def there():
        ((_, state, text),) = explained(sql, q, condition)
        return text if state == wanted else None

    return wait_until(there, what=f"{condition} to be {wanted}")


def test_explain_delivery_says_that_no_filter_fits(sql, queue, stream):
    q = queue("n INT")
    stream(f"SELECT n FROM STREAM {q} WHERE n > 10")
    stream(f"SELECT n FROM STREAM {q} WHERE n > 20")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert "WHERE of none of the 2 open streams" in state_of(sql, q, "n = 1", "filtered")
    assert sorted(row[6] for row in sql.rows(f"SHOW SUBSCRIPTIONS LIKE '{q}'")) == ["n > 10", "n > 20"]
    eventually(sql, q, Unmatched=1, Ready=1)
    stream(f"SELECT n FROM STREAM {q} WHERE n < 5").wait(1)
    assert explained(sql, q, "n = 1")[0][1] == "in_flight"
    eventually(sql, q, Unmatched=0, Ready=0)


def test_functions_count_as_well(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'3h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    ids = [row[0] for row in stream(f"SELECT id FROM STREAM {q}").wait(3)]
    assert sql.value(f"SELECT queue_ack('{q}', {ids[0]})") == 1
    sql(f"CALL queue_nack('{q}', {ids[1]}, 3600)")
    sql(f"RENEW {q} {ids[2]} FOR '2h'")
    row = status(sql, q)
    assert (row["Acked_total"], row["Nacked_total"]) == (1, 1)


def test_explain_delivery_of_a_paused_queue(sql, queue, stream):
    q = queue("n INT")
    sql(f"ALTER QUEUE {q} PAUSE")
    stream(f"SELECT n FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert "RESUME" in state_of(sql, q, "n = 1", "paused")
    assert status(sql, q)["Paused"] == 1


def test_explain_delivery_of_messages_that_limits_hold_back(sql, queue, stream):
    q = queue("n INT", max_concurrency=1)
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    stream(f"SELECT n FROM STREAM {q}").wait(1)
    assert "max_concurrency of 1" in state_of(sql, q, "n = 2", "concurrency_limit")
    q = queue("n INT", max_rate="'0.01'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    stream(f"SELECT n FROM STREAM {q}").wait(1)
    assert "max_rate of 0.01 a second: the next may go in" in state_of(sql, q, "n = 2", "rate_limited")


def test_explain_delivery_names_what_blocks_a_key(sql, queue, stream):
    q = queue("k INT, n INT", order_key="'k'")
    sql(f"INSERT INTO {q} (k, n) VALUES (7, 1), (7, 2), (8, 3)")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    first = sorted(row[0] for row in receiver.wait(2))[0]
    assert f"key blocked by {first}, which is in flight" in state_of(sql, q, "n = 2", "blocked")
    assert explained(sql, q, "n = 3")[0][1] == "in_flight"
    sql(f"NACK {q} {first} DELAY 3600")
    assert f"key blocked by {first}, which comes first" in state_of(sql, q, "n = 2", "blocked")


def test_explain_delivery_tells_the_reason_of_a_nack_and_counts_it(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'3h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    ((id_,),) = stream(f"SELECT id FROM STREAM {q}").wait(1)
    sql(f"NACK {q} {id_} DELAY 3600 REASON 'HTTP 429'")
    ((_, state, text),) = explained(sql, q, f"id = {id_}")
    assert state == "retrying" and text.endswith("last error: HTTP 429")
    assert status(sql, q)["Nacked_total"] == 1


def test_dead_letters_are_counted_and_explained(sql, queue):
    q = queue("n INT")
    sql(f"CREATE QUEUE {q}_dead (n INT)")
    try:
        sql(f"INSERT INTO {q} (id, n) VALUES (1, 1)")
        sql(f"INSERT INTO {q}_dead (id, n) VALUES (7, 7), (8, 8)")
        eventually(sql, q, Dead=2, Ready=1)
        rows = explained(sql, q, "id IN (1, 7, 9)")
        assert [(row[0], row[1]) for row in rows] == [("1", "no_subscriber"), ("7", "dead"), ("9", "unknown")]
        assert f"{q}_dead" in rows[1][2]
    finally:
        sql(f"DROP QUEUE {q}_dead")


def test_all_of_it_can_be_prepared(gate, sql, queue):
    connector = pytest.importorskip("mysql.connector")
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    eventually(sql, q, Ready=1)
    client = connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    cursor = client.cursor(prepared=True)
    for _ in range(2):
        cursor.execute(f"SHOW QUEUE STATUS LIKE '{q}'")
        (row,) = cursor.fetchall()
        shown = dict(zip(cursor.column_names, row, strict=True))
        assert (shown["Queue"], shown["Ready"], shown["Enqueued_total"]) == (q, 1, 1)
        assert shown["Oldest_ready_age"] >= 0
        cursor.execute(f"SHOW SUBSCRIPTIONS LIKE '{q}'")
        assert cursor.fetchall() == []
        cursor.execute(f"EXPLAIN DELIVERY FOR {q} WHERE n = 1")
        assert [row[1] for row in cursor.fetchall()] == ["no_subscriber"]
    client.close()


def test_a_rejected_message_is_a_dead_one(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'3h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    ((id_,),) = stream(f"SELECT id FROM STREAM {q}").wait(1)
    try:
        assert sql(f"REJECT {q} {id_} REASON 'bad JSON'") == 1
        assert f"{q}_dead" in state_of(sql, q, f"id = {id_}", "dead")
        row = eventually(sql, q, Dead=1, Parked=0, In_flight=0)
        assert (row["Rejected_total"], row["Dead_lettered_total"]) == (1, 1)
    finally:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")


def test_a_message_that_is_rejected_and_not_moved_yet_says_so(sql, queue, connect):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    other = connect(autocommit=False)
    assert other(f"REJECT {q} 1 REASON 'bad JSON'") == 1
    ((_, state, text),) = explained(other, q, "id = 1")
    assert state == "rejected" and text.endswith("last error: bad JSON")
    other("ROLLBACK")
    assert explained(sql, q, "id = 1")[0][1] == "no_subscriber"


def test_a_message_that_has_had_its_deliveries_says_so(sql, queue):
    q = queue("n INT", max_attempts=2)
    sql(f"INSERT INTO {q} (n, epoch) VALUES (1, 2), (2, 1)")
    (first, second) = explained(sql, q, "n > 0")
    assert first[1] == "exhausted" and "its 2 deliveries" in first[2] and "no stream is open" in first[2]
    assert second[1] == "no_subscriber"
    sql(f"DROP QUEUE IF EXISTS {q}_dead")


def test_show_queues_counts_what_streams_hold(sql, queue, stream):
    """A bounded result holds by time alone: the table says In_flight, and no stream says Unacked."""
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert len(sql.column(f"SELECT id FROM STREAM {q} LIMIT 2")) == 2

    def unacked():
        cursor = sql.connection.cursor()
        cursor.execute(f"SHOW QUEUES LIKE '{q}'")
        (row,) = cursor.fetchall()
        return row[[column[0] for column in cursor.description].index("Unacked")]

    assert unacked() == 0
    eventually(sql, q, In_flight=2)
    receiver = stream(f"SELECT id FROM STREAM {q}")
    receiver.wait(1)
    wait_until(lambda: unacked() == 1, what="the stream's message")
    eventually(sql, q, In_flight=3)


def test_only_what_no_row_has_is_unknown(sql, queue):
    """Not what LIMIT leaves out, nor what the condition does."""
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES {', '.join(f'({n})' for n in range(25))}")
    assert [row[0] for row in explained(sql, q, f"id IN ({', '.join(map(str, range(1, 27)))})")] == [
        str(id_) for id_ in range(1, 21)
    ]
    assert [row[:2] for row in explained(sql, q, "id IN (1, 2) LIMIT 1")] == [("1", "no_subscriber")]
    assert [row[:2] for row in explained(sql, q, "id IN (25, 26, 27) LIMIT 2")] == [
        ("25", "no_subscriber"),
        ("26", "unknown"),
    ]
    sql(f"ACK {q} 3")
    assert explained(sql, q, "id = 3 AND time_acked IS NULL") == []
    assert [row[:2] for row in explained(sql, q, "id IN (3, 4, 99) AND time_acked IS NULL")] == [
        ("4", "no_subscriber"),
        ("99", "unknown"),
    ]


def test_ids_that_are_one_for_the_database_are_one_message(sql, queue):
    q = queue("id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, n INT")
    sql(f"INSERT INTO {q} (id, n) VALUES ('abc', 1)")
    assert [row[:2] for row in explained(sql, q, "id = 'ABC'")] == [("abc", "no_subscriber")]
    assert [row[:2] for row in explained(sql, q, "id IN ('ABC', 'Abc', 'x')")] == [
        ("abc", "no_subscriber"),
        ("x", "unknown"),
    ]
    sql(f"REJECT {q} 'abc'")
    wait_until(lambda: explained(sql, q, "id = 'abc'")[0][1] == "dead", what="the move")
    assert [row[:2] for row in explained(sql, q, "id IN ('ABC', 'Abc', 'x')")] == [
        ("ABC", "dead"),
        ("Abc", "dead"),
        ("x", "unknown"),
    ]


@pytest.mark.parametrize("key", ["customer", "*"])
def test_with_skip_only_what_has_not_failed_blocks_its_key(sql, queue, key):
    q = queue("customer INT", order_key=f"'{key}'", on_failure="'skip'", min_backoff="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (customer) VALUES (7)")
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [(1,)]
    assert sql(f"NACK {q} 1") == 1
    sql(f"INSERT INTO {q} (customer) VALUES (7) DELAY '1h'")
    sql(f"INSERT INTO {q} (customer) VALUES (7)")
    ((_, state, text),) = explained(sql, q, "id = 3")
    assert state == "blocked" and "key blocked by 2" in text, text
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == []
    sql(f"ACK {q} 2")
    assert "blocked" not in explained(sql, q, "id = 3")[0][2]
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [(3,)]

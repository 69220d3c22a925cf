"""SELECT ... FROM STREAM: columns, order, LIMIT, WAIT, NOWAIT, prefetch, and how it ends."""

from __future__ import annotations

import time

import pytest
from servers import Sql, wait_until
from slowness import scaled


def test_the_column_list_is_there_before_any_row(queue, stream):
    q = queue("tenant_id BIGINT, message JSON")
    receiver = stream(f"SELECT * FROM STREAM {q}")
    assert receiver.columns == ["id", "tenant_id", "message"]
    assert receiver.rows == []
    assert not receiver.ended.is_set()


def test_a_committed_message_is_pushed(sql, queue, stream):
    """Long before the safety scan, whose interval is 30 s."""
    q = queue()
    receiver = stream(f"SELECT * FROM STREAM {q}")
    for n in range(20):
        started = time.time()
        sql(f"INSERT INTO {q} (payload) VALUES (%s)", f"m{n}")
        receiver.wait(n + 1, 5)
        assert receiver.times[n] - started < scaled(5)
    assert [row[1] for row in receiver.rows] == [f"m{n}" for n in range(20)]


def test_columns_may_be_named_in_any_order(sql, queue):
    q = queue("a INT, b INT")
    sql(f"INSERT INTO {q} (a, b) VALUES (1, 2)")
    with sql.connection.cursor() as cursor:
        cursor.execute(f"SELECT b, `ID`, epoch, priority, {q}.a, state FROM STREAM {q} LIMIT 1 NOWAIT")
        assert [column[0] for column in cursor.description][:4] == ["b", "ID", "epoch", "priority"]
        assert cursor.fetchall() == ((2, 1, 1, 50, 1, "fired"),)


def test_column_aliases_are_refused(sql, queue):
    q = queue("a INT")
    assert sql.error(f"SELECT a AS answer FROM STREAM {q} LIMIT 1 NOWAIT")[0] == 1235


def test_an_unknown_column_is_1054(sql, queue):
    q = queue()
    errno, text = sql.error(f"SELECT id, nope FROM STREAM {q}")
    assert (errno, "nope" in text) == (1054, True)


def test_limit_ends_the_result(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 2") == [(1,), (2,)]
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1") == [(3,)]


def test_limit_waits_for_messages_to_come(sql, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q} LIMIT 3")
    for n in range(3):
        assert not receiver.ended.is_set()
        sql(f"INSERT INTO {q} (n) VALUES (%s)", n)
        receiver.wait(n + 1)
    assert receiver.wait_end() is None
    assert receiver.rows == [(0,), (1,), (2,)]


def test_the_connection_is_usable_after_a_stream_that_ended(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1") == [(1,)]
    assert sql.value("SELECT 41 + 1") == 42
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1") == [(2,)]
    assert sql(f"ACK {q} 1, 2") == 2


def test_nowait_takes_what_is_due(sql, queue):
    q = queue("n INT")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 10 NOWAIT") == []
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 10 NOWAIT") == [(1,), (2,)]
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 10 NOWAIT") == []


def test_nowait_without_a_limit_takes_a_batch(sql, queue):
    q = queue("n INT", batch_size=5)
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(12)))
    assert [len(sql.rows(f"SELECT n FROM STREAM {q} NOWAIT")) for _ in range(4)] == [5, 5, 2, 0]


def test_wait_returns_at_once_when_something_is_due(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    started = time.monotonic()
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 10 WAIT 30") == [(1,), (2,)]
    assert time.monotonic() - started < scaled(10)


def test_wait_returns_as_soon_as_something_comes(sql, connect, queue, stream):
    q = queue("n INT")
    receiver = stream(f"SELECT n FROM STREAM {q} LIMIT 10 WAIT 30")
    wait_until(lambda: streaming(sql, receiver.id), what="the stream to be listed")
    started = time.monotonic()
    sql(f"INSERT INTO {q} (n) VALUES (7)")
    assert receiver.wait_end() is None
    assert receiver.rows == [(7,)]
    assert time.monotonic() - started < scaled(10)


def test_wait_gives_up(sql, queue):
    q = queue("n INT")
    started = time.monotonic()
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 10 WAIT 1") == []
    assert 0.98 <= time.monotonic() - started < scaled(10)


def test_vitess_spelling(sql, queue, stream):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    receiver = stream(f"STREAM * FROM {q}")
    assert receiver.columns == ["id", "payload"]
    assert receiver.wait(1) == [(1, "a")]


def test_backlog_before_the_first_receiver(sql, queue, stream):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4)")
    sql(f"INSERT INTO {q} (n) VALUES (5)")
    assert stream(f"SELECT n FROM STREAM {q}").wait(5) == [(n,) for n in range(1, 6)]


def test_backlog_after_all_receivers_left(sql, queue, stream):
    q = queue("n INT")
    first = stream(f"SELECT n FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    first.wait(1)
    sql(f"ACK {q} 1")
    first.close()
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    assert stream(f"SELECT n FROM STREAM {q}").wait(1, 5) == [(2,)]


def test_lower_priority_number_first_then_oldest(sql, queue):
    q = queue("n INT")
    now = time.time_ns()
    for n, (priority, due) in enumerate([(50, now - 3), (50, now - 9), (1, now - 1), (99, now - 99), (50, now - 5)]):
        sql(f"INSERT INTO {q} (n, priority, time_scheduled) VALUES (%s, %s, %s)", n, priority, due)
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 9 NOWAIT") == [2, 1, 4, 0, 3]


def test_order_holds_over_a_backlog_larger_than_cache_and_batch(sql, queue):
    q = queue("n INT", cache_size=10, batch_size=4)
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(100)))
    assert sql.column(f"SELECT n FROM STREAM {q} LIMIT 100") == list(range(100))


def test_cache_overflow_loses_nothing_and_waits_for_no_scan(sql, queue, stream):
    q = queue("n INT", cache_size=2, poll_interval="'30s'")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(1000)))
    receiver = stream(f"SELECT n FROM STREAM {q} WITH (prefetch = 5000)")
    assert sorted(row[0] for row in receiver.wait(1000, 25)) == list(range(1000))


def test_two_streams_on_different_queues_keep_apart(sql, queue, stream):
    one, two = queue("n INT"), queue("n INT")
    first, second = stream(f"SELECT n FROM STREAM {one}"), stream(f"SELECT n FROM STREAM {two}")
    sql(f"INSERT INTO {one} (n) VALUES (1)")
    sql(f"INSERT INTO {two} (n) VALUES (2)")
    assert (first.wait(1), second.wait(1)) == ([(1,)], [(2,)])


def test_drop_ends_the_stream_with_an_error(sql, queue, stream):
    q = queue()
    receiver = stream(f"SELECT * FROM STREAM {q}")
    sql(f"DROP QUEUE {q}")
    error = receiver.wait_end()
    assert error is not None
    assert error.args[0] == 1146, error


def streaming(sql: Sql, connection_id: int) -> bool:
    return any(row[0] == connection_id and "STREAM" in str(row[7]) for row in sql.rows("SHOW FULL PROCESSLIST"))


def test_a_stream_is_in_the_process_list(sql, queue, stream):
    q = queue()
    receiver = stream(f"SELECT * FROM STREAM {q}")
    wait_until(lambda: streaming(sql, receiver.id), what="the stream to be listed")
    listed = {row[0]: row for row in sql.rows("SHOW PROCESSLIST")}
    assert listed[receiver.id][1] == "root"
    assert sql.connection.thread_id() in listed
    receiver.close()
    wait_until(lambda: not streaming(sql, receiver.id), what="the stream to leave the list")


@pytest.mark.parametrize("statement", ["show processlist", "/* who */ SHOW  FULL\nprocesslist"])
def test_the_process_list_shows_the_statement_that_asks_for_it_as_it_was_written(sql, statement):
    own = {row[0]: row for row in sql.rows(statement)}[sql.connection.thread_id()]
    assert own[7] == statement


def test_kill_query_ends_the_stream_and_keeps_the_connection(sql, queue, stream):
    q = queue()
    receiver = stream(f"SELECT * FROM STREAM {q}")
    sql(f"KILL QUERY {receiver.id}")
    error = receiver.wait_end()
    assert error is not None
    assert error.args[0] == 1317, error
    receiver._cursor._result.unbuffered_active = False
    receiver.connection._result = None
    with receiver.connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert list(cursor.fetchall()) == [(1,)]


def test_kill_ends_the_connection(sql, queue, stream):
    q = queue()
    receiver = stream(f"SELECT * FROM STREAM {q}")
    sql(f"KILL {receiver.id}")
    assert receiver.wait_end() is not None
    wait_until(lambda: not streaming(sql, receiver.id), what="the stream to leave the list")


def test_kill_of_a_receiver_that_does_not_read_hands_its_messages_over(sql, stuck, stream):
    sql(f"KILL {stuck.connection.thread_id()}")
    receiver = stream(f"SELECT id FROM STREAM {stuck.queue}")
    assert sorted(row[0] for row in receiver.wait(4, 5)) == [1, 2, 3, 4]


def test_kill_query_of_oneself_is_1317(sql):
    assert sql.error(f"KILL QUERY {sql.connection.thread_id()}")[0] == 1317
    assert sql.value("SELECT 1") == 1


def test_kill_of_nobody_is_1094(sql):
    assert sql.error("KILL QUERY 4000000000")[0] == 1094
    assert sql.error("KILL 4000000000")[0] == 1094


def test_prefetch_bounds_what_a_receiver_holds(sql, queue, stream):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(20)))
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 3)")
    assert receiver.wait(3) == [(1,), (2,), (3,)]
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE state = 'fired'") == 3
    for acked in range(1, 6):
        assert sql(f"ACK {q} {acked}") == 1
        receiver.wait(3 + acked)
        assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE state = 'fired'") <= 3
    assert receiver.ids() == list(range(1, 9))


@pytest.mark.parametrize("setting", ["prefetch = 0", "prefetch = 'x'", "nope = 1", "prefetch = 10000000"])
def test_bad_stream_options_are_refused(sql, queue, setting):
    q = queue()
    assert sql.error(f"SELECT * FROM STREAM {q} WITH ({setting})")[0] in (1231, 1235)


def test_limit_nought(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 0") == []
    assert sql.value(f"SELECT epoch FROM {q}") == 0

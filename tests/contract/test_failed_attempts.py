"""Every failed attempt of a message is kept with its time, receiver and error, through dead letters and REDRIVE."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from servers import wait_until

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

POISON = "漢字 🙂 größe \\ ' \" `,\n{}[]"


@pytest.fixture
def failing(queue):
    """Makes a queue that is polled often; the name of it."""

    def make(**options):
        given = {"poll_interval": "100ms", **options}
        return queue("body VARCHAR(20)", **{name: f"'{value}'" for name, value in given.items()})

    return make


def attempts(sql, q, id_=1):
    """What is kept of the attempts of a message; None where nothing is."""
    text = sql.value(f"SELECT failed_attempts FROM {q} WHERE id = {id_}")
    return None if text is None else json.loads(text)


def received(sql, q, consumer=None, **options):
    """The ids of a bounded result that is not empty."""
    given = {**options, **({"consumer": consumer} if consumer else {})}
    clause = f" WITH ({', '.join(f'{name} = {value!r}' for name, value in given.items())})" if given else ""
    return sql.column(f"SELECT id FROM STREAM {q} LIMIT 5 WAIT 10{clause}")


def test_a_nack_keeps_error_time_and_receiver(sql, failing):
    q = failing(min_backoff="0s")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    assert received(sql, q, consumer="mailer-3") == [1]
    assert attempts(sql, q) is None
    sql(f"NACK {q} 1 REASON 'HTTP 429'")
    assert received(sql, q) == [1]
    sql(f"NACK {q} 1 DELAY '1h'")
    first, second = attempts(sql, q)
    user = sql.value("SELECT USER()")
    assert first == {
        "attempt": 1,
        "at": first["at"],
        "outcome": "nacked",
        "receiver": "mailer-3",
        "user": user,
        "connection": sql.connection.thread_id(),
        "error": "HTTP 429",
    }
    assert abs(datetime.fromisoformat(first["at"]).replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=10)
    assert first["at"] <= second["at"]
    assert (second["attempt"], second["outcome"], "error" in second) == (2, "nacked", False)


def test_any_text_is_an_error(sql, failing):
    q = failing(min_backoff="0s")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    for _ in range(3):
        assert received(sql, q) == [1]
        sql(f"NACK {q} 1 REASON %s", POISON)
    assert [each["error"] for each in attempts(sql, q)] == [POISON] * 3


@pytest.mark.parametrize(("keep", "left"), [(3, [4, 5, 6]), (1, [6]), (0, None)])
def test_only_the_last_are_kept(sql, failing, keep, left):
    q = failing(min_backoff="0s", keep_attempts=keep)
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    for _ in range(6):
        assert received(sql, q) == [1]
        sql(f"NACK {q} 1 REASON 'no, not '")
    found = attempts(sql, q)
    assert (found and [each["attempt"] for each in found]) == left


def test_fewer_are_kept_from_then_on(sql, failing):
    q = failing(min_backoff="0s")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    for attempt in range(1, 6):
        assert received(sql, q) == [1]
        if attempt == 5:
            sql(f"ALTER QUEUE {q} SET (keep_attempts = 2)")
        sql(f"NACK {q} 1")
    assert [each["attempt"] for each in attempts(sql, q)] == [4, 5]


def test_a_lease_that_runs_out_is_a_failed_attempt(sql, failing):
    q = failing(min_backoff="0s", ack_wait="200ms")
    sql(f"INSERT INTO {q} (body) VALUES ('a'), ('b')")
    assert sorted(received(sql, q, consumer="slow")) == [1, 2]
    sql(f"ACK {q} 2")
    assert received(sql, q, ack_wait="1h") == [1]
    (found,) = attempts(sql, q)
    assert (found["attempt"], found["outcome"], found["receiver"]) == (1, "lease expired", "slow")
    assert found["connection"] == sql.connection.thread_id()
    assert attempts(sql, q, 2) is None
    sql(f"RELEASE {q} 1")
    assert received(sql, q) == [1]
    assert attempts(sql, q) == [found]  # what was released was no attempt, nor is the first counted twice


def test_a_receiver_that_is_gone(sql, failing, connect):
    q = failing(min_backoff="0s")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    other = connect()
    connection_id = other.connection.thread_id()
    assert received(other, q, lease="connection", consumer="gone") == [1]
    other.close()
    assert received(sql, q) == [1]
    (found,) = attempts(sql, q)
    assert (found["attempt"], found["outcome"], found["receiver"]) == (1, "receiver gone", "gone")
    assert found["connection"] == connection_id


def test_a_dead_letter_has_them_and_keeps_them_when_it_comes_back(sql, failing):
    q = failing(min_backoff="0s", max_attempts=2)
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    for error in ("first", "second"):
        assert received(sql, q) == [1]
        sql(f"NACK {q} 1 REASON '{error}'")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == []  # it is set aside
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}_dead") == 1, what="the dead letter")
    assert [each["error"] for each in attempts(sql, f"{q}_dead")] == ["first", "second"]
    assert sql(f"REDRIVE {q}_dead") == 1
    assert received(sql, q) == [1]
    sql(f"REJECT {q} 1 REASON 'third'")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}_dead") == 1, what="the dead letter again")
    found = attempts(sql, f"{q}_dead")
    assert [(each["attempt"], each["outcome"], each.get("error")) for each in found] == [
        (1, "nacked", "first"),
        (2, "nacked", "second"),
        (1, "rejected", "third"),
    ]


def test_the_last_lease_that_runs_out_is_known_of_a_dead_letter(sql, failing):
    q = failing(min_backoff="0s", max_attempts=1, ack_wait="200ms")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    assert received(sql, q, consumer="slow") == [1]
    sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 2")  # somebody asks, and it is set aside
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}_dead") == 1, what="the dead letter")
    (found,) = attempts(sql, f"{q}_dead")
    assert (found["attempt"], found["outcome"], found["receiver"]) == (1, "lease expired", "slow")


def test_what_is_rolled_back_is_not_kept(sql, failing):
    q = failing()
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    assert received(sql, q) == [1]
    sql("BEGIN")
    sql(f"NACK {q} 1 REASON 'no'")
    sql("ROLLBACK")
    assert attempts(sql, q) is None


def test_by_a_function_and_by_a_condition(sql, failing):
    q = failing(min_backoff="0s")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    assert received(sql, q) == [1]
    sql.rows(f"SELECT queue_nack('{q}', 1, 0, 'by function')")
    assert received(sql, q) == [1]
    sql(f"NACK {q} WHERE body = 'a' REASON 'by condition'")
    me = sql.connection.thread_id()
    found = [(each["error"], each["connection"]) for each in attempts(sql, q)]
    assert found == [("by function", me), ("by condition", me)]


def test_what_somebody_has_written_there_begins_anew(sql, failing):
    q = failing(min_backoff="0s")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    assert received(sql, q) == [1]
    sql(f"UPDATE {q} SET failed_attempts = 'no JSON' WHERE id = 1")
    sql(f"NACK {q} 1 REASON 'x'")
    assert [each["error"] for each in attempts(sql, q)] == ["x"]


def test_a_table_without_the_column_is_served(sql, failing):
    q = failing(min_backoff="0s")
    sql(f"ALTER TABLE {q} DROP COLUMN failed_attempts")
    sql(f"INSERT INTO {q} (body) VALUES ('a')")
    assert received(sql, q) == [1]
    assert sql(f"NACK {q} 1 REASON 'x'") == 1
    assert received(sql, q) == [1]


def test_a_column_of_that_name_and_another_type_is_the_users_own(sql, failing):
    q = failing(min_backoff="0s")
    sql(f"ALTER TABLE {q} DROP COLUMN failed_attempts")
    sql(f"ALTER TABLE {q} ADD COLUMN failed_attempts INT NULL")
    sql(f"INSERT INTO {q} (body, failed_attempts) VALUES ('a', 7)")
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 1 WAIT 10") == [(1, "a", 7)]
    assert sql(f"NACK {q} 1 REASON 'x'") == 1
    assert sql.value(f"SELECT failed_attempts FROM {q}") == 7

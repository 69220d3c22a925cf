"""NACK, RELEASE, RENEW, REJECT and RETRY: what each changes, counts and leads to (docs/sql.md, Settle)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import mysql.connector
import pytest
from servers import NS, wait_until

from engine.model.states import PARKED_NS, REJECTED_NS

pytestmark = pytest.mark.no_proxy_accounts


@pytest.fixture
def held(sql, queue):
    """A queue of five messages, all delivered a moment ago and leased for long."""
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4), (5)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 5") == [1, 2, 3, 4, 5]
    return q


@contextlib.contextmanager
def prepared(gate) -> Iterator[Any]:
    """Runs statements in the binary protocol; gives the rows, or how many were affected."""
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )

    def run(statement: str, *values: Any) -> Any:
        with contextlib.closing(link.cursor(prepared=True)) as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.with_rows else cursor.rowcount

    yield run
    link.close()


@contextlib.contextmanager
def prepared_cursor(gate) -> Iterator[Any]:
    """A cursor that prepares a statement once, as long as it executes the same string."""
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    with contextlib.closing(link), contextlib.closing(link.cursor(prepared=True)) as cursor:
        yield cursor


def due(sql, q):
    return sql.column(f"SELECT id FROM STREAM {q} LIMIT 100 NOWAIT")


def received(sql, q, count):
    """The ids of so many messages, however many results they come in."""
    ids: list[int] = []
    while len(ids) < count:
        more = sql.column(f"SELECT id FROM STREAM {q} LIMIT {count - len(ids)} WAIT 10")
        assert more, f"no more than {ids} came"
        ids += more
    return ids


# --- NACK


@pytest.mark.parametrize("which", ["2, 4", "(2, 4)", "'2', '4'", "WHERE id IN (2, 4)", "WHERE n IN (4, 2)"])
def test_a_nack_with_delay_0_brings_messages_again_at_once(sql, held, which):
    assert sql(f"NACK {held} {which} DELAY 0") == 2
    assert sql.column(f"SELECT id FROM {held} WHERE time_next % 1000 = 1 ORDER BY id") == [1, 3, 5]
    assert sql.rows(f"SELECT id, epoch FROM STREAM {held} LIMIT 2 WAIT 10") == [(2, 2), (4, 2)]
    assert due(sql, held) == []


@pytest.mark.parametrize("delay", ["30", "'30s'", "'0.5m'", "30.0"])
def test_a_nack_with_a_delay_postpones(sql, held, delay):
    before = time.time_ns()
    assert sql(f"NACK {held} 1 DELAY {delay}") == 1
    (until,) = sql.row(f"SELECT time_next FROM {held} WHERE id = 1")
    assert before + 25 * NS < until < time.time_ns() + 35 * NS and until % 1000 == 0
    assert due(sql, held) == []


def test_a_delayed_nack_fires_by_the_timer(sql, held, stream):
    receiver = stream(f"SELECT id, epoch FROM STREAM {held}")
    assert sql(f"NACK {held} 3 DELAY '300ms'") == 1
    assert receiver.wait(1, timeout=10) == [(3, 2)]


def test_reasons_are_kept_first_and_last(sql, held):
    assert sql(f"NACK {held} 1 REASON 'it''s \\\\ \"late\"'") == 1
    assert sql(f"NACK {held} 1 DELAY 5 REASON 'HTTP 429'") == 1
    assert sql(f"NACK {held} 1") == 1
    assert sql(f"REJECT {held} 2 REASON 'ü{'x' * 2000}'") == 1
    assert sql.row(f"SELECT first_error, last_error FROM {held} WHERE id = 1") == ('it\'s \\ "late"', "HTTP 429")
    assert sql.value(f"SELECT COUNT(*) FROM {held} WHERE id > 2 AND last_error IS NOT NULL") == 0


def test_a_nack_counts_delivered_unacked_messages_only(sql, held):
    sql(f"ACK {held} 1")
    sql(f"INSERT INTO {held} (n) VALUES (6)")
    sql(f"UPDATE {held} SET time_next = {PARKED_NS} WHERE id = 2")
    assert sql(f"NACK {held} 1, 2, 6, 999") == 0
    assert sql(f"NACK {held} 1, 2, 3, 6, 999") == 1
    assert sql(f"RENEW {held} 1, 2, 6, 999 FOR 60") == 0
    assert sql(f"REJECT {held} 1, 2, 999") == 0
    assert sql(f"RELEASE {held} 1, 2, 6, 999") == 0
    assert sql.value(f"SELECT time_next FROM {held} WHERE id = 2") == PARKED_NS


def test_a_nack_frees_the_receivers_window_at_once(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 1)")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert receiver.wait(1) == [(1,)]
    for number, verb in enumerate(("NACK {q} 1 DELAY 3600", "REJECT {q} 2"), 2):
        sql(verb.format(q=q))
        assert receiver.wait(number)[-1] == (number,)
    assert sql(f"RELEASE {q} 3") == 1
    assert receiver.wait(4)[-1] == (3,)  # it may have it again, for nobody else is there


def test_a_nacked_message_may_go_to_another_receiver(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'")
    first, second = stream(f"SELECT id FROM STREAM {q}"), stream(f"SELECT id FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    wait_until(lambda: first.rows or second.rows)
    for _ in range(20):
        sql(f"NACK {q} 1")
        wait_until(lambda: sql.value(f"SELECT time_next % 1000 = 1 FROM {q}"))
        if first.rows and second.rows:
            break
    assert len(first.rows) + len(second.rows) >= 2
    assert sql(f"ACK {q} 1") == 1


# --- in transactions


@pytest.mark.parametrize("verb", ["NACK {q} 1", "RELEASE {q} 1", "RENEW {q} 1 FOR '2h'", "REJECT {q} 1"])
@pytest.mark.parametrize("undo", ["ROLLBACK", "ROLLBACK TO SAVEPOINT s"])
def test_what_is_rolled_back_never_happened(sql, queue, stream, connect, verb, undo):
    q = queue("n INT", ack_wait="'1h'")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 2)")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert receiver.wait(2) == [(1,), (2,)]
    before = sql.rows(f"SELECT id, epoch, time_next, last_error FROM {q} ORDER BY id")
    other = connect(autocommit=False)
    other("BEGIN")
    other("SAVEPOINT s")
    assert other(verb.format(q=q)) == 1
    other(undo)
    other("COMMIT")
    assert sql.rows(f"SELECT id, epoch, time_next, last_error FROM {q} ORDER BY id") == before
    sql(f"INSERT INTO {q} (n) VALUES (3)")
    assert sql(f"ACK {q} 2") == 1
    assert receiver.wait(3) == [(1,), (2,), (3,)]  # one is acked, so one more fits; 1 is still held, and counts
    sql(f"INSERT INTO {q} (n) VALUES (4)")
    receiver.close()
    # 4 is due at once, and a WAIT ends with what is due: the lost receiver's messages may come with the next one.
    assert sorted(received(sql, q, 3)) == [1, 3, 4]


def test_a_nack_is_heard_of_at_commit(sql, held, connect, stream):
    receiver = stream(f"SELECT id FROM STREAM {held}")
    other = connect(autocommit=False)
    other("BEGIN")
    assert other(f"NACK {held} 1") == 1
    assert other(f"ACK {held} 2") == 1
    assert receiver.rows == []
    other("COMMIT")
    assert receiver.wait(1) == [(1,)]


# --- RELEASE


def test_a_release_takes_the_delivery_back_and_is_first_in_line(sql, held):
    sql(f"INSERT INTO {held} (n) VALUES (6)")
    assert sql(f"RELEASE {held} 5, 4") == 2
    assert sql.column(f"SELECT epoch FROM {held} WHERE id IN (4, 5)") == [0, 0]
    assert sql.column(f"SELECT state FROM {held} WHERE id IN (4, 5)") == ["to_be_fired"] * 2
    assert sql(f"RELEASE {held} 5") == 0
    assert sql.rows(f"SELECT id, epoch FROM STREAM {held} LIMIT 3") == [(4, 1), (5, 1), (6, 1)]


def test_a_release_concerns_what_is_in_flight_only(sql, held):
    sql(f"NACK {held} 1 DELAY 60")
    sql(f"UPDATE {held} SET time_next = 946684800000000000 WHERE id = 2")
    assert sql(f"RELEASE {held} WHERE id <= 3") == 1
    assert sql.column(f"SELECT epoch FROM {held} WHERE id <= 3 ORDER BY id") == [1, 1, 0]


# --- RENEW


def test_a_renewed_lease_holds_and_goes_back_with_its_receiver(sql, queue, stream):
    q = queue("n INT", ack_wait="'400ms'", min_backoff="'10ms'", max_backoff="'400ms'")
    receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert receiver.wait(2) == [(1, 1), (2, 1)]
    assert sql(f"RENEW {q} 1 FOR '1h'") == 1
    assert sql.value(f"SELECT time_next % 1000 FROM {q} WHERE id = 1") == 1
    assert receiver.wait(4)[2:] == [(2, 2), (2, 3)]  # the other comes again and again
    assert sql(f"ACK {q} 2") == 1
    receiver.close()
    assert sql.rows(f"SELECT id, epoch FROM STREAM {q} LIMIT 1 WAIT 10") == [(1, 2)]  # not after an hour


def test_a_renewed_message_goes_on_filling_the_window(sql, queue, stream):
    q = queue("n INT", ack_wait="'300ms'", min_backoff="'10ms'", max_backoff="'300ms'")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 1)")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert receiver.wait(1) == [(1,)]
    over = sql.value(f"SELECT time_next FROM {q} WHERE id = 1") + NS // 2
    assert sql(f"RENEW {q} WHERE n = 1 FOR '1h'") == 1
    wait_until(lambda: time.time_ns() > over, what="the end of the lease that it had")
    assert receiver.rows == [(1,)]
    assert sql(f"ACK {q} 1") == 1
    assert receiver.wait(2)[1] == (2,)


def test_a_lease_that_is_renewed_for_a_shorter_time_ends_then(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'", poll_interval="'10m'")
    holder = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 1)")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert holder.wait(1) == [(1,)]
    other = stream(f"SELECT id, epoch FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    assert other.wait(1) == [(2, 1)]
    assert sql(f"RENEW {q} 1 FOR '500ms'") == 1
    wait_until(lambda: (1, 2) in other.rows or holder.rows == [(1,), (1,)], what="the message to come again")


@pytest.mark.parametrize("renew", ["RENEW {q} WHERE n = 1 FOR '500ms'", "BEGIN; RENEW {q} 1 FOR '500ms'; COMMIT"])
def test_a_poll_that_shortens_its_lease_gives_the_message_to_others(sql, queue, stream, renew):
    q = queue("n INT", ack_wait="'1h'", poll_interval="'10m'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == [1]
    other = stream(f"SELECT id, epoch FROM STREAM {q}")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    assert other.wait(1) == [(2, 1)]
    for statement in renew.format(q=q).split(";"):
        sql(statement)
    assert other.wait(2)[1] == (1, 2)


# --- REJECT and RETRY


def test_a_rejected_message_is_never_sent_again(sql, queue):
    q = queue("n INT", ack_wait="'100ms'", min_backoff="'10ms'", max_backoff="'100ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 2") == [1, 2]
    assert sql(f"REJECT {q} 1, 3 REASON 'no'") == 2
    for epoch in range(2, 5):
        assert sql.rows(f"SELECT id, epoch FROM STREAM {q} LIMIT 1 WAIT 10") == [(2, epoch)]


def test_retry_now_makes_due_what_waits(sql, held):
    later = time.time_ns() + 3600 * NS
    sql(f"INSERT INTO {held} (n, time_scheduled) VALUES (6, {later}), (7, {later})")
    sql(f"NACK {held} 1, 2 DELAY 3600")
    sql(f"UPDATE {held} SET time_next = {PARKED_NS} WHERE id = 3")
    assert sql(f"RETRY {held} NOW WHERE n IN (1, 6)") == 2
    assert sorted(sql.column(f"SELECT id FROM STREAM {held} LIMIT 2 WAIT 10")) == [1, 6]
    assert sql(f"RETRY {held} NOW") == 2
    assert sorted(sql.column(f"SELECT id FROM STREAM {held} LIMIT 2 WAIT 10")) == [2, 7]
    assert sql(f"RETRY {held} NOW") == 0
    assert sql.column(f"SELECT id FROM {held} WHERE time_next IN ({PARKED_NS}, {REJECTED_NS})") == [3]


# --- prepared, as functions, with other ids


def test_prepared_verbs(gate, sql, held):
    with prepared(gate) as run:
        assert run(f"NACK {held} ?, ?", 1, 2) == 2
        assert run(f"NACK {held} ? DELAY ? REASON ?", 1, 3600, "it's \\ 'late'") == 1
        assert run(f"NACK {held} WHERE n = ? DELAY ?", 2, "1h") == 1
        assert run(f"RENEW {held} ? FOR ?", 3, "2h") == 1
        assert run(f"RELEASE {held} ?", 4) == 1
        assert run(f"REJECT {held} WHERE n = ?", 5) == 1
        assert run(f"RETRY {held} NOW WHERE n = ?", 2) == 1
        with pytest.raises(mysql.connector.Error) as caught:
            run(f"NACK {held} ? DELAY ?", 1, "soon")
        assert caught.value.errno == 1231
    assert sql.value(f"SELECT last_error FROM {held} WHERE id = 1") == "it's \\ 'late'"
    assert sorted(due(sql, held)) == [2, 4]


@pytest.mark.parametrize("verb", ["NACK {q} ?", "SELECT queue_nack('{q}', ?)", "NACK {q} WHERE n = ?"])
def test_a_prepared_verb_follows_the_options_of_the_moment(gate, sql, queue, verb):
    q = queue("n INT", min_backoff="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert sorted(received(sql, q, 2)) == [1, 2]
    statement = verb.format(q=q)
    with prepared_cursor(gate) as cursor:
        for id_ in (1, 2):
            cursor.execute(statement, (id_,))
            assert cursor.fetchall() == [(1,)] if cursor.with_rows else cursor.rowcount == 1
            sql(f"ALTER QUEUE {q} SET (max_attempts = 1)")
    wait_until(lambda: sql.column(f"SELECT id FROM {q}") == [1], what="the move of the second alone")


def test_a_prepared_alter_queue_changes_what_it_names_alone(gate, sql, queue):
    q = queue("n INT")
    statement = f"ALTER QUEUE {q} SET (batch_size = 7)"
    with prepared_cursor(gate) as cursor:
        for _ in range(2):
            cursor.execute(statement)
            text = sql.row(f"SHOW CREATE QUEUE {q}")[1]
            sql(f"ALTER QUEUE {q} SET (batch_size = 9, prefetch = 33)")
    assert "batch_size = 7" in text and "prefetch = 33" in text


def test_a_parameter_in_plain_text_is_an_error(sql, held):
    assert sql.error(f"NACK {held} 1 DELAY ?")[0] == 1064


def test_selected_functions_tell_how_many_changed(gate, sql, held):
    assert sql.rows(f"SELECT queue_ack('{held}', 1, 2, 999)") == [(2,)]
    assert sql.rows(f"SELECT queue_ack('{gate.database}.{held}', 1) AS again FROM DUAL") == [(0,)]
    assert sql.rows(f"SELECT queue_nack('{held}', 3, '1h', 'late')") == [(1,)]
    assert sql.rows(f"SELECT queue_renew('{held}', 4, '2h')") == [(1,)]
    assert sql.rows(f"SELECT queue_release('{held}', 4, 5) LIMIT 1") == [(2,)]
    assert sql.rows(f"SELECT queue_reject('{held}', 5, 'bad')") == [(1,)]
    assert sql.column(f"SELECT id FROM {held} WHERE time_acked IS NOT NULL ORDER BY id") == [1, 2]
    assert due(sql, held) == [4]
    with sql.connection.cursor() as cursor:
        cursor.execute(f"SELECT queue_ack('{held}',  4)")
        assert cursor.description[0][0] == f"queue_ack('{held}',  4)"


def test_a_selected_function_belongs_to_the_transaction(sql, held):
    sql("BEGIN")
    assert sql.value(f"SELECT queue_ack('{held}', 1)") == 1
    sql("ROLLBACK")
    assert sql.value(f"SELECT queue_ack('{held}', 1)") == 1


def test_called_functions(sql, held):
    assert sql(f"CALL queue_ack('{held}', 1, 2)") == 2
    assert sql(f"CALL queue_nack('{held}', 3)") == 1
    assert sql(f"CALL queue_nack('{held}', 3, NULL, 'late')") == 1
    assert due(sql, held) == []  # it waits for the queue's backoff
    assert sql(f"CALL queue_nack('{held}', 3, 0)") == 1
    assert sql(f"CALL queue_release('{held}', 4)") == 1
    assert sql(f"CALL queue_renew('{held}', 5, 3600)") == 1
    assert sql(f"CALL queue_reject('{held}', 5)") == 1
    assert sorted(due(sql, held)) == [3, 4]


def test_prepared_functions(gate, sql, held):
    with prepared(gate) as run:
        assert run("SELECT queue_ack(?, ?, ?)", held, 1, 2) == [(2,)]
        assert run(f"SELECT queue_nack('{held}', ?, ?, ?)", 3, "1h", "late") == [(1,)]
        assert run("CALL queue_release(?, ?)", held, 4) == 1
        assert run(f"SELECT queue_ack('{held}', 5)") == [(1,)]
    assert sql.column(f"SELECT id FROM {held} WHERE time_acked IS NOT NULL ORDER BY id") == [1, 2, 5]
    assert sql.row(f"SELECT first_error, last_error FROM {held} WHERE id = 3") == ("late", "late")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT queue_ack('{q}', 1), 2",
        "SELECT queue_ack('{q}', id) FROM {q}",
        "SELECT 1 + queue_ack('{q}', 1)",
        "SELECT queue_ack('{q}', 1) UNION SELECT 1",
        "SELECT queue_nack('{q}', 1 + 1)",
    ],
)
def test_other_uses_of_the_functions_are_refused(sql, held, text):
    errno, told = sql.error(text.format(q=held))
    assert errno == 1235 and "instead" not in told and told
    assert sql.value(f"SELECT COUNT(*) FROM {held} WHERE time_acked IS NOT NULL") == 0


@pytest.mark.parametrize(
    ("declared", "literals"),
    [("VARCHAR(40)", ["'a-1'", "'it''s'"]), ("VARBINARY(16)", ["X'00ff27'", "X'5c'"])],
)
def test_ids_of_other_kinds(sql, queue, stream, declared, literals):
    q = queue(f"id {declared} PRIMARY KEY, n INT", ack_wait="'1h'")
    one, two = literals
    sql(f"INSERT INTO {q} (id, n) VALUES ({one}, 1), ({two}, 2)")
    receiver = stream(f"SELECT n FROM STREAM {q} WITH (prefetch = 2)")
    receiver.wait(2)
    assert sql(f"NACK {q} {one} DELAY 3600") == 1
    assert sql(f"RENEW {q} {two} FOR '2h'") == 1
    sql(f"INSERT INTO {q} (id, n) VALUES ('new', 3)")
    assert receiver.wait(3)[2] == (3,)  # the window has room again
    assert sql.value(f"SELECT queue_release('{q}', {two})") == 1
    assert sql.value(f"SELECT queue_reject('{q}', {one})") == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("NACK {q} 1 DELAY '11y'", 1231),
        ("NACK {q} 1 DELAY '5000d'", 1231),
        ("RENEW {q} 1 FOR '1ms'", 1231),
        ("RENEW {q} 1", 1064),
        ("NACK {q} x", 1064),
        ("NACK {q} 'x'", 1366),
        ("RETRY {q}", 1064),
        ("NACK nowhere_at_all 1", 1146),
        ("NACK {q} WHERE id = 1 LIMIT 1", 1235),
        ("NACK {q} WHERE nonsense = 1", 1054),
    ],
)
def test_what_is_wrong_is_told(sql, held, text, number):
    assert sql.error(text.format(q=held))[0] == number


def test_release_savepoint_is_ordinary_sql(sql):
    sql("BEGIN")
    sql("SAVEPOINT s")
    assert sql("RELEASE SAVEPOINT s") == 0
    sql("COMMIT")


# --- an empty batch


@pytest.mark.parametrize(
    "statement",
    ["ACK {q} ()", "NACK {q} () DELAY 5", "RELEASE {q} ()", "REJECT {q} () REASON 'x'", "RENEW {q} () FOR 9"],
)
def test_an_empty_batch_settles_nothing(sql, held, statement):
    before = sql.rows(f"SELECT * FROM {held}")
    assert sql(statement.format(q=held)) == 0
    assert sql.rows(f"SELECT * FROM {held}") == before


@pytest.mark.parametrize("function", ["queue_ack", "queue_release"])
def test_a_function_takes_an_empty_batch(sql, held, function):
    assert sql.value(f"SELECT {function}('{held}', ())") == 0
    assert sql.value(f"SELECT COUNT(*) FROM {held} WHERE time_acked IS NULL") == 5


def test_an_empty_list_of_a_driver_is_an_empty_batch(sql, held):
    assert sql(f"ACK {held} %s", []) == 0
    assert sql(f"ACK {held} %s", [1, 2]) == 2

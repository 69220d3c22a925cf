"""A delivery has a name that never comes twice: `lease_token`. Whoever held a message before changes nothing by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mysql.connector
import pytest
from servers import Sql, wait_until

VERBS = (
    "ACK {q} WHERE id = {id} AND lease_token = {token}",
    "ACK {q} WHERE id IN ({id}) AND lease_token = {token}",
    "NACK {q} WHERE id = {id} AND lease_token = {token} DELAY 0",
    "REJECT {q} WHERE id = {id} AND lease_token = {token} REASON 'late'",
    "RELEASE {q} WHERE id = {id} AND lease_token = {token}",
    "RENEW {q} WHERE id = {id} AND lease_token = {token} FOR '1h'",
)
EXACT = 2**53


class Delivery(NamedTuple):
    """A row of a stream."""

    id: int
    token: int
    epoch: int


def receive(sql: Sql, q: str, more: str = "LIMIT 1 WAIT 30") -> Delivery:
    """The next delivery of a queue, or of what stands for one behind STREAM."""
    return Delivery(*sql.row(f"SELECT id, lease_token, epoch FROM STREAM {q} {more}"))


def row(sql: Sql, q: str) -> tuple[object, ...]:
    """All that a verb could change of the only message."""
    return sql.row(f"SELECT id, epoch, time_next, time_acked, lease_token, last_error FROM {q}")


def changes_nothing(sql: Sql, q: str, stale: Delivery) -> None:
    """Every verb that names this delivery counts none, and leaves the message as it is."""
    before = row(sql, q)
    for verb in VERBS:
        assert sql(verb.format(q=q, id=stale.id, token=stale.token)) == 0, verb
    assert row(sql, q) == before


@pytest.fixture
def held(sql, queue) -> tuple[str, Delivery]:
    """A queue with one message, which is leased for a long time."""
    q = queue("n INT", ack_wait="'1h'", min_backoff="'10ms'", max_backoff="'10ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    return q, receive(sql, q)


def test_a_delivery_is_named_below_what_any_client_reads_exactly(sql, held):
    q, first = held
    assert first.epoch == 1 and 0 < first.token < EXACT
    assert sql.value(f"SELECT lease_token FROM {q}") == first.token
    assert sql(f"ACK {q} WHERE id = {first.id} AND lease_token = {first.token}") == 1
    assert sql(f"ACK {q} WHERE id = {first.id} AND lease_token = {first.token}") == 0


def test_it_is_hidden_like_the_queues_other_columns(sql, queue):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    cursor = sql.connection.cursor()
    cursor.execute(f"SELECT * FROM STREAM {q} LIMIT 1 WAIT 30")
    assert [column[0] for column in cursor.description] == ["id", "n"]
    cursor.fetchall()
    assert "lease_token" not in str(sql.row(f"SHOW CREATE QUEUE {q}"))


ENDINGS: dict[str, Callable[[Sql, str, int], int]] = {
    "RELEASE": lambda sql, q, token: sql(f"RELEASE {q} WHERE id = 1 AND lease_token = {token}"),
    "RELEASE by id": lambda sql, q, token: sql(f"RELEASE {q} 1"),
    "NACK": lambda sql, q, token: sql(f"NACK {q} WHERE id = 1 AND lease_token = {token} DELAY 0"),
    "NACK by id": lambda sql, q, token: sql(f"NACK {q} 1 DELAY 0"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_ends_a_lease_makes_its_name_void_at_once(sql, held, ending):
    q, first = held
    assert ENDINGS[ending](sql, q, first.token) == 1
    changes_nothing(sql, q, first)
    second = receive(sql, q)
    assert second.token > first.token and second.epoch == (2 if "NACK" in ending else 1)
    changes_nothing(sql, q, first)
    assert sql(f"ACK {q} WHERE id = {second.id} AND lease_token = {second.token}") == 1


def test_after_a_lease_has_run_out_and_the_message_was_delivered_again(sql, queue):
    q = queue("n INT", ack_wait="'50ms'", min_backoff="'10ms'", max_backoff="'10ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    first = receive(sql, q)
    again = receive(sql, q, "LIMIT 1 WAIT 30 WITH (ack_wait = '1h')")
    assert again.epoch == 2 and again.token > first.token
    changes_nothing(sql, q, first)


def test_a_lease_that_merely_ran_out_may_still_be_acked(sql, queue):
    q = queue("n INT", ack_wait="'20ms'", min_backoff="'10ms'", max_backoff="'10ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    first = receive(sql, q)
    over = f"SELECT COUNT(*) FROM {q} WHERE time_next < {sql.value(f'SELECT time_next + 50000000 FROM {q}')}"
    wait_until(lambda: sql.value(over) == 1, what="the lease to run out")
    assert sql(f"ACK {q} WHERE id = {first.id} AND lease_token = {first.token}") == 1


def test_a_renewed_lease_keeps_its_name(sql, held):
    q, first = held
    assert sql(f"RENEW {q} WHERE id = {first.id} AND lease_token = {first.token} FOR '2h'") == 1
    assert sql.value(f"SELECT lease_token FROM {q}") == first.token
    assert sql(f"ACK {q} WHERE id = {first.id} AND lease_token = {first.token}") == 1


def test_a_receiver_that_is_gone_has_nothing_to_say(sql, queue, connect):
    q = queue("n INT", ack_wait="'1h'", min_backoff="'10ms'", max_backoff="'10ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    gone = connect()
    first = receive(gone, q, "LIMIT 1 WAIT 30 WITH (lease = 'connection')")
    gone.close()
    wait_until(lambda: sql.value(f"SELECT lease_token FROM {q}") > first.token, what="the message to be given back")
    changes_nothing(sql, q, first)
    assert receive(sql, q).token > first.token + 1
    changes_nothing(sql, q, first)


def test_after_reject_and_redrive(sql, queue):
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    first = receive(sql, q)
    assert sql(f"REJECT {q} WHERE id = {first.id} AND lease_token = {first.token}") == 1
    for verb in VERBS:
        assert sql(verb.format(q=q, id=first.id, token=first.token)) == 0, "a rejected message is nobody's"
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}_dead") == 1, what="the dead letter")
    assert sql.value(f"SELECT lease_token FROM {q}_dead") == 0
    dead = receive(sql, f"{q}_dead")
    assert sql(f"RELEASE {q}_dead WHERE id = {dead.id} AND lease_token = {dead.token}") == 1
    assert sql(f"REDRIVE {q}_dead") == 1
    changes_nothing(sql, q, first)
    again = receive(sql, q)
    assert (again.id, again.epoch) == (first.id, 1) and again.token > first.token
    changes_nothing(sql, q, first)
    changes_nothing(sql, q, dead)


def test_after_truncate_queue_ids_go_on(sql, held):
    q, first = held
    sql(f"TRUNCATE QUEUE {q}")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    assert sql(f"ACK {q} {first.id}") == 0, "an ack of before, by the id alone"
    second = receive(sql, q)
    assert second.id > first.id
    sql(f"TRUNCATE QUEUE {q}")
    sql(f"INSERT INTO {q} (id, n) VALUES ({first.id}, 2)")
    changes_nothing(sql, q, first)
    assert receive(sql, q).token > first.token
    changes_nothing(sql, q, first)


def test_after_drop_and_create(sql, held):
    q, first = held
    sql(f"DROP QUEUE {q}")
    sql(f"CREATE QUEUE {q} (n INT) WITH (ack_wait = '1h')")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    changes_nothing(sql, q, first)
    second = receive(sql, q)
    assert second.id == first.id and second.token > first.token
    changes_nothing(sql, q, first)


def test_after_a_seek(sql, topic):
    t = topic(g="START AT EARLIEST WITH (ack_wait = '1h')")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    member = "LIMIT 1 WAIT 30 WITH (group = 'g')"
    first = receive(sql, t, member)
    assert first.token > 0
    assert sql(f"ALTER GROUP g ON {t} SEEK TO EARLIEST") == 1
    verbs = [f"{verb.format(q=t, id=first.id, token=first.token)} GROUP g" for verb in VERBS]
    assert [sql(verb) for verb in verbs] == [0] * len(verbs)
    again = receive(sql, t, member)
    assert (again.id, again.epoch) == (first.id, 1) and again.token > first.token
    assert [sql(verb) for verb in verbs] == [0] * len(verbs), "the message that was fed again is another's"
    assert sql(f"ACK {t} WHERE id = {again.id} AND lease_token = {again.token} GROUP g") == 1


def test_after_an_orderly_stop_of_the_proxy(new_gate):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (n INT) WITH (ack_wait = '2s', min_backoff = '10ms', max_backoff = '10ms')")
    sql("INSERT INTO q (n) VALUES (1)")
    first = receive(sql, "q")
    sql.connection._force_close()
    gate.stop()
    gate.start()
    sql = Sql(gate.connect())
    again = receive(sql, "q", "LIMIT 1 WAIT 60 WITH (ack_wait = '1h')")
    assert again.id == first.id and again.token > first.token
    changes_nothing(sql, "q", first)
    sql.close()


# --- what clients write


@pytest.mark.parametrize("written", [2**63 - 1, 2**53 - 1, 2**53, -5, -(2**63)])
def test_a_number_of_a_clients_own_is_no_trap(sql, queue, written):
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n, lease_token) VALUES (1, {written})")
    first = receive(sql, q)
    assert 0 < first.token < EXACT
    sql(f"UPDATE {q} SET lease_token = {written}")
    for verb in ("NACK {q} 1 DELAY 0", "RELEASE {q} 1", "NACK {q} 1 DELAY 0"):
        assert sql(verb.format(q=q)) == 1
        assert 0 < receive(sql, q).token < EXACT
    assert sql(f"REJECT {q} 1") == 1


def test_several_of_one_claim_are_named_at_once(sql, queue):
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    tokens = dict(sql.rows(f"SELECT id, lease_token FROM STREAM {q} LIMIT 3 WAIT 30"))
    assert sorted(tokens) == [1, 2, 3] and len(set(tokens.values())) == 1
    token = tokens[1]
    assert sql(f"RELEASE {q} 2") == 1
    assert sql(f"ACK {q} WHERE id IN (1, 2, 3) AND lease_token = {token}") == 2
    assert receive(sql, q).id == 2


def test_prepared(gate, sql, held):
    q, first = held
    connection = mysql.connector.connect(host="127.0.0.1", port=gate.port, user="root", database=gate.database)
    cursor = connection.cursor(prepared=True)
    for verb, more in (("RENEW", "FOR '1h'"), ("NACK", "DELAY 0"), ("ACK", "")):
        cursor.execute(f"{verb} {q} WHERE id = ? AND lease_token = ? {more}", (first.id, first.token + 1))
        assert cursor.rowcount == 0
    cursor.execute(f"ACK {q} WHERE id = ? AND lease_token = ?", (first.id, first.token))
    assert cursor.rowcount == 1
    connection.close()


def test_the_receiver_of_a_stream_is_sent_the_next_once_it_has_acked_by_name(sql, queue, stream):
    q = queue("n INT", ack_wait="'1h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    receiver = stream(f"SELECT id, lease_token FROM STREAM {q} WITH (prefetch = 1)")
    ((id_, token),) = receiver.wait(1)
    assert sql(f"ACK {q} WHERE id = {id_} AND lease_token = {token}") == 1
    assert [row[0] for row in receiver.wait(2)] == [1, 2]

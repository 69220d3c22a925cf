"""What a client writes into the queue's own columns costs its own message at most: the neighbours are delivered.

Each value at the ends of its type goes through a life: delivered, nacked, delivered again, released, looked at,
rejected, redriven. (docs/sql.md, "Rows by hand")
"""

from __future__ import annotations

import pytest
from servers import wait_until

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

BIGINT = (-(1 << 63), (1 << 63) - 1)
PARKED = BIGINT[1]
LIFE = {"ack_wait": "'1h'", "max_backoff": "'2h'", "min_backoff": "'10ms'"}
RESTRICTIONS = [{}, {"max_attempts": 20}, {"order_key": "'k'"}, {"max_concurrency": 50, "max_rate": 1000}]
EPOCHS = {
    "BIGINT": [BIGINT[0], BIGINT[0] + 1, -1, BIGINT[1] - 1, BIGINT[1]],
    "TINYINT": [-128, 126, 127],
    "TINYINT UNSIGNED": [255],
    "SMALLINT": [32767],
    "INT": [(1 << 31) - 1],
    "INT UNSIGNED": [(1 << 32) - 1],
    "BIGINT UNSIGNED": [(1 << 63) - 1, (1 << 64) - 1],
}
TIMES = [BIGINT[0], BIGINT[0] + 1, -1, 0, 946_684_800 * 10**9, BIGINT[1] - 2, BIGINT[1] - 1, BIGINT[1]]


@pytest.fixture
def queue(queue, gate):
    """As `queue`, and its dead-letter queue is dropped with it."""
    from servers import Sql

    made = []

    def make(*columns, **options):
        made.append(queue(*columns, **options))
        return made[-1]

    yield make
    client = Sql(gate.connect())
    for name in made:
        client(f"DROP QUEUE IF EXISTS {name}_dead")
    client.close()


def receive(sql, q, *wanted, within=20):
    """Receive until the wanted messages have come; all that came, with their attempts."""
    found = {}

    def there():
        found.update(sql.rows(f"SELECT id, epoch FROM STREAM {q} LIMIT 20 NOWAIT"))
        return set(wanted) <= set(found)

    wait_until(there, within, f"messages {wanted} of {q}")
    return found


def live(sql, q, *others):
    """The life of messages 1 and others, which may be strange ones, and 2, which is not."""
    ids = ", ".join(map(str, (1, 2, *others)))
    receive(sql, q, 2)
    sql.rows(f"SELECT * FROM {q}")
    look(sql, q)
    assert sql(f"RENEW {q} {ids} FOR 3600") >= 1
    assert sql(f"NACK {q} {ids} REASON 'later'") >= 1
    receive(sql, q, 2)
    assert sql(f"NACK {q} {ids} DELAY 0 REASON 'now'") >= 1
    receive(sql, q, 2)
    assert sql(f"RELEASE {q} {ids}") >= 1
    receive(sql, q, 2)
    sql(f"RETRY {q} NOW")
    look(sql, q)
    sql.rows(f"SELECT * FROM {q}")


def look(sql, q):
    """All that shows messages."""
    assert len(sql.rows(f"EXPLAIN DELIVERY FOR {q} WHERE id IN (1, 2)")) == 2
    assert len(sql.rows(f"TRACE MESSAGE 1 ON {q}")) == 1
    assert len(sql.rows(f"SHOW QUEUE STATUS LIKE '{q}'")) == 1
    sql.rows(f"SELECT * FROM queuegate.in_flight WHERE queue = '{q}'")


def bury_and_redrive(sql, q, ids, *wanted):
    """They become dead letters, and come back as new messages, the wanted ones among them."""
    assert sql(f"REJECT {q} {ids} REASON 'bad'") >= 1
    count = sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL AND time_next <> {PARKED}")
    wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next = {PARKED - 1}"), what="the move")
    assert sql.rows(f"SELECT * FROM {q}_dead")
    assert sql(f"REDRIVE {q}_dead") >= count
    receive(sql, q, *wanted)


@pytest.mark.parametrize("restriction", RESTRICTIONS, ids=str)
@pytest.mark.parametrize("kind", EPOCHS)
def test_an_epoch_at_the_end_of_its_type(sql, queue, kind, restriction, place):
    q = queue(f"epoch {kind} NOT NULL DEFAULT 0, k INT, body TEXT", **LIFE, **restriction)
    # The embedded database has no integers beyond a BIGINT, and refuses them.
    epochs = [epoch for epoch in EPOCHS[kind] if place != "embedded" or epoch <= BIGINT[1]]
    ids = [1, *range(3, 2 + len(epochs))]
    for number, epoch in zip(ids, epochs, strict=True):
        sql(f"INSERT INTO {q} (id, k, body, epoch) VALUES ({number}, {number}, 'strange', {epoch})")
    sql(f"INSERT INTO {q} (id, k, body, epoch) VALUES (2, 2, 'plain', 0)")
    live(sql, q, *ids[1:])
    bury_and_redrive(sql, q, ", ".join(map(str, (*ids, 2))), *ids, 2)


def test_an_epoch_at_its_highest_is_delivered_and_stays(sql, queue):
    q = queue("epoch TINYINT NOT NULL DEFAULT 0, body TEXT", **LIFE)
    sql(f"INSERT INTO {q} (body, epoch) VALUES ('x', 126)")
    for _ in range(3):
        assert receive(sql, q, 1) == {1: 127}
        assert sql(f"NACK {q} 1 DELAY 0") == 1
    assert sql.value(f"SELECT state FROM {q}") == "fired"
    assert receive(sql, q, 1) == {1: 127}
    assert sql(f"ACK {q} WHERE id = 1 AND epoch = 127") == 1


def test_a_negative_epoch_counts_as_none(sql, queue):
    q = queue("body TEXT", max_attempts=2, **LIFE)
    sql(f"INSERT INTO {q} (body, epoch) VALUES ('x', -5)")
    assert receive(sql, q, 1) == {1: 1}
    assert sql(f"RENEW {q} 1 FOR 60") == 1
    assert sql(f"NACK {q} 1 DELAY 0") == 1
    assert receive(sql, q, 1) == {1: 2}


def test_the_highest_epoch_is_the_last_attempt_where_attempts_are_bounded(sql, queue):
    q = queue("epoch TINYINT NOT NULL DEFAULT 0, body TEXT", max_attempts=1000, **LIFE)
    sql(f"INSERT INTO {q} (body, epoch) VALUES ('spent', 127), ('fresh', 0)")
    assert receive(sql, q, 2) == {2: 1}
    wait_until(lambda: sql.column(f"SELECT id FROM {q}") == [2], what="the move")
    assert sql.rows(f"SELECT id, attempts FROM {q}_dead") == [(1, 127)]


@pytest.mark.parametrize("restriction", RESTRICTIONS, ids=str)
@pytest.mark.parametrize("column", ["time_scheduled", "time_next", "time_created", "time_acked"])
def test_times_at_the_ends_of_their_type(sql, queue, column, restriction):
    q = queue("k INT, body TEXT", **LIFE, **restriction)
    for number, value in enumerate(TIMES, 10):
        sql(f"INSERT INTO {q} (id, k, body, {column}) VALUES ({number}, {number}, 'strange', {value})")
    sql(f"INSERT INTO {q} (id, k, body, {column}) VALUES (1, 1, 'strange', {TIMES[0]}), (2, 2, 'plain', DEFAULT)")
    live(sql, q)
    ids = ", ".join(map(str, (1, 2, *range(10, 10 + len(TIMES)))))
    bury_and_redrive(sql, q, ids, *((2,) if column == "time_acked" else (1, 2)))


@pytest.mark.parametrize("kind", ["TINYINT", "TINYINT UNSIGNED", "BIGINT", "BIGINT UNSIGNED"])
def test_priorities_at_the_ends_of_their_type(sql, queue, kind, place):
    bits = 8 if kind.startswith("TINY") else 64
    lowest, highest = (0, (1 << bits) - 1) if "UNSIGNED" in kind else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    highest = min(highest, BIGINT[1]) if place == "embedded" else highest
    q = queue(f"priority {kind} NOT NULL DEFAULT 50, body TEXT", **LIFE)
    sql(f"INSERT INTO {q} (id, body, priority) VALUES (1, 'last', {highest}), (2, 'plain', 50), (3, 'first', {lowest})")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 10 NOWAIT") == [3, 2, 1]
    assert sql(f"NACK {q} 1, 2, 3 DELAY 0") == 3
    live(sql, q)
    bury_and_redrive(sql, q, "1, 2, 3", 1, 2, 3)


def test_a_receiver_holds_messages_for_half_a_day_at_most(sql, queue):
    q, long = queue("body TEXT"), queue("body TEXT", ack_wait="'2d'", max_backoff="'3d'")
    for name in (q, long):
        sql(f"INSERT INTO {name} (body) VALUES ('x')")
    for wait in ("'3650d'", "'13h'", 43201):
        assert sql.error(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT WITH (ack_wait = {wait})")[0] == 1231
    assert sql.error(f"SELECT id FROM STREAM {long} LIMIT 1 NOWAIT WITH (ack_wait = '49h')")[0] == 1231
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT WITH (ack_wait = '12h')") == [1]
    assert sql.column(f"SELECT id FROM STREAM {long} LIMIT 1 NOWAIT WITH (ack_wait = '47h')") == [1]
    assert sql.error(f"RENEW {q} 1 FOR '13h'")[0] == 1231
    assert sql.error(f"SELECT queue_renew('{q}', 1, '3650d')")[0] == 1231
    assert sql(f"RENEW {q} 1 FOR '12h'") == 1
    assert sql(f"RENEW {long} 1 FOR '48h'") == 1


def test_negative_ids_in_every_verb(sql, queue):
    q = queue("body TEXT", **LIFE)
    sql(f"INSERT INTO {q} (id, body) VALUES (-5, 'a'), (-9223372036854775808, 'b'), (7, 'c')")
    ids = "-5, -9223372036854775808, +7"
    receive(sql, q, -5, BIGINT[0], 7)
    assert sql(f"RENEW {q} {ids} FOR 60") == 3
    assert sql(f"NACK {q} ({ids}) DELAY 0") == 3
    receive(sql, q, -5, BIGINT[0], 7)
    assert sql(f"RELEASE {q} - 5, -9223372036854775808") == 2
    receive(sql, q, -5, BIGINT[0])
    assert sql.named(f"TRACE MESSAGE -5 ON {q}")[0]["state"] == "in_flight"
    assert sql.value(f"SELECT queue_nack('{q}', -5)") == 1
    assert sql(f"REJECT {q} -9223372036854775808") == 1
    assert sql(f"ACK {q} -5, 7") == 2
    assert sql.error(f"ACK {q} -9223372036854775809")[0] == 1366
    assert sql.error(f"ACK {q} -5.5")[0] == 1235
    assert sql.error(f"ACK {q} 7 - 5")[0] == 1235


TOKENS = [BIGINT[0], -1, (1 << 53) - 2, (1 << 53) - 1, 1 << 53, BIGINT[1] - 1, BIGINT[1]]


def test_lease_tokens_at_the_ends_of_their_type(sql, queue):
    q = queue("body TEXT", **LIFE)
    for number, value in enumerate(TOKENS, 10):
        sql(f"INSERT INTO {q} (id, body, lease_token) VALUES ({number}, 'strange', {value})")
    sql(f"INSERT INTO {q} (id, body, lease_token) VALUES (1, 'strange', {BIGINT[1]}), (2, 'plain', 0)")
    live(sql, q)
    ids = ", ".join(map(str, (1, 2, *range(10, 10 + len(TOKENS)))))
    bury_and_redrive(sql, q, ids, 1, 2)


TEXTS = ["x", "[{", '[{"attempt": 1', "[{}]", "[]", "null", '"' * 50, "[{" * 500, "\\\\", "", "'"]


@pytest.mark.parametrize("column", ["failed_attempts", "first_error", "last_error"])
def test_what_is_kept_of_failures_may_hold_anything(sql, queue, column):
    q = queue("body TEXT", **LIFE)
    ids = [1, *range(3, 2 + len(TEXTS))]
    for number, text in zip(ids, TEXTS, strict=True):
        sql(f"INSERT INTO {q} (id, body, {column}) VALUES ({number}, 'strange', %s)", text)
    sql(f"INSERT INTO {q} (id, body, {column}) VALUES (2, 'plain', NULL)")
    live(sql, q, *ids[1:])
    bury_and_redrive(sql, q, ", ".join(map(str, (*ids, 2))), *ids, 2)


@pytest.mark.parametrize("column", ["time_scheduled", "time_created"])
def test_times_of_a_topic_at_the_ends_of_their_type(sql, topic, column):
    t = topic("body VARCHAR(20)", billing="START AT EARLIEST")
    for value in (BIGINT[0], -1, 0, 946_684_800 * 10**9, BIGINT[1] - 2, BIGINT[1] - 1, BIGINT[1]):
        sql(f"INSERT INTO {t} (body, {column}) VALUES ('strange', {value})")
    sql(f"INSERT INTO {t} (body) VALUES ('plain')")
    found = []

    def there():
        found.extend(sql.column(f"SELECT body FROM STREAM {t} LIMIT 20 NOWAIT WITH (group = 'billing')"))
        return "plain" in found

    wait_until(there, what="the plain message")
    assert len(sql.rows(f"SHOW GROUPS ON {t}")) == 1 and len(sql.rows(f"SHOW TOPICS LIKE '{t}'")) == 1
    assert sql.rows(f"TRACE MESSAGE 1 ON {t}")
    assert "plain" in sql.column(f"SELECT body FROM STREAM {t} SINCE EARLIEST UNTIL OFFSET 8")
    assert sql(f"ALTER GROUP billing ON {t} SEEK TO EARLIEST") >= 0
    found.clear()
    wait_until(there, what="the plain message after the seek")

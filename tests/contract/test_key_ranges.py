"""SHARDING KEY and key_range: a message goes to the streams whose part of the ring has its key (docs/key-ranges.md)."""

from __future__ import annotations

import hashlib

import pytest
from servers import SERVER, wait_until

from engine.model.key_range import read_key_range

pytestmark = pytest.mark.no_proxy_accounts

HALVES = ("-80", "80-")


def slot_of(key):
    """The first two bytes of Vitess's keyspace id of a key, by its vindex binary_md5."""
    data = key if isinstance(key, bytes) else str(key).encode()
    return int.from_bytes(hashlib.md5(data, usedforsecurity=False).digest()[:2], "big")


@pytest.fixture
def sharded(queue):
    def make(columns="user_id BIGINT NOT NULL, body TEXT", key="user_id", **options):
        return queue(columns, sharding_key=f"'{key}'", **options)

    return make


def enqueue(sql, q, columns, *rows):
    """One INSERT of these rows."""
    row = f"({', '.join(['%s'] * len(rows[0]))})"
    sql(f"INSERT INTO {q} ({columns}) VALUES {', '.join([row] * len(rows))}", *(value for row in rows for value in row))


def ranges(sql, q):
    """SHOW QUEUE q RANGES: receivers, ready and in flight by range."""
    return {row[0]: (row[1], row[2], row[4]) for row in sql.rows(f"SHOW QUEUE {q} RANGES")}


KEYS = {
    "BIGINT": [0, 1, -1, 10, 11, 9223372036854775807, -9223372036854775808],
    "INT UNSIGNED": [0, 7, 4294967295],
    "VARCHAR(40)": ["", "a", "A", "a ", "é", "😀", "O'Neil\\s", "x" * 40],
    "CHAR(36) CHARACTER SET ascii": ["5c4bceb3-8f2a-4b7e-9d7c-0a1b2c3d4e5f", "abc", ""],
    "CHARACTER VARYING(9)": ["abc", "b "],
    "BINARY(4)": [b"abcd", b"\x00\x01\x02\xff"],
    "VARBINARY(20)": [b"", b"\x00\xff", b"abc"],
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": ["a", "A", "ß"],
}


@pytest.mark.parametrize("kind", KEYS)
def test_the_database_places_a_message_where_vitess_would(sql, sharded, kind):
    if SERVER == "vitess" and "VARYING" in kind:
        pytest.skip("a vtgate does not read CHARACTER VARYING, and passes the statement on with the keyspace's name")
    q = sharded(f"k {kind} NOT NULL", key="k")
    for key in KEYS[kind]:
        sql(f"INSERT INTO {q} (k) VALUES (%s)", key)
    assert sql.column(f"SELECT queuegate_slot FROM {q} ORDER BY id") == [slot_of(key) for key in KEYS[kind]]


def test_each_message_goes_to_the_streams_of_its_range(sql, sharded, stream):
    q = sharded()
    receivers = [stream(f"SELECT user_id FROM STREAM {q} WITH (key_range = '{half}')") for half in HALVES]
    enqueue(sql, q, "user_id", *((user,) for user in range(60)))
    for receiver, half in zip(receivers, HALVES, strict=True):
        wanted = [user for user in range(60) if read_key_range("", half).covers(slot_of(user))]
        receiver.wait(len(wanted))
        assert receiver.ids() == wanted
    lone = next(user for user in range(100, 200) if slot_of(user) < 0x8000)
    sql(f"INSERT INTO {q} (user_id) VALUES (%s)", lone)
    wait_until(lambda: receivers[0].ids()[-1] == lone, what="a message by itself")


def test_a_key_range_of_several_parts_and_a_condition(sql, sharded):
    q = sharded()
    enqueue(sql, q, "user_id, body", *((user, "odd" if user % 2 else "even") for user in range(40)))
    wanted = [user for user in range(40) if user % 2 and read_key_range("", "-20,c0-").covers(slot_of(user))]
    got = sql.column(
        f"SELECT user_id FROM STREAM {q} WHERE body = 'odd' OR body = 'none' LIMIT 100 NOWAIT"
        " WITH (key_range = '-20,c0-')"
    )
    assert got == wanted != []
    assert len(sql.rows(f"SELECT user_id FROM STREAM {q} LIMIT 100 NOWAIT WITH (key_range = '-')")) == 40 - len(wanted)


def test_what_waits_where_and_for_whom(sql, sharded, stream):
    q = sharded()
    users = {half: next(u for u in range(100) if read_key_range("", half).covers(slot_of(u))) for half in HALVES}
    enqueue(sql, q, "user_id", (users["-80"],), (users["80-"],), (users["80-"],))
    assert ranges(sql, q) == {"-": (0, 3, 0)}
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (key_range = '80-')")
    receiver.wait(2)
    wait_until(lambda: ranges(sql, q) == {"-80": (0, 1, 0), "80-": (1, 0, 2)}, what="both halves")
    (shown,) = [row for row in sql.rows("SHOW SUBSCRIPTIONS") if row[0] == q]
    assert shown[-2:] == ("80-", "shared")
    state, text = sql.row(f"EXPLAIN DELIVERY FOR {q} WHERE user_id = {users['-80']}")[1:]
    assert state == "uncovered" and f"{slot_of(users['-80']):04x}" in text
    everywhere = stream(f"SELECT id FROM STREAM {q} WITH (prefetch = 1)")
    everywhere.wait(1)
    wait_until(lambda: ranges(sql, q) == {"-80": (1, 0, 1), "80-": (2, 0, 2)}, what="a stream of the whole ring")


def test_a_key_is_added_to_a_queue_with_messages_changed_and_dropped(sql, queue, stream):
    q = queue("user_id BIGINT NOT NULL, city VARCHAR(20) NOT NULL")
    enqueue(sql, q, "user_id, city", *((user, f"city {user}") for user in range(20)))
    errno, text = sql.error(f"SELECT id FROM STREAM {q} NOWAIT WITH (key_range = '-80')")
    assert errno == 1231 and "ADD SHARDING KEY" in text
    sql(f"ALTER QUEUE {q} ADD SHARDING KEY (user_id)")
    assert sql.column(f"SELECT queuegate_slot FROM {q} ORDER BY id") == [slot_of(user) for user in range(20)]
    everyone = stream(f"SELECT user_id FROM STREAM {q} WITH (key_range = '-,80-')")
    assert [user for (user,) in everyone.wait(20)] == list(range(20))
    sql(f"ALTER QUEUE {q} SET (sharding_key = 'city')")
    assert sql.column(f"SELECT queuegate_slot FROM {q} ORDER BY id") == [slot_of(f"city {n}") for n in range(20)]
    sql(f"ALTER QUEUE {q} SET (ack_wait = '31s')")
    assert "sharding_key = 'city'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]
    sql(f"ALTER QUEUE {q} DROP SHARDING KEY")
    assert "queuegate_slot" not in sql.row(f"SHOW CREATE TABLE {q}")[1]
    assert sql.error(f"SHOW QUEUE {q} RANGES")[0] == 1235
    everyone.close()
    sql(f"UPDATE {q} SET time_next = 0")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 50 NOWAIT")) == 20


HAND_MADE = {
    "a text": "VARCHAR(20) GENERATED ALWAYS AS (body) VIRTUAL",
    "a number with a sign": "SMALLINT GENERATED ALWAYS AS (user_id) VIRTUAL",
    "not generated": "SMALLINT UNSIGNED",
    "NULL": "SMALLINT UNSIGNED GENERATED ALWAYS AS (NULLIF(user_id, user_id)) VIRTUAL",
}


@pytest.mark.parametrize("case", HAND_MADE)
def test_a_column_of_slots_made_by_hand_harms_nobody(sql, sharded, stream, case):
    q = sharded("user_id INT NOT NULL, body VARCHAR(20)")
    (comment,) = sql.row("SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME = %s", q)
    sql(f"ALTER QUEUE {q} DROP SHARDING KEY")
    sql(f"ALTER TABLE {q} ADD COLUMN queuegate_slot {HAND_MADE[case]}")
    sql(f"ALTER TABLE {q} COMMENT = '{comment}'")
    read = f"SELECT user_id FROM STREAM {q} WITH (key_range = '-80')"
    if case == "NULL":  # it has the type of a slot, and is none
        receiver = stream(read)
        sql(f"INSERT INTO {q} (user_id, body) VALUES (1, 'x')")
    else:
        wait_until(lambda: sql.error(f"{read} LIMIT 0")[0] == 1231, what="the catalog to be read")
        sql(f"INSERT INTO {q} (user_id, body) VALUES (1, 'x')")
        receiver = None
    assert sql.rows(f"SELECT user_id FROM STREAM {q} LIMIT 1 WAIT 20") == [(1,)]
    assert receiver is None or receiver.error is None


def test_a_stream_of_a_range_ends_with_its_ring(sql, sharded, stream):
    q = sharded()
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (key_range = '-80')")
    sql(f"ALTER QUEUE {q} DROP SHARDING KEY")
    sql(f"INSERT INTO {q} (user_id) VALUES (1)")
    assert "queuegate_slot" in str(receiver.wait_end())


def test_show_create_queue_makes_the_same_queue_again(sql, sharded, name):
    q = sharded()
    made = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    assert "queuegate_slot" not in made and "sharding_key = 'user_id'" in made
    sql(made.replace(q, name))
    assert sql.row(f"SHOW CREATE QUEUE {name}")[1] == made.replace(q, name)
    assert sql.row(f"SHOW CREATE TABLE {name}")[1].count("queuegate_slot") == 2
    sql(f"DROP QUEUE {name}")


def test_the_slot_is_hidden_and_no_columns_are_lost(sql, sharded):
    q = sharded()
    sql(f"INSERT INTO {q} (user_id, body) VALUES (1, 'x')")
    with sql.connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM STREAM {q} NOWAIT")
        assert [column[0] for column in cursor.description] == ["id", "user_id", "body"]
        cursor.execute(f"SELECT queuegate_slot FROM STREAM {q} NOWAIT")
        assert [column[0] for column in cursor.description] == ["queuegate_slot"]


def test_a_dead_letter_goes_and_comes_back(sql, sharded):
    q = sharded(max_attempts=1)
    sql(f"INSERT INTO {q} (user_id, body) VALUES (7, 'x')")
    assert sql.rows(f"SELECT id FROM STREAM {q} NOWAIT WITH (key_range = '-,-')") == [(1,)]
    sql(f"REJECT {q} 1")
    wait_until(lambda: sql.rows(f"SHOW QUEUES LIKE '{q}_dead'"), what="the dead letter")
    wait_until(lambda: sql.rows(f"SELECT user_id FROM {q}_dead") == [(7,)], what="the message in it")
    assert "queuegate_slot" not in sql.row(f"SHOW CREATE TABLE {q}_dead")[1]
    sql(f"REDRIVE {q}_dead")
    assert sql.rows(f"SELECT user_id, queuegate_slot FROM {q}") == [(7, slot_of(7))]
    sql(f"DROP QUEUE {q}_dead")


def test_limits_and_order_hold_within_ranges(sql, sharded):
    q = sharded("user_id INT NOT NULL, n INT", order_key="'user_id'")
    low = [user for user in range(40) if slot_of(user) < 0x8000][:3]
    enqueue(sql, q, "user_id, n", *((user, n) for n in range(2) for user in low))
    read = f"SELECT id, n FROM STREAM {q} LIMIT 10 NOWAIT WITH (key_range = '-80')"
    first = sql.rows(read)
    assert [n for _, n in first] == [0, 0, 0]
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 10 NOWAIT WITH (key_range = '80-')") == []
    for id_, _ in first:
        sql(f"ACK {q} {id_}")
    assert [n for _, n in sql.rows(read)] == [1, 1, 1]


REFUSED = {
    "a column that allows NULL": ("k INT", "'k'", 1231, "NOT NULL"),
    "no such column": ("k INT NOT NULL", "'other'", 1231, "not a column of yours"),
    "the queue's own": ("k INT NOT NULL", "'priority'", 1231, "not a column of yours"),
    "a float": ("k DOUBLE NOT NULL", "'k'", 1231, "must be an integer"),
    "a text without bounds": ("k TEXT NOT NULL", "'k'", 1231, "must be an integer"),
    "an ENUM": ("k ENUM('a', 'b') NOT NULL", "'k'", 1231, "must be an integer"),
    "a time": ("k DATETIME NOT NULL", "'k'", 1231, "must be an integer"),
    "a column of the name": ("k INT NOT NULL, queuegate_slot INT", "'k'", 1235, "leave it out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_sharding_key(sql, name, case):
    columns, key, number, text = REFUSED[case]
    errno, message = sql.error(f"CREATE QUEUE {name} ({columns}) WITH (sharding_key = {key})")
    assert errno == number and text in message, (errno, message)
    if "queuegate_slot" not in columns:
        sql(f"CREATE QUEUE {name} ({columns})")
        errno, message = sql.error(f"ALTER QUEUE {name} SET (sharding_key = {key})")
        assert errno == number and text in message, (errno, message)
        sql(f"DROP QUEUE {name}")


STATEMENTS = {
    "CREATE QUEUE {q} (k INT NOT NULL) SHARDING KEY (k) USING hash": (1235, "binary_md5"),
    "CREATE QUEUE {q} (k INT NOT NULL) SHARDING KEY (k) USING xxhash": (1235, "binary_md5"),
    "CREATE QUEUE {q} (k INT NOT NULL) SHARDING KEY (k, k)": (1235, "several columns"),
    "CREATE QUEUE {q} (k INT NOT NULL) SHARDING KEY k": (1064, ""),
    "CREATE QUEUE {q} (k INT NOT NULL) SHARDING KEY (k) WITH (sharding_key = 'k')": (1231, "twice"),
    "CREATE TOPIC {q} (k INT NOT NULL) SHARDING KEY (k)": (1064, ""),
    "CREATE TOPIC {q} (k INT NOT NULL) WITH (sharding_key = 'k')": (1231, "sharding_key"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_is_refused(sql, name, statement):
    number, text = STATEMENTS[statement]
    errno, message = sql.error(statement.format(q=name))
    assert errno == number and text in message, (errno, message)


def test_a_consumer_group_has_no_ring(sql, topic):
    t = topic(billing="START AT EARLIEST")
    errno, message = sql.error(f"SELECT id FROM STREAM {t} NOWAIT WITH (group = 'billing', key_range = '-80')")
    assert errno == 1231 and "its topic has none" in message
    assert sql.error(f"ALTER GROUP billing ON {t} SET (sharding_key = 'user_id')")[0] == 1231
    assert sql.error(f"SELECT id FROM STREAM {t} WITH (key_range = '-80')")[0] == 1231


def test_a_wrong_range_is_refused(sql, sharded):
    q = sharded()
    for text in ("80", "-8", "80-40", "", "-80,zz-"):
        errno, message = sql.error(f"SELECT id FROM STREAM {q} NOWAIT WITH (key_range = '{text}')")
        assert errno == 1231 and "key_range" in message, (text, errno, message)


def test_messages_without_a_key_are_refused(sql, sharded):
    q = sharded()
    assert sql.error(f"INSERT INTO {q} (user_id) VALUES (NULL)")[0] == 1048
    assert sql.error(f"INSERT INTO {q} (body) VALUES ('x')")[0] == 1364


def test_the_slot_follows_its_key(sql, sharded):
    q = sharded()
    sql(f"INSERT INTO {q} (user_id) VALUES (1)")
    sql(f"UPDATE {q} SET user_id = 2")
    assert sql.value(f"SELECT queuegate_slot FROM {q}") == slot_of(2)
    assert sql.error(f"UPDATE {q} SET queuegate_slot = 3")[0] in (1906, 3105)


def test_what_the_proxy_inserts_and_moves_itself_has_its_place(sql, sharded, name):
    """A schedule's message, and those of a backlog whose rows it changes: no client's session is at work then."""
    q = sharded(min_backoff=0)
    sql(f"CREATE SCHEDULE {name} ON {q} EVERY '1d' (user_id) VALUES (11)")
    sql(f"RUN SCHEDULE {name}")
    assert sql.rows(f"SELECT user_id, queuegate_slot FROM {q}") == [(11, slot_of(11))]
    ((id_, epoch),) = sql.rows(f"SELECT id, epoch FROM STREAM {q} NOWAIT WITH (key_range = '-80')")
    sql(f"NACK {q} {id_} DELAY 0")
    again = sql.rows(f"SELECT id, epoch FROM STREAM {q} LIMIT 1 WAIT 20 WITH (key_range = '-80')")
    assert again == [(id_, epoch + 1)] == [(id_, 2)]
    sql(f"DROP SCHEDULE {name}")

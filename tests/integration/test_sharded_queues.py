"""A queue over the two shards of a Vitess keyspace, through a proxy: every verb, and what is refused."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pymysql
import pytest
from pymysql.cursors import SSCursor
from servers import DATABASE, SERVER, Gate, Sql, wait_until
from vitess_server import SHARDED

from queuegate_worker import Worker

pytestmark = pytest.mark.skipif(SERVER != "vitess", reason="needs a Vitess: make test-vitess")

LOW, HIGH = 6, 1
"""Keys in the first shard and in the second."""


@pytest.fixture
def place():
    return "vitess"


@pytest.fixture(scope="module")
def gate(mariadb, tmp_path_factory) -> Iterator[Gate]:
    gate = Gate(mariadb.url(), tmp_path_factory.mktemp("sharded")).start()
    yield gate
    gate.stop()


@pytest.fixture
def sql(gate) -> Iterator[Sql]:
    session = Sql(gate.connect(database=SHARDED))
    yield session
    session.close()


@pytest.fixture
def q(sql) -> Iterator[str]:
    name = f"q{uuid.uuid4().hex[:8]}"
    sql(f"CREATE QUEUE {name} (k BIGINT NOT NULL, body VARCHAR(20)) SHARDING KEY (k) WITH (ack_wait = '1h')")
    yield name
    sql(f"DROP QUEUE {name}")


def enqueued(sql: Sql, q: str, *messages: tuple[int, str]) -> dict[str, int]:
    """Insert them one by one; their ids, by body."""
    for key, body in messages:
        assert sql(f"INSERT INTO {q} (k, body) VALUES (%s, %s)", key, body) == 1
    return {body: id_ for id_, body in sql.rows(f"SELECT id, body FROM {q}")}


def received(sql: Sql, q: str, count: int, options: str = "") -> list[str]:
    return sorted(sql.column(f"SELECT body FROM STREAM {q} LIMIT {count} WAIT 10 {options}"))


def states(sql: Sql, q: str) -> dict[str, str]:
    return dict(sql.rows(f"SELECT body, state FROM {q}"))


def test_ids_are_unique_and_the_ring_is_the_keyspaces(sql, q):
    ids = enqueued(sql, q, *((key, f"m{key}") for key in range(60)))
    assert len(set(ids.values())) == 60
    of_shard = {}
    for shard in ("-80", "80-"):
        sql(f"USE `{SHARDED}:{shard}`")
        of_shard[shard] = set(sql.column(f"SELECT body FROM {q}"))
        sql(f"USE {SHARDED}")
    assert of_shard["-80"] and of_shard["80-"] and len(of_shard["-80"] | of_shard["80-"]) == 60
    assert set(received(sql, q, 60, "WITH (key_range = '-80')")) == of_shard["-80"]
    assert set(received(sql, q, 60, "WITH (key_range = '80-')")) == of_shard["80-"]


def test_the_verbs_reach_both_shards(sql, q):
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"), (LOW, "c"), (HIGH, "d"), (LOW, "e"), (HIGH, "f"))
    assert received(sql, q, 6) == ["a", "b", "c", "d", "e", "f"]
    assert sql(f"ACK {q} {ids['a']}, {ids['b']}") == 2
    assert sql(f"ACK {q} {ids['a']}, {ids['b']}") == 0, "they are acked"
    assert sql(f"NACK {q} {ids['c']}, {ids['d']} DELAY 0") == 2
    assert received(sql, q, 2) == ["c", "d"]
    assert sql(f"RENEW {q} {ids['e']}, {ids['f']} FOR '10m'") == 2
    assert sql(f"RELEASE {q} WHERE id IN ({ids['e']}, {ids['f']})") == 2
    assert received(sql, q, 2) == ["e", "f"]
    token = sql.row(f"SELECT lease_token FROM {q} WHERE body = 'e'")[0]
    assert sql(f"ACK {q} WHERE id = {ids['e']} AND lease_token = {token + 1}") == 0
    assert sql(f"ACK {q} WHERE id = {ids['e']} AND lease_token = {token}") == 1
    assert sql(f"ACK {q} WHERE body IN ('c', 'd')") == 2, "a condition is asked of every shard"
    assert sql(f"UPDATE {q} SET state = 'acked' WHERE id = {ids['f']}") == 1
    assert set(states(sql, q).values()) == {"acked"}
    assert sql(f"ACK {q} 987654321") == 0
    assert sql(f"TRUNCATE QUEUE {q}") == 6


def test_verbs_as_prepared_statements_and_functions(sql, q, gate):
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"), (HIGH, "c"))
    assert received(sql, q, 3) == ["a", "b", "c"]
    import mysql.connector

    with mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", password="", database=SHARDED, autocommit=True
    ) as connection:
        cursor = connection.cursor(prepared=True)
        for body in ("a", "b"):
            cursor.execute(f"ACK {q} WHERE id = ?", (ids[body],))
            assert cursor.rowcount == 1
    assert sql.rows(f"SELECT queue_ack('{q}', {ids['c']})") == [(1,)]
    assert set(states(sql, q).values()) == {"acked"}


def test_dead_letters_and_back(sql, q):
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"))
    assert received(sql, q, 2) == ["a", "b"]
    assert sql(f"REJECT {q} {ids['a']}, {ids['b']} REASON 'bad'") == 2
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.row(f"SELECT COUNT(*) FROM {q}_dead")[0] == 2, what="the dead letters")
    for key, shard in ((LOW, "-80"), (HIGH, "80-")):
        sql(f"USE `{SHARDED}:{shard}`")
        assert sql.column(f"SELECT k FROM {q}_dead") == [key], "they stay in their shard"
        sql(f"USE {SHARDED}")
    assert sql.error(f"REDRIVE {q}_dead LIMIT 1")[0] == 1235
    assert sql(f"REDRIVE {q}_dead") == 2
    assert received(sql, q, 2) == ["a", "b"]
    sql(f"DROP QUEUE {q}_dead")


def test_an_ack_commits_with_a_row_of_the_same_shard_only(sql, q, gate):
    business = f"biz_{q}"
    vtgate = Sql(gate.connect(database=SHARDED))
    vtgate(f"CREATE TABLE {business} (k BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL)")
    vtgate(f"ALTER VSCHEMA ON {SHARDED}.{business} ADD VINDEX binary_md5 (k) USING binary_md5")
    insert = f"INSERT INTO {business} VALUES ({LOW}, 0)"
    wait_until(lambda: _accepts(vtgate, insert), timeout=60, what="vtgate to know the table")
    vtgate(f"INSERT INTO {business} VALUES ({HIGH}, 0)")
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"))
    assert received(sql, q, 2) == ["a", "b"]
    sql("BEGIN")
    assert sql(f"UPDATE {business} SET n = n + 1 WHERE k = {LOW}") == 1
    assert sql(f"ACK {q} {ids['a']}") == 1
    sql("ROLLBACK")
    assert states(sql, q) == {"a": "fired", "b": "fired"}
    sql("BEGIN")
    sql(f"UPDATE {business} SET n = n + 1 WHERE k = {LOW}")
    assert sql(f"ACK {q} {ids['a']}") == 1
    sql("COMMIT")
    assert states(sql, q) == {"a": "acked", "b": "fired"}
    sql("BEGIN")
    sql(f"UPDATE {business} SET n = n + 1 WHERE k = {LOW}")
    errno, text = sql.error(f"ACK {q} {ids['b']}")
    assert errno == 1317 and "another shard" in text
    sql("ROLLBACK")
    assert sql.rows(f"SELECT k, n FROM {business} ORDER BY k") == [(HIGH, 0), (LOW, 1)]
    sql("BEGIN")
    errno, text = sql.error(f"ACK {q} {ids['a']}, {ids['b']}")
    assert errno == 1235 and "2 shards" in text
    assert sql.error(f"SELECT id FROM STREAM {q} LIMIT 1")[0] in (0, 1235)
    sql("ROLLBACK")
    assert sql(f"ACK {q} {ids['b']}") == 1
    vtgate(f"DROP TABLE {business}")
    vtgate.close()


def _accepts(session: Sql, statement: str) -> bool:
    try:
        return session(statement) == 1
    except pymysql.MySQLError:
        return False


def test_an_enqueue_commits_with_a_row_of_the_same_shard_only(sql, q):
    sql("BEGIN")
    sql(f"INSERT INTO {q} (k, body) VALUES ({LOW}, 'a')")
    assert sql.error(f"INSERT INTO {q} (k, body) VALUES ({HIGH}, 'b')")[0] == 1317
    sql("ROLLBACK")
    assert sql.error(f"INSERT INTO {q} (k, body) VALUES ({LOW}, 'a'), ({HIGH}, 'b')")[0] == 1317
    assert sql.rows(f"SELECT id FROM {q}") == []
    sql("BEGIN")
    sql(f"INSERT INTO {q} (k, body) VALUES ({LOW}, 'a')")
    sql(f"INSERT INTO {q} (k, body) VALUES ({LOW}, 'b')")
    sql("COMMIT")
    assert received(sql, q, 2) == ["a", "b"]


@pytest.fixture
def business(sql, q) -> Iterator[str]:
    """A table of rows with the same keys, one of each shard."""
    name = f"biz_{q}"
    sql(f"CREATE TABLE {name} (k BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL)")
    sql(f"ALTER VSCHEMA ON {SHARDED}.{name} ADD VINDEX binary_md5 (k) USING binary_md5")
    for key in (LOW, HIGH):
        wait_until(lambda key=key: _accepts(sql, f"INSERT INTO {name} VALUES ({key}, 0)"), what="vtgate to know it")
    yield name
    sql(f"DROP TABLE {name}")


def _add(business: str, key: int) -> str:
    return f"UPDATE {business} SET n = n + 1 WHERE k = {key}"


def _refused_at(session: Sql, *statements: str) -> tuple[int, int]:
    """Which of the statements is refused, and by which error; (-1, 0): the transaction was committed."""
    for number, statement in enumerate(("BEGIN", *statements, "COMMIT")):
        try:
            session(statement)
        except pymysql.MySQLError as error:
            session("ROLLBACK")
            return number, error.args[0]
    return -1, 0


_OVER_SHARDS = [
    ("{low}", "{high}", "ACK {q} {a}"),
    ("{low}", "DELETE FROM {q} WHERE id = {b} AND k = 1"),
    ("{low}", "UPDATE {q} SET time_acked = 1700000000000000000, time_next = NULL WHERE id = {b} AND k = 1"),
    ("{low}", "INSERT INTO {q} (k, body) VALUES (1, 'new')"),
    ("{low}", "NACK {q} {b} DELAY 0"),
]


@pytest.mark.parametrize("statements", _OVER_SHARDS)
def test_the_first_transaction_of_a_session_changes_one_shard(gate, sql, q, business, statements):
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"))
    values = {"q": q, **ids, "low": _add(business, LOW), "high": _add(business, HIGH)}
    session = Sql(gate.connect(database=SHARDED))
    assert _refused_at(session, *(statement.format(**values) for statement in statements)) == (2, 1317)
    assert _refused_at(session, _add(business, LOW), f"ACK {q} {ids['a']}") == (-1, 0)
    session("SET autocommit = 0")
    session(_add(business, HIGH))
    assert session.error(f"INSERT INTO {q} (k, body) VALUES ({LOW}, 'new')")[0] == 1317
    session("ROLLBACK")
    assert states(sql, q) == {"a": "acked", "b": "to_be_fired"}
    assert sql.rows(f"SELECT k, n FROM {business} ORDER BY k") == [(HIGH, 0), (LOW, 1)]
    session.close()


def test_a_session_that_asks_for_several_shards_has_no_messages_in_them(gate, sql, q, business):
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"), (HIGH, "c"))
    session = Sql(gate.connect(database=SHARDED))
    session("SET transaction_mode = 'multi'")
    assert _refused_at(session, _add(business, LOW), _add(business, HIGH)) == (-1, 0), "it may, without messages"
    for statement in (f"ACK {q} {ids['a']}", f"DELETE FROM {q} WHERE id = {ids['a']} AND k = {LOW}"):
        assert _refused_at(session, _add(business, LOW), statement) == (2, 1235)
    assert session(f"ACK {q} {ids['a']}, {ids['b']}") == 2, "a verb by itself goes from shard to shard"
    session("SET transaction_mode = 'single'")
    assert _refused_at(session, _add(business, HIGH), f"ACK {q} {ids['c']}") == (-1, 0)
    session("BEGIN")
    session("SET transaction_mode = 'MULTI'")
    assert session.error(f"INSERT INTO {q} (k, body) VALUES ({LOW}, 'd')")[0] == 1235, "it is not known any more"
    session("ROLLBACK")
    session.close()


def test_sessions_without_transactions_keep_their_mode(gate, sql, q, business):
    session = Sql(gate.connect(database=SHARDED))
    assert session(f"UPDATE {business} SET n = n + 1") == 2
    assert session.row("SELECT @@transaction_mode") == ("MULTI",)
    session.close()


def test_a_limit_and_ids_of_choice_are_refused(sql, q):
    ids = enqueued(sql, q, (LOW, "a"), (LOW, "b"), (HIGH, "c"), (HIGH, "d"))
    for statement in (
        f"UPDATE {q} SET state = 'acked' ORDER BY id LIMIT 1",
        f"ACK {q} WHERE id = (SELECT m FROM (SELECT MIN(id) AS m FROM {q}) AS t)",
        f"INSERT INTO {q} (id, k, body) VALUES (7, {LOW}, 'x')",
        f"REPLACE INTO {q} (id, k, body) VALUES ({ids['a']}, {HIGH}, 'x')",
        f"CREATE QUEUE wide (k INT(8) ZEROFILL NOT NULL) SHARDING KEY (k) -- {q}",
        f"ALTER QUEUE {q} SET (dead_letter = '{q}_mine')",
    ):
        assert sql.error(statement)[0] in (1235, 1231), statement
    assert set(states(sql, q).values()) == {"to_be_fired"}
    assert sql(f"INSERT INTO {q} (k, body) SELECT k, body FROM {q} WHERE k = {LOW}") == 2
    assert sql(f"INSERT INTO {q} (id, k, body) VALUES (NULL, {LOW}, 'x')") == 1


def test_more_messages_than_a_tablet_changes_at_once(gate, sql, q):
    main = Sql(gate.connect(database=DATABASE))
    main(f"CREATE QUEUE {q} (k BIGINT NOT NULL, body VARCHAR(20))")
    for session in (sql, main):
        for _ in range(21):
            session(f"INSERT INTO {q} (k, body) VALUES {', '.join([f'({LOW}, 1)'] * 1000)}")
    errno, text = sql.error(f"ACK {q} WHERE body = '1'")
    assert errno == 1317 and "a part of the messages at a time" in text
    ids = sorted(sql.column(f"SELECT id FROM {q} ORDER BY id LIMIT 5000"))
    assert sql(f"ACK {q} WHERE id BETWEEN {ids[0]} AND {ids[-1]}") == 5000
    for session in (sql, main):
        session("BEGIN")
        if session is main:
            assert session(f"TRUNCATE QUEUE {q}") == 21_000
        session("ROLLBACK")
        assert session(f"TRUNCATE QUEUE {q}") == 21_000
        assert session.rows(f"SELECT id FROM {q} LIMIT 1") == []
    main(f"DROP QUEUE {q}")
    main.close()


def test_a_session_without_autocommit(gate, sql, q):
    connection = gate.connect(database=SHARDED)
    connection.autocommit(False)
    session = Sql(connection)
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"))
    for _ in range(2):
        ((body,),) = session.rows(f"SELECT body FROM STREAM {q} LIMIT 1 WAIT 10")
        assert session(f"ACK {q} {ids[body]}") == 1
        connection.commit()
    assert set(states(sql, q).values()) == {"acked"}
    session.close()


def test_a_session_without_a_database(gate, sql, q):
    connection = gate.connect(database=None)
    session = Sql(connection)
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"))
    assert len(session.rows(f"SELECT body FROM STREAM {SHARDED}.{q} LIMIT 2 WAIT 10")) == 2
    assert session(f"ACK {SHARDED}.{q} {ids['a']}, {ids['b']}") == 2
    session.close()


def test_a_stream_is_told_of_commits_in_both_shards(gate, sql, q):
    stream = gate.connect(database=SHARDED, cursorclass=SSCursor)
    cursor = stream.cursor()
    cursor.execute(f"SELECT id, body FROM STREAM {q} WITH (prefetch = 1)")
    for number in range(20):
        sql(f"INSERT INTO {q} (k, body) VALUES ({number}, 'm{number}')")
        id_, body = cursor.fetchone()
        assert body == f"m{number}"
        assert sql(f"ACK {q} {id_}") == 1
    cursor._result.unbuffered_active = False
    stream._force_close()


def test_what_the_views_show(sql, q):
    ids = enqueued(sql, q, (LOW, "a"), (HIGH, "b"), (HIGH, "c"))
    assert received(sql, q, 1) in (["a"], ["b"], ["c"])
    wait_until(lambda: _shown(sql, q, "Ready") == 2, what="the census")
    assert _shown(sql, q, "In_flight") == 1
    assert sum(row[2] for row in sql.rows(f"SHOW QUEUE {q} RANGES")) == 2
    told = {int(row[0]): row[1] for row in sql.rows(f"EXPLAIN DELIVERY FOR {q}")}
    assert set(told) == set(ids.values())
    assert "SHARDING KEY" in str(sql.row(f"SHOW CREATE QUEUE {q}")) or "sharding_key" in str(
        sql.row(f"SHOW CREATE QUEUE {q}")
    )


def _shown(sql: Sql, q: str, column: str) -> int:
    connection = sql.connection
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW QUEUE STATUS")
        (row,) = [row for row in cursor.fetchall() if q in row.values()]
    return int(row[column])


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("CREATE QUEUE wide (body TEXT)", "SHARDING KEY"),
        ("CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k) WITH (order_key = 'k')", "order_key"),
        ("CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k) WITH (max_rate = '5/s')", "max_rate"),
        ("CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k) WITH (max_concurrency = 5)", "max_concurrency"),
        ("CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k) WITH (group_key = 'k')", "group_key"),
        ("CREATE QUEUE wide (k INT NOT NULL) SHARDING KEY (k) WITH (archive = 1)", "archive"),
        ("CREATE QUEUE wide (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL) SHARDING KEY (k)", "sequence"),
        ("CREATE QUEUE wide (id VARCHAR(36) PRIMARY KEY, k INT NOT NULL) SHARDING KEY (k)", "integer"),
        ("CREATE TOPIC wide (body TEXT)", "sharded"),
        ("CREATE SCHEDULE nightly ON {q} EVERY '1h' (k, body) VALUES (1, 'x')", "sharded"),
        ("ALTER QUEUE {q} SET (max_concurrency = 5)", "max_concurrency"),
        ("ALTER QUEUE {q} SET (sharding_key = 'body')", "sharding key"),
        ("ALTER QUEUE {q} DROP SHARDING KEY", "sharding key"),
    ],
)
def test_what_is_refused(sql, q, statement, told):
    errno, text = sql.error(statement.format(q=q))
    assert errno == 1235 and told in text, text
    assert sql.rows("SHOW TABLES LIKE 'wide'") == []


def test_a_queue_is_made_again_with_ids_that_go_on(sql):
    q = f"q{uuid.uuid4().hex[:8]}"
    ids: list[int] = []
    for key in ("k", "other"):
        sql(f"CREATE QUEUE {q} ({key} BIGINT NOT NULL, body VARCHAR(20)) SHARDING KEY ({key})")
        sql(f"CREATE QUEUE IF NOT EXISTS {q} ({key} BIGINT NOT NULL, body VARCHAR(20)) SHARDING KEY ({key})")
        sql(f"INSERT INTO {q} ({key}, body) VALUES (1, 'x')")
        ids += sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10")
        sql(f"DROP QUEUE {q}")
    assert ids[1] > ids[0], "an ack that comes late ends no new message"


def test_a_table_with_another_vindex_is_left_alone(sql, gate):
    name = f"t{uuid.uuid4().hex[:8]}"
    vtgate = Sql(gate.connect(database=SHARDED))
    vtgate(f"ALTER VSCHEMA ON {SHARDED}.{name} ADD VINDEX hash (k) USING hash")
    wait_until(lambda: vtgate.rows(f"SHOW VSCHEMA VINDEXES ON {SHARDED}.{name}"), what="vtgate to know the table")
    errno, text = sql.error(f"CREATE QUEUE {name} (k BIGINT NOT NULL) SHARDING KEY (k)")
    assert errno == 1235 and "hash(k)" in text and "ALTER VSCHEMA DROP TABLE" in text
    vtgate(f"ALTER VSCHEMA DROP TABLE {SHARDED}.{name}")
    sql(f"CREATE QUEUE {name} (k BIGINT NOT NULL) SHARDING KEY (k)")
    sql(f"DROP QUEUE {name}")
    vtgate.close()


def test_queues_of_one_shard_are_as_before(gate):
    session, q = Sql(gate.connect(database=DATABASE)), f"q{uuid.uuid4().hex[:8]}"
    session(f"CREATE QUEUE {q} (body TEXT)")
    session(f"INSERT INTO {q} (body) VALUES ('a'), ('b')")
    assert session.column(f"SELECT body FROM STREAM {q} LIMIT 2 WAIT 10") == ["a", "b"]
    assert session(f"ACK {q} 1, 2") == 2
    session(f"DROP QUEUE {q}")
    session.close()


def test_many_sessions_at_once(gate, sql, q):
    """Producers and receivers with a connection each: every message is acked once."""
    total, each, lock = 400, 100, threading.Lock()
    acked: list[int] = []

    def produce(start: int) -> None:
        session = Sql(gate.connect(database=SHARDED))
        for number in range(start, start + each):
            session(f"INSERT INTO {q} (k, body) VALUES ({number}, 'x')")
        session.close()

    def receive() -> None:
        session = Sql(gate.connect(database=SHARDED))
        while True:
            with lock:
                if len(acked) >= total:
                    break
            ids = session.column(f"SELECT id FROM STREAM {q} LIMIT 10 WAIT 1")
            for id_ in ids:
                if session(f"ACK {q} {id_}"):
                    with lock:
                        acked.append(id_)
        session.close()

    threads = [threading.Thread(target=produce, args=(start,)) for start in range(0, total, each)]
    threads += [threading.Thread(target=receive) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(acked) == len(set(acked)) == total


def test_a_worker_whose_handler_writes_beside_its_message(gate, sql, q):
    done = f"done_{q}"
    sql(f"ALTER QUEUE {q} SET (max_attempts = 2, min_backoff = '10ms', max_backoff = '10ms')")
    sql(f"CREATE TABLE {done} (k BIGINT NOT NULL, body VARCHAR(20) NOT NULL PRIMARY KEY)")
    sql(f"ALTER VSCHEMA ON {SHARDED}.{done} ADD VINDEX binary_md5 (k) USING binary_md5")
    wait_until(lambda: _accepts(sql, f"INSERT INTO {done} VALUES (0, 'first')"), what="vtgate to know the table")
    for key in range(40):
        sql(f"INSERT INTO {q} (k, body) VALUES (%s, %s)", key, f"m{key}")

    def handle(message, transaction):
        transaction.execute(f"INSERT INTO {done} (k, body) VALUES (%s, %s)", (message.k, message.body))
        if message.k == 13 or (message.k == 14 and message.epoch == 1):
            raise ValueError("not this one")

    for options in ({"concurrency": 4}, {"concurrency": 2, "keys": "sticky"}):
        with Worker(f"mysql://root@127.0.0.1:{gate.port}/{SHARDED}", q, **options).running(handle):
            wait_until(lambda: set(states(sql, q).values()) == {"acked"}, what="all to be acked")
            wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead letter")
        sql(f"INSERT INTO {q} (k, body) VALUES (41, 'later')")
    assert sql.column(f"SELECT body FROM {q}_dead") == ["m13"]
    expected = {"first", "later", *(f"m{key}" for key in range(40) if key != 13)}
    assert expected - {"later"} <= set(sql.column(f"SELECT body FROM {done}")) <= expected
    sql(f"DROP TABLE {done}")
    sql(f"DROP QUEUE {q}_dead")

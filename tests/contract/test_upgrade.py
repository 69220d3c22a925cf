"""Tables that version 0.1.0 has made get the column that they lack, while they are used (docs/upgrades.md)."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path

import pymysql
import pytest
from servers import Gate, Sql, wait_until

pytestmark = pytest.mark.long

OLD = Path(__file__).parent / "tables_of_v0_1_0"
DUMPED = 1795832143  # seconds since 1970: when the messages in embedded.sql were inserted
DELIVERY = "SELECT id, lease_token, epoch FROM STREAM {q} LIMIT 1 WAIT 30 {options}"


def as_of_now(dump: str) -> str:
    """The dump with its messages inserted a minute ago: those that are acked are purged a day after it."""
    later = int(time.time()) - 60 - DUMPED
    moved, found = re.subn(rf"\b({DUMPED}|{DUMPED + 1})(?=\d{{9}}\b)", lambda at: str(int(at[0]) + later), dump)
    assert found > 10, "the times are those of the dump"
    return moved


@pytest.fixture
def old(place, new_gate, request, tmp_path) -> Gate:
    """A proxy, not started, on a database with the queue `orders` of version 0.1.0; on the embedded backend with a
    topic `events` and its group `g`, too, and two messages that were leased."""
    if place == "embedded":
        file = tmp_path / "old.db"
        with sqlite3.connect(file) as connection:
            connection.executescript(as_of_now((OLD / "embedded.sql").read_text()))
        connection.close()
        gate = Gate(f"sqlite:///{file}", tmp_path)
        request.addfinalizer(gate.stop)
        return gate
    gate = new_gate()
    server = request.getfixturevalue("mysql" if place == "mysql" else "mariadb")
    connection = server.connect(database=gate.database)
    with connection.cursor() as cursor:
        cursor.execute((OLD / "server.sql").read_text())
        for row in ("(1, 'a')", "(2, 'b')", "(3, 'c')"):
            cursor.execute(f"INSERT INTO orders (user_id, body) VALUES {row}")
        cursor.execute("UPDATE orders SET epoch = 1, time_acked = time_created, time_next = NULL WHERE id = 1")
    connection.commit()
    connection.close()
    return gate


def upgraded(sql: Sql, table: str = "orders") -> None:
    # A try that finds the table locked is followed by the next one a minute later.
    wait_until(lambda: "lease_token" in sql.column(f"DESCRIBE {table}"), timeout=200, what="the column")


def names_tokens(sql: Sql, source: str = "orders LIMIT 0") -> bool:
    """Whether the proxy knows that the column is there."""
    try:
        return sql.rows(f"SELECT lease_token FROM STREAM {source}") == []
    except pymysql.err.OperationalError as error:
        assert error.args[0] == 1054
        return False


def test_the_column_comes_by_itself(old):
    sql = Sql(old.start().connect())
    assert sql("INSERT INTO orders (user_id, body) VALUES (4, 'd')") == 1
    upgraded(sql)
    wait_until(lambda: names_tokens(sql), what="the proxy to have read the table again")
    cursor = sql.connection.cursor()
    cursor.execute("SELECT * FROM STREAM orders LIMIT 0")
    assert [column[0] for column in cursor.description] == ["id", "user_id", "body"]
    assert sql.rows("SELECT id, body FROM orders ORDER BY id") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert "lease_token" not in str(sql.row("SHOW CREATE QUEUE orders"))
    taken = {}
    while len(taken) < 3:
        id_, token, epoch = sql.row(DELIVERY.format(q="orders", options="WITH (ack_wait = '1h')"))
        assert token > 0
        taken[id_] = (token, epoch)
    assert sorted(taken) == [2, 3, 4]
    for id_, (token, _) in taken.items():
        assert sql(f"ACK orders WHERE id = {id_} AND lease_token = {token - 1}") == 0
        assert sql(f"ACK orders WHERE id = {id_} AND lease_token = {token}") == 1
    assert [row[0] for row in sql.rows("SHOW QUEUES") if row[0] == "orders"] == ["orders"]
    sql.close()


def test_a_stream_that_is_open_goes_on(old):
    sql = Sql(old.start().connect())
    receiver = Sql(old.connect())
    first = receiver.row("SELECT id, epoch FROM STREAM orders WHERE user_id = 3 LIMIT 1 WAIT 30")
    upgraded(sql)
    assert receiver(f"ACK orders WHERE id = {first[0]} AND epoch = {first[1]}") == 1, "as before, by its epoch"
    for each in (sql, receiver):
        each.close()


def test_queues_of_groups_get_it_too(old, place):
    sql = Sql(old.start().connect())
    if place != "embedded":
        sql.close()
        pytest.skip("the tables of the server have no topic")
    upgraded(sql, "events_group_g")
    wait_until(lambda: names_tokens(sql, "events LIMIT 0 WITH (group = 'g')"), what="the proxy to have read the table")
    sql("INSERT INTO events (body) VALUES ('y')")
    names = set()
    for _ in range(2):
        id_, token, _ = sql.row(DELIVERY.format(q="events", options="WITH (group = 'g')"))
        names.add(token)
        assert sql(f"ACK events WHERE id = {id_} AND lease_token = {token} GROUP g") == 1
    assert min(names) > 0
    sql.close()


def test_adopted_tables_are_their_owners(old):
    sql = Sql(old.start().connect())
    sql(
        "CREATE TABLE adopted (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50,"
        " epoch BIGINT NOT NULL DEFAULT 0, time_next BIGINT DEFAULT 0, time_acked BIGINT, body VARCHAR(20),"
        " INDEX due (time_acked, priority, time_next)) COMMENT 'vitess_message,vt_ack_wait=30,"
        "vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30'"
    )
    upgraded(sql)
    sql("INSERT INTO adopted (body) VALUES ('x')")
    id_, epoch = sql.row("SELECT id, epoch FROM STREAM adopted LIMIT 1 WAIT 30")
    assert "lease_token" not in sql.column("DESCRIBE adopted")
    assert sql.error("SELECT lease_token FROM STREAM adopted LIMIT 1")[0] == 1054
    assert sql(f"RELEASE adopted WHERE id = {id_} AND epoch = {epoch}") == 1
    id_, epoch = sql.row("SELECT id, epoch FROM STREAM adopted LIMIT 1 WAIT 30")
    assert sql(f"ACK adopted WHERE id = {id_} AND epoch = {epoch}") == 1
    sql.close()


def test_alter_queue_adds_it_at_once(old):
    sql = Sql(old.start().connect())
    sql("ALTER QUEUE orders SET (prefetch = 20)")  # the proxy may have added it between the plan and the statement
    assert "lease_token" in sql.column("DESCRIBE orders")
    sql.close()


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)  # a column is always added at once in the embedded one
def test_a_table_that_the_server_would_copy_is_left_to_its_owner(old):
    """How long that takes is unknown: the log names the statement."""
    sql = Sql(old.start().connect())
    sql("ALTER TABLE orders ROW_FORMAT = COMPRESSED")
    old.terminate()
    sql = Sql(old.start().connect())
    statement = f"ALTER TABLE {old.database}.orders ADD COLUMN lease_token BIGINT NOT NULL DEFAULT 0"
    wait_until(lambda: statement in old.log.replace("`", ""), timeout=60, what="the line in the log")
    assert "lease_token" not in sql.column("DESCRIBE orders")
    sql(statement)
    wait_until(lambda: names_tokens(sql), what="the proxy to have read the table again")
    sql.close()

"""A verb that is a transaction by itself and loses a deadlock is carried out nevertheless: the client sees no 1213."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import mysql.connector
import pytest
from pymysql.constants import CLIENT
from servers import Sql, wait_until

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

DEADLOCK = 1213


class Opponent:
    """A session beside the proxy that has locked a message, and has written more than a verb does: a deadlock's victim
    is the other one."""

    def __init__(self, sessions: tuple[Sql, Sql], q: str) -> None:
        self.sql, self.other = sessions
        self.q, sql = q, self.sql
        sql(f"CREATE TABLE {q}_scratch (n INT)")
        sql("BEGIN")
        for _ in range(20):
            sql(f"INSERT INTO {q}_scratch VALUES {', '.join(['(1)'] * 50)}")
        sql(f"UPDATE {q} SET body = 'locked' WHERE id = 2")

    def meets(self, send: Callable[..., Any], *arguments: object) -> Any:
        """Have a verb sent, wait until it waits for the lock, and lock what it has; what became of it."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(send, *arguments)
            free = f"SELECT id FROM {self.q} WHERE id = 1 FOR UPDATE SKIP LOCKED"
            wait_until(
                lambda: done.done() or not self.other.rows(free), what="a verb that has locked the first message"
            )
            assert not done.done(), done.result()
            self.sql(f"UPDATE {self.q} SET body = 'mine' WHERE id = 1")
            self.sql("COMMIT")
            return done.result(60)


@pytest.fixture
def around(gate, place, request):
    if place == "embedded":
        pytest.skip("has one writer: no deadlocks")
    server = request.getfixturevalue("server_here")
    sessions = Sql(server.connect(database=gate.database)), Sql(server.connect(database=gate.database))
    yield sessions
    for session in sessions:
        session.close()


def as_text(gate, statement: str) -> int:
    client = Sql(gate.connect())
    try:
        return client(statement)
    finally:
        client.close()


def as_one_of_several(gate, statement: str) -> int:
    with gate.connect(client_flag=CLIENT.MULTI_STATEMENTS) as client, client.cursor() as cursor:
        cursor.execute(f"DO 1; {statement}; DO 2")
        cursor.nextset()
        return cursor.rowcount


def prepared(gate, statement: str) -> int:
    verb, ids = statement.replace("1, 2", "?, ?"), (1, 2)
    client = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    with closing(client), client.cursor(prepared=True) as cursor:
        cursor.execute(verb, ids)
        return cursor.rowcount


def as_function(sql: Sql, statement: str) -> int:
    verb, q, *ids = statement.replace(",", "").split(" DELAY")[0].split()
    return sql.value(f"SELECT queue_{verb.lower()}('{q}', {', '.join(ids)})")


@pytest.mark.parametrize("send", [as_text, as_one_of_several, prepared])
@pytest.mark.parametrize("verb", ["ACK {q} 1, 2", "NACK {q} 1, 2 DELAY 0", "REJECT {q} 1, 2", "RELEASE {q} 1, 2"])
def test_a_verb_that_loses_a_deadlock_is_carried_out(sql, queue, around, gate, verb, send):
    q = queue("body VARCHAR(20)", ack_wait="'10m'")
    sql(f"INSERT INTO {q} (body) VALUES ('a'), ('b')")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 2")) == 2
    assert Opponent(around, q).meets(send, gate, verb.format(q=q)) == 2


def test_a_function_that_loses_a_deadlock_is_carried_out(sql, queue, around):
    q = queue("body VARCHAR(20)", ack_wait="'10m'")
    sql(f"INSERT INTO {q} (body) VALUES ('a'), ('b')")
    assert Opponent(around, q).meets(as_function, sql, f"ACK {q} 1, 2") == 2


def test_a_verb_in_a_transaction_is_not_repeated(sql, queue, around):
    q = queue("body VARCHAR(20)", ack_wait="'10m'")
    sql(f"INSERT INTO {q} (body) VALUES ('a'), ('b')")
    sql("BEGIN")
    assert Opponent(around, q).meets(sql.error, f"ACK {q} 1, 2")[0] == DEADLOCK
    sql("ROLLBACK")
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL") == 2


def test_a_redrive_that_loses_a_deadlock_is_carried_out(sql, queue, around):
    q = queue("body VARCHAR(20)")
    sql(f"INSERT INTO {q} (body) VALUES ('a'), ('b')")
    assert sql(f"REJECT {q} 1, 2") == 2
    wait_until(
        lambda: f"{q}_dead" in sql.column("SHOW QUEUES") and sql.value(f"SELECT COUNT(*) FROM {q}_dead") == 2,
        what="dead letters",
    )
    assert Opponent(around, f"{q}_dead").meets(sql, f"REDRIVE {q}_dead") == 2
    assert sorted(sql.column(f"SELECT body FROM {q}")) == ["locked", "mine"]
    sql(f"DROP QUEUE {q}_dead")

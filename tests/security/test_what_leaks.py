"""What is told to whom: message bodies are in no log, and a queue without rights is as one that is not there."""

from __future__ import annotations

import ast
from pathlib import Path

import pymysql
import pytest
from servers import Sql, wait_until
from wire_client import NO_SCHEMA, WireClient

from engine.model.errors import BackendError

SECRET = "CARD-4111-SECRET' for key 'body"


def refused(client: Sql, sql: str, name: str) -> str:
    """The error's whole text, with the queue's name taken out."""
    with pytest.raises(pymysql.MySQLError) as error:
        client(sql.format(q=name))
    return str(error.value.args).replace(name, "Q")


@pytest.mark.parametrize("column", ["VARCHAR(100) UNIQUE", "INT"])
def test_no_message_body_is_in_the_log(new_gate, column):
    gate = new_gate().start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (body VARCHAR(100)) WITH (dead_letter = 'letters', poll_interval = '1s')")
    client(f"CREATE QUEUE letters (body {column})")
    if "UNIQUE" in column:
        client("INSERT INTO letters (id, body) VALUES (100, %s)", (SECRET,))
    client("INSERT INTO q (body) VALUES (%s), ('')", (SECRET,))
    client("REJECT q 1")
    wait_until(lambda: "cannot be moved to" in gate.log, what="the line that tells of it")
    client.close()
    assert "SECRET" not in gate.log  # its number might be that of a port
    assert client_error_has_value(gate)


def client_error_has_value(gate) -> bool:
    """Who may write the value is told it, as ever."""
    client = Sql(gate.connect())
    try:
        client("CREATE TABLE own (body VARCHAR(60) PRIMARY KEY)")
        client("INSERT INTO own VALUES ('CARD')")
        with pytest.raises(pymysql.MySQLError, match="CARD"):
            client("INSERT INTO own VALUES ('CARD')")
    finally:
        client.close()
    return True


@pytest.mark.parametrize(
    ("number", "message", "logged"),
    [
        (1062, "Duplicate entry 'it's a SECRET' for key 'body'", "Duplicate entry '...' for key 'body'"),
        (1062, f"Duplicate entry '{SECRET}' for key 'x.body'", "Duplicate entry '...' for key 'x.body'"),
        (1366, "Incorrect integer value: 'SECRET' for column `d`.`t`.`body` at row 1",
         "Incorrect integer value: '...' for column `d`.`t`.`body` at row 1"),
        (1292, "Truncated incorrect DOUBLE value: 'SECRET\n'", "Truncated incorrect DOUBLE value: '...'"),
        (1, "Can't create/write to file 'SECRET' (Errcode: 2 \"No such file\")",
         "Can't create/write to file '...' (Errcode: 2 \"No such file\")"),
        (1644, "SECRET", "a trigger refused it (its text is left out)"),
        (1146, "Table 'shop.orders' doesn't exist", "Table 'shop.orders' doesn't exist"),
    ],
)  # fmt: skip
def test_a_databases_words_are_logged_without_values(number, message, logged):
    error = BackendError(message, number)
    assert str(error) == logged
    assert "SECRET" not in repr(error)
    assert error.message == message


@pytest.fixture(scope="module")
def strangers(mariadb, tmp_path_factory):
    """A gate of `auth: backend`; `stranger` has rights on a queue of its own and on nothing else."""
    from servers import Gate

    gate = Gate(mariadb.fresh_database("strangers"), tmp_path_factory.mktemp("strangers"), database="strangers")
    gate.start()
    owner = Sql(gate.connect())
    for name in ("own", "vic", "vic_dead"):
        owner(f"CREATE QUEUE {name} (k INT, body VARCHAR(20)) WITH (group_key = 'k')")
    owner("ALTER QUEUE vic_dead SET (dead_letter_of = 'vic')")
    owner("DROP USER IF EXISTS stranger@'127.0.0.1'")
    owner("CREATE USER stranger@'127.0.0.1' IDENTIFIED BY 'pw'")
    owner("GRANT SELECT, INSERT, UPDATE, DELETE ON strangers.own TO stranger@'127.0.0.1'")
    yield gate, owner
    owner.close()
    gate.stop()


def test_show_queues_shows_what_the_account_may_see(strangers):
    gate, owner = strangers
    client = Sql(gate.connect(user="stranger", password="pw"))
    assert client.column("SHOW QUEUES") == ["own"]
    assert client.column("SHOW QUEUE STATUS") == ["own"]
    assert owner.column("SHOW QUEUES") == ["own", "vic", "vic_dead"]
    client.close()


AS_THE_SERVERS_OWN = """
CREATE TABLE vic (id BIGINT PRIMARY KEY, epoch INT, k INT, body VARCHAR(20))
INSERT INTO vic VALUES (1, 0, 1, 'x'), (2, 0, 1, 'x')
CREATE TABLE log (id BIGINT, body VARCHAR(20))
CREATE TABLE log_group_g (id BIGINT)
CREATE TABLE SCHEMATA (SCHEMA_NAME VARCHAR(64))
CREATE TABLE USER_PRIVILEGES (PRIVILEGE_TYPE VARCHAR(64), GRANTEE VARCHAR(200))
INSERT INTO USER_PRIVILEGES VALUES ('PROCESS', CONCAT(QUOTE('stranger'), '@', QUOTE('127.0.0.1')))
"""


def test_a_table_of_ones_own_gives_no_right_on_another_databases(strangers):
    """Not to a client that asks for CLIENT_NO_SCHEMA, either, by which servers read `strangers.vic` as `vic`."""
    gate, owner = strangers
    owner("CREATE DATABASE IF NOT EXISTS lair")
    owner("GRANT ALL ON lair.* TO stranger@'127.0.0.1'")
    owner("CREATE TOPIC log (body VARCHAR(20))")
    owner("CREATE GROUP g ON log START AT EARLIEST")
    owner("INSERT INTO log (body) VALUES ('SECRET')")
    owner("INSERT INTO vic (k, body) VALUES (1, 'SECRET'), (2, 'SECRET')")
    try:
        with WireClient(gate.port, user="stranger", password="pw", database="lair", add=NO_SCHEMA) as wire:
            wire.run(*AS_THE_SERVERS_OWN.strip().splitlines())
            for sql in (
                "SELECT id, body FROM STREAM strangers.vic LIMIT 1 NOWAIT",
                "SELECT body FROM STREAM strangers.log WITH (mode = 'broadcast', start = 'earliest') NOWAIT",
                "ALTER GROUP g ON strangers.log SEEK TO OFFSET 2",
                "ACK strangers.vic 1",
                "DELETE FROM strangers.vic WHERE id = 1",
                "SELECT name FROM queuegate.settings",
                "SELECT message FROM queuegate.log",
            ):
                assert wire.query(sql).errno in (1142, 1146, 1227), sql
            assert b"vic" not in b"".join(wire.query("SHOW QUEUE STATUS").payloads[-2:])
        assert owner.rows("SELECT epoch FROM vic") == [(0,), (0,)]
        assert owner.column("SELECT body FROM STREAM log WITH (group = 'g') LIMIT 1 NOWAIT") == ["SECRET"]
    finally:
        owner("DROP DATABASE lair")
        owner("DROP GROUP g ON log")
        owner("DROP TOPIC log")
        owner("DELETE FROM vic")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE QUEUE IF NOT EXISTS {q} (n INT)",
        "CREATE QUEUE {q} (n INT)",
        "INSERT INTO own (k) VALUES (1) AFTER GROUP 1 OF {q}",
        "INSERT INTO own (k) VALUES (1) AFTER GROUP 'x' OF {q}",
        "ACK {q} 1",
        "ACK {q} 'x'",
        "REJECT {q} 1",
        "NACK {q} WHERE id = 1",
        "SELECT nope FROM STREAM {q}",
        "SELECT id FROM STREAM {q} WHERE nope = 1",
        "ALTER QUEUE {q} SET (order_key = 'nope')",
    ],
)
def test_a_queue_without_rights_is_as_one_that_is_not_there(strangers, statement):
    gate, _ = strangers
    client = Sql(gate.connect(user="stranger", password="pw"))
    told = {name: refused(client, statement, name) for name in ("vic", "vic_dead", "nowhere")}
    client.close()
    assert told["vic"] == told["vic_dead"] == told["nowhere"], told


def test_the_database_is_asked_who_sees_what_only_where_a_queue_is_named(strangers):
    gate, _ = strangers
    client = Sql(gate.connect(user="stranger", password="pw"))

    def asked(statement: str) -> int:
        count = [int(client.row("SHOW SESSION STATUS LIKE 'Questions'")[1]) for _ in range(2)]
        client.error(statement)
        count.append(int(client.row("SHOW SESSION STATUS LIKE 'Questions'")[1]))
        return count[2] - count[1] - (count[1] - count[0])

    assert asked("CREATE QUEUE fresh (n INT) WITH (nonsense = 1)") == 0
    assert asked("SELECT queue_ack()") == 0
    assert asked("NACK own") == 1
    client.close()


def test_no_line_of_the_log_takes_an_errors_message():
    """It may hold a message's body; as text an error comes without values."""
    root = Path(__file__).parents[2]
    found = []
    for path in (path for folder in ("engine", "proxy", "rewriter") for path in sorted((root / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
                found += [f"{path}:{node.lineno}" for part in ast.walk(node)
                          if ast.unparse(part) == "error.message"]  # fmt: skip
    assert not found, found

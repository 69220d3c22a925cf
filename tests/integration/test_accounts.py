"""Who may log in, with which client and plugin, and what the database's grants still decide."""

from __future__ import annotations

import subprocess
import sys

import mysql.connector
import pymysql
import pytest
from servers import ROOT, Gate, Sql, Stream


def hashed(password: str, plugin: str) -> str:
    """What `queuegate hash-password` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "hash-password", "--plugin", plugin],
        input=password + "\n", capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture(scope="module")
def embedded_gate(tmp_path_factory):
    """An embedded backend with an account of each kind."""
    directory = tmp_path_factory.mktemp("accounts")
    users = [
        {"name": "plain", "password": "pässword"},
        {"name": "env", "password_env": "ENV_SECRET"},
        {"name": "native", "password_hash": hashed("native secret", "mysql_native_password")},
        {"name": "sha2", "password_hash": hashed("sha2 secret", "caching_sha2_password")},
        {"name": "open", "password": ""},
    ]
    gate = Gate(f"sqlite:///{directory}/queue.db", directory, users=users)
    gate.start({"ENV_SECRET": "from the environment"})
    yield gate
    gate.stop()


LOGINS = {
    "plain": "pässword",
    "env": "from the environment",
    "native": "native secret",
    "sha2": "sha2 secret",
    "open": "",
}


@pytest.mark.parametrize("user", LOGINS)
def test_each_kind_of_account_logs_in_with_pymysql(embedded_gate, user):
    for _ in range(2):  # caching_sha2_password asks for the password once and knows it then
        # As bytes: PyMySQL would encode text as latin1, whatever the connection's charset.
        client = Sql(embedded_gate.connect(user=user, password=LOGINS[user].encode()))
        assert client.value("SELECT USER()").partition("@")[0] == user
        client.close()
    for wrong in ("wrong", "x" + LOGINS[user], *([""] if LOGINS[user] else [])):
        with pytest.raises(pymysql.err.OperationalError) as refused:
            embedded_gate.connect(user=user, password=wrong)
        assert refused.value.args[0] == 1045


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
@pytest.mark.parametrize("user", ["plain", "env", "native", "open"])
def test_each_kind_of_account_logs_in_with_connector(embedded_gate, user, pure):
    connection = mysql.connector.connect(
        host="127.0.0.1", port=embedded_gate.port, user=user, password=LOGINS[user], database="main", use_pure=pure
    )
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]
    connection.close()
    with pytest.raises(mysql.connector.Error) as refused:
        mysql.connector.connect(
            host="127.0.0.1", port=embedded_gate.port, user=user, password="wrong", database="main", use_pure=pure
        )
    assert refused.value.errno == 1045


def test_root_is_nobody_once_there_are_users(embedded_gate):
    with pytest.raises(pymysql.err.OperationalError) as refused:
        embedded_gate.connect(user="root", password="")
    assert refused.value.args[0] == 1045


def test_no_password_is_in_the_log(embedded_gate):
    for secret in filter(None, LOGINS.values()):
        assert secret not in embedded_gate.log


@pytest.fixture(scope="module")
def server_gate(mariadb, tmp_path_factory):
    """A gate on a database of its own, with accounts of several rights."""
    directory = tmp_path_factory.mktemp("rights")
    gate = Gate(mariadb.fresh_database("rights"), directory, database="rights")
    gate.start()
    owner = Sql(gate.connect())
    owner("CREATE QUEUE q (payload VARCHAR(20))")
    owner("CREATE TABLE secret (n INT)")
    accounts = {"reader": "SELECT", "writer": "SELECT, INSERT", "worker": "SELECT, UPDATE"}
    for user, rights in accounts.items():
        owner(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY '{user} pw'")
        owner(f"GRANT {rights} ON rights.q TO {user}@'127.0.0.1'")
    owner.close()
    yield gate
    gate.stop()
    with mariadb.connect() as root, root.cursor() as cursor:
        for user in accounts:  # which would come before accounts of the same name at '%' in other tests
            cursor.execute(f"DROP USER {user}@'127.0.0.1'")


def as_user(gate: Gate, user: str) -> Sql:
    return Sql(gate.connect(user=user, password=f"{user} pw"))


def test_the_databases_own_accounts_log_in(server_gate):
    client = as_user(server_gate, "reader")
    assert client.value("SELECT CURRENT_USER()") == "reader@127.0.0.1"
    client.close()
    with pytest.raises(pymysql.err.OperationalError) as refused:
        server_gate.connect(user="reader", password="wrong")
    assert refused.value.args[0] == 1045


def test_grants_decide_as_ever(server_gate):
    reader, writer, worker = (as_user(server_gate, user) for user in ("reader", "writer", "worker"))
    assert writer("INSERT INTO q (payload) VALUES ('a')") == 1
    assert reader.error("INSERT INTO q (payload) VALUES ('a')")[0] == 1142
    assert reader.error("SELECT * FROM secret")[0] == 1142
    for refused in (reader, writer):  # to receive and to ack is to change rows
        assert refused.error("SELECT * FROM STREAM q LIMIT 1 NOWAIT")[0] in (1142, 1143)
        refused("BEGIN")
        assert refused.error("SELECT * FROM STREAM q LIMIT 1 NOWAIT")[0] in (1142, 1143)
        refused("COMMIT")
        assert refused.error("ACK q 1")[0] in (1142, 1143)
        assert refused.error("DROP QUEUE q")[0] == 1142
    assert worker.rows("SELECT payload FROM STREAM q LIMIT 1 WAIT 5") == [("a",)]
    assert worker("ACK q 1") == 1
    for client in (reader, writer, worker):
        client.close()


def test_kill_needs_the_right_to(server_gate):
    owner, worker = Sql(server_gate.connect()), as_user(server_gate, "worker")
    receiver = Stream(server_gate, "SELECT * FROM STREAM q")
    assert worker.error(f"KILL QUERY {receiver.id}")[0] == 1095
    assert not receiver.ended.is_set()
    owner(f"KILL QUERY {receiver.id}")
    error = receiver.wait_end()
    assert error is not None
    assert error.args[0] == 1317
    receiver.close()
    owner.close()
    worker.close()

"""The transactions that one account has open are bounded, so that it does not hold what all others need."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pymysql
import pytest
from servers import Sql, wait_until

MOST = 3


@pytest.fixture
def gate_with_accounts(new_gate, request):
    """`reader` may have three; each worker counts for itself."""
    gate = new_gate(limits={"transactions_per_account": MOST}, workers=1)
    if gate.embedded:
        gate.config["users"] = [{"name": "root", "password": ""}, {"name": "reader", "password": "secret"}]
    else:
        with request.getfixturevalue("mariadb").connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'")
            cursor.execute(f"GRANT SELECT, UPDATE ON {gate.database}.* TO reader@'127.0.0.1'")
    return gate.start()


@pytest.fixture
def connect(gate_with_accounts):
    with ExitStack() as stack:

        def connect(user="reader", **options):
            password = {"reader": "secret", "root": ""}[user]
            return stack.enter_context(
                closing(Sql(gate_with_accounts.connect(user=user, password=password, **options)))
            )

        yield connect


def test_a_begin_beyond_the_bound_is_refused_and_the_client_goes_on(connect):
    clients = [connect() for _ in range(MOST + 1)]
    for client in clients[:MOST]:
        client("BEGIN")
        assert client.value("SELECT 1") == 1
    errno, text = clients[MOST].error("START TRANSACTION")
    assert errno == 1637
    assert "'reader'" in text and "limits.transactions_per_account" in text
    assert clients[MOST].value("SELECT 1") == 1
    clients[0]("COMMIT")
    clients[MOST]("BEGIN")
    assert clients[0].error("BEGIN")[0] == 1637
    clients[1].connection._force_close()  # it is rolled back with its client
    wait_until(lambda: began(clients[0]), what="the place of a client that has gone")


def began(client: Sql) -> bool:
    try:
        client("BEGIN")
    except pymysql.err.OperationalError as error:
        assert error.args[0] == 1637
        return False
    return True


def test_however_it_is_begun_it_counts(connect):
    connect("root")("CREATE TABLE t (n INT)")
    clients = [connect(autocommit=False) for _ in range(MOST)]
    for client in clients:
        assert client.rows("SELECT n FROM t") == []
    one_more = connect(autocommit=False)
    with pytest.raises(pymysql.err.MySQLError) as ended:
        one_more("SELECT n FROM t")
        one_more("SELECT n FROM t")
    assert ended.value.args[0] in (1637, 2006, 2013)
    assert clients[0].value("SELECT 1") == 1


def test_administrators_and_other_accounts_are_not_bounded_by_it(connect):
    for client in [connect() for _ in range(MOST)]:
        client("BEGIN")
    for client in [connect("root") for _ in range(MOST + 3)]:
        client("BEGIN")
        assert client.value("SELECT 1") == 1

"""Conditions of streams are bounded for each account, so that none of them keeps the others out."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest
from servers import Sql, Stream


@pytest.fixture
def gate_with_accounts(new_gate, request):
    gate = new_gate(limits={"filters": 4, "filters_per_account": 3})
    if gate.embedded:
        gate.config["users"] = [
            {"name": "root", "password": ""},
            {"name": "reader", "password": "secret"},
        ]
    else:
        with request.getfixturevalue("mariadb").connect() as connection, connection.cursor() as cursor:
            cursor.execute("DROP USER IF EXISTS reader@'127.0.0.1'")
            cursor.execute("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'")
            cursor.execute(f"GRANT SELECT, UPDATE ON {gate.database}.* TO reader@'127.0.0.1'")
    return gate.start()


def test_one_account_does_not_take_all_filters_of_a_queue(gate_with_accounts):
    gate, reader = gate_with_accounts, {"user": "reader", "password": "secret"}
    with ExitStack() as stack:
        sql = stack.enter_context(closing(Sql(gate.connect())))
        sql("CREATE QUEUE q (n INT)")
        receiver = stack.enter_context(closing(Sql(gate.connect(**reader))))
        for n in range(3):
            stack.enter_context(closing(Stream(gate, f"SELECT n FROM STREAM q WHERE n = {n}", **reader)))
        errno, message = receiver.error("SELECT n FROM STREAM q WHERE n = 3 NOWAIT")[:2]
        assert errno == 1226
        assert "'reader'" in message and "limits.filters_per_account" in message
        own = stack.enter_context(closing(Stream(gate, "SELECT n FROM STREAM q WHERE n = 10")))
        sql("INSERT INTO q (n) VALUES (10)")
        assert own.wait(1) == [(10,)]
        errno, message = sql.error("SELECT n FROM STREAM q WHERE n = 11 NOWAIT")[:2]
        assert errno == 1226 and "limits.filters allows" in message
        stack.enter_context(closing(Stream(gate, "SELECT n FROM STREAM q WHERE n = 1")))  # one that is open already

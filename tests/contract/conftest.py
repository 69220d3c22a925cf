"""The contract holds in a third place, too: before a server whose accounts are the proxy's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pymysql
import pytest
from pymysql.cursors import SSCursor
from servers import Gate, Sql, hang_up, wait_until


@pytest.fixture(scope="session", params=["embedded", "mariadb", "proxy_accounts"])
def place(request: pytest.FixtureRequest) -> str:
    """Where a test is run."""
    return str(request.param)


class Stuck(NamedTuple):
    """A receiver that reads nothing, and its queue."""

    queue: str
    connection: pymysql.Connection[Any]


@pytest.fixture
def stuck(gate: Gate, sql: Sql, queue: Callable[..., str]) -> Iterator[Stuck]:
    """It has been sent four messages, of ids 1 to 4, which are more than sockets hold. Its leases are long."""
    q = queue("body LONGTEXT", ack_wait="'1h'", max_backoff="'2h'", poll_interval="'60s'")
    for _ in range(4):
        sql(f"INSERT INTO {q} (body) VALUES (REPEAT('x', 4000000))")
    connection = gate.connect(cursorclass=SSCursor)
    cursor = connection.cursor()
    cursor.execute(f"SELECT body FROM STREAM {q}")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q} WHERE epoch = 1") == 4, what="the messages to be leased")
    yield Stuck(q, connection)
    hang_up(connection)
    cursor._result.unbuffered_active = False
    connection._force_close()

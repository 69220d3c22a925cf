"""Accounts that are limited to their queues make no schedules, and see those of their queues."""

from __future__ import annotations

from typing import Any

import pytest
from servers import Gate, Sql

USERS: list[dict[str, Any]] = [
    {"name": "root", "password": ""},
    {"name": "shop", "password": "pw", "queues": {"orders": ["enqueue", "receive", "settle"]}},
    {"name": "stranger", "password": "pw", "queues": {"other": ["enqueue"]}},
]
STATEMENTS = (
    "CREATE SCHEDULE s ON orders EVERY '1d' (n) VALUES (1)",
    "CREATE SCHEDULE IF NOT EXISTS s ON orders EVERY '1d' (n) VALUES (1)",
    "ALTER SCHEDULE s PAUSE",
    "ALTER SCHEDULE s SET (missed = 'all')",
    "DROP SCHEDULE s",
    "DROP SCHEDULE IF EXISTS s",
    "RUN SCHEDULE s",
    "SHOW CREATE SCHEDULE s",
    "SELECT * FROM queuegate.schedules",
    "SELECT * FROM queuegate_schedules",
    "UPDATE queuegate_schedules SET paused = 1",
)


def login(gate: Gate, user: str) -> Sql:
    return Sql(gate.connect(user=user, password="pw"))


@pytest.fixture(scope="module", params=["embedded", "proxy_accounts"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def limited(place: str, request: pytest.FixtureRequest, tmp_path_factory) -> Any:
    directory = tmp_path_factory.mktemp("limited_schedules")
    if place == "embedded":
        gate = Gate(f"sqlite:///{directory}/queue.db", directory, users=USERS)
    else:
        url = request.getfixturevalue("mariadb").fresh_database("limited_schedules")
        gate = Gate(url, directory, database="limited_schedules", auth="proxy", users=USERS)
    gate.start()
    owner = Sql(gate.connect())
    owner("CREATE QUEUE orders (n INT)")
    owner("CREATE SCHEDULE s ON orders EVERY '1d' (n) VALUES (1)")
    owner.close()
    yield gate
    gate.stop()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_they_may_make_none(limited, statement):
    for user in ("shop", "stranger"):
        client = login(limited, user)
        assert client.error(statement)[0] in (1142, 1146)
        client.close()
    owner = Sql(limited.connect())
    assert owner.column("SHOW SCHEDULES") == ["s"]
    assert owner.value("SELECT COUNT(*) FROM orders") == 0
    owner.close()


def test_they_see_those_of_their_queues(limited):
    shop, stranger = login(limited, "shop"), login(limited, "stranger")
    assert [row[:3] for row in shop.rows("SHOW SCHEDULES")] == [("s", limited.database, "orders")]
    assert stranger.rows("SHOW SCHEDULES") == []
    shop.close()
    stranger.close()

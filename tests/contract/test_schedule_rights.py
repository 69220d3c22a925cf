"""Who may make and see schedules, of the accounts of the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from servers import Gate, Sql, wait_until


def login(gate: Gate, user: str) -> Sql:
    return Sql(gate.connect(user=user, password="pw"))


@pytest.fixture
def granted(mariadb, tmp_path) -> Any:
    """A gate before a server, and a maker of accounts of that server."""
    gate = Gate(mariadb.fresh_database("schedule_grants"), tmp_path, database="schedule_grants").start()
    owner, made, clients = Sql(gate.connect()), list[str](), list[Sql]()
    owner("CREATE QUEUE orders (n INT)")
    owner("CREATE QUEUE secrets (n INT)")
    owner("CREATE SCHEDULE first ON secrets EVERY '1d' (n) VALUES (1)")

    def make(user: str, *grants: str) -> Sql:
        owner(f"DROP USER IF EXISTS {user}")
        owner(f"CREATE USER {user} IDENTIFIED BY 'pw'")
        made.append(user)
        for grant in grants:
            owner(f"GRANT {grant} TO {user}")
        clients.append(login(gate, user))
        return clients[-1]

    yield owner, make
    for client in clients:
        client.connection._force_close()
    for user in made:
        owner(f"DROP USER {user}")
    owner.close()
    gate.stop()


_TABLE = "SELECT, INSERT, UPDATE, DELETE ON schedule_grants.queuegate_schedules"


def test_accounts_of_the_database(granted: tuple[Sql, Callable[..., Sql]]) -> None:
    owner, make = granted
    on = "EVERY '1d' (n) VALUES (1)"
    clerk = make("clerk", "INSERT, SELECT ON schedule_grants.orders", _TABLE)
    clerk(f"CREATE SCHEDULE s ON orders {on}")
    assert clerk.named("SHOW SCHEDULES LIKE 's'")[0]["created_by"].startswith("clerk@")
    errno, text = clerk.error(f"CREATE SCHEDULE t ON secrets {on}")
    assert errno in (1142, 1146) and "secrets" in text
    assert owner.rows("SHOW SCHEDULES LIKE 't'") == []

    looker = make("looker", "SELECT ON schedule_grants.orders", _TABLE)  # no INSERT into the queue
    assert looker.error(f"CREATE SCHEDULE t ON orders {on}")[0] == 1142
    assert looker.error("RUN SCHEDULE s")[0] == 1142
    assert owner.rows("SHOW SCHEDULES LIKE 't'") == []

    writer = make("writer", "INSERT, SELECT ON schedule_grants.orders")  # nothing on the table of schedules
    for statement in (
        f"CREATE SCHEDULE t ON orders {on}",
        "ALTER SCHEDULE s PAUSE",
        "DROP SCHEDULE s",
        "RUN SCHEDULE s",
        "SHOW CREATE SCHEDULE s",
    ):
        assert writer.error(statement)[0] == 1142, statement
    assert writer.column("SHOW SCHEDULES") == ["s"]  # of a queue that it sees
    assert sorted(clerk.column("SHOW SCHEDULES")) == ["first", "s"]  # all, as it may read the table
    assert sorted(owner.column("SELECT schedule FROM queuegate.schedules WHERE db = 'schedule_grants'")) == [
        "first",
        "s",
    ]
    clerk("ALTER SCHEDULE s PAUSE")
    clerk("DROP SCHEDULE s")


def test_what_an_account_loses_later_the_schedule_keeps(granted: tuple[Sql, Callable[..., Sql]]) -> None:
    """Its messages are the proxy's own: a schedule ends when it is dropped."""
    owner, make = granted
    clerk = make("clerk", "INSERT, SELECT ON schedule_grants.orders", _TABLE)
    clerk("CREATE SCHEDULE s ON orders EVERY '1s' (n) VALUES (1)")
    owner("REVOKE INSERT ON schedule_grants.orders FROM clerk")
    count = owner.value("SELECT COUNT(*) FROM orders")
    wait_until(lambda: owner.value("SELECT COUNT(*) FROM orders") > count, what="messages to go on")
    owner("DROP SCHEDULE s")


def test_a_proxy_that_may_not_make_the_table_says_so(mariadb, tmp_path) -> None:
    url = mariadb.fresh_database("modest_schedules")
    root = Sql(mariadb.connect(database="modest_schedules"))
    root("DROP USER IF EXISTS humble")
    root("CREATE USER humble IDENTIFIED BY 'pw'")
    gate = Gate(url, tmp_path, database="modest_schedules").start()
    owner = Sql(gate.connect())
    owner("CREATE QUEUE orders (n INT)")
    owner.close()
    gate.stop()
    root("GRANT SELECT, INSERT, UPDATE, DELETE ON modest_schedules.* TO humble")
    (tmp_path / "humble").mkdir()
    address = url.partition("@")[2]
    gate = Gate(f"mysql://humble:pw@{address}", tmp_path / "humble", database="modest_schedules").start()
    owner = Sql(gate.connect())
    errno, text = owner.error("CREATE SCHEDULE s ON orders EVERY '1d' (n) VALUES (1)")
    assert errno == 1142 and "docs/schedules.md" in text
    assert owner.rows("SHOW SCHEDULES") == []
    owner.close()
    gate.stop()
    root("DROP USER humble")
    root.close()

"""What an account may see of the queues: by its rights at the proxy, or by its grants in the database."""

from __future__ import annotations

import pytest
from servers import Gate, Sql, Stream, wait_until


def client(gate, user, password="pw", **options):
    return Sql(gate.connect(user=user, password=password, **options))


@pytest.fixture
def limited(new_gate):
    """Accounts of the proxy's own: root with all rights, `shop` with some."""
    gate = new_gate(
        auth="proxy",
        users=[
            {"name": "root", "password": "pw", "admin": True},
            {"name": "shop", "password": "pw", "queues": {"orders": ["enqueue", "receive", "settle"]}},
        ],
    )
    gate.start()
    root = client(gate, "root")
    root("CREATE QUEUE orders (n INT)")
    root("CREATE QUEUE secret (n INT)")
    root.close()
    return gate


def test_an_account_limited_to_queues_sees_those_and_its_own_streams(limited):
    root, shop = client(limited, "root"), client(limited, "shop")
    for one in (root, shop):
        one("INSERT INTO orders (n) VALUES (1)")
    assert root.column("SHOW QUEUE STATUS") == ["orders", "secret"]
    assert shop.column("SHOW QUEUE STATUS") == ["orders"]
    with (
        Stream(limited, "SELECT id FROM STREAM orders", user="shop", password="pw") as own,
        Stream(limited, "SELECT id FROM STREAM orders", user="root", password="pw"),
        Stream(limited, "SELECT id FROM STREAM secret", user="root", password="pw"),
    ):
        wait_until(lambda: len(root.rows("SHOW SUBSCRIPTIONS")) == 3, what="three streams")
        assert [(row[0], row[2]) for row in shop.rows("SHOW SUBSCRIPTIONS")] == [("orders", own.id)]
        assert len(shop.rows("EXPLAIN DELIVERY FOR orders WHERE id IN (1, 99)")) == 2
    assert shop.error("EXPLAIN DELIVERY FOR orders WHERE n = (SELECT MAX(n) FROM secret)")[0] == 1142
    assert shop.error("EXPLAIN DELIVERY FOR orders")[0] == 1142
    assert shop.error("EXPLAIN DELIVERY FOR secret WHERE id = 1")[0] in (1142, 1146)
    assert shop.error("SELECT * FROM queuegate.queues")[0] == 1142
    assert shop.error("DESCRIBE queuegate.queues")[0] == 1142
    for one in (root, shop):
        one.close()


@pytest.fixture
def granted(mariadb, tmp_path):
    """The database's own accounts: `half` may read one of two queues."""
    gate = Gate(mariadb.fresh_database("look_rights"), tmp_path, database="look_rights")
    gate.start()
    root = Sql(gate.connect())
    root("CREATE QUEUE orders (n INT)")
    root("CREATE QUEUE secret (n INT)")
    root("CREATE USER IF NOT EXISTS half@'127.0.0.1' IDENTIFIED BY 'pw'")
    root("GRANT SELECT, UPDATE, INSERT ON look_rights.orders TO half@'127.0.0.1'")
    yield gate, root
    root("DROP USER half@'127.0.0.1'")
    root.close()
    gate.stop()


def test_an_account_of_the_database_sees_what_it_is_granted(granted):
    gate, root = granted
    half = client(gate, "half")
    assert root.column("SHOW QUEUE STATUS") == ["orders", "secret"]
    assert half.column("SHOW QUEUE STATUS") == ["orders"]
    assert half.column("SELECT queue FROM queuegate.queues") == ["orders"]
    root("INSERT INTO orders (n) VALUES (1)")
    root("INSERT INTO secret (n) VALUES (1)")
    with (
        Stream(gate, "SELECT id FROM STREAM orders", user="half", password="pw") as own,
        Stream(gate, "SELECT id FROM STREAM orders") as other,
        Stream(gate, "SELECT id FROM STREAM secret") as hidden,
    ):
        hidden.wait(1)
        wait_until(lambda: own.rows or other.rows, what="the other message")
        wait_until(lambda: len(root.rows("SHOW SUBSCRIPTIONS")) == 3, what="three streams")
        assert half.column("SELECT connection_id FROM queuegate.subscriptions") == [own.id]
        assert {other.id, own.id, hidden.id} == set(root.column("SELECT connection_id FROM queuegate.subscriptions"))
        assert half.column("SELECT queue FROM queuegate.in_flight") == ["orders"]
        in_flight = "SELECT queue FROM queuegate.in_flight WHERE db = DATABASE() ORDER BY queue"
        assert root.column(in_flight) == ["orders", "secret"]  # the server has other tests' databases too
    assert half.error("EXPLAIN DELIVERY FOR secret WHERE id = 1")[0] == 1142
    assert half.error("EXPLAIN DELIVERY FOR orders WHERE n IN (SELECT n FROM secret)")[0] == 1142
    assert half.rows("EXPLAIN DELIVERY FOR orders WHERE id = 1")[0][0] == "1"
    assert half.rows("SHOW QUEUE orders OPTIONS") == root.rows("SHOW QUEUE orders OPTIONS")
    assert half.error("SHOW QUEUE secret OPTIONS")[0] == 1142
    half.close()


TABLES = (
    "queues",
    "subscriptions",
    "in_flight",
    "topics",
    "groups",
    "group_in_flight",
    "consumers",
    "schedules",
    "traces",
)
LOOKS = (
    "SHOW QUEUE STATUS",
    "SHOW SUBSCRIPTIONS",
    "SHOW CONSUMERS",
    "SHOW TOPICS",
    "SHOW GROUPS",
    "SHOW SCHEDULES",
    *(f"SELECT * FROM queuegate.{table} WHERE db = 'look_rights'" for table in TABLES),
)


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_to_look_takes_the_right_to_read(server, request, tmp_path):
    """INSERT and UPDATE are no rights to know what is in a queue, nor who receives from it; SELECT is, also by a role
    and on a column."""
    gate = Gate(request.getfixturevalue(server).fresh_database("look_rights"), tmp_path, database="look_rights")
    gate.start()
    root = Sql(gate.connect())
    root("CREATE QUEUE orders (n INT)")
    root("CREATE TOPIC events (n INT)")
    root("CREATE GROUP g ON events START AT EARLIEST")
    root("CREATE SCHEDULE hourly ON orders EVERY '1h' (n) VALUES (1)")
    root("INSERT INTO orders (n) VALUES (1), (2)")
    root("INSERT INTO events (n) VALUES (1)")
    users = ("writer", "reader", "clerk", "member")
    for user in users:
        root(f"DROP USER IF EXISTS {user}@'127.0.0.1'")
        root(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'pw'")
    tables = ("orders", "events", "events_group_g")
    for table in (*tables, "queuegate_schedules"):
        root(f"GRANT INSERT, UPDATE, DELETE ON {table} TO writer@'127.0.0.1'")
        root(f"GRANT SELECT ON {table} TO reader@'127.0.0.1'")
    for table in tables:
        root(f"GRANT SELECT (id) ON {table} TO clerk@'127.0.0.1'")
    root("DROP ROLE IF EXISTS lookers")
    root("CREATE ROLE lookers")
    root("GRANT SELECT ON look_rights.* TO lookers")
    root("GRANT lookers TO member@'127.0.0.1'")
    clients = {user: client(gate, user, database=None if user == "member" else "look_rights") for user in users}
    clients["member"]("SET ROLE lookers")
    clients["member"]("USE look_rights")
    with (
        Stream(gate, "SELECT id FROM STREAM orders") as own,
        Stream(gate, "SELECT id FROM STREAM events WITH (group = 'g')") as group,
    ):
        own.wait(2)
        group.wait(1)
        wait_until(lambda: root.rows("SELECT * FROM queuegate.group_in_flight"), what="the group's lease")
        others = "SHOW SUBSCRIPTIONS", "SHOW CONSUMERS"  # of connections of others, too, which take PROCESS
        for look in LOOKS:
            assert root.rows(look), look
            for user in users:
                seen = clients[user].rows(look)
                if look not in others and "subscriptions" not in look and "consumers" not in look:
                    assert bool(seen) == (user != "writer"), (user, look, seen)
                else:
                    assert not seen, (user, look, seen)
        assert clients["writer"].column("SHOW QUEUES") == ["events_group_g", "orders"]
        for statement in ("EXPLAIN DELIVERY FOR orders", "TRACE MESSAGE 1 ON orders", "TRACE MESSAGE 1 ON events"):
            assert clients["writer"].error(statement)[0] == 1142
    for one in (*clients.values(),):
        one.close()
    for user in users:
        root(f"DROP USER {user}@'127.0.0.1'")
    root("DROP ROLE lookers")
    root.close()
    gate.stop()


def test_the_warning_names_the_accounts_without_limits_alone(mariadb, tmp_path):
    users = [
        {"name": "root", "password": "pw"},
        {"name": "receiver", "password": "pw", "queues": {"orders": ["receive"]}},
        {"name": "member", "password": "pw", "topics": {"events": ["consume:g"]}},
    ]
    gate = Gate(mariadb.fresh_database("told_less"), tmp_path, database="told_less", auth="proxy", users=users).start()
    (line,) = [line for line in gate.log.splitlines() if "may do everything" in line]
    assert "root" in line and "receiver" not in line and "member" not in line
    gate.stop()


def rejected_message(root: Sql, one: Sql) -> list[tuple[object, ...]]:
    """What `one` reads of a message that is in the dead-letter queue, which root alone may read."""
    root("INSERT INTO orders (n) VALUES (7)")
    root("REJECT orders 1")
    wait_until(lambda: "orders_dead" in root.column("SHOW QUEUE STATUS"), what="the dead-letter queue")
    wait_until(lambda: root.value("SELECT COUNT(*) FROM orders_dead") == 1, what="the dead letter")
    assert root.rows("EXPLAIN DELIVERY FOR orders WHERE id = 1")[0][1] == "dead"
    return one.rows("EXPLAIN DELIVERY FOR orders WHERE id = 1")


def test_a_limited_account_learns_that_it_may_not_read_the_dead_letters(limited):
    root, shop = client(limited, "root"), client(limited, "shop")
    ((_, state, text),) = rejected_message(root, shop)
    assert state == "unknown" and "dead-letter queue, which this account may not read" in text
    for one in (root, shop):
        one.close()


def test_an_account_of_the_database_learns_that_it_may_not_read_the_dead_letters(granted):
    gate, root = granted
    half = client(gate, "half")
    ((_, state, text),) = rejected_message(root, half)
    assert state == "unknown" and "dead-letter queue, which this account may not read" in text
    half.close()


def test_a_limited_account_is_not_told_the_proxys_own_account(mariadb, tmp_path):
    """Of a queue whose definition the proxy may not read: the database's refusal names the proxy's account."""
    url = mariadb.fresh_database("told_less")
    gate = Gate(url, tmp_path, database="told_less").start()
    owner = Sql(gate.connect())
    owner("CREATE QUEUE orders (n INT)")
    owner("DROP USER IF EXISTS humble")
    owner("CREATE USER humble IDENTIFIED BY 'pw'")
    owner("GRANT INSERT ON told_less.orders TO humble")
    owner.close()
    gate.stop()
    users = [
        {"name": "root", "password": "pw", "admin": True},
        {"name": "shop", "password": "pw", "queues": {"orders": ["receive"]}},
    ]
    address = url.partition("@")[2]
    (tmp_path / "humble").mkdir()
    backend = f"mysql://humble:pw@{address}"
    gate = Gate(backend, tmp_path / "humble", database="told_less", auth="proxy", users=users).start()
    for user, sees in (("root", True), ("shop", False)):
        one = client(gate, user)
        texts = [str(one.rows("SHOW QUEUES")), str(one.rows("SHOW QUEUE STATUS"))]
        texts.append(one.error("SELECT id FROM STREAM orders LIMIT 1 NOWAIT")[1])
        assert [("cannot be read: " in text, "humble" in text) for text in texts] == [(True, sees)] * 3, texts
        one.close()


@pytest.mark.parametrize("table", ["log", "settings"])
def test_what_is_for_who_may_see_all_connections(granted, limited, table):
    gate, root = granted
    half, asked = client(gate, "half"), f"SELECT * FROM queuegate.{table} WHERE 1 = 0"
    number, text = half.error(asked)
    assert number == 1142 and f"queuegate.{table} needs the privilege PROCESS" in text
    assert root.rows(asked) == []
    root("GRANT PROCESS ON *.* TO half@'127.0.0.1'")
    assert half.rows(asked) == []
    half.close()
    assert client(limited, "root").rows(asked) == []
    assert client(limited, "shop").error(asked)[0] == 1142

"""Accounts that are limited to their queues, and accounts of the database, on topics and consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from servers import Gate, Sql, Stream, wait_until

USERS: list[dict[str, Any]] = [
    {"name": "root", "password": ""},
    {
        "name": "shop",
        "password": "pw",
        "queues": {"orders": ["enqueue", "receive"], "orders_group_billing": ["receive", "settle"]},
    },
    {"name": "stranger", "password": "pw", "queues": {"other": ["enqueue"]}},
]


@pytest.fixture(scope="module", params=["embedded", "proxy_accounts"])
def place(request: pytest.FixtureRequest) -> str:
    """Where accounts are the proxy's."""
    return str(request.param)


@pytest.fixture(scope="module")
def limited(gate_of: Callable[..., Gate]) -> Gate:
    """A gate with these accounts, and a topic of two groups and two messages."""
    gate = gate_of("limited_topics", USERS)
    owner = Sql(gate.connect())
    owner("CREATE TOPIC orders (n INT)")
    for group in ("billing", "audit"):
        owner(f"CREATE GROUP {group} ON orders")
    owner("INSERT INTO orders (n) VALUES (1), (2)")
    owner.close()
    return gate


def login(gate: Gate, user: str) -> Sql:
    return Sql(gate.connect(user=user, password="pw"))


def test_all_that_is_granted(limited):
    shop = login(limited, "shop")
    assert shop("INSERT INTO orders (n) VALUES (3)") == 1
    assert shop.rows("SELECT * FROM STREAM orders WITH (group = 'billing') NOWAIT") == [(1, 1), (2, 2), (3, 3)]
    assert shop("ACK orders 1 GROUP billing") == 1
    assert shop("ACK orders WHERE n = 2 GROUP billing") == 1
    assert shop("NACK orders 3 GROUP billing DELAY '1h'") == 1
    read = shop.rows("SELECT n FROM STREAM orders WITH (mode = 'broadcast', start = 'earliest') NOWAIT")
    assert read == [(1,), (2,), (3,)]
    assert shop.rows("SELECT n FROM STREAM orders SINCE EARLIEST") == read
    assert [row[2] for row in shop.rows("SHOW GROUPS")] == ["billing"]
    assert [row[:2] for row in shop.rows("TRACE MESSAGE 1 ON orders")] == [("billing", "done")]
    of_root = Stream(limited, "SELECT n FROM STREAM orders WITH (group = 'billing', consumer = 'theirs')")
    own = Stream(
        limited,
        "SELECT n FROM STREAM orders WITH (mode = 'broadcast', consumer = 'ours')",
        user="shop",
        password="pw",
    )
    assert [row[6] for row in shop.rows("SHOW CONSUMERS")] == ["ours"]
    root = Sql(limited.connect())
    assert sorted(row[6] for row in root.rows("SHOW CONSUMERS")) == ["ours", "theirs"]
    root.close()
    for open_stream in (of_root, own):
        open_stream.close()
    wait_until(lambda: shop.rows("SHOW CONSUMERS") == [], what="the streams to have ended")
    assert [row[:5] for row in shop.rows("SHOW TOPICS")] == [("orders", limited.database, 1, 3, 1)]
    shop.close()


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("SELECT * FROM STREAM orders WITH (group = 'audit') NOWAIT", 1231),
        ("ACK orders 1 GROUP audit", 1231),
        ("INSERT INTO orders_group_billing (n) VALUES (1)", 1235),
        ("DELETE FROM orders WHERE id = 1", 1142),
        ("UPDATE orders SET n = 5 WHERE id = 1", 1142),
        ("SELECT * FROM orders_group_billing", 1142),
        ("SELECT * FROM queuegate_positions", 1142),
        ("UPDATE queuegate_positions SET position = 0", 1142),
        ("ALTER GROUP billing ON orders PAUSE", 1142),
        ("ALTER GROUP billing ON orders SEEK TO EARLIEST", 1142),
        ("CREATE GROUP more ON orders", 1142),
        ("DROP GROUP billing ON orders", 1142),
        ("CREATE TOPIC more (n INT)", 1142),
        ("SELECT * FROM queuegate.groups", 1142),
    ],
)
def test_what_is_not_granted_is_denied(limited, statement, number):
    shop = login(limited, "shop")
    assert shop.error(statement)[0] == number
    assert shop.value("SELECT 1") == 1
    shop.close()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders (n) VALUES (1)",
        "SELECT * FROM STREAM orders WITH (group = 'billing') NOWAIT",
        "SELECT * FROM STREAM orders WITH (mode = 'broadcast') NOWAIT",
        "ACK orders 1 GROUP billing",
        "DROP TOPIC orders",
        "TRACE MESSAGE 1 ON orders",
    ],
)
def test_a_stranger_learns_nothing(limited, statement):
    stranger = login(limited, "stranger")
    assert stranger.error(statement)[0] == 1142
    assert stranger.rows("SHOW TOPICS") == stranger.rows("SHOW GROUPS") == stranger.rows("SHOW CONSUMERS") == []
    stranger.close()


def test_accounts_of_the_database(mariadb, tmp_path):
    url = mariadb.fresh_database("granted_topics")
    gate = Gate(url, tmp_path, database="granted_topics").start()
    owner = Sql(gate.connect())
    owner("CREATE TOPIC orders (n INT)")
    owner("CREATE GROUP billing ON orders")
    for user, grants in {
        "publisher": ["INSERT ON granted_topics.orders"],
        "member": [
            "SELECT (id) ON granted_topics.orders",
            "SELECT, UPDATE, DELETE ON granted_topics.orders_group_billing",
        ],
        "looker": ["SELECT ON granted_topics.orders"],
    }.items():
        owner(f"DROP USER IF EXISTS {user}")
        owner(f"CREATE USER {user} IDENTIFIED BY 'pw'")
        for grant in grants:
            owner(f"GRANT {grant} TO {user}")
    publisher, member, looker = (login(gate, user) for user in ("publisher", "member", "looker"))
    assert publisher("INSERT INTO orders (n) VALUES (1), (2)") == 2
    assert publisher.error("SELECT * FROM STREAM orders WITH (mode = 'broadcast') NOWAIT")[0] in (1142, 1143)
    assert publisher.error("SELECT * FROM STREAM orders WITH (group = 'billing') NOWAIT")[0] == 1142
    assert publisher.error("ACK orders 1 GROUP billing")[0] == 1142
    assert publisher.error("TRACE MESSAGE 1 ON orders")[0] in (1142, 1143)
    assert member.rows("SELECT * FROM STREAM orders WITH (group = 'billing') NOWAIT") == [(1, 1), (2, 2)]
    assert member("ACK orders 1 GROUP billing") == 1
    assert member.error("INSERT INTO orders (n) VALUES (9)")[0] == 1142
    assert looker.rows("TRACE MESSAGE 1 ON orders") == []  # no group that it may know of
    assert looker.rows("SELECT n FROM STREAM orders SINCE EARLIEST") == [(1,), (2,)]
    assert looker.rows("SELECT n FROM STREAM orders WITH (mode = 'broadcast', start = 1) NOWAIT") == [(1,), (2,)]
    assert looker.error("ALTER GROUP billing ON orders SEEK TO EARLIEST")[0] == 1142
    ours = "WHERE db = DATABASE()"
    assert member.column(f"SELECT group_name FROM queuegate.groups {ours}") == ["billing"]
    assert member.column(f"SELECT id FROM queuegate.group_in_flight {ours}") == [2]
    assert looker.rows(f"SELECT topic, group_count FROM queuegate.topics {ours}") == [("orders", 0)]
    assert looker.rows(f"SELECT * FROM queuegate.groups {ours}") == []
    assert looker.rows(f"SELECT * FROM queuegate.group_in_flight {ours}") == []
    recorded = f"SELECT id, event, user FROM queuegate.traces {ours} ORDER BY at, event DESC, id"
    assert member.rows(recorded) == [("1", "sent", "member"), ("2", "sent", "member"), ("1", "acked", None)]
    assert looker.rows(recorded) == publisher.rows(recorded) == []
    owner("GRANT INSERT ON granted_topics.orders_group_billing TO looker")
    assert looker.rows(recorded) == []
    owner("GRANT SELECT (id) ON granted_topics.orders_group_billing TO looker")
    owner("NACK orders 2 GROUP billing DELAY '1h' REASON 'a secret'")
    # To read the ids is enough to know of them; not of others' connections, nor of why messages failed.
    assert looker.rows(recorded)[:2] == [("1", "sent", None), ("2", "sent", None)]
    assert looker.column(f"SELECT reason FROM queuegate.traces {ours}") == [None] * 4
    assert member.column(f"SELECT reason FROM queuegate.traces {ours} AND reason IS NOT NULL") == ["a secret"]
    assert owner.rows(recorded)[:2] == [("1", "sent", "member"), ("2", "sent", "member")]
    owner("REVOKE INSERT, SELECT (id) ON granted_topics.orders_group_billing FROM looker")
    assert looker.error("CREATE GROUP more ON orders")[0] == 1142
    owner("GRANT ALL ON granted_topics.orders_group_mine TO publisher")
    assert publisher.error("CREATE GROUP mine ON orders START AT EARLIEST")[0] in (1142, 1143)
    definition = owner.rows("SHOW CREATE TABLE orders_group_billing")[0][1]
    owner("GRANT ALL ON granted_topics.mine TO publisher")
    publisher(definition.replace("`orders_group_billing`", "`mine`").replace("`orders_group_billing_", "`mine_"))
    assert "another name" in publisher.error("SELECT * FROM STREAM mine NOWAIT")[1]
    for client in (publisher, member, looker):
        client.close()
    for user in ("publisher", "member", "looker"):
        owner(f"DROP USER {user}")
    owner.close()
    gate.stop()

"""Rights on topics (`topics:` of an account): each statement of topics, tried by accounts of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mysql.connector
import pytest
from servers import Gate, Sql, wait_until

TOPICS: dict[str, dict[str, Any]] = {
    "publisher": {"orders": "publish"},
    "reader": {"orders": ["read"]},
    "member": {"orders": ["consume:billing"]},
    "manager": {"ord*": ["manage:*"]},
    "everything": {"orders": ["publish", "read", "consume:*", "manage:*"]},
    "stranger": {"other*": ["publish", "read", "consume:*", "manage:*"]},
}
OLD_FORM = {"orders": ["enqueue", "receive"], "orders_group_billing": ["receive", "settle"]}
USERS: list[dict[str, Any]] = [
    {"name": "root", "password": ""},
    *({"name": name, "password": "pw", "topics": topics} for name, topics in TOPICS.items()),
    {"name": "old", "password": "pw", "queues": OLD_FORM},
]
NAMES = (*TOPICS, "old")

PUBLISH = {"publisher", "everything", "old"}
READ = {"reader", "everything", "old"}
CONSUME = {"member", "everything", "old"}
MANAGE = {"manager", "everything"}
NOBODY: set[str] = set()

STATEMENTS = {
    "INSERT INTO orders (n) VALUES (9)": PUBLISH,
    "INSERT INTO orders SET n = 9": PUBLISH,
    "SELECT n FROM STREAM orders WITH (mode = 'broadcast', start = 'earliest') NOWAIT": READ,
    "SELECT n FROM STREAM orders WHERE n > 1 WITH (mode = 'broadcast', start = 1) NOWAIT": READ,
    "SELECT * FROM STREAM orders SINCE EARLIEST": READ,
    "SELECT n FROM STREAM orders WHERE n = 2 SINCE '2026-01-01 00:00:00' UNTIL TIMESTAMP '2037-01-01' LIMIT 5": READ,
    "SELECT * FROM orders WHERE n = 1 AND time_created > 5 ORDER BY id DESC LIMIT 10": READ,
    "SELECT COUNT(*), MAX(id) FROM orders": READ,
    "SELECT n FROM STREAM orders WITH (group = 'billing') LIMIT 1 NOWAIT": CONSUME,
    "SELECT n FROM STREAM orders WHERE n = 1 WITH (group = 'billing', consumer = 'me') NOWAIT": CONSUME,
    "ACK orders 1 GROUP billing": CONSUME,
    "ACK orders WHERE n = 1 GROUP billing": CONSUME,
    "NACK orders 1 GROUP billing DELAY '1m' REASON 'late'": CONSUME,
    "RELEASE orders 1 GROUP billing": CONSUME,
    "RENEW orders 1 GROUP billing FOR '5m'": CONSUME,
    "REJECT orders 1 GROUP billing": CONSUME,
    "RETRY orders GROUP billing NOW WHERE n = 1": CONSUME,
    "DELETE FROM orders_group_billing WHERE id = 1": CONSUME,
    "UPDATE orders_group_billing SET time_next = 0 WHERE id = 1": CONSUME,
    "SELECT n FROM STREAM orders WITH (group = 'audit') LIMIT 1 NOWAIT": {"everything"},
    "ACK orders 1 GROUP audit": {"everything"},
    "CREATE GROUP more ON orders WITH (filter = 'n > 5')": MANAGE,
    "CREATE GROUP IF NOT EXISTS billing ON orders": MANAGE,
    "ALTER GROUP billing ON orders SET (max_attempts = 5, filter = 'n < 100')": MANAGE,
    "ALTER GROUP billing ON orders PAUSE": MANAGE,
    "ALTER GROUP billing ON orders RESUME": MANAGE,
    "ALTER GROUP billing ON orders SEEK TO EARLIEST": MANAGE,
    "DROP GROUP billing ON orders": MANAGE,
    "DROP GROUP IF EXISTS nothing ON orders": MANAGE,
    "EXPLAIN DELIVERY FOR orders GROUP billing WHERE id = 1": CONSUME | MANAGE,
    "TRACE MESSAGE 1 ON orders": {*NAMES} - {"stranger"},
    "CREATE TOPIC more (n INT)": NOBODY,
    "ALTER TOPIC orders SET (retain = '7d')": NOBODY,
    "DROP TOPIC orders": NOBODY,
    "DROP TABLE orders": NOBODY,
    "TRUNCATE TABLE orders": NOBODY,
    "DELETE FROM orders WHERE id = 1": NOBODY,
    "UPDATE orders SET n = 5 WHERE id = 1": NOBODY,
    "INSERT INTO orders (id, n) VALUES (500, 1)": NOBODY,
    "INSERT INTO orders_group_billing (n) VALUES (1)": NOBODY,
    "SELECT * FROM orders_group_billing": NOBODY,
    "SELECT * FROM orders WHERE n IN (SELECT n FROM plain)": NOBODY,
    "SELECT * FROM STREAM orders WHERE n IN (SELECT n FROM plain) SINCE EARLIEST": NOBODY,
    "SELECT * FROM plain": NOBODY,
    "SELECT n FROM STREAM plain NOWAIT": NOBODY,
    "INSERT INTO plain (n) VALUES (1)": NOBODY,
    "ACK plain 1": NOBODY,
    "REDRIVE orders GROUP billing": NOBODY,
    "SELECT * FROM queuegate_positions": NOBODY,
    "SELECT * FROM queuegate.topics": NOBODY,
    "SELECT * FROM queuegate.groups": NOBODY,
    "SELECT * FROM queuegate.consumers": NOBODY,
    "SELECT * FROM queuegate.group_in_flight": NOBODY,
}
REFUSED = (1142, 1146, 1231, 1235)
"""1146 and 1231: a table or a group of which the account may not know is none. 1235: nobody may at all."""


@pytest.fixture(scope="module", params=["embedded", "proxy_accounts"])
def place(request: pytest.FixtureRequest) -> str:
    """Where accounts are the proxy's."""
    return str(request.param)


@pytest.fixture(scope="module")
def granted(gate_of: Callable[..., Gate]) -> Gate:
    """A gate with these accounts, and a queue that is for none of them."""
    gate = gate_of("topic_grants", USERS)
    owner = Sql(gate.connect())
    owner("CREATE QUEUE plain (n INT)")
    owner.close()
    return gate


@pytest.fixture
def root(granted: Gate) -> Iterator[Sql]:
    """The topic with two groups and two messages, of which billing has read both."""
    client = Sql(granted.connect())
    client("CREATE TOPIC orders (n INT)")
    for group in ("billing", "audit"):
        client(f"CREATE GROUP {group} ON orders")
    client("INSERT INTO orders (n) VALUES (1), (2)")
    client.rows("SELECT n FROM STREAM orders WITH (group = 'billing') NOWAIT")
    yield client
    for _, _, group, *_ in client.rows("SHOW GROUPS ON orders"):
        client(f"DROP GROUP {group} ON orders")
    client("DROP TOPIC orders")
    client.close()


@pytest.fixture
def login(granted: Gate) -> Iterator[Callable[[str], Sql]]:
    clients: list[Sql] = []

    def make(user: str) -> Sql:
        clients.append(Sql(granted.connect(user=user, password="pw")))
        return clients[-1]

    yield make
    for client in clients:
        client.connection._force_close()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_who_may(root: Sql, login: Callable[[str], Sql], statement: str) -> None:
    """First those that may not, for some of what the others do can be done once."""
    allowed = STATEMENTS[statement]
    for name in sorted(NAMES, key=allowed.__contains__):
        client = login(name)
        if name in allowed:
            client(statement)
            if statement.startswith("CREATE GROUP more"):
                root("DROP GROUP more ON orders")
            elif statement.startswith("DROP GROUP billing"):
                root("CREATE GROUP billing ON orders")
        else:
            assert client.error(statement)[0] in REFUSED, name
        assert client.value("SELECT 1") == 1
    assert root.value("SELECT COUNT(*) FROM plain") == 0


@pytest.mark.parametrize(
    ("user", "statement", "missing"),
    [
        ("reader", "INSERT INTO orders (n) VALUES (1)", "publish"),
        ("member", "SELECT * FROM STREAM orders WITH (mode = 'broadcast') NOWAIT", "read"),
        ("publisher", "SELECT * FROM orders", "read"),
        ("manager", "ACK orders 1 GROUP billing", "consume:billing"),
        ("manager", "SELECT * FROM STREAM orders WITH (group = 'audit') NOWAIT", "consume:audit"),
        ("member", "ALTER GROUP billing ON orders PAUSE", "manage:billing"),
        ("member", "ALTER GROUP billing ON orders SEEK TO LATEST", "manage:billing"),
        ("publisher", "CREATE GROUP mine ON orders", "manage:mine"),
    ],
)
def test_the_right_that_is_missing_is_named(
    granted: Gate, root: Sql, login: Callable[[str], Sql], user: str, statement: str, missing: str
) -> None:
    errno, message = login(user).error(statement)
    assert errno == 1142
    assert message.startswith(f"{missing.partition(':')[0].upper()} denied to user '{user}'@")
    assert message.endswith(f": its account has not the right '{missing}' on topic '{granted.database}.orders'")


def test_what_is_shown(root: Sql, login: Callable[[str], Sql]) -> None:
    topics, groups, traced = {}, {}, {}
    for name in NAMES:
        client = login(name)
        topics[name] = client.column("SHOW TOPICS")
        groups[name] = [row[2] for row in client.rows("SHOW GROUPS")]
        traced[name] = [] if name == "stranger" else client.column("TRACE MESSAGE 1 ON orders")
        assert client.rows("SHOW CONSUMERS") == []
    both, billing = ["audit", "billing"], ["billing"]
    assert topics == {name: [] if name == "stranger" else ["orders"] for name in NAMES}
    shown = {"member": billing, "old": billing, "manager": both, "everything": both}
    assert groups == traced == {name: shown.get(name, []) for name in NAMES}


def test_a_topic_that_cannot_be_read_is_shown_with_the_reason(root: Sql, login: Callable[[str], Sql]) -> None:
    """And nobody has a right on it by `topics`: what it is nobody knows."""
    root("ALTER TABLE orders COMMENT='queuegate_topic,retain=soon'")
    try:
        for name in ("root", *NAMES):
            rows = (root if name == "root" else login(name)).named("SHOW TOPICS")
            assert [row["topic"] for row in rows] == ([] if name == "stranger" else ["orders"]), name
            assert all("retain: 'soon'" in row["problem"] and row["messages"] is None for row in rows)
        shown = "SELECT topic, problem IS NULL FROM queuegate.topics WHERE topic = 'orders' AND db = DATABASE()"
        assert root.rows(shown) == [("orders", 0)]
        for name in ("publisher", "everything"):
            assert login(name).error("INSERT INTO orders (n) VALUES (9)")[0] in REFUSED
            assert login(name).error("SELECT * FROM orders")[0] in REFUSED
        assert root.value("SELECT COUNT(*) FROM orders") == 2
    finally:
        root("ALTER TABLE orders COMMENT='queuegate_topic'")
    assert root.named("SHOW TOPICS")[0]["problem"] is None
    assert login("publisher")("INSERT INTO orders (n) VALUES (9)") == 1


def test_a_member_is_told_of_its_dead_letters_and_may_not_read_them(root: Sql, login: Callable[[str], Sql]) -> None:
    member = login("member")
    assert member("REJECT orders 1 GROUP billing REASON 'bad'") == 1
    assert member.rows("SELECT n FROM STREAM orders WITH (group = 'billing') LIMIT 1 NOWAIT") == []
    wait_until(lambda: "orders_group_billing_dead" in root.column("SHOW TABLES"), what="the dead-letter queue")
    wait_until(lambda: root.value("SELECT COUNT(*) FROM orders_group_billing_dead") == 1, what="the dead letter")
    assert [row[:2] for row in member.rows("TRACE MESSAGE 1 ON orders")] == [("billing", "dead")]
    assert member.error("SELECT n FROM STREAM orders_group_billing_dead NOWAIT")[0] == 1142
    assert member.error("ACK orders_group_billing_dead 1")[0] == 1142
    # Who may drop the group drops them with it.
    login("manager")("DROP GROUP billing ON orders")
    assert "orders_group_billing_dead" not in root.column("SHOW TABLES")


def test_prepared_statements_need_the_same(granted: Gate, root: Sql) -> None:
    def prepared(user: str, sql: str, *values: object) -> Any:
        connection = mysql.connector.connect(
            host="127.0.0.1", port=granted.port, user=user, password="pw", database=granted.database, use_pure=True,
            autocommit=True,
        )  # fmt: skip
        cursor = connection.cursor(prepared=True)
        try:
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else None
        except mysql.connector.Error as error:
            return error.errno
        finally:
            connection.close()

    assert prepared("reader", "SELECT id, n FROM orders WHERE n = ?", 2) == [(2, 2)]
    assert prepared("publisher", "SELECT id, n FROM orders WHERE n = ?", 2) == 1142
    assert prepared("publisher", "INSERT INTO orders (n) VALUES (?)", 3) is None
    assert prepared("reader", "INSERT INTO orders (n) VALUES (?)", 3) == 1142
    assert prepared("reader", "SELECT * FROM STREAM orders SINCE EARLIEST") == [(1, 1), (2, 2), (3, 3)]
    assert prepared("member", "ACK orders ? GROUP billing", 2) is None
    assert prepared("manager", "ACK orders ? GROUP billing", 2) == 1142
    for statement in ("ALTER GROUP audit ON orders PAUSE", "ALTER GROUP audit ON orders SEEK TO EARLIEST"):
        assert prepared("manager", statement) is None
        assert prepared("member", statement) in REFUSED
    assert prepared("manager", "DROP GROUP audit ON orders") is None
    assert [row[2] for row in root.rows("SHOW GROUPS")] == ["billing"]


def test_a_topic_made_just_now_is_one_of_a_pattern(root: Sql, login: Callable[[str], Sql]) -> None:
    stranger = login("stranger")
    root("CREATE TOPIC other_one (n INT)")
    try:
        assert stranger("INSERT INTO other_one (n) VALUES (7)") == 1
        assert stranger("CREATE GROUP mine ON other_one START AT EARLIEST") == 0
        assert stranger.rows("SELECT n FROM STREAM other_one WITH (group = 'mine') NOWAIT") == [(7,)]
        assert stranger("ACK other_one 1") == 1
        stranger("DROP GROUP mine ON other_one")
    finally:
        root("DROP TOPIC other_one")
    assert stranger.error("INSERT INTO other_one (n) VALUES (7)")[0] in (1146, 1347)

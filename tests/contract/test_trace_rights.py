"""Who may see a history that is kept, and where a message of a queue is; what missing rights of the proxy cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from servers import Gate, Sql, wait_until

USERS: list[dict[str, Any]] = [
    {"name": "root", "password": ""},
    {
        "name": "shop",
        "password": "pw",
        "queues": {"jobs": ["receive", "settle"]},
        "topics": {"orders": ["publish", "consume:g"]},
    },
    {"name": "stranger", "password": "pw", "queues": {"other": ["enqueue"]}},
]


@pytest.fixture(scope="module", params=["embedded", "proxy_accounts"])
def place(request: pytest.FixtureRequest) -> str:
    """Where accounts are the proxy's."""
    return str(request.param)


@pytest.fixture(scope="module")
def limited(gate_of: Callable[..., Gate]) -> Gate:
    """A gate with these accounts, a topic of two groups whose history is kept, and a queue."""
    gate = gate_of("limited_traces", USERS)
    owner = Sql(gate.connect())
    owner("CREATE TOPIC orders (n INT) WITH (trace_keep = '1d')")
    for group in ("g", "audit"):
        owner(f"CREATE GROUP {group} ON orders START AT EARLIEST")
    owner("CREATE QUEUE jobs (n INT)")
    owner.close()
    return gate


def login(gate: Gate, user: str) -> Sql:
    return Sql(gate.connect(user=user, password="pw"))


def history(sql: Sql, id_: int) -> dict[str, list[str]]:
    """By group, what happened."""
    return {
        row["group"]: [piece.split(" ", 2)[2] for piece in (row["history"] or "").split("; ") if piece]
        for row in sql.named(f"TRACE MESSAGE {id_} ON orders")
    }


def test_an_account_sees_what_is_kept_as_it_sees_what_is_in_memory(limited):
    owner, shop = Sql(limited.connect()), login(limited, "shop")
    owner("INSERT INTO orders (n) VALUES (1)")
    shop("INSERT INTO orders (n) VALUES (2)")
    for group, client in (("g", shop), ("audit", owner)):
        assert client.column(f"SELECT id FROM STREAM orders WITH (group = '{group}') LIMIT 2 WAIT 20") == [1, 2]
    before = [[history(client, id_) for id_ in (1, 2)] for client in (owner, shop)]
    theirs, own = before[1]
    assert theirs["g"][0] == "enqueued"  # by root, which is not told
    assert own["g"][0].startswith("enqueued by connection ") and "(shop@" in own["g"][0]
    assert theirs.keys() == {"g"} and before[0][0].keys() == {"g", "audit"}
    assert shop.error("SELECT * FROM queuegate_traces")[0] == 1142
    assert shop.error("DELETE FROM queuegate_traces")[0] == 1142
    for client in (owner, shop):
        client.connection._force_close()
    limited.terminate()
    limited.start()
    owner, shop = Sql(limited.connect()), login(limited, "shop")
    assert [[history(client, id_) for id_ in (1, 2)] for client in (owner, shop)] == before
    stranger = login(limited, "stranger")
    assert stranger.error("TRACE MESSAGE 1 ON orders")[0] == 1142
    for client in (owner, shop, stranger):
        client.close()


def test_a_message_of_a_queue_is_shown_as_explain_delivery_shows_it(limited):
    owner, shop, stranger = Sql(limited.connect()), login(limited, "shop"), login(limited, "stranger")
    owner("INSERT INTO jobs (n) VALUES (1)")
    ((id_,),) = owner.rows("SELECT id FROM STREAM jobs LIMIT 1 WAIT 20")
    shop(f"NACK jobs {id_} DELAY '1h' REASON 'later'")
    (row,) = shop.named(f"TRACE MESSAGE {id_} ON jobs")
    assert (row["state"], row["last_error"]) == ("retrying", "later")
    assert [piece.split(" ", 2)[2] for piece in row["history"].split("; ")] == ["sent, delivery 1", "nacked: later"]
    assert "to connection " in owner.named(f"TRACE MESSAGE {id_} ON jobs")[0]["history"]
    assert stranger.error(f"TRACE MESSAGE {id_} ON jobs")[0] == 1142
    for client in (owner, shop, stranger):
        client.close()


def test_accounts_and_rights_of_the_database(mariadb, tmp_path):
    """An account that sees a group, and not others' connections; and a proxy that may not make its table."""
    url = mariadb.fresh_database("kept_traces")
    gate = Gate(url, tmp_path, database="kept_traces").start()
    owner = Sql(gate.connect())
    owner("CREATE TOPIC orders (n INT) WITH (trace_keep = '1d')")
    owner("CREATE GROUP g ON orders START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')")
    for user, grants in {
        "modest": ["SELECT, INSERT, UPDATE, DELETE ON kept_traces.*"],
        "looker": ["SELECT ON kept_traces.orders", "SELECT ON kept_traces.orders_group_g"],
    }.items():
        owner(f"DROP USER IF EXISTS {user}")
        owner(f"CREATE USER {user} IDENTIFIED BY 'pw'")
        for grant in grants:
            owner(f"GRANT {grant} TO {user}")
    owner.connection._force_close()
    gate.stop()
    address = url.partition("@")[2]
    (tmp_path / "modest").mkdir()
    gate = Gate(f"mysql://modest:pw@{address}", tmp_path / "modest", database="kept_traces").start()
    owner, looker = Sql(gate.connect()), login(gate, "looker")

    def problem() -> str | None:
        return owner.named("SHOW TOPICS LIKE 'orders'")[0]["problem"]

    owner("INSERT INTO orders (n) VALUES (1), (2)")
    assert owner.column("SELECT id FROM STREAM orders WITH (group = 'g') LIMIT 2 WAIT 20") == [1, 2]
    told = wait_until(problem, what="the missing right to be told")
    assert "the history is not written: error 1142, which the log explains" in told
    assert "events of its history that were dropped since the start: " in told
    assert owner("ACK orders 1 GROUP g") == 1  # all else works
    assert gate.log.count("is not written, deliveries go on") == 1
    assert history(looker, 2)["g"] == ["enqueued", "sent, delivery 1"]  # from memory, and without the connections
    assert "modest" not in told and "CREATE command denied" in gate.log
    users = [{"name": "shop", "password": "pw", "topics": {"orders": ["consume:g"]}}]
    (tmp_path / "limited").mkdir()
    limited = Gate(gate.backend, tmp_path / "limited", database="kept_traces", auth="proxy", users=users).start()
    shop = login(limited, "shop")  # of another proxy, and told less of the proxy's own account
    told = wait_until(lambda: shop.named("SHOW TOPICS")[0]["problem"], what="the problem to be told by the other")
    assert "the history is not written: " in told and "modest" not in told
    shop.close()
    limited.stop()
    owner("GRANT CREATE, SELECT, INSERT, DELETE ON kept_traces.queuegate_traces TO modest")
    owner("NACK orders 2 GROUP g DELAY '1h' REASON 'later'")
    wait_until(lambda: "not written" not in (problem() or ""), what="it to be written", timeout=60)
    assert gate.log.count("is written again") == 1
    for client in (owner, looker):
        client.connection._force_close()
    gate.terminate()
    gate.start()
    owner, looker = Sql(gate.connect()), login(gate, "looker")
    assert history(owner, 2)["g"][-1] == history(looker, 2)["g"][-1] == "nacked: later"
    assert looker.error("SELECT * FROM queuegate_traces")[0] == 1142
    owner("CREATE QUEUE jobs (n INT)")
    assert looker.error("TRACE MESSAGE 1 ON jobs")[0] == looker.error("EXPLAIN DELIVERY FOR jobs")[0] == 1142
    for user in ("modest", "looker"):
        owner(f"DROP USER {user}")
    for client in (owner, looker):
        client.connection._force_close()
    gate.stop()

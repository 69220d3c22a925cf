"""SHOW QUEUE q OPTIONS: every option of a queue beside its default."""

from __future__ import annotations

import mysql.connector
from servers import Sql

TITLES = ["option", "value", "default"]  # as Sql has them, in lower case


def test_options_beside_their_defaults(sql, queue):
    q = queue("n INT", prefetch=17, max_rate=50)
    sql(f"ALTER QUEUE {q} SET (ack_wait = '2m')")
    rows = sql.rows(f"SHOW QUEUE {q} OPTIONS")
    assert list(sql.named(f"SHOW QUEUE {q} OPTIONS")[0]) == TITLES
    names = [row[0] for row in rows]
    assert names == sorted(names) and "filter" not in names and "topic" not in names
    values = {name: (value, default) for name, value, default in rows}
    assert values["prefetch"][0] == "17" and values["batch_size"][0] == "100"
    assert {d for _, d in values.values()} == {d for _, _, d in sql.rows(f"SHOW QUEUE {queue('n INT')} OPTIONS")}
    assert all(value == default for _, value, default in sql.rows(f"SHOW QUEUE {queue('n INT')} OPTIONS") if default)
    assert values["ack_wait"][0] == "120s"
    assert values["max_rate"] == ("50", None)
    assert values["dead_letter"] == (None, None)


def test_a_lower_prefetch_bounds_batches_while_it_lasts(sql, queue):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3), (4), (5)")
    sql(f"ALTER QUEUE {q} SET (prefetch = 2)")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} NOWAIT")) == 2
    sql(f"ALTER QUEUE {q} SET (prefetch = DEFAULT)")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} NOWAIT")) == 3


def test_it_is_what_with_takes(sql, queue):
    q = queue("n INT", prefetch=17, max_attempts=4, paused=1)
    rows = sql.rows(f"SHOW QUEUE {q} OPTIONS")
    options = {name: f"'{value}'" for name, value, _ in rows if value is not None}
    other = queue("n INT", **options)
    assert sql.rows(f"SHOW QUEUE {other} OPTIONS") == rows


def test_names_and_faults(sql, queue):
    q = queue("n INT")
    database = sql.value("SELECT DATABASE()")
    rows = sql.rows(f"show queue `{q}` options")
    assert sql.rows(f"SHOW QUEUE {database}.{q} OPTIONS;") == rows
    for text, errno in (
        ("SHOW QUEUE nowhere OPTIONS", 1146),
        (f"SHOW QUEUE {q} OPTIONS LIKE 'a'", 1064),
        (f"SHOW QUEUE {q}", 1064),
        ("SHOW QUEUE STATUS OPTIONS LIKE 'x'", 1064),
    ):
        assert sql.error(text)[0] == errno, text


def test_it_is_prepared(gate, queue):
    q = queue("n INT", prefetch=17)
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, use_pure=True, ssl_disabled=True
    )
    cursor = link.cursor(prepared=True)
    cursor.execute(f"SHOW QUEUE {q} OPTIONS")
    assert ("prefetch", "17") in [row[:2] for row in cursor.fetchall()]
    link.close()


def test_an_account_with_limits_sees_the_options_of_its_queues(new_gate):
    users = [
        {"name": "root", "password": "pw"},
        {"name": "shop", "password": "pw", "queues": {"orders": ["enqueue"]}},
    ]
    gate = new_gate(auth="proxy", users=users)
    gate.start()
    root = Sql(gate.connect(user="root", password="pw"))
    for name in ("orders", "hidden"):
        root(f"CREATE QUEUE {name} (n INT)")
    shop = Sql(gate.connect(user="shop", password="pw"))
    assert shop.rows("SHOW QUEUE orders OPTIONS") == root.rows("SHOW QUEUE orders OPTIONS")
    refused = [shop.error(f"SHOW QUEUE {name} OPTIONS") for name in ("hidden", "nowhere")]
    assert [errno for errno, _ in refused] == [shop.error(f"SHOW CREATE QUEUE {n}")[0] for n in ("hidden", "nowhere")]
    assert 1142 in {errno for errno, _ in refused}
    root.close()
    shop.close()

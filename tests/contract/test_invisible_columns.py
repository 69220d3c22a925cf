"""Columns that `SELECT *` leaves out: named, they are columns as any other, and nothing that they hold is lost."""

from __future__ import annotations

import pytest
from servers import wait_until

pytestmark = [pytest.mark.usefixtures("a_server"), pytest.mark.on_mysql]


@pytest.fixture
def a_server(place):
    if place == "embedded":
        pytest.skip("it has no invisible columns")


_COLUMNS = "body VARCHAR(20), secret VARCHAR(20) INVISIBLE DEFAULT 'none'"


def test_a_stream_names_them(sql, queue):
    q = queue(_COLUMNS)
    sql(f"INSERT INTO {q} (body, secret) VALUES ('a', 's1'), ('b', 's2'), ('c', 's3')")
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT") == [(1, "a")]
    assert sql.rows(f"SELECT secret, id FROM STREAM {q} WHERE secret = 's3' LIMIT 1 NOWAIT") == [("s3", 3)]
    assert sql.rows(f"SELECT id, Secret FROM STREAM {q} LIMIT 1 NOWAIT") == [(2, "s2")]
    sql(f"INSERT INTO {q} (body) VALUES ('d')")
    assert sql.rows(f"SELECT secret FROM STREAM {q} LIMIT 1 NOWAIT") == [("none",)]


def test_options_name_them(sql, queue):
    q = queue(_COLUMNS, message_cols="'id|secret'")
    sql(f"INSERT INTO {q} (body, secret) VALUES ('a', 's1'), ('b', 's2')")
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT") == [(1, "s1")]
    sql(f"ALTER QUEUE {q} SET (message_cols = 'id|body|secret')")
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT") == [(2, "b", "s2")]
    ordered = queue("body VARCHAR(20), k INT NOT NULL DEFAULT 0 INVISIBLE", order_key="'k'")
    sql(f"INSERT INTO {ordered} (body, k) VALUES ('a', 1), ('b', 1), ('c', 2)")
    assert sql.column(f"SELECT body FROM STREAM {ordered} LIMIT 5 NOWAIT") == ["a", "c"]


def test_dead_letters_keep_what_they_hold(sql, queue):
    q = queue(_COLUMNS)
    sql(f"INSERT INTO {q} (body, secret) VALUES ('a', 's1')")
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == [(1,)]
    sql(f"REJECT {q} 1 REASON 'bad'")
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead letter")
    wait_until(lambda: sql.rows(f"SELECT body, secret FROM {q}_dead") == [("a", "s1")])
    assert sql(f"REDRIVE {q}_dead") == 1
    assert sql.rows(f"SELECT body, secret FROM STREAM {q} LIMIT 1 WAIT 10") == [("a", "s1")]


def test_topics_pass_them_on(sql, topic):
    t = topic(_COLUMNS, all="START AT EARLIEST", some="START AT EARLIEST WITH (filter = 'secret = ''s2''')")
    sql(f"INSERT INTO {t} (body, secret) VALUES ('a', 's1'), ('b', 's2')")
    both = [("a", "s1"), ("b", "s2")]
    assert sql.rows(f"SELECT body, secret FROM STREAM {t} WITH (group = 'all') LIMIT 2 WAIT 10") == both
    assert sql.rows(f"SELECT body, secret FROM STREAM {t} WITH (group = 'some') LIMIT 1 WAIT 10") == both[1:]
    broadcast = "WITH (mode = 'broadcast', start = 'earliest') LIMIT 2 WAIT 10"
    assert sql.rows(f"SELECT body, secret FROM STREAM {t} {broadcast}") == both
    assert sql.rows(f"SELECT * FROM STREAM {t} WITH (mode = 'broadcast', start = 'earliest') LIMIT 1 WAIT 10") == [
        (1, "a")
    ]
    assert sorted(sql.rows(f"SELECT body, secret FROM STREAM {t} SINCE EARLIEST")) == both

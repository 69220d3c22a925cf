"""A table that was copied with its comment, or renamed: whose mark it has, and what makes it a queue of its own."""

from __future__ import annotations

import pytest
from servers import Sql, wait_until

pytestmark = pytest.mark.on_mysql


def problem(sql: Sql, name: str) -> str:
    """What SHOW QUEUES says is wrong with a table."""
    return next(row[-1] for row in sql.rows("SHOW QUEUES") if row[0] == name) or ""


@pytest.fixture
def names(sql, queue):
    """A queue, and the names of two copies, which are dropped at the end."""
    q = queue("n INT", purge_after="'1s'", poll_interval="'1s'", max_attempts=1)
    yield q, f"{q}_copy", f"{q}_old"
    sql("SET @queuegate_allow_drop_table = 1")
    for name in (f"{q}_copy", f"{q}_old", f"{q}_copy_dead", f"{q}_dead"):
        sql(f"DROP TABLE IF EXISTS {name}")


def test_a_copy_is_no_queue(sql, names):
    """Nothing of it is purged, delivered or moved, and it is an ordinary table to DROP."""
    q, copy, _ = names
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    sql(f"CREATE TABLE {copy} LIKE {q}")
    sql(f"INSERT INTO {copy} (id, n, time_acked, time_next) VALUES (1, 1, 1, NULL)")
    sql(f"INSERT INTO {copy} (id, n, time_next) VALUES (2, 2, 9223372036854775806), (3, 3, 0)")
    for statement in (f"SELECT * FROM STREAM {copy} LIMIT 1 NOWAIT", f"ACK {copy} 3", f"TRUNCATE QUEUE {copy}"):
        errno, text = sql.error(statement)
        assert errno == 1347 and f"a copy of '{q}'" in text and "ALTER QUEUE" in text
    assert f"a copy of '{q}'" in problem(sql, copy)
    # A pass of the purger and the mover over the queue itself, which is served on.
    sql(f"INSERT INTO {q} (n, time_acked, time_next) VALUES (9, 1, NULL)")
    sql(f"REJECT {q} 1")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}") == 2, what="the purge of the queue")
    assert sql.column(f"SELECT id FROM {copy} ORDER BY id") == [1, 2, 3]
    assert f"{copy}_dead" not in sql.column("SHOW QUEUES")
    sql(f"DROP TABLE {copy}")
    assert copy not in sql.column("SHOW QUEUES")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10") == [(2,)]


@pytest.mark.parametrize("change", ["RESUME", "SET (ack_wait = '9s')", "SET (max_attempts = DEFAULT)"])
def test_alter_queue_makes_it_one(sql, names, change):
    q, copy, _ = names
    sql(f"CREATE TABLE {copy} LIKE {q}")
    sql(f"INSERT INTO {copy} (n) VALUES (5)")
    sql(f"ALTER QUEUE {copy} {change}")
    assert problem(sql, copy) == ""
    assert sql.rows(f"SELECT n FROM STREAM {copy} LIMIT 1 WAIT 10") == [(5,)]
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 NOWAIT") == []
    sql(f"DROP QUEUE {copy}")


def test_a_copy_stays_none_when_the_queue_goes(sql, names):
    q, copy, _ = names
    sql(f"CREATE TABLE {copy} LIKE {q}")
    sql(f"DROP QUEUE {q}")
    assert sql.error(f"SELECT * FROM STREAM {copy} LIMIT 1 NOWAIT")[0] == 1347
    assert f"a copy of '{q}'" in problem(sql, copy)


def test_a_copy_that_takes_the_queues_place(sql, names, stream):
    """As tools that change a table do it: the new table is the queue, the old one is none."""
    q, copy, old = names
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    receiver.wait(2)
    sql(f"CREATE TABLE {copy} LIKE {q}")
    sql(f"ALTER TABLE {copy} ADD COLUMN m INT DEFAULT 7")
    sql(f"INSERT INTO {copy} (id, n, time_next, epoch) SELECT id, n, time_next, epoch FROM {q}")
    sql(f"RENAME TABLE {q} TO {old}, {copy} TO {q}")
    sql(f"INSERT INTO {q} (n) VALUES (3)")
    assert receiver.wait(3)[2] == (3,)
    assert sql.rows(f"SELECT n, m FROM {q} ORDER BY n") == [(1, 7), (2, 7), (3, 7)]
    assert sql(f"ACK {q} 1") == 1
    assert sql.error(f"ACK {old} 1")[0] == 1347
    sql(f"DROP TABLE IF EXISTS {old}")


def test_queues_that_have_changed_places_are_none(sql, queue, names, stream):
    """Which is which nobody has said. No stream goes on over the other's messages."""
    q, _, old = names
    other = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    sql(f"INSERT INTO {other} (n) VALUES (10)")
    receiver = stream(f"SELECT n FROM STREAM {q}")
    receiver.wait(1)
    sql(f"RENAME TABLE {q} TO {old}, {other} TO {q}, {old} TO {other}")
    assert receiver.wait_end() is not None
    assert receiver.rows == [(1,)]
    for name in (q, other):
        assert sql.error(f"ACK {name} 1")[0] == 1347
        sql(f"ALTER QUEUE {name} RESUME")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10") == [(10,)]


@pytest.mark.parametrize("form", ["RENAME TABLE {q} TO {to}", "ALTER TABLE {q} RENAME TO {to}"])
def test_the_name_follows_a_client_that_renames_its_queue(sql, names, form):
    """And a copy of what it is now names that."""
    q, copy, old = names
    sql(form.format(q=q, to=old))
    assert problem(sql, old) == ""
    sql(f"CREATE TABLE {copy} LIKE {old}")
    assert f"a copy of '{old}'" in problem(sql, copy)
    sql(form.format(q=old, to=q))
    assert problem(sql, q) == ""
    sql(f"INSERT INTO {q} (n) VALUES (4)")
    assert sql.rows(f"SELECT n FROM STREAM {q} LIMIT 1 WAIT 10") == [(4,)]


def test_a_comment_without_a_name_is_any_tables(sql, names):
    """Of an earlier version, or written by hand; ALTER QUEUE gives it its name."""
    q, copy, _ = names
    comment = "vitess_message,vt_ack_wait=9,vt_purge_after=900,vt_batch_size=9,vt_cache_size=99,vt_poller_interval=5"
    sql(f"ALTER TABLE {q} COMMENT = '{comment}'")
    sql(f"CREATE TABLE {copy} LIKE {q}")
    assert (problem(sql, q), problem(sql, copy)) == ("", "")
    sql(f"DROP QUEUE {copy}")
    sql(f"ALTER QUEUE {q} RESUME")
    sql(f"CREATE TABLE {copy} LIKE {q}")
    assert "a copy of" in problem(sql, copy)
    assert problem(sql, q) == ""


def test_a_copy_of_a_topic_is_none(sql, topic):
    t = topic()
    copy = f"{t}_copy"
    sql(f"CREATE TABLE {copy} LIKE {t}")
    assert any("a copy of" in text for row in sql.rows("SHOW TOPICS") if copy in row for text in map(str, row))
    assert sql.error(f"SELECT * FROM STREAM {copy} WITH (mode = 'broadcast') LIMIT 1 NOWAIT")[0] in (1146, 1347)
    sql(f"ALTER TOPIC {copy} SET (retain = '1d')")
    assert not any("a copy of" in text for row in sql.rows("SHOW TOPICS") for text in map(str, row))
    sql(f"DROP TOPIC {copy}")


@pytest.mark.parametrize("name", ["Größe Ü", "Mixed_Case", "a'b`c", "ü" * 40])
def test_names_of_any_characters(sql, name):
    quoted = "`" + name.replace("`", "``") + "`"
    copy = "`" + name.replace("`", "``")[:40] + "_2`"
    try:
        sql(f"CREATE QUEUE {quoted} (n INT)")
        assert problem(sql, name) == ""
        sql(f"ALTER QUEUE {quoted} SET (ack_wait = '9s')")
        assert problem(sql, name) == ""
        sql(f"CREATE TABLE {copy} LIKE {quoted}")
        assert sql.error(f"SELECT * FROM STREAM {copy} LIMIT 1 NOWAIT")[0] == 1347
    finally:
        sql(f"DROP TABLE IF EXISTS {copy}")
        sql(f"DROP QUEUE IF EXISTS {quoted}")


@pytest.mark.parametrize("kind", ["QUEUE", "TOPIC"])
@pytest.mark.parametrize("form", ["RENAME TABLE {q} TO {to}", "ALTER TABLE {q} RENAME TO {to}"])
def test_a_queue_is_made_again_after_each_rename(sql, name, kind, form):
    """The constraint on its times has the table's new name, so it is in no later table's way."""
    old = [f"{name[:40]}_{year}".ljust(48, "_") for year in (2025, 2026)]
    for to in old:
        sql(f"CREATE {kind} {name} (n INT)")
        sql(form.format(q=name, to=to))
    sql(f"CREATE {kind} {name} (n INT)")
    for each in (*old, name):
        if kind == "QUEUE":
            assert "CHECK" not in sql.row(f"SHOW CREATE QUEUE {each}")[1]
        assert "_times_ns" in sql.error(f"INSERT INTO {each} (n, time_scheduled) VALUES (1, 1700000000)")[1]
        sql(f"DROP {kind} {each}")


def test_queues_whose_names_differ_in_case_alone(sql, name, place):
    if place == "embedded":
        pytest.skip("its names are the same in any case")
    for each in (name, name.capitalize()):
        sql(f"CREATE QUEUE {each} (n INT)")
    for each in (name, name.capitalize()):
        assert "CHECK" not in sql.row(f"SHOW CREATE QUEUE {each}")[1]
        sql(f"DROP QUEUE {each}")

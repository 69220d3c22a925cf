"""A queue whose table was dropped around the proxy, before its catalog has been read again."""

from __future__ import annotations

import pytest


@pytest.fixture
def dropped(place, queue, request):
    """A queue that the proxy still believes in."""
    if place == "embedded":
        pytest.skip("nobody else drops tables of the embedded database")
    q = queue("n INT", poll_interval="'10m'")
    with request.getfixturevalue("mariadb").connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE main.{q}")
    return q


def test_drop_if_exists_is_a_note(sql, dropped):
    assert sql(f"DROP QUEUE IF EXISTS {dropped}") == 0
    assert [(level, errno) for level, errno, _ in sql.rows("SHOW WARNINGS")] == [("Note", 1051)]


def test_drop_says_that_there_is_none_and_it_can_be_made_again(sql, dropped):
    assert sql.error(f"DROP QUEUE {dropped}")[0] in (1051, 1146)
    sql(f"CREATE QUEUE IF NOT EXISTS {dropped} (n INT)")
    sql(f"INSERT INTO {dropped} (n) VALUES (1)")
    assert sql.rows(f"SELECT n FROM STREAM {dropped} NOWAIT") == [(1,)]


def test_create_if_not_exists_makes_it(sql, dropped):
    sql(f"CREATE QUEUE IF NOT EXISTS {dropped} (n INT)")
    sql(f"INSERT INTO {dropped} (n) VALUES (1)")
    assert sql.rows(f"SELECT n FROM STREAM {dropped} NOWAIT") == [(1,)]


def test_create_makes_it(sql, dropped):
    sql(f"CREATE QUEUE {dropped} (n INT)")
    sql(f"INSERT INTO {dropped} (n) VALUES (1)")
    assert sql.rows(f"SELECT n FROM STREAM {dropped} NOWAIT") == [(1,)]

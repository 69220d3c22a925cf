"""A savepoint without autocommit: statements of ours that are several at the database begin no transaction then."""

from __future__ import annotations

import pytest


@pytest.fixture
def parts(connect):
    client = connect()
    client("DROP QUEUE IF EXISTS parts")
    client("CREATE QUEUE parts (g BIGINT, n INT) WITH (group_key = 'g', ack_wait = '1h')")
    yield client
    client("ROLLBACK")
    client("SET autocommit = 1")
    client("DROP QUEUE parts")


STATEMENTS = (
    "ACK parts 1",
    "REJECT parts 1",
    "INSERT INTO parts (g, n) VALUES (2, 5) AFTER GROUP 1 OF parts",
    "CREATE SCHEDULE often ON parts EVERY '1h' (g, n) VALUES (7, 7)",
)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_savepoint_outlives_each_statement_that_is_several(parts, sql):
    parts("INSERT INTO parts (g, n) VALUES (1, 1), (1, 2)")
    assert len(parts.rows("SELECT n FROM STREAM parts LIMIT 2 WAIT 10")) == 2
    first = parts.value("SELECT MIN(id) FROM parts")
    parts("SET autocommit = 0")
    parts("SAVEPOINT z")
    parts(sql.replace("parts 1", f"parts {first}"))
    parts("ROLLBACK TO z")
    parts("COMMIT")
    assert parts.value("SELECT COUNT(*) FROM parts WHERE time_acked IS NULL") == 2

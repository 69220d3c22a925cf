"""A message that a client's commit has added goes out without a look at the table, whichever way it was added; and what
the answer to an INSERT does not tell of goes out, too. On both backends, with real clients."""

from __future__ import annotations

import time

from servers import Sql, Stream
from test_admin import admin_gate, metrics, value

__all__ = ["admin_gate"]  # a fixture

OPTIONS = "WITH (poll_interval = '1h', ack_wait = '1h', max_backoff = '2h')"


def looks_and_claims(gate, queue):
    samples = metrics(gate)
    labels = {"database": gate.database, "queue": queue}
    return tuple(value(samples, f"queuegate_queue_{name}_total", **labels) for name in ("looks", "claims"))


def test_messages_go_out_without_a_look(admin_gate):
    gate = admin_gate()
    sql = Sql(gate.connect())
    sql(f"CREATE QUEUE jobs (n INT) {OPTIONS}")
    with Stream(gate, "SELECT id, n FROM STREAM jobs") as stream:
        sql("INSERT INTO jobs (n) VALUES (0)")  # from here on the database's clock is known
        stream.wait(1)
        sent, began, before = 1, time.monotonic(), looks_and_claims(gate, "jobs")
        for _ in range(10):
            sql("INSERT INTO jobs (n) VALUES (1)")
            sent += 1
            stream.wait(sent)
            sql("INSERT INTO jobs (n) VALUES (2), (3)")
            sent += 2
            stream.wait(sent)
            sql("BEGIN")
            sql("INSERT INTO jobs (n) VALUES (4)")
            sql("INSERT INTO jobs (n) VALUES (5)")
            sql("COMMIT")
            sent += 2
            rows = stream.wait(sent)
        after, lasted = looks_and_claims(gate, "jobs"), time.monotonic() - began
    assert sorted(row[0] for row in rows) == list(range(1, sent + 1))
    assert after[1] - before[1] >= 30, "each commit by a claim of its own"
    # One look a second; and some more, where a stalled machine makes the proxy foresee the database's time wrongly.
    assert after[0] - before[0] <= lasted + 15, "not one look for each of the 30 commits"
    sql.close()


def test_what_the_answer_does_not_tell_goes_out_too(admin_gate):
    gate = admin_gate()
    sql = Sql(gate.connect())
    sql(f"CREATE QUEUE jobs (n INT) {OPTIONS}")
    sql(f"CREATE QUEUE keyed (id VARCHAR(36) NOT NULL PRIMARY KEY, n INT) {OPTIONS}")
    with Stream(gate, "SELECT id, n FROM STREAM jobs") as stream:
        sql("INSERT INTO jobs (n) VALUES (0)")
        stream.wait(1)
        statements = (
            "INSERT INTO jobs (id, n) VALUES (1000, 1)",
            "INSERT INTO jobs (id, n) VALUES (3000, 2), (2000, 2)",
            "INSERT INTO jobs (n) SELECT n FROM jobs WHERE id = 1000",
            "INSERT INTO jobs (id, n) VALUES (1, 9) ON DUPLICATE KEY UPDATE time_next = 0, epoch = 0",
            "REPLACE INTO jobs (id, n) VALUES (1000, 3)",
            "INSERT INTO jobs (n, time_next) VALUES (4, NULL)",
            "INSERT INTO jobs (n, priority) VALUES (5, 1)",
            "INSERT INTO jobs (n) VALUES (6) DELAY '1s'",
            "INSERT IGNORE INTO jobs (id, n) VALUES (1000, 7), (1001, 7)",
        )
        for sent, statement in enumerate(statements, 2):
            sql(statement)
            stream.wait(sent + (sent > 2))  # the second one adds two
    with Stream(gate, "SELECT id FROM STREAM keyed") as stream:
        for number in range(5):
            sql(f"INSERT INTO keyed (id, n) VALUES ('key-{number}', 1)")
            assert stream.wait(number + 1)[-1][0] == f"key-{number}"
    sql.close()

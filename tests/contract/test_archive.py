"""The option `archive`: what a job has not said to be archived is not purged; and how a job misses nothing."""

from __future__ import annotations

import threading

import pytest
from servers import wait_until
from slowness import scaled

pytestmark = pytest.mark.no_proxy_accounts

TABLE = """CREATE TABLE IF NOT EXISTS queuegate_archive
           (queue VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
            archived_until BIGINT NOT NULL)"""


def test_only_what_is_archived_is_purged(sql, queue):
    q = queue("n INT", archive=1, purge_after=0, poll_interval="'100ms'")
    assert "archive = 1" in sql.row(f"SHOW CREATE QUEUE {q}")[1]
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    for n in (1, 2):
        assert sql(f"ACK {q} {n}") == 1
    assert sql(f"UPDATE {q} SET time_acked = time_acked - 1000000 WHERE n = 1") == 1  # never in the same millisecond
    assert sql.column(f"SELECT n FROM {q} ORDER BY n") == [1, 2, 3]
    first, second = sql.column(f"SELECT time_acked FROM {q} WHERE n < 3 ORDER BY n")
    assert first < second
    wait_until(lambda: sql.column("SHOW TABLES LIKE 'queuegate_archive'"), what="the proxy to make the table")
    sql(TABLE)  # as a job does
    sql("REPLACE INTO queuegate_archive (queue, archived_until) VALUES (%s, %s)", q, first)
    wait_until(lambda: sql.column(f"SELECT n FROM {q} ORDER BY n") == [2, 3], what="the purge of what is archived")
    sql("REPLACE INTO queuegate_archive (queue, archived_until) VALUES (%s, %s)", q, second)
    wait_until(lambda: sql.column(f"SELECT n FROM {q} ORDER BY n") == [3], what="the purge of the rest")


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_bin"])  # of an older table, of one of now
def test_a_name_that_differs_in_an_accent_is_another_queues(sql, queue, collation):
    q = queue("n INT", archive=1, purge_after=0, poll_interval="'100ms'")
    other = f"{q}_é"
    sql(f"CREATE QUEUE {other} (n INT) WITH (archive = 1, purge_after = 0, poll_interval = '100ms')")
    archived = f"{q}_e"
    sql(f"CREATE QUEUE {archived} (n INT) WITH (archive = 1, purge_after = 0, poll_interval = '100ms')")
    sql(TABLE)
    sql(f"ALTER TABLE queuegate_archive MODIFY queue VARCHAR(64) CHARACTER SET utf8mb4 COLLATE {collation} NOT NULL")
    for name in (other, archived):
        sql(f"INSERT INTO {name} (n) VALUES (1)")
        sql(f"ACK {name} 1")
    sql("INSERT INTO queuegate_archive (queue, archived_until) VALUES (%s, 4000000000000000000)", archived)
    wait_until(lambda: sql.column(f"SELECT id FROM {archived}") == [], what="the purge of what is archived")
    sql(f"INSERT INTO {archived} (n) VALUES (2)")
    sql(f"ACK {archived} 2")
    wait_until(lambda: sql.column(f"SELECT id FROM {archived}") == [], what="one purge more")
    assert sql.column(f"SELECT id FROM {other}") == [1]
    for name in (other, archived):
        sql(f"DROP QUEUE {name}")


def test_the_option_is_taken_back(sql, queue):
    q = queue("n INT", archive=1, purge_after=0, poll_interval="'100ms'")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    sql(f"ACK {q} 1")
    assert sql.column(f"SELECT n FROM {q}") == [1]
    sql(f"ALTER QUEUE {q} SET (archive = 0)")
    wait_until(lambda: sql.column(f"SELECT n FROM {q}") == [], what="the purge")


def test_a_locking_read_waits_for_acks_that_are_not_committed(gate, sql, connect, queue, on_mysql):
    if gate.embedded:
        pytest.skip("one writer at a time: nothing is acked beside it")
    q = queue("n INT", archive=1)
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert sql(f"ACK {q} 1") == 1
    slow, job = connect(), connect()
    slow("BEGIN")
    assert slow(f"ACK {q} 2") == 1
    until = slow.value(f"SELECT MAX(time_acked) FROM {q}")
    counted: list[int] = []
    barrier = f"SELECT COUNT(*) FROM {q} WHERE time_acked > 0 AND time_acked <= {until} LOCK IN SHARE MODE"
    thread = threading.Thread(target=lambda: counted.append(job.value(barrier)))
    thread.start()
    running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT COUNT(*)%LOCK IN SHARE MODE'"
    waited = "TIME > 0" if on_mysql else "TIME_MS > 200"
    wait_until(lambda: sql.value(f"{running} AND {waited}"), what="the job to wait")
    assert counted == []
    slow("COMMIT")
    thread.join(scaled(10))
    assert counted == [2]

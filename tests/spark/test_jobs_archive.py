"""The job `archive`: each acked message once, whatever happens, and nothing said before it is there."""

from __future__ import annotations

import threading

import pytest
from jobs_at_hand import ack, archived, days_ago, enqueue, now_ns, options, said
from servers import Sql, wait_until

from spark_connector.client.connection import Client
from spark_connector.errors import ConnectorError
from spark_connector.jobs.archive import job
from spark_connector.jobs.archive.job import archive
from spark_connector.options import queue_address

PAYLOAD = "payload VARCHAR(40)"


@pytest.fixture
def archive_queue(queue):
    return queue(PAYLOAD, archive=1, purge_after="'1d'")


def test_acked_messages_by_day_and_the_rest_later(spark, gate, sql, archive_queue, tmp_path):
    name, path = archive_queue, tmp_path / "a"
    enqueue(sql, name, 100)
    for day, first in ((3, 1), (2, 11), (1, 31)):
        ack(sql, name, range(first, first + 10), days_ago(sql, day))
    ack(sql, name, range(91, 96))  # within the margin
    done = archive(spark, options(gate, name), str(path), rows_per_file=7)
    assert done.messages == 30
    assert said(sql, name) == done.until < now_ns(sql) - 600e9
    assert archived(spark, path) == [*range(1, 21), *range(31, 41)]
    rows = spark.read.parquet(str(path)).groupBy("day").count().collect()
    assert [row["count"] for row in sorted(rows, key=lambda row: row.day)] == [10, 10, 10]
    again = archive(spark, options(gate, name), str(path), margin_seconds=0)
    assert (again.after, again.messages) == (done.until, 5)
    assert archived(spark, path) == [*range(1, 21), *range(31, 41), *range(91, 96)]


def test_every_value_comes_back_as_it_was(spark, gate, sql, queue, tmp_path):
    columns = (
        "t TEXT, b VARBINARY(20), i INT, u BIGINT UNSIGNED, d DECIMAL(20,5), f DOUBLE, dt DATETIME(6), da DATE, "
        "ts TIMESTAMP(6) NULL, ti TIME, j JSON, bo BIT(1)"
    )
    name = queue(columns, archive=1)
    sql(
        f"INSERT INTO {name} (t, b, i, u, d, f, dt, da, ts, ti, j, bo) VALUES "
        "(%s, %s, -5, 9, 12345.67891, 0.1, '2020-02-29 23:59:59.999999', '1969-12-31', '2020-01-01 00:00:00', "
        "'-12:00:01', '{\"a\": 1}', 1), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "é 'x' \\ \n 🙂", b"\x00\xff",
    )  # fmt: skip
    sql(f"ACK {name} 1, 2")
    live = spark.read.format("queuegate").options(**options(gate, name), includeAcked="true").load()
    before = sorted(map(tuple, live.collect()))
    assert archive(spark, options(gate, name), str(tmp_path / "a"), margin_seconds=0).messages == 2
    after = spark.read.parquet(str(tmp_path / "a")).select(*live.columns).collect()
    assert sorted(map(tuple, after)) == before


@pytest.mark.parametrize("kind", ["BINARY(16)", "VARCHAR(36) CHARACTER SET utf8mb4"])
def test_ids_of_any_type(spark, gate, sql, queue, tmp_path, kind):
    name = queue(f"id {kind} PRIMARY KEY, {PAYLOAD}", archive=1)
    ids = [bytes([n]) * 16 for n in (0, 7, 255)] if kind.startswith("BIN") else ["a", "B", "é 🙂"]
    for id_ in ids:
        sql(f"INSERT INTO {name} (id, payload) VALUES (%s, 'x')", id_)
    sql(f"UPDATE {name} SET time_acked = {now_ns(sql)}, time_next = NULL")
    assert archive(spark, options(gate, name), str(tmp_path / "a"), margin_seconds=0).messages == 3
    read = [row.id for row in spark.read.parquet(str(tmp_path / "a")).collect()]
    assert sorted(bytes(i) if kind.startswith("BIN") else i for i in read) == sorted(ids)


def test_a_partly_purged_day_keeps_what_was_archived_of_it(spark, new_gate, tmp_path):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (payload VARCHAR(40)) WITH (archive = 1, purge_after = '100ms', poll_interval = '100ms')")
    path = str(tmp_path / "a")
    enqueue(sql, "q", 20)
    ack(sql, "q", range(1, 11))
    assert archive(spark, options(gate, "q"), path, margin_seconds=0).messages == 10
    wait_until(lambda: sql.value("SELECT COUNT(*) FROM q WHERE time_acked IS NOT NULL") == 0, what="the purge")
    ack(sql, "q", range(11, 16))
    assert archive(spark, options(gate, "q"), path, margin_seconds=0).messages == 5
    assert archived(spark, path) == list(range(1, 16))
    wait_until(lambda: sql.value("SELECT COUNT(*) FROM q WHERE time_acked IS NOT NULL") == 0, what="the purge")
    assert archive(spark, options(gate, "q"), path, margin_seconds=0).messages == 0
    assert archived(spark, path) == list(range(1, 16))
    sql.close()


def test_an_open_transaction_that_acks_is_waited_for(spark, gate, sql, connect, archive_queue, tmp_path, place):
    """An ack of before the cut-off that commits after it is archived by the same run, not lost."""
    name = archive_queue
    enqueue(sql, name, 3)
    ack(sql, name, [1])
    other = connect()
    other("BEGIN")
    other(f"UPDATE {name} SET time_acked = {now_ns(sql)}, time_next = NULL WHERE id = 2")
    if place == "embedded":
        other("COMMIT")  # one writer: nothing to wait for, docs/archive.md says so
        assert archive(spark, options(gate, name), str(tmp_path / "a"), margin_seconds=0).messages == 2
        return
    found = {}
    runner = threading.Thread(
        target=lambda: found.update(done=archive(spark, options(gate, name), str(tmp_path / "a"), margin_seconds=0))
    )
    runner.start()
    wait_until(lambda: waits(sql), what="the job to wait for the transaction")
    other("COMMIT")
    runner.join(60)
    assert found["done"].messages == 2
    assert archived(spark, tmp_path / "a") == [1, 2]


def waits(sql):
    return any("LOCK IN SHARE MODE" in str(row) for row in sql.rows("SHOW FULL PROCESSLIST"))


def refused(call, *words):
    with pytest.raises(ConnectorError) as raised:
        call()
    for word in words:
        assert word in str(raised.value)


def test_a_queue_that_is_purged_without_waiting_is_refused(spark, gate, queue, tmp_path):
    name = queue(PAYLOAD)
    refused(lambda: archive(spark, options(gate, name), str(tmp_path / "a")), "ALTER QUEUE", "SET (archive = 1)")
    assert not (tmp_path / "a").exists()


def test_a_folder_is_one_queues(spark, gate, sql, queue, archive_queue, tmp_path):
    archive(spark, options(gate, archive_queue), str(tmp_path / "a"), margin_seconds=0)
    other = queue(PAYLOAD, archive=1)
    refused(lambda: archive(spark, options(gate, other), str(tmp_path / "a")), archive_queue, "folder of its own")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").write_text("mine")
    refused(lambda: archive(spark, options(gate, other), str(tmp_path / "b")), "letter.txt")
    (tmp_path / "file").write_text("")
    refused(lambda: archive(spark, options(gate, other), str(tmp_path / "file" / "x")), "cannot write to")


def test_a_second_job_at_the_same_time_is_refused(spark, gate, archive_queue, tmp_path):
    at = queue_address(options(gate, archive_queue))
    with Client(at.address) as client:
        first = job.ArchivedQueue(client, archive_queue)
        first.check_lock()
        refused(lambda: archive(spark, options(gate, archive_queue), str(tmp_path / "a")), "another job archives")
    archive(spark, options(gate, archive_queue), str(tmp_path / "a"))


def test_a_column_that_would_be_hidden_is_refused(spark, gate, queue, tmp_path):
    name = queue("day INT", archive=1)
    refused(lambda: archive(spark, options(gate, name), str(tmp_path / "a")), "column day")


def test_a_column_more_is_read_and_one_of_another_type_refused(spark, gate, sql, archive_queue, tmp_path):
    name, path = archive_queue, str(tmp_path / "a")
    enqueue(sql, name, 2)
    ack(sql, name, [1])
    archive(spark, options(gate, name), path, margin_seconds=0)
    sql(f"ALTER TABLE {name} ADD COLUMN more INT DEFAULT 7")
    ack(sql, name, [2])
    archive(spark, options(gate, name), path, margin_seconds=0)
    rows = spark.read.option("mergeSchema", "true").parquet(path).orderBy("id").select("id", "more").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, 7)]
    sql(f"ALTER TABLE {name} MODIFY COLUMN more VARCHAR(10)")
    enqueue(sql, name, 1, 3)
    ack(sql, name, [3])
    before = said(sql, name)
    refused(lambda: archive(spark, options(gate, name), path, margin_seconds=0), "column more", "new folder")
    assert said(sql, name) == before


def test_messages_deleted_under_the_job_archive_nothing(spark, gate, sql, archive_queue, tmp_path, monkeypatch):
    name, path = archive_queue, tmp_path / "a"
    enqueue(sql, name, 10)
    ack(sql, name, range(1, 11))
    counted = job._count

    def count_and_lose(*given):
        found = counted(*given)
        sql(f"DELETE FROM {name} WHERE id = 5")
        return found

    monkeypatch.setattr(job, "_count", count_and_lose)
    refused(lambda: archive(spark, options(gate, name), str(path), margin_seconds=0), "10 messages were counted and 9")
    assert said(sql, name) == 0
    assert not list(path.glob("interval=*"))
    assert not list(path.glob("_staging/*"))
    monkeypatch.undo()
    assert archive(spark, options(gate, name), str(path), margin_seconds=0).messages == 9


def test_values_written_otherwise_than_read_archive_nothing(spark, gate, sql, archive_queue, tmp_path, monkeypatch):
    name, path = archive_queue, tmp_path / "a"
    enqueue(sql, name, 10)
    ack(sql, name, range(1, 11))
    monkeypatch.setattr(job, "_write", lambda *given, write=job._write: write(*given) + 1)
    refused(lambda: archive(spark, options(gate, name), str(path), margin_seconds=0), "reads otherwise")
    assert said(sql, name) == 0
    assert not list(path.glob("interval=*"))


def test_an_archive_that_somebody_else_counts_is_not_doubled(spark, gate, sql, archive_queue, tmp_path):
    name, path = archive_queue, str(tmp_path / "a")
    enqueue(sql, name, 10)
    ack(sql, name, range(1, 11))
    archive(spark, options(gate, name), path, margin_seconds=0)
    sql("UPDATE queuegate_archive SET archived_until = 5 WHERE queue = %s", name)
    refused(lambda: archive(spark, options(gate, name), path, margin_seconds=0), "archived_until was changed")
    assert archived(spark, path) == list(range(1, 11))


def test_many_messages_are_archived_interval_by_interval(spark, gate, sql, archive_queue, tmp_path):
    name, path = archive_queue, tmp_path / "a"
    enqueue(sql, name, 60)
    for hour in range(6):
        ack(sql, name, range(hour * 10 + 1, hour * 10 + 11), days_ago(sql, 1 - hour / 24))
    done = archive(spark, options(gate, name), str(path), margin_seconds=0, rows_per_file=10, rows_per_interval=20)
    assert done.messages == 60
    assert len(list(path.glob("interval=*"))) == 3
    assert archived(spark, path) == list(range(1, 61))

"""The jobs `replay` and `enqueue`: new messages, all of them or none, and under one name only once."""

from __future__ import annotations

import json

import pytest
from jobs_at_hand import ack, days_ago, enqueue, options

from spark_connector.errors import ConnectorError
from spark_connector.jobs.archive.job import archive
from spark_connector.jobs.commands import enqueue as enqueue_job
from spark_connector.jobs.commands import read
from spark_connector.jobs.failures import one_line
from spark_connector.jobs.replay import Chosen, preview, replay


@pytest.fixture
def archived_days(spark, gate, sql, queue, tmp_path):
    """A queue and its archive: messages 1 to 30, acked on three days, ten on each, the last ones today."""
    name = queue("payload VARCHAR(40), total DECIMAL(10,2) DEFAULT 1.50", archive=1)
    enqueue(sql, name, 40)
    for days in (2, 1, 0):
        first = 21 - 10 * days
        ack(sql, name, range(first, first + 10), days_ago(sql, days))
    archive(spark, options(gate, name), str(tmp_path / "a"), margin_seconds=0)
    return name, str(tmp_path / "a")


def payloads(sql, name):
    return sorted(int(p) for p in sql.column(f"SELECT payload FROM {name} WHERE time_acked IS NULL"))


def test_new_messages_once_for_each_name(spark, gate, sql, queue, archived_days):
    _, path = archived_days
    target = queue("payload VARCHAR(40), total DECIMAL(10,2)")
    to = options(gate, target)
    done = replay(spark, to, path, "monday")
    assert (done.messages, done.repeated) == (30, False)
    assert payloads(sql, target) == list(range(1, 31))
    assert sql.column(f"SELECT DISTINCT state FROM {target}") == ["to_be_fired"]
    again = replay(spark, to, path, "monday", chosen=Chosen(where="id < 3"))
    assert (again.messages, again.repeated) == (30, True)
    assert len(payloads(sql, target)) == 30
    assert replay(spark, to, path, "tuesday", chosen=Chosen(where="id < 3")).messages == 2
    assert payloads(sql, target) == sorted([1, 2, *range(1, 31)])


def test_nothing_to_write_is_a_run_like_any_other(spark, gate, sql, queue, archived_days):
    _, path = archived_days
    to = options(gate, queue("payload VARCHAR(40), total DECIMAL(10,2)"))
    for repeated in (False, True):
        done = replay(spark, to, path, "none", chosen=Chosen(where="id < 0"))
        assert (done.messages, done.repeated) == (0, repeated)
    rows = spark.createDataFrame([], "payload STRING")
    assert enqueue_job(spark, to, rows).messages == 0


def test_days_and_a_dry_run(spark, gate, sql, queue, archived_days):
    _, path = archived_days
    target = queue("payload VARCHAR(40), total DECIMAL(10,2)")
    to = options(gate, target)
    days = [day for day, _ in preview(spark, to, path).days]
    assert len(days) == 3
    chosen = Chosen(from_day=days[1], to_day=days[1], where="payload > 0")
    found = preview(spark, to, path, chosen)
    assert (found.days, found.messages) == (((days[1], 10),), 10)
    assert found.columns == ("priority", "payload", "total")
    assert payloads(sql, target) == []
    assert replay(spark, to, path, "one day", chosen=chosen).messages == 10
    assert payloads(sql, target) == list(range(11, 21))


def test_into_the_queue_itself_with_a_unique_key(spark, gate, sql, queue, tmp_path):
    name = queue("payload VARCHAR(40), order_no VARCHAR(40) UNIQUE", archive=1)
    for n in range(1, 6):
        sql(f"INSERT INTO {name} (payload, order_no) VALUES ('{n}', 'no-{n}')")
    ack(sql, name, range(1, 6))
    path = str(tmp_path / "a")
    archive(spark, options(gate, name), path, margin_seconds=0)
    assert replay(spark, options(gate, name), path, "r1").messages == 5
    keys = sql.column(f"SELECT order_no FROM {name} WHERE time_acked IS NULL ORDER BY order_no")
    assert keys == [f"replay-r1-{n}" for n in range(1, 6)]
    sql("DELETE FROM queuegate_spark_log")  # the name is forgotten: the key still says that they are there
    assert replay(spark, options(gate, name), path, "r1").messages == 0
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 10


def test_columns_that_the_queue_has_not(spark, gate, sql, queue, archived_days):
    _, path = archived_days
    target = queue("payload VARCHAR(40)")
    refused(lambda: replay(spark, options(gate, target), path, "x"), "total", "--drop-missing")
    assert payloads(sql, target) == []
    assert replay(spark, options(gate, target), path, "x", drop_missing=True).messages == 30
    made = replay(spark, options(gate, target), path, "y", select=["concat(id, '000') AS payload"])
    assert made.messages == 30
    assert max(payloads(sql, target)) == 30_000


def refused(call, *words):
    with pytest.raises(Exception) as raised:
        call()
    for word in words:
        assert word in one_line(raised.value)


def test_what_is_no_archive(spark, gate, queue, tmp_path):
    target = queue("payload VARCHAR(40)")
    refused(lambda: replay(spark, options(gate, target), str(tmp_path / "none"), "x"), "does not exist")
    refused(lambda: replay(spark, options(gate, target), str(tmp_path), ""), "")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "part-0.parquet").write_bytes(b"not at all")
    refused(lambda: replay(spark, options(gate, target), str(tmp_path / "b"), "x"), "is not a Parquet file")


def test_parquet_that_no_job_has_written(spark, gate, sql, queue, tmp_path):
    target = queue("payload VARCHAR(40)")
    spark.range(5).selectExpr("id", "cast(id AS string) AS payload").write.parquet(str(tmp_path / "p"))
    assert replay(spark, options(gate, target), str(tmp_path / "p"), "x").messages == 5
    assert payloads(sql, target) == [0, 1, 2, 3, 4]
    refused(lambda: replay(spark, options(gate, target), str(tmp_path / "p"), "y", chosen=Chosen("2026-01-01")), "day")


def test_a_parquet_file_that_is_damaged_half_way_enqueues_nothing(spark, gate, sql, queue, tmp_path):
    target, path = queue("payload VARCHAR(40)"), tmp_path / "p"
    spark.range(0, 4000, 1, 4).selectExpr("cast(id AS string) AS payload").write.parquet(str(path))
    damaged = sorted(path.glob("part-*.parquet"))[-1]
    damaged.write_bytes(damaged.read_bytes()[:-20])
    for leftover in path.glob(".*.crc"):
        leftover.unlink()
    refused(lambda: enqueue_job(spark, options(gate, target), read(spark, str(path), "parquet", {})), damaged.name)
    assert sql.value(f"SELECT COUNT(*) FROM {target}") == 0


def test_files_of_each_format(spark, gate, sql, queue, tmp_path):
    target = queue("payload VARCHAR(40), cents INT")
    (tmp_path / "a.csv").write_text("payload,total\n1,1.50\n2,2.25\n")
    (tmp_path / "b.json").write_text('{"payload": "3", "cents": 5}\n')
    rows = read(spark, str(tmp_path / "a.csv"), "csv", {"header": "true"})
    select = ["payload", "cast(cast(total AS decimal(10,2)) * 100 AS int) AS cents"]
    assert enqueue_job(spark, options(gate, target), rows, select=select).messages == 2
    rows = read(spark, str(tmp_path / "b.json"), "json", {})
    assert enqueue_job(spark, options(gate, target), rows, select=["payload", "int(cents) AS cents"]).messages == 1
    assert sql.rows(f"SELECT payload, cents FROM {target} ORDER BY payload") == [("1", 150), ("2", 225), ("3", 5)]


def test_a_malformed_line_enqueues_nothing_unless_it_is_said(spark, gate, sql, queue, tmp_path):
    target = queue("payload VARCHAR(40)")
    lines = [json.dumps({"payload": str(n)}) for n in range(200)]
    (tmp_path / "b.json").write_text("\n".join([*lines, '{"payload": ', *lines]))
    path, schema = str(tmp_path / "b.json"), {"primitivesAsString": "true"}
    refused(lambda: enqueue_job(spark, options(gate, target), read(spark, path, "json", schema)), "MALFORMED")
    assert sql.value(f"SELECT COUNT(*) FROM {target}") == 0
    rows = read(spark, path, "json", {**schema, "mode": "DROPMALFORMED"})
    assert enqueue_job(spark, options(gate, target), rows).messages == 400


def test_a_key_passes_over_what_is_there_and_a_name_what_was_done(spark, gate, sql, queue):
    target = queue("payload VARCHAR(40) UNIQUE")
    rows = spark.range(100).selectExpr("cast(id AS string) AS payload")
    to = options(gate, target)
    assert enqueue_job(spark, to, rows, key_column="payload").messages == 100
    assert enqueue_job(spark, to, rows.limit(30), key_column="payload").messages == 0
    more = spark.range(100, 110).selectExpr("cast(id AS string) AS payload")
    assert enqueue_job(spark, to, more, run="r").messages == 10
    assert enqueue_job(spark, to, more, run="r").repeated
    with pytest.raises(ConnectorError):
        enqueue_job(spark, to, more, run="x" * 101)
    assert sql.value(f"SELECT COUNT(*) FROM {target}") == 110

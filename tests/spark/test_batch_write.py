"""df.write.format("queuegate"): all rows of a DataFrame become messages, or none."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal

import pytest


@pytest.fixture
def write(spark, gate):
    """Appends a DataFrame to a queue; keyword arguments are options."""
    from spark_connector.datasource import QueuegateDataSource

    spark.dataSource.register(QueuegateDataSource)

    def append(frame, queue, mode="append", **options):
        at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": queue}
        frame.write.format("queuegate").options(**at, **options).mode(mode).save()

    return append


@pytest.mark.parametrize("mode", ["staged", "direct"])
def test_rows_become_messages(spark, write, sql, queue, stream, mode):
    name = queue("n BIGINT, payload VARCHAR(20)")
    receiver = stream(f"SELECT n, payload FROM STREAM {name}")
    write(spark.range(1000, numPartitions=3).selectExpr("id AS N", "concat('m', id) AS Payload"), name, writeMode=mode)
    assert sorted(receiver.wait(1000)) == [(n, f"m{n}") for n in range(1000)]
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 1000


def test_writes_of_two_threads_at_once(spark, write, sql, queue):
    """Spark finds formats in Python by the thread's active session, which a new thread has to be given."""
    name = queue("n BIGINT UNIQUE")

    def job(first):
        spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
        write(spark.range(first, first + 1000, numPartitions=2).withColumnRenamed("id", "n"), name)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(job, (0, 1000)))
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 2000


def test_a_job_that_fails_half_way_shows_nothing(spark, write, sql, queue):
    name = queue("n BIGINT, payload VARCHAR(20)")
    rows = spark.range(4000, numPartitions=4).selectExpr(
        "id AS n", "if(id = 3999, raise_error('the last row')::string, 'm') AS payload"
    )
    with pytest.raises(Exception, match="the last row"):
        write(rows, name)
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


@pytest.fixture
def new_york(spark):
    """A session in another time zone than UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def test_sparks_types_arrive_as_they_are(spark, write, sql, queue, new_york):
    name = queue(
        "i SMALLINT, b BIT(1), d DOUBLE, f FLOAT, n DECIMAL(10,3), s VARCHAR(20), x VARBINARY(9), t TIMESTAMP(6) NULL, "
        "l DATETIME(6), y DATE, j JSON, e ENUM('on','off')"
    )
    frame = spark.sql("""
        SELECT 7Y AS i, true AS b, 0.1D AS d, 0.5F AS f, 12.34BD AS n, 'it''s \\\\ 日本' AS s, X'00FF' AS x,
          TIMESTAMP'2026-07-01 12:00:00.000001' AS t, TIMESTAMP_NTZ'2026-07-01 12:00:00' AS l, DATE'2026-07-01' AS y,
          to_json(named_struct('a', array(1, 2))) AS j, 'off' AS e, TIMESTAMP'2100-01-01 00:00:00' AS time_scheduled
        UNION ALL SELECT null, null, null, null, null, null, null, null, null, null, null, null, current_timestamp()
    """)
    write(frame.coalesce(1), name)
    sql("SET time_zone = '+00:00'")
    first, second = sql.rows(f"SELECT i, b, d, f, n, s, x, t, l, y, j, e, time_scheduled FROM {name} ORDER BY id")
    assert first == (
        7, b"\1", 0.1, 0.5, Decimal("12.340"), "it's \\ 日本", b"\0\xff", datetime(2026, 7, 1, 16, 0, 0, 1),
        datetime(2026, 7, 1, 12), date(2026, 7, 1), '{"a":[1,2]}', "off", 4_102_462_800 * 10**9,
    )  # fmt: skip
    assert second[:-1] == (None,) * 12


def test_what_cannot_be_written_is_told_in_one_line(spark, write, queue):
    name = queue("payload VARCHAR(3)")
    frame = spark.range(1).selectExpr("named_struct('a', 1) AS payload")
    with pytest.raises(Exception, match=r"payload is struct<a:int> in the DataFrame .* make it text with to_json\(\)"):
        write(frame, name)
    with pytest.raises(Exception, match=r"no column value: drop it, or rename it .*withColumnRenamed"):
        write(spark.sql("SELECT 'a' AS value"), name)
    with pytest.raises(Exception, match="cannot be overwritten"):
        write(spark.sql("SELECT 'a' AS payload"), name, mode="overwrite")
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        write(spark.sql("SELECT 'a' AS payload"), name, mode="errorifexists")
    with pytest.raises(Exception, match=r"column payload \(varchar\(3\)\) is too long in a row; nothing of this write"):
        write(spark.sql("SELECT 'abcd' AS payload"), name)


def test_a_job_that_is_run_again_as_the_same_version_adds_nothing(spark, write, sql, queue):
    name = queue("n BIGINT")
    for version in (1, 1, 2):
        write(spark.range(100, numPartitions=2).selectExpr("id AS n"), name, txnAppId="nightly", txnVersion=version)
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 200


# In the session that the tests share a task has one attempt; a session has as many as it is made with.
TRIED_AGAIN = """
import sys
from pyspark import TaskContext
from pyspark.sql import SparkSession

port, database, queue = sys.argv[1:]
spark = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
spark = spark.config("spark.sql.execution.arrow.maxRecordsPerBatch", 50).getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def breaks(batches):
    for place, batch in enumerate(batches):
        if place == 2 and TaskContext.get().attemptNumber() < 2:
            raise RuntimeError("not yet")
        yield batch

frame = spark.range(400, numPartitions=2).selectExpr("id AS n").mapInArrow(breaks, "n BIGINT")
at = {"host": "127.0.0.1", "port": port, "user": "root", "database": database}
frame.write.format("queuegate").options(**at, queue=queue, batchsize=10).mode("append").save()
"""


def test_a_task_that_is_tried_again_is_written_once(spark, gate, sql, queue):
    name = queue("n BIGINT")
    ran = subprocess.run(
        [sys.executable, "-c", TRIED_AGAIN, str(gate.port), gate.database, name],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert sorted(sql.column(f"SELECT n FROM {name}")) == list(range(400))

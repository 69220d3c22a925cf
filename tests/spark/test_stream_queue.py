"""mode=queue with Spark: from a queue into files, acked when Spark says that a micro-batch is done."""

from __future__ import annotations

import pytest
from servers import Sql

END_SECONDS = 60


@pytest.fixture
def stream(spark, gate, tmp_path):
    """Makes a streaming DataFrame of a queue."""
    from spark_connector.datasource import QueuegateDataSource

    spark.dataSource.register(QueuegateDataSource)

    def make(queue: str, **options: object):
        at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": queue}
        return spark.readStream.format("queuegate").options(**at, **options).load()

    return make


def to_files(frame, folder):
    """A writer into Parquet files, with its checkpoint beside them."""
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )


def acked(sql: Sql, queue: str) -> int:
    return int(sql.value(f"SELECT COUNT(*) FROM {queue} WHERE state = 'acked'"))


def test_available_now_takes_all_there_is_and_leaves_all_acked(spark, sql, queue, stream, tmp_path):
    name = queue()
    sql(f"INSERT INTO {name} (payload) VALUES {', '.join(f'({n!r})' for n in map(str, range(250)))}")
    frame = stream(name, maxMessagesPerTrigger=100)
    query = to_files(frame, tmp_path).trigger(availableNow=True).start()
    assert query.awaitTermination(END_SECONDS)
    assert acked(sql, name) == 250
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(int(row.payload) for row in rows) == list(range(250))
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [100, 100, 50]

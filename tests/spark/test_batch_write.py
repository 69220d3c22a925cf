"""df.write.format("queuegate"): all rows of a DataFrame become messages, or none."""

from __future__ import annotations

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


def test_a_job_that_fails_half_way_shows_nothing(spark, write, sql, queue):
    name = queue("n BIGINT, payload VARCHAR(20)")
    rows = spark.range(4000, numPartitions=4).selectExpr(
        "id AS n", "if(id = 3999, raise_error('the last row')::string, 'm') AS payload"
    )
    with pytest.raises(Exception, match="the last row"):
        write(rows, name)
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0

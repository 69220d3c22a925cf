"""spark.read.format("queuegate") on both backends."""

from __future__ import annotations


def reader(spark, gate, name, **options):
    """A reader of a queue of this gate."""
    at = {"host": "127.0.0.1", "port": str(gate.port), "user": "root", "database": gate.database, "queue": name}
    spark.dataSource.register(source())
    return spark.read.format("queuegate").options(**{**at, **{key: str(value) for key, value in options.items()}})


def source():
    from spark_connector.datasource import QueuegateDataSource

    return QueuegateDataSource


def test_a_queue_is_read_and_left_as_it_was(spark, gate, sql, queue):
    name = queue("payload VARCHAR(20)")
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b'), (NULL), ('d')")
    sql(f"ACK {name} 4")
    rows = reader(spark, gate, name, numPartitions=2).load().orderBy("id").collect()
    assert [(row.id, row.payload, row.epoch, row.state) for row in rows] == [
        (1, "a", 0, "to_be_fired"), (2, "b", 0, "to_be_fired"), (3, None, 0, "to_be_fired"),
    ]  # fmt: skip
    assert sql.column(f"SELECT state FROM {name} ORDER BY id") == [*["to_be_fired"] * 3, "acked"]
    assert reader(spark, gate, name, includeAcked="true").load().count() == 4

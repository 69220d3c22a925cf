"""spark.read.format("queuegate") on both backends."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

EVERY_TYPE = """a TINYINT, b SMALLINT UNSIGNED, c INT, d BIGINT UNSIGNED, e DECIMAL(12,3), f DOUBLE, g BIT(1),
    h CHAR(4), i VARCHAR(40), j TEXT, k DATE, l DATETIME(6), m TIMESTAMP(6) NULL, n VARBINARY(9), o BLOB"""
VALUES = [
    "1, 65535, -5, 7, -1.250, 0.1, b'1', 'ab', 'é🦄\\n', '', '2024-02-29', '2024-02-29 23:59:59.123456', "
    "'2024-06-01 12:00:00.5', X'00ff', X'fb'",
    "NULL" + ", NULL" * 14,
]


def at(gate, name, **options):
    """Options of a queue of this gate."""
    there = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": name}
    return {key: str(value) for key, value in {**there, **options}.items()}


@pytest.fixture
def queuegate(spark):
    from spark_connector.datasource import QueuegateDataSource

    spark.dataSource.register(QueuegateDataSource)
    return lambda gate, name, **options: spark.read.format("queuegate").options(**at(gate, name, **options))


def last_line(error):
    return [line for line in str(error.value).splitlines() if line.startswith("spark_connector.")][-1]


def test_a_queue_is_read_and_left_as_it_was(queuegate, gate, sql, queue):
    name = queue("payload VARCHAR(20)")
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b'), (NULL), ('d')")
    sql(f"ACK {name} 4")
    rows = queuegate(gate, name, numPartitions=2).load().orderBy("id").collect()
    assert [(row.id, row.payload, row.epoch, row.state) for row in rows] == [
        (1, "a", 0, "to_be_fired"), (2, "b", 0, "to_be_fired"), (3, None, 0, "to_be_fired"),
    ]  # fmt: skip
    assert sql.column(f"SELECT state FROM {name} ORDER BY id") == [*["to_be_fired"] * 3, "acked"]
    assert queuegate(gate, name, includeAcked="true").load().count() == 4


def test_types_and_values_are_those_of_jdbc(spark, queuegate, gate, sql, queue):
    name = queue(EVERY_TYPE)
    sql("SET time_zone = '+00:00'")
    for values in VALUES:
        sql(f"INSERT INTO {name} ({', '.join('abcdefghijklmno')}) VALUES ({values})")
    mine = queuegate(gate, name).load().orderBy("id")
    url = f"jdbc:mysql://127.0.0.1:{gate.port}/{gate.database}?connectionTimeZone=UTC"
    options = {"url": url, "user": "root", "driver": "com.mysql.cj.jdbc.Driver", "preferTimestampNTZ": "true"}
    theirs = spark.read.format("jdbc").options(**options, dbtable=name).load().orderBy("id")
    other = {field.name: field.dataType for field in theirs.schema}
    differ = {field.name for field in mine.schema if field.dataType != other[field.name]}
    assert differ <= {"priority", "a", "l", "m"}  # TINYINT is INT there; how the two kinds of time are told apart
    for mine_row, their_row in zip(mine.collect(), theirs.collect(), strict=True):
        for column in set(other) - {"h", "l", "m"}:  # h: Spark pads what JDBC calls CHAR
            assert mine_row[column] == their_row[column], column
    assert mine.selectExpr("CAST(l AS STRING)", "CAST(m AS STRING)").first() == (
        "2024-02-29 23:59:59.123456", "2024-06-01 12:00:00.5",
    )  # fmt: skip


def test_the_schema_given_is_the_projection(queuegate, gate, sql, queue):
    name = queue("payload VARCHAR(20), n INT")
    sql(f"INSERT INTO {name} (payload, n) VALUES ('a', 5)")
    frame = queuegate(gate, name).schema("N BIGINT, ID BIGINT").load()
    assert [row.asDict() for row in frame.collect()] == [{"N": 5, "ID": 1}]
    with pytest.raises(Exception, match="as smallint it could lose something") as caught:
        queuegate(gate, name).schema("n SMALLINT").load().collect()
    assert last_line(caught).startswith("spark_connector.errors.SchemaError: column n of queue")


def test_refusals_end_in_one_clear_line(queuegate, gate, queue):
    name = queue()
    with pytest.raises(Exception, match="includeAcked") as caught:
        queuegate(gate, name, includeAked="true").load()
    assert last_line(caught).endswith("unknown option 'includeaked' of spark.read or spark.readStream: "
                                      "did you mean includeAcked?")  # fmt: skip
    with pytest.raises(Exception, match="is not let in") as caught:
        queuegate(gate, name, user="nobody", password="secret").load()
    assert "secret" not in str(caught.value)
    with pytest.raises(Exception, match="there is no queue 'nope'"):
        queuegate(gate, "nope").load()
    with pytest.raises(Exception, match=r"it belongs to spark.readStream") as caught:
        queuegate(gate, name, leaseSeconds=5).load().collect()


def test_secrets_are_not_in_plans(queuegate, gate, sql, queue, tmp_path, capfd):
    name = queue()
    file = tmp_path / "password"
    file.write_text("\n")
    frame = queuegate(gate, name, passwordFile=file).load()
    assert frame.count() == 0
    shown = queuegate(gate, name, password="").load()
    url = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
    by_url = shown.sparkSession.read.format("queuegate").options(url=url, queue=name, passwordFile=file).load()
    for each in (frame, shown, by_url):
        text = each._jdf.queryExecution().toString()
        assert "password" not in text.lower() and "mysql://" not in text


def test_parts_are_read_by_tasks(spark, queuegate, gate, sql, queue):
    name = queue("n INT")
    sql(f"INSERT INTO {name} (n) VALUES " + ", ".join(f"({n})" for n in range(1000)))
    frame = queuegate(gate, name, numPartitions=4).load()
    assert frame.rdd.getNumPartitions() == 4
    sizes = frame.groupBy(F.spark_partition_id().alias("part")).count().collect()
    assert sorted(row["count"] for row in sizes) == [250] * 4
    assert frame.agg(F.sum("n")).first()[0] == sum(range(1000))
    assert len(frame.limit(3).collect()) == 3

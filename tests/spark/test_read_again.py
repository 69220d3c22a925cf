"""A DataFrame or a view that is read twice: each action reads what is there."""

from __future__ import annotations

import pytest


@pytest.fixture
def load(spark, gate):
    from spark_connector.datasource import QueuegateDataSource

    spark.dataSource.register(QueuegateDataSource)
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    return lambda name, **more: spark.read.format("queuegate").options(**at, queue=name, **more).load()


def insert(sql, name, count):
    sql(f"INSERT INTO {name} (payload) VALUES {', '.join(['(%s)'] * count)}", *map(str, range(count)))


@pytest.mark.parametrize("way", ["frame", "view", "sql view", "rows", "condition", "rdd"])
def test_each_action_reads_what_is_there(spark, gate, sql, queue, load, way):
    name = queue()
    frame = load(name, numPartitions=2)
    if way == "view":
        frame.createOrReplaceTempView("again")
    if way == "sql view":
        at = f"host '127.0.0.1', port '{gate.port}', user 'root', database '{gate.database}', queue '{name}'"
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW again USING queuegate OPTIONS ({at})")
    ways = {
        "frame": frame.count,
        "rows": lambda: len(frame.collect()),
        "condition": lambda: frame.where("id > 0").count(),
        "rdd": lambda: frame.rdd.map(lambda row: row.id).count(),
    }
    count = ways.get(way, lambda: spark.sql("SELECT COUNT(*) FROM again").first()[0])
    insert(sql, name, 3)
    assert count() == 3
    insert(sql, name, 2)
    assert count() == 5
    sql(f"ACK {name} 1, 2, 3")
    assert count() == 2


def test_both_sides_of_a_union_and_what_comes_after_a_condition(sql, queue, load):
    name = queue()
    insert(sql, name, 4)
    frame = load(name)
    one = frame.where("id = 1").union(frame.where("id = 2"))
    assert sorted(row.id for row in one.collect()) == [1, 2]
    assert (frame.where("id = 1").count(), frame.count()) == (1, 4)


def test_columns_and_a_condition_of_the_options(sql, queue, load):
    name = queue("payload TEXT, cents INT")
    sql(f"INSERT INTO {name} (payload, cents) VALUES ('a', 1), ('b', 2), ('c', 3)")
    frame = load(name, columns="id, cents", where="cents > 1 OR payload = 'x'")
    assert frame.columns == ["id", "cents"]
    assert sorted(tuple(row) for row in frame.collect()) == [(2, 2), (3, 3)]
    with pytest.raises(Exception, match=r"spark_connector.errors.OptionError: option where is one condition"):
        load(name, where="nope > 1")


def test_what_fails_at_a_commit_is_in_one_line_of_the_connectors_own(spark, gate, queue, load, capfd):
    name = queue("n BIGINT")
    load(name)
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": name}
    write = spark.range(5).selectExpr("id AS n").write.format("queuegate").options(**at, txnAppId="a").mode("append")
    write.options(txnVersion=2).save()
    with pytest.raises(Exception) as caught:
        write.options(txnVersion=1).save()
    line = "spark_connector.errors.WriteError: queue"
    print("IN THE ERROR", line in str(caught.value), "IN THE LOG", line in capfd.readouterr().err)
    assert line in str(caught.value)

"""The session that all tests of this folder share: workers run this interpreter and can import the repository."""

from __future__ import annotations

import sys


def test_workers_are_this_interpreter_with_the_repository_on_its_path(spark):
    def seen(_):
        import spark_connector

        return [(sys.executable, spark_connector.__name__)]

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(seen).collect() == [(sys.executable, "spark_connector")]


def test_a_gate_serves_jdbc(spark, gate, sql, queue):
    name = queue("payload VARCHAR(20)")
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b')")
    url = f"jdbc:mysql://127.0.0.1:{gate.port}/{gate.database}"
    reader = spark.read.format("jdbc").options(url=url, user="root", driver="com.mysql.cj.jdbc.Driver", dbtable=name)
    assert [row.payload for row in reader.load().orderBy("id").collect()] == ["a", "b"]

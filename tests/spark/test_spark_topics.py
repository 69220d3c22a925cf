"""Topics with Spark: as a log, by ranges, and as a member of a consumer group."""

from __future__ import annotations

import pytest
from servers import wait_until
from streams import END_SECONDS, Files, insert, numbers, reading, reported


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


def at(gate, **options):
    place = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    return {**place, **options}


def test_every_query_has_everything(spark, gate, sql, topic, files):
    name = topic()
    insert(sql, name, *range(250))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 100, "minPartitions": 3}
    frame = reading(spark, gate)(name, mode="tail", **options)
    query = files.take_all(frame)
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [100, 100, 50]
    insert(sql, name, *range(250, 260))
    with files.running(frame) as query:
        wait_until(lambda: len(files.payloads()) == 260, END_SECONDS, "what came meanwhile")
        wait_until(lambda: reported(query)["id"] == 260, END_SECONDS, "the place in the progress")
    assert files.payloads() == numbers(range(260))


def test_a_batch_of_a_range_of_ids(spark, gate, sql, topic):
    name = topic()
    insert(sql, name, *range(20))
    reading(spark, gate)
    reader = spark.read.format("queuegate").options(**at(gate, topic=name, startingOffsets=5, endingOffsets=8))
    assert sorted(row.id for row in reader.load().collect()) == [5, 6, 7]


def test_a_member_of_a_group_acks_what_is_in_the_sink(spark, gate, sql, topic, files):
    name = topic(billing="START AT EARLIEST")
    insert(sql, name, *range(250))
    frame = reading(spark, gate)(name, group="billing", maxOffsetsPerTrigger=100)
    query = files.take_all(frame)
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [100, 100, 50]
    queue = f"{name}_group_billing"
    assert sql.value(f"SELECT COUNT(*) FROM {queue}") == 0
    with files.running(frame) as query:
        insert(sql, name, *range(250, 260))
        wait_until(lambda: len(files.payloads()) == 260, END_SECONDS, "what comes")
        wait_until(lambda: reported(query)["acked"] == 10, END_SECONDS, "the acks of the last micro-batch")
    assert files.payloads() == numbers(range(260))
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 260


def test_a_stream_of_one_topic_into_others_by_a_column(spark, gate, sql, topic, tmp_path):
    """Both logs, from checkpoint to checkpoint: two runs have everything once, and each row where it says."""
    source, even, odd = topic("payload BIGINT"), topic("payload BIGINT"), topic("payload BIGINT")
    target = f"CASE WHEN payload % 2 = 0 THEN '{even}' ELSE '{odd}' END AS target"
    read = reading(spark, gate)
    for first in (0, 50):
        insert(sql, source, *range(first, first + 50))
        frame = read(source, mode="tail", startingOffsets="earliest").selectExpr("payload", target)
        writer = frame.writeStream.format("queuegate").options(**at(gate, routeColumn="target"))
        query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        assert query.awaitTermination(END_SECONDS)
    assert sorted(sql.column(f"SELECT payload FROM {even}")) == list(range(0, 100, 2))
    assert sorted(sql.column(f"SELECT payload FROM {odd}")) == list(range(1, 100, 2))


def test_several_topics_in_one_query_and_one_batch(spark, gate, sql, topic, files):
    """Rows tell which topic they are from, also those of a topic that is made between two runs."""
    one = topic()
    other = topic(name=f"{one}_b")
    insert(sql, one, *range(100))
    insert(sql, other, *range(100, 150))
    reading(spark, gate)
    options = at(gate, subscribePattern=f"{one}(_[bc])?", startingOffsets="earliest", timesAsTimestamp="true")

    def stream():
        frame = spark.readStream.format("queuegate").options(**options, mode="tail", maxOffsetsPerTrigger=60).load()
        return frame.selectExpr("topic || ':' || payload AS payload", "time_created")

    query = files.take_all(stream())
    assert max(progress["numInputRows"] for progress in query.recentProgress) == 60
    named = [*(f"{one}:{n}" for n in range(100)), *(f"{other}:{n}" for n in range(100, 150))]
    assert sorted(files.payloads()) == sorted(named)
    third = topic(name=f"{one}_c")
    insert(sql, third, "new")
    files.take_all(stream())
    assert sorted(files.payloads()) == sorted([*named, f"{third}:new"])
    batch = spark.read.format("queuegate").options(**options).load()
    counts = {row.topic: row["count"] for row in batch.groupBy("topic").count().collect()}
    assert counts == {one: 100, other: 50, third: 1}
    assert batch.where("time_created > current_timestamp() - INTERVAL 1 HOUR").count() == 151

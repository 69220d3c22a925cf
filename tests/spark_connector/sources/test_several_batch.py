"""One batch read of several queues or topics, the columns that Spark is told of, and times as TIMESTAMP."""

from __future__ import annotations

import datetime as dt

import pytest
from reading import options, read

from spark_connector import options as checked
from spark_connector.client.columns import Field
from spark_connector.errors import OptionError, QueueError, SchemaError
from spark_connector.sources.batch import SeveralRead, batch_reader
from spark_connector.sources.schema import schema

FIELDS = (Field("payload", "string"), Field("topic", "string", False))


def several(gate, of=FIELDS, **more) -> SeveralRead:
    found = batch_reader(checked.batch_read(options(gate, None, **more)), of)
    assert isinstance(found, SeveralRead)
    return found


def rows(core) -> list[tuple]:
    return sorted(tuple(row.values()) for row in read(core).to_pylist())


def fill(sql, name, *payloads):
    sql(f"INSERT INTO {name} (payload) VALUES {', '.join(f'({payload!r})' for payload in payloads)}")


def test_rows_tell_where_they_are_from(gate, sql, queue, topic):
    one, other = queue(), topic()
    fill(sql, one, "a", "b")
    fill(sql, other, "c")
    expected = [("a", one), ("b", one), ("c", other)]
    assert rows(several(gate, subscribe=f"{one},{other}")) == expected
    assert rows(several(gate, subscribe=f"{one}, {other}", numPartitions=1)) == expected
    assert rows(several(gate, (Field("payload", "string"),), subscribe=f"{one},{other}")) == [("a",), ("b",), ("c",)]
    assert read(several(gate, (), subscribe=f"{one},{other}")).num_rows == 3
    assert rows(several(gate, path=one, sourceColumn="topic")) == expected[:2]


def test_topics_of_a_pattern_by_bounds_of_each(gate, sql, topic):
    one = topic()
    other, third = topic(name=f"{one}_b"), topic(name=f"{one}_c")
    for name in (one, other, third):
        fill(sql, name, "a", "b", "c")
    found = several(
        gate,
        subscribePattern=f"{one}(_[bc])?",
        startingOffsets=f'{{"{one}": 2, "{other}": -2, "{third}": 4}}',
        endingOffsets=f'{{"{one}": -1, "{other}": 2, "{third}": 4}}',
    )
    assert rows(found) == [("a", other), ("b", one), ("c", one)]
    with pytest.raises(OptionError, match=f"endingOffsets is 1 for {one}, before startingOffsets, 2"):
        several(
            gate, subscribe=f"{one},{other}",
            startingOffsets=f'{{"{one}": 2, "{other}": 1}}', endingOffsets=f'{{"{one}": 1, "{other}": 2}}',
        ).partitions()  # fmt: skip
    assert rows(several(gate, subscribePattern="no such name")) == []


def test_a_plan_of_a_pattern_reads_what_it_finds_each_time(gate, sql, queue):
    one = queue()
    fill(sql, one, "a")
    core = several(gate, subscribePattern=f"{one}(_[bc])?")
    planned = core.partitions()

    def found():
        return sorted(tuple(row.values()) for part in planned for batch in core.read(part) for row in batch.to_pylist())

    assert found() == [("a", one)]
    other = f"{one}_b"
    sql(f"CREATE QUEUE {other} (payload VARCHAR(256))")
    fill(sql, other, "b")
    assert found() == [("a", one), ("b", other)]
    sql(f"DROP QUEUE {one}")
    assert found() == [("b", other)]
    sql(f"DROP QUEUE {other}")


def test_a_condition_and_columns_are_those_of_each(gate, sql, queue):
    one, other = queue("payload VARCHAR(10), n INT"), queue("payload VARCHAR(10), n INT")
    sql(f"INSERT INTO {one} (payload, n) VALUES ('a', 1), ('50%', 2)")
    sql(f"INSERT INTO {other} (payload, n) VALUES ('a', 1), ('b', 3)")
    both = {"subscribe": f"{one},{other}", "columns": "n, payload", "where": "payload LIKE '50%' OR n = 3"}
    assert schema(options(gate, None, **both)) == "`topic` string NOT NULL, `n` int, `payload` string"
    found = several(gate, (Field("topic", "string", False), Field("n", "int"), Field("payload", "string")), **both)
    assert rows(found) == sorted([(one, 2, "50%"), (other, 3, "b")])


def test_the_columns_are_those_that_all_have(gate, sql, queue, topic):
    one, other = topic("payload VARCHAR(10) NOT NULL"), topic("payload VARCHAR(99)")
    own = "`id` bigint NOT NULL, `time_scheduled` bigint NOT NULL, `time_created` bigint NOT NULL, `payload` string"
    assert schema(options(gate, None, subscribe=f"{one},{other}")) == f"`topic` string NOT NULL, {own}"
    third, fourth = topic("payload VARCHAR(10), n INT"), topic("payload INT")
    with pytest.raises(SchemaError, match=f"topic {third} has a column n and topic {one} has none: say by .schema"):
        schema(options(gate, None, subscribe=f"{one},{third}"))
    with pytest.raises(SchemaError, match=f"payload is string in topic {one} and int in topic {fourth}"):
        schema(options(gate, None, subscribe=f"{one},{fourth}"))
    with pytest.raises(QueueError, match=r"no topic of database .* has a name that fits option subscribePattern"):
        schema(options(gate, None, subscribePattern="none", mode="tail"))
    both = f"{other}|{queue('payload INT')}"
    assert "`payload` int" in schema(options(gate, None, subscribePattern=both))  # queues, unless topics are meant
    assert "`payload` string" in schema(options(gate, None, subscribePattern=both, startingOffsets="earliest"))


def test_times_as_timestamps(gate, sql, queue):
    name = queue()
    at = dt.datetime(2031, 5, 1, 12, 30, 0, 123456, dt.UTC)
    ns = int(at.timestamp()) * 1_000_000_000 + 123456_789
    sql(f"INSERT INTO {name} (payload, time_scheduled) VALUES ('a', {ns}), ('b', {2**63 - 10})")
    told = schema(options(gate, name, timesAsTimestamp="true"))
    assert "`time_scheduled` timestamp NOT NULL" in told and "`time_acked` timestamp," in told and "`id` bigint" in told
    fields = (Field("payload", "string"), Field("time_scheduled", "timestamp"), Field("time_acked", "timestamp"))
    core = batch_reader(checked.batch_read(options(gate, name)), fields)
    (first, *_), (second, later, acked) = rows(core)
    assert first == "a" and second == "b" and acked is None and later.year == 2262
    found = read(core).to_pylist()
    assert next(row["time_scheduled"] for row in found if row["payload"] == "a") == at

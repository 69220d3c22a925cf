"""A batch read of a topic: by ids, by times, in parts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from reading import reader, values

from spark_connector.batch import parts
from spark_connector.errors import OptionError
from spark_connector.options import batch_read

DAY_MS = 86_400_000
SETTING = "SET SESSION lock_wait_timeout = 3601"  # which any server has, in the place of a cluster's
LEAST = {"user": "root", "database": "main", "topic": "t"}


def fill(sql, name, count):
    sql(f"INSERT INTO {name} (payload) VALUES " + ", ".join(f"('m{number}')" for number in range(1, count + 1)))


def ids(gate, name, **more):
    return values(gate, name, "id", **more)


def test_all_of_it_and_nothing_is_taken(gate, sql, topic):
    name = topic(billing="START AT EARLIEST")
    assert ids(gate, name) == []
    fill(sql, name, 20)
    assert sorted(ids(gate, name, numPartitions=3)) == list(range(1, 21))
    assert len(sql.rows(f"SELECT * FROM STREAM {name} WITH (group = 'billing') NOWAIT")) == 20


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ({"startingOffsets": 5}, range(5, 21)),
        ({"endingOffsets": 5}, range(1, 5)),  # as with Kafka, the end is the first that is not read
        ({"startingOffsets": 5, "endingOffsets": 8}, range(5, 8)),
        ({"startingOffsets": 5, "endingOffsets": 5}, []),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, range(1, 21)),
        ({"startingOffsets": 18, "endingOffsets": 900}, range(18, 21)),
        ({"startingOffsets": 900}, []),
    ],
)
@pytest.mark.parametrize("exact", [1_000_000, 4])
def test_a_range_of_ids(gate, sql, topic, monkeypatch, span, expected, exact):
    monkeypatch.setattr(parts, "EXACT_ROWS_MAX", exact)
    name = topic()
    fill(sql, name, 20)
    assert sorted(ids(gate, name, minPartitions=4, **span)) == list(expected)


def test_ranges_that_follow_one_another_have_everything_once(gate, sql, topic):
    name = topic()
    fill(sql, name, 20)
    sql(f"DELETE FROM {name} WHERE id IN (1, 9, 10, 20)")
    ends = [0, 4, 9, 10, 15, 40]
    spans = [{"startingOffsets": a, "endingOffsets": b} for a, b in pairwise(ends)]
    assert [id_ for span in spans for id_ in ids(gate, name, **span)] == sql.column(
        f"SELECT id FROM {name} ORDER BY id"
    )


def test_a_range_of_times(gate, sql, topic):
    name = topic()
    fill(sql, name, 4)
    now = int(sql.value(f"SELECT MAX(time_created) FROM {name}"))
    for id_ in (1, 2, 3, 4):
        sql(f"UPDATE {name} SET time_created = {now - (4 - id_) * DAY_MS * 1_000_000} WHERE id = {id_}")
    at = {id_: now // 1_000_000 - (4 - id_) * DAY_MS - 10 for id_ in (1, 2, 3, 4)}  # shortly before each
    assert ids(gate, name, startingTimestamp=at[2]) == [2, 3, 4]
    assert ids(gate, name, endingTimestamp=at[2]) == [1]
    assert ids(gate, name, startingTimestamp=at[2], endingTimestamp=at[4]) == [2, 3]
    assert ids(gate, name, startingOffsets=1, endingTimestamp=at[3]) == [1, 2]
    assert ids(gate, name, startingTimestamp=at[4] + DAY_MS) == []
    assert ids(gate, name, endingTimestamp=at[4] + DAY_MS) == [1, 2, 3, 4]


# --- of a topic whose messages have numbers


@pytest.fixture
def numbered(topic, sql, connect, place):
    """Makes a topic of 20 messages whose ids 1 to 3 have the numbers 18 to 20; the last numbers are yet to be given."""
    if place == "embedded":
        pytest.skip("there are no numbers: one transaction writes at a time, so ids are in order")

    def make() -> str:
        name = topic(options="WITH (sequence = 'on')")
        slow = connect(autocommit=False)
        fill(slow, name, 3)
        fill(sql, name, 17)
        sql.rows(f"SELECT id FROM STREAM {name} SINCE EARLIEST")
        slow.connection.commit()
        return name

    return make


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ({}, range(1, 21)),
        ({"startingOffsets": 16, "endingOffsets": 19}, range(16, 19)),
        ({"endingOffsets": 3}, range(1, 3)),
        ({"startingOffsets": 20, "endingOffsets": 900}, [20]),
        ({"startingOffsets": 21}, []),
    ],
)
@pytest.mark.parametrize("exact", [1_000_000, 4])
def test_a_range_of_numbers(gate, sql, numbered, monkeypatch, span, expected, exact):
    monkeypatch.setattr(parts, "EXACT_ROWS_MAX", exact)
    name = numbered()
    found = values(gate, name, "queuegate_seq", numPartitions=4, **span)
    assert sorted(found) == list(expected)
    among = ", ".join(map(str, [0, *expected]))
    chosen = sql.column(f"SELECT id FROM {name} WHERE queuegate_seq IN ({among}) ORDER BY id")
    assert sorted(ids(gate, name, **span)) == chosen


def test_a_batch_of_numbers_has_what_is_there_when_its_tasks_begin(gate, sql, numbered, sent, monkeypatch):
    monkeypatch.setattr("spark_connector.client.connection._CLUSTER", "SELECT 'wsrep_on', 'ON'")
    monkeypatch.setattr("spark_connector.client.connection.FRESH", SETTING)
    name = numbered()
    core = reader(gate, name, numPartitions=3)
    planned = core.partitions()
    assert sent.count(SETTING) == 1
    fill(sql, name, 1)
    assert sum(batch.num_rows for part in planned for batch in core.read(part)) == 21
    assert sent.count(SETTING) == 1 + len(planned)  # each task's node has what the driver's had
    sql(f"DELETE FROM {name}")
    planned = core.partitions()
    assert sum(batch.num_rows for part in planned for batch in core.read(part)) == 0
    fill(sql, name, 1)
    assert sum(batch.num_rows for part in planned for batch in core.read(part)) == 1


def test_a_range_of_times_of_numbers(gate, sql, numbered, monkeypatch):
    """Of those made in the time or later, the smallest number, although others were made before it."""
    monkeypatch.setattr("spark_connector.client.topic_log._AROUND", 1)
    name = numbered()
    now = int(sql.value(f"SELECT MAX(time_created) FROM {name}"))
    sql(f"UPDATE {name} SET time_created = {now} - {DAY_MS} * 1000000 WHERE id IN (1, 2, 4)")  # 18, 19 and 1
    at = (now // 1_000_000) - DAY_MS // 2
    assert sorted(values(gate, name, "queuegate_seq", startingTimestamp=at)) == list(range(2, 21))
    assert values(gate, name, "queuegate_seq", endingTimestamp=at) == [1]
    assert sorted(ids(gate, name, startingTimestamp=at - DAY_MS)) == list(range(1, 21))


def test_options_that_have_no_meaning_are_refused(gate, queue, topic):
    name = topic()
    with pytest.raises(OptionError, match=f"includeAcked has no meaning for topic {name}"):
        ids(gate, name, includeAcked="true")
    with pytest.raises(OptionError, match=r"are for topics, and .* is a queue"):
        ids(gate, queue(), startingOffsets=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is earliest, or an offset, not 'latest'"),
        ({"endingOffsets": "earliest"}, "endingOffsets is latest, or an offset, not 'earliest'"),
        ({"endingOffsets": '{"t":{"0":5}}'}, "endingOffsets is latest, or an offset, not"),
        ({"startingOffsets": "-1"}, "startingOffsets is earliest, or an offset, not '-1'"),
        ({"startingOffsets": "7", "endingOffsets": "6"}, "endingOffsets is 6, before startingOffsets, which is 7"),
        ({"endingOffsets": "7", "endingTimestamp": str(10**12)}, "both say where to end: give one of them"),
        ({"startingOffsets": "7", "startingTimestamp": str(10**12)}, "both say where to begin: give one of them"),
        ({"endingTimestamp": "5"}, "endingTimestamp is a unix time in milliseconds"),
        ({"startingTimestamp": str(2 * 10**12), "endingTimestamp": str(10**12)}, "is before startingTimestamp"),
        ({"minPartitions": "2", "numPartitions": "3"}, "numPartitions is given twice, with different values"),
        ({"assign": "{}"}, "option assign of Kafka's source is not offered: a topic here has no partitions"),
        ({"kafka.bootstrap.servers": "h:1"}, "not offered: host and port say where the proxy is"),
    ],
)
def test_refusals(given, words):
    with pytest.raises(OptionError) as caught:
        batch_read({**LEAST, **given})
    assert words in str(caught.value)

"""A batch read of a topic: by ids, by times, in parts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from reading import values

from spark_connector.batch import parts
from spark_connector.errors import OptionError
from spark_connector.options import batch_read

DAY_MS = 86_400_000
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


def test_options_that_have_no_meaning_are_refused(gate, queue, topic):
    name = topic()
    with pytest.raises(OptionError, match=f"includeAcked has no meaning for topic {name}"):
        ids(gate, name, includeAcked="true")
    with pytest.raises(OptionError, match=r"are for topics, and .* is a queue"):
        ids(gate, queue(), startingOffsets=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is earliest, or an id, not 'latest'"),
        ({"endingOffsets": "earliest"}, "endingOffsets is latest, or an id, not 'earliest'"),
        ({"endingOffsets": '{"t":{"0":5}}'}, "endingOffsets is latest, or an id, not"),
        ({"startingOffsets": "-1"}, "startingOffsets is earliest, or an id, not '-1'"),
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

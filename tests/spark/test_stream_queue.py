"""mode=queue with Spark: from a queue into files, acked when Spark says that a micro-batch is done."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from servers import Stream, wait_until
from streams import END_SECONDS, Files, acked, insert, numbers, reading, reported


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


def test_available_now_takes_all_there_is_and_leaves_all_acked(spark, gate, sql, queue, files):
    name = queue()
    insert(sql, name, *range(250))
    query = files.take_all(reading(spark, gate)(name, maxMessagesPerTrigger=100))
    assert acked(sql, name) == 250
    assert files.payloads() == numbers(range(250))
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [100, 100, 50]


def test_a_quiet_queue_is_acked_and_the_query_goes_on_from_its_checkpoint(spark, gate, sql, queue, files):
    name = queue()
    frame = reading(spark, gate)(name)
    insert(sql, name, *range(30))
    with files.running(frame) as query:
        wait_until(lambda: acked(sql, name) == 30, END_SECONDS, "the acks of the only micro-batch")
        insert(sql, name, *range(30, 40))
        wait_until(lambda: acked(sql, name) == 40, END_SECONDS, "the acks of the next one")
        assert {"backlog", "claimed", "acked", "leasesLost", "endedByOthers"} <= set(reported(query))
    insert(sql, name, *range(40, 50))
    files.take_all(frame)
    assert files.payloads() == numbers(range(50))
    assert acked(sql, name) == 50
    assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [1]


def test_beside_a_receiver_each_message_goes_to_one_of_them(spark, gate, sql, queue, files):
    name = queue()
    with ExitStack() as both:
        both.enter_context(files.running(reading(spark, gate)(name, maxMessagesPerTrigger=50)))
        insert(sql, name, *range(30))
        wait_until(lambda: acked(sql, name) == 30, END_SECONDS, "the query to take what nobody else does")
        other = Stream(gate, f"SELECT id, payload FROM STREAM {name} WITH (ack_wait = '5m', prefetch = 10)")
        both.enter_context(other)
        settled = 0
        for first in range(30, 300, 30):
            insert(sql, name, *range(first, first + 30))
            rows = other.more(settled) if len(other.rows) > settled else []
            for id_, _ in rows:
                sql(f"ACK {name} {id_}")
            settled += len(rows)

        def all_acked() -> bool:
            for id_, _ in list(other.rows):
                sql(f"ACK {name} {id_}")
            return acked(sql, name) == 300

        wait_until(all_acked, END_SECONDS, "every message to be acked by one of them")
        others = [payload for _, payload in other.rows]
    assert sorted([*files.payloads(), *others]) == numbers(range(300))


def test_a_query_that_cannot_go_on_says_why_in_one_line(spark, gate, sql, queue, files):
    name, other = queue(), queue()
    insert(sql, name, 1)
    read = reading(spark, gate)
    files.take_all(read(name))
    with pytest.raises(Exception, match="the checkpoint belongs to queue"):
        files.take_all(read(other))

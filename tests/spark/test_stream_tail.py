"""mode=tail with Spark: everything into files, nothing taken from the queue's receivers."""

from __future__ import annotations

from servers import wait_until
from streams import END_SECONDS, Files, acked, insert, numbers, reading, reported


def test_everything_once_beside_its_receivers(spark, gate, sql, queue, tmp_path):
    name, files = queue(), Files(spark, tmp_path)
    frame = reading(spark, gate)(name, mode="tail", startingOffsets="earliest", maxMessagesPerTrigger=100)
    insert(sql, name, *range(250))
    sql(f"ACK {name} WHERE payload LIKE '1%'")
    query = files.take_all(frame)
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [100, 100, 50]
    insert(sql, name, *range(250, 260))
    files.take_all(frame)
    assert files.payloads() == numbers(range(260))
    assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [0]


def test_latest_has_what_comes_also_while_the_query_is_away(spark, gate, sql, queue, tmp_path):
    name, files = queue(), Files(spark, tmp_path)
    frame = reading(spark, gate)(name, mode="tail")
    insert(sql, name, *range(10))
    files.take_all(frame)
    insert(sql, name, *range(10, 20))
    with files.running(frame) as query:
        wait_until(lambda: seen(query) == 10, END_SECONDS, "what came meanwhile")
        insert(sql, name, *range(20, 30))
        wait_until(lambda: seen(query) == 20, END_SECONDS, "what comes")
        assert reported(query)["behind"] == 0
    assert files.payloads() == numbers(range(10, 30))
    assert acked(sql, name) == 0


def seen(query) -> int:
    assert query.exception() is None
    return sum(progress["numInputRows"] for progress in query.recentProgress)

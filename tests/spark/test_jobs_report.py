"""The jobs `report` and `dead-letters` over real queues: their numbers are what SQL says."""

from __future__ import annotations

import json

import pytest
from jobs_at_hand import ack, enqueue, now_ns, options
from servers import wait_until

from spark_connector.errors import ConnectorError
from spark_connector.jobs.archive.job import archive
from spark_connector.jobs.dead_letters.analysis import text as dead_text
from spark_connector.jobs.dead_letters.job import dead_letters
from spark_connector.jobs.report.job import report
from spark_connector.jobs.report.page import page
from spark_connector.jobs.report.text import text

SECOND = 10**9


def test_a_queue_in_every_state(spark, gate, sql, queue, stream):
    name = queue("payload VARCHAR(40)")
    now = now_ns(sql)
    enqueue(sql, name, 50)
    sql(f"UPDATE {name} SET time_created = {now - 100 * SECOND}, time_scheduled = {now - 90 * SECOND}, time_next = 0")
    for n in range(1, 11):  # acked 1 to 10 seconds after they were due, after n deliveries
        at = now - (90 - n) * SECOND
        sql(f"UPDATE {name} SET time_acked = {at}, time_next = NULL, epoch = {n} WHERE id = {n}")
    sql(f"UPDATE {name} SET time_next = {now + 3600 * SECOND}, time_scheduled = {now + 3600 * SECOND} WHERE id = 11")
    sql(f"UPDATE {name} SET time_next = {now + 3600 * SECOND}, epoch = 2, last_error = 'HTTP 429' WHERE id IN (12, 13)")
    sql(f"UPDATE {name} SET time_next = 9223372036854775807 WHERE id = 14")
    sql(f"UPDATE {name} SET time_next = {now - 60 * SECOND} WHERE id = 15")
    sql(f"UPDATE {name} SET time_next = {now + 3600 * SECOND + 1}, epoch = 1 WHERE id IN (16, 17, 18)")  # as a lease
    sql(f"UPDATE {name} SET time_next = time_next + 2 WHERE id = 18")  # as one of what is held beside others
    found = report(spark, options(gate, name)).queue
    assert found.states == {"ready": 33, "in_flight": 3, "retrying": 2, "scheduled": 1, "parked": 1, "acked": 10}
    due, enqueued = found.latencies
    assert (due.since, due.count, due.p50, due.p90, due.p99, due.longest) == ("due", 10, 5.0, 9.0, 10.0, 10.0)
    assert (enqueued.since, enqueued.p50, enqueued.longest) == ("enqueued", 15.0, 20.0)
    assert dict(found.attempts)[10] == 1
    assert sum(count for _, count in found.attempts) == 50
    assert [(failure.value, failure.count) for failure in found.failures] == [("HTTP 429", 2)]
    assert found.bucket == "minute"
    assert sum(rate.enqueued for rate in found.rates) == 50
    assert sum(rate.acked for rate in found.rates) == 10
    assert 3600 > found.oldest_due >= 60
    assert found.dead == 0


def test_what_may_be_purged_and_the_current_minute_are_incomplete(spark, gate, sql, queue):
    name = queue("payload VARCHAR(40)", purge_after="'10m'")
    now = now_ns(sql)
    enqueue(sql, name, 40)
    for n in range(1, 41):  # one a minute, for 40 minutes
        sql(f"UPDATE {name} SET time_created = {now - (40 - n) * 60 * SECOND} WHERE id = {n}")
    found = report(spark, options(gate, name), per="minute").queue
    complete = [rate.complete for rate in found.rates]
    assert complete == [*sorted(complete[:-1]), False]
    assert 8 <= complete.count(True) <= 10
    assert found.known.until - found.known.since == 600 * SECOND


def test_dead_letters_are_counted(spark, gate, sql, queue):
    name = dead_queue(gate, sql, queue)
    try:
        counted = f"SELECT dead FROM queuegate.queues WHERE db = DATABASE() AND queue = '{name}'"
        wait_until(lambda: sql.value(counted) == 8, what="the count of dead letters")
        found = report(spark, options(gate, name))
        assert found.queue.dead == 8
        line = next((line for line in found.queues if line.queue == name), None)
        assert line is None or (line.ready, line.acked) == (found.queue.states["ready"], found.queue.states["acked"])
    finally:
        sql(f"DROP QUEUE {name}_dead")


def test_table_and_archive_together_count_nothing_twice(spark, gate, sql, queue, tmp_path):
    name, path = queue("payload VARCHAR(40)", archive=1), str(tmp_path / "a")
    enqueue(sql, name, 30)
    ack(sql, name, range(1, 11))
    archive(spark, options(gate, name), path, margin_seconds=0)
    sql(f"DELETE FROM {name} WHERE id <= 4")  # as if purged
    ack(sql, name, range(11, 16))
    both = report(spark, options(gate, name), archive=path)
    assert (both.queue.states["ready"], both.queue.states["acked"], both.queue.states["archived"]) == (15, 11, 10)
    assert sum(rate.acked for rate in both.queue.rates) == 15
    assert sum(count for _, count in both.queue.attempts) == 30
    assert both.queue.sources == ("its table", "its archive")
    alone = report(spark, options(gate, name), archive=path, only_archive=True).queue
    assert {state: count for state, count in alone.states.items() if count} == {"archived": 10}
    line = next(line for line in both.queues if line.queue == name)
    assert (line.ready, line.acked) == (15, 11)
    assert name in text(both)
    assert "<svg" in page(both)


def test_an_empty_queue_and_vitess_first_layout(spark, gate, sql, queue, name):
    empty = report(spark, options(gate, queue("payload VARCHAR(40)")))
    assert set(empty.queue.states.values()) == {0}
    assert empty.queue.rates == ()
    page(empty)
    text(empty)
    sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL AUTO_INCREMENT, priority TINYINT NOT NULL DEFAULT 50, "
        "epoch BIGINT, time_next BIGINT, time_acked BIGINT, body VARCHAR(40), PRIMARY KEY (id), "
        "INDEX next_idx (time_acked, priority, time_next)) "
        "COMMENT 'vitess_message,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,"
        "vt_poller_interval=30'"
    )
    try:
        sql(f"INSERT INTO {name} (body, time_next, epoch) VALUES ('a', 1, 0), ('b', 1, 0)")
        found = report(spark, options(gate, name)).queue
        assert found.states["ready"] == 2
        assert found.latencies == ()
    finally:
        sql(f"DROP QUEUE {name}")


def test_all_queues_of_a_database(spark, gate, sql, queue):
    few, many = queue("payload VARCHAR(40)"), queue("payload VARCHAR(40)")
    enqueue(sql, few, 2)
    enqueue(sql, many, 2000)
    found = report(spark, {key: value for key, value in options(gate, few).items() if key != "queue"})
    names = [line.queue for line in found.queues]
    assert found.queue is None
    assert names.index(many) < (names.index(few) if few in names else 99)
    page(found)


def test_an_archive_that_is_none(spark, gate, queue, tmp_path):
    with pytest.raises(ConnectorError, match="is no archive"):
        report(spark, options(gate, queue("payload VARCHAR(40)")), archive=str(tmp_path))


def dead_queue(gate, sql, queue):
    name = queue("payload VARCHAR(200), n INT, b VARBINARY(8)")
    for n in range(12):
        sql(f"INSERT INTO {name} (payload, n, b) VALUES (%s, {n % 3}, 'b')", json.dumps({"order": n, "city": "Rome"}))
    sql(f"REJECT {name} 1, 2, 3, 4, 5 REASON 'HTTP 503 from shop'")
    sql(f"REJECT {name} 6, 7 REASON 'no such city: it''s \\\\ gone'")
    sql(f"REJECT {name} 8")
    wait_until(lambda: sql.rows(f"SHOW TABLES LIKE '{name}_dead'"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {name}_dead") == 8, what="the dead letters")
    return name


@pytest.mark.parametrize("which", ["", "_dead"])
def test_dead_letters(spark, gate, sql, queue, tmp_path, which):
    name = dead_queue(gate, sql, queue)
    try:
        found = dead_letters(spark, options(gate, name + which), export=str(tmp_path / "dead"))
        assert (found.queue, found.count) == (f"{name}_dead", 8)
        assert [(e.value, e.count) for e in found.last_errors] == [
            ("HTTP 503 from shop", 5), ("no such city: it's \\ gone", 2),
        ]  # fmt: skip
        columns = {values.column: values for values in found.columns}
        assert set(columns) == {"payload", "n", "b"}
        assert [(s.value, s.count) for s in columns["payload"].shapes] == [("{city: string, order: number}", 8)]
        assert columns["n"].common[0].count == 3
        assert [(age.value, age.count) for age in found.ages] == [("under an hour", 8)]
        assert "HTTP 503" in dead_text(found)
        assert spark.read.parquet(str(tmp_path / "dead")).count() == 8
        with pytest.raises(ConnectorError, match="there already"):
            dead_letters(spark, options(gate, name), export=str(tmp_path / "dead"))
        redrive, look, none = (statement.partition(";")[0] for statement in found.suggestions)
        assert len(sql.rows(look)) == 2
        assert len(sql.rows(none)) == 1
        assert sql(redrive) == 5
    finally:
        sql(f"DROP QUEUE {name}_dead")


def test_no_dead_letters(spark, gate, queue):
    with pytest.raises(ConnectorError, match="has no dead letters"):
        dead_letters(spark, options(gate, queue("payload VARCHAR(40)")))

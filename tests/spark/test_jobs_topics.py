"""The jobs on topics: a report of one, and a replay from one and into one."""

from __future__ import annotations

import pytest
from jobs_at_hand import enqueue, now_ns, options, run_job

from spark_connector.jobs.dead_letters.job import dead_letters
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.replay import Chosen, OfTopic, preview, replay
from spark_connector.jobs.report.job import report

SECOND = 10**9
DAY = 86_400 * SECOND
COLUMNS = "payload VARCHAR(40)"


def payloads(sql, name):
    return sorted(int(payload) for payload in sql.column(f"SELECT payload FROM {name}"))


def test_a_topic_in_numbers(spark, gate, sql, topic):
    name = topic(COLUMNS, billing="START AT EARLIEST", audit="")
    enqueue(sql, name, 30)
    sql(f"DELETE FROM {name} WHERE id <= 10")
    now = now_ns(sql)
    sql(f"UPDATE {name} SET time_created = {now - 90 * SECOND}")
    sql(f"UPDATE {name} SET time_created = {now - 600 * SECOND} WHERE id = 11")
    assert len(sql.rows(f"SELECT id FROM STREAM {name} WITH (group = 'audit') NOWAIT")) == 20
    found = report(spark, options(gate, name))
    assert found.queue is None
    assert (found.topic.messages, found.topic.first_id, found.topic.last_id) == (20, 11, 30)
    assert 600 <= found.topic.oldest < 3600
    assert [rate.enqueued for rate in found.topic.rates if rate.enqueued] == [1, 19]
    assert {group.group: (group.offset, group.unread) for group in found.groups} == {
        "audit": (30, 0),
        "billing": (0, 20),
    }
    whole = report(spark, {key: value for key, value in options(gate, name).items() if key != "queue"})
    assert {group.queue for group in found.groups} <= {group.queue for group in whole.groups}


def test_from_a_topic_into_a_queue_and_into_a_topic(spark, gate, sql, topic, queue):
    source, to_queue, to_topic = topic(COLUMNS), queue(COLUMNS), topic(COLUMNS, all="START AT EARLIEST")
    enqueue(sql, source, 20)
    now = now_ns(sql)
    sql(f"UPDATE {source} SET time_created = {now - 3 * DAY} WHERE id <= 5")
    sql(f"UPDATE {source} SET time_created = {now - 2 * DAY} WHERE id BETWEEN 6 AND 10")
    day = str(sql.value(f"SELECT DATE(FROM_UNIXTIME({(now - 2 * DAY) // SECOND}))"))
    chosen = Chosen(from_day=day, to_day=day)
    assert preview(spark, options(gate, to_queue), OfTopic(source), chosen).messages == 5
    assert replay(spark, options(gate, to_queue), OfTopic(source), "r", chosen=chosen).messages == 5
    assert payloads(sql, to_queue) == list(range(6, 11))
    chosen = Chosen(where="payload > 18")
    for again in (False, True):
        done = replay(spark, options(gate, to_topic), OfTopic(source), "r", chosen=chosen)
        assert (done.messages, done.repeated) == (2, again)
    assert payloads(sql, to_topic) == [19, 20]
    assert sql.rows(f"SELECT id, payload FROM STREAM {to_topic} WITH (group = 'all') NOWAIT") == [(1, "19"), (2, "20")]


def test_as_commands(gate, sql, topic):
    name, target = topic(COLUMNS, billing=""), topic(COLUMNS)
    enqueue(sql, name, 5)
    url = ("--url", f"mysql://root@127.0.0.1:{gate.port}/{gate.database}", "--quiet")
    done = run_job("replay", *url, "--queue", target, "--from-topic", name, "--run", "monday")
    assert (done.returncode, done.stdout.strip()) == (0, f"5 messages enqueued in {target}"), done.stderr
    told = run_job("archive", *url, "--queue", name, "--path", "/nowhere")
    assert told.returncode == 1 and f"{name} has no acked messages to archive" in told.stderr


def test_what_makes_no_sense_is_refused(spark, gate, topic, queue):
    name, plain = topic(COLUMNS), queue(COLUMNS)
    with pytest.raises(JobError, match=f"topic {name} has no dead letters, its consumer groups have"):
        dead_letters(spark, options(gate, name))
    with pytest.raises(JobError, match=f"topic {name} has no archive"):
        report(spark, options(gate, name), archive="/a")
    with pytest.raises(JobError, match=f"{plain} is a queue, and only topics keep what was done"):
        replay(spark, options(gate, name), OfTopic(plain), "r")

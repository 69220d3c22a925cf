"""How many statements a streaming query sends: while nothing comes, for one message, and how often it looks."""

from __future__ import annotations

import time

import pytest

from spark_connector.streaming.pace import PAUSE_MAX, Pace

pytestmark = pytest.mark.long

MODES = [{"mode": "queue"}, {"mode": "tail", "startingOffsets": "earliest"}]
MESSAGE_MAX = 18
PER_SECOND = 2
PRIORITY = "payload VARCHAR(20), priority SMALLINT DEFAULT 50"


def as_spark(query) -> list:
    """One turn of Spark's loop: it asks for a micro-batch, then how far the source is, then it runs what there is."""
    planned = query.plan()
    query.source.report()
    if not planned:
        return []
    rows = query.run()
    query.finish()
    query.out.extend(rows)
    return rows


def turns(query, seconds: float) -> float:
    """Turns without a message, for at least so long; returns how long."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        assert as_spark(query) == []
    return time.monotonic() - began


def fill(sql, name: str, *priorities: int) -> None:
    for priority in priorities or (50,):
        sql(f"INSERT INTO {name} (payload, priority) VALUES ('x', {priority})")


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
@pytest.mark.parametrize("priorities", [1, 10])
def test_an_idle_query_sends_two_statements_a_second(begin, sql, queue, sent, options, priorities):
    name = queue(PRIORITY)
    query = begin(name, pollTimeoutMs=500, **options)
    fill(sql, name, *range(priorities))
    # Postponed ones too: a look must pass over them.
    sql(f"INSERT INTO {name} (payload, time_next) VALUES ('later', 4000000000000000000)")
    while len(query.out) < priorities + (options["mode"] == "tail"):
        as_spark(query)
    turns(query, 1.5)
    sent.clear()
    seconds = turns(query, 3)
    assert len(sent) <= PER_SECOND * seconds + 1, sent
    assert len(sent) >= 3, "it looks all the same"


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_one_message_costs_few_statements(begin, gate, sql, queue, sent, options):
    name = queue(PRIORITY)
    query = begin(name, pollTimeoutMs=500, **options)
    for _ in range(2):  # the first ones make what is kept: connections, what the queue is, its priorities
        fill(sql, name)
        turns_until(query, 1)
        turns(query, 0.5)
    fill(sql, name)
    sent.clear()
    turns_until(query, 1)
    seconds = turns(query, 0.5)  # and its ack
    assert len(sent) - PER_SECOND * seconds <= MESSAGE_MAX, sent
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE time_acked IS NULL") == (
        0 if options["mode"] == "queue" else 3
    )


def turns_until(query, count: int) -> None:
    before = len(query.out)
    while len(query.out) < before + count:
        as_spark(query)


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_what_the_report_says_without_asking_is_true(begin, sql, queue, options):
    name = queue(PRIORITY)
    query = begin(name, limit=2, **options)
    fill(sql, name, 1, 2, 3)
    keys = ("backlog", "claimed") if options["mode"] == "queue" else ("behind",)
    seen = []
    for _ in range(4):
        as_spark(query)
        if options["mode"] == "queue":
            query.source._consumer._progress._count_again = -1.0
        report = query.source.report()
        seen.append(tuple(report[key] for key in keys))
    assert seen == ([(1, 2), (0, 1), (0, 0), (0, 0)] if options["mode"] == "queue" else [(1,), (0,), (0,), (0,)])


def test_priorities_that_come_into_use_are_met_wherever_they_lie(begin, sql, queue):
    name = queue(PRIORITY)
    query = begin(name, numPartitions=1)
    for some in ((50,), (7,), (-3,), (30,), (99,), (40, -9, 70, 8), tuple(range(200, 260)), (5, 300, 100)):
        fill(sql, name, *some)
        assert len(query.batch()) == len(some), some
    assert not query.plan()


# --- the pace


def paced():
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    return Pace(lambda: now[0], sleep), now, slept


def test_looks_become_rare_and_are_at_once_again_after_messages():
    pace, now, _ = paced()
    times = []
    for _ in pace.polls(10):
        times.append(now[0] - 100)
    assert [round(time, 3) for time in times[:6]] == [0, 0.1, 0.3, 0.7, 1.2, 1.7]
    assert len(times) <= 4 + 10 / PAUSE_MAX
    pace.on_messages()
    began = now[0]
    next(pace.polls(1))
    assert now[0] == began


def test_pauses_reach_from_one_call_into_the_next():
    pace, now, _ = paced()
    looks = sum(1 for _ in range(200) for _ in pace.polls(0.05))
    assert now[0] - 100 == pytest.approx(10)
    assert looks <= 4 + 10 / PAUSE_MAX


def test_whoever_does_not_wait_looks_whenever_asked():
    pace, _, slept = paced()
    assert sum(1 for _ in range(5) for _ in pace.polls(0)) == 5
    assert slept == []

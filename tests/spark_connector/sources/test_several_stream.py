"""One streaming query of several queues or topics: each message once, each where it is from, through restarts."""

from __future__ import annotations

from collections import Counter

import pytest
from servers import Sql, wait_until
from spark_stand_in import Checkpoint

from spark_connector.errors import DataLossError, OptionError, QueueError, SchemaError
from spark_connector.sources import schema as schema_of

pytestmark = pytest.mark.long

COLUMNS = "topic, id, payload"


@pytest.fixture
def several(begin):
    """Begins a query of those that are listed; or, with `subscribePattern`, of those that fit it."""

    def make(names=(), checkpoint=None, limit=20_000, **options):
        listed = {"subscribe": ", ".join(names)} if names else {}
        return begin(None, checkpoint, limit, **{"columns": COLUMNS, **listed, **options})

    return make


@pytest.fixture
def refreshing(monkeypatch):
    """A pattern is looked up whenever Spark asks."""
    monkeypatch.setattr("spark_connector.sources.stream.REFRESH_SECONDS", 0.0)
    monkeypatch.setattr("spark_connector.sources.stream._REFRESH_REST", 0)


def fill(sql: Sql, name: str, *payloads: object) -> None:
    sql(f"INSERT INTO {name} (payload) VALUES {', '.join(f'({str(payload)!r})' for payload in payloads)}")


def pairs(rows) -> list[tuple[str, str]]:
    return sorted((name, payload) for name, _, payload in rows)


def until(query, count: int) -> list[tuple[str, str]]:
    wait_until(lambda: query.batch() is not None and len(query.out) >= count, 60, f"{count} messages")
    return pairs(query.out)


def test_queues_are_claimed_and_acked_each(several, sql, queue):
    one, other = queue(), queue()
    fill(sql, one, "a", "b")
    fill(sql, other, "c")
    query = several([one, other])
    assert query.plan()
    assert pairs(query.run()) == [(one, "a"), (one, "b"), (other, "c")]
    assert sql.column(f"SELECT epoch FROM {one} UNION ALL SELECT epoch FROM {other}") == [1, 1, 1]
    query.finish()
    assert not query.plan()
    assert sql.value(f"SELECT COUNT(time_acked) FROM {one}") == 2 and sql.value(f"SELECT time_acked FROM {other}")
    fill(sql, other, "d")
    assert pairs(query.batch()) == [(other, "d")]


def test_topics_are_tailed_each_by_its_own_bound(several, sql, topic):
    one, other = topic(), topic()
    fill(sql, one, "a", "b", "c")
    fill(sql, other, "d", "e")
    bounds = f'{{"{one}": 3, "{other}": "earliest"}}'
    query = several([one, other], mode="tail", startingOffsets=bounds)
    assert until(query, 3) == [(one, "c"), (other, "d"), (other, "e")]
    fill(sql, one, "f")
    assert until(query, 4)[1] == (one, "f")
    with pytest.raises(OptionError, match=f"gives no bound for {other}"):
        several([one, other], mode="tail", startingOffsets=f'{{"{one}": 1}}').plan()
    with pytest.raises(OptionError, match="gives a bound for 'none', which is not read"):
        several([one], mode="tail", sourceColumn="topic", startingOffsets=f'{{"{one}": 1, "none": 2}}').plan()


def test_members_of_a_group_of_each_topic(several, sql, topic):
    one, other, none = (
        topic(billing="START AT EARLIEST"),
        topic(billing="START AT EARLIEST"),
        topic(audit="START AT EARLIEST"),
    )
    for name in (one, other, none):
        fill(sql, name, "a")
    query = several(subscribePattern=f"{one}|{other}|{none}", group="billing")
    assert until(query, 2) == [(one, "a"), (other, "a")]
    assert not query.plan()
    for name in (one, other):
        assert sql.named(f"SHOW GROUPS ON {name}")[0]["unread"] == 0
        assert sql.value(f"SELECT COUNT(*) FROM {name}_group_billing") == 0


def test_each_has_a_share_and_what_the_others_do_not_need(several, sql, queue):
    """All that is due is taken in micro-batches of ten, whichever of them it is in."""
    small, large = queue(), queue()
    fill(sql, large, *range(30))
    fill(sql, small, *range(3))
    query = several([small, large], limit=10)
    batches = [Counter(name for name, _, _ in query.batch()) for _ in range(4)]
    assert [batch.total() for batch in batches[1:]] == [10, 10, 3 + 10 - batches[0].total()]
    assert batches[0][small] == 3 and batches[0][large] in (5, 7)  # whichever comes first
    assert sum(batches, Counter()) == {small: 3, large: 30}
    fill(sql, small, *range(20))
    fill(sql, large, *range(20))
    query.batch()
    assert Counter(name for name, _, _ in query.batch()) == {small: 5, large: 5}


def test_fewer_messages_than_queues_are_taken_in_turn(several, sql, queue):
    names = [queue() for _ in range(3)]
    for name in names:
        fill(sql, name, "a", "b")
    query = several(names, limit=2)
    taken = [len(query.batch()) for _ in range(3)]
    assert taken == [2, 2, 2]
    assert Counter(name for name, *_ in query.out) == dict.fromkeys(names, 2)
    assert not query.plan()
    assert all(sql.value(f"SELECT COUNT(time_acked) FROM {name}") == 2 for name in names)


@pytest.mark.parametrize("mode", ["queue", "tail"])
def test_a_micro_batch_that_was_logged_is_the_same_after_a_restart(several, begin, sql, queue, mode):
    one, other = queue(), queue()
    options = {"mode": mode, **({"startingOffsets": "earliest"} if mode == "tail" else {})}
    query = several([one, other], limit=4, **options)
    query.drain()
    fill(sql, one, *"abc")
    fill(sql, other, *"def")
    wait_until(query.plan, 60, "a micro-batch")
    first = query.run()
    query.kill()
    again = several([one, other], query.checkpoint, limit=4, **options)
    assert again.plan() and again.run() == first
    again.finish()
    again.out.extend(first)
    assert until(again, 6) == [*((one, p) for p in "abc"), *((other, p) for p in "def")]
    again.kill()
    with pytest.raises(QueueError, match="of several, not of"):
        begin(one, query.checkpoint, **options).plan()


def test_what_was_claimed_and_not_logged_is_taken_up(several, sql, queue):
    one, other = queue(), queue()
    query = several([one, other])
    start = query.source.initial_offset()
    query.checkpoint.offsets.append(start)
    query.checkpoint.done = 1
    fill(sql, one, "a")
    fill(sql, other, "b")
    query.source.latest_offset(start, 10)
    query.kill()
    again = several([one, other], query.checkpoint)
    assert pairs(again.batch()) == [(one, "a"), (other, "b")]
    assert sql.column(f"SELECT epoch FROM {one} UNION ALL SELECT epoch FROM {other}") == [1, 1]


def test_a_list_may_grow_and_shrink_between_runs(several, sql, queue):
    one, other, third = queue(), queue(), queue()
    for name in (one, other, third):
        fill(sql, name, "a")
    query = several([one, other])
    assert query.plan()
    query.run()
    query.finish()
    query.kill()
    again = several([other, third], query.checkpoint)
    assert again.drain() == [] and again.checkpoint.offsets[-1]["sources"].keys() == {other, third}
    assert until(again, 1) == [(third, "a")]
    assert sql.value(f"SELECT COUNT(time_acked) FROM {one}") == 1  # its micro-batch was done


@pytest.mark.parametrize("mode", ["queue", "tail"])
def test_a_first_micro_batch_is_repeated_whole_where_the_list_was_changed(several, sql, queue, mode):
    one, other, third = queue(), queue(), queue()
    options = {"mode": mode, **({"startingOffsets": "earliest"} if mode == "tail" else {})}
    fill(sql, one, "a")
    fill(sql, other, "b")
    query = several([one, other, third], **options)
    wait_until(query.batch, 60, "a micro-batch with messages")
    first, query.checkpoint.done = query.out, 0  # Spark did not log that it was done
    del query.checkpoint.offsets[:-1]  # nor any before it
    query.kill()
    again = several([other, third], query.checkpoint, **options)
    assert again.plan() and again.run() == first and pairs(first) == [(one, "a"), (other, "b")]
    again.finish()
    assert again.drain() == []
    if mode == "queue":
        assert sql.value(f"SELECT COUNT(time_acked) FROM {one}") == 1


# --- patterns


@pytest.mark.usefixtures("refreshing")
def test_a_pattern_finds_topics_that_are_made_later_from_their_beginning(several, sql, topic):
    one = topic()
    fill(sql, one, "before")
    query = several(subscribePattern=f"{one}(_more)?", mode="tail", startingOffsets="latest")
    query.drain()
    later = topic(name=f"{one}_more")
    fill(sql, later, "a", "b")
    fill(sql, one, "c")
    assert until(query, 3) == [(one, "c"), (later, "a"), (later, "b")]
    query.kill()
    fill(sql, later, "d")
    again = several([], query.checkpoint, subscribePattern=f"{one}(_more)?", mode="tail", startingOffsets="latest")
    assert until(again, 1) == [(later, "d")]


@pytest.mark.usefixtures("refreshing")
@pytest.mark.parametrize("mode", ["queue", "tail"])
def test_what_a_pattern_finds_no_more_is_let_go(several, sql, queue, topic, mode):
    make = queue if mode == "queue" else topic
    one, other = make(), make()
    options = {"subscribePattern": f"{one}|{other}", "mode": mode}
    if mode == "tail":
        options["startingOffsets"] = "earliest"
    query = several(**options)
    fill(sql, one, "a")
    fill(sql, other, "b")
    assert until(query, 2) == [(one, "a"), (other, "b")]
    fill(sql, one, "c")
    if mode == "tail":
        wait_until(query.plan, 60, "a micro-batch with what is gone in a moment")
    sql(f"DROP {'QUEUE' if mode == 'queue' else 'TOPIC'} {one}")
    fill(sql, other, "d")
    if mode == "tail":
        with pytest.raises(DataLossError, match=f"topic {one}, which this query reads, is gone"):
            query.parts()
        query.kill()
        query = several([], query.checkpoint, **options, failOnDataLoss="false")
    wait_until(lambda: query.batch() is not None and (other, "d") in pairs(query.out), 60, "the others")
    assert query.checkpoint.offsets[-1]["sources"].keys() == {other}


def test_a_pattern_of_queues_leaves_out_those_of_groups_and_dead_letters(several, sql, queue, topic, name):
    one = queue(max_attempts=1, dead_letter=f"'{name}_q_dead'")
    log = topic(name=f"{one}_log", billing="START AT EARLIEST")
    fill(sql, one, "a")
    fill(sql, log, "b")
    sql(f"REJECT {one} WHERE payload = 'a'")
    wait_until(lambda: f"{name}_q_dead" in sql.column("SHOW QUEUES"), 60, "the dead letters")
    fill(sql, one, "c")
    query = several(subscribePattern=f"({one}|{name}).*")
    assert until(query, 1) == [(one, "c")]
    sql(f"DROP QUEUE {name}_q_dead")


def test_a_pattern_that_fits_too_many_is_refused(several, queue, monkeypatch):
    one, other = queue(), queue()
    monkeypatch.setattr(schema_of, "NAMES_MAX", 1)
    with pytest.raises(QueueError, match="fits 2 names, and a query reads at most 1"):
        several(subscribePattern=f"{one}|{other}").plan()


# --- bounds, columns


def test_it_waits_for_more_and_not_for_ever(several, sql, topic):
    one, other = topic(), topic()
    options = {"mode": "tail", "startingOffsets": "earliest", "minOffsetsPerTrigger": 3, "maxTriggerDelay": "1h"}
    query = several([one, other], **options)
    fill(sql, one, "a")
    assert until(query, 1) == [(one, "a")]  # the first of a run does not wait
    fill(sql, one, "b")
    fill(sql, other, "c")
    assert query.drain() == query.out and len(query.out) == 1
    fill(sql, other, "d")
    assert until(query, 4) == [(one, "a"), (one, "b"), (other, "c"), (other, "d")]


def test_available_now_takes_what_was_there(several, sql, topic, tick):
    one, other = topic(), topic()
    fill(sql, one, *range(5))
    fill(sql, other, *range(5))
    query = several([one, other], limit=4, mode="tail", startingOffsets="earliest")
    query.source.prepare_available_now()
    query.plan()
    tick()
    fill(sql, one, "late")
    found = query.drain()
    assert Counter(name for name, *_ in found) == {one: 5, other: 5}


def test_the_columns_name_is_chosen_where_a_table_has_it(several, sql, queue):
    one = queue("topic VARCHAR(10), payload VARCHAR(10)")
    fill(sql, one, "a")
    with pytest.raises(SchemaError, match=r"has a column topic itself.*sourceColumn"):
        several([one, queue()]).plan()
    query = several([], Checkpoint(), path=one, sourceColumn="from", columns="payload, from, topic")
    assert query.batch() == [("a", one, None)]
    assert several([], query.checkpoint, path=one, sourceColumn="from", columns="from").source.report() == {
        "sources": {}
    }


def test_the_progress_has_the_counts_of_each(several, sql, queue):
    one, other = queue(), queue()
    fill(sql, one, "a", "b")
    query = several([one, other])
    query.plan()
    report = query.source.report()["sources"]
    assert report[one]["claimed"] == 2 and report[other]["claimed"] == 0

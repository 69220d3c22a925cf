"""mode=tail on a topic: everything once in the order of ids, nothing passed over, what was deleted is told."""

from __future__ import annotations

import time

import pytest
from servers import Sql, wait_until
from spark_stand_in import Checkpoint, options_of

from spark_connector.errors import DataLossError, OptionError, QueueError
from spark_connector.options import stream_read
from spark_connector.sources.schema import schema

pytestmark = pytest.mark.long

DAY_NS = 86_400_000_000_000
WAIT_SECONDS = 60


def fill(sql: Sql, topic: str, *payloads: object) -> None:
    sql(f"INSERT INTO {topic} (payload) VALUES {', '.join(f'({str(payload)!r})' for payload in payloads)}")


def came(query) -> list[str]:
    return [payload for _, payload in query.batch()]


def until(query, count: int) -> list[str]:
    """The messages of micro-batches until there are so many."""
    wait_until(lambda: query.batch() is not None and len(query.out) >= count, WAIT_SECONDS, f"{count} messages")
    return [payload for _, payload in query.out]


@pytest.fixture
def tail(begin):
    def make(topic, checkpoint=None, limit=20_000, **options):
        return begin(topic, checkpoint, limit, mode="tail", **{"startingOffsets": "earliest", **options})

    return make


def test_a_topic_is_read_whole_by_every_query_and_by_its_groups_besides(tail, sql, topic):
    name = topic(billing="START AT EARLIEST")
    fill(sql, name, *range(10))
    one, other = tail(name, limit=4), tail(name)
    assert [len(one.batch()) for _ in range(4)] == [4, 4, 2, 0]
    assert [payload for _, payload in one.out] == came(other) == [str(number) for number in range(10)]
    assert [row[0] for row in one.out] == list(range(1, 11))  # the offset is the id
    fill(sql, name, "next")
    assert came(one) == came(other) == ["next"]
    assert len(sql.rows(f"SELECT * FROM STREAM {name} WITH (group = 'billing') NOWAIT")) == 11


def test_its_columns_are_those_of_the_topic(gate, topic):
    name = topic("payload VARCHAR(256), total DECIMAL(10,2)")
    columns = "`id` bigint NOT NULL, `time_scheduled` bigint NOT NULL, `time_created` bigint NOT NULL"
    assert schema(options_of(gate, name)) == f"{columns}, `payload` string, `total` decimal(10,2)"


@pytest.mark.parametrize("first", ["a", "b", "c"])
def test_an_id_to_begin_with_is_the_first_that_is_read(tail, sql, topic, first):
    name = topic()
    fill(sql, name, "a", "b", "c")
    id_ = sql.value(f"SELECT id FROM {name} WHERE payload = %s", first)
    assert came(tail(name, startingOffsets=id_)) == [one for one in "abc" if one >= first]


def test_an_id_beyond_the_end_is_refused_and_the_next_one_is_not(tail, sql, topic):
    name = topic()
    fill(sql, name, "a")
    query = tail(name, startingOffsets=2)
    assert came(query) == []
    fill(sql, name, "b")
    assert came(query) == ["b"]
    with pytest.raises(QueueError, match=f"startingOffsets is 4, and the last message of topic {name} is 2"):
        tail(name, startingOffsets=4).plan()


def test_an_empty_topic_takes_any_id_to_begin_with(tail, sql, topic):
    """What its messages had is not known here; it may have been emptied by its retention."""
    name = topic()
    fill(sql, name, "a", "b")
    sql(f"DELETE FROM {name}")
    query = tail(name, startingOffsets=3)
    assert came(query) == []
    fill(sql, name, "c")
    assert came(query) == ["c"]


def test_a_time_to_begin_with(tail, begin, sql, topic):
    name = topic()
    fill(sql, name, "old", "new")
    now = int(sql.value(f"SELECT MAX(time_created) FROM {name}"))
    sql(f"UPDATE {name} SET time_created = {now - 2 * DAY_NS} WHERE payload = 'old'")
    assert came(tail(name, startingOffsets="latest")) == []
    for days, expected in ((-3, ["old", "new"]), (-1, ["new"]), (1, [])):
        at = (now + days * DAY_NS) // 1_000_000
        assert came(begin(name, mode="tail", startingTimestamp=at)) == expected


def test_a_smaller_id_that_is_committed_later_is_not_passed_over(tail, gate, sql, topic, connect, place):
    if place == "embedded":
        pytest.skip("the embedded database has one writer: ids are committed in their order")
    name = topic()
    fill(sql, name, "a")
    slow = connect(autocommit=False)
    fill(slow, name, "slow")
    fill(sql, name, "b", "c")
    query = tail(name)
    assert came(query) == ["a"]
    assert not query.plan()
    report = {"id": 1, "behind": 2, "waitingForId": 2, "missing": 0}
    assert query.source.report() == {"queue": f"{gate.database}.{name}", **report}
    slow.connection.commit()
    assert came(query) == ["slow", "b", "c"]


def test_latest_has_what_open_transactions_commit_later(tail, sql, topic, connect, place):
    if place == "embedded":
        pytest.skip("the embedded database has one writer: ids are committed in their order")
    name = topic()
    fill(sql, name, "before")
    slow = connect(autocommit=False)
    fill(slow, name, "slow")
    fill(sql, name, "b")
    query = tail(name, startingOffsets="latest")
    assert came(query) == []
    slow.connection.commit()
    assert came(query) == ["slow", "b"]


def test_earliest_has_a_first_message_that_is_committed_later(tail, sql, topic, connect, place):
    if place == "embedded":
        pytest.skip("the embedded database has one writer: ids are committed in their order")
    name = topic()
    slow = connect(autocommit=False)
    fill(slow, name, "slow")
    fill(sql, name, "b")
    query = tail(name)
    assert came(query) == []
    slow.connection.commit()
    assert came(query) == ["slow", "b"]


def test_ids_that_were_rolled_back_hold_nothing_up_for_long(tail, sql, topic, connect, place):
    if place == "embedded":
        pytest.skip("the embedded database has one writer: ids are committed in their order")
    name = topic()
    slow = connect(autocommit=False)
    fill(slow, name, "never")
    fill(sql, name, "b")
    query = tail(name)
    slow.connection.rollback()
    assert until(query, 1) == ["b"]
    assert query.source.report()["missing"] == 0


def test_a_time_that_the_application_made_up_lets_no_id_be_passed_over(tail, sql, topic, connect, place):
    """A message that says it is old, behind an id that is missing: it waits as a young one does."""
    if place == "embedded":
        pytest.skip("the embedded database has one writer: ids are committed in their order")
    name = topic()
    slow = connect(autocommit=False)
    fill(slow, name, "never")
    slow.connection.rollback()
    old = int(sql.value("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) AS SIGNED)")) * 1_000_000_000 - DAY_NS
    sql(f"INSERT INTO {name} (time_created, payload) VALUES ({old}, 'old')")
    query = tail(name)
    assert came(query) == []  # at the first look nobody knows how long ago the missing id was given
    assert until(query, 1) == ["old"]


def test_available_now_ends_with_what_was_there_at_its_begin(tail, sql, topic):
    name = topic()
    fill(sql, name, *range(10))
    query = tail(name, limit=4)
    query.source.prepare_available_now()
    fill(sql, name, "later")
    assert [payload for _, payload in query.drain()] == [str(number) for number in range(10)]


# --- what was deleted


def away(checkpoint: Checkpoint) -> None:
    """The query has been down for two days."""
    checkpoint.offsets[-1]["seen"] -= 2 * DAY_NS


def test_messages_that_were_deleted_before_they_were_read_are_an_error_with_their_count(tail, sql, topic):
    name = topic()
    fill(sql, name, "a", "b", "c", "d", "e")
    query = tail(name, limit=2)
    assert came(query) == ["a", "b"]
    query.kill()
    away(query.checkpoint)
    sql(f"DELETE FROM {name} WHERE payload < 'e'")
    with pytest.raises(DataLossError, match=r"from id 3 to 4 are not there any more \(2, .*failOnDataLoss=false"):
        tail(name, query.checkpoint, pollTimeoutMs=5000).plan()
    going_on = tail(name, query.checkpoint, pollTimeoutMs=5000, failOnDataLoss="false")
    assert came(going_on) == ["e"]
    assert going_on.source.report()["missing"] == 2
    fill(sql, name, "f")
    assert came(going_on) == ["f"]
    assert going_on.source.report()["missing"] == 2


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_query_that_began_on_an_emptied_topic_has_lost_nothing(tail, sql, topic, starting):
    name = topic()
    fill(sql, name, "a", "b", "c")
    sql(f"DELETE FROM {name}")
    query = tail(name, startingOffsets=starting)
    assert came(query) == []
    query.kill()
    away(query.checkpoint)
    fill(sql, name, "d")
    assert came(tail(name, query.checkpoint, startingOffsets=starting, pollTimeoutMs=5000)) == ["d"]


def test_what_was_deleted_before_a_query_at_earliest_began_is_no_loss(tail, sql, topic):
    """Its first micro-batch is empty, because nobody knows yet how long ago the missing ids were given."""
    name = topic()
    fill(sql, name, "a", "b", "c")
    sql(f"DELETE FROM {name} WHERE payload < 'c'")
    query = tail(name, pollTimeoutMs=0)
    assert came(query) == []
    away(query.checkpoint)
    assert until(query, 1) == ["c"]


def test_messages_that_were_read_may_be_deleted(tail, sql, topic):
    name = topic()
    fill(sql, name, "a", "b")
    query = tail(name)
    assert came(query) == ["a", "b"]
    query.kill()
    away(query.checkpoint)
    sql(f"DELETE FROM {name}")
    fill(sql, name, "c")
    assert came(tail(name, query.checkpoint)) == ["c"]


def test_ids_that_are_missing_in_the_midst_of_a_topic_are_no_loss(tail, sql, topic):
    name = topic()
    fill(sql, name, "a", "b", "c")
    query = tail(name, limit=1, pollTimeoutMs=5000)
    assert came(query) == ["a"]
    away(query.checkpoint)
    sql(f"DELETE FROM {name} WHERE payload = 'b'")
    assert came(query) == ["c"]


def test_a_repeated_batch_that_lost_messages_is_an_error(tail, sql, topic):
    name = topic()
    fill(sql, name, "a", "b", "c")
    query = tail(name)
    assert query.plan()
    query.kill()
    sql(f"DELETE FROM {name} WHERE payload = 'b'")
    again = tail(name, query.checkpoint)
    assert again.plan()
    with pytest.raises(DataLossError, match=f"topic {name}: 1 messages of the micro-batch"):
        again.parts()


def test_another_topic_of_the_same_name_is_recognised(tail, sql, topic):
    name = topic()
    fill(sql, name, "a", "b", "c")
    query = tail(name)
    assert came(query) == ["a", "b", "c"]
    query.kill()
    away(query.checkpoint)
    sql(f"DROP TOPIC {name}")
    sql(f"CREATE TOPIC {name} (payload VARCHAR(256))")
    fill(sql, name, "new")
    again = tail(name, query.checkpoint)
    with pytest.raises(
        QueueError, match=f"has read topic {name} up to id 3, and now it ends with 1, a message that is"
    ):
        again.plan()


def test_a_topic_whose_last_messages_were_deleted_goes_on(tail, sql, topic):
    name = topic()
    fill(sql, name, "a", "b", "c")
    query = tail(name)
    assert came(query) == ["a", "b", "c"]
    sql(f"DELETE FROM {name} WHERE payload > 'a'")
    assert not query.plan()
    fill(sql, name, "d")
    assert came(query) == ["d"]


# --- how much at a time


def test_a_batch_waits_for_messages_and_not_for_ever(tail, sql, topic):
    name = topic()
    fill(sql, name, "a")
    query = tail(name, minOffsetsPerTrigger=3, maxTriggerDelay="1h")
    assert came(query) == ["a"]  # the first one does not wait, as with Kafka
    fill(sql, name, "b", "c")
    assert not query.plan()
    fill(sql, name, "d")
    assert came(query) == ["b", "c", "d"]
    soon = tail(name, minOffsetsPerTrigger=100, maxTriggerDelay="2s")
    assert came(soon) == ["a", "b", "c", "d"]
    began = time.monotonic()
    fill(sql, name, "e")
    assert until(soon, 5)[-1] == "e"
    assert time.monotonic() - began > 1


def test_available_now_waits_for_no_more_messages(tail, sql, topic):
    name = topic()
    fill(sql, name, *range(5))
    query = tail(name, limit=3, minOffsetsPerTrigger=3, maxTriggerDelay="1h")
    query.source.prepare_available_now()
    assert len(query.drain()) == 5


def test_minimum_and_maximum_go_together():
    at = {"user": "root", "database": "d", "topic": "t", "mode": "tail"}
    assert stream_read({**at, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "5"}).max_delay == 15 * 60
    with pytest.raises(OptionError, match="minOffsetsPerTrigger is 6, more than maxOffsetsPerTrigger, which is 5"):
        stream_read({**at, "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"})
    with pytest.raises(OptionError, match="maxTriggerDelay needs minOffsetsPerTrigger"):
        stream_read({**at, "maxTriggerDelay": "1m"})
    with pytest.raises(OptionError, match="maxTriggerDelay is a duration, as in 500ms, 30s, 15m or 1h, not 'soon'"):
        stream_read({**at, "minOffsetsPerTrigger": "6", "maxTriggerDelay": "soon"})


def test_a_batch_has_no_more_bytes_than_that(tail, sql, topic):
    name = topic("payload MEDIUMTEXT")
    sql(f"INSERT INTO {name} (payload) VALUES (REPEAT('x', 100)), (REPEAT('x', 100)), (REPEAT('x', 900)), ('x')")
    query = tail(name, maxBytesPerTrigger=300)
    assert [len(query.batch()) for _ in range(4)] == [2, 1, 1, 0]


def test_several_servers_that_give_ids_in_turn_are_refused(tail, sql, topic, monkeypatch):
    name = topic()
    monkeypatch.setattr("spark_connector.client.topic_log._STEP", "SELECT 2")
    with pytest.raises(QueueError, match="several servers give ids here"):
        tail(name).plan()

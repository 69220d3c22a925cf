"""mode=tail on a topic whose messages have numbers: it goes by them, and waits for nobody (docs/spark.md#numbers)."""

from __future__ import annotations

import pytest
from servers import Sql, wait_until
from spark_stand_in import Checkpoint, options_of

from spark_connector.client.columns import Field
from spark_connector.errors import DataLossError, QueueError, SchemaError
from spark_connector.sources.schema import schema
from spark_connector.writing.plan import plan

pytestmark = pytest.mark.long

DAY_NS = 86_400_000_000_000
HOUR_NS = 3_600_000_000_000
SETTING = "SET SESSION lock_wait_timeout = 3601"  # which any server has, in the place of a cluster's


def fill(sql: Sql, topic: str, *payloads: object) -> None:
    sql(f"INSERT INTO {topic} (payload) VALUES {', '.join(f'({str(payload)!r})' for payload in payloads)}")


def came(query) -> list[str]:
    return [payload for _, payload in query.batch()]


def away(checkpoint: Checkpoint) -> None:
    """The query has been down for two days."""
    checkpoint.offsets[-1]["seen"] -= 2 * DAY_NS


@pytest.fixture
def topic(topic, place):
    """Makes topics with numbers; where there are none, the test is not for that place."""
    if place == "embedded":
        pytest.skip("there are no numbers: one transaction writes at a time, so ids are in order")

    def make(columns="payload VARCHAR(256)", sequence="on", **groups):
        return topic(columns, options=f"WITH (sequence = '{sequence}')", **groups)

    return make


@pytest.fixture
def tail(begin):
    def make(topic, checkpoint=None, limit=20_000, **options):
        return begin(topic, checkpoint, limit, mode="tail", **{"startingOffsets": "earliest", **options})

    return make


@pytest.fixture
def mixed(topic, sql, connect):
    """A topic of c, d, a, b in the order of their numbers, 1 to 4, and of a, b, c, d in the order of their ids."""

    def make(columns="payload VARCHAR(256)") -> str:
        name = topic(columns)
        slow = connect(autocommit=False)
        fill(slow, name, "a", "b")
        fill(sql, name, "c", "d")
        sql.rows(f"SELECT id FROM STREAM {name} SINCE EARLIEST")
        slow.connection.commit()
        sql.rows(f"SELECT id FROM STREAM {name} SINCE EARLIEST")
        return name

    return make


def test_messages_come_in_the_order_of_their_commits_and_nobody_is_waited_for(tail, gate, sql, topic, connect):
    name = topic(billing="START AT EARLIEST")
    slow, gone = connect(autocommit=False), connect(autocommit=False)
    fill(slow, name, "slow")
    fill(gone, name, "gone")
    fill(sql, name, "a", "b")
    gone.connection.rollback()
    query, other = tail(name), tail(name, limit=1)
    assert came(query) == ["a", "b"]
    at = {"queue": f"{gate.database}.{name}", "number": 2, "behind": 0, "waitingForId": None, "missing": 0}
    assert query.source.report() == at
    assert not query.plan()
    slow.connection.commit()
    sql(f"INSERT INTO {name} (payload, time_scheduled) VALUES ('later', 4000000000000000000)")
    client = query.source._connection._connected()
    assert query.source._get_order().behind(client, 2, 10) == 2  # although they have no numbers yet
    assert came(query) == ["slow", "later"]
    assert [payload for _, payload in other.drain()] == ["a", "b", "slow", "later"]
    assert query.checkpoint.offsets[-1].items() >= {"number": 4, "since": 2, "count": 2}.items()
    assert "id" not in query.checkpoint.offsets[-1]
    assert len(sql.rows(f"SELECT * FROM STREAM {name} WITH (group = 'billing') NOWAIT")) == 3  # nothing is taken


def test_a_batch_is_the_same_when_it_is_repeated(tail, sql, mixed):
    name = mixed()
    query = tail(name, limit=3, numPartitions=2, fetchsize=1)
    assert query.plan()
    before = query.run()
    assert [payload for _, payload in before] == ["c", "d", "a"]
    query.kill()
    fill(sql, name, "more")
    again = tail(name, query.checkpoint, limit=3)
    assert again.plan()
    assert again.run() == before
    again.kill()
    sql(f"DELETE FROM {name} WHERE payload = 'd'")
    with pytest.raises(DataLossError, match="1 messages of the micro-batch from number 1 to 3, which is repeated"):
        tail(name, query.checkpoint, limit=3).parts()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "earliest"}, "cdab"),
        ({"startingOffsets": 3}, "ab"),
        ({"startingOffsets": 5}, ""),
        ({"startingOffsets": "latest"}, ""),
    ],
)
def test_where_a_query_begins(tail, sql, mixed, options, expected):
    name = mixed()
    query = tail(name, **options)
    assert came(query) == list(expected)
    fill(sql, name, "new")
    assert came(query) == ["new"]
    with pytest.raises(QueueError, match=f"startingOffsets is 7, and the last message of topic {name} is 5"):
        tail(name, startingOffsets=7).plan()


def test_a_time_to_begin_with_is_found_where_numbers_and_times_differ_in_order(begin, sql, mixed, monkeypatch):
    monkeypatch.setattr("spark_connector.client.topic_log._AROUND", 1)
    name = mixed()
    now = int(sql.value(f"SELECT MAX(time_created) FROM {name}"))
    sql(f"UPDATE {name} SET time_created = {now - 2 * HOUR_NS} WHERE payload = 'a'")  # a long transaction
    for hours, expected in ((3, "cdab"), (1, "cdab"), (-1, "")):
        query = begin(name, mode="tail", startingTimestamp=(now - hours * HOUR_NS) // 1_000_000)
        assert came(query) == list(expected)
    sql(f"UPDATE {name} SET time_created = {now - 4 * HOUR_NS} WHERE payload = 'c'")
    assert came(begin(name, mode="tail", startingTimestamp=(now - 3 * HOUR_NS) // 1_000_000)) == list("dab")


def test_latest_and_available_now_have_what_is_committed_numbered(tail, sql, topic):
    name = topic()
    fill(sql, name, *range(5))
    latest, query = tail(name, startingOffsets="latest"), tail(name, limit=2)
    assert came(latest) == []
    fill(sql, name, 5)
    query.source.prepare_available_now()
    fill(sql, name, "later")
    assert [payload for _, payload in query.drain()] == [str(number) for number in range(6)]
    assert came(latest) == ["5", "later"]


def test_a_message_that_somebody_has_locked_holds_no_other_up(tail, sql, topic, connect):
    name = topic()
    fill(sql, name, "locked", "a")
    client = connect(autocommit=False)
    client.rows(f"SELECT id FROM {name} WHERE payload = 'locked' ORDER BY id LIMIT 1 FOR UPDATE")
    query = tail(name)
    assert came(query) == ["a"]
    assert not query.plan()
    assert query.source.report()["behind"] == 1
    client.connection.rollback()
    assert came(query) == ["locked"]
    assert query.source.report()["behind"] == 0


def test_a_batch_has_no_more_bytes_and_no_fewer_messages_than_that(tail, sql, mixed):
    name = mixed("payload MEDIUMTEXT")
    for payload, size in (("a", 100), ("b", 900), ("c", 100), ("d", 100)):
        sql(f"UPDATE {name} SET payload = REPEAT(payload, {size}) WHERE payload = '{payload}'")
    query = tail(name, maxBytesPerTrigger=300, minOffsetsPerTrigger=4, maxTriggerDelay="1h")
    assert [len(query.batch()) for _ in range(2)] == [2, 0]  # the first one does not wait, the second one does
    eager = tail(name, maxBytesPerTrigger=300)
    assert [len(eager.batch()) for _ in range(4)] == [2, 1, 1, 0]


def test_what_was_deleted_before_it_was_read_is_counted_by_numbers(tail, sql, mixed):
    name = mixed()
    query = tail(name, limit=1)
    assert came(query) == ["c"]
    query.kill()
    away(query.checkpoint)
    sql(f"DELETE FROM {name} WHERE queuegate_seq <= 3")
    with pytest.raises(DataLossError, match=r"with the numbers from 2 to 3 are not there any more \(2\)"):
        tail(name, query.checkpoint).plan()
    going_on = tail(name, query.checkpoint, failOnDataLoss="false")
    assert came(going_on) == ["b"]
    assert going_on.source.report()["missing"] == 2


def test_what_was_read_or_lies_in_the_midst_may_be_deleted(tail, sql, mixed):
    name = mixed()
    query = tail(name, limit=2)
    assert came(query) == ["c", "d"]
    away(query.checkpoint)
    sql(f"DELETE FROM {name} WHERE payload IN ('c', 'a')")
    query.kill()
    again = tail(name, query.checkpoint, limit=1)
    assert came(again) == ["b"]
    away(query.checkpoint)
    sql(f"DELETE FROM {name}")
    assert came(again) == []
    late = tail(name)
    assert not late.plan() or late.batch() == []  # it begins with nothing, and does not know which number comes next
    away(late.checkpoint)
    fill(sql, name, "e")
    assert came(again) == came(late) == ["e"]


def test_a_topic_made_anew_goes_on_with_the_numbers_and_so_does_a_query(tail, sql, topic):
    name = topic()
    fill(sql, name, "a", "b")
    query = tail(name)
    assert came(query) == ["a", "b"]
    query.kill()
    away(query.checkpoint)
    sql(f"DROP TOPIC {name}")
    sql(f"CREATE TOPIC {name} (payload VARCHAR(256)) WITH (sequence = 'on')")
    fill(sql, name, "new")
    assert came(tail(name, query.checkpoint)) == ["new"]


def test_a_checkpoint_of_the_other_order_is_refused(tail, gate, sql, topic, server_here):
    name = topic(sequence="off")
    fill(sql, name, "a", "b")
    query = tail(name)
    assert came(query) == ["a", "b"]
    query.kill()
    with server_here.connect(database=gate.database) as elsewhere:  # as through another proxy: this one does not know
        Sql(elsewhere)(
            f"ALTER TABLE {name} ADD COLUMN queuegate_seq BIGINT NULL INVISIBLE, ADD UNIQUE KEY queuegate_seq"
            " (queuegate_seq), COMMENT='queuegate_topic,sequence=on'"
        )
    assert came(tail(name)) == ["a", "b"]
    with pytest.raises(QueueError, match=r"holds ids of messages, and topic .* has numbers .* startingOffsets"):
        tail(name, query.checkpoint).plan()
    numbered = tail(name, limit=1)
    assert came(numbered) == ["a"]
    assert numbered.plan()
    numbered.kill()
    sql(f"ALTER TOPIC {name} SET (sequence = 'off')")
    with pytest.raises(QueueError, match=r"holds numbers of messages, and topic .* has no numbers now"):
        tail(name, numbered.checkpoint).parts()


def test_a_look_is_one_statement_and_a_message_costs_few(tail, sql, topic, sent):
    name = topic()
    query = tail(name)
    for payload in ("a", "b"):
        fill(sql, name, payload)
        assert came(query) == [payload]
    assert not query.plan()
    sent.clear()
    assert not query.plan()
    query.source.report()
    assert len(sent) == 1, sent
    fill(sql, name, "c")
    sent.clear()
    assert came(query) == ["c"]
    assert len(sent) <= 10, sent


def test_the_number_is_a_column_as_kafkas_offset_is(begin, gate, sql, mixed):
    name = mixed()
    columns = "`id` bigint NOT NULL, `time_scheduled` bigint NOT NULL, `time_created` bigint NOT NULL"
    assert schema(options_of(gate, name)) == f"{columns}, `payload` string, `queuegate_seq` bigint"
    query = begin(name, mode="tail", startingOffsets="earliest", columns="queuegate_seq, payload")
    assert query.batch() == [(1, "c"), (2, "d"), (3, "a"), (4, "b")]
    with pytest.raises(SchemaError, match=r"gives the messages of topic .* their numbers: leave column queuegate_seq"):
        plan(query.source._get_queue(), [Field("payload", "string"), Field("queuegate_seq", "bigint")], None)


def test_a_topic_without_its_column_says_how_to_mend_it(tail, sql, topic):
    name = topic()
    sql(f"ALTER TABLE {name} DROP COLUMN queuegate_seq")
    with pytest.raises(QueueError, match=f"ALTER TOPIC {name} SET \\(sequence = 'on'\\) adds them"):
        tail(name).plan()
    sql(f"ALTER TOPIC {name} SET (sequence = 'on')")
    fill(sql, name, "a")
    wait_until(lambda: came(tail(name)) == ["a"], what="the proxy to know of the column")


def test_on_a_cluster_numbers_are_read_and_ids_are_refused(tail, sql, topic, queue, sent, monkeypatch):
    """A cluster as far as the connector asks; tests/galera has a real one."""
    monkeypatch.setattr("spark_connector.client.connection._CLUSTER", "SELECT 'wsrep_on', 'ON'")
    monkeypatch.setattr("spark_connector.client.connection.FRESH", SETTING)
    name, without, other = topic(), topic(sequence="off"), queue()
    fill(sql, name, "a")
    query = tail(name)
    assert came(query) == ["a"]
    assert sent.count(SETTING) == 2  # the driver's connection and the task's: either may lead to a node that is behind
    with pytest.raises(QueueError, match=f"several servers .* ALTER TOPIC {without} SET \\(sequence = 'on'\\)"):
        tail(without).plan()
    with pytest.raises(QueueError, match=f"cannot read queue {other} by its ids; read the queue with mode=queue"):
        tail(other).plan()

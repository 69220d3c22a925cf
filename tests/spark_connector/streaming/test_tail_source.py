"""mode=tail without Spark: nothing is taken, nothing is passed over, what went missing is told."""

from __future__ import annotations

import pytest
from servers import Sql
from spark_stand_in import Checkpoint

from spark_connector.errors import DataLossError, QueueError

DAY_NS = 86_400_000_000_000


def fill(sql: Sql, queue: str, *payloads: object) -> None:
    sql(f"INSERT INTO {queue} (payload) VALUES {', '.join(f'({str(payload)!r})' for payload in payloads)}")


def came(query) -> list[str]:
    return [payload for _, payload in query.batch()]


@pytest.fixture
def tail(begin):
    def make(queue, checkpoint=None, limit=20_000, **options):
        return begin(queue, checkpoint, limit, mode="tail", **{"startingOffsets": "earliest", **options})

    return make


def test_everything_is_read_and_nothing_is_taken(tail, sql, queue):
    name = queue()
    fill(sql, name, *range(10))
    sql(f"ACK {name} WHERE payload = '3'")
    sql(f"UPDATE {name} SET time_next = {DAY_NS} * 30000 WHERE payload = '4'")
    one, other = tail(name, limit=4), tail(name, limit=100)
    assert [len(one.batch()) for _ in range(4)] == [4, 4, 2, 0]
    assert [payload for _, payload in one.out] == came(other) == [str(number) for number in range(10)]
    assert sql.value(f"SELECT MAX(epoch) FROM {name}") == 0
    fill(sql, name, "next")
    assert came(one) == came(other) == ["next"]


def test_latest_begins_behind_what_is_there_and_is_logged_at_once(tail, sql, queue):
    name = queue()
    fill(sql, name, 1, 2)
    checkpoint = Checkpoint()
    query = tail(name, checkpoint, startingOffsets="latest")
    assert came(query) == []
    assert len(checkpoint.offsets) == 1
    query.kill()
    fill(sql, name, 3)
    again = tail(name, checkpoint, startingOffsets="latest")
    assert came(again) == ["3"]
    assert not again.plan()


def test_an_id_to_begin_behind(tail, sql, queue):
    name = queue()
    fill(sql, name, 1, 2, 3)
    first = sql.value(f"SELECT MIN(id) FROM {name}")
    assert came(tail(name, startingOffsets=first)) == ["2", "3"]


def test_the_first_batch_is_the_same_when_it_is_repeated(tail, sql, queue):
    name = queue()
    fill(sql, name, 1, 2)
    for starting in ("earliest", "latest"):
        checkpoint = Checkpoint()
        query = tail(name, checkpoint, startingOffsets=starting)
        assert query.plan()
        before = query.run()
        query.kill()
        fill(sql, name, "more")
        again = tail(name, checkpoint, startingOffsets=starting)
        assert again.plan()
        assert again.run() == before


def test_a_smaller_id_that_is_committed_later_is_not_passed_over(tail, gate, sql, queue, connect, place):
    if place == "embedded":
        pytest.skip("the embedded database has one writer: ids are committed in their order")
    name = queue()
    fill(sql, name, "a")
    slow = connect(autocommit=False)
    fill(slow, name, "slow")
    fill(sql, name, "b", "c")
    query = tail(name)
    assert came(query) == ["a"]
    assert not query.plan()
    waits = sql.value(f"SELECT MIN(id) + 1 FROM {name}")
    report = {"id": waits - 1, "behind": 2, "waitingForId": waits, "missing": 0}
    assert query.source.report() == {"queue": f"{gate.database}.{name}", **report}
    slow.connection.commit()
    assert came(query) == ["slow", "b", "c"]


def test_a_transaction_that_is_rolled_back_holds_nothing_up(tail, sql, queue, connect, place):
    if place == "embedded":
        pytest.skip("the embedded database has one writer: ids are committed in their order")
    name = queue()
    slow = connect(autocommit=False)
    fill(slow, name, "never")
    fill(sql, name, "b")
    query = tail(name, pollTimeoutMs=2000)
    slow.connection.rollback()
    assert came(query) == ["b"]


def test_nobody_waits_for_a_tail_nor_it_for_an_ack(tail, sql, queue, connect, place):
    if place == "embedded":
        pytest.skip("the embedded database has one writer")
    name = queue()
    fill(sql, name, "a", "b")
    client = connect(autocommit=False)
    client(f"ACK {name} WHERE payload = 'a'")
    assert came(tail(name)) == ["a", "b"]
    client.connection.rollback()


def test_available_now_ends_with_what_was_there_at_its_begin(tail, sql, queue):
    name = queue()
    fill(sql, name, *range(10))
    query = tail(name, limit=4)
    query.source.prepare_available_now()
    fill(sql, name, "later")
    assert [payload for _, payload in query.drain()] == [str(number) for number in range(10)]


def test_all_there_is_in_one_batch(tail, sql, queue, monkeypatch):
    monkeypatch.setattr("spark_connector.streaming.tail_source._POLL_MAX", 4)
    name = queue()
    fill(sql, name, *range(10))
    assert came(tail(name, limit=None, numPartitions=3, fetchsize=2)) == [str(number) for number in range(10)]


@pytest.mark.parametrize("columns", ["id VARCHAR(36) PRIMARY KEY, payload TEXT", "id BIGINT PRIMARY KEY, payload TEXT"])
def test_ids_that_are_not_auto_increment_are_refused(tail, queue, columns):
    with pytest.raises(QueueError, match="AUTO_INCREMENT"):
        tail(queue(columns)).plan()


# --- what was purged


def aged(sql: Sql, name: str, *payloads: object) -> None:
    """Messages made two days ago."""
    fill(sql, name, *payloads)
    sql(f"UPDATE {name} SET time_created = time_created - {2 * DAY_NS} WHERE time_created > %s", two_days(sql))


def two_days(sql: Sql) -> int:
    return int(sql.value("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) AS SIGNED)")) * 1_000_000_000 - DAY_NS


def age_offset(checkpoint: Checkpoint) -> None:
    """The query has been down for two days."""
    checkpoint.offsets[-1]["seen"] -= 2 * DAY_NS


def test_messages_that_were_purged_while_the_query_was_down_are_an_error(tail, sql, queue):
    name = queue()
    fill(sql, name, "a")
    query = tail(name)
    assert came(query) == ["a"]
    query.kill()
    age_offset(query.checkpoint)
    fill(sql, name, "b", "c", "d")
    sql(f"DELETE FROM {name} WHERE payload IN ('b', 'c')")
    with pytest.raises(DataLossError, match=r"of the ids from \d+ to \d+, 2 are missing.*failOnDataLoss=false"):
        tail(name, query.checkpoint, pollTimeoutMs=2000).plan()
    going_on = tail(name, query.checkpoint, pollTimeoutMs=2000, failOnDataLoss="false")
    assert came(going_on) == ["d"]
    assert going_on.source.report()["missing"] == 2


def test_gaps_that_the_purge_cannot_have_made_are_none(tail, sql, queue):
    name = queue()
    fill(sql, name, "a")
    query = tail(name, pollTimeoutMs=2000)
    assert came(query) == ["a"]
    fill(sql, name, "b", "c")
    sql(f"DELETE FROM {name} WHERE payload = 'b'")
    assert came(query) == ["c"]


def test_gaps_of_what_was_there_before_the_query_are_none(tail, sql, queue):
    name = queue()
    aged(sql, name, "a", "b", "c", "d", "e")
    sql(f"DELETE FROM {name} WHERE payload IN ('b', 'd')")
    query = tail(name, pollTimeoutMs=5000)
    assert came(query) + came(query) == ["a", "c", "e"]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_query_that_began_on_an_emptied_queue_has_lost_nothing(tail, sql, queue, starting):
    """What its messages were called is not known then."""
    name = queue()
    fill(sql, name, "a", "b", "c")
    sql(f"DELETE FROM {name}")
    query = tail(name, startingOffsets=starting)
    assert came(query) == []
    query.kill()
    age_offset(query.checkpoint)
    fill(sql, name, "d")
    assert came(tail(name, query.checkpoint, startingOffsets=starting, pollTimeoutMs=5000)) == ["d"]


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "available now"])
def test_a_query_that_finds_nothing_stores_now_and_then_that_it_has_seen_everything(tail, sql, queue, ends):
    name = queue()
    fill(sql, name, "a")
    query = tail(name)
    assert came(query) == ["a"] and not query.plan()
    query.kill()
    query.checkpoint.offsets[-1]["seen"] -= DAY_NS // 2  # the default of purge_after is a day
    idle = tail(name, query.checkpoint)
    if ends:
        idle.source.prepare_available_now()
    assert idle.plan() and idle.run() == []
    idle.finish()
    assert not idle.plan(), "not again so soon"
    idle.kill()
    offset = query.checkpoint.offsets[-1]
    assert offset["id"] == offset["since"] and offset["seen"] > two_days(sql) + DAY_NS // 2
    offset["seen"] -= int(0.8 * DAY_NS)
    sql(f"INSERT INTO {name} (id, payload) VALUES (100, 'b')")  # ids that were rolled back
    assert came(tail(name, query.checkpoint, pollTimeoutMs=5000)) == ["b"]


def test_a_batch_that_lost_messages_before_it_was_repeated_is_an_error(tail, sql, queue):
    name = queue()
    fill(sql, name, "a", "b", "c")
    query = tail(name)
    assert query.plan()
    query.kill()
    sql(f"DELETE FROM {name} WHERE payload = 'b'")
    again = tail(name, query.checkpoint)
    assert again.plan()
    with pytest.raises(DataLossError, match="1 messages of the micro-batch"):
        again.parts()
    going_on = tail(name, query.checkpoint, failOnDataLoss="false")
    assert going_on.plan()
    assert [payload for _, payload in going_on.run()] == ["a", "c"]

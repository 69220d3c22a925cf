"""mode=queue without Spark: a checkpoint that is not the newest state of itself is refused, and nothing is lost."""

from __future__ import annotations

import copy

import pytest
from servers import Sql
from spark_stand_in import Checkpoint, Query

from spark_connector.errors import CheckpointError
from spark_connector.streaming import checkpoints
from spark_connector.streaming.claims import table_name
from spark_connector.streaming.offsets import MicroBatch

PER_BATCH = 10


def fill(sql: Sql, queue: str, count: int = PER_BATCH) -> None:
    sql(f"INSERT INTO {queue} (payload) VALUES {', '.join(['(%s)'] * count)}", *map(str, range(count)))


def unacked(sql: Sql, queue: str) -> int:
    return int(sql.value(f"SELECT COUNT(*) FROM {queue} WHERE time_acked IS NULL"))


def batches(sql: Sql, query: Query, queue: str, count: int) -> None:
    for _ in range(count):
        fill(sql, queue)
        assert len(query.batch()) == PER_BATCH


@pytest.mark.parametrize("running", [False, True], ids=["between micro-batches", "in the middle of one"])
def test_a_checkpoint_that_was_restored_is_refused_and_takes_nothing(begin, sql, queue, running):
    name = queue()
    query = begin(name)
    batches(sql, query, name, 2)
    if running:
        fill(sql, name)
        assert query.plan()
    backup = copy.deepcopy(query.checkpoint)
    if running:
        query.run()
        query.finish()
    batches(sql, query, name, 3)
    assert not query.plan()
    query.kill()
    fill(sql, name)
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"restored from a backup.*new checkpointLocation"):
            begin(name, copy.deepcopy(backup)).batch()
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE state = 'to_be_fired'") == PER_BATCH
    assert sql.value(f"SELECT COUNT(*) FROM {table_name(name)}") == 0
    assert len(begin(name, query.checkpoint).drain()) == PER_BATCH, "the newest state of it goes on"
    assert unacked(sql, name) == 0


def test_without_the_newest_offset_the_same_messages_come_again(begin, sql, queue):
    """Files of `offsets` that were deleted: what was claimed beyond is what is claimed again."""
    name = queue()
    query = begin(name)
    batches(sql, query, name, 2)
    fill(sql, name)
    assert query.plan()
    rows = query.run()
    query.kill()
    query.checkpoint.offsets.pop()
    fill(sql, name)
    again = begin(name, query.checkpoint)
    assert again.batch() == rows
    assert len(again.drain()) == 2 * PER_BATCH
    assert unacked(sql, name) == 0


def test_without_the_logs_of_what_is_done_the_last_micro_batch_is_repeated_empty(begin, sql, queue):
    """Files of `commits` that were deleted; or that were lost with the machine, though the ack was not."""
    name = queue()
    query = begin(name)
    batches(sql, query, name, 3)
    assert not query.plan()
    query.kill()
    query.checkpoint.done -= 1
    fill(sql, name)
    again = begin(name, query.checkpoint)
    assert again.batch() == []
    assert len(again.drain()) == PER_BATCH
    assert unacked(sql, name) == 0


def test_of_two_queries_on_copies_of_a_checkpoint_one_ends(begin, sql, queue):
    name = queue()
    one = begin(name)
    batches(sql, one, name, 2)
    other = begin(name, copy.deepcopy(one.checkpoint))
    fill(sql, name)
    assert other.plan()
    with pytest.raises(CheckpointError, match="another query has begun from the same checkpoint"):
        while True:
            fill(sql, name)
            one.batch()
    other.run()
    other.finish()
    other.drain()
    assert unacked(sql, name) == 0


def test_a_query_that_was_overtaken_while_it_was_idle_claims_nothing(begin, sql, queue):
    name = queue()
    one = begin(name)
    batches(sql, one, name, 1)
    assert not one.plan()
    other = begin(name, copy.deepcopy(one.checkpoint))
    assert not other.plan()
    fill(sql, name)
    with pytest.raises(CheckpointError, match="another query has begun"):
        one.plan()
    assert len(other.drain()) == PER_BATCH


def test_a_copy_that_was_left_behind_is_refused(begin, sql, queue):
    name = queue()
    one = begin(name)
    batches(sql, one, name, 2)
    one.kill()
    moved = begin(name, copy.deepcopy(one.checkpoint))
    batches(sql, moved, name, 2)
    moved.kill()
    with pytest.raises(CheckpointError, match="copied"):
        begin(name, one.checkpoint).plan()


# --- sinks that pass over what they are given


def test_what_no_task_has_read_is_not_acked(begin, sql, queue):
    """A folder of Parquet files with a new checkpoint: its own log has the numbers of these micro-batches."""
    name = queue()
    fill(sql, name)
    query = begin(name)
    assert query.plan()
    assert query.parts()
    query.finish()  # and nobody has read it
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"no task has read it.*a new folder"):
            query.plan()
        query.kill()
        query = begin(name, query.checkpoint)
    assert unacked(sql, name) == PER_BATCH
    thrown = begin(name, query.checkpoint, onUnread="ack")
    assert not thrown.plan()
    assert unacked(sql, name) == 0


def test_a_micro_batch_that_an_earlier_run_has_read_may_be_passed_over(begin, sql, queue):
    name = queue()
    fill(sql, name)
    query = begin(name)
    assert query.plan()
    assert query.run()
    query.kill()
    again = begin(name, query.checkpoint)
    assert again.plan() and again.parts()
    again.finish()  # the sink has it from before
    assert not again.plan()
    assert unacked(sql, name) == 0


def test_a_query_whose_offsets_were_deleted_is_refused_by_its_number(begin, sql, queue):
    """A foreachBatch reads all it is given, and may pass over numbers that it knows."""
    name = queue()
    query = begin(name)
    for number in range(3):
        fill(sql, name)
        run(query, number)
    assert not query.plan()
    query.kill()
    fill(sql, name)
    again = begin(name, Checkpoint())
    with pytest.raises(CheckpointError, match=r"micro-batch 0 of the query q was read before.*the last one was 2"):
        run(again, 0)
    assert unacked(sql, name) == PER_BATCH
    assert len(begin(name, Checkpoint()).source.report() or ()) == 0


def test_of_the_very_first_micro_batch_too(begin, sql, queue, tick):
    name = queue()
    fill(sql, name)
    query = begin(name)
    run(query, 0)
    assert not query.plan()
    query.kill()
    tick()
    fill(sql, name)
    with pytest.raises(CheckpointError, match="was read before"):
        run(begin(name, Checkpoint()), 0)


def test_one_query_may_read_a_queue_twice(begin, sql, queue):
    """Two loads in one query are two sources, each a group of its own, with the same numbers."""
    name = queue()
    one, other = begin(name, limit=PER_BATCH), begin(name, limit=PER_BATCH)
    fill(sql, name, 4 * PER_BATCH)
    for query in (one, other):
        assert query.plan()
    for number in range(2):
        for query in (one, other):
            run(query, number)


def run(query: Query, number: int) -> None:
    """A micro-batch of the query `q`, of which Spark tells its tasks."""
    assert query.plan()
    for part in query.parts():
        assert list(query.source.read(part, MicroBatch("q", number)))
    query.finish()


# --- what was there before


def test_a_checkpoint_from_before_there_was_a_table_goes_on(begin, sql, queue):
    name = queue()
    query = begin(name)
    batches(sql, query, name, 2)
    fill(sql, name)
    assert query.plan()
    query.run()
    query.kill()
    sql(f"DROP TABLE {checkpoints.table_name(name)}")
    again = begin(name, query.checkpoint)
    assert len(again.batch()) == PER_BATCH
    again.drain()
    assert unacked(sql, name) == 0


def test_a_checkpoint_that_is_newer_than_its_database_goes_on(begin, sql, queue):
    """The database was restored from a backup: what it has again is received again."""
    name = queue()
    query = begin(name)
    batches(sql, query, name, 3)
    assert not query.plan()
    query.kill()
    sql(f"UPDATE {checkpoints.table_name(name)} SET done_upto = 1, read_upto = 1")
    sql(f"UPDATE {name} SET time_acked = NULL, time_next = time_scheduled WHERE id > 20")
    again = begin(name, query.checkpoint)
    assert len(again.drain()) == PER_BATCH
    assert unacked(sql, name) == 0


def test_checkpoints_that_nobody_uses_are_forgotten_by_age(begin, sql, queue):
    name = queue()
    query = begin(name)
    batches(sql, query, name, 1)
    query.kill()
    table = checkpoints.table_name(name)
    sql(f"UPDATE {table} SET time_used = time_used - {401 * 86_400_000_000_000}")
    begin(name).plan()
    assert sql.value(f"SELECT COUNT(*) FROM {table}") == 1

"""The statements of the archive job over a real gate, without Spark: names of queues that hold a placeholder's sign."""

from __future__ import annotations

import pyarrow as pa
import pytest
from reading import options, own_fields
from servers import Gate, Sql

from spark_connector.client.connection import Client
from spark_connector.jobs.archive.intervals import Interval
from spark_connector.jobs.archive.queue import MAKE_TABLE, ArchivedQueue
from spark_connector.jobs.archive.slices import reader
from spark_connector.jobs.failures import JobError
from spark_connector.options import queue_address

NAME = "100%s of `it"
QUOTED = "`100%s of ``it`"


class Counter:
    """What an accumulator is to a task."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, more: int) -> None:
        self.value += more


def test_a_queue_with_a_percent_sign_in_its_name_is_counted_and_read(gate: Gate, sql: Sql):
    sql(f"CREATE QUEUE {QUOTED} (payload TEXT) WITH (archive = 1)")
    try:
        sql(f"INSERT INTO {QUOTED} (payload) VALUES ('a'), ('b'), ('c')")
        sql(f"ACK {QUOTED} 1, 2")
        options = {"host": "127.0.0.1", "port": str(gate.port), "user": "root", "database": gate.database}
        at = queue_address({**options, "queue": NAME})
        with Client(at.address) as client:
            archived = ArchivedQueue(client, NAME)
            interval = Interval(archived.archived_until(), archived.now_ns())
            assert sum(count for _, count in archived.buckets(interval)) == 2
            assert archived.tally(interval, lambda: False).count == 2
            counter = Counter()
            read = reader(at.address, archived.queue, own_fields(gate, NAME), (interval,), counter)
            numbers = pa.RecordBatch.from_pydict({"id": [0]})
            assert [p for batch in read(iter([numbers])) for p in batch.column("payload").to_pylist()] == ["a", "b"]
            assert counter.value == 2
    finally:
        sql(f"DROP QUEUE {QUOTED}")


def test_an_older_table_that_takes_two_queues_for_one_is_refused(gate: Gate, sql: Sql, queue):
    if gate.embedded:
        pytest.skip("the key there tells the names apart, whatever the column's collation")
    first = queue("n INT", archive=1)
    second = f"{first}_é"
    sql(f"CREATE QUEUE {second} (n INT) WITH (archive = 1)")
    sql(MAKE_TABLE)
    modified = "ALTER TABLE queuegate_archive MODIFY queue VARCHAR(64) CHARACTER SET utf8mb4 COLLATE {} NOT NULL"
    sql(modified.format("utf8mb4_general_ci"))
    sql("INSERT INTO queuegate_archive (queue, archived_until) VALUES (%s, 5)", f"{first}_e")
    try:
        with Client(queue_address(options(gate, second)).address) as client:
            archived = ArchivedQueue(client, second)
            with pytest.raises(JobError, match="for that of another: ALTER TABLE"):
                archived.archived_until()
            sql(modified.format("utf8mb4_bin"))
            assert archived.archived_until() == 0
    finally:
        sql(f"DROP QUEUE {second}")


def test_topics_and_their_groups_are_not_archived(gate, topic):
    name = topic(billing="")
    with Client(queue_address(options(gate, name)).address) as client:
        for each in (name, f"{name}_group_billing"):
            with pytest.raises(JobError, match=f"{each} has no acked messages to archive"):
                ArchivedQueue(client, each)

"""writeMode=direct, and what is the same in both modes: layouts, ids, refusals of the real thing."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from cutter import Cutter, Moment
from servers import Sql
from write_calls import append, batch, fields, messages, micro_batch, options, task

from spark_connector.errors import ConnectionFailed, OptionError, QueueError, SchemaError, WriteError
from spark_connector.option_names import Use
from spark_connector.writing.batch_write import BatchWrite, StreamWrite

COLUMNS = "n BIGINT, payload VARCHAR(20)"
KEYED = "n BIGINT UNIQUE, payload VARCHAR(20)"
MODES = pytest.mark.parametrize("mode", ["staged", "direct"])
VITESS = (
    "time_scheduled BIGINT, id BIGINT, time_next BIGINT, epoch BIGINT, time_created BIGINT, time_acked BIGINT, "
    "message VARCHAR(128), PRIMARY KEY(time_scheduled, id), UNIQUE INDEX id_idx(id), INDEX next_idx(time_next, epoch)"
)
KEYS = "vitess_message,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=10000,vt_poller_interval=30"


def numbers(sql: Sql, queue: str) -> list[int]:
    return sql.column(f"SELECT n FROM {queue} ORDER BY id")


def test_rows_are_messages_as_soon_as_their_statement_is_done(gate, sql, queue, stream):
    name = queue(COLUMNS)
    receiver = stream(f"SELECT n FROM STREAM {name}")
    core = batch(gate, name, messages(0, 0), writeMode="direct", batchsize=10)

    def rows():
        yield from messages(0, 25).to_batches()
        receiver.wait(25)
        yield from messages(25, 5).to_batches()

    core.commit([core.write(rows())])
    assert numbers(sql, name) == list(range(30))


def test_a_row_that_is_refused_leaves_what_was_written_before(gate, sql, queue):
    name = queue(KEYED)
    sql(f"INSERT INTO {name} (n) VALUES (25)")
    with pytest.raises(WriteError, match="rows of earlier statements are in the queue"):
        append(gate, name, messages(0, 40), writeMode="direct", batchsize=10)
    assert numbers(sql, name) == [25, *range(20)]


def test_a_repeated_write_with_a_key_adds_nothing(gate, sql, queue):
    name = queue(KEYED)
    for _ in range(2):
        append(gate, name, messages(0, 50), writeMode="direct", keyColumn="n", batchsize=20)
        micro_batch(gate, name, 7, messages(50, 50), writeMode="direct", keyColumn="n")
    assert numbers(sql, name) == list(range(100))


def test_a_repeated_write_without_a_key_is_written_again(gate, sql, queue):
    name = queue(COLUMNS)
    for _ in range(2):
        micro_batch(gate, name, 7, messages(0, 5), writeMode="direct")
    assert numbers(sql, name) == [*range(5)] * 2


def test_a_key_hides_no_other_error(gate, sql, queue):
    name = queue("n BIGINT UNIQUE, e ENUM('a')")
    with pytest.raises(WriteError, match="column e "):
        append(gate, name, pa.table({"n": [1, 2], "e": ["a", "b"]}), writeMode="direct", keyColumn="n")
    assert numbers(sql, name) == []


def test_a_lost_connection_fails_the_task_and_its_repetition_adds_what_is_missing(gate, sql, queue):
    name = queue(KEYED)
    between = Cutter(gate.port)
    core = batch(gate, name, messages(0, 0), writeMode="direct", keyColumn="n", batchsize=10, port=between.port)
    between.arm(Moment.CUT_AFTER, b"(25,")
    with pytest.raises(ConnectionFailed):
        task(core, messages(0, 40))
    task(core, messages(0, 40))
    between.close()
    assert sorted(numbers(sql, name)) == list(range(40))


@MODES
def test_large_rows_are_written_one_by_one(gate, sql, queue, mode):
    name = queue("payload LONGTEXT")
    texts = ["a" * 1_500_000, "b", "c" * 900_000, "d" * 900_000, ""]
    append(gate, name, pa.table({"payload": texts}), writeMode=mode)
    assert sql.column(f"SELECT LENGTH(payload) FROM {name} ORDER BY id") == [len(text) for text in texts]


@MODES
def test_messages_that_come_later_are_sent_then(gate, sql, queue, stream, mode):
    name = queue(COLUMNS)
    receiver = stream(f"SELECT n FROM STREAM {name}")
    now = time.time()
    due = [now + 3600, now + 1.0, now - 60]
    table = messages(0, 3).append_column(
        "time_scheduled", pa.array([datetime.fromtimestamp(t, UTC) for t in due], pa.timestamp("us", tz="UTC"))
    )
    append(gate, name, table, writeMode=mode)
    assert receiver.wait(2) == [(2,), (1,)]
    assert receiver.times[1] >= due[1]
    assert sql.column(f"SELECT COUNT(*) FROM {name} WHERE time_next = time_scheduled") == [1]  # two are leased


@MODES
def test_ids_are_given_or_left_to_the_queue(gate, sql, queue, mode):
    name = queue(COLUMNS)
    append(gate, name, pa.table({"id": pa.array([None, 500, None], pa.int64()), "n": [1, 2, 3]}), writeMode=mode)
    found = dict(sql.rows(f"SELECT n, id FROM {name}"))
    assert found[2] == 500
    assert len(set(found.values())) == 3


@MODES
@pytest.mark.parametrize(
    ("declared", "ids"),
    [
        ("VARCHAR(36)", pa.array(["a-1", "b-2"])),
        ("BINARY(16)", pa.array([bytes(range(16)), bytes(reversed(range(16)))])),
    ],
)
def test_queues_whose_ids_are_the_clients(gate, sql, queue, mode, declared, ids):
    name = queue(f"id {declared} PRIMARY KEY, payload VARCHAR(20)")
    table = pa.table({"id": ids, "payload": ["x", "y"]})
    for _ in range(2):
        append(gate, name, table, writeMode=mode, keyColumn="id")
    assert sorted(sql.column(f"SELECT id FROM {name}")) == sorted(ids.to_pylist())
    with pytest.raises(SchemaError, match="column id"):
        append(gate, name, table.select(["payload"]), writeMode=mode)


@MODES
def test_vitess_first_layout(gate, sql, name, stream, mode):
    sql(f"CREATE TABLE {name} ({VITESS}) COMMENT '{KEYS}'")
    table = pa.table({"id": [1, 2], "message": ["a", "b"]})
    for _ in range(2):
        append(gate, name, table, writeMode=mode, keyColumn="id")
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE time_next = time_scheduled AND epoch = 0") == 2
    later = pa.array([datetime(2100, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    append(gate, name, pa.table({"id": [3], "time_scheduled": later, "message": ["c"]}), writeMode=mode)
    receiver = stream(f"SELECT id, message FROM STREAM {name} LIMIT 3 WAIT 1")
    assert receiver.wait_end() is None
    assert sorted(receiver.rows) == [(1, "a"), (2, "b")]
    sql(f"DROP QUEUE {name}")


@MODES
def test_members_of_groups(gate, sql, queue, stream, mode):
    parts = queue("order_id BIGINT", group_key="'order_id'")
    done = queue("order_id BIGINT")
    append(gate, parts, pa.table({"order_id": [42, 42]}), writeMode=mode)
    sql(f"INSERT INTO {done} (order_id) VALUES (42) AFTER GROUP 42 OF {parts}")
    receiver = stream(f"SELECT order_id FROM STREAM {done}")
    ids = sql.column(f"SELECT id FROM {parts}")
    sql(f"ACK {parts} {ids[0]}")
    assert sql.value(f"SELECT time_next FROM {done}") == 2**63 - 1
    sql(f"ACK {parts} {ids[1]}")
    assert receiver.wait(1) == [(42,)]


@pytest.mark.parametrize("make", [BatchWrite, StreamWrite])
def test_what_cannot_be_written_is_refused_when_it_is_planned(gate, sql, queue, name, make):
    use = Use.BATCH_WRITE if make is BatchWrite else Use.STREAM_WRITE
    there = queue(COLUMNS)
    sql(f"CREATE TABLE {name} (n BIGINT)")
    given = fields(messages(0, 0))
    with pytest.raises(OptionError, match=r"cannot be overwritten.*TRUNCATE QUEUE"):
        make(options(gate, there, use), given, True)
    for wrong in (name, "nothing_of_this_name"):
        with pytest.raises(QueueError, match=wrong):
            make(options(gate, wrong, use), given, False)
    with pytest.raises(OptionError, match="no unique key"):
        make(options(gate, there, use, keyColumn="n"), given, False)
    sql(f"CREATE UNIQUE INDEX in_part ON {there} (payload(3))")
    sql(f"CREATE UNIQUE INDEX whole ON {there} (n)")
    with pytest.raises(OptionError, match="in_part of queue"):
        make(options(gate, there, use, keyColumn="n"), given, False)
    with pytest.raises(ConnectionFailed):
        make(options(gate, there, use, user="nobody_of_this_name", password="x"), given, False)
    sql(f"DROP TABLE {name}")

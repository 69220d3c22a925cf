"""What a task of a stream holds while it reads: a few megabytes, whatever the messages weigh; and its connections."""

from __future__ import annotations

import pickle
import socket
import threading
import tracemalloc

import pyarrow as pa
import pymysql
import pytest

from spark_connector.client import pool
from spark_connector.errors import SchemaError

MODES = [{"mode": "queue"}, {"mode": "tail", "startingOffsets": "earliest"}]
MB = 1 << 20


@pytest.fixture(autouse=True)
def own_lines():
    pool.close_all()
    yield
    pool.close_all()


@pytest.fixture
def connects(monkeypatch):
    """Every connection that this thread opens, in order. A query's heartbeat opens its own when it gets to it."""
    opened: list[pymysql.Connection] = []
    connect = pymysql.connect

    def noted(**options):
        made = connect(**options)
        if threading.current_thread() is threading.main_thread():
            opened.append(made)
        return made

    monkeypatch.setattr(pymysql, "connect", noted)
    return opened


def part_of(query):
    assert query.plan() or query.plan()  # latest and earliest begin with an empty one
    (part,) = query.parts()
    return pickle.loads(pickle.dumps(query.source)), pickle.loads(pickle.dumps(part))


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_a_task_holds_a_few_megabytes_however_large_its_messages_are(begin, sql, queue, options):
    name = queue("payload LONGTEXT")
    for _ in range(8):
        sql(f"INSERT INTO {name} (payload) VALUES {', '.join(['(REPEAT(%s, 2097152))'] * 5)}", *"abcde")
    source, part = part_of(begin(name, numPartitions=1, **options))
    before, reading = pa.total_allocated_bytes(), source.read(part)
    sizes, held = [next(reading).num_rows], 0
    tracemalloc.start()  # not before: the first rows make libraries import parts of theirs
    for batch in reading:
        sizes.append(batch.num_rows)
        held = max(held, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(sizes) == 40 and max(sizes) <= 2
    assert held < 16 * MB, "in Arrow's memory"
    assert peak < 24 * MB, "in Python's"


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_a_connection_that_breaks_while_rows_come_neither_loses_nor_doubles(begin, sql, queue, options, connects):
    name = queue("payload TEXT")
    for _ in range(10):
        sql(f"INSERT INTO {name} (payload) VALUES {', '.join(['(REPEAT(%s, 60000))'] * 30)}", *["x"] * 30)
    source, part = part_of(begin(name, numPartitions=1, **options))
    sql(f"DELETE FROM {name} WHERE id % 7 = 3")
    connects.clear()
    reading = source.read(part)
    rows = [next(reading)]
    connects[-1]._sock.shutdown(socket.SHUT_RDWR)
    rows.extend(reading)
    ids = [id_ for batch in rows for id_ in batch.column(0).to_pylist()]
    assert ids == sql.column(f"SELECT id FROM {name} ORDER BY id")
    assert len(connects) == 2


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_rows_without_columns_are_counted(begin, sql, queue, options):
    name = queue()
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b'), ('c')")
    source, part = part_of(begin(name, numPartitions=1, fetchsize=2, **options))
    source._fields = ()
    assert [batch.num_rows for batch in source.read(part)] == [2, 1]


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_one_connection_serves_the_tasks_of_a_worker(begin, sql, queue, options, connects):
    name = queue()
    query = begin(name, **options)
    query.batch()
    for number in range(5):
        sql(f"INSERT INTO {name} (payload) VALUES ('{number}')")
        connects.clear() if number == 1 else None
        assert [payload for _, payload in query.batch()] == [str(number)]
    assert len(connects) <= 1  # the acks' own, which is opened when there is something to ack


def test_a_line_that_lay_idle_for_long_or_was_left_in_the_middle_is_not_used_again(
    begin, sql, queue, connects, monkeypatch
):
    name = queue()
    query = begin(name, numPartitions=1)
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b')")
    source, part = part_of(query)
    connects.clear()
    assert len(list(source.read(part))) == 1
    assert len(list(source.read(part))) == 1
    assert len(connects) == 1
    monkeypatch.setattr(pool, "IDLE_SECONDS_MAX", -1.0)
    assert len(list(source.read(part))) == 1
    assert len(connects) == 2
    monkeypatch.undo()
    reading = source.read(part)
    next(reading)
    reading.close()
    assert pool._idle == []


def test_a_line_is_kept_by_the_process_that_opened_it(begin, sql, queue, monkeypatch):
    name = queue()
    query = begin(name)
    sql(f"INSERT INTO {name} (payload) VALUES ('a')")
    assert query.batch()
    assert len(pool._idle) == 1
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert pool._take_idle(pool._idle[0][1]) is None
    assert pool._idle == []


def test_a_value_that_cannot_be_read_leaves_no_half_read_answer_behind(begin, sql, queue):
    name = queue("v VARBINARY(9)")
    sql(f"INSERT INTO {name} (v) VALUES (X'ff')")
    query = begin(name, columns="id, v")
    source, part = part_of(query)
    source._fields = (source._fields[0], source._fields[1].__class__("v", "string"))
    with pytest.raises(SchemaError, match="no string"):
        list(source.read(part))
    assert pool._idle == []

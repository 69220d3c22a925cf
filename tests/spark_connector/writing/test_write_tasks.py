"""Many tasks of one staged write: what each of them costs, and what becomes of one whose connection breaks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from cutter import Cutter, Moment
from servers import Gate, Sql
from write_calls import append, batch, messages, task

from spark_connector.client import pool
from spark_connector.writing import stage

COLUMNS = "n BIGINT, payload VARCHAR(20)"
KEYED = "n BIGINT UNIQUE, payload VARCHAR(20)"
PARTITIONS = 200
CONSTANT = 50  # statements of a write, beside one for each partition: to plan it, to publish it, to clean up
PER_DIRECT = 6  # of a partition that is written directly: what its connection begins with, and its INSERT


@pytest.fixture(autouse=True)
def own_lines():
    pool.close_all()
    yield
    pool.close_all()


@pytest.fixture
def cutter(gate):
    """Between the tasks and the gate."""
    between = Cutter(gate.port)
    yield between
    between.close()


def numbers(sql: Sql, queue: str) -> list[int]:
    return sql.column(f"SELECT n FROM {queue} ORDER BY id")


def parts(count: int, size: int) -> list[pa.Table]:
    return [messages(place * size, size) for place in range(count)]


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, PARTITIONS + CONSTANT),
        ({"keyColumn": "n"}, PARTITIONS + CONSTANT),
        ({"writeMode": "direct"}, PER_DIRECT * PARTITIONS + CONSTANT),
    ],
    ids=["staged", "keyed", "direct"],
)
def test_a_partition_of_few_rows_costs_few_statements(gate, sql, queue, sent, given, most):
    name = queue(KEYED)
    sent.clear()
    append(gate, name, *parts(PARTITIONS, 3), **given)
    assert len(sent) <= most, sent[-2 * CONSTANT :]
    assert numbers(sql, name) == list(range(3 * PARTITIONS))


@pytest.fixture
def others(sql):
    """Stage tables of forty other queues, each with a row of a writer that died long ago."""
    names = [f"{stage.PREFIX}other{number}" for number in range(40)]
    for each in names:
        sql(f"CREATE TABLE {each} (queuegate_attempt BIGINT)")
        sql(f"INSERT INTO {each} VALUES (1)")
    yield names
    for each in names:
        sql(f"DROP TABLE {each}")


def test_a_write_cleans_few_of_many_other_tables_and_each_has_its_turn(gate, sql, queue, sent, others):
    name = queue(KEYED)
    left = len(others)
    for turn in range(5):
        sent.clear()
        append(gate, name, messages(turn, 1))
        cleaned = left - sum(sql.value(f"SELECT COUNT(*) FROM {each}") for each in others)
        assert len([text for text in sent if "other" in text and text.startswith("DELETE")]) <= 3
        left -= cleaned
    assert len(others) - 15 <= left < len(others)


@pytest.mark.parametrize("keyed", [False, True])
def test_small_partitions_that_are_published_together_keep_their_order(gate, sql, queue, monkeypatch, keyed):
    monkeypatch.setattr(stage, "COPIED", 20)
    monkeypatch.setattr(stage, "TOGETHER", 4)
    name = queue(KEYED)
    core = batch(gate, name, messages(0, 0), **({"keyColumn": "n"} if keyed else {}))
    sizes = [1, 2, 3, 1, 1, 0, 45, 9, 12, 1, 20, 20, 3, 2, 2, 2, 2]
    tables = [messages(sum(sizes[:place]), size) for place, size in enumerate(sizes)]
    staged = [task(core, table) for table in reversed(tables)]  # the last partition is done first
    core.commit(staged[::-1])
    assert numbers(sql, name) == list(range(sum(sizes)))


def test_rows_that_are_gone_from_one_of_many_partitions_are_missed(gate, sql, queue):
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0))
    staged = [task(core, part) for part in parts(5, 2)]
    table = stage.name(core._sink._plan)  # type: ignore[attr-defined]
    sql(f"DELETE FROM {table} WHERE n = 4")
    with pytest.raises(Exception, match="staged are gone"):
        core.commit(staged)
    assert numbers(sql, name) == []


@pytest.mark.parametrize("moment", [Moment.CUT_BEFORE, Moment.CUT_AFTER], ids=lambda moment: moment.name)
@pytest.mark.parametrize("text", [b",'m3')", b",'m8')", b",'m17')"], ids=["first", "later", "last"])
def test_a_task_whose_connection_breaks_neither_loses_nor_doubles(gate, sql, queue, cutter, moment, text):
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0), batchsize=3, port=cutter.port)
    batches = [some for part in parts(3, 6) for some in part.to_batches()]
    cutter.arm(moment, text, without=b"nothing")
    staged = [task(core, batches), task(core, messages(18, 2))]
    assert cutter.fell.is_set()
    core.commit(staged)
    assert numbers(sql, name) == list(range(20))


def test_a_task_after_a_restart_of_the_gate_takes_a_new_connection(new_gate):
    """A worker keeps its connection from one task to the next; a local session of Spark repeats no task."""
    gate: Gate = new_gate().start()
    sql = Sql(gate.connect())
    sql(f"CREATE QUEUE q ({COLUMNS})")
    append(gate, "q", messages(0, 5))
    core = batch(gate, "q", messages(0, 0))
    gate.kill()
    gate.start()
    core.commit([task(core, messages(5, 5))])
    assert numbers(Sql(gate.connect()), "q") == list(range(10))

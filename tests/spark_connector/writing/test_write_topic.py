"""Writes into a topic: its ids are its own, and every reader gets what is published."""

from __future__ import annotations

import pyarrow as pa
import pytest
from write_calls import append, batch, messages, micro_batch, task

from spark_connector.errors import QueueError, SchemaError

COLUMNS = "n BIGINT, payload VARCHAR(20)"


@pytest.mark.parametrize("mode", ["staged", "direct"])
def test_rows_become_messages_of_the_topic(gate, sql, topic, mode):
    name = topic(COLUMNS, billing="START AT EARLIEST", audit="START AT EARLIEST")
    append(gate, name, messages(0, 50), messages(50, 50), writeMode=mode)
    assert sql.rows(f"SELECT id, n FROM {name} ORDER BY id") == [(number + 1, number) for number in range(100)]
    for group in ("billing", "audit"):
        found = sql.rows(f"SELECT id, n, payload FROM STREAM {name} WITH (group = '{group}') NOWAIT")
        assert found == [(number + 1, number, f"m{number}") for number in range(100)]


def test_a_staged_write_shows_all_or_nothing(gate, sql, topic):
    name = topic(COLUMNS)
    core = batch(gate, name, messages(0, 0))
    staged = [task(core, messages(0, 10)), task(core, messages(10, 10))]
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0
    core.abort(staged)
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0
    core.commit([task(core, messages(0, 10)), task(core, messages(10, 10))])
    assert sql.column(f"SELECT n FROM {name} ORDER BY id") == list(range(20))


def test_a_micro_batch_that_is_repeated_is_published_once(gate, sql, topic):
    name = topic(COLUMNS)
    for _ in range(2):
        micro_batch(gate, name, 0, messages(0, 10))
    micro_batch(gate, name, 1, messages(10, 10))
    assert sql.column(f"SELECT n FROM {name} ORDER BY id") == list(range(20))


def test_a_key_makes_repetitions_harmless(gate, sql, topic):
    name = topic("n BIGINT UNIQUE, payload VARCHAR(20)")
    for _ in range(2):
        append(gate, name, messages(0, 10), writeMode="direct", keyColumn="n")
    assert sql.column(f"SELECT n FROM {name} ORDER BY id") == list(range(10))


def test_a_message_may_be_scheduled(gate, sql, topic):
    name = topic("n BIGINT")
    at = pa.array([4_000_000_000_000_000], pa.timestamp("us", tz="UTC"))
    append(gate, name, pa.table({"n": pa.array([1], pa.int64()), "time_scheduled": at}))
    assert sql.value(f"SELECT time_scheduled FROM {name}") == 4_000_000_000_000_000_000


@pytest.mark.parametrize("id_", ["id", "ID"])
def test_ids_are_never_given(gate, topic, id_):
    name = topic(COLUMNS)
    table = pa.table({id_: pa.array([7], pa.int64()), "n": pa.array([1], pa.int64())})
    with pytest.raises(SchemaError, match=f"topic {name} gives its messages their ids, in order: leave column id out"):
        append(gate, name, table)


def test_a_groups_queue_is_not_written(gate, topic):
    name = topic(COLUMNS, billing="")
    with pytest.raises(QueueError, match=f"is fed from its topic: write into topic {name}"):
        append(gate, f"{name}_group_billing", messages(0, 1))


def test_errors_name_the_topic(gate, topic):
    name = topic("n BIGINT")
    with pytest.raises(SchemaError, match=f"topic {name} has no column payload: drop it"):
        append(gate, name, messages(0, 1))

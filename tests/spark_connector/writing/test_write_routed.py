"""routeColumn: each row goes into the queue or topic that it names, all of a write at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from servers import Gate
from write_calls import fields, options

from spark_connector.errors import OptionError, QueueError, SchemaError, WriteError
from spark_connector.option_names import Use
from spark_connector.options import WriteOptions, write
from spark_connector.writing.batch_write import BatchWrite, StreamWrite

COLUMNS = "n BIGINT, payload VARCHAR(20)"
QUERY = "11111111-2222-3333-4444-555555555555"


def routed(gate: Gate, use: Use = Use.BATCH_WRITE, **given: object) -> WriteOptions:
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "routeColumn": "Target"}
    return write({key: str(value) for key, value in {**at, **given}.items()}, use)


def rows(*targets: str | None, first: int = 0) -> pa.Table:
    numbers = range(first, first + len(targets))
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "target": pa.array(targets, pa.string()),
            "payload": pa.array([f"m{n}" for n in numbers], pa.string()),
        }
    )


def append(gate: Gate, *parts: pa.Table, **given: object) -> None:
    core = BatchWrite(routed(gate, **given), fields(parts[0]), overwrite=False)
    core.commit([core.write(part.to_batches()) for part in parts])


def numbers(sql, name) -> list[int]:
    return sql.column(f"SELECT n FROM {name} ORDER BY id")


def test_each_row_goes_where_it_says(gate, sql, queue, topic):
    one, log = queue(COLUMNS), topic(COLUMNS)
    append(gate, rows(one, log, one, log, log), rows(log, first=5), rows(one, one, first=6))
    assert numbers(sql, one) == [0, 2, 6, 7]
    assert sql.rows(f"SELECT id, n, payload FROM {log} ORDER BY id") == [
        (1, 1, "m1"), (2, 3, "m3"), (3, 4, "m4"), (4, 5, "m5"),
    ]  # fmt: skip


def test_nothing_is_seen_before_the_commit_and_a_failed_one_shows_nothing(gate, sql, queue, topic):
    one, log = queue("n BIGINT UNIQUE, payload VARCHAR(20)"), topic(COLUMNS)
    core = BatchWrite(routed(gate), fields(rows(one)), overwrite=False)
    staged = [core.write(rows(log, one, first=1).to_batches())]
    assert (numbers(sql, one), numbers(sql, log)) == ([], [])
    sql(f"INSERT INTO {one} (n) VALUES (2)")  # the second row is refused
    with pytest.raises(WriteError, match=r"a write by routeColumn: .*1062"):
        core.commit(staged)
    assert (numbers(sql, one), numbers(sql, log)) == ([2], [])
    core.abort(staged)


def test_a_micro_batch_that_is_repeated_is_published_once_everywhere(gate, sql, queue, topic):
    one, log = queue(COLUMNS), topic(COLUMNS)
    part = rows(one, log)
    for number in (0, 0, 1, 1):
        stream = StreamWrite(routed(gate, Use.STREAM_WRITE), fields(part), overwrite=False)
        stream.commit([stream.write(part.to_batches(), f"{QUERY}{one}")], number)
    assert (numbers(sql, one), numbers(sql, log)) == ([0, 0], [1, 1])


def test_a_version_of_an_application_is_published_once(gate, sql, queue):
    one = queue(COLUMNS)
    for version in (1, 1, 2):
        append(gate, rows(one), txnAppId=f"app {one}", txnVersion=version)
    assert numbers(sql, one) == [0, 0]


@pytest.mark.parametrize("target", [None, ""])
def test_a_row_that_names_nothing_fails_the_write(gate, sql, queue, target):
    one = queue(COLUMNS)
    with pytest.raises(WriteError, match="column target names no queue or topic in a row"):
        append(gate, rows(one, target))
    assert numbers(sql, one) == []


def test_targets_that_are_none_are_refused_by_name(gate, queue, topic):
    one, log = queue(COLUMNS), topic("n BIGINT", billing="")
    with pytest.raises(QueueError, match="there is no queue 'nowhere'"):
        append(gate, rows(one, "nowhere"))
    with pytest.raises(QueueError, match=f"write into topic {log}"):
        append(gate, rows(f"{log}_group_billing"))
    with pytest.raises(SchemaError, match=f"topic {log} has no column payload"):
        append(gate, rows(log))
    with pytest.raises(SchemaError, match="needs one column of that name, of text"):
        append(gate, rows(one).drop_columns(["target"]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"queue": "q"}, "options queue and routeColumn both say where rows go"),
        ({"writeMode": "direct"}, "routeColumn goes with writeMode=staged, and without keyColumn"),
        ({"keyColumn": "n"}, "routeColumn goes with writeMode=staged, and without keyColumn"),
        ({"routeColumn": " "}, "routeColumn is the name of a column"),
    ],
)
def test_refusals(gate, given, words):
    with pytest.raises(OptionError, match=words):
        routed(gate, **given)
    with pytest.raises(OptionError, match="cannot be overwritten"):
        BatchWrite(routed(gate), fields(rows("q")), overwrite=True)
    assert options(gate, "q").route is None

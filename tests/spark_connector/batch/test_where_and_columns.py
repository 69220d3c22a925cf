"""The options `columns` and `where` of a batch read: less is carried, and what is wrong is said at load()."""

from __future__ import annotations

import logging

import pytest
from reading import options, read, reader

from spark_connector import option_condition
from spark_connector.batch import read as batch_read
from spark_connector.client.columns import Field
from spark_connector.errors import OptionError, SchemaError
from spark_connector.option_names import Use
from spark_connector.options import check, stream_read, write
from spark_connector.sources.batch import batch_reader
from spark_connector.sources.schema import schema

COLUMNS = "cents INT, `a b%` INT, payload VARCHAR(200)"


def test_columns_are_the_schema_in_their_order(gate, sql, queue):
    name = queue(COLUMNS)
    assert schema(options(gate, name, columns="cents, ID")) == "`cents` int, `id` bigint NOT NULL"
    assert schema(options(gate, name, columns="a b%")) == "`a b%` int"
    with pytest.raises(SchemaError, match=f"queue {name} has no column cent; it has id"):
        schema(options(gate, name, columns="id, cent"))
    for wrong, said in (("", "names of columns"), ("id,", "names of columns"), ("id, ID", "'id' twice")):
        with pytest.raises(OptionError, match=f"option columns .*{said}"):
            schema(options(gate, name, columns=wrong))


def test_a_schema_of_the_users_own_has_to_agree(gate, queue):
    checked = reader_options(gate, queue(COLUMNS), columns="id, cents")
    assert batch_reader(checked, (Field("CENTS", "bigint"), Field("id", "bigint")))
    with pytest.raises(SchemaError, match=r"option columns names id, cents, and .schema"):
        batch_reader(checked, (Field("id", "bigint"),))


def reader_options(gate, name, **more):
    from spark_connector.options import batch_read

    return batch_read(options(gate, name, **more))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("cents > 2 OR payload = 'it''s'", [1, 3, 4]),
        ("payload LIKE '50%'", [2]),
        ("`a b%` IS NOT NULL AND (cents + 1) % 2 = 0", [1, 3]),
        ("payload IN ('--', ';', '/*', '#', ')')", [3]),
        ("cents IN (SELECT MAX(cents) FROM {0})", [4]),
        ("state = 'acked'", []),
    ],
)
def test_the_database_evaluates_the_condition(gate, sql, queue, where, expected):
    name = queue(COLUMNS)
    for cents, payload in enumerate(("it''s", "50% off", ")", "x"), 1):
        sql(f"INSERT INTO {name} (cents, `a b%`, payload) VALUES ({cents}, 7, '{payload}')")
    sql(f"INSERT INTO {name} (cents, payload) VALUES (100, 'x')")
    sql(f"ACK {name} 5")
    if "SELECT" in where:
        where = where.format(name).replace("MAX(cents)", "MAX(cents) - 96")
    found = read(reader(gate, name, numPartitions=2, where=where))
    assert sorted(found.column("id").to_pylist()) == expected


@pytest.mark.parametrize(
    "where",
    ["1 = 1) OR (1 = 1", "(cents = 1", "cents = 1;", "cents = 1 -- x", "cents = 1 # x", "cents /* x */ = 1", "x = 'a",
     "payload = 'a\\'", "payload = 'a\\' OR payload = ' OR 1 = 1) OR (1 = 1'", "  ", "`id"],
)  # fmt: skip
def test_a_condition_that_leaves_its_parentheses_is_refused(gate, queue, where):
    for checked in (schema, check):
        with pytest.raises(OptionError, match="option where is one condition on the columns, as after WHERE"):
            checked(options(gate, "q", where=where))


@pytest.mark.parametrize("where", ["cent > 1", "cents >", "cents > 1 LIMIT 3", "nope(cents)"])
def test_a_condition_that_the_database_does_not_take_is_refused_at_load(gate, queue, where):
    name = queue(COLUMNS)
    with pytest.raises(OptionError, match=r"option where is one condition .* the database says: "):
        schema(options(gate, name, where=where))
    with pytest.raises(OptionError, match="the database says: "):
        reader(gate, name, where=where).partitions()


def test_a_stream_takes_no_condition_and_filters_are_not_pushed(gate):
    at = options(gate, "q")
    with pytest.raises(OptionError, match=r"a stream acks what it reads, so choose by .where"):
        stream_read({**at, "where": "id > 3"})
    with pytest.raises(OptionError, match=r"pushDownPredicate is not offered: .* Give option where"):
        schema({**at, "pushDownPredicate": "true"})
    with pytest.raises(OptionError, match=r"it belongs to spark.read"):
        write({**at, "where": "id > 3"}, Use.BATCH_WRITE)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"mode": "quue"}, "option mode is one of"), ({"numPartitions": "0"}, "option numPartitions"),
     ({"writeMode": "x"}, "option writeMode is one of"), ({"leaseSeconds": "soon"}, "option leaseSeconds"),
     ({"queue": ""}, "option queue is missing")],
)  # fmt: skip
def test_what_is_wrong_for_all_uses_is_said_before_it_is_known_which(gate, wrong, said):
    with pytest.raises(OptionError, match=said):
        check({**options(gate, "q"), **wrong})
    check(options(gate, "q"))
    check({**options(gate, "q"), "nonsense": "1"})  # whoever knows the use says what it is near to


def test_large_bodies_are_warned_of(gate, sql, queue, monkeypatch, caplog):
    monkeypatch.setattr(batch_read, "LARGE_BYTES", 100_000)
    name = queue(COLUMNS.replace("VARCHAR(200)", "TEXT"))
    sql(f"INSERT INTO {name} (payload) VALUES (REPEAT('x', 40000)), (REPEAT('x', 40000))")
    with caplog.at_level(logging.WARNING, "queuegate.spark"):
        reader(gate, name).partitions()
        assert not caplog.records
        sql(f"INSERT INTO {name} (payload) VALUES (REPEAT('x', 40000)), (REPEAT('x', 40000))")
        reader(gate, name, [Field("id", "bigint")]).partitions()
        assert not caplog.records
        reader(gate, name).partitions()
    (record,) = caplog.records
    assert "about 40" in record.getMessage() and "say option columns" in record.getMessage()


def test_quotes_and_parentheses_of_a_condition():
    for text in ("a = '(' AND b = \")\"", "`)` = 1", "((a))", "a = ''", "a = '''(' AND (b = 1)"):
        option_condition.check_single_condition(text)


def test_a_bound_as_json_serves_one_topic_too_and_errors_name_what_was_given(gate):
    at = options(gate, "orders")
    for text, expected in (
        ('{"orders": 900}', 900),
        ('{"orders": "earliest"}', "earliest"),
        ('{"orders": -1}', "latest"),
    ):
        assert stream_read({**at, "mode": "tail", "startingOffsets": text}).starting == expected
    with pytest.raises(OptionError, match="startingOffsets gives bounds for bills, and orders is read"):
        stream_read({**at, "mode": "tail", "startingOffsets": '{"bills": 3}'})
    with pytest.raises(OptionError, match="option maxOffsetsPerTrigger is a whole number"):
        stream_read({**at, "maxoffsetspertrigger": "many"})
    with pytest.raises(OptionError, match="option topic is the name of a queue"):
        stream_read({**options(gate, None), "topic": "x" * 65})

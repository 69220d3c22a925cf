"""Reading tables with Spark JDBC through the proxy: the same rows and schema as from a MariaDB itself."""

from __future__ import annotations

import pytest
from jdbc_sources import ANSI, MYSQL, Jdbc, cause, plain, same

COLUMNS = (
    "id BIGINT NOT NULL PRIMARY KEY, message VARCHAR(100), k VARCHAR(20), acked BIGINT, n INT UNSIGNED, "
    "v DECIMAL(10,3), d DATE, at DATETIME(6), b TINYINT(1)"
)
ROWS = 200


@pytest.fixture
def filled(jdbc, direct, name):
    """A table of the same rows at both places."""
    rows = ",".join(
        f"({i},'m{i}','k{i % 5}',{'NULL' if i % 2 else i},{i * 3},{i}.125,'2024-02-{i % 28 + 1:02d}',"
        f"'2024-01-01 00:00:{i % 60:02d}.123456',{i % 2})"
        for i in range(1, ROWS + 1)
    )
    for place in (jdbc, direct):
        place.sql(f"CREATE TABLE {name} ({COLUMNS})")
        place.sql(f"INSERT INTO {name} VALUES {rows}")
    yield name
    for place in (jdbc, direct):
        place.sql(f"DROP TABLE {name}")


def test_schema_rows_and_count(jdbc, direct, filled):
    def work(place: Jdbc):
        frame = place.read(dbtable=filled)
        return frame.schema.simpleString(), frame.count(), plain(frame.collect())

    schema, count, rows = same(jdbc, direct, work)
    assert schema.startswith("struct<id:bigint,message:string,k:string,acked:bigint,n:bigint,v:decimal(10,3),d:date,")
    assert count == len(rows) == ROWS


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [("id", 1, ROWS), ("at", "2024-01-01 00:00:00", "2024-01-01 00:01:00"), ("d", "2024-02-01", "2024-02-29")],
)
def test_read_in_partitions(jdbc, direct, filled, column, low, high):
    def work(place: Jdbc):
        frame = place.read(dbtable=filled, partitionColumn=column, lowerBound=low, upperBound=high, numPartitions=3)
        return frame.rdd.getNumPartitions(), plain(frame.select("id").collect())

    partitions, rows = same(jdbc, direct, work)
    assert partitions == 3
    assert rows == plain([(i,) for i in range(1, ROWS + 1)])


def test_a_query_instead_of_a_table(jdbc, direct, filled):
    text = f"SELECT id, message FROM {filled} WHERE id < 5"
    for options in ({"query": text}, {"dbtable": f"({text}) t"}):
        found = same(jdbc, direct, lambda place, options=options: plain(place.read(**options).collect()))
        assert found == [(i, f"m{i}") for i in range(1, 5)]


def test_predicates_of_ones_own(jdbc, filled):
    options = jdbc.options()
    frame = jdbc.spark.read.jdbc(options.pop("url"), filled, predicates=["id <= 50", "id > 50"], properties=options)
    assert frame.rdd.getNumPartitions() == 2
    assert frame.count() == ROWS


@pytest.mark.parametrize("driver", [MYSQL], ids=["connector_j"], indirect=True)  # the text is Spark's own
@pytest.mark.parametrize(
    "condition",
    [
        "id BETWEEN 5 AND 9 AND acked IS NULL",
        "message LIKE 'm19%'",
        "message LIKE '%9%' AND k <> 'k4'",
        "message LIKE 'm\\\\_%'",
        "message = 'A`b''c'",
        "k IN ('k1', 'k2') AND NOT (id > 20)",
        "id <=> 7 OR id > 198",
        "at > timestamp'2024-01-01 00:00:58.5'",
        "d = date'2024-02-03'",
        "v > 199.5 AND n >= 600",
        "b AND id < 6",
        "length(message) = 2",
        "CASE WHEN id < 3 THEN true ELSE false END",
        "coalesce(acked, 0) = 0 AND id < 8",
    ],
)
def test_filters_pushed_down(jdbc, direct, filled, condition):
    rows = same(jdbc, direct, lambda place: plain(place.read(dbtable=filled).filter(condition).select("id").collect()))
    pushed_to_nobody = jdbc.read(dbtable=filled, pushDownPredicate="false").filter(condition).select("id")
    assert rows == plain(pushed_to_nobody.collect())


@pytest.mark.parametrize(
    ("parameters", "fetchsize"),
    [
        ((), 0),
        ((), 7),
        (("useServerPrepStmts=true",), 0),
        (("useServerPrepStmts=true", "useCursorFetch=true"), 50),
    ],
    ids=["all", "some", "prepared", "cursor"],
)
def test_ways_to_fetch(jdbc, direct, filled, parameters, fetchsize):
    rows = same(jdbc, direct, lambda p: plain(p.read(*parameters, dbtable=filled, fetchsize=fetchsize).collect()))
    assert len(rows) == ROWS


def test_connector_j_streams_with_its_own_number(jdbc, direct, filled):
    """-2147483648 is MySQL Connector/J's word for row by row; MariaDB's driver knows positive numbers alone."""
    size = -2147483648 if "cj" in jdbc.driver.class_name else 1
    rows = same(jdbc, direct, lambda place: plain(place.read(dbtable=filled, fetchsize=size).collect()))
    assert len(rows) == ROWS


def test_a_statement_when_the_session_begins(jdbc, direct, filled):
    options = {
        "query": f"SELECT @@time_zone z FROM {filled} WHERE id = 1",
        "sessionInitStatement": "SET time_zone='+05:00'",
    }
    assert same(jdbc, direct, lambda place: plain(place.read(**options).collect())) == [("+05:00",)]


def test_a_query_timeout_that_is_not_reached(jdbc, direct, filled):
    assert same(jdbc, direct, lambda place: place.read(dbtable=filled, queryTimeout=60).count()) == ROWS


def test_a_query_timeout_ends_the_statement(jdbc, filled):
    frame = jdbc.read(query=f"SELECT id, SLEEP(20) AS s FROM {filled}", queryTimeout=1)
    said = cause(frame.collect)
    assert "timeout" in said or "interrupted" in said, said


def test_a_missing_table_is_named(jdbc, name):
    assert cause(lambda: jdbc.read(dbtable=name)) == f"Table '{jdbc.database}.{name}' doesn't exist"


@pytest.mark.parametrize("driver", [ANSI], ids=["jdbc_mariadb"], indirect=True)
def test_a_mariadb_url_needs_ansi_quotes(jdbc, direct, filled):
    rows = same(jdbc, direct, lambda place: plain(place.read(dbtable=filled).filter("id < 10").collect()))
    assert len(rows) == 9


def test_a_queue_is_read_as_any_table(jdbc, queue):
    q = queue("user_id INT, payload VARCHAR(100)")
    jdbc.sql(f"INSERT INTO {q} (user_id, payload) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    jdbc.sql(f"ACK {q} 2")
    frame = jdbc.read(dbtable=q, partitionColumn="id", lowerBound=1, upperBound=4, numPartitions=2)
    assert plain(frame.select("id", "state", "payload").collect()) == [
        (1, "to_be_fired", "a"),
        (2, "acked", "b"),
        (3, "to_be_fired", "c"),
    ]
    assert frame.filter("state = 'to_be_fired'").count() == 2
    assert jdbc.sql.column(f"SELECT epoch FROM {q}") == [0, 0, 0]

"""Writing ordinary tables with Spark JDBC through the proxy: what is there afterwards is what a MariaDB would have."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import pytest
from jdbc_sources import ANSI, Jdbc, cause, plain, same

SCHEMA = (
    "i INT, l BIGINT, sh SMALLINT, ti TINYINT, f FLOAT, d DOUBLE, s STRING, bo BOOLEAN, bin BINARY, "
    "big DECIMAL(38,10), small DECIMAL(10,2), da DATE, at TIMESTAMP, wall TIMESTAMP_NTZ"
)
# Whole seconds: the types that Spark asks for have no more; MariaDB cuts what is less, and MySQL rounds it.
VALUES = [
    (
        1, 2**62, -5, -128, 1.5, 2.5, "häß'\\\"`\n\0€😀", True, bytes(range(256)),
        Decimal("1234567890123456789012345678.0123456789"), Decimal("-1.25"), datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 23, 59, 59), datetime.datetime(2020, 1, 1, 0, 0, 1),
    ),
    (None,) * 14,
    (
        -(2**31), -(2**63), 32767, 127, -3.4e38, 1.7e308, "", False, b"",
        Decimal("-9999999999999999999999999999.9999999999"), Decimal("99999999.99"), datetime.date(1970, 1, 1),
        datetime.datetime(1999, 1, 1, 12), datetime.datetime(1999, 12, 31, 1, 2, 3),
    ),
]  # fmt: skip
TYPES = [
    "int",
    "bigint",
    "smallint",
    "tinyint",
    "float",
    "double",
    "longtext",
    "bit(1)",
    "blob",
    "decimal(38,10)",
    "decimal(10,2)",
    "date",
    "timestamp",
    "datetime",
]


@pytest.fixture
def table(jdbc, direct, name):
    yield name
    for place in (jdbc, direct):
        place.sql(f"DROP TABLE IF EXISTS {name}")


def columns(place: Jdbc, table: str):
    """Names, types and whether NULL may be; MySQL 8 has no display widths, as the embedded backend."""
    listed = place.sql.rows(f"SHOW COLUMNS FROM {table}")
    return [(name, re.sub(r"int\(\d+\)", "int", kind), null) for name, kind, null, *_ in listed]


def numbers(place: Jdbc, first: int, last: int, partitions: int = 2):
    return place.spark.range(first, last, 1, partitions).selectExpr("id", "concat('m', id) AS message")


@pytest.mark.parametrize(
    "parameters",
    [
        (),
        ("rewriteBatchedStatements=true",),
        ("useServerPrepStmts=true",),
        ("useBulkStmts=true",),
    ],
    ids=["one_by_one", "rewritten", "prepared", "bulk"],
)
def test_every_type_that_spark_writes_comes_back(jdbc, direct, table, parameters):
    def work(place: Jdbc):
        frame = place.spark.createDataFrame(VALUES, SCHEMA)
        place.overwrite(frame, table, *parameters)
        place.append(frame, table, *parameters)
        back = place.read(*parameters, dbtable=table)
        return (
            columns(place, table),
            back.schema.simpleString(),
            plain(back.collect()),
            plain(place.sql.rows(f"SELECT * FROM {table}")),
        )

    made, schema, back, stored = same(jdbc, direct, work)
    assert [kind for _, kind, _ in made] == TYPES
    assert "bo:boolean,bin:binary,big:decimal(38,10)" in schema
    assert len(back) == len(stored) == 2 * len(VALUES)
    exact = [tuple(row[:4]) + tuple(row[5:]) for row in back]  # a FLOAT has seven digits
    assert set(exact) == {tuple(row[:4]) + tuple(row[5:]) for row in VALUES}


def test_append_to_a_table_that_is_there(jdbc, direct, table):
    def work(place: Jdbc):
        place.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, message VARCHAR(20), made INT DEFAULT 7)")
        place.append(numbers(place, 0, 250), table, batchsize=100)
        return place.sql.row(f"SELECT COUNT(*), SUM(id), MIN(made), MAX(message) FROM {table}")

    assert same(jdbc, direct, work) == (250, 31125, 7, "m99")


def test_overwrite_makes_the_table_anew(jdbc, direct, table):
    def work(place: Jdbc):
        place.sql(f"CREATE TABLE {table} (other INT)")
        options = {
            "createTableOptions": "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
            "createTableColumnTypes": "message VARCHAR(77)",
        }
        place.overwrite(numbers(place, 0, 10), table, **options)
        return columns(place, table), plain(place.sql.rows(f"SELECT id FROM {table}"))

    made, rows = same(jdbc, direct, work)
    assert made == [("id", "bigint", "NO"), ("message", "varchar(77)", "NO")]
    assert rows == [(i,) for i in range(10)]


def test_overwrite_with_truncate_keeps_the_table(jdbc, direct, table):
    def work(place: Jdbc):
        place.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, message VARCHAR(20), more INT)")
        place.sql(f"INSERT INTO {table} VALUES (1, 'old', 1), (77, 'old', 1)")
        place.overwrite(numbers(place, 0, 3), table, truncate="true")
        return columns(place, table), plain(place.sql.rows(f"SELECT * FROM {table}"))

    made, rows = same(jdbc, direct, work)
    assert len(made) == 3
    assert rows == [(0, "m0", None), (1, "m1", None), (2, "m2", None)]


def test_the_other_save_modes(jdbc, direct, table):
    def work(place: Jdbc):
        frame = numbers(place, 0, 3)
        place.writer(frame, dbtable=table).mode("error").save()
        place.writer(frame, dbtable=table).mode("ignore").save()
        with pytest.raises(Exception, match="already exists"):
            place.writer(frame, dbtable=table).mode("error").save()
        return place.sql.value(f"SELECT COUNT(*) FROM {table}")

    assert same(jdbc, direct, work) == 3


@pytest.mark.parametrize("level", ["NONE", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
def test_every_isolation_level(jdbc, direct, table, level):
    def work(place: Jdbc):
        place.overwrite(numbers(place, 0, 40), table, isolationLevel=level, batchsize=3)
        return place.sql.row(f"SELECT COUNT(*), SUM(id) FROM {table}")

    assert same(jdbc, direct, work) == (40, 780)


def test_with_a_query_timeout(jdbc, direct, table):
    def work(place: Jdbc):
        place.overwrite(numbers(place, 0, 10), table, queryTimeout=60)
        place.overwrite(numbers(place, 0, 20), table, queryTimeout=60, truncate="true")
        return place.sql.value(f"SELECT COUNT(*) FROM {table}")

    assert same(jdbc, direct, work) == 20


def test_a_failed_job_leaves_partitions_that_were_committed(jdbc, direct, table):
    """The third begins when one of the first two has ended; what of these still runs when it fails is cut off."""

    def work(place: Jdbc):
        place.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, message VARCHAR(20))")
        place.sql(f"INSERT INTO {table} VALUES (299, 'taken')")
        said = cause(lambda: place.append(numbers(place, 0, 300, 3), table))
        left = place.sql.column(f"SELECT id FROM {table} WHERE id <> 299")
        assert len(left) in (100, 200) and max(left) < 200
        return re.sub(r"'[^']*PRIMARY'", "'PRIMARY'", said)

    assert same(jdbc, direct, work) == "Duplicate entry '299' for key 'PRIMARY'"


@pytest.mark.parametrize("driver", [ANSI], ids=["jdbc_mariadb"], indirect=True)
def test_a_mariadb_url_needs_ansi_quotes(jdbc, direct, table):
    def work(place: Jdbc):
        place.overwrite(numbers(place, 0, 10), table)
        return columns(place, table), place.sql.value(f"SELECT COUNT(*) FROM {table}")

    made, count = same(jdbc, direct, work)
    assert (made[1], count) == (("message", "text", "NO"), 10)  # not MySQL's dialect: TEXT, not LONGTEXT

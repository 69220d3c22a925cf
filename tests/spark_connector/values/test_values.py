"""Columns of every type, on both backends: what they are in Spark, and that each value arrives as PyMySQL sees it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from reading import own_fields, read, reader, values

from spark_connector.client.columns import Field
from spark_connector.errors import SchemaError


@dataclass(frozen=True)
class Case:
    declared: str
    spark: str
    literals: Sequence[str]
    values: Sequence[Any]
    mariadb_only: bool = False


UTC = dt.UTC
CASES = [
    Case("TINYINT", "tinyint", ["-128", "127"], [-128, 127]),
    Case("TINYINT UNSIGNED", "smallint", ["0", "255"], [0, 255]),
    Case("BOOLEAN", "tinyint", ["TRUE", "2"], [1, 2]),
    Case("SMALLINT", "smallint", ["-32768", "32767"], [-32768, 32767]),
    Case("SMALLINT UNSIGNED", "int", ["65535"], [65535]),
    Case("MEDIUMINT", "int", ["-8388608", "8388607"], [-8388608, 8388607]),
    Case("MEDIUMINT UNSIGNED", "int", ["16777215"], [16777215]),
    Case("INT", "int", ["-2147483648", "2147483647"], [-2147483648, 2147483647]),
    Case("INT(5) UNSIGNED ZEROFILL", "bigint", ["42", "4294967295"], [42, 4294967295], mariadb_only=True),
    Case("INT UNSIGNED", "bigint", ["4294967295"], [4294967295]),
    Case("BIGINT", "bigint", [f"{-(2**63)}", f"{2**63 - 1}"], [-(2**63), 2**63 - 1]),
    Case("BIGINT UNSIGNED", "decimal(20,0)", ["0", f"{2**63 - 1}"], [Decimal(0), Decimal(2**63 - 1)]),
    Case("BIGINT(20) UNSIGNED", "decimal(20,0)", [f"{2**64 - 1}"], [Decimal(2**64 - 1)], mariadb_only=True),
    Case("DECIMAL(10,2)", "decimal(10,2)", ["-0.01", "99999999.99"], [Decimal("-0.01"), Decimal("99999999.99")]),
    Case("DECIMAL(38,10)", "decimal(38,10)", ["1234567890123456789012345678.0123456789"],
         [Decimal("1234567890123456789012345678.0123456789")]),
    Case("DECIMAL(50,2)", "string", ["123456789012345678901234567890123456789012345678.25"],
         ["123456789012345678901234567890123456789012345678.25"]),
    Case("DOUBLE", "double", ["0.1", "-1e300", "5e-324", "1234567.125"], [0.1, -1e300, 5e-324, 1234567.125]),
    Case("FLOAT", "float", ["1.5", "16777215", "0.1"], [1.5, 16777215.0, 0.10000000149011612]),
    Case("BIT(1)", "boolean", ["b'1'", "b'0'"], [True, False]),
    Case("BIT(10)", "bigint", ["b'1000000001'"], [513]),
    Case("BIT(64)", "decimal(20,0)", ["18446744073709551615"], [Decimal(2**64 - 1)], mariadb_only=True),
    Case("CHAR(5)", "string", ["'ab'", "'é'"], ["ab", "é"]),
    Case("VARCHAR(300)", "string", ["''", "'a\\'b\\\\c\\0d'", "REPEAT('x', 300)", "'🦄 \n\t'"],
         ["", "a'b\\c\0d", "x" * 300, "🦄 \n\t"]),
    Case("VARCHAR(10) CHARACTER SET latin1", "string", ["'é'"], ["é"], mariadb_only=True),
    Case("TEXT", "string", ["REPEAT('y', 60000)"], ["y" * 60000]),
    Case("MEDIUMTEXT", "string", ["REPEAT('é', 70000)"], ["é" * 70000]),
    Case("ENUM('a','b c')", "string", ["'b c'"], ["b c"]),
    Case("SET('a','b')", "string", ["'a,b'", "''"], ["a,b", ""], mariadb_only=True),
    Case("JSON", "string", ["'{\"a\": [1, null]}'"], ['{"a": [1, null]}']),
    Case("BINARY(4)", "binary", ["X'00FF'"], [b"\0\xff\0\0"]),
    Case("VARBINARY(10)", "binary", ["X'00FF80'", "''"], [b"\0\xff\x80", b""]),
    Case("BLOB", "binary", ["X'FBFCFDFE'"], [b"\xfb\xfc\xfd\xfe"]),
    Case("DATE", "date", ["'1000-01-01'", "'9999-12-31'"], [dt.date(1000, 1, 1), dt.date(9999, 12, 31)]),
    Case("DATETIME", "timestamp_ntz", ["'2024-02-29 23:59:59'"], [dt.datetime(2024, 2, 29, 23, 59, 59)]),
    Case("DATETIME(6)", "timestamp_ntz", ["'9999-12-31 23:59:59.999999'", "'1000-01-01 00:00:00.000001'"],
         [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1000, 1, 1, 0, 0, 0, 1)]),
    Case("TIMESTAMP(3) NULL", "timestamp", ["'2024-06-01 12:00:00.125'"],
         [dt.datetime(2024, 6, 1, 12, 0, 0, 125000, tzinfo=UTC)]),
    Case("TIME(2)", "string", ["'-838:59:59'", "'01:02:03.45'"], ["-838:59:59.00", "01:02:03.45"]),
    Case("YEAR", "int", ["1901", "2155"], [1901, 2155]),
    Case("POINT", "binary", ["POINT(1, 2)"],
         [bytes.fromhex("000000000101000000000000000000F03F0000000000000040")], mariadb_only=True),
    Case("UUID", "string", ["'123e4567-e89b-12d3-a456-426655440000'"],
         ["123e4567-e89b-12d3-a456-426655440000"], mariadb_only=True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.declared)
def test_type(gate, sql, queue, case):
    if case.mariadb_only and gate.embedded:
        pytest.skip("the embedded backend does not have it")
    name = queue(f"v {case.declared}")
    sql("SET time_zone = '+00:00'")
    for literal in [*case.literals, "NULL"]:
        sql(f"INSERT INTO {name} (v) VALUES ({literal})")
    assert own_fields(gate, name)[-1] == Field("v", case.spark)
    table = read(reader(gate, name)).sort_by("id")
    assert table.column("v").to_pylist() == [*case.values, None]


def test_a_float_read_as_text_has_all_of_its_digits(gate, sql, queue):
    name = queue("f FLOAT")
    sql(f"INSERT INTO {name} (f) VALUES (16777215), (-0.5), (123456792)")
    texts = read(reader(gate, name, [Field("f", "string")])).column("f").to_pylist()
    assert sorted(map(float, texts)) == [-0.5, 16777215, 123456792]


def test_as_pymysql_sees_them(gate, sql, queue):
    """All plain types in one row, next to what PyMySQL makes of it, converted by Arrow alone."""
    columns = ["a INT", "b DECIMAL(9,3)", "c VARCHAR(9)", "d DATETIME(6)", "e DATE", "f DOUBLE", "g VARBINARY(9)"]
    name = queue(", ".join(columns))
    sql(f"INSERT INTO {name} (a, b, c, d, e, f, g) VALUES (-5, 1.25, 'x', '2024-01-02 03:04:05.000006', "
        "'2024-01-02', 0.5, X'00ff'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)")  # fmt: skip
    found = read(reader(gate, name)).sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == sql.rows(f"SELECT * FROM {name} ORDER BY id")


def test_texts_of_every_length_where_the_protocol_changes(gate, sql, queue, begin):
    """However it is read. Lengths up to 250 are one byte, up to 65535 three; the texts begin like a length."""
    name = queue("v LONGBLOB")
    sizes = [*range(245, 262), *range(65_530, 65_542)]
    texts = [b"\xfa\0\0\xfd\xfe" + b"x" * (size - 5) for size in sizes]
    for text in texts:
        sql(f"INSERT INTO {name} (v) VALUES (X'{text.hex()}')")
    assert [row["v"] for row in read(reader(gate, name)).sort_by("id").to_pylist()] == texts
    for options in ({"mode": "queue"}, {"mode": "tail", "startingOffsets": "earliest"}):
        query = begin(name, columns="id, v", numPartitions=1, **options)
        assert [text for _, text in query.drain()] == texts, options


# --- the user's schema is the projection


def test_names_in_any_case_and_order(gate, sql, queue):
    name = queue("Payload VARCHAR(20), n INT")
    sql(f"INSERT INTO {name} (Payload, n) VALUES ('a', 1)")
    wanted = [Field("N", "int"), Field("ID", "bigint"), Field("payload", "string")]
    assert read(reader(gate, name, wanted)).to_pylist() == [{"N": 1, "ID": 1, "payload": "a"}]


def test_no_columns_but_rows(gate, sql, queue):
    name = queue()
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b'), (NULL)")
    core = reader(gate, name, [], numPartitions=1)
    assert sum(batch.num_rows for part in core.partitions() for batch in core.read(part)) == 3


WIDER = [
    ("TINYINT", "-7", [("smallint", -7), ("bigint", -7), ("float", -7.0), ("decimal(3,0)", Decimal(-7))]),
    ("INT", "7", [("bigint", 7), ("double", 7.0), ("decimal(12,2)", Decimal("7.00"))]),
    ("BIGINT", "7", [("decimal(19,0)", Decimal(7)), ("decimal(38,19)", Decimal(7))]),
    ("DECIMAL(5,2)", "1.50", [("decimal(6,3)", Decimal("1.500")), ("string", "1.50")]),
    ("FLOAT", "0.1", [("double", 0.10000000149011612), ("string", "0.10000000149011612")]),
    ("BOOLEAN", "1", [("boolean", True), ("int", 1)]),
    ("BIT(1)", "b'1'", [("tinyint", 1), ("string", "1")]),
    ("VARCHAR(9)", "'é'", [("binary", "é".encode())]),
    ("VARBINARY(9)", "'ab'", [("string", "ab")]),
    ("DATE", "'2024-01-02'", [("timestamp_ntz", dt.datetime(2024, 1, 2)), ("string", "2024-01-02")]),
    ("DATETIME", "'2024-01-02 03:04:05'", [("string", "2024-01-02 03:04:05")]),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "literal", "wider"), WIDER, ids=[case[0] for case in WIDER])
def test_wider_types(gate, sql, queue, declared, literal, wider):
    name = queue(f"v {declared}")
    sql(f"INSERT INTO {name} (v) VALUES ({literal})")
    for spark, value in wider:
        assert read(reader(gate, name, [Field("v", spark)])).to_pylist() == [{"v": value}], spark


@pytest.mark.parametrize(
    ("declared", "spark"),
    [
        ("INT", "smallint"), ("INT UNSIGNED", "int"), ("BIGINT", "double"), ("INT", "float"), ("DOUBLE", "float"),
        ("BIGINT UNSIGNED", "bigint"), ("DECIMAL(5,2)", "decimal(5,1)"), ("DECIMAL(5,2)", "decimal(5,3)"),
        ("DECIMAL(5,2)", "double"), ("BIGINT", "decimal(18,0)"), ("VARCHAR(9)", "int"), ("TINYINT", "boolean"),
        ("DATETIME", "timestamp"), ("TIMESTAMP NULL", "timestamp_ntz"), ("DATETIME", "date"), ("TEXT", "array<string>"),
    ],
)  # fmt: skip
def test_what_could_lose_is_refused(gate, queue, declared, spark):
    name = queue(f"v {declared}")
    with pytest.raises(SchemaError):
        reader(gate, name, [Field("v", spark)]).partitions()


def test_columns_that_are_not_there_or_may_be_null(gate, queue):
    name = queue("v INT")
    with pytest.raises(SchemaError, match=rf"queue {name} has no column w; it has id, .*, v"):
        reader(gate, name, [Field("w", "int")]).partitions()
    with pytest.raises(SchemaError, match=r"column v .* may be NULL: declare it nullable"):
        reader(gate, name, [Field("v", "int", nullable=False)]).partitions()


def test_values_that_are_not_of_the_type(gate, sql, queue):
    name = queue("b BOOLEAN, v VARBINARY(9)")
    sql(f"INSERT INTO {name} (b, v) VALUES (2, X'ff')")
    with pytest.raises(SchemaError, match=r"column b holds a value that is no boolean.*Read it as string by"):
        read(reader(gate, name, [Field("b", "boolean")]))
    with pytest.raises(SchemaError, match=r"column v holds a value that is no string.*Read it as binary by"):
        read(reader(gate, name, [Field("v", "string")]))


def test_an_error_names_the_message_whose_value_it_is(gate, sql, queue):
    name = queue("v VARBINARY(9)")
    sql(f"INSERT INTO {name} (id, v) VALUES (41, 'good'), (42, X'ff'), (43, 'good'), (44, X'fe')")
    with pytest.raises(SchemaError, match=r"column v of message 42 holds a value that is no string"):
        read(reader(gate, name, [Field("v", "string"), Field("id", "bigint")]))


def test_zero_dates(gate, sql, queue):
    if gate.embedded:
        pytest.skip("the embedded backend takes none")
    name = queue("d DATE")
    sql("SET sql_mode = ''")
    sql(f"INSERT INTO {name} (d) VALUES ('0000-00-00')")
    with pytest.raises(SchemaError, match=r"column d of message 1 holds a value that is no date.*Read it as string"):
        values(gate, name, "d")
    assert read(reader(gate, name, [Field("d", "string")])).to_pylist() == [{"d": "0000-00-00"}]

"""Values on their way from Spark into a queue's columns: kept exactly, or refused with the column's name."""

from __future__ import annotations

import random
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from reading import read, reader
from servers import Gate
from test_values import CASES
from write_calls import append

from spark_connector.errors import WriteError

MOMENT = datetime(2026, 3, 29, 2, 30, 0, 123456)
UTC_MICROS = pa.timestamp("us", tz="UTC")
MICROS = pa.timestamp("us")
NINES = "9" * 45
AWKWARD = ["", "'", '"', "\\", "\\'", "a\0b", "\n\r\t\x1a", "%s", "-- x", "/* */", "日本 🎉", "`", "NULL", " a ", "0"]

KEPT: list[tuple[str, pa.Array, list[Any] | None]] = [
    ("TINYINT", pa.array([-128, 127, None], pa.int8()), None),
    ("TINYINT UNSIGNED", pa.array([0, 255], pa.int16()), None),
    ("SMALLINT", pa.array([-32768, 32767], pa.int16()), None),
    ("MEDIUMINT", pa.array([-(2**23), 2**23 - 1], pa.int32()), None),
    ("INT", pa.array([-(2**31), 2**31 - 1], pa.int64()), None),
    ("BIGINT", pa.array([-(2**63), 2**63 - 1], pa.int64()), None),
    ("BIGINT UNSIGNED", pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)), [2**64 - 1]),
    ("YEAR", pa.array([1901, 2155], pa.int32()), None),
    ("TINYINT(1)", pa.array([True, False, None]), [1, 0, None]),
    ("BIT(1)", pa.array([True, False]), [b"\1", b"\0"]),
    ("BIT(12)", pa.array([0, 4095], pa.int64()), [b"\0\0", b"\x0f\xff"]),
    ("DECIMAL(20,5)", pa.array([Decimal("0.00001"), Decimal("-99999999999999.99999")], pa.decimal128(19, 5)), None),
    ("DECIMAL(38,10)", pa.array([Decimal("1E-10"), Decimal("12345678901234567890.5")], pa.decimal128(38, 10)), None),
    ("DECIMAL(50,5)", pa.array([f"-{NINES}.99999", "0.5000000"]), [Decimal(f"-{NINES}.99999"), Decimal("0.5")]),
    ("DECIMAL(8,2)", pa.array([1, -5], pa.int32()), [Decimal("1.00"), Decimal("-5.00")]),
    ("FLOAT", pa.array([0.5, -1.25, 3e38, None], pa.float32()), [0.5, -1.25, pytest.approx(3e38), None]),
    ("DOUBLE", pa.array([0.1, -0.0, 1e300, 5e-300, 123456789.123456789, 1 / 3]), None),
    ("DOUBLE", pa.array([0.5, 0.25], pa.float32()), None),
    ("VARCHAR(20)", pa.array(AWKWARD), None),
    ("VARCHAR(3)", pa.array(["🎉🎉🎉", "ab "]), None),
    ("TEXT", pa.array(["x" * 65535, None]), None),
    ("LONGTEXT", pa.array(["é" * 1_500_000]), None),
    ("JSON", pa.array(['{"a": [1, "b\\n\'"]}']), None),
    ("ENUM('a','b''c','7')", pa.array(["a", "b'c", "7"]), None),
    ("SET('a','b')", pa.array(["a,b", "", "b"]), None),
    ("TIME(2)", pa.array(["-838:59:59", "12:30:00.25"]), ["-838:59:59.00", "12:30:00.25"]),
    ("VARBINARY(300)", pa.array([bytes(range(256)), b"", None]), None),
    ("BINARY(4)", pa.array([b"\0\0\0\0", b"'\\\"\n"]), None),
    ("LONGBLOB", pa.array([bytes(range(256)) * 8000]), None),
    ("DATE", pa.array([date(1000, 1, 1), date(9999, 12, 31), None]), None),
    ("DATETIME(6)", pa.array([MOMENT, datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)], MICROS), None),
    ("DATETIME", pa.array([MOMENT.replace(microsecond=0)], MICROS), None),
    ("DATETIME(3)", pa.array([MOMENT.replace(microsecond=123000)], MICROS), None),
    ("TIMESTAMP(6) NULL", pa.array([MOMENT.replace(tzinfo=UTC), None], UTC_MICROS), [MOMENT, None]),
]  # fmt: skip


SERVERS_ONLY = ("SET", "BIT(64)", "BIGINT UNSIGNED", "TIMESTAMP(5)")  # types and bounds the embedded backend has not


def there(gate: Gate, declared: str) -> bool:
    return not (gate.embedded and declared.startswith(SERVERS_ONLY))


@pytest.mark.parametrize("mode", ["staged", "direct"])
def test_values_are_kept_exactly(gate, sql, queue, mode):
    columns = {f"c{place}": kept for place, kept in enumerate(KEPT) if there(gate, kept[0])}
    name = queue(", ".join(f"{column} {declared}" for column, (declared, _, _) in columns.items()))
    rows = max(len(values) for _, values, _ in columns.values())
    padded = {
        column: pa.concat_arrays([values, pa.nulls(rows - len(values), values.type)])
        for column, (_, values, _) in columns.items()
    }
    append(gate, name, pa.table(padded), writeMode=mode)
    sql("SET time_zone = '+00:00'")
    for column, (declared, values, expected) in columns.items():
        shown = f"CAST({column} AS CHAR)" if declared.startswith("TIME(") else column
        found = sql.column(f"SELECT {shown} FROM {name} ORDER BY id LIMIT {len(values)}")
        assert found == (values.to_pylist() if expected is None else expected), declared


@pytest.mark.parametrize("mode", ["staged", "direct"])
def test_what_is_read_of_any_type_can_be_written_back(gate, sql, queue, mode):
    """As a replay does, and whoever copies a queue."""
    cases = {f"c{n}": case for n, case in enumerate(CASES) if not (case.mariadb_only and gate.embedded)}
    name = queue(", ".join(f"{column} {case.declared}" for column, case in cases.items()))
    for pick in (0, -1):
        literals = ", ".join(case.literals[pick] for case in cases.values())
        sql(f"INSERT INTO {name} ({', '.join(cases)}) VALUES ({literals})")
    sql(f"INSERT INTO {name} (c0) VALUES (NULL)")
    before = read(reader(gate, name)).sort_by("id").select(list(cases))
    append(gate, name, before, writeMode=mode)
    after = read(reader(gate, name)).sort_by("id").select(list(cases))
    assert after.num_rows == 6
    for column, case in cases.items():
        assert after.column(column).to_pylist() == 2 * before.column(column).to_pylist(), case.declared


def test_doubles_come_back_to_the_bit(gate, sql, queue):
    name = queue("v DOUBLE")
    chance = random.Random(7)
    values = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(500)]
    values = [value for value in values if value == value and abs(value) < 1.7e308]
    append(gate, name, pa.table({"v": values}))
    assert sql.column(f"SELECT v FROM {name} ORDER BY id") == values


REFUSED: list[tuple[str, pa.Array, str]] = [
    ("TINYINT", pa.array([128], pa.int16()), "Out of range"),
    ("INT UNSIGNED", pa.array([-1], pa.int64()), "Out of range"),
    ("DECIMAL(5,2)", pa.array([Decimal("1000.00")], pa.decimal128(6, 2)), "Out of range"),
    ("DECIMAL(50,2)", pa.array(["1.005"]), "no number of 2 digits after the point"),
    ("DECIMAL(50,2)", pa.array(["1e5"]), "no number"),
    ("YEAR", pa.array([26], pa.int32()), "year of two digits"),
    ("BIT(4)", pa.array([16], pa.int64()), "too long"),
    ("BIT(64)", pa.array([-1], pa.int64()), "negative"),
    ("BIT(64)", pa.array([Decimal(-1)], pa.decimal128(20, 0)), "negative"),
    ("YEAR", pa.array([Decimal(70)], pa.decimal128(4, 0)), "year of two digits"),
    ("DOUBLE", pa.array([float("nan")]), "NaN"),
    ("DOUBLE", pa.array([float("-inf")]), "NaN or infinite"),
    ("VARCHAR(3)", pa.array(["abcd"]), "too long"),
    ("VARCHAR(3)", pa.array(["abc "]), "too long"),
    ("TINYTEXT", pa.array(["a" * 256]), "too long"),
    ("TINYTEXT", pa.array(["a" * 255 + " "]), "too long"),
    *(("ENUM('a','b')", pa.array([text]), "none of its members") for text in ("c", "1", "+2", " 2", "A", "b ", "")),
    ("ENUM('?')", pa.array(["c"]), "truncated"),
    ("ENUM('?')", pa.array(["+1"]), "none of its members"),
    *(("SET('a','b')", pa.array([text]), "none of its members") for text in ("3", "+2", "a,B", "a,")),
    ("SET('a','b')", pa.array(["a,a"]), "a member twice"),
    ("CHAR(5)", pa.array(["ab  "]), "ends with a space"),
    ("TIME", pa.array(["12:00:00.5"]), "no time of 0 fractional digits"),
    ("TIME", pa.array(["noon"]), "no time"),
    ("VARBINARY(2)", pa.array([b"abc"]), "too long"),
    ("BINARY(4)", pa.array([b"abc"]), "exactly 4 bytes"),
    ("DATETIME", pa.array([MOMENT], MICROS), "finer"),
    ("TIMESTAMP(3) NULL", pa.array([MOMENT.replace(tzinfo=UTC)], UTC_MICROS), "finer"),
    ("TIMESTAMP(5) NULL", pa.array([datetime(2200, 1, 1, tzinfo=UTC)], UTC_MICROS), "Incorrect datetime"),
    ("DATE", pa.array([2932897], pa.date32()), "Incorrect date"),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["staged", "direct"])
def test_values_that_do_not_fit_fail_the_write(gate, sql, queue, mode):
    columns = {f"c{place}_": refused for place, refused in enumerate(REFUSED) if there(gate, refused[0])}
    name = queue(", ".join(f"{column} {declared}" for column, (declared, _, _) in columns.items()))
    for column, (_, values, why) in columns.items():
        with pytest.raises(WriteError, match=why) as told:
            append(gate, name, pa.table({column: values}), writeMode=mode)
        assert re.search(rf"column.*\b{column}", str(told.value)), told.value
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


@pytest.mark.parametrize("mode", ["staged", "direct"])
def test_null_where_a_queue_wants_a_value_fails_the_write(gate, sql, queue, mode):
    name = queue("n INT NOT NULL")
    with pytest.raises(WriteError, match=r"column n .* is NULL in a row"):
        append(gate, name, pa.table({"n": pa.array([1, None], pa.int32())}), writeMode=mode)
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


def test_a_server_that_would_cut_values_does_not(mariadb, gate, sql, queue):
    """Nor does it round what it cannot hold: the connector's sessions are strict, whatever the server's are."""
    name = queue("n TINYINT, e ENUM('?')")
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL sql_mode = ''")
        try:
            for column, values in {"n": pa.array([1000]), "e": pa.array(["b"])}.items():
                with pytest.raises(WriteError, match=f"column '{column}'"):
                    append(gate, name, pa.table({column: values}))
        finally:
            cursor.execute("SET GLOBAL sql_mode = DEFAULT")
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


def test_bytes_that_are_no_text_fail_the_write(gate, sql, queue):
    """Spark's strings hold any bytes: CAST(binary AS STRING) checks nothing."""
    name = queue("v VARCHAR(20)")
    broken = pa.StringArray.from_buffers(2, *pa.array([b"ok", b"\xff\xfe"]).buffers()[1:])
    with pytest.raises(WriteError, match=r"column v .* no text"):
        append(gate, name, pa.table({"v": broken}))
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


def test_text_that_is_no_json_fails_the_write(gate, sql, queue):
    name = queue("v JSON")
    with pytest.raises(WriteError, match=r"column 'v'|\.v`"):
        append(gate, name, pa.table({"v": ["{}", "{"]}))
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0


def test_text_that_a_queues_character_set_lacks_fails_the_write(mariadb, gate, sql, queue):
    if gate.embedded:
        return  # it keeps all text as UTF-8
    name = queue("v VARCHAR(20) CHARACTER SET latin1")
    append(gate, name, pa.table({"v": ["é"]}))
    with pytest.raises(WriteError, match=r"column .*v"):
        append(gate, name, pa.table({"v": ["日本"]}))
    assert sql.column(f"SELECT v FROM {name}") == ["é"]


@pytest.mark.parametrize("column", ["time_scheduled", "time_next", "time_created"])
def test_times_of_a_queue_are_given_as_moments_or_nanoseconds(gate, sql, queue, column):
    name = queue("n INT")
    later = datetime.now(UTC) + timedelta(hours=1)
    nanoseconds = round(later.timestamp() * 10**6) * 1000
    append(gate, name, pa.table({"n": pa.array([1], pa.int32()), column: pa.array([later], UTC_MICROS)}))
    append(gate, name, pa.table({"n": pa.array([2], pa.int32()), column: pa.array([nanoseconds])}))
    assert sql.column(f"SELECT {column} FROM {name}") == [nanoseconds] * 2
    if column != "time_created":
        assert sql.column(f"SELECT time_next FROM {name}") == [nanoseconds] * 2


def test_a_moment_beyond_what_nanoseconds_count_is_refused(gate, queue):
    moments = pa.array([datetime(2300, 1, 1, tzinfo=UTC)], UTC_MICROS)
    with pytest.raises(WriteError, match="time_scheduled"):
        append(gate, queue("n INT"), pa.table({"time_scheduled": moments}))


def test_the_largest_float_and_members_that_the_catalog_does_not_spell(gate, sql, queue):
    """MariaDB's information_schema has `?` for the emoji of an ENUM."""
    name = queue("f FLOAT, e ENUM('🦄','b')")
    largest = struct.unpack("f", struct.pack("I", 0x7F7FFFFF))[0]
    rows = {"f": pa.array([largest, -largest], pa.float32()), "e": pa.array(["🦄", "b"])}
    append(gate, name, pa.table(rows))
    assert sql.rows(f"SELECT e FROM {name} ORDER BY id") == [("🦄",), ("b",)]
    assert sorted(read(reader(gate, name)).column("f").to_pylist()) == [-largest, largest]
    with pytest.raises(WriteError):
        append(gate, name, pa.table({"e": ["nobody"]}))

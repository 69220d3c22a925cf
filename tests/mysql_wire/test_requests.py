"""Typed parameters, with mysql-connector-python's own encoder as the client, and packets that lie."""

from __future__ import annotations

import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mysql.connector.protocol import MySQLProtocol
from mysql_mimic.types import ColumnType

from mysql_wire import requests
from mysql_wire.errors import ProxyError
from mysql_wire.prepared_parameters import PreparedParameters
from mysql_wire.requests import QUERY_ATTRIBUTES, ExecuteRequest, parse_execute


def execute(*values: Any, attributes: list[tuple[str, Any]] | None = None, flags: int = 0) -> bytes:
    body: bytes = MySQLProtocol().make_stmt_execute(
        7, values, (None,) * len(values), flags, query_attrs=attributes, charset="utf8mb4"
    )
    return body


def raw(kind: int, value: bytes, *, flag: int = 0, nulls: bytes = b"\x00") -> bytes:
    """One parameter, spelled out."""
    return struct.pack("<IBI", 7, 0, 1) + nulls + b"\x01" + bytes((kind, flag)) + value


def one(body: bytes, long_data: dict[int, bytes] | None = None) -> Any:
    return parse_execute(body, 1, None, long_data or {}, 0).values[0]


_VALUES = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=400),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=5),
    st.datetimes(min_value=datetime(1, 1, 1)),
    st.dates(),
    st.timedeltas(timedelta(0), timedelta(hours=838)),
)


@given(st.lists(_VALUES, max_size=30))
def test_values_arrive_as_they_were_sent(values: list[Any]) -> None:
    request = parse_execute(execute(*values), len(values), None, {}, 0)
    assert request.statement_id == 7
    assert request.values == tuple(values)
    assert len(request.types) == len(values)


@given(st.lists(_VALUES, max_size=10), st.lists(st.tuples(st.text("ab", max_size=5), _VALUES), max_size=5))
def test_query_attributes_are_dropped(values: list[Any], attributes: list[tuple[str, Any]]) -> None:
    # The client's encoder writes no name for an attribute that is NULL, which is its own defect.
    attributes = [(name, value) for name, value in attributes if value is not None]
    body = execute(*values, attributes=attributes)
    request = parse_execute(body, len(values), None, {}, QUERY_ATTRIBUTES)
    assert request.values == tuple(values)
    assert len(request.types) == len(values)


def test_text_with_quotes_and_backslashes_is_only_a_value() -> None:
    """mysql-mimic spliced parameters into the text: `x' OR 1=1 -- ` reached the session as SQL."""
    for text in ("x' OR 1=1 -- ", r"C:\new", r"a\1b"):
        assert one(execute(text)) == text


@pytest.mark.parametrize(
    ("kind", "flag", "data", "value"),
    [
        (ColumnType.TINY, 0, b"\xff", -1),
        (ColumnType.TINY, 0x80, b"\xff", 255),
        (ColumnType.SHORT, 0, b"\x00\x80", -32768),
        (ColumnType.SHORT, 0x80, b"\x00\x80", 32768),
        (ColumnType.YEAR, 0, b"\xe8\x07", 2024),
        (ColumnType.INT24, 0, b"\xff\xff\xff\xff", -1),
        (ColumnType.LONG, 0x80, b"\xff\xff\xff\xff", (1 << 32) - 1),
        (ColumnType.LONGLONG, 0, b"\xff" * 8, -1),
        (ColumnType.LONGLONG, 0x80, b"\xff" * 8, (1 << 64) - 1),
        (ColumnType.FLOAT, 0, struct.pack("<f", 0.5), 0.5),
        (ColumnType.DOUBLE, 0, struct.pack("<d", 0.1), 0.1),
        (ColumnType.NULL, 0, b"", None),
        (ColumnType.DECIMAL, 0, b"\x051.500", Decimal("1.500")),
        (ColumnType.NEWDECIMAL, 0, b"\x02-3", Decimal(-3)),
        (ColumnType.STRING, 0, b"\x02\xc3\xa4", "ä"),
        (ColumnType.STRING, 0, b"\x02\xff\xfe", b"\xff\xfe"),  # not text: drivers without a type for bytes
        (ColumnType.JSON, 0, b"\x02{}", "{}"),
        (ColumnType.BLOB, 0, b"\x02ab", b"ab"),
        (ColumnType.LONG_BLOB, 0, b"\xfc\x03\x00abc", b"abc"),
        (ColumnType.BIT, 0, b"\x01\x05", b"\x05"),
        (ColumnType.DATE, 0, b"\x04\xe8\x07\x02\x1d", date(2024, 2, 29)),
        (ColumnType.DATE, 0, b"\x00", "0000-00-00"),
        (ColumnType.DATE, 0, b"\x04\xe8\x07\x00\x00", "2024-00-00"),
        (ColumnType.DATETIME, 0, b"\x04\xe8\x07\x02\x1d", datetime(2024, 2, 29)),
        (ColumnType.DATETIME, 0, b"\x07\xe8\x07\x02\x1d\x01\x02\x03", datetime(2024, 2, 29, 1, 2, 3)),
        (
            ColumnType.TIMESTAMP,
            0,
            b"\x0b\xe8\x07\x02\x1d\x01\x02\x03\x05\x00\x00\x00",
            datetime(2024, 2, 29, 1, 2, 3, 5),
        ),
        (ColumnType.DATETIME, 0, b"\x00", "0000-00-00 00:00:00"),
        (ColumnType.TIME, 0, b"\x00", timedelta(0)),
        (ColumnType.TIME, 0, b"\x08\x01\x01\x00\x00\x00\x01\x02\x03", -timedelta(hours=25, minutes=2, seconds=3)),
        (ColumnType.TIME, 0, b"\x0c" + bytes(7) + b"\x01\x07\x00\x00\x00", timedelta(seconds=1, microseconds=7)),
    ],
)
def test_every_type_byte_for_byte(kind: int, flag: int, data: bytes, value: object) -> None:
    got = one(raw(kind, data, flag=flag))
    assert got == value and type(got) is type(value)


def test_null_bitmap_wins_over_a_missing_value() -> None:
    assert one(raw(ColumnType.LONG, b"", nulls=b"\x01")) is None


def test_execution_without_types_uses_those_of_the_last() -> None:
    """mysql-mimic refused it."""
    first = parse_execute(execute(5, "a"), 2, None, {}, 0)
    again = struct.pack("<IBI", 7, 0, 1) + b"\x00\x00" + b"\x06" + b"\x01b"
    assert parse_execute(again, 2, first.types, {}, 0).values == (6, "b")
    with pytest.raises(ProxyError, match="types were never sent") as caught:
        parse_execute(again, 2, None, {}, 0)
    assert caught.value.errno == 1210


def test_nulls_alone_need_no_types() -> None:
    """MySQL Connector/J sends none with a first row of NULLs; what has a value needs one still, also the next time."""
    nulls = struct.pack("<IBI", 7, 0, 1) + b"\x03" + b"\x00"
    request = parse_execute(nulls, 2, None, {}, 0)
    assert request.values == (None, None)
    half = struct.pack("<IBI", 7, 0, 1) + b"\x01" + b"\x00" + b"\x01b"
    for body, long_data in [(half, {}), (nulls, {0: b"x"})]:
        with pytest.raises(ProxyError, match="types were never sent"):
            parse_execute(body, 2, request.types, long_data, 0)


def test_long_data_stands_in_for_the_value() -> None:
    body = struct.pack("<IBI", 7, 0, 1) + b"\x00\x01" + bytes((ColumnType.STRING, 0, ColumnType.BLOB, 0))
    request = parse_execute(body, 2, None, {0: "grüß".encode(), 1: b"\x00\xff"}, 0)
    assert request.values == ("grüß", b"\x00\xff")


def test_text_in_the_clients_encoding() -> None:
    request = parse_execute(raw(ColumnType.VAR_STRING, b"\x01\xe4"), 1, None, {}, 0, "latin-1")
    assert request.values == ("ä",)


@pytest.mark.parametrize(("flags", "cursor"), [(0, False), (1, True), (8, False), (9, True), (2, True), (4, True)])
def test_cursor_flag(flags: int, cursor: bool) -> None:
    assert parse_execute(struct.pack("<IBI", 7, flags, 1), 0, None, {}, 0).cursor is cursor


def test_no_parameters_with_attributes_announced() -> None:
    body = struct.pack("<IBI", 7, 8, 1) + b"\x00"
    assert parse_execute(body, 0, None, {}, QUERY_ATTRIBUTES) == ExecuteRequest(7, 8, (), ())


@pytest.mark.parametrize(
    ("body", "errno"),
    [
        (b"", 1835),
        (struct.pack("<IBI", 7, 0, 1), 1835),
        (struct.pack("<IBI", 7, 3, 1), 1210),
        (struct.pack("<IBI", 7, 0x80, 1), 1210),
        (raw(ColumnType.LONG, b"\x01\x00"), 1835),
        (raw(ColumnType.LONG, b"\x01\x00\x00\x00\x00"), 1835),  # goes on after its last parameter
        (raw(ColumnType.STRING, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"), 1835),
        (raw(ColumnType.STRING, b"\xfb"), 1835),
        (raw(ColumnType.STRING, b"\xff"), 1835),
        (raw(0x70, b""), 1210),
        (raw(ColumnType.DATETIME, b"\x05\xe8\x07\x02\x1d\x00"), 1835),
        (raw(ColumnType.DATE, b"\x04\xe8\x07\x0d\x01"), 1292),
        (raw(ColumnType.DATE, b"\x04\xe7\x07\x02\x1d"), 1292),
        (raw(ColumnType.DATE, b"\x04\xff\xff\x00\x00"), 1292),
        (raw(ColumnType.DATETIME, b"\x07\xe8\x07\x02\x1d\x19\x00\x00"), 1292),
        (raw(ColumnType.TIME, b"\x08\x00\xff\xff\xff\xff\x00\x00\x00"), 1292),
        (raw(ColumnType.TIME, b"\x08\x00\x22\x00\x00\x00\x17\x00\x00"), 1292),  # 839 hours
        (raw(ColumnType.TIME, b"\x03\x00\x00\x00"), 1835),
        (raw(ColumnType.NEWDECIMAL, b"\x03NaN"), 1366),
        (raw(ColumnType.NEWDECIMAL, b"\x0b1e999999999"), 1366),
    ],
)
def test_lies_and_nonsense_are_clear_errors(body: bytes, errno: int) -> None:
    with pytest.raises(ProxyError) as caught:
        parse_execute(body, 1, None, {}, 0)
    assert caught.value.errno == errno


def test_fewer_parameters_than_the_statement_has() -> None:
    with pytest.raises(ProxyError, match="1 of 2") as caught:
        parse_execute(execute(1, attributes=[]), 2, None, {}, QUERY_ATTRIBUTES)
    assert caught.value.errno == 1210


@given(st.binary(max_size=80), st.integers(0, 20), st.sampled_from([0, QUERY_ATTRIBUTES]), st.booleans(), st.booleans())
def test_junk_raises_only_declared_errors(body: bytes, count: int, capabilities: int, head: bool, types: bool) -> None:
    if head:
        body = struct.pack("<IBI", 7, 0, 1) + body
    remembered = [(ColumnType.TIME, False)] * count if types else None
    for parse in (
        lambda: parse_execute(body, count, remembered, {}, capabilities),
        lambda: requests.parse_query(body, capabilities),
        lambda: requests.parse_fetch(body),
        lambda: requests.parse_long_data(body),
        lambda: requests.parse_field_list(body),
    ):
        try:
            parse()
        except ProxyError as error:
            assert error.errno in (1210, 1292, 1366, 1835)


# --- the other commands


def test_query_with_and_without_attributes() -> None:
    assert requests.query_text(b"SELECT 1", 0) == b"SELECT 1"
    assert requests.query_text(b"\x00\x01SELECT 1", QUERY_ATTRIBUTES) == b"SELECT 1"
    one_attribute = b"\x01\x01" + b"\x00" + b"\x01" + b"\x03\x00" + b"\x01n" + b"\x05\x00\x00\x00" + b"SELECT 1"
    assert requests.query_text(one_attribute, QUERY_ATTRIBUTES) is None
    assert requests.parse_query(one_attribute, QUERY_ATTRIBUTES) == b"SELECT 1"
    assert requests.parse_query(b"\x00\x01SELECT 1", QUERY_ATTRIBUTES) == b"SELECT 1"


@pytest.mark.parametrize("capabilities", [0, QUERY_ATTRIBUTES])
def test_our_own_query_is_read_back(capabilities: int) -> None:
    payload = requests.query_payload(b"SELECT 1", capabilities)
    assert payload[0] == 3
    assert requests.query_text(payload[1:], capabilities) == b"SELECT 1"
    assert requests.parse_query(payload[1:], capabilities) == b"SELECT 1"


def test_fetch_long_data_and_field_list() -> None:
    assert requests.parse_fetch(struct.pack("<II", 9, 100)) == (9, 100)
    assert requests.parse_long_data(struct.pack("<IH", 9, 2) + b"xyz") == (9, 2, b"xyz")
    assert requests.parse_field_list(b"t\x00a%") == (b"t", b"a%")
    assert requests.parse_field_list(b"t") == (b"t", b"")


def test_a_bulk_execution_has_a_bound() -> None:
    head = struct.pack("<IH", 1, 128) + bytes((0x03, 0))
    assert len(requests.parse_bulk(head + b"\x01" * requests.SETS_MAX, 1, None).sets) == requests.SETS_MAX
    with pytest.raises(ProxyError) as refused:
        requests.parse_bulk(head + b"\x01" * (requests.SETS_MAX + 1), 1, None)
    assert refused.value.errno == 1210


def test_long_data_is_bounded_over_all_values_until_it_is_forgotten() -> None:
    parameters = PreparedParameters(3, 10)
    body = struct.pack("<IBI", 1, 0, 1) + b"\x00\x01" + bytes((0xFC, 0)) * 3
    for _ in range(2):
        parameters.add(0, b"12345")
        parameters.add(1, b"12345")
        parameters.add(7, b"no such value")
        parameters.add(2, b"")
        assert parameters.execution(body, 0, "utf-8").values == (b"12345", b"12345", b"")
    parameters.add(0, b"123456")
    parameters.add(1, b"12345")
    parameters.add(2, b"1")
    with pytest.raises(ProxyError) as refused:
        parameters.execution(body, 0, "utf-8")
    assert refused.value.errno == 1153

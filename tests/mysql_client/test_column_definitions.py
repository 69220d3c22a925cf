"""Column definitions and numbers: as PyMySQL reads them, and never from beyond their packet."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.protocol import FieldDescriptorPacket

from mysql_client.packets import MalformedAnswer, parse_column, parse_number

NUMBERS = st.integers(0, (1 << 64) - 1)
NAMES = st.text(max_size=64)


def number(value: int) -> bytes:
    """As a server writes a length-encoded integer."""
    if value < 251:
        return bytes((value,))
    width, mark = next((w, m) for w, m in ((2, 0xFC), (3, 0xFD), (8, 0xFE)) if value < 1 << (8 * w))
    return bytes((mark,)) + value.to_bytes(width, "little")


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def definition(names: list[str], fixed: bytes, extended: bytes = b"") -> bytes:
    return text("def") + b"".join(map(text, names)) + extended + b"\x0c" + fixed + b"\x00\x00"


@given(st.lists(NAMES, min_size=5, max_size=5), st.binary(min_size=10, max_size=10))
def test_a_definition_is_what_pymysql_reads(names, fixed):
    payload = definition(names, fixed)
    theirs = FieldDescriptorPacket(payload, "utf8")
    name, kind, charset, length, flags, decimals, org_name, table, org_table, schema = parse_column(payload, "utf8")
    assert (name, kind, charset, length) == (theirs.name, theirs.type_code, theirs.charsetnr, theirs.length)
    assert (flags, decimals) == (theirs.flags, theirs.scale)
    assert (org_name, table, org_table) == (theirs.org_name, theirs.table_name, theirs.org_table)
    assert schema.encode() == theirs.db
    extended = definition(names, fixed, extended=text("\x00\x04json"))
    assert parse_column(extended, "utf8", extended=True) == parse_column(payload, "utf8")


@given(st.lists(NAMES, min_size=5, max_size=5), st.data())
def test_a_definition_that_is_cut_is_refused(names, data):
    payload = definition(names, bytes(10))[:-2]
    with pytest.raises(MalformedAnswer):
        parse_column(payload[: data.draw(st.integers(0, len(payload) - 1))], "utf8")


@given(st.binary(max_size=40), st.booleans())
def test_nonsense_is_refused(payload, extended):
    with contextlib.suppress(MalformedAnswer):
        parse_column(payload, "utf8", extended=extended)


@given(NUMBERS, st.binary(max_size=9), st.binary(max_size=9))
def test_numbers(value, before, behind):
    data = before + number(value) + behind
    end = len(data) - len(behind)
    assert parse_number(data, len(before), len(data)) == parse_number(bytearray(data), len(before), end) == (value, end)
    for cut in range(len(before), end):
        with pytest.raises(MalformedAnswer):
            parse_number(data, len(before), cut)


@pytest.mark.parametrize("mark", [0xFB, 0xFF])
def test_what_is_no_number_is_refused(mark):
    with pytest.raises(MalformedAnswer):
        parse_number(bytes((mark, 1, 2, 3)), 0, 4)

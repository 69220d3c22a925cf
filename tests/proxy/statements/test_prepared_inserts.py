"""PreparedInsert: whatever a client leaves out, the database gets it; and a text means what the execution means."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mysql_wire.answer_walker import BULK_EXECUTE
from mysql_wire.parameters import ParameterType
from mysql_wire.requests import QUERY_ATTRIBUTES, parse_bulk, parse_execute
from proxy.session.session import Identity
from proxy.statements.prepared_inserts import PARAMETERS_MAX, PreparedInsert

TEXT = "INSERT INTO q (a, b) VALUES (?, ?)"
LONGLONG, VAR_STRING, BLOB, NULL = 8, 253, 252, 6
VALUES = st.one_of(
    st.none().map(lambda _: (NULL, None)),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: (LONGLONG, struct.pack("<q", n))),
    st.binary(max_size=40).map(lambda data: (VAR_STRING, bytes((len(data),)) + data)),
    st.binary(max_size=40).map(lambda data: (BLOB, bytes((len(data),)) + data)),
)


def identity(capabilities: int) -> Identity:
    return Identity(connection_id=1, user="u", host="h", capabilities=capabilities)


def execution(values: list[tuple[int, bytes | None]], capabilities: int, *, types: bool) -> bytes:
    named = bool(capabilities & QUERY_ATTRIBUTES)
    nulls = sum(1 << at for at, (_, value) in enumerate(values) if value is None)
    kinds = b"".join(bytes((kind, 0)) + b"\x00" * named for kind, _ in values) if types else b""
    head = struct.pack("<BIBI", 0x17, 1, 0, 1) + (bytes((len(values),)) if named else b"")
    given = b"".join(value for _, value in values if value is not None)
    return head + nulls.to_bytes((len(values) + 7) // 8, "little") + bytes((types,)) + kinds + given


def insert(text: str = TEXT) -> PreparedInsert:
    made = PreparedInsert.of(text.encode(), "main")
    assert made is not None
    return made


@given(st.lists(VALUES, min_size=1, max_size=20), st.sampled_from([0, QUERY_ATTRIBUTES]))
def test_types_that_the_database_lacks_are_added(values: list[tuple[int, bytes | None]], capabilities: int) -> None:
    statement = insert(f"INSERT INTO q (a) VALUES ({', '.join('?' * len(values))})")
    first = execution(values, capabilities, types=True)
    assert statement.completed(first, capabilities) == first
    later = execution(values, capabilities, types=False)
    assert statement.completed(later, capabilities) == later, "the database has them"
    statement.executed_as_text()
    assert statement.completed(later, capabilities) == first
    assert statement.completed(first, capabilities) == first
    assert statement.completed(later, capabilities) == later, "the database has them now"


def test_types_are_added_to_a_bulk_execution() -> None:
    statement = insert()
    types: list[ParameterType] = [(LONGLONG, False), (VAR_STRING, False)]
    first = execution([(LONGLONG, struct.pack("<q", 1)), (VAR_STRING, b"\x01x")], 0, types=True)
    statement.completed(first, 0)
    body = struct.pack("<BIH", BULK_EXECUTE, 1, 0) + b"\x00" + struct.pack("<q", 7) + b"\x00\x01y"
    assert statement.completed(body, 0) == body
    statement.executed_as_text()
    completed = statement.completed(body, 0)
    assert parse_bulk(completed[1:], 2, None).sets == parse_bulk(body[1:], 2, types).sets == ((7, "y"),)


@given(st.lists(VALUES, min_size=2, max_size=2), st.sampled_from([0, QUERY_ATTRIBUTES]), st.booleans())
def test_the_text_has_the_values(values: list[tuple[int, Any]], capabilities: int, escapes: bool) -> None:
    statement = insert()
    payload = statement.completed(execution(values, capabilities, types=True), capabilities)
    text = statement.text(payload, identity(capabilities), backslash_escapes=escapes)
    assert text is not None and text.startswith(b"INSERT INTO q (a, b) VALUES (") and text.endswith(b")")
    row = text.removeprefix(b"INSERT INTO q (a, b) VALUES (")[:-1]
    for (kind, written), value in zip(
        values, parse_execute(payload[1:], 2, None, {}, capabilities).values, strict=True
    ):
        row = row.removeprefix(b", ")
        if value is None:
            row = row.removeprefix(b"NULL")
        elif kind == LONGLONG:
            row = row.removeprefix(b"%d" % value)
        else:
            assert row.startswith(b"_binary'") == (kind == BLOB)
            data, row = _string(row.removeprefix(b"_binary"), escapes=escapes)
            assert data == written[1:]
    assert row == b""


def _string(row: bytes, *, escapes: bool) -> tuple[bytes, bytes]:
    """A literal's value as a server reads it, and what is behind it."""
    read, at = b"", 1
    while row[at : at + 1] != b"'" or row[at : at + 2] == b"''":
        if row[at : at + 2] == b"''" or (escapes and row[at : at + 1] == b"\\"):
            at += 1
            read += {b"0": b"\x00"}.get(row[at : at + 1], row[at : at + 1])
        else:
            read += row[at : at + 1]
        at += 1
    return read, row[at + 1 :]


def test_a_parameter_of_another_type_than_before_has_no_text() -> None:
    """MySQL converts it to the type of before."""
    statement = insert()
    whole, text, null = (LONGLONG, struct.pack("<q", 5)), (VAR_STRING, b"\x01x"), (NULL, None)
    for values, expected in [
        ([whole, null], b"INSERT INTO q (a, b) VALUES (5, NULL)"),
        ([whole, text], b"INSERT INTO q (a, b) VALUES (5, 'x')"),
        ([null, text], b"INSERT INTO q (a, b) VALUES (NULL, 'x')"),
        ([text, text], None),
    ]:
        payload = statement.completed(execution(values, 0, types=True), 0)
        assert statement.text(payload, identity(0), backslash_escapes=True) == expected


@pytest.mark.parametrize(
    "what",
    [
        b"",  # cut off
        struct.pack("<BIBI", 0x17, 1, 0, 1) + b"\x00\x00",  # types that never came
        struct.pack("<BIBI", 0x17, 1, 0, 1) + b"\x00\x01\x08\x00\x08\x00" + bytes(15),
        struct.pack("<BIBI", 0x17, 1, 1, 1) + b"\x00\x01\x06\x00\x06\x00",  # a cursor
        struct.pack("<BIBI", 0x17, 1, 0, 1) + b"\x00\x01\x0c\x00\x06\x00\x00",  # a moment has no literal for all types
        struct.pack("<BIBI", 0x17, 1, 0, 1) + b"\x00\x01\x05\x00\x06\x00" + struct.pack("<d", float("nan")),
    ],
)
def test_what_is_the_databases_affair(what: bytes) -> None:
    statement = insert()
    payload = what or struct.pack("<BI", 0x17, 1)
    assert statement.completed(payload, 0) == payload
    assert statement.text(payload, identity(0), backslash_escapes=True) is None


def test_attributes_are_left_to_the_database() -> None:
    statement = insert()
    payload = struct.pack("<BIBI", 0x17, 1, 8, 1) + b"\x03\x07\x01" + b"\x06\x00\x00" * 2 + b"\x06\x00\x01a"
    assert statement.completed(payload, QUERY_ATTRIBUTES) == payload
    assert statement.text(payload, identity(QUERY_ATTRIBUTES), backslash_escapes=True) is None


def test_a_value_that_was_sent_ahead_has_no_text() -> None:
    statement = insert()
    payload = statement.completed(execution([(NULL, None), (NULL, None)], 0, types=True), 0)
    statement.long_data = True
    assert statement.text(payload, identity(0), backslash_escapes=True) is None


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("insert q (a) value(?)", True),
        ("INSERT INTO q (a, b) VALUES ( ? , NULL ) ;", True),
        ("INSERT INTO q (a) VALUES (1)", True),
        ("INSERT INTO q (a) VALUES (?), (?)", False),
        ("INSERT INTO q (a) VALUES (UPPER(?))", False),
        ("INSERT INTO q (a) VALUES ('?')", False),
        ("INSERT INTO q (a) VALUES (?) ON DUPLICATE KEY UPDATE a = ?", False),
        ("INSERT INTO q (a) VALUES (? /* it */)", False),
        (f"INSERT INTO q (a) VALUES ({'?, ' * PARAMETERS_MAX}?)", False),
    ],
)
def test_which_statements_are_taken(text: str, is_one: bool) -> None:
    assert (PreparedInsert.of(text.encode(), None) is not None) == is_one


def test_without_parameters() -> None:
    statement = insert("INSERT INTO q (a) VALUES (1)")
    payload = struct.pack("<BIBI", 0x17, 1, 0, 1)
    assert statement.completed(payload, 0) == payload
    assert statement.text(payload, identity(0), backslash_escapes=True) == b"INSERT INTO q (a) VALUES (1)"

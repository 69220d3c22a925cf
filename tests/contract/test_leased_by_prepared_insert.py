"""Prepared INSERTs of messages that a receiver waits for: they write the lease, and the values are the client's."""

from __future__ import annotations

import struct

import pytest
from servers import SERVER
from slowness import scaled
from wire_client import LONG_DATA, QUERY_ATTRIBUTES, WireClient, bulk, string

TINY, LONG, FLOAT, DOUBLE, NULL, LONGLONG, DATETIME, DECIMAL, BLOB, TEXT = 1, 3, 4, 5, 6, 8, 12, 246, 252, 253
UNSIGNED, BULK, PREPARE = 0x80, 0xFA, 0x16
VALUES = {
    "whole": ("BIGINT", (LONGLONG, 0, struct.pack("<q", -5))),
    "whole as text": ("TEXT", (LONGLONG, 0, struct.pack("<q", 5))),
    "unsigned": ("BIGINT", (LONG, UNSIGNED, b"\xff" * 4)),
    "truth": ("BOOL", (TINY, 0, b"\x01")),
    "double": ("DOUBLE", (DOUBLE, 0, struct.pack("<d", 0.1))),
    "double, of a driver that has no whole numbers": ("INT", (DOUBLE, 0, struct.pack("<d", 7.0))),
    "double in a document": ("JSON", (DOUBLE, 0, struct.pack("<d", 7.0))),
    "float": ("DOUBLE", (FLOAT, 0, struct.pack("<f", 0.1))),
    "decimal": ("DECIMAL(20, 5)", (DECIMAL, 0, string(b"12345678901.50000"))),
    "whole decimal in a document": ("JSON", (DECIMAL, 0, string(b"5"))),
    "text": ("TEXT", (TEXT, 0, string("it's \\ \"a\" `b` -- ? 'ž😀 \n\x1a".encode()))),
    "empty text": ("TEXT", (TEXT, 0, string(b""))),
    "text with zeros": ("TEXT", (TEXT, 0, string(b"a\x00b"))),
    "document": ("JSON", (TEXT, 0, string(b'{"a": [1, 2.0]}'))),
    "bytes": ("BLOB", (BLOB, 0, string(bytes([*range(100), *range(150, 256)])))),
    "bytes that are sent as text": ("BLOB", (TEXT, 0, string(b"\xff\xfe\x00'\\"))),
    "number as text": ("INT", (TEXT, 0, string(b"12"))),
    "moment": ("DATETIME(6)", (DATETIME, 0, b"\x0b\xea\x07\x01\x02\x03\x04\x05\x40\xe2\x01\x00")),
    "null": ("TEXT", (NULL, 0, None)),
    "null of a type": ("INT", (LONGLONG, 0, None)),
}


def text(value):
    return (TEXT, 0, string(value.encode()))


def number(value):
    return (LONGLONG, 0, struct.pack("<q", value))


def execute(wire, statement, *values, types=True, flags=0):
    """`types`: whether they are sent."""
    named = bool(wire.flags & QUERY_ATTRIBUTES)
    count = bytes((len(values),)) if named else b""
    nulls = sum(1 << at for at, (_, _, value) in enumerate(values) if value is None)
    head = count + nulls.to_bytes((len(values) + 7) // 8, "little") + bytes((types,))
    kinds = b"".join(bytes((kind, sign)) + b"\x00" * named for kind, sign, _ in values) if types else b""
    written = b"".join(value for _, _, value in values if value is not None)
    return wire.execute(statement, head + kinds + written, flags=flags)


def receives(sql, q, receiver):
    """Have it wait for messages: it has got one, and is done with it."""
    sql(f"INSERT INTO {q} (payload) VALUES ('first')")
    receiver.wait(1, scaled(10))
    sql(f"ACK {q} {receiver.rows[0][0]}")


def done(answer):
    assert answer.ok, answer.error
    return answer.affected_rows


@pytest.fixture(params=["plain", "with attributes"])
def wire(gate, request):
    """A client whose executions have, or have not, room for attributes."""
    drop = QUERY_ATTRIBUTES if request.param == "plain" else 0
    with WireClient(gate.port, database=gate.database, drop=drop) as client:
        if not drop and not client.offered & QUERY_ATTRIBUTES:
            pytest.skip("the server has no attributes")
        yield client


@pytest.fixture
def leased(sql, place):
    """How many times each of a queue's messages had been delivered when its INSERT was done, by a trigger."""
    if place == "embedded" or SERVER == "galera":
        pytest.skip("no triggers there, or no message is leased so")

    def watch(q):
        sql(f"CREATE TABLE {q}_written (id BIGINT, epoch INT)")
        noted = f"INSERT INTO {q}_written VALUES (NEW.id, NEW.epoch)"
        sql(f"CREATE TRIGGER {q}_watch AFTER INSERT ON {q} FOR EACH ROW {noted}")
        return lambda: [row[0] for row in sql.rows(f"SELECT epoch FROM {q}_written ORDER BY id")]

    return watch


def test_it_writes_the_lease(sql, queue, stream, wire, leased):
    q = queue("payload TEXT, n INT")
    epochs = leased(q)
    receiver = stream(f"SELECT id, payload, n FROM STREAM {q}")
    receives(sql, q, receiver)
    statement = wire.prepare(f"INSERT INTO {q} (payload, n) VALUES (?, ?)")
    for at in range(1, 6):
        assert done(execute(wire, statement, text(f"it's {at}"), number(at), types=at == 1)) == 1
        receiver.wait(1 + at, scaled(10))
        assert sql(f"ACK {q} {receiver.rows[-1][0]}") == 1
    assert [row[1:] for row in receiver.rows[1:]] == [(f"it's {at}", at) for at in range(1, 6)]
    assert epochs()[1:] == [1] * 5


def test_types_that_are_sent_once_are_known_to_the_database(sql, queue, stream, wire, leased):
    """The first execution goes as a text; so the types come with the next that the database gets."""
    q = queue("payload TEXT, n INT")
    epochs = leased(q)
    receiver = stream(f"SELECT id FROM STREAM {q}")
    receives(sql, q, receiver)
    statement = wire.prepare(f"INSERT INTO {q} (payload, n) VALUES (?, ?)")
    done(execute(wire, statement, text("a"), number(-1)))
    receiver.wait(2, scaled(10))
    sql(f"ALTER QUEUE {q} PAUSE")
    for at in range(2):
        done(execute(wire, statement, text("b"), number(at), types=False))
    sql(f"ALTER QUEUE {q} RESUME")
    receiver.wait(4, scaled(10))
    for at in range(2):
        done(execute(wire, statement, text("c"), number(at), types=False))
        receiver.wait(5 + at, scaled(10))
    rows = sql.rows(f"SELECT payload, n FROM {q} WHERE time_acked IS NULL ORDER BY id")
    assert rows == [("a", -1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]
    assert epochs()[1:] == [1, 0, 0, 1, 1]


def test_values_are_as_those_of_an_ordinary_table(sql, queue, stream, wire):
    columns = ", ".join(f"v{at} {kind}" for at, (kind, _) in enumerate(VALUES.values()))
    q = queue(f"n INT, {columns}")
    sql(f"CREATE TABLE {q}_plain (id INT AUTO_INCREMENT PRIMARY KEY, {columns})")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    added = 0
    for at, (what, (kind, value)) in enumerate(VALUES.items()):
        into = [wire.prepare(f"INSERT INTO {table} (v{at}) VALUES (?)") for table in (q, f"{q}_plain")]
        for turn in range(2):
            answers = [execute(wire, statement, value, types=not turn) for statement in into]
            assert [answer.ok or answer.errno for answer in answers] in ([True, True], [3140, 3140]), what
            added += answers[0].ok
            receiver.wait(added, scaled(10))
            if not answers[0].ok:
                break  # MySQL makes no document of a number that is bound
        shown = f"v{at}" if kind != "JSON" else f"CONCAT(JSON_TYPE(v{at}), ' ', v{at})"
        both = [sql.rows(f"SELECT {shown} FROM {table} ORDER BY id DESC LIMIT 2") for table in (q, f"{q}_plain")]
        assert both[0] == both[1], what


def test_what_the_database_refuses_is_the_clients_error(sql, queue, stream, wire):
    q = queue("n TINYINT, k INT, UNIQUE KEY once (k)")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    statement = wire.prepare(f"INSERT INTO {q} (n, k) VALUES (?, ?)")
    assert execute(wire, statement, number(1000), number(1)).errno == 1264
    done(execute(wire, statement, number(1), number(1), types=False))
    receiver.wait(1, scaled(10))
    assert execute(wire, statement, number(1), number(1), types=False).errno == 1062
    done(execute(wire, statement, number(2), number(2), types=False))
    receiver.wait(2, scaled(10))
    assert sql.rows(f"SELECT n, k FROM {q} ORDER BY id") == [(1, 1), (2, 2)]


def test_an_execution_that_is_malformed_is_the_databases_affair(sql, queue, stream, wire):
    q = queue("payload TEXT")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    statement = wire.prepare(f"INSERT INTO {q} (payload) VALUES (?)")
    assert not execute(wire, statement, text("a"), types=False).ok
    assert not wire.execute(statement, b"").ok
    done(execute(wire, statement, text("b")))
    receiver.wait(1, scaled(10))
    assert sql.rows(f"SELECT payload FROM {q}") == [("b",)]


def test_values_that_are_sent_ahead(sql, queue, stream, wire):
    q = queue("payload TEXT, n INT")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    statement = wire.prepare(f"INSERT INTO {q} (payload, n) VALUES (?, ?)")
    done(execute(wire, statement, text("a"), number(1)))
    for at in range(2):
        wire.command(LONG_DATA, struct.pack("<IH", statement, 0) + b"ahead")
        done(execute(wire, statement, (TEXT, 0, b""), number(2), types=not at))
    receiver.wait(3, scaled(10))
    assert sql.rows(f"SELECT payload, n FROM {q} ORDER BY id") == [("a", 1), ("ahead", 2), ("ahead", 2)]


@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 3 << 20])
def test_a_value_that_is_sent_ahead_in_a_large_piece(sql, queue, stream, wire, size):
    """What is passed on while it comes is noted as well: the values after it are where the execution has them."""
    q = queue("body LONGBLOB, n INT, name TEXT")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    statement = wire.prepare(f"INSERT INTO {q} (body, n, name) VALUES (?, ?, ?)")
    first = "1" + "x" * 49  # whose length, as a digit, would be a value of its own
    wire.command(LONG_DATA, struct.pack("<IH", statement, 0) + b"B" * size)
    done(execute(wire, statement, (BLOB, 0, b""), (LONG, 0, struct.pack("<i", 0)), text(first)))
    receiver.wait(1, scaled(10))
    assert sql.rows(f"SELECT LENGTH(body), n, name FROM {q}") == [(size, 0, first)]


def test_the_statements_table_is_that_of_its_preparation(sql, queue, stream, wire, place):
    if place == "embedded" or SERVER == "vitess":
        pytest.skip("one database there")
    q = queue("payload TEXT")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    statement = wire.prepare(f"INSERT INTO {q} (payload) VALUES (?)")
    sql(f"CREATE DATABASE {q}_other")
    try:
        wire.run(f"USE {q}_other")
        done(execute(wire, statement, text("a")))
        receiver.wait(1, scaled(10))
    finally:
        sql(f"DROP DATABASE {q}_other")


def test_in_bulk_after_one_that_was_leased(sql, queue, stream, wire, place):
    if place not in ("mariadb", "proxy_accounts") or SERVER not in ("mariadb", "mariadb-next"):
        pytest.skip("a command of MariaDB's")
    q = queue("payload TEXT, n INT")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    statement = wire.prepare(f"INSERT INTO {q} (payload, n) VALUES (?, ?)")
    done(execute(wire, statement, text("a"), number(1)))
    receiver.wait(1, scaled(10))
    rows = [(string(b"b"), struct.pack("<q", 2)), (string(b"c"), None)]
    done(wire.command(BULK, bulk(statement, [], rows, flags=0)))
    done(execute(wire, statement, text("d"), number(4), types=False))
    receiver.wait(4, scaled(10))
    assert sql.rows(f"SELECT payload, n FROM {q} ORDER BY id") == [("a", 1), ("b", 2), ("c", None), ("d", 4)]


def test_forms(sql, queue, stream, wire):
    q = queue("payload TEXT, n DOUBLE")
    receiver = stream(f"SELECT id, payload FROM STREAM {q}")
    assert not wire.command(PREPARE, f"INSERT INTO {q} VALUES (?)".encode()).ok, "it has more columns"
    for at, insert in enumerate(["(n, payload) VALUES (1, ?)", "(payload, n) VALUE ( ? , -2.5 ) ;"], 1):
        done(execute(wire, wire.prepare(f"INSERT INTO {q} {insert}"), text("a")))
        receiver.wait(at, scaled(10))
    assert [row[1] for row in receiver.rows] == ["a", "a"]


@pytest.mark.parametrize("charset", ["latin1", "gbk", "utf8mb3", "ascii"])
def test_character_sets_and_modes(sql, queue, stream, wire, place, charset):
    if place == "embedded" and charset not in ("latin1", "utf8mb3"):
        pytest.skip("not known there")
    q = queue("payload TEXT")
    sql(f"CREATE TABLE {q}_plain (id INT AUTO_INCREMENT PRIMARY KEY, payload TEXT)")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    bodies = [b"it's \\' \\\\ \"x\" \\n", b"caf\xe9 \xbf\x27 \x81\x5c'", "žü".encode()]
    added = 0
    for mode in ("", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"):
        wire.run(f"SET NAMES {charset}", f"SET sql_mode = '{mode}'")
        into = [wire.prepare(f"INSERT INTO {table} (payload) VALUES (?)") for table in (q, f"{q}_plain")]
        for body in bodies:
            answers = [execute(wire, statement, (TEXT, 0, string(body))) for statement in into]
            assert answers[0].ok == answers[1].ok
            added += answers[0].ok
            receiver.wait(added, scaled(10))
    both = [sql.rows(f"SELECT HEX(payload) FROM {table} ORDER BY id") for table in (q, f"{q}_plain")]
    assert both[0] == both[1] and added

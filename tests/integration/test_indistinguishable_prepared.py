"""Prepared statements of no, few and very many columns, and those that fail behind their first rows: as at the server.

An answer whose end the relay missed, or saw too early, would leave the client waiting; `in step` would not come.
"""

from __future__ import annotations

import struct

import pytest
from same import KINDS, Play, Seen, asked, number, parameters, prepared, scenario
from servers import SERVER, numbers
from wire_client import CLOSE, EXECUTE, FETCH, PING, WireClient, string

pytestmark = pytest.mark.long

LONGLONG, VAR_STRING, NULL = 8, 253, 6
CURSOR = 1

WIDE_METADATA_BYTES = 16 * 1024
"""Of definitions: more than the relay remembers of any, and more than a server's buffer holds."""

TABLE = """CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, n INT, big DECIMAL(20, 5), real_n DOUBLE,
    name VARCHAR(40), code VARCHAR(40) COLLATE utf8mb4_bin, body VARBINARY(40), born DATE, at DATETIME(3), doc JSON,
    `select` INT)"""
ROWS = """INSERT INTO t (n, big, real_n, name, code, body, born, at, doc, `select`) VALUES
    (1, 1.00001, 0.5, 'Ann', 'Ann', 'a', '2020-02-29', '2020-02-29 10:00:00.123', '{"a": 1}', 1),
    (2, 99999999999.5, 1e20, 'ann ', 'ann', 'A', '2021-12-31', '1999-12-31 23:59:59', '[1, 2]', 2),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (-3, -7, -0.25, 'also', 'x', x'00ff', NULL, NULL, '[]', NULL)"""


def executed(client: WireClient, sql: str, *bodies: bytes) -> list[Seen]:
    """Prepared, then with each of the values: once, once more, with a cursor, and all of them sent ahead."""
    statement, first = prepared(client, sql)
    seen = [first]
    for at, body in enumerate(bodies):
        seen += [(f"{at} of {sql}", client.execute(statement, body)), (f"{at} again", client.execute(statement, body))]
        seen += [(f"{at} pinged", client.command(PING)), (f"{at} open", client.execute(statement, body, flags=CURSOR))]
        seen += [
            (f"{at} fetch {count}", client.command(FETCH, struct.pack("<II", statement, count))) for count in (1, 9)
        ]
    for body in bodies:
        client.send(bytes((EXECUTE,)) + struct.pack("<IBI", statement, 0, 1) + body)
    seen += [(f"{at} sent ahead", client.answer(EXECUTE)) for at in range(len(bodies))]
    client.command(CLOSE, struct.pack("<I", statement))
    return seen


def values(count: int, *, nulls: bool = False) -> bytes:
    """For that many parameters."""
    kinds = ((LONGLONG, number(1)), (VAR_STRING, string(b"text")), (NULL, None))
    return parameters(*((NULL, None) if nulls else kinds[at % 3] for at in range(count)))


@KINDS
@pytest.mark.parametrize("columns", [0, 1, 30, 250, 251, 300, 2000])
def test_any_number_of_columns_and_parameters(play: Play, drop: int, columns: int) -> None:
    names = [f"{'c' * 56}{at}" for at in range(columns)]
    listed = ", ".join(f"{('seq', 'NULL', 'REPEAT(0, seq)')[at % 3]} AS {name}" for at, name in enumerate(names))
    bound = [parameters((LONGLONG, number(least))) for least in (1, 5, 99)]

    def work(client: WireClient) -> list[Seen]:
        if not columns:
            return executed(client, "SET @x = ?", values(1), values(1, nulls=True)) + executed(client, "DO 1", b"")
        rows = executed(client, f"SELECT {listed} FROM {numbers(7)} WHERE seq >= ?", *bound)
        marks = f"SELECT {', '.join('?' * columns)}"
        return rows + executed(client, marks, values(columns), values(columns, nulls=True))

    seen = dict(play(scenario(work), drop=drop))
    assert seen["0 sent ahead"].ok
    if columns >= 300:
        described = seen[f"prepare SELECT {listed} FROM {numbers(7)} WHERE seq >= ?"]
        assert sum(map(len, described.payloads)) > WIDE_METADATA_BYTES


@KINDS
def test_an_error_behind_the_first_rows(play: Play, drop: int) -> None:
    """Drivers bind a positive number as an unsigned one, with which a sum must not become negative."""
    one = b"\x00\x01" + b"\x01\x80" + b"\xfe\x00" + b"\x01" + string(b"a%")
    null = parameters((NULL, None), (VAR_STRING, string(b"a%")))

    def work(client: WireClient) -> list[Seen]:
        client.run(TABLE, ROWS)
        seen = executed(client, "SELECT * FROM t WHERE n + ? = 3 AND name LIKE ?", one, null)
        return seen + asked(client, "SELECT id, n + CAST(1 AS UNSIGNED) FROM t", "SELECT id FROM t")

    seen = dict(play(scenario(work), drop=drop))
    for what in ("0 of SELECT * FROM t WHERE n + ? = 3 AND name LIKE ?", "0 again", "0 sent ahead"):
        assert seen[what].errno == 1690, seen[what]
        assert b"ann " in seen[what].payloads[-2], "a row goes before the error"
    assert seen["1 sent ahead"].ok


@KINDS
def test_an_error_behind_megabytes_of_rows(play: Play, drop: int) -> None:
    sql = f"SELECT REPEAT('x', 500), 18446744073709541615 + seq + ? FROM {numbers(20_000)}"

    def work(client: WireClient) -> list[Seen]:
        return executed(client, sql, parameters((LONGLONG, number(0)))) + asked(client, sql.replace("?", "0"))

    seen = dict(play(scenario(work), drop=drop))
    for what in (f"0 of {sql}", "0 again", repr(sql.replace("?", "0"))):
        assert seen[what].errno == 1690, seen[what].last
        assert len(seen[what].packets) > 10_000


BODY = "DECLARE x INT; DECLARE c CURSOR FOR SELECT seq FROM seq_4_to_9; OPEN c; FETCH c INTO x; CLOSE c;"


@pytest.mark.skipif(SERVER == "mysql", reason="MySQL knows no tables of numbers, and tells nothing of that cursor")
@KINDS
def test_a_procedure_with_a_cursor_of_its_own(play: Play, drop: int) -> None:
    """MariaDB tells of that cursor in the status of the results, as of one that a client opened."""
    one, two = "CALL one()", "CALL two()"
    block = f"BEGIN NOT ATOMIC {BODY} SELECT x; END"

    def work(client: WireClient) -> list[Seen]:
        client.run(
            f"CREATE PROCEDURE one() BEGIN {BODY} SELECT x; END",
            f"CREATE PROCEDURE two() BEGIN {BODY.replace('OPEN', 'SELECT 7; SELECT 8; OPEN')} SELECT x; SELECT 9; END",
            f"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN {BODY} RETURN x; END",
        )
        seen: list[Seen] = []
        for sql in (one, two, block, f"SELECT seq FROM {numbers(9)} WHERE seq = f()", "SHOW TABLES"):
            statement, first = prepared(client, sql)
            seen += [first, (sql, client.execute(statement)), (f"{sql} again", client.execute(statement))]
            seen += [(f"{sql} pinged", client.command(PING)), (f"{sql} open", client.execute(statement, flags=CURSOR))]
            seen += [(f"{sql} fetch", client.command(FETCH, struct.pack("<II", statement, 9)))]
        return seen

    seen = dict(play(scenario(work), drop=drop))
    for sql, results in ((one, 1), (two, 4), (block, 1)):
        for what in (sql, f"{sql} again", f"{sql} open"):
            rows = [payload for payload in seen[what].payloads if len(payload) == 6 and payload[:2] == bytes(2)]
            assert len(rows) == results and seen[what].last[:1] == b"\x00", (what, seen[what].payloads)

"""For how long one client's statement holds everybody else up on the embedded backend, statement by statement.

    python -m benchmarks.holds                       every statement: some minutes
    python -m benchmarks.holds JSON literal          those whose names contain one of these words

Each line has two numbers in milliseconds: the longest hold of the interpreter, and of the event loop, at most as the
processor time used in it; in parentheses the same by the clock, which a busy machine makes longer. The process is
`benchmarks.probed_gate`, which watches itself. Each statement runs alone, as an account that is no administrator,
and is ended after some seconds.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from benchmarks.probed_gate import Held, Holds
from tests.servers import Gate

LIMIT_MS = 4000  # of each statement's run
MB = 1_000_000
USERS = [
    {"name": "root", "password": ""},
    {"name": "hostile", "password": "", "admin": False},
    {"name": "few", "password": "", "queues": {"q": ["enqueue", "receive", "settle"]}},
]


@dataclass(frozen=True, slots=True)
class Attack:
    """`statements` of one session, one after the other; `many`: by so many sessions at once."""

    name: str
    statements: tuple[str, ...]
    user: str = "hostile"
    many: int = 1


def _series(count: int) -> str:
    return f"WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < {count})"


_ENDLESS = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s)"
_JSON = "CONCAT('[', REPEAT('{\"a\": [1, 2, 3]}, ', {count}), '1]')"


def _json(count: int) -> str:
    return _JSON.replace("{count}", str(count))


def attacks() -> tuple[Attack, ...]:
    """See the module."""
    return (*_of_texts(), *_of_json(), *_of_rows(), *_of_statements(), *_of_many())


def _one(name: str, *statements: str, user: str = "hostile") -> Attack:
    return Attack(name, statements, user)


def _of_texts() -> Iterator[Attack]:
    x = "REPEAT('x', 64000000)"
    yield _one("REPEAT to 64 MB", f"SELECT LENGTH({x})")
    yield _one("REPEAT to 64 MB, as the result", f"SELECT {x}")
    yield _one("nested REPLACE", "SELECT LENGTH(REPLACE(REPEAT('ab', 16000000), 'a', 'xx'))")
    yield _one("SHA2 of 64 MB", f"SELECT SHA2({x}, 512)")
    yield _one("MD5, CRC32 of 64 MB", f"SELECT MD5({x}), CRC32({x})")
    yield _one("UPPER, REVERSE of 64 MB", f"SELECT LENGTH(UPPER({x})), LENGTH(REVERSE({x}))")
    yield _one("LPAD to 64 MB", "SELECT LENGTH(LPAD('', 64000000, 'ab'))")
    yield _one("TO_BASE64 of 48 MB", "SELECT LENGTH(TO_BASE64(REPEAT('x', 48000000)))")
    yield _one("FROM_BASE64 of 64 MB", f"SELECT LENGTH(FROM_BASE64({x}))")
    yield _one("HEX and UNHEX of 32 MB", "SELECT LENGTH(UNHEX(HEX(REPEAT('x', 32000000))))")
    yield _one("QUOTE of 32 MB of quotes", "SELECT LENGTH(QUOTE(REPEAT('\\'', 32000000)))")
    yield _one("SOUNDEX of 8 MB", "SELECT LENGTH(SOUNDEX(REPEAT('bd', 4000000)))")
    yield _one("TRIM of 4 MB, letter by letter", "SELECT TRIM(BOTH 'x' FROM REPEAT('x', 4000000))")
    yield _one("SUBSTRING_INDEX of 32 MB", "SELECT LENGTH(SUBSTRING_INDEX(REPEAT('a,', 16000000), ',', 9000000))")
    yield _one("FIND_IN_SET in 32 MB", "SELECT FIND_IN_SET('b', REPEAT('a,', 16000000))")
    yield _one("LOCATE in 32 MB", "SELECT LOCATE(CONCAT(REPEAT('a', 16000), 'b'), REPEAT('a', 32000000))")
    yield _one(
        "INSTR, quadratic", "SELECT INSTR(REPEAT('a', 32000000), CONCAT(REPEAT('a', 8000), 'b', REPEAT('a', 8000)))"
    )
    yield _one("INSERT() of 64 MB", f"SELECT LENGTH(INSERT({x}, 5, 5, 'abc'))")
    yield _one("CONCAT_WS, ELT of 64 MB", "SELECT LENGTH(CONCAT_WS(',', REPEAT('x', 30000000), REPEAT('x', 30000000)))")
    yield _one("text compared, 64 MB", f"SELECT {x} = {x}, STRCMP({x}, {x})")
    yield _one("LIKE in 32 MB", "SELECT REPEAT('a', 32000000) LIKE '%b%'")
    yield _one("REGEXP in 32 MB", "SELECT REPEAT('a', 32000000) REGEXP 'b$'")
    yield _one("REGEXP_REPLACE of 2 MB", "SELECT LENGTH(REGEXP_REPLACE(REPEAT('a', 2000000), 'a', 'bb'))")
    yield _one(
        "CONV, FORMAT, dates of long texts", "SELECT CONV(REPEAT('9', 4000000), 10, 16), DATE(REPEAT('1', 4000000))"
    )
    yield _one(
        "CAST of 4 MB to a number", "SELECT CAST(REPEAT('9', 4000000) AS DECIMAL(65, 0)), REPEAT('9', 4000000) + 0"
    )
    yield _one("FORMAT, wide", "SELECT FORMAT(1e308, 30), ROUND(1e308, 30), FORMAT(1.5, 1000000)")
    yield _one("UUID, INET of 32 MB", "SELECT IS_UUID(REPEAT('-', 32000000)), INET_ATON(REPEAT('1.', 16000000))")
    yield _one("STR_TO_DATE, DATE_FORMAT of MB", "SELECT LENGTH(DATE_FORMAT(NOW(), REPEAT('%W', 4000000)))")


def _of_json() -> Iterator[Attack]:
    yield _one("JSON_EXTRACT of 17 MB", f"SELECT LENGTH(JSON_EXTRACT({_json(1000000)}, '$[5]'))")
    yield _one("JSON_VALID of 17 MB", f"SELECT JSON_VALID({_json(1000000)})")
    yield _one("JSON_LENGTH of 1.7 MB", f"SELECT JSON_LENGTH({_json(100000)})")
    yield _one("JSON_SET of 1.7 MB", f"SELECT LENGTH(JSON_SET({_json(100000)}, '$[5]', 1))")
    yield _one("CAST AS JSON of 1.7 MB", f"SELECT LENGTH(CAST({_json(100000)} AS JSON))")
    yield _one("JSON_PRETTY of 1.7 MB", f"SELECT LENGTH(JSON_PRETTY({_json(100000)}))")
    yield _one("JSON_CONTAINS, quadratic", f"SELECT JSON_CONTAINS({_json(20000)}, {_json(20000)})")
    yield _one(
        "JSON_OVERLAPS, quadratic",
        "SELECT JSON_OVERLAPS(CONCAT('[', REPEAT('1,', 20000), '1]'), CONCAT('[', REPEAT('2,', 20000), '2]'))",
    )
    yield _one("JSON_QUOTE, JSON_UNQUOTE of 32 MB", "SELECT LENGTH(JSON_UNQUOTE(JSON_QUOTE(REPEAT('\\'', 32000000))))")
    yield _one("JSON_MERGE_PATCH of 1.7 MB", f"SELECT LENGTH(JSON_MERGE_PRESERVE({_json(100000)}, {_json(100000)}))")
    yield _one(
        "JSON, deep", "SELECT JSON_DEPTH(CONCAT(REPEAT('[', 900), REPEAT(']', 900))), JSON_VALID(REPEAT('[', 16000000))"
    )
    yield _one("JSON, long number", "SELECT JSON_EXTRACT(REPEAT('9', 4000), '$'), JSON_VALID(REPEAT('9', 4000000))")
    yield _one("JSON path of 4 MB", "SELECT JSON_EXTRACT('[]', CONCAT('$', REPEAT('[1]', 1000000)))")
    yield _one(
        "a JSON column, 4 MB stored",
        "CREATE TABLE jt (d JSON)",
        f"INSERT INTO jt VALUES ({_json(250000)})",
        "SELECT COUNT(*) FROM jt WHERE d->'$[3].a' = 5",
    )


def _of_rows() -> Iterator[Attack]:
    yield _one("endless rows, counted", f"{_ENDLESS} SELECT MAX(n) FROM s")
    yield _one("endless rows, a function each", f"{_ENDLESS} SELECT MAX(LENGTH(UPPER(CONCAT('a', n)))) FROM s")
    yield _one("endless rows, sent", f"{_ENDLESS} SELECT n FROM s")
    yield _one("sort of 2 million", f"{_series(2000000)} SELECT n FROM s ORDER BY n % 1000, -n LIMIT 1")
    yield _one(
        "sort of texts",
        f"{_series(500000)} SELECT CONCAT('x', n) AS t FROM s ORDER BY t COLLATE utf8mb4_general_ci DESC LIMIT 1",
    )
    yield _one("GROUP_CONCAT of 2 million", f"{_series(2000000)} SELECT LENGTH(GROUP_CONCAT(n)) FROM s")
    yield _one(
        "GROUP_CONCAT ORDER BY of 300,000",
        f"{_series(300000)} SELECT LENGTH(GROUP_CONCAT(n ORDER BY n % 7, n DESC)) FROM s",
    )
    yield _one(
        "GROUP_CONCAT of large texts", f"{_series(2000)} SELECT LENGTH(GROUP_CONCAT(REPEAT('x', 100000))) FROM s"
    )
    yield _one("STDDEV of a million", f"{_series(1000000)} SELECT STDDEV(n), VAR_SAMP(n), BIT_XOR(n) FROM s")
    yield _one("SUM of decimals", f"{_series(1000000)} SELECT SUM(CAST(n AS DECIMAL(60, 20))), AVG(n) FROM s")
    yield _one("JSON_ARRAYAGG of a million", f"{_series(1000000)} SELECT LENGTH(JSON_ARRAYAGG(n)) FROM s")
    yield _one("wide rows of 1 MB", f"{_series(50)} SELECT REPEAT('x', 1000000), n FROM s")
    yield _one("1,000 columns by 20,000 rows", f"{_series(20000)} SELECT " + ", ".join(["n"] * 1000) + " FROM s")


def _of_statements() -> Iterator[Attack]:
    yield _one("IN list of 100,000", "SELECT 1 IN (" + "1, " * 100_000 + "1)")
    yield _one("IN list of 4 million", "SELECT 1 IN (" + "1, " * 4_000_000 + "1)")
    yield _one("AND of 60,000 columns", "SELECT 1 FROM q WHERE " + "id AND " * 60_000 + "id")
    yield _one("literal of 32 MB", "SELECT LENGTH('" + "x" * (32 * MB) + "')")
    yield _one("literal of 16 MB of escapes", "SELECT LENGTH('" + "\\'" * (16 * MB) + "')")
    yield _one("hexadecimal literal of 16 MB", "SELECT LENGTH(x'" + "ab" * (16 * MB) + "')")
    yield _one("comment of 32 MB", "SELECT 1 /* " + "x" * (32 * MB) + " */")
    yield _one("spaces, 32 MB", "SELECT" + " " * (32 * MB) + "1")
    yield _one("16 MB of semicolons", "SELECT 1" + ";" * (16 * MB))
    yield _one("2,000 statements in one text", "SELECT 1;" * 2_000)
    yield _one("4 MB of names", "SELECT " + "a, " * (MB * 4 // 3) + "a")
    yield _one("250,000 characters of operators", "SELECT 1" + "+n" * 120_000 + " FROM q")
    yield _one("INSERT of 500,000 rows", "INSERT INTO t VALUES " + "(1,'a')," * 500_000 + "(1,'a')")
    yield _one("INSERT of 100,000 messages", "INSERT INTO q (body) VALUES " + "('a')," * 100_000 + "('a')", user="few")
    yield _one("INSERT of 32 MB, one message", "INSERT INTO q (body) VALUES ('" + "x" * (32 * MB) + "')", user="few")
    yield _one("ACK of 300,000 ids", "ACK q (" + ", ".join(map(str, range(300_000))) + ")", user="few")
    yield _one("ACK WHERE, 64 KB", "ACK q WHERE " + "body = 'a' OR " * 4_000 + "body = 'b'", user="few")
    yield _one(
        "stream WHERE, 60 KB",
        "SELECT id FROM STREAM q WHERE " + "body = 'a' OR " * 4_000 + "body = 'b' LIMIT 1 NOWAIT",
        user="few",
    )
    yield _one("SET of 100,000 variables", "SET " + "@a = 1, " * 100_000 + "@a = 1")
    yield _one(
        "CREATE TABLE of 2,000 columns",
        "CREATE TABLE wide (" + ", ".join(f"c{n} INT" for n in range(2000)) + ")",
        "SELECT * FROM wide",
    )
    yield _one("views and joins, planned", "SELECT COUNT(*) FROM " + " JOIN ".join(f"q AS q{n}" for n in range(60)))
    yield _one("a statement not UTF-8, 8 MB", "SELECT '" + "é" * (4 * MB) + "'")


def _of_many() -> Iterator[Attack]:
    yield Attack("20 x endless rows, counted", (f"{_ENDLESS} SELECT MAX(n) FROM s",), many=20)
    yield Attack(
        "20 x endless rows, a function each", (f"{_ENDLESS} SELECT MAX(LENGTH(UPPER(CONCAT('a', n)))) FROM s",), many=20
    )
    yield Attack("20 x endless rows, sent", (f"{_ENDLESS} SELECT n FROM s",), many=20)
    yield Attack("20 x statements of 200 KB", ("SELECT 1" + "+1" * 100_000,), many=20)
    yield Attack(
        "20 x small statements, read anew",
        tuple(f"SELECT {'+'.join('n' * (n + 3))} FROM q" for n in range(400)),
        many=20,
    )
    yield Attack(
        "20 x JSON_SET of 170 KB",
        tuple([f"SELECT LENGTH(JSON_SET({_json(10000)}, '$[5]', {n}))" for n in range(20)]),
        many=20,
    )


@contextlib.contextmanager
def probed_gate() -> Iterator[tuple[Gate, Holds]]:
    """A gate that watches itself, with a queue and a table for the attackers."""
    with tempfile.TemporaryDirectory(prefix="queuegate-holds-") as name:
        directory = Path(name)
        file = directory / "held"
        holds = Holds(file)
        limits = {"statement_time": f"{LIMIT_MS}ms"}
        gate = Gate(f"sqlite:///{directory}/queue.db", directory, users=USERS, limits=limits)
        gate.program = [sys.executable, "-m", "benchmarks.probed_gate", str(file)]
        gate.start()
        try:
            with gate.connect() as connection, connection.cursor() as cursor:
                cursor.execute("CREATE QUEUE q (body LONGTEXT, n INT)")
                cursor.execute("CREATE TABLE t (n INT, body VARCHAR(100))")
                cursor.execute("INSERT INTO q (body, n) VALUES ('a', 1)")
            yield gate, holds
        finally:
            gate.stop()


def run(attack: Attack, gate: Gate, holds: Holds) -> tuple[Held, str]:
    """What it held, and how it ended."""
    clients = [_client(gate, attack.user) for _ in range(attack.many)]
    holds.reset()
    endings: list[str] = []
    threads = [threading.Thread(target=_attack, args=(client, attack.statements, endings)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    held = holds.read()
    return held, max(endings, key=len) if endings else "no end"


def _client(gate: Gate, user: str) -> pymysql.Connection[Any]:
    client = gate.connect(
        user=user, cursorclass=SSCursor, client_flag=1 << 16, read_timeout=100, max_allowed_packet=1 << 30
    )
    if user == "hostile":
        with client.cursor() as cursor:
            cursor.execute(f"SET max_statement_time = {LIMIT_MS / 1000}")
    return client


def _attack(client: pymysql.Connection[Any], statements: Sequence[str], endings: list[str]) -> None:
    ending = "done"
    for statement in statements:
        cursor = client.cursor()
        try:
            cursor.execute(statement)
            while cursor.fetchmany(100):
                pass
            while cursor.nextset():
                cursor.fetchall()
        except pymysql.MySQLError as error:
            ending = str(error.args)[:100]
            if error.args[0] in (2006, 2013, 0):
                break
    endings.append(ending)
    with contextlib.suppress(Exception):
        client._force_close()


def main() -> None:
    wanted = sys.argv[1:]
    with probed_gate() as (gate, holds):
        for attack in attacks():
            if wanted and not any(word in attack.name for word in wanted):
                continue
            held, ending = run(attack, gate, holds)
            print(
                f"{held.interpreter * 1000:7.0f} {held.loop * 1000:7.0f}"
                f"  ({held.interpreter_wall * 1000:7.0f} {held.loop_wall * 1000:7.0f})  {attack.name}: {ending}",
                flush=True,
            )


if __name__ == "__main__":
    main()

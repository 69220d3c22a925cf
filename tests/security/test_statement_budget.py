"""One statement has one budget: of what it is compiled to, of the bytes that its functions make, and of time."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pymysql
import pytest
from servers import Gate, Sql, wait_until
from slowness import scaled
from wire_client import CLOSE, PREPARE, WireClient

FEW = {"name": "few", "password": "", "queues": {"q": ["enqueue", "receive", "settle"]}}
USERS = [{"name": "root", "password": ""}, FEW]
MEMORY_MAX = 700 << 20  # bytes resident at most: 100 MB at rest, and copies of values of 64 MB
COM_QUERY = 3
SOON = 20.0  # seconds, on a busy machine, for what takes one


@pytest.fixture
def place() -> str:
    return "embedded"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    folder = tmp_path_factory.mktemp("budget")
    gate = Gate(f"sqlite:///{folder / 'q.db'}", folder, users=USERS, limits={"statement_time": "30s"})
    gate.start()
    try:
        with closing(Sql(gate.connect())) as owner:
            owner("CREATE QUEUE q (body LONGTEXT)")
        yield gate
    finally:
        gate.stop()


def attempt(sql: Sql, statement: str) -> None:
    """Run it; what it says does not matter."""
    with suppress(pymysql.err.Error):
        sql(statement)


def peak_bytes(gate: Gate) -> int:
    """The most memory that the proxy has had."""
    assert gate.process is not None
    lines = Path(f"/proc/{gate.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def nested(template: str, levels: int, innermost: str) -> str:
    for _ in range(levels):
        innermost = template.format(innermost)
    return innermost


def derived(levels: int) -> str:
    inner = "SELECT 'x' AS c"
    for _ in range(levels):
        inner = f"SELECT CONCAT(c, c) AS c FROM ({inner}) AS x"
    return f"({inner})"


HOSTILE = {
    "NULLIF": nested("NULLIF({}, 1)", 24, "NULL"),
    "HEX": nested("HEX({})", 26, "'a'"),
    "xor": nested("({} ^ 1)", 26, "7"),
    "CASE": nested("CASE {} WHEN 'x' THEN 1 WHEN 'y' THEN 2 ELSE 'z' END", 24, "'a'"),
    "FIELD": nested("FIELD({}, 'b', 'c', 3)", 24, "'a'"),
    "rows": nested("(({}, 1) < (2, 3))", 24, "1"),
    "REPLACE": nested("REPLACE({}, 'x', REPEAT('x', 30))", 10, "'x'"),
    "UPPER": nested("UPPER(REVERSE({}))", 12, "REPEAT('x', 30000000)"),
    "TRIM": nested("TRIM({})", 24, "REPEAT('x', 30000000)"),
    "LEAST": nested("LEAST({}, 'z')", 20, "REPEAT('x', 30000000)"),
    "CONCAT": nested("CONCAT({}, REPEAT('y', 30000000))", 10, "'x'"),
    "many": " + ".join(f"LENGTH(REPEAT('x', {30000000 + n}))" for n in range(50)),
    "listed": f"CONCAT({', '.join(['REPEAT(CHAR(65), 3000000)'] * 60)})",
    "INSERT": nested("INSERT({}, 1, 0, REPEAT('x', 20000000))", 10, "'x'"),
    "JSON": nested("JSON_ARRAY({0}, {0})", 16, "1"),
    "JSON_QUOTE": nested("JSON_QUOTE({})", 26, "'\"'"),
    "base64": nested("TO_BASE64({})", 40, "REPEAT('x', 1000)"),
    "REGEXP_REPLACE": nested("REGEXP_REPLACE({}, 'x', REPEAT('x', 200))", 6, "'x'"),
    "DATE_FORMAT": "DATE_FORMAT('2026-11-11', REPEAT('%M', 2000000))",
    "derived": derived(25),
}
FROM_ROWS = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 60) SELECT {} FROM s"
IN_ROWS = {
    "GROUP_CONCAT": "LENGTH(GROUP_CONCAT(REPEAT('x', 2000000)))",
    "several": ", ".join(f"LENGTH(GROUP_CONCAT(REPEAT('x', {200000 + n})))" for n in range(20)),
    "JSON_ARRAYAGG": "LENGTH(JSON_ARRAYAGG(REPEAT('x', 3000000)))",
    "JSON_OBJECTAGG": "LENGTH(JSON_OBJECTAGG(n, REPEAT('x', 3000000)))",
}


@pytest.mark.parametrize("user", ["root", "few"])
@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE)
def test_nested_calls_cost_nobody_else_anything(limited: Gate, user: str, expression: str) -> None:
    with closing(Sql(limited.connect(user=user))) as sql, closing(Sql(limited.connect())) as other:
        began = time.monotonic()
        attempt(sql, f"INSERT INTO q (body) VALUES (LENGTH({expression}))")
        assert time.monotonic() - began < scaled(SOON)
        assert other.value("SELECT 1") == 1
    assert peak_bytes(limited) < MEMORY_MAX


@pytest.mark.parametrize("expression", IN_ROWS.values(), ids=IN_ROWS)
def test_aggregates_have_the_same_budget(limited: Gate, expression: str) -> None:
    with closing(Sql(limited.connect())) as sql:
        assert sql.error(FROM_ROWS.format(expression))[0] in (1301, 1235)
    assert peak_bytes(limited) < MEMORY_MAX


def test_a_value_that_is_named_often_is_refused(limited: Gate) -> None:
    with closing(Sql(limited.connect())) as sql:
        sql("SET @large = REPEAT('x', 20000000)")
        assert sql.value("SELECT LENGTH(@large)") == 20_000_000
        assert sql.error(f"SELECT {', '.join(['@large'] * 100)}")[0] == 1301
        assert sql.error("SET " + ", ".join(f"@v{n} = REPEAT('x', 20000000)" for n in range(30)))[0] == 1301
    assert peak_bytes(limited) < MEMORY_MAX


OFTEN = {
    "column": ", ".join(["body"] * 100),
    "star": ", ".join(["t.*"] * 100),
    "made": ", ".join(f"IFNULL(body, {n})" for n in range(100)),
    "chosen": ", ".join(f"CASE WHEN id < {1000 + n} THEN body END" for n in range(100)),
    "subquery": ", ".join(["(SELECT body FROM large LIMIT 1)"] * 100),
}


@pytest.fixture
def with_large(new_gate: Callable[..., Gate]) -> Gate:
    """A table with a row of 15 MB."""
    gate = new_gate().start()
    with closing(Sql(gate.connect())) as sql:
        sql("CREATE TABLE large (id INT PRIMARY KEY, body LONGTEXT)")
        sql("INSERT INTO large VALUES (1, REPEAT('x', 15000000))")
    return gate


@pytest.mark.parametrize("items", OFTEN.values(), ids=OFTEN)
def test_a_column_that_is_named_often_is_refused(with_large: Gate, items: str) -> None:
    with closing(Sql(with_large.connect())) as sql:
        assert sql.error(f"SELECT {items} FROM large AS t")[0] == 1301
        levels = "SELECT body AS a, body AS b, body AS c, body AS d FROM large"
        for _ in range(3):
            levels = f"SELECT {', '.join(f'{name} AS {name}{name}' for name in 'abcd')} FROM ({levels}) AS x"
            levels = levels.replace("aa", "a").replace("bb", "b").replace("cc", "c").replace("dd", "d")
        assert len(sql.rows(levels)[0]) == 4
    assert peak_bytes(with_large) < MEMORY_MAX


def test_columns_named_often_compare_and_sort_as_ever(with_large: Gate) -> None:
    with closing(Sql(with_large.connect())) as sql:
        sql("CREATE TABLE texts (id INT, body LONGTEXT, doc JSON, bytes LONGBLOB)")
        sql("INSERT INTO texts VALUES (1, 'b', '[1]', x'00ff'), (2, 'A', '[2]', x'00'), (3, 'a', NULL, NULL)")
        often = ", ".join(f"body AS b{n}, doc AS d{n}, bytes AS y{n}" for n in range(10))
        assert sql.rows(f"SELECT {often}, id FROM texts ORDER BY id")[0] == ("b", "[1]", b"\0\xff") * 10 + (1,)
        assert len(sql.rows(f"SELECT DISTINCT {often.replace('doc', '1').replace('bytes', '1')} FROM texts")) == 2
        assert len(sql.rows(f"SELECT {often} FROM texts GROUP BY body ORDER BY body DESC")) == 2
        derived_from = f"(SELECT {often} FROM texts) AS x"
        assert sql.value(f"SELECT COUNT(*) FROM {derived_from} WHERE b9 = 'a'") == 2
        ordered = sql.rows(f"SELECT b9 FROM {derived_from} ORDER BY b9")
        assert [row[0].lower() for row in ordered] == ["a", "a", "b"]


def test_rows_that_grow_are_read_one_by_one(with_large: Gate) -> None:
    """The first rows say nothing of the others."""
    with closing(Sql(with_large.connect())) as sql:
        query = FROM_ROWS.format("n, IF(n < 9, 'x', REPEAT('x', 20000000)) AS c")
        sql.connection._execute_command(COM_QUERY, query)  # and read nothing
        wait_until(lambda: peak_bytes(with_large) > 130 << 20, what="the large rows")
        with closing(Sql(with_large.connect())) as other:
            assert other.value("SELECT SLEEP(1)") == 0  # meanwhile no more rows are read
        sql.connection._force_close()
    assert peak_bytes(with_large) < MEMORY_MAX


def files(gate: Gate) -> list[Path]:
    """What the proxy has open."""
    assert gate.process is not None
    result = []
    for one in Path(f"/proc/{gate.process.pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            result.append(one.readlink())
    return result


def spilled(gate: Gate) -> list[Path]:
    return [file for file in files(gate) if file.name.startswith("etilqs")]


def test_large_rows_are_sorted_on_disk_beside_the_database(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate().start()
    sql = Sql(gate.connect())
    rows = FROM_ROWS.format("n, REPEAT('x', 20000000) AS c")
    assert sql.value(f"SELECT n FROM ({rows} ORDER BY c DESC, n DESC) AS x LIMIT 1") in range(1, 61)
    assert peak_bytes(gate) < MEMORY_MAX
    sql.connection._execute_command(COM_QUERY, f"{rows} ORDER BY c DESC, n DESC")  # and read nothing
    wait_until(lambda: bool(spilled(gate)), what="files of a sort")
    assert {file.parent for file in spilled(gate)} == {file.parent for file in files(gate) if file.suffix == ".db"}
    sql.connection._force_close()
    assert peak_bytes(gate) < MEMORY_MAX


@pytest.mark.parametrize(
    ("statement", "errno", "said"),
    [
        ("SELECT 1" + " UNION SELECT 1" * 5000, 1235, "UNION of more than 500"),
        ("SELECT * FROM q WHERE 1" + " AND (1)" * 20_000, 1235, "words and signs"),
        ("SELECT * FROM q WHERE 1" + " AND id = 1" * 30_000, 1235, "characters"),
        ("SELECT " + "a," * 100_000 + "a FROM STREAM q LIMIT 1", 1117, "Too many columns"),
        ("SELECT * FROM STREAM q WHERE " + "`a`." * 20_000 + "a LIMIT 1", 1235, "characters"),
    ],
    ids=["UNION", "AND", "long", "stream", "where"],
)
def test_what_is_too_long_is_refused_in_words(limited: Gate, statement: str, errno: int, said: str) -> None:
    with closing(Sql(limited.connect())) as sql:
        began = time.monotonic()
        found, text = sql.error(statement)
        assert (found, said in text) == (errno, True), text
        assert time.monotonic() - began < scaled(SOON)


def test_what_is_long_is_done(limited: Gate) -> None:
    with closing(Sql(limited.connect())) as sql:
        assert sql.value("SELECT 1" + " AND 1" * 10_000) == 1
        sql("CREATE TABLE dumped (id INT PRIMARY KEY, name VARCHAR(50), amount DECIMAL(10,2))")
        rows = ", ".join(f"({n}, 'name of {n}', {n}.25)" for n in range(10_000))
        assert sql(f"INSERT INTO dumped VALUES {rows}") == 10_000
        made = ", ".join(f"({n}, CONCAT('name of ', UPPER('{n}')), {n} + 1.5)" for n in range(10_000, 20_000))
        assert sql(f"INSERT INTO dumped VALUES {made}") == 10_000
        assert sql.value(f"SELECT COUNT(*) FROM dumped WHERE id IN ({', '.join(map(str, range(20_000)))})") == 20_000
        assert sql.value("SELECT FORMAT(1, 1000000000)") == "1." + "0" * 38
        assert sql.value("SELECT FORMAT(-1234.5678, 2)") == "-1,234.57"


def test_compilation_counts_toward_the_statements_time(limited: Gate) -> None:
    statement = f"SELECT 1 WHERE {' AND '.join(f'CONCAT({n}, UPPER(1)) <> 2' for n in range(3_000))}"
    with closing(Sql(limited.connect())) as sql:
        assert sql.value(statement) == 1
        sql("SET max_statement_time = 0.1")
        began = time.monotonic()
        assert sql.error(statement)[0] == 1969
        assert time.monotonic() - began < scaled(SOON)


ENDLESS = (
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t)"
    " SELECT SUM(LENGTH(REGEXP_REPLACE(REPEAT('a', 100000), 'a.*b|a', 'x'))) FROM t",
    "INSERT INTO q (id) WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t",
)


@pytest.mark.parametrize("statement", ENDLESS, ids=["recursive", "regexp", "insert"])
@pytest.mark.parametrize("how", ["quits", "vanishes"])
def test_what_runs_for_a_client_that_has_gone_ends(new_gate: Callable[..., Gate], statement: str, how: str) -> None:
    gate = new_gate().start()
    other, hostile = Sql(gate.connect()), gate.connect()
    other("CREATE QUEUE q (body LONGTEXT)")
    hostile._execute_command(COM_QUERY, statement)  # and read nothing

    def running() -> bool:
        return any("RECURSIVE" in str(row) for row in other.rows("SHOW FULL PROCESSLIST"))

    wait_until(running, what="the statement")
    assert hostile._sock is not None
    if how == "quits":
        hostile._sock.shutdown(socket.SHUT_RDWR)
    else:
        hostile._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        hostile._force_close()
    wait_until(lambda: not running(), 30, "the statement to end")  # limits.statement_time would take 60 s
    assert other("INSERT INTO q (body) VALUES ('free')") == 1
    hostile._force_close()
    other.connection.close()


def test_a_session_has_a_bounded_number_of_prepared_statements(limited: Gate) -> None:
    """A server's own bound is for all its clients together."""
    with WireClient(limited.port, user="few", database=limited.database) as wire:
        sql = "INSERT INTO q (body) VALUES (?)"
        numbers = [wire.prepare(sql) for _ in range(1024)]
        assert wire.command(PREPARE, sql.encode()).errno == 1461
        wire.command(CLOSE, struct.pack("<I", numbers[0]))
        assert wire.command(PREPARE, sql.encode()).errno == 0

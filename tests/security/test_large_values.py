"""What one call of a function does holds the interpreter: its input is bounded, or it works in pieces."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from servers import Sql
from slowness import scaled

SOON = 20.0  # seconds, on a busy machine, for what takes one
ONES, TWOS = "CONCAT('[', REPEAT('1,', 100000), '2]')", "CONCAT('[', REPEAT('2,', 100000), '2]')"
SERIES = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 300)"


@pytest.fixture
def place() -> str:
    return "embedded"


@pytest.fixture
def sql(gate):
    with closing(Sql(gate.connect())) as client:
        yield client


@pytest.mark.parametrize(
    ("statement", "errno", "said"),
    [
        ("SELECT LENGTH(REPEAT('x', 64000000))", 1301, "max_allowed_packet"),
        ("SELECT LENGTH(LPAD('', 64000000, 'ab'))", 1301, "max_allowed_packet"),
        ("SELECT FIND_IN_SET('b', REPEAT('a,', 8000000))", 1235, "FIND_IN_SET"),
        ("SELECT LENGTH(QUOTE(REPEAT('x', 8000000)))", 1235, "QUOTE"),
        ("SELECT LENGTH(CONCAT_WS(',', REPEAT('x', 3000000), REPEAT('x', 3000000)))", 1235, "CONCAT_WS"),
        ("SELECT JSON_VALID(CONCAT('[', REPEAT('1,', 3000000), '1]'))", 1235, "JSON_VALID"),
        (f"{SERIES} SELECT LENGTH(GROUP_CONCAT(REPEAT('x', 100000))) FROM s", 1235, "GROUP_CONCAT"),
    ],
)  # fmt: skip
def test_what_would_hold_the_interpreter_is_refused(sql, statement, errno, said):
    found, text = sql.error(statement)
    assert (found, said in text) == (errno, True), text
    assert sql.value("SELECT 1") == 1


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("SELECT JSON_LENGTH(CONCAT('[', REPEAT('{\"a\": [1, \"x\", null]},', 50000), '1]'))", 50_001),
        ("SELECT LENGTH(JSON_SET(CONCAT('[', REPEAT('1, ', 200000), '1]'), '$[0]', 22))", 600_004),
        ("SELECT LENGTH(TRIM(BOTH 'x' FROM CONCAT(REPEAT('x', 2000000), 'y', REPEAT('x', 2000000))))", 1),
        ("SELECT LENGTH(UPPER(REPEAT('é', 3000000)))", 6_000_000),
        ("SELECT LENGTH(REPEAT('x', 20000000))", 20_000_000),
    ],
)
def test_what_is_large_is_done_in_pieces(sql, statement, value):
    assert sql.value(statement) == value


def test_a_function_that_takes_its_time_is_interrupted(sql):
    sql("SET max_statement_time = 0.5")
    began = time.monotonic()
    for function in ("JSON_OVERLAPS", "JSON_CONTAINS"):
        assert sql.error(f"SELECT {function}({ONES}, {TWOS})")[0] == 1969
    assert time.monotonic() - began < scaled(2 * SOON)

"""Window functions: frames over DECIMAL of more than 15 digits, which a function of our own sums; defaults of LAG."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

EMPTY = (
    "(ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)",
    "(ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
    "(ORDER BY id RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING)",
    "f",
    "(o ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)",
)
WINDOWS = "WINDOW o AS (ORDER BY id), f AS (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)"


@pytest.fixture
async def wide(client):
    await client("CREATE TABLE w (id INT PRIMARY KEY, n DECIMAL(24,4), d DECIMAL(8,2))")
    await client("INSERT INTO w VALUES (1, 12345678901234567890.5, 1.5), (2, NULL, 2.5), (3, 0.25, 3)")
    return client


@pytest.mark.parametrize("frame", EMPTY)
@pytest.mark.parametrize("call", ["SUM(n)", "AVG(n)", "SUM(d / 7)"])
async def test_a_frame_that_may_have_no_row_does_not_end_the_process(wide, call, frame):
    """Python's sqlite3 crashes where such a function was given no row; numbers of SQLite's own are summed by SQLite."""
    windows = WINDOWS if frame[0] != "(" or frame[1] == "o" else ""
    number, text = await wide.error(f"SELECT id, {call} OVER {frame} FROM w {windows}")
    assert number == 1235
    assert "frame" in text
    assert len(await wide.rows(f"SELECT id, SUM(d) OVER {frame} FROM w {windows}")) == 3


async def test_a_frame_with_its_own_row_has_every_digit(wide):
    asked = "SELECT SUM(n) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM w ORDER BY id"
    first = Decimal("12345678901234567890.5000")
    assert await wide.rows(asked) == [(first,), (first + Decimal("0.2500"),), (Decimal("0.2500"),)]


@pytest.mark.parametrize(
    "call",
    [
        "SUM(n)",
        "AVG(n)",
        "SUM(n) OVER ()",
        "SUM(n) OVER (ORDER BY id)",
        "SUM(n) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)",
        "AVG(n) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    ],
)
async def test_a_sum_too_large_says_so(client, call):
    await client("CREATE TABLE large (id INT PRIMARY KEY, n DECIMAL(65,0))")
    await client(f"INSERT INTO large VALUES (1, {'9' * 65}), (2, {'9' * 65}), (3, 1)")
    assert await client.error(f"SELECT {call} FROM large") == (1690, "DECIMAL value is out of range")
    assert await client.value("SELECT SUM(n) FROM large WHERE id = 1") == Decimal("9" * 65)


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("LAG(SUM(d), 1, 0)", [Decimal("0.00"), Decimal("1.50")]),
        ("LEAD(n, 1, 0.5)", [Decimal("0.2500"), Decimal("0.5000")]),
        ("LAG(t, 1, '00:00:00')", ["00:00:00", "10:11:12"]),
        ("LAG(t, 1, NULL)", [None, datetime.timedelta(seconds=36672)]),
        ("LAG(m, 1, '2000-01-01')", ["2000-01-01", "2024-01-01 10:00:00"]),
        ("LAG(b, 1, 'x')", [b"x", b"\xff"]),
        ("LAG(SUM(d) / 7, 1, 0) OVER (ORDER BY id) * 7 + 0 * RANK()", [Decimal("0"), Decimal("1.5")]),
    ],
)
async def test_a_default_of_lag_has_the_form_of_the_other_values(client, call, values):
    await client("CREATE TABLE w (id INT PRIMARY KEY, n DECIMAL(24,4), d DECIMAL(8,2), t TIME, m DATETIME, b BLOB)")
    await client("INSERT INTO w VALUES (1, 7, 1.5, '10:11:12', '2024-01-01 10:00:00', x'ff')")
    await client("INSERT INTO w VALUES (2, 0.25, 2.5, '12:00:00', '2024-01-02 10:00:00', x'fe')")
    rows = await client.rows(f"SELECT {call} OVER (ORDER BY id) FROM w GROUP BY id ORDER BY id")
    assert [round(value, 9) if isinstance(value, Decimal) else value for (value,) in rows] == values

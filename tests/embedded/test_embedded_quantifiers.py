"""ANY, SOME and ALL by their definition, which MariaDB 10.11 does not always keep: a model of three values decides.

The forms in which MariaDB contradicts itself stand in docs/testing.md; generated statements leave them out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

VALUES = (None, 1, 2, 3)
SETS = {1: (), 2: (None,), 3: (1,), 4: (2, 2), 5: (1, 3), 6: (2, None), 7: (1, 2, 3, None)}
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def answer(word: str, test: Callable[[int, int], bool], value: int | None, rows: tuple[int | None, ...]) -> int | None:
    """What value OPERATOR word (rows) is."""
    tests = [None if value is None or row is None else test(value, row) for row in rows]
    decided = word != "ALL"
    if decided in tests:
        return int(decided)
    return None if None in tests else int(not decided)


def negated(value: int | None) -> int | None:
    return None if value is None else 1 - value


@pytest.fixture
async def sets(client):
    await client("CREATE TABLE v (n INT)")
    await client("CREATE TABLE s (id INT PRIMARY KEY)")
    await client("CREATE TABLE m (s INT, n INT)")
    await client("INSERT INTO v VALUES (NULL), (1), (2), (3)")
    await client("INSERT INTO s VALUES " + ", ".join(f"({one})" for one in SETS))
    for one, rows in SETS.items():
        for row in rows:
            await client("INSERT INTO m VALUES (?, ?)", one, row)
    return client


@pytest.mark.parametrize("word", ["ANY", "SOME", "ALL"])
@pytest.mark.parametrize("sign", OPERATORS)
async def test_true_false_and_unknown(sets, word, sign):
    test = f"v.n {sign} {word} (SELECT m.n FROM m WHERE m.s = s.id)"
    asked = f"SELECT v.n, s.id, {test}, NOT ({test}), NOT (NOT ({test})), ({test}) IS UNKNOWN FROM v, s"
    expected = {}
    for value in VALUES:
        for one, rows in SETS.items():
            is_so = answer(word, OPERATORS[sign], value, rows)
            expected[value, one] = (is_so, negated(is_so), is_so, int(is_so is None))
    assert {(value, one): tuple(rest) for value, one, *rest in await sets.rows(asked)} == expected
    found = await sets.rows(f"SELECT v.n, s.id FROM v, s WHERE NOT (NOT ({test}))")
    assert set(found) == {key for key, (is_so, *_) in expected.items() if is_so}


@pytest.mark.parametrize("word", ["ANY", "ALL"])
@pytest.mark.parametrize("sign", OPERATORS)
async def test_a_subquery_on_the_left(sets, word, sign):
    """The query on the right is carried out for each row, and a constant on the left may be unknown all the same."""
    for left, value in (("(SELECT MAX(2) FROM s)", 2), ("2", 2), ("(SELECT n FROM v WHERE n > 3)", None)):
        test = f"{left} {sign} {word} (SELECT m.n FROM m WHERE m.s = s.id)"
        expected = {one: answer(word, OPERATORS[sign], value, rows) for one, rows in SETS.items()}
        assert dict(await sets.rows(f"SELECT s.id, {test} FROM s")) == expected
        unknown = {one for one, is_so in expected.items() if is_so is None}
        assert {one for (one,) in await sets.rows(f"SELECT s.id FROM s WHERE ({test}) IS UNKNOWN")} == unknown


async def test_of_two_collations_the_comparison_is_byte_by_byte(client):
    """Zeta is the greatest by utf8mb4_general_ci, and xyz byte by byte."""
    await client("CREATE TABLE words (ci VARCHAR(9), bin VARCHAR(9) COLLATE utf8mb4_bin)")
    await client("INSERT INTO words VALUES ('Zeta', 'abc'), ('xyz', 'zz')")
    for where in ("bin < ANY (SELECT ci FROM words)", "NOT (bin >= ALL (SELECT ci FROM words))"):
        assert await client.rows(f"SELECT bin FROM words WHERE {where}") == [("abc",)]

"""How JSON compares, sorts and groups: as the manual of MySQL 8 says. MariaDB has no JSON type to compare with."""

from __future__ import annotations

import json
from functools import cmp_to_key
from itertools import pairwise
from random import Random
from typing import Any

import pytest

RANKS = {type(None): 0, int: 1, float: 1, str: 2, dict: 3, list: 4, bool: 5}


def order(one: Any, other: Any) -> int:
    """MySQL's order of two JSON values, written down a second time."""
    ranks = RANKS[type(one)], RANKS[type(other)]
    if ranks[0] != ranks[1]:
        return ranks[0] - ranks[1]
    if isinstance(one, list):
        for left, right in zip(one, other, strict=False):
            if (result := order(left, right)) != 0:
                return result
        return len(one) - len(other)
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return 0 if one is None else (one > other) - (one < other)


def value(random: Random, depth: int = 2) -> Any:
    """A JSON value without objects, whose order is not defined."""
    return random.choice(
        (
            lambda: None,
            lambda: random.choice((True, False)),
            lambda: random.randint(-12, 12),
            lambda: random.randint(-(10**18), 10**18),
            lambda: random.randint(-40, 40) / 4,
            lambda: random.uniform(-1, 1) * 10 ** random.randint(-300, 300),
            lambda: random.choice(("", "a", "A", "ab", "b", "10", "9", "ä", "a\0b", "\0")),
            lambda: [value(random, depth - 1) for _ in range(random.randint(0, 3))] if depth else [],
        )
    )()


@pytest.mark.parametrize("seed", range(3))
async def test_json_is_compared_by_type_and_value(client, seed):
    random = Random(seed)
    for _ in range(150):
        one, other = value(random), value(random)
        if random.random() < 0.2:
            other = one
        expected = order(one, other)
        sides = [json.dumps(one), json.dumps(other)]
        got = await client.rows(
            "SELECT JSON_EXTRACT(?, '$') < JSON_EXTRACT(?, '$'), JSON_EXTRACT(?, '$') = JSON_EXTRACT(?, '$'),"
            " JSON_EXTRACT(?, '$') >= JSON_EXTRACT(?, '$')",
            *sides * 3,
        )
        assert got == [(int(expected < 0), int(expected == 0), int(expected >= 0))], sides


async def test_json_sorts_by_type_and_value(client):
    random = Random(7)
    await client("CREATE TABLE j (id INT PRIMARY KEY, doc JSON)")
    values = [value(random) for _ in range(200)]
    for number, one in enumerate(values):
        await client("INSERT INTO j VALUES (?, ?)", number, json.dumps(one))
    for query in (
        "SELECT doc FROM j ORDER BY doc",
        "SELECT doc AS d FROM j ORDER BY d",
        "SELECT doc FROM j ORDER BY 1",
    ):
        found = [json.loads(doc) for (doc,) in await client.rows(query)]
        assert len(found) == len(values)
        assert all(order(one, other) <= 0 for one, other in pairwise(found)), query
    least, most = await client.value("SELECT MIN(doc) FROM j"), await client.value("SELECT MAX(doc) FROM j")
    ordered = sorted(values, key=cmp_to_key(order))
    assert order(json.loads(least), ordered[0]) == order(json.loads(most), ordered[-1]) == 0


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("""JSON_EXTRACT('{"n":10}', '$.n') > JSON_EXTRACT('5', '$')""", 1),
        ("""JSON_EXTRACT('{"n":10}', '$.n') > 9""", 1),
        ("""JSON_EXTRACT('{"n":10}', '$.n') = 10.0""", 1),
        ("""JSON_EXTRACT('{"n":10}', '$.n') = '10'""", 0),
        ("""JSON_VALUE('{"n":10}', '$.n') = '10'""", 1),
        ("""JSON_EXTRACT('"a"', '$') = 'a'""", 1),
        ("""JSON_EXTRACT('"A"', '$') = 'a'""", 0),
        ("""JSON_EXTRACT('true', '$') = TRUE""", 1),
        ("""JSON_EXTRACT('true', '$') = 1""", 0),
        ("""JSON_EXTRACT('null', '$') = NULL""", None),
        ("""JSON_EXTRACT('{"a":1}', '$.b') = 1""", None),
        ("""JSON_EXTRACT('2', '$') IN (1, 2, 3)""", 1),
        ("""JSON_EXTRACT('20', '$') BETWEEN 3 AND 100""", 1),
        ("""CAST('{"a": 1, "b": [1, 2]}' AS JSON) = CAST('{"b":[1,2],"a":1.0}' AS JSON)""", 1),
        ("""JSON_EXTRACT('9007199254740993', '$') > JSON_EXTRACT('9007199254740992', '$')""", 1),
    ],
)
async def test_json_beside_sql_values(client, condition, expected):
    assert await client.value(f"SELECT {condition}") == expected


async def test_json_groups_by_value(client):
    await client("CREATE TABLE j (doc JSON)")
    await client("""INSERT INTO j VALUES ('1'), ('1.0'), ('"1"'), ('{"a":1,"b":2}'), ('{"b": 2, "a": 1}')""")
    assert await client.rows("SELECT COUNT(*) FROM j GROUP BY doc ORDER BY doc") == [(2,), (1,), (2,)]


async def test_what_json_is_not_compared_with_is_refused(client):
    assert await client.errno("SELECT JSON_EXTRACT('1', '$') = DATE '2026-01-01'") == 1235
    assert await client.errno("SELECT JSON_EXTRACT('1', '$') UNION SELECT JSON_EXTRACT('2', '$') ORDER BY 1") == 1235


async def test_a_number_too_big_for_a_double_is_no_json(client):
    """Python reads such a number as infinity, and writes that as a word that is not JSON."""
    reason = "Number too big to be stored in double."
    for document in ("1e999", "[-1e999]", '{"a": [1e400]}', f"[1e999{', 1' * 100_000}]"):
        number, text = await client.error("SELECT CAST(? AS JSON)", document)
        assert (number, reason in text) == (3141, True)
        assert await client.value("SELECT JSON_VALID(?)", document) == 0
    assert await client.errno("SELECT CAST('1e999' AS JSON) > 1") == 3141
    assert await client.errno("SELECT JSON_EXTRACT('[1e999]', '$[0]') > 1") == 3141
    for word in ("Infinity", "-Infinity", "NaN"):
        assert await client.errno("SELECT CAST(? AS JSON)", word) == 3141
        assert await client.value("SELECT JSON_VALID(?)", word) == 0
    await client("CREATE TABLE j (doc JSON)")
    number, text = await client.error("INSERT INTO j VALUES ('[1e999]')")
    assert (number, reason in text) == (3140, True)
    assert await client.errno("SELECT JSON_ARRAY('1e999' + 0)") == 1690
    assert await client.value("SELECT CAST('1e308' AS JSON) > 1") == 1


async def test_json_beside_an_infinite_number(client):
    largest = "CAST('1.7e308' AS JSON)"
    asked = f"SELECT {largest} < '1e999' + 0, {largest} > '-1e999' + 0, CAST('-1.7e308' AS JSON) > '-1e999' + 0"
    assert await client.rows(asked) == [(1, 1, 1)]

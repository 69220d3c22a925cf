"""Spans: gaps found by few looks, and shares that are even where numbers are."""

from __future__ import annotations

import bisect
import random

import pytest

from spark_connector.batch.parts import occupied, shares


def looked_at(numbers):
    """The spans of these numbers, and how many looks that took."""
    looks = []

    def ceiling(at):
        looks.append(at)
        return numbers[bisect.bisect_left(numbers, at)]

    def floor(at):
        looks.append(at)
        return numbers[bisect.bisect_right(numbers, at) - 1]

    return occupied((numbers[0], numbers[-1]), ceiling, floor, 64), len(looks)


def parts(numbers, ends):
    places = [bisect.bisect_right(numbers, end) for end in ends]
    return [b - a for a, b in zip([0, *places], [*places, len(numbers)], strict=True)]


@pytest.mark.parametrize(
    "numbers",
    [
        [*range(1, 10_001)],
        [*range(1, 100_001, 10)],
        [*range(1, 5001), *range(10**12, 10**12 + 5000)],
        [*range(-(10**15), -(10**15) + 3000), *range(4000), *range(10**18, 10**18 + 3000)],
        sorted(random.Random(5).sample(range(10**6), 10_000)),
    ],
    ids=["dense", "sparse", "one gap", "two gaps", "scattered"],
)
def test_shares_are_even(numbers):
    spans, looks = looked_at(numbers)
    assert looks <= 3 * 2 * 70
    found = parts(numbers, shares(spans, 4))
    assert sum(found) == len(numbers) and len(found) == 4
    assert max(found) < 1.3 * len(numbers) / 4


def test_few_numbers():
    assert shares([(5, 5)], 4) == []
    assert shares([(5, 6)], 2) == [5]
    assert shares([(1, 10)], 1) == []
    assert looked_at([1, 2]) == ([(1, 2)], 0)

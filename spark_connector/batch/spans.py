"""The used spans of a range of numbers, found with few look-ups, and their division into equal shares.

For tables too large to count: within a span ids are assumed to be evenly distributed; wide gaps do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

_ROUNDS = 3  # a later round examines what was hidden by a gap in an earlier one
Span = tuple[int, int]  # first and last number; both exist


def occupied(span: Span, ceiling: Callable[[int], int], floor: Callable[[int], int], probes: int) -> list[Span]:
    """The span without its gaps, as far as `probes` evenly spaced look-ups show them.

    `ceiling` returns the lowest existing number not below its argument, `floor` the highest not above it.
    """
    spans = [span]
    for _ in range(_ROUNDS):
        step = max(1, sum(last - first for first, last in spans) // probes)
        spans = [part for each in spans for part in _without_gaps(each, step, ceiling, floor)]
    return spans


def _without_gaps(span: Span, step: int, ceiling: Callable[[int], int], floor: Callable[[int], int]) -> Iterator[Span]:
    first, last = span
    at = first + step
    while at < last:
        above = ceiling(at)
        below = at if above == at else floor(at)
        if above - below > step:
            yield first, below
            first = above
        at = max(at, above) + step
    yield first, last


def shares(spans: Sequence[Span], count: int) -> list[int]:
    """The last number of each share except the last share, if numbers are evenly distributed in the spans."""
    total = sum(last - first + 1 for first, last in spans)
    ends = {_at(spans, total * n // count) for n in range(1, count)}
    return sorted(end for end in ends if spans[0][0] <= end < spans[-1][1])


def _at(spans: Sequence[Span], index: int) -> int:
    """The number at that position, counted from 1 through all spans."""
    for first, last in spans:
        if index <= last - first + 1:
            return first + index - 1
        index -= last - first + 1
    return spans[-1][1]

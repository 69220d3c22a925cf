"""Where in a range of numbers there are any, found by looking at few places; and even shares of it.

For tables too large to be counted: ids are taken to lie evenly where they lie, wide gaps between them count nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

_ROUNDS = 3  # what a gap hid in one round is looked at in the next
Span = tuple[int, int]  # first and last number, both of which are there


def occupied(span: Span, ceiling: Callable[[int], int], floor: Callable[[int], int], probes: int) -> list[Span]:
    """The span without its gaps, as far as so many evenly spaced places show them.

    `ceiling` gives the lowest number that is there and not below its argument, `floor` the highest not above.
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
    """The last numbers of all shares but the last, if numbers lie evenly in the spans."""
    total = sum(last - first + 1 for first, last in spans)
    ends = {_at(spans, total * n // count) for n in range(1, count)}
    return sorted(end for end in ends if spans[0][0] <= end < spans[-1][1])


def _at(spans: Sequence[Span], place: int) -> int:
    """The number of that place, counted from 1 through all spans."""
    for first, last in spans:
        if place <= last - first + 1:
            return first + place - 1
        place -= last - first + 1
    return spans[-1][1]

"""How a queue or a topic is cut into parts that several connections read, with no snapshot in common.

Spark plans a DataFrame of a Python source once and reads it once for each action: all actions use the parts of the
first one. So a part is a range of ids (or of numbers, in a topic with numbers), independent of its content, and
together the parts cover all present and future ids: each action reads what exists when it runs. Ids above the highest
id of the plan are distributed to the parts in blocks; all tasks compute the same blocks, however many of the ids they
see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.client.topic_log import first_since, number_all
from spark_connector.option_bounds import Span

EXACT_ROWS_MAX = 1_000_000  # with more rows the shares are estimated: counting would take seconds
BLOCK_IDS = 10_000
"""Ids of a block above the plan's highest. Each round of blocks, one for each part, has twice as many as the round
before."""

_PROBES = 64  # look-ups in each round of an estimate
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"})
# Types whose values, written into a statement and read back, compare in the order of ORDER BY.
_ORDERED = _WHOLE | {"char", "varchar", "binary", "varbinary", "decimal", "date", "datetime"}

Key = Any  # a value of the key column, as PyMySQL converts it


@dataclass(frozen=True)
class Range:
    """Keys above `after` and up to `to`; None: no bound."""

    after: Key = None
    to: Key = None


@dataclass(frozen=True)
class Share:
    """A part's share of the integers above the plan's highest: one block of each round."""

    above: int
    index: int  # among the parts, from 0
    parts: int

    def ranges(self, highest: int) -> Iterator[Range]:
        """Its blocks up to the highest id."""
        start, size = self.above, BLOCK_IDS
        while start < highest:
            after = start + self.index * size
            if after < highest:
                yield Range(after, min(after + size, highest))
            start, size = start + self.parts * size, 2 * size


@dataclass(frozen=True)
class Part:
    """What a task reads. It contains the driver's description of the queue, so that tasks need no queries for it."""

    queue: Queue
    planned: Range
    share: Share | None = None  # None: the last range has no end
    settings: tuple[str, ...] = ()  # statements for each new connection that reads it


def cut(
    client: Client,
    queue: Queue,
    count: int,
    include_acked: bool,
    span: Span | None = None,
    settings: tuple[str, ...] = (),
) -> list[Part]:
    """At most `count` parts of about equal numbers of rows. `span`: of a topic. `settings`: as in Part. Raises
    QueueError, pymysql's errors."""
    if queue.sequenced:
        number_all(client, queue)
    by = queue.offset
    if queue.column(by).base not in _ORDERED:
        return [Part(queue, Range(), settings=settings)]
    highest = client.value(f"SELECT MAX({by}) FROM {queue.quoted}")
    counted = queue.column(by).base in _WHOLE
    if highest is None and not counted:
        return [Part(queue, Range(), settings=settings)]
    whole = Range(None, 0 if highest is None else highest)
    if span is not None and highest is not None:
        whole = bounded(whole, limits(client, queue, span))
    ends = _ends(client, queue, whole, count, include_acked) if count > 1 and highest is not None else []
    planned_ranges = [Range(after, to) for after, to in zip([None, *ends], [*ends, whole.to], strict=True)]
    if not counted:
        planned_ranges[-1] = Range(planned_ranges[-1].after, None)
    return [
        Part(queue, planned, Share(int(whole.to), index, len(planned_ranges)) if counted else None, settings)
        for index, planned in enumerate(planned_ranges)
    ]


def ranges(client: Client, part: Part, span: Span | None) -> list[Range]:
    """The ranges that a task reads of its part, computed when it starts. Raises QueueError, pymysql's errors."""
    if part.queue.sequenced:
        number_all(client, part.queue)
    all_ranges = [part.planned]
    if part.share is not None:
        highest = client.value(f"SELECT MAX({part.queue.offset}) FROM {part.queue.quoted}")
        all_ranges.extend(part.share.ranges(part.share.above if highest is None else highest))
    if span is None:
        return all_ranges
    most = limits(client, part.queue, span)
    return [each for each in (bounded(one, most) for one in all_ranges) if not _is_empty(each)]


def limits(client: Client, topic: Queue, span: Span) -> Range:
    """The offsets of a span, as far as they are known now."""
    after = None if span.starting == "earliest" else span.starting - 1
    to = None if span.ending == "latest" else span.ending - 1
    if span.starting_time is not None:
        after = first_since(client, topic, span.starting_time, "startingTimestamp") - 1
    if span.ending_time is not None:
        to = first_since(client, topic, span.ending_time, "endingTimestamp") - 1
    return Range(after, to)


def bounded(one: Range, most: Range) -> Range:
    """The intersection of two ranges."""
    afters = [bound for bound in (one.after, most.after) if bound is not None]
    tos = [bound for bound in (one.to, most.to) if bound is not None]
    return Range(max(afters, default=None), min(tos, default=None))


def _is_empty(one: Range) -> bool:
    return one.after is not None and one.to is not None and bool(one.after >= one.to)


def condition(one: Range, queue: Queue, include_acked: bool) -> tuple[str, list[Any]]:
    """The WHERE of a range, and its values."""
    terms, args = list[str](), list[Any]()
    if one.after is not None:
        terms, args = [*terms, f"{queue.offset} > %s"], [*args, one.after]
    if one.to is not None:
        terms, args = [*terms, f"{queue.offset} <= %s"], [*args, one.to]
    if not include_acked and not queue.is_topic:
        terms = [*terms, "time_acked IS NULL"]
    return " AND ".join(terms) or "1 = 1", args


def _ends(client: Client, queue: Queue, whole: Range, count: int, include_acked: bool) -> list[Key]:
    """The last id of each part except the last part."""
    name, by = queue.escaped_log, queue.offset
    where, args = condition(whole, queue, include_acked)
    rows = client.value(
        f"SELECT COUNT(*) FROM (SELECT {by} FROM {name} WHERE {where} LIMIT {EXACT_ROWS_MAX + 1}) AS counted",
        args,
    )
    if rows > EXACT_ROWS_MAX and queue.column(by).base in _WHOLE:
        return _estimated(client, queue, whole, count)
    if rows > EXACT_ROWS_MAX:
        rows = client.value(f"SELECT COUNT(*) FROM {name} WHERE {where}", args)
    return _exact(client, queue, whole, count, include_acked, -(-rows // count))


def _exact(client: Client, queue: Queue, whole: Range, count: int, include_acked: bool, share: int) -> list[Key]:
    """In steps of `share` rows along the key."""
    ends: list[Key] = []
    name, by = queue.escaped_log, queue.offset
    for _ in range(count - 1 if share else 0):
        rest = replace(whole, after=ends[-1]) if ends else whole
        where, args = condition(rest, queue, include_acked)
        last = client.row(f"SELECT {by} FROM {name} WHERE {where} ORDER BY {by} LIMIT 1 OFFSET {share - 1}", args)
        if last is None or last[0] == whole.to:
            break
        ends.append(last[0])
    return ends


def _estimated(client: Client, queue: Queue, whole: Range, count: int) -> list[Key]:
    """From the gaps between ids or numbers, found with a few hundred look-ups."""
    name, by = queue.escaped_log, queue.offset

    def at(bound: str, number: int) -> int:
        key = client.value(f"SELECT {bound} %s", (number,))
        return number if key is None else int(key)  # None: deleted meanwhile

    above, below = f"MIN({by}) FROM {name} WHERE {by} >=", f"MAX({by}) FROM {name} WHERE {by} <="
    highest = at(below, whole.to)
    lowest = at(f"MIN({by}) FROM {name} WHERE {by} <=", highest) if whole.after is None else at(above, whole.after + 1)
    spans = occupied((lowest, highest), lambda n: at(above, n), lambda n: at(below, n), _PROBES)
    return list(shares(spans, count))


# The used spans of a range of numbers, found with few look-ups, and their division into equal shares.
#
# For tables too large to count: within a span ids are assumed to be evenly distributed; wide gaps do not count.

_ROUNDS = 3  # a later round examines what was hidden by a gap in an earlier one
NumberSpan = tuple[int, int]  # first and last number; both exist


def occupied(
    span: NumberSpan, ceiling: Callable[[int], int], floor: Callable[[int], int], probes: int
) -> list[NumberSpan]:
    """The span without its gaps, as far as `probes` evenly spaced look-ups show them.

    `ceiling` returns the lowest existing number not below its argument, `floor` the highest not above it.
    """
    spans = [span]
    for _ in range(_ROUNDS):
        step = max(1, sum(last - first for first, last in spans) // probes)
        spans = [part for each in spans for part in _without_gaps(each, step, ceiling, floor)]
    return spans


def _without_gaps(
    span: NumberSpan, step: int, ceiling: Callable[[int], int], floor: Callable[[int], int]
) -> Iterator[NumberSpan]:
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


def shares(spans: Sequence[NumberSpan], count: int) -> list[int]:
    """The last number of each share except the last share, if numbers are evenly distributed in the spans."""
    total = sum(last - first + 1 for first, last in spans)
    ends = {_at(spans, total * n // count) for n in range(1, count)}
    return sorted(end for end in ends if spans[0][0] <= end < spans[-1][1])


def _at(spans: Sequence[NumberSpan], index: int) -> int:
    """The number at that position, counted from 1 through all spans."""
    for first, last in spans:
        if index <= last - first + 1:
            return first + index - 1
        index -= last - first + 1
    return spans[-1][1]

"""How a queue or a topic is cut into parts that several connections read, with no snapshot in common.

Spark plans a DataFrame of a Python source once and reads it as often as there are actions on it: its parts are those of
the first action. So a part is a range of ids (of a topic with numbers: of numbers) whatever is in it then, and together
the parts are all ids there are or will be: each action reads what is there when it runs. What comes above the highest
id of the plan is dealt out to the parts in blocks, which all tasks reckon alike, however much they see of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from spark_connector.batch.spans import occupied, shares
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.client.topic_log import first_since
from spark_connector.client.topic_numbers import number_all
from spark_connector.option_bounds import Span

EXACT_ROWS_MAX = 1_000_000  # shares of more rows than these are estimated: to count them took seconds
BLOCK_IDS = 10_000
"""Ids of a block above the plan's highest. Each round of blocks, one for each part, has twice as many."""

_PROBES = 64  # look-ups in each round of an estimate
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"})
# Types whose values compare as ORDER BY sorts them when they are written into a statement and read back.
_ORDERED = _WHOLE | {"char", "varchar", "binary", "varbinary", "decimal", "date", "datetime"}

Key = Any  # a value of the column that is cut by, as PyMySQL gives and takes it


@dataclass(frozen=True)
class Range:
    """Keys above `after` and up to `to`; None: without a bound."""

    after: Key = None
    to: Key = None


@dataclass(frozen=True)
class Share:
    """What a part has of whole numbers above the plan's highest: a block of each round."""

    above: int
    place: int  # among the parts, from 0
    parts: int

    def ranges(self, highest: int) -> Iterator[Range]:
        """Its blocks, as far as there are ids."""
        start, size = self.above, BLOCK_IDS
        while start < highest:
            after = start + self.place * size
            if after < highest:
                yield Range(after, min(after + size, highest))
            start, size = start + self.parts * size, 2 * size


@dataclass(frozen=True)
class Part:
    """What a task reads. The driver knows the queue, so that not every task has to ask."""

    queue: Queue
    planned: Range
    share: Share | None = None  # None: the last range has no end
    settings: tuple[str, ...] = ()  # what a connection begins with that reads it


def cut(
    client: Client,
    queue: Queue,
    count: int,
    include_acked: bool,
    span: Span | None = None,
    settings: tuple[str, ...] = (),
) -> list[Part]:
    """At most `count` parts with about as many rows each. `span`: of a topic. `settings`: as in Part. Raises
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
    found = [Range(after, to) for after, to in zip([None, *ends], [*ends, whole.to], strict=True)]
    if not counted:
        found[-1] = Range(found[-1].after, None)
    return [
        Part(queue, planned, Share(int(whole.to), place, len(found)) if counted else None, settings)
        for place, planned in enumerate(found)
    ]


def ranges(client: Client, part: Part, span: Span | None) -> list[Range]:
    """What a task reads of its part, as things are when it begins. Raises QueueError, pymysql's errors."""
    if part.queue.sequenced:
        number_all(client, part.queue)
    found = [part.planned]
    if part.share is not None:
        highest = client.value(f"SELECT MAX({part.queue.offset}) FROM {part.queue.quoted}")
        found.extend(part.share.ranges(part.share.above if highest is None else highest))
    if span is None:
        return found
    most = limits(client, part.queue, span)
    return [each for each in (bounded(one, most) for one in found) if not _is_empty(each)]


def limits(client: Client, topic: Queue, span: Span) -> Range:
    """The offsets of a span, as far as they can be said now."""
    after = None if span.starting == "earliest" else span.starting - 1
    to = None if span.ending == "latest" else span.ending - 1
    if span.starting_time is not None:
        after = first_since(client, topic, span.starting_time, "startingTimestamp") - 1
    if span.ending_time is not None:
        to = first_since(client, topic, span.ending_time, "endingTimestamp") - 1
    return Range(after, to)


def bounded(one: Range, most: Range) -> Range:
    """What of a range lies within the other."""
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
    """The last ids of all parts but the last."""
    name, by = queue.placed_log, queue.offset
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
    """By steps of `share` rows along the key."""
    ends: list[Key] = []
    name, by = queue.placed_log, queue.offset
    for _ in range(count - 1 if share else 0):
        rest = replace(whole, after=ends[-1]) if ends else whole
        where, args = condition(rest, queue, include_acked)
        found = client.row(f"SELECT {by} FROM {name} WHERE {where} ORDER BY {by} LIMIT 1 OFFSET {share - 1}", args)
        if found is None or found[0] == whole.to:
            break
        ends.append(found[0])
    return ends


def _estimated(client: Client, queue: Queue, whole: Range, count: int) -> list[Key]:
    """By the gaps between ids or numbers, as a few hundred look-ups show them."""
    name, by = queue.placed_log, queue.offset

    def at(bound: str, number: int) -> int:
        found = client.value(f"SELECT {bound} %s", (number,))
        return number if found is None else int(found)  # None: deleted in this moment

    above, below = f"MIN({by}) FROM {name} WHERE {by} >=", f"MAX({by}) FROM {name} WHERE {by} <="
    highest = at(below, whole.to)
    lowest = at(f"MIN({by}) FROM {name} WHERE {by} <=", highest) if whole.after is None else at(above, whole.after + 1)
    found = occupied((lowest, highest), lambda n: at(above, n), lambda n: at(below, n), _PROBES)
    return list(shares(found, count))

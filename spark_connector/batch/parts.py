"""How a queue or a topic is cut into parts that several connections read, with no snapshot in common but one cut-off.

A part is a range of ids that ends at the highest id there was; of a topic whose messages have numbers, one of numbers,
which all that is committed at the cut-off is given first. Where ids are not counted up by the database, rows
that were created later are recognised by their time. What was acked after the cut-off counts as not acked: so the parts
agree, and a task that is repeated reads the same rows, however much is acked in the meantime. Messages of a topic are
not acked, and those are read whose offsets are in a span.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spark_connector.batch.spans import occupied, shares
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.client.topic_log import first_since
from spark_connector.client.topic_numbers import number_all
from spark_connector.options import Span

EXACT_ROWS_MAX = 1_000_000  # shares of more rows than these are estimated: to count them took seconds
_PROBES = 64  # look-ups in each round of an estimate
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"})
# Types whose values compare as ORDER BY sorts them when they are written into a statement and read back.
_ORDERED = _WHOLE | {"char", "varchar", "binary", "varbinary", "decimal", "date", "datetime"}

Key = Any  # a value of the column that is cut by, as PyMySQL gives and takes it


@dataclass(frozen=True)
class Part:
    """Ids above `after` and up to `to`, None: without a bound; as things were at `cutoff`, in unix nanoseconds.

    `by`: the column that these are values of, `id` or that of a topic's numbers. `settings`: what a connection begins
    with that reads it.
    """

    after: Key
    to: Key
    cutoff: int
    by: str = "id"
    settings: tuple[str, ...] = ()


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
    whole = Part(None, None, client.now_ns(), queue.offset, settings)
    if queue.column(queue.offset).base not in _ORDERED:
        return [whole]
    highest = client.value(f"SELECT MAX({queue.offset}) FROM {queue.quoted}")
    if highest is None and queue.sequenced:
        return [replace(whole, to=0)]  # nothing: the first number is 1
    if highest is None:
        return [whole]
    whole = replace(whole, to=highest)
    if span is not None:
        whole = replace(whole, after=_before(client, queue, span), to=_last(client, queue, span, highest))
    ends = _ends(client, queue, whole, count, include_acked) if count > 1 else []
    return [replace(whole, after=a, to=z) for a, z in zip([whole.after, *ends], [*ends, whole.to], strict=True)]


def _before(client: Client, topic: Queue, span: Span) -> int | None:
    """The offset after which a span begins; None: at the first message."""
    if span.starting_time is not None:
        return first_since(client, topic, span.starting_time, "startingTimestamp") - 1
    return None if span.starting == "earliest" else span.starting - 1


def _last(client: Client, topic: Queue, span: Span, highest: int) -> int:
    """The last offset of a span, and no larger than the highest."""
    if span.ending_time is not None:
        return min(highest, first_since(client, topic, span.ending_time, "endingTimestamp") - 1)
    return highest if span.ending == "latest" else min(highest, span.ending - 1)


def condition(part: Part, queue: Queue, include_acked: bool) -> tuple[str, list[Any]]:
    """The WHERE of a part, and its values."""
    terms, args = ["1 = 1"], list[Any]()
    if part.after is not None:
        terms, args = [*terms, f"{part.by} > %s"], [*args, part.after]
    if part.to is not None:
        terms, args = [*terms, f"{part.by} <= %s"], [*args, part.to]
    if not queue.column("id").auto and queue.has("time_created"):
        terms, args = [*terms, "(time_created <= %s OR time_created IS NULL)"], [*args, part.cutoff]
    if not include_acked and not queue.is_topic:
        terms, args = [*terms, "(time_acked IS NULL OR time_acked > %s)"], [*args, part.cutoff]
    return " AND ".join(terms[1:] or terms), args


def _ends(client: Client, queue: Queue, whole: Part, count: int, include_acked: bool) -> list[Key]:
    """The last ids of all parts but the last."""
    name, by = queue.placed_log, whole.by
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


def _exact(client: Client, queue: Queue, whole: Part, count: int, include_acked: bool, share: int) -> list[Key]:
    """By steps of `share` rows along the key."""
    ends: list[Key] = []
    name, by = queue.placed_log, whole.by
    for _ in range(count - 1 if share else 0):
        rest = replace(whole, after=ends[-1]) if ends else whole
        where, args = condition(rest, queue, include_acked)
        found = client.row(f"SELECT {by} FROM {name} WHERE {where} ORDER BY {by} LIMIT 1 OFFSET {share - 1}", args)
        if found is None or found[0] == whole.to:
            break
        ends.append(found[0])
    return ends


def _estimated(client: Client, queue: Queue, whole: Part, count: int) -> list[Key]:
    """By the gaps between ids or numbers, as a few hundred look-ups show them."""
    name, by = queue.placed_log, whole.by

    def at(bound: str, number: int) -> int:
        found = client.value(f"SELECT {bound} %s", (number,))
        return number if found is None else int(found)  # None: deleted in this moment

    above, below = f"MIN({by}) FROM {name} WHERE {by} >=", f"MAX({by}) FROM {name} WHERE {by} <="
    highest = at(below, whole.to)
    lowest = at(f"MIN({by}) FROM {name} WHERE {by} <=", highest) if whole.after is None else at(above, whole.after + 1)
    found = occupied((lowest, highest), lambda n: at(above, n), lambda n: at(below, n), _PROBES)
    return list(shares(found, count))

"""How a queue or a topic is cut into parts that several connections read, with no snapshot in common but one cut-off.

A part is a range of ids that ends at the highest id there was. Where ids are not counted up by the database, rows
that were created later are recognised by their time. What was acked after the cut-off counts as not acked: so the parts
agree, and a task that is repeated reads the same rows, however much is acked in the meantime. Messages of a topic are
not acked, and those are read whose ids are in a span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_connector.batch.spans import occupied, shares
from spark_connector.client.connection import Client, placed
from spark_connector.client.queue import Queue
from spark_connector.client.topic_log import first_since
from spark_connector.options import Span

EXACT_ROWS_MAX = 1_000_000  # shares of more rows than these are estimated: to count them took seconds
_PROBES = 64  # look-ups in each round of an estimate
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"})
# Types whose values compare as ORDER BY sorts them when they are written into a statement and read back.
_ORDERED = _WHOLE | {"char", "varchar", "binary", "varbinary", "decimal", "date", "datetime"}

Key = Any  # a value of the id column, as PyMySQL gives and takes it


@dataclass(frozen=True)
class Part:
    """Ids above `after` and up to `to`, None: without a bound; as things were at `cutoff`, in unix nanoseconds."""

    after: Key
    to: Key
    cutoff: int


def cut(client: Client, queue: Queue, count: int, include_acked: bool, span: Span | None = None) -> list[Part]:
    """At most `count` parts with about as many rows each. `span`: of a topic. Raises QueueError, pymysql's errors."""
    cutoff = client.now_ns()
    whole = Part(None, None, cutoff)
    if queue.column("id").base not in _ORDERED:
        return [whole]
    highest = client.value(f"SELECT MAX(id) FROM {queue.quoted}")
    if highest is None:
        return [whole]
    whole = Part(None, highest, cutoff)
    if span is not None:
        whole = Part(_before(client, queue, span), min(highest, _last(client, queue, span, highest)), cutoff)
    ends = _ends(client, queue, whole, count, include_acked) if count > 1 else []
    return [Part(after, to, cutoff) for after, to in zip([whole.after, *ends], [*ends, whole.to], strict=True)]


def _before(client: Client, topic: Queue, span: Span) -> int | None:
    """The id after which a span begins; None: at the first message."""
    if span.starting_time is not None:
        return first_since(client, topic, span.starting_time, "startingTimestamp") - 1
    return None if span.starting == "earliest" else span.starting - 1


def _last(client: Client, topic: Queue, span: Span, highest: int) -> int:
    """The last id of a span."""
    if span.ending_time is not None:
        return first_since(client, topic, span.ending_time, "endingTimestamp") - 1
    return highest if span.ending == "latest" else span.ending - 1


def condition(part: Part, queue: Queue, include_acked: bool) -> tuple[str, list[Any]]:
    """The WHERE of a part, and its values."""
    terms, args = ["1 = 1"], list[Any]()
    if part.after is not None:
        terms, args = [*terms, "id > %s"], [*args, part.after]
    if part.to is not None:
        terms, args = [*terms, "id <= %s"], [*args, part.to]
    if not queue.column("id").auto and queue.has("time_created"):
        terms, args = [*terms, "(time_created <= %s OR time_created IS NULL)"], [*args, part.cutoff]
    if not include_acked and not queue.is_topic:
        terms, args = [*terms, "(time_acked IS NULL OR time_acked > %s)"], [*args, part.cutoff]
    return " AND ".join(terms[1:] or terms), args


def _ends(client: Client, queue: Queue, whole: Part, count: int, include_acked: bool) -> list[Key]:
    """The last ids of all parts but the last."""
    name = placed(queue.name)
    where, args = condition(whole, queue, include_acked)
    rows = client.value(
        f"SELECT COUNT(*) FROM (SELECT id FROM {name} WHERE {where} LIMIT {EXACT_ROWS_MAX + 1}) AS counted",
        args,
    )
    if rows > EXACT_ROWS_MAX and queue.column("id").base in _WHOLE:
        return _estimated(client, queue, whole, count)
    if rows > EXACT_ROWS_MAX:
        rows = client.value(f"SELECT COUNT(*) FROM {name} WHERE {where}", args)
    return _exact(client, queue, whole, count, include_acked, -(-rows // count))


def _exact(client: Client, queue: Queue, whole: Part, count: int, include_acked: bool, share: int) -> list[Key]:
    """By steps of `share` rows along the key."""
    ends: list[Key] = []
    name = placed(queue.name)
    for _ in range(count - 1 if share else 0):
        rest = Part(ends[-1] if ends else whole.after, whole.to, whole.cutoff)
        where, args = condition(rest, queue, include_acked)
        found = client.row(f"SELECT id FROM {name} WHERE {where} ORDER BY id LIMIT 1 OFFSET {share - 1}", args)
        if found is None or found[0] == whole.to:
            break
        ends.append(found[0])
    return ends


def _estimated(client: Client, queue: Queue, whole: Part, count: int) -> list[Key]:
    """By the gaps between ids, as a few hundred look-ups show them."""
    name = placed(queue.name)

    def at(bound: str, number: int) -> int:
        found = client.value(f"SELECT {bound} %s", (number,))
        return number if found is None else int(found)  # None: deleted in this moment

    above, below = f"MIN(id) FROM {name} WHERE id >=", f"MAX(id) FROM {name} WHERE id <="
    highest = at(below, whole.to)
    lowest = at(f"MIN(id) FROM {name} WHERE id <=", highest) if whole.after is None else at(above, whole.after + 1)
    found = occupied((lowest, highest), lambda n: at(above, n), lambda n: at(below, n), _PROBES)
    return list(shares(found, count))

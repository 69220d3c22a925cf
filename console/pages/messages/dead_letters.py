"""Dead letters by their errors: how many of each, since when, and an example; of one queue, and of all of them.

Errors of one shape are one group: they differ in numbers and ids alone. Of one queue there are six statements at most:
which queues there are, the definition of a queue whose dead letters are elsewhere, the figures and columns, one SELECT
of errors over at most SCANNED_MAX dead letters, in the order of an index, and one of the examples. Of all queues there
is one SELECT for each of FAILED_QUEUES_MAX queues at most, those with most dead letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.database import Column, StatementError, TooSlow, pattern_of, queue_sql
from console.pages.figures import Figures
from console.pages.keyset import key_of
from console.pages.messages.message_rows import LISTED_CHARACTERS, Value, id_text, readable, select, value
from console.pages.queue import columns_of
from console.pages.queue_options import explicit_options
from console.pages.visible_queues import COUNTED_MAX, counted, figures_of, replace_table, visible_queues
from console.visits import QUEUE_PARAMETERS, Page, Visit
from engine.model.queue import SYSTEM_COLUMNS, QueueName, default_dead_letter
from engine.model.states import not_set_aside

GROUPS_MAX = 50
ERRORS_MAX = 1000
"""Different errors of one queue, the most frequent ones: each is a row of an answer."""

VARIANTS_MAX = 10
SCANNED_MAX = 50_000
FAILED_QUEUES_MAX = 20
ERROR_CHARACTERS = 200
"""Of an error, by which dead letters are grouped: what comes after it often differs from message to message."""

UNACKED = f"time_acked IS NULL AND {not_set_aside()}"
PLACE = "#"
"""What stands in a shape for a number or an id."""

_EXAMPLE_COLUMNS = 3
_OWN = frozenset(("attempts", "time_dead", "source", "source_id"))
_VARYING = re.compile(
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"  # a UUID
    r"|\b0x[0-9a-fA-F]+\b"
    r"|\b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{12,}\b"  # a digest, or another long id
    r"|[0-9]+(?:[.:][0-9]+)*"
)


def shape_of(error: str) -> str:
    """An error without what differs from message to message: each number and each id is PLACE."""
    return _VARYING.sub(PLACE, error)


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Dead letters with errors of one shape. `error`: the error where all have the same, else the shape; None where
    none was given. `errors`: how many different ones there are; `pattern`: a LIKE pattern that all of them fit, empty
    for one. `first_ns` and `last_ns`: when the first and the last of them died, None where the queue does not record
    it; `example`: the id of one, with the beginnings of some `values`."""

    error: str | None
    errors: int
    pattern: str
    count: int
    first_ns: int | None
    last_ns: int | None
    example: str
    values: tuple[Value, ...] = ()
    variants: tuple[tuple[str, int], ...] = ()
    """The first VARIANTS_MAX of several errors, and how many messages have each."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What the page shows. `total`: unacked ones in the table, at least so many where the figure is not `exact`.
    `whole`: all of them were scanned, and all groups are shown. `source`: the queue that they come from."""

    queue: QueueName
    total: int
    exact: bool
    groups: tuple[ErrorGroup, ...]
    whole: bool
    source: str | None
    sql: str
    refused: str = ""


async def read_dead_letters(visit: Visit) -> DeadLetters:
    """See the module. Raises NotFound."""
    queue, database = await _dead_letter_queue(visit, visit.queue), visit.session.database
    figures = await figures_of(visit, queue)
    total = _unacked(figures)
    try:
        columns = await columns_of(visit, queue)
        answer = await database.read(errors_sql(queue, [column.name for column in columns]))
        groups = grouped(answer.rows[:ERRORS_MAX])
        examples = await _examples(visit, queue, columns, answer.rows, groups[:GROUPS_MAX])
    except StatementError as error:
        refused = error.full_message
        return DeadLetters(queue, total, figures.exact, (), True, None, "", refused)
    scanned = sum(group.count for group in groups)
    whole = len(answer.rows) <= ERRORS_MAX and len(groups) <= GROUPS_MAX and scanned < SCANNED_MAX
    sources = {readable(row["source"]) for row in answer.rows if row["source"] is not None}
    source = sources.pop() if len(sources) == 1 else None
    shown = tuple(
        ErrorGroup(
            group.error, group.errors, group.pattern, group.count, group.first_ns, group.last_ns, group.example,
            examples.get(group.example, ()), group.variants,
        )
        for group in groups[:GROUPS_MAX]
    )  # fmt: skip
    return DeadLetters(queue, total, figures.exact, shown, whole, source, answer.sql)


def _unacked(figures: Figures) -> int:
    return sum(each or 0 for each in (figures.ready, figures.in_flight, figures.scheduled, figures.retrying))


async def _dead_letter_queue(visit: Visit, queue: QueueName) -> QueueName:
    """Where the dead letters of a queue are; the queue itself, if it has none elsewhere that this account may see."""
    visible = {each.queue for each in await visible_queues(visit)}
    usual = replace_table(queue, default_dead_letter(queue.table))
    if usual in visible or queue not in visible or queue.table.endswith(default_dead_letter("")):
        return usual if usual in visible else queue
    try:
        answer = await visit.session.database.read(f"SHOW CREATE QUEUE {queue_sql(queue)}")
        other = explicit_options(str(answer.rows[0]["Create Queue"])).get("dead_letter", "")
    except (StatementError, ValueError):
        return queue
    named = replace_table(queue, other)
    return named if named in visible else queue


def errors_sql(queue: QueueName, columns: Sequence[str]) -> str:
    """The SELECT of the errors, the most frequent first. A queue may lack some columns."""

    def column_or_null(column: str) -> str:
        return column if column in columns else "NULL"

    error = f"SUBSTRING(last_error, 1, {ERROR_CHARACTERS})" if "last_error" in columns else "NULL"
    order = ", ".join(f"{name} DESC" for name in ("priority", "time_next", "id") if name in columns)
    rows = (
        f"SELECT id, {error} AS error, {column_or_null('time_dead')} AS died, {column_or_null('source')} AS source"
        f" FROM {queue_sql(queue)} WHERE {UNACKED} ORDER BY {order} LIMIT {SCANNED_MAX}"
    )
    return (
        "SELECT error, COUNT(*) AS messages, MIN(died) AS first_ns, MAX(died) AS last_ns, MAX(id) AS example,"
        f" MAX(source) AS source FROM ({rows}) AS dead_letters"
        f" GROUP BY error ORDER BY messages DESC, error LIMIT {ERRORS_MAX + 1}"
    )


@dataclass(slots=True)
class _Collected:
    """Rows of one shape."""

    errors: list[tuple[str, int]] = field(default_factory=list)
    count: int = 0
    times: list[int] = field(default_factory=list)
    example: str = ""

    def add(self, row: Mapping[str, Any]) -> None:
        self.errors.append((readable(row["error"]) or "", int(row["messages"])))
        self.count += int(row["messages"])
        self.times += [int(row[name]) for name in ("first_ns", "last_ns") if row[name] is not None]
        self.example = self.example or id_text(row["example"])


def grouped(rows: Iterable[Mapping[str, Any]]) -> list[ErrorGroup]:
    """Of the rows of errors_sql, the largest first. Pure."""
    shapes: dict[str | None, _Collected] = {}
    for row in rows:
        error = readable(row["error"])
        shapes.setdefault(None if error is None else shape_of(error), _Collected()).add(row)
    groups = [
        ErrorGroup(
            each.errors[0][0] if len(each.errors) == 1 and shape is not None else shape,
            len(each.errors),
            "" if shape is None or len(each.errors) == 1 else like_pattern(shape),
            each.count,
            min(each.times, default=None),
            max(each.times, default=None),
            each.example,
            variants=tuple(each.errors[:VARIANTS_MAX]) if len(each.errors) > 1 else (),
        )
        for shape, each in shapes.items()
    ]
    return sorted(groups, key=lambda each: -each.count)


def like_pattern(shape: str) -> str:
    """A LIKE pattern that all errors of a shape fit; others that differ only there fit it as well."""
    return "%".join(map(pattern_of, shape.split(PLACE)))


async def _examples(
    visit: Visit,
    queue: QueueName,
    columns: Sequence[Column],
    rows: Iterable[Mapping[str, Any]],
    groups: Sequence[ErrorGroup],
) -> Mapping[str, tuple[Value, ...]]:
    """The first of the user's columns of one message of each group, by id."""
    wanted_ids = {group.example for group in groups}
    ids = [key_of(row["example"]) for row in rows if id_text(row["example"]) in wanted_ids]
    if not ids:
        return {}
    own = [column for column in columns if column.name not in SYSTEM_COLUMNS and column.name not in _OWN]
    wanted = [*(column for column in columns if column.name == "id"), *own[:_EXAMPLE_COLUMNS]]
    marks = ", ".join(["%s"] * len(ids))
    sql = select(queue, wanted, LISTED_CHARACTERS, f"id IN ({marks})", f"LIMIT {len(ids)}")
    answer = await visit.session.database.read(sql, *ids)
    return {
        id_text(row["id"]): tuple(value(name, row[name], LISTED_CHARACTERS) for name in row if name != "id")
        for row in answer.rows
    }


@dataclass(frozen=True, slots=True)
class FailedQueue:
    """How many dead letters of a group are of one queue. `pattern` and `error`: as of the ErrorGroup there."""

    queue: QueueName
    count: int
    error: str | None
    pattern: str
    example: str


@dataclass(frozen=True, slots=True)
class FailedGroup:
    """Dead letters of all queues with errors of one shape, or without an error."""

    shape: str | None
    count: int
    first_ns: int | None
    last_ns: int | None
    queues: tuple[FailedQueue, ...]


@dataclass(frozen=True, slots=True)
class FailedPage:
    """What the page shows. `total`: dead letters of so many `queues`. `whole`: all of them were read. `counted`:
    whether there are few enough queues to be counted. `refused`: what the account may not read."""

    groups: tuple[FailedGroup, ...]
    total: int
    queues: int
    whole: bool
    counted: bool
    refused: tuple[str, ...]


async def read_failed(visit: Visit) -> FailedPage:
    """See the module."""
    failed = await _failed_queues(visit)
    if failed is None:
        return FailedPage((), 0, 0, False, False, ())
    refused: list[str] = []
    groups: dict[str | None, list[tuple[QueueName, ErrorGroup]]] = {}
    whole = len(failed) <= FAILED_QUEUES_MAX
    for each in failed[:FAILED_QUEUES_MAX]:
        try:
            names = [column.name for column in await columns_of(visit, each.queue)]
            rows = (await visit.session.database.read(errors_sql(each.queue, names))).rows
        except (StatementError, TooSlow) as error:
            refused.append(f"{each.queue}: {error.full_message}")
            continue
        whole = whole and len(rows) <= ERRORS_MAX and _unacked(each) < SCANNED_MAX
        for group in grouped(rows[:ERRORS_MAX]):
            shape = None if group.error is None else shape_of(group.error)
            groups.setdefault(shape, []).append((each.queue, group))
    together = sorted((_failed(shape, parts) for shape, parts in groups.items()), key=lambda each: -each.count)
    total = sum(map(_unacked, failed))
    shown, whole = tuple(together[:GROUPS_MAX]), whole and len(together) <= GROUPS_MAX
    return FailedPage(shown, total, len(failed), whole, True, tuple(refused))


async def _failed_queues(visit: Visit) -> list[Figures] | None:
    """The queues that have dead letters in them, those with most first; None where there are too many to be counted."""
    visible = await visible_queues(visit)
    figures = {each.queue: each for each in await counted(visit, visible, "")}
    if len(visible) > COUNTED_MAX:
        usual = [each for each in visible if each.dead_letters]
        if len(usual) > COUNTED_MAX:
            return None
        figures = {each.queue: each for each in await counted(visit, usual, default_dead_letter(""))}
    queues = {each.queue for each in figures.values() if each.dead_letters}
    for each in figures.values():
        if each.dead and replace_table(each.queue, default_dead_letter(each.queue.table)) not in queues:
            queues.add(await _dead_letter_queue(visit, each.queue))
    failed = (figures[queue] for queue in queues if queue in figures and _unacked(figures[queue]))
    return sorted(failed, key=lambda each: (-_unacked(each), each.queue))


def _failed(shape: str | None, parts: Sequence[tuple[QueueName, ErrorGroup]]) -> FailedGroup:
    errors = {group.error for _, group in parts}
    first = [group.first_ns for _, group in parts if group.first_ns is not None]
    last = [group.last_ns for _, group in parts if group.last_ns is not None]
    return FailedGroup(
        errors.pop() if len(errors) == 1 else shape,
        sum(group.count for _, group in parts),
        min(first, default=None),
        max(last, default=None),
        tuple(FailedQueue(queue, group.count, group.error, group.pattern, group.example) for queue, group in parts),
    )


PAGES = (
    Page(read_dead_letters, "The dead letters of a queue by their errors", "/dead", "dead.html", "/dead",
         QUEUE_PARAMETERS),
    Page(read_failed, "The dead letters of all queues by their errors", "/failed", "failed.html", "/failed",
         nav="Failed"),
)  # fmt: skip

"""Dead letters by their errors: how many of each, since when, and an example.

Four statements: the queue's figures and columns, one SELECT of groups over at most SCANNED_MAX dead letters, in the
order of an index, and one of the examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.database import Column, StatementError, queue_sql
from console.pages.messages.message_rows import LISTED_CHARACTERS, Value, id_text, readable, select, value
from console.pages.queue import columns_of
from console.pages.visible_queues import figures_of
from console.visits import QUEUE_PARAMETERS, Page, Visit
from engine.model.queue import SYSTEM_COLUMNS, QueueName
from engine.model.states import not_set_aside

GROUPS_MAX = 50
SCANNED_MAX = 50_000
ERROR_CHARACTERS = 200
"""Of an error, by which dead letters are grouped: what comes after it often differs from message to message."""

UNACKED = f"time_acked IS NULL AND {not_set_aside()}"
_EXAMPLE_COLUMNS = 3
_OWN = frozenset(("attempts", "time_dead", "source"))


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Dead letters with one error, None where none was given. `first_ns` and `last_ns`: when the first and the last of
    them died, None where the queue does not record it; `example`: the id of one, with the beginnings of some
    `values`."""

    error: str | None
    count: int
    first_ns: int | None
    last_ns: int | None
    example: str
    values: tuple[Value, ...]


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
    """See the module. Raises NotThere."""
    queue, database = visit.queue, visit.session.database
    figures = await figures_of(visit, queue)
    total = sum(each or 0 for each in (figures.ready, figures.in_flight, figures.scheduled, figures.retrying))
    try:
        columns = await columns_of(visit, queue)
        answer = await database.read(groups_sql(queue, [column.name for column in columns]))
        rows = answer.rows[:GROUPS_MAX]
        examples = await _examples(visit, queue, columns, [row["example"] for row in rows])
    except StatementError as error:
        refused = error.full_message
        return DeadLetters(queue, total, figures.exact, (), True, None, "", refused)
    groups = tuple(_group(row, examples) for row in rows)
    scanned = sum(group.count for group in groups)
    whole = len(answer.rows) <= GROUPS_MAX and scanned < SCANNED_MAX
    sources = {readable(row["source"]) for row in rows if row["source"] is not None}
    source = sources.pop() if len(sources) == 1 else None
    return DeadLetters(queue, total, figures.exact, groups, whole, source, answer.sql)


def groups_sql(queue: QueueName, columns: Sequence[str]) -> str:
    """The SELECT of the groups, the largest first. A queue may lack some columns."""

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
        f" GROUP BY error ORDER BY messages DESC, error LIMIT {GROUPS_MAX + 1}"
    )


async def _examples(
    visit: Visit, queue: QueueName, columns: Sequence[Column], ids: Sequence[Any]
) -> Mapping[str, tuple[Value, ...]]:
    """The first of the user's columns of some messages, by id."""
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


def _group(row: Mapping[str, Any], examples: Mapping[str, tuple[Value, ...]]) -> ErrorGroup:
    example = id_text(row["example"])
    return ErrorGroup(
        readable(row["error"]),
        int(row["messages"]),
        None if row["first_ns"] is None else int(row["first_ns"]),
        None if row["last_ns"] is None else int(row["last_ns"]),
        example,
        examples.get(example, ()),
    )


PAGES = (
    Page(read_dead_letters, "The dead letters of a queue by their errors", "/dead", "dead.html", "/dead",
         QUEUE_PARAMETERS),
)  # fmt: skip

"""Event groups: which messages are held until all messages of a group are done, and how many of these are open.

At most four statements: the databases that have such a table, a page of what is held there, and for the messages of one
queue the column of its groups and how many of each are not acked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from console.database import DatabaseError, StatementError, name_sql, queue_sql
from console.pages.keyset import Key, Ordered, after_sql, as_text, from_text, order_sql
from console.pages.queue_options import explicit_options
from console.pages.system import databases_with
from console.visits import NAME_MAX, NotFound, Page, Parameter, Visit
from engine.model.queue import QueueName

ON_A_PAGE = 50
TABLE = "queuegate_groups"
_ORDER = tuple(map(Ordered, ("follow_database", "follow_table", "follow_id")))


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that is held, and for what: `waits_for`, a queue, and the value of its `group_key`. `open`: how many
    messages of that group are not acked, None where they were not counted."""

    message_queue: QueueName
    message: str
    waits_for: QueueName
    value: str
    open: int | None = None


@dataclass(frozen=True, slots=True)
class EventGroupsPage:
    """What the page shows. `databases`: those that have held messages, or had. `after`: where the next page begins.
    `refused`: what the account may not see, and why."""

    databases: tuple[str, ...]
    database: str
    queue: str
    held: tuple[WaitingMessage, ...]
    counted: str
    after: str
    continued: bool
    sql: str
    refused: tuple[str, ...]


async def read_event_groups(visit: Visit) -> EventGroupsPage:
    """See the module. Raises NotFound."""
    refused: list[str] = []
    database, queue = visit.text("db", most=NAME_MAX), visit.text("queue", most=NAME_MAX)
    after = visit.text("after", most=8000)
    databases = await databases_with(visit, refused, TABLE, "event groups")
    if database and not refused and database not in databases:
        raise NotFound(f"there are no event groups in a database {database}, or this account may not see them")
    database = database or (databases[0] if databases else "")
    empty = EventGroupsPage(databases, database, queue, (), "", "", bool(after), "", tuple(refused))
    if not databases:
        return empty
    where, values = _condition(queue, after)
    sql = (
        "SELECT follow_database, follow_table, follow_id, queue_name, group_value"
        f" FROM {queue_sql(QueueName(database, TABLE))} WHERE {where}"
        f" ORDER BY {order_sql(_ORDER)} LIMIT {ON_A_PAGE + 1}"
    )
    try:
        answer = await visit.session.database.read(sql, *values)
    except StatementError as error:
        return replace(empty, refused=(f"event groups: {error.full_message}",))
    rows = answer.rows[:ON_A_PAGE]
    held = tuple(_waiting_message(row, database) for row in rows)
    counted = queue or (held[0].waits_for.table if held else "")
    return replace(
        empty,
        held=await _with_counts(visit, QueueName(database, counted), held) if held else (),
        counted=counted,
        after=as_text([rows[-1][each.column] for each in _ORDER]) if len(answer.rows) > ON_A_PAGE else "",
        sql=answer.sql,
    )


def _condition(queue: str, after: str) -> tuple[str, list[Key]]:
    parts, values = ["1 = 1"], list[Key]()
    if queue:
        parts.append("queue_name = %s")
        values.append(queue)
    if after:
        further, more = after_sql(_ORDER, from_text(after, len(_ORDER)))
        parts.append(further)
        values += more
    return " AND ".join(parts), values


def _waiting_message(row: Mapping[str, Any], database: str) -> WaitingMessage:
    return WaitingMessage(
        QueueName(str(row["follow_database"]), str(row["follow_table"])),
        str(row["follow_id"]),
        QueueName(database, str(row["queue_name"])),
        str(row["group_value"]),
    )


async def _with_counts(visit: Visit, queue: QueueName, held: Sequence[WaitingMessage]) -> tuple[WaitingMessage, ...]:
    """The same with how many messages are open, of those that wait for that queue."""
    values = sorted({each.value for each in held if each.waits_for == queue})
    database = visit.session.database
    try:
        shown = await database.read(f"SHOW CREATE QUEUE {queue_sql(queue)}")
        key = explicit_options(str(shown.rows[0]["Create Queue"])).get("group_key", "")
        if not key:
            return tuple(held)
        column, places = name_sql(key), ", ".join(["%s"] * len(values))
        answer = await database.read(
            f"SELECT {column} AS place, COUNT(*) AS messages FROM {queue_sql(queue)}"
            f" WHERE time_acked IS NULL AND {column} IN ({places}) GROUP BY {column} LIMIT {ON_A_PAGE}",
            *values,
        )
    except (DatabaseError, ValueError):
        return tuple(held)  # the counts are optional: the held messages are shown without them
    # If the column's collation ignores case, one row counts all spellings.
    counts = {str(row["place"]).casefold(): int(row["messages"]) for row in answer.rows}
    return tuple(
        replace(each, open=counts.get(each.value.casefold(), 0)) if each.waits_for == queue else each for each in held
    )


PAGES = (
    Page(
        read_event_groups, "Messages that are held until a group of others is done", "/event-groups",
        "event_groups.html", "/event-groups",
        (
            Parameter("db", "the database; by default the first that has event groups"),
            Parameter("queue", "only what waits for messages of this queue"),
            Parameter("after", "the next page: `after` of the one before"),
        ),
        nav="Event groups",
    ),
)  # fmt: skip

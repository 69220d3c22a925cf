"""One message: all its columns, every failed attempt, which receiver holds it, and why it is in its state.

Five statements at most: the queue's columns, the database's time, the row, TRACE MESSAGE, which explains, and which
queues there are. An account that may not read the table may still see the explanation, and vice versa.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.database import StatementError, queue_sql
from console.pages.messages.message_rows import (
    NOW,
    WHOLE_CHARACTERS,
    Message,
    Value,
    attempts,
    guessed_id,
    id_value,
    message,
    select,
    value,
)
from console.pages.messages.message_verbs import offered
from console.pages.queue import columns_of
from console.pages.visible_queues import dead_letters_of
from console.visits import QUEUE_PARAMETERS, NotFound, Page, Parameter, Visit
from engine.model.queue import SYSTEM_COLUMNS, QueueName

ID_MAX = 1000
"""Characters of an id in an address; MySQL's keys have 3072 bytes at most."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The row of TRACE MESSAGE. `holder`: the connection that holds it, `consumer` its name."""

    state: str
    explanation: str
    leased_until: str | None
    holder: int | None
    consumer: str | None
    history: str | None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """What the page shows. `message` is None where the account may not read the table, which `refused` says. `offered`:
    the verbs that change a message in its state. `dead_letters`: where it is, if it is a dead letter now."""

    queue: QueueName
    id: str
    message: Message | None
    own: tuple[Value, ...]
    attempts: tuple[Mapping[str, Any], ...]
    explained: Explanation | None
    sql: str
    refused: tuple[str, ...]
    offered: tuple[str, ...]
    dead_letters: QueueName | None


async def read_message(visit: Visit) -> MessagePage:
    """See the module. Raises NotFound."""
    queue, id_ = visit.queue, visit.text("id", most=ID_MAX)
    refused: list[StatementError] = []
    current: Message | None = None
    own: tuple[Value, ...] = ()
    failed: tuple[Mapping[str, Any], ...] = ()
    sql = ""
    key: Any = guessed_id(id_)
    try:
        columns = await columns_of(visit, queue)
        key = id_value(id_, columns)
        now_ns = int((await visit.session.database.read(NOW)).rows[0]["now_ns"])
        answer = await visit.session.database.read(
            select(queue, columns, WHOLE_CHARACTERS, "`id` = %s", "LIMIT 1"), key
        )
        sql = answer.sql
        for row in answer.rows:
            current = message(row, now_ns, WHOLE_CHARACTERS)
            own = tuple(
                value(name, row[name], WHOLE_CHARACTERS)
                for name in SYSTEM_COLUMNS
                if name in row and name != "failed_attempts"
            )
            failed = attempts(row)
    except StatementError as error:
        refused.append(error)
    explanation = None
    try:
        explanation = await explain(visit, queue, key)
    except StatementError as error:
        refused.append(error)
    if current is None and explanation is None and refused:
        raise refused[0]
    if current is None and (explanation is None or explanation.state == "unknown") and not refused:
        raise NotFound(f"there is no message {id_} in {queue}: it may have been purged")
    refusals = tuple(error.full_message for error in refused)
    verbs = offered(current.state, current.epoch) if current is not None else offered("not known", 0) if refused else ()
    moved = current is None and explanation is not None and explanation.state == "dead"
    dead = await dead_letters_of(visit, queue) if moved else None
    return MessagePage(queue, id_, current, own, failed, explanation, sql, refusals, verbs, dead)


async def explain(visit: Visit, queue: QueueName, key: Any) -> Explanation | None:
    """Why a message is in its state. Raises StatementError where the account may not ask."""
    answer = await visit.session.database.read(f"TRACE MESSAGE %s ON {queue_sql(queue)}", key)
    if not answer.rows:
        return None
    row = answer.lowered[0]
    return Explanation(
        str(row["state"]),
        str(row["explanation"] or ""),
        row["leased_until"],
        None if row["connection_id"] is None else int(row["connection_id"]),
        row["consumer"],
        row["history"],
    )


PAGES = (
    Page(
        read_message, "One message, whole, with its failed attempts", "/message", "message.html", "/message",
        (*QUEUE_PARAMETERS, Parameter("id", "the message's id; of a binary key 0x and hexadecimal digits", True)),
    ),
)  # fmt: skip

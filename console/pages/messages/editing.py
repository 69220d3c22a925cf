"""The form that changes a message: its priority and its time, and of a dead letter also its own columns.

Four statements at most: the queue's columns, the database's time, the row, and the UPDATE; a fifth, REDRIVE, where the
edited dead letter is to go back at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.database import Column, DatabaseError, StatementError, without_values
from console.pages.keyset import Key
from console.pages.messages.editable import COLUMNS_MAX, Changes, Editable, changes, due_text, editable, update
from console.pages.messages.message import ID_MAX
from console.pages.messages.message_rows import NOW, WHOLE_CHARACTERS, Message, id_value, message, select
from console.pages.messages.message_verbs import Clauses, statement
from console.pages.queue import columns_of
from console.rendering import link
from console.visits import QUEUE_PARAMETERS, Action, Done, NotFound, Page, Parameter, Visit
from engine.model.queue import QueueName


@dataclass(frozen=True, slots=True)
class EditPage:
    """What the form needs. `columns`: those of a dead letter that may be edited. `refused`: why there is no form."""

    queue: QueueName
    id: str
    message: Message | None
    priority: str
    due: str
    columns: tuple[Editable, ...]
    refused: str = ""

    @property
    def dead(self) -> bool:
        """Whether it is a dead letter, which can be put back into its queue."""
        return self.message is not None and self.message.state == "dead"


@dataclass(frozen=True, slots=True)
class _Current:
    """The message as it is now."""

    key: Key
    columns: tuple[Column, ...]
    now_ns: int
    row: Mapping[str, Any]
    message: Message


async def read_edit(visit: Visit) -> EditPage:
    """See the module. Raises NotFound."""
    queue, id_ = visit.queue, visit.text("id", most=ID_MAX)
    try:
        current = await _read_current(visit, queue, id_)
    except StatementError as error:
        return EditPage(queue, id_, None, "", "", (), error.full_message)
    dead = current.message.state == "dead"
    return EditPage(
        queue,
        id_,
        current.message,
        "" if current.row.get("priority") is None else str(current.row["priority"]),
        due_text(current.message.due_ns),
        editable(current.row, current.columns) if dead else (),
    )


async def _read_current(visit: Visit, queue: QueueName, id_: str) -> _Current:
    database = visit.session.database
    columns = await columns_of(visit, queue)
    key = id_value(id_, columns)
    now_ns = int((await database.read(NOW)).rows[0]["now_ns"])
    answer = await database.read(select(queue, columns, WHOLE_CHARACTERS, "`id` = %s", "LIMIT 1"), key)
    for row in answer.rows:
        return _Current(key, columns, now_ns, row, message(row, now_ns, WHOLE_CHARACTERS))
    raise NotFound(f"there is no message {id_} in {queue}: it may have been purged, or put back into its queue")


async def edit(visit: Visit) -> Done:
    """Change the message as the form says. Raises BadInput, NotFound, DatabaseError."""
    queue, id_ = visit.queue, visit.text("id", most=ID_MAX)
    redrive = visit.choice("then", ("", "redrive"), "") == "redrive"
    current = await _read_current(visit, queue, id_)
    changed = changes(visit, current.row, current.columns, dead=current.message.state == "dead")
    ran: list[str] = []
    logged: list[str] = []
    notice = "Nothing was changed: the form has the same values as the message."
    if changed.values:
        epoch = visit.whole("epoch", 0, 999_999_999) if "epoch" in visit.params else None
        what = update(queue, current.key, changed, epoch, current.now_ns)
        answer = await visit.session.database.change(what.sql, *what.values)
        ran.append(answer.sql)
        logged.append(without_values(what.sql))
        notice = _outcome_text(queue, id_, changed, answer.affected)
        if not answer.affected:
            return Done(notice, _page(queue, id_), logged[0], {"changed": 0}, ran[0])
    if not redrive:
        return Done(
            notice, _page(queue, id_), "; ".join(logged), {"changed": int(bool(changed.values))}, "; ".join(ran)
        )
    return await _redriven(visit, queue, id_, current, notice if changed.values else "", ran, logged)


async def _redriven(
    visit: Visit, queue: QueueName, id_: str, current: _Current, notice: str, ran: list[str], logged: list[str]
) -> Done:
    """After the UPDATE, which holds whatever REDRIVE comes to."""
    what = statement("redrive", queue, [current.key], Clauses())
    try:
        answer = await visit.session.database.change(what.sql, *what.values)
    except StatementError as error:
        if not ran:
            raise
        outcome = f"{notice} It was not put back: ERROR {error.number}: {error.message}"
        return Done(outcome, _page(queue, id_), "; ".join(logged), {"changed": 1, "redriven": 0}, "; ".join(ran))
    except DatabaseError as error:
        raise type(error)(f"{notice} It is not known whether it was put back: {error.message}", error.number) from error
    source = current.row.get("source")
    there = f"{queue.database}.{source}" if source else "its queue"
    outcome = f"Message {id_} is put back into {there}." if answer.affected else "It no longer exists."
    here = QueueName(queue.database, str(source)) if source and answer.affected else queue
    logged.append(without_values(what.sql))
    ran.append(answer.sql)
    return Done(
        f"{notice} {outcome}".strip(),
        _page(here, id_),
        "; ".join(logged),
        {"changed": int(bool(notice)), "redriven": answer.affected},
        "; ".join(ran),
    )


def _outcome_text(queue: QueueName, id_: str, changed: Changes, affected: int) -> str:
    if affected:
        return f"Message {id_} of {queue} has a new {', '.join(_names(changed))}."
    return (
        f"Nothing was changed. Message {id_} of {queue} was delivered, acked or moved meanwhile"
        f"{', or is in flight' if changed.moved else ''}, or has these values already."
    )


def _names(changed: Changes) -> list[str]:
    """The columns that have changed; both columns of a time are one."""
    return ["time" if name == "time_next" else name for name in changed.values if name != "time_scheduled"]


def _page(queue: QueueName, id_: str) -> str:
    return link("/message", db=queue.database, name=queue.table, id=id_)


_ID = Parameter("id", "the message's id; of a binary key 0x and hexadecimal digits", required=True)
_PARAMETERS = (
    *QUEUE_PARAMETERS,
    _ID,
    Parameter("priority", "a whole number; lower goes first"),
    Parameter("due", "when it is sent: a date and time in UTC"),
    Parameter("epoch", "its deliveries so far: it is changed only if there was no further one"),
    Parameter("column1", f"of a dead letter: a column to change, up to column{COLUMNS_MAX}"),
    Parameter("value1", f"the column's new value, up to value{COLUMNS_MAX}"),
    Parameter("null1", f"`null` for NULL, up to null{COLUMNS_MAX}"),
    Parameter("then", "`redrive`: put it back into its queue, once it is changed"),
)

PAGES = (Page(read_edit, "A form that changes a message", "/message/edit", "edit.html"),)
ACTIONS = (
    Action(edit, "Change a message that is not acked", "/message/edit", "/message/edit", _PARAMETERS, "/message/edit"),
)

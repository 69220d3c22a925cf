"""The form that publishes one message, in a queue or a topic. It shows the INSERT as it is filled in, and runs it.

A column that is left empty is left out, so that it has its default; NULL and the empty text are chosen beside it. The
form can begin with the values of another message. Three statements at most: the columns, that message, the INSERT. An
account that may enqueue and not read types the names of the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.database import Column, StatementError, name_sql, queue_sql, without_values
from console.pages.create_queue import Composed
from console.pages.keyset import Key
from console.pages.messages.editable import (
    COLUMNS_MAX,
    Editable,
    bytes_value,
    editable,
    is_own,
    one_break,
    requested_priority,
    with_breaks_of,
)
from console.pages.messages.message import ID_MAX
from console.pages.messages.message_rows import WHOLE_CHARACTERS, id_value, is_bytes, is_cut, is_queue, readable, select
from console.pages.visible_queues import check_exists
from console.rendering import link
from console.visits import NAME_MAX, QUEUE_PARAMETERS, Action, BadInput, Done, NotFound, Page, Parameter, Visit
from engine.model.queue import QueueName

HOW = {"": "its value; if empty, the default", "empty": "the empty text", "null": "NULL"}
"""What a column gets, by the value of the field beside it."""

COPIED = "copied"
"""The same of a column that has no field: the value of the message that is copied."""

_DELAY_MAX = 40
_OF_A_TOPIC = frozenset(("id", "time_scheduled", "time_created"))


@dataclass(frozen=True, slots=True)
class PublishPage:
    """What the form needs. `columns`: empty where the account may not read them. `copy`: the id of the message that it
    begins with. `topic`: it is for one, which has no priorities. `how`: see HOW."""

    queue: QueueName
    topic: bool
    columns: tuple[Editable, ...]
    copy: str
    how: tuple[tuple[str, str], ...]


async def read_publish(visit: Visit) -> PublishPage:
    """See the module. Raises NotFound, DatabaseError."""
    queue, copy = visit.queue, visit.text("copy", most=ID_MAX)
    columns = await message_columns(visit, queue)
    row = await _copied(visit, columns)
    own = editable(row, columns) if row else empty_fields(columns)
    ids = [Editable(column.name, "", False, "", 1) for column in columns if _has_ids_of_clients(column)]
    return PublishPage(queue, _is_topic(columns), (*ids, *own)[:COLUMNS_MAX], copy, tuple(HOW.items()))


async def _copied(visit: Visit, columns: Sequence[Column]) -> Mapping[str, Any]:
    """The message that is copied; nothing where none is. Raises BadInput, NotFound, DatabaseError."""
    copy = visit.text("copy", most=ID_MAX)
    if not copy or not columns:
        return {}
    sql = select(visit.queue, columns, WHOLE_CHARACTERS, "`id` = %s", "LIMIT 1")
    rows = (await visit.session.database.read(sql, id_value(copy, columns))).rows
    if not rows:
        raise NotFound(f"there is no message {copy} in {visit.queue} to copy: it may have been purged")
    return rows[0]


def _has_ids_of_clients(column: Column) -> bool:
    """Whether it is an id that whoever publishes gives."""
    return column.name == "id" and not column.numbered


def _is_topic(columns: Sequence[Column]) -> bool:
    return bool(columns) and not is_queue(columns)


def empty_fields(columns: Sequence[Column]) -> tuple[Editable, ...]:
    """The columns of a message, for a form that is not filled in."""
    return tuple(Editable(column.name, "", False, "", 1) for column in columns if is_own(column))[:COLUMNS_MAX]


async def message_columns(visit: Visit, queue: QueueName) -> Sequence[Column]:
    """The columns of a queue or a topic; none where the account may not read them. Raises NotFound, DatabaseError."""
    try:
        answer = await visit.session.database.read(f"SELECT * FROM {queue_sql(queue)} LIMIT 0")
    except StatementError:
        await check_exists(visit, queue, or_topic=True)
        return ()
    if not is_queue(answer.columns) and not {column.name for column in answer.columns} >= _OF_A_TOPIC:
        raise NotFound(f"{queue} is no queue and no topic")
    return answer.columns


async def read_composed(visit: Visit) -> Composed:
    """The statement of what is filled in so far."""
    try:
        columns = await message_columns(visit, visit.queue)
        return composed(visit, columns, await _copied(visit, columns))
    except BadInput as error:
        return Composed("", (), str(error))


def composed(visit: Visit, columns: Sequence[Column], copied: Mapping[str, Any]) -> Composed:
    """The statement of the form. Raises BadInput."""
    rows = row_of(visit, columns, copied)
    delay = visit.text("delay", most=_DELAY_MAX).strip()
    sql = f"INSERT INTO {queue_sql(visit.queue)} {rows.sql}{' DELAY %s' if delay else ''}"
    return Composed(sql, (*rows.values, *([delay] if delay else [])))


def row_of(visit: Visit, columns: Sequence[Column], copied: Mapping[str, Any]) -> Composed:
    """The columns and the values of the form, as an INSERT has them. `copied`: the message that the form began with.
    Raises BadInput."""
    types = {column.name: column for column in columns if is_own(column) or _has_ids_of_clients(column)}
    values: dict[str, Key] = {}
    for n in range(1, COLUMNS_MAX + 1):
        name = visit.text(f"column{n}", most=NAME_MAX).strip()
        if name and columns and name not in types:
            raise BadInput(f"column{n}: {name} is no column that a message is published with")
        if name:
            values |= _value(visit, n, name, types.get(name), copied.get(name))
    if not values:
        raise BadInput("fill in at least one column")
    if (priority := requested_priority(visit)) is not None:
        values["priority"] = priority
    names, marks = ", ".join(map(name_sql, values)), ", ".join(map(_mark, values.values()))
    parameters = tuple(each for each in values.values() if isinstance(each, str | bytes))
    return Composed(f"({names}) VALUES ({marks})", parameters)


def _mark(value: Key) -> str:
    """What stands for it in the statement: texts and bytes are parameters."""
    return "NULL" if value is None else str(value) if isinstance(value, int) else "%s"


def _value(visit: Visit, n: int, name: str, column: Column | None, copied: Any) -> dict[str, Key]:
    """What one column gets; empty where it is left out. `column`: None where its type is not known; `copied`: the value
    of the message that is copied, which stays as it is where the form has not changed it."""
    text = visit.text(f"value{n}", most=WHOLE_CHARACTERS * 2)
    how = visit.choice(f"how{n}", (*HOW, COPIED), "")
    before = readable(copied)
    if how == COPIED and not visit.text("copy", most=ID_MAX):
        raise BadInput(f"how{n}: name the message in copy")
    if how == "null" or (how == COPIED and before is None):
        return {name: None}
    if how == COPIED or (before is not None and one_break(text) == one_break(before)):
        if is_cut(copied, before or "", WHOLE_CHARACTERS):
            raise BadInput(f"{name}: it is too long to be copied here")
        return {name: copied if isinstance(copied, bytes) else before}
    if not text and how != "empty":
        return {}
    if before is not None:
        text = with_breaks_of(before, text)
    if column is None or not is_bytes(column):
        return {name: text}
    return {name: bytes_value(name, text) if text.startswith("0x") else text.encode()}


async def publish(visit: Visit) -> Done:
    """Run the statement of the form. Raises BadInput, NotFound, DatabaseError."""
    queue = visit.queue
    columns = await message_columns(visit, queue)
    what = composed(visit, columns, await _copied(visit, columns))
    answer = await visit.session.database.change(what.sql, *what.values)
    id_, where = answer.insert_id, {"db": queue.database, "name": queue.table}
    name = f"message {id_}" if id_ else "a message"
    if _is_topic(columns):
        goto = link("/topic", **where)
    else:
        goto = link("/message", **where, id=id_) if id_ else link("/queue", **where) + "#messages"
    return Done(f"{name} is published in {queue}", goto, without_values(what.sql), {"id": id_ or None}, answer.sql)


ROW_PARAMETERS = (
    Parameter("column1", f"a column of the message, up to column{COLUMNS_MAX}", required=True),
    Parameter("value1", f"its value, up to value{COLUMNS_MAX}; of bytes text, or 0x and hexadecimal digits"),
    Parameter("how1", f"`null` for NULL, `empty` for the empty text, up to how{COLUMNS_MAX}"),
    Parameter("priority", "a whole number; lower goes first"),
)
_PARAMETERS = (
    *QUEUE_PARAMETERS,
    *ROW_PARAMETERS,
    Parameter("delay", "when it is sent: seconds, or 500ms, 30s, 5m; without it, now"),
    Parameter("copy", f"the id of a message: a column with how1 `{COPIED}` gets its value"),
)

PAGES = (Page(read_publish, "A form that publishes a message", "/queue/publish", "publish.html"),)
PARTS_OF_FORMS = (Page(read_composed, "The statement of the form", "/queue/publish/sql", "create_sql.html"),)
ACTIONS = (Action(publish, "Publish a message", "/queue/publish", "/queue/publish", _PARAMETERS, "/queue/publish"),)

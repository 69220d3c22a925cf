"""What of a message may be changed, as a form has it, and the UPDATE that a filled form comes to. Pure.

A browser changes the line breaks of a text, and sends every field, changed or not. So the form carries a digest of each
value: a value with the same digest was not changed by the user; a row with another one was changed by another client.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymysql.constants import FIELD_TYPE

from console.database import Column, name_sql, queue_sql
from console.pages.keyset import Key
from console.pages.messages.message_rows import WHOLE_CHARACTERS, is_bytes, is_cut, is_no_text, readable
from console.pages.messages.message_verbs import Statement
from console.visits import NAME_MAX, BadInput, Visit
from engine.model.queue import SYSTEM_COLUMNS, QueueName
from engine.model.states import MARK, REJECTED_NS, leased

COLUMNS_MAX = 40
"""Of a form: it has four fields for each, of FIELDS_MAX."""

_DEAD_LETTERS_OWN = frozenset(("attempts", "time_dead", "source", "source_id"))
_NO_TEXT = frozenset((FIELD_TYPE.GEOMETRY, FIELD_TYPE.BIT, 242))  # 242: VECTOR
_PRIORITY = re.compile(r"-?[0-9]{1,9}")
_NS = 1_000_000_000
_YEARS = range(2000, 2038)  # those that AT of an INSERT takes


@dataclass(frozen=True, slots=True)
class Editable:
    """One column of the form. `was`: the digest of its value; `closed`: why it cannot be changed here; `whole`: its
    value was read to the end."""

    name: str
    text: str
    null: bool
    was: str
    lines: int
    closed: str = ""
    whole: bool = True


def digest(text: str | None) -> str:
    """Of a value, whatever the line breaks are."""
    plain = "NULL" if text is None else "=" + one_break(text)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def one_break(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def editable(row: Mapping[str, Any], columns: Sequence[Column]) -> tuple[Editable, ...]:
    """The columns of a dead letter that may be edited: the user's own."""
    own = [column for column in columns if is_own(column)]
    return tuple(_editable(column, row[column.name]) for column in own[:COLUMNS_MAX])


def is_own(column: Column) -> bool:
    """Whether it is one of the user's columns."""
    return column.name not in SYSTEM_COLUMNS and column.name not in _DEAD_LETTERS_OWN


def _editable(column: Column, value: Any) -> Editable:
    text = readable(value)
    closed = _closed(column, value, text)
    shown = "" if text is None or closed else text
    whole = text is None or not is_cut(value, text, WHOLE_CHARACTERS)
    lines = min(12, shown.count("\n") + 1)
    return Editable(column.name, shown, text is None, digest(text), lines, closed, whole)


def _closed(column: Column, value: Any, text: str | None) -> str:
    if column.type in _NO_TEXT:
        return "a column of this type is changed in SQL"
    if text is None:
        return ""
    if is_cut(value, text, WHOLE_CHARACTERS):
        kind = "bytes" if isinstance(value, bytes) else "characters"
        return f"it has more than {WHOLE_CHARACTERS} {kind}: change it in SQL"
    if "\0" in text or with_breaks_of(text, one_break(text)) != text:
        return "it has characters that a form cannot carry: change it in SQL"
    return ""


def with_breaks_of(before: str, text: str) -> str:
    """The text with the line breaks of the value before."""
    return text.replace("\n", "\r\n") if "\r\n" in before else text


@dataclass(frozen=True, slots=True)
class Changes:
    """What a form changes: columns with their values; whether `due` is among them."""

    values: Mapping[str, Key]
    moved: bool = False


def changes(visit: Visit, row: Mapping[str, Any], columns: Sequence[Column], *, dead: bool) -> Changes:
    """Of a filled form; of a dead letter also what it consists of. Raises BadInput."""
    values: dict[str, Key] = {}
    names = {column.name for column in columns}
    priority = requested_priority(visit)
    if priority is not None and str(priority) != visit.text("was_priority", most=20):
        values["priority"] = priority
    due, was = visit.text("due", most=40).strip(), visit.text("was_due", most=40).strip()
    # As times: a browser sends 19:00:00 as 19:00.
    moved = bool(due) and (not was or due_ns(due) != due_ns(was))
    if moved:
        if "time_scheduled" in names:
            values["time_scheduled"] = due_ns(due)
        values["time_next"] = due_ns(due)
    shown = {each.name: each for each in editable(row, columns)} if dead else {}
    types = {column.name: column for column in columns}
    for n in range(1, COLUMNS_MAX + 1):
        name = visit.text(f"column{n}", most=NAME_MAX)
        if name:
            values |= _body(visit, n, name, shown, types, row)
    return Changes(values, moved)


def requested_priority(visit: Visit) -> int | None:
    """That of a form; None: none is given. Raises BadInput."""
    priority = visit.text("priority", most=20).strip()
    if priority and not _PRIORITY.fullmatch(priority):
        raise BadInput("priority: is not a whole number")
    return int(priority) if priority else None


def _body(
    visit: Visit, n: int, name: str, shown: Mapping[str, Editable], types: Mapping[str, Column], row: Mapping[str, Any]
) -> dict[str, Key]:
    """The change of one column of the form; empty where it was left as it was."""
    if name not in shown:
        raise BadInput(f"column{n}: {name} is not a column of a dead letter that can be edited")
    null = visit.choice(f"null{n}", ("", "null"), "") == "null"
    text = None if null else visit.text(f"value{n}", most=WHOLE_CHARACTERS * 2)
    was = visit.text(f"was{n}", most=NAME_MAX)
    if was and digest(text) == was:
        return {}
    now = shown[name]
    if now.closed:
        raise BadInput(f"{name}: {now.closed}")
    if was and was != now.was:
        raise BadInput(f"{name}: another client has changed it meanwhile; reload the form")
    if was and text is not None:
        text = with_breaks_of(readable(row[name]) or "", one_break(text))
    return {name: None if text is None else _value(name, text, types[name], row[name])}


def _value(name: str, text: str, column: Column, before: Any) -> Key:
    if not is_bytes(column):
        return text
    if not is_no_text(before):
        return text.encode()
    return bytes_value(name, text)


def bytes_value(name: str, text: str) -> bytes:
    """Of hexadecimal digits. Raises BadInput."""
    try:
        return bytes.fromhex(text.strip().removeprefix("0x"))
    except ValueError:
        raise BadInput(f"{name}: it has bytes: give 0x and hexadecimal digits") from None


def due_ns(text: str) -> int:
    """A date and time in UTC, in nanoseconds. Raises BadInput."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput("due: is not a date and time such as 2026-12-24 18:00:00 (UTC)") from None
    if at.tzinfo is not None or at.year not in _YEARS:
        raise BadInput(f"due: is not a time in UTC of the years {_YEARS.start} to {_YEARS.stop - 1}")
    micros = round((at - datetime(1970, 1, 1)).total_seconds() * 1_000_000)
    return micros * 1000


def due_text(ns: int | None) -> str:
    """The inverse, to the second."""
    return "" if not ns else datetime.fromtimestamp(ns // _NS, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def update(queue: QueueName, key: Key, what: Changes, epoch: int | None, now_ns: int) -> Statement:
    """The UPDATE of one message, if it is not acked; of its time, if no receiver holds it. `epoch`: its deliveries when
    the form was shown."""
    assigned = ", ".join(f"{name_sql(name)} = %s" for name in what.values)
    where, values = "id = %s AND time_acked IS NULL", [key]
    if epoch is not None:
        where += " AND epoch = %s"
        values.append(epoch)
    where += f" AND COALESCE(time_next, 0) <> {REJECTED_NS}"
    if what.moved:
        leased_now = f"epoch > 0 AND time_next > {now_ns} AND {leased(MARK)}"
        where += f" AND NOT COALESCE({leased_now}, FALSE)"
    return Statement(f"UPDATE {queue_sql(queue)} SET {assigned} WHERE {where}", (*what.values.values(), *values))

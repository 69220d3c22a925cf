"""Rows of a queue's table as messages, and the SELECTs that read them: some of a state, or one whole. Pure.

A body may have gigabytes: of a list the first LISTED_CHARACTERS of each column are read, of one message the first
WHOLE_CHARACTERS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymysql.constants import FIELD_TYPE

from console.database import Column, name_sql, queue_sql
from console.pages.keyset import Key, Ordered, decimal_of, key_of
from console.visits import BadInput
from engine.model.attempts import failures
from engine.model.lease_token import TOKEN_COLUMN
from engine.model.queue import SYSTEM_COLUMNS, QueueName
from engine.model.states import MARK, REJECTED_NS, due, in_flight, leased, not_set_aside, state_of

STATES = ("unacked", "ready", "in_flight", "later", "retrying", "scheduled", "parked", "acked", "all")
LISTED_CHARACTERS = 120
WHOLE_CHARACTERS = 65_536

_LONG = frozenset((
    FIELD_TYPE.TINY_BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB, FIELD_TYPE.BLOB, FIELD_TYPE.JSON,
    FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING,
))  # fmt: skip
_WHOLE_NUMBERS = frozenset((FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.INT24))
_QUEUES_OWN = frozenset(("id", "time_next", "time_acked", "epoch"))
_TIMES = frozenset(("time_scheduled", "time_next", "time_created", "time_acked", "time_dead"))

NOW = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000 AS now_ns"


@dataclass(frozen=True, slots=True)
class Value:
    """One column of a message. `text`: as people read it; `time_ns`: where it is a time; `cut`: it is longer."""

    name: str
    text: str | None
    time_ns: int | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One row. `id`: as addresses have it. `due_ns`: when it may be sent, or sent again. `lease_token`: 0 without."""

    id: str
    state: str
    epoch: int
    due_ns: int | None
    last_error: str | None
    columns: tuple[Value, ...]
    lease_token: int = 0


def is_queue(columns: Sequence[Column]) -> bool:
    """Whether these are columns of a queue's table."""
    return {column.name for column in columns} >= _QUEUES_OWN


def condition(state: str, now_ns: int) -> str:
    """Which messages are in that state, as SQL in which `%` stands twice."""
    return _condition(state, now_ns).replace("%", "%%")


def _condition(state: str, now_ns: int) -> str:
    waits = f"(time_acked IS NULL AND time_next > {now_ns} AND {not_set_aside()})"
    match state:
        case "ready":
            return f"time_acked IS NULL AND {due(str(now_ns))}"
        case "in_flight":
            return in_flight(str(now_ns), MARK)
        case "later":
            return f"{waits} AND (COALESCE(epoch, 0) = 0 OR NOT ({leased(MARK)}))"
        case "retrying":
            return f"{waits} AND epoch > 0 AND NOT ({leased(MARK)})"
        case "scheduled":
            return f"{waits} AND COALESCE(epoch, 0) = 0"
        case "parked":
            return f"time_acked IS NULL AND time_next >= {REJECTED_NS}"
        case "acked":
            return "time_acked IS NOT NULL"
        case "unacked":
            return "time_acked IS NULL"
        case _:
            return "1 = 1"


def order(state: str, columns: Sequence[Column]) -> tuple[Ordered, ...]:
    """The order in which an index has them: that of delivery; of acked ones, and of all, the newest first."""
    if state == "all":
        return (Ordered("id", descending=True),)
    names = [name for name in ("priority", "time_next", "id") if name in {column.name for column in columns}]
    if state == "acked":
        return tuple(Ordered(name, descending=True) for name in ("time_acked", *names))
    return tuple(map(Ordered, names))


def listed(column: Column, characters: int) -> str:
    """A column of a SELECT, its first characters where it may be long."""
    name = name_sql(column.name)
    if column.type in _LONG and column.name != "id" and column.name != "failed_attempts":
        return f"SUBSTRING({name}, 1, {characters + 1}) AS {name}"
    return name


def shown(columns: Sequence[Column]) -> list[Column]:
    """The columns of a list: the user's own, and those by which a message is known and ordered."""
    wanted = {"id", "priority", "time_next", "time_acked", "epoch", "state", "last_error", TOKEN_COLUMN}
    return [column for column in columns if column.name in wanted or column.name not in SYSTEM_COLUMNS]


def system_columns(columns: Sequence[Column]) -> str:
    """Of a SELECT: the columns that decide the state of a message."""
    wanted = ("id", "time_next", "time_acked", "epoch", "state")
    return ", ".join(name_sql(column.name) for column in columns if column.name in wanted)


def message(row: Mapping[str, Any], now_ns: int, characters: int) -> Message:
    """Of a row."""
    own = {key: value for key, value in row.items() if key in SYSTEM_COLUMNS}
    next_ns, token = own.get("time_next"), own.get(TOKEN_COLUMN)
    return Message(
        id=id_text(own.get("id")),
        state=state_of(own, now_ns),
        epoch=int(own.get("epoch") or 0),
        due_ns=next_ns if next_ns and next_ns < REJECTED_NS and own.get("time_acked") is None else None,
        last_error=readable(own.get("last_error")),
        columns=tuple(value(key, raw, characters) for key, raw in row.items() if key not in SYSTEM_COLUMNS),
        lease_token=token if isinstance(token, int) else 0,
    )


def value(name: str, raw: Any, characters: int) -> Value:
    """One column."""
    if name in _TIMES and isinstance(raw, int):
        return Value(name, str(raw), raw if 0 < raw < REJECTED_NS else None)
    text = readable(raw)
    if text is None or not is_cut(raw, text, characters):
        return Value(name, text)
    if isinstance(raw, bytes):
        text = _beginning(raw[:characters])
    return Value(name, text[:characters], cut=True)


def is_cut(raw: Any, text: str, characters: int) -> bool:
    """Whether `listed` has read only a part of it: SUBSTRING counts bytes where a column has bytes."""
    return len(text) > characters or (isinstance(raw, bytes) and len(raw) > characters)


def _beginning(raw: bytes) -> str:
    """The beginning of bytes as people read it: the last character may be cut."""
    for cut in range(4):
        try:
            return raw[: len(raw) - cut].decode()
        except UnicodeDecodeError:
            continue
    return f"0x{raw.hex()}"


def attempts(row: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The failed attempts of a row, the oldest first."""
    stored = readable(row.get("failed_attempts"))
    return tuple(failures(stored)) if stored else ()


def readable(raw: Any) -> str | None:
    """A value as people read it; of bytes that are no text their hexadecimal digits."""
    match raw:
        case None:
            return None
        case bytes():
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return f"0x{raw.hex()}"
        case _:
            return str(key_of(raw))


def id_text(raw: Any) -> str:
    """An id for an address: text as it is, bytes in hexadecimal."""
    return f"0x{raw.hex()}" if isinstance(raw, bytes) else str(key_of(raw))


def id_value(text: str, columns: Sequence[Column]) -> Key:
    """The inverse, by the type of the column `id`. Raises BadInput."""
    column = next((column for column in columns if column.name == "id"), None)
    if column is None:
        return text
    if column.type in _WHOLE_NUMBERS:
        if not re.fullmatch(r"-?[0-9]{1,20}", text):
            raise BadInput("id: the ids of this queue are whole numbers")
        return int(text)
    if column.type in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
        try:
            return decimal_of(text)
        except ValueError:
            raise BadInput("id: the ids of this queue are decimal numbers") from None
    if column.binary and column.type in _LONG:
        try:
            return bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            raise BadInput("id: the ids of this queue are bytes: give 0x and hexadecimal digits") from None
    return text


def is_no_text(raw: Any) -> bool:
    """Whether these are bytes that are shown as hexadecimal digits."""
    if isinstance(raw, bytes):
        try:
            raw.decode()
        except UnicodeDecodeError:
            return True
    return False


def is_bytes(column: Column) -> bool:
    """Whether its values are bytes, not text."""
    return column.binary and column.type in _LONG and column.type != FIELD_TYPE.JSON


def guessed_id(text: str) -> Key:
    """The same where the account may not read the table, so that its type is not known."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else text


def select(queue: QueueName, columns: Sequence[Column], characters: int, where: str, rest: str) -> str:
    """A SELECT of some columns."""
    names = ", ".join(listed(column, characters) for column in columns)
    return f"SELECT {names} FROM {queue_sql(queue)} WHERE {where} {rest}"

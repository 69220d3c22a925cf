"""Schedules: recurring messages. The content of a row of SCHEDULES_TABLE, as frozen values, and how it is parsed.

Each database has its own table, and any account with the privilege may write to it: nothing in a row is trusted. The
values of a message are stored as data, never as SQL, and become SQL by the functions that quote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.model.errors import EngineError, InvalidOption
from engine.model.option_values import NS_PER_SECOND, OptionValue, is_name, parse_duration
from engine.model.queue import QueueName

SCHEDULES_TABLE = "queuegate_schedules"
"""The schedules of a database, one row each."""

SCHEDULES_MARK = "queuegate_schedules"
"""What the COMMENT of that table begins with."""

VALUES_MAX_BYTES = 64 * 1024
"""Of a schedule's values, as its row holds them. They are read at each tick."""

LATE_NS = 60 * NS_PER_SECOND
"""A tick that is sent within this time was late, after it it was missed: longer than another proxy takes over."""

CRON_MAX_CHARACTERS = 255
EVERY_NS_MIN = NS_PER_SECOND
_MILLISECOND_NS = 1_000_000
_TIME_MAX_NS = (1 << 63) - 1
_NUMBER = re.compile(r"-?(?:\d{1,100}(?:\.\d{0,100})?|\.\d{1,100})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_REASONS = frozenset(
    (
        "a value is no number",
        "a value is of no known kind",
        "no list of values",
        "no list of columns",
        "next_tick is no time",
        "every_ns is too short",
    )
)
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


class Missed(Enum):
    """How missed ticks are handled: no message, one for all of them, or one for each."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class SpecialValue(Enum):
    """Keywords for a value: the column's default, and the time of the tick in nanoseconds."""

    DEFAULT = "DEFAULT"
    TICK = "TICK"


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written."""

    text: str

    def __post_init__(self) -> None:
        if _NUMBER.fullmatch(self.text) is None:
            raise ValueError("a value is no number")


Value = str | bytes | bool | Number | SpecialValue | None
"""A value of a message."""


@dataclass(frozen=True, slots=True)
class Cron:
    """At the times that five fields name, in a time zone."""

    text: str
    zone: str

    def __str__(self) -> str:
        return f"CRON '{self.text}'"


@dataclass(frozen=True, slots=True)
class Every:
    """At each multiple of so many nanoseconds since 1970-01-01 00:00 UTC."""

    ns: int

    def __str__(self) -> str:
        return f"EVERY '{every_text(self.ns)}'"


Rule = Cron | Every
"""When a schedule ticks."""


@dataclass(frozen=True, slots=True, order=True)
class ScheduleName:
    """A schedule, by the database of its queue and by its name. Compared exactly."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def table(self) -> QueueName:
        """The table that it is a row of."""
        return schedules_table(self.database)


def schedules_table(database: str) -> QueueName:
    """The table of a database's schedules."""
    return QueueName(database, SCHEDULES_TABLE)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A row of the table. Times in nanoseconds; `next_ns`: the next tick; `last_ns`: the last one that was sent.
    `changed_ns` tells one definition from the next. `problem`: why its ticks cannot be sent, empty where they can."""

    name: ScheduleName
    queue: QueueName
    rule: Rule
    missed: Missed
    paused: bool
    next_ns: int
    last_ns: int | None
    problem: str
    created_by: str
    created_ns: int
    changed_ns: int
    columns: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that is no schedule, and why."""

    name: ScheduleName
    next_ns: int
    reason: str


class InvalidSchedule(EngineError):
    """A row of the table that is no schedule, or a schedule whose message cannot be built."""

    errno = 1231


@dataclass(frozen=True, slots=True)
class Insertion:
    """Messages to be added to a queue or topic: the same columns in each row."""

    target: QueueName
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


MakeInsert = Callable[[Insertion, bool], Awaitable[Callable[[Any], object]]]
"""From messages to what adds them, on a StoreConnection and in its transaction. The other argument: whether it may wait
for a lock that a client has. Raises BackendError."""


# --- values as text


def values_text(values: tuple[Value, ...]) -> str:
    """The values as stored in the table: JSON, in ASCII."""
    return json.dumps([_as_json(value) for value in values], separators=(",", ":"))


def _as_json(value: Value) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return {"s": value}
        case bytes():
            return {"x": value.hex()}
        case Number(text):
            return {"n": text}
        case SpecialValue():
            return {"w": value.value}


def read_values(text: str) -> tuple[Value, ...]:
    """The inverse of `values_text`. Raises ValueError where it is none."""
    items = json.loads(text)
    if not isinstance(items, list):
        raise ValueError("no list of values")
    return tuple(_value(item) for item in items)


def _value(item: Any) -> Value:
    if item is None or isinstance(item, bool):
        return item
    if isinstance(item, dict) and len(item) == 1:
        ((kind, content),) = item.items()
        if isinstance(content, str):
            match kind:
                case "s":
                    content.encode()  # half a character is none
                    return content
                case "x":
                    return bytes.fromhex(content)
                case "n":
                    return Number(content)
                case "w":
                    return SpecialValue(content)
    raise ValueError("a value is of no known kind")


def columns_text(columns: tuple[str, ...]) -> str:
    """Names of columns as stored in the table."""
    return json.dumps(columns, separators=(",", ":"))


def read_columns(text: str) -> tuple[str, ...]:
    """The inverse of `columns_text`. Raises ValueError where it is none."""
    names = json.loads(text)
    if not isinstance(names, list) or not all(isinstance(name, str) and is_name(name) for name in names):
        raise ValueError("no list of columns")
    return tuple(names)


# --- parsing of rules and options


def read_every(value: OptionValue) -> Every:
    """EVERY's duration. Raises InvalidOption where it is none, or too short."""
    ns = parse_duration("EVERY", value)
    if ns < EVERY_NS_MIN or ns % _MILLISECOND_NS:
        raise InvalidOption(f"EVERY: '{value}' is not a duration of at least 1s, in whole milliseconds")
    return Every(ns)


def every_text(ns: int) -> str:
    """A duration in the largest unit of which it is a whole number."""
    for unit, seconds in _UNITS:
        if ns % (seconds * NS_PER_SECOND) == 0:
            return f"{ns // (seconds * NS_PER_SECOND)}{unit}"
    return f"{ns // _MILLISECOND_NS}ms"


def read_missed(value: OptionValue) -> Missed:
    """The option `missed`. Raises InvalidOption."""
    try:
        return Missed(str(value).strip().lower())
    except ValueError:
        raise InvalidOption(f"missed: '{value}' is none of {', '.join(one.value for one in Missed)}") from None


# --- rows

SUMMARY_COLUMNS = (
    "name",
    "queue_name",
    "cron",
    "every_ns",
    "time_zone",
    "missed",
    "paused",
    "next_tick",
    "last_tick",
    "problem",
    "created_by",
    "time_created",
    "time_changed",
)
"""Of the table, without what a message is made of."""

ALL_COLUMNS = (*SUMMARY_COLUMNS, "column_names", "row_values")


def read_schedule(database: str, row: tuple[Any, ...]) -> Schedule | Unreadable:
    """A row of SUMMARY_COLUMNS or ALL_COLUMNS, with numbers as int and texts as str."""
    name, queue, cron, every, zone, missed, paused, next_ns, last_ns, problem, by, created, changed, *message = row
    known = ScheduleName(database, str(name))
    try:
        if not 0 <= int(next_ns) <= _TIME_MAX_NS:
            raise ValueError("next_tick is no time")
        rule: Rule = Cron(str(cron), str(zone or "UTC")) if cron is not None else Every(_every_ns(every))
        return Schedule(
            known,
            QueueName(database, str(queue)),
            rule,
            Missed(missed),
            bool(paused),
            int(next_ns),
            None if last_ns is None else int(last_ns),
            str(problem or ""),
            str(by or ""),
            int(created),
            int(changed),
            read_columns(message[0]) if message else (),
            read_values(message[1]) if message else (),
        )
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        return Unreadable(known, 0, f"its row in {SCHEDULES_TABLE} cannot be read ({_why(error)})")


def _why(error: Exception) -> str:
    """Without what the row holds."""
    plain = type(error) is ValueError and str(error) in _REASONS
    return str(error) if plain else "a value of another kind than is wanted"


def _every_ns(value: Any) -> int:
    ns = int(value)
    if ns < EVERY_NS_MIN:
        raise ValueError("every_ns is too short")
    return ns

"""What a schedule sends: its values, and the time of the tick in the columns that say when a message is due. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.queue import SEQUENCE_COLUMN, SOUGHT_COLUMN, SYSTEM_COLUMNS, Layout, QueueSpec, TopicSpec
from engine.model.schedules import Insertion, InvalidSchedule, Number, Schedule, SpecialValue, Value

_RESERVED_COLUMNS = (*(name for name in SYSTEM_COLUMNS if name != "priority"), SEQUENCE_COLUMN, SOUGHT_COLUMN)
"""Columns that no schedule gives: the database or the proxy does."""


def own_columns(target: QueueSpec | TopicSpec) -> tuple[str, ...]:
    """The columns that VALUES without a list of columns is for: the user's own, in the table's order."""
    names = (column.name for column in target.columns)
    return tuple(
        n for n in names if n.lower() not in (*_RESERVED_COLUMNS, "priority") and n.lower() not in target.generated
    )


def check_columns(columns: Sequence[str], values: Sequence[Value]) -> None:
    """Raises InvalidSchedule where such columns cannot be given, or not these values."""
    if len(columns) != len(values):
        raise InvalidSchedule("Column count doesn't match value count at row 1", 1136)
    for column in columns:
        if column.lower() in _RESERVED_COLUMNS:
            raise InvalidSchedule(f"a schedule cannot give {column}: leave it out", 1235)


def insertion(schedule: Schedule, target: QueueSpec | TopicSpec, ticks: Sequence[int], now_ns: int) -> Insertion:
    """The messages of these ticks. Raises InvalidSchedule."""
    check_columns(schedule.columns, schedule.values)
    has = {column.name.lower() for column in target.columns}
    times = [name for name in ("time_scheduled", "time_next") if name in has]
    system_values: dict[str, Value] = {}
    if isinstance(target, QueueSpec) and target.layout is Layout.LEGACY:
        system_values = {"epoch": Number("0"), "time_created": Number(str(now_ns))}
    rows = tuple(
        (*(_at(value, tick) for value in schedule.values), *(Number(str(tick)) for _ in times), *system_values.values())
        for tick in ticks
    )
    return Insertion(target.name, (*schedule.columns, *times, *system_values), rows)


def _at(value: Value, tick_ns: int) -> Value:
    return Number(str(tick_ns)) if value is SpecialValue.TICK else value

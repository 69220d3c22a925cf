"""The plan of a write, made before its tasks start: columns, conversions of their values, and the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spark_connector.client.columns import Column, Field
from spark_connector.client.queue import NUMBER, Queue
from spark_connector.errors import OptionError, QueueError, SchemaError
from spark_connector.mysql_client.driver import quoted
from spark_connector.values.fitting import Target, fitted

# A queue's own columns without defaults in Vitess's first layout, and their values in a new message.
_BEGINNINGS: Mapping[str, Literal["now", "zero"]] = {
    "time_scheduled": "now", "time_next": "now", "time_created": "now", "epoch": "zero",
}  # fmt: skip

_ID = "id"


@dataclass(frozen=True)
class Filled:
    """A column without a default that is not in the DataFrame; `like`: the name of a column whose values it gets."""

    column: Column
    value: Literal["now", "zero"]
    like: str | None = None


@dataclass(frozen=True)
class WritePlan:
    """Pickled into each task."""

    queue: str  # its name, or that of the topic
    targets: tuple[Target, ...]  # for each column of the DataFrame, in its order
    filled: tuple[Filled, ...]
    key: tuple[str, ...]  # columns that identify a message; none: every row is a message
    label: str  # kind and name, for error messages

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that are written."""
        return (*(target.column for target in self.targets), *(filled.column for filled in self.filled))

    @property
    def names(self) -> str:
        """Their names as an SQL list."""
        return ", ".join(quoted(column.name) for column in self.columns)

    @property
    def on_duplicate(self) -> str:
        """The end of an INSERT: an existing message is not changed. IGNORE would hide other errors."""
        if not self.key:
            return ""
        column = quoted(self.queue, self.key[0])
        return f" ON DUPLICATE KEY UPDATE {column} = {column}"


def plan(queue: Queue, fields: Sequence[Field], key: str | None) -> WritePlan:
    """How rows of these fields become messages. Raises SchemaError, OptionError and QueueError."""
    if queue.topic is not None:
        raise QueueError(f"queue {queue.name} is fed from its topic: write into topic {queue.topic}")
    targets = tuple(fitted(field, _column(queue, field.name), queue.label) for field in fields)
    written = [target.column.name for target in targets]
    if not written:
        raise SchemaError("the DataFrame has no columns: give it those of the queue's that are to be written")
    for name in written:
        if queue.is_topic and name.lower() == _ID:
            raise SchemaError(f"{queue.label} gives its messages their ids, in order: leave column {name} out")
        if queue.sequenced and name.lower() == NUMBER:
            raise SchemaError(f"the proxy gives the messages of {queue.label} their numbers: leave column {name} out")
        if written.count(name) > 1:
            raise SchemaError(f"the DataFrame has column {name} twice; names of columns are the same in any case")
    filled = _filled(queue, written)
    _check_all_written(queue, [*written, *(one.column.name for one in filled)])
    columns = _key(queue, key, written) if key else ()
    targets = tuple(replace(target, key=target.column.name in columns) for target in targets)
    return WritePlan(queue.name, targets, filled, columns, queue.label)


def _column(queue: Queue, name: str) -> Column:
    if not queue.has(name):
        names = ", ".join(column.name for column in queue.columns if not column.generated)
        raise SchemaError(
            f"{queue.label} has no column {name}: drop it, or rename it to the one it is meant for "
            f"(withColumnRenamed); it has {names}"
        )
    return queue.column(name)


def _filled(queue: Queue, written: Sequence[str]) -> tuple[Filled, ...]:
    """Values for missing columns. `time_next` is `time_scheduled`, as in its usual default."""
    scheduled = next((name for name in written if name.lower() == "time_scheduled"), None)
    filled = []
    for column in queue.columns:
        name = column.name.lower()
        if name in _BEGINNINGS and column.base == "bigint" and column.name not in written and not column.default:
            filled.append(Filled(column, _BEGINNINGS[name], scheduled if name == "time_next" else None))
    return tuple(filled)


def _check_all_written(queue: Queue, written: Sequence[str]) -> None:
    for column in queue.columns:
        has_value = column.nullable or column.default or column.auto or column.generated
        if not has_value and column.name not in written:
            raise SchemaError(
                f"column {column.name} ({column.type}) of {queue.label} has no default and may not be NULL, "
                "and the DataFrame has no such column"
            )


def _key(queue: Queue, names: str, written: Sequence[str]) -> tuple[str, ...]:
    columns = tuple(queue.column(name.strip()).name for name in names.split(","))
    for name in columns:
        if name not in written:
            raise OptionError(f"option keyColumn names {name}, which is not a column of the DataFrame")
    if not any(set(unique) == set(columns) for unique in queue.unique):
        keys = "; ".join(", ".join(unique) for unique in queue.unique)
        raise OptionError(
            f"option keyColumn names {', '.join(columns)}, on which {queue.label} has no unique key; it has "
            f"unique keys on {keys}. Make one, as by CREATE UNIQUE INDEX ... ON {queue.name} ({', '.join(columns)})"
        )
    if queue.unique_in_part:
        raise OptionError(
            f"option keyColumn cannot be used: {', '.join(queue.unique_in_part)} of {queue.label} is a unique key "
            "of a part of a column or of an expression, and a row that is refused for it would be passed over"
        )
    for unique in queue.unique:
        if not set(columns) <= set(unique) and _may_collide(queue, unique, written):
            raise OptionError(
                f"option keyColumn names {', '.join(columns)}, but {', '.join(unique)} is unique too: "
                "a row that is refused for that one would be passed over. Name that key, or leave its columns out"
            )
    return columns


def _may_collide(queue: Queue, unique: Sequence[str], written: Sequence[str]) -> bool:
    """False if a part of the key is always new, or always NULL."""
    absent = [queue.column(name) for name in unique if name not in written]
    return not any(column.auto or (column.nullable and not column.default) for column in absent)
